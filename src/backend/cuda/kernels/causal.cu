// Convolutions along sequences that look back only, and their gradients. `ops/causal.rs` defines taps and the order of sums.
// What a gradient needs of the forward pass is computed anew for each of its elements: there is no workspace.
#include "formula.cuh"

struct Causal {
    char *at[9];  // as the step lists its operands
    u64 count;    // elements of the destination, or blocks of threads
    i64 batch, channels, length;
    i64 taps;
    i64 mixer;
    Divisor inner;   // extents of the axes of the destination that are next to each other in memory,
    Divisor middle;  // and of the next one
    u32 scalar;      // Scalar of everything
    u32 gradient;    // Scalar of the gradients of weights
    u32 flags;
    u32 unused;
};

static_assert(sizeof(Causal) == 72 + 48 + 48 + 16, "causal.rs has another Causal");

enum Flag : u32 { CHANNELS_INSIDE = 1, NEWEST_FIRST = 2, BIAS = 4, SILU = 8, ADDS = 16 };

// Position lanes of the sums of weights; channels of a block that computes them; taps of a thread. `causal.rs` counts by the
// same numbers.
enum { LANES = 32, CHANNELS = 16, TAPS = 4, SUMMING = LANES * CHANNELS };
enum { PARTS = 3 };

// Elements that lie evenly.
struct Row {
    const char *first;
    i64 step;  // in bytes

    __device__ __forceinline__ Row from(i64 index) const { return {first + index * step, step}; }
};

template <typename T>
__device__ __forceinline__ T number(const Causal &p, const Row &row, i64 index) {
    return Real<T>::load(p.scalar, row.first + index * row.step);
}

// sum over k, ascending, of w[k] x[k].
template <typename T>
__device__ __forceinline__ T dot(const Causal &p, Row w, Row x, i64 n) {
    T total = T(0);
#pragma unroll 1
    for (i64 k = 0; k < n; ++k) {
        total = sum(total, product(Real<T>::load(p.scalar, w.first), Real<T>::load(p.scalar, x.first)));
        w.first += w.step;
        x.first += x.step;
    }
    return total;
}

// The sum over the taps of position `t`, of those that are in the sequence.
template <typename T>
__device__ __forceinline__ T causal_sum(const Causal &p, const Row &w, const Row &x, i64 taps, i64 t) {
    const i64 back = taps - 1 < t ? taps - 1 : t;
    return dot<T>(p, w.from(taps - 1 - back), x.from(t - back), back + 1);
}

struct Place {
    i64 sequence, channel, t;
};

__device__ __forceinline__ Place place_of(const Causal &p, u64 item) {
    const u64 outer = quotient(item, p.inner);
    const i64 inner = i64(item - outer * p.inner.divisor);
    const u64 sequence = quotient(outer, p.middle);
    const i64 middle = i64(outer - sequence * p.middle.divisor);
    if (p.flags & CHANNELS_INSIDE) return {i64(sequence), inner, middle};
    return {i64(sequence), middle, inner};
}

// A channel of a sequence.
__device__ __forceinline__ Row line(const Causal &p, u32 operand, i64 sequence, i64 channel) {
    const i64 cell = size_of(p.scalar), first = sequence * p.channels * p.length;
    if (p.flags & CHANNELS_INSIDE) return {p.at[operand] + (first + channel) * cell, p.channels * cell};
    return {p.at[operand] + (first + channel * p.length) * cell, cell};
}

// Where the tap of the oldest position is, and how far the next one, in elements.
struct Taps {
    i64 first, step;
};

__device__ __forceinline__ Taps taps_of(const Causal &p, i64 channel) {
    const i64 step = p.flags & CHANNELS_INSIDE ? p.channels : 1;
    const i64 first = p.flags & CHANNELS_INSIDE ? channel : channel * p.taps;
    if (p.flags & NEWEST_FIRST) return {first + (p.taps - 1) * step, -step};
    return {first, step};
}

__device__ __forceinline__ Row weight_of(const Causal &p, u32 operand, i64 channel) {
    const i64 cell = size_of(p.scalar);
    const Taps taps = taps_of(p, channel);
    return {p.at[operand] + taps.first * cell, taps.step * cell};
}

// A channel with its weight and its bias: operands x, weight, bias and dy follow one another.
template <typename T>
struct Line {
    Row x, w, dy;
    T bias;

    __device__ __forceinline__ Line(const Causal &p, u32 operand, i64 sequence, i64 channel) {
        x = line(p, operand, sequence, channel);
        w = weight_of(p, operand + 1, channel);
        dy = line(p, operand + 3, sequence, channel);
        bias = p.flags & BIAS ? Real<T>::load(p.scalar, p.at[operand + 2] + channel * size_of(p.scalar)) : T(0);
    }

    // The sum before the activation.
    __device__ __forceinline__ T before(const Causal &p, i64 t) const {
        const T total = causal_sum<T>(p, w, x, p.taps, t);
        return p.flags & BIAS ? sum(total, bias) : total;
    }

    // Its gradient.
    __device__ __forceinline__ T gradient(const Causal &p, i64 t) const {
        const T given = number<T>(p, dy, t);
        if (!(p.flags & SILU)) return given;
        const Rounded<T> v = {before(p, t)};
        return product(given, swish_slope(v, one(v), sigmoid(v)).value);
    }
};

__device__ __forceinline__ u64 first_item() { return u64(blockIdx.x) * THREADS + threadIdx.x; }
__device__ __forceinline__ u64 items() { return u64(gridDim.x) * THREADS; }

template <typename T>
__device__ __forceinline__ void forward(const Causal &p) {
#pragma unroll 1
    for (u64 item = first_item(); item < p.count; item += items()) {
        const Place at = place_of(p, item);
        Rounded<T> v = {Line<T>(p, 1, at.sequence, at.channel).before(p, at.t)};
        if (p.flags & SILU) v = v * sigmoid(v);
        Real<T>::store(p.scalar, p.at[0] + item * size_of(p.scalar), v.value);
    }
}

template <typename T>
__device__ __forceinline__ void data(const Causal &p) {
#pragma unroll 1
    for (u64 item = first_item(); item < p.count; item += items()) {
        const Place at = place_of(p, item);
        const Line<T> of(p, 1, at.sequence, at.channel);
        T total = T(0);
#pragma unroll 1
        for (i64 j = 0; j < p.taps && at.t + j < p.length; ++j) {
            total = sum(total, product(number<T>(p, of.w, p.taps - 1 - j), of.gradient(p, at.t + j)));
        }
        Real<T>::store(p.scalar, p.at[0] + item * size_of(p.scalar), total);
    }
}

// What the threads of a block tell each other: lanes, then channels, each row a bank further.
template <typename T>
struct Shared {
    T of[LANES][CHANNELS + 1];
};

// Joins the lanes of each channel, and puts the sum to element `to` of an operand, or adds it. All threads take part.
template <typename T>
__device__ __forceinline__ void join(const Causal &p, Shared<T> &shared, u32 lane, u32 channel, T own, bool puts, u32 operand, i64 to) {
    shared.of[lane][channel] = own;
    __syncthreads();
#pragma unroll 1
    for (u32 half = LANES / 2; half > 0; half /= 2) {
        if (lane < half) shared.of[lane][channel] = sum(shared.of[lane][channel], shared.of[lane + half][channel]);
        __syncthreads();
    }
    if (lane == 0 && puts) {
        char *place = p.at[operand] + to * size_of(p.gradient);
        T total = shared.of[0][channel];
        if (p.flags & ADDS) total = sum(Real<T>::load(p.gradient, place), total);
        Real<T>::store(p.gradient, place, total);
    }
    __syncthreads();
}

// A thread is a lane of a channel: neighbouring threads have what are neighbours in memory.
struct Summing {
    u32 lane, of_block;
    i64 channel;
    bool there;

    __device__ __forceinline__ Summing(const Causal &p, u64 group) {
        const bool inside = p.flags & CHANNELS_INSIDE;
        lane = inside ? threadIdx.x / CHANNELS : threadIdx.x % LANES;
        of_block = inside ? threadIdx.x % CHANNELS : threadIdx.x / LANES;
        channel = i64(group) * CHANNELS + of_block;
        there = channel < p.channels;
    }
};

__device__ __forceinline__ u64 groups_of(const Causal &p) { return (u64(p.channels) + CHANNELS - 1) / CHANNELS; }

// Adds `g x[t - (taps - 1) + k]` to the sums of the taps from `first` on.
template <typename T>
__device__ __forceinline__ void add_taps(const Causal &p, T (&sums)[TAPS], T g, const Row &x, i64 taps, i64 first, i64 t) {
#pragma unroll
    for (i64 k = 0; k < TAPS; ++k) {
        const i64 from = t - (taps - 1) + first + k;
        if (first + k < taps && from >= 0) sums[k] = sum(sums[k], product(g, number<T>(p, x, from)));
    }
}

template <typename T>
__device__ __forceinline__ void weights(const Causal &p, Shared<T> &shared) {
    const u64 groups = groups_of(p);
#pragma unroll 1
    for (u64 item = blockIdx.x; item < p.count; item += gridDim.x) {
        const u64 block = item / groups;
        const Summing own(p, item - block * groups);
        const i64 first = i64(block * TAPS);
        T sums[TAPS], bias = T(0);
#pragma unroll
        for (u32 k = 0; k < TAPS; ++k) sums[k] = T(0);
#pragma unroll 1
        for (i64 sequence = 0; own.there && sequence < p.batch; ++sequence) {
            const Line<T> of(p, 2, sequence, own.channel);
#pragma unroll 1
            for (i64 t = own.lane; t < p.length; t += LANES) {
                const T g = of.gradient(p, t);
                add_taps(p, sums, g, of.x, p.taps, first, t);
                bias = sum(bias, g);
            }
        }
        const Taps taps = taps_of(p, own.channel);
#pragma unroll
        for (u32 k = 0; k < TAPS; ++k) {
            const bool puts = own.there && first + k < p.taps;
            join(p, shared, own.lane, own.of_block, sums[k], puts, 0, taps.first + (first + k) * taps.step);
        }
        if (p.flags & BIAS && block == 0) join(p, shared, own.lane, own.of_block, bias, own.there, 1, own.channel);
    }
}

// A channel of a gated pair: operands x, projections, mixer, skip, y and dy follow one another.
template <typename T>
struct Pair {
    Row x, projection;  // of the first part
    Row mixer, y, dy;
    T skip;

    __device__ __forceinline__ Pair(const Causal &p, u32 operand, i64 sequence, i64 channel) {
        const i64 cell = size_of(p.scalar);
        x = {p.at[operand] + (sequence * p.channels + channel) * PARTS * p.length * cell, cell};
        projection = {p.at[operand + 1] + channel * PARTS * p.taps * cell, cell};
        mixer = {p.at[operand + 2] + channel * p.mixer * cell, cell};
        skip = Real<T>::load(p.scalar, p.at[operand + 3] + channel * cell);
        y = line(p, operand + 4, sequence, channel);
        dy = line(p, operand + 5, sequence, channel);
    }

    __device__ __forceinline__ T projected(const Causal &p, u32 part, i64 t) const {
        return causal_sum<T>(p, projection.from(part * p.taps), x.from(part * p.length), p.taps, t);
    }

    __device__ __forceinline__ T u(const Causal &p, i64 t) const { return product(projected(p, 1, t), projected(p, 2, t)); }

    // The gradient of the mixed sequence.
    __device__ __forceinline__ T d(const Causal &p, i64 t) const {
        return product(number<T>(p, dy, t), projected(p, 0, t));
    }

    __device__ __forceinline__ T du(const Causal &p, i64 t) const {
        T total = T(0);
#pragma unroll 1
        for (i64 j = 0; j < p.mixer && t + j < p.length; ++j) {
            total = sum(total, product(number<T>(p, mixer, p.mixer - 1 - j), d(p, t + j)));
        }
        return sum(total, product(skip, d(p, t)));
    }

    // The gradient of a projected sequence.
    __device__ __forceinline__ T dp(const Causal &p, u32 part, i64 t) const {
        if (part == 0) return product(number<T>(p, dy, t), number<T>(p, y, t));
        return product(du(p, t), projected(p, 3 - part, t));
    }
};

template <typename T>
__device__ __forceinline__ void gated(const Causal &p) {
#pragma unroll 1
    for (u64 item = first_item(); item < p.count; item += items()) {
        const Place at = place_of(p, item);
        const Pair<T> of(p, 2, at.sequence, at.channel);
        T total = T(0);
        const i64 back = p.mixer - 1 < at.t ? p.mixer - 1 : at.t;
#pragma unroll 1
        for (i64 j = back; j >= 0; --j) {
            total = sum(total, product(number<T>(p, of.mixer, p.mixer - 1 - j), of.u(p, at.t - j)));
        }
        total = sum(total, product(of.skip, of.u(p, at.t)));
        const u64 to = item * size_of(p.scalar);
        Real<T>::store(p.scalar, p.at[0] + to, total);
        Real<T>::store(p.scalar, p.at[1] + to, product(of.projected(p, 0, at.t), total));
    }
}

// A thread for each element of dx, a part of a channel after the other.
template <typename T>
__device__ __forceinline__ void gated_data(const Causal &p) {
#pragma unroll 1
    for (u64 item = first_item(); item < p.count; item += items()) {
        const u64 row = quotient(item, p.inner);
        const i64 t = i64(item - row * p.inner.divisor);
        const u64 line = row / PARTS;
        const u32 part = u32(row - line * PARTS);
        const u64 sequence = quotient(line, p.middle);
        const Pair<T> of(p, 1, i64(sequence), i64(line - sequence * p.middle.divisor));
        T total = T(0);
#pragma unroll 1
        for (i64 j = 0; j < p.taps && t + j < p.length; ++j) {
            const T tap = number<T>(p, of.projection, part * p.taps + p.taps - 1 - j);
            total = sum(total, product(tap, of.dp(p, part, t + j)));
        }
        Real<T>::store(p.scalar, p.at[0] + item * size_of(p.scalar), total);
    }
}

// Blocks of taps of the three projections, then of the mixer.
template <typename T>
__device__ __forceinline__ void gated_weights(const Causal &p, Shared<T> &shared) {
    const u64 groups = groups_of(p);
    const u64 of_part = (u64(p.taps) + TAPS - 1) / TAPS;
#pragma unroll 1
    for (u64 item = blockIdx.x; item < p.count; item += gridDim.x) {
        const u64 block = item / groups;
        const Summing own(p, item - block * groups);
        const u32 part = block < PARTS * of_part ? u32(block / of_part) : u32(PARTS);
        const i64 first = i64(block - part * of_part) * TAPS;
        const bool mixes = part == PARTS;
        const i64 taps = mixes ? p.mixer : p.taps;
        T sums[TAPS], skip = T(0);
#pragma unroll
        for (u32 k = 0; k < TAPS; ++k) sums[k] = T(0);
#pragma unroll 1
        for (i64 sequence = 0; own.there && sequence < p.batch; ++sequence) {
            const Pair<T> of(p, 3, sequence, own.channel);
#pragma unroll 1
            for (i64 t = own.lane; t < p.length; t += LANES) {
                if (!mixes) {
                    add_taps(p, sums, of.dp(p, part, t), of.x.from(part * p.length), taps, first, t);
                    continue;
                }
                const T d = of.d(p, t);
#pragma unroll 1
                for (i64 k = 0; k < TAPS; ++k) {
                    const i64 from = t - (taps - 1) + first + k;
                    if (first + k >= taps || from < 0) continue;
                    const T term = product(d, of.u(p, from));
#pragma unroll
                    for (i64 i = 0; i < TAPS; ++i) sums[i] = i == k ? sum(sums[i], term) : sums[i];
                }
                if (first == 0) skip = sum(skip, product(d, of.u(p, t)));
            }
        }
        const i64 to = mixes ? own.channel * p.mixer : (own.channel * PARTS + part) * p.taps;
#pragma unroll
        for (u32 k = 0; k < TAPS; ++k) {
            const bool puts = own.there && first + k < taps;
            join(p, shared, own.lane, own.of_block, sums[k], puts, mixes ? 1 : 0, to + first + k);
        }
        if (mixes && first == 0) join(p, shared, own.lane, own.of_block, skip, own.there, 2, own.channel);
    }
}

#define CAUSAL(NAME)                                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) causal_##NAME##_f32(const Causal p) { NAME<f32>(p); } \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) causal_##NAME##_f64(const Causal p) { NAME<f64>(p); }
CAUSAL(forward)
CAUSAL(data)
CAUSAL(gated)
CAUSAL(gated_data)
#undef CAUSAL

#define CAUSAL(NAME, TYPE)                                                                            \
    extern "C" __global__ void __launch_bounds__(SUMMING, 1) causal_##NAME##_##TYPE(const Causal p) { \
        __shared__ Shared<TYPE> shared;                                                               \
        NAME<TYPE>(p, shared);                                                                        \
    }
CAUSAL(weights, f32)
CAUSAL(weights, f64)
CAUSAL(gated_weights, f32)
CAUSAL(gated_weights, f64)
#undef CAUSAL
