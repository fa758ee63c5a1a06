"""Edges of reductions, running reductions and order statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.edges.edge import Edge

INF, NAN = math.inf, math.nan
EDGES: list[Edge] = []


def edge(family: str, case: str, outcome: str, run: Callable[..., Any], *args: Any, **expected: Any) -> None:
    EDGES.append(Edge(family, case, outcome, run, args, **expected))


def empty(*shape: int) -> np.ndarray:
    return np.zeros(shape)


TIES = "Ties in reductions"
edge(
    TIES,
    "`max()`, `min()`",
    "equals share the gradient",
    lambda T, x: (x.max(), -x.min()),
    [1.0, 3.0, 3.0, 1.0],
    value=(3.0, -1.0),
    grads=[[-0.5, 0.5, 0.5, -0.5]],
)
edge(
    TIES,
    "`amax`, `amin`",
    "equals share the gradient",
    lambda T, x: x.amax(0),
    [1.0, 3.0, 3.0],
    grads=[[0.0, 0.5, 0.5]],
)
edge(
    TIES,
    "`max(dim)`",
    "the first of equals is found and has the gradient",
    lambda T, x: x.max(0)[0],
    [1.0, 3.0, 3.0],
    value=3.0,
    grads=[[0.0, 1.0, 0.0]],
)
edge(
    TIES,
    "`argmax`, `argmin`",
    "the first of equals",
    lambda T, x: (x.argmax(), x.argmin()),
    [3.0, 1.0, 3.0, 1.0],
    value=(0, 1),
)
edge(
    TIES,
    "`median()`",
    "equals share the gradient",
    lambda T, x: x.median(),
    [2.0, 1.0, 2.0],
    value=2.0,
    grads=[[0.5, 0.0, 0.5]],
)
edge(
    TIES,
    "`cummax`",
    "the last of equals is found and has the gradient",
    lambda T, x: tuple(T.cummax(x, 0)),
    [1.0, 3.0, 3.0, 2.0],
    value=([1.0, 3.0, 3.0, 3.0], [0, 1, 2, 2]),
    grads=[[1.0, 1.0, 2.0, 0.0]],
)

ZERO = "Norms and spreads at 0"
for p, outcome in (
    (2, "0, with the gradient 0"),
    (1, "0, with the gradient 0"),
    (3, "0, with the gradient 0"),
    (INF, "0, with the gradient 0"),
):
    edge(ZERO, f"`norm(0, {p})`", outcome, lambda T, x, p=p: x.norm(p), [0.0, 0.0], value=0.0, grads=[[0.0, 0.0]])
edge(
    ZERO,
    "`norm(x, 0.5)` with a 0 in x",
    "no gradient to the 0",
    lambda T, x: x.norm(0.5),
    [0.0, 4.0],
    value=4.0,
    grads=[[0.0, 1.0]],
)
edge(
    ZERO,
    "`std` of equal elements",
    "0, with the gradient 0",
    lambda T, x: x.std(),
    [2.0, 2.0, 2.0],
    value=0.0,
    grads=[[0.0, 0.0, 0.0]],
)
edge(ZERO, "`var` of one element", "NaN: 0 / 0", lambda T, x: (x.var(), x.var(correction=0)), [2.0], value=(NAN, 0.0))

PROD = "Products with zeros"
edge(
    PROD,
    "`prod` with one 0",
    "exact: only the 0 has a gradient",
    lambda T, x: x.prod(),
    [2.0, 0.0, 3.0],
    value=0.0,
    grads=[[0.0, 6.0, 0.0]],
)
edge(
    PROD,
    "`prod` with two 0s",
    "no gradient",
    lambda T, x: x.prod(),
    [2.0, 0.0, 0.0],
    value=0.0,
    grads=[[0.0, 0.0, 0.0]],
)
edge(
    PROD,
    "`cumprod` with 0s",
    "exact",
    lambda T, x: x.cumprod(0),
    [2.0, 0.0, 3.0, 0.0],
    value=[2.0, 0.0, 0.0, 0.0],
    grads=[[1.0, 8.0, 0.0, 0.0]],
)

INFS = "Rows of -inf"
edge(
    INFS,
    "`logsumexp`",
    "-inf; its gradient is NaN",
    lambda T, x: x.logsumexp(0),
    [-INF, -INF],
    value=-INF,
    grads=[[NAN, NAN]],
)
edge(
    INFS,
    "`logsumexp` with one number",
    "the number",
    lambda T, x: x.logsumexp(0),
    [-INF, 2.0],
    value=2.0,
    grads=[[0.0, 1.0]],
)
edge(INFS, "`logsumexp` with inf", "inf", lambda T, x: x.logsumexp(0), [INF, 2.0], value=INF)
edge(
    INFS,
    "`logcumsumexp` beginning with -inf",
    "-inf until the first number",
    lambda T, x: x.logcumsumexp(0),
    [-INF, -INF, 1.0],
    value=[-INF, -INF, 1.0],
)
edge(
    INFS,
    "`softmax`, `log_softmax`",
    "NaN",
    lambda T, x: (T.softmax(x, 0), T.log_softmax(x, 0)),
    [-INF, -INF],
    value=([NAN, NAN], [NAN, NAN]),
)
edge(
    INFS,
    "`softmax` beside -inf",
    "0 there, with the gradient 0",
    lambda T, x: T.softmax(x, 0)[1],
    [-INF, 1.0, 1.0],
    value=0.5,
    grads=[[0.0, 0.25, -0.25]],
)

EMPTY = "Nothing to reduce"
edge(
    EMPTY,
    "`sum`, `prod`, `mean`",
    "0, 1, NaN",
    lambda T, x: (x.sum(), x.prod(), x.mean()),
    empty(0),
    value=(0.0, 1.0, NAN),
)
edge(
    EMPTY,
    "`any`, `all`, `count_nonzero`",
    "False, True, 0",
    lambda T, x: (x.any(), x.all(), T.count_nonzero(x)),
    empty(0),
    value=(False, True, 0),
)
edge(
    EMPTY,
    "`sum(1)` of (2, 0) and of (0, 3)",
    "(2,) of 0, (0,)",
    lambda T, x, y: (x.sum(1), y.sum(1)),
    empty(2, 0),
    empty(0, 3),
    value=([0.0, 0.0], []),
)
edge(EMPTY, "`std`, `var`", "NaN", lambda T, x: (x.std(), x.var()), empty(0), value=(NAN, NAN))
edge(EMPTY, "`logsumexp(1)` of (2, 0)", "-inf", lambda T, x: x.logsumexp(1), empty(2, 0), value=[-INF, -INF])
edge(EMPTY, "`norm`", "0", lambda T, x: x.norm(), empty(0), value=0.0)
edge(EMPTY, "`median()`", "NaN", lambda T, x: x.median(), empty(0), value=NAN)
edge(
    EMPTY,
    "`cumsum`, `cumprod`, `logcumsumexp`",
    "nothing",
    lambda T, x: (x.cumsum(1), x.cumprod(1), x.logcumsumexp(1)),
    empty(2, 0),
    value=([], [], []),
)
edge(EMPTY, "`max()`", "RuntimeError", lambda T, x: x.max(), empty(0), raises=(RuntimeError, "numel"))
edge(
    EMPTY,
    "`amax(1)`, `max(1)` of (2, 0)",
    "IndexError",
    lambda T, x: x.amax(1),
    empty(2, 0),
    raises=(IndexError, "non-zero size"),
)
edge(EMPTY, "`argmax()`", "IndexError", lambda T, x: x.argmax(), empty(0), raises=(IndexError, "non-zero size"))
edge(EMPTY, "`amax(1)` of (0, 3)", "(0,)", lambda T, x: x.amax(1), empty(0, 3), value=[])
edge(
    EMPTY,
    "elementwise functions",
    "nothing",
    lambda T, x: (x + 1, x.exp(), T.maximum(x, x)),
    empty(0, 3),
    value=([], [], []),
)
edge(EMPTY, "`quantile`", "RuntimeError", lambda T, x: x.quantile(0.5), empty(0), raises=(RuntimeError, "non-empty"))

SCALAR = "0-d tensors"
edge(
    SCALAR,
    "`sum(0)`, `max(0)`, `cumsum(0)`",
    "the number itself; index 0",
    lambda T, x: (x.sum(0), *x.max(0), x.cumsum(0)),
    3.0,
    value=(3.0, 3.0, 0, 3.0),
)
edge(SCALAR, "`sum(-1, keepdim=True)`", "0-d", lambda T, x: x.sum(-1, keepdim=True), 3.0, value=3.0)
edge(SCALAR, "`sum(1)`", "IndexError", lambda T, x: x.sum(1), 3.0, raises=(IndexError, "out of range"))
edge(
    SCALAR,
    "`median(0)`, `quantile(0.5)`",
    "the number itself",
    lambda T, x: (*x.median(0), x.quantile(0.5)),
    3.0,
    value=(3.0, 0, 3.0),
)

NANS = "NaN in reductions"
edge(
    NANS,
    "`max()`, `min()`, `amax`",
    "NaN",
    lambda T, x: (x.max(), x.min(), x.amax(0)),
    [1.0, NAN, 3.0],
    value=(NAN, NAN, NAN),
)
edge(
    NANS,
    "`argmax`, `max(dim)`",
    "where the first NaN stands",
    lambda T, x: (x.argmax(), x.max(0)[1]),
    [1.0, NAN, 3.0, NAN],
    value=(1, 1),
)
edge(
    NANS,
    "`cummax`",
    "NaN from there on; the index is the latest NaN's",
    lambda T, x: tuple(T.cummax(x, 0)),
    [1.0, NAN, 3.0, NAN],
    value=([1.0, NAN, NAN, NAN], [0, 1, 1, 3]),
)
edge(
    NANS,
    "`nansum`, `nanmean`",
    "without the NaN, which gets no gradient",
    lambda T, x: (T.nansum(x), T.nanmean(x)),
    [1.0, NAN, 3.0],
    value=(4.0, 2.0),
    grads=[[1.5, 0.0, 1.5]],
)
edge(
    NANS,
    "`median`, `nanmedian`",
    "NaN; the median of the numbers",
    lambda T, x: (T.median(x), T.nanmedian(x)),
    [1.0, NAN, 3.0, 2.0],
    value=(NAN, 2.0),
)
edge(
    NANS,
    "`quantile`, `nanquantile`",
    "NaN; of the numbers",
    lambda T, x: (T.quantile(x, 0.5), T.nanquantile(x, 0.5)),
    [1.0, NAN, 3.0],
    value=(NAN, 2.0),
)
edge(NANS, "`any`, `all`", "NaN is true", lambda T, x: (x.any(), x.all()), [NAN, NAN], value=(True, True))
