// Sums of subtrees of equal size as they come: a binary counter, whose digits wait in shared memory.
#pragma once

#include "device.cuh"

// NODE: what is joined, by JOIN::joined. Digits lie `step` nodes apart.
template <typename Node, typename Join>
struct Counter {
    Node *waiting;
    u32 step;
    Join join;
    u32 depth = 0;
    u64 count = 0;

    __device__ __forceinline__ Counter(Node *waiting, u32 step, Join join) : waiting(waiting), step(step), join(join) {}

    __device__ __forceinline__ void push(Node node) {
#pragma unroll 1
        for (u64 ones = count; ones & 1; ones >>= 1) node = join(waiting[--depth * step], node);
        waiting[depth++ * step] = node;
        ++count;
    }

    // Everything that came; `none` if nothing did.
    __device__ __forceinline__ Node root(Node none) {
        if (depth == 0) return none;
        Node node = waiting[--depth * step];
#pragma unroll 1
        while (depth > 0) node = join(waiting[--depth * step], node);
        return node;
    }
};

template <typename Node, typename Join>
__device__ __forceinline__ Counter<Node, Join> counter(Node *waiting, u32 step, Join join) {
    return Counter<Node, Join>(waiting, step, join);
}
