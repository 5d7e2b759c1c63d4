"""The few C functions that the differential test calls, bound with ctypes and nothing else."""

import ctypes
from ctypes import c_float, c_double, c_int, c_int32, c_size_t, c_uint32, c_void_p, byref

FLOAT, DOUBLE, HALF, INT8, INT32, INT8X4, UINT8, UINT8X4, INT8X32, BFLOAT16, INT64, BOOLEAN, E4M3, E5M2 = range(14)
NCHW, NHWC, NCHW_VECT_C = range(3)
FOLD, UNFOLD = range(2)


class Refused(Exception):
    """A call returned something else than success."""


class Library:
    """libcudnn.so.9, one handle, and the memory that the handle's core works on."""

    def __init__(self, path, memory):
        self.memory = memory
        self.c = ctypes.CDLL(path)
        self.c.cudnnGetErrorString.restype = ctypes.c_char_p
        self.c.cudnnGetVersion.restype = c_size_t
        self.handle = self.create("")

    def call(self, name, *arguments):
        status = getattr(self.c, name)(*arguments)
        if status != 0:
            reason = ctypes.create_string_buffer(512)
            self.c.cudnnGetLastErrorString(reason, c_size_t(512))
            text = self.c.cudnnGetErrorString(status).decode()
            raise Refused(f"{name}: {text}: {reason.value.decode(errors='replace')}")

    def create(self, kind):
        pointer = c_void_p()
        self.call(f"cudnnCreate{kind}", byref(pointer))
        return pointer

    def destroy(self, kind, pointer):
        self.call(f"cudnnDestroy{kind}", pointer)

    def set_strided(self, desc, code, dims, strides):
        n = len(dims)
        self.call("cudnnSetTensorNdDescriptor", desc, code, n, (c_int * n)(*dims), (c_int * n)(*strides))

    def set_format(self, desc, layout, code, dims):
        n = len(dims)
        self.call("cudnnSetTensorNdDescriptorEx", desc, layout, code, n, (c_int * n)(*dims))

    def get(self, desc):
        """(type, dims, strides, bytes) of a tensor descriptor."""
        code, rank, size = c_int(), c_int(), c_size_t()
        dims, strides = (c_int * 8)(), (c_int * 8)()
        self.call("cudnnGetTensorNdDescriptor", desc, 8, byref(code), byref(rank), dims, strides)
        self.call("cudnnGetTensorSizeInBytes", desc, byref(size))
        return code.value, tuple(dims[: rank.value]), tuple(strides[: rank.value]), size.value

    def set_transform(self, desc, layout, before, after, fold, direction):
        n = len(before)
        self.call(
            "cudnnSetTensorTransformDescriptor", desc, c_uint32(n), layout, (c_int32 * n)(*before),
            (c_int32 * n)(*after), (c_uint32 * len(fold))(*fold), direction,
        )  # fmt: skip

    def init_transform_dest(self, transform, src, dest):
        size = c_size_t()
        self.call("cudnnInitTransformDest", transform, src, dest, byref(size))
        return size.value

    def transform(self, transform, alpha, x_desc, x, beta, y_desc, y):
        """TransformTensor, or TransformTensorEx where there is a transform; the factors are double for a double y."""
        factor = c_double if self.get(y_desc)[0] == DOUBLE else c_float
        arguments = [self.handle] + ([transform] if transform else [])
        arguments += [byref(factor(alpha)), x_desc, c_void_p(x), byref(factor(beta)), y_desc, c_void_p(y)]
        self.call("cudnnTransformTensorEx" if transform else "cudnnTransformTensor", *arguments)
