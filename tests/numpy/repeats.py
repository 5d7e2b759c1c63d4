"""What does not change when calls are repeated: bits for any number of threads, memory over many shapes, and what a search finds.

Every gradient runs in processes of 1 to 8 threads, in float a hundred times together, to the same bits; MAX and
MAX_DETERMINISTIC are the same. Ten thousand shapes leave the process no larger than the first thousand. FindEx writes nothing,
whatever factor the old content is to have later, and lists in the same order every time.
"""

import argparse
import hashlib
import os
import subprocess
import sys
from ctypes import byref, c_int, c_size_t, c_void_p

import numpy as np

import cudnn
from calls import BACKWARD, FORWARD, Calls
from combinations import Bench as Convolutions
from combinations import Record
from convolution import NAMES, Problem
from device import Host

THREADS = (1, 2, 3, 5, 8)
RUNS = 20
# After a tenth of the shapes nothing may be kept of more.
SHAPES = 10_000
GROWTH = 1 << 20


def digests(library, seed, runs):
    """One line for each layer: its name, and what its results are of all runs."""
    os.environ["CUDNN_SHIM_BACKEND"] = "cpu"
    calls = Calls(cudnn.Library(library, Host()), seed)
    for code, layout in ((cudnn.FLOAT, "nchw"), (cudnn.FLOAT, "nhwc"), (cudnn.HALF, "nchw")):
        x = calls.fixed(0, (4, 24, 22, 23))
        # Few values, so that maxima meet their equals.
        ties = np.rint(x)
        for name in BACKWARD + FORWARD:
            source = ties if name.startswith("pool") else x
            found = set()
            for _ in range(runs if name in BACKWARD and layout == "nchw" and code == cudnn.FLOAT else 3):
                results = calls.run(name, code, source, (layout, layout))
                found.add(b"".join(part.tobytes() for part in results))
            told = " ".join(sorted(hashlib.sha256(one).hexdigest() for one in found))
            print(f"{name} type {code} {layout}\t{told}")


def threads(bench):
    told, runs = [], 1 if bench.options.negative_control else RUNS
    for count in THREADS:
        command = [sys.executable, __file__, "--library", bench.options.library, "--digest", str(runs)]
        environment = {**os.environ, "CUDNN_SHIM_NUM_THREADS": str(count)}
        output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        told.append(dict(line.split("\t") for line in output.splitlines()))
    for name, first in told[0].items():
        others = [one[name] if not bench.options.negative_control else "another" for one in told[1:]]
        bench.tell(f"{name} with {THREADS} threads", None if " " not in first and {*others} == {first} else "other bits")
        if name.startswith("pool 0 "):
            twin = told[0]["pool 3" + name[6:]]
            bench.tell(f"{name} and MAX_DETERMINISTIC", None if (twin == first) != bench.options.negative_control else "other bits")


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory(bench):
    """Shapes that no call has seen, over the same operands."""
    lib, room = bench.lib, np.ones(1 << 18, np.float32)
    tensors = [lib.create("TensorDescriptor") for _ in range(2)]
    filter_, before = lib.create("FilterDescriptor"), 0
    at = c_void_p(room.ctypes.data), c_void_p(room.ctypes.data + (1 << 18)), c_void_p(room.ctypes.data + (1 << 19))
    one, zero = bench.factors
    dims = lambda values: (c_int * len(values))(*values)
    shapes = SHAPES // 10 if bench.options.negative_control else SHAPES
    # Channels, filters, rows, columns, and windows of 1 x 1 or 3 x 3, drawn before memory is looked at.
    extents = (23, 23, 21, 21, 2)
    every = np.unravel_index(np.random.default_rng(bench.options.seed).permutation(np.prod(extents))[:shapes], extents)
    for case, (c, k, h, w, wide) in enumerate(np.stack(every, -1) + [1, 1, 3, 3, 0]):
        tap = 1 + 2 * int(wide)
        lib.call("cudnnSetConvolutionNdDescriptor", bench.conv, 2, dims([tap // 2] * 2), dims([1, 1]), dims([1, 1]), 1, cudnn.FLOAT)
        for tensor, channels in zip(tensors, (c, k)):
            lib.set_format(tensor, cudnn.NCHW, cudnn.FLOAT, (1, channels, h, w))
        lib.call("cudnnSetFilterNdDescriptor", filter_, cudnn.FLOAT, cudnn.NCHW, 4, dims([k, c, tap, tap]))
        x, y, w = (tensors[0], at[0]), (tensors[1], at[1]), (filter_, at[2])
        for name, operands in (("Forward", (x, w, y)), ("BackwardData", (w, y, x)), ("BackwardFilter", (x, y, w))):
            first, second, last = operands
            lib.call(f"cudnnConvolution{name}", lib.handle, one, *first, *second, bench.conv, 1, None, c_size_t(0), zero, *last)
        if case == shapes // 10:
            before = resident()
    grown = resident() - before
    print(f"{shapes} shapes, {grown} bytes more than after a tenth of them")
    bench.tell("memory over many shapes", None if (grown < GROWTH) != bench.options.negative_control else f"{grown} bytes more")


def searches(bench):
    """FindEx among bytes that nobody should touch, ten times."""
    for case in range(60):
        direction, rng = case % 3, np.random.default_rng([bench.options.seed, 4, case])
        problem = Problem(rng, int(rng.choice([1, 2, 3])), 1)
        code = int(rng.choice([cudnn.FLOAT, cudnn.HALF, cudnn.DOUBLE]))
        bench.describe(problem, cudnn.DOUBLE if code == cudnn.DOUBLE else cudnn.FLOAT)
        tensors = bench.operands(rng, problem, code, [rng.standard_normal(dims) for dims in (problem.x, problem.w, problem.y)])
        before, orders = [tensor.raw.copy() for tensor in tensors], set()
        for _ in range(10):
            orders.add(find_ex(bench, direction, tensors))
            if bench.options.negative_control:
                tensors[[2, 0, 1][direction]].raw[-1] ^= 1
                orders.add(())
        kept = all(np.array_equal(tensor.raw, old) for tensor, old in zip(tensors, before))
        bench.tell(f"FindEx {NAMES[direction]} {problem}", None if kept and len(orders) == 1 else f"operands kept: {kept}, orders {orders}")
        bench.forget(*tensors)


def find_ex(bench, direction, tensors):
    """Algorithms and math types in the order of the list."""
    x, w, y = ((tensor.desc, c_void_p(tensor.address)) for tensor in tensors)
    first, second, last = [(x, w, y), (w, y, x), (x, y, w)][direction]
    found, count = (Record * 10)(), c_int()
    bench.room[:] = 0x5A
    bench.lib.call(f"cudnnFindConvolution{NAMES[direction]}AlgorithmEx", bench.lib.handle, *first, *second, bench.conv, *last, 10,
                   byref(count), found, c_void_p(bench.room.ctypes.data + 64), c_size_t(1 << 16))  # fmt: skip
    if (bench.room[:64] != 0x5A).any() or (bench.room[64 + (1 << 16) :] != 0x5A).any():
        return "bytes around the workspace were written"
    return tuple((record.algorithm, record.math, record.memory) for record in found[: count.value])


class Bench(Convolutions):
    def __init__(self, options):
        super().__init__(options)
        self.factors = Calls(self.lib, 0).factors(cudnn.FLOAT)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--seed", type=int, default=20261125)
    parser.add_argument("--negative-control", action="store_true")
    parser.add_argument("--digest", type=int, metavar="RUNS", help="print what results are, as this program asks its children")
    options = parser.parse_args()
    np.seterr(all="ignore")
    if options.digest:
        digests(options.library, options.seed, options.digest)
        return 0
    bench = Bench(options)
    for part in (memory, searches, threads):
        part(bench)
    print(f"{bench.passed} passed, {bench.failed} failed, 0 skipped")
    return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
