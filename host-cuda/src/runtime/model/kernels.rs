//! What a program registers: its kernels, which do not run here, and variables of the device.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{CString, c_void};

use super::Handle;
use crate::runtime::error::{Error, Result};

/// A variable of the device.
pub(crate) struct Variable {
    pub(crate) module: Handle,
    pub(crate) start: usize,
    pub(crate) size: usize,
}

/// A kernel of the program.
pub(crate) struct Kernel {
    pub(crate) module: Handle,
    pub(crate) name: CString,
}

/// What is registered, by the address that stands for it on the host.
#[derive(Default)]
pub struct Kernels {
    pub(crate) functions: BTreeMap<usize, Kernel>,
    pub(crate) variables: BTreeMap<usize, Variable>,
    /// The kernels that were wanted, and told of.
    pub(crate) told: HashSet<usize>,
}

impl Kernels {
    /// Where the variable of a symbol begins, if `count` bytes from `offset` on lie in it.
    pub(crate) fn variable(&self, symbol: *const c_void, count: usize, offset: usize) -> Result<usize> {
        let Some(variable) = self.variables.get(&symbol.expose_provenance()) else {
            return Err(Error::InvalidSymbol.because(format_args!("{symbol:p} is no variable of the device")));
        };
        if offset.checked_add(count).is_none_or(|end| end > variable.size) {
            let rule = format!("{count} bytes from {offset} on: the variable has {}", variable.size);
            return Err(Error::InvalidValue.because(rule));
        }
        Ok(variable.start)
    }

    /// The memory of variables.
    pub(crate) fn memory(&self) -> HashSet<usize> {
        self.variables.values().map(|variable| variable.start).collect()
    }

    pub(crate) fn known(&self, function: *const c_void) -> Result<&Kernel> {
        self.functions.get(&function.expose_provenance()).ok_or_else(|| {
            Error::InvalidDeviceFunction.because(format_args!("{function:p} is no kernel of this program"))
        })
    }
}
