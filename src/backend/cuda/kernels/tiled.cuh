// Two axes that trade places, a tile at a time through shared memory: transposes by width, and with conversion.
#pragma once

#include "linear.cuh"

// Two axes that trade places: `a` is contiguous in the destination, `b` in the source.
struct Tiled {
    Pointers at;
    Operation operation;
    u64 extent_a;
    u64 extent_b;
    i64 dst_b;  // bytes the destination moves per step of b
    i64 src_a;  // bytes the source moves per step of a
    Divisor tiles_a;
    Divisor tiles_b;
    u32 squares_b;   // log2 of the squares of a tile that lie side by side along b; the others lie along a
    u32 vector_dst;  // whether every row of the destination starts on 16 bytes
    u32 vector_src;  // whether every row of the source starts on 16 bytes
    u32 rank;
    Loop loops[18];  // of the batch, innermost first
};

static_assert(sizeof(Tiled) == 16 + 32 + 32 + 48 + 16 + 40 * 18, "tiled.rs has another Tiled");

// Where a block works: the first a and b of its tile, and the data pointers of its batch.
struct Place {
    u64 a, b;
    char *dst;
    const char *src;
};

__device__ __forceinline__ Place place_of(const Tiled &p, u32 tile_a, u32 tile_b) {
    Place place = {0, 0, p.at.dst, p.at.src};
    u32 rest = blockIdx.x;
    u32 outer = quotient(rest, p.tiles_b);
    place.b = u64(rest - outer * u32(p.tiles_b.divisor)) * tile_b;
    rest = outer;
    outer = quotient(rest, p.tiles_a);
    place.a = u64(rest - outer * u32(p.tiles_a.divisor)) * tile_a;
    rest = outer;
#pragma unroll 1
    for (u32 i = 0; i < p.rank; ++i) {
        const Loop &loop = p.loops[i];
        outer = quotient(rest, loop.extent);
        const i64 here = i64(rest - outer * u32(loop.extent.divisor));
        place.dst += here * loop.dst;
        place.src += here * loop.src;
        rest = outer;
    }
    return place;
}

// A tile is WIDTH squares of 128 bytes by 128 bytes / WIDTH rows: 16 KiB whatever the width. Shared memory holds each
// row of a (128 bytes, contiguous in b) as 8 chunks of 16 bytes, chunk c of row r at position c ^ key(r). With that:
// - loading, 8 threads write the 8 chunks of one row: all banks once;
// - transposing, 8 threads along a read one column of 8 groups of rows whose keys are 0 to 7: all banks once.
template <u32 WIDTH>
struct Square {
    enum {
        SIDE = 128 / WIDTH,                  // elements
        BYTES = SIDE * 128,                  // of shared memory
        COLUMN = WIDTH < 4 ? 4 : WIDTH,      // bytes of b that a thread reads per row when it transposes
        COLUMNS = 128 / COLUMN,              // per row
        ROWS = WIDTH < 16 ? 16 / WIDTH : 1,  // of a in one vector of the destination
        VECTORS = COLUMN / WIDTH,            // of the destination that come of one column
    };

    static __device__ __forceinline__ constexpr u32 key(u32 row) { return (row * WIDTH >> 4) & 7; }

    // Offset of byte `byte` of row `row`.
    static __device__ __forceinline__ constexpr u32 offset(u32 row, u32 byte) {
        return row * 128 + ((((byte >> 4) ^ key(row)) << 4) | (byte & 15));
    }
};

// Whether the threads that shared memory serves at a time, 128 bytes of them, meet in no bank: those that write vectors
// of a row, and those that read a column.
template <u32 WIDTH>
__device__ constexpr bool is_free_of_conflicts() {
    typedef Square<WIDTH> S;
    for (u32 row = 0; row < S::SIDE; ++row) {
        u32 seen = 0;
        for (u32 chunk = 0; chunk < 8; ++chunk) seen |= 1u << (S::offset(row, chunk * 16) / 16 % 8);
        if (seen != 0xff) return false;
    }
    const u32 bytes = S::COLUMN < 16 ? S::COLUMN : 16, threads = 128 / bytes;
    for (u32 v = 0; v < S::ROWS; ++v) {
        for (u32 first = 0; first < 8 * S::COLUMNS; first += threads) {
            u64 seen = 0;
            for (u32 x = first; x < first + threads; ++x) {
                const u32 group = x & 7, column = x >> 3;
                const u32 row = WIDTH < 16 ? group * S::ROWS + v : group * 16 / WIDTH;
                const u32 byte = column * S::COLUMN + (WIDTH < 16 ? 0 : group * 16 % WIDTH);
                seen |= u64(1) << (S::offset(row, byte) / bytes % threads);
            }
            if (seen != (u64(1) << threads) - 1) return false;
        }
    }
    return true;
}

// Transposes ROWS columns into VECTORS vectors: the transpose inside registers.
template <u32 WIDTH>
struct Turned;

template <>
struct Turned<1> {
    static __device__ __forceinline__ void into(Vector *out, const u32 *in) {
#pragma unroll
        for (u32 q = 0; q < 4; ++q) {
            const u32 *w = in + 4 * q;
            const u32 low01 = permuted(w[0], w[1], 0x5140), low23 = permuted(w[2], w[3], 0x5140);
            const u32 high01 = permuted(w[0], w[1], 0x7362), high23 = permuted(w[2], w[3], 0x7362);
            out[0].word[q] = permuted(low01, low23, 0x5410);
            out[1].word[q] = permuted(low01, low23, 0x7632);
            out[2].word[q] = permuted(high01, high23, 0x5410);
            out[3].word[q] = permuted(high01, high23, 0x7632);
        }
    }
};

template <>
struct Turned<2> {
    static __device__ __forceinline__ void into(Vector *out, const u32 *in) {
#pragma unroll
        for (u32 q = 0; q < 4; ++q) {
            out[0].word[q] = permuted(in[2 * q], in[2 * q + 1], 0x5410);
            out[1].word[q] = permuted(in[2 * q], in[2 * q + 1], 0x7632);
        }
    }
};

// Copies what exists of 16 bytes, element by element.
template <u32 WIDTH>
__device__ __forceinline__ void copy_part(char *to, const char *from, u64 bytes) {
    typedef typename Unit<(WIDTH < 16 ? WIDTH : 16)>::Type Type;
#pragma unroll
    for (u32 i = 0; i < 16; i += sizeof(Type)) {
        if (i < bytes) put<Type>(to + i, at<Type>(from + i));
    }
}

// Reads a tile inside the tensor, 16 bytes a thread and four times that: no branch lies between the loads.
template <u32 WIDTH>
__device__ __forceinline__ void load_whole(const Tiled &p, const Place &place, char *tile) {
    typedef Square<WIDTH> S;
    const u32 mask_b = (1u << p.squares_b) - 1, chunk = threadIdx.x & 7;
    const char *const from = place.src + i64(place.a) * p.src_a + place.b * WIDTH + chunk * 16;
    Vector held[4];
#pragma unroll
    for (u32 u = 0; u < 4; ++u) {
        const u32 x = (u * THREADS + threadIdx.x) >> 3, row = x % S::SIDE, square = x / S::SIDE;
        held[u] = at<Vector>(from + i64((square >> p.squares_b) * S::SIDE + row) * p.src_a + (square & mask_b) * 128);
    }
#pragma unroll
    for (u32 u = 0; u < 4; ++u) {
        const u32 x = (u * THREADS + threadIdx.x) >> 3, row = x % S::SIDE, square = x / S::SIDE;
        put<Vector>(tile + square * S::BYTES + S::offset(row, chunk * 16), held[u]);
    }
}

// What of a thread's four vectors was not loaded as one, at the edge of the tensor: into the tile element by element. `is_part` tells
// of a vector's number, and the bytes that there are of it, whether it is one of these.
template <u32 WIDTH, typename IsPart>
__device__ __forceinline__ void copy_edges(char *tile, const u32 (&to)[4], const char *const (&from)[4],
                                           const u32 (&left)[4], IsPart is_part) {
#pragma unroll 1
    for (u32 u = 0; u < 4; ++u) {
        // No index that only a run knows, which would put arrays into memory.
        u32 bytes = left[0], offset = to[0];
        const char *source = from[0];
#pragma unroll
        for (u32 k = 1; k < 4; ++k) {
            bytes = k == u ? left[k] : bytes;
            offset = k == u ? to[k] : offset;
            source = k == u ? from[k] : source;
        }
        if (is_part(u, bytes)) copy_part<WIDTH>(tile + offset, source, bytes);
    }
}

// Reads the tile, 16 bytes a thread and four times that, all of them before the first is put into the tile.
template <u32 WIDTH>
__device__ __forceinline__ void load_vectors(const Tiled &p, const Place &place, char *tile) {
    typedef Square<WIDTH> S;
    const u32 mask_b = (1u << p.squares_b) - 1;
    const u64 end = p.extent_b * WIDTH;
    Vector held[4];
    u32 to[4], left[4];  // bytes that there are from here on, 16 for all
    const char *from[4];
#pragma unroll
    for (u32 u = 0; u < 4; ++u) {
        const u32 x = u * THREADS + threadIdx.x;
        const u32 chunk = x & 7, row = (x >> 3) % S::SIDE, square = (x >> 3) / S::SIDE;
        const u64 a = place.a + (square >> p.squares_b) * S::SIDE + row;
        const u64 b = (place.b + (square & mask_b) * S::SIDE) * WIDTH + chunk * 16;
        from[u] = place.src + i64(a) * p.src_a + b;
        to[u] = square * S::BYTES + S::offset(row, chunk * 16);
        left[u] = a >= p.extent_a || b >= end ? 0 : b + 16 <= end ? 16 : u32(end - b);
        if (left[u] == 16) held[u] = at<Vector>(from[u]);
    }
#pragma unroll
    for (u32 u = 0; u < 4; ++u) {
        if (left[u] == 16) put<Vector>(tile + to[u], held[u]);
    }
    copy_edges<WIDTH>(tile, to, from, left, [](u32, u32 bytes) { return bytes < 16; });
}

// Where a thread's vectors belong: the square, the group of 16 bytes of a, and the first of VECTORS neighbours in b.
template <u32 WIDTH>
struct Column {
    u32 square, group, index;

    // The `u`-th of a thread's columns.
    __device__ __forceinline__ Column(u32 u) {
        typedef Square<WIDTH> S;
        const u32 x = u * THREADS + threadIdx.x;
        group = x & 7;
        index = (x >> 3) % S::COLUMNS;
        square = (x >> 3) / S::COLUMNS;
    }
};

// Reads four vectors of the destination from the tile: the transpose. What lies outside the tensor is not looked at.
template <u32 WIDTH>
__device__ __forceinline__ void transpose_in_registers(Vector *out, const char *tile) {
    typedef Square<WIDTH> S;
#pragma unroll
    for (u32 u = 0; u < 4 / S::VECTORS; ++u) {
        const Column<WIDTH> column(u);
        const char *from = tile + column.square * S::BYTES;
        if constexpr (WIDTH < 4) {
            u32 in[S::ROWS];
#pragma unroll
            for (u32 v = 0; v < S::ROWS; ++v) {
                in[v] = at<u32>(from + S::offset(column.group * S::ROWS + v, column.index * 4));
            }
            Turned<WIDTH>::into(out + u * S::VECTORS, in);
        } else if constexpr (WIDTH < 16) {
            typedef typename Unit<WIDTH>::Type Type;
#pragma unroll
            for (u32 v = 0; v < S::ROWS; ++v) {
                const Type element = at<Type>(from + S::offset(column.group * S::ROWS + v, column.index * WIDTH));
                memcpy(reinterpret_cast<char *>(out + u) + v * WIDTH, &element, WIDTH);
            }
        } else {
            // A vector of the destination is an element or half of one.
            const u32 byte = column.group * 16;
            out[u] = at<Vector>(from + S::offset(byte / WIDTH, column.index * WIDTH + byte % WIDTH));
        }
    }
}

// Writes a thread's four vectors.
template <u32 WIDTH>
__device__ __forceinline__ void store_vectors(const Tiled &p, const Place &place, const Vector *out) {
    typedef Square<WIDTH> S;
    const u32 mask_b = (1u << p.squares_b) - 1;
    const u64 end = p.extent_a * WIDTH;
#pragma unroll
    for (u32 u = 0; u < 4 / S::VECTORS; ++u) {
        const Column<WIDTH> column(u);
        const u64 a = (place.a + (column.square >> p.squares_b) * S::SIDE) * WIDTH + column.group * 16;
        const u64 b = place.b + (column.square & mask_b) * S::SIDE + column.index * S::VECTORS;
#pragma unroll
        for (u32 k = 0; k < S::VECTORS; ++k) {
            if (a >= end || b + k >= p.extent_b) continue;
            char *to = place.dst + i64(b + k) * p.dst_b + a;
            const Vector &vector = out[u * S::VECTORS + k];
            if (a + 16 <= end) {
                put<Vector>(to, vector);
            } else {
                copy_part<WIDTH>(to, reinterpret_cast<const char *>(&vector), end - a);
            }
        }
    }
}

// Every row of both operands starts on 16 bytes; `transpose_shifted.cu` has the others.
template <u32 WIDTH>
__device__ __forceinline__ void transpose(const Tiled &p) {
    typedef Square<WIDTH> S;
    static_assert(is_free_of_conflicts<WIDTH>(), "two threads meet in a bank");
    __shared__ Vector tile[1024];
    char *bytes = reinterpret_cast<char *>(tile);
    const Place place = place_of(p, (WIDTH >> p.squares_b) * S::SIDE, S::SIDE << p.squares_b);
    // The assembler keeps the loads of the other widths together without that, and would spill registers with it.
    if (WIDTH != 4 && WIDTH < 32 && place.a + (WIDTH >> p.squares_b) * S::SIDE <= p.extent_a &&
        place.b + (S::SIDE << p.squares_b) <= p.extent_b) {
        load_whole<WIDTH>(p, place, bytes);
    } else {
        load_vectors<WIDTH>(p, place, bytes);
    }
    __syncthreads();
    Vector out[4];
    transpose_in_registers<WIDTH>(out, bytes);
    store_vectors<WIDTH>(p, place, out);
}
