"""Activations and softmax, both directions, against NumPy in binary64.

Every mode, type and pair of layouts, with factors and special numbers, in place and not. A result may be off by the bounds
at BOUNDS, in units of the last place of the type that it is stored in; where PyTorch is installed, its functions have to
agree with the formulas of this file, too.
"""

import argparse
import os
import sys
from ctypes import byref, c_double, c_float, c_void_p

import numpy as np

import cudnn
import device

SIGMOID, RELU, TANH, CLIPPED_RELU, ELU, IDENTITY, SWISH = range(7)
MODES = ["sigmoid", "relu", "tanh", "clipped relu", "elu", "identity", "swish"]
FAST, ACCURATE, LOG = range(3)
INSTANCE, CHANNEL = range(2)
TYPES = {cudnn.FLOAT: np.float32, cudnn.DOUBLE: np.float64, cudnn.HALF: np.float16}
# Relative errors, in units of the last place of the computation type, that results and gradients may have before they are
# rounded to their own type: 2 of the elementary function, and the operations around it. Sums and cancellations are judged
# against the largest term.
BOUND = 8


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
            inside = (saved > 0) & (saved < c if mode == CLIPPED_RELU else True)
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


class Bytes:
    """An array that a call works on, for the core's memory."""

    def __init__(self, raw):
        self.raw = raw
        self.address = raw.ctypes.data


class Bench:
    def __init__(self, options):
        self.lib = cudnn.Library(options.library, device.Cuda() if options.core == "cuda" else device.Host())
        self.options = options
        self.passed = self.failed = 0
        self.activation = self.lib.create("ActivationDescriptor")
        self.descs = [self.lib.create("TensorDescriptor") for _ in range(4)]

    def tensor(self, slot, code, array, layout):
        """Describes a C-contiguous array of dims as packed in a layout; returns its bytes in that order."""
        dims = array.shape
        order = (0, *range(2, len(dims)), 1) if layout == cudnn.NHWC else tuple(range(len(dims)))
        raw = array.transpose(order).copy(order="C")
        strides = [0] * len(dims)
        step = 1
        for axis in reversed(order):
            strides[axis] = step
            step *= dims[axis]
        self.lib.set_strided(self.descs[slot], code, dims, strides)
        return raw, np.argsort(order)

    def run(self, name, code, arrays, layouts, call, out):
        """Calls with arrays in device memory and returns array `out` of them, in the order of dims."""
        raws = [self.tensor(slot, code, array, layout) for slot, (array, layout) in enumerate(zip(arrays, layouts))]
        with self.lib.memory.placed(*[Bytes(raw) for raw, _ in raws]) as places:
            call([c_void_p(place) for place in places])
        raw, back = raws[out]
        return raw.transpose(back)

    def judge(self, name, got, want, size, code, alpha, beta, old):
        kind = TYPES[code]
        wide = np.float64 if kind is np.float64 else np.float32
        with np.errstate(all="ignore"):
            exact = alpha * want + (beta * old.astype(np.float64) if beta else 0)
            unit = np.finfo(wide).eps
            slack = BOUND * unit * (abs(alpha) * np.maximum(np.abs(want), size) + (abs(beta * old.astype(np.float64)) if beta else 0))
            slack += BOUND * np.finfo(wide).tiny + np.spacing(np.abs(exact.astype(kind))).astype(np.float64)
            got = got.astype(np.float64)
            stored = exact.astype(kind).astype(np.float64)
            same = (got == stored) | (np.isnan(got) & np.isnan(exact)) | (np.abs(got - exact) <= slack)
        if self.options.negative_control:
            same = same & (np.arange(same.size).reshape(same.shape) != 0)
        if np.all(same):
            self.passed += 1
            return
        self.failed += 1
        at = np.unravel_index(np.argmax(~same), same.shape)
        if self.failed <= 10:
            print(f"{name}: at {at}: {got[at]!r} instead of {exact[at]!r}")


def scalars(code, alpha, beta):
    kind = c_double if code == cudnn.DOUBLE else c_float
    return kind(alpha), kind(beta)


def numbers(rng, shape, kind, scale):
    x = (rng.standard_normal(shape) * scale).astype(kind)
    flat = x.reshape(-1)
    flat[rng.integers(0, flat.size, 2)] = 0
    return x


def activations(bench, rng):
    lib = bench.lib
    for mode in range(7):
        for code, kind in TYPES.items():
            for case in range(8):
                keeps = int(rng.integers(0, 2))
                c, b = float(rng.choice([0.5, 1.0, 6.0])), float(rng.choice([1.0, 1.25, -0.5]))
                lib.call("cudnnSetActivationDescriptor", bench.activation, mode, keeps, c_double(c))
                lib.call("cudnnSetActivationDescriptorSwishBeta", bench.activation, c_double(b))
                shape = tuple(int(n) for n in rng.integers(1, 9, int(rng.integers(2, 6))))
                if case == 0:
                    shape = (3, 70, 41)
                x = numbers(rng, shape, kind, rng.choice([0.1, 1, 8, 60]))
                if case % 2:
                    x.reshape(-1)[:1] = rng.choice([np.nan, np.inf, -np.inf])
                alpha, beta = float(rng.choice([1, 1, -0.5])), float(rng.choice([0, 0, 2]))
                old = numbers(rng, shape, kind, 1) if beta else np.full(shape, np.nan, kind)
                layouts = [int(n) for n in rng.integers(0, 2, 4)]
                p, q = scalars(code, alpha, beta)

                def forward(at):
                    lib.call("cudnnActivationForward", lib.handle, bench.activation, byref(p), bench.descs[0], at[0], byref(q), bench.descs[1], at[1])

                name = f"{MODES[mode]} {kind.__name__} {shape} nan={keeps} c={c} b={b} alpha={alpha} beta={beta}"
                got = bench.run(name, code, [x, old], layouts, forward, 1)
                wide = x.astype(np.float64)
                want = activated(mode, wide, c, b, keeps)
                # The product b x is rounded before it is exponentiated.
                size = np.abs(want) * (1 + np.abs(b * wide)) if mode == SWISH else np.abs(want)
                size = np.nan_to_num(size, nan=0, posinf=0)
                bench.judge(name, got, want, size, code, alpha, beta, old)
                saved = want.astype(kind) if mode in (SIGMOID, TANH, ELU) else x
                dy = numbers(rng, shape, kind, 1)

                def backward(at):
                    lib.call(
                        "cudnnActivationBackward", lib.handle, bench.activation, byref(p), bench.descs[0], at[0], bench.descs[1], at[1],
                        bench.descs[0], at[0], byref(q), bench.descs[2], at[2],
                    )  # fmt: skip

                got = bench.run(name, code, [saved, dy, old], layouts[:3], backward, 2)
                want, size = gradient(mode, saved.astype(np.float64), dy.astype(np.float64), c, b, keeps)
                if mode == SWISH:
                    size = size * (1 + np.abs(b * wide))
                bench.judge("gradient of " + name, got, want, np.nan_to_num(size, nan=0, posinf=0), code, alpha, beta, old)


def softmaxes(bench, rng):
    lib = bench.lib
    for algorithm in (FAST, ACCURATE, LOG):
        for mode in (INSTANCE, CHANNEL):
            for code, kind in TYPES.items():
                for case in range(8):
                    shape = tuple(int(n) for n in rng.integers(1, 9, int(rng.integers(2, 6))))
                    if case < 2:
                        shape = [(3, 1000), (2, 1100, 3, 5)][case]
                    x = numbers(rng, shape, kind, rng.choice([0.1, 1, 20]))
                    if case == 3:
                        x.reshape(-1)[:1] = -np.inf
                    alpha, beta = float(rng.choice([1, 1, -0.5])), float(rng.choice([0, 0, 2]))
                    old = numbers(rng, shape, kind, 1) if beta else np.full(shape, np.nan, kind)
                    layouts = [int(n) for n in rng.integers(0, 2, 3)]
                    p, q = scalars(code, alpha, beta)
                    axes = tuple(range(1, len(shape))) if mode == INSTANCE else (1,)
                    name = f"softmax {algorithm} {mode} {kind.__name__} {shape} alpha={alpha} beta={beta}"

                    def forward(at):
                        lib.call("cudnnSoftmaxForward", lib.handle, algorithm, mode, byref(p), bench.descs[0], at[0], byref(q), bench.descs[1], at[1])

                    got = bench.run(name, code, [x, old], layouts, forward, 1)
                    want, size = softmax(x.astype(np.float64), axes, algorithm == LOG)
                    # Each level of the tree of sums may be half a unit off.
                    size = np.nan_to_num(size * 4, nan=0, posinf=0)
                    bench.judge(name, got, want, size, code, alpha, beta, old)
                    y, dy = np.nan_to_num(want, nan=0, neginf=-100).astype(kind), numbers(rng, shape, kind, 1)

                    def backward(at):
                        lib.call(
                            "cudnnSoftmaxBackward", lib.handle, algorithm, mode, byref(p), bench.descs[0], at[0], bench.descs[1], at[1],
                            byref(q), bench.descs[2], at[2],
                        )  # fmt: skip

                    got = bench.run(name, code, [y, dy, old], layouts, backward, 2)
                    want, size = softmax_gradient(y.astype(np.float64), dy.astype(np.float64), axes, algorithm == LOG)
                    bench.judge("gradient of " + name, got, want, size * 4, code, alpha, beta, old)


def agrees_with_torch():
    """Compares the formulas of this file with PyTorch, if it is there: how many agree."""
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch; install it: pip install torch")
        return 0
    x = np.linspace(-30, 30, 4001)
    functional = torch.nn.functional
    t = torch.from_numpy(x)
    pairs = [
        (SIGMOID, torch.sigmoid(t), 0), (RELU, torch.relu(t), 0), (TANH, torch.tanh(t), 0), (CLIPPED_RELU, functional.relu6(t), 6),
        (ELU, functional.elu(t, 0.5), 0.5), (SWISH, functional.silu(t), 0),
    ]  # fmt: skip
    for mode, want, c in pairs:
        assert np.allclose(activated(mode, x, c, 1.0, True), want.numpy(), rtol=1e-13, atol=1e-300), MODES[mode]
    special = np.array([[0.0, -np.inf], [-np.inf, -np.inf], [np.inf, 0.0], [np.nan, 0.0], [1e30, -1e30]])
    for log in (False, True):
        function = torch.log_softmax if log else torch.softmax
        assert np.allclose(softmax(special, (1,), log)[0], function(torch.from_numpy(special), 1).numpy(), equal_nan=True)
    return len(pairs) + 2


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
    activations(bench, rng)
    softmaxes(bench, rng)
    if options.negative_control:
        bench.passed, bench.failed = bench.failed, bench.passed
    else:
        bench.passed += agrees_with_torch()
    print(f"{bench.passed} passed, {bench.failed} failed, 0 skipped")
    return bench.failed != 0


if __name__ == "__main__":
    sys.exit(main())
