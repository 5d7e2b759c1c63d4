//! The planes of one block of outputs: where their cells come from, and the copy.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::{PREFETCH_DISTANCE, Planes};
use crate::backend::cpu::contract::kernel::simd::Simd;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::backend::cpu::contract::operands::pack::quads;
use crate::backend::cpu::contract::operands::pack::{MANY, PackScalar, Source, pairs, row, transpose_many};
use crate::backend::cpu::contract::operands::points::OperandOffsets;
use crate::backend::cpu::contract::operands::source::Held;
use crate::backend::cpu::stream::fetch;
use crate::dtype::convert::{Element, with_element};
use crate::ops::Scaling;

/// Channels side by side that are turned at once.
const STAGED: usize = 64;

/// The planes of a block of outputs.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub rows: usize,
    pub columns: usize,
    pub pitch: usize,
    pub plane: usize,
    pub phases: usize,
}

impl Block {
    /// The cells of `channels` channels.
    pub fn cells(&self, channels: usize) -> usize {
        channels * self.phases * self.plane
    }

    /// Where the vectors of every cell of the sum are, for `channels` channels.
    pub fn offsets(&self, planes: &Planes, channels: usize, offsets: &mut Vec<i32>) {
        offsets.clear();
        let [slow, fast] = &planes.dims;
        for t0 in 0..slow.taps.extent {
            let (down, phase0) = slow.tap(t0);
            for t1 in 0..fast.taps.extent {
                let (along, phase1) = fast.tap(t1);
                let plane = phase0 * fast.phases.len() + phase1;
                offsets.push((plane * self.plane + down * self.pitch + along) as i32);
            }
        }
        // Of every channel the same.
        let (taps, apart) = (offsets.len(), self.cells(1));
        // At most the cells of a K block of the sum.
        offsets.resize(channels * taps, 0);
        for cell in taps..offsets.len() {
            offsets[cell] = offsets[cell - taps] + apart as i32;
        }
    }

    /// The rows of elements that the planes of a channel consist of, for the outputs from a row and
    /// a column on; all other cells are 0.
    pub fn spans(&self, planes: &Planes, first: [usize; 2]) -> Vec<Span> {
        // At most the rows of a block of planes, of which kernels have a few hundred.
        let mut spans = Vec::with_capacity(self.most_spans(planes));
        self.push_spans(planes, first, &mut spans);
        spans
    }

    /// How many spans there are at most.
    pub fn most_spans(&self, planes: &Planes) -> usize {
        self.phases * planes.dims[0].cells(self.rows)
    }

    /// Adds the [`spans`](Block::spans) to a list.
    pub fn push_spans(&self, planes: &Planes, [first_row, first_column]: [usize; 2], spans: &mut Vec<Span>) {
        let [slow, fast] = &planes.dims;
        let anchor = slow.anchor * slow.unit + fast.anchor * fast.unit;
        for (p0, p1) in (0..slow.phases.len()).flat_map(|p0| (0..fast.phases.len()).map(move |p1| (p0, p1))) {
            let plane = (p0 * fast.phases.len() + p1) * self.plane;
            let (x1, cells) = (fast.position(first_column, 0, p1), self.pitch as i64);
            let (low, high) = if fast.bound.is_none() {
                (0, cells)
            } else {
                let until = |x: i64| (x - x1 + fast.stride - 1).div_euclid(fast.stride).clamp(0, cells);
                (until(0), until(fast.extent))
            };
            for u in 0..slow.cells(self.rows) {
                let x0 = slow.position(first_row, u, p0);
                if low < high && (slow.bound.is_none() || (x0 as u64) < slow.extent as u64) {
                    let from = x0 * slow.unit + (x1 + low * fast.stride) * fast.unit - anchor;
                    let to = plane + u * self.pitch + low as usize;
                    spans.push(Span { from, to, len: (high - low) as usize });
                }
            }
        }
    }

    /// Copies the channels `begin..end`, of which each has `spans`. If `kept`, cells between them
    /// are 0 already.
    ///
    /// # Safety
    /// Every element inside the bounds is readable and aligned; `to` has room for the
    /// [`cells`](Block::cells).
    #[allow(clippy::too_many_arguments, reason = "a block of a block of a block")]
    pub unsafe fn copy<S: Simd<Scalar: PackScalar>>(
        &self, planes: &Planes, source: Source<'_>, outer: &OperandOffsets, spans: &[Span],
        Range { start, end }: Range<usize>, to: *mut S::Scalar, kept: bool,
    ) {
        if cfg!(debug_assertions) {
            self.assert_holds(planes, source, outer, spans, start..end);
        }
        if S::K_PACK == 1 && planes.are_interleaved() {
            // SAFETY: elements inside the bounds are readable, and `to` has room for the block.
            return unsafe { self.copy_transposed(planes, source, outer, spans, start..end, to, kept) };
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if S::K_PACK == 4 {
            // SAFETY: elements inside the bounds are readable, `to` has room for the block, and
            // parts are bytes.
            return unsafe { self.copy_quads(planes, source, outer, spans, start..end, to.cast()) };
        }
        // SAFETY: elements inside the bounds are readable, and `to` has room for the block.
        with_element!(source.scalar, E => unsafe {
            assert!(<S::Scalar as PackScalar>::is_made_of::<E>(), "sums of {}", source.scalar.name());
            self.copy_of::<S::Portable, E>(planes, source, outer, spans, start..end, to, kept);
        });
    }

    /// Asserts that a copy reads elements of the operand only.
    fn assert_holds(
        &self, planes: &Planes, source: Source<'_>, outer: &OperandOffsets, spans: &[Span],
        channels: Range<usize>,
    ) {
        let by = planes.dims[1].stride * planes.dims[1].unit;
        for channel in channels {
            let mut point = planes.channels.point(channel);
            point.add(outer, 1);
            for span in spans.iter().filter(|_| planes.is_inside(source, &point)) {
                source.held.assert_holds(point.at[source.slot] + span.from, by, span.len);
            }
        }
    }

    /// The same for one channel of [dense](Planes::are_dense) planes, all of it converted at once:
    /// `near` has room for what the spans reach. No more rows of their own are converted then, of
    /// which short ones cost more than their elements.
    ///
    /// # Safety
    /// As for [`copy`](Block::copy).
    #[allow(clippy::too_many_arguments, reason = "a block of a block of a block")]
    pub unsafe fn copy_near<S: Simd<Scalar: PackScalar>>(
        &self, planes: &Planes, source: Source<'_>, place: &OperandOffsets,
        (spans, reach): (&[Span], &Range<i64>), near: *mut S::Scalar, to: *mut S::Scalar, kept: bool,
    ) {
        let (mut source, mut place) = (source, *place);
        if let (Some(convert), Some(part)) = (source.convert, S::Scalar::SCALAR)
            && planes.is_inside(source, &place)
        {
            let from = (place.at[1] + reach.start) as isize * source.scalar.size() as isize;
            let len = (reach.end - reach.start) as usize;
            source.held.assert_holds(place.at[1] + reach.start, 1, len);
            // SAFETY: the elements are inside the bounds, and `near` has room for them.
            unsafe { convert(near.cast(), source.data.wrapping_offset(from), len, Scaling::MOVE) };
            source.data = near.wrapping_offset(-reach.start as isize).cast();
            (source.scalar, source.convert, place.at[1]) = (part, None, 0);
            source.held = Held::UNKNOWN;
        }
        // SAFETY: what was converted is where its source would be, and `to` has room for the block.
        unsafe { self.copy::<S>(planes, source, &place, spans, 0..1, to, kept) }
    }

    /// The elements from the first to the last one of all spans.
    pub fn reach(&self, planes: &Planes, spans: &[Span]) -> Range<i64> {
        let step = planes.dims[1].stride * planes.dims[1].unit;
        let last = |span: &Span| span.from + (span.len as i64 - 1) * step + 1;
        let (first, end) = (spans.iter().map(|span| span.from).min(), spans.iter().map(last).max());
        first.unwrap_or(0)..end.unwrap_or(0)
    }

    /// The same for [interleaved](Planes::are_interleaved) channels, of many positions at once.
    ///
    /// # Safety
    /// As for [`copy`](Block::copy).
    #[allow(clippy::too_many_arguments, reason = "a block of a block of a block")]
    #[inline(never)]
    unsafe fn copy_transposed<P: PackScalar>(
        &self, planes: &Planes, source: Source<'_>, outer: &OperandOffsets, spans: &[Span],
        channels: Range<usize>, to: *mut P, kept: bool,
    ) {
        let mut point = planes.channels.point(channels.start);
        point.add(outer, 1);
        let spans = if planes.is_inside(source, &point) { spans } else { &[] };
        let (plane, size) = (self.cells(1), source.scalar.size() as isize);
        let step = (planes.dims[1].stride * planes.dims[1].unit) as isize * size;
        let mut staged = [const { MaybeUninit::<[P; STAGED]>::uninit() }; MANY];
        // SAFETY: cells lie in `to`, elements are read inside the bounds only.
        unsafe {
            for channel in 0..if kept && !spans.is_empty() { 0 } else { channels.len() } {
                let mut done = 0;
                for (begin, end) in spans.iter().map(|s| (s.to, s.to + s.len)).chain([(plane, plane)]) {
                    to.add(channel * plane + done).write_bytes(0, begin - done);
                    done = end;
                }
            }
            for first in (0..channels.len()).step_by(STAGED) {
                let count = STAGED.min(channels.len() - first);
                let from = source.data.wrapping_offset((point.at[1] as isize + first as isize) * size);
                let to = to.wrapping_add(first * plane);
                for span in spans {
                    let from = from.wrapping_offset(span.from as isize * size);
                    for cell in (0..span.len).step_by(MANY) {
                        let lines = MANY.min(span.len - cell);
                        let mut from: [_; MANY] =
                            std::array::from_fn(|l| from.wrapping_offset((cell + l) as isize * step));
                        if let Some(convert) = source.convert {
                            for (from, staged) in from[..lines].iter_mut().zip(&mut staged) {
                                let near = staged.as_mut_ptr().cast::<u8>();
                                convert(near, *from, count, Scaling::MOVE);
                                *from = near;
                            }
                        }
                        let from = from.map(<*const u8>::cast::<P>);
                        let to = to.add(span.to + cell);
                        transpose_many(&from[..lines], count, to, plane as isize, source.isa);
                    }
                }
            }
        }
    }

    /// [`copy`](Block::copy) of bytes, four channels to a cell.
    ///
    /// # Safety
    /// As for [`copy`](Block::copy).
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    unsafe fn copy_quads(
        &self, planes: &Planes, source: Source<'_>, outer: &OperandOffsets, spans: &[Span],
        channels: Range<usize>, to: *mut u8,
    ) {
        const K_PACK: usize = 4;
        let step = (planes.dims[1].stride * planes.dims[1].unit) as isize;
        let ahead = planes.channels.loops.last().map_or(0, |axis| axis.by.at[1] * PREFETCH_DISTANCE) as isize;
        let place = |channel: usize| {
            let mut point = planes.channels.point(channel);
            point.add(outer, 1);
            let at = source.data.wrapping_offset(point.at[1] as isize);
            if planes.is_inside(source, &point) { at } else { std::ptr::null() }
        };
        // Channels that are evenly apart, and alike.
        let even = match &planes.channels.loops[..] {
            [axis] if axis.by.pos == OperandOffsets::default().pos => {
                Some((place(0), axis.by.at[1] as isize))
            }
            _ => None,
        };
        for (number, first) in channels.clone().step_by(K_PACK).enumerate() {
            let to = to.wrapping_add(number * self.cells(1) * K_PACK);
            let mut rows = [std::ptr::null::<u8>(); K_PACK];
            for (row, channel) in rows.iter_mut().zip(first..channels.end) {
                *row = match even {
                    Some((from, _)) if from.is_null() => from,
                    Some((from, by)) => from.wrapping_offset(channel as isize * by),
                    None => place(channel),
                };
            }
            // SAFETY: cells lie in `to`, elements are read inside the bounds only.
            unsafe {
                let clear = |cells: Range<usize>| {
                    let zero = if source.is_shifted { 0x80 } else { 0 };
                    to.add(cells.start * K_PACK).write_bytes(zero, cells.len() * K_PACK);
                };
                let mut done = 0;
                for span in spans {
                    clear(done..span.to);
                    let mut rows = rows;
                    for row in rows.iter_mut().filter(|row| !row.is_null()) {
                        *row = row.wrapping_offset(span.from as isize);
                        if self.rows == 1 {
                            // Short runs from many pages: the processor does not see the next
                            // channels coming.
                            (0..span.len as isize * step.abs())
                                .step_by(64)
                                .for_each(|i| fetch(row.wrapping_offset(ahead + i)));
                        }
                    }
                    quads(rows, step, span.len, to.add(span.to * K_PACK), source.is_shifted);
                    done = span.to + span.len;
                }
                clear(done..self.cells(1));
            }
        }
    }

    /// # Safety
    /// As for [`copy`](Block::copy).
    #[allow(clippy::too_many_arguments, reason = "a block of a block of a block")]
    unsafe fn copy_of<S: Simd<Scalar: PackScalar>, E: Element>(
        &self, planes: &Planes, source: Source<'_>, outer: &OperandOffsets, spans: &[Span],
        channels: Range<usize>, to: *mut S::Scalar, kept: bool,
    ) {
        let fast = &planes.dims[1];
        let (per, step) = (S::K_PACK, (fast.stride * fast.unit) as isize);
        let data = source.data.cast::<E>();
        // SAFETY: cells lie in `to`, elements are read inside the bounds only.
        unsafe {
            if !channels.len().is_multiple_of(per) {
                // The last cell of the sum has no second channel.
                let last = self.cells(channels.len() / per) * per;
                to.add(last).write_bytes(0, self.cells(1) * per);
            }
            // Short runs from many pages: the processor does not see the next channels coming.
            let ahead = planes.channels.loops.last().map_or(0, |axis| axis.by.at[1] * PREFETCH_DISTANCE);
            let point = |channel: usize| {
                let mut point = planes.channels.point(channel);
                point.add(outer, 1);
                point
            };
            let is_inside = |point: &OperandOffsets| planes.is_inside(source, point);
            let mut next = channels.start;
            while next < channels.end {
                let (channel, number) = (next, next - channels.start);
                let to = to.add(self.cells(number / per) * per + number % per);
                let other = (per == 2 && channel + 1 < channels.end).then(|| point(channel + 1));
                let point = point(channel);
                let inside = is_inside(&point);
                // Both channels of a cell at once, where they are alike.
                let other = other.filter(|other| number.is_multiple_of(2) && inside && is_inside(other));
                let other = other.map(|other| (other.at[1] - point.at[1]) as isize);
                let parts = if other.is_some() { 2 } else { 1 };
                next += parts;
                let clear = |cells: Range<usize>| {
                    if per == 1 {
                        to.add(cells.start).write_bytes(0, cells.len());
                        return;
                    }
                    for i in cells {
                        (0..parts).for_each(|k| to.add(i * per + k).write(S::Scalar::default()));
                    }
                };
                let mut done = 0;
                for span in if inside { spans } else { &[] } {
                    let from = point.at[1] + span.from;
                    if self.rows == 1 {
                        let line = (64 / size_of::<E>() as i64).max(1);
                        (0..span.len as i64 * step.abs() as i64)
                            .step_by(line as usize)
                            .for_each(|i| fetch(data.wrapping_offset((from + ahead + i) as isize).cast()));
                    }
                    if !kept && done < span.to {
                        clear(done..span.to);
                    }
                    let (from, cells) = (data.offset(from as isize), to.add(span.to * per));
                    match other {
                        Some(far) => pairs::<S, E>([from, from.offset(far)], step, span.len, cells),
                        None => row::<S, E>(source.convert, from, step, span.len, cells),
                    }
                    done = span.to + span.len;
                }
                if !kept || !inside {
                    clear(done..self.cells(1));
                }
            }
        }
    }
}

/// Neighbours that a channel's planes have: where the first is, less the place of the channel, its
/// cell, and how many.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    from: i64,
    to: usize,
    len: usize,
}
