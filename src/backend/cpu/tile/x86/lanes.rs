//! Lanes of four registers, exchanged: the end of a transpose of whole lines.

/// Registers of AVX2, two of which make a line.
pub(super) mod avx2 {
    use std::arch::x86_64::*;

    /// The lines of as many columns as a register has lanes: lane `l` of each of four registers is
    /// a part of line `l`.
    #[target_feature(enable = "avx2,f16c")]
    #[inline]
    pub fn lines([a, b, c, d]: [__m256i; 4]) -> [[__m256i; 2]; 2] {
        [
            [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x20>(c, d)],
            [_mm256_permute2x128_si256::<0x31>(a, b), _mm256_permute2x128_si256::<0x31>(c, d)],
        ]
    }
}

/// Registers of AVX-512, each a line.
pub(super) mod avx512 {
    use std::arch::x86_64::*;

    /// As for AVX2.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn lines([a, b, c, d]: [__m512i; 4]) -> [[__m512i; 1]; 4] {
        const EVEN: i32 = 0b10_00_10_00;
        const ODD: i32 = 0b11_01_11_01;
        let (ab_even, ab_odd) = (_mm512_shuffle_i32x4::<EVEN>(a, b), _mm512_shuffle_i32x4::<ODD>(a, b));
        let (cd_even, cd_odd) = (_mm512_shuffle_i32x4::<EVEN>(c, d), _mm512_shuffle_i32x4::<ODD>(c, d));
        [
            [_mm512_shuffle_i32x4::<EVEN>(ab_even, cd_even)],
            [_mm512_shuffle_i32x4::<EVEN>(ab_odd, cd_odd)],
            [_mm512_shuffle_i32x4::<ODD>(ab_even, cd_even)],
            [_mm512_shuffle_i32x4::<ODD>(ab_odd, cd_odd)],
        ]
    }
}
