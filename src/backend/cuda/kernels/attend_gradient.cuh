// What the kernels of gradients of attention are given, and which queries a block of keys comes to. `ops/attend.rs` defines the step.
#pragma once

#include "attend.cuh"

struct AttendGradient {
    Attend forward;
    char *dq, *dk, *dv;    // those that the launch writes
    const char *gradient;  // of the results
    i64 step[4][4];        // bytes of these from batch to batch, head to head, row to row, column to column
    Divisor tiles, groups; // of keys, and of the heads that blocks of keys are of
};

static_assert(sizeof(AttendGradient) == 400 + 32 + 128 + 48, "attend_backward.rs has another AttendGradient");

__device__ __forceinline__ i64 head_of(const i64 (&step)[4], i64 batch, i64 head) { return batch * step[0] + head * step[1]; }

// What the exponents of a row are counted from; `stats` are those of its head.
__device__ __forceinline__ f32 shift_of(const Attend &of, const char *stats, u32 row) {
    const f32 own = at<f32>(stats + i64(row) * of.stats_step[2]);
    const f32 natural = of.flags & IS_LOG2 ? product(own, 0.6931472f) : own;
    return natural < lowest_number() ? lowest_number() : natural;
}

// The tiles of queries that see one of 64 keys, and whether the others may need them all the same: what stands outside of the band
// has a weight, too.
struct QueryTiles {
    u32 begin, end, all;

    __device__ __forceinline__ QueryTiles(const Sight &sight, u32 queries, u32 key) {
        const i32 past = i32(key + ATTEND_KEYS) < sight.keys ? i32(key + ATTEND_KEYS) : sight.keys;
        i32 low = i32(key) - sight.right, high = past - sight.left;
        low = low > 0 ? low : 0;
        high = high < i32(queries) ? high : i32(queries);
        const bool is_there = i32(key) < sight.keys, is_any = is_there && low < high;
        begin = is_any ? u32(low) / ATTEND_ROWS : 0;
        end = is_any ? (u32(high) + (ATTEND_ROWS - 1)) / ATTEND_ROWS : 0;
        all = is_there ? (queries + (ATTEND_ROWS - 1)) / ATTEND_ROWS : 0;
    }
    // Whether a row of the other tiles needs what stands outside of the band, as EACH threads see together.
    template <u32 EACH>
    __device__ __forceinline__ bool needs_others(const Attend &of, const char *stats, const Sight &sight, u32 queries) const {
        bool needs = false;
#pragma unroll 4
        for (u32 row = threadIdx.x; row < queries; row += EACH) {
            const bool is_other = row / ATTEND_ROWS < begin || row / ATTEND_ROWS >= end;
            needs = needs || (is_other && sight.needs_all(i32(row), shift_of(of, stats, row)));
        }
        return __syncthreads_or(needs);
    }
};
