"""Checking and copying of state dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tinygrad_lite.autograd import no_grad
from tinygrad_lite.nn.parameter import Uninitialized
from tinygrad_lite.tensor import Tensor, as_tensor


class Incompatible(NamedTuple):
    """What `load_state_dict` could not match."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"Incompatible(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def check_loadable(
    name: str, own: Mapping[str, Tensor], given: Mapping[str, Any], strict: bool
) -> tuple[list[str], list[str]]:
    """The missing and the unexpected keys. RuntimeError lists all that does not fit, before anything is copied."""
    missing = [key for key in own if key not in given]
    unexpected = [key for key in given if key not in own]
    problems = []
    if strict and unexpected:
        problems.append(f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
    if strict and missing:
        problems.append(f"Missing key(s) in state_dict: {_quoted(missing)}. ")
    problems += [p for key in own if key in given for p in _misfit(key, own[key], given[key])]
    if problems:
        lines = "\n\t".join(problems)
        raise RuntimeError(f"Error(s) in loading state_dict for {name}:\n\t{lines}")
    return missing, unexpected


def _misfit(key: str, own: Tensor, value: Any) -> list[str]:
    if not isinstance(value, (Tensor, np.ndarray)):
        return [f"{key}: expected a tensor or an array, got {type(value).__name__}."]
    if isinstance(own, Uninitialized):
        return []
    if isinstance(value, Uninitialized):
        return [f"{key}: the state_dict has an {type(value).__name__}, the model a shape of {list(own.shape)}."]
    if tuple(value.shape) != tuple(own.shape):
        given, expected = list(value.shape), list(own.shape)
        return [f"size mismatch for {key}: the state_dict has shape {given}, the model has shape {expected}."]
    return []


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


def load_values(own: Mapping[str, Tensor], given: Mapping[str, Any]) -> None:
    """Copy the values of the common keys into the model's tensors, keeping their dtypes."""
    with no_grad():
        for key, tensor in own.items():
            if key in given and not isinstance(given[key], Uninitialized):
                value = given[key]
                if isinstance(tensor, Uninitialized):
                    tensor.materialize(value.shape)
                tensor.copy_(value if isinstance(value, Tensor) else as_tensor(value))
