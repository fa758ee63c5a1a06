"""Edges of movement, indexing, order and linear algebra, eager and compiled: rows of docs/edge_cases.md, by name."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite.nn import functional as F

NAN, INF = math.nan, math.inf
DOCUMENT = Path(__file__).parents[2] / "docs" / "edge_cases.md"


@pytest.fixture(params=["eager", "compiled"])
def run(request):
    """Calls a function as it is, or compiled."""
    if request.param == "eager":
        return lambda f, *args: f(*args)
    return lambda f, *args: tl.compile(f)(*args)


def gradient(f, wrt=0):
    """f's gradient at its arguments, for cotangents 1, 2, 3, …"""

    def step(*args):
        args = [a.detach().requires_grad_() if i == wrt else a for i, a in enumerate(args)]
        out = f(*args)
        weights = tl.arange(1, out.numel() + 1).to(out.dtype).reshape(out.shape)
        return tl.autograd.grad((out * weights).sum(), args[wrt])[0]

    return step


def same(result, expected):
    np.testing.assert_array_equal(result.numpy(), np.asarray(expected, result.dtype.numpy))


def test_every_edge_is_listed():
    text = DOCUMENT.read_text()
    names = [n for n in globals() if n.startswith("test_") and n != "test_every_edge_is_listed"]
    assert not [n for n in names if f"`{n.removeprefix('test_')}`" not in text]


# ---- order --------------------------------------------------------------------------------------------------


def test_sort_keeps_equals_in_order(run):
    x = tl.tensor([2.0, 1.0, 2.0, 1.0, -0.0, 0.0])
    same(run(lambda x: x.argsort(), x), [4, 5, 1, 3, 0, 2])
    same(run(lambda x: x.argsort(descending=True), x), [0, 2, 1, 3, 4, 5])
    same(run(gradient(lambda x: x.sort()[0]), x), [5, 3, 6, 4, 1, 2])


def test_sort_puts_nan_above_inf(run):
    x = tl.tensor([NAN, INF, -INF, NAN, 0.0])
    same(run(lambda x: x.argsort(), x), [2, 4, 1, 0, 3])
    same(run(lambda x: x.argsort(descending=True), x), [0, 3, 1, 4, 2])
    same(run(lambda x: x.topk(2).indices, x), [0, 3])
    same(run(lambda x: x.kthvalue(1).values, x), -INF)


def test_order_of_nothing(run):
    same(run(lambda x: x.sort(1).values, tl.zeros(0, 3)), np.zeros((0, 3)))
    same(run(lambda x: x.argsort(1), tl.zeros(3, 0)), np.zeros((3, 0)))
    same(run(lambda x: x.topk(0).values, tl.ones(3)), np.zeros(0))
    same(run(lambda x: tl.searchsorted(x, tl.ones(2)), tl.zeros(0)), [0, 0])
    same(run(lambda x: tl.isin(x, x[:0]), tl.ones(2)), [False, False])


def test_order_of_scalars(run):
    x = tl.tensor(3.0)
    same(run(lambda x: x.sort().values, x), 3)
    same(run(lambda x: x.argsort(), x), 0)
    same(run(lambda x: x.topk(1).indices, x), 0)
    same(run(lambda x: tl.searchsorted(tl.tensor([1.0, 4.0]), x), x), 1)


def test_unique_takes_nans_apart_and_zeros_together():
    assert tl.tensor([NAN, 1.0, NAN, 0.0, -0.0]).unique().tolist()[:2] == [0, 1]
    assert tl.tensor([NAN, 1.0, NAN, 0.0, -0.0]).unique().numel() == 4


# ---- indices ------------------------------------------------------------------------------------------------


def test_gather_adds_gradients_of_repeated_indices(run):
    x, i = tl.tensor([1.0, 2.0, 3.0]), tl.tensor([2, 0, 2, 2])
    same(run(gradient(lambda x, i: x.gather(0, i)), x, i), [2, 0, 8])
    same(run(gradient(lambda x, i: x[i]), x, i), [2, 0, 8])
    same(run(gradient(lambda x, i: F.embedding(i, x)), tl.ones(3, 2), i), [[3, 4], [0, 0], [13, 16]])


def test_of_repeated_assignments_the_last_stands(run):
    x, i, s = tl.zeros(3), tl.tensor([1, 1, 0]), tl.tensor([5.0, 6.0, 7.0])

    def assigned(x, i, s):
        x = x * 1
        x[i] = s
        return x

    for f in (assigned, lambda x, i, s: x.scatter(0, i, s), lambda x, i, s: x.index_copy(0, i, s)):
        same(run(f, x, i, s), [7, 6, 0])
        same(run(gradient(f, 2), x, i, s), [0, 2, 1])  # PyTorch's gives the overwritten one a gradient too
        same(run(gradient(f, 0), x, i, s), [0, 0, 3])


def test_scatter_reduce_shares_among_equals(run):
    x, i, s = tl.tensor([2.0, 0.0]), tl.tensor([0, 0, 1]), tl.tensor([2.0, 1.0, 0.0])
    same(run(gradient(lambda x, i, s: x.scatter_reduce(0, i, s, "amax"), 0), x, i, s), [0.5, 1])
    same(run(gradient(lambda x, i, s: x.scatter_reduce(0, i, s, "amax"), 2), x, i, s), [0.5, 0, 1])
    # an element left out has no share; PyTorch counts it
    same(run(gradient(lambda x, i, s: x.scatter_reduce(0, i, s, "amax", include_self=False), 2), x, i, s), [1, 0, 2])


def test_scatter_prod_with_zeros(run):
    x, i, s = tl.tensor([3.0, 0.0]), tl.tensor([0, 0, 1]), tl.tensor([0.0, 5.0, 2.0])
    same(run(gradient(lambda x, i, s: x.scatter_reduce(0, i, s, "prod"), 2), x, i, s), [15, 0, 0])
    same(run(gradient(lambda x, i, s: x.scatter_reduce(0, i, s, "prod"), 0), x, i, s), [0, 4])
    same(run(gradient(lambda x, i, s: x.scatter_reduce(0, i, s * 0, "prod"), 2), x, i, s), [0, 0, 0])


def test_scatter_add_of_small_integers_wraps(run):
    x, i = tl.tensor([100, -100], dtype=tl.int8), tl.tensor([0, 0, 1])
    same(run(lambda x, i: x.scatter_add(0, i, tl.full((3,), 100, dtype=tl.int8)), x, i), [44, 0])


@pytest.mark.parametrize(
    "f",
    [
        lambda x, i: x[i],
        lambda x, i: x.gather(0, i),
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.take(i),
        lambda x, i: x.scatter(0, i, 1.0),
        lambda x, i: x.index_add(0, i, x[:1]),
        lambda x, i: x.index_put((i,), x[0]),
        lambda x, i: F.embedding(i, x[:, None]),
        lambda x, i: F.one_hot(i, 3),
    ],
)
def test_index_out_of_range(run, f):
    with pytest.raises(IndexError, match="out of range") as caught:
        run(f, tl.ones(3), tl.tensor([3]))
    assert isinstance(caught.value, RuntimeError)  # as PyTorch's gather raises


def test_index_out_of_range_names_the_line_and_leaves_states(run):
    state = tl.zeros(2)

    def step(x, i):
        state.add_(1)
        return x[i]

    compiled = tl.compile(step)
    compiled(tl.ones(3), tl.tensor([1]))
    with pytest.raises(IndexError, match=r"test_arrays.py:\d+"):
        compiled(tl.ones(3), tl.tensor([3]))
    same(state, [1, 1])


def test_negative_indices_count_from_the_end_where_pytorch_s_do(run):
    x, i = tl.arange(4.0), tl.tensor([-1, -4])
    same(run(lambda x, i: x[i], x, i), [3, 0])
    same(run(lambda x, i: x.take(i), x, i), [3, 0])
    same(run(lambda x, i: x.index_fill(0, i, 9.0), x, i), [9, 1, 2, 9])
    with pytest.raises(IndexError):
        run(lambda x, i: x.gather(0, i), x, i)


def test_no_indices(run):
    x, i = tl.ones(3, 2), tl.zeros(0, dtype=tl.int64)
    same(run(lambda x, i: x[i], x, i), np.zeros((0, 2)))
    same(run(lambda x, i: x.index_add(0, i, x[:0]), x, i), np.ones((3, 2)))
    same(run(lambda x, i: x.gather(1, i.reshape(3, 0)), x, i), np.zeros((3, 0)))
    same(run(lambda x, i: x.scatter(1, i.reshape(3, 0), 5.0), x, i), np.ones((3, 2)))
    same(run(gradient(lambda x, i: x[i].sum() + x.sum()), x, i), np.ones((3, 2)))


# ---- masks --------------------------------------------------------------------------------------------------


def test_masks_that_pick_nothing_or_all(run):
    def filled(x):
        x = x * 1
        x[x > 9] = 5.0
        x[x < 9] = 7.0
        return x

    same(run(filled, tl.arange(3.0)), [7, 7, 7])
    assert tl.arange(3.0)[tl.tensor([False] * 3)].shape == (0,)
    assert tl.arange(3.0)[tl.tensor(True)].tolist() == [[0, 1, 2]]
    assert tl.arange(3.0)[tl.tensor(False)].shape == (0, 3)


def test_assigning_by_a_mask_needs_no_count(run):
    def assigned(x):
        x = x * 1
        x[x > 2] = tl.tensor([9.0])
        x[x[:, 0] == 0] = tl.tensor([7.0, 8.0])
        x[:, tl.tensor([True, False])] = 0.5
        return x

    same(run(assigned, tl.arange(6.0).reshape(3, 2)), [[0.5, 8], [0.5, 9], [0.5, 9]])


def test_masked_gradient_with_nan_not_chosen(run):
    x = tl.tensor([NAN, 1.0, INF])

    def f(x):
        y = x * 1
        y[y != 1] = 0.0
        return y

    same(run(f, x), [0, 1, 0])
    same(run(gradient(f), x), [0, 2, 0])


# ---- views and aliases --------------------------------------------------------------------------------------


def test_write_to_an_expanded_tensor(run):
    with pytest.raises(RuntimeError, match="clone"):
        run(lambda x: x.expand(3).add_(1), tl.ones(1))
    same(run(lambda x: x.expand(3).clone().add_(1), tl.ones(1)), [2, 2, 2])
    same(run(lambda x: x.expand(1, 1).add_(1), tl.ones(1)), [[2]])


def test_write_to_overlapping_windows(run):
    with pytest.raises(RuntimeError, match="clone"):
        run(lambda x: x.unfold(0, 2, 1).add_(1), tl.ones(3))


def test_writes_through_views_reach_the_base(run):
    def f(x):
        x = x * 1
        row, pieces = x[1], x.split(2, 1)
        x.diagonal().fill_(9)
        x.t()[0].neg_()
        x.unfold(1, 2, 2)[0, 1].fill_(5)
        pieces[1].add_(1)
        return x, row, pieces[0]

    x, row, left = run(f, tl.arange(12.0).reshape(3, 4))
    same(x, [[-9, 1, 6, 6], [-4, 9, 7, 8], [-8, 9, 10, 12]])
    same(row, x.numpy()[1])
    same(left, x.numpy()[:, :2])


def test_overwriting_a_saved_value(run):
    def f(x):
        x = x.detach().requires_grad_()
        y = x * 2
        z = y * y
        y[0] = 1.0
        return tl.autograd.grad(z.sum(), x)[0]

    with pytest.raises(RuntimeError, match="inplace operation"):
        run(f, tl.ones(2))


def test_aliasing_arguments(run):
    x = tl.arange(4.0)

    def f(a, b, c):
        a.add_(1)
        return a + b, b * c

    for mode, expected in (("same", [2, 4, 6, 8]), ("copies", [1, 3, 5, 7])):
        a = x.clone()
        b = a if mode == "same" else x.clone()
        first, _ = run(f, a, b, x.clone())
        same(first, expected)


def test_negative_and_other_strides(run):
    base = np.arange(12.0).reshape(3, 4)
    for array in (base[::-1], base.T, base[:, ::2], base[::-1, ::-1], np.broadcast_to(base[0], (3, 4))):
        x = tl.from_numpy(array.copy()) if min(array.strides) < 0 else tl.from_numpy(array)
        same(run(lambda x: x.flip(0).sort(0, descending=True).values, x), -np.sort(-array, 0))
        same(run(lambda x: x.t().argsort(1), x), np.argsort(array.T, 1, kind="stable"))
        same(run(lambda x: (x.mT @ x).diagonal(), x), np.diag(array.T @ array))


def test_transposed_matrices_factor_as_others_do(run):
    a = np.array([[4.0, 1.0, 0.0], [2.0, 5.0, 1.0], [0.0, 1.0, 3.0]])
    for f in (
        tl.linalg.inv,
        tl.linalg.det,
        tl.linalg.svdvals,
        tl.linalg.matrix_exp,
        lambda x: tl.linalg.qr(x)[1].abs(),
    ):
        straight, turned = run(f, tl.tensor(a)), run(lambda x, f=f: f(x.mT), tl.tensor(a.T.copy()))
        np.testing.assert_allclose(straight.numpy(), turned.numpy(), rtol=1e-12, atol=1e-14)


# ---- linear algebra -----------------------------------------------------------------------------------------


def test_singular_matrices(run):
    x = tl.ones(2, 2, dtype=tl.float64)
    same(run(tl.linalg.det, x), 0)
    same(run(lambda x: tl.linalg.slogdet(x)[1], x), -INF)
    np.testing.assert_allclose(run(gradient(tl.linalg.det), x).numpy(), [[1, -1], [-1, 1]], atol=1e-12)

    def second(x):
        x = x.detach().requires_grad_()
        first = tl.autograd.grad(tl.linalg.det(x), x, create_graph=True)[0]
        return tl.autograd.grad((first * first).sum(), x)[0]

    for f in (tl.linalg.inv, lambda x: tl.linalg.solve(x, x), second):
        with pytest.raises(tl.linalg.LinAlgError, match="singular"):
            run(f, x)
    assert issubclass(tl.linalg.LinAlgError, RuntimeError)


def test_zeros_on_a_triangle_s_diagonal(run):
    a, b = tl.tensor([[2.0, 0.0], [1.0, 0.0]]), tl.ones(2, 1)
    same(run(lambda a, b: tl.linalg.solve_triangular(a, b, upper=False), a, b), [[0.5], [INF]])


def test_not_positive_definite(run):
    with pytest.raises(tl.linalg.LinAlgError, match="positive-definite"):
        run(tl.linalg.cholesky, tl.tensor([[1.0, 2.0], [2.0, 1.0]]))


def test_nan_in_a_factorisation(run):
    for f in (tl.linalg.svdvals, tl.linalg.eigvalsh):
        with pytest.raises(tl.linalg.LinAlgError, match="converge"):
            run(f, tl.full((3, 3), NAN))
    assert run(tl.linalg.det, tl.full((2, 2), NAN)).isnan()


def test_equal_singular_values(run):
    x = tl.eye(3, dtype=tl.float64)
    np.testing.assert_allclose(run(gradient(tl.linalg.svdvals), x).numpy().diagonal().sum(), 6)
    assert run(gradient(lambda x: tl.linalg.svd(x)[1]), x).isfinite().all()
    assert run(gradient(lambda x: tl.linalg.eigh(x)[0]), x).isfinite().all()
    assert not run(gradient(lambda x: tl.linalg.eigh(x)[1]), x).isfinite().all()


def test_distance_and_norm_at_zero(run):
    x = tl.zeros(2, 3, dtype=tl.float64)
    for f in (
        lambda x: tl.cdist(x, x),
        lambda x: tl.cdist(x, x, 3.0),
        tl.linalg.vector_norm,
        lambda x: tl.linalg.vector_norm(x, 0.5, dim=1),
        lambda x: tl.linalg.norm(x, 3, dim=0),
        tl.linalg.matrix_norm,
    ):
        same(run(f, x), np.zeros(f(x).shape))
        same(run(gradient(f), x), np.zeros((2, 3)))


def test_less_than_full_rank(run):
    x = tl.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=tl.float64)
    np.testing.assert_allclose(run(tl.linalg.pinv, x).numpy(), np.array([[1, 2], [2, 4]]) / 25, atol=1e-14)
    same(run(tl.linalg.matrix_rank, x), 1)


def test_matrices_without_elements(run):
    x = tl.zeros(2, 0, 0)
    same(run(tl.linalg.det, x), [1, 1])
    same(run(tl.linalg.inv, x), np.zeros((2, 0, 0)))
    same(run(lambda x: tl.linalg.svd(x.reshape(2, 0, 0).new_zeros(3, 0))[0], x), np.eye(3))
    same(run(lambda x: tl.einsum("bij,bjk->bik", x.new_ones(2, 3, 0), x.new_ones(2, 0, 4)), x), np.zeros((2, 3, 4)))
    same(run(lambda x: tl.linalg.pinv(x.new_zeros(2, 0)), x), np.zeros((0, 2)))


def test_beta_zero_ignores_nan(run):
    x = tl.full((2, 2), NAN)
    same(run(lambda x: tl.addmm(x, tl.ones(2, 3), tl.ones(3, 2), beta=0), x), np.full((2, 2), 3))


# ---- shapes -------------------------------------------------------------------------------------------------


def test_shapes_of_nothing(run):
    x = tl.zeros(0, 3)
    same(run(lambda x: tl.cat([x, tl.ones(1, 3), tl.zeros(0)]), x), np.ones((1, 3)))
    same(run(lambda x: F.pad(x, (1, 1, 2, 0)), x), np.zeros((2, 5)))
    same(run(lambda x: x.repeat_interleave(2, 1).roll(1).flip(0).tril(), x), np.zeros((0, 6)))
    same(run(lambda x: x.diagonal(), x), np.zeros(0))
    assert [tuple(p.shape) for p in x.chunk(2)] == [(0, 3), (0, 3)]
    same(run(lambda x: tl.block_diag(x, tl.ones(1, 1)), x), [[0, 0, 0, 1]])


def test_scalars_as_vectors(run):
    x = tl.tensor(2.0)
    same(run(lambda x: x.flatten() + x.ravel() + tl.atleast_1d(x), x), [6])
    same(run(lambda x: x.index_select(0, tl.tensor([0])) + x.take(tl.tensor(0)) + x.gather(0, tl.tensor(0)), x), 6)
    same(run(lambda x: x.repeat_interleave(2) + x.diag_embed().sum(), x), [4, 4])
    for f in (lambda x: x.unbind(), lambda x: x.split(1), lambda x: x[0], lambda x: x.select(0, 0), lambda x: x.tril()):
        with pytest.raises((IndexError, RuntimeError)):
            run(f, x)
