"""cudnn-shim from Python without a binding: ctypes for the calls, DLPack for the arrays. No element is copied on the way.

`Library.describe(array)` takes anything that speaks DLPack (NumPy, PyTorch, CuPy, JAX, ...); `Library.share(...)` gives
memory of ours to any of them.
"""

import ctypes as C

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


class Managed(C.Structure):
    pass


Deleter = C.CFUNCTYPE(None, C.POINTER(Managed))
Managed._fields_ = [
    ("version", Version),
    ("manager_ctx", C.c_void_p),
    ("deleter", Deleter),
    ("flags", C.c_uint64),
    ("dl_tensor", Tensor),
]

capsule_name = C.pythonapi.PyCapsule_GetName
capsule_name.restype, capsule_name.argtypes = C.c_char_p, [C.py_object]
capsule_pointer = C.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = C.c_void_p, [C.py_object, C.c_char_p]
new_capsule = C.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = C.py_object, [C.c_void_p, C.c_char_p, C.c_void_p]

# A capsule's reader keeps the name, so the bytes have to stay.
VERSIONED = b"dltensor_versioned"


class Shared:
    """Memory of `owner`, seen through a descriptor, for everybody's `from_dlpack`."""

    # Views that somebody still uses, by the address of their struct.
    alive = {}

    def __init__(self, library, descriptor, address, owner):
        self.shape, self.strides = (C.c_int64 * 9)(), (C.c_int64 * 9)()
        self.owner, self.managed = owner, Managed()
        tensor = self.managed.dl_tensor
        library.call(
            "cudnnShimGetTensorAsDLPack", library.handle, descriptor.value, C.c_void_p(address), 9, self.shape,
            self.strides, C.byref(tensor),
        )
        self.managed.version = Version(1, 0)
        self.managed.deleter = Shared.release

    @Deleter
    def release(managed):
        Shared.alive.pop(C.addressof(managed.contents), None)

    def __dlpack_device__(self):
        device = self.managed.dl_tensor.device
        return device.device_type, device.device_id

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if not max_version or max_version[0] < 1:
            raise BufferError("DLPack before version 1 is not spoken here")
        address = C.addressof(self.managed)
        Shared.alive[address] = self
        return new_capsule(address, VERSIONED, None)


class Descriptor:
    """A tensor descriptor that goes with its object."""

    def __init__(self, library):
        self.library, self.value = library, C.c_void_p()
        library.call("cudnnCreateTensorDescriptor", C.byref(self.value))

    def __del__(self):
        self.library.functions.cudnnDestroyTensorDescriptor(self.value)

    def layout(self):
        name = C.create_string_buffer(64)
        self.library.call("cudnnShimGetTensorLayout", self.value, C.c_size_t(64), name)
        return name.value.decode()


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

    def describe(self, array):
        """The array's descriptor, the address of its first element, and whether it may not be written."""
        capsule = array.__dlpack__(max_version=(1, 0))
        name = capsule_name(capsule)
        pointer = C.c_void_p(capsule_pointer(capsule, name))
        descriptor, data, read_only = Descriptor(self), C.c_void_p(), C.c_int()
        if name == VERSIONED:
            call, more = "cudnnShimSetTensorFromDLPackVersioned", [C.byref(read_only)]
        else:  # an array library that is older than DLPack 1 begins with the tensor itself
            call, more = "cudnnShimSetTensorFromDLPack", []
        self.call(call, self.handle, descriptor.value, pointer, C.byref(data), *more)
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
        """New memory in a layout by name, for `numpy.from_dlpack`, `torch.from_dlpack`, ..."""
        descriptor, size = self.named(data_type, layout, dims), C.c_size_t()
        self.call("cudnnGetTensorSizeInBytes", descriptor.value, C.byref(size))
        memory = C.create_string_buffer(size.value + 64)
        # Array libraries like lines of the cache.
        address = (C.addressof(memory) + 63) // 64 * 64
        return Shared(self, descriptor, address, memory)

    def transform(self, source, destination):
        """`destination[...] = source`, whatever the strides and types of either."""
        (x, x_data, _), (y, y_data, read_only) = self.describe(source), self.describe(destination)
        if read_only:
            raise ValueError("the destination must not be written")
        factor = C.c_double if destination.dtype.itemsize == 8 and "float" in str(destination.dtype) else C.c_float
        one, zero = factor(1), factor(0)
        self.call(
            "cudnnTransformTensor", self.handle, C.byref(one), x.value, x_data, C.byref(zero), y.value, y_data,
        )
        return destination
