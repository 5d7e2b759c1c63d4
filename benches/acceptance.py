"""Times what the layers are required to keep to: every row is a ratio of two times, beside its limit.

usage: acceptance.py LIBCUDNN [--threads N] [--rounds N] [NAME...]

A row compares two calls, measured in turns, best of the rounds: halves with floats, groups with none, NHWC with NCHW, a fused call
with the plain one, a layer with a copy of its tensor (TransformTensor of the library, as many threads). "read" is half such a
copy. `short` marks a row more than NOISE above its limit. With names, rows whose titles hold all of them. Rows that say ms or us
are times, not ratios.
"""

import argparse
import itertools
import sys
import time
from ctypes import byref, c_double, c_float, c_int, c_int32, c_size_t, c_uint32, c_ulonglong, c_void_p

import numpy as np
from cudnn import Cudnn

FLOAT, HALF, INT8, INT32, BFLOAT16 = 0, 2, 3, 4, 9
NCHW, NHWC = 0, 1
SIZES = {FLOAT: 4, HALF: 2, INT8: 1, INT32: 4, BFLOAT16: 2}
NAMES = {FLOAT: "f32", HALF: "f16", INT8: "s8", BFLOAT16: "bf16"}
LAYOUTS = {NCHW: "nchw", NHWC: "nhwc"}
FORWARD, DATA, FILTER = "Forward", "BackwardData", "BackwardFilter"
# Calls shorter than this are repeated.
LEAST = 2e-3
NOISE = 1.03


class Library(Cudnn):
    """Calls, and the numbers that they read."""

    def __init__(self, path, threads):
        super().__init__(path, threads)
        self.one, self.zero = byref(c_float(1.0)), byref(c_float(0.0))
        rng = np.random.default_rng(1)
        # Numbers around 0, the same of every type, shared by all operands of a role.
        base = rng.standard_normal(1 << 20).astype(np.float32)
        self.base = {
            FLOAT: base, HALF: base.astype(np.float16), INT32: np.zeros(1 << 20, np.int32),
            BFLOAT16: (base.view(np.uint32) >> 16).astype(np.uint16), INT8: rng.integers(-9, 10, 1 << 20).astype(np.int8),
        }  # fmt: skip
        # What a row still uses when another of its calls wanted more is kept until the next row.
        self.memory, self.outgrown = {}, []

    def data(self, role, code, count):
        """Memory of a role and type, as large as any row wants."""
        kept = self.memory.get((role, code))
        if kept is None or kept.size < count:
            self.outgrown.append(kept)
            kept = self.memory[role, code] = np.resize(self.base[code], count)
        return c_void_p(kept.ctypes.data)

    def tensor(self, role, code, layout, dims):
        n = len(dims)
        desc = self.descriptor("Tensor", "SetTensorNdDescriptorEx", layout, code, n, (c_int * n)(*dims))
        return desc, self.data(role, code, int(np.prod(dims)))


def ints(values):
    return (c_int * len(values))(*values)


class Rows:
    def __init__(self, lib, given):
        self.lib, self.given, self.short = lib, given, 0

    def row(self, title, limit, subject, measure, scale=1.0):
        """`subject` and `measure` make the calls; the limit holds for subject / (scale * measure)."""
        if not all(name in title for name in self.given.names):
            return
        self.lib.outgrown.clear()
        calls = [subject(), measure()]
        counts = []
        for call in calls:
            call()
            began = time.perf_counter()
            call()
            counts.append(max(1, int(LEAST / max(time.perf_counter() - began, 1e-7))))
        best = [float("inf")] * 2
        for _ in range(self.given.rounds):
            for k, (call, count) in enumerate(zip(calls, counts)):
                began = time.perf_counter()
                for _ in range(count):
                    call()
                best[k] = min(best[k], (time.perf_counter() - began) / count)
        self.tell(title, best[0] / (best[1] * scale), limit, best)

    def tell(self, title, ratio, limit, times=()):
        verdict = "ok" if ratio <= NOISE * limit else "short"
        self.short += verdict == "short"
        shown = " ".join(f"{t * 1e3:10.4f} ms" for t in times)
        print(f"{title:<66} {ratio:7.3f} of {limit:6.2f}  {verdict:<6}{shown}", flush=True)

    # --- Calls, made ready ---

    def conv(self, direction, code, layout, batch, channels, space, filters, tap, stride=1, pad=None, dilation=1, groups=1, weights="w"):
        lib, n = self.lib, len(space)
        taps = [tap] * n if isinstance(tap, int) else list(tap)
        pads = [pad if pad is not None else (t // 2) * dilation for t in taps]
        conv = lib.descriptor("Convolution", "SetConvolutionNdDescriptor", n, ints(pads), ints([stride] * n), ints([dilation] * n), 1,
                              INT32 if code == INT8 else FLOAT)  # fmt: skip
        lib.call("SetConvolutionGroupCount", conv, groups)
        out = [(e + 2 * p - (t - 1) * dilation - 1) // stride + 1 for e, p, t in zip(space, pads, taps)]
        dims = [filters, channels // groups, *taps]
        x, y = lib.tensor("x", code, layout, [batch, channels, *space]), lib.tensor("y", code, layout, [batch, filters, *out])
        w = lib.descriptor("Filter", "SetFilterNdDescriptor", code, layout, n + 2, ints(dims)), lib.data(weights, code, int(np.prod(dims)))
        order = {FORWARD: (x, w, y), DATA: (w, y, x), FILTER: (x, y, w)}[direction]
        algorithm = lib.algorithm(direction, order[0][0], order[1][0], conv, order[2][0])
        self.last = conv, x, w, y, algorithm
        return lambda: lib.call(f"Convolution{direction}", lib.handle, lib.one, *order[0], *order[1], conv, algorithm, None, c_size_t(0),
                                lib.zero, *order[2])  # fmt: skip

    def fused(self, *layer):
        lib = self.lib
        self.conv(FORWARD, *layer)
        conv, x, w, y, algorithm = self.last
        z, bias = lib.data("z", layer[0], 1 << 22), lib.tensor("bias", layer[0], NCHW, [1, layer[5]] + [1] * len(layer[4]))
        relu = lib.descriptor("Activation", "SetActivationDescriptor", 1, 0, c_double(0.0))
        return lambda: lib.call("ConvolutionBiasActivationForward", lib.handle, lib.one, *x, *w, conv, algorithm, None, c_size_t(0), lib.one,
                                y[0], z, *bias, relu, *y)  # fmt: skip

    def copy(self, code, dims, layout=NCHW):
        lib = self.lib
        x, y = lib.tensor("x", code, layout, dims), lib.tensor("y", code, layout, dims)
        return lambda: lib.call("TransformTensor", lib.handle, lib.one, *x, lib.zero, *y)

    def softmax(self, way, code, layout, dims, mode=1, algorithm=1):
        lib = self.lib
        x, y, dy = (lib.tensor(role, code, layout, dims) for role in ("x", "y", "dy"))
        operands = [*x] if way == "Forward" else [*x, *dy]
        return lambda: lib.call(f"Softmax{way}", lib.handle, algorithm, mode, lib.one, *operands, lib.zero, *y)

    def activate(self, way, code, layout, dims, mode=1):
        lib = self.lib
        x, y, dy = (lib.tensor(role, code, layout, dims) for role in ("x", "y", "dy"))
        desc = lib.descriptor("Activation", "SetActivationDescriptor", mode, 1, c_double(1.0))
        operands = [*x] if way == "Forward" else [*x, *dy, *x]
        return lambda: lib.call(f"Activation{way}", lib.handle, desc, lib.one, *operands, lib.zero, *y)

    def pool(self, way, code, layout, dims, window, stride, pad, mode):
        lib, n = self.lib, len(dims) - 2
        windows = list(dims[2:]) if window == 0 else [window] * n
        desc = lib.descriptor("Pooling", "SetPoolingNdDescriptor", mode, 1, n, ints(windows), ints([pad] * n), ints([stride] * n))
        out = [*dims[:2], *((e + 2 * pad - w) // stride + 1 for e, w in zip(dims[2:], windows))]
        x, y = lib.tensor("x", code, layout, dims), lib.tensor("y", code, layout, out)
        dx, dy = lib.tensor("dx", code, layout, dims), lib.tensor("dy", code, layout, out)
        if way == "Forward":
            return lambda: lib.call("PoolingForward", lib.handle, desc, lib.one, *x, lib.zero, *y)
        return lambda: lib.call("PoolingBackward", lib.handle, desc, lib.one, *y, *dy, *x, lib.zero, *dx)

    def norm(self, way, code, layout, dims):
        lib = self.lib
        x, y, dy = (lib.tensor(role, code, layout, dims) for role in ("x", "y", "dy"))
        stats = lib.descriptor("Tensor")
        lib.call("DeriveBNTensorDescriptor", stats, x[0], 1)
        count = dims[1]
        scale, bias, mean, save, saved = (lib.data(role, FLOAT, count) for role in ("scale", "shift", "mean", "save", "saved"))
        if ("variance", FLOAT) not in lib.memory or lib.memory["variance", FLOAT].size < count:
            lib.outgrown.append(lib.memory.get(("variance", FLOAT)))
            lib.memory["variance", FLOAT] = np.ones(count, np.float32)
        variance, epsilon = lib.data("variance", FLOAT, count), c_double(1e-3)
        head = lib.handle, 1, lib.one, lib.zero
        if way == "inference":
            return lambda: lib.call("BatchNormalizationForwardInference", *head, *x, *y, stats, scale, bias, mean, variance, epsilon)
        if way == "training":
            return lambda: lib.call("BatchNormalizationForwardTraining", *head, *x, *y, stats, scale, bias, c_double(0.1), None, None, epsilon,
                                    save, saved)  # fmt: skip
        return lambda: lib.call("BatchNormalizationBackward", *head, lib.one, lib.zero, *x, *dy, *y, stats, scale, bias, mean, epsilon, None, None)

    def bias(self, code, layout, dims):
        lib = self.lib
        dy, db = lib.tensor("x", code, layout, dims), lib.tensor("bias", code, NCHW, [1, dims[1]] + [1] * (len(dims) - 2))
        return lambda: lib.call("ConvolutionBackwardBias", lib.handle, lib.one, *dy, lib.zero, *db)

    def dropout(self, code, dims):
        lib = self.lib
        desc, size = self.states()
        x, y = lib.tensor("x", code, NCHW, dims), lib.tensor("y", code, NCHW, dims)
        lib.call("DropoutGetReserveSpaceSize", x[0], byref(size))
        mask = lib.data("mask", INT8, size.value)
        return lambda: lib.call("DropoutForward", lib.handle, desc, *x, *y, mask, size)

    def states(self):
        lib, size = self.lib, c_size_t()
        lib.call("DropoutGetStatesSize", lib.handle, byref(size))
        states = lib.data("states", INT32, size.value // 4)
        self.set = lambda: lib.call("SetDropoutDescriptor", desc, lib.handle, c_float(0.5), states, size, c_ulonglong(1))
        desc = lib.descriptor("Dropout")
        self.set()
        return desc, c_size_t()

    def padding(self, code, dims, behind):
        """TransformTensorEx with zeros behind two axes."""
        lib = self.lib
        x, y = lib.tensor("x", code, NCHW, dims), lib.tensor("y", code, NCHW, [*dims[:2], *(e + behind for e in dims[2:])])
        transform = lib.descriptor("TensorTransform", "SetTensorTransformDescriptor", c_uint32(4), NCHW, (c_int32 * 4)(),
                                   (c_int32 * 4)(0, 0, behind, behind), None, 0)  # fmt: skip
        return lambda: lib.call("TransformTensorEx", lib.handle, transform, lib.one, *x, lib.zero, *y)


def choosing(rows):
    """R34: queries, searches, and shapes that were never seen."""
    lib = rows.lib
    if rows.given.names:
        return
    rows.conv(FORWARD, FLOAT, NCHW, 8, 64, [56, 56], 64, 3)
    conv, x, w, y, _ = rows.last
    found, count = np.zeros(64 * 10, np.uint8), c_int()
    at = c_void_p(found.ctypes.data)
    query = lambda: lib.call("GetConvolutionForwardAlgorithm_v7", lib.handle, x[0], w[0], conv, y[0], 10, byref(count), at)
    search = lambda: lib.call("FindConvolutionForwardAlgorithm", lib.handle, x[0], w[0], conv, y[0], 10, byref(count), at)
    for title, call, repeats, unit, limit in (("R34 v7 query, us", query, 1000, 1e6, 20), ("R34 Find, ms", search, 5, 1e3, 50)):
        call()
        began = time.perf_counter()
        for _ in range(repeats):
            call()
        rows.tell(title, (time.perf_counter() - began) / repeats * unit, limit)
    rng, totals = np.random.default_rng(2), [0.0, 0.0]
    for _ in range(1000):
        c, k, h, w, tap = (int(v) for v in rng.integers([1, 1, 8, 8, 0], [64, 64, 40, 40, 3]))
        call = rows.conv(FORWARD, FLOAT, NCHW, 1, c, [h, w], k, 1 + 2 * tap)
        times = []
        for _ in range(4):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        totals = [totals[0] + times[0], totals[1] + times[1]]
    rows.tell("R34 first calls of 1,000 shapes to second ones", totals[0] / totals[1], 1.2)
    rows.states()
    began = time.perf_counter()
    for _ in range(1000):
        rows.set()
    rows.tell("R59 SetDropoutDescriptor, us", (time.perf_counter() - began) * 1e3, 5)


# Title, batch, channels, space, filters, taps, stride.
LAYERS = [
    ("3x3-64", 4, 64, [56, 56], 64, 3, 1), ("3x3-256", 4, 256, [14, 14], 256, 3, 1), ("1x1-256-64", 4, 256, [56, 56], 64, 1, 1),
    ("7x7s2-3", 2, 3, [224, 224], 64, 7, 2), ("3x3s2-128", 4, 128, [56, 56], 128, 3, 2), ("3d-32", 1, 32, [16, 32, 32], 32, 3, 1),
]  # fmt: skip


def both(first, second):
    return lambda: (first(), second())


def convolutions(rows):
    conv = rows.conv
    for title, batch, channels, space, filters, tap, stride in LAYERS:
        shape = batch, channels, space, filters, tap, stride
        layer = lambda direction, code=FLOAT, layout=NCHW, **more: lambda: conv(direction, code, layout, *shape, **more)
        rows.row(f"R36 {title} both gradients to Forward", 3, lambda: both(layer(DATA)(), layer(FILTER)()), layer(FORWARD))
        rows.lib.memory["tiny", FLOAT] = np.full(1 << 22, 1e-40, np.float32)
        rows.row(f"R36 {title} subnormal weights", 1.5, layer(FORWARD, weights="tiny"), layer(FORWARD))
        for direction in (FORWARD, DATA, FILTER):
            rows.row(f"R37 {title} {direction} f16 to f32", 1.0, layer(direction, HALF), layer(direction))
            rows.row(f"R37 {title} {direction} bf16 to f16", 1.1, layer(direction, BFLOAT16), layer(direction, HALF))
            for code in (FLOAT, HALF):
                nchw, nhwc = layer(direction, code), layer(direction, code, NHWC)
                rows.row(f"R39 {title} {direction} {NAMES[code]} nhwc to nchw", 1.15, nhwc, nchw)
                rows.row(f"R39 {title} {direction} {NAMES[code]} nchw to nhwc", 1.15, nchw, nhwc)
        fused = lambda: rows.fused(FLOAT, NCHW, *shape)
        rows.row(f"R48 {title} bias, sum and relu to none", 1.05, fused, layer(FORWARD))
        for layout in (NCHW, NHWC):
            rows.row(f"R52 {title} Forward s8 to f32 {LAYOUTS[layout]}", 1 / 1.5, layer(FORWARD, INT8, layout), layer(FORWARD, FLOAT, layout))


def groups(rows):
    conv = rows.conv
    depthwise = [("depthwise 3x3-96", 8, 96, [112, 112], 3, 1), ("depthwise 5x5-240", 8, 240, [56, 56], 5, 1),
                 ("depthwise 3x3s2-96", 8, 96, [112, 112], 3, 2), ("depthwise 1-D-256", 8, 256, [8000], 7, 1), ("depthwise 3-D-64", 2, 64, [16, 56, 56], 3, 1)]  # fmt: skip
    for title, batch, channels, space, tap, stride in depthwise:
        elements = batch * channels * int(np.prod(space)) * (1 + 1 / stride ** len(space))
        for direction, code, layout in itertools.product((FORWARD, DATA, FILTER), (FLOAT, HALF), (NCHW, NHWC)):
            # A copy of x and y: as many bytes are read and written as both have.
            rows.row(f"R38 {title} {direction} {NAMES[code]} {LAYOUTS[layout]} to a copy", 1.5,
                     lambda: conv(direction, code, layout, batch, channels, space, channels, tap, stride, groups=channels),
                     lambda: rows.copy(code, [1, 1, 1, int(elements)]))  # fmt: skip
    for count in (2, 8, 32, 64):
        for direction, layout in itertools.product((FORWARD, DATA, FILTER), (NCHW, NHWC)):
            rows.row(f"R38 {count} groups of 128 {direction} {LAYOUTS[layout]} to one", 1.05,
                     lambda: conv(direction, FLOAT, layout, 4, 128, [28, 28], 128, 3, groups=count),
                     lambda: conv(direction, FLOAT, layout, 4, 128, [28, 28], 128, 3))  # fmt: skip


def corners(rows):
    conv = rows.conv
    for direction in (FORWARD, DATA, FILTER):
        long = lambda space: lambda: conv(direction, FLOAT, NCHW, 4, 128, space, 128, [3 if e > 1 else 1 for e in space])
        rows.row(f"R50 {direction} 1-D as L x 1 to 1 x L", 1.1, long([2048, 1]), long([1, 2048]))
        rows.row(f"R50 {direction} 1-D as 1 x L to L x 1", 1.1, long([1, 2048]), long([2048, 1]))
        rows.row(f"R50 {direction} 1-D of rank 3 to 1 x L", 1.1, long([2048]), long([1, 2048]))
        dense = lambda dilation: lambda: conv(direction, FLOAT, NCHW, 2, 64, [56, 56], 64, 3, dilation=dilation)
        rows.row(f"R50 {direction} dilation 2 to 1", 1.2, dense(2), dense(1))
        # Results x terms as a product of matrices, at 0.7 of its speed: of pixels, filters, and channels times taps.
        for title, layer, (m, n, k) in [
            ("as large as the map", (16, 256, [7, 7], 512, 7, 1, 0), (512, 16, 256 * 49)),
            ("of 4 positions", (1, 512, [4, 4], 512, 3, 1, 0), (512, 4, 512 * 9)),
            ("of 16 positions", (1, 512, [4, 4], 512, 3, 1, 1), (512, 16, 512 * 9)),
            ("of batch 1, 3x3", (1, 128, [28, 28], 128, 3, 1, 1), (128, 784, 128 * 9)),
            ("of batch 1, 1x1", (1, 1024, [14, 14], 256, 1, 1, 0), (256, 196, 1024)),
            ("in 3-D", (1, 64, [8, 28, 28], 64, 3, 1, 1), (64, 6272, 64 * 27)),
        ]:
            rows.row(f"R50 {direction} {title} to its product", 1 / 0.7, lambda: conv(direction, FLOAT, NCHW, *layer),
                     lambda: conv(direction, FLOAT, NCHW, 1, k, [1, n], m, 1))  # fmt: skip
    for title, layer in [("4x4s2-256-128", (2, 128, [32, 32], 256, 4, 2, 1)), ("2x2s2-512-256", (2, 256, [32, 32], 512, 2, 2, 0)),
                         ("3x3s2-64", (4, 64, [57, 57], 64, 3, 2, 1)), ("k20s10-1024-256", (1, 256, [500], 1024, 20, 10, 5)),
                         ("3-D 2s2-64-32", (1, 32, [16, 32, 32], 64, 2, 2, 0))]:  # fmt: skip
        for layout in (NCHW, NHWC):
            rows.row(f"R54 transposed {title} {LAYOUTS[layout]} to Forward", 1.3, lambda: conv(DATA, FLOAT, layout, *layer),
                     lambda: conv(FORWARD, FLOAT, layout, *layer))  # fmt: skip


def elements(rows):
    """Layers that move bytes: tensors are larger than the caches."""
    feature, deep = [32, 64, 128, 128], [64, 1024, 23, 23]
    for code, layout in itertools.product((FLOAT, HALF), (NCHW, NHWC)):
        kind = f"{NAMES[code]} {LAYOUTS[layout]}"
        for dims in (feature, deep):
            copy = lambda: rows.copy(code, dims)
            for way, limit in (("training", 2.2), ("inference", 1.1), ("backward", 3.3)):
                rows.row(f"R42 normalisation {way} {dims} {kind}", limit, lambda: rows.norm(way, code, layout, dims), copy)
            rows.row(f"R48 bias gradient {dims} {kind} to reading", 1.2, lambda: rows.bias(code, layout, dims), copy, 0.5)
        for way, mode in itertools.product(("Forward", "Backward"), (0, 1)):
            # The gradient of a maximum reads x and writes dx; the others do one of both.
            share = 1.0 if (way, mode) == ("Backward", 0) else 0.5
            rows.row(f"R47 global pooling {way} {'max' if mode == 0 else 'mean'} {deep} {kind} to reading", 1.3,
                     lambda: rows.pool(way, code, layout, deep, 0, 1, 0, mode), lambda: rows.copy(code, deep), share)  # fmt: skip
        for title, window, stride, pad in (("2x2/2", 2, 2, 0), ("3x3/2", 3, 2, 1), ("3x3/1", 3, 1, 1)):
            # As many bytes as a copy of half of x and y.
            share = (1 + 1 / stride**2) / 2
            rows.row(f"R47 pooling {title} max {kind} to a copy", 1.3, lambda: rows.pool("Forward", code, layout, feature, window, stride, pad, 0),
                     lambda: rows.copy(code, feature), share)  # fmt: skip
    for way, code in itertools.product(("Forward", "Backward"), (FLOAT, HALF)):
        for title, make in (
            ("softmax", lambda layout: lambda: rows.softmax(way, code, layout, feature)),
            ("relu", lambda layout: lambda: rows.activate(way, code, layout, feature)),
            ("max pooling", lambda layout: lambda: rows.pool(way, code, layout, feature, 3, 2, 1, 0)),
            ("normalisation", lambda layout: lambda: rows.norm("training" if way == "Forward" else "backward", code, layout, feature)),
        ):  # fmt: skip
            rows.row(f"R39 {title} {way} {NAMES[code]} nhwc to nchw", 1.15, make(NHWC), make(NCHW))
            rows.row(f"R39 {title} {way} {NAMES[code]} nchw to nhwc", 1.15, make(NCHW), make(NHWC))
    rest = [240, 128000, 1, 1], [512, 896, 48, 1], [1, 1, 512 * 896, 48]
    for dims in ([64000, 2, 1, 1], [8, 80, 224, 224], [8 * 224 * 224, 80, 1, 1], *rest):
        mode = 0 if dims[1] == 1 else 1
        dims = [dims[2], 1, 1, dims[3]] if mode == 0 else dims
        for way, limit in (("Forward", 2.2), ("Backward", 3.3)):
            rows.row(f"R45 softmax {way} {dims}", limit, lambda: rows.softmax(way, FLOAT, NCHW, dims, mode), lambda: rows.copy(FLOAT, dims))
    wide, long = [1, 1000000, 8, 1], [1, 8, 2500, 2000]
    for dims, (way, limit) in itertools.product((wide, long), (("training", 2.2), ("inference", 1.1), ("backward", 3.3))):
        rows.row(f"R42 normalisation {way} {dims}", limit, lambda: rows.norm(way, FLOAT, NCHW, dims), lambda: rows.copy(FLOAT, dims))
    rows.row("R55 padding of 1 behind by TransformTensorEx to a copy", 1.1, lambda: rows.padding(FLOAT, feature, 1),
             lambda: rows.copy(FLOAT, feature))  # fmt: skip
    for code in (FLOAT, HALF):
        rows.row(f"R59 dropout {NAMES[code]} to a copy", 1.2, lambda: rows.dropout(code, feature), lambda: rows.copy(code, feature))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_intermixed_args()
    rows = Rows(Library(given.library, given.threads), given)
    print(f"{given.threads} threads, best of {given.rounds} rounds in turns")
    for part in (choosing, convolutions, groups, corners, elements):
        part(rows)
    print(f"{rows.short} rows are short of their limits")


if __name__ == "__main__":
    sys.exit(main())
