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
    "torch.nn.utils.parametrizations": "tinygrad_lite.nn.utils.parametrizations",
    "torch.nn.utils.parametrize": "tinygrad_lite.nn.utils.parametrize",
    "torch.amp": "tinygrad_lite.amp",
    "torch.linalg": "tinygrad_lite.linalg",
    "torch.func": "tinygrad_lite.func",
    "torch.autograd": "tinygrad_lite.autograd",
    "torch.autograd.functional": "tinygrad_lite.autograd.functional",
    "torch.optim": "tinygrad_lite.optim",
    "torch.optim.lr_scheduler": "tinygrad_lite.optim.lr_scheduler",
}
IN_PLACE = "in-place, `out=` and internal variants of functions that are here"
#: Reasons of names that people type, whole names; the first that has a name is its reason.
EXPLAINED = {
    "memory as a thing apart from a tensor's values": """
        as_strided_ resize_ resize_as_ set_ share_memory_ resize resize_as frombuffer from_file from_dlpack to_dlpack
        storage storage_offset storage_type untyped_storage is_set_to const_data_ptr dim_order empty_permuted
    """,
    "its line search reads values and calls the closure as often as they say, which no capture can": "LBFGS",
    "second moments kept as rows and columns, which is not written yet": "Adafactor",
    "sparse gradients, of which there are none": "SparseAdam",
    "they say in `info` what raises LinAlgError here": "cholesky_ex inv_ex solve_ex lu_factor_ex ldl_factor_ex",
    "factorisations that are no op here; `solve`, `inv`, `qr` and `cholesky` are": """
        lu lu_factor lu_solve lu_unpack ldl_factor ldl_solve geqrf orgqr ormqr lobpcg
        pca_lowrank svd_lowrank
    """,
    "their results are complex numbers": "eig eigvals",
    "old names, which PyTorch deprecates or has removed": """
        clip_grad_norm constant dirac eye kaiming_normal kaiming_uniform normal orthogonal uniform xavier_normal
        xavier_uniform sparse symeig lstsq solve matrix_rank range set_default_tensor_type Container CrossMapLRN2d
        volatile reinforce rnn_relu rnn_tanh variable frobenius_norm nuclear_norm norm_except_dim has_lapack has_mkl
        has_openmp has_spectral
    """,
    "autocast's own switches: write `with autocast(...)`": """
        autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache is_autocast_cache_enabled
        set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype
        set_autocast_enabled
    """,
    "a buffer is registered by `register_buffer`": "Buffer BufferDict",
    "logits are never kept apart from the loss here; write `cross_entropy(linear(...))`": """
        linear_cross_entropy LinearCrossEntropyLoss LinearCrossEntropyOptions
    """,
    "control flow by values; `where` and `scan` are here": "cond while_loop",
    "integers of other widths than NumPy's common ones": """
        int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7 uint16 uint32 uint64 bit
    """,
    "finite differences, of which `diff` is here": "gradient",
    "special functions and histograms without an op": "histogramdd i0 igamma igammac kaiser_window frexp binomial",
    "debugging of backward, which the verifier and `gradcheck` do here": """
        detect_anomaly set_detect_anomaly set_anomaly_enabled is_anomaly_enabled is_anomaly_check_nan_enabled
    """,
    "subclasses of Tensor that change what functions do": """
        as_subclass DisableTorchFunction DisableTorchFunctionSubclass handle_torch_function has_torch_function
        has_torch_function_unary has_torch_function_variadic
    """,
    "what PyTorch's modules import for themselves": """
        TYPE_CHECKING BroadcastingList1 BroadcastingList2 BroadcastingList3 Callable DType Optional Tensor Literal
        ParamSpec TypeVar Counter Self SupportsFloat TypedDict override partial wraps Mapping Sequence cast overload
        bisect_right inf ref EPOCH_DEPRECATION_WARNING GRID_SAMPLE_INTERPOLATION_MODES GRID_SAMPLE_PADDING_MODES
        assert_int_or_pair boolean_dispatch common_notes tf32_notes reproducibility_notes sparse_support_notes
        Enum auto OpaqueBase deepcopy get_swap_module_params_on_conversion is_opaque_reference_type
        is_traceable_wrapper_subclass factory_kwargs classproperty PRIVATE_OPS USE_GLOBAL_DEPS
        USE_RTLD_GLOBAL_WITH_LIBTORCH
    """,
}
# The first group of which a missing name contains a word is its reason.
REASONS = {
    "complex numbers": """
        is_neg resolve_neg complex real imag angle conj polar fft stft cfloat cdouble chalf
    """,
    "sparse, nested and quantised layouts": """
        sparse csr csc bsr bsc coalesce indices values crow ccol nested quant qint quint int_repr q_ qparams
        per_channel per_tensor padded layout strided mkldnn dense fbgemm float8 float4 bits qscheme jagged smm spmm
        saddmm spaddmm
    """,
    "devices other than the CPU": """
        cuda cudnn miopen hip xpu mps hpu mtia vulkan metal ipu xla pin device Stream Event ackend accelerator
        Accelerator maia meta gpu _amp shared stream cpu grouped_mm scaled_mm is_distributed
    """,
    "PyTorch's own machinery": """
        jit Jit JIT script Script torage Type Tensor Error Warning Module Graph Capsule Future deterministic
        warn vital interop printoptions anomaly flush Options Logger Benchmark File Argument Execution Schema
        Callable Any Optional Literal TypeVar ParamSpec Counter Self Supports override wraps partial notes
        dispatch Sym sym_ compiled export overrides library classes typename parse unify merge Tracing
        CallStack Alias Compilation names align Profiler kineto torch_function tensor_like overload multithreading
        view_replay layout_policy debug_unwrap NestedIO functionalize rearrange AVG SUM Block Code Memo Dispatch
        Gradient Node Operator Param Tag Use Value default_generator get_file_path hash_tensor import_ir init_num
        generator multiprocessing fork wait slice_inverse nonzero_static swap_in batch_norm_ grad_dtype module_load
        output_nr is_inference legacy name index transfer_param
    """,
    IN_PLACE: """
        _copy _scatter native_ rsub _impl _backward _out _for_ fused _forward _cell lstm gru _mode renorm
        affine_grid_gen grid_sampler constant_pad conv_tbc alias segment unsafe_split convolution feature_dropout
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
    for why, names in EXPLAINED.items():
        if name in names.split():
            return why
    if name.endswith("_") and not name.startswith("_"):
        return IN_PLACE
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
