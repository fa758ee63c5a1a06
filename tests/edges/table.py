"""All edges kept as data. A family is a module with a list EDGES and a line here.

`python -m tests.edges.table` writes them into docs/edge_cases.md, between its two markers.
"""

from __future__ import annotations

from pathlib import Path

from tests.edges import elementwise, numbers, reductions
from tests.edges.edge import Edge, markdown

DOCUMENT = Path(__file__).parents[2] / "docs" / "edge_cases.md"
BEGIN, END = "<!-- written by tests/edges/table.py -->", "<!-- end of what tests/edges/table.py writes -->"

EDGES: list[Edge] = [
    *elementwise.EDGES,
    *reductions.EDGES,
    *numbers.EDGES,
]


def document() -> str:
    """The document with its generated part renewed; what stands around it is written by hand."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before.rstrip()}\n\n{BEGIN}\n\n{markdown(EDGES)}\n{END}\n{after.lstrip()}"


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
