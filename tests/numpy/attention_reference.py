"""Problems of multi-head attention, and what they compute: the definition in binary64, written with NumPy, row by row."""

import numpy as np

import cudnn
from reference import TYPES

DATA = [cudnn.FLOAT, cudnn.FLOAT, cudnn.FLOAT, cudnn.DOUBLE, cudnn.DOUBLE, cudnn.HALF, cudnn.BFLOAT16]
FAR = 2**31 - 1


class Problem:
    """Sizes, contents and switches; arrays have the axes batch, beam, time, vector."""

    def __init__(self, rng, dropouts=(0.0, 0.0), code=None, large=1):
        pick = lambda *values: int(rng.choice(values)) * (large if max(values) > 3 else 1)
        self.code = int(rng.choice(DATA)) if code is None else code
        self.kind = TYPES[self.code][1]
        self.wide = cudnn.DOUBLE if self.code == cudnn.DOUBLE else cudnn.FLOAT
        self.heads, self.batch, self.beam = pick(1, 2, 3), pick(1, 2, 4), pick(1, 1, 2, 3)
        self.one_to_one = self.beam == 1 and rng.random() < 0.3
        self.queries, self.keys = pick(1, 3, 5, 9), pick(1, 4, 6, 11)
        on = lambda: rng.random() < 0.6
        inner = pick(1, 2, 4, 7)
        self.projected = [inner if on() else 0, inner if on() else 0, pick(1, 3, 5) if on() else 0, pick(1, 4, 6) if on() else 0]
        self.sizes = [pick(1, 3, 8) if self.projected[0] else inner, pick(1, 3, 8) if self.projected[1] else inner, pick(1, 3, 5)]
        self.entries = self.projected[2] or self.sizes[2]
        if rng.random() < 0.5 and self.projected[0] and self.projected[3]:
            self.projected[3] = self.sizes[0]
        self.output = self.projected[3] or self.heads * self.entries
        self.has_biases = bool(rng.random() < 0.5)
        self.has_residuals = self.output == self.sizes[0] and rng.random() < 0.7
        self.scale = float(rng.choice([1.0, 0.5, 0.3, 0.0, 3.0]))
        self.axes = [int(axis) for axis in rng.permutation(3)] + [3]
        self.dropouts = dropouts
        self.is_stateless = False
        self.lengths = [self.drawn(rng, self.queries, (self.batch, self.beam)), self.drawn(rng, self.keys, (self.batch, 1))]
        shorter = lambda l: np.where(rng.random(l.shape) < 0.8, l + pick(0, 5), rng.integers(-2, l.max() + 1, l.shape)).astype(np.int32)
        self.arrays = [l.copy() if rng.random() < 0.6 else shorter(l) for l in self.lengths]
        self.windows = self.drawn_windows(rng)
        fill = lambda *shape: (rng.standard_normal(shape) * 0.6).astype(self.kind)
        beams = (self.beam, 1, 1)
        times = (self.queries, self.keys, self.keys)
        self.inputs = [fill(self.batch, beams[i], times[i], self.sizes[i]) for i in range(3)]
        self.residuals = fill(self.batch, self.beam, self.queries, self.output) if self.has_residuals else None
        columns = [*self.sizes, self.entries]
        self.matrices = [fill(self.heads, p, c) if p else None for p, c in zip(self.projected, columns)]
        bias = lambda i, p: fill(self.heads if i < 3 else 1, p, 1) if p and self.has_biases else None
        self.biases = [bias(i, p) for i, p in enumerate(self.projected)]
        self.dout = fill(self.batch, self.beam, self.queries, self.output)

    @staticmethod
    def drawn(rng, most, shape):
        lengths = np.full(shape, most) if rng.random() < 0.5 else rng.integers(1, most + 1, shape)
        return lengths.astype(np.int32)

    def drawn_windows(self, rng):
        t = np.arange(self.queries)
        low, high = {
            "whole": (0 * t, 0 * t + FAR),
            "causal": (0 * t, t + 1),
            "local": (t - 2, t + 1),
            "any": (rng.integers(-3, self.keys + 2, t.size), rng.integers(-3, self.keys + 3, t.size)),
            "far": (0 * t - FAR, 0 * t + FAR),
        }[str(rng.choice(["whole", "causal", "local", "any", "far"]))]
        return np.array([low, high], np.int32)

    def length(self, which, b, r=0):
        """Of queries (0) or keys (1), as the call takes it."""
        return min(int(self.lengths[which][b, r]), max(int(self.arrays[which][b, r]), 0))

    def __str__(self):
        return (f"type {self.code} heads {self.heads} batch {self.batch} beam {self.beam} times {self.queries},{self.keys} sizes "
                f"{self.sizes} projected {self.projected} biases {self.has_biases} residuals {self.has_residuals} scale {self.scale} "
                f"axes {self.axes} lengths {[l.tolist() for l in self.lengths]} arrays {[l.tolist() for l in self.arrays]} windows "
                f"{self.windows.tolist()} dropouts {self.dropouts}")  # fmt: skip


def wide(array):
    return None if array is None else np.asarray(array, np.float64)


class Expected:
    """Output and gradients of a problem, whose factors of dropout are given: of weights [b, r, h, t, s] and output [b, r, t, o]."""

    def __init__(self, p, inputs=None, drops=(None, None)):
        inputs = [wide(x) for x in (inputs or p.inputs)]
        matrices, biases = [wide(m) for m in p.matrices], [wide(b) for b in p.biases]
        dout = wide(p.dout)
        self.out = np.zeros((p.batch, p.beam, p.queries, p.output))
        self.gradients = [np.zeros(x.shape) for x in inputs]
        self.matrices = [None if m is None else np.zeros(m.shape) for m in matrices]
        self.biases = [None if b is None else np.zeros(b.shape) for b in biases]

        def head(i, h, x):
            """The projection of vectors [time, size] for a head."""
            if matrices[i] is None:
                return x
            return x @ matrices[i][h].T + (biases[i][h, :, 0] if biases[i] is not None else 0.0)

        def back(i, h, gradient, x, b, r, n):
            """The gradient by what was projected, from that by the projection, of the first n rows."""
            if matrices[i] is None:
                self.gradients[i][b, r, :n] += gradient
                return
            self.gradients[i][b, r, :n] += gradient @ matrices[i][h]
            self.matrices[i][h] += gradient.T @ x
            if biases[i] is not None:
                self.biases[i][h, :, 0] += gradient.sum(0)

        for b in range(p.batch):
            s = p.length(1, b)
            for r in range(p.beam):
                t = p.length(0, b, r)
                q, k, v = inputs[0][b, r, :t], inputs[1][b, 0, :s], inputs[2][b, 0, :s]
                out_drop = np.ones((t, p.output)) if drops[1] is None else drops[1][b, r, :t]
                dpre = dout[b, r, :t] * out_drop
                kept = []
                for h in range(p.heads):
                    qh, kh, vh = head(0, h, q), head(1, h, k), head(2, h, v)
                    drop = np.ones((t, s)) if drops[0] is None else drops[0][b, r, h, :t, :s]
                    weights = np.zeros((t, s))
                    for row in range(t):
                        low, high = max(int(p.windows[0, row]), 0), min(int(p.windows[1, row]), s)
                        if low < high:
                            scores = p.scale * (kh[low:high] @ qh[row])
                            e = np.exp(scores - scores.max())
                            weights[row, low:high] = e / e.sum()
                    joined = (weights * drop) @ vh
                    kept.append((qh, kh, vh, drop, weights, joined))
                if matrices[3] is None:
                    pre = np.concatenate([joined for *_, joined in kept], 1)
                else:
                    pre = sum(joined @ matrices[3][h].T for h, (*_, joined) in enumerate(kept))
                    pre = pre + (biases[3][0, :, 0] if biases[3] is not None else 0.0)
                self.out[b, r, :t] = pre * out_drop + (wide(p.residuals)[b, r, :t] if p.has_residuals else 0.0)
                if matrices[3] is not None and biases[3] is not None:
                    self.biases[3][0, :, 0] += dpre.sum(0)
                for h, (qh, kh, vh, drop, weights, joined) in enumerate(kept):
                    if matrices[3] is None:
                        djoined = dpre[:, h * p.entries : (h + 1) * p.entries]
                    else:
                        djoined = dpre @ matrices[3][h]
                        self.matrices[3][h] += dpre.T @ joined
                    dweights = (djoined @ vh.T) * drop
                    dscores = weights * (dweights - (dweights * weights).sum(1, keepdims=True))
                    back(0, h, p.scale * dscores @ kh, q, b, r, t)
                    back(1, h, p.scale * dscores.T @ qh, k, b, 0, s)
                    back(2, h, (weights * drop).T @ djoined, v, b, 0, s)
