// Transposes that convert, a tile at a time.
#include "tiled.cuh"

// A tile of 64 elements along a by 32 along b, held as wide values: `Held` is u32 for binary32 and u64 for everything.
enum : u32 { SIDE_A = 64, SIDE_B = 32 };

template <typename Held>
__device__ __forceinline__ void transpose_convert(const Tiled &p, const Operation &operation) {
    // One spare column: neighbours along a lie in different banks.
    __shared__ Held tile[SIDE_A][SIDE_B + 1];
    const u32 from = size_of(operation.src), to = size_of(operation.dst);
    const Place place = place_of(p, SIDE_A, SIDE_B);
    // Neighbouring threads read neighbours along b, and write neighbours along a.
    const u32 read_b = threadIdx.x % SIDE_B, read_a = threadIdx.x / SIDE_B;
    const u32 write_a = threadIdx.x % SIDE_A, write_b = threadIdx.x / SIDE_A;
    // All rows of a thread are loaded before the first is looked at.
    enum : u32 { STEP_A = THREADS / SIDE_B, STEP_B = THREADS / SIDE_A, EACH = SIDE_A / STEP_A };
    {
        const char *x[EACH];
        u32 reads = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            const u64 a = place.a + read_a + i * STEP_A, b = place.b + read_b;
            x[i] = place.src + i64(a) * p.src_a + i64(b) * from;
            reads |= u32(a < p.extent_a && b < p.extent_b) << i;
        }
        Held held[EACH];
        fetch(operation.src, x, held, reads);
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            if (reads >> i & 1) tile[read_a + i * STEP_A][read_b] = Held(widened(operation, held[i]));
        }
    }
    __syncthreads();
    // Not before: what both halves need at once would leave room for fewer threads.
    char *y[EACH];
    u32 writes = 0;
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
        const u64 a = place.a + write_a, b = place.b + write_b + i * STEP_B;
        y[i] = place.dst + i64(b) * p.dst_b + i64(a) * to;
        writes |= u32(a < p.extent_a && b < p.extent_b) << i;
    }
    Held old[EACH] = {};
    if (operation.steps & BLENDED) fetch(operation.dst, y, old, writes);
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
        if (writes >> i & 1) write_over(operation, y[i], tile[write_a][write_b + i * STEP_B], old[i]);
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

extern "C" __global__ void __launch_bounds__(THREADS, 4) transpose_convert_any(const Tiled p) {
    transpose_convert<u64>(p, p.operation);
}

#define CONVERT(NAME, SRC, DST)                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, 6) transpose_convert_##NAME(const Tiled p) { \
        transpose_pair<SRC, DST>(p);                                                                \
    }
COMMON_PAIRS(CONVERT)
#undef CONVERT
