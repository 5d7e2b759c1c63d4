// Averages of whole planes: a lane for a column of a plane, or a thread for a plane where planes lie side by side. Sums go as those of
// window.cuh: along the last axis, of sums over the other one. The type is the kernel's.
#include "held.cuh"
#include "linear.cuh"

struct Planes {
    char *dst;
    const char *src;
    i64 to[2], from[2];  // bytes that the loops around move: of the destination, of the source, the faster one last
    i64 row, column;     // bytes from row to row and from column to column
    Divisor near;        // iterations of the faster loop around
    u32 planes;
    u32 height, width;   // of a plane
    u32 lanes;           // of a warp that have a plane together
};

static_assert(sizeof(Planes) == 16 + 32 + 16 + 24 + 16, "plane.rs has another Planes");

// Cells that are loaded before the first is added.
enum : u32 { CELLS = 8 };

// Bytes to a plane.
__device__ __forceinline__ i64 offset_of(const Planes &p, u32 plane, const i64 (&step)[2]) {
    const u32 far = quotient(plane, p.near);
    return far * step[0] + (plane - far * u32(p.near.divisor)) * step[1];
}

// The sum of a column that begins at FROM.
template <u32 SCALAR>
__device__ __forceinline__ f32 column_sum(const Planes &p, const char *from) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    f32 part = 0;
#pragma unroll 1
    for (u32 row = 0; row < p.height; row += CELLS) {
        Bits bits[CELLS];
#pragma unroll
        for (u32 k = 0; k < CELLS; ++k) {
            // Behind the last row that one again.
            bits[k] = at<Bits>(from);
            from += row + k + 1 < p.height ? p.row : 0;
        }
#pragma unroll
        for (u32 k = 0; k < CELLS; ++k) hold(bits[k]);
#pragma unroll
        for (u32 k = 0; k < CELLS; ++k) {
            const f32 more = sum(part, value_f32(SCALAR, bits[k]));
            part = row + k < p.height ? more : part;
        }
    }
    return part;
}

template <u32 SCALAR>
__device__ __forceinline__ void write_average(const Planes &p, u32 plane, f32 total) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    const f32 r = ratio(total, f32(i32(p.height * p.width)));
    put<Bits>(p.dst + offset_of(p, plane, p.to), Bits(stored_bits(SCALAR, r)));
}

// A few lanes of a warp for a plane, each with every so manyth column.
template <u32 SCALAR>
__device__ __forceinline__ void average_by_lanes(const Planes &p) {
    const u32 index = blockIdx.x * THREADS + threadIdx.x, lane = threadIdx.x % p.lanes, number = index / p.lanes;
    const bool there = number < p.planes;
    const u32 plane = there ? number : 0;
    const char *from = p.src + offset_of(p, plane, p.from);
    f32 total = 0;
#pragma unroll 1
    for (u32 first = 0; first < p.width; first += p.lanes) {
        const u32 left = p.width - first, count = left < p.lanes ? left : p.lanes;
        // Behind the last column that one again.
        const u32 own = lane < count ? lane : count - 1;
        const f32 part = column_sum<SCALAR>(p, from + i64(first + own) * p.column);
#pragma unroll 1
        for (u32 k = 0; k < count; ++k) total = sum(total, __shfl_sync(~0u, part, threadIdx.x % 32 - lane + k));
    }
    if (there && lane == 0) write_average<SCALAR>(p, plane, total);
}

// A thread for a plane; neighbouring threads have neighbours.
template <u32 SCALAR>
__device__ __forceinline__ void average_by_thread(const Planes &p) {
    const u32 plane = blockIdx.x * THREADS + threadIdx.x;
    if (plane >= p.planes) return;
    const char *from = p.src + offset_of(p, plane, p.from);
    f32 total = 0;
#pragma unroll 1
    for (u32 column = 0; column < p.width; ++column) {
        total = sum(total, column_sum<SCALAR>(p, from));
        from += p.column;
    }
    write_average<SCALAR>(p, plane, total);
}

#define PLANE(NAME, SCALAR)                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS) plane_average_##NAME(const Planes p) {         \
        average_by_lanes<SCALAR>(p);                                                                    \
    }                                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS) plane_average_apart_##NAME(const Planes p) {   \
        average_by_thread<SCALAR>(p);                                                                   \
    }
PLANE(f32, F32)
PLANE(f16, F16)
PLANE(bf16, BF16)
#undef PLANE
