"""Text from a trained model."""

from __future__ import annotations

import tinygrad_lite as tl
from tinygrad_lite.data import CharVocabulary
from tinygrad_lite.models import gpt

LINE_END = "\n"


def write_on(
    model: gpt.GPT,
    vocabulary: CharVocabulary,
    prompt: str = "",
    length: int = 500,
    temperature: float = 0.8,
    top_k: int | None = None,
    seed: int = 1337,
) -> str:
    """`prompt` and `length` characters more; without a prompt, the text as after a line's end.

    UserError where the prompt has a character that the vocabulary has not.
    """
    start = prompt or LINE_END * (LINE_END in vocabulary.characters) or vocabulary.characters[0]
    tl.manual_seed(seed)
    ids = gpt.generate(model, tl.tensor([vocabulary.encode(start).tolist()]), length, temperature, top_k)
    return prompt + vocabulary.decode(ids[0].tolist()[len(start) :])
