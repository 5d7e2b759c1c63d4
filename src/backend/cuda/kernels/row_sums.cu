// Sums and means of rows whose elements lie side by side, of 16 to 1024 elements: a warp has four rows, so that its loads, and the joins
// of four trees, are under way together. The type is the kernel's. The tree is that of reduce.cu, whose bits these kernels leave.
#include "function.cuh"
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

// Both halves of a tree's lanes joined, of two trees at once: lanes whose bit HALF is set go on with the second one.
template <u32 HALF>
__device__ __forceinline__ f32 halved(f32 first, f32 second) {
    const bool upper = threadIdx.x & HALF;
    const f32 own = upper ? second : first, other = upper ? first : second;
    return sum(own, __shfl_xor_sync(~0u, other, HALF));
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
    // Rows 0 and 1 in the lower and upper lanes, rows 2 and 3 in the upper ones of either.
    f32 total = halved<8>(halved<16>(node[0], node[1]), halved<16>(node[2], node[3]));
#pragma unroll
    for (u32 half = 4; half > 0; half /= 2) total = sum(total, __shfl_xor_sync(~0u, total, half));
    const u32 row = first + lane / 16 + (lane / 8 % 2) * 2;
    if (lane % 8 != 0 || row >= p.rows) return;
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

extern "C" __global__ void __launch_bounds__(THREADS) row_sums_f32(const RowSums p) { row_sums<F32>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) row_sums_f16(const RowSums p) { row_sums<F16>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) row_sums_bf16(const RowSums p) { row_sums<BF16>(p); }
