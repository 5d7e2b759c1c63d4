// What kernels of random masks share: the step, and a word of a mask that is drawn. `ops/random.rs` defines the bits.
#pragma once

#include "pointwise.cuh"

struct Random {
    char *dst;
    const char *src;
    u32 *mask;
    u64 *states;  // seed and call number; only where a mask is drawn
    u64 count;    // elements of the loops
    u64 elements; // of the mask, at least as many
    u64 threshold;
    u64 first;  // number of the loops' first element
    f64 scale;
    u32 scalar;  // Scalar
    u32 wide;    // whether numbers are binary64
    u32 rank;
    u32 pixels;  // of `random_pixels_of_*`
    OperandLoop loops[20];  // innermost first: bytes of destination and source, number of the element
};

static_assert(sizeof(Random) == 72 + 16 + 48 * 20, "random.rs has another Random");

// All words of Philox4x32-10 for one counter, compared with the threshold: bit k for word k.
__device__ __forceinline__ u32 kept_of(u64 block, u64 call, u64 seed, u32 threshold) {
    u32 a = u32(block), b = u32(block >> 32), c = u32(call), d = u32(call >> 32);
    u32 k = u32(seed), l = u32(seed >> 32);
#pragma unroll
    for (u32 round = 0; round < 10; ++round) {
        // Products of 32 bits in halves: the compiler would take one of 64 bits for three.
        const u32 p = high_product(0xd2511f53u, a), q = high_product(0xcd9e8d57u, c);
        const u32 low_p = 0xd2511f53u * a, low_q = 0xcd9e8d57u * c;
        a = q ^ b ^ k;
        b = low_q;
        c = p ^ d ^ l;
        d = low_p;
        k += 0x9e3779b9u;
        l += 0xbb67ae85u;
    }
    return u32(a >= threshold) | u32(b >= threshold) << 1 | u32(c >= threshold) << 2 | u32(d >= threshold) << 3;
}

// A word of the mask, without bits beyond the last element.
__device__ __forceinline__ u32 drawn(const Random &p, u64 word) {
    if (p.threshold >> 32) return 0;
    const u64 seed = p.states[0], call = p.states[1];
    u32 bits = 0;
#pragma unroll 1
    for (u32 j = 0; j < 8; ++j) {
        const u32 kept = kept_of(8 * word + j, call, seed, u32(p.threshold));
#pragma unroll
        for (u32 k = 0; k < 4; ++k) bits |= (kept >> k & 1) << (8 * k + j);
    }
    const u64 left = p.elements - 32 * word;
    return left < 32 ? bits & ((1u << left) - 1) : bits;
}
