// The kernels that take every problem, one element at a time: strided, mapped and ordered.
#pragma once

#include "element.cuh"

struct Strided {
    Pointers at;
    u64 count;
    Operation operation;
    u32 rank;
    u32 fills;
    Loop loops[20];  // innermost first
};

struct MappedLoop {
    Divisor extent;
    i64 dst;
    u32 axis;
    u32 step;
};

struct MappedAxis {
    i64 dst_extent;
    i64 src_extent;
    i64 before;
    i64 src;
    Divisor factor;
    Divisor block;
};

struct Mapped {
    Pointers at;
    u64 count;
    Operation operation;
    Operation fill;
    Divisor group;
    u32 rank;
    u32 loop_count;
    u32 unfolds;
    u32 src_size;
    MappedLoop loops[9];  // innermost first
    MappedAxis axes[8];
};

static_assert(sizeof(Strided) == 64 + 40 * 20, "general.rs has another Strided");
static_assert(sizeof(Mapped) == 16 + 8 + 64 + 24 + 16 + 40 * 9 + 80 * 8, "general.rs has another Mapped");

// Elements per thread. A block computes 1024; `general.rs` counts blocks by the same number.
enum { PER_THREAD = 4 };

// Where both operands of one element lie, in bytes.
template <typename Signed>
struct Offsets {
    Signed dst, src;
};

template <typename Signed, typename Index>
__device__ __forceinline__ Offsets<Signed> offsets_of(Index index, const Strided &p) {
    Offsets<Signed> offsets = {0, 0};
    Index rest = index;
#pragma unroll 1
    for (u32 i = 0; i + 1 < p.rank; ++i) {
        const Loop &loop = p.loops[i];
        const Index outer = quotient(rest, loop.extent);
        const Signed here = Signed(rest - outer * Index(loop.extent.divisor));
        offsets.dst += here * Signed(loop.dst);
        offsets.src += here * Signed(loop.src);
        rest = outer;
    }
    // What is left belongs to the outermost loop.
    offsets.dst += Signed(rest) * Signed(p.loops[p.rank - 1].dst);
    offsets.src += Signed(rest) * Signed(p.loops[p.rank - 1].src);
    return offsets;
}

// Elements per thread of a move: more of those that are narrow, and of these as many as five blocks of a multiprocessor
// have registers for. `general.rs` counts blocks by the same numbers.
__device__ constexpr u32 moved_per_thread(u32 bytes, bool is_near) { return bytes > 4 ? 4 : bytes < 4 && is_near ? 14 : 8; }

template <typename Signed, typename Index, u32 BYTES>
__device__ __forceinline__ void strided_move(const Strided &p) {
    typedef typename Unit<BYTES>::Type Type;
    enum : u32 { EACH = moved_per_thread(BYTES, sizeof(Signed) == 4) };
    const Index first = Index(blockIdx.x) * (THREADS * EACH) + threadIdx.x;
    // All loads before all stores, so that their latencies overlap. Operands never share memory unless every
    // element is its own source. Each is loaded as soon as its place is known, which then needs no register.
    Type held[EACH];
    Signed dst[EACH];
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
        const Index index = first + i * THREADS;
        const Offsets<Signed> offsets = offsets_of<Signed, Index>(index < Index(p.count) ? index : Index(0), p);
        dst[i] = offsets.dst;
        if (index < Index(p.count)) held[i] = at<Type>(p.at.src + offsets.src);
    }
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
        if (first + i * THREADS < Index(p.count)) put<Type>(p.at.dst + dst[i], held[i]);
    }
}

// Elements per thread of a conversion; `general.rs` counts blocks by the same number.
enum { CONVERTED = 8 };

template <typename Signed, typename Index>
__device__ __forceinline__ void strided_convert(const Strided &p) {
    const Index first = Index(blockIdx.x) * (THREADS * CONVERTED) + threadIdx.x;
    char *y[CONVERTED];
    const char *x[CONVERTED];
    u32 wanted = 0;
#pragma unroll
    for (u32 i = 0; i < CONVERTED; ++i) {
        const Index index = first + i * THREADS;
        const bool is_one = index < Index(p.count);
        const Offsets<Signed> offsets = offsets_of<Signed, Index>(is_one ? index : 0, p);
        y[i] = p.at.dst + offsets.dst;
        x[i] = p.at.src + offsets.src;
        wanted |= u32(is_one) << i;
    }
    compute_all<u64>(p.operation, y, x, wanted);
}

// One thread walks in the order of the loops: where destination addresses repeat, the last write wins.
__device__ __forceinline__ void walk_in_order(const Strided &p) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    for (u64 index = 0; index < p.count; ++index) {
        const Offsets<i64> offsets = offsets_of<i64, u64>(index, p);
        if (p.fills) {
            fill(p.operation, p.at.dst + offsets.dst);
        } else {
            compute(p.operation, p.at.dst + offsets.dst, p.at.src + offsets.src);
        }
    }
}

enum { CHANNEL = 1 };

// Byte offset of the source of the element at these destination coordinates; false if it has none.
template <typename Signed, typename Index>
__device__ __forceinline__ bool source_of(const Mapped &p, const Signed *coordinate, i64 &offset) {
    Signed group = 0;    // channels in front of this element's group
    Index position = 0;  // inside the fold block, row-major
    Signed channel = coordinate[CHANNEL];
    offset = 0;
    if (p.unfolds) {
        // Undo the folding of every dimension first: together they name the group of channels.
        Signed source[8];
#pragma unroll
        for (u32 k = 0; k < 8; ++k) {
            if (k >= p.rank) break;
            const MappedAxis &axis = p.axes[k];
            const Signed inside = coordinate[k] - Signed(axis.before);
            const Index limit =
                k == CHANNEL ? Index(p.group.divisor) : Index(axis.src_extent) * Index(axis.factor.divisor);
            if (inside < 0 || Index(inside) >= limit) return false;
            const Index block = quotient(Index(inside), axis.factor);
            position = position * Index(axis.factor.divisor) + (Index(inside) - block * Index(axis.factor.divisor));
            source[k] = Signed(block);
        }
        source[CHANNEL] += Signed(position * Index(p.group.divisor));
#pragma unroll
        for (u32 k = 0; k < 8; ++k) {
            if (k >= p.rank) break;
            const MappedAxis &axis = p.axes[k];
            if (source[k] >= Signed(axis.src_extent)) return false;
            const Index block = quotient(Index(source[k]), axis.block);
            offset += i64(block) * axis.src + i64(Index(source[k]) - block * Index(axis.block.divisor)) * p.src_size;
        }
        return true;
    }
    position = quotient(Index(channel), p.group);
    group = Signed(position * Index(p.group.divisor));
#pragma unroll
    for (u32 k = 8; k-- > 0;) {
        if (k >= p.rank) continue;
        const MappedAxis &axis = p.axes[k];
        const Index outer = quotient(position, axis.factor);
        const Signed place = Signed(position - outer * Index(axis.factor.divisor));
        position = outer;
        const Signed target = k == CHANNEL ? channel - group : coordinate[k];
        const Signed source = target * Signed(axis.factor.divisor) + place - Signed(axis.before);
        if (source < 0 || source >= Signed(axis.src_extent)) return false;
        const Index block = quotient(Index(source), axis.block);
        offset += i64(block) * axis.src + i64(Index(source) - block * Index(axis.block.divisor)) * p.src_size;
    }
    return true;
}

template <typename Signed, typename Index>
__device__ __forceinline__ void map(const Mapped &p) {
    const Index first = Index(blockIdx.x) * (THREADS * PER_THREAD) + threadIdx.x;
    char *to[PER_THREAD];
    const char *from[PER_THREAD];
    // Elements with a source, and those of a blocked layout's tail; all others are filled.
    u32 sources = 0, tails = 0, there = 0;
#pragma unroll
    for (u32 i = 0; i < PER_THREAD; ++i) {
        Index rest = first + i * THREADS;
        to[i] = p.at.dst;
        from[i] = p.at.src;
        if (rest >= Index(p.count)) continue;
        there |= 1u << i;
        // Kept in registers: every loop over it is unrolled, and no index is computed.
        Signed coordinate[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        i64 dst = 0;
#pragma unroll 1
        for (u32 t = 0; t < p.loop_count; ++t) {
            const MappedLoop &loop = p.loops[t];
            const Index outer = quotient(rest, loop.extent);
            const Signed here = Signed(rest - outer * Index(loop.extent.divisor));
            rest = outer;
            dst += i64(here) * loop.dst;
#pragma unroll
            for (u32 k = 0; k < 8; ++k) coordinate[k] += k == loop.axis ? here * Signed(loop.step) : 0;
        }
        bool tail = false;
#pragma unroll
        for (u32 k = 0; k < 8; ++k) tail = tail || (k < p.rank && coordinate[k] >= Signed(p.axes[k].dst_extent));
        i64 src = 0;
        to[i] += dst;
        if (tail) {
            tails |= 1u << i;
        } else if (source_of<Signed, Index>(p, coordinate, src)) {
            sources |= 1u << i;
            from[i] += src;
        }
    }
    compute_all<u64>(p.operation, to, from, sources);
#pragma unroll 1
    for (u32 rest = there & ~sources; rest != 0; rest &= rest - 1) {
        // The lowest of them.
        char *y = to[0];
#pragma unroll
        for (u32 i = PER_THREAD; i-- > 1;) y = rest >> i & 1 ? to[i] : y;
        if (rest & 1) y = to[0];
        Operation operation = p.fill;
        if (tails & (rest & (0u - rest))) operation.steps = 0;
        fill(operation, y);
    }
}
