//! Bits of a mask in the order of the cells that they belong to.

/// Words of each row that [`gather_across`] collects.
pub(super) const GATHERED: usize = 16;

/// `count` bits that lie side by side, and others above them.
///
/// # Safety
/// The bits are in the mask; there are 1 to 32.
unsafe fn run(mask: *const u32, bit: usize, count: usize) -> u32 {
    // SAFETY: words that hold these bits.
    unsafe {
        let (at, shift) = (mask.add(bit / 32), bit % 32);
        let low = at.read() >> shift;
        if shift + count > 32 { low | at.add(1).read() << (32 - shift) } else { low }
    }
}

/// Collects `n` bits of the mask, `step` apart from bit `first` on.
///
/// # Safety
/// The bits are in the mask, and there are words for them.
pub(super) unsafe fn gather(words: &mut [u32], mask: *const u32, first: usize, step: isize, n: usize) {
    for (word, from) in words.iter_mut().zip((0..n).step_by(32)) {
        let count = (n - from).min(32);
        let bit = first.wrapping_add_signed(from as isize * step);
        // SAFETY: words that hold these bits.
        unsafe {
            if step == 1 {
                *word = run(mask, bit, count);
            } else {
                *word = 0;
                for j in 0..count {
                    let bit = bit.wrapping_add_signed(j as isize * step);
                    *word |= (mask.add(bit / 32).read() >> (bit % 32) & 1) << j;
                }
            }
        }
    }
}

/// Collects a row of `n` bits, `step` apart, from bit `first` on, and those of the `rows - 1` bits
/// after it: 32 by 32 they are turned around.
///
/// # Safety
/// The bits are in the mask; `n` is at most `32 * GATHERED`, and there are 1 to 32 rows.
pub(super) unsafe fn gather_across(
    words: &mut [[u32; GATHERED]; 32], mask: *const u32, first: usize, step: isize, n: usize, rows: usize,
) {
    for from in (0..n).step_by(32) {
        let mut square = [0_u32; 32];
        for (j, line) in square.iter_mut().enumerate().take(n - from) {
            let bit = first.wrapping_add_signed((from + j) as isize * step);
            // SAFETY: a bit of each row.
            *line = unsafe { run(mask, bit, rows) };
        }
        transpose_bits(&mut square);
        words.iter_mut().zip(square).for_each(|(row, word)| row[from / 32] = word);
    }
}

/// Swaps bit `j` of word `i` with bit `i` of word `j`.
///
/// Halves of the square change places, then halves of those, down to single bits: Warren, Hacker's
/// Delight, 7-3.
fn transpose_bits(square: &mut [u32; 32]) {
    let (mut width, mut low) = (16, 0xFFFF_u32);
    while width > 0 {
        let mut i = 0;
        while i < 32 {
            let differ = (square[i] >> width ^ square[i + width]) & low;
            square[i] ^= differ << width;
            square[i + width] ^= differ;
            // The next word without this bit.
            i = (i + width + 1) & !width;
        }
        width /= 2;
        low ^= low << width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_turned() {
        let mut state = 1_u32;
        let square: [u32; 32] = std::array::from_fn(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state
        });
        let mut transposed = square;
        transpose_bits(&mut transposed);
        for (i, word) in transposed.iter().enumerate() {
            for (j, line) in square.iter().enumerate() {
                assert_eq!(word >> j & 1, line >> i & 1, "{i}, {j}");
            }
        }
    }
}
