// What the kernels of attention are given, which keys a query sees, and in which order a block comes to them. `ops/attend.rs`
// defines the step.
//
// A block has ATTEND_ROWS queries of a head, and goes through the keys of that head in tiles of ATTEND_KEYS. It keeps the largest
// score and the sum of exponentials of each row so far, and rescales what it has summed when the largest score grows: scores are
// in registers alone. A tile that no row of the block sees is left out, if what stands outside of the band adds nothing to any of
// its rows. What a row is computed of lies in its own tiles, which begin at multiples of ATTEND_KEYS: its bits depend on no other
// row, head or batch.
#pragma once

#include "element.cuh"
#include "math.cuh"

enum : u32 { ATTEND_ROWS = 64, ATTEND_KEYS = 64 };

// Keys beyond the lengths count as minus infinity; a query sees keys up to a bound, and from a bound on, either of which may be
// strict, and move with the lengths; statistics are logarithms to base 2.
enum AttendFlag : u32 {
    IS_PADDED = 1,
    HAS_RIGHT = 2,
    RIGHT_IS_STRICT = 4,
    RIGHT_MOVES = 8,
    HAS_LEFT = 16,
    LEFT_IS_STRICT = 32,
    LEFT_MOVES = 64,
    IS_LOG2 = 128,
};

struct Attend {
    char *o, *stats;
    const char *q, *k, *v;
    const char *scale, *fill;  // a number each
    const char *length[2];     // of queries and of keys
    const char *bound[2];      // right and left
    i64 step[4][4];            // bytes of o, q, k and v from batch to batch, head to head, row to row, column to column
    i64 stats_step[3];         // bytes from batch to batch, head to head, row to row
    i64 length_step[2];        // bytes from batch to batch
    Divisor blocks, heads;     // of rows, and of queries
    Divisor share[2];          // heads of queries for each head of k, and of v
    u32 rows, keys;
    u32 width[2];              // columns of q and k, and of v and o
    u32 scalar;                // of all matrices
    u32 scale_type, fill_type, length_type[2], bound_type[2];
    u32 flags;
};

static_assert(sizeof(Attend) == 88 + 128 + 24 + 16 + 96 + 48, "attend.rs has another Attend");

#if defined(CPU_EMU)
inline f32 fused_once(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
inline f32 larger(f32 a, f32 b) { return a > b || b != b ? a : b; }
// 2^x; what is less than the least normal number is 0.
inline f32 raised_two(f32 x) {
    const f32 y = f32(__builtin_exp2(f64(x)));
    return y < 1.17549435e-38f ? 0.0f : y;
}
#else
__device__ __forceinline__ f32 fused_once(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ f32 larger(f32 a, f32 b) { return fmaxf(a, b); }
__device__ __forceinline__ f32 raised_two(f32 x) {
    f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif

__device__ __forceinline__ f32 no_number() { return -bits_of<f32>(0x7f800000u); }
__device__ __forceinline__ f32 lowest_number() { return -bits_of<f32>(0x7f7fffffu); }
// e^(x - shift) for numbers that are not above the shift.
__device__ __forceinline__ f32 weight_of(f32 x, f32 shift) { return raised_two(product(sum(x, -shift), 1.442695f)); }

// A whole number near an index: beyond all of them if it is far.
__device__ __forceinline__ i32 index_of(f64 x) {
    const f64 far = f64(1 << 28);
    return x != x ? 0 : i32(x > far ? far : x < -far ? -far : x);
}
__device__ __forceinline__ f64 floor_of(f64 x) {
    const f64 nearest = round_to_even(x);
    return nearest > x ? nearest - 1 : nearest;
}

// The head and the rows of a block. The last rows, of which a causal band leaves the most, come first.
struct AttendPlace {
    i64 batch, head;
    u32 first, last;  // rows, both of the block

    __device__ __forceinline__ AttendPlace(const Attend &p) {
        const u64 number = blockIdx.x, outer = quotient(number, p.blocks);
        const u64 outermost = quotient(outer, p.heads);
        batch = i64(outermost);
        head = i64(outer - outermost * p.heads.divisor);
        first = u32(p.blocks.divisor - 1 - (number - outer * p.blocks.divisor)) * ATTEND_ROWS;
        last = (first + ATTEND_ROWS < p.rows ? first + ATTEND_ROWS : p.rows) - 1;
    }
    __device__ __forceinline__ i64 of_queries(const i64 (&step)[4]) const { return batch * step[0] + head * step[1]; }
    __device__ __forceinline__ i64 of_keys(const i64 (&step)[4], const Divisor &share) const {
        return batch * step[0] + i64(quotient(u64(head), share)) * step[1];
    }
};

// What the rows of a block see.
struct Sight {
    i32 queries, keys;  // beyond these nothing counts
    i32 right, left;    // the last and the first key that a row sees, from its own number on
    f32 scale, fill;

    static __device__ __forceinline__ f64 number(u32 type, const char *p) { return p ? load_f64(type, p) : 0.0; }

    __device__ __forceinline__ Sight(const Attend &p, i64 batch) {
        f64 length[2];
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            length[k] = number(p.length_type[k], p.length[k] ? p.length[k] + batch * p.length_step[k] : p.length[k]);
        }
        queries = i32(p.rows);
        keys = i32(p.keys);
        if (p.flags & IS_PADDED) {
            // A length need not be a whole number: it bounds an index.
            const i32 own[2] = {index_of(-floor_of(-length[0])), index_of(-floor_of(-length[1]))};
            if (p.length[0] && own[0] < queries) queries = own[0];
            if (p.length[1] && own[1] < keys) keys = own[1];
            if (keys < 0) keys = 0;
        }
        const f64 moved = length[1] - length[0];
        right = 1 << 28;
        left = -right;
        if (p.flags & HAS_RIGHT) {
            const f64 x = number(p.bound_type[0], p.bound[0]) + (p.flags & RIGHT_MOVES ? moved : 0.0);
            right = index_of(p.flags & RIGHT_IS_STRICT ? -floor_of(-x) - 1 : floor_of(x));
        }
        if (p.flags & HAS_LEFT) {
            const f64 x = (p.flags & LEFT_MOVES ? moved : 0.0) - number(p.bound_type[1], p.bound[1]);
            left = index_of(p.flags & LEFT_IS_STRICT ? floor_of(x) + 1 : -floor_of(-x));
        }
        scale = p.scale ? load_f32(p.scale_type, p.scale) : 1.0f;
        fill = p.fill ? f32(load_f64(p.fill_type, p.fill)) : no_number();
    }
    // A score of a row and a column.
    __device__ __forceinline__ f32 seen(f32 score, i32 row, i32 column) const {
        if (row >= queries || column >= keys) return no_number();
        return column > row + right || column < row + left ? fill : score;
    }
    // How many queries count.
    __device__ __forceinline__ u32 counted_queries() const { return queries > 0 ? u32(queries) : 0; }
    // Whether the score of a row and a column is that of their product.
    __device__ __forceinline__ bool sees(i32 row, i32 column) const {
        return row < queries && column < keys && column <= row + right && column >= row + left;
    }
    // Whether all rows from the first to the last one see all of a tile of keys.
    __device__ __forceinline__ bool sees_all(i32 first, i32 last, i32 key) const {
        const i32 last_key = key + i32(ATTEND_KEYS - 1);
        return last_key < keys && last < queries && last_key <= first + right && key >= last + left;
    }
    // Whether a row whose largest score this is needs what stands outside of the band.
    __device__ __forceinline__ bool needs_all(i32 row, f32 largest) const {
        return row < queries && !(sum(largest, -fill) > 110.0f);
    }
};

// The tiles of a block: those that a row sees, in their order, and then, if a row needs them, the others.
struct Tiles {
    u32 begin, end;     // that a row sees
    u32 seen, count;    // how many these are, and how many are computed so far as is known
    bool may_need_all;  // those that no row sees
    u32 all;

    __device__ __forceinline__ Tiles(const Sight &sight, const AttendPlace &place) {
        const i32 first = i32(place.first);
        const i32 last = i32(place.last) < sight.queries ? i32(place.last) : sight.queries - 1;
        i32 low = first + sight.left, high = last + sight.right + 1;
        low = low > 0 ? low : 0;
        high = high < sight.keys ? high : sight.keys;
        const bool is_any = first < sight.queries && low < high;
        begin = is_any ? u32(low) / ATTEND_KEYS : 0;
        end = is_any ? (u32(high) + (ATTEND_KEYS - 1)) / ATTEND_KEYS : 0;
        all = first < sight.queries ? (u32(sight.keys) + (ATTEND_KEYS - 1)) / ATTEND_KEYS : 0;
        seen = count = end - begin;
        may_need_all = !(sight.fill == no_number()) && seen < all;
        if (seen == 0 && may_need_all) need_all();
    }
    __device__ __forceinline__ void need_all() { count = all; }
    // Whether it is to be asked behind a tile if a row needs all.
    __device__ __forceinline__ bool asks_behind(u32 number) const { return may_need_all && number + 1 == seen; }
    __device__ __forceinline__ i32 first_key(u32 number) const {
        const u32 other = number - seen;
        const u32 tile = number < seen ? begin + number : other < begin ? other : other + seen;
        return i32(tile * ATTEND_KEYS);
    }
    // Whether all rows see all of a tile.
    static __device__ __forceinline__ bool is_inside(const Sight &sight, const AttendPlace &place, i32 key) {
        return sight.sees_all(i32(place.first), i32(place.last), key);
    }
};

// What is kept of a row.
struct RowState {
    f32 largest, total;

    // The factor that what was summed so far shrinks by; `shift` is what exponents are counted from.
    __device__ __forceinline__ f32 grow(f32 more, f32 &shift) {
        const f32 before = larger(largest, lowest_number());
        largest = larger(largest, more);
        shift = larger(largest, lowest_number());
        return weight_of(before, shift);
    }
    __device__ __forceinline__ f32 statistic(u32 flags) const {
        const f32 natural = sum(log(Rounded<f32>{total}).value, larger(largest, lowest_number()));
        return flags & IS_LOG2 ? product(natural, 1.442695f) : natural;
    }
    // What the row is multiplied by: it is 0 if it has seen nothing.
    __device__ __forceinline__ f32 share() const { return total == 0 ? 1.0f : ratio(1.0f, total); }
};
