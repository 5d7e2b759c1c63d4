//! The CUDA core: kernels shipped as PTX text, loaded through the driver and queued on the caller's stream.
//!
//! ```text
//!  driver.rs   the driver's entry points, found at run time     module.rs     the kernels in each context
//!  plan.rs     which kernels run a transform, with what grid    residency.rs  CUDNN_SHIM_CHECK
//!  params.rs   what kernels are given                           bytes.rs      nests in bytes
//!  linear.rs tiled.rs general.rs pointwise.rs fill.rs reduce.rs    the launches of each family of kernels
//! ```
//! A call pushes its context, queues kernels and pops; it allocates no device memory and waits for nothing, so it
//! can be captured into a graph.

mod bytes;
mod driver;
pub mod fill;
mod general;
mod linear;
mod module;
pub mod params;
pub mod plan;
pub mod pointwise;
pub mod reduce;
mod residency;
mod tiled;

use std::sync::{Mutex, PoisonError};

pub use driver::{Driver, Unavailable, symbols};

use crate::error::{Error, Result};
use crate::ops::{ByteSpan, FillPlan, OpPlan, ReducePlan, TransformPlan};
use driver::{DriverContext, LaunchShape};
use plan::{Emit, Pointers};
use reduce::Places;

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
    /// Whether this is a primary context that has to be given back.
    retained: bool,
}

/// One operand of a call for the checks of `CUDNN_SHIM_CHECK`.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Name of the source's C parameter.
    pub src: &'static str,
    /// Name of the destination's C parameter.
    pub dst: &'static str,
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
                Binding { context: self.driver.retain_primary(device)?, device, retained: true }
            }
        };
        Ok(*binding.insert(bound))
    }

    /// Queues a plan on `stream` (0: the legacy default stream).
    ///
    /// # Errors
    /// Driver errors, among them those that earlier work left in the context; with `CUDNN_SHIM_CHECK=1` bad
    /// parameter for memory that does not serve.
    ///
    /// # Safety
    /// `stream` is alive. Every byte of the plan's spans around `at` is memory that the device may read or write,
    /// until the work is done; the spans do not overlap unless the plan works in place.
    pub unsafe fn transform(
        &self,
        plan: &TransformPlan,
        at: Pointers,
        names: Names,
        stream: usize,
    ) -> Result<()> {
        let [src, dst] = plan.byte_spans();
        // SAFETY: handed on; the launches are those of the plan.
        unsafe {
            self.queue(&[(names.src, at.src, src), (names.dst, at.dst, dst)], stream, &|emit| {
                plan::launches(plan, at, emit)
            })
        }
    }

    /// Queues a plan that sets or scales a tensor.
    ///
    /// # Errors
    /// As [`Cuda::transform`].
    ///
    /// # Safety
    /// As [`Cuda::transform`], for the one tensor, whose C parameter is called `name`.
    pub unsafe fn fill(&self, plan: &FillPlan, y: u64, name: &'static str, stream: usize) -> Result<()> {
        // SAFETY: handed on; the launches are those of the plan.
        unsafe { self.queue(&[(name, y, plan.byte_span())], stream, &|emit| fill::launches(plan, y, emit)) }
    }

    /// Queues a plan of OpTensor; `at` are the addresses of C and of the operands in the order in which the plan reads
    /// them, each with the name of its C parameter.
    ///
    /// # Errors
    /// As [`Cuda::transform`].
    ///
    /// # Safety
    /// As [`Cuda::transform`], for C and the operands that are read.
    pub unsafe fn op(&self, plan: &OpPlan, at: [(&'static str, u64); 3], stream: usize) -> Result<()> {
        let spans = plan.byte_spans();
        let operand = |k: usize| (at[k].0, at[k].1, spans[k]);
        let operands = [operand(0), operand(1), operand(2)];
        let addresses = at.map(|(_, address)| address);
        // SAFETY: handed on; the launches are those of the plan.
        unsafe {
            self.queue(&operands[..=plan.function().arity()], stream, &|emit| {
                pointwise::launches(plan, addresses, emit)?;
                let tail = plan.tail();
                tail.map_or(Ok(()), |tail| fill::fill(&tail, addresses[0], plan.is_ordered(), emit))
            })
        }
    }

    /// Queues a plan of ReduceTensor.
    ///
    /// # Errors
    /// As [`Cuda::transform`].
    ///
    /// # Safety
    /// As [`Cuda::transform`], for A and C; the plan's [`indices_bytes`](ReducePlan::indices_bytes) and the workspace
    /// are memory of the device, too, apart from each other and from A and C.
    pub unsafe fn reduce(&self, plan: &ReducePlan, at: Places, stream: usize) -> Result<()> {
        let [c, a] = plan.byte_spans();
        let operands = [
            ("A", at.a, a),
            ("C", at.c, c),
            ("workspace", at.workspace.0, (0, at.workspace.1 as i64)),
            ("indices", at.indices, (0, plan.indices_bytes() as i64)),
        ];
        let used: Vec<_> = operands.into_iter().filter(|&(_, _, (low, high))| low != high).collect();
        // SAFETY: handed on; the launches are those of the plan.
        unsafe { self.queue(&used, stream, &|emit| reduce::launches(plan, at, emit)) }
    }

    /// Queues what `launches` emits, after the checks of `CUDNN_SHIM_CHECK` on these arguments: name, address, and
    /// bytes around it.
    ///
    /// # Safety
    /// `stream` is alive, and the launches touch memory of the device only, until the work is done.
    unsafe fn queue(
        &self,
        arguments: &[(&'static str, u64, ByteSpan)],
        stream: usize,
        launches: &dyn Fn(Emit<'_>) -> Result<()>,
    ) -> Result<()> {
        let Binding { context, device, .. } = self.bind()?;
        let driver = self.driver;
        driver.within(context, || {
            if residency::is_asked_for() {
                for &(name, address, span) in arguments {
                    residency::check(driver, device, name, address, span)?;
                }
            }
            let id = driver.context_id(context)?;
            launches(&mut |launch| {
                let function = module::function(driver, id, launch.kernel)?;
                let shape = LaunchShape { grid: launch.grid, block: launch.block, shared: launch.shared };
                // SAFETY: the kernel was looked up in this context, the caller vouches for the stream and the
                // memory, and the parameters are those that the plan made for this kernel.
                unsafe { driver.launch(function, shape, stream, launch.params.as_ptr()) }
            })
        })
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if let Some(Binding { device, retained: true, .. }) =
            *self.binding.get_mut().unwrap_or_else(PoisonError::into_inner)
        {
            self.driver.release_primary(device);
        }
    }
}

/// The driver's code for a context that is gone, or a primary one whose device was reset and has not been used since.
const CONTEXT_IS_DESTROYED: i32 = 709;

/// The context that is current in this thread, as a binding. After a device was reset its context stays current, but is
/// none until the program, or its run-time library, uses the device again.
fn current(driver: &Driver) -> Result<Option<Binding>> {
    let Some(context) = driver.current_context()? else { return Ok(None) };
    match driver.current_device() {
        Ok(device) => Ok(Some(Binding { context, device, retained: false })),
        Err(Error::Driver { code: CONTEXT_IS_DESTROYED, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
