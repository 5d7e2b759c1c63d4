// Contractions whose products Tensor Cores compute: half, bfloat16, TF32 and bytes.
//
// As `contract.cu`, with operands staged as they are, 8 words of neighbouring terms for every row and column, which is what
// a product of fragments takes. An operand whose neighbours in memory are neighbours in the sum, 16 bytes of them at a time,
// is copied asynchronously, and so are elements of 4 bytes one by one; any other is gathered element by element. Before
// compute_80 nothing is copied asynchronously: 16 bytes wait in registers for the end of the present products.
#pragma once

#include "async.cuh"
#include "contract.cuh"
#include "mma.cuh"

// LaneWords of a row in one step, and from row to row: rows of a fragment meet different banks.
enum : u32 { WORDS = 8, WORD_PITCH = WORDS + 4, SPATIAL = 3 };

// Elements of 32 bits.
template <u32 PER>
struct Packed;
template <>
struct Packed<1> {
    typedef u32 Unit;
};
template <>
struct Packed<2> {
    typedef u16 Unit;
};
template <>
struct Packed<4> {
    typedef u8 Unit;
};

template <typename Type, u32 SIDE>
struct alignas(16) MmaTile {
    u32 staged[2][2][SIDE][WORD_PITCH];  // double-buffered; a and b. Stages the epilogue at the end.
    Tables<i32, SIDE> tables;
    static_assert(SIDE * SUBTILE_PITCH <= 4 * SIDE * WORD_PITCH, "a subtile of the epilogue has no room");
};

// Which words of an operand a thread stages: its first one, by its row of `a` or column of `b` and its number there, and the
// steps to the next.
struct LaneWords {
    u32 lane, word;
    u32 lane_step, word_step;
};

template <u32 SIDE>
__device__ __forceinline__ LaneWords lane_words(bool along_depth) {
    const u32 me = threadIdx.x;
    if (along_depth) return {me / WORDS, me % WORDS, THREADS / WORDS, 0};
    return {me % SIDE, me / SIDE, 0, THREADS / SIDE};
}

// Eight warps: 2 of SIDE / 2 rows by 4 of SIDE / 4 columns.
template <typename Type, u32 SIDE>
__device__ __forceinline__ void mainloop(const Contract &p) {
    typedef typename Type::Sum Sum;
    typedef typename Packed<Type::PER>::Unit Unit;
    enum : u32 { EACH = SIDE * WORDS / THREADS, MMA_M = SIDE / 32, MMA_N = SIDE / 32, TERMS = Tables<i32, SIDE>::TERMS };
    __shared__ MmaTile<Type, SIDE> tile;
    Tables<i32, SIDE> &tables = tile.tables;
    // Large tiles are for so many that no sum is cut.
    constexpr bool CUT = SIDE == 64;
    const PartOfSum part = CUT ? part_of_sum(p) : PartOfSum{0, blockIdx.x, 0, p.depth};
    const auto corner = tables.locate(p, part.block);

    const u32 me = threadIdx.x;
    const bool a_by_16 = p.flags & A_BY_16, b_by_16 = p.flags & B_BY_16;
    const LaneWords of_a = lane_words<SIDE>(p.flags & A_ALONG_DEPTH), of_b = lane_words<SIDE>(p.flags & B_ALONG_DEPTH);

    // What the other half of the block reads until the next barrier is not touched: both operands of a step go to the place
    // of the step before last.
    const auto gather = [&](u32 operand, u64 first, u32 buffer, const LaneWords &share) {
        const u32 entry = u32(first % TERMS);
        const i64 *const lanes = operand == 0 ? tables.row : tables.column;
        if constexpr (Type::PER == 1) {
#pragma unroll
            for (u32 i = 0; i < EACH; ++i) {
                const u32 lane = share.lane + i * share.lane_step, term = share.word + i * share.word_step;
                bool is_there = first + term < part.end;
                if (operand == 0) is_there = is_there && tables.template has<SPATIAL>(p, lane, entry + term);
                const i64 offset = is_there ? lanes[lane] + tables.term[operand][entry + term] : 0;
                copy_4(&tile.staged[buffer][operand][lane][term], p.at[OF_A + operand] + offset, is_there);
            }
        } else {
            u32 held[EACH];
#pragma unroll
            for (u32 i = 0; i < EACH; ++i) {
                const u32 lane = share.lane + i * share.lane_step, term = (share.word + i * share.word_step) * Type::PER;
                held[i] = 0;
#pragma unroll
                for (u32 k = 0; k < Type::PER; ++k) {
                    if (first + term + k >= part.end) continue;
                    if (operand == 0 && !tables.template has<SPATIAL>(p, lane, entry + term + k)) continue;
                    const char *from = p.at[OF_A + operand] + lanes[lane] + tables.term[operand][entry + term + k];
                    held[i] |= u32(at<Unit>(from)) << (32 / Type::PER * k);
                }
            }
#pragma unroll
            for (u32 i = 0; i < EACH; ++i) {
                tile.staged[buffer][operand][share.lane + i * share.lane_step][share.word + i * share.word_step] = held[i];
            }
        }
    };
    constexpr bool IS_ASYNC = Type::FROM >= 80;
    Vector held_16[2];  // of a and of b, if not
    const auto copy = [&](u32 operand, u64 first, u32 buffer) {
        // Two times 16 bytes of a row.
        const u32 lane = me / 2, word = me % 2 * 4, term = u32(first % TERMS) + word * Type::PER;
        if (me >= 2 * SIDE) return;
        bool is_there = first + word * Type::PER < part.end;
        if (operand == 0) is_there = is_there && tables.template has<SPATIAL>(p, lane, term);
        const i64 *const lanes = operand == 0 ? tables.row : tables.column;
        const i64 offset = is_there ? lanes[lane] + tables.term[operand][term] : 0;
        const char *const from = p.at[OF_A + operand] + offset;
        if constexpr (IS_ASYNC) {
            copy_16(&tile.staged[buffer][operand][lane][word], from, is_there);
        } else {
            held_16[operand] = Vector{};
            if (is_there) held_16[operand] = at<Vector>(from);
        }
    };
    // What `start_loads` began comes to an end; a barrier tells the others.
    const auto finish_loads = [&](u32 buffer) {
        if constexpr (IS_ASYNC) {
            wait_for_copies();
        } else {
            if (me >= 2 * SIDE) return;
            const u32 lane = me / 2, word = me % 2 * 4;
            if (a_by_16) *reinterpret_cast<Vector *>(&tile.staged[buffer][0][lane][word]) = held_16[0];
            if (b_by_16) *reinterpret_cast<Vector *>(&tile.staged[buffer][1][lane][word]) = held_16[1];
        }
    };
    const auto start_loads = [&](u64 first, u32 buffer) {
        if (a_by_16) copy(0, first, buffer);
        if (b_by_16) copy(1, first, buffer);
        if (IS_ASYNC && Type::PER > 1) end_of_copies();
        if (!a_by_16) gather(0, first, buffer, of_a);
        if (!b_by_16) gather(1, first, buffer, of_b);
        if (IS_ASYNC && Type::PER == 1) end_of_copies();
    };

    const u32 warp = me / 32, above = warp / 4 * (SIDE / 2), left = warp % 4 * (SIDE / 4);
    Sum acc[MMA_M][MMA_N][4];
#pragma unroll
    for (u32 i = 0; i < MMA_M; ++i) {
#pragma unroll
        for (u32 j = 0; j < MMA_N; ++j) {
#pragma unroll
            for (u32 k = 0; k < 4; ++k) acc[i][j][k] = Sum(0);
        }
    }
    // Each iteration loads the operands of the next one, so the first has nothing to multiply yet.
    const u64 step = WORDS * Type::PER;
    u32 buffer = 1;
    bool is_loaded = false;
#pragma unroll 1
    for (u64 next = part.begin;; next += step, buffer ^= 1) {
        const bool more = next < part.end;
        if (!more && !is_loaded) break;
        if (more) {
            if (next % TERMS == 0) {
                // The last entries were read before the last barrier.
                tables.tabulate(p, next);
                __syncthreads();
            }
            start_loads(next, buffer ^ 1);
        }
        if (is_loaded) {
            u32 columns[MMA_N][2];
#pragma unroll
            for (u32 j = 0; j < MMA_N; ++j) {
#pragma unroll
                for (u32 r = 0; r < 2; ++r) {
                    const u32 word = mma_b_k<Type>(r) / Type::PER;
                    columns[j][r] = ready(Type(), tile.staged[buffer][1][left + 8 * j + mma_b_column(r)][word]);
                }
            }
#pragma unroll
            for (u32 i = 0; i < MMA_M; ++i) {
                u32 rows[4];
#pragma unroll
                for (u32 r = 0; r < 4; ++r) {
                    const u32 word = mma_a_k<Type>(r) / Type::PER;
                    rows[r] = ready(Type(), tile.staged[buffer][0][above + 16 * i + mma_a_row(r)][word]);
                }
#pragma unroll
                for (u32 j = 0; j < MMA_N; ++j) mma(Type(), acc[i][j], rows, columns[j]);
            }
        }
        if (more) finish_loads(buffer ^ 1);
        is_loaded = more;
        __syncthreads();
    }

    Sum *const out = reinterpret_cast<Sum *>(&tile.staged[0][0][0][0]);
#pragma unroll 1
    for (u32 subtile = 0; subtile < SIDE / SUBTILE; ++subtile) {
        if (left / SUBTILE == subtile) {
#pragma unroll
            for (u32 i = 0; i < MMA_M; ++i) {
#pragma unroll
                for (u32 j = 0; j < MMA_N; ++j) {
#pragma unroll
                    for (u32 k = 0; k < 4; ++k) {
                        const u32 row = above + 16 * i + mma_c_row(k), column = left % SUBTILE + 8 * j + mma_c_column(k);
                        out[row * SUBTILE_PITCH + column] = acc[i][j][k];
                    }
                }
            }
        }
        __syncthreads();
        write_subtile<SIDE, CUT>(p, tables, out, corner.row, corner.column, subtile);
        __syncthreads();
    }
}

// A kernel for tiles, and one for large ones.
#define MULTIPLIED(NAME, TYPE)                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) NAME(const Contract p) { mainloop<TYPE, 64>(p); } \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) NAME##_large(const Contract p) {                    \
        mainloop<TYPE, 128>(p);                                                                                \
    }
