"""Times two builds of the library in one process and in turns: what a change to the CPU core is worth.

usage: builds.py OLD NEW [--threads N] [--rounds N] [--bytes N] [--types f32,f16] [--layouts nchw,nhwc]
                 [--parts layers,transforms,contractions] [NAME...]

The speed of memory differs between processes by more than most changes are worth, so two runs of a benchmark say little. Rows are
those of layers_peers.py, peers.py and contractions_peers.py; with names, those whose titles hold one of them. Every row prints the
milliseconds of both (best) and the time of the new build as a multiple of the old one's: best, and median of the turns.
"""

import argparse
import math
import statistics
import time

import contractions_peers as contractions
import layers_peers as layers
import peers as transforms
import torch

# A call is repeated for so many seconds.
LEAST = 1e-3


def layer_rows(given):
    benches = [layers.Bench(argparse.Namespace(**{**vars(given), "library": build, "libdnnl": None})) for build in given.builds]
    # One memory, whose pages are as good for either.
    benches[1].memory = benches[0].memory
    for dtype in given.types:
        for layout in given.layouts:
            for family in layers.activations, layers.softmaxes, layers.poolings, layers.norms:
                for old, new in zip(*(family(bench, dtype, layout) for bench in benches), strict=True):
                    yield f"{old[0]} {dtype} {layout}", (old[2], new[2])


def transform_rows(given):
    builds = [transforms.Transforms(build, given.threads) for build in given.builds]
    for title, sides, factors, _ in transforms.problems(["beyond", "inside"]):
        yield title, [build.transform(*sides, *factors) for build in builds]


def contraction_rows(given):
    builds = [contractions.Convolutions(build, given.threads) for build in given.builds]
    for name, *layer in contractions.layers():
        for direction in "forward", "data", "filter":
            for layout in given.layouts:
                for dtype in given.types:
                    operands = contractions.tensors(layout, dtype, 1, *layer)
                    case = direction, layout, dtype, *operands, *layer[3:]
                    yield f"{name} {direction} {dtype} {layout}", [build.runner(*case) for build in builds]


PARTS = {"layers": layer_rows, "transforms": transform_rows, "contractions": contraction_rows}


def main():
    words = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("builds", nargs=2, metavar="LIBCUDNN")
    for name, default in [("threads", 2), ("rounds", 14), ("bytes", 64 << 20)]:
        parser.add_argument("--" + name, type=int, default=default)
    for name, default in [("types", "f32"), ("layouts", "nchw,nhwc"), ("parts", "layers")]:
        parser.add_argument("--" + name, type=words, default=words(default))
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_intermixed_args()
    torch.set_grad_enabled(False)
    medians = []
    for part in given.parts:
        for title, calls in PARTS[part](given):
            if given.names and not any(name in title for name in given.names):
                continue
            times = measure(calls, given.rounds)
            ratio = min(times[1]) / min(times[0]), statistics.median(new / old for old, new in zip(*times))
            medians.append(ratio[1])
            shown = "   ".join(f"{who} {min(t) * 1e3:9.3f} ms" for who, t in zip(("old", "new"), times))
            print(f"{title:60} {shown}   new to old {ratio[0]:5.2f} ({ratio[1]:4.2f})", flush=True)
    mean = math.exp(sum(map(math.log, medians)) / len(medians))
    print(f"new to old: geometric mean {mean:.2f}, most {max(medians):.2f}, of {len(medians)} medians")


def measure(calls, rounds):
    """Seconds per call of both, round by round; who begins changes."""
    for call in calls:
        call()
    began = time.perf_counter()
    calls[1]()
    repeats = max(1, int(LEAST / (time.perf_counter() - began)))
    times = [], []
    for turn in range(rounds):
        for k in (turn % 2, 1 - turn % 2):
            # Threads that watch for work after a call would be in the other's way.
            time.sleep(contractions.PAUSE)
            began = time.perf_counter()
            for _ in range(repeats):
                calls[k]()
            times[k].append((time.perf_counter() - began) / repeats)
    return times


if __name__ == "__main__":
    main()
