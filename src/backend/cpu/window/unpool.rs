//! Gradients of maxima and averages, plane by plane: all cells that share the coordinates of the
//! loops around.
//!
//! Contributions of outputs to a cell are added in the order of the outputs, on any thread: one
//! thread makes the whole sum.
//!
//! Two kernels share the loops of [`lanes`] and [`phases`], and not the walk around them: [`bands`]
//! takes many rows of two axes in one call, and brings the outputs that bands share once more;
//! [`by_rows`] takes a row of cells at a time, of any number of axes and with several planes side
//! by side, and keeps in a ring the rows that the next ones need.

mod bands;
mod by_rows;
mod kept;
mod lanes;
mod largest;
pub(super) mod phases;
mod whole;

use self::bands::Bands;
use self::kept::{Job, Side, Sides, reach};
use self::lanes::{Kernels, kernels};
use self::phases::Phases;
use self::whole::Whole;
use super::plane::Gather;
use super::problem::Problem;
use super::shape::Shape;
use super::sink::{Sink, Way};
use crate::backend::Address;
use crate::backend::choice::Launch;
use crate::backend::cpu::scratch::Parts;
use crate::backend::cpu::{Machine, threads};
use crate::backend::real::{Real, with_real};
use crate::error::Result;
use crate::ops::NanRule;
use crate::ops::window::WindowFunction;

/// Bytes of a plane in work that should stay in a second-level cache.
const PLANE_BYTES: usize = 192 << 10;

/// Bytes of a plane that is taken with all its lanes, so that it is read and written in one run: it
/// stays in a third-level cache, and rows of it in the nearer ones.
const WHOLE_BYTES: usize = 4 << 20;

/// Lanes that are worth a plane of their own.
const LEAST_LANES: usize = 16;

/// The lanes of one plane in work, where each takes `bytes`: whole groups, and planes enough for
/// every thread.
pub(super) fn lanes_together(shape: &Shape<'_>, bytes: usize, threads: usize) -> usize {
    let wanted = (2 * threads).div_ceil(shape.outer);
    let room = if bytes.saturating_mul(shape.lanes) <= WHOLE_BYTES { WHOLE_BYTES } else { PLANE_BYTES };
    let most = (room / bytes.max(1)).min(shape.lanes.div_ceil(wanted));
    (most / LEAST_LANES * LEAST_LANES).max(LEAST_LANES).min(shape.lanes)
}

/// How the cells of a gradient are brought together, and sorted by the stride.
#[derive(Clone, Copy)]
pub(super) struct Gradient {
    pub phases: Phases,
    pub source: Gather,
    pub gradient: Gather,
}

impl Gradient {
    fn of(problem: &Problem<'_>) -> Option<Self> {
        let [source, gradient] = problem.gathers?;
        Some(Gradient { phases: Phases::new(problem.shape.last())?, source, gradient })
    }
}

/// By [`Whole`], if it accepts the window.
pub(super) fn whole<'a>(problem: &Problem<'a>) -> Option<Launch<'a>> {
    let (shape, at, machine) = (problem.shape, problem.at, problem.machine);
    let gradient = Gradient::of(problem)?;
    let bytes = bytes(shape);
    let threads = machine.threads_for(bytes);
    let lanes = lanes_together(shape, 1, threads);
    with_real!(shape.window.compute, T => {
        let whole = Whole::<T>::new(shape, at, [gradient.source, gradient.gradient], bytes, lanes, machine)?;
        // SAFETY: a launch runs while the operands are what the window needs.
        Some(Launch::new(move || unsafe { whole.run(threads) }))
    })
}

/// By [`Bands`], if it accepts the window.
pub(super) fn bands<'a>(problem: &Problem<'a>) -> Option<Launch<'a>> {
    let (shape, at, machine) = (problem.shape, problem.at, problem.machine);
    let gradient = Gradient::of(problem)?;
    let threads = machine.threads_for(bytes(shape));
    with_real!(shape.window.compute, T => {
        let bands = Bands::<T>::new(shape, at, gradient, way::<T>(shape, at, machine), kernels_of::<T>(shape, machine))?;
        // SAFETY: a launch runs while the operands are what the window needs.
        Some(Launch::new(move || unsafe { bands.run(threads) }))
    })
}

/// By [rows](mod@self::by_rows), whatever the window is.
pub(super) fn by_rows<'a>(problem: &Problem<'a>) -> Option<Launch<'a>> {
    let (shape, at, machine) = (problem.shape, problem.at, problem.machine);
    let gradient = Gradient::of(problem)?;
    with_real!(shape.window.compute, T => {
        // SAFETY: a launch runs while the operands are what the window needs.
        Some(Launch::new(move || unsafe { planes::<T>(shape, at, gradient, machine) }))
    })
}

/// Bytes of the results.
fn bytes(shape: &Shape<'_>) -> usize {
    shape.window.len() as usize * shape.size(0)
}

fn way<T: Real>(shape: &Shape<'_>, at: &[Address], machine: Machine) -> Way {
    let way = Way::new(T::SCALAR, shape.window.scalars[0], shape.window.scaling, bytes(shape), machine);
    way.within(shape.held(at[0], 0, false))
}

fn kernels_of<T: Real>(shape: &Shape<'_>, machine: Machine) -> Kernels<T> {
    let nans_above = matches!(shape.window.function, WindowFunction::MaxGradient(NanRule::Propagate));
    kernels::<T>(nans_above, machine.isa)
}

/// # Safety
/// As for [`super::run`], with the gradient of a maximum or an average.
unsafe fn planes<T: Real>(
    shape: &Shape<'_>, at: &[Address], gradient: Gradient, machine: Machine,
) -> Result<()> {
    let threads = machine.threads_for(bytes(shape));
    let inner = &shape.axes[..shape.axes.len() - 1];
    let kept = reach(&shape.axes[0]);
    let sides = Sides {
        cells: Side::new(shape, kept.cells, |axis| axis.inputs),
        outputs: Side::new(shape, kept.outputs, |axis| axis.outputs),
    };
    let taps =
        |of: fn(Sides<i64>) -> i64| inner.iter().map(|axis| of(reach(axis)) as usize).product::<usize>();
    let [cells, outputs] = [&sides.cells, &sides.outputs].map(|side| side.kept as usize * side.lines);
    let numbers = cells * shape.last().inputs as usize + 2 * outputs * shape.last().outputs as usize;
    let job = Job::<T> {
        shape,
        at,
        lanes: lanes_together(shape, numbers * size_of::<T>(), threads),
        sides,
        taps: taps(|reach| reach.cells).max(taps(|reach| reach.outputs)),
        phases: gradient.phases,
        source: gradient.source,
        gradient: gradient.gradient,
        way: way::<T>(shape, at, machine),
        kernels: kernels_of::<T>(shape, machine),
    };
    let chunks = shape.lanes.div_ceil(job.lanes);
    let items = shape.outer * chunks;
    threads::in_ranges(threads, items, job.scratch_bytes(), &|block, range| {
        // SAFETY: the block is as large as it says, and planes are apart.
        unsafe {
            let mut parts = Parts::new(block);
            let mut mine = job.block(&mut parts);
            let mut sink = Sink::new(&job.way, parts.take(job.way.bytes(job.longest())), job.longest());
            for item in range {
                let lane = item % chunks * job.lanes;
                job.plane(item / chunks, lane, job.lanes.min(shape.lanes - lane), &mut mine, &mut sink);
            }
            sink.flush();
        }
        crate::backend::cpu::stream::fence();
    })
}
