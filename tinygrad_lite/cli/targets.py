"""What the looking commands are given: a preset, `module:callable`, or the file of a saved graph."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tinygrad_lite as tl
from tinygrad_lite import models, viz
from tinygrad_lite.cli.options import TrainOptions
from tinygrad_lite.errors import UserError
from tinygrad_lite.explain import Explanation
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.present import Presentable
from tinygrad_lite.models.examples import example
from tinygrad_lite.nn import Module
from tinygrad_lite.optim import AdamW
from tinygrad_lite.profiling import Profile
from tinygrad_lite.program import Program
from tinygrad_lite.stages import Planned, stage_of

FILES = (".txt", ".json")


@dataclass
class Target:
    """Something to look at: a saved `graph`, or a function or Module `fn` with example `inputs`."""

    name: str
    graph: Graph | None = None
    fn: Any = None
    inputs: tuple[Any, ...] = ()
    train: bool = False

    def traced(self) -> Graph:
        """The graph as it was saved, or as the function is traced."""
        if self.graph is None:
            with _blaming(self.name):
                self.graph = tl.trace(self.fn, *self.inputs, train=self.train)
        return self.graph

    def stage(self, stage: str) -> Presentable:
        """A stage of the compiler; no kernel is compiled."""
        graph = self.traced()
        if stage == "traced":
            return graph
        optimised = pipeline.run(graph)
        return stage_of(stage, graph, optimised, Planned(optimised) if stage != "optimised" else None)

    def run(self) -> Run:
        """The program, ready to run on the example inputs."""
        if self.fn is None:
            return Run(self.traced())
        with _blaming(self.name):
            compiled = tl.compile(self.fn)
            with tl.set_grad_enabled(self.train):
                compiled(*self.inputs)
        return compiled

    @property
    def module(self) -> Module:
        """The Module that the target is; UserError where it is none."""
        if not isinstance(self.fn, Module):
            raise UserError(f"{self.name} is no model: a summary is of a Module with example inputs")
        return self.fn


class Run:
    """A saved graph as a program on zeros: what `profile` and `explain` ask of a compiled function."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.seconds = graph, 0.0
        self.log = pipeline.PassLog()
        self.optimised = pipeline.run(graph, observers=[self.log])
        self.program = Program(self.optimised)

    def _bind_states(self) -> None:
        for i, state in enumerate(self.program.schedule.graph.states):
            self.program.bind_state(i, np.zeros(state.shape, state.dtype.numpy))

    def _latest(self) -> Run:
        return self

    def profile(self, runs: int) -> Profile:
        for buffer in self.program.inputs:
            buffer[...] = 0
        return Profile(self, runs)  # type: ignore[arg-type]

    def explain(self) -> Explanation:
        return Explanation(self, 1, [])  # type: ignore[arg-type]


def target(text: str, train: bool = False, batch: int = 1) -> Target:
    """The target that `text` names. UserError with what there is, where it names nothing."""
    if text in models.MODELS:
        return _preset(text, train, batch)
    if Path(text).suffix.lower() in FILES or Path(text).is_file():
        return Target(Path(text).stem, viz.load(text))
    if ":" in text:
        return _imported(text, train)
    known = ", ".join(sorted(models.MODELS))
    raise UserError(f"no model is called {text!r}; there are {known}; or give module:callable, or a .txt or .json file")


def _preset(name: str, train: bool, batch: int) -> Target:
    with tl.nn.init.skip_random():
        model = models.build(name)
    shown = example(model, batch)
    if not train:
        return Target(name, fn=model.eval(), inputs=shown.inputs)
    options = TrainOptions()
    optimizer = AdamW(model.parameters(), lr=options.lr, weight_decay=options.weight_decay)

    def step(*batch: Any) -> Any:
        loss = shown.loss(model, *batch)
        loss.backward()
        tl.nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return Target(name, fn=step, inputs=shown.batch, train=True)


def _imported(text: str, train: bool) -> Target:
    """`module:name`: a Graph, a Module or function with inputs, or a function without parameters that makes one."""
    module_name, _, path = text.partition(":")
    with _blaming(text):
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            found: Any = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            raise UserError(f"there is no module {error.name!r}") from error
        for part in path.split("."):
            if not hasattr(found, part):
                raise UserError(f"{module_name} has no {path!r}")
            found = getattr(found, part)
        return _made(text, found, train)


def _made(text: str, found: Any, train: bool) -> Target:
    if not isinstance(found, (Graph, Module, tuple)) and callable(found):
        found = _called(text, found)
    if isinstance(found, Graph):
        return Target(text, found)
    parts = found if isinstance(found, tuple) else (found,)
    if not parts or not callable(parts[0]):
        raise UserError(
            f"{text} gives a {type(found).__name__}; it must be, or return, a Graph, a Module, or (function, inputs…)"
        )
    if isinstance(parts[0], Module) and len(parts) == 1:
        parts = (*parts, *_known_inputs(text, parts[0]))
    return Target(text, fn=parts[0], inputs=tuple(parts[1:]), train=train)


def _called(text: str, found: Any) -> Any:
    try:
        inspect.signature(found).bind()
    except TypeError as error:
        raise UserError(
            f"{text} takes arguments ({error}): name something without, that is or returns (function, *example_inputs)"
        ) from None
    except ValueError:  # a built-in without a signature
        pass
    return found()


def _known_inputs(text: str, model: Module) -> tuple[Any, ...]:
    try:
        return example(model).inputs
    except TypeError:
        raise UserError(f"{text} gives a model without inputs: let it return (model, *example_inputs)") from None


class _blaming:
    """Errors of the user's code become one line: what was raised, and where in files that are not the package's."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, UserError) or not isinstance(error, Exception):
            return
        own = os.path.dirname(tl.__file__)
        frames = [f for f in traceback.extract_tb(trace) if not f.filename.startswith((own, "<frozen"))]
        places = " > ".join(f"{os.path.basename(f.filename)}:{f.lineno} {f.name}" for f in frames[-3:])
        said = str(error).splitlines()[0] if str(error) else ""
        raise UserError(
            f"{self.text} raised {type(error).__name__}: {said}" + (f" (at {places})" if places else "")
        ) from error


def make(action: Callable[[], Any], text: str) -> Any:
    """The value of `action`, errors blamed on the target called `text`."""
    with _blaming(text):
        return action()
