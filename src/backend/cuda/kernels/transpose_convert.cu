// Transposes that convert, a tile at a time.
#include "tiled.cuh"

// A tile of 32 by 32 elements, held as wide values: `Held` is u32 for binary32 and u64 for everything.
enum { CONVERT_SIDE = 32 };

template <typename Held>
__device__ __forceinline__ void transpose_convert(const Tiled &p, const Operation &operation) {
    // One spare column: neighbours along a lie in different banks.
    __shared__ Held tile[CONVERT_SIDE][CONVERT_SIDE + 1];
    const u32 from = size_of(operation.src), to = size_of(operation.dst);
    const Place place = place_of(p, CONVERT_SIDE, CONVERT_SIDE);
    const u32 lane = threadIdx.x % CONVERT_SIDE, first = threadIdx.x / CONVERT_SIDE;
    // All rows of a thread are loaded before the first is looked at.
    enum : u32 { STEP = THREADS / CONVERT_SIDE, EACH = CONVERT_SIDE / STEP };
    const char *x[EACH];
    char *y[EACH];
    u32 reads = 0, writes = 0;
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
        const u64 a = place.a + first + i * STEP, b = place.b + lane;
        x[i] = place.src + i64(a) * p.src_a + i64(b) * from;
        reads |= u32(a < p.extent_a && b < p.extent_b) << i;
        const u64 c = place.a + lane, d = place.b + first + i * STEP;
        y[i] = place.dst + i64(d) * p.dst_b + i64(c) * to;
        writes |= u32(c < p.extent_a && d < p.extent_b) << i;
    }
    Held held[EACH], old[EACH] = {};
    fetch(operation.src, x, held, reads);
    if (operation.steps & BLENDED) fetch(operation.dst, y, old, writes);
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
        if (reads >> i & 1) tile[first + i * STEP][lane] = Held(widened(operation, held[i]));
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
        if (writes >> i & 1) write_over(operation, y[i], tile[lane][first + i * STEP], old[i]);
    }
}

template <u32 SRC, u32 DST>
__device__ __forceinline__ void transpose_pair(const Tiled &p) {
    Operation operation = p.operation;
    operation.src = SRC;
    operation.dst = DST;
    operation.via = VIA_F32;
    transpose_convert<u32>(p, operation);
}

extern "C" __global__ void __launch_bounds__(THREADS) transpose_convert_any(const Tiled p) {
    transpose_convert<u64>(p, p.operation);
}

#define CONVERT(NAME, SRC, DST)                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS) transpose_convert_##NAME(const Tiled p) { \
        transpose_pair<SRC, DST>(p);                                                                \
    }
COMMON_PAIRS(CONVERT)
#undef CONVERT
