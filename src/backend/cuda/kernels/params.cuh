// What the parameters of several families of kernels are made of. `params.rs` declares the same; both sides
// assert sizes.
#pragma once

#include "device.cuh"
#include "scalars.cuh"

// What a division tells the driver double, which counts them.
#if defined(CPU_EMU)
#define DIVIDES ++emu::running.divisions
#else
#define DIVIDES
#endif

// Division by a number known before the launch, as a multiplication and a shift. Dividends are below half of
// the index type's range.
struct Divisor {
    u64 divisor;
    u64 multiplier;  // the low 32 bits serve 32-bit indices, all 64 the others: a launch has one kind
    u32 shift;
    u32 unused;
};

__device__ __forceinline__ u32 quotient(u32 dividend, const Divisor &by) {
    DIVIDES;
    return (high_product(dividend, u32(by.multiplier)) + dividend) >> by.shift;
}

__device__ __forceinline__ u64 quotient(u64 dividend, const Divisor &by) {
    DIVIDES;
    return (high_product(dividend, by.multiplier) + dividend) >> by.shift;
}

// The type by which values travel from source to destination.
enum Via : u32 { VIA_NOTHING, VIA_F32, VIA_F64, VIA_I64 };

// How one element is computed.
struct Operation {
    f64 alpha;
    f64 beta;
    u32 src;    // Scalar
    u32 dst;    // Scalar
    u32 via;    // Via
    u32 steps;  // SCALED | BLENDED
};

enum Steps : u32 { SCALED = 1, BLENDED = 2 };

struct Pointers {
    char *dst;
    const char *src;
};

// One loop: its iterations, and how many bytes each operand moves per iteration.
struct Loop {
    Divisor extent;
    i64 dst;
    i64 src;
};

// One loop over three operands, of which the destination is the first.
struct OperandLoop {
    Divisor extent;
    i64 step[3];
};

static_assert(sizeof(Divisor) == 24, "params.rs has another Divisor");
static_assert(sizeof(Operation) == 32, "params.rs has another Operation");
