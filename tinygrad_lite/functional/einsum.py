"""einsum: the equation read, operands cut to what matters, then pairs contracted in the order that opt_einsum finds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tinygrad_lite.functional.common import node_of, wrap
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import contract, movement, reduce
from tinygrad_lite.ops import elementwise as ew

__all__ = ["einsum"]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
Label = str | int  # a letter, or the number of an ellipsis axis counted from the right
Term = tuple[Node, list[Label]]


def einsum(*args: Any) -> Tensor:
    """Sums of products over labelled dims: einsum("ij,jk->ik", a, b), or einsum(a, [0, 1], b, [1, 2], [0, 2]).

    A label that an operand repeats takes its diagonal; "..." stands for dims that broadcast, right-aligned; without
    "->" the labels that occur once make the result, in order (capitals first), after the "..." dims. Sizes 1 broadcast.

    Raises:
        RuntimeError: an equation that does not fit the operands, or cannot be read.
        ValueError: no operands; numbers outside [0, 52).
    """
    equation, operands = _arguments(args)
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    nodes = [node_of(x, "einsum(): operand") for x in operands]
    if len(terms) != len(nodes):
        raise RuntimeError(f"einsum(): the equation {equation!r} has {len(terms)} operands, {len(nodes)} were given")
    labels = [_labels(term, node, equation) for term, node in zip(terms, nodes, strict=True)]
    output = _output(right, labels, equation) if arrow else _implicit(labels)
    return wrap(_contracted([_distinct(n, each) for n, each in zip(nodes, labels, strict=True)], output, equation))


# ---- reading --------------------------------------------------------------------------------------------------


def _arguments(args: Sequence[Any]) -> tuple[str, list[Tensor]]:
    if not args:
        raise ValueError("einsum(): must provide at least one operand")
    if isinstance(args[0], str):
        operands = list(args[1:])
        if len(operands) == 1 and isinstance(operands[0], list | tuple):
            operands = list(operands[0])
        if not operands:
            raise ValueError("einsum(): must provide at least one operand")
        return args[0], operands
    pairs, output = list(args), None
    if len(pairs) % 2:
        output = pairs.pop()
    equation = ",".join(_written(each) for each in pairs[1::2])
    return equation if output is None else f"{equation}->{_written(output)}", pairs[::2]


def _written(sublist: Any) -> str:
    """A list of numbers as letters."""
    if not isinstance(sublist, list | tuple):
        raise TypeError(f"einsum(): expected a list of dims after each operand, got {type(sublist).__name__}")
    text = ""
    for item in sublist:
        if item is not Ellipsis and not 0 <= item < len(_LETTERS):
            raise ValueError(f"einsum(): expected subscripts in the range [0, 52), got {item}")
        text += "..." if item is Ellipsis else _LETTERS[item]
    return text


def _split(term: str, equation: str) -> tuple[str, str | None]:
    """The letters before and after an ellipsis; None behind where there is none."""
    before, dots, behind = term.partition("...")
    bad = [c for c in before + behind if c not in _LETTERS]
    if bad:
        raise RuntimeError(f"einsum(): invalid subscript {bad[0]!r} in {equation!r}, subscripts must be in [a-zA-Z]")
    return before, behind if dots else None


def _labels(term: str, node: Node, equation: str) -> list[Label]:
    before, behind = _split(term, equation)
    spread = node.type.ndim - len(before) - len(behind or "")
    if spread < 0 or (behind is None and spread):
        raise RuntimeError(f"einsum(): the subscripts {term!r} in {equation!r} do not name the dims of {node.type}")
    return [*before, *range(spread - 1, -1, -1), *(behind or "")]


def _spread(labels: Sequence[Sequence[Label]]) -> list[Label]:
    widest = max((label for each in labels for label in each if isinstance(label, int)), default=-1)
    return list(range(widest, -1, -1))


def _implicit(labels: Sequence[Sequence[Label]]) -> list[Label]:
    count = Counter(label for each in labels for label in each)
    return [*_spread(labels), *sorted(str(k) for k, n in count.items() if n == 1 and isinstance(k, str))]


def _output(right: str, labels: Sequence[Sequence[Label]], equation: str) -> list[Label]:
    before, behind = _split(right, equation)
    given = before + (behind or "")
    known = {label for each in labels for label in each}
    for label, times in Counter(given).items():
        if times > 1 or label not in known:
            problem = "appears more than once" if times > 1 else "does not appear in the operands"
            raise RuntimeError(f"einsum(): output subscript {label} {problem}: {equation!r}")
    return [*before, *(_spread(labels) if behind is not None else []), *(behind or "")]


# ---- contracting ------------------------------------------------------------------------------------------------


def _distinct(node: Node, labels: list[Label]) -> Term:
    """Diagonals for labels that an operand repeats."""
    for label in [k for k, n in Counter(labels).items() if n > 1]:
        while labels.count(label) > 1:
            a = labels.index(label)
            b = labels.index(label, a + 1)
            node = _diagonal(node, a, b)
            labels = [*labels[:a], *labels[a + 1 : b], *labels[b + 1 :], label]
    return node, labels


def _diagonal(node: Node, a: int, b: int) -> Node:
    """The diagonal of two axes as the last one."""
    n = node.shape[a]
    if node.shape[b] != n:
        raise RuntimeError(f"einsum(): a repeated subscript needs dims of one size, {a} and {b} of {node.type} differ")
    rest = [x for x in range(node.type.ndim) if x not in (a, b)]
    moved = movement.permute(node, [*rest, a, b])
    flat = movement.reshape(moved, (*moved.shape[:-2], n * n))
    zeros, ones = [0] * len(rest), [1] * len(rest)
    return movement.slice_(flat, [*zeros, 0], flat.shape, [*ones, n + 1])


def _contracted(terms: list[Term], output: list[Label], equation: str) -> Node:
    terms = _without_ones(terms, equation)
    for pair in _path(terms, output):
        rest = [t for i, t in enumerate(terms) if i not in pair]
        kept = {*output, *(label for _, labels in rest for label in labels)}
        first, *others = (terms[i] for i in sorted(pair))
        for i, other in enumerate(others, 1):
            first = _pair(first, other, kept | {label for _, labels in others[i:] for label in labels})
        terms = [*rest, first]
    node, labels = _summed(*terms[0], set(output))
    # a label that only broadcast dims of size 1 carry was squeezed away
    missing = [label for label in output if label not in labels]
    node = movement.reshape(node, (*node.shape, *[1] * len(missing)))
    labels = [*labels, *missing]
    return movement.permute(node, [labels.index(label) for label in output])


def _without_ones(terms: list[Term], equation: str) -> list[Term]:
    """Axes of size 1 dropped: they broadcast, and multiply by nothing."""
    sizes: dict[Label, int] = {}
    for node, labels in terms:
        for label, n in zip(labels, node.shape, strict=True):
            if sizes.get(label, 1) not in (1, n) and n != 1:
                raise RuntimeError(
                    f"einsum(): operands do not broadcast in {equation!r}: {label} has sizes {sizes[label]} and {n}"
                )
            sizes[label] = n if n != 1 else sizes.get(label, 1)
    found = []
    for node, labels in terms:
        wide = [a for a, n in enumerate(node.shape) if n != 1]
        found.append((movement.reshape(node, [node.shape[a] for a in wide]), [labels[a] for a in wide]))
    return found


def _path(terms: list[Term], output: list[Label]) -> list[tuple[int, ...]]:
    """What each step contracts, by position in the list of terms, from which it takes them and adds the result."""
    if len(terms) < 3:
        return [tuple(range(len(terms)))]
    import opt_einsum

    names = {label: opt_einsum.get_symbol(i) for i, label in enumerate({k: None for _, each in terms for k in each})}
    inputs = ",".join("".join(names[label] for label in labels) for _, labels in terms)
    equation = f"{inputs}->{''.join(names[label] for label in output if label in names)}"
    path, _ = opt_einsum.contract_path(equation, *[n.shape for n, _ in terms], shapes=True, optimize="auto")
    return [tuple(step) for step in path]


def _summed(node: Node, labels: list[Label], kept: set[Label]) -> Term:
    """Without the labels that nobody else needs."""
    lone = [a for a, label in enumerate(labels) if label not in kept]
    if not lone:
        return node, labels
    total = ew.cast(reduce.sum(node, lone), node.dtype)
    return total, [label for label in labels if label in kept]


def _pair(a: Term, b: Term, kept: set[Label]) -> Term:
    (x, left), (y, right) = _summed(*a, kept | {*b[1]}), _summed(*b, kept | {*a[1]})
    batch = [k for k in left if k in right and k in kept]
    inner = [k for k in left if k in right and k not in kept]
    rows, columns = [k for k in left if k not in right], [k for k in right if k not in left]
    sizes = dict(zip([*left, *right], [*x.shape, *y.shape], strict=True))

    def flat(node: Node, labels: list[Label], *groups: list[Label]) -> Node:
        order = movement.permute(node, [labels.index(k) for group in groups for k in group])
        shape = [sizes[k] for k in groups[0]] + [math.prod(sizes[k] for k in group) for group in groups[1:]]
        return movement.reshape(order, shape)

    if inner:
        product = contract.matmul(flat(x, left, batch, rows, inner), flat(y, right, batch, inner, columns))
    else:
        product = ew.mul(
            movement.unsqueeze(flat(x, left, batch, rows), -1), movement.unsqueeze(flat(y, right, batch, columns), -2)
        )
    result = [*batch, *rows, *columns]
    return movement.reshape(product, [sizes[k] for k in result]), result
