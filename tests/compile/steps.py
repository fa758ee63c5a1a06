"""More steps for the random graphs of `tests.strategies`: what scheduler and kernels treat apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import bool_, float32, float64, int8, int16, int32, int64, uint8
from tinygrad_lite.ops import contract, create, indexing, leaf, movement, random, reduce
from tinygrad_lite.ops import elementwise as ew

DTYPES = (bool_, uint8, int8, int16, int32, int64, float32, float64)


def _index(pool: Any, size: int, shape: tuple[int, ...]) -> Node:
    """A constant or computed index into an axis."""
    if pool.draw(st.booleans()):
        count = int(np.prod(shape))
        if count > size:
            return create.full(shape, size - 1, int64)
        return movement.reshape(create.arange(0, count), shape)
    values = [pool.integer(-size, size - 1) for _ in range(int(np.prod(shape)))]
    return leaf.constant(np.array(values, np.int64).reshape(shape), int64)


def _target(pool: Any, kinds: str = "bufi") -> tuple[Node, int] | None:
    x = pool.pick(kinds)
    if x is None or not x.type.ndim or 0 in x.shape:
        return None
    return x, pool.integer(0, x.type.ndim - 1)


def assign(pool: Any) -> None:
    """Scatters: into values with other users, into zeros, of values taken from the same place."""
    found = _target(pool, "uif")
    if found is None:
        return
    base, axis = found
    if pool.draw(st.booleans()):
        shape = pool.draw(st.sampled_from([(), (2,), (3,), (1, 2)]))
        index = _index(pool, base.shape[axis], shape)
        source = indexing.gather(base, index, axis, True)
        op = pool.draw(st.sampled_from([indexing.put, indexing.scatter_add]))
    else:
        length = pool.integer(0, 3)
        shape = tuple(length if a == axis else pool.integer(1, s) for a, s in enumerate(base.shape))
        index = _index(pool, base.shape[axis], shape)
        source = indexing.take_along(base, index, axis, True)
        op = pool.draw(st.sampled_from([indexing.put_along, indexing.put_along_add]))
    how = pool.integer(0, 3)
    if how == 0:
        base = create.zeros_like(base)
    elif how == 1:
        source = create.full(source.shape, 1, source.dtype)
    elif how == 2:
        source = ew.add(source, 1)
    if op in (indexing.put, indexing.put_along) and how == 2:  # whichever of repeated writes stands, it is the last
        source = ew.mul(source, 2)
    pool.add(op(base, index, source, axis, True), rounds=base.dtype.kind == "f")


def update_slice(pool: Any) -> None:
    found = _target(pool)
    if found is None:
        return
    base, _ = found
    starts = [pool.integer(0, s) for s in base.shape]
    stops = [pool.integer(a, s) for a, s in zip(starts, base.shape, strict=True)]
    steps = [pool.integer(1, 2) for _ in base.shape]
    part = movement.slice_(base, starts, stops, steps)
    if base.dtype.kind == "b":
        part = ew.logical_not(part)
    elif pool.draw(st.booleans()):
        part = ew.mul(part, 3)
    pool.add(indexing.slice_update(base, part, starts, stops, steps))


def join(pool: Any) -> None:
    """concat and stack of several values, some of them twice, some of them virtual."""
    found = _target(pool)
    if found is None:
        return
    x, axis = found
    parts = [x, create.full(x.shape, 1, x.dtype)]
    parts += [n for n in pool.nodes if n.type == x.type][-2:]
    chosen = [pool.draw(st.sampled_from(parts)) for _ in range(pool.integer(1, 4))]
    pool.add(movement.concat(chosen, axis))


def norm(pool: Any) -> None:
    """Softmax, layer norm and their like: reductions whose results are used with what they reduce."""
    found = _target(pool, "f")
    if found is None:
        return
    x, axis = found
    how = pool.integer(0, 3)
    if how == 0:
        e = ew.exp(ew.sub(x, reduce.max(x, axis, True)))
        pool.add(ew.div(e, reduce.sum(e, axis, True)), rounds=True)
    elif how == 1:
        centred = ew.sub(x, reduce.mean(x, axis, True))
        pool.add(ew.mul(centred, ew.rsqrt(ew.add(reduce.mean(ew.mul(centred, centred), axis, True), 0.1))), rounds=True)
    elif how == 2:
        total = reduce.sum(x, None, True)
        pool.add(ew.mul(x, ew.tanh(total)), rounds=True)
    else:
        pool.add(ew.sub(reduce.max(x, axis, True), reduce.min(x, axis, True)), rounds=False)


def narrow(pool: Any) -> None:
    """Small integers wrap around alike."""
    x = pool.pick("bui")
    if x is None:
        return
    y = ew.cast(x, pool.draw(st.sampled_from(DTYPES)))
    pool.add(y)
    if y.dtype.kind in "ui":
        constant = pool.integer(1, 100) if y.dtype.kind == "u" else pool.integer(-3, 100) or 1  # dividing by 0 raises
        rules = [ew.add, ew.mul, ew.sub, ew.floor_divide, ew.remainder, ew.maximum]
        pool.add(pool.draw(st.sampled_from(rules))(y, constant))
        pool.add(ew.power(y, pool.integer(0, 9)))


def more_reductions(pool: Any) -> None:
    x = pool.pick("uif", exact=True)
    if x is None:
        return
    axes = [a for a in range(x.type.ndim) if pool.draw(st.booleans())]
    keep = pool.draw(st.booleans())
    how = pool.integer(0, 3)
    if how == 0:
        pool.add(reduce.sum(x, axes, keep), rounds=True)
    elif how == 1:
        factors = ew.add(ew.mul(ew.abs(x), 0), 2) if x.type.size > 8 else x
        pool.add(reduce.prod(factors, axes[0] if axes else None), rounds=True)
    elif how == 2:
        truth = ew.gt(x, 0)
        pool.add((reduce.any if keep else reduce.all)(truth, axes, keep))
    elif x.type.ndim and 0 not in x.shape:
        pool.add(reduce.argmin(x, pool.integer(0, x.type.ndim - 1), keep))


def draws(pool: Any) -> None:
    """Random numbers whose seed and offset are computed."""
    x = pool.pick("i", exact=True)
    offset = leaf.constant(pool.integer(0, 5), int64)
    seed = leaf.constant(pool.integer(0, 2**40), int64)
    if x is not None and x.type.size:
        offset = ew.cast(ew.add(reduce.max(x, None), offset), int64)
    shape = pool.draw(st.sampled_from([(2, 3), (4,), ()]))
    build = pool.draw(st.sampled_from([random.uniform, random.normal]))
    pool.add(build(seed, offset, shape, pool.draw(st.sampled_from([float32, float64]))), rounds=True)


def products(pool: Any) -> None:
    """Batched products of views, with broadcast batches, and of integers."""
    x = pool.pick("if")
    if x is None or x.type.ndim < 2 or x.dtype.kind == "b":
        return
    y = movement.transpose(x, -2, -1)
    if pool.draw(st.booleans()):
        x = movement.flip(x, [pool.integer(0, x.type.ndim - 1)])
    if pool.draw(st.booleans()):
        y = movement.unsqueeze(y, 0)
        y = movement.concat([y, y], 0)
    pool.add(contract.matmul(x, y), rounds=x.dtype.kind == "f")


STEPS = (assign, assign, update_slice, join, norm, norm, narrow, more_reductions, draws, products)
