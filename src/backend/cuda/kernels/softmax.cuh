// What the kernels of softmax are given.
#pragma once

#include "element.cuh"

// As `ops/rows.rs` numbers them.
enum RowFunction : u32 { SOFTMAX, LOG_SOFTMAX, SOFTMAX_GRADIENT, LOG_SOFTMAX_GRADIENT };

// Groups of elements side by side, at equal distances.
struct SoftmaxRows {
    char *at[3];   // the destination, x, dy
    i64 step[3];   // bytes from group to group
    u32 groups;
    u32 length;    // elements of a group
    u32 vectored;  // whether four neighbours of a short group lie on their width
    u32 unused;
};

// Neighbouring groups, of elements at equal distances.
struct SoftmaxColumns {
    char *at[3];
    i64 step[3];    // bytes from element to element
    i64 outer[3];   // bytes from plane to plane
    Divisor plane;  // groups side by side
    u32 groups;
    u32 length;
};

static_assert(sizeof(SoftmaxRows) == 64, "softmax.rs has another SoftmaxRows");
static_assert(sizeof(SoftmaxColumns) == 104, "softmax.rs has another SoftmaxColumns");
