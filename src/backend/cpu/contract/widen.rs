//! Narrow operands in binary32: where memory is dense and every element is used often enough, all
//! of an operand is converted at once, so that kernels read it in place as they do with binary32
//! instead of converting what they pack.
//!
//! Results do not depend on the conversion: a narrow number is the same number in binary32, and the
//! order of a sum depends on the loops alone. Of bytes this holds as long as binary32 holds every
//! sum.

use super::gemm::engine::Shared;
use crate::backend::cpu::row::between;
use crate::backend::cpu::{Machine, arena, threads};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::contract::{Accumulate, Contract, Role};

/// Filters of a group up to which lanes are those of several groups: more fill vectors of their
/// own.
pub(super) const FILTERS: i64 = 8;

/// Uses of an element from which on a copy of it pays; where sums are of few channels, there is a
/// kernel for no others, even of a single tap.
const USES: i64 = 8;
const USES_OF_CHANNELS: i64 = 1;

/// Bytes of copies at most.
const COPIES: usize = 32 << 20;

/// Bytes of the copy of some images, which threads keep from call to call and find in the caches.
const IMAGES: usize = 4 << 20;

/// Elements that are converted at once.
const GRAIN: usize = 16 << 10;

/// Products whose sum binary32 holds, whatever the bytes are.
const EXACT: i64 = 512;

/// Terms of a sum of bytes up to which pairs of 16 bits gain too little: of planes, and of pixels
/// read in place.
const PAIRS_THRESHOLD: [i64; 2] = [48, 160];

/// The operands of a step that become binary32.
pub(super) struct Widen {
    /// The lowest offset and the elements of `a` and `b`, if they are converted.
    spans: [Option<(i64, usize)>; 2],
    /// The step with those operands.
    pub(super) step: Contract,
}

impl Widen {
    /// What pays for a canonical step, if anything does, where products of bytes are added four at
    /// a time or not.
    pub(super) fn of(step: &Contract, vnni: bool) -> Option<Widen> {
        let bytes = step.accumulate == Accumulate::Int32;
        if step.accumulate == Accumulate::Double || bytes && !are_few(step, vnni) {
            return None;
        }
        let types = [step.a, step.b];
        let narrow = types.map(|scalar| scalar.size() < size_of::<f32>());
        if narrow == [false; 2] {
            return None;
        }
        let products: i64 =
            [Role::Batch, Role::M, Role::N, Role::K].iter().map(|&role| step.extent(role)).product();
        let types = [step.a, step.b];
        let mut room = COPIES / size_of::<f32>();
        let uses = if step.extent(Role::N) == 1 || are_groups(step) { USES_OF_CHANNELS } else { USES };
        let single = are_single(step);
        let spans = [0, 1].map(|index| {
            if !narrow[index] || index == 0 && single {
                return None;
            }
            let (low, len) = dense(step, index + 1)?;
            // Beside pixels in place the filter is packed, and converted there; not that of single
            // channels.
            let packed = index == 1 && !is_planar(step) && step.extent(Role::N) > 1;
            let pays = if packed { bytes } else { products / uses >= len as i64 || bytes && index == 1 };
            (pays && len <= room).then(|| {
                room -= len;
                (low, len)
            })
        });
        let is_wide =
            |index: usize| spans[index].is_some() || types[index] == Scalar::F32 || index == 0 && single;
        if bytes && !(is_wide(0) && is_wide(1)) || spans == [None; 2] {
            return None;
        }
        let kind = |index: usize| if spans[index].is_some() { Scalar::F32 } else { types[index] };
        let (a, b) = (kind(0), kind(1));
        let mut step = *step;
        (step.a, step.b, step.accumulate) = (a, b, Accumulate::Single);
        Some(Widen { spans, step })
    }

    /// Calls `run` with the addresses of `a` and `b` for the step.
    ///
    /// # Errors
    /// Host allocation, with nothing written; what `run` returns.
    ///
    /// # Safety
    /// The operands are those of the step that this was made of, which is `from`, and can be read.
    pub(super) unsafe fn run(
        &self, from: &Contract, at: [*const u8; 2], machine: Machine,
        run: impl FnOnce([*const u8; 2]) -> Result<()>,
    ) -> Result<()> {
        let types = [from.a, from.b];
        let cells = self.spans.map(|span| span.map_or(0, |(_, len)| len.next_multiple_of(16)));
        arena::with((cells[0] + cells[1]) * size_of::<f32>(), |memory| {
            let mut wide = at;
            for (index, span) in self.spans.iter().enumerate() {
                let Some((low, len)) = *span else { continue };
                let to = Shared(memory.cast::<f32>().wrapping_add(index * cells[0]));
                let source = at[index].wrapping_offset(low as isize * types[index].size() as isize);
                let source = Shared(source.cast_mut());
                let convert = between(types[index], Scalar::F32, Scaling::MOVE, machine.isa);
                threads::run(machine.threads, len.div_ceil(GRAIN), &|piece| {
                    let begin = piece * GRAIN;
                    let count = GRAIN.min(len - begin);
                    let from = source.at(begin * types[index].size());
                    // SAFETY: the elements are the operand's; pieces are apart.
                    unsafe { convert(to.at(begin).cast(), from, count, Scaling::MOVE) };
                })?;
                wide[index] = to.at(0).wrapping_offset(-low as isize).cast_const().cast();
            }
            run(wide)
        })
    }
}

/// Calls `work` with the parts of a canonical step, one after the other: some images each where
/// sums are of few channels, so that a copy of their elements in binary32 is small.
///
/// # Errors
/// What `work` returns. Parts after the first need no more memory than it.
pub(super) fn in_parts(
    step: &Contract, vnni: bool, mut work: impl FnMut(&Contract) -> Result<()>,
) -> Result<()> {
    let Some((images, count)) = images(step, vnni) else { return work(step) };
    let extent = step.nest.axes()[images].extent;
    for first in (0..extent).step_by(count as usize) {
        work(&step.part(images, first, count.min(extent - first)))?;
    }
    Ok(())
}

/// The loop over images of a step of few channels, and how many of them are a part, if all are too
/// many.
fn images(step: &Contract, vnni: bool) -> Option<(usize, i64)> {
    let few = step.extent(Role::N) == 1 || are_groups(step);
    if !few || step.a.size() >= size_of::<f32>() || is_planar(step) {
        return None;
    }
    let (_, len) = dense(step, 1)?;
    let is_free =
        |index: usize| step.bounds().iter().all(|bound| bound.axes.iter().all(|&k| usize::from(k) != index));
    let outer = step.loops(Role::M).filter(|&(index, axis)| is_free(index) && axis.strides[1] != 0);
    let (index, axis) = outer.max_by_key(|(_, axis)| axis.strides[1].unsigned_abs())?;
    let each = len / axis.extent as usize;
    let count = (IMAGES / size_of::<f32>() / each.max(1)).max(1) as i64;
    let pays = || Widen::of(&step.part(index, 0, count), vnni).is_some_and(|wide| wide.spans[0].is_some());
    (count < axis.extent && pays()).then_some((index, count))
}

/// Whether the sums of a step of bytes are few enough products for binary32, and better computed
/// there.
fn are_few(step: &Contract, vnni: bool) -> bool {
    let terms = step.extent(Role::K);
    // Sums that leave as 32-bit integers need no conversion.
    let narrow = step.dst != Scalar::I32 && step.dst != Scalar::I64;
    let few = match is_planar(step) {
        true if vnni => 0,
        true => PAIRS_THRESHOLD[0],
        false if vnni && has_whole_cells(step) => 0,
        false => PAIRS_THRESHOLD[1],
    };
    narrow && terms <= EXACT && (terms <= few || step.extent(Role::N) == 1 || are_groups(step))
}

/// Whether neighbours in the destination are the few filters of several groups.
fn are_groups(step: &Contract) -> bool {
    let filters = step.extent(Role::N);
    let groups = step.loops(Role::Batch).any(|(_, axis)| axis.strides[0] == filters);
    groups && filters <= FILTERS && step.loops(Role::N).all(|(_, axis)| axis.strides[0] == 1)
}

/// Whether neighbours of the sum in `a` fill cells of four bytes, so that these are read where they
/// lie.
fn has_whole_cells(step: &Contract) -> bool {
    step.loops(Role::K).last().is_some_and(|(_, axis)| axis.strides[1] == 1 && axis.extent % 4 == 0)
}

/// Whether sums are over the taps of planes, each of which is converted when it is copied, and
/// stays in the caches.
fn are_single(step: &Contract) -> bool {
    is_planar(step) && step.extent(Role::N) == 1 && step.extent(Role::K) <= step.extent(Role::M)
}

/// Whether neighbours in the destination belong to `a`, as the pixels of planes do.
fn is_planar(step: &Contract) -> bool {
    step.loops(Role::M).any(|(_, axis)| axis.strides[0] == 1)
}

/// The lowest offset and the number of the elements of an operand, if they lie side by side without
/// gaps.
fn dense(step: &Contract, slot: usize) -> Option<(i64, usize)> {
    let mut low = step.nest.offsets[slot];
    let mut dims = [(0_i64, 0_i64); crate::layout::MAX_AXES];
    let mut count = 0;
    let mut push = |low: &mut i64, extent: i64, by: i64| {
        if extent > 1 && by != 0 {
            *low += (extent - 1) * by.min(0);
            dims[count] = (by.abs(), extent);
            count += 1;
        }
    };
    let bounds = if slot == 1 { step.bounds() } else { &[] };
    for (index, axis) in step.nest.axes().iter().enumerate() {
        if !bounds.iter().any(|bound| bound.axes.contains(&(index as u8))) {
            push(&mut low, axis.extent, axis.strides[slot]);
        }
    }
    for bound in bounds {
        // All positions: how far one is from the next, either loop says.
        let of = |k: usize| (step.nest.axes()[usize::from(bound.axes[k])].strides[slot], bound.steps[k]);
        let (by, steps) = [of(0), of(1)].into_iter().find(|&(_, steps)| steps != 0)?;
        if by % steps != 0 || bound.axes[0] == bound.axes[1] {
            return None;
        }
        low -= bound.start * (by / steps);
        push(&mut low, bound.extent, by / steps);
    }
    let dims = &mut dims[..count];
    dims.sort_unstable();
    let mut len = 1_i64;
    for &(by, extent) in dims.iter() {
        if by != len {
            return None;
        }
        len = len.checked_mul(extent)?;
    }
    Some((low, usize::try_from(len).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Dims, Layout, format};
    use crate::ops::contract::{Geometry, Side, Terms};

    /// A convolution of 12 x 9 pixels in `groups` groups, dims in `order`.
    fn forward(scalar: Scalar, groups: i64, [stride, pad]: [i64; 2], order: &[usize], gap: i64) -> Contract {
        let out = |extent: i64| (extent + 2 * pad - 3) / stride + 1;
        let layout = |dims: [i64; 4], gap: i64| {
            let mut outer = dims;
            outer[order[3]] += gap;
            let strides = format::packed_strides(&outer, order).expect("it is small");
            Layout { dims: Dims::new(&dims), strides, split: None }
        };
        let x = layout([2, 4 * groups, 12, 9], gap);
        let w = layout([6 * groups, 4, 3, 3], 0);
        let y = layout([2, 6 * groups, out(12), out(9)], 0);
        let [y, x, w] = [&y, &x, &w].map(|layout| Side { layout, scalar });
        let geometry = Geometry {
            padding: Dims::new(&[pad; 2]),
            strides: Dims::new(&[stride; 2]),
            dilation: Dims::new(&[1, 1]),
            groups,
            flip: gap == 0 && pad == 1,
        };
        let acc = if scalar == Scalar::I8 { Accumulate::Int32 } else { Accumulate::Single };
        let mut result = None;
        Contract::forward(y, x, w, &geometry, acc, &Terms::scaled(Scaling::MOVE), &mut |step| {
            result = Some(step.canonical());
            Ok(())
        })
        .expect("the dims fit");
        result.expect("there is a step")
    }

    /// The lowest and the highest offset of what a step reads of an operand.
    fn touched(step: &Contract, slot: usize) -> (i64, i64) {
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        let axes = step.nest.axes();
        let mut index = vec![0_i64; axes.len()];
        loop {
            let inside = step.bounds().iter().all(|bound| {
                let [first, second] = bound.axes.map(|axis| index[usize::from(axis)]);
                (0..bound.extent).contains(&bound.position(first, second))
            });
            if inside || slot == 2 {
                let moved = axes.iter().zip(&index).map(|(axis, i)| axis.strides[slot] * i).sum::<i64>();
                let at = step.nest.offsets[slot] + moved;
                (low, high) = (low.min(at), high.max(at));
            }
            let Some(next) = (0..axes.len()).rev().find(|&i| index[i] + 1 < axes[i].extent) else { break };
            index[next] += 1;
            index[next + 1..].fill(0);
        }
        (low, high)
    }

    #[test]
    fn spans_are_what_a_step_reads() {
        for groups in [1, 3] {
            for geometry in [[1, 0], [1, 1], [2, 1], [1, 2]] {
                for order in [[0, 1, 2, 3], [0, 2, 3, 1], [1, 2, 3, 0]] {
                    let step = forward(Scalar::F16, groups, geometry, &order, 0);
                    for slot in [1, 2] {
                        let (low, len) = dense(&step, slot).expect("no gaps");
                        let (first, last) = touched(&step, slot);
                        let (elements, end) = (if slot == 1 { 864 } else { 216 }, low + len as i64);
                        assert_eq!(len, elements * groups as usize, "{step}");
                        assert!(low <= first && last < end, "{low}, {len}: {step}");
                    }
                    // Memory between elements is nobody's to read.
                    let step = forward(Scalar::F16, groups, geometry, &order, 1);
                    assert_eq!(dense(&step, 1), None, "{step}");
                    assert!(Widen::of(&step, false).is_none_or(|wide| wide.step.a == Scalar::F16));
                }
            }
        }
    }

    #[test]
    fn what_is_narrow_and_used_often_is_widened() {
        let order = [0, 1, 2, 3];
        let of = |scalar| Widen::of(&forward(scalar, 1, [1, 1], &order, 0), false).map(|wide| wide.step);
        let step = of(Scalar::F16).expect("it pays");
        assert_eq!((step.a, step.b, step.dst), (Scalar::F32, Scalar::F32, Scalar::F16));
        let step = of(Scalar::I8).expect("36 products to a sum");
        assert_eq!((step.a, step.b, step.accumulate), (Scalar::F32, Scalar::F32, Accumulate::Single));
        assert!(of(Scalar::F32).is_none() && of(Scalar::F64).is_none());
    }
}
