"""Kernel source to object code: Numba types and lowers it, LLVM optimises it. Imported only when a kernel is missing.

Numba's own `cfunc` would optimise every function twice and leave references to Numba's runtime in the object code; this
takes its LLVM module before that, adds the entry point, and refuses code that could raise a Python exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import compiler, errors, registry, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import (
    AnnotateTypes,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.types.functions import BaseFunction
from numba.core.untyped_passes import FixupArgs, IRProcessing, ReconstructSSA, TranslateByteCode

from . import intrinsics
from .scalars import scalar_names

I64 = ir.IntType(64)
PASSES = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    ReconstructSSA,
    NopythonTypeInference,
    PreLowerStripPhis,
    IRLegalization,
    AnnotateTypes,
    NativeLowering,
    NoPythonBackend,
)
PUBLIC = (
    "where",
    "sum_add",
    "tile_matmul",
    "tile_taps",
    "tile_transpose",
    "tile_copy",
    "tile_panels",
    "maximum",
    "minimum",
    "floordiv",
    "mod",
    "truncdiv",
    "f16_at",
    "bf16_at",
    "load_f16",
    "load_bf16",
    "store_f16",
    "store_bf16",
    "f16",
    "bf16",
    "truncmod",
    "nonzero",
    "shift_left",
    "shift_right",
    "copysign",
    "int_pow",
    "check_index",
    "atomic_add",
    "atomic_load",
    "atomic_store",
    "call_kernel",
    "call_plain",
    "call_two",
    "ticks",
    "pause",
    "prefetch",
    "sgemm",
    "dgemm",
)
_names: dict[str, Any] = {}
_signatures: dict[tuple[Any, ...], Any] = {}


class CompileError(Exception):
    """A kernel's source is not what the backend can compile; the message holds the source."""


def kernel_names() -> dict[str, Any]:
    """The globals of kernel source; `plain.kernel_names` gives the same names for plain Python."""
    if not _names:
        _names.update({name: getattr(intrinsics, name) for name in PUBLIC}, **intrinsics.LIBRARY, **scalar_names())
        for tag in intrinsics.NUMBA:
            _names[tag], _names[f"{tag}_at"] = getattr(intrinsics, tag), getattr(intrinsics, f"{tag}_at")
        _names.update(inf=float("inf"), nan=float("nan"))
    return _names


class _Pipeline(compiler.CompilerBase):
    """Numba's nopython pipeline without what kernels never use: inlining, list and loop rewrites, with-blocks."""

    def define_pipelines(self) -> list[PassManager]:
        passes = PassManager("kernel")
        for each in PASSES:
            passes.add_pass(each, each.__name__)
        passes.finalize()
        return [passes]


class _Library(JITCodeLibrary):
    """Keeps the lowered module instead of optimising and linking it."""

    module: ir.Module | None = None

    def add_ir_module(self, ir_module: ir.Module) -> None:
        self.module = ir_module


def _flags() -> Any:
    flags = compiler.Flags()
    registry.cpu_target.options.parse_as_flags(flags, {"nopython": True, "fastmath": False, "error_model": "numpy"})
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    flags.enable_pyobject = False
    return flags


@contextmanager
def _signatures_kept() -> Iterator[None]:
    """Numba goes through all templates of an operator wherever it is used; here once for operands of some types, which
    is a third of a kernel's time. Under Numba's lock, so that nobody else's functions are typed meanwhile."""
    find = BaseFunction.get_call_type

    def known(self: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws:
            return find(self, context, args, kws)
        key = (self, *args)
        if key not in _signatures:
            _signatures[key] = find(self, context, args, kws)
        return _signatures[key]

    BaseFunction.get_call_type = known
    try:
        yield
    finally:
        BaseFunction.get_call_type = find


def _lower(function: Any, symbol: str) -> tuple[ir.Module, str]:
    """The LLVM module of a kernel function, and the name of that function in it."""
    target = registry.cpu_target
    typing_context, target_context = target.typing_context, target.target_context
    with global_compiler_lock, _signatures_kept():
        library = _Library(target_context.codegen(), symbol)
        library.enable_object_caching()
        result = compiler.compile_extra(
            typing_context,
            target_context,
            function,
            [types.int64] * 4,
            types.void,
            _flags(),
            {},
            library=library,
            pipeline_class=_Pipeline,
        )
    return library.module, result.fndesc.llvm_func_name


def _add_entry(module: ir.Module, inner: str, symbol: str) -> None:
    """void symbol(i64, i64, i64, i64) around Numba's calling convention, which returns a status."""
    function = module.globals[inner]
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    entry = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 4), symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    slots = [builder.alloca(argument.type.pointee) for argument in function.args[:2]]
    status = builder.call(function, [*slots, *entry.args])
    with builder.if_then(builder.icmp_signed("!=", status, ir.Constant(ir.IntType(32), 0))):
        raised = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "kernel_raised")
        builder.call(raised, [])
    builder.ret_void()


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    options = llvm.PipelineTuningOptions(speed_level=3)
    options.loop_vectorization = options.loop_unrolling = options.loop_interleaving = True
    options.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)


def compile_source(source: str, symbol: str, machine: llvm.TargetMachine) -> tuple[llvm.ModuleRef, bytes]:
    """The optimised module and object code of `def kernel(args, lo, hi, worker)`, exported as `symbol`."""
    scope = dict(kernel_names())
    try:
        exec(compile(source, f"<{symbol}>", "exec"), scope)
        lowered, inner = _lower(scope["kernel"], symbol)
    except (errors.NumbaError, CompileError, SyntaxError) as error:
        raise CompileError(f"{error}\nin this kernel:\n{source}") from error
    _add_entry(lowered, inner, symbol)
    module = llvm.parse_assembly(str(lowered))
    module.data_layout = str(machine.target_data)
    _optimise(module, machine)
    unknown = [f.name for f in module.functions if f.is_declaration and not _resolvable(f.name)]
    if unknown:
        raise CompileError(f"may raise an exception, or calls what only Numba defines ({unknown}):\n{source}")
    return module, machine.emit_object(module)


LIBM = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "lgamma",
    "tgamma",
    "pow",
    "hypot",
    "fmod",
    "fma",
    "nextafter",
)


def _resolvable(name: str) -> bool:
    return name.startswith("llvm.") or name.removesuffix("f") in LIBM or name in ("erf", "memset", "memcpy", "memmove")
