// The words of the formulas in `ops/function.rs`: `backend/formula.rs`, to the same bits.
#pragma once

#include "angles.cuh"
#include "function.cuh"
#include "math.cuh"

template <typename T>
__device__ __forceinline__ Rounded<T> zero(Rounded<T>) {
    return {T(0)};
}
template <typename T>
__device__ __forceinline__ Rounded<T> one(Rounded<T>) {
    return {T(1)};
}
template <typename T>
__device__ __forceinline__ bool less_or_equal(Rounded<T> x, Rounded<T> y) {
    return x <= y;
}
template <typename T>
__device__ __forceinline__ bool greater(Rounded<T> x, Rounded<T> y) {
    return x > y;
}
template <typename T>
__device__ __forceinline__ Rounded<T> choose(bool condition, Rounded<T> yes, Rounded<T> no) {
    return condition ? yes : no;
}
template <typename T>
__device__ __forceinline__ Rounded<T> below(Rounded<T> x, Rounded<T> bound) {
    return choose(greater(x, bound), bound, x);
}
template <typename T>
__device__ __forceinline__ Rounded<T> root(Rounded<T> x) {
    return {root(x.value)};
}
template <typename T>
__device__ __forceinline__ Rounded<T> least_number(Rounded<T> x, Rounded<T> y) {
    return {minimum(x.value, y.value, false)};
}
template <typename T>
__device__ __forceinline__ Rounded<T> least_or_nan(Rounded<T> x, Rounded<T> y) {
    return {minimum(x.value, y.value, true)};
}
template <typename T>
__device__ __forceinline__ Rounded<T> greatest_number(Rounded<T> x, Rounded<T> y) {
    return {maximum(x.value, y.value, false)};
}
template <typename T>
__device__ __forceinline__ Rounded<T> greatest_or_nan(Rounded<T> x, Rounded<T> y) {
    return {maximum(x.value, y.value, true)};
}
// The derivative of x s with s the sigmoid of b x.
template <typename T>
__device__ __forceinline__ Rounded<T> swish_slope(Rounded<T> x, Rounded<T> b, Rounded<T> s) {
    return s + b * x * (s * (one(s) - s));
}
// The derivative of the sigmoid, from its result.
template <typename T>
__device__ __forceinline__ Rounded<T> gate_slope(Rounded<T> s) {
    return s * (one(s) - s);
}
// The derivative of the hyperbolic tangent, from its result.
template <typename T>
__device__ __forceinline__ Rounded<T> tanh_slope(Rounded<T> t) {
    return one(t) - t * t;
}
template <typename T>
__device__ __forceinline__ bool equal(Rounded<T> x, Rounded<T> y) {
    return x == y;
}
template <typename T>
__device__ __forceinline__ Rounded<T> floor(Rounded<T> x) {
    const Rounded<T> bound = Rounded<T>{Math<T>::shifter()} / number<T>(1.5), size = without_sign(x);
    const Rounded<T> nearest = signed_as((size + bound) - bound, x);
    const Rounded<T> result = nearest > x ? nearest - one(x) : nearest;
    return bound > size ? result : x;
}
template <typename T>
__device__ __forceinline__ Rounded<T> sine(Rounded<T> x) {
    return {T(sine_of(f64(x.value)))};
}
template <typename T>
__device__ __forceinline__ Rounded<T> cosine(Rounded<T> x) {
    return {T(cosine_of(f64(x.value)))};
}
template <typename T>
__device__ __forceinline__ Rounded<T> tangent(Rounded<T> x) {
    return {T(tangent_of(f64(x.value)))};
}
template <typename T>
__device__ __forceinline__ Rounded<T> angle(Rounded<T> y, Rounded<T> x) {
    return {T(angle_of(f64(y.value), f64(x.value)))};
}
template <typename T>
__device__ __forceinline__ Rounded<T> remainder(Rounded<T> x, Rounded<T> y) {
    return {T(remainder_of(f64(x.value), f64(y.value)))};
}
template <typename T>
__device__ FUSED Rounded<T> floor_remainder(Rounded<T> x, Rounded<T> y) {
    const Rounded<T> left = remainder(x, y);
    const bool other_sign = (zero(x) > left && y > zero(y)) || (left > zero(x) && zero(y) > y);
    return left == zero(left) ? signed_as(left, y) : other_sign ? left + y : left;
}
// x to the power of y, of any sign.
template <typename T>
__device__ FUSED Rounded<T> powered(Rounded<T> x, Rounded<T> y) {
    const Rounded<T> size = without_sign(x), two = number<T>(2), infinity = {Math<T>::infinity()};
    Rounded<T> result = power(size, y);
    const bool is_integer = floor(y) == y, is_even = floor(y / two) * two == y, is_negative = is_signed(x);
    const bool has_none = zero(x) > x && infinity > size && infinity > without_sign(y);
    const Rounded<T> nan = {Math<T>::nan()};
    const Rounded<T> of_negative = is_integer ? is_even ? result : -result : has_none ? nan : result;
    if (is_negative) result = of_negative;
    if (size == one(x)) {
        result = is_negative && is_integer ? is_even ? one(x) : -one(x) : one(x);
        if (is_negative && has_none && !is_integer) result = nan;
    }
    if (x == one(x) || y == zero(y)) return one(x);
    return x == x && y == y ? result : nan;
}
template <typename T>
__device__ FUSED Rounded<T> gelu(Rounded<T> x) {
    return number<T>(0.5) * x * (one(x) + erf(x * number<T>(0.7071067811865476)));
}
template <typename T>
__device__ FUSED Rounded<T> gelu_slope(Rounded<T> x) {
    const Rounded<T> half = number<T>(0.5), share = half * (one(x) + erf(x * number<T>(0.7071067811865476)));
    return share + x * (number<T>(0.3989422804014327) * exp(-(half * x * x)));
}
template <typename T>
__device__ FUSED Rounded<T> gelu_tanh(Rounded<T> x) {
    return x * sigmoid(x * (number<T>(1.5957691216057308) + number<T>(0.07135481627260025) * x * x));
}
template <typename T>
__device__ FUSED Rounded<T> gelu_tanh_slope(Rounded<T> x) {
    const Rounded<T> s = sigmoid(x * (number<T>(1.5957691216057308) + number<T>(0.07135481627260025) * x * x));
    const Rounded<T> inner = number<T>(1.5957691216057308) + number<T>(0.21406444881780074) * x * x;
    const Rounded<T> both = s * (one(s) - s);
    return both == zero(s) ? s : s + x * inner * both;
}
