"""vmap: a function of one example becomes one of a batch.

The function runs once, on stand-ins of one example's shapes that have no values, and what it records is recorded again
with a batch axis in front, op by op (ops/batching.py). Examples are never looped over.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_lite.forgetting import restore
from tinygrad_lite.func import trees
from tinygrad_lite.functional.joining import cat
from tinygrad_lite.handle import Tensor, wrap
from tinygrad_lite.ir.node import GradMeta, Node, next_serial
from tinygrad_lite.ir.record import here, leaf, mode, record
from tinygrad_lite.ops import batching, movement
from tinygrad_lite.ops.elementwise import CAST
from tinygrad_lite.ops.leaf import input

Function = Callable[..., Any]
RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Function,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Function:
    """A function that gives what `func` gives for every example of a batch, stacked, with no loop over examples.

    func runs once, to record what it does to one example. It may differentiate inside (per-example gradients), call
    modules, loop by `tl.scan`, draw random numbers, and change in place what it made or was given.

    Args:
        func: takes and gives tensors, or tuples, lists and dicts of them. Keyword arguments are handed on as they are.
        in_dims: the axis of the examples in each positional argument, or None for what all examples share: an integer
            for all, or a tuple, in whose place of an argument may stand a structure like that argument's.
        out_dims: where the axis goes in the results, in the same form; None for a result that no example decides.
        randomness: what drawing random numbers does: "error" raises, "different" draws for every example, "same" draws
            once for all.
        chunk_size: take so many examples at a time, to use less memory; all at once by default.

    Raises:
        ValueError: in_dims or out_dims that do not fit, examples of different number, results that are no tensors.
        RuntimeError: func reads a value (`if x > 0`, item()), draws random numbers under "error", or writes what
            differs between examples into a tensor that they share.
        NotImplementedError: an op without a batching rule, named.
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"vmap: randomness must be one of {', '.join(RANDOMNESS)}, got {randomness!r}")
    if randomness == "same" and chunk_size is not None:
        raise ValueError("vmap: chunks of a batch draw numbers of their own: randomness='same' goes without chunk_size")
    if chunk_size is not None and (type(chunk_size) is not int or chunk_size < 1):
        raise ValueError(f"vmap: chunk_size must be None or a positive integer, got {chunk_size!r}")

    @functools.wraps(func, updated=())
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        given = _Arguments(args, in_dims)
        if chunk_size is None or chunk_size >= given.size:
            return _at_once(func, given, out_dims, randomness, kwargs)
        parts = [_at_once(func, part, out_dims, randomness, kwargs) for part in given.chunks(chunk_size)]
        return _joined(parts, out_dims)

    return vectorized


# ---- arguments ---------------------------------------------------------------------------------------------------


class _Arguments:
    """Positional arguments, and the axis of the examples in each of their leaves."""

    def __init__(self, args: tuple[Any, ...], in_dims: Any) -> None:
        self.args = args
        if not isinstance(in_dims, int | tuple):
            raise ValueError(f"vmap: in_dims must be an integer or a tuple, got {in_dims!r}")
        if not args:
            raise ValueError("vmap: got no positional arguments; there is nothing to map over")
        dims = trees.broadcast(in_dims, args)
        if dims is None:
            raise ValueError(f"vmap: in_dims={in_dims} does not have the structure of the arguments, one for each")
        self.leaves = trees.leaves(args)
        self.dims = [_in_dim(leaf, dim) for leaf, dim in zip(self.leaves, dims, strict=True)]
        sizes = [leaf.shape[d] for leaf, d in zip(self.leaves, self.dims, strict=True) if d is not None]
        if not sizes:
            raise ValueError(f"vmap: in_dims={in_dims} maps over none of the arguments")
        if len(set(sizes)) > 1:
            raise ValueError(f"vmap: the arguments disagree about the number of examples: {sizes}")
        self.size: int = sizes[0]

    def chunks(self, count: int) -> Iterator[_Arguments]:
        for start in range(0, self.size, count):
            parts = [
                leaf if d is None else leaf.narrow(d, start, min(count, self.size - start))
                for leaf, d in zip(self.leaves, self.dims, strict=True)
            ]
            yield self._of(parts)

    def _of(self, leaves: list[Any]) -> _Arguments:
        part = object.__new__(_Arguments)
        part.args, part.leaves, part.dims = trees.rebuilt(self.args, iter(leaves)), leaves, self.dims
        part.size = next(leaf.shape[d] for leaf, d in zip(leaves, self.dims, strict=True) if d is not None)
        return part


def _in_dim(leaf: Any, dim: Any) -> int | None:
    if dim is None:
        return None
    if type(dim) is not int:
        raise ValueError(f"vmap: in_dims must be made of integers and None, got {dim!r}")
    if not isinstance(leaf, Tensor):
        raise ValueError(f"vmap: in_dim {dim} was given for a {type(leaf).__name__}; only Tensors are mapped over")
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(f"vmap: in_dim {dim} is out of range for a tensor of shape {list(leaf.shape)}")
    return dim % leaf.ndim


# ---- one run -------------------------------------------------------------------------------------------------------


def _at_once(func: Function, given: _Arguments, out_dims: Any, randomness: str, kwargs: dict[str, Any]) -> Any:
    trace = _ExampleTrace(given.size, randomness)
    stand_ins = [x if d is None else trace.stand_in(x, d) for x, d in zip(given.leaves, given.dims, strict=True)]
    try:
        with mode.set(trace=trace):
            result = func(*trees.rebuilt(given.args, iter(stand_ins)), **kwargs)
            found = [(leaf, leaf._read() if isinstance(leaf, Tensor) else None) for leaf in trees.leaves(result)]
    finally:
        trace.restore()
    dims = _out_dims(out_dims, result)
    trace.finish([node for _, node in found if node is not None])
    results = _Results(trace)
    return trees.rebuilt(result, iter([results.one(x, node, dim) for (x, node), dim in zip(found, dims, strict=True)]))


def _out_dims(out_dims: Any, result: Any) -> list[int | None]:
    """Where the axis of the examples goes in each leaf of the results."""
    single = isinstance(result, Tensor) and isinstance(out_dims, tuple | list) and len(out_dims) == 1
    dims = trees.broadcast(out_dims[0] if single else out_dims, result)
    if dims is None:
        raise ValueError(
            f"vmap: out_dims={out_dims} does not have the structure of the results, {trees.structure(result)}"
        )
    for dim in dims:
        if dim is not None and type(dim) is not int:
            raise ValueError(f"vmap: out_dims must be made of integers and None, got {dim!r}")
    return dims


class _Results:
    """Makes the tensors that the outside gets: no two of them, nor one of them and an argument, share memory."""

    def __init__(self, trace: _ExampleTrace) -> None:
        self.trace = trace
        self.taken = {_memory(node) for node in trace.arguments()}

    def one(self, leaf: Any, node: Node | None, dim: int | None) -> Any:
        if node is None:
            if dim is not None:
                raise ValueError(f"vmap: the function must return only Tensors, got {type(leaf).__name__}")
            return leaf
        new, each = self.trace.known[id(node)]
        if dim is None and each:
            raise ValueError("vmap: out_dim None was given for a result that differs between examples")
        if dim is not None:
            new = movement.move_axis(batching.wholly(new, each, self.trace.batch), 0, dim)
        if not each or _memory(new) in self.taken:
            new = record(CAST, new, dtype=new.dtype)
        self.taken.add(_memory(new))
        return wrap(new)


def _memory(node: Node) -> int:
    """The array that owns a value's memory, by id; in a capture the node."""
    array = node.value
    if array is None:
        return id(node)
    while isinstance(array.base, np.ndarray):
        array = array.base
    return id(array)


def _joined(parts: list[Any], out_dims: Any) -> Any:
    """Chunks of results, one after another along the axis of the examples."""
    dims = _out_dims(out_dims, parts[0])
    columns = zip(*map(trees.leaves, parts), strict=True)
    whole = [column[0] if d is None else cat(column, d) for column, d in zip(columns, dims, strict=True)]
    return trees.rebuilt(parts[0], iter(whole))


# ---- the trace -----------------------------------------------------------------------------------------------------


class _StandIn(NamedTuple):
    """What func got instead of an argument."""

    given: Tensor
    dim: int
    tensor: Tensor
    node: Node


class _ExampleTrace:
    """What recording consults while func runs for one example."""

    doing = "vmap runs the function, once for all examples"

    def __init__(self, size: int, randomness: str) -> None:
        self.outer, self.start = mode.trace, next_serial()
        self.randomness = randomness
        self.batch = batching.Batch(size, randomness == "different")
        self.known: batching.Known = {}
        self.lifted: dict[int, Node] = {}
        self.touched: dict[int, tuple[Tensor, tuple[Any, ...]]] = {}
        self.stand_ins: list[_StandIn] = []
        self.changed: list[tuple[Tensor, Node]] = []

    # ---- before and after ----

    def stand_in(self, given: Tensor, dim: int) -> Tensor:
        """A tensor of one example's shape."""
        one = self.one_of(movement.move_axis(given._read(), dim, 0))
        self.stand_ins.append(_StandIn(given, dim, wrap(one), one))
        return self.stand_ins[-1].tensor

    def one_of(self, node: Node) -> Node:
        """A node that stands for one example of those along the first axis of `node`."""
        one = input("example", node.dtype, node.shape[1:])
        one.grad = None if node.grad is None else GradMeta()
        self.known[id(one)] = (node, True)
        return one

    def arguments(self) -> list[Node]:
        return [self.known[id(s.node)][0] for s in self.stand_ins]

    def restore(self) -> None:
        """Put handles from outside back as they were, and note those that func changed."""
        for tensor, state in self.touched.values():
            if state[0].serial < self.start:
                if state[1] is None and tensor._node is not state[0]:
                    self.changed.append((tensor, tensor._node))
                tensor._restore(state)

    def finish(self, results: Sequence[Node]) -> None:
        """Record all for the batch, and make the changes that func made to tensors from outside."""
        written = [s for s in self.stand_ins if s.tensor._node is not s.node]
        targets = [*results, *(s.tensor._node for s in written), *(node for _, node in self.changed)]
        forgotten: list[Node] = []

        def is_outside(node: Node) -> bool:
            known = node.serial < self.start or node.value is not None or id(node) in self.lifted
            if known and node.value is None and mode.trace is None:
                forgotten.extend(restore(node))
            return known

        batching.through(targets, self.known, self.batch, is_outside)
        for node in forgotten:
            node.value = None
        for tensor, node in self.changed:
            new, each = self.known[id(node)]
            if each:
                raise RuntimeError(
                    f"vmap: the function writes what differs between examples into a tensor of {tensor._node.type} "
                    "that they share: return it instead"
                )
            tensor._rebind(new, keep_history=not mode.grad_enabled)
        for s in written:
            new = batching.wholly(*self.known[id(s.tensor._node)], self.batch)
            s.given._write(movement.move_axis(new, 0, s.dim))

    # ---- what recording asks ----

    def lift(self, tensor: Tensor) -> Node:
        node = tensor._node if self.outer is None else self.outer.lift(tensor)
        self.lifted[id(node)] = node
        return node  # type: ignore[no-any-return]

    def touch(self, tensor: Tensor) -> None:
        self.touched.setdefault(id(tensor), (tensor, tensor._state()))

    def draws(self, count: int) -> int:
        """How many counters of a generator `count` numbers for one example take."""
        if self.randomness == "error":
            raise RuntimeError(
                f"vmap: random numbers are drawn at {here()}: pass randomness='different' to draw for every example, "
                "or 'same' to draw once for all"
            )
        count *= self.batch.size if self.batch.different else 1
        return count if self.outer is None else self.outer.draws(count)  # type: ignore[no-any-return]

    def is_from_outside(self, tensor: Tensor) -> bool:
        _, (node, *_) = self.touched.get(id(tensor), (tensor, (tensor._node,)))
        return node.serial < self.start

    def wrote_grad(self, tensor: Tensor) -> None:
        raise RuntimeError("vmap: the function sets .grad of a tensor (backward() does): use tl.func.grad inside vmap")

    # What a capture does besides, the one around does where there is one.

    def read_grad(self, tensor: Tensor) -> None:
        if self.outer is not None:
            self.outer.read_grad(tensor)

    def saw_module(self, module: Any) -> None:
        if self.outer is not None:
            self.outer.saw_module(module)

    def static_value(self, label: str, read: Callable[[], Hashable]) -> Any:
        return read() if self.outer is None else self.outer.static_value(label, read)

    def runtime_scalar(self, label: str, read: Callable[[], float]) -> Tensor:
        found = wrap(leaf(np.array(read()))) if self.outer is None else self.outer.runtime_scalar(label, read)
        self.lifted[id(found._node)] = found._node
        return found  # type: ignore[no-any-return]

    def name(self, tensor: Tensor, of: Tensor, suffix: str) -> None:
        if self.outer is not None:
            self.outer.name(tensor, of, suffix)


def over_nodes(
    fn: Callable[..., list[Node | None]], inputs: Sequence[Node], flags: Sequence[bool], batch: batching.Batch
) -> list[Node | None]:
    """vmap of a function of nodes: what it gives for all examples, always with their axis in front."""
    trace = _ExampleTrace(batch.size, "different" if batch.different else "error")
    ones = [trace.one_of(x) if flag else x for x, flag in zip(inputs, flags, strict=True)]
    try:
        with mode.set(trace=trace):
            found = fn(*ones)
    finally:
        trace.restore()
    trace.finish([n for n in found if n is not None])
    return [None if n is None else batching.wholly(*trace.known[id(n)], batch) for n in found]
