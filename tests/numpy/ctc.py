"""CTC loss, cudnnCTCLoss and cudnnCTCLoss_v8, against NumPy in binary64.

Two witnesses that share nothing with the library, nor with each other: tiny batches against the sum over every alignment, larger ones
against the recursion in products that are scaled row by row; gradients as posteriors of that recursion, and of tiny batches as
slopes of the cost. Random problems over both calls, both normalisations, both gradient modes, both types, strides of any order, labels of
any length, inputs of length 0 and infeasible samples. Workspace and gradients begin as NaNs.
"""

import argparse
import itertools
import os
import sys
from ctypes import byref, c_int, c_size_t, c_void_p

import numpy as np

import cudnn
import device

EPSILON = {cudnn.FLOAT: 2.0**-23, cudnn.DOUBLE: 2.0**-52}
KINDS = {cudnn.FLOAT: np.float32, cudnn.DOUBLE: np.float64}


class Raw:
    """An array as `placed` takes it: bytes of its own, and the address in them."""

    def __init__(self, array):
        self.raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.address = self.raw.ctypes.data


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def by_alignments(y, label):
    """The probability of a label, as the sum over every alignment of y[T, A]."""
    total = 0.0
    for path in itertools.product(range(y.shape[1]), repeat=len(y)):
        joined = [k for k, _ in itertools.groupby(path)]
        if [k for k in joined if k] == list(label):
            total += np.prod([y[t, k] for t, k in enumerate(path)])
    return total


def recursion(y, label):
    """Negative logarithm of the probability of a label, and the share of each class in each row; None if there is no alignment."""
    rows, states = len(y), 2 * len(label) + 1
    classes = np.zeros(states, int)
    classes[1::2] = label
    skips = np.zeros(states, bool)
    skips[3::2] = classes[3::2] != classes[1:-2:2]
    own = y[:, classes]
    alpha, beta = np.zeros((rows, states)), np.zeros((rows, states))
    cost = 0.0
    for t in range(rows):
        if t == 0:
            alpha[0, :2] = own[0, :2]
        else:
            before = alpha[t - 1]
            reach = before.copy()
            reach[1:] += before[:-1]
            reach[2:] += np.where(skips[2:], before[:-2], 0)
            alpha[t] = reach * own[t]
        scale = alpha[t].sum()
        if scale == 0:
            return None
        cost -= np.log(scale)
        alpha[t] /= scale
    beta[-1, -2:] = 1
    end = alpha[-1, -2:].sum()
    if end == 0:
        return None
    for t in range(rows - 2, -1, -1):
        behind = beta[t + 1] * own[t + 1]
        beta[t] = behind
        beta[t, :-1] += behind[1:]
        beta[t, :-2] += np.where(skips[2:], behind[2:], 0)
        beta[t] /= max(beta[t].max(), 1e-300)
    shares = alpha * beta
    shares /= shares.sum(1, keepdims=True)
    posterior = np.zeros_like(y)
    for s, k in enumerate(classes):
        posterior[:, k] += shares[:, s]
    return cost - np.log(end), posterior


class Losses:
    def __init__(self, options):
        self.lib = cudnn.Library(options.library, device.Cuda() if options.core == "cuda" else device.Host())
        self.control = options.negative_control
        self.rng = np.random.default_rng(options.seed)
        self.passed = self.failed = 0

    def problem(self, tiny):
        rng = self.rng
        samples = int(rng.integers(1, 5))
        rows = int(rng.integers(1, 6 if tiny else 60))
        classes = int(rng.integers(2, 4 if tiny else 40))
        labels = [rng.integers(1, classes, int(rng.integers(0, 1 + (rows + 1) // 2))) for _ in range(samples)]
        inputs = [rows if rng.random() < 0.6 else int(rng.integers(0, rows + 1)) for _ in range(samples)]
        return rows, classes, labels, inputs

    def run(self, x, labels, inputs, code, norm, skips, v8, wants=True, order=(0, 1, 2)):
        """Costs and gradients of x[T, N, A] in front of the softmax, or probabilities."""
        lib, kind = self.lib, KINDS[code]
        dims = x.shape
        held = np.ascontiguousarray(x.transpose(order).astype(kind))
        strides = [0, 0, 0]
        for place, axis in enumerate(order):
            strides[axis] = held.strides[place] // held.itemsize
        desc, loss = lib.create("TensorDescriptor"), lib.create("CTCLossDescriptor")
        lib.set_strided(desc, code, dims, strides)
        # As PyTorch has it: the longest label is a limit, and no label needs to be as long.
        longest = max([len(label) for label in labels]) + (int(self.rng.integers(0, 4)) if v8 else 0)
        lib.call("cudnnSetCTCLossDescriptor_v9", loss, code, norm, int(skips), longest)
        integers = lambda values: np.array(values if len(values) else [1], np.int32)
        flat = integers(np.concatenate([np.array(label, np.int32) for label in labels]))
        lengths, rows = integers([len(label) for label in labels]), integers(inputs)
        host = lambda array: array.ctypes.data_as(c_void_p)
        size = c_size_t()
        if v8:
            lib.call("cudnnGetCTCLossWorkspaceSize_v8", lib.handle, 0, loss, desc, desc, byref(size))
        else:
            lib.call("cudnnGetCTCLossWorkspaceSize", lib.handle, desc, desc, host(flat), host(lengths), host(rows), 0, loss,
                     byref(size))  # fmt: skip
        nans = lambda count: Raw(np.full(count, np.nan, kind))
        costs, gradients, probs = nans(dims[1]), nans(held.size), Raw(held)
        workspace = Raw(np.full(size.value, 0xFF, np.uint8))
        on_core = [Raw(array) for array in (flat, lengths, rows)]
        with lib.memory.placed(probs, costs, gradients, workspace, *on_core) as at:
            x_at, costs_at, gradients_at, workspace_at, *device_at = [c_void_p(address) for address in at]
            gradients_at = gradients_at if wants else None
            if v8:
                lib.call("cudnnCTCLoss_v8", lib.handle, 0, loss, desc, x_at, *device_at, costs_at, desc, gradients_at, size,
                         workspace_at)  # fmt: skip
            else:
                lib.call("cudnnCTCLoss", lib.handle, desc, x_at, host(flat), host(lengths), host(rows), costs_at, desc,
                         gradients_at, 0, loss, workspace_at, size)  # fmt: skip
        lib.destroy("CTCLossDescriptor", loss)
        lib.destroy("TensorDescriptor", desc)
        result = gradients.raw.view(kind).reshape([dims[axis] for axis in order])
        return costs.raw.view(kind).astype(float), result.transpose(np.argsort(order)).astype(float)

    def near(self, got, want, bound):
        with np.errstate(invalid="ignore"):
            close = np.isfinite(want) & (np.abs(got - want) <= bound * (1 + np.abs(want)))
            return np.all((got == want) | (np.isnan(got) & np.isnan(want)) | close)

    def case(self, tiny):
        rng = self.rng
        rows, classes, labels, inputs = self.problem(tiny)
        code = cudnn.DOUBLE if tiny or rng.random() < 0.5 else cudnn.FLOAT
        norm, skips, v8, wants = (bool(rng.random() < p) for p in (0.5, 0.5, 0.5, 0.9))
        order = tuple(int(axis) for axis in rng.permutation(3))
        z = (rng.standard_normal((rows, len(labels), classes)) * rng.choice([1, 1, 6])).astype(KINDS[code])
        y = softmax(z.astype(float))
        x = z if norm else y.astype(KINDS[code])
        if not norm:
            y = x.astype(float)
        costs, gradients = self.run(x, labels, inputs, code, int(norm), skips, v8, wants, order)
        if self.control:
            costs = np.where(np.isfinite(costs), costs * (1 + 1e-2) + 1e-2, 0.0)
        # A logarithm of a probability and its sums are as far off as the numbers are large.
        bound = 10 * EPSILON[code] * (1 + np.abs(z).max()) * (1 + rows / 16)
        for n, (label, frames) in enumerate(zip(labels, inputs)):
            what = f"sample {n} of {rows}x{len(labels)}x{classes}, {len(label)} labels in {frames}, norm {norm}, skip {skips}, v8 {v8}"
            behind = gradients[frames:, n]
            if wants and not np.all(behind == 0):
                return f"{what}: rows behind the input have a gradient"
            if len(label) + int(np.sum(label[1:] == label[:-1])) > frames:
                want_cost, want = np.inf, np.full((frames, classes), np.nan if skips else 0.0)
            elif frames == 0:
                want_cost, want = 0.0, np.zeros((0, classes))
            else:
                found = recursion(y[:frames, n], label)
                want_cost, posterior = found
                want = y[:frames, n] - posterior
                if tiny and not self.near(-np.log(by_alignments(y[:frames, n], label)), want_cost, 1e-12):
                    return f"{what}: the witnesses differ"
            if not self.near(costs[n], want_cost, bound):
                return f"{what}: the cost is {costs[n]} and not {want_cost}"
            if wants and not self.near(gradients[:frames, n], want, bound):
                worst = np.nanmax(np.abs(gradients[:frames, n] - want))
                return f"{what}: a gradient is off by {worst}, and {bound} is allowed"
            if not wants and not np.all(np.isnan(gradients)):
                return f"{what}: gradients that were not asked for"
        return None

    def slopes(self):
        """Gradients in binary64 as the slopes of the sum of all costs."""
        rows, classes, labels, inputs = self.problem(True)
        inputs = [rows] * len(labels)
        labels = [label[: (rows + 1) // 2] if len(label) else label for label in labels]
        x = self.rng.standard_normal((rows, len(labels), classes))
        cost = lambda x: self.run(x, labels, inputs, cudnn.DOUBLE, 1, False, False, False)[0]
        base, gradients = self.run(x, labels, inputs, cudnn.DOUBLE, 1, False, False)
        step = 1e-5
        for place in np.ndindex(*x.shape):
            moved = x.copy()
            moved[place] += step
            above = cost(moved)[place[1]]
            moved[place] -= 2 * step
            if not np.isfinite(base[place[1]]):
                continue
            slope = (above - cost(moved)[place[1]]) / (2 * step) + (1e-3 if self.control else 0)
            if abs(slope - gradients[place]) > 1e-8:
                return f"the gradient at {place} is {gradients[place]}, the slope of the cost {slope}"
        return None

    def check(self, what, problem):
        wrong = problem()
        if (wrong is None) != self.control:
            self.passed += 1
        else:
            self.failed += 1
            if self.failed <= 20:
                print(f"{what}: {wrong or 'a wrong result went unnoticed'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--negative-control", action="store_true")
    parser.add_argument("--core", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    os.environ["CUDNN_SHIM_BACKEND"] = options.core
    np.seterr(all="ignore")
    losses = Losses(options)
    for case in range(options.cases):
        losses.check(f"case {case}", lambda: losses.case(case % 3 == 0))
    if not options.negative_control:
        for case in range(max(options.cases // 50, 2)):
            losses.check(f"slopes {case}", losses.slopes)
    print(f"{losses.passed} passed, {losses.failed} failed, 0 skipped")
    return losses.failed > 0


if __name__ == "__main__":
    sys.exit(main())
