"""The GPT's training step in NumPy, written by hand and apart from the library: float64, explicit derivatives.

Weights are a dict from the model's state_dict names to arrays. Nothing of tinygrad_lite is imported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy.special import erf

Arrays = dict[str, np.ndarray]


def _linear(x, w: Arrays, name: str):
    y = x @ w[f"{name}.weight"].T
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def _linear_back(dy, x, w: Arrays, g: Arrays, name: str):
    rows, columns = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    g[f"{name}.weight"] = g.get(f"{name}.weight", 0) + columns.T @ rows
    if f"{name}.bias" in w:
        g[f"{name}.bias"] = columns.sum(0)
    return dy @ w[f"{name}.weight"]


def _norm(x, w: Arrays, name: str):
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    unit = centred * scale
    y = unit * w[f"{name}.weight"]
    return (y + w[f"{name}.bias"] if f"{name}.bias" in w else y), (unit, scale)


def _norm_back(dy, kept, w: Arrays, g: Arrays, name: str):
    unit, scale = kept
    g[f"{name}.weight"] = (dy * unit).reshape(-1, unit.shape[-1]).sum(0)
    if f"{name}.bias" in w:
        g[f"{name}.bias"] = dy.reshape(-1, unit.shape[-1]).sum(0)
    d = dy * w[f"{name}.weight"]
    return scale * (d - d.mean(-1, keepdims=True) - unit * (d * unit).mean(-1, keepdims=True))


def _gelu(x, kind: str):
    """Value and derivative."""
    if kind == "none":
        phi = 0.5 * (1 + erf(x / math.sqrt(2)))
        return x * phi, phi + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    c, k = math.sqrt(2 / math.pi), 0.044715
    t = np.tanh(c * (x + k * x**3))
    return 0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * c * (1 + 3 * k * x**2)


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _attention(x, w: Arrays, name: str, heads: int):
    B, T, C = x.shape
    parts = np.split(_linear(x, w, f"{name}.qkv"), 3, axis=-1)
    q, k, v = (part.reshape(B, T, heads, C // heads).transpose(0, 2, 1, 3) for part in parts)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(C // heads)
    weights = _softmax(np.where(np.tril(np.ones((T, T), bool)), scores, -np.inf))
    y = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
    return _linear(y, w, f"{name}.proj"), (x, q, k, v, weights, y)


def _attention_back(dout, kept, w: Arrays, g: Arrays, name: str, heads: int):
    x, q, k, v, weights, y = kept
    B, T, C = x.shape
    dy = _linear_back(dout, y, w, g, f"{name}.proj").reshape(B, T, heads, C // heads).transpose(0, 2, 1, 3)
    dweights = dy @ v.swapaxes(-1, -2)
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdims=True)) / math.sqrt(C // heads)
    parts = dscores @ k, dscores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ dy
    dqkv = np.concatenate([part.transpose(0, 2, 1, 3).reshape(B, T, C) for part in parts], axis=-1)
    return _linear_back(dqkv, x, w, g, f"{name}.qkv")


def _block(x, w: Arrays, name: str, config):
    normed, n1 = _norm(x, w, f"{name}.ln_1")
    branch, attn = _attention(normed, w, f"{name}.attn", config.n_head)
    x = x + branch
    wide_in, n2 = _norm(x, w, f"{name}.ln_2")
    wide, slope = _gelu(_linear(wide_in, w, f"{name}.mlp.fc"), config.gelu)
    return x + _linear(wide, w, f"{name}.mlp.proj"), (n1, attn, n2, wide_in, wide, slope)


def _block_back(dx, kept, w: Arrays, g: Arrays, name: str, config):
    n1, attn, n2, wide_in, wide, slope = kept
    dwide = _linear_back(dx, wide, w, g, f"{name}.mlp.proj") * slope
    dx = dx + _norm_back(_linear_back(dwide, wide_in, w, g, f"{name}.mlp.fc"), n2, w, g, f"{name}.ln_2")
    dnormed = _attention_back(dx, attn, w, g, f"{name}.attn", config.n_head)
    return dx + _norm_back(dnormed, n1, w, g, f"{name}.ln_1")


def _forward(config, w: Arrays, idx):
    x = w["wte.weight"][idx] + w["wpe.weight"][: idx.shape[1]]
    kept = []
    for i in range(config.n_layer):
        x, saved = _block(x, w, f"blocks.{i}", config)
        kept.append(saved)
    x, last = _norm(x, w, "ln_f")
    return _linear(x, w, "head"), (kept, last, x)


def reference_logits(config, weights: Arrays, idx: np.ndarray) -> np.ndarray:
    """(B, T) ids to (B, T, vocab_size) logits."""
    return _forward(config, _float64(weights), idx)[0]


def reference_gradients(config, weights: Arrays, idx: np.ndarray, targets: np.ndarray) -> tuple[float, Arrays]:
    """The mean cross-entropy and its gradients; a tied pair has one gradient, under "wte.weight"."""
    w, g = _float64(weights), {}
    logits, (kept, last, x) = _forward(config, w, idx)
    probabilities = _softmax(logits)
    at = *np.indices(targets.shape), targets
    loss = -np.log(probabilities[at]).mean()
    probabilities[at] -= 1
    dx = _linear_back(probabilities / targets.size, x, w, g, "head")
    dx = _norm_back(dx, last, w, g, "ln_f")
    for i in reversed(range(config.n_layer)):
        dx = _block_back(dx, kept[i], w, g, f"blocks.{i}", config)
    g["wte.weight"] = g.pop("head.weight") if config.tied else np.zeros_like(w["wte.weight"])
    np.add.at(g["wte.weight"], idx, dx)
    g["wpe.weight"] = np.zeros_like(w["wpe.weight"])
    g["wpe.weight"][: idx.shape[1]] = dx.sum(0)
    return float(loss), g


def reference_losses(
    config,
    weights: Arrays,
    batches: Iterable[tuple[np.ndarray, np.ndarray]],
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.1,
    max_norm: float | None = 1.0,
) -> list[float]:
    """The loss before each AdamW step on one batch after the other; dropout is off, only matrices decay.

    `lr` may be a function of the step, counted from 0. The arrays in `weights` are left alone.
    """
    w = {name: value.copy() for name, value in _float64(weights).items()}
    mean = {name: np.zeros_like(value) for name, value in w.items()}
    square = {name: np.zeros_like(value) for name, value in w.items()}
    losses = []
    for step, (idx, targets) in enumerate(batches, 1):
        loss, g = reference_gradients(config, w, idx, targets)
        losses.append(loss)
        norm = math.sqrt(sum((d**2).sum() for d in g.values()))
        factor = 1.0 if max_norm is None else min(1.0, max_norm / (norm + 1e-6))
        rate = lr(step - 1) if callable(lr) else lr
        for name, d in g.items():
            d = d * factor
            if w[name].ndim >= 2:
                w[name] -= rate * weight_decay * w[name]
            mean[name] = betas[0] * mean[name] + (1 - betas[0]) * d
            square[name] = betas[1] * square[name] + (1 - betas[1]) * d**2
            m, v = mean[name] / (1 - betas[0] ** step), square[name] / (1 - betas[1] ** step)
            w[name] -= rate * m / (np.sqrt(v) + eps)
        if config.tied:
            w["head.weight"] = w["wte.weight"]
    return losses


def _float64(weights: Arrays) -> Arrays:
    return {name: np.asarray(value, np.float64) for name, value in weights.items()}
