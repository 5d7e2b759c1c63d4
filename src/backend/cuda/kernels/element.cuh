// One element of any type to any other: the table of `dtype/convert.rs`, in the same words and to the same
// bits.
#pragma once

#include "params.cuh"

// The largest integer of a type as the bounds of a saturating conversion.
template <typename Int, typename Float>
__device__ __forceinline__ Int saturated(Float x, Float low, Float high) {
    const Int lowest = sizeof(Int) == 8 ? Int(u64(1) << 63) : Int(low);
    const Int highest = sizeof(Int) == 8 ? Int(~u64(0) >> 1) : Int(high);
    const Float whole = round_to_even(x);
    if (!(whole > low)) return x != x ? Int(0) : lowest;
    return whole >= high ? highest : Int(whole);
}

template <typename Float>
__device__ __forceinline__ i64 to_i64(Float x) {
    const Float edge = Float(9223372036854775808.0);  // 2^63
    return saturated<i64, Float>(x, -edge, edge);
}

__device__ __forceinline__ i32 to_i32(f64 x) { return saturated<i32, f64>(x, -2147483648.0, 2147483647.0); }

// binary32 has no 2^31 - 1: what is not below 2^31 becomes that. Not by way of binary64, which is slow on many devices.
__device__ __forceinline__ i32 to_i32(f32 x) {
    const f32 edge = 2147483648.0f, whole = round_to_even(x);
    if (!(whole > -edge)) return x != x ? 0 : -2147483647 - 1;
    return whole >= edge ? 2147483647 : i32(whole);
}

template <typename Float>
__device__ __forceinline__ u8 to_i8(Float x) {
    return u8(saturated<i32, Float>(x, Float(-128), Float(127)));
}

template <typename Float>
__device__ __forceinline__ u8 to_u8(Float x) {
    return u8(saturated<i32, Float>(x, Float(0), Float(255)));
}

// The bits of `x` in a format of EXP exponent and MAN mantissa bits: nearest even, clipped to `largest`.
template <u32 EXP, u32 MAN>
__device__ __forceinline__ u32 encode(f32 x, u32 largest) {
    const u32 bias = (1u << (EXP - 1)) - 1;
    const u32 shift = 23 - MAN;
    const u32 magnitude = bits_of<u32>(x) & 0x7fffffffu;
    const u32 sign = (bits_of<u32>(x) >> 31) << (EXP + MAN);
    // Normal results: round the mantissa (a carry moves into the exponent, as it should), then rebias.
    const u32 rounded = (magnitude + (1u << (shift - 1)) - 1 + ((magnitude >> shift) & 1)) >> shift;
    const u32 normal = rounded - ((127 - bias) << MAN);
    // Subnormal results: adding a number whose unit in the last place is the smallest subnormal rounds.
    const u32 magic = (127 + 1 - bias + shift) << 23;
    const u32 subnormal = bits_of<u32>(sum(bits_of<f32>(magnitude), bits_of<f32>(magic))) - magic;
    const u32 finite = magnitude < ((127 + 1 - bias) << 23) ? subnormal : normal;
    const u32 clipped = finite < largest ? finite : largest;
    return magnitude > 0x7f800000u ? (1u << (EXP + MAN)) - 1 : sign | clipped;
}

// The value of `bits` in a format of EXP exponent and MAN mantissa bits. SPECIAL: the largest exponent stands
// for infinity and NaN.
template <u32 EXP, u32 MAN, bool SPECIAL>
__device__ __forceinline__ f32 decode(u32 bits) {
    const u32 bias = (1u << (EXP - 1)) - 1;
    const u32 rebias = (127 - bias) << 23;
    const u32 smallest_normal = 1u << 23;
    const u32 infinity = ((1u << EXP) - 1) << 23;
    const u32 sign = (bits >> (EXP + MAN)) << 31;
    const u32 magnitude = (bits & ((1u << (EXP + MAN)) - 1)) << (23 - MAN);
    const u32 normal = magnitude + rebias;
    // Reads the mantissa as if it had a leading one and takes that one away again: exact.
    const f32 shifted = bits_of<f32>(normal + smallest_normal);
    const u32 subnormal = bits_of<u32>(sum(shifted, -bits_of<f32>(rebias + smallest_normal)));
    const u32 special = normal + rebias;
    const u32 finite = magnitude < smallest_normal ? subnormal : normal;
    return bits_of<f32>(sign | (SPECIAL && magnitude >= infinity ? special : finite));
}

#if defined(CPU_EMU)
inline f32 from_f16(u32 x) { return decode<5, 10, true>(x); }
inline u16 to_f16(f32 x) { return u16(encode<5, 10>(x, 0x7c00)); }
#else
// The instructions agree with encode and decode in every bit, but for the payload of a NaN read, which nothing shows.
__device__ __forceinline__ f32 from_f16(u32 x) {
    f32 value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(u16(x)));
    return value;
}
__device__ __forceinline__ u16 to_f16(f32 x) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#endif
__device__ __forceinline__ f32 from_bf16(u32 x) { return bits_of<f32>(x << 16); }
__device__ __forceinline__ f32 from_e5m2(u32 x) { return decode<5, 2, true>(x); }
__device__ __forceinline__ f32 from_e4m3(u32 x) {
    return (x & 0x7f) == 0x7f ? bits_of<f32>(0x7fffffffu) : decode<4, 3, false>(x);
}

__device__ __forceinline__ u16 to_bf16(f32 x) {
    const u32 bits = bits_of<u32>(x);
    const u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fff : u16(rounded);
}
__device__ __forceinline__ u8 to_e4m3(f32 x) { return u8(encode<4, 3>(x, 0x7e)); }
__device__ __forceinline__ u8 to_e5m2(f32 x) { return u8(encode<5, 2>(x, 0x7b)); }

__device__ __forceinline__ u32 canonical(f32 x) { return x != x ? 0x7fffffffu : bits_of<u32>(x); }
__device__ __forceinline__ u64 canonical(f64 x) { return x != x ? 0x7fffffffffffffffull : bits_of<u64>(x); }

// binary64 to binary32, rounded to odd: truncated, with the last bit set when anything was cut off. Rounding
// the result to nearest even in a type at least two bits narrower equals rounding `x` itself.
__device__ __forceinline__ f32 round_to_odd(f64 x) {
    const f32 nearest = f32(x);
    const f64 back = f64(nearest);
    const f64 size = x < 0 ? -x : x;
    const u32 truncated = bits_of<u32>(nearest) - u32((back < 0 ? -back : back) > size);
    // NaN differs from itself and gets a bit it may already have: still NaN.
    return bits_of<f32>(truncated | u32(back != x));
}

// An integer as a binary64 that rounds like the integer in every type narrower than 40 bits of mantissa.
__device__ __forceinline__ f64 sticky_f64(i64 x) {
    const u64 size = x < 0 ? 0 - u64(x) : u64(x);
    const i64 cut = (x & ~i64(0x3ff)) | (i64((x & 0x3ff) != 0) << 10);
    return f64((size >> 53) == 0 ? x : cut);
}

template <typename T>
__device__ __forceinline__ T at(const char *p) {
    return *reinterpret_cast<const T *>(p);
}
template <typename T>
__device__ __forceinline__ void put(char *p, T x) {
    *reinterpret_cast<T *>(p) = x;
}

// Bytes of one scalar.
__device__ __forceinline__ u32 size_of(u32 scalar) {
    switch (scalar) {
    case F64:
    case I64: return 8;
    case F32:
    case I32: return 4;
    case F16:
    case BF16: return 2;
    default: return 1;
    }
}

template <typename Unit, typename Bits, u32 N, typename From>
__device__ __forceinline__ void fetch_units(const From (&from)[N], u32 wanted, Bits (&bits)[N]) {
#pragma unroll
    for (u32 i = 0; i < N; ++i) bits[i] = wanted >> i & 1 ? Bits(at<Unit>(from[i])) : Bits(0);
}

// The bits of those of N elements that are wanted, all of them loaded before the first is looked at: the memory's latency
// is paid once.
template <typename Bits, u32 N, typename From>
__device__ __forceinline__ void fetch(u32 scalar, const From (&from)[N], Bits (&bits)[N], u32 wanted = ~0u) {
    switch (size_of(scalar)) {
    case 8: return fetch_units<u64>(from, wanted, bits);
    case 4: return fetch_units<u32>(from, wanted, bits);
    case 2: return fetch_units<u16>(from, wanted, bits);
    default: fetch_units<u8>(from, wanted, bits);
    }
}

// The bits of N elements of any type, for what is computed in T.
template <typename T, u32 N>
struct Held {
    u64 bits[N] = {};

    template <typename From>
    __device__ __forceinline__ void load(u32 scalar, const From (&from)[N], u32 wanted) {
        fetch(scalar, from, bits, wanted);
    }
    __device__ __forceinline__ u64 operator[](u32 i) const { return bits[i]; }
};

// In halves, which are put together when all that is loaded beside them is there: to widen a number is to wait for it, and
// most elements are narrow.
template <u32 N>
struct Held<f32, N> {
    u32 low[N] = {}, high[N] = {};

    template <typename From>
    __device__ __forceinline__ void load(u32 scalar, const From (&from)[N], u32 wanted) {
        if (size_of(scalar) < 8) return fetch(scalar, from, low, wanted);
#pragma unroll
        for (u32 i = 0; i < N; ++i) {
            const u64 bits = wanted >> i & 1 ? at<u64>(from[i]) : 0;
            low[i] = u32(bits);
            high[i] = u32(bits >> 32);
        }
    }
    __device__ __forceinline__ u64 operator[](u32 i) const { return u64(high[i]) << 32 | low[i]; }
};

// Bits as a binary32. For the types that binary32 holds.
__device__ __forceinline__ f32 value_f32(u32 scalar, u32 bits) {
    switch (scalar) {
    case F32: return bits_of<f32>(bits);
    case F16: return from_f16(bits);
    case BF16: return from_bf16(bits);
    case I8: return f32(i8(bits));
    case U8: return f32(u8(bits));
    case BOOL: return f32(u8(bits) != 0);
    case E4M3: return from_e4m3(bits);
    default: return from_e5m2(bits);
    }
}

// Bits as a binary64; a long integer is rounded to nearest even.
__device__ __forceinline__ f64 value_f64(u32 scalar, u64 bits) {
    switch (scalar) {
    case F64: return bits_of<f64>(bits);
    case I32: return f64(i32(u32(bits)));
    case I64: return f64(i64(bits));
    default: return f64(value_f32(scalar, u32(bits)));
    }
}

// Values as binary32. For the types that binary32 holds.
__device__ __forceinline__ f32 load_f32(u32 scalar, const char *p) {
    switch (scalar) {
    case F32: return at<f32>(p);
    case F16: return from_f16(at<u16>(p));
    case BF16: return from_bf16(at<u16>(p));
    case I8: return f32(at<i8>(p));
    case U8: return f32(at<u8>(p));
    case BOOL: return f32(at<u8>(p) != 0);
    case E4M3: return from_e4m3(at<u8>(p));
    default: return from_e5m2(at<u8>(p));
    }
}

// Values as binary64; a long integer is rounded to nearest even.
__device__ __forceinline__ f64 load_f64(u32 scalar, const char *p) {
    switch (scalar) {
    case F64: return at<f64>(p);
    case I32: return f64(at<i32>(p));
    case I64: return f64(at<i64>(p));
    default: return f64(load_f32(scalar, p));
    }
}

// Bits as a 64-bit integer. For the integer types.
__device__ __forceinline__ i64 value_i64(u32 scalar, u64 bits) {
    switch (scalar) {
    case I8: return i8(bits);
    case U8: return u8(bits);
    case I32: return i32(u32(bits));
    case BOOL: return u8(bits) != 0;
    default: return i64(bits);
    }
}

// Values as 64-bit integers. For the integer types.
__device__ __forceinline__ i64 load_i64(u32 scalar, const char *p) {
    switch (scalar) {
    case I8: return at<i8>(p);
    case U8: return at<u8>(p);
    case I32: return at<i32>(p);
    case BOOL: return at<u8>(p) != 0;
    default: return at<i64>(p);
    }
}

// The bits of a number in a type of at most four bytes that is no integer of four.
__device__ __forceinline__ u32 stored_bits(u32 scalar, f32 x) {
    switch (scalar) {
    case F32: return canonical(x);
    case F16: return to_f16(x);
    case BF16: return to_bf16(x);
    case I8: return to_i8(x);
    case U8: return to_u8(x);
    case BOOL: return x != 0;
    case E4M3: return to_e4m3(x);
    default: return to_e5m2(x);
    }
}

__device__ __forceinline__ void store_f32(u32 scalar, char *p, f32 x) {
    switch (scalar) {
    case F32: return put<u32>(p, canonical(x));
    case F64: return put<u64>(p, canonical(f64(x)));
    case F16: return put<u16>(p, to_f16(x));
    case BF16: return put<u16>(p, to_bf16(x));
    case I8: return put<u8>(p, to_i8(x));
    case U8: return put<u8>(p, to_u8(x));
    case I32: return put<i32>(p, to_i32(x));
    case I64: return put<i64>(p, to_i64(x));
    case BOOL: return put<u8>(p, x != 0);
    case E4M3: return put<u8>(p, to_e4m3(x));
    default: return put<u8>(p, to_e5m2(x));
    }
}

__device__ __forceinline__ void store_f64(u32 scalar, char *p, f64 x) {
    switch (scalar) {
    case F32: return put<u32>(p, canonical(f32(x)));
    case F64: return put<u64>(p, canonical(x));
    case I8: return put<u8>(p, to_i8(x));
    case U8: return put<u8>(p, to_u8(x));
    case I32: return put<i32>(p, to_i32(x));
    case I64: return put<i64>(p, to_i64(x));
    case BOOL: return put<u8>(p, x != 0);
    default: return store_f32(scalar, p, round_to_odd(x));  // F16, BF16, E4M3, E5M2
    }
}

template <typename Int>
__device__ __forceinline__ Int clamped(i64 x, i64 low, i64 high) {
    return Int(x < low ? low : x > high ? high : x);
}

__device__ __forceinline__ void store_i64(u32 scalar, char *p, i64 x) {
    switch (scalar) {
    case F32: return put<u32>(p, bits_of<u32>(f32(x)));
    case F64: return put<u64>(p, bits_of<u64>(f64(x)));
    case I8: return put<u8>(p, clamped<u8>(x, -128, 127));
    case U8: return put<u8>(p, clamped<u8>(x, 0, 255));
    case I32: return put<i32>(p, clamped<i32>(x, -2147483647 - 1, 2147483647));
    case I64: return put<i64>(p, x);
    case BOOL: return put<u8>(p, x != 0);
    default: return store_f32(scalar, p, round_to_odd(sticky_f64(x)));
    }
}

// The first half of an element: the bits of x, widened and scaled. Nothing of the destination.
__device__ __forceinline__ u64 widened(const Operation &operation, u64 x) {
    switch (operation.via) {
    case VIA_NOTHING: return x;
    case VIA_I64: return u64(value_i64(operation.src, x));
    case VIA_F32: {
        const f32 value = value_f32(operation.src, u32(x));
        return bits_of<u32>(operation.steps & SCALED ? product(f32(operation.alpha), value) : value);
    }
    default: {
        const f64 value = value_f64(operation.src, x);
        return bits_of<u64>(operation.steps & SCALED ? product(operation.alpha, value) : value);
    }
    }
}

// The second half: y = convert(held + beta * old); the bits of the old y count if the operation blends.
__device__ __forceinline__ void write_over(const Operation &operation, char *y, u64 held, u64 old) {
    switch (operation.via) {
    case VIA_NOTHING:
        switch (size_of(operation.dst)) {
        case 8: return put<u64>(y, held);
        case 4: return put<u32>(y, u32(held));
        case 2: return put<u16>(y, u16(held));
        default: return put<u8>(y, u8(held));
        }
    case VIA_I64: return store_i64(operation.dst, y, i64(held));
    case VIA_F32: {
        f32 value = bits_of<f32>(u32(held));
        if (operation.steps & BLENDED) value = sum(value, product(f32(operation.beta), value_f32(operation.dst, u32(old))));
        return store_f32(operation.dst, y, value);
    }
    default: {
        f64 value = bits_of<f64>(held);
        if (operation.steps & BLENDED) value = sum(value, product(operation.beta, value_f64(operation.dst, old)));
        return store_f64(operation.dst, y, value);
    }
    }
}

// The bits of an element.
__device__ __forceinline__ u64 bits_at(u32 scalar, const char *p) {
    switch (size_of(scalar)) {
    case 8: return at<u64>(p);
    case 4: return at<u32>(p);
    case 2: return at<u16>(p);
    default: return at<u8>(p);
    }
}

__device__ __forceinline__ u64 read_element(const Operation &operation, const char *x) {
    return widened(operation, bits_at(operation.src, x));
}
__device__ __forceinline__ void write_element(const Operation &operation, char *y, u64 held) {
    write_over(operation, y, held, operation.steps & BLENDED ? bits_at(operation.dst, y) : 0);
}

// N elements that are wanted: all that is read is loaded before the first is computed.
template <typename Bits, u32 N>
__device__ __forceinline__ void compute_all(const Operation &operation, char *const (&y)[N], const char *const (&x)[N], u32 wanted) {
    Bits held[N], old[N] = {};
    fetch(operation.src, x, held, wanted);
    if (operation.steps & BLENDED) fetch(operation.dst, y, old, wanted);
#pragma unroll
    for (u32 i = 0; i < N; ++i) {
        if (wanted >> i & 1) write_over(operation, y[i], widened(operation, held[i]), old[i]);
    }
}

// y = convert(alpha * x + beta * y), or a plain conversion, or a move.
__device__ __forceinline__ void compute(const Operation &operation, char *y, const char *x) {
    write_element(operation, y, read_element(operation, x));
}

// y = convert(beta * y), of an operation whose types are both the destination's.
__device__ __forceinline__ void fill(const Operation &operation, char *y) {
    if (!(operation.steps & BLENDED)) {
        switch (size_of(operation.dst)) {
        case 8: return put<u64>(y, 0);
        case 4: return put<u32>(y, 0);
        case 2: return put<u16>(y, 0);
        default: return put<u8>(y, 0);
        }
    }
    if (operation.beta == 1) return;
    if (operation.via == VIA_F32) {
        return store_f32(operation.dst, y, product(f32(operation.beta), load_f32(operation.dst, y)));
    }
    store_f64(operation.dst, y, product(operation.beta, load_f64(operation.dst, y)));
}
