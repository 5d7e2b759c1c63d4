//! Running the plans of element-wise operations and reductions.

use super::Context;
use super::staging::{self, Staged};
use crate::backend::cuda::reduce::Places;
use crate::backend::{self, Machine, Operands};
use crate::error::Result;
use crate::ops::{Fill, FillPlan, OpPlan, Problem, ReducePlan, fill::Part};

/// Data pointers of one OpTensor call.
#[derive(Clone, Copy, Debug)]
pub struct OpBuffers {
    /// The destination.
    pub c: *mut u8,
    /// A and B.
    pub operands: [*const u8; 2],
}

/// Data pointers of one ReduceTensor call.
#[derive(Clone, Copy, Debug)]
pub struct ReduceBuffers {
    /// The source.
    pub a: *const u8,
    /// The destination.
    pub c: *mut u8,
    /// Where indices go; of any alignment, ignored if the plan writes none.
    pub indices: *mut u8,
    /// Address and bytes of the workspace, of any alignment; the CPU core does not touch it.
    pub workspace: (usize, usize),
}

impl Context {
    /// Sets or scales a tensor, whose C parameter is called `name`.
    ///
    /// # Errors
    /// As [`Context::transform`].
    ///
    /// # Safety
    /// Every element around `y` is writable, and readable if it is scaled by another factor than 0, by the core's
    /// device. `y` is aligned to its scalar type. Nobody else touches the tensor until the work is done. The stream is
    /// alive.
    pub unsafe fn fill(&self, plan: &FillPlan, y: *mut u8, name: &'static str) -> Result<()> {
        staging::addresses(y.addr(), plan.byte_span())?;
        if let Some(cuda) = self.cuda() {
            // SAFETY: handed on.
            return unsafe { cuda.fill(plan, y.addr() as u64, name, self.stream()) };
        }
        plan.for_each(&mut |part| match part {
            // SAFETY: the offsets lie inside the plan's span.
            Part::Set(set) => unsafe { backend::run_set(set, y, Machine::host()) },
            // SAFETY: as above; the reference loop keeps the order of repeated offsets.
            Part::Fill(fill) => unsafe { run_fill(fill, y, plan.is_ordered()) },
        })
    }

    /// Runs `C = op(alpha1 * A, alpha2 * B) + beta * C`, as if all operands were read first.
    ///
    /// # Errors
    /// As [`Context::transform`].
    ///
    /// # Safety
    /// Every byte of the spans of operands that are read is readable, and every element of C writable, and readable
    /// if beta is not 0, by the core's device. All pointers are aligned to their scalar type. Nobody else writes any of
    /// them until the work is done. The stream is alive.
    pub unsafe fn op(&self, plan: &OpPlan, buffers: OpBuffers) -> Result<()> {
        let [c_span, spans @ ..] = plan.byte_spans();
        staging::addresses(buffers.c.addr(), c_span)?;
        let mut operands = buffers.operands;
        let mut names = ["A", "B"];
        if plan.is_swapped() {
            operands.reverse();
            names.reverse();
        }
        let mut at = [buffers.c, operands[0].cast_mut(), operands[1].cast_mut()];
        // Alive until the plan has run.
        let mut staged = [const { None }; 2];
        for k in 0..plan.function().arity() {
            let from = operands[k];
            let in_place = from.addr() == buffers.c.addr() && plan.works_in_place(k + 1);
            if staging::overlap((from, spans[k]), (buffers.c, c_span))? && !in_place {
                if self.cuda().is_some() {
                    return Err(staging::refusal(names[k], "C"));
                }
                // SAFETY: the span is readable by the caller's promise.
                let copy = staged[k].insert(unsafe { Staged::copy(from, spans[k]) }?);
                at[k + 1] = copy.base().cast_mut();
            }
        }
        if let Some(cuda) = self.cuda() {
            let [c, a, b] = at.map(|pointer| pointer.addr() as u64);
            // SAFETY: handed on; overlaps were judged just above.
            return unsafe { cuda.op(plan, [("C", c), (names[0], a), (names[1], b)], self.stream()) };
        }
        plan.for_each(&mut |problem| {
            if plan.is_ordered() {
                // SAFETY: the offsets lie inside the plan's spans, and the reference loop keeps their order.
                unsafe { backend::reference::op(problem, at) };
                return Ok(());
            }
            // SAFETY: the offsets lie inside the plan's spans, those of C are distinct, and the operands do not overlap C
            // unless the plan works in place.
            unsafe { backend::run_op(problem, at, Machine::host()) }
        })?;
        // SAFETY: the tail lies inside the span of C.
        plan.tail().map_or(Ok(()), |tail| unsafe { run_fill(&tail, buffers.c, plan.is_ordered()) })
    }

    /// Runs `C = alpha * reduce(A) + beta * C`, as if all of A were read first.
    ///
    /// # Errors
    /// As [`Context::transform`]; host allocation on the CPU core (nothing is written then).
    ///
    /// # Safety
    /// Every byte of the span of A is readable, and every element of C writable, and readable if beta is not 0, by the
    /// core's device; so are the plan's [`indices_bytes`](ReducePlan::indices_bytes) at `indices`, and the workspace.
    /// `a` and `c` are aligned to their scalar type. Nobody else writes any of them until the work is done. The stream is
    /// alive.
    pub unsafe fn reduce(&self, plan: &ReducePlan, buffers: ReduceBuffers) -> Result<()> {
        let [c_span, a_span] = plan.byte_spans();
        let ReduceBuffers { mut a, c, indices, workspace } = buffers;
        let in_place = a.addr() == c.addr() && plan.works_in_place();
        // Alive until the plan has run.
        let staged;
        if staging::overlap((a, a_span), (c, c_span))? && !in_place {
            if self.cuda().is_some() {
                return Err(staging::refusal("A", "C"));
            }
            // SAFETY: the span is readable by the caller's promise.
            staged = unsafe { Staged::copy(a, a_span) }?;
            a = staged.base();
        }
        if let Some(cuda) = self.cuda() {
            let at = Places {
                c: c.addr() as u64,
                a: a.addr() as u64,
                indices: indices.addr() as u64,
                workspace: (workspace.0 as u64, workspace.1),
            };
            // SAFETY: handed on; the overlap was judged just above.
            return unsafe { cuda.reduce(plan, at, self.stream()) };
        }
        plan.for_each(&mut |problem| {
            if plan.is_ordered() {
                // SAFETY: the offsets lie inside the plan's spans, and the reference loop keeps their order.
                unsafe { backend::reference::reduce(problem, c, a, indices) };
                return Ok(());
            }
            // SAFETY: the offsets lie inside the plan's spans, those of C are distinct, and A does not overlap C unless
            // each output reduces the cell in its own place.
            unsafe { backend::run_reduce(problem, c, a, indices, Machine::host()) }
        })?;
        // SAFETY: the tail lies inside the span of C.
        plan.tail().map_or(Ok(()), |tail| unsafe { run_fill(&tail, c, plan.is_ordered()) })
    }
}

/// # Safety
/// Every cell of the fill is writable around `y`, and readable unless it becomes zero; offsets repeat only if
/// `ordered`.
unsafe fn run_fill(fill: &Fill, y: *mut u8, ordered: bool) -> Result<()> {
    if ordered {
        // SAFETY: handed on.
        return unsafe { backend::reference::run(Problem::Fill(fill), Operands { dst: y, src: y }) };
    }
    // SAFETY: handed on.
    unsafe { backend::run_fill(fill, y, Machine::host()) }
}
