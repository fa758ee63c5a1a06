"""x[...] and x[...] = v against NumPy, gradients by construction, and bad indices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_lite as tl

SHAPE = (3, 4, 5)


def slices(size):
    bound = st.none() | st.integers(-size - 2, size + 2)
    return st.builds(slice, bound, bound, st.none() | st.integers(1, 3))


def basic_items(size):
    return st.integers(-size, size - 1) | slices(size)


@st.composite
def basic_indices(draw):
    """Integers, slices, None and one Ellipsis."""
    count = draw(st.integers(0, 3))
    front = draw(st.integers(0, count))
    items = [draw(basic_items(SHAPE[a])) for a in range(front)] + [Ellipsis]
    items += [draw(basic_items(SHAPE[a])) for a in range(3 - count + front, 3)]
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    return tuple(items)


@st.composite
def advanced_indices(draw):
    """Integer arrays that broadcast together, in neighbouring or separate places, among slices. (NumPy and PyTorch part
    where integers stand beside them.)"""
    common = draw(st.sampled_from([(2,), (2, 3), (1,), (0,)]))
    axes = draw(st.sets(st.integers(0, 2), min_size=1))
    items = []
    for axis, size in enumerate(SHAPE):
        if axis in axes:
            shape = draw(st.sampled_from([common, common[-1:], (1,)]))
            count = int(np.prod(shape))
            found = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
            items.append(np.array(found, np.int64).reshape(shape))
        else:
            items.append(draw(slices(size)))
    return tuple(items)


def ours(index):
    return tuple(tl.tensor(i) if isinstance(i, np.ndarray) else i for i in index)


def numbered(dtype=np.float64):
    return np.arange(60, dtype=dtype).reshape(SHAPE)


@settings(deadline=None, max_examples=150)
@given(basic_indices() | advanced_indices())
def test_reading_agrees_with_numpy(index):
    array = numbered()
    x = tl.tensor(array, requires_grad=True)
    out = x[ours(index)]
    expected = array[index]
    assert out.shape == expected.shape
    np.testing.assert_array_equal(out.detach().numpy(), expected)
    weights = np.cos(np.arange(expected.size)).reshape(expected.shape)
    (out * tl.tensor(weights)).sum().backward()
    gradient = np.zeros(SHAPE)
    np.add.at(gradient, index, weights)
    np.testing.assert_allclose(x.grad.numpy(), gradient)


@settings(deadline=None, max_examples=150)
@given(basic_indices() | advanced_indices(), st.booleans())
def test_assigning_agrees_with_numpy(index, scalar):
    array = numbered()
    place = array[index]
    value = np.array(7.5) if scalar else -1.0 - np.arange(place.size).reshape(place.shape)
    base, source = (tl.tensor(a, requires_grad=True) for a in (array, value))
    x = base * 1
    x[ours(index)] = source
    array[index] = value
    np.testing.assert_array_equal(x.detach().numpy(), array)
    x.sum().backward()
    kept = np.ones(SHAPE)
    kept[index] = 0
    # nothing of the base is left where all of it was assigned: then it gets no gradient at all
    np.testing.assert_array_equal(0 if base.grad is None else base.grad.numpy(), kept)
    assert source.grad.sum().item() == SHAPE[0] * SHAPE[1] * SHAPE[2] - kept.sum()


@settings(deadline=None, max_examples=60)
@given(basic_indices())
def test_basic_indices_make_views(index):
    array = numbered()
    x = tl.tensor(array)
    x[index].mul_(-1)
    array[index] *= -1
    np.testing.assert_array_equal(x.numpy(), array)
    view = x[index]
    x.add_(1)
    np.testing.assert_array_equal(view.numpy(), (array + 1)[index])
    assert view.stride() == tuple(s // 8 for s in array[index].strides) or 0 in view.shape or 1 in view.shape


@pytest.mark.parametrize("shape", [(3,), (3, 4), (3, 4, 5)])
def test_masks(shape):
    array = numbered()
    mask = np.arange(np.prod(shape)).reshape(shape) % 3 == 0
    x = tl.tensor(array)
    np.testing.assert_array_equal(x[tl.tensor(mask)].numpy(), array[mask])
    np.testing.assert_array_equal(x[mask].numpy(), array[mask])
    x[tl.tensor(mask)] = -1
    x[~tl.tensor(mask)] *= 2
    array[mask] = -1
    array[~mask] *= 2
    np.testing.assert_array_equal(x.numpy(), array)
    x[mask] = tl.tensor(array[mask] + 5)
    array[mask] += 5
    np.testing.assert_array_equal(x.numpy(), array)


def test_mask_in_the_middle():
    array, mask = numbered(), np.array([True, False, True, True])
    np.testing.assert_array_equal(tl.tensor(array)[:, mask, 1:3].numpy(), array[:, mask, 1:3])
    np.testing.assert_array_equal(tl.tensor(array)[1, mask].numpy(), array[1, mask])


def test_integers_beside_tensors_select_first():
    """As PyTorch, unlike NumPy, which moves the indexed axes to the front."""
    x = tl.tensor(numbered())
    index = tl.tensor([1, 0])
    assert x[0, :, index].shape == (4, 2)
    assert x[tl.tensor(2), :, index].shape == (4, 2)
    np.testing.assert_array_equal(x[tl.tensor(2), :, index].numpy(), numbered()[2][:, [1, 0]])
    x[tl.tensor(2), :, index] = 0.0
    assert x.numpy()[2, :, :2].sum() == 0 and x.numpy()[2, :, 2:].all() and x.numpy()[:2].sum() == numbered()[:2].sum()


def test_lists_and_negative_indices():
    x = tl.arange(5)
    assert x[[0, -1]].tolist() == [0, 4] and x[np.array([1, -2])].tolist() == [1, 3] and x[[]].tolist() == []
    assert (
        x[tl.tensor(-1)].item() == 4
        and x[np.int64(2)].item() == 2
        and x[tl.tensor([1, 2], dtype=tl.int32)].tolist() == [1, 2]
    )
    assert x[True].shape == (1, 5) and x[tl.tensor(False)].shape == (0, 5)
    assert [v.item() for v in x] == [0, 1, 2, 3, 4]


def test_values_are_converted_and_broadcast():
    x = tl.zeros(2, 3)
    x[0] = tl.tensor([1, 2, 3])
    x[1] = [4.0, 5.0, 6.0]
    x[:, 1:] = np.array([[7], [8]])
    assert x.tolist() == [[1, 7, 7], [4, 8, 8]]
    x[0] = tl.ones(1, 1, 3)
    assert x[0].tolist() == [1, 1, 1]
    n = tl.zeros(2, dtype=tl.int64)
    n[0] = 2.9
    assert n.tolist() == [2, 0]


def test_repeated_indices_keep_the_last():
    x = tl.zeros(3)
    x[[1, 1]] = tl.tensor([5.0, 6.0])
    assert x.tolist() == [0, 6, 0]


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (3, IndexError),
        (-4, IndexError),
        ((0, 4), IndexError),
        ((0, 0, 0), IndexError),
        ([0, 3], IndexError),
        ([-4], IndexError),
        (slice(None, None, -1), ValueError),
        (slice(None, None, 0), ValueError),
        (slice(0.5, 2), TypeError),
        (1.5, IndexError),
        ((Ellipsis, Ellipsis), IndexError),
        (np.ones((2, 4), bool), IndexError),
        ([0.5], IndexError),
    ],
)
def test_bad_indices(index, error):
    x = tl.zeros(3, 4)
    with pytest.raises(error):
        x[index]
    with pytest.raises(error):
        x[index] = 1.0
    assert x.sum().item() == 0


def test_bad_values():
    x = tl.zeros(3, 4)
    for index in (slice(0, 2), [0, 1], (slice(None), 1)):
        with pytest.raises(RuntimeError):
            x[index] = tl.zeros(5)
    with pytest.raises((TypeError, ValueError)):
        x[0] = "a"
    assert x.sum().item() == 0


def test_a_list_of_sequences_or_tensors_is_a_tuple():
    x = tl.arange(6).reshape(2, 3)
    assert x[[[0, 1], [2, 0]]].tolist() == [2, 3] and x[[tl.tensor([1]), 0]].tolist() == [3]
    assert x[[0, 1]].tolist() == x.tolist() and x[[slice(1, 2), None, 0]].tolist() == [[3]]
    x[[[0, 1], [0, 0]]] = 9
    assert x.tolist() == [[9, 1, 2], [9, 4, 5]]
