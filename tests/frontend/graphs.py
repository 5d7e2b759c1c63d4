"""The Python package of cudnn-frontend, as it is published, computes graphs on this library, and NumPy says in binary64 what is right.

Every case is a graph of random operands and shapes, in float, half and bfloat16. A result may be away from NumPy's by a part of its
largest element that belongs to its type.

    cudnn-shim run python graphs.py [--rounds N] [--seed S] [--only NAME] [--negative-control]
"""

import sys

import cudnn
import numpy as np
import options as attention_options
import packed
import rounds
from attention import sdpa, sdpa_backward
from cudnn import data_type
from kit import FLOAT, INT32, INT64, TYPES, Graph, judge, strides_of

EPSILON = 1e-3


# --- What is right ---

sigmoid = lambda x: 1 / (1 + np.exp(-x))


def windows(x, window, padding, stride, dilation):
    """x as [n, c, out..., window...]."""
    space = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding])
    reach = [d * (w - 1) + 1 for d, w in zip(dilation, window)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, 2 + space)))
    at = (slice(None), slice(None), *(slice(None, None, s) for s in stride), *(slice(None, None, d) for d in dilation))
    return view[at]


def convolve(x, w, padding, stride, dilation):
    """The cross-correlation, in groups that follow from the channels."""
    groups = x.shape[1] // w.shape[1]
    parts = []
    for x, w in zip(np.split(x, groups, 1), np.split(w, groups, 0)):
        seen = windows(x, w.shape[2:], padding, stride, dilation)
        parts.append(np.tensordot(seen, w, ([1, *range(x.ndim, seen.ndim)], list(range(1, w.ndim)))))
    return np.moveaxis(np.concatenate(parts, -1), -1, 1)


def adjoint(function, dims, dy):
    """What a linear function of an array of `dims` gives back to it for the gradient `dy` of its result."""
    columns = [function(unit.reshape(dims)).ravel() for unit in np.eye(int(np.prod(dims)))]
    return (np.array(columns) @ dy.ravel()).reshape(dims)


def normalised(x, axes, shift=True):
    mean = x.mean(axis=axes, keepdims=True) if shift else 0 * x.mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + EPSILON)
    return (x - mean) * inverse, mean, inverse


def normalised_back(dxhat, xhat, inverse, axes, shift=True):
    mean = dxhat.mean(axis=axes, keepdims=True) if shift else 0
    return inverse * (dxhat - mean - xhat * (dxhat * xhat).mean(axis=axes, keepdims=True))


# --- The cases ---


def matmul(t):
    batch, m, n, k = (int(x) for x in t.rng.integers(1, 9, 4))
    a, x = t.operand(batch, m, k, order=[0, 1, 2] if t.rng.random() < 0.5 else [0, 2, 1])
    b, y = t.operand(batch if t.rng.random() < 0.5 else 1, k, n)
    z, bias = t.operand(1, 1, n)
    product = t.g.matmul(a, b)
    names = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh, "sigmoid": sigmoid, "swish": lambda x: x * sigmoid(x)}
    name = str(t.rng.choice(list(names)))
    t.write(getattr(t.g, name)(t.g.bias(product, z)), names[name](x @ y + bias))


def convolution(t):
    (n, c, k), groups = (int(x) for x in t.rng.integers(1, 4, 3)), int(t.rng.integers(1, 3))
    padding, stride, dilation = ([int(x) for x in t.rng.integers(low, 3, 2)] for low in (0, 1, 1))
    x, image = t.last(n, c * groups, 7, 6)
    w, filter = t.last(k * groups, c, 3, 2)
    z, bias = t.operand(1, k * groups, 1, 1)
    y = t.g.conv_fprop(x, w, padding=padding, stride=stride, dilation=dilation)
    t.write(t.g.relu(t.g.bias(y, z)), np.maximum(convolve(image, filter, padding, stride, dilation) + bias, 0))


def convolution_1d(t):
    x, image = t.last(2, 4, 9)
    w, filter = t.last(3, 4, 3)
    t.write(t.g.conv_fprop(x, w, padding=[1], stride=[2], dilation=[1]), convolve(image, filter, [1], [2], [1]))


def convolution_3d(t):
    x, image = t.last(1, 3, 4, 5, 4)
    w, filter = t.last(2, 3, 2, 3, 2)
    t.write(t.g.conv_fprop(x, w, padding=[1, 0, 1], stride=[1, 2, 1], dilation=[1, 1, 1]), convolve(image, filter, [1, 0, 1], [1, 2, 1], [1, 1, 1]))


def dgrad(t):
    n, c, k = (int(x) for x in t.rng.integers(1, 4, 3))
    padding, stride = ([int(x) for x in t.rng.integers(low, 3, 2)] for low in (0, 1))
    dims = (n, c, 5, 6)
    w, filter = t.last(k, c, 2, 3)
    forward = lambda x: convolve(x, filter, padding, stride, [1, 1])
    dy, loss = t.last(*forward(np.zeros(dims)).shape)
    dx = t.g.conv_dgrad(dy, w, padding=padding, stride=stride, dilation=[1, 1])
    t.write(dx, adjoint(forward, dims, loss), dims=dims, strides=strides_of(dims, [0, 2, 3, 1]))


def wgrad(t):
    n, c, k = (int(x) for x in t.rng.integers(1, 4, 3))
    padding, stride = ([int(x) for x in t.rng.integers(low, 3, 2)] for low in (0, 1))
    dims = (k, c, 2, 3)
    x, image = t.last(n, c, 5, 6)
    forward = lambda w: convolve(image, w, padding, stride, [1, 1])
    dy, loss = t.last(*forward(np.zeros(dims)).shape)
    dw = t.g.conv_wgrad(x, dy, padding=padding, stride=stride, dilation=[1, 1])
    t.write(dw, adjoint(forward, dims, loss), dims=dims, strides=strides_of(dims, [0, 2, 3, 1]))


def layernorm(t):
    rows, width = int(t.rng.integers(1, 9)), int(t.rng.integers(2, 40))
    x, image = t.operand(rows, width, 1, 1)
    (s, scale), (b, bias) = t.operand(1, width, 1, 1), t.operand(1, width, 1, 1)
    y, mean, inverse = t.g.layernorm(
        norm_forward_phase=cudnn.norm_forward_phase.TRAINING, input=x, scale=s, bias=b, epsilon=t.number(EPSILON, 4))
    xhat, m, v = normalised(image, (1,))
    t.write(y, xhat * scale + bias)
    t.write(mean, m, FLOAT)
    t.write(inverse, v, FLOAT)


def layernorm_backward(t):
    rows, width = int(t.rng.integers(1, 9)), int(t.rng.integers(2, 40))
    x, image = t.operand(rows, width, 1, 1)
    dy, loss = t.operand(rows, width, 1, 1)
    s, scale = t.operand(1, width, 1, 1)
    xhat, m, v = normalised(image, (1,))
    mean, inverse = t.read(m, FLOAT)[0], t.read(v, FLOAT)[0]
    dx, dscale, dbias = t.g.layernorm_backward(dy, x, s, mean, inverse)
    t.write(dx, normalised_back(loss * scale, xhat, v, (1,)))
    t.write(dscale, (loss * xhat).sum(axis=0, keepdims=True), FLOAT, bound=4e-5)
    t.write(dbias, loss.sum(axis=0, keepdims=True), FLOAT)


def rmsnorm(t):
    rows, width = int(t.rng.integers(1, 9)), int(t.rng.integers(2, 40))
    x, image = t.operand(rows, width, 1, 1)
    s, scale = t.operand(1, width, 1, 1)
    y, inverse = t.g.rmsnorm(norm_forward_phase=cudnn.norm_forward_phase.TRAINING, input=x, scale=s, epsilon=t.number(EPSILON, 4))
    xhat, _, v = normalised(image, (1,), shift=False)
    t.write(y, xhat * scale)
    t.write(inverse, v, FLOAT)


def rmsnorm_backward(t):
    rows, width = int(t.rng.integers(1, 9)), int(t.rng.integers(2, 40))
    x, image = t.operand(rows, width, 1, 1)
    dy, loss = t.operand(rows, width, 1, 1)
    s, scale = t.operand(1, width, 1, 1)
    xhat, _, v = normalised(image, (1,), shift=False)
    dx, dscale, _ = t.g.rmsnorm_backward(dy, x, s, t.read(v, FLOAT)[0], has_dbias=False)
    t.write(dx, normalised_back(loss * scale, xhat, v, (1,), shift=False))
    t.write(dscale, (loss * xhat).sum(axis=0, keepdims=True), FLOAT, bound=4e-5)


def batchnorm(t):
    n, c = int(t.rng.integers(2, 5)), int(t.rng.integers(1, 6))
    x, image = t.last(n, c, 4, 3)
    (s, scale), (b, bias) = t.operand(1, c, 1, 1, kind=FLOAT), t.operand(1, c, 1, 1, kind=FLOAT)
    old_mean, running_mean = t.operand(1, c, 1, 1, kind=FLOAT)
    old_variance, running_variance = t.read(np.abs(t.numbers(1, c, 1, 1)), FLOAT)
    y, mean, inverse, new_mean, new_variance = t.g.batchnorm(
        input=x, scale=s, bias=b, in_running_mean=old_mean, in_running_var=old_variance, epsilon=t.number(EPSILON, 4), momentum=t.number(0.25, 4))
    xhat, m, v = normalised(image, (0, 2, 3))
    count = n * 12
    t.write(t.g.relu(y), np.maximum(xhat * scale + bias, 0))
    t.write(mean, m, FLOAT)
    t.write(inverse, v, FLOAT)
    t.write(new_mean, 0.75 * running_mean + 0.25 * m, FLOAT)
    t.write(new_variance, 0.75 * running_variance + 0.25 * image.var(axis=(0, 2, 3), keepdims=True) * count / (count - 1), FLOAT)


def batchnorm_inference(t):
    n, c = int(t.rng.integers(1, 5)), int(t.rng.integers(1, 6))
    x, image = t.last(n, c, 4, 3)
    operands = [t.operand(1, c, 1, 1, kind=FLOAT) for _ in range(4)]
    (_, mean), (_, inverse), (_, scale), (_, bias) = operands
    t.write(t.g.batchnorm_inference(x, *(tensor for tensor, _ in operands)), (image - mean) * inverse * scale + bias)


def batchnorm_backward(t):
    n, c = int(t.rng.integers(2, 5)), int(t.rng.integers(1, 6))
    x, image = t.last(n, c, 4, 3)
    dy, loss = t.last(n, c, 4, 3)
    s, scale = t.operand(1, c, 1, 1, kind=FLOAT)
    axes = (0, 2, 3)
    xhat, m, v = normalised(image, axes)
    dx, dscale, dbias = t.g.batchnorm_backward(dy, x, s, t.read(m, FLOAT)[0], t.read(v, FLOAT)[0])
    t.write(dx, normalised_back(loss * scale, xhat, v, axes))
    t.write(dscale, (loss * xhat).sum(axis=axes, keepdims=True), FLOAT, bound=4e-5)
    t.write(dbias, loss.sum(axis=axes, keepdims=True), FLOAT, bound=4e-5)


def instancenorm(t):
    n, c = int(t.rng.integers(1, 5)), int(t.rng.integers(1, 6))
    x, image = t.last(n, c, 4, 3)
    (s, scale), (b, bias) = t.operand(1, c, 1, 1, kind=FLOAT), t.operand(1, c, 1, 1, kind=FLOAT)
    y, mean, inverse = t.g.instancenorm(
        norm_forward_phase=cudnn.norm_forward_phase.TRAINING, input=x, scale=s, bias=b, epsilon=t.number(EPSILON, 4))
    xhat, m, v = normalised(image, (2, 3))
    t.write(y, xhat * scale + bias)
    t.write(mean, m, FLOAT)
    t.write(inverse, v, FLOAT)


def instancenorm_backward(t):
    n, c = int(t.rng.integers(1, 5)), int(t.rng.integers(1, 6))
    x, image = t.last(n, c, 4, 3)
    dy, loss = t.last(n, c, 4, 3)
    s, scale = t.operand(1, c, 1, 1, kind=FLOAT)
    xhat, m, v = normalised(image, (2, 3))
    dx, dscale, dbias = t.g.instancenorm_backward(dy, x, s, t.read(m, FLOAT)[0], t.read(v, FLOAT)[0])
    t.write(dx, normalised_back(loss * scale, xhat, v, (2, 3)))
    t.write(dscale, (loss * xhat).sum(axis=(0, 2, 3), keepdims=True), FLOAT, bound=4e-5)
    t.write(dbias, loss.sum(axis=(0, 2, 3), keepdims=True), FLOAT, bound=4e-5)


def adalayernorm(t):
    batch, rows, width = 2, int(t.rng.integers(1, 9)), int(t.rng.integers(2, 40))
    x, image = t.operand(batch, rows, width)
    (s, scale), (b, bias) = t.operand(batch, 1, width), t.operand(batch, 1, width)
    y, mean, inverse = t.g.adalayernorm(
        norm_forward_phase=cudnn.norm_forward_phase.TRAINING, input=x, scale=s, bias=b, epsilon=t.number(EPSILON, 3))
    xhat, m, v = normalised(image, (2,))
    t.write(y, xhat * scale + bias)
    t.write(mean, m, FLOAT)
    t.write(inverse, v, FLOAT)


def genstats(t):
    n, c = int(t.rng.integers(1, 5)), int(t.rng.integers(1, 6))
    x, image = t.last(n, c, 4, 3)
    total, squares = t.g.genstats(x)
    t.write(total, image.sum(axis=(0, 2, 3), keepdims=True), FLOAT, bound=4e-5)
    t.write(squares, (image**2).sum(axis=(0, 2, 3), keepdims=True), FLOAT)


def reduction(t):
    modes = {"ADD": np.sum, "MAX": np.max, "MIN": np.min, "AMAX": lambda x, **how: np.abs(x).max(**how), "AVG": np.mean,
             "NORM1": lambda x, **how: np.abs(x).sum(**how), "NORM2": lambda x, **how: np.sqrt((x * x).sum(**how)), "MUL": np.prod}  # fmt: skip
    name = str(t.rng.choice(list(modes)[:4]))
    x, values = t.operand(3, 4, 5)
    axes = tuple(axis for axis in range(3) if t.rng.random() < 0.6)
    want = modes[name](values, axis=axes, keepdims=True) if axes else (np.abs(values) if name == "AMAX" else values)
    y = t.g.reduction(x, mode=getattr(cudnn.reduction_mode, name))
    t.write(y, want, FLOAT, dims=want.shape)


def reshape(t):
    x, values = t.operand(3, 4, 6)
    dims = [(12, 6), (3, 24), (2, 6, 6), (72,), (3, 4, 2, 3)][t.rng.integers(5)]
    t.write(t.g.reshape(x), values.reshape(dims), dims=dims, bound=0)


def transpose(t):
    x, values = t.operand(3, 4, 6, 2)
    axes = [int(axis) for axis in t.rng.permutation(4)]
    want = values.transpose(axes)
    t.write(t.g.transpose(x, permutation=axes), want, dims=want.shape, bound=0)


def cut(t):
    x, values = t.operand(5, 4, 6)
    y = t.g.slice(x, slices=[slice(1, 4), slice(0, 4), slice(1, 6, 2)])
    want = values[1:4, :, 1:6:2]
    t.write(t.g.relu(y), np.maximum(want, 0))


def concatenate(t):
    (x, a), (y, b) = t.operand(2, 3, 4), t.operand(2, 5, 4)
    z = t.g.concatenate(inputs=[x, y], axis=1)
    want = np.concatenate([a, b], 1)
    t.write(z, want, dims=want.shape, bound=0)


def pointwise(t):
    """A chain that goes into a choice."""
    (x, a), (y, b) = t.operand(3, 4, 5), t.operand(1, 4, 1)
    g = t.g
    sum = g.add(g.mul(x, y), g.sub(x, y))
    want = a * b + (a - b)
    larger = g.cmp_gt(x, y)
    larger.set_data_type(data_type.BOOLEAN)
    t.write(g.binary_select(g.exp(g.neg(g.abs(x))), sum, larger), np.where(a > b, np.exp(-np.abs(a)), want))


def activations(t):
    """Gradients of activations."""
    forms = {
        "relu_backward": lambda dy, x: dy * (x > 0),
        "tanh_backward": lambda dy, x: dy * (1 - np.tanh(x) ** 2),
        "sigmoid_backward": lambda dy, x: dy * sigmoid(x) * (1 - sigmoid(x)),
        "swish_backward": lambda dy, x: dy * sigmoid(x) * (1 + x * (1 - sigmoid(x))),
        "softplus_backward": lambda dy, x: dy * sigmoid(x),
        "elu_backward": lambda dy, x: dy * np.where(x > 0, 1, np.exp(x)),
    }
    name = str(t.rng.choice(list(forms)))
    (dy, loss), (x, image) = t.operand(3, 4, 5), t.operand(3, 4, 5)
    t.write(getattr(t.g, name)(dy, x), forms[name](loss, image))


def rope(t):
    b, h, s, d = 2, 2, int(t.rng.integers(1, 6)), 8
    x, values = t.operand(b, h, s, d)
    turned = int(t.rng.choice([4, 8]))
    # Both halves have the same angles.
    f, angles = t.read(np.tile(t.numbers(1, 1, s, turned // 2), 2), FLOAT)
    angles = angles[..., : turned // 2]
    y = t.g.rope(x, f, rope_dim=turned, output_scale=0.5)
    kept, low, high = np.split(values, [d - turned, d - turned // 2], -1)
    want = 0.5 * np.concatenate([kept, low * np.cos(angles) - high * np.sin(angles), high * np.cos(angles) + low * np.sin(angles)], -1)
    t.write(y, want, dims=want.shape)


def experts(t):
    """Products of a mixture of experts: each has rows of its own."""
    count, rows, k, n = 3, 8, 5, 6
    x, tokens = t.operand(1, rows, k)
    w, weights = t.operand(count, k, n, order=[0, 2, 1])
    first = np.sort(t.rng.integers(0, rows + 1, count))
    first[0] = 0
    offsets, _ = t.read(first.reshape(count, 1, 1), INT32)
    y = t.g.moe_grouped_matmul(x, w, offsets)
    ends = [*first[1:], rows]
    want = np.concatenate([tokens[:, a:b] @ weights[e] for e, (a, b) in enumerate(zip(first, ends))], 1)
    t.write(y, want, dims=want.shape)


def adalayernorm_inference(t):
    """Without statistics the scale tells which dimensions are joined: those in which it is not 1, but for the batch."""
    rows, width = int(t.rng.integers(1, 5)), int(t.rng.integers(2, 20))
    x, image = t.operand(3, rows, width)
    (s, scale), (b, bias) = t.operand(3, 1, width), t.operand(3, 1, width)
    y = t.g.adalayernorm(norm_forward_phase=cudnn.norm_forward_phase.INFERENCE, input=x, scale=s, bias=b, epsilon=t.number(EPSILON, 3))[0]
    t.write(y, normalised(image, (2,))[0] * scale + bias)


def rectified(t):
    """Bounds and slopes; minus infinity is the lower bound where there is no slope."""
    low, high, slope = [(0, 1, 0), (0, None, 0.25), (-0.5, None, 0), (0.5, 1.5, 0.125)][int(t.rng.integers(4))]
    image = t.numbers(3, 5, 7)
    image[0, 0, 0] = -1 if slope else -np.inf
    x, image = t.read(image)
    bounds = dict(lower_clip=low, negative_slope=slope) | ({} if high is None else dict(upper_clip=high))
    below = low + slope * (image - low) if slope else low
    t.write(t.g.relu(x, **bounds), np.where(image < low, below, np.minimum(image, np.inf if high is None else high)))


def long_integers(t):
    """Integers that binary64 does not have."""
    x, b = (t.rng.integers(-(2**62), 2**62, (2, 3, 8)) for _ in range(2))
    (tx, _), (tb, _) = t.read(x, INT64), t.read(b, INT64)
    total = t.g.add(tx, tb, compute_data_type=data_type.INT64)
    total.set_data_type(data_type.INT64)
    # Differences to what is right, which are 0: results are compared in binary64.
    want, _ = t.read(x + b, INT64)
    t.write(t.g.sub(total, want, compute_data_type=data_type.INT64), np.zeros(x.shape), INT64, bound=0)


def groups(t):
    """Sums of groups of rows of other sizes."""
    x, rows = t.operand(1, 12, 6)
    offsets, _ = t.read(np.array([0, 5, 8]).reshape(3, 1, 1), INT32)
    want = np.stack([part.sum(axis=0) for part in np.split(rows[0], [5, 8])]).reshape(3, 1, 6)
    t.write(t.g.reduction(x, mode=cudnn.reduction_mode.ADD, group_offset=offsets), want, FLOAT, dims=(3, 1, 6), bound=4e-5)


def other_extents(t):
    """A plan for matrices of 6 rows that runs on fewer, with their own strides, twice."""
    g = t.g = cudnn.pygraph(handle=t.handle, io_data_type=t.code, intermediate_data_type=data_type.FLOAT, compute_data_type=data_type.FLOAT,
                            is_override_shape_enabled=True)  # fmt: skip
    batch, rows, k, n = 3, 6, 4, 5
    large = [g.tensor(dim=dims, stride=strides_of(dims, [0, 1, 2]), data_type=t.code) for dims in ([batch, rows, k], [batch, k, n], [1, 1, n])]
    y = g.relu(g.add(g.matmul(*large[:2]), large[2]))
    counts = [(int(t.rng.integers(1, batch + 1)), int(t.rng.integers(1, rows + 1))) for _ in range(2)]
    packs = []
    for batch, rows in counts:
        arrays = [t.numbers(*dims).astype(t.kind) for dims in ((batch, rows, k), (batch, k, n), (1, 1, n))]
        packs.append((arrays, [[batch, rows, k], [batch, k, n], [1, 1, n], [batch, rows, n]]))

    def runs(spoils):
        y.set_output(True).set_data_type(t.code)
        g.validate()
        g.build_operation_graph()
        g.create_execution_plans([cudnn.heur_mode.A])
        g.check_support()
        g.build_plans()
        tensors = [*large, y]
        uids = [tensor.get_uid() for tensor in tensors]
        for arrays, shapes in packs:
            (a, b, bias), result = arrays, np.full(shapes[3], 77, t.kind)
            strides = [strides_of(shape, [0, 1, 2]) for shape in shapes]
            size = g.get_workspace_size(t.handle, uids, shapes, strides)
            workspace = np.full(size, 0xFF, np.uint8)
            pack = {uid: array.ctypes.data for uid, array in zip(uids, (a, b, bias, result))}
            g.execute(pack, workspace.ctypes.data, handle=t.handle, override_uids=uids, override_shapes=shapes, override_strides=strides)
            a, b, bias, got = (array.astype(np.float64) for array in (a, b, bias, result))
            wrong = judge(got, np.maximum(a @ b + bias, 0), t.bound, t.rng if spoils else None)
            if wrong:
                return wrong
        return None

    t.run = runs


def plan_text(t):
    """A plan that went through the text the frontend makes of it."""
    a, x = t.operand(2, 3, 4)
    b, y = t.operand(2, 4, 5)
    t.write(t.g.relu(t.g.matmul(a, b)), np.maximum(x @ y, 0))
    kept = t.g

    class Again:
        """The graph up to its text, and behind it the one that is read from it."""

        def __getattr__(self, name):
            return getattr(kept, name)

        def execute(self, pack, workspace, handle):
            again = cudnn.pygraph(handle=handle)
            again.deserialize(kept.serialize())
            uids = {tensor.get_uid(): address for tensor, address in pack.items()}
            again.execute(uids, workspace, handle=handle)

    t.g = Again()


def chain(t):
    """Large enough to be computed block by block: a normalisation amid functions and sums."""
    rows, width = int(t.rng.integers(200, 400)), int(t.rng.integers(150, 260))
    (x, image), (z, other) = t.operand(1, rows, width), t.operand(1, rows, width)
    (s, scale), (b, bias) = t.operand(1, 1, width), t.operand(1, 1, width)
    g = t.g
    y, mean, inverse = g.layernorm(
        norm_forward_phase=cudnn.norm_forward_phase.TRAINING, input=g.mul(g.tanh(x), z), scale=s, bias=b, epsilon=t.number(EPSILON, 3))
    xhat, m, v = normalised(np.tanh(image) * other, (2,))
    want = xhat * scale + bias
    t.write(g.add(g.sigmoid(y), x), sigmoid(want) + image)
    t.write(mean, m, FLOAT)
    t.write(inverse, v, FLOAT, bound=4e-5)
    total = g.reduction(g.mul(y, z), mode=cudnn.reduction_mode.MAX)
    t.write(total, (want * other).max(axis=2, keepdims=True), FLOAT, dims=(1, rows, 1))


def chain_backward(t):
    """The gradients of such a normalisation, of whose results two are sums over all rows."""
    rows, width = int(t.rng.integers(200, 400)), int(t.rng.integers(150, 260))
    (x, image), (dy, loss), (s, scale) = t.operand(1, rows, width), t.operand(1, rows, width), t.operand(1, 1, width)
    xhat, m, v = normalised(image, (2,))
    g, mean, inverse = t.g, t.read(m, FLOAT)[0], t.read(v, FLOAT)[0]
    dx, dscale, dbias = g.layernorm_backward(g.mul(dy, dy), x, s, mean, inverse)
    t.write(g.add(dx, x), normalised_back(loss * loss * scale, xhat, v, (2,)) + image)
    t.write(dscale, (loss * loss * xhat).sum(axis=1, keepdims=True), FLOAT, bound=2e-4)
    t.write(dbias, (loss * loss).sum(axis=1, keepdims=True), FLOAT, bound=4e-5)


def without_a_handle(t):
    """A graph that nobody gave a handle asks the driver for the device."""
    matmul(t)


CASES = [
    matmul, without_a_handle, convolution, convolution_1d, convolution_3d, dgrad, wgrad, layernorm, layernorm_backward, rmsnorm, rmsnorm_backward, batchnorm,
    batchnorm_inference, batchnorm_backward, instancenorm, instancenorm_backward, adalayernorm, genstats, reduction, reshape, transpose, cut,
    concatenate, pointwise, activations, rectified, long_integers, groups, adalayernorm_inference,
    chain, chain_backward, rope, experts, sdpa, sdpa_backward, other_extents, plan_text, *attention_options.CASES, *packed.CASES,
]  # fmt: skip


def main():
    handle = cudnn.create_handle()

    def attempt(case, kind, seed, spoils):
        graph = Graph(None if case is without_a_handle else handle, np.random.default_rng(seed), TYPES[kind])
        case(graph)
        return graph.run(spoils)

    return rounds.run(__doc__, CASES, TYPES, attempt)


if __name__ == "__main__":
    sys.exit(main())
