"""The reader of a graph's text: tokens, then one statement a line; the ops' inference rules type every node again."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tinygrad_lite.errors import UserError
from tinygrad_lite.ir.graph import Graph, Update
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Op, all_ops, op_named
from tinygrad_lite.ir.signature import signature
from tinygrad_lite.ir.types import DType, TensorType, dtype_named

POSITIONAL = {"input": "name", "state": "name", "constant": "data", "full": "value"}  # written without the name
_MAX_NESTING = 16


class ParseError(UserError):
    """Text that is not a graph: `line` and `column` (from 1) of the place, `problem` says what was expected there."""

    def __init__(self, problem: str, line: int, column: int, source: str = "") -> None:
        self.problem, self.line, self.column = problem, line, column
        pointer = f"\n  {source}\n  {' ' * (column - 1)}^" if source.strip() and len(source) < 400 else ""
        super().__init__(f"line {line}, column {column}: {problem}{pointer}")


class _Token(NamedTuple):
    kind: str  # value, string, number, word, newline, end, or the punctuation mark itself
    text: str
    at: int


_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\#[^\n]*)
      | (?P<newline>\n)
      | (?P<value>%[A-Za-z0-9_.]+)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<number>-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|(?:inf|nan)\b))
      | (?P<word>[A-Za-z_][A-Za-z0-9_.]*)
      | (?P<mark>[=:,\[\]{}])""",
    re.VERBOSE,
)


def parse(text: str) -> Graph:
    """The graph that `text` describes; ParseError where it is none. Locations, being comments, are not read."""
    return _Parser(text).graph()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokenise()
        self.i = 0
        self.values: dict[str, Node] = {}
        self.updates: dict[str, Update] = {}
        self.outputs: tuple[Node, ...] | None = None
        self.depth = 0  # bodies around the statement at hand

    # ---- tokens ----

    def _tokenise(self) -> list[_Token]:
        tokens, at = [], 0
        while at < len(self.text):
            found = _TOKEN.match(self.text, at)
            if found is None:
                raise self._error("expected a value, word, number, string or one of = : , [ ] { }", at)
            kind = found.lastgroup or ""
            if kind != "space":
                tokens.append(_Token(found.group() if kind == "mark" else kind, found.group(), at))
            at = found.end()
        return [*tokens, _Token("end", "", len(self.text))]

    def _error(self, problem: str, at: int) -> ParseError:
        start = self.text.rfind("\n", 0, at) + 1
        stop = self.text.find("\n", at)
        source = self.text[start : stop if stop >= 0 else len(self.text)]
        return ParseError(problem, self.text.count("\n", 0, at) + 1, at - start + 1, source)

    def _unexpected(self, expected: str) -> ParseError:
        token = self.tokens[self.i]
        found = {"end": "the end of the text", "newline": "the end of the line"}.get(token.kind, repr(token.text[:40]))
        return self._error(f"expected {expected}, found {found}", token.at)

    def _peek(self) -> str:
        return self.tokens[self.i].kind

    def _take(self, kind: str, expected: str) -> _Token:
        token = self.tokens[self.i]
        if token.kind != kind:
            raise self._unexpected(expected)
        self.i += 1
        return token

    def _accept(self, kind: str) -> bool:
        if self.tokens[self.i].kind != kind:
            return False
        self.i += 1
        return True

    def _blank_lines(self) -> None:
        while self._accept("newline"):
            pass

    # ---- statements ----

    def graph(self) -> Graph:
        self._blank_lines()
        if self._peek() != "word" or self.tokens[self.i].text != "graph":
            raise self._unexpected("'graph'")
        self.i += 1
        name = self._string() if self._peek() == "string" else self._take("word", "the graph's name").text
        self._block()
        self._blank_lines()
        self._take("end", "nothing after '}'")
        return self._finish(name)

    def _block(self) -> None:
        self._take("{", "'{'")
        self._take("newline", "a new line after '{'")
        self._blank_lines()
        while self._peek() != "}":
            self._statement()
            self._take("newline", "the end of the line")
            self._blank_lines()
        if self.outputs is None:
            raise self._unexpected("a 'return' line")
        self.i += 1

    def _body(self) -> Graph:
        """A loop's body: a block whose names are its own."""
        outer = self.values, self.updates, self.outputs
        self.values, self.updates, self.outputs = {}, {}, None
        self.depth += 1
        self._block()
        body = self._finish("body")
        self.depth -= 1
        self.values, self.updates, self.outputs = outer
        return body

    def _finish(self, name: str) -> Graph:
        leaves = {kind: tuple(n for n in self.values.values() if n.op.name == kind) for kind in ("input", "state")}
        return Graph(name, leaves["input"], leaves["state"], self.outputs or (), tuple(self.updates.values()))

    def _statement(self) -> None:
        if self._peek() == "value":
            return self._definition()
        word = self.tokens[self.i].text if self._peek() == "word" else ""
        if word == "return" and self.outputs is None:
            self.i += 1
            self.outputs = tuple(self._operands())
        elif word == "update":
            self.i += 1
            self._update()
        else:
            raise self._unexpected("a value such as %0, 'update', '}'" + (", 'return'" if self.outputs is None else ""))
        return None

    def _update(self) -> None:
        token = self._take("value", "a state")
        state = self._lookup(token)
        if state.op.name != "state":
            raise self._error(f"expected a state, found a value of {state.op.name}", token.at)
        if token.text in self.updates:
            raise self._error(f"expected one update a state, {token.text} has another", token.at)
        self._take("=", "'='")
        value_at = self.tokens[self.i].at
        value = self._lookup(self._take("value", "a value"))
        if value.type != state.type:
            raise self._error(f"expected a value of type {state.type}, found {value.type}", value_at)
        self.updates[token.text] = Update(state, value)

    def _definition(self) -> None:
        target = self._take("value", "a value")
        if target.text in self.values:
            raise self._error(f"expected a new name, {target.text} is defined above", target.at)
        self._take("=", "'='")
        at = self.tokens[self.i].at
        op = self._op()
        attrs = self._positional(op)
        inputs = self._operands()
        while self._peek() == "word":
            self._attribute(op, attrs)
        type = self._type() if self._accept(":") else None
        self.values[target.text] = self._node(op, inputs, attrs, type, at)

    # ---- parts of a definition ----

    def _op(self) -> Op:
        token = self._take("word", "an op's name")
        try:
            return op_named(token.text)
        except KeyError:
            close = difflib.get_close_matches(token.text[:40], [o.name for o in all_ops()], 1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise self._error(f"expected an op's name, found {token.text[:40]!r}{hint}", token.at) from None

    def _positional(self, op: Op) -> dict[str, Any]:
        if op.name in ("input", "state"):
            return {"name": self._string()}
        if op.name not in POSITIONAL:
            return {}
        value = self._value()
        if op.name == "constant" and not isinstance(value, tuple):
            value = (value,)
        return {POSITIONAL[op.name]: value}

    def _operands(self) -> list[Node]:
        if self._peek() != "value":
            return []
        operands = [self._lookup(self._take("value", "a value"))]
        while self._accept(","):
            operands.append(self._lookup(self._take("value", "a value after ','")))
        return operands

    def _lookup(self, token: _Token) -> Node:
        try:
            return self.values[token.text]
        except KeyError:
            raise self._error(f"expected a value defined above, found {token.text[:40]}", token.at) from None

    def _attribute(self, op: Op, attrs: dict[str, Any]) -> None:
        token = self._take("word", "an attribute")
        sign = signature(op)
        if token.text in attrs or (token.text not in sign.attrs and not sign.open):
            rest = [n for n in sign.attrs if n not in attrs]
            expected = f"expected one of {', '.join(rest)}" if rest else f"expected no more attributes of {op.name}"
            raise self._error(f"{expected}, found {token.text[:40]!r}", token.at)
        self._take("=", "'='")
        attrs[token.text] = self._value()

    def _node(self, op: Op, inputs: list[Node], attrs: dict[str, Any], type: TensorType | None, at: int) -> Node:
        sign = signature(op)
        if len(inputs) < sign.low or (sign.high is not None and len(inputs) > sign.high):
            wanted = str(sign.low) if sign.low == sign.high else f"{sign.low} or more"
            raise self._error(f"expected {wanted} operands of {op.name}, found {len(inputs)}", at)
        self._imply(op, attrs, type, at)
        if op.name == "constant":
            attrs["data"] = self._typed_data(attrs["data"], attrs["dtype"], at)
        try:
            inferred = op.infer(*[i.type for i in inputs], **attrs)
        except Exception as error:  # a rule may meet any nonsense here; whatever it says is the user's error
            raise self._error(f"expected a well-typed {op.name}: {error}", at) from error
        if type is not None and inferred != type:
            raise self._error(f"expected type {inferred} by the rule of {op.name}, found {type}", at)
        return Node(op, tuple(inputs), attrs, inferred)

    def _imply(self, op: Op, attrs: dict[str, Any], type: TensorType | None, at: int) -> None:
        for name in signature(op).attrs:
            if name in attrs or name not in signature(op).required:
                continue
            if type is None or name not in ("dtype", "shape"):
                missing = "a type such as ': f32[2,3]'" if name in ("dtype", "shape") else f"the attribute {name}"
                raise self._error(f"expected {missing} of {op.name}", at)
            attrs[name] = type.dtype if name == "dtype" else type.shape

    def _typed_data(self, data: tuple[Any, ...], dtype: Any, at: int) -> tuple[Any, ...]:
        """Constant data as Python scalars of exactly `dtype`."""
        wanted: tuple[type, ...] = {"b": (bool,), "f": (int, float)}.get(getattr(dtype, "kind", ""), (int,))
        for value in data:
            if type(value) not in wanted:
                raise self._error(f"expected {dtype} data, found {value!r}", at)
        try:
            with np.errstate(over="raise"):
                return tuple(np.array(data, dtype.numpy).tolist())
        except (OverflowError, FloatingPointError):
            raise self._error(f"expected data that fits {dtype}", at) from None

    # ---- values ----

    def _string(self) -> str:
        token = self._take("string", "a name in double quotes")
        try:
            text = json.loads(token.text, strict=False)
        except ValueError:
            raise self._error("expected a string with JSON's escapes", token.at) from None
        return str(text)

    def _value(self, depth: int = 0) -> Any:
        kind = self._peek()
        if kind == "string":
            return self._string()
        if kind == "number":
            return self._number()
        if kind == "word":
            return self._named_value()
        if kind == "[" and depth < _MAX_NESTING:
            return self._list(lambda: self._value(depth + 1))
        if kind == "{" and self.depth < _MAX_NESTING:
            return self._body()
        raise self._unexpected('a value such as 3, 0.5, true, none, f32, "text" or [1, 2]')

    def _list(self, item: Callable[[], Any]) -> tuple[Any, ...]:
        self._take("[", "'['")
        items: list[Any] = []
        while not self._accept("]"):
            if items:
                self._take(",", "',' or ']'")
            items.append(item())
        return tuple(items)

    def _number(self) -> int | float:
        token = self._take("number", "a number")
        try:
            return int(token.text)
        except ValueError:
            pass
        if len(token.text) > 4000:  # Python refuses to read such an int
            raise self._error("expected a shorter number", token.at)
        return float(token.text)

    def _named_value(self) -> Any:
        token = self._take("word", "a value")
        words = {"none": None, "true": True, "false": False}
        return words[token.text] if token.text in words else self._dtype(token)

    def _dtype(self, token: _Token) -> DType:
        try:
            return dtype_named(token.text)
        except TypeError:
            raise self._error(f"expected a dtype such as f32, found {token.text[:40]!r}", token.at) from None

    def _type(self) -> TensorType:
        dtype = self._dtype(self._take("word", "a type such as f32[2,3]"))
        return TensorType(dtype, self._list(self._dimension))

    def _dimension(self) -> int:
        token = self._take("number", "a size")
        if not token.text.isdigit() or len(token.text) > 18:
            raise self._error("expected a size from 0 to 10^18", token.at)
        return int(token.text)
