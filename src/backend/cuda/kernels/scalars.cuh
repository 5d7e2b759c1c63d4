// The table of `dtype/mod.rs`, written by `tests/basics/functions.rs`; do not edit.
#pragma once

#include "device.cuh"

enum Scalar : u32 {
    F32,
    F64,
    F16,
    BF16,
    I8,
    U8,
    I32,
    I64,
    BOOL,
    E4M3,
    E5M2,
};
