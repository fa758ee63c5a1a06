"""Lowering of attention: one kernel a pass, a task a (batch, head), queries in blocks whose scores stay in the cache.

A block's scores are kept key by key, its queries side by side as vector lanes, so softmax needs no sums across lanes
and products no transposed keys. With `causal` a block sees the keys up to its end only: half the work is never done.
Backward adds to dK and dV block by block.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from tinygrad_lite.ir.kernels.words import Address, Scratch, Word
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.schedule.fuse import Group
from tinygrad_lite.ir.schedule.place import Place, Placement

BLOCK = 32  # queries
BATCH_AXES = 3


@dataclass(frozen=True)
class AttentionKernel:
    """Source and words of one pass; its parallel loop is over batch indices."""

    source: str
    words: tuple[Word, ...]
    extent: int
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]
    work: int


FORWARD = """\
for t in range(lo, hi):
    {indices}
    {q}
    {k}
    {v}
    {results}
    for q0 in range(0, T, {block}):
        rows = minimum({block}, T - q0)
        {reach}
        tile_transpose(rows, D, q + 4 * q0 * q_row, q_row, qt, {block})
        tile_matmul(keys, {block}, D, scale, k, k_row, 1, qt, {block}, p, {block}, 0)
        for i in range({block}):
            top[i] = f32(-inf)
            total[i] = f32(0)
        for j in range(0, free - 3, 4):
            x = f32_at(p + {pitch} * j)
            for i in range({block}):
                a = where(x[i] > x[i + {block}], x[i], x[i + {block}])
                b = where(x[i + 2 * {block}] > x[i + 3 * {block}], x[i + 2 * {block}], x[i + 3 * {block}])
                a = where(a > b, a, b)
                top[i] = where(a > top[i], a, top[i])
        for j in range(free - free % 4, free):
            x = f32_at(p + {pitch} * j)
            for i in range({block}):
                top[i] = where(x[i] > top[i], x[i], top[i])
        for j in range(free, keys):
            x = f32_at(p + {pitch} * j)
            for i in range({block}):
                x[i] = where(b1(j - q0 <= i), x[i], f32(-inf))
                top[i] = where(x[i] > top[i], x[i], top[i])
        for j in range(keys):
            x = f32_at(p + {pitch} * j)
            for i in range({block}):
                x[i] = exp_f32(x[i] - top[i])
                total[i] = total[i] + x[i]
        {keep}
        {output}
"""

KEEP = """\
for i in range({block}):
    top[i] = top[i] + log_f32(total[i])
for i in range(rows):
    f32_at(l + 4 * (q0 + i) * l_row)[0] = top[i]
"""

OUTPUT = """\
tile_matmul(rows, E, keys, f32(1), p, 1, {block}, v, v_row, y + 4 * q0 * y_row, y_row, 0)
for i in range(rows):
    z = f32_at(y + 4 * (q0 + i) * y_row)
    factor = f32(1) / total[i]
    for j in range(E):
        z[j] = z[j] * factor
"""

BACKWARD = """\
for t in range(lo, hi):
    {indices}
    {q}
    {k}
    {v}
    {y}
    {l}
    {g}
    {results}
    for q0 in range(0, T, {block}):
        rows = minimum({block}, T - q0)
        {reach}
        tile_transpose(rows, D, q + 4 * q0 * q_row, q_row, qt, {block})
        tile_transpose(rows, E, g + 4 * q0 * g_row, g_row, gt, {block})
        tile_matmul(keys, {block}, D, scale, k, k_row, 1, qt, {block}, p, {block}, 0)
        tile_matmul(keys, {block}, E, f32(1), v, v_row, 1, gt, {block}, s, {block}, 0)
        for i in range(rows):
            out = f32_at(y + 4 * (q0 + i) * y_row)
            slope = f32_at(g + 4 * (q0 + i) * g_row)
            sum = f32(0)
            for j in range(E):
                sum = sum_add(sum, out[j] * slope[j])
            along[i] = sum
            top[i] = f32_at(l + 4 * (q0 + i) * l_row)[0]
        for j in range(free, keys):
            x = f32_at(p + {pitch} * j)
            d = f32_at(s + {pitch} * j)
            for i in range({block}):
                x[i] = where(b1(j - q0 <= i), x[i], f32(-inf))
                d[i] = where(b1(j - q0 <= i), d[i], along[i])
        for j in range(keys):
            x = f32_at(p + {pitch} * j)
            d = f32_at(s + {pitch} * j)
            for i in range({block}):
                x[i] = exp_f32(x[i] - top[i])
                d[i] = x[i] * (d[i] - along[i]) * scale
        {gradients}
"""

GRADIENTS = {
    "attention_dq": "tile_matmul(rows, D, keys, f32(1), s, 1, {block}, k, k_row, dq + 4 * q0 * dq_row, dq_row, 0)",
    "attention_dk": "tile_matmul(keys, D, rows, f32(1), s, {block}, 1, q + 4 * q0 * q_row, q_row, dk, dk_row, 1)",
    "attention_dv": "tile_matmul(keys, E, rows, f32(1), p, {block}, 1, g + 4 * q0 * g_row, g_row, dv, dv_row, 1)",
}

CLEAR = """\
for i in range(S):
    z = f32_at({name} + 4 * i * {name}_row)
    for j in range({width}):
        z[j] = f32(0)
"""


def lower_attention(group: Group, placement: Placement) -> AttentionKernel:
    """The kernel of a forward pass (output, log-sum-exp or both) or of a backward pass (any of three gradients)."""
    return _Pass(group, placement).run()


class _Pass:
    def __init__(self, group: Group, placement: Placement) -> None:
        self.node = group.nodes[0]
        self.results = {n.op.name: n for n in group.nodes}
        self.causal: bool = self.node.attrs["causal"]
        operands = dict(zip("qkvylg", self.node.inputs, strict=False))
        names = {"attention": "y", "attention_lse": "l"} | {n: n.removeprefix("attention_") for n in GRADIENTS}
        nodes = operands | {names[n.op.name]: n for n in group.nodes}
        self.places = {name: placement[node] for name, node in nodes.items()}
        self.operands = [placement[n].owner for n in self.node.inputs]
        self.names, self.header, self.words = names, [], []
        self.batch, strides = merged_batch([p.view.strides[:-2] for p in self.places.values()], self.node.shape[:-2])
        if len(self.batch) > BATCH_AXES:
            raise ValueError(f"attention over {len(self.batch)} separate batch axes; kernels have {BATCH_AXES}")
        self.steps = dict(zip(self.places, strides, strict=True))

    def run(self) -> AttentionKernel:
        q, k, v = (self.places[n].view.shape for n in "qkv")
        (rows, width), keys, out = q[-2:], k[-2], v[-1]
        for name, value in (("T", rows), ("S", keys), ("D", width), ("E", out)):
            self._word(name, value)
        self._scale(self.node.attrs["scale"])
        self._extents()
        for name in self.places:
            self._place(name)
        self._rows("qt", width)
        self._rows("p", keys)
        self._rows("top_at", 1)
        self.header.append("top = f32_at(top_at)")
        text = self._forward() if "attention_forward" in self.node.op.traits else self._backward(keys, out)
        body = "\n".join(["w = i64_at(args)", *self.header, text])
        source = f"def kernel(args, lo, hi, worker):\n{indent(body, '    ')}"
        writes = [self.places[self.names[n]].owner for n in self.results]
        products = 4 if "attention_forward" in self.node.op.traits else 10
        work = products * math.prod(q) * keys // (8 if self.causal else 4)
        return AttentionKernel(
            source, tuple(self.words), math.prod(self.batch), tuple(self.operands), tuple(writes), work
        )

    # ---- words ------------------------------------------------------------------------------------------

    def _word(self, name: str, value: Word) -> None:
        self.header.append(f"{name} = w[{len(self.words)}]")
        self.words.append(value)

    def _scale(self, scale: float) -> None:
        self.header.append(f"scale = f32(f64_at(args + {8 * len(self.words)})[0])")
        self.words.append(struct.unpack("<q", struct.pack("<d", scale))[0])

    def _extents(self) -> None:
        for axis, size in enumerate(self.batch[1:], 1):
            self._word(f"e{axis}", size)

    def _place(self, name: str) -> None:
        place: Place = self.places[name]
        self._word(f"{name}_at", Address(place.owner, place.view.offset))
        self._word(f"{name}_row", place.view.strides[-2])
        for axis, stride in enumerate(self.steps[name]):
            self._word(f"{name}_b{axis}", stride)

    def _rows(self, name: str, count: int) -> None:
        """This worker's own `count` rows of a block's width."""
        nbytes = 4 * count * BLOCK
        self.header.append(f"{name} = w[{len(self.words)}] + worker * w[{len(self.words) + 1}]")
        self.words += [Scratch(nbytes), nbytes]

    # ---- text -------------------------------------------------------------------------------------------

    def _forward(self) -> str:
        self._rows("total_at", 1)
        self.header.append("total = f32_at(total_at)")
        results = "\n".join(self._base(self.names[n]) for n in self.results)
        keep = KEEP if "attention_lse" in self.results else "pass"
        return self._fill(FORWARD, results=results, keep=keep, output=OUTPUT if "attention" in self.results else "pass")

    def _backward(self, keys: int, out: int) -> str:
        self._rows("gt", out)
        self._rows("s", keys)
        self._rows("along_at", 1)
        self.header.append("along = f32_at(along_at)")
        results = [self._base(self.names[n]) for n in self.results]
        for name, width in (("dk", "D"), ("dv", "E")):
            if f"attention_{name}" in self.results:
                results.append(CLEAR.format(name=name, width=width))
        gradients = "\n".join(text for name, text in GRADIENTS.items() if name in self.results)
        return self._fill(BACKWARD, results="\n".join(results), gradients=gradients)

    def _fill(self, template: str, **parts: str) -> str:
        """The template with its parts; a line that is one part takes all of the part's lines."""
        reach = "keys = S\nfree = S"
        if self.causal:
            reach = "keys = minimum(S, q0 + rows)\nfree = minimum(S, q0)"
        sizes = {"block": str(BLOCK), "pitch": str(4 * BLOCK)}
        parts |= {"reach": reach, "indices": self._indices()}
        parts |= {name: self._base(name) for name in "qkvylg" if name in self.places}
        lines = []
        for line in template.splitlines():
            name = line.strip()[1:-1]
            if line.strip() == f"{{{name}}}" and name in parts:
                lines.append(indent(parts[name].rstrip("\n"), line[: line.index("{")]))
            else:
                lines.append(line)
        return "\n".join(lines).format(**sizes) + "\n"

    def _indices(self) -> str:
        """The batch number t as indices of the batch axes."""
        lines, rest = [], "t"
        for axis in reversed(range(1, len(self.batch))):
            lines += [f"r{axis} = {rest} // e{axis}", f"i{axis} = {rest} - r{axis} * e{axis}"]
            rest = f"r{axis}"
        return "\n".join([*lines, f"i0 = {rest}"])

    def _base(self, name: str) -> str:
        steps = " + ".join(f"i{axis} * {name}_b{axis}" for axis in range(len(self.batch)))
        return f"{name} = {name}_at + 4 * ({steps})" if steps else f"{name} = {name}_at"


def merged_batch(strides: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> tuple[tuple[int, ...], Any]:
    """Batch axes that all operands step through alike, merged; and each operand's strides over what remains."""
    merged: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        at = [s[axis] for s in strides]
        if merged and all(each[-1] == stride * size for each, stride in zip(steps, at, strict=True)):
            merged[-1] *= size
            for each, stride in zip(steps, at, strict=True):
                each[-1] = stride
        else:
            merged.append(size)
            for each, stride in zip(steps, at, strict=True):
                each.append(stride)
    return tuple(merged), tuple(map(tuple, steps))
