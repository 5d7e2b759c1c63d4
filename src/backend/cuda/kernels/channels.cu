// Few channels: planes to interleaved pixels and back. C planes of the same extent, 16 bytes a thread on both sides.
#include "tiled.cuh"

// A thread holds 16 bytes of each plane, which is as many pixels; interleaved, they are CHANNELS vectors in a row.
// Element e of the row (pixel e / CHANNELS, channel e % CHANNELS) is assembled in registers.
template <u32 WIDTH, u32 CHANNELS>
struct Pixels {
    enum { PIXELS = 16 / WIDTH };

    // The word of `v` that holds byte `byte`.
    static __device__ __forceinline__ u32 word_of(const Vector *v, u32 byte) {
        return v[byte / 16].word[byte % 16 / 4];
    }

    // Gathers one word, whose elements lie at the bytes that `source` names, from the vectors `v`.
    template <typename Source>
    static __device__ __forceinline__ u32 gathered(const Vector *v, Source source, u32 word) {
        if constexpr (WIDTH >= 4) {
            return word_of(v, source(word * 4));
        } else if constexpr (WIDTH == 2) {
            const u32 low = source(word * 4), high = source(word * 4 + 2);
            const u32 selector = (low % 4 == 2 ? 0x32 : 0x10) | (high % 4 == 2 ? 0x7600 : 0x5400);
            return permuted(word_of(v, low), word_of(v, high), selector);
        } else {
            u32 pair[2];
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                const u32 low = source(word * 4 + 2 * i), high = source(word * 4 + 2 * i + 1);
                pair[i] = permuted(word_of(v, low), word_of(v, high), (low % 4) | (4 + high % 4) << 4);
            }
            return permuted(pair[0], pair[1], 0x5410);
        }
    }

    static __device__ __forceinline__ void interleave(Vector *row, const Vector *planes) {
        const auto source = [](u32 byte) {
            const u32 e = byte / WIDTH;
            return e % CHANNELS * 16 + e / CHANNELS * WIDTH + byte % WIDTH;
        };
#pragma unroll
        for (u32 word = 0; word < 4 * CHANNELS; ++word) row[word / 4].word[word % 4] = gathered(planes, source, word);
    }

    static __device__ __forceinline__ void separate(Vector *planes, const Vector *row) {
        const auto source = [](u32 byte) {
            const u32 pixel = byte % 16 / WIDTH, channel = byte / 16;
            return (pixel * CHANNELS + channel) * WIDTH + byte % WIDTH;
        };
#pragma unroll
        for (u32 word = 0; word < 4 * CHANNELS; ++word) planes[word / 4].word[word % 4] = gathered(row, source, word);
    }
};

// Where vector `slot` of a block's interleaved pixels lies in shared memory. Thread t owns the slots from t * CHANNELS
// on; without the exchange an even number of channels would send 8 threads to the same banks.
template <u32 CHANNELS>
__device__ __forceinline__ constexpr u32 slot_at(u32 slot) {
    constexpr u32 shared_factor = CHANNELS & (0 - CHANNELS);  // of CHANNELS and the 8 vectors of all banks
    return slot ^ ((slot >> 3) & (shared_factor - 1));
}

// Whether 8 threads, which shared memory serves at a time, meet in no bank: with slots of their own, and in a row.
template <u32 CHANNELS>
__device__ constexpr bool slots_are_free_of_conflicts() {
    for (u32 first = 0; first < THREADS; first += 8) {
        for (u32 j = 0; j < CHANNELS; ++j) {
            u32 own = 0, row = 0;
            for (u32 t = first; t < first + 8; ++t) {
                own |= 1u << (slot_at<CHANNELS>(t * CHANNELS + j) % 8);
                row |= 1u << (slot_at<CHANNELS>(j * THREADS + t) % 8);
            }
            if (own != 0xff || row != 0xff) return false;
        }
    }
    return true;
}

// Pixels of a block, WIDTH bytes an element.
__device__ constexpr u32 pixels_per_block(u32 width) { return THREADS * 16 / width; }

// Element by element, for the last pixels of an image and for rows that do not start on 16 bytes. Neighbouring threads
// are neighbours in the interleaved operand.
template <u32 WIDTH, u32 CHANNELS, bool INTERLEAVES>
__device__ __forceinline__ void move_elements(const Tiled &p, const Place &place, u64 first, u64 end) {
    typedef typename Unit<WIDTH>::Type Type;
    const u64 pixels = (first + pixels_per_block(WIDTH) < end ? first + pixels_per_block(WIDTH) : end) - first;
#pragma unroll 1
    for (u32 x = threadIdx.x; x < pixels * CHANNELS; x += THREADS) {
        const u64 pixel = first + x / CHANNELS;
        const u32 channel = x % CHANNELS;
        const u64 interleaved = (pixel * CHANNELS + channel) * WIDTH;
        if (INTERLEAVES) {
            put<Type>(place.dst + interleaved, at<Type>(place.src + i64(channel) * p.src_a + pixel * WIDTH));
        } else {
            put<Type>(place.dst + i64(channel) * p.dst_b + pixel * WIDTH, at<Type>(place.src + interleaved));
        }
    }
}

// Planes to pixels: a is the channel, b the pixel.
template <u32 WIDTH, u32 CHANNELS>
__device__ __forceinline__ void interleave(const Tiled &p) {
    static_assert(slots_are_free_of_conflicts<CHANNELS>(), "two threads meet in a bank");
    __shared__ Vector row[THREADS * CHANNELS];
    const Place place = place_of(p, CHANNELS, pixels_per_block(WIDTH));
    if (!(p.vector_dst && p.vector_src && place.b + pixels_per_block(WIDTH) <= p.extent_b)) {
        return move_elements<WIDTH, CHANNELS, true>(p, place, place.b, p.extent_b);
    }
    Vector planes[CHANNELS], mine[CHANNELS];
    const char *from = place.src + place.b * WIDTH + threadIdx.x * 16;
#pragma unroll
    for (u32 c = 0; c < CHANNELS; ++c) planes[c] = at<Vector>(from + i64(c) * p.src_a);
    Pixels<WIDTH, CHANNELS>::interleave(mine, planes);
#pragma unroll
    for (u32 j = 0; j < CHANNELS; ++j) row[slot_at<CHANNELS>(threadIdx.x * CHANNELS + j)] = mine[j];
    __syncthreads();
    char *to = place.dst + place.b * (CHANNELS * WIDTH);
#pragma unroll
    for (u32 j = 0; j < CHANNELS; ++j) {
        const u32 slot = j * THREADS + threadIdx.x;
        put<Vector>(to + slot * 16, row[slot_at<CHANNELS>(slot)]);
    }
}

// Pixels to planes: a is the pixel, b the channel.
template <u32 WIDTH, u32 CHANNELS>
__device__ __forceinline__ void separate(const Tiled &p) {
    __shared__ Vector row[THREADS * CHANNELS];
    const Place place = place_of(p, pixels_per_block(WIDTH), CHANNELS);
    if (!(p.vector_dst && p.vector_src && place.a + pixels_per_block(WIDTH) <= p.extent_a)) {
        return move_elements<WIDTH, CHANNELS, false>(p, place, place.a, p.extent_a);
    }
    const char *from = place.src + place.a * (CHANNELS * WIDTH);
#pragma unroll
    for (u32 j = 0; j < CHANNELS; ++j) {
        const u32 slot = j * THREADS + threadIdx.x;
        row[slot_at<CHANNELS>(slot)] = at<Vector>(from + slot * 16);
    }
    __syncthreads();
    Vector planes[CHANNELS], mine[CHANNELS];
#pragma unroll
    for (u32 j = 0; j < CHANNELS; ++j) mine[j] = row[slot_at<CHANNELS>(threadIdx.x * CHANNELS + j)];
    Pixels<WIDTH, CHANNELS>::separate(planes, mine);
    char *to = place.dst + place.a * WIDTH + threadIdx.x * 16;
#pragma unroll
    for (u32 c = 0; c < CHANNELS; ++c) put<Vector>(to + i64(c) * p.dst_b, planes[c]);
}

#define CHANNEL_KERNELS(WIDTH, CHANNELS)                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS) interleave_w##WIDTH##_c##CHANNELS(const Tiled p) { \
        interleave<WIDTH, CHANNELS>(p);                                                                      \
    }                                                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS) separate_w##WIDTH##_c##CHANNELS(const Tiled p) {   \
        separate<WIDTH, CHANNELS>(p);                                                                        \
    }
#define CHANNEL_WIDTHS(CHANNELS) \
    CHANNEL_KERNELS(1, CHANNELS) \
    CHANNEL_KERNELS(2, CHANNELS) \
    CHANNEL_KERNELS(4, CHANNELS) \
    CHANNEL_KERNELS(8, CHANNELS)
CHANNEL_WIDTHS(2)
CHANNEL_WIDTHS(3)
CHANNEL_WIDTHS(4)
CHANNEL_WIDTHS(5)
CHANNEL_WIDTHS(6)
CHANNEL_WIDTHS(7)
CHANNEL_WIDTHS(8)
#undef CHANNEL_WIDTHS
#undef CHANNEL_KERNELS
