"""Calls of every layer on arrays: given x and a number of the first image, each returns its results by logical dims.

What a layer takes beside x - filters, parameters, gradients, places - is drawn once for a shape, so that the same images meet
the same numbers whatever batch they come in.
"""

from ctypes import byref, c_double, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

import numpy as np

import cudnn
from reference import TYPES, convert
from tensors import Tensor, make, packed, poison

WIDE = {cudnn.DOUBLE: cudnn.DOUBLE}


def own(code):
    """The type of parameters and statistics."""
    return WIDE.get(code, cudnn.FLOAT)


class Calls:
    def __init__(self, lib, seed, whole=False, images=8):
        """Numbers are whole or not, and drawn for so many images of a shape, of which a call may have some."""
        self.lib, self.seed, self.whole, self.count = lib, seed, whole, images
        self.rng = np.random.default_rng(seed)
        create = lib.create
        self.conv, self.filter, self.activation = create("ConvolutionDescriptor"), create("FilterDescriptor"), create("ActivationDescriptor")
        self.pooling, self.lrn, self.transformer = create("PoolingDescriptor"), create("LRNDescriptor"), create("SpatialTransformerDescriptor")
        self.made, self.drawn = [], {}

    # --- Arrays and tensors ---

    def draw(self, rng, shape):
        return rng.integers(-3, 4, shape).astype(np.float64) if self.whole else rng.standard_normal(shape)

    def fixed(self, which, shape):
        """The same numbers for the same shape; those of the last few are kept."""
        if len(self.drawn) > 16:
            self.drawn.clear()
        key = which, tuple(shape)
        if key not in self.drawn:
            self.drawn[key] = self.draw(np.random.default_rng([self.seed, which, *shape]), shape)
            self.drawn[key].flags.writeable = False
        return self.drawn[key]

    def images(self, which, first, shape):
        if shape[0] > self.count:
            return self.fixed(which, shape)
        return self.fixed(which, (self.count, *shape[1:]))[first : first + shape[0]]

    def put(self, code, values, layout="nchw"):
        tensor = make(self.lib, self.rng, code, tuple(values.shape), [layout if len(values.shape) > 2 else "nchw"])
        tensor.allocate(self.rng, poison(code))
        tensor.write(tensor.raw, convert(values, TYPES[code][1]))
        self.made.append(tensor)
        return tensor

    def room(self, code, shape, layout="nchw"):
        tensor = make(self.lib, self.rng, code, tuple(shape), [layout])
        tensor.allocate(self.rng, poison(code))
        self.made.append(tensor)
        return tensor

    def plain(self, desc, code, values):
        """Parameters of a derived descriptor."""
        tensor = Tensor(code, desc, values.shape, packed(values.shape, range(values.ndim)), "derived")
        tensor.allocate(self.rng, poison(code))
        tensor.write(tensor.raw, convert(values, TYPES[code][1]))
        return tensor

    def call(self, name, *arguments):
        self.lib.call(f"cudnn{name}", self.lib.handle, *arguments)

    def factors(self, code):
        factor = c_double if code == cudnn.DOUBLE else c_float
        return byref(factor(1.0)), byref(factor(0.0))

    @staticmethod
    def of(tensor):
        """A descriptor and its data."""
        return tensor.desc, c_void_p(tensor.address)

    def run(self, name, code, x, layouts=("nchw", "nchw"), first=0, **how):
        kind, *rest = name.split()
        try:
            results = getattr(self, kind)(*rest, code=code, x=x, layouts=layouts, first=first, **how)
            return [tensor.read().copy() for tensor in results]
        finally:
            for tensor in self.made:
                self.lib.destroy("TensorDescriptor", tensor.desc)
            self.made, self.drawn = [], {}

    # --- Layers ---

    def convolve(self, what, direction, code, x, layouts, first):
        n, c, *space = x.shape
        groups = c if what == "depthwise" else 1
        tap, stride = {"dense": (3, 1), "strided": (3, 2), "pointwise": (1, 1), "depthwise": (3, 1)}[what]
        k = c if what == "depthwise" else 6
        out = [(extent + 2 * (tap // 2) - tap) // stride + 1 for extent in space]
        ints = lambda values: (c_int * len(space))(*values)
        same = lambda value: ints([value] * len(space))
        self.lib.call("cudnnSetConvolutionNdDescriptor", self.conv, len(space), same(tap // 2), same(stride), same(1), 1, own(code))
        self.lib.call("cudnnSetConvolutionGroupCount", self.conv, groups)
        dims = (k, c // groups, *[tap] * len(space))
        w = self.put(code, self.fixed(1, dims))
        rank = len(dims)
        self.lib.call("cudnnSetFilterNdDescriptor", self.filter, code, cudnn.NCHW, rank, (c_int * rank)(*dims))
        shape = (n, k, *out)
        one, zero = self.factors(code)
        filters = self.filter, c_void_p(w.address)
        rest = self.conv, 1, None, c_size_t(0), zero
        if direction == "forward":
            source, y = self.put(code, x, layouts[0]), self.room(code, shape, layouts[1])
            self.call("ConvolutionForward", one, *self.of(source), *filters, *rest, *self.of(y))
            return [y]
        dy = self.put(code, self.images(2, first, shape), layouts[1])
        if direction == "data":
            dx = self.room(code, x.shape, layouts[0])
            self.call("ConvolutionBackwardData", one, *filters, *self.of(dy), *rest, *self.of(dx))
            return [dx]
        if direction == "filter":
            source = self.put(code, x, layouts[0])
            dw = self.room(code, dims)
            self.call("ConvolutionBackwardFilter", one, *self.of(source), *self.of(dy), *rest, self.filter, c_void_p(dw.address))
            return [dw]
        bias = self.put(code, self.fixed(3, (1, k, *[1] * len(space))))
        self.lib.call("cudnnSetActivationDescriptor", self.activation, 1, 1, c_double(0.0))
        source, y = self.put(code, x, layouts[0]), self.room(code, shape, layouts[1])
        self.call("ConvolutionBiasActivationForward", one, *self.of(source), *filters, *rest[:-1], one, *self.of(dy), *self.of(bias),
                  self.activation, *self.of(y))  # fmt: skip
        return [y]

    def bias(self, code, x, layouts, first):
        dy = self.put(code, x, layouts[0])
        db = self.room(code, (1, x.shape[1], *[1] * (x.ndim - 2)))
        one, zero = self.factors(code)
        self.call("ConvolutionBackwardBias", one, *self.of(dy), zero, *self.of(db))
        return [db]

    def pool(self, mode, direction, code, x, layouts, first, covers=False):
        """3 by 3 with stride 2, or windows that cover the map."""
        spatial = x.ndim - 2
        same = lambda value: (c_int * spatial)(*[value] * spatial)
        window = (c_int * spatial)(*x.shape[2:]) if covers else same(3)
        self.lib.call("cudnnSetPoolingNdDescriptor", self.pooling, int(mode), 1, spatial, window, same(0 if covers else 1), same(2))
        shape = x.shape[:2] + tuple(1 if covers else (n + 2 - 3) // 2 + 1 for n in x.shape[2:])
        source, y = self.put(code, x, layouts[0]), self.room(code, shape, layouts[1])
        one, zero = self.factors(code)
        self.call("PoolingForward", self.pooling, one, *self.of(source), zero, *self.of(y))
        if direction == "forward":
            return [y]
        dy = self.put(code, self.images(4, first, shape), layouts[1])
        dx = self.room(code, x.shape, layouts[0])
        self.call("PoolingBackward", self.pooling, one, *self.of(y), *self.of(dy), *self.of(source), zero, *self.of(dx))
        return [dx]

    def softmax(self, algorithm, mode, direction, code, x, layouts, first):
        source, y = self.put(code, x, layouts[0]), self.room(code, x.shape, layouts[1])
        one, zero = self.factors(code)
        how = int(algorithm), int(mode)
        self.call("SoftmaxForward", *how, one, *self.of(source), zero, *self.of(y))
        if direction == "forward":
            return [y]
        dy, dx = self.put(code, self.images(5, first, x.shape), layouts[1]), self.room(code, x.shape, layouts[0])
        self.call("SoftmaxBackward", *how, one, *self.of(y), *self.of(dy), zero, *self.of(dx))
        return [dx]

    def activate(self, mode, direction, code, x, layouts, first):
        self.lib.call("cudnnSetActivationDescriptor", self.activation, int(mode), 1, c_double(1.5))
        source, y = self.put(code, x, layouts[0]), self.room(code, x.shape, layouts[1])
        one, zero = self.factors(code)
        self.call("ActivationForward", self.activation, one, *self.of(source), zero, *self.of(y))
        if direction == "forward":
            return [y]
        dy, dx = self.put(code, self.images(6, first, x.shape), layouts[1]), self.room(code, x.shape, layouts[0])
        self.call("ActivationBackward", self.activation, one, *self.of(y), *self.of(dy), *self.of(source), zero, *self.of(dx))
        return [dx]

    def normalise(self, mode, what, code, x, layouts, first, epsilon=1e-3, factor=0.25, running=None, saves=True, family="Batch"):
        """`what` is inference, training, gradient or constant, the gradient at inference; `family` is Batch, Ex or Norm."""
        mode, kind = int(mode), own(code)
        source, y = self.put(code, x, layouts[0]), self.room(code, x.shape, layouts[1])
        desc = self.lib.create("TensorDescriptor")
        self.lib.call("cudnnDeriveBNTensorDescriptor", desc, source.desc, mode)
        group = (1, x.shape[1]) + (x.shape[2:] if mode == 0 else (1,) * (x.ndim - 2))
        number = lambda which, low: self.plain(desc, kind, np.abs(self.fixed(which, group)) + low)
        scale, bias, mean, variance = number(7, 0.5), number(8, 0.0), number(9, 0.0), number(10, 0.25)
        if running is not None:
            mean, variance = (self.plain(desc, kind, np.full(group, running)) for _ in range(2))
        if what == "constant":
            bias, mean = (self.plain(desc, kind, np.zeros(group)) for _ in range(2))
        saved = [self.plain(desc, kind, np.full(group, np.nan)) for _ in range(2)]
        at = lambda tensor: c_void_p(tensor.address)
        one, zero = self.factors(code)
        kept = [at(tensor) for tensor in saved] if saves else [None, None]
        tail = c_double(factor), at(mean), at(variance), c_double(epsilon), *kept
        nothing = None, None, None, c_size_t(0), None, c_size_t(0)
        self.made.append(Tensor(kind, desc, group, scale.strides, "derived"))
        if what in ("inference", "constant"):
            self.call("BatchNormalizationForwardInference", mode, one, zero, *self.of(source), *self.of(y), desc, at(scale), at(bias),
                      at(mean), at(variance), c_double(epsilon))  # fmt: skip
            return [y]
        if family == "Batch":
            self.call("BatchNormalizationForwardTraining", mode, one, zero, *self.of(source), *self.of(y), desc, at(scale), at(bias), *tail)
        elif family == "Ex":
            self.call("BatchNormalizationForwardTrainingEx", mode, 0, one, zero, *self.of(source), None, None, *self.of(y), desc, at(scale),
                      at(bias), *tail, *nothing[1:])  # fmt: skip
        else:
            self.call("NormalizationForwardTraining", mode, 0, 0, one, zero, *self.of(source), desc, at(scale), at(bias), c_double(factor),
                      desc, at(mean), at(variance), c_double(epsilon), *kept, None, None, None, *self.of(y), *nothing[2:], 1)  # fmt: skip
        if what == "training":
            return [y, mean, variance] + saved * saves
        dy, dx = self.put(code, self.images(11, first, x.shape), layouts[1]), self.room(code, x.shape, layouts[0])
        ds, db = (self.plain(desc, kind, np.full(group, np.nan)) for _ in range(2))
        both = one, zero, one, zero, *self.of(source)
        if family == "Batch":
            self.call("BatchNormalizationBackward", mode, *both, *self.of(dy), *self.of(dx), desc, at(scale), at(ds), at(db),
                      c_double(epsilon), *kept)  # fmt: skip
        elif family == "Ex":
            self.call("BatchNormalizationBackwardEx", mode, 0, *both, None, None, *self.of(dy), None, None, *self.of(dx), desc, at(scale),
                      at(bias), at(ds), at(db), c_double(epsilon), *kept, *nothing[1:])  # fmt: skip
        else:
            self.call("NormalizationBackward", mode, 0, 0, *both, None, None, *self.of(dy), None, None, *self.of(dx), desc, at(scale),
                      at(bias), at(ds), at(db), c_double(epsilon), desc, *kept, None, *nothing[2:], 1)  # fmt: skip
        return [dx, ds, db]

    def respond(self, over, direction, code, x, layouts, first, n=5):
        """Across channels, or over space."""
        self.lib.call("cudnnSetLRNDescriptor", self.lrn, c_uint(n), c_double(0.4), c_double(0.75), c_double(1.25))
        source, y = self.put(code, x, layouts[0]), self.room(code, x.shape, layouts[1])
        one, zero = self.factors(code)
        dx = self.room(code, x.shape, layouts[1])
        if over == "channels":
            self.call("LRNCrossChannelForward", self.lrn, 0, one, *self.of(source), zero, *self.of(y))
            if direction == "forward":
                return [y]
            dy = self.put(code, self.images(12, first, x.shape), layouts[0])
            self.call("LRNCrossChannelBackward", self.lrn, 0, one, *self.of(y), *self.of(dy), *self.of(source), zero, *self.of(dx))
            return [dx]
        spare = [self.room(code, x.shape, layouts[0]) for _ in range(2)]
        rest = [c_void_p(tensor.address) for tensor in spare]
        if direction == "forward":
            self.call("DivisiveNormalizationForward", self.lrn, 0, one, *self.of(source), None, *rest, zero, *self.of(y))
            return [y]
        dy = self.put(code, self.images(12, first, x.shape), layouts[0])
        self.call("DivisiveNormalizationBackward", self.lrn, 0, one, *self.of(source), None, c_void_p(dy.address), *rest, zero,
                  *self.of(dx), None)  # fmt: skip
        return [dx]

    def drop(self, code, x, layouts, first, p=0.5, in_place=False):
        """Forward, and backward on the same numbers."""
        size = c_size_t()
        self.lib.call("cudnnDropoutGetStatesSize", self.lib.handle, byref(size))
        states = np.zeros(size.value, np.uint8)
        dropout = self.lib.create("DropoutDescriptor")
        self.lib.call("cudnnSetDropoutDescriptor", dropout, self.lib.handle, c_float(p), c_void_p(states.ctypes.data), size, c_ulonglong(7))
        source, given = (self.put(code, x, layouts[0]) for _ in range(2))
        y, dx = (source, given) if in_place else (self.room(code, x.shape, layouts[0]) for _ in range(2))
        self.lib.call("cudnnDropoutGetReserveSpaceSize", source.desc, byref(size))
        mask = np.full(size.value, 0x5A, np.uint8)
        kept = c_void_p(mask.ctypes.data), size
        self.call("DropoutForward", dropout, *self.of(source), *self.of(y), *kept)
        self.call("DropoutBackward", dropout, *self.of(given), *self.of(dx), *kept)
        self.lib.destroy("DropoutDescriptor", dropout)
        return [y, dx]

    def sample(self, direction, code, x, layouts, first, grid=None):
        n, c, h, w = x.shape
        p, q = 4, 6
        if grid is None:
            grid = np.clip(self.images(13, first, (n, p, q, 2)) * 0.7, -1.4, 1.4)
        p, q = grid.shape[1:3]
        kind = own(code)
        self.lib.call("cudnnSetSpatialTransformerNdDescriptor", self.transformer, 0, kind, 4, (c_int * 4)(n, c, p, q))
        source, places = self.put(code, x, layouts[0]), self.put(kind, grid)
        y = self.room(code, (n, c, p, q), layouts[1])
        one, zero = self.factors(code)
        if direction == "forward":
            self.call("SpatialTfSamplerForward", self.transformer, one, *self.of(source), c_void_p(places.address), zero, *self.of(y))
            return [y]
        dy, dx = self.put(code, self.images(14, first, (n, c, p, q)), layouts[1]), self.room(code, x.shape, layouts[0])
        slopes = self.room(kind, grid.shape)
        self.call("SpatialTfSamplerBackward", self.transformer, one, *self.of(source), zero, *self.of(dx), one, *self.of(dy),
                  c_void_p(places.address), zero, c_void_p(slopes.address))  # fmt: skip
        return [dx, slopes]


CONVOLUTIONS = ("dense", "strided", "pointwise", "depthwise")
# Of one image at a time, whatever the batch.
FORWARD = [
    *(f"convolve {what} {how}" for what in CONVOLUTIONS for how in ("forward", "fused")),
    *(f"pool {mode} forward" for mode in range(4)),
    *(f"softmax {algorithm} {mode} forward" for algorithm in range(3) for mode in range(2)),
    *(f"activate {mode} forward" for mode in range(7)),
    *(f"normalise {mode} inference" for mode in range(2)),
    *(f"respond {over} forward" for over in ("channels", "space")),
    "sample forward",
]
BACKWARD = [
    *(f"convolve {what} {how}" for what in CONVOLUTIONS for how in ("data", "filter")),
    "bias",
    *(f"pool {mode} backward" for mode in range(4)),
    *(f"softmax {algorithm} {mode} backward" for algorithm in range(3) for mode in range(2)),
    *(f"activate {mode} backward" for mode in range(7)),
    *(f"normalise {mode} {what}" for mode in range(2) for what in ("training", "gradient")),
    *(f"respond {over} backward" for over in ("channels", "space")),
    "sample backward",
]
