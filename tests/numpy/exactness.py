"""What the documentation promises of convolutions beyond single results, against NumPy in binary64 or integers.

Each extent in turn above 65,535. Products with the identity return their input. Large means, and filters that fade towards their
edges. Integers of 8 bits: every product, and scales, biases and activations before one rounding. Padding of one side, as the
documentation describes it.
"""

import itertools
import sys
from ctypes import byref, c_double, c_float, c_int, c_int32, c_size_t, c_void_p

import numpy as np

import cudnn
from combinations import Chosen
from convolution import DATA, FILTER, FORWARD, NAMES, Filter, as_tensor
from promises import run
from reference import TYPES, convert
from tensors import make, poison


def computed(bench, problem, x, w, code, compute):
    """A forward convolution of bytes whose result has another type."""
    rng = np.random.default_rng(3)
    bench.describe(problem, compute)
    source, _, _ = tensors = bench.operands(rng, problem, cudnn.INT8, [x, w, np.zeros(problem.y)])
    y = make(bench.lib, rng, code, tuple(problem.y), ["nchw", "nhwc"])
    y.allocate(rng, poison(code))
    operands = source, tensors[1], y
    size = bench.workspace(FORWARD, operands, 1)
    bench.compute(FORWARD, operands, [t.address for t in operands], 1, size)
    return y.read()


def quantised(bench, problem, x, w, scale, bias, relu, layout):
    """y = activation(scale * sum + bias) in bytes, as layers of a quantised network are."""
    lib, rng = bench.lib, np.random.default_rng(4)
    code = {"x4": cudnn.INT8X4, "x32": cudnn.INT8X32}.get(layout, cudnn.INT8)
    bench.describe(problem, cudnn.INT32)
    source, y = (make(lib, rng, code, tuple(dims), [layout] if code == cudnn.INT8 else ["nchw"]) for dims in (problem.x, problem.y))
    filters = as_tensor(Filter(lib, rng, code, problem.w))
    for tensor, value in ((source, x), (filters, w)):
        tensor.allocate(rng, poison(code))
        tensor.write(tensor.raw, value.astype(np.int8))
    y.allocate(rng, poison(code))
    vector = make(lib, rng, cudnn.FLOAT, bias.shape, ["nchw"])
    vector.allocate(rng, poison(cudnn.FLOAT))
    vector.write(vector.raw, bias)
    activation = lib.create("ActivationDescriptor")
    lib.call("cudnnSetActivationDescriptor", activation, 1 if relu else 5, 1, c_double(0.0))
    of = lambda tensor: (tensor.desc, c_void_p(tensor.address))
    lib.call("cudnnConvolutionBiasActivationForward", lib.handle, byref(c_float(scale)), *of(source), *of(filters), bench.conv, 1, None,
             c_size_t(0), byref(c_float(0.0)), *of(y), *of(vector), activation, *of(y))  # fmt: skip
    lib.destroy("ActivationDescriptor", activation)
    return y.read()


def padded_copy(bench, problem, x, w, pads, code):
    """TransformTensorEx into a tensor with its zeros, and a convolution without padding."""
    lib, rng = bench.lib, np.random.default_rng(5)
    bench.describe(problem, cudnn.FLOAT)
    around, filters, y = bench.operands(rng, problem, code, [np.full(problem.x, 9.0), w, np.zeros(problem.y)], ["nchw"])
    source = make(lib, rng, code, x.shape, ["nchw"])
    source.allocate(rng, poison(code))
    source.write(source.raw, convert(x, TYPES[code][1]))
    transform = lib.create("TensorTransformDescriptor")
    front, behind = ([0, 0, pad, pad] for pad in pads)
    lib.set_transform(transform, cudnn.NCHW, front, behind, [1, 1], cudnn.FOLD)
    lib.transform(transform, 1.0, source.desc, source.address, 0.0, around.desc, around.address)
    lib.destroy("TensorTransformDescriptor", transform)
    operands = around, filters, y
    bench.compute(FORWARD, operands, [t.address for t in operands], 1, bench.workspace(FORWARD, operands, 1))
    return y.read()


def viewed(bench, x, w, pads, code):
    """The larger padding on both ends, and the part of the longer y that the pads ask for."""
    rng, most = np.random.default_rng(6), max(pads)
    problem = Chosen(2, 3, 4, 1, x.shape[2:], w.shape[2:], [1, 1], [most, most], [1, 1])
    bench.describe(problem, cudnn.FLOAT)
    operands = bench.operands(rng, problem, code, [x, w, np.zeros(problem.y)], ["nchw"])
    bench.compute(FORWARD, operands, [t.address for t in operands], 1, bench.workspace(FORWARD, operands, 1))
    front, rows, columns = most - pads[0], *(extent - abs(pads[1] - pads[0]) for extent in problem.out)
    return operands[2].read()[:, :, front : front + rows, front : front + columns]


def large_convolutions(bench):
    """Each extent in turn: images, channels, filters, rows and columns."""
    shapes = [(65536, 2, 2, 2, 3), (1, 70000, 2, 2, 2), (1, 2, 131071, 2, 2), (2, 2, 2, 140000, 2), (1, 2, 2, 2, 131071), (1025, 1, 1, 1, 1)]
    for n, c, k, h, w in shapes:
        taps = [1, 1] if max(c, k) > 65535 else [3, 2]
        pad = [taps[0] // 2, 1]
        problem = Chosen(n, c, k, 1, [h, w], taps, [1, 1], pad, [1, 1])
        rng = np.random.default_rng([bench.options.seed, n, c, k, h, w])
        values = [rng.integers(-1, 2, dims).astype(np.float64) for dims in (problem.x, problem.w, problem.y)]
        for direction, code in itertools.product((FORWARD, DATA, FILTER), (cudnn.FLOAT, cudnn.HALF)):
            bench.describe(problem, cudnn.FLOAT)
            tensors = bench.operands(rng, problem, code, values, ["nchw" if direction != DATA else "nhwc"])
            dst = tensors[[2, 0, 1][direction]]
            dst.raw[:] = 0xFF
            bench.compute(direction, tensors, [t.address for t in tensors], 1, bench.workspace(direction, tensors, 1))
            want = convert(problem.sums(direction, *values), TYPES[code][1])
            bench.same(f"{NAMES[direction]} {problem} type {code}", dst.read(), want)
            bench.forget(*tensors)


def identities(bench):
    """Products with the identity return their input, whatever the math type: alone, over 3 x 3 taps of a channel, in any layout."""
    layers = [(1, [5, 5], False), (7, [6, 9], False), (64, [14, 14], False), (33, [3, 5, 4], False), (130, [40], False), (16, [20, 21], True)]
    for code in (cudnn.FLOAT, cudnn.DOUBLE, cudnn.HALF, cudnn.BFLOAT16):
        compute = cudnn.DOUBLE if code == cudnn.DOUBLE else cudnn.FLOAT
        for channels, space, depthwise in layers:
            tap = 3 if depthwise else 1
            n, groups = len(space), channels if depthwise else 1
            problem = Chosen(2, channels, channels, groups, space, [tap] * n, [1] * n, [tap // 2] * n, [1] * n)
            rng = np.random.default_rng([channels, *space])
            x = rng.standard_normal(problem.x) * 10.0 ** rng.integers(-4, 4, problem.x)
            w = np.zeros(problem.w)
            if depthwise:
                w[:, 0, 1, 1] = 1
            else:
                w.reshape(channels, channels)[...] = np.eye(channels)
            for math, direction, layout in itertools.product((0, 3), (FORWARD, DATA), ("nchw", "nhwc")):
                bench.describe(problem, compute, math)
                tensors = bench.operands(rng, problem, code, [x, w, x], [layout])
                source, dst = (tensors[0], tensors[2])[:: 1 if direction == FORWARD else -1]
                dst.raw[:] = 0xFF
                bench.compute(direction, tensors, [t.address for t in tensors], 1, bench.workspace(direction, tensors, 1))
                bench.same(f"identity {NAMES[direction]} {problem} type {code} math {math} {layout}", dst.read(), source.read())
                bench.forget(*tensors)


def large_means(bench):
    """Within the bound of a sum where transforms subtract: means of 1,000, and filters that fade towards their edges."""
    fade = np.exp(-np.add.outer(np.arange(-1, 2) ** 2, np.arange(-1, 2) ** 2) / 1.5)
    for case, (c, k, h, w, pad) in enumerate([(64, 64, 14, 14, 1), (32, 48, 33, 30, 1), (128, 40, 7, 7, 1), (40, 36, 20, 22, 2), (96, 96, 9, 12, 0)]):
        problem = Chosen(1, c, k, 1, [h, w], [3, 3], [1, 1], [pad, pad], [1, 1], bool(case % 2))
        rng = np.random.default_rng([bench.options.seed, 9, case])
        x, y = (1000 + rng.standard_normal(dims) for dims in (problem.x, problem.y))
        weights = rng.standard_normal(problem.w) * fade * rng.choice([0.01, 0.1, 1.0], (k, 1, 1, 1))
        values = [v.astype(np.float32).astype(np.float64) for v in (x, weights, y)]
        for direction, layout in itertools.product(range(3), ("nchw", "nhwc")):
            bench.describe(problem, cudnn.FLOAT)
            tensors = bench.operands(rng, problem, cudnn.FLOAT, values, [layout])
            dst = tensors[[2, 0, 1][direction]]
            want, size = problem.sums(direction, *values), problem.sums(direction, *map(np.abs, values))
            bench.compute(direction, tensors, [t.address for t in tensors], 1, bench.workspace(direction, tensors, 1))
            terms = [c * 9, k * 9, problem.out[0] * problem.out[1]][direction]
            bench.near(f"{NAMES[direction]} {problem} {layout} of a large mean", dst.read(), want, 2 * terms * 2.0**-24 * size)
            bench.forget(*tensors)


def bytes_of_eight_bits(bench):
    """Every product of two bytes, exactly; then scales, biases and activations before one rounding and saturation."""
    every = np.arange(-128, 128.0)
    for code, compute in itertools.product((cudnn.INT32, cudnn.FLOAT, cudnn.INT8), (cudnn.INT32, cudnn.FLOAT)):
        problem = Chosen(256, 1, 256, 1, [1, 1], [1, 1], [1, 1], [0, 0], [1, 1])
        got = computed(bench, problem, every.reshape(problem.x), every.reshape(problem.w), code, compute)
        bench.same(f"products of bytes as {code} in {compute}", got, convert(np.multiply.outer(every, every).reshape(problem.y), TYPES[code][1]))
    for case, (c, k, groups, window, stride, dilation) in enumerate(
        [(3, 64, 1, 7, 2, 1), (64, 64, 1, 3, 1, 1), (64, 17, 1, 1, 1, 1), (32, 32, 32, 3, 1, 1), (5, 7, 1, 3, 1, 2), (64, 32, 2, 3, 2, 1)]
    ):
        problem = Chosen(2, c, k, groups, [9, 10], [window] * 2, [stride] * 2, [window // 2] * 2, [dilation] * 2)
        rng = np.random.default_rng([bench.options.seed, 10, case])
        x, w = rng.integers(-128, 128, problem.x).astype(np.float64), rng.integers(-128, 128, problem.w).astype(np.float64)
        sums = problem.sums(FORWARD, x, w, None)
        scale = np.float32(60 / np.abs(sums).std())
        bias = rng.uniform(-40, 40, (1, k, 1, 1)).astype(np.float32)
        for relu, layout in itertools.product((False, True), ("nchw", "nhwc", "x4", "x32")):
            if layout in ("x4", "x32") and (c % int(layout[1:]) or k % int(layout[1:]) or groups > 1):
                continue
            got = quantised(bench, problem, x, w, float(scale), bias, relu, layout)
            exact = np.float64(scale) * sums + bias
            exact = np.maximum(exact, 0) if relu else exact
            # On the way to a byte a sum may be off by roundings of binary32, which decide near a tie.
            slack = 2.0**-22 * (np.abs(exact) + np.abs(bias) + 1)
            low, high = (convert(exact + side * slack, np.int8).astype(int) for side in (-1, 1))
            wrong = (got < low) | (got > high)
            bench.tell(f"quantised {problem} {layout} relu {relu}",
                       "a byte is wrong" if wrong.any() != bench.options.negative_control else None)  # fmt: skip


def uneven_padding(bench):
    """More padding behind than in front, and the other way round, by a padded copy and, for stride 1, by a view of a longer y."""
    for pads, window, stride, code in itertools.product([(0, 1), (1, 0), (1, 2), (2, 1)], (2, 3, 4), (1, 2), (cudnn.FLOAT, cudnn.HALF)):
        rng = np.random.default_rng([*pads, window, stride])
        x = rng.integers(-2, 3, (2, 3, 7, 8)).astype(np.float64)
        w = rng.integers(-2, 3, (4, 3, window, window)).astype(np.float64)
        around = np.pad(x, ((0, 0), (0, 0), pads, pads))
        problem = Chosen(2, 3, 4, 1, around.shape[2:], [window] * 2, [stride] * 2, [0, 0], [1, 1])
        want = convert(problem.sums(FORWARD, around, w, None), TYPES[code][1])
        name = f"pads {pads} of a window of {window}, stride {stride}, type {code}"
        bench.same(f"{name}, copied", padded_copy(bench, problem, x, w, pads, code), want)
        if stride == 1:
            bench.same(f"{name}, viewed", viewed(bench, x, w, pads, code), want)


if __name__ == "__main__":
    sys.exit(run((large_convolutions, identities, large_means, bytes_of_eight_bits, uneven_padding), __doc__))
