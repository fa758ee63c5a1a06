"""x[index] and x[index] = value.

An index is read in three steps: integers, slices, None and Ellipsis make a view; 0-d integer tensors then select along
their axis; the other integer tensors (lists, arrays, and boolean masks through their nonzero positions) gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_lite.described import refuse
from tinygrad_lite.functional.movement import slice_view, view_shape
from tinygrad_lite.handle import Tensor, fitted, wrap
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.ir.types import bool_, int8, int16, uint8
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import indexing, movement


class _Parsed(NamedTuple):
    """The basic part as slices and the shape after them; the tensors by axis of that shape."""

    starts: list[int]
    stops: list[int]
    steps: list[int]
    shape: list[int]
    tensors: dict[int, Tensor]


def getitem(x: Tensor, index: Any) -> Tensor:
    """x[index]: a view for integers, slices, None and Ellipsis; a copy once tensors, lists or masks take part.

    Raises:
        IndexError: out of range, too many indices, a mask of another shape, an index of another type.
        ValueError: a slice with a negative step.
        CaptureError: a boolean mask inside tl.compile, where the result's shape is not known.
    """
    parsed = _parse(x, index)
    part = _basic(x, parsed)
    if not parsed.tensors:
        return part
    node, tensors = _select_scalars(part._read(), parsed.tensors)
    if not tensors:
        return wrap(node)
    return wrap(indexing.index_nd(node, [_index_node(tensors.get(a)) for a in range(max(tensors) + 1)]))


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value, converted to x's dtype and broadcast; gradients flow to both. Repeated: the last stands.

    Raises:
        IndexError, ValueError: as for reading. RuntimeError: value does not fit; x is a leaf that requires grad.
        CaptureError: inside tl.compile, a mask with a value for each element that it picks.
    """
    place = _masked_place(x, index)
    if place is not None:
        part, mask, rest = place
        source = _beside_mask(_value_node(value, x), mask.type.ndim - rest, rest)
        if source is not None:
            old = part._read()
            part._write(ew.where(mask, fitted(source, old), old))
            return
    parsed = _parse(x, index)
    part = _basic(x, parsed)
    source = _value_node(value, x)
    if parsed.tensors:
        part._write(_put(part._read(), parsed.tensors, source))
    else:
        part._write(fitted(_trimmed(source, part.ndim), part._read()))


def _masked_place(x: Tensor, index: Any) -> tuple[Tensor, Node, int] | None:
    """Of an index that is one mask among integers, slices, None and Ellipsis: the view that those make, the mask over
    its last axes, and how many of these lie behind it. None for other indices, and for a mask that does not fit.

    Such a place can be assigned to without knowing how many elements the mask picks.
    """
    items = [_normalised(item) for item in _items(index)]
    places = [i for i, item in enumerate(items) if isinstance(item, Tensor) and item.dtype is bool_ and item.ndim]
    if len(places) != 1 or any(isinstance(item, Tensor) for i, item in enumerate(items) if i != places[0]):
        return None
    at, mask = places[0], items[places[0]]
    whole = [*items[:at], *[slice(None)] * mask.ndim, *items[at + 1 :]]
    used = sum(item is not None and item is not Ellipsis for item in whole)
    if used > x.ndim:
        return None
    part = getitem(x, tuple(whole))
    first = sum(
        x.ndim - used if item is Ellipsis else int(item is None or isinstance(item, slice)) for item in items[:at]
    )
    if tuple(part.shape[first : first + mask.ndim]) != tuple(mask.shape):
        return None
    rest = part.ndim - first - mask.ndim
    return part, movement.reshape(mask._read(), (*mask.shape, *[1] * rest)), rest


def _beside_mask(source: Node, masked: int, rest: int) -> Node | None:
    """`source` with the axis that runs through the picked elements stretched over the mask's; None where it has a value
    for each of them."""
    if source.type.ndim <= rest:
        return source
    at = source.type.ndim - rest - 1
    if source.shape[at] != 1:
        return None
    return movement.reshape(source, (*source.shape[:at], *[1] * masked, *source.shape[at + 1 :]))


def _value_node(value: Any, x: Tensor) -> Node:
    if isinstance(value, bool | int | float):
        return ew.as_node(value, x.dtype)
    if not isinstance(value, Tensor):
        from tinygrad_lite.creation import tensor

        value = tensor(value)
    return ew.cast(value._read(), x.dtype)


def _trimmed(source: Node, ndim: int) -> Node:
    """Without the leading axes of size 1 that the place does not have."""
    extra = source.type.ndim - ndim
    if extra > 0 and all(s == 1 for s in source.shape[:extra]):
        return movement.reshape(source, source.shape[extra:])
    return source


def _put(base: Node, tensors: dict[int, Tensor], source: Node) -> Node:
    indices: list[Node | None] = [_index_node(tensors.get(a)) for a in range(max(tensors) + 1)]
    if any(i is not None and i.type.ndim == 0 for i in indices) and len(tensors) > 1:
        return _put_below(base, tensors, source)
    return indexing.index_put_nd(base, indices, source)


def _put_below(base: Node, tensors: dict[int, Tensor], source: Node) -> Node:
    """Scalar index tensors first, as reading does it: select, assign there, put the part back."""
    axis = next(a for a, t in tensors.items() if t.ndim == 0)
    place = movement.reshape(tensors[axis]._read(), (1,))
    part = movement.squeeze(indexing.gather(base, place, axis, wrap=True), axis)
    rest = {a - (a > axis): t for a, t in tensors.items() if a != axis}
    done = movement.unsqueeze(_put(part, rest, source), axis)
    return indexing.put(base, place, done, axis, wrap=True)


# ---- parsing ----------------------------------------------------------------------------------------------


def _parse(x: Tensor, index: Any) -> _Parsed:
    items = _expand_ellipsis(x, _items(index))
    parsed = _Parsed([], [], [], [], {})
    axis = 0
    for item in items:
        if item is None:
            parsed.shape.append(1)
        elif isinstance(item, Tensor):
            axis = _take_tensor(x, item, axis, parsed)
        else:
            _take_basic(x, item, axis, parsed)
            axis += 1
    return parsed


def _items(index: Any) -> list[Any]:
    """One entry an axis. A short list of sequences, tensors or slices counts as the tuple of them, as in PyTorch."""
    if isinstance(index, tuple):
        return list(index)
    nested = Sequence | np.ndarray | Tensor | slice
    if isinstance(index, list) and len(index) < 32 and any(isinstance(i, nested) or i is None for i in index):
        return index
    return [index]


def _expand_ellipsis(x: Tensor, items: list[Any]) -> list[Any]:
    items = [_normalised(item) for item in items]
    used = sum(_axes_of(item) for item in items)
    if used > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    rest = [slice(None)] * (x.ndim - used)
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    cut = places[0] if places else len(items)
    return items[:cut] + rest + items[cut + 1 :]


def _axes_of(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype is bool_ else 1


def _normalised(item: Any) -> Any:
    """Tensors for lists and arrays, masks for bytes as in PyTorch; Python integers for what acts like one."""
    if isinstance(item, Tensor):
        if item.dtype in (int8, int16):
            raise IndexError(
                f"tensors used as indices must be int64, int32, uint8 or bool tensors, not {item.dtype.name}"
            )
        return wrap(ew.ne(item._read(), 0)) if item.dtype is uint8 else item
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, bool | np.bool_):
        return Tensor._from_node(leaf(np.asarray(item)))
    if isinstance(item, Sequence | np.ndarray) and not isinstance(item, str):
        return _normalised(_listed(item))
    if hasattr(item, "__index__"):
        return int(item.__index__())
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or bool tensors, lists and arrays are valid "
        f"indices (got {type(item).__name__})"
    )


def _listed(item: Any) -> Tensor:
    from tinygrad_lite.creation import tensor
    from tinygrad_lite.ir.types import int64

    return tensor(item) if len(item) else tensor(item, dtype=int64)


def _take_basic(x: Tensor, item: Any, axis: int, parsed: _Parsed) -> None:
    size = x.shape[axis]
    if isinstance(item, slice):
        start, stop, step = _bounds(item, size)
        parsed.shape.append(len(range(start, stop, step)))
    else:
        if not -size <= item < size:
            raise IndexError(f"index {item} is out of bounds for dimension {axis} with size {size}")
        start, step = item % size, 1
        stop = start + 1
    parsed.starts.append(start)
    parsed.stops.append(stop)
    parsed.steps.append(step)


def _bounds(item: slice, size: int) -> tuple[int, int, int]:
    given = slice(*(None if b is None else _whole(b) for b in (item.start, item.stop, item.step)))
    if given.step is not None and given.step <= 0:
        raise ValueError("step must be greater than zero")
    start, stop, step = given.indices(size)
    return start, max(start, stop), step


def _whole(bound: Any) -> int:
    if not hasattr(bound, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return int(bound.__index__())


def _take_tensor(x: Tensor, item: Tensor, axis: int, parsed: _Parsed) -> int:
    """Keep whole axes for the tensor to index; returns the next axis."""
    count = _axes_of(item)
    if item.dtype.kind == "f":
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    found = [item] if item.dtype is not bool_ else _positions(x, item, axis)
    for offset, index in enumerate(found):
        parsed.tensors[len(parsed.shape)] = index
        size = x.shape[axis + offset] if count else 1
        parsed.shape.append(size)
        if count:
            parsed.starts.append(0)
            parsed.stops.append(size)
            parsed.steps.append(1)
    return axis + count


def _positions(x: Tensor, mask: Tensor, axis: int) -> list[Tensor]:
    """A mask as index tensors, one for each of its axes (a 0-d mask: for a new axis of size 1)."""
    expected = tuple(x.shape[axis : axis + mask.ndim])
    if tuple(mask.shape) != expected:
        raise IndexError(
            f"The shape of the mask {list(mask.shape)} at index {axis} does not match the shape of the indexed tensor "
            f"{list(x.shape)}"
        )
    if mode.trace is not None:
        refuse("indexing with a boolean mask makes a result whose size depends on values")
    return [wrap(leaf(p)) for p in np.nonzero(np.atleast_1d(mask._values("a boolean index")))]


# ---- applying ---------------------------------------------------------------------------------------------


def _basic(x: Tensor, parsed: _Parsed) -> Tensor:
    whole = not any(parsed.starts) and parsed.stops == list(x.shape) and all(s == 1 for s in parsed.steps)
    part = x if whole else slice_view(x, parsed.starts, parsed.stops, parsed.steps)
    return part if part is not x and list(part.shape) == parsed.shape else view_shape(part, parsed.shape)


def _select_scalars(node: Node, tensors: dict[int, Tensor]) -> tuple[Node, dict[int, Tensor]]:
    for axis in sorted((a for a, t in tensors.items() if t.ndim == 0), reverse=True):
        node = indexing.gather(node, tensors[axis]._read(), axis, wrap=True)
        tensors = {a - (a > axis): t for a, t in tensors.items() if a != axis}
    return node, tensors


def _index_node(index: Tensor | None) -> Node | None:
    return None if index is None else index._read()
