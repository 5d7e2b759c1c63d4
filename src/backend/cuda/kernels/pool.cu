// Poolings with windows of two by two and three by three cells, and the gradient of maxima: window.cuh's results, to the same bits.
// Extents and strides of a window, and the type, are the kernel's. A thread goes down a column of windows: the cells that two
// windows share are loaded once, and the first largest cell of a window is found once. Neighbouring threads have neighbouring columns, or
// channels where those lie side by side. Everything lies within reach of 32 bits; all other windows are window.cuh's.
#include "held.cuh"
#include "larger.cuh"
#include "linear.cuh"

struct Pool {
    char *at[3];       // the destination, x, dy
    i32 inputs[2];     // along the axes
    i32 outputs[2];
    i32 pad[2];
    i32 step[3][2];    // bytes from coordinate to coordinate: of the destination, of x, of dy
    i32 outer[3][2];   // of the loops around, the faster one last
    u32 count;         // threads
    u32 columns_first; // whether columns run faster than the loops around
    u32 rows;          // windows of a thread, one below the other
    u32 height;        // windows of a column
    u32 propagates;    // of a maximum: NaNs win
    u32 padded;        // of an average: padding counts
    Divisor extent[3]; // of what runs fastest, next, and then; the outer loop is what is left
};

static_assert(sizeof(Pool) == 24 + 24 + 24 + 24 + 24 + 72, "pool.rs has another Pool");

// Threads of a block.
enum { POOL_THREADS = 128 };

// What a thread works on: its column, its first window, and bytes to where the loops around are.
struct Column {
    i32 column, first;
    i32 outer[3];
};

__device__ __forceinline__ Column column_of(const Pool &p, u32 index) {
    u32 place[3], rest = index;
#pragma unroll
    for (u32 k = 0; k < 3; ++k) {
        const u32 next = quotient(rest, p.extent[k]);
        place[k] = rest - next * u32(p.extent[k].divisor);
        rest = next;
    }
    Column c;
    const u32 near = p.columns_first ? place[2] : place[0];
    c.column = i32(p.columns_first ? place[0] : place[1]);
    c.first = i32((p.columns_first ? place[1] : place[2]) * p.rows);
#pragma unroll
    for (u32 k = 0; k < 3; ++k) c.outer[k] = i32(rest) * p.outer[k][0] + i32(near) * p.outer[k][1];
    return c;
}

__device__ __forceinline__ bool inside(i32 i, i32 extent) { return u32(i) < u32(extent); }

// A row of cells around a column: where the next one lies, and which cells of it there are. W neighbouring channels are one cell.
template <u32 SCALAR, u32 CELLS, u32 W = 1>
struct Cells {
    typedef typename Unit<width_of(SCALAR) * W>::Type Bits;
    const char *next[CELLS];
    bool there[CELLS];
    i32 row, rows, step;

    __device__ __forceinline__ Cells(const char *base, i32 row, i32 column, const i32 (&extent)[2], const i32 (&step)[2])
        : row(row), rows(extent[0]), step(step[0]) {
#pragma unroll
        for (u32 i = 0; i < CELLS; ++i) {
            there[i] = inside(column + i32(i), extent[1]);
            next[i] = base + (row * step[0] + (column + i32(i)) * step[1]);
        }
    }
    // The next N rows; NOTHING where there is no cell.
    template <u32 N>
    __device__ __forceinline__ void load(Bits nothing, Bits (&bits)[N][CELLS], bool (&is_cell)[N][CELLS]) {
#pragma unroll
        for (u32 k = 0; k < N; ++k) {
            const bool is_row = inside(row, rows);
#pragma unroll
            for (u32 i = 0; i < CELLS; ++i) {
                is_cell[k][i] = is_row && there[i];
                bits[k][i] = nothing;
                if (is_cell[k][i]) bits[k][i] = at<Bits>(next[i]);
                next[i] += step;
            }
            ++row;
        }
#pragma unroll
        for (u32 k = 0; k < N; ++k) {
#pragma unroll
            for (u32 i = 0; i < CELLS; ++i) hold(bits[k][i]);
        }
    }
    // The numbers of the next N rows, zero where there is no cell.
    template <u32 N>
    __device__ __forceinline__ void load(f32 (&x)[N][CELLS], bool (&is_cell)[N][CELLS]) {
        Bits bits[N][CELLS];
        load(0, bits, is_cell);
#pragma unroll
        for (u32 k = 0; k < N; ++k) {
#pragma unroll
            for (u32 i = 0; i < CELLS; ++i) x[k][i] = value_f32(SCALAR, bits[k][i]);
        }
    }
};

// Whether there is such a column, and the windows that the thread has of it.
#define OWN_WINDOWS                                                                \
    const u32 index = blockIdx.x * POOL_THREADS + threadIdx.x;                     \
    if (index >= p.count) return;                                                  \
    const Column own = column_of(p, index);                                        \
    const i32 last = own.first + i32(p.rows) < i32(p.height) ? own.first + i32(p.rows) : i32(p.height)

// Maxima and averages ----------------------------------------------------------------------------------------------------

// The largest number of some cells, and whether one of them is none.
struct Largest {
    f32 number;
    bool has_nan;
};

// Windows whose cells a thread loads together, for W channels side by side.
enum : u32 { TOGETHER = 2 };

template <u32 K, u32 S, u32 SCALAR, u32 W = 1>
__device__ __forceinline__ void pool_max(const Pool &p) {
    typedef typename Unit<width_of(SCALAR) * W>::Type Bits;
    constexpr u32 BITS = 8 * width_of(SCALAR);
    OWN_WINDOWS;
    // A NaN yields to every number, and where NaNs win is what all others yield to.
    const u32 nothing_of_one = stored_bits(SCALAR, p.propagates ? -Math<f32>::infinity() : Math<f32>::nan());
    const Bits nothing = Bits(W == 2 ? nothing_of_one * 0x10001u : nothing_of_one);
    Cells<SCALAR, K, W> cells(p.at[1] + own.outer[1], own.first * i32(S) - p.pad[0], own.column * i32(S) - p.pad[1], p.inputs, p.step[1]);
    char *to = p.at[0] + (own.outer[0] + own.first * p.step[0][0] + own.column * p.step[0][1]);
    Largest rows[K][W];
    const auto put_row = [&](u32 k, const Bits (&bits)[K]) {
#pragma unroll
        for (u32 w = 0; w < W; ++w) {
#pragma unroll
            for (u32 i = 0; i < K; ++i) {
                const f32 x = value_f32(SCALAR, typename Unit<width_of(SCALAR)>::Type(bits[i] >> w * BITS));
                if (i == 0) {
                    rows[k][w] = {x, x != x};
                } else {
                    rows[k][w] = {larger(rows[k][w].number, x), rows[k][w].has_nan || x != x};
                }
            }
        }
    };
    if constexpr (K > S) {
        Bits bits[K - S][K];
        bool is_cell[K - S][K];
        cells.load(nothing, bits, is_cell);
#pragma unroll
        for (u32 k = S; k < K; ++k) put_row(k, bits[k - S]);
    }
#pragma unroll 1
    for (i32 window = own.first; window < last; window += i32(TOGETHER)) {
        Bits bits[TOGETHER * S][K];
        bool is_cell[TOGETHER * S][K];
        cells.load(nothing, bits, is_cell);
#pragma unroll
        for (u32 one = 0; one < TOGETHER; ++one) {
            if (window + i32(one) >= last) break;
#pragma unroll
            for (u32 k = 0; k + S < K; ++k) {
#pragma unroll
                for (u32 w = 0; w < W; ++w) rows[k][w] = rows[k + S][w];
            }
#pragma unroll
            for (u32 k = K - S; k < K; ++k) {
                const u32 row = one * S + k - (K - S);
                put_row(k, bits[row]);
            }
            Bits stored = 0;
#pragma unroll
            for (u32 w = 0; w < W; ++w) {
                Largest all = rows[0][w];
#pragma unroll
                for (u32 k = 1; k < K; ++k) all = {larger(all.number, rows[k][w].number), all.has_nan || rows[k][w].has_nan};
                const f32 r = p.propagates && all.has_nan ? Math<f32>::nan() : all.number;
                stored |= Bits(stored_bits(SCALAR, r)) << w * BITS;
            }
            put<Bits>(to, stored);
            to += p.step[0][0];
        }
    }
}

// Cells of a window along an axis, those of the padding too if they count.
template <u32 K, u32 S>
__device__ __forceinline__ i32 cells_along(const Pool &p, u32 axis, i32 output) {
    const i32 begin = output * i32(S) - p.pad[axis], end = begin + i32(K);
    const i32 bound = p.inputs[axis] + (p.padded ? p.pad[axis] : 0);
    return (end < bound ? end : bound) - (begin < 0 && !p.padded ? 0 : begin);
}

template <u32 K, u32 S, u32 SCALAR>
__device__ __forceinline__ void pool_average(const Pool &p) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    OWN_WINDOWS;
    Cells<SCALAR, K> cells(p.at[1] + own.outer[1], own.first * i32(S) - p.pad[0], own.column * i32(S) - p.pad[1], p.inputs, p.step[1]);
    char *to = p.at[0] + (own.outer[0] + own.first * p.step[0][0] + own.column * p.step[0][1]);
    const i32 width = cells_along<K, S>(p, 1, own.column);
    f32 rows[K][K];
    const auto put_row = [&](u32 k, const f32 (&x)[K]) {
#pragma unroll
        for (u32 i = 0; i < K; ++i) rows[k][i] = x[i];
    };
    if constexpr (K > S) {
        f32 x[K - S][K];
        bool is_cell[K - S][K];
        cells.load(x, is_cell);
#pragma unroll
        for (u32 k = S; k < K; ++k) put_row(k, x[k - S]);
    }
#pragma unroll 1
    for (i32 window = own.first; window < last; ++window) {
#pragma unroll
        for (u32 k = 0; k + S < K; ++k) {
#pragma unroll
            for (u32 i = 0; i < K; ++i) rows[k][i] = rows[k + S][i];
        }
        f32 x[S][K];
        bool is_cell[S][K];
        cells.load(x, is_cell);
#pragma unroll
        for (u32 k = K - S; k < K; ++k) put_row(k, x[k - (K - S)]);
        // Along the last axis, of sums over the other one; no sum is -0, so that a zero changes none.
        f32 total = 0;
#pragma unroll
        for (u32 i = 0; i < K; ++i) {
            f32 part = 0;
#pragma unroll
            for (u32 k = 0; k < K; ++k) part = sum(part, rows[k][i]);
            total = sum(total, part);
        }
        const f32 r = ratio(total, f32(width * cells_along<K, S>(p, 0, window)));
        put<Bits>(to, Bits(stored_bits(SCALAR, r)));
        to += p.step[0][0];
    }
}

// The gradient of maxima ---------------------------------------------------------------------------------------------------

// The place of a number among all, as an integer: zeros are equal, and no cell comes before all others.
enum : i32 { NO_CELL = i32(0x80000000u), BEFORE_ALL = NO_CELL + 1, BEHIND_ALL = 0x7fffffff };

__device__ __forceinline__ i32 rank_of(f32 x, i32 of_nan) {
    const i32 bits = bits_of<i32>(sum(x, 0.0f)), rank = bits ^ (bits >> 31 & 0x7fffffff);
    return x != x ? of_nan : rank;
}

// The first largest of some cells.
struct First {
    i32 rank;
    u32 number;
};

// A thread has the cells that lie in the windows of its column and row, S by S of them, and in none of a later one. What reaches
// them are the windows of its own row and column and the REACH ones before each.
template <u32 K, u32 S, u32 SCALAR>
__device__ __forceinline__ void pool_max_gradient(const Pool &p) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    constexpr u32 REACH = (K - 1) / S, WIDTH = REACH + 1, CELLS = S * REACH + K, NOBODY = K * K;
    OWN_WINDOWS;
    const i32 of_nan = p.propagates ? BEHIND_ALL : BEFORE_ALL;
    const i32 row = own.first - i32(REACH), column = own.column - i32(REACH);
    Cells<SCALAR, CELLS> cells(p.at[1] + own.outer[1], row * i32(S) - p.pad[0], column * i32(S) - p.pad[1], p.inputs, p.step[1]);
    const char *from = p.at[2] + (own.outer[2] + row * p.step[2][0] + column * p.step[2][1]);
    i32 to_row = own.first * i32(S) - p.pad[0];
    const i32 to_column = own.column * i32(S) - p.pad[1];
    char *to = p.at[0] + (own.outer[0] + to_row * p.step[0][0] + to_column * p.step[0][1]);
    // Of every row of cells the first largest one in each window; of the last rows of windows the winners, and what they get.
    First rows[K][WIDTH];
    u32 winner[WIDTH][WIDTH];
    f32 given[WIDTH][WIDTH];
    const auto put_row = [&](u32 k, const f32 (&x)[CELLS], const bool (&is_cell)[CELLS]) {
        i32 rank[CELLS];
#pragma unroll
        for (u32 i = 0; i < CELLS; ++i) rank[i] = is_cell[i] ? rank_of(x[i], of_nan) : i32(NO_CELL);
#pragma unroll
        for (u32 w = 0; w < WIDTH; ++w) {
            First first = {rank[S * w], 0};
#pragma unroll
            for (u32 i = 1; i < K; ++i) {
                if (rank[S * w + i] > first.rank) first = {rank[S * w + i], i};
            }
            rows[k][w] = first;
        }
    };
    if constexpr (K > S) {
        f32 x[K - S][CELLS];
        bool is_cell[K - S][CELLS];
        cells.load(x, is_cell);
#pragma unroll
        for (u32 k = S; k < K; ++k) put_row(k, x[k - S], is_cell[k - S]);
    }
#pragma unroll
    for (u32 a = 0; a < WIDTH; ++a) {
#pragma unroll
        for (u32 w = 0; w < WIDTH; ++w) {
            winner[a][w] = NOBODY;
            given[a][w] = 0;
        }
    }
#pragma unroll 1
    for (i32 window = row; window < last; ++window) {
#pragma unroll
        for (u32 k = 0; k + S < K; ++k) {
#pragma unroll
            for (u32 w = 0; w < WIDTH; ++w) rows[k][w] = rows[k + S][w];
        }
        bool is_window[WIDTH];
        Bits of_window[WIDTH];
#pragma unroll
        for (u32 w = 0; w < WIDTH; ++w) {
            is_window[w] = inside(window, p.outputs[0]) && inside(column + i32(w), p.outputs[1]);
            of_window[w] = 0;
            if (is_window[w]) of_window[w] = at<Bits>(from + i32(w) * p.step[2][1]);
        }
        f32 x[S][CELLS];
        bool is_cell[S][CELLS];
        cells.load(x, is_cell);
#pragma unroll
        for (u32 k = K - S; k < K; ++k) put_row(k, x[k - (K - S)], is_cell[k - (K - S)]);
#pragma unroll
        for (u32 w = 0; w < WIDTH; ++w) {
#pragma unroll
            for (u32 a = 0; a + 1 < WIDTH; ++a) {
                winner[a][w] = winner[a + 1][w];
                given[a][w] = given[a + 1][w];
            }
            First first = rows[0][w];
#pragma unroll
            for (u32 k = 1; k < K; ++k) {
                if (rows[k][w].rank > first.rank) first = {rows[k][w].rank, rows[k][w].number + k * K};
            }
            winner[REACH][w] = is_window[w] ? first.number : u32(NOBODY);
            hold(of_window[w]);
            given[REACH][w] = value_f32(SCALAR, of_window[w]);
        }
        from += p.step[2][0];
        // Windows of other threads, which share cells with the first ones of this one.
        if (window < own.first) continue;
#pragma unroll
        for (u32 j = 0; j < S; ++j) {
            const bool is_row = inside(to_row, p.inputs[0]);
#pragma unroll
            for (u32 i = 0; i < S; ++i) {
                f32 total = 0;
#pragma unroll
                for (u32 a = 0; a < WIDTH; ++a) {
#pragma unroll
                    for (u32 w = 0; w < WIDTH; ++w) {
                        const u32 down = S * (REACH - a) + j, right = S * (REACH - w) + i;
                        if (down >= K || right >= K) continue;
                        total = winner[a][w] == down * K + right ? sum(total, given[a][w]) : total;
                    }
                }
                if (is_row && inside(to_column + i32(i), p.inputs[1])) {
                    put<Bits>(to + i32(i) * p.step[0][1], Bits(stored_bits(SCALAR, total)));
                }
            }
            ++to_row;
            to += p.step[0][0];
        }
    }
}

// The gradient of averages ------------------------------------------------------------------------------------------------

// Rows of windows whose gradients a thread loads before it looks at the first.
enum : i32 { GIVEN = 4 };

// Threads have cells as those of the gradient of maxima do. A window gives each of its cells the same share.
template <u32 K, u32 S, u32 SCALAR>
__device__ __forceinline__ void pool_average_gradient(const Pool &p) {
    typedef typename Unit<width_of(SCALAR)>::Type Bits;
    constexpr u32 REACH = (K - 1) / S, WIDTH = REACH + 1;
    OWN_WINDOWS;
    const i32 row = own.first - i32(REACH), column = own.column - i32(REACH);
    const char *from = p.at[2] + (own.outer[2] + row * p.step[2][0] + column * p.step[2][1]);
    i32 to_row = own.first * i32(S) - p.pad[0];
    const i32 to_column = own.column * i32(S) - p.pad[1];
    char *to = p.at[0] + (own.outer[0] + to_row * p.step[0][0] + to_column * p.step[0][1]);
    // Cells of each window along a row, 0 where there is no window; and the shares of the last rows of windows.
    i32 width[WIDTH];
    f32 share[WIDTH][WIDTH];
#pragma unroll
    for (u32 w = 0; w < WIDTH; ++w) {
        width[w] = inside(column + i32(w), p.outputs[1]) ? cells_along<K, S>(p, 1, column + i32(w)) : 0;
#pragma unroll
        for (u32 a = 0; a < WIDTH; ++a) share[a][w] = 0;
    }
#pragma unroll 1
    for (i32 start = row; start < last; start += GIVEN) {
        Bits bits[GIVEN][WIDTH];
#pragma unroll
        for (i32 k = 0; k < GIVEN; ++k) {
            const bool is_row = start + k < last && inside(start + k, p.outputs[0]);
#pragma unroll
            for (u32 w = 0; w < WIDTH; ++w) {
                bits[k][w] = 0;
                if (is_row && width[w] != 0) bits[k][w] = at<Bits>(from + i32(w) * p.step[2][1]);
            }
            from += p.step[2][0];
        }
#pragma unroll
        for (i32 k = 0; k < GIVEN; ++k) {
#pragma unroll
            for (u32 w = 0; w < WIDTH; ++w) hold(bits[k][w]);
        }
#pragma unroll
        for (i32 k = 0; k < GIVEN; ++k) {
            const i32 window = start + k;
            if (window >= last) break;
            const i32 height = inside(window, p.outputs[0]) ? cells_along<K, S>(p, 0, window) : 0;
#pragma unroll
            for (u32 w = 0; w < WIDTH; ++w) {
#pragma unroll
                for (u32 a = 0; a + 1 < WIDTH; ++a) share[a][w] = share[a + 1][w];
                const i32 cells = height * width[w];
                share[REACH][w] = cells == 0 ? 0.0f : ratio(value_f32(SCALAR, bits[k][w]), f32(cells));
            }
            // Windows of other threads, which share cells with the first ones of this one.
            if (window < own.first) continue;
#pragma unroll
            for (u32 j = 0; j < S; ++j) {
                const bool is_row = inside(to_row, p.inputs[0]);
#pragma unroll
                for (u32 i = 0; i < S; ++i) {
                    // Along the last axis, of sums over the other one; no sum is -0, so that a zero changes none.
                    f32 total = 0;
#pragma unroll
                    for (u32 w = 0; w < WIDTH; ++w) {
                        if (S * (REACH - w) + i >= K) continue;
                        f32 part = 0;
#pragma unroll
                        for (u32 a = 0; a < WIDTH; ++a) {
                            if (S * (REACH - a) + j < K) part = sum(part, share[a][w]);
                        }
                        total = sum(total, part);
                    }
                    if (is_row && inside(to_column + i32(i), p.inputs[1])) {
                        put<Bits>(to + i32(i) * p.step[0][1], Bits(stored_bits(SCALAR, total)));
                    }
                }
                ++to_row;
                to += p.step[0][0];
            }
        }
    }
}

// The second bound keeps the assembler from spilling for the sake of more blocks.
#define POOL_OF(function, size, step, type, scalar)                                                             \
    extern "C" __global__ void __launch_bounds__(POOL_THREADS, 1) pool_##function##_k##size##s##step##_##type( \
        const Pool p) {                                                                                         \
        pool_##function<size, step, scalar>(p);                                                                 \
    }
#define POOL_SHAPES(function, type, scalar) \
    POOL_OF(function, 2, 1, type, scalar)   \
    POOL_OF(function, 2, 2, type, scalar)   \
    POOL_OF(function, 3, 1, type, scalar)   \
    POOL_OF(function, 3, 2, type, scalar)
#define POOL_KERNELS(function)        \
    POOL_SHAPES(function, f32, F32)   \
    POOL_SHAPES(function, f16, F16)   \
    POOL_SHAPES(function, bf16, BF16)

// Of two channels that lie side by side.
#define POOL_MAX_PAIRS_OF(size, step, type, scalar)                                                                                \
    extern "C" __global__ void __launch_bounds__(POOL_THREADS, 1) pool_max_pairs_k##size##s##step##_##type(const Pool p) { \
        pool_max<size, step, scalar, 2>(p);                                                                                        \
    }
#define POOL_MAX_PAIRS(type, scalar)      \
    POOL_MAX_PAIRS_OF(2, 1, type, scalar) \
    POOL_MAX_PAIRS_OF(2, 2, type, scalar) \
    POOL_MAX_PAIRS_OF(3, 1, type, scalar) \
    POOL_MAX_PAIRS_OF(3, 2, type, scalar)

POOL_KERNELS(max)
POOL_MAX_PAIRS(f16, F16)
POOL_MAX_PAIRS(bf16, BF16)
POOL_KERNELS(average)
POOL_KERNELS(max_gradient)
POOL_KERNELS(average_gradient)
