// Rows that lie side by side and are normalised by their own statistics, and the gradients of that: `ops/row_norm.rs`, to the same
// bits. Sums over a row are the tree of `ops/tree.rs` for runs.
#pragma once

#include "function.cuh"
#include "places.cuh"
#include "row_trees.cuh"

// Bits of `flags`.
enum RowFlags : u32 {
    SUBTRACTS = 1,     // the mean is subtracted, or was
    SAVES_MEAN = 2,
    SAVES_INVERSE = 4,
    SCALES = 8,        // there is a scale: a number for each element, or else one for a row
    SCALES_EACH = 16,
    BIASES = 32,
    BIASES_EACH = 64,
    SUMS_SCALE = 128,  // the gradients of scale and bias are wanted
    SUMS_BIAS = 256,
};

enum { ROW_AXES = 20 };

struct RowNormal {
    char *at[8];     // as the step lists its operands, each where the first row begins
    u64 rows;
    u64 length;      // elements of a row
    f64 share;       // what one of them is of a row
    u32 scalars[8];  // Scalar of each operand
    u32 flags;
    u32 rank;
    u32 columns;     // of a block that sums up gradients of parameters
    u32 unused;
    NormalLoop loops[ROW_AXES];  // the loops over rows, innermost first
};

static_assert(sizeof(RowNormal) == 64 + 24 + 32 + 16 + 72 * ROW_AXES, "row_norm.rs has another RowNormal");

// Operands, and what they are in the loops over rows.
namespace forwards {
enum Operand : u32 { Y, MEANS, INVERSES, X, SCALE, BIAS, EPSILON };
}
namespace backwards {
enum Operand : u32 { DX, DSCALE, DBIAS, X, DY, SCALE, MEANS, INVERSES };
enum Place : u32 { DX_PLACE, X_PLACE, DY_PLACE, SCALE_PLACE, MEAN_PLACE, INVERSE_PLACE };
}

__device__ __forceinline__ Places row_places(const RowNormal &p, u64 row) { return places(row, p.loops, p.rank); }

// The mean of numbers whose sum is known.
template <typename T>
__device__ __forceinline__ T mean_of(const RowNormal &p, T total) {
    return ratio(total, T(i64(p.length)));
}

// One by the deviation, of the sum of squares: by way of their norm, as the steps that compute one statistic each.
template <typename T>
__device__ __forceinline__ T inverse_of(const RowNormal &p, T squares, T epsilon) {
    const T norm = root(squares), variance = product(product(T(p.share), norm), norm);
    return ratio(T(1), root(sum(variance, epsilon)));
}

// What the elements of a row are computed with.
template <typename T>
struct OfRow {
    T mean, factor, bias;
};

// Writes the statistics of a row if this thread LEADS, and tells what follows for its elements.
template <typename T>
__device__ __forceinline__ OfRow<T> of_row(const RowNormal &p, const Places &row, T mean, T inverse, bool leads) {
    using namespace forwards;
    if (leads && p.flags & SAVES_MEAN) {
        Real<T>::store(p.scalars[MEANS], p.at[MEANS] + row.of[MEANS], mean);
    }
    if (leads && p.flags & SAVES_INVERSE) {
        Real<T>::store(p.scalars[INVERSES], p.at[INVERSES] + row.of[INVERSES], inverse);
    }
    OfRow<T> of = {mean, inverse, -T(0)};
    if ((p.flags & (SCALES | SCALES_EACH)) == SCALES) {
        of.factor = product(inverse, Real<T>::load(p.scalars[SCALE], p.at[SCALE] + row.of[SCALE]));
    }
    if ((p.flags & (BIASES | BIASES_EACH)) == BIASES) {
        of.bias = Real<T>::load(p.scalars[BIAS], p.at[BIAS] + row.of[BIAS]);
    }
    return of;
}

// An element of a row. A scale of 1 and a bias of -0 change nothing.
template <typename T>
__device__ __forceinline__ T normalised(const OfRow<T> &of, T x, T scale, T bias) {
    return sum(product(product(sum(x, -of.mean), of.factor), scale), bias);
}

// What the gradients of a row are computed with. Where nothing was subtracted, zeros change nothing.
template <typename T>
struct OfGradients {
    T mean, inverse;

    __device__ __forceinline__ OfGradients(const RowNormal &p, const Places &row) : mean(0) {
        using namespace backwards;
        if (p.flags & SUBTRACTS) mean = Real<T>::load(p.scalars[MEANS], p.at[MEANS] + row.of[MEAN_PLACE]);
        inverse = Real<T>::load(p.scalars[INVERSES], p.at[INVERSES] + row.of[INVERSE_PLACE]);
    }
    __device__ __forceinline__ T normal(T x) const { return product(sum(x, -mean), inverse); }
    // Of a normal element and its gradient, with the means of their products and of the gradients.
    __device__ __forceinline__ T gradient(T h, T g, T share, T other) const {
        return product(sum(sum(g, -product(h, share)), -other), inverse);
    }
};
