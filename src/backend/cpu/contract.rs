//! Contractions: convolutions and matrix products of any layout.
//!
//! ```text
//!  points.rs   where the turns of loops are     planes.rs  a windowed operand copied once, with its padding
//!  source.rs   an operand, and what it holds    pack.rs    any operand into panels     tiles.rs   where lanes are in dst
//!  kernel.rs   a tile of sums in registers      simd.rs    its vector operations, per level and type
//!  engine.rs   the loops around it              finish.rs  from sums to the destination
//!  simple.rs   the same in binary32 alone       narrow.rs   for halves and bytes, by whole vectors     run.rs  what all know
//!  depthwise.rs   sums over the taps of one channel, in planes
//!  channels.rs    the same with contiguous channels      winograd.rs  F(2x2, 3x3)
//!  taps.rs        sums over the pixels of one channel       widen.rs     narrow operands in binary32, all at once
//!  pixels.rs      the same with contiguous channels         vectors.rs  a matrix by a few vectors
//!  correlate.rs   sums over the pixels of a few channels    groups.rs   groups of few channels side by side
//!  runs.rs        windows over few channels side by side   phases.rs   those of a stride    along.rs   along both operands
//! ```

#[cfg(target_arch = "x86_64")]
mod along;
mod channels;
#[cfg(target_arch = "x86_64")]
mod correlate;
mod depthwise;
mod engine;
mod finish;
#[cfg(target_arch = "x86_64")]
mod groups;
mod kernel;
#[cfg(target_arch = "x86_64")]
mod narrow;
mod pack;
mod phases;
#[cfg(target_arch = "x86_64")]
mod pixels;
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "other processors have no such kernels"))]
mod planes;
mod points;
mod run;
#[cfg(target_arch = "x86_64")]
mod runs;
mod simd;
mod simple;
mod source;
#[cfg(target_arch = "x86_64")]
mod taps;
mod tiles;
#[cfg(target_arch = "x86_64")]
mod vectors;
mod widen;
#[cfg(target_arch = "x86_64")]
mod winograd;

use std::cell::Cell;
#[cfg(target_arch = "x86_64")]
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use self::along::Along;
use self::channels::Channels;
#[cfg(target_arch = "x86_64")]
use self::correlate::Correlation;
use self::depthwise::Depthwise;
use self::engine::{Desk, Engine, Operands};
use self::finish::Outputs;
use self::kernel::Kernels;
use self::pack::Part;
pub use self::phases::{kernel_of_phases, run_phases};
use self::simd::Simd;
#[cfg(target_arch = "x86_64")]
use self::taps::Taps;
use self::widen::Widen;
#[cfg(target_arch = "x86_64")]
use self::winograd::{FilterLanes, PixelLanes};
#[cfg(target_arch = "x86_64")]
use self::{groups::Groups, pixels::Pixels, runs::Runs, vectors::Vectors};
use super::{Isa, Machine, Panels};
use crate::dtype::Scalar;
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::mode;
use crate::ops::contract::{Accumulate, Contract, MAX_OPERANDS};

/// Runs `step` with the operands at `at`, in the order of [`Contract::slots`].
///
/// # Errors
/// Not supported for sums in integers of operands that are not bytes, host allocation; both before
/// anything is written. Execution if a task panicked.
///
/// # Safety
/// Every element of dst is writable, and readable if `beta != 0`; every element of `a` inside the bounds, of `b`, of z
/// and of the bias is readable; all are aligned to their scalars. The offsets of dst are distinct, and no operand
/// overlaps it, but z, if each of its elements is the one it is added to. Nothing writes `b` as long as the panels live, if the
/// step keeps it.
pub unsafe fn run(step: &Contract, at: &[*mut u8], machine: Machine, panels: Option<&Panels>) -> Result<()> {
    if step.is_empty() {
        return Ok(());
    }
    let step = &*step.in_canonical_form();
    step.check_sums()?;
    let transformed = may_be_transformed(step);
    let run = |step: &Contract, operands: [*const u8; 2]| {
        // Not of a copy that the next step does not find.
        let panels = panels.filter(|_| step.keeps_b && operands[1] == at[2].cast_const());
        // SAFETY: handed on.
        unsafe { run_on(step, at, operands, transformed, machine, panels, None) }
    };
    let dots = takes_dots(step, machine.isa);
    widen::in_parts(step, dots, |step| match widened(step, machine.isa) {
        // SAFETY: handed on.
        Some(wide) => unsafe {
            wide.run(step, [at[1], at[2]], machine, |operands| run(&wide.step, operands))
        },
        None => run(step, [at[1].cast_const(), at[2].cast_const()]),
    })
}

/// The name of the kernel that computes `step` on `machine`, as the log tells it; none for a step that does nothing or is
/// refused.
pub fn kernel(step: &Contract, machine: Machine) -> Option<&'static str> {
    let step = &*step.in_canonical_form();
    if step.is_empty() || step.check_sums().is_err() {
        return None;
    }
    let dots = takes_dots(step, machine.isa);
    let taken = Cell::new(None);
    let (at, operands) = ([std::ptr::null_mut(); MAX_OPERANDS], [std::ptr::null(); 2]);
    let transformed = may_be_transformed(step);
    widen::in_parts(step, dots, |step| {
        let wide = widened(step, machine.isa);
        let step = wide.as_ref().map_or(step, |wide| &wide.step);
        // SAFETY: only the choice is made: no address is followed.
        unsafe { run_on(step, &at, operands, transformed, machine, None, Some(&taken)) }
    })
    .ok()?;
    taken.get()
}

/// The step in binary32 whose narrow operands are converted beforehand, if that pays.
fn widened(step: &Contract, isa: Isa) -> Option<Widen> {
    let dots = takes_dots(step, isa);
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx2() && (pixels::channels(step).is_some() || dots && runs::apply(step, isa)) {
        return None;
    }
    Widen::of(step, dots)
}

/// The names of the kernels of F(2x2, 3x3): lanes are filters, lanes are pixels. They take steps only where they are the fastest.
pub const WINOGRAD: [&str; 2] = ["F(2x2, 3x3) of filters", "F(2x2, 3x3) of pixels"];

/// Whether F(2x2, 3x3) may be taken for a canonical step. What is converted beforehand depends on how much it is, and so on the
/// batch; how sums are made must not.
fn may_be_transformed(step: &Contract) -> bool {
    let numbers = [step.a, step.b].iter().all(|a| matches!(a, Scalar::F32 | Scalar::F16 | Scalar::Bf16));
    numbers && step.allow_winograd && mode::allows_winograd()
}

/// Runs a canonical step with `a` and `b` at `operands`, and the others where they are among `at`; `transformed`, `panels` and
/// `taken` as in [`Job`].
///
/// # Safety
/// As for [`run`].
unsafe fn run_on(
    step: &Contract, at: &[*mut u8], [a, b]: [*const u8; 2], transformed: bool, machine: Machine,
    panels: Option<&Panels>, taken: Option<&Cell<Option<&'static str>>>,
) -> Result<()> {
    let outputs = Outputs::of(step, at, machine.isa);
    let operands = Operands { a, b, isa: machine.isa };
    let job = Job { outputs, operands, transformed, threads: machine.threads, panels, taken };
    // SAFETY: the caller's promise; the level is one that the processor has.
    unsafe {
        match step.accumulate {
            #[cfg(target_arch = "x86_64")]
            Accumulate::Int32 if takes_dots(step, machine.isa) => match machine.isa {
                isa if isa.has_avx512() => in_runs::<simd::Avx512Dots>(job, AVX512_DOTS[dots(step)]),
                _ => in_runs::<simd::Avx2Dots>(job, AVX2_DOTS[dots(step)]),
            },
            #[cfg(target_arch = "x86_64")]
            sums if machine.isa.has_avx512() => match sums {
                Accumulate::Single => single::<simd::Avx512Single>(job, &AVX512_SINGLE),
                Accumulate::Double => go::<simd::Avx512Double>(job, &AVX512_DOUBLE),
                Accumulate::Int32 => go::<simd::Avx512Int>(job, &AVX512_INT),
            },
            #[cfg(target_arch = "x86_64")]
            sums if machine.isa.has_avx2() => match sums {
                Accumulate::Single => single::<simd::Avx2Single>(job, &AVX2_SINGLE),
                Accumulate::Double => go::<simd::Avx2Double>(job, &AVX2_DOUBLE),
                Accumulate::Int32 => go::<simd::Avx2Int>(job, &AVX2_INT),
            },
            Accumulate::Single => go::<simd::PortableSingle>(job, &PORTABLE_SINGLE),
            Accumulate::Double => go::<simd::PortableDouble>(job, &PORTABLE_DOUBLE),
            Accumulate::Int32 => go::<simd::PortableInt>(job, &PORTABLE_INT),
        }
    }
}

/// What is compiled for one level and type.
struct Compiled<S: Simd<Part: Part, Sum: Element>> {
    kernels: Kernels<S>,
    task: Task<S>,
    channels: channels::Task<S>,
}

macro_rules! compiled {
    ($($name:ident: $S:ident, $kernels:ident, $task:ident, $channels:ident;)*) => {
        $(static $name: Compiled<simd::$S> = compiled!($S, $S, $kernels, $task, $channels);)*
    };
    ($S:ident, $K:ident, $kernels:ident, $task:ident, $channels:ident) => {
        Compiled { kernels: kernel::$kernels::<simd::$S, simd::$K>(), task: $task, channels: $channels }
    };
}

compiled! {
    PORTABLE_SINGLE: PortableSingle, portable_kernels, portable, portable_channels;
    PORTABLE_DOUBLE: PortableDouble, portable_kernels, portable, portable_channels;
    PORTABLE_INT: PortableInt, portable_kernels, portable, portable_channels;
}
#[cfg(target_arch = "x86_64")]
compiled! {
    AVX2_SINGLE: Avx2Single, avx2_kernels, avx2, avx2_channels;
    AVX2_DOUBLE: Avx2Double, avx2_kernels, avx2, avx2_channels;
    AVX2_INT: Avx2Int, avx2_kernels, avx2, avx2_channels;
    AVX512_SINGLE: Avx512Single, avx512_kernels, avx512, avx512_channels;
    AVX512_DOUBLE: Avx512Double, avx512_kernels, avx512, avx512_channels;
    AVX512_INT: Avx512Int, avx512_kernels, avx512, avx512_channels;
}

/// By the number that [`dots`] tells.
#[cfg(target_arch = "x86_64")]
static AVX2_DOTS: [&Compiled<simd::Avx2Dots>; 3] = [
    &compiled!(Avx2Dots, Avx2Dots, avx2_vnni_kernels, avx2, avx2_channels),
    &compiled!(Avx2Dots, Avx2SignedDots, avx2_vnni_kernels, avx2, avx2_channels),
    &compiled!(Avx2Dots, Avx2PlaneDots, avx2_vnni_kernels, avx2, avx2_channels),
];
#[cfg(target_arch = "x86_64")]
static AVX512_DOTS: [&Compiled<simd::Avx512Dots>; 3] = [
    &compiled!(Avx512Dots, Avx512Dots, avx512_vnni_kernels, avx512, avx512_channels),
    &compiled!(Avx512Dots, Avx512SignedDots, avx512_vnni_kernels, avx512, avx512_channels),
    &compiled!(Avx512Dots, Avx512PlaneDots, avx512_vnni_kernels, avx512, avx512_channels),
];

/// A contraction and what it runs on.
#[derive(Clone, Copy)]
struct Job<'a> {
    outputs: Outputs<'a>,
    operands: Operands,
    /// Whether F(2x2, 3x3) may be taken.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "no other kernel asks"))]
    transformed: bool,
    threads: usize,
    /// Where `b` is kept in panels, if it is.
    panels: Option<&'a Panels>,
    /// Where only the choice of a kernel is asked for: its name goes there, and nothing is run.
    taken: Option<&'a Cell<Option<&'static str>>>,
}

impl Job<'_> {
    /// Takes the kernel of this name.
    #[inline(always)]
    fn take(&self, kernel: &'static str, run: impl FnOnce() -> Result<()>) -> Result<()> {
        match self.taken {
            None => run(),
            Some(taken) => {
                taken.set(Some(kernel));
                Ok(())
            }
        }
    }
}

/// # Safety
/// As for [`go`].
#[cfg(target_arch = "x86_64")]
unsafe fn single<S: Simd<Part = f32, Cell = f32, Sum = f32>>(
    job: Job<'_>, compiled: &'static Compiled<S>,
) -> Result<()> {
    // SAFETY: handed on; processors of both levels have AVX2 and fused multiply-add, which these are compiled for.
    unsafe {
        if job.transformed
            && let Some(winograd) = FilterLanes::new(job.outputs, job.operands, &compiled.kernels)
        {
            return job.take(WINOGRAD[0], || winograd.run(job.threads, filters_task, filters_filters));
        }
        if job.transformed
            && let Some(winograd) = PixelLanes::new(job.outputs, job.operands, &compiled.kernels)
        {
            return job.take(WINOGRAD[1], || winograd.run(job.threads, pixels_task, pixels_filters));
        }
        if let Some(pixels) = Pixels::<S>::new(job.outputs, job.operands) {
            return job.take("pixels", || pixels.run(job.threads));
        }
        if let Some(taps) = Taps::<simd::Avx2Single>::new(job.outputs, job.operands) {
            return job.take("taps", || taps.run(job.threads, taps_task));
        }
        if let Some(correlation) = Correlation::new(job.outputs, job.operands, &compiled.kernels) {
            return job.take("correlate", || correlation.run(job.threads));
        }
        if let Some(along) = Along::new(job.outputs, job.operands) {
            return job.take("along", || along.run(job.threads));
        }
        if let Some(vectors) = Vectors::new(job.outputs, job.operands) {
            return job.take("vectors", || vectors.run(job.threads));
        }
        if let Some(groups) = Groups::new(job.outputs, job.operands) {
            return job.take("groups", || groups.run(job.threads));
        }
        in_runs(job, compiled)
    }
}

/// # Safety
/// As for [`go`].
#[cfg(target_arch = "x86_64")]
unsafe fn in_runs<S: Simd<Part: Part, Sum: Element>>(
    job: Job<'_>, compiled: &'static Compiled<S>,
) -> Result<()> {
    if let Some(runs) = Runs::new(job.outputs, job.operands, &compiled.kernels) {
        // SAFETY: handed on; processors of both levels have AVX2 and fused multiply-add.
        return job.take("runs", || unsafe { runs.run(job.threads) });
    }
    // SAFETY: handed on.
    unsafe { go(job, compiled) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn pixels_task<S: Simd<Part = f32, Cell = f32, Sum = f32>>(
    winograd: &PixelLanes<'_, S>, filters: *const f32, scratch: *mut f32, index: usize,
) {
    // SAFETY: handed on.
    unsafe { winograd.task(filters, scratch, index) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn filters_task<S: Simd<Part = f32, Cell = f32, Sum = f32>>(
    winograd: &FilterLanes<'_, S>, filters: *mut f32, scratch: *mut f32, index: usize,
) {
    // SAFETY: handed on.
    unsafe { winograd.task(filters, scratch, index) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn filters_filters<S: Simd<Part = f32, Cell = f32, Sum = f32>>(
    winograd: &FilterLanes<'_, S>, to: *mut f32, scratch: *mut f32, number: usize,
) {
    // SAFETY: handed on.
    unsafe { winograd.filters(to, scratch, number) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn taps_task(taps: &Taps<'_, simd::Avx2Single>, scratch: *mut f32, channels: Range<usize>) {
    // SAFETY: handed on.
    unsafe { taps.channels(scratch, channels) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn pixels_filters<S: Simd<Part = f32, Cell = f32, Sum = f32>>(
    winograd: &PixelLanes<'_, S>, _: *const f32, to: *mut f32, number: usize,
) {
    // SAFETY: handed on.
    unsafe { winograd.filters(to, number) }
}

/// Whether products of bytes are added four at a time: the instruction wants a factor with a sign, which is that of `b`, and one
/// without.
fn takes_dots(step: &Contract, isa: Isa) -> bool {
    isa.has_vnni() && step.accumulate == Accumulate::Int32 && step.b == Scalar::I8
}

/// Which kernels of such sums a step needs.
#[cfg(target_arch = "x86_64")]
fn dots(step: &Contract) -> usize {
    match (engine::lanes_are_m(step), step.a) {
        (true, _) => 2,
        (false, Scalar::I8) => 1,
        (false, _) => 0,
    }
}

type Task<S> = unsafe fn(&Engine<'_, S>, &Desk<'_, S>, usize);

/// # Safety
/// As for [`run`], and for the kernels' level.
unsafe fn go<S: Simd<Part: Part, Sum: Element>>(job: Job<'_>, compiled: &'static Compiled<S>) -> Result<()> {
    let Job { outputs, operands, threads, .. } = job;
    // Kernels of single channels have no cells of several terms.
    if S::PER == 1
        // SAFETY: handed on.
        && let Some(done) = unsafe { depthwise(&job, std::slice::from_ref(outputs.step), compiled) }
    {
        return done;
    }
    if S::PER == 1
        && let Some(contiguous) = Channels::new(outputs, operands)
    {
        // SAFETY: handed on.
        return job.take("channels", || unsafe { contiguous.run(threads, compiled.channels) });
    }
    let engine = Engine::new(outputs, operands, &compiled.kernels, threads, job.panels.is_some())?;
    // SAFETY: handed on.
    job.take(engine.name(), || unsafe { engine.run(threads, job.panels, compiled.task) })
}

/// Runs a step, or several together, by the kernel of single channels, if it takes them.
///
/// # Safety
/// As for [`go`], for all steps.
#[inline(never)]
unsafe fn depthwise<S: Simd<Part: Part, Sum: Element>>(
    job: &Job<'_>, steps: &[Contract], compiled: &'static Compiled<S>,
) -> Option<Result<()>> {
    let depthwise = Depthwise::new(job.outputs, job.operands, &compiled.kernels, steps)?;
    let name = if steps.len() > 1 { "depthwise phases" } else { "depthwise" };
    // SAFETY: handed on.
    Some(job.take(name, || unsafe { depthwise.run(job.threads) }))
}

unsafe fn portable<S: Simd<Part: Part, Sum: Element>>(
    engine: &Engine<'_, S>, desk: &Desk<'_, S>, index: usize,
) {
    // SAFETY: handed on.
    unsafe { engine.task(desk, index) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<S: Simd<Part: Part, Sum: Element>>(engine: &Engine<'_, S>, desk: &Desk<'_, S>, index: usize) {
    // SAFETY: handed on.
    unsafe { engine.task(desk, index) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512<S: Simd<Part: Part, Sum: Element>>(
    engine: &Engine<'_, S>, desk: &Desk<'_, S>, index: usize,
) {
    // SAFETY: handed on.
    unsafe { engine.task(desk, index) }
}

unsafe fn portable_channels<S: Simd<Part: Part, Sum: Element>>(
    channels: &Channels<'_, S>, factors: *const S::Cell, sums: *mut S::Sum, index: usize,
) {
    // SAFETY: handed on.
    unsafe { channels.row(factors, sums, index) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2_channels<S: Simd<Part: Part, Sum: Element>>(
    channels: &Channels<'_, S>, factors: *const S::Cell, sums: *mut S::Sum, index: usize,
) {
    // SAFETY: handed on.
    unsafe { channels.row(factors, sums, index) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512_channels<S: Simd<Part: Part, Sum: Element>>(
    channels: &Channels<'_, S>, factors: *const S::Cell, sums: *mut S::Sum, index: usize,
) {
    // SAFETY: handed on.
    unsafe { channels.row(factors, sums, index) }
}
