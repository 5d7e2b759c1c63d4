// Normalised rows and their gradients of any type and length: a block of threads for a row, whose elements are read again for each
// statistic and for the results.
#include "counter.cuh"
#include "row_norm.cuh"

// Elements of a thread that are loaded before the first is looked at; warps of a block; sums that wait.
enum : u32 { AHEAD = 4, ROW_WARPS = THREADS / 32, DEPTH = 48 };

// Elements FIRST, FIRST + STEP, ... of an operand, of those before END.
template <typename T>
__device__ __forceinline__ void elements(u32 scalar, const char *from, u64 first, u64 step, u64 end, T (&x)[AHEAD]) {
    const u32 size = size_of(scalar);
    const char *places[AHEAD];
    u32 wanted = 0;
#pragma unroll
    for (u32 k = 0; k < AHEAD; ++k) {
        const u64 position = first + k * step;
        places[k] = from + position * size;
        wanted |= u32(position < end) << k;
    }
    u64 bits[AHEAD];
    fetch(scalar, places, bits, wanted);
#pragma unroll
    for (u32 k = 0; k < AHEAD; ++k) x[k] = Real<T>::any(scalar, bits[k]);
}

// What the warps of a block tell each other.
template <typename T>
struct AnyRoom {
    T nodes[ROW_WARPS], waiting[DEPTH], total;
};

// The sum of terms of a row, in every thread. TERMS: of the elements FIRST, FIRST + 32, ... before END.
template <typename T, typename Terms>
__device__ __forceinline__ T total_of(const RowNormal &p, AnyRoom<T> &room, const Terms &terms) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto digits = counter(room.waiting, 1, Sum());
#pragma unroll 1
    for (u64 base = 0; base < p.length; base += ROW_WARPS * BLOCK) {
        const u64 start = base + warp * BLOCK, end = start + BLOCK < p.length ? start + BLOCK : p.length;
        T node[1] = {-T(0)};
#pragma unroll 1
        for (u64 i = start + lane; i < end; i += 32 * AHEAD) {
            T term[AHEAD];
            terms(i, end, term);
#pragma unroll
            for (u32 k = 0; k < AHEAD; ++k) node[0] = sum(node[0], i + 32 * k < end ? term[k] : -T(0));
        }
        join_lanes(node, Sum());
        const u64 blocks = (p.length - base + BLOCK - 1) / BLOCK;
        const T joined = join_warps(room.nodes, node[0], blocks < ROW_WARPS ? u32(blocks) : u32(ROW_WARPS), Sum());
        if (threadIdx.x == 0) digits.push(joined);
        __syncthreads();
    }
    if (threadIdx.x == 0) room.total = digits.root(T(0));
    __syncthreads();
    return room.total;
}

template <typename T>
__device__ __forceinline__ void norm_any(const RowNormal &p, AnyRoom<T> &room) {
    using namespace forwards;
    const Places row = row_places(p, blockIdx.x);
    const char *from = p.at[X] + row.of[X];
    T mean = T(0);
    if (p.flags & SUBTRACTS) {
        mean = mean_of(p, total_of<T>(p, room, [&](u64 i, u64 end, T(&x)[AHEAD]) { elements(p.scalars[X], from, i, 32, end, x); }));
        __syncthreads();
    }
    const T squares = total_of<T>(p, room, [&](u64 i, u64 end, T(&x)[AHEAD]) {
        elements(p.scalars[X], from, i, 32, end, x);
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            const T rest = sum(x[k], -mean);
            x[k] = product(rest, rest);
        }
    });
    const T epsilon = Real<T>::load(p.scalars[EPSILON], p.at[EPSILON]);
    const OfRow<T> of = of_row(p, row, mean, inverse_of(p, squares, epsilon), threadIdx.x == 0);
    char *to = p.at[Y] + row.of[Y];
    const u32 size = size_of(p.scalars[Y]);
#pragma unroll 1
    for (u64 i = threadIdx.x; i < p.length; i += THREADS * AHEAD) {
        T x[AHEAD], scale[AHEAD], bias[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            scale[k] = T(1);
            bias[k] = of.bias;
        }
        elements(p.scalars[X], from, i, THREADS, p.length, x);
        if (p.flags & SCALES_EACH) elements(p.scalars[SCALE], p.at[SCALE] + row.of[SCALE], i, THREADS, p.length, scale);
        if (p.flags & BIASES_EACH) elements(p.scalars[BIAS], p.at[BIAS] + row.of[BIAS], i, THREADS, p.length, bias);
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            const u64 position = i + k * THREADS;
            if (position < p.length) Real<T>::store(p.scalars[Y], to + position * size, normalised(of, x[k], scale[k], bias[k]));
        }
    }
}

// The gradients of a row's elements.
template <typename T>
struct RowGradients {
    const RowNormal &p;
    const Places &row;

    // Of what is scaled.
    __device__ __forceinline__ void scaled(u64 first, u64 step, u64 end, T (&g)[AHEAD]) const {
        using namespace backwards;
        elements(p.scalars[DY], p.at[DY] + row.of[DY_PLACE], first, step, end, g);
        if (!(p.flags & SCALES)) return;
        T scale[AHEAD];
        elements(p.scalars[SCALE], p.at[SCALE] + row.of[SCALE_PLACE], first, step, end, scale);
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) g[k] = product(g[k], scale[k]);
    }
};

template <typename T>
__device__ __forceinline__ void norm_back_any(const RowNormal &p, AnyRoom<T> &room) {
    using namespace backwards;
    const Places row = row_places(p, blockIdx.x);
    const OfGradients<T> of(p, row);
    const RowGradients<T> gradients = {p, row};
    const char *from = p.at[X] + row.of[X_PLACE];
    const T share = mean_of(p, total_of<T>(p, room, [&](u64 i, u64 end, T(&g)[AHEAD]) {
        T x[AHEAD];
        elements(p.scalars[X], from, i, 32, end, x);
        gradients.scaled(i, 32, end, g);
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) g[k] = product(g[k], of.normal(x[k]));
    }));
    T other = T(0);
    if (p.flags & SUBTRACTS) {
        __syncthreads();
        other = mean_of(p, total_of<T>(p, room, [&](u64 i, u64 end, T(&g)[AHEAD]) { gradients.scaled(i, 32, end, g); }));
    }
    char *to = p.at[DX] + row.of[DX_PLACE];
    const u32 size = size_of(p.scalars[DX]);
#pragma unroll 1
    for (u64 i = threadIdx.x; i < p.length; i += THREADS * AHEAD) {
        T x[AHEAD], g[AHEAD];
        elements(p.scalars[X], from, i, THREADS, p.length, x);
        gradients.scaled(i, THREADS, p.length, g);
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            const u64 position = i + k * THREADS;
            if (position < p.length) {
                Real<T>::store(p.scalars[DX], to + position * size, of.gradient(of.normal(x[k]), g[k], share, other));
            }
        }
    }
}

// The second bound keeps the assembler from spilling for the sake of more blocks.
#define ROW_NORM_ANY(type)                                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) row_norm_any_##type(const RowNormal p) {        \
        __shared__ AnyRoom<type> room;                                                                    \
        norm_any<type>(p, room);                                                                          \
    }                                                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) row_norm_back_any_##type(const RowNormal p) {   \
        __shared__ AnyRoom<type> room;                                                                    \
        norm_back_any<type>(p, room);                                                                     \
    }

ROW_NORM_ANY(f32)
ROW_NORM_ANY(f64)
