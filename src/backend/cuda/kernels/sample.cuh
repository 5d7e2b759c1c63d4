// What kernels of samplers share: the step, and the taps at a place of a grid. `ops/sample.rs` defines places, taps and the
// order of sums.
#pragma once

#include "function.cuh"

// x or y: a batch of pictures.
struct Pictures {
    i64 step[4];  // bytes from picture to picture, from group to group of channels, from row to row, from column to column
    Divisor block;  // channels of a group, which lie side by side
    u32 scalar;     // Scalar
    u32 unused;
};

struct Sample {
    char *at[4];  // as the step lists its operands
    u64 count;    // elements of the destination, positions, or blocks of threads
    i64 images;
    i64 channels;
    i64 source[2];  // rows and columns
    i64 target[2];
    f64 half[2];  // pixels per unit along y and x
    Operation operation;
    Divisor positions;       // of a picture's grid
    Divisor target_columns;
    Divisor source_columns;
    Divisor by_channels;
    Pictures x, y;
    u32 grid;           // Scalar
    u32 channels_fast;  // whether neighbouring threads have neighbouring channels
};

static_assert(sizeof(Pictures) == 64, "sample.rs has another Pictures");
static_assert(sizeof(Sample) == 32 + 24 + 32 + 16 + 32 + 96 + 128 + 8, "sample.rs has another Sample");

#if defined(CPU_EMU)
inline f32 floor_of(f32 x) { return __builtin_floorf(x); }
inline f64 floor_of(f64 x) { return __builtin_floor(x); }
#else
__device__ __forceinline__ f32 floor_of(f32 x) { return floorf(x); }
__device__ __forceinline__ f64 floor_of(f64 x) { return floor(x); }
#endif

// As a conversion from the computation type, over these bits.
template <typename T>
__device__ __forceinline__ void deliver_over(const Operation &operation, char *to, T r, u64 old) {
    if (sizeof(T) == 8) {
        f64 x = f64(r);
        if (operation.steps & SCALED) x = product(operation.alpha, x);
        if (operation.steps & BLENDED) x = sum(x, product(operation.beta, value_f64(operation.dst, old)));
        return store_f64(operation.dst, to, x);
    }
    f32 x = f32(r);
    if (operation.steps & SCALED) x = product(f32(operation.alpha), x);
    if (operation.steps & BLENDED) x = sum(x, product(f32(operation.beta), value_f32(operation.dst, u32(old))));
    store_f32(operation.dst, to, x);
}

template <typename T>
__device__ __forceinline__ void deliver(const Operation &operation, char *to, T r) {
    deliver_over(operation, to, r, operation.steps & BLENDED ? bits_at(operation.dst, to) : 0);
}

// Bytes from the start of all pictures.
__device__ __forceinline__ i64 channel_of(const Pictures &of, i64 n, i64 c) {
    const i64 start = n * of.step[0];
    if (of.block.divisor == 1) return start + c * of.step[1];
    const u64 group = quotient(u64(c), of.block);
    return start + i64(group) * of.step[1] + (c - i64(group * of.block.divisor)) * size_of(of.scalar);
}

__device__ __forceinline__ i64 pixel_of(const Pictures &of, i64 h, i64 w) { return h * of.step[2] + w * of.step[3]; }

struct Position {
    i64 h, w;
};

__device__ __forceinline__ Position position_of(const Sample &p, u64 place) {
    const u64 h = quotient(place, p.target_columns);
    return {i64(h), i64(place - h * p.target_columns.divisor)};
}

// The coordinate of pixel `i` of `n`.
template <typename T>
__device__ __forceinline__ T coordinate(i64 i, i64 n) {
    return n == 1 ? T(0) : ratio(T(f64(2 * i - (n - 1))), T(f64(n - 1)));
}

// The first two taps along an axis, and their weights.
template <typename T>
struct Taps {
    i64 first;
    T weight[2];
    bool any;
};

template <typename T>
__device__ __forceinline__ Taps<T> taps_of(T g, i64 n, f64 half) {
    const T pixel = product(sum(g, T(1)), T(half));
    const T first = floor_of(pixel);
    Taps<T> taps;
    taps.any = first >= T(-1) && first <= T(n);
    taps.first = taps.any ? i64(first) : -2;
    taps.any = taps.any && taps.first < n;
    taps.weight[1] = sum(pixel, -first);
    taps.weight[0] = sum(T(1), -taps.weight[1]);
    return taps;
}

// Both axes at a position, counted through all pictures.
template <typename T>
struct Place {
    Taps<T> down, across;

    __device__ __forceinline__ Place(const Sample &p, const char *grid, u64 position) {
        const u32 cell = size_of(p.grid);
        const char *from[2] = {grid + 2 * position * cell, grid + (2 * position + 1) * cell};
        Held<T, 2> at;
        at.load(p.grid, from, 3);
        across = taps_of(Real<T>::any(p.grid, at[0]), p.source[1], p.half[1]);
        down = taps_of(Real<T>::any(p.grid, at[1]), p.source[0], p.half[0]);
    }

    __device__ __forceinline__ bool any() const { return down.any && across.any; }

    __device__ __forceinline__ bool inside(const Sample &p, u32 i, u32 j) const {
        const i64 h = down.first + i, w = across.first + j;
        return h >= 0 && h < p.source[0] && w >= 0 && w < p.source[1];
    }
};

// The gradient of a position of the grid: what every channel's taps differ by along each axis, times what is given for it.
template <typename T>
struct Slopes {
    T along = T(0), aside = T(0);

    __device__ __forceinline__ void add(const Place<T> &taps, const T (&v)[4], T given) {
        const T (&down)[2] = taps.down.weight, (&across)[2] = taps.across.weight;
        const T right = sum(product(sum(v[1], -v[0]), down[0]), product(sum(v[3], -v[2]), down[1]));
        const T below = sum(product(sum(v[2], -v[0]), across[0]), product(sum(v[3], -v[1]), across[1]));
        along = sum(along, product(given, right));
        aside = sum(aside, product(given, below));
    }

    // A position without taps has slopes of 0.
    __device__ __forceinline__ void write(const Sample &p, u64 item) const {
        char *to = p.at[0] + 2 * item * size_of(p.grid);
        deliver(p.operation, to, product(along, T(p.half[1])));
        deliver(p.operation, to + size_of(p.grid), product(aside, T(p.half[0])));
    }
};

__device__ __forceinline__ u64 first_item() { return u64(blockIdx.x) * THREADS + threadIdx.x; }
__device__ __forceinline__ u64 items() { return u64(gridDim.x) * THREADS; }
