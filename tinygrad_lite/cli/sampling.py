"""Text from a trained model, a character at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tinygrad_lite as tl
from tinygrad_lite.data import CharVocabulary
from tinygrad_lite.models.gpt import GPT

LINE_END = "\n"


def write_on(
    model: GPT,
    vocabulary: CharVocabulary,
    prompt: str = "",
    length: int = 500,
    temperature: float = 0.8,
    top_k: int | None = None,
    seed: int = 1337,
) -> str:
    """`prompt` and `length` characters more; without a prompt, the text as after a line's end.

    Temperature 0 takes the likeliest character each time. UserError where the prompt has a character that the
    vocabulary has not. As `models.gpt.generate`, but through one program of one shape.
    """
    start = prompt or LINE_END * (LINE_END in vocabulary.characters) or vocabulary.characters[0]
    ids = vocabulary.encode(start).tolist()
    rng = np.random.default_rng(seed)
    logits = next_logits(model)
    for _ in range(length):
        ids.append(choose(logits(ids), temperature, top_k, rng))
    return prompt + vocabulary.decode(ids[len(ids) - length :])


def next_logits(model: GPT) -> Callable[[list[int]], np.ndarray]:
    """ids -> logits of what follows the last of them."""
    block = model.config.block_size
    window = np.zeros((1, block), dtype=np.int64)  # causal: what lies behind the last id is not seen

    @tl.compile
    def forward(ids: tl.Tensor) -> tl.Tensor:
        return model(ids)[0][0]

    def logits(ids: list[int]) -> np.ndarray:
        seen = ids[-block:]
        window[0, : len(seen)] = seen
        with tl.no_grad():
            return forward(tl.from_numpy(window)).numpy()[len(seen) - 1]

    return logits


def choose(logits: np.ndarray, temperature: float, top_k: int | None, rng: np.random.Generator) -> int:
    """An id drawn from softmax(logits / temperature), of the `top_k` likeliest alone where it is given."""
    if temperature == 0:
        return int(logits.argmax())
    scaled = logits.astype(np.float64) / temperature
    if top_k is not None and top_k < len(scaled):
        scaled[np.argsort(-scaled, kind="stable")[top_k:]] = -np.inf
    weights = np.exp(scaled - scaled.max())
    return int(rng.choice(len(weights), p=weights / weights.sum()))
