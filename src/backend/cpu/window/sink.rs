//! Results on their way to the destination: runs that follow one another are converted and written
//! together.

use crate::backend::cpu::Machine;
use crate::backend::cpu::held::Held;
use crate::backend::cpu::row::{self, Row};
use crate::backend::cpu::stream::{self, STREAMING_BYTES, Stream};
use crate::backend::cpu::strided::copy_strided;
use crate::dtype::Scalar;
use crate::ops::Scaling;

/// Bytes of results that are put together: they stay in the first-level cache.
const STAGE_BYTES: usize = 8 << 10;

/// How results are written.
#[derive(Clone, Copy)]
pub(super) struct Way {
    from: usize,
    to: usize,
    scaling: Scaling,
    row: Row,
    is_move: bool,
    /// Past the caches, if results are large and none of the cells is read.
    stream: Option<Stream>,
    /// What the destination holds.
    held: Held,
}

impl Way {
    /// From results of a type to a destination of `bytes` in all.
    pub fn new(from: Scalar, to: Scalar, scaling: Scaling, bytes: usize, machine: Machine) -> Self {
        let is_move = from == to && scaling.is_move();
        let stream = stream::streams(machine.isa).map(|s| s.copy);
        Way {
            from: from.size(),
            to: to.size(),
            scaling,
            row: row::between(from, to, scaling, machine.isa),
            is_move,
            stream: stream.filter(|_| scaling.beta == 0.0 && bytes >= STREAMING_BYTES),
            held: Held::UNKNOWN,
        }
    }

    /// The same, to a destination that holds this.
    pub fn within(self, held: Held) -> Self {
        Way { held, ..self }
    }

    /// Whether results are written as they are, and will be read soon.
    pub fn is_plain(&self) -> bool {
        self.is_move && self.stream.is_none()
    }

    /// With debug assertions, that the destination holds these runs of `n` results, each `by` bytes
    /// behind the one before, which are written past this.
    pub fn assert_holds(&self, dst: *const u8, by: isize, runs: usize, n: usize) {
        self.held.assert_holds_all(dst, by, runs, n * self.to);
    }

    /// Bytes of scratch for runs of at most this many results.
    pub fn bytes(&self, longest: usize) -> usize {
        2 * self.room(longest) * self.from.max(self.to)
    }

    /// Writes `n` results to cells that lie side by side.
    ///
    /// # Safety
    /// The results are readable, and the cells writable, apart from them, and readable if they are
    /// blended.
    pub unsafe fn write(&self, dst: *mut u8, from: *const u8, n: usize) {
        self.held.assert_holds(dst, n * self.to);
        // SAFETY: there are `n` results, and as many cells writable.
        unsafe {
            match self.stream {
                _ if n == 0 => {}
                Some(stream) if self.is_move => stream(dst, from, n * self.to),
                _ if self.is_move => dst.copy_from_nonoverlapping(from, n * self.to),
                _ => (self.row)(dst, from, n, self.scaling),
            }
        }
    }

    fn room(&self, longest: usize) -> usize {
        longest.max(STAGE_BYTES / self.from)
    }
}

/// Runs of results in scratch, not yet written.
pub(super) struct Sink<'a> {
    way: &'a Way,
    stage: *mut u8,
    /// For cells that do not lie side by side.
    cells: *mut u8,
    room: usize,
    filled: usize,
    dst: *mut u8,
}

impl<'a> Sink<'a> {
    /// `scratch` has the [bytes](Way::bytes) of the longest run, and is aligned to a cache line.
    pub fn new(way: &'a Way, scratch: *mut u8, longest: usize) -> Self {
        let room = way.room(longest);
        let cells = scratch.wrapping_add(room * way.from.max(way.to));
        Sink { way, stage: scratch, cells, room, filled: 0, dst: std::ptr::null_mut() }
    }

    /// Where the caller puts the `n` results that go to `dst`, side by side.
    ///
    /// # Safety
    /// The destinations of all runs are writable, and readable if they are blended; runs before
    /// this one are in place.
    pub unsafe fn run<T>(&mut self, dst: *mut u8, n: usize) -> *mut T {
        let next = self.dst.wrapping_add(self.filled * self.way.to);
        if self.filled > 0 && (dst != next || self.filled + n > self.room) {
            // SAFETY: the runs before this one are in place.
            unsafe { self.flush() };
        }
        if self.filled == 0 {
            self.dst = dst;
        }
        let place = self.stage.wrapping_add(self.filled * self.way.from);
        self.filled += n;
        place.cast()
    }

    /// Writes what is there.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    pub unsafe fn flush(&mut self) {
        let (n, way) = (std::mem::take(&mut self.filled), self.way);
        way.held.assert_holds(self.dst, n * way.to);
        // SAFETY: the stage holds `n` results, the destination their places; stage, cells and
        // destination are apart.
        unsafe {
            match way.stream {
                Some(stream) if !way.is_move && n > 0 => {
                    (way.row)(self.cells, self.stage, n, way.scaling);
                    stream(self.dst, self.cells, n * way.to);
                }
                _ => way.write(self.dst, self.stage, n),
            }
        }
    }

    /// Writes the last run, of `n` results, whose destinations are this many bytes apart.
    ///
    /// # Safety
    /// As for [`run`](Self::run); the last run was of `n` results.
    pub unsafe fn strided(&mut self, step: isize, n: usize) {
        let way = self.way;
        self.filled -= n;
        let from = self.stage.wrapping_add(self.filled * way.from);
        let dst = self.dst.wrapping_add(self.filled * way.to);
        way.held.assert_holds_all(dst, step, n, way.to);
        // SAFETY: the destination has `n` places that step apart; the cells are apart from stage
        // and destination.
        unsafe {
            let size = way.to as isize;
            if way.is_move {
                return copy_strided(way.to, dst, step, from, size, n);
            }
            if way.scaling.beta != 0.0 {
                copy_strided(way.to, self.cells, size, dst, step, n);
            }
            (way.row)(self.cells, from, n, way.scaling);
            copy_strided(way.to, dst, step, self.cells, size, n);
        }
    }
}
