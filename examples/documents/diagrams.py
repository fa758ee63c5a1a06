"""The diagrams of both chapters as DOT source, their numbers computed rather than typed; `save` draws one.

Documents A (layers and architectures) and B (refresher) are cited by section; docs/documents.md has the index.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import graphviz

import tinygrad_lite as tl
from tinygrad_lite import Tensor, nn, viz
from tinygrad_lite.nn import functional as F

BLUE, GREEN, ORANGE, RED, PLAIN = "#dce9f7", "#dcefdc", "#fbe4d0", "#f7d9d9", "#ffffff"
HEAT = ("#4a78a8", "#b5713a", "#4b8a57", "#7d5ba6")


def save(dot: graphviz.Digraph, path: str | Path) -> Path:
    """Draw to a .svg or .png; where nothing can draw, the .dot beside it is left."""
    try:
        return viz.render(dot.source, path)
    except viz.NoRenderer as missing:
        return missing.kept


def new(name: str, rankdir: str = "TB") -> graphviz.Digraph:
    dot = graphviz.Digraph(name)
    dot.attr(rankdir=rankdir, fontname="Helvetica", nodesep="0.25", ranksep="0.35")
    dot.attr("node", shape="box", style="rounded,filled", fillcolor=PLAIN, fontname="Helvetica", fontsize="11")
    dot.attr("edge", fontname="Helvetica", fontsize="10")
    return dot


# ---- D1, A §1: which layer a structure asks for


LAYERS = {
    "dense": ("Dense", "nothing", "parameters and data it needs"),
    "conv": ("Convolution", "local patterns, anywhere", "a fixed window; shifts only"),
    "rnn": ("Recurrent, LSTM", "the past fits a state", "sequential; gradient decays with span"),
    "attention": ("Attention", "read by content", "n² scores; blind to position"),
}


def decision_tree() -> graphviz.Digraph:
    """Two questions, four leaves with the layer's bet and where it fails."""
    dot = new("decision_tree")
    dot.node("structure", "structure of the input?", shape="diamond", fillcolor=ORANGE)
    dot.node("length", "length of the\ndependencies?", shape="diamond", fillcolor=ORANGE)
    for key, (name, bet, fails) in LAYERS.items():
        dot.node(key, f"{name}\nbet: {bet}\nfails: {fails}", fillcolor=BLUE)
    dot.edge("structure", "dense", "none: columns")
    dot.edge("structure", "conv", "local, anywhere")
    dot.edge("structure", "length", "a sequence")
    dot.edge("length", "rnn", "short, streaming,\nfixed memory")
    dot.edge("length", "attention", "long, trained\nin parallel")
    return dot


# ---- D2, A §3: the receptive field down a stack


def field_chain(layers: Sequence[tuple[int, int]], fields: Sequence[tuple[int, int]]) -> graphviz.Digraph:
    """The input and every (kernel, stride) with its (r, j); layers that change the jump stand out."""
    dot = new("receptive_field", "LR")
    dot.node("0", "input\nr=1, j=1")
    for i, ((k, s), (r, j)) in enumerate(zip(layers, fields, strict=True), 1):
        kind = "conv" if s == 1 else "pool"
        dot.node(str(i), f"{kind} {k}x{k} s{s}\nr={r}, j={j}", fillcolor=ORANGE if s > 1 else PLAIN)
        dot.edge(str(i - 1), str(i))
    return dot


# ---- D3, A §6: what the gradient is a product of


def _gradient(step: Callable[[Tensor], Tensor], steps: int) -> float:
    start = tl.zeros((), dtype=tl.float64).requires_grad_(True)
    state = start
    for _ in range(steps):
        state = step(state)
    return tl.autograd.grad(state, start)[0].item()


def highways(weight: float = 0.84, forget: float = 0.99, steps: int = 100) -> graphviz.Digraph:
    """The same span through a tanh recurrence and through a cell state; both ends by autograd."""
    gate = tl.tensor(math.log(forget / (1 - forget)), dtype=tl.float64)
    ends = {
        "RNN": (_gradient(lambda h: (weight * h).tanh(), steps), "h", "D·W", f"{weight}^{steps}", RED),
        "LSTM": (_gradient(lambda c: gate.sigmoid() * c, steps), "c", "× f", f"{forget}^{steps}", GREEN),
    }
    dot = new("highways", "LR")
    for name, (value, state, label, power, colour) in ends.items():
        with dot.subgraph(name=f"cluster_{name}") as part:
            part.attr(label=f"{name}: gradient over {steps} steps")
            nodes = [f"{state}(t-2)", f"{state}(t-1)", f"{state}(t)"]
            for a, b in itertools.pairwise(nodes):
                part.edge(a, b, label)
            part.node(f"end_{name}", f"product\n{power} = {value:.2g}", fillcolor=colour)
            part.edge(nodes[-1], f"end_{name}")
    return dot


# ---- D4, A §7: attention as a pipeline


PIPELINE = (
    ("token i", "Q"), ("all tokens j", "K"), ("all tokens j", "V"), ("Q", "scores"), ("K", "scores"),
    ("scores", "scale"), ("scale", "softmax"), ("softmax", "out"), ("V", "out"),
)  # fmt: skip


def attention_pipeline() -> graphviz.Digraph:
    """From tokens to the weighted sum."""
    labels = {
        "Q": "Q = W_q x\nwhat is asked",
        "K": "K = W_k x\nwhat is offered",
        "V": "V = W_v x\nwhat is handed over",
        "scores": "Q Kᵀ\nvariance d_k",
        "scale": "÷ √d_k\nvariance 1",
        "softmax": "softmax\nrows sum to 1",
        "out": "Σ a V",
    }
    dot = new("attention", "LR")
    for node in dict.fromkeys(node for edge in PIPELINE for node in edge):
        dot.node(node, labels.get(node, node), fillcolor=GREEN if node == "scale" else BLUE if node == "out" else PLAIN)
    for a, b in PIPELINE:
        dot.edge(a, b)
    return dot


# ---- D5 and D10, A §8 and B §4: a block, by where its norms stand


def block(*variants: str) -> graphviz.Digraph:
    """A transformer block for each of "pre", "post" and "sandwich"; edges that bypass a sublayer are bold."""
    dot = new("block")
    for variant in variants:
        with dot.subgraph(name=f"cluster_{variant}") as part:
            part.attr(label=f"{variant}-norm" if variant != "sandwich" else "sandwich norm")
            _block(part, variant)
    return dot


def _block(dot: graphviz.Digraph, variant: str) -> None:
    if variant not in ("pre", "post", "sandwich"):
        raise ValueError(f"a block's norm is 'pre', 'post' or 'sandwich', not {variant!r}")

    def name(part: str) -> str:
        return f"{variant} {part}"

    dot.node(name("x"), "x", shape="ellipse")
    trunk = name("x")
    for i, label in enumerate(("attention\n4·d² weights", "FFN d → 4d → d\n8·d² weights"), 1):
        sub, add = name(f"sublayer{i}"), name(f"add{i}")
        dot.node(sub, label, fillcolor=BLUE)
        dot.node(add, "+", shape="circle", fillcolor=GREEN)
        chain = [trunk, sub, add]
        if variant in ("pre", "sandwich"):
            chain.insert(1, _norm(dot, name(f"norm{i}")))
        if variant == "sandwich":
            chain.insert(3, _norm(dot, name(f"outer norm{i}")))
        for a, b in itertools.pairwise(chain):
            dot.edge(a, b)
        dot.edge(trunk, add, style="bold", color="#4b8a57")
        trunk = add
        if variant == "post":
            trunk = _norm(dot, name(f"norm{i}"))
            dot.edge(add, trunk)
    dot.node(name("out"), "out", shape="ellipse")
    dot.edge(trunk, name("out"))


def _norm(dot: graphviz.Digraph, name: str) -> str:
    dot.node(name, "norm", fillcolor=ORANGE)
    return name


# ---- D6, A §14: three wirings


WIRINGS = {
    "Encoder only (BERT)": ("every token sees all", "masked tokens\n15 % supervised", "a vector a token"),
    "Decoder only (GPT)": ("token i sees 0 … i", "next token\n100 % supervised", "a continuation;\ncache stays valid"),
    "Encoder–decoder (T5)": (
        "encoder sees all",
        "causal decoder\n+ cross-attention",
        "a target sequence;\nsource encoded once",
    ),
}


def wirings() -> graphviz.Digraph:
    """Mask, objective and output of each, a column each."""
    dot = new("wirings")
    for i, (name, rows) in enumerate(WIRINGS.items()):
        with dot.subgraph(name=f"cluster_{i}") as part:
            part.attr(label=name)
            for k, row in enumerate(rows):
                part.node(f"{i}.{k}", row, fillcolor=(PLAIN, PLAIN, BLUE)[k])
            part.edge(f"{i}.0", f"{i}.1")
            part.edge(f"{i}.1", f"{i}.2")
    return dot


# ---- D7, B §2: the tape of the two-weight network


def tape(x: float = 2.0, w1: float = 0.5, w2: float = -1.5, y: float = 1.0) -> graphviz.Digraph:
    """Values forward, adjoints backward (dashed), cached values marked."""
    values = {k: tl.tensor(v, dtype=tl.float64, requires_grad=True) for k, v in (("x", x), ("w1", w1), ("w2", w2))}
    values["z1"] = values["x"] * values["w1"]
    values["a1"] = values["z1"].tanh()
    values["ŷ"] = values["a1"] * values["w2"]
    values["L"] = 0.5 * (values["ŷ"] - y) ** 2
    names = ["x", "w1", "z1", "a1", "w2", "ŷ"]
    adjoint = dict(zip(names, tl.autograd.grad(values["L"], [values[n] for n in names]), strict=True))
    dot = new("tape", "LR")
    for name, value in values.items():
        cached = "\ncached" if name in ("x", "w1", "a1", "w2", "ŷ") else ""
        dot.node(name, f"{name} = {value.item():.4f}{cached}", fillcolor=ORANGE if name.startswith("w") else PLAIN)
    for a, b in (("x", "z1"), ("w1", "z1"), ("z1", "a1"), ("a1", "ŷ"), ("w2", "ŷ"), ("ŷ", "L")):
        dot.edge(a, b)
        dot.edge(b, a, f"{adjoint[a].item():.4f}", style="dashed", color="#b5713a", constraint="false")
    return dot


# ---- D8, B §3: the shapes of activations, as pictures made of table cells


def activations(columns: int = 41, rows: int = 17) -> graphviz.Digraph:
    """ReLU, GELU and SiLU over [-4, 4]; the lowest value a curve takes stands below it."""
    dot = new("activations", "LR")
    x = tl.linspace(-4, 4, columns, dtype=tl.float64)
    for name, fn in (("ReLU", F.relu), ("GELU", F.gelu), ("SiLU", F.silu)):
        lowest = fn(tl.linspace(-4, 4, 8001, dtype=tl.float64)).amin().item()
        dot.node(name, _plot(fn(x).tolist(), rows, f"{name}, lowest {lowest:.3f}"), shape="plain")
    return dot


def _plot(values: Sequence[float], rows: int, title: str, low: float = -1.0, high: float = 4.0) -> str:
    at = [round((v - low) / (high - low) * (rows - 1)) for v in values]
    zero = round(-low / (high - low) * (rows - 1))
    lines = []
    for row in reversed(range(rows)):
        colours = (HEAT[0] if at[i] == row else "#cccccc" if row == zero else None for i in range(len(values)))
        lines.append("<tr>" + "".join(_cell(colour) for colour in colours) + "</tr>")
    head = f'<tr><td colspan="{len(values)}">{title}</td></tr>'
    return f'<<table border="1" cellborder="0" cellspacing="0" cellpadding="0">{head}{"".join(lines)}</table>>'


def _cell(colour: str | None) -> str:
    fill = f' bgcolor="{colour}"' if colour else ""
    return f'<td fixedsize="true" width="5" height="7"{fill}></td>'


# ---- D9, B §4: which numbers share a mean


def norm_axes(numbers: Tensor) -> graphviz.Digraph:
    """(tokens, channels) numbers under BatchNorm (a colour a column) and LayerNorm (a colour a row)."""
    dot = new("norm_axes", "LR")
    rows, columns = numbers.shape
    for name, colour in (("BatchNorm", lambda i, j: j), ("LayerNorm", lambda i, j: i)):
        cells = []
        for i in range(rows):
            row = (_number(numbers[i, j].item(), HEAT[colour(i, j) % len(HEAT)]) for j in range(columns))
            cells.append(f"<tr>{''.join(row)}</tr>")
        statistics = columns if name == "BatchNorm" else rows
        head = f'<tr><td colspan="{columns}">{name}: {statistics} means</td></tr>'
        dot.node(
            name, f'<<table border="0" cellborder="1" cellspacing="0">{head}{"".join(cells)}</table>>', shape="plain"
        )
    return dot


def _number(value: float, colour: str) -> str:
    return f'<td bgcolor="{colour}"><font color="white">{value:g}</font></td>'


# ---- D11: any model


def model(module: nn.Module, *inputs: Tensor, path: str | Path, ops: bool = False) -> Path:
    """A model for one example input: its modules, or with `ops` its graph, every parameter by name."""
    drawn = tl.trace(module, *inputs) if ops else viz.architecture(module, *inputs)
    try:
        return viz.draw(drawn, path)
    except viz.NoRenderer as missing:
        return missing.kept
