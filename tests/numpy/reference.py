"""What the library should compute, written with NumPy alone: conversions, scaling, padding, folding."""

import ml_dtypes
import numpy as np

import cudnn

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2

# Per element type: name, NumPy type of one scalar, scalars per element. BOOLEAN is one byte.
TYPES = {
    cudnn.FLOAT: ("f32", np.float32, 1),
    cudnn.DOUBLE: ("f64", np.float64, 1),
    cudnn.HALF: ("f16", np.float16, 1),
    cudnn.INT8: ("s8", np.int8, 1),
    cudnn.INT32: ("s32", np.int32, 1),
    cudnn.INT8X4: ("s8x4", np.int8, 4),
    cudnn.UINT8: ("u8", np.uint8, 1),
    cudnn.UINT8X4: ("u8x4", np.uint8, 4),
    cudnn.INT8X32: ("s8x32", np.int8, 32),
    cudnn.BFLOAT16: ("bf16", BF16, 1),
    cudnn.INT64: ("s64", np.int64, 1),
    cudnn.BOOLEAN: ("bool", np.bool_, 1),
    cudnn.E4M3: ("f8e4m3", E4M3, 1),
    cudnn.E5M2: ("f8e5m2", E5M2, 1),
}

# Of the narrow floating types: fraction bits, smallest normal exponent, largest value, what is beyond it.
NARROW = {
    np.float16: (10, -14, 65504.0, np.inf),
    BF16: (7, -126, float(ml_dtypes.finfo(BF16).max), np.inf),
    E4M3: (3, -6, 448.0, 448.0),
    E5M2: (2, -14, 57344.0, 57344.0),
}
INTEGERS = (np.int8, np.uint8, np.int32, np.int64)
WIDE = (np.float64, np.int32, np.int64)


def odd(integers):
    """int64 as float64 without rounding twice later: low bits that do not fit end up in one sticky bit."""
    magnitude = np.abs(integers).view(np.uint64)  # abs of the smallest int64 is 2^63 as unsigned
    sticky = (magnitude >> np.uint64(11)) | ((magnitude & np.uint64(0x7FF)) != 0).astype(np.uint64)
    value = np.where(magnitude < 2**53, magnitude.astype(np.float64), sticky.astype(np.float64) * 2048.0)
    return np.where(integers < 0, -value, value)


def narrowed(values, kind):
    """float64 rounded once, to nearest even, to a narrow floating type."""
    fraction, smallest, largest, beyond = NARROW[kind]
    finite = np.isfinite(values)
    safe = np.where(finite, values, 0.0)
    exponent = np.maximum(np.frexp(safe)[1] - 1, smallest)
    quantum = np.ldexp(1.0, exponent - fraction)
    rounded = np.rint(safe / quantum) * quantum
    rounded = np.where(np.abs(rounded) > largest, np.copysign(beyond, rounded), rounded)
    rounded = np.where(np.isinf(values), np.copysign(beyond, values), rounded)
    return np.where(np.isnan(values), np.nan, rounded).astype(kind)


def integral(values, kind):
    """Floating values to an integer type: nearest even, saturating, NaN to 0."""
    limits = np.iinfo(kind)
    rounded = np.rint(np.where(np.isnan(values), 0, values).astype(np.float64))
    # float(limits.max) of int64 is 2^63 itself, which does not fit: compare before converting.
    inside = (rounded >= float(limits.min)) & (rounded < float(limits.max) + (0 if kind is np.int64 else 1))
    result = np.where(inside, rounded, 0).astype(kind)
    return np.where(inside, result, np.where(rounded < 0, limits.min, limits.max).astype(kind))


def convert(values, kind):
    """`values` as `kind`, every value converted directly, with one rounding."""
    source = values.dtype.type
    if source is kind:
        return values
    if kind is np.bool_:
        return values.astype(np.float64) != 0  # no non-zero value of any type becomes 0, and NaN != 0
    if kind in INTEGERS:
        if source in INTEGERS:
            limits = np.iinfo(kind)
            wide = values.astype(np.int64)
            return np.clip(wide, limits.min, limits.max).astype(kind)
        return values.astype(kind) if source is np.bool_ else integral(values, kind)
    if kind in NARROW:
        return narrowed(odd(values) if source is np.int64 else values.astype(np.float64), kind)
    return values.astype(kind)  # to f32 or f64: NumPy rounds once, to nearest even


def arithmetic(kinds):
    """The type that scaling is computed in."""
    return np.float64 if any(kind in WIDE for kind in kinds) else np.float32


def scaled(x, old, kind, present, alpha, beta):
    """`alpha * x + beta * old` as `kind`; where nothing of x is `present`, `beta * old`, which for beta = 1 is `old` as it is.

    `old` is memory: of a BOOLEAN the bytes, of which every one but 0 is true. All shapes are equal.
    """
    y = old != 0 if kind is np.bool_ else old
    if beta == 0 and alpha == 1:
        result = convert(x, kind)
    else:
        real = arithmetic((x.dtype.type, kind))
        result = real(alpha) * x.astype(real)
        if beta != 0:
            result = result + real(beta) * y.astype(real)
        result = convert(result, kind)
    if present.all():
        return result
    if beta == 0:
        padding = np.zeros_like(old)
    elif beta == 1:
        padding = old
    else:
        real = arithmetic((kind,))
        padding = convert(real(beta) * y.astype(real), kind).astype(old.dtype)
    return np.where(present, result.astype(old.dtype), padding)


def padded(a, before, after):
    """Zeros around `a`, or `a` cropped where a pad is negative."""
    for axis, (b, e) in enumerate(zip(before, after)):
        keep = slice(max(0, -b), a.shape[axis] - max(0, -e))
        a = a[(slice(None),) * axis + (keep,)]
    return np.pad(a, [(max(0, b), max(0, e)) for b, e in zip(before, after)])


def folded(a, fold):
    """Blocks of `fold` spatial positions become channels: (i_1*f_2 + i_2)*C + c; partial blocks end in zeros."""
    n, c, *spatial = a.shape
    blocks = [-(-s // f) for s, f in zip(spatial, fold)]
    a = np.pad(a, [(0, 0), (0, 0)] + [(0, b * f - s) for b, f, s in zip(blocks, fold, spatial)])
    a = a.reshape([n, c] + [e for pair in zip(blocks, fold) for e in pair])
    rank = len(spatial)
    inner = [3 + 2 * i for i in range(rank)]
    outer = [2 + 2 * i for i in range(rank)]
    return a.transpose([0] + inner + [1] + outer).reshape([n, int(np.prod(fold)) * c] + blocks)


def unfolded(a, fold, unit):
    """The inverse: C becomes ceil(C / prod(fold)), counted in units; channels that the last group lacks are zeros."""
    n, c, *spatial = a.shape
    rank, groups = len(spatial), int(np.prod(fold))
    channels = -(-c // (unit * groups)) * unit
    a = np.pad(a, [(0, 0), (0, channels * groups - c)] + [(0, 0)] * rank)
    a = a.reshape([n] + list(fold) + [channels] + spatial)
    order = [0, 1 + rank] + [axis for i in range(rank) for axis in (2 + rank + i, 1 + i)]
    return a.transpose(order).reshape([n, channels] + [s * f for s, f in zip(spatial, fold)])


def transformed(a, before, after, fold, direction, unit):
    """What TransformTensorEx does to positions: fold pads first, unfold pads last."""
    if direction == cudnn.FOLD:
        return folded(padded(a, before, after), fold)
    return padded(unfolded(a, fold, unit), before, after)
