"""Writes docs/tour.md: one GPT block from what was traced to what the machine runs. Run by `make gallery`."""

from __future__ import annotations

from pathlib import Path

import tinygrad_lite as tl
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.models.gpt import Block, GPTConfig
from tinygrad_lite.stages import Planned, stage_of

WIDTH, HEADS, TOKENS = 8, 2, 4
TEXT = """# Tour: one GPT block, from traced to tape

This is what `tl.compile` makes of a transformer block of {width} features, {heads} heads, on {tokens} tokens, stage
by stage. Every text here is what `print(compiled.graph(stage))` shows (`docs/tour.py` writes this page), and the same
is behind the slider of `tinygrad-lite view gpt-nano`.

```python
import tinygrad_lite as tl
from tinygrad_lite.models.gpt import Block, GPTConfig

block = Block(GPTConfig(n_embd={width}, n_head={heads}, block_size={tokens})).eval()
compiled = tl.compile(block)
with tl.no_grad():
    compiled(tl.randn(1, {tokens}, {width}))
for stage in ("traced", "optimised", "scheduled", "kernels", "tape"):
    print(compiled.graph(stage))
```

## traced

What the module's Python asked for, one line a node: a name, the op, operands and attributes, the type; the comment
holds the module and the line of the model. Broadcasts are explicit (`reshape` adds axes, `expand` stretches them) and
so are constants.

```
{traced}```

Folded to modules, `to_text(depth=1)` is the overview:

```
{folded}```

## Passes

`print(compiled.pass_log)` says what each pass found; `compiled.pass_log.passes[1].diff().print()` shows it line by
line.

```
{log}
```

The first pass that rewrites, in its own words (`-` removed, `+` added, `~` operands changed):

```
{diff}```

## optimised

```
{optimised}```

## scheduled

Groups of nodes that share one kernel, in run order. Values of a group that nobody else reads stay in registers; the
others lie in one arena, at the offset after the arrow, where a later value may take the place of a dead one. Views
(`reshape`, `permute`, `slice`) have no kernel: they are strides. The text still parses to the same graph, for all of
this is comments.

```
{scheduled}```

## kernels

Every distinct kernel as a loop nest; sizes and strides are parameters, so one kernel serves every product here.
Products are calls. `to_text(source=True)` prints the Python that is compiled.

```
{kernels}```

## tape

What the workers walk through: the kernel, each worker's share of its outermost loop, what it writes and reads.

```
{tape}```

A training step is the same with more of it: backward and optimiser are nodes like any other. `tinygrad-lite graph
gpt-nano --train --depth 1` prints one, and `compiled.explain()`, `compiled.profile()` and `compiled.memory()` account
for its kernels, time and bytes.
"""
MOST = 70  # lines of a stage that are shown


def main() -> None:
    block = Block(GPTConfig(n_embd=WIDTH, n_head=HEADS, block_size=TOKENS))
    traced = tl.trace(block, tl.zeros(1, TOKENS, WIDTH))
    log = pipeline.PassLog()
    optimised = pipeline.run(traced, observers=[log])
    program = Planned(optimised, 1)
    shown = {
        name: shortened(str(stage_of(name, traced, optimised, program))) for name in ("optimised", "kernels", "tape")
    }
    shown["scheduled"] = str(stage_of("scheduled", traced, optimised, program))
    changed = next(p for p in log if p.name == "canonicalise")
    passes = "\n".join(f"{p.number} {p.name}: {len(p.before)} → {len(p.after)} nodes{hits(p)}" for p in log)
    text = TEXT.format(
        width=WIDTH,
        heads=HEADS,
        tokens=TOKENS,
        traced=shortened(str(traced)),
        folded=folded(traced),
        log=passes,
        diff=shortened(str(changed.diff()), 30),
        **shown,
    )
    Path(__file__).with_name("tour.md").write_text(text, encoding="utf-8")


def hits(applied: pipeline.Applied) -> str:
    done = ", ".join(f"{name} {count}" for name, count in applied.hits.most_common())
    return f" ({done})" if done else ""


def folded(graph: Graph) -> str:
    return graph.to_text(depth=1, costs=True)


def shortened(text: str, most: int = MOST) -> str:
    lines = text.splitlines()
    if len(lines) > most:
        lines = [*lines[: most - 12], f"  … {len(lines) - most} lines more", *lines[-11:]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
