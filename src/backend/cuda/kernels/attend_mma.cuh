// What kernels of attention that multiply on Tensor Cores have in common: tiles that come to shared memory asynchronously, from
// matrices in binary16 or bfloat16 whose rows are aligned vectors of 16 bytes, and pairs of numbers as fragments hold them. For
// compute_80 and later.
#pragma once

#include "async.cuh"
#include "attend.cuh"
#include "mma.cuh"

enum : u32 { ATTEND_THREADS = 128 };

#if defined(CPU_EMU)
inline u32 pair_of(MmaF16, f32 low, f32 high) { return to_f16(low) | u32(to_f16(high)) << 16; }
inline u32 pair_of(MmaBf16, f32 low, f32 high) { return to_bf16(low) | u32(to_bf16(high)) << 16; }
#else
__device__ __forceinline__ u32 pair_of(MmaF16, f32 low, f32 high) {
    u32 bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
__device__ __forceinline__ u32 pair_of(MmaBf16, f32 low, f32 high) {
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#endif

// Where a vector of a row of VECTORS lies: the same vectors of eight rows meet different banks.
template <u32 VECTORS>
__device__ __forceinline__ u32 swizzled(u32 row, u32 vector) {
    return (row * VECTORS + (vector ^ row % 8)) * 16;
}

// A tile of a matrix of WIDTH columns, of which a thread copies the same vector of every so many rows. What is not there is zeros.
template <u32 WIDTH>
struct Copied {
    enum : u32 { VECTORS = WIDTH / 8, APART = ATTEND_THREADS / VECTORS, EACH = ATTEND_KEYS / APART };

    static __device__ __forceinline__ void begin(char *to, const char *from, i64 step, i32 first, i32 limit, u32 width) {
        const u32 vector = threadIdx.x % VECTORS, row = threadIdx.x / VECTORS;
        char *const own = to + swizzled<VECTORS>(row, vector);
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            const i32 wanted = first + i32(row + i * APART);
            const bool is_there = wanted < limit && 8 * vector < width;
            copy_16(own + i * APART * 2 * WIDTH, from + (is_there ? i64(wanted) * step + 16 * vector : i64(0)), is_there);
        }
        end_of_copies();
    }
};
