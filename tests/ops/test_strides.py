"""Where views lie: the strides that a node keeps are those of NumPy's view of the same memory, or both copy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.samples import SAMPLES
from tinygrad_lite.ir.record import leaf
from tinygrad_lite.ir.strides import VIEWING, contiguous_strides

CASES = [(name, i) for name in sorted(VIEWING & SAMPLES.keys()) for i in range(len(SAMPLES[name]))]


@pytest.mark.parametrize(("name", "i"), CASES)
def test_a_view_keeps_the_strides_of_its_array(name, i):
    sample = SAMPLES[name][i]
    source = leaf(np.ascontiguousarray(sample.make(np.random.default_rng(0))[0]))
    node = sample.build(source)
    assert (node.storage is source.storage) == np.may_share_memory(node.value, source.value) or not node.value.size
    if node.storage is source.storage:
        strides = node.strides or contiguous_strides(node.shape)
        found = [s // node.value.itemsize for s in node.value.strides]
        assert [s for s, n in zip(strides, node.shape, strict=True) if n > 1 and node.value.size] == [
            s for s, n in zip(found, node.shape, strict=True) if n > 1 and node.value.size
        ]
