"""Program: an optimised Graph as native code. It owns every buffer whose address its tape holds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tinygrad_lite import loops
from tinygrad_lite.backends.numba import blas
from tinygrad_lite.backends.numba.compiler import Kernels, load_kernels
from tinygrad_lite.calls import Call, calls_of
from tinygrad_lite.errors import OutOfRangeError
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.kernels.words import Address, Check, Frame, Moving, Scratch, Status, Word
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.schedule.memory import Plan, greatest_live, plan, take_in
from tinygrad_lite.ir.schedule.reuse import storage
from tinygrad_lite.ir.schedule.schedule import schedule
from tinygrad_lite.lives import arena_lives, large_constants, output_lives
from tinygrad_lite.runtime.arena import aligned, poison
from tinygrad_lite.runtime.tape import Instruction, Tape, even_parts
from tinygrad_lite.runtime.workers import entry_points, get_num_threads, pool

Array = np.ndarray[Any, Any]

# Work is counted in units of about 0.04 ns.
SMALL_STEP = 2_000_000  # waking another worker takes as long as this
SMALL_CALL = 20_000  # below it, a call is not split: a barrier would cost as much
POISON = bool(os.environ.get("TINYGRAD_LITE_POISON"))  # fill memory with NaN before each run, so that stale reads show


class Program:
    """`run(args, states)` computes the graph's outputs and updates the state arrays in place.

    args are arrays of the graph's argument types (copied in), states contiguous arrays whose memory is updated.
    IndexError where an index is out of range, naming the user's line.
    """

    def __init__(self, graph: Graph, workers: int | None = None) -> None:
        start = time.perf_counter()
        self.schedule = schedule(graph)
        self.calls = calls_of(self.schedule)
        self.seconds = {"schedule": time.perf_counter() - start}
        self.workers = workers or usual_workers(self.calls)
        self.smallest = 0 if workers else SMALL_CALL  # an explicit number of workers is used throughout
        self._load()
        self._allocate()
        self._divide()
        self._assemble()

    def _load(self) -> None:
        """Native code for every kernel."""
        self.kernels: Kernels = load_kernels({c.source: c.source for c in self.calls}, beside=entry_points())

    # ---- buffers ----------------------------------------------------------------------------------------

    def _allocate(self) -> None:
        graph = self.schedule.graph
        self.inputs = [self._buffer(n) for n in graph.args]
        self.address: dict[int, int] = {id(n): a.ctypes.data for n, a in zip(graph.args, self.inputs, strict=True)}
        self.constants = [self._constant(n) for n in large_constants(graph, self.calls)]
        self._plan_arena()
        owners = [self.schedule.placement[n].owner for n in graph.outputs]
        self.output_index = {id(owner): i for i, owner in enumerate(owners)}
        self.outputs = [self._output(node, owner) for node, owner in zip(graph.outputs, owners, strict=True)]
        self.state_arrays: list[Array | None] = [None] * len(graph.states)
        self.state_addresses = [0] * len(graph.states)
        self.state_index = {id(s): i for i, s in enumerate(graph.states)}
        self.state_index |= {owner: self.state_index[id(s)] for owner, s in self.schedule.home.items()}

    def _buffer(self, node: Node) -> Array:
        return aligned(node.type.nbytes).view(node.dtype.numpy)[: node.type.size].reshape(node.shape)

    def _output(self, node: Node, owner: Node) -> Array:
        """In the arena where there is room, else in memory of its own."""
        if id(owner) not in self.arena_range:
            array = self._buffer(node)
            self.address[id(owner)] = array.ctypes.data
            return array
        start = self.arena_range[id(owner)][0]
        return self.arena[start : start + node.type.nbytes].view(node.dtype.numpy).reshape(node.shape)

    def _constant(self, node: Node) -> Array:
        array = self._buffer(node)
        array[...] = node.op.numpy(**node.attrs)
        self.address[id(node)] = array.ctypes.data
        return array

    def _plan_arena(self) -> None:
        """Lives of all that lies in the arena; then one plan."""
        owners, lives = arena_lives(self.schedule, self.calls, self.workers)
        self.plan: Plan = plan(lives)
        self.lives = lives
        self.arena = aligned(self.plan.size)
        places = zip(self.plan.offsets, self.lives, strict=True)
        self.arena_range = {id(o): (at, at + life.size) for o, (at, life) in zip(owners, places, strict=False)}
        self.life_of = {id(o): life for o, life in zip(owners, lives, strict=False)}
        scratch = iter(self.plan.offsets[len(owners) :])
        for call in self.calls:
            call.scratch = [next(scratch) for w in call.words if isinstance(w, Scratch)]
        self._take_in_outputs()
        self._take_over()
        base = self.arena.ctypes.data
        self.address |= {key: base + start for key, (start, _) in self.arena_range.items()}

    def _take_in_outputs(self) -> None:
        """Outputs lie in the arena too where it has room: gradients come to be while what forward saved goes."""
        owners, lives = output_lives(self.schedule, self.calls)
        places = zip(owners, lives, take_in(self.lives, self.plan, lives), strict=True)
        found = [(owner, life, at) for owner, life, at in places if at is not None]
        self.arena_range |= {id(owner): (at, at + life.size) for owner, life, at in found}
        self.life_of |= {id(owner): life for owner, life, _ in found}
        self.lives = [*self.lives, *(life for _, life, _ in found)]
        offsets = (*self.plan.offsets, *(at for _, _, at in found))
        self.plan = Plan(offsets, self.plan.size, max(self.plan.live, greatest_live(self.lives)))

    def _take_over(self) -> None:
        """What is written over an operand lies where that does."""
        over = self.schedule.over
        for call in self.calls:
            for owner in call.writes:
                if id(owner) in over:
                    self.arena_range[id(owner)] = self.arena_range[id(storage(owner, over))]

    # ---- work -----------------------------------------------------------------------------------------------

    def _divide(self) -> None:
        """Shares of the workers; barriers where a call needs what another worker wrote or overwrites what it reads."""
        load = [0] * self.workers
        since: list[tuple[Call, set[Any], set[Any]]] = []
        last_check = self._last_check()
        previous = self.calls[0] if self.calls else None
        for i in loops.rounds(self.calls):
            call = self.calls[i]
            reads, writes = ({self._range(o) for o in owners} for owners in (call.reads, call.writes))
            scratch = {
                ("arena", at, at + w.nbytes * self.workers)
                for at, w in zip(call.scratch, [w for w in call.words if isinstance(w, Scratch)], strict=True)
            }
            rivals = [c for c, r, w in since if _overlap(writes | scratch, r | w) or _overlap(reads, w)]
            call.parts = call.parts or self._parts(call, rivals, load)
            if any(not _same_worker(call, c) for c in rivals):
                previous.barrier = True
                since, load = [], [0] * self.workers
            previous = call
            since.append((call, reads, writes | scratch))
            for worker, (low, high) in enumerate(call.parts):
                load[worker] += call.work * (high - low) // max(1, call.extent)
            if i == last_check:  # states are written after it: a failure finds them as they were
                call.barrier = call.stop = True
                since, load = [], [0] * self.workers
        if self.calls:
            self.calls[-1].barrier = True

    def _last_check(self) -> int:
        """The call after which nothing can fail any more: the last that can, or the end of the loop that it is in."""
        found = [i for i, call in enumerate(self.calls) if call.can_fail]
        if not found:
            return -1
        frames = self.calls[found[-1]].frames
        return loops.spans(self.calls)[id(frames[0])][1] if frames else found[-1]

    def _range(self, owner: Node) -> tuple[str, int, int]:
        """The memory of a storage, to compare with others'."""
        if id(owner) in self.arena_range:
            return ("arena", *self.arena_range[id(owner)])
        if id(owner) in self.state_index:
            return ("state", self.state_index[id(owner)], self.state_index[id(owner)] + 1)
        return ("own", id(owner), id(owner) + 1)

    def _parts(self, call: Call, rivals: list[Call], load: list[int]) -> tuple[tuple[int, int], ...]:
        if self.workers == 1:
            return ((0, call.extent),)
        if call.extent > 1 and call.work >= self.smallest:
            return even_parts(call.extent, self.workers, self._grain(call))
        holders = {_holder(c) for c in rivals}
        holder = holders.pop() if len(holders) == 1 else None
        chosen = holder if holder is not None else load.index(min(load))
        return tuple((0, call.extent) if w == chosen else (0, 0) for w in range(self.workers))

    def _grain(self, call: Call) -> int:
        return min(call.grain, max(1, call.extent // self.workers))

    def _assemble(self) -> None:
        """Argument words of every call, and the tape. State addresses are patched when they become known."""
        self.status = aligned(8).view(np.int64)  # the error cell: 0, or 1 + the number of a check that failed
        self.checks: list[Node] = []
        pitches = [-(-len(c.words) // 8) * 8 for c in self.calls]
        offsets = np.cumsum([0] + [p * loops.trips(c.frames) for p, c in zip(pitches, self.calls, strict=True)])
        self.words = aligned(8 * int(offsets[-1] + 8)).view(np.int64)
        # state → (words, byte offsets), a number each or an array over the steps of loops
        self.patches: list[list[tuple[Any, Any]]] = [[] for _ in self.state_arrays]
        instructions = []
        for i, call in enumerate(self.calls):
            start, runs = int(offsets[i]), np.arange(loops.trips(call.frames))
            scratch = iter(call.scratch)
            for j, word in enumerate(call.words):
                places: Any = start + j + pitches[i] * runs if call.frames else start + j
                self.words[places] = self._word(word, places, scratch, call.frames)
            address = self.words.ctypes.data + 8 * start
            grain = self._grain(call) if call.divisible and _holder(call) is None else 0
            kernel = self.kernels[call.source]
            instructions.append(Instruction(kernel, address, call.parts, call.barrier, call.stop, grain))
        numbers, run = loops.rows(self.calls)
        last = np.array([loops.trips(c.frames) - 1 for c in self.calls], np.int64)
        order = numbers, 8 * np.array(pitches, np.int64)[numbers] * run, (run == last[numbers]).astype(np.int64)
        self.tape = Tape(instructions, self.workers, self.status.ctypes.data, order)
        self.uses_blas = any(c.group.kind in ("matmul", "opaque") for c in self.calls)

    def _word(self, word: Word, position: Any, scratch: Iterator[int], frames: tuple[Frame, ...]) -> Any:
        if isinstance(word, Address | Moving):
            offset = word.offset if isinstance(word, Address) else loops.offsets(word, frames)
            nbytes = offset * word.owner.dtype.itemsize
            if id(word.owner) in self.state_index:
                self.patches[self.state_index[id(word.owner)]].append((position, nbytes))
                return 0
            return self.address[id(word.owner)] + nbytes
        if isinstance(word, Scratch):
            return int(self.arena.ctypes.data + next(scratch))
        if isinstance(word, Status):
            return int(self.status.ctypes.data)
        if isinstance(word, Check):
            self.checks.append(word.node)
            return len(self.checks)
        return int(word)

    # ---- running --------------------------------------------------------------------------------------------

    def bind_state(self, index: int, array: Array) -> None:
        """Let state `index` live in `array`: contiguous, of the state's type."""
        address = array.ctypes.data
        if address != self.state_addresses[index]:
            for position, nbytes in self.patches[index]:
                self.words[position] = address + nbytes
            self.state_addresses[index] = address
        self.state_arrays[index] = array

    def execute(self, turns: int = 1) -> None:
        """Run the tape on the bound buffers, `turns` times over."""
        if POISON and turns > 1:
            for _ in range(turns):
                self.execute()
            return
        if POISON:
            poison(self.arena)
            for output in self.outputs:
                poison(output)
        self._run_tape(turns)
        if self.status[0]:
            self._report()

    def _run_tape(self, turns: int) -> None:
        if self.uses_blas:
            with pool().lock, blas.single_threaded():
                self.tape.run(turns)
        else:
            self.tape.run(turns)

    def run(self, args: Sequence[Array], states: Sequence[Array] = ()) -> list[Array]:
        """Fresh outputs; `states` are updated in place."""
        for buffer, given in zip(self.inputs, args, strict=True):
            np.copyto(buffer, given, casting="no")
        for i, array in enumerate(states):
            self.bind_state(i, array)
        self.execute()
        return [o.copy() for o in self.outputs]

    def _report(self) -> None:
        node = self.checks[int(self.status[0]) - 1]
        self.status[0] = 0
        where = f" (asked for at {node.location.file}:{node.location.line})" if node.location else ""
        if node.op.name == "pow":
            raise RuntimeError(f"pow: integers to negative integer powers are not allowed{where}")
        if node.op.failure is not None:
            raise node.op.failure[0](f"{node.op.failure[1]}{where}")
        raise OutOfRangeError(f"an index is out of range for a dimension of size {node.attrs['size']}{where}")


def usual_workers(calls: Sequence[Call]) -> int:
    """One for programs too small to wake another."""
    work = sum(c.work * loops.trips(c.frames) for c in calls)
    return 1 if work < SMALL_STEP else get_num_threads()


def _overlap(a: set[Any], b: set[Any]) -> bool:
    return any(x[0] == y[0] and x[1] < y[2] and y[1] < x[2] for x in a for y in b)


def _holder(call: Call) -> int | None:
    """The worker that runs a call alone, or None."""
    busy = [w for w, (low, high) in enumerate(call.parts) if high > low]
    return busy[0] if len(busy) == 1 else None


def _same_worker(a: Call, b: Call) -> bool:
    return _holder(a) is not None and _holder(a) == _holder(b)
