// Statistics of groups, and a function of their elements: `ops/rows.rs`, to the same bits. Sums are the tree of
// `ops/reduce.rs`: blocks of 1024 elements in 32 lanes, joined in halves; then blocks in pairs.
#include "counter.cuh"
#include "formula.cuh"
#include "pointwise.cuh"
#include "softmax.cuh"

struct Rows {
    char *at[3];  // the destination, x, dy
    u64 groups;
    u64 length;           // elements of a group
    Operation operation;  // from the computation type to the destination
    u32 scalars[3];
    u32 function;
    u32 group_rank;
    u32 element_rank;
    u32 wide;     // whether `rows_by_thread` computes in binary64
    u32 ordered;  // whether one thread computes all groups in order
    OperandLoop group_loops[20];    // innermost first
    OperandLoop element_loops[20];  // innermost first
};

static_assert(sizeof(Rows) == 24 + 16 + 32 + 32 + 2 * 48 * 20, "rows.rs has another Rows");

// Elements that are loaded before the first is looked at: in the search of a peak, and where they are computed with.
enum : u32 { PEAKS = 8, TERMS = 4 };
enum { ROW_BLOCK = 1024, ROW_LANES = 32, ROW_WARPS = THREADS / 32, ROW_DEPTH = 48, COLUMN_THREADS = 32 };

// The places of an element of a group.
struct Place {
    char *at[3];
};

template <typename T>
struct Group {
    const Rows &p;
    Place start;
    Rounded<T> peak, statistic;

    __device__ __forceinline__ Place place(u64 element) const {
        const OperandOffsets offsets = operand_offsets(element, p.element_loops, p.element_rank);
        return {{start.at[0] + offsets.of[0], start.at[1] + offsets.of[1], start.at[2] + offsets.of[2]}};
    }

    // Bits of N elements, `stride` apart from `first` on, of those before `end`: all of them are loaded before the first is
    // looked at.
    template <u32 N>
    struct Batch {
        u64 x[N], dy[N], old[N];
        char *to[N];
        u32 there;
    };
    template <u32 N>
    __device__ __forceinline__ Batch<N> batch(u64 first, u64 stride, u64 end, bool reads_x, bool reads_dy, bool reads_old) const {
        Batch<N> batch;
        const char *x[N], *dy[N];
        batch.there = 0;
#pragma unroll
        for (u32 k = 0; k < N; ++k) {
            const u64 position = first + k * stride;
            const Place here = place(position < end ? position : 0);
            batch.to[k] = here.at[0];
            x[k] = here.at[1];
            dy[k] = here.at[2];
            batch.there |= u32(position < end) << k;
            batch.x[k] = batch.dy[k] = batch.old[k] = 0;
        }
        if (reads_x) fetch(p.scalars[1], x, batch.x, batch.there);
        if (reads_dy) fetch(p.scalars[2], dy, batch.dy, batch.there);
        if (reads_old) fetch(p.operation.dst, batch.to, batch.old, batch.there);
        return batch;
    }

    __device__ __forceinline__ bool has_peak() const { return p.function <= LOG_SOFTMAX; }

    // What the largest of N elements makes of a peak.
    template <u32 N>
    __device__ __forceinline__ T higher(T peak, u64 first, u64 stride, u64 end) const {
        const Batch<N> elements = batch<N>(first, stride, end, true, false, false);
#pragma unroll
        for (u32 k = 0; k < N; ++k) {
            const T x = Real<T>::any(p.scalars[1], elements.x[k]);
            peak = elements.there >> k & 1 ? maximum(peak, x, true) : peak;
        }
        return peak;
    }

    // The elements whose terms are summed up, and a term.
    template <u32 N>
    __device__ __forceinline__ Batch<N> summands(u64 first, u64 stride, u64 end) const {
        return batch<N>(first, stride, end, p.function != LOG_SOFTMAX_GRADIENT, !has_peak(), false);
    }
    template <u32 N>
    __device__ __forceinline__ T term(const Batch<N> &elements, u32 k) const {
        const Rounded<T> x = {Real<T>::any(p.scalars[1], elements.x[k])};
        if (has_peak()) return exp(x - peak).value;
        const Rounded<T> dy = {Real<T>::any(p.scalars[2], elements.dy[k])};
        return p.function == SOFTMAX_GRADIENT ? (dy * x).value : dy.value;
    }

    __device__ __forceinline__ void finish_sum(T total) {
        const Rounded<T> sum = {total};
        statistic = p.function == SOFTMAX ? one(sum) / sum : p.function == LOG_SOFTMAX ? log(sum) : sum;
    }

    template <u32 N>
    __device__ __forceinline__ void write(u64 first, u64 stride) const {
        const Batch<N> elements = batch<N>(first, stride, p.length, true, !has_peak(), p.operation.steps & BLENDED);
#pragma unroll
        for (u32 k = 0; k < N; ++k) {
            if (!(elements.there >> k & 1)) continue;
            const Rounded<T> x = {Real<T>::any(p.scalars[1], elements.x[k])};
            const Rounded<T> dy = {has_peak() ? T(0) : Real<T>::any(p.scalars[2], elements.dy[k])};
            Rounded<T> r;
            switch (p.function) {
            case SOFTMAX: r = exp(x - peak) * statistic; break;
            case LOG_SOFTMAX: r = (x - peak) - statistic; break;
            case SOFTMAX_GRADIENT: r = x * (dy - statistic); break;
            default: r = dy - exp(x) * statistic;
            }
            store(elements.to[k], r.value, elements.old[k]);
        }
    }

    // As a conversion from the computation type, which never goes by integers.
    __device__ __forceinline__ void store(char *y, T r, u64 old) const {
        const Operation &operation = p.operation;
        if (sizeof(T) == 8 || operation.via == VIA_F64) {
            f64 v = f64(r);
            if (operation.steps & SCALED) v = product(operation.alpha, v);
            if (operation.steps & BLENDED) v = sum(v, product(operation.beta, value_f64(operation.dst, old)));
            return store_f64(operation.dst, y, v);
        }
        f32 v = f32(r);
        if (operation.steps & SCALED) v = product(f32(operation.alpha), v);
        if (operation.steps & BLENDED) v = sum(v, product(f32(operation.beta), value_f32(operation.dst, u32(old))));
        store_f32(operation.dst, y, v);
    }
};

template <typename T>
__device__ __forceinline__ Group<T> group_of(const Rows &p, u64 number) {
    const OperandOffsets offsets = operand_offsets(number, p.group_loops, p.group_rank);
    return {p, {{p.at[0] + offsets.of[0], p.at[1] + offsets.of[1], p.at[2] + offsets.of[2]}}, {T(0)}, {T(0)}};
}

// The sums of blocks, as they come.
template <typename T>
__device__ __forceinline__ auto digits_in(T *waiting, u32 step) {
    return counter(waiting, step, [](T a, T b) { return sum(a, b); });
}

// A warp for a group, of which each thread has a lane of the tree.
template <typename T>
__device__ __forceinline__ void rows_of_warps(const Rows &p, T *waiting) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u64 number = u64(blockIdx.x) * ROW_WARPS + warp;
    if (number >= p.groups) return;
    Group<T> group = group_of<T>(p, number);
    if (group.has_peak()) {
        T peak = -Real<T>::infinity();
#pragma unroll 1
        for (u64 i = lane; i < p.length; i += PEAKS * 32) peak = group.template higher<PEAKS>(peak, i, 32, p.length);
#pragma unroll 1
        for (u32 flip = 16; flip > 0; flip /= 2) peak = maximum(peak, __shfl_xor_sync(~0u, peak, flip), true);
        group.peak.value = peak;
    }
    auto digits = digits_in(waiting + warp * ROW_DEPTH, 1);
#pragma unroll 1
    for (u64 start = 0; start < p.length; start += ROW_BLOCK) {
        T node = -T(0);
#pragma unroll 1
        for (u32 i = lane; i < ROW_BLOCK && start + i < p.length; i += TERMS * ROW_LANES) {
            const auto elements = group.template summands<TERMS>(start + i, ROW_LANES, p.length);
#pragma unroll
            for (u32 k = 0; k < TERMS; ++k) {
                if (elements.there >> k & 1) node = sum(node, group.term(elements, k));
            }
        }
#pragma unroll 1
        for (u32 half = ROW_LANES / 2; half > 0; half /= 2) node = sum(node, __shfl_down_sync(~0u, node, half));
        if (lane == 0) digits.push(node);
    }
    T total = lane == 0 ? digits.root(T(0)) : T(0);
    total = __shfl_sync(~0u, total, 0);
    group.finish_sum(total);
#pragma unroll 1
    for (u64 i = lane; i < p.length; i += TERMS * 32) group.template write<TERMS>(i, 32);
}

// The second bound keeps the assembler from spilling for the sake of more blocks.
extern "C" __global__ void __launch_bounds__(THREADS, 1) rows_by_warp_f32(const Rows p) {
    __shared__ f32 waiting[ROW_WARPS * ROW_DEPTH];
    rows_of_warps<f32>(p, waiting);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) rows_by_warp_f64(const Rows p) {
    __shared__ f64 waiting[ROW_WARPS * ROW_DEPTH];
    rows_of_warps<f64>(p, waiting);
}

// A thread for a group: neighbouring threads have neighbouring groups. Lanes of the tree, and sums that wait, are COLUMN_THREADS apart.
template <typename T>
__device__ __forceinline__ void rows_of_thread(const Rows &p, u64 number, T *lanes, T *waiting) {
    Group<T> group = group_of<T>(p, number);
    if (group.has_peak()) {
        T peak = -Real<T>::infinity();
#pragma unroll 1
        for (u64 i = 0; i < p.length; i += PEAKS) peak = group.template higher<PEAKS>(peak, i, 1, p.length);
        group.peak.value = peak;
    }
    auto digits = digits_in(waiting, COLUMN_THREADS);
#pragma unroll 1
    for (u64 start = 0; start < p.length; start += ROW_BLOCK) {
#pragma unroll 1
        for (u32 j = 0; j < ROW_LANES; ++j) lanes[j * COLUMN_THREADS] = -T(0);
#pragma unroll 1
        for (u32 i = 0; i < ROW_BLOCK && start + i < p.length; i += TERMS) {
            const auto elements = group.template summands<TERMS>(start + i, 1, p.length);
#pragma unroll
            for (u32 k = 0; k < TERMS; ++k) {
                T &lane = lanes[(i + k) % ROW_LANES * COLUMN_THREADS];
                if (elements.there >> k & 1) lane = sum(lane, group.term(elements, k));
            }
        }
#pragma unroll 1
        for (u32 half = ROW_LANES / 2; half > 0; half /= 2) {
#pragma unroll 1
            for (u32 j = 0; j < half; ++j) {
                lanes[j * COLUMN_THREADS] = sum(lanes[j * COLUMN_THREADS], lanes[(j + half) * COLUMN_THREADS]);
            }
        }
        digits.push(lanes[0]);
    }
    group.finish_sum(digits.root(T(0)));
#pragma unroll 1
    for (u64 i = 0; i < p.length; i += TERMS) group.template write<TERMS>(i, 1);
}

template <typename T>
__device__ __forceinline__ void rows_of_threads(const Rows &p, T *lanes, T *waiting) {
    if (!p.ordered) {
        const u64 number = u64(blockIdx.x) * COLUMN_THREADS + threadIdx.x;
        if (number < p.groups) rows_of_thread<T>(p, number, lanes + threadIdx.x, waiting + threadIdx.x);
        return;
    }
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
#pragma unroll 1
    for (u64 number = 0; number < p.groups; ++number) rows_of_thread<T>(p, number, lanes, waiting);
}

extern "C" __global__ void __launch_bounds__(COLUMN_THREADS, 1) rows_by_thread_f32(const Rows p) {
    __shared__ f32 lanes[ROW_LANES * COLUMN_THREADS], waiting[ROW_DEPTH * COLUMN_THREADS];
    rows_of_threads<f32>(p, lanes, waiting);
}

extern "C" __global__ void __launch_bounds__(COLUMN_THREADS, 1) rows_by_thread_f64(const Rows p) {
    __shared__ f64 lanes[ROW_LANES * COLUMN_THREADS], waiting[ROW_DEPTH * COLUMN_THREADS];
    rows_of_threads<f64>(p, lanes, waiting);
}
