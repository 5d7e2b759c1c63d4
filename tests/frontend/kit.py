"""A graph of cudnn-frontend's Python package over arrays of NumPy, its run, and how far its results may be from what they should be."""

import ctypes

import cudnn
import ml_dtypes
import numpy as np
from cudnn import data_type

# The type of elements, what holds one, and which part of the largest element a result may be away.
TYPES = {
    "float": (data_type.FLOAT, np.float32, 1e-5),
    "half": (data_type.HALF, np.float16, 2e-3),
    "bfloat16": (data_type.BFLOAT16, ml_dtypes.bfloat16, 2e-2),
}
INT32 = (data_type.INT32, np.int32, 0)
INT64 = (data_type.INT64, np.int64, 0)
FLOAT = TYPES["float"]


def strided(dims, strides, kind):
    """An array of these dims whose elements lie at these strides, poisoned."""
    size = 1 + sum((dim - 1) * stride for dim, stride in zip(dims, strides))
    memory = np.full(size, 77, kind)
    item = memory.itemsize
    return np.lib.stride_tricks.as_strided(memory, dims, [stride * item for stride in strides]), memory


def strides_of(dims, order):
    """Dense strides; `order` lists the axes from the outermost to the innermost."""
    strides, step = [0] * len(dims), 1
    for axis in reversed(order):
        strides[axis], step = step, step * dims[axis]
    return strides


class Workspace:
    """Memory of the CUDA runtime, for the frontend copies constants of its own into a workspace; full of NaNs."""

    runtime = ctypes.CDLL("libcudart.so.12")

    def __init__(self, size):
        self.size, self.address = size, ctypes.c_void_p()

    def __enter__(self):
        assert self.runtime.cudaMalloc(ctypes.byref(self.address), ctypes.c_size_t(max(self.size, 1))) == 0
        ctypes.memset(self.address, 0xFF, self.size)
        return self.address.value

    def __exit__(self, *_):
        assert self.runtime.cudaFree(self.address) == 0


def judge(got, want, bound, spoiler=None):
    """What is wrong with a result that may be away by a part of the largest element; `spoiler` spoils an element before."""
    if got.shape != np.shape(want):
        return f"the dims {got.shape} instead of {np.shape(want)}"
    allowed = bound * np.abs(want[np.isfinite(want)]).max(initial=1e-3)
    if spoiler is not None:
        got[tuple(int(spoiler.integers(extent)) for extent in got.shape)] += 1 + 3 * allowed
    with np.errstate(invalid="ignore"):
        wrong = ~((np.abs(got - want) <= allowed) | (got == want))
    if not wrong.any():
        return None
    place = tuple(int(x) for x in np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {wrong.size} elements, first at {place}: {got[place]!r} instead of {want[place]!r} within {allowed:.3g}"


class Graph:
    """A graph of the frontend with the arrays it reads and those it has to write."""

    def __init__(self, handle, rng, kind):
        self.rng, self.handle = rng, handle
        self.code, self.kind, self.bound = kind
        self.g = cudnn.pygraph(handle=handle, io_data_type=self.code, intermediate_data_type=data_type.FLOAT, compute_data_type=data_type.FLOAT)
        self.given, self.wanted = [], []

    def numbers(self, *dims):
        return np.round(self.rng.standard_normal(dims), 3)

    def read(self, values, kind=None, order=None):
        """A tensor that holds these values as its type holds them; and what it holds."""
        code, kind = (kind or (self.code, self.kind))[:2]
        values = np.asarray(values)
        order = list(range(values.ndim)) if order is None else order
        strides = strides_of(values.shape, order)
        array, memory = strided(values.shape, strides, kind)
        array[...] = values.astype(kind)
        tensor = self.g.tensor(dim=list(values.shape), stride=strides, data_type=code)
        self.given.append((tensor, memory))
        return tensor, array.astype(np.float64)

    def operand(self, *dims, kind=None, order=None):
        return self.read(self.numbers(*dims), kind, order)

    def last(self, *dims, kind=None):
        """An image or filter with its channels last."""
        return self.operand(*dims, kind=kind, order=[0, *range(2, len(dims)), 1])

    def number(self, value, rank):
        """A number by value."""
        memory = np.full(1, value, np.float32)
        tensor = self.g.tensor(dim=[1] * rank, stride=[1] * rank, is_pass_by_value=True, data_type=data_type.FLOAT)
        self.given.append((tensor, memory))
        return tensor

    def write(self, tensor, want, kind=None, dims=None, strides=None, bound=None, flat=False):
        """What a tensor has to be; `flat`: what its memory has to be."""
        code, kind, default = kind or (self.code, self.kind, self.bound)
        tensor.set_output(True).set_data_type(code)
        if dims is not None:
            tensor.set_dim(list(dims)).set_stride(list(strides or strides_of(dims, range(len(dims)))))
        self.wanted.append((tensor, want, kind, default if bound is None else bound, flat))

    def run(self, spoils):
        """What is wrong with the results, if anything is."""
        g = self.g
        g.validate()
        g.build_operation_graph()
        g.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        g.check_support()
        g.build_plans()
        # Arrays of NumPy lie on the host, which the frontend has no word for: it takes their addresses.
        pack = {tensor: memory.ctypes.data for tensor, memory in self.given}
        results = []
        for tensor, want, kind, bound, flat in self.wanted:
            array, memory = strided(tensor.get_dim(), tensor.get_stride(), kind)
            pack[tensor] = memory.ctypes.data
            results.append((memory if flat else array, memory, want, bound))
        with Workspace(g.get_workspace_size()) as workspace:
            g.execute(pack, workspace, handle=self.handle)
        for k, (array, _, want, bound) in enumerate(results):
            want = want() if callable(want) else want
            wrong = judge(array.astype(np.float64), want, bound, self.rng if spoils else None)
            if wrong:
                return f"result {k}: {wrong}"
        return None
