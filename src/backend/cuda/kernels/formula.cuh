// The words of the formulas in `ops/function.rs`: `backend/formula.rs`, to the same bits.
#pragma once

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
