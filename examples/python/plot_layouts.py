# %% [markdown]
# # Layouts in colour
# Every square is a place in memory, coloured by the channel of the element that lies there; a row is one cache line.
# It needs the package `cudnn_shim` and matplotlib. Run it cell by cell in an editor that knows `# %%`, or as a whole:
# `python plot_layouts.py [PICTURE [N,C,H,W]]`. Of several images every other one is paler.

# %%
import ctypes
import sys

import matplotlib

if len(sys.argv) > 1:
    matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import cudnn_shim

dims = tuple(map(int, sys.argv[2].split(","))) if len(sys.argv) > 2 else (1, 64, 5, 4)

# %%
# The library says which element lies at an offset.


def colours(layout):
    """RGBA of every place in memory, a cache line a row; padding and what lies behind the tensor is white."""
    descriptor = cudnn_shim.TensorDescriptor.named(cudnn_shim.DataType.FLOAT, layout, dims)
    places = descriptor.size // 4
    shown = np.ones((-(-places // 16) * 16, 4))
    index = (ctypes.c_int64 * 4)()
    for offset in range(places):
        try:
            cudnn_shim.call("cudnnShimGetTensorIndex", descriptor, offset, len(dims), ctypes.byref(index))
        except cudnn_shim.Error:
            continue  # padding of a block
        shown[offset] = plt.get_cmap("turbo")(index[1] / max(dims[1] - 1, 1))
        shown[offset, 3] = 0.5 if index[0] % 2 else 1.0
    return shown.reshape(-1, 16, 4)


# %%
layouts = ["NCHW", "NHWC", "NC/32HW32", "CHWN"]
figure, axes = plt.subplots(1, len(layouts), figsize=(12, 8), sharey=True)
for axis, layout in zip(axes, layouts):
    axis.imshow(colours(layout), aspect="auto", interpolation="nearest")
    axis.set_title(layout)
    axis.set_xlabel("element of the line")
axes[0].set_ylabel("line of 64 bytes")
figure.suptitle(" x ".join(map(str, dims)) + " floats in memory, coloured by channel")
figure.tight_layout()

# %%
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=80)
else:
    plt.show()
