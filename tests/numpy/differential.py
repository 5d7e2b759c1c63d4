"""Random TransformTensor and TransformTensorEx problems, solved by the library and by NumPy; every byte is compared.

    differential.py --library PATH/libcudnn.so.9 [--cases N] [--seed S] [--only I] [--negative-control] [--core cpu|cuda]

Case I of seed S is always the same problem; `--only I` runs it alone. With `--negative-control` one bit of every result is
flipped, and a case passes when the comparison notices. The last line is `N passed, N failed, N skipped`.
"""

import argparse
import math
import os
import sys

import numpy as np

import cudnn
import device
from reference import TYPES, scaled, transformed
from tensors import INPUT_LAYOUTS, LAYOUTS, Tensor, channels_last, contents, make, packed, poison

LARGEST = 1_000_000  # channels and positions that padding and folding may make
ALPHAS = [1, 1, 1, 1, 0, -1, 0.5, 2, 127, 255, 1 / 255, 1 / 127, -0.3, np.inf, np.nan]
BETAS = [0, 0, 0, 0, 0, 1, 1, 0.5, -1, -0.25, 3, -0.0]


def random_dims(rng, multiple):
    """Logical dims of rank 2 to 8, C a multiple of `multiple`; most are small."""
    rank = int(rng.integers(2, 9))
    budget = float(rng.choice([200, 2000, 20000, 400000], p=[0.5, 0.42, 0.06, 0.02])) / multiple
    dims = [1] * rank
    for axis in rng.permutation(rank):
        room = budget / math.prod(dims)
        if room >= 2 and rng.random() < 0.8:
            dims[axis] = int(rng.integers(1, max(2, min(room, 300 if room > 500 else 9)) + 1))
    dims[1] *= multiple
    return tuple(dims)


def image_dims(rng, multiple):
    """N, C, H, W as programs have them, big enough for tiled and threaded paths, with tails of every length."""
    channels = int(rng.choice([1, 2, 3, 4, 5, 8, 16, 31, 32, 33, 64, 100]))
    n, h, w = rng.integers(1, 5), rng.integers(1, 60), rng.integers(1, 80)
    return (int(n), max(1, channels // multiple) * multiple, int(h), int(w))


class Transform:
    """A tensor transform descriptor and what it does to logical positions.

    Pads and folds of C count stored channels, so whole vectors of a vector type. Where that does not give the dims of
    the destination, they count single channels (`unit` 1): so 4 channels of one INT8x4 are padded to 32 of one INT8x32.
    """

    def __init__(self, lib, rng, x_dims, x_lanes, y_lanes):
        rank = len(x_dims)
        self.desc = lib.create("TensorTransformDescriptor")
        self.layout = int(rng.integers(2))
        self.direction = int(rng.integers(2))
        self.unit = x_lanes if rng.random() < 0.7 else 1
        split_vectors = self.unit < x_lanes
        folding = rng.random() < 0.5 and not split_vectors
        self.fold = [int(rng.integers(1, 4)) if folding else int(rng.integers(2)) for _ in range(rank - 2)]
        if math.prod(x_dims) * math.prod(max(1, f) for f in self.fold) > LARGEST:
            self.fold = [0] * (rank - 2)
        self.factors = [max(1, f) for f in self.fold]
        # The dims that padding starts from, C in units.
        middle = [x_dims[0], x_dims[1] // self.unit, *x_dims[2:]]
        if self.direction == cudnn.UNFOLD:
            middle[1] = -(-middle[1] // math.prod(self.factors))
            middle[2:] = [d * f for d, f in zip(middle[2:], self.factors)]
        self.before, self.after = [0] * rank, [0] * rank
        for axis, extent in enumerate(middle):
            if rng.random() < 0.5:
                # Each pad alone, and both together, must leave something.
                low = 0 if axis == 1 and split_vectors else -min(2, extent - 1)
                self.before[axis] = int(rng.integers(low, 4))
                self.after[axis] = int(rng.integers(max(low, 1 - extent - self.before[axis]), 4))
            if math.prod(self.dims(x_dims)) > LARGEST:
                self.before[axis] = self.after[axis] = 0
        while self.dims(x_dims)[1] % y_lanes:
            self.after[1] += 1
        lib.set_transform(self.desc, self.layout, self.before, self.after, self.fold, self.direction)

    @property
    def pads(self):
        """Padding in front of and behind each logical dimension."""
        return [[p * (self.unit if axis == 1 else 1) for axis, p in enumerate(pad)] for pad in (self.before, self.after)]

    def apply(self, values):
        return transformed(values, *self.pads, self.factors, self.direction, self.unit)

    def dims(self, x_dims):
        """Logical dims of the destination."""
        d, blocks = list(x_dims), math.prod(self.factors)
        if self.direction == cudnn.UNFOLD:
            d[1] = -(-d[1] // (self.unit * blocks)) * self.unit
            d[2:] = [e * f for e, f in zip(d[2:], self.factors)]
        d = [e + b + a for e, b, a in zip(d, *self.pads)]
        if self.direction == cudnn.FOLD:
            d[1] *= blocks
            d[2:] = [-(-e // f) for e, f in zip(d[2:], self.factors)]
        return tuple(d)

    def __str__(self):
        direction = ("fold", "unfold")[self.direction]
        return f"{direction} {self.fold} before {self.before} after {self.after} format {self.layout} unit {self.unit}"


class Case:
    """One random problem."""

    def __init__(self, lib, seed, index):
        self.lib, self.index = lib, index
        self.rng = rng = np.random.default_rng([seed, index])
        self.descs = []
        self.transform = None
        codes = list(TYPES)
        x_code, y_code = (int(c) for c in rng.choice(codes, 2))
        if rng.random() < 0.15:
            y_code = x_code
        x_lanes, y_lanes = TYPES[x_code][2], TYPES[y_code][2]
        extended = rng.random() < 0.35
        images = rng.random() < 0.1
        dims = (image_dims if images else random_dims)(rng, x_lanes if extended else math.lcm(x_lanes, y_lanes))
        kinds = LAYOUTS[:4] if images else LAYOUTS
        self.x = self.tensor(make(lib, rng, x_code, dims, kinds + INPUT_LAYOUTS * (not images)))
        if extended:
            self.transform = Transform(lib, rng, dims, x_lanes, y_lanes)
            dims = self.transform.dims(dims)
            initialised = self.initialised_dest(dims)
            use = x_code == y_code and initialised and rng.random() < 0.5
            self.y = initialised if use else self.tensor(make(lib, rng, y_code, dims, kinds))
        else:
            self.y = self.tensor(make(lib, rng, y_code, dims, kinds))
        real = np.float64 if y_code == cudnn.DOUBLE else np.float32
        self.alpha, self.beta = float(real(rng.choice(ALPHAS))), float(real(rng.choice(BETAS)))
        self.in_place = not extended and x_code == y_code and rng.random() < 0.2
        if self.in_place:
            self.x = self.y

    def tensor(self, tensor):
        self.descs.append(tensor.desc)
        return tensor

    def initialised_dest(self, dims):
        """What InitTransformDest makes of x, checked; a tensor that can be the destination."""
        x, t = self.x, self.transform
        rank, lanes = len(dims), x.lanes
        desc = self.lib.create("TensorDescriptor")
        self.descs.append(desc)
        if t.unit != lanes:
            return None
        size = self.lib.init_transform_dest(t.desc, x.desc, desc)
        stored = (dims[0], dims[1] // lanes, *dims[2:])
        last = t.layout == cudnn.NHWC and rank >= 4
        strides = packed(stored, channels_last(rank) if last else range(rank))
        bytes_ = math.prod(dims) * np.dtype(TYPES[x.code][1]).itemsize
        want = (x.code, dims if x.how == "vect" else stored, strides, bytes_)
        got = self.lib.get(desc)
        assert got == want and size == bytes_, f"InitTransformDest: {got} and {size} instead of {want}"
        return Tensor(x.code, desc, stored, strides, "initialised")

    def run(self, corrupt):
        """None, or what is wrong."""
        x, y, rng = self.x, self.y, self.rng
        fresh = self.beta == 0 and not self.in_place and rng.random() < 0.7
        y.allocate(rng, poison(y.code) if fresh else contents(rng, y.code))
        if not self.in_place:
            x.allocate(rng, contents(rng, x.code))
        moves = self.alpha == 1 and self.beta == 0 and TYPES[x.code][1] is TYPES[y.code][1]
        values, old = x.read(bits=moves), y.read(bits=True)
        present = np.ones(values.shape, bool)
        if self.transform:
            values, present = self.transform.apply(values), self.transform.apply(present)
        # A move keeps the bytes of a BOOLEAN, whatever they are.
        kind = y.memory_kind if moves else TYPES[y.code][1]
        result = scaled(values, old, kind, present, self.alpha, self.beta)
        want = y.raw.copy()
        y.write(want, result)
        x_before = x.raw.copy()
        with self.lib.memory.placed(x, y) as (x_address, y_address):
            self.lib.transform(
                self.transform and self.transform.desc, self.alpha, x.desc, x_address, self.beta, y.desc, y_address
            )
        if corrupt:
            self.corrupt(want)
        if not self.in_place and not np.array_equal(x.raw, x_before):
            return "the source was written"
        return self.difference(want, moves)

    def corrupt(self, want):
        """Flips the lowest bit of a random scalar, of a guard where that is a NaN."""
        kind = self.y.memory_kind
        scalars = self.y.raw.view(kind)
        at = int(self.rng.integers(len(scalars)))
        if want.view(kind)[at] != want.view(kind)[at]:
            at = self.y.guard
        self.y.raw[at * np.dtype(kind).itemsize] ^= 1

    def difference(self, want, moves):
        y = self.y
        if np.array_equal(y.raw, want):
            return None
        kind = y.memory_kind
        got, expected = y.raw.view(kind), want.view(kind)
        bits = np.dtype(f"u{np.dtype(kind).itemsize}")
        wrong = got.view(bits) != expected.view(bits)
        if not moves:
            # A NaN has no particular bits, except where memory was not to be written.
            written = np.zeros(got.shape, np.uint8)
            y.view(written, np.uint8)[...] = 1
            wrong &= ~((written != 0) & (got != got) & (expected != expected))
        places = np.flatnonzero(wrong)
        if len(places) == 0:
            return None
        at = int(places[0])
        return (
            f"{len(places)} of {len(got)} scalars differ, first at {at - y.base} from y: "
            f"{got[at]} (0x{got.view(bits)[at]:x}) instead of {expected[at]} (0x{expected.view(bits)[at]:x})"
        )

    def release(self):
        for desc in self.descs:
            self.lib.destroy("TensorDescriptor", desc)
        if self.transform:
            self.lib.destroy("TensorTransformDescriptor", self.transform.desc)

    def __str__(self):
        name = f"TransformTensorEx ({self.transform})" if self.transform else "TransformTensor"
        place = " in place" if self.in_place else ""
        return f"case {self.index}: {name}{place}: {self.x} -> {self.y}, alpha {self.alpha:.9g} beta {self.beta:.9g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--cases", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=20250117)
    parser.add_argument("--only", type=int)
    parser.add_argument("--show", type=int, default=20, help="failures that are described in full")
    parser.add_argument("--negative-control", action="store_true")
    parser.add_argument("--core", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()

    np.seterr(all="ignore")  # overflow and NaN are part of the data
    os.environ["CUDNN_SHIM_BACKEND"] = options.core
    lib = cudnn.Library(options.library, device.Cuda() if options.core == "cuda" else device.Host())
    print(f"seed {options.seed}, library version {lib.c.cudnnGetVersion()}" + " (negative control)" * options.negative_control)
    passed = failed = 0
    for index in range(options.cases) if options.only is None else [options.only]:
        case = None
        try:
            case = Case(lib, options.seed, index)
            wrong = case.run(options.negative_control)
            if options.negative_control:
                wrong = None if wrong else "a flipped bit went unnoticed"
            case.release()
        except (cudnn.Refused, AssertionError) as error:
            wrong = str(error)
        passed, failed = passed + (not wrong), failed + bool(wrong)
        if wrong and failed <= options.show:
            print(f"FAILED {case or f'case {index}'}\n       {wrong}", flush=True)
        if wrong and failed == options.show + 1:
            print("more failures are counted only")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
