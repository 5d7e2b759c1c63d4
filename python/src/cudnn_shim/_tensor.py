"""Tensors: descriptors with the memory that they describe."""

from __future__ import annotations

import ctypes as C
import enum
from collections.abc import Sequence
from typing import Any, Protocol

from . import _dlpack
from ._library import Owned, call, current_handle

LEAST_DIMS, MOST_DIMS = 2, 8


class SupportsDLPack(Protocol):
    """What is taken as an array: NumPy, PyTorch, CuPy, JAX, and this package's `Memory`."""

    def __dlpack__(self, *arguments: Any, **named: Any) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


class DataType(enum.IntEnum):
    """Types of elements, with the numbers of `cudnnDataType_t`."""

    FLOAT = 0
    DOUBLE = 1
    HALF = 2
    INT8 = 3
    INT32 = 4
    INT8x4 = 5
    UINT8 = 6
    UINT8x4 = 7
    INT8x32 = 8
    BFLOAT16 = 9
    INT64 = 10
    BOOLEAN = 11
    FP8_E4M3 = 12
    FP8_E5M2 = 13

    @property
    def scaling(self) -> type[C._SimpleCData[float]]:
        """The C type of alpha and beta for a destination of this type."""
        return C.c_double if self is DataType.DOUBLE else C.c_float

    @property
    def accumulator(self) -> DataType:
        """The type that convolutions of this type compute in."""
        if self in (DataType.INT8, DataType.UINT8, DataType.INT8x4, DataType.UINT8x4, DataType.INT8x32):
            return DataType.INT32
        return DataType.DOUBLE if self is DataType.DOUBLE else DataType.FLOAT


class TensorDescriptor(Owned):
    """A tensor descriptor."""

    kind = "TensorDescriptor"

    @classmethod
    def strided(cls, data_type: DataType, dims: Sequence[int], strides: Sequence[int]) -> TensorDescriptor:
        """Dims in the order N, C, spatial; strides in elements."""
        made, rank = cls(), len(dims)
        call("cudnnSetTensorNdDescriptor", made, data_type, rank, ints(dims), ints(strides))
        return made

    @classmethod
    def named(cls, data_type: DataType, layout: str, dims: Sequence[int]) -> TensorDescriptor:
        """Packed in the layout of this name, such as `NHWC`, `NC/32HW32` or `PyTorch:channels_last`."""
        made = cls()
        call("cudnnShimSetTensorLayout", made, data_type, layout.encode(), len(dims), ints(dims))
        return made

    def _read(self) -> tuple[DataType, tuple[int, ...], tuple[int, ...]]:
        data_type, rank = C.c_int(), C.c_int()
        dims, strides = (C.c_int * MOST_DIMS)(), (C.c_int * MOST_DIMS)()
        call(
            "cudnnGetTensorNdDescriptor", self, MOST_DIMS, C.byref(data_type), C.byref(rank), C.byref(dims),
            C.byref(strides),
        )
        return DataType(data_type.value), tuple(dims[: rank.value]), tuple(strides[: rank.value])

    @property
    def data_type(self) -> DataType:
        """The type of its elements."""
        return self._read()[0]

    @property
    def dims(self) -> tuple[int, ...]:
        """Its extents."""
        return self._read()[1]

    @property
    def strides(self) -> tuple[int, ...]:
        """Its strides, in elements."""
        return self._read()[2]

    @property
    def layout(self) -> str:
        """The name of its layout, such as `NHWC`."""
        name = C.create_string_buffer(64)
        call("cudnnShimGetTensorLayout", self, len(name), name)
        return name.value.decode()

    @property
    def size(self) -> int:
        """Bytes from its first element to behind its last."""
        size = C.c_size_t()
        call("cudnnGetTensorSizeInBytes", self, C.byref(size))
        return size.value


class Tensor:
    """An array of somebody else, described where it lies; nothing is copied.

    It keeps the array alive. `descriptor` and `data` are what the calls of the C interface take; descriptors have at
    least two dimensions, so that of an array with fewer has extents of 1 in front.
    """

    def __init__(self, array: SupportsDLPack) -> None:
        # The capsule is never taken, so that its producer frees what it points to when it goes.
        self._capsule, managed, versioned = _dlpack.capsule_of(array)
        self.array = array
        self.descriptor = TensorDescriptor()
        self.data = C.c_void_p()
        tensor = managed.dl_tensor if versioned else managed
        rank = tensor.ndim
        if rank < LEAST_DIMS:
            tensor = _dlpack.widened(tensor, LEAST_DIMS)
        call("cudnnShimSetTensorFromDLPack", current_handle(), self.descriptor, C.byref(tensor), C.byref(self.data))
        self.read_only = versioned and bool(managed.flags & _dlpack.READ_ONLY)
        self.data_type, dims, strides = self.descriptor._read()
        self.dims, self.strides = dims[len(dims) - rank :], strides[len(dims) - rank :]

    def writable(self, name: str) -> Tensor:
        """Itself, if its elements may be written; `name` is the argument that the error names."""
        if self.read_only:
            raise ValueError(f"{name}: the array is read-only")
        return self

    def one_and_zero(self) -> tuple[Any, Any]:
        """alpha = 1 and beta = 0 for results in this tensor."""
        scaling = self.data_type.scaling
        return C.byref(scaling(1)), C.byref(scaling(0))


class Memory:
    """New memory in a layout by name, for `numpy.from_dlpack`, `torch.from_dlpack` and this package's own functions.

    Under a blocked layout the view has one axis more, as blocks lie in memory. Its content is not set.
    """

    def __init__(self, data_type: DataType, layout: str, dims: Sequence[int]) -> None:
        self.descriptor = TensorDescriptor.named(data_type, layout, dims)
        self._bytes = C.create_string_buffer(self.descriptor.size + 64)
        # Array libraries like lines of the cache.
        self.data = C.c_void_p((C.addressof(self._bytes) + 63) // 64 * 64)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if not max_version or max_version[0] < 1:
            raise BufferError("DLPack before version 1 is not spoken here")
        if dl_device not in (None, (1, 0)) or copy:
            raise BufferError("only a view of host memory can be had")
        rank = MOST_DIMS + 1
        shape, strides, tensor = (C.c_int64 * rank)(), (C.c_int64 * rank)(), _dlpack.DLTensor()
        call(
            "cudnnShimGetTensorAsDLPack", current_handle(), self.descriptor, self.data, rank, C.byref(shape),
            C.byref(strides), C.byref(tensor),
        )
        return _dlpack.export(tensor, shape, strides, self)


def ints(values: Sequence[int]) -> Any:
    """A C array of `int`."""
    return C.byref((C.c_int * len(values))(*values))


def empty_like(array: Any, shape: Sequence[int]) -> Any:
    """A new packed array of the same library and type."""
    if hasattr(array, "new_empty"):
        return array.new_empty(tuple(shape))
    module = type(array).__module__.partition(".")[0]
    if module == "numpy":
        import numpy

        return numpy.empty(tuple(shape), array.dtype)
    raise TypeError(f"give `out`: how to make an array of {type(array).__name__} is known for NumPy and PyTorch only")


def result(out: Any, like: Any, shape: Sequence[int]) -> tuple[Any, Tensor]:
    """The array that a function returns, `out` or a new one, and its tensor."""
    if out is None:
        out = empty_like(like, shape)
    tensor = Tensor(out).writable("out")
    if tensor.dims != tuple(shape):
        raise ValueError(f"out: its shape is {tensor.dims}, must be {tuple(shape)}")
    return out, tensor
