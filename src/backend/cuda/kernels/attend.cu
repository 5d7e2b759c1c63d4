// Attention by products of binary32, of matrices of any strides in binary32, binary16 or bfloat16: queries and keys are staged in
// shared memory some columns at a time, and a thread has four by four scores; then weights and values, of which it has four rows of
// up to eight columns.
#include "attend_any.cuh"

struct alignas(16) AttendRoom {
    union {
        f32 factors[2][ATTEND_STEP][ATTEND_PITCH];  // of queries and keys: columns by rows
        f32 values[ATTEND_STEP][VALUE_PITCH];       // rows by columns
    };
    f32 weights[ATTEND_KEYS][ATTEND_PITCH];  // keys by rows
    i64 from[3];                             // where the head's queries, keys and values begin: registers are few
};

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
            stage(p.scalar, p.width[0], room.factors[0], p.q + room.from[0], p.step[1], place.first, p.rows, column);
            stage(p.scalar, p.width[0], room.factors[1], p.k + room.from[1], p.step[2], u32(key), u32(sight.keys), column);
            __syncthreads();
            add_products(room.factors, down, across, score);
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
            stage_rows(p.scalar, p.width[1], room.values, p.v + room.from[2], p.step[3], u32(key) + half, u32(sight.keys));
            __syncthreads();
            add_rows(room.weights, half, room.values, is_wide, down, across, result);
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
            const u32 column = result_column(across, j);
            if (column < p.width[1]) put_narrow(p.scalar, o + i64(column) * p.step[0][3], product(result[i][j], share));
        }
        if (p.stats && across == 0) {
            char *const to = p.stats + place.batch * p.stats_step[0] + place.head * p.stats_step[1] + own * p.stats_step[2];
            put<u32>(to, canonical(state[i].statistic(p.flags)));
        }
    }
}
