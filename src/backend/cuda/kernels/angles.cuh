// Sine, cosine, tangent, the angle of a point and remainders in binary64: `dtype/angles.rs`, to the same bits.
#pragma once

#include "math.cuh"

// Part of the kernel: what lives across a call would have to leave its registers.
#if defined(CPU_EMU)
#define FUSED inline
#else
#define FUSED __forceinline__
#endif

// 64 zeros, and the bits of 2/pi behind the point.
__device__ __forceinline__ u64 two_over_pi(u32 word) {
    switch (word) {
    case 0: return 0x0000000000000000ull;
    case 1: return 0xa2f9836e4e441529ull;
    case 2: return 0xfc2757d1f534ddc0ull;
    case 3: return 0xdb6295993c439041ull;
    case 4: return 0xfe5163abdebbc561ull;
    case 5: return 0xb7246e3a424dd2e0ull;
    case 6: return 0x06492eea09d1921cull;
    case 7: return 0xfe1deb1cb129a73eull;
    case 8: return 0xe88235f52ebb4484ull;
    case 9: return 0xe99c7026b45f7e41ull;
    case 10: return 0x3991d639835339f4ull;
    case 11: return 0x9c845f8bbdf9283bull;
    case 12: return 0x1ff897ffde05980full;
    case 13: return 0xef2f118b5a0a6d1full;
    case 14: return 0x6d367ecf27cb09b7ull;
    case 15: return 0x4f463f669e5fea2dull;
    case 16: return 0x7527bac7ebe5f17bull;
    case 17: return 0x3d0739f78a5292eaull;
    case 18: return 0x6bfb5fb11f8d5d08ull;
    case 19: return 0x56033046fc7b6babull;
    default: return 0;
    }
}

struct Wide {
    u64 high, low;
};

__device__ __forceinline__ Wide wide_product(u64 a, u64 b) {
    const u64 a0 = u32(a), a1 = a >> 32, b0 = u32(b), b1 = b >> 32;
    const u64 low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + u32(middle);
    return {a1 * b1 + (middle >> 32) + (other >> 32), other << 32 | u32(low)};
}

__device__ __forceinline__ u32 leading_zeros(u64 x) {
    u32 zeros = 0;
    for (u32 step = 32; step > 0; step /= 2) {
        if (x >> (64 - step) == 0) {
            zeros += step;
            x <<= step;
        }
    }
    return zeros;
}

typedef Rounded<f64> Angle;

__device__ __forceinline__ u64 size_bits(Angle x) { return bits_of<u64>(x.value) & (~0ull >> 1); }

__device__ __forceinline__ bool is_infinite_or_nan(Angle x) { return size_bits(x) >= 0x7ffull << 52; }

struct Reduced {
    u64 quarters;
    Angle left;
};

// Quarters of a turn, modulo 4, and what is left of an angle.
__device__ FUSED Reduced reduced(Angle x) {
    const u64 bits = size_bits(x);
    if (bits <= 0x3fe921fb54442d18ull) return {0, x};
    const u64 m = (bits & ((1ull << 52) - 1)) | 1ull << 52, first = (bits >> 52) - 1075 + 62;
    const u32 word = u32(first / 64), shift = u32(first % 64);
    u64 part[3];
    for (u32 k = 0; k < 3; ++k) {
        part[k] = two_over_pi(word + k) << shift | (shift == 0 ? 0 : two_over_pi(word + k + 1) >> (64 - shift));
    }
    const Wide last = wide_product(m, part[2]), second = wide_product(m, part[1]);
    const u64 low = last.low, middle = second.low + last.high;
    const u64 high = m * part[0] + second.high + (middle < last.high);
    u64 quarters = high >> 62;
    u64 left[2] = {high << 2 | middle >> 62, middle << 2 | low >> 62};
    bool negative = is_signed(x);
    if (negative) quarters = 0 - quarters;
    if (left[0] >> 63) {
        quarters += negative ? ~0ull : 1;
        negative = !negative;
        left[0] = ~left[0] + (left[1] == 0);
        left[1] = 0 - left[1];
    }
    const u32 zeros = leading_zeros(left[0]);
    const u64 top = left[0] << zeros | (zeros == 0 ? 0 : left[1] >> (64 - zeros));
    const Angle scale = {bits_of<f64>(u64(1023 - 64 - zeros) << 52)};
    const Angle upper = Angle{f64(top & ~0x7ffull)} * scale, lower = Angle{f64(top & 0x7ff)} * scale;
    const Angle half_pi = {1.5707963267948966}, rest = {6.123233995736766e-17};
    const Angle size = upper * half_pi + (upper * rest + lower * half_pi);
    return {quarters & 3, negative ? -size : size};
}

__device__ __forceinline__ Angle sine_of_reduced(Angle r) {
    typedef Angle R;
    const R square = r * r;
    const R sum = r + square * r * polynomial(square, R{-1.66666666666666324348e-01}, R{8.33333333332248946124e-03},
                                       R{-1.98412698298579493134e-04}, R{2.75573137070700676789e-06},
                                       R{-2.50507602534068634195e-08}, R{1.58969099521155010221e-10});
    // Zeros keep their sign.
    return r.value == 0 ? r : sum;
}

__device__ __forceinline__ Angle cosine_of_reduced(Angle r) {
    typedef Angle R;
    const R square = r * r, half = R{0.5} * square, rough = R{1} - half;
    return rough + (((R{1} - rough) - half) +
                    square * square * polynomial(square, R{4.16666666666666019037e-02}, R{-1.38888888888741095749e-03},
                                                 R{2.48015872894767294178e-05}, R{-2.75573143513906633035e-07},
                                                 R{2.08757232129817482790e-09}, R{-1.13596475577881948265e-11}));
}

__device__ FUSED f64 sine_of(f64 x) {
    if (is_infinite_or_nan({x})) return Math<f64>::nan();
    const Reduced of = reduced({x});
    const Angle value = of.quarters & 1 ? cosine_of_reduced(of.left) : sine_of_reduced(of.left);
    return of.quarters & 2 ? -value.value : value.value;
}

__device__ FUSED f64 cosine_of(f64 x) {
    if (is_infinite_or_nan({x})) return Math<f64>::nan();
    const Reduced of = reduced({x});
    const Angle value = of.quarters & 1 ? sine_of_reduced(of.left) : cosine_of_reduced(of.left);
    return (of.quarters + 1) & 2 ? -value.value : value.value;
}

__device__ FUSED f64 tangent_of(f64 x) {
    if (is_infinite_or_nan({x})) return Math<f64>::nan();
    const Reduced of = reduced({x});
    const Angle s = sine_of_reduced(of.left), c = cosine_of_reduced(of.left);
    return of.quarters & 1 ? -(c / s).value : (s / c).value;
}

// The angle whose tangent is x, which is not below 0.
__device__ __forceinline__ Angle arc_tangent(Angle x) {
    typedef Angle R;
    R reduced = x, high = {0}, low = {0};
    if (x.value < 0.4375) {
    } else if (x.value < 0.6875) {
        reduced = ((x + x) - R{1}) / (R{2} + x);
        high = R{4.63647609000806093515e-01}, low = R{2.26987774529616870924e-17};
    } else if (x.value < 1.1875) {
        reduced = (x - R{1}) / (x + R{1});
        high = R{7.85398163397448278999e-01}, low = R{3.06161699786838301793e-17};
    } else if (x.value < 2.4375) {
        reduced = (x - R{1.5}) / (R{1} + R{1.5} * x);
        high = R{9.82793723247329054082e-01}, low = R{1.39033110312309984516e-17};
    } else {
        reduced = R{-1} / x;
        high = R{1.57079632679489655800e+00}, low = R{6.12323399573676603587e-17};
    }
    const R square = reduced * reduced;
    const R rest = reduced * (square * polynomial(square, R{3.33333333333329318027e-01}, R{-1.99999999998764832476e-01},
                                                  R{1.42857142725034663711e-01}, R{-1.11111104054623557880e-01},
                                                  R{9.09088713343650656196e-02}, R{-7.69187620504482999495e-02},
                                                  R{6.66107313738753120669e-02}, R{-5.83357013379057348645e-02},
                                                  R{4.97687799461593236017e-02}, R{-3.65315727442169155270e-02},
                                                  R{1.62858201153657823623e-02}));
    return x.value < 0.4375 ? reduced - rest : high - ((rest - low) - reduced);
}

__device__ FUSED f64 angle_of(f64 y, f64 x) {
    const u64 above = size_bits({y}), right = size_bits({x}), infinite = 0x7ffull << 52;
    const Angle half_pi = {1.5707963267948966}, rest = {6.123233995736766e-17}, two = {2};
    if (above > infinite || right > infinite) return Math<f64>::nan();
    Angle size = {0};
    if (above == 0) {
    } else if (right == 0 || (above == infinite && right != infinite)) {
        size = half_pi;
    } else if (above == infinite) {
        size = Angle{7.85398163397448278999e-01};
    } else {
        size = arc_tangent(without_sign(Angle{y}) / without_sign(Angle{x}));
    }
    if (is_signed(Angle{x})) size = two * half_pi - (size - two * rest);
    return is_signed(Angle{y}) ? -size.value : size.value;
}

__device__ FUSED f64 remainder_of(f64 x, f64 y) {
    const u64 sign = bits_of<u64>(x) & 1ull << 63, a = size_bits({x}), b = size_bits({y}), infinite = 0x7ffull << 52;
    if (a >= infinite || b > infinite || b == 0) return Math<f64>::nan();
    if (a < b) return x;
    const u64 mask = (1ull << 52) - 1;
    const u64 above = a >> 52 ? a >> 52 : 1, exponent = b >> 52 ? b >> 52 : 1;
    const u64 divisor = b >> 52 ? (b & mask) | 1ull << 52 : b;
    u64 left = (a >> 52 ? (a & mask) | 1ull << 52 : a) % divisor, steps = above - exponent;
    while (steps > 0 && left != 0) {
        const u64 shift = steps < 11 ? steps : 11;
        left = (left << shift) % divisor;
        steps -= shift;
    }
    if (left == 0) return bits_of<f64>(sign);
    const u64 room = leading_zeros(left) - 11, up = room < exponent - 1 ? room : exponent - 1;
    left <<= up;
    const u64 field = left >> 52 ? exponent - up : 0;
    return bits_of<f64>(sign | field << 52 | (left & mask));
}
