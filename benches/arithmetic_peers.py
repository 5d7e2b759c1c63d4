"""Runs NumPy and PyTorch beside cudnn-shim on large element-wise operations and reductions, in one process and in turns.

usage: arithmetic_peers.py LIBCUDNN [--rounds N] [NAME...]

Every row prints milliseconds per call (best / median of the rounds), a copy of the same traffic by PyTorch's threads
included, and the speed of the library as a multiple of the faster peer's: above 1 it is faster. Without PyTorch its
columns have a `-`. Tensors are float, N x C x H x W = 16 x 256 x 64 x 64, 64 MiB.
"""

import argparse
import ctypes as c
import os
import random
import statistics
import time

# Threads that spin between calls would take the processors away from whoever is measured next.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np  # noqa: E402  (reads the environment)
from cudnn import Cudnn  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

N, C, H, W = DIMS = (16, 256, 64, 64)
BYTES = 4 * N * C * H * W
FORMATS = {"nchw": 0, "nhwc": 1}
ADD, MUL, MAX = 0, 1, 3


class Arithmetic(Cudnn):
    """The descriptors of tensor arithmetic."""

    def tensor(self, format_, dims):
        return self.descriptor("Tensor", "SetTensor4dDescriptor", FORMATS[format_], 0, *dims)

    def op(self, op):
        return self.descriptor("OpTensor", "SetOpTensorDescriptor", op, 0, 0)

    def reduction(self, op, propagate):
        return self.descriptor("ReduceTensor", "SetReduceTensorDescriptor", {ADD: 0, MAX: 3}[op], 0, propagate, 0, 0)


def rows(cudnn):
    """Name, bytes moved, and the calls of each contender."""
    arrays = [np.random.default_rng(k).random(N * C * H * W, dtype=np.float32) for k in range(3)]
    bias, results = np.zeros(C, np.float32), np.zeros(C, np.float32)
    # Of views of one memory, so that nobody has luckier pages.
    tensors = [torch.from_numpy(array) for array in arrays] if torch else [None] * 3
    at = lambda array: c.c_void_p(array.ctypes.data)
    one, zero, factor, value = (c.c_float(x) for x in (1, 0, 0.999, 1.5))
    for format_ in FORMATS:
        shape = (N, C, H, W) if format_ == "nchw" else (N, H, W, C)
        axes = (0, 2, 3) if format_ == "nchw" else (0, 1, 2)
        x, y, z = (array.reshape(shape) for array in arrays)
        tx, ty, tz = (t.view(shape) if torch else None for t in tensors)
        per_channel = (1, C, 1, 1) if format_ == "nchw" else (1, 1, 1, C)
        wide = bias.reshape(per_channel)
        twide = torch.from_numpy(wide) if torch else None
        full, channels = cudnn.tensor(format_, DIMS), cudnn.tensor(format_, (1, C, 1, 1))
        single = cudnn.tensor(format_, (1, 1, 1, 1))
        call = lambda *arguments: lambda: cudnn.call(*arguments)
        by = c.byref
        yield f"add bias {format_}", 2 * BYTES, {
            "ours": call("AddTensor", cudnn.handle, by(one), channels, at(bias), by(one), full, at(z)),
            "numpy": lambda z=z, wide=wide: np.add(z, wide, out=z),
            "torch": lambda tz=tz, twide=twide: tz.add_(twide),
        }
        for op, name in ((ADD, "add"), (MUL, "mul")):
            arguments = (by(one), full, at(x), by(one), full, at(y), by(zero), full, at(z))
            ufunc = {ADD: np.add, MUL: np.multiply}[op]
            function = {ADD: torch.add, MUL: torch.mul}[op] if torch else None
            yield f"op {name} {format_}", 3 * BYTES, {
                "ours": call("OpTensor", cudnn.handle, cudnn.op(op), *arguments),
                "numpy": lambda x=x, y=y, z=z, ufunc=ufunc: ufunc(x, y, out=z),
                "torch": lambda tx=tx, ty=ty, tz=tz, function=function: function(tx, ty, out=tz),
            }
        yield f"set {format_}", BYTES, {
            "ours": call("SetTensor", cudnn.handle, full, at(z), by(value)),
            "numpy": lambda z=z: z.fill(1.5),
            "torch": lambda tz=tz: tz.fill_(1.5),
        }
        yield f"scale {format_}", 2 * BYTES, {
            "ours": call("ScaleTensor", cudnn.handle, full, at(z), by(factor)),
            "numpy": lambda z=z: np.multiply(z, np.float32(0.999), out=z),
            "torch": lambda tz=tz: tz.mul_(0.999),
        }
        for what, desc, axis in (("full", single, None), ("per channel", channels, axes)):
            taxis = tuple(range(4)) if axis is None else axis
            for op, name in ((ADD, "add"), (MAX, "max")):
                # NumPy and PyTorch propagate NaN.
                arguments = (None, c.c_size_t(0), None, c.c_size_t(0), by(one), full, at(x), by(zero), desc, at(results))
                ufunc = {ADD: np.sum, MAX: np.max}[op]
                function = {ADD: torch.sum, MAX: torch.amax}[op] if torch else None
                yield f"reduce {name} {what} {format_}", BYTES, {
                    "ours": call("ReduceTensor", cudnn.handle, cudnn.reduction(op, 1), *arguments),
                    "numpy": lambda x=x, axis=axis, ufunc=ufunc: ufunc(x, axis=axis),
                    "torch": lambda tx=tx, taxis=taxis, function=function: function(tx, dim=taxis),
                }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    threads = int(os.environ.get("CUDNN_SHIM_NUM_THREADS", os.cpu_count() or 1))
    others = np.zeros(BYTES // 4, np.float32) + 1
    if torch:
        torch.set_num_threads(threads)
        source, target = torch.zeros(BYTES // 4), torch.zeros(BYTES // 4)
    print(f"# NumPy {np.__version__}, PyTorch {torch.__version__ if torch else 'not installed'}, threads: {threads}")
    print(f"# ms, best / median of {options.rounds} rounds in turns; copy scaled to the row's traffic; speed over the faster peer")
    print(f"{'problem':28}{'ours':>17}{'numpy':>17}{'torch':>17}{'copy':>17}{'best':>7}{'median':>8}")
    for name, traffic, calls in rows(Arithmetic(options.library)):
        if not all(word in name for word in options.names):
            continue
        if torch:
            calls["copy"] = lambda: target.copy_(source)
        else:
            del calls["torch"]
        times = {who: [] for who in calls}
        order = random.Random(name)
        for turn in range(options.rounds + 1):
            # In another order each time, or one would always come after the copy, and another after the slowest.
            for who, call in order.sample(sorted(calls.items()), len(calls)):
                # Nobody pays for what the one before left to be written, or gains by what it left in the caches.
                others.max()
                start = time.perf_counter()
                call()
                if turn:
                    times[who].append(time.perf_counter() - start)
        pair = lambda who: [f(times[who]) * 1e3 * (traffic / (2 * BYTES) if who == "copy" else 1) for f in (min, statistics.median)]
        shown = "".join(
            "{:9.2f} /{:6.2f}".format(*pair(who)) if who in calls else f"{'-':>17}" for who in ("ours", "numpy", "torch", "copy")
        )
        peers = [pair(who) for who in ("numpy", "torch") if who in calls]
        ratios = [min(peer[k] for peer in peers) / pair("ours")[k] for k in (0, 1)]
        print(f"{name:28}{shown}{ratios[0]:7.2f}{ratios[1]:8.2f}", flush=True)


if __name__ == "__main__":
    main()
