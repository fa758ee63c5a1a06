"""Sizes and costs of architectures from formulae: no model is built, so a 7B one costs nothing to look at.

tests/models/test_arithmetic.py checks each against the parameters and the graphs of built models.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from tinygrad_lite.nn.feedforward import gated_width

GATES = {"rnn": 1, "gru": 3, "lstm": 4}

# ---- parameters --------------------------------------------------------------------------------------------


def linear_parameters(fan_in: int, fan_out: int, bias: bool = True) -> int:
    """in · out weights, and a bias an output."""
    return fan_in * fan_out + (fan_out if bias else 0)


def mlp_parameters(sizes: Sequence[int], bias: bool = True) -> int:
    """Of linear layers between consecutive sizes."""
    return sum(linear_parameters(a, b, bias) for a, b in itertools.pairwise(sizes))


def conv_parameters(channels_in: int, channels_out: int, kernel: int | Sequence[int], bias: bool = True) -> int:
    """Of a convolution; an int `kernel` is a square."""
    window = kernel * kernel if isinstance(kernel, int) else math.prod(kernel)
    return window * channels_in * channels_out + (channels_out if bias else 0)


def recurrent_parameters(kind: str, inputs: int, hidden: int, biases: int = 1) -> int:
    """Of one layer of an "rnn", "gru" or "lstm"; PyTorch's layers have two biases a gate.

    Raises:
        ValueError: another kind.
    """
    if kind not in GATES:
        raise ValueError(f"kind must be one of {', '.join(GATES)}, not {kind!r}")
    return GATES[kind] * (inputs * hidden + hidden * hidden + biases * hidden)


def transformer_ledger(
    d: int,
    layers: int,
    vocab: int,
    *,
    d_ff: int | None = None,
    gated: bool = False,
    kv_width: int | None = None,
    norm: str = "layer",
    final_norm: bool = False,
    tied: bool = True,
) -> dict[str, int]:
    """Parameters by part: "attention", "feed_forward" and "norms" of all blocks, "embeddings", "final_norm".

    Linear layers without biases, no position table.

    Args:
        d_ff: inner width, 4 d by default, of a `gated` feed-forward 8/3 d rounded up to a multiple of 256.
        kv_width: key heads times their width; d by default.
        norm: "layer" (gain and bias) or "rms" (gain).

    Raises:
        ValueError: another norm.
    """
    if norm not in ("layer", "rms"):
        raise ValueError(f"norm must be 'layer' or 'rms', not {norm!r}")
    inner = d_ff if d_ff is not None else gated_width(d) if gated else 4 * d
    of_norm = (2 if norm == "layer" else 1) * d
    return {
        "attention": layers * (2 * d * d + 2 * d * (d if kv_width is None else kv_width)),
        "feed_forward": layers * (3 if gated else 2) * d * inner,
        "norms": layers * 2 * of_norm,
        "embeddings": vocab * d * (1 if tied else 2),
        "final_norm": of_norm if final_norm else 0,
    }


def transformer_parameters(d: int, layers: int, vocab: int, **options: Any) -> int:
    """The sum of `transformer_ledger`."""
    return sum(transformer_ledger(d, layers, vocab, **options).values())


def estimated_parameters(d: int, layers: int) -> int:
    """12 L d²: four d × d matrices and a feed-forward of 8 d² a block, embeddings left out."""
    return 12 * layers * d * d


# ---- work and memory ---------------------------------------------------------------------------------------


def flops_per_token(parameters: float, train: bool = False) -> float:
    """2 N forward; in training 6 N, backward taking gradients by activations and by weights."""
    return (6 if train else 2) * parameters


def block_flops_per_token(d: int, context: int) -> tuple[int, int]:
    """FLOPs of one layer's matrices, 24 d², and of its attention over `context` tokens, 4 n d."""
    return 24 * d * d, 4 * context * d


def attention_crossover(d: int, weights: int | None = None, causal_average: bool = False) -> int:
    """The context at which attention costs what the matrices of its block do: 6 d.

    Args:
        weights: of the matrices it is held against, 12 d² by default.
        causal_average: a token sees half the context on average.
    """
    weights = 12 * d * d if weights is None else weights
    return 2 * weights // (2 * d if causal_average else 4 * d)


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, bytes_each: int = 2) -> int:
    """A key and a value of every layer."""
    return 2 * layers * kv_heads * head_dim * bytes_each


def recurrent_state_bytes(layers: int, hidden: int, kind: str = "lstm", bytes_each: int = 4) -> int:
    """What a recurrence keeps of any past: two vectors a layer for an "lstm", else one."""
    return (2 if kind == "lstm" else 1) * layers * hidden * bytes_each


def score_bytes(heads: int, queries: int, keys: int | None = None, bytes_each: int = 2) -> int:
    """The matrix of scores of one layer and one example: heads · n², whatever the width."""
    return heads * queries * (queries if keys is None else keys) * bytes_each


def activation_bytes(batch: int, tokens: int, d: int, layers: int, each: int = 1, bytes_each: int = 4) -> int:
    """B · T · d · L times the `each` tensors of that size a layer keeps for backward; scores are apart."""
    return batch * tokens * d * layers * each * bytes_each


def checkpoint_cost(layers: int, segment: int | None = None) -> tuple[int, float]:
    """Layers stored at once with segments recomputed, √L long by default; and the work, in units of 6 N."""
    segment = max(1, math.isqrt(layers)) if segment is None else segment
    return -(-layers // segment) + segment, 8 / 6


def attention_multiply_adds(positions: int, d: int) -> int:
    """Scores and weighted sums of a whole sequence: 2 n² d."""
    return 2 * positions * positions * d


def conv_multiply_adds(channels_in: int, channels_out: int, kernel: int, height: int, width: int) -> int:
    """Of a square kernel over an output of height × width."""
    return conv_parameters(channels_in, channels_out, kernel, bias=False) * height * width


# ---- what a stack sees and can express -------------------------------------------------------------------------


def receptive_field(layers: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """(r, j) after each (kernel, stride) or (kernel, stride, dilation): inputs a unit sees, inputs between units.

    r grows by dilation · (kernel - 1) times the jump that enters the layer; only then does j take the stride. Padding
    changes neither.
    """
    r = j = 1
    found = []
    for kernel, stride, *dilation in layers:
        r += (dilation[0] if dilation else 1) * (kernel - 1) * j
        j *= stride
        found.append((r, j))
    return found


def depth_for_field(target: int, kernel: int = 3) -> int:
    """The fewest layers of stride 1 whose units see `target` inputs."""
    return -(-(target - 1) // (kernel - 1))


def dilated_span(kernel: int, dilation: int) -> int:
    """Inputs from a kernel's first tap to its last."""
    return dilation * (kernel - 1) + 1


def region_bound(width: int, inputs: int, depth: int) -> float:
    """(w / d)^(d (L - 1)) · w^d regions that ReLU nets can reach, up to constants (Montúfar et al. 2014)."""
    return (width / inputs) ** (inputs * (depth - 1)) * width**inputs


def fold_pieces(folds: int) -> int:
    """Straight pieces of |2x - 1| applied so often."""
    return 2**folds


def shallow_pieces(units: int) -> int:
    """The most straight pieces one hidden layer of ReLU units has, of a single input."""
    return units + 1


def residual_paths(blocks: int) -> int:
    """Ways through a residual stack: each block is passed or skipped."""
    return 2**blocks


__all__ = [
    "activation_bytes",
    "attention_crossover",
    "attention_multiply_adds",
    "block_flops_per_token",
    "checkpoint_cost",
    "conv_multiply_adds",
    "conv_parameters",
    "depth_for_field",
    "dilated_span",
    "estimated_parameters",
    "flops_per_token",
    "fold_pieces",
    "gated_width",
    "kv_bytes_per_token",
    "linear_parameters",
    "mlp_parameters",
    "receptive_field",
    "recurrent_parameters",
    "recurrent_state_bytes",
    "region_bound",
    "residual_paths",
    "score_bytes",
    "shallow_pieces",
    "transformer_ledger",
    "transformer_parameters",
]
