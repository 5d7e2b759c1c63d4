"""Random pooling along 1 to 6 axes and response normalisation, and their gradients, against NumPy in binary64.

The bound: with k terms in a sum of magnitude M, results are off by at most (k + 16) roundings of the type that is computed
in (binary32, or binary64 for DOUBLE) times M, and half a unit in the last place of the type that is stored. Maxima are
exact. Where PyTorch is installed, its pooling, its response normalisation and their gradients have to agree with the formulas of this
file, too.
"""

import argparse
import itertools
import math
import os
import sys
from ctypes import byref, c_double, c_float, c_uint, c_void_p

import numpy as np

import cudnn
from cudnn import Library
from device import Cuda, Host
from reference import TYPES
from tensors import LAYOUTS, make, poison

FLOATS = [cudnn.FLOAT, cudnn.DOUBLE, cudnn.HALF, cudnn.BFLOAT16]
MAX, WITH_PADDING, INSIDE, MAX_DETERMINISTIC = range(4)
# Half a unit in the last place.
ROUNDING = {cudnn.FLOAT: 2.0**-24, cudnn.DOUBLE: 2.0**-53, cudnn.HALF: 2.0**-11, cudnn.BFLOAT16: 2.0**-8}
LEAST = {cudnn.FLOAT: 2.0**-149, cudnn.DOUBLE: 2.0**-1074, cudnn.HALF: 2.0**-24, cudnn.BFLOAT16: 2.0**-133}


LOWEST = {
    cudnn.FLOAT: float(np.finfo(np.float32).min),
    cudnn.DOUBLE: float(np.finfo(np.float64).min),
    cudnn.HALF: -65504.0,
    cudnn.BFLOAT16: -float(2**8 - 1) * 2.0**120,
    cudnn.INT8: -128.0,
}


def windows(inputs, outputs, window, stride, padding):
    """For every output position its box of cells, its number of cells, and its positions inside the padded tensor."""
    for o in itertools.product(*map(range, outputs)):
        first = [i * s - p for i, s, p in zip(o, stride, padding)]
        box = tuple(slice(max(f, 0), min(f + w, n)) for f, w, n in zip(first, window, inputs))
        inside = math.prod(max(b.stop - b.start, 0) for b in box)
        padded = math.prod(max(min(f + w, n + p) - f, 0) for f, w, n, p in zip(first, window, inputs, padding))
        yield o, box, inside, max(padded, inside)


def pooled(x, geometry, mode, lowest, keeps_nan=True):
    """(result, magnitude of the sums); a NaN is not the largest of others, unless it is kept."""
    largest = np.maximum if keeps_nan else np.fmax
    result = np.zeros(x.shape[:2] + tuple(geometry[1]))
    magnitude = np.zeros_like(result)
    for o, box, inside, padded in windows(x.shape[2:], *geometry[1:]):
        at, cells = (..., *o), x[(slice(None), slice(None), *box)].reshape(x.shape[:2] + (-1,))
        if mode in (MAX, MAX_DETERMINISTIC):
            result[at] = largest.reduce(cells, -1) if inside else lowest
        elif inside:
            count = inside if mode == INSIDE else padded
            result[at], magnitude[at] = cells.sum(-1) / count, np.abs(cells).sum(-1) / count
    return result, magnitude


def pooling_gradient(x, dy, geometry, mode, keeps_nan=True):
    result, magnitude = np.zeros(x.shape), np.zeros(x.shape)
    n, c = np.indices(x.shape[:2])
    for o, box, inside, padded in windows(x.shape[2:], *geometry[1:]):
        if not inside:
            continue
        given, at = dy[(..., *o)], (slice(None), slice(None), *box)
        if mode in (MAX, MAX_DETERMINISTIC):
            cells = x[at]
            cells = cells.reshape(x.shape[:2] + (-1,))
            # The first NaN is the largest for argmax; where none is kept, windows of nothing else have no other.
            numbers = cells if keeps_nan else np.where(np.isnan(cells), -np.inf, cells)
            index = numbers.argmax(-1)
            # Of one dimension: NumPy 2.4 unravels more than 8,192 indices of several dimensions wrongly.
            first = np.unravel_index(index.reshape(-1), x[at].shape[2:])
            place = (n, c, *(f.reshape(index.shape) + b.start for f, b in zip(first, box)))
            result[place] += given
            magnitude[place] += np.abs(given)
        else:
            share = (given / (inside if mode == INSIDE else padded))[(..., *[None] * len(o))]
            result[at] += share
            magnitude[at] += np.abs(share)
    return result, magnitude


def neighbours(extent, n):
    """Pairs (i, j) of a position and a member of its window."""
    before = (n - 1) // 2
    return [(i, j) for i in range(extent) for j in range(max(i - before, 0), min(i - before + n, extent))]


def summed(values, axes, n, adjoint=False):
    """The sum over the window along every axis, or over the positions whose windows hold a cell."""
    for axis in axes:
        matrix = np.zeros((values.shape[axis],) * 2)
        for i, j in neighbours(values.shape[axis], n):
            matrix[(j, i) if adjoint else (i, j)] = 1
        values = np.moveaxis(np.tensordot(matrix, values, (1, axis)), 0, axis)
    return values


def base(x, m, axes, n, scale, k):
    """k + scale * sum (x' - m)^2, by its three terms."""
    count = summed(np.ones_like(x), axes, n)
    squares = summed(x * x, axes, n) - 2 * m * summed(x, axes, n) + count * m * m
    return k + scale * np.maximum(squares, 0)


def response(x, m, dy, axes, n, alpha, beta, k):
    """(y, dx, dm)"""
    scale = alpha / n ** len(axes)
    s = base(x, m, axes, n, scale, k)
    t = dy * x * s ** (-beta - 1)
    sums = x * summed(t, axes, n, True) - summed(t * m, axes, n, True)
    dx = dy * s**-beta - 2 * beta * scale * sums
    count = summed(np.ones_like(x), axes, n)
    return x * s**-beta, dx, 2 * beta * scale * t * (summed(x, axes, n) - count * m)


class Bench:
    def __init__(self, options):
        self.memory = Cuda() if options.core == "cuda" else Host()
        self.lib = Library(options.library, self.memory)
        self.rng = np.random.default_rng(options.seed)
        self.control = options.negative_control
        self.passed = self.failed = 0
        create = self.lib.create
        self.pooling, self.lrn = create("PoolingDescriptor"), create("LRNDescriptor")
        self.filter, self.convolution = create("FilterDescriptor"), create("ConvolutionDescriptor")

    def values(self, code, shape):
        if code == cudnn.INT8:
            return self.rng.integers(-20, 21, shape).astype(np.int8)
        # Few values, so that there are ties.
        return (self.rng.integers(-24, 25, shape) * 0.125).astype(TYPES[code][1])

    def tensor(self, code, dims, values=None):
        tensor = make(self.lib, self.rng, code, dims, LAYOUTS)
        tensor.allocate(self.rng, poison(code))
        if values is not None:
            tensor.write(tensor.raw, values)
        return tensor

    def factors(self, code):
        factor = c_double if code == cudnn.DOUBLE else c_float
        alpha, beta = [(1.0, 0.0), (-0.75, 0.0), (0.5, -0.75)][int(self.rng.integers(3))]
        return alpha, beta, factor(alpha), factor(beta)

    def judge(self, title, tensor, want, magnitude, terms, old, alpha, beta):
        """Whether the tensor holds alpha * want + beta * old within the bound."""
        code, got = tensor.code, tensor.read().astype(np.float64)
        unit = ROUNDING[cudnn.DOUBLE if code == cudnn.DOUBLE else cudnn.FLOAT]
        want = alpha * want + (beta * old if beta else 0)
        if self.control:
            # A lowest number and 1 more is the same number.
            want = want + 1 + np.abs(want) / 8
        bound = (terms + 16) * unit * (abs(alpha) * magnitude + np.abs(want) + (abs(beta * old) if beta else 0))
        if code == cudnn.INT8:
            low, high = (np.clip(np.rint(want + side * (bound + 1e-12)), -128, 127) for side in (-1, 1))
            wrong = (got < low) | (got > high)
        else:
            # Of subnormal numbers, a quotient and its scaling each round to a multiple of the least.
            wrong = ~(np.abs(got - want) <= bound + ROUNDING[code] * np.abs(want) * 1.01 + 2 * LEAST[code])
            wrong &= ~(np.isnan(got) & np.isnan(want) & (not self.control))
        if self.control:
            # What is one off must be seen.
            self.passed += bool(wrong.any())
            self.failed += not wrong.any()
            if not wrong.any():
                print(f"FAILED {title}: nothing is seen of 1 more in {tensor}")
            return
        if wrong.any():
            at = tuple(int(i[0]) for i in np.nonzero(wrong))
            print(f"FAILED {title}: {got[at]} instead of {want[at]} at {at} of {tensor}")
        self.failed += bool(wrong.any())
        self.passed += not wrong.any()

    def output(self, code, dims, beta):
        old = self.values(code, dims)
        return self.tensor(code, dims, old if beta else None), old.astype(np.float64)

    def pool(self):
        rng = self.rng
        spatial = int(rng.choice([1, 2, 2, 2, 3, 4, 5, 6]))
        # Along many axes there would be very many windows.
        most, size, pad = [(20, 6, 6), (12, 6, 6), (7, 6, 6), (5, 4, 2), (4, 3, 2), (4, 3, 2)][spatial - 1]
        inputs = [int(v) for v in rng.integers(1, most, spatial)]
        window = [int(v) for v in rng.integers(1, size, spatial)]
        stride = [int(v) for v in rng.integers(1, 5, spatial)]
        padding = [int(v) for v in rng.integers(0, pad, spatial)]
        batch = (int(rng.integers(1, 4)), int(rng.integers(1, 20 if spatial < 5 else 4)))
        self.pool_of(int(rng.choice(FLOATS + [cudnn.INT8])), batch, inputs, window, stride, padding)

    def large_pools(self):
        """Each extent in turn beyond what 16 bits count."""
        for batch, inputs in [((65536, 1), [2, 3]), ((1, 70000), [3, 2]), ((1, 2), [131071, 2]), ((1, 1), [3, 65537])]:
            # In few positions: each is a step of the loop that judges.
            window, stride = [min(n, 7) for n in inputs], [min(n, 13000) for n in inputs]
            for code in (cudnn.FLOAT, cudnn.HALF):
                self.pool_of(code, batch, inputs, window, stride, [0, 0])

    def every_geometry(self):
        """Windows of 1 to 5, strides of 1 to 4, padding of 0 to 5, all modes, and extents rounded down, rounded up and one more."""
        rng = self.rng
        axes = list(itertools.product(range(1, 6), range(1, 5), range(6)))
        for case, (first, mode, extra) in enumerate(itertools.product(axes, range(4), range(3))):
            # Beside an axis of another kind, or alone.
            others = [axes[int(rng.integers(len(axes)))] for _ in range(int(rng.choice([0, 1, 1, 2])))]
            window, stride, padding = zip(first, *others)
            inputs = [int(n) for n in rng.integers(1, 12 if len(others) < 2 else 6, len(window))]
            code = (FLOATS + [cudnn.INT8])[case % 5]
            self.pool_of(code, (2, 3), inputs, window, stride, padding, mode, extra, case % 3 == 0)

    def pool_of(self, code, batch, inputs, window, stride, padding, mode=None, extra=None, has_nan=False):
        rng, spatial = self.rng, len(inputs)
        mode, nan = int(rng.integers(4)) if mode is None else mode, int(rng.integers(2))
        # Rounded down, rounded up, and one more.
        extra = int(rng.integers(3)) if extra is None else extra
        outputs = [max(n + 2 * p - w, 0) // s + 1 + (extra if s > 1 else extra // 2) for n, p, w, s in zip(inputs, padding, window, stride)]
        ints = lambda values: (cudnn.c_int * spatial)(*values)
        self.lib.call("cudnnSetPoolingNdDescriptor", self.pooling, mode, nan, spatial, ints(window), ints(padding), ints(stride))
        geometry = (inputs, outputs, window, stride, padding)
        values = self.values(code, batch + tuple(inputs))
        if code == cudnn.FLOAT and rng.random() < 0.2:
            # Subnormal, and still exact.
            values = values * np.float32(2.0**-133)
        if has_nan and code != cudnn.INT8:
            values[rng.random(values.shape) < 0.2] = np.nan
        x = self.tensor(code, batch + tuple(inputs), values)
        alpha, beta, *factors = self.factors(code)
        y, old = self.output(code, batch + tuple(outputs), beta)
        with self.memory.placed(x, y) as (x_at, y_at):
            self.lib.call("cudnnPoolingForward", self.lib.handle, self.pooling, byref(factors[0]), x.desc, c_void_p(x_at),
                          byref(factors[1]), y.desc, c_void_p(y_at))  # fmt: skip
        lowest = LOWEST[code]
        wide = values.astype(np.float64)
        want, magnitude = pooled(wide, geometry, mode, lowest, nan)
        title = f"pooling {mode} {geometry} NaN kept {nan}"
        self.judge(title, y, want, magnitude, math.prod(window), old, alpha, beta)
        if code == cudnn.INT8:
            return
        given = self.values(code, batch + tuple(outputs))
        # The maxima take x and dx, y and dy, of one layout.
        dy = self.tensor(code, batch + tuple(outputs), given)
        before = self.values(code, values.shape)
        dx, is_max = x, mode in (MAX, MAX_DETERMINISTIC)
        copied = x.raw.copy()
        dx.write(dx.raw, before)
        source = type(x)(x.code, x.desc, x.stored, x.strides, x.how, copied, x.base)
        with self.memory.placed(source, dy, dx) as (x_at, dy_at, dx_at):
            nothing = (None, None) if not is_max else (dy.desc, c_void_p(dy_at))
            self.lib.call("cudnnPoolingBackward", self.lib.handle, self.pooling, byref(factors[0]), *nothing, dy.desc, c_void_p(dy_at),
                          x.desc, c_void_p(x_at), byref(factors[1]), dx.desc, c_void_p(dx_at))  # fmt: skip
        want, magnitude = pooling_gradient(wide, given.astype(np.float64), geometry, mode, nan)
        terms = math.prod(-(-w // s) for w, s in zip(window, stride))
        self.judge(f"gradient of {title}", dx, want, magnitude, terms, before.astype(np.float64), alpha, beta)

    def respond(self):
        rng = self.rng
        divisive = bool(rng.integers(2))
        code = int(rng.choice(FLOATS))
        spatial = int(rng.integers(2, 4)) if divisive else int(rng.integers(1, 4))
        dims = (int(rng.integers(1, 3)), int(rng.integers(1, 20))) + tuple(int(v) for v in rng.integers(1, 7, spatial))
        n, power = int(rng.integers(1, 8)), float(rng.choice([0.5, 0.75, 1.0, 0.6, 2.0]))
        self.lib.call("cudnnSetLRNDescriptor", self.lrn, c_uint(n), c_double(0.4), c_double(power), c_double(1.25))
        values, given, mean = (self.values(code, dims) for _ in range(3))
        tensors = []
        for content in (values, given):
            tensor = self.straight(code, dims, divisive)
            tensor.write(tensor.raw, content)
            tensors.append(tensor)
        x, dy = tensors
        beside = lambda content: self.beside(x, content)
        alpha, beta, *factors = self.factors(code)
        before = self.values(code, dims)
        y = self.straight(code, dims, divisive)
        if beta:
            y.write(y.raw, before)
        old = before.astype(np.float64)
        wide, wide_dy = values.astype(np.float64), given.astype(np.float64)
        has_means = divisive and bool(rng.integers(2))
        m = mean.astype(np.float64) if has_means else np.zeros(dims)
        axes = tuple(range(2, 2 + spatial)) if divisive else (1,)
        want_y, want_dx, want_dm = response(wide, m, wide_dy, axes, n, 0.4, power, 1.25)
        handle, (a, b) = self.lib.handle, factors
        terms = 8 * n ** len(axes) + 64
        title = f"response {'over space' if divisive else 'across channels'} n={n} beta={power} {dims} means {has_means}"
        if not divisive:
            with self.memory.placed(x, y) as (x_at, y_at):
                self.lib.call("cudnnLRNCrossChannelForward", handle, self.lrn, 0, byref(a), x.desc, c_void_p(x_at), byref(b), y.desc, c_void_p(y_at))
        else:
            means = beside(mean)
            with self.memory.placed(x, means, y) as (x_at, m_at, y_at):
                m_at = c_void_p(m_at if has_means else None)
                self.lib.call("cudnnDivisiveNormalizationForward", handle, self.lrn, 0, byref(a), x.desc, c_void_p(x_at), m_at,
                              c_void_p(x_at), c_void_p(x_at), byref(b), y.desc, c_void_p(y_at))  # fmt: skip
        self.judge(title, y, want_y, np.abs(want_y), terms, old, alpha, beta)
        size = np.abs(wide_dy) + np.abs(wide) * summed(np.abs(wide_dy * wide) + np.abs(wide_dy * wide * m), axes, n, True)
        dx = self.beside(y, before)
        if not divisive:
            with self.memory.placed(x, dy, dx) as (x_at, dy_at, dx_at):
                self.lib.call("cudnnLRNCrossChannelBackward", handle, self.lrn, 0, byref(a), None, None, dy.desc, c_void_p(dy_at),
                              x.desc, c_void_p(x_at), byref(b), dx.desc, c_void_p(dx_at))  # fmt: skip
        else:
            gradient, means, dm = beside(given), beside(mean), self.beside(y, before)
            with self.memory.placed(x, gradient, means, dx, dm) as (x_at, dy_at, m_at, dx_at, dm_at):
                m_at = c_void_p(m_at if has_means else None)
                self.lib.call("cudnnDivisiveNormalizationBackward", handle, self.lrn, 0, byref(a), x.desc, c_void_p(x_at), m_at,
                              c_void_p(dy_at), c_void_p(x_at), c_void_p(x_at), byref(b), y.desc, c_void_p(dx_at), c_void_p(dm_at))  # fmt: skip
            spread = summed(np.abs(wide), axes, n) + np.abs(m) * n ** len(axes)
            self.judge(f"means of {title}", dm, want_dm, np.abs(wide_dy * wide) * spread, terms, old, alpha, beta)
        self.judge(f"gradient of {title}", dx, want_dx, size, terms, old, alpha, beta)

    def straight(self, code, dims, is_asked):
        """A tensor without negative strides, if that is asked for."""
        tensor = make(self.lib, self.rng, code, dims, LAYOUTS)
        while is_asked and min(tensor.strides) < 0:
            tensor = make(self.lib, self.rng, code, dims, LAYOUTS)
        tensor.allocate(self.rng, poison(code))
        return tensor

    def beside(self, tensor, content):
        """Another tensor of the same descriptor."""
        raw = tensor.raw.copy()
        tensor.write(raw, content)
        return type(tensor)(tensor.code, tensor.desc, tensor.stored, tensor.strides, tensor.how, raw, tensor.base)


def agrees_with_torch(rng):
    """Compares the formulas of this file with PyTorch, if it is there: (how many agree, how many were skipped)."""
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch; install it: pip install torch")
        return 0, 1
    functional, agreed = torch.nn.functional, 0
    for spatial, mode in itertools.product((1, 2, 3), range(4)):
        inputs, window, stride, padding = [9, 8, 7][:spatial], [3, 2, 4][:spatial], [2, 1, 3][:spatial], [1, 1, 2][:spatial]
        leaf = torch.arange(2.0 * 3 * math.prod(inputs), dtype=torch.float64).mul(37.7).sin().reshape(2, 3, *inputs).requires_grad_()
        if mode in (MAX, MAX_DETERMINISTIC):
            y = getattr(functional, f"max_pool{spatial}d")(leaf, window, stride, padding)
        else:
            y = getattr(functional, f"avg_pool{spatial}d")(leaf, window, stride, padding, count_include_pad=mode == WITH_PADDING)
        dy = torch.cos(y.detach() * 5)
        slope = torch.autograd.grad(y, leaf, dy)[0].numpy()
        x, geometry = leaf.detach().numpy(), (inputs, list(y.shape[2:]), window, stride, padding)
        assert np.allclose(pooled(x, geometry, mode, -np.inf)[0], y.detach().numpy(), rtol=1e-13), (spatial, mode)
        assert np.allclose(pooling_gradient(x, dy.numpy(), geometry, mode)[0], slope, rtol=1e-12, atol=1e-14), (spatial, mode)
        agreed += 2
    for _ in range(40):
        # PyTorch, too, divides alpha by n, and begins windows at n // 2: of even n one earlier than the original does.
        n, dims = int(rng.choice([1, 3, 5, 7])), tuple(int(v) for v in rng.integers(1, 12, int(rng.integers(3, 6))))
        alpha, beta, k = (float(rng.uniform(*bounds)) for bounds in ((0.1, 2), (0.3, 2), (0.5, 2)))
        leaf = torch.tensor(rng.standard_normal(dims), requires_grad=True)
        y = functional.local_response_norm(leaf, n, alpha, beta, k)
        dy = torch.tensor(rng.standard_normal(dims))
        slope = torch.autograd.grad(y, leaf, dy)[0].numpy()
        want, dx, _ = response(leaf.detach().numpy(), np.zeros(dims), dy.numpy(), (1,), n, alpha, beta, k)
        assert np.allclose(want, y.detach().numpy(), rtol=1e-12), (n, dims)
        assert np.allclose(dx, slope, rtol=1e-11, atol=1e-12), (n, dims)
        agreed += 2
    return agreed, 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20250118)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--core", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--negative-control", action="store_true")
    options = parser.parse_args()
    os.environ["CUDNN_SHIM_BACKEND"] = options.core
    np.seterr(all="ignore")
    bench = Bench(options)
    for case in range(options.cases):
        bench.pool() if case % 2 else bench.respond()
    bench.large_pools()
    if options.core == "cpu":
        bench.every_geometry()
    skipped = 0
    if not options.negative_control and options.core == "cpu":
        agreed, skipped = agrees_with_torch(bench.rng)
        bench.passed += agreed
    print(f"{bench.passed} passed, {bench.failed} failed, {skipped} skipped")
    return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
