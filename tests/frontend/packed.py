"""Attention of sequences that follow each other in memory, and quantisation by blocks, through cudnn-frontend's Python package."""

import cudnn
import ml_dtypes
import numpy as np
from attention import softmax
from cudnn import data_type
from kit import FLOAT, INT32, strides_of

E4M3 = (data_type.FP8_E4M3, ml_dtypes.float8_e4m3fn, 0)
E8M0 = (data_type.FP8_E8M0, ml_dtypes.float8_e8m0fnu, 0)
UNTOUCHED = 77


class Packed:
    """Sequences of keys, or of queries, by their lengths."""

    def __init__(self, t, batch, most):
        self.t, self.most = t, most
        self.lengths = t.rng.integers(1, most + 1, batch)
        self.begins = np.concatenate([[0], np.cumsum(self.lengths)])
        self.tensor = t.read(self.lengths.reshape(-1, 1, 1, 1), INT32)[0]
        self.ends = t.read(self.begins.reshape(-1, 1, 1, 1), INT32)[0]

    def inside(self):
        return np.arange(self.most) < self.lengths.reshape(-1, 1, 1)

    def flat(self, values):
        """Token by token, those that there are."""
        return np.concatenate([values[b, :, :n].swapaxes(0, 1).reshape(-1) for b, n in enumerate(self.lengths)])

    def how(self, heads, width):
        """Offsets count elements, so each shape has its own."""
        token = heads * width
        offsets = self.t.read((self.begins * token).reshape(-1, 1, 1, 1), INT32)[0]
        return [self.most * token, width, token, 1], offsets

    def operand(self, values):
        """A tensor of these numbers, and what it holds."""
        values = values.astype(self.t.kind)
        dims = [int(extent) for extent in values.shape]
        strides, offsets = self.how(dims[1], dims[3])
        tensor = self.t.g.tensor(dim=dims, stride=strides, data_type=self.t.code, ragged_offset=offsets)
        self.t.given.append((tensor, self.flat(values)))
        return tensor, np.where(self.inside()[..., None], values.astype(np.float64), 0)

    def write(self, tensor, want, bound):
        """Nothing is written behind the last token."""
        strides, offsets = self.how(want.shape[1], want.shape[3])
        own = np.full(want.size, UNTOUCHED, np.float64)
        flat = self.flat(want)
        own[: flat.size] = flat
        tensor.set_ragged_offset(offsets)
        # The bound is a part of the largest element, which may be one that stays.
        bound *= np.abs(flat).max() / np.abs(own).max()
        self.t.write(tensor, own, dims=want.shape, strides=strides, bound=bound, flat=True)


class Attention:
    def __init__(self, t):
        self.batch, self.heads, self.shared, d, dv = 3, 4, 2, 8, 16
        self.queries, self.keys = Packed(t, self.batch, 5), Packed(t, self.batch, 7)
        of = lambda packed, heads, width: packed.operand(t.numbers(self.batch, heads, packed.most, width))
        (self.q, q), (self.k, k), (self.v, v) = of(self.queries, self.heads, d), of(self.keys, self.shared, d), of(self.keys, self.shared, dv)
        k, v = (np.repeat(x, self.heads // self.shared, axis=1) for x in (k, v))
        keeps = self.queries.inside()[..., None] & self.keys.inside()[:, :, None]
        self.weights, self.statistics = softmax(np.where(keeps, 0.25 * q @ k.swapaxes(-1, -2), -np.inf))
        self.o, self.arrays = self.weights @ v, (q, k, v)

    def how(self):
        return {"attn_scale": 0.25, "use_padding_mask": True, "seq_len_q": self.queries.tensor, "seq_len_kv": self.keys.tensor}


def packed(t):
    a = Attention(t)
    o, statistics = t.g.sdpa(q=a.q, k=a.k, v=a.v, generate_stats=True, **a.how())
    a.queries.write(o, a.o, t.bound)
    t.write(statistics, a.statistics, FLOAT, bound=max(t.bound / 10, 1e-5))


def packed_backward(t):
    a = Attention(t)
    q, k, v = a.arrays
    o, _ = a.queries.operand(a.o)
    do, loss = a.queries.operand(t.numbers(*a.o.shape))
    statistics, _ = t.read(a.statistics, FLOAT)
    dq, dk, dv = t.g.sdpa_backward(q=a.q, k=a.k, v=a.v, o=o, dO=do, stats=statistics, **a.how())
    dp = loss @ v.swapaxes(-1, -2)
    ds = 0.25 * a.weights * (dp - (dp * a.weights).sum(-1, keepdims=True))
    join = lambda x: x.reshape(a.batch, a.shared, -1, *x.shape[2:]).sum(2)
    a.queries.write(dq, ds @ k, 3 * t.bound)
    a.keys.write(dk, join(ds.swapaxes(-1, -2) @ q), 3 * t.bound)
    a.keys.write(dv, join(a.weights.swapaxes(-1, -2) @ loss), 3 * t.bound)


def tiles(codes):
    """Scales of 128 rows and 4 columns in 512 bytes. In the room that no element needs they are NaN."""
    codes = np.pad(codes, [(0, 0), *((0, -extent % tile) for extent, tile in zip(codes.shape[1:], (128, 4)))], constant_values=255)
    batch, rows, columns = codes.shape
    seen = codes.reshape(batch, rows // 128, 4, 32, columns // 4, 4)
    return np.ascontiguousarray(seen.transpose(0, 1, 4, 3, 2, 5)).reshape(-1)


def factor(t, dims, axis, padded=False, sizes=(32,)):
    """A matrix in FP8 whose scales are along one of its dimensions, which follow each other there; and what it stands for. The tensor of scales
    has the extents of whole tiles if it is padded."""
    kind = E4M3[1]
    values = t.numbers(*dims).astype(kind)
    order = [0, 1, 2] if axis == 2 else [0, 2, 1]
    memory = np.ascontiguousarray(values.transpose(order)).reshape(-1)
    x = t.g.tensor(dim=list(dims), stride=strides_of(dims, order), data_type=E4M3[0])
    t.given.append((x, memory))
    extents = list(dims)
    extents[axis] = -(-extents[axis] // 32)
    codes = t.rng.integers(124, 130, extents).astype(np.uint8)
    memory = tiles(codes.transpose(order))
    room = [-(-extent // tile) * tile for extent, tile in zip(extents, (1, 4, 128) if axis == 1 else (1, 128, 4))] if padded else extents
    scale = t.g.tensor(dim=room, stride=strides_of(room, order), data_type=E8M0[0], reordering_type=cudnn.tensor_reordering.F8_128x4)
    t.given.append((scale, memory))
    spread = np.repeat(codes.view(E8M0[1]).astype(np.float64), 32, axis)
    numbers = values.astype(np.float64) * spread[tuple(slice(extent) for extent in dims)]
    y = t.g.block_scale_dequantize(x, scale, block_size=list(sizes))
    y.set_data_type(data_type.FLOAT)
    return y, numbers


def block_scaled(t):
    """The product of two matrices in MXFP8."""
    (a, left), (b, right) = factor(t, (2, 128, 128), 2), factor(t, (2, 128, 128), 1)
    t.write(t.g.matmul(a, b), left @ right)


def padded_scales(t):
    """The same with scales that are padded to tiles, as clients give them: any number of rows, any number of blocks."""
    m, n = int(t.rng.choice([1, 100, 128, 130, 200])), int(t.rng.choice([1, 24, 130]))
    k = int(t.rng.choice([64, 96, 1024]))
    left, right = ((1, 32), (32, 1)) if t.rng.integers(2) else ((32,), (32,))
    (a, x), (b, y) = factor(t, (1, m, k), 2, True, left), factor(t, (1, k, n), 1, True, right)
    t.write(t.g.matmul(a, b), x @ y)


def block_quantised(t):
    """Elements and scales in MXFP8."""
    x, values = t.operand(2, 128, 256)
    y, scale = t.g.block_scale_quantize(x, block_size=32, axis=2, transpose=False)
    scale.set_reordering_type(cudnn.tensor_reordering.F8_128x4)
    amax = np.abs(values).reshape(2, 128, 8, 32).max(-1).astype(np.float32)
    powers = np.exp2(np.ceil(np.log2(amax / np.float32(448))))
    quotient = values / np.repeat(powers, 32, -1)
    t.write(y, np.clip(quotient, -448, 448).astype(E4M3[1]).astype(np.float64), E4M3)
    codes = powers.astype(E8M0[1])
    t.write(scale, tiles(codes.view(np.uint8)).view(E8M0[1]).astype(np.float64), E8M0, flat=True)


CASES = [packed, packed_backward, block_scaled, padded_scales, block_quantised]
