// CTC loss: `ops/ctc/step.rs` defines what is computed, in which order. A block looks at a label, a block finds the softmax of a
// row, a block walks along all rows of a sample, forwards or backwards, and a block writes the gradients of a row.
#include "function.cuh"

enum Choices : u32 { SOFTMAX = 1, SKIPS = 2, GRADIENTS = 4 };

struct Ctc {
    char *costs;
    char *gradients;
    const char *probs;
    const i32 *label_lengths;
    const i32 *input_lengths;
    const i32 *labels;
    u32 *low;  // of each sample: the place of its first label, in halves
    u32 *high;
    i32 *length;  // of each sample: classes of its label, or -1 if it is infeasible
    i32 *next;    // of each class of a label: the next that is the same, or -1
    i32 *heads;   // whether it is the first
    char *alphas;
    char *betas;
    char *statistics;
    i64 rows;
    i64 frames;
    i64 count;  // of samples
    i64 classes;
    i64 longest;
    i64 probs_step[3];  // bytes along rows, samples and classes
    i64 gradients_step[3];
    u32 scalar;  // Scalar, of the gradients
    u32 flags;   // Choices
};

static_assert(sizeof(Ctc) == 8 * 14 + 40 + 48 + 8, "ctc.rs has another Ctc");

// Threads of a block that computes a row, each a lane of its sums, and warps of one that walks along rows.
enum { ROW_THREADS = 128, WARPS = THREADS / 32 };

__device__ __forceinline__ i64 cut(i64 length, i64 most) { return length < 0 ? 0 : length > most ? most : length; }

__device__ __forceinline__ i64 frames_of(const Ctc &p, i64 n) { return cut(p.input_lengths[n], p.frames); }

__device__ __forceinline__ const i32 *labels_of(const Ctc &p, i64 n) {
    return p.labels + (u64(p.high[n]) << 32 | p.low[n]);
}

// Labels.

// The sum of one number of each thread.
__device__ __forceinline__ i64 block_sum(i64 *shared, i64 mine) {
    __syncthreads();
    shared[threadIdx.x] = mine;
    __syncthreads();
#pragma unroll 1
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    return shared[0];
}

extern "C" __global__ void __launch_bounds__(THREADS) ctc_prepare(const Ctc p) {
    __shared__ i64 shared[THREADS];
#pragma unroll 1
    for (i64 n = blockIdx.x; n < p.count; n += gridDim.x) {
        i64 before = 0;
#pragma unroll 1
        for (i64 k = threadIdx.x; k < n; k += THREADS) before += cut(p.label_lengths[k], p.longest);
        const i64 first = block_sum(shared, before);
        const i64 length = cut(p.label_lengths[n], p.longest);
        const i32 *labels = p.labels + first;
        i64 rows = 0;   // that an alignment needs
        i64 wrong = 0;  // classes
#pragma unroll 1
        for (i64 k = threadIdx.x; k < length; k += THREADS) {
            rows += 1 + (k > 0 && labels[k] == labels[k - 1]);
            wrong += labels[k] < 1 || labels[k] >= p.classes;
        }
        rows = block_sum(shared, rows);
        wrong = block_sum(shared, wrong);
        const bool is_feasible = wrong == 0 && rows <= frames_of(p, n);
        if (threadIdx.x == 0) {
            p.low[n] = u32(first);
            p.high[n] = u32(u64(first) >> 32);
            p.length[n] = is_feasible ? i32(length) : -1;
        }
        if (!is_feasible || !(p.flags & GRADIENTS)) continue;
        i32 *next = p.next + n * p.longest, *heads = p.heads + n * p.longest;
#pragma unroll 1
        for (i64 k = threadIdx.x; k < length; k += THREADS) {
            i64 other = k + 1;
            while (other < length && labels[other] != labels[k]) ++other;
            next[k] = other < length ? i32(other) : -1;
            other = k - 1;
            while (other >= 0 && labels[other] != labels[k]) --other;
            heads[k] = other < 0;
        }
    }
}

// Numbers.

template <typename T>
__device__ __forceinline__ T fit(T m) {
    return m == -Real<T>::infinity() ? T(0) : m;
}

template <typename T>
__device__ __forceinline__ T greater(T a, T b) {
    return b > a ? b : a;
}

// The greatest of some numbers, and the logarithm of how many times as much all are.
template <typename T>
struct Joined {
    T most;
    Rounded<T> more;
};

template <typename T>
__device__ __forceinline__ Joined<T> join(T a, T b) {
    const T m = b > a ? b : a, l = b > a ? a : b;
    return {m, log(number<T>(1) + exp(Rounded<T>{l} - Rounded<T>{fit(m)}))};
}

template <typename T>
__device__ __forceinline__ Joined<T> join(T a, T b, T c) {
    const T first = b > a ? b : a, l = b > a ? a : b;
    const T m = c > first ? c : first, r = c > first ? first : c;
    const Rounded<T> least = {fit(m)};
    return {m, log((number<T>(1) + exp(Rounded<T>{l} - least)) + exp(Rounded<T>{r} - least))};
}

// One row of one sample of probs.
template <typename T>
struct Input {
    const char *row;
    i64 step;
    const T *kept;  // the numbers of the softmax, if that is wanted
    bool one;       // there is one class, and so one number

    __device__ __forceinline__ Input(const Ctc &p, i64 n, i64 t)
        : row(p.probs + t * p.probs_step[0] + n * p.probs_step[1]), step(p.probs_step[2]), kept(nullptr), one(p.classes == 1) {
        const i64 numbers = one ? 1 : 2;
        if (p.flags & SOFTMAX) kept = reinterpret_cast<const T *>(p.statistics) + (n * p.frames + t) * numbers;
    }
    __device__ __forceinline__ Rounded<T> at(i64 k) const { return {*reinterpret_cast<const T *>(row + k * step)}; }
    __device__ __forceinline__ Rounded<T> logit(i64 k) const {
        return (at(k) - Rounded<T>{kept[0]}) - Rounded<T>{one ? T(0) : kept[1]};
    }
    __device__ __forceinline__ Rounded<T> logarithm(i64 k) const { return kept ? logit(k) : log(at(k)); }
    __device__ __forceinline__ T share(i64 k) const { return kept ? exp(logit(k)).value : at(k).value; }
};

// The greatest number of all threads, of a block of rows.
template <typename T>
__device__ __forceinline__ T row_greatest(T *shared, T mine) {
    __syncthreads();
    shared[threadIdx.x] = mine;
    __syncthreads();
#pragma unroll 1
    for (u32 half = ROW_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] = greater(shared[threadIdx.x], shared[threadIdx.x + half]);
        __syncthreads();
    }
    return sum(shared[0], T(0));
}

// The sum of all lanes.
template <typename T>
__device__ __forceinline__ T row_sum(T *shared, T mine) {
    __syncthreads();
    shared[threadIdx.x] = mine;
    __syncthreads();
#pragma unroll 1
    for (u32 half = ROW_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] = sum(shared[threadIdx.x], shared[threadIdx.x + half]);
        __syncthreads();
    }
    return shared[0];
}

template <typename T>
__device__ __forceinline__ void statistics(const Ctc &p, T *shared) {
    const i64 numbers = p.classes == 1 ? 1 : 2;
#pragma unroll 1
    for (i64 row = blockIdx.x; row < p.count * p.frames; row += gridDim.x) {
        const i64 n = row / p.frames, t = row % p.frames;
        if (p.length[n] < 0 || t >= frames_of(p, n)) continue;
        const Input<T> x(p, n, t);
        T most = -Real<T>::infinity();
#pragma unroll 4
        for (i64 k = threadIdx.x; k < p.classes; k += ROW_THREADS) most = greater(most, x.at(k).value);
        most = row_greatest(shared, most);
        T lane = 0;
#pragma unroll 4
        for (i64 k = threadIdx.x; k < p.classes; k += ROW_THREADS) {
            lane = sum(lane, exp(x.at(k) - Rounded<T>{most}).value);
        }
        const T all = row_sum(shared, lane);
        if (threadIdx.x == 0) {
            T *kept = reinterpret_cast<T *>(p.statistics) + row * numbers;
            kept[0] = most;
            if (numbers > 1) kept[1] = log(Rounded<T>{all}).value;
        }
    }
}

// The second bound keeps the assembler from spilling for the sake of more blocks.
extern "C" __global__ void __launch_bounds__(ROW_THREADS, 1) ctc_statistics_f32(const Ctc p) {
    __shared__ f32 shared[ROW_THREADS];
    statistics<f32>(p, shared);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS, 1) ctc_statistics_f64(const Ctc p) {
    __shared__ f64 shared[ROW_THREADS];
    statistics<f64>(p, shared);
}

// Alpha and beta.

// A row of states: blanks, then classes of the label.
template <typename T>
__device__ __forceinline__ T *states_of(const Ctc &p, char *area, i64 n, i64 t) {
    return reinterpret_cast<T *>(area) + (n * p.frames + t) * (2 * p.longest + 1);
}

// Shares the greatest number of each warp of a walk with the next row, which finds it after a barrier.
template <typename T>
__device__ __forceinline__ void leave(T *warps, T mine) {
#pragma unroll 1
    for (u32 flip = 16; flip > 0; flip /= 2) mine = greater(mine, __shfl_xor_sync(~0u, mine, flip));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
}

template <typename T>
__device__ __forceinline__ T left(const T *warps) {
    T most = warps[0];
#pragma unroll
    for (u32 warp = 1; warp < WARPS; ++warp) most = greater(most, warps[warp]);
    return fit(sum(most, T(0)));
}

template <typename T>
__device__ __forceinline__ void forwards(const Ctc &p, i64 n, T (*warps)[WARPS]) {
    const T nothing = -Real<T>::infinity();
    const i64 length = p.length[n], frames = frames_of(p, n);
    const i32 *labels = labels_of(p, n);
    f64 subtracted = 0;
#pragma unroll 1
    for (i64 t = 0; t < frames; ++t) {
        const Input<T> x(p, n, t);
        T *blanks = states_of<T>(p, p.alphas, n, t), *classes = blanks + length + 1;
        T most = nothing;
        if (t == 0) {
#pragma unroll 1
            for (i64 i = threadIdx.x; i <= length; i += THREADS) {
                blanks[i] = i == 0 ? x.logarithm(0).value : nothing;
                most = greater(most, blanks[i]);
                if (i == length) continue;
                classes[i] = i == 0 ? x.logarithm(labels[0]).value : nothing;
                most = greater(most, classes[i]);
            }
        } else {
            const T *old = states_of<T>(p, p.alphas, n, t - 1), *old_classes = old + length + 1;
            const Rounded<T> less = {left(warps[(t - 1) % 2])};
            subtracted = sum(subtracted, f64(less.value));
            const Rounded<T> of_blank = x.logarithm(0);
#pragma unroll 1
            for (i64 i = threadIdx.x; i <= length; i += THREADS) {
                const T before = i > 0 ? old_classes[i - 1] : nothing;
                const Joined<T> blank = join(old[i], before);
                blanks[i] = (((Rounded<T>{blank.most} - less) + blank.more) + of_blank).value;
                most = greater(most, blanks[i]);
                if (i == length) continue;
                const bool may_skip = i > 0 && labels[i] != labels[i - 1];
                const Joined<T> one = join(old_classes[i], old[i], may_skip ? before : nothing);
                classes[i] = (((Rounded<T>{one.most} - less) + one.more) + x.logarithm(labels[i])).value;
                most = greater(most, classes[i]);
            }
        }
        leave(warps[t % 2], most);
        __syncthreads();
    }
    if (threadIdx.x > 0) return;
    T cost = 0;
    if (frames > 0) {
        const T *blanks = states_of<T>(p, p.alphas, n, frames - 1), *classes = blanks + length + 1;
        const Joined<T> last = join(blanks[length], length > 0 ? classes[length - 1] : nothing);
        const T rest = (Rounded<T>{last.most} + last.more).value;
        cost = T(sum(0.0, -sum(subtracted, f64(rest))));
    }
    reinterpret_cast<T *>(p.costs)[n] = cost == cost ? cost : Real<T>::nan();
}

template <typename T>
__device__ __forceinline__ void backwards(const Ctc &p, i64 n, T (*warps)[WARPS]) {
    const T nothing = -Real<T>::infinity();
    const i64 length = p.length[n], frames = frames_of(p, n);
    const i32 *labels = labels_of(p, n);
#pragma unroll 1
    for (i64 t = frames - 1; t >= 0; --t) {
        T *blanks = states_of<T>(p, p.betas, n, t), *classes = blanks + length + 1;
        T most = nothing;
        if (t == frames - 1) {
#pragma unroll 1
            for (i64 i = threadIdx.x; i <= length; i += THREADS) {
                blanks[i] = i == length ? T(0) : nothing;
                if (i < length) classes[i] = i == length - 1 ? T(0) : nothing;
            }
            most = T(0);
        } else {
            const Input<T> x(p, n, t + 1);
            const T *old = states_of<T>(p, p.betas, n, t + 1), *old_classes = old + length + 1;
            const Rounded<T> less = {left(warps[(t + 1) % 2])};
            const Rounded<T> of_blank = x.logarithm(0);
            const auto weighted = [&](i64 i) { return (Rounded<T>{old_classes[i]} + x.logarithm(labels[i])).value; };
#pragma unroll 1
            for (i64 i = threadIdx.x; i <= length; i += THREADS) {
                const T stay = (Rounded<T>{old[i]} + of_blank).value;
                const T own = i < length ? weighted(i) : nothing;
                const Joined<T> blank = join(stay, own);
                blanks[i] = ((Rounded<T>{blank.most} - less) + blank.more).value;
                most = greater(most, blanks[i]);
                if (i == length) continue;
                const T behind = (Rounded<T>{old[i + 1]} + of_blank).value;
                const bool may_skip = i + 1 < length && labels[i] != labels[i + 1];
                const Joined<T> one = join(own, behind, may_skip ? weighted(i + 1) : nothing);
                classes[i] = ((Rounded<T>{one.most} - less) + one.more).value;
                most = greater(most, classes[i]);
            }
        }
        leave(warps[t % 2], most);
        __syncthreads();
    }
}

// The first half of the blocks walks forwards, the second, where there are gradients, backwards.
template <typename T>
__device__ __forceinline__ void walk(const Ctc &p, T (*warps)[WARPS]) {
    const i64 walks = p.flags & GRADIENTS ? 2 * p.count : p.count;
#pragma unroll 1
    for (i64 number = blockIdx.x; number < walks; number += gridDim.x) {
        const bool is_forwards = number < p.count;
        const i64 n = is_forwards ? number : number - p.count;
        if (p.length[n] < 0) {
            if (is_forwards && threadIdx.x == 0) reinterpret_cast<T *>(p.costs)[n] = Real<T>::infinity();
        } else if (is_forwards) {
            forwards<T>(p, n, warps);
        } else {
            backwards<T>(p, n, warps);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) ctc_walk_f32(const Ctc p) {
    __shared__ f32 warps[2][WARPS];
    walk<f32>(p, warps);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) ctc_walk_f64(const Ctc p) {
    __shared__ f64 warps[2][WARPS];
    walk<f64>(p, warps);
}

// Gradients.

template <typename T>
__device__ __forceinline__ void put(const Ctc &p, char *row, i64 k, T x) {
    Real<T>::store(p.scalar, row + k * p.gradients_step[2], x == x ? x : Real<T>::nan());
}

template <typename T>
__device__ __forceinline__ void put_zeros(const Ctc &p, char *row) {
#pragma unroll 1
    for (i64 k = threadIdx.x; k < p.classes; k += ROW_THREADS) put(p, row, k, T(0));
}

template <typename T>
__device__ __forceinline__ void gradient(const Ctc &p, i64 n, i64 t, char *row, T *shared) {
    const i64 length = p.length[n];
    const i32 *labels = labels_of(p, n), *next = p.next + n * p.longest, *heads = p.heads + n * p.longest;
    T *blanks = states_of<T>(p, p.alphas, n, t), *classes = blanks + length + 1;
    T *beta = states_of<T>(p, p.betas, n, t), *beta_of_class = beta + length + 1;
    T most = -Real<T>::infinity();
#pragma unroll 1
    for (i64 i = threadIdx.x; i <= length; i += ROW_THREADS) {
        most = greater(most, sum(blanks[i], beta[i]));
        if (i < length) most = greater(most, sum(classes[i], beta_of_class[i]));
    }
    const Rounded<T> less = {fit(row_greatest(shared, most))};
    T blank_lane = 0, class_lane = 0;
#pragma unroll 1
    for (i64 i = threadIdx.x; i <= length; i += ROW_THREADS) {
        blank_lane = sum(blank_lane, exp((Rounded<T>{blanks[i]} + Rounded<T>{beta[i]}) - less).value);
        if (i == length) continue;
        // The chains of a class add them up below.
        classes[i] = exp((Rounded<T>{classes[i]} + Rounded<T>{beta_of_class[i]}) - less).value;
        class_lane = sum(class_lane, classes[i]);
    }
    const Rounded<T> of_blank = {row_sum(shared, blank_lane)};
    const Rounded<T> all = of_blank + Rounded<T>{row_sum(shared, class_lane)};
    if (all.value == T(0)) return put_zeros<T>(p, row);
    const Input<T> x(p, n, t);
    // Gradients may take the place of what they are computed from: what the label changes is computed before anything is written,
    // and written after all the others.
#pragma unroll 1
    for (i64 i = threadIdx.x; i < length; i += ROW_THREADS) {
        if (!heads[i]) continue;
        T of_class = 0;
#pragma unroll 1
        for (i64 k = i; k >= 0; k = next[k]) of_class = sum(of_class, classes[k]);
        beta_of_class[i] = (Rounded<T>{x.share(labels[i])} - Rounded<T>{of_class} / all).value;
    }
    const T blank = (Rounded<T>{x.share(0)} - of_blank / all).value;
    __syncthreads();
#pragma unroll 1
    for (i64 k = threadIdx.x; k < p.classes; k += ROW_THREADS) put(p, row, k, x.share(k));
    __syncthreads();
#pragma unroll 1
    for (i64 i = threadIdx.x; i < length; i += ROW_THREADS) {
        if (heads[i]) put(p, row, labels[i], beta_of_class[i]);
    }
    if (threadIdx.x == 0) put(p, row, 0, blank);
}

template <typename T>
__device__ __forceinline__ void gradients(const Ctc &p, T *shared) {
#pragma unroll 1
    for (i64 number = blockIdx.x; number < p.count * p.rows; number += gridDim.x) {
        const i64 t = number / p.count, n = number % p.count;
        char *row = p.gradients + t * p.gradients_step[0] + n * p.gradients_step[1];
        const bool is_inside = t < frames_of(p, n);
        if (is_inside && p.length[n] >= 0) {
            gradient<T>(p, n, t, row, shared);
        } else if (!is_inside || !(p.flags & SKIPS)) {
            put_zeros<T>(p, row);
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS, 1) ctc_gradients_f32(const Ctc p) {
    __shared__ f32 shared[ROW_THREADS];
    gradients<f32>(p, shared);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS, 1) ctc_gradients_f64(const Ctc p) {
    __shared__ f64 shared[ROW_THREADS];
    gradients<f64>(p, shared);
}
