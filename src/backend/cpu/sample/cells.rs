//! How elements of a picture become numbers: inside the kernels for the types that networks sample,
//! by a call for all others: kernels of their own for these would be a fiftieth of the library.

use std::marker::PhantomData;

use crate::backend::real::Real;
use crate::dtype::Scalar;
use crate::dtype::convert::{Element, convert, with_element};

/// Elements that are read as numbers of type `T`.
pub trait Cells<T>: Copy + Sync {
    /// Reads element `offset` of those at `base`.
    ///
    /// # Safety
    /// The element is readable and aligned.
    unsafe fn get(self, base: *const u8, offset: i64) -> T;
}

/// Elements of one type.
#[derive(Clone, Copy)]
pub struct Of<S>(PhantomData<S>);

impl<S> Of<S> {
    pub fn new() -> Self {
        Of(PhantomData)
    }
}

impl<S: Element + Sync, T: Element> Cells<T> for Of<S> {
    #[inline(always)]
    unsafe fn get(self, base: *const u8, offset: i64) -> T {
        // SAFETY: the map has a cell at this offset.
        convert(unsafe { base.cast::<S>().offset(offset as isize).read() })
    }
}

/// Elements of any type.
#[derive(Clone, Copy)]
pub struct Any<T>(unsafe fn(*const u8, i64) -> T);

impl<T: Real> Any<T> {
    pub fn new(scalar: Scalar) -> Self {
        /// # Safety
        /// As for [`Cells::get`].
        unsafe fn get<S: Element + Sync, T: Element>(base: *const u8, offset: i64) -> T {
            // SAFETY: the map has a cell at this offset.
            unsafe { Of::<S>::new().get(base, offset) }
        }
        Any(with_element!(scalar, S => get::<S, T>))
    }
}

impl<T: Copy> Cells<T> for Any<T> {
    #[inline(always)]
    unsafe fn get(self, base: *const u8, offset: i64) -> T {
        // SAFETY: the map has a cell at this offset.
        unsafe { (self.0)(base, offset) }
    }
}

/// Runs `$body` with `$cells` bound to the [`Cells`] of a [`Scalar`], read as numbers of type `$T`.
macro_rules! with_cells {
    ($scalar:expr, $T:ty, $cells:ident => $body:expr) => {
        match $scalar {
            scalar if scalar == <$T as $crate::dtype::convert::Element>::SCALAR => {
                let $cells = $crate::backend::cpu::sample::cells::Of::<$T>::new();
                $body
            }
            $crate::dtype::Scalar::F16 => {
                let $cells = $crate::backend::cpu::sample::cells::Of::<half::f16>::new();
                $body
            }
            $crate::dtype::Scalar::Bf16 => {
                let $cells = $crate::backend::cpu::sample::cells::Of::<half::bf16>::new();
                $body
            }
            other => {
                let $cells = $crate::backend::cpu::sample::cells::Any::<$T>::new(other);
                $body
            }
        }
    };
}
pub(super) use with_cells;
