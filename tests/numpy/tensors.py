"""Random tensors for the differential test: layouts, guarded buffers, contents."""

import faulthandler
import math
import mmap
from ctypes import CDLL, c_size_t, c_void_p
from dataclasses import dataclass

import numpy as np

import cudnn
from reference import INTEGERS, TYPES

GUARD = 64  # scalars in front of and behind every tensor
PAGE = mmap.PAGESIZE
LIBC = CDLL(None)
# A call that leaves its operands dies: where it was made is told.
faulthandler.enable()

# How memory is laid out. Those of inputs repeat elements (stride 0) or let dimensions overlap.
LAYOUTS = ["nchw", "nhwc", "permuted", "padded", "negative"]
INPUT_LAYOUTS = ["repeated", "overlapping"]


def at_the_edge(content, edge):
    """A copy of bytes with a page behind or before that whoever touches dies of."""
    pages = -(-content.size // PAGE) * PAGE
    mapped = mmap.mmap(-1, pages + PAGE)
    begin, gone = (pages - content.size, pages) if edge == "behind" else (PAGE, 0)
    copy = np.frombuffer(mapped, np.uint8, content.size, begin)
    copy[:] = content
    if LIBC.mprotect(c_void_p(copy.ctypes.data - begin + gone), c_size_t(PAGE), 0):
        raise OSError("mprotect")
    return copy


@dataclass
class Tensor:
    """A descriptor, its stored dims and strides (in elements), and memory around logical element 0."""

    code: int
    desc: object
    stored: tuple
    strides: tuple
    how: str
    raw: np.ndarray = None  # bytes, with guards
    base: int = 0  # scalars from the start of raw to logical element 0
    guard: int = 0  # a scalar of raw that is no element

    @property
    def lanes(self):
        return TYPES[self.code][2]

    @property
    def memory_kind(self):
        """The NumPy type that memory is seen as: any byte can be in a BOOLEAN."""
        kind = TYPES[self.code][1]
        return np.uint8 if kind is np.bool_ else kind

    @property
    def address(self):
        return self.raw.ctypes.data + self.base * np.dtype(self.memory_kind).itemsize

    def span(self):
        """Lowest and highest offset of an element."""
        reach = [(d - 1) * s for d, s in zip(self.stored, self.strides)]
        return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)

    def allocate(self, rng, fill):
        """Memory with `fill(scalars)` everywhere: guards and start are of random length, or a page that is not there follows the last
        element, or is in front of the first."""
        low, high = self.span()
        edge = rng.choice(["none", "none", "behind", "before"])
        front, back = (GUARD + int(rng.integers(16)) for _ in range(2))
        self.base = (0 if edge == "before" else front) - low * self.lanes
        scalars = self.base + (high + 1) * self.lanes + (0 if edge == "behind" else back)
        self.guard = scalars - 1 if edge == "before" else 0
        content = fill(scalars).view(np.uint8)
        self.raw = content.copy() if edge == "none" else at_the_edge(content, edge)

    def view(self, raw, kind):
        """Every element of the tensor in `raw`: stored dims, then lanes. NumPy checks the bounds."""
        size = np.dtype(kind).itemsize
        strides = [s * self.lanes * size if d > 1 else size for d, s in zip(self.stored, self.strides)]
        shape = (*self.stored, self.lanes)
        return np.ndarray(shape, kind, raw.data, self.base * size, (*strides, size))

    def read(self, bits=False):
        """The values by logical dims; a BOOLEAN's bytes as they are, if `bits`."""
        view = np.moveaxis(self.view(self.raw, self.memory_kind), -1, 2)
        n, c, lanes, *rest = view.shape
        values = view.reshape([n, c * lanes] + rest).copy()
        return values != 0 if TYPES[self.code][1] is np.bool_ and not bits else values

    def write(self, raw, values):
        """Stores values with logical dims in `raw`, a copy of our own memory."""
        n, c, *rest = self.stored
        values = np.moveaxis(values.reshape([n, c, self.lanes] + rest), 2, -1)
        self.view(raw, self.memory_kind)[...] = values

    def __str__(self):
        return f"{TYPES[self.code][0]} {self.how} {'x'.join(map(str, self.stored))} strides {','.join(map(str, self.strides))}"


def packed(stored, order):
    """Strides of dims packed in `order`, the outermost first."""
    strides, step = [0] * len(stored), 1
    for axis in reversed(order):
        strides[axis], step = step, step * stored[axis]
    return tuple(strides)


def channels_last(rank):
    return [0] + list(range(2, rank)) + [1]


def make(lib, rng, code, logical, layouts, vectors=True):
    """A tensor of logical dims in one of the layouts, or, for vector types and unless not wanted, NCHW_VECT_C."""
    lanes, rank = TYPES[code][2], len(logical)
    stored = (logical[0], logical[1] // lanes, *logical[2:])
    desc = lib.create("TensorDescriptor")
    # The format NHWC of rank 2 is undefined in the original.
    fitting = [how for how in layouts if how != "nhwc" or rank >= 3] + ["vect"] * 3 * (lanes > 1 and vectors)
    how = str(rng.choice(fitting))
    if how in ("nchw", "nhwc", "vect"):
        layout = {"nchw": cudnn.NCHW, "nhwc": cudnn.NHWC, "vect": cudnn.NCHW_VECT_C}[how]
        lib.set_format(desc, layout, code, logical if how == "vect" else stored)
        strides = packed(stored, channels_last(rank) if how == "nhwc" else range(rank))
        got = lib.get(desc)
        size = int(np.prod(stored)) * lanes * np.dtype(TYPES[code][1]).itemsize
        want = (code, logical if how == "vect" else stored, strides, size)
        assert got == want, f"descriptor {how}: {got} instead of {want}"
        return Tensor(code, desc, stored, strides, how)
    order = list(rng.permutation(rank))
    extents = list(stored)
    if how in ("padded", "negative"):
        for axis in order:
            gap = int(rng.integers(3))
            # Gaps in many dimensions multiply: stop where they would take much memory.
            if math.prod(extents) // extents[axis] * (extents[axis] + gap) <= 4 * math.prod(stored) + 5000:
                extents[axis] += gap
    strides = list(packed(extents, order))
    if how == "padded" and rng.random() < 0.3:
        strides = [2 * s for s in strides]
    for axis in range(rank):
        if how == "negative" and rng.random() < 0.5:
            strides[axis] *= -1
        if how == "repeated" and rng.random() < 0.5:
            strides[axis] = 0
        if how == "overlapping":
            strides[axis] = int(rng.integers(-3, 6)) or 1
        if stored[axis] == 1 and rng.random() < 0.5:
            strides[axis] = int(rng.integers(-1000, 1000))
    lib.set_strided(desc, code, stored, strides)
    return Tensor(code, desc, stored, tuple(map(int, strides)), how)


def contents(rng, code):
    """A function that makes that many random scalars of the type, special values among them."""
    kind = TYPES[code][1]
    size = np.dtype(kind).itemsize

    def bits(count):
        return np.frombuffer(rng.bytes(count * size), np.uint8).view(np.uint8 if kind is np.bool_ else kind)

    def integers(count):
        low, high = (0, 256) if kind is np.uint8 else (-128, 128) if kind is np.int8 else (-400, 400)
        return rng.integers(low, high, count).astype(kind)

    def reals(count):
        return (rng.standard_normal(count) * 10.0 ** rng.uniform(-8, 8)).astype(np.float32).astype(kind)

    def specials(count):
        values = [0.0, -0.0, np.nan, np.inf, -np.inf, 0.5, 1.5, 2.5, -0.5, 127.5, 128.5, -128.5, 255.5, 65519, 65520, 1e-8]
        values += [448, 464, 465, 57344, 61440, 61441, 2**31, -(2.0**31), 2**63, -(2.0**63), 3e38, 1e-40, 5e-45, 2**-24, 2**-25]
        return rng.choice(np.array(values), count).astype(kind)

    if kind is np.bool_ or (kind in INTEGERS and rng.random() < 0.5):
        return bits
    makers = [bits, integers] if kind in INTEGERS else [bits, integers, reals, specials]
    return makers[int(rng.integers(len(makers)))]


def poison(code):
    """A function that makes scalars which no result looks like: all bits set, NaN in every floating type."""
    size = np.dtype(TYPES[code][1]).itemsize
    return lambda count: np.full(count * size, 0xFF, np.uint8)
