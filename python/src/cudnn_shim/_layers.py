"""Layers as functions of arrays. Shapes are N, C, spatial whatever the strides: a channels-last array is a transposed view."""

from __future__ import annotations

import ctypes as C
from collections.abc import Sequence
from typing import Any, Union

from ._library import Owned, call, current_handle
from ._tensor import DataType, Memory, Result, SupportsDLPack, Tensor, TensorDescriptor, empty_like, integer, ints

Ints = Union[int, Sequence[int]]
Padding = Union[Ints, str]

_ACTIVATIONS = {"sigmoid": 0, "relu": 1, "tanh": 2, "clipped_relu": 3, "elu": 4, "identity": 5, "swish": 6}
_POOLING = {"max": 0, "average": 1, "average_exclude_padding": 2}
_SOFTMAX = {"fast": 0, "accurate": 1, "log": 2}
_SOFTMAX_MODES = {"instance": 0, "channel": 1}
_CROSS_CORRELATION, _TRUE_CONVOLUTION = 1, 0
_PROPAGATE_NAN = 1
_NCHW, _NHWC = 0, 1


class _Filter(Owned):
    kind = "FilterDescriptor"


class _Convolution(Owned):
    kind = "ConvolutionDescriptor"


class _Pooling(Owned):
    kind = "PoolingDescriptor"


class _Activation(Owned):
    kind = "ActivationDescriptor"


class _Performance(C.Structure):
    """`cudnnConvolution*AlgoPerf_t`: what a query tells of one algorithm."""

    _fields_ = [
        ("algorithm", C.c_int),
        ("status", C.c_int),
        ("time", C.c_float),
        ("memory", C.c_size_t),
        ("determinism", C.c_int),
        ("math_type", C.c_int),
        ("reserved", C.c_int * 3),
    ]


def _choice(table: dict[str, int], name: str, value: str) -> int:
    if value not in table:
        raise ValueError(f"{name}: {value!r} is none of {', '.join(table)}")
    return table[value]


def _each(value: Ints, count: int, name: str) -> tuple[int, ...]:
    """One number for each spatial dimension."""
    if isinstance(value, str) or not hasattr(value, "__len__"):
        return (integer(value, name),) * count
    if len(value) != count:
        raise ValueError(f"{name}: {len(value)} numbers for {count} spatial dimensions")
    return tuple(integer(number, name) for number in value)


def _spatial(tensor: Tensor, name: str) -> int:
    """How many spatial dimensions an image has."""
    if len(tensor.dims) < 3:
        raise ValueError(f"{name}: shape {tensor.dims}; must be two dimensions and one to six spatial ones")
    return len(tensor.dims) - 2


def _packed_strides(dims: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides of dims that are packed in this order, the last fastest."""
    strides, step = [0] * len(dims), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= dims[axis]
    return tuple(strides)


def _filter_format(tensor: Tensor) -> int | None:
    """NCHW or NHWC for an array that is packed so, else none; a filter descriptor has no strides."""
    rank = len(tensor.dims)
    orders = {_NCHW: range(rank), _NHWC: [0, *range(2, rank), 1]}
    for form, order in orders.items():
        wanted = _packed_strides(tensor.dims, order)
        if all(dim == 1 or have == want for dim, have, want in zip(tensor.dims, tensor.strides, wanted)):
            return form
    return None


class _Weights:
    """A filter K, C / groups, spatial as the library wants it: packed in one of its formats, copied there if it is not."""

    def __init__(self, w: SupportsDLPack) -> None:
        self.tensor = Tensor(w, "w")
        self.window = self.tensor.dims[-_spatial(self.tensor, "w") :]
        form = _filter_format(self.tensor)
        if form is None:
            w = transform(w, empty_like(w, self.tensor.dims))
            self.tensor, form = Tensor(w, "w"), _NCHW
        self.dims, self.data = self.tensor.dims, self.tensor.data
        self.descriptor = _filter(self.tensor.data_type, form, self.dims)


def _filter(data_type: DataType, form: int, dims: Sequence[int]) -> _Filter:
    made = _Filter()
    call("cudnnSetFilterNdDescriptor", made, data_type, form, len(dims), ints(dims))
    return made


def _padded(padding: Padding, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> tuple[int, ...]:
    """The padding at either side of each spatial dimension. `same` keeps the extents, `valid` is none."""
    if padding == "valid":
        return (0,) * len(window)
    if padding != "same":
        if isinstance(padding, str):
            raise ValueError(f"padding: {padding!r}; must be numbers, 'same' or 'valid'")
        return _each(padding, len(window), "padding")
    if any(stride != 1 for stride in strides):
        raise ValueError(f"padding: 'same' keeps the extents, and stride {tuple(strides)} does not; must be numbers")
    added = [dilation * (extent - 1) for extent, dilation in zip(window, dilations)]
    if any(total % 2 for total in added):
        raise ValueError(
            f"padding: 'same' adds {tuple(added)} for the window {tuple(window)}, which does not divide in two equal "
            "sides; pad x by hand"
        )
    return tuple(total // 2 for total in added)


def _convolution(
    data_type: DataType, window: Sequence[int], padding: Padding, stride: Ints, dilation: Ints, groups: int, flip: bool
) -> _Convolution:
    made, spatial = _Convolution(), len(window)
    strides, dilations = _each(stride, spatial, "stride"), _each(dilation, spatial, "dilation")
    call(
        "cudnnSetConvolutionNdDescriptor", made, spatial, ints(_padded(padding, window, strides, dilations)),
        ints(strides), ints(dilations), _TRUE_CONVOLUTION if flip else _CROSS_CORRELATION, data_type.accumulator,
    )
    call("cudnnSetConvolutionGroupCount", made, integer(groups, "groups"))
    return made


def _algorithm(query: str, *descriptors: Any) -> tuple[int, Any, int]:
    """The algorithm that the library ranks first, a workspace for it, and its size in bytes."""
    found, best = C.c_int(), _Performance()
    call(query, current_handle(), *descriptors, 1, C.byref(found), C.byref(best))
    if found.value == 0 or best.status != 0:
        raise ValueError(f"{query}: no algorithm computes this problem")
    return best.algorithm, C.create_string_buffer(max(best.memory, 1)), best.memory


def transform(source: SupportsDLPack, out: Any, *, alpha: float = 1.0, beta: float = 0.0) -> Any:
    """`out = alpha * source + beta * out`, whatever the strides and types of either. Returns `out`.

    Shapes agree but for extents of 1 in the source, which repeat.
    """
    x, y = Tensor(source, "source"), Tensor(out, "out").writable("out")
    scaling = y.data_type.scaling
    call(
        "cudnnTransformTensor", current_handle(), C.byref(scaling(alpha)), x.descriptor, x.data,
        C.byref(scaling(beta)), y.descriptor, y.data,
    )
    return out


def matmul(a: SupportsDLPack, b: SupportsDLPack, *, out: Any = None) -> Any:
    """The products of the matrices in the last two dimensions of a (.., m, k) and b (.., k, n), of any strides.

    The other dimensions are batches; those of extent 1 are shared by all.
    """
    left, right = Tensor(a, "a"), Tensor(b, "b")
    if len(left.dims) != len(right.dims) or len(left.dims) < 2:
        raise ValueError(f"a, b: shapes {left.dims} and {right.dims}; must have the same number of dimensions, at least 2")
    batch = tuple(max(one, other) for one, other in zip(left.dims[:-2], right.dims[:-2]))
    c = Result(out, a, (*batch, left.dims[-2], right.dims[-1]))
    one, zero = c.one_and_zero()
    call(
        "cudnnShimMatmul", current_handle(), one, left.descriptor, left.data, right.descriptor, right.data, zero,
        c.descriptor, c.data,
    )
    return c.finished()


def convolution(
    x: SupportsDLPack,
    w: SupportsDLPack,
    *,
    bias: SupportsDLPack | None = None,
    activation: str | None = None,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
    flip: bool = False,
    out: Any = None,
) -> Any:
    """A convolution of x (N, C, spatial) with w (K, C / groups, spatial), with bias (K) and activation (`relu`, ...).

    Windows are not mirrored unless `flip` is set. `stride`, `padding` and `dilation` are one number or one for each
    spatial dimension; `padding` may be `same`, for stride 1, or `valid`. The result (N, K, spatial) is `out`, or a new array like x.
    """
    source, weights = Tensor(x, "x"), _Weights(w)
    spatial = _spatial(source, "x")
    problem = _convolution(source.data_type, weights.window, padding, stride, dilation, groups, flip)
    shape = (C.c_int * len(source.dims))()
    call(
        "cudnnGetConvolutionNdForwardOutputDim", problem, source.descriptor, weights.descriptor, len(shape),
        C.byref(shape),
    )
    y = Result(out, x, tuple(shape))
    one, zero = y.one_and_zero()
    operands = (source.descriptor, weights.descriptor, problem, y.descriptor)
    algorithm, workspace, size = _algorithm("cudnnGetConvolutionForwardAlgorithm_v7", *operands)
    head = (
        current_handle(), one, source.descriptor, source.data, weights.descriptor, weights.data, problem, algorithm,
        C.byref(workspace), size, zero,
    )
    if bias is None and activation is None:
        call("cudnnConvolutionForward", *head, y.descriptor, y.data)
        return y.finished()
    addend = Tensor(_zeros(x, weights.dims[0]) if bias is None else bias, "bias")
    along = TensorDescriptor.strided(
        addend.data_type, (1, weights.dims[0]) + (1,) * spatial, (weights.dims[0],) + (1,) * (spatial + 1)
    )
    packed = addend.dims == (weights.dims[0],) and (addend.strides == (1,) or addend.dims == (1,))
    if bias is not None and not packed:
        raise ValueError(f"bias: shape {addend.dims}, strides {addend.strides}; must be {weights.dims[0]} packed numbers")
    function = _activation(activation or "identity", 0.0)
    call(
        "cudnnConvolutionBiasActivationForward", *head, y.descriptor, y.data, along, addend.data, function,
        y.descriptor, y.data,
    )
    return y.finished()


def _zeros(like: Any, count: int) -> Any:
    made = empty_like(like, (count,))
    # New `Memory` is zero already.
    if not isinstance(made, Memory):
        made[...] = 0
    return made


def _shape(shape: Sequence[int]) -> tuple[int, ...]:
    if not hasattr(shape, "__len__"):
        raise ValueError(f"shape: {shape!r}; must be the extents of all dimensions")
    return tuple(integer(extent, "shape") for extent in shape)


def convolution_backward_data(
    w: SupportsDLPack,
    dy: SupportsDLPack,
    shape: Sequence[int],
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
    flip: bool = False,
    out: Any = None,
) -> Any:
    """The gradient of a convolution's x, of this shape; also a transposed convolution of dy."""
    weights, gradient = _Weights(w), Tensor(dy, "dy")
    dx = Result(out, dy, _shape(shape))
    problem = _convolution(dx.data_type, weights.window, padding, stride, dilation, groups, flip)
    operands = (weights.descriptor, gradient.descriptor, problem, dx.descriptor)
    algorithm, workspace, size = _algorithm("cudnnGetConvolutionBackwardDataAlgorithm_v7", *operands)
    one, zero = dx.one_and_zero()
    call(
        "cudnnConvolutionBackwardData", current_handle(), one, weights.descriptor, weights.data, gradient.descriptor,
        gradient.data, problem, algorithm, C.byref(workspace), size, zero, dx.descriptor, dx.data,
    )
    return dx.finished()


def convolution_backward_filter(
    x: SupportsDLPack,
    dy: SupportsDLPack,
    shape: Sequence[int],
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
    flip: bool = False,
    out: Any = None,
) -> Any:
    """The gradient of a convolution's w, of this shape (K, C / groups, spatial)."""
    source, gradient = Tensor(x, "x"), Tensor(dy, "dy")
    dw = Result(out, x, _shape(shape))
    form = _filter_format(dw)
    if form is None:
        raise ValueError(f"out: strides {dw.strides} are neither packed nor packed with channels last")
    descriptor = _filter(dw.data_type, form, dw.dims)
    window = dw.dims[-_spatial(dw, "shape") :]
    problem = _convolution(source.data_type, window, padding, stride, dilation, groups, flip)
    operands = (source.descriptor, gradient.descriptor, problem, descriptor)
    algorithm, workspace, size = _algorithm("cudnnGetConvolutionBackwardFilterAlgorithm_v7", *operands)
    one, zero = dw.one_and_zero()
    call(
        "cudnnConvolutionBackwardFilter", current_handle(), one, source.descriptor, source.data, gradient.descriptor,
        gradient.data, problem, algorithm, C.byref(workspace), size, zero, descriptor, dw.data,
    )
    return dw.finished()


def _pooling(mode: str, window: Ints, stride: Ints | None, padding: Ints, spatial: int) -> _Pooling:
    made, extents = _Pooling(), _each(window, spatial, "window")
    steps = extents if stride is None else _each(stride, spatial, "stride")
    call(
        "cudnnSetPoolingNdDescriptor", made, _choice(_POOLING, "mode", mode), _PROPAGATE_NAN, spatial, ints(extents),
        ints(_each(padding, spatial, "padding")), ints(steps),
    )
    return made


def pooling(
    x: SupportsDLPack,
    window: Ints,
    *,
    stride: Ints | None = None,
    padding: Ints = 0,
    mode: str = "max",
    out: Any = None,
) -> Any:
    """The maximum or average over windows of x (N, C, spatial). `stride` is the window's extent if it is not given.

    `mode` is `max`, `average` (padding counts as zeros) or `average_exclude_padding`.
    """
    source = Tensor(x, "x")
    problem = _pooling(mode, window, stride, padding, _spatial(source, "x"))
    shape = (C.c_int * len(source.dims))()
    call("cudnnGetPoolingNdForwardOutputDim", problem, source.descriptor, len(shape), C.byref(shape))
    y = Result(out, x, tuple(shape))
    one, zero = y.one_and_zero()
    call(
        "cudnnPoolingForward", current_handle(), problem, one, source.descriptor, source.data, zero, y.descriptor, y.data
    )
    return y.finished()


def pooling_backward(
    y: SupportsDLPack,
    dy: SupportsDLPack,
    x: SupportsDLPack,
    window: Ints,
    *,
    stride: Ints | None = None,
    padding: Ints = 0,
    mode: str = "max",
    out: Any = None,
) -> Any:
    """The gradient of the x of `pooling`."""
    pooled, gradient, source = Tensor(y, "y"), Tensor(dy, "dy"), Tensor(x, "x")
    problem = _pooling(mode, window, stride, padding, _spatial(source, "x"))
    dx = Result(out, x, source.dims)
    one, zero = dx.one_and_zero()
    call(
        "cudnnPoolingBackward", current_handle(), problem, one, pooled.descriptor, pooled.data, gradient.descriptor,
        gradient.data, source.descriptor, source.data, zero, dx.descriptor, dx.data,
    )
    return dx.finished()


def _activation(mode: str, coefficient: float) -> _Activation:
    made = _Activation()
    call(
        "cudnnSetActivationDescriptor", made, _choice(_ACTIVATIONS, "mode", mode), _PROPAGATE_NAN,
        C.c_double(coefficient),
    )
    return made


def activation(x: SupportsDLPack, mode: str, *, coefficient: float = 0.0, out: Any = None) -> Any:
    """`relu`, `sigmoid`, `tanh`, `clipped_relu`, `elu`, `swish` or `identity` of each element.

    `coefficient` is the ceiling of `clipped_relu` and the alpha of `elu`. `out` may be x.
    """
    source, function = Tensor(x, "x"), _activation(mode, coefficient)
    y = Result(out, x, source.dims)
    one, zero = y.one_and_zero()
    call(
        "cudnnActivationForward", current_handle(), function, one, source.descriptor, source.data, zero, y.descriptor,
        y.data,
    )
    return y.finished()


def activation_backward(
    y: SupportsDLPack, dy: SupportsDLPack, x: SupportsDLPack, mode: str, *, coefficient: float = 0.0, out: Any = None
) -> Any:
    """The gradient of the x of `activation`."""
    value, gradient, source, function = Tensor(y, "y"), Tensor(dy, "dy"), Tensor(x, "x"), _activation(mode, coefficient)
    dx = Result(out, x, source.dims)
    one, zero = dx.one_and_zero()
    call(
        "cudnnActivationBackward", current_handle(), function, one, value.descriptor, value.data, gradient.descriptor,
        gradient.data, source.descriptor, source.data, zero, dx.descriptor, dx.data,
    )
    return dx.finished()


def softmax(x: SupportsDLPack, *, mode: str = "channel", algorithm: str = "accurate", out: Any = None) -> Any:
    """Softmax over C at every N and pixel (`channel`), or over all of an image (`instance`).

    `algorithm` is `accurate`, `fast` (without the maximum, as cuDNN has it) or `log`.
    """
    source = Tensor(x, "x")
    y = Result(out, x, source.dims)
    one, zero = y.one_and_zero()
    call(
        "cudnnSoftmaxForward", current_handle(), _choice(_SOFTMAX, "algorithm", algorithm),
        _choice(_SOFTMAX_MODES, "mode", mode), one, source.descriptor, source.data, zero, y.descriptor, y.data,
    )
    return y.finished()


def softmax_backward(
    y: SupportsDLPack, dy: SupportsDLPack, *, mode: str = "channel", algorithm: str = "accurate", out: Any = None
) -> Any:
    """The gradient of the x of `softmax`."""
    value, gradient = Tensor(y, "y"), Tensor(dy, "dy")
    dx = Result(out, dy, value.dims)
    one, zero = dx.one_and_zero()
    call(
        "cudnnSoftmaxBackward", current_handle(), _choice(_SOFTMAX, "algorithm", algorithm),
        _choice(_SOFTMAX_MODES, "mode", mode), one, value.descriptor, value.data, gradient.descriptor, gradient.data,
        zero, dx.descriptor, dx.data,
    )
    return dx.finished()
