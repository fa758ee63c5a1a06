"""Small matrix products in registers, as an LLVM function that a kernel's module holds once.

A tile of some rows x 2 vectors of C is summed over all of k without touching memory in between: B's row is loaded as
vectors, A's elements are broadcast, so A's two strides are free (a transpose costs nothing). BLAS packs its operands
first, which pays for itself only in large products; those of attention and convolutions are small.
"""

from __future__ import annotations

from llvmlite import ir

from .cpu import lanes
from .values import F32, I32, I64

I1 = ir.IntType(1)
HALF, TOGETHER = 8, 4  # floats copied at a time; panels filled at a time: 32 floats are two lines
UNROLL = 4  # steps along k in one turn of the loop, in whole tiles of full height


def _rows() -> tuple[int, ...]:
    """Heights of tiles: the first leaves room for B's vectors and a broadcast among 32 or 16 registers."""
    return (8, 4, 2, 1) if lanes() == 16 else (6, 4, 2, 1)


class _Loop:
    """for index in range(start, stop, step) while index + need <= stop; `body` sees the index."""

    def __init__(self, builder: ir.IRBuilder, start: ir.Value, stop: ir.Value, step: int, need: int = 1) -> None:
        self.builder, self.stop, self.step, self.need = builder, stop, step, need
        before = builder.block
        self.test = builder.append_basic_block("test")
        self.body, self.after = builder.append_basic_block("body"), builder.append_basic_block("after")
        builder.branch(self.test)
        builder.position_at_end(self.test)
        self.index = builder.phi(I64)
        self.index.add_incoming(start, before)
        fits = builder.icmp_signed("<=", builder.add(self.index, I64(need)), stop)
        builder.cbranch(fits, self.body, self.after)
        builder.position_at_end(self.body)

    def end(self) -> ir.Value:
        """Close the loop; the first index that was not run."""
        self.index.add_incoming(self.builder.add(self.index, I64(self.step)), self.builder.block)
        self.builder.branch(self.test)
        self.builder.position_at_end(self.after)
        return self.index


def _internal(module: ir.Module, name: str, kinds: list[ir.Type]) -> ir.Function:
    """A new function of the module alone, which is called and not repeated."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    return function


def tile_matmul(module: ir.Module) -> ir.Function:
    """The function (m, n, k, alpha, a, ai, ak, b, bk, c, ci, add): C = alpha A @ B, or C += alpha A @ B where `add`.

    Addresses as int64, strides in elements: A[i, p] at a + i ai + p ak, B[p, j] at b + p bk + j, C[i, j] at
    c + i ci + j.
    """
    return _product(module, "tile_matmul", tapped=False)


def tile_taps(module: ir.Module) -> ir.Function:
    """As tile_matmul without alpha, summed over `taps` pairs of operands: (m, n, k, a, …, taps, table, skip), k > 0.

    `table` is the address of int64 pairs: how many elements from a and b the operands of each tap lie. A `skip` other
    than 0 lies in B's rows between one vector and the next, of which there are then at most two.
    """
    return _product(module, "tile_taps", tapped=True)


def _product(module: ir.Module, name: str, tapped: bool) -> ir.Function:
    """Tiles over all of C: in strips of columns, from the highest tiles to the lowest."""
    if name in module.globals:
        return module.globals[name]
    kinds = [I64] * 3 + ([] if tapped else [F32]) + [I64] * 8 + ([I64] * 3 if tapped else [])
    function = _internal(module, name, kinds)
    m, n, k, *rest = function.args
    scale, taps = ([rest.pop(0)], []) if not tapped else ([], [rest.pop(8) for _ in range(3)])
    a, ai, ak, b, bk, c, ci, add = rest
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    ai, ak, bk, ci = (builder.mul(s, I64(4)) for s in (ai, ak, bk, ci))
    width = 2 * lanes()
    columns = _Loop(builder, I64(0), n, width)
    at = builder.mul(columns.index, I64(4))
    left = builder.sub(n, columns.index)
    whole = builder.icmp_signed(">=", left, I64(width))
    start: ir.Value = I64(0)
    for rows in _rows():
        block = _Loop(builder, start, _last_of(builder, m, rows), rows, rows)
        i = block.index
        args = [k, *scale, builder.add(a, builder.mul(i, ai)), ai, ak, builder.add(b, at), bk]
        args += [builder.add(builder.add(c, builder.mul(i, ci)), at), ci, add, left, *taps]
        with builder.if_else(whole) as (then, otherwise):
            with then:
                builder.call(_tile(module, rows, tapped, masked=False), args)
            with otherwise:
                builder.call(_tile(module, rows, tapped, masked=True), args)
        start = block.end()
    columns.end()
    builder.ret_void()
    return function


def _last_of(builder: ir.IRBuilder, m: ir.Value, rows: int) -> ir.Value:
    """Where tiles of so many rows end: 8 rows are better two tiles of 4 than 6 and 2, whose sums are too few to keep
    the processor's multipliers busy."""
    if rows != 6:
        return m
    two_left = builder.icmp_signed("==", builder.srem(m, I64(6)), I64(2))
    pays = builder.and_(two_left, builder.icmp_signed(">=", m, I64(8)))
    return builder.select(pays, builder.sub(m, I64(8)), m)


def _tile(module: ir.Module, rows: int, tapped: bool, masked: bool) -> ir.Function:
    """rows x 2 vectors of C; `masked`: only the first `left` columns exist."""
    name = f"tile_{rows}{'_taps' if tapped else ''}{'_masked' if masked else ''}"
    if name in module.globals:
        return module.globals[name]
    kinds = [I64] + ([] if tapped else [F32]) + [I64] * 9 + ([I64] * 3 if tapped else [])
    function = _internal(module, name, kinds)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    k, *rest = function.args
    alpha = None if tapped else rest.pop(0)
    a, ai, ak, b, bk, c, ci, add, left = rest[:9]
    memory = _Memory(builder, left if masked else None)
    totals: list[ir.Value] = [ir.Constant(memory.vector, None)] * (2 * rows)
    if tapped:
        taps, table, skip = rest[9:]
        apart = _Memory(builder, left if masked else None, skip)
        totals = _over_taps(builder, apart, totals, k, (a, ai, ak), (b, bk), taps, table)
    else:
        totals = _over_depth(builder, memory, totals, k, (a, ai, ak), (b, bk))
    if alpha is not None:
        totals = [builder.fmul(total, memory.splat(alpha)) for total in totals]
    places = [(builder.add(c, builder.mul(ci, I64(i // 2))), i % 2) for i in range(2 * rows)]
    with builder.if_else(builder.icmp_signed("!=", add, I64(0))) as (then, otherwise):
        with then:
            for value, (at, v) in zip(totals, places, strict=True):
                memory.store(builder.fadd(memory.load(at, v), value), at, v)
        with otherwise:
            for value, (at, v) in zip(totals, places, strict=True):
                memory.store(value, at, v)
    builder.ret_void()
    return function


def _over_depth(
    builder: ir.IRBuilder,
    memory: _Memory,
    sums: list[ir.Value],
    k: ir.Value,
    left: tuple[ir.Value, ir.Value, ir.Value],
    right: tuple[ir.Value, ir.Value],
) -> list[ir.Value]:
    """`sums` plus the products of k columns of A and rows of B."""
    unroll = UNROLL if len(sums) == 2 * _rows()[0] and memory.masks is None else 1
    (a, ai, ak), (b, bk) = left, right
    if unroll > 1:
        many = builder.and_(k, I64(-unroll))
        sums = _steps(builder, memory, sums, many, unroll, (a, ai, ak), (b, bk))
        a, b, k = builder.add(a, builder.mul(many, ak)), builder.add(b, builder.mul(many, bk)), builder.sub(k, many)
    return _steps(builder, memory, sums, k, 1, (a, ai, ak), (b, bk))


def _steps(
    builder: ir.IRBuilder,
    memory: _Memory,
    sums: list[ir.Value],
    k: ir.Value,
    unroll: int,
    left: tuple[ir.Value, ir.Value, ir.Value],
    right: tuple[ir.Value, ir.Value],
) -> list[ir.Value]:
    """The same for a k that is a multiple of `unroll`: so many columns of A and rows of B a turn."""
    (a, ai, ak), (b, bk) = left, right
    before, loop, done = builder.block, builder.append_basic_block("k"), builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed(">", k, I64(0)), loop, done)
    builder.position_at_end(loop)
    rest, pa, pb = builder.phi(I64), builder.phi(I64), builder.phi(I64)
    running = [builder.phi(memory.vector) for _ in sums]
    heights = range(len(sums) // 2)
    new, at, bt = list(running), pa, pb
    for _ in range(unroll):
        row = [memory.load(bt, v) for v in range(2)]
        column = [memory.splat(_scalar(builder, builder.add(at, builder.mul(ai, I64(i))))) for i in heights]
        new = [memory.fma(column[i // 2], row[i % 2], total) for i, total in enumerate(new)]
        at, bt = builder.add(at, ak), builder.add(bt, bk)
    fewer = builder.sub(rest, I64(unroll))
    nexts = [fewer, at, bt, *new]
    for phi, first, following in zip([rest, pa, pb, *running], [k, a, b, *sums], nexts, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed(">", fewer, I64(0)), loop, done)
    builder.position_at_end(done)
    totals = [builder.phi(memory.vector) for _ in sums]
    for total, first, value in zip(totals, sums, new, strict=True):
        total.add_incoming(first, before)
        total.add_incoming(value, loop)
    return totals


def _over_taps(
    builder: ir.IRBuilder,
    memory: _Memory,
    sums: list[ir.Value],
    k: ir.Value,
    left: tuple[ir.Value, ir.Value, ir.Value],
    right: tuple[ir.Value, ir.Value],
    taps: ir.Value,
    table: ir.Value,
) -> list[ir.Value]:
    """`sums` plus the products of every tap's operands."""
    (a, ai, ak), (b, bk) = left, right
    before, loop, done = builder.block, builder.append_basic_block("taps"), builder.append_basic_block("summed")
    builder.cbranch(builder.icmp_signed(">", taps, I64(0)), loop, done)
    builder.position_at_end(loop)
    rest, entry = builder.phi(I64), builder.phi(I64)
    running = [builder.phi(memory.vector) for _ in sums]
    offsets = [builder.load(builder.inttoptr(builder.add(entry, I64(8 * i)), I64.as_pointer())) for i in range(2)]
    at, bt = (builder.add(p, builder.mul(o, I64(4))) for p, o in zip((a, b), offsets, strict=True))
    new = _over_depth(builder, memory, running, k, (at, ai, ak), (bt, bk))
    end, fewer = builder.block, builder.sub(rest, I64(1))
    nexts = [fewer, builder.add(entry, I64(16)), *new]
    for phi, first, following in zip([rest, entry, *running], [taps, table, *sums], nexts, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(following, end)
    builder.cbranch(builder.icmp_signed(">", fewer, I64(0)), loop, done)
    builder.position_at_end(done)
    totals = [builder.phi(memory.vector) for _ in sums]
    for total, first, value in zip(totals, sums, new, strict=True):
        total.add_incoming(first, before)
        total.add_incoming(value, end)
    return totals


def _scalar(builder: ir.IRBuilder, at: ir.Value) -> ir.Value:
    return builder.load(builder.inttoptr(at, F32.as_pointer()), align=4)


class _Memory:
    """Loads and stores of two vectors, `skip` elements apart if any, of which perhaps only `left` lanes exist."""

    def __init__(self, builder: ir.IRBuilder, left: ir.Value | None, skip: ir.Value | None = None) -> None:
        self.builder, self.count = builder, lanes()
        self.skip = builder.mul(skip, I64(4)) if skip is not None else None
        self.vector = ir.VectorType(F32, self.count)
        self.masks = None if left is None else [self._mask(left, v * self.count) for v in range(2)]

    def _mask(self, left: ir.Value, first: int) -> ir.Value:
        wide = ir.VectorType(I64, self.count)
        numbers = ir.Constant(wide, [first + i for i in range(self.count)])
        return self.builder.icmp_signed("<", numbers, self._spread(left, wide))

    def _spread(self, value: ir.Value, kind: ir.VectorType) -> ir.Value:
        undefined = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(undefined, value, I32(0))
        return self.builder.shuffle_vector(
            first, undefined, ir.Constant(ir.VectorType(I32, self.count), [0] * self.count)
        )

    def splat(self, value: ir.Value) -> ir.Value:
        return self._spread(value, self.vector)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        return self.builder.call(_declared(self.builder.module, f"llvm.fma.v{self.count}f32", kind), [a, b, c])

    def load(self, at: ir.Value, v: int) -> ir.Value:
        pointer = self._pointer(at, v)
        if self.masks is None:
            return self.builder.load(pointer, align=4)
        kind = ir.FunctionType(self.vector, [pointer.type, I32, self.masks[v].type, self.vector])
        load = _declared(self.builder.module, f"llvm.masked.load.v{self.count}f32.p0", kind)
        return self.builder.call(load, [pointer, I32(4), self.masks[v], ir.Constant(self.vector, None)])

    def store(self, value: ir.Value, at: ir.Value, v: int) -> None:
        pointer = self._pointer(at, v)
        if self.masks is None:
            self.builder.store(value, pointer, align=4)
            return
        kind = ir.FunctionType(ir.VoidType(), [self.vector, pointer.type, I32, self.masks[v].type])
        store = _declared(self.builder.module, f"llvm.masked.store.v{self.count}f32.p0", kind)
        self.builder.call(store, [value, pointer, I32(4), self.masks[v]])

    def _pointer(self, at: ir.Value, v: int) -> ir.Value:
        place = self.builder.add(at, I64(4 * self.count * v))
        if v and self.skip is not None:
            place = self.builder.add(place, self.skip)
        return self.builder.inttoptr(place, self.vector.as_pointer())


def _declared(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.Function:
    found = module.globals.get(name)
    return found if found is not None else ir.Function(module, kind, name)


# ---- packing --------------------------------------------------------------------------------------------


def tile_copy(module: ir.Module) -> ir.Function:
    """The function (m, n, source, ls, target, lt): target[i, j] = source[i, j]; rows ls and lt elements apart.

    For short rows, as panels have: a vector at a time, the last of them masked.
    """
    name = "tile_copy"
    if name in module.globals:
        return module.globals[name]
    function = _internal(module, name, [I64] * 6)
    m, n, source, ls, target, lt = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    ls, lt = builder.mul(ls, I64(4)), builder.mul(lt, I64(4))
    count = lanes()
    whole = _Loop(builder, I64(0), n, count, count)
    _copy_column(builder, m, whole.index, None, (source, ls), (target, lt))
    at = whole.end()
    left = builder.sub(n, at)
    with builder.if_then(builder.icmp_signed(">", left, I64(0))):
        _copy_column(builder, m, at, left, (source, ls), (target, lt))
    builder.ret_void()
    return function


def _copy_column(
    builder: ir.IRBuilder,
    m: ir.Value,
    column: ir.Value,
    left: ir.Value | None,
    source: tuple[ir.Value, ir.Value],
    target: tuple[ir.Value, ir.Value],
) -> None:
    """A vector of each of m rows, or its first `left` lanes."""
    memory, skip = _Memory(builder, left), builder.mul(column, I64(4))
    row = _Loop(builder, I64(0), m, 1)
    start, end = (builder.add(builder.add(at, builder.mul(row.index, step)), skip) for at, step in (source, target))
    memory.store(memory.load(start, 0), end, 0)
    row.end()


def tile_panels(module: ir.Module) -> ir.Function:
    """The function (m, n, source, ls, target): rows of n elements, ls apart, as panels of a tile's height.

    target[c, i, j] = source[i, height c + j]; the last panel is as large as the others and perhaps not full.
    """
    name = "tile_panels"
    if name in module.globals:
        return module.globals[name]
    function = _internal(module, name, [I64] * 5)
    m, n, source, ls, target = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    height, column, pitch = _rows()[0], builder.mul(m, I64(4)), builder.mul(ls, I64(4))

    def place(first: ir.Value) -> tuple[ir.Value, ir.Value]:
        return builder.add(source, builder.mul(first, I64(4))), builder.add(target, builder.mul(first, column))

    start: ir.Value = I64(0)
    for count in (TOGETHER, 1):
        panels = _Loop(builder, start, n, count * height, (count - 1) * height + HALF)
        _copy_panels(builder, count, height, m, place(panels.index), pitch)
        start = panels.end()
    rest = _Loop(builder, start, n, height)
    left, short = builder.sub(n, rest.index), I64(height)
    wide = builder.select(builder.icmp_signed("<", left, short), left, short)
    begin, end = place(rest.index)
    builder.call(tile_copy(module), [m, wide, begin, ls, end, short])
    rest.end()
    builder.ret_void()
    return function


def _copy_panels(
    builder: ir.IRBuilder, count: int, height: int, m: ir.Value, at: tuple[ir.Value, ir.Value], pitch: ir.Value
) -> None:
    """`count` whole panels at a time, so that lines are read once.

    Where a panel is narrower than what is loaded, the next row is written over what was too much; after the last there
    is none, which therefore is stored exactly.
    """
    (source, target), panel = at, builder.mul(m, I64(4 * height))
    vector = ir.VectorType(F32, HALF)

    def copy(row: ir.Value, sizes: list[int]) -> None:
        start, end = (builder.add(p, builder.mul(row, s)) for p, s in ((source, pitch), (target, I64(4 * height))))
        for c in range(count):
            from_, to = builder.add(start, I64(4 * height * c)), builder.add(end, builder.mul(panel, I64(c)))
            value, done = builder.load(builder.inttoptr(from_, vector.as_pointer()), align=4), 0
            for size in sizes:
                numbers = ir.Constant(ir.VectorType(I32, size), [*range(done, done + size)])
                part = value if size == HALF else builder.shuffle_vector(value, value, numbers)
                pointer = builder.inttoptr(builder.add(to, I64(4 * done)), part.type.as_pointer())
                builder.store(part, pointer, align=4)
                done += size

    last = builder.sub(m, I64(1))
    rows = _Loop(builder, I64(0), last, 1)
    copy(rows.index, [HALF])
    at_last = rows.end()
    with builder.if_then(builder.icmp_signed(">=", last, I64(0))):
        copy(at_last, [HALF] if height == HALF else [4, height - 4])


def tile_transpose(module: ir.Module) -> ir.Function:
    """The function (m, n, source, ls, target, lt): target[j, i] = source[i, j]; rows ls and lt elements apart."""
    name = "tile_transpose"
    if name in module.globals:
        return module.globals[name]
    function = _internal(module, name, [I64] * 6)
    m, n, source, ls, target, lt = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    ls, lt = builder.mul(ls, I64(4)), builder.mul(lt, I64(4))

    def place(base: ir.Value, pitch: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
        return builder.add(builder.add(base, builder.mul(row, pitch)), builder.mul(column, I64(4)))

    def element(i: ir.Value, j: ir.Value) -> None:
        value = _scalar(builder, place(source, ls, i, j))
        builder.store(value, builder.inttoptr(place(target, lt, j, i), F32.as_pointer()), align=4)

    rows = _Loop(builder, I64(0), m, 8, 8)
    columns = _Loop(builder, I64(0), n, 8, 8)
    _transpose8(
        builder, place(source, ls, rows.index, columns.index), ls, place(target, lt, columns.index, rows.index), lt
    )
    rest = _Loop(builder, columns.end(), n, 1)
    for i in range(8):
        element(builder.add(rows.index, I64(i)), rest.index)
    rest.end()
    below = _Loop(builder, rows.end(), m, 1)
    along = _Loop(builder, I64(0), n, 1)
    element(below.index, along.index)
    along.end()
    below.end()
    builder.ret_void()
    return function


def _transpose8(builder: ir.IRBuilder, source: ir.Value, ls: ir.Value, target: ir.Value, lt: ir.Value) -> None:
    """8 x 8 floats in 24 shuffles."""
    vector = ir.VectorType(F32, 8)

    def pick(a: ir.Value, b: ir.Value, order: list[int]) -> ir.Value:
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, 8), order))

    def pointer(base: ir.Value, pitch: ir.Value, row: int) -> ir.Value:
        return builder.inttoptr(builder.add(base, builder.mul(pitch, I64(row))), vector.as_pointer())

    rows = [builder.load(pointer(source, ls, i), align=4) for i in range(8)]
    unpack = ([0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15])
    pairs = [pick(rows[i], rows[i + 1], order) for i in range(0, 8, 2) for order in unpack]
    halves = ([0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15])
    quads = [pick(pairs[i + h], pairs[i + h + 2], order) for i in (0, 4) for h in (0, 1) for order in halves]
    for i, order in ((0, [0, 1, 2, 3, 8, 9, 10, 11]), (4, [4, 5, 6, 7, 12, 13, 14, 15])):
        for h in range(4):
            builder.store(pick(quads[h], quads[h + 4], order), pointer(target, lt, i + h), align=4)
