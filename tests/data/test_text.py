"""Vocabulary and batches of tinygrad_lite.data.text."""

import numpy as np
import pytest

from tinygrad_lite.data import CharVocabulary, TextDataset, python_reference, read_text
from tinygrad_lite.errors import UserError


def test_round_trip_keeps_every_character():
    text = "aé\n漢😀 z" * 3
    vocabulary = CharVocabulary.of(text)
    assert len(vocabulary) == len(set(text))
    assert vocabulary.characters == "".join(sorted(set(text)))
    assert vocabulary.decode(vocabulary.encode(text)) == text
    assert vocabulary.encode("").shape == (0,)


@pytest.mark.parametrize(("text", "named"), [("ab?c", "'\\?' at 2"), ("z", "'z' at 0"), ("\ud800", "ud800")])
def test_encode_names_the_unknown_character(text, named):
    with pytest.raises(UserError, match=named):
        CharVocabulary("abc").encode(text)


@pytest.mark.parametrize("characters", ["", "ba", "aa"])
def test_vocabulary_is_sorted_and_distinct(characters):
    with pytest.raises(UserError):
        CharVocabulary(characters)


@pytest.mark.parametrize("ids", [[3], [-1]])
def test_decode_refuses_ids_out_of_range(ids):
    with pytest.raises(IndexError, match="3"):
        CharVocabulary("abc").decode(ids)


def test_batch_is_a_function_of_seed_and_step():
    data = TextDataset(np.arange(1000), block=8)
    x, y = data.batch(5, seed=3, step=7)
    assert x.shape == y.shape == (5, 8)
    assert x.dtype == np.int64
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(x, data.batch(5, seed=3, step=7)[0])
    assert (x != data.batch(5, seed=3, step=8)[0]).any()
    assert (x != data.batch(5, seed=4, step=7)[0]).any()


def test_batch_reaches_both_ends():
    data = TextDataset(np.arange(6), block=4)
    x, y = data.batch(64, seed=0, step=0)
    assert set(x[:, 0]) == {0, 1}
    assert y.max() == 5


def test_batches_cover_the_text_side_by_side():
    data = TextDataset(np.arange(41), block=4)
    inputs = [x for x, _ in data.batches(3)]
    assert len(data) == 10
    np.testing.assert_array_equal(np.concatenate(inputs).ravel(), np.arange(36))
    np.testing.assert_array_equal([x[0, 0] for x, _ in data.batches(3, limit=2)], [0, 12])
    assert [x.shape for x, _ in data.batches(64)] == [(10, 4)]


def test_a_text_shorter_than_one_block_is_refused():
    assert len(TextDataset(np.arange(5), block=4)) == 1
    with pytest.raises(UserError, match=r"4 characters.*block of 4"):
        TextDataset(np.arange(4), block=4, name="validation text")


def test_python_reference_is_english():
    text = python_reference()
    assert len(text) > 400_000
    assert "statement" in text


def test_read_text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("naïve", encoding="utf-8")
    assert read_text(path) == "naïve"


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "is empty"), (b"abc\xff", "not UTF-8 text: byte 0xff at 3"), (None, "cannot read")]
)
def test_read_text_refuses_in_one_line(tmp_path, content, message):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message) as info:
        read_text(path)
    assert str(path) in str(info.value)
    assert "\n" not in str(info.value)


def test_read_text_refuses_a_folder(tmp_path):
    with pytest.raises(UserError, match=r"cannot read.*directory"):
        read_text(tmp_path)
