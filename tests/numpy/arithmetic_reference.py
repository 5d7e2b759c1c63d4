"""What the element-wise calls and reductions should compute, written with NumPy alone."""

import numpy as np

from cudnn import NCHW_VECT_C, NHWC
from reference import BF16, E4M3, E5M2, INTEGERS, arithmetic, convert, scaled

OPS = ["add", "mul", "min", "max", "sqrt", "not"]
REDUCTIONS = ["add", "mul", "min", "max", "amax", "avg", "norm1", "norm2", "mul_no_zeros"]
INDEX_TYPES = [np.uint32, np.uint64, np.uint16, np.uint8]


def value_kind(kind):
    """The type of the host value of SetTensor."""
    return kind if kind in INTEGERS or kind in (np.bool_, np.float64) else np.float32


def added(a, old, kind, alpha, beta):
    """`alpha * a + beta * old` with a broadcast; a term with factor 0 is not there."""
    shape = old.shape
    if alpha == 0:
        return scaled(np.zeros(shape, bool).astype(kind), old, kind, np.zeros(shape, bool), 1.0, beta)
    return scaled(np.broadcast_to(a, shape), old, kind, np.ones(shape, bool), alpha, beta)


def extreme(x, y, largest, propagate):
    """Minimum or maximum with the sign of zero respected and NaN as asked for."""
    better = (x > y) if largest else (x < y)
    worse = (y > x) if largest else (y < x)
    tie = np.where(np.signbit(x) == largest, y, x)  # of equal zeros: +0 is larger
    result = np.where(better, x, np.where(worse, y, tie))
    if propagate:
        return np.where(np.isnan(x), x, np.where(np.isnan(y), y, result))
    return np.where(np.isnan(x), y, np.where(np.isnan(y), x, result))


def operated(op, propagate, real, a, b, old, alphas, beta):
    """OpTensor in the type `real`."""
    shape = old.shape
    a, b, old = (np.broadcast_to(convert(v, real), shape) for v in (a, b, old))
    alphas = [real(alpha) for alpha in alphas]
    if op == 0:
        terms = [alpha * v for alpha, v in zip(alphas, (a, b)) if alpha != 0]
        r = sum(terms[1:], terms[0]) if terms else np.full(shape, -0.0 if beta != 0 else 0.0, real)
    elif op == 1:
        r = (alphas[0] * a) * (alphas[1] * b)
    elif op in (2, 3):
        r = extreme(alphas[0] * a, alphas[1] * b, op == 3, propagate)
    elif op == 4:
        r = np.sqrt(alphas[0] * a)
    else:
        r = real(1) - alphas[0] * a
    return (r + real(beta) * old if beta != 0 else r).astype(real)


def reduced(op, propagate, real, values, axes):
    """(result in the type `real`, flattened indices or None). Sums are those of longer arithmetic, rounded once."""
    x = convert(values, real)
    keep = [axis for axis in range(x.ndim) if axis not in axes]
    shape = [1 if axis in axes else d for axis, d in enumerate(x.shape)]
    rows = x.transpose(keep + list(axes)).reshape(int(np.prod([x.shape[k] for k in keep], dtype=np.int64)), -1)
    if op in (2, 3, 4):
        rows = np.abs(rows) if op == 4 else rows
        missing = np.isnan(rows)
        if propagate:
            lost = missing.any(1)
        else:
            lost = missing.all(1)
        filler = np.inf if op == 2 else -np.inf
        numbers = np.where(missing, filler, rows)
        best = numbers.min(1) if op == 2 else numbers.max(1)
        best = np.where(best == 0, -0.0 if op == 2 else 0.0, best).astype(real)
        if op != 4:
            zeros = (numbers == 0) & (np.signbit(numbers) == (op == 2))
            best = np.where((best == 0) & ~zeros.any(1), -best, best).astype(real)
        found = (rows == best[:, None]) & ~missing
        index = np.where(lost, missing.argmax(1), found.argmax(1))
        result = np.where(lost, np.nan, best).astype(real)
        return result.reshape(shape), index
    with np.errstate(all="ignore"):
        if rows.shape[1] == 1:
            one = rows[:, 0]
            one = np.abs(one) if op in (6, 7) else np.where(one == 0, 1, one) if op == 8 else one
            return one.astype(real).reshape(shape), None
        wide = rows.astype(np.longdouble)
        if op == 0:
            result = wide.sum(1)
        elif op == 1:
            result = wide.prod(1)
        elif op == 5:
            result = wide.sum(1) / rows.shape[1]
        elif op == 6:
            result = np.abs(wide).sum(1)
        elif op == 7:
            result = np.sqrt((wide * wide).sum(1))
        else:
            result = np.where(wide == 0, 1, wide).prod(1)
        return result.astype(real).reshape(shape), None


def reduction_bound(op, real, values, axes, kind, alpha, result):
    """How far each output may be from the exact one: the roundings of the tree, then those of the conversion; unlimited where
    intermediate results may overflow or underflow."""
    x = convert(values, real).astype(np.float64)
    count = int(np.prod([values.shape[axis] for axis in axes], dtype=np.int64))
    depth = 30 + np.log2(max(count, 1))
    # What is not finite decides the result alone; only finite numbers can overflow on the way.
    size = np.where(np.isfinite(x), np.abs(x), 0)
    kwargs = {"axis": axes, "keepdims": True}
    if op in (1, 8):
        logs = np.abs(np.log2(np.where(size == 0, 1, size))).sum(**kwargs)
        spread, magnitude = count * depth, np.abs(result.astype(np.float64))
        wild = logs > (100 if real is np.float32 else 800)
    elif op == 7:
        spread, magnitude = depth, np.sqrt((size**2).sum(**kwargs))
        wild = ((size**2).sum(**kwargs) > np.finfo(real).max / 4) | (((size != 0) & (size**2 < np.finfo(real).tiny * 1e3)).any(**kwargs))
    else:
        spread, magnitude = depth, size.sum(**kwargs) / (count if op == 5 else 1)
        wild = size.sum(**kwargs) > np.finfo(real).max / 4
    # A sum of whole numbers that fit is exact: only the conversion to the destination is left, which `want` has rounded too.
    exact = (op in (0, 6)) & (np.rint(x) == x).all(**kwargs) & (size.sum(**kwargs) < 2.0**23)
    bound = np.where(exact, 0.0, abs(alpha) * spread * np.finfo(real).eps * magnitude)
    step = {BF16: 2.0**-7, E4M3: 2.0**-3, E5M2: 2.0**-2, np.float16: 2.0**-10, np.float32: 2.0**-23, np.float64: 2.0**-52}
    relative = step.get(kind, 0.0)
    largest = np.abs(result.astype(np.float64)) * abs(alpha) + 1e5
    absolute = 1.0 if kind in INTEGERS or kind is np.bool_ else 0.0
    inexact = np.where(bound > 0, relative * np.minimum(largest, 3e38) + absolute, 0.0)
    return np.where(wild & ~exact, np.inf, bound + inexact)


def mask_for(mask, lanes, others):
    """A mask for elements of `lanes` channels beside those of `others`: one element stands for many only of as many."""
    return [m and not (axis == 1 and lanes > 1 and lanes != others) for axis, m in enumerate(mask)]


def masked(dims, mask, lanes):
    """Dims with one element where the mask is set."""
    return [(lanes if axis == 1 else 1) if m else d for axis, (d, m) in enumerate(zip(dims, mask))]


def spread(values, dims):
    """Values whose channels of one element, if they are fewer than those of `dims`, are repeated for every element."""
    channels = values.shape[1]
    return values if channels in (1, dims[1]) else np.concatenate([values] * (dims[1] // channels), 1)


def laid(values, layout, lanes):
    """The elements of a filter in the order of memory."""
    if layout == NCHW_VECT_C:
        k, c, *rest = values.shape
        values = np.moveaxis(values.reshape([k, c // lanes, lanes, *rest]), 2, -1)
    elif layout == NHWC:
        values = np.moveaxis(values, 1, -1)
    return np.ascontiguousarray(values).ravel()
