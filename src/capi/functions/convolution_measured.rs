//! What the searches for a convolution's algorithm do: measure the plans behind the numbers, and rank these by the times.

use std::ffi::{c_int, c_void};

use super::arg::{self, Out};
use super::context;
use super::convolution_problem::{
    CRecord, Described, check_alignment, check_workspace, cuts_sums, is_usable, records, store,
    takes_winograd,
};
use super::types::cudnnHandle_t;
use crate::error::{Error, Result};
use crate::exec::Address;
use crate::mode::Mode;
use crate::ops::convolution::{Algorithm, ConvolutionPlan, Record};
use crate::ops::{Plan, Scaling};

/// What is measured, and where the records go.
pub(super) struct Search<R> {
    /// The caller's operands with their names, the destination first.
    pub data: Option<[(*mut c_void, &'static str); 3]>,
    pub workspace: (*mut c_void, usize),
    pub requested: c_int,
    pub returned: *mut c_int,
    pub results: *mut R,
}

/// Measures what the numbers of an algorithm do, and stores the records, the shortest time first.
///
/// # Safety
/// As for the calls of `convolution_find.rs`.
pub(super) unsafe fn measured<R: CRecord>(
    name: &'static str, handle: cudnnHandle_t, described: &Described, search: Search<R>,
) -> Result<()> {
    context::compute(handle, name, |call| {
        let alive = described.alive()?;
        // SAFETY: as the caller promises.
        let returned = unsafe { Out::new(search.returned, "returnedAlgoCount") }?;
        arg::required(search.results, "perfResults")?;
        for (pointer, name) in search.data.iter().flatten() {
            arg::required(*pointer, name)?;
        }
        if search.requested < 1 {
            let rule = "at least 1";
            return Err(Error::argument("requestedAlgoCount", search.requested.into(), rule));
        }
        let (problem, context) = (alive.problem()?, call.context);
        let mut records = records(context, &problem);
        if !records.iter().any(is_ok) {
            // SAFETY: not NULL, and the caller vouches for as many records as are requested.
            returned.set(unsafe { store(search.results, search.requested, &records, |_| UNKNOWN) });
            return Ok(());
        }
        let plain = ConvolutionPlan::new(&problem, Scaling::MOVE)?;
        for (operand, (pointer, _)) in plain.operands().iter().zip(search.data.iter().flatten()) {
            check_alignment(operand, *pointer)?;
        }
        // With as much workspace as the records tell of: the caller's, or one of the search's own.
        let mut cut = plain.clone();
        let given = match search.data {
            Some(_) if is_usable(search.workspace.0) => search.workspace.1,
            Some(_) => 0,
            None => records.iter().flat_map(|record| record.workspace.clone()).max().unwrap_or(0),
        };
        if cuts_sums(context) && given > 0 {
            cut.take_workspace(given);
        }
        let mut at: [Option<Address>; 4] = [None; 4];
        if let Some(data) = search.data {
            for (place, (pointer, _)) in at.iter_mut().zip(data) {
                *place = Some(pointer.into());
            }
            at[3] = Some(search.workspace.0.into());
        }
        // SAFETY: the caller vouches for the operands that are read.
        let mut measure = |plan: &ConvolutionPlan| unsafe { call.measure(plan, &at) };
        // One measurement for all numbers that do the same.
        let others = measure(&cut);
        let zero = if cut.uses_workspace()? { measure(&plain) } else { others.clone() };
        let winograd = if takes_winograd(context, &problem) {
            measure(&plain.clone().by(Algorithm::winograd(problem.direction)))
        } else {
            others.clone()
        };
        let outcome = |record: &Record| match record.algorithm {
            algorithm if algorithm.is_winograd() => &winograd,
            algorithm if algorithm.takes_workspace() => &others,
            _ => &zero,
        };
        for record in &mut records {
            let fits = match search.data {
                Some(_) => check_workspace(context, &problem, record.algorithm, search.workspace),
                None => Ok(()),
            };
            let serves = fits.and(serves(outcome(record)));
            record.workspace = record.workspace.clone().and_then(|bytes| serves.map(|()| bytes));
        }
        let time = |record: &Record| match outcome(record) {
            Ok(time) if is_ok(record) => *time,
            _ => UNKNOWN,
        };
        // Those without a time go behind those with one.
        let place = |record: &Record| if time(record) < 0.0 { f32::INFINITY } else { time(record) };
        // However fast, Winograd's are not offered to a program that wants plain sums.
        let plain_first = !problem.may_prefer_winograd(Mode::current());
        let group = |record: &Record| (!is_ok(record), plain_first && record.algorithm.is_winograd());
        records.sort_by(|a, b| group(a).cmp(&group(b)).then(place(a).total_cmp(&place(b))));
        // SAFETY: not NULL, and the caller vouches for as many records as are requested.
        returned.set(unsafe { store(search.results, search.requested, &records, time) });
        Ok(())
    })
}

/// The time of what was not measured.
const UNKNOWN: f32 = -1.0;

fn is_ok(record: &Record) -> bool {
    record.workspace.is_ok()
}

/// Whether the call would do it: memory that only the measurement needs is no reason against.
fn serves(outcome: &Result<f32>) -> Result<()> {
    match outcome {
        Err(error) if !error.is_want_of_memory() => Err(error.clone()),
        _ => Ok(()),
    }
}
