// Sums and means of rows whose elements lie side by side, of 16 to 1024 elements: a warp has four rows, so that its loads, and the joins
// of four trees, are under way together; of short rows without gaps a thread has one. And of longer rows, which may lie in runs: a block
// of threads for a row. The type is the kernel's. The tree is that of reduce.cu, whose bits these kernels leave.
#include "counter.cuh"
#include "cursor.cuh"
#include "function.cuh"
#include "halves.cuh"
#include "held.cuh"
#include "linear.cuh"

struct RowSums {
    char *dst;
    const char *src;
    i64 step[2];          // bytes from row to row: of the destination, of the source
    Operation operation;  // from binary32 to the destination
    u32 rows;
    u32 length;           // elements of a row
    u32 finish;           // Finish
    u32 unused;
};

static_assert(sizeof(RowSums) == 80, "row_sums.rs has another RowSums");

// Writes the result of a row.
template <typename Parameters>
__device__ __forceinline__ void finish(const Parameters &p, u32 row, f32 total) {
    if (p.finish == MEAN) total = ratio(total, f32(i32(p.length)));
    char *y = p.dst + i64(row) * p.step[0];
    const Operation &operation = p.operation;
    if (operation.via == VIA_F64) {
        f64 x = f64(total);
        if (operation.steps & SCALED) x = product(operation.alpha, x);
        if (operation.steps & BLENDED) x = sum(x, product(operation.beta, load_f64(operation.dst, y)));
        return store_f64(operation.dst, y, x);
    }
    if (operation.steps & SCALED) total = product(f32(operation.alpha), total);
    if (operation.steps & BLENDED) total = sum(total, product(f32(operation.beta), load_f32(operation.dst, y)));
    store_f32(operation.dst, y, total);
}

// Rows of a warp, and elements of each that a thread loads before it adds the first; row_sums.rs counts blocks by the same number.
enum : u32 { ROWS = 4, EACH = 4 };

// The next elements of four rows, EACH of them or those before `end`.
template <u32 SCALAR, bool WHOLE>
__device__ __forceinline__ void add_next(const char *const (&from)[ROWS], u32 start, u32 end, f32 (&node)[ROWS]) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    Bits bits[EACH][ROWS];
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
        const u32 position = start + 32 * k;
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            bits[k][r] = 0;
            if (WHOLE || position < end) bits[k][r] = at<Bits>(from[r] + position * sizeof(Bits));
        }
    }
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) hold(bits[k][r]);
    }
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            // -0 changes no sum.
            const f32 x = WHOLE || start + 32 * k < end ? value_f32(SCALAR, bits[k][r]) : -0.0f;
            node[r] = sum(node[r], x);
        }
    }
}

template <u32 SCALAR>
__device__ __forceinline__ void row_sums(const RowSums &p) {
    const u32 lane = threadIdx.x % 32, first = (blockIdx.x * (THREADS / 32) + threadIdx.x / 32) * ROWS;
    if (first >= p.rows) return;
    const char *from[ROWS];
    f32 node[ROWS];
#pragma unroll
    for (u32 r = 0; r < ROWS; ++r) {
        const u32 row = first + r < p.rows ? first + r : first;
        from[r] = p.src + i64(row) * p.step[1];
        node[r] = -0.0f;
    }
    u32 start = 0;
#pragma unroll 1
    for (; start + 32 * EACH <= p.length; start += 32 * EACH) add_next<SCALAR, true>(from, start + lane, p.length, node);
    if (start < p.length) add_next<SCALAR, false>(from, start + lane, p.length, node);
    const f32 total = root_of_four(node, [](f32 a, f32 b) { return sum(a, b); });
    const u32 row = first + lane / 16 + (lane / 8 % 2) * 2;
    if (lane % 8 != 0 || row >= p.rows) return;
    finish(p, row, total);
}

// Of short rows that follow one another without gaps, the first on 16 bytes: threads of a block, each of which has a row, the bytes of a row
// at most, and vectors that a thread loads before it stores the first. row_sums.rs has the same numbers.
enum : u32 { NEAR_THREADS = 128, NEAR_BYTES = 256, NEAR_AHEAD = 8 };

// The root of a tree all lanes of which a thread has.
template <u32 LANES>
__device__ __forceinline__ f32 root_of_lanes(const f32 (&node)[LANES]) {
    if constexpr (LANES == 1) {
        return node[0];
    } else {
        f32 half[LANES / 2];
#pragma unroll
        for (u32 j = 0; j < LANES / 2; ++j) half[j] = sum(node[j], node[j + LANES / 2]);
        return root_of_lanes(half);
    }
}

// ROOM: for all rows of a block, as they lie in memory.
template <u32 SCALAR>
__device__ __forceinline__ void row_sums_near(const RowSums &p, Vector *room) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    constexpr u32 SIZE = sizeof(Bits), LANES = 32;
    const u32 first = blockIdx.x * NEAR_THREADS, rest = p.rows - first;
    const u32 rows = rest < NEAR_THREADS ? rest : u32(NEAR_THREADS);
    const char *src = p.src + i64(first) * p.step[1];
    const u32 count = rows * p.length, vectors = count * SIZE / 16;
#pragma unroll 1
    for (u32 start = threadIdx.x; start < vectors; start += NEAR_AHEAD * NEAR_THREADS) {
        Vector held[NEAR_AHEAD];
#pragma unroll
        for (u32 k = 0; k < NEAR_AHEAD; ++k) {
            const u32 index = start + k * NEAR_THREADS;
            if (index < vectors) held[k] = at<Vector>(src + index * 16);
        }
#pragma unroll
        for (u32 k = 0; k < NEAR_AHEAD; ++k) {
            const u32 index = start + k * NEAR_THREADS;
            if (index < vectors) room[index] = held[k];
        }
    }
    Bits *const elements = reinterpret_cast<Bits *>(room);
    // What is behind the last vector.
    const u32 behind = vectors * (16 / SIZE) + threadIdx.x;
    if (behind < count) elements[behind] = at<Bits>(src + behind * SIZE);
    __syncthreads();
    if (threadIdx.x >= rows) return;
    const Bits *row = elements + threadIdx.x * p.length;
    // The lanes of the tree. -0 changes no sum.
    f32 node[LANES];
#pragma unroll
    for (u32 j = 0; j < LANES; ++j) node[j] = -0.0f;
    u32 left = p.length;
#pragma unroll 1
    for (; left >= LANES; left -= LANES, row += LANES) {
#pragma unroll
        for (u32 j = 0; j < LANES; ++j) node[j] = sum(node[j], value_f32(SCALAR, row[j]));
    }
#pragma unroll
    for (u32 j = 0; j < LANES - 1; ++j) {
        if (j < left) node[j] = sum(node[j], value_f32(SCALAR, row[j]));
    }
    finish(p, first + threadIdx.x, root_of_lanes(node));
}

// A row of these may lie in several runs.
struct LongRowSums {
    char *dst;
    const char *src;
    i64 step[2];          // as in RowSums, and all that follows
    Operation operation;
    u32 rows;
    u32 length;
    u32 finish;
    u32 in_runs;          // whether a row lies in several runs
    Divisor run;          // elements of each
    i64 around;           // bytes from run to run
};

static_assert(sizeof(LongRowSums) == 112, "row_sums.rs has another LongRowSums");

// Elements of a block of the tree.
enum : u32 { BLOCK = 1024 };

// Threads of a block for a long row at most, and elements that each loads before it adds the first: of a row in runs and of one without.
enum : u32 { LONG_THREADS = 1024, AHEAD = 8, FAR_AHEAD = 16 };

// Elements of a row 32 apart, as bytes behind its first: of a row in runs, and of one without.
template <u32 SCALAR>
__device__ __forceinline__ Cursor cursor_of(const LongRowSums &p, u32 position) {
    constexpr u32 SIZE = width_of(SCALAR);
    Cursor cursor(0, SIZE, position, 32);
    cursor.nest(0, SIZE, u32(p.run.divisor), u32(p.around), quotient(position, p.run), quotient(32u, p.run));
    return cursor;
}
template <u32 SCALAR>
struct Straight {
    u32 offset;
    __device__ __forceinline__ void go() { offset += 32 * width_of(SCALAR); }
};

// Adds the next COUNT elements of a lane, or those before `rest` positions are over.
template <u32 SCALAR, u32 COUNT, bool WHOLE, typename Place>
__device__ __forceinline__ f32 plus_next(const char *src, Place &place, u32 rest, f32 node) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    Bits bits[COUNT];
    const u32 first = place.offset;
#pragma unroll
    for (u32 k = 0; k < COUNT; ++k) {
        bits[k] = at<Bits>(src + (WHOLE || 32 * k < rest ? place.offset : first));
        place.go();
    }
#pragma unroll
    for (u32 k = 0; k < COUNT; ++k) hold(bits[k]);
#pragma unroll
    for (u32 k = 0; k < COUNT; ++k) node = sum(node, WHOLE || 32 * k < rest ? value_f32(SCALAR, bits[k]) : -0.0f);
    return node;
}

// Adds the elements of a lane up to `end`.
template <u32 SCALAR, u32 COUNT, typename Place>
__device__ __forceinline__ f32 plus_all(const char *src, Place place, u32 position, u32 end, f32 node) {
#pragma unroll 1
    for (; position + 32 * (COUNT - 1) < end; position += 32 * COUNT) {
        node = plus_next<SCALAR, COUNT, true>(src, place, end - position, node);
    }
    return position < end ? plus_next<SCALAR, COUNT, false>(src, place, end - position, node) : node;
}

// NODES: a number for each warp. WAITING: what waits for a partner. A block has a power of two of warps, each with a block of the tree.
template <u32 SCALAR>
__device__ __forceinline__ void long_row(const LongRowSums &p, f32 *nodes, f32 *waiting) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const u32 blocks = (p.length + BLOCK - 1) / BLOCK;
    const char *src = p.src + i64(blockIdx.x) * p.step[1];
    auto digits = counter(waiting, 1, [](f32 a, f32 b) { return sum(a, b); });
#pragma unroll 1
    for (u32 first = 0; first < blocks; first += warps) {
        const u32 start = (first + warp) * BLOCK, end = start + BLOCK < p.length ? start + BLOCK : p.length;
        f32 node = -0.0f;
        const u32 position = start + lane;
        if (position < end) {
            if (p.in_runs) {
                node = plus_all<SCALAR, AHEAD>(src, cursor_of<SCALAR>(p, position), position, end, node);
            } else {
                const Straight<SCALAR> place = {position * width_of(SCALAR)};
                node = plus_all<SCALAR, FAR_AHEAD>(src, place, position, end, node);
            }
        }
#pragma unroll
        for (u32 half = 16; half > 0; half /= 2) node = sum(node, __shfl_down_sync(~0u, node, half));
        if (lane == 0) nodes[warp] = node;
        __syncthreads();
        // The first warp joins the blocks of all, a whole subtree.
        if (warp == 0) {
            node = lane < warps ? nodes[lane] : -0.0f;
#pragma unroll 1
            for (u32 step = 1; step < warps; step *= 2) {
                const f32 other = __shfl_down_sync(~0u, node, step);
                if (lane % (2 * step) == 0 && first + lane + step < blocks) node = sum(node, other);
            }
            if (lane == 0) digits.push(node);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) finish(p, blockIdx.x, digits.root(0.0f));
}

extern "C" __global__ void __launch_bounds__(THREADS) row_sums_f32(const RowSums p) { row_sums<F32>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) row_sums_f16(const RowSums p) { row_sums<F16>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) row_sums_bf16(const RowSums p) { row_sums<BF16>(p); }

#define NEAR(NAME, SCALAR)                                                                                     \
    extern "C" __global__ void __launch_bounds__(NEAR_THREADS) row_sums_near_##NAME(const RowSums p) {          \
        __shared__ Vector room[NEAR_THREADS * NEAR_BYTES / 16];                                                \
        row_sums_near<SCALAR>(p, room);                                                                        \
    }
NEAR(f32, F32)
NEAR(f16, F16)
NEAR(bf16, BF16)
#undef NEAR

#define LONG(NAME, SCALAR)                                                                                     \
    extern "C" __global__ void __launch_bounds__(LONG_THREADS) row_sums_long_##NAME(const LongRowSums p) {      \
        __shared__ f32 nodes[LONG_THREADS / 32], waiting[32];                                                  \
        long_row<SCALAR>(p, nodes, waiting);                                                                   \
    }
LONG(f32, F32)
LONG(f16, F16)
LONG(bf16, BF16)
#undef LONG
