"""Matrix products over layouts and splits against NumPy, native and plain."""

import ctypes
import itertools
import subprocess
import sys

import numpy as np
import pytest

from tinygrad_lite.backends.numba import blas, plain
from tinygrad_lite.backends.numba.compiler import load_kernels

KERNEL = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)


def matrix(rng, shape, dtype, transposed):
    """Random values; `transposed` swaps the last two axes in memory, and padding separates rows."""
    *batch, rows, columns = shape
    stored = (*batch, columns, rows + 3) if transposed else (*batch, rows, columns + 3)
    data = rng.integers(-5, 6, stored).astype(dtype)
    return np.swapaxes(data[..., :rows], -1, -2) if transposed else data[..., :columns]


def described(*arrays):
    sizes = (arrays[0].shape[-2], arrays[1].shape[-1], arrays[0].shape[-1])
    strides = [tuple(s // a.itemsize for s in a.strides) for a in arrays]
    return (
        sizes,
        tuple(a.ctypes.data for a in arrays),
        tuple(s[-2:] for s in strides),
        arrays[2].shape[:-2],
        tuple(s[:-2] for s in strides),
    )


def run(function, words, split, swapped=False):
    args = np.array(words, np.int64)
    m, n, batch = words[3], words[4], words[12] * words[13] * words[14]
    extent = {"rows": m, "cols": n, "batch": batch}[split]
    middle = extent // 3
    function(args.ctypes.data, 0, middle, 0)
    function(args.ctypes.data, middle, extent, 1)


@pytest.fixture(scope="module")
def kernels():
    gemms = {(t, s): blas.matmul_kernel(t, s) for t in ("f32", "f64") for s in blas.SPLITS}
    strided = {(t, s): blas.strided_matmul_kernel(t, s) for t in ("i64", "i32", "u8", "f32") for s in blas.SPLITS}
    sources = {("gemm", *key): text for key, text in gemms.items()}
    sources |= {("strided", *key): text for key, text in strided.items()}
    addresses = load_kernels({str(key): text for key, text in sources.items()})
    return {key: (KERNEL(addresses[str(key)]), plain.plain_kernel(text)) for key, text in sources.items()}


@pytest.mark.parametrize("tag", ["f32", "f64"])
@pytest.mark.parametrize("split", blas.SPLITS)
@pytest.mark.parametrize("batch", [(), (3,), (2, 1, 4)])
def test_blas_products_over_layouts(kernels, tag, split, batch):
    rng, dtype = np.random.default_rng(0), plain.NUMPY[tag]
    fn = blas.blas_address("sgemm" if tag == "f32" else "dgemm")
    for ta, tb, tc in itertools.product((False, True), repeat=3):
        for m, n, k in ((5, 4, 7), (1, 6, 3), (6, 1, 1), (4, 5, 0), (0, 3, 2)):
            a, b = matrix(rng, (*batch, m, k), dtype, ta), matrix(rng, (*batch, k, n), dtype, tb)
            for function in kernels["gemm", tag, split]:
                c = matrix(rng, (*batch, m, n), dtype, tc)
                found = blas.gemm_words(fn, *described(a, b, c))
                assert found, described(a, b, c)
                words, swapped = found
                assert swapped or not tc or 1 in (m, n) or 0 in (m, n)
                run(function, words, split)
                np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("split", blas.SPLITS)
def test_blas_products_with_shared_operand_and_accumulation(kernels, split):
    rng = np.random.default_rng(1)
    a = rng.integers(-5, 6, (4, 6, 3)).astype(np.float32)
    b = np.broadcast_to(rng.integers(-5, 6, (3, 5)).astype(np.float32), (4, 3, 5))
    c = np.ones((4, 6, 5), np.float32)
    words, _ = blas.gemm_words(blas.blas_address("sgemm"), *described(a, b, c), accumulate=True)
    run(kernels["gemm", "f32", split][0], words, split)
    np.testing.assert_array_equal(c, a @ b + 1)


def test_strides_that_do_not_suit_blas():
    x, c = np.zeros((8, 8), np.float32)[::2, ::2], np.zeros((4, 4), np.float32)
    assert blas.gemm_words(0, *described(x, c, c)) is None
    assert blas.gemm_words(0, *described(np.broadcast_to(c[0], (4, 4)), c, c)) is None
    assert blas.gemm_words(0, *described(c, c, x)) is None


@pytest.mark.parametrize("tag", ["i64", "i32", "u8", "f32"])
@pytest.mark.parametrize("split", blas.SPLITS)
def test_strided_products(kernels, tag, split):
    rng, dtype = np.random.default_rng(2), plain.NUMPY[tag]
    a = rng.integers(0, 200, (2, 3, 8, 6)).astype(dtype)[..., ::2, ::-1]
    b = np.broadcast_to(rng.integers(0, 200, (6, 5)).astype(dtype), (2, 3, 6, 5))
    for function in kernels["strided", tag, split]:
        c = np.zeros((2, 3, 4, 5), dtype)
        words = blas.strided_words(*described(a, b, c))
        args = np.array(words, np.int64)
        function(args.ctypes.data, 0, {"rows": 4, "cols": 5, "batch": 6}[split], 0)
        np.testing.assert_array_equal(c, np.matmul(a, b))


def test_single_threaded_restores_the_count():
    controls = blas._thread_controls()
    assert controls
    get, put = controls[0]
    before = get()
    put(2)
    try:
        with blas.single_threaded():
            assert get() == 1
            with blas.single_threaded():
                assert get() == 1
        assert get() == 2
    finally:
        put(before)


def test_unknown_dtype_is_refused():
    with pytest.raises(ValueError, match="no product of i32"):
        blas.matmul_kernel("i32", "rows")


ALONE = """
import sys
from tinygrad_lite.backends.numba import blas
found = blas.blas_address("sgemm"), blas.library_address("dgesv")
assert "scipy.linalg" not in sys.modules
import scipy.linalg.cython_blas, scipy.linalg.cython_lapack
library = scipy.linalg.cython_blas, scipy.linalg.cython_lapack
again = [blas._pointer(m.__pyx_capi__[n]) for m, n in zip(library, ("sgemm", "dgesv"))]
assert again == list(found)
"""


def test_scipy_can_be_imported_after_its_functions_were_taken_alone():
    subprocess.run([sys.executable, "-W", "error", "-c", ALONE], check=True)
