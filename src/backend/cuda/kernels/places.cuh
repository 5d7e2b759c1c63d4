// Where six operands of an element lie, by loops over all of them.
#pragma once

#include "params.cuh"

// One loop over the operands of a group or of what it holds.
struct NormalLoop {
    Divisor extent;
    i64 step[6];
};

struct Places {
    i64 of[6];
};

__device__ __forceinline__ Places places(u64 index, const NormalLoop *loops, u32 rank) {
    Places offsets = {{0, 0, 0, 0, 0, 0}};
    u64 rest = index;
#pragma unroll 1
    for (u32 i = 0; i < rank; ++i) {
        const NormalLoop &loop = loops[i];
        const u64 outer = i + 1 < rank ? quotient(rest, loop.extent) : 0;
        const i64 here = i64(rest - outer * loop.extent.divisor);
        rest = outer;
#pragma unroll
        for (u32 k = 0; k < 6; ++k) offsets.of[k] += here * loop.step[k];
    }
    return offsets;
}

__device__ __forceinline__ Places both(const Places &a, const Places &b) {
    Places c;
#pragma unroll
    for (u32 k = 0; k < 6; ++k) c.of[k] = a.of[k] + b.of[k];
    return c;
}
