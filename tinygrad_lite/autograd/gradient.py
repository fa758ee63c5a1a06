"""`backward` and `grad`, after torch.autograd."""

from __future__ import annotations

from collections.abc import Sequence

from tinygrad_lite.autodiff import gradients
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import GradMeta, Node
from tinygrad_lite.ir.record import mode, record
from tinygrad_lite.ops import create
from tinygrad_lite.ops.elementwise import CAST, cast

Tensors = Tensor | Sequence[Tensor]
MaybeTensors = Tensor | Sequence[Tensor | None] | None


def backward(
    tensors: Tensors,
    grad_tensors: MaybeTensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Accumulate the gradients of `tensors` into `.grad` of the leaves, or of `inputs` alone. See `Tensor.backward`."""
    outputs = _listed(tensors)
    roots = [t._read() for t in outputs]
    seeds = _seeds(outputs, roots, grad_tensors)
    deliver = _Deliver(create_graph, seeds)
    wanted = None if inputs is None else _listed(inputs)
    if wanted is not None and not wanted:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    wrt = None if wanted is None else [_followed(t) for t in wanted]
    found = gradients(roots, seeds, wrt, create_graph=create_graph, retain_graph=retain_graph, deliver=deliver)
    with mode.set(phase="backward", grad_enabled=create_graph):
        for t, g in zip(wanted or (), found, strict=True):
            if g is not None:
                t._accumulate(deliver.owned(g), create_graph)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: MaybeTensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of `outputs` with respect to `inputs`, as new tensors; `.grad` is left alone.

    Args:
        grad_outputs: cotangents of the outputs; 1 for scalars.
        allow_unused: give None for inputs the outputs do not depend on, instead of an error.
        materialize_grads: give zeros for them.

    Raises:
        RuntimeError: an input that does not require grad, or is unused; and as `Tensor.backward`.
    """
    targets, wanted = _listed(outputs), _listed(inputs)
    roots = [t._read() for t in targets]
    seeds = _seeds(targets, roots, grad_outputs)
    wrt = [_followed(t) for t in wanted]
    deliver = _Deliver(create_graph, seeds)
    found = gradients(roots, seeds, wrt, create_graph=create_graph, retain_graph=retain_graph, deliver=deliver)
    if materialize_grads:
        found = [create.zeros_like(n) if g is None else g for n, g in zip(wrt, found, strict=True)]
    elif not allow_unused and any(g is None for g in found):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. "
            "Set allow_unused=True if this is the desired behavior."
        )
    return tuple(None if g is None else Tensor._from_node(g) for g in found)


class _Deliver:
    """Hands cotangents to the tensors that own them, each with memory of its own."""

    def __init__(self, create_graph: bool, seeds: Sequence[Node]) -> None:
        self.create_graph = create_graph
        self.taken = {id(g): g for g in seeds}

    def __call__(self, meta: GradMeta, g: Node) -> None:
        owner = meta.owner() if meta.owner is not None else None
        if owner is None:
            return
        if meta.retains and not meta.leaf:
            owner.grad = None
        owner._accumulate(self.owned(g), self.create_graph)

    def owned(self, g: Node) -> Node:
        """`g`, or a copy where another tensor has it or it is a window into other memory."""
        shared = id(g) in self.taken
        if g.value is not None and not self.create_graph:
            flags = g.value.flags
            shared = shared or not (flags.owndata and flags.c_contiguous)
        if shared:
            g = record(CAST, g, dtype=g.dtype)
        self.taken[id(g)] = g
        return g


def _listed(tensors: Tensors) -> list[Tensor]:
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for t in listed:
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensors, got {type(t).__name__}")
    return listed


def _followed(t: Tensor) -> Node:
    node = t._read()
    if node.grad is None:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return node


def _seeds(outputs: list[Tensor], roots: list[Node], given: MaybeTensors) -> list[Node]:
    listed = [given] * len(outputs) if given is None or isinstance(given, Tensor) else list(given)
    if len(listed) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(listed)} gradients")
    return [_seed(i, root, g) for i, (root, g) in enumerate(zip(roots, listed, strict=True))]


def _seed(index: int, root: Node, given: Tensor | None) -> Node:
    if root.grad is None:
        raise RuntimeError(f"element {index} of tensors does not require grad and does not have a grad_fn")
    if given is None:
        if root.type.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        return create.ones(root.shape, root.dtype)
    if not isinstance(given, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(given).__name__}")
    g = given._read()
    if g.shape != root.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {list(g.shape)} "
            f"and output[{index}] has a shape of {list(root.shape)}."
        )
    return cast(g, root.dtype)
