// What the kernels of normalisation share: how they walk groups, sum them in the tree of `ops/normalise.rs`, and map their
// elements.
#pragma once

#include "formula.cuh"
#include "general.cuh"
#include "places.cuh"

enum { MEMBER_AXES = 8, GROUP_AXES = 12 };

// Bits of `flags`.
enum Flags : u32 {
    BATCH = 1,          // statistics of the batch
    RUNNING_MEAN = 2,   // there is a running mean
    RUNNING_VARIANCE = 4,
    SAVES = 8,          // mean and inverse are saved, or were saved
    ADDS = 16,          // z is added, or dz is written
    KEEPS = 32,         // slopes are kept, or were kept
    SLOPES = 64,        // there is an activation
    DATA_SCALED = 128,  // alpha and beta of the result
    DATA_BLENDED = 256,
    BY_ROWS = 512,      // neighbours in memory belong to neighbouring groups
    NUMBER_BLENDED = 1024,
    GRADIENTS = 2048,   // of a launch of several: about the gradients, not about mean and variance
};

struct Normal {
    char *at[11];  // as the step lists its operands
    u64 groups;
    u64 members;
    f64 epsilon;
    f64 factor;  // weight of the new statistics
    f64 alpha, beta;
    f64 number_alpha, number_beta;
    f64 parameter;  // of the activation
    u32 data;       // Scalar
    u32 slopes;     // Scalar of what is kept
    u32 flags;
    u32 activation;   // Function
    u32 unused;
    u32 group_rank;
    u32 member_rank;
    u32 parts;        // blocks of threads for a group, or for 32 of them
    u64 part;         // elements of each
    char *sums;       // scratch: of every part of every group
    char *constants;  // scratch: `Constants` of every group
    u64 elements;     // of all groups
    Divisor fast;     // of what is walked element by element: groups or members
    NormalLoop group[GROUP_AXES];    // innermost first: y, x, z, reserve, numbers; or dx, x, dy, dz, reserve, numbers
    NormalLoop member[MEMBER_AXES];  // the same without numbers
};

static_assert(sizeof(Normal) == 88 + 72 + 32 + 56 + 72 * 20, "normalise.rs has another Normal");

// A walk over positions of a group at equal distances: one division at its start, none on its way.
template <u32 L>
struct Walk {
    u64 inner, outer;  // the innermost loop, and all others together
    u32 quick, slow;   // what a stride adds to each

    __device__ __forceinline__ Walk(const Normal &p, u64 position, u32 stride)
        : inner(position), outer(0), quick(stride), slow(0) {
        if (p.member_rank < 2) return;
        const Divisor &extent = p.member[0].extent;
        outer = quotient(position, extent);
        inner -= outer * extent.divisor;
        slow = u32(quotient(u64(stride), extent));
        quick -= slow * u32(extent.divisor);
    }

    __device__ __forceinline__ void go(const Normal &p) {
        inner += quick;
        outer += slow;
        if (p.member_rank > 1 && inner >= p.member[0].extent.divisor) {
            inner -= p.member[0].extent.divisor;
            ++outer;
        }
    }

    __device__ __forceinline__ Places here(const Normal &p) const {
        Places offsets = places(outer, p.member + 1, p.member_rank > 1 ? p.member_rank - 1 : 0);
#pragma unroll
        for (u32 k = 0; k < 6; ++k) offsets.of[k] += i64(inner) * p.member[0].step[k];
        return offsets;
    }
};

// One by one, where registers are short: a position, and a division each.
template <>
struct Walk<1> {
    u64 position;
    u32 stride;

    __device__ __forceinline__ Walk(const Normal &, u64 position, u32 stride) : position(position), stride(stride) {}
    __device__ __forceinline__ void go(const Normal &) { position += stride; }
    __device__ __forceinline__ Places here(const Normal &p) const { return places(position, p.member, p.member_rank); }
};

// Called, not inlined: elementary functions of binary64 would take the registers of the loops around them.
#if defined(CPU_EMU)
#define APART inline
#else
#define APART __noinline__
#endif

template <typename T>
__device__ APART Activated<T> computed(u32 function, T parameter, T x) {
    return long_activation<T>(function, {x}, {parameter});
}

// CALLS: whether the activation is computed apart, as all are but the ReLUs.
template <typename T, bool CALLS>
__device__ __forceinline__ Activated<T> activated(const Normal &p, T x) {
    if (CALLS) return computed<T>(p.activation, T(p.parameter), x);
    return short_activation<T>(p.activation, {x}, {T(p.parameter)});
}

template <typename T>
__device__ __forceinline__ T own_number(const Normal &p, u32 operand, i64 offset) {
    return at<T>(p.at[operand] + offset);
}

template <typename T>
__device__ __forceinline__ void put_number(const Normal &p, u32 operand, i64 offset, T x) {
    Real<T>::store(Real<T>::SCALAR, p.at[operand] + offset, x);
}

template <typename T>
__device__ __forceinline__ void deliver(const Normal &p, char *to, T r) {
    if (p.flags & DATA_SCALED) r = product(r, T(p.alpha));
    if (p.flags & DATA_BLENDED) r = sum(r, product(Real<T>::load(p.data, to), T(p.beta)));
    Real<T>::store(p.data, to, r);
}

// Elements that a thread loads before it looks at the first. Around a call there are registers for one; of binary64 as
// well.
template <typename T, bool CALLS>
__device__ constexpr u32 loads() {
    return CALLS || sizeof(T) == 8 ? 1 : 4;
}

template <typename T, u32 N>
struct Elements {
    typedef typename Real<T>::Bits Bits;
    Bits bits[N];

    __device__ __forceinline__ void load(u32 scalar, const char *base, const i64 (&offset)[N]) {
        const char *from[N];
#pragma unroll
        for (u32 i = 0; i < N; ++i) from[i] = base + offset[i];
        fetch(scalar, from, bits);
    }
    // Picked by selections, so that what looks at elements is a loop, and there once.
    __device__ __forceinline__ T operator()(u32 scalar, u32 i) const {
        Bits own = bits[0];
#pragma unroll
        for (u32 k = 1; k < N; ++k) own = i == k ? bits[k] : own;
        return Real<T>::value(scalar, own);
    }
};

// Forward: what y is made of.
template <typename T, bool CALLS>
__device__ __forceinline__ void forward_element(const Normal &p, const Places &at, T x, T mean, T slope, T offset) {
    T r = sum(product(sum(x, -mean), slope), offset);
    if (p.flags & ADDS) r = sum(r, Real<T>::load(p.data, p.at[7] + at.of[2]));
    if (p.flags & SLOPES) {
        const Activated<T> both = activated<T, CALLS>(p, r);
        r = both.result.value;
        if (p.flags & KEEPS) Real<T>::store(p.slopes, p.at[5] + at.of[3], both.slope.value);
    }
    deliver(p, p.at[0] + at.of[0], r);
}
