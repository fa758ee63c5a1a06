"""Kernels as data: their text, and what their verifier refuses."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.compile.running import PlainProgram
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.kernels.nest import Kernel, Let, Load, Loop, Pointer, Store
from tinygrad_lite.ir.kernels.text import kernel_text
from tinygrad_lite.ir.kernels.verify import KernelError, verify_kernel
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import float32
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import reduce
from tinygrad_lite.ops.leaf import input

LOAD = (Pointer("p", "f32", "x_at", (("j", "1"),)), Load("t", "p", "0"))


def test_text_of_a_softmax():
    x = input("x", float32, (8, 16))
    with mode.set(trace=object()):
        e = ew.exp(ew.sub(x, reduce.max(x, 1, True)))
        out = ew.div(e, reduce.sum(e, 1, True))
    (call,) = PlainProgram(Graph("softmax", (x,), (), (out,))).calls
    verify_kernel(call.kernel)
    text = kernel_text(call.kernel)
    assert text.startswith("kernel max_sub_exp_sum_and_1(n1, x1_at,") and "for r in lo..hi" in text
    assert text.count("for j in 0..") == 3 and text.count("exp_f32(") == 1
    assert text.count(" = load ") == 3 and "maximum(" in text and "sum_add(" in text


@pytest.mark.parametrize(
    "body, message",
    [
        ((Let("t", "{0} + 1", ("u",)),), "u is not defined"),
        ((Store("p", "0", "n"),), "p is not a pointer"),
        ((Loop("j", "0", "n", LOAD), Let("u", "t")), "t is not defined"),
        ((Let("n", "1"),), "n is assigned a second time"),
        ((Loop("j", "0", "n", (Let("j", "1"),)),), "j is assigned a second time"),
        ((Let("i2", "1"), Let("i2", "2")), "i2 is assigned a second time"),
        ((Let("t", "1"), Store("t", "0", "n")), "t is not a pointer"),
    ],
)
def test_ill_formed_kernels(body, message):
    with pytest.raises(KernelError, match=message):
        verify_kernel(Kernel(("x_at", "n"), body, "bad"))


def test_well_formed_kernels():
    total = (Let("a0", "f32(0)"), Loop("j", "lo", "hi", (*LOAD, Let("a0", "{0} + {1}", ("a0", "t")))))
    verify_kernel(Kernel(("x_at", "n"), total, "good"))
    with pytest.raises(KernelError, match="a parameter is named twice"):
        verify_kernel(Kernel(("n", "n"), ()))


@pytest.mark.parametrize("length", [1, 5, 33, 128, 2049])
@pytest.mark.parametrize("rows", [(4,), (6,), (3, 8), (2, 4, 5)], ids=str)
def test_sums_of_short_rows(rows, length):
    """Four at a time, where they are a multiple of that and short."""
    rng = np.random.default_rng(length)
    x = tl.from_numpy(rng.standard_normal((*rows, length)).astype(np.float32))
    y = tl.from_numpy(rng.standard_normal(length).astype(np.float32))
    program = tl.compile(lambda x, y: ((x * y).sum(-1), (x * y).sum(-1) + x[..., 0]))
    for got, want in zip(program(x, y), program.fn(x, y), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-5)
    together = [c for c in program._latest().program.calls if "_3 = " in c.source]
    assert bool(together) == (np.prod(rows) % 4 == 0 and 1 < length <= 2048)
