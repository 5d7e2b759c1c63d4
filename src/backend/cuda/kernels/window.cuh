// Functions of windows: pooling, response normalisation, the columns of a convolution, and gradients. `ops/window.rs`
// has the formulas. A thread has one cell of the destination at a time and gathers what it needs, so that no two write
// the same; sums go in the order that is told there.
#pragma once

#include "window_walk.cuh"

// Operands by the order of `OPERANDS` in `ops/window.rs`.
template <typename T>
struct Reader {
    const Window &p;
    const Place &place;
    __device__ __forceinline__ T source(const i32 *index) const {
        return Real<T>::load(p.scalar[1], p.at[2] + offset_of(p, place, 1, index));
    }
    __device__ __forceinline__ T gradient(const i32 *index) const {
        return Real<T>::load(p.scalar[2], p.at[3] + offset_of(p, place, 2, index));
    }
    __device__ __forceinline__ T mean(const i32 *index) const {
        return p.centred ? Real<T>::load(p.scalar[1], p.at[4] + offset_of(p, place, 1, index)) : T(0);
    }
};

// As a conversion from the computation type, which never goes by integers.
template <typename T>
__device__ __forceinline__ void write_result(const Operation &operation, char *y, T r) {
    if (sizeof(T) == 8 || operation.via == VIA_F64) {
        f64 x = f64(r);
        if (operation.steps & SCALED) x = product(operation.alpha, x);
        if (operation.steps & BLENDED) x = sum(x, product(operation.beta, load_f64(operation.dst, y)));
        return store_f64(operation.dst, y, x);
    }
    f32 x = f32(r);
    if (operation.steps & SCALED) x = product(f32(operation.alpha), x);
    if (operation.steps & BLENDED) x = sum(x, product(f32(operation.beta), load_f32(operation.dst, y)));
    store_f32(operation.dst, y, x);
}

// Whether x is larger than `old`, where NaNs are larger than all numbers, or smaller.
template <typename T>
__device__ __forceinline__ bool beats(T x, T old, bool propagates) {
    const bool x_is_nan = x != x, old_is_nan = old != old;
    if (x_is_nan || old_is_nan) return propagates ? x_is_nan && !old_is_nan : old_is_nan && !x_is_nan;
    return x > old;
}

template <typename T>
__device__ __forceinline__ T inverse_power(u32 exponent, T s, T beta) {
    switch (exponent) {
    case POWER_HALF: return ratio(T(1), root(s));
    case POWER_THREE_QUARTERS: return ratio(T(1), product(root(s), root(root(s))));
    case POWER_ONE: return ratio(T(1), s);
    default: return exp(log(Rounded<T>{s}) * Rounded<T>{-beta}).value;
    }
}

// Coordinates, and where the loops around are, of a cell of the destination.
template <typename Index>
__device__ __forceinline__ Place place_of(const Window &p, Index cell) {
    const Index outside = quotient(cell, p.split), inside = cell - outside * Index(p.split.divisor);
    Index rest = p.outer_inside ? inside : outside;
    Place place;
    const OperandOffsets outer = operand_offsets(rest, p.loops, p.rank);
#pragma unroll
    for (u32 k = 0; k < 3; ++k) place.outer[k] = outer.of[k];
    rest = p.outer_inside ? outside : inside;
#pragma unroll
    for (u32 k = AXES; k-- > 0;) {
        const Divisor &extent = axis_of(p, k).extent;
        const Index next = quotient(rest, extent);
        place.index[k] = i32(rest - next * Index(extent.divisor));
        rest = next;
    }
    return place;
}

template <typename T>
__device__ __forceinline__ T maximum_of(const Window &p, const Place &place) {
    const u32 fold = p.propagates ? u32(GREATEST_OR_NAN) : u32(GREATEST_NUMBER);
    const bool propagates = p.propagates != 0;
    T largest = identity_of<T>(fold);
    bool any = false;
    each<T>(p, place, 1, p.at[2], window_of(p, place.index), [&](u32, u32, const T (&number)[TAPS], u32 count) {
#pragma unroll
        for (u32 k = 0; k < TAPS; ++k) largest = k < count ? maximum(largest, number[k], propagates) : largest;
        any = true;
    });
    return any ? largest : T(p.lowest);
}

template <typename T>
__device__ __forceinline__ T average_of(const Window &p, const Place &place) {
    const T total = sum_of<T, false>(p, place, 1, p.at[2], window_of(p, place.index), [&](T x, const i32 *) { return x; });
    const i64 count = divisor_of(p, place.index);
    return count == 0 ? T(0) : ratio(total, T(count));
}

// Whether a cell, which holds `mine`, is the first largest one of an output's window: no cell before it is as large, none
// behind larger.
template <typename T>
__device__ __forceinline__ bool wins(const Window &p, const Place &place, const i32 *output, T mine) {
    const Bounds bounds = window_of(p, output);
    // Its own number among the cells: where the axes in front are, and the last two.
    u32 own_iteration = 0;
#pragma unroll
    for (u32 k = 0; k + 2 < AXES; ++k) {
        own_iteration = own_iteration * u32(bounds.end[k] - bounds.begin[k]) + u32(place.index[k] - bounds.begin[k]);
    }
    const u32 row = u32(place.index[AXES - 2] - bounds.begin[AXES - 2]);
    const u32 own = row * u32(bounds.end[AXES - 1] - bounds.begin[AXES - 1]) + u32(place.index[AXES - 1] - bounds.begin[AXES - 1]);
    const bool propagates = p.propagates != 0;
    bool wins = true;
    each<T>(p, place, 1, p.at[2], bounds, [&](u32 iteration, u32 first, const T (&number)[TAPS], u32 count) {
#pragma unroll
        for (u32 k = 0; k < TAPS; ++k) {
            if (k >= count || (iteration == own_iteration && first + k == own)) continue;
            const bool before = iteration < own_iteration || (iteration == own_iteration && first + k < own);
            wins = wins && (before ? beats(mine, number[k], propagates) : !beats(number[k], mine, propagates));
        }
    });
    return wins;
}

template <typename T>
__device__ __forceinline__ T maximum_gradient(const Window &p, const Place &place) {
    const Reader<T> read = {p, place};
    const T mine = read.source(place.index);
    const Bounds bounds = holders_of<u64>(p, place.index);
    const u32 iterations = iterations_of(bounds);
    T total = T(0);
    i32 output[AXES];
#pragma unroll 1
    for (u32 iteration = 0; iteration < iterations; ++iteration) {
        front_of(bounds, iteration, output);
#pragma unroll 1
        for (output[AXES - 2] = bounds.begin[AXES - 2]; output[AXES - 2] < bounds.end[AXES - 2]; ++output[AXES - 2]) {
#pragma unroll 1
            for (output[AXES - 1] = bounds.begin[AXES - 1]; output[AXES - 1] < bounds.end[AXES - 1]; ++output[AXES - 1]) {
                if (wins<T>(p, place, output, mine)) total = sum(total, read.gradient(output));
            }
        }
    }
    return total;
}

template <typename T>
__device__ __forceinline__ T average_gradient(const Window &p, const Place &place) {
    return sum_of<T, true>(p, place, 2, p.at[3], holders_of<u64>(p, place.index), [&](T given, const i32 *output) {
        return ratio(given, T(divisor_of(p, output)));
    });
}

// k + scale * sum (x' - m)^2
template <typename T>
__device__ __forceinline__ T base_of(const Window &p, const Place &place, const i32 *output) {
    const Reader<T> read = {p, place};
    const T mean = read.mean(output);
    const T total = sum_of<T, false>(p, place, 1, p.at[2], window_of(p, output), [&](T x, const i32 *) {
        const T difference = sum(x, -mean);
        return product(difference, difference);
    });
    return sum(T(p.number[0]), product(T(p.number[1]), total));
}

// dy * x * s^(-beta - 1)
template <typename T>
__device__ __forceinline__ T term_of(const Window &p, const Place &place, const i32 *output) {
    const Reader<T> read = {p, place};
    const T base = base_of<T>(p, place, output);
    const T power = ratio(inverse_power(p.exponent, base, T(p.number[2])), base);
    return product(product(read.gradient(output), read.source(output)), power);
}

template <typename T>
__device__ __forceinline__ T normalised(const Window &p, const Place &place) {
    const Reader<T> read = {p, place};
    const T base = base_of<T>(p, place, place.index);
    return product(read.source(place.index), inverse_power(p.exponent, base, T(p.number[2])));
}

template <typename T>
__device__ __forceinline__ T normalised_gradient(const Window &p, const Place &place) {
    const Reader<T> read = {p, place};
    const T x = read.source(place.index);
    T total = sum_of_sums<T>(holders_of<u64>(p, place.index), [&](const i32 *output) {
        const T term = term_of<T>(p, place, output);
        return p.centred ? product(term, sum(x, -read.mean(output))) : term;
    });
    if (!p.centred) total = product(x, total);
    const T base = base_of<T>(p, place, place.index);
    const T direct = product(read.gradient(place.index), inverse_power(p.exponent, base, T(p.number[2])));
    return sum(direct, -product(T(p.number[3]), total));
}

template <typename T>
__device__ __forceinline__ T means_gradient(const Window &p, const Place &place) {
    const Reader<T> read = {p, place};
    const T mean = read.mean(place.index);
    const T spread = sum_of<T, false>(p, place, 1, p.at[2], window_of(p, place.index),
                                      [&](T x, const i32 *) { return sum(x, -mean); });
    return product(product(T(p.number[3]), term_of<T>(p, place, place.index)), spread);
}

template <typename T, u32 FUNCTION>
__device__ __forceinline__ T result_of(const Window &p, const Place &place) {
    if constexpr (FUNCTION == OF_MAX) return maximum_of<T>(p, place);
    if constexpr (FUNCTION == OF_AVERAGE) return average_of<T>(p, place);
    if constexpr (FUNCTION == OF_MAX_GRADIENT) return maximum_gradient<T>(p, place);
    if constexpr (FUNCTION == OF_AVERAGE_GRADIENT) return average_gradient<T>(p, place);
    if constexpr (FUNCTION == OF_NORMALISE) return normalised<T>(p, place);
    return normalised_gradient<T>(p, place);
}

template <typename T, u32 FUNCTION>
__device__ __forceinline__ void window(const Window &p) {
    const u64 step = u64(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (u64 cell = u64(blockIdx.x) * blockDim.x + threadIdx.x; cell < p.count; cell += step) {
        const Place place = place_of(p, cell);
        const T r = result_of<T, FUNCTION>(p, place);
        const i64 offset = offset_of(p, place, 0, place.index);
        write_result(p.operation, p.at[0] + offset, r);
        if constexpr (FUNCTION == OF_NORMALISE_GRADIENT) {
            if (p.means) write_result(p.operation, p.at[1] + offset, means_gradient<T>(p, place));
        }
    }
}

// The second bound keeps the assembler from spilling for the sake of more blocks.
#define WINDOW(NAME, FUNCTION)                                                                        \
    extern "C" __global__ void __launch_bounds__(WINDOW_THREADS, 1) NAME##_f32(const Window p) {      \
        window<f32, FUNCTION>(p);                                                                     \
    }                                                                                                 \
    extern "C" __global__ void __launch_bounds__(WINDOW_THREADS, 1) NAME##_f64(const Window p) {      \
        window<f64, FUNCTION>(p);                                                                     \
    }
