//! The obvious loop of a random mask: one element at a time, each with a number of its own.

use super::Kind;
use super::{load, store};
use crate::backend::Address;
use crate::backend::function::{Real, with_real};
use crate::dtype::Scalar;
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::ops::{Compute, Draw, Random, Scaling};

/// Word `which` of Philox4x32-10.
fn philox(counter: [u32; 4], key: [u32; 2], which: usize) -> u32 {
    let [mut a, mut b, mut c, mut d] = counter;
    let [mut k, mut l] = key;
    for _ in 0..10 {
        let (p, q) = (0xD251_1F53 * u64::from(a), 0xCD9E_8D57 * u64::from(c));
        (a, b, c, d) = ((q >> 32) as u32 ^ b ^ k, q as u32, (p >> 32) as u32 ^ d ^ l, p as u32);
        k = k.wrapping_add(0x9E37_79B9);
        l = l.wrapping_add(0xBB67_AE85);
    }
    [a, b, c, d][which]
}

/// Whether an element is kept, by the two words of the states.
pub(super) fn is_kept([seed, call]: [u64; 2], threshold: u64, element: u64) -> bool {
    let halves = |x: u64| [x as u32, (x >> 32) as u32];
    let ([b, c], [d, e]) = (halves(8 * (element / 32) + element % 8), halves(call));
    u64::from(philox([b, c, d, e], halves(seed), (element % 32 / 8) as usize)) >= threshold
}

/// Runs `step`: `at` are destination, source, mask and, if the step draws, states.
///
/// # Safety
/// Every cell of the destination is writable, every cell of the source readable; the mask's words
/// are readable, and aligned to 4 bytes. If the step draws, they are writable, and the two 64-bit
/// words of the states readable and writable.
pub unsafe fn random(step: &Random, at: &[Address]) {
    let [dst, src, mask] = [0, 1, 2].map(|k| at[k].pointer());
    if let Some(draw) = step.draw {
        // SAFETY: the mask's words are writable and the two words of the states readable and
        // writable, as the step draws.
        unsafe { self::draw(draw, mask.cast(), at[3].pointer().cast()) };
    }
    let compute = if step.scalar == Scalar::F64 { Compute::Double } else { Compute::Single };
    with_real!(compute, T => step.nest.for_each(|[to, from, number]| {
        // SAFETY: every offset of the nest is a cell of its operand, and the mask has a word of it.
        unsafe {
            let kept = mask.cast::<u32>().add(number as usize / 32).read() >> (number % 32) & 1 == 1;
            let x: T = load(step.scalar, src, from);
            let y = if kept { (x * T::from_f64(step.scale)).canonical() } else { T::ZERO };
            store(step.scalar, dst, to, y, Scaling::MOVE);
        }
    }));
}

/// # Safety
/// As for [`random`].
unsafe fn draw(draw: Draw, mask: *mut u32, states: *mut u64) {
    // SAFETY: the states are two readable words of 64 bits.
    let (seed, call) = unsafe { (states.read_unaligned(), states.add(1).read_unaligned()) };
    for word in 0..draw.words() {
        let mut bits = 0;
        for i in 32 * word..draw.elements.min(32 * word + 32) {
            bits |= u32::from(is_kept([seed, call], draw.threshold, i)) << (i % 32);
        }
        // SAFETY: a word of the mask.
        unsafe { mask.add(word as usize).write(bits) };
    }
    if states != mask.cast() {
        // SAFETY: the states are two writable words of 64 bits.
        unsafe { states.add(1).write_unaligned(call.wrapping_add(1)) };
    }
}

impl Kind for Random {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        self.check()?;
        // SAFETY: the operands are those of the step.
        unsafe { random(self, at) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::philox;

    /// The published answers of Random123 1.14 (`kat_vectors`) for philox4x32 of ten rounds.
    #[test]
    fn philox_gives_the_published_answers() {
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        for (counter, key, want) in [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([!0; 4], [!0; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (pi, [0xa409_3822, 0x299f_31d0], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ] {
            let got: [u32; 4] = std::array::from_fn(|which| philox(counter, key, which));
            assert_eq!(got, want, "{counter:x?} {key:x?}");
        }
    }
}
