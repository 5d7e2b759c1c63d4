"""The library under test, as every benchmark in Python calls it."""

import ctypes as c
import os


class Performance(c.Structure):
    """A record of a query for algorithms."""

    _fields_ = [
        ("algorithm", c.c_int),
        ("status", c.c_int),
        ("time", c.c_float),
        ("memory", c.c_size_t),
        ("determinism", c.c_int),
        ("math_type", c.c_int),
        ("reserved", c.c_int * 3),
    ]


class Cudnn:
    """A handle, and calls that raise unless they succeed."""

    def __init__(self, path, threads=None):
        # The tensors lie in host memory. Both are read when the library first needs them.
        os.environ["CUDNN_SHIM_BACKEND"] = "cpu"
        if threads:
            os.environ["CUDNN_SHIM_NUM_THREADS"] = str(threads)
        self.lib = c.CDLL(path)
        self.handle = c.c_void_p()
        self.call("Create", c.byref(self.handle))

    def call(self, name, *args):
        status = getattr(self.lib, "cudnn" + name)(*args)
        if status:
            raise RuntimeError(f"cudnn{name}: status {status}")

    def descriptor(self, kind, setter=None, *args):
        """A descriptor, set by a call unless there is none."""
        made = c.c_void_p()
        self.call(f"Create{kind}Descriptor", c.byref(made))
        if setter:
            self.call(setter, made, *args)
        return made

    def algorithm(self, direction, *descriptors):
        """The number that the library would have a program take for a convolution in this direction."""
        record, found = Performance(), c.c_int()
        self.call(f"GetConvolution{direction}Algorithm_v7", self.handle, *descriptors, 1, c.byref(found), c.byref(record))
        return record.algorithm
