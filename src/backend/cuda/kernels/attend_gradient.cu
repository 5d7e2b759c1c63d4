// Gradients of attention by products of binary32, of matrices of any strides in binary32, binary16 or bfloat16, in two launches
// that make the weights of a tile again from the statistics and keep no scores in memory. A block of the first one has 64 queries
// and goes through the keys that they see: dq. A block of the second one has 64 keys of a head and goes through the queries of all
// heads that share it, head by head and in ascending order: dk and dv. No block adds to what another one writes, and what a row of
// a result is a sum of comes in tiles that begin at multiples of their size: its bits depend on no other row or batch.
#include "attend_any.cuh"
#include "attend_gradient.cuh"

enum Begin : u32 { OF_O, OF_Q, OF_K, OF_V, OF_GRADIENT, OF_STATS, BEGINS };

struct alignas(16) GradientRoom {
    union {
        f32 factors[2][ATTEND_STEP][ATTEND_PITCH];  // columns by rows
        f32 rows[ATTEND_STEP][VALUE_PITCH];         // rows by columns
    };
    f32 weights[ATTEND_KEYS][ATTEND_PITCH];          // and gradients of scores, by the rows that results have
    f32 shift[ATTEND_ROWS], distance[ATTEND_ROWS];  // of queries: what exponents are counted from, and the sums of `do * o`
    i64 begin[BEGINS];                              // of the head's matrices and statistics, in bytes: registers are few
};

// Some rows of a matrix of a head, which has so many.
struct HeadRows {
    const char *begin;
    const i64 (&step)[4];
    u32 first, limit;
};

// Where the matrices begin that a head of queries has.
__device__ __forceinline__ void find_head(const AttendGradient &p, GradientRoom &room, i64 batch, i64 head) {
    const Attend &of = p.forward;
    __syncthreads();
    if (threadIdx.x == 0) {
        const i64 of_keys = i64(quotient(u64(head), of.share[0])), of_values = i64(quotient(u64(head), of.share[1]));
        room.begin[OF_O] = head_of(of.step[0], batch, head);
        room.begin[OF_Q] = head_of(of.step[1], batch, head);
        room.begin[OF_K] = head_of(of.step[2], batch, of_keys);
        room.begin[OF_V] = head_of(of.step[3], batch, of_values);
        room.begin[OF_GRADIENT] = head_of(p.step[3], batch, head);
        room.begin[OF_STATS] = batch * of.stats_step[0] + head * of.stats_step[1];
    }
    __syncthreads();
}

// What is known of 64 queries before their scores. Four neighbouring threads have a row.
__device__ __forceinline__ void find_queries(const AttendGradient &p, GradientRoom &room, u32 first, u32 limit) {
    const Attend &of = p.forward;
    const u32 part = threadIdx.x % 4, own = threadIdx.x / 4, row = first + own;
    f32 total = 0.0f;
#pragma unroll 1
    for (u32 column = part; column - part < of.width[1]; column += 32) {
        u32 wanted = 0;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) wanted |= u32(row < limit && column + 4 * i < of.width[1]) << i;
        f32 o[8], gradient[8];
        numbers(of.scalar, of.o + room.begin[OF_O] + i64(row) * of.step[0][2] + i64(column) * of.step[0][3], 4 * of.step[0][3],
                wanted, o);
        numbers(of.scalar, p.gradient + room.begin[OF_GRADIENT] + i64(row) * p.step[3][2] + i64(column) * p.step[3][3],
                4 * p.step[3][3], wanted, gradient);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) total = fused_once(gradient[i], o[i], total);
    }
    total = sum(total, __shfl_xor_sync(~0u, total, 1));
    total = sum(total, __shfl_xor_sync(~0u, total, 2));
    if (part == 0) {
        room.distance[own] = total;
        room.shift[own] = row < limit ? shift_of(of, of.stats + room.begin[OF_STATS], row) : 0.0f;
    }
}

// The products of 64 rows of one matrix and 64 of another one, of which a thread has four by four.
__device__ __forceinline__ void find_products(const Attend &of, u32 width, GradientRoom &room, const HeadRows &a, const HeadRows &b,
                                              u32 down, u32 across, f32 (&x)[4][4]) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) x[i][j] = 0.0f;
    }
#pragma unroll 1
    for (u32 column = 0; column < width; column += ATTEND_STEP) {
        __syncthreads();
        // One text for both: loads of one are under way together.
#pragma unroll 1
        for (u32 side = 0; side < 2; ++side) {
            const i64 step[4] = {0, 0, side ? b.step[2] : a.step[2], side ? b.step[3] : a.step[3]};
            const u32 first = side ? b.first : a.first, limit = side ? b.limit : a.limit;
            stage(of.scalar, width, room.factors[side], side ? b.begin : a.begin, step, first, limit, column);
        }
        __syncthreads();
        add_products(room.factors, down, across, x);
    }
}

// Adds 64 rows times what stands for them in `weights`, which may have been written just before.
__device__ __forceinline__ void add_weighted(const Attend &of, u32 width, GradientRoom &room, const HeadRows &from, u32 down,
                                             u32 across, f32 (&result)[4][8]) {
#pragma unroll 1
    for (u32 half = 0; half < ATTEND_KEYS; half += ATTEND_STEP) {
        __syncthreads();
        stage_rows(of.scalar, width, room.rows, from.begin, from.step, from.first + half, from.limit);
        __syncthreads();
        add_rows(room.weights, half, room.rows, width > 64, down, across, result);
    }
}

__device__ __forceinline__ void clear(f32 (&result)[4][8]) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
#pragma unroll
        for (u32 j = 0; j < 8; ++j) result[i][j] = 0.0f;
    }
}

// Writes four rows of a gradient, of which there are `count`.
__device__ __forceinline__ void put_rows(u32 scalar, char *to, const i64 (&step)[4], u32 row, u32 count, u32 width, u32 across,
                                         f32 scale, const f32 (&result)[4][8]) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        if (row + i >= count) continue;
        char *const own = to + i64(row + i) * step[2];
#pragma unroll
        for (u32 j = 0; j < 8; ++j) {
            const u32 column = result_column(across, j);
            if (column < width) put_narrow(scalar, own + i64(column) * step[3], product(result[i][j], scale));
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) attend_gradient_q_any(const AttendGradient p) {
    __shared__ GradientRoom room;
    const Attend &of = p.forward;
    const AttendPlace place(of);
    const Sight sight(of, place.batch);
    const Tiles tiles(sight, place);
    const u32 queries = sight.counted_queries(), across = threadIdx.x % 16, down = threadIdx.x / 16;
    find_head(p, room, place.batch, place.head);
    find_queries(p, room, place.first, queries);
    f32 result[4][8];
    clear(result);
#pragma unroll 1
    for (u32 number = 0; number < tiles.seen; ++number) {
        const i32 key = tiles.first_key(number);
        f32 weight[4][4], gradient[4][4];
        find_products(of, of.width[0], room, {of.q + room.begin[OF_Q], of.step[1], place.first, queries},
                      {of.k + room.begin[OF_K], of.step[2], u32(key), u32(sight.keys)}, down, across, weight);
        const bool is_inside = Tiles::is_inside(sight, place, key);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const f32 shift = room.shift[4 * down + i];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                // What is outside of the band has no gradient.
                const bool is_seen = is_inside || sight.sees(i32(place.first + 4 * down + i), key + i32(4 * across + j));
                weight[i][j] = is_seen ? weight_of(product(weight[i][j], sight.scale), shift) : 0.0f;
            }
        }
        find_products(of, of.width[1], room, {p.gradient + room.begin[OF_GRADIENT], p.step[3], place.first, queries},
                      {of.v + room.begin[OF_V], of.step[3], u32(key), u32(sight.keys)}, down, across, gradient);
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
            Four own;
#pragma unroll
            for (u32 i = 0; i < 4; ++i) own.value[i] = product(weight[i][j], sum(gradient[i][j], -room.distance[4 * down + i]));
            *reinterpret_cast<Four *>(&room.weights[4 * across + j][4 * down]) = own;
        }
        add_weighted(of, of.width[0], room, {of.k + room.begin[OF_K], of.step[2], u32(key), u32(sight.keys)}, down, across, result);
    }
    char *const dq = p.dq + place.of_queries(p.step[0]);
    put_rows(of.scalar, dq, p.step[0], place.first + 4 * down, of.rows, of.width[0], across, sight.scale, result);
}

extern "C" __global__ void __launch_bounds__(THREADS) attend_gradient_kv_any(const AttendGradient p) {
    __shared__ GradientRoom room;
    const Attend &of = p.forward;
    const u64 number = blockIdx.x, outer = quotient(number, p.tiles), batch = quotient(outer, p.groups);
    const u64 group = outer - batch * p.groups.divisor;
    const u32 key = u32(number - outer * p.tiles.divisor) * ATTEND_KEYS;
    const Sight sight(of, i64(batch));
    const u32 queries = sight.counted_queries(), across = threadIdx.x % 16, down = threadIdx.x / 16;
    const QueryTiles tiles(sight, queries, key);
    const bool may_need_all = p.dv && !(sight.fill == no_number()) && tiles.end - tiles.begin < tiles.all;
    const u64 share = p.dk ? of.share[0].divisor : of.share[1].divisor;
    f32 of_keys[4][8], of_values[4][8];
    clear(of_keys);
    clear(of_values);
#pragma unroll 1
    for (u64 head = group * share; head < (group + 1) * share; ++head) {
        find_head(p, room, i64(batch), i64(head));
        const bool needs_all = may_need_all && tiles.needs_others<THREADS>(of, of.stats + room.begin[OF_STATS], sight, queries);
        const u32 end = needs_all ? tiles.all : tiles.end;
#pragma unroll 1
        for (u32 tile = needs_all ? 0 : tiles.begin; tile < end; ++tile) {
            const u32 first = tile * ATTEND_ROWS;
            find_queries(p, room, first, queries);
            f32 x[4][4];
            find_products(of, of.width[0], room, {of.k + room.begin[OF_K], of.step[2], key, u32(sight.keys)},
                          {of.q + room.begin[OF_Q], of.step[1], first, queries}, down, across, x);
            const bool is_inside = sight.sees_all(i32(first), i32(first + ATTEND_ROWS - 1), i32(key));
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                const f32 shift = room.shift[4 * across + j];
                Four own;
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    f32 score = product(x[i][j], sight.scale);
                    if (!is_inside) score = sight.seen(score, i32(first + 4 * across + j), i32(key + 4 * down + i));
                    own.value[i] = weight_of(score, shift);
                }
                *reinterpret_cast<Four *>(&room.weights[4 * across + j][4 * down]) = own;
            }
            if (p.dv) {
                add_weighted(of, of.width[1], room, {p.gradient + room.begin[OF_GRADIENT], p.step[3], first, queries}, down, across, of_values);
            }
            if (!p.dk) continue;
            find_products(of, of.width[1], room, {of.v + room.begin[OF_V], of.step[3], key, u32(sight.keys)},
                          {p.gradient + room.begin[OF_GRADIENT], p.step[3], first, queries}, down, across, x);
            // All have read the weights by now, and a thread changes its own.
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                Four *const to = reinterpret_cast<Four *>(&room.weights[4 * across + j][4 * down]);
                const f32 distance = room.distance[4 * across + j];
                Four own = *to;
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    const bool is_seen = is_inside || sight.sees(i32(first + 4 * across + j), i32(key + 4 * down + i));
                    own.value[i] = is_seen ? product(own.value[i], sum(x[i][j], -distance)) : 0.0f;
                }
                *to = own;
            }
            add_weighted(of, of.width[0], room, {of.q + room.begin[OF_Q], of.step[1], first, queries}, down, across, of_keys);
        }
    }
    const u32 row = key + 4 * down;
    if (p.dk) {
        char *const dk = p.dk + i64(batch) * p.step[1][0] + i64(group) * p.step[1][1];
        put_rows(of.scalar, dk, p.step[1], row, of.keys, of.width[0], across, sight.scale, of_keys);
    }
    if (p.dv) {
        char *const dv = p.dv + i64(batch) * p.step[2][0] + i64(group) * p.step[2][1];
        put_rows(of.scalar, dv, p.step[2], row, of.keys, of.width[1], across, 1.0f, of_values);
    }
}
