//! Choosing a core when a handle is created, and running plans on it.

use std::sync::{Arc, OnceLock};

use super::host_runtime;
use super::staging::Copies;
use super::tasks;
use crate::backend::cuda::{Cuda, Driver, Unavailable};
use crate::backend::{self, Address, FilterCache, PanelCache};
use crate::error::{Error, Result};
use crate::ops::Plan;
use crate::ops::plan::MAX_OPERANDS;

/// The core that a handle is bound to for its life.
#[derive(Clone, Debug)]
pub(super) enum Core {
    /// Embedded, on host pointers; calls finish before they return.
    Cpu {
        /// Why it is not the CUDA core, where that was looked for.
        instead_of_cuda: Option<&'static Unavailable>,
    },
    /// The loops that define every step, on host pointers: what the other cores are compared with.
    Reference,
    /// On device pointers; calls queue their work on the handle's stream.
    Cuda(Arc<Cuda>),
}

/// What a `cudnnHandle_t` stands for. A clone uses the same core and the stream that was set when
/// it was made.
#[derive(Clone, Debug)]
pub struct Context {
    pub(super) core: Core,
    /// What stays packed of filters that the caller leaves as they are, if it says so.
    filters: Option<Arc<FilterCache>>,
    /// The caller's stream as an address; the CPU core keeps it for `cudnnGetStream`, and refuses
    /// one that captures.
    stream: usize,
}

impl Context {
    /// Binds a new context to the core that `CUDNN_SHIM_BACKEND` asks for: `cpu`, `cuda`,
    /// `reference`, or `auto` (also when unset), which takes the CUDA core if a driver answers and
    /// its device works, else the CPU core.
    ///
    /// # Errors
    /// Not initialized if the core asked for is not available, fails or is unknown.
    pub fn create() -> Result<Self> {
        let core = match Choice::read()? {
            Choice::Cpu { instead_of_cuda } => Core::Cpu { instead_of_cuda },
            Choice::Reference => Core::Reference,
            Choice::Cuda(driver) => Core::Cuda(Arc::new(Cuda::create(driver).map_err(no_handle)?)),
        };
        Ok(Context { core, filters: constant_filters(FilterCache::limit_of_environment()), stream: 0 })
    }

    /// Whether [`create`](Context::create) would choose the CUDA core.
    pub fn expects_cuda() -> bool {
        matches!(Choice::read(), Ok(Choice::Cuda(_)))
    }

    /// The context of calls that have no handle, on this stream: on the core that
    /// [`create`](Context::create) would choose, which the first such call of the process decides
    /// for all. The CUDA core works in the context of the stream.
    ///
    /// # Errors
    /// As [`create`](Context::create).
    pub fn of_stream(stream: usize) -> Result<Self> {
        static CHOICE: OnceLock<Choice> = OnceLock::new();
        let choice = match CHOICE.get() {
            Some(choice) => *choice,
            None => {
                let choice = Choice::read()?;
                // Of two threads that decide at once, both decide the same.
                let _ = CHOICE.set(choice);
                choice
            }
        };
        let core = match choice {
            Choice::Cpu { instead_of_cuda } => Core::Cpu { instead_of_cuda },
            Choice::Reference => Core::Reference,
            Choice::Cuda(driver) => Core::Cuda(Cuda::of_stream(driver, stream).map_err(no_handle)?),
        };
        Ok(Context { core, filters: None, stream })
    }

    /// A new context on the CPU core, whatever the environment asks for.
    pub fn cpu() -> Self {
        Context { core: Core::Cpu { instead_of_cuda: None }, filters: None, stream: 0 }
    }

    /// A new context on the loops that define every step, whatever the environment asks for.
    pub fn reference() -> Self {
        Context { core: Core::Reference, ..Context::cpu() }
    }

    /// The core's name for the log, with what it uses of the machine, and why it is not the CUDA
    /// core.
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
            Core::Reference => "reference (one thread)".to_owned(),
            Core::Cuda(cuda) => format!("cuda ({})", cuda.device_name()),
        }
    }

    /// Why this is the CPU core where a CUDA core could be expected: a driver that fails, is too
    /// old or incomplete.
    pub fn unexpected_fallback(&self) -> Option<&'static Unavailable> {
        match &self.core {
            Core::Cpu { instead_of_cuda: Some(reason) } if reason.is_unexpected() => Some(reason),
            _ => None,
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

    /// Lets filters of later calls stay packed in as many bytes, none in 0; those that are go.
    pub fn set_constant_filters(&mut self, bytes: usize) {
        self.filters = constant_filters(bytes);
    }

    /// Forgets the filters that are packed; those of later calls stay again.
    pub fn forget_filters(&mut self) {
        self.filters = self.filters.as_ref().and_then(|filters| constant_filters(filters.limit()));
    }

    /// Bytes of filters that stay packed.
    pub fn filter_bytes(&self) -> usize {
        self.filters.as_ref().map_or(0, |filters| filters.bytes())
    }

    /// The same without filters that stay: for operands in memory that goes.
    pub(super) fn without_filters(&self) -> Context {
        Context { filters: None, ..self.clone() }
    }

    /// Whether data pointers are the host's.
    pub fn is_cpu(&self) -> bool {
        self.cuda().is_none()
    }

    /// Whether a call computes before it returns, so that what its pointers lead to can be read
    /// now: not on the CUDA core, and not where the call is left to a graph.
    pub fn runs_at_once(&self) -> bool {
        self.is_cpu() && !host_runtime::captures(self.stream)
    }

    /// The CUDA core, unless this is the CPU core.
    pub(super) fn cuda(&self) -> Option<&Cuda> {
        match &self.core {
            Core::Cpu { .. } | Core::Reference => None,
            Core::Cuda(cuda) => Some(cuda),
        }
    }

    /// Runs a plan on operands at these addresses, one for each of [`Plan::operands`], as if
    /// everything were read before anything is written. The CUDA core queues it on the stream and
    /// returns; so does the CPU core where the stream is one of the CUDA runtime on host memory and
    /// captures: then the plan runs whenever the graph is launched.
    ///
    /// # Errors
    /// Bad parameter for an operand that does not fit the address space around its pointer, and for
    /// two that are both written and overlap. On the CPU core: host allocation if an operand that
    /// is read overlaps one that is written in a way that needs a copy, or a step needs scratch,
    /// and there is no memory for it (nothing is written then); execution if a worker died, or the
    /// stream's capture was spoiled. On the CUDA core: not supported for such an overlap; driver
    /// errors; bad parameter for memory that does not serve, if that is looked at: in the first
    /// calls of a handle, and with `CUDNN_SHIM_CHECK`.
    ///
    /// # Safety
    /// Every byte of the span of each operand is readable, and every element that is written
    /// writable, by the core's device; so is what the offsets of [ragged](crate::ops::Ragged)
    /// batches say, which no span tells. Every address is aligned to its operand's scalar type.
    /// Nobody else writes any of them, or reads what is written, until the work is done. The stream
    /// is alive.
    pub unsafe fn run(&self, plan: &dyn Plan, at: &[Address]) -> Result<()> {
        let operands = plan.operands();
        if at.len() != operands.len() || at.len() > MAX_OPERANDS {
            return Err(Error::Internal(
                format!("{} addresses for {} operands", at.len(), operands.len()).into(),
            ));
        }
        let is_recorded = self.is_cpu() && host_runtime::captures(self.stream);
        let copies = Copies::of(plan, at, self.cuda().is_some())?;
        if is_recorded {
            // SAFETY: every byte of the spans is readable or writable until the recorded work is
            // done.
            return unsafe { self.record(plan, at) };
        }
        // SAFETY: the spans of the operands are readable, and those that are written writable.
        let _held = unsafe { self.hold_one(plan, at, copies.bytes) }?;
        // The last one is the place of those that are absent.
        let mut places = [Address::NULL; MAX_OPERANDS + 1];
        places[..at.len()].copy_from_slice(at);
        if copies.bytes == 0 {
            // SAFETY: as the caller says; no operand that is read overlaps one that is written.
            return unsafe { self.run_apart(plan, &places, at) };
        }
        backend::lend(copies.bytes, |memory| {
            // SAFETY: every byte of the spans is readable, and the memory is scratch; copies are
            // alive until the plan has run.
            unsafe {
                copies.make(plan, &mut places[..at.len()], memory);
                self.run_apart(plan, &places, at)
            }
        })
    }

    /// Runs a plan at places that do not overlap unless it works in place: the caller's addresses,
    /// or those of copies.
    ///
    /// # Errors
    /// As for [`Context::run`].
    ///
    /// # Safety
    /// As for [`Context::run`].
    unsafe fn run_apart(
        &self, plan: &dyn Plan, places: &[Address; MAX_OPERANDS + 1], at: &[Address],
    ) -> Result<()> {
        match &self.core {
            Core::Cpu { .. } => {
                if let Some(own) = plan.tasks() {
                    // SAFETY: the spans of the operands are readable, and those that are written
                    // writable.
                    return unsafe { tasks::run(plan, own, &places[..at.len()]) };
                }
                let ordered = plan.is_ordered();
                // A copy is not what the caller leaves as it is.
                let own = |&(_, operand): &(_, usize)| places[operand] == at[operand];
                let filters = self.filters.clone().zip(plan.filters()).filter(own);
                let panels = match filters {
                    Some((filters, operand)) => PanelCache::beside(filters, places[operand].pointer()),
                    None => PanelCache::new(),
                };
                let mut steps = 0;
                plan.steps(&mut |step, slots| {
                    steps += 1;
                    debug_assert!(
                        steps == 1 || !plan.is_one_step(),
                        "a plan of one step has another: {step}"
                    );
                    let mut operands = [Address::NULL; MAX_OPERANDS];
                    operands.iter_mut().zip(slots).for_each(|(operand, &slot)| *operand = places[slot]);
                    let (operands, machine) = (&operands[..slots.len()], backend::Machine::host());
                    // SAFETY: the step's offsets lie inside the plan's spans or are those of ragged
                    // batches, and operands that are read do not overlap those that are written
                    // unless the plan works in place. No step of a plan writes what another keeps.
                    unsafe { backend::run_keeping(step, operands, ordered, machine, Some(&panels)) }
                })
            }
            Core::Reference => plan.steps(&mut |step, slots| {
                let operands: Vec<Address> = slots.iter().map(|&slot| places[slot]).collect();
                // SAFETY: as on the CPU core.
                unsafe { backend::reference::run(step, &operands) }
            }),
            // SAFETY: the device may use the spans, the stream is alive, and overlaps were judged
            // just above.
            Core::Cuda(cuda) => unsafe { cuda.run(plan, &places[..at.len()], self.stream) },
        }
    }
}

/// Room for filters that stay packed; `None` of no bytes.
fn constant_filters(bytes: usize) -> Option<Arc<FilterCache>> {
    (bytes > 0).then(|| Arc::new(FilterCache::new(bytes)))
}

/// Whatever the driver says, what it means for the caller is that nothing can be computed.
fn no_handle(error: Error) -> Error {
    Error::NotInitialized(error.to_string().into())
}

/// A core that the environment asks for, and that is there.
#[derive(Clone, Copy)]
enum Choice {
    /// As [`Core::Cpu`].
    Cpu { instead_of_cuda: Option<&'static Unavailable> },
    /// As [`Core::Reference`].
    Reference,
    /// With the driver of this process.
    Cuda(&'static Driver),
}

impl Choice {
    /// # Errors
    /// As [`Context::create`].
    fn read() -> Result<Self> {
        let choice = std::env::var_os("CUDNN_SHIM_BACKEND").unwrap_or_default();
        Ok(match choice.to_str() {
            Some("cpu") => Choice::Cpu { instead_of_cuda: None },
            Some("reference") => Choice::Reference,
            Some("" | "auto") => match Cuda::driver() {
                Ok(driver) => Choice::Cuda(driver),
                // As in a child that was forked once the driver had started.
                Err(Unavailable::Forked) => {
                    return Err(Error::NotInitialized(Unavailable::Forked.to_string().into()));
                }
                Err(reason) => Choice::Cpu { instead_of_cuda: Some(reason) },
            },
            Some("cuda") => match Cuda::driver() {
                Ok(driver) => Choice::Cuda(driver),
                Err(reason) => {
                    return Err(Error::NotInitialized(
                        format!("CUDNN_SHIM_BACKEND=cuda, but there is no CUDA core: {reason}").into(),
                    ));
                }
            },
            _ => {
                return Err(Error::NotInitialized(
                    format!("CUDNN_SHIM_BACKEND={choice:?}: the choices are auto, cpu, cuda and reference")
                        .into(),
                ));
            }
        })
    }
}
