"""Runs PyTorch and ONNX Runtime beside cudnn-shim on LSTM and GRU layers, in one process and in turns.

usage: recurrent_peers.py LIBCUDNN [--threads N] [--rounds N] [NAME...]

A row is a layer of as many inputs as hidden units: its cell, batch, hidden size, steps, and whether it is trained. Inference is one call of
cudnnRNNForward; training is the forward call and both gradients, beside the forward and backward pass of PyTorch (ONNX Runtime has none).
Every row prints microseconds a step (best and median of the rounds), what the best round is in GFLOP/s, and the speed as a multiple of either
peer's. One thread is measured in processor time. A peer that is not installed, or does not train, has a `-`. Results of inference are
compared before anything is measured.
"""

import argparse
import ctypes as c
import statistics
import time

import numpy as np
import torch
from cudnn import Cudnn

try:
    import onnx
    import onnxruntime
except ImportError:
    onnx = onnxruntime = None

# name: batch, hidden size, steps, whether it is trained
ROWS = {
    "batch-16-hidden-256": (16, 256, 32, False),
    "batch-64-hidden-256": (64, 256, 32, False),
    "batch-16-hidden-1024": (16, 1024, 16, False),
    "batch-64-hidden-1024": (64, 1024, 16, False),
    "batch-1-hidden-256": (1, 256, 64, False),
    "batch-1-hidden-1024": (1, 1024, 32, False),
    "batch-1-hidden-2048": (1, 2048, 16, False),
    "train-batch-16-hidden-256": (16, 256, 32, True),
    "train-batch-64-hidden-512": (64, 512, 32, True),
    "train-batch-16-hidden-1024": (16, 1024, 16, True),
    "train-batch-1-hidden-1024": (1, 1024, 16, True),
}
# name: number of cudnn, gates, gates of ONNX by their places in those of cudnn, the attributes of its operator
CELLS = {
    "LSTM": (2, 4, (0, 3, 1, 2), {}),
    "GRU": (3, 3, (1, 0, 2), {"linear_before_reset": 1}),
}
FLOAT = 0
TOLERANCE = 1e-4
# Threads that watch for work after a call would take the processors away from the one that is measured next: seconds until they sleep.
PAUSE = 0.02


def at(tensor):
    return c.c_void_p(tensor.data_ptr())


class Layer:
    """A layer in the library, with the weights of one of PyTorch."""

    def __init__(self, library, cell, batch, hidden, steps, trained):
        self.library, self.trained = library, trained
        number, gates = CELLS[cell][:2]
        self.torch = getattr(torch.nn, cell)(hidden, hidden)
        dropout = library.descriptor("Dropout", "SetDropoutDescriptor", library.handle, c.c_float(0), None, c.c_size_t(0), c.c_ulonglong(0))
        self.rnn = library.descriptor("RNN", "SetRNNDescriptor_v8", 0, number, 2, 0, 0, FLOAT, FLOAT, 0, hidden, hidden, hidden, 1, dropout, 1)
        size = c.c_size_t()
        library.call("GetRNNWeightSpaceSize", library.handle, self.rnn, c.byref(size))
        self.weights = torch.zeros(size.value // 4)
        state = self.torch.state_dict()
        matrix, bias = library.descriptor("Tensor"), library.descriptor("Tensor")
        for part, name in enumerate(("ih", "hh")):
            for gate in range(gates):
                rows = slice(gate * hidden, (gate + 1) * hidden)
                m, b = c.c_void_p(), c.c_void_p()
                library.call("GetRNNWeightParams", library.handle, self.rnn, 0, size, at(self.weights), part * gates + gate,
                             matrix, c.byref(m), bias, c.byref(b))  # fmt: skip
                for address, values in ((m, state[f"weight_{name}_l0"]), (b, state[f"bias_{name}_l0"])):
                    first = (address.value - self.weights.data_ptr()) // 4
                    part_of = values[rows].reshape(-1)
                    self.weights[first : first + len(part_of)] = part_of
        lengths = (c.c_int * batch)(*[steps] * batch)
        self.data = library.descriptor("RNNData", "SetRNNDataDescriptor", FLOAT, 0, steps, batch, hidden, lengths, None)
        dims, strides = (c.c_int * 3)(1, batch, hidden), (c.c_int * 3)(batch * hidden, hidden, 1)
        self.states = library.descriptor("Tensor", "SetTensorNdDescriptor", FLOAT, 3, dims, strides)
        self.x = torch.rand(steps, batch, hidden) * 2 - 1
        self.y, self.dx, self.dy = torch.zeros_like(self.x), torch.zeros_like(self.x), torch.rand_like(self.x)
        self.gradient = torch.zeros_like(self.weights)
        work, kept = c.c_size_t(), c.c_size_t()
        library.call("GetRNNTempSpaceSizes", library.handle, self.rnn, int(trained), self.data, c.byref(work), c.byref(kept))
        self.work, self.kept = (torch.zeros(size.value, dtype=torch.uint8) for size in (work, kept))

    def sized(self, memory):
        return c.c_size_t(memory.nbytes), at(memory)

    def forward_arguments(self):
        none = None
        return (self.library.handle, self.rnn, int(self.trained), none, self.data, at(self.x), self.data, at(self.y),
                self.states, none, none, self.states, none, none, *self.sized(self.weights), *self.sized(self.work),
                *self.sized(self.kept))  # fmt: skip

    def forward(self):
        self.library.call("RNNForward", *self.forward_arguments())

    def train(self):
        none = None
        self.forward()
        self.library.call("RNNBackwardData_v8", self.library.handle, self.rnn, none, self.data, at(self.y), at(self.dy), self.data, at(self.dx),
                          self.states, none, none, none, self.states, none, none, none, *self.sized(self.weights), *self.sized(self.work),
                          *self.sized(self.kept))  # fmt: skip
        self.gradient.zero_()
        self.library.call("RNNBackwardWeights_v8", self.library.handle, self.rnn, 0, none, self.data, at(self.x), self.states, none, self.data,
                          at(self.y), *self.sized(self.gradient), *self.sized(self.work), *self.sized(self.kept))  # fmt: skip

    def theirs(self):
        with torch.no_grad():
            return self.torch(self.x)[0]

    def train_theirs(self):
        x = self.x.requires_grad_()
        self.torch.zero_grad()
        self.torch(x)[0].backward(self.dy)
        x.grad = None


def exported(cell, layer, threads):
    """The layer in ONNX Runtime."""
    order, attributes = CELLS[cell][2:]
    state = {name: values.numpy() for name, values in layer.torch.state_dict().items()}
    hidden = state["weight_hh_l0"].shape[1]

    def gates(values):
        parts = values.reshape(-1, hidden, *values.shape[1:])
        return np.ascontiguousarray(parts[list(order)].reshape(values.shape))

    bias = np.concatenate([gates(state["bias_ih_l0"]), gates(state["bias_hh_l0"])])
    arrays = {"w": gates(state["weight_ih_l0"])[None], "r": gates(state["weight_hh_l0"])[None], "b": bias[None]}
    node = onnx.helper.make_node(cell, ["x", *arrays], ["y"], hidden_size=hidden, **attributes)
    kinds = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy"]
    graph = onnx.helper.make_graph([node], "layer", kinds[:1], kinds[1:], [onnx.numpy_helper.from_array(a, n) for n, a in arrays.items()])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 14)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = layer.x.detach().numpy()
    return lambda: session.run(None, {"x": x})[0][:, 0]


def measured(calls, rounds, threads):
    # Processor time is what other work on the machine changes least; of several threads it does not say how they wait.
    clock = time.process_time if threads == 1 else time.perf_counter
    times = {who: [] for who in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for who, call in calls.items():
            time.sleep(PAUSE)
            start = clock()
            call()
            times[who].append(clock() - start)
    return times


def opened(description):
    """What was asked for, and the library, with as many threads as PyTorch has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    return given, Cudnn(given.library, given.threads)


def main():
    given, library = opened(__doc__)
    peers = f"PyTorch {torch.__version__}" + (f", ONNX Runtime {onnxruntime.__version__}" if onnx else "")
    print(f"{given.threads} threads, {given.rounds} rounds; {peers}")
    print(f"{'':32}{'us a step':>12}{'median':>10}{'GFLOP/s':>9}{'PyTorch':>9}{'ORT':>7}")
    for cell, (_, gates, *_) in CELLS.items():
        for name, (batch, hidden, steps, trained) in ROWS.items():
            name = f"{cell.lower()}-{name}"
            if given.names and name not in given.names:
                continue
            layer = Layer(library, cell, batch, hidden, steps, trained)
            calls = {"ours": layer.forward, "PyTorch": layer.theirs}
            if onnx and not trained:
                calls["ORT"] = exported(cell, layer, given.threads)
            layer.forward()
            for who, call in list(calls.items())[1:]:
                error = np.abs(layer.y.numpy() - np.asarray(call())).max()
                assert error <= TOLERANCE, f"{name}: differs from {who} by {error}"
            if trained:
                calls = {"ours": layer.train, "PyTorch": layer.train_theirs}
            times = measured(calls, given.rounds, given.threads)
            best = min(times["ours"])
            flops = 2 * batch * 2 * hidden * gates * hidden * steps * (3 if trained else 1)
            line = f"{name:32}{best / steps * 1e6:12.1f}{statistics.median(times['ours']) / steps * 1e6:10.1f}{flops / best / 1e9:9.1f}"
            for who, width in (("PyTorch", 9), ("ORT", 7)):
                line += f"{min(times[who]) / best:{width}.2f}" if who in times else f"{'-':>{width}}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
