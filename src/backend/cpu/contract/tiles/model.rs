//! The instructions of tiles in portable code, with their bits: for tests on processors without
//! tiles.
//!
//! Of bf16 a tile adds the products of the even terms of a row in one chain of fused multiply-adds
//! in binary32, those of the odd terms in another, then both, and then their sum to what is there.
//! Denormal operands count as 0, and so do denormal results, each rounded to nearest, ties to even,
//! before; the mode of the thread does not count. Of bytes the products of a cell are added to
//! 32-bit integers, which wrap. An instruction and this model agree in every bit, NaN included.

use super::call::{ACC_ROW, Call, Product, ROW, TILE, TILE_ROWS};

/// Multiplies tiles.
///
/// # Safety
/// As for [`Multiply`](super::call::Multiply), but that nothing need be configured.
pub unsafe fn multiply(product: Product, strips: [usize; 2], call: &Call) {
    for row in 0..strips[0] * TILE_ROWS {
        for lane in 0..strips[1] * TILE_ROWS {
            let a = call.a[row / TILE_ROWS].wrapping_add(row % TILE_ROWS * call.a_row);
            let b = call.b[lane / TILE_ROWS].wrapping_add(lane % TILE_ROWS * 4);
            let sum = call.acc.wrapping_add(row * ACC_ROW + lane * 4).cast::<u32>();
            // SAFETY: the tiles of all steps are readable, and the sums writable, and readable if
            // they are added to.
            unsafe {
                let mut total = if call.adds { sum.read() } else { 0 };
                for step in 0..call.steps {
                    for [of_a, of_b] in product.parts() {
                        let a = a.wrapping_add(step * call.a_step + of_a * TILE);
                        let a = a.cast::<[u8; ROW]>().read_unaligned();
                        let b = b.wrapping_add((step * product.tiles() + of_b) * TILE);
                        let cell = |k: usize| b.wrapping_add(k * ROW).cast::<[u8; 4]>().read();
                        let cells: [[u8; 4]; TILE_ROWS] = std::array::from_fn(cell);
                        total = match product {
                            Product::Bytes(signs) => of_bytes(total, &a, &cells, signs),
                            _ => of_bf16(total, &a, &cells),
                        };
                    }
                }
                sum.write(total);
            }
        }
    }
}

/// A sum of bytes, and more products.
fn of_bytes(sum: u32, a: &[u8; ROW], b: &[[u8; 4]; TILE_ROWS], signs: [bool; 2]) -> u32 {
    let wide = |byte: u8, sign: bool| if sign { i32::from(byte as i8) } else { i32::from(byte) };
    let products = a.iter().zip(b.as_flattened()).map(|(&a, &b)| wide(a, signs[0]) * wide(b, signs[1]));
    products.fold(sum, |sum, product| sum.wrapping_add(product as u32))
}

/// The bits of a sum of bf16, and more products.
fn of_bf16(sum: u32, a: &[u8; ROW], b: &[[u8; 4]; TILE_ROWS]) -> u32 {
    let wide = |low: u8, high: u8| f32::from_bits(u32::from_le_bytes([0, 0, low, high]));
    let mut chains = [0.0_f32; 2];
    for (a, b) in a.chunks_exact(4).zip(b) {
        for (chain, k) in chains.iter_mut().zip([0, 2]) {
            *chain = multiply_add(wide(a[k], a[k + 1]), wide(b[k], b[k + 1]), *chain);
        }
    }
    add(f32::from_bits(sum), add(chains[0], chains[1])).to_bits()
}

/// The least normal number.
const LEAST: f32 = f32::MIN_POSITIVE;

/// `a * b + c`. Of several NaN the first one is the result.
fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    if let Some(nan) = [a, b, c].into_iter().find(|x| x.is_nan()) {
        return quiet(nan);
    }
    let [a, b, c] = [a, b, c].map(flushed);
    let sum = a.mul_add(b, c);
    if sum.abs() == LEAST && is_below(a, b, c) {
        return 0.0_f32.copysign(sum);
    }
    result(sum)
}

/// Whether a sum that is the least normal number would be less with as many bits as normal numbers
/// have: tiny results are found before their bits are fewer.
fn is_below(a: f32, b: f32, c: f32) -> bool {
    // The product is exact, and so is the sum unless it is near enough to the least number.
    let sum = (f64::from(a) * f64::from(b) + f64::from(c)).abs();
    sum < f64::from(LEAST) - f64::from_bits((1023 - 151) << 52)
}

/// `a + b`. Of two NaN the first one is the result.
fn add(a: f32, b: f32) -> f32 {
    match [a, b].into_iter().find(|x| x.is_nan()) {
        Some(nan) => quiet(nan),
        None => result(flushed(a) + flushed(b)),
    }
}

/// 0 of the same sign in place of denormal numbers.
fn flushed(x: f32) -> f32 {
    if x.abs() < LEAST { 0.0_f32.copysign(x) } else { x }
}

/// The same of results; infinity less infinity is the negative NaN.
fn result(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(0xffc0_0000) } else { flushed(x) }
}

/// The NaN that becomes of a NaN.
fn quiet(x: f32) -> f32 {
    f32::from_bits(x.to_bits() | 1 << 22)
}
