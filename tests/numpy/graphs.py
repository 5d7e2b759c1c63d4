"""Random graphs of operations through the graph interface, against NumPy in binary64: one to twelve operations over tensors that several
of them read, broadcasts, mixed types, virtual tensors between, plans that went through their text; and attention with its gradients.

Beside what a tensor holds goes how far from it the library may be: every operation passes on the bounds of its operands, by its slope, and
adds the roundings of its own, of the type that is computed in and of the type that is stored. Where a comparison may come out either
way, so may what it selects. One graph in ten is an operation of its own: random numbers, rotations, pages, experts, batches by offsets; one in
twenty a quantisation by blocks.

    graphs.py --library PATH/libcudnn.so.9 [--cases N] [--seed S] [--only I] [--negative-control] [--core cpu|cuda]
"""

import argparse
import os
import sys

import numpy as np

import cudnn
import device
from attention_graphs import attention
from backend import BOOLEAN, DATA_TYPE, DESCRIPTOR, FLOAT, INT64, MODE, REDUCTION, Graph
from block_graphs import blocks
from other_graphs import other
from reference import NARROW, TYPES, convert

COMPUTED = 2.0**-21  # a few roundings of binary32
CODES = [cudnn.FLOAT, cudnn.FLOAT, cudnn.FLOAT, cudnn.HALF, cudnn.BFLOAT16, cudnn.DOUBLE]
EPSILON = {cudnn.FLOAT: 2.0**-24, cudnn.DOUBLE: 2.0**-53, cudnn.HALF: 2.0**-11, cudnn.BFLOAT16: 2.0**-8}

sigmoid = lambda x: 1 / (1 + np.exp(-x))
# Functions of one operand with a slope of at most 1.13: mode, function.
UNARY = {
    "abs": (10, np.abs), "neg": (16, np.negative), "identity": (21, lambda x: x), "relu": (100, lambda x: np.maximum(x, 0)),
    "tanh": (101, np.tanh), "sigmoid": (102, sigmoid), "elu": (103, lambda x: np.where(x > 0, x, np.expm1(x))),
    "softplus": (105, lambda x: np.logaddexp(0, x)), "swish": (106, lambda x: x * sigmoid(x)), "sin": (18, np.sin), "cos": (12, np.cos),
}  # fmt: skip
SLOPE = 1.13
BINARY = {
    "add": (0, np.add), "mul": (1, np.multiply), "min": (2, np.minimum), "max": (3, np.maximum), "sub": (9, np.subtract),
    "add_square": (5, lambda x, y: x + y * y),
}  # fmt: skip
COMPARISONS = {"equal": (300, np.equal), "greater": (302, np.greater), "less": (304, np.less), "less_or_equal": (305, np.less_equal)}
REDUCTIONS = {"sum": (0, np.sum), "min": (2, np.min), "max": (3, np.max), "amax": (4, lambda x, axis, keepdims: np.abs(x).max(axis=axis, keepdims=keepdims))}


class Case:
    """One random graph, or one attention."""

    def __init__(self, lib, seed, index):
        self.index = index
        self.rng = np.random.default_rng([seed, index])
        self.graph = Graph(lib, self.rng)
        self.results = []
        if index % 5 == 4:
            self.results = attention(self.graph, self.rng)
            return
        if index % 20 == 3:
            self.results = blocks(self.graph, self.rng)
            return
        if index % 10 == 7:
            self.results = other(self.graph, self.rng)
            return
        rank = int(self.rng.choice([2, 3, 3, 4]))
        self.shape = [int(extent) for extent in self.rng.integers(1, 7, rank)]
        self.known = [self.operand() for _ in range(int(self.rng.integers(1, 4)))]
        self.read = set()
        for left in reversed(range(int(self.rng.integers(1, 13)))):
            self.step(left == 0)
        # What nobody reads is looked at, so it has memory.
        self.results = [value for value in self.known if not value.virtual and value.made]

    # --- Tensors ---

    def order(self, rank):
        return [int(axis) for axis in self.rng.permutation(rank)] if self.rng.random() < 0.4 else None

    def operand(self, dims=None):
        """Something that is given: of any type, all of the shape or broadcast to it, or a few numbers by value."""
        if dims is None:
            dims = [extent if self.rng.random() < 0.75 else 1 for extent in self.shape]
        code = int(self.rng.choice([*CODES, cudnn.INT32]))
        by_value = self.rng.random() < 0.1 and len(dims) > 0
        if by_value:
            kept = int(self.rng.integers(2 * len(dims)))
            dims = [extent if axis == kept else 1 for axis, extent in enumerate(dims)]
        value = self.graph.value(code, dims, by_value=by_value, order=None if by_value else self.order(len(dims)))
        value.fill(np.round(self.rng.standard_normal(dims), 3) * (3 if code == cudnn.INT32 else 1))
        value.made = False
        return value

    def result(self, dims, want, error, is_last, code=None):
        """What an operation makes: rounded to its type."""
        code = int(self.rng.choice(CODES)) if code is None else code
        virtual = not is_last and self.rng.random() < 0.6
        value = self.graph.value(code, dims, virtual=virtual, order=self.order(len(dims)))
        kind = TYPES[code][1]
        value.want = want if code == cudnn.BOOLEAN else convert(want, kind).astype(np.float64)
        least = 2.0 ** (NARROW[kind][1] - NARROW[kind][0]) if kind in NARROW else 1e-44
        rounding = 0 if code == cudnn.BOOLEAN else EPSILON[code] * np.abs(want) + least
        # A bound may carry a number across a boundary of its type on either side.
        value.error = error + 2 * rounding + (2 * EPSILON[code] * error if code in EPSILON else 0)
        value.made = True
        self.known.append(value)
        return value

    def any(self, fits=lambda value: True):
        """A tensor that is there, the last ones more likely; or a new one."""
        found = [value for value in self.known if fits(value)]
        if not found or self.rng.random() < 0.15:
            value = self.operand()
            self.known.append(value)
            return value if fits(value) else self.any(fits)
        weights = np.arange(1, len(found) + 1.0) ** 2
        return found[self.rng.choice(len(found), p=weights / weights.sum())]

    # --- Operations ---

    def step(self, is_last):
        kinds = ["unary", "binary", "binary", "choice", "product", "reduction", "transpose", "softmax"]
        getattr(self, kinds[self.rng.integers(len(kinds))])(is_last)

    @staticmethod
    def link(attribute, value):
        return attribute, DESCRIPTOR, value.object

    def pointwise(self, name, mode, y, *operands, alpha=None):
        settings = self.graph.objects.make(0, (0, MODE, mode), (1, DATA_TYPE, cudnn.FLOAT))
        links = [self.link(attribute, value) for attribute, value in operands]
        reads = ", ".join(str(value.uid) for _, value in operands)
        factor = [] if alpha is None else [(754, FLOAT, alpha)]
        self.graph.add(f"{y.uid} = {name}({reads})", 13, (750, DESCRIPTOR, settings), *links, self.link(753, y), *factor)

    def rounded(self, want, error):
        return error + COMPUTED * (np.abs(want) + 1e-6)

    def unary(self, is_last):
        name = list(UNARY)[self.rng.integers(len(UNARY))]
        mode, function = UNARY[name]
        # Angles beyond that are another matter.
        x = self.any(lambda value: np.abs(value.want).max(initial=0) < 1e3)
        alpha = float(self.rng.choice([1, 1, 0.5, -2]))
        want = function(alpha * x.want)
        # The sine of a large angle has its absolute error.
        extra = 2.0**-20 * np.maximum(1, np.abs(alpha * x.want)) if name in ("sin", "cos", "swish") else 2.0**-21
        y = self.result(x.dims, want, self.rounded(want, SLOPE * abs(alpha) * x.error) + extra, is_last)
        self.pointwise(f"{name} of {alpha} times", mode, y, (751, x), alpha=alpha)

    def binary(self, is_last):
        name = list(BINARY)[self.rng.integers(len(BINARY))]
        mode, function = BINARY[name]
        limit = lambda value: np.abs(value.want).max(initial=0) < 30 and value.error.max(initial=0) < 1
        a = self.any(limit)
        pairs = lambda value: all(p == q or 1 in (p, q) for p, q in zip(a.dims, value.dims)) and len(value.dims) == len(a.dims) and limit(value)
        b = self.any(pairs)
        want = function(a.want, b.want)
        if name == "mul":
            error = np.abs(a.want) * b.error + np.abs(b.want) * a.error + a.error * b.error
        elif name == "add_square":
            error = a.error + 2 * np.abs(b.want) * b.error + b.error**2 + COMPUTED * b.want**2
        else:
            error = a.error + b.error
        error = error + COMPUTED * (np.abs(a.want) + np.abs(b.want))
        y = self.result(want.shape, want, self.rounded(want, error), is_last)
        self.pointwise(name, mode, y, (751, a), (752, b))

    def choice(self, is_last):
        """A comparison, and what it chooses."""
        name = list(COMPARISONS)[self.rng.integers(len(COMPARISONS))]
        mode, function = COMPARISONS[name]
        a = self.any()
        same = lambda value: value.dims == a.dims
        b, x, y = self.any(same), self.any(same), self.any(same)
        distance, unsure = np.abs(a.want - b.want), a.error + b.error
        holds = function(a.want, b.want)
        # Of equals that are exact there is no doubt; numbers that are compared are rounded to what is computed in.
        doubt = (distance <= unsure + COMPUTED * (np.abs(a.want) + np.abs(b.want))) & ~((distance == 0) & (unsure == 0))
        t = self.result(a.dims, holds.astype(np.float64), doubt.astype(np.float64), False, cudnn.BOOLEAN)
        self.pointwise(name, mode, t, (751, a), (752, b))
        want = np.where(holds, x.want, y.want)
        error = np.maximum(x.error, y.error) + doubt * np.abs(x.want - y.want)
        out = self.result(a.dims, want, self.rounded(want, error), is_last)
        self.pointwise("select", 601, out, (751, x), (752, y), (758, t))

    def product(self, is_last):
        a = self.any(lambda value: np.abs(value.want).max(initial=0) < 30 and value.error.max(initial=0) < 1)
        columns = int(self.rng.integers(1, 6))
        b = self.operand([extent if self.rng.random() < 0.6 else 1 for extent in a.dims[:-2]] + [a.dims[-1], columns])
        if b.dims[-2:] != (a.dims[-1], columns):
            return self.unary(is_last)
        want = np.matmul(a.want, b.want)
        magnitude = np.matmul(np.abs(a.want), np.abs(b.want))
        error = np.matmul(a.error, np.abs(b.want)) + COMPUTED * magnitude * a.dims[-1]
        y = self.result(want.shape, want, self.rounded(want, error), is_last)
        settings = self.graph.objects.make(18, (1500, DATA_TYPE, cudnn.FLOAT))
        self.graph.add(f"{y.uid} = {a.uid} @ {b.uid}", 19, self.link(1520, a), self.link(1521, b), self.link(1522, y), (1523, DESCRIPTOR, settings))

    def reduction(self, is_last):
        name = list(REDUCTIONS)[self.rng.integers(len(REDUCTIONS))]
        operator, function = REDUCTIONS[name]
        x = self.any()
        axes = tuple(axis for axis in range(len(x.dims)) if self.rng.random() < 0.5)
        want = function(x.want, axis=axes, keepdims=True) if axes else (np.abs(x.want) if name == "amax" else x.want)
        join = np.sum if name == "sum" else np.max
        error = join(x.error, axis=axes, keepdims=True) if axes else x.error
        if name == "sum":
            error = error + COMPUTED * (np.sum(np.abs(x.want), axis=axes, keepdims=True) if axes else np.abs(x.want))
        y = self.result(want.shape, want, self.rounded(want, error), is_last)
        settings = self.graph.objects.make(21, (1600, REDUCTION, operator), (1601, DATA_TYPE, cudnn.FLOAT))
        self.graph.add(f"{y.uid} = {name}({x.uid})", 22, self.link(1610, x), self.link(1611, y), (1612, DESCRIPTOR, settings))

    def transpose(self, is_last):
        x = self.any(lambda value: value.code in CODES)
        axes = [int(axis) for axis in self.rng.permutation(len(x.dims))]
        want = x.want.transpose(axes)
        y = self.result(want.shape, want, x.error.transpose(axes), is_last, x.code)
        self.graph.add(f"{y.uid} = {x.uid} transposed {axes}", 46, self.link(3200, x), self.link(3201, y), (3202, INT64, *axes))

    def softmax(self, is_last):
        four = lambda value: len(value.dims) == 4 and np.abs(value.want).max(initial=0) < 50 and value.error.max(initial=0) < 0.1
        if not any(four(value) for value in self.known):
            return self.unary(is_last)
        x = self.any(four)
        powers = np.exp(x.want - x.want.max(axis=-1, keepdims=True))
        want = powers / powers.sum(axis=-1, keepdims=True)
        worst = x.error.max(axis=-1, keepdims=True) + COMPUTED * (1 + np.abs(x.want).max(axis=-1, keepdims=True))
        y = self.result(x.dims, want, self.rounded(want, want * np.expm1(2 * worst)), is_last)
        self.graph.add(f"{y.uid} = softmax({x.uid})", 45, self.link(3100, x), self.link(3101, y), (3106, BOOLEAN, False))

    # --- The comparison ---

    def run(self, flips):
        self.graph.run()
        for value in self.results:
            got = value.read()
            if flips:
                # One element, by twice its bound.
                place = tuple(int(self.rng.integers(extent)) for extent in value.dims)
                moved = value.want[place] + 2 * value.error[place] + 1e-3 * (1 + abs(value.want[place]))
                got[place] = moved if np.isfinite(value.want[place]) else 0
            wrong = ~(np.abs(got - value.want) <= value.error) & ~(got == value.want) & ~(np.isnan(got) & np.isnan(value.want))
            if wrong.any():
                place = tuple(int(k) for k in np.argwhere(wrong)[0])
                return (f"tensor {value.uid}, {wrong.sum()} of {wrong.size} elements, first at {place}: {got[place]!r} instead of "
                        f"{value.want[place]!r} within {value.error[place]:.3g}")  # fmt: skip
        return None

    def release(self):
        self.graph.objects.release()

    def __str__(self):
        return f"case {self.index}: {self.graph}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--only", type=int)
    parser.add_argument("--show", type=int, default=20, help="failures that are described in full")
    parser.add_argument("--negative-control", action="store_true")
    parser.add_argument("--core", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    np.seterr(all="ignore")
    os.environ["CUDNN_SHIM_BACKEND"] = options.core
    lib = cudnn.Library(options.library, device.Cuda() if options.core == "cuda" else device.Host())
    passed = failed = 0
    for index in range(options.cases) if options.only is None else [options.only]:
        case = None
        try:
            case = Case(lib, options.seed, index)
            wrong = case.run(options.negative_control)
            if options.negative_control:
                wrong = None if wrong or not case.results else "a wrong element went unnoticed"
            case.release()
        except (cudnn.Refused, AssertionError) as error:
            wrong = str(error)
        passed, failed = passed + (not wrong), failed + bool(wrong)
        if wrong and failed <= options.show:
            print(f"FAILED {case or f'case {index}'}\n       {wrong}", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
