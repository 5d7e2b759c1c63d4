"""Graphs of cudnn-frontend's Python package on tensors of PyTorch that lie on the CPU, held to PyTorch in binary64: its functions say what is right,
and its automatic gradients what gradients are.

    cudnn-shim run python tensors.py [--rounds N] [--seed S] [--only NAME] [--negative-control]
"""

import sys

import cudnn
import numpy as np
import rounds
import torch
import torch.nn.functional as F
from cudnn import data_type

EPSILON = 1e-3
# The type of elements, and which part of the largest element a result may be away.
TYPES = {torch.float32: (data_type.FLOAT, 1e-5), torch.float16: (data_type.HALF, 2e-3), torch.bfloat16: (data_type.BFLOAT16, 2e-2)}


class Graph:
    """A graph, the tensors that it reads and those that it has to write."""

    def __init__(self, handle, kind):
        self.handle, self.kind = handle, kind
        self.g = cudnn.pygraph(handle=handle, io_data_type=TYPES[kind][0], intermediate_data_type=data_type.FLOAT, compute_data_type=data_type.FLOAT)
        self.pack, self.wanted = {}, []

    def read(self, values, kind=None):
        """A tensor of the graph that holds these values, strides and all; and what it holds, in binary64."""
        values = values.to(kind or self.kind)
        tensor = self.g.tensor(dim=list(values.shape), stride=list(values.stride()), data_type=TYPES[values.dtype][0])
        self.pack[tensor] = values
        return tensor, values.double().requires_grad_()

    def operand(self, *dims, kind=None):
        return self.read(torch.randn(dims), kind)

    def image(self, *dims, kind=None):
        """With its channels last."""
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        return self.read(torch.randn(dims).contiguous(memory_format=formats[len(dims)]), kind)

    def number(self, value, rank):
        tensor = self.g.tensor(dim=[1] * rank, stride=[1] * rank, is_pass_by_value=True, data_type=data_type.FLOAT)
        self.pack[tensor] = torch.full([1] * rank, value)
        return tensor

    def write(self, tensor, want, kind=None, bound=None, told=False):
        """What a tensor has to be; `told`: its dims and strides are not for the graph to find."""
        kind = kind or self.kind
        want = want.detach()
        tensor.set_output(True).set_data_type(TYPES[kind][0])
        if told:
            tensor.set_dim(list(want.shape)).set_stride(list(want.stride()))
        self.wanted.append((tensor, want, kind, bound or TYPES[kind][1]))

    def run(self, spoils):
        """What is wrong with the results, if anything is."""
        g = self.g
        g.validate()
        g.build_operation_graph()
        g.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        g.check_support()
        g.build_plans()
        results = []
        for tensor, want, kind, bound in self.wanted:
            dims, strides = tensor.get_dim(), tensor.get_stride()
            got = torch.full([1 + sum((d - 1) * s for d, s in zip(dims, strides))], 77, dtype=kind).as_strided(dims, strides)
            self.pack[tensor] = got
            results.append((got, want, bound))
        g.execute(self.pack, torch.full([max(g.get_workspace_size(), 1)], 255, dtype=torch.uint8), handle=self.handle)
        for k, (got, want, bound) in enumerate(results):
            if got.shape != want.shape:
                return f"result {k}: the dims {tuple(got.shape)} instead of {tuple(want.shape)}"
            allowed = bound * max(float(want.abs().max()), 1e-3)
            away = (got.double() - want).abs().reshape(-1)
            if spoils:
                away[int(torch.randint(away.numel(), ()))] += 1 + 3 * allowed
            if not bool((away <= allowed).all()):
                return f"result {k}: {float(away.max()):.3g} away, {allowed:.3g} allowed"
        return None


def pick(*choices):
    return choices[int(torch.randint(len(choices), ()))]


def between(low, high):
    return int(torch.randint(low, high, ()))


def gradients(y, dy, *inputs):
    return torch.autograd.grad(y, inputs, dy)


# --- The cases ---


def matmul(t):
    batch, m, n, k = (between(1, 9) for _ in range(4))
    (a, x), (b, y), (z, bias) = t.operand(batch, m, k), t.operand(pick(1, batch), k, n), t.operand(1, 1, n)
    name, function = pick(("relu", F.relu), ("gelu", F.gelu), ("tanh", torch.tanh), ("sigmoid", torch.sigmoid), ("swish", F.silu), ("softplus", F.softplus))
    t.write(getattr(t.g, name)(t.g.bias(t.g.matmul(a, b), z)), function(x @ y + bias))


def transposed_matmul(t):
    a, x = t.read(torch.randn(2, 5, 7).transpose(1, 2))
    b, y = t.read(torch.randn(2, 6, 5).transpose(1, 2))
    t.write(t.g.matmul(a, b), x @ y)


def windows():
    return [between(0, 3), between(0, 3)], [between(1, 3), between(1, 3)], [between(1, 3), between(1, 3)]


def convolution(t):
    (n, c, k), groups = (between(1, 4) for _ in range(3)), between(1, 3)
    padding, stride, dilation = windows()
    (x, image), (w, filter), (z, bias) = t.image(n, c * groups, 7, 6), t.image(k * groups, c, 3, 2), t.operand(1, k * groups, 1, 1)
    y = t.g.conv_fprop(x, w, padding=padding, stride=stride, dilation=dilation)
    t.write(t.g.relu(t.g.bias(y, z)), F.relu(F.conv2d(image, filter, None, stride, padding, dilation, groups) + bias))


def convolution_3d(t):
    (x, image), (w, filter) = t.image(1, 3, 4, 5, 4), t.image(2, 3, 2, 3, 2)
    t.write(t.g.conv_fprop(x, w, padding=[1, 0, 1], stride=[1, 2, 1], dilation=[1, 1, 1]), F.conv3d(image, filter, None, [1, 2, 1], [1, 0, 1]))


def convolution_gradients(t):
    n, c, k = (between(1, 4) for _ in range(3))
    padding, stride, dilation = windows()
    # Each in a graph of its own, as the frontend has one convolution in a graph.
    if pick(True, False):
        w, filter = t.image(k, c, 3, 2)
        image = torch.zeros(n, c, 7, 6, dtype=torch.float64).contiguous(memory_format=torch.channels_last).requires_grad_()
        y = F.conv2d(image, filter, None, stride, padding, dilation)
        dy, loss = t.image(*y.shape)
        dx = t.g.conv_dgrad(dy, w, padding=padding, stride=stride, dilation=dilation)
        t.write(dx, gradients(y, loss, image)[0].contiguous(memory_format=torch.channels_last), told=True)
    else:
        x, image = t.image(n, c, 7, 6)
        filter = torch.zeros(k, c, 3, 2, dtype=torch.float64).requires_grad_()
        y = F.conv2d(image, filter, None, stride, padding, dilation)
        dy, loss = t.image(*y.shape)
        dw = t.g.conv_wgrad(x, dy, padding=padding, stride=stride, dilation=dilation)
        t.write(dw, gradients(y, loss, filter)[0].contiguous(memory_format=torch.channels_last), told=True)


def layernorm(t):
    rows, width = between(1, 9), between(2, 40)
    (x, image), (s, scale), (b, bias) = t.operand(rows, width, 1, 1), t.operand(1, width, 1, 1), t.operand(1, width, 1, 1)
    training = cudnn.norm_forward_phase.TRAINING
    y, _, _ = t.g.layernorm(norm_forward_phase=training, input=x, scale=s, bias=b, epsilon=t.number(EPSILON, 4))
    t.write(y, F.layer_norm(image, [width, 1, 1], scale[0], bias[0], EPSILON))


def statistics(image, axes):
    variance, mean = torch.var_mean(image.detach(), axes, unbiased=False, keepdim=True)
    return mean, (variance + EPSILON).rsqrt()


def layernorm_backward(t):
    rows, width = between(1, 9), between(2, 40)
    (x, image), (dy, loss), (s, scale) = t.operand(rows, width, 1, 1), t.operand(rows, width, 1, 1), t.operand(1, width, 1, 1)
    mean, inverse = (t.read(number, torch.float32)[0] for number in statistics(image, (1,)))
    dx, dscale, dbias = t.g.layernorm_backward(dy, x, s, mean, inverse)
    y = F.layer_norm(image, [width, 1, 1], None, None, EPSILON) * scale
    want = gradients(y, loss, image, scale)
    t.write(dx, want[0], bound=max(TYPES[t.kind][1], 1e-4))
    t.write(dscale, want[1], torch.float32, bound=1e-4)
    t.write(dbias, loss.sum(0, keepdim=True), torch.float32, bound=1e-4)


def rmsnorm(t):
    rows, width = between(1, 9), between(2, 40)
    (x, image), (s, scale) = t.operand(rows, width, 1, 1), t.operand(1, width, 1, 1)
    y, _ = t.g.rmsnorm(norm_forward_phase=cudnn.norm_forward_phase.TRAINING, input=x, scale=s, epsilon=t.number(EPSILON, 4))
    t.write(y, F.rms_norm(image, [width, 1, 1], scale[0], EPSILON))


def batchnorm(t):
    n, c = between(2, 5), between(1, 6)
    x, image = t.image(n, c, 4, 3)
    (s, scale), (b, bias), (m, mean) = (t.operand(1, c, 1, 1, kind=torch.float32) for _ in range(3))
    v, variance = t.read(torch.rand(1, c, 1, 1) + 0.5, torch.float32)
    y, saved, inverse, new_mean, new_variance = t.g.batchnorm(
        input=x, scale=s, bias=b, in_running_mean=m, in_running_var=v, epsilon=t.number(EPSILON, 4), momentum=t.number(0.25, 4))
    mean, variance = mean.detach().flatten(), variance.detach().flatten()
    want = F.batch_norm(image, mean, variance, scale.flatten(), bias.flatten(), True, 0.25, EPSILON)
    t.write(t.g.relu(y), F.relu(want))
    for tensor, number in zip((saved, inverse), statistics(image, (0, 2, 3))):
        t.write(tensor, number, torch.float32, bound=1e-4)
    t.write(new_mean, mean.reshape(1, c, 1, 1), torch.float32, bound=1e-4)
    t.write(new_variance, variance.reshape(1, c, 1, 1), torch.float32)


def batchnorm_backward(t):
    n, c = between(2, 5), between(1, 6)
    (x, image), (dy, loss), (s, scale) = t.image(n, c, 4, 3), t.image(n, c, 4, 3), t.operand(1, c, 1, 1, kind=torch.float32)
    mean, inverse = (t.read(number, torch.float32)[0] for number in statistics(image, (0, 2, 3)))
    dx, dscale, dbias = t.g.batchnorm_backward(dy, x, s, mean, inverse)
    y = F.batch_norm(image, None, None, None, None, True, 0, EPSILON) * scale
    want = gradients(y, loss, image, scale)
    t.write(dx, want[0], bound=max(TYPES[t.kind][1], 1e-4))
    t.write(dscale, want[1], torch.float32, bound=1e-4)
    t.write(dbias, loss.sum((0, 2, 3), keepdim=True), torch.float32, bound=1e-4)


def instancenorm(t):
    n, c = between(1, 5), between(1, 6)
    x, image = t.image(n, c, 4, 3)
    (s, scale), (b, bias) = (t.operand(1, c, 1, 1, kind=torch.float32) for _ in range(2))
    training = cudnn.norm_forward_phase.TRAINING
    y, _, _ = t.g.instancenorm(norm_forward_phase=training, input=x, scale=s, bias=b, epsilon=t.number(EPSILON, 4))
    t.write(y, F.instance_norm(image, weight=scale.flatten(), bias=bias.flatten(), eps=EPSILON))


def reductions(t):
    modes = {"ADD": torch.sum, "MAX": torch.amax, "MIN": torch.amin, "AMAX": lambda x, **how: x.abs().amax(**how)}
    name = pick(*modes)
    x, values = t.operand(3, 4, 5)
    axes = pick((0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2))
    t.write(t.g.reduction(x, mode=getattr(cudnn.reduction_mode, name)), modes[name](values, dim=axes, keepdim=True), torch.float32, told=True)


def softmax(t):
    x, values = t.operand(3, 4, 9)
    g = t.g
    top = g.reduction(x, mode=cudnn.reduction_mode.MAX).set_dim([3, 4, 1]).set_stride([4, 1, 1])
    powers = g.exp(g.sub(x, top))
    total = g.reduction(powers, mode=cudnn.reduction_mode.ADD).set_dim([3, 4, 1]).set_stride([4, 1, 1])
    t.write(g.div(powers, total), torch.softmax(values, 2))


def shapes(t):
    (x, a), (y, b) = t.operand(2, 3, 4), t.operand(2, 5, 4)
    joined = t.g.concatenate(inputs=[x, y], axis=1)
    want = torch.cat([a, b], 1)
    t.write(joined, want, told=True, bound=1e-9)


def permutation(t):
    x, values = t.operand(3, 4, 6, 2)
    axes = [int(axis) for axis in torch.randperm(4)]
    t.write(t.g.transpose(x, permutation=axes), values.permute(axes).contiguous(), told=True, bound=1e-9)


def choice(t):
    (x, a), (y, b) = t.operand(3, 4, 5), t.operand(1, 4, 1)
    g = t.g
    larger = g.cmp_gt(x, y)
    larger.set_data_type(data_type.BOOLEAN)
    t.write(g.binary_select(g.erf(x), g.add(g.mul(x, y), g.sqrt(g.abs(x))), larger), torch.where(a > b, torch.erf(a), a * b + a.abs().sqrt()))


def activation_gradients(t):
    name, function = pick(("relu", F.relu), ("tanh", torch.tanh), ("sigmoid", torch.sigmoid), ("swish", F.silu), ("gelu", F.gelu), ("softplus", F.softplus))
    (dy, loss), (x, image) = t.operand(3, 4, 5), t.operand(3, 4, 5)
    t.write(getattr(t.g, f"{name}_backward")(dy, x), gradients(function(image), loss, image)[0], bound=max(TYPES[t.kind][1], 1e-4))


def attention(t, rows=None, columns=None):
    """Heads share keys and values, and causal scores begin in the upper left corner."""
    batch, groups, width = between(1, 3), between(1, 3), 8
    rows, columns = rows or between(1, 9), columns or between(1, 9)
    (q, queries), (k, keys), (v, values) = t.operand(batch, 2 * groups, rows, width), *(t.operand(batch, groups, columns, width) for _ in range(2))
    causal = pick(True, False)
    scale = 0.3
    o, _ = t.g.sdpa(q=q, k=k, v=v, attn_scale=scale, use_causal_mask=causal, generate_stats=False)
    want = F.scaled_dot_product_attention(queries, keys, values, is_causal=causal, scale=scale, enable_gqa=True)
    t.write(o, want, told=True)


def attention_in_tiles(t):
    """More scores than a tile has."""
    attention(t, between(129, 300), between(129, 600))


def attention_backward_in_tiles(t):
    attention_backward(t, between(129, 300))


def attention_backward(t, rows=None):
    batch, heads, width = between(1, 3), between(1, 3), 8
    rows = rows or between(2, 9)
    (q, queries), (k, keys), (v, values), (d, loss) = (t.operand(batch, heads, rows, width) for _ in range(4))
    causal, scale = pick(True, False), 0.3
    scores = queries @ keys.transpose(2, 3) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(rows, rows).triu(1).bool(), -torch.inf)
    out = torch.softmax(scores, 3) @ values
    o, _ = t.read(out.detach())
    stats, _ = t.read(scores.detach().logsumexp(3, keepdim=True), torch.float32)
    found = t.g.sdpa_backward(q=q, k=k, v=v, o=o, dO=d, stats=stats, attn_scale=scale, use_causal_mask=causal)
    for tensor, want in zip(found, gradients(out, loss, queries, keys, values)):
        t.write(tensor, want.contiguous(), told=True, bound=max(3 * TYPES[t.kind][1], 1e-4))


CASES = [
    matmul, transposed_matmul, convolution, convolution_3d, convolution_gradients, layernorm, layernorm_backward, rmsnorm, batchnorm, batchnorm_backward,
    instancenorm, reductions, softmax, shapes, permutation, choice, activation_gradients, attention, attention_backward,
    attention_in_tiles, attention_backward_in_tiles,
]  # fmt: skip


def main():
    handle = cudnn.create_handle()

    def attempt(case, kind, seed, spoils):
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        graph = Graph(handle, kind)
        case(graph)
        return graph.run(spoils)

    return rounds.run(__doc__, CASES, TYPES, attempt)


if __name__ == "__main__":
    sys.exit(main())
