"""What the documentation promises of layers beyond single results, against NumPy in binary64 or bit by bit.

Layouts: whole numbers give the same results whatever the layouts of operands. Batches: an image has the same bits alone, in a
batch of any size and at any place. Extents above 65,535 in turn, and 1,025 channels. A hundred thousand halves in one sum.
Softmax at the ends of its types. Statistics of 1, 2 and 20 elements, and averages that are not read. The three families of
normalisation have the same bits. Dropout of nothing and of all.
"""

import argparse
import itertools
import sys

import numpy as np

import cudnn
import layers
import sampler
from calls import BACKWARD, FORWARD, Calls, own
from combinations import Bench as Convolutions
from combinations import Chosen
from convolution import NAMES
from reference import TYPES, convert

FLOATS = [cudnn.FLOAT, cudnn.DOUBLE, cudnn.HALF, cudnn.BFLOAT16]
# Half a unit in the last place, and the least number.
HALF_UNIT = {cudnn.FLOAT: 2.0**-24, cudnn.DOUBLE: 2.0**-53, cudnn.HALF: 2.0**-11, cudnn.BFLOAT16: 2.0**-8}
LEAST = {cudnn.FLOAT: 2.0**-149, cudnn.DOUBLE: 0.0, cudnn.HALF: 2.0**-24, cudnn.BFLOAT16: 2.0**-133}
TERMS = 100_000


class Bench(Convolutions):
    def __init__(self, options):
        super().__init__(options)
        self.calls = Calls(self.lib, options.seed)
        self.wholes = Calls(self.lib, options.seed, whole=True)

    def same(self, name, got, want):
        """Bit for bit but for NaNs, which are alike, and the sign of zero."""
        got, want = np.asarray(got), np.asarray(want)
        if self.options.negative_control:
            want = want.copy()
            want.reshape(-1)[0] = 77
        wrong = ~((got == want) | ((got != got) & (want != want)))
        self.tell(name, f"{np.count_nonzero(wrong)} of {wrong.size} differ: {got[wrong][:3]} instead of {want[wrong][:3]}" if wrong.any() else None)

    def near(self, name, got, want, bound):
        """Not off by more than `bound`, and one rounding to the type of what is got."""
        got, want = np.asarray(got), np.asarray(want, np.float64)
        code = next((code for code in FLOATS if TYPES[code][1] == got.dtype.type), None)
        wide = got.astype(np.float64)
        if self.options.negative_control:
            want = np.where(np.isfinite(want), want + 1 + np.abs(want) / 8, 0)
        allowed = bound + (HALF_UNIT[code] * (np.abs(want) + bound) * 1.001 + LEAST[code] if code is not None else 0)
        # What leaves the type is infinite.
        stored = convert(want, got.dtype.type).astype(np.float64)
        wrong = ~((np.abs(wide - want) <= allowed) | (wide == stored) | (np.isnan(wide) & np.isnan(want)))
        self.tell(name, f"{np.count_nonzero(wrong)} of {wrong.size} are off: {wide[wrong][:3]} instead of {want[wrong][:3]}" if wrong.any() else None)


def layouts(bench):
    sides = list(itertools.product(("nchw", "nhwc"), repeat=2))[1:]
    for shape, code in itertools.product([(3, 5, 9, 8), (2, 40, 7, 6), (2, 4, 5, 6, 3)], FLOATS):
        x = bench.wholes.fixed(0, shape)
        for name in FORWARD + BACKWARD:
            if name.startswith("sample") and len(shape) > 4:
                continue
            want = bench.wholes.run(name, code, x)
            for pair in sides:
                for got, first in zip(bench.wholes.run(name, code, x, pair), want):
                    title = f"{name} of {shape} type {code} in {pair}"
                    if name.startswith(("softmax", "normalise")):
                        # Sums of what is no whole number take the order of the layout.
                        first = first.astype(np.float64)
                        unit = HALF_UNIT[own(code)]
                        bench.near(title, got, first, 8 * unit * np.abs(first).max() + 2 * HALF_UNIT[code] * np.abs(first))
                    else:
                        bench.same(title, got, first)


def batches(bench):
    calls = Calls(bench.lib, bench.options.seed, images=1000)
    for code, layout in itertools.product((cudnn.FLOAT, cudnn.HALF), ("nchw", "nhwc")):
        for shape in [(1000, 36, 6, 7), (1000, 3, 9, 11)]:
            x = calls.fixed(0, shape)
            for name in FORWARD:
                whole = calls.run(name, code, x, (layout, layout))[0]
                for first, count in ((0, 1), (999, 1), (3, 2), (500, 3), (17, 4), (936, 64)):
                    part = calls.run(name, code, x[first : first + count], (layout, layout), first)[0]
                    bench.same(f"{name} images {first} and on of {shape} type {code} {layout}", part, whole[first : first + count])


def moments(x, axes):
    return x.mean(axes, keepdims=True), x.var(axes, keepdims=True)


def parameters(calls, code, shape, mode):
    """scale, bias, mean and variance as the calls draw them."""
    group = (1, shape[1]) + (shape[2:] if mode == 0 else (1,) * (len(shape) - 2))
    kind = TYPES[own(code)][1]
    drawn = (np.abs(calls.fixed(which, group)) + low for which, low in ((7, 0.5), (8, 0.0), (9, 0.0), (10, 0.25)))
    return [numbers.astype(kind).astype(np.float64) for numbers in drawn]


def check_training(bench, name, code, x, mode, **how):
    """A training pass against the formulas."""
    y, mean, variance, kept, inverse = bench.calls.run(f"normalise {mode} training", code, x, **how)
    axes = (0,) if mode == 0 else (0,) + tuple(range(2, x.ndim))
    wide = convert(x, TYPES[code][1]).astype(np.float64)
    scale, bias, old_mean, old_variance = parameters(bench.calls, code, x.shape, mode)
    centre, spread = moments(wide, axes)
    count, factor = wide.size // centre.size, how.get("factor", 0.25)
    small, unit = np.abs(wide).max() + 1, HALF_UNIT[own(code)]
    root = np.sqrt(spread + how.get("epsilon", 1e-3))
    bench.near(f"{name}: y", y, (wide - centre) / root * scale + bias, 32 * unit * (small / root * scale + np.abs(bias)))
    fresh = spread * count / max(count - 1, 1)
    for what, got, new, old in (("mean", mean, centre, old_mean), ("variance", variance, fresh, old_variance)):
        want = new if factor == 1 else (1 - factor) * old + factor * new
        bench.near(f"{name}: running {what}", got, want, 16 * unit * (small**2 + np.abs(want)))
    bench.near(f"{name}: saved mean", kept, centre, 16 * unit * small)
    bench.near(f"{name}: saved inverse", inverse, 1 / root, 16 * unit * small / root)


def large_extents(bench):
    """Layers that other programs here do not stretch: normalisations, bias gradients, response and samplers."""
    for shape in [(70000, 2, 1, 3), (2, 70000, 1, 2), (1, 2, 65536, 2), (1, 2, 3, 131071)]:
        x = bench.calls.fixed(0, shape)
        for mode in range(2):
            check_training(bench, f"normalise {mode} {shape}", cudnn.FLOAT, x, mode)
        got = bench.wholes.run("bias", cudnn.FLOAT, bench.wholes.fixed(0, shape))[0]
        bench.same(f"bias gradient {shape}", got, bench.wholes.fixed(0, shape).sum((0, 2, 3), keepdims=True))
        for n in (4, 5):
            wide = x.astype(np.float32).astype(np.float64)
            before, sums = (n - 1) // 2, np.zeros_like(wide)
            for step in range(-before, n - before):
                low, high = max(0, -step), min(shape[1], shape[1] - step)
                if low < high:
                    sums[:, low:high] += wide[:, low + step : high + step] ** 2
            want = wide * (1.25 + 0.4 / n * sums) ** -0.75
            got = bench.calls.run("respond channels forward", cudnn.FLOAT, x, n=n)[0]
            bench.near(f"response {n} {shape}", got, want, 2.0**-20 * np.abs(want))
    sampled = [
        (65536, 1, 2, 2, 1, 2), (2, 1025, 4, 5, 3, 2), (1, 2, 70000, 2, 5, 3), (1, 1, 2, 131071, 2, 3), (1, 1, 300, 3, 70000, 1),
        (1, 70000, 2, 2, 2, 2),
    ]  # fmt: skip
    for n, c, h, w, p, q in sampled:
        x, rng = bench.calls.fixed(0, (n, c, h, w)), np.random.default_rng(n + c)
        grid = rng.uniform(-1.2, 1.2, (n, p, q, 2))
        grid.reshape(-1)[: 8] = [np.nan, 0.5, 1e30, -1e30, 0.25, np.inf, -1.0, 1.0]
        single = grid.astype(np.float32)
        wide = x.astype(np.float32).astype(np.float64)
        y = bench.calls.run("sample forward", cudnn.FLOAT, x, grid=single)[0]
        want, size = sampler.sample(wide, single, np.float32)
        bench.near(f"sampler {x.shape} to {p} x {q}", y, want, 2.0**-21 * size)
        dy = bench.calls.images(14, 0, (n, c, p, q)).astype(np.float32).astype(np.float64)
        dx, slopes = bench.calls.run("sample backward", cudnn.FLOAT, x, grid=single)
        (want, size, terms), (want_grid, grid_size) = sampler.gradients(wide, dy, single, np.float32)
        bench.near(f"sampler's gradient {x.shape}", dx, want, (terms + 16) * 2.0**-24 * size)
        bench.near(f"grid's gradient {x.shape}", slopes, want_grid, (4 * c + 16) * 2.0**-24 * grid_size)


def long_sums(bench):
    """Right to one rounding where halves overflow on the way: 1.0, and 60,000 and its opposite by turns."""
    ones, turns = np.ones(TERMS), np.where(np.arange(TERMS) % 2, -60000.0, 60000.0)
    halves = [code for code in FLOATS if code in (cudnn.HALF, cudnn.BFLOAT16)]
    for code, (what, terms) in itertools.product(halves, (("ones", ones), ("turns", turns))):
        terms = convert(terms, TYPES[code][1]).astype(np.float64)
        # One channel or filter more for the turns, whose sum then is one of them.
        more = np.append(terms, terms[0]) if what == "turns" else terms
        k, half = len(more), 0.5 if what == "ones" else 1.0
        for compute in (cudnn.FLOAT, cudnn.HALF):
            for direction, (channels, filters, pixels) in enumerate([(k, 1, 1), (1, k, 1), (1, 1, k)]):
                problem = Chosen(1, channels, filters, 1, [pixels], [1], [1], [0], [1])
                data = [more.reshape(1, -1, 1), more.reshape(1, -1, 1), more.reshape(1, 1, -1)][direction]
                factor = np.full([problem.w, problem.w, problem.y][direction], half)
                values = [np.zeros(problem.x), np.zeros(problem.w), np.zeros(problem.y)]
                values[[0, 2, 0][direction]], values[[1, 1, 2][direction]] = data, factor
                bench.describe(problem, compute)
                tensors = bench.operands(np.random.default_rng(0), problem, code, values, ["nchw"])
                dst = tensors[[2, 0, 1][direction]]
                bench.compute(direction, tensors, [t.address for t in tensors], 1, bench.workspace(direction, tensors, 1))
                bench.same(f"{NAMES[direction]} of {what} in {code}, {compute}", dst.read().reshape(-1),
                           convert(np.array([(more * half).sum()]), TYPES[code][1]))  # fmt: skip
                bench.forget(*tensors)
        # 60,000 squared is beyond halves, and so is the sum of squares.
        row = terms.reshape(1, 1, 1, -1)
        want = row.mean(keepdims=True)
        for mode in (1, 2):
            got = bench.calls.run(f"pool {mode} forward", code, row, covers=True)[0]
            bench.near(f"average {mode} of {what} in {code}", got, want, 2.0**-40 * np.abs(row).mean())
        y, mean, variance, kept, inverse = bench.calls.run("normalise 1 training", code, row)
        bench.near(f"mean of {what} in {code}", kept, row.mean(keepdims=True).reshape(1, 1, 1, 1), 2.0**-40 * np.abs(row).max())
        bench.near(f"inverse of {what} in {code}", inverse, 1 / np.sqrt(row.var() + 1e-3).reshape(1, 1, 1, 1), 2.0**-22)
        got = bench.calls.run("bias", code, convert(row * 2.0**-4, TYPES[code][1]).astype(np.float64))[0]
        bench.same(f"bias gradient of {what} in {code}", got.reshape(-1), convert(np.array([(terms * 2.0**-4).sum()]), TYPES[code][1]))
        channels = terms.reshape(1, -1, 1, 1)
        y = bench.calls.run("softmax 1 1 forward", code, channels)[0]
        want = np.exp(channels - channels.max())
        bench.near(f"softmax of {what} in {code}", y, want / want.sum(), 2.0**-20 * want / want.sum())
        y = bench.calls.run("respond channels forward", code, channels[:, :50])[0]
        squares = np.convolve(channels[0, :50, 0, 0] ** 2, np.ones(5), "same").reshape(1, -1, 1, 1)
        want = channels[:, :50] * (1.25 + 0.08 * squares) ** -0.75
        bench.near(f"response of {what} in {code}", y, want, 2.0**-18 * np.abs(want))


def extreme_softmax(bench):
    inf, nan = np.inf, np.nan
    rows = {
        "masked": [0.0, -1e4, -inf, 3.0, 2.5, -inf, 1.0], "high": [1e4, 1e4, -1e4, 9999.0, 0.0, -inf, 1e4],
        "ends": [65504.0, -65504.0, 65504.0, 65472.0, 0.0, -65504.0, -inf], "one": [-inf] * 6 + [-1e4],
        "low": [-65504.0] * 7, "nothing": [-inf] * 7, "infinite": [0.0, inf, 1.0, 2.0, -inf, 3.0, 4.0],
        "nan": [0.0, nan, 1.0, 2.0, -inf, 3.0, 4.0],
    }  # fmt: skip
    for (name, row), code, repeats in itertools.product(rows.items(), FLOATS, (1, 7, 300)):
        # As channels of several positions, and as the whole of an instance.
        values = convert(np.tile(np.array(row), repeats), TYPES[code][1]).astype(np.float64)
        for algorithm, mode in itertools.product(range(3), range(2)):
            x = values.reshape(1, 1, 1, -1) if mode == 0 else np.broadcast_to(values.reshape(1, -1, 1, 1), (2, values.size, 1, 3))
            axes = (1, 2, 3) if mode == 0 else (1,)
            want, size = layers.softmax(x, axes, algorithm == 2)
            got = bench.calls.run(f"softmax {algorithm} {mode} forward", code, x)[0]
            title = f"softmax {algorithm} {mode} of {name} x {repeats} type {code}"
            scale = 64 * HALF_UNIT[own(code)]
            bench.near(title, got, want, scale * np.nan_to_num(size, nan=0, posinf=0, neginf=0))
            if name in ("masked", "one") and algorithm < 2:
                gone = np.broadcast_to(x <= -1e4 if name == "masked" else np.isneginf(x), got.shape)
                bench.same(f"{title}: zeros", got[gone].astype(np.float64), np.zeros(np.count_nonzero(gone)))
            if name in ("nothing", "infinite", "nan"):
                bench.tell(f"{title}: NaN", None if np.isnan(got.astype(np.float64)).all() != bench.options.negative_control else "not all NaN")


def few_elements(bench):
    """m of 1, 2 and 20; averages of NaN with a factor of 1; an epsilon of 0; without saved statistics; at inference."""
    calls = bench.calls
    for code, m, mode in itertools.product(FLOATS, (1, 2, 20), range(2)):
        shape = (m, 3, 1, 1) if mode == 0 or m < 20 else (4, 3, 5, 1)
        x = calls.fixed(0, shape)
        for epsilon in (1e-3, 1e-5, 0.0):
            if m > 1 or epsilon > 0:
                check_training(bench, f"{m} elements, mode {mode}, type {code}, epsilon {epsilon}", code, x, mode, epsilon=epsilon)
        check_training(bench, f"{m} elements, mode {mode}, type {code}, averages not read", code, x, mode, factor=1.0, running=np.nan)
        keep, forget = (calls.run(f"normalise {mode} gradient", code, x, ("nchw", "nhwc"), saves=saves) for saves in (True, False))
        for what, one, other in zip(("dx", "scale's", "bias's"), keep, forget):
            bench.same(f"{what} gradient of {m} elements without saved statistics, mode {mode}, type {code}", other, one)
    for mode, code in itertools.product(range(2), FLOATS):
        # The gradient at inference: the call on dy with a mean and a bias of 0.
        dy = calls.fixed(0, (3, 4, 5, 2))
        scale, _, _, variance = parameters(calls, code, dy.shape, mode)
        got = calls.run(f"normalise {mode} constant", code, dy)[0]
        want = convert(dy, TYPES[code][1]).astype(np.float64) * scale / np.sqrt(variance + 1e-3)
        bench.near(f"gradient at inference, mode {mode}, type {code}", got, want, 16 * HALF_UNIT[own(code)] * np.abs(want))


def families(bench):
    for code, mode, layout in itertools.product(FLOATS, range(2), ("nchw", "nhwc")):
        x = bench.calls.fixed(0, (3, 8, 6, 5))
        for what in ("training", "gradient"):
            passes = [bench.calls.run(f"normalise {mode} {what}", code, x, (layout, layout), family=family) for family in ("Batch", "Ex", "Norm")]
            for family, results in zip(("Ex", "Normalization"), passes[1:]):
                for k, (got, want) in enumerate(zip(results, passes[0])):
                    bench.same(f"{family} {what} {mode} type {code} {layout} result {k}", got, want)


def dropouts(bench):
    """p = 0 copies and p = 1 zeroes, also in place and what is infinite or NaN, and backward reads the mask."""
    for code, p, in_place in itertools.product(FLOATS, (0.0, 1.0), (False, True)):
        x = bench.calls.fixed(0, (3, 5, 7, 2)).copy()
        x.reshape(-1)[:3] = [np.inf, np.nan, -np.inf]
        stored = convert(x, TYPES[code][1])
        for what, got in zip(("forward", "backward"), bench.calls.run("drop", code, x, p=p, in_place=in_place)):
            bench.same(f"dropout {what} of {p}, type {code}, in place {in_place}", got, stored if p == 0 else np.zeros_like(stored))


def run(parts, doc, controls=None):
    """Runs the parts; a control runs `controls` alone, if these are named: each comparison is among them."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20261125)
    parser.add_argument("--negative-control", action="store_true")
    options = parser.parse_args()
    np.seterr(all="ignore")
    bench = Bench(options)
    for part in controls if controls and options.negative_control else parts:
        part(bench)
    print(f"{bench.passed} passed, {bench.failed} failed, 0 skipped")
    return bench.failed > 0


if __name__ == "__main__":
    PARTS = (layouts, batches, large_extents, long_sums, extreme_softmax, few_elements, families, dropouts)
    sys.exit(run(PARTS, __doc__, controls=(long_sums, extreme_softmax, families, dropouts)))
