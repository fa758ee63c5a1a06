"""What layers and models weigh, compute and keep, from formulae; and the same counted in a recorded graph.

Formulae count a multiply-add as two operations, and call tokens per sequence n, width d, layers L. Tests hold each
against the graph of a built model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.reading import PRODUCTS, product_flops_of
from tinygrad_lite.models.gpt import GPTConfig
from tinygrad_lite.models.ledgers import (
    Share,
    attention_parameters,
    conv_parameters,
    encoder_parameters,
    gpt_parameters,
    ledger,
    linear_parameters,
    llama_parameters,
    mlp_parameters,
    parameters,
    product_flops,
    recurrent_parameters,
    vit_parameters,
)
from tinygrad_lite.models.llama import LlamaConfig
from tinygrad_lite.nn.feedforward import gated_width

__all__ = [
    "Share",
    "attention_parameters",
    "conv_parameters",
    "encoder_parameters",
    "gpt_parameters",
    "ledger",
    "linear_parameters",
    "llama_parameters",
    "mlp_parameters",
    "parameters",
    "product_flops",
    "recurrent_parameters",
    "vit_parameters",
]

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}

# ---- parameters -----------------------------------------------------------------------------------------


def d_ff(d: int, multiple: int = 256) -> int:
    """Width of a gated feed-forward, 8/3 d rounded up to a multiple: its three matrices weigh about 8 d²."""
    return gated_width(d, multiple)


def transformer_parameters(d: int, layers: int, vocab: int = 0, ffn_mult: float = 4, tied: bool = True) -> int:
    """The rule of thumb: layers · (4 + 2 ffn_mult) d², 12 L d² at 4, and the embedding once or twice."""
    return round(layers * (4 + 2 * ffn_mult) * d * d) + vocab * d * (1 if tied else 2)


def estimate(layers: int, d: int) -> int:
    """12 L d²: what a model of this shape should weigh without embeddings."""
    return transformer_parameters(d, layers)


# ---- computation -------------------------------------------------------------------------------------------


def flops_per_token(n_parameters: int, train: bool = False) -> int:
    """2 N forward, 6 N forward and backward: every weight meets each token once, its gradient twice more."""
    return (6 if train else 2) * n_parameters


def attention_flops(n: int, d: int, layers: int = 1, train: bool = False) -> int:
    """Of scores and weighted sums of a sequence of n, 4 n² d a layer, thrice that in training; a causal mask halves it
    only where the kernel leaves out what is masked."""
    return 4 * n * n * d * layers * (3 if train else 1)


def matmul_flops(config: GPTConfig | LlamaConfig, batch: int, n: int, train: bool = False) -> int:
    """Of all products with weights, for `batch` sequences of n: 2 a weight and token, 6 in training."""
    scores = batch * attention_flops(n, config.n_embd, config.n_layer)
    return (product_flops(config, batch, n) - scores) * (3 if train else 1)


def conv_flops(inputs: int, outputs: int, kernel: int, height: int, width: int) -> int:
    """Of a square convolution that puts out height · width pixels."""
    return 2 * kernel * kernel * inputs * outputs * height * width


def crossover(d: int) -> int:
    """The sequence length, 6 d, at which a block's scores cost as much as its 12 d² weights: 24 d² = 4 n d a token."""
    return 6 * d


# ---- memory ------------------------------------------------------------------------------------------------


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, bytes_: int = 2) -> int:
    """2 L · kv_heads · head_dim · bytes: keys and values of every layer."""
    return 2 * layers * kv_heads * head_dim * bytes_


def kv_bytes(layers: int, kv_heads: int, head_dim: int, tokens: int, batch: int = 1, bytes_: int = 2) -> int:
    """Of a whole cache."""
    return kv_bytes_per_token(layers, kv_heads, head_dim, bytes_) * tokens * batch


def recurrent_state_bytes(cell: str, hidden: int, layers: int = 1, bytes_: int = 4) -> int:
    """Of one stream, however long: h, and of an LSTM c too."""
    return (2 if cell == "lstm" else 1) * hidden * layers * bytes_


class Activations(NamedTuple):
    """Bytes kept for backward: what grows with n, and the scores, which grow with n²."""

    linear: int
    scores: int

    @property
    def total(self) -> int:
        """Both."""
        return self.linear + self.scores


def mlp_activation_bytes(sizes: Sequence[int], batch: int, bytes_: int = 4) -> int:
    """The inputs of every linear layer: what a perceptron must keep, the last output aside."""
    return batch * sum(sizes[:-1]) * bytes_


def transformer_activation_bytes(
    batch: int, n: int, d: int, layers: int, heads: int, bytes_: int = 4, fused: bool = True, recorded: bool = False
) -> Activations:
    """Of a decoder of pre-norm blocks with 4 d wide feed-forwards; scores are h n² a block, none where fused.

    A block keeps 14 numbers per d and token at the least: what its norms read and put out (4, of which the residual
    stream's are counted once), q, k, v and the attention's result (4), and the feed-forward before and after its
    activation (8, less the 2 that are shared). `recorded` counts what the recorded graph reads again before any pass
    shortens it: 3 d and one scale a norm, 4 d of attention, 4 d before GELU and 4 d after it.
    """
    per_token = 18 * d + 2 if recorded else 14 * d
    return Activations(batch * n * layers * per_token * bytes_, 0 if fused else batch * heads * n * n * layers * bytes_)


def checkpoint_cost(layers: int) -> dict[str, float]:
    """Of keeping only every √L-th layer's input: segments, tensors alive at once, forward passes, whole cost ratio."""
    size = math.isqrt(layers)
    segments = -(-layers // size)
    return {"segments": segments, "alive": segments + size, "forwards": 2.0, "ratio": 8 / 6}


# ---- convolutions ------------------------------------------------------------------------------------------


def conv_size(n: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    """Pixels an axis of n keeps. Raises ValueError where none are left."""
    size = (n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    if size < 1:
        given = f"kernel {kernel}, stride {stride}, padding {padding}, dilation {dilation}"
        raise ValueError(f"conv_size: an axis of {n} keeps nothing with {given}")
    return size


def span(kernel: int, dilation: int = 1) -> int:
    """Pixels a dilated kernel reaches over: dilation (kernel - 1) + 1."""
    return dilation * (kernel - 1) + 1


def receptive_field(layers: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    """(r, j) after each layer (kernel, stride[, dilation]): pixels a unit sees, and input pixels between two units.

    r grows by dilation (kernel - 1) times the *incoming* j; then j by the stride. Padding changes neither.
    """
    r = j = 1
    found = []
    for kernel, stride, *rest in layers:
        r += (rest[0] if rest else 1) * (kernel - 1) * j
        j *= stride
        found.append((r, j))
    return found


def depth_for_receptive_field(target: int, kernel: int = 3) -> int:
    """How many stride-1 convolutions it takes to see `target` pixels."""
    return max(0, -(-(target - 1) // (kernel - 1)))


# ---- pieces ------------------------------------------------------------------------------------------------


def shallow_pieces(units: int) -> int:
    """Most linear pieces of one hidden ReLU layer over one input."""
    return units + 1


def fold_pieces(folds: int) -> int:
    """Pieces of |2x - 1| applied again and again."""
    return 2**folds


def region_bound(width: int, inputs: int, layers: int) -> int:
    """A lower bound on the most linear regions of `layers` hidden layers, up to constants. Montúfar et al. 2014,
    arXiv:1402.1869: floor(w / d)^(d (L - 1)) w^d."""
    return (width // inputs) ** (inputs * (layers - 1)) * width**inputs


def region_bound_exact(width: int, inputs: int, layers: int) -> int:
    """The same before it is simplified: the last factor is the sum of the binomials C(w, 0 … d)."""
    last = sum(math.comb(width, j) for j in range(inputs + 1))
    return (width // inputs) ** (inputs * (layers - 1)) * last


# ---- counts of a graph -------------------------------------------------------------------------------------


def graph_flops(graph: Graph, phase: str | None = None, attention: bool = True) -> int:
    """Of a graph's products, in one phase ("forward", "backward") or all; with `attention`, of fused kernels too."""
    kinds = PRODUCTS if attention else PRODUCTS - {Kind.ATTENTION}
    return product_flops_of((n for n in graph.nodes if phase in (None, _phase(n))), kinds)


def graph_parameters(graph: Graph) -> int:
    """Floating-point numbers of a graph's states: parameters and buffers, of a graph that reads no others."""
    return sum(s.type.size for s in graph.states if s.dtype.kind == "f")


def saved_bytes(graph: Graph) -> int:
    """Bytes of distinct values that forward computes or is given, and backward reads; states aside.

    Values that are another's elements in another order or shape count as that one. A planner may keep less, and
    compute some again.
    """
    saved = {}
    for node in graph.nodes:
        if _phase(node) == "forward":
            continue
        for value in node.inputs:
            root = _root(value)
            made = root.op.kind is not Kind.CREATE and root.op.name not in ("state", "constant")
            if made and _phase(root) == "forward" and root.dtype.kind == "f":
                saved[id(root)] = root.type.nbytes
    return sum(saved.values())


def _phase(node: Any) -> str:
    return "forward" if node.location is None else str(node.location.phase)


def _root(node: Any) -> Any:
    """What a reshaped, permuted, stretched or sliced value is made of."""
    while node.inputs and node.op.name in ("reshape", "permute", "expand", "detach", "slice"):
        node = node.inputs[0]
    return node


def critical_path(graph: Graph, kinds: Sequence[Kind] = (Kind.MATMUL, Kind.ATTENTION, Kind.CONVOLUTION)) -> int:
    """Most products that must follow one another. A loop counts its body's as often as it runs."""
    depth: dict[int, int] = {}
    for node in graph.nodes:
        own = int(node.op.kind in kinds)
        if node.op.kind is Kind.LOOP:
            own = critical_path(node.attrs["body"], kinds) * int(node.attrs["length"])
        depth[id(node)] = own + max((depth[id(i)] for i in node.inputs), default=0)
    return max((depth[id(r)] for r in graph.results), default=0)
