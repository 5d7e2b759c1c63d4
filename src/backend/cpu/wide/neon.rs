//! Four cells at a time, with NEON.

use std::arch::aarch64::*;
use std::arch::asm;

use super::{Cells, Register};
use crate::ops::Scaling;
use half::{bf16, f16};

impl Register for float32x4_t {
    const LANES: usize = 4;

    type Bits = uint8x16_t;

    #[target_feature(enable = "neon")]
    #[inline]
    unsafe fn splat(x: f32) -> Self {
        vdupq_n_f32(x)
    }

    #[target_feature(enable = "neon")]
    #[inline]
    unsafe fn mul(self, x: Self) -> Self {
        vmulq_f32(self, x)
    }

    #[target_feature(enable = "neon")]
    #[inline]
    unsafe fn add(self, x: Self) -> Self {
        vaddq_f32(self, x)
    }

    #[target_feature(enable = "neon")]
    #[inline]
    unsafe fn unless_nan(self, of: Self) -> Self {
        vbslq_f32(numbers(of), self, vreinterpretq_f32_u32(vdupq_n_u32(NAN)))
    }
}

/// The NaN of the table.
const NAN: u32 = 0x7fff_ffff;

/// The same of both types of 16 bits.
const SHORT_NAN: u16 = 0x7fff;

/// Implements [`Cells`]: how four cells become numbers, four numbers cells, and more a whole
/// register of them.
macro_rules! cells {
    ($T:ty, |$from:ident| $load:expr, |$to:ident, $x:ident| $store:expr, |$xs:ident| $cells:expr) => {
        impl Cells<float32x4_t> for $T {
            #[target_feature(enable = "neon")]
            #[inline]
            unsafe fn load($from: *const Self) -> float32x4_t {
                // SAFETY: four cells are readable.
                unsafe { $load }
            }

            #[target_feature(enable = "neon")]
            #[inline]
            unsafe fn store($to: *mut Self, $x: float32x4_t) {
                // SAFETY: four cells are writable.
                unsafe { $store }
            }

            #[target_feature(enable = "neon")]
            #[inline]
            unsafe fn cells($xs: [float32x4_t; 4]) -> uint8x16_t {
                $cells
            }
        }
    };
}

/// All bits of those that are no NaN.
#[target_feature(enable = "neon")]
#[inline]
fn numbers(x: float32x4_t) -> uint32x4_t {
    vceqq_f32(x, x)
}

cells!(f32, |from| vld1q_f32(from), |to, x| vst1q_f32(to, canonical(x)), |x| vreinterpretq_u8_f32(
    canonical(x[0])
));

/// The numbers, NaN as the table has it.
#[target_feature(enable = "neon")]
#[inline]
fn canonical(x: float32x4_t) -> float32x4_t {
    // SAFETY: this function has the instructions, too.
    unsafe { x.unless_nan(x) }
}

cells!(f16, |from| of_halves(vld1_u16(from.cast())), |to, x| vst1_u16(to.cast(), short(halves(x), x)), |x| {
    vreinterpretq_u8_u16(shorts([halves(x[0]), halves(x[1])], x))
});

/// Numbers of binary16 as binary32. The type of the intrinsic is that of a later compiler.
#[target_feature(enable = "neon")]
#[inline]
fn of_halves(x: uint16x4_t) -> float32x4_t {
    let to: float32x4_t;
    // SAFETY: an instruction of the base set from register to register.
    unsafe {
        asm!("fcvtl {to:v}.4s, {x:v}.4h", to = lateout(vreg) to, x = in(vreg) x,
             options(pure, nomem, nostack, preserves_flags))
    };
    to
}

/// The numbers as binary16, rounded to nearest even; NaN is some NaN.
#[target_feature(enable = "neon")]
#[inline]
fn halves(x: float32x4_t) -> uint16x4_t {
    let to: uint16x4_t;
    // SAFETY: an instruction of the base set from register to register.
    unsafe {
        asm!("fcvtn {to:v}.4h, {x:v}.4s", to = lateout(vreg) to, x = in(vreg) x,
             options(pure, nomem, nostack, preserves_flags))
    };
    to
}

cells!(
    bf16,
    |from| vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(from.cast()))),
    |to, x| vst1_u16(to.cast(), short(upper(x), x)),
    |x| vreinterpretq_u8_u16(shorts([upper(x[0]), upper(x[1])], x))
);

/// The numbers as bfloat16, rounded to nearest even; NaN is anything.
#[target_feature(enable = "neon")]
#[inline]
fn upper(x: float32x4_t) -> uint16x4_t {
    let bits = vreinterpretq_u32_f32(x);
    let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
    vaddhn_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)))
}

/// Cells of 16 bits, NaN as the table has it where `of` is NaN.
#[target_feature(enable = "neon")]
#[inline]
fn short(cells: uint16x4_t, of: float32x4_t) -> uint16x4_t {
    vbsl_u16(vmovn_u32(numbers(of)), cells, vdup_n_u16(SHORT_NAN))
}

/// The same of a whole register.
#[target_feature(enable = "neon")]
#[inline]
fn shorts([low, high]: [uint16x4_t; 2], of: [float32x4_t; 4]) -> uint16x8_t {
    let numbers = [of[0], of[1]].map(|of| vreinterpretq_u16_u32(numbers(of)));
    let numbers = vuzp1q_u16(numbers[0], numbers[1]);
    vbslq_u16(numbers, vcombine_u16(low, high), vdupq_n_u16(SHORT_NAN))
}

/// The numbers as integers, half to even, NaN as 0, saturated to 16 bits.
#[target_feature(enable = "neon")]
#[inline]
fn integers(x: float32x4_t, y: float32x4_t) -> int16x8_t {
    // The conversion saturates, and has 0 for NaN.
    let [x, y] = [vcvtnq_s32_f32(x), vcvtnq_s32_f32(y)];
    vqmovn_high_s32(vqmovn_s32(x), y)
}

/// Four bytes, in the low half of a register.
///
/// # Safety
/// They are readable.
#[target_feature(enable = "neon")]
#[inline]
unsafe fn four<T>(from: *const T) -> uint8x8_t {
    // SAFETY: four bytes are readable.
    vcreate_u8(u64::from(unsafe { from.cast::<u32>().read_unaligned() }))
}

/// Writes the first four bytes of a register.
///
/// # Safety
/// They are writable.
#[target_feature(enable = "neon")]
#[inline]
unsafe fn put_four<T>(to: *mut T, bytes: uint8x8_t) {
    let word = vget_lane_u32::<0>(vreinterpret_u32_u8(bytes));
    // SAFETY: four bytes are writable.
    unsafe { to.cast::<u32>().write_unaligned(word) }
}

cells!(
    i8,
    |from| {
        let shorts = vget_low_s16(vmovl_s8(vreinterpret_s8_u8(four(from))));
        vcvtq_f32_s32(vmovl_s16(shorts))
    },
    |to, x| put_four(to, vreinterpret_u8_s8(vqmovn_s16(integers(x, x)))),
    |x| {
        let [low, high] = [integers(x[0], x[1]), integers(x[2], x[3])];
        vreinterpretq_u8_s8(vqmovn_high_s16(vqmovn_s16(low), high))
    }
);

cells!(
    u8,
    |from| vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(four(from))))),
    |to, x| put_four(to, vqmovun_s16(integers(x, x))),
    |x| {
        let [low, high] = [integers(x[0], x[1]), integers(x[2], x[3])];
        vqmovun_high_s16(vqmovun_s16(low), high)
    }
);

/// # Safety
/// As for [`Row`](crate::backend::cpu::row::Row).
pub(in super::super) unsafe fn row<
    S: Cells<float32x4_t>,
    D: Cells<float32x4_t>,
    const SCALES: bool,
    const BLENDS: bool,
>(
    dst: *mut u8, src: *const u8, n: usize, scaling: Scaling,
) {
    // SAFETY: `n` cells are readable and writable, and every processor of this architecture has
    // NEON.
    unsafe { super::row::<float32x4_t, S, D, SCALES, BLENDS>(dst, src, n, scaling) }
}
