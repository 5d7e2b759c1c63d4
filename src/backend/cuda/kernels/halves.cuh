// Trees of 32 lanes, of which a warp joins four together: by a third of the shuffles that one after the other takes.
#pragma once

#include "device.cuh"

// Both halves of a tree's lanes joined, of two trees at once: lanes whose bit HALF is set go on with the second one.
template <u32 HALF, typename Join>
__device__ __forceinline__ f32 halved(f32 first, f32 second, const Join &join) {
    const bool upper = threadIdx.x & HALF;
    const f32 own = upper ? second : first, other = upper ? first : second;
    return join(own, __shfl_xor_sync(~0u, other, HALF));
}

// The roots of four trees, that of tree R in lane `lane_of_root(R)` and the seven behind it.
template <typename Join>
__device__ __forceinline__ f32 root_of_four(const f32 (&node)[4], const Join &join) {
    f32 total = halved<8>(halved<16>(node[0], node[1], join), halved<16>(node[2], node[3], join), join);
#pragma unroll
    for (u32 half = 4; half > 0; half /= 2) total = join(total, __shfl_xor_sync(~0u, total, half));
    return total;
}

__device__ __forceinline__ constexpr u32 lane_of_root(u32 tree) { return tree % 2 * 16 + tree / 2 * 8; }
