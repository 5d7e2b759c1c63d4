//! What a mask that nobody keeps makes of a run of elements.

use super::draw::{self, DrawWords, Numbers};
use super::gather::gather;
use super::{Apply, apply};
use crate::backend::cpu::Isa;

/// The most elements of a run.
pub(in crate::backend::cpu) const MOST_RUN: usize = 256;

/// What each of them is before the mask.
const ONES: [f32; MOST_RUN] = [1.0; MOST_RUN];

/// A mask, of which any run may be drawn.
#[derive(Clone, Copy)]
pub(in crate::backend::cpu) struct Run {
    numbers: Numbers,
    draw_words: DrawWords,
    apply: Apply<f32>,
}

impl Run {
    /// The mask of a seed and a call, which drops what has a number below the threshold.
    pub fn new([seed, call]: [u64; 2], threshold: u64, isa: Isa) -> Run {
        let numbers = Numbers { seed, call, threshold };
        Run { numbers, draw_words: draw::words_for(isa), apply: apply::of(isa) }
    }

    /// The factor where an element is kept, and 0 elsewhere, of `count` elements from one on.
    ///
    /// # Safety
    /// As many numbers are writable, [`MOST_RUN`] at most.
    pub unsafe fn factors(&self, first: u64, count: usize, factor: f32, to: *mut f32) {
        let shift = (first % 32) as usize;
        let (mut drawn, mut words) = ([0; MOST_RUN / 32 + 1], [0; MOST_RUN / 32]);
        // SAFETY: there are words for all elements and those before them in the first word, and
        // numbers for all elements.
        unsafe {
            let used = (shift + count).div_ceil(32);
            (self.draw_words)(drawn.as_mut_ptr(), first / 32, used, self.numbers);
            gather(&mut words, drawn.as_ptr(), shift, 1, count);
            (self.apply)(to, ONES.as_ptr(), words.as_ptr(), count, factor);
        }
    }
}
