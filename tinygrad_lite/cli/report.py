"""A training run as the user sees it: a bar, then a sample, drawings, and where everything is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

import tinygrad_lite as tl
from tinygrad_lite import capture, viz
from tinygrad_lite.cli.artifacts import draw_losses
from tinygrad_lite.cli.display import Display
from tinygrad_lite.cli.sampling import write_on
from tinygrad_lite.cli.training import Trainer

SAMPLE = 500  # characters


def train(trainer: Trainer) -> dict[str, Any]:
    """Run to the end and report; returns the figures that --json prints. Stopped passes through."""
    display = Display(trainer.options.steps, trainer.step)
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    size = f"{parameters:,} parameters, {len(trainer.vocabulary)} characters"
    display.console.print(f"GPT of {size}, on {trainer.source}", soft_wrap=True)
    with display:
        trainer.run(display)
        text = write_on(trainer.model.eval(), trainer.vocabulary, length=SAMPLE, seed=trainer.options.seed)
        files = write_files(trainer, text)
    print(text)
    step, loss = trainer.validations[-1]
    display.console.print(f"validation loss {loss:.4f} nats a character after {step} steps, {display.seconds:.0f} s")
    display.console.print("wrote", *map(str, files), soft_wrap=True)
    return {
        "step": step,
        "train_loss": trainer.losses[-1],
        "validation_loss": loss,
        "seconds": round(display.seconds, 2),
        "tokens_per_second": round(display.tokens_per_second),
        "parameters": parameters,
        "files": [str(file) for file in files],
    }


def write_files(trainer: Trainer, text: str) -> list[Path]:
    """The sample, the loss curve, the captured step as text and the model's graph, beside the checkpoint."""
    folder = trainer.path.parent
    (folder / "sample.txt").write_text(text, encoding="utf-8")
    curves = [folder / "loss.png", folder / "loss.svg"]
    draw_losses(trainer.losses, trainer.validations, curves)
    step = viz.draw(trainer.train_step.graph("optimised"), folder / "step.txt")
    return [trainer.path, folder / "sample.txt", *curves, step, draw_model(trainer)]


def draw_model(trainer: Trainer) -> Path:
    """The model's graph as graph.svg, or as graph.dot where nothing can draw."""
    ids, _ = trainer.data.batch(trainer.options.batch, trainer.options.seed, 0)
    try:
        return viz.draw(capture.trace(trainer.model, tl.from_numpy(ids)), trainer.path.with_name("graph.svg"))
    except viz.NoRenderer as error:
        Console(stderr=True).print(error, soft_wrap=True)
        return error.kept
