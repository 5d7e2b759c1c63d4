//! The core of a call that has no handle: one for each context, which the call's stream names.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::Cuda;
use super::driver::{Driver, DriverContext};
use super::table::entry_points;
use crate::error::Result;

entry_points! {
    /// What only calls on a stream need.
    Table
    stream_get_ctx = "cuStreamGetCtx" (*mut c_void, *mut *mut c_void);
}

/// The default streams, which belong to the context that is current: legacy, its other name, and
/// that of each thread.
const DEFAULT: [usize; 3] = [0, 1, 2];

/// The cores by the ids of their contexts, none for calls that find no context. An id never comes
/// back.
static CORES: Mutex<Vec<(Option<u64>, Arc<Cuda>)>> = Mutex::new(Vec::new());

/// The core that works in the context of `stream`, for a default one in the context that is
/// current: the same one at every call. If there is no context yet, the core binds as that of a
/// handle does, at its first call.
///
/// # Errors
/// Driver errors, such as for a stream that was destroyed; execution in a forked child.
pub(super) fn core(driver: &'static Driver, stream: usize) -> Result<Arc<Cuda>> {
    // Before the lock, which a thread of the parent may have held.
    driver.check_process()?;
    let context = match DEFAULT.contains(&stream) {
        true => driver.current_context()?,
        false => context_of(driver, stream)?,
    };
    let id = context.map(|context| driver.context_id(context)).transpose()?;
    let mut cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, core)) = cores.iter().find(|(known, _)| *known == id) {
        return Ok(core.clone());
    }
    let create = || Cuda::create(driver).map(Arc::new);
    let core = match context {
        Some(context) => driver.within(context, create)?,
        None => create()?,
    };
    cores.push((id, core.clone()));
    Ok(core)
}

/// The context that a stream was made in; the current one if the driver does not tell.
fn context_of(driver: &Driver, stream: usize) -> Result<Option<DriverContext>> {
    static TABLE: OnceLock<Option<Table>> = OnceLock::new();
    if TABLE.get().is_none() {
        let library = driver.library()?;
        // SAFETY: the driver's library, which nothing closes.
        let _ = TABLE.set(unsafe { Table::load(library) }.ok());
    }
    let Some(Some(table)) = TABLE.get() else { return driver.current_context() };
    let mut context = std::ptr::null_mut();
    let stream = std::ptr::without_provenance_mut(stream);
    // SAFETY: writes one handle; the driver checks the stream.
    let code: c_int = unsafe { (table.stream_get_ctx)(stream, &mut context) };
    driver.check("cuStreamGetCtx", code)?;
    Ok((!context.is_null()).then_some(DriverContext(context.cast())))
}
