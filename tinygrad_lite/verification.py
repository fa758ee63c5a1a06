"""compile(verify=True): the reference interpreter beside the native program, and the first value that differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_lite.interpreter import evaluate

if TYPE_CHECKING:
    from tinygrad_lite.captured import Capture
    from tinygrad_lite.tensor import Tensor

TOLERANCE = {"float32": (2e-4, 2e-5), "float64": (1e-9, 1e-11)}


class VerificationError(RuntimeError):
    """The native program computed something else than the interpreter."""


def check(capture: Capture, tensors: list[Tensor]) -> Any:
    """Run both on the same arguments and states; raises VerificationError naming the first result that differs."""
    args = [t._read().value for t in tensors] + [np.float64(s.read()) for s in capture.scalars]
    before = [t._node.value.copy() for t in capture.handles]
    expected, after = evaluate(capture.optimised, args, before)
    result = capture.run(tensors)
    got = capture.program.outputs
    for i, (node, want) in enumerate(zip(capture.graph.outputs, expected, strict=True)):
        _compare(f"output {i}", node, got[i], want)
    for tensor, node, want in zip(capture.handles, capture.graph.states, after, strict=True):
        _compare(f"state {node.attrs['name']}", node, tensor._node.value, want)
    return result


def _compare(what: str, node: Any, got: Any, want: Any) -> None:
    rtol, atol = TOLERANCE.get(str(want.dtype), (0, 0))
    scale = float(np.abs(want[np.isfinite(want)]).max(initial=0)) if want.dtype.kind == "f" else 0
    if np.allclose(got, want, rtol=rtol, atol=atol * max(1.0, scale), equal_nan=True):
        return
    at = np.unravel_index(int(np.argmax(~np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True))), want.shape)
    raise VerificationError(
        f"{what}: compiled {got[at]!r} differs from interpreted {want[at]!r} at {[int(i) for i in at]}; {node!r}, "
        f"recorded at {node.location}"
    )
