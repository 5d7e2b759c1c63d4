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
    const u32 step = THREADS / CONVERT_SIDE;
#pragma unroll 1
    for (u32 row = first; row < CONVERT_SIDE; row += step) {
        const u64 a = place.a + row, b = place.b + lane;
        if (a < p.extent_a && b < p.extent_b) {
            tile[row][lane] = Held(read_element(operation, place.src + i64(a) * p.src_a + i64(b) * from));
        }
    }
    __syncthreads();
#pragma unroll 1
    for (u32 row = first; row < CONVERT_SIDE; row += step) {
        const u64 a = place.a + lane, b = place.b + row;
        if (a < p.extent_a && b < p.extent_b) {
            write_element(operation, place.dst + i64(b) * p.dst_b + i64(a) * to, tile[lane][row]);
        }
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
