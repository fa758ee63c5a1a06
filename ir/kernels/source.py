"""Kernels written out as source, for what no loop nest of single operations says well: products in registers."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent

from tinygrad_lite.ir.kernels.words import Address, Scratch, Word
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.schedule.place import Place


@dataclass(frozen=True)
class SourceKernel:
    """A kernel's text, its words, the extent of its parallel loop, what it reads and writes, and its work."""

    label: str
    source: str
    words: tuple[Word, ...]
    extent: int
    reads: tuple[Node, ...]  # owners of storages
    writes: tuple[Node, ...]
    work: int


class Words:
    """Words by name: each is a line at the head of the kernel."""

    def __init__(self) -> None:
        self.lines = ["w = i64_at(args)"]
        self.values: list[Word] = []

    def add(self, **values: Word) -> None:
        """Words of these names."""
        for name, value in values.items():
            self.lines.append(f"{name} = w[{len(self.values)}]")
            self.values.append(value)

    def place(self, name: str, place: Place) -> None:
        """The address of a value, as `name`_at."""
        self.add(**{f"{name}_at": Address(place.owner, place.view.offset)})

    def float64(self, name: str, bits: int) -> None:
        """A word that is read as a float64, rounded to float32."""
        self.lines.append(f"{name} = f32(f64_at(args + {8 * len(self.values)})[0])")
        self.values.append(bits)

    def own(self, name: str, nbytes: int, pointer: bool = False) -> None:
        """This worker's own memory: its address, or a float32 pointer. Whole vectors may be read past its end."""
        nbytes = -(-nbytes // 64) * 64 + 64
        at = len(self.values)
        address = f"w[{at}] + worker * w[{at + 1}]"
        self.lines.append(f"{name} = f32_at({address})" if pointer else f"{name} = {address}")
        self.values += [Scratch(nbytes), nbytes]

    def source(self, body: str) -> str:
        """The whole kernel."""
        return "def kernel(args, lo, hi, worker):\n" + indent("\n".join([*self.lines, body]), "    ")


def filled(template: str, **parts: str) -> str:
    """The template with its parts: a line that is one part takes all of the part's lines, at its indentation."""
    lines = []
    for line in template.splitlines():
        name = line.strip()[1:-1]
        if line.strip() == f"{{{name}}}" and name in parts:
            lines.append(indent(parts[name].rstrip("\n"), line[: line.index("{")]))
        else:
            lines.append(line)
    return "\n".join(lines).format(**parts) + "\n"
