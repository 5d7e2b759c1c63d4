"""Runs PyTorch and oneDNN beside cudnn-shim on the layers between convolutions, in one process and in turns.

usage: layers_peers.py LIBCUDNN [--libdnnl LIBDNNL] [--include DIR] [--threads N] [--bytes N] [--rounds N]
                       [--types f32,f16,bf16,s8] [--layouts nchw,nhwc] [NAME...]

All layouts of a row are measured in the same rounds and in the same memory: which pages a tensor gets is worth a tenth or two
of a row that only moves bytes, and so is what else the machine does a minute later.

Every row prints the share of the memory's speed (the time of a copy that moves as many bytes over that of the call) and the
speed as a multiple of the faster peer's, each best and median of the rounds. A peer that has no such operation has a `-`. Results
are compared before anything is measured; dropout's are not, whose random numbers differ. PyTorch makes its results anew in each
call, oneDNN has memory for them, as the library has.
"""

import argparse
import ctypes as c
import math
import statistics
import time

import torch
import torch.nn.functional as F
from contractions_peers import NCHW, NHWC, PAUSE, TYPES
from cudnn import Cudnn
from onednn import add_options, opened

TOLERANCE = {"f32": 1e-4, "f16": 4e-3, "bf16": 3e-2, "s8": 0}
# Their names at oneDNN's and the numbers that go with them; and of their gradients.
ELTWISE = {
    "relu": ("relu",),
    "clipped-relu": ("clip", 0.0, 1.0),
    "identity": ("linear", 1.0, 0.0),
    "sigmoid": ("logistic",),
    "tanh": ("tanh",),
    "elu": ("elu", 1.0),
    "swish": ("swish", 1.0),
}
ACTIVATIONS = {
    "relu": (1, torch.relu, 0.0),
    "clipped-relu": (3, lambda x: torch.clamp(x, 0, 1), 1.0),
    "identity": (5, torch.clone, 0.0),
    "sigmoid": (0, torch.sigmoid, 0.0),
    "tanh": (2, torch.tanh, 0.0),
    "elu": (4, F.elu, 1.0),
    "swish": (6, F.silu, 1.0),
}


def at(tensor):
    return c.c_void_p(tensor.data_ptr())


# What tensors are for, each with memory of its own; those that meet in a call do not begin at the same place of a page.
ROLES = ["source", "target", "x", "y", "dy", "dx", "other"]
STAGGER, PAGE = 4096 + 256, 4096


class Bench:
    def __init__(self, given):
        self.given = given
        self.library = Cudnn(given.library, given.threads)
        self.dnnl = opened(given)
        self.memory = {}
        self.source, self.target = (self.placed(role, (given.bytes // 4,), "f32", None).fill_(1) for role in ROLES[:2])
        self.lines = []
        # What calls still use when a row has been made.
        self.kept = []

    def placed(self, role, shape, dtype, layout):
        """A tensor in the memory of its role, which all rows share."""
        kind = TYPES[dtype][0]
        size = max(math.prod(shape) * kind.itemsize, self.given.bytes)
        if role not in self.memory or self.memory[role].nbytes < size:
            raw = torch.zeros(size + PAGE + len(ROLES) * STAGGER, dtype=torch.uint8)
            first = -raw.data_ptr() % PAGE + ROLES.index(role) * STAGGER
            self.memory[role] = raw[first : first + size]
        flat = self.memory[role][: math.prod(shape) * kind.itemsize].view(kind)
        if layout == "nhwc":
            n, channels, *image = shape
            return flat.reshape(n, *image, channels).movedim(-1, 1)
        return flat.reshape(shape)

    def tensor(self, tensor, dtype, layout):
        form = NHWC if layout == "nhwc" else NCHW
        return self.library.descriptor("Tensor", "SetTensor4dDescriptor", form, TYPES[dtype][1], *tensor.shape)

    def filled(self, role, shape, dtype, layout):
        """Numbers in the order of memory: what one layout has left is what another finds."""
        count = math.prod(shape)
        numbers = (torch.arange(count) * 7919 % 1000) / 125 - 4
        tensor = self.placed(role, shape, dtype, layout)
        self.memory[role][: tensor.nbytes].view(tensor.dtype).copy_(numbers if role == "x" else numbers.flip(0))
        return tensor

    def shape(self, dtype, channels, side):
        """As many pictures as `bytes` hold."""
        each = channels * side * side * TYPES[dtype][0].itemsize
        return (max(1, self.given.bytes // each), channels, side, side)

    def call(self, name, *args):
        function = getattr(self.library.lib, "cudnn" + name)

        def run():
            status = function(self.library.handle, *args)
            assert status == 0, f"cudnn{name}: status {status}"

        return run

    def peers(self, name, dtype, layout, ours, theirs, result, onednn):
        """Those that compute the row, and what ours computes, too: each a call."""
        ours()
        calls = {"PyTorch": theirs}
        if self.dnnl and onednn:
            try:
                other = None if result is None else self.placed("other", result.shape, dtype, layout)
                run = onednn(self.dnnl, other)
                calls["oneDNN"] = lambda: (run(), other)[1]
            except RuntimeError:
                pass
        for peer, call in list(calls.items()):
            try:
                wanted = call()
            except RuntimeError:
                del calls[peer]
                continue
            if result is not None:
                # Averages of bytes may all be 0.
                largest = max(wanted.float().abs().max().item(), 1e-9)
                error = (result.float() - wanted.float()).abs().max().item() / largest
                assert error <= TOLERANCE[dtype], f"{name} {dtype} {layout}: differs from {peer} by {error}"
        return calls

    def row(self, name, dtype, layouts):
        """Measures a row in every layout: (traffic in bytes, ours, PyTorch, what it returns, as the library left it, oneDNN)."""
        copy = lambda: self.target.copy_(self.source)
        bodies = {}
        for layout, (_, ours, *rest) in layouts.items():
            bodies[layout] = {"ours": ours, **self.peers(name, dtype, layout, ours, *rest), "copy": copy}
        times = {layout: {who: [] for who in calls} for layout, calls in bodies.items()}
        for _ in range(self.given.rounds):
            for layout, calls in bodies.items():
                for who, body in calls.items():
                    time.sleep(PAUSE)
                    start = time.perf_counter()
                    body()
                    times[layout][who].append(time.perf_counter() - start)
        for layout, (traffic, *_) in layouts.items():
            self.report(name, dtype, layout, traffic, times[layout])

    def report(self, name, dtype, layout, traffic, times):
        figures = {who: (min(t), statistics.median(t)) for who, t in times.items()}
        copied = 2 * self.source.nbytes
        share = [copy * traffic / copied / mine for mine, copy in zip(figures["ours"], figures["copy"])]
        peers = [figures[peer] for peer in ("PyTorch", "oneDNN") if peer in figures]
        speed = [min(others) / mine for mine, *others in zip(figures["ours"], *peers)] if peers else None
        shown = "   ".join(
            f"{who} {figures[who][0] * 1e3:8.2f} ms" if who in figures else f"{who} {'-':>8}   "
            for who in ("ours", "PyTorch", "oneDNN")
        )
        last = f"speed {speed[0]:6.2f} ({speed[1]:5.2f})" if peers else "speed      -"
        print(f"{name:24} {dtype:5}{layout:5} {shown}   share of a copy {share[0]:5.2f} ({share[1]:4.2f})   {last}", flush=True)
        if peers:
            self.lines.append(speed[0])


ONE, ZERO = c.c_float(1), c.c_float(0)
UNIT, NIL = c.byref(ONE), c.byref(ZERO)


def activations(b, dtype, layout):
    shape = b.shape(dtype, 64, 56)
    for name, (mode, theirs, coefficient) in ACTIVATIONS.items():
        if dtype == "s8" and name not in ("relu", "clipped-relu", "identity"):
            continue  # PyTorch's results are floats.
        x = b.filled("x", shape, dtype, layout)
        y, desc = b.placed("y", shape, dtype, layout), b.tensor(x, dtype, layout)
        function = b.library.descriptor("Activation", "SetActivationDescriptor", mode, 0, c.c_double(coefficient))
        run = b.call("ActivationForward", function, UNIT, desc, at(x), NIL, desc, at(y))
        other = lambda d, out, form=ELTWISE[name]: d.eltwise(form[0], x, out, dtype, *form[1:])
        yield name, 2 * x.nbytes, run, lambda f=theirs: f(x), y, other
        if name in ("relu", "sigmoid", "tanh") and dtype != "s8":
            dy, dx = b.filled("dy", shape, dtype, layout), b.placed("dx", shape, dtype, layout)
            run = b.call(
                "ActivationBackward", function, UNIT, desc, at(y), desc, at(dy), desc, at(x), NIL, desc, at(dx)
            )
            operator = {
                "relu": lambda dy=dy, y=y: torch.ops.aten.threshold_backward(dy, y, 0),
                "sigmoid": lambda dy=dy, y=y: torch.ops.aten.sigmoid_backward(dy, y),
                "tanh": lambda dy=dy, y=y: torch.ops.aten.tanh_backward(dy, y),
            }[name]
            other = lambda d, out, form=ELTWISE[name]: d.eltwise_gradient(form[0], x, dy, out, dtype, *form[1:])
            yield name + "-gradient", (4 if name == "relu" else 3) * x.nbytes, run, operator, dx, other


def softmaxes(b, dtype, layout):
    for classes in (10, 100, 1000):
        for algorithm, name, theirs in ((1, "softmax", torch.softmax), (2, "log-softmax", torch.log_softmax)):
            x = b.filled("x", b.shape(dtype, classes, 28), dtype, layout)
            y, desc = b.placed("y", x.shape, dtype, layout), b.tensor(x, dtype, layout)
            run = b.call("SoftmaxForward", algorithm, 1, UNIT, desc, at(x), NIL, desc, at(y))
            kind = "accurate" if algorithm == 1 else "log"
            other = lambda d, out, kind=kind, x=x: d.softmax(kind, x, out, dtype)
            yield f"{name}-{classes}", 2 * x.nbytes, run, lambda f=theirs, x=x: f(x, 1), y, other


def poolings(b, dtype, layout):
    x = b.filled("x", b.shape(dtype, 64, 56), dtype, layout)
    desc = b.tensor(x, dtype, layout)
    for window, stride, pad in ((2, 2, 0), (3, 2, 1), (3, 1, 1), (56, 1, 0)):
        for mode, name in ((0, "max"), (1, "average")):
            if window == 56 and mode == 0:
                continue
            function = b.library.descriptor("Pooling", "SetPooling2dDescriptor", mode, 1, *[window] * 2, *[pad] * 2, *[stride] * 2)
            apply = F.max_pool2d if mode == 0 else F.avg_pool2d
            outputs = (x.shape[-1] + 2 * pad - window) // stride + 1
            y = b.placed("y", (*x.shape[:2], outputs, outputs), dtype, layout)
            y_desc = b.tensor(y, dtype, layout)
            run = b.call("PoolingForward", function, UNIT, desc, at(x), NIL, y_desc, at(y))
            label = f"{name}-{window}x{window}/{stride}"
            theirs = lambda a=apply, w=window, s=stride, p=pad: a(x, w, s, p)
            form, kind = (window, stride, pad), "max" if mode == 0 else "avg_include_padding"
            other = lambda d, out, kind=kind, form=form: d.pooling(kind, x, out, dtype, *form)
            yield label, x.nbytes + y.nbytes, run, theirs, y, other
            if dtype == "s8":
                continue
            dy, dx = b.filled("dy", y.shape, dtype, layout), b.placed("dx", x.shape, dtype, layout)
            run = b.call(
                "PoolingBackward", function, UNIT, y_desc, at(y), y_desc, at(dy), desc, at(x), NIL, desc, at(dx)
            )
            if mode == 0:
                indices = F.max_pool2d(x, window, stride, pad, return_indices=True)[1]
                theirs = lambda w=window, s=stride, p=pad, dy=dy, i=indices: (
                    torch.ops.aten.max_pool2d_with_indices_backward(dy, x, [w] * 2, [s] * 2, [p] * 2, [1, 1], False, i)
                )
                traffic = 2 * x.nbytes + 2 * y.nbytes
            else:
                theirs = lambda w=window, s=stride, p=pad, dy=dy: torch.ops.aten.avg_pool2d_backward(
                    dy, x, [w] * 2, [s] * 2, [p] * 2, False, True, None
                )
                traffic = x.nbytes + y.nbytes
            other = lambda d, out, kind=kind, form=form, dy=dy: d.pooling_gradient(kind, x, dy, out, dtype, *form)
            yield label + "-gradient", traffic, run, theirs, dx, other


def norms(b, dtype, layout):
    x = b.filled("x", b.shape(dtype, 64, 56), dtype, layout)
    y, desc = b.placed("y", x.shape, dtype, layout), b.tensor(x, dtype, layout)
    scale, bias = torch.rand(64) + 0.5, torch.rand(64)
    mean, variance = torch.rand(64), torch.rand(64) + 0.5
    channels = b.library.descriptor("Tensor", "SetTensor4dDescriptor", NCHW, 0, 1, 64, 1, 1)
    epsilon, factor = c.c_double(1e-5), c.c_double(0.1)
    params = (channels, at(scale), at(bias))
    run = b.call(
        "BatchNormalizationForwardInference", 1, UNIT, NIL, desc, at(x), desc, at(y), *params, at(mean), at(variance), epsilon
    )
    vectors = {"SCALE": scale, "SHIFT": bias}
    other = lambda d, out: d.batch_norm(x, out, dtype, 1e-5, False, **vectors, MEAN=mean, VARIANCE=variance)
    theirs = lambda: F.batch_norm(x, mean, variance, scale, bias, False, 0.1, 1e-5)
    yield "norm-inference", 2 * x.nbytes, run, theirs, y, other
    saved, deviation = torch.empty(64), torch.empty(64)
    running = [mean.clone(), variance.clone()]
    run = b.call(
        "BatchNormalizationForwardTraining", 1, UNIT, NIL, desc, at(x), desc, at(y), *params, factor,
        at(running[0]), at(running[1]), epsilon, at(saved), at(deviation),
    )  # fmt: skip
    others = [mean.clone(), variance.clone()]
    theirs = lambda: F.batch_norm(x, *others, scale, bias, True, 0.1, 1e-5)
    moments = {"MEAN": torch.empty(64), "VARIANCE": torch.empty(64)}
    other = lambda d, out: d.batch_norm(x, out, dtype, 1e-5, True, **vectors, **moments)
    yield "norm-training", 3 * x.nbytes, run, theirs, y, other
    dy, dx = b.filled("dy", x.shape, dtype, layout), b.placed("dx", x.shape, dtype, layout)
    dscale, dbias = torch.empty(64), torch.empty(64)
    run = b.call(
        "BatchNormalizationBackward", 1, UNIT, NIL, UNIT, NIL, desc, at(x), desc, at(dy), desc, at(dx), channels,
        at(scale), at(dscale), at(dbias), epsilon, at(saved), at(deviation),
    )  # fmt: skip
    theirs = lambda: torch.ops.aten.native_batch_norm_backward(
        dy, x, scale, None, None, saved, deviation, True, 1e-5, [True] * 3
    )[0]
    sums = {"DIFF_SCALE": torch.empty(64), "DIFF_SHIFT": torch.empty(64)}
    variances = {"MEAN": x.float().mean((0, 2, 3)), "VARIANCE": x.float().var((0, 2, 3), unbiased=False)}
    # In PyTorch's and ours the moments are those that the forward pass has saved.
    other = lambda d, _: d.batch_norm_gradient(
        x, dy, b.placed("other", x.shape, dtype, layout), dtype, 1e-5, SCALE=scale, **variances, **sums
    )
    yield "norm-gradient", 5 * x.nbytes, run, theirs, None, other
    if dtype == "f32":
        window = b.library.descriptor("LRN", "SetLRNDescriptor", 5, c.c_double(1e-4), c.c_double(0.75), c.c_double(2.0))
        run = b.call("LRNCrossChannelForward", window, 0, UNIT, desc, at(x), NIL, desc, at(y))
        other = lambda d, out: d.lrn(x, out, dtype, 5, 1e-4, 0.75, 2.0)
        yield "lrn-5", 2 * x.nbytes, run, lambda: F.local_response_norm(x, 5, 1e-4, 0.75, 2.0), y, other
    bias_gradient = torch.empty(64, dtype=x.dtype)
    one = b.library.descriptor("Tensor", "SetTensor4dDescriptor", NCHW, TYPES[dtype][1], 1, 64, 1, 1)
    run = b.call("ConvolutionBackwardBias", UNIT, desc, at(x), NIL, one, at(bias_gradient))
    yield "bias-gradient", x.nbytes, run, lambda: x.sum((0, 2, 3)), None, None
    size = c.c_size_t()
    b.library.call("DropoutGetStatesSize", b.library.handle, c.byref(size))
    states = torch.empty(size.value, dtype=torch.uint8)
    drop = b.library.descriptor(
        "Dropout", "SetDropoutDescriptor", b.library.handle, c.c_float(0.5), at(states), size, c.c_ulonglong(1)
    )
    b.library.call("DropoutGetReserveSpaceSize", desc, c.byref(size))
    reserve = torch.empty(size.value, dtype=torch.uint8)
    run = b.call("DropoutForward", drop, desc, at(x), desc, at(y), at(reserve), size)
    b.kept.append((states, reserve))
    yield "dropout", 2 * x.nbytes, run, lambda: F.dropout(x, 0.5, True), None, None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    add_options(parser)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bytes", type=int, default=64 << 20)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--types", default="f32")
    parser.add_argument("--layouts", default="nchw,nhwc")
    parser.add_argument("names", nargs="*")
    given = parser.parse_intermixed_args()
    torch.set_num_threads(given.threads)
    torch.set_grad_enabled(False)
    bench = Bench(given)
    print(f"{given.threads} threads, {given.bytes >> 20} MiB, best (median) of {given.rounds} rounds in turns")
    for dtype in given.types.split(","):
        layouts = given.layouts.split(",")
        for family in (activations, poolings) if dtype == "s8" else (activations, softmaxes, poolings, norms):
            for rows in zip(*(family(bench, dtype, layout) for layout in layouts), strict=True):
                (name,) = {name for name, *_ in rows}
                if not given.names or any(word in name for word in given.names):
                    bench.row(name, dtype, dict(zip(layouts, (rest for _, *rest in rows))))
    mean = math.exp(sum(map(math.log, bench.lines)) / len(bench.lines))
    print(f"speed: geometric mean {mean:.2f}, least {min(bench.lines):.2f}, of {len(bench.lines)}")


if __name__ == "__main__":
    main()
