// What kernels of attention that multiply in binary32 stage in shared memory, of matrices of any strides in binary32, binary16 or
// bfloat16, and the sums of products that a thread makes of it: four rows by four, or by up to eight columns. All sums are fused,
// one term after the other.
#pragma once

#include "attend.cuh"

enum : u32 { ATTEND_STEP = 32, ATTEND_PITCH = ATTEND_ROWS + 4, MOST_WIDTH = 128, VALUE_PITCH = MOST_WIDTH + 4 };

struct Four {
    f32 value[4];
};

__device__ __forceinline__ f32 widened(u32 scalar, u32 bits) {
    return scalar == F32 ? bits_of<f32>(bits) : scalar == F16 ? from_f16(bits) : from_bf16(bits);
}
__device__ __forceinline__ void put_narrow(u32 scalar, char *to, f32 x) {
    if (scalar == F32) return put<u32>(to, canonical(x));
    put<u16>(to, scalar == F16 ? to_f16(x) : to_bf16(x));
}

// EACH neighbours of what is staged, at equal distances; zeros for what is not there.
template <u32 EACH>
__device__ __forceinline__ void numbers(u32 scalar, const char *from, i64 step, u32 wanted, f32 (&x)[EACH]) {
    const char *places[EACH];
    u32 bits[EACH];
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) places[i] = from + i64(i) * step;
    if (scalar == F32) {
        fetch_units<u32>(places, wanted, bits);
    } else {
        fetch_units<u16>(places, wanted, bits);
    }
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) x[i] = widened(scalar, bits[i]);
}

// Columns from `column` on of the rows from `first` on. Neighbouring lanes have eight columns of four rows: what they read lies
// together, and what they write meets different banks.
__device__ __forceinline__ void stage(u32 scalar, u32 width, f32 (&to)[ATTEND_STEP][ATTEND_PITCH], const char *from,
                                      const i64 (&step)[4], u32 first, u32 limit, u32 column) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 own = lane % 8 + warp % 4 * 8, row = lane / 8 + warp / 4 * 32;
    u32 wanted = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) wanted |= u32(first + row + 4 * i < limit && column + own < width) << i;
    f32 x[8];
    numbers(scalar, from + i64(first + row) * step[2] + i64(column + own) * step[3], 4 * step[2], wanted, x);
#pragma unroll
    for (u32 i = 0; i < 8; ++i) to[own][row + 4 * i] = x[i];
}

// All columns of the rows from `first` on: neighbouring lanes have neighbouring columns.
__device__ __forceinline__ void stage_rows(u32 scalar, u32 width, f32 (&to)[ATTEND_STEP][VALUE_PITCH], const char *from,
                                           const i64 (&step)[4], u32 first, u32 limit) {
    const u32 column = threadIdx.x % MOST_WIDTH, row = threadIdx.x / MOST_WIDTH;
#pragma unroll 1
    for (u32 part = 0; part < 2; ++part) {
        const u32 own = row + 16 * part;
        u32 wanted = 0;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) wanted |= u32(first + own + 2 * i < limit && column < width) << i;
        f32 x[8];
        numbers(scalar, from + i64(first + own) * step[2] + i64(column) * step[3], 2 * step[2], wanted, x);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) to[own + 2 * i][column] = x[i];
    }
}

// What the staged columns add to the products of four rows of the first matrix and four of the second one.
__device__ __forceinline__ void add_products(const f32 (&factors)[2][ATTEND_STEP][ATTEND_PITCH], u32 down, u32 across,
                                             f32 (&x)[4][4]) {
#pragma unroll 4
    for (u32 term = 0; term < ATTEND_STEP; ++term) {
        const Four a = *reinterpret_cast<const Four *>(&factors[0][term][4 * down]);
        const Four b = *reinterpret_cast<const Four *>(&factors[1][term][4 * across]);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
#pragma unroll
            for (u32 j = 0; j < 4; ++j) x[i][j] = fused_once(a.value[i], b.value[j], x[i][j]);
        }
    }
}

// What the staged rows add to four rows of results, each row times what stands for it in `weights`.
__device__ __forceinline__ void add_rows(const f32 (&weights)[ATTEND_KEYS][ATTEND_PITCH], u32 first,
                                         const f32 (&rows)[ATTEND_STEP][VALUE_PITCH], bool is_wide, u32 down, u32 across,
                                         f32 (&result)[4][8]) {
#pragma unroll 4
    for (u32 term = 0; term < ATTEND_STEP; ++term) {
        const Four a = *reinterpret_cast<const Four *>(&weights[first + term][4 * down]);
        const Four low = *reinterpret_cast<const Four *>(&rows[term][4 * across]);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
#pragma unroll
            for (u32 j = 0; j < 4; ++j) result[i][j] = fused_once(a.value[i], low.value[j], result[i][j]);
        }
        if (is_wide) {
            const Four high = *reinterpret_cast<const Four *>(&rows[term][64 + 4 * across]);
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
#pragma unroll
                for (u32 j = 0; j < 4; ++j) result[i][4 + j] = fused_once(a.value[i], high.value[j], result[i][4 + j]);
            }
        }
    }
}

// Which column number `j` of a thread's results is.
__device__ __forceinline__ u32 result_column(u32 across, u32 j) { return j / 4 * 64 + 4 * across + j % 4; }
