// Any nest, element by element: moves by width, conversions, and the walk in order.
#include "general.cuh"

// BLOCKS: of a multiprocessor, where few bytes of a thread ask for many threads.
#define STRIDED(BYTES, BLOCKS)                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) strided_w##BYTES##_i32(const Strided p) { \
        strided_move<i32, u32, BYTES>(p);                                                                   \
    }                                                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS) strided_w##BYTES##_i64(const Strided p) {         \
        strided_move<i64, u64, BYTES>(p);                                                                   \
    }
STRIDED(1, 5)
STRIDED(2, 5)
STRIDED(4, 1)
STRIDED(8, 1)
STRIDED(16, 1)
STRIDED(32, 1)
#undef STRIDED

extern "C" __global__ void __launch_bounds__(THREADS) convert_strided_i32(const Strided p) {
    strided_convert<i32, u32>(p);
}

extern "C" __global__ void __launch_bounds__(THREADS) convert_strided_i64(const Strided p) {
    strided_convert<i64, u64>(p);
}

extern "C" __global__ void __launch_bounds__(32) ordered(const Strided p) { walk_in_order(p); }
