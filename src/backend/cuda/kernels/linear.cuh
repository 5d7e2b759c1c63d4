// One run of elements that are neighbours in both operands: copies and conversions.
#pragma once

#include "element.cuh"

// One run of elements that are neighbours in both operands.
struct Linear {
    Pointers at;
    u64 count;  // vectors of a copy, elements of a conversion
    Operation operation;
    u32 head;      // bytes of a copy in front of its first vector
    u32 tail;      // bytes of a copy behind its last vector
    u32 vectored;  // whether both operands of a conversion lie on 16 bytes
    u32 unused;
};

static_assert(sizeof(Linear) == 16 + 8 + 32 + 16, "linear.rs has another Linear");

// Vectors per thread of a copy, all loaded before the first is stored.
enum { COPY_VECTORS = 4 };

// The bytes around the vectors, fewer than two of these on either side: the first block has them.
__device__ __forceinline__ void copy_around(const Linear &p) {
    if (blockIdx.x != 0) return;
    const u32 i = threadIdx.x;
    const u64 end = p.count * 16;
    if (i < p.head) put<u8>(p.at.dst - p.head + i, at<u8>(p.at.src - p.head + i));
    if (i < p.tail) put<u8>(p.at.dst + end + i, at<u8>(p.at.src + end + i));
}

// Both operands lie equally far off 16 bytes.
__device__ __forceinline__ void copy_aligned(const Linear &p) {
    const u64 first = u64(blockIdx.x) * (THREADS * COPY_VECTORS) + threadIdx.x;
    Vector held[COPY_VECTORS];
#pragma unroll
    for (u32 i = 0; i < COPY_VECTORS; ++i) {
        const u64 index = first + i * THREADS;
        if (index < p.count) held[i] = at<Vector>(p.at.src + index * 16);
    }
#pragma unroll
    for (u32 i = 0; i < COPY_VECTORS; ++i) {
        const u64 index = first + i * THREADS;
        if (index < p.count) put<Vector>(p.at.dst + index * 16, held[i]);
    }
    copy_around(p);
}

// The 16 bytes that begin SHIFT words and `bytes` bytes behind the start of `low`, and end in `high`.
template <u32 SHIFT>
__device__ __forceinline__ Vector shifted(const Vector &low, const Vector &high, u32 selector) {
    const u32 words[9] = {low.word[0],  low.word[1],  low.word[2],  low.word[3], high.word[0],
                          high.word[1], high.word[2], high.word[3], 0};
    Vector result;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) result.word[i] = permuted(words[SHIFT + i], words[SHIFT + i + 1], selector);
    return result;
}

// The destination lies on 16 bytes, the source does not: a vector is made of the two around it, of which each thread reads
// both. The second one of a thread is the first one of the next, so that it comes from the cache. What is around the
// vectors is wide enough for nothing to be read that is not part of the source.
__device__ __forceinline__ void copy_shifted_by(const Linear &p) {
    const u32 off = u32(reinterpret_cast<u64>(p.at.src) & 15), bytes = off & 3;
    const char *from = p.at.src - off;
    const u32 selector = 0x3210 + 0x1111 * bytes;
    const u64 first = u64(blockIdx.x) * (THREADS * COPY_VECTORS) + threadIdx.x;
    Vector low[COPY_VECTORS], high[COPY_VECTORS];
#pragma unroll
    for (u32 i = 0; i < COPY_VECTORS; ++i) {
        const u64 index = first + i * THREADS;
        if (index < p.count) {
            low[i] = at<Vector>(from + index * 16);
            high[i] = at<Vector>(from + index * 16 + 16);
        }
    }
#pragma unroll
    for (u32 i = 0; i < COPY_VECTORS; ++i) {
        const u64 index = first + i * THREADS;
        if (index >= p.count) continue;
        Vector vector;
        switch (off / 4) {
        case 0: vector = shifted<0>(low[i], high[i], selector); break;
        case 1: vector = shifted<1>(low[i], high[i], selector); break;
        case 2: vector = shifted<2>(low[i], high[i], selector); break;
        default: vector = shifted<3>(low[i], high[i], selector);
        }
        put<Vector>(p.at.dst + index * 16, vector);
    }
    copy_around(p);
}

__device__ constexpr u32 width_of(u32 scalar) {
    return scalar == F64 || scalar == I64    ? 8
           : scalar == F32 || scalar == I32  ? 4
           : scalar == F16 || scalar == BF16 ? 2
                                             : 1;
}

// Groups per thread of a conversion.
enum { GROUPS = 4 };

// A pair of types that binary32 holds. The wider side moves 16 bytes at a time.
template <u32 SRC, u32 DST>
__device__ __forceinline__ void convert_run(const Linear &p) {
    constexpr u32 FROM = width_of(SRC), TO = width_of(DST), LANES = 16 / (FROM > TO ? FROM : TO);
    typedef typename Unit<FROM * LANES>::Type Source;
    typedef typename Unit<TO * LANES>::Type Target;
    // The types are constants to the compiler, the rest is not.
    Operation operation = p.operation;
    operation.src = SRC;
    operation.dst = DST;
    operation.via = VIA_F32;
    const u64 per_block = THREADS * LANES * GROUPS;
    const u64 start = u64(blockIdx.x) * per_block;
    if (p.vectored && start + per_block <= p.count) {
        Source x[GROUPS];
        Target y[GROUPS];
#pragma unroll
        for (u32 g = 0; g < GROUPS; ++g) {
            x[g] = at<Source>(p.at.src + (start + (g * THREADS + threadIdx.x) * LANES) * FROM);
        }
        char *const out = p.at.dst + (start + threadIdx.x * LANES) * TO;
        if (operation.steps & BLENDED) {
#pragma unroll
            for (u32 g = 0; g < GROUPS; ++g) y[g] = at<Target>(out + g * (THREADS * LANES * TO));
        }
#pragma unroll
        for (u32 g = 0; g < GROUPS; ++g) {
#pragma unroll
            for (u32 i = 0; i < LANES; ++i) {
                compute(operation, reinterpret_cast<char *>(&y[g]) + i * TO,
                        reinterpret_cast<const char *>(&x[g]) + i * FROM);
            }
            put<Target>(out + g * (THREADS * LANES * TO), y[g]);
        }
        return;
    }
    // One element a thread, eight of them loaded before the first is computed.
#pragma unroll 1
    for (u32 i = 0; i < LANES * GROUPS; i += 8) {
        char *to[8];
        const char *from[8];
        u32 wanted = 0;
#pragma unroll
        for (u32 k = 0; k < 8; ++k) {
            const u64 index = start + (i + k) * THREADS + threadIdx.x;
            to[k] = p.at.dst + index * TO;
            from[k] = p.at.src + index * FROM;
            wanted |= u32(index < p.count) << k;
        }
        compute_all<u32>(operation, to, from, wanted);
    }
}

// The pairs with kernels of their own; `linear.rs` and `tiled.rs` list them too. All travel through binary32.
#define COMMON_PAIRS(PAIR)      \
    PAIR(f32_f32, F32, F32)     \
    PAIR(f32_f16, F32, F16)     \
    PAIR(f32_bf16, F32, BF16)   \
    PAIR(f32_s8, F32, I8)       \
    PAIR(f32_u8, F32, U8)       \
    PAIR(f16_f32, F16, F32)     \
    PAIR(f16_f16, F16, F16)     \
    PAIR(f16_bf16, F16, BF16)   \
    PAIR(bf16_f32, BF16, F32)   \
    PAIR(bf16_f16, BF16, F16)   \
    PAIR(bf16_bf16, BF16, BF16) \
    PAIR(s8_f32, I8, F32)       \
    PAIR(u8_f32, U8, F32)
