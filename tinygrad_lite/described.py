"""What a tensor is, and its values as Python and NumPy see them: the part of Tensor that changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tinygrad_lite import views
from tinygrad_lite.device import CPU, device
from tinygrad_lite.errors import CaptureError
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import here, mode
from tinygrad_lite.ir.strides import is_contiguous
from tinygrad_lite.ir.types import DType
from tinygrad_lite.layouts import layout, memory_format

if TYPE_CHECKING:
    from tinygrad_lite.handle import Tensor


class Size(tuple[int, ...]):
    """A shape."""

    __slots__ = ()

    def numel(self) -> int:
        """How many elements a tensor of this shape has."""
        count = 1
        for n in self:
            count *= n
        return count

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        return Size(tuple(self) + tuple(other))

    def __radd__(self, other: Any) -> Any:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, times: Any) -> Any:
        return Size(tuple(self) * times)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"tinygrad_lite.Size({list(self)})"


def refuse(what: str) -> NoReturn:
    """CaptureError: `what` cannot be done while tl.compile records, or a transform runs a function without values."""
    doing = getattr(mode.trace, "doing", "tl.compile records the function")
    raise CaptureError(
        f"{what}, which is not known while {doing} ({here()}). "
        "Return the tensor and read it outside, or keep the decision in the graph with where()"
    )


_CHANNELS_LAST = {memory_format.channels_last: (0, 2, 3, 1), memory_format.channels_last_3d: (0, 2, 3, 4, 1)}


class Described:
    """Base of Tensor: type, layout, and reading."""

    __slots__ = ()

    _node: Node
    _base: Tensor | None
    _view: views.Steps
    requires_grad: Any  # a property of Tensor

    def _read(self) -> Node:
        raise NotImplementedError

    def _rebased(self) -> Tensor:
        raise NotImplementedError

    # ---- what it is ----

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._node.type.dtype

    @property
    def shape(self) -> Size:
        """The sizes of the axes."""
        return Size(self._node.type.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one axis."""
        return self.shape if dim is None else self.shape[dim]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._node.type.shape)

    def dim(self) -> int:
        """The number of axes."""
        return len(self._node.type.shape)

    ndimension = dim

    def numel(self) -> int:
        """The number of elements."""
        return self._node.type.size

    nelement = numel

    @property
    def device(self) -> device:
        """The CPU."""
        return CPU

    is_cpu = True
    is_cuda = is_mps = is_xpu = is_meta = False
    is_sparse = is_nested = is_quantized = is_mkldnn = False
    layout = layout.strided

    def get_device(self) -> int:
        """-1, which stands for the CPU."""
        return -1

    def is_pinned(self) -> bool:
        """False: no other device reads this memory."""
        return False

    def is_conj(self) -> bool:
        """False: there are no complex dtypes."""
        return False

    is_neg = is_shared = is_pinned

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating one."""
        return self.dtype.kind == "f"

    def is_complex(self) -> bool:
        """False: there are no complex dtypes."""
        return False

    def element_size(self) -> int:
        """Bytes an element."""
        return self.dtype.itemsize

    itemsize = property(element_size)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._node.type.nbytes

    def stride(self, dim: int | None = None) -> Any:
        """Steps between neighbours along each axis, in elements, as PyTorch would lay the tensor out."""
        shape = self._node.type.shape if self._base is None else self._rebased()._node.type.shape
        strides = views.strides_of(shape, self._view)
        return strides if dim is None else strides[dim]

    def data_ptr(self) -> int:
        """The address of the first element; another one after an in-place write."""
        return int(self._values("data_ptr()").ctypes.data)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the layout is row-major without gaps; for memory_format=channels_last, with channels innermost."""
        if memory_format in _CHANNELS_LAST:
            axes = _CHANNELS_LAST[memory_format]
            shape, strides = self._node.type.shape, self.stride()
            return len(axes) == len(shape) and is_contiguous(
                tuple(shape[a] for a in axes), tuple(strides[a] for a in axes)
            )
        return self._base is None or is_contiguous(self._node.type.shape, self.stride())

    # ---- reading values ----

    def _values(self, what: str) -> np.ndarray[Any, Any]:
        """The array. CaptureError in a capture, RuntimeError for a tensor that leaked out of one."""
        if mode.trace is not None:
            refuse(f"{what} needs the value of a tensor")
        node = self._read()
        if node.value is None:
            raise RuntimeError(
                f"{what}: this tensor was made inside tl.compile and has no value outside. "
                "Return it from the compiled function instead"
            )
        return node.value  # type: ignore[no-any-return]

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """The values as an array that shares memory: for reading.

        Raises:
            RuntimeError: the tensor requires grad (use detach().numpy(), or force=True).
        """
        if self.requires_grad and not force:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return self._values("numpy()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    __array_priority__ = 1000  # array * tensor is ours

    def item(self) -> Any:
        """The one element as a Python number. RuntimeError where there are more or none."""
        array = self._values("item()")
        if array.size != 1:
            raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
        return array.item()

    def tolist(self) -> Any:
        """The values as nested lists, or a number."""
        return self._values("tolist()").tolist()

    def __bool__(self) -> bool:
        array = self._values("bool()")
        if array.size != 1:
            many = "more than one value" if array.size else "no values"
            raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous")
        return bool(array.item())

    def __float__(self) -> float:
        return float(self._scalar("float()"))

    def __int__(self) -> int:
        return int(self._scalar("int()"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._scalar("index()"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex()"))

    def _scalar(self, what: str) -> Any:
        array = self._values(what)
        if array.size != 1:
            raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
        return array.item()

    def __format__(self, spec: str) -> str:
        return self.item().__format__(spec) if self.ndim == 0 else object.__format__(self, spec)

    def __repr__(self) -> str:
        from tinygrad_lite.printing import to_text

        return to_text(self)  # type: ignore[arg-type]

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(len(self)))  # type: ignore[index]

    def __hash__(self) -> int:
        return id(self)
