// Contractions on Tensor Cores whose terms lie together in `a`, and terms or columns in `b`: channels that are neighbours, and
// matrices.
#pragma once

#include "contract_mainloop.cuh"

// Loops of the sum but for the innermost one: taps of a window.
enum : u32 { TAPS = 3 };

// What a thread copies of both operands: vectors that are one row, or column, or term apart. The loops of the sum stand first in
// `loops`: the innermost one along channels, then those of taps, of which the first is the innermost.
template <typename Config>
struct Copier {
    const char *a[Config::A_EACH], *b[Config::B_EACH];
    u32 a_bytes[Config::A_EACH], b_bytes;  // 16, or 0 of what is not there
    u32 channel;                         // of the innermost loop
    u32 tap[TAPS];
    i32 position[Config::A_EACH][TAPS];  // of the row of `a`, along the bound that a tap moves in
    u32 outer_bytes[Config::A_EACH];     // as `a_bytes`, by all taps but the innermost ones
    u32 taps, limit, channels;         // of the innermost taps: how many, and their bound
    i64 a_next, b_next, b_step;        // to the next tap, and to the next step
    SharedPlace a_to, b_to;            // in the first stage, and in the next one that is filled
    SharedPlace a_at, b_at;

    __device__ __forceinline__ void begin(const Contract &p, const PartOfSum &, u64 batch, u64 first_row, u64 first_column,
                                          char *stages) {
        enum : u32 { A_ROWS = Config::BLOCK / Config::VECTORS, B_ROWS = Config::BLOCK / Config::B_VECTORS };
        const u32 me = threadIdx.x;
        const ContractLoop &inner = p.loops[0];
        channel = me % Config::VECTORS * Config::TOGETHER;
        channels = kept(u32(inner.extent.divisor));
        taps = kept(p.rank[OF_DEPTH] > 1 ? u32(p.loops[1].extent.divisor) : 1);
        limit = kept(limit_of(p, 0));
        b_step = inner.step[OF_B] * Config::TERMS;
        a_next = -(i64(inner.extent.divisor) * Config::SIZE);
        b_next = -(i64(inner.extent.divisor) * inner.step[OF_B]);
#pragma unroll
        for (u32 t = 0; t < TAPS; ++t) tap[t] = 0;
        ContractOffsets outside = nowhere();
        walk(p, OF_BATCH, batch, outside);
#pragma unroll
        for (u32 i = 0; i < Config::A_EACH; ++i) {
            // Beyond the last row the last one is read again.
            const u64 wanted = first_row + me / Config::VECTORS + i * A_ROWS;
            ContractOffsets here = outside;
            walk(p, OF_ROWS, wanted < p.rows ? wanted : p.rows - 1, here);
            a[i] = p.at[OF_A] + here.of[OF_A] + channel * Config::SIZE;
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
        for (u32 i = 0; i < Config::B_EACH; ++i) {
            const u32 row = me / Config::B_VECTORS + i * B_ROWS, vector = me % Config::B_VECTORS;
            const u64 wanted = first_column + (Config::B_ALONG_N ? vector * Config::TOGETHER : row);
            const u64 last = p.columns - (Config::B_ALONG_N ? u32(Config::TOGETHER) : 1);
            ContractOffsets here = nowhere();
            here.of[OF_B] = outside.of[OF_B];
            walk(p, OF_COLUMNS, wanted < last ? wanted : last, here);
            b[i] = p.at[OF_B] + here.of[OF_B] + (Config::B_ALONG_N ? row : channel) * inner.step[OF_B];
        }
        a_to = kept(shared_place(stages + swizzle<Config::VECTORS>(me / Config::VECTORS, me % Config::VECTORS)));
        b_to = a_to;
        if constexpr (Config::B_ALONG_N) {
            b_to = kept(shared_place(stages + swizzle<Config::B_VECTORS, Config::SIZE>(me / Config::B_VECTORS, me % Config::B_VECTORS)));
        }
        go_to(0);
        find(p, false);
        if (p.rank[OF_DEPTH] > 1) {
            a_next += p.loops[1].step[OF_A];
            b_next += p.loops[1].step[OF_B];
        }
        skip_taps(p);
    }

    static __device__ __forceinline__ u32 bound_of(const Contract &p, u32 t) {
        return t + 1 < p.rank[OF_DEPTH] ? p.loops[1 + t].bound : u32(BOUNDS);
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
        for (u32 i = 0; i < Config::A_EACH; ++i) outer_bytes[i] = b_bytes;
#pragma unroll
        for (u32 t = 1; t < TAPS; ++t) {
            if (t + 1 >= p.rank[OF_DEPTH]) break;
            const u32 most = limit_of(p, t);
            const i32 moved = i32(tap[t]) * i32(p.loops[1 + t].along);
#pragma unroll
            for (u32 i = 0; i < Config::A_EACH; ++i) {
                if (u32(position[i][t] + moved) >= most) outer_bytes[i] = 0;
            }
        }
        find_first(p);
    }
    __device__ __forceinline__ void find_first(const Contract &p) {
        const i32 moved = i32(tap[0]) * i32(p.loops[1].along);
#pragma unroll
        for (u32 i = 0; i < Config::A_EACH; ++i) a_bytes[i] = u32(position[i][0] + moved) < limit ? outer_bytes[i] : 0;
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
            for (u32 i = 0; i < Config::A_EACH; ++i) a[i] += a_move;
#pragma unroll
            for (u32 i = 0; i < Config::B_EACH; ++i) b[i] += b_move;
        } while (channel >= channels);
        find_first(p);
    }
    // From the last of the innermost taps to the first one of the next.
    __device__ __forceinline__ void carry(const Contract &p, i64 &a_move, i64 &b_move) {
        bool carries = true;
#pragma unroll
        for (u32 t = 0; t < TAPS; ++t) {
            if (!carries || t + 1 >= p.rank[OF_DEPTH]) continue;
            const ContractLoop &loop = p.loops[1 + t];
            if (t > 0) {
                a_move += loop.step[OF_A];
                b_move += loop.step[OF_B];
                carries = ++tap[t] == u32(loop.extent.divisor);
            }
            if (carries) {
                a_move -= loop.step[OF_A] * i64(tap[t]);
                b_move -= loop.step[OF_B] * i64(tap[t]);
                tap[t] = 0;
            }
        }
        // Nothing comes behind the last term.
        find(p, carries || b_bytes == 0);
    }

    template <u32 I = 0>
    __device__ __forceinline__ void copy_a(SharedPlace to) const {
        if constexpr (I < Config::A_EACH) {
            copy_16_to<I * 16 * Config::BLOCK>(to, a[I], a_bytes[I]);
            copy_a<I + 1>(to);
        }
    }
    template <u32 I = 0>
    __device__ __forceinline__ void copy_b(SharedPlace to) const {
        if constexpr (I < Config::B_EACH) {
            copy_16_to<Config::A_BYTES + I * 16 * Config::BLOCK>(to, b[I], b_bytes);
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
        channel += Config::TERMS;
#pragma unroll
        for (u32 i = 0; i < Config::A_EACH; ++i) a[i] += Config::K_BYTES;
#pragma unroll
        for (u32 i = 0; i < Config::B_EACH; ++i) b[i] += b_step;
        skip_taps(p);
    }
};

#define OF_TILE(NAME, TYPE, M, N, WARPS_M, WARPS_N, STAGES, RESIDENT, ALONG_N)                                             \
    extern "C" __global__ void __launch_bounds__(32 * WARPS_M * WARPS_N, RESIDENT) NAME(const Contract p) {               \
        typedef Mainloop<TYPE, M, N, WARPS_M, WARPS_N, STAGES, false, ALONG_N> Config;                                    \
        multistage<Config, Copier<Config>>(p);                                                                            \
    }
// Kernels for three tiles of terms that lie together.
#define MULTISTAGE_BY_TERMS(NAME, TYPE)                                   \
    OF_TILE(NAME##_128x128, TYPE, 128, 128, 2, 4, 3, 1, false)            \
    OF_TILE(NAME##_128x64, TYPE, 128, 64, 4, 2, 4, 2, false)              \
    OF_TILE(NAME##_64x64, TYPE, 64, 64, 2, 2, 5, 4, false)
// The same, and others; those by `_columns` have neighbours of `b` along the columns.
#define MULTISTAGE(NAME, TYPE)                                            \
    MULTISTAGE_BY_TERMS(NAME, TYPE)                                       \
    OF_TILE(NAME##_128x128_columns, TYPE, 128, 128, 2, 4, 3, 1, true)     \
    OF_TILE(NAME##_128x64_columns, TYPE, 128, 64, 4, 2, 4, 2, true)       \
    OF_TILE(NAME##_64x64_columns, TYPE, 64, 64, 2, 2, 5, 4, true)
