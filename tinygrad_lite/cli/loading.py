"""From a checkpoint's tree back to live objects, each difference an error of one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tinygrad_lite as tl
from tinygrad_lite.data import CharVocabulary
from tinygrad_lite.errors import UserError
from tinygrad_lite.models.gpt import GPT, GPTConfig
from tinygrad_lite.utils import checkpoint
from tinygrad_lite.utils.checkpoint import CheckpointError

CHECKPOINT = "checkpoint.safetensors"  # its name in the folder of a run


def build_model(config: dict[str, Any]) -> GPT:
    """The GPT of these fields of GPTConfig; UserError where the model refuses them."""
    try:
        return GPT(GPTConfig(**config))
    except ValueError as error:
        raise UserError(str(error)) from error


def load_gpt(path: Path) -> dict[str, Any]:
    """The tree of a GPT's checkpoint."""
    tree = tl.load(path)
    if tree.get("architecture") != "gpt":
        raise CheckpointError(f"{path} holds another architecture: {tree.get('architecture')}, expected gpt")
    return tree


def load_model(path: Path) -> tuple[GPT, CharVocabulary]:
    """The trained model of a checkpoint, ready for inference, and its vocabulary."""
    tree = load_gpt(path)
    with guarded(path):
        model = build_model(tree["config"])
        checkpoint.check_arrays(model.state_dict(), tree["model"], path)
        model.load_state_dict(tree["model"])
        vocabulary = CharVocabulary(tree["characters"])
        if len(vocabulary) != tree["config"]["vocab_size"]:
            raise CheckpointError(f"{path} is damaged: its vocabulary has {len(vocabulary)} characters")
    return model.eval(), vocabulary


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Whatever does not fit inside the tree of the checkpoint at `path` becomes a CheckpointError."""
    try:
        yield
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise CheckpointError(f"{path} is damaged: {type(error).__name__} {error}".splitlines()[0]) from error
