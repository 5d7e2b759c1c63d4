// Softmax and its gradient where a group fits into registers: every element is read once and written once. The function and the
// type are the kernel's. Sums are the tree of rows.cu, whose bits these kernels leave: 32 lanes of which each adds every 32nd
// element, joined in halves. All else is rows.cu's.
#include "formula.cuh"
#include "held.cuh"
#include "larger.cuh"
#include "linear.cuh"
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

// A warp for a group whose elements lie side by side, of at most 32 * SLOTS.
template <u32 FUNCTION, u32 SCALAR, u32 SLOTS>
__device__ __forceinline__ void softmax_row(const SoftmaxRows &p) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    constexpr bool has_peak = FUNCTION <= LOG_SOFTMAX;
    const u32 lane = threadIdx.x % 32, number = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (number >= p.groups) return;
    const char *from_x = p.at[1] + i64(number) * p.step[1] + lane * sizeof(Bits);
    const char *from_dy = p.at[2] + i64(number) * p.step[2] + lane * sizeof(Bits);
    Bits of_x[SLOTS], of_dy[SLOTS];
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (32 * k >= p.length) break;
        of_x[k] = of_dy[k] = 0;
        if (lane + 32 * k >= p.length) continue;
        of_x[k] = at<Bits>(from_x + 32 * k * sizeof(Bits));
        if (!has_peak) of_dy[k] = at<Bits>(from_dy + 32 * k * sizeof(Bits));
    }
    f32 x[SLOTS], dy[SLOTS];
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (32 * k >= p.length) break;
        hold(of_x[k]);
        if (!has_peak) hold(of_dy[k]);
        x[k] = value_f32(SCALAR, of_x[k]);
        dy[k] = value_f32(SCALAR, of_dy[k]);
        // What changes no peak.
        if (has_peak && lane + 32 * k >= p.length) x[k] = -Math<f32>::infinity();
    }
    if (has_peak) {
        f32 peak = -Math<f32>::infinity();
#pragma unroll
        for (u32 k = 0; k < SLOTS; ++k) {
            if (32 * k >= p.length) break;
            peak = larger(peak, x[k]);
        }
#pragma unroll
        for (u32 flip = 16; flip > 0; flip /= 2) peak = larger(peak, __shfl_xor_sync(~0u, peak, flip));
#pragma unroll
        for (u32 k = 0; k < SLOTS; ++k) {
            if (32 * k >= p.length) break;
            x[k] = sum(x[k], -peak);
        }
    }
    f32 node = -0.0f;
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (32 * k >= p.length) break;
        const f32 term = term_of<FUNCTION>(x[k], dy[k]);
        node = lane + 32 * k < p.length ? sum(node, term) : node;
    }
    // The halves of a tree are joined in one order, from whichever side: all lanes have the root.
#pragma unroll
    for (u32 half = 16; half > 0; half /= 2) node = sum(node, __shfl_xor_sync(~0u, node, half));
    const f32 statistic = statistic_of<FUNCTION>(node);
    char *to = p.at[0] + i64(number) * p.step[0] + lane * sizeof(Bits);
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (32 * k >= p.length) break;
        const Bits result = Bits(stored_bits(SCALAR, result_of<FUNCTION>(x[k], dy[k], statistic)));
        if (lane + 32 * k < p.length) put<Bits>(to + 32 * k * sizeof(Bits), result);
    }
}

// Eight warps for 32 neighbouring groups: thread (group, part) has the elements part, part + 8, ..., which are four lanes of the
// tree, at most SLOTS of them.
enum : u32 { PARTS = THREADS / 32 };

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
    constexpr bool has_peak = FUNCTION <= LOG_SOFTMAX;
    const u32 part = threadIdx.x / 32, number = blockIdx.x * 32 + threadIdx.x % 32;
    const bool there = number < p.groups;
    const u32 own = there ? number : 0, plane = quotient(own, p.plane), place = own - plane * u32(p.plane.divisor);
    const i64 inside = i64(place) * i64(sizeof(Bits));
    const char *from_x = p.at[1] + (plane * p.outer[1] + inside + part * p.step[1]);
    const char *from_dy = p.at[2] + (plane * p.outer[2] + inside + part * p.step[2]);
    Bits of_x[SLOTS], of_dy[SLOTS];
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (part + PARTS * k >= p.length) break;
        of_x[k] = at<Bits>(from_x);
        from_x += PARTS * p.step[1];
        of_dy[k] = 0;
        if (!has_peak) {
            of_dy[k] = at<Bits>(from_dy);
            from_dy += PARTS * p.step[2];
        }
    }
    f32 x[SLOTS], dy[SLOTS];
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (part + PARTS * k >= p.length) break;
        hold(of_x[k]);
        if (!has_peak) hold(of_dy[k]);
        x[k] = value_f32(SCALAR, of_x[k]);
        dy[k] = value_f32(SCALAR, of_dy[k]);
    }
    if (has_peak) {
        f32 peak = -Math<f32>::infinity();
#pragma unroll
        for (u32 k = 0; k < SLOTS; ++k) {
            if (part + PARTS * k >= p.length) break;
            peak = larger(peak, x[k]);
        }
        peak = joined_parts(room.peaks, peak, [](f32 a, f32 b) { return larger(a, b); });
#pragma unroll
        for (u32 k = 0; k < SLOTS; ++k) {
            if (part + PARTS * k >= p.length) break;
            x[k] = sum(x[k], -peak);
        }
    }
    f32 lane[4] = {-0.0f, -0.0f, -0.0f, -0.0f};
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (part + PARTS * k >= p.length) break;
        lane[k % 4] = sum(lane[k % 4], term_of<FUNCTION>(x[k], dy[k]));
    }
    const f32 node = sum(sum(lane[0], lane[2]), sum(lane[1], lane[3]));
    const f32 total = joined_parts(room.nodes, node, [](f32 a, f32 b) { return sum(a, b); });
    if (!there) return;
    const f32 statistic = statistic_of<FUNCTION>(total);
    char *to = p.at[0] + (plane * p.outer[0] + inside + part * p.step[0]);
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (part + PARTS * k >= p.length) break;
        put<Bits>(to, Bits(stored_bits(SCALAR, result_of<FUNCTION>(x[k], dy[k], statistic))));
        to += PARTS * p.step[0];
    }
}

// Slots of short rows, of long ones, and of columns; softmax.rs has the same.
enum : u32 { SHORT = 4, LONG = 32, HIGH = 32 };

#define SOFTMAX_OF(name, function, type, scalar)                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS) name##_short_##type(const SoftmaxRows p) {        \
        softmax_row<function, scalar, SHORT>(p);                                                            \
    }                                                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS) name##_long_##type(const SoftmaxRows p) {         \
        softmax_row<function, scalar, LONG>(p);                                                             \
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
