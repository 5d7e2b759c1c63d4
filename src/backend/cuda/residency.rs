//! `CUDNN_SHIM_CHECK=1`: whether the memory behind a data pointer is what the call needs it to be.

use std::sync::OnceLock;

use super::driver::Driver;
use crate::error::{Error, Result};

/// Memory type of memory that the driver does not know.
const UNKNOWN: u32 = 0;

/// Whether `CUDNN_SHIM_CHECK` asks for these checks; read once, and unset, empty and `0` mean no.
pub(super) fn is_asked_for() -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    *ASKED.get_or_init(|| {
        std::env::var_os("CUDNN_SHIM_CHECK").is_some_and(|value| !value.is_empty() && value != "0")
    })
}

/// Checks that the current context, of device `device`, reaches the bytes `low..high` around `address`, all of
/// them in one allocation.
///
/// # Errors
/// Bad parameter that names the argument: host memory that the device does not see, memory of another device,
/// or an allocation that ends before the tensor does. Driver errors.
pub(super) fn check(
    driver: &Driver,
    device: i32,
    argument: &'static str,
    address: u64,
    (low, high): (i64, i64),
) -> Result<()> {
    let found = driver.residency(address)?;
    let refuse = |rule: String| Err(Error::argument(argument, address as i64, rule));
    if found.memory_type == UNKNOWN && !found.managed {
        return refuse(format!(
            "at {address:#x} is no memory that the CUDA driver knows: a host pointer given to the CUDA core?"
        ));
    }
    if found.device_address == 0 {
        return refuse(format!(
            "the memory at {address:#x} (device {}) cannot be reached from device {device}, the handle's",
            found.device
        ));
    }
    let start = address.checked_add_signed(low);
    let end = address.checked_add_signed(high);
    let inside = start.is_some_and(|start| start >= found.start)
        && end.is_some_and(|end| end - found.start <= found.size);
    if found.size > 0 && !inside {
        return refuse(format!(
            "the tensor covers bytes {low} to {high} around {address:#x}, its allocation bytes {} to {}",
            found.start as i128 - i128::from(address),
            found.start as i128 + i128::from(found.size) - i128::from(address),
        ));
    }
    Ok(())
}
