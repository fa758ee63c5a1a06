"""Weight normalisation under its older name, with parameters weight_g and weight_v; see also parametrizations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.parameter import Parameter
from tinygrad_lite.nn.utils.computed import Rule, checked, compute, forget, rules
from tinygrad_lite.tensor import Tensor


def norm_except_dim(v: Tensor, dim: int | None) -> Tensor:
    """The 2-norm over all axes but one, which keep size 1; over all of them, a 0-d tensor, for None or -1.

    Raises:
        IndexError: no such axis.
    """
    if dim is None or dim == -1:
        return (v * v).sum().sqrt()
    if not 0 <= dim < v.dim():
        raise IndexError(f"weight_norm: dim must be None or lie in [0, {v.dim()}), not {dim}")
    others = [d for d in range(v.dim()) if d != dim]
    return ((v * v).sum(others, keepdim=True) if others else v * v).sqrt()


def normed(g: Tensor, v: Tensor, dim: int | None) -> Tensor:
    """g v / ‖v‖."""
    return v * (g / norm_except_dim(v, dim))


@dataclass(frozen=True)
class _WeightNorm(Rule):
    name: str
    dim: int | None

    def value(self, module: Any) -> Tensor:
        return normed(getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v"), self.dim)


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Let a weight be g v / ‖v‖, with parameters `{name}_g` and `{name}_v` in its place. Salimans & Kingma 2016.

    arXiv:1602.07868. The norm is over all axes but `dim`, or over all for None. Returns the module.

    Raises:
        ValueError: no parameter of that name. RuntimeError: it is computed already. IndexError: no such axis.
    """
    weight = checked(module, name, "weight_norm")
    size = norm_except_dim(weight.detach(), dim)
    del module._parameters[name]
    module.register_parameter(f"{name}_g", Parameter(size))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    compute(module, _WeightNorm(name, dim))
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a parameter again, of its present value. ValueError where it has no weight norm."""
    for rule in rules(module):
        if isinstance(rule, _WeightNorm) and rule.name == name:
            weight = rule.value(module).detach()
            forget(module, rule)
            del module._parameters[f"{name}_g"], module._parameters[f"{name}_v"]
            module.register_parameter(name, Parameter(weight))
            return module
    raise ValueError(f"remove_weight_norm: the {type(module).__name__} has no weight norm of '{name}'")
