//! Eight cells at a time, with AVX2 and F16C.

use std::arch::x86_64::*;

use super::{Cells, Register};
use crate::ops::Scaling;
use half::{bf16, f16};

impl Register for __m256 {
    const LANES: usize = 8;

    type Bits = __m256i;

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn splat(x: f32) -> Self {
        _mm256_set1_ps(x)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn mul(self, x: Self) -> Self {
        _mm256_mul_ps(self, x)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn add(self, x: Self) -> Self {
        _mm256_add_ps(self, x)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn unless_nan(self, of: Self) -> Self {
        _mm256_castsi256_ps(unless_nan(_mm256_castps_si256(self), of, NAN))
    }
}

/// The NaN of the table.
const NAN: i32 = 0x7fff_ffff;

/// Implements [`Cells`]: how eight cells become numbers, eight numbers cells, and more a whole
/// register of them.
macro_rules! cells {
    ($T:ty, |$from:ident| $load:expr, |$to:ident, $x:ident| $store:expr, |$xs:ident| $cells:expr) => {
        impl Cells<__m256> for $T {
            #[target_feature(enable = "avx2,f16c")]
            #[inline]
            unsafe fn load($from: *const Self) -> __m256 {
                // SAFETY: a register of cells is readable.
                unsafe { $load }
            }

            #[target_feature(enable = "avx2,f16c")]
            #[inline]
            unsafe fn store($to: *mut Self, $x: __m256) {
                // SAFETY: a register of cells is writable.
                unsafe { $store }
            }

            #[target_feature(enable = "avx2,f16c")]
            #[inline]
            unsafe fn cells($xs: [__m256; 4]) -> __m256i {
                $cells
            }
        }
    };
}

/// All bits of those that are NaN.
#[target_feature(enable = "avx2")]
#[inline]
fn nans(x: __m256) -> __m256 {
    _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x)
}

/// `x`, or `nan` where `of` is NaN.
#[target_feature(enable = "avx2")]
#[inline]
fn unless_nan(x: __m256i, of: __m256, nan: i32) -> __m256i {
    _mm256_blendv_epi8(x, _mm256_set1_epi32(nan), _mm256_castps_si256(nans(of)))
}

/// Eight integers saturated to 16 bits.
#[target_feature(enable = "avx2")]
#[inline]
fn shorts(x: __m256i) -> __m128i {
    _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x))
}

/// Sixteen integers saturated to 16 bits.
#[target_feature(enable = "avx2")]
#[inline]
fn both(x: __m256i, y: __m256i) -> __m256i {
    // Four of each register, alternating.
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(x, y))
}

cells!(f32, |from| _mm256_loadu_ps(from), |to, x| _mm256_storeu_si256(to.cast(), canonical(x)), |x| {
    canonical(x[0])
});

/// The numbers, NaN as the table has it.
#[target_feature(enable = "avx2")]
#[inline]
fn canonical(x: __m256) -> __m256i {
    unless_nan(_mm256_castps_si256(x), x, NAN)
}

cells!(
    f16,
    |from| _mm256_cvtph_ps(_mm_loadu_si128(from.cast())),
    |to, x| _mm_storeu_si128(to.cast(), halves(x)),
    |x| {
        let low = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x[0]);
        let high = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x[1]);
        let nans = both(_mm256_castps_si256(nans(x[0])), _mm256_castps_si256(nans(x[1])));
        _mm256_blendv_epi8(_mm256_set_m128i(high, low), _mm256_set1_epi16(0x7fff), nans)
    }
);

/// The numbers as binary16.
#[target_feature(enable = "avx2,f16c")]
#[inline]
fn halves(x: __m256) -> __m128i {
    let bits = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
    _mm_blendv_epi8(bits, _mm_set1_epi16(0x7fff), shorts(_mm256_castps_si256(nans(x))))
}

cells!(
    bf16,
    |from| {
        let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
    },
    |to, x| _mm_storeu_si128(to.cast(), shorts(upper(x))),
    |x| both(upper(x[0]), upper(x[1]))
);

/// The numbers as bfloat16, with their sign, so that the upper halves are not saturated.
#[target_feature(enable = "avx2")]
#[inline]
fn upper(x: __m256) -> __m256i {
    let bits = _mm256_castps_si256(x);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    let rounded = unless_nan(_mm256_add_epi32(bits, up), x, 0x7fff_0000);
    _mm256_srai_epi32::<16>(rounded)
}

/// The numbers as integers, half to even, NaN as 0; what exceeds `most`, which an i32 holds, as
/// `most`, and what no i32 holds below as the least.
#[target_feature(enable = "avx2")]
#[inline]
fn integers(x: __m256, most: f32) -> __m256i {
    // The second operand answers where the first is NaN, which is cleared.
    let clipped = _mm256_min_ps(x, _mm256_set1_ps(most));
    let rounded = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(clipped);
    _mm256_andnot_si256(_mm256_castps_si256(nans(x)), _mm256_cvttps_epi32(rounded))
}

/// The integers of four registers as bytes, saturated by `$pack`.
macro_rules! bytes {
    ($x:ident, $most:literal, $pack:ident) => {{
        let [a, b, c, d] = $x;
        let ab = _mm256_packs_epi32(integers(a, $most), integers(b, $most));
        let cd = _mm256_packs_epi32(integers(c, $most), integers(d, $most));
        // Four of each register, alternating.
        let places = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_permutevar8x32_epi32($pack(ab, cd), places)
    }};
}

cells!(
    i8,
    |from| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()))),
    |to, x| {
        let x = shorts(integers(x, 127.0));
        _mm_storel_epi64(to.cast(), _mm_packs_epi16(x, x))
    },
    |x| bytes!(x, 127.0, _mm256_packs_epi16)
);

cells!(
    u8,
    |from| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))),
    |to, x| {
        let x = shorts(integers(x, 255.0));
        _mm_storel_epi64(to.cast(), _mm_packus_epi16(x, x))
    },
    |x| bytes!(x, 255.0, _mm256_packus_epi16)
);

/// # Safety
/// As for [`Row`](crate::backend::cpu::row::Row).
#[target_feature(enable = "avx2,f16c")]
pub(in super::super) unsafe fn row<
    S: Cells<__m256>,
    D: Cells<__m256>,
    const SCALES: bool,
    const BLENDS: bool,
>(
    dst: *mut u8, src: *const u8, n: usize, scaling: Scaling,
) {
    // SAFETY: `n` cells are readable and writable, and the processor has AVX2 and F16C.
    unsafe { super::row::<__m256, S, D, SCALES, BLENDS>(dst, src, n, scaling) }
}
