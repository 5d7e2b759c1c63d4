// Activations and their gradients along one run of memory: the function and the type are the kernel's, and the lanes of a vector are
// unrolled, so that a thread issues little more than its loads, its arithmetic and its stores. All else is formula_kernels.cuh's.
#include "formula.cuh"
#include "functions.cuh"
#include "general.cuh"
#include "half_functions.cuh"
#include "linear.cuh"

struct Activation {
    char *y;
    const char *a;  // x, or what the gradient is taken from
    const char *b;  // dy
    f64 parameter;
    u64 count;  // vectors of 16 bytes
};

static_assert(sizeof(Activation) == 40, "activation.rs has another Activation");

// Vectors of each operand that a thread loads before it computes the first; activation.rs counts blocks by the same number.
enum { VECTORS = 2 };

template <u32 FUNCTION, u32 SCALAR>
__device__ __forceinline__ f32 result_of(f32 a, f32 b, Rounded<f32> parameter) {
    if (FUNCTION == TANH && (SCALAR == F16 || SCALAR == BF16)) return half_tanh(a);
    if (FUNCTION == SIGMOID && (SCALAR == F16 || SCALAR == BF16)) return half_sigmoid<SCALAR>(a);
    const Rounded<f32> operands[5] = {{a}, {b}, {0}, {0}, {0}};
    return formula<f32>(FUNCTION, operands, parameter).value;
}

template <u32 FUNCTION, u32 SCALAR>
__device__ __forceinline__ Vector activated(const Vector &a, const Vector &b, Rounded<f32> parameter) {
    constexpr u32 size = width_of(SCALAR), mask = size == 4 ? 0xffffffff : size == 2 ? 0xffff : 0xff;
    Vector y = {{0, 0, 0, 0}};
#pragma unroll
    for (u32 lane = 0; lane < 16 / size; ++lane) {
        const u32 word = lane * size / 4, shift = lane * size % 4 * 8;
        const auto number = [&](const Vector &v) { return value_f32(SCALAR, v.word[word] >> shift & mask); };
        y.word[word] |= stored_bits(SCALAR, result_of<FUNCTION, SCALAR>(number(a), number(b), parameter)) << shift;
    }
    return y;
}

template <u32 FUNCTION, u32 SCALAR, u32 ARITY>
__device__ __forceinline__ void activate(const Activation &p) {
    const u32 first = blockIdx.x * (THREADS * VECTORS) + threadIdx.x, count = u32(p.count);
    const Rounded<f32> parameter = {f32(p.parameter)};
    Vector a[VECTORS] = {}, b[VECTORS] = {};
#pragma unroll
    for (u32 v = 0; v < VECTORS; ++v) {
        const u32 index = first + v * THREADS;
        if (index >= count) continue;
        a[v] = at<Vector>(p.a + u64(index) * 16);
        if (ARITY > 1) b[v] = at<Vector>(p.b + u64(index) * 16);
    }
#pragma unroll
    for (u32 v = 0; v < VECTORS; ++v) {
        const u32 index = first + v * THREADS;
        if (index < count) put<Vector>(p.y + u64(index) * 16, activated<FUNCTION, SCALAR>(a[v], b[v], parameter));
    }
}

#define ACTIVATION(name, function, arity)                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS) activation_##name##_f32(const Activation p) { \
        activate<function, F32, arity>(p);                                                           \
    }                                                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS) activation_##name##_f16(const Activation p) { \
        activate<function, F16, arity>(p);                                                           \
    }                                                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS) activation_##name##_bf16(const Activation p) { \
        activate<function, BF16, arity>(p);                                                          \
    }

// Of bytes only what comparisons compute.
#define ACTIVATION_OF_BYTES(name, function)                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) activation_##name##_s8(const Activation p) { \
        activate<function, I8, 1>(p);                                                                \
    }

ACTIVATION_OF_BYTES(relu, RELU)
ACTIVATION_OF_BYTES(relu_or_nan, RELU_OR_NAN)
ACTIVATION_OF_BYTES(clipped_relu, CLIPPED_RELU)
ACTIVATION_OF_BYTES(clipped_relu_or_nan, CLIPPED_RELU_OR_NAN)

ACTIVATION(relu, RELU, 1)
ACTIVATION(relu_or_nan, RELU_OR_NAN, 1)
ACTIVATION(relu_gradient, RELU_GRADIENT, 2)
ACTIVATION(relu_or_nan_gradient, RELU_OR_NAN_GRADIENT, 2)
ACTIVATION(clipped_relu, CLIPPED_RELU, 1)
ACTIVATION(clipped_relu_or_nan, CLIPPED_RELU_OR_NAN, 1)
ACTIVATION(clipped_relu_gradient, CLIPPED_RELU_GRADIENT, 2)
ACTIVATION(clipped_relu_or_nan_gradient, CLIPPED_RELU_OR_NAN_GRADIENT, 2)
ACTIVATION(sigmoid, SIGMOID, 1)
ACTIVATION(sigmoid_gradient, SIGMOID_GRADIENT, 2)
ACTIVATION(tanh, TANH, 1)
ACTIVATION(tanh_gradient, TANH_GRADIENT, 2)
