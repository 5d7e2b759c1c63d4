"""Runs PyTorch and oneDNN beside cudnn-shim on the transforms of problems.txt, in one process and in turns.

usage: peers.py LIBCUDNN [--libdnnl LIBDNNL] [--include DIR] [--rounds N] [--size beyond|inside|all] [NAME...]

Every row prints microseconds per call (best and median of the rounds) and the speed of the library as a multiple of the
faster peer's: above 1 it is faster. A peer that cannot do a row, or not in one call, has a `-`.
"""

import argparse
import ctypes as c
import os
import pathlib
import statistics
import sys
import time

import torch
from cudnn import Cudnn
from onednn import add_options, opened

# Threads that watch for work after a call would take the processors away from whoever is measured next: seconds until
# they sleep, with GNU's and Intel's OpenMP as they come.
PAUSE = 0.02

LISTS = pathlib.Path(__file__).resolve().parent.parent / "problems"
BEYOND, INSIDE = 128 << 20, 8 << 20
#           PyTorch          cudnn
TYPES = {
    "f32": (torch.float32, 0),
    "f64": (torch.float64, 1),
    "f16": (torch.float16, 2),
    "bf16": (torch.bfloat16, 9),
    "s8": (torch.int8, 3),
    "u8": (torch.uint8, 6),
}
FORMAT_BLOCKED = 0x43580000


class Side:
    """One operand: type, letters from outermost to innermost, block of channels or None, strides or None."""

    def __init__(self, dtype, layout, dims, letters, outer):
        self.dtype, self.dims = dtype, dims
        self.torch_type, self.cudnn_type = TYPES[dtype]
        digits = "".join(filter(str.isdigit, layout))
        self.block = int(digits) if digits else None
        self.tag = layout
        if self.block:
            groups = -(-dims[1] // self.block)
            cells = dims[0] * groups * self.block
            for d in dims[2:]:
                cells *= d
            self.strides, self.cells = None, cells
        else:
            outer, step, strides = outer or dims, 1, [0] * len(dims)
            for letter in reversed(layout):
                k = letters.index(letter)
                strides[k], step = step, step * outer[k]
            self.strides, self.cells = strides, step
        # Written, for pages that never were are all the same one.
        self.storage = torch.ones(self.cells, dtype=self.torch_type)
        self.pointer = self.storage.data_ptr()

    def view(self, dims, blocked_by):
        """The tensor as PyTorch sees it, channels split in two where either operand is blocked."""
        b = blocked_by
        if self.block:
            n, ch, *rest = dims
            shape = [n, ch // b, *rest, b]
            return self.storage.view(shape).movedim(-1, 2)
        view = self.storage.as_strided(dims, self.strides)
        return view.unflatten(1, (dims[1] // b, b)) if b else view


def parse(line):
    words = line.split()
    name, types, layouts, dims = words[:4]
    options = dict(w.split("=") for w in words[4:])
    (src, dst), (a, b) = types.split("->"), layouts.split("->")
    letters = sorted((ch for ch in a.lower() if ch.isalpha()), key=lambda ch: "ncdhw".find(ch) if set(a) <= set("ncdhw") else ch)
    outer = options.pop("window-of", None)
    extents = lambda text: [int(d) for d in text.split("x")]
    return name, src, dst, a, b, extents(dims), letters, outer and extents(outer), options


def rows():
    for line in (LISTS / "problems.txt").read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            name, src, dst, a, b, dims, letters, outer, options = parse(line)
            yield name, src, dst, a, b, dims, letters, (outer, None), options
            yield name + "'", dst, src, b, a, dims, letters, (None, outer), options


def sized(dims, letters, per_cell, outers, size):
    """Dims with a batch that makes the buffers exceed or fit the caches, or None."""
    cells = 1
    for d in dims:
        cells *= d
    total = cells * per_cell
    if letters[0] == "n" and total >= 1 << 16:
        one = total // dims[0]
        n = max(1, -(-BEYOND // one) if size == "beyond" else INSIDE // one)
        grow = lambda outer: outer and [n, *outer[1:]]
        return [n, *dims[1:]], tuple(map(grow, outers))
    fits = total * 2 > BEYOND if size == "beyond" else total <= 2 * INSIDE
    return (dims, outers) if fits else None


def problems(sizes, names=()):
    """Title, both sides, both factors and extents of each row, in each of these sizes that it comes in."""
    for name, src_type, dst_type, a, b, dims, letters, outers, extra in rows():
        if names and name.rstrip("'") not in names and name not in names:
            continue
        for size in sizes:
            per_cell = sum(torch.empty(0, dtype=TYPES[t][0]).element_size() for t in (src_type, dst_type))
            chosen = sized(dims, letters, per_cell, outers, size)
            if not chosen:
                continue
            extents, (src_outer, dst_outer) = chosen
            sides = Side(src_type, a, extents, letters, src_outer), Side(dst_type, b, extents, letters, dst_outer)
            title = f"{name:15} {src_type}->{dst_type} {a}->{b} {'x'.join(map(str, extents))} {size}"
            yield title, sides, (float(extra.get("alpha", 1)), float(extra.get("beta", 0))), extents


class Transforms(Cudnn):
    """TransformTensor between two sides."""

    def tensor(self, side):
        rank = len(side.dims)
        ints = lambda values: (c.c_int * rank)(*values)
        if side.block:
            format_ = FORMAT_BLOCKED + side.block
            return self.descriptor("Tensor", "SetTensorNdDescriptorEx", format_, side.cudnn_type, rank, ints(side.dims))
        return self.descriptor("Tensor", "SetTensorNdDescriptor", side.cudnn_type, rank, ints(side.dims), ints(side.strides))

    def transform(self, src, dst, alpha, beta):
        scalar = c.c_double if dst.dtype == "f64" else c.c_float
        a, b = scalar(alpha), scalar(beta)
        arguments = (
            self.handle, c.byref(a), self.tensor(src), c.c_void_p(src.pointer),
            c.byref(b), self.tensor(dst), c.c_void_p(dst.pointer),
        )  # fmt: skip
        return lambda: self.call("TransformTensor", *arguments)


def dnnl_call(dnnl, src, dst, alpha, beta):
    if (alpha, beta) != (1.0, 0.0):
        raise RuntimeError("scaled rows are another job")
    described = lambda side: dnnl.described(side.dtype, side.dims, side.strides, side.tag if side.block else None)
    return dnnl.reorder(*((described(side), c.c_void_p(side.pointer)) for side in (src, dst)))


def torch_call(src, dst, dims, alpha, beta):
    if (alpha, beta) != (1.0, 0.0):
        raise RuntimeError("scaled rows take two calls")
    block = src.block or dst.block
    if block and dims[1] % block:
        raise RuntimeError("a tail takes two calls")
    x, y = src.view(dims, block), dst.view(dims, block)
    return lambda: y.copy_(x)


def measure(contenders, rounds):
    """Microseconds per call of each contender: all rounds, in turns."""
    times = {name: [] for name in contenders}
    turns = {}
    for name, call in contenders.items():
        call()
        start = time.perf_counter()
        call()
        turns[name] = max(1, min(1000, int(1e-3 / (time.perf_counter() - start + 1e-9))))
    for _ in range(rounds):
        for name, call in contenders.items():
            time.sleep(PAUSE)
            for _ in range(turns[name]):
                call()
            start = time.perf_counter()
            for _ in range(turns[name]):
                call()
            times[name].append((time.perf_counter() - start) / turns[name] * 1e6)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--size", choices=["beyond", "inside", "all"], default="all")
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    threads = int(os.environ.get("CUDNN_SHIM_NUM_THREADS", os.cpu_count() or 1))
    torch.set_num_threads(threads)
    cudnn = Transforms(options.library)
    dnnl = opened(options)
    print(f"# PyTorch {torch.__version__}, oneDNN {dnnl.version if dnnl else 'not installed'}, threads: {threads}")
    print(f"# microseconds, best / median of {options.rounds} rounds in turns; last: speed over the faster peer")
    slower = 0
    sizes = ["beyond", "inside"] if options.size == "all" else [options.size]
    for title, (src, dst), (alpha, beta), extents in problems(sizes, options.names):
        contenders = {"ours": cudnn.transform(src, dst, alpha, beta)}
        makers = {"torch": lambda: torch_call(src, dst, extents, alpha, beta)}
        if dnnl:
            makers["onednn"] = lambda: dnnl_call(dnnl, src, dst, alpha, beta)
        for peer, make in makers.items():
            try:
                contenders[peer] = make()
            except (RuntimeError, KeyError):
                pass
        times = measure(contenders, options.rounds)
        best = {who: min(t) for who, t in times.items()}
        shown = lambda who: f"{best[who]:9.1f} /{statistics.median(times[who]):9.1f}" if who in best else f"{'-':>20}"
        peers = [best[who] for who in best if who != "ours"]
        ratio = f"{min(peers) / best['ours']:6.2f}" if peers else "     -"
        slower += bool(peers) and min(peers) < best["ours"]
        print(f"{title:72} ours {shown('ours')}  torch {shown('torch')}  onednn {shown('onednn')}  {ratio}", flush=True)
    print(f"# slower than the faster peer in {slower} rows")


if __name__ == "__main__":
    sys.exit(main())
