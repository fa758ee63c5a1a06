"""Writes the tables of ops in docs/ir.md from the ops' records. Run by `make tables`; a test compares."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from tinygrad_lite import capture, ops  # noqa: F401  (capture registers an op of its own)
from tinygrad_lite.ir.op import Op, all_ops
from tinygrad_lite.ir.schedule import schedule
from tinygrad_lite.ir.signature import signature

DOCUMENT = Path(__file__).with_name("ir.md")
START, END = "<!-- ops: written by docs/op_tables.py -->\n", "<!-- end of ops -->"


def tables() -> str:
    """One table a file of ops/, in alphabetical order, then the ops that passes and the scheduler put in."""
    parts = []
    listed: set[str] = set()
    for name, module in _modules():
        found = sorted({op.name: op for op in _ops_of(module)}.values(), key=lambda op: op.name)
        found = [op for op in found if op.name not in listed]
        if found:
            listed |= {op.name for op in found}
            parts.append(_table(f"`ops/{name}.py`", found))
    rest = [op for op in sorted(all_ops(), key=lambda op: op.name) if op.name not in listed and _is_ours(op)]
    parts.append(
        _table("Elsewhere: eager leaves, results of compiled functions, and copies that the scheduler places", rest)
    )
    return "\n".join(parts)


def _is_ours(op: Op) -> bool:
    """Tests register ops too."""
    return op.infer.__module__.startswith("tinygrad_lite.")


def _modules() -> Iterator[tuple[str, ModuleType]]:
    for info in sorted(pkgutil.iter_modules(ops.__path__), key=lambda info: info.name):
        yield info.name, importlib.import_module(f"tinygrad_lite.ops.{info.name}")


def _ops_of(module: ModuleType) -> Iterator[Op]:
    """The ops that a module names itself, alone or in a collection; those it imports are another's."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    imports = (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom))
    foreign = {alias.asname or alias.name for n in imports for alias in n.names}
    for name, value in vars(module).items():
        if name not in foreign:
            values = (
                value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else [value]
            )
            yield from (each for each in values if isinstance(each, Op))


def _table(title: str, found: list[Op]) -> str:
    rows = [f"{title}\n", "| op | kind | operands | attributes | gradient |", "|---|---|---|---|---|"]
    return "\n".join([*rows, *map(_row, found)]) + "\n"


def _row(op: Op) -> str:
    sign = signature(op)
    count = (
        str(sign.low)
        if sign.low == sign.high
        else f"{sign.low} or more"
        if sign.high is None
        else f"{sign.low} to {sign.high}"
    )
    attributes = " ".join(sign.attrs) + (" …" if sign.open else "")
    gradient = "yes" if op.vjp is not None or op.joint_vjp is not None else ""
    return f"| `{op.name}` | {op.kind.value} | {count} | {attributes} | {gradient} |"


def document(text: str) -> str:
    """`text` of docs/ir.md with the tables put in."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    assert schedule
    DOCUMENT.write_text(document(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
