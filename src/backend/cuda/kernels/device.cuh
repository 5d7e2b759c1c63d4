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
inline f32 round_to_even(f32 x) { return __builtin_rintf(x); }
inline f64 round_to_even(f64 x) { return __builtin_rint(x); }

#else

__device__ __forceinline__ u32 high_product(u32 a, u32 b) { return __umulhi(a, b); }
__device__ __forceinline__ u64 high_product(u64 a, u64 b) { return __umul64hi(a, b); }
// Rounded one by one, never fused.
__device__ __forceinline__ f32 product(f32 a, f32 b) { return __fmul_rn(a, b); }
__device__ __forceinline__ f64 product(f64 a, f64 b) { return __dmul_rn(a, b); }
__device__ __forceinline__ f32 sum(f32 a, f32 b) { return __fadd_rn(a, b); }
__device__ __forceinline__ f64 sum(f64 a, f64 b) { return __dadd_rn(a, b); }
__device__ __forceinline__ f32 round_to_even(f32 x) { return rintf(x); }
__device__ __forceinline__ f64 round_to_even(f64 x) { return rint(x); }

#endif
