// Batch normalisation of few and long groups without an activation, where all tensors lie alike: each group is cut into parts that are
// whole subtrees of its sum, a block of threads for a part. The sums of a part, and what its elements are computed with, wait in the
// first elements of that part of the result, which the last launch writes behind them, so that no workspace is needed. The type and the
// layout are the kernel's, and offsets have 32 bits.
#include "cursor.cuh"
#include "held.cuh"
#include "linear.cuh"
#include "normalise_sums.cuh"

// Elements, and parts, that a thread loads before it looks at the first.
enum : u32 { AHEAD = 8 };

// What every element of a group is computed with.
struct Constants {
    f32 mean, inverse, centre, tilt;
};

// Positions of a group at equal distances, as bytes behind the first element of a tensor.
__device__ __forceinline__ Cursor cursor_of(const Normal &p, u32 group, u32 position, u32 stride) {
    const u32 step = u32(p.member[0].step[1]), base = group * u32(p.group[0].step[1]);
    Cursor cursor(base, step, position, stride);
    if (p.member_rank < 2) return cursor;
    const Divisor &inner = p.member[0].extent;
    const u32 outer = u32(quotient(u64(position), inner)), slow = u32(quotient(u64(stride), inner));
    cursor.nest(base, step, u32(inner.divisor), u32(p.member[1].step[1]), outer, slow);
    return cursor;
}

// The 16 bytes that a part has in the result, elements of WIDTH bytes from `position` on. None is looked at before all are asked for.
template <u32 WIDTH>
struct Taken {
    typedef typename Unit<WIDTH>::Type Bits;
    Bits of[16 / WIDTH];

    __device__ __forceinline__ void load(const Normal &p, u32 group, u32 position) {
        Cursor cursor = cursor_of(p, group, position, 1);
#pragma unroll
        for (u32 k = 0; k < 16 / WIDTH; ++k) {
            of[k] = at<Bits>(p.at[0] + cursor.offset);
            cursor.go();
        }
    }

    __device__ __forceinline__ Vector whole() {
        Vector whole = {{0, 0, 0, 0}};
#pragma unroll
        for (u32 k = 0; k < 16 / WIDTH; ++k) hold(of[k]);
#pragma unroll
        for (u32 k = 0; k < 16 / WIDTH; ++k) whole.word[k * WIDTH / 4] |= u32(of[k]) << (k * WIDTH % 4 * 8);
        return whole;
    }
};

template <u32 WIDTH>
__device__ __forceinline__ Vector taken(const Normal &p, u32 group, u32 position) {
    Taken<WIDTH> held;
    held.load(p, group, position);
    return held.whole();
}

// How many elements of a part lie in front of its sums. A backward pass without saved statistics has computed them itself: they wait there.
template <u32 WIDTH>
__device__ __forceinline__ u32 before_sums(const Normal &p) {
    return (p.flags & (GRADIENTS | SAVES)) == GRADIENTS ? 16 / WIDTH : 0;
}

template <u32 WIDTH>
__device__ __forceinline__ void left(const Normal &p, u32 group, u32 position, const Vector &held) {
    typedef typename Unit<WIDTH>::Type Bits;
    Cursor cursor = cursor_of(p, group, position, 1);
#pragma unroll
    for (u32 k = 0; k < 16 / WIDTH; ++k) {
        put<Bits>(p.at[0] + cursor.offset, Bits(held.word[k * WIDTH / 4] >> (k * WIDTH % 4 * 8)));
        cursor.go();
    }
}

// The group of a thread in the groups UNIT, or 32 * UNIT and so on.
template <bool ROWS>
struct Own {
    u32 group;
    bool there, leads;

    __device__ __forceinline__ Own(const Normal &p, u32 unit) {
        group = ROWS ? unit * 32 + threadIdx.x % 32 : unit;
        there = group < p.groups;
        leads = there && threadIdx.x < (ROWS ? 32 : 1);
        if (!there) group = 0;
    }

    // Where its numbers lie, of which OPERAND is one in the loops over groups.
    __device__ __forceinline__ i64 number(const Normal &p, u32 operand) const { return i64(group) * p.group[0].step[operand]; }
};

// Where x of a forward pass lies, or of a backward one, and its first element.
template <bool BACK>
__device__ __forceinline__ const char *x_of(const Normal &p) {
    return p.at[BACK ? 4 : 6];
}

__device__ __forceinline__ f64 first_of(const Normal &p, u32 group) {
    return f64(load_f32(p.data, x_of<false>(p) + i64(group) * p.group[0].step[1]));
}

// The next elements of x, and of dy of a backward pass, AHEAD of them or `rest` positions; behind the end the first one again.
template <u32 SCALAR, bool BACK, u32 STRIDE, bool WHOLE>
struct Ahead {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    Bits x[AHEAD], dy[AHEAD];
    u32 offset[AHEAD];

    __device__ __forceinline__ Ahead(const Normal &p, Cursor &cursor, u32 rest) {
        const char *from = x_of<BACK>(p), *gradients = p.at[5];
        const u32 first = cursor.offset;
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            offset[k] = there(k, rest) ? cursor.offset : first;
            x[k] = at<Bits>(from + offset[k]);
            if (BACK) dy[k] = at<Bits>(gradients + offset[k]);
            cursor.go();
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            hold(x[k]);
            if (BACK) hold(dy[k]);
        }
    }

    __device__ __forceinline__ static bool there(u32 k, u32 rest) { return WHOLE || k * STRIDE < rest; }
};

template <u32 SCALAR, bool BACK, u32 STRIDE, bool WHOLE>
__device__ __forceinline__ void add_next(const Normal &p, Cursor &cursor, u32 rest, f64 shift, Sums &lane) {
    const Ahead<SCALAR, BACK, STRIDE, WHOLE> next(p, cursor, rest);
#pragma unroll
    for (u32 k = 0; k < AHEAD; ++k) {
        const f64 e = sum(f64(value_f32(SCALAR, next.x[k])), -shift);
        const f64 d = BACK ? f64(value_f32(SCALAR, next.dy[k])) : e;
        // -0 changes no sum.
        const bool there = next.there(k, rest);
        lane = {sum(lane.plain, there ? d : -0.0), sum(lane.tilted, there ? product(d, e) : -0.0)};
    }
}

// The sums of elements `position`, `position + STRIDE`, ... before `end`, in this order.
template <u32 SCALAR, bool BACK, u32 STRIDE>
__device__ __forceinline__ Sums lane_sums(const Normal &p, u32 group, u32 position, u32 end, f64 shift) {
    Sums lane = {0.0, 0.0};
    if (position >= end) return lane;
    Cursor cursor = cursor_of(p, group, position, STRIDE);
#pragma unroll 1
    for (; position + (AHEAD - 1) * STRIDE < end; position += AHEAD * STRIDE) {
        add_next<SCALAR, BACK, STRIDE, true>(p, cursor, end - position, shift, lane);
    }
    if (position < end) add_next<SCALAR, BACK, STRIDE, false>(p, cursor, end - position, shift, lane);
    return lane;
}

// Of a block's part the sums for mean and variance, or for the gradients.
template <u32 SCALAR, bool BACK, bool ROWS>
__device__ __forceinline__ void sum_part(const Normal &p, Room &room) {
    constexpr u32 BLOCK = ROWS ? ROW_BLOCK : RUN_BLOCK;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = blockIdx.x % p.parts;
    const Own<ROWS> own(p, blockIdx.x / p.parts);
    constexpr u32 WIDTH = width_of(SCALAR);
    const u32 begin = part * u32(p.part), end = u32(end_of(p, part)), before = BACK ? before_sums<WIDTH>(p) : 0;
    f64 shift = 0.0;
    if (!BACK) {
        shift = first_of(p, own.group);
    } else if (before == 0) {
        shift = f64(own_number<f32>(p, 8, own.number(p, 5)));
    } else if (own.there) {
        shift = f64(bits_of<Constants>(taken<WIDTH>(p, own.group, begin)).mean);
    }
    auto waiting = waiting_in(room.waiting + (ROWS ? lane : 0), ROWS ? 32 : 1);
#pragma unroll 1
    for (u32 first = begin; first < end; first += WARPS * BLOCK) {
        const u32 start = first + warp * BLOCK, stop = start + BLOCK < end ? start + BLOCK : end;
        const u32 last = own.there ? stop : 0;
        Sums node = lane_sums<SCALAR, BACK, ROWS ? 1 : 32>(p, own.group, ROWS ? start : start + lane, last, shift);
        if (!ROWS) {
#pragma unroll
            for (u32 half = 16; half > 0; half /= 2) {
                node = joined(node, {__shfl_down_sync(~0u, node.plain, half), __shfl_down_sync(~0u, node.tilted, half)});
            }
        }
        if (ROWS || lane == 0) room.nodes[threadIdx.x] = node;
        __syncthreads();
        if (threadIdx.x < (ROWS ? 32 : 1)) {
#pragma unroll 1
            for (u32 i = 0; i < WARPS && first + i * BLOCK < end; ++i) waiting.push(room.nodes[32 * i + lane]);
        }
        __syncthreads();
    }
    if (own.leads) left<WIDTH>(p, own.group, begin + before, bits_of<Vector>(waiting.root({0.0, 0.0})));
}

// The sum of all parts of a group, which every thread of a group gets that leads.
template <u32 WIDTH>
__device__ __forceinline__ Sums total_of_run(const Normal &p, u32 group, Room &room) {
    const u32 thread = threadIdx.x, before = before_sums<WIDTH>(p);
    if (thread < p.parts) room.nodes[thread] = bits_of<Sums>(taken<WIDTH>(p, group, thread * u32(p.part) + before));
    __syncthreads();
#pragma unroll 1
    for (u32 step = 1; step < p.parts; step *= 2) {
        if (thread % (2 * step) == 0 && thread + step < p.parts) room.nodes[thread] = joined(room.nodes[thread], room.nodes[thread + step]);
        __syncthreads();
    }
    return room.nodes[0];
}

// A warp joins 32 parts, eight at a time, then the first warp what all have.
template <u32 WIDTH>
__device__ __forceinline__ Sums total_of_rows(const Normal &p, const Own<true> &own, Room &room) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, before = before_sums<WIDTH>(p);
    auto waiting = waiting_in(room.waiting + threadIdx.x, THREADS);
#pragma unroll 1
    for (u32 first = 32 * warp; own.there && first < p.parts && first < 32 * warp + 32; first += AHEAD) {
        Taken<WIDTH> held[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            // Behind the last part the last one again.
            const u32 part = first + k < p.parts ? first + k : p.parts - 1;
            held[k].load(p, own.group, part * u32(p.part) + before);
        }
        Sums node[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) node[k] = bits_of<Sums>(held[k].whole());
#pragma unroll
        for (u32 step = 1; step < AHEAD; step *= 2) {
#pragma unroll
            for (u32 k = 0; k < AHEAD; k += 2 * step) {
                if (first + k + step < p.parts) node[k] = joined(node[k], node[k + step]);
            }
        }
        waiting.push(node[0]);
    }
    room.nodes[threadIdx.x] = waiting.root({0.0, 0.0});
    __syncthreads();
    if (warp > 0) return {0.0, 0.0};
    auto whole = waiting_in(room.waiting + lane, 32);
#pragma unroll 1
    for (u32 i = 0; 32 * i < p.parts; ++i) whole.push(room.nodes[32 * i + lane]);
    return whole.root({0.0, 0.0});
}

// A block for a group, or for 32: what follows from its sums, which every part gets.
template <u32 WIDTH, bool ROWS>
__device__ __forceinline__ void join(const Normal &p, Room &room, Vector *lines) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Own<ROWS> own(p, blockIdx.x);
    Sums sums;
    if constexpr (ROWS) {
        sums = total_of_rows<WIDTH>(p, own, room);
    } else {
        sums = total_of_run<WIDTH>(p, own.group, room);
    }
    if (own.leads) {
        Constants constants = {0, 0, 0, 0};
        if (p.flags & GRADIENTS) {
            Share share;
            share.group.of[5] = own.number(p, 5);
            share.leads = true;
            if (p.flags & SAVES) {
                constants.mean = own_number<f32>(p, 8, share.group.of[5]);
                constants.inverse = own_number<f32>(p, 9, share.group.of[5]);
            } else {
                constants = bits_of<Constants>(taken<WIDTH>(p, own.group, 0));
            }
            const Slant<f32> slant = slant_of<f32>(p, share, sums, constants.inverse);
            constants.centre = slant.centre;
            constants.tilt = slant.tilt;
        } else {
            const Moments moments = moments_of(p, sums, first_of(p, own.group));
            constants.mean = f32(moments.mean);
            constants.inverse = inverse_of<f32>(p, moments.variance);
            keep_moments<f32>(p, own.number(p, 4), moments, constants.mean, constants.inverse);
        }
        lines[lane] = bits_of<Vector>(constants);
    }
    __syncthreads();
    if (!own.there) return;
    const Vector line = lines[ROWS ? lane : 0];
#pragma unroll 1
    for (u32 part = ROWS ? warp : threadIdx.x; part < p.parts; part += ROWS ? u32(WARPS) : u32(THREADS)) {
        left<WIDTH>(p, own.group, part * u32(p.part), line);
    }
}

// What every element of a thread's group is computed with.
struct Numbers {
    Constants of;
    f32 slope, offset, alpha;
    bool scales;
};

template <u32 SCALAR, bool BACK, u32 STRIDE, bool WHOLE>
__device__ __forceinline__ void map_next(const Normal &p, Cursor &cursor, u32 rest, const Numbers &line) {
    const Ahead<SCALAR, BACK, STRIDE, WHOLE> next(p, cursor, rest);
#pragma unroll
    for (u32 k = 0; k < AHEAD; ++k) {
        if (!next.there(k, rest)) return;
        const f32 distance = sum(value_f32(SCALAR, next.x[k]), -line.of.mean);
        f32 r;
        if (BACK) {
            const f32 g = value_f32(SCALAR, next.dy[k]);
            r = product(sum(sum(g, -line.of.centre), -product(distance, line.of.tilt)), line.slope);
        } else {
            r = sum(product(distance, line.slope), line.offset);
        }
        if (line.scales) r = product(r, line.alpha);
        store_f32(SCALAR, p.at[0] + next.offset[k], r);
    }
}

// Writes a block's part of the result.
template <u32 SCALAR, bool BACK, bool ROWS>
__device__ __forceinline__ void map(const Normal &p, Vector *lines) {
    constexpr u32 STRIDE = ROWS ? u32(WARPS) : u32(THREADS);
    const u32 part = blockIdx.x % p.parts, begin = part * u32(p.part), end = u32(end_of(p, part));
    const Own<ROWS> own(p, blockIdx.x / p.parts);
    if (threadIdx.x < 32 && own.there) lines[threadIdx.x] = taken<width_of(SCALAR)>(p, own.group, begin);
    // Not before they are read is anything written over them.
    __syncthreads();
    u32 position = begin + (ROWS ? threadIdx.x / 32 : threadIdx.x);
    if (!own.there || position >= end) return;
    const Constants of = bits_of<Constants>(lines[threadIdx.x % 32]);
    const i64 number = own.number(p, BACK ? 5 : 4);
    const f32 slope = product(own_number<f32>(p, BACK ? 6 : 8, number), of.inverse);
    const Numbers line = {of, slope, BACK ? 0.0f : own_number<f32>(p, 9, number), f32(p.alpha), (p.flags & DATA_SCALED) != 0};
    Cursor cursor = cursor_of(p, own.group, position, STRIDE);
#pragma unroll 1
    for (; position + (AHEAD - 1) * STRIDE < end; position += AHEAD * STRIDE) {
        map_next<SCALAR, BACK, STRIDE, true>(p, cursor, end - position, line);
    }
    if (position < end) map_next<SCALAR, BACK, STRIDE, false>(p, cursor, end - position, line);
}

// The second bound keeps the assembler from spilling for the sake of more blocks.
#define JOIN(NAME, WIDTH, ROWS)                                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) batch_norm_join_##NAME(const Normal p) {              \
        __shared__ Room room;                                                                                  \
        __shared__ Vector lines[32];                                                                           \
        join<WIDTH, ROWS>(p, room, lines);                                                                     \
    }
JOIN(runs_b32, 4, false)
JOIN(runs_b16, 2, false)
JOIN(rows_b32, 4, true)
JOIN(rows_b16, 2, true)
#undef JOIN

#define BATCH_NORM(NAME, SCALAR, BACK, ROWS)                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS) batch_norm_sums_##NAME(const Normal p) {              \
        __shared__ Room room;                                                                                  \
        sum_part<SCALAR, BACK, ROWS>(p, room);                                                                 \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) batch_norm_map_##NAME(const Normal p) {               \
        __shared__ Vector lines[32];                                                                           \
        map<SCALAR, BACK, ROWS>(p, lines);                                                                     \
    }
BATCH_NORM(runs_f32, F32, false, false)
BATCH_NORM(runs_f16, F16, false, false)
BATCH_NORM(runs_bf16, BF16, false, false)
BATCH_NORM(rows_f32, F32, false, true)
BATCH_NORM(rows_f16, F16, false, true)
BATCH_NORM(rows_bf16, BF16, false, true)
BATCH_NORM(back_runs_f32, F32, true, false)
BATCH_NORM(back_runs_f16, F16, true, false)
BATCH_NORM(back_runs_bf16, BF16, true, false)
BATCH_NORM(back_rows_f32, F32, true, true)
BATCH_NORM(back_rows_f16, F16, true, true)
BATCH_NORM(back_rows_bf16, BF16, true, true)
#undef BATCH_NORM
