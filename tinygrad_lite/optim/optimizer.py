"""Optimizer: parameter groups, per-parameter state, and steps that run eagerly or inside a capture alike.

A step is written in tensor expressions. Two things keep it capturable:

* hyper-parameters that may change between steps are read by `_hyper`: a float in eager mode, in a capture a 0-d tensor
  re-read at each call of the compiled function. Those that select code are read by `_static`: a new value means a new
  capture.
* state is created with capturing suspended, and the step count is a tensor.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from tinygrad_lite.autograd import enable_grad, no_grad
from tinygrad_lite.ir.record import mode
from tinygrad_lite.tensor import Tensor, as_tensor, float32, full, tensor

Group = dict[str, Any]


class State(dict[Any, dict[str, Any]]):
    """Parameter → its state by name; a parameter asked for the first time gets an empty one."""

    def __missing__(self, param: Any) -> dict[str, Any]:
        self[param] = {}
        return self[param]


class Optimizer:
    """Base class, after `torch.optim.Optimizer`.

    Attributes:
        param_groups: dicts of "params" and hyper-parameters; missing ones come from `defaults`.
        state: parameter → {name: tensor}. Parameters that always step together share one "step" tensor.
    """

    # State that is a number and stays one in float32, whatever the parameter's dtype.
    _numbers: ClassVar[tuple[str, ...]] = ("step",)

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError("params must be an iterable of tensors or of groups, not a single tensor")
        self.defaults = defaults
        self.state = State()
        self.param_groups: list[Group] = []
        self._before: dict[int, Tensor] | None = None  # see _remembering
        self._structure = 0  # grows when groups or state tensors are exchanged: what a capture made before is then void
        groups = list(params)
        if not groups:
            raise ValueError("the optimizer got no parameters")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Add {"params": tensors, …hyper-parameters}.

        Raises:
            TypeError: something that is not a tensor.
            ValueError: a tensor that is not a leaf or already in a group, or a bad hyper-parameter.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"a parameter group is a dict, not {type(param_group).__name__}")
        given = param_group["params"]
        params = [given] if isinstance(given, Tensor) else [p[1] if isinstance(p, tuple) else p for p in given]
        taken = {id(p) for group in self.param_groups for p in group["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"an optimizer works on tensors, not {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("an optimizer works on leaf tensors; this one is the result of a computation")
            if id(p) in taken:
                raise ValueError("a parameter appears twice among the parameter groups")
            taken.add(id(p))
        group = {"params": params, **{k: v for k, v in param_group.items() if k != "params"}}
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        self._validate(group)
        self.param_groups.append(group)
        self._structure += 1

    def _validate(self, group: Group) -> None:
        """Raise ValueError for a hyper-parameter out of range."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop every gradient, or fill it with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none or p.grad is None:
                    p.grad = None
                else:
                    p.grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: computes and returns the loss first.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad(), mode.set(phase="optimiser"):
            for index, group in enumerate(self.param_groups):
                params = [p for p in group["params"] if p.grad is not None]
                if params:
                    self._step_group(index, group, params)
            if mode.trace is not None:
                mode.trace.static_value(self._label("structure"), lambda: self._structure)
        return loss

    def _step_group(self, index: int, group: Group, params: list[Tensor]) -> None:
        raise NotImplementedError

    # Hyper-parameters

    def _label(self, name: str) -> str:
        """What a capture calls one of this optimiser's values; the next of the class in one capture gets a number."""
        kind, count = type(self).__name__, 0
        while mode.trace.static_value(kind if not count else f"{kind}{count}", lambda: id(self)) != id(self):
            count += 1  # the label answers with the value it was first given: another optimiser's
        return f"{kind if not count else f'{kind}{count}'}.{name}"

    def _hyper(self, index: int, name: str, read: Callable[[], float] | None = None) -> Any:
        """A number that may change between steps: a float, or in a capture a 0-d tensor that is re-read at each call.

        `read` may compute it from several hyper-parameters, in double precision; the default is the one called `name`.
        """
        if read is None:
            group = self.param_groups[index]

            def read() -> float:
                return float(group[name])

        return read() if mode.trace is None else mode.trace.runtime_scalar(self._label(f"{index}.{name}"), read)

    def _static(self, index: int, name: str, read: Callable[[], Hashable]) -> Any:
        """A value that selects code; a compiled function that read it is captured anew when it has changed."""
        return read() if mode.trace is None else mode.trace.static_value(self._label(f"{index}.{name}"), read)

    # Gradients

    def _regularisers(self, index: int, group: Group) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        """What `maximize` and `weight_decay` make of a parameter: its gradient to descend along, and where to start.

        The decay is added to the gradient, or with `decoupled_weight_decay` shrinks the parameter.
        """

        def uses() -> tuple[bool, bool, bool]:
            return group["weight_decay"] != 0, group.get("decoupled_weight_decay", False), group["maximize"]

        decays, decoupled, maximize = self._static(index, "uses", uses)
        added = self._hyper(index, "weight_decay") if decays and not decoupled else None
        kept = self._hyper(index, "1 - lr * weight_decay", lambda: _kept(group)) if decays and decoupled else None

        def gradient(p: Tensor) -> Tensor:
            grad = -p.grad if maximize else p.grad
            return grad if added is None else grad + added * p

        return gradient, lambda p: p if kept is None else kept * p

    # State

    def _buffer(self, param: Tensor, name: str, start: float = 0.0) -> Tensor:
        """A state tensor of the parameter's shape, `start` everywhere at first; a number where `_numbers` has it."""
        state = self.state[param]
        if state.get(name) is None:
            with mode.eager():
                if name in self._numbers:
                    state[name] = tensor(start, dtype=float32)
                else:
                    state[name] = full(param.shape, start, dtype=param.dtype)
            self._remember(state[name])
        if mode.trace is not None:
            mode.trace.name(state[name], param, name)
        return state[name]

    def _remember(self, made: Tensor) -> None:
        if self._before is not None:
            self._before[id(made)] = made.detach().clone()

    @contextmanager
    def _remembering(self) -> Iterator[dict[int, Tensor]]:
        """id → value before the steps taken in this context, of every tensor that they may change."""
        params = [p for p in self._all_params() if p.grad is not None]
        state = [v for p in params for v in self.state.get(p, {}).values() if isinstance(v, Tensor)]
        self._before = {id(t): t.detach().clone() for t in [*params, *state]}
        try:
            yield self._before
        finally:
            self._before = None

    def _count_steps(self, params: list[Tensor]) -> list[tuple[Tensor, list[Tensor]]]:
        """Advance the step counts; pairs of a count and the parameters that have it."""
        states = [self.state[p] for p in params]
        fresh = [state for state in states if "step" not in state]
        if fresh:
            self._start_counts(fresh, 0.0)
        self._split_counts(states)
        sharing: dict[int, tuple[Tensor, list[Tensor]]] = {}
        for p, state in zip(params, states, strict=True):
            sharing.setdefault(id(state["step"]), (state["step"], []))[1].append(p)
        for count, users in sharing.values():
            if mode.trace is not None:
                mode.trace.name(count, users[0], "step")
            count.copy_(count + 1)
        return list(sharing.values())

    def _start_counts(self, states: list[dict[str, Any]], value: float) -> None:
        with mode.eager():
            count = tensor(value, dtype=float32)
        self._remember(count)
        for state in states:
            state["step"] = count

    def _split_counts(self, stepping: list[dict[str, Any]]) -> None:
        """Give parameters that step without the others sharing their count a count of their own."""
        active = {id(state) for state in stepping}
        resting = {id(state["step"]) for state in self.state.values() if "step" in state and id(state) not in active}
        copies: dict[int, Tensor] = {}
        for state in stepping:
            shared = id(state["step"])
            if shared in resting:
                if shared not in copies:
                    with mode.eager():
                        copies[shared] = state["step"].detach().clone()
                    self._remember(copies[shared])
                    self._structure += 1
                state["step"] = copies[shared]

    def _share_counts(self) -> None:
        """Let equal step counts within a group be one tensor, so that their bias corrections are computed once."""
        for group in self.param_groups:
            known: dict[float, Tensor] = {}
            for p in group["params"]:
                state = self.state.get(p, {})
                if "step" in state:
                    state["step"] = known.setdefault(float(state["step"].item()), state["step"])

    # Saving

    def state_dict(self) -> dict[str, Any]:
        """{"state": {index: state}, "param_groups": […]}, parameters numbered across groups; shares the tensors."""
        number = {id(p): i for i, p in enumerate(self._all_params())}
        groups = [
            {**{k: v for k, v in group.items() if k != "params"}, "params": [number[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {number[id(p)]: dict(s) for p, s in self.state.items() if id(p) in number}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take hyper-parameters and copies of the state; parameters correspond by their order.

        Raises:
            ValueError: the numbers or sizes of the groups differ.
        """
        given = state_dict["param_groups"]
        sizes, own_sizes = [len(g["params"]) for g in given], [len(g["params"]) for g in self.param_groups]
        if sizes != own_sizes:
            raise ValueError(f"the state dict has parameter groups of {sizes} parameters, the optimizer of {own_sizes}")
        numbers = itertools.chain.from_iterable(g["params"] for g in given)
        param_of = dict(zip(numbers, self._all_params(), strict=True))
        self.state = State()
        for number, state in state_dict["state"].items():
            if number in param_of:
                param = param_of[number]
                self.state[param] = {
                    name: tensor(float(value), dtype=float32) if name in self._numbers else _loaded(value, param)
                    for name, value in state.items()
                }
        for group, new in zip(self.param_groups, given, strict=True):
            group.update({k: copy.deepcopy(v) for k, v in new.items() if k != "params"})
        self._share_counts()
        self._structure += 1

    def _all_params(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _kept(group: Group) -> float:
    return 1 - float(group["lr"]) * float(group["weight_decay"])


def _loaded(value: Any, param: Tensor) -> Any:
    """A copy of one state entry in the parameter's dtype."""
    if value is None or not hasattr(value, "shape"):
        return copy.deepcopy(value)
    found = value if isinstance(value, Tensor) else as_tensor(value)
    return found.detach().to(param.dtype).clone()


def check_range(name: str, value: float, low: float = 0.0, high: float = math.inf) -> None:
    """Raise ValueError unless low <= value < high; NaN never passes."""
    if not low <= value < high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}), not {value}")


def check_flags(foreach: bool | None, fused: bool | None = None, differentiable: bool = False) -> None:
    """Validate the choice of torch's implementations, which changes nothing here.

    Raises:
        RuntimeError: foreach and fused at once; differentiable, which is not supported.
    """
    if differentiable:
        raise RuntimeError("differentiable optimizers are not supported")
    for name, flag in (("foreach", foreach), ("fused", fused)):
        if flag is not None and not isinstance(flag, bool):
            raise TypeError(f"{name} must be True, False or None, not {flag!r}")
    if foreach and fused:
        raise RuntimeError("foreach and fused exclude each other")
