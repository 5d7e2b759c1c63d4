//! The context that a handle works in for its life.

use super::driver::{Driver, DriverContext};
use super::launch::Device;
use super::residency::Reader;
use crate::error::{Error, Result};

/// A context, and what is asked of its device once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    pub(super) context: DriverContext,
    pub(super) device: i32,
    /// What the choice of kernels depends on.
    pub(super) kind: Device,
    /// Whether the device reaches all memory of the host.
    is_pageable: bool,
    /// The id of a primary context that has to be given back.
    retained: Option<u64>,
}

/// The driver's codes for a primary context whose device was reset and has not been used since:
/// invalid, destroyed.
const GONE: [i32; 2] = [201, 709];

impl Binding {
    fn new(driver: &Driver, context: DriverContext, device: i32, retained: Option<u64>) -> Result<Binding> {
        let kind = Device { capability: driver.capability(device)? };
        Ok(Binding { context, device, kind, is_pageable: driver.is_pageable(device)?, retained })
    }

    /// The context that is current in this thread. After a device was reset its context stays
    /// current, but is none until the program, or its run-time library, uses the device again.
    ///
    /// The primary context of a device is held, so that it lives as long as the handle, whatever
    /// else releases it. One that the program made by `cuCtxCreate` cannot be: it has to outlive
    /// the handle.
    ///
    /// # Errors
    /// Driver errors.
    pub(super) fn current(driver: &Driver) -> Result<Option<Binding>> {
        let Some(context) = driver.current_context()? else { return Ok(None) };
        let device = match driver.current_device() {
            Ok(device) => device,
            Err(Error::Driver { code, .. }) if GONE.contains(&code) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Holding one that is not there would make it, and take memory of the device.
        if driver.has_primary(device)? {
            let primary = Binding::primary(driver, device)?;
            if primary.context == context {
                return Ok(Some(primary));
            }
            primary.release(driver);
        }
        Binding::new(driver, context, device, None).map(Some)
    }

    /// The primary context of a device, made if need be, and held.
    ///
    /// # Errors
    /// Driver errors.
    pub(super) fn primary(driver: &Driver, device: i32) -> Result<Binding> {
        let context = driver.retain_primary(device)?;
        let bound = driver.context_id(context).and_then(|id| Binding::new(driver, context, device, Some(id)));
        if bound.is_err() {
            driver.release_primary(device);
        }
        bound
    }

    /// Gives back what is held.
    pub(super) fn release(self, driver: &Driver) {
        // After a reset the primary context is another one, to whose holders this one may not
        // belong: giving it back might take it from the program.
        if self.retained.is_some_and(|id| driver.context_id(self.context) == Ok(id)) {
            driver.release_primary(self.device);
        }
    }

    /// The device as one that reaches memory.
    pub(super) fn reader(self) -> Reader {
        Reader { device: self.device, is_pageable: self.is_pageable }
    }
}
