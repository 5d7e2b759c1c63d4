"""Products of matrices, cudnnShimMatmul, against sums in binary64 with NumPy.

Random problems over everything: 2 to 8 dimensions, batches that repeat in A, in B or in neither, every layout and combination of
types, factors. All memory is compared: gaps and guards too. Two kinds of contents, as in convolution.py: small whole numbers, whose sums
are exact so that every bit is known, and real numbers, which may be off by the bound of the sum.
"""

import argparse
import os
import sys
from ctypes import c_void_p

import numpy as np

import cudnn
from arithmetic import pointer
from convolution import BYTES, EPSILON, REALS, Convolutions, whole
from reference import INTEGERS, TYPES, convert
from tensors import poison

SCALAR_BYTES = [code for code in BYTES if TYPES[code][2] == 1]
RESULTS = [*REALS, *SCALAR_BYTES, cudnn.INT32, cudnn.INT64]


class Products(Convolutions):
    """The problems, on the tally of the arithmetic test."""

    def types(self, rng):
        """Of A, B and C: of one family mostly, any mixture else."""
        if rng.random() < 0.3:
            return (*(int(code) for code in rng.choice(SCALAR_BYTES, 2)), int(rng.choice(RESULTS)))
        if rng.random() < 0.7:
            return (int(rng.choice(REALS)),) * 3
        return (*(int(code) for code in rng.choice([*REALS, *SCALAR_BYTES], 2)), int(rng.choice(RESULTS)))

    def product(self, rng, tensors):
        codes = self.types(rng)
        rank = int(rng.choice([2, 3, 3, 4, 5, 6, 7, 8]))
        most = 30 if rank < 4 else 12 if rank < 6 else 5
        m, n, k = (int(extent) for extent in rng.integers(1, most + 1, 3))
        batch = [int(extent) for extent in rng.integers(1, 4, rank - 2)]
        part = lambda: [extent if rng.random() < 0.7 else 1 for extent in batch]
        c = self.tensor(rng, tensors, codes[2], [*batch, m, n], False)
        a = self.tensor(rng, tensors, codes[0], [*part(), m, k], True)
        b = self.tensor(rng, tensors, codes[1], [*part(), k, n], True)
        exact = bool(rng.random() < 0.6)
        alpha = float(rng.choice([1.0, 1.0, -1.0, 0.5, 2.0, 0.0]))
        beta = float(rng.choice([0.0, 0.0, 1.0, -0.5]))
        for factor in (a, b):
            kind = TYPES[factor.code][1]
            real = kind not in INTEGERS and not exact
            fill = (lambda n, kind=kind: rng.standard_normal(n).astype(kind)) if real else whole(rng, factor.code, 2 if exact else 5)
            factor.allocate(rng, poison(factor.code) if alpha == 0 else fill)
        c.allocate(rng, poison(c.code) if beta == 0 else whole(rng, c.code, 8))
        kind = TYPES[c.code][1]
        wide = lambda tensor: tensor.read().astype(np.float64)
        sums = magnitudes = np.zeros([*batch, m, n])
        if alpha != 0:
            sums = sums + np.matmul(wide(a), wide(b))
            magnitudes = magnitudes + np.matmul(np.abs(wide(a)), np.abs(wide(b)))
        result, bound = alpha * sums, abs(alpha) * magnitudes * (k + 4) * EPSILON
        if beta != 0:
            result = result + beta * wide(c)
            bound = bound + np.abs(result) * EPSILON + np.abs(beta * wide(c)) * EPSILON
        want = c.raw.copy()
        c.write(want, convert(result, kind).astype(c.memory_kind))
        before = [factor.raw.copy() for factor in (a, b)]
        one, two = (pointer(factor, c.code) for factor in (alpha, beta))
        with self.lib.memory.placed(a, b, c) as at:
            self.lib.call("cudnnShimMatmul", self.lib.handle, one, a.desc, c_void_p(at[0]), b.desc, c_void_p(at[1]), two,
                          c.desc, c_void_p(at[2]))  # fmt: skip
        what = f"{[*batch, m, n, k]} types {codes} alpha {alpha} beta {beta}"
        if not all(np.array_equal(factor.raw, old) for factor, old in zip((a, b), before)):
            return f"{what}: a factor was written"
        wrong = self.compare(rng, c, want, None if exact else self.rounded(bound, result, kind))
        return wrong and f"{what} {'exact' if exact else ''}: {wrong}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--show", type=int, default=20, help="failures that are described in full")
    parser.add_argument("--negative-control", action="store_true")
    parser.add_argument("--core", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    os.environ["CUDNN_SHIM_BACKEND"] = options.core
    np.seterr(all="ignore")
    bench = Products(options)
    for case in range(options.cases):
        bench.check(f"product {case}", bench.product)
    print(f"{bench.passed} passed, {bench.failed} failed, 0 skipped")
    return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
