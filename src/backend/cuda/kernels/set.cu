// SetTensor and the zeros of padding: one value in every cell.
#include "element.cuh"
#include "general.cuh"
#include "linear.cuh"

// One value in every cell.
struct Set {
    char *at;
    u64 count;  // cells, or vectors of a run
    u64 cell;   // repeated to 8 bytes
    u32 head;   // bytes of a run in front of its first vector
    u32 tail;   // bytes of a run behind its last vector
    u32 rank;
    u32 unused;
    Loop loops[20];  // innermost first
};

static_assert(sizeof(Set) == 24 + 16 + 40 * 20, "fill.rs has another Set");

// A run of cells: whole vectors, and the bytes around them. Vectors lie at multiples of the cell, as the run does.
__device__ __forceinline__ void set_run_of(const Set &p) {
    const u32 low = u32(p.cell), high = u32(p.cell >> 32);
    const Vector vector = {{low, high, low, high}};
    const u64 first = u64(blockIdx.x) * (THREADS * COPY_VECTORS) + threadIdx.x;
#pragma unroll
    for (u32 i = 0; i < COPY_VECTORS; ++i) {
        const u64 index = first + i * THREADS;
        if (index < p.count) put<Vector>(p.at + index * 16, vector);
    }
    if (blockIdx.x != 0) return;
    // Byte b of the pattern lies at every address that is b modulo 8.
    const u32 i = threadIdx.x;
    if (i < p.head) put<u8>(p.at - p.head + i, u8(p.cell >> ((8 * (i - p.head)) & 63)));
    if (i < p.tail) put<u8>(p.at + p.count * 16 + i, u8(p.cell >> ((8 * i) & 63)));
}

template <typename Signed, typename Index, u32 BYTES>
__device__ __forceinline__ void set_cells(const Set &p) {
    typedef typename Unit<BYTES>::Type Type;
    const u32 low = u32(p.cell), high = u32(p.cell >> 32);
    const Vector vector = {{low, high, low, high}};
    Type cell;
    memcpy(&cell, &vector, sizeof cell);
    const Index first = Index(blockIdx.x) * (THREADS * PER_THREAD) + threadIdx.x;
#pragma unroll 1
    for (u32 i = 0; i < PER_THREAD; ++i) {
        Index rest = first + i * THREADS;
        if (rest >= Index(p.count)) return;
        Signed offset = 0;
#pragma unroll 1
        for (u32 k = 0; k < p.rank; ++k) {
            const Loop &loop = p.loops[k];
            const Index outer = k + 1 < p.rank ? quotient(rest, loop.extent) : Index(0);
            offset += Signed(rest - outer * Index(loop.extent.divisor)) * Signed(loop.dst);
            rest = outer;
        }
        put<Type>(p.at + offset, cell);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) set_run(const Set p) { set_run_of(p); }

#define SET(BYTES)                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) set_w##BYTES##_i32(const Set p) { \
        set_cells<i32, u32, BYTES>(p);                                                      \
    }                                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS) set_w##BYTES##_i64(const Set p) { \
        set_cells<i64, u64, BYTES>(p);                                                      \
    }
SET(1)
SET(2)
SET(4)
SET(8)
SET(16)
#undef SET
