"""Checkpointed segments: what is computed inside of one is not kept for backward, which computes it again.

In a capture the marks lead to copies in the graph (`ir/schedule/rematerialise.py`). In eager mode the values are let
go, and computed again from the recorded operations, not by a second call of the function: so random numbers, batch
norm's running moments and whatever else the function does happen once, and gradients have the same bits as without.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tinygrad_lite.forgetting import forget
from tinygrad_lite.guards import tensors_in
from tinygrad_lite.ir.node import next_serial
from tinygrad_lite.ir.record import mode

_numbers = itertools.count(1)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], Any] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, of which only the results are kept for backward, not what leads to them.

    Gradients have the bits that they have without. Segments nest: an inner one is computed again from what the second
    computation of the outer one leaves. Chen, Xu, Zhang & Guestrin, "Training deep nets with sublinear memory cost",
    2016, arXiv:1604.06174. In eager mode, values that no gradient flows through (dropout's mask) and those that a
    tensor of the user's still holds are kept.

    Args:
        use_reentrant, preserve_rng_state, determinism_check, debug, early_stop: as in PyTorch; there is nothing to
            choose, for the recorded operations are repeated, rather than the call.

    Raises:
        TypeError: a context_fn, for which there is no second call to put it around.
    """
    if context_fn is not None:
        raise TypeError("checkpoint: context_fn needs a second call of the function; here its operations are repeated")
    start = next_serial()
    name = str(next(_numbers))
    with mode.set(segment=f"{mode.segment}/{name}" if mode.segment else name):
        result = function(*args, **kwargs)
    if mode.trace is None and mode.grad_enabled:
        forget([t._read() for t in tensors_in(result)], start)
    return result


def checkpoint_sequential(
    functions: Iterable[Callable[..., Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """`functions` (a Sequential, or a list) one after the other, as `segments` checkpointed parts.

    The last part is not checkpointed: its backward comes first, when its values are still there.

    Raises:
        ValueError: segments below 1, or more of them than functions.
        TypeError: unexpected keywords.
    """
    unknown = set(kwargs) - {"preserve_rng_state"}
    if unknown:
        raise TypeError(f"checkpoint_sequential got unexpected keywords: {', '.join(sorted(unknown))}")
    each = list(functions)
    if not 1 <= segments <= len(each):
        raise ValueError(f"checkpoint_sequential: {len(each)} functions cannot be cut into {segments} segments")
    size = len(each) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(_chain, each[start : start + size], input, use_reentrant=use_reentrant)
    return _chain(each[size * (segments - 1) :], input)


def _chain(functions: Sequence[Callable[..., Any]], value: Any) -> Any:
    for function in functions:
        value = function(value)
    return value
