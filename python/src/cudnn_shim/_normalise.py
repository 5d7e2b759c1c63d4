"""Normalisations as functions of arrays: by the statistics of a batch, and by neighbouring channels."""

from __future__ import annotations

from typing import Any

from ._layers import _choice, _packed_strides
from ._library import Owned, call, current_handle
from ._tensor import Result, SupportsDLPack, Tensor, TensorDescriptor, integer

_NORM_MODES = {"per_activation": 0, "spatial": 1}


class _Lrn(Owned):
    kind = "LRNDescriptor"


class _Parameters:
    """Scale, bias and statistics of a batch normalisation: arrays of C numbers, or of an image's shape."""

    def __init__(self, x: Tensor, mode: str) -> None:
        self.mode = _choice(_NORM_MODES, "mode", mode)
        self.descriptor = TensorDescriptor()
        call("cudnnDeriveBNTensorDescriptor", self.descriptor, x.descriptor, self.mode)
        self.count = 1
        for extent in self.descriptor.dims:
            self.count *= extent

    def of(self, array: SupportsDLPack | None, name: str, *, written: bool = False) -> Any:
        """Its address, once it is what the descriptor says; NULL for none."""
        if array is None:
            return None
        tensor = Tensor(array, name)
        packed = _packed_strides(tensor.dims, range(len(tensor.dims)))
        strided = any(d > 1 and have != want for d, have, want in zip(tensor.dims, tensor.strides, packed))
        elements = 1
        for extent in tensor.dims:
            elements *= extent
        if elements != self.count or strided or tensor.data_type is not self.descriptor.data_type:
            raise ValueError(
                f"{name}: shape {tensor.dims}, strides {tensor.strides}, {tensor.data_type.name}; must be {self.count} "
                f"packed numbers of type {self.descriptor.data_type.name}"
            )
        if written:
            tensor.writable(name)
        return tensor.data


def batch_norm(
    x: SupportsDLPack,
    scale: SupportsDLPack,
    bias: SupportsDLPack,
    mean: SupportsDLPack,
    variance: SupportsDLPack,
    *,
    epsilon: float = 1e-5,
    mode: str = "spatial",
    out: Any = None,
) -> Any:
    """Batch normalisation with known statistics: `scale * (x - mean) / sqrt(variance + epsilon) + bias`.

    Parameters are FLOAT (DOUBLE for DOUBLE x), one for each channel (`spatial`) or for each element of an image
    (`per_activation`).
    """
    source = Tensor(x, "x")
    parameters = _Parameters(source, mode)
    y = Result(out, x, source.dims)
    one, zero = y.one_and_zero()
    call(
        "cudnnBatchNormalizationForwardInference", current_handle(), parameters.mode, one, zero, source.descriptor,
        source.data, y.descriptor, y.data, parameters.descriptor, parameters.of(scale, "scale"),
        parameters.of(bias, "bias"), parameters.of(mean, "mean"), parameters.of(variance, "variance"), epsilon,
    )
    return y.finished()


def batch_norm_training(
    x: SupportsDLPack,
    scale: SupportsDLPack,
    bias: SupportsDLPack,
    *,
    running_mean: Any = None,
    running_variance: Any = None,
    momentum: float = 0.1,
    epsilon: float = 1e-5,
    mode: str = "spatial",
    out: Any = None,
) -> tuple[Any, Any, Any]:
    """Batch normalisation with the statistics of the batch.

    Returns y, and what the gradient takes: the means, and the inverses of the standard deviations. Running statistics,
    both or none, are updated in place: `(1 - momentum) * running + momentum * new`.
    """
    source = Tensor(x, "x")
    parameters = _Parameters(source, mode)
    y = Result(out, x, source.dims)
    mean, inverse = (Result(None, scale, Tensor(scale, "scale").dims) for _ in range(2))
    one, zero = y.one_and_zero()
    call(
        "cudnnBatchNormalizationForwardTraining", current_handle(), parameters.mode, one, zero, source.descriptor,
        source.data, y.descriptor, y.data, parameters.descriptor, parameters.of(scale, "scale"),
        parameters.of(bias, "bias"), momentum, parameters.of(running_mean, "running_mean", written=True),
        parameters.of(running_variance, "running_variance", written=True), epsilon,
        parameters.of(mean.array, "mean"), parameters.of(inverse.array, "inverse"),
    )
    return y.finished(), mean.finished(), inverse.finished()


def batch_norm_backward(
    x: SupportsDLPack,
    dy: SupportsDLPack,
    scale: SupportsDLPack,
    *,
    mean: SupportsDLPack | None = None,
    inverse: SupportsDLPack | None = None,
    epsilon: float = 1e-5,
    mode: str = "spatial",
    out: Any = None,
) -> tuple[Any, Any, Any]:
    """The gradients of x, scale and bias. `mean` and `inverse` are what `batch_norm_training` returned; without them
    they are computed again."""
    source, gradient = Tensor(x, "x"), Tensor(dy, "dy")
    parameters = _Parameters(source, mode)
    dx = Result(out, x, source.dims)
    d_scale, d_bias = (Result(None, scale, Tensor(scale, "scale").dims) for _ in range(2))
    one, zero = dx.one_and_zero()
    call(
        "cudnnBatchNormalizationBackward", current_handle(), parameters.mode, one, zero, one, zero, source.descriptor,
        source.data, gradient.descriptor, gradient.data, dx.descriptor, dx.data, parameters.descriptor,
        parameters.of(scale, "scale"), parameters.of(d_scale.array, "d_scale"),
        parameters.of(d_bias.array, "d_bias"), epsilon,
        parameters.of(mean, "mean"), parameters.of(inverse, "inverse"),
    )
    return dx.finished(), d_scale.finished(), d_bias.finished()


def _lrn(size: int, alpha: float, beta: float, k: float) -> _Lrn:
    made = _Lrn()
    call("cudnnSetLRNDescriptor", made, integer(size, "size"), alpha, beta, k)
    return made


def local_response_norm(
    x: SupportsDLPack, size: int, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, out: Any = None
) -> Any:
    """`x / (k + alpha / size * sum of squares over size channels) ** beta`."""
    source, problem = Tensor(x, "x"), _lrn(size, alpha, beta, k)
    y = Result(out, x, source.dims)
    one, zero = y.one_and_zero()
    call(
        "cudnnLRNCrossChannelForward", current_handle(), problem, 0, one, source.descriptor, source.data, zero,
        y.descriptor, y.data,
    )
    return y.finished()


def local_response_norm_backward(
    y: SupportsDLPack,
    dy: SupportsDLPack,
    x: SupportsDLPack,
    size: int,
    *,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    out: Any = None,
) -> Any:
    """The gradient of the x of `local_response_norm`."""
    value, gradient, source, problem = Tensor(y, "y"), Tensor(dy, "dy"), Tensor(x, "x"), _lrn(size, alpha, beta, k)
    dx = Result(out, x, source.dims)
    one, zero = dx.one_and_zero()
    call(
        "cudnnLRNCrossChannelBackward", current_handle(), problem, 0, one, value.descriptor, value.data,
        gradient.descriptor, gradient.data, source.descriptor, source.data, zero, dx.descriptor, dx.data,
    )
    return dx.finished()
