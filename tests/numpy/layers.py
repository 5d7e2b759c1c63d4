"""Activations and softmax, both directions, against NumPy in binary64.

Every mode and type, ranks 2 to 8, packed, permuted, padded and reversed layouts, with factors and special numbers, in place
and not; a NaN at every place of short tensors, subnormal numbers, extents beyond 65,535, and gradients against finite
differences of the library's own forward calls. A result may be off by BOUND, in units of the last place; where PyTorch is
installed, its functions and gradients have to agree with the formulas of this file, too.
"""

import argparse
import itertools
import os
import sys
from ctypes import byref, c_double, c_float, c_void_p

import numpy as np

import cudnn
import device
from reference import BF16, convert
from tensors import LAYOUTS, make, poison

SIGMOID, RELU, TANH, CLIPPED_RELU, ELU, IDENTITY, SWISH = range(7)
MODES = ["sigmoid", "relu", "tanh", "clipped relu", "elu", "identity", "swish"]
FAST, ACCURATE, LOG = range(3)
INSTANCE, CHANNEL = range(2)
TYPES = {cudnn.FLOAT: np.float32, cudnn.DOUBLE: np.float64, cudnn.HALF: np.float16, cudnn.BFLOAT16: BF16}
# Relative errors, in units of the last place of the computation type, that results and gradients may have before they are
# rounded to their own type: 2 of the elementary function, and the operations around it. Sums and cancellations are judged
# against the largest term.
BOUND = 8
LARGE = [65536, 70000, 131071]


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1 + e)


def activated(mode, x, c, b, keeps_nan):
    with np.errstate(all="ignore"):
        if mode == SIGMOID:
            return sigmoid(x)
        if mode == RELU:
            y = np.maximum(x, 0)
        elif mode == TANH:
            return np.tanh(x)
        elif mode == CLIPPED_RELU:
            y = np.minimum(np.maximum(x, 0), c)
        elif mode == ELU:
            return np.where(x > 0, x, c * np.expm1(x))
        elif mode == IDENTITY:
            return x
        else:
            return x * sigmoid(b * x)
        return y if keeps_nan else np.where(np.isnan(x), min(0, c) if mode == CLIPPED_RELU else 0, y)


def gradient(mode, saved, dy, c, b, keeps_nan):
    """And the size of the largest term."""
    with np.errstate(all="ignore"):
        if mode == SIGMOID:
            factor = saved * (1 - saved)
        elif mode == TANH:
            factor = 1 - saved * saved
        elif mode == ELU:
            return np.where(saved > 0, dy, dy * (saved + c)), np.abs(dy) * (np.abs(saved) + abs(c) + 1)
        elif mode == SWISH:
            s = sigmoid(b * saved)
            factor = s + b * saved * s * (1 - s)
        elif mode == IDENTITY:
            return dy, np.abs(dy)
        else:
            inside = (saved > 0) & (saved <= c if mode == CLIPPED_RELU else True)
            inside |= np.isnan(saved) & bool(keeps_nan)
            return np.where(inside, dy, 0), np.abs(dy)
        return dy * factor, np.abs(dy) * 2


def softmax(x, axes, log):
    with np.errstate(all="ignore"):
        shifted = x - x.max(axis=axes, keepdims=True)
        e = np.exp(shifted)
        total = e.sum(axis=axes, keepdims=True)
        # What rounding the sum loses is lost of its logarithm, however small that is.
        return (shifted - np.log(total), np.abs(shifted) + np.abs(np.log(total)) + 1) if log else (e / total, np.abs(shifted) * e / total + e / total)


def softmax_gradient(y, dy, axes, log):
    with np.errstate(all="ignore"):
        if log:
            total = dy.sum(axis=axes, keepdims=True)
            size = np.abs(dy).sum(axis=axes, keepdims=True)
            return dy - np.exp(y) * total, np.abs(dy) + np.exp(y) * size * (1 + np.abs(y))
        dot = (y * dy).sum(axis=axes, keepdims=True)
        size = np.abs(y * dy).sum(axis=axes, keepdims=True)
        return y * (dy - dot), np.abs(y) * (np.abs(dy) + size)


class Bench:
    def __init__(self, options):
        self.lib = cudnn.Library(options.library, device.Cuda() if options.core == "cuda" else device.Host())
        self.options = options
        self.passed = self.failed = 0
        self.activation = self.lib.create("ActivationDescriptor")

    def place(self, rng, code, values, layouts=LAYOUTS):
        """A tensor in one of the layouts that holds the values, among bytes that no result looks like."""
        tensor = make(self.lib, rng, code, values.shape, layouts)
        tensor.allocate(rng, poison(code))
        tensor.write(tensor.raw, values)
        return tensor

    def forget(self, *tensors):
        for desc in {tensor.desc.value: tensor.desc for tensor in tensors}.values():
            self.lib.destroy("TensorDescriptor", desc)

    def set(self, mode, keeps_nan, c, b=1.0):
        self.lib.call("cudnnSetActivationDescriptor", self.activation, mode, keeps_nan, c_double(c))
        self.lib.call("cudnnSetActivationDescriptorSwishBeta", self.activation, c_double(b))

    def activate(self, x, y, alpha=1.0, beta=0.0):
        p, q = scalars(x.code, alpha, beta)
        with self.lib.memory.placed(x, y) as (x_at, y_at):
            self.lib.call("cudnnActivationForward", self.lib.handle, self.activation, byref(p), x.desc, c_void_p(x_at), byref(q),
                          y.desc, c_void_p(y_at))  # fmt: skip

    def activate_backward(self, saved, dy, dx, alpha=1.0, beta=0.0):
        """`saved` serves as x and as y: each mode reads one of them."""
        p, q = scalars(dx.code, alpha, beta)
        with self.lib.memory.placed(saved, dy, dx) as (at, dy_at, dx_at):
            self.lib.call("cudnnActivationBackward", self.lib.handle, self.activation, byref(p), saved.desc, c_void_p(at), dy.desc,
                          c_void_p(dy_at), saved.desc, c_void_p(at), byref(q), dx.desc, c_void_p(dx_at))  # fmt: skip

    def softmax(self, how, x, y, alpha=1.0, beta=0.0):
        p, q = scalars(x.code, alpha, beta)
        with self.lib.memory.placed(x, y) as (x_at, y_at):
            self.lib.call("cudnnSoftmaxForward", self.lib.handle, *how, byref(p), x.desc, c_void_p(x_at), byref(q), y.desc, c_void_p(y_at))

    def softmax_backward(self, how, y, dy, dx, alpha=1.0, beta=0.0):
        p, q = scalars(y.code, alpha, beta)
        with self.lib.memory.placed(y, dy, dx) as (y_at, dy_at, dx_at):
            self.lib.call("cudnnSoftmaxBackward", self.lib.handle, *how, byref(p), y.desc, c_void_p(y_at), dy.desc, c_void_p(dy_at),
                          byref(q), dx.desc, c_void_p(dx_at))  # fmt: skip

    def judge(self, name, got, want, size, code, alpha=1.0, beta=0.0, old=None):
        wide = np.float64 if code == cudnn.DOUBLE else np.float32
        with np.errstate(all="ignore"):
            before = beta * old.astype(np.float64) if beta else np.zeros(())
            exact = alpha * want + before
            slack = BOUND * np.finfo(wide).eps * (abs(alpha) * np.maximum(np.abs(want), size) + np.abs(before))
            got = got.astype(np.float64)
            if code == cudnn.INT8:
                low, high = (convert(exact + side * slack, np.int8) for side in (-1, 1))
                same = (got >= low) & (got <= high)
            else:
                kind = TYPES[code]
                stored = convert(exact, kind)
                slack += BOUND * np.finfo(wide).tiny + np.spacing(np.abs(stored)).astype(np.float64)
                same = (got == stored.astype(np.float64)) | (np.isnan(got) & np.isnan(exact)) | (np.abs(got - exact) <= slack)
        self.tell(name, same, got, exact)

    def tell(self, name, same, got, want):
        """Counts a comparison, and describes a failed one."""
        if self.options.negative_control:
            same = same & (np.arange(same.size).reshape(same.shape) != 0)
        if np.all(same):
            self.passed += 1
            return
        self.failed += 1
        at = np.unravel_index(np.argmax(~same), same.shape)
        if self.failed <= 10:
            print(f"{name}: at {at}: {got[at]!r} instead of {want[at]!r}")


def scalars(code, alpha, beta):
    kind = c_double if code == cudnn.DOUBLE else c_float
    return kind(alpha), kind(beta)


def numbers(rng, shape, code, scale):
    if code == cudnn.INT8:
        return rng.integers(-128, 128, shape).astype(np.int8)
    x = (rng.standard_normal(shape) * scale).astype(TYPES[code])
    flat = x.reshape(-1)
    flat[rng.integers(0, flat.size, 2)] = 0
    return x


def random_shape(rng):
    """Of any rank, and as many elements whatever it is."""
    rank = int(rng.integers(2, 9))
    return tuple(int(n) for n in rng.integers(1, 9 if rank < 6 else 4, rank))


def factors(rng):
    return float(rng.choice([1, 1, -0.5])), float(rng.choice([0, 0, 2]))


def activation(bench, rng, mode, code, shape, special):
    keeps = int(rng.integers(0, 2))
    c, b = float(rng.choice([0.5, 1.0, 6.0])), float(rng.choice([1.0, 1.25, -0.5]))
    bench.set(mode, keeps, c, b)
    values = numbers(rng, shape, code, rng.choice([0.1, 1, 8, 60]))
    if special and code != cudnn.INT8:
        values.reshape(-1)[:1] = rng.choice([np.nan, np.inf, -np.inf])
    alpha, beta = factors(rng)
    in_place = bool(rng.integers(2))
    x = bench.place(rng, code, values)
    old = values if in_place else numbers(rng, shape, code, 1)
    y = x if in_place else bench.place(rng, code, old)
    if not in_place and not beta:
        y.allocate(rng, poison(code))
    bench.activate(x, y, alpha, beta)
    name = f"{MODES[mode]} {x} nan={keeps} c={c} b={b} alpha={alpha} beta={beta} to {'itself' if in_place else y}"
    wide = values.astype(np.float64)
    want = activated(mode, wide, c, b, keeps)
    # The product b x is rounded before it is exponentiated.
    size = np.abs(want) * (1 + np.abs(b * wide)) if mode == SWISH else np.abs(want)
    bench.judge(name, y.read(), want, np.nan_to_num(size, nan=0, posinf=0), code, alpha, beta, old)
    bench.forget(x, y)
    kept = convert(want, values.dtype.type) if mode in (SIGMOID, TANH, ELU) else values
    given = numbers(rng, shape, code, 1)
    saved, dy = bench.place(rng, code, kept), bench.place(rng, code, given)
    old = given if in_place else old
    dx = dy if in_place else bench.place(rng, code, old)
    bench.activate_backward(saved, dy, dx, alpha, beta)
    want, size = gradient(mode, kept.astype(np.float64), given.astype(np.float64), c, b, keeps)
    if mode == SWISH:
        size = size * (1 + np.abs(b * wide))
    bench.judge("gradient of " + name, dx.read(), want, np.nan_to_num(size, nan=0, posinf=0), code, alpha, beta, old)
    bench.forget(saved, dy, dx)


def activations(bench, rng):
    for mode in range(7):
        for code in (*TYPES, cudnn.INT8):
            for case in range(8):
                activation(bench, rng, mode, code, (3, 70, 41) if case == 0 else random_shape(rng), case % 2)


def one_softmax(bench, rng, how, code, shape, special):
    algorithm, mode = how
    kind = TYPES[code]
    values = numbers(rng, shape, code, rng.choice([0.1, 1, 20]))
    if special:
        values.reshape(-1)[:1] = -np.inf
    alpha, beta = factors(rng)
    in_place = bool(rng.integers(2))
    x = bench.place(rng, code, values)
    old = values if in_place else numbers(rng, shape, code, 1)
    y = x if in_place else bench.place(rng, code, old)
    axes = tuple(range(1, len(shape))) if mode == INSTANCE else (1,)
    name = f"softmax {algorithm} {mode} {x} alpha={alpha} beta={beta} to {'itself' if in_place else y}"
    bench.softmax(how, x, y, alpha, beta)
    want, size = softmax(values.astype(np.float64), axes, algorithm == LOG)
    # Each level of the tree of sums may be half a unit off.
    size = np.nan_to_num(size * 4, nan=0, posinf=0)
    bench.judge(name, y.read(), want, size, code, alpha, beta, old)
    bench.forget(x, y)
    kept, given = np.nan_to_num(want, nan=0, neginf=-100).astype(kind), numbers(rng, shape, code, 1)
    y, dy = bench.place(rng, code, kept), bench.place(rng, code, given)
    old = given if in_place else old
    dx = dy if in_place else bench.place(rng, code, old)
    bench.softmax_backward(how, y, dy, dx, alpha, beta)
    want, size = softmax_gradient(kept.astype(np.float64), given.astype(np.float64), axes, algorithm == LOG)
    bench.judge("gradient of " + name, dx.read(), want, size * 4, code, alpha, beta, old)
    bench.forget(y, dy, dx)


def softmaxes(bench, rng):
    for how in itertools.product((FAST, ACCURATE, LOG), (INSTANCE, CHANNEL)):
        for code in TYPES:
            for case in range(8):
                shape = [(3, 1000), (2, 1100, 3, 5)][case] if case < 2 else random_shape(rng)
                one_softmax(bench, rng, how, code, shape, case == 3)


def large_extents(bench, rng):
    """Each extent in turn beyond what 16 bits count."""
    on_double = bench.options.core == "cuda"
    if on_double and bench.options.negative_control:
        return  # Half a minute on the driver double, for comparisons that the other parts make, too.
    for axis, extent in enumerate([*LARGE, LARGE[0]]):
        shape = [1, 2, 1, 3]
        shape[axis] = extent
        for mode in (RELU, TANH):
            activation(bench, rng, mode, cudnn.FLOAT, tuple(shape), False)
        # The two algorithms are launched alike.
        for how in itertools.product((LOG,) if on_double else (ACCURATE, LOG), (INSTANCE, CHANNEL)):
            one_softmax(bench, rng, how, cudnn.FLOAT, tuple(shape), False)


def a_nan_anywhere(bench, rng):
    """A NaN at every index of lengths 1 to 40, in the bodies and tails of vectors, in place: it is kept or not, and alone."""
    # The driver double takes milliseconds a call.
    codes = TYPES if bench.options.core == "cpu" else [cudnn.HALF]
    for code, count in itertools.product(codes, range(1, 41) if bench.options.core == "cpu" else (1, 7, 17, 40)):
        shape = (1, count, 1, 1)
        clean, given = numbers(rng, shape, code, 1), numbers(rng, shape, code, 1)
        x, dx = (bench.place(rng, code, clean, ["nchw"]) for _ in range(2))
        for mode, keeps in itertools.product(range(7), (0, 1)):
            bench.set(mode, keeps, 1.0)
            # A row for each place of the NaN.
            values = np.repeat(clean.reshape(1, -1), count, 0)
            np.fill_diagonal(values, np.nan)
            got, slopes = np.empty_like(values), np.empty_like(values)
            for row in range(count):
                x.write(x.raw, values[row].reshape(shape))
                saved = x.raw.copy()
                bench.activate(x, x)
                got[row] = x.read().reshape(-1)
                x.raw[:] = saved
                dx.write(dx.raw, given)
                bench.activate_backward(x, dx, dx)
                slopes[row] = dx.read().reshape(-1)
            name = f"{MODES[mode]} of {count} with a NaN, kept {keeps}, type {code}"
            wide, dy = values.astype(np.float64), given.astype(np.float64).reshape(1, -1)
            want = activated(mode, wide, 1.0, 1.0, keeps)
            bench.judge(name, got, want, np.nan_to_num(np.abs(want) * (1 + np.abs(wide))), code)
            want, size = gradient(mode, wide, dy, 1.0, 1.0, keeps)
            bench.judge("gradient of " + name, slopes, want, np.nan_to_num(size * (1 + np.abs(wide))), code)
        bench.forget(x, dx)


def subnormals(bench, rng):
    """Numbers of 1e-40 are not flushed to 0."""
    values = (rng.standard_normal((3, 5, 7, 11)) * 1e-40).astype(np.float32)
    slopes = {RELU: values > 0, CLIPPED_RELU: values > 0, IDENTITY: 1, TANH: 1, ELU: 1, SWISH: 0.5}
    x, y = bench.place(rng, cudnn.FLOAT, values), bench.place(rng, cudnn.FLOAT, values)
    ones = bench.place(rng, cudnn.FLOAT, np.ones_like(values))
    for mode, slope in slopes.items():
        bench.set(mode, 1, 1.0)
        want = values.astype(np.float64) * slope
        # Two units in the last place of the functions.
        slack = 0 if mode in (RELU, CLIPPED_RELU, IDENTITY) else 2.0**-148
        bench.activate(x, y)
        got = y.read().astype(np.float64)
        bench.tell(f"{MODES[mode]} of subnormals", np.abs(got - want) <= slack, got, want)
        # dy subnormal, and saved values of 1, where every slope is known.
        bench.activate_backward(ones, x, y)
        want, _ = gradient(mode, np.ones_like(want), values.astype(np.float64), 1.0, 1.0, 1)
        got = y.read().astype(np.float64)
        bench.tell(f"gradient of {MODES[mode]}, subnormal", np.abs(got - want) <= 2.0**-147, got, want)
    bench.forget(x, y, ones)


def finite_differences(bench, rng):
    """What forward calls differ by, 1e-5 to either side, is what backward calls give: in binary64, away from kinks."""
    code, shape, step = cudnn.DOUBLE, (2, 6, 3, 4), 1e-5
    values = rng.uniform(-3, 3, shape)
    for kink in (0.0, 1.0):
        values = np.where(np.abs(values - kink) < 0.01, kink + 0.02, values)
    given = rng.standard_normal(shape)
    way = rng.standard_normal(shape)

    def compared(name, forward, backward, saves_y):
        sides = [bench.place(rng, code, values + k * step * way) for k in (-1, 0, 1)]
        results = [bench.place(rng, code, given) for _ in sides]
        for x, y in zip(sides, results):
            forward(x, y)
        dy, dx = bench.place(rng, code, given), bench.place(rng, code, given)
        backward(results[1] if saves_y else sides[1], dy, dx)
        got = np.array([(dx.read() * way).sum()])
        want = np.array([((results[2].read() - results[0].read()) * given).sum() / (2 * step)])
        bench.tell(f"gradient of {name} against differences", np.abs(got - want) <= 1e-7 * (1 + np.abs(want)), got, want)
        bench.forget(*sides, *results, dy, dx)

    for mode in range(7):
        bench.set(mode, 1, 1.0, 1.25)
        compared(MODES[mode], bench.activate, bench.activate_backward, mode in (SIGMOID, TANH, ELU))
    for how in itertools.product((FAST, ACCURATE, LOG), (INSTANCE, CHANNEL)):
        compared(f"softmax {how}", lambda x, y: bench.softmax(how, x, y), lambda *given: bench.softmax_backward(how, *given), True)


def agrees_with_torch():
    """Compares the formulas of this file with PyTorch, if it is there: (how many agree, how many were skipped)."""
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch; install it: pip install torch")
        return 0, 1
    x = np.linspace(-30, 30, 4001)
    functional = torch.nn.functional
    t = torch.from_numpy(x)
    pairs = [
        (SIGMOID, torch.sigmoid(t), 0), (RELU, torch.relu(t), 0), (TANH, torch.tanh(t), 0), (CLIPPED_RELU, functional.relu6(t), 6),
        (ELU, functional.elu(t, 0.5), 0.5), (SWISH, functional.silu(t), 0),
    ]  # fmt: skip
    for mode, want, c in pairs:
        assert np.allclose(activated(mode, x, c, 1.0, True), want.numpy(), rtol=1e-13, atol=1e-300), MODES[mode]
    leaf = t[np.abs(x) > 1e-3].clone().requires_grad_()
    dy = torch.cos(leaf.detach())
    graphs = [torch.sigmoid, torch.relu, torch.tanh, functional.relu6, lambda v: functional.elu(v, 0.5), functional.silu]
    for (mode, _, c), graph in zip(pairs, graphs):
        y = graph(leaf)
        saved = (y if mode in (SIGMOID, TANH, ELU) else leaf).detach().numpy()
        want = torch.autograd.grad(y, leaf, dy)[0].numpy()
        assert np.allclose(gradient(mode, saved, dy.numpy(), c, 1.0, True)[0], want, rtol=1e-12, atol=1e-14), MODES[mode]
    special = np.array([[0.0, -np.inf], [-np.inf, -np.inf], [np.inf, 0.0], [np.nan, 0.0], [1e30, -1e30]])
    for log in (False, True):
        function = torch.log_softmax if log else torch.softmax
        assert np.allclose(softmax(special, (1,), log)[0], function(torch.from_numpy(special), 1).numpy(), equal_nan=True)
        leaf = torch.linspace(-5, 5, 60, dtype=torch.float64).sin().reshape(3, 5, 4).requires_grad_()
        y, dy = function(leaf, 1), torch.cos(leaf.detach() * 3)
        want = torch.autograd.grad(y, leaf, dy)[0].numpy()
        assert np.allclose(softmax_gradient(y.detach().numpy(), dy.numpy(), (1,), log)[0], want, rtol=1e-12, atol=1e-14)
    return 2 * len(pairs) + 4, 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", default="target/release/libcudnn.so")
    parser.add_argument("--core", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--negative-control", action="store_true", help="every comparison must fail")
    options = parser.parse_args()
    os.environ["CUDNN_SHIM_BACKEND"] = options.core
    np.seterr(all="ignore")  # overflow and NaN are part of the data
    bench = Bench(options)
    rng = np.random.default_rng(options.seed)
    for part in (activations, softmaxes, large_extents, a_nan_anywhere, subnormals, finite_differences):
        part(bench, rng)
    skipped = 0
    if options.negative_control:
        bench.passed, bench.failed = bench.failed, bench.passed
    elif options.core == "cpu":
        agreed, skipped = agrees_with_torch()
        bench.passed += agreed
    print(f"{bench.passed} passed, {bench.failed} failed, {skipped} skipped")
    return bench.failed != 0


if __name__ == "__main__":
    sys.exit(main())
