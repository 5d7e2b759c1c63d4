//! Whether the device does what the driver says that it does: one allocation, one copy there and
//! back, and one kernel.
//!
//! A stub for linking, an emulator, or a container that has the driver but not the device may start
//! and count devices, and fail at the first call of a program. Once per process, the first handle
//! finds that out.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::binding::Binding;
use super::driver::{Driver, LaunchShape};
use super::launch::Pointers;
use super::linear;
use super::module::Loaded;
use super::table::entry_points;
use super::unavailable::Unavailable;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{Axis, LoopNest};
use crate::ops::{Scaling, Transform};

entry_points! {
    /// What only the trial needs.
    Table
    mem_alloc = "cuMemAlloc_v2" (*mut u64, usize);
    mem_free = "cuMemFree_v2" (u64);
    copy_there = "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, *mut c_void);
    copy_back = "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, *mut c_void);
    event_create = "cuEventCreate" (*mut *mut c_void, c_uint);
    event_destroy = "cuEventDestroy_v2" (*mut c_void);
    event_record = "cuEventRecord" (*mut c_void, *mut c_void);
    event_synchronize = "cuEventSynchronize" (*mut c_void);
    stream_create = "cuStreamCreate" (*mut *mut c_void, c_uint);
    stream_destroy = "cuStreamDestroy_v2" (*mut c_void);
}

/// Bytes that the kernel copies.
const BYTES: usize = 64;

/// `CU_STREAM_NON_BLOCKING`: neither waits for the legacy default stream nor holds it up, which a
/// capture would not survive.
const NON_BLOCKING: c_uint = 1;

/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: c_uint = 2;

/// Codes with which a device answers that works, or did: the program has taken all of its memory;
/// or what the program ran before has failed, which every later call in its context returns (CUDA's
/// "sticky" errors).
const OF_THE_PROGRAM: [c_int; 11] = [2, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719];

/// The verdict of this process, once there is one.
static VERDICT: OnceLock<Result<(), Unavailable>> = OnceLock::new();

/// Held during the trial, so that a second thread waits for it instead of starting another.
static TRYING: Mutex<()> = Mutex::new(());

/// The context that the trial made, for the handle that caused it.
static MADE: Mutex<Option<Binding>> = Mutex::new(None);

/// The driver of this process, if its device works: the first call tries that, in the context that
/// is current, else in the primary one of device 0; every later call repeats its verdict. Where the
/// program's own use of the device keeps the trial from starting, the driver is taken at its word,
/// and the next call tries again.
///
/// # Errors
/// Why there is none.
pub(super) fn driver() -> Result<&'static Driver, &'static Unavailable> {
    let driver = Driver::get()?;
    // Before the lock, which a thread of the parent may have held.
    if driver.check_process().is_err() {
        return Err(&Unavailable::Forked);
    }
    if VERDICT.get().is_none() {
        let _trying = TRYING.lock().unwrap_or_else(PoisonError::into_inner);
        if VERDICT.get().is_none() {
            match run(driver) {
                Ok(made) => {
                    *MADE.lock().unwrap_or_else(PoisonError::into_inner) = made;
                    let _ = VERDICT.set(Ok(()));
                }
                Err(Refusal::Busy) => return Ok(driver),
                Err(Refusal::Fails(reason)) => {
                    let _ = VERDICT.set(Err(reason));
                }
            }
        }
    }
    match VERDICT.get() {
        Some(Err(reason)) => Err(reason),
        _ => Ok(driver),
    }
}

/// The context that the trial made, held for the first caller that asks, so that a program which
/// uses the device right after its first handle does not wait for a second one.
pub(super) fn take_made() -> Option<Binding> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Why a trial has not succeeded.
enum Refusal {
    /// The program's own use of the device is in the way, which says nothing about the device.
    Busy,
    /// The device does not work.
    Fails(Unavailable),
}

/// The trial, and the context that it made, if none was current.
fn run(driver: &Driver) -> Result<Option<Binding>, Refusal> {
    let fails = |error| Refusal::Fails(Unavailable::Trial(error));
    let library = driver.library().map_err(fails)?;
    // SAFETY: the driver's library, which nothing closes.
    let table = unsafe { Table::load(library) }
        .map_err(|symbol| Refusal::Fails(Unavailable::MissingSymbol(symbol)))?;
    let current = Binding::current(driver).map_err(fails)?;
    let binding = match current {
        Some(binding) => binding,
        None => driver.device(0).and_then(|device| Binding::primary(driver, device)).map_err(fails)?,
    };
    let outcome = driver.within(binding.context, || {
        driver.outside_capture(|| {
            let mut bench = match Bench::new(driver, &table) {
                Err(Error::Driver { code, .. }) if current.is_some() && OF_THE_PROGRAM.contains(&code) => {
                    return Ok(Err(Refusal::Busy));
                }
                bench => bench?,
            };
            bench.copy(binding).map(Ok)
        })
    });
    match outcome {
        Ok(Ok(())) if current.is_none() => Ok(Some(binding)),
        outcome => {
            binding.release(driver);
            outcome.map_err(fails)?.map(|()| None)
        }
    }
}

/// What the trial works with, in the current context. All of it is given back.
struct Bench<'a> {
    driver: &'a Driver,
    table: &'a Table,
    event: *mut c_void,
    stream: *mut c_void,
    /// Twice [`BYTES`].
    memory: u64,
    /// What is in the memory at the end. Here, because it has to outlive the work on it whatever
    /// fails.
    read: [u8; 2 * BYTES],
}

impl<'a> Bench<'a> {
    fn new(driver: &'a Driver, table: &'a Table) -> Result<Self> {
        let (event, stream) = (ptr::null_mut(), ptr::null_mut());
        let mut bench = Bench { driver, table, event, stream, memory: 0, read: [0; 2 * BYTES] };
        // SAFETY: each writes one handle or address.
        unsafe {
            driver.check("cuEventCreate", (table.event_create)(&mut bench.event, NO_TIMING))?;
            driver.check("cuStreamCreate", (table.stream_create)(&mut bench.stream, NON_BLOCKING))?;
            driver.check("cuMemAlloc", (table.mem_alloc)(&mut bench.memory, 2 * BYTES))?;
        }
        Ok(bench)
    }

    /// Has a kernel copy one half of the memory to the other, which held the complement, and looks
    /// at both.
    ///
    /// # Errors
    /// Driver errors; execution if the bytes are wrong.
    fn copy(&mut self, binding: Binding) -> Result<()> {
        let (driver, table) = (self.driver, self.table);
        let sent: [u8; 2 * BYTES] = std::array::from_fn(|k| {
            let byte = (k % BYTES) as u8 ^ 0xA5;
            if k < BYTES { byte } else { !byte }
        });
        let axis = Axis { extent: BYTES as i64, strides: [1, 1] };
        let transform = Transform {
            nest: LoopNest::new(&[axis], [0, 0]),
            dst: Scalar::U8,
            src: Scalar::U8,
            scaling: Scaling::MOVE,
        };
        let at = Pointers { dst: self.memory + BYTES as u64, src: self.memory };
        let launch = linear::copy(&transform, at)?;
        let shape = LaunchShape { grid: launch.grid, block: launch.block, shared: launch.shared };
        let function =
            Loaded::of(driver.context_id(binding.context)?, binding.kind).function(driver, &launch)?;
        let (stream, len) = (self.stream, sent.len());
        // SAFETY: both arrays are as long as the memory. The driver has read the first one when it
        // returns, and the second one lives until the memory is given back, which waits for the
        // stream. The kernel belongs to this context, and stays inside the memory.
        unsafe {
            let code = (table.copy_there)(self.memory, sent.as_ptr().cast(), len, stream);
            driver.check("cuMemcpyHtoDAsync", code)?;
            driver.launch(function, shape, stream.addr(), launch.params.as_ptr())?;
            let code = (table.copy_back)(self.read.as_mut_ptr().cast(), self.memory, len, stream);
            driver.check("cuMemcpyDtoHAsync", code)?;
            driver.check("cuEventRecord", (table.event_record)(self.event, stream))?;
            driver.check("cuEventSynchronize", (table.event_synchronize)(self.event))?;
        }
        let (source, copied) = self.read.split_at(BYTES);
        let wrong = if source != &sent[..BYTES] {
            "bytes that are copied to it come back changed"
        } else if copied != source {
            "a kernel that copies bytes leaves others"
        } else {
            return Ok(());
        };
        Err(Error::Execution(wrong.into()))
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        let Bench { table, event, stream, memory, .. } = *self;
        // SAFETY: made by this trial, and given back once; the driver waits for what works on the
        // memory. A failure leaves it, which is harmless.
        unsafe {
            if memory != 0 {
                let _ = (table.mem_free)(memory);
            }
            if !stream.is_null() {
                let _ = (table.stream_destroy)(stream);
            }
            if !event.is_null() {
                let _ = (table.event_destroy)(event);
            }
        }
    }
}
