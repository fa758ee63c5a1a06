"""Graphs of real shape for the tests of ir/: a GPT's forward pass, whole training steps, recorded on nodes alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from tinygrad_lite import autodiff
from tinygrad_lite.ir.graph import Graph, Update
from tinygrad_lite.ir.node import GradMeta, Node
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import float32, int64
from tinygrad_lite.ops import composite, contract, create, indexing, leaf, movement, reduce
from tinygrad_lite.ops import elementwise as ew


@contextmanager
def tracing(scope: str = "") -> Iterator[None]:
    """Record symbolically, under a module scope."""
    path = ".".join(filter(None, (mode.scope, scope)))
    with mode.set(trace=mode.trace or object(), scope=path):
        yield


class _Parameters:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}

    def __call__(self, name: str, *shape: int) -> Node:
        full_name = f"{mode.scope}.{name}" if mode.scope else name
        if full_name not in self.nodes:
            self.nodes[full_name] = leaf.state(full_name, float32, shape)
            self.nodes[full_name].grad = GradMeta(leaf=True)
        return self.nodes[full_name]


def _linear(p: _Parameters, name: str, x: Node, out: int) -> Node:
    with tracing(name):
        return contract.linear(x, p("weight", out, x.shape[-1]), p("bias", out))


def _norm(p: _Parameters, name: str, x: Node) -> Node:
    with tracing(name):
        width = x.shape[-1]
        return composite.layer_norm(x, (width,), p("weight", width), p("bias", width))


def _attention(p: _Parameters, x: Node, heads: int) -> Node:
    with tracing("attn"):
        batch, time, width = x.shape
        qkv = _linear(p, "qkv", x, 3 * width)
        q, k, v = (
            movement.transpose(
                movement.reshape(movement.narrow(qkv, 2, i * width, width), (batch, time, heads, width // heads)), 1, 2
            )
            for i in range(3)
        )
        mixed = composite.scaled_dot_product_attention(q, k, v, is_causal=True)
        return _linear(p, "proj", movement.reshape(movement.transpose(mixed, 1, 2), x.shape), width)


def _mlp(p: _Parameters, x: Node) -> Node:
    with tracing("mlp"):
        hidden = composite.gelu(_linear(p, "fc", x, 4 * x.shape[-1]))
        return _linear(p, "proj", hidden, x.shape[-1])


def _logits(p: _Parameters, tokens: Node, layers: int, width: int, heads: int, vocabulary: int) -> Node:
    table, places = p("wte.weight", vocabulary, width), p("wpe.weight", tokens.shape[1], width)
    with tracing("wte"):
        x = indexing.gather(table, tokens)
    with tracing("wpe"):
        x = ew.add(x, indexing.gather(places, create.arange(tokens.shape[1])))
    for i in range(layers):
        with tracing(f"blocks.{i}"):
            x = ew.add(x, _attention(p, _norm(p, "ln_1", x), heads))
            x = ew.add(x, _mlp(p, _norm(p, "ln_2", x)))
    x = _norm(p, "ln_f", x)
    with tracing("head"):
        return contract.matmul(x, movement.transpose(table, 0, 1))


def gpt_forward(layers: int = 2, width: int = 8, heads: int = 2, batch: int = 2, time: int = 4) -> Graph:
    """Tokens to logits."""
    p = _Parameters()
    tokens = leaf.input("tokens", int64, (batch, time))
    with tracing():
        logits = _logits(p, tokens, layers, width, heads, 11)
    return Graph("gpt", (tokens,), tuple(p.nodes.values()), (logits,))


def gpt_step(layers: int = 2, width: int = 8, heads: int = 2, batch: int = 2, time: int = 4) -> Graph:
    """Forward, cross-entropy, backward, clipping of the gradients' norm to 1, AdamW."""
    p = _Parameters()
    tokens, targets = (leaf.input(n, int64, (batch, time)) for n in ("tokens", "targets"))
    rate = leaf.input("lr", float32, ())
    with tracing():
        logits = _logits(p, tokens, layers, width, heads, 11)
        flat = movement.reshape(logits, (batch * time, 11))
        loss = composite.cross_entropy(flat, movement.reshape(targets, (batch * time,)))
        parameters = list(p.nodes.values())
        found = autodiff.gradients([loss], [create.full((), 1.0, float32)], parameters)
        gradients = [g for g in found if g is not None]
        moments, updates = [], []
        with mode.set(phase="optimiser", grad_enabled=False):
            norm = ew.sqrt(_total([reduce.sum(ew.mul(g, g)) for g in gradients]))
            factor = ew.minimum(ew.div(1.0, ew.add(norm, 1e-6)), 1.0)
            for weight, gradient in zip(parameters, gradients, strict=True):
                states, new = _adamw(weight, ew.mul(gradient, factor), rate)
                moments += states
                updates += new
    return Graph("gpt_step", (tokens, targets, rate), (*parameters, *moments), (loss,), tuple(updates))


def _total(terms: list[Node]) -> Node:
    total = terms[0]
    for term in terms[1:]:
        total = ew.add(total, term)
    return total


def _adamw(weight: Node, gradient: Node, rate: Node) -> tuple[list[Node], list[Update]]:
    name = weight.attrs["name"]
    mean, square = (leaf.state(f"{name}.{n}", float32, weight.shape) for n in ("exp_avg", "exp_avg_sq"))
    new_mean = ew.add(ew.mul(mean, 0.9), ew.mul(gradient, 0.1))
    new_square = ew.add(ew.mul(square, 0.999), ew.mul(ew.mul(gradient, gradient), 0.001))
    step = ew.div(new_mean, ew.add(ew.sqrt(new_square), 1e-8))
    decayed = ew.mul(weight, ew.sub(1.0, ew.mul(rate, 0.1 / math.sqrt(1))))
    new_weight = ew.sub(decayed, ew.mul(step, rate))
    return [mean, square], [Update(weight, new_weight), Update(mean, new_mean), Update(square, new_square)]


def mlp_step(sizes: tuple[int, ...] = (2, 16, 16, 2), batch: int = 100) -> Graph:
    """A small classifier's step with plain gradient descent."""
    p = _Parameters()
    x, target = leaf.input("x", float32, (batch, sizes[0])), leaf.input("target", int64, (batch,))
    with tracing():
        hidden = x
        for i, size in enumerate(sizes[1:-1]):
            hidden = composite.relu(_linear(p, f"layers.{i}", hidden, size))
        loss = composite.cross_entropy(_linear(p, "out", hidden, sizes[-1]), target)
        parameters = list(p.nodes.values())
        gradients = autodiff.gradients([loss], [create.full((), 1.0, float32)], parameters)
        with mode.set(phase="optimiser", grad_enabled=False):
            updates = [Update(w, ew.sub(w, ew.mul(g, 0.1))) for w, g in zip(parameters, gradients, strict=True) if g]
    return Graph("mlp_step", (x, target), tuple(parameters), (loss,), tuple(updates))
