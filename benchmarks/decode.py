"""Greedy decoding with a KV cache under one library, in one process. Prints a line of JSON: milliseconds a token.

python benchmarks/decode.py --library torch --mode compile

gpt-nano, one row: from a prompt of one token to the end of the context. Both sides have the same weights, so they must
write the same text.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from workload import resident_mb

VOCABULARY, BLOCK, LAYERS, WIDTH, HEADS = 65, 64, 4, 128, 4
TOKENS = BLOCK - 1  # the prompt is one
Decode = Callable[[], list[int]]


def weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """gpt-nano's parameters by the names of `models.gpt`; wide enough that the text goes on and no choice is close."""
    products = {"attn.qkv": (3 * WIDTH, WIDTH), "attn.proj": (WIDTH, WIDTH)}
    products |= {"mlp.fc": (4 * WIDTH, WIDTH), "mlp.proj": (WIDTH, 4 * WIDTH)}
    tables = {"wte": (VOCABULARY, WIDTH), "wpe": (BLOCK, WIDTH), "head": (VOCABULARY, WIDTH)}
    tables |= {f"blocks.{i}.{name}": shape for i in range(LAYERS) for name, shape in products.items()}
    norms = ["ln_f", *(f"blocks.{i}.{name}" for i in range(LAYERS) for name in ("ln_1", "ln_2"))]
    found = {f"{name}.weight": 0.2 * rng.standard_normal(shape) for name, shape in tables.items()}
    found |= {f"{name}.bias": 0.2 * rng.standard_normal(shape[0]) for name, shape in tables.items() if "blocks" in name}
    found |= {f"{name}.weight": 1 + 0.2 * rng.standard_normal(WIDTH) for name in norms}
    found |= {f"{name}.bias": 0.2 * rng.standard_normal(WIDTH) for name in norms}
    return {name: value.astype(np.float32) for name, value in found.items()}


def build_decoder(values: dict[str, np.ndarray]) -> Any:
    """`models.gpt` with these weights."""
    import tinygrad_lite as tl
    from tinygrad_lite.models.gpt import GPT, GPTConfig

    model = GPT(GPTConfig(VOCABULARY, BLOCK, LAYERS, HEADS, WIDTH, tied=False)).eval()
    model.load_state_dict({name: tl.from_numpy(value) for name, value in values.items()})
    return model


def ours(compiled: bool, values: dict[str, np.ndarray]) -> tuple[Decode, Any]:
    """`models.generate.generate`, as anybody would call it; and the program that writes a token."""
    import tinygrad_lite as tl
    from tinygrad_lite.models.generate import decoder_of, generate

    model = build_decoder(values)
    prompt = tl.zeros(1, 1, dtype=tl.int64)

    def decode() -> list[int]:
        return generate(model, prompt, TOKENS, temperature=0, compiled=compiled).numpy()[0].tolist()

    def program() -> Any:
        writer = decoder_of(model, 1, compiled).writer
        writer.place.fill_(BLOCK // 2)  # at the end of the context there is nothing left to measure
        return writer.advance

    return decode, program


def torchs(compiled: bool, values: dict[str, np.ndarray]) -> tuple[Decode, Any]:
    """PyTorch's functions on a cache of fixed size; eagerly only the part of it that is filled is looked at."""
    import torch
    from torch.nn import functional as F

    w = {name: torch.from_numpy(value) for name, value in values.items()}
    size = WIDTH // HEADS
    keys, kept = (torch.zeros(LAYERS, 1, HEADS, BLOCK, size) for _ in range(2))
    places = torch.arange(BLOCK)

    def norm(x: Any, name: str) -> Any:
        return F.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"])

    def linear(x: Any, name: str) -> Any:
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def step(token: Any, position: Any, filled: int) -> Any:
        x = w["wte.weight"][token] + w["wpe.weight"][position]  # (1, WIDTH)
        for i in range(LAYERS):
            qkv = linear(norm(x, f"blocks.{i}.ln_1"), f"blocks.{i}.attn.qkv")
            q, k, v = qkv.view(1, 1, 3, HEADS, size).permute(2, 0, 3, 1, 4)  # (1, HEADS, 1, size) each
            keys[i].index_copy_(2, position, k)
            kept[i].index_copy_(2, position, v)
            mask = None if filled else (places <= position)[None]
            end = filled or BLOCK
            y = F.scaled_dot_product_attention(q, keys[i, :, :, :end], kept[i, :, :, :end], mask)
            x = x + linear(y.reshape(1, WIDTH), f"blocks.{i}.attn.proj")
            hidden = F.gelu(linear(norm(x, f"blocks.{i}.ln_2"), f"blocks.{i}.mlp.fc"))
            x = x + linear(hidden, f"blocks.{i}.mlp.proj")
        return F.linear(norm(x, "ln_f"), w["head.weight"]).argmax(-1)

    run = torch.compile(step) if compiled else step

    def decode() -> list[int]:
        tokens = [torch.zeros(1, dtype=torch.int64)]
        with torch.no_grad():
            for i in range(TOKENS):
                tokens.append(run(tokens[-1], places[i : i + 1], 0 if compiled else i + 1))
        return torch.cat(tokens).tolist()

    return decode, None


def measure(decode: Decode, seconds: float) -> dict[str, Any]:
    """First text, two more, then timed ones for `seconds`; figures a token."""
    start = time.perf_counter()
    text = decode()
    first = time.perf_counter() - start
    assert decode() == text and decode() == text
    times: list[float] = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or len(times) < 5:
        start = time.perf_counter()
        decode()
        times.append((time.perf_counter() - start) / TOKENS)
    ms = statistics.median(times) * 1e3
    return {
        "ms": round(ms, 5),
        "min_ms": round(min(times) * 1e3, 5),
        "tokens_per_s": round(1e3 / ms),
        "steps": len(times) * TOKENS,
        "first_s": round(first, 2),
        "losses": text,  # what both sides must agree in
    }


def main() -> None:
    """Decode with the library that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", choices=("torch", "tinygrad_lite"), required=True)
    parser.add_argument("--mode", choices=("eager", "compile"), default="compile")
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    start = time.perf_counter()
    importlib.import_module(options.library)
    imported = time.perf_counter() - start
    gc.collect()
    before = resident_mb()
    values = weights(np.random.default_rng(0))
    make = torchs if options.library == "torch" else ours
    decode, program = make(options.mode == "compile", values)
    result = measure(decode, options.seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result |= {"name": "decode", "library": options.library, "mode": options.mode, "import_s": round(imported, 2)}
    result |= {"growth_mb": round(peak - before, 1), "parameters": sum(v.size for v in values.values())}
    if options.library == "tinygrad_lite" and options.mode == "compile":
        from report import details

        result |= details(program(), result["ms"] / 1e3)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
