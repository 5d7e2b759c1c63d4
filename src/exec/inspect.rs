//! What programs may ask a context about itself.

use super::Context;
use crate::backend::cpu::threads::with_stack;
use crate::backend::{self, Address, Machine};
use crate::ops::Plan;

impl Context {
    /// Whether this is the CUDA core.
    pub fn is_cuda(&self) -> bool {
        self.cuda().is_some()
    }

    /// The device of the CUDA core, 0 as long as it is bound to none; `None` on the CPU core.
    pub fn device(&self) -> Option<i32> {
        self.cuda().map(|cuda| cuda.device().unwrap_or(0))
    }

    /// The names of the kernels that a plan takes on operands at these addresses, where there are
    /// several for a step of its kind.
    pub fn kernels(&self, plan: &dyn Plan, at: &[Address]) -> Vec<&'static str> {
        if let Some(cuda) = self.cuda() {
            return cuda.kernels(plan, at);
        }
        let mut kernels = Vec::new();
        let (ordered, machine) = (plan.is_ordered(), Machine::host());
        // No step fails here.
        let _ = plan.steps(&mut |step, _| {
            kernels.extend(backend::kernel(step, ordered, machine));
            Ok(())
        });
        kernels
    }

    /// Whether this core computes a plan that allows it by Winograd's F(2x2, 3x3). The CPU core
    /// does where that is the fastest, the CUDA core never.
    pub fn takes_winograd(&self, plan: &dyn Plan) -> bool {
        let mut takes = false;
        if !self.is_cuda() {
            // No step fails here; without memory for a stack, nothing is said of this kernel. The
            // kernels are tried one after the other, which a query that is called on a small stack
            // has no room for.
            let _ = with_stack(|| {
                plan.steps(&mut |step, _| {
                    takes |= backend::takes_winograd(step, Machine::host());
                    Ok(())
                })
            });
        }
        takes
    }

    /// Host threads that a large call is divided among, the caller's included.
    pub fn threads(&self) -> usize {
        if self.is_cuda() { 1 } else { Machine::host().threads }
    }
}
