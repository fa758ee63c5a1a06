"""The functions of torch.nn.functional, from where they are defined."""

from tinygrad_lite.functional import activations as _activations
from tinygrad_lite.functional import convolution as _convolution
from tinygrad_lite.functional import ctc as _ctc
from tinygrad_lite.functional import distances as _distances
from tinygrad_lite.functional import dropouts as _dropouts
from tinygrad_lite.functional import embedding, linear, one_hot, pad, sigmoid, tanh
from tinygrad_lite.functional import losses as _losses
from tinygrad_lite.functional import nn as _nn
from tinygrad_lite.functional import normalization as _normalization
from tinygrad_lite.functional import pooling as _pooling
from tinygrad_lite.functional import resampling as _resampling
from tinygrad_lite.functional.activations import *  # noqa: F403
from tinygrad_lite.functional.convolution import *  # noqa: F403
from tinygrad_lite.functional.ctc import *  # noqa: F403
from tinygrad_lite.functional.distances import *  # noqa: F403
from tinygrad_lite.functional.dropouts import *  # noqa: F403
from tinygrad_lite.functional.losses import *  # noqa: F403
from tinygrad_lite.functional.nn import *  # noqa: F403
from tinygrad_lite.functional.normalization import *  # noqa: F403
from tinygrad_lite.functional.pooling import *  # noqa: F403
from tinygrad_lite.functional.resampling import *  # noqa: F403
from tinygrad_lite.nn.fractional import (
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
)

__all__ = [
    "embedding",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "linear",
    "one_hot",
    "pad",
    "sigmoid",
    "tanh",
    *_activations.__all__,
    *_convolution.__all__,
    *_ctc.__all__,
    *_distances.__all__,
    *_dropouts.__all__,
    *_losses.__all__,
    *_nn.__all__,
    *_normalization.__all__,
    *_pooling.__all__,
    *_resampling.__all__,
]
