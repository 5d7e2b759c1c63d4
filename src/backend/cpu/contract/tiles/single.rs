//! Binary32 in parts of bf16: each number is exactly three of them, and six of the nine products of
//! parts are nearer to the sum than a chain of fused multiply-adds is.
//!
//! Numbers are multiplied by [`SCALE`] before they are split, so that every part of every number is
//! normal, those of denormal numbers too, and the factor is taken out of the sums, which are
//! rounded by that if they become denormal. What is too large for the factor leaves a sum that is
//! infinite or none, and so does what is infinite or none itself; such a sum is made anew, as a
//! chain. Whether it is depends on its row and its column alone.

use cudnn_shim_macros::vectorized;

use super::call::{ACC_ROW, ROW, TILE, TILE_ROWS};

/// 2^24, by which the least number has no part below 2^-126.
const SCALE: f32 = (1 << 24) as f32;

/// What takes the factor of both operands out of a sum.
const UNSCALE: f32 = 1.0 / (SCALE * SCALE);

/// Numbers of a row of a tile.
const K_PACK: usize = ROW / size_of::<f32>();

/// The most parts.
const PARTS: usize = 3;

/// The parts of a number in the upper halves of as many words: the nearest bf16, the one that is
/// nearest to the rest, and what then remains, if that is wanted. Of two that are as near, the one
/// with the larger magnitude. The first part of an infinity is itself, of a NaN it or a part of it
/// is none.
#[inline(always)]
fn parts_of(x: f32) -> [u32; PARTS] {
    let upper = |bits: u32| bits & 0xffff_0000;
    let bits = (x * SCALE).to_bits();
    let is_finite = bits & 0x7f80_0000 != 0x7f80_0000;
    let first = upper(bits.wrapping_add(if is_finite { 0x8000 } else { 0 }));
    let rest = f32::from_bits(bits) - f32::from_bits(first);
    let second = upper(rest.to_bits().wrapping_add(0x8000));
    [first, second, (rest - f32::from_bits(second)).to_bits()]
}

/// Splits two tiles of numbers for each step into `N` tiles of parts. Cells pair the numbers of the
/// first of them with those of the second.
///
/// # Safety
/// Twice as many tiles as steps are readable, and `N` times as many writable.
#[vectorized]
pub unsafe fn split<const N: usize>(from: *const u8, steps: usize, to: *mut u8) {
    for row in 0..steps * TILE_ROWS {
        let (step, row) = (row / TILE_ROWS, row % TILE_ROWS);
        let from = from.wrapping_add(2 * step * TILE + row * ROW).cast::<[f32; K_PACK]>();
        let to = to.wrapping_add(N * step * TILE + row * ROW);
        // SAFETY: both tiles of the step are readable.
        let (x, y) = unsafe { (from.read(), from.byte_add(TILE).read()) };
        let mut cells = [[0_u32; K_PACK]; N];
        for k in 0..K_PACK {
            let (x, y) = (parts_of(x[k]), parts_of(y[k]));
            for part in 0..N {
                cells[part][k] = x[part] >> 16 | y[part] & 0xffff_0000;
            }
        }
        for (part, cells) in cells.iter().enumerate() {
            // SAFETY: all tiles of the step are writable.
            unsafe { to.add(part * TILE).cast::<[u32; K_PACK]>().write(*cells) };
        }
    }
}

/// Adds the sums of a block, of some strips of rows and of lanes, to those of the blocks before.
///
/// # Safety
/// All of them are readable, and the first ones writable.
#[vectorized]
pub unsafe fn add(acc: *mut u8, block: *const u8, rows: usize, lanes: usize) {
    for (row, lane) in (0..rows * TILE_ROWS).flat_map(|row| (0..lanes).map(move |lane| (row, lane))) {
        let at = row * ACC_ROW + lane * ROW;
        let to = acc.wrapping_add(at).cast::<[f32; K_PACK]>();
        // SAFETY: sixteen sums of one row.
        unsafe {
            let (x, y) = (to.read(), block.add(at).cast::<[f32; K_PACK]>().read());
            to.write(std::array::from_fn(|k| x[k] + y[k]));
        }
    }
}

/// Takes the factor out of the sums of `strips` of rows and of lanes; says whether each is a finite
/// number.
///
/// # Safety
/// All of them are readable and writable.
#[vectorized]
pub unsafe fn unscale(acc: *mut u8, rows: usize, lanes: usize) -> bool {
    // Magnitudes as words, the largest of each place.
    let mut most = [0_u32; K_PACK];
    for row in 0..rows * TILE_ROWS {
        for lane in 0..lanes {
            let at = acc.wrapping_add(row * ACC_ROW + lane * ROW).cast::<[f32; K_PACK]>();
            // SAFETY: sixteen sums of one row.
            let acc = unsafe { at.read() }.map(|sum| sum * UNSCALE);
            most = std::array::from_fn(|k| most[k].max(acc[k].to_bits() & !(1 << 31)));
            // SAFETY: the same sums.
            unsafe { at.write(acc) };
        }
    }
    most.iter().all(|&bits| bits < f32::INFINITY.to_bits())
}

/// Adds the products of one strip of rows and one of lanes to chains of fused multiply-adds, in
/// `tiles` tiles of numbers.
///
/// # Safety
/// All tiles are readable, and the chains readable and writable, rows of which are as far apart as
/// those of sums.
#[vectorized]
pub unsafe fn chains(rows: *const u8, lanes: *const u8, tiles: usize, chains: *mut u8) {
    for row in 0..TILE_ROWS {
        let at = chains.wrapping_add(row * ACC_ROW).cast::<[f32; K_PACK]>();
        // SAFETY: the chains of a row.
        let mut chain = unsafe { at.read() };
        for k in 0..tiles * K_PACK {
            let (tile, term) = (k / K_PACK * TILE, k % K_PACK);
            // SAFETY: a number of the row, and those of all lanes that it meets.
            let (x, y) = unsafe {
                let x = rows.add(tile + row * ROW).cast::<f32>().add(term).read();
                (x, lanes.add(tile + term * ROW).cast::<[f32; K_PACK]>().read())
            };
            for (chain, y) in chain.iter_mut().zip(y) {
                *chain = x.mul_add(y, *chain);
            }
        }
        // SAFETY: the chains of a row.
        unsafe { at.write(chain) };
    }
}

/// Puts chains in place of the sums that are infinite or none, of some strips of rows and of lanes.
///
/// # Safety
/// All sums of these strips are readable and writable, and as many chains readable.
pub unsafe fn replace(acc: *mut u8, chains: *const u8, [rows, lanes]: [usize; 2]) {
    for (row, lane) in
        (0..rows * TILE_ROWS).flat_map(|row| (0..lanes * TILE_ROWS).map(move |lane| (row, lane)))
    {
        let at = row * ACC_ROW + lane * size_of::<f32>();
        // SAFETY: a sum of the strips, and its chain.
        unsafe {
            let sum = acc.add(at).cast::<f32>();
            if !sum.read().is_finite() {
                sum.write(chains.add(at).cast::<f32>().read());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::Isa;

    /// Bits of every kind: all exponents, with the significands at which rounding changes, and
    /// those of NaN.
    fn numbers() -> Vec<f32> {
        let rests = [
            0, 1, 0x7f, 0x80, 0x81, 0x7fff, 0x8000, 0x8001, 0x1_7fff, 0x55_5555, 0x7f_7fff, 0x7f_8000,
            0x7f_ffff,
        ];
        let bits = (0..=255_u32).flat_map(|exponent| rests.map(|rest| exponent << 23 | rest));
        bits.flat_map(|bits| [bits, bits | 1 << 31].map(f32::from_bits)).collect()
    }

    #[test]
    fn three_parts_are_the_number_at_every_level() {
        let mut numbers = numbers();
        let per_step = 2 * TILE / size_of::<f32>();
        numbers.resize(numbers.len().next_multiple_of(per_step), 0.0);
        let steps = numbers.len() / per_step;
        for isa in Isa::available() {
            let mut parts = vec![0_u16; PARTS * steps * TILE / 2];
            // SAFETY: two tiles a step, and three of parts.
            unsafe { split::of::<PARTS>(isa)(numbers.as_ptr().cast(), steps, parts.as_mut_ptr().cast()) };
            for (k, &x) in numbers.iter().enumerate() {
                let (step, tile, place) = (k / per_step, k / 256 % 2, k % 256);
                let part = |part: usize| parts[(step * PARTS + part) * TILE / 2 + 2 * place + tile];
                let parts = [0, 1, 2].map(|n| f32::from_bits(u32::from(part(n)) << 16));
                let largest = f32::from_bits(0x7f7f_8000) / SCALE;
                if x.abs() < largest {
                    assert_eq!(
                        parts.iter().map(|&part| f64::from(part)).sum::<f64>(),
                        f64::from(x) * f64::from(SCALE),
                        "{x:e} on {isa:?}"
                    );
                    assert!(parts.iter().all(|part| *part == 0.0 || part.is_normal()), "{x:e} on {isa:?}");
                } else {
                    assert!(parts.iter().any(|part| !part.is_finite()), "{x:e} on {isa:?}");
                }
            }
        }
    }

    #[test]
    fn two_parts_are_near_and_hide_no_number_that_is_none() {
        let numbers = numbers();
        for &x in &numbers {
            let [first, second, _] = parts_of(x).map(|bits| f32::from_bits(bits & 0xffff_0000));
            let scaled = f64::from(x) * f64::from(SCALE);
            if x.abs() < f32::from_bits(0x7f7f_8000) / SCALE {
                let off = (scaled - f64::from(first) - f64::from(second)).abs();
                assert!(off <= scaled.abs() * 2.0_f64.powi(-17), "{x:e}");
            } else {
                assert!(!first.is_finite() || !second.is_finite(), "{x:e}");
            }
        }
    }
}
