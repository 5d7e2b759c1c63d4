// Conversions of one run between the common types.
#include "linear.cuh"

#define CONVERT(NAME, SRC, DST) \
    extern "C" __global__ void __launch_bounds__(THREADS) convert_##NAME(const Linear p) { convert_run<SRC, DST>(p); }
COMMON_PAIRS(CONVERT)
#undef CONVERT
