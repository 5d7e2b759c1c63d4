"""Every layer against its formula in NumPy, in binary64."""

import itertools

import numpy
import pytest

import cudnn_shim


def close(ours, wanted, bound=1e-5):
    assert ours.shape == wanted.shape
    assert numpy.abs(ours - wanted).max() <= bound * max(1, numpy.abs(wanted).max())


def last(x):
    """The same values with channels last in memory."""
    return numpy.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def convolved(x, w, stride=1, padding=0, dilation=1, groups=1):
    """The defining loop, over taps."""
    x = numpy.pad(x.astype(float), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    n, c, h, width = x.shape
    k, each, r, s = w.shape
    rows, columns = ((e - dilation * (t - 1) - 1) // stride + 1 for e, t in ((h, r), (width, s)))
    y = numpy.zeros((n, k, rows, columns))
    for filter_, channel, i, j in itertools.product(range(k), range(each), range(r), range(s)):
        source = x[:, filter_ // (k // groups) * each + channel, i * dilation :, j * dilation :]
        y[:, filter_] += w[filter_, channel, i, j] * source[:, : rows * stride : stride, : columns * stride : stride]
    return y


GEOMETRIES = [
    {},
    {"padding": 1},
    {"padding": 1, "stride": 2},
    {"padding": 2, "dilation": 2},
    {"padding": 1, "groups": 2},
]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("layout", [numpy.ascontiguousarray, last])
def test_convolution_and_its_gradients(random, geometry, layout):
    x = layout(random.standard_normal((2, 6, 9, 8)).astype(numpy.float32))
    w = layout(random.standard_normal((4, 6 // geometry.get("groups", 1), 3, 3)).astype(numpy.float32))
    y = cudnn_shim.convolution(x, w, **geometry)
    close(y, convolved(x, w, **geometry))
    # <dy, conv(x, w)> is linear in x and in w, so its gradients are what they must be.
    dy = random.standard_normal(y.shape).astype(numpy.float32)
    dx = cudnn_shim.convolution_backward_data(w, dy, x.shape, **geometry)
    dw = cudnn_shim.convolution_backward_filter(x, dy, w.shape, **geometry)
    for _ in range(3):
        a = random.standard_normal(x.shape)
        b = random.standard_normal(w.shape)
        assert numpy.isclose((dx * a).sum(), (dy * convolved(a, w, **geometry)).sum(), rtol=1e-3, atol=1e-2)
        assert numpy.isclose((dw * b).sum(), (dy * convolved(x, b, **geometry)).sum(), rtol=1e-3, atol=1e-2)


def test_convolution_with_bias_and_activation(random):
    x = random.standard_normal((2, 3, 7, 6)).astype(numpy.float32)
    w = random.standard_normal((5, 3, 3, 3)).astype(numpy.float32)
    bias = random.standard_normal(5).astype(numpy.float32)
    wanted = convolved(x, w, padding=1) + bias[:, None, None]
    close(cudnn_shim.convolution(x, w, bias=bias, padding=1), wanted)
    close(cudnn_shim.convolution(x, w, bias=bias, activation="relu", padding=1), wanted.clip(0))
    close(cudnn_shim.convolution(x, w, activation="relu", padding=1), convolved(x, w, padding=1).clip(0))
    out = numpy.empty((2, 5, 7, 6), numpy.float32)
    assert cudnn_shim.convolution(x, w, padding=1, out=out) is out
    with pytest.raises(ValueError, match="bias"):
        cudnn_shim.convolution(x, w, bias=bias[:4], padding=1)


def test_padding_by_its_name(random):
    x = random.standard_normal((2, 3, 9, 8)).astype(numpy.float32)
    for extent, dilation in ((3, 1), (3, 2), (5, 1), (1, 1), (2, 2)):
        w = random.standard_normal((4, 3, extent, extent)).astype(numpy.float32)
        padding = dilation * (extent - 1) // 2
        same = cudnn_shim.convolution(x, w, padding="same", dilation=dilation)
        assert same.shape == (2, 4, 9, 8)
        close(same, convolved(x, w, padding=padding, dilation=dilation))
        dy = random.standard_normal(same.shape).astype(numpy.float32)
        for gradient, operand, shape in (
            (cudnn_shim.convolution_backward_data, w, x.shape), (cudnn_shim.convolution_backward_filter, x, w.shape)
        ):
            named = gradient(operand, dy, shape, padding="same", dilation=dilation)
            assert (named == gradient(operand, dy, shape, padding=padding, dilation=dilation)).all()
    w = random.standard_normal((4, 3, 3, 2)).astype(numpy.float32)
    close(cudnn_shim.convolution(x, w, padding="valid"), convolved(x, w))
    refusals = {
        "does not divide in two": {"padding": "same"},
        "and stride": {"padding": "same", "stride": 2},
        "must be numbers, 'same' or 'valid'": {"padding": "full"},
    }
    for sentence, named in refusals.items():
        with pytest.raises(ValueError, match=f"padding: .*{sentence}"):
            cudnn_shim.convolution(x, w, **named)


@pytest.mark.parametrize("wrong", [1.5, None, ["1", "1"], (1, 2, 3), 2**40, (1, 2**40), "wide"], ids=repr)
def test_numbers_that_are_none_are_named(random, wrong):
    x = random.standard_normal((2, 4, 9, 8)).astype(numpy.float32)
    w = random.standard_normal((4, 4, 3, 3)).astype(numpy.float32)
    calls = {
        "padding": lambda: cudnn_shim.convolution(x, w, padding=wrong),
        "stride": lambda: cudnn_shim.convolution(x, w, stride=wrong),
        "dilation": lambda: cudnn_shim.convolution_backward_data(w, x, x.shape, dilation=wrong),
        "groups": lambda: cudnn_shim.convolution(x, w, groups=wrong),
        "window": lambda: cudnn_shim.pooling(x, wrong),
        "shape": lambda: cudnn_shim.convolution_backward_filter(x, x, ("wide", 4, 3, 3)),
        "size": lambda: cudnn_shim.local_response_norm(x, wrong),
    }
    for name, made in calls.items():
        with pytest.raises(ValueError, match=f"^{name}: "):
            made()
    for image in (x[0, 0], x[0, 0, 0]):
        with pytest.raises(ValueError, match="^x: shape"):
            cudnn_shim.convolution(image, w)
        with pytest.raises(ValueError, match="^x: shape"):
            cudnn_shim.pooling(image, 2)
    # Numbers of NumPy are numbers.
    close(cudnn_shim.convolution(x, w, padding=numpy.int64(1)), convolved(x, w, padding=1))


def test_a_mirrored_filter(random):
    x = random.standard_normal((1, 1, 6, 6)).astype(numpy.float32)
    w = random.standard_normal((1, 1, 3, 3)).astype(numpy.float32)
    close(cudnn_shim.convolution(x, w, flip=True), convolved(x, w[:, :, ::-1, ::-1]))
    # A filter that no descriptor can describe is copied.
    close(cudnn_shim.convolution(x, w[:, :, ::-1, ::-1]), convolved(x, w[:, :, ::-1, ::-1]))


def test_other_ranks_and_types(random):
    x, w = random.standard_normal((2, 3, 12)), random.standard_normal((4, 3, 5))
    wanted = convolved(x[:, :, None], w[:, :, None])[:, :, 0]
    close(cudnn_shim.convolution(x, w), wanted, 1e-12)
    half = cudnn_shim.convolution(x.astype(numpy.float16), w.astype(numpy.float16))
    assert half.dtype == numpy.float16
    close(half.astype(float), wanted, 1e-2)


def windows(x, window, stride, padding, fill):
    x = numpy.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=fill)
    view = numpy.lib.stride_tricks.sliding_window_view(x, (window, window), (2, 3))
    return view[:, :, ::stride, ::stride]


def test_pooling_and_its_gradient(random):
    x = random.standard_normal((2, 3, 8, 8))
    close(cudnn_shim.pooling(x, 2), windows(x, 2, 2, 0, 0).max((4, 5)), 0)
    close(cudnn_shim.pooling(x, 3, stride=2, padding=1), windows(x, 3, 2, 1, -numpy.inf).max((4, 5)), 0)
    average = cudnn_shim.pooling(x, 3, stride=1, padding=1, mode="average")
    close(average, windows(x, 3, 1, 1, 0).mean((4, 5)), 1e-12)
    counts = windows(numpy.ones_like(x), 3, 1, 1, 0).sum((4, 5))
    partial = cudnn_shim.pooling(x, 3, stride=1, padding=1, mode="average_exclude_padding")
    close(partial, windows(x, 3, 1, 1, 0).sum((4, 5)) / counts, 1e-12)
    y = cudnn_shim.pooling(x, 2)
    dy = random.standard_normal(y.shape)
    dx = cudnn_shim.pooling_backward(y, dy, x, 2)
    assert ((dx != 0).sum(), dx.sum()) == (y.size, pytest.approx(dy.sum()))
    with pytest.raises(ValueError, match="mode"):
        cudnn_shim.pooling(x, 2, mode="median")
    with pytest.raises(ValueError, match="window"):
        cudnn_shim.pooling(x, (2, 2, 2))


def test_activations_and_their_gradients(random):
    x = random.standard_normal((2, 3, 4, 5))
    formulas = {
        "relu": x.clip(0),
        "sigmoid": 1 / (1 + numpy.exp(-x)),
        "tanh": numpy.tanh(x),
        "clipped_relu": x.clip(0, 0.5),
        "elu": numpy.where(x > 0, x, 0.5 * numpy.expm1(x)),
        "swish": x / (1 + numpy.exp(-x)),
    }
    step = 1e-6
    for mode, wanted in formulas.items():
        y = cudnn_shim.activation(x, mode, coefficient=0.5)
        close(y, wanted, 1e-12)
        dx = cudnn_shim.activation_backward(y, numpy.ones_like(x), x, mode, coefficient=0.5)
        ahead = cudnn_shim.activation(x + step, mode, coefficient=0.5)
        behind = cudnn_shim.activation(x - step, mode, coefficient=0.5)
        close(dx, (ahead - behind) / (2 * step), 1e-5)
    assert cudnn_shim.activation(x, "relu", out=x) is x and (x >= 0).all()


def test_softmax_and_its_gradient(random):
    x = random.standard_normal((2, 5, 3, 4))
    powers = numpy.exp(x)
    y = cudnn_shim.softmax(x)
    close(y, powers / powers.sum(1, keepdims=True), 1e-12)
    close(cudnn_shim.softmax(x, algorithm="log"), numpy.log(powers / powers.sum(1, keepdims=True)), 1e-12)
    close(cudnn_shim.softmax(x, mode="instance"), powers / powers.sum((1, 2, 3), keepdims=True), 1e-12)
    dy = random.standard_normal(x.shape)
    close(cudnn_shim.softmax_backward(y, dy), y * (dy - (dy * y).sum(1, keepdims=True)), 1e-12)


def test_batch_norm_and_its_gradient(random):
    x = random.standard_normal((4, 3, 5, 6)).astype(numpy.float32)
    scale, bias = (random.standard_normal(3).astype(numpy.float32) for _ in range(2))
    mean, variance = x.mean((0, 2, 3), dtype=float), x.var((0, 2, 3), dtype=float)
    normal = (x - mean[:, None, None]) / numpy.sqrt(variance + 1e-5)[:, None, None]
    wanted = normal * scale[:, None, None] + bias[:, None, None]
    running_mean, running_variance = numpy.zeros(3, numpy.float32), numpy.ones(3, numpy.float32)
    y, saved, inverse = cudnn_shim.batch_norm_training(
        x, scale, bias, running_mean=running_mean, running_variance=running_variance
    )
    close(y, wanted)
    close(saved, mean.astype(numpy.float32))
    close(running_mean, 0.1 * mean)
    close(running_variance, 0.9 + 0.1 * variance * 120 / 119)
    plain = cudnn_shim.batch_norm(x, scale, bias, mean.astype(numpy.float32), variance.astype(numpy.float32))
    close(plain, wanted)
    dy = random.standard_normal(x.shape).astype(numpy.float32)
    dx, d_scale, d_bias = cudnn_shim.batch_norm_backward(x, dy, scale, mean=saved, inverse=inverse)
    close(d_bias, dy.sum((0, 2, 3)), 1e-4)
    close(d_scale, (dy * normal).sum((0, 2, 3)), 1e-4)
    inner = dy - (d_bias / 120)[:, None, None] - normal * (d_scale / 120)[:, None, None]
    close(dx, inner * (scale / numpy.sqrt(variance + 1e-5))[:, None, None], 1e-4)
    with pytest.raises(ValueError, match="scale"):
        cudnn_shim.batch_norm_training(x, scale[:2], bias)


def test_local_response_norm(random):
    x = random.standard_normal((2, 7, 3, 3))
    squares = numpy.pad(x * x, ((0, 0), (2, 2), (0, 0), (0, 0)))
    sums = sum(squares[:, i : i + 7] for i in range(5))
    y = cudnn_shim.local_response_norm(x, 5, alpha=0.3, k=2.0)
    close(y, x / (2 + 0.3 / 5 * sums) ** 0.75, 1e-6)
    dy, step = random.standard_normal(x.shape), 1e-6
    dx = cudnn_shim.local_response_norm_backward(y, dy, x, 5, alpha=0.3, k=2.0)
    towards = random.standard_normal(x.shape)
    ahead, behind = (
        cudnn_shim.local_response_norm(x + sign * step * towards, 5, alpha=0.3, k=2.0) for sign in (1, -1)
    )
    assert numpy.isclose((dx * towards).sum(), (dy * (ahead - behind)).sum() / (2 * step), rtol=1e-4)


def test_products_of_matrices(random):
    a, b = random.standard_normal((3, 4, 5)), random.standard_normal((3, 5, 6))
    close(cudnn_shim.matmul(a, b), a @ b, 1e-12)
    close(cudnn_shim.matmul(b.transpose(0, 2, 1), a.transpose(0, 2, 1)), (a @ b).transpose(0, 2, 1), 1e-12)
    close(cudnn_shim.matmul(a, b[:1]), a @ b[:1], 1e-12)
    with pytest.raises(ValueError, match="a, b"):
        cudnn_shim.matmul(a, b[0])
