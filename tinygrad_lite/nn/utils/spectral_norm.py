"""Spectral normalisation under its older name, with weight_orig, weight_u and weight_v; see also parametrizations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinygrad_lite.autograd import no_grad
from tinygrad_lite.functional import normalize
from tinygrad_lite.nn.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.parameter import Parameter
from tinygrad_lite.nn.utils.computed import Rule, checked, compute, forget, rules
from tinygrad_lite.tensor import Tensor, randn


def output_axis(module: Module) -> int:
    """Which axis of the weight is that of the outputs."""
    return 1 if isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d) else 0


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight as a matrix of which `dim` are the rows."""
    return weight.movedim(dim, 0).flatten(1)


def unit_vector(size: int, like: Tensor, eps: float) -> Tensor:
    """A random direction."""
    return normalize(randn(size, dtype=like.dtype), dim=0, eps=eps)


def sigma(matrix: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """uᵀ W v, the largest singular value once u and v have converged; they count as constants.

    Copies of them are taken, since the next call moves u and v before this one's backward may have run.
    """
    return u.detach().clone().dot(matrix.mv(v.detach().clone()))


def check_iterations(n: int) -> None:
    """ValueError unless positive."""
    if n <= 0:
        raise ValueError(f"spectral_norm: n_power_iterations must be positive, not {n}")


@dataclass(frozen=True)
class _SpectralNorm(Rule):
    name: str
    n_power_iterations: int
    dim: int
    eps: float

    def value(self, module: Any) -> Tensor:
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        return weight / sigma(as_matrix(weight, self.dim), u, v)

    def __call__(self, module: Any, args: Any) -> None:
        """As a forward pre-hook: move u and v on in training mode."""
        if not module.training:
            return
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        with no_grad():
            matrix = as_matrix(weight.detach(), self.dim)
            for _ in range(self.n_power_iterations):
                v.copy_(normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                u.copy_(normalize(matrix.mv(v), dim=0, eps=self.eps))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value. Miyato et al. 2018, arXiv:1802.05957. Returns the module.

    The parameter is then `{name}_orig`; buffers `{name}_u` and `{name}_v` are singular vectors, which each call in
    training mode moves on by n_power_iterations. `dim` is the axis of the outputs, 1 for transposed convolutions.

    Raises:
        ValueError: no parameter of that name, or n_power_iterations below 1. RuntimeError: it is computed already.
    """
    check_iterations(n_power_iterations)
    weight = checked(module, name, "spectral_norm")
    rule = _SpectralNorm(name, n_power_iterations, output_axis(module) if dim is None else dim, eps)
    rows, columns = as_matrix(weight.detach(), rule.dim).shape
    del module._parameters[name]
    module.register_parameter(f"{name}_orig", weight)  # type: ignore[arg-type]
    module.register_buffer(f"{name}_u", unit_vector(rows, weight, eps))
    module.register_buffer(f"{name}_v", unit_vector(columns, weight, eps))
    compute(module, rule)
    module.register_forward_pre_hook(rule)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a parameter again, of its present value. ValueError where it has no spectral norm."""
    for rule in rules(module):
        if isinstance(rule, _SpectralNorm) and rule.name == name:
            weight = rule.value(module).detach()
            forget(module, rule)
            for key in [key for key, hook in module._forward_pre_hooks.items() if hook.fn == rule]:
                del module._forward_pre_hooks[key]
            for part in ("orig", "u", "v"):
                delattr(module, f"{name}_{part}")
            module.register_parameter(name, Parameter(weight))
            return module
    raise ValueError(f"remove_spectral_norm: the {type(module).__name__} has no spectral norm of '{name}'")
