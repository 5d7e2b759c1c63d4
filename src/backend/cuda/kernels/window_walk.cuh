// What is in a window, and walks over it: bounds of cells and outputs, and loads of several cells at once.
#pragma once

#include "function.cuh"
#include "math.cuh"
#include "pointwise.cuh"

// An axis of a window. Steps and blocks are by layout: of the destination, the source, what the forward function wrote.
struct WindowAxis {
    i64 inputs, outputs, window, stride, dilation, pad;
    Divisor by_stride;
    Divisor extent;    // coordinates of the destination
    i64 step[3];       // bytes from coordinate to coordinate, or from group to group
    Divisor block[3];  // coordinates of a group, whose cells lie side by side
};

// Axes of the parameters. The including file says how many of them, the last ones, its kernels look at: AXES; and how many
// cells of a window are loaded before the first is looked at: TAPS.
enum { ALL_AXES = 6 };

// Threads of a block: narrow blocks leave fewer registers idle.
enum { WINDOW_THREADS = 128 };

// What a kernel computes.
enum WindowFunction : u32 { OF_MAX, OF_AVERAGE, OF_MAX_GRADIENT, OF_AVERAGE_GRADIENT, OF_NORMALISE, OF_NORMALISE_GRADIENT };

// How powers are found; the order of `exponent` in `window.rs`.
enum PowerOf : u32 { POWER_HALF, POWER_THREE_QUARTERS, POWER_ONE, POWER_ANY };

struct Window {
    char *at[5];
    u64 count;             // cells of the destination
    Divisor split;         // what runs faster: cells of the axes, or places of the loops around
    Operation operation;   // from the computation type to the destination
    f64 number[4];         // k, scale, beta and 2 * beta * scale
    f64 lowest;            // the maximum of nothing
    u32 scalar[3];         // by layout
    u32 exponent;          // PowerOf
    u32 propagates;        // of a maximum: NaNs win
    u32 padded;            // of an average: padding counts
    u32 centred;           // whether there are means
    u32 means;             // whether their gradient is wanted
    u32 outer_inside;      // whether the loops around run faster than the axes
    u32 rank;              // of the loops around
    OperandLoop loops[20];  // the loops around, innermost first
    WindowAxis axes[ALL_AXES];  // the last one is the fastest; those in front that are not used have extents 1
};

static_assert(sizeof(WindowAxis) == 48 + 24 + 24 + 24 + 72, "window.rs has another WindowAxis");
static_assert(sizeof(Window) == 40 + 8 + 24 + 32 + 32 + 8 + 40 + 48 * 20 + 192 * ALL_AXES, "window.rs has another Window");

__device__ __forceinline__ const WindowAxis &axis_of(const Window &p, u32 k) { return p.axes[k + ALL_AXES - AXES]; }

// Coordinates from `begin` to below `end` along every axis: extents of a descriptor fit 31 bits.
struct Bounds {
    i32 begin[AXES], end[AXES];
};

// A cell of the destination: its coordinates, and where the loops around are, in bytes by layout.
struct Place {
    i32 index[AXES];
    i64 outer[3];
};

// The cells of an output's window. Without dilation.
__device__ __forceinline__ void cells_of(const WindowAxis &axis, i64 output, i32 &begin, i32 &end) {
    const i64 first = output * axis.stride - axis.pad;
    const i64 low = first < 0 ? 0 : first;
    const i64 high = first + axis.window < axis.inputs ? first + axis.window : axis.inputs;
    begin = low < high ? i32(low) : 0;
    end = low < high ? i32(high) : 0;
}

// The outputs whose windows hold a cell. INDEX: what divisors of the launch divide.
template <typename Index>
__device__ __forceinline__ void outputs_of(const WindowAxis &axis, i64 cell, i32 &begin, i32 &end) {
    const i64 behind = cell + axis.pad, first = behind + 1 - axis.window;
    const i64 low = first > 0 ? i64(quotient(Index(first + axis.stride - 1), axis.by_stride)) : 0;
    i64 high = behind < 0 ? 0 : i64(quotient(Index(behind), axis.by_stride)) + 1;
    if (high > axis.outputs) high = axis.outputs;
    begin = low < high ? i32(low) : 0;
    end = low < high ? i32(high) : 0;
}

// The factor of an axis in a divisor.
__device__ __forceinline__ i64 count_of(const WindowAxis &axis, i64 output, bool padded) {
    i32 begin, end;
    cells_of(axis, output, begin, end);
    if (begin == end || !padded) return end - begin;
    const i64 first = output * axis.stride - axis.pad;
    const i64 last = first + axis.window < axis.inputs + axis.pad ? first + axis.window : axis.inputs + axis.pad;
    return last - first > end - begin ? last - first : end - begin;
}

// Bytes from coordinate 0. Only the last axis may lie in groups: channels do, and then there is no other axis.
__device__ __forceinline__ i64 along(const Window &p, const WindowAxis &axis, u32 layout, i64 i) {
    const Divisor &block = axis.block[layout];
    if (block.divisor == 1) return i * axis.step[layout];
    const u64 group = quotient(u64(i), block);
    return i64(group) * axis.step[layout] + (i - i64(group * block.divisor)) * size_of(p.scalar[layout]);
}

// Where the cell of these coordinates lies in a layout.
__device__ __forceinline__ i64 offset_of(const Window &p, const Place &place, u32 layout, const i32 *index) {
    i64 offset = place.outer[layout];
#pragma unroll
    for (u32 k = 0; k + 1 < AXES; ++k) offset += index[k] * axis_of(p, k).step[layout];
    return offset + along(p, axis_of(p, AXES - 1), layout, index[AXES - 1]);
}

// One of some numbers, without an index that only a run knows, which would put them into memory.
template <typename T, u32 N>
__device__ __forceinline__ T picked(const T (&of)[N], u32 i) {
    T x = of[0];
#pragma unroll
    for (u32 k = 1; k < N; ++k) x = i == k ? of[k] : x;
    return x;
}

// What some elements are as numbers: the type is asked for once. What is computed in binary32 has at most four bytes.
template <typename T, u32 N>
__device__ __forceinline__ void numbers(u32 scalar, const typename Real<T>::Bits (&bits)[N], T (&number)[N]) {
#define ALL_ARE(SCALAR)                                                                            \
    case SCALAR:                                                                                   \
        _Pragma("unroll") for (u32 i = 0; i < N; ++i) number[i] = Real<T>::value(SCALAR, bits[i]); \
        return;
    switch (scalar) {
        ALL_ARE(F32)
        ALL_ARE(F16)
        ALL_ARE(BF16)
        ALL_ARE(I8)
        ALL_ARE(F64)
    default:
#pragma unroll
        for (u32 i = 0; i < N; ++i) number[i] = Real<T>::value(scalar, bits[i]);
    }
#undef ALL_ARE
}

// The coordinates of the axes in front of the last two, which are mostly not used and therefore one loop: six loops would
// take more registers than there are.
__device__ __forceinline__ u32 iterations_of(const Bounds &bounds) {
    u32 iterations = 1;
#pragma unroll
    for (u32 k = AXES - 2; k-- > 0;) iterations *= u32(bounds.end[k] - bounds.begin[k]);
    return iterations;
}

__device__ __forceinline__ void front_of(const Bounds &bounds, u32 iteration, i32 *index) {
#pragma unroll
    for (u32 k = AXES - 2; k-- > 0;) {
        const u32 extent = u32(bounds.end[k] - bounds.begin[k]);
        index[k] = bounds.begin[k] + i32(iteration % extent);
        iteration /= extent;
    }
}

// Calls `f(first, numbers, count)` with the numbers that some cells hold, TAPS of them or what is left, all loaded before
// the first is looked at: those of `n` coordinates of an axis for each of `m` of another one, which runs slower. LAST: which
// of the two is the last axis, the faster one or the slower one.
template <typename T, bool LAST, typename F>
__device__ __forceinline__ void walk(const Window &p, u32 layout, const char *from, i32 slow, i32 fast, u32 m, u32 n, F f) {
    const u32 all = m * n;
    u32 i = 0, j = 0;
#pragma unroll 1
    for (u32 first = 0; first < all; first += TAPS) {
        const char *place[TAPS];
#pragma unroll
        for (u32 k = 0; k < TAPS; ++k) {
            const i64 last = LAST ? fast + i64(j) : slow + i64(i), other = LAST ? slow + i64(i) : fast + i64(j);
            place[k] = from + along(p, axis_of(p, AXES - 1), layout, last) + other * axis_of(p, AXES - 2).step[layout];
            const bool wraps = ++j == n;
            i += wraps;
            j = wraps ? 0 : j;
        }
        const u32 count = all - first < u32(TAPS) ? all - first : u32(TAPS);
        typename Real<T>::Bits bits[TAPS];
        fetch(p.scalar[layout], place, bits, (1u << count) - 1);
        T number[TAPS];
        numbers(p.scalar[layout], bits, number);
        f(first, number, count);
    }
}

// Where the cells of the axes in front lie in a layout.
__device__ __forceinline__ i64 front_offset(const Window &p, const Place &place, u32 layout, const i32 *index) {
    i64 offset = place.outer[layout];
#pragma unroll
    for (u32 k = 0; k + 2 < AXES; ++k) offset += index[k] * axis_of(p, k).step[layout];
    return offset;
}

// Calls `f(iteration, first, numbers, count)` with the numbers of the cells between bounds, in row-major order.
template <typename T, typename F>
__device__ __forceinline__ void each(const Window &p, const Place &place, u32 layout, const char *base, const Bounds &bounds, F f) {
    const u32 iterations = iterations_of(bounds);
    const u32 m = u32(bounds.end[AXES - 2] - bounds.begin[AXES - 2]), n = u32(bounds.end[AXES - 1] - bounds.begin[AXES - 1]);
#pragma unroll 1
    for (u32 iteration = 0; iteration < iterations; ++iteration) {
        i32 index[AXES];
        front_of(bounds, iteration, index);
        const char *from = base + front_offset(p, place, layout, index);
        walk<T, true>(p, layout, from, bounds.begin[AXES - 2], bounds.begin[AXES - 1], m, n,
                      [&](u32 first, const T (&number)[TAPS], u32 count) { f(iteration, first, number, count); });
    }
}

// The sum of `term(number, index)` between bounds: along the last axis, of sums over the other ones. INDEXED: whether the
// term asks for coordinates.
template <typename T, bool INDEXED, typename F>
__device__ __forceinline__ T sum_of(const Window &p, const Place &place, u32 layout, const char *base, const Bounds &bounds, F term) {
    const u32 iterations = iterations_of(bounds);
    const u32 m = u32(bounds.end[AXES - 1] - bounds.begin[AXES - 1]), n = u32(bounds.end[AXES - 2] - bounds.begin[AXES - 2]);
    if (iterations * n == 0) return T(0);
    // Together where only the two axes have iterations, else one coordinate of the last one after the other.
    const u32 together = iterations == 1 ? m : 1;
    T total = T(0), part = T(0);
#pragma unroll 1
    for (u32 begin = 0; begin < m; begin += together) {
#pragma unroll 1
        for (u32 iteration = 0; iteration < iterations; ++iteration) {
            i32 index[AXES];
            front_of(bounds, iteration, index);
            const i32 last = bounds.begin[AXES - 1] + i32(begin);
            const char *from = base + front_offset(p, place, layout, index);
            u32 i = 0, j = 0;
            walk<T, false>(p, layout, from, last, bounds.begin[AXES - 2], together, n,
                           [&](u32, const T (&number)[TAPS], u32 count) {
                const auto add = [&](u32 k) {
                    index[AXES - 1] = last + i32(i);
                    index[AXES - 2] = bounds.begin[AXES - 2] + i32(j);
                    part = sum(part, term(picked(number, k), index));
                    if (++j < n) return;
                    j = 0;
                    ++i;
                    if (iteration + 1 < iterations) return;
                    total = sum(total, part);
                    part = T(0);
                };
                if constexpr (INDEXED) {
#pragma unroll 1
                    for (u32 k = 0; k < count; ++k) add(k);
                } else {
#pragma unroll
                    for (u32 k = 0; k < TAPS; ++k) {
                        if (k < count) add(k);
                    }
                }
            });
        }
    }
    return total;
}

// The sum of `term(index)` where that is a sum by itself, and finds its own numbers.
template <typename T, typename F>
__device__ __forceinline__ T sum_of_sums(const Bounds &bounds, F term) {
    const u32 iterations = iterations_of(bounds);
    T total = T(0);
    i32 index[AXES];
#pragma unroll 1
    for (index[AXES - 1] = bounds.begin[AXES - 1]; index[AXES - 1] < bounds.end[AXES - 1]; ++index[AXES - 1]) {
        T part = T(0);
#pragma unroll 1
        for (u32 iteration = 0; iteration < iterations; ++iteration) {
            front_of(bounds, iteration, index);
#pragma unroll 1
            for (index[AXES - 2] = bounds.begin[AXES - 2]; index[AXES - 2] < bounds.end[AXES - 2]; ++index[AXES - 2]) {
                part = sum(part, term(index));
            }
        }
        total = sum(total, part);
    }
    return total;
}

__device__ __forceinline__ Bounds window_of(const Window &p, const i32 *output) {
    Bounds bounds;
#pragma unroll
    for (u32 k = 0; k < AXES; ++k) cells_of(axis_of(p, k), output[k], bounds.begin[k], bounds.end[k]);
    return bounds;
}

template <typename Index>
__device__ __forceinline__ Bounds holders_of(const Window &p, const i32 *cell) {
    Bounds bounds;
#pragma unroll
    for (u32 k = 0; k < AXES; ++k) outputs_of<Index>(axis_of(p, k), cell[k], bounds.begin[k], bounds.end[k]);
    return bounds;
}

__device__ __forceinline__ i64 divisor_of(const Window &p, const i32 *output) {
    i64 count = 1;
#pragma unroll
    for (u32 k = 0; k < AXES; ++k) count *= count_of(axis_of(p, k), output[k], p.padded != 0);
    return count;
}
