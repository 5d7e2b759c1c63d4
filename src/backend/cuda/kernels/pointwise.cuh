// OpTensor, and AddTensor where A is broadcast: element by element over three operands, or 16 bytes at a time.
#pragma once

#include "function.cuh"
#include "general.cuh"
#include "linear.cuh"

struct Pointwise {
    char *at[3];  // C, A, B
    u64 count;    // elements, or vectors of them
    f64 alpha[2];
    f64 beta;
    u32 dst;       // Scalar
    u32 src;       // Scalar
    u32 function;  // Function
    u32 arity;     // how many of A and B are read
    u32 blends;    // whether C is read
    u32 rank;
    u32 splats;  // bit k: operand k has one element along the innermost loop
    u32 wide;    // whether `op_ordered` computes in binary64
    OperandLoop loops[20];  // innermost first
};

static_assert(sizeof(Pointwise) == 24 + 8 + 24 + 32 + 48 * 20, "op.rs has another Pointwise");

// The offsets of all three operands, in bytes.
struct OperandOffsets {
    i64 of[3];
};

template <typename Index>
__device__ __forceinline__ OperandOffsets operand_offsets(Index index, const OperandLoop *loops, u32 rank) {
    OperandOffsets offsets = {{0, 0, 0}};
    Index rest = index;
#pragma unroll 1
    for (u32 i = 0; i < rank; ++i) {
        const OperandLoop &loop = loops[i];
        // What is left belongs to the outermost loop.
        const Index outer = i + 1 < rank ? quotient(rest, loop.extent) : Index(0);
        const i64 here = i64(rest - outer * Index(loop.extent.divisor));
        rest = outer;
#pragma unroll
        for (u32 k = 0; k < 3; ++k) offsets.of[k] += here * loop.step[k];
    }
    return offsets;
}

// function(alpha1 * a, alpha2 * b) + beta * old
template <typename T>
__device__ __forceinline__ T computed(const Pointwise &p, u32 function, T a, T b, T old) {
    const T r = applied(function, product(T(p.alpha[0]), a), product(T(p.alpha[1]), b));
    const T blended = sum(r, product(T(p.beta), old));
    return p.blends ? blended : function == NOTHING ? T(0) : r;
}

template <typename T, typename Index>
__device__ __forceinline__ void op_element(const Pointwise &p, Index index) {
    const OperandOffsets offsets = operand_offsets(index, p.loops, p.rank);
    char *c = p.at[0] + offsets.of[0];
    const T a = p.arity > 0 ? Real<T>::load(p.src, p.at[1] + offsets.of[1]) : T(0);
    const T b = p.arity > 1 ? Real<T>::load(p.src, p.at[2] + offsets.of[2]) : T(0);
    const T old = p.blends ? Real<T>::load(p.dst, c) : T(0);
    Real<T>::store(p.dst, c, computed(p, p.function, a, b, old));
}

// Four elements a thread, all of whose operands are loaded before the first is computed. BITS: of the widest element.
template <typename T, typename Index, typename Bits>
__device__ __forceinline__ void op_of(const Pointwise &p) {
    const Index first = Index(blockIdx.x) * (THREADS * PER_THREAD) + threadIdx.x;
    char *to[PER_THREAD];
    const char *from[2][PER_THREAD];
    u32 wanted = 0;
#pragma unroll
    for (u32 i = 0; i < PER_THREAD; ++i) {
        const Index index = first + i * THREADS;
        const bool is_one = index < Index(p.count);
        const OperandOffsets offsets = operand_offsets(is_one ? index : Index(0), p.loops, p.rank);
        to[i] = p.at[0] + offsets.of[0];
        from[0][i] = p.at[1] + offsets.of[1];
        from[1][i] = p.at[2] + offsets.of[2];
        wanted |= u32(is_one) << i;
    }
    Bits a[PER_THREAD] = {}, b[PER_THREAD] = {}, old[PER_THREAD] = {};
    if (p.arity > 0) fetch(p.src, from[0], a, wanted);
    if (p.arity > 1) fetch(p.src, from[1], b, wanted);
    if (p.blends) fetch(p.dst, to, old, wanted);
    const auto number = [](u32 scalar, Bits bits) {
        return sizeof(Bits) == 8 ? Real<T>::any(scalar, bits) : Real<T>::value(scalar, u32(bits));
    };
#pragma unroll
    for (u32 i = 0; i < PER_THREAD; ++i) {
        if (!(wanted >> i & 1)) continue;
        const T x = p.arity > 0 ? number(p.src, a[i]) : T(0), y = p.arity > 1 ? number(p.src, b[i]) : T(0);
        const T z = p.blends ? number(p.dst, old[i]) : T(0);
        Real<T>::store(p.dst, to[i], computed(p, p.function, x, y, z));
    }
}

template <typename T, typename Index>
__device__ __forceinline__ void op(const Pointwise &p) {
    if (sizeof(T) == 4 && size_of(p.src) < 8 && size_of(p.dst) < 8) {
        op_of<T, Index, u32>(p);
    } else {
        op_of<T, Index, u64>(p);
    }
}

// One thread walks in the order of the loops: where addresses of C repeat, the last write wins.
__device__ __forceinline__ void op_in_order(const Pointwise &p) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
#pragma unroll 1
    for (u64 index = 0; index < p.count; ++index) {
        if (p.wide) {
            op_element<f64, u64>(p, index);
        } else {
            op_element<f32, u64>(p, index);
        }
    }
}

// Sixteen bytes of operand `k`: where they lie, or one element of it repeated.
template <u32 BYTES>
__device__ __forceinline__ Vector operand_vector(const Pointwise &p, u32 k, i64 offset) {
    const char *from = p.at[k] + offset;
    if (!(p.splats >> k & 1)) return at<Vector>(from);
    const u32 cell = at<typename Unit<BYTES>::Type>(from);
    const u32 word = BYTES == 2 ? cell | cell << 16 : cell;
    return Vector{{word, word, word, word}};
}

// All operands of one type, in vectors of 16 bytes along the innermost loop. ARITY: how many of A and B are read.
template <u32 SCALAR, u32 ARITY, typename F>
__device__ __forceinline__ void op_vectors(const Pointwise &p, F function) {
    constexpr u32 BYTES = width_of(SCALAR), LANES_OF_VECTOR = 16 / BYTES;
    const u32 index = blockIdx.x * THREADS + threadIdx.x;
    if (index >= u32(p.count)) return;
    const OperandOffsets offsets = operand_offsets(index, p.loops, p.rank);
    char *to = p.at[0] + offsets.of[0];
    Vector a = operand_vector<BYTES>(p, 1, offsets.of[1]), b, c = {{0, 0, 0, 0}};
    if (ARITY > 1) b = operand_vector<BYTES>(p, 2, offsets.of[2]);
    if (p.blends) c = at<Vector>(to);
    const auto lane = [](const Vector &v, u32 j) {
        return load_f32(SCALAR, reinterpret_cast<const char *>(&v) + j * BYTES);
    };
    Vector result;
#pragma unroll
    for (u32 j = 0; j < LANES_OF_VECTOR; ++j) {
        const f32 x = product(f32(p.alpha[0]), lane(a, j));
        const f32 y = ARITY > 1 ? product(f32(p.alpha[1]), lane(b, j)) : 0;
        const f32 r = function(x, y);
        const f32 blended = sum(r, product(f32(p.beta), lane(c, j)));
        store_f32(SCALAR, reinterpret_cast<char *>(&result) + j * BYTES, p.blends ? blended : r);
    }
    put<Vector>(to, result);
}

// The functions that take time enough to be worth it; `op.rs` sends no other here.
template <u32 SCALAR>
__device__ __forceinline__ void op_run(const Pointwise &p) {
    const bool propagate = p.function == MIN_OR_NAN || p.function == MAX_OR_NAN;
    switch (p.function) {
    case ADD: return op_vectors<SCALAR, 2>(p, [](f32 x, f32 y) { return sum(x, y); });
    case MUL: return op_vectors<SCALAR, 2>(p, [](f32 x, f32 y) { return product(x, y); });
    case MIN_NUMBER:
    case MIN_OR_NAN: return op_vectors<SCALAR, 2>(p, [=](f32 x, f32 y) { return minimum(x, y, propagate); });
    case MAX_NUMBER:
    case MAX_OR_NAN: return op_vectors<SCALAR, 2>(p, [=](f32 x, f32 y) { return maximum(x, y, propagate); });
    default: return op_vectors<SCALAR, 1>(p, [](f32 x, f32) { return x; });  // FIRST
    }
}
