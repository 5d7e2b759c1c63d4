//! Rows of outputs in binary32 whose sums leave from registers, bias and clip included: a few
//! outputs by one or two vectors of channels at a time.

use std::any::TypeId;
use std::ops::Range;

use super::{OUTPUTS, Row, Tap};
use crate::backend::cpu::contract::epilogue::binary32::F32Epilogue;
use crate::backend::cpu::contract::epilogue::generic::Outputs;
use crate::backend::cpu::contract::epilogue::registers::{self, Ends, is_even};
use crate::backend::cpu::contract::kernel::simd::{Simd, Single, Vector};
use crate::backend::cpu::contract::operands::points::Loop;

/// Lanes of a vector.
const L: usize = Single::L;

/// How rows of outputs end, and the loop over their channels.
pub(super) struct InRegisters {
    f32_epilogue: F32Epilogue,
    extent: usize,
}

/// Some neighbouring outputs: the first one, where its channels are in every operand, and how far
/// it is to the next.
struct Place {
    q: usize,
    from: *const f32,
    step: isize,
    to: *mut f32,
    apart: isize,
    z: *const f32,
    z_apart: isize,
    bias: *const f32,
}

impl InRegisters {
    /// The ending for vectors `S`, if their sums may leave from registers.
    pub(super) fn of<S: Simd>(outputs: &Outputs<'_>, [channels, along]: [&Loop; 2]) -> Option<InRegisters> {
        let f32_epilogue = outputs.f32_epilogue?;
        let fits = TypeId::of::<S>() == TypeId::of::<Single>()
            && is_even(&f32_epilogue, &channels.by.at)
            && (!f32_epilogue.has_bias || channels.by.at[4] == 1 && along.by.at[4] == 0);
        fits.then_some(InRegisters { f32_epilogue, extent: channels.extent })
    }

    /// Computes the outputs of a row; all taps have elements for those of `whole`.
    ///
    /// # Safety
    /// As for [`row`](super::DepthwiseInterleaved::row); the processor has such vectors.
    pub(super) unsafe fn row(&self, row: &Row<'_>, taps: &[Tap], whole: Range<usize>) {
        let mut q = 0;
        while q < row.along.extent {
            let some = OUTPUTS.min(row.along.extent - q);
            let is_whole = whole.start <= q && q + some <= whole.end;
            // SAFETY: outputs of the row, and the processor has the vectors. Of a whole tile every
            // tap has elements.
            unsafe {
                match some {
                    OUTPUTS if is_whole => self.neighbours::<OUTPUTS, false>(row, taps, q),
                    OUTPUTS.. => self.neighbours::<OUTPUTS, true>(row, taps, q),
                    3 => self.neighbours::<3, true>(row, taps, q),
                    2 => self.neighbours::<2, true>(row, taps, q),
                    _ => self.neighbours::<1, true>(row, taps, q),
                }
            };
            q += some;
        }
    }

    /// Computes `Q` neighbouring outputs, at an edge or not.
    ///
    /// # Safety
    /// As for [`row`](InRegisters::row); the taps have elements for all of them but at an edge.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    // Inlined into the row, it would keep its factors on the stack.
    #[inline(never)]
    unsafe fn neighbours<const Q: usize, const EDGE: bool>(&self, row: &Row<'_>, taps: &[Tap], q: usize) {
        let (InRegisters { f32_epilogue, extent }, along) = (self, &row.along.by.at);
        let (factors, all) = (row.factors, row.all);
        let at = |slot: usize| (row.place.at[slot] + q as i64 * along[slot]) as isize;
        let here = Place {
            q,
            from: row.image.wrapping_offset(at(1)),
            step: along[1] as isize,
            to: f32_epilogue.dst.wrapping_offset(at(0)),
            apart: along[0] as isize,
            z: f32_epilogue.z.wrapping_offset(at(3)),
            z_apart: along[3] as isize,
            bias: f32_epilogue.bias.wrapping_offset(at(4)),
        };
        let (mut channel, extent) = (0, *extent);
        while channel + 2 * L <= extent {
            // SAFETY: two vectors of channels are left, and all taps have elements but at an edge.
            unsafe { accumulate::<Q, 2, EDGE>(f32_epilogue, &here, taps, factors, all, channel) };
            channel += 2 * L;
        }
        if channel + L <= extent {
            // SAFETY: a vector of channels is left, and all taps have elements but at an edge.
            unsafe { accumulate::<Q, 1, EDGE>(f32_epilogue, &here, taps, factors, all, channel) };
            channel += L;
        }
        if channel < extent {
            // SAFETY: the rest of the channels, of which all taps have elements but at an edge.
            unsafe { few::<Q>(f32_epilogue, &here, taps, factors, all, channel..extent) };
        }
    }
}

/// The sums of `Q` outputs by `V` vectors of channels.
///
/// # Safety
/// As for [`neighbours`](InRegisters::neighbours), for `V` vectors of channels.
#[inline(always)]
unsafe fn accumulate<const Q: usize, const V: usize, const EDGE: bool>(
    f32_epilogue: &F32Epilogue, here: &Place, taps: &[Tap], factors: *const f32, all: usize, channel: usize,
) {
    // SAFETY: the channels are readable in every output and tap.
    unsafe {
        let (from, factors) = (here.from.wrapping_add(channel), factors.add(channel * all));
        let acc = if EDGE {
            products_at_edge::<Q, V>(from, here, taps, factors, all)
        } else {
            products::<Q, V>(from, here.step, taps, factors, all)
        };
        registers::epilogue(f32_epilogue, acc, &ends(here, channel, Q));
    }
}

/// What `Q` outputs, which begin `step` elements apart, sum of `V` vectors of channels.
///
/// # Safety
/// The taps have elements for all of them, and factors, of `all` taps in each vector. The processor
/// has such vectors.
#[inline(always)]
pub(super) unsafe fn products<const Q: usize, const V: usize>(
    from: *const f32, step: isize, taps: &[Tap], factors: *const f32, all: usize,
) -> [[Vector; V]; Q] {
    // SAFETY: the taps have elements for `Q` outputs and `V` vectors of channels, and as many
    // factors.
    unsafe {
        let mut acc = [[Single::zero(); V]; Q];
        for tap in taps {
            let from = from.offset(tap.from as isize);
            let mut v = 0;
            while v < V {
                let factor = Single::load(factors.add((v * all + tap.number) * L));
                let mut i = 0;
                while i < Q {
                    let x = Single::load(from.offset(i as isize * step).add(v * L));
                    acc[i][v] = Single::fma(x, factor, acc[i][v]);
                    i += 1;
                }
                v += 1;
            }
        }
        acc
    }
}

/// The same of outputs of which some lack taps.
///
/// # Safety
/// As for [`products`], of the taps that have elements.
#[inline(always)]
unsafe fn products_at_edge<const Q: usize, const V: usize>(
    from: *const f32, here: &Place, taps: &[Tap], factors: *const f32, all: usize,
) -> [[Vector; V]; Q] {
    // SAFETY: taps have elements for the outputs that they meet and `V` vectors of channels, and as
    // many factors.
    unsafe {
        let mut acc = [[Single::zero(); V]; Q];
        for tap in taps {
            let from = from.wrapping_offset(tap.from as isize);
            let mut factor = [Single::zero(); V];
            let mut v = 0;
            while v < V {
                factor[v] = Single::load(factors.add((v * all + tap.number) * L));
                v += 1;
            }
            let mut i = 0;
            while i < Q {
                if tap.meets(here.q + i) {
                    let from = from.wrapping_offset(i as isize * here.step);
                    let mut v = 0;
                    while v < V {
                        let x = Single::load(from.add(v * L));
                        acc[i][v] = Single::fma(x, factor[v], acc[i][v]);
                        v += 1;
                    }
                }
                i += 1;
            }
        }
        acc
    }
}

/// Where some outputs end, from a channel on.
#[inline(always)]
fn ends(here: &Place, channel: usize, count: usize) -> Ends<'static> {
    let mut ends = Ends::new(true, None);
    let mut i = 0;
    while i < count {
        ends.to[i] = here.to.wrapping_offset(i as isize * here.apart).wrapping_add(channel);
        ends.z[i] = here.z.wrapping_offset(i as isize * here.z_apart).wrapping_add(channel);
        ends.bias[i] = here.bias.wrapping_add(channel);
        i += 1;
    }
    ends
}

/// The same for the last channels, which fill no vector: what is read and written lies in vectors
/// of the stack.
///
/// # Safety
/// As for [`acc`].
#[inline(never)]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
unsafe fn few<const Q: usize>(
    f32_epilogue: &F32Epilogue, here: &Place, taps: &[Tap], factors: *const f32, all: usize,
    channels: Range<usize>,
) {
    let (channel, count) = (channels.start, channels.len());
    /// As many as are there, the others 0.
    unsafe fn vector(from: *const f32, count: usize) -> [f32; L] {
        let mut some = [0.0; L];
        // SAFETY: `count` channels are readable, and fewer than a vector has lanes.
        unsafe { some.as_mut_ptr().copy_from_nonoverlapping(from, count) };
        some
    }
    // SAFETY: whole vectors of channels are readable in every output.
    unsafe {
        for i in 0..Q as isize {
            let from = here.from.wrapping_offset(i * here.step).wrapping_add(channel);
            let mut sum = Single::zero();
            for tap in taps.iter().filter(|tap| tap.meets(here.q + i as usize)) {
                let x = vector(from.wrapping_offset(tap.from as isize), count);
                let factor = Single::load(factors.add(channel * all + tap.number * L));
                sum = Single::fma(Single::load(x.as_ptr()), factor, sum);
            }
            let to = here.to.offset(i * here.apart).add(channel);
            let some = |is: bool, from: *const f32| if is { vector(from, count) } else { [0.0; L] };
            let mut old = some(f32_epilogue.beta != 0.0, to);
            let z = some(
                f32_epilogue.alpha2 != 0.0,
                here.z.wrapping_offset(i * here.z_apart).wrapping_add(channel),
            );
            let bias = some(f32_epilogue.has_bias, here.bias.wrapping_add(channel));
            let mut ends = Ends::new(true, None);
            (ends.to[0], ends.z[0], ends.bias[0]) = (old.as_mut_ptr(), z.as_ptr(), bias.as_ptr());
            registers::epilogue(f32_epilogue, [[sum]], &ends);
            to.copy_from_nonoverlapping(old.as_ptr(), count);
        }
    }
}
