// Rows of features joined along the edges of a graph, and their gradients. `ops/aggregate.rs` defines them, and the order of sums.
// Offsets, sources and rows that lead out of the features are left out: nobody can refuse them once a kernel runs.
#include "function.cuh"

struct Aggregate {
    char *at[8];  // as the step lists its operands
    u64 count;    // columns of targets, or parts of the work of a warp
    i64 sources, targets, edges;
    i64 columns[3];  // of sources, of edges, and of what is concatenated
    Divisor by_columns;
    u32 scalar;  // Scalar of features
    u32 wide;    // whether indices have 64 bits
    u32 join;
    u32 mapped;
};

static_assert(sizeof(Aggregate) == 64 + 56 + 24 + 16, "aggregate.rs has another Aggregate");

enum { JOIN_SUM, JOIN_MEAN, JOIN_MAX, JOIN_MIN };
// Sources of a warp, and columns: one of each lane. `aggregate.rs` counts by the same numbers.
enum { SOURCES = 16, COLUMNS = 32, WARPS = THREADS / 32 };

__device__ __forceinline__ i64 index_at(const Aggregate &p, u32 operand, i64 place) {
    return p.wide ? at<i64>(p.at[operand] + 8 * place) : at<i32>(p.at[operand] + 4 * place);
}

__device__ __forceinline__ char *element(const Aggregate &p, u32 operand, i64 place) {
    return p.at[operand] + place * size_of(p.scalar);
}

__device__ __forceinline__ f32 number(const Aggregate &p, u32 operand, i64 place) {
    return load_f32(p.scalar, element(p, operand, place));
}

__device__ __forceinline__ void put(const Aggregate &p, u32 operand, i64 place, f32 x) {
    store_f32(p.scalar, element(p, operand, place), x);
}

// The edges of a target, none where its offsets are out of order.
struct Edges {
    i64 begin, end;
};

__device__ __forceinline__ Edges edges_of(const Aggregate &p, i64 target) {
    Edges edges = {index_at(p, 5, target), index_at(p, 5, target + 1)};
    if (edges.begin < 0 || edges.end > p.edges || edges.begin > edges.end) edges.begin = edges.end = 0;
    return edges;
}

__device__ __forceinline__ i64 row_of(const Aggregate &p, i64 edge) { return p.mapped ? index_at(p, 7, edge) : edge; }

__device__ __forceinline__ bool is_better(const Aggregate &p, f32 x, f32 best) {
    return (p.join == JOIN_MAX ? x > best : x < best) || (x != x && best == best);
}

__device__ __forceinline__ bool chooses(const Aggregate &p) { return p.join >= JOIN_MAX; }
__device__ __forceinline__ i64 joined(const Aggregate &p) { return p.columns[0] + p.columns[1]; }
__device__ __forceinline__ i64 width(const Aggregate &p) { return joined(p) + p.columns[2]; }
__device__ __forceinline__ u64 first_item() { return u64(blockIdx.x) * THREADS + threadIdx.x; }
__device__ __forceinline__ u64 items() { return u64(gridDim.x) * THREADS; }

// A thread for a column of a target.
extern "C" __global__ void __launch_bounds__(THREADS, 1) aggregate_forward(const Aggregate p) {
#pragma unroll 1
    for (u64 item = first_item(); item < p.count; item += items()) {
        const i64 target = i64(quotient(item, p.by_columns)), column = i64(item) - target * width(p);
        if (column >= joined(p)) {
            put(p, 0, i64(item), number(p, 4, target * p.columns[2] + column - joined(p)));
            continue;
        }
        const Edges edges = edges_of(p, target);
        const bool of_nodes = column < p.columns[0];
        const i64 rows = of_nodes ? p.sources : p.edges;
        f32 total = 0;
        i64 place = -1;
#pragma unroll 1
        for (i64 edge = edges.begin; edge < edges.end; ++edge) {
            const i64 row = of_nodes ? index_at(p, 6, edge) : row_of(p, edge);
            if (row < 0 || row >= rows) continue;
            const i64 from = of_nodes ? row * p.columns[0] + column : row * p.columns[1] + column - p.columns[0];
            const f32 x = number(p, of_nodes ? 2 : 3, from);
            if (!chooses(p)) {
                total = sum(total, x);
            } else if (place < 0 || is_better(p, x, total)) {
                total = x;
                place = edge;
            }
        }
        if (p.join == JOIN_MEAN && edges.end > edges.begin) total = ratio(total, f32(edges.end - edges.begin));
        put(p, 0, i64(item), total);
        if (!chooses(p)) continue;
        const i64 to = target * joined(p) + column;
        if (p.wide) {
            put<i64>(p.at[1] + 8 * to, place);
        } else {
            put<i32>(p.at[1] + 4 * to, i32(place));
        }
    }
}

// What an edge gets of the gradient of a column of its target, if anything.
__device__ __forceinline__ bool share(const Aggregate &p, i64 target, const Edges &edges, i64 edge, i64 column, f32 &given) {
    if (chooses(p) && index_at(p, 4, target * joined(p) + column) != edge) return false;
    given = number(p, 3, target * width(p) + column);
    if (p.join == JOIN_MEAN) given = ratio(given, f32(edges.end - edges.begin));
    return true;
}

// A thread for a column of a target, of those of edges and of what is concatenated.
extern "C" __global__ void __launch_bounds__(THREADS, 1) aggregate_edges(const Aggregate p) {
    const i64 own = p.columns[1] + p.columns[2];
#pragma unroll 1
    for (u64 item = first_item(); item < p.count; item += items()) {
        const i64 target = i64(quotient(item, p.by_columns)), column = i64(item) - target * own;
        if (column >= p.columns[1]) {
            const i64 from = target * width(p) + p.columns[0] + column;
            put(p, 2, target * p.columns[2] + column - p.columns[1], number(p, 3, from));
            continue;
        }
        const Edges edges = edges_of(p, target);
#pragma unroll 1
        for (i64 edge = edges.begin; edge < edges.end; ++edge) {
            const i64 row = row_of(p, edge);
            f32 given;
            if (row < 0 || row >= p.edges || !share(p, target, edges, edge, p.columns[0] + column, given)) continue;
            const i64 to = row * p.columns[1] + column;
            put(p, 1, to, sum(number(p, 1, to), given));
        }
    }
}

// The last target whose edges do not begin behind this one.
__device__ __forceinline__ i64 target_of(const Aggregate &p, i64 edge) {
    i64 low = 0, high = p.targets;
#pragma unroll 1
    while (high - low > 1) {
        const i64 middle = low + (high - low) / 2;
        if (index_at(p, 5, middle) <= edge) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// A warp sums the gradients of some sources, of a column in each lane: it looks at all edges, and takes those of its sources in
// their order. So no two threads add to one place, and sums are the same in every run.
extern "C" __global__ void __launch_bounds__(THREADS, 1) aggregate_sources(const Aggregate p) {
    __shared__ f32 all[WARPS][SOURCES][COLUMNS];
    const u32 lane = threadIdx.x % 32;
    f32(&sums)[SOURCES][COLUMNS] = all[threadIdx.x / 32];
    const u64 step = u64(gridDim.x) * WARPS;
#pragma unroll 1
    for (u64 item = u64(blockIdx.x) * WARPS + threadIdx.x / 32; item < p.count; item += step) {
        const u64 group = quotient(item, p.by_columns);
        const i64 first = i64(group * SOURCES);
        const i64 column = i64(item - group * p.by_columns.divisor) * COLUMNS + lane;
        const bool there = column < p.columns[0];
#pragma unroll 1
        for (u32 k = 0; k < SOURCES; ++k) sums[k][lane] = 0;
        u32 seen = 0;
#pragma unroll 1
        for (i64 base = 0; base < p.edges; base += 32) {
            i64 source = -1;
            if (base + lane < p.edges) source = index_at(p, 6, base + lane);
            const bool own = source >= first && source < first + SOURCES && source < p.sources;
            const u32 hits = __ballot_sync(~0u, own);
            const i32 place = own ? i32(source - first) : 0;
#pragma unroll 1
            for (u32 bit = 0; bit < 32 && hits >> bit != 0; ++bit) {
                if (!(hits >> bit & 1)) continue;
                const i32 to = __shfl_sync(~0u, place, i32(bit));
                const i64 edge = base + bit, target = target_of(p, edge);
                if (target >= p.targets) continue;
                const Edges edges = edges_of(p, target);
                if (edge < edges.begin || edge >= edges.end) continue;
                seen |= 1u << to;
                f32 given;
                if (there && share(p, target, edges, edge, column, given)) sums[to][lane] = sum(sums[to][lane], given);
            }
        }
#pragma unroll 1
        for (u32 k = 0; there && k < SOURCES; ++k) {
            if (!(seen >> k & 1)) continue;
            const i64 to = (first + k) * p.columns[0] + column;
            put(p, 0, to, sum(number(p, 0, to), sums[k][lane]));
        }
    }
}
