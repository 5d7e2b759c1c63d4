// Statistics of groups, and a function of their elements: `ops/rows.rs`, to the same bits. Sums are the tree of
// `ops/reduce.rs`: blocks of 1024 elements in 32 lanes, joined in halves; then blocks in pairs.
#include "formula.cuh"
#include "pointwise.cuh"

enum RowFunction : u32 { SOFTMAX, LOG_SOFTMAX, SOFTMAX_GRADIENT, LOG_SOFTMAX_GRADIENT };

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
    OperandTurn group_turns[20];    // innermost first
    OperandTurn element_turns[20];  // innermost first
};

static_assert(sizeof(Rows) == 24 + 16 + 32 + 32 + 2 * 48 * 20, "rows.rs has another Rows");

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
        const OperandOffsets offsets = operand_offsets(element, p.element_turns, p.element_rank);
        return {{start.at[0] + offsets.of[0], start.at[1] + offsets.of[1], start.at[2] + offsets.of[2]}};
    }

    __device__ __forceinline__ Rounded<T> x(const Place &here) const { return {Real<T>::load(p.scalars[1], here.at[1])}; }
    __device__ __forceinline__ Rounded<T> dy(const Place &here) const {
        return {Real<T>::load(p.scalars[2], here.at[2])};
    }

    __device__ __forceinline__ bool has_peak() const { return p.function <= LOG_SOFTMAX; }

    // What is summed up.
    __device__ __forceinline__ T term(u64 element) const {
        const Place here = place(element);
        switch (p.function) {
        case SOFTMAX:
        case LOG_SOFTMAX: return exp(x(here) - peak).value;
        case SOFTMAX_GRADIENT: return (dy(here) * x(here)).value;
        default: return dy(here).value;
        }
    }

    __device__ __forceinline__ void finish_sum(T total) {
        const Rounded<T> sum = {total};
        statistic = p.function == SOFTMAX ? one(sum) / sum : p.function == LOG_SOFTMAX ? log(sum) : sum;
    }

    __device__ __forceinline__ void write(u64 element) const {
        const Place here = place(element);
        Rounded<T> r;
        switch (p.function) {
        case SOFTMAX: r = exp(x(here) - peak) * statistic; break;
        case LOG_SOFTMAX: r = (x(here) - peak) - statistic; break;
        case SOFTMAX_GRADIENT: r = x(here) * (dy(here) - statistic); break;
        default: r = dy(here) - exp(x(here)) * statistic;
        }
        store(here.at[0], r.value);
    }

    // As a conversion from the computation type, which never goes by integers.
    __device__ __forceinline__ void store(char *y, T r) const {
        const Operation &operation = p.operation;
        if (sizeof(T) == 8 || operation.via == VIA_F64) {
            f64 v = f64(r);
            if (operation.steps & SCALED) v = product(operation.alpha, v);
            if (operation.steps & BLENDED) v = sum(v, product(operation.beta, load_f64(operation.dst, y)));
            return store_f64(operation.dst, y, v);
        }
        f32 v = f32(r);
        if (operation.steps & SCALED) v = product(f32(operation.alpha), v);
        if (operation.steps & BLENDED) v = sum(v, product(f32(operation.beta), load_f32(operation.dst, y)));
        store_f32(operation.dst, y, v);
    }
};

template <typename T>
__device__ __forceinline__ Group<T> group_of(const Rows &p, u64 number) {
    const OperandOffsets offsets = operand_offsets(number, p.group_turns, p.group_rank);
    return {p, {{p.at[0] + offsets.of[0], p.at[1] + offsets.of[1], p.at[2] + offsets.of[2]}}, {T(0)}, {T(0)}};
}

// Sums of equal size as they come: a binary counter.
template <typename T>
struct Digits {
    T *waiting;
    u32 step;  // from one that waits to the next
    u32 depth;
    u64 count;

    __device__ __forceinline__ void push(T node) {
#pragma unroll 1
        for (u64 ones = count; ones & 1; ones >>= 1) node = sum(waiting[--depth * step], node);
        waiting[depth++ * step] = node;
        ++count;
    }

    __device__ __forceinline__ T root() {
        T node = waiting[--depth * step];
#pragma unroll 1
        while (depth > 0) node = sum(waiting[--depth * step], node);
        return node;
    }
};

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
        for (u64 i = lane; i < p.length; i += 32) peak = maximum(peak, group.x(group.place(i)).value, true);
#pragma unroll 1
        for (u32 flip = 16; flip > 0; flip /= 2) peak = maximum(peak, __shfl_xor_sync(~0u, peak, flip), true);
        group.peak.value = peak;
    }
    Digits<T> digits = {waiting + warp * ROW_DEPTH, 1, 0, 0};
#pragma unroll 1
    for (u64 start = 0; start < p.length; start += ROW_BLOCK) {
        T node = -T(0);
#pragma unroll 1
        for (u32 i = lane; i < ROW_BLOCK && start + i < p.length; i += ROW_LANES) node = sum(node, group.term(start + i));
#pragma unroll 1
        for (u32 half = ROW_LANES / 2; half > 0; half /= 2) node = sum(node, __shfl_down_sync(~0u, node, half));
        if (lane == 0) digits.push(node);
    }
    T total = lane == 0 ? digits.root() : T(0);
    total = __shfl_sync(~0u, total, 0);
    group.finish_sum(total);
#pragma unroll 1
    for (u64 i = lane; i < p.length; i += 32) group.write(i);
}

extern "C" __global__ void __launch_bounds__(THREADS) rows_by_warp_f32(const Rows p) {
    __shared__ f32 waiting[ROW_WARPS * ROW_DEPTH];
    rows_of_warps<f32>(p, waiting);
}

extern "C" __global__ void __launch_bounds__(THREADS) rows_by_warp_f64(const Rows p) {
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
        for (u64 i = 0; i < p.length; ++i) peak = maximum(peak, group.x(group.place(i)).value, true);
        group.peak.value = peak;
    }
    Digits<T> digits = {waiting, COLUMN_THREADS, 0, 0};
#pragma unroll 1
    for (u64 start = 0; start < p.length; start += ROW_BLOCK) {
#pragma unroll 1
        for (u32 j = 0; j < ROW_LANES; ++j) lanes[j * COLUMN_THREADS] = -T(0);
#pragma unroll 1
        for (u32 i = 0; i < ROW_BLOCK && start + i < p.length; ++i) {
            T &lane = lanes[i % ROW_LANES * COLUMN_THREADS];
            lane = sum(lane, group.term(start + i));
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
    group.finish_sum(digits.root());
#pragma unroll 1
    for (u64 i = 0; i < p.length; ++i) group.write(i);
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

extern "C" __global__ void __launch_bounds__(COLUMN_THREADS) rows_by_thread_f32(const Rows p) {
    __shared__ f32 lanes[ROW_LANES * COLUMN_THREADS], waiting[ROW_DEPTH * COLUMN_THREADS];
    rows_of_threads<f32>(p, lanes, waiting);
}

extern "C" __global__ void __launch_bounds__(COLUMN_THREADS) rows_by_thread_f64(const Rows p) {
    __shared__ f64 lanes[ROW_LANES * COLUMN_THREADS], waiting[ROW_DEPTH * COLUMN_THREADS];
    rows_of_threads<f64>(p, lanes, waiting);
}
