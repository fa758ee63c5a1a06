"""Weight and spectral normalisation and orthogonal weights as parametrisations.

After torch.nn.utils.parametrizations.
"""

from __future__ import annotations

from tinygrad_lite.autograd import no_grad
from tinygrad_lite.functional import cat, linalg, normalize
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.utils.computed import checked
from tinygrad_lite.nn.utils.parametrize import is_parametrized, register_parametrization
from tinygrad_lite.nn.utils.spectral_norm import as_matrix, check_iterations, output_axis, sigma, unit_vector
from tinygrad_lite.nn.utils.weight_norm import norm_except_dim, normed
from tinygrad_lite.tensor import Tensor, eye, randn, zeros

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_MAPS = ("matrix_exp", "cayley", "householder")


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


class _Orthogonal(Module):
    """Orthonormal columns, or rows where those are fewer, of an unconstrained matrix; times `base` where there is one.

    What the weight was goes into `base`, so that training starts at the map's identity: Lezcano-Casado 2019,
    arXiv:1909.09501.
    """

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape, self.orthogonal_map = tuple(weight.shape), orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        tall = x.transpose(-2, -1) if wide else x
        made = self._by_reflections(tall) if self.orthogonal_map == "householder" else self._by_rotation(tall)
        if "base" in self._buffers:
            made = self.base @ made
        return made.transpose(-2, -1) if wide else made

    def _by_rotation(self, x: Tensor) -> Tensor:
        """Of the skew matrix that the lower triangle says, exp or the Cayley transform; its first columns."""
        rows, columns = x.shape[-2:]
        lower = x.tril()
        if rows != columns:
            lower = cat([lower, zeros(*x.shape[:-1], rows - columns, dtype=x.dtype)], -1)
        skew = lower - lower.transpose(-2, -1)
        if self.orthogonal_map == "matrix_exp":
            made = linalg.matrix_exp(skew)
        else:
            one = eye(rows, dtype=x.dtype)
            made = linalg.solve(one - 0.5 * skew, (one + 0.5 * skew).expand(skew.shape))
        return made[..., :columns]

    def _by_reflections(self, x: Tensor) -> Tensor:
        """Householder vectors below the diagonal, which has the columns' signs."""
        vectors = x.tril(-1)
        made = linalg.householder_product(vectors, 2.0 / (1.0 + (vectors * vectors).sum(-2)))
        return made * x.diagonal(dim1=-2, dim2=-1).trunc().detach().unsqueeze(-2)

    def right_inverse(self, weight: Tensor) -> Tensor:
        if tuple(weight.shape) != self.shape:
            raise ValueError(f"orthogonal: expected a weight of shape {self.shape}, not {tuple(weight.shape)}")
        if "base" not in self._buffers:
            raise NotImplementedError("orthogonal: nothing can be assigned to it with use_trivialization=False")
        tall = weight if weight.shape[-2] >= weight.shape[-1] else weight.transpose(-2, -1)
        rows, columns = tall.shape[-2:]
        # A square base for the maps that make rotations, whatever completes the columns.
        more = randn(*tall.shape[:-1], rows - columns, dtype=tall.dtype)
        self.base = _orthonormal(cat([tall, more], -1) if rows != columns else tall).detach()
        return -eye(*self.shape[-2:], dtype=weight.dtype).expand(self.shape)


def _orthonormal(x: Tensor) -> Tensor:
    """The Q of a QR decomposition, columns turned so that those of an orthonormal matrix stay what they are."""
    q, r = linalg.qr(x)
    return q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a weight's columns orthonormal, or its rows where those are fewer. Returns the module.

    Args:
        orthogonal_map: what makes the weight of parametrizations.{name}.original: "matrix_exp" and "cayley" of a skew
            matrix, or "householder" reflections; matrix_exp for square weights by default, else householder.
        use_trivialization: the weight starts from what it was, made orthonormal, kept as a buffer `base`. Without it
            the parameter's values are taken as they are, and nothing can be assigned to the weight.

    Raises:
        ValueError: no such parameter, one with fewer than two axes, an unknown map; householder without trivialization,
            which would need a decomposition that is not here.
    """
    weight = getattr(module, name) if is_parametrized(module, name) else checked(module, name, "orthogonal")
    if weight.dim() < 2:
        raise ValueError(f"orthogonal: expected a matrix or a batch of matrices, not {weight.dim()} axes")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(f"orthogonal: orthogonal_map must be one of {', '.join(_MAPS)}, not {orthogonal_map!r}")
    if orthogonal_map == "householder" and not use_trivialization:
        raise ValueError("orthogonal: orthogonal_map='householder' needs use_trivialization=True")
    return register_parametrization(module, name, _Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True)
