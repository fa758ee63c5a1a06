"""The one device there is, under PyTorch's spelling."""

from __future__ import annotations

from typing import Any


class device:
    """`device("cpu")`. RuntimeError for any other kind: there is no other backend."""

    __slots__ = ("index", "type")

    type: str

    def __init__(self, type: str | device = "cpu", index: int | None = None) -> None:
        name: str = type.type if isinstance(type, device) else _text(type)
        kind, _, number = name.partition(":")
        if kind != "cpu":
            raise RuntimeError(f"device {str(type)!r}: tinygrad_lite runs on the CPU only; use device 'cpu'")
        self.type = kind
        self.index = int(number) if number else index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (f", index={self.index})" if self.index is not None else ")")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a device is a string or a device, not {type(value).__name__}")
    return value


CPU = device("cpu")


def set_default_device(device: Any) -> None:
    """Accept the CPU, the default. RuntimeError for any other."""
    check_device(device)


def get_default_device() -> Any:
    """The CPU."""
    return CPU


def check_device(value: Any) -> None:
    """Accept None and the CPU as a `device=` argument."""
    if value is not None and value is not CPU:
        device(value)
