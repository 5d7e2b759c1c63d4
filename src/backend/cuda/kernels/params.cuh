// What kernels are given: one struct each, passed by value. `params.rs` declares the same structs; both
// assert sizes.
#pragma once

#include "device.cuh"

// Division by a number known before the launch, as a multiplication and a shift. Dividends are below half of
// the index type's range.
struct Divisor {
    u64 divisor;
    u64 multiplier;  // the low 32 bits serve 32-bit indices, all 64 the others: a launch has one kind
    u32 shift;
    u32 unused;
};

__device__ __forceinline__ u32 quotient(u32 dividend, const Divisor &by) {
    return (high_product(dividend, u32(by.multiplier)) + dividend) >> by.shift;
}

__device__ __forceinline__ u64 quotient(u64 dividend, const Divisor &by) {
    return (high_product(dividend, by.multiplier) + dividend) >> by.shift;
}

// The order of `Scalar` in `dtype/mod.rs`.
enum Scalar : u32 { F32, F64, F16, BF16, I8, U8, I32, I64, BOOL, E4M3, E5M2 };

// The type by which values travel from source to destination.
enum Path : u32 { VIA_NOTHING, VIA_F32, VIA_F64, VIA_I64 };

// How one element is computed.
struct Operation {
    f64 alpha;
    f64 beta;
    u32 src;    // Scalar
    u32 dst;    // Scalar
    u32 path;   // Path
    u32 steps;  // SCALED | BLENDED
};

enum Steps : u32 { SCALED = 1, BLENDED = 2 };

struct Pointers {
    char *dst;
    const char *src;
};

// One loop: how often it turns, and how many bytes each operand moves per turn.
struct Turn {
    Divisor extent;
    i64 dst;
    i64 src;
};

struct Strided {
    Pointers at;
    u64 count;
    Operation operation;
    u32 rank;
    u32 fills;
    Turn turns[20];  // innermost first
};

struct MappedTurn {
    Divisor extent;
    i64 dst;
    u32 axis;
    u32 step;
};

struct MappedAxis {
    i64 dst_extent;
    i64 src_extent;
    i64 before;
    i64 src;
    Divisor factor;
    Divisor block;
};

struct Mapped {
    Pointers at;
    u64 count;
    Operation operation;
    Operation fill;
    Divisor group;
    u32 rank;
    u32 loops;
    u32 unfolds;
    u32 src_size;
    MappedTurn turns[9];  // innermost first
    MappedAxis axes[8];
};

// One run of elements that are neighbours in both operands.
struct Linear {
    Pointers at;
    u64 count;  // vectors of a copy, elements of a conversion
    Operation operation;
    u32 head;      // bytes of a copy in front of its first vector
    u32 tail;      // bytes of a copy behind its last vector
    u32 vectored;  // whether both operands of a conversion lie on 16 bytes
    u32 unused;
};

// Two axes that trade places: `a` is contiguous in the destination, `b` in the source.
struct Tiled {
    Pointers at;
    Operation operation;
    u64 extent_a;
    u64 extent_b;
    i64 dst_b;  // bytes the destination moves per step of b
    i64 src_a;  // bytes the source moves per step of a
    Divisor tiles_a;
    Divisor tiles_b;
    u32 squares_b;   // log2 of the squares of a tile that lie side by side along b; the others lie along a
    u32 vector_dst;  // whether every row of the destination starts on 16 bytes
    u32 vector_src;  // whether every row of the source starts on 16 bytes
    u32 rank;
    Turn turns[18];  // of the batch, innermost first
};

// One loop over three operands, of which the destination is the first.
struct OperandTurn {
    Divisor extent;
    i64 step[3];
};

// What OpTensor computes of two numbers; the order of `function` in `pointwise.rs`.
enum Function : u32 {
    ADD,
    MUL,
    MIN_NUMBER,
    MIN_OR_NAN,
    MAX_NUMBER,
    MAX_OR_NAN,
    SQRT,
    NOT,
    FIRST,
    NOTHING,
};

struct Pointwise {
    char *at[3];  // C, A, B
    u64 count;    // elements, or vectors of them
    f64 alpha[2];
    f64 beta;
    u32 dst;       // Scalar
    u32 src;       // Scalar
    u32 function;  // Function
    u32 arity;     // how many of A and B are read
    u32 blends;    // whether C is read
    u32 rank;
    u32 splats;  // bit k: operand k has one element along the innermost loop
    u32 wide;    // whether `op_ordered` computes in binary64
    OperandTurn turns[20];  // innermost first
};

// One value in every cell.
struct Set {
    char *at;
    u64 count;  // cells, or vectors of a run
    u64 cell;   // repeated to 8 bytes
    u32 head;   // bytes of a run in front of its first vector
    u32 tail;   // bytes of a run behind its last vector
    u32 rank;
    u32 unused;
    Turn turns[20];  // innermost first
};

// How ReduceTensor joins numbers; the order of `fold` in `reduce.rs`.
enum Fold : u32 {
    SUM,
    ABS_SUM,
    SQUARE_SUM,
    PRODUCT,
    PRODUCT_NO_ZEROS,
    LEAST_NUMBER,
    LEAST_OR_NAN,
    GREATEST_NUMBER,
    GREATEST_OR_NAN,
    ABS_GREATEST_NUMBER,
    ABS_GREATEST_OR_NAN,
};

// What becomes of the joined number.
enum Finish : u32 { AS_IT_IS, MEAN, ROOT };

// A part of what an output reduces. The turns move the index in the place of a destination.
struct Piece {
    i64 src;    // bytes from the start of the output's sequence
    i64 index;  // of its first element
    u64 count;
    u32 rank;
    u32 unused;
    Turn turns[20];  // innermost first
};

struct Reduce {
    char *dst;
    const char *src;
    char *indices;
    char *partials;  // one number (and index) for each chunk of each output; not used with one chunk
    u64 outputs;
    u64 length;           // elements of an output
    Divisor chunks;       // chunks of an output
    Operation operation;  // from the computation type to the destination
    u32 scalar;           // of the source
    u32 fold;             // Fold
    u32 finish;           // Finish
    u32 index_bytes;
    u32 level;  // log2 of the blocks of the tree that are a chunk
    u32 rank;
    OperandTurn outer[20];  // over outputs, innermost first: destination, source, place among the indices
    Piece pieces[2];
};

static_assert(sizeof(Divisor) == 24, "params.rs has another Divisor");
static_assert(sizeof(Operation) == 32, "params.rs has another Operation");
static_assert(sizeof(Strided) == 64 + 40 * 20, "params.rs has another Strided");
static_assert(sizeof(Mapped) == 16 + 8 + 64 + 24 + 16 + 40 * 9 + 80 * 8, "params.rs has another Mapped");
static_assert(sizeof(Linear) == 16 + 8 + 32 + 16, "params.rs has another Linear");
static_assert(sizeof(Tiled) == 16 + 32 + 32 + 48 + 16 + 40 * 18, "params.rs has another Tiled");
static_assert(sizeof(Pointwise) == 24 + 8 + 24 + 32 + 48 * 20, "params.rs has another Pointwise");
static_assert(sizeof(Set) == 24 + 16 + 40 * 20, "params.rs has another Set");
static_assert(sizeof(Reduce) == 32 + 16 + 24 + 32 + 24 + 48 * 20 + 2 * (32 + 40 * 20), "params.rs has another Reduce");
