// Transposes by width whose rows do not start on 16 bytes, a tile at a time: vectors of the source and words of the
// destination lie on their alignment, and byte permutes move what they hold to its place.
#include "tiled.cuh"

struct Shifted {
    Tiled tiled;
    const char *begin;  // of the source, if that has no gaps; else no address comes before it
    const char *end;    // likewise: or none comes behind it
};

static_assert(sizeof(Shifted) == sizeof(Tiled) + 16, "tiled.rs has another Shifted");

// The 16 bytes that begin `off` bytes behind the start of `low`, and end in `high`. Neighbouring threads may have rows that
// lie differently: words are chosen, not branched to.
template <u32 WIDTH>
__device__ __forceinline__ Vector shifted_by(const Vector &low, const Vector &high, u32 off) {
    u32 words[8], by_8[6], by_4[5];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        words[i] = low.word[i];
        words[i + 4] = high.word[i];
    }
#pragma unroll
    for (u32 i = 0; i < 6; ++i) by_8[i] = off & 8 ? words[i + 2] : words[i];
#pragma unroll
    for (u32 i = 0; i < 5; ++i) by_4[i] = off & 4 ? by_8[i + 1] : by_8[i];
    Vector result;
    const u32 selector = 0x3210 + 0x1111 * (off & 3);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) result.word[i] = WIDTH < 4 ? permuted(by_4[i], by_4[i + 1], selector) : by_4[i];
    return result;
}

// Reads the tile: 16 bytes a thread and four times that, each made of the two vectors around it, all of which are loaded
// before the first is looked at. The second of a thread is the first of its neighbour, so that it comes from the cache; or the
// first again, where that holds all 16 bytes: a branch of its own would part the loads.
// They may take in what lies around the row if that belongs to the source.
template <u32 WIDTH>
__device__ __forceinline__ void load_shifted(const Shifted &shifted, const Place &place, char *tile) {
    typedef Square<WIDTH> S;
    const Tiled &p = shifted.tiled;
    const u32 mask_b = (1u << p.squares_b) - 1;
    const u64 width = p.extent_b * WIDTH;
    Vector low[4], high[4] = {};
    const char *from[4];
    u32 to[4], left[4];  // bytes that there are from here on, 16 for all
    u32 whole = 0;
#pragma unroll
    for (u32 u = 0; u < 4; ++u) {
        const u32 x = u * THREADS + threadIdx.x;
        const u32 chunk = x & 7, row = (x >> 3) % S::SIDE, square = (x >> 3) / S::SIDE;
        const u64 a = place.a + (square >> p.squares_b) * S::SIDE + row;
        const u64 b = (place.b + (square & mask_b) * S::SIDE) * WIDTH + chunk * 16;
        const char *const start = place.src + i64(a) * p.src_a;
        from[u] = start + b;
        to[u] = square * S::BYTES + S::offset(row, chunk * 16);
        left[u] = a >= p.extent_a || b >= width ? 0 : b + 16 <= width ? 16 : u32(width - b);
        const u32 off = u32(reinterpret_cast<u64>(from[u]) & 15);
        const char *const first = from[u] - off, *const last = first + (off + left[u] > 16 ? 32 : 16);
        const bool begins = first >= start || first >= shifted.begin;
        const bool ends = last <= start + width || last <= shifted.end;
        if (left[u] == 0 || !begins || !ends) continue;
        whole |= 1u << u;
        low[u] = at<Vector>(first);
        high[u] = at<Vector>(last - 16);
    }
#pragma unroll
    for (u32 u = 0; u < 4; ++u) {
        const u32 off = u32(reinterpret_cast<u64>(from[u]) & 15);
        if (whole >> u & 1) put<Vector>(tile + to[u], shifted_by<WIDTH>(low[u], high[u], off));
    }
    copy_edges<WIDTH>(tile, to, from, left, [=](u32 u, u32) { return !(whole >> u & 1); });
}

// Reads the tile of elements that are half a vector, one of them a thread: eight are loaded before the first is put there.
__device__ __forceinline__ void load_halves(const Tiled &p, const Place &place, char *tile) {
    typedef Square<8> S;
    const u32 mask_b = (1u << p.squares_b) - 1;
    u64 held[8];
    u32 there = 0;
#pragma unroll
    for (u32 u = 0; u < 8; ++u) {
        const u32 x = u * THREADS + threadIdx.x;
        const u32 column = x % S::SIDE, row = x / S::SIDE % S::SIDE, square = x / S::SIDE / S::SIDE;
        const u64 a = place.a + (square >> p.squares_b) * S::SIDE + row;
        const u64 b = place.b + (square & mask_b) * S::SIDE + column;
        if (a >= p.extent_a || b >= p.extent_b) continue;
        there |= 1u << u;
        held[u] = at<u64>(place.src + i64(a) * p.src_a + i64(b) * 8);
    }
#pragma unroll
    for (u32 u = 0; u < 8; ++u) {
        const u32 x = u * THREADS + threadIdx.x;
        const u32 column = x % S::SIDE, row = x / S::SIDE % S::SIDE, square = x / S::SIDE / S::SIDE;
        if (there >> u & 1) put<u64>(tile + square * S::BYTES + S::offset(row, column * 8), held[u]);
    }
}

// A row of the destination in the tile: bytes that there are of it, and where they go.
template <u32 WIDTH>
struct Row {
    char *to;
    u32 count;

    __device__ __forceinline__ Row(const Tiled &p, const Place &place, u32 row) {
        typedef Square<WIDTH> S;
        const u32 square = row / S::SIDE;
        const u64 a = (place.a + (square >> p.squares_b) * S::SIDE) * WIDTH, end = p.extent_a * WIDTH;
        const u64 b = place.b + (square & ((1u << p.squares_b) - 1)) * S::SIDE + row % S::SIDE;
        to = place.dst + i64(b) * p.dst_b + a;
        count = a >= end || b >= p.extent_b ? 0 : a + 128 <= end ? 128 : u32(end - a);
    }
    // Bytes in front of the first whole word.
    __device__ __forceinline__ u32 head() const { return (0 - u32(reinterpret_cast<u64>(to))) & 3; }
};

// Writes the vectors of all threads, a word or an element a thread. The vectors go through the tile once more, as rows of b,
// so that neighbouring threads write neighbours.
template <u32 WIDTH>
__device__ __forceinline__ void store_shifted(const Tiled &p, const Place &place, const Vector *out, char *tile) {
    typedef Square<WIDTH> S;
    enum : u32 { ROWS = 128, UNIT = WIDTH < 4 ? 4 : WIDTH, LANES = 128 / UNIT };
    typedef typename Unit<UNIT>::Type Type;
    // Everybody has read the tile.
    __syncthreads();
#pragma unroll
    for (u32 u = 0; u < 4 / S::VECTORS; ++u) {
        const Column<WIDTH> column(u);
#pragma unroll
        for (u32 k = 0; k < S::VECTORS; ++k) {
            const u32 row = column.index * S::VECTORS + k;
            put<Vector>(tile + column.square * S::BYTES + row * 128 + column.group * 16, out[u * S::VECTORS + k]);
        }
    }
    __syncthreads();
#pragma unroll 4
    for (u32 x = threadIdx.x; x < ROWS * LANES; x += THREADS) {
        const Row<WIDTH> row(p, place, x / LANES);
        const u32 byte = x % LANES * UNIT;
        const char *const from = tile + x * UNIT;
        if constexpr (WIDTH < 4) {
            // A warp has a row: all its words lie the same.
            const u32 head = row.head();
            if (head + byte + 4 > row.count) continue;
            const u32 low = at<u32>(from), high = head != 0 ? at<u32>(from + 4) : 0;
            put<u32>(row.to + head + byte, permuted(low, high, 0x3210 + 0x1111 * head));
        } else {
            if (byte < row.count) put<Type>(row.to + byte, at<Type>(from));
        }
    }
    if constexpr (WIDTH < 4) {
        // Elements in front of the first whole word of a row, and behind the last.
        typedef typename Unit<WIDTH>::Type Element;
        enum : u32 { SIDE = 4 / WIDTH };
#pragma unroll 1
        for (u32 x = threadIdx.x; x < ROWS * 2 * SIDE; x += THREADS) {
            const u32 index = x / (2 * SIDE), slot = x % (2 * SIDE);
            const Row<WIDTH> row(p, place, index);
            const u32 head = row.head(), words = row.count > head ? (row.count - head) & ~3u : 0;
            const u32 end = slot < SIDE ? head : row.count;
            const u32 byte = slot < SIDE ? slot * WIDTH : head + words + (slot - SIDE) * WIDTH;
            if (byte < end && byte < row.count) put<Element>(row.to + byte, at<Element>(tile + index * 128 + byte));
        }
    }
}

template <u32 WIDTH>
__device__ __forceinline__ void transpose_shifted(const Shifted &shifted) {
    typedef Square<WIDTH> S;
    __shared__ Vector tile[1024];
    char *bytes = reinterpret_cast<char *>(tile);
    const Tiled &p = shifted.tiled;
    const Place place = place_of(p, (WIDTH >> p.squares_b) * S::SIDE, S::SIDE << p.squares_b);
    if (p.vector_src) {
        load_vectors<WIDTH>(p, place, bytes);
    } else if constexpr (WIDTH == 8) {
        load_halves(p, place, bytes);
    } else {
        load_shifted<WIDTH>(shifted, place, bytes);
    }
    __syncthreads();
    Vector out[4];
    transpose_in_registers<WIDTH>(out, bytes);
    if (p.vector_dst) {
        store_vectors<WIDTH>(p, place, out);
    } else {
        store_shifted<WIDTH>(p, place, out, bytes);
    }
}

// BLOCKS: of a multiprocessor, for what has its vectors twice; 0 asks for none.
#define TRANSPOSE(WIDTH, BLOCKS)                                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) transpose_shifted_w##WIDTH(const Shifted p) { \
        transpose_shifted<WIDTH>(p);                                                                            \
    }
TRANSPOSE(1, 4)
TRANSPOSE(2, 4)
TRANSPOSE(4, 4)
TRANSPOSE(8, 0)
#undef TRANSPOSE
