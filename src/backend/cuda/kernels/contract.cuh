// What the kernels of contractions share (`ops/contract.rs`): where the iterations of loops are, operands as numbers, and
// the way from a sum to the destination.
#pragma once

#include "formula.cuh"

enum { BOUNDS = 6 };

enum OperandOf : u32 { OF_DST, OF_A, OF_B, OF_Z, OF_BIAS, OPERANDS };

// The loops by their part, in the order in which they stand in `loops`. `direct` has its outputs in the place of OF_COLUMNS.
enum PartOf : u32 { OF_DEPTH, OF_COLUMNS, OF_ROWS, OF_BATCH, PARTS };

enum ContractFlags : u32 {
    WIDE = 1,      // the epilogue computes in binary64
    BLENDED_DST = 2,
    ADDS_Z = 4,
    ADDS_BIAS = 8,
    CALLS = 16,           // the activation is computed apart
    A_ALONG_DEPTH = 32,   // neighbours of `a` in memory are neighbours in the sum, not in the rows
    B_ALONG_DEPTH = 64,
    DST_ALONG_COLUMNS = 128,
    A_BY_16 = 256,  // 16 neighbouring bytes of `a` are terms of one row, aligned and all inside or none
    B_BY_16 = 512,
    ACTIVATES = 1024,
};

// One loop: bytes that each operand moves per iteration, and how far its bound's position moves.
struct ContractLoop {
    Divisor extent;
    i64 step[OPERANDS];
    i64 along;
    u32 bound;  // BOUNDS: none
    u32 unused;
};

// Where `a` has elements along one dimension: where the position of all loops' first iterations, plus theirs, is below
// `extent`.
struct ContractBound {
    i64 start, extent;
};

struct Contract {
    char *at[OPERANDS];
    u64 rows, columns, depth;
    Divisor row_tiles, column_tiles;
    f64 alpha, beta, alpha2;
    f64 parameter;  // of the activation
    ContractBound bounds[BOUNDS];
    u32 scalar[OPERANDS];
    u32 bound_count;
    u32 flags;
    u32 activation;  // Function
    u32 parts;  // that every sum is cut into
    u32 unused;
    u64 part;        // terms of each
    Divisor blocks;  // of each
    char *partials;  // scratch: of parts, those of a block side by side; null if sums are not cut
    u32 first[PARTS], rank[PARTS];  // of `loops`
    ContractLoop loops[20];         // of each part the innermost first
};

static_assert(sizeof(ContractLoop) == 24 + 40 + 16, "contract.rs has another ContractLoop");
static_assert(sizeof(Contract) == 40 + 24 + 48 + 32 + 96 + 32 + 48 + 32 + 80 * 20, "contract.rs has another Contract");

// Offsets in bytes, and positions along the bounds.
struct ContractOffsets {
    i64 of[OPERANDS];
    i64 position[BOUNDS];
};

__device__ __forceinline__ ContractOffsets nowhere() {
    ContractOffsets walk;
#pragma unroll
    for (u32 i = 0; i < OPERANDS; ++i) walk.of[i] = 0;
#pragma unroll
    for (u32 i = 0; i < BOUNDS; ++i) walk.position[i] = 0;
    return walk;
}

// Moves on to iteration `index` of all loops of a part together.
__device__ __forceinline__ void walk(const Contract &p, u32 part, u64 index, ContractOffsets &to) {
    const u32 first = p.first[part], end = first + p.rank[part];
    u64 rest = index;
#pragma unroll 1
    for (u32 i = first; i < end; ++i) {
        const ContractLoop &loop = p.loops[i];
        // What is left belongs to the outermost loop.
        const u64 outer = i + 1 < end ? quotient(rest, loop.extent) : 0;
        const i64 here = i64(rest - outer * loop.extent.divisor);
        rest = outer;
#pragma unroll
        for (u32 k = 0; k < OPERANDS; ++k) to.of[k] += here * loop.step[k];
#pragma unroll
        for (u32 k = 0; k < BOUNDS; ++k) to.position[k] += loop.bound == k ? here * loop.along : 0;
    }
}

// What a block computes: which tile, or which elements, and which terms of their sums.
struct PartOfSum {
    u64 number, block;
    u64 begin, end;
};

__device__ __forceinline__ PartOfSum part_of_sum(const Contract &p) {
    const u64 number = quotient(u64(blockIdx.x), p.blocks), begin = number * p.part, end = begin + p.part;
    return {number, blockIdx.x - number * p.blocks.divisor, begin, end < p.depth ? end : p.depth};
}

// Tables of a block -------------------------------------------------------------------------------------------------

// Four neighbours that are read at once.
template <typename T>
struct alignas(16) Four {
    T value[4];
};

// Where a tile's rows and columns, and some terms of the sum, are. POSITION: an integer that holds every position.
template <typename POSITION, u32 SIDE>
struct Tables {
    typedef POSITION Position;
    enum : u32 { TERMS = 128 };
    i64 row[SIDE], column[SIDE];  // of a, of b
    i64 term[2][TERMS];           // of a, of b
    POSITION row_position[BOUNDS][SIDE], term_position[BOUNDS][TERMS];
    i64 place[3][2][SIDE];  // dst, z and bias; of rows, of columns

    // Enters all rows and columns of the tile, and returns where the first are.
    struct Corner {
        u64 row, column;
    };
    __device__ __forceinline__ Corner locate(const Contract &p, u64 block) {
        const u64 outer = quotient(block, p.column_tiles);
        const u64 batch = quotient(outer, p.row_tiles);
        const Corner corner = {(outer - batch * p.row_tiles.divisor) * SIDE,
                               (block - outer * p.column_tiles.divisor) * SIDE};
        const u32 me = threadIdx.x;
        if (me >= 2 * SIDE) return corner;
        // Beyond the last row the last one is read again.
        const bool is_row = me < SIDE;
        const u32 i = me % SIDE, kind = is_row ? 0 : 1;
        const u64 wanted = (is_row ? corner.row : corner.column) + i, last = (is_row ? p.rows : p.columns) - 1;
        ContractOffsets here = nowhere();
        walk(p, OF_BATCH, batch, here);
        if (!is_row) here.of[OF_DST] = here.of[OF_Z] = here.of[OF_BIAS] = 0;
        walk(p, is_row ? OF_ROWS : OF_COLUMNS, wanted < last ? wanted : last, here);
        place[0][kind][i] = here.of[OF_DST];
        place[1][kind][i] = here.of[OF_Z];
        place[2][kind][i] = here.of[OF_BIAS];
        if (is_row) {
            row[i] = here.of[OF_A];
#pragma unroll
            for (u32 k = 0; k < BOUNDS; ++k) {
                if (k < p.bound_count) row_position[k][i] = POSITION(p.bounds[k].start + here.position[k]);
            }
        } else {
            column[i] = here.of[OF_B];
        }
        return corner;
    }

    // Enters the terms from `first` on, a multiple of TERMS.
    __device__ __forceinline__ void tabulate(const Contract &p, u64 first) {
        const u32 me = threadIdx.x;
        if (me >= TERMS || first + me >= p.depth) return;
        ContractOffsets here = nowhere();
        walk(p, OF_DEPTH, first + me, here);
        term[0][me] = here.of[OF_A];
        term[1][me] = here.of[OF_B];
#pragma unroll
        for (u32 k = 0; k < BOUNDS; ++k) {
            if (k < p.bound_count) term_position[k][me] = POSITION(here.position[k]);
        }
    }

    // Whether `a` has an element in a row for the term of an entry.
    template <u32 MOST>
    __device__ __forceinline__ bool has(const Contract &p, u32 row, u32 entry) const {
        bool is_inside = true;
#pragma unroll
        for (u32 k = 0; k < MOST; ++k) {
            if (k < p.bound_count) {
                const POSITION position = row_position[k][row] + term_position[k][entry];
                is_inside = is_inside && position >= 0 && position < POSITION(p.bounds[k].extent);
            }
        }
        return is_inside;
    }
};

// Operands as numbers of the type that is summed in ----------------------------------------------------------------

#if defined(CPU_EMU)
inline f32 fused(f32 a, f32 b, f32 c) { return f32(f64(a) * f64(b) + f64(c)); }
inline f64 fused(f64 a, f64 b, f64 c) { return a * b + c; }
#else
__device__ __forceinline__ f32 fused(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ f64 fused(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }
#endif
__device__ __forceinline__ i32 fused(i32 a, i32 b, i32 c) { return i32(u32(a) * u32(b) + u32(c)); }

// `Bits` holds any element that is multiplied in this type; `load` reads one, `widened` makes a number of its bits.
template <typename T>
struct Factor;
template <>
struct Factor<f32> {
    typedef u32 Bits;
    static __device__ __forceinline__ f32 load(u32 scalar, const char *p) { return Real<f32>::load(scalar, p); }
    static __device__ __forceinline__ f32 widened(u32 scalar, u32 bits) { return value_f32(scalar, bits); }
};
template <>
struct Factor<f64> {
    typedef u64 Bits;
    static __device__ __forceinline__ f64 load(u32 scalar, const char *p) { return load_f64(scalar, p); }
    static __device__ __forceinline__ f64 widened(u32 scalar, u64 bits) { return value_f64(scalar, bits); }
};
template <>
struct Factor<i32> {
    typedef u32 Bits;
    static __device__ __forceinline__ i32 load(u32 scalar, const char *p) { return widened(scalar, at<u8>(p)); }
    static __device__ __forceinline__ i32 widened(u32 scalar, u32 bits) {
        return scalar == I8 ? i32(i8(bits)) : i32(bits);
    }
};

// From a sum to the destination ------------------------------------------------------------------------------------

// Called, not inlined: elementary functions would take the registers of the loops around them.
#if defined(CPU_EMU)
#define APART inline
#else
#define APART __noinline__
#endif

template <typename R>
__device__ APART R curved(u32 activation, R parameter, R x) {
    return long_activation<R>(activation, {x}, {parameter}).result.value;
}

template <typename R>
__device__ __forceinline__ R activated(const Contract &p, R x) {
    if (p.flags & CALLS) return curved<R>(p.activation, R(p.parameter), x);
    return short_activation<R>(p.activation, {x}, {R(p.parameter)}).result.value;
}

// Every product and every sum is rounded by itself.
template <typename R>
__device__ __forceinline__ void epilogue_in(const Contract &p, R total, i64 dst, i64 z, i64 bias) {
    char *const to = p.at[OF_DST] + dst;
    R r = product(R(p.alpha), total);
    if (p.flags & BLENDED_DST) r = sum(r, product(R(p.beta), Real<R>::load(p.scalar[OF_DST], to)));
    if (p.flags & ADDS_Z) r = sum(r, product(R(p.alpha2), Real<R>::load(p.scalar[OF_Z], p.at[OF_Z] + z)));
    if (p.flags & ADDS_BIAS) r = sum(r, Real<R>::load(p.scalar[OF_BIAS], p.at[OF_BIAS] + bias));
    Real<R>::store(p.scalar[OF_DST], to, activated(p, r));
}

template <typename T>
__device__ __forceinline__ void epilogue(const Contract &p, T total, i64 dst, i64 z, i64 bias) {
    if (sizeof(T) == 8 || (p.flags & WIDE)) return epilogue_in<f64>(p, f64(total), dst, z, bias);
    epilogue_in<f32>(p, f32(total), dst, z, bias);
}

// The epilogue writes a tile by subtiles of so many columns, staged in shared memory: neighbours in memory by neighbouring
// threads.
enum : u32 { SUBTILE = 32, SUBTILE_PITCH = SUBTILE + 1 };

// Of a part of all terms, as sums that `joined` finds in the same order.
template <u32 SIDE, bool CUT, typename T, typename Tables>
__device__ __forceinline__ void write_subtile(const Contract &p, const Tables &tables, const T *acc, u64 first_row,
                                             u64 first_column, u32 subtile) {
    const bool along_columns = p.flags & DST_ALONG_COLUMNS;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < SIDE * SUBTILE; i += THREADS) {
        const u32 row = along_columns ? i / SUBTILE : i % SIDE, within = along_columns ? i % SUBTILE : i / SIDE;
        const u32 column = subtile * SUBTILE + within;
        if (first_row + row >= p.rows || first_column + column >= p.columns) continue;
        if (CUT && p.partials) {
            const u64 own = u64(blockIdx.x) * (SIDE * SIDE) + (along_columns ? row * SIDE + column : column * SIDE + row);
            put<T>(p.partials + own * sizeof(T), acc[row * SUBTILE_PITCH + within]);
            continue;
        }
        i64 of[3];
#pragma unroll
        for (u32 k = 0; k < 3; ++k) of[k] = tables.place[k][0][row] + tables.place[k][1][column];
        epilogue(p, acc[row * SUBTILE_PITCH + within], of[0], of[1], of[2]);
    }
}

// Sums of parts -----------------------------------------------------------------------------------------------------

__device__ __forceinline__ i32 sum(i32 a, i32 b) { return i32(u32(a) + u32(b)); }

// Parts of one sum, `step` sums apart, in their order.
template <typename T>
__device__ __forceinline__ T sum_of_parts(const Contract &p, u64 first, u64 step) {
    enum : u32 { AT_ONCE = 8 };
    const char *from = p.partials + first * sizeof(T);
    T total = at<T>(from);
    u32 i = 1;
#pragma unroll 1
    for (; i + AT_ONCE <= p.parts; i += AT_ONCE) {
        T next[AT_ONCE];
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; ++k) next[k] = at<T>(from + (i + k) * step * sizeof(T));
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; ++k) total = sum(total, next[k]);
    }
#pragma unroll 1
    for (; i < p.parts; ++i) total = sum(total, at<T>(from + i * step * sizeof(T)));
    return total;
}
