//! From sums to the destination: factors, further terms, activation, conversion.

#[cfg(target_arch = "x86_64")]
use super::narrow::Narrow;
pub(super) use super::run::Run;
use super::run::{Clip, EIGHT, clip, rectifier};
use super::simd::MR;
use crate::backend::cpu::row::Row;
use crate::backend::cpu::stream::fetch;
use crate::backend::cpu::{Isa, map};
use crate::backend::function::{Real, with_real};
use crate::dtype::Scalar;
use crate::dtype::convert::{Element, convert, with_element};
use crate::ops::activation::Activation;
use crate::ops::contract::{Accumulate, Contract};
use crate::ops::{NanRule, Scaling};

/// What the epilogue reads and writes.
#[derive(Clone, Copy)]
pub(super) struct Outputs<'a> {
    pub(super) step: &'a Contract,
    pub(super) dst: *mut u8,
    pub(super) z: *const u8,
    pub(super) bias: *const u8,
    /// What is to do where it is simple.
    pub(super) simple: Option<Simple>,
    #[cfg(target_arch = "x86_64")]
    pub(super) narrow: Option<Narrow>,
    /// Converts neighbours of the type that is computed in to elements of the destination.
    pub(super) store: Row,
    /// Converts neighbours of the destination and of z to the type that is computed in.
    pub(super) load: [Row; 2],
    pub(super) isa: Isa,
}

/// Results that are computed at once where a run has as many.
const WIDE: usize = 16;

/// `alpha * sum + beta * dst + alpha2 * z + bias`, clipped or not, all in binary32.
#[derive(Clone, Copy)]
pub(super) struct Simple {
    alpha: f32,
    beta: f32,
    alpha2: f32,
    has_bias: bool,
    /// The rule of NaN, and the ceiling.
    clip: Clip,
    /// What finishes a run.
    run: unsafe fn(&Ends, usize),
}

impl Simple {
    /// Whether the epilogue of the step is that simple.
    pub(super) fn of(step: &Contract, isa: Isa) -> Option<Simple> {
        let epilogue = &step.epilogue;
        let clip = clip(epilogue.activation)?;
        let single = step.dst == Scalar::F32
            && step.accumulate == Accumulate::Single
            && epilogue.z.is_none_or(|(z, _)| z == Scalar::F32)
            && epilogue.bias.is_none_or(|bias| bias == Scalar::F32);
        single.then_some(Simple {
            alpha: epilogue.scaling.alpha as f32,
            beta: epilogue.scaling.beta as f32,
            alpha2: epilogue.z.map_or(0.0, |(_, alpha2)| alpha2 as f32),
            has_bias: epilogue.bias.is_some(),
            clip,
            run: run_of(isa),
        })
    }

    /// # Safety
    /// As for [`finish`].
    #[inline(always)]
    unsafe fn finish(&self, outputs: &Outputs<'_>, row: &[i64; 5], run: &Run, sums: *const f32) {
        let place = |slot: usize| (row[slot] + run.at[slot]) as isize;
        let ends = Ends {
            simple: *self,
            sums,
            to: (outputs.dst.cast::<f32>().wrapping_offset(place(0)), run.by[0] as isize),
            z: (outputs.z.cast::<f32>().wrapping_offset(place(3)), run.by[3] as isize),
            bias: (outputs.bias.cast::<f32>().wrapping_offset(place(4)), run.by[4] as isize),
        };
        // SAFETY: handed on; the function is one for this processor.
        unsafe { (self.run)(&ends, run.len as usize) }
    }
}

/// A run of sums in binary32 and where it ends: addresses, and how far neighbours are apart.
struct Ends {
    simple: Simple,
    sums: *const f32,
    to: (*mut f32, isize),
    z: (*const f32, isize),
    bias: (*const f32, isize),
}

impl Ends {
    /// Finishes `len` sums.
    ///
    /// # Safety
    /// As for [`finish`].
    #[inline(always)]
    unsafe fn run(&self, len: usize) {
        // SAFETY: handed on.
        unsafe {
            match len {
                WIDE.. => self.chunks::<WIDE>(len),
                EIGHT.. => self.chunks::<EIGHT>(len),
                _ => self.chunks::<1>(len),
            }
        }
    }

    /// The same by chunks of `N`, of which there is one at least. The last one overlaps the one before it where it has to: it is
    /// computed before anything is written, for results may lie where sums or old results do.
    ///
    /// # Safety
    /// As for [`finish`].
    #[inline(always)]
    unsafe fn chunks<const N: usize>(&self, len: usize) {
        // SAFETY: `N` elements of the run, each time.
        unsafe {
            let last = (!len.is_multiple_of(N)).then(|| self.chunk::<N>(len - N));
            for i in 0..len / N {
                self.put(N * i, self.chunk::<N>(N * i));
            }
            if let Some(last) = last {
                self.put(len - N, last);
            }
        }
    }

    /// The results from the `i`-th on.
    ///
    /// # Safety
    /// As for [`finish`].
    #[inline(always)]
    unsafe fn chunk<const N: usize>(&self, i: usize) -> [f32; N] {
        let Simple { alpha, beta, alpha2, has_bias, clip, .. } = self.simple;
        // SAFETY: the caller's promise; operands are read where the epilogue has them.
        unsafe {
            let mut x = self.sums.add(i).cast::<[f32; N]>().read_unaligned();
            x.iter_mut().for_each(|x| *x *= alpha);
            if beta != 0.0 {
                plus(&mut x, beta, some(self.to.0, self.to.1, i));
            }
            if alpha2 != 0.0 {
                plus(&mut x, alpha2, some(self.z.0, self.z.1, i));
            }
            if has_bias {
                plus(&mut x, 1.0, some(self.bias.0, self.bias.1, i));
            }
            if let Some((rule, ceiling)) = clip {
                x.iter_mut().for_each(|x| *x = clipped(*x, rule, ceiling));
            }
            x
        }
    }

    /// # Safety
    /// As for [`finish`].
    #[inline(always)]
    unsafe fn put<const N: usize>(&self, i: usize, x: [f32; N]) {
        let (to, by) = self.to;
        // SAFETY: the caller's promise.
        unsafe {
            if by == 1 {
                return to.add(i).cast::<[f32; N]>().write_unaligned(x);
            }
            for (k, &x) in x.iter().enumerate() {
                to.wrapping_offset((i + k) as isize * by).write(x);
            }
        }
    }
}

/// Elements from the `i`-th on, `by` apart.
///
/// # Safety
/// They are readable and aligned.
#[inline(always)]
unsafe fn some<const N: usize>(from: *const f32, by: isize, i: usize) -> [f32; N] {
    let from = from.wrapping_offset(i as isize * by);
    // SAFETY: the caller's promise.
    unsafe {
        match by {
            0 => [from.read(); N],
            1 => from.cast::<[f32; N]>().read_unaligned(),
            _ => std::array::from_fn(|k| from.wrapping_offset(k as isize * by).read()),
        }
    }
}

/// `x += factor * y`
#[inline(always)]
fn plus<const N: usize>(x: &mut [f32; N], factor: f32, y: [f32; N]) {
    for k in 0..N {
        x[k] += factor * y[k];
    }
}

/// [`Ends::run`], compiled for some instructions. Not for every kernel that ends in it.
macro_rules! compiled_for {
    ($name:ident $(, $features:literal)?) => {
        /// # Safety
        /// As for [`Ends::run`].
        $(#[target_feature(enable = $features)])?
        unsafe fn $name(ends: &Ends, len: usize) {
            // SAFETY: handed on.
            unsafe { ends.run(len) }
        }
    };
}
compiled_for!(portable);
#[cfg(target_arch = "x86_64")]
compiled_for!(avx2, "avx2");
#[cfg(target_arch = "x86_64")]
compiled_for!(avx512, "avx512f,avx512bw,avx512dq,avx512vl");

/// The function for these instructions.
fn run_of(isa: Isa) -> unsafe fn(&Ends, usize) {
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx512() {
        return avx512;
    } else if isa.has_avx2() {
        return avx2;
    }
    let _ = isa;
    portable
}

/// `min(max(x, 0), ceiling)`
#[inline(always)]
fn clipped<R: Real>(x: R, rule: NanRule, ceiling: R) -> R {
    let y = match rule {
        NanRule::Propagate if x <= R::ZERO => R::ZERO,
        NanRule::Ignore if x > R::ZERO => x,
        NanRule::Propagate => x,
        NanRule::Ignore => R::ZERO,
    };
    if y > ceiling { ceiling } else { y }
}

// SAFETY: addresses without meaning of their own; tasks write disjoint elements.
unsafe impl Sync for Outputs<'_> {}

impl Outputs<'_> {
    /// Whether sums may be built in the destination itself.
    pub(super) fn takes_sums(&self, sum: Scalar) -> bool {
        self.step.dst == sum && self.step.epilogue.scaling.beta == 0.0 && self.step.epilogue.z.is_none()
    }

    /// Asks for what [`finish`] touches of one run of one row, while its sums are computed.
    #[inline(always)]
    pub(super) fn prefetch(&self, row: &[i64; 5], run: &Run) {
        let at = |data: *const u8, slot: usize, scalar: Scalar| {
            fetch(data.wrapping_offset((row[slot] + run.at[slot]) as isize * scalar.size() as isize));
        };
        at(self.dst, 0, self.step.dst);
        if let Some((scalar, _)) = self.step.epilogue.z {
            at(self.z, 3, scalar);
        }
    }

    /// Whether finished sums are the result.
    pub(super) fn is_plain(&self) -> bool {
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
/// `sums` has the run's sums; every element of dst is writable, readable if `beta` is not 0; those of z and bias are
/// readable; all aligned.
#[inline(always)]
pub(super) unsafe fn finish<A: Element>(outputs: &Outputs<'_>, row: &[i64; 5], run: &Run, sums: *const A) {
    // Known to the compiler: sums of other types never are.
    if A::SCALAR == Scalar::F32
        && let Some(simple) = &outputs.simple
    {
        // SAFETY: handed on; sums in binary32 are binary32.
        return unsafe { simple.finish(outputs, row, run, sums.cast()) };
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(narrow) = &outputs.narrow {
        // SAFETY: handed on; it was made for the step, of which these are the sums.
        return unsafe { narrow.finish(row, run, sums.cast()) };
    }
    // SAFETY: handed on.
    with_real!(outputs.step.real(), R => unsafe { finish_in::<A, R>(outputs, row, run, sums) })
}

/// The same as a function of its own, for kernels of which there are many.
///
/// # Safety
/// As for [`finish`]; the processor has AVX2 and fused multiply-add.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline(never)]
pub(super) unsafe fn finish_apart<A: Element>(
    outputs: &Outputs<'_>,
    row: &[i64; 5],
    run: &Run,
    sums: *const A,
) {
    // SAFETY: handed on.
    unsafe { finish(outputs, row, run, sums) }
}

/// Finishes the sums of one run of some rows, which begin at `sums`.
///
/// # Safety
/// As for [`finish`].
#[inline(always)]
pub(super) unsafe fn finish_rows<A: Element>(
    outputs: &Outputs<'_>,
    rows: &[[i64; 5]],
    run: &Run,
    sums: &[*mut A; MR],
) {
    for (row, from) in rows.iter().zip(sums) {
        // SAFETY: handed on.
        unsafe { finish(outputs, row, run, from.wrapping_add(run.lane as usize)) };
    }
}

/// Not compiled for every kernel that ends in it: conversions are what costs, and have functions of their own.
///
/// # Safety
/// As for [`finish`].
#[inline(never)]
unsafe fn finish_in<A: Element, R: Real>(outputs: &Outputs<'_>, row: &[i64; 5], run: &Run, sums: *const A) {
    let epilogue = &outputs.step.epilogue;
    let mut begin = 0;
    while begin < run.len as usize {
        let len = (run.len as usize - begin).min(ROOM);
        let place = |k: usize| row[k] + run.at[k] + begin as i64 * run.by[k];
        let mut r = [R::ZERO; ROOM];
        let r = &mut r[..len];
        // SAFETY: the caller's promise; operands are read where the epilogue has them.
        unsafe {
            let alpha = R::from_f64(epilogue.scaling.alpha);
            for (i, r) in r.iter_mut().enumerate() {
                *r = alpha * convert::<A, R>(sums.add(begin + i).read());
            }
            if epilogue.scaling.beta != 0.0 {
                let beta = R::from_f64(epilogue.scaling.beta);
                let row = Some(outputs.load[0]);
                add::<R>(r, outputs.step.dst, outputs.dst, place(0), run.by[0], Some(beta), row);
            }
            if let Some((scalar, alpha2)) = epilogue.z
                && alpha2 != 0.0
            {
                let (factor, row) = (Some(R::from_f64(alpha2)), Some(outputs.load[1]));
                add::<R>(r, scalar, outputs.z, place(3), run.by[3], factor, row);
            }
            if let Some(scalar) = epilogue.bias {
                add::<R>(r, scalar, outputs.bias, place(4), run.by[4], None, None);
            }
            activate(epilogue.activation, r, outputs.isa);
            store::<R>(r, outputs, place(0), run.by[0]);
        }
        begin += len;
    }
}

/// `r += factor * operand`
///
/// # Safety
/// The elements are readable and aligned, and `row` converts neighbours of them.
#[inline(always)]
unsafe fn add<R: Real>(
    r: &mut [R],
    scalar: Scalar,
    data: *const u8,
    at: i64,
    by: i64,
    factor: Option<R>,
    row: Option<Row>,
) {
    let mut wide = [R::ZERO; ROOM];
    let wide = &mut wide[..r.len()];
    if let Some(row) = row.filter(|_| by == 1) {
        let from = data.wrapping_offset(at as isize * scalar.size() as isize);
        // SAFETY: the caller's promise; there is room for as many numbers.
        unsafe { row(wide.as_mut_ptr().cast(), from, wide.len(), Scaling::MOVE) };
    } else {
        with_element!(scalar, E => {
            let from = data.cast::<E>().wrapping_offset(at as isize);
            if by == 0 {
                // SAFETY: the caller's promise.
                wide.fill(convert(unsafe { from.read() }));
            } else {
                for (i, x) in wide.iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise; the row converts from this type.
        return unsafe { (outputs.store)(to, r.as_ptr().cast(), r.len(), Scaling::MOVE) };
    }
    with_element!(scalar, E => {
        let to = to.cast::<E>();
        for (i, &r) in r.iter().enumerate() {
            // SAFETY: the caller's promise.
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
