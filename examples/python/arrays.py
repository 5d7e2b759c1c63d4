"""NumPy arrays and PyTorch tensors transformed in their own memory, and compared with what they do themselves.

    python examples/python/arrays.py [LIBRARY]

Prints one line per check and a summary, "N passed, N failed, N skipped". Without PyTorch its checks are skipped.
"""

import gc
import sys

import numpy as np

import shim

passed, failed, skipped = 0, 0, 0


def check(what, good):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(f"{'ok' if good else 'FAILED'}: {what}")


def same(one, other):
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def numpy_arrays(library):
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 6, 5, 4)).astype(np.float32)
    views = {
        "channels last": x.transpose(0, 2, 3, 1),
        "Fortran order": np.asfortranarray(x),
        "every second column": x[:, :, :, ::2],
        "mirrored": x[:, :, ::-1, :],
        "broadcast": np.broadcast_to(x[:, :1], (2, 6, 5, 4)),
        "a matrix": x[0, 0].T,
    }
    for name, view in views.items():
        packed = library.transform(view, np.empty(view.shape, np.float32))
        check(f"{name} made contiguous is numpy.ascontiguousarray", same(packed, np.ascontiguousarray(view)))
        scattered = np.zeros(view.shape[::-1], np.float32).T
        library.transform(np.ascontiguousarray(view), scattered)
        check(f"{name} in Fortran order is numpy.asfortranarray", np.array_equal(scattered, np.asfortranarray(view)))
    for dtype in (np.float16, np.float64, np.int8, np.uint8, np.int32, np.int64):
        source = (x * 10).astype(dtype)
        there = library.transform(source, np.empty((2, 5, 4, 6), dtype).transpose(0, 3, 1, 2))
        check(f"{np.dtype(dtype)} keeps its bits", np.array_equal(there, source))
    check("float becomes half as NumPy rounds it", same(library.transform(x, np.empty(x.shape, np.float16)), x.astype(np.float16)))
    ours = np.from_dlpack(library.share(shim.FLOAT, "NHWC", x.shape))
    check("our memory has NHWC strides in NumPy", ours.strides == (480, 4, 96, 24))
    library.transform(x, ours)
    check("and holds what was transformed into it", np.array_equal(ours, x))
    blocked = np.from_dlpack(library.share(shim.FLOAT, "nChw8c", x.shape))
    check("a blocked layout is an array of one axis more", blocked.shape == (2, 1, 5, 4, 8))
    descriptor, _, read_only = library.describe(ours)
    check("the layout has a name", descriptor.layout() == "NHWC" and not read_only)
    fixed = x.copy()
    fixed.flags.writeable = False
    try:
        library.transform(x, fixed)
        check("a read-only array is refused", False)
    except (ValueError, BufferError):
        check("a read-only array is refused", True)


def lifetimes(library):
    shared = library.share(shim.FLOAT, "NHWC", (2, 3, 4, 5))
    one, other = np.from_dlpack(shared), np.from_dlpack(shared)
    one[...] = 7
    del one, shared
    gc.collect()
    check("a second view outlives the first and what it came from", other.sum() == 840 and len(shim.View.alive) == 1)
    del other
    gc.collect()
    check("the last view takes the memory along", not shim.View.alive)
    shared = library.share(shim.FLOAT, "packed", (3, 4))
    for version in (None, (1, 0)):
        shared.__dlpack__(max_version=version)
    shim.View.forget()
    check("a capsule that nobody reads keeps nothing", not shim.View.alive)
    try:
        np.from_dlpack(library.share(shim.BFLOAT16, "packed", (3, 4)))
        check("a reader that fails says why", False)
    except (RuntimeError, BufferError) as error:
        check("a reader that fails says why", "dtype" in str(error))

    class Temporary:
        """Speaks DLPack, and counts the capsules that were given back."""

        alive = 0

        def __init__(self):
            self.array = np.arange(12, dtype=np.float32).reshape(3, 4)
            Temporary.alive += 1

        def __del__(self):
            Temporary.alive -= 1

        def __dlpack__(self, **arguments):
            return self.array.__dlpack__(**arguments)

    descriptor, data, _ = library.describe(Temporary())
    gc.collect()
    there = bytes((shim.C.c_char * 48).from_address(data.value)) == np.arange(12, dtype=np.float32).tobytes()
    check("a descriptor keeps the array that it describes", there and Temporary.alive == 1)
    del descriptor
    gc.collect()
    check("and lets it go", Temporary.alive == 0)


def few_axes(library):
    for dims in ((), (1,), (7,)):
        x = np.full(dims, 0.5, np.float32)
        x += np.arange(x.size, dtype=np.float32).reshape(dims)
        ours = np.from_dlpack(library.share(shim.FLOAT, "packed", dims))
        check(f"our memory of dims {dims} is such an array", ours.shape == dims and ours.flags.c_contiguous)
        library.transform(x, ours)
        check("and holds what was transformed into it", same(ours, x))
    x = np.arange(14, dtype=np.float32)
    check("every second element", same(library.transform(x[::-2], np.empty(7, np.float64)), x[::-2].astype(np.float64)))


def torch_tensors(library):
    import torch

    x = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).reshape(2, 3, 4, 5)
    for shape, memory_format in (((2, 3, 4, 5), torch.channels_last), ((2, 3, 2, 2, 5), torch.channels_last_3d)):
        x = torch.arange(120, dtype=torch.float32).reshape(shape)
        last = library.transform(x, torch.empty_like(x, memory_format=memory_format))
        wanted = x.contiguous(memory_format=memory_format)
        check(f"{memory_format} is tensor.contiguous", torch.equal(last, wanted) and last.stride() == wanted.stride())
        back = library.transform(last, torch.empty(shape))
        check("and back", torch.equal(back, x) and back.is_contiguous())
    x = torch.randn(2, 3, 4, 5)
    half = library.transform(x, torch.empty(x.shape, dtype=torch.bfloat16))
    check("float becomes bfloat16 as PyTorch rounds it", torch.equal(half, x.to(torch.bfloat16)))
    last = x[:, 1:, :, 1:]
    check("a window into a tensor", torch.equal(library.transform(last, torch.empty(last.shape)), last))
    ours = torch.from_dlpack(library.share(shim.FLOAT, "PyTorch:channels_last", x.shape))
    library.transform(x, ours)
    check("our memory is a channels_last tensor", ours.is_contiguous(memory_format=torch.channels_last))
    check("and holds what was transformed into it", torch.equal(ours, x))
    array = np.empty((2, 4, 5, 3), np.float32)
    library.transform(x, array.transpose(0, 3, 1, 2))
    check("a tensor into an array", np.array_equal(array, x.permute(0, 2, 3, 1).numpy()))


library = shim.Library(*sys.argv[1:2])
numpy_arrays(library)
lifetimes(library)
few_axes(library)
try:
    torch_tensors(library)
except ModuleNotFoundError:
    print("skipped: PyTorch is not installed; install it: pip install torch")
    skipped += 1
gc.collect()
shim.View.forget()
check("nothing of ours is kept alive", not shim.View.alive)
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed != 0)
