//! F(2x2, 3x3): windows of 3 x 3 taps with 16 products for 4 outputs instead of 36.
//!
//! A tile of 2 x 2 outputs reads a patch of 4 x 4 positions. Each of the 16 transformed elements is
//! a matrix product of its own, `filters x channels` by `channels x tiles`, through the kernels of
//! every contraction. Neighbours in the destination are the lanes of these products: pixels
//! ([`PixelLanes`]) or filters ([`FilterLanes`]).

#![allow(clippy::needless_range_loop, reason = "elements of small matrices")]

mod few;
mod filters;
mod patches;
mod pixels;

pub use self::filters::FilterLanes;
pub use self::pixels::PixelLanes;

/// Channels and filters from which on fewer products outweigh the transforms.
const CHANNELS: usize = 32;

/// Outputs of one image from which on they outweigh the transform of the filter.
const OUTPUTS: usize = 160;

/// Bytes of the transformed filter at most.
const FILTER: usize = 40 << 20;

/// Bytes of one element of the transformed patches of a task, which stay in the second cache while
/// strips meet them, and the most tiles that there are of.
const PATCHES: usize = 256 << 10;
const TILES: usize = 128;

/// Bytes of sums that are kept at once.
const ACC_BYTES: usize = 256 << 10;

/// Cells of the sum per pass of the kernels.
const KC: usize = 512;

/// Elements of a transformed patch.
const ELEMENTS: usize = 16;

/// Taps of a window.
const TAPS: usize = 9;

/// Lanes that are transformed at once.
const EIGHT: usize = 8;

type Eight = [f32; EIGHT];

#[inline(always)]
fn add(a: Eight, b: Eight) -> Eight {
    let mut r = a;
    let mut i = 0;
    while i < EIGHT {
        r[i] = a[i] + b[i];
        i += 1;
    }
    r
}

#[inline(always)]
fn sub(a: Eight, b: Eight) -> Eight {
    let mut r = a;
    let mut i = 0;
    while i < EIGHT {
        r[i] = a[i] - b[i];
        i += 1;
    }
    r
}

#[inline(always)]
fn half(a: Eight) -> Eight {
    let mut r = a;
    let mut i = 0;
    while i < EIGHT {
        r[i] = 0.5 * a[i];
        i += 1;
    }
    r
}

/// A line of a patch.
#[inline(always)]
fn patch(d: [Eight; 4]) -> [Eight; 4] {
    [sub(d[0], d[2]), add(d[1], d[2]), sub(d[2], d[1]), sub(d[1], d[3])]
}

/// A line of a filter.
#[inline(always)]
fn filter(g: [Eight; 3]) -> [Eight; 4] {
    let sum = add(g[0], g[2]);
    [g[0], half(add(sum, g[1])), half(sub(sum, g[1])), g[2]]
}

/// Two outputs of a line of sums.
#[inline(always)]
fn result(m: [Eight; 4]) -> [Eight; 2] {
    [add(add(m[0], m[1]), m[2]), sub(sub(m[1], m[2]), m[3])]
}

/// # Safety
/// Eight numbers are readable.
#[inline(always)]
unsafe fn load(at: *const f32) -> Eight {
    // SAFETY: eight numbers are readable.
    unsafe { at.cast::<Eight>().read_unaligned() }
}

/// # Safety
/// Eight numbers are writable.
#[inline(always)]
unsafe fn store(at: *mut f32, v: Eight) {
    // SAFETY: eight numbers are writable.
    unsafe { at.cast::<Eight>().write_unaligned(v) }
}
