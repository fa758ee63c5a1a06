"""`tinygrad-lite train`: a character GPT from a text, one compiled program a step."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.cli.display import Display
from tinygrad_lite.cli.loading import CHECKPOINT, build_model, guarded, load_gpt
from tinygrad_lite.cli.options import SHAPE, TrainOptions
from tinygrad_lite.cli.stopped import Stopped
from tinygrad_lite.data import CharVocabulary, TextDataset, python_reference, read_text
from tinygrad_lite.errors import UserError
from tinygrad_lite.models.gpt import param_groups
from tinygrad_lite.optim import AdamW
from tinygrad_lite.utils import checkpoint
from tinygrad_lite.utils.checkpoint import CheckpointError

PREVIOUS = "previous.safetensors"  # what an earlier run left under the same name
BETAS = (0.9, 0.99)


class Trainer:
    """A run: its data, model and optimiser, and the step it has come to."""

    def __init__(self, options: TrainOptions, out: Path) -> None:
        options.check()
        text = python_reference() if options.text is None else read_text(options.text)
        self.options, self.path, self.step = options, out / CHECKPOINT, 0
        self.source = options.text or "Python's own reference text"
        self.digest = hashlib.sha256(text.encode()).hexdigest()
        self.vocabulary = CharVocabulary.of(text)
        ids = self.vocabulary.encode(text)
        cut = len(ids) * 9 // 10
        self.data = TextDataset(ids[:cut], options.block, "training part of the text")
        self.held_out = TextDataset(ids[cut:], options.block, "validation part of the text")
        tl.manual_seed(options.seed)
        self.model = build_model(options.model_config(len(self.vocabulary)))
        self.optimizer = make_optimizer(self.model, options)
        self.train_step = self.compile_step()
        self.loss = tl.compile(loss_of(self.model))
        self.losses: list[float] = []  # of every step so far
        self.validations: list[tuple[int, float]] = []
        self.saved = False  # is the file at `path` of this run

    def compile_step(self) -> Callable[[tl.Tensor, tl.Tensor], tl.Tensor]:
        """(ids, targets) -> loss, the parameters and the optimiser's state updated."""
        return tl.compile(training_step(self.model, self.optimizer, self.options.clip))

    def run(self, display: Display) -> None:
        """Train to the last step, saving at each validation. Stopped on a signal, and on a loss that is not finite."""
        options = self.options
        with interrupts() as caught:
            while self.step < options.steps:
                self._advance(display)
                last = self.step == options.steps
                if last or self.step % options.eval_every == 0:
                    self._validate(display, None if last else options.eval_batches)
                if last or self.step % options.eval_every == 0 or caught:
                    self.save()
                if caught and not last:
                    raise Stopped(f"stopped at step {self.step}; --resume continues from {self.path}", 128 + caught[0])

    def _advance(self, display: Display) -> None:
        rate = self.options.learning_rate(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        x, y = self.data.batch(self.options.batch, self.options.seed, self.step)
        loss = self.train_step(tl.from_numpy(x), tl.from_numpy(y)).item()
        self.step += 1
        if not math.isfinite(loss):
            raise self._diverged(f"the loss is {loss}")
        self.losses.append(loss)
        display.step(self.step, loss, x.size)

    def _validate(self, display: Display, batches: int | None) -> None:
        loss = self.validation_loss(batches)
        if not math.isfinite(loss):
            raise self._diverged(f"the validation loss is {loss}")
        self.validations.append((self.step, loss))
        display.validation(self.step, self.losses[-1], loss)

    def validation_loss(self, batches: int | None = None) -> float:
        """Mean loss in nats a character over the held-out text, or over `batches` batches of it."""
        self.model.eval()
        try:
            pairs = self.held_out.batches(self.options.batch, batches)
            losses = [self.loss(tl.from_numpy(x), tl.from_numpy(y)).item() for x, y in pairs]
        finally:
            self.model.train()
        return sum(losses) / len(losses)

    def _diverged(self, what: str) -> Stopped:
        kept = f"the last good checkpoint is {self.path}" if self.saved else "this run has no checkpoint yet"
        return Stopped(f"{what} at step {self.step}: training stops; {kept}", 1)

    def save(self) -> None:
        """Write the checkpoint; one that an earlier run left in its place is kept beside it."""
        state = self.state()
        if not all(np.isfinite(checkpoint.to_array(value)).all() for value in state["model"].values()):
            raise self._diverged("a parameter is not finite")
        if not self.saved and self.path.exists():
            self.path.replace(self.path.with_name(PREVIOUS))
        checkpoint.save(self.path, state)
        self.saved = True

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on, as `checkpoint.save` takes it."""
        return {
            "architecture": "gpt",
            "config": self.options.model_config(len(self.vocabulary)),
            "characters": self.vocabulary.characters,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "rng": tl.get_rng_state(),
            "options": dataclasses.asdict(self.options),
            "text_sha256": self.digest,
            "losses": np.array(self.losses),
            "validations": self.validations,
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Become what `state` described."""
        checkpoint.check_arrays(self.model.state_dict(), tree["model"], self.path)
        self.model.load_state_dict(tree["model"])
        self.optimizer.load_state_dict(tree["optimizer"])
        tl.set_rng_state(tree["rng"])
        self.step, self.losses, self.validations = tree["step"], tree["losses"].tolist(), tree["validations"]
        self.saved = True


def open_run(out: Path, options: TrainOptions, given: frozenset[str] | None = None) -> Trainer:
    """A new run in the folder `out`; with `given`, the one there continued, the options of those names changed."""
    if given is None:
        trainer = Trainer(options, out)
    else:
        trainer = _resume(out / CHECKPOINT, {name: getattr(options, name) for name in given})
    try:  # now, not after the first hundred steps
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise UserError(f"cannot write to the folder {out}: {error.strerror}") from error
    return trainer


def _resume(path: Path, changes: dict[str, Any]) -> Trainer:
    tree = load_gpt(path)
    with guarded(path):
        saved = TrainOptions(**tree["options"])
        if tree["config"] != saved.model_config(len(tree["characters"])):
            raise CheckpointError(f"{path} is damaged: its config and its options disagree")
        for name in SHAPE:
            if changes.get(name, (old := getattr(saved, name))) != old:
                raise CheckpointError(f"--{name} {changes[name]}: {path} holds another architecture, {name} {old}")
        options = dataclasses.replace(saved, **changes)
        if tree["step"] >= options.steps:
            raise UserError(f"the run of {path} is complete at step {tree['step']}; a greater --steps goes on")
        trainer = Trainer(options, path.parent)
        if tree["text_sha256"] != trainer.digest:
            raise CheckpointError(f"{path} was trained on another text")
        trainer.restore(tree)
    return trainer


def make_optimizer(model: nn.Module, options: TrainOptions) -> AdamW:
    """AdamW that decays matrices only."""
    return AdamW(param_groups(model, options.weight_decay), lr=options.lr, betas=BETAS)


def training_step(model: nn.Module, optimizer: AdamW, clip: float) -> Callable[[tl.Tensor, tl.Tensor], tl.Tensor]:
    """(ids, targets) -> loss: a whole step, to be captured as one program."""

    def step(x: tl.Tensor, y: tl.Tensor) -> tl.Tensor:
        _, loss = model(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()  # last: the gradients are dead between steps, and their memory is free to others
        return loss

    return step


def loss_of(model: nn.Module) -> Callable[[tl.Tensor, tl.Tensor], tl.Tensor]:
    """(ids, targets) -> loss, without gradients."""

    def loss(x: tl.Tensor, y: tl.Tensor) -> tl.Tensor:
        with tl.no_grad():
            return model(x, y)[1]

    return loss


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """The signals caught so far of SIGINT and SIGTERM: the first is only noted, the second raises KeyboardInterrupt."""
    caught: list[int] = []

    def note(number: int, _: object) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread alone
        yield caught
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
