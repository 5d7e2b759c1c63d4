"""Attention through cudnn-frontend's Python package: masks, lengths, biases, shared heads, and the gradients of them."""

import numpy as np
from kit import FLOAT, INT32

def softmax(x):
    most = x.max(axis=-1, keepdims=True)
    most = np.where(np.isfinite(most), most, 0)
    powers = np.exp(x - most)
    total = powers.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return powers / np.where(total == 0, 1, total), most + np.log(total)


class Attention:
    """Operands of one attention, which scores count, and its result."""

    def __init__(self, t, gradients):
        rng = t.rng
        self.b, shared = int(rng.integers(1, 3)), int(rng.integers(1, 3))
        heads = int(rng.integers(1, 3)) * shared
        self.sq, self.sk = sorted(int(x) for x in rng.integers(1, 9, 2))
        d, dv = (8 * int(x) for x in rng.integers(1, 4, 2))
        # Rows of several heads lie together in half of the cases.
        order = [0, 1, 2, 3] if rng.random() < 0.5 else [0, 2, 1, 3]
        (self.q, q), (self.k, k), (self.v, v) = (
            t.operand(self.b, *dims, order=order) for dims in ((heads, self.sq, d), (shared, self.sk, d), (shared, self.sk, dv)))
        self.scale = round(float(1 / np.sqrt(d)), 3)
        self.how = {"attn_scale": self.scale}
        repeat = lambda x: np.repeat(x, heads // shared, axis=1)
        k, v = repeat(k), repeat(v)
        score = self.scale * q @ k.swapaxes(-1, -2)
        keeps = np.ones((self.b, 1, self.sq, self.sk), bool)
        rows, columns = np.arange(self.sq)[:, None], np.arange(self.sk)
        choice = int(rng.integers(5))
        self.bias = None
        if choice == 1:
            self.how["use_causal_mask"] = True
            keeps &= columns <= rows
        elif choice == 2:
            self.how.update(diagonal_band_left_bound=2, diagonal_band_right_bound=0)
            keeps &= (columns <= rows) & (columns > rows - 2)
        elif choice == 3:
            tensor, bias = t.operand(1, heads, self.sq, self.sk)
            self.how["bias"] = tensor
            score = score + bias
        elif choice == 4:
            lengths = [rng.integers(1, extent + 1, (self.b, 1, 1, 1)) for extent in (self.sq, self.sk)]
            self.how.update(use_padding_mask=True, seq_len_q=t.read(lengths[0], INT32)[0], seq_len_kv=t.read(lengths[1], INT32)[0])
            keeps &= (rows < lengths[0]) & (columns < lengths[1])
        score = np.where(keeps, score, -np.inf)
        self.weights, self.statistics = softmax(score)
        self.o = self.weights @ v
        self.arrays, self.shared, self.heads, self.dv = (q, k, v), shared, heads, dv

    def gradients(self, do):
        q, k, v = self.arrays
        dp = do @ v.swapaxes(-1, -2)
        ds = self.weights * (dp - (dp * self.weights).sum(-1, keepdims=True))
        join = lambda x: x.reshape(self.b, self.shared, -1, *x.shape[2:]).sum(2)
        return self.scale * ds @ k, join(self.scale * ds.swapaxes(-1, -2) @ q), join(self.weights.swapaxes(-1, -2) @ do)


def sdpa(t):
    a = Attention(t, False)
    o, statistics = t.g.sdpa(q=a.q, k=a.k, v=a.v, generate_stats=True, **a.how)
    t.write(o, a.o, dims=a.o.shape)
    t.write(statistics, a.statistics, FLOAT, bound=max(t.bound / 10, 1e-5))


def sdpa_backward(t):
    a = Attention(t, True)
    o, _ = t.read(a.o)
    do, loss = t.operand(*a.o.shape)
    statistics, _ = t.read(a.statistics, FLOAT)
    results = t.g.sdpa_backward(q=a.q, k=a.k, v=a.v, o=o, dO=do, stats=statistics, **a.how)
    for tensor, want in zip(results, a.gradients(loss)):
        # The result, which is read back, is rounded to its type, too.
        t.write(tensor, want, dims=want.shape, bound=3 * t.bound)
