"""Runs the networks of examples/networks beside PyTorch, ONNX Runtime and OpenVINO, with the same weights and in turns.

usage: networks_peers.py PROGRAM [--threads N] [--rounds N] [--batch N] [--type f32|bf16] [--layers] [TABLE...]

PROGRAM is that of examples/networks, which runs in a process of its own. Every row prints milliseconds of a forward pass, the best and the
median of the rounds: ours in NCHW and in NHWC, PyTorch in both, and the others, which choose layouts by themselves and are held to f32, or with --type bf16 to bf16, which ONNX Runtime
does not run; and the speed of our better layout as a multiple of the fastest of ONNX Runtime and OpenVINO. A peer that is not installed has a `-`. All
outputs are compared before anything is measured. --layers prints, for each layer, our time in either layout beside that of
the nodes that ONNX Runtime's profile names after it; what it adds between layers is in its sum alone.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples/networks"))
import check  # noqa: E402

try:
    import onnx
    import onnxruntime
except ImportError:
    onnx = onnxruntime = None
try:
    import openvino
except ImportError:
    openvino = None

TABLES = [ROOT / "examples/networks" / f"{name}.txt" for name in ("vgg16", "yolov3_tiny", "resnet50", "mobilenet_v2")]
LAYOUTS = ("NCHW", "NHWC")
TOLERANCE = {"f32": 1e-3, "bf16": 5e-2}


def exported(network, batch):
    """The network as an ONNX model, whose nodes have the names of layers; a normalisation is folded, as the example does."""
    nodes, weights = [], []

    def constant(name, array):
        weights.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(op, inputs, name, output, **attributes):
        nodes.append(onnx.helper.make_node(op, inputs, [output], name=name, **attributes))
        return output

    for layer in network.layers:
        name, n = layer.name, layer.numbers
        x = layer.inputs[0]
        if layer.op == "conv":
            conv = getattr(network, name)
            weight, bias = conv.weight.detach(), conv.bias
            norm = getattr(network, name + "_norm", None)
            if norm is not None:
                factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
                weight, bias = weight * factor.reshape(-1, 1, 1, 1), norm.bias - norm.running_mean * factor
            parameters = [constant(f"{name}.weight", weight.detach().numpy()), constant(f"{name}.bias", bias.detach().numpy())]
            act = next((flag for flag in ("relu", "relu6", "leaky") if flag in layer.flags), None)
            last = name if not layer.add and not act else f"{name}/conv"
            add("Conv", [x, *parameters], name, last, strides=list(conv.stride), group=conv.groups, kernel_shape=list(conv.kernel_size),
                pads=list(conv.padding) * 2)
            if layer.add:
                last = add("Add", [last, layer.add], f"{name}/add", f"{name}/sum" if act else name)
            if act == "relu":
                add("Relu", [last], f"{name}/relu", name)
            elif act == "relu6":
                bounds = [constant(f"{name}.{k}", np.float32(k)) for k in (0, 6)]
                add("Clip", [last, *bounds], f"{name}/clip", name)
            elif act == "leaky":
                add("LeakyRelu", [last], f"{name}/leaky", name, alpha=0.1)
        elif layer.op == "maxpool" and "shifted" in layer.flags:
            add("MaxPool", [x], name, name, kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1])
        elif layer.op == "maxpool":
            add("MaxPool", [x], name, name, kernel_shape=[n["r"]] * 2, strides=[n.get("s", 1)] * 2, pads=[n.get("p", 0)] * 4)
        elif layer.op == "avgpool":
            add("GlobalAveragePool", [x], name, name)
        elif layer.op == "upsample":
            add("Resize", [x, "", constant(f"{name}.scales", np.array([1, 1, 2, 2], np.float32))], name, name, mode="nearest",
                coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        else:
            add("Concat", list(layer.inputs), name, name, axis=1)
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "network", [value("input", onnx.TensorProto.FLOAT, [batch, *network.extents])],
        [value(network.layers[-1].name, onnx.TensorProto.FLOAT, None)], weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def session(model, threads, profile=None):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def through_openvino(model, threads, precision):
    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision}
    compiled = core.compile_model(core.read_model(model, b""), "CPU", settings)
    return lambda x: compiled(x)[0]


class Program:
    """Our program; a run is a process that times itself."""

    def __init__(self, options, table):
        self.command = [options.program, str(table), "--batch", str(options.batch), "--type", options.type]
        self.environment = dict(os.environ, CUDNN_SHIM_NUM_THREADS=str(options.threads))

    def run(self, layout, *arguments):
        command = [*self.command, "--layout", layout, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=self.environment).stdout

    def milliseconds(self, layout):
        return float(re.search(r"best ([\d.]+) ms", self.run(layout, "--runs", "5"))[1])

    def output(self, layout, shape):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "out"
            self.run(layout, "--out", str(file))
            return np.fromfile(file, np.float32).reshape(shape)

    def layers(self, layout, runs):
        rows = [line.split() for line in self.run(layout, "--profile", "--runs", str(runs)).splitlines()[1:]]
        return {row[0]: next(float(word) for word in row[1:] if re.fullmatch(r"\d+\.\d+", word)) for row in rows}


def best_of(work, x, runs=5):
    work(x)
    spans = []
    for _ in range(runs):
        start = time.perf_counter()
        work(x)
        spans.append(1e3 * (time.perf_counter() - start))
    return min(spans)


def profiled(model, options, x):
    """Microseconds of ONNX Runtime's nodes, best of the rounds, by the layers that they are named after."""
    with tempfile.TemporaryDirectory() as folder:
        run = session(model, options.threads, pathlib.Path(folder) / "profile")
        for _ in range(options.rounds * 5):
            run.run(None, {"input": x})
        events = json.loads(pathlib.Path(run.end_profiling()).read_text())
    nodes = collections.defaultdict(list)
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            nodes[event["name"].removesuffix("_kernel_time")].append(event["dur"])
    layers = collections.Counter()
    for name, spans in nodes.items():
        # What is fused has the name of its convolution with a word before or behind.
        words = re.split(r"[ /]", re.sub(r"_(nchwc|nhwc|token_\d+)$", "", name))
        layer = next((word for word in words if word not in ("fused", "Conv", "reorder")), name)
        layers[layer] += min(spans)
    return layers


def print_layers(program, network, model, options, x):
    ours = {layout: program.layers(layout, options.rounds * 5) for layout in LAYOUTS}
    theirs = profiled(model, options, x) if model else collections.Counter()
    print(f"  {'layer':14} {'NCHW':>9} {'NHWC':>9} {'ONNX Runtime':>13}  microseconds; ours over theirs")
    for layer in network.layers:
        mine = [ours[layout][layer.name] for layout in LAYOUTS]
        other = theirs.get(layer.name)
        shown = f"{other:13.1f}  {mine[0] / other:5.2f} {mine[1] / other:5.2f}" if other else f"{'-':>13}"
        print(f"  {layer.name:14} {mine[0]:9.1f} {mine[1]:9.1f} {shown}")
    print(f"  {'all':14} {ours['NCHW']['all']:9.1f} {ours['NHWC']['all']:9.1f} {sum(theirs.values()):13.1f}")


def row(table, options):
    network = check.Network(table).eval()
    c, h, w = network.extents
    x = torch.from_numpy(check.drawn(2, (1 << 64) - 1, options.batch * c * h * w).reshape(options.batch, c, h, w))
    program = Program(options, table)
    last = check.Network(table).eval().to(memory_format=torch.channels_last)
    x_last = x.to(memory_format=torch.channels_last)
    model = exported(network, options.batch) if onnx else None
    peers = {"PyTorch NCHW": torch.no_grad()(network), "channels_last": torch.no_grad()(lambda _: last(x_last))}
    if options.type == "bf16":
        half, x_half = check.Network(table).eval().bfloat16().to(memory_format=torch.channels_last), x_last.bfloat16()
        peers["channels_last"] = torch.no_grad()(lambda _: half(x_half).float())
    elif onnxruntime:
        runtime = session(model, options.threads)
        peers["ONNX Runtime"] = lambda x: runtime.run(None, {"input": x.numpy()})[0]
    if openvino:
        compiled = through_openvino(model or exported(network, options.batch), options.threads, options.type)
        peers["OpenVINO"] = lambda x: compiled(x.numpy())
    want = peers["PyTorch NCHW"](x).numpy()
    outputs = {name: np.asarray(work(x)) for name, work in peers.items()}
    outputs |= {f"ours {layout}": program.output(layout, want.shape) for layout in LAYOUTS}
    for name, output in outputs.items():
        error = np.abs(output.reshape(want.shape) - want).max() / np.abs(want).max()
        if not error < TOLERANCE[options.type]:
            sys.exit(f"{table.stem}: {name} differs from PyTorch by {error:.1e} of the largest result")
    times = collections.defaultdict(list)
    if options.type != "f32":
        # It was there to compare outputs.
        del peers["PyTorch NCHW"]
    for _ in range(options.rounds):
        for layout in LAYOUTS:
            times[f"ours {layout}"].append(program.milliseconds(layout))
        for name, work in peers.items():
            times[name].append(best_of(work, x))
    columns = ["ours NCHW", "ours NHWC", "PyTorch NCHW", "channels_last", "ONNX Runtime", "OpenVINO"]
    cells = [f"{name} {min(times[name]):.1f} ({statistics.median(times[name]):.1f})" if times[name] else f"{name} -" for name in columns]
    others = [min(times[name]) for name in columns[4:] if times[name]]
    mine = min(min(times[name]) for name in columns[:2])
    faster = f"; {min(others) / mine:.2f} times as fast" if others else ""
    print(f"{table.stem}, {options.type}, batch {options.batch}, {options.threads} threads: " + ", ".join(cells) + " ms" + faster, flush=True)
    if options.layers:
        print_layers(program, network, model, options, x.numpy())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("tables", nargs="*", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--type", choices=list(TOLERANCE), default="f32")
    parser.add_argument("--layers", action="store_true")
    options = parser.parse_intermixed_args()
    torch.set_num_threads(options.threads)
    for table in options.tables or TABLES:
        row(table, options)


if __name__ == "__main__":
    main()
