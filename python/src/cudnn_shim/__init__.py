"""cudnn-shim from Python: the layers of the descriptor API on the arrays of NumPy, PyTorch and JAX, without a GPU.

    import numpy, cudnn_shim

    x = numpy.random.rand(1, 3, 32, 32).astype(numpy.float32)
    w = numpy.random.rand(8, 3, 3, 3).astype(numpy.float32)
    y = cudnn_shim.pooling(cudnn_shim.convolution(x, w, padding=1, activation="relu"), 2)

Arrays are read by DLPack where they lie, whatever their strides and type; no element is copied on the way.
`library_path()` names the `libcudnn.so.9` that comes with the package, and `python -m cudnn_shim run PROGRAM` starts a
program on it.
"""

from ._layers import (
    activation,
    activation_backward,
    convolution,
    convolution_backward_data,
    convolution_backward_filter,
    matmul,
    pooling,
    pooling_backward,
    softmax,
    softmax_backward,
    transform,
)
from ._library import Error, Handle, call, current_handle, library_path, version
from ._normalise import (
    batch_norm,
    batch_norm_backward,
    batch_norm_training,
    local_response_norm,
    local_response_norm_backward,
)
from ._tensor import DataType, Memory, SupportsDLPack, Tensor, TensorDescriptor

__version__ = "0.2.0"

__all__ = [
    "DataType",
    "Error",
    "Handle",
    "Memory",
    "SupportsDLPack",
    "Tensor",
    "TensorDescriptor",
    "activation",
    "activation_backward",
    "batch_norm",
    "batch_norm_backward",
    "batch_norm_training",
    "call",
    "convolution",
    "convolution_backward_data",
    "convolution_backward_filter",
    "current_handle",
    "library_path",
    "local_response_norm",
    "local_response_norm_backward",
    "matmul",
    "pooling",
    "pooling_backward",
    "softmax",
    "softmax_backward",
    "transform",
    "version",
]
