// compute_80: gradients of attention by products of Tensor Cores, of matrices of up to 64 columns in binary16 or bfloat16 whose rows
// are aligned vectors of 16 bytes, in the two launches that `attend_gradient.cu` has. A warp has 16 queries, or 16 keys, which it
// keeps as fragments; weights and gradients of scores stay in its registers: what fragments hold of sums is what they hold of a first
// factor. They are rounded to the type of the matrices. What a block goes through comes asynchronously, a tile ahead.
#include "attend_gradient.cuh"
#include "attend_mma.cuh"

enum : u32 { WIDTH = 64, VECTORS = WIDTH / 8, PITCH = 2 * WIDTH, STEPS = WIDTH / 16, TILE = ATTEND_KEYS * PITCH, STAGE = 2 * TILE };

typedef Copied<WIDTH> CopiedTile;
typedef u32 Fragments[STEPS][4];  // of 16 rows
typedef f32 Sums[8][4];           // of 16 rows and 64 columns

__device__ __forceinline__ f32 half_of(MmaF16, u32 bits) { return from_f16(bits & 0xffff); }
__device__ __forceinline__ f32 half_of(MmaBf16, u32 bits) { return from_bf16(bits & 0xffff); }

// What two pairs of numbers add to a sum of their products.
template <typename Mma>
__device__ __forceinline__ f32 with_products(u32 a, u32 b, f32 total) {
    total = fused_once(half_of(Mma(), a), half_of(Mma(), b), total);
    return fused_once(half_of(Mma(), a >> 16), half_of(Mma(), b >> 16), total);
}

// The rows of this warp of a staged tile.
__device__ __forceinline__ void hold(char *tile, Fragments &to) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const SharedPlace at = shared_place(tile + swizzled<VECTORS>(16 * warp + lane % 16, lane / 16));
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) load_matrices<0, false>(other_place(at, 32 * s), to[s]);
}

// Where a lane begins to read a tile whose rows are columns of a second factor, and one whose rows are its rows.
__device__ __forceinline__ u32 place_of_columns() {
    const u32 lane = threadIdx.x % 32;
    return swizzled<VECTORS>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
}
__device__ __forceinline__ u32 place_of_rows() { return swizzled<VECTORS>(threadIdx.x % 16, threadIdx.x % 32 / 16); }

__device__ __forceinline__ void clear(Sums &x) {
#pragma unroll
    for (u32 n = 0; n < 8; ++n) {
#pragma unroll
        for (u32 i = 0; i < 4; ++i) x[n][i] = 0.0f;
    }
}

// The products of the rows that a warp holds and those of a tile.
template <typename Mma>
__device__ __forceinline__ void find_products(const Fragments &rows, SharedPlace tile, u32 width, Sums &x) {
    clear(x);
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) {
        if (16 * s >= width) continue;
#pragma unroll
        for (u32 pair = 0; pair < 4; ++pair) {
            u32 words[4];
            load_matrices<0, false>(other_place(tile, 32 * s) + pair * 16 * PITCH, words);
            const u32 low[2] = {words[0], words[1]}, high[2] = {words[2], words[3]};
            mma(Mma(), x[2 * pair], rows[s], low);
            mma(Mma(), x[2 * pair + 1], rows[s], high);
        }
    }
}

// Sums as the fragments of a first factor.
template <typename Mma>
__device__ __forceinline__ void rounded(const Sums &x, Fragments &to) {
#pragma unroll
    for (u32 n = 0; n < 8; ++n) {
        to[n / 2][n % 2 * 2] = pair_of(Mma(), x[n][0], x[n][1]);
        to[n / 2][n % 2 * 2 + 1] = pair_of(Mma(), x[n][2], x[n][3]);
    }
}

// Adds the rows of a tile times their weights.
template <typename Mma>
__device__ __forceinline__ void add_weighted(const Fragments &weights, SharedPlace tile, u32 width, Sums &result) {
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) {
        if (16 * s >= width) continue;
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
            u32 words[4];
            load_matrices<0, true>(other_place(tile, 32 * s) + j * 16 * PITCH, words);
            const u32 low[2] = {words[0], words[1]}, high[2] = {words[2], words[3]};
            mma(Mma(), result[2 * s], weights[j], low);
            mma(Mma(), result[2 * s + 1], weights[j], high);
        }
    }
}

// Writes the rows of a gradient that a warp has, from `first` on, of which there are `count`.
template <typename Mma>
__device__ __forceinline__ void put_rows(char *to, i64 step, u32 first, u32 count, u32 width, const Sums &result) {
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
        const u32 row = first + mma_c_row(2 * h);
        if (row >= count) continue;
#pragma unroll
        for (u32 n = 0; n < 8; ++n) {
            const u32 column = 8 * n + mma_c_column(0);
            if (column < width) put<u32>(to + i64(row) * step + 2 * column, pair_of(Mma(), result[n][2 * h], result[n][2 * h + 1]));
        }
    }
}

template <typename Mma>
__device__ __forceinline__ void query_gradients(const AttendGradient &p) {
    alignas(256) __shared__ char staged[2][2][TILE];  // keys and values, of this tile and the next one
    const Attend &of = p.forward;
    const AttendPlace place(of);
    const Sight sight(of, place.batch);
    const Tiles tiles(sight, place);
    const u32 queries = sight.counted_queries();
    const char *const k = of.k + place.of_keys(of.step[2], of.share[0]), *const v = of.v + place.of_keys(of.step[3], of.share[1]);
    // Queries, and gradients of results, come by way of the place of the next tile.
    CopiedTile::begin(staged[1][0], of.q + place.of_queries(of.step[1]), of.step[1][2], i32(place.first), i32(queries), of.width[0]);
    CopiedTile::begin(staged[1][1], p.gradient + place.of_queries(p.step[3]), p.step[3][2], i32(place.first), i32(queries),
                      of.width[1]);
    if (tiles.seen > 0) {
        CopiedTile::begin(staged[0][0], k, of.step[2][2], tiles.first_key(0), sight.keys, of.width[0]);
        CopiedTile::begin(staged[0][1], v, of.step[3][2], tiles.first_key(0), sight.keys, of.width[1]);
    }
    wait_for_copies();
    __syncthreads();
    Fragments query, gradient;
    hold(staged[1][0], query);
    hold(staged[1][1], gradient);
    const u32 first = place.first + threadIdx.x / 32 * 16;

    // What is known of the rows of a lane before their scores: what exponents are counted from, and the sums of `do * o`.
    f32 distance[2] = {0.0f, 0.0f}, shift[2];
    const char *const o = of.o + place.of_queries(of.step[0]);
    const char *const stats = of.stats + place.batch * of.stats_step[0] + place.head * of.stats_step[1];
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) {
#pragma unroll
        for (u32 r = 0; r < 4; ++r) {
            const u32 row = first + mma_a_row(r), column = 16 * s + mma_a_k<Mma>(r);
            const u32 own = row < queries && column < of.width[1] ? at<u32>(o + i64(row) * of.step[0][2] + 2 * column) : 0;
            distance[r % 2] = with_products<Mma>(gradient[s][r], own, distance[r % 2]);
        }
    }
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
        distance[h] = sum(distance[h], __shfl_xor_sync(~0u, distance[h], 1));
        distance[h] = sum(distance[h], __shfl_xor_sync(~0u, distance[h], 2));
        const u32 row = first + mma_c_row(2 * h);
        shift[h] = row < queries ? shift_of(of, stats, row) : 0.0f;
    }

    const SharedPlace columns_at = shared_place(staged[0][0] + place_of_columns()), rows_at = shared_place(staged[0][0] + place_of_rows());
    Sums result;
    clear(result);
#pragma unroll 1
    for (u32 number = 0; number < tiles.seen; ++number) {
        const i32 key = tiles.first_key(number);
        const u32 own_stage = number % 2;
        wait_for_copies();
        // All warps have done with the tile before, or have their queries.
        __syncthreads();
        if (number + 1 < tiles.seen) {
            const i32 next = tiles.first_key(number + 1);
            CopiedTile::begin(staged[1 - own_stage][0], k, of.step[2][2], next, sight.keys, of.width[0]);
            CopiedTile::begin(staged[1 - own_stage][1], v, of.step[3][2], next, sight.keys, of.width[1]);
        }
        Sums weight, own;
        find_products<Mma>(query, columns_at + own_stage * STAGE, of.width[0], weight);
        find_products<Mma>(gradient, columns_at + (own_stage * STAGE + TILE), of.width[1], own);
        const bool is_inside = Tiles::is_inside(sight, place, key);
#pragma unroll
        for (u32 n = 0; n < 8; ++n) {
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                // What is outside of the band has no gradient.
                const bool is_seen = is_inside || sight.sees(i32(first + mma_c_row(i)), key + i32(8 * n + mma_c_column(i)));
                const f32 x = weight_of(product(weight[n][i], sight.scale), shift[i / 2]);
                const f32 per_score = product(product(x, sum(own[n][i], -distance[i / 2])), sight.scale);
                own[n][i] = is_seen ? per_score : 0.0f;
            }
        }
        Fragments per_score;
        rounded<Mma>(own, per_score);
        add_weighted<Mma>(per_score, rows_at + own_stage * STAGE, of.width[0], result);
    }
    put_rows<Mma>(p.dq + place.of_queries(p.step[0]), p.step[0][2], first, of.rows, of.width[0], result);
}

template <typename Mma>
__device__ __forceinline__ void key_gradients(const AttendGradient &p) {
    alignas(256) __shared__ char staged[2][2][TILE];               // queries and gradients of results, of this tile and the next one
    __shared__ f32 shift[ATTEND_ROWS], distance[ATTEND_ROWS];  // of queries, as above
    const Attend &of = p.forward;
    const u64 number = blockIdx.x, outer = quotient(number, p.tiles), batch = quotient(outer, p.groups);
    const u64 group = outer - batch * p.groups.divisor;
    const u32 key = u32(number - outer * p.tiles.divisor) * ATTEND_KEYS;
    const Sight sight(of, i64(batch));
    const u32 queries = sight.counted_queries(), own_first = key + threadIdx.x / 32 * 16;
    const QueryTiles tiles(sight, queries, key);
    const bool may_need_all = p.dv && !(sight.fill == no_number()) && tiles.end - tiles.begin < tiles.all;
    const u64 share = p.dk ? of.share[0].divisor : of.share[1].divisor;
    const SharedPlace columns_at = shared_place(staged[0][0] + place_of_columns()), rows_at = shared_place(staged[0][0] + place_of_rows());
    Sums of_keys, of_values;
    clear(of_keys);
    clear(of_values);
#pragma unroll 1
    for (u64 head = group * share; head < (group + 1) * share; ++head) {
        const i64 key_head = i64(quotient(head, of.share[0])), value_head = i64(quotient(head, of.share[1]));
        const char *const q = of.q + head_of(of.step[1], i64(batch), i64(head));
        const char *const gradient = p.gradient + head_of(p.step[3], i64(batch), i64(head));
        const char *const o = of.o + head_of(of.step[0], i64(batch), i64(head));
        const char *const stats = of.stats + i64(batch) * of.stats_step[0] + i64(head) * of.stats_step[1];
        const bool needs_all = may_need_all && tiles.needs_others<ATTEND_THREADS>(of, stats, sight, queries);
        const u32 begin = needs_all ? 0 : tiles.begin, end = needs_all ? tiles.all : tiles.end;
        if (begin >= end) continue;
        // All warps have done with the tiles of the head before.
        __syncthreads();
        // Keys and values come by way of the place of the next tile.
        CopiedTile::begin(staged[1][0], of.k + head_of(of.step[2], i64(batch), key_head), of.step[2][2], i32(key), sight.keys,
                          of.width[0]);
        CopiedTile::begin(staged[1][1], of.v + head_of(of.step[3], i64(batch), value_head), of.step[3][2], i32(key), sight.keys,
                          of.width[1]);
        CopiedTile::begin(staged[0][0], q, of.step[1][2], i32(begin * ATTEND_ROWS), i32(queries), of.width[0]);
        CopiedTile::begin(staged[0][1], gradient, p.step[3][2], i32(begin * ATTEND_ROWS), i32(queries), of.width[1]);
        wait_for_copies();
        __syncthreads();
        Fragments keys, values;
        hold(staged[1][0], keys);
        hold(staged[1][1], values);
#pragma unroll 1
        for (u32 tile = begin; tile < end; ++tile) {
            const u32 first = tile * ATTEND_ROWS, own_stage = (tile - begin) % 2;
            wait_for_copies();
            // All warps have done with the tile before, or have their keys.
            __syncthreads();
            if (tile + 1 < end) {
                const i32 next = i32(first + ATTEND_ROWS);
                CopiedTile::begin(staged[1 - own_stage][0], q, of.step[1][2], next, i32(queries), of.width[0]);
                CopiedTile::begin(staged[1 - own_stage][1], gradient, p.step[3][2], next, i32(queries), of.width[1]);
            }
            {
                // Two neighbouring threads have a row.
                const u32 row = threadIdx.x / 2, part = threadIdx.x % 2;
                Vector results[VECTORS / 2];
#pragma unroll
                for (u32 i = 0; i < VECTORS / 2; ++i) {
                    const u32 vector = part + 2 * i;
                    const bool is_there = first + row < queries && 8 * vector < of.width[1];
                    results[i] = is_there ? at<Vector>(o + i64(first + row) * of.step[0][2] + 16 * vector) : Vector{};
                }
                f32 total = 0.0f;
#pragma unroll
                for (u32 i = 0; i < VECTORS / 2; ++i) {
                    const Vector own = at<Vector>(staged[own_stage][1] + swizzled<VECTORS>(row, part + 2 * i));
#pragma unroll
                    for (u32 w = 0; w < 4; ++w) total = with_products<Mma>(own.word[w], results[i].word[w], total);
                }
                total = sum(total, __shfl_xor_sync(~0u, total, 1));
                if (part == 0) {
                    distance[row] = total;
                    shift[row] = first + row < queries ? shift_of(of, stats, first + row) : 0.0f;
                }
            }
            __syncthreads();
            Sums weight;
            Fragments factor;
            find_products<Mma>(keys, columns_at + own_stage * STAGE, of.width[0], weight);
            const bool is_inside = sight.sees_all(i32(first), i32(first + ATTEND_ROWS - 1), i32(key));
#pragma unroll
            for (u32 n = 0; n < 8; ++n) {
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    const u32 row = 8 * n + mma_c_column(i);
                    f32 score = product(weight[n][i], sight.scale);
                    if (!is_inside) score = sight.seen(score, i32(first + row), i32(own_first + mma_c_row(i)));
                    weight[n][i] = weight_of(score, shift[row]);
                }
            }
            if (p.dv) {
                rounded<Mma>(weight, factor);
                add_weighted<Mma>(factor, rows_at + (own_stage * STAGE + TILE), of.width[1], of_values);
            }
            if (!p.dk) continue;
            Sums own;
            find_products<Mma>(values, columns_at + (own_stage * STAGE + TILE), of.width[1], own);
#pragma unroll
            for (u32 n = 0; n < 8; ++n) {
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    const u32 row = 8 * n + mma_c_column(i);
                    const bool is_seen = is_inside || sight.sees(i32(first + row), i32(own_first + mma_c_row(i)));
                    const f32 per_score = product(product(weight[n][i], sum(own[n][i], -distance[row])), sight.scale);
                    own[n][i] = is_seen ? per_score : 0.0f;
                }
            }
            rounded<Mma>(own, factor);
            add_weighted<Mma>(factor, rows_at + own_stage * STAGE, of.width[0], of_keys);
        }
    }
    if (p.dk) {
        char *const dk = p.dk + i64(batch) * p.step[1][0] + i64(group) * p.step[1][1];
        put_rows<Mma>(dk, p.step[1][2], own_first, of.keys, of.width[0], of_keys);
    }
    if (p.dv) {
        char *const dv = p.dv + i64(batch) * p.step[2][0] + i64(group) * p.step[2][1];
        put_rows<Mma>(dv, p.step[2][2], own_first, of.keys, of.width[1], of_values);
    }
}

#define GRADIENTS(NAME, FUNCTION, TYPE) \
    extern "C" __global__ void __launch_bounds__(ATTEND_THREADS, 2) NAME(const AttendGradient p) { FUNCTION<TYPE>(p); }
GRADIENTS(attend_gradient_mma_q_f16, query_gradients, MmaF16)
GRADIENTS(attend_gradient_mma_kv_f16, key_gradients, MmaF16)
GRADIENTS(attend_gradient_mma_q_bf16, query_gradients, MmaBf16)
GRADIENTS(attend_gradient_mma_kv_bf16, key_gradients, MmaBf16)
