//! Sixteen cells at a time, with AVX-512.

use std::arch::x86_64::*;

use super::{Cells, Register};
use crate::backend::cpu::stream::Distance;
use crate::ops::Scaling;
use half::{bf16, f16};

impl Register for __m512 {
    const LANES: usize = 16;

    type Bits = __m512i;

    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn splat(x: f32) -> Self {
        _mm512_set1_ps(x)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn mul(self, x: Self) -> Self {
        _mm512_mul_ps(self, x)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn add(self, x: Self) -> Self {
        _mm512_add_ps(self, x)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn unless_nan(self, of: Self) -> Self {
        let nan = _mm512_castsi512_ps(_mm512_set1_epi32(NAN));
        _mm512_mask_mov_ps(self, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(of, of), nan)
    }
}

/// The NaN of the table.
const NAN: i32 = 0x7fff_ffff;

/// Which of the sixteen are NaN.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn nans(x: __m512) -> __mmask16 {
    _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x)
}

/// Implements [`Cells`]: how sixteen cells become numbers, sixteen numbers cells, and more a whole
/// register of them.
macro_rules! cells {
    ($T:ty, |$from:ident| $load:expr, |$to:ident, $x:ident| $store:expr, |$xs:ident| $cells:expr) => {
        impl Cells<__m512> for $T {
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn load($from: *const Self) -> __m512 {
                // SAFETY: a register of cells is readable.
                unsafe { $load }
            }

            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn store($to: *mut Self, $x: __m512) {
                // SAFETY: a register of cells is writable.
                unsafe { $store }
            }

            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[inline]
            unsafe fn cells($xs: [__m512; 4]) -> __m512i {
                $cells
            }
        }
    };
}

cells!(f32, |from| _mm512_loadu_ps(from), |to, x| _mm512_storeu_si512(to.cast(), canonical(x)), |x| {
    canonical(x[0])
});

/// The numbers, NaN as the table has it.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn canonical(x: __m512) -> __m512i {
    _mm512_mask_mov_epi32(_mm512_castps_si512(x), nans(x), _mm512_set1_epi32(NAN))
}

cells!(
    f16,
    |from| _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())),
    |to, x| _mm256_storeu_si256(to.cast(), halves(x)),
    |x| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(halves(x[0])), halves(x[1]))
);

/// The numbers as binary16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn halves(x: __m512) -> __m256i {
    let bits = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
    _mm256_mask_mov_epi16(bits, nans(x), _mm256_set1_epi16(0x7fff))
}

cells!(
    bf16,
    |from| {
        let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
    },
    |to, x| {
        let bits = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded(x)));
        _mm256_storeu_si256(to.cast(), bits);
    },
    |x| {
        // The upper halves of both.
        _mm512_permutex2var_epi16(rounded(x[0]), UPPER, rounded(x[1]))
    }
);

/// The places of the upper halves of the cells of two registers.
const UPPER: __m512i = {
    let mut places = [0_i16; 32];
    let mut i = 0;
    while i < 32 {
        places[i] = 2 * i as i16 + 1;
        i += 1;
    }
    // SAFETY: both are 64 bytes without meaning of their own.
    unsafe { std::mem::transmute::<[i16; 32], __m512i>(places) }
};

/// The numbers rounded to bfloat16, in the upper halves.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn rounded(x: __m512) -> __m512i {
    let bits = _mm512_castps_si512(x);
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    _mm512_mask_add_epi32(_mm512_set1_epi32(0x7fff_0000), !nans(x), bits, up)
}

/// The numbers as integers, half to even, NaN as 0; what exceeds `most`, which an i32 holds, as
/// `most`, and what no i32 holds below as the least.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn integers(x: __m512, most: f32) -> __m512i {
    // The second operand answers where the first is NaN; the mask then clears it.
    let clipped = _mm512_min_ps(x, _mm512_set1_ps(most));
    _mm512_maskz_cvt_roundps_epi32::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(!nans(x), clipped)
}

/// Sixteen integers of each operand saturated to 16 bits, in an order that [`in_order`] mends: four
/// of each, alternating.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn shorts(x: [__m512; 4], most: f32) -> [__m512i; 2] {
    let [a, b, c, d] = x.map(|x| integers(x, most));
    [_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d)]
}

/// Puts alternating groups of four bytes of four registers into the order of the registers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn in_order(x: __m512i) -> __m512i {
    let places = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_permutexvar_epi32(places, x)
}

cells!(
    i8,
    |from| _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))),
    |to, x| _mm_storeu_si128(to.cast(), _mm512_cvtsepi32_epi8(integers(x, 127.0))),
    |x| {
        let [low, high] = shorts(x, 127.0);
        in_order(_mm512_packs_epi16(low, high))
    }
);

cells!(
    u8,
    |from| _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))),
    |to, x| {
        let positive = _mm512_max_epi32(integers(x, 255.0), _mm512_setzero_si512());
        _mm_storeu_si128(to.cast(), _mm512_cvtusepi32_epi8(positive))
    },
    |x| {
        let [low, high] = shorts(x, 255.0);
        in_order(_mm512_packus_epi16(low, high))
    }
);

/// As [`row`], from binary32 to bfloat16 with the instruction for it, where the processor has it.
/// It takes denormal numbers for zeros and keeps parts of NaNs: lines that have either are rounded
/// as everywhere.
///
/// # Safety
/// As for [`Row`](crate::backend::cpu::row::Row), and the processor has AVX-512 BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(in super::super) unsafe fn narrow_to_bf16<const SCALES: bool>(
    dst: *mut u8, src: *const u8, n: usize, scaling: Scaling,
) {
    // Classes of `vfpclassps`.
    const QUIET_NAN: i32 = 0x01;
    const DENORMAL: i32 = 0x20;
    const SIGNALING_NAN: i32 = 0x80;
    const UNLIKE: i32 = QUIET_NAN | SIGNALING_NAN | DENORMAL;
    let (from, to) = (src.cast::<f32>(), dst.cast::<bf16>());
    let alpha = _mm512_set1_ps(scaling.alpha as f32);
    let whole = n - n % (2 * __m512::LANES);
    // SAFETY: cells below n.
    unsafe {
        for i in (0..whole).step_by(2 * __m512::LANES) {
            Distance::Read.fetch(from.add(i).cast(), 128);
            Distance::Written.fetch(to.add(i).cast(), 64);
            let mut x = [i, i + __m512::LANES].map(|i| _mm512_loadu_ps(from.add(i)));
            if SCALES {
                x = x.map(|x| _mm512_mul_ps(alpha, x));
            }
            let [low, high] = x;
            let unlike = _mm512_fpclass_ps_mask::<UNLIKE>(low) | _mm512_fpclass_ps_mask::<UNLIKE>(high);
            let line = match unlike {
                0 => std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)),
                _ => bf16::cells([low, high, low, high]),
            };
            _mm512_storeu_si512(to.add(i).cast(), line);
        }
        row::<f32, bf16, SCALES, false>(to.add(whole).cast(), from.add(whole).cast(), n - whole, scaling);
    }
}

/// # Safety
/// As for [`Row`](crate::backend::cpu::row::Row).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(in super::super) unsafe fn row<
    S: Cells<__m512>,
    D: Cells<__m512>,
    const SCALES: bool,
    const BLENDS: bool,
>(
    dst: *mut u8, src: *const u8, n: usize, scaling: Scaling,
) {
    // SAFETY: `n` cells are readable and writable, and the processor has AVX-512.
    unsafe { super::row::<__m512, S, D, SCALES, BLENDS>(dst, src, n, scaling) }
}
