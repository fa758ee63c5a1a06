"""Products of vectors, matrices and tensors. `einsum` has a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_lite.functional.common import Scalar, node_of, wrap
from tinygrad_lite.functional.einsum import einsum
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import contract, create, movement, reduce
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.promote import promote_types

__all__ = [
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bilinear",
    "bmm",
    "cdist",
    "chain_matmul",
    "corrcoef",
    "cov",
    "cross",
    "dot",
    "einsum",
    "ger",
    "inner",
    "kron",
    "linear",
    "matmul",
    "mm",
    "mv",
    "outer",
    "tensordot",
    "vdot",
]


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """input @ other: vectors are rows on the left and columns on the right, batch axes broadcast.

    Raises:
        RuntimeError: inner sizes or dtypes differ.
    """
    return wrap(contract.matmul(node_of(input, "input"), node_of(other, "other")))


def _ranked(name: str, rank_a: int, rank_b: int, a: Tensor, b: Tensor) -> Node:
    x, y = node_of(a, "input"), node_of(b, "other")
    if (x.type.ndim, y.type.ndim) != (rank_a, rank_b):
        raise RuntimeError(f"{name}: expected {rank_a}-D and {rank_b}-D tensors, got {x.type} and {y.type}")
    if rank_a == 3 and x.shape[0] != y.shape[0]:
        raise RuntimeError(f"{name}: batch sizes of {x.type} and {y.type} differ")
    return contract.matmul(x, y)


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices."""
    return wrap(_ranked("mm", 2, 2, input, mat2))


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of (b, m, k) and (b, k, n)."""
    return wrap(_ranked("bmm", 3, 3, input, mat2))


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Matrix times vector."""
    return wrap(_ranked("mv", 2, 1, input, vec))


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Inner product of two vectors."""
    return wrap(_ranked("dot", 1, 1, input, tensor))


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Inner product of two vectors."""
    return wrap(_ranked("vdot", 1, 1, input, other))


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of elements of two vectors."""
    return wrap(_outer("outer", input, vec2))


def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """`outer`"""
    return wrap(_outer("ger", input, vec2))


def _outer(name: str, input: Tensor, vec2: Tensor) -> Node:
    a, b = node_of(input, "input"), node_of(vec2, "vec2")
    if (a.type.ndim, b.type.ndim) != (1, 1):
        raise RuntimeError(f"{name}: Expected 1-D tensors, got {a.type} and {b.type}")
    return ew.mul(movement.unsqueeze(a, 1), b)


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dims; scalars multiply."""
    a, b = node_of(input, "input"), node_of(other, "other")
    if not a.type.ndim or not b.type.ndim:
        return wrap(ew.mul(a, b))
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(f"inner() the last dimension must match on both input tensors but got {a.type} and {b.type}")
    return wrap(_tensordot(a, b, [a.type.ndim - 1], [b.type.ndim - 1]))


# ---- products added to something ------------------------------------------------------------------------------


def _plus(name: str, input: Tensor, product: Node, beta: Scalar, alpha: Scalar) -> Tensor:
    """beta · input + alpha · product; with beta 0 the input's values do not matter."""
    start = node_of(input, "input")
    if start.dtype is not product.dtype:
        raise RuntimeError(
            f"{name}: self and the product must have the same dtype, got {start.type} and {product.type}"
        )
    if any(isinstance(x, float) for x in (alpha, beta)) and product.dtype.kind != "f":
        raise RuntimeError(f"{name}: for integral tensors beta and alpha must not be floating, got {beta} and {alpha}")
    if ew.broadcast_shapes(name, [start.shape, product.shape]) != product.shape:
        raise RuntimeError(f"{name}: input {start.type} does not expand to the product's shape {list(product.shape)}")
    product = product if alpha == 1 else ew.mul(product, alpha)
    if beta == 0:
        return wrap(product)
    return wrap(ew.add(start if beta == 1 else ew.mul(start, beta), product))


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * input + alpha * mat1 @ mat2."""
    return _plus("addmm", input, _ranked("addmm", 2, 2, mat1, mat2), beta, alpha)


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * input + alpha * mat @ vec."""
    return _plus("addmv", input, _ranked("addmv", 2, 1, mat, vec), beta, alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2)."""
    return _plus("addr", input, _outer("addr", vec1, vec2), beta, alpha)


def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * input + alpha * batch1 @ batch2, a matrix product each."""
    return _plus("baddbmm", input, _ranked("baddbmm", 3, 3, batch1, batch2), beta, alpha)


def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * input + alpha * Σ batch1[i] @ batch2[i]."""
    products = _ranked("addbmm", 3, 3, batch1, batch2)
    return _plus("addbmm", input, ew.cast(reduce.sum(products, 0), products.dtype), beta, alpha)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias, weight (out, in)."""
    shift = None if bias is None else node_of(bias, "bias")
    return wrap(contract.linear(node_of(input, "input"), node_of(weight, "weight"), shift))


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y[…, o] = Σ input1[…, i] weight[o, i, j] input2[…, j] + bias[o]."""
    a, b, w = node_of(input1, "input1"), node_of(input2, "input2"), node_of(weight, "weight")
    fits = a.type.ndim == b.type.ndim >= 1 and a.shape[:-1] == b.shape[:-1] and w.type.ndim == 3
    if not fits or w.shape[1:] != (a.shape[-1], b.shape[-1]):
        raise RuntimeError(f"bilinear: inputs {a.type} and {b.type} do not fit weight {w.type}")
    product = einsum("...i,oij,...j->...o", input1, weight, input2)
    return product if bias is None else wrap(ew.add(node_of(product), node_of(bias, "bias")))


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices, in the cheapest order; of one alone, itself."""
    from tinygrad_lite.functional.linalg import multi_dot

    given = matrices[0] if len(matrices) == 1 and not isinstance(matrices[0], Tensor) else matrices
    if any(x.ndim != 2 for x in given):
        raise RuntimeError(f"chain_matmul: Tensors must be matrices, got {[tuple(x.shape) for x in given]}")
    if not given:
        raise ValueError("chain_matmul: Expected one or more matrices")
    return given[0] if len(given) == 1 else multi_dot(given)


# ---- tensors ----------------------------------------------------------------------------------------------------


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sums of products over the last `dims` dims of a and the first of b, or over the dims that two lists name."""
    x, y = node_of(a, "a"), node_of(b, "b")
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if not 0 <= dims <= min(x.type.ndim, y.type.ndim):
            raise RuntimeError(f"tensordot expects 0 <= dims <= ndim of both operands, got dims={dims}")
        first, second = list(range(x.type.ndim - dims, x.type.ndim)), list(range(dims))
    else:
        first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(first) != len(second):
        raise RuntimeError(f"both dimension lists should have same length, got {first} and {second}")
    left = [movement.normalize_axis(d, x.type.ndim) for d in first]
    right = [movement.normalize_axis(d, y.type.ndim) for d in second]
    for i, j in zip(left, right, strict=True):
        if x.shape[i] != y.shape[j] and 1 not in (x.shape[i], y.shape[j]):
            raise RuntimeError(
                f"contracted dimensions need to match, but dims {i} of {x.type} and {j} of {y.type} differ"
            )
        x = _alone(x, i, y.shape[j])
        y = _alone(y, j, x.shape[i])
    return wrap(_tensordot(x, y, left, right))


def _alone(x: Node, axis: int, other: int) -> Node:
    """An axis that meets one of size 1 is summed by itself."""
    return ew.cast(reduce.sum(x, axis, keepdim=True), x.dtype) if other == 1 != x.shape[axis] else x


def _tensordot(x: Node, y: Node, left: Sequence[int], right: Sequence[int]) -> Node:
    rows = [a for a in range(x.type.ndim) if a not in left]
    columns = [a for a in range(y.type.ndim) if a not in right]
    inner = 1
    for a in left:
        inner *= x.shape[a]
    shape = [x.shape[a] for a in rows] + [y.shape[a] for a in columns]
    size = [1, 1]
    for i, (node, axes) in enumerate(((x, rows), (y, columns))):
        for a in axes:
            size[i] *= node.shape[a]
    first = movement.reshape(movement.permute(x, [*rows, *left]), (size[0], inner))
    second = movement.reshape(movement.permute(y, [*right, *columns]), (inner, size[1]))
    return movement.reshape(contract.matmul(first, second), shape)


def kron(input: Tensor, other: Tensor) -> Tensor:
    """Every element of `input` times all of `other`, laid out in blocks."""
    a, b = node_of(input, "input"), node_of(other, "other")
    rank = max(a.type.ndim, b.type.ndim)
    left, right = ((1,) * (rank - n.type.ndim) + n.shape for n in (a, b))
    x = movement.reshape(a, [n for s in left for n in (s, 1)])
    y = movement.reshape(b, [n for s in right for n in (1, s)])
    return wrap(movement.reshape(ew.mul(x, y), [m * n for m, n in zip(left, right, strict=True)]))


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Vector products along `dim`, by default the first of size 3."""
    a, b = node_of(input, "input"), node_of(other, "other")
    if a.type.ndim != b.type.ndim:
        raise RuntimeError(f"cross: inputs must have the same number of dimensions, got {a.type} and {b.type}")
    shape = ew.broadcast_shapes("cross", [a.shape, b.shape])
    if dim is None:
        dim = next((i for i, n in enumerate(shape) if n == 3), None)
        if dim is None:
            raise RuntimeError(f"cross: no dimension of size 3 in input, got {a.type}")
    axis = movement.normalize_axis(dim, len(shape))
    if not shape or a.shape[axis] != 3 or b.shape[axis] != 3:
        raise RuntimeError(f"cross: inputs dimension {dim} must have length 3. Got {a.type} and {b.type}")
    return wrap(
        ew.sub(ew.mul(_turned(a, axis, 1), _turned(b, axis, 2)), ew.mul(_turned(a, axis, 2), _turned(b, axis, 1)))
    )


def _turned(x: Node, axis: int, by: int) -> Node:
    return movement.concat([movement.narrow(x, axis, by, 3 - by), movement.narrow(x, axis, 0, by)], axis)


# ---- distances and moments ----------------------------------------------------------------------------------------


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """p-norm distances between the rows of x1 (…, m, d) and of x2 (…, n, d): (…, m, n). `compute_mode` changes nothing.

    The gradient at distance 0 is 0.
    """
    from tinygrad_lite.functional.linalg import norm_of

    a, b = node_of(x1, "x1"), node_of(x2, "x2")
    if min(a.type.ndim, b.type.ndim) < 2 or a.shape[-1] != b.shape[-1]:
        raise RuntimeError(f"cdist: needs rows of one length, at least two dims, got {a.type} and {b.type}")
    if a.dtype.kind != "f" or b.dtype.kind != "f":
        raise RuntimeError(f"cdist only supports floating-point dtypes, got {a.type} and {b.type}")
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    difference = ew.sub(movement.unsqueeze(a, -2), movement.unsqueeze(b, -3))
    if not a.shape[-1]:
        return wrap(create.zeros(difference.shape[:-1], difference.dtype))
    return wrap(norm_of(difference, float(p), (difference.type.ndim - 1,), False))


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Covariances of the rows, whose columns are observations; a vector is one row.

    Args:
        correction: subtracted from the number of observations.
        fweights, aweights: how often each was observed (integers), and how much it counts.
    """
    x = node_of(input, "input")
    if x.type.ndim > 2 or x.dtype.kind == "b":
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions of numbers but got {x.type}")
    x = movement.reshape(x, (1, x.type.size)) if x.type.ndim < 2 else x
    x = x if x.dtype.kind == "f" else ew.cast(x, ew.div(x, 1).dtype)
    if aweights is not None:
        x = ew.cast(x, promote_types(x.dtype, node_of(aweights, "aweights").dtype))
    weights = _weights(x, fweights, aweights)
    if weights is None:
        total: Any = float(x.shape[1])
        mean = ew.div(reduce.sum(x, 1, keepdim=True), total)
    else:
        total = reduce.sum(weights)
        mean = ew.div(reduce.sum(ew.mul(x, weights), 1, keepdim=True), total)
    scale: Any = ew.sub(ew.as_node(total, x.dtype), float(correction))
    if weights is not None and aweights is not None and correction:
        heavy = reduce.sum(ew.mul(weights, ew.cast(node_of(aweights), x.dtype)))
        scale = ew.sub(total, ew.div(ew.mul(heavy, float(correction)), total))
    centred = ew.sub(x, mean)
    weighed = centred if weights is None else ew.mul(centred, weights)
    product = contract.matmul(centred, movement.transpose(weighed, 0, 1))
    result = ew.div(product, ew.maximum(scale, 0.0))
    return wrap(movement.squeeze(result) if result.shape == (1, 1) else result)


def _weights(x: Node, fweights: Tensor | None, aweights: Tensor | None) -> Node | None:
    found: Node | None = None
    for name, given, kinds in (("fweights", fweights, "iu"), ("aweights", aweights, "f")):
        if given is None:
            continue
        node = node_of(given, name)
        if node.shape != (x.shape[1],) or node.dtype.kind not in kinds:
            raise RuntimeError(f"cov(): expected {name} to be a vector of {x.shape[1]} numbers, got {node.type}")
        if node.value is not None and (node.value < 0).any():
            raise RuntimeError(f"cov(): {name} cannot be negative, got {node.value.min()}")
        node = ew.cast(node, x.dtype)
        found = node if found is None else ew.mul(found, node)
    return found


def corrcoef(input: Tensor) -> Tensor:
    """Correlations of the rows, whose columns are observations."""
    if input.ndim > 2:
        raise RuntimeError(f"corrcoef(): expected input to have two or fewer dimensions but got {input.ndim}")
    c = node_of(cov(input))
    if not c.type.ndim:
        return wrap(ew.div(c, c))
    n = c.shape[0]
    flat = movement.slice_(movement.reshape(c, (n * n,)), (0,), (n * n,), (n + 1,))
    spread = ew.sqrt(flat)
    scaled = ew.div(ew.div(c, movement.unsqueeze(spread, 1)), spread)
    return wrap(ew.minimum(ew.maximum(scaled, -1.0), 1.0))
