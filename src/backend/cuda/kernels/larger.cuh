// The larger of two numbers by one instruction.
#pragma once

#include "math.cuh"

// The larger number, the positive one of two zeros; a NaN yields to a number.
#if defined(CPU_EMU)
inline f32 larger(f32 a, f32 b) {
    if (a != a || b != b) return a != a ? b : a;
    return a > b ? a : b > a ? b : bits_of<f32>(bits_of<u32>(a) & bits_of<u32>(b));
}
#else
__device__ __forceinline__ f32 larger(f32 a, f32 b) {
    f32 c;
    asm("max.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}
#endif
