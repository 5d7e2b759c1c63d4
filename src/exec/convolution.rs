//! What the choice of a core means for convolutions: the workspace that the core has a use for, the
//! order in which queries tell of algorithms, and the search that measures algorithms.

use super::{Address, Bound, Call, Context};
use crate::backend::cuda::copies_vectors;
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::contract::Contract;
use crate::ops::convolution::{
    Algorithm, Convolution, ConvolutionPlan, LEAST_WORKSPACE, Record, TAKES_ALL, Takes,
};
use crate::ops::{Operand, Plan, Scaling};

/// The workspace that a program gives, or none.
#[derive(Clone, Copy)]
pub struct Workspace {
    /// Where it begins.
    pub at: Address,
    /// Its size.
    pub bytes: usize,
}

impl Workspace {
    /// The bytes that can hold partial sums: one off the alignment is as good as none.
    fn usable(self) -> usize {
        let is_aligned = self.at != Address::NULL && self.at.addr().is_multiple_of(16);
        if is_aligned { self.bytes } else { 0 }
    }
}

impl Context {
    /// Has `with` see what kernels this core takes, if it has a use for a workspace: it cuts long
    /// sums, and moves operands.
    fn of_use<R>(&self, with: impl FnOnce(Option<Takes<'_>>) -> R) -> R {
        let Some(cuda) = self.cuda() else { return with(None) };
        let device = cuda.kind();
        with(Some(&|step: &Contract| copies_vectors(step, device)))
    }

    /// Lets a plan use a workspace of as many bytes, if this core has a use for it: for what is
    /// moved there, too, if that `moves`.
    fn give(&self, plan: &mut ConvolutionPlan, bytes: usize, moves: bool) {
        let give = |takes: Takes<'_>| plan.take_workspace(bytes, if moves { takes } else { TAKES_ALL });
        if bytes > 0 {
            self.of_use(|takes| takes.map_or((), give));
        }
    }

    /// The bytes of workspace that an algorithm has a use for.
    ///
    /// # Errors
    /// As [`Convolution::workspace`].
    pub fn convolution_workspace(&self, problem: &Convolution, algorithm: Algorithm) -> Result<usize> {
        self.of_use(|takes| problem.workspace(algorithm, takes))
    }

    /// The records of all algorithms, those that serve first, with the workspaces that queries
    /// report.
    pub fn algorithms(&self, problem: &Convolution) -> Vec<Record> {
        self.ranked(problem, self.prefers_winograd(problem))
    }

    /// [`algorithms`](Context::algorithms) where it is known whether Winograd's come first.
    fn ranked(&self, problem: &Convolution, winograd: bool) -> Vec<Record> {
        self.of_use(|takes| problem.records(Mode::current(), takes, winograd))
    }

    /// The first algorithm that needs no more than `limit` bytes of workspace.
    ///
    /// # Errors
    /// Not supported, with the bytes that would do, or if no algorithm computes the problem.
    pub fn algorithm_within(&self, problem: &Convolution, limit: usize) -> Result<Algorithm> {
        let winograd = self.prefers_winograd(problem);
        let (mut least, mut zero) = (None, None);
        for record in self.ranked(problem, winograd) {
            let Ok(told) = record.workspace else { continue };
            // The core that prefers Winograd's algorithms computes them without a workspace.
            let needs = record.algorithm.takes_workspace() && !(winograd && record.algorithm.is_winograd());
            let needed = if needs { told } else { 0 };
            if needed <= limit && !record.algorithm.takes_workspace() {
                zero = zero.or(Some(record.algorithm));
            } else if needed <= limit && (zero.is_none() || needed > LEAST_WORKSPACE) {
                // Before number 0, which the original prefers, comes what cuts sums in what is
                // allowed.
                return Ok(record.algorithm);
            }
            least = Some(least.map_or(needed, |least: usize| least.min(needed)));
        }
        if let Some(algorithm) = zero {
            return Ok(algorithm);
        }
        Err(match least {
            Some(needed) => {
                Error::unsupported(format!("{needed} bytes of workspace are needed, {limit} are allowed"))
            }
            None => Error::unsupported("no algorithm computes this problem"),
        })
    }

    /// Whether queries rank Winograd's algorithms first.
    fn prefers_winograd(&self, problem: &Convolution) -> bool {
        problem.may_prefer_winograd(Mode::current()) && self.has_winograd(problem)
    }

    /// Whether this core has a kernel for Winograd's algorithms that is faster here than all
    /// others.
    fn has_winograd(&self, problem: &Convolution) -> bool {
        let plan = ConvolutionPlan::new(problem, Scaling::MOVE);
        plan.is_ok_and(|plan| self.takes_winograd(&plan.by(Algorithm::winograd(problem.direction))))
    }

    /// Refuses, in strict mode, less workspace than the query tells of. Outside of it every sum is
    /// computed without as well.
    fn check_workspace(&self, problem: &Convolution, algorithm: Algorithm, given: Workspace) -> Result<()> {
        if !Mode::current().is_strict() || !algorithm.takes_workspace() {
            return Ok(());
        }
        let needed = self.convolution_workspace(problem, algorithm)?;
        let is_null = given.at == Address::NULL;
        if given.bytes >= needed && !is_null {
            return Ok(());
        }
        let place = if is_null { "NULL" } else { "given" };
        Err(Error::argument(
            "workSpaceSizeInBytes",
            i64::try_from(given.bytes).unwrap_or(i64::MAX),
            format!("{algorithm} needs {needed} bytes of workspace; workSpace is {place}"),
        ))
    }
}

/// Refuses data that is not aligned to its scalars, with the status that the original has for it
/// here.
fn check_alignment((operand, (name, at)): (&Operand, &Bound)) -> Result<()> {
    let size = operand.scalar.size();
    if at.addr().is_multiple_of(size) {
        return Ok(());
    }
    Err(Error::Misaligned(
        format!("{name} = {at:?}: data must be aligned to its scalars of {size} bytes").into(),
    ))
}

impl Call<'_> {
    /// Runs the plan of a problem by an algorithm. The operands are those of the plan, and the
    /// workspace, of `bytes` bytes, which the plan is let use where algorithm and core have a use
    /// for it.
    ///
    /// # Errors
    /// In this order: bad parameter for too little workspace in strict mode; misaligned; as
    /// [`Context::run`].
    ///
    /// # Safety
    /// As [`Context::run`]; the workspace is NULL or valid for its size.
    pub unsafe fn convolve<const N: usize>(
        &mut self, plan: ConvolutionPlan, problem: &Convolution, algorithm: Algorithm, bytes: usize,
        operands: [Bound; N],
    ) -> Result<()> {
        let workspace = Workspace { at: operands[N - 1].1, bytes };
        self.context.check_workspace(problem, algorithm, workspace)?;
        plan.operands().iter().zip(&operands).try_for_each(check_alignment)?;
        let mut plan = plan.by(algorithm);
        if algorithm.takes_workspace() {
            self.context.give(&mut plan, workspace.usable(), algorithm.moves_operands());
        }
        // SAFETY: the pointers are aligned and valid for the spans of the plan's operands, the
        // workspace for its size.
        unsafe { self.run(&plan, operands) }
    }

    /// Measures what the algorithms of a problem do: their records, the shortest time first, each
    /// with its milliseconds, or [`NOT_MEASURED`]. What is written goes to memory of the search's
    /// own, and all is its own without the caller's `operands`.
    ///
    /// # Errors
    /// As [`ConvolutionPlan::new`]; misaligned.
    ///
    /// # Safety
    /// The operands that are read are valid for the spans of the problem's descriptors, the
    /// workspace for its size.
    pub unsafe fn search(
        &mut self, problem: &Convolution, operands: Option<[Bound; 3]>, workspace: Workspace,
    ) -> Result<Vec<(Record, f32)>> {
        let context = self.context;
        let mut records = context.algorithms(problem);
        if !records.iter().any(is_ok) {
            return Ok(records.into_iter().map(|record| (record, NOT_MEASURED)).collect());
        }
        let plain = ConvolutionPlan::new(problem, Scaling::MOVE)?;
        plain.operands().iter().zip(operands.iter().flatten()).try_for_each(check_alignment)?;
        // With as much workspace as the records tell of: the caller's, or one of the search's own.
        let mut cut = plain.clone();
        let given = match operands {
            Some(_) => workspace.usable(),
            None => records.iter().flat_map(|record| record.workspace.clone()).max().unwrap_or(0),
        };
        context.give(&mut cut, given, true);
        let mut in_parts = plain.clone();
        context.give(&mut in_parts, given, false);
        let at = match operands {
            Some([dst, a, b]) => [dst.1, a.1, b.1, workspace.at].map(Some),
            None => [None; 4],
        };
        // SAFETY: the caller vouches for the operands that are read.
        let mut measure = |plan: &ConvolutionPlan| unsafe { self.measure(plan, &at) };
        // One measurement for all numbers that do the same.
        let others = measure(&cut);
        let zero = if cut.uses_workspace()? { measure(&plain) } else { others.clone() };
        let without_moves = match (cut.moves_operands(), in_parts.uses_workspace()?) {
            (false, _) => others.clone(),
            (true, false) => zero.clone(),
            (true, true) => measure(&in_parts),
        };
        let winograd = match context.has_winograd(problem) {
            true => measure(&plain.clone().by(Algorithm::winograd(problem.direction))),
            false => others.clone(),
        };
        let outcome = |record: &Record| match record.algorithm {
            algorithm if algorithm.is_winograd() => &winograd,
            algorithm if algorithm.moves_operands() => &others,
            algorithm if algorithm.takes_workspace() => &without_moves,
            _ => &zero,
        };
        for record in &mut records {
            let fits = match operands {
                Some(_) => context.check_workspace(problem, record.algorithm, workspace),
                None => Ok(()),
            };
            let serves = fits.and(serves(outcome(record)));
            record.workspace = record.workspace.clone().and_then(|bytes| serves.map(|()| bytes));
        }
        let time = |record: &Record| match outcome(record) {
            Ok(time) if is_ok(record) => *time,
            _ => NOT_MEASURED,
        };
        // Those without a time go behind those with one.
        let place = |record: &Record| if time(record) < 0.0 { f32::INFINITY } else { time(record) };
        // However fast, Winograd's are not offered to a program that wants plain sums.
        let plain_first = !problem.may_prefer_winograd(Mode::current());
        let group = |record: &Record| (!is_ok(record), plain_first && record.algorithm.is_winograd());
        records.sort_by(|a, b| group(a).cmp(&group(b)).then(place(a).total_cmp(&place(b))));
        let timed = |record: Record| {
            let time = time(&record);
            (record, time)
        };
        Ok(records.into_iter().map(timed).collect())
    }
}

/// The time of what was not measured.
pub const NOT_MEASURED: f32 = -1.0;

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
