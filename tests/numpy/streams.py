"""The calls without a handle, causal convolutions and graph aggregation, against NumPy in binary64.

    streams.py --library PATH/libcudnn.so.9 [--cases N] [--seed S] [--only I] [--negative-control] [--core cpu|cuda]

A number of the model is a value in binary64 and how far the library's may be off: each operation adds one rounding of the type that the
library computes in, and what its operands are off by, so the bound of a result follows from the formula that computes it. Random problems
over all ten calls of causal convolutions and both of graphs: sizes, both orders of axes, types, activations, ways to join, maps,
targets without edges, equal features, NaNs. What is added to begins as random numbers, what is overwritten as NaNs.
"""

import argparse
import ctypes
import os
import sys
from ctypes import byref, c_int, c_int64, c_size_t, c_void_p

import numpy as np

import cudnn
import device
from reference import TYPES, convert

UNIT = {cudnn.FLOAT: 2.0**-24, cudnn.DOUBLE: 2.0**-53, cudnn.HALF: 2.0**-11, cudnn.BFLOAT16: 2.0**-8}
# Below the smallest normal number roundings are absolute.
TINY = {cudnn.FLOAT: 2.0**-149, cudnn.DOUBLE: 2.0**-1074, cudnn.HALF: 2.0**-24, cudnn.BFLOAT16: 2.0**-133}


class Raw:
    """An array as `placed` takes it, with guards."""

    def __init__(self, array):
        body = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.raw = np.concatenate([np.full(64, 0xA5, np.uint8), body, np.full(64, 0xA5, np.uint8)])
        self.address = self.raw.ctypes.data + 64
        self.kind, self.shape = array.dtype, array.shape

    def array(self):
        body = self.raw[64:-64]
        return body.copy().view(self.kind).reshape(self.shape)

    def is_guarded(self):
        return (self.raw[:64] == 0xA5).all() and (self.raw[-64:] == 0xA5).all()


class Wide:
    """Values in binary64, and how far those of the library may be off, which computes with roundings of `unit`."""

    def __init__(self, value, off=None, unit=0.0):
        self.value = np.asarray(value, np.float64)
        self.off = np.zeros_like(self.value) if off is None else off
        self.unit = unit

    def __mul__(self, other):
        value = self.value * other.value
        off = abs(self.value) * other.off + abs(other.value) * self.off + self.off * other.off
        return Wide(value, off + self.unit * abs(value), self.unit)

    def moved(self, change):
        return Wide(change(self.value), change(self.off), self.unit)

    def of_channels(self):
        """Of each channel, for every sequence and position."""
        return self.moved(lambda array: array[None, :, None])

    def silu(self):
        share = 1 / (1 + np.exp(-self.value))
        value = self.value * share
        # The slope is 1.1 at most; exponential and quotient are a few roundings.
        return Wide(value, 1.1 * self.off + 8 * self.unit * abs(value), self.unit)

    def silu_slope(self):
        share = 1 / (1 + np.exp(-self.value))
        value = share * (1 + self.value * (1 - share))
        return Wide(value, 0.5 * self.off + 12 * self.unit * (1 + abs(self.value)), self.unit)

    def rounded(self, code):
        return Wide(self.value, self.off + UNIT[code] * (abs(self.value) + self.off) + TINY[code], self.unit)


def total(terms):
    """The sum of several, one after the other."""
    sizes = sum(abs(term.value) for term in terms)
    off = sum(term.off for term in terms) + len(terms) * terms[0].unit * sizes
    return Wide(sum(term.value for term in terms), off, terms[0].unit)


def summed(wide, axes):
    """The sum along axes, in whatever order."""
    count = np.prod([wide.value.shape[axis] for axis in axes])
    off = wide.off.sum(axes) + count * wide.unit * abs(wide.value).sum(axes)
    return Wide(wide.value.sum(axes), off, wide.unit)


def later(wide, steps):
    """Each position has what was `steps` positions before; zeros come first. Negative steps look ahead."""

    def shift(array):
        result, length = np.zeros_like(array), array.shape[-1]
        if steps >= 0:
            result[..., steps:] = array[..., : max(length - steps, 0)]
        else:
            result[..., : max(length + steps, 0)] = array[..., -steps:]
        return result

    return wide.moved(shift)


def causal(x, weight):
    """`sum over k of weight[k] x[t - (K - 1) + k]`, of each channel."""
    taps = weight.value.shape[-1]
    return total([weight.moved(lambda w, k=k: w[..., k]).of_channels() * later(x, taps - 1 - k) for k in range(taps)])


def transposed(g, weight):
    """`sum over k of weight[k] g[s + (K - 1) - k]`"""
    taps = weight.value.shape[-1]
    return total([weight.moved(lambda w, k=k: w[..., k]).of_channels() * later(g, k - taps + 1) for k in range(taps)])


def by_taps(g, x, taps):
    """`sum of g[t] x[t - (K - 1) + k]` over all sequences and positions."""
    sums = [summed(g * later(x, taps - 1 - k), (0, 2)) for k in range(taps)]
    return Wide(np.stack([each.value for each in sums], -1), np.stack([each.off for each in sums], -1), g.unit)


class Streams:
    def __init__(self, options):
        self.lib = cudnn.Library(options.library, device.Cuda() if options.core == "cuda" else device.Host())
        self.control = options.negative_control
        self.rng = None

    def call(self, name, arguments):
        """Arrays go to the core's memory for the time of the call."""
        arrays = [each for each in arguments if isinstance(each, Raw)]
        with self.lib.memory.placed(*arrays) as places:
            at = dict(zip(map(id, arrays), places))
            self.lib.call(name, None, *[c_void_p(at[id(each)]) if isinstance(each, Raw) else each for each in arguments])
        assert all(array.is_guarded() for array in arrays), f"{name}: memory around an operand was written"

    def differs(self, what, got, want):
        got = got.astype(np.float64)
        if self.control and got.size:
            at = tuple(int(self.rng.integers(extent)) for extent in got.shape)
            got[at] = np.nan_to_num(got[at]) + 3 * want.off[at] + 1e-3
        wrong = ~(abs(got - want.value) <= want.off) & ~(np.isnan(got) & np.isnan(want.value)) & ~(got == want.value)
        if not wrong.any():
            return None
        at = tuple(int(axis) for axis in np.argwhere(wrong)[0])
        return f"{what}{list(at)} is {got[at]}, not {want.value[at]} +- {want.off[at]}"

    def numbers(self, code, *shape):
        return convert(self.rng.standard_normal(shape), TYPES[code][1])

    def nothing(self, code, *shape):
        return Raw(np.full(shape, np.nan).astype(TYPES[code][1]))

    def convolution(self):
        rng = self.rng
        form = str(rng.choice(["direct", "inside", "gated", "fourier", "long"]))
        code = int(rng.choice([cudnn.FLOAT, cudnn.DOUBLE, cudnn.HALF, cudnn.BFLOAT16]))
        batch, dim, length = int(rng.integers(1, 4)), int(rng.integers(1, 20)), int(rng.integers(1, 90))
        taps, mixer = int(rng.integers(1, 12)), int(rng.integers(1, 30))
        if form in ("fourier", "long") and rng.random() < 0.3:
            taps = int(rng.integers(60, 130))
        sums = cudnn.DOUBLE if code == cudnn.DOUBLE else cudnn.FLOAT
        sizes = [batch, dim, length]
        wide = lambda array: Wide(array, None, UNIT[sums])
        what = f"{form} {TYPES[code][0]} {sizes}, {taps} taps"
        if form == "gated":
            return self.gated(what, code, sums, sizes, taps, mixer, wide)
        x, weight, dy = self.numbers(code, *sizes), self.numbers(code, dim, taps), self.numbers(code, *sizes)
        if form in ("direct", "inside"):
            return self.direct(what, form == "inside", code, sums, sizes, x, weight, dy, wide)
        # The tap of the newest position comes first.
        oldest_first = wide(weight).moved(lambda w: w[:, ::-1])
        held = [Raw(array) for array in (x, weight, dy)]
        y, dx, dw = self.nothing(code, *sizes), self.nothing(code, *sizes), self.nothing(code, dim, taps)
        numbers = [*map(c_int, [*sizes, taps]), code]
        if form == "fourier":
            self.call("cudnnFFTCausalConv1dForward", [*held[:2], y, *numbers])
            self.call("cudnnFFTCausalConv1dBackward", [*held, dx, dw, *numbers])
        else:
            work, kept = c_size_t(), c_size_t()
            self.lib.call("cudnnLongFFTCausalConv1dGetBufferSizes", *numbers, byref(work), byref(kept))
            spaces = [Raw(np.full(size.value, 0xFF, np.uint8)) for size in (work, kept)]
            given = [spaces[0], work, spaces[1], kept]
            self.call("cudnnLongFFTCausalConv1dForward", [*held[:2], y, *numbers, *given])
            self.call("cudnnLongFFTCausalConv1dBackward", [held[2], dx, dw, *numbers, *given])
        want_w = by_taps(wide(dy), wide(x), taps).moved(lambda w: w[:, ::-1])
        wants = (causal(wide(x), oldest_first), transposed(wide(dy), oldest_first), want_w)
        for name, got, want in zip(("y", "dx", "dweight"), (y, dx, dw), wants):
            if wrong := self.differs(name, got.array(), want.rounded(code)):
                return f"{what}: {wrong}"
        return None

    def direct(self, what, inside, code, sums, sizes, x, weight, dy, wide):
        batch, dim, length = sizes
        taps = weight.shape[1]
        silu = bool(self.rng.random() < 0.5)
        bias = self.numbers(code, dim)
        order = lambda array: np.ascontiguousarray(array.transpose(0, 2, 1)) if inside else array
        turned = lambda array: np.ascontiguousarray(array.T) if inside else array
        name = "cudnnCausalConv1d" + "Nwh" * inside
        y, dx = (Raw(order(np.full(sizes, np.nan)).astype(TYPES[code][1])) for _ in range(2))
        old_w, old_b = self.numbers(sums, dim, taps), self.numbers(sums, dim)
        dw, db = Raw(turned(old_w)), Raw(old_b)
        held = [Raw(order(x)), Raw(turned(weight)), Raw(bias)]
        numbers = [*map(c_int, [*sizes, taps]), code]
        self.call(name + "Forward", [*held, y, *numbers, int(silu)])
        self.call(name + "Backward", [*held, Raw(order(dy)), dx, dw, db, *numbers, sums, int(silu)])
        v = total([wide(bias).of_channels(), causal(wide(x), wide(weight))])
        g = wide(dy) * v.silu_slope() if silu else wide(dy)
        wants = [
            ("y", order(y.array()) if inside else y.array(), (v.silu() if silu else v).rounded(code)),
            ("dx", order(dx.array()) if inside else dx.array(), transposed(g, wide(weight)).rounded(code)),
            ("dweight", turned(dw.array()), total([wide(old_w), by_taps(g, wide(x), taps)]).rounded(sums)),
            ("dbias", db.array(), total([wide(old_b), summed(g, (0, 2))]).rounded(sums)),
        ]
        for result, got, want in wants:
            if wrong := self.differs(result, got, want):
                return f"{what}, SiLU {silu}: {wrong}"
        return None

    def gated(self, what, code, sums, sizes, taps, mixer, wide):
        batch, dim, length = sizes
        x = self.numbers(code, batch, dim, 3, length)
        wp, wm, skip, dy = (self.numbers(code, *shape) for shape in ((dim, 3, taps), (dim, mixer), (dim,), sizes))
        old = [self.numbers(sums, *shape) for shape in ((dim, 3, taps), (dim, mixer), (dim,))]
        held, added = [Raw(array) for array in (x, wp, wm, skip)], [Raw(array) for array in old]
        y, gated, dx = self.nothing(code, *sizes), self.nothing(code, *sizes), self.nothing(code, *x.shape)
        numbers = [*map(c_int, [*sizes, taps, mixer]), code]
        self.call("cudnnB2BCausalConv1dForward", [*held, y, gated, *numbers])
        self.call("cudnnB2BCausalConv1dBackward", [*held, y, Raw(dy), dx, *added, *numbers, sums])
        inputs = [wide(x[:, :, q]) for q in range(3)]
        weights = [wide(wp[:, q]) for q in range(3)]
        p = [causal(*pair) for pair in zip(inputs, weights)]
        u, of_skip = p[1] * p[2], wide(skip).of_channels()
        want_y = total([causal(u, wide(wm)), of_skip * u])
        d = wide(dy) * p[0]
        du = total([transposed(d, wide(wm)), of_skip * d])
        # The gradient takes y as the forward call has rounded it.
        dp = [wide(dy) * wide(y.array().astype(np.float64)), du * p[2], du * p[1]]
        stack = lambda parts, axis: Wide(np.stack([w.value for w in parts], axis), np.stack([w.off for w in parts], axis), u.unit)
        of_projections = stack([by_taps(*pair, taps) for pair in zip(dp, inputs)], 1)
        wants = [
            ("y", y, want_y.rounded(code)),
            ("yGated", gated, (want_y * p[0]).rounded(code)),
            ("dx", dx, stack([transposed(*pair) for pair in zip(dp, weights)], 2).rounded(code)),
            ("dweightsProj", added[0], total([wide(old[0]), of_projections]).rounded(sums)),
            ("dweightsMixer", added[1], total([wide(old[1]), by_taps(d, u, mixer)]).rounded(sums)),
            ("dskipBias", added[2], total([wide(old[2]), summed(d * u, (0, 2))]).rounded(sums)),
        ]
        for name, got, want in wants:
            if wrong := self.differs(name, got.array(), want):
                return f"{what}, {mixer} of the mixer: {wrong}"
        return None

    def aggregation(self):
        rng = self.rng
        join = int(rng.integers(4))
        code = int(rng.choice([cudnn.FLOAT, cudnn.HALF, cudnn.BFLOAT16]))
        index, index_code = (np.int32, cudnn.INT32) if rng.random() < 0.5 else (np.int64, cudnn.INT64)
        sources, targets = int(rng.integers(1, 12)), int(rng.integers(1, 12))
        degrees = rng.integers(0, 7, targets) * (rng.random(targets) < 0.8)
        offsets = np.concatenate([[0], np.cumsum(degrees)]).astype(index)
        edges = int(offsets[-1])
        indices, rows = rng.integers(0, sources, edges).astype(index), rng.permutation(edges).astype(index)
        is_mapped = bool(rng.random() < 0.5)
        columns = [int(rng.integers(0, 5)) for _ in range(3)]
        if columns[0] + columns[1] == 0:
            columns[0] = 1
        node, edge, concat = columns
        # Few different numbers: equals are the rule.
        few = rng.random() < 0.4
        draw = lambda *shape: convert(np.round(rng.standard_normal(shape)) if few else rng.standard_normal(shape), TYPES[code][1])
        features = [draw(sources, node), draw(edges, edge), draw(targets, concat)]
        if join >= 2 and rng.random() < 0.3:
            for array in features:
                array[rng.random(array.shape) < 0.1] = np.nan
        if not is_mapped:
            rows = np.arange(edges, dtype=index)
        what = f"{['sum', 'mean', 'max', 'min'][join]} {TYPES[code][0]} {sources} to {targets} by {edges} edges, columns {columns}"

        # By edges, in compressed order.
        wide = np.concatenate([features[0][indices].astype(float), features[1][rows].astype(float)], 1)
        unit = UNIT[cudnn.FLOAT]
        joined, chosen = np.zeros((targets, node + edge)), np.full((targets, node + edge), -1)
        off = np.zeros_like(joined)
        for v in range(targets):
            own = wide[offsets[v] : offsets[v + 1]]
            if len(own) == 0:
                continue
            if join < 2:
                share = len(own) if join == 1 else 1
                joined[v] = own.sum(0) / share
                off[v] = (len(own) + 1) * unit * abs(own).sum(0) / share
                continue
            key = np.where(np.isnan(own), np.inf, own if join == 2 else -own)
            chosen[v] = offsets[v] + key.argmax(0)
            joined[v] = wide[chosen[v], np.arange(node + edge)]
        want = Wide(np.concatenate([joined, features[2].astype(float)], 1), np.concatenate([off, np.zeros((targets, concat))], 1), unit)
        exact = join >= 2
        output = self.nothing(code, targets, node + edge + concat)
        positions = Raw(np.full((targets, node + edge), -7, index))
        graph = [Raw(array) for array in (offsets, indices, rows)]
        given = [Raw(array) if array.shape[1] else None for array in features]
        counts = [*map(c_int, columns), code, join]
        sized = (sources, targets, edges, index_code, is_mapped)
        self.on_graph("cudnnGnnAggSimpleForward", graph, sized, [*given, output, positions], counts)
        if wrong := self.differs("output", output.array(), want if exact else want.rounded(code)):
            return f"{what}: {wrong}"
        if not np.array_equal(positions.array(), chosen if join >= 2 else np.full_like(chosen, -7)):
            return f"{what}: other positions"

        dy = draw(targets, node + edge + concat)
        old = [draw(sources, node), draw(edges, edge), np.full((targets, concat), np.nan).astype(TYPES[code][1])]
        gradients = [Raw(array) if array.shape[1] else None for array in old]
        self.on_graph("cudnnGnnAggSimpleBackward", graph, sized, [Raw(dy), positions, *gradients], counts)
        shares = np.zeros((edges, node + edge))
        for v in range(targets):
            for e in range(offsets[v], offsets[v + 1]):
                taken = dy[v, : node + edge].astype(float)
                if join == 1:
                    taken = taken / (offsets[v + 1] - offsets[v])
                shares[e] = taken if join < 2 else np.where(chosen[v] == e, taken, 0)
        places = [(indices, shares[:, :node], old[0]), (rows, shares[:, node:], old[1])]
        for name, got, (to, parts, before) in zip(("nodes", "edges"), gradients, places):
            if got is None:
                continue
            sums, sizes, terms = before.astype(float), abs(before.astype(float)), np.ones(len(before))
            np.add.at(sums, to, parts)
            np.add.at(sizes, to, abs(parts))
            np.add.at(terms, to, 1)
            bound = Wide(sums, (terms[:, None] + 1) * unit * sizes, unit).rounded(code)
            bound.off[terms == 1] = 0
            if wrong := self.differs(f"gradient of {name}", got.array(), bound):
                return f"{what}: {wrong}"
        if concat and (wrong := self.differs("gradient of the rest", gradients[2].array(), Wide(dy[:, node + edge :].astype(float)))):
            return f"{what}: {wrong}"
        return None

    def on_graph(self, name, graph, sized, arrays, counts):
        sources, targets, edges, index_code, is_mapped = sized

        class Graph(ctypes.Structure):
            _fields_ = [(each, c_void_p) for each in ("offsets", "indices", "map", "reverse")]
            _fields_ += [(each, c_int64) for each in ("sources", "targets", "edges")] + [("index", c_int)]

        held = [array for array in [*graph, *arrays] if array is not None]
        with self.lib.memory.placed(*held) as places:
            at = dict(zip(map(id, held), places))
            pointers = [at[id(array)] for array in graph]
            described = Graph(*pointers[:2], pointers[2] if is_mapped else None, None, sources, targets, edges, index_code)
            given = [c_void_p(at[id(array)]) if array is not None else None for array in arrays]
            self.lib.call(name, None, byref(described), *given, *counts)
        assert all(array.is_guarded() for array in held), f"{name}: memory around an operand was written"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--only", type=int)
    parser.add_argument("--negative-control", action="store_true")
    parser.add_argument("--core", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    os.environ["CUDNN_SHIM_BACKEND"] = options.core
    np.seterr(all="ignore")
    streams = Streams(options)
    passed = failed = 0
    for index in range(options.cases) if options.only is None else [options.only]:
        streams.rng = np.random.default_rng([options.seed, index])
        try:
            wrong = streams.aggregation() if index % 3 == 2 else streams.convolution()
        except (cudnn.Refused, AssertionError) as error:
            wrong = str(error)
        if options.negative_control:
            wrong = None if wrong else "a wrong result went unnoticed"
        passed, failed = passed + (not wrong), failed + bool(wrong)
        if wrong and failed <= 20:
            print(f"FAILED case {index}: {wrong}", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
