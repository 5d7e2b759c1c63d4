//! What kernels of contractions are compiled for: each level of vector instructions, and each type
//! of accumulators.

use cudnn_shim_macros::vectorized;

use super::direct::depthwise_interleaved::{self, DepthwiseInterleaved};
use super::gemm::engine::{self, Engine, TaskScratch};
use super::kernel::simd::{self, Simd};
use super::kernel::{self, Kernels};
use super::operands::pack::PackScalar;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::problem::lanes_are_m;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::dtype::Scalar;
use crate::dtype::convert::Element;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::ops::contract::Contract;

/// What is compiled for one level and type.
pub(super) struct Compiled<S: Simd<Scalar: PackScalar, Acc: Element>> {
    pub(super) kernels: Kernels<S>,
    pub(super) task: engine::Task<S>,
    pub(super) channels: depthwise_interleaved::Task<S>,
}

macro_rules! compiled {
    ($($name:ident: $S:ident, $kernels:ident, $level:ident;)*) => {
        $(pub(super) static $name: Compiled<simd::$S> = compiled!($S, $S, $kernels, $level);)*
    };
    ($S:ident, $K:ident, $kernels:ident, $level:ident) => {
        Compiled { kernels: kernel::$kernels::<simd::$S, simd::$K>(), task: task::$level, channels: channels::$level }
    };
}

compiled! {
    PORTABLE_SINGLE: PortableSingle, portable_kernels, portable;
    PORTABLE_DOUBLE: PortableDouble, portable_kernels, portable;
    PORTABLE_INT: PortableInt, portable_kernels, portable;
}
#[cfg(target_arch = "aarch64")]
compiled! {
    NEON_SINGLE: NeonSingle, neon_kernels, portable;
    NEON_DOUBLE: NeonDouble, neon_kernels, portable;
    NEON_INT: NeonInt, neon_kernels, portable;
}
#[cfg(target_arch = "x86_64")]
compiled! {
    AVX2_SINGLE: Avx2Single, avx2_kernels, avx2;
    AVX2_DOUBLE: Avx2Double, avx2_kernels, avx2;
    AVX2_INT: Avx2Int, avx2_kernels, avx2;
    AVX512_SINGLE: Avx512Single, avx512_kernels, avx512;
    AVX512_DOUBLE: Avx512Double, avx512_kernels, avx512;
    AVX512_INT: Avx512Int, avx512_kernels, avx512;
}

/// By the number that [`vnni_variant`] tells.
#[cfg(target_arch = "aarch64")]
pub(super) static NEON_DOT: [&Compiled<simd::NeonDot>; 3] = [
    &compiled!(NeonDot, NeonDot, neon_dot_kernels, portable),
    &compiled!(NeonDot, NeonDotOfRows, neon_dot_kernels, portable),
    &compiled!(NeonDot, NeonDotOfLanes, neon_dot_kernels, portable),
];

/// By the number that [`vnni_variant`] tells.
#[cfg(target_arch = "x86_64")]
pub(super) static AVX2_VNNI: [&Compiled<simd::Avx2Vnni>; 3] = [
    &compiled!(Avx2Vnni, Avx2Vnni, avx2_vnni_kernels, avx2),
    &compiled!(Avx2Vnni, Avx2SignedVnni, avx2_vnni_kernels, avx2),
    &compiled!(Avx2Vnni, Avx2PlaneVnni, avx2_vnni_kernels, avx2),
];
#[cfg(target_arch = "x86_64")]
pub(super) static AVX512_VNNI: [&Compiled<simd::Avx512Vnni>; 3] = [
    &compiled!(Avx512Vnni, Avx512Vnni, avx512_vnni_kernels, avx512),
    &compiled!(Avx512Vnni, Avx512SignedVnni, avx512_vnni_kernels, avx512),
    &compiled!(Avx512Vnni, Avx512PlaneVnni, avx512_vnni_kernels, avx512),
];

/// Which kernels of such sums a step needs: of two operands with signs the first.
#[cfg(target_arch = "aarch64")]
pub(super) fn vnni_variant(step: &Contract) -> usize {
    match (lanes_are_m(step), step.a) {
        (_, Scalar::I8) => 0,
        (true, _) => 2,
        (false, _) => 1,
    }
}

/// Which kernels of such sums a step needs.
#[cfg(target_arch = "x86_64")]
pub(super) fn vnni_variant(step: &Contract) -> usize {
    match (lanes_are_m(step), step.a) {
        (true, _) => 2,
        (false, Scalar::I8) => 1,
        (false, _) => 0,
    }
}

/// The launch of `$kernel`, where `$compiled` is what is compiled for the level of the problem and
/// its type of accumulators; `None` for problems that are not of the kind that comes first:
///
/// - `any`: all of them;
/// - `vnni`: products of bytes that are added four at a time;
/// - `unpacked`: all others;
/// - `f32`: accumulators in binary32, with AVX2 or AVX-512.
macro_rules! dispatch {
    (any: $problem:ident, $compiled:ident => $kernel:expr) => {
        dispatch!(vnni: $problem, $compiled => $kernel)
            .or_else(|| dispatch!(unpacked: $problem, $compiled => $kernel))
    };
    (vnni: $problem:ident, $compiled:ident => $kernel:expr) => {{
        let step = $problem.step();
        match takes_vnni(step, $problem.isa) {
            #[cfg(target_arch = "aarch64")]
            true => dispatch!(*levels::NEON_DOT[levels::vnni_variant(step)]; $problem, $compiled => $kernel),
            #[cfg(target_arch = "x86_64")]
            true if $problem.isa.has_avx512() => {
                dispatch!(*levels::AVX512_VNNI[levels::vnni_variant(step)]; $problem, $compiled => $kernel)
            }
            #[cfg(target_arch = "x86_64")]
            true => dispatch!(*levels::AVX2_VNNI[levels::vnni_variant(step)]; $problem, $compiled => $kernel),
            _ => None,
        }
    }};
    (unpacked: $problem:ident, $compiled:ident => $kernel:expr) => {{
        let isa = $problem.isa;
        let step = $problem.step();
        match step.accumulate {
            _ if takes_vnni(step, isa) => None,
            #[cfg(target_arch = "aarch64")]
            Accumulate::Single if isa.has_neon() => dispatch!(levels::NEON_SINGLE; $problem, $compiled => $kernel),
            #[cfg(target_arch = "aarch64")]
            Accumulate::Double if isa.has_neon() => dispatch!(levels::NEON_DOUBLE; $problem, $compiled => $kernel),
            #[cfg(target_arch = "aarch64")]
            Accumulate::Int32 if isa.has_neon() => dispatch!(levels::NEON_INT; $problem, $compiled => $kernel),
            #[cfg(target_arch = "x86_64")]
            Accumulate::Single if isa.has_avx2() => dispatch!(f32: $problem, $compiled => $kernel),
            #[cfg(target_arch = "x86_64")]
            Accumulate::Double if isa.has_avx512() => dispatch!(levels::AVX512_DOUBLE; $problem, $compiled => $kernel),
            #[cfg(target_arch = "x86_64")]
            Accumulate::Int32 if isa.has_avx512() => dispatch!(levels::AVX512_INT; $problem, $compiled => $kernel),
            #[cfg(target_arch = "x86_64")]
            Accumulate::Double if isa.has_avx2() => dispatch!(levels::AVX2_DOUBLE; $problem, $compiled => $kernel),
            #[cfg(target_arch = "x86_64")]
            Accumulate::Int32 if isa.has_avx2() => dispatch!(levels::AVX2_INT; $problem, $compiled => $kernel),
            Accumulate::Single => dispatch!(levels::PORTABLE_SINGLE; $problem, $compiled => $kernel),
            Accumulate::Double => dispatch!(levels::PORTABLE_DOUBLE; $problem, $compiled => $kernel),
            Accumulate::Int32 => dispatch!(levels::PORTABLE_INT; $problem, $compiled => $kernel),
        }
    }};
    (f32: $problem:ident, $compiled:ident => $kernel:expr) => {
        match $problem.step().accumulate {
            #[cfg(target_arch = "aarch64")]
            Accumulate::Single if $problem.isa.has_neon() => {
                dispatch!(levels::NEON_SINGLE; $problem, $compiled => $kernel)
            }
            #[cfg(target_arch = "x86_64")]
            Accumulate::Single if $problem.isa.has_avx512() => {
                dispatch!(levels::AVX512_SINGLE; $problem, $compiled => $kernel)
            }
            #[cfg(target_arch = "x86_64")]
            Accumulate::Single if $problem.isa.has_avx2() => {
                dispatch!(levels::AVX2_SINGLE; $problem, $compiled => $kernel)
            }
            _ => None,
        }
    };
    ($level:expr; $problem:ident, $compiled:ident => $kernel:expr) => {{
        let $compiled = &$level;
        $problem.launch($kernel)
    }};
}
pub(super) use dispatch;

/// # Safety
/// As for [`Engine::task`].
#[vectorized]
unsafe fn task<S: Simd<Scalar: PackScalar, Acc: Element>>(
    engine: &Engine<'_, S>, scratch: &TaskScratch<'_, S>, index: usize,
) {
    // SAFETY: the scratch is this task's, and what is shared has been packed.
    unsafe { engine.task(scratch, index) }
}

/// # Safety
/// As for [`DepthwiseInterleaved::row`].
#[vectorized]
unsafe fn channels<S: Simd<Scalar: PackScalar, Acc: Element>>(
    channels: &DepthwiseInterleaved<'_, S>, factors: *const S::KGroup, acc: *mut S::Acc, index: usize,
) {
    // SAFETY: the factors are those of all products, and there is room for the sums of a row.
    unsafe { channels.row(factors, acc, index) }
}
