//! Vectors of NEON. A tile is six rows by four of them: with the vectors of a k-group and a row's
//! factor it takes 29 of the 32 registers.

use core::arch::aarch64::*;
use core::arch::asm;

use super::{Compensation, Simd};
use crate::dtype::Scalar;

/// Vectors of a tile, and of one of a single row.
const NV: usize = 4;
const WIDE: usize = 8;

macro_rules! float {
    ($name:ident, $Portable:ident, $T:ty, $V:ty, $L:literal, $splat:ident, $load_splat:ident, $load:ident, $store:ident,
     $fma:ident, $add:ident) => {
        #[derive(Clone, Copy)]
        pub struct $name;
        impl Simd for $name {
            type Scalar = $T;
            type KGroup = $T;
            type Acc = $T;
            type Portable = super::$Portable;
            type V = $V;
            const L: usize = $L;
            const NV: usize = NV;
            const WIDE: usize = WIDE;
            const K_PACK: usize = 1;
            const ZERO: $T = 0.0;
            #[inline(always)]
            unsafe fn zero() -> $V {
                // SAFETY: NEON belongs to the architecture.
                unsafe { $splat(0.0) }
            }
            #[inline(always)]
            unsafe fn splat(at: *const $T) -> $V {
                // SAFETY: one cell is readable there.
                unsafe { $load_splat(at) }
            }
            #[inline(always)]
            unsafe fn load(at: *const $T) -> $V {
                // SAFETY: as many cells as a vector has are readable.
                unsafe { $load(at) }
            }
            #[inline(always)]
            unsafe fn load_acc(at: *const $T) -> $V {
                // SAFETY: as many sums as a vector has are readable.
                unsafe { $load(at) }
            }
            #[inline(always)]
            unsafe fn store(at: *mut $T, v: $V) {
                // SAFETY: as many sums as a vector has are writable.
                unsafe { $store(at, v) }
            }
            #[inline(always)]
            unsafe fn fma(a: $V, b: $V, c: $V) -> $V {
                // SAFETY: NEON belongs to the architecture.
                unsafe { $fma(c, a, b) }
            }
            #[inline(always)]
            unsafe fn add(a: $V, b: $V) -> $V {
                // SAFETY: NEON belongs to the architecture.
                unsafe { $add(a, b) }
            }
        }
    };
}

float!(
    NeonSingle,
    PortableSingle,
    f32,
    float32x4_t,
    4,
    vdupq_n_f32,
    vld1q_dup_f32,
    vld1q_f32,
    vst1q_f32,
    vfmaq_f32,
    vaddq_f32
);
float!(
    NeonDouble,
    PortableDouble,
    f64,
    float64x2_t,
    2,
    vdupq_n_f64,
    vld1q_dup_f64,
    vld1q_f64,
    vst1q_f64,
    vfmaq_f64,
    vaddq_f64
);

/// Sums of the products of as many parts as a cell has, in 32 bits.
macro_rules! int {
    ($($name:ident: $Scalar:ty, $K_PACK:literal, $Portable:ty, $tails:ident,
       |$row:ident| $splat:expr, |$a:ident, $b:ident, $c:ident| $dot:expr;)+) => {$(
        #[derive(Clone, Copy)]
        pub struct $name;
        impl Simd for $name {
            type Scalar = $Scalar;
            type KGroup = i32;
            type Acc = i32;
            type Portable = $Portable;
            type V = int32x4_t;
            const L: usize = 4;
            const NV: usize = NV;
            const WIDE: usize = WIDE;
            const K_PACK: usize = $K_PACK;
            const COMPENSATION: usize = $K_PACK / 4;
            const COMPENSATES: Compensation = Compensation::$tails;
            const SHIFTED: (Scalar, i32) = (Scalar::U8, 128);
            const ZERO: i32 = 0;
            #[inline(always)]
            unsafe fn zero() -> int32x4_t {
                // SAFETY: NEON belongs to the architecture.
                unsafe { vdupq_n_s32(0) }
            }
            #[inline(always)]
            unsafe fn splat(at: *const i32) -> int32x4_t {
                // SAFETY: one cell is readable there.
                unsafe {
                    let $row = vdupq_n_s32(at.read_unaligned());
                    $splat
                }
            }
            #[inline(always)]
            unsafe fn load(at: *const i32) -> int32x4_t {
                // SAFETY: as many cells as a vector has are readable.
                unsafe { at.cast::<int32x4_t>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn load_acc(at: *const i32) -> int32x4_t {
                // SAFETY: as many sums as a vector has are readable.
                unsafe { at.cast::<int32x4_t>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store(at: *mut i32, v: int32x4_t) {
                // SAFETY: as many sums as a vector has are writable.
                unsafe { at.cast::<int32x4_t>().write_unaligned(v) }
            }
            #[inline(always)]
            unsafe fn fma($a: int32x4_t, $b: int32x4_t, $c: int32x4_t) -> int32x4_t {
                // SAFETY: the processor has the instructions of this type, or it would not be used.
                unsafe { $dot }
            }
            #[inline(always)]
            unsafe fn add(a: int32x4_t, b: int32x4_t) -> int32x4_t {
                // SAFETY: NEON belongs to the architecture.
                unsafe { vaddq_s32(a, b) }
            }
        }
    )+};
}

/// The highest bit of every byte: turned over, a byte without a sign is itself less 128, with one.
const SIGNS: u8 = 0x80;

/// `c` and four products of signed bytes in each lane. The intrinsic is one of a later compiler.
///
/// # Safety
/// The processor has these dot products.
#[inline(always)]
unsafe fn dot(mut c: int32x4_t, a: int32x4_t, b: int32x4_t) -> int32x4_t {
    // SAFETY: an instruction from register to register, which the caller's processor has.
    unsafe {
        asm!(".arch_extension dotprod", "sdot {c:v}.4s, {a:v}.16b, {b:v}.16b",
             c = inlateout(vreg) c, a = in(vreg) a, b = in(vreg) b,
             options(pure, nomem, nostack, preserves_flags))
    };
    c
}

/// `c` and the products of both pairs of a row with the two halves of `b`, which has the first
/// parts of its pairs before all second ones. The compiler would make products of 32 bits of it,
/// with more registers than there are.
///
/// # Safety
/// None but that of the instructions, which belong to the architecture.
#[inline(always)]
unsafe fn pairs(mut c: int32x4_t, row: int32x4_t, b: uint8x16_t) -> int32x4_t {
    // SAFETY: instructions of the base set from register to register.
    unsafe {
        asm!("smlal {c:v}.4s, {b:v}.4h, {row:v}.h[0]", "smlal2 {c:v}.4s, {b:v}.8h, {row:v}.h[1]",
             c = inout(vreg) c, row = in(vreg_low16) row, b = in(vreg) b,
             options(pure, nomem, nostack, preserves_flags))
    };
    c
}

/// The bytes of four pairs of 16 bits: the first part of each, then the second ones.
const APART: [u8; 16] = [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15];

// Vectors of lanes are parted once for all rows, which the compiler sees. Of four bytes both
// operands have signs: of `NeonDotOfRows` and `NeonDotOfLanes` those of `a` had none, and are 128
// less than they were; the tails of `b` take that back.
int! {
    NeonInt: i16, 2, super::PortableInt, None, |row| row, |a, b, c| {
        let apart = vqtbl1q_u8(vreinterpretq_u8_s32(b), vld1q_u8(APART.as_ptr()));
        pairs(c, a, apart)
    };
    NeonDot: u8, 4, Self, None, |row| row, |a, b, c| dot(c, a, b);
    NeonDotOfRows: u8, 4, NeonDot, OfB, |row| veorq_s32(row, vreinterpretq_s32_u8(vdupq_n_u8(SIGNS))),
        |a, b, c| dot(c, a, b);
    NeonDotOfLanes: u8, 4, NeonDot, OfA, |row| row, |a, b, c| dot(c, a, b);
}
