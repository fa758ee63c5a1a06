"""What autocast makes of the arguments of functions. PyTorch's lists for the CPU; all other functions take what comes.

A function called by one of the lists' sees no autocast: its arguments have been converted, and its result stays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import DType, float32, float64
from tinygrad_lite.ops.promote import promote_types

# Products, which 16 bits do no harm.
_LOWERED = frozenset(
    """
    addbmm addmm baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d einsum
    inner linear matmul mm multi_dot prelu scaled_dot_product_attention tensordot vecdot
    """.split()  # noqa: SIM905
)
# What needs the digits, or the range.
_WIDENED = frozenset(
    """
    adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits cdist
    cholesky cholesky_inverse cholesky_solve cond cosine_embedding_loss cross_entropy ctc_loss eigh eigvalsh
    grid_sample hinge_embedding_loss householder_product huber_loss inv inverse kl_div l1_loss lstsq margin_ranking_loss
    matrix_rank max_pool3d max_unpool2d max_unpool3d mse_loss multi_margin_loss multilabel_margin_loss nanquantile
    nll_loss pinverse poisson_nll_loss prod qr quantile smooth_l1_loss soft_margin_loss solve svd svdvals tensorinv
    tensorsolve trace triangular_solve triplet_margin_loss
    """.split()  # noqa: SIM905
)
# Tensors that must be of one dtype: the widest.
_PROMOTED = frozenset(["cat", "index_copy", "stack"])

# Made of products here, of something else in PyTorch.
_KEPT = frozenset(["bilinear"])

_CHOICES: dict[str, Callable[[DType, list[DType]], DType | None]] = {
    **dict.fromkeys(_LOWERED, lambda low, given: low),
    **dict.fromkeys(_WIDENED, lambda low, given: float32),
    **dict.fromkeys(_PROMOTED, lambda low, given: functools.reduce(promote_types, given)),
    **dict.fromkeys(_KEPT, lambda low, given: None),
}


def casting(name: str, function: Any) -> Any:
    """`function`, or where autocast has a rule for its name, one that follows it."""
    choose = _CHOICES.get(name)
    if choose is None:
        return function

    @functools.wraps(function)
    def cast(*args: Any, **kwargs: Any) -> Any:
        low = mode.autocast
        if low is None:
            return function(*args, **kwargs)
        given = [t.dtype for t in _eligible((args, kwargs))]
        wanted = choose(low, given) if given else None
        with mode.set(autocast=None):
            if wanted is None:
                return function(*args, **kwargs)
            return function(*converted(args, wanted), **converted(kwargs, wanted))

    return cast


def converted(tree: Any, dtype: DType) -> Any:
    """Tensors in tuples, lists and dicts converted to a dtype, but for float64 and what is no floating-point tensor."""
    if isinstance(tree, Tensor):
        return tree.to(dtype) if _is_eligible(tree) and tree.dtype is not dtype else tree
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[converted(x, dtype) for x in tree])
    if isinstance(tree, tuple | list):
        return type(tree)([converted(x, dtype) for x in tree])
    if isinstance(tree, Mapping):
        return {key: converted(x, dtype) for key, x in tree.items()}
    return tree


def _is_eligible(tensor: Tensor) -> bool:
    return tensor.dtype.kind == "f" and tensor.dtype is not float64


def _eligible(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree] if _is_eligible(tree) else []
    if isinstance(tree, Mapping):
        return _eligible(list(tree.values()))
    return [t for x in tree for t in _eligible(x)] if isinstance(tree, tuple | list) else []
