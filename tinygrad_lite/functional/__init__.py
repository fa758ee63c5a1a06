"""Functions of tensors under PyTorch's names, one file a family: `tinygrad_lite.X`, `Tensor.X`, `nn.functional.X`."""

from tinygrad_lite.functional import (
    activations,
    contraction,
    control,
    convolution,
    ctc,
    decomposition,
    diagonals,
    distances,
    dropouts,
    indexing,
    joining,
    losses,
    movement,
    nn,
    normalization,
    padding,
    pointwise,
    pooling,
    reduction,
    resampling,
    sorting,
    statistics,
    transcendental,
)
from tinygrad_lite.functional.activations import *  # noqa: F403
from tinygrad_lite.functional.casting import casting
from tinygrad_lite.functional.common import numpy_names
from tinygrad_lite.functional.contraction import *  # noqa: F403
from tinygrad_lite.functional.control import *  # noqa: F403
from tinygrad_lite.functional.convolution import *  # noqa: F403
from tinygrad_lite.functional.ctc import *  # noqa: F403
from tinygrad_lite.functional.decomposition import *  # noqa: F403
from tinygrad_lite.functional.diagonals import *  # noqa: F403
from tinygrad_lite.functional.distances import *  # noqa: F403
from tinygrad_lite.functional.dropouts import *  # noqa: F403
from tinygrad_lite.functional.indexing import *  # noqa: F403
from tinygrad_lite.functional.joining import *  # noqa: F403
from tinygrad_lite.functional.losses import *  # noqa: F403
from tinygrad_lite.functional.movement import *  # noqa: F403
from tinygrad_lite.functional.nn import *  # noqa: F403
from tinygrad_lite.functional.normalization import *  # noqa: F403
from tinygrad_lite.functional.padding import *  # noqa: F403
from tinygrad_lite.functional.pointwise import *  # noqa: F403
from tinygrad_lite.functional.pooling import *  # noqa: F403
from tinygrad_lite.functional.reduction import *  # noqa: F403
from tinygrad_lite.functional.resampling import *  # noqa: F403
from tinygrad_lite.functional.sorting import *  # noqa: F403
from tinygrad_lite.functional.statistics import *  # noqa: F403
from tinygrad_lite.functional.transcendental import *  # noqa: F403

__all__ = [
    *activations.__all__,
    *contraction.__all__,
    *control.__all__,
    *convolution.__all__,
    *decomposition.__all__,
    *ctc.__all__,
    *diagonals.__all__,
    *distances.__all__,
    *dropouts.__all__,
    *indexing.__all__,
    *joining.__all__,
    *losses.__all__,
    *movement.__all__,
    *nn.__all__,
    *normalization.__all__,
    *padding.__all__,
    *pointwise.__all__,
    *pooling.__all__,
    *reduction.__all__,
    *resampling.__all__,
    *sorting.__all__,
    *statistics.__all__,
    *transcendental.__all__,
]

_FAMILIES = (
    activations,
    contraction,
    control,
    convolution,
    ctc,
    decomposition,
    diagonals,
    distances,
    dropouts,
    indexing,
    joining,
    losses,
    movement,
    nn,
    normalization,
    padding,
    pointwise,
    pooling,
    reduction,
    resampling,
    sorting,
    statistics,
    transcendental,
)
for _family in _FAMILIES:
    for _name in _family.__all__:
        setattr(_family, _name, casting(_name, numpy_names(getattr(_family, _name))))
        globals()[_name] = getattr(_family, _name)
