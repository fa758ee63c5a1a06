"""`run`: every figure that a model decides is checked eagerly and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tinygrad_lite as tl


@pytest.fixture(params=["eager", "compiled"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function itself, or compiled."""
    return tl.compile if request.param == "compiled" else lambda fn: fn


@pytest.fixture(autouse=True)
def seed() -> None:
    tl.manual_seed(0)
