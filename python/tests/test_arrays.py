"""Arrays go in and out by DLPack: views, owners, lifetimes, refusals."""

import gc
import weakref

import numpy
import pytest

import cudnn_shim
from cudnn_shim import _dlpack


def test_a_view_is_described_where_it_lies(random):
    x = random.standard_normal((2, 6, 5, 4)).astype(numpy.float32)
    view = x[:, 1::2].transpose(0, 2, 3, 1)
    tensor = cudnn_shim.Tensor(view)
    assert tensor.dims == view.shape
    assert tensor.strides == tuple(step // 4 for step in view.strides)
    assert tensor.data.value == view.ctypes.data
    assert tensor.data_type is cudnn_shim.DataType.FLOAT


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64"])
def test_every_layout_and_type_is_transformed(random, dtype):
    x = (random.standard_normal((2, 6, 5, 4)) * 10).astype(dtype)
    for view in (x, x.transpose(0, 2, 3, 1), x[:, :, ::-1], x[:, :, :, ::2], numpy.asfortranarray(x)):
        there = cudnn_shim.transform(view, numpy.zeros(view.shape[::-1], dtype).T)
        assert numpy.array_equal(there, view)


@pytest.mark.parametrize("shape", [(), (5,), (1,), (2, 3), (1, 2, 1, 3, 1, 2, 2, 1)])
def test_arrays_of_every_rank(shape):
    x = numpy.arange(numpy.prod(shape, dtype=int), dtype=numpy.float32).reshape(shape)
    assert numpy.array_equal(cudnn_shim.transform(x, numpy.empty(shape, numpy.float32)), x)


def test_memory_has_the_layout_that_it_is_asked_for():
    memory = cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "NHWC", (2, 6, 5, 4))
    assert memory.descriptor.layout == "NHWC"
    assert numpy.from_dlpack(memory).strides == (480, 4, 96, 24)
    blocked = numpy.from_dlpack(cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "nChw8c", (2, 6, 5, 4)))
    assert blocked.shape == (2, 1, 5, 4, 8)


def test_views_of_one_memory_live_by_themselves():
    memory = cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "NCHW", (1, 1, 2, 2))
    one, other = numpy.from_dlpack(memory), numpy.from_dlpack(memory)
    gone = weakref.ref(memory)
    # NumPy 1 shows memory of others read-only.
    cudnn_shim.transform(numpy.full((1, 1, 2, 2), 3, numpy.float32), memory)
    del memory, other
    gc.collect()
    assert gone() is not None and (one == 3).all()
    del one
    gc.collect()
    assert gone() is None and not _dlpack.exports


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (2, 0)])
def test_a_capsule_that_nobody_takes_is_given_back(version):
    memory = cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "NCHW", (1, 1, 2, 2))
    capsule = memory.__dlpack__(max_version=version)
    # NumPy before 2.1 and JAX ask for no version, and read what was before version 1.
    assert ("dltensor_versioned" in repr(capsule)) == (version is not None and version[0] >= 1)
    assert len(_dlpack.exports) == 1
    del capsule
    assert not _dlpack.exports


def test_a_tensor_keeps_its_array():
    tensor = cudnn_shim.Tensor(numpy.full((1, 2, 3, 4), 5, numpy.float32))
    gc.collect()
    out = numpy.empty((1, 2, 3, 4), numpy.float32)
    target = cudnn_shim.Tensor(out)
    one, zero = target.one_and_zero()
    cudnn_shim.call(
        "cudnnTransformTensor", cudnn_shim.current_handle(), one, tensor.descriptor, tensor.data, zero,
        target.descriptor, target.data,
    )
    assert (out == 5).all()


def test_what_cannot_be_is_refused():
    x = numpy.ones((1, 2, 3, 4), numpy.float32)
    fixed = x.copy()
    fixed.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        cudnn_shim.transform(x, fixed)
    with pytest.raises(cudnn_shim.Error, match="cudnnTransformTensor") as refused:
        cudnn_shim.transform(x, numpy.empty((1, 2, 3, 5), numpy.float32))
    assert refused.value.status == 2000 and refused.value.call == "cudnnTransformTensor"
    with pytest.raises(BufferError, match="only a view"):
        cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "NCHW", (1, 1, 1, 1)).__dlpack__(copy=True)
    with pytest.raises(cudnn_shim.Error):
        cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "NCXW", (1, 1, 1, 1))
    with pytest.raises(ValueError, match="out"):
        cudnn_shim.softmax(x, out=numpy.empty((1, 2, 3, 5), numpy.float32))


X = numpy.ones((1, 3, 6, 6), numpy.float32)
W = numpy.ones((4, 3, 3, 3), numpy.float32)
P = numpy.ones(3, numpy.float32)

NO_ARRAYS = [[[1.0, 2.0]], (1.0,), 1.5, "x", numpy.float32(3), {1: 2}]


@pytest.mark.parametrize("wrong", NO_ARRAYS, ids=repr)
def test_what_is_no_array_is_named(wrong):
    names = {
        "x": lambda: cudnn_shim.activation(wrong, "relu"),
        "w": lambda: cudnn_shim.convolution(X, wrong),
        "bias": lambda: cudnn_shim.convolution(X, W, bias=wrong),
        "out": lambda: cudnn_shim.activation(X, "relu", out=wrong),
        "dy": lambda: cudnn_shim.convolution_backward_data(W, wrong, X.shape),
        "source": lambda: cudnn_shim.transform(wrong, X.copy()),
        "a": lambda: cudnn_shim.matmul(wrong, X),
        "b": lambda: cudnn_shim.matmul(X, wrong),
        "y": lambda: cudnn_shim.softmax_backward(wrong, X),
        "scale": lambda: cudnn_shim.batch_norm(X, wrong, P, P, P),
        "running_mean": lambda: cudnn_shim.batch_norm_training(X, P, P, running_mean=wrong, running_variance=P.copy()),
    }
    for name, made in names.items():
        with pytest.raises(ValueError, match=f"^{name}: {type(wrong).__name__} is no array"):
            made()


def test_arrays_without_a_view_are_named():
    for wrong in (numpy.array([None]), numpy.array(["a"]), numpy.ones((1, 2), ">f4")):
        with pytest.raises(ValueError, match="^x: numpy.ndarray gives no view by DLPack: "):
            cudnn_shim.activation(wrong, "relu")
    with pytest.raises(cudnn_shim.Error, match="x: .*128 bits"):
        cudnn_shim.activation(numpy.ones((1, 2), complex), "relu")


class Fixed:
    """An array of a library whose elements cannot be assigned, exported without flags."""

    def __init__(self, memory):
        self.memory = memory

    def __dlpack__(self, **_):
        return self.memory.__dlpack__()

    def __dlpack_device__(self):
        return 1, 0


def test_arrays_that_cannot_be_assigned_are_not_written():
    memory = cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "NCHW", X.shape)
    before = bytes(memory._bytes)
    with pytest.raises(ValueError, match="out: arrays of test_arrays are immutable"):
        cudnn_shim.activation(X, "relu", out=Fixed(memory))
    assert bytes(memory._bytes) == before
    # What they hold is read.
    assert (cudnn_shim.transform(Fixed(memory), X.copy()) == 0).all()


def test_memory_takes_results():
    memory = cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "NHWC", X.shape)
    assert cudnn_shim.activation(X, "relu", out=memory) is memory
    assert (numpy.from_dlpack(memory) == X).all()


def test_a_negated_view_of_torch_is_refused():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; install it: pip install torch")
    view = torch.ones(2, 2, dtype=torch.complex64).conj().imag
    with pytest.raises(ValueError, match="x: a negated view"):
        cudnn_shim.activation(view, "relu")
    with pytest.raises(ValueError, match="x: torch.Tensor gives no view by DLPack: .*gradient"):
        cudnn_shim.activation(torch.ones(2, 2, requires_grad=True), "relu")


def test_torch_tensors_are_arrays_too(random):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; install it: pip install torch")
    x = torch.randn(2, 3, 4, 5)
    last = cudnn_shim.transform(x, torch.empty_like(x, memory_format=torch.channels_last))
    assert torch.equal(last, x)
    half = cudnn_shim.transform(x, torch.empty(x.shape, dtype=torch.bfloat16))
    assert torch.equal(half, x.to(torch.bfloat16))
    ours = torch.from_dlpack(cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "PyTorch:channels_last", x.shape))
    assert ours.is_contiguous(memory_format=torch.channels_last)
