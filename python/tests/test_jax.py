"""Arrays of JAX: read where they lie, never written; results are new arrays of JAX."""

import numpy
import pytest

import cudnn_shim

jax = pytest.importorskip("jax", reason="JAX is not installed; install it: pip install jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def on_the_cpu():
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def arrays(random, *shapes):
    """The same values as arrays of NumPy and of JAX."""
    ours = [random.standard_normal(shape).astype(numpy.float32) for shape in shapes]
    return ours, [jnp.array(array) for array in ours]


LAYERS = {
    "convolution": ([(2, 4, 7, 6), (6, 4, 3, 3)], lambda x, w: cudnn_shim.convolution(x, w, padding=1)),
    "groups": ([(2, 4, 7, 6), (6, 2, 3, 3)], lambda x, w: cudnn_shim.convolution(x, w, groups=2)),
    "bias": ([(2, 4, 7, 6), (6, 4, 3, 3), (6,)], lambda x, w, b: cudnn_shim.convolution(x, w, bias=b, activation="relu")),
    "activation alone": ([(2, 4, 7, 6), (6, 4, 3, 3)], lambda x, w: cudnn_shim.convolution(x, w, activation="relu")),
    "data": ([(6, 4, 3, 3), (2, 6, 5, 4)], lambda w, dy: cudnn_shim.convolution_backward_data(w, dy, (2, 4, 7, 6))),
    "filter": ([(2, 4, 7, 6), (2, 6, 5, 4)], lambda x, dy: cudnn_shim.convolution_backward_filter(x, dy, (6, 4, 3, 3))),
    "one spatial dimension": ([(2, 4, 9), (6, 4, 3)], cudnn_shim.convolution),
    "matmul": ([(3, 4, 5), (3, 5, 6)], cudnn_shim.matmul),
    "pooling": ([(2, 4, 8, 6)], lambda x: cudnn_shim.pooling(x, 2)),
    "pooling_backward": (
        [(2, 4, 8, 6), (2, 4, 4, 3)], lambda x, dy: cudnn_shim.pooling_backward(cudnn_shim.pooling(x, 2), dy, x, 2)
    ),
    "relu": ([(5,)], lambda x: cudnn_shim.activation(x, "relu")),
    "relu backward": ([(2, 3)] * 3, lambda y, dy, x: cudnn_shim.activation_backward(y, dy, x, "relu")),
    "softmax": ([(2, 5, 3)], cudnn_shim.softmax),
    "softmax backward": ([(2, 5, 3), (2, 5, 3)], cudnn_shim.softmax_backward),
    "training": ([(4, 3, 5, 6), (3,), (3,)], cudnn_shim.batch_norm_training),
    "batch norm backward": ([(4, 3, 5, 6), (4, 3, 5, 6), (3,)], cudnn_shim.batch_norm_backward),
    "response": ([(2, 7, 4, 5)], lambda x: cudnn_shim.local_response_norm(x, 5)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_give_what_they_give_for_numpy(random, name):
    shapes, layer = LAYERS[name]
    ours, theirs = arrays(random, *shapes)
    wanted, given = layer(*ours), layer(*theirs)
    if not isinstance(wanted, tuple):
        wanted, given = (wanted,), (given,)
    for one, other in zip(wanted, given):
        assert isinstance(other, jax.Array) and other.shape == one.shape and other.dtype == one.dtype
        assert numpy.array_equal(numpy.asarray(other), one)
    assert all(numpy.array_equal(numpy.asarray(new), old) for new, old in zip(theirs, ours))


def test_layers_of_jax_agree(random):
    _, (x, w) = arrays(random, (2, 4, 7, 6), (6, 4, 3, 3))
    wanted = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", precision="highest")
    assert jnp.allclose(cudnn_shim.convolution(x, w, padding="same"), wanted, rtol=1e-5, atol=1e-5)
    half = cudnn_shim.activation(x.astype(jnp.bfloat16), "relu")
    assert half.dtype == jnp.bfloat16 and (half == jax.nn.relu(x.astype(jnp.bfloat16))).all()


def test_arrays_of_jax_are_not_written(random):
    (ours,), (theirs,) = arrays(random, (1, 2, 3, 4))
    fixed = jnp.zeros(ours.shape)
    for made in (
        lambda: cudnn_shim.activation(ours, "relu", out=fixed),
        lambda: cudnn_shim.activation(theirs, "relu", out=theirs),
        lambda: cudnn_shim.transform(ours, fixed),
    ):
        with pytest.raises(ValueError, match="out: arrays of jax are immutable"):
            made()
    ones, zeros = jnp.ones(2), jnp.zeros(2)
    with pytest.raises(ValueError, match="running_mean: arrays of jax are immutable"):
        cudnn_shim.batch_norm_training(theirs, ones, ones, running_mean=zeros, running_variance=ones)
    assert (fixed == 0).all() and (zeros == 0).all() and numpy.array_equal(numpy.asarray(theirs), ours)
    with pytest.raises(ValueError, match="x: .*gives no view by DLPack"):
        jax.jit(lambda x: cudnn_shim.activation(x, "relu"))(theirs)


def test_jax_reads_memory():
    memory = cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "NHWC", (2, 3, 4, 5))
    cudnn_shim.transform(numpy.arange(120, dtype=numpy.float32).reshape(2, 3, 4, 5), memory)
    # Compared by NumPy: JAX 0.4 takes arrays with channels last, but cannot compute on them.
    assert numpy.array_equal(jax.dlpack.from_dlpack(memory), numpy.arange(120.0).reshape(2, 3, 4, 5))
