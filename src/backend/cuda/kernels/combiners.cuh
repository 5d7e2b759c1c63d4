// The table of `ops/reduction.rs`, written by `tests/basics/functions.rs`; do not edit.
#pragma once

#include "device.cuh"

enum Combiner : u32 {
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
