// Functions of windows: pooling, response normalisation, the columns of a convolution, and gradients. `ops/window.rs`
// has the formulas. A thread has one cell of the destination at a time and gathers what it needs, so that no two write
// the same; sums go in the order that is told there.
#include "function.cuh"
#include "math.cuh"
#include "pointwise.cuh"

// An axis of a window. Steps and blocks are by layout: of the destination, the source, what the forward function wrote.
struct WindowAxis {
    i64 inputs, outputs, window, stride, dilation, pad;
    Divisor extent;    // coordinates of the destination
    i64 step[3];       // bytes from coordinate to coordinate, or from group to group
    Divisor block[3];  // coordinates of a group, whose cells lie side by side
};

enum { AXES = 6 };

// What a kernel computes.
enum WindowFunction : u32 { OF_MAX, OF_AVERAGE, OF_MAX_GRADIENT, OF_AVERAGE_GRADIENT, OF_NORMALISE, OF_NORMALISE_GRADIENT };

// How powers are found; the order of `exponent` in `window.rs`.
enum PowerOf : u32 { POWER_HALF, POWER_THREE_QUARTERS, POWER_ONE, POWER_ANY };

struct Window {
    char *at[5];
    u64 count;             // cells of the destination
    Divisor split;         // what turns faster: cells of the axes, or places of the loops around
    Operation operation;   // from the computation type to the destination
    f64 number[4];         // k, scale, beta and 2 * beta * scale
    f64 lowest;            // the maximum of nothing
    u32 scalar[3];         // by layout
    u32 exponent;          // PowerOf
    u32 propagates;        // of a maximum: NaNs win
    u32 padded;            // of an average: padding counts
    u32 centred;           // whether there are means
    u32 means;             // whether their gradient is wanted
    u32 outer_inside;      // whether the loops around turn faster than the axes
    u32 rank;              // of the loops around
    OperandTurn turns[20];  // the loops around, innermost first
    WindowAxis axes[AXES];  // the last one is the fastest; those in front that are not used have extents 1
};

static_assert(sizeof(WindowAxis) == 48 + 24 + 24 + 72, "window.rs has another WindowAxis");
static_assert(sizeof(Window) == 40 + 8 + 24 + 32 + 32 + 8 + 40 + 48 * 20 + 168 * 6, "window.rs has another Window");

// Coordinates from `begin` to below `end` along every axis: extents of a descriptor fit 31 bits.
struct Bounds {
    i32 begin[AXES], end[AXES];
};

// A cell of the destination: its coordinates, and where the loops around are, in bytes by layout.
struct Place {
    i32 index[AXES];
    i64 outer[3];
};

__device__ __forceinline__ i64 ceil_div(i64 a, i64 b) { return a / b + (a % b != 0); }

// The cells of an output's window. Without dilation.
__device__ __forceinline__ void cells_of(const WindowAxis &axis, i64 output, i32 &begin, i32 &end) {
    const i64 first = output * axis.stride - axis.pad;
    const i64 low = first < 0 ? 0 : first;
    const i64 high = first + axis.window < axis.inputs ? first + axis.window : axis.inputs;
    begin = low < high ? i32(low) : 0;
    end = low < high ? i32(high) : 0;
}

// The outputs whose windows hold a cell.
__device__ __forceinline__ void outputs_of(const WindowAxis &axis, i64 cell, i32 &begin, i32 &end) {
    const i64 behind = cell + axis.pad, first = behind + 1 - axis.window;
    const i64 low = first > 0 ? ceil_div(first, axis.stride) : 0;
    i64 high = behind < 0 ? 0 : behind / axis.stride + 1;
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
    for (u32 k = 0; k + 1 < AXES; ++k) offset += index[k] * p.axes[k].step[layout];
    return offset + along(p, p.axes[AXES - 1], layout, index[AXES - 1]);
}

// Calls `f` with all coordinates between bounds, in row-major order: of all axes, or of all but the last one, whose
// coordinate is there. The axes in front of the last two, which are mostly not used, are one loop: six of them would take
// more registers than there are.
template <bool LAST, typename F>
__device__ __forceinline__ void each(const Bounds &bounds, i32 *index, F f) {
    u32 turns = 1;
#pragma unroll
    for (u32 k = 0; k < AXES - 2; ++k) turns *= u32(bounds.end[k] - bounds.begin[k]);
#pragma unroll 1
    for (u32 turn = 0; turn < turns; ++turn) {
        u32 rest = turn;
#pragma unroll
        for (u32 k = AXES - 2; k-- > 0;) {
            const u32 extent = u32(bounds.end[k] - bounds.begin[k]);
            index[k] = bounds.begin[k] + i32(rest % extent);
            rest /= extent;
        }
#pragma unroll 1
        for (index[AXES - 2] = bounds.begin[AXES - 2]; index[AXES - 2] < bounds.end[AXES - 2]; ++index[AXES - 2]) {
            if constexpr (!LAST) {
                f(index);
            } else {
#pragma unroll 1
                for (i32 i = bounds.begin[AXES - 1]; i < bounds.end[AXES - 1]; ++i) {
                    index[AXES - 1] = i;
                    f(index);
                }
            }
        }
    }
}

template <typename F>
__device__ __forceinline__ void each(const Bounds &bounds, F f) {
    i32 index[AXES];
    each<true>(bounds, index, f);
}

// The sum of `term` between bounds: along the last axis, of sums over the other ones.
template <typename T, typename F>
__device__ __forceinline__ T sum_of(const Bounds &bounds, F term) {
    T total = T(0);
    i32 index[AXES];
#pragma unroll 1
    for (i32 i = bounds.begin[AXES - 1]; i < bounds.end[AXES - 1]; ++i) {
        index[AXES - 1] = i;
        T part = T(0);
        each<false>(bounds, index, [&](const i32 *at) { part = sum(part, term(at)); });
        total = sum(total, part);
    }
    return total;
}

__device__ __forceinline__ Bounds window_of(const Window &p, const i32 *output) {
    Bounds bounds;
#pragma unroll
    for (u32 k = 0; k < AXES; ++k) cells_of(p.axes[k], output[k], bounds.begin[k], bounds.end[k]);
    return bounds;
}

__device__ __forceinline__ Bounds holders_of(const Window &p, const i32 *cell) {
    Bounds bounds;
#pragma unroll
    for (u32 k = 0; k < AXES; ++k) outputs_of(p.axes[k], cell[k], bounds.begin[k], bounds.end[k]);
    return bounds;
}

__device__ __forceinline__ i64 divisor_of(const Window &p, const i32 *output) {
    i64 count = 1;
#pragma unroll
    for (u32 k = 0; k < AXES; ++k) count *= count_of(p.axes[k], output[k], p.padded != 0);
    return count;
}

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
__device__ __forceinline__ Place place_of(const Window &p, u64 cell) {
    const u64 outside = quotient(cell, p.split), inside = cell - outside * p.split.divisor;
    u64 rest = p.outer_inside ? inside : outside;
    Place place;
    const OperandOffsets outer = operand_offsets(rest, p.turns, p.rank);
#pragma unroll
    for (u32 k = 0; k < 3; ++k) place.outer[k] = outer.of[k];
    rest = p.outer_inside ? outside : inside;
#pragma unroll
    for (u32 k = AXES; k-- > 0;) {
        const Divisor &extent = p.axes[k].extent;
        const u64 next = quotient(rest, extent);
        place.index[k] = i32(rest - next * extent.divisor);
        rest = next;
    }
    return place;
}

template <typename T>
__device__ __forceinline__ T maximum_of(const Window &p, const Place &place) {
    const Reader<T> read = {p, place};
    const u32 fold = p.propagates ? u32(GREATEST_OR_NAN) : u32(GREATEST_NUMBER);
    T largest = identity_of<T>(fold);
    bool any = false;
    each(window_of(p, place.index), [&](const i32 *cell) {
        largest = joined(fold, largest, read.source(cell));
        any = true;
    });
    return any ? largest : T(p.lowest);
}

template <typename T>
__device__ __forceinline__ T average_of(const Window &p, const Place &place) {
    const Reader<T> read = {p, place};
    const T total = sum_of<T>(window_of(p, place.index), [&](const i32 *cell) { return read.source(cell); });
    const i64 count = divisor_of(p, place.index);
    return count == 0 ? T(0) : ratio(total, T(count));
}

// Whether a cell is the first largest one of an output's window: no cell before it is as large, none behind larger.
template <typename T>
__device__ __forceinline__ bool wins(const Window &p, const Place &place, const i32 *output) {
    const Reader<T> read = {p, place};
    const T mine = read.source(place.index);
    const bool propagates = p.propagates != 0;
    bool before = true, wins = true;
    each(window_of(p, output), [&](const i32 *cell) {
        if (!wins) return;
        bool is_mine = true;
#pragma unroll
        for (u32 k = 0; k < AXES; ++k) is_mine = is_mine && cell[k] == place.index[k];
        if (is_mine) {
            before = false;
            return;
        }
        const T other = read.source(cell);
        wins = before ? beats(mine, other, propagates) : !beats(other, mine, propagates);
    });
    return wins;
}

template <typename T>
__device__ __forceinline__ T maximum_gradient(const Window &p, const Place &place) {
    const Reader<T> read = {p, place};
    T total = T(0);
    each(holders_of(p, place.index), [&](const i32 *output) {
        if (wins<T>(p, place, output)) total = sum(total, read.gradient(output));
    });
    return total;
}

template <typename T>
__device__ __forceinline__ T average_gradient(const Window &p, const Place &place) {
    const Reader<T> read = {p, place};
    return sum_of<T>(holders_of(p, place.index), [&](const i32 *output) {
        return ratio(read.gradient(output), T(divisor_of(p, output)));
    });
}

// k + scale * sum (x' - m)^2
template <typename T>
__device__ __forceinline__ T base_of(const Window &p, const Place &place, const i32 *output) {
    const Reader<T> read = {p, place};
    const T mean = read.mean(output);
    const T total = sum_of<T>(window_of(p, output), [&](const i32 *cell) {
        const T difference = sum(read.source(cell), -mean);
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
    T total = sum_of<T>(holders_of(p, place.index), [&](const i32 *output) {
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
    const T spread = sum_of<T>(window_of(p, place.index),
                               [&](const i32 *cell) { return sum(read.source(cell), -mean); });
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

// The taps of all outputs. The axes count the outputs of each, and then the taps of each, in the destination.
__device__ __forceinline__ void columns(const Window &p) {
    const u64 step = u64(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (u64 cell = u64(blockIdx.x) * blockDim.x + threadIdx.x; cell < p.count; cell += step) {
        u64 rest = cell;
        i64 output[AXES];
#pragma unroll
        for (u32 k = AXES; k-- > 0;) {
            const u64 next = quotient(rest, p.axes[k].extent);
            output[k] = i64(rest - next * p.axes[k].extent.divisor);
            rest = next;
        }
        const u64 place = quotient(rest, p.split);
        u64 tap = rest - place * p.split.divisor;
        const OperandOffsets outer = operand_offsets(place, p.turns, p.rank);
        i64 to = outer.of[0], from = outer.of[1];
        bool inside = true;
#pragma unroll
        for (u32 k = AXES; k-- > 0;) {
            const WindowAxis &axis = p.axes[k];
            const u64 next = tap / u64(axis.window);
            const i64 here = i64(tap - next * u64(axis.window));
            tap = next;
            const i64 at = output[k] * axis.stride + here * axis.dilation - axis.pad;
            to += along(p, axis, 0, output[k]) + here * axis.step[2];
            inside = inside && at >= 0 && at < axis.inputs;
            from += inside ? along(p, axis, 1, at) : 0;
        }
        if (inside) {
            compute(p.operation, p.at[0] + to, p.at[2] + from);
        } else {
            write_element(p.operation, p.at[0] + to, 0);
        }
    }
}

// The second bound keeps the assembler from spilling for the sake of more blocks.
#define WINDOW(NAME, FUNCTION)                                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) NAME##_f32(const Window p) { window<f32, FUNCTION>(p); } \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) NAME##_f64(const Window p) { window<f64, FUNCTION>(p); }
WINDOW(window_max, OF_MAX)
WINDOW(window_average, OF_AVERAGE)
WINDOW(window_max_gradient, OF_MAX_GRADIENT)
WINDOW(window_average_gradient, OF_AVERAGE_GRADIENT)
WINDOW(window_response, OF_NORMALISE)
WINDOW(window_response_gradient, OF_NORMALISE_GRADIENT)
#undef WINDOW

extern "C" __global__ void __launch_bounds__(THREADS, 1) window_columns(const Window p) { columns(p); }
