//! A convolution that computes, and the workspace that it asks for: by the original's graph, if that serves the call, else by
//! this library.

use std::ffi::c_void;

use super::beside_graph::{plan, run, side};
use super::convolution_problem::{Call, Described};
use super::types::cudnnHandle_t;
use super::{arg, context, transform};
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::Scaling;
use crate::ops::convolution::{Algorithm, ConvolutionPlan, Direction, Record};
use crate::original::Pass;

/// The call that a query of a convolution's workspace is for.
fn convolution_call(direction: Direction) -> (&'static str, Pass) {
    match direction {
        Direction::Forward => ("cudnnConvolutionForward", Pass::Y),
        Direction::BackwardData => ("cudnnConvolutionBackwardData", Pass::Dx),
        Direction::BackwardFilter => ("cudnnConvolutionBackwardFilter", Pass::Dw),
    }
}

/// Lets the original compute a convolution as a graph.
///
/// # Safety
/// As of the call.
unsafe fn convolve(
    handle: cudnnHandle_t, name: &'static str, described: &Described, call: &Call,
) -> Option<Result<()>> {
    let side = side(handle, name)?;
    let (_, pass) = convolution_call(described.direction);
    let alive = described.alive().ok()?;
    // SAFETY: both factors are NULL or one readable number of their type.
    let scaling = unsafe { transform::scaling(call.alpha, call.beta, alive.compute_type()) }.ok()?;
    // What is wrong with the call, this library says.
    let problem = alive.problem().ok()?;
    Algorithm::new(described.direction, call.algo)
        .and_then(|algo| algo.check(&problem, Mode::current()))
        .ok()?;
    let legacy = alive.legacy(pass, scaling).ok()?;
    let [result, a, b] = call.data.map(|(pointer, _)| pointer);
    let data = match pass {
        Pass::Y => [a, b, result],
        Pass::Dx => [result, b, a],
        Pass::Dw => [a, result, b],
    };
    // SAFETY: the caller vouches for the pointers and the workspace.
    unsafe { run(&side, name, &legacy, &data, call.workspace) }
}

/// The workspace of a convolution, if the original computes it as a graph: at least what this
/// library takes, which may have to serve what the plan does not take.
pub(super) fn convolution_workspace(handle: cudnnHandle_t, described: &Described, own: usize) -> usize {
    let (name, pass) = convolution_call(described.direction);
    let size = || {
        let side = side(handle, name)?;
        let legacy = described.alive().and_then(|alive| alive.legacy(pass, Scaling::MOVE)).ok()?;
        Some(plan(&side, &legacy, usize::MAX)?.workspace())
    };
    size().map_or(own, |size| own.max(size))
}

/// Lets records of algorithms tell the workspace that the query of it would, so that who takes it
/// from there has the original serve.
pub(super) fn tell_workspace<'a>(
    handle: cudnnHandle_t, described: &Described, records: impl Iterator<Item = &'a mut Record>,
) {
    for own in records.filter_map(|record| record.workspace.as_mut().ok()) {
        *own = convolution_workspace(handle, described, *own);
    }
}

/// `dst = alpha * sum + beta * dst`, in one direction.
///
/// # Errors
/// As the calls say.
///
/// # Safety
/// The factors are NULL or valid for one read of `double`, if the compute type is that, else of `float`. The data
/// pointers are NULL or valid for the spans of their descriptors, the workspace for its size.
pub(super) unsafe fn compute(
    name: &'static str, handle: cudnnHandle_t, described: &Described, call: &Call,
) -> Result<()> {
    // SAFETY: as of this call.
    if let Some(theirs) = unsafe { convolve(handle, name, described, call) } {
        return theirs;
    }
    context::compute(handle, name, |core| {
        let alive = described.alive()?;
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(call.alpha, call.beta, alive.compute_type()) }?;
        call.data.iter().try_for_each(|&(pointer, name)| arg::required(pointer, name))?;
        let problem = alive.problem()?;
        let algorithm = Algorithm::new(described.direction, call.algo)?;
        let mode = Mode::current();
        algorithm.check(&problem, mode)?;
        let [(dst, dst_name), (a, a_name), _] = call.data;
        if mode.is_strict() && described.direction == Direction::Forward && dst == a {
            return Err(Error::unsupported(format!(
                "{dst_name} = {a_name}, which strict mode does not compute"
            )));
        }
        let plan = ConvolutionPlan::new(&problem, scaling)?;
        let (workspace, bytes) = call.workspace;
        let bound = |(pointer, name): (*mut c_void, _)| (name, pointer.into());
        let [dst, a, b] = call.data.map(bound);
        let operands = [dst, a, b, ("workSpace", workspace.into())];
        // SAFETY: the caller vouches for the spans of the descriptors, which are the plan's, and for the workspace.
        unsafe { core.convolve(plan, &problem, algorithm, bytes, operands) }
    })
}
