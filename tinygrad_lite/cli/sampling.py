"""Text from a trained model, a character at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tinygrad_lite as tl
from tinygrad_lite.data import CharVocabulary
from tinygrad_lite.models.gpt import GPT

LINE_END = "\n"


def generate(
    model: GPT,
    vocabulary: CharVocabulary,
    prompt: str = "",
    length: int = 500,
    temperature: float = 0.8,
    top_k: int | None = None,
    seed: int = 1337,
) -> str:
    """`prompt` and `length` characters more; without a prompt, the text as after a line's end.

    Temperature 0 takes the likeliest character each time. UserError where the prompt has an unknown one.
    """
    block = model.config.block_size
    rng = np.random.default_rng(seed)
    logits_at = next_logits(model)
    ids = vocabulary.encode(prompt or LINE_END * (LINE_END in vocabulary.characters)).tolist() or [0]
    given = len(ids)
    for _ in range(length):
        seen = ids[-block:]
        window = np.zeros((1, block), dtype=np.int64)  # one shape, one program: what lies ahead cannot be seen
        window[0, : len(seen)] = seen
        logits = logits_at(tl.from_numpy(window), tl.tensor(len(seen) - 1))
        ids.append(choose(logits.numpy(), temperature, top_k, rng))
    return prompt + vocabulary.decode(ids[given:])


def next_logits(model: GPT) -> Callable[[tl.Tensor, tl.Tensor], tl.Tensor]:
    """(ids, place) -> logits of the character after `place`."""

    @tl.compile
    def logits_at(window: tl.Tensor, place: tl.Tensor) -> tl.Tensor:
        with tl.no_grad():
            return model(window)[0][0, place]

    return logits_at


def choose(logits: np.ndarray, temperature: float, top_k: int | None, rng: np.random.Generator) -> int:
    """An id drawn from softmax(logits / temperature), from the `top_k` likeliest alone where it is given."""
    if temperature == 0:
        return int(logits.argmax())
    scaled = logits.astype(np.float64) / temperature
    if top_k is not None and top_k < len(scaled):
        scaled[scaled < np.partition(scaled, -top_k)[-top_k]] = -np.inf
    weights = np.exp(scaled - scaled.max())
    return int(rng.choice(len(weights), p=weights / weights.sum()))
