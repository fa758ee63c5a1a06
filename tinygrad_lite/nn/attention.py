"""Attention layers: torch's MultiheadAttention, and one with shared key heads, rotations, a cache and QK-norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tinygrad_lite import creation, functional
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import bool_
from tinygrad_lite.nn import functional as F
from tinygrad_lite.nn import init
from tinygrad_lite.nn.cache import LayerCache
from tinygrad_lite.nn.linear import Linear
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.norm import RMSNorm
from tinygrad_lite.nn.parameter import Parameter
from tinygrad_lite.nn.positions import RotaryPositions
from tinygrad_lite.tensor import Tensor, empty, zeros

# ---- what all attention layers share ---------------------------------------------------------------------

Observer = Callable[[str, Tensor], None]
_observers: list[Observer] = []


@contextmanager
def observe_weights(observer: Observer) -> Iterator[None]:
    """Within, call `observer(path, weights)` for every attention run: its layer and (…, queries, keys) weights."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(scale Q Kᵀ) V; a bool mask is True where a query may look. Fewer key heads than query heads are shared.

    Shapes: q (B, H, L, E), k (B, G, S, E), v (B, G, S, Ev), G a divisor of H; mask broadcasts to (B, H, L, S).
    """
    for observer in tuple(_observers):
        observer(mode.scope, attention_weights(q, k, mask, causal, scale))
    shared = k.dim() > 2 and k.shape[-3] != q.shape[-3]
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale, enable_gqa=shared)


def attention_weights(
    q: Tensor, k: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> Tensor:
    """softmax(scale Q Kᵀ) itself, (…, L, S); arguments as `attend`."""
    if k.dim() > 2 and k.shape[-3] != q.shape[-3]:
        k = k.repeat_interleave(q.shape[-3] // k.shape[-3], dim=-3)
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        mask = causal_mask(q.shape[-2], k.shape[-2])
    if mask is None:
        return F.softmax(scores, dim=-1)
    scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is bool_ else scores + mask
    return F.softmax(scores, dim=-1)


def causal_mask(queries: int, keys: int | None = None) -> Tensor:
    """(queries, keys) bool: True where the key does not come after the query."""
    return creation.arange(queries if keys is None else keys) <= creation.arange(queries).unsqueeze(1)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, T, heads · E) to (B, heads, T, E)."""
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, heads, T, E) to (B, T, heads · E)."""
    x = x.transpose(-3, -2)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def check_heads(layer: str, dim: int, heads: int, names: tuple[str, str]) -> None:
    """Raise ValueError unless the heads are positive and divide the width."""
    if heads < 1 or dim < 1 or dim % heads:
        raise ValueError(f"{layer}: {names[1]} {heads} does not divide {names[0]} {dim}")


def check_mask(layer: str, name: str, mask: Tensor, kinds: str, error: type[Exception]) -> None:
    """Raise unless the mask is bool ("b") or floating ("f"): ones and zeros in integers would be added to scores."""
    if mask.dtype.kind not in kinds:
        wanted = "bool" if kinds == "b" else "bool or floating"
        raise error(f"{layer}: {name} must be {wanted}, not {mask.dtype.name}")


# ---- torch's ---------------------------------------------------------------------------------------------


class MultiheadAttention(Module):
    """Attention over num_heads heads of embed_dim / num_heads each. Vaswani et al. 2017, arXiv:1706.03762.

    Shapes: query (L, B, embed_dim), key (S, B, kdim), value (S, B, vdim), or batch first, or without B; the output has
    the query's shape; the weights (B, L, S), or (B, heads, L, S) where they are not averaged.

    Masks as in torch: bool ones are True where a query may *not* look, floating ones are added to the scores.
    key_padding_mask is (B, S), attn_mask (L, S) or (B · heads, L, S).

    Raises:
        ValueError: heads that do not divide embed_dim. RuntimeError: inputs or masks whose shapes do not fit.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_heads("MultiheadAttention", embed_dim, num_heads, ("embed_dim", "num_heads"))
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim

        def parameter(wanted: bool, *shape: int) -> Parameter | None:
            return Parameter(empty(*shape, device=device, dtype=dtype)) if wanted else None

        same, apart = self._qkv_same_embed_dim, not self._qkv_same_embed_dim
        self.register_parameter("q_proj_weight", parameter(apart, embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", parameter(apart, embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", parameter(apart, embed_dim, self.vdim))
        self.register_parameter("in_proj_weight", parameter(same, 3 * embed_dim, embed_dim))
        self.register_parameter("in_proj_bias", parameter(bias, 3 * embed_dim))
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.register_parameter("bias_k", parameter(add_bias_kv, 1, 1, embed_dim))
        self.register_parameter("bias_v", parameter(add_bias_kv, 1, 1, embed_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Projections Xavier uniform, biases 0."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if is_causal and attn_mask is None:
            raise RuntimeError("MultiheadAttention: is_causal is a hint about attn_mask, which is missing")
        single = query.dim() == 2
        same = key is query and value is query
        query, key, value = (self._batched(x, name) for x, name in ((query, "query"), (key, "key"), (value, "value")))
        self._check(query, key, value)
        q, k, v = self._project(query, key, value, same)
        k, v, added = self._extended(k, v)
        if key_padding_mask is not None and key_padding_mask.dim() == 1:
            key_padding_mask = key_padding_mask.unsqueeze(0)
        self._check_masks(attn_mask, key_padding_mask, q.shape[0], q.shape[1], k.shape[1] - added)
        # without other masks the causal hint selects the op that keeps no matrix of scores
        causal = is_causal and key_padding_mask is None and not need_weights and not added
        mask = None if causal else self._mask(attn_mask, key_padding_mask, q, added)
        heads = [split_heads(x, self.num_heads) for x in (q, k, v)]
        p = self.dropout if self.training else 0.0
        if need_weights:
            weights = attention_weights(heads[0], heads[1], mask)
            for observer in tuple(_observers):
                observer(mode.scope, weights)
            kept = F.dropout(weights, p, self.training)
            out = kept @ heads[2]
        else:
            kept = None
            out = attend(*heads, mask, p, causal)
        out = self.out_proj(merge_heads(out))
        return self._results(out, kept, average_attn_weights, single)

    def _batched(self, x: Tensor, name: str) -> Tensor:
        """(B, T, C), whatever the layout given."""
        if x.dim() not in (2, 3):
            raise RuntimeError(f"MultiheadAttention: {name} must have 2 or 3 axes, not {x.dim()}")
        if x.dim() == 2:
            return x.unsqueeze(0)
        return x if self.batch_first else x.transpose(0, 1)

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        for name, x, width in (("query", query, self.embed_dim), ("key", key, self.kdim), ("value", value, self.vdim)):
            if x.shape[-1] != width:
                raise RuntimeError(f"MultiheadAttention: {name} has width {x.shape[-1]}, the layer takes {width}")
        if key.shape[:2] != value.shape[:2] or key.shape[0] != query.shape[0]:
            shapes = ", ".join(str(tuple(x.shape)) for x in (query, key, value))
            raise RuntimeError(f"MultiheadAttention: query, key and value (batch, length, width) do not fit: {shapes}")

    def _project(self, query: Tensor, key: Tensor, value: Tensor, same: bool) -> list[Tensor]:
        if self._qkv_same_embed_dim and same:
            return list(F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1))
        if self._qkv_same_embed_dim:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        each = zip((query, key, value), weights, biases, strict=True)
        return [F.linear(x, weight, bias) for x, weight, bias in each]

    def _extended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, int]:
        """Keys and values with the trained and the zero entry behind them, and how many those are."""
        before, batch = k.shape[1], k.shape[0]
        if self.bias_k is not None:
            k, v = (functional.cat([x, b.expand(batch, 1, -1)], 1) for x, b in ((k, self.bias_k), (v, self.bias_v)))
        if self.add_zero_attn:
            nothing = zeros(batch, 1, self.embed_dim, dtype=k.dtype)
            k, v = (functional.cat([x, nothing], 1) for x in (k, v))
        return k, v, k.shape[1] - before

    def _check_masks(self, attn: Tensor | None, padding: Tensor | None, batch: int, queries: int, keys: int) -> None:
        for name, mask in (("attn_mask", attn), ("key_padding_mask", padding)):
            if mask is not None:
                check_mask("MultiheadAttention", name, mask, "bf", RuntimeError)
        if attn is not None and attn.dim() not in (2, 3):
            raise RuntimeError(f"MultiheadAttention: attn_mask must have 2 or 3 axes, not {attn.dim()}")
        expected = (queries, keys)
        if attn is not None and attn.dim() == 3:
            expected = (batch * self.num_heads, *expected)
        if attn is not None and tuple(attn.shape) != expected:
            raise RuntimeError(f"MultiheadAttention: attn_mask has shape {tuple(attn.shape)}, expected {expected}")
        if padding is not None and tuple(padding.shape) != (batch, keys):
            given = tuple(padding.shape)
            raise RuntimeError(f"MultiheadAttention: key_padding_mask has shape {given}, expected {(batch, keys)}")

    def _mask(self, attn: Tensor | None, padding: Tensor | None, q: Tensor, added: int) -> Tensor | None:
        """Both masks as one that `attend` takes, over the added keys too."""
        if attn is not None and attn.dim() == 3:
            attn = attn.reshape(q.shape[0], self.num_heads, *attn.shape[1:])
        if padding is not None:
            padding = padding.reshape(padding.shape[0], 1, 1, padding.shape[1])
        both = [F.pad(m, (0, added)) if added else m for m in (attn, padding) if m is not None]
        if not both:
            return None
        if all(m.dtype is bool_ for m in both):
            return ~both[0] if len(both) == 1 else ~(both[0] | both[1])
        terms = [_additive(m, q.dtype) for m in both]
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    def _results(
        self, out: Tensor, weights: Tensor | None, average: bool, single: bool
    ) -> tuple[Tensor, Tensor | None]:
        if weights is not None and average:
            weights = weights.mean(dim=1)
        if single:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return (out if self.batch_first else out.transpose(0, 1)), weights


def _additive(mask: Tensor, dtype: Any) -> Tensor:
    """A torch mask as a term of the scores."""
    if mask.dtype is not bool_:
        return mask
    return zeros(*mask.shape, dtype=dtype).masked_fill(mask, -math.inf)


# ---- the project's own -----------------------------------------------------------------------------------


class Attention(Module):
    """Self- or cross-attention with optional shared key heads, rotary positions, QK-norm and a cache.

    Keys and values have kv_heads heads, each shared by heads / kv_heads query heads: grouped-query attention (Ainslie
    et al. 2023, arXiv:2305.13245), multi-query at 1 (Shazeer 2019, arXiv:1911.02150).

    Shapes: x (B, T, dim) to the same; memory (B, S, memory_dim), x itself by default.

    Args:
        head_dim: width of a head, dim / heads by default.
        qk_norm: RMSNorm over each head of queries and keys (Henry et al. 2020, arXiv:2010.04245).
        rotary: turns queries and keys.
        causal: query i sees keys 0 … i of x; of a memory it sees all.
        tie_qk: keys by the queries' projection: scores are then symmetric.

    Raises:
        ValueError: heads that do not divide dim, kv_heads that do not divide heads; a width, masks or a cache that do
            not fit.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        *,
        memory_dim: int | None = None,
        bias: bool = False,
        qk_norm: bool = False,
        rotary: RotaryPositions | None = None,
        dropout: float = 0.0,
        causal: bool = False,
        scale: float | None = None,
        tie_qk: bool = False,
    ) -> None:
        super().__init__()
        if head_dim is None:
            check_heads("Attention", dim, heads, ("dim", "heads"))
        kv_heads = heads if kv_heads is None else kv_heads
        check_heads("Attention", heads, kv_heads, ("heads", "kv_heads"))
        if tie_qk and kv_heads != heads:
            raise ValueError(f"Attention: tie_qk needs kv_heads equal to heads {heads}, not {kv_heads}")
        self.dim, self.heads, self.kv_heads = dim, heads, kv_heads
        self.head_dim = dim // heads if head_dim is None else head_dim
        self.dropout, self.causal, self.scale = dropout, causal, scale
        memory_dim = dim if memory_dim is None else memory_dim
        self.q_proj = Linear(dim, heads * self.head_dim, bias=bias)
        self.k_proj = self.q_proj if tie_qk else Linear(memory_dim, kv_heads * self.head_dim, bias=bias)
        self.v_proj = Linear(memory_dim, kv_heads * self.head_dim, bias=bias)
        self.o_proj = Linear(heads * self.head_dim, dim, bias=bias)
        if qk_norm:
            self.q_norm, self.k_norm = RMSNorm(self.head_dim), RMSNorm(self.head_dim)
        self.qk_norm = qk_norm
        self.__dict__["rotary"] = rotary  # shared by all layers, and none's own child

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        positions: Tensor | None = None,
        cache: LayerCache | None = None,
        projected: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Attention of x to itself, to `memory`, or to the keys and values `project(memory)` gave.

        Args:
            mask: broadcasts to (B, heads, T, S); bool is True where a query may look, floating is added.
            key_padding_mask: (B, S) bool, True at filler, which nobody sees.
            positions: (T,) int64 places of x, by default 0 … T - 1; a cache needs them.
            cache: takes x's keys and values at `positions`; queries see all that lie at or before theirs.
        """
        self._check(x, memory, mask)
        q = split_heads(self.q_proj(x), self.heads)
        if self.qk_norm:
            q = self.q_norm(q)
        crossed = memory is not None or projected is not None
        if self.rotary is not None and not crossed:
            q = self.rotary(q, positions)
        if projected is not None:
            k, v = projected
        else:
            k, v = self.project(x if memory is None else memory, positions, rotated=not crossed)
        causal = self.causal and not crossed
        if cache is not None:
            if positions is None:
                raise ValueError("Attention: a cache needs the positions of its input")
            k, v = cache.update(k, v, positions)
            seen = creation.arange(k.shape[2]) <= positions.unsqueeze(1)
            mask, causal = _joined(mask, seen), False
        mask, causal = self._masks(mask, key_padding_mask, causal, x.shape[0], x.shape[1], k.shape[2])
        p = self.dropout if self.training else 0.0
        return self.o_proj(merge_heads(attend(q, k, v, mask, p, causal, self.scale)))

    def _check(self, x: Tensor, memory: Tensor | None, mask: Tensor | None) -> None:
        if mask is not None:
            check_mask("Attention", "mask", mask, "bf", ValueError)
        if x.shape[-1] != self.dim:
            raise ValueError(f"Attention: x has width {x.shape[-1]}, the layer takes {self.dim}")
        width = self.k_proj.in_features
        if memory is not None and (memory.shape[0], memory.shape[-1]) != (x.shape[0], width):
            expected = f"({x.shape[0]}, keys, {width})"
            raise ValueError(f"Attention: memory has shape {tuple(memory.shape)}, expected {expected}")

    def project(self, memory: Tensor, positions: Tensor | None = None, rotated: bool = False) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory, (B, kv_heads, S, head_dim): computed once for every step that reads it."""
        k = split_heads(self.k_proj(memory), self.kv_heads)
        if self.qk_norm:
            k = self.k_norm(k)
        if self.rotary is not None and rotated:
            k = self.rotary(k, positions)
        return k, split_heads(self.v_proj(memory), self.kv_heads)

    def _masks(
        self, mask: Tensor | None, padding: Tensor | None, causal: bool, batch: int, queries: int, keys: int
    ) -> tuple[Tensor | None, bool]:
        if padding is not None:
            check_mask("Attention", "key_padding_mask", padding, "b", ValueError)
            if tuple(padding.shape) != (batch, keys):
                given = tuple(padding.shape)
                raise ValueError(f"Attention: key_padding_mask has shape {given}, expected {(batch, keys)}")
            mask = _joined(mask, ~padding.reshape(batch, 1, 1, keys))
        if mask is not None:
            _check_mask(mask, (batch, self.heads, queries, keys))
            if causal:
                return _joined(mask, causal_mask(queries, keys)), False
        return mask, causal

    def extra_repr(self) -> str:
        return f"{self.dim}, heads={self.heads}, kv_heads={self.kv_heads}, causal={self.causal}"


def _check_mask(mask: Tensor, full: tuple[int, ...]) -> None:
    shape = tuple(mask.shape)
    fits = len(shape) <= len(full) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(full), strict=False))
    if not fits:
        raise ValueError(f"Attention: mask has shape {shape}, which does not broadcast to {full}")


def _joined(mask: Tensor | None, allowed: Tensor) -> Tensor:
    """A mask, bool or additive, further restricted to where `allowed` is True."""
    if mask is None:
        return allowed
    if mask.dtype is bool_:
        return mask & allowed
    return mask.masked_fill(~allowed, -math.inf)


__all__ = [
    "Attention",
    "MultiheadAttention",
    "attend",
    "attention_weights",
    "causal_mask",
    "check_heads",
    "check_mask",
    "merge_heads",
    "observe_weights",
    "split_heads",
]
