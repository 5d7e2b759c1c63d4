//! Rows whose pair of types has no loop of its own: a strip of cells becomes numbers, and these
//! become cells.
//!
//! A loop for each pair, mode and level would be a tenth of the library. Numbers are of the type
//! that the table of [`convert`](crate::dtype::convert) goes by, so that there is one loop for each
//! type and way, and nothing is rounded more.

use super::{BLEND, CONVERT, Row, STRIP};
use crate::backend::cpu::stream::Distance;
use crate::dtype::convert::{Class, Element, computes_in_f64};
use crate::ops::Scaling;

/// What values travel as.
trait Number: Copy {
    const ZERO: Self;
    fn load<E: Element>(x: E) -> Self;
    fn store<E: Element>(self) -> E;
    fn factor(x: f64) -> Self;
    fn times(self, x: Self) -> Self;
    fn plus(self, x: Self) -> Self;
}

macro_rules! number {
    ($T:ty, $load:ident, $store:ident, $zero:expr) => {
        impl Number for $T {
            const ZERO: Self = $zero;
            #[inline(always)]
            fn load<E: Element>(x: E) -> Self {
                x.$load()
            }
            #[inline(always)]
            fn store<E: Element>(self) -> E {
                E::$store(self)
            }
            #[inline(always)]
            fn factor(x: f64) -> Self {
                x as $T
            }
            #[inline(always)]
            fn times(self, x: Self) -> Self {
                self * x
            }
            #[inline(always)]
            fn plus(self, x: Self) -> Self {
                self + x
            }
        }
    };
}
number!(f32, to_f32, from_f32, 0.0);
number!(f64, to_f64, from_f64, 0.0);
// Factors never meet these: what is scaled is computed in binary32 or binary64.
number!(i64, to_i64, from_i64, 0);

/// The loops of one row function, and the bytes of a cell of either type.
struct Loops<V> {
    /// Cells of the source to numbers.
    load: unsafe fn(&mut [V], *const u8),
    /// Old cells of the destination to numbers.
    reload: unsafe fn(&mut [V], *const u8),
    /// Numbers to cells of the destination.
    store: unsafe fn(*mut u8, &[V]),
    sizes: [usize; 2],
}

/// What values of these types travel as, by the table.
#[derive(PartialEq, Eq)]
enum Via {
    F32,
    F64,
    I64,
}

const fn via(src: Class, dst: Class, mode: u8) -> Via {
    if mode != CONVERT {
        if computes_in_f64(src, dst) { Via::F64 } else { Via::F32 }
    } else if matches!(src, Class::Long) || (src.is_integer() && dst.is_integer()) {
        Via::I64
    } else if src.fits_f32() {
        Via::F32
    } else {
        Via::F64
    }
}

/// # Safety
/// As many cells as numbers are readable there.
#[inline(always)]
unsafe fn load<V: Number, S: Element>(numbers: &mut [V], from: *const u8) {
    let from = from.cast::<S>();
    for (i, number) in numbers.iter_mut().enumerate() {
        // SAFETY: there is a cell for every number.
        *number = V::load(unsafe { from.add(i).read() });
    }
}

/// # Safety
/// As many cells as numbers are writable there.
#[inline(always)]
unsafe fn store<V: Number, D: Element>(to: *mut u8, numbers: &[V]) {
    let to = to.cast::<D>();
    for (i, number) in numbers.iter().enumerate() {
        // SAFETY: there is a place for every number.
        unsafe { to.add(i).write(number.store()) }
    }
}

/// Every strip is read before it is written, so that cells in place are right as well.
///
/// # Safety
/// As for [`Row`].
#[inline(always)]
unsafe fn run<V: Number, const MODE: u8>(
    dst: *mut u8, src: *const u8, n: usize, scaling: Scaling, loops: &Loops<V>,
) {
    let (alpha, beta) = (V::factor(scaling.alpha), V::factor(scaling.beta));
    let of_dst = if MODE == BLEND { Distance::Updated } else { Distance::Written };
    let (mut numbers, mut old) = ([V::ZERO; STRIP], [V::ZERO; STRIP]);
    for first in (0..n).step_by(STRIP) {
        let len = STRIP.min(n - first);
        let numbers = &mut numbers[..len];
        let [src_size, dst_size] = loops.sizes;
        // SAFETY: cells below n.
        unsafe {
            let (to, from) = (dst.add(first * dst_size), src.add(first * src_size));
            Distance::Read.fetch(from, len * src_size);
            of_dst.fetch(to, len * dst_size);
            (loops.load)(numbers, from);
            if MODE != CONVERT {
                numbers.iter_mut().for_each(|x| *x = alpha.times(*x));
            }
            if MODE == BLEND {
                let old = &mut old[..len];
                (loops.reload)(old, to);
                numbers.iter_mut().zip(old).for_each(|(x, y)| *x = x.plus(beta.times(*y)));
            }
            (loops.store)(to, numbers);
        }
    }
}

/// The loops of a level.
macro_rules! level {
    ($level:ident $(, $feature:meta)?) => {
        pub(super) mod $level {
            use super::*;

            /// # Safety
            /// As for [`load`](super::load), and the processor has the instructions.
            $(#[$feature])?
            unsafe fn load<V: Number, S: Element>(numbers: &mut [V], from: *const u8) {
                // SAFETY: there is a cell for every number.
                unsafe { super::load::<V, S>(numbers, from) }
            }

            /// # Safety
            /// As for [`store`](super::store), and the processor has the instructions.
            $(#[$feature])?
            unsafe fn store<V: Number, D: Element>(to: *mut u8, numbers: &[V]) {
                // SAFETY: there is a place for every number.
                unsafe { super::store::<V, D>(to, numbers) }
            }

            /// # Safety
            /// As for [`Row`].
            $(#[$feature])?
            #[inline(never)]
            unsafe fn run<V: Number, const MODE: u8>(
                dst: *mut u8,
                src: *const u8,
                n: usize,
                scaling: Scaling,
                loops: &Loops<V>,
            ) {
                // SAFETY: `n` cells are readable and writable.
                unsafe { super::run::<V, MODE>(dst, src, n, scaling, loops) }
            }

            /// # Safety
            /// As for [`Row`].
            unsafe fn go<V: Number, S: Element, D: Element, const MODE: u8>(
                dst: *mut u8,
                src: *const u8,
                n: usize,
                scaling: Scaling,
            ) {
                let loops = Loops {
                    load: load::<V, S>,
                    reload: load::<V, D>,
                    store: store::<V, D>,
                    sizes: [size_of::<S>(), size_of::<D>()],
                };
                // SAFETY: `n` cells are readable and writable.
                unsafe { run::<V, MODE>(dst, src, n, scaling, &loops) }
            }

            /// The row function of a pair of types. Its calls need a processor with the
            /// instructions of the level.
            pub fn row<S: Element, D: Element, const MODE: u8>() -> Row {
                match const { via(S::CLASS, D::CLASS, MODE) } {
                    Via::F32 => go::<f32, S, D, MODE>,
                    Via::F64 => go::<f64, S, D, MODE>,
                    Via::I64 => go::<i64, S, D, MODE>,
                }
            }
        }
    };
}
level!(portable);
#[cfg(target_arch = "x86_64")]
level!(avx2, target_feature(enable = "avx2"));
#[cfg(target_arch = "x86_64")]
level!(avx512, target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl"));
