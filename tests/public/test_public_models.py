"""Model files in PyTorch's style, unchanged but for their import lines: eager, compiled, and as torch runs them."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FILES = sorted(Path(__file__).with_name("models").glob("*.py"))
OURS = {
    r"^import torch$": "import tinygrad_lite as torch",
    r"^import torch\.nn as nn$": "import tinygrad_lite.nn as nn",
    r"^import torch\.nn\.functional as F$": "import tinygrad_lite.nn.functional as F",
    r"^from torch import nn$": "from tinygrad_lite import nn",
    r"^from torch\.nn import functional as F$": "from tinygrad_lite.nn import functional as F",
    r"^from torch\.nn import Module$": "from tinygrad_lite.nn import Module",
    r"^from torch\.nn\.parameter import Parameter$": "from tinygrad_lite.nn.parameter import Parameter",
}
STEPS = 4


def module_of(path: Path, library: str) -> types.ModuleType:
    text = path.read_text(encoding="utf-8")
    if library == "tinygrad_lite":
        for theirs, ours in OURS.items():
            text = re.sub(theirs, ours, text, flags=re.MULTILINE)
        assert not re.search(r"^(import|from) torch\b", text, re.MULTILINE)
    name = f"public_{library}_{path.stem}"
    module = types.ModuleType(name)
    sys.modules[name] = module  # dataclasses look their module up
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


def train(path: Path, lib: Any, weights: dict[str, np.ndarray] | None, compiled: bool) -> tuple[list[float], Any]:
    """Losses of a few AdamW steps, and the weights before them."""
    module = module_of(path, lib.__name__)
    lib.manual_seed(0)
    model = module.make()
    if weights is not None:
        model.load_state_dict({k: lib.from_numpy(v.copy()) for k, v in weights.items()})
    before = {k: v.detach().numpy().copy() for k, v in model.state_dict().items()}
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = (lib.from_numpy(np.ascontiguousarray(a)) for a in module.inputs(np.random.default_rng(0)))

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = module.loss_fn(model, x, y)
        loss.backward()
        lib.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    run = lib.compile(step) if compiled else step
    return [float(run(x, y)) for _ in range(STEPS)], before


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_runs_compiled_as_it_does_eagerly(path: Path) -> None:
    import tinygrad_lite as tl

    eager, weights = train(path, tl, None, compiled=False)
    native, _ = train(path, tl, weights, compiled=True)
    np.testing.assert_allclose(native, eager, rtol=2e-4)
    assert eager[-1] < eager[0]


@pytest.mark.torch
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_agrees_with_torch(path: Path) -> None:
    torch = pytest.importorskip("torch")
    import tinygrad_lite as tl

    expected, weights = train(path, torch, None, compiled=False)
    found, _ = train(path, tl, weights, compiled=True)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
