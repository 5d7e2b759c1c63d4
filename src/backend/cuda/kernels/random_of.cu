// Dropout of binary32, binary16 or bfloat16 along one run, with a mask that is drawn or there, or of channels that lie side by side,
// with one that is there: the bits of random.cu. The type is the kernel's, and a thread loads up to four vectors of 16 bytes before it looks at the first.
#include "held.cuh"
#include "linear.cuh"
#include "random.cuh"

// Vectors of a thread that are loaded together.
enum : u32 { TOGETHER = 4 };

// A vector whose lanes KEPT has the bits of, times SCALE; all others become 0.
template <u32 SCALAR>
__device__ __forceinline__ Vector kept_lanes(const Vector &x, u32 kept, f32 scale) {
    constexpr u32 size = width_of(SCALAR), mask = size == 4 ? 0xffffffff : 0xffff;
    Vector y = {{0, 0, 0, 0}};
#pragma unroll
    for (u32 lane = 0; lane < 16 / size; ++lane) {
        const u32 word = lane * size / 4, shift = lane * size % 4 * 8;
        const u32 bits = stored_bits(SCALAR, product(value_f32(SCALAR, x.word[word] >> shift & mask), scale));
        y.word[word] |= (kept & 1u << lane ? bits : 0) << shift;
    }
    return y;
}

// A thread draws a word, or loads it, and neighbouring threads have neighbouring vectors. A mask that is drawn may go on behind the
// last of them; the elements of the last vector that is not whole go one by one.
template <u32 SCALAR, bool DRAWS>
__device__ __forceinline__ void dropped_run(const Random &p) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    constexpr u32 size = width_of(SCALAR), LANES = 16 / size, VECTORS = 32 / LANES;
    __shared__ u32 words[THREADS];
    const u64 first = u64(blockIdx.x) * THREADS, word = first + threadIdx.x, start = 32 * first;
    if (32 * word < (DRAWS ? p.elements : p.count)) {
        const u32 own = DRAWS ? drawn(p, word) : p.mask[word];
        words[threadIdx.x] = own;
        if (DRAWS) p.mask[word] = own;
    }
    __syncthreads();
    if (start >= p.count) return;
    const u32 count = p.count - start < 32 * THREADS ? u32(p.count - start) : 32 * THREADS;
    const char *src = p.src + start * size;
    char *dst = p.dst + start * size;
    const f32 scale = f32(p.scale);
#pragma unroll 1
    for (u32 round = 0; round < VECTORS; round += TOGETHER) {
        Vector x[TOGETHER];
#pragma unroll
        for (u32 i = 0; i < TOGETHER; ++i) {
            const u32 vector = (round + i) * THREADS + threadIdx.x;
            if (LANES * (vector + 1) <= count) x[i] = at<Vector>(src + vector * 16);
        }
#pragma unroll
        for (u32 i = 0; i < TOGETHER; ++i) {
            const u32 vector = (round + i) * THREADS + threadIdx.x, element = LANES * vector;
            if (element >= count) return;
            const u32 kept = words[element / 32] >> element % 32;
            if (element + LANES <= count) {
                put<Vector>(dst + vector * 16, kept_lanes<SCALAR>(x[i], kept, scale));
                continue;
            }
#pragma unroll 1
            for (u32 k = 0; element + k < count; ++k) {
                const f32 one = product(value_f32(SCALAR, at<Bits>(src + (element + k) * size)), scale);
                put<Bits>(dst + (element + k) * size, kept >> k & 1 ? Bits(stored_bits(SCALAR, one)) : Bits(0));
            }
        }
    }
}

// Pixels of a thread, and how many it loads before it looks at the first. random.rs counts threads by the same number.
enum : u32 { PIXELS = 16, AHEAD = 8 };

// Channels that lie side by side, of pixels whose numbers do: a thread has a vector of channels in some pixels, for which it loads a
// word or two of the mask for each channel. The loops are vectors, pixels of a thread, and what is around them; a step among vectors
// is one of a channel's numbers.
template <u32 SCALAR>
__device__ __forceinline__ void dropped_pixels(const Random &p) {
    constexpr u32 size = width_of(SCALAR), LANES = 16 / size, mask = size == 4 ? 0xffffffff : 0xffff;
    const u32 index = blockIdx.x * THREADS + threadIdx.x;
    if (index >= u32(p.count)) return;
    const OperandLoop &channels = p.loops[0], &pixels = p.loops[1], &around = p.loops[2];
    const u32 rest = quotient(index, channels.extent), vector = index - rest * u32(channels.extent.divisor);
    const u32 outer = quotient(rest, pixels.extent), first = (rest - outer * u32(pixels.extent.divisor)) * PIXELS;
    const u32 count = p.pixels - first < PIXELS ? p.pixels - first : u32(PIXELS);
    u32 number = u32(p.first) + outer * u32(around.step[2]) + vector * LANES * u32(channels.step[2]) + first;
    u32 low[LANES], high[LANES];
#pragma unroll
    for (u32 j = 0; j < LANES; ++j) {
        const u32 begin = number + j * u32(channels.step[2]);
        low[j] = p.mask[begin / 32];
        high[j] = p.mask[(begin + count - 1) / 32];
    }
    const char *src = p.src + (outer * around.step[1] + i64(first) * pixels.step[1] + vector * 16);
    char *dst = p.dst + (outer * around.step[0] + i64(first) * pixels.step[0] + vector * 16);
    const f32 scale = f32(p.scale);
    Vector x[AHEAD];
#pragma unroll
    for (u32 i = 0; i < AHEAD; ++i) {
        if (i < count) x[i] = at<Vector>(src + i * pixels.step[1]);
    }
    u32 kept[LANES];
#pragma unroll
    for (u32 j = 0; j < LANES; ++j) {
        hold(low[j]);
        hold(high[j]);
        const u32 begin = number + j * u32(channels.step[2]);
        kept[j] = u32((u64(high[j]) << 32 | low[j]) >> begin % 32);
    }
#pragma unroll 1
    for (u32 start = 0; start < PIXELS; start += AHEAD) {
#pragma unroll
        for (u32 i = 0; i < AHEAD; ++i) {
            if (start + i >= count) return;
            Vector y = {{0, 0, 0, 0}};
#pragma unroll
            for (u32 j = 0; j < LANES; ++j) {
                const u32 word = j * size / 4, shift = j * size % 4 * 8;
                const u32 bits = stored_bits(SCALAR, product(value_f32(SCALAR, x[i].word[word] >> shift & mask), scale));
                y.word[word] |= (kept[j] & 1u << i ? bits : 0) << shift;
            }
            put<Vector>(dst + i * pixels.step[0], y);
        }
        src += AHEAD * pixels.step[1];
        dst += AHEAD * pixels.step[0];
#pragma unroll
        for (u32 j = 0; j < LANES; ++j) kept[j] >>= AHEAD;
#pragma unroll
        for (u32 i = 0; i < AHEAD; ++i) {
            if (start + AHEAD + i < count) x[i] = at<Vector>(src + i * pixels.step[1]);
        }
    }
}

#define DROPPED(NAME, SCALAR)                                                                             \
    extern "C" __global__ void __launch_bounds__(THREADS) random_run_of_##NAME(const Random p) {          \
        dropped_run<SCALAR, true>(p);                                                                    \
    }                                                                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS) random_mask_of_##NAME(const Random p) {         \
        dropped_run<SCALAR, false>(p);                                                                   \
    }                                                                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS) random_pixels_of_##NAME(const Random p) {       \
        dropped_pixels<SCALAR>(p);                                                                       \
    }
DROPPED(f32, F32)
DROPPED(f16, F16)
DROPPED(bf16, BF16)
#undef DROPPED
