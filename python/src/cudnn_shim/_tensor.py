"""Tensors: descriptors with the memory that they describe."""

from __future__ import annotations

import ctypes as C
import enum
import operator
from collections.abc import Sequence
from typing import Any, Protocol

from . import _dlpack
from ._library import Error, Owned, call, current_handle

LEAST_DIMS, MOST_DIMS = 2, 8


class SupportsDLPack(Protocol):
    """What is taken as an array. Tested with NumPy, PyTorch, JAX and this package's `Memory`."""

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

    def __init__(self, array: SupportsDLPack, name: str = "array") -> None:
        """`name` is the argument that errors name."""
        # The capsule is never taken, so that its producer frees what it points to when it goes.
        self._capsule, managed, versioned = _capsule_of(array, name)
        self.array = array
        self.descriptor = TensorDescriptor()
        self.data = C.c_void_p()
        tensor = managed.dl_tensor if versioned else managed
        rank = tensor.ndim
        if rank < LEAST_DIMS:
            tensor = _dlpack.widened(tensor, LEAST_DIMS)
        try:
            call("cudnnShimSetTensorFromDLPack", current_handle(), self.descriptor, C.byref(tensor), C.byref(self.data))
        except Error as refused:
            raise Error(refused.call, refused.status, f"{name}: {refused.text}") from None
        self.read_only = versioned and bool(managed.flags & _dlpack.READ_ONLY)
        self.data_type, dims, strides = self.descriptor._read()
        self.dims, self.strides = dims[len(dims) - rank :], strides[len(dims) - rank :]

    def writable(self, name: str) -> Tensor:
        """Itself, if its elements may be written; `name` is the argument that the error names."""
        if self.read_only:
            raise ValueError(f"{name}: the array is read-only")
        if not _may_change(self.array):
            raise ValueError(f"{name}: arrays of {_library_of(self.array)} are immutable, and cannot be written")
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
        if dl_device not in (None, (1, 0)) or copy:
            raise BufferError("only a view of host memory can be had")
        rank = MOST_DIMS + 1
        shape, strides, tensor = (C.c_int64 * rank)(), (C.c_int64 * rank)(), _dlpack.DLTensor()
        call(
            "cudnnShimGetTensorAsDLPack", current_handle(), self.descriptor, self.data, rank, C.byref(shape),
            C.byref(strides), C.byref(tensor),
        )
        versioned = max_version is not None and max_version[0] >= 1
        return _dlpack.export(tensor, versioned, shape, strides, self)


def _library_of(array: Any) -> str:
    """The package that an array is of, such as `numpy`."""
    package = type(array).__module__.partition(".")[0]
    return "jax" if package == "jaxlib" else package


def _may_change(array: Any) -> bool:
    """Whether the elements of an array may be written: DLPack before version 1 cannot say it."""
    if isinstance(array, Memory):
        return True
    return hasattr(type(array), "__setitem__") and _library_of(array) != "jax"


def _capsule_of(array: Any, name: str) -> tuple[Any, Any, bool]:
    """What `_dlpack.capsule_of` answers; a ValueError that names the argument for what is no array."""
    if not hasattr(array, "__dlpack__"):
        raise ValueError(
            f"{name}: {type(array).__name__} is no array; must be one that has `__dlpack__`, such as numpy.asarray makes"
        )
    # PyTorch exports the elements without the sign that such a view still has to change.
    if _library_of(array) == "torch" and array.is_neg():
        raise ValueError(f"{name}: a negated view of PyTorch; must be resolved first, by resolve_neg()")
    try:
        return _dlpack.capsule_of(array)
    except (BufferError, RuntimeError, TypeError, ValueError) as refused:
        kind = type(array)
        raise ValueError(f"{name}: {kind.__module__}.{kind.__name__} gives no view by DLPack: {refused}") from refused


def integer(value: Any, name: str) -> int:
    """The number of an argument, which C takes as `int`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name}: {value!r} is no integer") from None
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{name}: {number} has no room in 32 bits")
    return number


def ints(values: Sequence[int], name: str = "dims") -> Any:
    """A C array of `int`."""
    return C.byref((C.c_int * len(values))(*(integer(value, name) for value in values)))


def empty_like(array: Any, shape: Sequence[int]) -> Any:
    """A new packed array of the same library and type; of JAX, whose arrays cannot be written, `Memory`."""
    if hasattr(array, "new_empty"):
        return array.new_empty(tuple(shape))
    library = _library_of(array)
    if library == "numpy":
        import numpy

        return numpy.empty(tuple(shape), array.dtype)
    if library == "jax":
        if array.__dlpack_device__()[0] != _dlpack.HOST:
            raise ValueError("JAX arrays are taken from the CPU only; this one lies on another device")
        missing = max(LEAST_DIMS - len(shape), 0)
        return Memory(Tensor(array).data_type, "packed", (1,) * missing + tuple(shape))
    raise TypeError(f"give `out`: how to make an array of {library} is known for NumPy, PyTorch and JAX only")


class Result(Tensor):
    """The tensor that a function writes: `out`, or a new packed array of the library of `like`."""

    def __init__(self, out: Any, like: Any, shape: Sequence[int]) -> None:
        self._shape = tuple(shape)
        self._for_jax = out is None and _library_of(like) == "jax"
        super().__init__(empty_like(like, shape) if out is None else out, "out")
        self.writable("out")
        if out is not None and self.dims != self._shape:
            raise ValueError(f"out: its shape is {self.dims}, must be {self._shape}")

    def finished(self) -> Any:
        """The array that the function returns, once its elements are written."""
        if self._for_jax:
            from jax import dlpack

            return dlpack.from_dlpack(self.array).reshape(self._shape)
        return self.array
