"""Optimisers in NumPy, one array at a time, in float64 and straight from their papers."""

from __future__ import annotations

import numpy as np


class SGD:
    def __init__(self, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False):
        self.lr, self.momentum, self.dampening = lr, momentum, dampening
        self.weight_decay, self.nesterov, self.sign = weight_decay, nesterov, -1 if maximize else 1
        self.velocity = None

    def step(self, p: np.ndarray, g: np.ndarray) -> np.ndarray:
        g = self.sign * g + self.weight_decay * p
        if self.momentum:
            first = self.velocity is None
            self.velocity = g if first else self.momentum * self.velocity + (1 - self.dampening) * g
            g = g + self.momentum * self.velocity if self.nesterov else self.velocity
        return p - self.lr * g


class Adam:
    def __init__(
        self, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, maximize=False, decoupled=False
    ):
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.amsgrad, self.sign, self.decoupled = amsgrad, -1 if maximize else 1, decoupled
        self.t, self.m, self.v, self.largest = 0, 0.0, 0.0, 0.0

    def step(self, p: np.ndarray, g: np.ndarray) -> np.ndarray:
        g, (b1, b2) = self.sign * g, self.betas
        if self.decoupled:
            p = p - self.lr * self.weight_decay * p
        else:
            g = g + self.weight_decay * p
        self.t += 1
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g * g
        self.largest = np.maximum(self.largest, self.v)
        v = self.largest if self.amsgrad else self.v
        return p - self.lr * (self.m / (1 - b1**self.t)) / (np.sqrt(v / (1 - b2**self.t)) + self.eps)


class AdamW(Adam):
    def __init__(self, weight_decay=1e-2, **options):
        super().__init__(weight_decay=weight_decay, decoupled=True, **options)
