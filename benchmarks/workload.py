"""One training workload under one library, in one process. Prints a line of JSON: times, losses, memory.

python benchmarks/workload.py gpt-nano --library torch --mode compile

A step is zero_grad, forward, cross-entropy, backward, clip_grad_norm_(1.0), AdamW.step; the model is written once, in
the names that both libraries share.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import itertools
import json
import os
import resource
import statistics
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np


def build_gpt(lib: ModuleType, vocabulary: int, block: int, layers: int, width: int, heads: int) -> Any:
    """Pre-norm GPT without biases, exact GELU, untied head; forward: (B, T) ids to (B * T, vocabulary) logits."""
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width, bias=False)
            self.proj = nn.Linear(width, width, bias=False)
            self.fc = nn.Linear(width, 4 * width, bias=False)
            self.fc2 = nn.Linear(4 * width, width, bias=False)

        def forward(self, x):
            B, T, C = x.shape
            q, k, v = (t.view(B, T, heads, C // heads).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(C, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, heads, T, C / heads)
            x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
            return x + self.fc2(F.gelu(self.fc(self.ln2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.ln = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, ids):
            x = self.wte(ids) + self.wpe(lib.arange(ids.shape[1]))
            for part in self.blocks:
                x = part(x)
            return self.head(self.ln(x)).reshape(-1, vocabulary)

    return GPT()


def build_mlp(lib: ModuleType, *sizes: int) -> Any:
    """Linear layers with ReLU between them."""
    nn = lib.nn
    layers: list[Any] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def build_lenet(lib: ModuleType) -> Any:
    """Two 3x3 convolutions with 2x2 max pools, then two linear layers; 28x28 inputs."""
    nn = lib.nn
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64 * 49, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


def build_resnet8(lib: ModuleType) -> Any:
    """A stem and three basic blocks with batch norm; 32x32 inputs."""
    nn, F = lib.nn, lib.nn.functional

    def conv_bn(inputs: int, outputs: int, kernel: int, stride: int) -> list[Any]:
        padding = kernel // 2
        return [nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False), nn.BatchNorm2d(outputs)]

    class Basic(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Sequential(*conv_bn(inputs, outputs, 3, stride))
            self.second = nn.Sequential(*conv_bn(outputs, outputs, 3, 1))
            same = inputs == outputs and stride == 1
            self.shortcut = nn.Identity() if same else nn.Sequential(*conv_bn(inputs, outputs, 1, stride))

        def forward(self, x):
            return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))

    stem = [*conv_bn(3, 32, 3, 1), nn.ReLU()]
    blocks = [Basic(32, 32, 1), Basic(32, 64, 2), Basic(64, 128, 2)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def build_recurrent(lib: ModuleType, kind: str) -> Any:
    """One layer of LSTM or GRU, 64 to 256, and a linear layer on its last output."""
    nn = lib.nn

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = getattr(nn, kind)(64, 256, batch_first=True)
            self.out = nn.Linear(256, 10)

        def forward(self, x):
            return self.out(self.layer(x)[0][:, -1])

    return Recurrent()


class Workload:
    """A model, and the shapes of one batch: float inputs with class targets, or ids with ids."""

    def __init__(
        self, build: Callable[[ModuleType], Any], inputs: tuple[int, ...], classes: int, ids: bool = False
    ) -> None:
        self.build, self.inputs, self.classes, self.ids = build, inputs, classes, ids

    def batch(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets."""
        if self.ids:
            return rng.integers(0, self.classes, self.inputs), rng.integers(0, self.classes, self.inputs).ravel()
        x = rng.standard_normal(self.inputs).astype(np.float32)
        return x, rng.integers(0, self.classes, self.inputs[0])


def gpt(batch: int, block: int, layers: int, width: int, heads: int) -> Workload:
    """A GPT workload over 65 characters."""
    return Workload(lambda lib: build_gpt(lib, 65, block, layers, width, heads), (batch, block), 65, ids=True)


WORKLOADS = {
    "moons": Workload(lambda lib: build_mlp(lib, 2, 16, 16, 2), (100, 2), 2),
    "mlp": Workload(lambda lib: build_mlp(lib, 784, 512, 512, 10), (128, 784), 10),
    "lenet": Workload(build_lenet, (64, 1, 28, 28), 10),
    "resnet8": Workload(build_resnet8, (32, 3, 32, 32), 10),
    "lstm": Workload(lambda lib: build_recurrent(lib, "LSTM"), (32, 128, 64), 10),
    "gru": Workload(lambda lib: build_recurrent(lib, "GRU"), (32, 128, 64), 10),
    "gpt-nano": gpt(12, 64, 4, 128, 4),
    "gpt-small": gpt(8, 128, 6, 256, 8),
    "gpt-mid": gpt(4, 256, 6, 384, 6),
    "gpt-long": gpt(1, 1024, 4, 256, 4),
}


def make_step(lib: ModuleType, model: Any, compiled: bool) -> Callable[[Any, Any], Any]:
    """(inputs, targets) -> loss. torch.compile takes the model, its optimiser being fused already; ours the step."""
    nn, F, is_torch = lib.nn, lib.nn.functional, lib.__name__ == "torch"
    extra = {"fused": True} if is_torch else {}
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, betas=(0.9, 0.99), **extra)
    forward = lib.compile(model) if is_torch and compiled else model

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return lib.compile(step) if compiled and not is_torch else step


def resident_mb() -> float:
    """Memory of this process now, MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(step: Callable[[Any, Any], Any], x: Any, y: Any, seconds: float) -> dict[str, Any]:
    """First call, two more, then timed ones for `seconds`."""
    start = time.perf_counter()
    losses = [float(step(x, y).item())]
    first = time.perf_counter() - start
    losses += [float(step(x, y).item()) for _ in range(2)]
    times: list[float] = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or len(times) < 5:
        start = time.perf_counter()
        loss = step(x, y)
        times.append(time.perf_counter() - start)
    losses.append(float(loss.item()))
    return {
        "ms": round(statistics.median(times) * 1e3, 4),
        "min_ms": round(min(times) * 1e3, 4),
        "steps": len(times),
        "first_s": round(first, 2),
        "losses": [round(value, 5) for value in losses],
    }


def main() -> None:
    """Run the workload that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("--library", choices=("torch", "tinygrad_lite"), required=True)
    parser.add_argument("--mode", choices=("eager", "compile"), default="compile")
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    start = time.perf_counter()
    lib = importlib.import_module(options.library)
    for part in ("nn", "nn.functional", "optim"):
        importlib.import_module(f"{options.library}.{part}")
    imported = time.perf_counter() - start
    lib.manual_seed(0)
    gc.collect()
    before = resident_mb()
    workload = WORKLOADS[options.name]
    model = workload.build(lib)
    x, y = map(lib.from_numpy, workload.batch(np.random.default_rng(0)))
    step = make_step(lib, model, options.mode == "compile")
    result = measure(step, x, y, options.seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result |= {"name": options.name, "library": options.library, "mode": options.mode, "import_s": round(imported, 2)}
    result |= {"growth_mb": round(peak - before, 1), "parameters": sum(p.numel() for p in model.parameters())}
    if options.library == "tinygrad_lite" and options.mode == "compile":
        from report import details

        result |= details(step, result["ms"] / 1e3)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
