// compute_80: attention by products of Tensor Cores, of matrices in binary16 or bfloat16 whose rows are aligned vectors of 16 bytes.
// A warp has 16 queries, which it keeps as fragments; scores and weights stay in its registers: what fragments hold of sums is
// what they hold of a first factor. Keys and values come asynchronously, the keys of the next tile during the products by values,
// and the values during those by keys. Weights are rounded to the type of the matrices, and summed before that.
#include "attend_mma.cuh"

template <typename Mma, u32 WIDTH>
__device__ __forceinline__ void attended(const Attend &p) {
    enum : u32 { VECTORS = WIDTH / 8, PITCH = 2 * WIDTH, STEPS = WIDTH / 16, TILE = ATTEND_KEYS * PITCH };
    alignas(256) __shared__ char staged[2][TILE];
    char *const keys = staged[0], *const values = staged[1];
    const AttendPlace place(p);
    const Sight sight(p, place.batch);
    Tiles tiles(sight, place);
    const char *const k = p.k + place.of_keys(p.step[2], p.share[0]), *const v = p.v + place.of_keys(p.step[3], p.share[1]);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    // Queries come by way of the place of the values.
    u32 query[STEPS][4];
    Copied<WIDTH>::begin(values, p.q + place.of_queries(p.step[1]), p.step[1][2], i32(place.first), i32(p.rows), p.width[0]);
    if (tiles.count > 0) Copied<WIDTH>::begin(keys, k, p.step[2][2], tiles.first_key(0), sight.keys, p.width[0]);
    wait_for_copies();
    __syncthreads();
    const SharedPlace query_at = shared_place(values + swizzled<VECTORS>(16 * warp + lane % 16, lane / 16));
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) load_matrices<0, false>(other_place(query_at, 32 * s), query[s]);
    const SharedPlace key_at = shared_place(keys + swizzled<VECTORS>(lane / 16 * 8 + lane % 8, lane / 8 % 2));
    const SharedPlace value_at = shared_place(values + swizzled<VECTORS>(lane % 16, lane / 16));

    const i32 row = i32(place.first + 16 * warp + mma_c_row(0));
    RowState state[2];
    state[0] = state[1] = {no_number(), 0.0f};
    f32 result[2 * STEPS][4];
#pragma unroll
    for (u32 n = 0; n < 2 * STEPS; ++n) {
#pragma unroll
        for (u32 i = 0; i < 4; ++i) result[n][i] = 0.0f;
    }
#pragma unroll 1
    for (u32 number = 0; number < tiles.count; ++number) {
        const i32 key = tiles.first_key(number);
        wait_for_copies();
        // All warps have done with the values of the tile before, or with the queries.
        __syncthreads();
        Copied<WIDTH>::begin(values, v, p.step[3][2], key, sight.keys, p.width[1]);
        f32 score[8][4];
#pragma unroll
        for (u32 n = 0; n < 8; ++n) {
#pragma unroll
            for (u32 i = 0; i < 4; ++i) score[n][i] = 0.0f;
        }
#pragma unroll
        for (u32 s = 0; s < STEPS; ++s) {
            if (16 * s >= p.width[0]) continue;
#pragma unroll
            for (u32 pair = 0; pair < 4; ++pair) {
                u32 words[4];
                load_matrices<0, false>(other_place(key_at, 32 * s) + pair * 16 * PITCH, words);
                const u32 low[2] = {words[0], words[1]}, high[2] = {words[2], words[3]};
                mma(Mma(), score[2 * pair], query[s], low);
                mma(Mma(), score[2 * pair + 1], query[s], high);
            }
        }
        const bool is_inside = Tiles::is_inside(sight, place, key);
        f32 largest[2] = {no_number(), no_number()}, shift[2], factor[2];
#pragma unroll
        for (u32 n = 0; n < 8; ++n) {
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                f32 &own = score[n][i];
                own = product(own, sight.scale);
                if (!is_inside) own = sight.seen(own, row + i32(i / 2 * 8), key + i32(8 * n + mma_c_column(i)));
                largest[i / 2] = larger(largest[i / 2], own);
            }
        }
        bool needs_all = false;
#pragma unroll
        for (u32 h = 0; h < 2; ++h) {
            largest[h] = larger(largest[h], __shfl_xor_sync(~0u, largest[h], 1));
            largest[h] = larger(largest[h], __shfl_xor_sync(~0u, largest[h], 2));
            factor[h] = state[h].grow(largest[h], shift[h]);
            const i32 own = row + i32(8 * h);
            needs_all = needs_all || (own < i32(p.rows) && sight.needs_all(own, state[h].largest));
        }
        if (tiles.asks_behind(number) && __syncthreads_or(needs_all)) tiles.need_all();
        // All warps have done with these keys.
        __syncthreads();
        const bool more = number + 1 < tiles.count;
        if (more) Copied<WIDTH>::begin(keys, k, p.step[2][2], tiles.first_key(number + 1), sight.keys, p.width[0]);
        f32 total[2] = {0.0f, 0.0f};
        u32 weight[4][4];
#pragma unroll
        for (u32 n = 0; n < 8; ++n) {
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                score[n][i] = weight_of(score[n][i], shift[i / 2]);
                total[i / 2] = sum(total[i / 2], score[n][i]);
            }
            weight[n / 2][n % 2 * 2] = pair_of(Mma(), score[n][0], score[n][1]);
            weight[n / 2][n % 2 * 2 + 1] = pair_of(Mma(), score[n][2], score[n][3]);
        }
#pragma unroll
        for (u32 h = 0; h < 2; ++h) state[h].total = fused_once(state[h].total, factor[h], total[h]);
        // Nothing changes where no maximum has grown.
        if (__any_sync(~0u, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
            for (u32 n = 0; n < 2 * STEPS; ++n) {
#pragma unroll
                for (u32 i = 0; i < 4; ++i) result[n][i] = product(result[n][i], factor[i / 2]);
            }
        }
        if (more) {
            wait_for_copies<1>();
        } else {
            wait_for_copies();
        }
        __syncthreads();
#pragma unroll
        for (u32 s = 0; s < STEPS; ++s) {
            if (16 * s >= p.width[1]) continue;
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                u32 words[4];
                load_matrices<0, true>(other_place(value_at, 32 * s) + j * 16 * PITCH, words);
                const u32 low[2] = {words[0], words[1]}, high[2] = {words[2], words[3]};
                mma(Mma(), result[2 * s], weight[j], low);
                mma(Mma(), result[2 * s + 1], weight[j], high);
            }
        }
    }
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
        state[h].total = sum(state[h].total, __shfl_xor_sync(~0u, state[h].total, 1));
        state[h].total = sum(state[h].total, __shfl_xor_sync(~0u, state[h].total, 2));
        const i32 own = row + i32(8 * h);
        if (own >= i32(p.rows)) continue;
        const f32 share = state[h].share();
        char *const o = p.o + place.of_queries(p.step[0]) + i64(own) * p.step[0][2];
#pragma unroll
        for (u32 n = 0; n < 2 * STEPS; ++n) {
            const u32 column = 8 * n + mma_c_column(0);
            if (column >= p.width[1]) continue;
            put<u32>(o + 2 * column, pair_of(Mma(), product(result[n][2 * h], share), product(result[n][2 * h + 1], share)));
        }
        if (p.stats && mma_member() == 0) {
            char *const to = p.stats + place.batch * p.stats_step[0] + place.head * p.stats_step[1] + i64(own) * p.stats_step[2];
            put<u32>(to, canonical(state[h].statistic(p.flags)));
        }
    }
}

#define ATTENDED(NAME, TYPE, WIDTH) \
    extern "C" __global__ void __launch_bounds__(ATTEND_THREADS, 3) NAME(const Attend p) { attended<TYPE, WIDTH>(p); }
ATTENDED(attend_mma_f16_64, MmaF16, 64)
ATTENDED(attend_mma_f16_128, MmaF16, 128)
ATTENDED(attend_mma_bf16_64, MmaBf16, 64)
ATTENDED(attend_mma_bf16_128, MmaBf16, 128)
