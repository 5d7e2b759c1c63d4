// Normalisation: with statistics that are given, element by element; with those of the batch, a block of threads for a
// group whose elements lie side by side, or for 32 neighbouring groups. `ops/normalise.rs` defines the sums and the maps.
#include "function.cuh"
#include "general.cuh"
#include "linear.cuh"
#include "math.cuh"

// One loop over the operands of a group or of what it holds.
struct NormalTurn {
    Divisor extent;
    i64 step[6];
};

enum { MEMBER_AXES = 8, GROUP_AXES = 12 };

// Bits of `flags`.
enum Flags : u32 {
    BATCH = 1,          // statistics of the batch
    RUNNING_MEAN = 2,   // there is a running mean
    RUNNING_VARIANCE = 4,
    SAVES = 8,          // mean and inverse are saved, or were saved
    ADDS = 16,          // z is added, or dz is written
    KEEPS = 32,         // slopes are kept, or were kept
    SLOPES = 64,        // there is an activation
    DATA_SCALED = 128,  // alpha and beta of the result
    DATA_BLENDED = 256,
    BY_ROWS = 512,      // neighbours in memory belong to neighbouring groups
    NUMBER_BLENDED = 1024,
};

enum ActivationKind : u32 { BY_SIGMOID, BY_RELU, BY_TANH, BY_CLIPPED_RELU, BY_ELU, BY_SWISH };

struct Normal {
    char *at[11];  // as the step lists its operands
    u64 groups;
    u64 members;
    f64 epsilon;
    f64 factor;  // weight of the new statistics
    f64 alpha, beta;
    f64 number_alpha, number_beta;
    f64 parameter;  // of the activation
    u32 data;       // Scalar
    u32 slopes;     // Scalar of what is kept
    u32 flags;
    u32 activation;   // ActivationKind
    u32 propagates;   // whether it keeps NaNs
    u32 group_rank;
    u32 member_rank;
    u32 unused;
    NormalTurn group[GROUP_AXES];    // innermost first: y, x, z, reserve, numbers; or dx, x, dy, dz, reserve, numbers
    NormalTurn member[MEMBER_AXES];  // the same without numbers
};

static_assert(sizeof(Normal) == 88 + 72 + 32 + 72 * 20, "normalise.rs has another Normal");

struct Places {
    i64 of[6];
};

__device__ __forceinline__ Places places(u64 index, const NormalTurn *turns, u32 rank) {
    Places offsets = {{0, 0, 0, 0, 0, 0}};
    u64 rest = index;
#pragma unroll 1
    for (u32 i = 0; i < rank; ++i) {
        const NormalTurn &turn = turns[i];
        const u64 outer = i + 1 < rank ? quotient(rest, turn.extent) : 0;
        const i64 here = i64(rest - outer * turn.extent.divisor);
        rest = outer;
#pragma unroll
        for (u32 k = 0; k < 6; ++k) offsets.of[k] += here * turn.step[k];
    }
    return offsets;
}

__device__ __forceinline__ Places both(const Places &a, const Places &b) {
    Places c;
#pragma unroll
    for (u32 k = 0; k < 6; ++k) c.of[k] = a.of[k] + b.of[k];
    return c;
}

// Called, not inlined: elementary functions of binary64 would take the registers of the loops around them.
#if defined(CPU_EMU)
#define APART inline
#else
#define APART __noinline__
#endif

// An activation and its slope.
template <typename T>
struct Activated {
    T result, slope;
};

template <typename T>
__device__ APART Activated<T> activated(u32 kind, u32 propagates, T parameter, T x) {
    const bool above = x > T(0) || (propagates && x != x);
    switch (kind) {
    case BY_RELU: return {above ? x : T(0), above ? T(1) : T(0)};
    case BY_CLIPPED_RELU: {
        const T r = above ? x : T(0);
        return {r > parameter ? parameter : r, above && !(x >= parameter) ? T(1) : T(0)};
    }
    case BY_SIGMOID: {
        const T r = sigmoid(Rounded<T>{x}).value;
        return {r, product(r, sum(T(1), -r))};
    }
    case BY_TANH: {
        const T r = tanh(Rounded<T>{x}).value;
        return {r, sum(T(1), -product(r, r))};
    }
    case BY_ELU: {
        const T below = product(parameter, expm1(Rounded<T>{x}).value);
        return {x > T(0) ? x : below, x > T(0) ? T(1) : sum(below, parameter)};
    }
    default: {
        const T s = sigmoid(Rounded<T>{product(parameter, x)}).value;
        const T curve = product(product(parameter, x), product(s, sum(T(1), -s)));
        return {product(x, s), sum(s, curve)};
    }
    }
}

template <typename T>
__device__ __forceinline__ T own_number(const Normal &p, u32 operand, i64 offset) {
    return at<T>(p.at[operand] + offset);
}

template <typename T>
__device__ __forceinline__ void put_number(const Normal &p, u32 operand, i64 offset, T x) {
    Real<T>::store(Real<T>::SCALAR, p.at[operand] + offset, x);
}

template <typename T>
__device__ __forceinline__ void deliver(const Normal &p, char *to, T r) {
    if (p.flags & DATA_SCALED) r = product(r, T(p.alpha));
    if (p.flags & DATA_BLENDED) r = sum(r, product(Real<T>::load(p.data, to), T(p.beta)));
    Real<T>::store(p.data, to, r);
}

// Forward: what y is made of.
template <typename T>
__device__ __forceinline__ void forward_element(const Normal &p, const Places &at, T mean, T slope, T offset) {
    T r = sum(product(sum(Real<T>::load(p.data, p.at[6] + at.of[1]), -mean), slope), offset);
    if (p.flags & ADDS) r = sum(r, Real<T>::load(p.data, p.at[7] + at.of[2]));
    if (p.flags & SLOPES) {
        const Activated<T> both = activated(p.activation, p.propagates, T(p.parameter), r);
        r = both.result;
        if (p.flags & KEEPS) Real<T>::store(p.slopes, p.at[5] + at.of[3], both.slope);
    }
    deliver(p, p.at[0] + at.of[0], r);
}

// Statistics that are given: a thread for a few elements.
template <typename T>
__device__ __forceinline__ void given(const Normal &p) {
    const u64 count = p.groups * p.members;
    const bool rows = p.flags & BY_ROWS;
    const u64 first = u64(blockIdx.x) * (THREADS * PER_THREAD) + threadIdx.x;
#pragma unroll 1
    for (u32 i = 0; i < PER_THREAD; ++i) {
        const u64 index = first + i * THREADS;
        if (index >= count) return;
        const u64 fast = rows ? p.groups : p.members;
        const u64 slow = index / fast, quick = index - slow * fast;
        const Places group = places(rows ? quick : slow, p.group, p.group_rank);
        const Places member = places(rows ? slow : quick, p.member, p.member_rank);
        const i64 own = group.of[4];
        const T deviation = root(sum(own_number<T>(p, 4, own), T(p.epsilon)));
        const T slope = ratio(own_number<T>(p, 8, own), deviation);
        forward_element<T>(p, both(group, member), own_number<T>(p, 3, own), slope, own_number<T>(p, 9, own));
    }
}

// Sums -------------------------------------------------------------------------------------------------------------

enum { RUN_BLOCK = 1024, ROW_BLOCK = 64, WARPS = THREADS / 32, DEPTH = 40 };

struct Sums {
    f64 plain, tilted;
};

__device__ __forceinline__ Sums joined(const Sums &a, const Sums &b) {
    return {sum(a.plain, b.plain), sum(a.tilted, b.tilted)};
}

// Subtrees of equal size as they come: a binary counter.
struct Waiting {
    Sums *digits;
    u32 step;
    u32 depth;
    u64 count;

    __device__ __forceinline__ void push(Sums node) {
#pragma unroll 1
        for (u64 ones = count; ones & 1; ones >>= 1) node = joined(digits[--depth * step], node);
        digits[depth++ * step] = node;
        ++count;
    }

    __device__ __forceinline__ Sums root() {
        if (depth == 0) return {0.0, 0.0};
        Sums node = digits[--depth * step];
#pragma unroll 1
        while (depth > 0) node = joined(digits[--depth * step], node);
        return node;
    }
};

// Room of a block of threads.
struct Room {
    Sums nodes[THREADS];
    Sums waiting[32 * DEPTH];
    f64 numbers[6][32];  // of each group of the block
};

// Adds an element to a lane: FACTORS gives both factors at a position of a group.
template <typename Factors>
__device__ __forceinline__ void add(Sums &lane, const Factors &factors, u64 position, const f64 *shift) {
    f64 g, x;
    factors(position, g, x);
    const f64 d = sum(g, -shift[0]), e = sum(x, -shift[1]);
    lane.plain = sum(lane.plain, d);
    lane.tilted = sum(lane.tilted, product(d, e));
}

// A group whose elements lie side by side: a warp for a block of 1024 elements, a thread for a lane.
template <typename Factors>
__device__ __forceinline__ Sums sum_runs(u64 members, const Factors &factors, const f64 *shift, Room &room) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Waiting waiting = {room.waiting, 1, 0, 0};
    const u64 blocks = (members + RUN_BLOCK - 1) / RUN_BLOCK;
#pragma unroll 1
    for (u64 first = 0; first < blocks; first += WARPS) {
        const u64 start = (first + warp) * RUN_BLOCK;
        const u64 end = start + RUN_BLOCK < members ? start + RUN_BLOCK : members;
        Sums own = {0.0, 0.0};
#pragma unroll 1
        for (u64 i = start + lane; i < end; i += 32) add(own, factors, i, shift);
        room.nodes[threadIdx.x] = own;
        __syncthreads();
#pragma unroll 1
        for (u32 half = 16; half > 0; half /= 2) {
            if (lane < half) room.nodes[threadIdx.x] = joined(room.nodes[threadIdx.x], room.nodes[threadIdx.x + half]);
            __syncthreads();
        }
        if (threadIdx.x == 0) {
#pragma unroll 1
            for (u32 i = 0; i < WARPS && first + i < blocks; ++i) waiting.push(room.nodes[32 * i]);
        }
        __syncthreads();
    }
    // One thread has the root.
    if (threadIdx.x == 0) room.nodes[0] = waiting.root();
    __syncthreads();
    const Sums root = room.nodes[0];
    __syncthreads();
    return root;
}

// Neighbouring groups: a lane for a group, a warp for a block of 64 of its elements. The root is in every warp.
template <typename Factors>
__device__ __forceinline__ Sums sum_rows(u64 members, const Factors &factors, const f64 *shift, bool there, Room &room) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Waiting waiting = {room.waiting + lane, 32, 0, 0};
    const u64 blocks = (members + ROW_BLOCK - 1) / ROW_BLOCK;
#pragma unroll 1
    for (u64 first = 0; first < blocks; first += WARPS) {
        const u64 start = (first + warp) * ROW_BLOCK;
        const u64 end = start + ROW_BLOCK < members ? start + ROW_BLOCK : members;
        Sums own = {0.0, 0.0};
        if (there) {
#pragma unroll 1
            for (u64 i = start; i < end; ++i) add(own, factors, i, shift);
        }
        room.nodes[threadIdx.x] = own;
        __syncthreads();
        if (warp == 0) {
#pragma unroll 1
            for (u32 i = 0; i < WARPS && first + i < blocks; ++i) waiting.push(room.nodes[32 * i + lane]);
        }
        __syncthreads();
    }
    if (warp == 0) room.nodes[lane] = waiting.root();
    __syncthreads();
    const Sums root = room.nodes[lane];
    __syncthreads();
    return root;
}

// What a thread works on: its group, if there is one, and the positions first, first + step, ...
struct Share {
    Places group;
    u64 first, step;
    bool there, leads;
};

__device__ __forceinline__ Share share_of(const Normal &p) {
    Share share;
    if (p.flags & BY_ROWS) {
        const u64 group = u64(blockIdx.x) * 32 + threadIdx.x % 32;
        share.there = group < p.groups;
        share.group = places(share.there ? group : 0, p.group, p.group_rank);
        share.first = threadIdx.x / 32;
        share.step = WARPS;
        share.leads = share.there && threadIdx.x < 32;
    } else {
        share.there = true;
        share.group = places(blockIdx.x, p.group, p.group_rank);
        share.first = threadIdx.x;
        share.step = THREADS;
        share.leads = threadIdx.x == 0;
    }
    return share;
}

template <typename Factors>
__device__ __forceinline__ Sums sums_of(const Normal &p, const Share &share, const Factors &factors, const f64 *shift, Room &room) {
    if (p.flags & BY_ROWS) return sum_rows(p.members, factors, shift, share.there, room);
    return sum_runs(p.members, factors, shift, room);
}

struct Moments {
    f64 mean, variance;
};

// Mean and variance of a group's x, operand OPERAND.
template <typename T>
__device__ __forceinline__ Moments moments_of(const Normal &p, const Share &share, u32 operand, Room &room) {
    const char *x = p.at[operand] + share.group.of[1];
    const f64 shift = f64(Real<T>::load(p.data, x + places(0, p.member, p.member_rank).of[1]));
    const f64 shifts[2] = {shift, shift};
    const auto factors = [&](u64 position, f64 &a, f64 &b) {
        a = b = f64(Real<T>::load(p.data, x + places(position, p.member, p.member_rank).of[1]));
    };
    const Sums sums = sums_of(p, share, factors, shifts, room);
    const f64 m = f64(i64(p.members));
    const f64 squares = sum(sums.tilted, -product(sums.plain, ratio(sums.plain, m)));
    return {sum(shift, ratio(sums.plain, m)), ratio(squares < 0 ? 0.0 : squares, m)};
}

template <typename T>
__device__ __forceinline__ T inverse_of(const Normal &p, f64 variance) {
    return T(ratio(1.0, root(sum(variance, p.epsilon))));
}

// Forward with the statistics of the batch.
template <typename T>
__device__ __forceinline__ void batch(const Normal &p, Room &room) {
    const Share share = share_of(p);
    const i64 own = share.group.of[4];
    const Moments moments = moments_of<T>(p, share, 6, room);
    const T mean = T(moments.mean), inverse = inverse_of<T>(p, moments.variance);
    const T slope = product(own_number<T>(p, 8, own), inverse), offset = own_number<T>(p, 9, own);
    if (share.leads) {
        if (p.flags & SAVES) {
            put_number<T>(p, 1, own, mean);
            put_number<T>(p, 2, own, inverse);
        }
        const f64 m = f64(i64(p.members));
        const f64 unbiased = p.members > 1 ? ratio(product(moments.variance, m), sum(m, -1.0)) : moments.variance;
#pragma unroll 1
        for (u32 k = 0; k < 2; ++k) {
            if (!(p.flags & (k == 0 ? RUNNING_MEAN : RUNNING_VARIANCE)) || p.factor == 0) continue;
            const f64 old = p.factor == 1 ? 0.0 : product(sum(1.0, -p.factor), f64(own_number<T>(p, 3 + k, own)));
            put_number<T>(p, 3 + k, own, T(sum(old, product(p.factor, k == 0 ? moments.mean : unbiased))));
        }
    }
    if (!share.there) return;
#pragma unroll 1
    for (u64 i = share.first; i < p.members; i += share.step) {
        const Places member = places(i, p.member, p.member_rank);
        forward_element<T>(p, both(share.group, member), mean, slope, offset);
    }
}

// What the slope of the activation is computed from.
template <typename T>
struct Line {
    T mean, slope, offset;
};

// The gradient that reaches the normalisation: dy times the slope of the activation.
template <typename T>
__device__ __forceinline__ T gradient(const Normal &p, const Places &at, T x, const Line<T> &line) {
    const T dy = Real<T>::load(p.data, p.at[5] + at.of[2]);
    if (!(p.flags & SLOPES)) return dy;
    T factor;
    if (p.flags & KEEPS) {
        factor = Real<T>::load(p.slopes, p.at[10] + at.of[4]);
    } else {
        const T r = sum(product(sum(x, -line.mean), line.slope), line.offset);
        factor = activated(p.activation, p.propagates, T(p.parameter), r).slope;
    }
    return factor == T(0) ? T(0) : product(dy, factor);
}

template <typename T>
__device__ __forceinline__ void backward(const Normal &p, Room &room) {
    const Share share = share_of(p);
    const i64 own = share.group.of[5];
    T mean, inverse;
    if (p.flags & SAVES) {
        mean = own_number<T>(p, 8, own);
        inverse = own_number<T>(p, 9, own);
    } else {
        const Moments moments = moments_of<T>(p, share, 4, room);
        mean = T(moments.mean);
        inverse = inverse_of<T>(p, moments.variance);
    }
    const T slope = product(own_number<T>(p, 6, own), inverse);
    const T offset = (p.flags & SLOPES) && !(p.flags & KEEPS) ? own_number<T>(p, 7, own) : T(0);
    const Line<T> line = {mean, slope, offset};
    const f64 shifts[2] = {0.0, f64(mean)};
    const auto factors = [&](u64 position, f64 &g, f64 &x) {
        const Places at = both(share.group, places(position, p.member, p.member_rank));
        const T own_x = Real<T>::load(p.data, p.at[4] + at.of[1]);
        g = f64(gradient<T>(p, at, own_x, line));
        x = f64(own_x);
    };
    const Sums sums = sums_of(p, share, factors, shifts, room);
    const f64 m = f64(i64(p.members)), wide = f64(inverse);
    const f64 d_bias = sums.plain, d_scale = product(sums.tilted, wide);
    const T centre = T(ratio(d_bias, m)), tilt = T(ratio(product(wide, d_scale), m));
    if (share.leads) {
#pragma unroll 1
        for (u32 k = 0; k < 2; ++k) {
            T r = product(T(k == 0 ? d_scale : d_bias), T(p.number_alpha));
            if (p.flags & NUMBER_BLENDED) r = sum(r, product(own_number<T>(p, 1 + k, own), T(p.number_beta)));
            put_number<T>(p, 1 + k, own, r);
        }
    }
    // Found again rather than kept in registers through the sums.
    const Share mine = share_of(p);
    if (!mine.there) return;
#pragma unroll 1
    for (u64 i = mine.first; i < p.members; i += mine.step) {
        const Places at = both(mine.group, places(i, p.member, p.member_rank));
        const T x = Real<T>::load(p.data, p.at[4] + at.of[1]);
        const T g = gradient<T>(p, at, x, line);
        const T r = product(sum(sum(g, -centre), -product(sum(x, -mean), tilt)), slope);
        if (p.flags & ADDS) Real<T>::store(p.data, p.at[3] + at.of[3], g);
        deliver(p, p.at[0] + at.of[0], r);
    }
}

#define NORMALISE(NAME, T)                                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_given_##NAME(const Normal p) { given<T>(p); } \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_batch_##NAME(const Normal p) {               \
        __shared__ Room room;                                                                                   \
        batch<T>(p, room);                                                                                      \
    }                                                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_backward_##NAME(const Normal p) {            \
        __shared__ Room room;                                                                                   \
        backward<T>(p, room);                                                                                   \
    }
NORMALISE(f32, f32)
NORMALISE(f64, f64)
#undef NORMALISE
