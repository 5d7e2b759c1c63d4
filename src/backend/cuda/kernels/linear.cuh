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

template <u32 BYTES>
__device__ __forceinline__ void copy(const Linear &p) {
    typedef typename Unit<BYTES>::Type Type;
    const u64 first = u64(blockIdx.x) * (THREADS * COPY_VECTORS) + threadIdx.x;
    Type held[COPY_VECTORS];
#pragma unroll
    for (u32 i = 0; i < COPY_VECTORS; ++i) {
        const u64 index = first + i * THREADS;
        if (index < p.count) held[i] = at<Type>(p.at.src + index * BYTES);
    }
#pragma unroll
    for (u32 i = 0; i < COPY_VECTORS; ++i) {
        const u64 index = first + i * THREADS;
        if (index < p.count) put<Type>(p.at.dst + index * BYTES, held[i]);
    }
    // The first block has the bytes around the vectors, fewer than a vector on either side.
    if (blockIdx.x == 0) {
        const u32 i = threadIdx.x;
        const u64 end = p.count * BYTES;
        if (i < p.head) put<u8>(p.at.dst - p.head + i, at<u8>(p.at.src - p.head + i));
        if (i < p.tail) put<u8>(p.at.dst + end + i, at<u8>(p.at.src + end + i));
    }
}

__device__ constexpr u32 width_of(u32 scalar) {
    return scalar == F64 || scalar == I64    ? 8
           : scalar == F32 || scalar == I32  ? 4
           : scalar == F16 || scalar == BF16 ? 2
                                             : 1;
}

// Groups per thread of a conversion.
enum { GROUPS = 2 };

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
#pragma unroll
        for (u32 g = 0; g < GROUPS; ++g) {
            x[g] = at<Source>(p.at.src + (start + (g * THREADS + threadIdx.x) * LANES) * FROM);
        }
#pragma unroll
        for (u32 g = 0; g < GROUPS; ++g) {
            char *out = p.at.dst + (start + (g * THREADS + threadIdx.x) * LANES) * TO;
            Target y;
            if (operation.steps & BLENDED) y = at<Target>(out);
#pragma unroll
            for (u32 i = 0; i < LANES; ++i) {
                compute(operation, reinterpret_cast<char *>(&y) + i * TO,
                        reinterpret_cast<const char *>(&x[g]) + i * FROM);
            }
            put<Target>(out, y);
        }
        return;
    }
#pragma unroll 1
    for (u32 i = 0; i < LANES * GROUPS; ++i) {
        const u64 index = start + i * THREADS + threadIdx.x;
        if (index < p.count) compute(operation, p.at.dst + index * TO, p.at.src + index * FROM);
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
