// Functions of the table, element by element, or 16 bytes at a time: the kernels, which a source names by NAMED(kind), and whose
// functions it chooses by COMPUTED.
#pragma once

#include "formula.cuh"
#include "functions.cuh"
#include "general.cuh"

enum { MOST_OPERANDS = 5 };

// One loop over the destination and the operands.
struct FormulaLoop {
    Divisor extent;
    i64 step[1 + MOST_OPERANDS];
};

struct Formula {
    char *at[1 + MOST_OPERANDS];  // the destination, the operands
    u64 count;                    // elements, or vectors of them
    f64 alpha[2];
    f64 beta;
    f64 parameter;
    u32 scalars[1 + MOST_OPERANDS];
    u32 function;
    u32 arity;
    u32 on_result;  // whether alpha is a factor of the result
    u32 blends;     // whether the destination is read
    u32 rank;
    u32 wide;  // whether `formula_ordered` computes in binary64
    u32 splats;  // bit k: operand k has one element along the innermost loop
    u32 alike;   // whether all operands behind the second lie as that one does
    FormulaLoop loops[20];  // innermost first
};

static_assert(sizeof(Formula) == 48 + 8 + 32 + 24 + 32 + 72 * 20, "formula.rs has another Formula");

struct FormulaOffsets {
    i64 of[1 + MOST_OPERANDS];
};

template <typename Index>
__device__ __forceinline__ FormulaOffsets formula_offsets(Index index, const Formula &p) {
    FormulaOffsets offsets = {{0, 0, 0, 0, 0, 0}};
    Index rest = index;
#pragma unroll 1
    for (u32 i = 0; i < p.rank; ++i) {
        const FormulaLoop &loop = p.loops[i];
        // What is left belongs to the outermost loop.
        const Index outer = i + 1 < p.rank ? quotient(rest, loop.extent) : Index(0);
        const i64 here = i64(rest - outer * Index(loop.extent.divisor));
        rest = outer;
#pragma unroll
        for (u32 k = 0; k <= MOST_OPERANDS; ++k) offsets.of[k] += here * loop.step[k];
    }
    return offsets;
}

// function(alpha1 * a, alpha2 * b, ...) or alpha1 * function(a, b, ...), and beta * old
template <typename T>
__device__ __forceinline__ T finished(const Formula &p, Rounded<T> (&operands)[MOST_OPERANDS], T old) {
    const Rounded<T> first = {T(p.alpha[0])}, second = {T(p.alpha[1])};
    if (!p.on_result) {
        operands[0] = first * operands[0];
        operands[1] = second * operands[1];
    }
    Rounded<T> r = COMPUTED<T>(p.function, operands, Rounded<T>{T(p.parameter)});
    if (p.on_result) r = first * r;
    const T blended = sum(r.value, product(T(p.beta), old));
    return p.blends ? blended : p.arity == 0 ? T(0) : r.value;
}

template <typename T, typename Index>
__device__ __forceinline__ void formula_element(const Formula &p, Index index) {
    const FormulaOffsets offsets = formula_offsets(index, p);
    Rounded<T> operands[MOST_OPERANDS];
#pragma unroll
    for (u32 k = 0; k < MOST_OPERANDS; ++k) {
        operands[k].value = k < p.arity ? Real<T>::load(p.scalars[k + 1], p.at[k + 1] + offsets.of[k + 1]) : T(0);
    }
    char *to = p.at[0] + offsets.of[0];
    const T old = p.blends ? Real<T>::load(p.scalars[0], to) : T(0);
    Real<T>::store(p.scalars[0], to, finished(p, operands, old));
}

// One of four, without an index that only a run knows, which would put them into memory.
template <typename X>
__device__ __forceinline__ X picked(const X (&of)[PER_THREAD], u32 i) {
    X x = of[0];
#pragma unroll
    for (u32 k = 1; k < PER_THREAD; ++k) x = i == k ? of[k] : x;
    return x;
}

// Four elements a thread: their first two operands, and what they are added to, are loaded before the first is computed.
// Functions of more operands read one number for many elements, which waits in the cache. BITS: of the widest element.
template <typename T, typename Signed, typename Index, typename Bits>
__device__ __forceinline__ void formula_strided(const Formula &p) {
    const Index first = Index(blockIdx.x) * (THREADS * PER_THREAD) + threadIdx.x;
    Signed offset[3][PER_THREAD];
    u32 wanted = 0;
#pragma unroll
    for (u32 i = 0; i < PER_THREAD; ++i) {
        const Index index = first + i * THREADS;
        const bool is_one = index < Index(p.count);
        const FormulaOffsets offsets = formula_offsets(is_one ? index : Index(0), p);
#pragma unroll
        for (u32 k = 0; k < 3; ++k) offset[k][i] = Signed(offsets.of[k]);
        wanted |= u32(is_one) << i;
    }
    Bits bits[3][PER_THREAD] = {};
#pragma unroll
    for (u32 k = 3; k-- > 0;) {
        if (k > 0 ? k > p.arity : !p.blends) continue;
        const char *from[PER_THREAD];
#pragma unroll
        for (u32 i = 0; i < PER_THREAD; ++i) from[i] = p.at[k] + offset[k][i];
        fetch(p.scalars[k], from, bits[k], wanted);
    }
    const auto number = [&](u32 k, u32 i) {
        const Bits own = picked(bits[k], i);
        return sizeof(Bits) == 8 ? Real<T>::any(p.scalars[k], own) : Real<T>::value(p.scalars[k], u32(own));
    };
#pragma unroll 1
    for (u32 i = 0; i < PER_THREAD; ++i) {
        if (!(wanted >> i & 1)) return;
        Rounded<T> operands[MOST_OPERANDS] = {{p.arity > 0 ? number(1, i) : T(0)}, {p.arity > 1 ? number(2, i) : T(0)}, {0}, {0}, {0}};
        if (p.arity > 2) {
            FormulaOffsets offsets;
            // Where places take one register each, the second is still known.
            if (sizeof(Signed) == 4 && p.alike) {
                const Signed second = picked(offset[2], i);
                offsets = {{0, 0, 0, second, second, second}};
            } else {
                offsets = formula_offsets(first + i * THREADS, p);
            }
#pragma unroll
            for (u32 k = 2; k < MOST_OPERANDS; ++k) {
                if (k < p.arity) operands[k].value = Real<T>::load(p.scalars[k + 1], p.at[k + 1] + offsets.of[k + 1]);
            }
        }
        const T old = p.blends ? number(0, i) : T(0);
        Real<T>::store(p.scalars[0], p.at[0] + picked(offset[0], i), finished(p, operands, old));
    }
}

// Of elements of at most four bytes.
extern "C" __global__ void __launch_bounds__(THREADS) NAMED(f32_i32)(const Formula p) {
    formula_strided<f32, i32, u32, u32>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS) NAMED(f32_i64)(const Formula p) {
    formula_strided<f32, i64, u64, u64>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS) NAMED(f64_i64)(const Formula p) {
    formula_strided<f64, i64, u64, u64>(p);
}

// One thread walks in the order of the loops: where addresses of the destination repeat, the last write wins.
extern "C" __global__ void __launch_bounds__(32) NAMED(ordered)(const Formula p) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
#pragma unroll 1
    for (u64 index = 0; index < p.count; ++index) {
        if (p.wide) {
            formula_element<f64, u64>(p, index);
        } else {
            formula_element<f32, u64>(p, index);
        }
    }
}

// The number in a lane of a vector. Written without indices that only a run knows, which would put vectors into memory.
__device__ __forceinline__ f32 lane_of(const Vector &v, u32 scalar, u32 size, u32 lane) {
    const u32 place = lane * size, i = place / 4;
    const u32 word = i == 0 ? v.word[0] : i == 1 ? v.word[1] : i == 2 ? v.word[2] : v.word[3];
    const u32 bits = word >> (place % 4 * 8);
    return value_f32(scalar, size == 4 ? bits : size == 2 ? bits & 0xffff : bits & 0xff);
}

__device__ __forceinline__ void set_lane(Vector &v, u32 scalar, u32 size, u32 lane, f32 x) {
    const u32 place = lane * size, word = stored_bits(scalar, x) << (place % 4 * 8);
#pragma unroll
    for (u32 k = 0; k < 4; ++k) v.word[k] |= k == place / 4 ? word : 0;
}

// Vectors of 16 bytes of one scalar type of at most 4 bytes, along the innermost loop; up to two operands.
extern "C" __global__ void __launch_bounds__(THREADS) NAMED(run)(const Formula p) {
    const u32 index = blockIdx.x * THREADS + threadIdx.x;
    if (index >= u32(p.count)) return;
    const FormulaOffsets offsets = formula_offsets(index, p);
    const u32 scalar = p.scalars[0], size = size_of(scalar);
    char *to = p.at[0] + offsets.of[0];
    const auto vector = [&](u32 k, bool reads) {
        const char *from = p.at[k] + offsets.of[k];
        if (!reads) return Vector{{0, 0, 0, 0}};
        if (!(p.splats >> k & 1)) return at<Vector>(from);
        const u32 cell = u32(bits_at(scalar, from));
        const u32 word = cell * (size == 4 ? 1 : size == 2 ? 0x10001 : 0x1010101);
        return Vector{{word, word, word, word}};
    };
    const Vector old = vector(0, p.blends), a = vector(1, p.arity > 0), b = vector(2, p.arity > 1);
    Vector result = {{0, 0, 0, 0}};
#pragma unroll 1
    for (u32 j = 0; j < 16 / size; ++j) {
        const f32 before = p.blends ? lane_of(old, scalar, size, j) : 0;
        Rounded<f32> operands[MOST_OPERANDS] = {{lane_of(a, scalar, size, j)}, {lane_of(b, scalar, size, j)}, {0}, {0}, {0}};
        set_lane(result, scalar, size, j, finished(p, operands, before));
    }
    put<Vector>(to, result);
}
