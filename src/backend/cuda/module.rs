//! The kernels in each context: loaded by the first call that needs them, once per context.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, PoisonError};

use super::driver::{Driver, DriverModule, Function};
use super::plan::PTX;
use crate::error::{Error, Result};

/// The module of one context and the kernels that were looked up in it.
struct Loaded {
    module: DriverModule,
    functions: HashMap<&'static str, Function>,
}

/// Every module of this process, by the id of its context. A context takes its module with it when it is destroyed,
/// and its id never comes back, so nothing is ever unloaded here: what stays is a few words per context.
static LOADED: Mutex<Option<HashMap<u64, Loaded>>> = Mutex::new(None);

/// The kernel called `name` in the current context, whose id is `context`. The first call of a context loads the
/// module into it; a failure is not remembered.
///
/// # Errors
/// Driver errors, with what its assembler says.
pub(super) fn function(driver: &Driver, context: u64, name: &'static str) -> Result<Function> {
    // One lock for all: calls that load are rare, and every other call holds it for two look-ups.
    let mut modules = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let modules = modules.get_or_insert_default();
    let loaded = match modules.get_mut(&context) {
        Some(loaded) => loaded,
        None => {
            let text = CStr::from_bytes_with_nul(PTX.as_bytes())
                .map_err(|_| Error::Internal("the embedded kernels hold a zero byte".into()))?;
            let module = driver.load_module(text)?;
            modules.entry(context).or_insert(Loaded { module, functions: HashMap::new() })
        }
    };
    if let Some(function) = loaded.functions.get(name) {
        return Ok(*function);
    }
    let symbol = CString::new(name)
        .map_err(|_| Error::Internal(format!("the kernel name {name:?} holds a zero byte").into()))?;
    let function = driver.function(loaded.module, &symbol)?;
    loaded.functions.insert(name, function);
    Ok(function)
}
