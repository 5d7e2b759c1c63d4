"""The problems of `layers.rs` with PyTorch, two threads, best and median: python benches/layers_peers.py [WORD]..."""

import sys
import time

import torch

BYTES = 64 << 20
ROUNDS = 21


def timed(body):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        body()
        times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    return f"{times[0]:8.2f} /{times[ROUNDS // 2]:6.2f} ms"


def main():
    torch.set_num_threads(2)
    functional = torch.nn.functional
    functions = {
        "Relu": torch.relu, "ClippedRelu": lambda x: torch.clamp(x, 0, 1), "Identity": torch.clone, "Sigmoid": torch.sigmoid,
        "Tanh": torch.tanh, "Elu": functional.elu, "Swish": functional.silu,
    }  # fmt: skip
    rows = {}
    for kind, name in ((torch.float32, "Float"), (torch.float16, "Half"), (torch.bfloat16, "Bfloat16")):
        x = (torch.arange(BYTES // kind.itemsize) % 1000 / 125 - 4).to(kind)
        for label, function in functions.items():
            rows[f"{label} {name}"] = lambda f=function, x=x: f(x)
    for classes in (10, 100, 1000):
        x = (torch.arange(BYTES // 4 // classes // 784 * classes * 784) % 1000 / 125 - 4).reshape(-1, classes, 28, 28)
        for label, y in (("Nchw", x), ("Nhwc", x.to(memory_format=torch.channels_last))):
            rows[f"softmax Accurate {classes} {label}"] = lambda y=y: torch.softmax(y, 1)
            rows[f"softmax Log {classes} {label}"] = lambda y=y: torch.log_softmax(y, 1)
    for name, body in rows.items():
        if all(word in name for word in sys.argv[1:]):
            print(f"{name:<34}{timed(body)}", flush=True)


if __name__ == "__main__":
    main()
