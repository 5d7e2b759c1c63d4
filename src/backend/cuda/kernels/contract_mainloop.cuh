// Contractions on Tensor Cores for operands whose neighbours in memory are aligned vectors of 16 bytes.
//
// One mainloop by named parameters, as CUTLASS names them. A block copies K_BYTES bytes of K of every row and column of its tile at
// a time, asynchronously, to one of STAGES stages of shared memory, while products of earlier stages are computed; fragments come
// from there by `ldmatrix`, those of the next products while the present ones are computed. 16-byte vectors lie in shared memory
// in an order (`swizzle`) that keeps rows of a matrix in different banks, without padding. Of a step all warps wait once. The
// sums of an element are added in the order of the terms, 16 at a time, as `contract_mma.cuh` adds them. What copies, and from
// where, is in `contract_multistage.cuh` and in `contract_gradient.cuh`.
#pragma once

#include "async.cuh"
#include "contract.cuh"
#include "contract_split.cuh"
#include "mma.cuh"

// MMA: the product of fragments; TILE_M and TILE_N: rows and columns of a block; WARPS_M and WARPS_N: its warps along either;
// B_ALONG_N: whether neighbours of the second factor in memory are columns, and not terms of one sum. ALONG_M: whether those of the
// first one are rows; its rows are then the columns of the contraction, and so its first factor is `b`, which has no window.
template <typename MMA, u32 TILE_M_, u32 TILE_N_, u32 WARPS_M_, u32 WARPS_N_, u32 STAGES_, bool ALONG_M_, bool B_ALONG_N_,
          u32 K_BYTES_ = 64>
struct Mainloop {
    typedef MMA Mma;
    typedef typename MMA::Sum Sum;
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
        K_BYTES = K_BYTES_,
        SIZE = 4 / MMA::PER,                 // bytes of a number
        TERMS = K_BYTES / SIZE,
        VECTORS = K_BYTES / 16,              // of a row
        TOGETHER = 16 / SIZE,                // numbers of a vector
        A_EACH = TILE_M * VECTORS / BLOCK,   // that a thread copies in a step
        B_EACH = TILE_N * VECTORS / BLOCK,
        A_BYTES = TILE_M * K_BYTES,          // of a stage
        STAGE = A_BYTES + TILE_N * K_BYTES,
        A_PITCH = ALONG_M_ ? TILE_M * SIZE : K_BYTES,
        B_PITCH = B_ALONG_N_ ? TILE_N * SIZE : K_BYTES,
        A_VECTORS = A_PITCH / 16,            // of a row in shared memory: of a row, or of a term
        B_VECTORS = B_PITCH / 16,            // of a column, or of a term
        STAGED_PITCH = WARP_N + 8,           // of a row of accumulators that is staged for the epilogue
        STAGED_BYTES = 16 * STAGED_PITCH * 4,  // of a warp
    };
    static constexpr bool ALONG_M = ALONG_M_, B_ALONG_N = B_ALONG_N_;
    static constexpr PartOf ROWS = ALONG_M_ ? OF_COLUMNS : OF_ROWS, COLUMNS = ALONG_M_ ? OF_ROWS : OF_COLUMNS;
    // Whether numbers are multiplied in parts, by products that take twice as many terms as a fragment has.
    static constexpr bool IS_SPLIT = MMA::PER * 8 < MMA::K;
    static_assert(!IS_SPLIT || K_BYTES_ == 64, "the terms of a step are those of two fragments");
    static_assert(WARP_N == 32, "a warp writes 32 columns of a row");
    static_assert(B_ALONG_N_ || !ALONG_M_, "terms of one factor alone lie together in the first one");
    static_assert(STAGES * STAGE <= 48 << 10, "more shared memory than a block has");
    static_assert(WARPS_M_ * WARPS_N_ * STAGED_BYTES + TILE_M * 24 <= STAGES * STAGE, "a subtile of the epilogue has no room");
};

// Where a vector of a row lies, which has 64 bytes or a multiple of 128: the same vectors of 8 rows meet different banks. Of terms
// of 4 bytes two vectors of 4 rows do.
template <u32 VECTORS, u32 SIZE = 2>
__device__ __forceinline__ u32 swizzle(u32 row, u32 vector) {
    return row * (VECTORS * 16) + (vector ^ (SIZE == 4 ? row % 4 * 2 : VECTORS == 4 ? row / 2 % 4 : row % 8)) * 16;
}

// The fragments of a warp for 16 terms, 8 of 4 bytes, or 32 of one.
template <typename Config>
struct Fragments {
    u32 a[Config::MMA_M][4], b[Config::MMA_N][2];

    template <u32 OFFSET, u32 I = 0>
    __device__ __forceinline__ void load_a(SharedPlace from) {
        if constexpr (I < Config::MMA_M) {
            if constexpr (Config::ALONG_M && Config::SIZE == 4) {
                enum : u32 { HERE = OFFSET + I / 2 * 128, BELOW = HERE + 4 * Config::A_PITCH };
                const SharedPlace left = other_place(from, I % 2 * 64), right = other_place(from, I % 2 * 64 + 32);
                a[I][0] = load_word<HERE>(left);
                a[I][1] = load_word<HERE>(right);
                a[I][2] = load_word<BELOW>(left);
                a[I][3] = load_word<BELOW>(right);
            } else if constexpr (Config::ALONG_M) {
                load_matrices<OFFSET, true>(other_place(from, 32 * I), a[I]);
            } else {
                load_matrices<I * 16 * Config::K_BYTES, false>(from, a[I]);
            }
            load_a<OFFSET, I + 1>(from);
        }
    }
    // Of numbers of 4 bytes, which no instruction transposes.
    template <u32 OFFSET, u32 J = 0>
    __device__ __forceinline__ void load_words_of_b(SharedPlace from) {
        if constexpr (J < Config::MMA_N) {
            b[J][0] = load_word<OFFSET>(other_place(from, 32 * J));
            b[J][1] = load_word<OFFSET + 4 * Config::B_PITCH>(other_place(from, 32 * J));
            load_words_of_b<OFFSET, J + 1>(from);
        }
    }
    // Of 16 columns.
    template <u32 PAIR, u32 OFFSET>
    __device__ __forceinline__ void load_pair(SharedPlace from) {
        u32 words[4];
        load_matrices<OFFSET, Config::B_ALONG_N>(from, words);
#pragma unroll
        for (u32 k = 0; k < 4; ++k) b[2 * PAIR + k / 2][k % 2] = words[k];
    }
    // Of the terms from HALF times as many on; `from` and `other` are the places of both, of one stage.
    template <u32 HALF>
    __device__ __forceinline__ void load(SharedPlace from_a, SharedPlace from_b) {
        if constexpr (Config::ALONG_M) {
            load_a<HALF * 32 / Config::SIZE * Config::A_PITCH>(from_a);
        } else {
            load_a<0>(HALF ? other_place(from_a, 32) : from_a);
        }
        const SharedPlace other = other_place(from_b, 32);
        if constexpr (Config::B_ALONG_N && Config::SIZE == 4) {
            load_words_of_b<HALF * 8 * Config::B_PITCH>(from_b);
        } else if constexpr (Config::B_ALONG_N) {
            load_pair<0, HALF * 16 * Config::B_PITCH>(from_b);
            load_pair<1, HALF * 16 * Config::B_PITCH>(other);
        } else {
            load_pair<0, 0>(HALF ? other : from_b);
            load_pair<1, 16 * Config::K_BYTES>(HALF ? other : from_b);
        }
    }
};

template <typename Config>
__device__ __forceinline__ void multiply(typename Config::Sum (&acc)[Config::MMA_M][Config::MMA_N][4], const Fragments<Config> &by) {
    typedef typename Config::Mma Mma;
    u32 b[Config::MMA_N][2];
#pragma unroll
    for (u32 j = 0; j < Config::MMA_N; ++j) {
#pragma unroll
        for (u32 r = 0; r < 2; ++r) b[j][r] = ready(Mma(), by.b[j][r]);
    }
#pragma unroll
    for (u32 i = 0; i < Config::MMA_M; ++i) {
        u32 a[4];
#pragma unroll
        for (u32 r = 0; r < 4; ++r) a[r] = ready(Mma(), by.a[i][r]);
#pragma unroll
        for (u32 j = 0; j < Config::MMA_N; ++j) mma(Mma(), acc[i][j], a, b[j]);
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

// The same where sums are integers, which also end as, and have bytes added to them.
__device__ __forceinline__ void load_eight(u32 scalar, const char *from, f32 (&x)[8], i32) {
    if (scalar != I8) return load_eight(scalar, from, x);
    const u64 bits = at<u64>(from);
#pragma unroll
    for (u32 k = 0; k < 8; ++k) x[k] = f32(i8(bits >> 8 * k));
}
__device__ __forceinline__ void store_eight(u32 scalar, char *to, const f32 (&x)[8], i32) {
    if (scalar != I8) return store_eight(scalar, to, x);
    u32 word[2] = {0, 0};
#pragma unroll
    for (u32 k = 0; k < 8; ++k) word[k / 4] |= u32(to_i8(x[k])) << k % 4 * 8;
    put<u64>(to, u64(word[1]) << 32 | word[0]);
}
__device__ __forceinline__ void load_eight(u32 scalar, const char *from, f32 (&x)[8], f32) { load_eight(scalar, from, x); }
__device__ __forceinline__ void store_eight(u32 scalar, char *to, const f32 (&x)[8], f32) { store_eight(scalar, to, x); }

// As `epilogue_in` of contract.cuh, of eight neighbours whose sums were of this type.
template <typename Sum>
__device__ __forceinline__ void finish_eight(const Contract &p, f32 (&x)[8], const i64 (&of)[3]) {
    char *const to = p.at[OF_DST] + of[0];
    f32 other[8];
#pragma unroll
    for (u32 k = 0; k < 8; ++k) x[k] = product(f32(p.alpha), x[k]);
    if (p.flags & BLENDED_DST) {
        load_eight(p.scalar[OF_DST], to, other, Sum());
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x[k] = sum(x[k], product(f32(p.beta), other[k]));
    }
    if (p.flags & ADDS_Z) {
        load_eight(p.scalar[OF_Z], p.at[OF_Z] + of[1], other, Sum());
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x[k] = sum(x[k], product(f32(p.alpha2), other[k]));
    }
    if (p.flags & ADDS_BIAS) {
        load_eight(p.scalar[OF_BIAS], p.at[OF_BIAS] + of[2], other, Sum());
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x[k] = sum(x[k], other[k]);
    }
    if (p.flags & ACTIVATES) {
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x[k] = short_activation<f32>(p.activation, {x[k]}, {f32(p.parameter)}).result.value;
    }
    store_eight(p.scalar[OF_DST], to, x, Sum());
}

// Where the sums of a part go: by tiles of 64 rows and columns of the contraction, of each the columns one after the other, as
// `contract_join.cu` finds them.
struct PartOfTiles {
    enum : u32 { SIDE = 64 };
    u64 first, across;  // tiles before those of this product, and tiles of a row of them

    static __device__ __forceinline__ u64 tiles(u64 extent) { return (extent + (SIDE - 1)) / SIDE; }
    // Of the part `number`, which many batches have.
    __device__ __forceinline__ PartOfTiles(const Contract &p, u64 number, u64 batch) {
        const u64 all = tiles(p.rows) * tiles(p.columns);
        const u64 batches = p.blocks.divisor / (p.row_tiles.divisor * p.column_tiles.divisor);
        across = tiles(p.columns);
        first = (number * batches + batch) * all;
    }
    __device__ __forceinline__ u64 place(u64 row, u64 column) const {
        const u64 tile = first + row / SIDE * across + column / SIDE;
        return (tile * SIDE + column % SIDE) * SIDE + row % SIDE;
    }
};

// 16 rows of a warp's sums to shared memory of its own.
template <typename Config>
__device__ __forceinline__ void stage_rows(const typename Config::Sum (&acc)[Config::MMA_N][4], typename Config::Sum *own) {
#pragma unroll
    for (u32 j = 0; j < Config::MMA_N; ++j) {
#pragma unroll
        for (u32 k = 0; k < 4; k += 2) {
            typename Config::Sum sums[2] = {acc[j][k], acc[j][k + 1]};
            if constexpr (Config::IS_SPLIT) {
                sums[0] = product(sums[0], UNSCALED);
                sums[1] = product(sums[1], UNSCALED);
            }
            const u64 both = bits_of<u32>(sums[0]) | u64(bits_of<u32>(sums[1])) << 32;
            *reinterpret_cast<u64 *>(own + mma_c_row(k) * Config::STAGED_PITCH + 8 * j + mma_c_column(k)) = both;
        }
    }
}

// Sums of a warp to the destination, 16 rows at a time: by way of shared memory of its own, where a lane finds eight
// neighbours of a row.
template <typename Config>
__device__ __forceinline__ void write(const Contract &p, typename Config::Sum (&acc)[Config::MMA_M][Config::MMA_N][4], char *shared,
                                      const PartOfSum &part, u64 batch, u64 first_row, u64 first_column) {
    typedef typename Config::Sum Sum;
    enum : u32 { PITCH = Config::STAGED_PITCH };
    const u64 rows = Config::ALONG_M ? p.columns : p.rows, columns = Config::ALONG_M ? p.rows : p.columns;
    const u32 me = threadIdx.x, lane = me % 32, warp = me / 32, left = warp % Config::WARPS_N * Config::WARP_N;
    const u32 above = warp / Config::WARPS_N * Config::WARP_M;
    i64(*const places)[3] = reinterpret_cast<i64(*)[3]>(shared + Config::BLOCK / 32 * Config::STAGED_BYTES);
    if (me < Config::TILE_M) {
        ContractOffsets here = nowhere();
        walk(p, OF_BATCH, batch, here);
        walk(p, Config::ROWS, first_row + me < rows ? first_row + me : rows - 1, here);
        places[me][0] = here.of[OF_DST];
        places[me][1] = here.of[OF_Z];
        places[me][2] = here.of[OF_BIAS];
    }
    const u64 column = first_column + left + lane % 4 * 8;
    const bool is_column = column < columns;
    ContractOffsets across = nowhere();
    walk(p, Config::COLUMNS, is_column ? column : 0, across);
    const i64 of_column[3] = {across.of[OF_DST], across.of[OF_Z], across.of[OF_BIAS]};
    __syncthreads();
    Sum *const own = reinterpret_cast<Sum *>(shared + warp * Config::STAGED_BYTES);
    // One after the other by the same code: what finishes them is long.
#pragma unroll 1
    for (u32 now = 0; now < Config::MMA_M; ++now) {
#pragma unroll
        for (u32 i = 0; i < Config::MMA_M; ++i) {
            if (i == now) stage_rows<Config>(acc[i], own);
        }
        __syncwarp();
#pragma unroll 1
        for (u32 half = 0; half < 2; ++half) {
            const u32 within = 8 * half + lane / 4, row = above + 16 * now + within;
            if (is_column && first_row + row < rows) {
                Sum *const eight = own + within * PITCH + lane % 4 * 8;
                if constexpr (Config::IS_SPLIT) {
                    const u64 r = Config::ALONG_M ? column : first_row + row, c = Config::ALONG_M ? first_row + row : column;
                    make_anew<Config::ALONG_M>(p, part, batch, r, c, eight);
                }
                const Four<Sum> *const from = reinterpret_cast<const Four<Sum> *>(eight);
                const Four<Sum> low = from[0], high = from[1];
                if (Config::ALONG_M && p.partials) {
                    const PartOfTiles tiles(p, part.number, batch);
                    Four<Sum> *const to = reinterpret_cast<Four<Sum> *>(p.partials) + tiles.place(column, first_row + row) / 4;
                    to[0] = low;
                    to[1] = high;
                    continue;
                }
                f32 x[8];
#pragma unroll
                for (u32 k = 0; k < 8; ++k) x[k] = f32(k < 4 ? low.value[k] : high.value[k - 4]);
                i64 of[3];
#pragma unroll
                for (u32 k = 0; k < 3; ++k) of[k] = places[row][k] + of_column[k];
                finish_eight<Sum>(p, x, of);
            }
        }
        __syncwarp();
    }
}

template <typename Config, typename Copier>
__device__ __forceinline__ void multistage(const Contract &p) {
    alignas(128) __shared__ char stages[Config::STAGES * Config::STAGE];
    const PartOfSum part = Config::ALONG_M ? part_of_sum(p) : PartOfSum{0, blockIdx.x, 0, p.depth};
    const u64 outer = quotient(part.block, p.column_tiles), batch = quotient(outer, p.row_tiles);
    const u64 down = outer - batch * p.row_tiles.divisor, right = part.block - outer * p.column_tiles.divisor;
    const u64 first_row = (Config::ALONG_M ? right : down) * Config::TILE_M;
    const u64 first_column = (Config::ALONG_M ? down : right) * Config::TILE_N;
    Copier copier;
    copier.begin(p, part, batch, first_row, first_column, stages);
#pragma unroll 1
    for (u32 s = 0; s + 1 < Config::STAGES; ++s) {
        copier.copy(p);
        copier.go_to((s + 1) * Config::STAGE);
        end_of_copies();
    }

    // The rows that this lane names to `ldmatrix`, or its words, in the first stage.
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 above = warp / Config::WARPS_N * Config::WARP_M, left = warp % Config::WARPS_N * Config::WARP_N;
    constexpr bool BY_WORDS = Config::SIZE == 4;
    const u32 term = mma_member(), vector = mma_group() / 4, word = mma_group() % 4 * 4;
    const u32 first_a = Config::ALONG_M && BY_WORDS ? swizzle<Config::A_VECTORS, 4>(term, above / 4 + vector) + word
                        : Config::ALONG_M           ? swizzle<Config::A_VECTORS>(lane / 16 * 8 + lane % 8, above / 8 + lane / 8 % 2)
                                                  : swizzle<Config::A_VECTORS>(above + lane % 16, lane / 16);
    const u32 first_b = Config::B_ALONG_N && BY_WORDS ? swizzle<Config::B_VECTORS, 4>(term, left / 4 + vector) + word
                        : Config::B_ALONG_N           ? swizzle<Config::B_VECTORS>(lane % 16, left / 8 + lane / 16)
                                          : swizzle<Config::B_VECTORS>(left + lane / 16 * 8 + lane % 8, lane / 8 % 2);
    const SharedPlace of_a = kept(shared_place(stages + first_a));
    const SharedPlace of_b = kept(shared_place(stages + Config::A_BYTES + first_b));

    typename Config::Sum acc[Config::MMA_M][Config::MMA_N][4];
#pragma unroll
    for (u32 i = 0; i < Config::MMA_M; ++i) {
#pragma unroll
        for (u32 j = 0; j < Config::MMA_N; ++j) {
#pragma unroll
            for (u32 k = 0; k < 4; ++k) acc[i][j][k] = 0;
        }
    }
    wait_for_copies<Config::STAGES - 2>();
    __syncthreads();
    Fragments<Config> first, second;
    SharedPlace a_at = of_a, b_at = of_b;
    first.template load<0>(a_at, b_at);
    u32 read = 0;
    // To the next stage. The one that it leaves is filled next: all warps have its fragments at the next barrier.
    const auto go_on = [&]() {
        copier.go_to(read);
        read = read + Config::STAGE < Config::STAGES * Config::STAGE ? read + Config::STAGE : 0;
        a_at = of_a + read;
        b_at = of_b + read;
    };
    const u32 stage_count = u32((part.end - part.begin + (Config::TERMS - 1)) / Config::TERMS);
    if constexpr (Config::K_BYTES == 64) {
        u32 steps = stage_count;
#pragma unroll 1
        do {
            second.template load<1>(a_at, b_at);
            // To the stage of the step before, of which all warps had their fragments at the last barrier.
            copier.copy(p);
            end_of_copies();
            if constexpr (Config::IS_SPLIT) {
                multiply_split(acc, first.a, first.b, second.a, second.b);
            } else {
                multiply(acc, first);
            }
            wait_for_copies<Config::STAGES - 2>();
            __syncthreads();
            go_on();
            // Behind the last step there are zeros.
            first.template load<0>(a_at, b_at);
            if constexpr (!Config::IS_SPLIT) multiply(acc, second);
        } while (--steps > 0);
    } else {
        const auto advance = [&](const Fragments<Config> &now, Fragments<Config> &next) {
            copier.copy(p);
            end_of_copies();
            wait_for_copies<Config::STAGES - 2>();
            __syncthreads();
            go_on();
            next.template load<0>(a_at, b_at);
            multiply(acc, now);
        };
        // Two stages a step; behind the last one there are zeros.
        u32 steps = (stage_count + 1) / 2;
#pragma unroll 1
        do {
            advance(first, second);
            advance(second, first);
        } while (--steps > 0);
    }
    wait_for_copies<0>();
    __syncthreads();
    write<Config>(p, acc, stages, part, batch, first_row, first_column);
}
