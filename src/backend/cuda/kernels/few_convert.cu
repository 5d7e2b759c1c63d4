// Few channels that are converted: planes to interleaved pixels, and back.
#include "tiled.cuh"

// A block has 16 KiB of 4 or 8 channels of the source, and as many pixels of fewer channels. They are brought to shared memory as
// they are, 16 bytes a thread, and taken from there four at a time, neighbours of the destination. `tiled.rs` counts pixels
// by the same number.
template <u32 FROM>
struct Few {
    enum : u32 { PIXELS = 2048 / FROM, VECTORS = 128, LANES = 4, MOST = 8 };
    u32 twice;  // 1 where a block has twice as many pixels
    // By channels: less than one in 2^17 off, so that quotients of numbers below 2^14 are exact.
    u32 inverse;

    __device__ __forceinline__ explicit Few(u32 channels) : twice(channels <= 4), inverse((1u << 18) / channels + 1) {}
    __device__ __forceinline__ u32 pixel_of(u32 element) const { return element * inverse >> 18; }
};

// The last pixels of an image, and rows that do not start on 16 bytes: four elements of a thread are loaded before the first is
// computed. More would take registers of blocks that whole vectors have a use for. Neighbouring threads are neighbours in the
// interleaved operand.
template <u32 FROM, u32 TO>
__device__ __forceinline__ void convert_elements(const Tiled &p, const Operation &operation, const Place &place,
                                                 bool separates, u32 channels, u64 first, u32 pixels) {
    enum : u32 { EACH = 4 };
    const Few<FROM> few(channels);
    const u64 base = first * channels;
#pragma unroll 1
    for (u32 start = threadIdx.x; start < pixels * channels; start += EACH * THREADS) {
        char *to[EACH];
        const char *from[EACH];
        u32 wanted = 0;
#pragma unroll
        for (u32 k = 0; k < EACH; ++k) {
            const u32 x = start + k * THREADS, pixel = few.pixel_of(x);
            const i64 channel = x - pixel * channels;
            to[k] = place.dst + (separates ? channel * p.dst_b + i64((first + pixel) * TO) : i64((base + x) * TO));
            from[k] =
                place.src + (separates ? i64((base + x) * FROM) : channel * p.src_a + i64((first + pixel) * FROM));
            wanted |= u32(x < pixels * channels) << k;
        }
        compute_all<u32>(operation, to, from, wanted);
    }
}

// `squares_b` is 1 where pixels are separated: a is the pixel, b the channel. Else it is the other way round.
template <u32 SRC, u32 DST>
__device__ __forceinline__ void few_convert(const Tiled &p) {
    constexpr u32 FROM = width_of(SRC), TO = width_of(DST);
    typedef Few<FROM> F;
    typedef typename Unit<TO * F::LANES>::Type Target;
    __shared__ Vector tile[F::VECTORS * F::MOST];
    // The types are constants to the compiler, the rest is not.
    Operation operation = p.operation;
    operation.src = SRC;
    operation.dst = DST;
    operation.via = VIA_F32;
    const bool separates = p.squares_b != 0;
    const u32 channels = u32(separates ? p.extent_b : p.extent_a);
    const F few(channels);
    const u32 most = F::PIXELS << few.twice;
    const Place place = separates ? place_of(p, most, channels) : place_of(p, channels, most);
    const u64 first = separates ? place.a : place.b, end = separates ? p.extent_a : p.extent_b;
    if (!p.vector_dst || !p.vector_src || first + most > end) {
        const u32 pixels = first + most <= end ? most : u32(end - first);
        return convert_elements<FROM, TO>(p, operation, place, separates, channels, first, pixels);
    }
    const char *const source = place.src + first * FROM * (separates ? channels : 1);
    Vector held[4];
#pragma unroll
    for (u32 u = 0; u < 4; ++u) {
        const u32 x = u * THREADS + threadIdx.x, channel = x / F::VECTORS >> few.twice;
        const i64 at_plane = i64(channel) * p.src_a + (x - (channel * F::VECTORS << few.twice)) * 16;
        if (channel < channels) held[u] = at<Vector>(source + (separates ? i64(x * 16) : at_plane));
    }
#pragma unroll
    for (u32 u = 0; u < 4; ++u) {
        const u32 x = u * THREADS + threadIdx.x;
        if (x / F::VECTORS >> few.twice < channels) tile[x] = held[u];
    }
    __syncthreads();
    const char *const bytes = reinterpret_cast<const char *>(tile);
#pragma unroll 1
    for (u32 x = threadIdx.x * F::LANES; x < most * channels; x += THREADS * F::LANES) {
        const u32 channel = x / F::PIXELS >> few.twice, pixel = x & (most - 1);
        char *const to = place.dst + (separates ? i64(channel) * p.dst_b + i64((first + pixel) * TO)
                                                : i64((first * channels + x) * TO));
        Target y;
        if (operation.steps & BLENDED) y = at<Target>(to);
#pragma unroll
        for (u32 k = 0; k < F::LANES; ++k) {
            const u32 there = few.pixel_of(x + k);
            const u32 element =
                separates ? (pixel + k) * channels + channel : (x + k - there * channels) * most + there;
            compute(operation, reinterpret_cast<char *>(&y) + k * TO, bytes + element * FROM);
        }
        put<Target>(to, y);
    }
}

#define CONVERT(NAME, SRC, DST)                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS, 5) few_convert_##NAME(const Tiled p) { \
        few_convert<SRC, DST>(p);                                                                \
    }
COMMON_PAIRS(CONVERT)
#undef CONVERT
