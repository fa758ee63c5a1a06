"""Normalisation by channel: batch, instance, group and local response norm."""

from __future__ import annotations

from typing import Any

from tinygrad_lite.functional import normalization
from tinygrad_lite.nn import init
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.parameter import Parameter
from tinygrad_lite.tensor import Tensor, empty, int64, ones, zeros


class _ChannelNorm(Module):
    """Weight and bias a channel, and running moments in buffers."""

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    ranks: tuple[int, ...]  # numbers of axes of the input

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: Any,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            made = Parameter(empty(num_features, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)
        kept = {"device": device, "dtype": dtype}
        self.register_buffer("running_mean", zeros(num_features, **kept) if track_running_stats else None)
        self.register_buffer("running_var", ones(num_features, **kept) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", zeros((), dtype=int64) if track_running_stats else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches seen."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weight to 1, bias to 0, and the running moments to their start."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check(self, input: Tensor) -> None:
        if input.dim() not in self.ranks:
            wanted = " or ".join(f"{n}D" for n in self.ranks)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def _running(self) -> tuple[Tensor | None, Tensor | None]:
        """The moments that this call uses or moves."""
        return (self.running_mean, self.running_var) if not self.training or self.track_running_stats else (None, None)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_ChannelNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor, mask: Tensor | None = None) -> Tensor:
        self._check(input)
        momentum: float | Tensor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the plain mean of all batches
                momentum = 1.0 / self.num_batches_tracked.to(input.dtype)
        mean, var = self._running()
        training = self.training or (self.running_mean is None and self.running_var is None)
        affine = (self.weight, self.bias)
        return normalization.batch_norm(input, mean, var, *affine, training, momentum, self.eps, mask=mask)


class BatchNorm1d(_BatchNorm):
    """Normalises each channel over the batch, then weight and bias. Ioffe & Szegedy 2015, arXiv:1502.03167.

    Shapes: (N, C) or (N, C, L) to the same; weight, bias and the running moments (C,).
    In training the batch's moments are used, and the running ones move towards them by `momentum` (None: their plain
    mean); `eval()` uses the running ones. `norm(x, mask)` with a bool mask (N,) or (N, L), False at filler, takes the
    moments of the other places alone.

    Raises:
        ValueError: another number of axes; one value a channel in training; a mask of another shape.
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """BatchNorm1d for (N, C, H, W)."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """BatchNorm1d for (N, C, D, H, W)."""

    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm of any number of axes, over the batches of all processes: there is one process here.

    Shapes: (N, C, *) to the same.

    Raises:
        ValueError: fewer than two axes. NotImplementedError: a process_group.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if process_group is not None:
            raise NotImplementedError(f"SyncBatchNorm: there is one process, and no process_group {process_group!r}")
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)

    def _check(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with a SyncBatchNorm in the place of every batch norm, on the same parameters and buffers."""
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            options = (module.eps, module.momentum, module.affine, module.track_running_stats, process_group)
            made = cls(module.num_features, *options)
            for name in (*module._parameters, *module._buffers):
                setattr(made, name, getattr(module, name))
            return made.train(module.training)
        for name, child in module._modules.items():
            if child is not None:
                module.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return module


class _InstanceNorm(_ChannelNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        single = input.dim() == self.ranks[0]
        axis = 0 if single else 1
        if input.shape[axis] != self.num_features and self.affine:
            raise ValueError(
                f"expected input's size at dim={axis} to match num_features ({self.num_features}), "
                f"but got: {input.shape[axis]}."
            )
        return self._normalised(input.unsqueeze(0)).squeeze(0) if single else self._normalised(input)

    def _normalised(self, input: Tensor) -> Tensor:
        fresh = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        return normalization.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, fresh, momentum, self.eps
        )


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sample over its places. Ulyanov et al. 2016, arXiv:1607.08022.

    Shapes: (N, C, L) or (C, L) to the same.

    Raises:
        ValueError: another number of axes, or of channels; one place.
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """InstanceNorm1d for (N, C, H, W) or (C, H, W)."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """InstanceNorm1d for (N, C, D, H, W) or (C, D, H, W)."""

    ranks = (4, 5)


class GroupNorm(Module):
    """Normalises each sample's groups of channels, then weight and bias a channel. Wu & He 2018, arXiv:1803.08494.

    Shapes: (N, C, *) to the same; weight and bias (C,).

    Raises:
        ValueError: num_channels not divisible by num_groups.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            made = Parameter(empty(num_channels, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight to 1, bias to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return normalization.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        sizes, bias = f"{self.num_groups}, {self.num_channels}", self.bias is not None
        return f"{sizes}, eps={self.eps}, affine={self.affine}, bias={bias}"


class LocalResponseNorm(Module):
    """x / (k + alpha · mean of x² over neighbouring channels)^beta. Krizhevsky et al. 2012."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return normalization.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
