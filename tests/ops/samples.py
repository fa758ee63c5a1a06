"""One table of samples an op. It drives the tests of values and gradients here, and others' compiled and text tests.

    for name, samples in SAMPLES.items():
        for sample in samples:
            arrays = sample.make(np.random.default_rng(0))
            node = sample.build(*[leaf(a) for a in arrays])

`reference` computes the value apart from the op's NumPy rule; `wrt` lists the inputs to differentiate (float64 then).
"""

from __future__ import annotations

from tests.ops.attention_samples import ATTENTION
from tests.ops.control_samples import CONTROL
from tests.ops.convolution_samples import CONVOLUTION
from tests.ops.create_samples import CREATE, RANDOM
from tests.ops.cumulate_samples import CUMULATE
from tests.ops.elementwise_samples import ELEMENTWISE
from tests.ops.index_samples import CONTRACT, INDEXING
from tests.ops.linalg_samples import LINALG
from tests.ops.movement_samples import MOVEMENT
from tests.ops.operands import Sample
from tests.ops.reduce_samples import REDUCE
from tests.ops.sorting_samples import SORTING
from tests.ops.special_samples import SPECIAL
from tests.ops.window_samples import WINDOWS

SAMPLES: dict[str, list[Sample]] = {
    **ELEMENTWISE,
    **SPECIAL,
    **MOVEMENT,
    **WINDOWS,
    **REDUCE,
    **CUMULATE,
    **CONTRACT,
    **CONTROL,
    **ATTENTION,
    **CONVOLUTION,
    **INDEXING,
    **SORTING,
    **LINALG,
    **CREATE,
    **RANDOM,
}

#: Made by capture, by eager recording, by autograd.Function and by the scheduler, never by a builder on values.
WITHOUT_SAMPLES = frozenset(
    {"input", "state", "leaf", "history", "function", "compiled_output", "contiguous", "copy_out"}
)
