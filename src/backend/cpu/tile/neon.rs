//! Transposes in registers of NEON.

use super::{Ahead, Matrix, RowStarts, Transpose, one_by_one};
use std::arch::aarch64::*;

/// The transpose of cells of `cell` bytes, if there is one. None writes past the caches.
pub(super) fn transpose<D: RowStarts, S: RowStarts>(cell: usize) -> Option<Transpose<D, S>> {
    Some(match cell {
        1 => u8::transpose::<D, S, false>,
        2 => u16::transpose::<D, S, false>,
        4 => u32::transpose::<D, S, false>,
        8 => u64::transpose::<D, S, false>,
        _ => return None,
    })
}

#[inline(always)]
fn zero<V>() -> V {
    // SAFETY: it is a vector of integers.
    unsafe { std::mem::zeroed() }
}

/// # Safety
/// A vector is readable there.
#[inline(always)]
unsafe fn load<V>([from]: [*const u8; 1]) -> V {
    // SAFETY: a vector is readable.
    unsafe { from.cast::<V>().read_unaligned() }
}

/// # Safety
/// A vector is writable there.
#[inline(always)]
unsafe fn store<V>(to: *mut V, v: V) {
    // SAFETY: a vector is writable.
    unsafe { to.write_unaligned(v) }
}

network!(u8, "neon", uint8x16_t, 1, zero, load, store, store, vzip1q_u8, vzip2q_u8, one_by_one::<u8, D, S>);
network!(
    u16,
    "neon",
    uint16x8_t,
    1,
    zero,
    load,
    store,
    store,
    vzip1q_u16,
    vzip2q_u16,
    one_by_one::<u16, D, S>
);
network!(
    u32,
    "neon",
    uint32x4_t,
    1,
    zero,
    load,
    store,
    store,
    vzip1q_u32,
    vzip2q_u32,
    one_by_one::<u32, D, S>
);
network!(
    u64,
    "neon",
    uint64x2_t,
    1,
    zero,
    load,
    store,
    store,
    vzip1q_u64,
    vzip2q_u64,
    one_by_one::<u64, D, S>
);
