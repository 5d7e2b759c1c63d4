//! The CUDA core: kernels shipped as PTX text, loaded through the driver and queued on the caller's stream.
//!
//! ```text
//!  driver.rs   the driver's entry points, found at run time     module.rs     the kernels; how to add a family
//!  plan.rs     which kernels run a step, with what grid         residency.rs  CUDNN_SHIM_CHECK
//!  params.rs   how parameters get to a kernel                   bytes.rs      nests in bytes
//!  table.rs    tables of entry points                           measure.rs    how long a plan takes
//!  linear.rs tiled.rs general.rs pointwise.rs fill.rs reduce.rs random.rs normalise.rs contract.rs    the launches
//! ```
//! A call pushes its context, queues kernels and pops; it allocates no device memory and waits for nothing, so it
//! can be captured into a graph. The first launch of a kernel in a context loads it, which takes time and may wait.

mod bytes;
mod contract;
mod driver;
mod fill;
pub mod formula;
mod general;
mod linear;
mod measure;
pub mod module;
mod normalise;
pub mod params;
pub mod plan;
mod pointwise;
mod random;
mod reduce;
mod residency;
mod rows;
mod sample;
mod table;
mod tiled;
mod window;

use std::sync::{Mutex, PoisonError};

pub use driver::{Driver, Unavailable, symbols};

use crate::backend::Address;
use crate::error::{Error, Result};
use crate::ops::Plan;
use driver::{DriverContext, LaunchShape};

/// Where the work of one handle goes.
#[derive(Debug)]
pub struct Cuda {
    driver: &'static Driver,
    /// Set by the first of: creation, if a context is current then; the first call that works.
    binding: Mutex<Option<Binding>>,
}

/// The context that a handle works in for its life.
#[derive(Clone, Copy, Debug)]
struct Binding {
    context: DriverContext,
    device: i32,
    /// What the choice of kernels depends on.
    kind: plan::Device,
    /// The id of a primary context that has to be given back.
    retained: Option<u64>,
}

impl Cuda {
    /// A core on the device that is current in this thread. Takes no device memory.
    ///
    /// A program that has not touched its device yet has no current context, and creating one here would take its
    /// memory; then the first call that works decides.
    ///
    /// # Errors
    /// Driver errors.
    pub fn create(driver: &'static Driver) -> Result<Cuda> {
        let binding = current(driver)?;
        Ok(Cuda { driver, binding: Mutex::new(binding) })
    }

    /// Name and number of the device, for the log.
    pub fn device_name(&self) -> String {
        let binding = *self.binding.lock().unwrap_or_else(PoisonError::into_inner);
        match binding {
            None => "the device current at the first call".to_owned(),
            Some(Binding { device, .. }) => match self.driver.device_name(device) {
                Ok(name) => format!("device {device}: {name}"),
                Err(_) => format!("device {device}"),
            },
        }
    }

    /// Number of the device, once one is bound.
    pub fn device(&self) -> Option<i32> {
        self.binding.lock().unwrap_or_else(PoisonError::into_inner).map(|binding| binding.device)
    }

    /// The context of this handle: what was current at creation, else what is current now, else the primary
    /// context of device 0.
    fn bind(&self) -> Result<Binding> {
        let mut binding = self.binding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(binding) = *binding {
            return Ok(binding);
        }
        let bound = match current(self.driver)? {
            Some(bound) => bound,
            None => {
                let device = self.driver.device(0)?;
                let context = self.driver.retain_primary(device)?;
                let retained = Some(self.driver.context_id(context)?);
                Binding { context, device, kind: kind(self.driver, device)?, retained }
            }
        };
        Ok(*binding.insert(bound))
    }

    /// Queues a plan on `stream` (0: the legacy default stream), on operands at these addresses.
    ///
    /// # Errors
    /// Driver errors, among them those that earlier work left in the context; with `CUDNN_SHIM_CHECK=1` bad
    /// parameter for memory that does not serve; not supported for more elements than a grid holds.
    ///
    /// # Safety
    /// `stream` is alive. Every byte of the spans of the plan's operands is memory that the device may read or write,
    /// until the work is done; what is read does not overlap what is written unless the plan works in place.
    pub unsafe fn run(&self, plan: &dyn Plan, at: &[Address], stream: usize) -> Result<()> {
        let binding = self.bind()?;
        // SAFETY: handed on.
        self.driver.within(binding.context, || unsafe { self.queue(plan, at, stream, binding) })
    }

    /// As [`Cuda::run`], in the context of this handle, which is current.
    ///
    /// # Errors
    /// As [`Cuda::run`].
    ///
    /// # Safety
    /// As for [`Cuda::run`].
    unsafe fn queue(&self, plan: &dyn Plan, at: &[Address], stream: usize, binding: Binding) -> Result<()> {
        let (driver, Binding { context, device, kind, .. }) = (self.driver, binding);
        if residency::is_asked_for() {
            for (operand, at) in plan.operands().iter().zip(at).filter(|(operand, _)| operand.is_touched()) {
                residency::check(driver, device, operand.name, at.device(), operand.span)?;
            }
        }
        let id = driver.context_id(context)?;
        plan::launches(plan, at, kind, &mut |launch| {
            let function = module::function(driver, id, launch)?;
            let shape = LaunchShape { grid: launch.grid, block: launch.block, shared: launch.shared };
            // SAFETY: the kernel was looked up in this context, the caller vouches for the stream and the
            // memory, and the parameters are those that the plan made for this kernel.
            unsafe { driver.launch(function, shape, stream, launch.params.as_ptr()) }
        })
    }

    /// The milliseconds that a plan takes on `stream`, on operands at these addresses; where there is none, and where the
    /// plan writes, on zeros that are allocated for the time of this call. Waits for the stream.
    ///
    /// # Errors
    /// Driver errors, among them that a device is out of memory and that the stream is captured; as [`Cuda::run`].
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
            // SAFETY: what is written is our own, and the caller vouches for the rest.
            clock.best(&mut || unsafe { self.queue(plan, &places, stream, binding) })
        })
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if let Some(Binding { context, device, retained: Some(id), .. }) =
            *self.binding.get_mut().unwrap_or_else(PoisonError::into_inner)
        {
            // After a reset the primary context is another one, to whose holders this handle may not belong: giving it
            // back might take it from the program.
            if self.driver.context_id(context) == Ok(id) {
                self.driver.release_primary(device);
            }
        }
    }
}

/// What the choice of kernels for a device depends on.
fn kind(driver: &Driver, device: i32) -> Result<plan::Device> {
    Ok(plan::Device { capability: driver.capability(device)? })
}

/// The driver's codes for a primary context whose device was reset and has not been used since: invalid, destroyed.
const GONE: [i32; 2] = [201, 709];

/// The context that is current in this thread, as a binding. After a device was reset its context stays current, but is
/// none until the program, or its run-time library, uses the device again.
fn current(driver: &Driver) -> Result<Option<Binding>> {
    let Some(context) = driver.current_context()? else { return Ok(None) };
    match driver.current_device() {
        Ok(device) => Ok(Some(Binding { context, device, kind: kind(driver, device)?, retained: None })),
        Err(Error::Driver { code, .. }) if GONE.contains(&code) => Ok(None),
        Err(error) => Err(error),
    }
}
