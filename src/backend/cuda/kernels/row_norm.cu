// Normalised rows and their gradients where a row fits into the registers of a warp or a block: every element is read once and written
// once. The type is the kernel's; parameters of each element have that type, or are in binary32.
#include "held.cuh"
#include "linear.cuh"
#include "row_norm.cuh"

// Slots whose parameters are loaded before the first is computed.
enum : u32 { PARAMETERS = 4 };

// The rows of a thread, and its elements of them: a warp has ROWS of at most 32 * SLOTS elements, or, with shared room, every warp of a
// block the next 1,024 elements of one row.
template <u32 SCALAR, u32 SLOTS, u32 ROWS, typename Room>
struct Own {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    u64 first;
    u32 position, length;  // of the row, from the first element of the warp on

    __device__ __forceinline__ Own(const RowNormal &p) {
        const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const u32 begin = Room::is_shared ? warp * BLOCK : 0;
        first = Room::is_shared ? blockIdx.x : (u64(blockIdx.x) * (THREADS / 32) + warp) * ROWS;
        position = lane + begin;
        length = u32(p.length) - begin;
    }
    // Behind the last row the first one again.
    __device__ __forceinline__ u64 row(const RowNormal &p, u32 r) const { return first + r < p.rows ? first + r : first; }
    __device__ __forceinline__ bool has(u32 k) const { return threadIdx.x % 32 + 32 * k < length; }
    // Whether the thread writes what there is once of a row.
    __device__ __forceinline__ bool leads(const RowNormal &p, u32 r) const {
        return (Room::is_shared ? threadIdx.x : threadIdx.x % 32) == r && first + r < p.rows;
    }

    // Asks for the elements of one operand, of which -0 is behind the end.
    __device__ __forceinline__ void load(const char *const (&from)[ROWS], Bits (&bits)[SLOTS][ROWS]) const {
        constexpr Bits NONE = Bits(SCALAR == F32 ? 0x80000000 : 0x8000);
#pragma unroll
        for (u32 k = 0; k < SLOTS; ++k) {
            if (32 * k >= length) break;
#pragma unroll
            for (u32 r = 0; r < ROWS; ++r) bits[k][r] = NONE;
            if (!has(k)) continue;
#pragma unroll
            for (u32 r = 0; r < ROWS; ++r) bits[k][r] = at<Bits>(from[r] + 32 * k * sizeof(Bits));
        }
    }
    // Waits for them.
    __device__ __forceinline__ void take(Bits (&bits)[SLOTS][ROWS], f32 (&x)[SLOTS][ROWS]) const {
#pragma unroll
        for (u32 k = 0; k < SLOTS; ++k) {
            if (32 * k >= length) break;
#pragma unroll
            for (u32 r = 0; r < ROWS; ++r) hold(bits[k][r]);
#pragma unroll
            for (u32 r = 0; r < ROWS; ++r) x[k][r] = value_f32(SCALAR, bits[k][r]);
        }
    }
    __device__ __forceinline__ void store(const RowNormal &p, char *const (&to)[ROWS], u32 k, u32 r, f32 x) const {
        if (has(k) && first + r < p.rows) put<Bits>(to[r] + 32 * k * sizeof(Bits), Bits(stored_bits(SCALAR, x)));
    }

    // The sum of TERM of all elements, in every thread. SPARE: of the room.
    template <typename Term>
    __device__ __forceinline__ void total(f32 (&node)[ROWS], f32 *spare, const Term &term) const {
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) node[r] = -0.0f;
#pragma unroll
        for (u32 k = 0; k < SLOTS; ++k) {
            if (32 * k >= length) break;
            const bool there = has(k);
#pragma unroll
            for (u32 r = 0; r < ROWS; ++r) node[r] = sum(node[r], there ? term(k, r) : -0.0f);
        }
        join_lanes(node, Sum());
        if constexpr (Room::is_shared) node[0] = join_warps(spare, node[0], blockDim.x / 32, Sum());
    }
};

// A parameter of each element of rows, or of none.
template <u32 SCALAR, u32 ROWS>
struct Each {
    const char *from[ROWS];
    bool there, is_wide;

    __device__ __forceinline__ Each(bool there, u32 scalar) : there(there), is_wide(SCALAR == F32 || scalar == F32) {}
    // Row R has the first one there.
    __device__ __forceinline__ void begin(u32 r, const char *first, u32 position) {
        from[r] = first + position * (is_wide ? 4 : 2);
    }

    // The bits of those 32 * (START + k) behind the first one of a thread, which OWN tells it has.
    template <typename Own>
    __device__ __forceinline__ void load(u32 start, const Own &own, u32 (&bits)[PARAMETERS][ROWS]) const {
#pragma unroll
        for (u32 k = 0; k < PARAMETERS; ++k) {
#pragma unroll
            for (u32 r = 0; r < ROWS; ++r) {
                bits[k][r] = 0;
                if (!there || !own.has(start + k)) continue;
                if (is_wide) {
                    bits[k][r] = at<u32>(from[r] + 32 * (start + k) * 4);
                } else {
                    bits[k][r] = at<u16>(from[r] + 32 * (start + k) * 2);
                }
            }
        }
#pragma unroll
        for (u32 k = 0; k < PARAMETERS; ++k) {
#pragma unroll
            for (u32 r = 0; r < ROWS; ++r) hold(bits[k][r]);
        }
    }
    __device__ __forceinline__ f32 number(u32 bits, f32 none) const {
        const f32 own = is_wide ? bits_of<f32>(bits) : value_f32(SCALAR, bits);
        return there ? own : none;
    }
};

template <u32 SCALAR, u32 SLOTS, u32 ROWS, typename Room>
__device__ __forceinline__ void norm_rows(const RowNormal &p, Room &room) {
    using namespace forwards;
    typedef Own<SCALAR, SLOTS, ROWS, Room> Own;
    const Own own(p);
    if (own.first >= p.rows) return;
    f32 *spare[2] = {nullptr, nullptr};
    if constexpr (Room::is_shared) {
        spare[0] = room.first;
        spare[1] = room.second;
    }
    f32 x[SLOTS][ROWS], mean[ROWS], squares[ROWS];
    {
        typename Own::Bits bits[SLOTS][ROWS];
        const char *from[ROWS];
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            from[r] = p.at[X] + row_places(p, own.row(p, r)).of[X] + own.position * u32(sizeof(typename Own::Bits));
        }
        own.load(from, bits);
        own.take(bits, x);
    }
#pragma unroll
    for (u32 r = 0; r < ROWS; ++r) mean[r] = 0.0f;
    if (p.flags & SUBTRACTS) {
        own.total(mean, spare[0], [&](u32 k, u32 r) { return x[k][r]; });
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) mean[r] = mean_of(p, mean[r]);
    }
    own.total(squares, spare[1], [&](u32 k, u32 r) {
        const f32 rest = sum(x[k][r], -mean[r]);
        return product(rest, rest);
    });
    const f32 epsilon = Real<f32>::load(p.scalars[EPSILON], p.at[EPSILON]);
    Each<SCALAR, ROWS> scale(p.flags & SCALES_EACH, p.scalars[SCALE]), bias(p.flags & BIASES_EACH, p.scalars[BIAS]);
    OfRow<f32> of[ROWS];
    char *to[ROWS];
#pragma unroll
    for (u32 r = 0; r < ROWS; ++r) {
        const Places row = row_places(p, own.row(p, r));
        of[r] = of_row(p, row, mean[r], inverse_of(p, squares[r], epsilon), own.leads(p, r));
        scale.begin(r, p.at[SCALE] + row.of[SCALE], own.position);
        bias.begin(r, p.at[BIAS] + row.of[BIAS], own.position);
        to[r] = p.at[Y] + row.of[Y] + own.position * u32(sizeof(typename Own::Bits));
    }
#pragma unroll
    for (u32 start = 0; start < SLOTS; start += PARAMETERS) {
        if (32 * start >= own.length) break;
        u32 scales[PARAMETERS][ROWS], biases[PARAMETERS][ROWS];
        scale.load(start, own, scales);
        bias.load(start, own, biases);
#pragma unroll
        for (u32 k = 0; k < PARAMETERS; ++k) {
#pragma unroll
            for (u32 r = 0; r < ROWS; ++r) {
                const f32 a = scale.number(scales[k][r], 1.0f), b = bias.number(biases[k][r], of[r].bias);
                own.store(p, to, start + k, r, normalised(of[r], x[start + k][r], a, b));
            }
        }
    }
}

template <u32 SCALAR, u32 SLOTS, u32 ROWS, typename Room>
__device__ __forceinline__ void norm_rows_back(const RowNormal &p, Room &room) {
    using namespace backwards;
    typedef Own<SCALAR, SLOTS, ROWS, Room> Own;
    const Own own(p);
    if (own.first >= p.rows) return;
    f32 *spare[2] = {nullptr, nullptr};
    if constexpr (Room::is_shared) {
        spare[0] = room.first;
        spare[1] = room.second;
    }
    // Normal elements, and gradients of what is scaled.
    f32 h[SLOTS][ROWS], g[SLOTS][ROWS];
    Each<SCALAR, ROWS> scale(p.flags & SCALES, p.scalars[SCALE]);
    {
        typename Own::Bits x[SLOTS][ROWS], dy[SLOTS][ROWS];
        const char *from_x[ROWS], *from_dy[ROWS];
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) {
            const Places row = row_places(p, own.row(p, r));
            const u32 begin = own.position * u32(sizeof(typename Own::Bits));
            from_x[r] = p.at[X] + row.of[X_PLACE] + begin;
            from_dy[r] = p.at[DY] + row.of[DY_PLACE] + begin;
            scale.begin(r, p.at[SCALE] + row.of[SCALE_PLACE], own.position);
        }
        own.load(from_x, x);
        own.load(from_dy, dy);
        own.take(x, h);
        own.take(dy, g);
    }
    if (scale.there) {
#pragma unroll
        for (u32 start = 0; start < SLOTS; start += PARAMETERS) {
            if (32 * start >= own.length) break;
            u32 scales[PARAMETERS][ROWS];
            scale.load(start, own, scales);
#pragma unroll
            for (u32 k = 0; k < PARAMETERS; ++k) {
#pragma unroll
                for (u32 r = 0; r < ROWS; ++r) g[start + k][r] = product(g[start + k][r], scale.number(scales[k][r], 1.0f));
            }
        }
    }
#pragma unroll
    for (u32 r = 0; r < ROWS; ++r) {
        const OfGradients<f32> of(p, row_places(p, own.row(p, r)));
#pragma unroll
        for (u32 k = 0; k < SLOTS; ++k) {
            if (32 * k >= own.length) break;
            h[k][r] = of.normal(h[k][r]);
        }
    }
    f32 share[ROWS], other[ROWS];
    own.total(share, spare[0], [&](u32 k, u32 r) { return product(g[k][r], h[k][r]); });
#pragma unroll
    for (u32 r = 0; r < ROWS; ++r) {
        share[r] = mean_of(p, share[r]);
        other[r] = 0.0f;
    }
    if (p.flags & SUBTRACTS) {
        own.total(other, spare[1], [&](u32 k, u32 r) { return g[k][r]; });
#pragma unroll
        for (u32 r = 0; r < ROWS; ++r) other[r] = mean_of(p, other[r]);
    }
    char *to[ROWS];
#pragma unroll
    for (u32 r = 0; r < ROWS; ++r) {
        const Places row = row_places(p, own.row(p, r));
        const OfGradients<f32> of(p, row);
        to[r] = p.at[DX] + row.of[DX_PLACE] + own.position * u32(sizeof(typename Own::Bits));
#pragma unroll
        for (u32 k = 0; k < SLOTS; ++k) {
            if (32 * k >= own.length) break;
            own.store(p, to, k, r, of.gradient(h[k][r], g[k][r], share[r], other[r]));
        }
    }
}

// Slots of short rows and how many of these a warp has, slots of long ones, and threads of a block for a row. row_norm.rs has the same.
enum : u32 { SHORT = 4, TOGETHER = 4, LONG = 32, HELD_THREADS = 512 };

// The second bound keeps the assembler from spilling for the sake of more blocks.
#define ROW_NORM_OF(name, function, type, scalar)                                                             \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) name##_short_##type(const RowNormal p) {            \
        Alone alone;                                                                                          \
        function<scalar, SHORT, TOGETHER>(p, alone);                                                          \
    }                                                                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) name##_long_##type(const RowNormal p) {             \
        Alone alone;                                                                                          \
        function<scalar, LONG, 1>(p, alone);                                                                  \
    }                                                                                                         \
    extern "C" __global__ void __launch_bounds__(HELD_THREADS) name##_block_##type(const RowNormal p) {       \
        __shared__ RowRoom room;                                                                              \
        function<scalar, LONG, 1>(p, room);                                                                   \
    }

#define ROW_NORM_KERNELS(type, scalar)                         \
    ROW_NORM_OF(row_norm, norm_rows, type, scalar)             \
    ROW_NORM_OF(row_norm_back, norm_rows_back, type, scalar)

ROW_NORM_KERNELS(f32, F32)
ROW_NORM_KERNELS(f16, F16)
ROW_NORM_KERNELS(bf16, BF16)
