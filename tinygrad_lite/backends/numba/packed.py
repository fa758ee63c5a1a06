"""float32 matrix products on the register tile, where it outruns BLAS.

The classic scheme (Goto & van de Geijn, 2008): a block of A, some rows by DEPTH of k, is packed into panels as high as
the tile, a block of B into a panel as wide as it, so that the tile reads both in order. Either operand may have its
unit stride on either axis. Measured against BLAS in docs/performance.md: with vectors of 16 floats it wins throughout,
with vectors of 8 where an operand has few rows, and it loses where A must be transposed along a deep k.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tinygrad_lite.backends.numba.cpu import lanes

DEPTH = 256  # of k: a panel of B then stays in the first cache


class _Tile(NamedTuple):
    """Its rows and columns; the most rows of A, and elements of them, packed at once: they stay in the second cache."""

    rows: int
    width: int
    height: int
    room: int


def _tile() -> _Tile:
    return _Tile(8, 32, 768, 1024 * DEPTH) if lanes() == 16 else _Tile(6, 16, 384, 384 * DEPTH)


SIZES = ("m", "n", "k", "a", "ai", "ak", "b", "bk", "bj", "c", "ci", "add", "e0", "e1", "e2")
NAMES = (*SIZES, *(f"{x}{i}" for x in "abc" for i in range(3)), "rows", "rows_each", "panel", "panel_each")

# All of k is packed at once where there is room: C is then complete before the next columns, and crosses the border of
# the second cache once. Otherwise DEPTH of k at a time, over all columns. While a panel of B is at work, the lines of
# the next are called into the second cache, `each` before a tile.
SOURCE = """\
def kernel(args, lo, hi, worker):
    w = i64_at(args)
{words}
    one = f32(1)
    left = rows + worker * rows_each
    right = panel + worker * panel_each
    first, last = {rows}
    from_column, to_column = {columns}
    blocks = maximum(1, (last - first + {height} - 1) // {height})
    tall = ((last - first + blocks - 1) // blocks + {tile} - 1) // {tile} * {tile}
    reach = k if tall * k <= {room} else {depth}
    for t in range({batches}):
        q = t // e2
        s2 = t - q * e2
        s0 = q // e1
        s1 = q - s0 * e1
        x = a + 4 * (s0 * a0 + s1 * a1 + s2 * a2)
        y = b + 4 * (s0 * b0 + s1 * b1 + s2 * b2)
        z = c + 4 * (s0 * c0 + s1 * c1 + s2 * c2)
        for top in range(first, last, maximum(tall, 1)):
            bottom = minimum(top + tall, last)
            for begin in range(0, maximum(k, 1), maximum(reach, 1)):
                end = minimum(begin + reach, k)
                for p in range(begin, end, {depth}):
                    depth = minimum({depth}, end - p)
                    if ai == 1:
                        tile_panels(depth, bottom - top, x + 4 * (top + p * ak), ak, left + 4 * (p - begin) * tall)
                    else:
                        for i in range(top, bottom, {tile}):
                            high = minimum({tile}, bottom - i)
                            at = left + 4 * ((p - begin) * tall + (i - top) * depth)
                            {pack_rows}
                for j in range(from_column, to_column, {width}):
                    wide = minimum({width}, to_column - j)
                    for p in range(begin, maximum(end, begin + 1), {depth}):
                        depth = minimum({depth}, end - p)
                        row_step, k_step = {steps}
                        if bj == 1:
                            tile_copy(depth, wide, y + 4 * (p * bk + j), bk, right, {width})
                        else:
                            tile_transpose(wide, depth, y + 4 * (p + j * bj), bj, right, {width})
                        last_of_k = p + {depth} >= end
                        next_p = begin if last_of_k else p + {depth}
                        next_j = minimum(j + {width}, to_column - 1) if last_of_k else j
                        ahead = y + 4 * (next_p * bk + next_j * bj)
                        pitch = 4 * bk if bj == 1 else 4 * bj
                        per = {lines} if bj == 1 else (depth + 15) // 16
                        each = ({width} * depth // 16 * {tile} + bottom - top - 1) // (bottom - top)
                        line = 0
                        for i in range(top, bottom, {tile}):
                            high = minimum({tile}, bottom - i)
                            at = left + 4 * ((p - begin) * tall + (i - top) * depth)
                            to = z + 4 * (i * ci + j)
                            for l in range(each):
                                prefetch(ahead + 64 * line)
                                line += 1
                                if line == per:
                                    line = 0
                                    ahead += pitch
                            tile_matmul(high, wide, depth, one, at, row_step, k_step, right, {width}, to, ci, add + p)
"""

# Rows of A that lie along k: transposed into a panel by 8 x 8 blocks, or in it one after another.
TRANSPOSED = "tile_transpose(high, depth, x + 4 * (i * ai + p), ai, at, {tile})"
COPIED = "tile_copy(high, depth, x + 4 * (i * ai + p), ai, at, depth)"


def packed_kernel(split: str) -> str:
    """Source of C[t] = A[t] @ B[t] in float32; [lo, hi) are `rows` of C, `cols` of C, or `batch` indices."""
    tile = _tile()
    by_blocks = tile.rows == 8
    return SOURCE.format(
        words="\n".join(f"    {name} = w[{i}]" for i, name in enumerate(NAMES)),
        rows="lo, hi" if split == "rows" else "0, m",
        columns="lo, hi" if split == "cols" else "0, n",
        batches="lo, hi" if split == "batch" else "e0 * e1 * e2",
        pack_rows=TRANSPOSED.format(tile=tile.rows) if by_blocks else COPIED,
        steps=f"1, {tile.rows}" if by_blocks else f"(1, {tile.rows}) if ai == 1 else (depth, 1)",
        height=tile.height,
        room=tile.room,
        depth=DEPTH,
        tile=tile.rows,
        width=tile.width,
        lines=tile.width // 16,
    )


def grain(split: str) -> int:
    """Shares of [lo, hi) are multiples of it, so that tiles are whole."""
    tile = _tile()
    return {"rows": tile.rows, "cols": tile.width, "batch": 1}[split]


def packed_words(
    sizes: tuple[int, int, int],
    addresses: Sequence[Any],
    strides: Sequence[tuple[int, int]],
    batch: Sequence[int],
    batch_strides: Sequence[Sequence[int]],
    space: Any,
) -> tuple[list[Any], tuple[int, int]] | None:
    """Argument words and the result's size (of C^T, where only its columns lie dense); None where no axis
    of C does, or BLAS is faster.

    sizes are (m, n, k); addresses and strides (in elements, of the last two axes) those of A, B, C. `space(nbytes)` is
    the word for a worker's private memory.
    """
    (m, n, k), (a, b, c), (sa, sb, sc) = sizes, addresses, strides
    steps = list(batch_strides)
    if not (sc[1] == 1 or n == 1):
        if not (sc[0] == 1 or m == 1):
            return None
        m, n, a, b, sa, sb, sc = n, m, b, a, sb[::-1], sa[::-1], sc[::-1]
        steps[:2] = steps[1::-1]
    (ai, ak), (bk, bj) = _dense_first(sa, m, k), _dense_first(sb[::-1], n, k)[::-1]
    if 1 not in (ai, ak) or 1 not in (bk, bj):
        return None
    tile = _tile()
    if tile.rows < 8 and ai == 1 and k > DEPTH:  # narrow panels of a matrix that lies the other way: BLAS is faster
        return None
    missing = 3 - len(batch)
    tail = [word for each in steps for word in (*[0] * missing, *each)]
    tall, panel = tile.rows * -(-min(m, tile.height) // tile.rows), 4 * tile.width * min(k, DEPTH)
    rows = 4 * (min(tall * k, tile.room) if k > DEPTH else tall * k)
    private = [word for nbytes in (rows, panel) for word in (space(max(64, nbytes)), max(64, nbytes))]
    return [m, n, k, a, ai, ak, b, bk, bj, c, sc[0], 0, *[1] * missing, *batch, *tail, *private], (m, n)


def _dense_first(strides: tuple[int, int], outer: int, k: int) -> tuple[int, int]:
    """(stride outside k, stride along k): of an axis of size 1 the stride is free."""
    outside, along = strides
    if 1 in (outside, along):
        return outside, along
    return (1, along) if outer == 1 else (outside, 1) if k == 1 else (outside, along)
