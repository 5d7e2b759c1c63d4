"""Random spatial transformers - grids, sampling, and their gradients - against NumPy in binary64.

The places of taps are computed in the type of the call (binary32, or binary64 where a type is DOUBLE), as the
documentation defines them; from there on in binary64. The bound is that of windows.py: with k terms in a sum of magnitude M,
(k + 16) roundings of the computation type times M, and half a unit in the last place of what is stored. Where PyTorch is
installed, its affine_grid and grid_sample with corners aligned, and their gradients, have to agree with the formulas of this
file, too.
"""

import argparse
import os
import sys
import warnings
from ctypes import byref, c_int, c_void_p

import numpy as np

import cudnn
import windows
from reference import TYPES
from tensors import make, poison
from windows import FLOATS

GRIDS = [cudnn.FLOAT, cudnn.FLOAT, cudnn.DOUBLE, cudnn.HALF]
SPECIAL = [np.nan, np.inf, -np.inf, 1e30, -1e30, 1e9, -1.0, 1.0, 0.0]


def coordinates(extent):
    return np.zeros(1) if extent == 1 else np.linspace(-1.0, 1.0, extent)


def base(h, w):
    """(x, y, 1) at every position, row by row."""
    y, x = np.meshgrid(coordinates(h), coordinates(w), indexing="ij")
    return np.stack([x, y, np.ones((h, w))], -1)


def affine_grid(theta, h, w):
    """(grid, magnitude)"""
    at = base(h, w)
    return np.einsum("hwj,nij->nhwi", at, theta), np.einsum("hwj,nij->nhwi", np.abs(at), np.abs(theta))


def affine_gradient(dgrid):
    at = base(*dgrid.shape[1:3])
    return np.einsum("nhwi,hwj->nij", dgrid, at), np.einsum("nhwi,hwj->nij", np.abs(dgrid), np.abs(at))


def taps(grid, extents, kind):
    """For each tap of every position: inside, row, column, weight, and the slopes of the weight along x and y."""
    places = []
    for i, extent in ((1, extents[0]), (0, extents[1])):
        half = kind((extent - 1) * 0.5)
        places.append((grid[..., i].astype(kind) + kind(1)) * half)
    whole = [np.floor(p.astype(np.float64)) for p in places]
    some = np.ones(grid.shape[:-1], bool)
    for w, extent in zip(whole, extents):
        some &= (w >= -1) & (w < extent)
    first = [np.where(some, w, 0).astype(np.int64) for w in whole]
    part = [np.where(some, p.astype(np.float64) - w, 0) for p, w in zip(places, whole)]
    for i in (0, 1):
        for j in (0, 1):
            row, column = first[0] + i, first[1] + j
            inside = some & (row >= 0) & (row < extents[0]) & (column >= 0) & (column < extents[1])
            down = part[0] if i else 1 - part[0]
            across = part[1] if j else 1 - part[1]
            slopes = (2 * j - 1) * down * (extents[1] - 1) / 2, (2 * i - 1) * across * (extents[0] - 1) / 2
            clip = np.clip(row, 0, extents[0] - 1), np.clip(column, 0, extents[1] - 1)
            yield inside, *clip, np.where(inside, down * across, 0), [np.where(inside, s, 0) for s in slopes]


def sample(x, grid, kind):
    """(y, magnitude)"""
    result = np.zeros(x.shape[:2] + grid.shape[1:3])
    magnitude = np.zeros_like(result)
    n = np.arange(x.shape[0])[:, None, None]
    for _, row, column, weight, _ in taps(grid, x.shape[2:], kind):
        term = np.moveaxis(x[n, :, row, column], -1, 1) * weight[:, None]
        result, magnitude = result + term, magnitude + np.abs(term)
    return result, magnitude


def gradients(x, dy, grid, kind):
    """(dx, magnitude, terms), (dgrid, magnitude)"""
    dx, size, terms = np.zeros(x.shape), np.zeros(x.shape), np.zeros(x.shape[2:])
    dgrid, grid_size = np.zeros(grid.shape), np.zeros(grid.shape)
    n = np.arange(x.shape[0])[:, None, None]
    for inside, row, column, weight, slopes in taps(grid, x.shape[2:], kind):
        term = np.moveaxis(dy * weight[:, None], 1, -1)
        pictures = np.broadcast_to(n, row.shape)
        np.add.at(dx.transpose(0, 2, 3, 1), (pictures, row, column), term)
        np.add.at(size.transpose(0, 2, 3, 1), (pictures, row, column), np.abs(term))
        np.add.at(terms, (row, column), inside)
        values = np.moveaxis(x[n, :, row, column], -1, 1) * dy
        for i in (0, 1):
            dgrid[..., i] += values.sum(1) * slopes[i]
            grid_size[..., i] += np.abs(values).sum(1) * np.abs(slopes[i])
    return (dx, size, terms.max()), (dgrid, grid_size)


class Bench(windows.Bench):
    def __init__(self, options):
        super().__init__(options)
        self.transformer = self.lib.create("SpatialTransformerDescriptor")

    def packed(self, code, dims, values=None):
        """A packed array, as grids and maps are."""
        tensor = make(self.lib, self.rng, code, dims, ["nchw"])
        tensor.allocate(self.rng, poison(code))
        if values is not None:
            tensor.write(tensor.raw, values)
        return tensor

    def some_grid(self, code, n, h, w):
        rng = self.rng
        grid = rng.uniform(-1.3, 1.3, (n, h, w, 2))
        if rng.integers(2):
            special = rng.random(grid.shape) < 0.1
            grid[special] = rng.choice(SPECIAL, special.sum())
        return grid.astype(TYPES[code][1])

    def grids(self):
        rng, lib = self.rng, self.lib
        code = int(rng.choice(GRIDS))
        n, h, w = (int(v) for v in rng.choice([1, 2, 3, 7, 20], 3))
        lib.call("cudnnSetSpatialTransformerNdDescriptor", self.transformer, 0, code, 4, (c_int * 4)(n, 5, h, w))
        maps = self.values(code, (n, 2, 3))
        theta, grid = self.packed(code, (n, 2, 3), maps), self.packed(code, (n, h, w, 2))
        title = f"grid {TYPES[code][0]} {n}x{h}x{w}"
        with self.memory.placed(theta, grid) as (theta_at, grid_at):
            lib.call("cudnnSpatialTfGridGeneratorForward", lib.handle, self.transformer, c_void_p(theta_at), c_void_p(grid_at))
        want, size = affine_grid(maps.astype(np.float64), h, w)
        self.judge(title, grid, want, size, 3, 0, 1, 0)
        given = self.values(code, (n, h, w, 2))
        dgrid, dtheta = self.packed(code, (n, h, w, 2), given), self.packed(code, (n, 2, 3))
        with self.memory.placed(dgrid, dtheta) as (dgrid_at, dtheta_at):
            lib.call("cudnnSpatialTfGridGeneratorBackward", lib.handle, self.transformer, c_void_p(dgrid_at), c_void_p(dtheta_at))
        want, size = affine_gradient(given.astype(np.float64))
        self.judge(f"gradient of {title}", dtheta, want, size, 3, 0, 1, 0)

    def sampler(self):
        rng, lib = self.rng, self.lib
        code, grid_code = int(rng.choice(FLOATS)), int(rng.choice(GRIDS))
        n, c = int(rng.integers(1, 4)), int(rng.choice([1, 2, 3, 8, 33]))
        h, w, p, q = (int(v) for v in rng.choice([1, 2, 3, 5, 9, 16], 4))
        lib.call("cudnnSetSpatialTransformerNdDescriptor", self.transformer, 0, grid_code, 4, (c_int * 4)(n, c, p, q))
        kind = np.float64 if cudnn.DOUBLE in (code, grid_code) else np.float32
        values, places = self.values(code, (n, c, h, w)), self.some_grid(grid_code, n, p, q)
        x, grid = self.tensor(code, (n, c, h, w), values), self.packed(grid_code, (n, p, q, 2), places)
        alpha, beta, *factors = self.factors(code)
        y, old = self.output(code, (n, c, p, q), beta)
        title = f"sampler {TYPES[code][0]} at {TYPES[grid_code][0]} {n}x{c}x{h}x{w} to {p}x{q}"
        with self.memory.placed(x, grid, y) as (x_at, grid_at, y_at):
            lib.call("cudnnSpatialTfSamplerForward", lib.handle, self.transformer, byref(factors[0]), x.desc, c_void_p(x_at),
                     c_void_p(grid_at), byref(factors[1]), y.desc, c_void_p(y_at))  # fmt: skip
        wide = values.astype(np.float64)
        want, size = sample(wide, places, kind)
        self.judge(title, y, want, size, 4, old, alpha, beta)
        given = self.values(code, (n, c, p, q))
        dy = self.tensor(code, (n, c, p, q), given)
        dx, old = self.output(code, (n, c, h, w), beta)
        grid_alpha, grid_beta, *grid_factors = self.factors(grid_code)
        before = self.values(grid_code, (n, p, q, 2))
        dgrid = self.packed(grid_code, (n, p, q, 2), before if grid_beta else None)
        with self.memory.placed(x, dx, dy, grid, dgrid) as (x_at, dx_at, dy_at, grid_at, dgrid_at):
            lib.call("cudnnSpatialTfSamplerBackward", lib.handle, self.transformer, byref(factors[0]), x.desc, c_void_p(x_at),
                     byref(factors[1]), dx.desc, c_void_p(dx_at), byref(grid_factors[0]), dy.desc, c_void_p(dy_at),
                     c_void_p(grid_at), byref(grid_factors[1]), c_void_p(dgrid_at))  # fmt: skip
        (want, size, terms), (want_grid, grid_size) = gradients(wide, given.astype(np.float64), places, kind)
        self.judge(f"gradient of {title}", dx, want, size, terms, old, alpha, beta)
        self.judge(f"grid's gradient of {title}", dgrid, want_grid, grid_size, 4 * c, before.astype(np.float64), grid_alpha, grid_beta)


def agrees_with_torch(rng):
    """Compares the formulas of this file with PyTorch, if it is there: (how many agree, how many were skipped)."""
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch; install it: pip install torch")
        return 0, 1
    functional, passed = torch.nn.functional, 0
    # PyTorch says that it once treated axes of one pixel otherwise.
    warnings.simplefilter("ignore", UserWarning)
    for n, c, h, w, p, q in [(2, 3, 5, 7, 4, 6), (1, 1, 1, 9, 3, 1), (3, 2, 8, 1, 1, 5), (1, 40, 16, 16, 9, 33), (2, 1, 1, 1, 2, 2)]:
        theta = torch.tensor(rng.uniform(-1, 1, (n, 2, 3)), requires_grad=True)
        x = torch.tensor(rng.standard_normal((n, c, h, w)), requires_grad=True)
        grid = functional.affine_grid(theta, [n, c, p, q], align_corners=True)
        assert np.allclose(affine_grid(theta.detach().numpy(), p, q)[0], grid.detach().numpy(), atol=1e-14)
        # Places of their own: those of some maps lie at pixels, where slopes jump.
        free = torch.tensor(rng.uniform(-1.4, 1.4, (n, p, q, 2)), requires_grad=True)
        y = functional.grid_sample(x, free, mode="bilinear", padding_mode="zeros", align_corners=True)
        dy, dgrid = torch.tensor(rng.standard_normal(y.shape)), torch.tensor(rng.standard_normal(grid.shape))
        y.backward(dy)
        grid.backward(dgrid)
        numbers = [t.detach().numpy() for t in (x, dy, free)]
        assert np.allclose(sample(numbers[0], numbers[2], np.float64)[0], y.detach().numpy(), atol=1e-12)
        (dx, _, _), (want, _) = gradients(*numbers, np.float64)
        assert np.allclose(dx, x.grad.numpy(), atol=1e-12) and np.allclose(want, free.grad.numpy(), atol=1e-11)
        assert np.allclose(affine_gradient(dgrid.numpy())[0], theta.grad.numpy(), atol=1e-12)
        passed += 4
    return passed, 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20250212)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--core", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--negative-control", action="store_true")
    options = parser.parse_args()
    os.environ["CUDNN_SHIM_BACKEND"] = options.core
    np.seterr(all="ignore")
    bench = Bench(options)
    skipped = 0
    for case in range(options.cases):
        bench.sampler() if case % 3 else bench.grids()
    if not options.negative_control:
        passed, skipped = agrees_with_torch(bench.rng)
        bench.passed += passed
    print(f"{bench.passed} passed, {bench.failed} failed, {skipped} skipped")
    return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
