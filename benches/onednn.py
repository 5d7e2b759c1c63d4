"""oneDNN through its C interface: reorders, and the layers between convolutions."""

import ctypes as c
import pathlib
import subprocess
import tempfile

# Types that the benchmarks have rows of.
TYPES = {"f32": "dnnl_f32", "f16": "dnnl_f16", "bf16": "dnnl_bf16", "s8": "dnnl_s8", "u8": "dnnl_u8"}
BLOCKED = ("nChw8c", "nChw16c", "nChw32c")
# Constants whose values differ between versions.
NAMES = [
    *TYPES.values(),
    *("dnnl_" + tag for tag in BLOCKED),
    *("dnnl_cpu", "dnnl_stream_default_flags", "dnnl_forward_inference", "dnnl_forward_training", "dnnl_backward"),
    *("dnnl_eltwise_relu", "dnnl_eltwise_clip", "dnnl_eltwise_linear", "dnnl_eltwise_logistic", "dnnl_eltwise_tanh"),
    *("dnnl_eltwise_elu", "dnnl_eltwise_swish", "dnnl_softmax_accurate", "dnnl_softmax_log", "dnnl_pooling_max"),
    *("dnnl_pooling_avg_include_padding", "dnnl_use_scale", "dnnl_use_shift", "dnnl_use_global_stats"),
    *("dnnl_lrn_across_channels", "dnnl_query_workspace_md"),
    *("DNNL_ARG_" + name for name in ("FROM", "TO", "SRC", "DST", "DIFF_SRC", "DIFF_DST", "WORKSPACE", "MEAN", "VARIANCE")),
    *("DNNL_ARG_" + name for name in ("SCALE", "SHIFT", "DIFF_SCALE", "DIFF_SHIFT")),
]


def add_options(parser):
    parser.add_argument("--libdnnl", help="oneDNN's library, to be measured as well")
    parser.add_argument("--include", help="folder of its headers; default: include beside its folder")


def opened(options):
    """The library that the options name, or None."""
    if not options.libdnnl:
        return None
    beside = pathlib.Path(options.libdnnl).parent.parent / "include"
    return Dnnl(options.libdnnl, options.include or beside)


def longs(values):
    return (c.c_int64 * 12)(*values)


class Dnnl:
    """Makes calls that run a primitive; RuntimeError where oneDNN has none."""

    def __init__(self, path, include):
        self.lib = c.CDLL(path)
        self.values = self.constants(include)
        self.engine, self.stream = c.c_void_p(), c.c_void_p()
        self.call("engine_create", c.byref(self.engine), self.values["dnnl_cpu"], c.c_size_t(0))
        self.call("stream_create", c.byref(self.stream), self.engine, self.values["dnnl_stream_default_flags"])
        # What primitives use as long as they live.
        self.kept = []

        class Version(c.Structure):
            _fields_ = [("major", c.c_int), ("minor", c.c_int), ("patch", c.c_int)]

        self.lib.dnnl_version.restype = c.POINTER(Version)
        v = self.lib.dnnl_version().contents
        self.version = f"{v.major}.{v.minor}.{v.patch}"

    @staticmethod
    def constants(include):
        """Asked of the C compiler."""
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "values.c"), pathlib.Path(folder, "values")
            prints = "".join(f'printf("%d\\n", (int){name});' for name in NAMES)
            header = "oneapi/dnnl/dnnl_types.h"
            if not pathlib.Path(include, header).exists():
                header = "dnnl_types.h"
            source.write_text(f"#include <stdio.h>\n#include <{header}>\nint main(void) {{ {prints} return 0; }}\n")
            subprocess.run(["cc", f"-I{include}", source, "-o", program], check=True)
            values = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
        return dict(zip(NAMES, map(int, values)))

    def call(self, name, *args):
        status = getattr(self.lib, "dnnl_" + name)(*args)
        if status:
            raise RuntimeError(f"dnnl_{name}: status {status}")

    def __getattr__(self, name):
        """Constants without their prefix: `self.eltwise_relu`."""
        if name == "values":
            raise AttributeError(name)
        return self.values["dnnl_" + name]

    def described(self, dtype, dims, strides=None, tag=None):
        desc = c.c_void_p()
        if dtype not in TYPES or (tag and tag not in BLOCKED):
            raise RuntimeError(f"no {dtype} {tag}")
        kind = self.values[TYPES[dtype]]
        form = ("tag", self.values["dnnl_" + tag]) if tag else ("strides", longs(strides))
        self.call(f"memory_desc_create_with_{form[0]}", c.byref(desc), len(dims), longs(dims), kind, form[1])
        return desc

    def tensor(self, tensor, dtype):
        """One of PyTorch's, and its memory."""
        return self.described(dtype, tensor.shape, tensor.stride()), c.c_void_p(tensor.data_ptr())

    def made(self, name, *args):
        """The description of a primitive."""
        desc = c.c_void_p()
        self.call(f"{name}_primitive_desc_create", c.byref(desc), *args)
        return desc

    def workspace(self, desc):
        """What a forward pass leaves for its gradient."""
        space = c.c_void_p()
        self.lib.dnnl_primitive_desc_query_md.restype = c.c_void_p
        form = c.c_void_p(self.lib.dnnl_primitive_desc_query_md(desc, self.query_workspace_md, 0))
        # Memory of oneDNN's own.
        self.call("memory_create", c.byref(space), form, self.engine, c.c_void_p(-1))
        return space

    def runner(self, desc, **operands):
        """A call that executes a description on its operands, by the names of their arguments: of memory that is there, or
        (description, pointer)."""
        primitive = c.c_void_p()
        self.call("primitive_create", c.byref(primitive), desc)

        class Argument(c.Structure):
            _fields_ = [("which", c.c_int), ("memory", c.c_void_p)]

        arguments = (Argument * len(operands))()
        for argument, (name, operand) in zip(arguments, operands.items()):
            memory = operand
            if isinstance(operand, tuple):
                memory = c.c_void_p()
                self.call("memory_create", c.byref(memory), operand[0], self.engine, operand[1])
            argument.which, argument.memory = self.values["DNNL_ARG_" + name], memory.value

        def run():
            self.call("primitive_execute", primitive, self.stream, len(operands), arguments)
            self.call("stream_wait", self.stream)

        return run

    def reorder(self, src, dst):
        """From (description, pointer) to (description, pointer)."""
        desc = self.made("reorder", src[0], self.engine, dst[0], self.engine, None)
        return self.runner(desc, FROM=src, TO=dst)

    def eltwise(self, name, x, y, dtype, alpha=0.0, beta=0.0):
        """y = f(x)."""
        x, y = self.tensor(x, dtype), self.tensor(y, dtype)
        numbers = c.c_float(alpha), c.c_float(beta)
        desc = self.made(
            "eltwise_forward", self.engine, self.forward_inference, self.values["dnnl_eltwise_" + name], x[0], y[0], *numbers, None
        )
        return self.runner(desc, SRC=x, DST=y)

    def eltwise_gradient(self, name, x, dy, dx, dtype, alpha=0.0, beta=0.0):
        """dx from x and dy."""
        x, dy, dx = (self.tensor(t, dtype) for t in (x, dy, dx))
        kind, numbers = self.values["dnnl_eltwise_" + name], (c.c_float(alpha), c.c_float(beta))
        forward = self.made("eltwise_forward", self.engine, self.forward_training, kind, x[0], x[0], *numbers, None)
        desc = self.made("eltwise_backward", self.engine, kind, dx[0], dy[0], x[0], *numbers, forward, None)
        return self.runner(desc, SRC=x, DIFF_DST=dy, DIFF_SRC=dx)

    def softmax(self, name, x, y, dtype):
        """Over channels."""
        x, y = self.tensor(x, dtype), self.tensor(y, dtype)
        kind = self.values["dnnl_softmax_" + name]
        return self.runner(
            self.made("softmax_forward", self.engine, self.forward_inference, kind, x[0], y[0], 1, None), SRC=x, DST=y
        )

    def pooling(self, name, x, y, dtype, window, stride, pad):
        """Square windows; averages count the padding."""
        x, y = self.tensor(x, dtype), self.tensor(y, dtype)
        form = [longs([number] * 2) for number in (stride, window, 0, pad, pad)]
        kind = self.values["dnnl_pooling_" + name]
        desc = self.made("pooling_forward", self.engine, self.forward_inference, kind, x[0], y[0], *form, None)
        return self.runner(desc, SRC=x, DST=y)

    def pooling_gradient(self, name, x, dy, dx, dtype, window, stride, pad):
        """dx from dy and, of maxima, from what a forward pass on x left."""
        x, dy, dx = (self.tensor(t, dtype) for t in (x, dy, dx))
        form = [longs([number] * 2) for number in (stride, window, 0, pad, pad)]
        kind = self.values["dnnl_pooling_" + name]
        forward = self.made("pooling_forward", self.engine, self.forward_training, kind, x[0], dy[0], *form, None)
        desc = self.made("pooling_backward", self.engine, kind, dx[0], dy[0], *form, forward, None)
        if name != "max":
            return self.runner(desc, DIFF_DST=dy, DIFF_SRC=dx)
        space, y = self.workspace(forward), c.c_void_p()
        self.call("memory_create", c.byref(y), dy[0], self.engine, c.c_void_p(-1))
        self.runner(forward, SRC=x, DST=y, WORKSPACE=space)()
        return self.runner(desc, DIFF_DST=dy, DIFF_SRC=dx, WORKSPACE=space)

    def vectors(self, **tensors):
        """Numbers of channels."""
        return {name: self.tensor(tensor, "f32") for name, tensor in tensors.items()}

    def batch_norm(self, x, y, dtype, epsilon, training, **vectors):
        """SCALE, SHIFT, MEAN, VARIANCE: given, or made if `training`."""
        x, y = self.tensor(x, dtype), self.tensor(y, dtype)
        flags = self.use_scale | self.use_shift | (0 if training else self.use_global_stats)
        kind = self.forward_training if training else self.forward_inference
        form = (kind, x[0], y[0], c.c_float(epsilon), flags, None)
        desc = self.made("batch_normalization_forward", self.engine, *form)
        return self.runner(desc, SRC=x, DST=y, **self.vectors(**vectors))

    def batch_norm_gradient(self, x, dy, dx, dtype, epsilon, **vectors):
        """dx and DIFF_SCALE, DIFF_SHIFT from SCALE and the MEAN and VARIANCE of x."""
        x, dy, dx = (self.tensor(t, dtype) for t in (x, dy, dx))
        number, flags = c.c_float(epsilon), self.use_scale | self.use_shift
        forward = self.made(
            "batch_normalization_forward", self.engine, self.forward_training, x[0], x[0], number, flags, None
        )
        form = (self.backward, dx[0], dy[0], x[0], number, flags, forward, None)
        desc = self.made("batch_normalization_backward", self.engine, *form)
        return self.runner(desc, SRC=x, DIFF_DST=dy, DIFF_SRC=dx, **self.vectors(**vectors))

    def lrn(self, x, y, dtype, size, alpha, beta, k):
        """Over neighbouring channels."""
        x, y = self.tensor(x, dtype), self.tensor(y, dtype)
        numbers = map(c.c_float, (alpha, beta, k))
        form = (self.forward_inference, self.lrn_across_channels, x[0], y[0], c.c_int64(size), *numbers, None)
        return self.runner(self.made("lrn_forward", self.engine, *form), SRC=x, DST=y)
