// The arithmetic of OpTensor and ReduceTensor on one pair of numbers: `backend/function.rs`, to the same bits.
#pragma once

#include "combiners.cuh"
#include "element.cuh"
#include "functions.cuh"

// What becomes of the joined number.
enum Finish : u32 { AS_IT_IS, MEAN, ROOT };

template <typename T>
struct Real;
template <>
struct Real<f32> {
    typedef u32 Bits;
    enum : u32 { SCALAR = F32 };
    static __device__ __forceinline__ f32 infinity() { return bits_of<f32>(0x7f800000u); }
    static __device__ __forceinline__ f32 nan() { return bits_of<f32>(0x7fffffffu); }
    static __device__ __forceinline__ f32 load(u32 scalar, const char *p) {
        switch (scalar) {
        case F64: return f32(at<f64>(p));
        case I32: return f32(at<i32>(p));
        case I64: return f32(at<i64>(p));
        default: return load_f32(scalar, p);
        }
    }
    // Of elements of at most 4 bytes.
    static __device__ __forceinline__ f32 value(u32 scalar, u32 bits) {
        return scalar == I32 ? f32(i32(bits)) : value_f32(scalar, bits);
    }
    static __device__ __forceinline__ f32 any(u32 scalar, u64 bits) {
        switch (scalar) {
        case F64: return f32(bits_of<f64>(bits));
        case I64: return f32(i64(bits));
        default: return value(scalar, u32(bits));
        }
    }
    static __device__ __forceinline__ void store(u32 scalar, char *p, f32 x) { store_f32(scalar, p, x); }
};
template <>
struct Real<f64> {
    typedef u64 Bits;
    enum : u32 { SCALAR = F64 };
    static __device__ __forceinline__ f64 infinity() { return bits_of<f64>(0x7ff0000000000000ull); }
    static __device__ __forceinline__ f64 nan() { return bits_of<f64>(0x7fffffffffffffffull); }
    static __device__ __forceinline__ f64 load(u32 scalar, const char *p) { return load_f64(scalar, p); }
    static __device__ __forceinline__ f64 value(u32 scalar, u64 bits) { return value_f64(scalar, bits); }
    static __device__ __forceinline__ f64 any(u32 scalar, u64 bits) { return value_f64(scalar, bits); }
    static __device__ __forceinline__ void store(u32 scalar, char *p, f64 x) { store_f64(scalar, p, x); }
};

template <typename T>
__device__ __forceinline__ T of_nans(T a, T b, T number, bool propagate) {
    if (b != b) number = propagate ? b : a;
    if (a != a) number = propagate ? a : b;
    return number;
}

// The smaller number, the negative one of two zeros: equal numbers have equal bits but for zeros.
template <typename T>
__device__ __forceinline__ T minimum(T a, T b, bool propagate) {
    typedef typename Real<T>::Bits Bits;
    const T smaller = a < b ? a : b < a ? b : bits_of<T>(Bits(bits_of<Bits>(a) | bits_of<Bits>(b)));
    return of_nans(a, b, smaller, propagate);
}

// The larger number, the positive one of two zeros.
template <typename T>
__device__ __forceinline__ T maximum(T a, T b, bool propagate) {
    typedef typename Real<T>::Bits Bits;
    const T larger = a > b ? a : b > a ? b : bits_of<T>(Bits(bits_of<Bits>(a) & bits_of<Bits>(b)));
    return of_nans(a, b, larger, propagate);
}

template <typename T>
__device__ __forceinline__ T magnitude(T x) {
    typedef typename Real<T>::Bits Bits;
    return bits_of<T>(Bits(bits_of<Bits>(x) & (~Bits(0) >> 1)));
}

template <typename T>
__device__ __forceinline__ T applied(u32 function, T x, T y) {
    switch (function) {
    case ADD: return sum(x, y);
    case MUL: return product(x, y);
    case MIN_NUMBER: return minimum(x, y, false);
    case MIN_OR_NAN: return minimum(x, y, true);
    case MAX_NUMBER: return maximum(x, y, false);
    case MAX_OR_NAN: return maximum(x, y, true);
    case SQRT: return root(x);
    case NOT: return sum(T(1), -x);
    case FIRST: return x;
    default: return -T(0);  // leaves every number it is added to as it is
    }
}

// What an element counts as.
template <typename T>
__device__ __forceinline__ T mapped(u32 fold, T x) {
    switch (fold) {
    case ABS_SUM:
    case ABS_GREATEST_NUMBER:
    case ABS_GREATEST_OR_NAN: return magnitude(x);
    case SQUARE_SUM: return product(x, x);
    case PRODUCT_NO_ZEROS: return x == 0 ? T(1) : x;
    default: return x;
    }
}

template <typename T>
__device__ __forceinline__ T joined(u32 fold, T a, T b) {
    switch (fold) {
    case SUM:
    case ABS_SUM:
    case SQUARE_SUM: return sum(a, b);
    case PRODUCT:
    case PRODUCT_NO_ZEROS: return product(a, b);
    case LEAST_NUMBER: return minimum(a, b, false);
    case LEAST_OR_NAN: return minimum(a, b, true);
    case GREATEST_NUMBER:
    case ABS_GREATEST_NUMBER: return maximum(a, b, false);
    default: return maximum(a, b, true);
    }
}

// What joins without effect.
template <typename T>
__device__ __forceinline__ T identity_of(u32 fold) {
    switch (fold) {
    case SUM:
    case ABS_SUM:
    case SQUARE_SUM: return -T(0);
    case PRODUCT:
    case PRODUCT_NO_ZEROS: return T(1);
    case LEAST_OR_NAN: return Real<T>::infinity();
    case GREATEST_OR_NAN:
    case ABS_GREATEST_OR_NAN: return -Real<T>::infinity();
    default: return Real<T>::nan();
    }
}
