//! Numbers on their way between the operands of a step and rows of scratch - or left where they
//! are, if they lie in memory as rows hold them.

use super::{Job, Rows, Span};
use crate::backend::function::Real;
use crate::dtype::convert::{convert, with_element};
use crate::dtype::numbers::Math;
use crate::ops::Scaling;
use crate::ops::causal::LANES;

impl<T: Real + Math> Job<'_, T> {
    /// Reads the numbers of `span` of the line that starts at `first`.
    ///
    /// # Safety
    /// They are readable.
    pub(super) unsafe fn read(&self, operand: usize, first: i64, stride: i64, span: Span, to: &mut [T]) {
        let first = (first + span.begin as i64 * stride) as isize;
        let size = self.step.scalar.size();
        let from = self.at[operand].pointer().wrapping_offset(first * size as isize);
        debug_assert_eq!(to.len(), span.len());
        if stride == 1 && from.addr().is_multiple_of(size) {
            // SAFETY: `from` is aligned and has as many elements as `to`, side by side.
            return unsafe { (self.widen)(to.as_mut_ptr().cast(), from, span.len(), Scaling::MOVE) };
        }
        with_element!(self.step.scalar, S => for (i, to) in to.iter_mut().enumerate() {
            // SAFETY: `from` has as many elements as `to`, a stride apart.
            *to = convert(unsafe { from.cast::<S>().offset(i as isize * stride as isize).read_unaligned() });
        });
    }

    /// Where the numbers of `span` of a line start, if they lie in memory as rows hold them.
    fn in_place(&self, operand: usize, [sequence, channel]: [i64; 2], span: Span) -> Option<*mut T> {
        let (step, first) = (self.step, self.step.line(sequence, channel) + span.begin as i64);
        let at = self.at[operand].pointer().cast::<T>().wrapping_offset(first as isize);
        (step.scalar == T::SCALAR && step.stride() == 1 && at.is_aligned()).then_some(at)
    }

    /// The numbers of `span` of a line: where they are, or else a row of them.
    ///
    /// # Safety
    /// As for [`run`](fn@super::run).
    pub(super) unsafe fn numbers<'r>(
        &self, rows: &mut Rows<T>, operand: usize, place: [i64; 2], span: Span,
    ) -> &'r [T] {
        if let Some(at) = self.in_place(operand, place, span) {
            // SAFETY: positions of the sequence, which nobody writes meanwhile.
            return unsafe { std::slice::from_raw_parts(at, span.len()) };
        }
        let row = rows.take(span.len());
        // SAFETY: the span lies inside the line of the operand.
        unsafe { self.line(operand, place, span, row) };
        row
    }

    /// Calls `make` with room for the numbers of `span` of a line of the destination, all of which
    /// it sets, and has them written: with the place itself where numbers lie in memory as rows
    /// hold them.
    ///
    /// # Safety
    /// As for [`run`](fn@super::run).
    pub(super) unsafe fn made(
        &self, rows: &mut Rows<T>, place: [i64; 2], span: Span, make: impl FnOnce(&mut [T]),
    ) {
        let Some(at) = self.in_place(0, place, span) else {
            let row = rows.take(span.len());
            make(row);
            let (first, stride) = (self.step.line(place[0], place[1]), self.step.stride());
            // SAFETY: the span lies inside the destination, which is this task's alone there.
            return unsafe { self.write(0, first, stride, span, row) };
        };
        // SAFETY: positions of the destination, which are this task's alone, and hold numbers
        // whatever their bits; the machine has the level.
        unsafe {
            let out = std::slice::from_raw_parts_mut(at, span.len());
            make(out);
            (self.kernels.canonical)(out);
        }
    }

    /// Writes the numbers of `span` of the line that starts at `first`.
    ///
    /// # Safety
    /// Their places are writable.
    pub(super) unsafe fn write(
        &self, operand: usize, first: i64, stride: i64, span: Span, numbers: &mut [T],
    ) {
        // SAFETY: the machine has the level.
        unsafe { (self.kernels.canonical)(numbers) };
        let first = (first + span.begin as i64 * stride) as isize;
        let size = self.step.scalar.size();
        let to = self.at[operand].pointer().wrapping_offset(first * size as isize);
        if stride == 1 && to.addr().is_multiple_of(size) {
            // SAFETY: the destination is aligned and has a place for every number, side by side.
            return unsafe { (self.narrow)(to, numbers.as_ptr().cast(), span.len(), Scaling::MOVE) };
        }
        with_element!(self.step.scalar, D => for (i, &number) in numbers.iter().enumerate() {
            // SAFETY: the destination has a place for every number, a stride apart.
            unsafe { to.cast::<D>().offset(i as isize * stride as isize).write_unaligned(convert(number)) };
        });
    }

    /// Writes the gradient of a weight, the sum of its lanes, or adds it to what is there.
    ///
    /// # Safety
    /// Its place is writable, and readable if it is added to.
    pub(super) unsafe fn put(&self, operand: usize, offset: i64, lanes: &mut [T; LANES]) {
        let mut half = LANES / 2;
        while half > 0 {
            (0..half).for_each(|j| lanes[j] = lanes[j] + lanes[j + half]);
            half /= 2;
        }
        // SAFETY: the element is this task's, and readable if sums are added to it.
        unsafe { self.put_sum(operand, offset, lanes[0]) }
    }

    /// Writes the gradient of a weight, or adds it to what is there.
    ///
    /// # Safety
    /// As for [`put`](Job::put).
    pub(super) unsafe fn put_sum(&self, operand: usize, offset: i64, sum: T) {
        with_element!(self.step.gradient, D => {
            // SAFETY: the element is this task's, and readable if sums are added to it.
            unsafe {
                let to = self.at[operand].pointer().cast::<D>().offset(offset as isize);
                let sum = if self.step.adds { convert::<D, T>(to.read_unaligned()) + sum } else { sum };
                to.write_unaligned(convert(sum.canonical()));
            }
        });
    }

    /// One number of an operand.
    ///
    /// # Safety
    /// It is readable.
    pub(super) unsafe fn number(&self, operand: usize, offset: i64) -> T {
        let mut number = [T::ZERO];
        // SAFETY: the operand has this element.
        unsafe { self.read(operand, offset, 1, Span { begin: 0, end: 1 }, &mut number) };
        number[0]
    }

    /// Some positions of a channel of a sequence.
    ///
    /// # Safety
    /// As for [`run`](fn@super::run).
    pub(super) unsafe fn line(
        &self, operand: usize, [sequence, channel]: [i64; 2], span: Span, to: &mut [T],
    ) {
        let step = self.step;
        // SAFETY: positions of the sequence.
        unsafe { self.read(operand, step.line(sequence, channel), step.stride(), span, to) }
    }

    /// The taps of a channel, the oldest first.
    ///
    /// # Safety
    /// As for [`run`](fn@super::run).
    pub(super) unsafe fn weight(&self, operand: usize, channel: i64, to: &mut [T]) {
        let from = self.step.tap(channel, 0);
        let stride = if self.taps > 1 { self.step.tap(channel, 1) - from } else { 1 };
        // SAFETY: the taps.
        unsafe { self.read(operand, from, stride, Span { begin: 0, end: self.taps }, to) }
    }

    /// # Safety
    /// As for [`run`](fn@super::run).
    pub(super) unsafe fn bias(&self, operand: usize, channel: i64) -> Option<T> {
        // SAFETY: the channel's.
        self.step.bias.then(|| unsafe { self.number(operand, channel) })
    }
}
