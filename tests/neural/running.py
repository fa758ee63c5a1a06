"""Running a case: results, then gradients of a weighted sum of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.neural.cases import Case


def results_of(out: Any) -> list[Any]:
    return [x for x in (out if isinstance(out, tuple | list) else [out]) if x is not None]


def weighted_sum(lib: Any, results: list[Any]) -> Any:
    """Σ cos(i) x_i over the floating results."""
    total = None
    for x in results:
        if x.is_floating_point():
            weights = np.cos(np.arange(x.numel())).reshape(tuple(x.shape))
            term = (x * lib.tensor(weights, dtype=x.dtype)).sum()
            total = term if total is None else total + term
    return total


def tolerance(case: Case) -> dict[str, float]:
    exact = all(a.dtype != np.float32 for a in case.arrays)
    return {"rtol": 1e-9, "atol": 1e-11} if exact else {"rtol": 2e-5, "atol": 2e-5}


def tensors_of(lib: Any, case: Case) -> list[Any]:
    return [lib.tensor(a, requires_grad=a.dtype.kind == "f") for a in case.arrays]


def with_gradients(lib: Any, functional: Any, case: Case) -> list[np.ndarray]:
    """Results and gradients as arrays; no gradient is a gradient of 0."""
    xs = tensors_of(lib, case)
    results = results_of(case.run(lib, functional, *xs))
    weighted_sum(lib, results).backward()
    grads = [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in xs if x.requires_grad]
    return [r.detach().numpy() for r in results] + grads
