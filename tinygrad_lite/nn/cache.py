"""Key-value caches of fixed size: what makes a token's step cost one token."""

from __future__ import annotations

from typing import Any

from tinygrad_lite import creation
from tinygrad_lite.autograd import no_grad
from tinygrad_lite.ir.types import float32, float64, int8
from tinygrad_lite.tensor import Tensor


class LayerCache:
    """Keys and values of one attention layer, (batch, heads, capacity, width) each, filled at given positions."""

    def __init__(self, batch: int, heads: int, capacity: int, width: int, dtype: Any = None) -> None:
        self.batch, self.heads, self.capacity, self.width = batch, heads, capacity, width
        self.keys, self.values = (creation.zeros(batch, heads, capacity, width, dtype=dtype) for _ in range(2))

    def update(self, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Store the keys and values (batch, heads, T, width) of `positions` (T,); all there are, in the dtype given.

        Raises:
            ValueError: keys of another batch size, head count or width than the cache, more than fit it, or than there
                are positions.
        """
        self._check(k, positions)
        with no_grad():
            for store, new in zip(self._stores(), (*self._packed(k), *self._packed(v)), strict=True):
                store.index_copy_(2, positions, new.to(store.dtype))
        keys, values = self._whole()
        return keys.to(k.dtype), values.to(v.dtype)

    def _check(self, k: Tensor, positions: Tensor) -> None:
        given, own = (k.shape[0], k.shape[1], k.shape[3]), (self.batch, self.heads, self.width)
        for name, got, has in zip(("batch size", "head count", "head width"), given, own, strict=True):
            if got != has:
                raise ValueError(f"{type(self).__name__}: made for {name} {has}, used with {got}")
        if k.shape[2] > self.capacity:
            raise ValueError(f"{type(self).__name__}: {k.shape[2]} positions at once exceed capacity {self.capacity}")
        if tuple(positions.shape) != (k.shape[2],):
            given = tuple(positions.shape)
            raise ValueError(f"{type(self).__name__}: positions have shape {given}, expected {(k.shape[2],)}")

    def _packed(self, x: Tensor) -> tuple[Tensor, ...]:
        return (x.detach(),)

    def _stores(self) -> tuple[Tensor, ...]:
        return self.keys, self.values

    def _whole(self) -> tuple[Tensor, Tensor]:
        return self.keys, self.values

    def reorder(self, rows: Tensor) -> None:
        """Let row i of the batch continue what row rows[i] holds: beam search."""
        with no_grad():
            for store in self._stores():
                store.copy_(store.index_select(0, rows))

    def nbytes(self) -> int:
        """Bytes held."""
        return sum(store.numel() * store.element_size() for store in self._stores())


class QuantisedLayerCache(LayerCache):
    """A LayerCache in int8, with one scale a token and head: x is about scale · round(x / scale).

    Scales are float32, of float64 keys float64: in 16 bits that of small keys would be 0.
    """

    def __init__(self, batch: int, heads: int, capacity: int, width: int, dtype: Any = None) -> None:
        self.batch, self.heads, self.capacity, self.width = batch, heads, capacity, width
        self.keys, self.values = (creation.zeros(batch, heads, capacity, width, dtype=int8) for _ in range(2))
        wide = float64 if dtype is float64 else float32
        self.key_scale, self.value_scale = (creation.zeros(batch, heads, capacity, 1, dtype=wide) for _ in range(2))

    def _packed(self, x: Tensor) -> tuple[Tensor, ...]:
        x = x.detach().to(self.key_scale.dtype)
        scale = x.abs().amax(dim=-1, keepdim=True) / 127.0
        return (x / scale.clamp(min=1e-12)).round().to(int8), scale

    def _stores(self) -> tuple[Tensor, ...]:
        return self.keys, self.key_scale, self.values, self.value_scale

    def _whole(self) -> tuple[Tensor, Tensor]:
        dtype = self.key_scale.dtype
        return self.keys.to(dtype) * self.key_scale, self.values.to(dtype) * self.value_scale


class KVCache:
    """One LayerCache a layer. `layers[i]` goes to layer i; the caller counts positions.

    Args:
        quantised: keep int8 and a scale in place of floats.
    """

    def __init__(
        self,
        layers: int,
        batch: int,
        heads: int,
        capacity: int,
        width: int,
        *,
        quantised: bool = False,
        dtype: Any = None,
    ) -> None:
        kind = QuantisedLayerCache if quantised else LayerCache
        self.batch, self.capacity = batch, capacity
        self.layers = [kind(batch, heads, capacity, width, dtype) for _ in range(layers)]

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, layer: int) -> LayerCache:
        if not -len(self) <= layer < len(self):
            raise IndexError(f"KVCache: made for {len(self)} layers, layer {layer} asks for its part")
        return self.layers[layer]

    def reorder(self, rows: Tensor) -> None:
        """LayerCache.reorder of every layer."""
        for layer in self.layers:
            layer.reorder(rows)

    def nbytes(self) -> int:
        """Bytes held by all layers."""
        return sum(layer.nbytes() for layer in self.layers)
