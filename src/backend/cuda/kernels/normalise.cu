// Normalisation: with statistics that are given, element by element; with those of the batch, a block of threads for a
// group whose elements lie side by side, or for 32 neighbouring groups. `ops/normalise.rs` defines the sums and the maps.
#include "normalise_sums.cuh"

// Statistics that are given: a thread for a few elements. CALLS: whether the activation is computed apart.
template <typename T, bool CALLS>
__device__ __forceinline__ void given(const Normal &p) {
    constexpr u32 L = loads<T, CALLS>();
    const bool rows = p.flags & BY_ROWS;
    const u64 first = u64(blockIdx.x) * (THREADS * PER_THREAD) + threadIdx.x;
    static_assert(PER_THREAD % L == 0, "every thread has whole rounds");
#pragma unroll 1
    for (u32 round = 0; round < PER_THREAD; round += L) {
        const u64 start = first + round * THREADS;
        if (start >= p.elements) return;
        Places places_of[L];
        i64 from[L];
#pragma unroll
        for (u32 i = 0; i < L; ++i) {
            const u64 index = start + i * THREADS < p.elements ? start + i * THREADS : start;
            const u64 slow = quotient(index, p.fast), quick = index - slow * p.fast.divisor;
            const Places group = places(rows ? quick : slow, p.group, p.group_rank);
            places_of[i] = both(group, places(rows ? slow : quick, p.member, p.member_rank));
            places_of[i].of[4] = group.of[4];
            from[i] = places_of[i].of[1];
        }
        Elements<T, L> x;
        // One alone waits until the root and the quotient, which are calls in binary64, have their registers back.
        if (L > 1) x.load(p.data, p.at[6], from);
#pragma unroll
        for (u32 i = 0; i < L; ++i) {
            if (start + i * THREADS >= p.elements) return;
            const i64 own = places_of[i].of[4];
            const T deviation = root(sum(own_number<T>(p, 4, own), T(p.epsilon)));
            const T slope = ratio(own_number<T>(p, 8, own), deviation);
            if (L == 1) x.load(p.data, p.at[6], from);
            forward_element<T, CALLS>(p, places_of[i], x(p.data, i), own_number<T>(p, 3, own), slope, own_number<T>(p, 9, own));
        }
    }
}

// Forward with the statistics of the batch.
template <typename T, bool CALLS>
__device__ __forceinline__ void batch(const Normal &p, Room &room) {
    const Share share = share_of(p, blockIdx.x, 0);
    const i64 own = share.group.of[4];
    const Sums sums = moment_sums<T>(p, share, 6, room);
    const Moments moments = moments_of(p, sums, shift_of<T>(p, share, 6));
    const T mean = T(moments.mean), inverse = inverse_of<T>(p, moments.variance);
    // Not before every thread has read what is taken from all: y may be x.
    __syncthreads();
    if (share.leads) keep_moments<T>(p, own, moments, mean, inverse);
    // Of 32 groups, or 32 times of one: around a call registers are short.
    Line<T> &line = *reinterpret_cast<Line<T> *>(room.lines[threadIdx.x % 32]);
    if (threadIdx.x < 32) line = {mean, product(own_number<T>(p, 8, own), inverse), own_number<T>(p, 9, own)};
    __syncthreads();
    map_forward<T, CALLS>(p, share_of(p, blockIdx.x, 0), line.mean, line.slope, line.offset);
}

// CALLS: whether slopes are computed apart.
template <typename T, bool CALLS>
__device__ __forceinline__ void backward(const Normal &p, Room &room) {
    const Share share = share_of(p, blockIdx.x, 0);
    const i64 own = share.group.of[5];
    T mean, inverse;
    if (p.flags & SAVES) {
        mean = own_number<T>(p, 8, own);
        inverse = own_number<T>(p, 9, own);
    } else {
        const Moments moments = moments_of(p, moment_sums<T>(p, share, 4, room), shift_of<T>(p, share, 4));
        mean = T(moments.mean);
        inverse = inverse_of<T>(p, moments.variance);
    }
    const T offset = (p.flags & SLOPES) && !(p.flags & KEEPS) ? own_number<T>(p, 7, own) : T(0);
    const Line<T> own_line = {mean, product(own_number<T>(p, 6, own), inverse), offset};
    Line<T> &kept_line = *reinterpret_cast<Line<T> *>(room.lines[threadIdx.x % 32]);
    if (CALLS) {
        // Of 32 groups, or 32 times of one: around a call registers are short.
        if (threadIdx.x < 32) kept_line = own_line;
        __syncthreads();
    }
    const Line<T> &line = CALLS ? kept_line : own_line;
    const Sums sums = gradient_sums<T, CALLS>(p, share, line, room);
    const Slant<T> slant = slant_of<T>(p, share, sums, inverse);
    // Found again rather than kept in registers through the sums.
    map_backward<T, CALLS>(p, share_of(p, blockIdx.x, 0), line, slant);
}

#define NORMALISE(NAME, T)                                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_given_##NAME(const Normal p) {               \
        given<T, false>(p);                                                                                     \
    }                                                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_given_of_##NAME(const Normal p) {            \
        given<T, true>(p);                                                                                      \
    }                                                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_batch_##NAME(const Normal p) {               \
        __shared__ Room room;                                                                                   \
        batch<T, false>(p, room);                                                                               \
    }                                                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_batch_of_##NAME(const Normal p) {            \
        __shared__ Room room;                                                                                   \
        batch<T, true>(p, room);                                                                                \
    }                                                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_backward_##NAME(const Normal p) {            \
        __shared__ Room room;                                                                                   \
        backward<T, false>(p, room);                                                                            \
    }                                                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS) normalise_backward_of_##NAME(const Normal p) {         \
        __shared__ Room room;                                                                                   \
        backward<T, true>(p, room);                                                                             \
    }
NORMALISE(f32, f32)
NORMALISE(f64, f64)
#undef NORMALISE
