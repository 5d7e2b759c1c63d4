//! Choosing a core when a handle is created, and running plans on it.

use super::staging::{self, Staged};
use crate::backend::cuda::plan::Pointers;
use crate::backend::cuda::{Cuda, Driver, Names, Unavailable};
use crate::backend::{self, Operands};
use crate::error::{Error, Result};
use crate::ops::TransformPlan;

/// The core that a handle is bound to for its life.
#[derive(Debug)]
enum Core {
    /// Embedded, on host pointers; calls finish before they return.
    Cpu {
        /// Why it is not the CUDA core, where that was looked for.
        instead_of_cuda: Option<&'static Unavailable>,
    },
    /// On device pointers; calls queue their work on the handle's stream.
    Cuda(Cuda),
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
    /// What the C call names them.
    pub names: Names,
}

impl Context {
    /// Binds a new context to the core that `CUDNN_SHIM_BACKEND` asks for: `cpu`, `cuda`, or `auto` (also when
    /// unset), which takes the CUDA core if a driver and a device answer, else the CPU core.
    ///
    /// # Errors
    /// Not initialized if the core asked for is not available, fails or is unknown.
    pub fn create() -> Result<Self> {
        let choice = std::env::var_os("CUDNN_SHIM_BACKEND").unwrap_or_default();
        let cuda = |driver| {
            // Whatever the driver says, what it means for the caller is that there is no handle.
            Cuda::create(driver)
                .map(Core::Cuda)
                .map_err(|error| Error::NotInitialized(error.to_string().into()))
        };
        let core = match choice.to_str() {
            Some("cpu") => Core::Cpu { instead_of_cuda: None },
            Some("" | "auto") => match Driver::get() {
                Ok(driver) => cuda(driver)?,
                Err(reason) => Core::Cpu { instead_of_cuda: Some(reason) },
            },
            Some("cuda") => match Driver::get() {
                Ok(driver) => cuda(driver)?,
                Err(reason) => {
                    return Err(Error::NotInitialized(
                        format!("CUDNN_SHIM_BACKEND=cuda, but there is no CUDA core: {reason}").into(),
                    ));
                }
            },
            _ => {
                return Err(Error::NotInitialized(
                    format!("CUDNN_SHIM_BACKEND={choice:?}: the choices are auto, cpu and cuda").into(),
                ));
            }
        };
        Ok(Context { core, stream: 0 })
    }

    /// A new context on the CPU core, whatever the environment asks for.
    pub fn cpu() -> Self {
        Context { core: Core::Cpu { instead_of_cuda: None }, stream: 0 }
    }

    /// The core's name for the log, with what it uses of the machine, and why it is not the CUDA core.
    pub fn core_name(&self) -> String {
        match &self.core {
            Core::Cpu { instead_of_cuda } => {
                let machine = backend::Machine::host();
                let cpu = format!("cpu ({}, threads: {})", machine.isa.name(), machine.threads);
                match instead_of_cuda {
                    Some(reason) => format!("{cpu}; not cuda: {reason}"),
                    None => cpu,
                }
            }
            Core::Cuda(cuda) => format!("cuda ({})", cuda.device_name()),
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

    /// The CUDA core, unless this is the CPU core.
    pub(super) fn cuda(&self) -> Option<&Cuda> {
        match &self.core {
            Core::Cpu { .. } => None,
            Core::Cuda(cuda) => Some(cuda),
        }
    }

    /// Runs a plan: `dst = alpha * transform(src) + beta * dst`, as if all of the source were read first. The CUDA
    /// core queues it on the stream and returns.
    ///
    /// # Errors
    /// On the CPU core: host allocation if source and destination overlap in a way that needs a copy of the source
    /// and there is no memory for it (nothing is written then); execution if a worker died. On the CUDA core: not
    /// supported for such an overlap; driver errors; bad parameter if `CUDNN_SHIM_CHECK` finds memory that does
    /// not serve.
    ///
    /// # Safety
    /// Every byte of the plan's spans around `buffers.src` is readable, and every destination element writable,
    /// and readable if beta is not 0, by the core's device. Both pointers are aligned to their scalar type. Nobody
    /// else writes either until the work is done. The stream is alive.
    pub unsafe fn transform(&self, plan: &TransformPlan, buffers: Buffers) -> Result<()> {
        match &self.core {
            // SAFETY: handed on.
            Core::Cpu { .. } => unsafe { transform_on_cpu(plan, buffers) },
            Core::Cuda(cuda) => {
                if needs_copy_of_source(plan, buffers)? {
                    return Err(staging::refusal(buffers.names.src, buffers.names.dst));
                }
                let at = Pointers { dst: buffers.dst.addr() as u64, src: buffers.src.addr() as u64 };
                // SAFETY: handed on; the overlap was judged just above.
                unsafe { cuda.transform(plan, at, buffers.names, self.stream) }
            }
        }
    }
}

/// # Safety
/// As [`Context::transform`].
unsafe fn transform_on_cpu(plan: &TransformPlan, mut buffers: Buffers) -> Result<()> {
    // Lives until the plan has run.
    let staged;
    if needs_copy_of_source(plan, buffers)? {
        // SAFETY: the span is readable by the caller's promise.
        staged = unsafe { Staged::copy(buffers.src, plan.byte_spans()[0]) }?;
        buffers.src = staged.base();
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

/// Whether source and destination share memory in such a way that writes reach elements that are still to be read.
///
/// # Errors
/// As [`staging::addresses`].
fn needs_copy_of_source(plan: &TransformPlan, buffers: Buffers) -> Result<bool> {
    let [src, dst] = plan.byte_spans();
    let in_place = buffers.src.addr() == buffers.dst.addr() && plan.works_in_place();
    Ok(staging::overlap((buffers.src, src), (buffers.dst, dst))? && !in_place)
}
