// Fixed-width types and the few operations that CUDA C++ offers no portable spelling for. No vendor headers:
// narrow floats go through the conversion instructions of PTX, which a host build (CPU_EMU) replaces by plain
// arithmetic.
#pragma once

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

// 16 bytes that travel together.
struct alignas(16) Vector {
    u32 word[4];
};

struct alignas(16) VectorPair {
    Vector half[2];
};

// Threads of every block but that of `ordered`.
enum { THREADS = 256 };

// What moves BYTES bytes at once.
template <u32 BYTES>
struct Unit;
template <>
struct Unit<1> {
    typedef u8 Type;
};
template <>
struct Unit<2> {
    typedef u16 Type;
};
template <>
struct Unit<4> {
    typedef u32 Type;
};
template <>
struct Unit<8> {
    typedef u64 Type;
};
template <>
struct Unit<16> {
    typedef Vector Type;
};
template <>
struct Unit<32> {
    typedef VectorPair Type;
};

template <typename To, typename From>
__device__ __forceinline__ To bits_of(From from) {
    static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

#if defined(CPU_EMU)

inline u32 high_product(u32 a, u32 b) { return u32((u64(a) * b) >> 32); }
inline u64 high_product(u64 a, u64 b) { return u64((unsigned __int128)(a)*b >> 64); }
// Rounded one by one, never fused.
inline f32 product(f32 a, f32 b) {
    volatile f32 r = a * b;
    return r;
}
inline f64 product(f64 a, f64 b) {
    volatile f64 r = a * b;
    return r;
}
inline f32 sum(f32 a, f32 b) {
    volatile f32 r = a + b;
    return r;
}
inline f64 sum(f64 a, f64 b) {
    volatile f64 r = a + b;
    return r;
}
inline f32 ratio(f32 a, f32 b) { return a / b; }
inline f64 ratio(f64 a, f64 b) { return a / b; }
inline f32 root(f32 x) { return __builtin_sqrtf(x); }
inline f64 root(f64 x) { return __builtin_sqrt(x); }
inline f32 round_to_even(f32 x) { return __builtin_rintf(x); }
inline f64 round_to_even(f64 x) { return __builtin_rint(x); }

// Four bytes of the eight in `b:a`, picked by the nibbles of `selector`.
inline u32 permuted(u32 a, u32 b, u32 selector) {
    const u64 both = u64(b) << 32 | a;
    u32 result = 0;
    for (u32 i = 0; i < 4; ++i) result |= u32(both >> (8 * ((selector >> (4 * i)) & 7)) & 0xff) << (8 * i);
    return result;
}

#else

__device__ __forceinline__ u32 high_product(u32 a, u32 b) { return __umulhi(a, b); }
__device__ __forceinline__ u64 high_product(u64 a, u64 b) { return __umul64hi(a, b); }
// Rounded one by one, never fused.
__device__ __forceinline__ f32 product(f32 a, f32 b) { return __fmul_rn(a, b); }
__device__ __forceinline__ f64 product(f64 a, f64 b) { return __dmul_rn(a, b); }
__device__ __forceinline__ f32 sum(f32 a, f32 b) { return __fadd_rn(a, b); }
__device__ __forceinline__ f64 sum(f64 a, f64 b) { return __dadd_rn(a, b); }
__device__ __forceinline__ f32 ratio(f32 a, f32 b) { return __fdiv_rn(a, b); }
__device__ __forceinline__ f64 ratio(f64 a, f64 b) { return __ddiv_rn(a, b); }
__device__ __forceinline__ f32 root(f32 x) { return __fsqrt_rn(x); }
__device__ __forceinline__ f64 root(f64 x) { return __dsqrt_rn(x); }
__device__ __forceinline__ f32 round_to_even(f32 x) { return rintf(x); }
__device__ __forceinline__ f64 round_to_even(f64 x) { return rint(x); }
// Four bytes of the eight in `b:a`, picked by the nibbles of `selector`.
__device__ __forceinline__ u32 permuted(u32 a, u32 b, u32 selector) { return __byte_perm(a, b, selector); }

#endif
