//! Plans of tasks on the CPU core: each thread runs tasks of its own, with scratch of its own.

use std::sync::Mutex;
use std::sync::PoisonError;

use crate::backend::cpu::{arena, threads};
use crate::backend::{self, Address, Machine};
use crate::dtype::convert::{Element, with_element};
use crate::error::{Error, Result};
use crate::ops::Plan;
use crate::ops::plan::{MAX_OPERANDS, Tasks};

/// Addresses of operands, one per operand of a plan.
struct Places<'a>(&'a [Address]);

// SAFETY: addresses without meaning of their own; who follows them is unsafe.
unsafe impl Sync for Places<'_> {}

/// The bytes of scratch that a thread has for tasks, and those that their steps take beside them.
pub(super) fn scratch(plan: &dyn Plan, tasks: &dyn Tasks) -> [usize; 2] {
    let bytes = tasks.scratch().map_or(0, |scratch| plan.operands()[scratch].span.1 as usize);
    [bytes, plan.most_extents().map_or(0, backend::most_scratch)]
}

/// Runs the tasks of a plan on operands at these addresses. Fewer tasks than threads run one after
/// the other, each on all threads.
///
/// # Errors
/// Those of its steps; host allocation where there is no scratch.
///
/// # Safety
/// As for [`Context::run`](super::Context::run), of the CPU core.
pub(super) unsafe fn run(plan: &dyn Plan, tasks: &dyn Tasks, at: &[Address]) -> Result<()> {
    let (machine, operands) = (Machine::host(), plan.operands());
    let (places, scratch_operand) = (Places(at), tasks.scratch());
    let places = &places;
    let read = |operand: usize, bytes: i64| {
        let at = places.0[operand].pointer().wrapping_offset(bytes as isize);
        // SAFETY: a number of an operand that is read, inside of its span and aligned to its
        // scalar.
        with_element!(operands[operand].scalar, D => unsafe { at.cast::<D>().read() }.to_f64())
    };
    let run_task = |scratch: *mut u8, task: usize, machine: Machine| {
        tasks.steps_of(task, &read, &mut |step, of| {
            let mut own = [Address::NULL; MAX_OPERANDS];
            for (own, &(operand, bytes)) in own.iter_mut().zip(of) {
                let base =
                    if Some(operand) == scratch_operand { scratch } else { places.0[operand].pointer() };
                *own = base.wrapping_offset(bytes as isize).into();
            }
            // SAFETY: the operands of the step, inside of the plan's; tasks share nothing that is
            // written.
            unsafe { backend::run_keeping(step, &own[..of.len()], false, machine, None) }
        })
    };
    let [bytes, nested] = scratch(plan, tasks);
    let (count, most) = (tasks.count(), machine.threads);
    if count < most {
        return arena::with(bytes, |scratch| {
            (0..count).try_for_each(|task| run_task(scratch, task, machine))
        });
    }
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let alone = Machine { threads: 1, ..machine };
    threads::run_nested(most, count, [bytes, nested], &|scratch, task| {
        if let Err(error) = run_task(scratch, task, alone) {
            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    })?;
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
