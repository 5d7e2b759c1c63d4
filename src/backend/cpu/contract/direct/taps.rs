//! The taps of a window that the outputs of a row meet.

use std::ops::Range;

/// A tap: its number among those of the window, what it reads for output 0 of the row, and the outputs that it has elements for. Of
/// a gradient of a filter pixels are what outputs are here.
#[derive(Clone, Copy, Default)]
pub struct Tap<A> {
    pub number: usize,
    pub from: A,
    pub first: usize,
    pub end: usize,
}

impl<A> Tap<A> {
    /// Whether there is an element for an output.
    #[inline(always)]
    pub fn meets(&self, output: usize) -> bool {
        (self.first..self.end).contains(&output)
    }
}

/// The outputs that all taps have elements for.
#[inline(always)]
pub fn common<A>(taps: &[Tap<A>]) -> Range<usize> {
    let first = taps.iter().map(|tap| tap.first).max().unwrap_or(0);
    let end = taps.iter().map(|tap| tap.end).min().unwrap_or(0);
    first..end.max(first)
}
