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

#if defined(CPU_EMU)
inline f32 difference(f32 a, f32 b) { return sum(a, -b); }
#else
__device__ __forceinline__ f32 difference(f32 a, f32 b) { return __fsub_rn(a, b); }
#endif

// `exp` of math.cuh for x <= 0, by fewer instructions and to the same bits: 2^n is within reach of one factor if that is 2^63 times too
// large, and only the product that takes it back may round.
__device__ __forceinline__ f32 raised(f32 x) {
    typedef Math<f32> M;
    constexpr u32 UP = 63;
    // An even bias leaves a number in the middle between two to the same one of them.
    const f32 shifter = M::shifter() + f32(M::BIAS + UP), low = M::exp_low();
    const f32 power = x < low ? low : x;
    const f32 shifted = sum(product(power, M::log2_e()), shifter), n = difference(shifted, shifter);
    const f32 r = difference(difference(power, product(n, M::ln2_high())), product(n, M::ln2_low()));
    const Rounded<f32> square = {product(r, r)};
    const f32 p = sum(r, (square * M::exp({r}, square)).value);
    const f32 high = product(sum(1.0f, p), bits_of<f32>(bits_of<u32>(shifted) << M::MANTISSA));
    return product(high, bits_of<f32>(u32(M::BIAS - UP) << M::MANTISSA));
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
    case LOG_SOFTMAX: return difference(x, statistic);
    case SOFTMAX_GRADIENT: return product(x, difference(dy, statistic));
    default: return difference(dy, product(exp(Rounded<f32>{x}).value, statistic));
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

// A warp for four groups whose elements lie side by side, of at most 32 * SHORT, and eight lanes for each of them: of every 32 elements a
// lane has NEAR neighbours, which are as many lanes of the tree, so that most of it is joined without a shuffle.
enum : u32 { SHORT = 4, NEAR = 4 };

template <typename Bits>
struct alignas(NEAR * sizeof(Bits)) Neighbours {
    Bits lane[NEAR];
};

// Elements of a lane from `position` on, NONE in the place of those behind the end.
template <typename Bits>
__device__ __forceinline__ Neighbours<Bits> neighbours(const SoftmaxRows &p, const char *from, u32 position, Bits none) {
    Neighbours<Bits> found;
#pragma unroll
    for (u32 i = 0; i < NEAR; ++i) found.lane[i] = none;
    if (p.vectored) {
        if (position < p.length) found = at<Neighbours<Bits>>(from);
    } else {
#pragma unroll
        for (u32 i = 0; i < NEAR; ++i) {
            if (position + i < p.length) found.lane[i] = at<Bits>(from + i * sizeof(Bits));
        }
    }
    return found;
}

// The lanes of a tree that eight lanes of a warp have, joined in halves, in each of them.
__device__ __forceinline__ f32 joined_lanes(const f32 (&node)[NEAR]) {
    const f32 total = halved<2>(halved<4>(node[0], node[2], Sum()), halved<4>(node[1], node[3], Sum()), Sum());
    const f32 whole = sum(total, __shfl_xor_sync(~0u, total, 1));
    const f32 half = sum(whole, __shfl_xor_sync(~0u, whole, 4));
    return sum(half, __shfl_xor_sync(~0u, half, 2));
}

template <u32 FUNCTION, u32 SCALAR>
__device__ __forceinline__ void softmax_short(const SoftmaxRows &p) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    typedef Missing<FUNCTION, SCALAR> None;
    constexpr bool has_peak = None::has_peak;
    constexpr u32 SIZE = sizeof(Bits), LANES = 32 / NEAR;
    const u32 number = blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES, first = threadIdx.x % LANES * NEAR;
    // Lanes behind the last group join numbers of that.
    const u32 own = number < p.groups ? number : p.groups - 1;
    const char *from_x = p.at[1] + (i64(own) * p.step[1] + first * SIZE);
    const char *from_dy = p.at[2] + (i64(own) * p.step[2] + first * SIZE);
    Neighbours<Bits> of_x[SHORT], of_dy[SHORT];
#pragma unroll
    for (u32 k = 0; k < SHORT; ++k) {
        if (32 * k >= p.length) break;
        of_x[k] = neighbours<Bits>(p, from_x + 32 * k * SIZE, first + 32 * k, Bits(None::x));
        if (!has_peak) of_dy[k] = neighbours<Bits>(p, from_dy + 32 * k * SIZE, first + 32 * k, Bits(None::dy));
    }
    f32 x[SHORT][NEAR], dy[SHORT][NEAR], peak = -Math<f32>::infinity();
#pragma unroll
    for (u32 k = 0; k < SHORT; ++k) {
        if (32 * k >= p.length) break;
#pragma unroll
        for (u32 i = 0; i < NEAR; ++i) {
            x[k][i] = value_f32(SCALAR, of_x[k].lane[i]);
            dy[k][i] = has_peak ? 0 : value_f32(SCALAR, of_dy[k].lane[i]);
            if (has_peak) peak = larger(peak, x[k][i]);
        }
    }
    if (has_peak) {
#pragma unroll
        for (u32 half = LANES / 2; half > 0; half /= 2) peak = larger(peak, __shfl_xor_sync(~0u, peak, half));
    }
    f32 node[NEAR];
#pragma unroll
    for (u32 i = 0; i < NEAR; ++i) node[i] = -0.0f;
#pragma unroll
    for (u32 k = 0; k < SHORT; ++k) {
        if (32 * k >= p.length) break;
#pragma unroll
        for (u32 i = 0; i < NEAR; ++i) {
            if (has_peak) x[k][i] = difference(x[k][i], peak);
            node[i] = sum(node[i], term_of<FUNCTION>(x[k][i], dy[k][i]));
        }
    }
    const f32 statistic = statistic_of<FUNCTION>(joined_lanes(node));
    if (number >= p.groups) return;
    char *to = p.at[0] + (i64(number) * p.step[0] + first * SIZE);
#pragma unroll
    for (u32 k = 0; k < SHORT; ++k) {
        if (first + 32 * k >= p.length) break;
        Neighbours<Bits> y;
#pragma unroll
        for (u32 i = 0; i < NEAR; ++i) {
            y.lane[i] = Bits(stored_bits(SCALAR, result_of<FUNCTION>(x[k][i], dy[k][i], statistic)));
        }
        if (p.vectored) {
            put<Neighbours<Bits>>(to + 32 * k * SIZE, y);
        } else {
#pragma unroll
            for (u32 i = 0; i < NEAR; ++i) {
                if (first + 32 * k + i < p.length) put<Bits>(to + (32 * k + i) * SIZE, y.lane[i]);
            }
        }
    }
}

// A warp for a group of at most 32 * SLOTS elements that lie side by side; or, with shared room, every warp of a block for the next
// 1,024 elements of one group.
template <u32 FUNCTION, u32 SCALAR, u32 SLOTS, typename Room>
__device__ __forceinline__ void softmax_rows(const SoftmaxRows &p, Room &room) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    typedef Missing<FUNCTION, SCALAR> None;
    constexpr bool has_peak = None::has_peak;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 number = Room::is_shared ? blockIdx.x : blockIdx.x * (THREADS / 32) + warp;
    if (number >= p.groups) return;
    const u32 begin = Room::is_shared ? warp * BLOCK : 0, length = p.length - begin, position = lane + begin;
    const char *from_x = p.at[1] + (i64(number) * p.step[1] + position * u32(sizeof(Bits)));
    const char *from_dy = p.at[2] + (i64(number) * p.step[2] + position * u32(sizeof(Bits)));
    Bits of_x[SLOTS], of_dy[SLOTS];
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (32 * k >= length) break;
        of_x[k] = Bits(None::x);
        of_dy[k] = Bits(None::dy);
        if (lane + 32 * k >= length) continue;
        of_x[k] = at<Bits>(from_x + 32 * k * sizeof(Bits));
        if (!has_peak) of_dy[k] = at<Bits>(from_dy + 32 * k * sizeof(Bits));
    }
    f32 x[SLOTS], dy[SLOTS];
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (32 * k >= length) break;
        hold(of_x[k]);
        if (!has_peak) hold(of_dy[k]);
        x[k] = value_f32(SCALAR, of_x[k]);
        dy[k] = value_f32(SCALAR, of_dy[k]);
    }
    f32 peak[1] = {-Math<f32>::infinity()}, node[1] = {-0.0f};
    if (has_peak) {
#pragma unroll
        for (u32 k = 0; k < SLOTS; ++k) {
            if (32 * k >= length) break;
            peak[0] = larger(peak[0], x[k]);
        }
        join_lanes(peak, Larger());
        if constexpr (Room::is_shared) peak[0] = join_warps(room.first, peak[0], blockDim.x / 32, Larger());
    }
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (32 * k >= length) break;
        if (has_peak) x[k] = difference(x[k], peak[0]);
        node[0] = sum(node[0], term_of<FUNCTION>(x[k], dy[k]));
    }
    join_lanes(node, Sum());
    if constexpr (Room::is_shared) node[0] = join_warps(room.second, node[0], blockDim.x / 32, Sum());
    const f32 statistic = statistic_of<FUNCTION>(node[0]);
    char *to = p.at[0] + (i64(number) * p.step[0] + position * u32(sizeof(Bits)));
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (lane + 32 * k >= length) break;
        put<Bits>(to + 32 * k * sizeof(Bits), Bits(stored_bits(SCALAR, result_of<FUNCTION>(x[k], dy[k], statistic))));
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
                if (has_peak) x[k] = difference(x[k], peak[0]);
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
            if (has_peak) x[k] = difference(x[k], peak[0]);
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
            if (has_peak) x[k] = difference(x[k], peak);
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

// Slots of long rows and of columns; threads of a block for a row that registers hold. softmax.rs has the same.
enum : u32 { LONG = 32, HIGH = 32, HELD_THREADS = 512 };

#define SOFTMAX_OF(name, function, type, scalar)                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS) name##_short_##type(const SoftmaxRows p) {        \
        softmax_short<function, scalar>(p);                                                                 \
    }                                                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS) name##_long_##type(const SoftmaxRows p) {         \
        Alone alone;                                                                                        \
        softmax_rows<function, scalar, LONG>(p, alone);                                                     \
    }                                                                                                       \
    extern "C" __global__ void __launch_bounds__(HELD_THREADS) name##_block_##type(const SoftmaxRows p) {   \
        __shared__ RowRoom room;                                                                            \
        softmax_rows<function, scalar, LONG>(p, room);                                                      \
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
