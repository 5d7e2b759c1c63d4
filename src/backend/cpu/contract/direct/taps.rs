//! The taps of a window that the outputs of a row meet.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::mem::MaybeUninit;
use std::ops::Range;

/// A tap: its number among those of the window, what it reads for output 0 of the row, and the
/// outputs that it has elements for. For filter gradients, read "pixel" for "output".
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

/// The taps that have an element for an output, copied to `room`, which has a place for each tap.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub fn meeting<'a, A: Copy>(
    taps: &[Tap<A>], output: usize, room: &'a mut [MaybeUninit<Tap<A>>],
) -> &'a [Tap<A>] {
    let mut count = 0;
    for tap in taps.iter().filter(|tap| tap.meets(output)) {
        room[count].write(*tap);
        count += 1;
    }
    // SAFETY: the first `count` places are written.
    unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), count) }
}
