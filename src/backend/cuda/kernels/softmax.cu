// Softmax and its gradient. Where a group fits into the registers of a thread, a warp or a block, every element is read once and
// written once; of longer ones a block reads them once for each statistic. The function and the type are the kernel's. Sums are the
// tree of rows.cu, whose bits these kernels leave: blocks of 1,024 elements in 32 lanes, joined in halves; then blocks in pairs. All
// else is rows.cu's.
#include "counter.cuh"
#include "formula.cuh"
#include "held.cuh"
#include "larger.cuh"
#include "linear.cuh"
#include "row_trees.cuh"
#include "softmax.cuh"

// The largest power of e that is computed is that of zero, so that only its other end is cut off.
__device__ __forceinline__ f32 raised(f32 x) {
    const Rounded<f32> low = {Math<f32>::exp_low()}, power = {x};
    const Exponent<f32> e = exponent(power < low ? low : power);
    return scaled(number<f32>(1) + e.p, e.shifted).value;
}

// What the sum of a group is made of, once what is summed is known.
template <u32 FUNCTION>
__device__ __forceinline__ f32 statistic_of(f32 total) {
    const Rounded<f32> sum = {total};
    return FUNCTION == SOFTMAX ? (one(sum) / sum).value : FUNCTION == LOG_SOFTMAX ? log(sum).value : total;
}

// An element's share of the sum. Of a softmax `x` is less the peak, and becomes its power.
template <u32 FUNCTION>
__device__ __forceinline__ f32 term_of(f32 &x, f32 dy) {
    if (FUNCTION == SOFTMAX) return x = raised(x);
    if (FUNCTION == LOG_SOFTMAX) return raised(x);
    return FUNCTION == SOFTMAX_GRADIENT ? product(dy, x) : dy;
}

// What is written, of what `term_of` left.
template <u32 FUNCTION>
__device__ __forceinline__ f32 result_of(f32 x, f32 dy, f32 statistic) {
    switch (FUNCTION) {
    case SOFTMAX: return product(x, statistic);
    case LOG_SOFTMAX: return sum(x, -statistic);
    case SOFTMAX_GRADIENT: return product(x, sum(dy, -statistic));
    default: return sum(dy, -product(exp(Rounded<f32>{x}).value, statistic));
    }
}

// The bits of what changes no peak, and no sum of its function.
template <u32 FUNCTION, u32 SCALAR>
struct Missing {
    static constexpr bool has_peak = FUNCTION <= LOG_SOFTMAX;
    static constexpr u32 x = !has_peak ? 0 : SCALAR == F32 ? 0xff800000 : SCALAR == F16 ? 0xfc00 : 0xff80;
    static constexpr u32 dy = SCALAR == F32 ? 0x80000000 : 0x8000;
};

struct Larger {
    __device__ __forceinline__ f32 operator()(f32 a, f32 b) const { return larger(a, b); }
};

// A warp for ROWS groups whose elements lie side by side, of at most 32 * SLOTS; or, with shared room, every warp of a block for the
// next 1,024 elements of one group.
template <u32 FUNCTION, u32 SCALAR, u32 SLOTS, u32 ROWS, typename Room>
__device__ __forceinline__ void softmax_rows(const SoftmaxRows &p, Room &room) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    typedef Missing<FUNCTION, SCALAR> None;
    constexpr bool has_peak = None::has_peak;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 first = Room::is_shared ? blockIdx.x : (blockIdx.x * (THREADS / 32) + warp) * ROWS;
    if (first >= p.groups) return;
    const u32 begin = Room::is_shared ? warp * BLOCK : 0, length = p.length - begin, position = lane + begin;
    const char *from_x[ROWS], *from_dy[ROWS];
    Bits of_x[SLOTS][ROWS], of_dy[SLOTS][ROWS];
#pragma unroll
    for (u32 r = 0; r < ROWS; ++r) {
        // Behind the last group that one again.
        const u32 number = first + r < p.groups ? first + r : first;
        from_x[r] = p.at[1] + (i64(number) * p.step[1] + position * u32(sizeof(Bits)));
        from_dy[r] = p.at[2] + (i64(number) * p.step[2] + position * u32(sizeof(Bits)));
    }
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (32 * k >= length) break;
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            of_x[k][r] = Bits(None::x);
            of_dy[k][r] = Bits(None::dy);
        }
        if (lane + 32 * k >= length) continue;
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            of_x[k][r] = at<Bits>(from_x[r] + 32 * k * sizeof(Bits));
            if (!has_peak) of_dy[k][r] = at<Bits>(from_dy[r] + 32 * k * sizeof(Bits));
        }
    }
    f32 x[SLOTS][ROWS], dy[SLOTS][ROWS];
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (32 * k >= length) break;
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            hold(of_x[k][r]);
            if (!has_peak) hold(of_dy[k][r]);
        }
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            x[k][r] = value_f32(SCALAR, of_x[k][r]);
            dy[k][r] = value_f32(SCALAR, of_dy[k][r]);
        }
    }
    f32 peak[ROWS], node[ROWS];
#pragma unroll
    for (u32 r = 0; r < ROWS; ++r) {
        peak[r] = -Math<f32>::infinity();
        node[r] = -0.0f;
    }
    if (has_peak) {
#pragma unroll
        for (u32 k = 0; k < SLOTS; ++k) {
            if (32 * k >= length) break;
#pragma unroll
            for (u32 r = 0; r < ROWS; ++r) peak[r] = larger(peak[r], x[k][r]);
        }
        join_lanes(peak, Larger());
        if constexpr (Room::is_shared) peak[0] = join_warps(room.first, peak[0], blockDim.x / 32, Larger());
    }
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (32 * k >= length) break;
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            if (has_peak) x[k][r] = sum(x[k][r], -peak[r]);
            node[r] = sum(node[r], term_of<FUNCTION>(x[k][r], dy[k][r]));
        }
    }
    join_lanes(node, Sum());
    if constexpr (Room::is_shared) node[0] = join_warps(room.second, node[0], blockDim.x / 32, Sum());
    f32 statistic[ROWS];
    char *to[ROWS];
#pragma unroll
    for (u32 r = 0; r < ROWS; ++r) {
        statistic[r] = statistic_of<FUNCTION>(node[r]);
        to[r] = p.at[0] + (i64(first + r) * p.step[0] + position * u32(sizeof(Bits)));
    }
    const u32 there = p.groups - first;
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (lane + 32 * k >= length) break;
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            const Bits result = Bits(stored_bits(SCALAR, result_of<FUNCTION>(x[k][r], dy[k][r], statistic[r])));
            if (r < there) put<Bits>(to[r] + 32 * k * sizeof(Bits), result);
        }
    }
}

// Elements of a thread that are loaded before the first is looked at, where a group has more than registers hold.
enum : u32 { AHEAD = 8 };

// Elements FIRST, FIRST + STEP, ... of a group, of those before END.
template <u32 FUNCTION, u32 SCALAR, u32 STEP, bool READS_X, bool READS_DY>
__device__ __forceinline__ void load_ahead(const char *const (&from)[2], u32 first, u32 end, f32 (&x)[AHEAD], f32 (&dy)[AHEAD]) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    typedef Missing<FUNCTION, SCALAR> None;
    Bits of_x[AHEAD], of_dy[AHEAD];
#pragma unroll
    for (u32 k = 0; k < AHEAD; ++k) {
        const u32 position = first + k * STEP;
        of_x[k] = Bits(None::x);
        of_dy[k] = Bits(None::dy);
        if (position >= end) continue;
        if (READS_X) of_x[k] = at<Bits>(from[0] + position * u32(sizeof(Bits)));
        if (READS_DY) of_dy[k] = at<Bits>(from[1] + position * u32(sizeof(Bits)));
    }
#pragma unroll
    for (u32 k = 0; k < AHEAD; ++k) {
        hold(of_x[k]);
        hold(of_dy[k]);
    }
#pragma unroll
    for (u32 k = 0; k < AHEAD; ++k) {
        x[k] = value_f32(SCALAR, of_x[k]);
        dy[k] = value_f32(SCALAR, of_dy[k]);
    }
}

// A block of threads for a group whose elements lie side by side and are read again for each statistic and for the results.
template <u32 FUNCTION, u32 SCALAR>
__device__ __forceinline__ void softmax_passes(const SoftmaxRows &p, RowRoom &room, f32 *waiting) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    constexpr bool has_peak = Missing<FUNCTION, SCALAR>::has_peak;
    constexpr u32 threads = 32 * WARPS;
    const u32 own = threadIdx.x, lane = own % 32, warp = own / 32;
    const char *const from[2] = {p.at[1] + i64(blockIdx.x) * p.step[1], p.at[2] + i64(blockIdx.x) * p.step[2]};
    f32 x[AHEAD], dy[AHEAD], peak[1] = {-Math<f32>::infinity()};
    if (has_peak) {
#pragma unroll 1
        for (u32 i = own; i < p.length; i += AHEAD * threads) {
            load_ahead<FUNCTION, SCALAR, threads, true, false>(from, i, p.length, x, dy);
#pragma unroll
            for (u32 k = 0; k < AHEAD; ++k) peak[0] = larger(peak[0], x[k]);
        }
        join_lanes(peak, Larger());
        peak[0] = join_warps(room.first, peak[0], WARPS, Larger());
    }
    auto digits = counter(waiting, 1, Sum());
#pragma unroll 1
    for (u32 base = 0; base < p.length; base += WARPS * BLOCK) {
        const u32 start = base + warp * BLOCK, end = start + BLOCK < p.length ? start + BLOCK : p.length;
        f32 node[1] = {-0.0f};
#pragma unroll 1
        for (u32 i = start + lane; i < end; i += 32 * AHEAD) {
            load_ahead<FUNCTION, SCALAR, 32, FUNCTION != LOG_SOFTMAX_GRADIENT, !has_peak>(from, i, end, x, dy);
#pragma unroll
            for (u32 k = 0; k < AHEAD; ++k) {
                if (has_peak) x[k] = sum(x[k], -peak[0]);
                node[0] = sum(node[0], term_of<FUNCTION>(x[k], dy[k]));
            }
        }
        join_lanes(node, Sum());
        const u32 blocks = (p.length - base + BLOCK - 1) / BLOCK;
        const f32 joined = join_warps(room.second, node[0], blocks < WARPS ? blocks : u32(WARPS), Sum());
        if (own == 0) digits.push(joined);
        __syncthreads();
    }
    if (own == 0) room.second[0] = digits.root(0.0f);
    __syncthreads();
    const f32 statistic = statistic_of<FUNCTION>(room.second[0]);
    char *to = p.at[0] + i64(blockIdx.x) * p.step[0];
#pragma unroll 1
    for (u32 i = own; i < p.length; i += AHEAD * threads) {
        load_ahead<FUNCTION, SCALAR, threads, true, !has_peak>(from, i, p.length, x, dy);
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            const u32 position = i + k * threads;
            if (has_peak) x[k] = sum(x[k], -peak[0]);
            if (FUNCTION == SOFTMAX) x[k] = raised(x[k]);
            const Bits result = Bits(stored_bits(SCALAR, result_of<FUNCTION>(x[k], dy[k], statistic)));
            if (position < p.length) put<Bits>(to + position * u32(sizeof(Bits)), result);
        }
    }
}

// Eight warps for 32 neighbouring groups: thread (group, part) has the elements part, part + 8, ..., which are four lanes of the
// tree, at most SLOTS of them, in rounds of four.
enum : u32 { PARTS = THREADS / 32, ROUND = 4 };

struct ColumnRoom {
    f32 peaks[THREADS], nodes[THREADS];
};

// What the threads of a group have of it: joined by JOIN in the order of the tree.
template <typename Join>
__device__ __forceinline__ f32 joined_parts(f32 *room, f32 own, const Join &join) {
    const u32 group = threadIdx.x % 32;
    room[threadIdx.x] = own;
    __syncthreads();
    f32 part[PARTS];
#pragma unroll
    for (u32 k = 0; k < PARTS; ++k) part[k] = room[32 * k + group];
#pragma unroll
    for (u32 half = PARTS / 2; half > 0; half /= 2) {
#pragma unroll
        for (u32 k = 0; k < half; ++k) part[k] = join(part[k], part[k + half]);
    }
    return part[0];
}

template <u32 FUNCTION, u32 SCALAR, u32 SLOTS>
__device__ __forceinline__ void softmax_column(const SoftmaxColumns &p, ColumnRoom &room) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    typedef Missing<FUNCTION, SCALAR> None;
    constexpr bool has_peak = None::has_peak;
    const u32 part = threadIdx.x / 32, number = blockIdx.x * 32 + threadIdx.x % 32;
    const bool there = number < p.groups;
    const u32 own = there ? number : 0, plane = quotient(own, p.plane), place = own - plane * u32(p.plane.divisor);
    const i64 inside = i64(place) * i64(sizeof(Bits));
    const char *from_x = p.at[1] + (plane * p.outer[1] + inside + part * p.step[1]);
    const char *from_dy = p.at[2] + (plane * p.outer[2] + inside + part * p.step[2]);
    // How many elements the thread has.
    const u32 count = part < p.length ? (p.length - part + PARTS - 1) / PARTS : 0;
    f32 x[SLOTS], dy[SLOTS];
    Bits of_x[SLOTS], of_dy[SLOTS];
#pragma unroll
    for (u32 start = 0; start < SLOTS; start += ROUND) {
        if (start >= count) break;
#pragma unroll
        for (u32 k = start; k < start + ROUND; ++k) {
            of_x[k] = Bits(None::x);
            of_dy[k] = Bits(None::dy);
            if (k >= count) continue;
            of_x[k] = at<Bits>(from_x);
            from_x += PARTS * p.step[1];
            if (has_peak) continue;
            of_dy[k] = at<Bits>(from_dy);
            from_dy += PARTS * p.step[2];
        }
    }
    f32 peak = -Math<f32>::infinity();
#pragma unroll
    for (u32 start = 0; start < SLOTS; start += ROUND) {
        if (start >= count) break;
#pragma unroll
        for (u32 k = start; k < start + ROUND; ++k) {
            hold(of_x[k]);
            if (!has_peak) hold(of_dy[k]);
        }
#pragma unroll
        for (u32 k = start; k < start + ROUND; ++k) {
            x[k] = value_f32(SCALAR, of_x[k]);
            dy[k] = value_f32(SCALAR, of_dy[k]);
            if (has_peak) peak = larger(peak, x[k]);
        }
    }
    if (has_peak) peak = joined_parts(room.peaks, peak, Larger());
    f32 lane[ROUND] = {-0.0f, -0.0f, -0.0f, -0.0f};
#pragma unroll
    for (u32 start = 0; start < SLOTS; start += ROUND) {
        if (start >= count) break;
#pragma unroll
        for (u32 k = start; k < start + ROUND; ++k) {
            if (has_peak) x[k] = sum(x[k], -peak);
            lane[k - start] = sum(lane[k - start], term_of<FUNCTION>(x[k], dy[k]));
        }
    }
    const f32 node = sum(sum(lane[0], lane[2]), sum(lane[1], lane[3]));
    const f32 total = joined_parts(room.nodes, node, Sum());
    if (!there) return;
    const f32 statistic = statistic_of<FUNCTION>(total);
    char *to = p.at[0] + (plane * p.outer[0] + inside + part * p.step[0]);
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (k >= count) break;
        put<Bits>(to, Bits(stored_bits(SCALAR, result_of<FUNCTION>(x[k], dy[k], statistic))));
        to += PARTS * p.step[0];
    }
}

// Slots of short rows and how many of these a warp has, slots of long ones, and of columns; threads of a block for a row that
// registers hold. softmax.rs has the same.
enum : u32 { SHORT = 4, TOGETHER = 4, LONG = 32, HIGH = 32, HELD_THREADS = 512 };

#define SOFTMAX_OF(name, function, type, scalar)                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS) name##_short_##type(const SoftmaxRows p) {        \
        Alone alone;                                                                                        \
        softmax_rows<function, scalar, SHORT, TOGETHER>(p, alone);                                          \
    }                                                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS) name##_long_##type(const SoftmaxRows p) {         \
        Alone alone;                                                                                        \
        softmax_rows<function, scalar, LONG, 1>(p, alone);                                                  \
    }                                                                                                       \
    extern "C" __global__ void __launch_bounds__(HELD_THREADS) name##_block_##type(const SoftmaxRows p) {   \
        __shared__ RowRoom room;                                                                            \
        softmax_rows<function, scalar, LONG, 1>(p, room);                                                   \
    }                                                                                                       \
    extern "C" __global__ void __launch_bounds__(32 * WARPS) name##_passes_##type(const SoftmaxRows p) {    \
        __shared__ RowRoom room;                                                                            \
        __shared__ f32 waiting[32];                                                                         \
        softmax_passes<function, scalar>(p, room, waiting);                                                 \
    }                                                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) name##_columns_##type(const SoftmaxColumns p) { \
        __shared__ ColumnRoom room;                                                                         \
        softmax_column<function, scalar, HIGH>(p, room);                                                    \
    }

#define SOFTMAX_KERNELS(name, function)        \
    SOFTMAX_OF(name, function, f32, F32)       \
    SOFTMAX_OF(name, function, f16, F16)       \
    SOFTMAX_OF(name, function, bf16, BF16)

SOFTMAX_KERNELS(softmax, SOFTMAX)
SOFTMAX_KERNELS(log_softmax, LOG_SOFTMAX)
SOFTMAX_KERNELS(softmax_gradient, SOFTMAX_GRADIENT)
SOFTMAX_KERNELS(log_softmax_gradient, LOG_SOFTMAX_GRADIENT)
