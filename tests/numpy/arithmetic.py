"""AddTensor, OpTensor, ReduceTensor, SetTensor, ScaleTensor and TransformFilter against NumPy.

Every broadcast mask of up to 5 dimensions, every reduction over every subset of up to 5, every type, extents of 70,000, and
random problems of 6 to 8 dimensions. All memory is compared: gaps and guards too. `--slow` runs one problem of more than
2^31 elements per call instead.
"""

import argparse
import ctypes
import itertools
import math
import os
import sys
import zlib
from ctypes import byref, c_double, c_float, c_int, c_size_t, c_void_p

import numpy as np

import cudnn
import device
from arithmetic_reference import INDEX_TYPES, OPS, REDUCTIONS, added, laid, mask_for, masked, operated, reduced, reduction_bound, spread, value_kind
from reference import INTEGERS, TYPES, convert, scaled, transformed
from tensors import INPUT_LAYOUTS, LAYOUTS, contents, make, poison

FACTORS = [0.0, 1.0, -1.0, 2.0, 0.5, -0.75, 3.25]
# Combinations of types that the original refuses as wrong, and so do we.
WRONG_REDUCTIONS = {(0, 1), (1, 0), (1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)}


def wrong_op(computation, a, c):
    """Whether OpTensor takes this combination of types as a mistake: the table of the recorded answers."""
    others = "BNBBNNNNNB"
    rows = {0: "0B00NNNNN0", 2: "0B0BNNNNNN", 3: "0NB0NNNNNB", 9: "0NNBNNNNN0"}
    if a > 9 or c > 9:
        return False
    if computation == cudnn.FLOAT:
        row = rows.get(a, others)
    elif computation == cudnn.DOUBLE and a == 1:
        row = "B0BBNNNNNB"
    else:
        row = others if a == 1 else "NBNNNNNNNN" if a in (0, 2) else "N" * 10
    return row[c] == "B"


def pointer(value, code_or_double):
    """A host scalar as the calls want it."""
    return byref((c_double if code_or_double is True or code_or_double == cudnn.DOUBLE else c_float)(value))


def own_pointer(value, code):
    """A host scalar of the type that SetTensor reads."""
    kind = value_kind(TYPES[code][1])
    return np.array([value]).astype(np.uint8 if kind is np.bool_ else kind)


class Bytes:
    """An array that a call works on, for the core's memory."""

    def __init__(self, raw):
        self.raw = raw

    @property
    def address(self):
        return self.raw.ctypes.data


class Bench:
    """The library, a random generator, and the tally."""

    # One of so many problems is solved.
    every = 1

    def __init__(self, options):
        self.lib = cudnn.Library(options.library, device.Cuda() if options.core == "cuda" else device.Host())
        self.options = options
        self.passed = self.failed = 0
        self.op_desc = self.lib.create("OpTensorDescriptor")
        self.reduce_desc = self.lib.create("ReduceTensorDescriptor")

    def check(self, name, body):
        """Runs one problem with a generator of its own, unless the sample leaves it out; `body` returns what is wrong, or None."""
        if zlib.crc32(name.encode()) % self.every:
            return
        rng = np.random.default_rng([self.options.seed, *name.encode()])
        tensors = []
        try:
            wrong = body(rng, tensors)
            if self.options.negative_control:
                wrong = None if wrong else "a flipped bit went unnoticed"
        except (cudnn.Refused, AssertionError) as error:
            wrong = str(error)
        for tensor in tensors:
            self.lib.destroy("TensorDescriptor", tensor.desc)
        self.passed, self.failed = self.passed + (not wrong), self.failed + bool(wrong)
        if wrong and self.failed <= self.options.show:
            print(f"FAILED {name}: {'; '.join(map(str, tensors))}\n       {wrong}", flush=True)

    def tensor(self, rng, tensors, code, dims, is_input, layouts=None, full=None):
        """A tensor; with fewer channels than `full` it is a single element of several, which NCHW_VECT_C does not tell."""
        layouts = layouts or LAYOUTS + INPUT_LAYOUTS * is_input
        tensor = make(self.lib, rng, code, tuple(dims), layouts, full in (None, dims[1]))
        tensors.append(tensor)
        return tensor

    def compare(self, rng, y, want, bound=None):
        """None, or what differs between the memory of y and `want`, where `bound` is how far elements may be off."""
        if self.options.negative_control:
            kind = y.memory_kind
            at = y.base if bound is None and want.view(kind)[y.base] == want.view(kind)[y.base] else y.guard
            want[at * np.dtype(kind).itemsize] ^= 1
        got, expected = y.raw.view(y.memory_kind), want.view(y.memory_kind)
        bits = np.dtype(f"u{np.dtype(y.memory_kind).itemsize}")
        wrong = got.view(bits) != expected.view(bits)
        written = np.zeros(got.shape, np.uint8)
        y.view(written, np.uint8)[...] = 1
        written = written != 0
        wrong &= ~(written & (got != got) & (expected != expected))
        if bound is not None:
            allowed = np.zeros(got.shape)
            spread = np.zeros(y.raw.shape[0] // np.dtype(y.memory_kind).itemsize * 8, np.uint8)
            y_bound = spread.view(np.float64)
            bounded = np.ndarray(y.view(y.raw, y.memory_kind).shape, np.float64, y_bound.data, y.base * 8,
                                 [s // np.dtype(y.memory_kind).itemsize * 8 for s in y.view(y.raw, y.memory_kind).strides])  # fmt: skip
            values = np.moveaxis(bound.reshape([y.stored[0], y.stored[1], y.lanes, *y.stored[2:]]), 2, -1)
            bounded[...] = values
            allowed[:] = y_bound[: len(allowed)]
            close = (np.abs(got.astype(np.float64) - expected.astype(np.float64)) <= allowed) | np.isinf(allowed)
            wrong &= ~(written & close)
        places = np.flatnonzero(wrong)
        if len(places) == 0:
            return None
        at = int(places[0])
        return f"{len(places)} of {len(got)} scalars differ, first at {at - y.base}: {got[at]} instead of {expected[at]}"

    def allocate(self, rng, y, beta, fresh=True):
        y.allocate(rng, poison(y.code) if beta == 0 and fresh else contents(rng, y.code))

    # --- The calls ---

    def add(self, rng, tensors, code, c_dims, mask, factors=None):
        a_dims = masked(c_dims, mask, TYPES[code][2])
        alpha, beta = factors or (float(rng.choice(FACTORS)), float(rng.choice(FACTORS)))
        c = self.tensor(rng, tensors, code, c_dims, False)
        in_place = a_dims == list(c_dims) and rng.random() < 0.3
        a = c if in_place else self.tensor(rng, tensors, code, a_dims, True, full=c_dims[1])
        self.allocate(rng, c, beta, not in_place)
        if not in_place:
            a.allocate(rng, poison(code) if alpha == 0 else contents(rng, code))
        moves = alpha == 1 and beta == 0
        # A move keeps the bytes of a BOOLEAN, whatever they are.
        kind = c.memory_kind if moves else TYPES[code][1]
        result = added(spread(a.read(bits=moves), c_dims), c.read(bits=True), kind, alpha, beta)
        want, a_before = c.raw.copy(), a.raw.copy()
        c.write(want, result)
        with self.lib.memory.placed(a, c) as (a_at, c_at):
            self.lib.call("cudnnAddTensor", self.lib.handle, pointer(alpha, code), a.desc, c_void_p(a_at),
                          pointer(beta, code), c.desc, c_void_p(c_at))  # fmt: skip
        if not in_place and not np.array_equal(a.raw, a_before):
            return "the source was written"
        return self.compare(rng, c, want)

    def op(self, rng, tensors, code, c_code, c_dims, masks, op=None, computation=None):
        op = int(rng.integers(6)) if op is None else op
        computation = int(rng.choice([cudnn.FLOAT, cudnn.DOUBLE, cudnn.HALF, cudnn.BFLOAT16])) if computation is None else computation
        if wrong_op(computation, code, c_code):
            c_code = code
        nan = int(rng.integers(2))
        alphas, beta = [float(rng.choice(FACTORS)) for _ in "AB"], float(rng.choice([0.0, 0.0, *FACTORS]))
        self.lib.call("cudnnSetOpTensorDescriptor", self.op_desc, op, computation, nan)
        c = self.tensor(rng, tensors, c_code, c_dims, False)
        operands, aliased = [], False
        for mask in masks:
            dims = masked(c_dims, mask_for(mask, TYPES[code][2], TYPES[c_code][2]), TYPES[code][2])
            if dims == list(c_dims) and code == c_code and rng.random() < 0.2:
                operands.append(c)
                aliased = True
            else:
                operands.append(self.tensor(rng, tensors, code, dims, True, full=c_dims[1]))
        self.allocate(rng, c, beta, not aliased)
        unread = [op == 0 and alpha == 0 for alpha in alphas]
        unread[1] |= op in (4, 5)
        for operand, skip in zip(operands, unread):
            if operand is not c:
                operand.allocate(rng, poison(code) if skip else contents(rng, code))
        a, b = operands
        real = np.float64 if computation == cudnn.DOUBLE else np.float32
        result = operated(op, nan, real, spread(a.read(), c_dims), spread(b.read(), c_dims), c.read(), alphas, beta)
        want = c.raw.copy()
        c.write(want, convert(result, TYPES[c_code][1]).astype(c.memory_kind))
        double = computation == cudnn.DOUBLE
        with self.lib.memory.placed(a, b, c) as (a_at, b_at, c_at):
            self.lib.call("cudnnOpTensor", self.lib.handle, self.op_desc, pointer(alphas[0], double), a.desc, c_void_p(a_at),
                          pointer(alphas[1], double), b.desc, c_void_p(b_at), pointer(beta, double), c.desc,
                          c_void_p(c_at))  # fmt: skip
        wrong = self.compare(rng, c, want)
        return wrong and f"{OPS[op]} computed in {computation} nan {nan} alphas {alphas} beta {beta}: {wrong}"

    def reduce(self, rng, tensors, code, c_code, a_dims, axes, op, layout=None, plain=None):
        """`plain`: whole numbers whose sums are exact, so that every bit is known."""
        computation = cudnn.DOUBLE if rng.random() < 0.3 else int(rng.choice([cudnn.FLOAT, cudnn.HALF]))
        if (code, c_code) in WRONG_REDUCTIONS:
            c_code = code
        lanes, c_lanes = TYPES[code][2], TYPES[c_code][2]
        mask = mask_for([axis in axes for axis in range(len(a_dims))], c_lanes, lanes)
        axes = [axis for axis, m in enumerate(mask) if m]
        nan = int(rng.integers(2))
        indexed, width = bool(rng.integers(2)), int(rng.integers(4))
        count = math.prod(a_dims[axis] for axis in axes)
        if count > {1: 2**63, 0: 2**31, 2: 2**16, 3: 2**8}[width]:
            width = 0
        c_dims = masked(a_dims, mask, c_lanes)
        alpha = float(rng.choice([1.0, 1.0, -1.0, 0.5, 2.0]))
        beta = float(rng.choice([0.0, 0.0, 1.0, -0.5]))
        self.lib.call("cudnnSetReduceTensorDescriptor", self.reduce_desc, op, computation, nan, int(indexed), width)
        c = self.tensor(rng, tensors, c_code, c_dims, False, full=a_dims[1])
        a = self.tensor(rng, tensors, code, a_dims, True, layout and [layout])
        self.allocate(rng, c, beta)
        if plain if plain is not None else rng.random() < 0.5:
            kind = TYPES[code][1]
            limit = 3 if op in (1, 8) else 9
            low = 0 if kind in (np.uint8, np.bool_) else -limit + 1
            a.allocate(rng, lambda n: rng.integers(low, limit, n).astype(np.uint8 if kind is np.bool_ else kind))
        else:
            a.allocate(rng, contents(rng, code))
        real = np.float64 if computation == cudnn.DOUBLE else np.float32
        values = a.read()
        if 1 in axes and c_lanes > 1:
            # Elements of several channels become one: each channel is reduced on its own, an axis that is kept.
            values = values.reshape([a_dims[0], a_dims[1] // c_lanes, c_lanes, *a_dims[2:]])
            axes = [axis + (axis > 1) for axis in axes]
        result, selected = reduced(op, nan, real, values, tuple(axes))
        bound = None
        if selected is None:
            bound = reduction_bound(op, real, values, tuple(axes), TYPES[c_code][1], alpha, result)
        result = result.reshape(c_dims)
        kind = TYPES[c_code][1]
        want = c.raw.copy()
        present = np.ones(result.shape, bool)
        c.write(want, scaled(result, c.read(bits=True), kind, present, alpha, beta).astype(c.memory_kind))
        need, got_size = c_size_t(), c_size_t()
        arguments = (self.lib.handle, self.reduce_desc, a.desc, c.desc)
        self.lib.call("cudnnGetReductionIndicesSize", *arguments, byref(need))
        self.lib.call("cudnnGetReductionWorkspaceSize", *arguments, byref(got_size))
        assert got_size.value >= 16, "a workspace of 0 bytes"
        index_kind = INDEX_TYPES[width]
        outputs = math.prod(c_dims)
        assert need.value == (outputs * max(4, np.dtype(index_kind).itemsize) if indexed else 0), need.value
        indices = np.full(outputs * np.dtype(index_kind).itemsize + 16, 0xA5, np.uint8)
        given = outputs * np.dtype(index_kind).itemsize if indexed else 0
        # Without a workspace every other time: the bits are the same.
        workspace = np.zeros(got_size.value, np.uint8)
        room = int(rng.integers(2)) * got_size.value
        with self.lib.memory.placed(a, c, Bytes(indices), Bytes(workspace)) as (a_at, c_at, indices_at, workspace_at):
            self.lib.call("cudnnReduceTensor", self.lib.handle, self.reduce_desc, c_void_p(indices_at if indexed else 0),
                          c_size_t(given), c_void_p(workspace_at if room else 0), c_size_t(room), pointer(alpha, c_code), a.desc,
                          c_void_p(a_at), pointer(beta, c_code), c.desc, c_void_p(c_at))  # fmt: skip
        expected = np.full(len(indices), 0xA5, np.uint8)
        if indexed and selected is not None:
            expected[:given] = np.ascontiguousarray(selected.astype(index_kind)).view(np.uint8).ravel()
        what = f"{REDUCTIONS[op]} over {list(axes)} computed in {computation} nan {nan} alpha {alpha} beta {beta}"
        if not np.array_equal(indices, expected):
            return f"{what}: indices {indices[:given].view(index_kind)[:8]} instead of {expected[:given].view(index_kind)[:8]}"
        wrong = self.compare(rng, c, want, bound)
        return wrong and f"{what}: {wrong}"

    def fill(self, rng, tensors, code, dims, scale):
        y = self.tensor(rng, tensors, code, dims, False)
        kind = TYPES[code][1]
        integer = kind in INTEGERS or kind is np.bool_
        if integer and scale:
            value = float(rng.choice([0, 1, 2, 7, 0.3, 1.5, -0.75, -3]))
        elif integer:
            ends = [] if kind is np.bool_ else [np.iinfo(kind).min, np.iinfo(kind).max]
            value = int(rng.choice([0, 1, 2, 7, *ends] + [-3] * (kind not in (np.uint8, np.bool_))))
        else:
            value = float(rng.choice([*FACTORS, -0.0, 1e-8, 1e-40, 65519.0, 65520.0, np.inf, -np.inf, np.nan]))
        host = np.array([value], np.float64 if kind is np.float64 else np.float32) if scale else own_pointer(value, code)
        self.allocate(rng, y, 0 if not scale or value == 0 else 1)
        old, want = y.read(bits=True), y.raw.copy()
        if scale:
            result = added(np.zeros_like(old), old, kind, 0.0, float(host[0]))
        else:
            result = np.broadcast_to(convert(host.astype(value_kind(kind)), kind), old.shape)
        y.write(want, result.astype(y.memory_kind))
        name = "cudnnScaleTensor" if scale else "cudnnSetTensor"
        with self.lib.memory.placed(y) as (y_at,):
            self.lib.call(name, self.lib.handle, y.desc, c_void_p(y_at), c_void_p(host.ctypes.data))
        wrong = self.compare(rng, y, want)
        return wrong and f"{value}: {wrong}"

    def filter(self, rng, x_code, y_code, dims, formats):
        """TransformFilter between KCRS, KRSC and NCHW_VECT_C, padding; C and folding only where no vectors are."""
        x_kind, y_kind = TYPES[x_code][1], TYPES[y_code][1]
        lanes = [TYPES[code][2] for code in (x_code, y_code)]
        before, after = [int(v) for v in rng.integers(0, 3, 4)], [int(v) for v in rng.integers(0, 3, 4)]
        fold = [int(v) for v in rng.integers(1, 3, 2)]
        if max(lanes) > 1:
            before[1] = after[1] = 0
            fold = [1, 1]
        formats = [cudnn.NCHW_VECT_C if n > 1 else layout for n, layout in zip(lanes, formats)]
        y_dims = [d + b + e for d, b, e in zip(dims, before, after)]
        y_dims[1] *= fold[0] * fold[1]
        y_dims[2:] = [-(-d // f) for d, f in zip(y_dims[2:], fold)]
        descs = [self.lib.create("FilterDescriptor") for _ in "xy"]
        transform = self.lib.create("TensorTransformDescriptor")
        for desc, code, layout, shape in zip(descs, (x_code, y_code), formats, (dims, y_dims)):
            self.lib.call("cudnnSetFilter4dDescriptor", desc, code, layout, *map(int, shape))
        self.lib.set_transform(transform, formats[1], before, after, fold, cudnn.FOLD)
        values = rng.integers(-9, 9, dims).astype(x_kind)
        memory = laid(values, formats[0], lanes[0])
        raw = np.full(math.prod(y_dims) + 8, 77).astype(y_kind)
        alpha = float(rng.choice([1.0, 2.0, -0.5]))
        moved = transformed(values, before, after, fold, cudnn.FOLD, 1)
        present = transformed(np.ones(values.shape, bool), before, after, fold, cudnn.FOLD, 1)
        result = scaled(moved, np.zeros(y_dims).astype(y_kind), y_kind, present, alpha, 0.0)
        want = raw.copy()
        want[: result.size] = laid(result, formats[1], lanes[1])
        with self.lib.memory.placed(Bytes(memory), Bytes(raw)) as (x_at, y_at):
            self.lib.call("cudnnTransformFilter", self.lib.handle, transform, pointer(alpha, y_code), descs[0],
                          c_void_p(x_at), pointer(0.0, y_code), descs[1], c_void_p(y_at))  # fmt: skip
        for desc in descs:
            self.lib.destroy("FilterDescriptor", desc)
        self.lib.destroy("TensorTransformDescriptor", transform)
        if self.options.negative_control:
            want[0] += 1
        wrong = np.flatnonzero(raw != want)
        return None if len(wrong) == 0 else f"{len(wrong)} differ, first at {wrong[0]}: {raw[wrong[0]]} instead of {want[wrong[0]]}"


def dims_for(rng, rank, lanes=1, largest=5):
    dims = [int(d) for d in rng.integers(1, largest + 1, rank)]
    dims[1] *= lanes
    return dims


def masks_of(rank):
    return itertools.product((False, True), repeat=rank)


def broadcasts(bench):
    codes = list(TYPES)
    for rank in range(2, 6):
        for mask in masks_of(rank):
            for copy in range(4):
                def add(rng, tensors):
                    code = int(rng.choice(codes))
                    lanes = TYPES[code][2]
                    return bench.add(rng, tensors, code, dims_for(rng, rank, lanes), mask)
                bench.check(f"add {rank} {mask} {copy}", add)
            for other in masks_of(rank):
                def op(rng, tensors):
                    code, c_code = (int(c) for c in rng.choice(codes, 2))
                    dims = dims_for(rng, rank, max(TYPES[code][2], TYPES[c_code][2]))
                    return bench.op(rng, tensors, code, c_code, dims, (mask, other))
                bench.check(f"op {rank} {mask} {other}", op)
    for case in range(400):
        def add(rng, tensors):
            code = int(rng.choice(codes))
            lanes, rank = TYPES[code][2], int(rng.integers(6, 9))
            return bench.add(rng, tensors, code, dims_for(rng, rank, lanes, 3), rng.random(rank) < 0.4)
        bench.check(f"add random {case}", add)
        def op(rng, tensors):
            code, c_code = (int(c) for c in rng.choice(codes, 2))
            rank, lanes = int(rng.integers(6, 9)), max(TYPES[code][2], TYPES[c_code][2])
            return bench.op(rng, tensors, code, c_code, dims_for(rng, rank, lanes, 3), (rng.random(rank) < 0.4, rng.random(rank) < 0.4))
        bench.check(f"op random {case}", op)


def reductions(bench):
    codes = list(TYPES)
    def shape(rng, rank, code, c_code, largest=5):
        return dims_for(rng, rank, max(TYPES[code][2], TYPES[c_code][2]), largest)
    for rank in range(2, 6):
        for axes in (axes for n in range(rank + 1) for axes in itertools.combinations(range(rank), n)):
            layouts = [how for how in LAYOUTS + INPUT_LAYOUTS if how != "nhwc" or rank >= 3]
            for op, layout in itertools.product(range(9), layouts):
                def body(rng, tensors):
                    code = int(rng.choice([cudnn.FLOAT, cudnn.FLOAT, cudnn.HALF, cudnn.DOUBLE, *codes]))
                    c_code = int(rng.choice([code, code, *codes]))
                    return bench.reduce(rng, tensors, code, c_code, shape(rng, rank, code, c_code), axes, op, layout)
                bench.check(f"reduce {rank} {axes} {op} {layout}", body)
    for case in range(400):
        def body(rng, tensors):
            code, c_code = (int(c) for c in rng.choice(codes, 2))
            rank = int(rng.integers(3, 9))
            dims = shape(rng, rank, code, c_code, 3)
            dims[int(rng.integers(rank))] *= int(rng.integers(1, 40))
            axes = [axis for axis in range(rank) if rng.random() < 0.5]
            return bench.reduce(rng, tensors, code, c_code, dims, axes, int(rng.integers(9)))
        bench.check(f"reduce random {case}", body)
    for case in range(60):
        def body(rng, tensors):
            dims = [int(rng.integers(1, 4)), int(rng.integers(1, 70)), int(rng.integers(1, 90)), int(rng.integers(1, 300))]
            axes = [axis for axis in range(4) if rng.random() < 0.6]
            code = int(rng.choice([cudnn.FLOAT, cudnn.HALF, cudnn.INT8]))
            return bench.reduce(rng, tensors, code, code, dims, axes, int(rng.choice([0, 2, 3, 4, 5, 6, 7])))
        bench.check(f"reduce large {case}", body)


def types(bench):
    for code in TYPES:
        lanes = TYPES[code][2]
        for copy in range(8):
            bench.check(f"add type {code} {copy}", lambda rng, t: bench.add(rng, t, code, dims_for(rng, 4, lanes), [False] * 4))
            bench.check(f"set type {code} {copy}", lambda rng, t: bench.fill(rng, t, code, dims_for(rng, int(rng.integers(2, 9)), lanes, 4), False))
            bench.check(f"scale type {code} {copy}", lambda rng, t: bench.fill(rng, t, code, dims_for(rng, int(rng.integers(2, 9)), lanes, 4), True))
        for op, computation in itertools.product(range(6), (cudnn.FLOAT, cudnn.DOUBLE, cudnn.HALF, cudnn.BFLOAT16)):
            if not wrong_op(computation, code, code):
                bench.check(f"op type {code} {op} {computation}", lambda rng, t: bench.op(
                    rng, t, code, code, dims_for(rng, 4, lanes), ([False] * 4, [True, False, True, True]), op, computation))  # fmt: skip
        for op in range(9):
            for c_code in TYPES:
                bench.check(f"reduce type {code} {c_code} {op}", lambda rng, t: bench.reduce(
                    rng, t, code, c_code, dims_for(rng, 4, max(lanes, TYPES[c_code][2])), [[0, 2, 3], [0, 1, 3]][op % 2], op))  # fmt: skip
    for case in range(60):
        def body(rng, _):
            codes = [cudnn.FLOAT, cudnn.DOUBLE, cudnn.HALF, cudnn.INT8, cudnn.BFLOAT16]
            formats = [int(f) for f in rng.integers(0, 2, 2)]
            return bench.filter(rng, *(int(c) for c in rng.choice(codes, 2)), dims_for(rng, 4), formats)
        bench.check(f"filter {case}", body)
    vectors = [cudnn.INT8X4, cudnn.UINT8X4, cudnn.INT8X32]
    for code, other in itertools.product(vectors, [cudnn.FLOAT, cudnn.DOUBLE, cudnn.HALF, cudnn.INT8, cudnn.UINT8, *vectors]):
        for x_code, y_code in ((code, other), (other, code)):
            def body(rng, _):
                dims = dims_for(rng, 4, max(TYPES[x_code][2], TYPES[y_code][2]))
                return bench.filter(rng, x_code, y_code, dims, [int(f) for f in rng.integers(0, 2, 2)])
            bench.check(f"filter of vectors {x_code} {y_code}", body)


def extents(bench):
    """70,000 in each position, beyond what 16 bits count."""
    for rank, position in ((rank, position) for rank in (4, 5) for position in range(rank)):
        dims = [2 if axis in ((position + 1) % rank,) else 1 for axis in range(rank)]
        dims[position] = 70_000
        mask = [axis != position for axis in range(rank)]
        bench.check(f"add 70000 {rank} {position}", lambda rng, t: bench.add(rng, t, cudnn.FLOAT, dims, mask))
        bench.check(f"op 70000 {rank} {position}", lambda rng, t: bench.op(rng, t, 0, 0, dims, ([False] * rank, mask)))
        bench.check(f"set 70000 {rank} {position}", lambda rng, t: bench.fill(rng, t, cudnn.HALF, dims, False))
        bench.check(f"scale 70000 {rank} {position}", lambda rng, t: bench.fill(rng, t, cudnn.INT8, dims, True))
        for axes in ([position], [axis for axis in range(rank) if axis != position]):
            bench.check(f"reduce 70000 {rank} {position} {axes}", lambda rng, t: bench.reduce(rng, t, 0, 0, dims, axes, int(rng.integers(2, 8)), None, True))


def slow(bench):
    """One problem of more than 2^31 elements per call; int8."""
    lib = bench.lib
    dims = (4, 8, 8192, 8200)
    count = math.prod(dims)
    assert count > 2**31
    small, large, single = (lib.create("TensorDescriptor") for _ in range(3))
    lib.set_strided(large, cudnn.INT8, dims, (8 * 8192 * 8200, 8192 * 8200, 8200, 1))
    lib.set_strided(small, cudnn.INT8, (1, 8, 1, 1), (8, 1, 1, 1))
    lib.set_strided(single, cudnn.INT8, (1, 1, 1, 1), (1, 1, 1, 1))
    y, bias = np.empty(dims, np.int8), np.arange(1, 9, dtype=np.int8)
    one, zero = pointer(1.0, 0), pointer(0.0, 0)
    address, bias_at = c_void_p(y.ctypes.data), c_void_p(bias.ctypes.data)
    expect = lambda value: None if all((y[n, c] == value(c)).all() for n in range(4) for c in range(8)) else "a wrong element"
    def run(name, *arguments):
        lib.call(name, lib.handle, *arguments)
    def set_(*_):
        run("cudnnSetTensor", large, address, c_void_p(np.array([3], np.int8).ctypes.data))
        return expect(lambda c: 3)
    def scale(*_):
        run("cudnnScaleTensor", large, address, c_void_p(np.array([2], np.float32).ctypes.data))
        return expect(lambda c: 6)
    def add(*_):
        run("cudnnAddTensor", one, small, bias_at, one, large, address)
        return expect(lambda c: 7 + c)
    def op(*_):
        lib.call("cudnnSetOpTensorDescriptor", bench.op_desc, 0, cudnn.FLOAT, 0)
        run("cudnnOpTensor", bench.op_desc, one, large, address, one, small, bias_at, zero, large, address)
        return expect(lambda c: 8 + 2 * c)
    def reduce(*_):
        lib.call("cudnnSetReduceTensorDescriptor", bench.reduce_desc, 3, cudnn.FLOAT, 0, 1, 1)
        y[3, 7, 8191, 8199] = 99
        result, index = np.zeros(1, np.int8), np.zeros(1, np.int64)
        run("cudnnReduceTensor", bench.reduce_desc, c_void_p(index.ctypes.data), c_size_t(8), None, c_size_t(0), one, large,
            address, zero, single, c_void_p(result.ctypes.data))  # fmt: skip
        return None if (result[0], index[0]) == (99, count - 1) else f"{result[0]} at {index[0]}"
    for name, body in (("set", set_), ("scale", scale), ("add", add), ("op", op), ("reduce", reduce)):
        bench.check(f"{name} of {count} elements", body)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20250117)
    parser.add_argument("--show", type=int, default=20, help="failures that are described in full")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--negative-control", action="store_true")
    parser.add_argument("--part", choices=["broadcasts", "reductions", "types", "extents"], help="only this part")
    parser.add_argument("--core", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="a sample: one of N problems")
    options = parser.parse_args()
    os.environ["CUDNN_SHIM_BACKEND"] = options.core
    if options.slow and options.core == "cuda":
        parser.error("the slow problems are for the CPU core")
    np.seterr(all="ignore")  # overflow and NaN are part of the data
    bench = Bench(options)
    bench.every = options.every
    parts = {"broadcasts": broadcasts, "reductions": reductions, "types": types, "extents": extents}
    if options.slow:
        slow(bench)
    elif options.negative_control:
        types(bench)
    else:
        for name, part in parts.items():
            if options.part in (None, name):
                part(bench)
    print(f"{bench.passed} passed, {bench.failed} failed, 0 skipped")
    return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
