"""Layers that learn their input's size from their first input, and are the plain layers from then on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tinygrad_lite.ir.record import mode
from tinygrad_lite.nn import init
from tinygrad_lite.nn.batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from tinygrad_lite.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    check_options,
)
from tinygrad_lite.nn.linear import Linear
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.parameter import Uninitialized, UninitializedBuffer, UninitializedParameter
from tinygrad_lite.tensor import Tensor


class Lazy(Module):
    """Base of lazy layers: the first call gives parameters their shapes and values, and the layer its plain class.

    Until then parameters and buffers are UninitializedParameter and UninitializedBuffer: they may be given to an
    optimizer, saved, loaded into and converted; all else raises RuntimeError. A loaded layer becomes plain at its first
    call too. Inside tl.compile that call happens while recording, once.
    """

    cls_to_become: ClassVar[type[Module]]
    size_name: ClassVar[str]  # the attribute that the input decides

    def __init__(self, *plain: Any, dtype: Any = None, **options: Any) -> None:
        """Takes the arguments of the plain layer, its input's size as 0."""
        with init.skip_random():
            super().__init__(*plain, dtype=dtype, **options)
        for name in self._shapes():
            if self._parameters.get(name) is not None:
                self._parameters[name] = UninitializedParameter(dtype=dtype)
            elif self._buffers.get(name) is not None:
                self._buffers[name] = UninitializedBuffer(dtype=dtype)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with mode.eager():
            self.initialize_parameters(*args, **kwargs)
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        self._changed()
        if hasattr(mode.trace, "modules"):
            mode.trace.modules.pop(id(self), None)  # what was noted when its parent was called holds no longer
        return self(*args, **kwargs)

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this layer still has no shape."""
        own = (*self._parameters.values(), *self._buffers.values())
        return any(isinstance(t, Uninitialized) for t in own)

    def initialize_parameters(self, input: Tensor, *rest: Any, **options: Any) -> None:
        """Take the size of the input, and draw the initial values unless they were loaded."""
        fresh = self.has_uninitialized_params()
        if fresh or getattr(self, self.size_name) == 0:
            setattr(self, self.size_name, self._size_of(input))
        if not fresh:
            return
        for name, shape in self._shapes().items():
            waiting = getattr(self, name)
            if isinstance(waiting, Uninitialized):
                waiting.materialize(shape)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values again; nothing happens before the first call."""
        if not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def _size_of(self, input: Tensor) -> int:
        raise NotImplementedError

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of parameters and buffers, by name, given the size."""
        raise NotImplementedError


class LazyLinear(Lazy, Linear):
    """Linear that takes in_features from its first input; see Lazy."""

    cls_to_become = Linear
    size_name = "in_features"

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, out_features, bias, device=device, dtype=dtype)

    def _size_of(self, input: Tensor) -> int:
        return input.shape[-1]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}


class _LazyConv(Lazy):
    size_name = "in_channels"
    # What the plain layers that this is mixed into have.
    dims: int
    in_channels: int
    out_channels: int
    _weight_shape: Any

    def _size_of(self, input: Tensor) -> int:
        if input.dim() not in (self.dims + 1, self.dims + 2):
            raise RuntimeError(
                f"{type(self).__name__}: expected {self.dims + 1}D (unbatched) or {self.dims + 2}D (batched) input, "
                f"got {input.dim()}D"
            )
        channels = input.shape[-self.dims - 1]
        options = (self.groups, self.padding, self.stride, self.padding_mode)
        check_options(channels, self.out_channels, *options)
        return channels

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": self._weight_shape(), "bias": (self.out_channels,)}


class _LazyDirect(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str | int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = (stride, padding, dilation, groups, bias, padding_mode)
        super().__init__(0, out_channels, kernel_size, *options, device=device, dtype=dtype)


class LazyConv1d(_LazyDirect, Conv1d):
    """Conv1d that takes in_channels from its first input; see Lazy."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyDirect, Conv2d):
    """Conv2d that takes in_channels from its first input; see Lazy."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyDirect, Conv3d):
    """Conv3d that takes in_channels from its first input; see Lazy."""

    cls_to_become = Conv3d


class _LazyTransposed(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = (stride, padding, output_padding, groups, bias, dilation, padding_mode)
        super().__init__(0, out_channels, kernel_size, *options, device=device, dtype=dtype)


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """ConvTranspose1d that takes in_channels from its first input; see Lazy."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """ConvTranspose2d that takes in_channels from its first input; see Lazy."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """ConvTranspose3d that takes in_channels from its first input; see Lazy."""

    cls_to_become = ConvTranspose3d


class _LazyNorm(Lazy):
    size_name = "num_features"
    # What the plain layers that this is mixed into have.
    num_features: int
    ranks: tuple[int, ...]
    _check: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        options = (eps, momentum, affine, track_running_stats)
        super().__init__(0, *options, device=device, dtype=dtype, bias=bias)

    def _size_of(self, input: Tensor) -> int:
        self._check(input)
        return input.shape[1]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,))


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """BatchNorm1d that takes num_features from its first input; see Lazy."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """BatchNorm2d that takes num_features from its first input; see Lazy."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """BatchNorm3d that takes num_features from its first input; see Lazy."""

    cls_to_become = BatchNorm3d


class _LazyInstanceNorm(_LazyNorm):
    def _size_of(self, input: Tensor) -> int:
        self._check(input)
        return input.shape[0 if input.dim() == self.ranks[0] else 1]


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """InstanceNorm1d that takes num_features from its first input; see Lazy.

    With parameters and running moments unless told otherwise, as PyTorch's.
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """InstanceNorm2d that takes num_features from its first input; see Lazy."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """InstanceNorm3d that takes num_features from its first input; see Lazy."""

    cls_to_become = InstanceNorm3d
