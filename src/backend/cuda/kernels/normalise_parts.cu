// Normalisation of few and long groups: each cut into parts that are whole subtrees of its sum, a block of threads for a
// part. One launch leaves the sums of parts in the caller's workspace, the next joins those of each group, the last maps
// the elements.
#include "normalise_sums.cuh"

// What every element of a group is computed with, as numbers of the computation type.
template <typename T>
struct Constants {
    T mean, inverse, centre, tilt;
};

enum { MOST_PARTS = 256 };

template <typename T>
__device__ __forceinline__ Constants<T> *constants_of(const Normal &p, u64 group) {
    return reinterpret_cast<Constants<T> *>(p.constants) + group;
}

// Mean and inverse of a group, as an earlier launch or an earlier pass left them.
template <typename T>
__device__ __forceinline__ Line<T> line_of(const Normal &p, const Share &share) {
    const i64 own = share.group.of[5];
    const bool saved = p.flags & SAVES;
    const Constants<T> *constants = constants_of<T>(p, share.there ? share.number : 0);
    const T mean = saved ? own_number<T>(p, 8, own) : constants->mean;
    const T inverse = saved ? own_number<T>(p, 9, own) : constants->inverse;
    const T offset = (p.flags & SLOPES) && !(p.flags & KEEPS) ? own_number<T>(p, 7, own) : T(0);
    return {mean, product(own_number<T>(p, 6, own), inverse), offset};
}

// Where the sums of a part of a thread's group lie; those of 32 neighbouring groups lie side by side.
__device__ __forceinline__ Sums *sums_at(const Normal &p, u64 unit, u64 part) {
    const u64 place = unit * p.parts + part;
    return reinterpret_cast<Sums *>(p.sums) + (p.flags & BY_ROWS ? place * 32 + threadIdx.x % 32 : place);
}

// Of a block's part, the sums for mean and variance; x is operand 6 of a forward pass, 4 of a backward one.
template <typename T>
__device__ __forceinline__ void sum_part(const Normal &p, Room &room) {
    const u64 unit = blockIdx.x / p.parts, part = blockIdx.x % p.parts;
    const Share share = share_of(p, unit, part);
    const Sums sums = moment_sums<T>(p, share, p.flags & BATCH ? 6 : 4, room);
    if (share.leads) *sums_at(p, unit, part) = sums;
}

// And those of gradients. CALLS: whether slopes are computed apart.
template <typename T, bool CALLS>
__device__ __forceinline__ void sum_part_back(const Normal &p, Room &room) {
    const u64 unit = blockIdx.x / p.parts, part = blockIdx.x % p.parts;
    const Share share = share_of(p, unit, part);
    const Sums sums = gradient_sums<T, CALLS>(p, share, line_of<T>(p, share), room);
    if (share.leads) *sums_at(p, unit, part) = sums;
}

// The sum of all parts of a thread's group.
__device__ __forceinline__ Sums joined_parts(const Normal &p, u64 unit, Room &room) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (p.flags & BY_ROWS) {
        // A warp joins 32 parts, then the first warp what all have.
        auto waiting = waiting_in(room.waiting + threadIdx.x, THREADS);
#pragma unroll 1
        for (u32 part = 32 * warp; part < p.parts && part < 32 * warp + 32; ++part) waiting.push(*sums_at(p, unit, part));
        room.nodes[threadIdx.x] = waiting.root({0.0, 0.0});
        __syncthreads();
        if (warp == 0) {
            auto whole = waiting_in(room.waiting + lane, 32);
#pragma unroll 1
            for (u32 i = 0; 32 * i < p.parts; ++i) whole.push(room.nodes[32 * i + lane]);
            room.nodes[lane] = whole.root({0.0, 0.0});
        }
        __syncthreads();
        return room.nodes[lane];
    }
    if (threadIdx.x < p.parts) room.nodes[threadIdx.x] = *sums_at(p, unit, threadIdx.x);
    __syncthreads();
#pragma unroll 1
    for (u32 step = 1; step < p.parts; step *= 2) {
        if (threadIdx.x % (2 * step) == 0 && threadIdx.x + step < p.parts) {
            room.nodes[threadIdx.x] = joined(room.nodes[threadIdx.x], room.nodes[threadIdx.x + step]);
        }
        __syncthreads();
    }
    return room.nodes[0];
}

// A block for a group, or for 32: what follows from its sums.
template <typename T>
__device__ __forceinline__ void join(const Normal &p, Room &room) {
    const Share share = share_of(p, blockIdx.x, 0);
    const Sums sums = joined_parts(p, blockIdx.x, room);
    if (!share.leads) return;
    Constants<T> *constants = constants_of<T>(p, share.number);
    if (p.flags & GRADIENTS) {
        const i64 own = share.group.of[5];
        const T inverse = p.flags & SAVES ? own_number<T>(p, 9, own) : constants->inverse;
        const Slant<T> slant = slant_of<T>(p, share, sums, inverse);
        constants->centre = slant.centre;
        constants->tilt = slant.tilt;
    } else {
        const Moments moments = moments_of(p, sums, shift_of<T>(p, share, p.flags & BATCH ? 6 : 4));
        const T mean = T(moments.mean), inverse = inverse_of<T>(p, moments.variance);
        constants->mean = mean;
        constants->inverse = inverse;
        if (p.flags & BATCH) keep_moments<T>(p, share.group.of[4], moments, mean, inverse);
    }
}

template <typename T, bool CALLS>
__device__ __forceinline__ void apply(const Normal &p, Line<T> *lines) {
    const Share share = share_of(p, blockIdx.x / p.parts, blockIdx.x % p.parts);
    // In shared memory, where a call leaves few registers: of 32 groups, or 32 times of one.
    Line<T> &line = lines[threadIdx.x % 32];
    if (threadIdx.x < 32) {
        const Constants<T> constants = *constants_of<T>(p, share.there ? share.number : 0);
        const i64 own = share.group.of[4];
        line = {constants.mean, product(own_number<T>(p, 8, own), constants.inverse), own_number<T>(p, 9, own)};
    }
    __syncthreads();
    map_forward<T, CALLS>(p, share, line.mean, line.slope, line.offset);
}

template <typename T, bool CALLS>
__device__ __forceinline__ void apply_back(const Normal &p) {
    const Share share = share_of(p, blockIdx.x / p.parts, blockIdx.x % p.parts);
    if (!share.there) return;
    const Constants<T> *constants = constants_of<T>(p, share.number);
    map_backward<T, CALLS>(p, share, line_of<T>(p, share), {constants->centre, constants->tilt});
}

#define NORMALISE(NAME, T)                                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_part_##NAME(const Normal p) {               \
        __shared__ Room room;                                                                                  \
        sum_part<T>(p, room);                                                                                  \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_part_back_##NAME(const Normal p) {          \
        __shared__ Room room;                                                                                  \
        sum_part_back<T, false>(p, room);                                                                      \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_part_back_of_##NAME(const Normal p) {       \
        __shared__ Room room;                                                                                  \
        sum_part_back<T, true>(p, room);                                                                       \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_join_##NAME(const Normal p) {               \
        __shared__ Room room;                                                                                  \
        join<T>(p, room);                                                                                      \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_apply_##NAME(const Normal p) {              \
        __shared__ Line<T> lines[32];                                                                          \
        apply<T, false>(p, lines);                                                                             \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_apply_of_##NAME(const Normal p) {           \
        __shared__ Line<T> lines[32];                                                                          \
        apply<T, true>(p, lines);                                                                              \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_apply_back_##NAME(const Normal p) {         \
        apply_back<T, false>(p);                                                                               \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_apply_back_of_##NAME(const Normal p) {      \
        apply_back<T, true>(p);                                                                                \
    }
NORMALISE(f32, f32)
NORMALISE(f64, f64)
#undef NORMALISE
