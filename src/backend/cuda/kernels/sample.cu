// Sampling at the places of a grid, and grids of affine maps, with their gradients.
#include "sample.cuh"

// Operands grid, theta.
template <typename T>
__device__ __forceinline__ void affine_grid(const Sample &p) {
    const u32 cell = size_of(p.grid);
#pragma unroll 1
    for (u64 item = first_item(); item < p.count; item += items()) {
        const u64 n = quotient(item, p.positions);
        const Position at = position_of(p, item - n * p.positions.divisor);
        const T x = coordinate<T>(at.w, p.target[1]), y = coordinate<T>(at.h, p.target[0]);
#pragma unroll 1
        for (u32 i = 0; i < 2; ++i) {
            const char *map = p.at[1] + (n * 2 + i) * 3 * cell;
            const T a = Real<T>::load(p.grid, map), b = Real<T>::load(p.grid, map + cell);
            const T c = Real<T>::load(p.grid, map + 2 * cell);
            deliver(p.operation, p.at[0] + (2 * item + i) * cell, sum(sum(product(a, x), product(b, y)), c));
        }
    }
}

// Operands dtheta, dgrid: a block of threads for a picture, a thread for a lane.
template <typename T>
__device__ __forceinline__ void affine_gradient(const Sample &p) {
    __shared__ f64 lanes[6][THREADS];
    const u32 cell = size_of(p.grid), lane = threadIdx.x;
#pragma unroll 1
    for (u64 n = blockIdx.x; n < u64(p.images); n += gridDim.x) {
        f64 own[6] = {0, 0, 0, 0, 0, 0};
#pragma unroll 1
        for (u64 place = lane; place < p.positions.divisor; place += THREADS) {
            const Position at = position_of(p, place);
            const f64 x = f64(coordinate<T>(at.w, p.target[1])), y = f64(coordinate<T>(at.h, p.target[0]));
            const char *from = p.at[1] + 2 * (n * p.positions.divisor + place) * cell;
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                const f64 g = f64(Real<T>::load(p.grid, from + i * cell));
                own[3 * i] = sum(own[3 * i], product(g, x));
                own[3 * i + 1] = sum(own[3 * i + 1], product(g, y));
                own[3 * i + 2] = sum(own[3 * i + 2], g);
            }
        }
#pragma unroll
        for (u32 k = 0; k < 6; ++k) lanes[k][lane] = own[k];
        __syncthreads();
#pragma unroll 1
        for (u32 half = THREADS / 2; half > 0; half /= 2) {
            if (lane < half) {
#pragma unroll
                for (u32 k = 0; k < 6; ++k) lanes[k][lane] = sum(lanes[k][lane], lanes[k][lane + half]);
            }
            __syncthreads();
        }
        if (lane < 6) deliver(p.operation, p.at[0] + (6 * n + lane) * cell, T(lanes[lane][0]));
        __syncthreads();
    }
}

// Channels of a thread of `bilinear`; `sample.rs` counts by the same number.
enum { SAMPLED = 4 };

// Operands y, x, grid. A thread samples a few channels at its position, which are `by_channels` apart, so that neighbouring
// threads have neighbours; all their taps, and what they are added to, are loaded before the first is looked at.
template <typename T>
__device__ __forceinline__ void bilinear(const Sample &p) {
    typedef typename Real<T>::Bits Bits;
#pragma unroll 1
    for (u64 item = first_item(); item < p.count; item += items()) {
        u64 n, c, place;
        if (p.channels_fast) {
            const u64 position = quotient(item, p.by_channels);
            c = item - position * p.by_channels.divisor;
            n = quotient(position, p.positions);
            place = position - n * p.positions.divisor;
        } else {
            const u64 plane = quotient(item, p.positions);
            place = item - plane * p.positions.divisor;
            n = quotient(plane, p.by_channels);
            c = plane - n * p.by_channels.divisor;
        }
        const Place<T> taps(p, p.at[2], n * p.positions.divisor + place);
        i64 tap[4];
        u32 inside = 0;
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            tap[k] = pixel_of(p.x, taps.down.first + k / 2, taps.across.first + k % 2);
            inside |= u32(taps.any() && taps.inside(p, k / 2, k % 2)) << k;
        }
        const Position at = position_of(p, place);
        const auto channel = [&](u32 i) { return i64(c + i * p.by_channels.divisor); };
        const auto to = [&](u32 i) {
            return p.at[0] + channel_of(p.y, i64(n), channel(i)) + pixel_of(p.y, at.h, at.w);
        };
        Bits pixels[SAMPLED][4], old[SAMPLED] = {};
        u32 there = 0;
#pragma unroll
        for (u32 i = 0; i < SAMPLED; ++i) {
            there |= u32(channel(i) < p.channels) << i;
            const char *x = p.at[1] + channel_of(p.x, i64(n), channel(i));
            const char *from[4] = {x + tap[0], x + tap[1], x + tap[2], x + tap[3]};
            fetch(p.x.scalar, from, pixels[i], there >> i & 1 ? inside : 0);
        }
        if (p.operation.steps & BLENDED) {
            static_assert(SAMPLED == 4, "as many places");
            const char *from[4] = {to(0), to(1), to(2), to(3)};
            fetch(p.operation.dst, from, old, there);
        }
#pragma unroll
        for (u32 i = 0; i < SAMPLED; ++i) {
            T total = T(0);
#pragma unroll
            for (u32 k = 0; k < 4; ++k) {
                const T weight = product(taps.down.weight[k / 2], taps.across.weight[k % 2]);
                const T more = sum(total, product(weight, Real<T>::value(p.x.scalar, pixels[i][k])));
                total = inside >> k & 1 ? more : total;
            }
            if (there >> i & 1) deliver_over(p.operation, to(i), total, old[i]);
        }
    }
}

enum { CHANNELS = 8 };  // of a block of threads that computes gradients of pixels

// What the threads of a block tell each other of the positions that they look at.
template <typename T>
struct Seen {
    i64 h[THREADS], w[THREADS];
    T down[THREADS], across[THREADS];  // weights of the second taps
    u32 near[THREADS / 32];            // a bit for each position that may have a tap among the block's pixels
};

// Operands dx, dy, grid: a thread for a pixel. The block looks at all positions of the grid, as many at a time as it has
// threads, and each thread adds those that touch its pixel, in their order.
template <typename T>
__device__ __forceinline__ void data_gradient(const Sample &p, Seen<T> &seen) {
    const u64 pixels = u64(p.source[0]) * u64(p.source[1]);
    const u64 tiles = (pixels + THREADS - 1) / THREADS;
    const u64 groups = (u64(p.channels) + CHANNELS - 1) / CHANNELS;
    const u32 own = threadIdx.x;
#pragma unroll 1
    for (u64 item = blockIdx.x; item < p.count; item += gridDim.x) {
        const u64 tile = item % tiles, rest = item / tiles;
        const u64 group = rest % groups, n = rest / groups;
        const i64 begin = i64(tile * THREADS), end = begin + THREADS, pixel = begin + own;
        const i64 h = i64(quotient(u64(pixel), p.source_columns)), w = pixel - h * p.source[1];
        const i64 first = i64(group * CHANNELS);
        const i64 width = p.channels - first < i64(CHANNELS) ? p.channels - first : i64(CHANNELS);
        T sums[CHANNELS];
#pragma unroll
        for (u32 k = 0; k < CHANNELS; ++k) sums[k] = T(0);
#pragma unroll 1
        for (u64 base = 0; base < p.positions.divisor; base += THREADS) {
            const u64 place = base + own;
            bool near = false;
            if (place < p.positions.divisor) {
                const Place<T> taps(p, p.at[2], n * p.positions.divisor + place);
                const i64 corner = taps.down.first * p.source[1] + taps.across.first;
                near = taps.any() && corner < end && corner + p.source[1] + 1 >= begin;
                seen.h[own] = taps.down.first;
                seen.w[own] = taps.across.first;
                seen.down[own] = taps.down.weight[1];
                seen.across[own] = taps.across.weight[1];
            }
            const u32 bits = __ballot_sync(~0u, near);
            if (own % 32 == 0) seen.near[own / 32] = bits;
            __syncthreads();
#pragma unroll 1
            for (u32 i = 0; i < THREADS; ++i) {
                const u32 word = seen.near[i / 32];
                if (word == 0) {
                    i += 31;
                    continue;
                }
                if (!(word >> (i % 32) & 1)) continue;
                const i64 below = h - seen.h[i], right = w - seen.w[i];
                if (below < 0 || below > 1 || right < 0 || right > 1 || u64(pixel) >= pixels) continue;
                const T down = below ? seen.down[i] : sum(T(1), -seen.down[i]);
                const T across = right ? seen.across[i] : sum(T(1), -seen.across[i]);
                const T weight = product(down, across);
                const Position at = position_of(p, base + i);
                const char *dy = p.at[1] + pixel_of(p.y, at.h, at.w);
                const char *from[CHANNELS];
#pragma unroll
                for (u32 k = 0; k < CHANNELS; ++k) from[k] = dy + channel_of(p.y, i64(n), first + k);
                Held<T, CHANNELS> given;
                given.load(p.y.scalar, from, (1u << width) - 1);
#pragma unroll
                for (u32 k = 0; k < CHANNELS; ++k) {
                    const T more = sum(sums[k], product(Real<T>::any(p.y.scalar, given[k]), weight));
                    sums[k] = k < width ? more : sums[k];
                }
            }
            __syncthreads();
        }
        if (u64(pixel) >= pixels) continue;
#pragma unroll
        for (u32 k = 0; k < CHANNELS; ++k) {
            if (k < width) deliver(p.operation, p.at[0] + channel_of(p.x, i64(n), first + k) + pixel_of(p.x, h, w), sums[k]);
        }
    }
}

// Operands dgrid, x, dy, grid.
template <typename T>
__device__ __forceinline__ void grid_gradient(const Sample &p) {
#pragma unroll 1
    for (u64 item = first_item(); item < p.count; item += items()) {
        const u64 n = quotient(item, p.positions);
        const Position at = position_of(p, item - n * p.positions.divisor);
        const Place<T> taps(p, p.at[3], item);
        Slopes<T> slopes;
        if (taps.any()) {
            const i64 y = pixel_of(p.y, at.h, at.w);
#pragma unroll 1
            for (i64 c = 0; c < p.channels; ++c) {
                const char *x = p.at[1] + channel_of(p.x, i64(n), c);
                T v[4];
#pragma unroll
                for (u32 k = 0; k < 4; ++k) {
                    v[k] = T(0);
                    if (taps.inside(p, k / 2, k % 2)) {
                        v[k] = Real<T>::load(p.x.scalar, x + pixel_of(p.x, taps.down.first + k / 2, taps.across.first + k % 2));
                    }
                }
                const T given = Real<T>::load(p.y.scalar, p.at[2] + channel_of(p.y, i64(n), c) + y);
                slopes.add(taps, v, given);
            }
        }
        slopes.write(p, item);
    }
}

#define SAMPLE(NAME)                                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) sample_##NAME##_f32(const Sample p) { NAME<f32>(p); } \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) sample_##NAME##_f64(const Sample p) { NAME<f64>(p); }
SAMPLE(affine_grid)
SAMPLE(affine_gradient)
SAMPLE(grid_gradient)
#undef SAMPLE

// Three blocks of a multiprocessor: the assembler would take registers for two.
extern "C" __global__ void __launch_bounds__(THREADS, 3) sample_bilinear_f32(const Sample p) { bilinear<f32>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 1) sample_bilinear_f64(const Sample p) { bilinear<f64>(p); }

extern "C" __global__ void __launch_bounds__(THREADS, 1) sample_data_gradient_f32(const Sample p) {
    __shared__ Seen<f32> seen;
    data_gradient<f32>(p, seen);
}
extern "C" __global__ void __launch_bounds__(THREADS, 1) sample_data_gradient_f64(const Sample p) {
    __shared__ Seen<f64> seen;
    data_gradient<f64>(p, seen);
}
