"""Writes docs/coverage.md: PyTorch's public names, which of them are here, and why the others are not.

python docs/coverage.py        where both torch and tinygrad_lite are installed
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).with_name("coverage.md")
SPACES = {
    "torch": "tinygrad_lite",
    "torch.Tensor": "tinygrad_lite.Tensor",
    "torch.nn": "tinygrad_lite.nn",
    "torch.nn.functional": "tinygrad_lite.nn.functional",
    "torch.nn.init": "tinygrad_lite.nn.init",
    "torch.nn.utils": "tinygrad_lite.nn.utils",
    "torch.linalg": "tinygrad_lite.linalg",
    "torch.func": "tinygrad_lite.func",
    "torch.autograd": "tinygrad_lite.autograd",
    "torch.autograd.functional": "tinygrad_lite.autograd.functional",
    "torch.optim": "tinygrad_lite.optim",
    "torch.optim.lr_scheduler": "tinygrad_lite.optim.lr_scheduler",
}
STORAGE = "memory as a thing apart from a tensor's values"
ABOUT_STORAGE = {"as_strided_", "resize_", "resize_as_", "set_", "share_memory_"}
# The first group of which a missing name contains a word is its reason.
REASONS = {
    "complex numbers": """
        complex real imag angle conj polar fft stft cfloat cdouble chalf
    """,
    "sparse, nested and quantised layouts": """
        sparse csr csc bsr bsc coalesce indices values crow ccol nested quant qint quint int_repr q_ qparams
        per_channel layout strided mkldnn dense fbgemm float8 float4 bits qscheme jagged smm
    """,
    "devices other than the CPU": """
        cuda cudnn miopen hip xpu mps hpu mtia vulkan metal ipu xla pin device Stream Event ackend accelerator
        Accelerator maia meta autocast GradScaler _amp shared stream cpu Parallel SyncBatch
    """,
    "PyTorch's own machinery": """
        jit Jit JIT script Script torage Type Tensor Error Warning Module Graph Capsule Future deterministic
        warn vital interop printoptions anomaly flush Options Logger Benchmark File Argument Execution Schema
        Callable Any Optional Literal TypeVar ParamSpec Counter Self Supports override wraps partial notes
        dispatch Sym sym_ compiled export overrides library classes typename parse unify merge Tracing
        CallStack Alias Compilation names align Profiler kineto torch_function tensor_like overload multithreading
        view_replay layout_policy debug_unwrap NestedIO functionalize rearrange
    """,
    "in-place, `out=` and internal variants of functions that are here": """
        _copy _scatter native_ rsub _impl _backward _out _for_ fused _forward _cell lstm gru _mode renorm
        affine_grid_gen grid_sampler constant_pad conv_tbc alias segment
    """,
    "built lazily or for other people's classes": """
        Lazy Uninitialized factory Buffer Container parametri prune stateless
    """,
    "not asked for so far": "",
}

#: Of functions that are here, what is left out.
ARGUMENTS = """Left out of functions that are here:

* `out=`, `pin_memory=`, `layout=`, `names=`: results are new tensors in the one memory there is; write
  `x.copy_(f(...))` or `x[...] = f(...)` for `out=`. `memory_format=` is taken and changes nothing.
* `view(dtype)` and `frombuffer`: memory is not read as another type.
* `apply_`, `map_`: a Python function an element; `x.copy_(tensor([...]))` says it as well.
* `from_numpy` and `numpy()` share memory one way: an array's later changes show in the tensor made of it, while a
  tensor's in-place methods bind it to new memory, and leave arrays alone.
* Accepted here and not there: numbers in lists and arrays on the right of `x[...] =`, int32 class indices in
  `cross_entropy` and `nll_loss`, integer targets of `binary_cross_entropy_with_logits`, several dims in `prod`,
  arrays with negative strides in `from_numpy`. `binary_cross_entropy` of numbers outside [0, 1] is NaN, not an error:
  no value is read.""".splitlines()


def resolve(path: str) -> object:
    module, _, name = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), name)


def public(space: object) -> set[str]:
    """Names without an underscore in front that are functions, classes or values, not modules."""
    names = {n for n in dir(space) if not n.startswith("_")}
    return {n for n in names if not isinstance(getattr(space, n, None), ModuleType)}


def reason(name: str) -> str:
    if name in ABOUT_STORAGE:
        return STORAGE
    if name.endswith("_") and not name.startswith("_"):
        return "in-place, `out=` and internal variants of functions that are here"
    return next(why for why, words in REASONS.items() if not words or any(word in name for word in words.split()))


def main() -> None:
    lines = [
        "# Coverage of PyTorch's names",
        "",
        "Written by `python docs/coverage.py` against PyTorch 2.13. A name that is",
    ]
    lines += ["listed as here has PyTorch's meaning; docs/edge_cases.md lists where details differ.", ""]
    lines += [*ARGUMENTS, ""]
    rows, details = [], []
    for theirs, ours in SPACES.items():
        wanted, here = public(resolve(theirs)), set(dir(resolve(ours)))
        found, missing = sorted(wanted & here), sorted(wanted - here)
        rows.append(f"| `{theirs}` | {len(found)} | {len(missing)} | {len(set(public(resolve(ours))) - wanted)} |")
        details += [f"## `{theirs}`", "", "Here: " + ", ".join(f"`{n}`" for n in found) + ".", ""]
        grouped: dict[str, list[str]] = {}
        for name in missing:
            grouped.setdefault(reason(name), []).append(name)
        details += [f"* Left out, {why}: " + ", ".join(f"`{n}`" for n in names) + "." for why, names in grouped.items()]
        details.append("")
    lines += ["| namespace | here | left out | only here |", "|---|---|---|---|", *rows, "", *details]
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
