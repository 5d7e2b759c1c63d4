//! From a [`Plan`] to kernel launches. Pure: nothing here talks to a driver.
//!
//! A transform of one part goes to the first kernel that fits its canonical nest; padding, folding and blocked tails are
//! one launch of a kernel that finds every destination element's source; a destination that repeats addresses is
//! walked by one thread, in order.

use super::bytes::ByteNest;
use super::params::{Operation, Params};
use super::{
    contract, fill, formula, general, linear, normalise, pointwise, random, reduce, sample, tiled, window,
};
use crate::backend::Address;
use crate::error::{Error, Result};
use crate::layout::Pattern;
use crate::ops::function::Function;
use crate::ops::{Plan, Step, Transform, TransformPlan};

/// One kernel launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// The kernel's name, one of [`kernels`](super::module::kernels).
    pub kernel: &'static str,
    /// Blocks; only x exceeds 65535 and is below 2^31.
    pub grid: [u32; 3],
    /// Threads per block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// The kernel's one parameter, by value.
    pub params: Params,
}

/// Device addresses of the data pointers, aligned to their scalars; null is never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Pointers {
    /// The destination.
    pub dst: u64,
    /// The source.
    pub src: u64,
}

impl Pointers {
    /// Both moved on by these many bytes.
    pub(super) fn offset(self, dst: i64, src: i64) -> Pointers {
        Pointers { dst: self.dst.wrapping_add_signed(dst), src: self.src.wrapping_add_signed(src) }
    }
}

/// What the choice of kernels depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The compute capability: 75 for 7.5.
    pub capability: u32,
}

impl Device {
    /// One that every kernel for all devices runs on.
    pub const ANY: Device = Device { capability: 50 };
}

/// Receives launches, in the order in which the stream must run them.
pub type Emit<'a> = &'a mut dyn FnMut(&Launch) -> Result<()>;

/// Hands the launches of a plan on operands at these addresses to `emit`. Memory may be shared only where the plan
/// [works in place](Plan::works_in_place).
///
/// # Errors
/// The first of `emit`, which ends the plan; [`Error::Unsupported`] for more elements than one grid can hold, which
/// no device has memory for.
pub fn launches(plan: &dyn Plan, at: &[Address], device: Device, emit: Emit<'_>) -> Result<()> {
    let ordered = plan.is_ordered();
    plan.steps(&mut |step, slots| {
        let place = |k: usize| at[slots[k]].device();
        let places = || slots.iter().map(|&slot| at[slot].device()).collect::<Vec<_>>();
        let pair = || Pointers { dst: place(0), src: place(1) };
        match step {
            Step::Transform(_) | Step::Padded(_) if ordered => general::ordered(step, pair(), emit),
            Step::Transform(transform) if transform.nest.is_empty() => Ok(()),
            Step::Transform(transform) => single(transform, pair(), emit),
            Step::Padded(padded) => {
                single(&padded.transform(), pair(), emit)?;
                fill::fill(&padded.fill(), place(0), false, emit)
            }
            Step::Mapped(plan) => mapped(plan, pair(), emit),
            Step::Scale(fill) => fill::fill(fill, place(0), ordered, emit),
            Step::Set(set) => fill::set(set, place(0), emit),
            Step::Map(map) if map.function as u32 > Function::Nothing as u32 => {
                formula::launches(map, std::array::from_fn(place), ordered, emit)
            }
            Step::Map(map) => pointwise::launches(map, std::array::from_fn(place), ordered, emit),
            Step::Rows(rows) => super::rows::launches(rows, std::array::from_fn(place), ordered, emit),
            Step::WideMap(map) => formula::launches(map, std::array::from_fn(place), ordered, emit),
            Step::Reduce(reduce) => {
                let at =
                    reduce::Places { dst: place(0), indices: place(1), src: place(2), workspace: place(3) };
                reduce::launches(reduce, at, ordered, emit)
            }
            Step::Contract(contract) => contract::launches(contract, &places(), device, emit),
            Step::Random(random) => random::launches(random, &places(), emit),
            Step::Normalise(step) => normalise::forward(step, &places(), emit),
            Step::NormaliseBackward(step) => normalise::backward(step, &places(), emit),
            Step::Window(window) => window::launches(window, std::array::from_fn(place), ordered, emit),
            Step::Sample(step) => sample::launches(step, &places(), ordered, emit),
        }
    })
}

/// Parts of a transform that are launched one by one rather than computed element by element, at most, and elements of the
/// destination from which on that pays for the launches.
const FEW_PARTS: usize = 6;
const MANY_ELEMENTS: i64 = 1 << 20;

/// A transform of several parts: one launch, unless one nest or two are all there is, or few parts have many elements, or
/// addresses repeat, or an unfold has more groups of channels than the kernel can count. Two nests are the full groups of a
/// blocked layout and its last one.
fn mapped(plan: &TransformPlan, at: Pointers, emit: Emit<'_>) -> Result<()> {
    if plan.is_ordered() {
        return plan.for_each(&mut |part| general::ordered(part, at, emit));
    }
    let mut nests = [None; 2];
    let (mut parts, mut are_nests) = (0, true);
    // An error ends the walk: beyond a few parts their number does not matter, and it may be millions.
    let _ = plan.for_each(&mut |part| {
        match (part, nests.get_mut(parts)) {
            (Step::Transform(transform), Some(nest)) => *nest = Some(*transform),
            // Cells and zeros, or only zeros: no nest. Or a third part.
            _ => are_nests = false,
        }
        parts += 1;
        if parts > FEW_PARTS {
            Err(Error::Internal("there are more than a few parts".into()))
        } else {
            Ok(())
        }
    });
    if are_nests {
        let filled = nests.iter().flatten().filter(|nest| !nest.nest.is_empty());
        return filled.into_iter().try_for_each(|nest| single(nest, at, emit));
    }
    let elements = plan.layouts().1.dims.iter().fold(1_i64, |all, &dim| all.saturating_mul(dim));
    let is_few = parts <= FEW_PARTS && elements >= MANY_ELEMENTS;
    if !is_few && general::counts_groups(plan) {
        return emit(&general::mapped(plan, at)?);
    }
    plan.for_each(&mut |part| match part {
        Step::Transform(transform) if transform.nest.is_empty() => Ok(()),
        Step::Transform(transform) => single(transform, at, emit),
        Step::Padded(padded) => {
            single(&padded.transform(), at, emit)?;
            fill::fill(&padded.fill(), at.dst, false, emit)
        }
        Step::Scale(part) => fill::fill(part, at.dst, false, emit),
        other => Err(Error::Internal(format!("no part of a transform: {other}").into())),
    })
}

/// The launches for one canonical nest: the first kernel that fits, and what it leaves.
pub(super) fn single(transform: &Transform, at: Pointers, emit: Emit<'_>) -> Result<()> {
    if pointwise::blend(transform, at, emit)? {
        return Ok(());
    }
    emit(&kernel(transform, at)?)
}

fn kernel(transform: &Transform, at: Pointers) -> Result<Launch> {
    let moves = Operation::new(transform.src, transform.dst, transform.scaling).is_move();
    match transform.nest.pattern() {
        Pattern::Contiguous if moves => return linear::copy(transform, at),
        Pattern::Contiguous => {
            if let Some(kernel) = linear::conversion(transform) {
                return linear::convert(transform, at, kernel);
            }
        }
        _ if moves => {
            let grid = ByteNest::widened(transform, at);
            return match tiled::transpose(&grid)? {
                Some(launch) => Ok(launch),
                None => general::strided_move(&grid),
            };
        }
        Pattern::Transpose { .. } => {
            if let Some(launch) = tiled::transpose_convert(transform, at)? {
                return Ok(launch);
            }
        }
        _ => {}
    }
    general::strided(transform, at)
}

/// The number of blocks as the x extent of a grid.
pub(super) fn grid(blocks: u64) -> Result<[u32; 3]> {
    match u32::try_from(blocks) {
        Ok(x) if x < 1 << 31 => Ok([x, 1, 1]),
        _ => Err(Error::unsupported(format!("{blocks} blocks are more than one CUDA grid holds"))),
    }
}
