"""Lowering of convolution: an image is packed once, padded, into scratch; every place of the window is then a product
with the packed image, shifted, summed in registers over channels and window.

A stride s splits the padded image into s × s *phases* (every s-th row and column from a start), in which neighbouring
positions lie side by side. Rows of a phase follow one another, so a whole image of positions is one run of columns; the
few at each row's end that belong to no position are computed and dropped.
"""

from __future__ import annotations

from tinygrad_lite.ir.kernels.source import SourceKernel, Words, filled
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.schedule.fuse import Group
from tinygrad_lite.ir.schedule.place import Place, Placement

PANEL = 24  # rows of weights side by side: whole tiles, of 6 or of 8
FEW = 64  # channels times window: up to it, what the window's places see stands side by side in the weight's gradient

ROW_COPY = """\
from_column = (PW - b + SW - 1) // SW
x0 = from_column * SW + b - PW
count = minimum(WQ - from_column, (W - x0 + SW - 1) // SW)
"""

# One image: rows of channels and phases, the padding as it was.
PACK = """\
for c in range(C):
    for a in range(SH):
        for b in range(SW):
            {row}
            for q in range((PH - a + SH - 1) // SH, minimum(HQ, (H + PH - a + SH - 1) // SH)):
                source = f32_at(x_at + 4 * (n * x_n + c * x_c + (q * SH + a - PH) * x_h + x0))
                target = f32_at(image + 4 * (c * plane + ((a * SW + b) * HQ + q) * WQ + from_column))
                for i in range(count):
                    target[i] = source[i * SW]
"""

FORWARD = """\
table = i64_at(taps)
for i in range(KH):
    for j in range(KW):
        t = i * KW + j
        phase = (i * DH % SH) * SW + j * DW % SW
        table[2 * t] = t * tap
        table[2 * t + 1] = (phase * HQ + i * DH // SH) * WQ + j * DW // SW
for o in range(0, O, {high}):
    for c in range(C):
        at = weights + 4 * (o // {high} * T * tap + c * {high})
        tile_transpose(minimum({high}, O - o), T, w_at + 4 * (o * C + c) * T, C * T, at, tap)
pixels = f32_at(image)
for i in range(C * plane):
    pixels[i] = f32(0)
for n in range(lo, hi):
    {pack}
    for o in range(0, O, {high}):
        rows, at = minimum({high}, O - o), weights + 4 * (o // {high} * T * tap)
        {product}
    {store}
"""

FORWARD_RUN = "tile_taps(rows, run, C, at, 1, {high}, image, plane, {out}, 0, T, taps, 0)"
FORWARD_ROWS = """\
for q in range(0, OH, {step}):
    to, columns = y_at + 4 * (n * y_n + o * y_c + q * y_h), minimum({step}, OH - q) * OW
    tile_taps(rows, columns, C, at, 1, {high}, image + 4 * q * WQ, plane, to, y_c, 0, T, taps, {skip})
"""

STORE = """\
for o in range(O):
    for q in range(OH):
        source = f32_at(sums + 4 * (o * run + q * WQ))
        target = f32_at(y_at + 4 * (n * y_n + o * y_c + q * y_h))
        for i in range(OW):
            target[i] = source[i]
"""

BY_INPUT = """\
table = i64_at(taps)
counts = i64_at(taps + 16 * T)
for a in range(SH):
    for b in range(SW):
        first = 0
        for p in range(a * SW + b):
            first += counts[p]
        count = 0
        for i in range(KH):
            for j in range(KW):
                if i * DH % SH == a and j * DW % SW == b:
                    at = 2 * (first + count)
                    table[at] = (i * KW + j) * tap
                    table[at + 1] = (RH - i * DH // SH) * pitch + RW - j * DW // SW
                    count += 1
        counts[a * SW + b] = count
for c in range(0, C, {high}):
    rows = minimum({high}, C - c)
    for o in range(O):
        at = weights + 4 * (c // {high} * T * tap + o * {high})
        tile_transpose(rows, T, w_at + 4 * (o * C + c) * T, T, at, tap)
pixels = f32_at(image)
for i in range(O * plane):
    pixels[i] = f32(0)
for n in range(lo, hi):
    for o in range(O):
        for q in range(minimum(OH, HQ)):
            source = f32_at(g_at + 4 * (n * g_n + o * g_c + q * g_h))
            target = f32_at(image + 4 * (o * plane + (q + RH - QH) * pitch + RW - QW))
            for i in range(minimum(OW, WQ)):
                target[i] = source[i]
    first = 0
    for a in range(SH):
        for b in range(SW):
            {row}
            q0 = (PH - a + SH - 1) // SH
            q1 = minimum(HQ, (H + PH - a + SH - 1) // SH)
            start = image + 4 * ((q0 - QH) * pitch + from_column - QW)
            reach = (q1 - q0 - 1) * pitch + count
            places = counts[a * SW + b]
            for c in range(0, C, {high}):
                rows, at = minimum({high}, C - c), weights + 4 * (c // {high} * T * tap)
                {product}
            {store}
            first += places
"""

BY_INPUT_RUN = """\
to = sums + 4 * c * run
tile_taps(rows, reach, O, at, 1, {high}, start, plane, to, run, 0, places, taps + 16 * first, 0)
"""
BY_INPUT_STORE = """\
for c in range(C):
    for q in range(q0, q1):
        source = f32_at(sums + 4 * (c * run + (q - q0) * pitch))
        target = f32_at(y_at + 4 * (n * y_n + c * y_c + (q * SH + a - PH) * y_h + x0))
        for i in range(count):
            target[i * SW] = source[i]
"""
BY_INPUT_ROWS = """\
for q in range(q0, q1, {step}):
    place, columns = start + 4 * (q - q0) * pitch, minimum({step}, q1 - q) * count
    to = y_at + 4 * (n * y_n + c * y_c + (q - PH) * y_h)
    tile_taps(rows, columns, O, at, 1, {high}, place, plane, to, y_c, 0, places, taps + 16 * first, {skip})
"""

BY_WEIGHT = """\
pixels = f32_at(image)
for i in range(plane * C):
    pixels[i] = f32(0)
slopes = f32_at(slope)
for i in range((hi - lo) * run):
    slopes[i] = f32(0)
for n in range(N):
    for q in range(SH * HQ):
        y = q - PH
        if y >= 0 and y < H:
            tile_transpose(C, W, x_at + 4 * (n * x_n + y * x_h), x_c, line, C)
            for b in range(SW):
                {row}
                place = (q % SH * SW + b) * HQ + q // SH
                for i in range(count):
                    source = f32_at(line + 4 * (x0 + i * SW) * C)
                    target = f32_at(image + 4 * (place * WQ + from_column + i) * C)
                    for c in range(C):
                        target[c] = source[c]
    for o in range(lo, hi):
        for q in range(OH):
            source = f32_at(g_at + 4 * (n * g_n + o * g_c + q * g_h))
            target = f32_at(slope + 4 * ((o - lo) * run + q * WQ))
            for i in range(OW):
                target[i] = source[i]
    for i in range(KH):
        for j in range(KW):
            t = i * KW + j
            phase = (i * DH % SH) * SW + j * DW % SW
            start = image + 4 * ((phase * HQ + i * DH // SH) * WQ + j * DW // SW) * C
            tile_matmul(hi - lo, C, run, f32(1), slope, run, 1, start, C, sums + 4 * t * (hi - lo) * C, C, n)
for o in range(lo, hi):
    target = f32_at(y_at + 4 * o * C * T)
    for t in range(T):
        source = f32_at(sums + 4 * (t * (hi - lo) + o - lo) * C)
        for c in range(C):
            target[c * T + t] = source[c]
"""

# Vectors are of outputs: the window's places have too few channels to fill one.
BY_WEIGHT_OF_FEW = """\
pixels = f32_at(image)
for i in range(C * plane):
    pixels[i] = f32(0)
slopes = f32_at(slope)
for i in range(run * (hi - lo)):
    slopes[i] = f32(0)
for n in range(N):
    {pack}
    for q in range(OH):
        start = g_at + 4 * (n * g_n + lo * g_c + q * g_h)
        tile_transpose(hi - lo, OW, start, g_c, slope + 4 * q * WQ * (hi - lo), hi - lo)
    for c in range(C):
        for i in range(KH):
            for j in range(KW):
                phase = (i * DH % SH) * SW + j * DW % SW
                source = f32_at(image + 4 * (c * plane + (phase * HQ + i * DH // SH) * WQ + j * DW // SW))
                target = f32_at(seen + 4 * (c * T + i * KW + j) * apart)
                for p in range(run):
                    target[p] = source[p]
    tile_matmul(C * T, hi - lo, run, f32(1), seen, apart, 1, slope, hi - lo, sums, hi - lo, n)
tile_transpose(C * T, hi - lo, sums, hi - lo, y_at + 4 * lo * C * T, C * T)
"""


def lower_convolution(group: Group, placement: Placement, lanes: int) -> SourceKernel:
    """The kernel of one convolution op, for vectors of so many floats."""
    return _Convolution(group.nodes[0], placement, lanes).run()


class _Convolution:
    def __init__(self, node: Node, placement: Placement, lanes: int) -> None:
        self.node, self.placement, self.lanes = node, placement, lanes
        self.words = Words()

    def run(self) -> SourceKernel:
        text = {"convolution": self._forward, "convolution_by_input": self._by_input}
        body, extent = text.get(self.node.op.name, self._by_weight)()
        owners = [self.placement[n].owner for n in (*self.node.inputs, self.node)]
        work = self.node.op.cost(self.node).flops // 4
        return SourceKernel(
            self.node.op.name,
            self.words.source(body),
            tuple(self.words.values),
            extent,
            tuple(owners[:2]),
            (owners[2],),
            work,
        )

    def _image(self, name: str, place: Place) -> None:
        """An operand of rows that lie dense: its address and the strides of its other axes."""
        self.words.place(name, place)
        self.words.add(**{f"{name}_{axis}": stride for axis, stride in zip("nch", place.view.strides, strict=False)})

    def _geometry(self, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...]) -> None:
        """Sizes of input (N, C, H, W), weight and output, and how the window moves."""
        self.size = dict(zip("NCHW", x, strict=True)) | {"O": w[0], "KH": w[2], "KW": w[3], "T": w[2] * w[3]}
        self.size |= {"OH": y[2], "OW": y[3]}
        attrs = self.node.attrs
        for a, axis in enumerate("HW"):
            self.size[f"S{axis}"], self.size[f"D{axis}"] = attrs["stride"][a], attrs["dilation"][a]
            self.size[f"P{axis}"] = attrs["padding"][a][0]
        self.words.add(**self.size)

    def _reach(self, axis: str) -> int:
        """Rows or columns of a phase of the padded input that windows meet."""
        s = self.size
        return ((s[f"O{axis}"] - 1) * s[f"S{axis}"] + (s[f"K{axis}"] - 1) * s[f"D{axis}"]) // s[f"S{axis}"] + 1

    # ---- the three kernels --------------------------------------------------------------------------------

    def _forward(self) -> tuple[str, int]:
        x, w = self.node.inputs
        self._geometry(x.shape, w.shape, self.node.shape)
        s, place = self.size, self.placement[self.node]
        rows, columns = self._reach("H"), self._reach("W")
        plane = _spread(s["SH"] * s["SW"] * rows * columns)
        run = (s["OH"] - 1) * columns + s["OW"]
        self.words.add(HQ=rows, WQ=columns, plane=plane, run=run)
        self._image("x", self.placement[x])
        self._image("y", place)
        self.words.place("w", self.placement[w])
        self.words.own("taps", 16 * s["T"])
        self._panels(s["O"], s["C"])
        self.words.own("image", 4 * s["C"] * plane + 256)
        dense = place.view.strides[2] in (s["OW"], 0)
        step = self._rows_at_a_time(s["OW"], dense)
        if columns == s["OW"] and dense:
            parts = {"product": FORWARD_RUN, "out": "y_at + 4 * (n * y_n + o * y_c), y_c", "store": "pass"}
        elif step:
            parts = {"product": FORWARD_ROWS, "store": "pass", "step": str(step), "skip": _between(step, "WQ - OW")}
        else:
            self.words.own("sums", 4 * s["O"] * run)
            parts = {"product": FORWARD_RUN, "out": "sums + 4 * o * run, run", "store": STORE}
        return filled(FORWARD, pack=filled(PACK, row=ROW_COPY), high=str(PANEL), **parts), s["N"]

    def _rows_at_a_time(self, columns: int, dense: bool) -> int:
        """Rows of a result that fill whole tiles, or 0: then rows follow one another with what lies between them."""
        if columns % (2 * self.lanes) == 0:
            return 1
        return 2 if columns == self.lanes and dense else 0

    def _by_input(self) -> tuple[str, int]:
        g, w = self.node.inputs
        self._geometry(self.node.shape, w.shape, g.shape)
        s = self.size
        reach = {axis: (s[f"K{axis}"] - 1) * s[f"D{axis}"] // s[f"S{axis}"] for axis in "HW"}
        phase = {axis: (s[f"P{axis}"] + s[axis] - 1) // s[f"S{axis}"] + 1 for axis in "HW"}
        ahead = {axis: min(s[f"P{axis}"] // s[f"S{axis}"], reach[axis]) for axis in "HW"}  # padding in every phase
        rows, columns = (phase[axis] - ahead[axis] for axis in "HW")
        pitch = columns + reach["W"]
        plane, run = _spread((rows + reach["H"]) * pitch), (rows - 1) * pitch + columns
        self.words.add(RH=reach["H"], RW=reach["W"], QH=ahead["H"], QW=ahead["W"], HQ=phase["H"], WQ=phase["W"])
        self.words.add(pitch=pitch, plane=plane, run=run)
        self._image("g", self.placement[g])
        self._image("y", self.placement[self.node])
        self.words.place("w", self.placement[w])
        self.words.own("taps", 16 * s["T"] + 8 * s["SH"] * s["SW"])
        self._panels(s["C"], s["O"])
        self.words.own("image", 4 * s["O"] * plane + 256)
        view = self.placement[self.node].view
        step = self._rows_at_a_time(s["W"], view.strides[2] in (s["W"], 0)) if s["SH"] == s["SW"] == 1 else 0
        if step:
            parts = {"product": BY_INPUT_ROWS, "store": "pass", "step": str(step), "skip": _between(step, "pitch - W")}
        else:
            self.words.own("sums", 4 * s["C"] * run)
            parts = {"product": BY_INPUT_RUN, "store": BY_INPUT_STORE}
        return filled(BY_INPUT, row=ROW_COPY, high=str(PANEL), **parts), s["N"]

    def _panels(self, rows: int, depth: int) -> None:
        """Packed weights, `tap` elements from one place of the window to the next: not a power of 2, or all of them
        would share cache sets."""
        tap = _spread(depth * PANEL)
        self.words.add(tap=tap)
        self.words.own("weights", 4 * -(-rows // PANEL) * self.size["T"] * tap)

    def _by_weight(self) -> tuple[str, int]:
        g, x = self.node.inputs
        self._geometry(x.shape, self.node.shape, g.shape)
        s = self.size
        rows, columns = self._reach("H"), self._reach("W")
        few = s["C"] * s["T"] <= FEW
        plane, run = s["SH"] * s["SW"] * rows * columns, (s["OH"] - 1) * columns + s["OW"]
        plane = _spread(plane) if few else plane
        self.words.add(HQ=rows, WQ=columns, plane=plane, run=run)
        self._image("g", self.placement[g])
        self._image("x", self.placement[x])
        self.words.place("y", self.placement[self.node])
        self.words.own("image", 4 * s["C"] * plane + 256)
        self.words.own("slope", 4 * s["O"] * run)
        self.words.own("sums", 4 * self.node.type.size)
        if few:
            apart = _spread(run)
            self.words.add(apart=apart)
            self.words.own("seen", 4 * s["C"] * s["T"] * apart)
            return filled(BY_WEIGHT_OF_FEW, pack=filled(PACK, row=ROW_COPY)), s["O"]
        self.words.own("line", 4 * s["C"] * s["W"])
        return filled(BY_WEIGHT, row=ROW_COPY), s["O"]


def _between(step: int, skip: str) -> str:
    """What lies in the image between two vectors of a tile: something only where they are of two rows."""
    return skip if step > 1 else "0"


def _spread(floats: int) -> int:
    """An odd number of cache lines: the planes of neighbouring channels then share no cache sets."""
    return -(-floats // 16) * 16 + (16 if -(-floats // 16) % 2 == 0 else 0)
