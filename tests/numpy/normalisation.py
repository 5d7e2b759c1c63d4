"""Random batch normalisation, by all three families of calls, bias gradients and Im2Col against NumPy in binary64.

Tensors have 2 to 8 dimensions, any layout each, in FLOAT, DOUBLE, HALF and BFLOAT16; passes are inference, training with
running and saved statistics, and the gradients, plain and fused with an addition and an activation.

The bound is that of windows.py: (k + 16) roundings of the computation type times the magnitude of what is added, and half a
unit in the last place of what is stored. Statistics are joined in binary64, so that k is a constant whatever the size of a
group. A gradient is judged where no element is so near to a kink of its activation that rounding decides its slope. Where PyTorch
is installed, its batch normalisation has to agree with the formulas of this file on random problems, too.
"""

import argparse
import itertools
import math
import os
import sys
from ctypes import byref, c_double, c_int, c_size_t, c_void_p

import numpy as np

import cudnn
import windows
from reference import TYPES
from tensors import Tensor, make, packed, poison
from windows import FLOATS

PER_ACTIVATION, SPATIAL, PERSISTENT = range(3)
SIGMOID, RELU, TANH, CLIPPED_RELU, ELU, IDENTITY, SWISH = range(7)
PLAIN, EX, NORMALIZATION = range(3)
NOTHING, ACTIVATES, ADDS = range(3)
# Ceiling of the clipped ReLU and alpha of ELU; beta of swish is left as it is set, 1.
COEFFICIENT = 0.75
TERMS = 16


def activated(mode, r):
    """(result, slope, distance to the nearest kink)"""
    far = np.full_like(r, np.inf)
    s = 1 / (1 + np.exp(-r))
    if mode == SIGMOID:
        return s, s * (1 - s), far
    if mode == RELU:
        return np.maximum(r, 0), (r > 0) * 1.0, np.abs(r)
    if mode == TANH:
        return np.tanh(r), 1 - np.tanh(r) ** 2, far
    if mode == CLIPPED_RELU:
        inside = (r > 0) & (r <= COEFFICIENT)
        return np.clip(r, 0, COEFFICIENT), inside * 1.0, np.minimum(np.abs(r), np.abs(r - COEFFICIENT))
    if mode == ELU:
        return np.where(r > 0, r, COEFFICIENT * np.expm1(r)), np.where(r > 0, 1, COEFFICIENT * np.exp(r)), np.abs(r)
    if mode == SWISH:
        return r * s, s + r * s * (1 - s), far
    return r, np.ones_like(r), far


def statistics(x, axes):
    """(mean, variance, variance without bias)"""
    count = math.prod(x.shape[k] for k in axes)
    centre, spread = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return centre, spread, spread * count / max(count - 1, 1)


def averaged(before, new, weight):
    """Running statistics; those before are not read where they count nothing."""
    return before if weight == 0 else new if weight == 1 else (1 - weight) * before + weight * new


def inverse_deviation(spread, epsilon):
    return 1 / np.sqrt(spread + epsilon)


def normalised(x, centre, inverse, scale, bias):
    return (x - centre) * (scale * inverse) + bias


def gradients(g, x, centre, inverse, scale, axes):
    """(dx, dscale, dbias) of a normalisation by the statistics of x itself, where g is the gradient of its result."""
    total = lambda part: part.sum(axes, keepdims=True)
    x_hat, count = (x - centre) * inverse, math.prod(x.shape[k] for k in axes)
    dx = (g - total(g) / count - x_hat * total(g * x_hat) / count) * (scale * inverse)
    return dx, total(g * x_hat), total(g)


class Bench(windows.Bench):
    def __init__(self, options):
        super().__init__(options)
        self.activation = self.lib.create("ActivationDescriptor")

    def values(self, code, shape):
        return self.rng.standard_normal(shape).astype(TYPES[code][1])

    def numbers(self, desc, dims, code, values=None):
        """Parameters: a tensor of a derived descriptor."""
        tensor = Tensor(code, desc, dims, packed(dims, range(len(dims))), "derived")
        tensor.allocate(self.rng, poison(code))
        if values is not None:
            tensor.write(tensor.raw, values)
        return tensor

    def some_dims(self, most):
        rank = int(self.rng.integers(2, 9))
        dims = [int(v) for v in self.rng.choice([1, 2, 3, 5, 9, 30], rank)]
        while math.prod(dims) > most:
            dims[int(np.argmax(dims))] = 2
        return tuple(dims)

    def norm(self):
        rng, lib = self.rng, self.lib
        code, dims = int(rng.choice(FLOATS)), self.some_dims(4000)
        family = int(rng.integers(3))
        mode = int(rng.integers(2 if family == NORMALIZATION else 3))
        fused = NOTHING if family == PLAIN else int(rng.integers(3))
        kind = int(rng.integers(7))
        lib.call("cudnnSetActivationDescriptor", self.activation, kind, 1, c_double(COEFFICIENT))
        if kind == SWISH:
            lib.call("cudnnSetActivationDescriptorSwishBeta", self.activation, c_double(1.0))
        own = cudnn.DOUBLE if code == cudnn.DOUBLE else cudnn.FLOAT
        group = (1, dims[1]) + (dims[2:] if mode == PER_ACTIVATION else (1,) * (len(dims) - 2))
        axes = (0,) if mode == PER_ACTIVATION else (0,) + tuple(range(2, len(dims)))
        values = self.values(code, dims) * 1.0 + float(rng.choice([0.0, 0.0, 3.0]))
        values = values.astype(TYPES[code][1])
        x = self.tensor(code, dims, values)
        desc = lib.create("TensorDescriptor")
        if family == NORMALIZATION:
            lib.call("cudnnDeriveNormTensorDescriptor", desc, lib.create("TensorDescriptor"), x.desc, mode, 1)
        else:
            lib.call("cudnnDeriveBNTensorDescriptor", desc, x.desc, mode)
        assert lib.get(desc)[:3] == (own, group, packed(group, range(len(group)))), lib.get(desc)
        scale, bias, mean, variance = (self.values(own, group) for _ in range(4))
        variance = np.abs(variance) + variance.dtype.type(0.25)
        call = dict(code=code, own=own, dims=dims, group=group, axes=axes, desc=desc, x=x, values=values, scale=scale, bias=bias,
                    mean=mean, variance=variance, family=family, mode=mode, fused=fused, kind=kind, epsilon=float(rng.choice([1e-5, 1e-3])))  # fmt: skip
        call["title"] = f"{['plain', 'Ex', 'Normalization'][family]} mode {mode} ops {fused} activation {kind} {x}"
        if family != EX and rng.integers(3) == 0:
            self.inference(**call)
        else:
            self.training(**call)

    def after(self, r, z, fused, kind):
        """(what follows a normalisation, slope, distance to a kink)"""
        if fused == NOTHING:
            return r, np.ones_like(r), np.full_like(r, np.inf)
        return activated(kind, r + z if fused == ADDS else r)

    def inference(self, code, own, dims, group, desc, x, values, scale, bias, mean, variance, family, mode, fused, kind, epsilon, title, **_):
        rng, lib = self.rng, self.lib
        alpha, beta, *factors = self.factors(code)
        y, old = self.output(code, dims, beta)
        added = self.values(code, dims)
        z = self.tensor(code, dims, added)
        parts = [self.numbers(desc, group, own, part) for part in (scale, bias, mean, variance)]
        with self.memory.placed(x, y, z, *parts) as at:
            x_at, y_at, z_at, s, b, m, v = map(c_void_p, at)
            a, p = map(byref, factors)
            if family == PLAIN:
                lib.call("cudnnBatchNormalizationForwardInference", lib.handle, mode, a, p, x.desc, x_at, y.desc, y_at, desc, s, b, m, v, c_double(epsilon))
            else:
                lib.call("cudnnNormalizationForwardInference", lib.handle, mode, fused, int(rng.integers(2)), a, p, x.desc, x_at, desc, s, b,
                         desc, m, v, z.desc, z_at, self.activation, y.desc, y_at, c_double(epsilon), 1)  # fmt: skip
        wide = [part.astype(np.float64) for part in (values, scale, bias, mean, variance, added)]
        inverse = inverse_deviation(wide[4], epsilon)
        slope = wide[1] * inverse
        r = normalised(wide[0], wide[3], inverse, wide[1], wide[2])
        size = (np.abs(wide[0]) + np.abs(wide[3])) * np.abs(slope) + np.abs(wide[2]) + np.abs(wide[5]) + 1
        self.judge(f"inference {title}", y, self.after(r, wide[5], fused, kind)[0], size, TERMS, old, alpha, beta)

    def training(self, code, own, dims, group, axes, desc, x, values, scale, bias, mean, variance, family, mode, fused, kind, epsilon, title):
        rng, lib = self.rng, self.lib
        alpha, beta, *factors = self.factors(code)
        y, old = self.output(code, dims, beta)
        added = self.values(code, dims)
        z = self.tensor(code, dims, added)
        weight = float(rng.choice([0.0, 0.1, 0.5, 1.0]))
        saves = bool(rng.integers(2))
        s, b = (self.numbers(desc, group, own, part) for part in (scale, bias))
        # With a weight of 1 old averages are not read.
        m, v = (self.numbers(desc, group, own, None if weight == 1 else part) for part in (mean, variance))
        saved = [self.numbers(desc, group, own) for _ in range(2)]
        algo, size = int(rng.integers(2)), c_size_t()
        if family == EX:
            lib.call("cudnnGetBatchNormalizationTrainingExReserveSpaceSize", lib.handle, mode, fused, self.activation, x.desc, byref(size))
        elif family == NORMALIZATION:
            lib.call("cudnnGetNormalizationTrainingReserveSpaceSize", lib.handle, mode, fused, algo, self.activation, x.desc, byref(size), 1)
        reserve = make(lib, rng, cudnn.DOUBLE, (1, -(-max(size.value, 16) // 8)), ["nchw"])
        reserve.allocate(rng, poison(cudnn.DOUBLE))
        with self.memory.placed(x, y, z, s, b, m, v, *saved, reserve) as at:
            x_at, y_at, z_at, s_at, b_at, m_at, v_at, k_at, i_at, r_at = map(c_void_p, at)
            k_at, i_at = (k_at, i_at) if saves else (None, None)
            head = (*map(byref, factors), x.desc, x_at)
            tail = (c_double(weight), m_at, v_at, c_double(epsilon), k_at, i_at)
            if family == PLAIN:
                lib.call("cudnnBatchNormalizationForwardTraining", lib.handle, mode, *head, y.desc, y_at, desc, s_at, b_at, *tail)
            elif family == EX:
                lib.call("cudnnBatchNormalizationForwardTrainingEx", lib.handle, mode, fused, *head, z.desc, z_at, y.desc, y_at, desc, s_at, b_at,
                         *tail, self.activation, None, c_size_t(0), r_at, size)  # fmt: skip
            else:
                lib.call("cudnnNormalizationForwardTraining", lib.handle, mode, fused, algo, *head, desc, s_at, b_at, c_double(weight), desc, m_at,
                         v_at, c_double(epsilon), k_at, i_at, self.activation, z.desc, z_at, y.desc, y_at, None, c_size_t(0), r_at, size, 1)  # fmt: skip
        wide, wide_scale, wide_bias, wide_z = (part.astype(np.float64) for part in (values, scale, bias, added))
        centre, spread, unbiased = statistics(wide, axes)
        inverse = inverse_deviation(spread, epsilon)
        slope = wide_scale * inverse
        r = normalised(wide, centre, inverse, wide_scale, wide_bias)
        magnitude = (np.abs(wide) + np.abs(centre)) * np.abs(slope) + np.abs(wide_bias) + np.abs(wide_z) + 1
        result, slopes, kink = self.after(r, wide_z, fused, kind)
        self.judge(f"training {title}", y, result, magnitude, TERMS, old, alpha, beta)
        reach = np.abs(wide).max(axes, keepdims=True)
        for name, tensor, before, new, large in (("mean", m, mean, centre, reach), ("variance", v, variance, unbiased, unbiased)):
            before = before.astype(np.float64)
            want = averaged(before, new, weight)
            self.judge(f"running {name} of {title}", tensor, want, np.abs(before) + large, TERMS, before, 1, 0)
        if saves:
            self.judge(f"saved mean of {title}", saved[0], centre, reach, TERMS, 0, 1, 0)
            self.judge(f"saved inverse of {title}", saved[1], inverse, inverse, TERMS, 0, 1, 0)
        self.backward(code, own, dims, axes, desc, x, s, b, saved if saves else None, reserve, size, family, mode, fused, kind, epsilon, title,
                      algo, wide, centre, inverse, wide_scale, slopes, kink, magnitude, group)  # fmt: skip

    def backward(self, code, own, dims, axes, desc, x, s, b, saved, reserve, size, family, mode, fused, kind, epsilon, title, algo, wide, centre,
                 inverse, scale, slopes, kink, forward, group):  # fmt: skip
        rng, lib = self.rng, self.lib
        given = self.values(code, dims)
        dy, dz = self.tensor(code, dims, given), self.tensor(code, dims)
        alpha, beta, *factors = self.factors(code)
        param_alpha, param_beta, *param_factors = self.factors(code)
        dx, old = self.output(code, dims, beta)
        before = [self.values(own, group) for _ in range(2)]
        ds, db = (self.numbers(desc, group, own, part if param_beta else None) for part in before)
        stats = saved or [s, s]
        with self.memory.placed(x, dy, dx, dz, s, b, ds, db, *stats, reserve) as at:
            x_at, dy_at, dx_at, dz_at, s_at, b_at, ds_at, db_at, k_at, i_at, r_at = map(c_void_p, at)
            k_at, i_at = (k_at, i_at) if saved else (None, None)
            head = (*map(byref, factors), *map(byref, param_factors), x.desc, x_at)
            if family == PLAIN:
                lib.call("cudnnBatchNormalizationBackward", lib.handle, mode, *head, dy.desc, dy_at, dx.desc, dx_at, desc, s_at, ds_at, db_at,
                         c_double(epsilon), k_at, i_at)  # fmt: skip
            elif family == EX:
                lib.call("cudnnBatchNormalizationBackwardEx", lib.handle, mode, fused, *head, dy.desc, dy_at, dy.desc, dy_at, dz.desc, dz_at,
                         dx.desc, dx_at, desc, s_at, b_at, ds_at, db_at, c_double(epsilon), k_at, i_at, self.activation, None, c_size_t(0),
                         r_at, size)  # fmt: skip
            else:
                lib.call("cudnnNormalizationBackward", lib.handle, mode, fused, algo, *head, dy.desc, dy_at, dy.desc, dy_at, dz.desc, dz_at,
                         dx.desc, dx_at, desc, s_at, b_at, ds_at, db_at, c_double(epsilon), desc, k_at, i_at, self.activation, None,
                         c_size_t(0), r_at, size, 1)  # fmt: skip
        if (kink < 1e-4 * forward).any():
            return
        wide_dy = given.astype(np.float64)
        g, count = wide_dy * slopes, math.prod(dims[k] for k in axes)
        bound = np.abs(wide_dy) * (np.abs(slopes) + (forward if fused != NOTHING else 0))
        large = (np.abs(wide) + np.abs(centre)) * inverse
        total = lambda part: part.sum(axes, keepdims=True)
        dx_want, ds_want, db_want = gradients(g, wide, centre, inverse, scale, axes)
        dx_size = (bound + total(bound) / count + large * total(bound * large) / count) * np.abs(scale * inverse)
        self.judge(f"gradient of {title}", dx, dx_want, dx_size, TERMS, old, alpha, beta)
        for name, tensor, want, magnitude, content in (
            ("scale's", ds, ds_want, total(bound * large), before[0]), ("bias's", db, db_want, total(bound), before[1]),
        ):  # fmt: skip
            self.judge(f"{name} gradient of {title}", tensor, want, magnitude, TERMS, content.astype(np.float64), param_alpha, param_beta)
        if fused == ADDS:
            self.judge(f"z's gradient of {title}", dz, g, bound, TERMS, 0, 1, 0)

    def bias(self):
        rng, lib = self.rng, self.lib
        code, dims = int(rng.choice(FLOATS)), self.some_dims(20000)
        values, group = self.values(code, dims), (1, dims[1]) + (1,) * (len(dims) - 2)
        dy = self.tensor(code, dims, values)
        alpha, beta, *factors = self.factors(code)
        db, old = self.output(code, group, beta)
        with self.memory.placed(dy, db) as (dy_at, db_at):
            lib.call("cudnnConvolutionBackwardBias", lib.handle, byref(factors[0]), dy.desc, c_void_p(dy_at), byref(factors[1]), db.desc, c_void_p(db_at))
        axes = (0,) + tuple(range(2, len(dims)))
        wide = values.astype(np.float64)
        # The tree of sums is no deeper than its blocks and their pairs.
        terms = 64 + math.ceil(math.log2(wide.size))
        self.judge(f"bias gradient {dy}", db, wide.sum(axes, keepdims=True), np.abs(wide).sum(axes, keepdims=True), terms, old, alpha, beta)

    def columns(self):
        rng, lib = self.rng, self.lib
        code = int(rng.choice(FLOATS + [cudnn.INT8]))
        spatial, flips = int(rng.integers(1, 4)), bool(rng.integers(2))
        draw = lambda low, high: [int(v) for v in rng.integers(low, high, spatial)]
        inputs, window, stride, pad, dilation = draw(1, 9), draw(1, 4), draw(1, 4), draw(0, 3), draw(1, 3)
        outputs = [1 + (n + 2 * p - ((f - 1) * d + 1)) // s for n, f, s, p, d in zip(inputs, window, stride, pad, dilation)]
        if any(n + 2 * p < (f - 1) * d + 1 for n, f, p, d in zip(inputs, window, pad, dilation)):
            return
        n, c = int(rng.integers(1, 4)), int(rng.integers(1, 5))
        ints = lambda numbers: (c_int * len(numbers))(*numbers)
        lib.call("cudnnSetConvolutionNdDescriptor", self.convolution, spatial, ints(pad), ints(stride), ints(dilation), 0 if flips else 1, cudnn.FLOAT)
        lib.call("cudnnSetFilterNdDescriptor", self.filter, cudnn.FLOAT, cudnn.NCHW, 2 + spatial, ints([3, c] + window))
        shape = (n, c, *inputs)
        values = rng.integers(-20, 21, shape).astype(np.int8) if code == cudnn.INT8 else self.values(code, shape)
        x = self.tensor(code, shape, values)
        matrix = make(lib, rng, code, (c * math.prod(window), n * math.prod(outputs)), ["nchw"])
        matrix.allocate(rng, poison(code))
        with self.memory.placed(x, matrix) as (x_at, at):
            lib.call("cudnnIm2Col", lib.handle, x.desc, c_void_p(x_at), self.filter, self.convolution, c_void_p(at))
        want = np.zeros((c, *window, n, *outputs))
        for tap in itertools.product(*map(range, window)):
            for out in itertools.product(*map(range, outputs)):
                counted = [f - 1 - t for f, t in zip(window, tap)] if flips else tap
                cell = [o * s + t * d - p for o, s, t, d, p in zip(out, stride, counted, dilation, pad)]
                if all(0 <= i < extent for i, extent in zip(cell, inputs)):
                    want[(slice(None), *tap, slice(None), *out)] = values[(slice(None), slice(None), *cell)].astype(np.float64).T
        self.judge(f"Im2Col {x} {window} {stride} {pad} {dilation} flips {flips}", matrix, want.reshape(matrix.stored), 0, 0, 0, 1, 0)


def agrees_with_torch(rng):
    """Compares the formulas of this file with PyTorch, if it is there: (how many agree, how many were skipped)."""
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch; install it: pip install torch")
        return 0, 1
    functional, agreed = torch.nn.functional, 0
    follows = {
        SIGMOID: torch.sigmoid, RELU: torch.relu, TANH: torch.tanh, CLIPPED_RELU: lambda r: r.clamp(0, COEFFICIENT),
        ELU: lambda r: functional.elu(r, COEFFICIENT), IDENTITY: lambda r: r, SWISH: functional.silu,
    }  # fmt: skip
    for case in range(60):
        dims = tuple(int(v) for v in rng.integers(1, 7, int(rng.integers(2, 7))))
        mode, kind = int(rng.integers(2)), list(follows)[case % len(follows)]
        axes = (0,) if mode == PER_ACTIVATION else (0,) + tuple(range(2, len(dims)))
        if math.prod(dims[k] for k in axes) == 1:
            # PyTorch refuses to train on one number.
            dims = (2, *dims[1:])
        group = tuple(1 if k in axes else extent for k, extent in enumerate(dims))
        epsilon, weight = float(rng.choice([1e-5, 1e-3])), float(rng.uniform(0.05, 1))
        x, z, scale, bias, dy = (torch.tensor(rng.standard_normal(d), requires_grad=True) for d in (dims, dims, group, group, dims))
        mean, variance = rng.standard_normal(group), rng.uniform(0.25, 2, group)
        # Whose channels are all that has statistics of its own.
        seen = (dims[0], -1) if mode == PER_ACTIVATION else dims
        running = [torch.tensor(part).flatten() for part in (mean, variance)]

        def theirs(is_training):
            flat = functional.batch_norm(x.reshape(seen), *running, scale.flatten(), bias.flatten(), is_training, weight, epsilon)
            return follows[kind](flat.reshape(dims) + z)

        wide, wide_z, wide_scale, wide_bias, wide_dy = (part.detach().numpy() for part in (x, z, scale, bias, dy))
        inference = normalised(wide, mean, inverse_deviation(variance, epsilon), wide_scale, wide_bias)
        close = lambda own, other: np.allclose(own, other.detach().numpy().reshape(own.shape), rtol=1e-9, atol=1e-9)
        assert close(activated(kind, inference + wide_z)[0], theirs(False)), (dims, mode, kind)
        y = theirs(True)
        slopes = torch.autograd.grad(y, (x, scale, bias, z), dy)
        centre, spread, unbiased = statistics(wide, axes)
        inverse = inverse_deviation(spread, epsilon)
        result, slope, _ = activated(kind, normalised(wide, centre, inverse, wide_scale, wide_bias) + wide_z)
        assert close(result, y), (dims, mode, kind)
        for before, new, got in ((mean, centre, running[0]), (variance, unbiased, running[1])):
            assert close(averaged(before, new, weight), got), (dims, mode)
        g = wide_dy * slope
        for want, got in zip((*gradients(g, wide, centre, inverse, wide_scale, axes), g), slopes):
            assert close(want, got), (dims, mode, kind)
        agreed += 3
    return agreed, 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20250219)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--core", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--negative-control", action="store_true")
    options = parser.parse_args()
    os.environ["CUDNN_SHIM_BACKEND"] = options.core
    np.seterr(all="ignore")
    bench = Bench(options)
    for case in range(options.cases):
        (bench.norm, bench.norm, bench.norm, bench.bias, bench.columns)[case % 5]()
    skipped = 0
    if not options.negative_control and options.core == "cpu":
        agreed, skipped = agrees_with_torch(bench.rng)
        bench.passed += agreed
    print(f"{bench.passed} passed, {bench.failed} failed, {skipped} skipped")
    return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
