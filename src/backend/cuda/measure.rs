//! How long work takes on a stream: events around it, and zeros to work on. Only the searches for
//! an algorithm come here; it is the one place of the CUDA core that allocates device memory and
//! waits.

use std::ffi::{c_int, c_uchar, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

use super::driver::Driver;
use super::table::entry_points;
use crate::backend::Address;
use crate::error::{Error, Result};
use crate::ops::ByteSpan;

entry_points! {
    /// What only measuring needs.
    Table
    mem_alloc = "cuMemAlloc_v2" (*mut u64, usize);
    mem_free = "cuMemFree_v2" (u64);
    memset = "cuMemsetD8Async" (u64, c_uchar, usize, *mut c_void);
    event_create = "cuEventCreate" (*mut *mut c_void, c_uint);
    event_destroy = "cuEventDestroy_v2" (*mut c_void);
    event_record = "cuEventRecord" (*mut c_void, *mut c_void);
    event_synchronize = "cuEventSynchronize" (*mut c_void);
    event_elapsed_time = "cuEventElapsedTime" (*mut f32, *mut c_void, *mut c_void);
}

/// Runs that are measured, after one that loads the kernels; the fastest counts.
const RUNS: usize = 3;

/// Milliseconds from which on one run is enough.
const SHORT: f32 = 5.0;

fn table(driver: &Driver) -> Result<&'static Table> {
    static TABLE: OnceLock<std::result::Result<Table, &'static str>> = OnceLock::new();
    let library = driver.library()?;
    // SAFETY: the driver's library, which nothing closes.
    let table = TABLE.get_or_init(|| unsafe { Table::load(library) });
    table.as_ref().map_err(|symbol| {
        Error::unsupported(format!("the CUDA driver has no {symbol}, which measuring needs"))
    })
}

/// Two events of a stream of the current context.
pub(super) struct Clock<'a> {
    driver: &'a Driver,
    table: &'static Table,
    stream: *mut c_void,
    events: [*mut c_void; 2],
}

impl<'a> Clock<'a> {
    /// Events of `stream` (0: the legacy default stream).
    ///
    /// # Errors
    /// Driver errors; not supported by a driver without events.
    pub(super) fn start(driver: &'a Driver, stream: usize) -> Result<Self> {
        let (table, stream) = (table(driver)?, ptr::without_provenance_mut(stream));
        let mut clock = Clock { driver, table, stream, events: [ptr::null_mut(); 2] };
        for event in &mut clock.events {
            // SAFETY: writes one handle; 0 are the flags of an event that takes the time.
            driver.check("cuEventCreate", unsafe { (table.event_create)(event, 0) })?;
        }
        Ok(clock)
    }

    /// Zeros for a span around an address, once the stream comes to them.
    ///
    /// # Errors
    /// Driver errors, among them want of memory.
    pub(super) fn zeros(&self, (low, high): ByteSpan) -> Result<Zeros> {
        let bytes = usize::try_from(high - low).unwrap_or(usize::MAX).max(1);
        let mut zeros = Zeros { table: self.table, start: 0, low };
        // SAFETY: writes one address.
        self.driver.check("cuMemAlloc", unsafe { (self.table.mem_alloc)(&mut zeros.start, bytes) })?;
        // SAFETY: as many bytes as were allocated.
        let code = unsafe { (self.table.memset)(zeros.start, 0, bytes, self.stream) };
        self.driver.check("cuMemsetD8Async", code)?;
        Ok(zeros)
    }

    /// The milliseconds of the fastest run of what `queue` puts on the stream.
    ///
    /// # Errors
    /// Driver errors, and those of `queue`.
    pub(super) fn best(&self, queue: &mut dyn FnMut() -> Result<()>) -> Result<f32> {
        queue()?;
        let (mut best, [from, to]) = (f32::INFINITY, self.events);
        for _ in 0..RUNS {
            self.record(from)?;
            queue()?;
            self.record(to)?;
            // SAFETY: an event that was recorded.
            self.driver.check("cuEventSynchronize", unsafe { (self.table.event_synchronize)(to) })?;
            let mut time = 0.0;
            // SAFETY: writes one number; both events have happened.
            let code = unsafe { (self.table.event_elapsed_time)(&mut time, from, to) };
            self.driver.check("cuEventElapsedTime", code)?;
            best = best.min(time);
            if best > SHORT {
                break;
            }
        }
        Ok(best)
    }

    fn record(&self, event: *mut c_void) -> Result<()> {
        // SAFETY: an event of the current context, and the caller's stream.
        self.driver.check("cuEventRecord", unsafe { (self.table.event_record)(event, self.stream) })
    }
}

impl Drop for Clock<'_> {
    fn drop(&mut self) {
        for event in self.events.into_iter().filter(|event| !event.is_null()) {
            // SAFETY: made by this clock, and given back once. A failure leaves it, which is
            // harmless.
            let _ = unsafe { (self.table.event_destroy)(event) };
        }
    }
}

/// Device memory of the current context, filled with zeros.
pub(super) struct Zeros {
    table: &'static Table,
    start: u64,
    low: i64,
}

impl Zeros {
    /// The address that the span was around.
    pub(super) fn base(&self) -> Address {
        let start: *mut u8 = ptr::without_provenance_mut(self.start as usize);
        start.wrapping_offset(-(self.low as isize)).into()
    }
}

impl Drop for Zeros {
    fn drop(&mut self) {
        if self.start != 0 {
            // SAFETY: allocated by the clock, and freed once; the driver waits for what works on
            // it. A failure leaves it.
            let _ = unsafe { (self.table.mem_free)(self.start) };
        }
    }
}
