// Products of fragments that a warp holds together: D = A * B + C with A of 16 x K, B of K x 8 and C of 16 x 8 elements,
// where K is 8 for TF32, 16 for the 16-bit types and 32 for bytes. For compute_80 and later; half and signed bytes for
// compute_75, too.
//
// The layout is that of the PTX manual ("Matrix Fragments for mma.m16n8k8, m16n8k16, m16n8k32"), which comes to one rule:
// a register holds PER = 32 / bits neighbours along k; lane = 4 * group + member;
//   register r of A: row group + 8 * (r % 2), k from PER * (member + 4 * (r / 2)) on
//   register r of B: column group,            k from PER * (member + 4 * r) on
//   number i of C:   row group + 8 * (i / 2), column 2 * member + i % 2
// The smaller products of compute_75 ("mma.m16n8k8", "mma.m8n8k16") have the same rule, with registers 0 and 1 of A and 0 of
// B, or 0 of A and of B and numbers 0 and 1 of C: a whole product is two or four of them on the same registers.
// All lanes of the warp have to call together.
#pragma once

#include "device.cuh"

// What the registers of A and B hold, what is accumulated, and from which capability on.
struct MmaF16 {
    typedef f32 Sum;
    enum { PER = 2, K = 16, FROM = 80 };
};
struct MmaBf16 {
    typedef f32 Sum;
    enum { PER = 2, K = 16, FROM = 80 };
};
// binary32 with 10 bits of mantissa, as `to_tf32` makes them; what lies below is not looked at.
struct MmaTf32 {
    typedef f32 Sum;
    enum { PER = 1, K = 8, FROM = 80 };
};
// binary32 in parts, as `contract_split.cuh` multiplies 16 terms, eight of which lie as those of TF32.
struct MmaF32 {
    typedef f32 Sum;
    enum { PER = 1, K = 16, FROM = 80 };
};
struct MmaS8 {
    typedef i32 Sum;
    enum { PER = 4, K = 32, FROM = 80 };
};
struct MmaU8 : MmaS8 {};
// A of one and B of the other.
struct MmaU8S8 : MmaS8 {};
struct MmaS8U8 : MmaS8 {};
// By products of half of k, and of half of k and of the rows.
struct MmaF16Halves : MmaF16 {
    enum { FROM = 75 };
};
struct MmaS8Quarters : MmaS8 {
    enum { FROM = 75 };
};

__device__ __forceinline__ u32 mma_group() { return threadIdx.x % 32 / 4; }
__device__ __forceinline__ u32 mma_member() { return threadIdx.x % 4; }
// Row of A, and the first of its PER columns, that register `r` of this lane holds.
__device__ __forceinline__ u32 mma_a_row(u32 r) { return mma_group() + 8 * (r % 2); }
template <typename Type>
__device__ __forceinline__ u32 mma_a_k(u32 r) {
    return Type::PER * (mma_member() + 4 * (r / 2));
}
// Column of B, and the first of its PER rows.
__device__ __forceinline__ u32 mma_b_column(u32) { return mma_group(); }
template <typename Type>
__device__ __forceinline__ u32 mma_b_k(u32 r) {
    return Type::PER * (mma_member() + 4 * r);
}
// Row and column of number `i` of C.
__device__ __forceinline__ u32 mma_c_row(u32 i) { return mma_group() + 8 * (i / 2); }
__device__ __forceinline__ u32 mma_c_column(u32 i) { return 2 * mma_member() + i % 2; }

#if defined(CPU_EMU)

#define MMA(TYPE, SUM, CONSTRAINT, INSTRUCTION, ELEMENT)                    \
    inline void mma(TYPE, SUM(&c)[4], const u32(&a)[4], const u32(&b)[2]) { \
        emu::multiply_add(emu::Element::ELEMENT, a, b, c);                  \
    }

// To nothing.
inline void mma_alone(MmaBf16, f32 (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    for (f32 &sum : c) sum = 0.0f;
    emu::multiply_add(emu::Element::BF16, a, b, c);
}
inline void mma_16x8x8(f32 *c, const u32 *a, u32 b) { emu::multiply_add(emu::Element::F16_16X8X8, a, &b, c); }
inline void mma_8x8x16(i32 *c, u32 a, u32 b) { emu::multiply_add(emu::Element::S8_8X8X16, &a, &b, c); }

// To nearest, ties away from zero; infinities stay, as do NaNs of which a bit above the cut is set.
inline u32 to_tf32(f32 x) {
    const u32 bits = bits_of<u32>(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
}

#else

#define MMA(TYPE, SUM, CONSTRAINT, INSTRUCTION, ELEMENT)                                                       \
    __device__ __forceinline__ void mma(TYPE, SUM(&c)[4], const u32(&a)[4], const u32(&b)[2]) {                \
        asm("mma.sync.aligned." INSTRUCTION " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
            : CONSTRAINT(c[0]), CONSTRAINT(c[1]), CONSTRAINT(c[2]), CONSTRAINT(c[3])                           \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                               \
    }

// To nothing.
__device__ __forceinline__ void mma_alone(MmaBf16, f32 (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}
__device__ __forceinline__ void mma_16x8x8(f32 *c, const u32 *a, u32 b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
}
__device__ __forceinline__ void mma_8x8x16(i32 *c, u32 a, u32 b) {
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+r"(c[0]), "+r"(c[1])
        : "r"(a), "r"(b));
}

__device__ __forceinline__ u32 to_tf32(f32 x) {
    u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

#endif

// The bits of a register of A or B as a product takes them.
__device__ __forceinline__ u32 ready(MmaTf32, u32 bits) { return to_tf32(bits_of<f32>(bits)); }
template <typename Type>
__device__ __forceinline__ u32 ready(Type, u32 bits) {
    return bits;
}

MMA(MmaF16, f32, "+f", "m16n8k16.row.col.f32.f16.f16.f32", F16)
MMA(MmaBf16, f32, "+f", "m16n8k16.row.col.f32.bf16.bf16.f32", BF16)
MMA(MmaTf32, f32, "+f", "m16n8k8.row.col.f32.tf32.tf32.f32", TF32)
MMA(MmaS8, i32, "+r", "m16n8k32.row.col.s32.s8.s8.s32", S8)
MMA(MmaU8, i32, "+r", "m16n8k32.row.col.s32.u8.u8.s32", U8)
MMA(MmaU8S8, i32, "+r", "m16n8k32.row.col.s32.u8.s8.s32", U8_S8)
MMA(MmaS8U8, i32, "+r", "m16n8k32.row.col.s32.s8.u8.s32", S8_U8)
#undef MMA

__device__ __forceinline__ void mma(MmaF16Halves, f32 (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) mma_16x8x8(c, a + 2 * half, b[half]);
}
__device__ __forceinline__ void mma(MmaS8Quarters, i32 (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
#pragma unroll
        for (u32 rows = 0; rows < 2; ++rows) mma_8x8x16(c + 2 * rows, a[2 * half + rows], b[half]);
    }
}
