// Contractions: every convolution in every direction, and every matrix product. `ops/contract.rs` says what one is.
//
// `contract_<sum>` computes tiles of the destination: a block keeps tables of where its rows, its columns and the terms of the
// sum lie, reads both operands by adding two table entries each, turns them into numbers and stages them in shared memory; a
// thread has a square of sums in registers. Nothing about the problem's layout is known but the tables. `contract_direct_*` has
// a thread for every element of the destination: sums over the taps of one channel, and shapes that waste most of a tile.
// Both add up the products of an element one by one, in the order of the terms.
#include "contract.cuh"

// A tile -----------------------------------------------------------------------------------------------------------

// T: what is summed in; POSITION: an integer for positions; SQUARE: sums of a thread are SQUARE x SQUARE; STEP: terms that are
// staged at once.
template <typename T, typename POSITION, u32 SQUARE, u32 STEP>
struct alignas(16) Tile {
    enum : u32 {
        SIDE = 16 * SQUARE,            // rows, and columns
        PITCH = SIDE + 4,              // from term to term: neighbours in either direction meet different banks
        EACH = SIDE * STEP / THREADS,  // elements of an operand that a thread stages
    };
    T staged[2][2][STEP][PITCH];  // double-buffered; a and b. Stages the epilogue at the end.
    Tables<POSITION, SIDE> tables;
    static_assert(SIDE * SUBTILE_PITCH <= 4 * STEP * PITCH, "a subtile of the epilogue has no room");
};

// Which elements of an operand a thread stages: neighbours in memory by neighbouring threads.
struct Share {
    u32 side, term;            // of the first
    u32 side_step, term_step;  // to the next
};

template <typename Tile, u32 STEP>
__device__ __forceinline__ Share share(bool along_depth) {
    const u32 me = threadIdx.x;
    if (along_depth) return {me / STEP, me % STEP, THREADS / STEP, 0};
    return {me % Tile::SIDE, me / Tile::SIDE, 0, THREADS / Tile::SIDE};
}

template <typename Unit, typename Bits, u32 EACH>
__device__ __forceinline__ void read_each(const char *const (&from)[EACH], u32 inside, Bits (&held)[EACH]) {
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) held[i] = inside >> i & 1 ? Bits(at<Unit>(from[i])) : Bits(0);
}

// Reads what lies at `from`, and zeros for what is not inside.
template <typename Bits, u32 EACH>
__device__ __forceinline__ void read_all(u32 scalar, const char *const (&from)[EACH], u32 inside, Bits (&held)[EACH]) {
    switch (size_of(scalar)) {
    case 8:
        if constexpr (sizeof(Bits) == 8) read_each<u64>(from, inside, held);
        return;
    case 4: return read_each<u32>(from, inside, held);
    case 2: return read_each<u16>(from, inside, held);
    default: return read_each<u8>(from, inside, held);
    }
}

// CUT: whether sums may be cut into parts.
template <typename T, typename Position, u32 SQUARE, u32 STEP, bool CUT>
__device__ __forceinline__ void tiled(const Contract &p) {
    typedef Tile<T, Position, SQUARE, STEP> Tile;
    typedef typename Factor<T>::Bits Bits;
    const u32 SIDE = Tile::SIDE, EACH = Tile::EACH, TERMS = Tables<Position, Tile::SIDE>::TERMS;
    __shared__ Tile tile;
    Tables<Position, Tile::SIDE> &tables = tile.tables;
    const PartOfSum part = CUT ? part_of_sum(p) : PartOfSum{0, blockIdx.x, 0, p.depth};
    const auto corner = tables.locate(p, part.block);
    tables.tabulate(p, part.begin);
    __syncthreads();

    const Share of_a = share<Tile, STEP>(p.flags & A_ALONG_DEPTH), of_b = share<Tile, STEP>(p.flags & B_ALONG_DEPTH);
    Bits a[EACH], b[EACH];
    const auto fetch = [&](u64 first) {
        const u32 entry = u32(first % TERMS);
        const char *from[EACH];
        u32 inside = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            const u32 row = of_a.side + i * of_a.side_step, term = of_a.term + i * of_a.term_step;
            from[i] = p.at[OF_A];
            if (first + term < part.end) {
                from[i] += tables.row[row] + tables.term[0][entry + term];
                inside |= u32(tables.template has<BOUNDS>(p, row, entry + term)) << i;
            }
        }
        read_all(p.scalar[OF_A], from, inside, a);
        inside = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            const u32 column = of_b.side + i * of_b.side_step, term = of_b.term + i * of_b.term_step;
            from[i] = p.at[OF_B];
            if (first + term < part.end) {
                from[i] += tables.column[column] + tables.term[1][entry + term];
                inside |= 1u << i;
            }
        }
        read_all(p.scalar[OF_B], from, inside, b);
    };
    const auto stage = [&](u32 buffer) {
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            const u32 row = of_a.side + i * of_a.side_step, term = of_a.term + i * of_a.term_step;
            tile.staged[buffer][0][term][row] = Factor<T>::widened(p.scalar[OF_A], a[i]);
        }
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            const u32 column = of_b.side + i * of_b.side_step, term = of_b.term + i * of_b.term_step;
            tile.staged[buffer][1][term][column] = Factor<T>::widened(p.scalar[OF_B], b[i]);
        }
    };

    // Squares of 4 x 4, 64 apart.
    const u32 x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
    T acc[SQUARE][SQUARE];
#pragma unroll
    for (u32 i = 0; i < SQUARE; ++i) {
#pragma unroll
        for (u32 j = 0; j < SQUARE; ++j) acc[i][j] = T(0);
    }
    u32 buffer = 0;
    if (p.depth > 0) {
        fetch(part.begin);
        stage(0);
    }
    __syncthreads();
#pragma unroll 1
    for (u64 first = part.begin; first < part.end; first += STEP, buffer ^= 1) {
        const u64 next = first + STEP;
        const bool more = next < part.end;
        if (more) {
            if (next % TERMS == 0) {
                // The last entries were read before the last barrier.
                tables.tabulate(p, next);
                __syncthreads();
            }
            fetch(next);
        }
#pragma unroll 2
        for (u32 term = 0; term < STEP; ++term) {
            Four<T> left[SQUARE / 4], above[SQUARE / 4];
#pragma unroll
            for (u32 k = 0; k < SQUARE / 4; ++k) {
                left[k] = *reinterpret_cast<const Four<T> *>(&tile.staged[buffer][0][term][y + 64 * k]);
                above[k] = *reinterpret_cast<const Four<T> *>(&tile.staged[buffer][1][term][x + 64 * k]);
            }
#pragma unroll
            for (u32 i = 0; i < SQUARE; ++i) {
#pragma unroll
                for (u32 j = 0; j < SQUARE; ++j) {
                    acc[i][j] = fused(left[i / 4].value[i % 4], above[j / 4].value[j % 4], acc[i][j]);
                }
            }
        }
        if (more) stage(buffer ^ 1);
        __syncthreads();
    }

    T *const out = &tile.staged[0][0][0][0];
#pragma unroll 1
    for (u32 subtile = 0; subtile < SIDE / SUBTILE; ++subtile) {
        if (x / SUBTILE == subtile % 2) {
#pragma unroll
            for (u32 i = 0; i < SQUARE; ++i) {
#pragma unroll
                for (u32 j = 0; j < 4; ++j) {
                    const T near = acc[i][j], far = acc[i][SQUARE - 4 + j];
                    out[(y + i % 4 + 64 * (i / 4)) * SUBTILE_PITCH + x % SUBTILE + j] = subtile < 2 ? near : far;
                }
            }
        }
        __syncthreads();
        write_subtile<Tile::SIDE, CUT>(p, tables, out, corner.row, corner.column, subtile);
        __syncthreads();
    }
}

// The large tile is for many rows and columns; positions fit 32 bits there.
extern "C" __global__ void __launch_bounds__(THREADS, 2) contract_f32_large(const Contract p) { tiled<f32, i32, 8, 8, false>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) contract_f32(const Contract p) { tiled<f32, i64, 4, 16, true>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) contract_f64(const Contract p) { tiled<f64, i64, 4, 8, true>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) contract_i32(const Contract p) { tiled<i32, i64, 4, 16, true>(p); }

// A thread for an element ------------------------------------------------------------------------------------------

template <typename T>
__device__ __forceinline__ void direct(const Contract &p) {
    __shared__ i64 term[2][THREADS], position[BOUNDS][THREADS];
    const u32 me = threadIdx.x;
    const PartOfSum part = part_of_sum(p);
    const u64 index = part.block * THREADS + me;
    const bool is_one = index < p.columns;
    ContractOffsets here = nowhere();
    walk(p, OF_COLUMNS, is_one ? index : 0, here);
#pragma unroll
    for (u32 k = 0; k < BOUNDS; ++k) here.position[k] += p.bounds[k].start;
    const char *const a = p.at[OF_A] + here.of[OF_A], *const b = p.at[OF_B] + here.of[OF_B];
    T total = T(0);
#pragma unroll 1
    for (u64 first = part.begin; first < part.end; first += THREADS) {
        if (first > part.begin) __syncthreads();
        if (first + me < part.end) {
            ContractOffsets there = nowhere();
            walk(p, OF_DEPTH, first + me, there);
            term[0][me] = there.of[OF_A];
            term[1][me] = there.of[OF_B];
#pragma unroll
            for (u32 k = 0; k < BOUNDS; ++k) {
                if (k < p.bound_count) position[k][me] = there.position[k];
            }
        }
        __syncthreads();
        const u32 count = is_one ? u32(part.end - first < THREADS ? part.end - first : u64(THREADS)) : 0;
#pragma unroll 1
        for (u32 i = 0; i < count; ++i) {
            bool is_inside = true;
#pragma unroll
            for (u32 k = 0; k < BOUNDS; ++k) {
                if (k < p.bound_count) {
                    is_inside = is_inside && u64(here.position[k] + position[k][i]) < u64(p.bounds[k].extent);
                }
            }
            if (!is_inside) continue;
            total = fused(Factor<T>::load(p.scalar[OF_A], a + term[0][i]), Factor<T>::load(p.scalar[OF_B], b + term[1][i]),
                          total);
        }
    }
    if (!is_one) return;
    if (p.partials) return put<T>(p.partials + (part.number * p.columns + index) * sizeof(T), total);
    epilogue(p, total, here.of[OF_DST], here.of[OF_Z], here.of[OF_BIAS]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) contract_direct_f32(const Contract p) { direct<f32>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) contract_direct_f64(const Contract p) { direct<f64>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) contract_direct_i32(const Contract p) { direct<i32>(p); }
