"""Data sets that need nothing but NumPy."""

from tinygrad_lite.data.text import CharVocabulary, TextDataset, python_reference, read_text

__all__ = ["CharVocabulary", "TextDataset", "python_reference", "read_text"]
