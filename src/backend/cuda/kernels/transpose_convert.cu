// Transposes that convert, a tile at a time.
#include "tiled.cuh"

// A tile of 64 elements along a by some along b, held as wide values: `Held` is u32 for binary32 and u64 for everything.
// `tiled.rs` counts tiles by the same numbers.
enum : u32 { SIDE_A = 64 };

template <typename Held>
struct Tile {
    enum : u32 { SIDE_B = 256 / sizeof(Held) };
    // One spare column: neighbours along a lie in different banks.
    Held row[SIDE_A][SIDE_B + 1];
};

// Element by element: neighbouring threads read neighbours along b. Eight of a thread are loaded before the first is looked
// at.
template <typename Held>
__device__ __forceinline__ void read_tile(const Tiled &p, const Operation &operation, const Place &place, Tile<Held> &tile) {
    enum : u32 { SIDE_B = Tile<Held>::SIDE_B, STEP = THREADS / SIDE_B, EACH = 8 };
    const u32 from = size_of(operation.src), column = threadIdx.x % SIDE_B;
    const u64 b = place.b + column;
#pragma unroll 1
    for (u32 row = threadIdx.x / SIDE_B; row < SIDE_A; row += EACH * STEP) {
        const char *x[EACH];
        u32 reads = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            const u64 a = place.a + row + i * STEP;
            x[i] = place.src + i64(a) * p.src_a + i64(b) * from;
            reads |= u32(a < p.extent_a && b < p.extent_b) << i;
        }
        Held held[EACH];
        fetch(operation.src, x, held, reads);
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            if (reads >> i & 1) tile.row[row + i * STEP][column] = Held(widened(operation, held[i]));
        }
    }
}

// Neighbouring threads write neighbours along a.
template <typename Held>
__device__ __forceinline__ void write_tile(const Tiled &p, const Operation &operation, const Place &place, const Tile<Held> &tile) {
    enum : u32 { SIDE_B = Tile<Held>::SIDE_B, STEP = THREADS / SIDE_A, EACH = 8 };
    const u32 to = size_of(operation.dst), row = threadIdx.x % SIDE_A;
    const u64 a = place.a + row;
#pragma unroll 1
    for (u32 column = threadIdx.x / SIDE_A; column < SIDE_B; column += EACH * STEP) {
        char *y[EACH];
        u32 writes = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            const u64 b = place.b + column + i * STEP;
            y[i] = place.dst + i64(b) * p.dst_b + i64(a) * to;
            writes |= u32(a < p.extent_a && b < p.extent_b) << i;
        }
        Held old[EACH] = {};
        if (operation.steps & BLENDED) fetch(operation.dst, y, old, writes);
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            if (writes >> i & 1) write_over(operation, y[i], tile.row[row][column + i * STEP], old[i]);
        }
    }
}

// A whole tile whose rows begin on 16 bytes: all vectors of a thread are loaded before the first is looked at.
template <u32 SRC>
__device__ __forceinline__ void read_vectors(const Tiled &p, const Operation &operation, const Place &place, Tile<u32> &tile) {
    enum : u32 { WIDTH = width_of(SRC), LANES = 16 / WIDTH, ACROSS = SIDE_A / LANES, STEP = THREADS / ACROSS, EACH = SIDE_A / STEP };
    const u32 column = threadIdx.x % ACROSS * LANES, row = threadIdx.x / ACROSS;
    const char *from = place.src + i64(place.a + row) * p.src_a + (place.b + column) * WIDTH;
    Vector x[EACH];
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) x[i] = at<Vector>(from + i64(i * STEP) * p.src_a);
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
#pragma unroll
        for (u32 k = 0; k < LANES; ++k) {
            const char *element = reinterpret_cast<const char *>(&x[i]) + k * WIDTH;
            tile.row[row + i * STEP][column + k] = u32(read_element(operation, element));
        }
    }
}

template <u32 DST>
__device__ __forceinline__ void write_vectors(const Tiled &p, const Operation &operation, const Place &place, const Tile<u32> &tile) {
    enum : u32 { WIDTH = width_of(DST), LANES = 16 / WIDTH, ACROSS = SIDE_A / LANES, STEP = THREADS / ACROSS, EACH = SIDE_A / STEP };
    const u32 row = threadIdx.x % ACROSS * LANES, column = threadIdx.x / ACROSS;
    char *to = place.dst + i64(place.b + column) * p.dst_b + (place.a + row) * WIDTH;
    // Two at a time: six blocks of a multiprocessor have no registers for more.
    constexpr u32 ROUND = EACH < 2 ? u32(EACH) : 2;
#pragma unroll 1
    for (u32 first = 0; first < EACH; first += ROUND) {
        Vector y[ROUND];
        if (operation.steps & BLENDED) {
#pragma unroll
            for (u32 i = 0; i < ROUND; ++i) y[i] = at<Vector>(to + i64(i * STEP) * p.dst_b);
        }
#pragma unroll
        for (u32 i = 0; i < ROUND; ++i) {
#pragma unroll
            for (u32 k = 0; k < LANES; ++k) {
                const u32 held = tile.row[row + k][column + (first + i) * STEP];
                write_element(operation, reinterpret_cast<char *>(&y[i]) + k * WIDTH, held);
            }
            put<Vector>(to + i64(i * STEP) * p.dst_b, y[i]);
        }
        to += i64(ROUND * STEP) * p.dst_b;
    }
}

// A pair of types that binary32 holds, which are constants to the compiler.
template <u32 SRC, u32 DST>
__device__ __forceinline__ void transpose_pair(const Tiled &p) {
    static_assert(u32(Tile<u32>::SIDE_B) == SIDE_A, "vectors go along either side");
    __shared__ Tile<u32> tile;
    Operation operation = p.operation;
    operation.src = SRC;
    operation.dst = DST;
    operation.via = VIA_F32;
    const Place place = place_of(p, SIDE_A, SIDE_A);
    const bool is_whole = place.a + SIDE_A <= p.extent_a && place.b + SIDE_A <= p.extent_b;
    if (is_whole && p.vector_src) {
        read_vectors<SRC>(p, operation, place, tile);
    } else {
        read_tile(p, operation, place, tile);
    }
    __syncthreads();
    if (is_whole && p.vector_dst) {
        write_vectors<DST>(p, operation, place, tile);
    } else {
        write_tile(p, operation, place, tile);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) transpose_convert_any(const Tiled p) {
    __shared__ Tile<u64> tile;
    const Place place = place_of(p, SIDE_A, Tile<u64>::SIDE_B);
    read_tile(p, p.operation, place, tile);
    __syncthreads();
    write_tile(p, p.operation, place, tile);
}

#define CONVERT(NAME, SRC, DST)                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, 6) transpose_convert_##NAME(const Tiled p) { \
        transpose_pair<SRC, DST>(p);                                                                \
    }
COMMON_PAIRS(CONVERT)
#undef CONVERT
