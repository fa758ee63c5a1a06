"""Pooling layers: modules around the functions of `nn.functional`; their shapes and errors are those functions'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_lite.functional import pooling
from tinygrad_lite.functional.convolution import each_axis
from tinygrad_lite.nn.module import Module
from tinygrad_lite.tensor import Tensor


class _Pool(Module):
    """A layer that hands its options to the function of its kind and prints those named in `shown`."""

    dims: int
    shown: tuple[str, ...]

    def _function(self, kind: str) -> Any:
        return getattr(pooling, f"{kind}{self.dims}d")

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.shown)


class _MaxPool(_Pool):
    shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        return self._function("max_pool")(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class MaxPool1d(_MaxPool):
    """The largest element of each window of (N, C, L); with return_indices also where it stood."""

    dims = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window of (N, C, H, W); with return_indices also where it stood."""

    dims = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window of (N, C, D, H, W); with return_indices also where it stood."""

    dims = 3


class AvgPool1d(_Pool):
    """The mean of each window of (N, C, L)."""

    dims = 1
    shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = each_axis(kernel_size, 1, "kernel_size")
        self.stride = self.kernel_size if stride is None else each_axis(stride, 1, "stride")
        self.padding = each_axis(padding, 1, "padding")
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return pooling.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class _AvgPool(_Pool):
    shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = self._function("avg_pool")(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )
        return result


class AvgPool2d(_AvgPool):
    """The mean of each window of (N, C, H, W)."""

    dims = 2


class AvgPool3d(_AvgPool):
    """The mean of each window of (N, C, D, H, W)."""

    dims = 3


class _LPPool(_Pool):
    shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = self._function("lp_pool")(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )
        return result


class LPPool1d(_LPPool):
    """(Σ x^p)^(1/p) of each window of (N, C, L)."""

    dims = 1


class LPPool2d(_LPPool):
    """(Σ x^p)^(1/p) of each window of (N, C, H, W)."""

    dims = 2


class LPPool3d(_LPPool):
    """(Σ x^p)^(1/p) of each window of (N, C, D, H, W)."""

    dims = 3


class _MaxUnpool(_Pool):
    shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = each_axis(kernel_size, self.dims, "kernel_size")
        self.stride = self.kernel_size if stride is None else each_axis(stride, self.dims, "stride")
        self.padding = each_axis(padding, self.dims, "padding")

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        result: Tensor = self._function("max_unpool")(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )
        return result


class MaxUnpool1d(_MaxUnpool):
    """Puts maxima back where MaxPool1d found them, among zeros."""

    dims = 1


class MaxUnpool2d(_MaxUnpool):
    """Puts maxima back where MaxPool2d found them, among zeros."""

    dims = 2


class MaxUnpool3d(_MaxUnpool):
    """Puts maxima back where MaxPool3d found them, among zeros."""

    dims = 3


class _AdaptiveAvgPool(_Pool):
    shown = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = self._function("adaptive_avg_pool")(input, self.output_size)
        return result


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means over as many even windows as the output has elements."""

    dims = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means over as many even windows as the output has elements; None keeps an axis."""

    dims = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means over as many even windows as the output has elements; None keeps an axis."""

    dims = 3


class _AdaptiveMaxPool(_Pool):
    shown = ("output_size",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return self._function("adaptive_max_pool")(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Maxima over as many even windows as the output has elements."""

    dims = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Maxima over as many even windows as the output has elements; None keeps an axis."""

    dims = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Maxima over as many even windows as the output has elements; None keeps an axis."""

    dims = 3
