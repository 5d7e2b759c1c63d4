//! Functions of cells of 16 bits: where all operands are of one such type, side by side, a kernel
//! takes them as they are.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::float32x4_t;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m512};

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use cudnn_shim_macros::vectorized;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::in_step;
use crate::backend::cpu::Isa;
use crate::backend::cpu::stream::Stream;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::backend::cpu::wide::{Cells, Register, strips::strips};
use crate::backend::function::{Constants, Formula, WithFormula, with_function};
use crate::dtype::Scalar;
use crate::ops::function::{Function, MOST_OPERANDS, Scaled};

/// As [`Kernel`](super::Kernel) for such cells, with nothing old to be added.
///
/// # Safety
/// As for [`Kernel`](super::Kernel).
pub(in crate::backend) type Kernel = unsafe fn(
    out: *mut u8,
    from: [*const u8; MOST_OPERANDS],
    n: usize,
    with: Constants<f32>,
    stream: Option<Stream>,
);

/// The kernel of a function whose operands and result are all of this type, if that has 16 bits.
/// Kernels are large: activations whose arithmetic takes no longer than conversions have them, and
/// their gradients.
pub(super) fn kernel(function: Function, scalar: Scalar, isa: Isa) -> Option<Kernel> {
    with_function(function, KernelFor(isa, scalar))
}

/// Operands of a kernel at most.
const MAX_OPERANDS: usize = 2;

#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, reason = "other processors have no such kernels")
)]
struct KernelFor(Isa, Scalar);

impl WithFormula for KernelFor {
    type Output = Option<Kernel>;

    fn with<F: Formula>(self) -> Option<Kernel> {
        if F::IS_LONG || matches!(F::SCALED, Scaled::Operands) || F::ARITY > MAX_OPERANDS {
            return None;
        }
        #[cfg(target_arch = "x86_64")]
        return match (self.1, self.0.has_avx512(), self.0.has_avx2()) {
            (Scalar::F16, true, _) => Some(of_arity::avx512::<__m512, half::f16, F>),
            (Scalar::Bf16, true, _) => Some(of_arity::avx512::<__m512, half::bf16, F>),
            (Scalar::F16, _, true) => Some(of_arity::avx2::<__m256, half::f16, F>),
            (Scalar::Bf16, _, true) => Some(of_arity::avx2::<__m256, half::bf16, F>),
            _ => None,
        };
        #[cfg(target_arch = "aarch64")]
        return match self.1 {
            Scalar::F16 if self.0.has_neon() => Some(of_arity::portable::<float32x4_t, half::f16, F>),
            Scalar::Bf16 if self.0.has_neon() => Some(of_arity::portable::<float32x4_t, half::bf16, F>),
            _ => None,
        };
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        None
    }
}

/// # Safety
/// As for [`Kernel`].
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[vectorized]
unsafe fn of_arity<R: Register, E: Cells<R>, F: Formula>(
    out: *mut u8, from: [*const u8; MOST_OPERANDS], n: usize, with: Constants<f32>, stream: Option<Stream>,
) {
    let [a, b, ..] = from.map(|from| from.cast::<E>());
    // SAFETY: `n` cells are readable at each operand, and writable at `out`.
    unsafe {
        match F::ARITY {
            1 => cells::<R, E, F, 1>(out.cast(), [a], n, with, stream),
            _ => cells::<R, E, F, MAX_OPERANDS>(out.cast(), [a, b], n, with, stream),
        }
    }
}

/// # Safety
/// As for [`Kernel`].
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
unsafe fn cells<R: Register, E: Cells<R>, F: Formula, const K: usize>(
    out: *mut E, from: [*const E; K], n: usize, with: Constants<f32>, stream: Option<Stream>,
) {
    // SAFETY: `n` cells are there on every side; all results of a strip are written.
    unsafe {
        strips::<R, E, K>(out, from, n, stream, |results, numbers| {
            let mut operands = [std::ptr::null(); MOST_OPERANDS];
            operands[..K].copy_from_slice(&numbers);
            in_step::<f32, F, 1>(results, operands, with);
        });
    }
}
