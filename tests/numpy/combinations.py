"""Convolutions in every combination of what a descriptor holds, and by every record that a query returns.

Each of 1 to 3 spatial dimensions, windows of 1 to 3, strides of 1 and 2, padding of 0 to 2, dilation of 1 to 5 and 1, 2, 4 and
8 groups together, in every type, direction and algorithm number, with exactly the workspace that is told: small whole numbers,
whose sums are exact, so that every bit is known, among bytes that nobody should touch. Groups one by one, through pointers into
the tensors, have the bits of one call. Records run with the bytes that they tell, whatever the math type is set to later, and
algorithms of one problem compute another. Gradients of the data reach every extent that gives one y.
"""

import argparse
import ctypes
import itertools
import os
import sys
from ctypes import byref, c_double, c_float, c_int, c_size_t, c_void_p

import numpy as np

import cudnn
from convolution import ALGORITHMS, DATA, FORWARD, NAMES, Filter, Problem, as_tensor
from device import Host
from reference import TYPES, convert
from tensors import make, poison

LAYOUTS = ["nchw", "nhwc", "permuted", "padded"]
# Types of data, and the compute type.
COMPUTED = [
    (cudnn.FLOAT, cudnn.FLOAT), (cudnn.DOUBLE, cudnn.DOUBLE), (cudnn.HALF, cudnn.FLOAT), (cudnn.HALF, cudnn.HALF),
    (cudnn.BFLOAT16, cudnn.FLOAT),
]  # fmt: skip
GUARD = 64


class Record(ctypes.Structure):
    """One of the lists of algorithms."""

    _fields_ = [("algorithm", c_int), ("status", c_int), ("time", c_float), ("memory", c_size_t), ("determinism", c_int),
                ("math", c_int), ("reserved", c_int * 3)]  # fmt: skip


class Chosen(Problem):
    """A problem that is told instead of drawn."""

    def __init__(self, batch, channels, filters, groups, space, window, stride, pad, dilation, flip=False):
        self.batch, self.channels, self.filters, self.groups, self.flip = batch, channels, filters, groups, flip
        self.spatial, self.space, self.window = len(space), list(space), list(window)
        self.stride, self.pad, self.dilation = list(stride), list(pad), list(dilation)
        self.out = [1 + (x + 2 * p - ((r - 1) * d + 1)) // s for x, p, r, d, s in zip(space, pad, window, dilation, stride)]

    def one_group(self):
        return Chosen(self.batch, self.channels // self.groups, self.filters // self.groups, 1, self.space, self.window, self.stride,
                      self.pad, self.dilation, self.flip)  # fmt: skip

    def dims(self, direction):
        """Those of what is computed."""
        return [self.y, self.x, self.w][direction]


class Bench:
    def __init__(self, options):
        os.environ["CUDNN_SHIM_BACKEND"] = "cpu"
        self.lib = cudnn.Library(options.library, Host())
        self.options = options
        self.passed = self.failed = 0
        self.conv = self.lib.create("ConvolutionDescriptor")
        self.room = np.full(1 << 20, 0xFF, np.uint8)

    def tell(self, name, wrong):
        """Counts a check; `wrong` is what is, or None."""
        if self.options.negative_control:
            wrong = None if wrong else "a flipped bit went unnoticed"
        self.passed += not wrong
        self.failed += bool(wrong)
        if wrong and self.failed <= 20:
            print(f"FAILED {name}: {wrong}", flush=True)

    def check(self, name, body):
        try:
            self.tell(name, body())
        except cudnn.Refused as refused:
            self.tell(name, str(refused))

    def describe(self, problem, compute, math=0):
        n = problem.spatial
        array = lambda values: (c_int * n)(*values)
        self.lib.call("cudnnSetConvolutionNdDescriptor", self.conv, n, array(problem.pad), array(problem.stride),
                      array(problem.dilation), 0 if problem.flip else 1, compute)  # fmt: skip
        self.lib.call("cudnnSetConvolutionGroupCount", self.conv, problem.groups)
        self.lib.call("cudnnSetConvolutionMathType", self.conv, math)

    def operands(self, rng, problem, code, values, layouts=LAYOUTS):
        """x, w and y in layouts of their own, with these values."""
        x, y = (make(self.lib, rng, code, tuple(dims), layouts) for dims in (problem.x, problem.y))
        tensors = x, as_tensor(Filter(self.lib, rng, code, problem.w)), y
        for tensor, value in zip(tensors, values):
            tensor.allocate(rng, poison(code))
            tensor.write(tensor.raw, convert(value, TYPES[code][1]))
        return tensors

    def forget(self, x, w, y):
        self.lib.destroy("TensorDescriptor", x.desc)
        self.lib.destroy("FilterDescriptor", w.desc)
        self.lib.destroy("TensorDescriptor", y.desc)

    def descs(self, direction, tensors):
        x, w, y = (tensor.desc for tensor in tensors)
        return [(x, w, self.conv, y), (w, y, self.conv, x), (x, y, self.conv, w)][direction]

    def workspace(self, direction, tensors, algorithm):
        size = c_size_t()
        name = f"cudnnGetConvolution{NAMES[direction]}WorkspaceSize"
        self.lib.call(name, self.lib.handle, *self.descs(direction, tensors), algorithm, byref(size))
        return size.value

    def compute(self, direction, tensors, addresses, algorithm, size, alpha=1.0, beta=0.0):
        """By this algorithm with so many bytes; what is wrong with what it did to the bytes behind them."""
        x, w, y = zip((tensor.desc for tensor in tensors), map(c_void_p, addresses))
        first, second, last = [(x, w, y), (w, y, x), (x, y, w)][direction]
        factor = c_double if tensors[0].code == cudnn.DOUBLE else c_float
        end = slice(size, size + GUARD)
        self.room[end] = 0x5A
        self.lib.call(f"cudnnConvolution{NAMES[direction]}", self.lib.handle, byref(factor(alpha)), *first, *second, self.conv,
                      algorithm, c_void_p(self.room.ctypes.data), c_size_t(size), byref(factor(beta)), *last)  # fmt: skip
        return None if (self.room[end] == 0x5A).all() else "bytes behind the workspace were written"

    def every_number(self, problem, direction, tensors, sums, beta=0.0):
        """Computes by every algorithm number, over what was there."""
        dst = tensors[[2, 0, 1][direction]]
        before, want = dst.raw.copy(), dst.raw.copy()
        kind = TYPES[dst.code][1]
        result = sums if beta == 0 else sums + beta * dst.read().astype(np.float64)
        dst.write(want, convert(result, kind))
        if self.options.negative_control:
            want[dst.base * np.dtype(kind).itemsize] ^= 1
        at = [tensor.address for tensor in tensors]
        for algorithm in range(ALGORITHMS[direction]):
            dst.raw[:] = before
            size = self.workspace(direction, tensors, algorithm)
            wrong = None if (size > 0) == (algorithm != 0) else f"a workspace of {size} bytes"
            wrong = wrong or self.compute(direction, tensors, at, algorithm, size, 1.0, beta)
            if wrong or not np.array_equal(dst.raw, want):
                return f"{NAMES[direction]} {problem} algorithm {algorithm} types {dst.code} beta {beta}: {wrong or 'other bits'}"
        return None


def whole(rng, dims):
    return rng.integers(-2, 3, dims).astype(np.float64)


def every_combination(bench):
    ranges = ((1, 2, 3), (1, 2, 3), (1, 2), (0, 1, 2), (1, 2, 3, 4, 5), (1, 2, 4, 8))
    for case, (spatial, window, stride, pad, dilation, groups) in enumerate(itertools.product(*ranges)):
        rng = np.random.default_rng([bench.options.seed, case])
        reach = (window - 1) * dilation + 1
        # Up to two outputs beyond the first, and rests that no window reaches.
        space = [max(1, reach - 2 * pad) + int(rng.integers(0, 2 * stride + 1)) for _ in range(spatial)]
        if bench.options.negative_control and case % 40:
            continue
        each = int(rng.integers(1, 3))
        problem = Chosen(int(rng.integers(1, 3)), each * groups, groups * int(rng.integers(1, 3)), groups, space, [window] * spatial,
                         [stride] * spatial, [pad] * spatial, [dilation] * spatial, bool(rng.integers(2)))  # fmt: skip
        values = [whole(rng, dims) for dims in (problem.x, problem.w, problem.y)]
        sums = [problem.sums(direction, *values) for direction in range(3)]
        for code, compute in COMPUTED:
            bench.describe(problem, compute)
            for direction in range(3):
                # What is computed holds NaN or a number before.
                beta = 0.5 if case % 5 == 0 else 0.0
                tensors = bench.operands(rng, problem, code, values)
                if beta == 0:
                    tensors[[2, 0, 1][direction]].raw[:] = 0xFF
                bench.check(f"combination {case}", lambda: bench.every_number(problem, direction, tensors, sums[direction], beta))
                bench.forget(*tensors)


# Layers of several groups, some of which have kernels of their own: batch, channels, filters, groups, space, window, stride,
# padding, dilation.
GROUPED = [
    (2, 64, 64, 32, [14, 14], [3, 3], 1, 1, 1), (1, 64, 64, 64, [28, 28], [3, 3], 1, 1, 1),
    (2, 48, 96, 48, [15, 13], [3, 3], 2, 1, 1), (1, 64, 128, 2, [20, 20], [3, 3], 1, 1, 1),
    (1, 128, 64, 4, [9, 9], [1, 1], 1, 0, 1), (2, 96, 96, 8, [8, 8], [5, 5], 1, 2, 1),
    (1, 40, 40, 2, [12, 12], [3, 3], 1, 2, 2), (2, 32, 32, 32, [200], [7], 1, 3, 1),
    (1, 16, 16, 16, [6, 7, 8], [3, 3, 3], 1, 1, 1), (1, 512, 512, 2, [7, 7], [3, 3], 1, 1, 1),
    (1, 32, 32, 8, [11, 9], [3, 3], 1, 1, 1), (1, 24, 24, 24, [10, 12], [3, 3], 2, 1, 1), (3, 8, 8, 8, [9, 9], [3, 3], 1, 1, 1),
    (1, 16, 64, 16, [12, 10], [5, 5], 1, 2, 1), (2, 48, 48, 16, [30], [3], 1, 1, 1), (1, 320, 320, 320, [40, 41], [3, 3], 1, 2, 2),
]  # fmt: skip


def groups_one_by_one(bench):
    """A loop over groups with pointers into the tensors gives the bits of one call, of numbers whose sums round."""
    codes = [cudnn.FLOAT, cudnn.HALF, cudnn.DOUBLE]
    for case, (layer, code, direction) in enumerate(itertools.product(GROUPED, codes, range(3))):
        batch, channels, filters, groups, space, window, *same = layer
        n = len(space)
        problem = Chosen(batch, channels, filters, groups, space, window, *([value] * n for value in same))
        rng = np.random.default_rng([bench.options.seed, 1, case])
        compute = cudnn.DOUBLE if code == cudnn.DOUBLE else cudnn.FLOAT
        for layouts in (["nchw"], ["nhwc"]):
            values = [rng.standard_normal(dims) for dims in (problem.x, problem.w, problem.y)]
            tensors = bench.operands(rng, problem, code, values, layouts)
            bench.check(f"groups {problem} {layouts}", lambda: one_by_one(bench, problem, direction, tensors, compute))
            bench.forget(*tensors)


def one_by_one(bench, problem, direction, tensors, compute):
    x, w, y = tensors
    dst = tensors[[2, 0, 1][direction]]
    size = np.dtype(TYPES[dst.code][1]).itemsize
    dst.raw[:] = 0xFF
    bench.describe(problem, compute)
    bench.compute(direction, tensors, [t.address for t in tensors], 1, bench.workspace(direction, tensors, 1))
    want = dst.raw.copy()
    dst.raw[:] = 0xFF
    one = problem.one_group()
    bench.describe(one, compute)
    parts = [bench.lib.create("TensorDescriptor"), bench.lib.create("FilterDescriptor"), bench.lib.create("TensorDescriptor")]
    bench.lib.set_strided(parts[0], dst.code, one.x, x.strides)
    bench.lib.set_strided(parts[2], dst.code, one.y, y.strides)
    # Filters of a group lie one behind the other in either format.
    rank = len(one.w)
    layout = cudnn.NHWC if w.strides[1] == 1 and w.strides[2:] != (1,) * (rank - 2) and rank > 2 else cudnn.NCHW
    bench.lib.call("cudnnSetFilterNdDescriptor", parts[1], dst.code, layout, rank, (c_int * rank)(*one.w))
    steps = [one.channels * x.strides[1], one.filters * w.strides[0], one.filters * y.strides[1]]
    views = [type(t)(t.code, desc, t.stored, t.strides, t.how) for t, desc in zip(tensors, parts)]
    for group in range(problem.groups):
        at = [t.address + group * step * size for t, step in zip(tensors, steps)]
        bench.compute(direction, views, at, 1, bench.workspace(direction, views, 1))
    bench.forget(*views)
    if bench.options.negative_control:
        want[dst.base * size] ^= 1
    if np.array_equal(dst.raw, want):
        return None
    kind = TYPES[dst.code][1]
    got = dst.read()
    dst.raw[:] = want
    apart = np.abs(got.astype(np.float64) - dst.read().astype(np.float64))
    return f"{NAMES[direction]} {np.dtype(kind).name}: {np.count_nonzero(apart)} of {apart.size} differ, by up to {apart.max()}"


def records(bench, direction, tensors, way):
    """The list of a query, which measures or not."""
    most, count = c_int(), c_int()
    bench.lib.call(f"cudnnGetConvolution{NAMES[direction]}AlgorithmMaxCount", bench.lib.handle, byref(most))
    found = (Record * most.value)()
    head = f"cudnn{way}Convolution{NAMES[direction]}Algorithm"
    descs = bench.descs(direction, tensors)
    if way == "Get":
        bench.lib.call(f"{head}_v7", bench.lib.handle, *descs, most, byref(count), found)
    else:
        bench.lib.call(head, bench.lib.handle, *descs, most, byref(count), found)
    return found[: count.value]


def every_record(bench, count):
    """Record 0 is usable, every usable one runs with its bytes under any math type, and so do those of the problem before."""
    earlier = {direction: [] for direction in range(3)}
    for case in range(count):
        direction = case % 3
        rng = np.random.default_rng([bench.options.seed, 2, case])
        problem = Problem(rng, int(rng.choice([1, 2, 2, 2, 3])), 1, 5)
        code, compute = COMPUTED[int(rng.integers(len(COMPUTED)))]
        values = [whole(rng, dims) for dims in (problem.x, problem.w, problem.y)]
        tensors = bench.operands(rng, problem, code, values)
        bench.check(f"records {case}", lambda: run_records(bench, case, problem, direction, tensors, compute, values, earlier[direction]))
        bench.forget(*tensors)


def run_records(bench, case, problem, direction, tensors, compute, values, earlier):
    bench.describe(problem, compute, case % 4)
    # Measuring takes a call, so that every tenth problem is enough.
    found = records(bench, direction, tensors, "Find" if case % 10 == 0 else "Get")
    if not found or found[0].status != 0:
        return "record 0 cannot be used"
    dst = tensors[[2, 0, 1][direction]]
    want = dst.raw.copy()
    dst.write(want, convert(problem.sums(direction, *values), TYPES[dst.code][1]))
    if bench.options.negative_control:
        want[dst.base * np.dtype(TYPES[dst.code][1]).itemsize] ^= 1
    at = [tensor.address for tensor in tensors]
    usable = [(record.algorithm, record.memory, record.math) for record in found if record.status == 0]
    if [record.algorithm for record in found if record.status != 0]:
        return "an algorithm is refused"
    for algorithm, memory, math in usable + [(algorithm, None, math) for algorithm, math in earlier]:
        for later in (math, (math + 1) % 4):
            bench.lib.call("cudnnSetConvolutionMathType", bench.conv, later)
            told = bench.workspace(direction, tensors, algorithm)
            if memory not in (None, told):
                return f"{problem} {NAMES[direction]}: algorithm {algorithm} tells {memory}, then {told} bytes"
            wrong = bench.compute(direction, tensors, at, algorithm, told)
            if wrong or not np.array_equal(dst.raw, want):
                return f"{problem} {NAMES[direction]} algorithm {algorithm} math type {later}: {wrong or 'other bits'}"
    earlier[:] = [(algorithm, math) for algorithm, _, math in usable]
    return None


def output_padding(bench):
    """Each extent of dx that gives the same y: strides up to 4 with windows below and above, in 1 to 3 dimensions."""
    rests = itertools.product((1, 2, 3), (1, 2, 3, 5), (2, 3, 4), (0, 1), (1, 2), (1, 2))
    for case, (spatial, window, stride, pad, dilation, groups) in enumerate(rests):
        reach = (window - 1) * dilation + 1
        for rest in range(stride):
            rng = np.random.default_rng([bench.options.seed, 3, case, rest])
            space = [stride + reach - 2 * pad + rest] * spatial
            if min(space) < 1:
                continue
            problem = Chosen(2, 2 * groups, 3 * groups, groups, space, *([value] * spatial for value in (window, stride, pad, dilation)))
            assert problem.out == [2] * spatial
            values = [whole(rng, dims) for dims in (problem.x, problem.w, problem.y)]
            code, compute = COMPUTED[case % len(COMPUTED)]
            bench.describe(problem, compute)
            tensors = bench.operands(rng, problem, code, values)
            sums = problem.sums(DATA, *values)
            bench.check(f"output padding {rest}", lambda: bench.every_number(problem, DATA, tensors, sums, -0.5))
            bench.forget(*tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20261125)
    parser.add_argument("--cases", type=int, default=3000, help="random problems whose records run")
    parser.add_argument("--negative-control", action="store_true")
    options = parser.parse_args()
    np.seterr(all="ignore")
    bench = Bench(options)
    every_combination(bench)
    groups_one_by_one(bench)
    every_record(bench, options.cases)
    output_padding(bench)
    print(f"{bench.passed} passed, {bench.failed} failed, 0 skipped")
    return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
