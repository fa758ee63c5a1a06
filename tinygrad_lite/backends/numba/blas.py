"""Matrix products: SciPy's BLAS by address, its thread count, and the kernels that call it.

A tape's workers call BLAS on their own shares, so the library itself must run on one thread meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

SPLITS = ("rows", "cols", "batch")
BATCH_AXES = 3
ITEMSIZE = {"f32": 4, "f64": 8, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "b1": 1}


# ---- the library --------------------------------------------------------------------------------------
@functools.cache
def blas_address(name: str) -> int:
    """Native address of a BLAS function (Fortran convention, every argument a pointer), such as "sgemm"."""
    return _pointer(_functions("cython_blas")[name])


@functools.cache
def library_address(name: str) -> int:
    """Native address of a BLAS or LAPACK function, such as "dgesv"."""
    return _pointer(_functions("cython_blas").get(name) or _functions("cython_lapack")[name])


@functools.cache
def _functions(extension: str) -> dict[str, Any]:
    """What `scipy.linalg.<extension>` exports, without the rest of `scipy.linalg`: 14 MB and 0.15 s."""
    import scipy

    name = f"scipy.linalg.{extension}"
    module: Any = sys.modules.get(name)
    spec = None if module else PathFinder.find_spec(name, [str(Path(folder) / "linalg") for folder in scipy.__path__])
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules.pop(
            name, None
        )  # it entered itself, but is no attribute of its package: an import shall make it one
    found: dict[str, Any] = (module or importlib.import_module(name)).__pyx_capi__
    return found


def _pointer(capsule: Any) -> int:
    api = ctypes.pythonapi
    get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    address: int = get_pointer(capsule, get_name(capsule))
    return address


@functools.cache
def _thread_controls() -> tuple[tuple[Callable[[], int], Callable[[int], Any]], ...]:
    """(get, set) of the thread count of each BLAS library that `blas_address` may lead to."""
    import threadpoolctl

    blas_address("sgemm")
    found = [c for c in threadpoolctl.ThreadpoolController().lib_controllers if c.user_api == "blas"]
    own = [c for c in found if "/scipy.libs/" in c.filepath or "/scipy/" in c.filepath]
    return tuple(_raw_controls(controller) for controller in own or found)


def _raw_controls(controller: Any) -> tuple[Callable[[], int], Callable[[int], Any]]:
    """ctypes functions if they can be found by name: the controller looks them up again at each call."""
    for prefix in ("scipy_", ""):
        for suffix in ("", "64_", "_64"):
            try:
                get = getattr(controller.dynlib, f"{prefix}openblas_get_num_threads{suffix}")
                put = getattr(controller.dynlib, f"{prefix}openblas_set_num_threads{suffix}")
            except AttributeError:
                continue
            get.argtypes, get.restype, put.argtypes, put.restype = (), ctypes.c_int, (ctypes.c_int,), None
            return get, put
    return controller.get_num_threads, controller.set_num_threads


class single_threaded:
    """Context in which SciPy's BLAS runs on the calling thread alone; the thread count before is restored.

    The count is the whole process's: hold it for one tape at a time. About 1 µs where the count is 1 already.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before: list[tuple[Callable[[int], Any], int]] = []
        for get, put in _thread_controls():
            count = get()
            if count != 1:
                self._before.append((put, count))
                put(1)

    def __exit__(self, *exception: object) -> None:
        for put, count in self._before:
            put(count)


# ---- words ----------------------------------------------------------------------------------------------
def gemm_words(
    fn: int,
    sizes: tuple[int, int, int],
    addresses: tuple[int, int, int],
    strides: tuple[tuple[int, int], tuple[int, int], tuple[int, int]],
    batch: Sequence[int] = (),
    batch_strides: tuple[Sequence[int], Sequence[int], Sequence[int]] = ((), (), ()),
    accumulate: bool = False,
) -> tuple[list[int], bool] | None:
    """Argument words of a BLAS kernel for C = A @ B, or None where the strides do not suit BLAS.

    sizes are (m, n, k); addresses and strides (in elements, of the last two axes) of A, B and C in this order. Where C
    has unit stride in m, C^T = B^T @ A^T is computed: the second result is then True, and the words speak of C^T, as do
    `rows` and `cols`.
    """
    (m, n, k), (a, b, c), (sa, sb, sc) = sizes, addresses, strides
    ba, bb, bc = batch_strides
    direct = _layout((m, n), sc)
    if direct is None:
        return None
    swapped = direct[0] == 1
    if swapped:
        m, n, a, b, ba, bb, sa, sb = n, m, b, a, bb, ba, (sb[1], sb[0]), (sa[1], sa[0])
    left, right = _layout((m, k), sa), _layout((k, n), sb)
    if left is None or right is None:
        return None
    (ta, lda), (tb, ldb), ldc = left, right, direct[1]
    words = [fn, ta, tb, m, n, k, a, lda, b, ldb, c, ldc, *_batch_words(batch, (ba, bb, bc)), int(accumulate)]
    return words, swapped


def _layout(shape: tuple[int, int], strides: tuple[int, int]) -> tuple[int, int] | None:
    """(transposed, leading dimension) of a matrix with one unit stride; the stride of an axis of size 1 is free."""
    if 0 in shape:
        return 0, max(shape[1], 1)
    for transposed in (0, 1):
        (rows, columns), (across, along) = (shape, strides) if not transposed else (shape[::-1], strides[::-1])
        if rows <= 1:
            across = max(columns, 1)
        if (along == 1 or columns <= 1) and across >= max(columns, 1):
            return transposed, across
    return None


def _batch_words(batch: Sequence[int], strides: Sequence[Sequence[int]]) -> list[int]:
    if len(batch) > BATCH_AXES:
        raise ValueError(f"{len(batch)} batch axes; kernels have {BATCH_AXES}")
    missing = BATCH_AXES - len(batch)
    return [*[1] * missing, *batch, *(word for each in strides for word in [*[0] * missing, *each])]


def strided_words(
    sizes: tuple[int, int, int],
    addresses: tuple[int, int, int],
    strides: tuple[tuple[int, int], tuple[int, int], tuple[int, int]],
    batch: Sequence[int] = (),
    batch_strides: tuple[Sequence[int], Sequence[int], Sequence[int]] = ((), (), ()),
) -> list[int]:
    """Argument words of `strided_matmul_kernel`: any strides, no BLAS."""
    flat = [word for pair in strides for word in pair]
    return [*sizes, *addresses, *flat, *_batch_words(batch, batch_strides)]


# ---- kernels ----------------------------------------------------------------------------------------------
BATCH_LOOP = """\
        q = t // w[{e2}]
        s2 = t - q * w[{e2}]
        s0 = q // w[{e1}]
        s1 = q - s0 * w[{e1}]
        a = w[{a}] + {size} * (s0 * w[{sa0}] + s1 * w[{sa1}] + s2 * w[{sa2}]){a_offset}
        b = w[{b}] + {size} * (s0 * w[{sb0}] + s1 * w[{sb1}] + s2 * w[{sb2}]){b_offset}
        c = w[{c}] + {size} * (s0 * w[{sc0}] + s1 * w[{sc1}] + s2 * w[{sc2}]){c_offset}
"""


def _batch_loop(tag: str, first: int, addresses: tuple[int, int, int], offsets: tuple[str, str, str]) -> str:
    """Body lines that find the three addresses of batch index t; the extents start at word `first`."""
    names = ("e0", "e1", "e2", *(f"s{x}{i}" for x in "abc" for i in range(3)))
    words, size = {name: first + i for i, name in enumerate(names)}, ITEMSIZE[tag]
    a, b, c = (f" + {size} * {o}" if o else "" for o in offsets)
    return BATCH_LOOP.format(
        **words, a=addresses[0], b=addresses[1], c=addresses[2], size=size, a_offset=a, b_offset=b, c_offset=c
    )


def matmul_kernel(tag: str, split: str) -> str:
    """Source of C[t] = A[t] @ B[t] through BLAS, for "f32" or "f64"; words as `gemm_words` lays them out:

        0 address of ?gemm   1 A is transposed   2 B is transposed   3 m   4 n   5 k
        6 A   7 lda   8 B   9 ldb   10 C   11 ldc
        12-14 batch extents   15-17, 18-20, 21-23 batch strides of A, B, C in elements   24 add to C

    A[i, p] is a[i * lda + p], or a[p * lda + i] if transposed, and B alike; C is c[i * ldc + j]. [lo, hi) are `rows`
    of C or `cols` of C, in every batch, or `batch` indices.
    """
    if tag not in ("f32", "f64"):
        raise ValueError(f"BLAS has no product of {tag}; strided_matmul_kernel has")
    by_rows, by_columns, none = ("lo * row_a", "", "lo * w[11]"), ("", "lo * column_b", "lo"), ("", "", "")
    offsets = {"rows": by_rows, "cols": by_columns, "batch": none}[split]
    rows, columns = ("hi - lo" if split == s else f"w[{i}]" for s, i in (("rows", 3), ("cols", 4)))
    span = "lo, hi" if split == "batch" else "w[12] * w[13] * w[14]"
    gemm = "sgemm" if tag == "f32" else "dgemm"
    flag_a, flag_b = (f"{ord('T')} if w[{i}] else {ord('N')}" for i in (1, 2))  # BLAS sees C^T = B^T @ A^T
    return f"""\
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    row_a = 1 if w[1] else w[7]
    column_b = w[9] if w[2] else 1
    m, n = {rows}, {columns}
    if m <= 0 or n <= 0:
        return
    for t in range({span}):
{_batch_loop(tag, 12, (6, 8, 10), offsets)}\
        {gemm}(w[0], {flag_b}, {flag_a}, n, m, w[5], {tag}(1), b, w[9], a, w[7], {tag}(w[24]), c, w[11])
"""


def strided_matmul_kernel(tag: str, split: str) -> str:
    """Source of C[t] = A[t] @ B[t] for any dtype and strides, by three loops; words as `strided_words` lays them out:

    0 m  1 n  2 k   3 A  4 B  5 C   6-7, 8-9, 10-11 strides of the last two axes of A, B, C
    12-14 batch extents   15-17, 18-20, 21-23 batch strides of A, B, C
    """
    total = tag if tag in ("f32", "f64") else "i64"
    span = {"rows": "lo, hi", "cols": "w[0]", "batch": "w[0]"}[split]
    columns = "lo, hi" if split == "cols" else "w[1]"
    batches = "lo, hi" if split == "batch" else "w[12] * w[13] * w[14]"
    return f"""\
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    for t in range({batches}):
{_batch_loop(tag, 12, (3, 4, 5), ("", "", ""))}\
        x, y, z = {tag}_at(a), {tag}_at(b), {tag}_at(c)
        for i in range({span}):
            for j in range({columns}):
                total = {total}(0)
                for p in range(w[2]):
                    total = sum_add(total, {total}(x[i * w[6] + p * w[7]]) * {total}(y[p * w[8] + j * w[9]]))
                z[i * w[10] + j * w[11]] = {tag}(total)
"""
