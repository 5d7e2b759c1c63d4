//! The last step of a buffered kernel: contiguous source cells become contiguous destination cells,
//! converted on the way, through the caches or past them.

use super::shape::Shape;
use super::stage::Stage;
use super::stream::{self, LINE, STREAMING_BYTES, Stream, Streams};
use super::{Machine, row};
use crate::ops::Scaling;

/// Bytes converted at a time before they are streamed: little of the first-level cache.
const STAGE_BYTES: usize = 4 << 10;

/// How results of one transform reach the destination.
#[derive(Clone, Copy)]
pub(super) struct Output {
    row: row::Row,
    scaling: Scaling,
    streams: Option<Streams>,
    is_move: bool,
    dst_cell: usize,
    src_cell: usize,
    /// Scalars per cell: merged cells are moved, not converted.
    merged: usize,
}

/// Whether the destination is beyond the caches.
pub(super) fn is_beyond(shape: &Shape) -> bool {
    shape.bytes() >= STREAMING_BYTES
}

/// Whether results of this size are better written past the caches: not if the destination is read
/// as well.
pub(super) fn streams(shape: &Shape) -> bool {
    is_beyond(shape) && shape.transform.scaling.beta == 0.0
}

impl Output {
    /// Results are streamed if that is [better](streams) and possible.
    pub fn new(shape: &Shape, machine: Machine) -> Self {
        let scaling = shape.transform.scaling;
        Output {
            row: row::row(shape.transform, machine.isa),
            scaling,
            streams: stream::streams(machine.isa).filter(|_| streams(shape)),
            is_move: shape.is_move(),
            dst_cell: shape.dst_cell,
            src_cell: shape.src_cell,
            merged: shape.dst_cell / shape.transform.dst.size(),
        }
    }

    /// The same, but through the caches: for pieces too short to have many whole lines.
    pub fn through_caches(self) -> Self {
        Output { streams: None, ..self }
    }

    /// The same for cells that have been converted already. Pre: they are streamed.
    pub fn of_results(self) -> Self {
        debug_assert!(self.streams());
        Output { is_move: true, src_cell: self.dst_cell, ..self }
    }

    /// The streaming stores, if they are all there is to do.
    pub fn only_streams(&self) -> Option<Streams> {
        self.streams.filter(|_| self.is_move)
    }

    /// Whether results bypass the caches.
    pub fn streams(&self) -> bool {
        self.streams.is_some()
    }

    /// `dst[i] = convert(alpha * src[i] + beta * dst[i])` for `n` cells.
    ///
    /// # Safety
    /// As for [`row::Row`].
    pub unsafe fn write(&self, dst: *mut u8, src: *const u8, n: usize) {
        // SAFETY: `n` cells are readable and writable.
        unsafe { self.write_by(dst, src, n, |copy, dst, src, bytes| copy(dst, src, bytes)) }
    }

    /// The same, and calls `between` after each part that is [streamed](stream::in_parts).
    ///
    /// # Safety
    /// As for [`row::Row`].
    pub unsafe fn write_in_parts(&self, dst: *mut u8, src: *const u8, n: usize, mut between: impl FnMut()) {
        // SAFETY: `n` cells are readable and writable.
        unsafe {
            self.write_by(dst, src, n, |copy, dst, src, bytes| {
                stream::in_parts(copy, dst, src, bytes, &mut between);
            });
        }
    }

    /// The same; `stream` is called with how to stream, destination, source and bytes.
    ///
    /// # Safety
    /// As for [`row::Row`].
    #[inline(always)]
    unsafe fn write_by(
        &self, dst: *mut u8, src: *const u8, n: usize,
        mut stream: impl FnMut(Stream, *mut u8, *const u8, usize),
    ) {
        let Some(Streams { copy, .. }) = self.streams else {
            // SAFETY: `n` merged cells are readable and writable.
            return unsafe { (self.row)(dst, src, n * self.merged, self.scaling) };
        };
        if self.is_move {
            return stream(copy, dst, src, n * self.dst_cell);
        }
        let mut stage = Stage::<STAGE_BYTES>::new();
        let stage = stage.ptr();
        // The first piece ends on a line, so that every later one starts on one.
        let mut piece = (STAGE_BYTES - (LINE - stream::to_line(dst)) % LINE) / self.dst_cell;
        let mut done = 0;
        while done < n {
            piece = piece.min(n - done);
            // SAFETY: the piece lies inside the n cells, and its results inside the stage.
            unsafe {
                (self.row)(stage, src.add(done * self.src_cell), piece, self.scaling);
                stream(copy, dst.add(done * self.dst_cell), stage, piece * self.dst_cell);
            }
            done += piece;
            piece = STAGE_BYTES / self.dst_cell;
        }
    }
}
