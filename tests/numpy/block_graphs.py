"""Quantisation by blocks as operations of the graph interface: elements in FP8 or FP4, their scales in E8M0, FP8 or FLOAT, plain or in tiles."""

import ml_dtypes
import numpy as np

import cudnn
from backend import DATA_TYPE, DESCRIPTOR, Value
from tensors import Tensor, packed

E8M0, E2M1 = 15, 16
INT32, REORDERING = 23, 20
TILED = 3
# What a code of a byte stands for, and of half a byte.
KINDS = {cudnn.E4M3: ml_dtypes.float8_e4m3fn, cudnn.E5M2: ml_dtypes.float8_e5m2, E8M0: ml_dtypes.float8_e8m0fnu, E2M1: ml_dtypes.float4_e2m1fn}
LARGEST = {cudnn.E4M3: 448.0, cudnn.E5M2: 57344.0, E2M1: 6.0}
TABLE = {code: np.arange(16 if code == E2M1 else 256, dtype=np.uint8).view(kind).astype(np.float64) for code, kind in KINDS.items()}


class Coded(Value):
    """A tensor of codes. Those of FP4 share bytes along the last dimension; in tiles, 128 rows and 4 columns lie in 512 bytes, and `turned`
    tensors have their columns in front of their rows."""

    def __init__(self, graph, code, dims, tiled=False, turned=False):
        self.tiled, self.turned = tiled, turned
        order = list(range(len(dims)))
        order = order[:-2] + [order[-1], order[-2]] if turned else order
        super().__init__(graph, code, dims, strides=packed(dims, order), ragged=[(909, REORDERING, TILED)] if tiled else [])
        graph.values.append(self)

    def room(self):
        if self.tiled:
            *outer, rows, columns = self.seen(np.empty(self.dims)).shape
            count = int(np.prod(outer)) * (-(-rows // 128)) * (-(-columns // 4)) * 512
        else:
            count = int(np.prod(self.dims)) // (2 if self.code == E2M1 else 1)
        return Tensor(cudnn.UINT8, None, (1, count), (count, 1), "codes")

    def seen(self, array):
        """With columns last."""
        return array.swapaxes(-1, -2) if self.turned else array

    def places(self):
        """Where the codes of scales lie."""
        index = np.indices(self.dims)
        if not self.tiled:
            return sum(stride * part for stride, part in zip(self.strides, index))
        *outer, row, column = [*index[:-2], *(index[-2:][::-1] if self.turned else index[-2:])]
        rows, columns = self.seen(np.empty(self.dims)).shape[-2:]
        down, across = -(-rows // 128), -(-columns // 4)
        batch = np.zeros(self.dims, int)
        for part, extent in zip(outer, self.dims):
            batch = batch * extent + part
        tile = (batch * down + row // 128) * across + column // 4
        return tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + column % 4

    def fill(self, codes):
        codes = np.asarray(codes, np.uint8)
        self.want, self.error = TABLE[self.code][codes], np.zeros(self.dims)
        flat = self.memory.read(bits=True).reshape(-1)
        if self.code == E2M1:
            flat[:] = (codes[..., 0::2] | codes[..., 1::2] << 4).reshape(-1)
        else:
            flat[self.places()] = codes
        self.memory.write(self.memory.raw, flat.reshape(1, -1))
        return self

    def read(self):
        flat = self.memory.read(bits=True).reshape(-1)
        if self.code != E2M1:
            return TABLE[self.code][flat[self.places()]]
        codes = np.stack([flat & 15, flat >> 4], axis=-1)
        return TABLE[self.code][codes.reshape(self.dims)]

    def __str__(self):
        return f"{self.uid}: type {self.code} {'x'.join(map(str, self.dims))} tiled {self.tiled} turned {self.turned}"


def above(code, numbers):
    """The least number of a type that is not below each, the largest one for what is larger."""
    if code == cudnn.FLOAT:
        return numbers
    known = np.unique(TABLE[code][np.isfinite(TABLE[code]) & (TABLE[code] >= 0)])
    return known[np.minimum(np.searchsorted(known, numbers), known.size - 1)]


def link(attribute, value):
    return attribute, DESCRIPTOR, value.object


def extents(rng):
    """Of a tensor, of a block, and the dimension that has blocks."""
    size = int(rng.choice([1, 2, 4, 16]))
    dims = [int(x) for x in rng.integers(1, 4, int(rng.integers(1, 3)))] + [int(rng.integers(1, 40)), int(rng.integers(1, 4))]
    axis = len(dims) - 1 if rng.random() < 0.6 else len(dims) - 2
    # Of blocks of one element only strides tell which dimension has them.
    dims[axis] = max(2, dims[axis]) if size == 1 else size * dims[axis]
    # FP4 fills bytes along the last dimension.
    dims[-1] *= 2 if axis != len(dims) - 1 or size == 1 else 1
    scales = list(dims)
    scales[axis] //= size
    return dims, scales, size, axis


def scales_of(graph, rng, dims, axis, has_to_be_tiled=False):
    code = int(rng.choice([E8M0, E8M0, E8M0, cudnn.E4M3, cudnn.E4M3, cudnn.E5M2, cudnn.FLOAT]))
    tiled = rng.random() < 0.6
    if code == cudnn.FLOAT:
        if not has_to_be_tiled:
            return graph.value(code, dims)
        code = E8M0
    tiled |= has_to_be_tiled
    return Coded(graph, code, dims, tiled, tiled and axis == len(dims) - 2)


def dequantize(graph, rng):
    dims, scales, size, axis = extents(rng)
    code = int(rng.choice([cudnn.E4M3, cudnn.E5M2, E2M1]))
    x = Coded(graph, code, dims).fill(rng.integers(0, TABLE[code].size, dims))
    scale = scales_of(graph, rng, scales, axis)
    # Powers near 1, and some that are not.
    if scale.code == cudnn.FLOAT:
        scale.fill(rng.standard_normal(scales))
    else:
        near = rng.integers(110, 140, scales) if scale.code == E8M0 else rng.integers(0, 124, scales)
        scale.fill(np.where(rng.random(scales) < 0.05, rng.integers(0, 256, scales), near))
    y = graph.value(int(rng.choice([cudnn.FLOAT, cudnn.BFLOAT16])), dims)
    with np.errstate(all="ignore"):
        want = (x.want * np.repeat(scale.want, size, axis)).astype(np.float32)
    if y.code == cudnn.BFLOAT16:
        want = want.astype(ml_dtypes.bfloat16)
    graph.add(f"{x} by {scale} to {y}", 37, (2603, DATA_TYPE, cudnn.FLOAT), (2604, INT32, size), link(2600, x), link(2601, scale), link(2602, y))
    return result(y, want.astype(np.float64))


def quantize(graph, rng):
    dims, scales, size, axis = extents(rng)
    x = graph.value(int(rng.choice([cudnn.FLOAT, cudnn.HALF])), dims)
    spread = 10.0 ** rng.integers(-45 if x.code == cudnn.FLOAT else -7, 38 if x.code == cudnn.FLOAT else 4, scales)
    numbers = rng.standard_normal(dims) * np.repeat(np.where(rng.random(scales) < 0.5, 1.0, spread), size, axis)
    x.fill(np.where(rng.random(dims) < 0.1, 0, numbers))
    code = int(rng.choice([cudnn.E4M3, cudnn.E5M2, E2M1]))
    # In three dimensions scales that are written lie in tiles.
    y, scale = Coded(graph, code, dims), scales_of(graph, rng, scales, axis, len(dims) == 3)
    shape = [*dims[:axis], dims[axis] // size, size, *dims[axis + 1 :]]
    with np.errstate(all="ignore"):
        amax = np.abs(x.want).reshape(shape).max(axis=axis + 1)
        by = above(scale.code, (amax.astype(np.float32) / np.float32(LARGEST[code])).astype(np.float64))
        divisor = np.repeat(by, size, axis).astype(np.float32)
        quotient = np.where(divisor == 0, 0, x.want.astype(np.float32) / divisor)
        want = np.clip(quotient, -LARGEST[code], LARGEST[code]).astype(KINDS[code]).astype(np.float64)
    graph.add(f"{x} to {y} by {scale}", 36, (2503, DATA_TYPE, cudnn.FLOAT), (2504, INT32, size), link(2500, x), link(2501, y), link(2502, scale))
    return [*result(y, want), *result(scale, by)]


def result(value, numbers):
    """Exactly these."""
    value.want, value.error = numbers, np.zeros(numbers.shape)
    return [value]


def blocks(graph, rng):
    """Adds one of them to a graph; its results."""
    return dequantize(graph, rng) if rng.random() < 0.5 else quantize(graph, rng)
