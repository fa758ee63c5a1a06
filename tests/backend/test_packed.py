"""Packed products against NumPy: layouts, splits, remainders of every block, all of k at once and in parts."""

import ctypes
import itertools

import numpy as np
import pytest

from tinygrad_lite.backends.numba import packed, plain, tile
from tinygrad_lite.backends.numba.compiler import load_kernels

KERNEL = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
SPLITS = ("rows", "cols", "batch")
SMALL = [(1, 1, 1), (7, 31, 5), (9, 33, 17), (40, 65, 8)]
LARGE = [(770, 40, 300), (70, 90, 600), (1000, 35, 280)]  # more rows and more of k than are packed at once


@pytest.fixture(scope="module")
def kernels():
    sources = {split: packed.packed_kernel(split) for split in SPLITS}
    addresses = load_kernels(sources)
    return {split: (KERNEL(addresses[split]), plain.plain_kernel(text)) for split, text in sources.items()}


def stored(rng, batch, shape, transposed):
    """Whole numbers, whose sums are exact, with padding between rows."""
    rows, columns = shape[::-1] if transposed else shape
    data = rng.integers(-4, 5, (*batch, rows, columns + 5)).astype(np.float32)[..., :columns]
    return np.swapaxes(data, -1, -2) if transposed else data


def product(function, split, a, b, c):
    """C through `function`, in two unequal shares of two workers; what is written outside their memory shows."""
    fence, kept = 64, []

    def space(nbytes):
        kept.append(np.full(2 * nbytes // 4 + fence, 7, np.float32))
        return kept[-1].ctypes.data

    strides = [tuple(s // 4 for s in x.strides) for x in (a, b, c)]
    words, (m, n) = packed.packed_words(
        (a.shape[-2], b.shape[-1], a.shape[-1]),
        [x.ctypes.data for x in (a, b, c)],
        [s[-2:] for s in strides],
        c.shape[:-2],
        [s[:-2] for s in strides],
        space,
    )
    args = np.array(words, np.int64)
    extent = {"rows": m, "cols": n, "batch": int(np.prod(c.shape[:-2]))}[split]
    function(args.ctypes.data, 0, extent // 3, 0)
    function(args.ctypes.data, extent // 3, extent, 1)
    assert all((memory[-fence:] == 7).all() for memory in kept)


def check(function, split, sizes, batch, layout):
    rng = np.random.default_rng(1)
    m, n, k = sizes
    a, b = stored(rng, batch, (m, k), layout[0]), stored(rng, batch, (k, n), layout[1])
    c = stored(rng, batch, (m, n), layout[2])
    product(function, split, a, b, c)
    np.testing.assert_array_equal(c, a @ b)


LAYOUTS = list(itertools.product((False, True), repeat=3))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("sizes", SMALL, ids=str)
@pytest.mark.parametrize("batch", [(), (3,), (2, 1, 4)], ids=str)
def test_small_products(kernels, split, sizes, batch):
    for layout in LAYOUTS:
        check(kernels[split][0], split, sizes, batch, layout)


PANELS = """
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    height = {height}
    for t in range(lo, hi):
        tile_panels(w[0], w[1], w[2], w[3], w[4])
"""


@pytest.mark.parametrize(("lanes", "height"), [(8, 6), (16, 8)])
def test_panels(monkeypatch, lanes, height):
    monkeypatch.setattr(tile, "lanes", lambda: lanes)
    function = KERNEL(load_kernels({"panels": PANELS.format(height=height)})["panels"])
    for rows, columns in itertools.product((0, 1, 2, 7), range(70)):
        source = np.arange(rows * (columns + 3), dtype=np.float32).reshape(rows, columns + 3)[:, :columns]
        panels = -(-columns // height)
        target = np.full(panels * rows * height + 8, -1, np.float32)
        words = np.array([rows, columns, source.ctypes.data, columns + 3, target.ctypes.data])
        function(words.ctypes.data, 0, 1, 0)
        found = target[:-8].reshape(panels, rows, height).transpose(1, 0, 2).reshape(rows, panels * height)
        np.testing.assert_array_equal(found[:, :columns], source)
        assert (target[-8:] == -1).all()


@pytest.mark.parametrize("split", ["rows", "cols"])
@pytest.mark.parametrize("sizes", LARGE, ids=str)
def test_large_products(kernels, split, sizes):
    for layout in LAYOUTS:
        if packed.lanes() == 16 or not any(layout):  # elsewhere BLAS takes some of them
            check(kernels[split][0], split, sizes, (), layout)


@pytest.mark.parametrize("split", SPLITS)
def test_the_source_as_plain_python(kernels, split):
    for layout in LAYOUTS:
        check(kernels[split][1], split, (11, 37, 9), (2,), layout)
    check(kernels[split][1], split, (9, 5, 300), (2,), (False, False, False))
