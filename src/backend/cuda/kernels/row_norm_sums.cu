// The gradients of the parameters of normalised rows: sums over all rows, of each place in a row. A block has some columns, and sums up
// 64 rows in each thread: `Tree::ROWS` of `ops/tree.rs`, to the same bits.
#include "counter.cuh"
#include "held.cuh"
#include "linear.cuh"
#include "row_norm.cuh"

// Rows of a block of the tree, and of these how many a thread loads before it looks at the first; the most threads of a block.
enum : u32 { ROWS = 64, AHEAD = 8, SUM_THREADS = 512 };

// A place's sums of `dy * h` and of dy.
template <typename T>
struct Both {
    T scale, bias;
};
struct Join {
    template <typename T>
    __device__ __forceinline__ Both<T> operator()(const Both<T> &a, const Both<T> &b) const {
        return {sum(a.scale, b.scale), sum(a.bias, b.bias)};
    }
};

template <typename T>
struct SumRoom {
    Both<T> nodes[SUM_THREADS], waiting[SUM_THREADS];
};

// Adds up to AHEAD rows from ROW on, of those before END. The types are binary32 and SCALAR.
template <u32 SCALAR>
struct RowsOf {
    typedef f32 Number;

    static __device__ __forceinline__ void add(const RowNormal &p, u64 place, u64 row, u64 end, Both<f32> &both) {
        using namespace backwards;
        typedef typename Unit<width_of(SCALAR)>::Type Bits;
        const i64 *step = p.loops[0].step;
        Bits x[AHEAD], dy[AHEAD];
        u32 mean[AHEAD], inverse[AHEAD];
        const i64 begin = i64(place * sizeof(Bits));
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            // Behind the last row the first one again.
            const i64 own = i64(row + k < end ? row + k : row);
            x[k] = at<Bits>(p.at[X] + (own * step[X_PLACE] + begin));
            dy[k] = at<Bits>(p.at[DY] + (own * step[DY_PLACE] + begin));
            inverse[k] = at<u32>(p.at[INVERSES] + own * step[INVERSE_PLACE]);
            mean[k] = 0;
            if (p.flags & SUBTRACTS) mean[k] = at<u32>(p.at[MEANS] + own * step[MEAN_PLACE]);
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            hold(x[k]);
            hold(dy[k]);
            hold(mean[k]);
            hold(inverse[k]);
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            const f32 h = product(sum(value_f32(SCALAR, x[k]), -bits_of<f32>(mean[k])), bits_of<f32>(inverse[k]));
            const f32 gradient = value_f32(SCALAR, dy[k]);
            if (row + k < end) both = Join()(both, Both<f32>{product(gradient, h), gradient});
        }
    }
};

// The same of any types, of which four are loaded together.
template <typename T>
struct RowsOfAny {
    typedef T Number;

    static __device__ __forceinline__ void add(const RowNormal &p, u64 place, u64 row, u64 end, Both<T> &both) {
        using namespace backwards;
#pragma unroll 1
        for (u32 start = 0; start < AHEAD; start += 4) {
            const char *from[4][4];
            u32 wanted = 0;
#pragma unroll
            for (u32 k = 0; k < 4; ++k) {
                const bool there = row + start + k < end;
                const Places at = row_places(p, there ? row + start + k : row);
                from[0][k] = p.at[X] + at.of[X_PLACE] + place * size_of(p.scalars[X]);
                from[1][k] = p.at[DY] + at.of[DY_PLACE] + place * size_of(p.scalars[DY]);
                from[2][k] = p.at[MEANS] + at.of[MEAN_PLACE];
                from[3][k] = p.at[INVERSES] + at.of[INVERSE_PLACE];
                wanted |= u32(there) << k;
            }
            u64 x[4], dy[4], mean[4], inverse[4];
            fetch(p.scalars[X], from[0], x, wanted);
            fetch(p.scalars[DY], from[1], dy, wanted);
            fetch(p.scalars[MEANS], from[2], mean, p.flags & SUBTRACTS ? wanted : 0);
            fetch(p.scalars[INVERSES], from[3], inverse, wanted);
#pragma unroll
            for (u32 k = 0; k < 4; ++k) {
                const T middle = p.flags & SUBTRACTS ? Real<T>::any(p.scalars[MEANS], mean[k]) : T(0);
                const T h = product(sum(Real<T>::any(p.scalars[X], x[k]), -middle), Real<T>::any(p.scalars[INVERSES], inverse[k]));
                const T gradient = Real<T>::any(p.scalars[DY], dy[k]);
                if (wanted >> k & 1) both = Join()(both, Both<T>{product(gradient, h), gradient});
            }
        }
    }
};

template <typename Rows>
__device__ __forceinline__ void norm_sums(const RowNormal &p, SumRoom<typename Rows::Number> &room) {
    using namespace backwards;
    typedef typename Rows::Number T;
    const u32 own = threadIdx.x, column = own % p.columns, number = own / p.columns, together = blockDim.x / p.columns;
    const u64 place = u64(blockIdx.x) * p.columns + column, blocks = (p.rows + ROWS - 1) / ROWS;
    auto digits = counter(room.waiting + column, p.columns, Join());
#pragma unroll 1
    for (u64 base = 0; base < blocks; base += together) {
        Both<T> node = {-T(0), -T(0)};
        if (place < p.length && base + number < blocks) {
            const u64 first = (base + number) * ROWS, end = first + ROWS < p.rows ? first + ROWS : p.rows;
#pragma unroll 1
            for (u64 row = first; row < end; row += AHEAD) Rows::add(p, place, row, end, node);
        }
        room.nodes[own] = node;
        __syncthreads();
        const u32 count = blocks - base < together ? u32(blocks - base) : together;
#pragma unroll 1
        for (u32 step = 1; step < together; step *= 2) {
            const bool joins = number % (2 * step) == 0 && number + step < count;
            if (joins) room.nodes[own] = Join()(room.nodes[own], room.nodes[own + step * p.columns]);
            __syncthreads();
        }
        if (number == 0) digits.push(room.nodes[own]);
        __syncthreads();
    }
    if (number != 0 || place >= p.length) return;
    const Both<T> total = digits.root({T(0), T(0)});
    if (p.flags & SUMS_SCALE) Real<T>::store(p.scalars[DSCALE], p.at[DSCALE] + place * size_of(p.scalars[DSCALE]), total.scale);
    if (p.flags & SUMS_BIAS) Real<T>::store(p.scalars[DBIAS], p.at[DBIAS] + place * size_of(p.scalars[DBIAS]), total.bias);
}

#define ROW_NORM_SUMS(name, rows, threads)                                                                \
    extern "C" __global__ void __launch_bounds__(threads, 1) row_norm_sums_##name(const RowNormal p) {    \
        __shared__ SumRoom<typename rows::Number> room;                                                   \
        norm_sums<rows>(p, room);                                                                         \
    }

ROW_NORM_SUMS(f32, RowsOf<F32>, SUM_THREADS)
ROW_NORM_SUMS(f16, RowsOf<F16>, SUM_THREADS)
ROW_NORM_SUMS(bf16, RowsOf<BF16>, SUM_THREADS)
ROW_NORM_SUMS(any_f32, RowsOfAny<f32>, THREADS)
ROW_NORM_SUMS(any_f64, RowsOfAny<f64>, THREADS)
