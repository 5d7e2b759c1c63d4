//! Whether the memory behind a data pointer is what a call needs it to be: for the first calls of a
//! handle, whether it is memory of the host that the device does not reach; with
//! `CUDNN_SHIM_CHECK=1` for every call, and to the last byte.

use std::ffi::{c_uint, c_void};
use std::sync::OnceLock;

use super::driver::Driver;
use crate::error::{Error, Result};
use crate::ops::Operand;

/// What the driver tells of an address (`CUpointer_attribute`): the type of the memory, the address
/// under which the current context reaches it, whether it migrates, its device, whether processes
/// may share it in the way that is as old as `cuMemAlloc`, the first address and the bytes of the
/// allocation, and what the current device may do there.
const ATTRIBUTES: [c_uint; 8] = [2, 3, 8, 9, 10, 11, 12, 16];

/// Memory types (`CUmemorytype`): not known to the driver, and page-locked memory of the host.
const UNKNOWN: u64 = 0;
const HOST: u64 = 1;

/// Access flags (`CUmemAccess_flags`).
const NONE: u64 = 0;
const READ_ONLY: u64 = 1;

/// Whether `CUDNN_SHIM_CHECK` asks for checks of every call; read once, and unset, empty and `0`
/// mean no.
pub(super) fn is_asked_for() -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    *ASKED.get_or_init(|| {
        std::env::var_os("CUDNN_SHIM_CHECK").is_some_and(|value| !value.is_empty() && value != "0")
    })
}

/// What the driver knows of an address. Zeros where it knows nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Residency {
    memory_type: u64,
    device_address: u64,
    managed: bool,
    device: i32,
    /// Made by `cuMemAlloc`: one allocation, with nothing that belongs to it behind its end.
    is_plain: bool,
    start: u64,
    size: u64,
    access: u64,
}

impl Residency {
    fn of(driver: &Driver, address: u64) -> Result<Residency> {
        // The driver writes numbers of 4 or 8 bytes, in the order of this machine, which is
        // little-endian.
        let mut values = [0_u64; ATTRIBUTES.len()];
        let places = values.each_mut().map(|value| std::ptr::from_mut(value).cast::<c_void>());
        // SAFETY: no attribute that is asked for takes more than 8 bytes.
        unsafe { driver.attributes_of(address, ATTRIBUTES, places) }?;
        let [memory_type, device_address, managed, device, is_plain, start, size, access] = values;
        let (managed, is_plain) = (managed & 0xff != 0, is_plain & 0xff != 0);
        Ok(Residency {
            memory_type: memory_type & 0xffff_ffff,
            device_address,
            managed,
            device: device as u32 as i32,
            is_plain,
            start,
            size,
            access: access & 0xffff_ffff,
        })
    }

    fn is_known(&self) -> bool {
        self.memory_type != UNKNOWN || self.managed
    }

    /// Whether the allocation is known to hold all of these addresses. One of unknown size is
    /// believed.
    fn holds(&self, low: u64, high: u64) -> bool {
        self.size == 0 || (low >= self.start && high - self.start <= self.size)
    }
}

/// The device whose kernels work on the memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    pub(super) device: i32,
    /// Whether it reaches all memory of the host.
    pub(super) is_pageable: bool,
}

/// Checks that an operand at `address` is no memory of the host that the device does not reach;
/// with `to_the_end` that the device reaches every byte of its span, whatever memory it is.
///
/// # Errors
/// Bad parameter that names the argument: host memory that the device does not see, memory of
/// another device, memory that it must not write; or allocations that end before the tensor does.
/// Driver errors.
pub(super) fn check(
    driver: &Driver, reader: Reader, operand: &Operand, address: u64, to_the_end: bool,
) -> Result<()> {
    let (low, high) = operand.span;
    let refuse = |rule: String| Err(Error::argument(operand.name, address as i64, rule));
    // Not the pointer itself, near which an operand may touch nothing.
    let Some(first) = address.checked_add_signed(low) else {
        return refuse(format!(
            "a tensor of bytes {low} to {high} around {address:#x} does not fit the address space"
        ));
    };
    let end = first.saturating_add(high.abs_diff(low));
    let found = Residency::of(driver, first)?;
    if !found.is_known() && !reader.is_pageable {
        return refuse(unknown(first));
    }
    if !to_the_end {
        return Ok(());
    }
    if let Some(rule) = unreachable(&found, reader, operand, first) {
        return refuse(rule);
    }
    if !found.is_known() || found.holds(first, end) {
        return Ok(());
    }
    // Memory that was mapped piece by piece is one range to kernels. What `cuMemAlloc` makes ends
    // where it ends.
    let (mut start, mut stop) = (found.start, found.start.saturating_add(found.size));
    let mut grows = !found.is_plain;
    while grows && (first < start || end > stop) {
        let at = if end > stop { stop } else { start - 1 };
        let next = Residency::of(driver, at)?;
        grows = next.is_known() && !next.is_plain && next.size > 0;
        if grows && let Some(rule) = unreachable(&next, reader, operand, at) {
            return refuse(rule);
        }
        if grows && at == stop {
            stop = next.start.saturating_add(next.size);
            grows = stop > at;
        } else if grows {
            start = next.start;
        }
    }
    if first < start || end > stop {
        return refuse(format!(
            "the tensor covers bytes {low} to {high} around {address:#x}, its allocation bytes {} to {}",
            i128::from(start) - i128::from(address),
            i128::from(stop) - i128::from(address),
        ));
    }
    Ok(())
}

fn unknown(at: u64) -> String {
    format!(
        "at {at:#x} is no memory that the CUDA driver knows: a host pointer given to the CUDA core? CUDNN_SHIM_BACKEND=cpu \
         asks for the core that takes those"
    )
}

/// Why the device does not reach what lies at `at`, if it does not.
fn unreachable(found: &Residency, reader: Reader, operand: &Operand, at: u64) -> Option<String> {
    let device = reader.device;
    if !found.is_known() {
        return (!reader.is_pageable).then(|| unknown(at));
    }
    if found.memory_type == HOST && !found.managed {
        // Page-locked memory may have another address on the device, under which the program has to
        // pass it.
        let is_reached = reader.is_pageable || found.device_address == at;
        return (!is_reached).then(|| match found.device_address {
            0 => format!("the page-locked memory at {at:#x} is not mapped for device {device}, the handle's"),
            other => format!(
                "device {device}, the handle's, reaches the page-locked memory at {at:#x} at {other:#x}"
            ),
        });
    }
    // What `cuMemAlloc` makes its own device reaches; all else is reached by whom that was allowed.
    let is_own = found.managed || found.is_plain && found.device == device;
    if found.device_address == 0 || !is_own && found.access == NONE {
        return Some(format!(
            "the memory at {at:#x} (device {}) cannot be reached from device {device}, the handle's",
            found.device
        ));
    }
    if found.access == READ_ONLY && operand.role.is_written() {
        return Some(format!(
            "device {device}, the handle's, may read the memory at {at:#x}, but not write it"
        ));
    }
    None
}
