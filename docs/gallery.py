"""Draws docs/images/gallery and writes docs/gallery.md: one architecture a family of models. Run by `make gallery`."""

from __future__ import annotations

import re
from pathlib import Path

import tinygrad_lite as tl
from tinygrad_lite import models, viz
from tinygrad_lite.ir.reading import amount
from tinygrad_lite.models.examples import example

DOCS = Path(__file__).parent
PRESETS = {  # what is drawn → how deep
    "mlp-mnist": None,
    "vgg11": None,
    "resnet18": 1,
    "resnet20": None,
    "unet": 1,
    "fpn-resnet18": None,
    "charlstm": None,
    "bert-base": None,
    "gpt-nano": None,
    "llama-small": None,
    "t5-small": 3,
    "vit-b16": None,
    "dit-s2": None,
    "vae-tiny": None,
}
HEAD = """# Gallery

One model a family, as `viz.architecture(model, *inputs)` draws it: boxes are modules with their sizes, parameter
counts and, behind convolutions and pools, how many pixels of the input an element sees and how far apart neighbours
look ("jump"). Thick arrows are residual connections past their branch, dashed ones lead from a block to its next
repetition, and equal neighbours are drawn once. The preset's own inputs are one example each. `make gallery` draws
all of it again.
"""


def main() -> None:
    folder = DOCS / "images" / "gallery"
    folder.mkdir(parents=True, exist_ok=True)
    parts = [HEAD]
    for name, depth in PRESETS.items():
        with tl.nn.init.skip_random():
            model = models.build(name).eval()
        inputs = example(model).inputs
        svg = viz.architecture(model, *inputs).to_svg(depth=depth)
        (folder / f"{name}.svg").write_text(smaller(svg), encoding="utf-8")
        total = tl.summary(model, *inputs).total
        size = f"{total.parameters:,} parameters, {amount(total.flops, 'FLOP')} a forward pass"
        parts.append(f"\n## {name}\n\n{size}\n\n![{name}](images/gallery/{name}.svg)\n")
    (DOCS / "gallery.md").write_text("".join(parts), encoding="utf-8")


def smaller(svg: str) -> str:
    """Coordinates to one decimal, no comments: a third of the bytes go."""
    text = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL).replace(' xml:space="preserve"', "")
    return re.sub(r"(?<=\d)\.(\d)\d+(?=[, \"A-Z])", r".\1", text)


if __name__ == "__main__":
    main()
