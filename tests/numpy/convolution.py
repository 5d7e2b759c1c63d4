"""Convolutions in three directions, alone and fused with bias, sum and activation, against sums in binary64 with NumPy.

Random problems over everything: 1 to 6 spatial dimensions, windows, strides, padding, dilation, groups, both modes, every layout
of x and y, filters in KCRS, KRSC and in vectors, every combination of types, every algorithm number with exactly the workspace
that was reported for it, filled with NaN and guarded. All memory is compared: gaps and guards too. Two kinds of contents:
small whole numbers, times 1e-40 now and then, whose sums are exact so that every bit is known, and real numbers, which may be off
by the bound of the sum.
"""

import argparse
import itertools
import math
import os
import sys
from ctypes import byref, c_int, c_size_t, c_void_p

import numpy as np

import cudnn
from arithmetic import Bench, Bytes, pointer
from reference import INTEGERS, TYPES, convert
from tensors import LAYOUTS, contents, poison

FORWARD, DATA, FILTER = range(3)
NAMES = ["Forward", "BackwardData", "BackwardFilter"]
ALGORITHMS = [8, 6, 7]
BYTES = [cudnn.INT8, cudnn.UINT8, cudnn.INT8X4, cudnn.UINT8X4, cudnn.INT8X32]
REALS = [cudnn.FLOAT, cudnn.HALF, cudnn.BFLOAT16, cudnn.DOUBLE, cudnn.E4M3, cudnn.E5M2]
EPSILON = 2.0**-23


def taps(problem):
    """Every tap of the window with the part of the padded x that it meets."""
    for tap in itertools.product(*(range(r) for r in problem.window)):
        parts = []
        for axis, r in enumerate(tap):
            at = (problem.window[axis] - 1 - r if problem.flip else r) * problem.dilation[axis]
            parts.append(slice(at, at + (problem.out[axis] - 1) * problem.stride[axis] + 1, problem.stride[axis]))
        yield tap, tuple(parts)


class Problem:
    """A random shape: x is N x C x space, w K x C/groups x window, y N x K x out."""

    def __init__(self, rng, spatial, unit, largest=7):
        pick = lambda low, high: [int(v) for v in rng.integers(low, high + 1, spatial)]
        self.spatial = spatial
        small = spatial > 3
        self.groups = int(rng.choice([1, 1, 2, 3]))
        self.batch = int(rng.integers(1, 4))
        each = unit * int(rng.integers(1, 3 if unit > 1 or small else 6))
        self.channels = each * self.groups
        self.filters = unit * self.groups * int(rng.integers(1, 2 if unit > 4 or small else 5))
        self.window = pick(1, 2 if small else 3)
        self.stride, self.dilation = pick(1, 3), pick(1, 2 if small else 3)
        self.pad = pick(0, 1 if small else 4)
        self.flip = bool(rng.integers(2))
        self.space = []
        for r, d, p in zip(self.window, self.dilation, self.pad):
            reach = (r - 1) * d + 1
            self.space.append(max(1, reach - 2 * p) + int(rng.integers(0, 2 if small else largest)))
        self.out = [1 + (x + 2 * p - ((r - 1) * d + 1)) // s
                    for x, p, r, d, s in zip(self.space, self.pad, self.window, self.dilation, self.stride)]  # fmt: skip

    @property
    def x(self):
        return [self.batch, self.channels, *self.space]

    @property
    def w(self):
        return [self.filters, self.channels // self.groups, *self.window]

    @property
    def y(self):
        return [self.batch, self.filters, *self.out]

    def __str__(self):
        return (f"x {self.x} w {self.w} y {self.y} pad {self.pad} stride {self.stride} dilation {self.dilation} "
                f"groups {self.groups} {'flipped' if self.flip else ''}")  # fmt: skip

    def sums(self, direction, x, w, y):
        """The sum of products in binary64; x, w or y, whichever is computed, is not read."""
        n, g = self.batch, self.groups
        c, k = self.channels // g, self.filters // g
        wide = [s + 2 * p for s, p in zip(self.space, self.pad)]
        inner = tuple(slice(p, p + s) for s, p in zip(self.space, self.pad))
        around = np.zeros([n, g, c, *wide])
        if direction != DATA:
            around[(..., *inner)] = x.reshape([n, g, c, *self.space])
        result = np.zeros([n, g, k, *self.out])
        gradient = np.zeros([g, k, c, *self.window])
        y = y if direction == FORWARD else y.reshape([n, g, k, *self.out])
        for tap, part in taps(self):
            seen = around[(..., *part)].reshape(n, g, c, -1)
            if direction == FORWARD:
                each = w.reshape([g, k, c, *self.window])[(..., *tap)]
                result += np.einsum("ngcp,gkc->ngkp", seen, each).reshape(result.shape)
            elif direction == DATA:
                each = w.reshape([g, k, c, *self.window])[(..., *tap)]
                around[(..., *part)] += np.einsum("ngkp,gkc->ngcp", y.reshape(n, g, k, -1), each).reshape([n, g, c, *self.out])
            else:
                gradient[(..., *tap)] = np.einsum("ngcp,ngkp->gkc", seen, y.reshape(n, g, k, -1))
        if direction == FORWARD:
            return result.reshape(self.y)
        return around[(..., *inner)].reshape(self.x) if direction == DATA else gradient.reshape(self.w)


class Filter:
    """A filter descriptor and memory, with the interface of a tensor that the comparison wants."""

    def __init__(self, lib, rng, code, dims):
        self.code, self.lib = code, lib
        self.lanes = TYPES[code][2]
        formats = [cudnn.NCHW_VECT_C] if self.lanes > 1 else [cudnn.NCHW, cudnn.NHWC]
        self.layout = int(rng.choice(formats))
        self.desc = lib.create("FilterDescriptor")
        n = len(dims)
        lib.call("cudnnSetFilterNdDescriptor", self.desc, code, self.layout, n, (c_int * n)(*dims))
        self.stored = (dims[0], dims[1] // self.lanes, *dims[2:])
        order = [0, *range(2, n), 1] if self.layout == cudnn.NHWC else range(n)
        step, self.strides = 1, [0] * n
        for axis in reversed(list(order)):
            self.strides[axis], step = step, step * self.stored[axis]

    def __str__(self):
        return f"filter {TYPES[self.code][0]} format {self.layout} {self.stored}"


def as_tensor(filter_):
    """The same memory as a tensor."""
    from tensors import Tensor

    return Tensor(filter_.code, filter_.desc, filter_.stored, tuple(filter_.strides), str(filter_))


def whole(rng, code, limit):
    """A function that makes small whole numbers, which every type holds."""
    kind = TYPES[code][1]
    low = 0 if kind is np.uint8 else -limit
    return lambda count: rng.integers(low, limit + 1, count).astype(kind)


def activated(mode, coefficient, x):
    with np.errstate(all="ignore"):
        return {
            0: lambda: 1 / (1 + np.exp(-x)), 1: lambda: np.maximum(x, 0), 2: lambda: np.tanh(x),
            3: lambda: np.clip(x, 0, coefficient), 4: lambda: np.where(x > 0, x, coefficient * np.expm1(x)),
            5: lambda: x, 6: lambda: x / (1 + np.exp(-x)),
        }[mode]()  # fmt: skip


class Convolutions(Bench):
    """The problems, on the tally of the arithmetic test."""

    def __init__(self, options):
        super().__init__(options)
        self.conv = self.lib.create("ConvolutionDescriptor")
        self.activation = self.lib.create("ActivationDescriptor")

    def codes(self, rng, direction):
        """Types of x, w and y, and the compute type: of one family mostly, any mixture else."""
        if rng.random() < 0.35:
            a, b = (int(c) for c in rng.choice(BYTES, 2))
            computed = int(rng.choice([cudnn.INT8, cudnn.INT32, cudnn.FLOAT, cudnn.HALF, cudnn.INT8X4, cudnn.INT8X32, cudnn.UINT8]))
            compute = int(rng.choice([cudnn.INT32, cudnn.FLOAT]))
        elif rng.random() < 0.7:
            a = b = computed = int(rng.choice(REALS))
            compute = cudnn.DOUBLE if a == cudnn.DOUBLE else int(rng.choice([cudnn.FLOAT, cudnn.HALF]))
        else:
            a, b, computed = (int(c) for c in rng.choice([*REALS, *REALS, *BYTES], 3))
            compute = int(rng.choice([cudnn.FLOAT, cudnn.DOUBLE]))
        if direction == FORWARD:
            return a, b, computed, compute
        return (computed, a, b, compute) if direction == DATA else (a, computed, b, compute)

    def describe(self, problem, compute):
        n = problem.spatial
        array = lambda values: (c_int * n)(*values)
        self.lib.call("cudnnSetConvolutionNdDescriptor", self.conv, n, array(problem.pad), array(problem.stride),
                      array(problem.dilation), 0 if problem.flip else 1, compute)  # fmt: skip
        self.lib.call("cudnnSetConvolutionGroupCount", self.conv, problem.groups)
        self.lib.call("cudnnSetConvolutionMathType", self.conv, 0)

    def workspace(self, direction, x, w, y, algorithm):
        """Exactly as many bytes as are reported, NaN in every type, between guards."""
        order = [(x, w, y), (w, y, x), (x, y, w)][direction]
        descs = [order[0].desc, order[1].desc, self.conv, order[2].desc]
        if direction == FORWARD:
            descs = [x.desc, w.desc, self.conv, y.desc]
        size = c_size_t()
        self.lib.call(f"cudnnGetConvolution{NAMES[direction]}WorkspaceSize", self.lib.handle, *descs, algorithm, byref(size))
        assert (size.value > 0) == (algorithm != 0), f"a workspace of {size.value} bytes"
        guarded = np.full(size.value + 128, 0xFF, np.uint8)
        guarded[:64] = guarded[64 + size.value :] = 0x5A
        return guarded, size.value

    def run(self, rng, tensors, direction, spatial, fused=False):
        codes = self.codes(rng, direction)
        x_code, w_code, y_code, compute = codes
        unit = max(TYPES[code][2] for code in codes[:3])
        problem = Problem(rng, spatial, unit)
        self.describe(problem, compute)
        x = self.tensor(rng, tensors, x_code, problem.x, False, ["nchw", "nhwc", "permuted", "padded"])
        y = self.tensor(rng, tensors, y_code, problem.y, False, ["nchw", "nhwc", "permuted", "padded"])
        filter_ = Filter(self.lib, rng, w_code, problem.w)
        w = as_tensor(filter_)
        try:
            return self.compute(rng, tensors, problem, direction, (x, w, y), compute, fused)
        finally:
            self.lib.destroy("FilterDescriptor", filter_.desc)

    def compute(self, rng, tensors, problem, direction, operands, compute, fused):
        x, w, y = operands
        dst = operands[[2, 0, 1][direction]]
        sources = [operand for operand in operands if operand is not dst]
        exact = bool(rng.random() < 0.6)
        alpha = float(rng.choice([1.0, 1.0, -1.0, 0.5, 2.0, 0.0]))
        beta = 0.0 if fused else float(rng.choice([0.0, 0.0, 1.0, -0.5]))
        limit = 2 if exact else 5
        # Subnormal multiples of the least number, whose sums are exact, too: weights that are not flushed to 0.
        tiny = exact and not fused and rng.random() < 0.5 and all(operand.code == cudnn.FLOAT for operand in operands)
        for operand in sources:
            real = TYPES[operand.code][1] not in INTEGERS and not exact
            fill = (lambda n: rng.standard_normal(n).astype(TYPES[operand.code][1])) if real else whole(rng, operand.code, limit)
            operand.allocate(rng, poison(operand.code) if alpha == 0 else fill)
            if tiny and operand is sources[-1] and alpha != 0:
                operand.write(operand.raw, operand.read() * np.float32(2.0**-133))
        dst.allocate(rng, poison(dst.code) if beta == 0 else whole(rng, dst.code, 8))
        kind = TYPES[dst.code][1]
        wide = lambda operand: operand.read().astype(np.float64)
        values = [None if operand is dst else np.zeros([1]) if alpha == 0 else wide(operand) for operand in operands]
        shape = [problem.y, problem.x, problem.w][direction]
        if alpha == 0:
            sums = magnitudes = np.zeros(shape)
        else:
            sums = problem.sums(direction, *values)
            magnitudes = problem.sums(direction, *(None if v is None else np.abs(v) for v in values))
        terms = {FORWARD: math.prod(problem.w[1:]), DATA: problem.filters * math.prod(problem.window),
                 FILTER: problem.batch * math.prod(problem.out)}[direction]  # fmt: skip
        result = alpha * sums
        bound = abs(alpha) * magnitudes * (terms + 4) * EPSILON
        if beta != 0:
            old = wide(dst)
            result = result + beta * old
            bound = bound + np.abs(result) * EPSILON + np.abs(beta * old) * EPSILON
        double = compute == cudnn.DOUBLE
        placed = [x, w, y]
        if fused:
            z, bias, mode = self.beside(rng, tensors, problem, dst)
            alpha2 = float(rng.choice([0.0, 1.0, 0.5]))
            coefficient = float(rng.choice([1.0, 6.0]))
            self.lib.call("cudnnSetActivationDescriptor", self.activation, mode, 1, pointer(coefficient, True)._obj)
            added = np.broadcast_to(bias.read().astype(np.float64), shape)
            if alpha2 == 0 and z is not dst:
                z.raw[:] = 0xFF
            before = alpha2 * wide(z) if alpha2 != 0 else 0.0
            bound = bound + (np.abs(before) + np.abs(added)) * 4 * EPSILON
            inner = result + before + added
            result = activated(mode, coefficient, inner)
            # The steepest slope of all of them is below 2; then the function's own rounding.
            bound = 2 * bound + (0 if mode in (1, 3, 5) else (np.abs(result) + 1e-30) * 16 * EPSILON)
            placed += [z, bias]
            exact = exact and mode in (1, 3, 5)
        want = dst.raw.copy()
        dst.write(want, convert(result, kind).astype(dst.memory_kind))
        bound = None if exact else self.rounded(bound, result, kind)
        before = [operand.raw.copy() for operand in placed]
        algorithms = range(ALGORITHMS[direction]) if rng.random() < 0.1 else [int(rng.integers(ALGORITHMS[direction]))]
        for algorithm in algorithms:
            dst.raw[:] = before[[2, 0, 1][direction]]
            guarded, size = self.workspace(direction, x, w, y, algorithm)
            with self.lib.memory.placed(*placed, Bytes(guarded)) as at:
                room = c_void_p(at[-1] + 64)
                common = (self.conv, algorithm, room, c_size_t(size))
                one, two = pointer(alpha, double), pointer(beta, double)
                if fused:
                    self.lib.call("cudnnConvolutionBiasActivationForward", self.lib.handle, one, x.desc, c_void_p(at[0]), w.desc,
                                  c_void_p(at[1]), *common, pointer(alpha2, double), z.desc, c_void_p(at[3]), bias.desc,
                                  c_void_p(at[4]), self.activation, y.desc, c_void_p(at[2]))  # fmt: skip
                else:
                    first, second = [(0, 1), (1, 2), (0, 2)][direction]
                    self.lib.call(f"cudnnConvolution{NAMES[direction]}", self.lib.handle, one, placed[first].desc,
                                  c_void_p(at[first]), placed[second].desc, c_void_p(at[second]), *common, two, dst.desc,
                                  c_void_p(at[[2, 0, 1][direction]]))  # fmt: skip
            what = (f"{NAMES[direction]} {problem} algorithm {algorithm} types {[o.code for o in operands]} in {compute} "
                    f"alpha {alpha} beta {beta} {f'fused {mode} z {alpha2}' if fused else ''}")  # fmt: skip
            if (guarded[:64] != 0x5A).any() or (guarded[64 + size :] != 0x5A).any():
                return f"{what}: the workspace's guards were written"
            for operand, old in zip(placed, before):
                if operand is not dst and not np.array_equal(operand.raw, old) and operand.raw is not dst.raw:
                    return f"{what}: a source was written"
            wrong = self.compare(rng, dst, want.copy(), bound)
            if wrong:
                return f"{what} {'exact' if bound is None else ''}: {wrong}"
        return None

    def beside(self, rng, tensors, problem, y):
        """z, sometimes y itself, and a bias, of types of their own."""
        kind = TYPES[y.code][1]
        real = [cudnn.FLOAT, cudnn.HALF, cudnn.DOUBLE, cudnn.BFLOAT16]
        if rng.random() < 0.3:
            z = y
            y.allocate(rng, whole(rng, y.code, 8))
        else:
            code = y.code if rng.random() < 0.6 else int(rng.choice(real))
            if TYPES[code][2] > 1 and kind is None:
                code = cudnn.FLOAT
            z = self.tensor(rng, tensors, code, problem.y, False, ["nchw", "nhwc", "permuted", "padded"])
            z.allocate(rng, whole(rng, code, 4))
        dims = [1, problem.filters] + [1] * problem.spatial
        bias = self.tensor(rng, tensors, int(rng.choice(real)), dims, False, ["nchw"])
        bias.allocate(rng, whole(rng, bias.code, 4))
        return z, bias, int(rng.choice([1, 1, 5, 5, 0, 2, 3, 4, 6]))

    def rounded(self, bound, result, kind):
        """The bound and one rounding to the type of the result."""
        if kind in INTEGERS:
            return np.where(bound > 0, 1.0, 0.0) + bound
        quantum = {np.float16: 2.0**-10, np.float32: EPSILON, np.float64: EPSILON * 2.0**-29}.get(kind)
        if quantum is None:
            quantum = {"bfloat16": 2.0**-7, "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2}[np.dtype(kind).name]
        smallest = 2.0**-9 if quantum >= 2.0**-3 else 2.0**-24
        return bound + np.abs(result) * quantum + smallest


def random_problems(bench, count):
    for case in range(count):
        direction, fused = case % 3, case % 12 == 0
        spatial = int(np.random.default_rng([bench.options.seed, case]).choice([1, 2, 2, 2, 2, 3, 3, 4, 5, 6]))
        name = f"{'fused' if fused else NAMES[direction]} {spatial}-D {case}"
        bench.check(name, lambda rng, tensors: bench.run(rng, tensors, direction, spatial, fused))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--cases", type=int, default=10000)
    parser.add_argument("--show", type=int, default=20, help="failures that are described in full")
    parser.add_argument("--negative-control", action="store_true")
    parser.add_argument("--core", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    os.environ["CUDNN_SHIM_BACKEND"] = options.core
    np.seterr(all="ignore")
    bench = Convolutions(options)
    random_problems(bench, options.cases)
    print(f"{bench.passed} passed, {bench.failed} failed, 0 skipped")
    return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
