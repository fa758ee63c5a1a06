"""The graph of a model's forward pass or training step, at each stage of the compiler."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import tinygrad_lite as tl
from tinygrad_lite import capture, models, viz
from tinygrad_lite.cli.options import TrainOptions
from tinygrad_lite.cli.training import make_optimizer, training_step
from tinygrad_lite.errors import UserError
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.schedule.schedule import schedule


def graph_of(name: str, stage: str, train: bool, batch: int) -> Graph:
    """The graph of a model that `models.MODELS` names: traced, optimised, or scheduled. Nothing is run."""
    try:
        model = models.build(name)
    except ValueError as error:
        raise UserError(str(error)) from error
    ids = tl.zeros((batch, model.config.block_size), dtype=tl.int64)
    if train:
        options = TrainOptions()
        step = training_step(model, make_optimizer(model, options), options.clip)
        graph = capture.trace(step, ids, ids, train=True)
    else:
        graph = capture.trace(model, ids)
    if stage != "traced":
        graph = pipeline.run(graph)
    return schedule(graph).graph if stage == "scheduled" else graph


def write(graph: Graph, extension: str, output: Path | None) -> None:
    """`graph` in the form of an extension of `viz.draw`, to a file or to standard output."""
    with tempfile.TemporaryDirectory() as folder:
        made = viz.draw(graph, Path(folder) / f"graph{extension}").read_bytes()
    if output is None:
        sys.stdout.write(made.decode())
        return
    try:
        output.write_bytes(made)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}") from error
