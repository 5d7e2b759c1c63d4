"""cudnnRNNForward, cudnnRNNBackwardData_v8 and cudnnRNNBackwardWeights_v8 against a model in binary64 (cells.py), and their promises.

    recurrent.py --library PATH/libcudnn.so.9 [--cases N] [--seed S] [--only I] [--negative-control] [--core cpu|cuda]

Random networks over cells, biases, layers, directions, skipped input, projection, clipping, types, lengths (0 too), layouts, and states that
are given or not. Bound: 8 u (T + 4) layers sqrt(H + I) times the largest number of the array, with u of the type of the data. Then, to the
bit: every layout gives the same; so does training, one call for each sequence, and one call for each step; padding is never read, and is
what it is promised to be. Gradients with dropout are held to differences of the library's own forward pass in binary64, and
what is dropped between layers to its probability.
"""

import argparse
import os
import sys
from ctypes import byref, c_double, c_float, c_int, c_int32, c_size_t, c_uint, c_ulonglong, c_void_p

import numpy as np

import cells
import cudnn
from reference import TYPES, convert

UNIT = {cudnn.FLOAT: 2.0**-24, cudnn.DOUBLE: 2.0**-53, cudnn.HALF: 2.0**-11, cudnn.BFLOAT16: 2.0**-8}
PADDED, PACKED, BATCH_MAJOR = range(3)


class Buffer:
    """Bytes for a call, as `memory.placed` takes them."""

    def __init__(self, size):
        self.raw = np.full(size + 256, 0xFF, np.uint8)
        self.address = self.raw.ctypes.data + 64
        self.size = size

    @property
    def bytes(self):
        return self.raw[64 : 64 + self.size]


def to_bytes(values, code):
    return np.ascontiguousarray(convert(np.asarray(values, np.float64), TYPES[code][1])).view(np.uint8).reshape(-1)


class Session:
    """A network in the library."""

    def __init__(self, lib, net, code, dropout=0.0, seed=5):
        self.lib, self.net, self.code, self.seed = lib, net, code, seed
        self.rnn, self.drop = lib.create("RNNDescriptor"), lib.create("DropoutDescriptor")
        self.states = Buffer(64)
        self.dropout = dropout
        self.restart()
        compute = cudnn.DOUBLE if code == cudnn.DOUBLE else cudnn.FLOAT
        lib.call("cudnnSetRNNDescriptor_v8", self.rnn, 0, net.cell, net.bias, net.directions - 1, int(net.skip), code, compute, 0,
                 c_int32(net.inputs), c_int32(net.hidden), c_int32(net.projected), c_int32(net.layers), self.drop, c_uint(1))  # fmt: skip
        if net.clip is not None:
            lib.call("cudnnRNNSetClip_v8", self.rnn, 1, 1, c_double(net.clip[0]), c_double(net.clip[1]))
        size = c_size_t()
        lib.call("cudnnGetRNNWeightSpaceSize", lib.handle, self.rnn, byref(size))
        self.item = np.dtype(TYPES[code][1]).itemsize
        assert size.value == net.places()[1] * self.item, f"weights of {net} take {size.value} bytes"

    def restart(self):
        """The states of the dropout as they were at first."""
        with self.lib.memory.placed(self.states) as at:
            if self.dropout:
                assert self.lib.memory.__class__.__name__ == "Host", "states stay where they are"
            self.lib.call("cudnnSetDropoutDescriptor", self.drop, self.lib.handle, c_float(self.dropout), c_void_p(at[0] if self.dropout else 0),
                          c_size_t(64), c_ulonglong(self.seed))  # fmt: skip

    def close(self):
        self.lib.destroy("RNNDescriptor", self.rnn)
        self.lib.destroy("DropoutDescriptor", self.drop)

    def data(self, layout, lengths, longest, vector, fill):
        desc = self.lib.create("RNNDataDescriptor")
        pattern = None if fill is None else to_bytes([fill], self.code)
        self.lib.call("cudnnSetRNNDataDescriptor", desc, self.code, layout, longest, len(lengths), vector, (c_int * len(lengths))(*lengths),
                      c_void_p(pattern.ctypes.data if fill is not None else 0))  # fmt: skip
        return desc

    def rows(self, layout, lengths, longest):
        """The row of each step of each sequence, and the number of rows."""
        batch = len(lengths)
        if layout == PACKED:
            starts = np.concatenate([[0], np.cumsum([sum(n > t for n in lengths) for t in range(longest)])])
            return [[int(starts[t]) + b for t in range(n)] for b, n in enumerate(lengths)], int(starts[-1])
        row = (lambda b, t: b * longest + t) if layout == BATCH_MAJOR else (lambda b, t: t * batch + b)
        return [[row(b, t) for t in range(n)] for b, n in enumerate(lengths)], batch * longest

    def spread(self, rows, count, sequences, vector, other):
        """Vectors in their rows; `other` in all other rows."""
        values = np.full((count, vector), other)
        for places, sequence in zip(rows, sequences):
            if len(places):
                values[places] = sequence
        buffer = Buffer(count * vector * self.item)
        buffer.bytes[:] = to_bytes(values, self.code)
        return buffer

    def filled(self, values):
        buffer = Buffer(np.size(values) * self.item)
        buffer.bytes[:] = to_bytes(values, self.code)
        return buffer

    def numbers(self, buffer, shape):
        kind = TYPES[self.code][1]
        return buffer.bytes.view(kind).astype(np.float64).reshape(shape)

    def run(self, flat, sequences, hx, cx, dys, dhy, dcy, layout, longest, training, fill=None, wants=True, dw=None):
        """One forward call, and the backward calls if `training`. Arrays that are None are not given. Returns a dict of arrays."""
        lib, net, batch = self.lib, self.net, len(sequences)
        lengths = [len(sequence) for sequence in sequences]
        rows, count = self.rows(layout, lengths, longest)
        width = net.directions * net.projected
        x_desc = self.data(layout, lengths, longest, net.inputs, None)
        y_desc = self.data(layout, lengths, longest, width, fill)
        states = []
        for entries in (net.projected, net.hidden):
            desc = lib.create("TensorDescriptor")
            lib.set_format(desc, cudnn.NCHW, self.code, (net.parts, batch, entries))
            states.append(desc)
        has_cells = net.cell == cells.LSTM
        shapes = [(net.parts, batch, net.projected), (net.parts, batch, net.hidden)]
        workspace, reserve = c_size_t(), c_size_t()
        lib.call("cudnnGetRNNTempSpaceSizes", lib.handle, self.rnn, int(training), x_desc, byref(workspace), byref(reserve))
        space, kept = Buffer(workspace.value), Buffer(reserve.value if training else 0)
        x = self.spread(rows, count, sequences, net.inputs, np.nan)
        y = self.spread(rows, count, [], width, 77.0)
        given = lambda values: Buffer(0) if values is None else self.filled(values)
        hx_, cx_, weights = given(hx), given(cx if has_cells else None), self.filled(flat)
        hy, cy = self.filled(np.full(shapes[0], 99.0)), self.filled(np.full(shapes[1], 99.0))
        place = lambda at, values: c_void_p(at if values is not None else 0)
        out = lambda at, wanted=True: c_void_p(at if wants and wanted else 0)
        sizes = c_size_t(weights.size), c_size_t(space.size), c_size_t(kept.size)
        cells_given = cx if has_cells else None
        results = {}
        dx = self.spread(rows, count, [], net.inputs, 55.0)
        dy = self.spread(rows, count, dys, width, np.nan) if training and dys is not None else Buffer(0)
        dhy_, dcy_ = given(dhy), given(dcy if has_cells else None)
        dhx, dcx = self.filled(np.full(shapes[0], 44.0)), self.filled(np.full(shapes[1], 44.0))
        dw = np.zeros_like(flat) if dw is None else dw
        dweights = self.filled(dw)
        everything = [x, y, hx_, cx_, hy, cy, weights, space, kept, dy, dx, dhy_, dcy_, dhx, dcx, dweights]
        with lib.memory.placed(*everything) as at:
            a = dict(zip("x y hx cx hy cy w ws rs dy dx dhy dcy dhx dcx dw".split(), at))
            lib.call("cudnnRNNForward", lib.handle, self.rnn, int(training), None, x_desc, c_void_p(a["x"]), y_desc, c_void_p(a["y"]),
                     states[0], place(a["hx"], hx), out(a["hy"]), states[1], place(a["cx"], cells_given), out(a["cy"], has_cells),
                     sizes[0], c_void_p(a["w"]), sizes[1], c_void_p(a["ws"]), sizes[2], c_void_p(a["rs"]))  # fmt: skip
            if training:
                # Nothing may be carried in the workspace; where arrays are not the device's memory this changes nothing.
                space.raw[:] = 0xFF
                lib.call("cudnnRNNBackwardData_v8", lib.handle, self.rnn, None, y_desc, c_void_p(a["y"]), place(a["dy"], dys), x_desc,
                         c_void_p(a["dx"]), states[0], place(a["hx"], hx), place(a["dhy"], dhy), out(a["dhx"]), states[1],
                         place(a["cx"], cells_given), place(a["dcy"], dcy if has_cells else None), out(a["dcx"], has_cells),
                         sizes[0], c_void_p(a["w"]), sizes[1], c_void_p(a["ws"]), sizes[2], c_void_p(a["rs"]))  # fmt: skip
                space.raw[:] = 0xFF
                lib.call("cudnnRNNBackwardWeights_v8", lib.handle, self.rnn, 0, None, x_desc, c_void_p(a["x"]), states[0], place(a["hx"], hx),
                         y_desc, c_void_p(a["y"]), sizes[0], c_void_p(a["dw"]), sizes[1], c_void_p(a["ws"]), sizes[2],
                         c_void_p(a["rs"]))  # fmt: skip
        guards = all((b.raw[:64] == 0xFF).all() and (b.raw[64 + b.size :] == 0xFF).all() for b in everything)
        assert guards, f"{net}: written beside an operand"
        takes = lambda buffer, vector: (lambda values: ([values[r] for r in rows], np.delete(values, sum(rows, []), 0)))(self.numbers(buffer, (count, vector)))
        results["y"], padding = takes(y, width)
        assert (padding == (77.0 if fill is None else fill)).all(), f"{net}: padding of y"
        if wants:
            results["hy"] = self.numbers(hy, shapes[0])
            results["cy"] = self.numbers(cy, shapes[1]) if has_cells else None
        if training:
            results["dx"], padding = takes(dx, net.inputs)
            assert (padding == 0).all(), f"{net}: padding of dx"
            if wants:
                results["dhx"] = self.numbers(dhx, shapes[0])
                results["dcx"] = self.numbers(dcx, shapes[1]) if has_cells else None
            results["dw"] = self.numbers(dweights, flat.shape)
        for desc in states:
            lib.destroy("TensorDescriptor", desc)
        for desc in (x_desc, y_desc):
            lib.destroy("RNNDataDescriptor", desc)
        return results


def flattened(value):
    if isinstance(value, list):
        value = np.concatenate([np.ravel(each) for each in value]) if value else np.zeros(0)
    return np.ravel(value)


class Bench:
    def __init__(self, options):
        import device

        self.options = options
        self.lib = cudnn.Library(options.library, device.Cuda() if options.core == "cuda" else device.Host())
        self.passed = self.failed = 0

    def check(self, index, body):
        rng = np.random.default_rng([self.options.seed, index])
        wrong = body(rng)
        good = bool(wrong) if self.options.negative_control else not wrong
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        if not good and self.failed <= 20:
            print(f"case {index}: {wrong or 'the comparison noticed nothing'}", flush=True)

    def network(self, rng, code=None):
        cell = int(rng.integers(4))
        hidden = int(rng.integers(1, 18))
        skip = bool(rng.random() < 0.2)
        projected = int(rng.integers(1, hidden + 1)) if cell == cells.LSTM and rng.random() < 0.3 else hidden
        clip = (-0.2, 0.25) if cell == cells.LSTM and rng.random() < 0.3 else None
        net = cells.Network(cell, int(rng.integers(4)), int(rng.integers(1, 3)), skip, hidden if skip else int(rng.integers(1, 18)), hidden, projected,
                            int(rng.integers(1, 4)), clip)  # fmt: skip
        return net, int(rng.choice(list(UNIT))) if code is None else code

    def draw(self, rng, net, code, batch, longest):
        kind = TYPES[code][1]
        numbers = lambda *shape: convert(rng.standard_normal(shape), kind).astype(np.float64).reshape(shape)
        lengths = [int(n) for n in rng.integers(0, longest + 1, batch)]
        sequences = [numbers(n, net.inputs) for n in lengths]
        dys = [numbers(n, net.directions * net.projected) for n in lengths]
        hidden, cell = (net.parts, batch, net.projected), (net.parts, batch, net.hidden)
        weights = convert(rng.standard_normal(net.places()[1]) / np.sqrt(net.hidden), kind).astype(np.float64)
        return weights, sequences, numbers(*hidden), numbers(*cell), dys, numbers(*hidden), numbers(*cell)

    def compare(self, got, want, bound, what):
        for name, value in want.items():
            if value is None or got.get(name) is None:
                continue
            a, b = flattened(got[name]), flattened(value)
            if self.options.negative_control and a.size and name == "dw":
                a = a.copy()
                a[0] += 4 * bound * max(1, np.abs(b).max()) + 1
            if a.size == 0:
                continue
            off = np.abs(a - b).max() if bound else float((a.view(np.uint64) != b.view(np.uint64)).any())
            if not off <= bound * max(1, np.abs(b).max()):
                return f"{what}: {name} is off by {off:.3g}, bound {bound * max(1, np.abs(b).max()):.3g}"
        return None

    def model(self, rng):
        net, code = self.network(rng)
        batch, longest = int(rng.integers(1, 6)), int(rng.integers(1, 8))
        arguments = self.draw(rng, net, code, batch, longest)
        layout = int(rng.integers(3))
        if layout == PACKED:
            order = sorted(range(batch), key=lambda b: -len(arguments[1][b]))
            order = [b for b in order if len(arguments[1][b])]
            if not order:
                return None if not self.options.negative_control else "nothing to compare"
            pick = lambda values: [values[b] for b in order] if isinstance(values, list) else values[:, order]
            arguments = (arguments[0], *(pick(values) for values in arguments[1:]))
            longest = len(arguments[1][0])
        given = [values if rng.random() < 0.75 else None for values in arguments[2:]]
        zeros = [[np.zeros_like(v) for v in values] if isinstance(values, list) else np.zeros_like(values) for values in arguments[2:]]
        full = [zero if values is None else values for values, zero in zip(given, zeros)]
        ys, hy, cy, dxs, dhx, dcx, dw = cells.run(net, arguments[0], arguments[1], *full)
        before = np.ones_like(dw)
        session = Session(self.lib, net, code)
        fill = None if rng.random() < 0.5 else 3.0
        got = session.run(arguments[0], arguments[1], *given, layout, longest, True, fill, dw=before)
        still = session.run(arguments[0], arguments[1], *given, layout, longest, False, fill)
        session.close()
        want = {"y": ys, "hy": hy, "cy": cy if net.cell == cells.LSTM else None, "dx": dxs, "dhx": dhx, "dcx": dcx, "dw": dw + before}
        bound = 8 * UNIT[code] * (longest + 4) * net.layers * np.sqrt(net.hidden + net.inputs)
        lengths = [len(s) for s in arguments[1]]
        what = f"{net} type {code} layout {layout} lengths {lengths} given {[v is not None for v in given]}"
        wrong = self.compare(got, want, bound, what)
        if wrong or self.options.negative_control:
            return wrong
        return self.compare(still, {name: got[name] for name in ("y", "hy", "cy")}, 0, f"{what}: training and inference")

    def promises(self, rng):
        """To the bit: layouts, sequences alone, steps alone."""
        net, code = self.network(rng)
        batch, longest = int(rng.integers(1, 6)), int(rng.integers(1, 8))
        w, xs, hx, cx, dys, dhy, dcy = self.draw(rng, net, code, batch, longest)
        session = Session(self.lib, net, code)
        what = f"{net} type {code} lengths {[len(x) for x in xs]}"
        first = session.run(w, xs, hx, cx, dys, dhy, dcy, PADDED, longest, True)
        other = session.run(w, xs, hx, cx, dys, dhy, dcy, BATCH_MAJOR, longest, True)
        wrong = self.compare(other, first, 0, f"{what}: batch-major and time-major")
        order = [b for b in sorted(range(batch), key=lambda b: -len(xs[b])) if len(xs[b])]
        if order and not wrong:
            take = lambda values: [values[b] for b in order] if isinstance(values, list) else values[:, order]
            packed = session.run(w, *(take(v) for v in (xs, hx, cx, dys, dhy, dcy)), PACKED, len(xs[order[0]]), True)
            want = {n: v if n == "dw" or v is None else take(v) for n, v in first.items()}
            wrong = self.compare(packed, want, 0, f"{what}: packed and padded")
        for b in range(batch):
            if wrong:
                break
            alone = session.run(w, [xs[b]], hx[:, b : b + 1], cx[:, b : b + 1], [dys[b]], dhy[:, b : b + 1], dcy[:, b : b + 1], PADDED, longest, True)
            want = {n: None if v is None or n == "dw" else [v[b]] if isinstance(v, list) else v[:, b : b + 1] for n, v in first.items()}
            wrong = self.compare(alone, want, 0, f"{what}: sequence {b} alone")
        rounds = net.cell == cells.LSTM and code in (cudnn.HALF, cudnn.BFLOAT16)
        if not wrong and net.directions == 1 and not rounds:
            h, c, steps = hx, cx, []
            whole = [xs[0]] if len(xs[0]) else []
            if whole:
                h, c = hx[:, :1], cx[:, :1]
                for x in xs[0]:
                    got = session.run(w, [x[None]], h, c, None, None, None, PADDED, 1, False)
                    h, c = got["hy"], c if got["cy"] is None else got["cy"]
                    steps.append(got["y"][0])
                want = {"y": [first["y"][0]], "hy": first["hy"][:, :1]}
                wrong = self.compare({"y": steps, "hy": h}, want, 0, f"{what}: step by step")
        session.close()
        return wrong

    def dropped(self, rng):
        """Layers that pass on what is positive: of each element that goes into the last one as many as the probability says are zero, the
        others grow by what these leave. Inference drops none."""
        n, layers, longest, chance = int(rng.integers(20, 50)), int(rng.integers(2, 4)), 20, float(rng.choice([0.125, 0.5, 0.75, 1.0]))
        net = cells.Network(cells.RELU, cells.NO_BIAS, 1, False, n, n, n, layers)
        flat = np.zeros(net.places()[1])
        for view in net.weights(flat):
            view["W"][0] = np.eye(n)
        code = int(rng.choice([cudnn.DOUBLE, cudnn.FLOAT]))
        xs = [(1 + rng.random((longest, n))).astype(np.float32).astype(np.float64) for _ in range(3)]
        zeros, states = [np.zeros((longest, n)) for _ in xs], np.zeros((layers, len(xs), n))
        session = Session(self.lib, net, code, chance)
        trained = session.run(flat, xs, states, states, zeros, states, states, PADDED, longest, True)
        still = session.run(flat, xs, states, states, None, None, None, PADDED, longest, False)
        session.close()
        left = (1 - chance) ** (layers - 1)
        grown = np.concatenate([y / x for x, y in zip(xs, trained["y"])]) * (left or 1)
        kept, count = (grown != 0).sum() + (3 * grown.size if self.options.negative_control else 0), grown.size
        if abs(kept - left * count) > 6 * np.sqrt(left * (1 - left) * count):
            return f"{net}: {kept} of {count} elements are left behind dropouts of {chance}"
        if np.abs(grown[grown != 0] - 1).max(initial=0) > 1e-6:
            return f"{net}: what dropouts of {chance} leave is {grown.max()} times what it should be"
        return self.compare({"y": still["y"]}, {"y": xs}, 0.1 * UNIT[code], f"{net} without training")

    def differences(self, rng):
        """Gradients with dropout in binary64, against differences of the forward pass from the same random states."""
        net, code = self.network(rng, cudnn.DOUBLE)
        batch, longest = int(rng.integers(1, 4)), int(rng.integers(1, 5))
        w, xs, hx, cx, dys, dhy, dcy = self.draw(rng, net, code, batch, longest)
        session = Session(self.lib, net, code, 0.4)
        got = session.run(w, xs, hx, cx, dys, dhy, dcy, PADDED, longest, True)
        has_cells = net.cell == cells.LSTM

        def loss(w, xs, hx, cx):
            session.restart()
            out = session.run(w, xs, hx, cx, dys, dhy, dcy, PADDED, longest, True)
            total = sum((y * dy).sum() for y, dy in zip(out["y"], dys)) + (out["hy"] * dhy).sum()
            return total + ((out["cy"] * dcy).sum() if has_cells else 0)

        # Along one random way for each kind of input. A kink on the way (ReLU, clipping) shows as a difference that halves with the step.
        for name, shift in (("dw", 0), ("dx", 1), ("dhx", 2), ("dcx", 3)):
            if got[name] is None:
                continue
            place = [w, xs, hx, cx]
            like = lambda v: [rng.standard_normal(e.shape) for e in v] if isinstance(v, list) else rng.standard_normal(v.shape)
            way = like(place[shift])
            add = lambda v, s: [e + s * d for e, d in zip(v, way)] if isinstance(v, list) else v + s * way
            slopes = []
            for step in (1e-5, 1e-6, 1e-7):
                ends = [loss(*(add(v, s) if k == shift else v for k, v in enumerate(place))) for s in (step, -step)]
                slopes.append((ends[0] - ends[1]) / (2 * step))
            want = (flattened(got[name]) * flattened(way)).sum()
            if self.options.negative_control:
                want += 1
            scale = 1 + np.abs(flattened(got[name])).sum()
            if min(abs(slope - want) for slope in slopes) > 1e-6 * scale:
                session.close()
                return f"{net} lengths {[len(x) for x in xs]}: {name} along a way is {want}, differences say {slopes}"
        session.close()
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--only", type=int)
    parser.add_argument("--negative-control", action="store_true")
    parser.add_argument("--core", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    os.environ["CUDNN_SHIM_BACKEND"] = options.core
    np.seterr(all="ignore")
    bench = Bench(options)
    for index in range(options.cases) if options.only is None else [options.only]:
        bench.check(index, bench.model)
        if index % 2 == 0 and not options.negative_control:
            bench.check(index + 1_000_000, bench.promises)
        if index % 10 == 0 and options.core == "cpu":
            bench.check(index + 2_000_000, bench.differences)
            bench.check(index + 3_000_000, bench.dropped)
    print(f"{bench.passed} passed, {bench.failed} failed, 0 skipped")
    return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
