//! What programs may ask a context about itself.

use super::Context;
use crate::backend::Machine;

impl Context {
    /// Whether this is the CUDA core.
    pub fn is_cuda(&self) -> bool {
        self.cuda().is_some()
    }

    /// The device of the CUDA core, 0 as long as it is bound to none; `None` on the CPU core.
    pub fn device(&self) -> Option<i32> {
        self.cuda().map(|cuda| cuda.device().unwrap_or(0))
    }

    /// Host threads that a large call is divided among, the caller's included.
    pub fn threads(&self) -> usize {
        if self.is_cuda() { 1 } else { Machine::host().threads }
    }
}
