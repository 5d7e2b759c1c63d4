// Attention by products of binary32, of matrices of any strides in binary32, binary16 or bfloat16: queries and keys are staged in
// shared memory some columns at a time, and a thread has four by four scores; then weights and values, of which it has four rows of
// up to eight columns. All sums are fused, one term after the other.
#include "attend.cuh"

enum : u32 { ATTEND_STEP = 32, ATTEND_PITCH = ATTEND_ROWS + 4, MOST_WIDTH = 128, VALUE_PITCH = MOST_WIDTH + 4 };

struct Four {
    f32 value[4];
};

struct alignas(16) AttendRoom {
    union {
        f32 factors[2][ATTEND_STEP][ATTEND_PITCH];  // of queries and keys: columns by rows
        f32 values[ATTEND_STEP][VALUE_PITCH];       // rows by columns
    };
    f32 weights[ATTEND_KEYS][ATTEND_PITCH];  // keys by rows
    i64 from[3];                             // where the head's queries, keys and values begin: registers are few
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
__device__ __forceinline__ void stage(const Attend &p, f32 (&to)[ATTEND_STEP][ATTEND_PITCH], const char *from,
                                      const i64 (&step)[4], u32 first, u32 limit, u32 column) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 own = lane % 8 + warp % 4 * 8, row = lane / 8 + warp / 4 * 32;
    u32 wanted = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) wanted |= u32(first + row + 4 * i < limit && column + own < p.width[0]) << i;
    f32 x[8];
    numbers(p.scalar, from + i64(first + row) * step[2] + i64(column + own) * step[3], 4 * step[2], wanted, x);
#pragma unroll
    for (u32 i = 0; i < 8; ++i) to[own][row + 4 * i] = x[i];
}

// Rows from `first` on of the values: neighbouring lanes have neighbouring columns.
__device__ __forceinline__ void stage_values(const Attend &p, f32 (&to)[ATTEND_STEP][VALUE_PITCH], const char *from, u32 first,
                                             u32 limit) {
    const u32 column = threadIdx.x % MOST_WIDTH, row = threadIdx.x / MOST_WIDTH;
#pragma unroll 1
    for (u32 part = 0; part < 2; ++part) {
        const u32 own = row + 16 * part;
        u32 wanted = 0;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) wanted |= u32(first + own + 2 * i < limit && column < p.width[1]) << i;
        f32 x[8];
        numbers(p.scalar, from + i64(first + own) * p.step[3][2] + i64(column) * p.step[3][3], 2 * p.step[3][2], wanted, x);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) to[own + 2 * i][column] = x[i];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) attend_any(const Attend p) {
    __shared__ AttendRoom room;
    const AttendPlace place(p);
    const Sight sight(p, place.batch);
    Tiles tiles(sight, place);
    if (threadIdx.x == 0) {
        room.from[0] = place.of_queries(p.step[1]);
        room.from[1] = place.of_keys(p.step[2], p.share[0]);
        room.from[2] = place.of_keys(p.step[3], p.share[1]);
    }
    const u32 across = threadIdx.x % 16, down = threadIdx.x / 16;
    const i32 row = i32(place.first + 4 * down);
    const bool is_wide = p.width[1] > 64;
    RowState state[4];
    f32 result[4][8];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        state[i] = {no_number(), 0.0f};
#pragma unroll
        for (u32 j = 0; j < 8; ++j) result[i][j] = 0.0f;
    }
#pragma unroll 1
    for (u32 number = 0; number < tiles.count; ++number) {
        const i32 key = tiles.first_key(number);
        f32 score[4][4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
#pragma unroll
            for (u32 j = 0; j < 4; ++j) score[i][j] = 0.0f;
        }
#pragma unroll 1
        for (u32 column = 0; column < p.width[0]; column += ATTEND_STEP) {
            __syncthreads();
            stage(p, room.factors[0], p.q + room.from[0], p.step[1], place.first, p.rows, column);
            stage(p, room.factors[1], p.k + room.from[1], p.step[2], u32(key), u32(sight.keys), column);
            __syncthreads();
#pragma unroll 4
            for (u32 term = 0; term < ATTEND_STEP; ++term) {
                const Four a = *reinterpret_cast<const Four *>(&room.factors[0][term][4 * down]);
                const Four b = *reinterpret_cast<const Four *>(&room.factors[1][term][4 * across]);
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
#pragma unroll
                    for (u32 j = 0; j < 4; ++j) score[i][j] = fused_once(a.value[i], b.value[j], score[i][j]);
                }
            }
        }
        const bool is_inside = Tiles::is_inside(sight, place, key);
        bool needs_all = false;
        Four weights[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            f32 largest = no_number();
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                score[i][j] = product(score[i][j], sight.scale);
                if (!is_inside) score[i][j] = sight.seen(score[i][j], row + i32(i), key + i32(4 * across + j));
                largest = larger(largest, score[i][j]);
            }
#pragma unroll
            for (u32 half = 8; half > 0; half /= 2) largest = larger(largest, __shfl_xor_sync(~0u, largest, half));
            f32 shift;
            const f32 factor = state[i].grow(largest, shift);
            needs_all = needs_all || (row + i32(i) < i32(p.rows) && sight.needs_all(row + i32(i), state[i].largest));
            f32 total = 0.0f;
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                weights[j].value[i] = weight_of(score[i][j], shift);
                total = sum(total, weights[j].value[i]);
            }
            state[i].total = fused_once(state[i].total, factor, total);
#pragma unroll
            for (u32 j = 0; j < 8; ++j) result[i][j] = product(result[i][j], factor);
        }
        if (tiles.asks_behind(number) && __syncthreads_or(needs_all)) tiles.need_all();
        // The weights of the tile before were read before the last barrier.
#pragma unroll
        for (u32 j = 0; j < 4; ++j) *reinterpret_cast<Four *>(&room.weights[4 * across + j][4 * down]) = weights[j];
#pragma unroll 1
        for (u32 half = 0; half < ATTEND_KEYS; half += ATTEND_STEP) {
            __syncthreads();
            stage_values(p, room.values, p.v + room.from[2], u32(key) + half, u32(sight.keys));
            __syncthreads();
#pragma unroll 4
            for (u32 term = 0; term < ATTEND_STEP; ++term) {
                const Four a = *reinterpret_cast<const Four *>(&room.weights[half + term][4 * down]);
                const Four low = *reinterpret_cast<const Four *>(&room.values[term][4 * across]);
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
#pragma unroll
                    for (u32 j = 0; j < 4; ++j) result[i][j] = fused_once(a.value[i], low.value[j], result[i][j]);
                }
                if (is_wide) {
                    const Four high = *reinterpret_cast<const Four *>(&room.values[term][64 + 4 * across]);
#pragma unroll
                    for (u32 i = 0; i < 4; ++i) {
#pragma unroll
                        for (u32 j = 0; j < 4; ++j) result[i][4 + j] = fused_once(a.value[i], high.value[j], result[i][4 + j]);
                    }
                }
            }
        }
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
#pragma unroll
        for (u32 half = 8; half > 0; half /= 2) {
            state[i].total = sum(state[i].total, __shfl_xor_sync(~0u, state[i].total, half));
        }
        if (row + i32(i) >= i32(p.rows)) continue;
        const i64 own = row + i32(i);
        const f32 share = state[i].share();
        char *const o = p.o + place.of_queries(p.step[0]) + own * p.step[0][2];
#pragma unroll
        for (u32 j = 0; j < 8; ++j) {
            const u32 column = j / 4 * 64 + 4 * across + j % 4;
            if (column < p.width[1]) put_narrow(p.scalar, o + i64(column) * p.step[0][3], product(result[i][j], share));
        }
        if (p.stats && across == 0) {
            char *const to = p.stats + place.batch * p.stats_step[0] + place.head * p.stats_step[1] + own * p.stats_step[2];
            put<u32>(to, canonical(state[i].statistic(p.flags)));
        }
    }
}
