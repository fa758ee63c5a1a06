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


class RMSprop:
    def __init__(self, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False, maximize=False):
        self.lr, self.alpha, self.eps, self.weight_decay = lr, alpha, eps, weight_decay
        self.momentum, self.centered, self.sign = momentum, centered, -1 if maximize else 1
        self.first, self.second, self.velocity = 0.0, 0.0, 0.0

    def step(self, p: np.ndarray, g: np.ndarray) -> np.ndarray:
        g = self.sign * g + self.weight_decay * p
        self.first = self.alpha * self.first + (1 - self.alpha) * g
        self.second = self.alpha * self.second + (1 - self.alpha) * g**2
        variance = self.second - self.first**2 if self.centered else self.second
        self.velocity = self.momentum * self.velocity + g / (np.sqrt(variance) + self.eps)
        return p - self.lr * self.velocity


class Adagrad:
    def __init__(
        self, lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10, maximize=False
    ):
        self.lr, self.lr_decay, self.weight_decay, self.eps = lr, lr_decay, weight_decay, eps
        self.total, self.sign, self.t = initial_accumulator_value, -1 if maximize else 1, 0

    def step(self, p: np.ndarray, g: np.ndarray) -> np.ndarray:
        g = self.sign * g + self.weight_decay * p
        self.total = self.total + g**2
        rate = self.lr / (1 + self.t * self.lr_decay)
        self.t += 1
        return p - rate * g / (np.sqrt(self.total) + self.eps)


class Adadelta:
    def __init__(self, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0, maximize=False):
        self.lr, self.rho, self.eps, self.weight_decay = lr, rho, eps, weight_decay
        self.sign, self.gradients, self.changes = -1 if maximize else 1, 0.0, 0.0

    def step(self, p: np.ndarray, g: np.ndarray) -> np.ndarray:
        g = self.sign * g + self.weight_decay * p
        self.gradients = self.rho * self.gradients + (1 - self.rho) * g**2
        change = g * np.sqrt((self.changes + self.eps) / (self.gradients + self.eps))
        self.changes = self.rho * self.changes + (1 - self.rho) * change**2
        return p - self.lr * change


class Adamax:
    def __init__(self, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, maximize=False):
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.sign, self.t, self.m, self.u = -1 if maximize else 1, 0, 0.0, 0.0

    def step(self, p: np.ndarray, g: np.ndarray) -> np.ndarray:
        g, (b1, b2) = self.sign * g + self.weight_decay * p, self.betas
        self.t += 1
        self.m = b1 * self.m + (1 - b1) * g
        self.u = np.maximum(b2 * self.u, np.abs(g) + self.eps)
        return p - self.lr / (1 - b1**self.t) * self.m / self.u


class NAdam:
    def __init__(
        self,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
        maximize=False,
    ):
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.decay, self.decoupled, self.sign = momentum_decay, decoupled_weight_decay, -1 if maximize else 1
        self.t, self.m, self.v, self.product = 0, 0.0, 0.0, 1.0

    def step(self, p: np.ndarray, g: np.ndarray) -> np.ndarray:
        g, (b1, b2) = self.sign * g, self.betas
        if self.decoupled:
            p = p - self.lr * self.weight_decay * p
        else:
            g = g + self.weight_decay * p
        self.t += 1
        mu, following = (b1 * (1 - 0.5 * 0.96 ** (t * self.decay)) for t in (self.t, self.t + 1))
        self.product *= mu
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g * g
        ahead = following * self.m / (1 - self.product * following) + (1 - mu) * g / (1 - self.product)
        return p - self.lr * ahead / (np.sqrt(self.v / (1 - b2**self.t)) + self.eps)


class RAdam:
    def __init__(
        self,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.0,
        decoupled_weight_decay=False,
        maximize=False,
    ):
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.decoupled, self.sign = decoupled_weight_decay, -1 if maximize else 1
        self.t, self.m, self.v = 0, 0.0, 0.0

    def step(self, p: np.ndarray, g: np.ndarray) -> np.ndarray:
        g, (b1, b2) = self.sign * g, self.betas
        if self.decoupled:
            p = p - self.lr * self.weight_decay * p
        else:
            g = g + self.weight_decay * p
        self.t += 1
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g * g
        mean, longest = self.m / (1 - b1**self.t), 2 / (1 - b2) - 1
        length = longest - 2 * self.t * b2**self.t / (1 - b2**self.t)
        if length <= 5:
            return p - self.lr * mean
        r = np.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))
        return p - self.lr * mean * r * np.sqrt(1 - b2**self.t) / (np.sqrt(self.v) + self.eps)


class Rprop:
    def __init__(self, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50.0), maximize=False):
        self.etas, self.step_sizes, self.sign = etas, step_sizes, -1 if maximize else 1
        self.size, self.before = lr, 0.0

    def step(self, p: np.ndarray, g: np.ndarray) -> np.ndarray:
        g = self.sign * g
        turned, kept = g * self.before < 0, g * self.before > 0
        self.size = self.size * np.where(turned, self.etas[0], np.where(kept, self.etas[1], 1.0))
        self.size = np.minimum(np.maximum(self.size, self.step_sizes[0]), self.step_sizes[1])
        self.before = np.where(turned, 0.0, g)
        return p - np.sign(self.before) * self.size


class ASGD:
    def __init__(self, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0, maximize=False):
        self.lr, self.lambd, self.alpha, self.t0 = lr, lambd, alpha, t0
        self.weight_decay, self.sign, self.t, self.eta = weight_decay, -1 if maximize else 1, 0, lr

    def step(self, p: np.ndarray, g: np.ndarray) -> np.ndarray:
        g = self.sign * g + self.weight_decay * p
        p = p - self.eta * (g + self.lambd * p)
        self.t += 1
        self.eta = self.lr / (1 + self.lambd * self.lr * self.t) ** self.alpha
        return p
