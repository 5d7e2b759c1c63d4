"""The library under test, as every benchmark in Python calls it."""

import ctypes as c
import os


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
