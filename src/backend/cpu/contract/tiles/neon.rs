//! Tiles by the matrix instructions of aarch64, which Armv8.6 brought: one multiplies two rows of
//! eight bytes, or of four bf16, by two lanes of as many, and adds the products to four sums.
//!
//! Eight rows by eight lanes stay in sixteen registers while all steps go by. Sums of bf16 are
//! those of the instruction: pairs of terms one after the other, the two products of each added to
//! each other first, every sum rounded to odd; denormal operands and results count as 0. They
//! depend on nothing but the order of the terms.

use core::arch::aarch64::*;
use core::arch::asm;

use super::call::{ACC_ROW, Call, Product, ROW, TILE, TILE_ROWS};

/// Pairs of rows, and of lanes, of a block.
const PAIRS: usize = 4;

/// Bytes of a row that are multiplied at once.
const RUN: usize = 8;

/// An instruction that multiplies two rows by two lanes.
trait Instruction {
    /// Whether the lanes are its first operand, so that sums are of lanes by rows.
    const IS_TURNED: bool;

    /// `c`, and the products of `a` and `b`.
    ///
    /// # Safety
    /// The processor has the instruction.
    unsafe fn multiply(c: uint32x4_t, a: uint8x16_t, b: uint8x16_t) -> uint32x4_t;
}

// The intrinsics are those of a later compiler.
macro_rules! instructions {
    ($($name:ident: $extension:literal, $mnemonic:literal, $types:literal, $is_turned:literal;)+) => {$(
        struct $name;
        impl Instruction for $name {
            const IS_TURNED: bool = $is_turned;
            #[inline(always)]
            unsafe fn multiply(mut c: uint32x4_t, a: uint8x16_t, b: uint8x16_t) -> uint32x4_t {
                let (a, b) = if $is_turned { (b, a) } else { (a, b) };
                // SAFETY: an instruction from register to register, which the processor has.
                unsafe {
                    asm!(concat!(".arch_extension ", $extension),
                         concat!($mnemonic, " {c:v}.4s, {a:v}.", $types, ", {b:v}.", $types),
                         c = inlateout(vreg) c, a = in(vreg) a, b = in(vreg) b,
                         options(pure, nomem, nostack, preserves_flags))
                };
                c
            }
        }
    )+};
}

// Of mixed signs the first operand is the one without.
instructions! {
    Signed: "i8mm", "smmla", "16b", false;
    Unsigned: "i8mm", "ummla", "16b", false;
    UnsignedRows: "i8mm", "usmmla", "16b", false;
    UnsignedLanes: "i8mm", "usmmla", "16b", true;
    Bf16: "bf16", "bfmmla", "8h", false;
}

/// Sums of two rows by four lanes, as they lie in memory and as instructions have them; either way
/// about.
#[inline(always)]
unsafe fn to_blocks<I: Instruction>([first, second]: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
    // SAFETY: NEON belongs to the architecture.
    unsafe {
        if I::IS_TURNED {
            return [vzip1q_u32(first, second), vzip2q_u32(first, second)];
        }
        halves([first, second])
    }
}

#[inline(always)]
unsafe fn to_rows<I: Instruction>([first, second]: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
    // SAFETY: NEON belongs to the architecture.
    unsafe {
        if I::IS_TURNED {
            return [vuzp1q_u32(first, second), vuzp2q_u32(first, second)];
        }
        halves([first, second])
    }
}

/// The lower halves of both, and the upper ones.
#[inline(always)]
unsafe fn halves(of: [uint32x4_t; 2]) -> [uint32x4_t; 2] {
    // SAFETY: NEON belongs to the architecture.
    unsafe {
        let [first, second] = of.map(|x| vreinterpretq_u64_u32(x));
        [vzip1q_u64(first, second), vzip2q_u64(first, second)].map(|x| vreinterpretq_u32_u64(x))
    }
}

/// Multiplies all strips.
///
/// # Safety
/// As for [`Multiply`](super::call::Multiply); the processor has the instruction.
unsafe fn blocks<I: Instruction>(product: Product, strips: [usize; 2], call: &Call) {
    let [rows, lanes] = strips.map(|strips| strips * TILE_ROWS);
    for lane in (0..lanes).step_by(2 * PAIRS) {
        for row in (0..rows).step_by(2 * PAIRS) {
            // SAFETY: the rows and lanes are those of strips.
            unsafe { block::<I>(product, call, row, lane) };
        }
    }
}

/// Multiplies eight rows by eight lanes.
///
/// # Safety
/// As for [`blocks`]; the rows and lanes begin in a half of a strip.
#[inline(always)]
unsafe fn block<I: Instruction>(product: Product, call: &Call, row: usize, lane: usize) {
    // SAFETY: the tiles of all steps are readable, and the sums writable, and readable if they are
    // added to.
    unsafe {
        let mut acc = [[vdupq_n_u32(0); PAIRS]; PAIRS];
        let sum = |pair: usize, lanes: usize| {
            let first = call.acc.wrapping_add((row + 2 * pair) * ACC_ROW + (lane + 4 * lanes) * 4);
            [first, first.wrapping_add(ACC_ROW)].map(|at| at.cast::<u32>())
        };
        if call.adds {
            for (pair, acc) in acc.iter_mut().enumerate() {
                for lanes in 0..PAIRS / 2 {
                    let there = sum(pair, lanes).map(|at| vld1q_u32(at));
                    [acc[2 * lanes], acc[2 * lanes + 1]] = to_blocks::<I>(there);
                }
            }
        }
        let a = call.a[row / TILE_ROWS].wrapping_add(row % TILE_ROWS * call.a_row);
        let b = call.b[lane / TILE_ROWS].wrapping_add(lane % TILE_ROWS * 4);
        for step in 0..call.steps {
            for &[of_a, of_b] in product.parts() {
                let a = a.wrapping_add(step * call.a_step + of_a * TILE);
                let b = b.wrapping_add((step * product.tiles() + of_b) * TILE);
                for run in 0..ROW / RUN {
                    let mut rows = [vdupq_n_u8(0); PAIRS];
                    for (pair, rows) in rows.iter_mut().enumerate() {
                        let row = |k: usize| vld1_u8(a.wrapping_add((2 * pair + k) * call.a_row + run * RUN));
                        *rows = vcombine_u8(row(0), row(1));
                    }
                    // Two cells of a lane are side by side then.
                    let cells = |of: usize, lanes: usize| {
                        vreinterpretq_u32_u8(vld1q_u8(b.wrapping_add((2 * run + of) * ROW + lanes * 16)))
                    };
                    let mut lanes = [vdupq_n_u32(0); PAIRS];
                    for k in 0..PAIRS / 2 {
                        let [first, second] = [0, 1].map(|of| cells(of, k));
                        lanes[2 * k] = vzip1q_u32(first, second);
                        lanes[2 * k + 1] = vzip2q_u32(first, second);
                    }
                    for (acc, &rows) in acc.iter_mut().zip(&rows) {
                        for (acc, &lanes) in acc.iter_mut().zip(&lanes) {
                            *acc = I::multiply(*acc, rows, vreinterpretq_u8_u32(lanes));
                        }
                    }
                }
            }
        }
        for (pair, acc) in acc.iter().enumerate() {
            for lanes in 0..PAIRS / 2 {
                let rows = to_rows::<I>([acc[2 * lanes], acc[2 * lanes + 1]]);
                sum(pair, lanes).into_iter().zip(rows).for_each(|(at, row)| vst1q_u32(at, row));
            }
        }
    }
}

/// Multiplies tiles.
///
/// # Safety
/// As for [`Multiply`](super::call::Multiply); the processor has the matrix instructions of bytes
/// and of bf16.
pub unsafe fn multiply(product: Product, strips: [usize; 2], call: &Call) {
    // SAFETY: the tiles of all strips and steps are readable, and the sums have room; the processor
    // has the instructions.
    unsafe {
        match product {
            Product::Bytes([true, true]) => blocks::<Signed>(product, strips, call),
            Product::Bytes([false, false]) => blocks::<Unsigned>(product, strips, call),
            Product::Bytes([false, true]) => blocks::<UnsignedRows>(product, strips, call),
            Product::Bytes([true, false]) => blocks::<UnsignedLanes>(product, strips, call),
            Product::Bf16 | Product::Six | Product::Three => blocks::<Bf16>(product, strips, call),
        }
    }
}

/// What the instructions are defined to give: for tests.
#[cfg(test)]
pub mod defined {
    /// `sum`, and the products of a row and a lane of bf16 in the order of their terms.
    pub fn bf16(sum: u32, row: impl Iterator<Item = [u16; 2]>, lane: impl Iterator<Item = [u16; 2]>) -> u32 {
        let wide = |half: u16| f32::from_bits(u32::from(half) << 16);
        let total = row.zip(lane).fold(f32::from_bits(sum), |sum, (a, b)| {
            let [first, second] = [0, 1].map(|k| multiply(wide(a[k]), wide(b[k])));
            add(sum, add(first, second))
        });
        total.to_bits()
    }

    /// Denormal numbers count as 0.
    fn flushed(x: f32) -> f32 {
        if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
    }

    fn multiply(a: f32, b: f32) -> f32 {
        // Exact.
        odd(f64::from(flushed(a)) * f64::from(flushed(b)), 0.0)
    }

    fn add(a: f32, b: f32) -> f32 {
        let [a, b] = [a, b].map(|x| f64::from(flushed(x)));
        let sum = a + b;
        // What rounding took away, exactly.
        let own = sum - a;
        odd(sum, (a - (sum - own)) + (b - own))
    }

    /// `x + rest` rounded to odd: towards 0, with the lowest bit set if that is not exact.
    fn odd(x: f64, rest: f64) -> f32 {
        if x.is_nan() {
            return f32::from_bits(0x7fc0_0000);
        }
        if x.is_infinite() || x.abs() >= 2.0_f64.powi(128) {
            return f32::INFINITY.copysign(x as f32);
        }
        let near = (x as f32).clamp(-f32::MAX, f32::MAX);
        let goes_below = f64::from(near).abs() > x.abs()
            || f64::from(near) == x && rest != 0.0 && (rest < 0.0) != (x < 0.0);
        let bits = near.to_bits() - u32::from(goes_below);
        let is_exact = f64::from(near) == x && rest == 0.0;
        flushed(f32::from_bits(bits | u32::from(!is_exact)))
    }
}
