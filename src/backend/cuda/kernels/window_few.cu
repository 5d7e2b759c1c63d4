// Windows of at most three by three cells, which are computed in binary32 and lie within reach of 32 bits: a thread has two
// cells of the destination, and loads all taps of both before it looks at the first.
enum { AXES = 2, TAPS = 9 };
#include "window.cuh"

// Taps along an axis, and cells of a thread; `window.rs` has the same numbers.
enum { SIDE = 3, CELLS = 2 };

// Where a tap lies: added up where it is loaded, as sums would take registers.
struct Tap {
    const char *base;
    i32 cell, step;
    __device__ __forceinline__ operator const char *() const { return base + (cell + step); }
};

// What is left of a cell's place when its taps are walked.
struct Cell {
    i32 from, to;             // bytes to its first tap, and to itself
    i32 begin[2], extent[2];  // of the taps
    i32 count;                // divisor of an average
};

template <u32 FUNCTION>
__device__ __forceinline__ Cell cell_of(const Window &p, u32 index, u32 layout) {
    const Place place = place_of(p, index);
    const Bounds bounds = FUNCTION == OF_AVERAGE_GRADIENT ? holders_of<u32>(p, place.index) : window_of(p, place.index);
    Cell cell;
    cell.from = i32(place.outer[layout]);
    cell.to = i32(place.outer[0]);
#pragma unroll
    for (u32 k = 0; k < 2; ++k) {
        const WindowAxis &axis = axis_of(p, k);
        cell.begin[k] = bounds.begin[k];
        cell.extent[k] = bounds.end[k] - bounds.begin[k];
        cell.from += bounds.begin[k] * i32(axis.step[layout]);
        cell.to += place.index[k] * i32(axis.step[0]);
    }
    cell.count = FUNCTION == OF_AVERAGE ? i32(divisor_of(p, place.index)) : 0;
    return cell;
}

template <u32 FUNCTION>
__device__ __forceinline__ void few(const Window &p) {
    constexpr bool GRADIENT = FUNCTION == OF_AVERAGE_GRADIENT, SUMS = FUNCTION != OF_MAX;
    // A maximum is found in row-major order; sums go along the last axis, of sums over the other one.
    constexpr u32 LAYOUT = GRADIENT ? 2 : 1, SLOW = SUMS ? 1 : 0, FAST = 1 - SLOW;
    const i32 slow_step = i32(axis_of(p, SLOW).step[LAYOUT]), fast_step = i32(axis_of(p, FAST).step[LAYOUT]);
    const bool propagates = p.propagates != 0;
    const u32 first = blockIdx.x * (WINDOW_THREADS * CELLS) + threadIdx.x;
    Cell cells[CELLS];
    Tap taps[CELLS * TAPS];
    u32 wanted = 0;
#pragma unroll
    for (u32 c = 0; c < CELLS; ++c) {
        const u32 index = first + c * WINDOW_THREADS;
        cells[c] = cell_of<FUNCTION>(p, index < u32(p.count) ? index : 0, LAYOUT);
#pragma unroll
        for (u32 k = 0; k < TAPS; ++k) {
            const i32 slow = k / SIDE, fast = k % SIDE;
            taps[c * TAPS + k] = {p.at[LAYOUT + 1], cells[c].from, slow * slow_step + fast * fast_step};
            wanted |= u32(slow < cells[c].extent[SLOW] && fast < cells[c].extent[FAST]) << (c * TAPS + k);
        }
    }
    u32 bits[CELLS * TAPS];
    fetch(p.scalar[LAYOUT], taps, bits, wanted);
    f32 number[CELLS * TAPS];
    numbers(p.scalar[LAYOUT], bits, number);
#pragma unroll
    for (u32 c = 0; c < CELLS; ++c) {
        if (first + c * WINDOW_THREADS >= u32(p.count)) return;
        const Cell &cell = cells[c];
        f32 total = SUMS ? 0 : identity_of<f32>(propagates ? u32(GREATEST_OR_NAN) : u32(GREATEST_NUMBER)), part = 0;
#pragma unroll
        for (u32 k = 0; k < TAPS; ++k) {
            const bool there = wanted >> (c * TAPS + k) & 1;
            f32 x = number[c * TAPS + k];
            if (!SUMS) {
                total = there ? maximum(total, x, propagates) : total;
                continue;
            }
            if (GRADIENT && there) {
                i32 output[2];
                output[SLOW] = cell.begin[SLOW] + i32(k / SIDE);
                output[FAST] = cell.begin[FAST] + i32(k % SIDE);
                x = ratio(x, f32(divisor_of(p, output)));
            }
            part = there ? sum(part, x) : part;
            if (k % SIDE + 1 < SIDE) continue;
            // No sum is -0, so that one of nothing changes none.
            total = sum(total, part);
            part = 0;
        }
        if (FUNCTION == OF_AVERAGE) total = cell.count == 0 ? 0 : ratio(total, f32(cell.count));
        if (!SUMS && cell.extent[0] * cell.extent[1] == 0) total = f32(p.lowest);
        write_result(p.operation, p.at[0] + cell.to, total);
    }
}

// BLOCKS: of a multiprocessor, where the assembler would leave room for half of them.
#define FEW(NAME, FUNCTION, BLOCKS)                                                                         \
    extern "C" __global__ void __launch_bounds__(WINDOW_THREADS, BLOCKS) few_window_##NAME(const Window p) { \
        few<FUNCTION>(p);                                                                                   \
    }
FEW(max, OF_MAX, 8)
FEW(average, OF_AVERAGE, 8)
FEW(average_gradient, OF_AVERAGE_GRADIENT, 7)
#undef FEW
