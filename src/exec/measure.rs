//! How long a plan takes, on memory of its own where the caller's must stay as it is.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::time::Instant;

use super::{Context, host_runtime};
use crate::backend::Address;
use crate::error::{Error, Result};
use crate::ops::{ByteSpan, Plan};

/// Runs of a short plan, of which the fastest counts.
const RUNS: usize = 3;

/// A plan that takes longer is run once.
const SHORT: f32 = 5.0;

/// Zeros around a data pointer.
struct Zeros {
    memory: NonNull<u8>,
    layout: Layout,
    low: i64,
}

impl Zeros {
    fn new((low, high): ByteSpan) -> Result<Self> {
        let bytes = usize::try_from(high - low).unwrap_or(usize::MAX).max(1);
        let fail = || Error::HostAllocation { bytes };
        let layout = Layout::from_size_align(bytes, 64).map_err(|_| fail())?;
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(fail)?;
        Ok(Zeros { memory, layout, low })
    }

    fn base(&self) -> Address {
        self.memory.as_ptr().wrapping_offset(-(self.low as isize)).into()
    }
}

impl Drop for Zeros {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

impl Context {
    /// The milliseconds that a plan takes on operands at these addresses; where there is none, and
    /// where the plan writes, on zeros of its own.
    ///
    /// # Errors
    /// Want of memory, of the host or of the device; not supported on a stream that captures; as
    /// [`Context::run`].
    ///
    /// # Safety
    /// As for [`Context::run`], but nothing is written.
    pub unsafe fn measure(&self, plan: &dyn Plan, at: &[Option<Address>]) -> Result<f32> {
        if let Some(cuda) = self.cuda() {
            // SAFETY: the spans that are given are readable by the device, and the handle's stream
            // is alive.
            return unsafe { cuda.measure(plan, at, self.stream()) };
        }
        if host_runtime::captures(self.stream()) {
            return Err(Error::unsupported("the handle's stream captures, where no time can be taken"));
        }
        let mut own = Vec::new();
        let mut places = Vec::with_capacity(at.len());
        for (operand, given) in plan.operands().iter().zip(at) {
            match given {
                Some(address) if !operand.role.is_written() => places.push(*address),
                _ => {
                    let zeros = Zeros::new(operand.span)?;
                    places.push(zeros.base());
                    own.push(zeros);
                }
            }
        }
        // What is the measurement's own goes with it.
        let context = self.without_filters();
        let mut best = f32::INFINITY;
        for _ in 0..RUNS {
            let start = Instant::now();
            // SAFETY: what is written is our own, and the spans of what is read are readable.
            unsafe { context.run(plan, &places) }?;
            best = best.min(start.elapsed().as_secs_f32() * 1e3);
            if best > SHORT {
                break;
            }
        }
        Ok(best)
    }
}
