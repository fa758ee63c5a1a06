"""Convolutions, transposed convolutions, unfold and fold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygrad_lite import functional as F
from tinygrad_lite.functional import convolution
from tinygrad_lite.functional.convolution import each_axis
from tinygrad_lite.nn import init
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.parameter import Parameter
from tinygrad_lite.tensor import Tensor, empty

_MODES = ("zeros", "reflect", "replicate", "circular")


class _Conv(Module):
    """What all convolutions share: options, weight and bias, their initial values, and how they print."""

    dims: int
    transposed = False
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        check_options(in_channels, out_channels, groups, padding, stride, padding_mode)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = each_axis(kernel_size, self.dims, "kernel_size")
        self.stride = each_axis(stride, self.dims, "stride")
        self.padding = padding if isinstance(padding, str) else each_axis(padding, self.dims, "padding")
        self.dilation = each_axis(dilation, self.dims, "dilation")
        self.output_padding = each_axis(output_padding, self.dims, "output_padding")
        self.padding_mode = padding_mode
        self.weight = Parameter(empty(*self._weight_shape(), device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        ends = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            ends = (self.in_channels, self.out_channels // self.groups)
        return *ends, *self.kernel_size

    def reset_parameters(self) -> None:
        """Draw the initial distribution again: weight and bias uniform in ±1/sqrt(weight's inputs)."""
        fan_in = math.prod(self.weight.shape[1:])
        if fan_in == 0:
            return
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(fan_in)
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        for name, default in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            text += f", {name}={value}" if value != (default,) * self.dims else ""
        text += f", groups={self.groups}" if self.groups != 1 else ""
        text += ", bias=False" if self.bias is None else ""
        return text + (f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else "")


def check_options(inputs: int, outputs: int, groups: int, padding: Any, stride: Any, mode: str) -> None:
    if groups <= 0:
        raise ValueError(f"groups must be a positive integer, got {groups}")
    for name, channels in (("in_channels", inputs), ("out_channels", outputs)):
        if channels % groups:
            raise ValueError(f"{name} must be divisible by groups, got {channels} and {groups}")
    if isinstance(padding, str) and padding not in ("same", "valid"):
        raise ValueError(f"Invalid padding string {padding!r}, should be one of 'valid', 'same'")
    if padding == "same" and any(s != 1 for s in ([stride] if isinstance(stride, int) else stride)):
        raise ValueError("padding='same' is not supported for strided convolutions")
    if mode not in _MODES:
        raise ValueError(f"padding_mode must be one of {set(_MODES)}, but got padding_mode={mode!r}")


class _Direct(_Conv):
    def __init__(
        self,
        in_channels: int,
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
        options = (stride, padding, dilation, 0, groups, bias, padding_mode, device, dtype)
        super().__init__(in_channels, out_channels, kernel_size, *options)

    def forward(self, input: Tensor) -> Tensor:
        conv = getattr(convolution, f"conv{self.dims}d")
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._around(), mode=self.padding_mode)
            padding = 0
        result: Tensor = conv(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)
        return result

    def _around(self) -> list[int]:
        """Amounts for `pad`, the last axis first."""
        if self.padding == "valid":
            return [0] * (2 * self.dims)
        if self.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            pairs = [(t // 2, t - t // 2) for t in totals]
        else:
            pairs = [(p, p) for p in self.padding]
        return [amount for pair in reversed(pairs) for amount in pair]


class Conv1d(_Direct):
    """Cross-correlation of sequences.

    Shapes: x (N, C, L) or (C, L) to (N, O, positions); weight (O, C / groups, K), bias (O,).
    `padding` may be "same" or "valid", `padding_mode` "zeros", "reflect", "replicate" or "circular".

    Raises:
        ValueError: channels not divisible by groups, or an unknown option.
    """

    dims = 1


class Conv2d(_Direct):
    """Cross-correlation of images: Conv1d over two axes, x (N, C, H, W) or (C, H, W)."""

    dims = 2


class Conv3d(_Direct):
    """Cross-correlation of volumes: Conv1d over three axes, x (N, C, D, H, W) or (C, D, H, W)."""

    dims = 3


class _Transposed(_Conv):
    transposed = True

    def __init__(
        self,
        in_channels: int,
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
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}, not {padding_mode!r}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self.output_padding if output_size is None else self._extra(input, list(output_size))
        conv = getattr(convolution, f"conv_transpose{self.dims}d")
        result: Tensor = conv(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )
        return result

    def _extra(self, input: Tensor, output_size: list[int]) -> tuple[int, ...]:
        """The output_padding that leads to a size: one below the next stride."""
        wanted = output_size[-self.dims :]
        if len(output_size) not in (self.dims, input.dim()):
            raise ValueError(
                f"{type(self).__name__}: for {input.dim()}D input, output_size must have {self.dims} or {input.dim()} "
                f"elements (got {len(output_size)})"
            )
        padding: Any = self.padding
        options = zip(input.shape[-self.dims :], self.stride, padding, self.dilation, self.kernel_size, strict=True)
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in options]
        for n, low, s in zip(wanted, least, self.stride, strict=True):
            if not low <= n <= low + s - 1:
                raise ValueError(
                    f"requested an output size of {wanted}, but valid sizes range from {least} to "
                    f"{[a + b - 1 for a, b in zip(least, self.stride, strict=True)]}"
                )
        return tuple(n - low for n, low in zip(wanted, least, strict=True))


class ConvTranspose1d(_Transposed):
    """The adjoint of Conv1d, which makes sequences longer.

    Shapes: x (N, C, L) or (C, L) to (N, O, (L - 1) stride - 2 padding + dilation (K - 1) + 1 + output_padding);
    weight (C, O / groups, K), bias (O,). `forward(x, output_size)` chooses the output_padding.

    Raises:
        ValueError: channels not divisible by groups, an unknown option, an output_size out of reach.
    """

    dims = 1


class ConvTranspose2d(_Transposed):
    """The adjoint of Conv2d: ConvTranspose1d over two axes."""

    dims = 2


class ConvTranspose3d(_Transposed):
    """The adjoint of Conv3d: ConvTranspose1d over three axes."""

    dims = 3


class Unfold(Module):
    """Windows of images as columns; see nn.functional.unfold."""

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return convolution.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        names = ("kernel_size", "dilation", "padding", "stride")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


class Fold(Module):
    """Columns added up into images, the adjoint of Unfold; see nn.functional.fold."""

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return convolution.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        names = ("output_size", "kernel_size", "dilation", "padding", "stride")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)
