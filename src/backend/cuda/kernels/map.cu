// Padding and folding: every element of the destination finds its source.
#include "general.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2) map_i32(const Mapped p) { map<i32, u32>(p); }

extern "C" __global__ void __launch_bounds__(THREADS, 2) map_i64(const Mapped p) { map<i64, u64>(p); }
