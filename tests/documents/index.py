"""The index of both documents: every system and figure with the code and tests that hold it.

`python tests/documents/index.py` writes docs/documents.md from rows.txt and the tests' names; test_index.py checks it.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
TESTS, ROOT = HERE.parent, HERE.parent.parent
EXAMPLES, PAGE = ROOT / "examples" / "documents", ROOT / "docs" / "documents.md"
SYSTEMS = 244
# How many figures each group has.
FIGURES = {
    "DEP": 14, "DEN": 4, "CNV": 8, "RF": 11, "POOL": 7, "RNN": 9, "LSTM": 13, "ATT": 12, "SQ": 9, "MH": 6, "BLK": 10,
    "NRM": 18, "RES": 8, "DRP": 7, "EMB": 5, "ACT": 7, "DIE": 6, "GLU": 6, "ARC": 6, "PAR": 22, "BPX": 12, "INI": 9,
    "REG": 7, "MEM": 3,
}  # fmt: skip
# Rows without code or test, and why. None.
PENDING: dict[int, str] = {}

# What the documents print and what is implemented in its stead.
CORRECTIONS = (
    ("A §1", "every value comes out of the fold twice", "0 comes out once", "DEP-05"),
    ("A §1", "1,024 pieces are what the bound gives", "of its simplified form; unsimplified 1,536, reached", "DEP-13"),
    ("A §3", "a k-tap kernel reaches k - 1 neighbours each way", "k - 1 in all: r += (k - 1) j", "RF-01"),
    ("A §3", "the same job 84,000 times cheaper", "in parameters; multiply-adds 1.74 times fewer", "CNV-03"),
    ("A §3", "the stem's 15 pixels come of its stride", "half of the gain is the 7×7 kernel; ResNet's own stem has 11",
     "RF-10"),
    ("A §5", "0.42 as the maximum of tanh'", "the maximum is 1, at 0; 0.42 is the value at 1", "RNN-01"),
    ("A §5", "a bound without the last state's gradient", "times that gradient's norm", "RNN-08"),
    ("A §5", "2.7e-8 is zero beside 1e-2 in float32", "29 units in the last place: small, not zero", "RNN-09"),
    ("A §6", "the forget gate is the cell's whole derivative", "its direct path; the gates read h too", "LSTM-07"),
    ("A §6", "a forget bias of 1 or 2 survives 100 steps", "2.5e-14 and 3.1e-6; 4.60 is needed for 0.99", "LSTM-05"),
    ("A §6", "h = (1 - z) h' + z g, one bias a gate", "PyTorch's z is 1 - z, and it keeps two biases: both are offered",
     "LSTM-10"),
    ("A §7", "weights .037 .738 .165 .061", "they sum to 1.001; the output comes of the unrounded ones", "ATT-04"),
    ("A §7", "16,000 times the gradient", "by the softmax's input; by the raw score 1,424", "SQ-07"),
    ("A §7", "n² d of memory", "heads · n²", "PAR-22"),
    ("A §8", "√33 = 5.75", "5.74", "BLK-05"),
    ("A §10", "1 / 1.4e-5 = 70,000", "70,065, of the unrounded 0.8^50", "RES-02"),
    ("A §10; B §5", "a residual gradient is at least 1", "0.2^50 if blocks oppose; at least (1 - max‖J‖)^L", "RES-04"),
    ("A §15", "below 24,576 tokens the feed-forward dominates", "all matrices do; the feed-forward alone below 16,384",
     "PAR-11"),
    ("A §15", "6.97e9 parameters", "without the final norm that A §8 calls for: 8,192 more", "PAR-07"),
    ("A §13", "the gated feed-forward weighs 8 d²", "0.78 % more once its width is rounded to 11,008", "GLU-04"),
    ("A §10", "paths of J_m J_l under a product of (I + J_1) … (I + J_L)", "composed, the last block stands first",
     "RES-05"),
    ("A §1; A §6", "512 KiB a token at d = 4,096", "of 32 layers, all heads, 16 bits", "PAR-13"),
    ("A §9; B §4", "BatchNorm over batch and time, drawn over the batch alone", "over both: 4 means, not 12", "NRM-03"),
    ("B §8", "Xavier halves the signal a layer", "under ReLU, its second moment", "INI-05"),
    ("B §1", "two thirds of all parameters are feed-forward", "of a block's weights; 61.6 % of the tied 7B model",
     "BLK-03"),
    ("B §2", "1.3497 and 2.6994", "1.3496 and 2.6992, unrounded", "BPX-03"),
    ("B §2", "a1 0.4301, ŷ -0.5750, L 1.2402 after the step", "0.4302, -0.5751, 1.2405", "BPX-06"),
    ("B §3", "LeakyReLU's derivative at 0 is α", "it has none; the library takes α, as PyTorch", "ACT-03"),
    ("B §3", "SwiGLU ends at the product", "a third matrix leads back to width d, as in A §13", "GLU-06"),
    ("B §6", "variance grows as L σ²", "two additions a block: 1 + 2 L, hence 1/√(2 L)", "BLK-04"),
)  # fmt: skip

# What both leave open, what was chosen, and the code whose default or docstring it is.
CHOICES = (
    ("slope of LeakyReLU", "0.01, PyTorch's", "nn.LeakyReLU"),
    ("ε of norms", "1e-5; of RMSNorm the dtype's own ε, as in PyTorch; BERT 1e-12, ViT, T5 and DiT 1e-6",
     "nn.LayerNorm nn.RMSNorm nn.BatchNorm1d models.encoder.EncoderConfig models.t5.T5Config"),
    ("momentum of running statistics", "0.1; their variance unbiased", "nn.BatchNorm1d"),
    ("filler under BatchNorm", "left out of the moments by `mask`; it becomes the bias", "nn.functional.batch_norm"),
    ("where smoothed mass goes", "ε/V to every class, the true one too", "nn.CrossEntropyLoss"),
    ("sinusoids and rotation", "base 10,000; sines in even, cosines in odd columns; rotation by halves",
     "nn.SinusoidalPositions nn.RotaryPositions"),
    ("contents of a ResNet block", "3×3, norm, ReLU, 3×3, norm, sum, ReLU, as published", "models.resnet.BasicBlock"),
    ("fate of hidden tokens", "80 % the mask, 10 % any id, 10 % as they were", "models.encoder.mask_tokens"),
    ("GeGLU", "SwiGLU with GELU (erf) as the gate", "nn.GeGLU"),
    ("AdaLN and AdaGN", "norm(x) (1 + gain) + bias, a linear map of the condition that starts at 0",
     "nn.AdaLayerNorm nn.AdaGroupNorm"),
    ("QK-norm", "RMSNorm over each head of queries and keys, with a gain", "nn.Attention"),
    ("sandwich norm", "x + norm(F(norm(x)))", "nn.Residual"),
    ("Adam", "β 0.9 and 0.999, ε 1e-8 outside the root, both moments corrected", "optim.Adam"),
    ("length of warm-up", "an argument; the rate is base · k / warmup at step k from 1",
     "optim.lr_scheduler.WarmupCosineLR"),
    ("constants of SELU", "1.0507 and 1.6733", "nn.SELU"),
    ("biases of an LSTM besides the forget gate's", "PyTorch's uniform ones", "nn.LSTM"),
)  # fmt: skip


class Row(NamedTuple):
    """A system of part 1."""

    number: int
    name: str
    section: str
    code: tuple[str, ...]
    tests: tuple[str, ...]


def rows() -> list[Row]:
    """The rows of rows.txt."""
    found = []
    for line in (HERE / "rows.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            number, name, section, code, tests = (part.strip() for part in line.split("|"))
            found.append(Row(int(number), name, section, tuple(code.split()), tuple(tests.split())))
    return found


def ids() -> list[str]:
    """All figures' ids."""
    return [f"{group}-{i:02}" for group, count in FIGURES.items() for i in range(1, count + 1)]


@cache
def functions(path: Path) -> set[str]:
    """Names that a file defines at its top level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}


@cache
def own_tests() -> dict[str, str]:
    """Test of this folder → its file's name."""
    return {name: path.stem for path in sorted(HERE.glob("test_*.py")) for name in functions(path) if "test" in name}


@cache
def tests_of_figures() -> dict[str, list[str]]:
    """Id → the tests named by it."""
    found: dict[str, list[str]] = {}
    for name, file in own_tests().items():
        match = re.match(r"test_([A-Z]+)_(\d\d)_", name)
        if match:
            found.setdefault("-".join(match.groups()), []).append(f"documents/{file}::{name}")
    return found


def resolve(code: str) -> Any:
    """What a code reference names: an attribute below tinygrad_lite, or a path. LookupError where there is none."""
    if code.startswith("ex:"):
        file, _, name = code[3:].partition("::")
        path = EXAMPLES / f"{file}.py"
        if not path.exists() or (name and name not in functions(path)):
            raise LookupError(code)
        return path
    parts = code.split(".")
    found: Any = importlib.import_module("tinygrad_lite")
    for i, part in enumerate(parts):
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module("tinygrad_lite." + ".".join(parts[: i + 1]))
            except ModuleNotFoundError:
                raise LookupError(code) from None
    return found


def located(test: str) -> list[str]:
    """A test reference as folder/file::name. LookupError where there is no such test."""
    if re.fullmatch(r"[A-Z]+-\d\d", test):
        found = tests_of_figures().get(test)
        if not found:
            raise LookupError(test)
        return found
    if "::" not in test:
        file = own_tests().get(test)
        if file is None:
            raise LookupError(test)
        return [f"documents/{file}::{test}"]
    file, name = test.split("::")
    path = TESTS / f"{file}.py"
    if not path.exists() or name not in functions(path):
        raise LookupError(test)
    return [test]


def page() -> str:
    """The text of docs/documents.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Index of the documents"
    yield ""
    yield "Two chapters are implemented: A, neural layers and architectures (§0 to §16), and B, a refresher (§1 to §9)."
    yield "Part 1 lists the systems they describe, part 2 the figures they print, each with the tests that hold it, run"
    yield "eagerly and compiled where a model decides it. Names of code are below `tinygrad_lite`."
    yield "Scripts are in `examples/documents/`, one a section: each prints its tables, trains its demonstrations and"
    yield "leaves its pictures in the folder it is given (`python examples/documents/a03_convolution.py pictures`)."
    yield "Tests are in `tests/`, those without a file in `tests/documents/`."
    yield "This page is written by `python tests/documents/index.py`."
    yield ""
    yield "## Where the documents err"
    yield ""
    yield "| section | printed | implemented | held by |"
    yield "|---|---|---|---|"
    for section, printed, held, figure in CORRECTIONS:
        yield f"| {section} | {printed} | {held} | {figure} |"
    yield ""
    yield "## What the documents leave open"
    yield ""
    yield "| open | chosen | code |"
    yield "|---|---|---|"
    for what, chosen, code in CHOICES:
        yield f"| {what} | {chosen} | {', '.join(map(_shown, code.split()))} |"
    yield ""
    yield "## Part 1: systems"
    yield ""
    yield "| # | system | section | code | held by |"
    yield "|---|---|---|---|---|"
    for row in rows():
        code, tests = (", ".join(map(_shown, part)) for part in (row.code, row.tests))
        yield f"| {row.number} | {row.name} | {row.section} | {code} | {tests} |"
    yield ""
    yield "## Part 2: figures"
    yield ""
    yield "| figure | test |"
    yield "|---|---|"
    found = tests_of_figures()
    for figure in ids():
        yield f"| {figure} | {', '.join(f'`{t}`' for t in found.get(figure, []))} |"
    yield ""
    yield "## Pending"
    yield ""
    yield from [f"* {number}: {reason}" for number, reason in PENDING.items()] or ["Nothing."]


def _shown(reference: str) -> str:
    if re.fullmatch(r"[A-Z]+-\d\d", reference):
        return reference
    if reference.startswith("ex:"):
        file, _, name = reference[3:].partition("::")
        return f"`{file}.py`" + (f" `{name}`" if name else "")
    return f"`{reference}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
