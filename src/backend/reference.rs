//! The obvious loop: every problem, one element at a time. The yardstick of all tests and the last resort.

use super::cpu::shape::Shape;
use super::{Machine, Operands};
use crate::dtype::convert::{Element, blend, convert, scale, with_element};
use crate::error::Result;
use crate::layout::LoopNest;
use crate::ops::{Fill, Scaling};

/// Calls `f` with the offset tuple of every element, the innermost axis turning fastest.
fn for_each<const N: usize>(nest: &LoopNest<N>, mut f: impl FnMut([i64; N])) {
    fn walk<const N: usize>(
        nest: &LoopNest<N>,
        depth: usize,
        offsets: [i64; N],
        f: &mut impl FnMut([i64; N]),
    ) {
        let Some(axis) = nest.axes().get(depth) else { return f(offsets) };
        for i in 0..axis.extent {
            walk(nest, depth + 1, std::array::from_fn(|k| offsets[k] + i * axis.strides[k]), f);
        }
    }
    walk(nest, 0, nest.offsets, &mut f);
}

/// Runs a transform; one thread, no vector code.
///
/// # Safety
/// As for [`super::run`].
pub(super) unsafe fn transform(shape: &Shape, operands: Operands, _: Machine) -> Result<()> {
    let transform = shape.transform;
    with_element!(transform.dst, D => with_element!(transform.src, S => {
        for_each(&transform.nest, |[dst, src]| {
            // SAFETY: the caller promises these two cells for every offset pair of the nest.
            unsafe {
                let y = operands.dst.cast::<D>().offset(dst as isize);
                element::<S, D>(y, operands.src.cast::<S>().offset(src as isize), transform.scaling);
            }
        });
    }));
    Ok(())
}

/// `*y = convert(alpha * *x + beta * *y)`.
///
/// # Safety
/// `x` is readable; `y` is writable, and readable if `beta != 0`.
unsafe fn element<S: Element, D: Element>(y: *mut D, x: *const S, scaling: Scaling) {
    // SAFETY: the caller's promise; y is read under the condition it names.
    unsafe {
        let x = x.read();
        y.write(if scaling.is_move() {
            convert(x)
        } else if scaling.beta == 0.0 {
            scale(scaling.alpha, x)
        } else {
            blend(scaling.alpha, x, scaling.beta, y.read())
        });
    }
}

/// Runs `fill`; one thread, no vector code.
///
/// # Safety
/// As for [`super::run`], for the destination alone.
pub unsafe fn fill(fill: &Fill, dst: *mut u8) {
    if fill.beta == 1.0 {
        return;
    }
    with_element!(fill.dst, D => for_each(&fill.nest, |[offset]| {
        // SAFETY: the caller promises this cell for every offset of the nest, readable if beta is not zero.
        unsafe {
            let y = dst.cast::<D>().offset(offset as isize);
            y.write(if fill.beta == 0.0 { D::ZERO } else { scale(fill.beta, y.read()) });
        }
    }));
}
