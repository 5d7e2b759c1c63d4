// Bilinear samplers of pictures of one type, without groups of channels and factors, and their gradients: the sums of sample.cu, to
// the same bits. The type is the kernel's.
#include "held.cuh"
#include "linear.cuh"
#include "sample.cuh"

#if defined(CPU_EMU)
inline u32 ones_of(u32 bits) { return u32(__builtin_popcount(bits)); }
#else
__device__ __forceinline__ u32 ones_of(u32 bits) { return u32(__popc(bits)); }
#endif

// Channels that a thread of `bilinear_of` samples together; `sample.rs` counts by the same number.
enum { SAMPLED_OF = 8 };

// Operands y, x, grid. A thread samples all channels at its position that lie `by_channels` apart. Taps that are not there load pixel 0.
template <u32 SCALAR>
__device__ __forceinline__ void bilinear_of(const Sample &p) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    const u64 item = first_item();
    if (item >= p.count) return;
    const Divisor &inner = p.channels_fast ? p.by_channels : p.positions;
    const u64 rest = quotient(item, inner), fast = item - rest * inner.divisor;
    const Divisor &outer = p.channels_fast ? p.positions : p.by_channels;
    const u64 n = quotient(rest, outer), slow = rest - n * outer.divisor;
    const u64 place = p.channels_fast ? slow : fast, c = p.channels_fast ? fast : slow;
    const Place<f32> taps(p, p.at[2], n * p.positions.divisor + place);
    const Position at_target = position_of(p, place);
    const char *tap[4];
    const char *x = p.at[1] + i64(n) * p.x.step[0] + i64(c) * p.x.step[1];
    char *y = p.at[0] + i64(n) * p.y.step[0] + i64(c) * p.y.step[1] + pixel_of(p.y, at_target.h, at_target.w);
    bool inside[4];
    f32 weight[4];
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
        inside[k] = taps.any() && taps.inside(p, k / 2, k % 2);
        weight[k] = product(taps.down.weight[k / 2], taps.across.weight[k % 2]);
        tap[k] = x + (inside[k] ? pixel_of(p.x, taps.down.first + k / 2, taps.across.first + k % 2) : 0);
    }
    const u64 apart = p.by_channels.divisor;
    const i64 step = i64(apart) * p.x.step[1], step_of_y = i64(apart) * p.y.step[1];
#pragma unroll 1
    for (u64 first = c; first < u64(p.channels); first += SAMPLED_OF * apart) {
        // Of the last channels some may not be there: the first one is loaded again.
        u32 there = 0;
#pragma unroll
        for (u32 i = 0; i < SAMPLED_OF; ++i) there += first + i * apart < u64(p.channels);
        Bits bits[SAMPLED_OF][4];
#pragma unroll
        for (u32 i = 0; i < SAMPLED_OF; ++i) {
            const i64 moved = i < there ? i * step : 0;
#pragma unroll
            for (u32 k = 0; k < 4; ++k) bits[i][k] = at<Bits>(tap[k] + moved);
        }
#pragma unroll
        for (u32 i = 0; i < SAMPLED_OF; ++i) {
#pragma unroll
            for (u32 k = 0; k < 4; ++k) hold(bits[i][k]);
        }
#pragma unroll
        for (u32 i = 0; i < SAMPLED_OF; ++i) {
            f32 total = 0;
#pragma unroll
            for (u32 k = 0; k < 4; ++k) {
                const f32 more = sum(total, product(weight[k], value_f32(SCALAR, bits[i][k])));
                total = inside[k] ? more : total;
            }
            if (i < there) store_f32(SCALAR, y + i * step_of_y, total);
        }
#pragma unroll
        for (u32 k = 0; k < 4; ++k) tap[k] += SAMPLED_OF * step;
        y += SAMPLED_OF * step_of_y;
    }
}

// Channels of a block that computes gradients of pixels, which `sample.rs` counts by the same number; and positions that a thread
// finds before it adds the first.
enum { CHANNELS_OF = 32, FOUND = 8 };

// A position that may have a tap among a block's pixels.
struct Touch {
    u32 corner;        // row and column of the first tap, 1 more each: the first may be -1
    f32 down, across;  // weights of the second taps
    i32 dy;            // bytes from dy of its picture
};

struct Touches {
    Touch of[THREADS];  // in the order of positions
    u32 counts[THREADS / 32];
    u16 found[FOUND][THREADS];
};

__device__ __forceinline__ u32 corner_of(i64 h, i64 w) { return u32(h + 1) << 16 | u32(w + 1); }

// Adds what a position has for a pixel: `beside` tells which of its taps that is.
template <u32 SCALAR, bool WHOLE>
__device__ __forceinline__ void add_touch(const Touch &touch, u32 beside, const char *dy, i64 step, u32 width, f32 (&sums)[CHANNELS_OF]) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    const f32 down = beside >> 16 ? touch.down : sum(1.0f, -touch.down);
    const f32 across = beside & 1 ? touch.across : sum(1.0f, -touch.across);
    const f32 weight = product(down, across);
    const char *from = dy + touch.dy;
    Bits bits[CHANNELS_OF];
#pragma unroll
    for (u32 k = 0; k < CHANNELS_OF; ++k) {
        bits[k] = at<Bits>(from);
        if (WHOLE || k + 1 < width) from += step;
    }
#pragma unroll
    for (u32 k = 0; k < CHANNELS_OF; ++k) hold(bits[k]);
#pragma unroll
    for (u32 k = 0; k < CHANNELS_OF; ++k) sums[k] = sum(sums[k], product(value_f32(SCALAR, bits[k]), weight));
}

// Operands dx, dy, grid: a thread for a pixel. The block looks at all positions of the grid, as many at a time as it has threads, and
// lists those that may touch its pixels; each thread finds those that touch its own, and adds them in their order.
template <u32 SCALAR>
__device__ __forceinline__ void data_gradient_of(const Sample &p, Touches &touches) {
    const u32 pixels = u32(p.source[0] * p.source[1]), tiles = (pixels + THREADS - 1) / THREADS;
    const u32 groups = (u32(p.channels) + CHANNELS_OF - 1) / CHANNELS_OF;
    const u32 own = threadIdx.x, lane = own % 32, warp = own / 32;
    const u32 tile = blockIdx.x % tiles, rest = blockIdx.x / tiles, group = rest % groups, n = rest / groups;
    const i64 begin = i64(tile) * THREADS, end = begin + THREADS, pixel = begin + own;
    const i64 h = i64(quotient(u64(pixel), p.source_columns)), w = pixel - h * p.source[1];
    // No position is beside a pixel that is not there.
    const u32 corner = pixel < i64(pixels) ? corner_of(h, w) : ~0u;
    const u32 first = group * CHANNELS_OF, left = u32(p.channels) - first, width = left < CHANNELS_OF ? left : u32(CHANNELS_OF);
    const char *dy = p.at[1] + i64(n) * p.y.step[0] + i64(first) * p.y.step[1];
    f32 sums[CHANNELS_OF];
#pragma unroll
    for (u32 k = 0; k < CHANNELS_OF; ++k) sums[k] = 0;
#pragma unroll 1
    for (u32 base = 0; base < u32(p.positions.divisor); base += THREADS) {
        const u32 place = base + own;
        Touch touch = {0, 0, 0, 0};
        bool near = false;
        if (place < u32(p.positions.divisor)) {
            const Place<f32> taps(p, p.at[2], u64(n) * p.positions.divisor + place);
            const i64 start = taps.down.first * p.source[1] + taps.across.first;
            near = taps.any() && start < end && start + p.source[1] + 1 >= begin;
            const Position at_target = position_of(p, place);
            touch.corner = corner_of(taps.down.first, taps.across.first);
            touch.down = taps.down.weight[1];
            touch.across = taps.across.weight[1];
            touch.dy = i32(pixel_of(p.y, at_target.h, at_target.w));
        }
        const u32 ballot = __ballot_sync(~0u, near);
        if (lane == 0) touches.counts[warp] = ones_of(ballot);
        __syncthreads();
        u32 count = 0, before = 0;
#pragma unroll
        for (u32 i = 0; i < THREADS / 32; ++i) {
            before += i < warp ? touches.counts[i] : 0;
            count += touches.counts[i];
        }
        if (near) touches.of[before + ones_of(ballot & ((1u << lane) - 1))] = touch;
        __syncthreads();
        u32 next = 0;
#pragma unroll 1
        while (next < count) {
            u32 found = 0;
#pragma unroll 1
            for (; next < count && found < FOUND; ++next) {
                if ((corner - touches.of[next].corner) & ~0x10001u) continue;
                touches.found[found][own] = u16(next);
                ++found;
            }
#pragma unroll 1
            for (u32 i = 0; i < found; ++i) {
                const Touch &known = touches.of[touches.found[i][own]];
                const u32 beside = corner - known.corner;
                if (width == CHANNELS_OF) {
                    add_touch<SCALAR, true>(known, beside, dy, p.y.step[1], width, sums);
                } else {
                    add_touch<SCALAR, false>(known, beside, dy, p.y.step[1], width, sums);
                }
            }
        }
        __syncthreads();
    }
    if (pixel >= i64(pixels)) return;
    char *dx = p.at[0] + i64(n) * p.x.step[0] + i64(first) * p.x.step[1] + pixel_of(p.x, h, w);
#pragma unroll
    for (u32 k = 0; k < CHANNELS_OF; ++k) {
        if (k < width) store_f32(SCALAR, dx + k * p.x.step[1], sums[k]);
    }
}

// Channels whose taps a thread of `grid_gradient_of` loads before it looks at the first.
enum { SLOPED = 4 };

// Operands dgrid, x, dy, grid: a thread for a position.
template <u32 SCALAR>
__device__ __forceinline__ void grid_gradient_of(const Sample &p) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    const u64 item = first_item();
    if (item >= p.count) return;
    const u64 n = quotient(item, p.positions);
    const Position at_target = position_of(p, item - n * p.positions.divisor);
    const Place<f32> taps(p, p.at[3], item);
    Slopes<f32> slopes;
    if (taps.any()) {
        const char *from[5];
        bool inside[4];
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            inside[k] = taps.inside(p, k / 2, k % 2);
            const i64 pixel = inside[k] ? pixel_of(p.x, taps.down.first + k / 2, taps.across.first + k % 2) : 0;
            from[k] = p.at[1] + i64(n) * p.x.step[0] + pixel;
        }
        from[4] = p.at[2] + i64(n) * p.y.step[0] + pixel_of(p.y, at_target.h, at_target.w);
        const u32 channels = u32(p.channels);
#pragma unroll 1
        for (u32 c = 0; c < channels; c += SLOPED) {
            Bits bits[SLOPED][5];
#pragma unroll
            for (u32 i = 0; i < SLOPED; ++i) {
                // Behind the last channel that one again.
                const i64 moves = c + i + 1 < channels ? -1 : 0;
#pragma unroll
                for (u32 k = 0; k < 5; ++k) {
                    bits[i][k] = at<Bits>(from[k]);
                    from[k] += (k < 4 ? p.x.step[1] : p.y.step[1]) & moves;
                }
            }
#pragma unroll
            for (u32 i = 0; i < SLOPED; ++i) {
#pragma unroll
                for (u32 k = 0; k < 5; ++k) hold(bits[i][k]);
            }
#pragma unroll
            for (u32 i = 0; i < SLOPED; ++i) {
                if (c + i >= channels) break;
                f32 v[4];
#pragma unroll
                for (u32 k = 0; k < 4; ++k) v[k] = inside[k] ? value_f32(SCALAR, bits[i][k]) : 0.0f;
                slopes.add(taps, v, value_f32(SCALAR, bits[i][4]));
            }
        }
    }
    slopes.write(p, item);
}

#define SAMPLE(NAME, SCALAR)                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) sample_bilinear_of_##NAME(const Sample p) {        \
        bilinear_of<SCALAR>(p);                                                                                \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) sample_data_gradient_of_##NAME(const Sample p) {   \
        __shared__ Touches touches;                                                                            \
        data_gradient_of<SCALAR>(p, touches);                                                                  \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) sample_grid_gradient_of_##NAME(const Sample p) {   \
        grid_gradient_of<SCALAR>(p);                                                                           \
    }
SAMPLE(f32, F32)
SAMPLE(f16, F16)
SAMPLE(bf16, BF16)
#undef SAMPLE
