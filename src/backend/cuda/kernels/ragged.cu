// Batches that lie where offsets say, to and from a dense tensor. `ops/ragged.rs` defines it.
// A batch whose offsets are negative or decrease has no element: nobody can refuse them once a kernel runs.
#include "element.cuh"

struct Ragged {
    char *dense;    // where its loops start
    char *ragged;   // of a batch at offset 0
    char *offsets;
    u64 count;  // elements of the dense operand
    Divisor by_batch;
    i64 stride;      // elements of the dense operand from batch to batch
    i64 multiplier;  // elements per unit of an offset
    i64 first;       // elements in front of the loops of a batch
    u32 size;        // bytes of an element
    u32 wide;        // whether offsets have 64 bits
    u32 stores;      // whether the ragged operand is written
    u32 rank;
    Loop loops[8];  // of a batch, innermost first, in elements: dense, ragged
};

static_assert(sizeof(Ragged) == 32 + 24 + 24 + 16 + 40 * 8, "ragged.rs has another Ragged");

__device__ __forceinline__ i64 offset_of(const Ragged &p, i64 batch) {
    return p.wide ? at<i64>(p.offsets + 8 * batch) : i64(at<i32>(p.offsets + 4 * batch));
}

template <typename Type>
__device__ __forceinline__ void carry(const Ragged &p, i64 near, i64 far, bool there) {
    char *const dense = p.dense + near * i64(sizeof(Type)), *const ragged = p.ragged + far * i64(sizeof(Type));
    if (p.stores) {
        if (there) put<Type>(ragged, at<Type>(dense));
    } else {
        put<Type>(dense, there ? at<Type>(ragged) : Type(0));
    }
}

// A thread for an element of the dense operand.
extern "C" __global__ void __launch_bounds__(THREADS, 1) ragged(const Ragged p) {
    const u64 step = u64(gridDim.x) * THREADS;
#pragma unroll 1
    for (u64 item = u64(blockIdx.x) * THREADS + threadIdx.x; item < p.count; item += step) {
        const u64 batch = quotient(item, p.by_batch);
        u64 rest = item - batch * p.by_batch.divisor;
        i64 near = i64(batch) * p.stride, far = p.first;
#pragma unroll 1
        for (u32 k = 0; k < p.rank; ++k) {
            const Loop &loop = p.loops[k];
            const u64 outer = k + 1 < p.rank ? quotient(rest, loop.extent) : u64(0);
            const i64 index = i64(rest - outer * loop.extent.divisor);
            near += index * loop.dst;
            far += index * loop.src;
            rest = outer;
        }
        const i64 begin = offset_of(p, i64(batch)), end = offset_of(p, i64(batch) + 1);
        const bool there = begin >= 0 && end > begin && far < (end - begin) * p.multiplier;
        far += begin * p.multiplier;
        switch (p.size) {
            case 1: carry<u8>(p, near, far, there); break;
            case 2: carry<u16>(p, near, far, there); break;
            case 4: carry<u32>(p, near, far, there); break;
            default: carry<u64>(p, near, far, there); break;
        }
    }
}
