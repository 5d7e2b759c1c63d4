//! Windows of three by three taps over planes in binary32 that are read where they lie: what is
//! outside a plane is masked, so that nothing is copied, and sums leave from registers, bias and
//! clip included.

use std::any::TypeId;

use super::DepthwisePlanar;
use crate::backend::cpu::contract::direct::PARALLEL_THRESHOLD;
use crate::backend::cpu::contract::epilogue::binary32::F32Epilogue;
use crate::backend::cpu::contract::epilogue::registers::{self, Ends};
use crate::backend::cpu::contract::kernel::simd::{Simd, Single, Vector};
use crate::backend::cpu::contract::kernel::vector::{LANES, Mask, in_order, unzip};
use crate::backend::cpu::contract::operands::pack::PackScalar;
use crate::backend::cpu::threads;
use crate::dtype::convert::Element;
use crate::error::Result;

/// Taps along either dimension.
const TAPS: usize = 3;

/// Rows of outputs that columns are computed of, one after the other: what they see stays in the
/// first cache.
const ROWS: usize = 16;

/// Computes all outputs of a plane.
type Kernel = unsafe fn(&Shape, &F32Epilogue, &Plane);

/// Sums over the taps of planes where they lie.
pub(super) struct InPlace {
    f32_epilogue: F32Epilogue,
    shape: Shape,
    kernel: Kernel,
}

/// What all planes have alike; of two numbers the first one is of rows.
struct Shape {
    /// Positions of the image, and the first that output 0 sees.
    extents: [i64; 2],
    first: [i64; 2],
    /// Positions between rows of outputs, and elements between rows of the image.
    stride: i64,
    pitch: i64,
    outputs: [usize; 2],
    /// Elements between rows of the result.
    apart: isize,
}

/// Where one plane is: position 0 of the image, its factors, its results and their term of the
/// bias.
struct Plane {
    image: *const f32,
    factors: *const f32,
    to: *mut f32,
    bias: *const f32,
}

impl InPlace {
    /// `None` where planes are copied.
    pub(super) fn of<S: Simd<Scalar: PackScalar, Acc: Element>>(
        depthwise: &DepthwisePlanar<'_, S>,
    ) -> Option<InPlace> {
        let ([phase], [_], Some(f32_epilogue)) =
            (&depthwise.phases[..], &depthwise.filters[..], depthwise.outputs.f32_epilogue)
        else {
            return None;
        };
        let planes = &phase.planes;
        let [slow, fast] = &planes.dims;
        let windows = [slow, fast].iter().all(|dim| {
            !dim.is_free() && dim.taps().extent == TAPS && dim.step() == 1 && dim.outputs.by.at[4] == 0
        });
        let near = fast.pitch() == 1 && fast.outputs.by.at[0] == 1;
        let native = TypeId::of::<S>() == TypeId::of::<Single>() && phase.image.convert.is_none();
        let alone = planes.channels.len() == 1 && phase.image.bounds.len() == 2 && phase.in_place;
        let fits =
            windows && near && native && alone && f32_epilogue.beta == 0.0 && f32_epilogue.alpha2 == 0.0;
        let kernel = match fast.stride() {
            1 => plane::<1> as Kernel,
            2 => plane::<2>,
            _ => return None,
        };
        fits.then(|| InPlace {
            f32_epilogue,
            kernel,
            shape: Shape {
                extents: [slow, fast].map(|dim| dim.positions() as i64),
                first: [slow, fast].map(|dim| dim.first_position()),
                stride: slow.stride() as i64,
                pitch: slow.pitch(),
                outputs: [phase.rows, phase.columns],
                apart: slow.outputs.by.at[0] as isize,
            },
        })
    }

    /// Runs the contraction that this is of.
    ///
    /// # Safety
    /// As for [`crate::backend::cpu::contract::run`].
    pub(super) unsafe fn run<S: Simd<Scalar: PackScalar, Acc: Element>>(
        &self, depthwise: &DepthwisePlanar<'_, S>, threads: usize,
    ) -> Result<()> {
        let phase = &depthwise.phases[0];
        let ([slow, fast], outer) = (&phase.planes.dims, &phase.planes.outer);
        let channels = depthwise.batch.len();
        let images = channels * outer.len();
        let threads = if images * phase.rows * phase.columns < PARALLEL_THRESHOLD { 1 } else { threads };
        let tasks = (4 * threads).min(images);
        let corner = slow.offset(0) + fast.offset(0);
        threads::run(threads, tasks, &|task| {
            for number in images * task / tasks..images * (task + 1) / tasks {
                // Channel after channel, as they most often lie in memory.
                let mut place = depthwise.batch.point(number % channels);
                place.add(&outer.point(number / channels), 1);
                place.add(&depthwise.filters[0], 1);
                let at = place.offsets(&phase.origin);
                let (image, filter) = (phase.image.data.cast::<f32>(), phase.filter.data.cast::<f32>());
                let plane = Plane {
                    image: image.wrapping_offset((at[1] + corner) as isize),
                    factors: filter.wrapping_offset((at[2] + phase.sum[0].at) as isize),
                    to: self.f32_epilogue.dst.wrapping_offset(at[0] as isize),
                    bias: self.f32_epilogue.bias.wrapping_offset(at[4] as isize),
                };
                // SAFETY: the operands have this plane, tasks write disjoint elements, and the
                // vectors are those of [`Single`].
                unsafe { (self.kernel)(&self.shape, &self.f32_epilogue, &plane) };
            }
        })
    }
}

/// # Safety
/// The processor has the vectors of [`Single`]; the plane is one of the shape.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
unsafe fn plane<const STRIDE: usize>(shape: &Shape, f32_epilogue: &F32Epilogue, plane: &Plane) {
    let [rows, columns] = shape.outputs;
    for top in (0..rows).step_by(ROWS) {
        let bottom = rows.min(top + ROWS);
        let mut column = 0;
        while column < columns {
            // The last vector has results of the one before as well.
            column = column.min(columns.saturating_sub(LANES));
            let x = shape.first[1] + (column * STRIDE) as i64;
            // What all loads together reach.
            let is_inside = x >= 0 && x + (STRIDE * LANES + TAPS - 1) as i64 <= shape.extents[1];
            // SAFETY: the plane is one of the shape, and the processor has the vectors.
            unsafe {
                if is_inside {
                    vectors::<STRIDE, false>(shape, f32_epilogue, plane, [top, bottom], column);
                } else {
                    vectors::<STRIDE, true>(shape, f32_epilogue, plane, [top, bottom], column);
                }
            }
            column += LANES;
        }
    }
}

/// A vector of neighbouring outputs in each of some rows; `CUT` where some of what it loads is
/// outside.
///
/// # Safety
/// As for [`plane`].
#[inline(always)]
unsafe fn vectors<const STRIDE: usize, const CUT: bool>(
    shape: &Shape, f32_epilogue: &F32Epilogue, plane: &Plane, [top, bottom]: [usize; 2], column: usize,
) {
    let [rows, columns] = shape.outputs;
    let x = shape.first[1] + (column * STRIDE) as i64;
    let lanes = LANES.min(columns - column);
    // SAFETY: lines and lanes outside the image are not read; behind a row's end is written only
    // where there is room.
    unsafe {
        // Of every vector that is loaded of a row: with a stride of two, two for the first two taps
        // and two for the third.
        let mut masks = [Mask::of(0..0); 4];
        let mut load = 0;
        while CUT && load < 4 {
            let ahead = if STRIDE == 1 { load } else { load % 2 * LANES + load / 2 * 2 };
            masks[load] = inside(x + ahead as i64, shape.extents[1]);
            load += 1;
        }
        let mut factors = [Single::zero(); TAPS * TAPS];
        let mut tap = 0;
        while tap < TAPS * TAPS {
            factors[tap] = Single::splat(plane.factors.add(tap));
            tap += 1;
        }
        let mut row = top;
        while row < bottom {
            let y = shape.first[0] + row as i64 * shape.stride;
            // Of several rows all lines are inside. Lanes behind a row's end are the beginning of
            // the next rows, which are written later.
            let fits = |count: usize| {
                let lines = ((count - 1) * STRIDE + TAPS) as i64;
                row + count <= bottom
                    && shape.stride == STRIDE as i64
                    && y >= 0
                    && y + lines <= shape.extents[0]
                    && (lanes == LANES
                        || shape.apart == columns as isize && (rows + 1 - row - count) * columns >= LANES)
            };
            row += if fits(4) {
                lines::<STRIDE, CUT, 4>(shape, f32_epilogue, plane, [row, column], &factors, &masks)
            } else if fits(2) {
                lines::<STRIDE, CUT, 2>(shape, f32_epilogue, plane, [row, column], &factors, &masks)
            } else {
                lines::<STRIDE, CUT, 1>(shape, f32_epilogue, plane, [row, column], &factors, &masks)
            };
        }
    }
}

/// A vector of outputs in each of `R` rows, which share the lines that they see; tells how many
/// rows those are.
///
/// # Safety
/// As for [`plane`]; of several rows all lines are inside, and there is room for whole vectors.
#[inline(always)]
unsafe fn lines<const STRIDE: usize, const CUT: bool, const R: usize>(
    shape: &Shape, f32_epilogue: &F32Epilogue, plane: &Plane, [row, column]: [usize; 2],
    factors: &[Vector; TAPS * TAPS], masks: &[Mask; 4],
) -> usize {
    let [rows, columns] = shape.outputs;
    let y = shape.first[0] + row as i64 * shape.stride;
    let x = shape.first[1] + (column * STRIDE) as i64;
    let from = plane.image.wrapping_offset((y * shape.pitch + x) as isize);
    // SAFETY: lines and lanes outside the image are not read, and the outputs have room.
    unsafe {
        macro_rules! load {
            ($number:literal, $from:expr) => {
                if CUT { masks[$number].load($from) } else { Single::load($from) }
            };
        }
        let mut acc = [[Single::zero()]; R];
        let mut line = 0;
        while line < (R - 1) * STRIDE + TAPS {
            if R > 1 || ((y + line as i64) as u64) < shape.extents[0] as u64 {
                let from = from.wrapping_offset(line as isize * shape.pitch as isize);
                let x = if STRIDE == 1 {
                    [load!(0, from), load!(1, from.wrapping_add(1)), load!(2, from.wrapping_add(2))]
                } else {
                    let (low, high) = (load!(0, from), load!(1, from.wrapping_add(LANES)));
                    let (low2, high2) =
                        (load!(2, from.wrapping_add(2)), load!(3, from.wrapping_add(LANES + 2)));
                    let [even, odd] = unzip(low, high);
                    [even, odd, unzip(low2, high2)[0]]
                };
                let mut r = 0;
                while r < R {
                    if line >= r * STRIDE && line < r * STRIDE + TAPS {
                        let tap = (line - r * STRIDE) * TAPS;
                        acc[r][0] = Single::fma(x[0], factors[tap], acc[r][0]);
                        acc[r][0] = Single::fma(x[1], factors[tap + 1], acc[r][0]);
                        acc[r][0] = Single::fma(x[2], factors[tap + 2], acc[r][0]);
                    }
                    r += 1;
                }
            }
            line += 1;
        }
        let mut ends = Ends::new(false, None);
        let mut r = 0;
        while r < R {
            if STRIDE == 2 {
                acc[r][0] = in_order(acc[r][0]);
            }
            ends.to[r] = plane.to.wrapping_offset((row + r) as isize * shape.apart).wrapping_add(column);
            ends.bias[r] = plane.bias;
            r += 1;
        }
        let lanes = LANES.min(columns - column);
        let follow = shape.apart == columns as isize && (rows - row) * columns >= LANES;
        if R > 1 || lanes == LANES || follow {
            registers::epilogue(f32_epilogue, acc, &ends);
        } else {
            let (mut some, to) = ([0.0; LANES], ends.to[0]);
            ends.to[0] = some.as_mut_ptr();
            registers::epilogue(f32_epilogue, acc, &ends);
            to.copy_from_nonoverlapping(some.as_ptr(), lanes);
        }
    }
    R
}

/// Which of the positions from `x` on are inside an image of `extent` positions.
///
/// # Safety
/// The processor has AVX2 or NEON.
#[inline(always)]
unsafe fn inside(x: i64, extent: i64) -> Mask {
    // Further outside all lanes are masked in either case.
    let [first, end] = [-x, extent - x].map(|lane| lane.clamp(0, LANES as i64) as usize);
    // SAFETY: the processor has such vectors.
    unsafe { Mask::of(first..end) }
}
