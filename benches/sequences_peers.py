"""Runs PyTorch beside cudnn-shim on attention, CTC losses and causal convolutions, in one process and in turns; and times the smallest calls of
recurrent networks.

usage: sequences_peers.py LIBCUDNN [--threads N] [--rounds N] [NAME...]

Every row prints microseconds a call (best and median of the rounds), what the best round is in the unit of its kind, and the speed as a multiple
of PyTorch's. Attention is nn.MultiheadAttention of 8 heads and 512 units without biases, on 8 sequences; training is the forward call and all
gradients. A loss is what it costs and its gradient in front of the softmax. A causal convolution reads and writes its tensor once: its unit is
the speed of a copy. Results are compared before anything is measured.
"""

import ctypes as c
import statistics

import torch
import torch.nn.functional as F
from recurrent_peers import FLOAT, TOLERANCE, Layer, at, measured, opened

HEADS, WIDTH, BATCH = 8, 512, 8
TIME, SEQUENCE, BEAM, VECTOR = range(4)


class Attention:
    unit = "GFLOP/s"
    tolerance = TOLERANCE

    def __init__(self, library, positions, trained):
        self.library, self.trained, self.positions = library, trained, positions
        self.torch = torch.nn.MultiheadAttention(WIDTH, HEADS, bias=False)
        none, each = None, WIDTH // HEADS
        self.desc = library.descriptor("Attn", "SetAttnDescriptor", 0, HEADS, c.c_double(each**-0.5), FLOAT, FLOAT, 0, none, none,
                                       *[WIDTH] * 3, *[each] * 3, WIDTH, positions, positions, BATCH, 1)  # fmt: skip
        extents, axes, lengths = (c.c_int * 4)(positions, BATCH, 1, WIDTH), (c.c_int * 4)(TIME, SEQUENCE, BEAM, VECTOR), (c.c_int * BATCH)(*[positions] * BATCH)
        self.data = library.descriptor("SeqData", "SetSeqDataDescriptor", FLOAT, 4, extents, axes, c.c_size_t(BATCH), lengths, none)
        sizes = [c.c_size_t() for _ in range(3)]
        library.call("GetMultiHeadAttnBuffers", library.handle, self.desc, *map(c.byref, sizes))
        self.weights, self.work, self.kept = (torch.zeros(-(-size.value // 4)) for size in sizes)
        if not trained:
            inference = [c.c_size_t() for _ in range(2)]
            library.call("GetMultiHeadAttnBuffers", library.handle, self.desc, *map(c.byref, inference), none)
            self.work = torch.zeros(-(-inference[1].value // 4))
        projections = [*self.torch.in_proj_weight.detach().reshape(3, HEADS, each, WIDTH), self.torch.out_proj.weight.detach().reshape(WIDTH, HEADS, each).permute(1, 0, 2)]
        for kind, values in enumerate(projections):
            self.group(kind).copy_(values)
        self.lengths = torch.full([BATCH], positions, dtype=torch.int32)
        self.low, self.high = ((c.c_int * positions)(*[end] * positions) for end in (0, 1 << 30))
        self.x = torch.rand(positions, BATCH, WIDTH) * 2 - 1
        self.y, self.dy = torch.zeros_like(self.x), torch.rand_like(self.x)
        self.gradients, self.dw = [torch.zeros_like(self.x) for _ in range(3)], torch.zeros_like(self.weights)
        products = 4 * positions * WIDTH * WIDTH + 2 * positions * positions * WIDTH
        self.work_done = 2 * BATCH * products * (3 if trained else 1)

    def group(self, kind):
        """The weights of a projection as [head, to, from]."""
        desc, address = self.library.descriptor("Tensor"), c.c_void_p()
        self.library.call("GetMultiHeadAttnWeights", self.library.handle, self.desc, kind, c.c_size_t(self.weights.nbytes), at(self.weights), desc, c.byref(address))
        code, rank, dims, strides = c.c_int(), c.c_int(), (c.c_int * 3)(), (c.c_int * 3)()
        self.library.call("GetTensorNdDescriptor", desc, 3, c.byref(code), c.byref(rank), dims, strides)
        return self.weights.as_strided(list(dims), list(strides), (address.value - self.weights.data_ptr()) // 4)

    def spaces(self):
        kept = (c.c_size_t(self.kept.nbytes), at(self.kept)) if self.trained else (c.c_size_t(0), None)
        return c.c_size_t(self.weights.nbytes), at(self.weights), c.c_size_t(self.work.nbytes), at(self.work), *kept

    def forward(self):
        x, d, lengths = at(self.x), self.data, at(self.lengths)
        self.library.call("MultiHeadAttnForward", self.library.handle, self.desc, -1, self.low, self.high, lengths, lengths, d, x, None, d, x, d, x,
                          d, at(self.y), *self.spaces())  # fmt: skip

    def ours(self):
        self.forward()
        if not self.trained:
            return
        x, d, lengths, dy = at(self.x), self.data, at(self.lengths), at(self.dy)
        dq, dk, dv = map(at, self.gradients)
        self.library.call("MultiHeadAttnBackwardData", self.library.handle, self.desc, self.low, self.high, lengths, lengths, d, dy, d, dq, x, d, dk, x,
                          d, dv, x, *self.spaces())  # fmt: skip
        size, weights, *rest = self.spaces()
        self.dw.zero_()
        self.library.call("MultiHeadAttnBackwardWeights", self.library.handle, self.desc, 0, d, x, d, x, d, x, d, dy, size, weights, at(self.dw), *rest)

    def theirs(self):
        if not self.trained:
            with torch.no_grad():
                return self.torch(self.x, self.x, self.x, need_weights=False)[0]
        x = [self.x.clone().requires_grad_() for _ in range(3)]
        self.torch.zero_grad()
        out = self.torch(*x, need_weights=False)[0]
        out.backward(self.dy)
        return out.detach()

    def result(self):
        self.ours()
        return self.y


class Loss:
    unit = "ns a cell"
    # Sums of logarithms over all steps, in binary32.
    tolerance = 3 * TOLERANCE

    def __init__(self, library, steps, classes, label):
        self.library = library
        self.x = torch.randn(steps, BATCH, classes)
        self.labels = torch.randint(1, classes, (BATCH, label), dtype=torch.int32)
        self.lengths, self.inputs = (torch.full([BATCH], n, dtype=torch.int32) for n in (label, steps))
        self.dims = library.descriptor("Tensor", "SetTensorNdDescriptor", FLOAT, 3, (c.c_int * 3)(steps, BATCH, classes), (c.c_int * 3)(BATCH * classes, classes, 1))
        # The softmax is part of it.
        self.loss = library.descriptor("CTCLoss", "SetCTCLossDescriptor_v9", FLOAT, 1, 0, label)
        size = c.c_size_t()
        library.call("GetCTCLossWorkspaceSize_v8", library.handle, 0, self.loss, self.dims, self.dims, c.byref(size))
        self.work, self.costs, self.gradient = torch.zeros(size.value, dtype=torch.uint8), torch.zeros(BATCH), torch.zeros_like(self.x)
        self.cells = steps * BATCH * (2 * label + 1)

    def ours(self):
        self.library.call("CTCLoss_v8", self.library.handle, 0, self.loss, self.dims, *map(at, (self.x, self.labels, self.lengths, self.inputs, self.costs)),
                          self.dims, at(self.gradient), c.c_size_t(self.work.nbytes), at(self.work))  # fmt: skip

    def theirs(self, kind=torch.float32):
        x = self.x.to(kind, copy=True).requires_grad_()
        F.ctc_loss(F.log_softmax(x, 2), self.labels, self.inputs, self.lengths, reduction="sum").backward()
        return x.grad

    def result(self):
        self.ours()
        return self.gradient


class Convolution:
    unit = "of a copy"
    tolerance = TOLERANCE

    def __init__(self, library, channels, length, taps):
        self.library, self.sizes = library, (4, channels, length, taps)
        self.x, self.weight, self.bias = torch.randn(4, channels, length), torch.randn(channels, taps) / taps, torch.randn(channels)
        self.y, self.other = torch.zeros_like(self.x), torch.zeros_like(self.x)

    def ours(self):
        self.library.call("CausalConv1dForward", None, *map(at, (self.x, self.weight, self.bias, self.y)), *self.sizes, FLOAT, 0)

    def theirs(self):
        taps = self.sizes[3]
        with torch.no_grad():
            return F.conv1d(F.pad(self.x, (taps - 1, 0)), self.weight[:, None], self.bias, groups=self.sizes[1])

    def copy(self):
        self.other.copy_(self.x)

    def result(self):
        self.ours()
        return self.y


ROWS = {
    **{f"attention-{n}": (Attention, n, False) for n in (64, 128, 256, 512)},
    **{f"attention-train-{n}": (Attention, n, True) for n in (64, 128, 256, 512)},
    "ctc-200x32-label-30": (Loss, 200, 32, 30),
    "ctc-400x1000-label-50": (Loss, 400, 1000, 50),
    "ctc-1000x64-label-120": (Loss, 1000, 64, 120),
    **{f"causal-taps-{taps}": (Convolution, 512, 2048, taps) for taps in (2, 4, 8, 64, 256, 1024)},
}


def small_calls(library, rounds, threads):
    """A recurrent network of one step and eight units, and the question where a matrix of its weights is."""
    layer = Layer(library, "LSTM", 1, 8, 1, False)
    size, matrix, bias = c.c_size_t(layer.weights.nbytes), library.descriptor("Tensor"), library.descriptor("Tensor")
    m, b = c.c_void_p(), c.c_void_p()
    place = (library.handle, layer.rnn, 0, size, at(layer.weights), 0, matrix, c.byref(m), bias, c.byref(b))
    calls = {"LSTM of one step, 8 units": ("cudnnRNNForward", layer.forward_arguments()), "GetRNNWeightParams": ("cudnnGetRNNWeightParams", place)}
    many = 1000

    def repeated(function, arguments):
        return lambda: [function(*arguments) for _ in range(many)]

    for name, (function, arguments) in calls.items():
        # What Python takes for a call with as many arguments is no time of the library's.
        both = {"call": getattr(library.lib, function), "idle": library.lib.cudnnGetVersion}
        times = measured({who: repeated(call, arguments) for who, call in both.items()}, rounds, threads)
        call, idle = (min(times[who]) / many * 1e6 for who in both)
        print(f"{name:36}{call - idle:8.2f} us, and {idle:.2f} for Python's call")


def main():
    given, library = opened(__doc__)
    print(f"{given.threads} threads, {given.rounds} rounds; PyTorch {torch.__version__}")
    print(f"{'':28}{'us':>10}{'median':>10}{'':22}{'PyTorch':>9}")
    for name, (kind, *sizes) in ROWS.items():
        if given.names and name not in given.names:
            continue
        row = kind(library, *sizes)
        # PyTorch's own loss in binary32 is some thousandths off.
        want = row.theirs(torch.float64) if kind is Loss else row.theirs()
        error = float((row.result() - want).abs().max() / want.abs().max())
        assert error <= kind.tolerance, f"{name}: differs by {error}"
        calls = {"ours": row.ours, "theirs": row.theirs} | ({"copy": row.copy} if kind is Convolution else {})
        times = measured(calls, given.rounds, given.threads)
        best = min(times["ours"])
        value = {Attention: lambda: row.work_done / best / 1e9, Loss: lambda: best / row.cells * 1e9, Convolution: lambda: min(times["copy"]) / best}[kind]()
        print(f"{name:28}{best * 1e6:10.1f}{statistics.median(times['ours']) * 1e6:10.1f}{value:12.2f} {kind.unit:9}{min(times['theirs']) / best:9.2f}", flush=True)
    if not given.names:
        small_calls(library, given.rounds, given.threads)


if __name__ == "__main__":
    main()
