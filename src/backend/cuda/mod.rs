//! The CUDA core: kernels shipped as PTX text and as machine code, loaded through the driver and
//! queued on the caller's stream.
//!
//! ```text
//!  driver.rs   the driver's entry points, found at run time     module.rs       the kernels; how to add a family
//!  plan.rs     which launches run a plan                        residency.rs    what memory a call is given
//!  selection.rs  the form of the tables of kernels, which are beside the launches of each kind
//!  launch.rs   a launch, and where launches go                  bytes.rs        nests in bytes
//!  params.rs   how parameters get to a kernel                   nest.rs         which kernel moves a nest
//!  table.rs    tables of entry points                           measure.rs      how long a plan takes
//!  binding.rs  which context a handle works in                  unavailable.rs  why there is no CUDA core
//!  trial.rs    whether the device works at all          streams.rs      the core of a call without a handle
//!  kind.rs     what the core knows of a kind of steps   machine.rs      which machine code a device runs
//!  transform.rs linear.rs tiled.rs general.rs map.rs fill.rs reduce.rs random.rs normalise.rs row_norm.rs contract.rs attend.rs attend_backward.rs    the launches
//!  held_rows.rs  how rows that registers hold are launched
//! ```
//! A call makes its context current if it is not, queues kernels and puts back what was current; it
//! allocates no device memory and waits for nothing, so it can be captured into a graph. The first
//! launch of a kernel in a context loads it, which takes time and may wait.

mod aggregate;
mod attend;
mod attend_backward;
mod batch_norm;
mod binding;
mod bytes;
mod causal;
mod contract;
pub mod contract_table;
mod contract_vectors;
mod ctc;
mod driver;
mod fill;
mod general;
mod held_rows;
mod kind;
pub mod launch;
mod linear;
mod machine;
mod map;
mod measure;
pub mod module;
mod nest;
mod normalise;
mod normalise_params;
#[path = "../../../build/numbers.rs"]
mod numbers;
#[path = "../../../build/cubins.rs"]
mod pack;
pub mod params;
pub mod plan;
mod plane;
mod pool;
mod ragged;
mod random;
mod reduce;
mod residency;
mod response;
mod row_norm;
mod rows;
mod sample;
pub mod selection;
mod softmax;
mod streams;
mod table;
mod tiled;
mod transform;
mod trial;
mod unavailable;
mod window;
mod words;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use contract::copies_vectors;
pub use driver::{Driver, symbols};
pub use unavailable::Unavailable;

use crate::backend::Address;
use crate::error::Result;
use crate::ops::Plan;
use binding::Binding;
use driver::{DriverFunction, LaunchShape};
use launch::{Device, Launch};
use module::Loaded;

/// The first successful calls of a handle, this many, validate their pointers even without
/// `CUDNN_SHIM_CHECK`: host/device mix-ups show early, and a kernel that ran on host memory would
/// take the context with it.
const FIRST_CALLS: u32 = 8;

/// Launches of a plan whose kernels are there before the first of them is queued. Few plans have
/// more, and hold this for each run of as many.
const HELD: usize = 64;

/// Where the work of one handle goes.
#[derive(Debug)]
pub struct Cuda {
    driver: &'static Driver,
    /// Set by the first of: creation, if a context is current then; the first call that works.
    binding: Mutex<Option<Binding>>,
    /// The kernels of the context that worked last. After a reset of the device that is another
    /// one.
    loaded: Mutex<Option<Loaded>>,
    /// The context that the trial of the device made, until this handle is bound.
    made: Mutex<Option<Binding>>,
    /// Counts calls whose memory was looked at, up to [`FIRST_CALLS`] and one for each further
    /// thread.
    calls: AtomicU32,
}

impl Cuda {
    /// The driver of this process, if its device works, which the first call of a process tries.
    ///
    /// # Errors
    /// Why there is none.
    pub fn driver() -> Result<&'static Driver, &'static Unavailable> {
        trial::driver()
    }

    /// A core on the device that is current in this thread. Takes no device memory, but that the
    /// first handle of a process holds the context of the trial, if no other was current.
    ///
    /// A program that has not touched its device yet has no current context, and which device it
    /// will use is not known; then the first call that works decides.
    ///
    /// # Errors
    /// Driver errors; execution in a forked child.
    pub fn create(driver: &'static Driver) -> Result<Cuda> {
        driver.check_process()?;
        let binding = Binding::current(driver)?;
        Ok(Cuda {
            driver,
            binding: Mutex::new(binding),
            loaded: Mutex::new(None),
            made: Mutex::new(trial::take_made()),
            calls: AtomicU32::new(0),
        })
    }

    /// The core of calls on `stream` that have no handle: that of the context which the stream
    /// belongs to.
    ///
    /// # Errors
    /// Driver errors; execution in a forked child.
    pub fn of_stream(driver: &'static Driver, stream: usize) -> Result<Arc<Cuda>> {
        streams::core(driver, stream)
    }

    /// Name and number of the device, for the log.
    pub fn device_name(&self) -> String {
        match self.device() {
            None => "the device current at the first call".to_owned(),
            Some(device) => match self.driver.device_name(device) {
                Ok(name) => format!("device {device}: {name}"),
                Err(_) => format!("device {device}"),
            },
        }
    }

    /// Number of the device, once one is bound; none in a forked child.
    pub fn device(&self) -> Option<i32> {
        self.driver.check_process().ok()?;
        self.binding.lock().unwrap_or_else(PoisonError::into_inner).map(|binding| binding.device)
    }

    /// What the choice of kernels depends on: of the device of this handle, or as long as it is
    /// bound to none, of the one that is current.
    pub fn kind(&self) -> Device {
        let none = Device { capability: 0 };
        if self.driver.check_process().is_err() {
            return none;
        }
        let binding = *self.binding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(binding) = binding {
            return binding.kind;
        }
        let device = match self.driver.current_context() {
            Ok(Some(_)) => self.driver.current_device(),
            _ => self.driver.device(0),
        };
        let capability = device.and_then(|device| self.driver.capability(device));
        capability.map_or(none, |capability| Device { capability })
    }

    /// The context of this handle: what was current at creation, else what is current now, else the
    /// primary context of device 0.
    fn bind(&self) -> Result<Binding> {
        // Before the lock, which a thread of the parent may have held.
        self.driver.check_process()?;
        let mut binding = self.binding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(binding) = *binding {
            return Ok(binding);
        }
        let bound = match Binding::current(self.driver)? {
            Some(bound) => bound,
            None => Binding::primary(self.driver, self.driver.device(0)?)?,
        };
        // Not before: the context that is bound may be this one.
        if let Some(made) = self.made.lock().unwrap_or_else(PoisonError::into_inner).take() {
            made.release(self.driver);
        }
        Ok(*binding.insert(bound))
    }

    /// The kernels of the context of this handle.
    fn loaded(&self, binding: Binding) -> Result<Loaded> {
        let id = self.driver.context_id(binding.context)?;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        match &*loaded {
            Some(loaded) if loaded.context() == id => Ok(loaded.clone()),
            _ => Ok(loaded.insert(Loaded::of(id, binding.kind)).clone()),
        }
    }

    /// Looks at the memory of operands at these addresses, if `looks` says so or every call is
    /// asked to.
    ///
    /// # Errors
    /// Bad parameter for memory that the device does not reach; driver errors.
    fn check(&self, plan: &dyn Plan, at: &[Address], binding: Binding, looks: bool) -> Result<()> {
        let to_the_end = residency::is_asked_for();
        if !looks && !to_the_end {
            return Ok(());
        }
        for (operand, at) in plan.operands().iter().zip(at).filter(|(operand, _)| operand.is_touched()) {
            residency::check(self.driver, binding.reader(), operand, at.device(), to_the_end)?;
        }
        Ok(())
    }

    /// Queues a plan on `stream` (0: the legacy default stream), on operands at these addresses.
    ///
    /// # Errors
    /// Bad parameter for memory that the device does not reach, in the first calls of a handle and
    /// with `CUDNN_SHIM_CHECK=1`; not supported for more elements than a grid holds; execution in a
    /// forked child; driver errors, among them those that earlier work left in the context.
    ///
    /// # Safety
    /// `stream` is alive. Every byte of the spans of the plan's operands is memory that the device
    /// may read or write, until the work is done; what is read does not overlap what is written
    /// unless the plan works in place.
    pub unsafe fn run(&self, plan: &dyn Plan, at: &[Address], stream: usize) -> Result<()> {
        let binding = self.bind()?;
        self.driver.within(binding.context, || {
            let is_young = self.calls.load(Ordering::Relaxed) < FIRST_CALLS;
            self.check(plan, at, binding, is_young)?;
            // Refused calls do not count: who passes over eight refusals is refused the ninth time,
            // too.
            if is_young {
                self.calls.fetch_add(1, Ordering::Relaxed);
            }
            // SAFETY: the stream is alive, and the spans of the operands are memory that the device
            // may read or write.
            unsafe { self.queue(plan, at, stream, binding) }
        })
    }

    /// The names of the kernels that [`Cuda::run`] queues; none as long as the handle is bound to
    /// no device.
    pub fn kernels(&self, plan: &dyn Plan, at: &[Address]) -> Vec<&'static str> {
        let mut kernels = Vec::new();
        if let Some(binding) = *self.binding.lock().unwrap_or_else(PoisonError::into_inner) {
            // What is refused is refused again as it is run.
            let _ = plan::launches(plan, at, binding.kind, &mut |launch| {
                kernels.push(launch.kernel);
                Ok(())
            });
        }
        kernels
    }

    /// As [`Cuda::run`], in the context of this handle, which is current, on memory that was looked
    /// at.
    ///
    /// # Errors
    /// As [`Cuda::run`].
    ///
    /// # Safety
    /// As for [`Cuda::run`].
    unsafe fn queue(&self, plan: &dyn Plan, at: &[Address], stream: usize, binding: Binding) -> Result<()> {
        let driver = self.driver;
        let loaded = self.loaded(binding)?;
        let start = |(function, launch): &(DriverFunction, Launch)| {
            let shape = LaunchShape { grid: launch.grid, block: launch.block, shared: launch.shared };
            // SAFETY: the kernel was looked up in this context, the caller vouches for the stream
            // and the memory, and the parameters are those that the plan made for this kernel.
            unsafe { driver.launch(*function, shape, stream, launch.params.as_ptr()) }
        };
        let mut held: Vec<(DriverFunction, Launch)> = Vec::new();
        plan::launches(plan, at, binding.kind, &mut |launch| {
            held.push((loaded.function(driver, launch)?, *launch));
            if held.len() < HELD {
                return Ok(());
            }
            held.iter().try_for_each(start)?;
            held.clear();
            Ok(())
        })?;
        module::tidy();
        held.iter().try_for_each(start)
    }

    /// The milliseconds that a plan takes on `stream`, on operands at these addresses; where there
    /// is none, and where the plan writes, on zeros that are allocated for the time of this call.
    /// Waits for the stream.
    ///
    /// # Errors
    /// Driver errors, among them that a device is out of memory and that the stream is captured; as
    /// [`Cuda::run`].
    ///
    /// # Safety
    /// As for [`Cuda::run`], but nothing is written.
    pub unsafe fn measure(&self, plan: &dyn Plan, at: &[Option<Address>], stream: usize) -> Result<f32> {
        let binding = self.bind()?;
        self.driver.within(binding.context, || {
            let clock = measure::Clock::start(self.driver, stream)?;
            let mut own = Vec::new();
            let mut places = Vec::with_capacity(at.len());
            for (operand, given) in plan.operands().iter().zip(at) {
                match given {
                    Some(address) if !operand.role.is_written() => places.push(*address),
                    _ if !operand.is_touched() => places.push(Address::NULL),
                    _ => {
                        let zeros = clock.zeros(operand.span)?;
                        places.push(zeros.base());
                        own.push(zeros);
                    }
                }
            }
            // Once for all runs, in every search: it takes longer than to ask.
            self.check(plan, &places, binding, true)?;
            // SAFETY: what is written is our own, and the device may read the spans of the rest.
            clock.best(&mut || unsafe { self.queue(plan, &places, stream, binding) })
        })
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if self.driver.check_process().is_ok() {
            let held = [&mut self.binding, &mut self.made];
            for binding in
                held.into_iter().filter_map(|held| *held.get_mut().unwrap_or_else(PoisonError::into_inner))
            {
                binding.release(self.driver);
            }
        }
    }
}
