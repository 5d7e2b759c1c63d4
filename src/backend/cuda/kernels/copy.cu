// Copies of one run: of operands that lie equally far off 16 bytes, and of others.
#include "linear.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) copy_w16(const Linear p) { copy_aligned(p); }

extern "C" __global__ void __launch_bounds__(THREADS) copy_shifted(const Linear p) { copy_shifted_by(p); }
