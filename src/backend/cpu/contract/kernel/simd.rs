//! The few vector operations that contractions need, per level and type.

#[cfg(target_arch = "aarch64")]
mod neon;

use crate::backend::cpu::stream::{LINE, fetch};
use crate::dtype::Scalar;

/// Vectors of one type at one level.
///
/// Packing writes scalars, kernels read k-groups: one scalar, or the two or four neighbours along K
/// that one instruction multiplies.
///
/// # Safety
/// Every function needs the instructions of its level; pointers are good for what they name.
pub trait Simd: Copy + 'static {
    /// What packing writes.
    type Scalar: Copy + PartialEq + Default + Send + Sync + 'static;
    /// What kernels read: [`K_PACK`](Simd::K_PACK) scalars.
    type KGroup: Copy + 'static;
    /// The type of accumulators.
    type Acc: Copy + Default + 'static;
    /// The portable vectors of the same scalars: what packing is compiled for, which needs no
    /// vectors.
    type Portable: Simd<Scalar = Self::Scalar, KGroup = Self::KGroup>;
    /// A vector.
    type V: Copy;
    /// Lanes of a vector.
    const L: usize;
    /// Vectors that a tile is wide.
    const NV: usize;
    /// Vectors that a tile of one row is wide: as many accumulators as hide the latency of one.
    const WIDE: usize;
    /// Scalars of a k-group: the pack factor.
    const K_PACK: usize;
    /// K-groups that packing appends to a line: the zero-point compensation of its accumulators.
    const COMPENSATION: usize = 0;
    /// Which operand's compensation kernels add.
    const COMPENSATES: Compensation = Compensation::None;
    /// Of k-groups of bytes: the type of `a` whose highest bits are turned over, and what the bytes
    /// of `b` count then.
    const SHIFTED: (Scalar, i32) = (Scalar::I8, -128);
    /// A k-group whose products are 0.
    const ZERO: Self::KGroup;

    unsafe fn zero() -> Self::V;
    unsafe fn splat(at: *const Self::KGroup) -> Self::V;
    unsafe fn load(at: *const Self::KGroup) -> Self::V;
    unsafe fn load_acc(at: *const Self::Acc) -> Self::V;
    unsafe fn store(at: *mut Self::Acc, v: Self::V);
    /// `a * b + c`
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;

    /// Prefetches the cache lines of `N` vectors that are about to be written, or read.
    #[inline(always)]
    fn prefetch<const N: usize>(at: *const Self::Acc) {
        let (lanes, line) = (N * Self::L, LINE / size_of::<Self::Acc>());
        let mut lane = 0;
        while lane < lanes {
            fetch(at.wrapping_add(lane).cast());
            lane += line;
        }
        // They need not begin with a line.
        fetch(at.wrapping_add(lanes - 1).cast());
    }
}

/// Whose [compensation](Simd::COMPENSATION) is added to the accumulators.
#[derive(PartialEq)]
pub enum Compensation {
    None,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    OfA,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    OfB,
}

/// Rows of a tile.
pub const MR: usize = 6;

/// The most lanes of a tile.
pub const MAX_NR: usize = 64;

/// Whatever the compiler may assume: four lanes, in arrays that it keeps in registers.
macro_rules! portable {
    ($name:ident, $T:ty, $L:literal) => {
        #[derive(Clone, Copy)]
        pub struct $name;
        impl Simd for $name {
            type Scalar = $T;
            type KGroup = $T;
            type Acc = $T;
            type Portable = Self;
            type V = [$T; $L];
            const L: usize = $L;
            const NV: usize = 2;
            const WIDE: usize = 4;
            const K_PACK: usize = 1;
            const ZERO: $T = 0.0;
            #[inline(always)]
            unsafe fn zero() -> Self::V {
                [0.0; $L]
            }
            #[inline(always)]
            unsafe fn splat(at: *const $T) -> Self::V {
                // SAFETY: a cell is readable.
                [unsafe { at.read() }; $L]
            }
            #[inline(always)]
            unsafe fn load(at: *const $T) -> Self::V {
                // SAFETY: as many cells as a vector has are readable.
                unsafe { at.cast::<Self::V>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn load_acc(at: *const $T) -> Self::V {
                // SAFETY: as many sums as a vector has are readable.
                unsafe { at.cast::<Self::V>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store(at: *mut $T, v: Self::V) {
                // SAFETY: as many sums as a vector has are writable.
                unsafe { at.cast::<Self::V>().write_unaligned(v) }
            }
            #[inline(always)]
            unsafe fn fma(a: Self::V, b: Self::V, mut c: Self::V) -> Self::V {
                let mut i = 0;
                while i < $L {
                    c[i] += a[i] * b[i];
                    i += 1;
                }
                c
            }
            #[inline(always)]
            unsafe fn add(a: Self::V, mut b: Self::V) -> Self::V {
                let mut i = 0;
                while i < $L {
                    b[i] += a[i];
                    i += 1;
                }
                b
            }
        }
    };
}

portable!(PortableSingle, f32, 4);
portable!(PortableDouble, f64, 2);

/// Pairs of 16-bit integers, four at a time.
#[derive(Clone, Copy)]
pub struct PortableInt;

impl Simd for PortableInt {
    type Scalar = i16;
    type KGroup = i32;
    type Acc = i32;
    type Portable = Self;
    type V = [i32; 4];
    const L: usize = 4;
    const NV: usize = 2;
    const WIDE: usize = 4;
    const K_PACK: usize = 2;
    const ZERO: i32 = 0;
    #[inline(always)]
    unsafe fn zero() -> Self::V {
        [0; 4]
    }
    #[inline(always)]
    unsafe fn splat(at: *const i32) -> Self::V {
        // SAFETY: a cell is readable.
        [unsafe { at.read_unaligned() }; 4]
    }
    #[inline(always)]
    unsafe fn load(at: *const i32) -> Self::V {
        // SAFETY: as many cells as a vector has are readable.
        unsafe { at.cast::<Self::V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_acc(at: *const i32) -> Self::V {
        // SAFETY: as many sums as a vector has are readable.
        unsafe { at.cast::<Self::V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(at: *mut i32, v: Self::V) {
        // SAFETY: as many sums as a vector has are writable.
        unsafe { at.cast::<Self::V>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, mut c: Self::V) -> Self::V {
        let mut i = 0;
        while i < 4 {
            let low = i32::from(a[i] as i16) * i32::from(b[i] as i16);
            let high = (a[i] >> 16) * (b[i] >> 16);
            c[i] = c[i].wrapping_add(low).wrapping_add(high);
            i += 1;
        }
        c
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, mut b: Self::V) -> Self::V {
        let mut i = 0;
        while i < 4 {
            b[i] = b[i].wrapping_add(a[i]);
            i += 1;
        }
        b
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Compensation, Simd};
    use core::arch::x86_64::*;

    macro_rules! float {
        ($name:ident, $Portable:ident, $T:ty, $V:ty, $L:literal, $NV:literal, $zero:ident, $splat:ident, $load:ident, $store:ident,
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
                const NV: usize = $NV;
                const WIDE: usize = 16 / $NV;
                const K_PACK: usize = 1;
                const ZERO: $T = 0.0;
                #[inline(always)]
                unsafe fn zero() -> $V {
                    // SAFETY: the processor has the instructions of this type, or it would not be
                    // used.
                    unsafe { $zero() }
                }
                #[inline(always)]
                unsafe fn splat(at: *const $T) -> $V {
                    // SAFETY: one cell is readable there, and the processor has the instructions.
                    unsafe { $splat(at.read()) }
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
                    // SAFETY: the processor has the instructions of this type, or it would not be
                    // used.
                    unsafe { $fma(a, b, c) }
                }
                #[inline(always)]
                unsafe fn add(a: $V, b: $V) -> $V {
                    // SAFETY: the processor has the instructions of this type, or it would not be
                    // used.
                    unsafe { $add(a, b) }
                }
            }
        };
    }

    float!(
        Avx2Single,
        PortableSingle,
        f32,
        __m256,
        8,
        2,
        _mm256_setzero_ps,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_fmadd_ps,
        _mm256_add_ps
    );
    float!(
        Avx2Double,
        PortableDouble,
        f64,
        __m256d,
        4,
        2,
        _mm256_setzero_pd,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_fmadd_pd,
        _mm256_add_pd
    );
    float!(
        Avx512Single,
        PortableSingle,
        f32,
        __m512,
        16,
        4,
        _mm512_setzero_ps,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_fmadd_ps,
        _mm512_add_ps
    );
    float!(
        Avx512Double,
        PortableDouble,
        f64,
        __m512d,
        8,
        4,
        _mm512_setzero_pd,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_fmadd_pd,
        _mm512_add_pd
    );

    /// Sums of the products of as many parts as a cell has, in 32 bits.
    macro_rules! int {
        ($V:ty, $L:literal, $NV:literal, $zero:ident, $set:ident, $load:ident, $store:ident, $add:ident,
         $($name:ident: $Scalar:ty, $K_PACK:literal, $Portable:ty, $tails:ident,
           |$row:ident| $splat:expr, |$a:ident, $b:ident, $c:ident| $dot:expr;)+) => {$(
            #[derive(Clone, Copy)]
            pub struct $name;
            impl Simd for $name {
                type Scalar = $Scalar;
                type KGroup = i32;
                type Acc = i32;
                type Portable = $Portable;
                type V = $V;
                const L: usize = $L;
                const NV: usize = $NV;
                const WIDE: usize = 16 / $NV;
                const K_PACK: usize = $K_PACK;
                const COMPENSATION: usize = $K_PACK / 4;
                const COMPENSATES: Compensation = Compensation::$tails;
                const ZERO: i32 = 0;
                #[inline(always)]
                unsafe fn zero() -> $V {
                    // SAFETY: the processor has the instructions of this type, or it would not be
                    // used.
                    unsafe { $zero() }
                }
                #[inline(always)]
                unsafe fn splat(at: *const i32) -> $V {
                    // SAFETY: one cell is readable there, and the processor has the instructions.
                    unsafe {
                        let $row = $set(at.read_unaligned());
                        $splat
                    }
                }
                #[inline(always)]
                unsafe fn load(at: *const i32) -> $V {
                    // SAFETY: as many cells as a vector has are readable.
                    unsafe { $load(at.cast()) }
                }
                #[inline(always)]
                unsafe fn load_acc(at: *const i32) -> $V {
                    // SAFETY: as many sums as a vector has are readable.
                    unsafe { $load(at.cast()) }
                }
                #[inline(always)]
                unsafe fn store(at: *mut i32, v: $V) {
                    // SAFETY: as many sums as a vector has are writable.
                    unsafe { $store(at.cast(), v) }
                }
                #[inline(always)]
                unsafe fn fma($a: $V, $b: $V, $c: $V) -> $V {
                    // SAFETY: the processor has the instructions of this type, or it would not be
                    // used.
                    unsafe { $dot }
                }
                #[inline(always)]
                unsafe fn add(a: $V, b: $V) -> $V {
                    // SAFETY: the processor has the instructions of this type, or it would not be
                    // used.
                    unsafe { $add(a, b) }
                }
            }
        )+};
    }

    /// The highest bit of every byte: turned over, a signed byte is itself and 128 more, without a
    /// sign.
    const SIGNS: i32 = 0x8080_8080_u32 as i32;

    // Products of pairs are exact for every pair of bytes, and their sum fits 32 bits. Those of
    // four bytes, one without a sign and one with it, are added to the sum by one instruction: of
    // `Dots` the rows have no signs, of `SignedDots` neither operand is without, and the tails of
    // lanes take back what rows are too large; of `PlaneDots` the lanes have none, or tails of rows
    // take that back.
    int! {
        __m256i, 8, 2, _mm256_setzero_si256, _mm256_set1_epi32, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_add_epi32,
        Avx2Int: i16, 2, super::PortableInt, None, |row| row,
            |a, b, c| _mm256_add_epi32(c, _mm256_madd_epi16(a, b));
        Avx2Vnni: u8, 4, Self, None, |row| row, |a, b, c| _mm256_dpbusd_avx_epi32(c, a, b);
        Avx2SignedVnni: u8, 4, Avx2Vnni, OfB, |row| _mm256_xor_si256(row, _mm256_set1_epi32(SIGNS)),
            |a, b, c| _mm256_dpbusd_avx_epi32(c, a, b);
        Avx2PlaneVnni: u8, 4, Avx2Vnni, OfA, |row| row, |a, b, c| _mm256_dpbusd_avx_epi32(c, b, a);
    }
    int! {
        __m512i, 16, 4, _mm512_setzero_si512, _mm512_set1_epi32, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_add_epi32,
        Avx512Int: i16, 2, super::PortableInt, None, |row| row,
            |a, b, c| _mm512_add_epi32(c, _mm512_madd_epi16(a, b));
        Avx512Vnni: u8, 4, Avx2Vnni, None, |row| row, |a, b, c| _mm512_dpbusd_epi32(c, a, b);
        Avx512SignedVnni: u8, 4, Avx2Vnni, OfB, |row| _mm512_xor_si512(row, _mm512_set1_epi32(SIGNS)),
            |a, b, c| _mm512_dpbusd_epi32(c, a, b);
        Avx512PlaneVnni: u8, 4, Avx2Vnni, OfA, |row| row, |a, b, c| _mm512_dpbusd_epi32(c, b, a);
    }
}

#[cfg(target_arch = "aarch64")]
pub use neon::*;
#[cfg(target_arch = "x86_64")]
pub use x86::*;

/// What kernels of a single width take: vectors of AVX2, or of NEON.
#[cfg(target_arch = "aarch64")]
pub type Single = NeonSingle;
#[cfg(target_arch = "aarch64")]
pub type Int = NeonInt;
#[cfg(target_arch = "x86_64")]
pub type Single = Avx2Single;
#[cfg(target_arch = "x86_64")]
pub type Int = Avx2Int;

/// A vector of [`Single`].
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub type Vector = <Single as Simd>::V;
