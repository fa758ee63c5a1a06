"""ONNX models as Modules: the operators that `export` writes, and no others. Shapes are those of the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.errors import UserError
from tinygrad_lite.ir.types import dtype_of
from tinygrad_lite.nn import functional as F
from tinygrad_lite.onnx.exporting import _package

Value = Any  # a Tensor, or a NumPy array of integers that shapes are made from


class OnnxModule(nn.Module):
    """An ONNX graph to call. Floating-point initializers are parameters, named as in the file, dots as underscores."""

    def __init__(self, onnx: Any, graph: Any) -> None:
        super().__init__()
        self._values: dict[str, Value] = {}
        self._trained: dict[str, str] = {}
        for initializer in graph.initializer:
            self._hold(initializer.name, np.array(onnx.numpy_helper.to_array(initializer)))
        held = {i.name for i in graph.initializer}
        self._inputs = tuple(i.name for i in graph.input if i.name not in held)
        self._outputs = tuple(o.name for o in graph.output)
        self._steps = tuple(_step(onnx, node) for node in graph.node)
        self._check()

    def _hold(self, name: str, array: np.ndarray[Any, Any]) -> None:
        if array.dtype.kind == "f" and array.size > 1:
            stem = "".join(c if c.isalnum() else "_" for c in name) or "initializer"
            while hasattr(self, stem):
                stem += "_"
            self.register_parameter(stem, nn.Parameter(tl.from_numpy(array)))
            self._trained[name] = stem
        else:
            self._values[name] = array

    def _check(self) -> None:
        unknown = sorted({s.operator for s in self._steps} - set(_OPERATORS) - {"Scan"})
        if unknown:
            raise UserError(
                f"operators that cannot be imported: {', '.join(unknown)}; known are {', '.join(_OPERATORS)}"
            )

    def forward(self, *inputs: Any) -> Any:
        """The outputs, in the file's order; a single one by itself."""
        if len(inputs) != len(self._inputs):
            raise TypeError(f"the model takes {len(self._inputs)} inputs, not {len(inputs)}")
        values = dict(self._values) | {name: getattr(self, stem) for name, stem in self._trained.items()}
        values |= dict(zip(self._inputs, inputs, strict=True))
        _run(self._steps, values)
        results = tuple(_tensor(values[name]) for name in self._outputs)
        return results[0] if len(results) == 1 else results


class _Step:
    """One operator: names of its operands and results, its attributes, the body of a loop."""

    def __init__(
        self, operator: str, inputs: Sequence[str], outputs: Sequence[str], attributes: dict[str, Any]
    ) -> None:
        self.operator, self.inputs, self.outputs, self.attributes = operator, tuple(inputs), tuple(outputs), attributes


class _Body:
    """The graph of a loop: it sees the values around it."""

    def __init__(self, onnx: Any, graph: Any) -> None:
        self.constants = {i.name: np.array(onnx.numpy_helper.to_array(i)) for i in graph.initializer}
        self.inputs = tuple(i.name for i in graph.input)
        self.outputs = tuple(o.name for o in graph.output)
        self.steps = tuple(_step(onnx, node) for node in graph.node)


def import_(path: str | Path) -> OnnxModule:
    """The Module of an ONNX file. Raises UserError where it is none, or has operators that `export` does not write."""
    onnx = _package()
    try:
        model = onnx.load(str(path))
        onnx.checker.check_model(str(path))  # by name: a model of 2 GB and more cannot be checked in memory
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except Exception as error:  # a damaged protocol buffer, or a graph that the checker refuses
        raise UserError(f"{path} is no ONNX model: {str(error).splitlines()[0] if str(error) else error!r}") from error
    return OnnxModule(onnx, model.graph)


def _step(onnx: Any, node: Any) -> _Step:
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if "body" in attributes:
        attributes["body"] = _Body(onnx, attributes["body"])
    return _Step(node.op_type, node.input, node.output, attributes)


def _run(steps: Sequence[_Step], values: dict[str, Value]) -> None:
    for step in steps:
        operands = [values[name] for name in step.inputs]
        if step.operator == "Scan":
            results = _scan(operands, values, **step.attributes)
        else:
            results = (_OPERATORS[step.operator](*operands, **step.attributes),)
        values |= dict(zip(step.outputs, results, strict=True))


def _scan(
    operands: list[Value], around: Mapping[str, Value], body: _Body, num_scan_inputs: int, **directions: Any
) -> tuple[Value, ...]:
    carries = len(operands) - num_scan_inputs
    state, xs = [_tensor(v) for v in operands[:carries]], [_tensor(v) for v in operands[carries:]]
    backwards = list(directions.get("scan_input_directions") or [0] * len(xs))
    out_backwards = list(directions.get("scan_output_directions") or [0] * (len(body.outputs) - carries))
    stacked: list[list[Value]] = [[] for _ in range(len(body.outputs) - carries)]
    for turn in range(xs[0].shape[0]):
        now = [x[x.shape[0] - 1 - turn if back else turn] for x, back in zip(xs, backwards, strict=True)]
        values = dict(around) | body.constants | dict(zip(body.inputs, [*state, *now], strict=True))
        _run(body.steps, values)
        results = [_tensor(values[name]) for name in body.outputs]
        state = results[:carries]
        for column, result in zip(stacked, results[carries:], strict=True):
            column.append(result)
    columns = [c[::-1] if back else c for c, back in zip(stacked, out_backwards, strict=True)]
    return (*state, *(tl.stack(c) for c in columns))


def _tensor(value: Value) -> Any:
    return tl.from_numpy(value) if isinstance(value, np.ndarray) else value


def _ints(value: Value) -> list[int]:
    if not isinstance(value, np.ndarray):
        raise UserError("shapes, axes and slices must be constants of the ONNX file")
    return [int(v) for v in value.ravel()]


def _of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: function(*map(_tensor, operands))


def _reduce(function: Callable[..., Any]) -> Callable[..., Any]:
    def rule(x: Value, axes: Value = None, keepdims: int = 1) -> Any:
        x = _tensor(x)
        wanted = _ints(axes) if axes is not None else range(x.dim())
        for axis in wanted:  # one at a time: some of the functions take no more
            x = function(x, axis)
        return x if keepdims else x.squeeze(tuple(wanted))

    return rule


def _reshape(x: Value, shape: Value, allowzero: int = 0) -> Any:
    x = _tensor(x)
    sizes = [x.shape[i] if n == 0 and not allowzero else n for i, n in enumerate(_ints(shape))]
    return x.reshape(sizes)


def _slice(x: Value, starts: Value, stops: Value, axes: Value, steps: Value) -> Any:
    x = _tensor(x)
    for start, stop, axis, step in zip(*map(_ints, (starts, stops, axes, steps)), strict=True):
        if step < 0:
            x, step, start, stop = x.flip(axis), -step, -1 - start, -1 - stop
            size = x.shape[axis]
            stop = min(stop, size)
        index = [slice(None)] * x.dim()
        index[axis] = slice(start, stop, step)
        x = x[tuple(index)]
    return x


def _pad(x: Value, pads: Value, value: Value = None) -> Any:
    x, amounts = _tensor(x), _ints(pads)
    low, high = amounts[: len(amounts) // 2], amounts[len(amounts) // 2 :]
    fill = float(np.asarray(value)) if value is not None else 0.0
    return F.pad(x, [n for pair in reversed(list(zip(low, high, strict=True))) for n in pair], value=fill)


def _conv(x: Value, weight: Value, strides: Any = (1, 1), pads: Any = (0, 0, 0, 0), dilations: Any = (1, 1)) -> Any:
    top, left, bottom, right = pads
    x = F.pad(_tensor(x), [left, right, top, bottom]) if any(pads) else _tensor(x)
    return F.conv2d(x, _tensor(weight), stride=tuple(strides), dilation=tuple(dilations))


def _cast(x: Value, to: int) -> Any:
    onnx = _package()
    return _tensor(x).to(dtype_of(onnx.helper.tensor_dtype_to_np_dtype(to)))


def _gather(table: Value, index: Value, axis: int = 0) -> Any:
    table, index = _tensor(table), _tensor(index)
    flat = table.index_select(axis, index.reshape(-1))
    return flat.reshape([*table.shape[:axis], *index.shape, *table.shape[axis + 1 :]])


_OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": _of(lambda a, b: a + b),
    "Sub": _of(lambda a, b: a - b),
    "Mul": _of(lambda a, b: a * b),
    "Div": _of(lambda a, b: a / b),
    "Pow": _of(lambda a, b: a**b),
    "Max": _of(tl.maximum),
    "Min": _of(tl.minimum),
    "Equal": _of(lambda a, b: a == b),
    "Less": _of(lambda a, b: a < b),
    "LessOrEqual": _of(lambda a, b: a <= b),
    "Greater": _of(lambda a, b: a > b),
    "GreaterOrEqual": _of(lambda a, b: a >= b),
    "And": _of(tl.logical_and),
    "Or": _of(tl.logical_or),
    "Not": _of(tl.logical_not),
    "Where": _of(tl.where),
    "MatMul": _of(tl.matmul),
    "Identity": _of(lambda x: x),
    "Reciprocal": _of(lambda x: 1.0 / x),
    **{
        name: _of(getattr(tl, name.lower()))
        for name in (
            "Neg", "Exp", "Log", "Sqrt", "Tanh", "Sin", "Cos", "Tan", "Erf", "Sigmoid", "Abs", "Sign", "Floor", "Ceil",
            "Round", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh",
        )
    },
    "Softmax": lambda x, axis=-1: _tensor(x).softmax(axis),
    "ReduceSum": _reduce(lambda x, axis: x.sum(axis, keepdim=True)),
    "ReduceMax": _reduce(lambda x, axis: x.max(axis, keepdim=True)[0]),
    "ReduceMin": _reduce(lambda x, axis: x.min(axis, keepdim=True)[0]),
    "ReduceProd": _reduce(lambda x, axis: x.prod(axis, keepdim=True)),
    "ArgMax": lambda x, axis=0, keepdims=1: _tensor(x).argmax(axis, keepdim=bool(keepdims)),
    "ArgMin": lambda x, axis=0, keepdims=1: _tensor(x).argmin(axis, keepdim=bool(keepdims)),
    "Reshape": _reshape,
    "Transpose": lambda x, perm: _tensor(x).permute(*perm),
    "Expand": lambda x, shape: tl.broadcast_to(_tensor(x), tuple(_ints(shape))),
    "Slice": _slice,
    "Pad": _pad,
    "Concat": lambda *xs, axis: tl.cat([_tensor(x) for x in xs], dim=axis),
    "Gather": _gather,
    "GatherElements": lambda x, index, axis=0: tl.gather(_tensor(x), axis, _tensor(index)),
    "Conv": _conv,
    "Cast": _cast,
}  # fmt: skip
