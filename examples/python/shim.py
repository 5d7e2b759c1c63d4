"""cudnn-shim from Python without a binding: ctypes for the calls, DLPack for the arrays. No element is copied on the way.

`Library.describe(array)` takes anything that speaks DLPack (NumPy, PyTorch, CuPy, JAX, ...); `Library.share(...)` gives
memory of ours to any of them.
"""

import ctypes as C
import sys

FLOAT, DOUBLE, HALF, INT8, INT32, UINT8, BFLOAT16, INT64 = 0, 1, 2, 3, 4, 6, 9, 10

# DLPack, ABI version 1: https://dmlc.github.io/dlpack/latest/c_api.html


class Device(C.Structure):
    _fields_ = [("device_type", C.c_int), ("device_id", C.c_int32)]


class DataType(C.Structure):
    _fields_ = [("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16)]


class Tensor(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("device", Device),
        ("ndim", C.c_int32),
        ("dtype", DataType),
        ("shape", C.POINTER(C.c_int64)),
        ("strides", C.POINTER(C.c_int64)),
        ("byte_offset", C.c_uint64),
    ]


class Version(C.Structure):
    _fields_ = [("major", C.c_uint32), ("minor", C.c_uint32)]


Deleter = C.CFUNCTYPE(None, C.c_void_p)


class Managed(C.Structure):
    """What a capsule of version 1 points to."""

    name = b"dltensor_versioned"
    _fields_ = [
        ("version", Version),
        ("manager_ctx", C.c_void_p),
        ("deleter", Deleter),
        ("flags", C.c_uint64),
        ("dl_tensor", Tensor),
    ]


class OldManaged(C.Structure):
    """What a capsule of array libraries points to that are older than version 1."""

    name = b"dltensor"
    _fields_ = [("dl_tensor", Tensor), ("manager_ctx", C.c_void_p), ("deleter", Deleter)]


capsule_name = C.pythonapi.PyCapsule_GetName
capsule_name.restype, capsule_name.argtypes = C.c_char_p, [C.py_object]
capsule_pointer = C.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = C.c_void_p, [C.py_object, C.c_char_p]
new_capsule = C.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = C.py_object, [C.c_void_p, C.c_char_p, C.c_void_p]


class View:
    """One capsule: the struct that it points to, and what has to stay as long as somebody may use it."""

    # By the address of the struct.
    alive = {}

    def __init__(self, managed, *keeps):
        self.managed, self.keeps, self.address = managed, keeps, C.addressof(managed)
        managed.deleter = release
        View.alive[self.address] = self
        # A reader of the capsule keeps the address of the name, which is a constant of the class.
        self.capsule = new_capsule(self.address, managed.name, None)

    def is_forgotten(self):
        """Whether the capsule was never read and is nobody's but ours."""
        return sys.getrefcount(self.capsule) == ALONE and capsule_name(self.capsule) == self.managed.name

    @classmethod
    def forget(cls):
        """Lets go what nobody reads any more.

        A destructor of the capsule would be the usual way, but readers that fail let go of capsules while an exception is
        in flight, and a destructor written in Python would lose it.
        """
        for view in list(cls.alive.values()):
            if view.is_forgotten():
                cls.alive.pop(view.address, None)


class Alone:
    capsule = object()


# What getrefcount says of an object that one attribute holds.
ALONE = sys.getrefcount(Alone.capsule)


@Deleter
def release(address, alive=View.alive):
    alive.pop(address, None)


# Arrays may outlive this module when the interpreter ends.
C.pythonapi.Py_IncRef(C.py_object(release))


class Shared:
    """Memory of `owner` at `address`, seen through a descriptor, for everybody's `from_dlpack`.

    `without` counts leading axes of the descriptor, of extent 1, that the arrays do not have.
    """

    def __init__(self, library, descriptor, address, owner, without=0):
        self.library, self.descriptor, self.address = library, descriptor, address
        self.owner, self.without = owner, without

    def describe(self, tensor):
        """Fills the struct in; what it points to, for the caller to keep."""
        shape, strides = (C.c_int64 * 9)(), (C.c_int64 * 9)()
        self.library.call(
            "cudnnShimGetTensorAsDLPack", self.library.handle, self.descriptor.value, C.c_void_p(self.address), 9, shape,
            strides, C.byref(tensor),
        )
        tensor.ndim -= self.without
        tensor.shape, tensor.strides = (
            C.cast(C.byref(axes, 8 * self.without), C.POINTER(C.c_int64)) for axes in (shape, strides)
        )
        return shape, strides

    def __dlpack_device__(self):
        tensor = Tensor()
        self.describe(tensor)
        return tensor.device.device_type, tensor.device.device_id

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy:
            raise BufferError("memory is shared here, never copied")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the memory is not on device {dl_device}")
        View.forget()
        managed = Managed(version=Version(1, 0)) if max_version and max_version[0] >= 1 else OldManaged()
        return View(managed, self.describe(managed.dl_tensor), self.owner).capsule


class Descriptor:
    """A tensor descriptor that goes with its object."""

    def __init__(self, library):
        self.library, self.value = library, C.c_void_p()
        library.call("cudnnCreateTensorDescriptor", C.byref(self.value))

    def __del__(self):
        if self.value:
            self.library.functions.cudnnDestroyTensorDescriptor(self.value)

    def layout(self):
        name = C.create_string_buffer(64)
        self.library.call("cudnnShimGetTensorLayout", self.value, C.c_size_t(64), name)
        return name.value.decode()


def at_least_2d(tensor):
    """The struct with leading axes of extent 1 if it has fewer than two, as descriptors want, and what it points to."""
    if tensor.ndim >= 2:
        return tensor, None
    without, axes = 2 - tensor.ndim, C.c_int64 * 2
    shape, strides = axes(1, 1), axes(1, 1)
    if tensor.ndim == 1:
        shape[1], strides[1] = tensor.shape[0], tensor.strides[0] if tensor.strides else 1
    wide = Tensor.from_buffer_copy(tensor)
    wide.ndim += without
    wide.shape, wide.strides = (C.cast(a, C.POINTER(C.c_int64)) for a in (shape, strides))
    return wide, (shape, strides)


class Library:
    def __init__(self, path="libcudnn.so.9"):
        self.functions = C.CDLL(path)
        self.handle = C.c_void_p()
        self.call("cudnnCreate", C.byref(self.handle))

    def call(self, name, *arguments):
        status = getattr(self.functions, name)(*arguments)
        if status != 0:
            text = C.create_string_buffer(512)
            self.functions.cudnnGetLastErrorString(text, C.c_size_t(512))
            raise ValueError(text.value.decode())

    def __del__(self):
        if getattr(self, "handle", None):
            self.functions.cudnnDestroy(self.handle)

    def describe(self, array):
        """The array's descriptor, the address of its first element, and whether it may not be written.

        The address is good for as long as the descriptor lives, which keeps the array's memory. An array of no axis or one
        is described with leading axes of extent 1.
        """
        capsule = array.__dlpack__(max_version=(1, 0))
        name = capsule_name(capsule)
        pointer = capsule_pointer(capsule, name)
        descriptor, data, read_only = Descriptor(self), C.c_void_p(), C.c_int()
        # Whoever made the capsule takes its memory back when the capsule goes, since nobody takes it over here.
        descriptor.keeps = array, capsule
        if name == Managed.name:
            managed = Managed.from_buffer_copy((C.c_char * C.sizeof(Managed)).from_address(pointer))
            managed.dl_tensor, lists = at_least_2d(managed.dl_tensor)
            call, more = "cudnnShimSetTensorFromDLPackVersioned", [C.byref(read_only)]
        else:
            managed, lists = at_least_2d(OldManaged.from_address(pointer).dl_tensor)
            call, more = "cudnnShimSetTensorFromDLPack", []
        self.call(call, self.handle, descriptor.value, C.byref(managed), C.byref(data), *more)
        return descriptor, data, bool(read_only.value)

    def named(self, data_type, layout, dims):
        """A packed descriptor by the name of its layout."""
        descriptor = Descriptor(self)
        self.call(
            "cudnnShimSetTensorLayout", descriptor.value, data_type, layout.encode(), len(dims),
            (C.c_int * len(dims))(*dims),
        )
        return descriptor

    def share(self, data_type, layout, dims):
        """New memory in a layout by name, for `numpy.from_dlpack`, `torch.from_dlpack`, ...

        An array of no axis or one has the layout `packed`.
        """
        without = max(0, 2 - len(dims))
        descriptor, size = self.named(data_type, layout, (1,) * without + tuple(dims)), C.c_size_t()
        self.call("cudnnGetTensorSizeInBytes", descriptor.value, C.byref(size))
        memory = C.create_string_buffer(size.value + 64)
        # Array libraries like lines of the cache.
        address = (C.addressof(memory) + 63) // 64 * 64
        return Shared(self, descriptor, address, memory, without)

    def transform(self, source, destination):
        """`destination[...] = source`, whatever the strides and types of either."""
        (x, x_data, _), (y, y_data, read_only) = map(self.describe, (source, destination))
        if read_only:
            raise ValueError("the destination must not be written")
        factor = C.c_double if destination.dtype.itemsize == 8 and "float" in str(destination.dtype) else C.c_float
        one, zero = factor(1), factor(0)
        self.call(
            "cudnnTransformTensor", self.handle, C.byref(one), x.value, x_data, C.byref(zero), y.value, y_data,
        )
        return destination
