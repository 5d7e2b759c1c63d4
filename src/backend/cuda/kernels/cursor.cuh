// Positions at equal distances in two nested loops, as bytes.
#pragma once

#include "device.cuh"

struct Cursor {
    u32 offset, inner;  // and the iteration of the inner loop
    u32 extent;         // of the inner loop
    u32 quick, next;    // what a stride adds to `inner` and `offset`
    u32 wrapped;        // what the end of the inner loop adds to `offset`

    // One loop: each STRIDE-th of positions that lie STEP bytes apart, the first of all at BASE.
    __device__ __forceinline__ Cursor(u32 base, u32 step, u32 position, u32 stride)
        : offset(base + position * step), inner(position), extent(~0u), quick(stride), next(stride * step), wrapped(0) {}

    // Two: inner loops of COUNT lie AROUND bytes apart. OUTER of them are over at the position, and a stride goes over SLOW.
    __device__ __forceinline__ void nest(u32 base, u32 step, u32 count, u32 around, u32 outer, u32 slow) {
        extent = count;
        inner -= outer * extent;
        quick -= slow * extent;
        offset = base + inner * step + outer * around;
        next = quick * step + slow * around;
        wrapped = around - extent * step;
    }

    __device__ __forceinline__ void go() {
        inner += quick;
        offset += next;
        if (inner >= extent) {
            inner -= extent;
            offset += wrapped;
        }
    }
};
