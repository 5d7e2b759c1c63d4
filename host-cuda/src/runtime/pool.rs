//! Pools that memory is allocated from in the order of streams: accounts of settings, for all
//! memory is the machine's.

use std::ffi::c_void;

use super::error::{Error, Result};
use super::memory::allocate_ordered;
use super::model::Handle;
use super::model::pool::Pool;
use super::state::{State, state};
use super::{Out, device, put};

/// `cudaMemPoolAttrReleaseThreshold`, the first of 64 bits; those before it have 32.
const WIDE: i32 = 4;
/// The last attribute that is set; those behind it count memory.
const LAST_SETTING: i32 = 4;
/// The last attribute.
const LAST: i32 = 8;

fn known(state: &State, pool: Handle) -> Result {
    if state.pools.contains_key(&pool) {
        return Ok(());
    }
    Err(Error::InvalidValue.because(format_args!("{pool:#x} is no pool: never made, or destroyed")))
}

/// The pool that every device has, made when it is asked for first.
fn default(out: Out<Handle>, of: i32) -> Result {
    device::only(of)?;
    let mut state = state();
    let found = state.pools.iter().find(|(_, pool)| pool.is_default).map(|(handle, _)| *handle);
    let handle = found.unwrap_or_else(|| {
        let handle = state.handle();
        state.pools.insert(handle, Pool { is_default: true, ..Pool::default() });
        handle
    });
    put(out, "memPool", handle)
}

fn attribute(number: i32, last: i32) -> Result {
    if (1..=last).contains(&number) {
        return Ok(());
    }
    Err(Error::InvalidValue.because(format_args!("attribute {number} is not one of 1 to {last}")))
}

runtime! {
    /// The pool that the device has from the start.
    ///
    /// Status: cudaErrorInvalidDevice unless `device` is 0; cudaErrorInvalidValue for NULL.
    fn cudaDeviceGetDefaultMemPool(pool: Out<Handle>, device: i32) {
        default(pool, device)
    }

    /// The pool that the device allocates from: the one it has from the start.
    ///
    /// Status: as cudaDeviceGetDefaultMemPool.
    fn cudaDeviceGetMemPool(pool: Out<Handle>, device: i32) {
        default(pool, device)
    }

    /// Chooses the pool that the device allocates from; all take from the same memory.
    ///
    /// Status: cudaErrorInvalidDevice unless `device` is 0; cudaErrorInvalidValue for an unknown
    /// pool.
    fn cudaDeviceSetMemPool(device: i32, pool: Handle) {
        device::only(device)?;
        known(&state(), pool)
    }

    /// A pool.
    ///
    /// Status: cudaErrorInvalidValue for NULL.
    fn cudaMemPoolCreate(pool: Out<Handle>, properties: *const c_void) {
        if properties.is_null() {
            return Err(Error::InvalidValue.because("poolProps is NULL"));
        }
        let mut state = state();
        let handle = state.handle();
        put(pool, "memPool", handle)?;
        state.pools.insert(handle, Pool::default());
        Ok(())
    }

    /// Ends a pool; memory from it stays.
    ///
    /// Status: cudaErrorInvalidValue for an unknown pool, and for that which the device has from
    /// the start.
    fn cudaMemPoolDestroy(pool: Handle) {
        let mut state = state();
        known(&state, pool)?;
        if state.pools.get(&pool).is_some_and(|pool| pool.is_default) {
            return Err(Error::InvalidValue.because("the device's own pool stays"));
        }
        state.pools.remove(&pool);
        Ok(())
    }

    /// Keeps a setting; nothing follows from it. Counts can be set to zero only, which begins them
    /// anew.
    ///
    /// Status: cudaErrorInvalidValue for NULL, an unknown pool or attribute.
    fn cudaMemPoolSetAttribute(pool: Handle, number: i32, value: *const c_void) {
        let mut state = state();
        known(&state, pool)?;
        attribute(number, LAST_SETTING)?;
        if value.is_null() {
            return Err(Error::InvalidValue.because("value is NULL"));
        }
        let wide = number >= WIDE;
        // SAFETY: not NULL, and the caller has a number of the attribute's width there.
        let value = unsafe { if wide { value.cast::<u64>().read() } else { u64::from(value.cast::<u32>().read()) } };
        if let Some(pool) = state.pools.get_mut(&pool) {
            pool.settings.insert(number, value);
        }
        Ok(())
    }

    /// A setting, or a count of bytes, which pools do not keep: zero.
    ///
    /// Status: as cudaMemPoolSetAttribute.
    fn cudaMemPoolGetAttribute(pool: Handle, number: i32, value: *mut c_void) {
        let state = state();
        known(&state, pool)?;
        attribute(number, LAST)?;
        if value.is_null() {
            return Err(Error::InvalidValue.because("value is NULL"));
        }
        // Reuse is allowed from the start.
        let first = u64::from(number < WIDE);
        let kept = state.pools.get(&pool).and_then(|pool| pool.settings.get(&number)).copied().unwrap_or(first);
        // SAFETY: not NULL, and the caller has room for the attribute's width there.
        unsafe {
            if number >= WIDE { value.cast::<u64>().write(kept) } else { value.cast::<u32>().write(kept as u32) }
        };
        Ok(())
    }

    /// Gives unused memory back to the machine, which has it already.
    ///
    /// Status: cudaErrorInvalidValue for an unknown pool.
    fn cudaMemPoolTrimTo(pool: Handle, keep: usize) {
        let _ = keep;
        known(&state(), pool)
    }

    /// Device memory from a pool.
    ///
    /// Status: cudaErrorInvalidValue for an unknown pool; as cudaMallocAsync.
    fn cudaMallocFromPoolAsync(pointer: Out<*mut c_void>, size: usize, pool: Handle, stream: Handle) {
        known(&state(), pool)?;
        allocate_ordered(pointer, size, stream)
    }
}
