// Windows of more than three axes, which only poolings have, and the columns of a convolution.
enum { AXES = 6, TAPS = 4 };
#include "window.cuh"

WINDOW(wide_window_max, OF_MAX)
WINDOW(wide_window_average, OF_AVERAGE)
WINDOW(wide_window_max_gradient, OF_MAX_GRADIENT)
WINDOW(wide_window_average_gradient, OF_AVERAGE_GRADIENT)

// The taps of all outputs. The axes count the outputs of each, and then the taps of each, in the destination.
__device__ __forceinline__ void columns(const Window &p) {
    const u64 step = u64(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (u64 cell = u64(blockIdx.x) * blockDim.x + threadIdx.x; cell < p.count; cell += step) {
        u64 rest = cell;
        i64 output[AXES];
#pragma unroll
        for (u32 k = AXES; k-- > 0;) {
            const u64 next = quotient(rest, axis_of(p, k).extent);
            output[k] = i64(rest - next * axis_of(p, k).extent.divisor);
            rest = next;
        }
        const u64 place = quotient(rest, p.split);
        u64 tap = rest - place * p.split.divisor;
        const OperandOffsets outer = operand_offsets(place, p.loops, p.rank);
        i64 to = outer.of[0], from = outer.of[1];
        bool inside = true;
#pragma unroll
        for (u32 k = AXES; k-- > 0;) {
            const WindowAxis &axis = axis_of(p, k);
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

extern "C" __global__ void __launch_bounds__(WINDOW_THREADS, 1) window_columns(const Window p) { columns(p); }
