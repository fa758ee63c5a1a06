"""A traced inference graph as an ONNX model: every op of the IR as one or a few operators of opset 18."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tinygrad_lite.capture import capture
from tinygrad_lite.errors import UserError
from tinygrad_lite.guards import key_of
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ops.control import segments
from tinygrad_lite.tensor import Tensor

OPSET, IR_VERSION = 18, 9
LARGEST = (1 << 31) - (1 << 24)  # bytes of weights in a protocol buffer, which holds 2 GB

Array = np.ndarray[Any, Any]

_DIRECT = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "pow": "Pow", "exp": "Exp", "log": "Log",
    "sqrt": "Sqrt", "tanh": "Tanh", "sin": "Sin", "cos": "Cos", "tan": "Tan", "erf": "Erf", "sigmoid": "Sigmoid",
    "abs": "Abs", "sign": "Sign", "floor": "Floor", "ceil": "Ceil", "round": "Round", "asin": "Asin", "acos": "Acos",
    "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh",
    "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "where": "Where",
    "logical_and": "And", "logical_or": "Or", "logical_not": "Not", "matmul": "MatMul", "detach": "Identity",
    "contiguous": "Identity",
}  # fmt: skip
_REDUCTIONS = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd"}


def export(model: Callable[..., Any], inputs: Any, path: str | Path) -> Path:
    """Write `model` as it is traced on example `inputs` (a Tensor or a tuple of arguments) to `path`. Returns the path.

    A Module is traced in evaluation mode. Shapes are those of the example. The file is checked by `onnx.checker`.
    Weights of 2 GB and more, which the format has no room for, go to a file beside it, `path` with ".data" appended.

    Raises:
        UserError: no onnx package; an operation that ONNX has no counterpart for, naming it and its line; a model that
            changes its own state.
    """
    onnx = _package()
    graph, arrays = _traced(model, inputs if isinstance(inputs, tuple) else (inputs,))
    path = Path(path)
    try:
        if sum(a.nbytes for a in arrays) < LARGEST:
            made = _Writer(onnx, graph, arrays).model()
            _check(onnx, made)
            path.write_bytes(made.SerializeToString())
        else:
            with path.with_name(f"{path.name}.data").open("wb") as data:
                path.write_bytes(_Writer(onnx, graph, arrays, data=data).model().SerializeToString())
            _check(onnx, str(path))
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    return path


def _check(onnx: Any, made: Any) -> None:
    try:
        onnx.checker.check_model(made, full_check=True)
    except onnx.checker.ValidationError as error:
        raise UserError(f"onnx.checker refuses the model: {str(error).splitlines()[0]}") from error


def _package() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise UserError("ONNX needs its package: pip install 'tinygrad-lite[onnx]'") from error
    return onnx


def _traced(model: Any, args: tuple[Any, ...]) -> tuple[Graph, list[Array]]:
    """The optimised inference graph, and the arrays of its states."""
    tensors: list[Tensor] = []
    key_of(args, tensors)
    training = getattr(model, "training", None)
    if training is not None:
        model.eval()
    try:
        with mode.set(grad_enabled=False):
            found = capture(model, args, {}, tensors)
    finally:
        if training is not None:
            model.train(training)
    for node in found.graph.nodes:
        if node.op.kind is Kind.RANDOM:
            raise UserError(_without_counterpart(node))
    if found.graph.updates:
        names = ", ".join(str(u.state.attrs["name"]) for u in found.graph.updates)
        raise UserError(f"ONNX models keep no state, this one changes {names}")
    return pipeline.run(found.graph), [np.asarray(t._read().value) for t, _ in found.states]


def _without_counterpart(node: Node) -> str:
    where = f", asked for at {node.location.file}:{node.location.line}" if node.location else ""
    return f"{node.op.name} has no counterpart in ONNX here{where}"


class _Writer:
    """Operators in order, with names for values; bodies of loops have a writer of their own that shares constants."""

    def __init__(
        self, onnx: Any, graph: Graph, arrays: Sequence[Array] = (), prefix: str = "", data: BinaryIO | None = None
    ) -> None:
        self.onnx, self.graph, self.prefix, self.data = onnx, graph, prefix, data
        self.helper = onnx.helper
        self.names: dict[int, str] = {}
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.shared: dict[Any, str] = {}
        self.count = itertools.count()
        self.arrays = arrays

    def model(self) -> Any:
        for i, arg in enumerate(self.graph.args):
            self.names[id(arg)] = f"input_{i}"
        for state, array in zip(self.graph.states, self.arrays, strict=True):
            self.names[id(state)] = self._state(array, str(state.attrs["name"]))
        self.write_nodes()
        outputs = []
        for i, node in enumerate(self.graph.outputs):
            self.add("Identity", [self.names[id(node)]], name=f"output_{i}")
            outputs.append(self._info(f"output_{i}", node))
        inputs = [self._info(self.names[id(a)], a) for a in self.graph.args]
        graph = self.helper.make_graph(self.nodes, self.graph.name or "model", inputs, outputs, self.initializers)
        opset = [self.helper.make_opsetid("", OPSET)]
        return self.helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="tinygrad_lite")

    def write_nodes(self) -> None:
        for node in self.graph.nodes:
            if id(node) not in self.names:
                self.names[id(node)] = self._write(node)

    def _write(self, node: Node) -> str:
        name, inputs = node.op.name, [self.names[id(i)] for i in node.inputs]
        if name in _DIRECT:
            return self.add(_DIRECT[name], inputs)
        if name in _REDUCTIONS:
            return self.add(_REDUCTIONS[name], [inputs[0], self.constant(node.attrs["axes"])], keepdims=1)
        rule = _RULES.get(name)
        if rule is None:
            raise UserError(_without_counterpart(node))
        return str(rule(self, node, *inputs))

    # ---- pieces ----

    def add(self, operator: str, inputs: Sequence[str], name: str = "", outputs: int = 1, **attributes: Any) -> Any:
        """An operator; returns the name of its result, or of its results."""
        fresh = [name or f"{self.prefix}v{next(self.count)}" for _ in range(outputs)]
        self.nodes.append(self.helper.make_node(operator, list(inputs), fresh, **attributes))
        return fresh[0] if outputs == 1 else fresh

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """A shared initializer."""
        array = np.asarray(value, dtype)
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self.shared:
            self.shared[key] = self._initializer(array, f"{self.prefix}c{len(self.shared)}")
        return self.shared[key]

    def _initializer(self, array: Array, name: str) -> str:
        self.initializers.append(self.onnx.numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def _state(self, array: Array, name: str) -> str:
        """An initializer, its values in the file beside the model's where there is one."""
        if self.data is None:
            return self._initializer(array, name)
        tensor = self.onnx.TensorProto(name=name, data_type=self.type_of(array.dtype), dims=array.shape)
        tensor.data_location = self.onnx.TensorProto.EXTERNAL
        place = {"location": Path(self.data.name).name, "offset": self.data.tell(), "length": array.nbytes}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        self.data.write(np.ascontiguousarray(array).data)
        self.initializers.append(tensor)
        return name

    def info(self, name: str, dtype: Any, shape: Sequence[int]) -> Any:
        return self.helper.make_tensor_value_info(name, self.type_of(dtype), list(shape))

    def _info(self, name: str, node: Node) -> Any:
        return self.info(name, node.dtype.numpy, node.shape)

    def type_of(self, dtype: Any) -> int:
        return int(self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def reshaped(self, value: str, shape: Sequence[int]) -> str:
        return str(self.add("Reshape", [value, self.constant(list(shape))], allowzero=1))

    def sliced(self, value: str, starts: Any, stops: Any, steps: Any, axes: Any = None) -> str:
        axes = list(range(len(starts))) if axes is None else axes
        return str(self.add("Slice", [value, *(self.constant(list(v)) for v in (starts, stops, axes, steps))]))

    def padded(self, value: str, low: Any, high: Any, dtype: Any) -> str:
        return str(self.add("Pad", [value, self.constant([*low, *high]), self.constant(0, dtype)]))


# ---- ops that take more than a name ------------------------------------------------------------------------


def _constant(w: _Writer, node: Node) -> str:
    return w.constant(node.op.numpy(**node.attrs), node.dtype.numpy)


def _full(w: _Writer, node: Node) -> str:
    value = w.constant(node.attrs["value"], node.dtype.numpy)
    return str(w.add("Expand", [value, w.constant(node.shape)])) if node.shape else value


def _check_index(w: _Writer, node: Node, index: str) -> str:
    wide = w.add("Cast", [index], to=w.type_of(np.int64))
    if not node.attrs["wrap"]:
        return str(wide)
    negative, behind = w.add("Less", [wide, w.constant(0)]), w.add("Add", [wide, w.constant(node.attrs["size"])])
    return str(w.add("Where", [negative, behind, wide]))


def _logical_reduction(w: _Writer, node: Node, x: str, operator: str) -> str:
    numbers = w.add("Cast", [x], to=w.type_of(np.int32))
    result = w.add(operator, [numbers, w.constant(node.attrs["axes"])], keepdims=1)
    return str(w.add("Cast", [result], to=w.type_of(np.bool_)))


def _arg(w: _Writer, node: Node, x: str, operator: str) -> str:
    (axis,) = node.attrs["axes"]
    return str(w.add(operator, [x], axis=axis, keepdims=1))


def _flip(w: _Writer, node: Node, x: str) -> str:
    axes = node.attrs["axes"]
    low = -(2**62)
    return w.sliced(x, [-1] * len(axes), [low] * len(axes), [-1] * len(axes), list(axes))


def _slice(w: _Writer, node: Node, x: str) -> str:
    return w.sliced(x, node.attrs["starts"], node.attrs["stops"], node.attrs["steps"])


def _pad(w: _Writer, node: Node, x: str) -> str:
    return w.padded(x, node.attrs["low"], node.attrs["high"], node.dtype.numpy)


def _attention(w: _Writer, node: Node, q: str, k: str, v: str) -> str:
    rank = len(node.shape)
    turned = w.add("Transpose", [k], perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = w.add("Mul", [w.add("MatMul", [q, turned]), w.constant(node.attrs["scale"], node.dtype.numpy)])
    if node.attrs["causal"]:
        size = (node.inputs[0].shape[-2], node.inputs[1].shape[-2])
        hidden = np.where(np.tril(np.ones(size, bool)), 0, -np.inf)
        scores = w.add("Add", [scores, w.constant(hidden, node.dtype.numpy)])
    return str(w.add("MatMul", [w.add("Softmax", [scores], axis=-1), v]))


def _convolution(w: _Writer, node: Node, x: str, weight: str) -> str:
    (top, bottom), (left, right) = node.attrs["padding"]
    pads = [top, left, bottom, right]
    return str(w.add("Conv", [x, weight], strides=node.attrs["stride"], pads=pads, dilations=node.attrs["dilation"]))


def _places(node: Node) -> list[tuple[int, ...]]:
    return list(np.ndindex(*node.attrs["sizes"]))


def _window(w: _Writer, node: Node, x: str) -> str:
    """One strided slice of x for each place within the window."""
    axes, sizes, steps, dilations = (node.attrs[n] for n in ("axes", "sizes", "steps", "dilations"))
    shape = node.shape[: len(node.shape) - len(sizes)]
    slices = []
    for place in _places(node):
        starts = [p * d for p, d in zip(place, dilations, strict=True)]
        stops = [s + (shape[a] - 1) * step + 1 for s, a, step in zip(starts, axes, steps, strict=True)]
        slices.append(w.reshaped(w.sliced(x, starts, stops, steps, list(axes)), (*shape, 1)))
    return w.reshaped(w.add("Concat", slices, axis=len(shape)), node.shape)


def _unwindow(w: _Writer, node: Node, base: str, source: str) -> str:
    """base plus, for each place within the window, the source's slice spread out to where it was taken from."""
    sizes, shape = node.attrs["sizes"], node.inputs[1].shape
    rank = len(shape) - len(sizes)
    flat = w.reshaped(source, (*shape[:rank], -1))
    total = base
    for number, place in enumerate(_places(node)):
        part = w.reshaped(w.sliced(flat, [number], [number + 1], [1], [rank]), shape[:rank])
        total = str(w.add("Add", [total, _spread(w, node, part, shape[:rank], place)]))
    return total


def _spread(w: _Writer, node: Node, part: str, shape: tuple[int, ...], place: tuple[int, ...]) -> str:
    """Zeros between the elements of `part` and around it, so that it has the shape of the result."""
    now = list(shape)
    low, high = [0] * len(now), [0] * len(now)
    rows = zip(node.attrs["axes"], place, node.attrs["steps"], node.attrs["dilations"], strict=True)
    for axis, p, step, dilation in rows:
        if step > 1:
            wide = [*now[: axis + 1], 1, *now[axis + 1 :]]
            after = [step - 1 if i == axis + 1 else 0 for i in range(len(wide))]
            part = w.padded(w.reshaped(part, wide), [0] * len(wide), after, node.dtype.numpy)
            now[axis] *= step
            part = w.reshaped(part, now)
            used = now[axis] - step + 1
            part = w.sliced(part, [0], [used], [1], [axis])
            now[axis] = used
        low[axis] = p * dilation
        high[axis] = node.shape[axis] - now[axis] - low[axis]
    return w.padded(part, low, high, node.dtype.numpy)


def _scan(w: _Writer, node: Node, *inputs: str) -> str:
    """ONNX's Scan; its results are packed into one vector, as the op's are."""
    body, attrs = node.attrs["body"], node.attrs
    carries, xs, length = attrs["carries"], attrs["xs"], attrs["length"]
    if length == 0:
        raise UserError("a scan of length 0 cannot be exported to ONNX")
    inner = _Writer(w.onnx, body, prefix=f"{w.prefix}b{next(w.count)}_")
    for arg, outer in zip(body.args[carries + xs :], inputs[carries + xs :], strict=True):
        inner.names[id(arg)] = outer  # ONNX's bodies see the names around them
    given = body.args[: carries + xs]
    for i, arg in enumerate(given):
        inner.names[id(arg)] = f"{inner.prefix}in{i}"
    inner.write_nodes()
    kept = [k for k in range(carries) if attrs["history"][k]]
    results = [*body.outputs, *(body.outputs[k] for k in kept)]
    ends = [inner.add("Identity", [inner.names[id(o)]], name=f"{inner.prefix}out{i}") for i, o in enumerate(results)]
    infos = (
        [inner._info(inner.names[id(a)], a) for a in given],
        [inner._info(e, o) for e, o in zip(ends, results, strict=True)],
    )
    graph = w.helper.make_graph(inner.nodes, f"{inner.prefix}body", *infos, inner.initializers)
    back = int(attrs["reverse"])
    stacked = len(results) - carries
    names = w.add(
        "Scan", inputs[: carries + xs], outputs=len(results), body=graph, num_scan_inputs=xs,
        scan_input_directions=[back] * xs, scan_output_directions=[back] * stacked,
    )  # fmt: skip
    return _packed(w, node, inputs, [names] if isinstance(names, str) else names, kept)


def _packed(w: _Writer, node: Node, inputs: Sequence[str], names: list[str], kept: list[int]) -> str:
    body, attrs = node.attrs["body"], node.attrs
    carries, parts = attrs["carries"], []
    history = names[len(body.outputs) :]
    for i, segment in enumerate(segments([o.type for o in body.outputs], attrs["length"], attrs["history"])):
        if i >= carries:
            parts.append(w.reshaped(names[i], (-1,)))
        elif i in kept:
            pair = [w.reshaped(inputs[i], (-1,)), w.reshaped(history[kept.index(i)], (-1,))]
            parts += pair[::-1] if attrs["reverse"] else pair
        else:  # two slots in turn: the last value, and one that nobody reads
            last = w.reshaped(names[i], (-1,))
            parts += [last] * segment.slots
    return str(w.add("Concat", parts, axis=0)) if len(parts) > 1 else parts[0]


_RULES: dict[str, Callable[..., str]] = {
    "constant": _constant,
    "arange": _constant,
    "full": _full,
    "cast": lambda w, n, x: w.add("Cast", [x], to=w.type_of(n.dtype.numpy)),
    "check_index": _check_index,
    "rsqrt": lambda w, n, x: w.add("Reciprocal", [w.add("Sqrt", [x])]),
    "ne": lambda w, n, a, b: w.add("Not", [w.add("Equal", [a, b])]),
    "maximum": lambda w, n, a, b: w.add("Max", [a, b]),
    "minimum": lambda w, n, a, b: w.add("Min", [a, b]),
    "expm1": lambda w, n, x: w.add("Sub", [w.add("Exp", [x]), w.constant(1, n.dtype.numpy)]),
    "log1p": lambda w, n, x: w.add("Log", [w.add("Add", [x, w.constant(1, n.dtype.numpy)])]),
    "any": lambda w, n, x: _logical_reduction(w, n, x, "ReduceMax"),
    "all": lambda w, n, x: _logical_reduction(w, n, x, "ReduceMin"),
    "argmax": lambda w, n, x: _arg(w, n, x, "ArgMax"),
    "argmin": lambda w, n, x: _arg(w, n, x, "ArgMin"),
    "reshape": lambda w, n, x: w.reshaped(x, n.shape),
    "permute": lambda w, n, x: w.add("Transpose", [x], perm=n.attrs["axes"]),
    "expand": lambda w, n, x: w.add("Expand", [x, w.constant(n.shape)]),
    "slice": _slice,
    "pad": _pad,
    "concat": lambda w, n, *xs: w.add("Concat", xs, axis=n.attrs["axis"]),
    "flip": _flip,
    "gather": lambda w, n, table, index: w.add("Gather", [table, index], axis=n.attrs["axis"]),
    "take_along": lambda w, n, x, index: w.add("GatherElements", [x, index], axis=n.attrs["axis"]),
    "attention": _attention,
    "convolution": _convolution,
    "window": _window,
    "unwindow": _unwindow,
    "scan": _scan,
}
