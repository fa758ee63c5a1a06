"""Normalisation over the last axes, attention and bags of embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinygrad_lite.functional.common import node_of, wrap
from tinygrad_lite.functional.contraction import bilinear
from tinygrad_lite.functional.distances import maybe
from tinygrad_lite.functional.indexing import by_frequency, limit_rows
from tinygrad_lite.functional.normalization import widened
from tinygrad_lite.generator import default_generator
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import composite, contract, create, indexing, movement, reduce
from tinygrad_lite.ops import elementwise as ew

__all__ = ["bilinear", "embedding_bag", "layer_norm", "rms_norm", "scaled_dot_product_attention"]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes."""
    x = node_of(input, "input")
    w, b = maybe(weight, "weight"), maybe(bias, "bias")
    return wrap(ew.cast(composite.layer_norm(widened(x), normalized_shape, w, b, eps), x.dtype))


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x²) + eps) * weight over the last axes; eps defaults to the dtype's. arXiv:1910.07467."""
    x, shape = node_of(input, "input"), tuple(normalized_shape)
    if not shape or x.type.ndim < len(shape) or x.shape[x.type.ndim - len(shape) :] != shape:
        raise RuntimeError(f"rms_norm: normalized_shape {list(shape)} must be the last sizes of input {x.type}")
    wide = widened(x)
    if eps is None:
        eps = 2.0**-52 if wide.dtype.itemsize == 8 else 2.0**-23
    axes = tuple(range(x.type.ndim - len(shape), x.type.ndim))
    scaled = ew.mul(wide, ew.rsqrt(ew.add(reduce.mean(ew.mul(wide, wide), axes, keepdim=True), eps)))
    return wrap(ew.cast(scaled if weight is None else ew.mul(scaled, node_of(weight, "weight")), x.dtype))


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(scale Q Kᵀ + mask) V for Q (…, L, E), K (…, S, E), V (…, S, Ev); scale defaults to 1/√E.

    A bool mask is True where a query may look, a floating one is added; `is_causal` lets query i see keys 0 … i;
    `enable_gqa` repeats the key and value heads (axis -3) to the query's number.

    Raises:
        RuntimeError: shapes that do not fit; a mask of integers; attn_mask together with is_causal.
    """
    q, k, v = (node_of(x, name) for x, name in ((query, "query"), (key, "key"), (value, "value")))
    if enable_gqa:
        k, v = (_repeat_heads(x, q) for x in (k, v))
    seed = offset = None
    if dropout_p:
        batch = ew.broadcast_shapes("scaled_dot_product_attention", [q.shape[:-2], k.shape[:-2]])
        seed, offset = default_generator.take(math.prod(batch) * q.shape[-2] * k.shape[-2])
    mask = maybe(attn_mask, "attn_mask")
    if mask is not None and mask.dtype.kind not in "bf":
        raise RuntimeError(f"scaled_dot_product_attention: attn_mask must be bool or floating, not {mask.type}")
    return wrap(composite.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal, scale, seed, offset))


def _repeat_heads(x: Node, query: Node) -> Node:
    heads, wanted = x.shape[-3], query.shape[-3]
    if wanted % heads:
        raise RuntimeError(f"enable_gqa: {wanted} query heads are no multiple of {heads} key or value heads")
    wide = movement.unsqueeze(x, -3)
    wide = movement.expand(wide, (*x.shape[:-3], heads, wanted // heads, *x.shape[-2:]))
    return movement.reshape(wide, (*x.shape[:-3], wanted, *x.shape[-2:]))


# ---- bags of embeddings -------------------------------------------------------------------------------------------


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of rows of `weight` (V, D) by bag: indices (B, L), or (N,) cut at `offsets` (B,): (B, D).

    `per_sample_weights`, of input's shape, multiply the rows (mode "sum"); `padding_idx` counts nowhere; an empty bag
    gives 0. max_norm and scale_grad_by_freq as for `embedding`. `sparse` changes nothing.

    Raises:
        ValueError, RuntimeError: arguments that do not fit. IndexError: an index outside the table.
    """
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("embedding_bag: max mode does not support scaling the gradient by the frequency")
    index, table = node_of(input, "input"), node_of(weight, "weight")
    scale = maybe(per_sample_weights, "per_sample_weights")
    _check_bags(index, table, scale, offsets, mode)
    counted = create.full(index.shape, True)
    if padding_idx is not None:
        if not -table.shape[0] <= padding_idx < table.shape[0]:
            raise RuntimeError(f"padding_idx must be within the number of embeddings, got {padding_idx}")
        counted = ew.ne(index, padding_idx % table.shape[0])
    if max_norm is not None:
        limit_rows(weight, index, max_norm, norm_type)
        table = weight._read()
    rows = indexing.gather(table, index)  # (B, L, D) or (N, D)
    rows = by_frequency(rows, index, table.shape[0]) if scale_grad_by_freq else rows
    rows = rows if scale is None else ew.mul(rows, movement.unsqueeze(scale, -1))
    if offsets is None:
        return wrap(_reduced_bags(rows, counted, mode))
    bags = _bag_of(node_of(offsets, "offsets"), index.shape[0], include_last_offset)
    member = ew.logical_and(bags, counted)  # (B, N)
    return wrap(_reduced_bags(movement.unsqueeze(rows, 0), member, mode))


def _check_bags(index: Node, table: Node, scale: Node | None, offsets: Tensor | None, mode: str) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"mode has to be one of sum, mean or max, got {mode!r}")
    if table.type.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, got {table.type}")
    if index.type.ndim not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {index.type.ndim}")
    if (index.type.ndim == 1) != (offsets is not None):
        raise ValueError("embedding_bag: a 1D input needs offsets, and a 2D input (bags of one length) must have none")
    if offsets is not None and offsets.ndim != 1:
        raise ValueError(f"offsets has to be a 1D Tensor, got {list(offsets.shape)}")
    if scale is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights is only supported for mode='sum', got {mode!r}")
    if scale is not None and scale.shape != index.shape:
        raise ValueError(f"expected per_sample_weights of input's shape {list(index.shape)}, got {list(scale.shape)}")


def _bag_of(offsets: Node, length: int, include_last: bool) -> Node:
    """(B, N): does element i lie in bag b?"""
    count = offsets.shape[0] - include_last
    starts = movement.narrow(offsets, 0, 0, count)
    if include_last:
        ends = movement.narrow(offsets, 0, 1, count)
    else:
        ends = movement.concat([movement.narrow(offsets, 0, 1, count - 1), create.full((1,), length, offsets.dtype)])
    numbers = create.arange(length)
    after = ew.ge(numbers, movement.unsqueeze(starts, 1))
    return ew.logical_and(after, ew.lt(numbers, movement.unsqueeze(ends, 1)))


def _reduced_bags(rows: Node, counted: Node, how: str) -> Node:
    """rows (B or 1, L, D) reduced over L where `counted` (B, L)."""
    chosen = movement.unsqueeze(counted, -1)
    number = reduce.sum(ew.cast(counted, rows.dtype), -1)
    filled = movement.unsqueeze(ew.gt(number, 0.0), -1)
    if how == "max":
        best = reduce.max(ew.where(chosen, rows, -math.inf), 1)
        return ew.where(filled, best, 0.0)
    if rows.shape[0] == 1 and counted.shape[0] != 1:  # one table of rows for all bags: a product
        total = contract.matmul(ew.cast(counted, rows.dtype), movement.squeeze(rows, 0))
    else:
        total = reduce.sum(ew.where(chosen, rows, 0.0), 1)
    if how == "sum":
        return total
    return ew.div(total, movement.unsqueeze(ew.where(ew.gt(number, 0.0), number, 1.0), -1))
