// Transposes by width, a tile at a time.
#include "tiled.cuh"

#define TRANSPOSE(WIDTH) \
    extern "C" __global__ void __launch_bounds__(THREADS) transpose_w##WIDTH(const Tiled p) { transpose<WIDTH>(p); }
TRANSPOSE(1)
TRANSPOSE(2)
TRANSPOSE(4)
TRANSPOSE(8)
TRANSPOSE(16)
TRANSPOSE(32)
#undef TRANSPOSE
