"""What PyTorch makes of the perceptron of perceptron.c, in binary64: writes perceptron.h, or, with --check, compares."""

import argparse
import sys
from pathlib import Path

BATCH, INPUTS, HIDDEN, CLASSES, BATCHES, STEPS, RATE = 16, 8, 12, 4, 3, 12, 0.25


def numbers(count, a, b, period, scale):
    """Numbers that every machine computes alike; perceptron.c has the same."""
    return [((i * a + b) % period - period // 2) / scale for i in range(count)]


def trained():
    """Name and numbers of every parameter after training."""
    import torch

    torch.set_default_dtype(torch.float64)
    data = torch.tensor(numbers(BATCHES * BATCH * INPUTS, 37, 11, 61, 16)).reshape(BATCHES, BATCH, INPUTS)
    labels = torch.tensor([i * 7 % 11 % CLASSES for i in range(BATCHES * BATCH)]).reshape(BATCHES, BATCH)
    first = torch.nn.Linear(INPUTS, HIDDEN, bias=False)
    norm = torch.nn.BatchNorm1d(HIDDEN, eps=1e-5, momentum=0.1)
    second = torch.nn.Linear(HIDDEN, CLASSES)
    with torch.no_grad():
        first.weight.copy_(torch.tensor(numbers(HIDDEN * INPUTS, 29, 7, 41, 64)).reshape(HIDDEN, INPUTS))
        second.weight.copy_(torch.tensor(numbers(CLASSES * HIDDEN, 23, 5, 37, 64)).reshape(CLASSES, HIDDEN))
        second.bias.zero_()
    net = torch.nn.Sequential(first, norm, torch.nn.ReLU(), second)
    optimiser = torch.optim.SGD(net.parameters(), lr=RATE)
    for step in range(STEPS):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(data[step % BATCHES]), labels[step % BATCHES]).backward()
        optimiser.step()
    parts = [
        ("first_weight", first.weight), ("norm_scale", norm.weight), ("norm_bias", norm.bias), ("running_mean", norm.running_mean),
        ("running_variance", norm.running_var), ("second_weight", second.weight), ("second_bias", second.bias),
    ]  # fmt: skip
    return [(name, part.detach().reshape(-1).tolist()) for name, part in parts]


def text(parts):
    lines = ["/* The parameters of perceptron.c after training, by PyTorch in binary64: written by perceptron.py. */"]
    for name, values in parts:
        lines.append(f"static const double expected_{name}[{len(values)}] = {{")
        for i in range(0, len(values), 6):
            lines.append("    " + ", ".join(f"{value:.10g}" for value in values[i : i + 6]) + ",")
        lines.append("};")
    return "\n".join(lines) + "\n"


def parsed(source):
    """The numbers of a header, in order."""
    rows = [line for line in source.splitlines() if line.startswith("    ")]
    return [float(number) for row in rows for number in row.split(",") if number.strip()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    header = Path(__file__).with_name("perceptron.h")
    try:
        new = text(trained())
    except ImportError:
        print("skipped: no PyTorch; install it: pip install torch")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    if not options.check:
        header.write_text(new)
        return 0
    old, new = parsed(header.read_text()), parsed(new)
    same = len(old) == len(new) and all(abs(a - b) <= 1e-8 * (1 + abs(b)) for a, b in zip(old, new))
    print(f"{int(same)} passed, {int(not same)} failed, 0 skipped")
    return not same


if __name__ == "__main__":
    sys.exit(main())
