//! Running the plans of element-wise operations and reductions.

use super::Context;
use super::staging::{self, Staged};
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
}

impl Context {
    /// Sets or scales a tensor.
    ///
    /// # Errors
    /// Not supported on the CUDA core; execution if a worker died.
    ///
    /// # Safety
    /// Every element around `y` is writable, and readable if it is scaled by another factor than 0. `y` is aligned to
    /// its scalar type. No other thread touches the tensor meanwhile.
    pub unsafe fn fill(&self, plan: &FillPlan, y: *mut u8) -> Result<()> {
        self.require_cpu("setting and scaling")?;
        staging::addresses(y.addr(), plan.byte_span())?;
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
    /// Not supported on the CUDA core; host allocation if an operand overlaps C in a way that needs a copy of it and
    /// there is no memory for it (nothing is written then); execution if a worker died.
    ///
    /// # Safety
    /// Every byte of the spans of operands that are read is readable, and every element of C writable, and readable
    /// if beta is not 0. All pointers are aligned to their scalar type. No other thread writes any of them meanwhile.
    pub unsafe fn op(&self, plan: &OpPlan, buffers: OpBuffers) -> Result<()> {
        self.require_cpu("cudnnOpTensor")?;
        let [c_span, spans @ ..] = plan.byte_spans();
        staging::addresses(buffers.c.addr(), c_span)?;
        let mut operands = buffers.operands;
        if plan.is_swapped() {
            operands.reverse();
        }
        let mut at = [buffers.c, operands[0].cast_mut(), operands[1].cast_mut()];
        // Alive until the plan has run.
        let mut staged = [const { None }; 2];
        for k in 0..plan.function().arity() {
            let from = operands[k];
            let in_place = from.addr() == buffers.c.addr() && plan.works_in_place(k + 1);
            if staging::overlap((from, spans[k]), (buffers.c, c_span))? && !in_place {
                // SAFETY: the span is readable by the caller's promise.
                let copy = staged[k].insert(unsafe { Staged::copy(from, spans[k]) }?);
                at[k + 1] = copy.base().cast_mut();
            }
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
    /// Not supported on the CUDA core; host allocation (nothing is written then); execution if a worker died.
    ///
    /// # Safety
    /// Every byte of the span of A is readable, and every element of C writable, and readable if beta is not 0; the
    /// plan's [`indices_bytes`](ReducePlan::indices_bytes) are writable at `indices`. `a` and `c` are aligned to their
    /// scalar type. No other thread writes any of them meanwhile.
    pub unsafe fn reduce(&self, plan: &ReducePlan, buffers: ReduceBuffers) -> Result<()> {
        self.require_cpu("cudnnReduceTensor")?;
        let [c_span, a_span] = plan.byte_spans();
        let ReduceBuffers { mut a, c, indices } = buffers;
        let in_place = a.addr() == c.addr() && plan.works_in_place();
        // Alive until the plan has run.
        let staged;
        if staging::overlap((a, a_span), (c, c_span))? && !in_place {
            // SAFETY: the span is readable by the caller's promise.
            staged = unsafe { Staged::copy(a, a_span) }?;
            a = staged.base();
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
        return unsafe { backend::reference::run(&Problem::Fill(*fill), Operands { dst: y, src: y }) };
    }
    // SAFETY: handed on.
    unsafe { backend::run_fill(fill, y, Machine::host()) }
}
