// Contractions on Tensor Cores for operands whose neighbours in memory are aligned vectors of 16 bytes: channels that lie
// together, and matrices.
//
// One mainloop by named parameters, as CUTLASS names them. A block copies K_BYTES bytes of K of every row and column of its tile at
// a time, asynchronously, to one of STAGES stages of shared memory, while products of earlier stages are computed; fragments come
// from there by `ldmatrix`, those of the next products while the present ones are computed. 16-byte vectors lie in shared memory
// in an order (`swizzle`) that keeps rows of a matrix in different banks, without padding. Of a step all warps wait once. The
// sums of an element are added in the order of the terms, 16 at a time, as `contract_mma.cuh` adds them.
#pragma once

#include "async.cuh"
#include "contract.cuh"
#include "mma.cuh"

// MMA: the product of fragments; TILE_M and TILE_N: rows and columns of a block; WARPS_M and WARPS_N: its warps along either;
// B_ALONG_N: whether neighbours of `b` in memory are columns, and not terms of one sum. `a` always has its terms side by side.
template <typename MMA, u32 TILE_M_, u32 TILE_N_, u32 WARPS_M_, u32 WARPS_N_, u32 STAGES_, bool B_ALONG_N_>
struct Mainloop {
    typedef MMA Mma;
    enum : u32 {
        TILE_M = TILE_M_,
        TILE_N = TILE_N_,
        WARPS_N = WARPS_N_,
        STAGES = STAGES_,
        BLOCK = 32 * WARPS_M_ * WARPS_N_,  // threads
        WARP_M = TILE_M / WARPS_M_,
        WARP_N = TILE_N / WARPS_N_,
        MMA_M = WARP_M / 16,  // products of a warp along either
        MMA_N = WARP_N / 8,
        K_BYTES = 64,
        SIZE = 4 / MMA::PER,                 // bytes of a number
        TERMS = K_BYTES / SIZE,
        VECTORS = K_BYTES / 16,              // of a row
        TOGETHER = 16 / SIZE,                // numbers of a vector
        A_EACH = TILE_M * VECTORS / BLOCK,   // that a thread copies in a step
        B_EACH = TILE_N * VECTORS / BLOCK,
        A_BYTES = TILE_M * K_BYTES,          // of a stage
        STAGE = A_BYTES + TILE_N * K_BYTES,
        B_PITCH = B_ALONG_N_ ? TILE_N * 2 : K_BYTES,
        B_VECTORS = B_PITCH / 16,            // of a row of `b` in shared memory: of a column, or of a term
        SUMS_PITCH = WARP_N + 8,             // of sums on their way out
        SUMS_BYTES = 16 * SUMS_PITCH * 4,    // of a warp
    };
    static constexpr bool B_ALONG_N = B_ALONG_N_;
    static_assert(WARP_N == 32, "a warp writes 32 columns of a row");
    static_assert(MMA::PER == 2 || !B_ALONG_N_, "only numbers of 16 bits change places with others");
    static_assert(STAGES * STAGE <= 48 << 10, "more shared memory than a block has");
    static_assert(WARPS_M_ * WARPS_N_ * SUMS_BYTES + TILE_M * 24 <= STAGES * STAGE, "sums on their way out have no room");
};

// Loops of the sum but for the innermost one: taps of a window.
enum : u32 { TAPS = 3 };

// Where a vector of a row lies, which has 64 bytes or a multiple of 128: the same vectors of 8 rows meet different banks.
template <u32 VECTORS>
__device__ __forceinline__ u32 swizzle(u32 row, u32 vector) {
    return row * (VECTORS * 16) + (vector ^ (VECTORS == 4 ? row / 2 % 4 : row % 8)) * 16;
}

// What a thread copies of both operands: vectors that are one row, or column, or term apart. The loops of the sum stand first in
// `turns`: the innermost one along channels, then those of taps, of which the first is the innermost.
template <typename Loop>
struct Copier {
    const char *a[Loop::A_EACH], *b[Loop::B_EACH];
    u32 a_bytes[Loop::A_EACH], b_bytes;  // 16, or 0 of what is not there
    u32 channel;                         // of the innermost loop
    u32 tap[TAPS];
    i32 position[Loop::A_EACH][TAPS];  // of the row of `a`, along the bound that a tap moves in
    u32 outer_bytes[Loop::A_EACH];     // as `a_bytes`, by all taps but the innermost ones
    u32 taps, limit, channels;         // of the innermost taps: how many, and their bound
    i64 a_next, b_next, b_step;        // to the next tap, and to the next step
    SharedPlace a_to, b_to;            // in the first stage, and in the next one that is filled
    SharedPlace a_at, b_at;

    __device__ __forceinline__ void begin(const Contract &p, u64 batch, u64 first_row, u64 first_column, char *stages) {
        enum : u32 { A_ROWS = Loop::BLOCK / Loop::VECTORS, B_ROWS = Loop::BLOCK / Loop::B_VECTORS };
        const u32 me = threadIdx.x;
        const ContractTurn &inner = p.turns[0];
        channel = me % Loop::VECTORS * Loop::TOGETHER;
        channels = kept(u32(inner.extent.divisor));
        taps = kept(p.rank[OF_DEPTH] > 1 ? u32(p.turns[1].extent.divisor) : 1);
        limit = kept(limit_of(p, 0));
        b_step = inner.step[OF_B] * Loop::TERMS;
        a_next = -(i64(inner.extent.divisor) * Loop::SIZE);
        b_next = -(i64(inner.extent.divisor) * inner.step[OF_B]);
#pragma unroll
        for (u32 t = 0; t < TAPS; ++t) tap[t] = 0;
        Walk outside = nowhere();
        walk(p, OF_BATCH, batch, outside);
#pragma unroll
        for (u32 i = 0; i < Loop::A_EACH; ++i) {
            // Beyond the last row the last one is read again.
            const u64 wanted = first_row + me / Loop::VECTORS + i * A_ROWS;
            Walk here = outside;
            walk(p, OF_ROWS, wanted < p.rows ? wanted : p.rows - 1, here);
            a[i] = p.at[OF_A] + here.of[OF_A] + channel * Loop::SIZE;
#pragma unroll
            for (u32 t = 0; t < TAPS; ++t) {
                const u32 bound = bound_of(p, t);
                position[i][t] = 0;
#pragma unroll
                for (u32 k = 0; k < TAPS; ++k) {
                    if (bound == k) position[i][t] = i32(p.bounds[k].start + here.position[k]);
                }
            }
        }
#pragma unroll
        for (u32 i = 0; i < Loop::B_EACH; ++i) {
            const u32 row = me / Loop::B_VECTORS + i * B_ROWS, vector = me % Loop::B_VECTORS;
            const u64 wanted = first_column + (Loop::B_ALONG_N ? vector * 8 : row), last = p.columns - (Loop::B_ALONG_N ? 8 : 1);
            Walk here = nowhere();
            here.of[OF_B] = outside.of[OF_B];
            walk(p, OF_COLUMNS, wanted < last ? wanted : last, here);
            b[i] = p.at[OF_B] + here.of[OF_B] + (Loop::B_ALONG_N ? row : channel) * inner.step[OF_B];
        }
        a_to = kept(shared_place(stages + swizzle<Loop::VECTORS>(me / Loop::VECTORS, me % Loop::VECTORS)));
        b_to = a_to;
        if constexpr (Loop::B_ALONG_N) {
            b_to = kept(shared_place(stages + swizzle<Loop::B_VECTORS>(me / Loop::B_VECTORS, me % Loop::B_VECTORS)));
        }
        go_to(0);
        find(p, false);
        if (p.rank[OF_DEPTH] > 1) {
            a_next += p.turns[1].step[OF_A];
            b_next += p.turns[1].step[OF_B];
        }
        skip_taps(p);
    }

    static __device__ __forceinline__ u32 bound_of(const Contract &p, u32 t) {
        return t + 1 < p.rank[OF_DEPTH] ? p.turns[1 + t].bound : u32(BOUNDS);
    }
    // How many positions there are along it: more than any if nothing bounds them.
    static __device__ __forceinline__ u32 limit_of(const Contract &p, u32 t) {
        const u32 bound = bound_of(p, t);
        return bound == BOUNDS ? ~0u : u32(p.bounds[bound].extent);
    }

    // Whether there is something for the present taps.
    __device__ __forceinline__ void find(const Contract &p, bool is_over) {
        b_bytes = is_over ? 0 : 16;
#pragma unroll
        for (u32 i = 0; i < Loop::A_EACH; ++i) outer_bytes[i] = b_bytes;
#pragma unroll
        for (u32 t = 1; t < TAPS; ++t) {
            if (t + 1 >= p.rank[OF_DEPTH]) break;
            const u32 most = limit_of(p, t);
            const i32 moved = i32(tap[t]) * i32(p.turns[1 + t].along);
#pragma unroll
            for (u32 i = 0; i < Loop::A_EACH; ++i) {
                if (u32(position[i][t] + moved) >= most) outer_bytes[i] = 0;
            }
        }
        find_first(p);
    }
    __device__ __forceinline__ void find_first(const Contract &p) {
        const i32 moved = i32(tap[0]) * i32(p.turns[1].along);
#pragma unroll
        for (u32 i = 0; i < Loop::A_EACH; ++i) a_bytes[i] = u32(position[i][0] + moved) < limit ? outer_bytes[i] : 0;
    }

    // To the tap that the channel is in; of few channels that may be several further on.
    __device__ __forceinline__ void skip_taps(const Contract &p) {
        if (channel < channels) return;
#pragma unroll 1
        do {
            channel -= channels;
            i64 a_move = a_next, b_move = b_next;
            if (++tap[0] == taps) carry(p, a_move, b_move);
#pragma unroll
            for (u32 i = 0; i < Loop::A_EACH; ++i) a[i] += a_move;
#pragma unroll
            for (u32 i = 0; i < Loop::B_EACH; ++i) b[i] += b_move;
        } while (channel >= channels);
        find_first(p);
    }
    // From the last of the innermost taps to the first one of the next.
    __device__ __forceinline__ void carry(const Contract &p, i64 &a_move, i64 &b_move) {
        bool carries = true;
#pragma unroll
        for (u32 t = 0; t < TAPS; ++t) {
            if (!carries || t + 1 >= p.rank[OF_DEPTH]) continue;
            const ContractTurn &turn = p.turns[1 + t];
            if (t > 0) {
                a_move += turn.step[OF_A];
                b_move += turn.step[OF_B];
                carries = ++tap[t] == u32(turn.extent.divisor);
            }
            if (carries) {
                a_move -= turn.step[OF_A] * i64(tap[t]);
                b_move -= turn.step[OF_B] * i64(tap[t]);
                tap[t] = 0;
            }
        }
        // Nothing comes behind the last term.
        find(p, carries || b_bytes == 0);
    }

    template <u32 I = 0>
    __device__ __forceinline__ void copy_a(SharedPlace to) const {
        if constexpr (I < Loop::A_EACH) {
            copy_16_to<I * 16 * Loop::BLOCK>(to, a[I], a_bytes[I]);
            copy_a<I + 1>(to);
        }
    }
    template <u32 I = 0>
    __device__ __forceinline__ void copy_b(SharedPlace to) const {
        if constexpr (I < Loop::B_EACH) {
            copy_16_to<Loop::A_BYTES + I * 16 * Loop::BLOCK>(to, b[I], b_bytes);
            copy_b<I + 1>(to);
        }
    }
    // The next stage that is filled, by its distance from the first one.
    __device__ __forceinline__ void go_to(u32 stage) {
        a_at = a_to + stage;
        b_at = b_to + stage;
    }
    // Begins the copies of the next step; zeros behind the last term.
    __device__ __forceinline__ void copy(const Contract &p) {
        copy_a(a_at);
        copy_b(b_at);
        channel += Loop::TERMS;
#pragma unroll
        for (u32 i = 0; i < Loop::A_EACH; ++i) a[i] += Loop::K_BYTES;
#pragma unroll
        for (u32 i = 0; i < Loop::B_EACH; ++i) b[i] += b_step;
        skip_taps(p);
    }
};

// The fragments of a warp for 16 terms.
template <typename Loop>
struct Fragments {
    u32 a[Loop::MMA_M][4], b[Loop::MMA_N][2];

    template <u32 I = 0>
    __device__ __forceinline__ void load_a(SharedPlace from) {
        if constexpr (I < Loop::MMA_M) {
            load_matrices<I * 16 * Loop::K_BYTES, false>(from, a[I]);
            load_a<I + 1>(from);
        }
    }
    // Of 16 columns.
    template <u32 PAIR, u32 OFFSET>
    __device__ __forceinline__ void load_pair(SharedPlace from) {
        u32 words[4];
        load_matrices<OFFSET, Loop::B_ALONG_N>(from, words);
#pragma unroll
        for (u32 k = 0; k < 4; ++k) b[2 * PAIR + k / 2][k % 2] = words[k];
    }
    // Of the terms from 16 * HALF on; `from` and `other` are the places of both, of one stage.
    template <u32 HALF>
    __device__ __forceinline__ void load(SharedPlace from_a, SharedPlace from_b) {
        load_a(HALF ? other_place(from_a, 32) : from_a);
        const SharedPlace other = other_place(from_b, 32);
        if constexpr (Loop::B_ALONG_N) {
            load_pair<0, HALF * 16 * Loop::B_PITCH>(from_b);
            load_pair<1, HALF * 16 * Loop::B_PITCH>(other);
        } else {
            load_pair<0, 0>(HALF ? other : from_b);
            load_pair<1, 16 * Loop::K_BYTES>(HALF ? other : from_b);
        }
    }
};

template <typename Loop>
__device__ __forceinline__ void multiply(f32 (&sums)[Loop::MMA_M][Loop::MMA_N][4], const Fragments<Loop> &by) {
    typedef typename Loop::Mma Mma;
    u32 b[Loop::MMA_N][2];
#pragma unroll
    for (u32 j = 0; j < Loop::MMA_N; ++j) {
#pragma unroll
        for (u32 r = 0; r < 2; ++r) b[j][r] = ready(Mma(), by.b[j][r]);
    }
#pragma unroll
    for (u32 i = 0; i < Loop::MMA_M; ++i) {
        u32 a[4];
#pragma unroll
        for (u32 r = 0; r < 4; ++r) a[r] = ready(Mma(), by.a[i][r]);
#pragma unroll
        for (u32 j = 0; j < Loop::MMA_N; ++j) mma(Mma(), sums[i][j], a, b[j]);
    }
}

// Eight neighbours of a type that fragments, sums or biases have.
__device__ __forceinline__ void load_eight(u32 scalar, const char *from, f32 (&x)[8]) {
    if (scalar == F32) {
        const VectorPair bits = at<VectorPair>(from);
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x[k] = bits_of<f32>(bits.half[k / 4].word[k % 4]);
        return;
    }
    const Vector bits = at<Vector>(from);
    u32 half[8];
#pragma unroll
    for (u32 k = 0; k < 8; ++k) half[k] = bits.word[k / 2] >> (k % 2 * 16) & 0xffff;
    if (scalar == F16) {
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x[k] = from_f16(half[k]);
    } else {
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x[k] = from_bf16(half[k]);
    }
}
__device__ __forceinline__ void store_eight(u32 scalar, char *to, const f32 (&x)[8]) {
    if (scalar == F32) {
        VectorPair bits;
#pragma unroll
        for (u32 k = 0; k < 8; ++k) bits.half[k / 4].word[k % 4] = canonical(x[k]);
        put<Vector>(to, bits.half[0]);
        return put<Vector>(to + 16, bits.half[1]);
    }
    Vector bits;
    if (scalar == F16) {
#pragma unroll
        for (u32 k = 0; k < 4; ++k) bits.word[k] = to_f16(x[2 * k]) | u32(to_f16(x[2 * k + 1])) << 16;
    } else {
#pragma unroll
        for (u32 k = 0; k < 4; ++k) bits.word[k] = to_bf16(x[2 * k]) | u32(to_bf16(x[2 * k + 1])) << 16;
    }
    put<Vector>(to, bits);
}

// As `finish_in` of contract.cuh, of eight neighbours.
__device__ __forceinline__ void finish_eight(const Contract &p, f32 (&x)[8], const i64 (&of)[3]) {
    char *const to = p.at[OF_DST] + of[0];
    f32 other[8];
#pragma unroll
    for (u32 k = 0; k < 8; ++k) x[k] = product(f32(p.alpha), x[k]);
    if (p.flags & BLENDED_DST) {
        load_eight(p.scalar[OF_DST], to, other);
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x[k] = sum(x[k], product(f32(p.beta), other[k]));
    }
    if (p.flags & ADDS_Z) {
        load_eight(p.scalar[OF_Z], p.at[OF_Z] + of[1], other);
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x[k] = sum(x[k], product(f32(p.alpha2), other[k]));
    }
    if (p.flags & ADDS_BIAS) {
        load_eight(p.scalar[OF_BIAS], p.at[OF_BIAS] + of[2], other);
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x[k] = sum(x[k], other[k]);
    }
    if (p.flags & ACTIVATES) {
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x[k] = short_activation<f32>(p.activation, {x[k]}, {f32(p.parameter)}).result.value;
    }
    store_eight(p.scalar[OF_DST], to, x);
}

// Sums of a warp to the destination, 16 rows at a time: by way of shared memory of its own, where a lane finds eight
// neighbours of a row.
template <typename Loop>
__device__ __forceinline__ void write(const Contract &p, f32 (&sums)[Loop::MMA_M][Loop::MMA_N][4], char *shared, u64 batch,
                                      u64 first_row, u64 first_column) {
    enum : u32 { PITCH = Loop::SUMS_PITCH };
    const u32 me = threadIdx.x, lane = me % 32, warp = me / 32, left = warp % Loop::WARPS_N * Loop::WARP_N;
    const u32 above = warp / Loop::WARPS_N * Loop::WARP_M;
    i64(*const places)[3] = reinterpret_cast<i64(*)[3]>(shared + Loop::BLOCK / 32 * Loop::SUMS_BYTES);
    if (me < Loop::TILE_M) {
        Walk here = nowhere();
        walk(p, OF_BATCH, batch, here);
        walk(p, OF_ROWS, first_row + me < p.rows ? first_row + me : p.rows - 1, here);
        places[me][0] = here.of[OF_DST];
        places[me][1] = here.of[OF_Z];
        places[me][2] = here.of[OF_BIAS];
    }
    const u64 column = first_column + left + lane % 4 * 8;
    const bool is_column = column < p.columns;
    Walk across = nowhere();
    walk(p, OF_COLUMNS, is_column ? column : 0, across);
    const i64 of_column[3] = {across.of[OF_DST], across.of[OF_Z], across.of[OF_BIAS]};
    __syncthreads();
    f32 *const own = reinterpret_cast<f32 *>(shared + warp * Loop::SUMS_BYTES);
#pragma unroll
    for (u32 i = 0; i < Loop::MMA_M; ++i) {
#pragma unroll
        for (u32 j = 0; j < Loop::MMA_N; ++j) {
#pragma unroll
            for (u32 k = 0; k < 4; k += 2) {
                const u64 both = bits_of<u32>(sums[i][j][k]) | u64(bits_of<u32>(sums[i][j][k + 1])) << 32;
                *reinterpret_cast<u64 *>(own + mma_c_row(k) * PITCH + 8 * j + mma_c_column(k)) = both;
            }
        }
        __syncwarp();
#pragma unroll 1
        for (u32 half = 0; half < 2; ++half) {
            const u32 within = 8 * half + lane / 4, row = above + 16 * i + within;
            if (is_column && first_row + row < p.rows) {
                const Four<f32> *const from = reinterpret_cast<const Four<f32> *>(own + within * PITCH + lane % 4 * 8);
                const Four<f32> low = from[0], high = from[1];
                f32 x[8];
#pragma unroll
                for (u32 k = 0; k < 8; ++k) x[k] = k < 4 ? low.value[k] : high.value[k - 4];
                i64 of[3];
#pragma unroll
                for (u32 k = 0; k < 3; ++k) of[k] = places[row][k] + of_column[k];
                finish_eight(p, x, of);
            }
        }
        __syncwarp();
    }
}

template <typename Loop>
__device__ __forceinline__ void multistage(const Contract &p) {
    alignas(128) __shared__ char stages[Loop::STAGES * Loop::STAGE];
    const u64 outer = quotient(u64(blockIdx.x), p.column_tiles), batch = quotient(outer, p.row_tiles);
    const u64 first_row = (outer - batch * p.row_tiles.divisor) * Loop::TILE_M;
    const u64 first_column = (blockIdx.x - outer * p.column_tiles.divisor) * Loop::TILE_N;
    Copier<Loop> copier;
    copier.begin(p, batch, first_row, first_column, stages);
#pragma unroll 1
    for (u32 s = 0; s + 1 < Loop::STAGES; ++s) {
        copier.copy(p);
        copier.go_to((s + 1) * Loop::STAGE);
        end_of_copies();
    }

    // The rows that this lane names to `ldmatrix`, in the first stage.
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 above = warp / Loop::WARPS_N * Loop::WARP_M, left = warp % Loop::WARPS_N * Loop::WARP_N;
    const SharedPlace of_a = kept(shared_place(stages + swizzle<Loop::VECTORS>(above + lane % 16, lane / 16)));
    const u32 first_b = Loop::B_ALONG_N ? swizzle<Loop::B_VECTORS>(lane % 16, left / 8 + lane / 16)
                                        : swizzle<Loop::B_VECTORS>(left + lane / 16 * 8 + lane % 8, lane / 8 % 2);
    const SharedPlace of_b = kept(shared_place(stages + Loop::A_BYTES + first_b));

    f32 sums[Loop::MMA_M][Loop::MMA_N][4];
#pragma unroll
    for (u32 i = 0; i < Loop::MMA_M; ++i) {
#pragma unroll
        for (u32 j = 0; j < Loop::MMA_N; ++j) {
#pragma unroll
            for (u32 k = 0; k < 4; ++k) sums[i][j][k] = 0;
        }
    }
    wait_for_copies<Loop::STAGES - 2>();
    __syncthreads();
    Fragments<Loop> first, second;
    SharedPlace a_at = of_a, b_at = of_b;
    first.template load<0>(a_at, b_at);
    u32 read = 0;
    u32 steps = u32((p.depth + (Loop::TERMS - 1)) / Loop::TERMS);
#pragma unroll 1
    do {
        second.template load<1>(a_at, b_at);
        // To the stage of the step before, of which all warps had their fragments at the last barrier.
        copier.copy(p);
        end_of_copies();
        multiply(sums, first);
        wait_for_copies<Loop::STAGES - 2>();
        __syncthreads();
        copier.go_to(read);
        read = read + Loop::STAGE < Loop::STAGES * Loop::STAGE ? read + Loop::STAGE : 0;
        a_at = of_a + read;
        b_at = of_b + read;
        // Behind the last step there are zeros.
        first.template load<0>(a_at, b_at);
        multiply(sums, second);
    } while (--steps > 0);
    wait_for_copies<0>();
    __syncthreads();
    write<Loop>(p, sums, stages, batch, first_row, first_column);
}

#define OF_TILE(NAME, TYPE, M, N, WARPS_M, WARPS_N, STAGES, RESIDENT, ALONG_N)                                             \
    extern "C" __global__ void __launch_bounds__(32 * WARPS_M * WARPS_N, RESIDENT) NAME(const Contract p) {               \
        multistage<Mainloop<TYPE, M, N, WARPS_M, WARPS_N, STAGES, ALONG_N>>(p);                                           \
    }
// Kernels for three tiles; those by `_columns` have neighbours of `b` along the columns.
#define MULTISTAGE_BY_TERMS(NAME, TYPE)                                   \
    OF_TILE(NAME##_128x128, TYPE, 128, 128, 2, 4, 3, 1, false)            \
    OF_TILE(NAME##_128x64, TYPE, 128, 64, 4, 2, 4, 2, false)              \
    OF_TILE(NAME##_64x64, TYPE, 64, 64, 2, 2, 5, 4, false)
#define MULTISTAGE(NAME, TYPE)                                            \
    MULTISTAGE_BY_TERMS(NAME, TYPE)                                       \
    OF_TILE(NAME##_128x128_columns, TYPE, 128, 128, 2, 4, 3, 1, true)     \
    OF_TILE(NAME##_128x64_columns, TYPE, 128, 64, 4, 2, 4, 2, true)       \
    OF_TILE(NAME##_64x64_columns, TYPE, 64, 64, 2, 2, 5, 4, true)
