"""A transformer block of GPT-2's size, forward and backward, as graphs of cudnn-frontend, and the same in NumPy.

Layer normalisation, causal attention of 12 heads, a product with a residual; then layer normalisation and two products with GELU between them:
768 channels. Every result and every gradient is compared with binary64.

    cudnn-shim run python3 gpt2_block.py [--length N]
"""

import argparse
import sys
import time

import cudnn
import numpy as np

CHANNELS, HEADS, EPSILON = 768, 12, 1e-5
WIDTH = CHANNELS // HEADS
FLOAT = cudnn.data_type.FLOAT


# --- Graphs over arrays of NumPy ---


class Graph:
    """A graph, the arrays that it reads, and those that it writes, by name."""

    def __init__(self, handle):
        self.handle, self.pack, self.results = handle, {}, {}
        self.g = cudnn.pygraph(handle=handle, io_data_type=FLOAT, intermediate_data_type=FLOAT, compute_data_type=FLOAT)

    def read(self, array):
        """An array, whose strides may be any; products want matrices of three dimensions."""
        if array.ndim == 1:
            array = array.reshape(1, 1, -1)
        elif array.ndim == 2:
            array = array[None]
        tensor = self.g.tensor(dim=list(array.shape), stride=[step // 4 for step in array.strides], data_type=FLOAT)
        self.pack[tensor] = array
        return tensor

    def number(self, value):
        memory = np.full(1, value, np.float32)
        tensor = self.g.tensor(dim=[1] * 3, stride=[1] * 3, is_pass_by_value=True, data_type=FLOAT)
        self.pack[tensor] = memory
        return tensor

    def write(self, name, tensor, array):
        """Has the graph write a tensor, of three dimensions or four, to an array."""
        whole = array.reshape(1, 1, -1) if array.ndim == 1 else array[None] if array.ndim == 2 else array
        tensor.set_output(True).set_dim(list(whole.shape)).set_stride([step // 4 for step in whole.strides]).set_data_type(FLOAT)
        self.pack[tensor] = whole
        self.results[name] = array

    def run(self):
        g = self.g
        g.validate()
        g.build_operation_graph()
        g.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        g.check_support()
        g.build_plans()
        workspace = np.empty(max(g.get_workspace_size(), 1), np.uint8)
        pointers = {tensor: array.ctypes.data for tensor, array in self.pack.items()}
        started = time.perf_counter()
        g.execute(pointers, workspace.ctypes.data, handle=self.handle)
        return self.results, time.perf_counter() - started


def empty(*dims):
    return np.full(dims, np.nan, np.float32)


def heads(array):
    """Queries, keys and values of all heads, where they lie in rows of three times the channels."""
    parts = array.reshape(1, -1, 3, HEADS, WIDTH).transpose(2, 0, 3, 1, 4)
    return list(parts)


def forward(handle, w, x):
    """What the block makes of x, and what its gradients need."""
    rows, kept, spent = len(x), {}, 0.0

    def graph(build):
        nonlocal spent
        t = Graph(handle)
        build(t)
        results, seconds = t.run()
        kept.update(results)
        spent += seconds

    def normalised(t, x, number):
        y, mean, inverse = t.g.layernorm(
            norm_forward_phase=cudnn.norm_forward_phase.TRAINING, input=x, scale=t.read(w[f"scale{number}"]), bias=t.read(w[f"shift{number}"]),
            epsilon=t.number(EPSILON))  # fmt: skip
        for name, tensor in ((f"mean{number}", mean), (f"inverse{number}", inverse)):
            t.write(name, tensor, empty(rows, 1))
        t.write(f"h{number}", y, empty(rows, CHANNELS))
        return y

    def project(t):
        h = normalised(t, t.read(x), 1)
        t.write("qkv", t.g.bias(t.g.matmul(h, t.read(w["w_qkv"])), t.read(w["b_qkv"])), empty(rows, 3 * CHANNELS))

    def attend(t):
        q, k, v = (t.read(part) for part in heads(kept["qkv"]))
        o, statistics = t.g.sdpa(q=q, k=k, v=v, attn_scale=WIDTH**-0.5, use_causal_mask=True, generate_stats=True)
        result = empty(rows, CHANNELS)
        t.write("heads", o, result.reshape(1, rows, HEADS, WIDTH).transpose(0, 2, 1, 3))
        t.results["o"] = result
        t.write("statistics", statistics, empty(1, HEADS, rows, 1))

    def rest(t):
        a = t.g.add(t.g.bias(t.g.matmul(t.read(kept["o"]), t.read(w["w_o"])), t.read(w["b_o"])), t.read(x))
        t.write("a", a, empty(rows, CHANNELS))
        u = t.g.bias(t.g.matmul(normalised(t, a, 2), t.read(w["w_1"])), t.read(w["b_1"]))
        t.write("u", u, empty(rows, 4 * CHANNELS))
        f = t.g.gelu_approx_tanh(u)
        t.write("f", f, empty(rows, 4 * CHANNELS))
        t.write("y", t.g.add(t.g.bias(t.g.matmul(f, t.read(w["w_2"])), t.read(w["b_2"])), a), empty(rows, CHANNELS))

    for build in (project, attend, rest):
        graph(build)
    return kept, spent


def backward(handle, w, x, kept, dy):
    """The gradients of x and of all weights."""
    rows, found, spent = len(x), {}, 0.0

    def graph(build):
        nonlocal spent
        t = Graph(handle)
        build(t)
        results, seconds = t.run()
        found.update(results)
        spent += seconds

    def linear_back(t, name, input, gradient):
        """Writes the gradients of the weights of `input @ w + b`, and returns that of the input."""
        t.write(f"w_{name}", t.g.matmul(t.read(input.T), gradient), empty(*w[f"w_{name}"].shape))
        total = t.g.reduction(gradient, mode=cudnn.reduction_mode.ADD)
        t.write(f"b_{name}", total, empty(w[f"b_{name}"].size))
        return t.g.matmul(gradient, t.read(w[f"w_{name}"].T))

    def normalised_back(t, number, gradient, input, residual, name):
        dx, dscale, dshift = t.g.layernorm_backward(
            gradient, t.read(input), t.read(w[f"scale{number}"]), t.read(kept[f"mean{number}"]), t.read(kept[f"inverse{number}"]))
        t.write(f"scale{number}", dscale, empty(CHANNELS))
        t.write(f"shift{number}", dshift, empty(CHANNELS))
        t.write(name, t.g.add(dx, residual), empty(rows, CHANNELS))

    def rest(t):
        loss = t.read(dy)
        df = linear_back(t, "2", kept["f"], loss)
        du = t.g.gelu_approx_tanh_backward(df, t.read(kept["u"]))
        dh = linear_back(t, "1", kept["h2"], du)
        normalised_back(t, 2, dh, kept["a"], loss, "a")

    def attend(t):
        da = t.read(found["a"])
        do = linear_back(t, "o", kept["o"], da)
        t.write("do", do, empty(rows, CHANNELS))

    def heads_back(t):
        split = lambda array: array.reshape(1, rows, HEADS, WIDTH).transpose(0, 2, 1, 3)
        q, k, v = (t.read(part) for part in heads(kept["qkv"]))
        results = t.g.sdpa_backward(
            q=q, k=k, v=v, o=t.read(split(kept["o"])), dO=t.read(split(found["do"])), stats=t.read(kept["statistics"]), attn_scale=WIDTH**-0.5,
            use_causal_mask=True)  # fmt: skip
        dqkv = empty(rows, 3 * CHANNELS)
        for name, tensor, part in zip("qkv", results, heads(dqkv)):
            t.write(name, tensor, part)
        t.results["dqkv"] = dqkv

    def project(t):
        dh = linear_back(t, "qkv", kept["h1"], t.read(found["dqkv"]))
        normalised_back(t, 1, dh, x, t.read(found["a"]), "x")

    for build in (rest, attend, heads_back, project):
        graph(build)
    return found, spent


# --- The same in NumPy ---


def normalise(x):
    mean = x.mean(axis=-1, keepdims=True)
    inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + EPSILON)
    return (x - mean) * inverse, inverse


def normalise_back(g, xhat, inverse):
    return inverse * (g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True))


def gelu(u):
    """The function, and its slope."""
    inner, slope = np.sqrt(2 / np.pi) * (u + 0.044715 * u**3), np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * u**2)
    t = np.tanh(inner)
    return u / 2 * (1 + t), (1 + t) / 2 + u / 2 * (1 - t * t) * slope


def reference(w, x, dy):
    """Result and gradients in binary64."""
    w, x, dy = {name: value.astype(np.float64) for name, value in w.items()}, x.astype(np.float64), dy.astype(np.float64)
    rows = len(x)
    n1, v1 = normalise(x)
    h1 = n1 * w["scale1"] + w["shift1"]
    q, k, v = (part[0] for part in heads(h1 @ w["w_qkv"] + w["b_qkv"]))
    scores = np.where(np.tri(rows, dtype=bool), q @ k.swapaxes(1, 2) * WIDTH**-0.5, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    o = (p @ v).transpose(1, 0, 2).reshape(rows, CHANNELS)
    a = o @ w["w_o"] + w["b_o"] + x
    n2, v2 = normalise(a)
    h2 = n2 * w["scale2"] + w["shift2"]
    f, slope = gelu(h2 @ w["w_1"] + w["b_1"])
    y = f @ w["w_2"] + w["b_2"] + a

    found = {"y": y}

    def linear_back(name, input, gradient):
        found[f"w_{name}"], found[f"b_{name}"] = input.T @ gradient, gradient.sum(axis=0)
        return gradient @ w[f"w_{name}"].T

    def shift_back(number, gradient, xhat, inverse):
        found[f"scale{number}"], found[f"shift{number}"] = (gradient * xhat).sum(axis=0), gradient.sum(axis=0)
        return normalise_back(gradient * w[f"scale{number}"], xhat, inverse)

    dh2 = linear_back("1", h2, linear_back("2", f, dy) * slope)
    da = shift_back(2, dh2, n2, v2) + dy
    do = linear_back("o", o, da).reshape(rows, HEADS, WIDTH).transpose(1, 0, 2)
    dp = do @ v.swapaxes(1, 2)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) * WIDTH**-0.5
    parts = np.stack([ds @ k, ds.swapaxes(1, 2) @ q, p.swapaxes(1, 2) @ do])
    dqkv = parts.transpose(2, 0, 1, 3).reshape(rows, 3 * CHANNELS)
    found["x"] = shift_back(1, linear_back("qkv", h1, dqkv), n1, v1) + da
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=256)
    length = parser.parse_args().length
    rng = np.random.default_rng(2)
    numbers = lambda *dims, scale=1.0: (scale * rng.standard_normal(dims)).astype(np.float32)
    w = {}
    for name, inputs, outputs in (("qkv", 1, 3), ("o", 1, 1), ("1", 1, 4), ("2", 4, 1)):
        w[f"w_{name}"] = numbers(inputs * CHANNELS, outputs * CHANNELS, scale=(inputs * CHANNELS) ** -0.5)
        w[f"b_{name}"] = numbers(outputs * CHANNELS, scale=0.1)
    for number in (1, 2):
        w[f"scale{number}"], w[f"shift{number}"] = 1 + numbers(CHANNELS, scale=0.1), numbers(CHANNELS, scale=0.1)
    x, dy = numbers(length, CHANNELS), numbers(length, CHANNELS)

    handle = cudnn.create_handle()
    kept, ahead = forward(handle, w, x)
    found, back = backward(handle, w, x, kept, dy)
    found["y"] = kept["y"]
    print(f"{length} positions: {1e3 * ahead:.1f} ms forward, {1e3 * back:.1f} ms backward")
    failed = False
    for name, want in reference(w, x, dy).items():
        error = np.abs(found[name] - want).max() / np.abs(want).max()
        wrong = not error < 2e-5
        failed |= wrong
        print(f"{name:8} {'FAILED' if wrong else 'ok'}, largest error {error:.1e} of the largest element")
    return failed


if __name__ == "__main__":
    sys.exit(main())
