"""Structures of tensors: nested tuples, named tuples, lists and dicts, whose leaves are everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def is_leaf(tree: Any) -> bool:
    return not isinstance(tree, tuple | list | dict)


def leaves(tree: Any) -> list[Any]:
    """The leaves, in order."""
    if is_leaf(tree):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree
    return [leaf for part in parts for leaf in leaves(part)]


def rebuilt(tree: Any, values: Iterator[Any]) -> Any:
    """The structure of `tree` around the next of `values`."""
    if is_leaf(tree):
        return next(values)
    if isinstance(tree, dict):
        parts = {key: rebuilt(part, values) for key, part in tree.items()}
        return parts if type(tree) is dict else type(tree)(parts)
    items = [rebuilt(part, values) for part in tree]
    return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)


def mapped(fn: Callable[[Any], Any], tree: Any) -> Any:
    """The structure of `tree` around fn of its leaves."""
    return rebuilt(tree, map(fn, leaves(tree)))


def structure(tree: Any) -> Any:
    """What two trees of one structure have in common: comparable, and fit to be shown."""
    return mapped(lambda _: "*", tree)


def broadcast(prefix: Any, tree: Any) -> list[Any] | None:
    """`prefix` for each leaf of `tree`, where a leaf of the prefix stands for all below it; None where they differ."""
    if is_leaf(prefix):
        return [prefix] * len(leaves(tree))
    same = type(prefix) is type(tree) or (isinstance(prefix, list | tuple) and isinstance(tree, list | tuple))
    if not same or len(prefix) != len(tree) or (isinstance(prefix, dict) and prefix.keys() != tree.keys()):
        return None
    pairs = [(prefix[k], tree[k]) for k in tree] if isinstance(prefix, dict) else zip(prefix, tree, strict=True)
    found: list[Any] = []
    for below, part in pairs:
        each = broadcast(below, part)
        if each is None:
            return None
        found += each
    return found
