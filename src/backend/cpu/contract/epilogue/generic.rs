//! From sums to the destination: factors, further terms, activation, conversion.

use super::binary32::{F32Epilogue, clipped};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::narrow::NarrowEpilogue;
pub use super::run::Run;
use super::run::rectifier;
use crate::backend::cpu::contract::kernel::simd::MR;
use crate::backend::cpu::row::{Row, between};
use crate::backend::cpu::stage::Stage;
use crate::backend::cpu::stream::fetch;
use crate::backend::cpu::{Isa, map};
use crate::backend::function::{Real, with_real};
use crate::dtype::Scalar;
use crate::dtype::convert::{Element, convert, with_element};
use crate::ops::Scaling;
use crate::ops::activation::Activation;
use crate::ops::contract::Contract;

/// What the epilogue reads and writes.
#[derive(Clone, Copy)]
pub struct Outputs<'a> {
    pub step: &'a Contract,
    pub dst: *mut u8,
    pub z: *const u8,
    pub bias: *const u8,
    /// What is to do where it is simple.
    pub f32_epilogue: Option<F32Epilogue>,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub narrow: Option<NarrowEpilogue>,
    /// Converts neighbours of the type that is computed in to elements of the destination.
    pub store: Row,
    /// Converts neighbours of the destination and of z to the type that is computed in.
    pub load: [Row; 2],
    pub isa: Isa,
}

// SAFETY: addresses without meaning of their own; tasks write disjoint elements.
unsafe impl Sync for Outputs<'_> {}

impl<'a> Outputs<'a> {
    /// The outputs of a step on operands at these addresses.
    pub fn of(step: &'a Contract, at: &[*mut u8], isa: Isa) -> Outputs<'a> {
        let slot = |slot: Option<usize>| slot.map_or(std::ptr::null_mut(), |slot| at[slot]);
        let (z, bias) = (slot(step.z_slot()), slot(step.bias_slot()));
        Outputs {
            f32_epilogue: F32Epilogue::of(step, [at[0], z, bias], isa),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            narrow: NarrowEpilogue::of(step, [at[0], z, bias], isa),
            store: between(step.real().scalar(), step.dst, Scaling::MOVE, isa),
            load: [Some(step.dst), step.epilogue.z.map(|(scalar, _)| scalar)]
                .map(|scalar| between(scalar.unwrap_or(step.dst), step.real().scalar(), Scaling::MOVE, isa)),
            isa,
            step,
            dst: at[0],
            z,
            bias,
        }
    }

    /// Whether sums may be built in the destination itself.
    pub fn takes_acc(&self, sum: Scalar) -> bool {
        self.step.dst == sum && self.step.epilogue.scaling.beta == 0.0 && self.step.epilogue.z.is_none()
    }

    /// Asks for what [`epilogue`] touches of one run of one row, while its sums are computed.
    #[inline(always)]
    pub fn prefetch(&self, row: &[i64; 5], run: &Run) {
        let at = |data: *const u8, slot: usize, scalar: Scalar| {
            fetch(data.wrapping_offset((row[slot] + run.at[slot]) as isize * scalar.size() as isize));
        };
        at(self.dst, 0, self.step.dst);
        if let Some((scalar, _)) = self.step.epilogue.z {
            at(self.z, 3, scalar);
        }
    }

    /// Whether finished sums are the result.
    pub fn is_plain(&self) -> bool {
        let epilogue = &self.step.epilogue;
        epilogue.scaling.is_move()
            && epilogue.z.is_none()
            && epilogue.bias.is_none()
            && epilogue.activation.is_none()
    }
}

/// Longest run that is finished at once.
const ROOM: usize = 64;

/// Finishes the sums of one run of one row.
///
/// # Safety
/// `acc` has the run's sums; every element of dst is writable, readable if `beta` is not 0; those
/// of z and bias are readable; all aligned.
#[inline(always)]
pub unsafe fn epilogue<A: Element>(outputs: &Outputs<'_>, row: &[i64; 5], run: &Run, acc: *const A) {
    // Known to the compiler: sums of other types never are.
    if A::SCALAR == Scalar::F32
        && let Some(f32_epilogue) = &outputs.f32_epilogue
    {
        // SAFETY: the operands have the run's elements, and sums of such outputs are binary32.
        return unsafe { f32_epilogue.epilogue(std::slice::from_ref(row), run, [acc.cast()].as_ptr()) };
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let Some(narrow) = &outputs.narrow {
        // SAFETY: the operands have the run's elements, and it was made for the step, of which
        // these are the sums.
        return unsafe { narrow.epilogue(row, run, acc.cast()) };
    }
    // SAFETY: the sums and the operands are those of the run.
    with_real!(outputs.step.real(), R => unsafe {
        epilogue_in::<A, R>(outputs, std::slice::from_ref(row), run, &[acc]);
    })
}

/// The same as a function of its own, for kernels of which there are many.
///
/// # Safety
/// As for [`epilogue`]; on x86-64 the processor has AVX2 and fused multiply-add.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
#[inline(never)]
pub unsafe fn epilogue_outlined<A: Element>(outputs: &Outputs<'_>, row: &[i64; 5], run: &Run, acc: *const A) {
    // SAFETY: the sums and the operands are those of the run.
    unsafe { epilogue(outputs, row, run, acc) }
}

/// Finishes the sums of one run of some rows, which begin at `acc`.
///
/// # Safety
/// As for [`epilogue`].
#[inline(always)]
pub unsafe fn rows_epilogue<A: Element>(
    outputs: &Outputs<'_>, rows: &[[i64; 5]], run: &Run, acc: &[*mut A; MR],
) {
    let acc = acc.map(|acc| acc.cast_const().wrapping_add(run.lane as usize));
    if A::SCALAR == Scalar::F32
        && let Some(f32_epilogue) = &outputs.f32_epilogue
    {
        // SAFETY: the operands have the run's elements in every row, and sums of such outputs are
        // binary32.
        return unsafe { f32_epilogue.epilogue(rows, run, acc.as_ptr().cast()) };
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if outputs.narrow.is_some() {
        for (row, from) in rows.iter().zip(acc) {
            // SAFETY: each row has the sums and the operands of the run.
            unsafe { epilogue(outputs, row, run, from) };
        }
        return;
    }
    // SAFETY: each row has the sums and the operands of the run.
    with_real!(outputs.step.real(), R => unsafe { epilogue_in::<A, R>(outputs, rows, run, &acc) })
}

/// Finishes the sums of one run of at most [`MR`] rows. Not compiled for every kernel that ends in
/// it: conversions are what costs, and have functions of their own.
///
/// # Safety
/// As for [`epilogue`], for every row.
#[inline(never)]
unsafe fn epilogue_in<A: Element, R: Real>(
    outputs: &Outputs<'_>, rows: &[[i64; 5]], run: &Run, acc: &[*const A],
) {
    assert!(rows.len() <= MR && rows.len() <= acc.len(), "{} rows of {}", rows.len(), acc.len());
    let epilogue = &outputs.step.epilogue;
    let mut begin = 0;
    while begin < run.len as usize {
        let len = (run.len as usize - begin).min(ROOM);
        let place = |row: &[i64; 5], k: usize| row[k] + run.at[k] + begin as i64 * run.by[k];
        let mut stage = Stage::<{ MR * ROOM * size_of::<f64>() }>::new();
        let at = stage.ptr().cast::<R>();
        // SAFETY: there are as many sums as the run is long in every row; operands are read where
        // the epilogue has them. The stage has room for as many results of every row, which are
        // written before they are read.
        unsafe {
            for (number, (row, acc)) in rows.iter().zip(acc).enumerate() {
                let to = at.add(number * len);
                (0..len).for_each(|i| to.add(i).write(convert::<A, R>(acc.add(begin + i).read())));
                let r = std::slice::from_raw_parts_mut(to, len);
                sum_up(outputs, r, run.by, |k| place(row, k));
            }
            let results = std::slice::from_raw_parts_mut(at, rows.len() * len);
            // All rows together: a function of few numbers takes as long as one of many.
            activate(epilogue.activation, results, outputs.isa);
            for (row, r) in rows.iter().zip(results.chunks_exact(len)) {
                store::<R>(r, outputs, place(row, 0), run.by[0]);
            }
        }
        begin += len;
    }
}

/// `r = alpha * r + beta * dst + alpha2 * z + bias`, for neighbours of one row, of which `r` has the
/// sums; operand `k` begins at `place(k)`, and its elements are `by[k]` apart.
///
/// # Safety
/// As for [`epilogue`].
#[inline(always)]
unsafe fn sum_up<R: Real>(outputs: &Outputs<'_>, r: &mut [R], by: [i64; 5], place: impl Fn(usize) -> i64) {
    let epilogue = &outputs.step.epilogue;
    let alpha = R::from_f64(epilogue.scaling.alpha);
    r.iter_mut().for_each(|r| *r = alpha * *r);
    // SAFETY: operands are read where the epilogue has them.
    unsafe {
        if epilogue.scaling.beta != 0.0 {
            let beta = R::from_f64(epilogue.scaling.beta);
            let row = Some(outputs.load[0]);
            add::<R>(r, outputs.step.dst, outputs.dst, place(0), by[0], Some(beta), row);
        }
        if let Some((scalar, alpha2)) = epilogue.z
            && alpha2 != 0.0
        {
            let (factor, row) = (Some(R::from_f64(alpha2)), Some(outputs.load[1]));
            add::<R>(r, scalar, outputs.z, place(3), by[3], factor, row);
        }
        if let Some(scalar) = epilogue.bias {
            add::<R>(r, scalar, outputs.bias, place(4), by[4], None, None);
        }
    }
}

/// `r += factor * operand`
///
/// # Safety
/// The elements are readable and aligned, and `row` converts neighbours of them.
#[inline(always)]
unsafe fn add<R: Real>(
    r: &mut [R], scalar: Scalar, data: *const u8, at: i64, by: i64, factor: Option<R>, row: Option<Row>,
) {
    let mut wide = [R::ZERO; ROOM];
    let wide = &mut wide[..r.len()];
    if let Some(row) = row.filter(|_| by == 1) {
        let from = data.wrapping_offset(at as isize * scalar.size() as isize);
        // SAFETY: the elements lie side by side, and there is room for as many numbers.
        unsafe { row(wide.as_mut_ptr().cast(), from, wide.len(), Scaling::MOVE) };
    } else {
        with_element!(scalar, E => {
            let from = data.cast::<E>().wrapping_offset(at as isize);
            if by == 0 {
                // SAFETY: the element is readable and aligned.
                wide.fill(convert(unsafe { from.read() }));
            } else {
                for (i, x) in wide.iter_mut().enumerate() {
                    // SAFETY: the elements of the run are readable and aligned.
                    *x = convert(unsafe { from.offset(i as isize * by as isize).read() });
                }
            }
        })
    }
    match factor {
        Some(factor) => r.iter_mut().zip(wide).for_each(|(r, x)| *r = *r + factor * *x),
        None => r.iter_mut().zip(wide).for_each(|(r, x)| *r = *r + *x),
    }
}

/// # Safety
/// The elements are writable and aligned.
#[inline(always)]
unsafe fn store<R: Real>(r: &[R], outputs: &Outputs<'_>, at: i64, by: i64) {
    let scalar = outputs.step.dst;
    let to = outputs.dst.wrapping_offset(at as isize * scalar.size() as isize);
    if by == 1 {
        // SAFETY: the places lie side by side, one for each number, and the row converts from this
        // type.
        return unsafe { (outputs.store)(to, r.as_ptr().cast(), r.len(), Scaling::MOVE) };
    }
    with_element!(scalar, E => {
        let to = to.cast::<E>();
        for (i, &r) in r.iter().enumerate() {
            // SAFETY: the elements of the run are writable and aligned.
            unsafe { to.offset(i as isize * by as isize).write(convert(r)) };
        }
    })
}

/// With the bits of a call that activates alone.
#[inline(always)]
fn activate<R: Real>(activation: Option<Activation>, r: &mut [R], isa: Isa) {
    let Some(activation) = activation else { return };
    if let Some((rule, ceiling)) = rectifier(activation) {
        return r.iter_mut().for_each(|x| *x = clipped(*x, rule, R::from_f64(ceiling)));
    }
    // SAFETY: the numbers are there, and the processor has what the kernels that call this need.
    unsafe { map::in_place(activation.function, activation.parameter, isa, r.as_mut_ptr(), r.len()) };
}

/// Adds to some sums in binary32 those of the other parts of one sum, which lie `apart` from each
/// other, in the order of the parts.
///
/// # Safety
/// `len` sums of every part are readable, those of the first one writable.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub unsafe fn reduce_split_k(acc: *mut f32, apart: usize, parts: usize, len: usize) {
    for part in 1..parts {
        let more = acc.wrapping_add(part * apart);
        for i in 0..len {
            // SAFETY: i < len, of two parts.
            unsafe { *acc.add(i) += more.add(i).read() };
        }
    }
}
