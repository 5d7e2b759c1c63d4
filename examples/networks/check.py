"""Builds the network of a table in PyTorch with the weights that `networks` draws, and compares results and speed.

usage: check.py PROGRAM TABLE [--batch N] [--layout NCHW|NHWC|NCHW8C] [--type f32|bf16|f16|int8] [--train] [--rounds N]
       check.py --record FILE TABLE [--batch N] [--train]

Prints the largest relative difference and whether every argmax agrees; with --rounds, milliseconds of both in turns (best
and median, PyTorch in NCHW and in channels_last). Exit status 1 where results differ by more than TOLERANCES says.
PyTorch computes in f32, whatever our type is.
--record writes PyTorch's results as text, a number a line: the expectations of tests/library/networks.rs.
"""

import argparse
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F

EPSILON = 1e-5

# Largest difference as a share of the largest result.
TOLERANCES = {"f32": 1e-3, "bf16": 1.5e-2, "f16": 2e-3, "int8": 8e-2}


def drawn(seed, parameter, count):
    """As `drawn` in network.cpp."""
    mask = (1 << 64) - 1
    start = (seed * 0x9E3779B97F4A7C15 + parameter * 0xD1B54A32D192ED03) & mask
    with np.errstate(over="ignore"):
        z = np.uint64(start) + np.arange(count, dtype=np.uint64) * np.uint64(0x8CB92BA72F3D8DD7)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float32) / np.float32(1 << 23) - np.float32(1)


class Layer:
    def __init__(self, words):
        self.name, self.op = words[0], words[2]
        self.inputs = [w for w in words[3:] if "=" not in w and w not in FLAGS]
        self.flags = {w for w in words[3:] if w in FLAGS}
        self.numbers = {k: int(v) for k, v in (w.split("=") for w in words[3:] if re.fullmatch(r"\w+=\d+", w))}
        self.add = next((w[4:] for w in words[3:] if w.startswith("add=")), None)


FLAGS = {"norm", "bias", "shifted", "depthwise", "relu", "relu6", "leaky"}


class Network(torch.nn.Module):
    def __init__(self, path, seed=1):
        super().__init__()
        self.layers = []
        channels, number = {}, 0
        for line in pathlib.Path(path).read_text().splitlines():
            words = line.split("#")[0].split()
            if not words:
                continue
            if words[0] == "input":
                self.extents = tuple(map(int, words[1:]))
                channels["input"] = self.extents[0]
                continue
            layer = Layer(words)
            self.layers.append(layer)
            c = channels[layer.inputs[0]]
            channels[layer.name] = sum(channels[i] for i in layer.inputs) if layer.op == "concat" else c
            if layer.op != "conv":
                continue
            r = layer.numbers.get("r", 1)
            groups = c if "depthwise" in layer.flags else layer.numbers.get("g", 1)
            k = layer.numbers.get("k", c)
            channels[layer.name] = k
            norm = "norm" in layer.flags
            conv = torch.nn.Conv2d(
                c, k, r, layer.numbers.get("s", 1), layer.numbers.get("p", 0), groups=groups, bias=not norm)
            weight = drawn(seed, number, conv.weight.numel()) * np.sqrt(np.float32(6) / np.float32(c // groups * r * r))
            bias = drawn(seed, number + 1, k) * np.float32(0.1)
            number += 2
            conv.weight.data = torch.from_numpy(weight.reshape(conv.weight.shape))
            self.add_module(layer.name, conv)
            if norm:
                bn = torch.nn.BatchNorm2d(k, EPSILON)
                bn.weight.data = torch.from_numpy(0.75 + np.float32(0.25) * drawn(seed, number, k))
                bn.bias.data = torch.from_numpy(bias)
                bn.running_mean = torch.from_numpy(np.float32(0.1) * drawn(seed, number + 1, k))
                bn.running_var = torch.from_numpy(1 + np.float32(0.5) * drawn(seed, number + 2, k))
                number += 3
                self.add_module(layer.name + "_norm", bn)
            else:
                conv.bias.data = torch.from_numpy(bias)

    def forward(self, x):
        values = {"input": x}
        for layer in self.layers:
            x, n = values[layer.inputs[0]], layer.numbers
            if layer.op == "conv":
                x = getattr(self, layer.name)(x)
                if "norm" in layer.flags:
                    x = getattr(self, layer.name + "_norm")(x)
                if layer.add:
                    x = x + values[layer.add]
                if "relu" in layer.flags:
                    x = F.relu(x)
                elif "relu6" in layer.flags:
                    x = F.relu6(x)
                elif "leaky" in layer.flags:
                    x = F.leaky_relu(x, 0.1)
            elif layer.op == "maxpool" and "shifted" in layer.flags:
                x = F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-torch.inf), 2, 1)
            elif layer.op == "maxpool":
                x = F.max_pool2d(x, n["r"], n.get("s", 1), n.get("p", 0))
            elif layer.op == "avgpool":
                x = F.avg_pool2d(x, x.shape[2:])
            elif layer.op == "upsample":
                x = F.interpolate(x, scale_factor=2, mode="nearest")
            elif layer.op == "concat":
                x = torch.cat([values[i] for i in layer.inputs], 1)
            values[layer.name] = x
        return x

    def gradients(self, x):
        """The loss, and the norm of every gradient in the order of `Network::gradient_norms`."""
        labels = torch.arange(len(x)) * 37 % 10
        self.zero_grad()
        loss = F.cross_entropy(self(x).flatten(1), labels)
        loss.backward()
        norms = [loss.item()]
        for layer in self.layers:
            if layer.op != "conv":
                continue
            conv, bn = getattr(self, layer.name), getattr(self, layer.name + "_norm", None)
            parts = [conv.weight, bn.bias, bn.weight] if bn is not None else [conv.weight, conv.bias]
            norms += [p.grad.norm().item() for p in parts]
        return np.array(norms, np.float32)


def ours(options, out, runs):
    command = [options.program, options.table, "--batch", str(options.batch), "--layout", options.layout]
    command += ["--type", options.type]
    command += ["--runs", str(runs), "--out", out] + (["--train"] if options.train else [])
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    best, median, memory = re.search(r"best ([\d.]+) ms, median ([\d.]+) ms, (\d+) MiB", text).groups()
    return float(best), float(median), int(memory)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?")
    parser.add_argument("table")
    parser.add_argument("--record")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--layout", default="NCHW")
    parser.add_argument("--type", default="f32", choices=TOLERANCES)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--rounds", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(2)
    network = Network(options.table)
    network.train(options.train)
    c, h, w = network.extents
    x = torch.from_numpy(drawn(2, (1 << 64) - 1, options.batch * c * h * w).reshape(options.batch, c, h, w))
    work = network.gradients if options.train else torch.no_grad()(network)
    want = work(x) if options.train else work(x).numpy()
    if options.record:
        lines = [f"# {pathlib.Path(options.table).stem}, batch {options.batch}, PyTorch {torch.__version__}"]
        lines += [f"{value:.9g}" for value in want.ravel()]
        pathlib.Path(options.record).write_text("\n".join(lines) + "\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        out = str(pathlib.Path(folder) / "out")
        ours(options, out, 1)
        got = np.fromfile(out, np.float32).reshape(want.shape)
        scale = np.abs(want).max() if not options.train else np.maximum(np.abs(want), 1e-6)
        error = float(np.max(np.abs(got - want) / scale))
        flat = lambda a: a.reshape(len(a), -1).argmax(1) if not options.train else a.argmax()
        agree = bool(np.all(flat(got) == flat(want)))
        name = pathlib.Path(options.table).stem
        print(f"{name} batch {options.batch} {options.layout} {options.type}: largest difference {error:.2e}, argmax {'equal' if agree else 'DIFFERS'}")
        if options.rounds:
            layouts = {"NCHW": (network, x)}
            last = Network(options.table).to(memory_format=torch.channels_last)
            last.train(options.train)
            layouts["channels_last"] = (last, x.to(memory_format=torch.channels_last))
            times = {name: [] for name in ("ours", *layouts)}
            memory = 0
            for _ in range(options.rounds):
                best, _, memory = ours(options, out, 3)
                times["ours"].append(best)
                for key, (model, data) in layouts.items():
                    run = model.gradients if options.train else torch.no_grad()(model)
                    run(data)
                    spans = []
                    for _ in range(3):
                        start = time.perf_counter()
                        run(data)
                        spans.append(1e3 * (time.perf_counter() - start))
                    times[key].append(min(spans))
            row = [f"{key} {min(t):.1f} ({statistics.median(t):.1f}) ms" for key, t in times.items()]
            faster = min(min(times[key]) for key in layouts)
            rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print("  " + ", ".join(row) + f"; ours is {faster / min(times['ours']):.2f} times as fast; "
                  f"memory {memory} MiB, PyTorch's process {rss} MiB")
    # Fewer bits may choose another of two results that are as near to each other.
    sys.exit(0 if error < TOLERANCES[options.type] and (agree or options.type != "f32") else 1)


if __name__ == "__main__":
    main()
