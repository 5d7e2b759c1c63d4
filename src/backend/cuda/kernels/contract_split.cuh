// Products of binary32 on Tensor Cores: each number is exactly three of bfloat16, its parts, and six of the nine products of parts are
// computed. A part is what stands in the upper half of a word, eight bits of significand, cut off and not rounded, so that the parts
// have one sign and the last one is what the others leave. What is left out, the last parts by each other and by the second ones, is
// little more than 2^-21 of a product at most.
//
// Numbers are multiplied by 2^24 before they are split: then no part is below 2^-126, where Tensor Cores may take it for 0, those of
// denormal numbers neither. The sums lose both factors again. What is too large for them leaves a sum that is infinite or none, and
// so does what is infinite or none itself, be it by a part of it that is 0. Such a sum is made anew, as a chain of fused
// multiply-adds: whether it is depends on its row and its column alone.
//
// The products of 16 terms are summed apart from those before, the least ones first: what Tensor Cores cut off then belongs to 16
// terms, and these sums are added as numbers of binary32 are.
#pragma once

#include "contract.cuh"
#include "mma.cuh"

enum : u32 { SPLIT = 3 };

#if defined(CPU_EMU)

inline f32 scaled(u32 bits) { return product(bits_of<f32>(bits), 16777216.0f); }
// What the upper half of a number's bits is, and those of two numbers, of the first one below.
inline f32 upper_half(f32 x) { return bits_of<f32>(bits_of<u32>(x) & 0xffff0000u); }
inline u32 upper_halves(f32 first, f32 second) { return permuted(bits_of<u32>(first), bits_of<u32>(second), 0x7632); }

#else

// Compilers would move bits between registers of numbers and of words for each of these.
__device__ __forceinline__ f32 scaled(u32 bits) {
    f32 x;
    asm("mul.rn.f32 %0, %1, 0f4B800000;" : "=f"(x) : "r"(bits));
    return x;
}
__device__ __forceinline__ f32 upper_half(f32 x) {
    f32 half;
    asm("and.b32 %0, %1, -65536;" : "=f"(half) : "f"(x));
    return half;
}
__device__ __forceinline__ u32 upper_halves(f32 first, f32 second) {
    u32 both;
    asm("prmt.b32 %0, %1, %2, 30258;" : "=r"(both) : "f"(first), "f"(second));
    return both;
}

#endif

// 2^-48: takes the factor of both operands out of a sum.
#define UNSCALED 3.552713678800501e-15f

// The parts of two numbers, those of the first one in the lower halves.
__device__ __forceinline__ void split(u32 first, u32 second, u32 (&parts)[SPLIT]) {
    f32 x = scaled(first), y = scaled(second);
#pragma unroll
    for (u32 part = 0; part < SPLIT; ++part) {
        parts[part] = upper_halves(x, y);
        x = x - upper_half(x);
        y = y - upper_half(y);
    }
}

// Adds the products of 16 terms, of which `low` and `high` have eight each as MmaTf32 has them. Terms have other places in products of
// bfloat16 than in memory, the same ones in both factors.
template <u32 MMA_M, u32 MMA_N>
__device__ __forceinline__ void multiply_split(f32 (&acc)[MMA_M][MMA_N][4], const u32 (&low_a)[MMA_M][4], const u32 (&low_b)[MMA_N][2],
                                               const u32 (&high_a)[MMA_M][4], const u32 (&high_b)[MMA_N][2]) {
    u32 b[SPLIT][MMA_N][2];
#pragma unroll
    for (u32 j = 0; j < MMA_N; ++j) {
        u32 low[SPLIT], high[SPLIT];
        split(low_b[j][0], low_b[j][1], low);
        split(high_b[j][0], high_b[j][1], high);
#pragma unroll
        for (u32 part = 0; part < SPLIT; ++part) {
            b[part][j][0] = low[part];
            b[part][j][1] = high[part];
        }
    }
#pragma unroll
    for (u32 i = 0; i < MMA_M; ++i) {
        u32 a[SPLIT][4];
#pragma unroll
        for (u32 r = 0; r < 2; ++r) {
            u32 low[SPLIT], high[SPLIT];
            split(low_a[i][r], low_a[i][r + 2], low);
            split(high_a[i][r], high_a[i][r + 2], high);
#pragma unroll
            for (u32 part = 0; part < SPLIT; ++part) {
                a[part][r] = low[part];
                a[part][r + 2] = high[part];
            }
        }
        // Parts whose numbers add up to 2, to 1, and the first ones.
        f32 sums[MMA_N][4];
#pragma unroll
        for (u32 j = 0; j < MMA_N; ++j) mma_alone(MmaBf16(), sums[j], a[2], b[0][j]);
#pragma unroll
        for (u32 next = 1; next < 6; ++next) {
            const u32 both = next < 3 ? 2 : next < 5 ? 1 : 0, of_b = next < 3 ? next : next < 5 ? next - 3 : 0;
#pragma unroll
            for (u32 j = 0; j < MMA_N; ++j) mma(MmaBf16(), sums[j], a[both - of_b], b[of_b][j]);
        }
#pragma unroll
        for (u32 j = 0; j < MMA_N; ++j) {
#pragma unroll
            for (u32 k = 0; k < 4; ++k) acc[i][j][k] = sum(acc[i][j][k], sums[j][k]);
        }
    }
}

// The terms of a part of one sum, added as `contract.cu` adds them. Short rather than fast, as few sums need it.
__device__ __forceinline__ f32 chain(const Contract &p, const PartOfSum &part, u64 batch, u64 row, u64 column) {
    enum : u32 { WINDOW = 3 };
    f32 total = 0.0f;
#pragma unroll 1
    for (u64 term = part.begin; term < part.end; ++term) {
        const char *a = p.at[OF_A], *b = p.at[OF_B];
        i64 position[WINDOW];
#pragma unroll
        for (u32 k = 0; k < WINDOW; ++k) position[k] = p.bounds[k].start;
        u32 number = 0;
#pragma unroll 1
        for (u32 of = 0; of < PARTS; ++of) {
            u64 rest = of == OF_DEPTH ? term : of == OF_COLUMNS ? column : of == OF_ROWS ? row : batch;
            const u32 end = p.first[of] + p.rank[of];
#pragma unroll 1
            for (; number < end; ++number) {
                const ContractLoop &loop = p.loops[number];
                const u64 outer = quotient(rest, loop.extent);
                const i64 here = i64(rest - outer * loop.extent.divisor);
                rest = outer;
                a += here * loop.step[OF_A];
                b += here * loop.step[OF_B];
#pragma unroll
                for (u32 k = 0; k < WINDOW; ++k) position[k] += loop.bound == k ? here * loop.along : 0;
            }
        }
        bool is_inside = true;
#pragma unroll
        for (u32 k = 0; k < WINDOW; ++k) {
            if (k < p.bound_count) is_inside = is_inside && u64(position[k]) < u64(p.bounds[k].extent);
        }
        if (is_inside) total = fused(at<f32>(a), at<f32>(b), total);
    }
    return total;
}

__device__ __forceinline__ bool is_finite(f32 x) { return (bits_of<u32>(x) & 0x7f800000u) != 0x7f800000u; }

// Makes those of eight sums anew that are infinite or none: neighbours in a row of the contraction, or, TURNED, in a column.
template <bool TURNED>
__device__ __forceinline__ void make_anew(const Contract &p, const PartOfSum &part, u64 batch, u64 row, u64 column, f32 *sums) {
    const Four<f32> *const fours = reinterpret_cast<const Four<f32> *>(sums);
    const Four<f32> low = fours[0], high = fours[1];
    // Zero times what is infinite or none is none.
    f32 zero = 0.0f;
#pragma unroll
    for (u32 k = 0; k < 8; ++k) zero = fused(k < 4 ? low.value[k] : high.value[k - 4], 0.0f, zero);
    if (zero == 0.0f) return;
#pragma unroll 1
    for (u32 k = 0; k < 8; ++k) {
        if (!is_finite(sums[k])) sums[k] = chain(p, part, batch, row + (TURNED ? k : 0), column + (TURNED ? 0 : k));
    }
}
