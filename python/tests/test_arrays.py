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
    del memory
    other[...] = 3
    del other
    gc.collect()
    assert gone() is not None and (one == 3).all()
    del one
    gc.collect()
    assert gone() is None and not _dlpack.exports


def test_a_capsule_that_nobody_takes_is_given_back():
    memory = cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "NCHW", (1, 1, 2, 2))
    capsule = memory.__dlpack__(max_version=(1, 0))
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
    with pytest.raises(BufferError):
        cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "NCHW", (1, 1, 1, 1)).__dlpack__()
    with pytest.raises(cudnn_shim.Error):
        cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "NCXW", (1, 1, 1, 1))
    with pytest.raises(ValueError, match="out"):
        cudnn_shim.softmax(x, out=numpy.empty((1, 2, 3, 5), numpy.float32))


def test_torch_tensors_are_arrays_too(random):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; install it: pip install torch")
    x = torch.randn(2, 3, 4, 5)
    last = cudnn_shim.transform(x, torch.empty_like(x, memory_format=torch.channels_last))
    assert torch.equal(last, x)
    half = cudnn_shim.transform(x, torch.empty(x.shape, dtype=torch.bfloat16))
    assert torch.equal(half, x.to(torch.bfloat16))
    ours = torch.from_dlpack(cudnn_shim.Memory(cudnn_shim.DataType.FLOAT, "PyTorch:channels_last", x.shape))
    assert ours.is_contiguous(memory_format=torch.channels_last)
