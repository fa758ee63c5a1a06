"""torch's transformer layers, stacks and model; state-dict keys and results are torch's."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from tinygrad_lite import creation
from tinygrad_lite.nn import functional as F
from tinygrad_lite.nn import init
from tinygrad_lite.nn.attention import MultiheadAttention
from tinygrad_lite.nn.containers import ModuleList
from tinygrad_lite.nn.dropout import Dropout
from tinygrad_lite.nn.linear import Linear
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.norm import LayerNorm
from tinygrad_lite.nn.residual import DropPath
from tinygrad_lite.tensor import Tensor

Activation = str | Callable[[Tensor], Tensor]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    if callable(given):
        return given
    if given not in _ACTIVATIONS:
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    return _ACTIVATIONS[given]


class _Layer(Module):
    """What encoder and decoder layers share: a feed-forward, and branches with their norms and dropouts."""

    norm_first: bool
    sandwich: bool

    def _feed_forward_parts(self, d_model: int, width: int, dropout: float, activation: Activation, kw: Any) -> None:
        bias = kw.pop("bias")
        self.linear1 = Linear(d_model, width, bias=bias, **kw)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(width, d_model, bias=bias, **kw)
        self.activation = _activation(activation)

    def _norms(self, count: int, d_model: int, eps: float, bias: bool, kw: Any) -> None:
        for i in range(1, count + 1):
            self.add_module(f"norm{i}", LayerNorm(d_model, eps, bias=bias, **kw))
        if self.sandwich:
            for i in range(1, count + 1):
                self.add_module(f"norm{i}_after", LayerNorm(d_model, eps, bias=bias, **kw))

    def _add(self, i: int, x: Tensor, branch: Callable[[Tensor], Tensor]) -> Tensor:
        """x plus the branch, with norm i where this layer has it."""
        norm, drop = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
        y = branch(norm(x) if self.norm_first else x)
        if self.sandwich:
            y = getattr(self, f"norm{i}_after")(y)
        x = x + self.drop_path(drop(y))
        return x if self.norm_first else norm(x)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _check_sandwich(sandwich: bool, norm_first: bool, layer: str) -> None:
    if sandwich and not norm_first:
        raise ValueError(f"{layer}: sandwich adds a norm behind each branch of a norm_first layer")


class TransformerEncoderLayer(_Layer):
    """Self-attention, then linear-activation-linear, each added to its input and normalised.

    Shapes: src (T, B, d_model), (B, T, d_model) with batch_first, or (T, d_model), to the same. Masks as
    MultiheadAttention's. Norms stand after the sums, or at the branches' start with norm_first.

    Args:
        sandwich: a second norm at the branches' end (norm_first only).
        drop_path: probability that an example skips a branch in training; needs batch_first.

    Raises:
        ValueError: nhead does not divide d_model. RuntimeError: another activation, or masks that do not fit.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        sandwich: bool = False,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        _check_sandwich(sandwich, norm_first, "TransformerEncoderLayer")
        kw = {"device": device, "dtype": dtype}
        self.norm_first, self.sandwich = norm_first, sandwich
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias=bias, batch_first=batch_first, **kw)
        self._feed_forward_parts(d_model, dim_feedforward, dropout, activation, {"bias": bias, **kw})
        self._norms(2, d_model, layer_norm_eps, bias, kw)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.drop_path = DropPath(drop_path)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attention(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._add(2, self._add(1, src, attention), self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, linear-activation-linear, each added to its input and normalised.

    Shapes: tgt (T, B, d_model), memory (S, B, d_model), or batch first, to tgt's. Arguments as the encoder layer's.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        sandwich: bool = False,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        _check_sandwich(sandwich, norm_first, "TransformerDecoderLayer")
        kw = {"device": device, "dtype": dtype}
        self.norm_first, self.sandwich = norm_first, sandwich
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias=bias, batch_first=batch_first, **kw)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias=bias, batch_first=batch_first, **kw)
        self._feed_forward_parts(d_model, dim_feedforward, dropout, activation, {"bias": bias, **kw})
        self._norms(3, d_model, layer_norm_eps, bias, kw)
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)
        self.drop_path = DropPath(drop_path)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attention(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def crossing(x: Tensor) -> Tensor:
            attend = self.multihead_attn
            return attend(x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal)[0]

        x = self._add(2, self._add(1, tgt, attention), crossing)
        return self._add(3, x, self._feed_forward)


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


def _causal_hint(mask: Tensor | None, hint: bool | None) -> bool:
    """Whether the mask may be taken for causal: only on the caller's word, since its values may be unknown."""
    return bool(hint) and mask is not None


class TransformerEncoder(Module):
    """num_layers copies of an encoder layer, then `norm`. Shapes as the layer's."""

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        causal = _causal_hint(mask, is_causal)
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """num_layers copies of a decoder layer, then `norm`. Shapes as the layer's."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        causal = _causal_hint(tgt_mask, tgt_is_causal)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder stacks with final norms. Vaswani et al. 2017, arXiv:1706.03762.

    Shapes: src (S, B, d_model), tgt (T, B, d_model), or batch first, to tgt's.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **kw)

        if custom_encoder is None:
            custom_encoder = TransformerEncoder(TransformerEncoderLayer(*sizes, **kw), num_encoder_layers, norm())
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(TransformerDecoderLayer(*sizes, **kw), num_decoder_layers, norm())
        self.encoder, self.decoder = custom_encoder, custom_decoder
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        axis = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[axis] != tgt.shape[axis]:
            given = src.shape[axis], tgt.shape[axis]
            raise RuntimeError(f"Transformer: the batch number of src and tgt must be equal, not {given}")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            given = src.shape[-1], tgt.shape[-1]
            raise RuntimeError(f"Transformer: src and tgt must have d_model {self.d_model} features, not {given}")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """(sz, sz): 0 where the key does not come after the query, -inf elsewhere."""
        later = creation.arange(sz) > creation.arange(sz).unsqueeze(1)
        return creation.zeros(sz, sz, dtype=dtype).masked_fill(later, -math.inf)
