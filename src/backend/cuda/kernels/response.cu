// Response normalisation over five channels with beta 3/4, and its gradient: window.cuh's results, to the same bits. Each element is
// squared, and raised to its power, once. The type is the kernel's. A window is added up anew from its squares, in the order of
// channels. All else is window.cuh's.
#include "held.cuh"
#include "linear.cuh"
#include "math.cuh"

struct Response {
    char *at[3];        // the destination, x, dy
    f64 number[3];      // k, scale, 2 * beta * scale
    i64 channel[3];     // bytes from channel to channel
    i64 place[3];       // bytes from place to place, and from image to image
    i64 image[3];
    Divisor extent[2];  // of what runs fastest, and next: places and runs of channels; images are what is left
    u32 count;          // threads
    u32 channels;
};

static_assert(sizeof(Response) == 24 + 24 + 72 + 48 + 8, "response.rs has another Response");

// Threads of a block, channels of a thread, on either side of one in its window, and on either side of a thread's that it looks at.
enum { RESPONSE_THREADS = 128 };
enum : u32 { RUN = 8, SIDE = 2, HALO = 2 * SIDE, SEEN = RUN + 2 * HALO };

// The run of channels of a thread: the first of them, and bytes to its place.
struct Run {
    i32 first;
    i64 offset[3];
};

template <bool SIDE_BY_SIDE>
__device__ __forceinline__ Run run_of(const Response &p, u32 index) {
    const u32 next = quotient(index, p.extent[0]), quick = index - next * u32(p.extent[0].divisor);
    const u32 image = quotient(next, p.extent[1]), slow = next - image * u32(p.extent[1].divisor);
    const u32 number = SIDE_BY_SIDE ? quick : slow, place = SIDE_BY_SIDE ? slow : quick;
    Run run;
    run.first = i32(number * RUN);
#pragma unroll
    for (u32 k = 0; k < 3; ++k) run.offset[k] = i64(image) * p.image[k] + i64(place) * p.place[k];
    return run;
}

__device__ __forceinline__ bool is_channel(const Response &p, i32 channel) { return u32(channel) < p.channels; }

// The channels from HALO before a run to HALO behind it, of which FROM and as many on the other side are left out; zeros where there
// is none. Where they lie side by side, vectors hold whole runs or halves of them.
template <u32 SCALAR, bool SIDE_BY_SIDE, u32 FROM>
__device__ __forceinline__ void load_run(const Response &p, const Run &run, u32 operand, f32 (&x)[SEEN]) {
    constexpr u32 BYTES = width_of(SCALAR), LANES = 16 / BYTES, AHEAD = LANES > HALO ? LANES : HALO;
    typedef typename Unit<BYTES>::Type Bits;
    const char *base = p.at[operand] + run.offset[operand];
    if constexpr (SIDE_BY_SIDE) {
        base += i64(run.first) * i64(BYTES);
#pragma unroll
        for (u32 k = 0; k * LANES < RUN + 2 * AHEAD; ++k) {
            const i32 behind = i32(k * LANES) - i32(AHEAD);
            Vector v = {{0, 0, 0, 0}};
            if (is_channel(p, run.first + behind)) v = at<Vector>(base + behind * i32(BYTES));
#pragma unroll
            for (u32 lane = 0; lane < LANES; ++lane) {
                const i32 i = behind + i32(lane) + i32(HALO);
                const u32 bits = v.word[lane * BYTES / 4] >> lane * BYTES % 4 * 8;
                if (i >= 0 && i < i32(SEEN)) x[i] = value_f32(SCALAR, BYTES == 2 ? bits & 0xffff : bits);
            }
        }
    } else {
        Bits bits[SEEN];
#pragma unroll
        for (u32 i = 0; i < SEEN; ++i) {
            bits[i] = 0;
            if (i + 1 <= FROM || i >= SEEN - FROM) continue;
            const i32 channel = run.first + i32(i) - i32(HALO);
            if (is_channel(p, channel)) bits[i] = at<Bits>(base + channel * p.channel[operand]);
        }
#pragma unroll
        for (u32 i = 0; i < SEEN; ++i) hold(bits[i]);
#pragma unroll
        for (u32 i = 0; i < SEEN; ++i) x[i] = value_f32(SCALAR, bits[i]);
    }
}

template <u32 SCALAR, bool SIDE_BY_SIDE>
__device__ __forceinline__ void store_run(const Response &p, const Run &run, const f32 (&y)[RUN]) {
    constexpr u32 BYTES = width_of(SCALAR), LANES = 16 / BYTES;
    typedef typename Unit<BYTES>::Type Bits;
    char *to = p.at[0] + run.offset[0];
    if constexpr (SIDE_BY_SIDE) {
        to += i64(run.first) * i64(BYTES);
#pragma unroll
        for (u32 k = 0; k < RUN / LANES; ++k) {
            Vector v = {{0, 0, 0, 0}};
#pragma unroll
            for (u32 lane = 0; lane < LANES; ++lane) {
                v.word[lane * BYTES / 4] |= stored_bits(SCALAR, y[k * LANES + lane]) << lane * BYTES % 4 * 8;
            }
            put<Vector>(to + 16 * k, v);
        }
    } else {
#pragma unroll
        for (u32 i = 0; i < RUN; ++i) {
            const i32 channel = run.first + i32(i);
            if (is_channel(p, channel)) put<Bits>(to + channel * p.channel[0], Bits(stored_bits(SCALAR, y[i])));
        }
    }
}

// The base of channel I of those that a thread sees, from their squares, the first one of its window first.
__device__ __forceinline__ f32 base_of(const Response &p, const f32 (&square)[SEEN], u32 i) {
    f32 total = 0;
#pragma unroll
    for (u32 k = 0; k <= 2 * SIDE; ++k) total = sum(total, square[i - SIDE + k]);
    return sum(f32(p.number[0]), product(f32(p.number[1]), total));
}

__device__ __forceinline__ f32 inverse_power(f32 base) {
    return ratio(1.0f, product(root(base), root(root(base))));
}

template <u32 SCALAR, bool SIDE_BY_SIDE>
__device__ __forceinline__ void response(const Response &p) {
    const u32 index = blockIdx.x * RESPONSE_THREADS + threadIdx.x;
    if (index >= p.count) return;
    const Run run = run_of<SIDE_BY_SIDE>(p, index);
    f32 x[SEEN], square[SEEN], y[RUN];
    load_run<SCALAR, SIDE_BY_SIDE, HALO - SIDE>(p, run, 1, x);
#pragma unroll
    for (u32 i = 0; i < SEEN; ++i) square[i] = product(x[i], x[i]);
#pragma unroll
    for (u32 i = 0; i < RUN; ++i) y[i] = product(x[i + HALO], inverse_power(base_of(p, square, i + HALO)));
    store_run<SCALAR, SIDE_BY_SIDE>(p, run, y);
}

template <u32 SCALAR, bool SIDE_BY_SIDE>
__device__ __forceinline__ void response_gradient(const Response &p) {
    const u32 index = blockIdx.x * RESPONSE_THREADS + threadIdx.x;
    if (index >= p.count) return;
    const Run run = run_of<SIDE_BY_SIDE>(p, index);
    f32 x[SEEN], dy[SEEN], square[SEEN], term[SEEN], direct[RUN], dx[RUN];
    load_run<SCALAR, SIDE_BY_SIDE, 0>(p, run, 1, x);
    load_run<SCALAR, SIDE_BY_SIDE, SIDE>(p, run, 2, dy);
#pragma unroll
    for (u32 i = 0; i < SEEN; ++i) square[i] = product(x[i], x[i]);
#pragma unroll
    for (u32 i = SIDE; i < SEEN - SIDE; ++i) {
        const f32 base = base_of(p, square, i), power = inverse_power(base);
        const f32 own = product(product(dy[i], x[i]), ratio(power, base));
        // No output is there to hand on a gradient.
        term[i] = is_channel(p, run.first + i32(i) - i32(HALO)) ? own : 0.0f;
        if (i >= HALO && i < HALO + RUN) direct[i - HALO] = product(dy[i], power);
    }
#pragma unroll
    for (u32 i = 0; i < RUN; ++i) {
        f32 total = 0;
#pragma unroll
        for (u32 k = 0; k <= 2 * SIDE; ++k) total = sum(total, term[i + HALO - SIDE + k]);
        dx[i] = sum(direct[i], -product(f32(p.number[2]), product(x[i + HALO], total)));
    }
    store_run<SCALAR, SIDE_BY_SIDE>(p, run, dx);
}

// Channels apart, and side by side.
#define RESPONSE_OF(name, type, scalar)                                                                              \
    extern "C" __global__ void __launch_bounds__(RESPONSE_THREADS, 1) name##_apart_##type(const Response p) {        \
        name<scalar, false>(p);                                                                                      \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(RESPONSE_THREADS, 1) name##_side_by_side_##type(const Response p) { \
        name<scalar, true>(p);                                                                                       \
    }
#define RESPONSE_KERNELS(name)     \
    RESPONSE_OF(name, f32, F32)    \
    RESPONSE_OF(name, f16, F16)    \
    RESPONSE_OF(name, bf16, BF16)

RESPONSE_KERNELS(response)
RESPONSE_KERNELS(response_gradient)
