// Statistics of groups, in blocks of threads that each take a whole group, or 32 neighbouring ones, or a part of them; and
// what is computed from them, element by element.
#pragma once

#include "counter.cuh"
#include "normalise.cuh"

enum { RUN_BLOCK = 1024, ROW_BLOCK = 64, WARPS = THREADS / 32, DEPTH = 40 };

struct Sums {
    f64 plain, tilted;
};

__device__ __forceinline__ Sums joined(const Sums &a, const Sums &b) {
    return {sum(a.plain, b.plain), sum(a.tilted, b.tilted)};
}

// The sums of blocks, as they come.
__device__ __forceinline__ auto waiting_in(Sums *digits, u32 step) {
    return counter(digits, step, [](const Sums &a, const Sums &b) { return joined(a, b); });
}

// Room of a block of threads.
struct Room {
    Sums nodes[THREADS];
    Sums waiting[32 * DEPTH];
    f64 lines[32][3];  // for kernels that are short of registers
};

// Where the next L elements of a walk lie, as bytes of N operands; behind the end, where the last one lies.
template <u32 L, u32 N>
struct Next {
    i64 offset[N][L];
    u32 count;  // how many there are

    __device__ __forceinline__ Next(const Normal &p, Walk<L> walk, u64 position, u64 end, u32 stride, const u32 (&operands)[N]) {
        count = 0;
#pragma unroll
        for (u32 i = 0; i < L; ++i) {
            const Places here = walk.here(p);
#pragma unroll
            for (u32 k = 0; k < N; ++k) offset[k][i] = here.of[operands[k]];
            count += position < end;
            position += stride;
            if (position < end) walk.go(p);
        }
    }
};

// Adds elements `position`, `position + STRIDE`, ... before `end` to a lane, in this order: FACTORS loads
// the next ones of a walk, and makes both factors of each.
template <typename T, u32 L, u32 STRIDE, typename Factors>
__device__ __forceinline__ Sums lane_of(const Normal &p, u64 position, u64 end, const Factors &factors, const f64 *shift) {
    Sums lane = {0.0, 0.0};
    if (position >= end) return lane;
    Walk<L> walk(p, position, STRIDE);
#pragma unroll 1
    for (; position < end; position += L * STRIDE) {
        const auto elements = factors(walk, position, end, STRIDE);
#pragma unroll
        for (u32 i = 0; i < L; ++i) {
            if (i < elements.count()) {
                T g, x;
                elements.at(i, g, x);
                const f64 d = sum(f64(g), -shift[0]), e = sum(f64(x), -shift[1]);
                lane = {sum(lane.plain, d), sum(lane.tilted, product(d, e))};
            }
            walk.go(p);
        }
    }
    return lane;
}

// Behind the last element of a part.
__device__ __forceinline__ u64 end_of(const Normal &p, u64 part) {
    const u64 end = (part + 1) * p.part;
    return end < p.members ? end : p.members;
}

// A part of a group whose elements lie side by side: a warp for a block of 1024 elements, a thread for a lane.
template <typename T, u32 L, typename Factors>
__device__ __forceinline__ Sums sum_runs(const Normal &p, u64 part, const Factors &factors, const f64 *shift, Room &room) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto waiting = waiting_in(room.waiting, 1);
    const u64 begin = part * p.part, end = end_of(p, part);
    const u64 blocks = (end - begin + RUN_BLOCK - 1) / RUN_BLOCK;
#pragma unroll 1
    for (u64 first = 0; first < blocks; first += WARPS) {
        const u64 start = begin + (first + warp) * RUN_BLOCK;
        const u64 stop = start + RUN_BLOCK < end ? start + RUN_BLOCK : end;
        room.nodes[threadIdx.x] = lane_of<T, L, 32>(p, start + lane, stop, factors, shift);
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
    if (threadIdx.x == 0) room.nodes[0] = waiting.root({0.0, 0.0});
    __syncthreads();
    const Sums root = room.nodes[0];
    __syncthreads();
    return root;
}

// The same of neighbouring groups: a lane for a group, a warp for a block of 64 of its elements. The root is in every warp.
template <typename T, u32 L, typename Factors>
__device__ __forceinline__ Sums sum_rows(const Normal &p, u64 part, const Factors &factors, const f64 *shift, bool there, Room &room) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto waiting = waiting_in(room.waiting + lane, 32);
    const u64 begin = part * p.part, end = end_of(p, part);
    const u64 blocks = (end - begin + ROW_BLOCK - 1) / ROW_BLOCK;
#pragma unroll 1
    for (u64 first = 0; first < blocks; first += WARPS) {
        const u64 start = begin + (first + warp) * ROW_BLOCK;
        const u64 stop = start + ROW_BLOCK < end ? start + ROW_BLOCK : end;
        room.nodes[threadIdx.x] = lane_of<T, L, 1>(p, start, there ? stop : 0, factors, shift);
        __syncthreads();
        if (warp == 0) {
#pragma unroll 1
            for (u32 i = 0; i < WARPS && first + i < blocks; ++i) waiting.push(room.nodes[32 * i + lane]);
        }
        __syncthreads();
    }
    if (warp == 0) room.nodes[lane] = waiting.root({0.0, 0.0});
    __syncthreads();
    const Sums root = room.nodes[lane];
    __syncthreads();
    return root;
}

// What a thread works on: its group, if there is one, and the positions `first`, `first + step`, ... of its part.
struct Share {
    Places group;
    u64 number;  // of the group
    u64 part;
    u64 first;
    u32 step;
    bool there, leads;
};

// The share in part PART of group UNIT, or of the groups 32 * UNIT and so on.
__device__ __forceinline__ Share share_of(const Normal &p, u64 unit, u64 part) {
    Share share;
    share.part = part;
    if (p.flags & BY_ROWS) {
        share.number = unit * 32 + threadIdx.x % 32;
        share.there = share.number < p.groups;
        share.first = part * p.part + threadIdx.x / 32;
        share.step = WARPS;
        share.leads = share.there && threadIdx.x < 32;
    } else {
        share.number = unit;
        share.there = true;
        share.first = part * p.part + threadIdx.x;
        share.step = THREADS;
        share.leads = threadIdx.x == 0;
    }
    share.group = places(share.there ? share.number : 0, p.group, p.group_rank);
    return share;
}

template <typename T, u32 L, typename Factors>
__device__ __forceinline__ Sums sums_of(const Normal &p, const Share &share, const Factors &factors, const f64 *shift, Room &room) {
    if (p.flags & BY_ROWS) return sum_rows<T, L>(p, share.part, factors, shift, share.there, room);
    return sum_runs<T, L>(p, share.part, factors, shift, room);
}

// The first element of a group's x, operand OPERAND: what is taken from all.
template <typename T>
__device__ __forceinline__ f64 shift_of(const Normal &p, const Share &share, u32 operand) {
    return f64(Real<T>::load(p.data, p.at[operand] + share.group.of[1]));
}

// Elements as both factors: for mean and variance.
template <typename T, u32 L>
struct Samples {
    const Normal &p;
    Elements<T, L> x;
    u32 there;

    __device__ __forceinline__ u32 count() const { return there; }
    __device__ __forceinline__ void at(u32 i, T &a, T &b) const { a = b = x(p.data, i); }
};

// Sums of a group's x less its first element, and of the squares of that.
template <typename T>
__device__ __forceinline__ Sums moment_sums(const Normal &p, const Share &share, u32 operand, Room &room) {
    constexpr u32 L = loads<T, false>();
    const char *x = p.at[operand] + share.group.of[1];
    const f64 shift = shift_of<T>(p, share, operand);
    const f64 shifts[2] = {shift, shift};
    const auto factors = [&](const Walk<L> &walk, u64 position, u64 end, u32 stride) {
        const Next<L, 1> next(p, walk, position, end, stride, {1});
        Samples<T, L> samples = {p, {}, next.count};
        samples.x.load(p.data, x, next.offset[0]);
        return samples;
    };
    return sums_of<T, L>(p, share, factors, shifts, room);
}

struct Moments {
    f64 mean, variance;
};

__device__ __forceinline__ Moments moments_of(const Normal &p, const Sums &sums, f64 shift) {
    const f64 m = f64(i64(p.members));
    const f64 squares = sum(sums.tilted, -product(sums.plain, ratio(sums.plain, m)));
    return {sum(shift, ratio(sums.plain, m)), ratio(squares < 0 ? 0.0 : squares, m)};
}

template <typename T>
__device__ __forceinline__ T inverse_of(const Normal &p, f64 variance) {
    return T(ratio(1.0, root(sum(variance, p.epsilon))));
}

// What the leader of a group does with its mean and variance.
template <typename T>
__device__ __forceinline__ void keep_moments(const Normal &p, i64 own, const Moments &moments, T mean, T inverse) {
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

// Writes y of a thread's share.
template <typename T, bool CALLS>
__device__ __forceinline__ void map_forward(const Normal &p, const Share &share, const T &mean, const T &slope, const T &offset) {
    if (!share.there || share.first >= end_of(p, share.part)) return;
    constexpr u32 L = loads<T, CALLS>();
    Walk<L> walk(p, share.first, share.step);
    const char *x = p.at[6] + share.group.of[1];
#pragma unroll 1
    for (u64 position = share.first; position < end_of(p, share.part); position += L * share.step) {
        const Next<L, 1> next(p, walk, position, end_of(p, share.part), share.step, {1});
        Elements<T, L> elements;
        elements.load(p.data, x, next.offset[0]);
#pragma unroll 1
        for (u32 i = 0; i < L; ++i) {
            if (i < next.count) forward_element<T, CALLS>(p, both(share.group, walk.here(p)), elements(p.data, i), mean, slope, offset);
            walk.go(p);
        }
    }
}

// Backward ---------------------------------------------------------------------------------------------------------

// What the gradient at an element is computed with.
template <typename T>
struct Line {
    T mean, slope, offset;
};

// The gradient that reaches the normalisation: dy times the slope of the activation.
template <typename T, bool CALLS>
__device__ __forceinline__ T gradient(const Normal &p, T dy, T kept, T x, const Line<T> &line) {
    if (!(p.flags & SLOPES)) return dy;
    T factor = kept;
    if (!(p.flags & KEEPS)) {
        const T r = sum(product(sum(x, -line.mean), line.slope), line.offset);
        factor = activated<T, CALLS>(p, r).slope.value;
    }
    return factor == T(0) ? T(0) : product(dy, factor);
}

// x, dy and kept slopes of the next elements of a walk.
template <typename T, bool CALLS>
struct Gradients {
    static constexpr u32 L = loads<T, CALLS>();
    const Normal &p;
    const Line<T> &line;
    Elements<T, L> x, dy, kept;
    u32 there;

    __device__ __forceinline__ Gradients(const Normal &p, const Line<T> &line, const Places &group, const Walk<L> &walk, u64 position, u64 end, u32 stride)
        : p(p), line(line) {
        const Next<L, 3> next(p, walk, position, end, stride, {1, 2, 4});
        x.load(p.data, p.at[4] + group.of[1], next.offset[0]);
        dy.load(p.data, p.at[5] + group.of[2], next.offset[1]);
        if (p.flags & KEEPS) kept.load(p.slopes, p.at[10] + group.of[4], next.offset[2]);
        there = next.count;
    }
    __device__ __forceinline__ u32 count() const { return there; }
    __device__ __forceinline__ void at(u32 i, T &g, T &own_x) const {
        own_x = x(p.data, i);
        const T slope = p.flags & KEEPS ? kept(p.slopes, i) : T(1);
        g = gradient<T, CALLS>(p, dy(p.data, i), slope, own_x, line);
    }
};

// Sums of the gradients of a group, and of those times x less the mean.
template <typename T, bool CALLS>
__device__ __forceinline__ Sums gradient_sums(const Normal &p, const Share &share, const Line<T> &line, Room &room) {
    constexpr u32 L = loads<T, CALLS>();
    const f64 shifts[2] = {0.0, f64(line.mean)};
    const auto factors = [&](const Walk<L> &walk, u64 position, u64 end, u32 stride) {
        return Gradients<T, CALLS>(p, line, share.group, walk, position, end, stride);
    };
    return sums_of<T, L>(p, share, factors, shifts, room);
}

// What the leader of a group does with its gradients, and what every element takes of them.
template <typename T>
struct Slant {
    T centre, tilt;
};

template <typename T>
__device__ __forceinline__ Slant<T> slant_of(const Normal &p, const Share &share, const Sums &sums, T inverse) {
    const i64 own = share.group.of[5];
    const f64 m = f64(i64(p.members)), wide = f64(inverse);
    const f64 d_bias = sums.plain, d_scale = product(sums.tilted, wide);
    if (share.leads) {
#pragma unroll 1
        for (u32 k = 0; k < 2; ++k) {
            T r = product(T(k == 0 ? d_scale : d_bias), T(p.number_alpha));
            if (p.flags & NUMBER_BLENDED) r = sum(r, product(own_number<T>(p, 1 + k, own), T(p.number_beta)));
            put_number<T>(p, 1 + k, own, r);
        }
    }
    return {T(ratio(d_bias, m)), T(ratio(product(wide, d_scale), m))};
}

// Writes dx, and dz, of a thread's share.
template <typename T, bool CALLS>
__device__ __forceinline__ void map_backward(const Normal &p, const Share &share, const Line<T> &line, const Slant<T> &slant) {
    if (!share.there || share.first >= end_of(p, share.part)) return;
    constexpr u32 L = loads<T, CALLS>();
    Walk<L> walk(p, share.first, share.step);
#pragma unroll 1
    for (u64 position = share.first; position < end_of(p, share.part); position += L * share.step) {
        const Gradients<T, CALLS> elements(p, line, share.group, walk, position, end_of(p, share.part), share.step);
#pragma unroll
        for (u32 i = 0; i < L; ++i) {
            if (i < elements.count()) {
                T g, x;
                elements.at(i, g, x);
                const T slanted = product(sum(x, -line.mean), slant.tilt);
                const T r = product(sum(sum(g, -slant.centre), -slanted), line.slope);
                const Places at = both(share.group, walk.here(p));
                if (p.flags & ADDS) Real<T>::store(p.data, p.at[3] + at.of[3], g);
                deliver(p, p.at[0] + at.of[0], r);
            }
            walk.go(p);
        }
    }
}
