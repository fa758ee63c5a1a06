"""Recurrent layers and cells.

A layer is one input product over all steps and then a `scan`, whose step is the recurrent product and one kernel; so it
is compiled once, however long the sequence. Names, shapes and initial values are PyTorch's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tinygrad_lite import functional as F
from tinygrad_lite.func.stateless import swapped
from tinygrad_lite.functional.casting import converted
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import DType, float32
from tinygrad_lite.nn import init
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.parameter import Parameter
from tinygrad_lite.nn.utils.rnn import PackedSequence, pad_packed_sequence, position_mask, repacked
from tinygrad_lite.tensor import Tensor, arange, cat, empty, stack, tensor, where, zeros

State = tuple[Tensor, ...]  # h, and of an LSTM also c
Step = Callable[[Any, Any], tuple[Any, Tensor]]

_PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


class _Weights(NamedTuple):
    """One direction of one layer; absent ones are None."""

    ih: Tensor
    hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    hr: Tensor | None = None


# ---- what a step computes ---------------------------------------------------------------------------------


def _lstm(gates: Tensor, c: Tensor) -> State:
    """c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c')  (Hochreiter and Schmidhuber 1997; Gers et al. 2000)."""
    i, f, g, o = gates.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(x: Tensor, gates: Tensor, h: Tensor, new_bias: Tensor | None = None) -> Tensor:
    """n = tanh(x_n + σ(r) (g_n + b)), h' = (1 - σ(z)) n + σ(z) h; x and gates hold r, z, n  (Cho et al. 2014)."""
    (xr, xz, xn), (gr, gz, gn) = x.chunk(3, -1), gates.chunk(3, -1)
    reset, keep = (xr + gr).sigmoid(), (xz + gz).sigmoid()
    new = (xn + reset * (gn if new_bias is None else gn + new_bias)).tanh()
    return new + keep * (h - new)


def _step(mode: str, w: _Weights) -> Step:
    """(state, the step's input product) → (state, output)."""
    new_bias = w.bias_hh[2 * w.hh.shape[1] :] if mode == "GRU" and w.bias_hh is not None else None
    bias = _input_bias(mode, w)

    def total(x: Tensor) -> Tensor:  # the biases here, not on the input product: they stay in the cache
        return x if bias is None else x + bias

    def lstm(state: State, x: Tensor) -> tuple[State, Tensor]:
        h, c = _lstm(total(x) + state[0] @ w.hh.t(), state[1])
        if w.hr is not None:
            h = h @ w.hr.t()
        return (h, c), h

    def gru(state: State, x: Tensor) -> tuple[State, Tensor]:
        h = _gru(total(x), state[0] @ w.hh.t(), state[0], new_bias)
        return (h,), h

    def simple(state: State, x: Tensor) -> tuple[State, Tensor]:
        h = total(x) + state[0] @ w.hh.t()
        h = h.tanh() if mode == "RNN_TANH" else h.relu()
        return (h,), h

    return {"LSTM": lstm, "GRU": gru}.get(mode, simple)


def _input_bias(mode: str, w: _Weights) -> Tensor | None:
    """The biases of the input product: all but a GRU's recurrent one of the new gate, reset with its product."""
    if w.bias_ih is None or w.bias_hh is None:
        return w.bias_ih
    if mode != "GRU":
        return w.bias_ih + w.bias_hh
    hidden = w.hh.shape[1]
    return w.bias_ih + cat([w.bias_hh[: 2 * hidden], zeros(hidden, dtype=w.bias_hh.dtype)])


def _masked(step: Step) -> Step:
    """Past the end of a sequence its state stays as it is."""

    def run(state: State, given: tuple[Tensor, Tensor]) -> tuple[State, Tensor]:
        x, inside = given
        new, y = step(state, x)
        return tuple(where(inside, a, b) for a, b in zip(new, state, strict=True)), y

    return run


# ---- layers -------------------------------------------------------------------------------------------------


class RNNBase(Module):
    """What RNN, LSTM and GRU share: parameters, checks, stacking of layers and directions.

    Shapes: x (time, batch, input_size) to outputs (time, batch, directions · size) and last states
    (layers · directions, batch, size). With batch_first the batch leads in x and outputs, not in states; an unbatched x
    has none.

    Args:
        mode: RNN_TANH, RNN_RELU, LSTM or GRU.
        input_size, hidden_size: features of the input and of the state.
        num_layers: layers on top of each other; each takes the outputs of the one below.
        bias: have biases.
        batch_first: inputs and outputs are (batch, time, features) instead of (time, batch, features).
        dropout: probability of dropping an output of a layer on its way to the next, in training.
        bidirectional: a second direction from the end; outputs are joined.
        proj_size: size of the LSTM's output after a projection; 0 for none.
        one_bias: one bias a gate, under the name bias_ih_l…, instead of the two that PyTorch adds up.
        forget_bias: what the LSTM's forget bias starts at (1 keeps memories early in training); None as the others.

    Raises:
        TypeError, ValueError: an argument of the wrong type or out of range.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
        *,
        one_bias: bool = False,
        forget_bias: float | None = None,
    ) -> None:
        super().__init__()
        _check_sizes(hidden_size, num_layers, dropout, proj_size)
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, float(dropout), bidirectional
        self.proj_size, self.one_bias, self.forget_bias = proj_size, one_bias, forget_bias
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=3,
            )
        for layer in range(num_layers):
            for suffix in self._suffixes(layer):
                for name, shape in self._shapes(layer):
                    self.register_parameter(name + suffix, Parameter(empty(*shape, device=device, dtype=dtype)))
        self.reset_parameters()

    @property
    def num_directions(self) -> int:
        """2 where a second one comes from the end."""
        return 2 if self.bidirectional else 1

    @property
    def output_size(self) -> int:
        """Features of one direction's output."""
        return self.proj_size or self.hidden_size

    def _suffixes(self, layer: int) -> tuple[str, ...]:
        return (f"_l{layer}", f"_l{layer}_reverse")[: self.num_directions]

    def _shapes(self, layer: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes of one direction's parameters."""
        rows = _GATES[self.mode] * self.hidden_size
        yield "weight_ih", (rows, self.input_size if layer == 0 else self.output_size * self.num_directions)
        yield "weight_hh", (rows, self.output_size)
        if self.bias:
            yield "bias_ih", (rows,)
        if self.bias and not self.one_bias:
            yield "bias_hh", (rows,)
        if self.proj_size:
            yield "weight_hr", (self.proj_size, self.hidden_size)

    def reset_parameters(self) -> None:
        """Draw the initial values again: uniform in ±1/sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)
        if self.forget_bias is not None and self.mode == "LSTM":
            forget = slice(self.hidden_size, 2 * self.hidden_size)
            for name, parameter in self.named_parameters():
                if name.startswith("bias"):
                    value = self.forget_bias if name.startswith("bias_ih") else 0.0
                    parameter.data[forget] = value

    def flatten_parameters(self) -> None:
        """Nothing to do here; PyTorch's moves its parameters into one buffer for cuDNN."""

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters of each direction of each layer."""
        suffixes = [s for layer in range(self.num_layers) for s in self._suffixes(layer)]
        return [[getattr(self, name + s) for name, _ in self._shapes(0)] for s in suffixes]

    def _weights(self, suffix: str) -> _Weights:
        return _Weights(*(getattr(self, name + suffix, None) for name in _PARAMETERS))

    # ---- running ----

    def forward(self, input: Any, hx: Any = None, *, lengths: Any = None) -> tuple[Any, Any]:
        """Outputs of the last layer at all steps, and the last state of every layer.

        Args:
            input: (time, batch, features), (batch, time, features) if batch_first, (time, features), or packed.
            hx: initial state (layers · directions, batch, size), without the batch axis for an unbatched input; of an
                LSTM a pair of those. Zeros by default.
            lengths: of each sequence of a padded batch, (batch,) integers; as tensors they may differ from call to
                call of a compiled function. Outputs past the end are 0, the last states those at the ends.

        Raises:
            ValueError: an input of another rank, lengths of another shape, or outside 0 … time where they are known.
            RuntimeError: sizes that do not fit.
        """
        if mode.autocast is not None:
            return self._lowered(mode.autocast, input, hx, lengths)
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise ValueError(f"{self._name_}: a packed input has its lengths with it")
            return self._packed(input, hx)
        ranks = len(input.shape)
        if ranks not in (2, 3):
            raise ValueError(f"{self._name_}: Expected input to be 2D or 3D, got {ranks}D instead")
        x = input.unsqueeze(1) if ranks == 2 else input.transpose(0, 1) if self.batch_first else input
        state = self._states(hx, x, batched=ranks == 3)
        inside = None if lengths is None else self._inside(lengths, x, batched=ranks == 3)
        out, last = self._layers(x if inside is None else where(inside, x, 0.0), state, inside)
        out = out if inside is None else where(inside, out, 0.0)
        if ranks == 2:
            return out.squeeze(1), self._given(tuple(h.squeeze(1) for h in last))
        return (out.transpose(0, 1) if self.batch_first else out), self._given(last)

    def _lowered(self, dtype: DType, input: Any, hx: Any, lengths: Any) -> Any:
        """Under autocast: all operands in its dtype, and so the result; a GRU's is float32 again, as PyTorch's."""
        places = [((self._parameters, n), p) for n, p in self._parameters.items() if p is not None]
        with mode.set(autocast=None), swapped([(place, converted(p, dtype)) for place, p in places]):
            result = self.forward(*converted((input, hx), dtype), lengths=lengths)
        return converted(result, float32) if self.mode == "GRU" else result

    @property
    def _name_(self) -> str:
        return type(self).__name__

    def _given(self, state: State) -> Any:
        """A state as the caller knows it: h, or (h, c)."""
        return state if self.mode == "LSTM" else state[0]

    def _inside(self, lengths: Any, x: Tensor, batched: bool) -> Tensor:
        """(time, batch, 1): where sequences have not ended."""
        time, batch = x.shape[:2]
        given = lengths if isinstance(lengths, Tensor) else tensor(lengths)
        if not batched or tuple(given.shape) != (batch,) or given.dtype.kind not in "iu":
            wanted = f"integers of shape ({batch},)" if batched else "a batch"
            found = f"{given.dtype.name} of shape {tuple(given.shape)}"
            raise ValueError(f"{self._name_}: lengths need {wanted}, got {found}")
        if not isinstance(lengths, Tensor) and not all(0 <= n <= time for n in lengths):
            raise ValueError(f"{self._name_}: lengths must lie in 0 … {time}, not {list(lengths)}")
        return (arange(time).unsqueeze(1) < given).unsqueeze(-1)

    def _packed(self, packed: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """Sequences of several lengths, padded: outputs past the end are dropped, and states stay as they were."""
        x, lengths = pad_packed_sequence(PackedSequence(packed.data, packed.batch_sizes))
        state = self._states(hx, x, batched=True)
        if packed.sorted_indices is not None:
            state = tuple(s[:, packed.sorted_indices] for s in state)
        out, last = self._layers(x, state, position_mask(lengths, x.shape[0]).unsqueeze(-1))
        if packed.unsorted_indices is not None:
            last = tuple(s[:, packed.unsorted_indices] for s in last)
        return repacked(out, packed), self._given(last)

    def _states(self, hx: Any, x: Tensor, batched: bool) -> State:
        """The initial states as (layers · directions, batch, size), checked."""
        if x.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{self._name_}: input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {x.shape[-1]}"
            )
        if x.shape[0] == 0:
            raise RuntimeError(f"{self._name_}: Expected sequence length to be larger than 0")
        count = self.num_layers * self.num_directions
        sizes = [self.output_size, self.hidden_size][: 2 if self.mode == "LSTM" else 1]
        shapes = [(count, x.shape[1], size) for size in sizes]
        if hx is None:
            return tuple(zeros(*shape, dtype=x.dtype) for shape in shapes)
        if (self.mode == "LSTM") != isinstance(hx, tuple | list) or (self.mode == "LSTM" and len(hx) != 2):
            wanted = "a pair (h_0, c_0)" if self.mode == "LSTM" else "a tensor"
            raise RuntimeError(f"{self._name_}: hx must be {wanted}, got {type(hx).__name__}")
        given = tuple(hx) if self.mode == "LSTM" else (hx,)
        return tuple(self._checked(h, s, i, batched) for i, (h, s) in enumerate(zip(given, shapes, strict=True)))

    def _checked(self, h: Tensor, shape: tuple[int, ...], index: int, batched: bool) -> Tensor:
        rank = 3 if batched else 2
        if len(h.shape) != rank:
            kind = "batched" if batched else "unbatched"
            raise RuntimeError(
                f"{self._name_}: For {kind} {rank}-D input, hx should also be {rank}-D but got {len(h.shape)}-D tensor"
            )
        whole = h if batched else h.unsqueeze(1)
        if tuple(whole.shape) != shape:
            what = f"hidden[{index}]" if self.mode == "LSTM" else "hidden"
            raise RuntimeError(f"{self._name_}: Expected {what} size {shape}, got {list(whole.shape)}")
        return whole

    def _layers(self, x: Tensor, state: State, inside: Tensor | None) -> tuple[Tensor, State]:
        """(time, batch, features) through all layers; `inside` (time, batch, 1) says where sequences have not ended."""
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
            outputs = []
            for direction, suffix in enumerate(self._suffixes(layer)):
                start = tuple(s[len(last)] for s in state)
                out, end = self._direction(x, start, self._weights(suffix), bool(direction), inside)
                outputs.append(out)
                last.append(end)
            x = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
        return x, tuple(stack([end[i] for end in last]) for i in range(len(state)))

    def _direction(
        self, x: Tensor, start: State, w: _Weights, reverse: bool, inside: Tensor | None
    ) -> tuple[Tensor, State]:
        product = F.linear(x, w.ih)
        step = _step(self.mode, w)
        if inside is None:
            end, out = F.scan(step, start, product, reverse=reverse)
        else:
            end, out = F.scan(_masked(step), start, (product, inside), reverse=reverse)
        return out, end

    def extra_repr(self) -> str:
        shown = [f"{self.input_size}, {self.hidden_size}"]
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
        usual |= {"bidirectional": False, "one_bias": False, "forget_bias": None}
        shown += [f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v]
        return ", ".join(shown)


def _check_sizes(hidden_size: int, num_layers: int, dropout: float, proj_size: int) -> None:
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed, "
            f"not {dropout!r}"
        )
    if not isinstance(hidden_size, int):
        raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
    if hidden_size <= 0:
        raise ValueError(f"hidden_size must be greater than zero, not {hidden_size}")
    if num_layers <= 0:
        raise ValueError(f"num_layers must be greater than zero, not {num_layers}")
    if proj_size < 0:
        raise ValueError(f"proj_size should be a positive integer or zero to disable projections, not {proj_size}")
    if proj_size >= hidden_size:
        raise ValueError(f"proj_size has to be smaller than hidden_size, but {proj_size} >= {hidden_size}")


class RNN(RNNBase):
    """h_t = tanh(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh), or with relu (Elman 1990).

    Arguments, shapes and errors as RNNBase.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        one_bias: bool = False,
        proj_size: int = 0,
    ) -> None:
        mode = _simple_mode(nonlinearity)
        _refuse_projection(proj_size)
        options = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__(mode, input_size, hidden_size, *options, one_bias=one_bias)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory; gates in the order i, f, g, o. Hochreiter & Schmidhuber 1997; Gers et al. 2000.

    Arguments, shapes and errors as RNNBase; states are pairs (h, c).
    """

    def __init__(self, input_size: int, hidden_size: int, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", input_size, hidden_size, *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent unit; gates in the order r, z, n; z keeps the state. Cho et al. 2014, arXiv:1406.1078.

    Arguments, shapes and errors as RNNBase.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        one_bias: bool = False,
        proj_size: int = 0,
    ) -> None:
        _refuse_projection(proj_size)
        options = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__("GRU", input_size, hidden_size, *options, one_bias=one_bias)


def _simple_mode(nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
    return f"RNN_{nonlinearity.upper()}"


def _refuse_projection(proj_size: int) -> None:
    if proj_size:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


# ---- cells --------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """One step. Weights are uniform in ±1/sqrt(hidden_size) at first."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        for name, shape in zip(_PARAMETERS, ((rows, input_size), (rows, hidden_size), (rows,), (rows,)), strict=False):
            wanted = bias or name.startswith("weight")
            self.register_parameter(name, Parameter(empty(*shape, device=device, dtype=dtype)) if wanted else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values again."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _start(self, input: Tensor, given: tuple[Tensor | None, ...]) -> tuple[Tensor, list[Tensor]]:
        """The input and the states with a batch axis, checked; zeros where no state is given."""
        name = type(self).__name__
        if len(input.shape) not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {len(input.shape)}D instead")
        x = input if len(input.shape) == 2 else input.unsqueeze(0)
        if x.shape[1] != self.input_size:
            raise RuntimeError(
                f"{name}: input has inconsistent input_size: got {x.shape[1]} expected {self.input_size}"
            )
        states = []
        for i, h in enumerate(given):
            if h is None:
                h = zeros(x.shape[0], self.hidden_size, dtype=x.dtype)
            elif len(h.shape) not in (1, 2):
                raise ValueError(f"{name}: Expected hx[{i}] to be 1D or 2D, got {len(h.shape)}D instead")
            h = h if len(h.shape) == 2 else h.unsqueeze(0)
            if tuple(h.shape) != (x.shape[0], self.hidden_size):
                raise RuntimeError(
                    f"{name}: hidden{i} of shape {list(h.shape)} does not fit input of batch size {x.shape[0]} and "
                    f"hidden_size {self.hidden_size}"
                )
            states.append(h)
        return x, states

    def _products(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return F.linear(x, self.weight_ih, self.bias_ih), F.linear(h, self.weight_hh, self.bias_hh)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with relu. Shapes: (batch, size) or (size,)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        x, (h,) = self._start(input, (hx,))
        total = sum(self._products(x, h))
        out = total.tanh() if self.nonlinearity == "tanh" else total.relu()  # type: ignore[union-attr]
        return out if len(input.shape) == 2 else out.squeeze(0)

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")


class LSTMCell(RNNCellBase):
    """(h', c') of one step of an LSTM. Shapes: (batch, size) or (size,)."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        x, (h, c) = self._start(input, (None, None) if hx is None else tuple(hx))
        by_input, by_state = self._products(x, h)
        h, c = _lstm(by_input + by_state, c)
        return (h, c) if len(input.shape) == 2 else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """h' of one step of a GRU. Shapes: (batch, size) or (size,)."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        x, (h,) = self._start(input, (hx,))
        out = _gru(*self._products(x, h), h)
        return out if len(input.shape) == 2 else out.squeeze(0)
