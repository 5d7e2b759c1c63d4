"""Multi-head attention - the output and all gradients - against its definition in binary64, written with NumPy, row by row.

Random problems over everything: each projection on or off, biases, beams, orders of axes, lengths in descriptors and in the arrays,
windows of every kind (whole, causal, local, empty, far beyond both ends), residuals, both dropouts, ADD and SET, four types. Weights
are written through the descriptors that cudnnGetMultiHeadAttnWeights tells. Padding, workspace, reserve space and results are
filled with NaN before a call, memory has exactly the size that is asked for, and guards behind it. Some problems of DOUBLE have
their gradients compared with differences of the output as well, which needs no formula of a gradient.

With what a result is made of scaled to about 1, the bound is 256 roundings of the type that is computed in, times 1 and the largest
magnitude of the result, and one rounding of what is stored.
"""

import argparse
import copy
import hashlib
import os
import subprocess
import sys
from ctypes import byref, c_double, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

import numpy as np

import cudnn
import device
from attention_reference import Expected, Problem, wide
from reference import TYPES

GUARD = 64
STORED = {cudnn.FLOAT: 2.0**-23, cudnn.DOUBLE: 2.0**-52, cudnn.HALF: 2.0**-10, cudnn.BFLOAT16: 2.0**-7}
ALL = -1
ADD, SET = 0, 1
SEED = 4711


class Buffer:
    """Bytes with guards on both sides; NaN to begin with, whatever type they are read as."""

    def __init__(self, size):
        self.raw = np.full(size + 2 * GUARD + 64, 0xFF, np.uint8)
        self.start = GUARD + -(self.raw.ctypes.data + GUARD) % 64
        self.size = size
        self.raw[: self.start] = self.raw[self.start + size :] = 0xA5

    @property
    def address(self):
        return self.raw.ctypes.data + self.start

    def view(self, kind):
        return self.raw[self.start : self.start + self.size].view(kind)

    def is_guarded(self):
        return (self.raw[: self.start] == 0xA5).all() and (self.raw[self.start + self.size :] == 0xA5).all()


class Attention:
    """The calls on one problem."""

    def __init__(self, lib, p):
        self.lib, self.p = lib, p
        self.desc = lib.create("AttnDescriptor")
        self.sequences = [lib.create("SeqDataDescriptor") for _ in range(4)]
        self.drops = [lib.create("DropoutDescriptor") for _ in range(2)]
        self.states = [Buffer(16) for _ in range(2)]
        for drop, states, probability in zip(self.drops, self.states, p.dropouts):
            states.view(np.uint64)[:] = [SEED + (states is self.states[1]), 0]
        compute = p.wide
        mode = int(p.one_to_one) + 2 * int(p.has_biases)
        self.set = lambda drops: lib.call(
            "cudnnSetAttnDescriptor", self.desc, c_uint(mode), p.heads, c_double(p.scale), p.code, compute, 0, drops[0], drops[1],
            *p.sizes, *p.projected, p.queries, p.keys, p.batch, p.beam)  # fmt: skip
        self.set([drop if probability > 0 else None for drop, probability in zip(self.drops, p.dropouts)])
        self.extents = [(p.queries, p.batch, p.beam, p.sizes[0]), (p.keys, p.batch, 1, p.sizes[1]), (p.keys, p.batch, 1, p.sizes[2]),
                        (p.queries, p.batch, p.beam, p.output)]  # fmt: skip
        for desc, extents, which in zip(self.sequences, self.extents, (0, 1, 1, 0)):
            lengths = p.lengths[which].reshape(-1)
            lib.call("cudnnSetSeqDataDescriptor", desc, p.code, 4, (c_int * 4)(*extents), (c_int * 4)(*p.axes),
                     c_size_t(lengths.size), (c_int * lengths.size)(*lengths), None)  # fmt: skip
        self.arrays = [self.array(lengths) for lengths in p.arrays]
        self.sizes = self.buffers(False), self.buffers(True)
        self.weights = Buffer(self.sizes[0][0])
        self.groups = [self.group(kind) for kind in range(8)]
        for values, place in zip([*p.matrices, *p.biases], self.groups):
            assert (values is None) == (place is None), "a group of weights is there or not"
            if values is not None:
                self.strided(self.weights, place)[:] = values
        self.inputs = [self.placed(x, which) for which, x in enumerate(p.inputs)]
        self.residuals = self.placed(p.residuals, 0) if p.has_residuals else None
        self.dout = self.placed(p.dout, 3)
        self.reserve = Buffer(self.sizes[1][2])
        self.everything = [*self.inputs, self.residuals, self.dout, self.weights, self.reserve]

    def close(self):
        for kind, pointers in (("AttnDescriptor", [self.desc]), ("SeqDataDescriptor", self.sequences), ("DropoutDescriptor", self.drops)):
            for pointer in pointers:
                self.lib.destroy(kind, pointer)

    def array(self, lengths):
        buffer = Buffer(4 * lengths.size)
        buffer.view(np.int32)[:] = lengths.reshape(-1)
        return buffer

    def buffers(self, is_training):
        sizes = [c_size_t(0) for _ in range(3)]
        places = [byref(size) for size in sizes]
        if not is_training:
            places[2] = None
        self.lib.call("cudnnGetMultiHeadAttnBuffers", self.lib.handle, self.desc, *places)
        return [size.value for size in sizes]

    def group(self, kind):
        """(first element, dims, strides) of a group of weights."""
        desc, address = self.lib.create("TensorDescriptor"), c_void_p()
        base = 1 << 20
        self.lib.call("cudnnGetMultiHeadAttnWeights", self.lib.handle, self.desc, kind, c_size_t(self.sizes[0][0]), c_void_p(base),
                      desc, byref(address))  # fmt: skip
        try:
            if address.value is None:
                return None
            _, dims, strides, _ = self.lib.get(desc)
            return (address.value - base) // np.dtype(self.p.kind).itemsize, dims, strides
        finally:
            self.lib.destroy("TensorDescriptor", desc)

    def strided(self, buffer, place):
        first, dims, strides = place
        size = np.dtype(self.p.kind).itemsize
        return np.lib.stride_tricks.as_strided(buffer.view(self.p.kind)[first:], dims, [size * s for s in strides])

    def seen(self, buffer, which):
        """Memory of a sequence as batch, beam, time, vector."""
        extents, axes = self.extents[which], self.p.axes
        array = buffer.view(self.p.kind).reshape([extents[axis] for axis in axes])
        return array.transpose([axes.index(axis) for axis in (1, 2, 0, 3)])

    def empty(self, which):
        return Buffer(int(np.prod(self.extents[which])) * np.dtype(self.p.kind).itemsize)

    def placed(self, values, which):
        """A sequence in memory, with NaN behind its ends."""
        own = which if values.shape[-1] == self.extents[which][3] else 3
        buffer = self.empty(own)
        seen, lengths = self.seen(buffer, own), self.p.lengths[which in (1, 2)]
        for b in range(values.shape[0]):
            for r in range(values.shape[1]):
                seen[b, r, : lengths[b, r]] = values[b, r, : lengths[b, r]]
        return buffer

    def windows(self):
        return [(c_int * self.p.queries)(*(int(w) for w in row)) for row in self.p.windows]

    def forward(self, current=ALL, is_training=False, out=None):
        p, lib = self.p, self.lib
        out = out or self.empty(3)
        self.restore()
        memory = self.reserve if is_training else Buffer(self.sizes[0][1])
        low, high = self.windows()
        buffers = [out, memory, *self.arrays, *self.inputs, self.weights, *self.states] + ([self.residuals] if p.has_residuals else [])
        with lib.memory.placed(*buffers) as (at_out, at_memory, at_q, at_k, *at):
            self.place_states(at[4:6])
            sizes = (self.sizes[1][1], None, self.reserve.size, c_void_p(at_memory))
            if not is_training:
                sizes = (memory.size, c_void_p(at_memory), 0, None)
            q, k, v, o = self.sequences
            weights = c_void_p(at[3]) if self.weights.size else None
            lib.call("cudnnMultiHeadAttnForward", lib.handle, self.desc, current, low, high, c_void_p(at_q), c_void_p(at_k), q,
                     c_void_p(at[0]), c_void_p(at[6]) if p.has_residuals else None, k, c_void_p(at[1]), v, c_void_p(at[2]), o,
                     c_void_p(at_out), c_size_t(self.weights.size), weights, c_size_t(sizes[0]), sizes[1], c_size_t(sizes[2]),
                     sizes[3])  # fmt: skip
        assert all(buffer.is_guarded() for buffer in (out, memory, self.weights, *self.inputs)), "a guard was written"
        return self.seen(out, 3)

    def restore(self):
        for i, states in enumerate(self.states):
            states.view(np.uint64)[:] = [SEED + i, i if self.p.is_stateless else 0]

    def place_states(self, addresses):
        """Where the states are; without any, masks are drawn from the seeds, the second one with call number 1."""
        for i, (drop, address, probability) in enumerate(zip(self.drops, addresses, self.p.dropouts)):
            place = None if self.p.is_stateless else c_void_p(address)
            self.lib.call("cudnnRestoreDropoutDescriptor", drop, self.lib.handle, c_float(probability), place, c_size_t(16),
                          c_ulonglong(SEED + i))  # fmt: skip

    def masks(self):
        """The factors that both dropouts multiply with, from cudnnDropoutForward with the same states."""
        p, lib = self.p, self.lib
        shapes = [(p.batch, p.beam, p.heads, p.queries, p.keys), (p.batch, p.beam, p.queries, p.output)]
        self.restore()
        factors = []
        for drop, states, probability, shape in zip(self.drops, self.states, p.dropouts, shapes):
            if probability == 0:
                factors.append(None)
                continue
            count = int(np.prod(shape))
            kind = TYPES[p.wide][1]
            x, mask = Buffer(count * np.dtype(kind).itemsize), Buffer(4 * -(-count // 32))
            x.view(kind)[:] = 1.0
            desc = lib.create("TensorDescriptor")
            lib.set_strided(desc, p.wide, (1, 1, 1, count), (count, count, count, 1))
            with lib.memory.placed(x, mask, states) as (at_x, at_mask, at_states):
                lib.call("cudnnRestoreDropoutDescriptor", drop, lib.handle, c_float(probability), c_void_p(at_states), c_size_t(16),
                         c_ulonglong(0))  # fmt: skip
                lib.call("cudnnDropoutForward", lib.handle, drop, desc, c_void_p(at_x), desc, c_void_p(at_x), c_void_p(at_mask),
                         c_size_t(mask.size))  # fmt: skip
            lib.destroy("TensorDescriptor", desc)
            factors.append(x.view(kind).astype(np.float64).reshape(shape))
        return factors

    def data(self):
        p, lib = self.p, self.lib
        low, high = self.windows()
        results = [self.empty(which) for which in range(3)]
        buffers = [*results, self.reserve, *self.arrays, *self.inputs, self.weights, self.dout]
        with lib.memory.placed(*buffers) as at:
            dq, dk, dv, reserve, at_q, at_k, q, k, v, weights, dout = (c_void_p(address) for address in at)
            qd, kd, vd, od = self.sequences
            lib.call("cudnnMultiHeadAttnBackwardData", lib.handle, self.desc, low, high, at_q, at_k, od, dout, qd, dq, q, kd, dk, k, vd,
                     dv, v, c_size_t(self.weights.size), weights if self.weights.size else None, c_size_t(0), None,
                     c_size_t(self.reserve.size), reserve)  # fmt: skip
        assert all(buffer.is_guarded() for buffer in (*results, self.reserve)), "a guard was written"
        return [self.seen(buffer, which) for which, buffer in enumerate(results)]

    def weight_gradients(self, mode, old=None):
        p, lib = self.p, self.lib
        result = Buffer(self.weights.size)
        if old is not None:
            result.view(p.kind)[:] = old
        buffers = [result, self.reserve, *self.inputs, self.weights, self.dout]
        with lib.memory.placed(*buffers) as at:
            dw, reserve, q, k, v, weights, dout = (c_void_p(address) for address in at)
            qd, kd, vd, od = self.sequences
            given = (weights, dw) if self.weights.size else (None, None)
            lib.call("cudnnMultiHeadAttnBackwardWeights", lib.handle, self.desc, mode, qd, q, kd, k, vd, v, od, dout,
                     c_size_t(self.weights.size), *given, c_size_t(0), None, c_size_t(self.reserve.size), reserve)  # fmt: skip
        assert result.is_guarded() and self.reserve.is_guarded(), "a guard was written"
        return result


class Bench:
    def __init__(self, options):
        self.options = options
        self.lib = cudnn.Library(options.library, device.Cuda() if options.core == "cuda" else device.Host())
        self.passed = self.failed = self.worst = 0

    def differs(self, p, what, got, want):
        got = wide(got)
        if self.options.negative_control and got.size:
            got = got.copy()
            got.reshape(-1)[0] += 1.0
        size = max(1.0, float(np.abs(want).max(initial=0.0)))
        bound = 256 * STORED[p.wide] * size + STORED[p.code] * np.abs(want)
        off = np.abs(got - want)
        if np.isfinite(got).all():
            self.worst = max(self.worst, float((off / bound).max(initial=0.0)))
        if np.isnan(off).any() or (off > bound).any():
            at = np.unravel_index(int(np.nanargmax(np.where(np.isnan(off), np.inf, off / bound))), want.shape)
            return f"{what}{[int(i) for i in at]} is {got[at]}, not {want[at]} +- {bound[at] if np.ndim(bound) else bound}"
        return None

    def bits(self, a, b):
        return np.array_equal(np.ascontiguousarray(a).view(np.uint8), np.ascontiguousarray(b).view(np.uint8))

    def attention(self, rng, case):
        # The weights are never dropped altogether: inference, which is compared with training, refuses that.
        drawn = float(rng.choice([0.0, 0.25, 0.5])), float(rng.choice([0.0, 0.25, 0.5, 1.0]))
        dropouts = (0.0, 0.0) if rng.random() < 0.6 else drawn
        p = Problem(rng, dropouts)
        p.is_stateless = bool(rng.random() < 0.3)
        a = Attention(self.lib, p)
        try:
            return (wrong := self.outputs(rng, p, a) or self.gradients(rng, p, a)) and f"{p}: {wrong}"
        finally:
            a.close()

    def outputs(self, rng, p, a):
        whole = a.forward()
        if wrong := self.differs(p, "out", whole, Expected(p).out):
            return wrong
        current = int(rng.integers(p.queries))
        row = a.forward(current)
        if not self.bits(row[:, :, current], whole[:, :, current]):
            return f"time step {current} alone has other bits"
        others = np.delete(np.ascontiguousarray(row), current, 2)
        if not (np.ascontiguousarray(others).view(np.uint8) == 0xFF).all():
            return f"others than time step {current} were written"
        for other, what, want in self.alike(rng, p, whole):
            moved = Attention(self.lib, other)
            got = moved.forward()
            moved.close()
            if not self.bits(got, want):
                return f"{what}: other bits"
        return None

    @staticmethod
    def alike(rng, p, out):
        """Problems whose output has the same bits: other orders of axes, a sample alone."""
        moved = copy.copy(p)
        moved.axes = [int(axis) for axis in rng.permutation(3)] + [3]
        yield moved, f"axes {moved.axes}", out
        alone, b = copy.copy(p), int(rng.integers(p.batch))
        alone.batch = 1
        only = lambda array: None if array is None else array[b : b + 1]
        alone.inputs, alone.residuals, alone.dout = [only(x) for x in p.inputs], only(p.residuals), only(p.dout)
        alone.lengths, alone.arrays = [only(x) for x in p.lengths], [only(x) for x in p.arrays]
        yield alone, f"sample {b} alone", only(out)

    def gradients(self, rng, p, a):
        drops = a.masks()
        want = Expected(p, drops=drops)
        trained = a.forward(is_training=True)
        if wrong := self.differs(p, "out in training", trained, want.out):
            return wrong
        for which, (got, name) in enumerate(zip(a.data(), ("dqueries", "dkeys", "dvalues"))):
            if wrong := self.differs(p, name, got, want.gradients[which]):
                return wrong
        # Values behind the ends that the arrays tell and the descriptors do not are read: NaN would stay.
        count = a.weights.size // np.dtype(p.kind).itemsize
        old = (rng.standard_normal(count) * 0.5).astype(p.kind)
        results = a.weight_gradients(SET), a.weight_gradients(ADD, old)
        for kind, (place, want_group) in enumerate(zip(a.groups, [*want.matrices, *want.biases])):
            if place is None:
                continue
            if wrong := self.differs(p, f"gradient of group {kind}", a.strided(results[0], place), want_group):
                return wrong
            before = np.lib.stride_tricks.as_strided(old[place[0] :], place[1], [old.itemsize * s for s in place[2]])
            if wrong := self.differs(p, f"sum with group {kind}", a.strided(results[1], place), wide(before) + want_group):
                return wrong
        return None

    def differences(self, rng, case):
        """Gradients by inputs against differences of the library's own output."""
        p = Problem(rng, code=cudnn.DOUBLE)
        p.arrays = [lengths.copy() for lengths in p.lengths]
        a = Attention(self.lib, p)
        a.forward(is_training=True)
        gradients = [np.array(g) for g in a.data()]
        a.close()
        step = 1e-5
        for which in range(3):
            at = tuple(int(rng.integers(n)) for n in p.inputs[which].shape)
            if at[2] >= p.lengths[which > 0][at[0], at[1]]:
                continue
            sums = []
            for sign in (1, -1):
                kept = p.inputs[which].copy()
                p.inputs[which][at] += sign * step
                moved = Attention(self.lib, p)
                sums.append(float((wide(moved.forward()) * p.dout).sum()))
                moved.close()
                p.inputs[which] = kept
            want, got = (sums[0] - sums[1]) / (2 * step), float(gradients[which][at])
            if self.options.negative_control:
                got += 1.0
            if not abs(got - want) <= 1e-5 * max(1.0, abs(want)):
                return f"{p}: the gradient {got} at {at} of input {which}, and a difference of {want}"
        return None

    def digest(self, seed):
        """A hash of everything that larger problems compute."""
        digest = hashlib.sha256()
        for case in range(6):
            rng = np.random.default_rng([seed, case])
            p = Problem(rng, (0.25, 0.25), large=7)
            a = Attention(self.lib, p)
            for array in (a.forward(), a.forward(is_training=True), *a.data(), a.weight_gradients(SET).view(p.kind)):
                digest.update(np.ascontiguousarray(array).tobytes())
            a.close()
        return digest.hexdigest()

    def threads(self, rng, case):
        """The same bits for any number of threads."""
        digests = []
        for threads in ("1", "2", "5"):
            command = [sys.executable, __file__, "--library", self.options.library, "--digest", "--seed", str(self.options.seed)]
            child = subprocess.run(command, env={**os.environ, "CUDNN_SHIM_NUM_THREADS": threads}, capture_output=True, text=True)
            digests.append(child.stdout)
            if child.returncode:
                return child.stderr
        return None if len(set(digests)) == 1 and digests[0] else f"digests {digests}"

    def check(self, what, function, seed):
        rng = np.random.default_rng([self.options.seed, seed])
        try:
            wrong = function(rng, seed)
        except (cudnn.Refused, AssertionError) as reason:
            wrong = str(reason)
        if bool(wrong) == bool(self.options.negative_control):
            self.passed += 1
            return
        self.failed += 1
        if self.failed <= self.options.show:
            print(f"  {what}: {wrong or 'a wrong number was not noticed'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--show", type=int, default=10, help="failures that are described in full")
    parser.add_argument("--negative-control", action="store_true")
    parser.add_argument("--digest", action="store_true", help="print a hash of what larger problems compute")
    parser.add_argument("--core", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    os.environ["CUDNN_SHIM_BACKEND"] = options.core
    np.seterr(all="ignore")
    bench = Bench(options)
    if options.digest:
        print(bench.digest(options.seed))
        return 0
    for case in range(options.cases):
        bench.check(f"attention {case}", bench.attention, case)
    if not options.negative_control:
        for case in range(options.cases, options.cases + options.cases // 4):
            bench.check(f"differences {case}", bench.differences, case)
        if options.core == "cpu":
            bench.check("threads", bench.threads, 0)
    print(f"the largest error is {bench.worst:.3f} of its bound")
    print(f"{bench.passed} passed, {bench.failed} failed, 0 skipped")
    return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
