//! Rows of outputs of fewer bits, of sums in binary32 that leave from registers: a few outputs by
//! one or two vectors of channels at a time.

use std::any::TypeId;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::in_registers::products;
use super::{OUTPUTS, Row, TAPS, Tap};
use crate::backend::cpu::contract::direct::taps::meeting;
use crate::backend::cpu::contract::epilogue::generic::Outputs;
use crate::backend::cpu::contract::epilogue::narrow::NarrowEpilogue;
use crate::backend::cpu::contract::kernel::simd::{Simd, Single, Vector};
use crate::backend::cpu::contract::operands::points::Loop;
use crate::backend::cpu::row::Row as Load;
use crate::backend::cpu::wide::Cells;
use crate::dtype::Scalar;

/// Lanes of a vector.
const L: usize = Single::L;

/// How rows of outputs end, and the loop over their channels.
pub(super) struct Narrowed {
    narrow: NarrowEpilogue,
    dst: Scalar,
    /// Converts terms of the bias that have the type of the destination.
    load: Load,
    extent: usize,
}

impl Narrowed {
    /// The ending for vectors `S`, if their sums may leave from registers: channels are whole
    /// vectors, with terms of the bias side by side.
    pub(super) fn of<S: Simd>(outputs: &Outputs<'_>, [channels, along]: [&Loop; 2]) -> Option<Narrowed> {
        let narrow = outputs.narrow.filter(|_| TypeId::of::<S>() == TypeId::of::<Single>())?;
        let beside = channels.by.at[4] == 1 && along.by.at[4] == 0;
        let fits =
            narrow.ends_channels() && channels.extent.is_multiple_of(L) && (beside || !narrow.has_bias());
        let (dst, load) = (outputs.step.dst, outputs.load[0]);
        fits.then_some(Narrowed { narrow, dst, load, extent: channels.extent })
    }

    /// Terms of the bias from an offset on, in binary32: where they lie, or in the room, which
    /// there is for all channels.
    ///
    /// # Safety
    /// They are readable if there are some, and the room is writable.
    pub(super) unsafe fn bias(&self, at: i64, room: *mut f32) -> *const f32 {
        // SAFETY: the bias has a term for every channel, and the room is as long.
        unsafe { self.narrow.terms(at as isize, self.extent, room, self.load) }
    }

    /// Computes all outputs of a row, with the terms of a bias if there is one; all taps have
    /// elements for those of `whole`.
    ///
    /// # Safety
    /// As for [`row`](super::DepthwiseInterleaved::row); the processor has such vectors.
    pub(super) unsafe fn row(&self, row: &Row<'_>, bias: *const f32, taps: &[Tap], whole: Range<usize>) {
        // SAFETY: rows that leave so have one of these three types.
        unsafe {
            match self.dst {
                Scalar::F16 => self.outputs::<half::f16>(row, bias, taps, whole),
                Scalar::Bf16 => self.outputs::<half::bf16>(row, bias, taps, whole),
                _ => self.outputs::<i8>(row, bias, taps, whole),
            }
        }
    }

    /// # Safety
    /// As for [`row`](Narrowed::row); `E` is the type of the destination.
    unsafe fn outputs<E: Cells<Vector>>(
        &self, row: &Row<'_>, bias: *const f32, taps: &[Tap], whole: Range<usize>,
    ) {
        let mut room = [const { MaybeUninit::<Tap>::uninit() }; TAPS];
        let mut q = 0;
        while q < row.along.extent {
            let left = if whole.contains(&q) { whole.end - q } else { 0 };
            // SAFETY: the taps have elements for all outputs from `q` on, or are those that have.
            unsafe {
                q += match left {
                    OUTPUTS.. => self.neighbours::<E, OUTPUTS>(row, bias, taps, q),
                    1.. => self.neighbours::<E, 1>(row, bias, taps, q),
                    _ => self.neighbours::<E, 1>(row, bias, meeting(taps, q, &mut room), q),
                };
            }
        }
    }

    /// Computes all channels of `Q` neighbouring outputs, and tells how many those are.
    ///
    /// # Safety
    /// As for [`row`](Narrowed::row); the taps have elements for all of them, and `E` is the type
    /// of the destination.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn neighbours<E: Cells<Vector>, const Q: usize>(
        &self, row: &Row<'_>, bias: *const f32, taps: &[Tap], q: usize,
    ) -> usize {
        let along = &row.along.by.at;
        let at = |slot: usize| (row.place.at[slot] + q as i64 * along[slot]) as isize;
        let (from, step) = (row.image.wrapping_offset(at(1)), along[1] as isize);
        let (to, apart) = (self.narrow.result::<E>(at(0)), along[0] as isize);
        let mut channel = 0;
        while channel < self.extent {
            // SAFETY: one vector of channels is left at least, and all taps have elements.
            unsafe {
                let (from, factors) = (from.add(channel), row.factors.add(channel * row.all));
                let (to, bias) = (to.wrapping_add(channel), bias.wrapping_add(channel));
                if self.extent - channel >= 2 * L {
                    let acc = products::<Q, 2>(from, step, taps, factors, row.all);
                    self.narrow.vectors_epilogue(acc, to, apart, bias);
                } else {
                    let acc = products::<Q, 1>(from, step, taps, factors, row.all);
                    self.narrow.vectors_epilogue(acc, to, apart, bias);
                }
            }
            channel += 2 * L;
        }
        Q
    }
}
