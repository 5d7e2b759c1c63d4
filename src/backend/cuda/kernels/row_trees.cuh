// Trees over rows whose elements lie side by side, as a warp or a block of threads holds them: blocks of 1,024 elements in 32 lanes,
// joined in halves; then blocks in pairs.
#pragma once

#include "halves.cuh"

struct Sum {
    template <typename T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return sum(a, b);
    }
};

// What all lanes have, joined in halves, in every lane: the order is one, from whichever side. Of four numbers together.
template <typename T, typename Join>
__device__ __forceinline__ void join_lanes(T (&node)[1], const Join &join) {
#pragma unroll
    for (u32 half = 16; half > 0; half /= 2) node[0] = join(node[0], __shfl_xor_sync(~0u, node[0], half));
}
template <typename Join>
__device__ __forceinline__ void join_lanes(f32 (&node)[4], const Join &join) {
    const f32 all = root_of_four(node, join);
#pragma unroll
    for (u32 r = 0; r < 4; ++r) node[r] = __shfl_sync(~0u, all, lane_of_root(r));
}

// Elements of a block of the tree, and what the warps of a block of threads tell each other: a number each.
enum : u32 { BLOCK = 1024, WARPS = 32 };

struct RowRoom {
    static constexpr bool is_shared = true;
    f32 first[WARPS], second[WARPS];
};
// Of warps that tell each other nothing.
struct Alone {
    static constexpr bool is_shared = false;
};

// What the first COUNT warps have, joined in pairs, in every thread.
template <typename T, typename Join>
__device__ __forceinline__ T join_warps(T *room, T own, u32 count, const Join &join) {
    const u32 lane = threadIdx.x % 32;
    if (lane == 0) room[threadIdx.x / 32] = own;
    __syncthreads();
    T node = lane < count ? room[lane] : own;
#pragma unroll
    for (u32 step = 1; step < WARPS; step *= 2) {
        const T other = __shfl_down_sync(~0u, node, step);
        if (lane + step < count) node = join(node, other);
    }
    return __shfl_sync(~0u, node, 0);
}
