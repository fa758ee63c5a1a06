"""Kernels as data: their text, and what their verifier refuses."""

from __future__ import annotations

import pytest

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
