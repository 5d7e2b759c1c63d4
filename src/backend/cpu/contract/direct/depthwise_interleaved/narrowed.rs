//! Rows of outputs of fewer bits, of sums in binary32 that leave from registers: a few outputs by one or two vectors of channels at a time.

use std::any::TypeId;
use std::arch::x86_64::__m256;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::ended::products;
use super::{OUTPUTS, TAPS, Tap};
use crate::backend::cpu::contract::epilogue::finish::{Outputs, Run};
use crate::backend::cpu::contract::epilogue::narrow::Narrow;
use crate::backend::cpu::contract::kernel::simd::{Avx2Single, Simd};
use crate::backend::cpu::contract::operands::points::{Point, Turn};
use crate::backend::cpu::wide::Cells;
use crate::dtype::Scalar;

/// Lanes of a vector.
const L: usize = Avx2Single::L;

/// How rows of outputs end, and the loop over their channels.
pub(super) struct Narrowed {
    narrow: Narrow,
    dst: Scalar,
    channels: Turn,
}

/// Where a row of outputs is.
pub(super) struct Row<'a> {
    pub(super) place: &'a Point,
    pub(super) along: &'a Turn,
    pub(super) image: *const f32,
    pub(super) factors: *const f32,
    /// Taps that factors have.
    pub(super) all: usize,
}

impl Narrowed {
    /// Of vectors `S`, if sums of them may leave so: channels are whole vectors.
    pub(super) fn of<S: Simd>(outputs: &Outputs<'_>, channels: &Turn) -> Option<Narrowed> {
        let narrow = outputs.narrow.filter(|_| TypeId::of::<S>() == TypeId::of::<Avx2Single>())?;
        let is_even =
            channels.by.at[0] == 1 && narrow.is_even(&channels.by.at) && channels.extent.is_multiple_of(L);
        let fits = narrow.ends_tiles::<S>() && is_even;
        fits.then_some(Narrowed { narrow, dst: outputs.step.dst, channels: *channels })
    }

    /// Computes all outputs of a row; all taps have elements for those of `whole`.
    ///
    /// # Safety
    /// As for [`row`](super::DepthwiseInterleaved::row); the processor has AVX2 and fused multiply-add.
    pub(super) unsafe fn row(&self, row: &Row<'_>, taps: &[Tap], whole: Range<usize>) {
        let mut some = [const { MaybeUninit::<Tap>::uninit() }; TAPS];
        let mut q = 0;
        while q < row.along.extent {
            let left = if whole.contains(&q) { whole.end - q } else { 0 };
            // SAFETY: the caller's promise.
            unsafe {
                q += match left {
                    OUTPUTS.. => self.neighbours::<OUTPUTS>(row, taps, q),
                    1.. => self.neighbours::<1>(row, taps, q),
                    _ => {
                        let mut count = 0;
                        for tap in taps.iter().filter(|tap| tap.meets(q)) {
                            some[count].write(*tap);
                            count += 1;
                        }
                        let some = std::slice::from_raw_parts(some.as_ptr().cast(), count);
                        self.neighbours::<1>(row, some, q)
                    }
                };
            }
        }
    }

    /// Computes `Q` neighbouring outputs, and tells how many those are.
    ///
    /// # Safety
    /// As for [`row`](Narrowed::row); the taps have elements for all of them.
    unsafe fn neighbours<const Q: usize>(&self, row: &Row<'_>, taps: &[Tap], q: usize) -> usize {
        // SAFETY: the caller's promise; such vectors have these types alone.
        unsafe {
            match (self.dst, self.narrow.is_plain()) {
                (Scalar::F16, true) => self.channels::<half::f16, Q, true>(row, taps, q),
                (Scalar::F16, false) => self.channels::<half::f16, Q, false>(row, taps, q),
                (Scalar::Bf16, true) => self.channels::<half::bf16, Q, true>(row, taps, q),
                (Scalar::Bf16, false) => self.channels::<half::bf16, Q, false>(row, taps, q),
                (_, true) => self.channels::<i8, Q, true>(row, taps, q),
                (_, false) => self.channels::<i8, Q, false>(row, taps, q),
            }
        }
        Q
    }

    /// All channels of `Q` outputs.
    ///
    /// # Safety
    /// As for [`neighbours`](Narrowed::neighbours); `E` is the type of the destination.
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn channels<E: Cells<__m256>, const Q: usize, const PLAIN: bool>(
        &self, row: &Row<'_>, taps: &[Tap], q: usize,
    ) {
        let along = &row.along.by.at;
        let rows: [[i64; 5]; Q] =
            std::array::from_fn(|i| std::array::from_fn(|k| row.place.at[k] + (q + i) as i64 * along[k]));
        let (from, step) = (row.image.wrapping_offset(rows[0][1] as isize), along[1] as isize);
        let run = Run { lane: 0, len: L as u32, at: [0; 5], by: self.channels.by.at };
        let mut ends = self.narrow.ends(&rows, &run, None);
        let mut channel = 0;
        while channel < self.channels.extent {
            let vectors = if self.channels.extent - channel >= 2 * L { 2 } else { 1 };
            // SAFETY: the caller's promise.
            unsafe {
                let (from, factors) = (from.add(channel), row.factors.add(channel * row.all));
                if vectors == 2 {
                    let sums = products::<Q, 2>(from, step, taps, factors, row.all);
                    self.narrow.finish_vectors::<E, Q, 2, PLAIN>(sums, &ends);
                } else {
                    let sums = products::<Q, 1>(from, step, taps, factors, row.all);
                    self.narrow.finish_vectors::<E, Q, 1, PLAIN>(sums, &ends);
                }
            }
            self.narrow.go_on::<Q, PLAIN>(&mut ends, vectors * L);
            channel += vectors * L;
        }
    }
}
