// Sigmoid and hyperbolic tangent of numbers that 16 bits hold, for results that 16 bits hold: fused multiply-adds, and a reciprocal
// that no division computes. For each of the 65,536 numbers of either type the result has the bits that math.cuh's has once it is
// rounded to that type (`tests/cuda/narrow.rs`).
#pragma once

#include "element.cuh"
#include "math.cuh"

// a b + c, rounded once.
#if defined(CPU_EMU)
inline f32 rounded_once(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
#else
__device__ __forceinline__ f32 rounded_once(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
#endif

__device__ __forceinline__ f32 fused_polynomial(f32, f32 c) { return c; }
template <typename... Rest>
__device__ __forceinline__ f32 fused_polynomial(f32 x, f32 c, Rest... rest) {
    return rounded_once(fused_polynomial(x, rest...), x, c);
}

// 1 / d for d in 1..2: a polynomial, and one step of Halley's.
__device__ __forceinline__ f32 reciprocal(f32 d) {
    const f32 rough = fused_polynomial(d, 2.82842278f, -2.93934131f, 1.3310225f, -0.221837088f);
    const f32 off = rounded_once(-d, rough, 1.0f);
    return rounded_once(rough, rounded_once(off, off, off), rough);
}

// factor x as n + r, where n is an integer and |r| <= 1/2: `shifted` has n + bias in its low bits.
struct BinaryExponent {
    f32 shifted, r;
};
__device__ __forceinline__ BinaryExponent binary_exponent(f32 x, f32 factor, u32 bias) {
    const f32 shifter = Math<f32>::shifter() + f32(bias);
    const f32 shifted = rounded_once(x, factor, shifter);
    return {shifted, rounded_once(x, factor, shifter - shifted)};
}

// 2^n of a number that was shifted with the bias of an exponent.
__device__ __forceinline__ f32 biased_power(f32 shifted) {
    return bits_of<f32>(bits_of<u32>(shifted) << Math<f32>::MANTISSA);
}

__device__ __forceinline__ f32 half_tanh(f32 x) {
    const f32 size = bits_of<f32>(bits_of<u32>(x) & 0x7fffffffu);
    // Beyond, the result is 1; a NaN stays.
    const BinaryExponent e = binary_exponent(size > 10.0f ? 10.0f : size, -2.88539004f, Math<f32>::BIAS);
    const f32 p = product(e.r, fused_polynomial(e.r, 0.693147182f, 0.240226507f, 0.0555035695f, 0.00961808302f,
                                                0.00133908633f, 0.000154531634f));
    const f32 power = biased_power(e.shifted);
    // e^(-2 |x|) - 1
    const f32 below = rounded_once(power, p, sum(power, -1.0f));
    const f32 result = product(below, reciprocal(sum(below, 2.0f)));
    return bits_of<f32>((bits_of<u32>(result) & 0x7fffffffu) | (bits_of<u32>(x) & 0x80000000u));
}

template <u32 SCALAR>
__device__ __forceinline__ f32 half_sigmoid(f32 x) {
    const f32 size = bits_of<f32>(bits_of<u32>(x) & 0x7fffffffu), most = SCALAR == F16 ? 25.0f : 104.0f;
    const f32 kept = size > most ? most : size;
    // A half ends where one power suffices; a bfloat16 reaches below the normal numbers of binary32.
    const BinaryExponent e = binary_exponent(kept, -1.44269502f, SCALAR == F16 ? u32(Math<f32>::BIAS) : 0);
    const f32 r = SCALAR == F16 ? e.r : rounded_once(kept, -1.92596303e-8f, e.r);
    const f32 p = fused_polynomial(r, 1.0f, 0.693147182f, 0.240223497f, 0.0555038117f, 0.00966636837f, 0.00133813021f);
    const f32 power = SCALAR == F16 ? product(p, biased_power(e.shifted)) : scaled<f32>({p}, {e.shifted}).value;
    const f32 total = sum(power, 1.0f), lost = sum(power, -sum(total, -1.0f)), inverse = reciprocal(total);
    // What the quotient lacks, and what the sum has lost.
    const f32 rough = product(power, inverse), rest = rounded_once(-rough, lost, rounded_once(-total, rough, power));
    const f32 result = rounded_once(rest, inverse, rough);
    return bits_of<u32>(x) >> 31 ? result : sum(1.0f, -result);
}
