"""Arrays of other libraries as tensors of ours, and memory of ours as their arrays, by DLPack (ABI version 1).

The structs are those of https://dmlc.github.io/dlpack/latest/c_api.html.
"""

from __future__ import annotations

import ctypes as C
from typing import Any


class Device(C.Structure):
    """Kind and number of a device."""

    _fields_ = [("device_type", C.c_int), ("device_id", C.c_int32)]


class DataType(C.Structure):
    """The type of an element."""

    _fields_ = [("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16)]


class DLTensor(C.Structure):
    """A tensor that somebody owns."""

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
    """The version of the interface."""

    _fields_ = [("major", C.c_uint32), ("minor", C.c_uint32)]


class Managed(C.Structure):
    """A tensor and what gives it back."""


class Unversioned(C.Structure):
    """The same before ABI version 1."""


Deleter = C.CFUNCTYPE(None, C.POINTER(Managed))
Managed._fields_ = [
    ("version", Version),
    ("manager_ctx", C.c_void_p),
    ("deleter", Deleter),
    ("flags", C.c_uint64),
    ("dl_tensor", DLTensor),
]

OldDeleter = C.CFUNCTYPE(None, C.POINTER(Unversioned))
Unversioned._fields_ = [("dl_tensor", DLTensor), ("manager_ctx", C.c_void_p), ("deleter", OldDeleter)]

# A capsule keeps the pointer to its name, so these bytes have to stay.
VERSIONED, UNVERSIONED = b"dltensor_versioned", b"dltensor"

# The kind of device whose memory is the host's.
HOST = 1

# The bit of `flags` that forbids writing.
READ_ONLY = 1

_Destructor = C.PYFUNCTYPE(None, C.c_void_p)
_new = C.PYFUNCTYPE(C.py_object, C.c_void_p, C.c_char_p, _Destructor)(("PyCapsule_New", C.pythonapi))
_name_of = C.PYFUNCTYPE(C.c_char_p, C.py_object)(("PyCapsule_GetName", C.pythonapi))
_pointer_of = C.PYFUNCTYPE(C.c_void_p, C.py_object, C.c_char_p)(("PyCapsule_GetPointer", C.pythonapi))
# For destructors, where the capsule has no reference left that ctypes could take.
_is_named = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p)(("PyCapsule_IsValid", C.pythonapi))
_raw_pointer_of = C.PYFUNCTYPE(C.c_void_p, C.c_void_p, C.c_char_p)(("PyCapsule_GetPointer", C.pythonapi))

# What consumers hold, by the address of its struct: each export has one of its own, which its deleter takes away.
exports: dict[int, tuple[Any, ...]] = {}


def _release(managed: Any) -> None:
    exports.pop(C.addressof(managed.contents), None)


def _drop(capsule: int) -> None:
    # A consumer renames the capsule that it takes; one that nobody took still owns its struct.
    for name in (VERSIONED, UNVERSIONED):
        if _is_named(capsule, name):
            exports.pop(_raw_pointer_of(capsule, name), None)


# As C sees them; they have to stay as long as anybody may call them.
_release_from_c, _drop_from_c = Deleter(_release), _Destructor(_drop)
_release_old_from_c = OldDeleter(_release)


def export(tensor: DLTensor, versioned: bool, *keep: Any) -> Any:
    """A new capsule of `tensor`, of ABI version 1 or of the one before, which NumPy 1 and JAX read.

    `keep` is what the tensor points to; it lives until the consumer is done.
    """
    managed: Any
    if versioned:
        managed = Managed(version=Version(1, 0), deleter=_release_from_c, flags=0, dl_tensor=tensor)
    else:
        managed = Unversioned(deleter=_release_old_from_c, dl_tensor=tensor)
    address = C.addressof(managed)
    exports[address] = (managed, *keep)
    return _new(address, VERSIONED if versioned else UNVERSIONED, _drop_from_c)


def capsule_of(array: Any) -> tuple[Any, Any, bool]:
    """The capsule of an array, which owns what it points to; its struct; and whether that is of ABI version 1."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:
        # A producer that is older than DLPack 1 takes no version.
        capsule = array.__dlpack__()
    name = _name_of(capsule)
    pointer, versioned = _pointer_of(capsule, name), name == VERSIONED
    # Before ABI version 1 the struct began with the tensor itself.
    return capsule, (Managed if versioned else DLTensor).from_address(pointer), versioned


def widened(tensor: DLTensor, rank: int) -> DLTensor:
    """The same elements with extents of 1 in front, up to this rank."""
    missing = rank - tensor.ndim
    shape, strides = (C.c_int64 * rank)(*[1] * missing), (C.c_int64 * rank)(*[1] * missing)
    for axis in range(tensor.ndim):
        shape[missing + axis] = tensor.shape[axis]
        # Packed tensors need not say their strides; of one dimension at the most that is 1.
        strides[missing + axis] = tensor.strides[axis] if tensor.strides else 1
    return DLTensor(tensor.data, tensor.device, rank, tensor.dtype, shape, strides, tensor.byte_offset)
