// The table of `ops/function.rs`, written by `tests/basics/functions.rs`; do not edit.
#pragma once

#include "math.cuh"

enum Function : u32 {
    ADD,
    MUL,
    MIN_NUMBER,
    MIN_OR_NAN,
    MAX_NUMBER,
    MAX_OR_NAN,
    SQRT,
    NOT,
    FIRST,
    NOTHING,
    SIGMOID,
    SIGMOID_GRADIENT,
    TANH,
    TANH_GRADIENT,
    RELU,
    RELU_OR_NAN,
    RELU_GRADIENT,
    RELU_OR_NAN_GRADIENT,
    CLIPPED_RELU,
    CLIPPED_RELU_OR_NAN,
    CLIPPED_RELU_GRADIENT,
    CLIPPED_RELU_OR_NAN_GRADIENT,
    ELU,
    ELU_GRADIENT,
    SWISH,
    SWISH_GRADIENT,
    SOFTPLUS,
    ERF,
    EXP,
    LOG,
    NORMALISE,
    GATE,
    GATE_GRADIENT,
    TANH_GATE,
    TANH_GATE_GRADIENT,
    GATED_TANH_GRADIENT,
    LSTM_CELL,
    LSTM_CELL_GRADIENT,
    GRU_MEMORY,
    GRU_STATE,
    GRU_GATE_GRADIENT,
    GRU_MEMORY_GRADIENT,
    CLIP_NUMBER,
    CLIP_OR_NAN,
    CLIP_GRADIENT,
    DIV,
    ADD_SQUARE,
    REMAINDER,
    FLOOR_REMAINDER,
    POWER,
    FLOOR,
    CEIL,
    RECIPROCAL,
    RECIPROCAL_ROOT,
    SIN,
    COS,
    TAN,
    ATAN2,
    EQUAL,
    NOT_EQUAL,
    LESS,
    LESS_OR_EQUAL,
    AND,
    OR,
    IS_ZERO,
    SELECT,
    GELU,
    GELU_GRADIENT,
    GELU_TANH,
    GELU_TANH_GRADIENT,
    BOUNDED_RELU,
    BOUNDED_RELU_GRADIENT,
    EXP_DIFFERENCE,
    AFFINE,
    CENTRED,
    NORM_BACKWARD,
};

// The words of the formulas come later, in formula.cuh: they are looked up when this is used.
template <typename T>
__device__ __forceinline__ Rounded<T> formula(u32 function, const Rounded<T> (&operands)[5], Rounded<T> parameter) {
    switch (function) {
    case ADD: {
        const Rounded<T> x = operands[0], y = operands[1];
        return x + y;
    }
    case MUL: {
        const Rounded<T> x = operands[0], y = operands[1];
        return x * y;
    }
    case MIN_NUMBER: {
        const Rounded<T> x = operands[0], y = operands[1];
        return least_number(x, y);
    }
    case MIN_OR_NAN: {
        const Rounded<T> x = operands[0], y = operands[1];
        return least_or_nan(x, y);
    }
    case MAX_NUMBER: {
        const Rounded<T> x = operands[0], y = operands[1];
        return greatest_number(x, y);
    }
    case MAX_OR_NAN: {
        const Rounded<T> x = operands[0], y = operands[1];
        return greatest_or_nan(x, y);
    }
    case SQRT: {
        const Rounded<T> x = operands[0];
        return root(x);
    }
    case NOT: {
        const Rounded<T> x = operands[0];
        return one(x) - x;
    }
    case FIRST: {
        const Rounded<T> x = operands[0];
        return x;
    }
    case NOTHING: {
        return nothing<T>();
    }
    case SIGMOID: {
        const Rounded<T> x = operands[0];
        return sigmoid(x);
    }
    case SIGMOID_GRADIENT: {
        const Rounded<T> x = operands[0], dy = operands[1];
        return dy * (x * (one(x) - x));
    }
    case TANH: {
        const Rounded<T> x = operands[0];
        return tanh(x);
    }
    case TANH_GRADIENT: {
        const Rounded<T> x = operands[0], dy = operands[1];
        return dy * (one(x) - x * x);
    }
    case RELU: {
        const Rounded<T> x = operands[0];
        return choose(greater(x, zero(x)), x, zero(x));
    }
    case RELU_OR_NAN: {
        const Rounded<T> x = operands[0];
        return choose(less_or_equal(x, zero(x)), zero(x), x);
    }
    case RELU_GRADIENT: {
        const Rounded<T> x = operands[0], dy = operands[1];
        return choose(greater(x, zero(x)), dy, zero(x));
    }
    case RELU_OR_NAN_GRADIENT: {
        const Rounded<T> x = operands[0], dy = operands[1];
        return choose(less_or_equal(x, zero(x)), zero(x), dy);
    }
    case CLIPPED_RELU: {
        const Rounded<T> x = operands[0];
        const Rounded<T> c = parameter;
        return below(choose(greater(x, zero(x)), x, zero(x)), c);
    }
    case CLIPPED_RELU_OR_NAN: {
        const Rounded<T> x = operands[0];
        const Rounded<T> c = parameter;
        return below(choose(less_or_equal(x, zero(x)), zero(x), x), c);
    }
    case CLIPPED_RELU_GRADIENT: {
        const Rounded<T> x = operands[0], dy = operands[1];
        const Rounded<T> c = parameter;
        return choose(greater(x, zero(x)) & less_or_equal(x, c), dy, zero(x));
    }
    case CLIPPED_RELU_OR_NAN_GRADIENT: {
        const Rounded<T> x = operands[0], dy = operands[1];
        const Rounded<T> c = parameter;
        return choose(less_or_equal(x, zero(x)) | greater(x, c), zero(x), dy);
    }
    case ELU: {
        const Rounded<T> x = operands[0];
        const Rounded<T> c = parameter;
        return choose(greater(x, zero(x)), x, c * expm1(x));
    }
    case ELU_GRADIENT: {
        const Rounded<T> x = operands[0], dy = operands[1];
        const Rounded<T> c = parameter;
        return choose(greater(x, zero(x)), dy, dy * (x + c));
    }
    case SWISH: {
        const Rounded<T> x = operands[0];
        const Rounded<T> b = parameter;
        return x * sigmoid(b * x);
    }
    case SWISH_GRADIENT: {
        const Rounded<T> x = operands[0], dy = operands[1];
        const Rounded<T> b = parameter;
        return dy * swish_slope(x, b, sigmoid(b * x));
    }
    case SOFTPLUS: {
        const Rounded<T> x = operands[0];
        return softplus(x);
    }
    case ERF: {
        const Rounded<T> x = operands[0];
        return erf(x);
    }
    case EXP: {
        const Rounded<T> x = operands[0];
        return exp(x);
    }
    case LOG: {
        const Rounded<T> x = operands[0];
        return log(x);
    }
    case NORMALISE: {
        const Rounded<T> x = operands[0], mean = operands[1], variance = operands[2], scale = operands[3], bias = operands[4];
        const Rounded<T> epsilon = parameter;
        return (x - mean) * (scale / root(variance + epsilon)) + bias;
    }
    case GATE: {
        const Rounded<T> x = operands[0], y = operands[1];
        return sigmoid(x) * y;
    }
    case GATE_GRADIENT: {
        const Rounded<T> x = operands[0], y = operands[1], d = operands[2];
        return d * y * gate_slope(sigmoid(x));
    }
    case TANH_GATE: {
        const Rounded<T> x = operands[0], y = operands[1];
        return sigmoid(x) * tanh(y);
    }
    case TANH_GATE_GRADIENT: {
        const Rounded<T> x = operands[0], y = operands[1], d = operands[2];
        return d * tanh(y) * gate_slope(sigmoid(x));
    }
    case GATED_TANH_GRADIENT: {
        const Rounded<T> x = operands[0], y = operands[1], d = operands[2];
        return d * sigmoid(x) * tanh_slope(tanh(y));
    }
    case LSTM_CELL: {
        const Rounded<T> i = operands[0], f = operands[1], g = operands[2], c = operands[3];
        return sigmoid(f) * c + sigmoid(i) * tanh(g);
    }
    case LSTM_CELL_GRADIENT: {
        const Rounded<T> o = operands[0], c = operands[1], dh = operands[2], dc = operands[3];
        return dc + dh * sigmoid(o) * tanh_slope(tanh(c));
    }
    case GRU_MEMORY: {
        const Rounded<T> x = operands[0], r = operands[1], h = operands[2];
        return tanh(x + sigmoid(r) * h);
    }
    case GRU_STATE: {
        const Rounded<T> i = operands[0], n = operands[1], h = operands[2];
        return (one(i) - sigmoid(i)) * n + sigmoid(i) * h;
    }
    case GRU_GATE_GRADIENT: {
        const Rounded<T> i = operands[0], n = operands[1], h = operands[2], d = operands[3];
        return d * (h - n) * gate_slope(sigmoid(i));
    }
    case GRU_MEMORY_GRADIENT: {
        const Rounded<T> i = operands[0], n = operands[1], d = operands[2];
        return d * (one(i) - sigmoid(i)) * tanh_slope(n);
    }
    case CLIP_NUMBER: {
        const Rounded<T> x = operands[0], lower = operands[1], upper = operands[2];
        return below(choose(greater(x, lower), x, lower), upper);
    }
    case CLIP_OR_NAN: {
        const Rounded<T> x = operands[0], lower = operands[1], upper = operands[2];
        return below(choose(greater(lower, x), lower, x), upper);
    }
    case CLIP_GRADIENT: {
        const Rounded<T> x = operands[0], lower = operands[1], upper = operands[2], d = operands[3];
        return choose(less_or_equal(lower, x) & less_or_equal(x, upper), d, zero(x));
    }
    default: return {T(0)};
    }
}

template <typename T>
__device__ __forceinline__ Rounded<T> graph_formula(u32 function, const Rounded<T> (&operands)[5], Rounded<T> parameter) {
    switch (function) {
    case DIV: {
        const Rounded<T> x = operands[0], y = operands[1];
        return x / y;
    }
    case ADD_SQUARE: {
        const Rounded<T> x = operands[0], y = operands[1];
        return x + y * y;
    }
    case REMAINDER: {
        const Rounded<T> x = operands[0], y = operands[1];
        return remainder(x, y);
    }
    case FLOOR_REMAINDER: {
        const Rounded<T> x = operands[0], y = operands[1];
        return floor_remainder(x, y);
    }
    case POWER: {
        const Rounded<T> x = operands[0], y = operands[1];
        return powered(x, y);
    }
    case FLOOR: {
        const Rounded<T> x = operands[0];
        return floor(x);
    }
    case CEIL: {
        const Rounded<T> x = operands[0];
        return - floor(- x);
    }
    case RECIPROCAL: {
        const Rounded<T> x = operands[0];
        return one(x) / x;
    }
    case RECIPROCAL_ROOT: {
        const Rounded<T> x = operands[0];
        return one(x) / root(x);
    }
    case SIN: {
        const Rounded<T> x = operands[0];
        return sine(x);
    }
    case COS: {
        const Rounded<T> x = operands[0];
        return cosine(x);
    }
    case TAN: {
        const Rounded<T> x = operands[0];
        return tangent(x);
    }
    case ATAN2: {
        const Rounded<T> x = operands[0], y = operands[1];
        return angle(x, y);
    }
    case EQUAL: {
        const Rounded<T> x = operands[0], y = operands[1];
        return choose(equal(x, y), one(x), zero(x));
    }
    case NOT_EQUAL: {
        const Rounded<T> x = operands[0], y = operands[1];
        return choose(equal(x, y), zero(x), one(x));
    }
    case LESS: {
        const Rounded<T> x = operands[0], y = operands[1];
        return choose(greater(y, x), one(x), zero(x));
    }
    case LESS_OR_EQUAL: {
        const Rounded<T> x = operands[0], y = operands[1];
        return choose(less_or_equal(x, y), one(x), zero(x));
    }
    case AND: {
        const Rounded<T> x = operands[0], y = operands[1];
        return choose(equal(x, zero(x)) | equal(y, zero(y)), zero(x), one(x));
    }
    case OR: {
        const Rounded<T> x = operands[0], y = operands[1];
        return choose(equal(x, zero(x)) & equal(y, zero(y)), zero(x), one(x));
    }
    case IS_ZERO: {
        const Rounded<T> x = operands[0];
        return choose(equal(x, zero(x)), one(x), zero(x));
    }
    case SELECT: {
        const Rounded<T> x = operands[0], y = operands[1], t = operands[2];
        return choose(equal(t, zero(t)), y, x);
    }
    case GELU: {
        const Rounded<T> x = operands[0];
        return gelu(x);
    }
    case GELU_GRADIENT: {
        const Rounded<T> x = operands[0], dy = operands[1];
        return dy * gelu_slope(x);
    }
    case GELU_TANH: {
        const Rounded<T> x = operands[0];
        return gelu_tanh(x);
    }
    case GELU_TANH_GRADIENT: {
        const Rounded<T> x = operands[0], dy = operands[1];
        return dy * gelu_tanh_slope(x);
    }
    case BOUNDED_RELU: {
        const Rounded<T> x = operands[0], low = operands[1], high = operands[2], slope = operands[3];
        return choose(greater(low, x), low + slope * (x - low), below(x, high));
    }
    case BOUNDED_RELU_GRADIENT: {
        const Rounded<T> x = operands[0], dy = operands[1], low = operands[2], high = operands[3], slope = operands[4];
        return choose(greater(x, high), zero(x), choose(less_or_equal(x, low), slope * dy, dy));
    }
    case EXP_DIFFERENCE: {
        const Rounded<T> x = operands[0], y = operands[1];
        return exp(x - y);
    }
    case AFFINE: {
        const Rounded<T> x = operands[0], a = operands[1], b = operands[2], c = operands[3];
        return x * a * b + c;
    }
    case CENTRED: {
        const Rounded<T> x = operands[0], mean = operands[1], a = operands[2];
        return (x - mean) * a;
    }
    case NORM_BACKWARD: {
        const Rounded<T> d = operands[0], x = operands[1], a = operands[2], b = operands[3], c = operands[4];
        return (d - x * a - b) * c;
    }
    default: return {T(0)};
    }
}

// An activation and its slope.
template <typename T>
struct Activated {
    Rounded<T> result, slope;
};

template <typename T>
__device__ __forceinline__ Activated<T> short_activation(u32 function, Rounded<T> x, Rounded<T> parameter) {
    switch (function) {
    case RELU: {
        const Rounded<T> y = choose(greater(x, zero(x)), x, zero(x));
        return {y, choose(greater(x, zero(x)), one(y), zero(y))};
    }
    case RELU_OR_NAN: {
        const Rounded<T> y = choose(less_or_equal(x, zero(x)), zero(x), x);
        return {y, choose(less_or_equal(x, zero(x)), zero(y), one(y))};
    }
    case CLIPPED_RELU: {
        const Rounded<T> c = parameter;
        const Rounded<T> y = below(choose(greater(x, zero(x)), x, zero(x)), c);
        return {y, choose(greater(x, zero(x)) & less_or_equal(x, c), one(y), zero(y))};
    }
    case CLIPPED_RELU_OR_NAN: {
        const Rounded<T> c = parameter;
        const Rounded<T> y = below(choose(less_or_equal(x, zero(x)), zero(x), x), c);
        return {y, choose(less_or_equal(x, zero(x)) | greater(x, c), zero(y), one(y))};
    }
    default: return {x, one(x)};
    }
}

template <typename T>
__device__ __forceinline__ Activated<T> long_activation(u32 function, Rounded<T> x, Rounded<T> parameter) {
    switch (function) {
    case SIGMOID: {
        const Rounded<T> y = sigmoid(x);
        return {y, y * (one(y) - y)};
    }
    case TANH: {
        const Rounded<T> y = tanh(x);
        return {y, one(y) - y * y};
    }
    case ELU: {
        const Rounded<T> c = parameter;
        const Rounded<T> y = choose(greater(x, zero(x)), x, c * expm1(x));
        return {y, choose(greater(x, zero(x)), one(y), y + c)};
    }
    case SWISH: {
        const Rounded<T> b = parameter;
        const Rounded<T> y = x * sigmoid(b * x);
        return {y, swish_slope(x, b, sigmoid(b * x))};
    }
    default: return {x, one(x)};
    }
}
