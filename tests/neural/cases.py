"""Neural functions on small arrays: name → (f(lib, F, *tensors), the arrays). Floating arrays are differentiated.

Both libraries run every case; here it also runs compiled. float64 almost throughout, so that agreement can be close.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """`twice`: f is smooth enough, and cheap enough, for second derivatives."""

    run: Callable[..., Any]
    arrays: list[Array]
    twice: bool = False


CASES: dict[str, Case] = {}
SPACE = {1: (9,), 2: (7, 6), 3: (5, 4, 6)}
WINDOW = {1: (3,), 2: (3, 2), 3: (2, 3, 2)}


def add(name: str, run: Callable[..., Any], *shapes: Any, twice: bool = False) -> None:
    """Register a case; a shape is drawn from a normal distribution that the name seeds, an array is taken as it is."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    arrays = [s if isinstance(s, np.ndarray) else rng.standard_normal(s) for s in shapes]
    assert name not in CASES, name
    CASES[name] = Case(run, arrays, twice)


def calls(function: str, *args: Any, **options: Any) -> Callable[..., Any]:
    """F.function(*tensors, *args, **options)"""
    return lambda t, F, *xs: getattr(F, function)(*xs, *args, **options)


def steps(*shape: int, by: float = 0.5, seed: int = 0) -> Array:
    """Multiples of `by`: full of ties."""
    return np.round(np.random.default_rng(seed).standard_normal(shape) / by) * by


# ---- convolutions -------------------------------------------------------------------------------------------------

CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stride": {"stride": 2},
    "padding": {"padding": 1},
    "same": {"padding": "same"},
    "same dilated": {"padding": "same", "dilation": 2},
    "valid": {"padding": "valid"},
    "all": {"dilation": 2, "padding": 2, "stride": 2},
}
TRANSPOSED: dict[str, dict[str, Any]] = {
    "plain": {},
    "stride": {"stride": 2},
    "padding": {"padding": 1},
    "output padding": {"stride": 3, "output_padding": 2, "padding": 1},
    "all": {"dilation": 2, "output_padding": 1, "padding": 2},
}
for d in (1, 2, 3):
    S, K, ones = SPACE[d], WINDOW[d], (1,) * d
    for how, options in CONVOLUTIONS.items():
        small = how == "all" and d < 3
        add(f"conv{d}d {how}", calls(f"conv{d}d", **options), (2, 4, *S), (6, 4, *K), (6,), twice=small)
    add(f"conv{d}d unbatched", calls(f"conv{d}d"), (4, *S), (6, 4, *K))
    add(f"conv{d}d groups", calls(f"conv{d}d", groups=2, padding=1), (2, 4, *S), (6, 2, *K), (6,))
    add(
        f"conv{d}d depthwise",
        calls(f"conv{d}d", groups=4, stride=2, padding=1),
        (2, 4, *S),
        (4, 1, *K),
        (4,),
        twice=d < 3,
    )
    add(f"conv{d}d depthwise multiplied", calls(f"conv{d}d", groups=4), (2, 4, *S), (8, 1, *K))
    add(f"conv{d}d of points", calls(f"conv{d}d"), (2, 4, *S), (6, 4, *ones))
    add(f"conv{d}d of points apart", calls(f"conv{d}d", stride=2), (2, 4, *S), (6, 4, *ones))
    add(f"conv{d}d no batch", calls(f"conv{d}d"), (0, 4, *S), (6, 4, *K), (6,))
    for how, options in TRANSPOSED.items():
        name = f"conv_transpose{d}d"
        add(f"{name} {how}", calls(name, **options), (2, 4, *S), (4, 6, *K), (6,), twice=how == "all" and d == 1)
    add(f"{name} groups", calls(name, groups=2, stride=2), (2, 4, *S), (4, 3, *K), (6,))
    add(f"{name} unbatched", calls(name), (4, *S), (4, 6, *K))
for how, options in CONVOLUTIONS.items():  # images in float32 have a kernel of their own
    arrays = [
        np.random.default_rng(i).standard_normal(s).astype("f") for i, s in enumerate(((2, 4, 9, 8), (6, 4, 3, 2)))
    ]
    add(f"conv2d {how} float32", calls("conv2d", **options), *arrays)
add("conv2d of a view", lambda t, F, x, w: F.conv2d(x.transpose(1, 3)[:, ::2], w), (2, 6, 5, 8), (3, 4, 2, 2))
add("unfold", calls("unfold", (2, 3), dilation=2, padding=1, stride=2), (2, 3, 7, 8))
add("unfold unbatched", calls("unfold", 2), (3, 4, 5))
add("fold", calls("fold", (7, 8), (2, 3), padding=1, stride=2), (2, 3 * 6, 4 * 4))
add("fold unbatched", calls("fold", (4, 5), 2), (12, 12))

# ---- pools --------------------------------------------------------------------------------------------------------

POOLS: dict[str, dict[str, Any]] = {
    "tiles": {"kernel_size": 2},
    "overlap": {"kernel_size": 3, "stride": 2, "padding": 1},
    "ceil": {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    "ceil beyond": {"kernel_size": 3, "stride": 3, "padding": 1, "ceil_mode": True},
    "gaps": {"kernel_size": 2, "stride": 3, "ceil_mode": True},
}
for d in (1, 2, 3):
    shape = (2, 3, *SPACE[d])
    for how, options in {**POOLS, "dilation": {"kernel_size": 2, "stride": 1, "dilation": 2}}.items():
        add(f"max_pool{d}d {how}", calls(f"max_pool{d}d", **options), steps(*shape))
        add(f"max_pool{d}d {how} index", calls(f"max_pool{d}d", **options, return_indices=True), steps(*shape))
    for how, options in POOLS.items():
        add(f"avg_pool{d}d {how}", calls(f"avg_pool{d}d", **options), shape)
        if "padding" in options:
            add(f"avg_pool{d}d {how} inside", calls(f"avg_pool{d}d", **options, count_include_pad=False), shape)
        else:
            add(f"lp_pool{d}d {how}", calls(f"lp_pool{d}d", 3, **options), np.abs(steps(*shape)) + 0.1)
        if d > 1:
            add(f"avg_pool{d}d {how} divisor", calls(f"avg_pool{d}d", **options, divisor_override=3), shape)
    for outputs in (1, 2, 3):
        add(f"adaptive_avg_pool{d}d {outputs}", calls(f"adaptive_avg_pool{d}d", outputs), shape)
        index = calls(f"adaptive_max_pool{d}d", outputs, return_indices=True)
        add(f"adaptive_max_pool{d}d {outputs} index", index, steps(*shape))
    add(f"adaptive_max_pool{d}d", calls(f"adaptive_max_pool{d}d", 4), shape)
    add(f"max_pool{d}d unbatched", calls(f"max_pool{d}d", 2), shape[1:])

    def there_and_back(t: Any, F: Any, x: Any, d: int = d) -> Any:
        y, index = getattr(F, f"max_pool{d}d")(x, 2, return_indices=True)
        return getattr(F, f"max_unpool{d}d")(y, index, 2, output_size=x.shape[2:])

    add(f"max_unpool{d}d", there_and_back, shape)
add("adaptive_avg_pool2d keeping", calls("adaptive_avg_pool2d", (None, 4)), (2, 3, 7, 6))
add("max_pool2d of -inf", calls("max_pool2d", 3, 2, 1), np.full((1, 1, 5, 5), -np.inf))
add("max_pool2d with nan", calls("max_pool2d", 3, 1), np.where(np.arange(36.0) == 14, np.nan, 1.0).reshape(1, 1, 6, 6))

# ---- normalisation ------------------------------------------------------------------------------------------------


def running(function: str, **options: Any) -> Callable[..., Any]:
    """With running moments, which are results too."""

    def run(t: Any, F: Any, x: Any, w: Any, b: Any) -> Any:
        mean, var = t.arange(3.0, dtype=t.float64), t.arange(3.0, dtype=t.float64) + 1
        return getattr(F, function)(x, mean, var, w, b, **options), mean, var

    return run


for shape in ((4, 3), (4, 3, 5), (4, 3, 5, 2)):
    size = "x".join(map(str, shape))
    for training in (True, False):
        way = "training" if training else "evaluating"
        smooth = len(shape) == 3
        add(
            f"batch_norm {size} {way}",
            running("batch_norm", training=training, momentum=0.3),
            shape,
            (3,),
            (3,),
            twice=smooth,
        )
        if len(shape) > 2:
            run = running("instance_norm", use_input_stats=training, momentum=0.3)
            add(f"instance_norm {size} {way}", run, shape, (3,), (3,))
add("batch_norm bare", lambda t, F, x: F.batch_norm(x, None, None, training=True), (4, 3, 2))
add("instance_norm bare", lambda t, F, x: F.instance_norm(x), (4, 3, 2))
add("group_norm", lambda t, F, x, w, b: F.group_norm(x, 3, w, b), (2, 6, 4, 5), (6,), (6,), twice=True)
add("group_norm of vectors", calls("group_norm", 2), (2, 6))
add("local_response_norm", calls("local_response_norm", 3, k=2.0), (2, 6, 4, 5), twice=True)
add("local_response_norm even", calls("local_response_norm", 4), (2, 6, 4))
add("layer_norm", lambda t, F, x, w, b: F.layer_norm(x, (4, 5), w, b), (2, 4, 5), (4, 5), (4, 5), twice=True)
add("rms_norm", lambda t, F, x, w: F.rms_norm(x, (5,), w), (2, 4, 5), (5,), twice=True)
add("normalize", calls("normalize"), (3, 4, 2), twice=True)
add("normalize p", calls("normalize", p=1.5, dim=0), (3, 4), twice=True)
add("normalize nothing", calls("normalize"), np.zeros((2, 3)))

# ---- activations --------------------------------------------------------------------------------------------------

ACTIVATIONS: dict[str, list[dict[str, Any]]] = {
    "relu": [{}],
    "relu6": [{}],
    "hardtanh": [{}, {"min_val": -0.5, "max_val": 2}],
    "threshold": [{"threshold": 0.5, "value": 7.0}],
    "leaky_relu": [{}, {"negative_slope": 0.3}],
    "rrelu": [{}],
    "elu": [{}, {"alpha": 0.7}],
    "selu": [{}],
    "celu": [{}, {"alpha": 2.0}],
    "silu": [{}],
    "mish": [{}],
    "hardsigmoid": [{}],
    "hardswish": [{}],
    "gelu": [{}, {"approximate": "tanh"}],
    "softplus": [{}, {"beta": 2.0, "threshold": 3.0}],
    "logsigmoid": [{}],
    "softsign": [{}],
    "tanhshrink": [{}],
    "hardshrink": [{}],
    "softshrink": [{}, {"lambd": 1.0}],
    "glu": [{}, {"dim": 0}],
    "softmax": [{"dim": 0}],
    "softmin": [{"dim": 1}],
    "log_softmax": [{"dim": 1}],
}
KINKS = np.array([0, -0.0, 3, -3, 0.5, -0.5, 1, -1, 6, 2, -2, 1e-9, -80, 80, 10, -10.0]).reshape(4, 4)
SMOOTH = {"silu", "mish", "gelu", "logsigmoid", "tanhshrink", "glu", "softmax", "softmin", "log_softmax", "softplus"}
for function, variants in ACTIVATIONS.items():
    for i, options in enumerate(variants):
        add(f"{function} {i}", calls(function, **options), (4, 6), twice=function in SMOOTH)
        add(f"{function} {i} kinks", calls(function, **options), KINKS)
for slopes, shape in ((1, (2, 3, 4)), (3, (2, 3, 4)), (1, (5,)), (2, (5, 2))):
    add(f"prelu {slopes} {len(shape)}", calls("prelu"), shape, (slopes,))
add("softmax over channels", lambda t, F, x: F.softmax(x, -3), (2, 3, 4, 5))
for function in ("relu", "elu", "selu", "celu", "hardtanh", "leaky_relu"):
    add(
        f"{function} in place",
        lambda t, F, x, f=function: getattr(F, f"{f}_")(x * 2) + getattr(F, f)(x + 1, inplace=True),
        (3, 4),
    )

# ---- losses -------------------------------------------------------------------------------------------------------

SIGNS, ROW_SIGNS = np.sign(steps(5, 4, by=1.0) + 0.5), np.array([1.0, -1, -1, 1, 1])
LABELS = np.array([2, 0, 3, 1, 2])
SETS = np.array([[3, 0, -1, 1], [-1, 0, 1, 2], [0, 1, 2, 3], [2, -1, -1, -1], [1, 3, 0, -1]])
CLASS_WEIGHTS = np.array([0.5, 1.0, 2.0, 3.0])
IMAGE_LABELS = np.arange(20).reshape(2, 5, 2) % 3


def loss(function: str, *fixed: Array, **options: Any) -> Callable[..., Any]:
    """F.function(*tensors, *fixed, **options): the tensors are differentiated, and options of arrays become tensors."""

    def run(t: Any, F: Any, *xs: Any) -> Any:
        given = {k: t.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        return getattr(F, function)(*xs, *[t.tensor(f) for f in fixed], **given)

    return run


for reduction in ("mean", "sum", "none"):
    how = {"reduction": reduction}

    def each(name: str, run: Callable[..., Any], *shapes: Any, twice: bool = False, reduction: str = reduction) -> None:
        add(f"{name} {reduction}", run, *shapes, twice=twice and reduction == "mean")

    rows, row = (5, 4), (4,)
    each("soft_margin_loss", loss("soft_margin_loss", SIGNS, **how), rows, twice=True)
    weighted = {"weight": CLASS_WEIGHTS, **how}
    each("multilabel_soft_margin", loss("multilabel_soft_margin_loss", (SIGNS + 1) / 2, **weighted), rows, twice=True)
    for p in (1, 2):
        each(f"multi_margin_loss {p}", loss("multi_margin_loss", LABELS, p=p, margin=0.7, **weighted), rows)
    each("multi_margin_loss of a row", loss("multi_margin_loss", np.array(2), **how), row)
    each("multilabel_margin_loss", loss("multilabel_margin_loss", SETS, **how), rows)
    each("multilabel_margin_loss of a row", loss("multilabel_margin_loss", SETS[0], **how), row)
    each("margin_ranking_loss", loss("margin_ranking_loss", ROW_SIGNS, margin=0.3, **how), (5,), (5,))
    each("hinge_embedding_loss", loss("hinge_embedding_loss", SIGNS, margin=0.3, **how), rows)
    each("cosine_embedding_loss", loss("cosine_embedding_loss", ROW_SIGNS, margin=0.1, **how), rows, rows)
    each("cosine_embedding_loss of rows", loss("cosine_embedding_loss", np.array(-1.0), margin=-0.5, **how), row, row)
    for i, options in enumerate(({}, {"swap": True}, {"p": 1, "margin": 2.0}, {"p": 3.0})):
        each(f"triplet_margin_loss {i}", loss("triplet_margin_loss", **options, **how), rows, rows, rows)
    for i, options in enumerate(({}, {"full": True}, {"log_input": False})):
        target = np.abs(steps(5, 4)) * 3
        each(f"poisson_nll_loss {i}", loss("poisson_nll_loss", target, **options, **how), np.abs(steps(5, 4)) + 0.1)
    for i, (variances, options) in enumerate(((rows, {}), ((5,), {"full": True}), ((5, 1), {}))):
        spread = np.abs(np.random.default_rng(1).standard_normal(variances)) + 0.1
        each(f"gaussian_nll_loss {i}", loss("gaussian_nll_loss", **options, **how), rows, rows, spread)
    tiny = np.full(rows, 1e-9)
    each("gaussian_nll_loss below eps", loss("gaussian_nll_loss", **how), rows, rows, tiny)
    each("gaussian_nll_loss of a number", loss("gaussian_nll_loss", var=2.0, **how), rows, rows)
    for function, options in (
        ("mse_loss", {}),
        ("l1_loss", {}),
        ("smooth_l1_loss", {"beta": 0.5}),
        ("huber_loss", {"delta": 0.5}),
    ):
        each(function, loss(function, **options, **how), rows, rows)
    for function in ("mse_loss", "l1_loss", "huber_loss"):
        each(f"{function} weighted", loss(function, weight=np.abs(SIGNS) * 2, **how), rows, rows)
    weighted = {"weight": CLASS_WEIGHTS[:3], **how}
    each("nll_loss 2d", loss("nll_loss", IMAGE_LABELS, ignore_index=1, **weighted), (2, 3, 5, 2))
    smoothed = loss("cross_entropy", IMAGE_LABELS, ignore_index=1, label_smoothing=0.1, **weighted)
    each("cross_entropy 2d", smoothed, (2, 3, 5, 2), twice=True)
    probabilities = np.random.default_rng(2).dirichlet(np.ones(4), 5)
    each(
        "cross_entropy soft",
        loss("cross_entropy", probabilities, label_smoothing=0.1, weight=CLASS_WEIGHTS, **how),
        rows,
    )
    each(
        "binary_cross_entropy",
        loss("binary_cross_entropy", (SIGNS + 1) / 2, **how),
        np.abs(np.sin(steps(5, 4))) * 0.9 + 0.05,
    )
    each(
        "bce with logits",
        loss("binary_cross_entropy_with_logits", (SIGNS + 1) / 2, pos_weight=CLASS_WEIGHTS, **how),
        rows,
    )
    each("kl_div", loss("kl_div", probabilities, **how), rows)
    for infinite in (False, True):

        def spelled(t: Any, F: Any, x: Any, joined: bool, how: Any = how, zero: bool = infinite) -> Any:
            targets = t.tensor([1, 1, 2, 2, 3, 4, 4] if joined else [[1, 1, 2], [2, 3, 0], [4, 4, 0]])
            lengths = ((7, 6, 3), (3, 2, 2)) if joined else (t.tensor([7, 6, 3]), t.tensor([3, 2, 2]))
            return F.ctc_loss(x.log_softmax(2), targets, *lengths, zero_infinity=zero, **how)

        for joined in (False, True):
            ways = f"ctc_loss {'joined' if joined else 'rows'} {'finite' if infinite else 'all'}"
            each(ways, lambda t, F, x, f=spelled, joined=joined: f(t, F, x, joined), (7, 3, 5))
    empty = loss(
        "ctc_loss", np.array([1, 1, 2, 2, 4]), input_lengths=(7, 6, 5), target_lengths=(3, 0, 2), blank=3, **how
    )
    each("ctc_loss of nothing", lambda t, F, x, f=empty: f(t, F, x.log_softmax(2)), (7, 3, 5))


def city_blocks(u: Any, v: Any) -> Any:
    return (u - v).abs().sum(-1)


with_distance = calls("triplet_margin_with_distance_loss", distance_function=city_blocks, swap=True)
add("triplet with distance", with_distance, (5, 4), (5, 4), (5, 4))
add("kl_div batchmean", loss("kl_div", CLASS_WEIGHTS.reshape(2, 2), reduction="batchmean"), (2, 2))
add("cosine_similarity", calls("cosine_similarity"), (5, 4), (5, 4), twice=True)
add("cosine_similarity broadcast", calls("cosine_similarity", dim=-1), (5, 1, 4), (3, 4))
for p in (2.0, 1.0, 3.0, 0.5, float("inf")):
    add(f"pairwise_distance {p}", calls("pairwise_distance", p=p, keepdim=True), (5, 4), (5, 4))
    add(f"pdist {p}", calls("pdist", p=p), (5, 4))
add("pairwise_distance of equals", lambda t, F, x: F.pairwise_distance(x, x, eps=0.0), (5, 4))

# ---- attention, bags ----------------------------------------------------------------------------------------------

BAGGED, OFFSETS = np.array([1, 0, 5, 5, 2, 3, 3, 0, 4, 1]), np.array([0, 3, 3, 7])
for mode in ("sum", "mean", "max"):
    add(
        f"embedding_bag {mode}",
        lambda t, F, w, m=mode: F.embedding_bag(t.tensor(BAGGED.reshape(2, 5)), w, mode=m),
        (6, 3),
    )
    for i, options in enumerate(({}, {"padding_idx": 5}, {"include_last_offset": True})):

        def bags(t: Any, F: Any, w: Any, mode: str = mode, options: Any = options) -> Any:
            offsets = np.array([0, 2, 5, 10]) if options.get("include_last_offset") else OFFSETS
            return F.embedding_bag(t.tensor(BAGGED), w, t.tensor(offsets), mode=mode, **options)

        add(f"embedding_bag {mode} offsets {i}", bags, (6, 3))
add(
    "embedding_bag weighted",
    lambda t, F, w, s: F.embedding_bag(t.tensor(BAGGED), w, t.tensor(OFFSETS), mode="sum", per_sample_weights=s),
    (6, 3),
    (10,),
)
add("bilinear", calls("bilinear"), (2, 5, 4), (2, 5, 3), (6, 4, 3), (6,), twice=True)
HEADS = ((2, 4, 3, 5), (2, 4, 6, 5), (2, 4, 6, 2))
add("attention", calls("scaled_dot_product_attention"), *HEADS, twice=True)
add("attention causal", calls("scaled_dot_product_attention", is_causal=True, scale=0.3), *HEADS)
add("attention bias", calls("scaled_dot_product_attention"), *HEADS, (3, 6))
GROUPED = ((2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 2))
add("attention grouped", calls("scaled_dot_product_attention", enable_gqa=True), *GROUPED)
MASK = np.tril(np.ones((3, 6), bool), 1)
MASKED = lambda t, F, q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=t.tensor(MASK), enable_gqa=True)  # noqa: E731
add("attention grouped and masked", MASKED, *GROUPED)

# ---- resampling ---------------------------------------------------------------------------------------------------

MODES: dict[str, Sequence[int]] = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2),
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
    "area": (1, 2, 3),
}
TARGETS: dict[str, dict[str, Any]] = {
    "size": {"size": 7},
    "one": {"size": 1},
    "double": {"scale_factor": 2},
    "more": {"scale_factor": 1.7},
    "less": {"scale_factor": 0.6},
    "recomputed": {"scale_factor": 1.7, "recompute_scale_factor": True},
}
for mode, ranks in MODES.items():
    for d in ranks:
        S = (5, 6, 4)[:d]
        for what, options in TARGETS.items():
            for align in (None,) if mode in ("nearest", "nearest-exact", "area") else (False, True):
                name = f"interpolate {mode} {d} {what} {'' if align is None else align}".rstrip()
                add(name, calls("interpolate", mode=mode, align_corners=align, **options), (2, 3, *S))
add("interpolate to its own size", calls("interpolate", size=(5, 6), mode="bilinear"), (2, 3, 5, 6))
for d in (2, 3):
    S, P = (5, 6, 4)[:d], (4, 3, 2)[:d]
    for mode in ("bilinear", "nearest", "bicubic")[: 5 - d]:
        for padding in ("zeros", "border", "reflection"):
            for align in (False, True):
                name = f"grid_sample {d} {mode} {padding} {align}"
                grid = 1.2 * np.random.default_rng(zlib.crc32(name.encode())).standard_normal((2, *P, d))
                add(name, calls("grid_sample", mode, padding, align), (2, 3, *S), grid)
    for align in (False, True):
        add(f"affine_grid {d} {align}", calls("affine_grid", (2, 3, *(5, 6, 1)[:d]), align), (2, d, d + 1))
add("pixel_shuffle", calls("pixel_shuffle", 2), (2, 8, 3, 4))
add("pixel_unshuffle", calls("pixel_unshuffle", 2), (2, 3, 4, 6))
add("channel_shuffle", calls("channel_shuffle", 3), (2, 6, 4, 5))


# ---- tables that limit rows or count look-ups; images that are smoothed ---------------------------------------------

LOOKED_UP = np.array([[0, 1, 1], [4, 1, 0]])


def limited(t: Any, F: Any, w: Any, p: float) -> Any:
    """The rows and the table afterwards, which changes in place; w, a leaf, may not."""
    table = w.detach().clone()
    return F.embedding(t.tensor(LOOKED_UP), table, None, 1.0, p) + 0 * w[0], table


for p in (1.0, 2.0):
    add(f"embedding max_norm {p}", lambda t, F, w, p=p: limited(t, F, w, p), (6, 3))
add("embedding by frequency", lambda t, F, w: F.embedding(t.tensor(LOOKED_UP), w, scale_grad_by_freq=True), (6, 3))
EQUALLY_OFTEN = np.array([[0, 1], [1, 0]])  # with other frequencies PyTorch divides by those of the row before
for mode in ("sum", "mean"):
    add(
        f"embedding_bag by frequency {mode}",
        lambda t, F, w, m=mode: F.embedding_bag(t.tensor(EQUALLY_OFTEN), w, scale_grad_by_freq=True, mode=m),
        (6, 3),
    )
for mode in ("bilinear", "bicubic"):
    for i, options in enumerate(
        ({"size": (3, 5)}, {"scale_factor": (0.4, 1.3)}, {"size": (1, 9), "align_corners": True})
    ):
        add(
            f"interpolate smoothed {mode} {i}", calls("interpolate", mode=mode, antialias=True, **options), (2, 2, 8, 7)
        )

add("pad circular what is left", calls("pad", (-1, 1, -2, 1), mode="circular"), (1, 3, 4, 4))
