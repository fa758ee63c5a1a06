"""What to look at when training goes wrong: gradients, dead units, the residual stream, attention, gates, Jacobians.

Each function runs a model once and returns data with names; `.plot()` draws them with matplotlib. Nothing of the model
changes: gradients it had are put back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tinygrad_lite import autograd, creation
from tinygrad_lite.autograd import enable_grad, no_grad
from tinygrad_lite.ir.graph import topological
from tinygrad_lite.ir.node import Location
from tinygrad_lite.ir.types import DType, bfloat16, float16, float32, int8
from tinygrad_lite.nn.attention import observe_weights
from tinygrad_lite.nn.module import Module
from tinygrad_lite.tensor import Tensor

Array = np.ndarray[Any, Any]


# ---- results -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curves:
    """Numbers along an axis, one or more rows of them by name.

    Attributes:
        x: places on the axis: numbers, or names of layers.
        y: name → values at these places.
    """

    title: str
    x: Sequence[Any]
    y: Mapping[str, Array]
    x_label: str = ""
    y_label: str = ""
    log: bool = False

    def __getitem__(self, name: str) -> Array:
        return self.y[name]

    def plot(self, path: str | Path | None = None) -> Any:
        """A matplotlib Figure; saved to `path` if given."""
        figure, axes = _figure(self.title, self.x_label, self.y_label)
        named = bool(len(self.x)) and isinstance(self.x[0], str)
        places = range(len(self.x)) if named else self.x
        for name, values in self.y.items():
            axes.plot(places, values, marker="." if len(self.x) < 60 else "", label=name)
        if named:
            axes.set_xticks(range(len(self.x)), self.x, rotation=60, ha="right", fontsize=7)
        if self.log:
            axes.set_yscale("log")
        if len(self.y) > 1:
            axes.legend()
        return _finished(figure, path)


@dataclass(frozen=True)
class Histograms:
    """How values are spread, by layer.

    Attributes:
        edges, counts: layer → bin edges, and values in each bin.
        zeros: layer → values that are exactly zero.
    """

    title: str
    edges: Mapping[str, Array]
    counts: Mapping[str, Array]
    zeros: Mapping[str, int]

    def plot(self, path: str | Path | None = None) -> Any:
        """A matplotlib Figure; saved to `path` if given."""
        figure, axes = _figure(self.title, "value", "count")
        for name, edges in self.edges.items():
            axes.stairs(self.counts[name], edges, label=f"{name} ({self.zeros[name]} zeros)")
        axes.legend(fontsize=7)
        return _finished(figure, path)


def _figure(title: str, x_label: str, y_label: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return figure, axes


def _finished(figure: Any, path: str | Path | None) -> Any:
    if path is not None:
        figure.savefig(path)
    return figure


# ---- gradients ---------------------------------------------------------------------------------------------


@contextmanager
def _own_gradients(model: Module) -> Iterator[None]:
    """Within, parameters start without gradients; those they had come back."""
    kept = [(p, p.grad) for p in model.parameters()]
    for p, _ in kept:
        p.grad = None
    try:
        yield
    finally:
        for p, grad in kept:
            p.grad = grad


def _norm(x: Tensor | None) -> float:
    return 0.0 if x is None else float(np.linalg.norm(x.numpy().astype(np.float64)))


def gradient_norms(model: Module, loss: Callable[[], Tensor]) -> Curves:
    """The gradient's norm of each layer's own parameters, in the model's order; `loss()` computes a scalar loss."""
    with _own_gradients(model):
        loss().backward()
        found = {}
        for path, module in model.named_modules():
            own = [_norm(p.grad) for p in module.parameters(recurse=False)]
            if own:
                found[path or type(model).__name__] = math.hypot(*own)
    values = {"gradient norm": np.array(list(found.values()))}
    return Curves("Gradient norm by layer", list(found), values, "layer", "‖∂L/∂w‖", log=True)


def activation_gradients(model: Module, loss: Callable[[], Tensor], layers: Iterable[Module] | None = None) -> Curves:
    """The norm of ∂L/∂(output) of layers in the order they run: by default of all modules that have no children."""
    chosen = [m for m in model.modules() if not m._modules] if layers is None else list(layers)
    names = {id(m): path for path, m in model.named_modules()}
    outputs: list[tuple[str, Tensor]] = []

    def keep(module: Module, args: Any, out: Any) -> None:
        if isinstance(out, Tensor) and out.requires_grad:
            out.retain_grad()
            outputs.append((names[id(module)], out))

    handles = [m.register_forward_hook(keep) for m in chosen]
    try:
        with _own_gradients(model):
            loss().backward()
    finally:
        for handle in handles:
            handle.remove()
    values = {"gradient norm": np.array([_norm(out.grad) for _, out in outputs])}
    return Curves("Gradient norm by layer", [name for name, _ in outputs], values, "layer", "‖∂L/∂a‖", log=True)


def gradient_by_span(rnn: Module, x: Tensor, state: Any = None, *, factor: float | None = None) -> Curves:
    """‖∂L/∂h_k‖ against the span T - k, L the sum of the last state h_T: how far back a recurrent layer learns.

    Args:
        rnn: a layer with batch_first, called as rnn(x, state) -> (outputs, state).
        x: (B, T, inputs).
        factor: draws the bound factor^span ‖∂L/∂h_T‖ beside it.

    Raises:
        ValueError: a layer that takes time first.
    """
    _check_batch_first("gradient_by_span", rnn)
    hidden = []
    with _own_gradients(rnn), enable_grad():
        for t in range(x.shape[1]):
            _, state = rnn(x[:, t : t + 1], state)
            hidden.append(state[0] if isinstance(state, tuple) else state)
        grads = autograd.grad(hidden[-1].sum(), hidden)
    norms = np.array([_norm(g) for g in reversed(grads)])
    spans = np.arange(len(norms))
    values = {"gradient": norms}
    if factor is not None:
        values["bound"] = float(factor) ** spans * norms[0]
    return Curves("Gradient by span", spans, values, "T - k", "‖∂L/∂h‖", log=True)


def _check_batch_first(name: str, rnn: Module) -> None:
    if not getattr(rnn, "batch_first", True):
        raise ValueError(f"{name}: the {type(rnn).__name__} must have batch_first=True")


# ---- units -------------------------------------------------------------------------------------------------


@contextmanager
def outputs_of(layers: Mapping[str, Module]) -> Iterator[dict[str, list[Array]]]:
    """Within, what the named layers put out is collected."""
    found: dict[str, list[Array]] = {name: [] for name in layers}

    def keeper(name: str) -> Callable[..., None]:
        return lambda module, args, out: found[name].append(out.detach().numpy())

    handles = [layer.register_forward_hook(keeper(name)) for name, layer in layers.items()]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _activations(model: Module, kinds: tuple[str, ...]) -> dict[str, Module]:
    return {path: m for path, m in model.named_modules() if type(m).__name__ in kinds}


class DeadUnits(dict[str, Array]):
    """Layer → the part of examples that each of its units is zero for."""

    def plot(self, path: str | Path | None = None) -> Any:
        """A matplotlib Figure of the units in ascending order; saved to `path` if given."""
        figure, axes = _figure("Zero outputs", "share of the layer's units", "share of examples")
        for name, shares in self.items():
            dead = int((shares == 1).sum())
            axes.stairs(np.sort(shares), np.linspace(0, 1, len(shares) + 1), label=f"{name} ({dead} dead)")
        axes.legend(fontsize=7)
        return _finished(figure, path)


def dead_units(
    model: Module, batches: Iterable[Any], layers: Mapping[str, Module] | None = None, axis: int = -1
) -> DeadUnits:
    """Layer → of each unit the part of examples whose output is exactly zero; a unit is dead at 1.

    Args:
        batches: inputs, one call each.
        layers: by default every ReLU module.
        axis: of the units: -1 for features, 1 for a convolution's channels.

    Raises:
        ValueError: no layer to look at.
    """
    layers = _activations(model, ("ReLU", "ReLU6")) if layers is None else layers
    if not layers:
        raise ValueError("dead_units: the model has no ReLU module; name the layers")
    with outputs_of(layers) as found, no_grad():
        for batch in batches:
            model(batch)
    result = DeadUnits()
    for name, parts in found.items():
        rows = np.concatenate([np.moveaxis(part, axis, -1).reshape(-1, part.shape[axis]) for part in parts])
        result[name] = (rows == 0).mean(axis=0)
    return result


def activation_histograms(
    model: Module, x: Any, layers: Mapping[str, Module] | None = None, bins: int = 50
) -> Histograms:
    """How the outputs of layers are spread over one batch; by default of all activation modules.

    Raises:
        ValueError: no layer to look at.
    """
    kinds = ("ReLU", "ReLU6", "LeakyReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "ELU", "SELU", "Softplus", "Mish")
    layers = _activations(model, kinds) if layers is None else layers
    if not layers:
        raise ValueError("activation_histograms: the model has no activation module; name the layers")
    with outputs_of(layers) as found, no_grad():
        model(x)
    values = {name: np.concatenate([p.ravel() for p in parts]) for name, parts in found.items() if parts}
    counted = {name: np.histogram(v, bins) for name, v in values.items()}
    return Histograms(
        "Activations",
        {name: edges for name, (_, edges) in counted.items()},
        {name: counts for name, (counts, _) in counted.items()},
        {name: int((v == 0).sum()) for name, v in values.items()},
    )


def update_counts(ids: Any, rows: int) -> Array:
    """How often each row of an embedding is updated by a stream of ids: as often as its token occurs."""
    return np.bincount(np.asarray(ids.numpy() if isinstance(ids, Tensor) else ids).ravel(), minlength=rows)


# ---- the residual stream and attention ---------------------------------------------------------------------


def residual_variance(blocks: Sequence[Module], run: Callable[[], Any]) -> Curves:
    """Along blocks that add to a stream: its variance behind each, and the size of what each adds by the stream's.

    `run()` calls the model once.
    """
    pairs: list[tuple[Array, Array]] = []

    def keep(module: Module, args: Any, out: Any) -> None:
        pairs.append((args[0].detach().numpy(), out.detach().numpy()))

    handles = [block.register_forward_hook(keep) for block in blocks]
    try:
        with no_grad():
            run()
    finally:
        for handle in handles:
            handle.remove()
    variance = [out.var() for _, out in pairs]
    ratio = [np.linalg.norm(out - x) / np.linalg.norm(x) for x, out in pairs]
    values = {"variance": np.array(variance), "‖F(x)‖ / ‖x‖": np.array(ratio)}
    return Curves("Residual stream", list(range(1, len(pairs) + 1)), values, "block")


@dataclass(frozen=True)
class AttentionReport(Curves):
    """Mean entropy (nats) of each attention's weights, and the part of queries that give one key over 0.99.

    Attributes:
        weights: path → the weights (B, heads, queries, keys).
    """

    weights: Mapping[str, Array] = field(default_factory=dict)


def attention_report(model: Module, *inputs: Any) -> AttentionReport:
    """Entropy and saturation of every attention a call of the model runs.

    Raises:
        ValueError: a model without a layer of attention, or that calls nn.functional alone.
    """
    seen: dict[str, Array] = {}

    def note(path: str, weights: Tensor) -> None:
        name = path if path not in seen else f"{path}#{len(seen)}"
        seen[name] = weights.detach().numpy()

    with observe_weights(note), no_grad():
        model(*inputs)
    if not seen:
        raise ValueError("attention_report: the call ran no layer of attention")
    values = {
        "entropy": np.array([entropy(w).mean() for w in seen.values()]),
        "saturated": np.array([(w.max(axis=-1) > 0.99).mean() for w in seen.values()]),
    }
    return AttentionReport("Attention", list(seen), values, "layer", weights=seen)


def entropy(weights: Any) -> Array:
    """-Σ p log p over the last axis, in nats."""
    p = np.asarray(weights.numpy() if isinstance(weights, Tensor) else weights, np.float64)
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)


# ---- Jacobians ---------------------------------------------------------------------------------------------


def jacobian(fn: Callable[[Tensor], Tensor], x: Tensor) -> Array:
    """(outputs, inputs) of all elements of fn(x) by all of x, one backward pass an output."""
    with enable_grad():
        x = x.detach().clone().requires_grad_()
        y = fn(x).reshape(-1)
        if not y.requires_grad:
            return np.zeros((y.numel(), x.numel()))
        rows = [autograd.grad(y[i], [x], retain_graph=True, allow_unused=True)[0] for i in range(y.numel())]
    zero = np.zeros(x.numel())
    return np.stack([zero if row is None else row.numpy().ravel() for row in rows])


@dataclass(frozen=True)
class JacobianProduct(Curves):
    """Norms of the product of the first layers' Jacobians.

    Attributes:
        each: the layers' Jacobians; product: of all of them, the last on the left.
    """

    each: Sequence[Array] = ()
    product: Array = field(default_factory=lambda: np.eye(1))


def jacobian_product(layers: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> JacobianProduct:
    """Of layers one after the other: each one's Jacobian where the input reaches it, and their product's norm."""
    each, norms, product = [], [], np.eye(x.numel())
    with no_grad():
        for layer in layers:
            each.append(jacobian(layer, x))
            product = each[-1] @ product
            norms.append(np.linalg.norm(product, 2))
            x = layer(x)
    places = list(range(1, len(each) + 1))
    values = {"‖∏ J‖": np.array(norms), "‖J‖": np.array([np.linalg.norm(j, 2) for j in each])}
    return JacobianProduct("Jacobians", places, values, "layer", log=True, each=each, product=product)


def path_shares(layers: int, norm: float) -> Array:
    """Of the paths through `layers` residual blocks whose branches have Jacobians of this norm: each length's share.

    A path of length k weighs norm^k and there are C(layers, k). Veit et al. 2016, arXiv:1605.06431.
    """
    weights = np.array([math.comb(layers, k) * norm**k for k in range(layers + 1)])
    return weights / weights.sum()


def path_products(jacobians: Sequence[Any]) -> dict[tuple[int, ...], Array]:
    """Every path through residual blocks: the blocks it goes through, and the product of their Jacobians.

    Of L blocks there are 2^L; together they make the Jacobian (I + J_L) … (I + J_1) of the stack, the last on the left.
    """
    first = np.atleast_2d(np.asarray(jacobians[0], np.float64)) if len(jacobians) else np.eye(1)
    paths: dict[tuple[int, ...], Array] = {(): np.eye(len(first))}
    for i, j in enumerate(jacobians):
        matrix = np.atleast_2d(np.asarray(j.detach().numpy() if isinstance(j, Tensor) else j, np.float64))
        paths |= {(*path, i): matrix @ product for path, product in paths.items()}
    return paths


# ---- functions of one variable, pictures, gates -------------------------------------------------------------


class Pieces(int):
    """How many linear pieces a function has.

    Attributes:
        x, y: its values on the grid.
        kinks: places between two pieces.
    """

    x: Array
    y: Array
    kinks: Array

    def plot(self, path: str | Path | None = None) -> Any:
        """A matplotlib Figure of the function with its kinks marked; saved to `path` if given."""
        figure, axes = _figure(f"{int(self)} pieces", "x", "f(x)")
        axes.plot(self.x, self.y)
        axes.plot(self.kinks, np.interp(self.kinks, self.x, self.y), ".")
        return _finished(figure, path)


def count_pieces(
    fn: Callable[[Tensor], Tensor], low: float, high: float, steps: int, tolerance: float = 1e-9
) -> Pieces:
    """Linear pieces of a function of one number over [low, high], whose kinks lie on a grid of `steps` equal steps.

    `fn` maps (steps + 1, 1) float64 to as many values.
    """
    with no_grad():
        x = creation.from_numpy(low + (high - low) * np.arange(steps + 1).reshape(-1, 1) / steps)
        y = fn(x).numpy().ravel()
    slopes = np.diff(y) * steps / (high - low)
    scale = max(1.0, float(np.abs(slopes).max(initial=0.0)))
    bends = np.abs(np.diff(slopes)) > tolerance * scale
    found = Pieces(1 + int(bends.sum()))
    found.x, found.y, found.kinks = x.numpy().ravel(), y, x.numpy().ravel()[1:-1][bends]
    return found


def gradient_support(fn: Callable[[Tensor], Tensor], x: Tensor, at: tuple[int, ...]) -> Array:
    """Which elements of x the output at one place depends on: where its gradient is not zero."""
    with enable_grad():
        x = x.detach().clone().requires_grad_()
        fn(x)[at].backward()
    return np.zeros(x.shape, bool) if x.grad is None else x.grad.numpy() != 0


def equivariance_gap(fn: Callable[[Tensor], Tensor], x: Tensor, by: int, axis: int = -1, margin: int = 0) -> float:
    """The most that fn(shifted x) differs from shifted fn(x); places within `margin` + by of the borders aside."""
    with no_grad():
        moved = creation.from_numpy(np.roll(x.numpy(), by, axis))
        a, b = fn(moved).numpy(), np.roll(fn(x).numpy(), by, axis)
    inner = slice(margin + abs(by), a.shape[axis] - margin - abs(by))
    a, b = (np.moveaxis(v, axis, -1)[..., inner] for v in (a, b))
    return float(np.abs(a - b).max(initial=0.0))


@dataclass(frozen=True)
class ForgetGates(Curves):
    """Mean forget gate at each step, and the mean product of all gates from the first step to each.

    Attributes:
        gates: (T, B, hidden); product: (B, hidden), what is left of a memory after all steps.
    """

    gates: Array = field(default_factory=lambda: np.ones((0, 1, 1)))
    product: Array = field(default_factory=lambda: np.ones((1, 1)))


def forget_gates(lstm: Module, x: Tensor, state: Any = None) -> ForgetGates:
    """The forget gates of the first layer of an LSTM with batch_first over x (B, T, inputs).

    The cell keeps the product of its gates of what it held: ∂c_T/∂c_0 where the gates do not see the cell.
    """
    stacked = recurrent_gates(lstm, x, state).gates["forget"]
    kept = np.cumprod(stacked, axis=0)
    values = {"gate": stacked.mean(axis=(1, 2)), "product": kept.mean(axis=(1, 2))}
    places = np.arange(1, len(stacked) + 1)
    return ForgetGates("Forget gates", places, values, "step", log=True, gates=stacked, product=kept[-1])


@dataclass(frozen=True)
class Gates(Curves):
    """The mean of each gate at each step.

    Attributes:
        gates: name → (T, B, hidden), the candidate, which is no gate but a value in (-1, 1), among them.
    """

    gates: Mapping[str, Array] = field(default_factory=dict)


_GATES = {4: ("input", "forget", "candidate", "output"), 3: ("reset", "update", "candidate")}  # PyTorch's order


def recurrent_gates(rnn: Module, x: Tensor, state: Any = None) -> Gates:
    """All gates of the first layer of an LSTM or GRU with batch_first over x (B, T, inputs).

    A GRU's update is PyTorch's: the part of its state that stays.

    Raises:
        ValueError: a layer without gates, or one that takes time first.
    """
    _check_batch_first("recurrent_gates", rnn)
    names = _GATES.get(rnn.weight_hh_l0.shape[0] // rnn.hidden_size)
    if names is None:
        raise ValueError(f"recurrent_gates: {type(rnn).__name__} has no gates")
    found: list[list[Array]] = []
    with no_grad():
        h = creation.zeros(x.shape[0], rnn.weight_hh_l0.shape[1], dtype=x.dtype) if state is None else _first(state)
        for t in range(x.shape[1]):
            found.append([gate.numpy() for gate in _gates_of(rnn, x[:, t], h, len(names))])
            _, state = rnn(x[:, t : t + 1], state)
            h = _first(state)
    stacked = {name: np.stack([step[i] for step in found]) for i, name in enumerate(names)}
    means = {name: values.mean(axis=(1, 2)) for name, values in stacked.items()}
    return Gates("Gates", np.arange(1, len(found) + 1), means, "step", gates=stacked)


def _first(state: Any) -> Tensor:
    """h of the first layer."""
    h: Tensor = (state[0] if isinstance(state, tuple) else state)[0]
    return h


def _gates_of(rnn: Module, x: Tensor, h: Tensor, count: int) -> list[Tensor]:
    """The gates of one step from its input and the state before it."""
    products = []
    for value, end in ((x, "ih"), (h, "hh")):
        product, bias = value @ getattr(rnn, f"weight_{end}_l0").t(), getattr(rnn, f"bias_{end}_l0", None)
        products.append((product if bias is None else product + bias).chunk(count, dim=-1))
    by_input, by_state = products
    if count == 4:
        i, f, g, o = (a + b for a, b in zip(by_input, by_state, strict=True))
        return [i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()]
    reset, update = ((by_input[i] + by_state[i]).sigmoid() for i in (0, 1))
    return [reset, update, (by_input[2] + reset * by_state[2]).tanh()]


# ---- numbers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NotFinite:
    """The first value that is NaN or infinite though what it was computed from is not."""

    op: str
    location: Location | None
    kind: str
    count: int

    def __str__(self) -> str:
        place = "" if self.location is None else f" at {self.location.file}:{self.location.line}"
        scope = f" in {self.location.scope}" if self.location is not None and self.location.scope else ""
        return f"{self.op} gave {self.count} {self.kind}{place}{scope}"


def first_not_finite(result: Tensor) -> NotFinite | None:
    """Where NaN or infinity came into a tensor that autograd follows; None where there is none.

    Looks through the eager values behind the tensor, as far as its history goes.
    """
    bad: set[int] = set()
    for node in topological([result._read()]):
        value = node.value
        if value is None or node.dtype.kind != "f" or np.isfinite(value).all():
            continue
        if not any(id(i) in bad for i in node.inputs):
            nan = int(np.isnan(value).sum())
            kind, count = ("NaN", nan) if nan else ("infinite", int(np.isinf(value).sum()))
            return NotFinite(node.op.name, node.location, kind, count)
        bad.add(id(node))
    return None


def quantise(x: Any, bits: int = 8) -> tuple[Array, float]:
    """Integers and a scale, x about scale · integers: the largest magnitude is the largest integer."""
    array = np.asarray(x.detach().numpy() if isinstance(x, Tensor) else x, np.float64)
    top = 2 ** (bits - 1) - 1
    scale = float(np.abs(array).max(initial=0.0)) / top or 1.0
    return np.clip(np.round(array / scale), -top, top).astype(np.int64), scale


def quantisation_error(x: Any, bits: int = 8) -> float:
    """Root mean square of what `quantise` loses; an outlier widens the step for all."""
    array = np.asarray(x.detach().numpy() if isinstance(x, Tensor) else x, np.float64)
    whole, scale = quantise(array, bits)
    return float(np.sqrt(np.mean((whole * scale - array) ** 2)))


def outlier_ratio(x: Any, axis: int = -1) -> float:
    """The largest channel's magnitude by the median channel's: what breaks int8 where it is large."""
    array = np.asarray(x.detach().numpy() if isinstance(x, Tensor) else x)
    sizes = np.abs(np.moveaxis(array, axis, -1)).reshape(-1, array.shape[axis]).max(axis=0)
    return float(sizes.max() / np.median(sizes))


def rounded(x: Tensor, dtype: DType) -> Tensor:
    """x rounded to float16 or bfloat16 and back: arithmetic on the result is that of the narrow format.

    The gradient is rounded on its way back too: what is below the format's smallest number is lost, as it would be.
    """
    return x.to(dtype).to(x.dtype)


class FormatLoss(NamedTuple):
    """What values lose in a format: bytes each, shares that become infinite or 0, and of the others the root mean
    square of their relative error."""

    bytes: int
    infinite: float
    zero: float
    error: float


def number_formats(x: Any) -> dict[str, FormatLoss]:
    """Of finite values in float32, float16, bfloat16, and int8 with one scale for all."""
    array = np.asarray(x.detach().numpy() if isinstance(x, Tensor) else x, np.float64)
    with np.errstate(over="ignore"):
        kept = {d.name: array.astype(d.numpy).astype(np.float64) for d in (float32, float16, bfloat16)}
    sizes = {d.name: d.itemsize for d in (float32, float16, bfloat16, int8)}
    whole, scale = quantise(array)
    return {name: _loss(array, values, sizes[name]) for name, values in {**kept, "int8": whole * scale}.items()}


def _loss(wanted: Array, got: Array, size: int) -> FormatLoss:
    finite, there = np.isfinite(got), wanted != 0
    fair = finite & there & (got != 0)
    error = np.sqrt(np.mean((got[fair] / wanted[fair] - 1) ** 2)) if fair.any() else 0.0
    count = max(wanted.size, 1)
    return FormatLoss(size, float((~finite).sum() / count), float((there & (got == 0)).sum() / count), float(error))
