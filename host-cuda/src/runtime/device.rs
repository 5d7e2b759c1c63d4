//! The one device, its limits and settings, and the versions.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

use super::error::{Error, Result};
use super::model::stream::PRIORITIES;
use super::state::state;
use super::{Out, capture, properties, put};

/// Whether `device` is the one that there is.
pub(super) fn only(device: i32) -> Result {
    if device == 0 {
        return Ok(());
    }
    Err(Error::InvalidDevice.because(format_args!("device {device}: there is one, 0")))
}

/// What each limit is until it is set: stack, printf buffer, heap, depth of synchronisation,
/// pending launches, fetch granularity of the cache, persisting cache.
static LIMITS: [AtomicUsize; 7] = [
    AtomicUsize::new(1024),
    AtomicUsize::new(1 << 20),
    AtomicUsize::new(8 << 20),
    AtomicUsize::new(2),
    AtomicUsize::new(2048),
    AtomicUsize::new(128),
    AtomicUsize::new(0),
];
static FLAGS: AtomicU32 = AtomicU32::new(0);
static CACHE: AtomicI32 = AtomicI32::new(0);
static BANKS: AtomicI32 = AtomicI32::new(1);

/// `cudaDeviceScheduleMask`, `cudaDeviceMapHost`, `cudaDeviceLmemResizeToMax`,
/// `cudaDeviceSyncMemops`.
const KNOWN_FLAGS: u32 = 0x9f;
/// The version of CUDA that the driver supports, the newest of the runtimes.
pub(crate) const DRIVER_VERSION: i32 = 13050;
/// The address of the device on a bus that is not there.
const BUS: &CStr = c"0000:00:00.0";

thread_local! {
    /// Whether this thread said that it wants the device; nothing depends on it.
    static CHOSEN: Cell<bool> = const { Cell::new(false) };
}

fn limit(number: i32) -> Result<&'static AtomicUsize> {
    let limit = usize::try_from(number).ok().and_then(|number| LIMITS.get(number));
    limit.ok_or_else(|| Error::UnsupportedLimit.because(format_args!("limit {number} is not known")))
}

fn describe(out: *mut c_void, device: i32, major: usize) -> Result {
    if out.is_null() {
        return Err(Error::InvalidValue.because("prop is NULL"));
    }
    only(device)?;
    let bytes = properties::structure(major);
    // SAFETY: the caller has a structure of that version there, of as many bytes.
    unsafe { out.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

/// `cudaChannelFormatDesc`: bits of each component, and what they are.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Channels {
    bits: [i32; 4],
    kind: i32,
}

/// Describes elements of up to four components, for textures.
///
/// # Safety
/// Any numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaCreateChannelDesc(x: i32, y: i32, z: i32, w: i32, kind: i32) -> Channels {
    Channels { bits: [x, y, z, w], kind }
}

runtime! {
    /// The number of devices: one.
    ///
    /// Status: cudaErrorInvalidValue for NULL.
    fn cudaGetDeviceCount(count: Out<i32>) {
        put(count, "count", 1)
    }

    /// The device of this thread.
    ///
    /// Status: cudaErrorInvalidValue for NULL.
    fn cudaGetDevice(device: Out<i32>) {
        put(device, "device", 0)
    }

    /// Chooses the device for this thread.
    ///
    /// Status: cudaErrorInvalidDevice unless it is 0.
    fn cudaSetDevice(device: i32) {
        only(device)?;
        CHOSEN.set(true);
        Ok(())
    }

    /// The same with flags.
    ///
    /// Status: as cudaSetDevice; cudaErrorInvalidValue for unknown flags.
    fn cudaInitDevice(device: i32, device_flags: u32, flags: u32) {
        only(device)?;
        if flags > 1 || device_flags & !KNOWN_FLAGS != 0 {
            return Err(Error::InvalidValue.because(format_args!("flags {device_flags:#x} and {flags} are not known")));
        }
        if flags == 1 {
            FLAGS.store(device_flags, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Chooses among devices by properties: there is one.
    ///
    /// Status: cudaErrorInvalidValue for NULL.
    fn cudaChooseDevice(device: Out<i32>, wanted: *const c_void) {
        if wanted.is_null() {
            return Err(Error::InvalidValue.because("prop is NULL"));
        }
        put(device, "device", 0)
    }

    /// Names the devices that may be used.
    ///
    /// Status: cudaErrorInvalidValue for NULL with devices, or a negative number;
    /// cudaErrorInvalidDevice for others than 0.
    fn cudaSetValidDevices(devices: *const i32, count: i32) {
        let length = usize::try_from(count).ok().filter(|&count| count == 0 || !devices.is_null() && count <= 1);
        let Some(length) = length else {
            return Err(Error::InvalidValue.because(format_args!("{count} devices at {devices:p}: at most one")));
        };
        if length == 1 {
            // SAFETY: not NULL, and the caller has one number there.
            only(unsafe { devices.read() })?;
        }
        Ok(())
    }

    /// Waits for the device: all is done.
    ///
    /// Status: cudaErrorStreamCaptureUnsupported while a stream captures.
    fn cudaDeviceSynchronize() {
        capture::refuse_unsafe(&mut state())
    }

    /// Gives back all memory, streams, events and graphs.
    ///
    /// Status: cudaSuccess.
    fn cudaDeviceReset() {
        let mut state = state();
        state.reset();
        Ok(())
    }

    /// Properties in the layout of CUDA 11, which calls of this name without a number have in 12,
    /// too.
    ///
    /// Status: cudaErrorInvalidValue for NULL; cudaErrorInvalidDevice unless `device` is 0.
    fn cudnnShimHostGetDeviceProperties11(out: *mut c_void, device: i32) {
        describe(out, device, 11)
    }

    /// Properties in the layout of CUDA 12.
    ///
    /// Status: as the others.
    fn cudaGetDeviceProperties_v2(out: *mut c_void, device: i32) {
        describe(out, device, 12)
    }

    /// Properties in the layout of CUDA 13.
    ///
    /// Status: as the others.
    fn cudnnShimHostGetDeviceProperties13(out: *mut c_void, device: i32) {
        describe(out, device, 13)
    }

    /// An attribute of the device by number.
    ///
    /// Status: cudaErrorInvalidValue for NULL and unknown numbers; cudaErrorInvalidDevice unless
    /// `device` is 0.
    fn cudaDeviceGetAttribute(value: Out<i32>, number: i32, device: i32) {
        let Some(known) = properties::attribute(number) else {
            return Err(Error::InvalidValue.because(format_args!("attribute {number} is not known")));
        };
        only(device)?;
        put(value, "value", known)
    }

    /// Whether a device reaches the memory of another: there is no other.
    ///
    /// Status: cudaErrorInvalidValue for NULL; cudaErrorInvalidDevice unless both are 0.
    fn cudaDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) {
        only(device)?;
        only(peer)?;
        put(can, "canAccessPeer", 0)
    }

    /// Lets the device reach another's memory: there is no other.
    ///
    /// Status: cudaErrorInvalidValue for flags; cudaErrorInvalidDevice.
    fn cudaDeviceEnablePeerAccess(peer: i32, flags: u32) {
        if flags != 0 {
            return Err(Error::InvalidValue.because(format_args!("flags is {flags}, not 0")));
        }
        Err(Error::InvalidDevice.because(format_args!("device {peer} is no peer: there is one device")))
    }

    /// Ends what cudaDeviceEnablePeerAccess began.
    ///
    /// Status: cudaErrorPeerAccessNotEnabled.
    fn cudaDeviceDisablePeerAccess(peer: i32) {
        Err(Error::PeerAccessNotEnabled.because(format_args!("device {peer} is no peer: there is one device")))
    }

    /// Keeps flags; nothing follows from them.
    ///
    /// Status: cudaErrorInvalidValue for unknown ones.
    fn cudaSetDeviceFlags(flags: u32) {
        if flags & !KNOWN_FLAGS != 0 {
            return Err(Error::InvalidValue.because(format_args!("flags {flags:#x} are not known")));
        }
        FLAGS.store(flags, Ordering::Relaxed);
        Ok(())
    }

    /// The flags of the device.
    ///
    /// Status: cudaErrorInvalidValue for NULL.
    fn cudaGetDeviceFlags(flags: Out<u32>) {
        /// `cudaDeviceMapHost`, which every device has.
        const MAP_HOST: u32 = 8;
        put(flags, "flags", FLAGS.load(Ordering::Relaxed) | MAP_HOST)
    }

    /// A limit of the device.
    ///
    /// Status: cudaErrorUnsupportedLimit for an unknown one; cudaErrorInvalidValue for NULL.
    fn cudaDeviceGetLimit(value: Out<usize>, number: i32) {
        put(value, "pValue", limit(number)?.load(Ordering::Relaxed))
    }

    /// Keeps a limit; nothing follows from it.
    ///
    /// Status: cudaErrorUnsupportedLimit for an unknown one.
    fn cudaDeviceSetLimit(number: i32, value: usize) {
        limit(number)?.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// The preference between cache and shared memory.
    ///
    /// Status: cudaErrorInvalidValue for NULL.
    fn cudaDeviceGetCacheConfig(config: Out<i32>) {
        put(config, "pCacheConfig", CACHE.load(Ordering::Relaxed))
    }

    /// Keeps a preference between cache and shared memory.
    ///
    /// Status: cudaErrorInvalidValue unless 0 to 3.
    fn cudaDeviceSetCacheConfig(config: i32) {
        if !(0..=3).contains(&config) {
            return Err(Error::InvalidValue.because(format_args!("cacheConfig is {config}, not 0 to 3")));
        }
        CACHE.store(config, Ordering::Relaxed);
        Ok(())
    }

    /// The width of banks of shared memory.
    ///
    /// Status: cudaErrorInvalidValue for NULL.
    fn cudaDeviceGetSharedMemConfig(config: Out<i32>) {
        put(config, "pConfig", BANKS.load(Ordering::Relaxed))
    }

    /// Keeps a width of banks of shared memory.
    ///
    /// Status: cudaErrorInvalidValue unless 0 to 2.
    fn cudaDeviceSetSharedMemConfig(config: i32) {
        if !(0..=2).contains(&config) {
            return Err(Error::InvalidValue.because(format_args!("config is {config}, not 0 to 2")));
        }
        BANKS.store(config, Ordering::Relaxed);
        Ok(())
    }

    /// The least and the most urgent priority of streams; either may be NULL.
    ///
    /// Status: cudaSuccess.
    fn cudaDeviceGetStreamPriorityRange(least: Out<i32>, most: Out<i32>) {
        for (out, priority) in [(least, PRIORITIES.0), (most, PRIORITIES.1)] {
            if let Some(out) = out {
                out.write(priority);
            }
        }
        Ok(())
    }

    /// The address of the device on its bus, with a zero behind.
    ///
    /// Status: cudaErrorInvalidValue for NULL or fewer than 13 bytes; cudaErrorInvalidDevice unless
    /// `device` is 0.
    fn cudaDeviceGetPCIBusId(text: *mut c_char, length: i32, device: i32) {
        let bytes = BUS.to_bytes_with_nul();
        if text.is_null() || usize::try_from(length).is_ok_and(|length| length < bytes.len()) || length < 0 {
            let rule = format!("{length} bytes at {text:p}: {} are needed", bytes.len());
            return Err(Error::InvalidValue.because(rule));
        }
        only(device)?;
        // SAFETY: not NULL, and the caller has at least as many bytes there.
        unsafe { text.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
        Ok(())
    }

    /// The device of an address on a bus.
    ///
    /// Status: cudaErrorInvalidValue for NULL; cudaErrorInvalidDevice for other addresses.
    fn cudaDeviceGetByPCIBusId(device: Out<i32>, text: *const c_char) {
        if text.is_null() {
            return Err(Error::InvalidValue.because("pciBusId is NULL"));
        }
        // SAFETY: not NULL, and the caller's text ends with a zero.
        let given = unsafe { CStr::from_ptr(text) };
        let bus = BUS.to_string_lossy();
        // With the domain or without.
        if ![&bus[..], &bus[5..]].contains(&&*given.to_string_lossy()) {
            return Err(Error::InvalidDevice.because(format_args!("{given:?} is not {BUS:?}")));
        }
        put(device, "device", 0)
    }

    /// The version of the runtime of CUDA 11 whose place this takes, as 11080.
    ///
    /// Status: cudaErrorInvalidValue for NULL.
    fn cudnnShimHostRuntimeGetVersion11(version: Out<i32>) {
        put(version, "runtimeVersion", 11080)
    }

    /// The version of the runtime of CUDA 12 whose place this takes, as 12090.
    ///
    /// Status: cudaErrorInvalidValue for NULL.
    fn cudaRuntimeGetVersion(version: Out<i32>) {
        put(version, "runtimeVersion", 12090)
    }

    /// The version of the runtime of CUDA 13 whose place this takes, as 13050.
    ///
    /// Status: cudaErrorInvalidValue for NULL.
    fn cudnnShimHostRuntimeGetVersion13(version: Out<i32>) {
        put(version, "runtimeVersion", 13050)
    }

    /// The version of CUDA that a driver would support: the newest of the runtimes.
    ///
    /// Status: cudaErrorInvalidValue for NULL.
    fn cudaDriverGetVersion(version: Out<i32>) {
        put(version, "driverVersion", DRIVER_VERSION)
    }

    /// Begins to profile: no profiler is attached.
    ///
    /// Status: cudaSuccess.
    fn cudaProfilerStart() {
        Ok(())
    }

    /// Ends what cudaProfilerStart began.
    ///
    /// Status: cudaSuccess.
    fn cudaProfilerStop() {
        Ok(())
    }

    /// Empties the persisting part of a cache that is not there.
    ///
    /// Status: cudaSuccess.
    fn cudaCtxResetPersistingL2Cache() {
        Ok(())
    }
}
