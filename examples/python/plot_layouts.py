# %% [markdown]
# # Layouts in colour
# Every square is a place in memory, coloured by the channel of the element that lies there; a row is one cache line.
# Run it cell by cell in an editor that knows `# %%`, or as a whole: `python plot_layouts.py LIBRARY [PICTURE]`.

# %%
import ctypes
import sys

import matplotlib

if len(sys.argv) > 2:
    matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import shim

library = shim.Library(*sys.argv[1:2])
dims = (1, 64, 5, 4)

# %%
# The library says which element lies at an offset.


def channels(layout):
    descriptor = library.named(shim.FLOAT, layout, dims)
    index, found = (ctypes.c_int64 * 4)(), []
    for offset in range(int(np.prod(dims))):
        library.call("cudnnShimGetTensorIndex", descriptor.value, ctypes.c_int64(offset), 4, index)
        found.append(index[1])
    return np.array(found).reshape(-1, 16)


# %%
layouts = ["NCHW", "NHWC", "NC/32HW32", "CHWN"]
figure, axes = plt.subplots(1, len(layouts), figsize=(12, 8), sharey=True)
for axis, layout in zip(axes, layouts):
    axis.imshow(channels(layout), cmap="turbo", aspect="auto", interpolation="nearest")
    axis.set_title(layout)
    axis.set_xlabel("element of the line")
axes[0].set_ylabel("line of 64 bytes")
figure.suptitle("1 x 64 x 5 x 4 floats in memory, coloured by channel")
figure.tight_layout()

# %%
if len(sys.argv) > 2:
    figure.savefig(sys.argv[2], dpi=80)
else:
    plt.show()
