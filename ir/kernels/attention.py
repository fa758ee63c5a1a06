"""Lowering of attention: one kernel a pass, a task a (batch, head), queries in blocks whose scores stay in the cache.

A block's scores are kept key by key, its queries side by side as vector lanes, so softmax needs no sums across lanes
and products no transposed keys. With `causal` a block sees the keys up to its end only: half the work is never done.
Backward adds to dK and dV block by block.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from tinygrad_lite.ir.kernels.source import SourceKernel, Words, filled
from tinygrad_lite.ir.schedule.fuse import Group
from tinygrad_lite.ir.schedule.place import Placement

BLOCK = 32  # queries
ROW = 4 * BLOCK  # bytes of a block's queries side by side
# Keys from which on their rows are gathered first, where they lie apart: at a pitch of kilobytes they share cache sets.
FAR = {"attention_forward": 512, "attention_backward": 256}
SIZES = {"block": str(BLOCK), "pitch": str(ROW)}

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


def lower_attention(group: Group, placement: Placement) -> SourceKernel:
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
        self.names, self.words = names, Words()
        self.batch, strides = merged_batch([p.view.strides[:-2] for p in self.places.values()], self.node.shape[:-2])
        self.steps = dict(zip(self.places, strides, strict=True))

    def run(self) -> SourceKernel:
        q, k, v = (self.places[n].view.shape for n in "qkv")
        (rows, width), keys, out = q[-2:], k[-2], v[-1]
        self.words.add(T=rows, S=keys, D=width, E=out)
        self.words.float64("scale", struct.unpack("<q", struct.pack("<d", self.node.attrs["scale"]))[0])
        self.words.add(**{f"e{axis}": size for axis, size in enumerate(self.batch[1:], 1)})
        (label,) = self.node.op.traits
        apart = {"k": self.places["k"].view.strides[-2] != width, "v": self.places["v"].view.strides[-2] != out}
        self.gathered = {name for name in "kv" if apart[name] and keys >= FAR[label]}
        for name in self.places:
            self._place(name)
        for name, size in (("k", width), ("v", out)):
            if name in self.gathered:
                self.words.own(f"{name}_rows", 4 * keys * size)
        self.words.own("qt", ROW * width)
        self.words.own("p", ROW * keys)
        self.words.own("top", ROW, pointer=True)
        forward = label == "attention_forward"
        source = self.words.source(self._forward() if forward else self._backward(keys, out))
        writes = tuple(self.places[self.names[n]].owner for n in self.results)
        work = (7 if forward else 15) * math.prod(q) * keys // (8 if self.causal else 4)
        extent = math.prod(self.batch)
        return SourceKernel(label, source, tuple(self.words.values), extent, tuple(self.operands), writes, work)

    def _place(self, name: str) -> None:
        place = self.places[name]
        self.words.place(name, place)
        self.words.add(**{f"{name}_{'from' if name in self.gathered else 'row'}": place.view.strides[-2]})
        self.words.add(**{f"{name}_b{axis}": stride for axis, stride in enumerate(self.steps[name])})

    def _forward(self) -> str:
        self.words.own("total", ROW, pointer=True)
        results = "\n".join(self._base(self.names[n]) for n in self.results)
        keep = KEEP.format(**SIZES) if "attention_lse" in self.results else "pass"
        output = OUTPUT.format(**SIZES) if "attention" in self.results else "pass"
        return self._fill(FORWARD, results=results, keep=keep, output=output)

    def _backward(self, keys: int, out: int) -> str:
        self.words.own("gt", ROW * out)
        self.words.own("s", ROW * keys)
        self.words.own("along", ROW, pointer=True)
        results = [self._base(self.names[n]) for n in self.results]
        for name, width in (("dk", "D"), ("dv", "E")):
            if f"attention_{name}" in self.results:
                results.append(CLEAR.format(name=name, width=width))
        gradients = "\n".join(text.format(**SIZES) for name, text in GRADIENTS.items() if name in self.results)
        return self._fill(BACKWARD, results="\n".join(results), gradients=gradients)

    def _fill(self, template: str, **parts: str) -> str:
        reach = "keys = S\nfree = S"
        if self.causal:
            reach = "keys = minimum(S, q0 + rows)\nfree = minimum(S, q0)"
        bases = {name: self._base(name) for name in "qkvylg" if name in self.places}
        return filled(template, reach=reach, indices=self._indices(), **bases, **parts, **SIZES)

    def _indices(self) -> str:
        """The batch number t as indices of the batch axes."""
        lines, rest = [], "t"
        for axis in reversed(range(1, len(self.batch))):
            lines += [f"r{axis} = {rest} // e{axis}", f"i{axis} = {rest} - r{axis} * e{axis}"]
            rest = f"r{axis}"
        return "\n".join([*lines, f"i0 = {rest}"])

    def _base(self, name: str) -> str:
        steps = " + ".join(f"i{axis} * {name}_b{axis}" for axis in range(len(self.batch)))
        start = f"{name}_at + 4 * ({steps})" if steps else f"{name}_at"
        if name not in self.gathered:
            return f"{name} = {start}"
        size = {"k": "D", "v": "E"}[name]
        copy = f"tile_copy(S, {size}, {start}, {name}_from, {name}_rows, {size})"
        return f"{copy}\n{name} = {name}_rows\n{name}_row = {size}"


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
