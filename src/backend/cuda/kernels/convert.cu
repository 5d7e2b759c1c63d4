// Conversions of one run between the common types.
#include "linear.cuh"

// With so few registers that all threads of a multiprocessor have some. Of pairs of one width, which have twice the bytes under
// way, the assembler is left to choose: no number of blocks is asked for.
#define CONVERT(NAME, SRC, DST)                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS, width_of(SRC) == width_of(DST) ? 0 : 8) \
        convert_##NAME(const Linear p) {                                                          \
        convert_run<SRC, DST>(p);                                                                 \
    }
COMMON_PAIRS(CONVERT)
#undef CONVERT
