// Contractions on Tensor Cores whose rows lie together in `a`, and columns in `b`, so that both are transposed on their way from
// shared memory: gradients of filters, whose terms are pixels of all images, and matrices of which the first is transposed.
//
// A term of the sum has its place in both operands, and along the bounds of `a`, in a table that is filled ahead for TABLE terms
// at a time: loops of the sum may be any. The tile is turned, as in memory the rows of a result are neighbours (filters by
// channels that lie together): fragments of `b` are rows of products, those of `a` columns. Sums of parts go to the workspace.
#pragma once

#include "contract_mainloop.cuh"

// Bounds that are looked at, and terms of a table.
enum : u32 { SPATIAL = 3, TABLE = 128 };

// Where a term lies, and whether there is one: 16, or 0.
struct alignas(16) Term {
    i64 of_a, of_b;
    i32 position[SPATIAL];
    u32 bytes;
};

// What a thread copies of both operands: a vector of neighbours, for terms that are some apart.
template <typename Config>
struct TermCopier {
    enum : u32 { A_APART = Config::BLOCK / Config::A_VECTORS, B_APART = Config::BLOCK / Config::B_VECTORS };
    static_assert(A_APART % 8 == 0 && B_APART % 8 == 0, "vectors of a thread change places differently");
    static_assert((Config::STAGES - 1) * Config::TERMS <= TABLE, "the first stages have terms of the first table");
    static_assert(u32(Config::BLOCK) >= TABLE, "a thread enters a term");

    Term (*tables)[TABLE];
    const char *rows, *columns;                // of `b`, and of `a`
    i32 position[SPATIAL];                     // of the columns
    u32 limit[SPATIAL];                        // more than any if nothing bounds it
    u32 entry;                                 // in both tables, of the first term that is copied next
    u64 next, end;                             // the first term that has no entry yet, and the end of the part
    SharedPlace a_to, b_to, a_at, b_at;        // in the first stage, and in the next one that is filled

    __device__ __forceinline__ void begin(const Contract &p, const PartOfSum &part, u64 batch, u64 first_row, u64 first_column,
                                          char *stages) {
        __shared__ Term both[2][TABLE];
        const u32 me = threadIdx.x;
        tables = both;
        next = part.begin;
        end = part.end;
        tabulate(p, 0);
        ContractOffsets outside = nowhere();
        walk(p, OF_BATCH, batch, outside);
        // Beyond the last vector that one is read again.
        const u64 row = first_row + me % Config::A_VECTORS * Config::TOGETHER, last_row = p.columns - Config::TOGETHER;
        ContractOffsets here = nowhere();
        walk(p, OF_COLUMNS, row < last_row ? row : last_row, here);
        rows = kept(p.at[OF_B] + outside.of[OF_B] + here.of[OF_B]);
        const u64 column = first_column + me % Config::B_VECTORS * Config::TOGETHER, last_column = p.rows - Config::TOGETHER;
        here = outside;
        walk(p, OF_ROWS, column < last_column ? column : last_column, here);
        columns = kept(p.at[OF_A] + here.of[OF_A]);
#pragma unroll
        for (u32 k = 0; k < SPATIAL; ++k) {
            const bool is_bound = k < p.bound_count;
            position[k] = is_bound ? i32(p.bounds[k].start + here.position[k]) : 0;
            limit[k] = kept(is_bound ? u32(p.bounds[k].extent) : ~0u);
        }
        entry = 0;
        a_to = kept(shared_place(stages + swizzle<Config::A_VECTORS, Config::SIZE>(me / Config::A_VECTORS, me % Config::A_VECTORS)));
        b_to = kept(shared_place(stages + swizzle<Config::B_VECTORS, Config::SIZE>(me / Config::B_VECTORS, me % Config::B_VECTORS)));
        go_to(0);
        __syncthreads();
    }

    // Enters the next terms in a table of which all threads have read what they need.
    __device__ __forceinline__ void tabulate(const Contract &p, u32 table) {
        const u32 me = threadIdx.x;
        if (me < TABLE) {
            ContractOffsets here = nowhere();
            const bool is_there = next + me < end;
            if (is_there) walk(p, OF_DEPTH, next + me, here);
            Term term;
            term.of_a = here.of[OF_A];
            term.of_b = here.of[OF_B];
            term.bytes = is_there ? 16 : 0;
#pragma unroll
            for (u32 k = 0; k < SPATIAL; ++k) term.position[k] = k < p.bound_count ? i32(here.position[k]) : 0;
            tables[table][me] = term;
        }
        next += TABLE;
    }

    template <u32 I = 0>
    __device__ __forceinline__ void copy_a(const char *const (&from)[Config::A_EACH], const u32 (&bytes)[Config::A_EACH]) const {
        if constexpr (I < Config::A_EACH) {
            copy_16_to<I * 16 * Config::BLOCK>(a_at, from[I], bytes[I]);
            copy_a<I + 1>(from, bytes);
        }
    }
    template <u32 I = 0>
    __device__ __forceinline__ void copy_b(const char *const (&from)[Config::B_EACH], const u32 (&bytes)[Config::B_EACH]) const {
        if constexpr (I < Config::B_EACH) {
            copy_16_to<Config::A_BYTES + I * 16 * Config::BLOCK>(b_at, from[I], bytes[I]);
            copy_b<I + 1>(from, bytes);
        }
    }
    // The next stage that is filled, by its distance from the first one.
    __device__ __forceinline__ void go_to(u32 stage) {
        a_at = a_to + stage;
        b_at = b_to + stage;
    }
    // Begins the copies of the next stage; zeros behind the last term.
    __device__ __forceinline__ void copy(const Contract &p) {
        const u32 me = threadIdx.x;
        const Term *const of_rows = &tables[0][entry + me / Config::A_VECTORS];
        const Term *const of_columns = &tables[0][entry + me / Config::B_VECTORS];
        const char *a_from[Config::A_EACH], *b_from[Config::B_EACH];
        u32 a_bytes[Config::A_EACH], b_bytes[Config::B_EACH];
#pragma unroll
        for (u32 i = 0; i < Config::A_EACH; ++i) {
            const Term term = of_rows[i * A_APART];
            a_from[i] = rows + term.of_b;
            a_bytes[i] = term.bytes;
        }
#pragma unroll
        for (u32 i = 0; i < Config::B_EACH; ++i) {
            const Term term = of_columns[i * B_APART];
            u32 is_inside = 1;
#pragma unroll
            for (u32 k = 0; k < SPATIAL; ++k) is_inside &= u32(u32(position[k] + term.position[k]) < limit[k]);
            b_from[i] = columns + term.of_a;
            b_bytes[i] = is_inside ? term.bytes : 0;
        }
        copy_a(a_from, a_bytes);
        copy_b(b_from, b_bytes);
        entry = (entry + Config::TERMS) % (2 * TABLE);
        // The last terms of a table are copied behind the next barrier, and the first ones of the other behind one more.
        if (entry % TABLE == TABLE - Config::TERMS) tabulate(p, entry / TABLE ^ 1);
    }
};

#define OF_TILE(NAME, TYPE, M, N, WARPS_M, WARPS_N, STAGES, K_BYTES, RESIDENT)                                            \
    extern "C" __global__ void __launch_bounds__(32 * WARPS_M * WARPS_N, RESIDENT) NAME(const Contract p) {               \
        typedef Mainloop<TYPE, N, M, WARPS_N, WARPS_M, STAGES, true, true, K_BYTES> Config;                               \
        multistage<Config, TermCopier<Config>>(p);                                                                        \
    }
// Kernels for three tiles, by rows and columns of the contraction.
#define GRADIENT(NAME, TYPE)                            \
    OF_TILE(NAME##_128x128, TYPE, 128, 128, 4, 2, 5, 32, 1) \
    OF_TILE(NAME##_128x64, TYPE, 128, 64, 4, 2, 3, 64, 2)   \
    OF_TILE(NAME##_64x64, TYPE, 64, 64, 2, 2, 4, 64, 4)
