"""`tl.summary(model, *inputs)`: a model as a tree of modules, with shapes, parameters, work and receptive fields."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from tinygrad_lite.capture import trace
from tinygrad_lite.guards import key_of
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node, next_serial
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.reading import amount, product_flops_of
from tinygrad_lite.ir.record import mode
from tinygrad_lite.nn.hooks import Hook
from tinygrad_lite.nn.module import Module
from tinygrad_lite.tensor import Tensor
from tinygrad_lite.viz.receptive import Field, Step, fields, step_of


@dataclass(frozen=True)
class ModuleCall:
    """What one module did in a traced call: its path, the scope of its nodes, what it took and gave, and when.

    Nodes recorded meanwhile have serials from `first` to `last`.
    """

    path: str
    module: Module
    scope: str
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    first: int
    last: int


@dataclass(frozen=True)
class SummaryRow:
    """One module.

    Attributes:
        path, kind, depth: dotted path, class name, how deep in the tree.
        outputs: types of what it returned, () where it was not called.
        parameters, trainable: numbers in it and below, tied ones once.
        flops, product_flops: of all operations in it and below; of matrix products, convolutions and attention alone.
        activations: bytes of the values computed in it and below, views apart.
        field: receptive field and jump behind windows of convolutions and pools, where there are any.
        calls: how often it was called.
    """

    path: str
    kind: str
    depth: int
    outputs: tuple[str, ...]
    parameters: int
    trainable: int
    flops: int
    product_flops: int
    activations: int
    field: Field | None
    calls: int

    def to_dict(self) -> dict[str, Any]:
        data = dict(self.__dict__)
        data["field"] = self.field and {"size": list(self.field.size), "jump": list(self.field.jump)}
        return data | {"outputs": list(self.outputs)}


class Summary:
    """Rows in the tree's order, the model itself first. Prints as a table; `to_dict()` is the data."""

    def __init__(self, rows: list[SummaryRow], buffers: int, input_bytes: int) -> None:
        self.rows, self.buffers, self.input_bytes = tuple(rows), buffers, input_bytes

    @property
    def total(self) -> SummaryRow:
        """The model's own row."""
        return self.rows[0]

    def __getitem__(self, path: str) -> SummaryRow:
        """The row of a module's path."""
        for row in self.rows:
            if row.path == path:
                return row
        raise KeyError(f"no module {path!r}; there are {', '.join(r.path for r in self.rows[1:6])}, …")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        rows = [row.to_dict() for row in self.rows]
        return {"rows": rows, "buffers": self.buffers, "input_bytes": self.input_bytes}

    def table(self, depth: int | None = None) -> Any:
        """A rich Table, down to `depth` levels."""
        from rich.table import Table
        from rich.text import Text

        shown = [r for r in self.rows if depth is None or r.depth <= depth]
        with_field = any(r.field for r in shown)
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("module")
        table.add_column("output")
        for name in ("parameters", "FLOP", "activations", *(["field / jump"] if with_field else [])):
            table.add_column(name, justify="right")
        for row in shown:
            name = Text("  " * row.depth + (row.path.rpartition(".")[2] or "model"))
            name.append(f"  {row.kind}" + (f" × {row.calls}" if row.calls > 1 else ""), style="dim")
            cells = [", ".join(row.outputs[:2]), _parameters(row), amount(row.flops, ""), amount(row.activations, "B")]
            cells += [str(row.field or "")] if with_field else []
            table.add_row(name, *map(Text, cells), style="" if row.calls else "dim")
        return table

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, depth: int | None = None, width: int = 160) -> str:
        """The table and totals as plain text."""
        import io

        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=width, highlight=False, color_system=None).print(self.table(depth))
        lines = [line.rstrip() for line in out.getvalue().splitlines()]
        return "\n".join([*lines, *self._totals()]) + "\n"

    def print(self, depth: int | None = None) -> None:
        """Print in colour on a terminal."""
        from rich.console import Console

        console = Console(highlight=False)
        console = console if console.is_terminal else Console(highlight=False, width=160)
        console.print(self.table(depth))
        console.print("\n".join(self._totals()), soft_wrap=True)

    def _totals(self) -> list[str]:
        t = self.total
        frozen = t.parameters - t.trainable
        return [
            f"{t.parameters:,} parameters ({t.trainable:,} trained, {frozen:,} frozen), "
            f"{self.buffers:,} numbers in buffers",
            f"{amount(t.flops, 'FLOP')} a forward pass, of which {amount(t.product_flops, 'FLOP')} in products; "
            f"{amount(t.activations, 'B')} of activations, {amount(self.input_bytes, 'B')} of inputs",
        ]


def _parameters(row: SummaryRow) -> str:
    if not row.parameters:
        return ""
    mark = "" if row.trainable == row.parameters else " frozen" if not row.trainable else " part frozen"
    return f"{row.parameters:,}{mark}"


def summary(model: Module, *inputs: Any, train: bool = False) -> Summary:
    """A table of `model`'s modules for one call on example `inputs`; nothing is computed.

    Args:
        train: in training mode rather than in evaluation mode.

    Raises:
        TypeError: `model` is no Module. Whatever `model` raises on these inputs.
    """
    if not isinstance(model, Module):
        raise TypeError(f"summary takes a Module, not {type(model).__name__}")
    calls, graph = traced_calls(model, inputs, train)
    tensors: list[Tensor] = []
    key_of(inputs, tensors)
    reach = fields(graph, steps_of(calls))
    work = _work(graph)
    rows = [_row(path, module, calls, work, reach) for path, module in model.named_modules()]
    buffers = sum(b.numel() for b in model.buffers())
    return Summary(rows, buffers, sum(t._node.type.nbytes for t in tensors))


def traced_calls(model: Module, inputs: tuple[Any, ...], train: bool = False) -> tuple[list[ModuleCall], Graph]:
    """Every call of a module below `model`, in order of completion, and the graph of the whole."""
    calls: list[ModuleCall] = []
    with _listening(model, calls):
        graph = trace(model, *inputs, train=train)
    return calls, graph


def steps_of(calls: list[ModuleCall]) -> dict[int, Step]:
    """id(result) → how the windows of the convolution or pool that gave it move."""
    found: dict[int, Step] = {}
    for call in calls:
        if call.inputs and call.outputs and (rank := len(call.inputs[0].shape) - 2) > 0:
            step = step_of(call.module, call.inputs[0], rank)
            if step is not None:
                found[id(call.outputs[0])] = step
    return found


@contextmanager
def _listening(model: Module, calls: list[ModuleCall]) -> Iterator[None]:
    """Hooks that no guard sees: they come and go without a new version of any module."""
    key = -1  # no handle's id
    for path, module in model.named_modules():
        listener = _Listener(path, calls)
        module._forward_pre_hooks[key] = Hook(listener.enter, True)
        module._forward_hooks[key] = Hook(listener.leave, True)
    try:
        yield
    finally:
        for module in model.modules():
            module._forward_pre_hooks.pop(key, None)
            module._forward_hooks.pop(key, None)


class _Listener:
    def __init__(self, path: str, calls: list[ModuleCall]) -> None:
        self.path, self.calls = path, calls
        self.starts: list[int] = []

    def enter(self, module: Module, args: Any, kwargs: Any) -> None:
        self.starts.append(next_serial())

    def leave(self, module: Module, args: Any, kwargs: Any, output: Any) -> None:
        span = (self.starts.pop(), next_serial())
        self.calls.append(ModuleCall(self.path, module, mode.scope, _nodes((args, kwargs)), _nodes(output), *span))


def _nodes(values: Any) -> tuple[Node, ...]:
    found: list[Tensor] = []
    key_of(values, found)
    return tuple(t._read() for t in found)


class _Work(NamedTuple):
    """What nodes compute: FLOPs, those of products, and bytes of values that are no views."""

    flops: int
    products: int
    activations: int


def _plus(*works: _Work) -> _Work:
    return _Work(*map(sum, zip(_Work(0, 0, 0), *works, strict=True)))


def _work(graph: Graph) -> dict[str, _Work]:
    """Of every scope, "" being the whole graph, with all scopes below it."""
    found: dict[str, _Work] = {}
    for node in graph.nodes:
        if node.op.kind is Kind.LEAF:
            continue
        kept = node.type.nbytes if node.op.kind not in (Kind.MOVEMENT, Kind.CREATE) else 0
        own = _Work(node.op.cost(node).flops, product_flops_of([node]), kept)
        words = node.location.scope.split(".") if node.location and node.location.scope else []
        for i in range(len(words) + 1):
            scope = ".".join(words[:i])
            found[scope] = _plus(found.get(scope, _Work(0, 0, 0)), own)
    return found


def _row(
    path: str, module: Module, calls: list[ModuleCall], work: dict[str, _Work], reach: dict[int, Field]
) -> SummaryRow:
    mine = [c for c in calls if c.module is module]
    scopes = {c.scope for c in mine}
    if not mine:  # a container: what was called below it
        scopes = {c.scope for c in calls if c.path.startswith(f"{path}.")}
    done = _plus(*(work[s] for s in scopes if s in work and not _below(s, scopes)))
    own = {id(p): p for p in module.parameters()}.values()
    outputs = mine[-1].outputs if mine else ()
    field = next((reach[id(o)] for o in outputs if id(o) in reach), None)
    return SummaryRow(
        path,
        type(module).__name__,
        path.count(".") + 1 if path else 0,
        tuple(str(o.type) for o in outputs),
        sum(p.numel() for p in own),
        sum(p.numel() for p in own if p.requires_grad),
        done.flops,
        done.products,
        done.activations,
        field,
        len(mine),
    )


def _below(scope: str, scopes: set[str]) -> bool:
    """Whether another of `scopes` holds this one."""
    return any(other != scope and (not other or scope.startswith(f"{other}.")) for other in scopes)
