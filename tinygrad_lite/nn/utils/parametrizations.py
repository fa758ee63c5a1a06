"""Weight and spectral normalisation as parametrisations, after torch.nn.utils.parametrizations."""

from __future__ import annotations

from tinygrad_lite.autograd import no_grad
from tinygrad_lite.functional import normalize
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.utils.computed import checked
from tinygrad_lite.nn.utils.parametrize import is_parametrized, register_parametrization
from tinygrad_lite.nn.utils.spectral_norm import as_matrix, check_iterations, output_axis, sigma, unit_vector
from tinygrad_lite.nn.utils.weight_norm import norm_except_dim, normed
from tinygrad_lite.tensor import Tensor

__all__ = ["spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """g v / ‖v‖."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return normed(weight_g, weight_v, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Let a weight be g v / ‖v‖: parametrizations.{name}.original0 and original1. Salimans & Kingma 2016.

    arXiv:1602.07868. The norm is over all axes but `dim`, or over all for None. Returns the module.

    Raises:
        ValueError: no such parameter. IndexError: no such axis.
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """W / σ, σ its largest singular value, by the power method on buffers _u and _v; of a vector, to length 1."""

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if not -weight.dim() <= dim < weight.dim():
            raise IndexError(f"spectral_norm: dim must lie in [{-weight.dim()}, {weight.dim()}), not {dim}")
        check_iterations(n_power_iterations)
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim % weight.dim(), eps
        if weight.dim() > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            self.register_buffer("_u", unit_vector(matrix.shape[0], weight, eps))
            self.register_buffer("_v", unit_vector(matrix.shape[1], weight, eps))
            self._iterate(matrix, 15)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        with no_grad():
            for _ in range(times):
                self._u.copy_(normalize(matrix.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(normalize(matrix.t().mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        return weight / sigma(matrix, self._u, self._v)

    def right_inverse(self, value: Tensor) -> Tensor:
        return value  # any weight is one that could have been there before, and its direction the same


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value. Miyato et al. 2018, arXiv:1802.05957. Returns the module.

    The parameter is then parametrizations.{name}.original; buffers _u and _v are singular vectors, which each reading
    in training mode moves on by n_power_iterations. `dim` is the axis of the outputs, 1 for transposed convolutions.

    Raises:
        ValueError: no such parameter, or n_power_iterations below 1. IndexError: no such axis.
    """
    weight = getattr(module, name) if is_parametrized(module, name) else checked(module, name, "spectral_norm")
    axis = output_axis(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, axis, eps))
