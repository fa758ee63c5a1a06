"""Figures of each workload's program that do not depend on the machine: a regression guard that needs no clock.

python benchmarks/figures.py --check        # exit code 1 where one differs from benchmarks/figures.json
python benchmarks/figures.py --update       # after a change that was meant to move them

Programs are planned for two workers and the narrower vectors, and nothing is compiled to machine code.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import numpy as np
from decode import build_decoder, weights
from workload import WORKLOADS, make_step

import tinygrad_lite
from tinygrad_lite.backends.numba import cpu, packed, tile
from tinygrad_lite.backends.numba.compiler import Kernels
from tinygrad_lite.capture import capture
from tinygrad_lite.instructions import Listing
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.models.generate import Decoder
from tinygrad_lite.program import Program

NAMES = (*WORKLOADS, "decode")
GOLDEN = Path(__file__).with_name("figures.json")
WORKERS = 2
RECOMPUTED = "recompute"
Figures = dict[str, int]


class Planned(Program):
    """A Program without machine code: it cannot run, and is complete in all else."""

    def _load(self) -> None:
        self.kernels = Kernels({call.source: 0 for call in self.calls})


@contextlib.contextmanager
def plain_machine() -> Iterator[None]:
    """Plan as for a CPU with vectors of 8 floats, whatever this one has."""
    with contextlib.ExitStack() as stack:
        for module in (cpu, packed, tile):
            stack.enter_context(mock.patch.object(module, "lanes", lambda: 8))
        yield


def graph_of(name: str) -> Graph:
    """A workload's training step as traced; of `decode` a token's."""
    tinygrad_lite.manual_seed(0)
    if name == "decode":
        decoder = Decoder(build_decoder(weights(np.random.default_rng(0))), 1, compiled=False)
        with tinygrad_lite.no_grad():
            return capture(decoder.writer.advance, ((),), {}, []).graph
    workload = WORKLOADS[name]
    step = make_step(tinygrad_lite, workload.build(tinygrad_lite), compiled=False)
    batch = [tinygrad_lite.from_numpy(a) for a in workload.batch(np.random.default_rng(0))]
    return capture(step, tuple(batch), {}, batch).graph


def figures_of(graph: Graph) -> Figures:
    """The figures of a graph's program.

    kernels: distinct ones, which are compiled; instructions: calls; rows: lines of the tape, loops written out;
    barriers; arena and live: bytes planned, and the least that any plan needs; flops, and of these recomputed; moved:
    bytes that cross the kernels' borders.
    """
    with plain_machine():
        program = Planned(pipeline.run(graph), WORKERS)
    steps = Listing(program).steps
    again = [n for n in program.schedule.graph.nodes if n.location and n.location.phase == RECOMPUTED]
    return {
        "kernels": len(program.kernels),
        "instructions": len(program.calls),
        "rows": len(program.tape.order[0]),
        "barriers": int((program.tape._rows[0, :, -1] & 1).sum()),
        "arena": program.plan.size,
        "live": program.plan.live,
        "flops": sum(s.flops for s in steps),
        "recomputed": sum(n.op.cost(n).flops for n in again),
        "moved": sum(s.bytes for s in steps),
    }


def differences(found: dict[str, Figures], golden: dict[str, Figures]) -> list[str]:
    """One line a figure that is not as it was."""
    lines = []
    for name, figures in found.items():
        before = golden.get(name, {})
        for key in [*figures, *(k for k in before if k not in figures)]:
            was, now = before.get(key), figures.get(key)
            if was != now:
                change = f" ({now / was - 1:+.1%})" if was and now else ""
                lines.append(f"{name}: {key} was {was}, is {now}{change}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Print, check or update the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {' '.join(NAMES)}; all by default")
    parser.add_argument("--check", action="store_true", help="exit code 1 where a figure is not as it was")
    parser.add_argument("--update", action="store_true", help=f"write them to {GOLDEN.name}")
    options = parser.parse_args(arguments)
    golden: dict[str, Figures] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    found = {name: figures_of(graph_of(name)) for name in options.names or NAMES}
    changes = differences(found, golden)
    print("\n".join(changes) if options.check or options.update else json.dumps(found, indent=1))
    if options.update:
        known = golden | found
        GOLDEN.write_text(json.dumps({name: known[name] for name in NAMES if name in known}, indent=1) + "\n")
    return 1 if options.check and changes else 0


if __name__ == "__main__":
    sys.exit(main())
