//! Choosing a core when a handle is created, and running plans on it.

use std::ops::Range;

use crate::backend::{self, Operands};
use crate::error::{Error, Result};
use crate::ops::TransformPlan;

/// The core that a handle is bound to for its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Core {
    /// Embedded, on host pointers; calls finish before they return.
    Cpu,
}

/// What a `cudnnHandle_t` stands for.
#[derive(Debug)]
pub struct Context {
    core: Core,
    /// The caller's stream as an address; the CPU core keeps it for `cudnnGetStream` only.
    stream: usize,
}

/// Data pointers of one call. Offsets of the plan may reach below them (negative strides).
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    /// The source, read only.
    pub src: *const u8,
    /// The destination.
    pub dst: *mut u8,
}

impl Context {
    /// Binds a new context to the core that `CUDNN_SHIM_BACKEND` asks for: `cpu`, `cuda`, or `auto` (also when
    /// unset), which takes the CPU core.
    ///
    /// # Errors
    /// Not initialized if the core asked for is not available or unknown.
    pub fn create() -> Result<Self> {
        let choice = std::env::var_os("CUDNN_SHIM_BACKEND").unwrap_or_default();
        match choice.to_str() {
            Some("" | "auto" | "cpu") => Ok(Context { core: Core::Cpu, stream: 0 }),
            Some("cuda") => Err(Error::NotInitialized(
                "CUDNN_SHIM_BACKEND=cuda, but this build of the library has no CUDA core".into(),
            )),
            _ => Err(Error::NotInitialized(
                format!("CUDNN_SHIM_BACKEND={choice:?}: the choices are auto, cpu and cuda").into(),
            )),
        }
    }

    /// The core's name for the log, with what it uses of the machine.
    pub fn core_name(&self) -> String {
        match self.core {
            Core::Cpu => {
                let machine = backend::Machine::host();
                format!("cpu ({}, threads: {})", machine.isa.name(), machine.threads)
            }
        }
    }

    /// The stream last set, as an address; 0 before.
    pub fn stream(&self) -> usize {
        self.stream
    }

    /// Chooses the stream of later calls.
    pub fn set_stream(&mut self, stream: usize) {
        self.stream = stream;
    }

    /// Runs a plan: `dst = alpha * transform(src) + beta * dst`, as if all of the source were read first.
    ///
    /// # Errors
    /// Host allocation if source and destination overlap in a way that needs a copy of the source and there is no
    /// memory for it (nothing is written then); execution if a worker died.
    ///
    /// # Safety
    /// Every byte of the plan's spans around `buffers.src` is readable, and every destination element writable,
    /// and readable if beta is not 0. Both pointers are aligned to their scalar type. No other thread writes
    /// either meanwhile.
    pub unsafe fn transform(&self, plan: &TransformPlan, buffers: Buffers) -> Result<()> {
        match self.core {
            // SAFETY: handed on.
            Core::Cpu => unsafe { transform_on_cpu(plan, buffers) },
        }
    }
}

/// # Safety
/// As [`Context::transform`].
unsafe fn transform_on_cpu(plan: &TransformPlan, mut buffers: Buffers) -> Result<()> {
    let [src, dst] = plan.byte_spans();
    let src_bytes = addresses(buffers.src.addr(), src)?;
    let dst_bytes = addresses(buffers.dst.addr(), dst)?;
    let shared = src_bytes.start < dst_bytes.end && dst_bytes.start < src_bytes.end;
    // Lives until the plan has run.
    let mut staged: Vec<u64> = Vec::new();
    if shared && !(buffers.src.addr() == buffers.dst.addr() && plan.works_in_place()) {
        // Writes would reach elements that are still to be read.
        let len = src_bytes.len();
        staged.try_reserve_exact(len.div_ceil(8)).map_err(|_| Error::HostAllocation { bytes: len })?;
        // SAFETY: the span is readable by the caller's promise, and `staged` has room for it. Its 8-byte
        // alignment serves every scalar: the span starts at a multiple of the scalar's size from `src`.
        unsafe {
            let low = buffers.src.wrapping_offset(src.0 as isize);
            staged.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(low, len);
        }
        buffers.src = staged.as_ptr().cast::<u8>().wrapping_offset(-(src.0 as isize));
    }
    let operands = Operands { dst: buffers.dst, src: buffers.src };
    let ordered = plan.is_ordered();
    plan.for_each(&mut |problem| {
        if ordered {
            // SAFETY: the offsets lie inside the plan's spans, and the reference loop keeps their order.
            return unsafe { backend::reference::run(problem, operands) };
        }
        // SAFETY: the offsets lie inside the plan's spans, they are distinct, and the operands do not overlap
        // unless the plan works in place.
        unsafe { backend::run(problem, operands) }
    })
}

/// The addresses that a byte span around a pointer covers.
///
/// # Errors
/// A mismatch if the span does not fit the address space, so that the pointer cannot belong to such a tensor.
fn addresses(base: usize, (low, high): (i64, i64)) -> Result<Range<usize>> {
    let end = |offset: i64| isize::try_from(offset).ok().and_then(|offset| base.checked_add_signed(offset));
    match (end(low), end(high)) {
        (Some(low), Some(high)) => Ok(low..high),
        _ => Err(Error::mismatch(format!(
            "a tensor of {low}..{high} bytes around {base:#x} does not fit the address space"
        ))),
    }
}
