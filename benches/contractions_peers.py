"""Runs PyTorch (whose convolutions are oneDNN's) beside cudnn-shim on the layers of contractions.txt, in one process.

usage: contractions_peers.py LIBCUDNN [--threads N] [--batch N] [--rounds N] [--layouts nchw,nhwc]
                             [--directions forward,data,filter] [--types f32,f16,bf16,s8] [NAME...]

Every row prints milliseconds per call (best of the rounds, taken in turns; processor time on one thread, the clock on
several), billions of operations per second, and the speed of the library as a multiple of PyTorch's, of the best calls and
of the median ones: above 1 it is faster. PyTorch computes in f32 whatever the type of the row; layers named `mm-` are a product of matrices to it. Results
are compared before anything is measured; those of bytes exactly.
"""

import argparse
import ctypes as c
import math
import pathlib
import statistics
import time

import torch
from cudnn import Cudnn

LISTS = pathlib.Path(__file__).resolve().parent.parent / "problems"
TYPES = {"f32": (torch.float32, 0), "f16": (torch.float16, 2), "bf16": (torch.bfloat16, 9), "s8": (torch.int8, 3)}
TOLERANCE = {"f32": 1e-4, "f16": 2e-3, "bf16": 2e-2, "s8": 0}
NCHW, NHWC = 0, 1
# Threads that watch for work after a call would take the processors away from whoever is measured next.
PAUSE = 0.02


def layers():
    for line in (LISTS / "contractions.txt").read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            options = dict(word.split("=") for word in words[4:])
            image, taps = ([int(d) for d in word.split("x")] for word in (words[1], words[3]))
            defaults = [("stride", 1), ("pad", 0), ("groups", 1), ("dilation", 1)]
            yield words[0], image, int(words[2]), taps, *(int(options.get(key, default)) for key, default in defaults)


class Convolutions(Cudnn):
    """The C functions that a convolution takes."""

    def runner(self, direction, layout, dtype, x, w, y, stride, pad, groups, dilation):
        form, code = (NHWC if layout == "nhwc" else NCHW), TYPES[dtype][1]
        image, result = (self.descriptor("Tensor", "SetTensor4dDescriptor", form, code, *t.shape) for t in (x, y))
        taps = self.descriptor("Filter", "SetFilter4dDescriptor", code, form, *w.shape)
        geometry = (pad, pad, stride, stride, dilation, dilation)
        conv = self.descriptor("Convolution", "SetConvolution2dDescriptor", *geometry, 1, 4 if dtype == "s8" else 0)
        self.call("SetConvolutionGroupCount", conv, groups)
        one, zero, size = c.c_float(1), c.c_float(0), c.c_size_t()
        x, w, y = (c.c_void_p(t.data_ptr()) for t in (x, w, y))
        name, order = {
            "forward": ("Forward", (image, x, taps, w, result, y)),
            "data": ("BackwardData", (taps, w, result, y, image, x)),
            "filter": ("BackwardFilter", (image, x, result, y, taps, w)),
        }[direction]
        a, at_a, b, at_b, out, at_out = order
        algorithm = self.algorithm(name, a, b, conv, out)
        self.call(f"GetConvolution{name}WorkspaceSize", self.handle, a, b, conv, out, algorithm, c.byref(size))
        space = torch.empty(size.value + 64, dtype=torch.uint8)
        function, at = getattr(self.lib, f"cudnnConvolution{name}"), c.c_void_p(space.data_ptr())
        function.argtypes = None
        args = (self.handle, c.byref(one), a, at_a, b, at_b, conv, algorithm, at, size, c.byref(zero), out, at_out)

        def run():
            status = function(*args)
            assert status == 0, status
            return space

        return run


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    for name, default in [("threads", 1), ("batch", 1), ("rounds", 15)]:
        parser.add_argument("--" + name, type=int, default=default)
    for name, default in [("layouts", "nchw"), ("directions", "forward"), ("types", "f32")]:
        parser.add_argument("--" + name, default=default)
    parser.add_argument("names", nargs="*")
    given = parser.parse_intermixed_args()
    torch.set_num_threads(given.threads)
    torch.set_grad_enabled(False)
    library = Convolutions(given.library, given.threads)
    clock = time.thread_time if given.threads == 1 else time.perf_counter
    print(f"{given.threads} threads, batch {given.batch}, best of {given.rounds} rounds in turns")
    speeds = {}
    for name, *layer in layers():
        if given.names and not any(word in name for word in given.names):
            continue
        for direction in given.directions.split(","):
            for layout in given.layouts.split(","):
                for dtype in given.types.split(","):
                    case = (given, library, clock, name, direction, layout, dtype)
                    times, operations = row(*case, *layer)
                    ours, theirs = map(min, times)
                    median = statistics.median(times[1]) / statistics.median(times[0])
                    rate = [operations / t / 1e9 for t in (ours, theirs)]
                    print(
                        f"{name:20} {direction:8} {layout} {dtype:5} ours {ours * 1e3:8.3f} ms {rate[0]:6.1f}"
                        f"   PyTorch {theirs * 1e3:8.3f} ms {rate[1]:6.1f}   speed {theirs / ours:5.2f}"
                        f"   median {median:5.2f}",
                        flush=True,
                    )
                    speeds.setdefault((direction, layout, dtype), []).append((theirs / ours, median))
    for key, values in speeds.items():
        for what, values in zip(("best", "median"), zip(*values)):
            mean = math.exp(sum(map(math.log, values)) / len(values))
            print(f"{' '.join(key)}, {what}: geometric mean {mean:.2f}, least {min(values):.2f}, of {len(values)}")


def tensors(layout, dtype, batch, image, k, taps, stride, pad, groups, dilation):
    """x, w and y of a layer, of random numbers."""
    form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
    p, q = ((extent + 2 * pad - dilation * (tap - 1) - 1) // stride + 1 for extent, tap in zip(image[1:], taps))
    shapes = [(batch, *image), (k, image[0] // groups, *taps), (batch, k, p, q)]
    drawn = (lambda shape: torch.randint(-4, 5, shape).float()) if dtype == "s8" else torch.randn
    return [drawn(shape).to(memory_format=form).to(TYPES[dtype][0]) for shape in shapes]


def row(given, library, clock, name, direction, layout, dtype, image, k, taps, stride, pad, groups, dilation):
    """Seconds of all calls of either, and operations."""
    typed = tensors(layout, dtype, given.batch, image, k, taps, stride, pad, groups, dilation)
    single = [t.float() for t in typed]
    channels, h, w = image
    p, q = typed[2].shape[2:]
    out = {"forward": 2, "data": 0, "filter": 1}[direction]
    typed[out] = torch.full_like(typed[out], 77 if dtype == "s8" else float("nan"))
    ours = library.runner(direction, layout, dtype, *typed, stride, pad, groups, dilation)
    x, weights, y = single
    if name.startswith("mm-") and direction == "forward" and layout == "nchw":
        theirs = lambda: torch.mm(weights.view(k, channels), x.view(channels, h * w)).view(y.shape)
    elif direction == "forward":
        theirs = lambda: torch.nn.functional.conv2d(x, weights, None, stride, pad, dilation, groups)
    else:
        wanted = [out == 0, out == 1, False]
        theirs = lambda: torch.ops.aten.convolution_backward(
            y, x, weights, None, [stride] * 2, [pad] * 2, [dilation] * 2, False, [0, 0], groups, wanted
        )[out]
    ours()
    expected = theirs().clamp(-128, 127) if dtype == "s8" else theirs()
    error = ((typed[out].float() - expected).abs().max() / expected.abs().max()).item()
    assert error <= TOLERANCE[dtype], f"results differ by {error}"
    times = [], []
    for _ in range(given.rounds):
        for i, body in enumerate((ours, theirs)):
            if given.threads > 1:
                time.sleep(PAUSE)
            start = clock()
            body()
            times[i].append(clock() - start)
    return times, 2 * given.batch * k * p * q * (channels // groups) * taps[0] * taps[1]


if __name__ == "__main__":
    main()
