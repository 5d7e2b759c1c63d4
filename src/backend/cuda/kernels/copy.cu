// Copies of one run, by the width that both operands are aligned to.
#include "linear.cuh"

#define COPY(BYTES) \
    extern "C" __global__ void __launch_bounds__(THREADS) copy_w##BYTES(const Linear p) { copy<BYTES>(p); }
COPY(1)
COPY(2)
COPY(4)
COPY(8)
COPY(16)
#undef COPY
