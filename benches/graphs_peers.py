"""Runs PyTorch beside graphs of cudnn-frontend on the CPU core, in one process and in turns: attention and its gradients, products by experts,
products and convolutions with bias and activation, pointwise operations, and normalisations with their gradients.

usage: graphs_peers.py [--threads N] [--seconds S] [--processor] [NAME...]

The library and the CUDA runtime on host memory have to be found: `cudnn-shim run python3 graphs_peers.py`. Every row prints milliseconds a call, the
best of its rounds - with --processor the time that the process had a processor, for one thread beside other
work -, and the speed as a multiple of PyTorch's; then, where there is one, the milliseconds of a yardstick - the product alone, or
PyTorch's copy of the largest tensor - and the time as a multiple of that. Results are compared before anything is measured.
"""

import argparse
import itertools
import math
import sys
import time

# The folder of this program has a module of that name, too.
sys.path.pop(0)
import cudnn  # noqa: E402
import torch
import torch.nn.functional as F

FLOAT = cudnn.data_type.FLOAT
BFLOAT16 = cudnn.data_type.BFLOAT16
TYPES = {torch.float32: FLOAT, torch.bfloat16: BFLOAT16, torch.int32: cudnn.data_type.INT32, torch.int64: cudnn.data_type.INT64}
TRAINING = cudnn.norm_forward_phase.TRAINING
EPSILON = 1e-5


class Graph:
    """A graph over tensors of PyTorch."""

    def __init__(self, handle, kind=torch.float32):
        self.handle, self.kind = handle, kind
        self.g = cudnn.pygraph(handle=handle, io_data_type=TYPES[kind], intermediate_data_type=FLOAT, compute_data_type=FLOAT)
        self.pack = {}

    def read(self, tensor):
        found = self.g.tensor(dim=list(tensor.shape), stride=list(tensor.stride()), data_type=TYPES[tensor.dtype])
        self.pack[found] = tensor
        return found

    def number(self, value, rank):
        found = self.g.tensor(dim=[1] * rank, stride=[1] * rank, is_pass_by_value=True, data_type=FLOAT)
        self.pack[found] = torch.full([1] * rank, value)
        return found

    def write(self, tensor, *dims, kind=None):
        result = torch.empty(*dims, dtype=kind or self.kind)
        tensor.set_output(True).set_dim(list(dims)).set_stride(list(result.stride())).set_data_type(TYPES[result.dtype])
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


def copy_of(x):
    to = torch.empty_like(x)
    return lambda: to.copy_(x)


def capped(graph, back=False):
    """What limits scores: 20 tanh(score / 20), and its derivative on the way back."""
    most, limited = graph.number(20.0, 4), {}

    def change(g, scores):
        limited["x"] = g.div(scores, most)
        return g.mul(g.tanh(limited["x"]), most)

    derivative = lambda g, loss: g.div(g.tanh_backward(g.mul(loss, most), limited["x"]), most)
    return {"score_mod": change, **({"score_mod_bprop": derivative} if back else {})}


def dropped(handle, heads, rows):
    """Dropout of a quarter of the weights, and the numbers that it draws, which a graph of its own keeps."""
    words, kept = [torch.full((1, 1, 1, 1), word) for word in (7, 3)], torch.empty(1, heads, rows, rows)
    how = lambda graph: {"dropout": (0.25, *map(graph.read, words))}
    graph, matrix = Graph(handle), torch.randn(1, heads, rows, 8)
    o, _ = graph.g.sdpa(*[graph.read(matrix) for _ in range(3)], generate_stats=False, rng_dump=graph.read(kept), **how(graph))
    graph.write(o, *matrix.shape)
    graph.run()()
    return how, kept


def leaning(heads, rows):
    """Slopes of each head times the distance of key and query, up to the query."""
    slopes = 2.0 ** (-8 / heads * torch.arange(1, heads + 1)).reshape(1, heads, 1, 1)
    distance = torch.arange(rows) - torch.arange(rows).reshape(-1, 1)
    return torch.where(distance > 0, -math.inf, slopes * distance)


def attention(handle, rows, width, causal, gradients, kind=torch.float32, change=None):
    heads = max(1, 4096 // rows)
    shape = (1, heads, rows, width)
    q, k, v, loss = (torch.randn(shape).to(kind).requires_grad_() for _ in range(4))
    bias, leaves, given = None, [q, k, v], lambda graph: {}
    if change == "dropout":
        given, kept = dropped(handle, heads, rows)
    elif change == "slopes":
        bias, given = leaning(heads, rows).to(kind), lambda graph: {"use_alibi_mask": True, "use_causal_mask": True}
    elif change in ("bias", "own bias"):
        bias, given = torch.randn(1, 1 if change == "bias" else heads, rows, rows).to(kind), lambda graph: {"bias": graph.read(bias.detach())}
    if change == "own bias":
        leaves.append(bias.requires_grad_())

    def theirs(q, k, v):
        if change not in ("cap", "dropout"):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal)
        scores = q @ k.transpose(-1, -2) / math.sqrt(width)
        if change == "cap":
            return torch.softmax(20 * torch.tanh(scores / 20), -1) @ v
        return (torch.softmax(scores, -1) * (kept / 0.75)).to(kind) @ v

    def changes(graph, back):
        return capped(graph, back) if change == "cap" else given(graph)

    out = theirs(q, k, v)
    graph, how = Graph(handle, kind), {"attn_scale": 1 / math.sqrt(width), **({"use_causal_mask": True} if causal else {})}
    tensors = [graph.read(x.detach()) for x in (q, k, v)]
    o, stats = graph.g.sdpa(*tensors, generate_stats=True, **how, **changes(graph, False))
    results = [graph.write(o, *shape)]
    statistics = graph.write(stats, *shape[:3], 1, kind=torch.float32)
    run = graph.run()
    if not gradients:
        with torch.no_grad():
            return run, lambda: theirs(q.detach(), k.detach(), v.detach()), results, [out]
    run()
    graph = Graph(handle, kind)
    tensors = [graph.read(x.detach()) for x in (q, k, v, out, loss)]
    of_bias = graph.read(torch.empty_like(bias)) if change == "own bias" else None
    found = graph.g.sdpa_backward(*tensors, graph.read(statistics), **how, **changes(graph, True), **({} if of_bias is None else {"dBias": of_bias}))
    results = [graph.write(x, *shape) for x in found] + ([] if of_bias is None else [graph.pack[of_bias]])
    autograd = lambda: torch.autograd.grad(out, leaves, loss, retain_graph=True)
    return graph.run(), autograd, results, autograd()


def experts(handle, count):
    tokens, width, columns = 512, 256, 512
    x, w = torch.randn(1, tokens, width), torch.randn(count, width, columns)
    first = (torch.arange(count, dtype=torch.int32) * (tokens // count)).reshape(count, 1, 1)
    graph = Graph(handle)
    y = graph.g.moe_grouped_matmul(
        token=graph.read(x), weight=graph.read(w), first_token_offset=graph.read(first), mode=cudnn.moe_grouped_matmul_mode.NONE, compute_data_type=FLOAT)  # fmt: skip
    results = [graph.write(y, 1, tokens, columns)]
    own = lambda: torch.bmm(x.reshape(count, tokens // count, width), w)
    return graph.run(), own, results, [own().reshape(1, tokens, columns)]


def product(handle, activation):
    a, b, bias = torch.randn(1, 512, 512), torch.randn(1, 512, 512), torch.randn(1, 1, 512)

    def made(activation):
        graph = Graph(handle)
        y = graph.g.matmul(graph.read(a), graph.read(b))
        if activation is not None:
            y = getattr(graph.g, activation)(graph.g.bias(y, graph.read(bias)))
        return [graph.write(y, 1, 512, 512)], graph.run()

    own = (lambda: getattr(F, activation)(a @ b + bias)) if activation is not None else (lambda: a @ b)
    results, run = made(activation)
    return run, own, results, [own()], made(None)[1]


def convolution(handle, activation, scaled=False):
    x, w = torch.randn(4, 64, 56, 56), torch.randn(64, 64, 3, 3)
    bias, scale = torch.randn(1, 64, 1, 1), torch.randn(1, 64, 1, 1)

    def made(activation):
        graph = Graph(handle)
        y = graph.g.conv_fprop(graph.read(x), graph.read(w), padding=[1, 1], stride=[1, 1], dilation=[1, 1])
        if activation is not None:
            y = graph.g.scale(y, graph.read(scale)) if scaled else y
            y = graph.g.relu(graph.g.bias(y, graph.read(bias)))
        return [graph.write(y, 4, 64, 56, 56)], graph.run()

    plain = lambda: F.conv2d(x, w, padding=1) * scale if scaled else F.conv2d(x, w, padding=1)
    own = (lambda: F.relu(plain() + bias)) if activation is not None else plain
    results, run = made(activation)
    return run, own, results, [own()], made(None)[1]


def pointwise(handle):
    """Six operations, each of which PyTorch runs by itself."""
    x, z, scale, bias = torch.randn(1, 4096, 1024), torch.randn(1, 4096, 1024), torch.randn(1, 1, 1024), torch.randn(1, 1, 1024)
    graph = Graph(handle)
    g, (tx, tz, ts, tb) = graph.g, (graph.read(tensor) for tensor in (x, z, scale, bias))
    y = g.mul(g.sub(g.relu(g.bias(g.mul(tx, ts), tb)), tz), tx)
    results = [graph.write(g.relu(y), *x.shape)]
    own = lambda: F.relu((F.relu(x * scale + bias) - z) * x)
    return graph.run(), own, results, [own()], copy_of(x)


def norm(handle, name, gradients):
    rows, width = 4096, 1024
    x, dy = torch.randn(rows, width, requires_grad=True), torch.randn(rows, width)
    scale, bias = torch.randn(width, requires_grad=True), torch.randn(width, requires_grad=True)
    is_layer = name == "layernorm"
    parameters = (scale, bias) if is_layer else (scale,)
    if is_layer:
        forward = lambda: F.layer_norm(x, (width,), scale, bias, EPSILON)
    else:
        forward = lambda: F.rms_norm(x, (width,), scale, EPSILON)
    graph = Graph(handle)
    flat = lambda tensor: tensor.detach().reshape(-1, width, 1, 1)
    tensors = [graph.read(flat(tensor)) for tensor in (x, *parameters)]
    named = dict(zip(("input", "scale", "bias"), tensors))
    y, *told = getattr(graph.g, name)(norm_forward_phase=TRAINING, epsilon=graph.number(EPSILON, 4), **named)
    results = [graph.write(y, rows, width, 1, 1)]
    statistics = [graph.write(tensor, rows, 1, 1, 1) for tensor in told]
    run = graph.run()
    with torch.no_grad():
        want = forward().reshape(rows, width, 1, 1)
    if not gradients:
        plain = lambda: torch.no_grad()(forward)()
        return run, plain, results, [want], copy_of(x.detach())
    run()
    out = forward()
    graph = Graph(handle)
    reads = [graph.read(flat(tensor)) for tensor in (dy, x, scale)] + [graph.read(tensor) for tensor in statistics]
    more = {} if is_layer else {"has_dbias": False}
    found = getattr(graph.g, f"{name}_backward")(*reads, **more)
    results = [graph.write(found[0], rows, width, 1, 1)]
    results += [graph.write(tensor, 1, width, 1, 1) for tensor in found[1 : 1 + len(parameters)]]
    own = lambda: torch.autograd.grad(out, (x, *parameters), dy, retain_graph=True)
    return graph.run(), own, results, [flat(tensor) for tensor in own()], copy_of(x.detach())


def batch_norm(handle, gradients):
    x, dy = torch.randn(16, 64, 56, 56, requires_grad=True), torch.randn(16, 64, 56, 56)
    scale, bias = torch.randn(64, requires_grad=True), torch.randn(64, requires_grad=True)
    flat = lambda tensor: tensor.detach().reshape(1, 64, 1, 1)
    running = [torch.zeros(1, 64, 1, 1), torch.ones(1, 64, 1, 1)]
    forward = lambda: F.batch_norm(x, *(tensor.flatten() for tensor in running), scale, bias, True, 0.0, EPSILON)
    graph = Graph(handle)
    reads = [graph.read(tensor) for tensor in (x.detach(), flat(scale), flat(bias), *running)]
    names = ("input", "scale", "bias", "in_running_mean", "in_running_var")
    y, mean, inverse, *new = graph.g.batchnorm(epsilon=graph.number(EPSILON, 4), momentum=graph.number(0.1, 4), **dict(zip(names, reads)))
    results = [graph.write(y, *x.shape)]
    statistics = [graph.write(tensor, 1, 64, 1, 1) for tensor in (mean, inverse, *new)][:2]
    run, out = graph.run(), forward()
    if not gradients:
        plain = lambda: torch.no_grad()(forward)()
        return run, plain, results, [out.detach()], copy_of(x.detach())
    run()
    graph = Graph(handle)
    reads = [graph.read(tensor) for tensor in (dy, x.detach(), flat(scale), *statistics)]
    found = graph.g.batchnorm_backward(*reads)
    results = [graph.write(tensor, *dims) for tensor, dims in zip(found, (x.shape, (1, 64, 1, 1), (1, 64, 1, 1)))]
    own = lambda: torch.autograd.grad(out, (x, scale, bias), dy, retain_graph=True)
    dx, *others = own()
    return graph.run(), own, results, [dx, *(flat(tensor) for tensor in others)], copy_of(x.detach())


def other_extents(handle):
    """A small product, bias and ReLU with another number of rows in each call, which is planned again; the yardstick keeps to one."""
    most, k, n = 64, 32, 48
    a, b, bias, y = (torch.randn(1, rows, columns) for rows, columns in ((most, k), (k, n), (1, n), (most, n)))
    g = cudnn.pygraph(handle=handle, io_data_type=FLOAT, intermediate_data_type=FLOAT, compute_data_type=FLOAT, is_override_shape_enabled=True)
    ports = [g.tensor(dim=list(tensor.shape), stride=list(tensor.stride()), data_type=FLOAT) for tensor in (a, b, bias)]
    ports.append(g.relu(g.add(g.matmul(*ports[:2]), ports[2])).set_output(True).set_data_type(FLOAT))
    g.build([cudnn.heur_mode.A])
    uids = [port.get_uid() for port in ports]
    pack = dict(zip(uids, (a.data_ptr(), b.data_ptr(), bias.data_ptr(), y.data_ptr())))
    workspace = torch.empty(1 << 20, dtype=torch.uint8)
    strides = [list(tensor.stride()) for tensor in (a, b, bias, y)]

    def run(rows):
        shapes = [[1, rows, k], [1, k, n], [1, 1, n], [1, rows, n]]
        g.execute(pack, workspace.data_ptr(), handle=handle, override_uids=uids, override_shapes=shapes, override_strides=strides)

    # The library keeps the plans of 8 extents, fewer than there are.
    counts = itertools.cycle([most, *range(34, 49)])
    theirs = lambda: torch.relu(a @ b + bias)
    return lambda: run(next(counts)), theirs, [y], [theirs()], lambda: run(33)


def rows():
    for gradients, kind, width, causal, length in itertools.product(
        (False, True), (torch.float32, torch.bfloat16), (64, 128, 256), (False, True), (512, 2048, 8192)):  # fmt: skip
        narrow = " bf16" if kind == torch.bfloat16 else ""
        name = f"attention {'gradients' if gradients else 'forward'}{narrow} {'causal' if causal else 'full'} {length}x{width}"
        yield name, lambda handle, at=(length, width, causal, gradients, kind): attention(handle, *at)
    for gradients, kind, change, width, length in itertools.product(
        (False, True), (torch.float32, torch.bfloat16), ("bias", "own bias", "slopes", "cap", "dropout"), (64, 128, 256), (512, 2048)):  # fmt: skip
        narrow = " bf16" if kind == torch.bfloat16 else ""
        name = f"attention {'gradients' if gradients else 'forward'}{narrow} {change} {length}x{width}"
        yield name, lambda handle, at=(length, width, False, gradients, kind, change): attention(handle, *at)
    for count in (4, 16, 64):
        yield f"experts {count}", lambda handle, count=count: experts(handle, count)
    for activation in (None, "relu", "gelu"):
        yield f"product {activation or 'alone'}", lambda handle, name=activation: product(handle, name)
    for activation in (None, "relu"):
        yield f"convolution {activation or 'alone'}", lambda handle, name=activation: convolution(handle, name)
    yield "product, other extents", other_extents
    yield "convolution scale relu", lambda handle: convolution(handle, "relu", True)
    yield "six pointwise operations", pointwise
    for name in ("layernorm", "rmsnorm"):
        for gradients in (False, True):
            yield f"{name} {'gradients' if gradients else 'forward'}", lambda handle, at=(name, gradients): norm(handle, *at)
    for gradients in (False, True):
        yield f"batchnorm {'gradients' if gradients else 'forward'}", lambda handle, at=gradients: batch_norm(handle, at)


def best(calls, seconds, clock):
    """Milliseconds of each call, in turns: some of each, as PyTorch's threads spin for a while after a call and take a processor from the next one."""
    times, end = [math.inf] * len(calls), time.time() + seconds
    while time.time() < end or math.inf in times:
        for place, call in enumerate(calls):
            for _ in range(4):
                start = clock()
                call()
                times[place] = min(times[place], (clock() - start) * 1e3)
    return times


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    clock = time.process_time if given.processor else time.perf_counter
    torch.set_num_threads(given.threads)
    handle = cudnn.create_handle()
    for name, make in rows():
        if given.names and not any(wanted in name for wanted in given.names):
            continue
        torch.manual_seed(5)
        ours, theirs, results, wants, *yardsticks = make(handle)
        ours()
        for result, want in zip(results, wants):
            error = (result.double() - want.double()).abs().max() / want.double().abs().max()
            # Functions that PyTorch calls one after the other round each result.
            narrow = 6e-2 if "cap" in name or "dropout" in name else 2e-2
            assert error < (narrow if result.dtype == torch.bfloat16 else 1e-4), f"{name}: {error}"
        own, other, *more = best((ours, theirs, *yardsticks), given.seconds, clock)
        line = "".join(f" {yardstick:9.3f} {own / yardstick:6.2f}" for yardstick in more)
        print(f"{name:36} {own:9.3f} {other:9.3f} {other / own:6.2f}{line}", flush=True)


main()
