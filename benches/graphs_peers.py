"""Runs PyTorch beside graphs of cudnn-frontend on the CPU core, in one process and in turns: attention and its gradients, products by experts, and
products with bias and activation.

usage: graphs_peers.py [--threads N] [--seconds S] [NAME...]

The library and the CUDA runtime on host memory have to be found: `cudnn-shim run python3 graphs_peers.py`. Every row prints milliseconds a call, the
best of its rounds, and the speed as a multiple of PyTorch's. Results are compared before anything is measured.
"""

import argparse
import math
import sys
import time

# The folder of this program has a module of that name, too.
sys.path.pop(0)
import cudnn  # noqa: E402
import torch
import torch.nn.functional as F

FLOAT = cudnn.data_type.FLOAT


class Graph:
    """A graph over tensors of PyTorch."""

    def __init__(self, handle):
        self.handle = handle
        self.g = cudnn.pygraph(handle=handle, io_data_type=FLOAT, intermediate_data_type=FLOAT, compute_data_type=FLOAT)
        self.pack = {}

    def read(self, tensor, kind=FLOAT):
        found = self.g.tensor(dim=list(tensor.shape), stride=list(tensor.stride()), data_type=kind)
        self.pack[found] = tensor
        return found

    def write(self, tensor, *dims):
        result = torch.empty(*dims)
        tensor.set_output(True).set_dim(list(dims)).set_stride(list(result.stride())).set_data_type(FLOAT)
        self.pack[tensor] = result
        return result

    def run(self):
        g = self.g
        g.validate()
        g.build_operation_graph()
        g.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        g.check_support()
        g.build_plans()
        workspace = torch.empty(g.get_workspace_size(), dtype=torch.uint8)
        pointers = {tensor: value.data_ptr() for tensor, value in self.pack.items()}
        return lambda: g.execute(pointers, workspace.data_ptr(), handle=self.handle)


def attention(handle, rows, width, causal, gradients):
    heads = max(1, 4096 // rows)
    shape = (1, heads, rows, width)
    q, k, v, loss = (torch.randn(shape, requires_grad=True) for _ in range(4))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    graph, how = Graph(handle), {"attn_scale": 1 / math.sqrt(width), "use_causal_mask": causal}
    tensors = [graph.read(x.detach()) for x in (q, k, v)]
    o, stats = graph.g.sdpa(*tensors, generate_stats=True, **how)
    results = [graph.write(o, *shape)]
    statistics = graph.write(stats, *shape[:3], 1)
    run = graph.run()
    if not gradients:
        with torch.no_grad():
            return run, lambda: F.scaled_dot_product_attention(q.detach(), k.detach(), v.detach(), is_causal=causal), results, [out]
    run()
    graph = Graph(handle)
    tensors = [graph.read(x.detach()) for x in (q, k, v, out, loss)]
    found = graph.g.sdpa_backward(*tensors, graph.read(statistics), **how)
    results = [graph.write(x, *shape) for x in found]
    autograd = lambda: torch.autograd.grad(out, (q, k, v), loss, retain_graph=True)
    return graph.run(), autograd, results, autograd()


def experts(handle, count):
    tokens, width, columns = 512, 256, 512
    x, w = torch.randn(1, tokens, width), torch.randn(count, width, columns)
    first = (torch.arange(count, dtype=torch.int32) * (tokens // count)).reshape(count, 1, 1)
    graph = Graph(handle)
    y = graph.g.moe_grouped_matmul(
        token=graph.read(x), weight=graph.read(w), first_token_offset=graph.read(first, cudnn.data_type.INT32), mode=cudnn.moe_grouped_matmul_mode.NONE, compute_data_type=FLOAT)  # fmt: skip
    results = [graph.write(y, 1, tokens, columns)]
    own = lambda: torch.bmm(x.reshape(count, tokens // count, width), w)
    return graph.run(), own, results, [own().reshape(1, tokens, columns)]


def product(handle, activation):
    a, b, bias = torch.randn(1, 512, 512), torch.randn(1, 512, 512), torch.randn(1, 1, 512)
    graph = Graph(handle)
    y = graph.g.matmul(graph.read(a), graph.read(b))
    if activation is not None:
        y = getattr(graph.g, activation)(graph.g.bias(y, graph.read(bias)))
    results = [graph.write(y, 1, 512, 512)]
    own = (lambda: getattr(F, activation)(a @ b + bias)) if activation is not None else (lambda: a @ b)
    return graph.run(), own, results, [own()]


def convolution(handle, activation):
    x, w, bias = torch.randn(4, 64, 56, 56), torch.randn(64, 64, 3, 3), torch.randn(1, 64, 1, 1)
    graph = Graph(handle)
    y = graph.g.conv_fprop(graph.read(x), graph.read(w), padding=[1, 1], stride=[1, 1], dilation=[1, 1])
    if activation is not None:
        y = graph.g.relu(graph.g.bias(y, graph.read(bias)))
    results = [graph.write(y, 4, 64, 56, 56)]
    plain = lambda: F.conv2d(x, w, padding=1)
    own = (lambda: F.relu(plain() + bias)) if activation is not None else plain
    return graph.run(), own, results, [own()]


def rows():
    for gradients in (False, True):
        for causal in (False, True):
            for length in (512, 2048, 8192):
                name = f"attention {'gradients' if gradients else 'forward'} {'causal' if causal else 'full'} {length}x64"
                yield name, lambda handle, at=(length, 64, causal, gradients): attention(handle, *at)
    for count in (4, 16, 64):
        yield f"experts {count}", lambda handle, count=count: experts(handle, count)
    for activation in (None, "relu", "gelu"):
        yield f"product {activation or 'alone'}", lambda handle, name=activation: product(handle, name)
    for activation in (None, "relu"):
        yield f"convolution {activation or 'alone'}", lambda handle, name=activation: convolution(handle, name)


def best(calls, seconds):
    """Milliseconds of each call, in turns."""
    times, end = [math.inf] * len(calls), time.time() + seconds
    while time.time() < end or math.inf in times:
        for place, call in enumerate(calls):
            start = time.perf_counter()
            call()
            times[place] = min(times[place], (time.perf_counter() - start) * 1e3)
    return times


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    handle = cudnn.create_handle()
    for name, make in rows():
        if given.names and not any(wanted in name for wanted in given.names):
            continue
        torch.manual_seed(5)
        ours, theirs, results, wants = make(handle)
        ours()
        for result, want in zip(results, wants):
            error = (result - want).abs().max() / want.abs().max()
            assert error < 1e-4, f"{name}: {error}"
        own, other = best((ours, theirs), given.seconds)
        print(f"{name:36} {own:9.3f} {other:9.3f} {other / own:6.2f}", flush=True)


main()
