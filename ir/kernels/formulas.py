"""The expressions of the kernel language that ops, literals and reductions become."""

from __future__ import annotations

import math

import numpy as np

from tinygrad_lite.ir.kernels.nest import Let, Stmt
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import converted


def literal(owner: Node) -> str | None:
    if owner.op.name == "full":
        return _constant(owner.attrs["value"], owner)
    if owner.op.name == "constant" and owner.type.size == 1:
        return _constant(owner.attrs["data"][0], owner)
    return None


def _constant(value: float, owner: Node) -> str:
    if owner.dtype.is_half:
        value = converted(np.asarray(value, np.float32), owner.dtype).item()
    return text_of(value, owner.dtype.working.short)


def text_of(value: float, tag: str) -> str:
    """A literal of the kernel language; inf and nan are names there."""
    if tag == "b1":
        return f"b1({int(bool(value))})"
    if tag in ("f32", "f64"):
        return f"{tag}({float(value)!r})"
    return f"{tag}({int(value)})"


def template_of(node: Node) -> str:
    """An elementwise op's expression for this node's dtypes."""
    tag = node.inputs[0].dtype.short if node.inputs else node.dtype.short
    if node.op.name == "cast":
        return cast_template(tag, node.dtype.short)
    assert node.op.scalar is not None
    text = node.op.scalar.replace("{t}", tag)
    for name, value in node.attrs.items():
        text = text.replace(f"{{{name}}}", str(value))
    return narrowed(text, node.dtype.short)


def narrowed(text: str, tag: str) -> str:
    """Arithmetic on small integers is done in int64 (on bool in uint8): back to the dtype."""
    return f"{tag}({text})" if tag in ("i8", "u8", "i16", "i32", "b1") and not text.startswith(f"{tag}(") else text


def cast_template(source: str, target: str) -> str:
    return f"{target}({{0}})"


SUM = {"f": "sum_add({0}, {1})", "i": "{0} + {1}", "u": "{0} + {1}"}


def combine(node: Node) -> str:
    """How a reduction takes in one more value: {0} so far, {1} the value."""
    name, kind, tag = node.op.name, node.dtype.kind, node.dtype.short
    if name == "sum":
        text = SUM[kind]
    else:
        text = {
            "prod": "{0} * {1}",
            "max": "maximum({0}, {1})",
            "min": "minimum({0}, {1})",
            "any": "b1({0} | {1})",
            "all": "b1({0} & {1})",
        }[name]
    return narrowed(text, tag)


def identity(node: Node) -> str:
    name, dtype = node.op.name, node.dtype
    if name in ("max", "min"):
        sign = -1 if name == "max" else 1
        if dtype.kind == "f":
            return f"{dtype.short}({sign * math.inf!r})"
        if dtype.kind == "b":
            return f"b1({int(name == 'min')})"
        info = np.iinfo(dtype.numpy)
        return f"{dtype.short}({info.min if name == 'max' else info.max})"
    return text_of({"sum": 0, "prod": 1, "any": 0, "all": 1}[name], dtype.short)


def start_of(node: Node, name: str) -> list[Stmt]:
    if node.op.name not in ("argmax", "argmin"):
        return [Let(name, identity(node), (), node.dtype.short)]
    return [Let(name, "{0}", (_extreme(node),)), Let(f"{name}i", "i64(0)"), Let(f"{name}n", "i64(0)")]


def _extreme(node: Node) -> str:
    """The start of an argmax or argmin: the first element always beats it (`n` counts up from 0)."""
    dtype = node.inputs[0].dtype
    return text_of(0, dtype.short)


def accumulate(node: Node, name: str, value: str, index: str) -> list[Stmt]:
    if node.op.name not in ("argmax", "argmin"):
        return [Let(name, combine(node), (name, value), node.dtype.short)]
    tag = node.inputs[0].dtype.short
    sign = ">" if node.op.name == "argmax" else "<"
    beats = f"b1({{0}} {sign} {{1}})"
    if tag in ("f32", "f64"):  # the first NaN wins
        beats = f"b1({{0}} {sign} {{1}}) | (b1({{0}} != {{0}}) & b1({{1}} == {{1}}))"
    return [
        Let(f"{name}b", f"b1(({beats}) | b1({{2}} == 0))", (value, name, f"{name}n")),
        Let(name, "where({0}, {1}, {2})", (f"{name}b", value, name)),
        Let(f"{name}i", "where({0}, {1}, {2})", (f"{name}b", f"i64({index})", f"{name}i")),
        Let(f"{name}n", "i64(1)"),
    ]
