"""What cublasSgemm of host-cuda takes beside NumPy's product, for square matrices of 1 to 2048.

    cargo xtask dist
    python benches/cublas.py target/dist/lib/libcudnn.so.9 target/dist/lib/host-cuda/libcublas.so.12

Set OPENBLAS_NUM_THREADS and CUDNN_SHIM_NUM_THREADS to the same number to compare like with like. A line is one size: the best time of
either in microseconds, and what that is in GFLOP/s.
"""

import ctypes
import os
import sys
import time
from ctypes import byref, c_float, c_void_p

import numpy as np

SIZES = [1, 16, 64, 128, 256, 512, 1024, 2048]


def best(call, seconds=0.5):
    """The shortest of the calls that fit into the time, three at least, after one to warm up."""
    call()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    os.environ["CUDNN_SHIM_BACKEND"] = "cpu"
    # Loaded first, it is the one that cuBLAS multiplies with.
    ctypes.CDLL(sys.argv[1])
    blas = ctypes.CDLL(sys.argv[2])
    handle, one, zero = c_void_p(), c_float(1), c_float(0)
    if blas.cublasCreate_v2(byref(handle)):
        sys.exit("cublasCreate fails: CUDNN_SHIM_HOST_LOG=1 tells why")
    rng = np.random.default_rng(1)
    print("     n   cublasSgemm         us  GFLOP/s   NumPy         us  GFLOP/s")
    for n in SIZES:
        a, b, c, d = (rng.random((n, n), np.float32) for _ in range(4))
        pa, pb, pc = (c_void_p(array.ctypes.data) for array in (a, b, c))
        # Columns of C are rows of NumPy's: C = A B there is B A here.
        ours = best(lambda: blas.cublasSgemm_v2(handle, 0, 0, n, n, n, byref(one), pb, n, pa, n, byref(zero), pc, n))
        theirs = best(lambda: np.matmul(a, b, out=d))
        if not np.allclose(c, d, rtol=1e-4):
            sys.exit(f"{n}: the products differ")
        speed = lambda seconds: 2 * n**3 / seconds / 1e9
        print(f"{n:6} {ours * 1e6:24.1f} {speed(ours):8.1f} {theirs * 1e6:18.1f} {speed(theirs):8.1f}")


if __name__ == "__main__":
    main()
