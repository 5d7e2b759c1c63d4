"""Recurrent layers, multi-head attention and CTC loss against PyTorch in binary64: forward passes and all gradients.

    torch_witness.py --library PATH/libcudnn.so.9 [--cases N] [--seed S] [--negative-control]

RELU, TANH, LSTM, LSTM with projection and GRU of one to three layers, in one direction or both, with every mode of biases, lengths, and
states that are given or not; torch.nn.MultiheadAttention with padded keys and with a causal mask; torch.nn.functional.ctc_loss. Unlike the
models in NumPy beside this, what is compared with here was not written for the library. Without PyTorch nothing runs, and it says so.
"""

import argparse
import os
import sys

import numpy as np

import attention
import attention_reference
import cells
import ctc
import cudnn
import device
import recurrent

try:
    import torch
except ImportError:
    torch = None

# What PyTorch and the library sum in another order differs by a few units of binary64; terms are no larger than a hundred.
BOUND = 1e-11

# What PyTorch calls the weights of a part.
NAMES = {"W": "weight_ih_", "R": "weight_hh_", "bW": "bias_ih_", "bR": "bias_hh_", "P": "weight_hr_"}
BIASES = {cells.NO_BIAS: [], cells.SINGLE_INPUT: ["bW"], cells.SINGLE_RECURRENT: ["bR"], cells.DOUBLE_BIAS: ["bW", "bR"]}


def names_of(net):
    """The weights that a part of the network has."""
    return ["W", "R", *BIASES[net.bias], *(["P"] if net.projected != net.hidden else [])]


def tensor(values, wants=True):
    return torch.tensor(np.asarray(values, np.float64), dtype=torch.float64, requires_grad=wants)


class Witness:
    def __init__(self, options):
        self.control = options.negative_control
        self.lib = cudnn.Library(options.library, device.Host())
        self.losses = ctc.Losses(argparse.Namespace(core="cpu", **vars(options)))
        self.losses.control = False
        self.passed = self.failed = 0

    def off(self, got, want):
        """The first result that is not as it should be."""
        for name, value in want.items():
            a, b = np.asarray(got[name], np.float64), np.asarray(value, np.float64)
            if self.control and a.size:
                a = a.copy()
                a.reshape(-1)[-1] += 1e-6
            if a.shape != b.shape:
                return f"{name} has the shape {a.shape}, not {b.shape}"
            if a.size and not np.abs(a - b).max() <= BOUND * max(1, np.abs(b).max()):
                return f"{name} is off by {np.abs(a - b).max():.3g}"
        return None

    def layer(self, rng):
        cell, hidden = int(rng.integers(4)), int(rng.integers(1, 18))
        projected = int(rng.integers(1, hidden)) if cell == cells.LSTM and hidden > 1 and rng.random() < 0.5 else hidden
        net = cells.Network(cell, int(rng.integers(4)), int(rng.integers(1, 3)), False, int(rng.integers(1, 18)), hidden, projected,
                            int(rng.integers(1, 4)))  # fmt: skip
        batch, longest = int(rng.integers(1, 6)), int(rng.integers(1, 8))
        lengths = [int(n) for n in rng.integers(1, longest + 1, batch)]
        weights = rng.standard_normal(net.places()[1]) / np.sqrt(hidden)
        xs = [rng.standard_normal((n, net.inputs)) for n in lengths]
        dys = [rng.standard_normal((n, net.directions * projected)) for n in lengths]
        shapes = [(net.parts, batch, projected), (net.parts, batch, hidden)]
        hx, cx, dhy, dcy = [rng.standard_normal(shape) if rng.random() < 0.75 else None for shape in shapes * 2]
        session = recurrent.Session(self.lib, net, cudnn.DOUBLE)
        layout = int(rng.choice([recurrent.PADDED, recurrent.BATCH_MAJOR]))
        got = session.run(weights, xs, hx, cx, dys, dhy, dcy, layout, longest, True)
        still = session.run(weights, xs, hx, cx, dys, dhy, dcy, layout, longest, False)
        session.close()
        want, dw = self.module(net, weights, xs, hx, cx, dys, dhy, dcy)
        what = f"{net} lengths {lengths} given {[v is not None for v in (hx, cx, dhy, dcy)]}"
        joined = lambda found: {n: np.concatenate(v) if isinstance(v, list) else v for n, v in found.items() if v is not None}
        got, still = joined(got), joined(still)
        got["dw"] = np.concatenate([views[name].reshape(-1) for views in net.weights(got["dw"]) for name in names_of(net)])
        wrong = self.off(got, {**want, "dw": dw}) or self.off(still, {n: v for n, v in want.items() if n in ("y", "hy", "cy")})
        return wrong and f"{what}: {wrong}"

    def module(self, net, weights, xs, hx, cx, dys, dhy, dcy):
        """What PyTorch makes of it: results, and the gradient of the weights that the library has."""
        options = {"num_layers": net.layers, "bidirectional": net.directions == 2, "bias": net.bias != cells.NO_BIAS, "dtype": torch.float64}
        if net.cell == cells.LSTM:
            module = torch.nn.LSTM(net.inputs, net.hidden, proj_size=net.projected if net.projected != net.hidden else 0, **options)
        elif net.cell == cells.GRU:
            module = torch.nn.GRU(net.inputs, net.hidden, **options)
        else:
            module = torch.nn.RNN(net.inputs, net.hidden, nonlinearity="relu" if net.cell == cells.RELU else "tanh", **options)
        kept = []
        with torch.no_grad():
            for part, views in enumerate(net.weights(weights)):
                suffix = f"l{part // net.directions}" + ("_reverse" if part % net.directions else "")
                for name, prefix in NAMES.items():
                    parameter = getattr(module, prefix + suffix, None)
                    # A bias that the library lacks is zeros in the module, which has both or none.
                    if parameter is not None:
                        parameter.copy_(torch.tensor(views[name].reshape(parameter.shape)))
                kept += [getattr(module, NAMES[name] + suffix) for name in names_of(net)]
        lengths = [len(x) for x in xs]
        inputs = [tensor(x) for x in xs]
        packed = torch.nn.utils.rnn.pack_sequence(inputs, enforce_sorted=False)
        zeros = lambda entries: np.zeros((net.parts, len(xs), entries))
        h = tensor(zeros(net.projected) if hx is None else hx)
        c = tensor(zeros(net.hidden) if cx is None else cx)
        y, last = module(packed, (h, c) if net.cell == cells.LSTM else h)
        hy, cy = last if net.cell == cells.LSTM else (last, None)
        y = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0]
        y = torch.cat([y[b, :n] for b, n in enumerate(lengths)])
        loss = (y * tensor(np.concatenate(dys), False)).sum()
        loss = loss if dhy is None else loss + (hy * tensor(dhy, False)).sum()
        loss = loss if dcy is None or cy is None else loss + (cy * tensor(dcy, False)).sum()
        loss.backward()
        want = {"y": y, "hy": hy, "dx": torch.cat([x.grad for x in inputs]), "dhx": h.grad}
        if cy is not None:
            want.update(cy=cy, dcx=c.grad)
        want = {name: value.detach().numpy() for name, value in want.items()}
        return want, np.concatenate([parameter.grad.numpy().reshape(-1) for parameter in kept])

    def attention(self, rng):
        p = Module(rng)
        a = attention.Attention(self.lib, p)
        try:
            got = {"out": a.forward(is_training=True), "inference": a.forward()}
            a.forward(is_training=True)
            got.update(zip(("dq", "dk", "dv"), a.data()))
            dw = a.weight_gradients(attention.SET)
            got.update({f"group {k}": a.strided(dw, place) for k, place in enumerate(a.groups) if place is not None})
            wrong = self.off(got, p.expected())
            return wrong and f"{p}: {wrong}"
        finally:
            a.close()

    def loss(self, rng):
        self.losses.rng = rng
        rows, classes, labels, inputs = self.losses.problem(False)
        # PyTorch has no inputs without frames.
        inputs = [max(n, 1) for n in inputs]
        z = rng.standard_normal((rows, len(labels), classes)) * float(rng.choice([1, 6]))
        costs, gradients = self.losses.run(z, labels, inputs, cudnn.DOUBLE, 1, False, bool(rng.random() < 0.5))
        x = tensor(z)
        flat = torch.tensor(np.concatenate([np.zeros(0, int), *labels]).astype(int))
        want = torch.nn.functional.ctc_loss(x.log_softmax(-1), flat, torch.tensor(inputs), torch.tensor([len(label) for label in labels]),
                                            reduction="none", zero_infinity=False)  # fmt: skip
        fits = torch.isfinite(want)
        want[fits].sum().backward()
        fits = fits.numpy()
        infinite = np.isinf(costs)
        if (infinite == fits).any():
            return f"{rows}x{len(labels)}x{classes}: costs {costs}, and {want.detach().numpy()} of PyTorch"
        # Where a label does not fit its input, PyTorch asks for nothing, and the library for what its descriptor says.
        got = {"costs": costs[fits], "gradients": gradients[:, fits]}
        wrong = self.off(got, {"costs": want.detach().numpy()[fits], "gradients": x.grad.numpy()[:, fits]}) if fits.any() else None
        if self.control and not fits.any():
            return "nothing to compare"
        return wrong and f"{rows}x{len(labels)}x{classes}, labels {[len(label) for label in labels]} in {inputs}: {wrong}"

    def check(self, what, body, seed):
        try:
            wrong = body(np.random.default_rng(seed))
        except (cudnn.Refused, AssertionError) as reason:
            wrong = str(reason)
        good = bool(wrong) == self.control
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        if not good and self.failed <= 20:
            print(f"{what}: {wrong or 'the comparison noticed nothing'}", flush=True)


class Module(attention_reference.Problem):
    """What torch.nn.MultiheadAttention computes, and its modules of projections."""

    def __init__(self, rng):
        pick = lambda *values: int(rng.choice(values))
        self.code, self.kind, self.wide = cudnn.DOUBLE, np.float64, cudnn.DOUBLE
        self.heads, self.batch, self.beam, self.one_to_one = pick(1, 2, 3), pick(1, 2, 4), 1, False
        self.queries, self.keys, self.entries = pick(1, 3, 5, 9), pick(1, 4, 6, 11), pick(1, 2, 4, 7)
        self.output = self.heads * self.entries
        self.sizes, self.projected = [self.output, pick(1, 3, 8), pick(1, 3, 5)], [self.entries] * 3 + [self.output]
        self.has_biases, self.has_residuals, self.residuals = bool(rng.random() < 0.5), False, None
        self.scale = self.entries**-0.5
        self.axes, self.dropouts = [int(axis) for axis in rng.permutation(3)] + [3], (0.0, 0.0)
        self.lengths = [np.full((self.batch, 1), self.queries, np.int32), self.drawn(rng, self.keys, (self.batch, 1))]
        self.arrays = [lengths.copy() for lengths in self.lengths]
        self.is_causal = bool(rng.random() < 0.4)
        t = np.arange(self.queries)
        self.windows = np.array([0 * t, t + 1 if self.is_causal else 0 * t + attention_reference.FAR], np.int32)
        fill = lambda *shape: rng.standard_normal(shape) * 0.6
        self.inputs = [fill(self.batch, 1, n, size) for n, size in zip((self.queries, self.keys, self.keys), self.sizes)]
        self.matrices = [fill(self.heads, p, c) for p, c in zip(self.projected, [*self.sizes, self.entries])]
        self.biases = [fill(self.heads if i < 3 else 1, p, 1) if self.has_biases else None for i, p in enumerate(self.projected)]
        self.dout = fill(self.batch, 1, self.queries, self.output)

    def expected(self):
        module = torch.nn.MultiheadAttention(self.output, self.heads, bias=self.has_biases, kdim=self.sizes[1], vdim=self.sizes[2],
                                             batch_first=True, dtype=torch.float64)  # fmt: skip
        equal = self.sizes == [self.output] * 3
        whole = [matrix.reshape(-1, matrix.shape[2]) for matrix in self.matrices[:3]]
        with torch.no_grad():
            if equal:
                module.in_proj_weight.copy_(torch.tensor(np.concatenate(whole)))
            else:
                for name, matrix in zip("qkv", whole):
                    getattr(module, f"{name}_proj_weight").copy_(torch.tensor(matrix))
            module.out_proj.weight.copy_(torch.tensor(np.concatenate(list(self.matrices[3]), 1)))
            if self.has_biases:
                module.in_proj_bias.copy_(torch.tensor(np.concatenate([bias.reshape(-1) for bias in self.biases[:3]])))
                module.out_proj.bias.copy_(torch.tensor(self.biases[3].reshape(-1)))
        q, k, v = [tensor(x[:, 0]) for x in self.inputs]
        behind = torch.tensor(np.arange(self.keys)[None] >= self.lengths[1])
        causal = torch.tensor(np.arange(self.keys)[None] > np.arange(self.queries)[:, None]) if self.is_causal else None
        out = module(q, k, v, key_padding_mask=behind, attn_mask=causal, need_weights=False)[0]
        (out * tensor(self.dout[:, 0], False)).sum().backward()
        result = out.detach().numpy()[:, None]
        want = {"out": result, "inference": result}
        want.update({name: x.grad.numpy()[:, None] for name, x in zip(("dq", "dk", "dv"), (q, k, v))})
        grads = module.in_proj_weight.grad.chunk(3) if equal else [getattr(module, f"{name}_proj_weight").grad for name in "qkv"]
        for k, (grad, matrix) in enumerate(zip(grads, self.matrices)):
            want[f"group {k}"] = grad.numpy().reshape(matrix.shape)
        want["group 3"] = np.stack(np.split(module.out_proj.weight.grad.numpy(), self.heads, 1))
        if self.has_biases:
            for k, grad in enumerate(module.in_proj_bias.grad.chunk(3)):
                want[f"group {4 + k}"] = grad.numpy().reshape(self.biases[k].shape)
            want["group 7"] = module.out_proj.bias.grad.numpy().reshape(self.biases[3].shape)
        return want


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--cases", type=int, default=120, help="of each kind")
    parser.add_argument("--negative-control", action="store_true")
    options = parser.parse_args()
    if torch is None:
        print("skipped: no PyTorch; install it: pip install torch")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    os.environ["CUDNN_SHIM_BACKEND"] = "cpu"
    witness = Witness(options)
    for case in range(options.cases):
        for number, (what, body) in enumerate([("layer", witness.layer), ("attention", witness.attention), ("loss", witness.loss)]):
            witness.check(f"{what} {case}", body, [options.seed, number, case])
    print(f"{witness.passed} passed, {witness.failed} failed, 0 skipped")
    return witness.failed > 0


if __name__ == "__main__":
    sys.exit(main())
