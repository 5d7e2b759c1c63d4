//! The CUDA driver: a table of the entry points that the core calls, filled when the first handle
//! is created.
//!
//! The only file that names cudarc, and of it only the types and codes: its own calls panic without
//! a driver or a symbol, look for development stubs before the driver, and cannot hold an unknown
//! error code. Here all of that ends in an [`Unavailable`] or an [`Error::Driver`].

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys;

use super::machine::Source;
use super::table::entry_points;
use super::unavailable::{MIN_VERSION, Unavailable};
use crate::error::{Error, Result};

/// The driver library of every Linux installation. `libcuda.so` without the number may be a stub
/// for linking.
const LIBRARY: &CStr = c"libcuda.so.1";

/// What the driver of host CUDA has in the library that it needs, and no other driver has.
const HOST: &CStr = c"cudnnShimHostIsCapturing";

/// `CUDA_SUCCESS`.
const SUCCESS: c_int = 0;

entry_points! {
    /// What is asked of a driver before anything else: how old it is decides whether the rest can
    /// be there.
    Start
    init = "cuInit" (c_uint);
    driver_get_version = "cuDriverGetVersion" (*mut c_int);
    get_error_name = "cuGetErrorName" (c_int, *mut *const c_char);
}

entry_points! {
    /// The other entry points of a driver.
    Table
    device_get_count = "cuDeviceGetCount" (*mut c_int);
    device_get = "cuDeviceGet" (*mut sys::CUdevice, c_int);
    device_get_name = "cuDeviceGetName" (*mut c_char, c_int, sys::CUdevice);
    device_get_attribute = "cuDeviceGetAttribute" (*mut c_int, c_uint, sys::CUdevice);
    primary_ctx_get_state = "cuDevicePrimaryCtxGetState" (sys::CUdevice, *mut c_uint, *mut c_int);
    primary_ctx_retain = "cuDevicePrimaryCtxRetain" (*mut sys::CUcontext, sys::CUdevice);
    primary_ctx_release = "cuDevicePrimaryCtxRelease_v2" (sys::CUdevice);
    ctx_get_current = "cuCtxGetCurrent" (*mut sys::CUcontext);
    ctx_get_device = "cuCtxGetDevice" (*mut sys::CUdevice);
    ctx_get_id = "cuCtxGetId" (sys::CUcontext, *mut u64);
    ctx_push = "cuCtxPushCurrent_v2" (sys::CUcontext);
    ctx_pop = "cuCtxPopCurrent_v2" (*mut sys::CUcontext);
    thread_exchange_capture_mode = "cuThreadExchangeStreamCaptureMode" (*mut c_uint);
    module_load_data_ex = "cuModuleLoadDataEx"
        (*mut sys::CUmodule, *const c_void, c_uint, *mut c_uint, *mut *mut c_void);
    module_unload = "cuModuleUnload" (sys::CUmodule);
    module_get_function = "cuModuleGetFunction" (*mut sys::CUfunction, sys::CUmodule, *const c_char);
    launch_kernel = "cuLaunchKernel" (
        sys::CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, sys::CUstream,
        *mut *mut c_void, *mut *mut c_void
    );
    pointer_get_attributes = "cuPointerGetAttributes" (c_uint, *mut c_uint, *mut *mut c_void, u64);
}

/// The driver's symbols that this library uses, as tests of incomplete drivers need them.
pub fn symbols() -> Vec<&'static str> {
    [Start::SYMBOLS, Table::SYMBOLS].concat()
}

/// Set in children of a process that had started the driver, or was about to.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Runs in a forked child.
extern "C" fn forked() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Declares a handle that the driver gave out: an address that only the driver reads.
macro_rules! driver_handle {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub(super) $raw);

        // SAFETY: the driver's handles may be used from every thread, and are never dereferenced
        // here.
        unsafe impl Send for $name {}
        // SAFETY: a handle that threads share is never dereferenced here, either.
        unsafe impl Sync for $name {}
    };
}

driver_handle!(
    /// A context: a device's memory and modules as one process sees them.
    DriverContext(sys::CUcontext)
);
driver_handle!(
    /// A loaded module.
    DriverModule(sys::CUmodule)
);
driver_handle!(
    /// A kernel of a loaded module.
    DriverFunction(sys::CUfunction)
);

/// One launch as the driver wants it.
#[derive(Clone, Copy, Debug)]
pub struct LaunchShape {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

/// A started driver that sees at least one device.
pub struct Driver {
    start: Start,
    table: Table,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

impl Driver {
    /// The driver of this process, loaded and started by the first call; every later call repeats
    /// its verdict.
    ///
    /// # Errors
    /// Why there is none.
    pub fn get() -> Result<&'static Driver, &'static Unavailable> {
        static DRIVER: OnceLock<Result<Driver, Unavailable>> = OnceLock::new();
        if DRIVER.get().is_none() {
            // A child must not wait for a thread that was starting the driver in its parent.
            if FORKED.load(Ordering::Relaxed) {
                return Err(&Unavailable::Forked);
            }
            // Before the start, for children that are forked during it. Threads that come here at
            // once each register it. SAFETY: this library stays loaded. Without memory for it, a
            // child's calls fail at the driver instead.
            unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        }
        DRIVER.get_or_init(Driver::start).as_ref()
    }

    fn start() -> Result<Driver, Unavailable> {
        // SAFETY: runs the initialisers of the driver, as every program that uses it does.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(Unavailable::NoLibrary(loader_error()));
        }
        // SAFETY: a library that is open, and a name that ends with a zero.
        if !unsafe { libc::dlsym(library, HOST.as_ptr()) }.is_null() {
            return Err(Unavailable::OfHost);
        }
        // SAFETY: opened just above; nothing closes it.
        let start = unsafe { Start::load(library) }.map_err(Unavailable::MissingSymbol)?;
        let checked = |call, code| match code {
            SUCCESS => Ok(()),
            code => Err(Unavailable::Failed(failure(&start, call, code, String::new()))),
        };
        // SAFETY: 0 is the only flag there is.
        checked("cuInit", unsafe { (start.init)(0) })?;
        let mut version = 0;
        // SAFETY: writes one int.
        checked("cuDriverGetVersion", unsafe { (start.driver_get_version)(&mut version) })?;
        if version < MIN_VERSION {
            return Err(Unavailable::TooOld(version));
        }
        // SAFETY: the library was opened above; nothing closes it.
        let table = unsafe { Table::load(library) }.map_err(Unavailable::MissingSymbol)?;
        let mut devices = 0;
        // SAFETY: writes one int.
        checked("cuDeviceGetCount", unsafe { (table.device_get_count)(&mut devices) })?;
        if devices < 1 {
            return Err(Unavailable::NoDevice);
        }
        Ok(Driver { start, table })
    }

    /// Refuses work in a child that was forked off the process that started the driver: nothing of
    /// it works there, and what threads of the parent held when it forked stays taken.
    ///
    /// # Errors
    /// Execution, in such a child.
    pub fn check_process(&self) -> Result<()> {
        if FORKED.load(Ordering::Relaxed) {
            return Err(Error::Execution(Unavailable::Forked.to_string().into()));
        }
        Ok(())
    }

    /// The library that is loaded, for entry points that few calls need; nothing closes it.
    ///
    /// # Errors
    /// Not supported if the loader does not find it again.
    pub(super) fn library(&self) -> Result<*mut c_void> {
        // SAFETY: counts one more user of a library that is open.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() { Err(Error::unsupported(loader_error())) } else { Ok(library) }
    }

    /// Asks for several attributes of an address, one place for each.
    ///
    /// # Errors
    /// Driver errors; an address that it does not know is none.
    ///
    /// # Safety
    /// Every place has room for what its attribute is, by the driver's documentation.
    pub(super) unsafe fn attributes_of<const N: usize>(
        &self, address: u64, mut attributes: [c_uint; N], mut places: [*mut c_void; N],
    ) -> Result<()> {
        let code = self.outside_capture(|| {
            let (attributes, places) = (attributes.as_mut_ptr(), places.as_mut_ptr());
            // SAFETY: as many attributes as places, which the caller vouches for.
            Ok(unsafe { (self.table.pointer_get_attributes)(N as c_uint, attributes, places, address) })
        })?;
        self.check("cuPointerGetAttributes", code)
    }

    /// Turns an error code into an error that names it.
    ///
    /// # Errors
    /// Every code but that of success.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == SUCCESS { Ok(()) } else { Err(self.failure(call, code, String::new())) }
    }

    #[cold]
    pub(super) fn failure(&self, call: &'static str, code: c_int, detail: String) -> Error {
        failure(&self.start, call, code, detail)
    }

    /// The context that is current in this thread.
    ///
    /// # Errors
    /// Driver errors.
    pub fn current_context(&self) -> Result<Option<DriverContext>> {
        let mut context = std::ptr::null_mut();
        // SAFETY: writes one handle.
        self.check("cuCtxGetCurrent", unsafe { (self.table.ctx_get_current)(&mut context) })?;
        Ok((!context.is_null()).then_some(DriverContext(context)))
    }

    /// The device of the context that is current in this thread.
    ///
    /// # Errors
    /// Driver errors, among them that no context is current.
    pub fn current_device(&self) -> Result<i32> {
        let mut device = 0;
        // SAFETY: writes one int.
        self.check("cuCtxGetDevice", unsafe { (self.table.ctx_get_device)(&mut device) })?;
        Ok(device)
    }

    /// The device with number `ordinal`.
    ///
    /// # Errors
    /// Driver errors.
    pub fn device(&self, ordinal: i32) -> Result<i32> {
        let mut device = 0;
        // SAFETY: writes one int.
        self.check("cuDeviceGet", unsafe { (self.table.device_get)(&mut device, ordinal) })?;
        Ok(device)
    }

    /// The name of a device.
    ///
    /// # Errors
    /// Driver errors.
    pub fn device_name(&self, device: i32) -> Result<String> {
        let mut name = [0u8; 256];
        let len = name.len() as c_int - 1;
        // SAFETY: writes at most `len` bytes; the array ends in a zero byte whatever happens.
        let code = unsafe { (self.table.device_get_name)(name.as_mut_ptr().cast(), len, device) };
        self.check("cuDeviceGetName", code)?;
        let text = name.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Whether a device reaches all memory of the host, also what no call of the driver made.
    ///
    /// # Errors
    /// Driver errors.
    pub fn is_pageable(&self, device: i32) -> Result<bool> {
        let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS;
        self.attribute(device, attribute).map(|value| value != 0)
    }

    fn attribute(&self, device: i32, attribute: sys::CUdevice_attribute) -> Result<c_int> {
        let mut value = 0;
        // SAFETY: writes one int.
        let code = unsafe { (self.table.device_get_attribute)(&mut value, attribute as c_uint, device) };
        self.check("cuDeviceGetAttribute", code).map(|()| value)
    }

    /// The compute capability of a device: 75 for 7.5.
    ///
    /// # Errors
    /// Driver errors.
    pub fn capability(&self, device: i32) -> Result<u32> {
        use sys::CUdevice_attribute as Attribute;
        let major = self.attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let [major, minor] = [major, minor].map(|part| u32::try_from(part).unwrap_or(0));
        Ok(10 * major + minor)
    }

    /// Whether the primary context of `device` is there, which asking does not change.
    ///
    /// # Errors
    /// Driver errors.
    pub fn has_primary(&self, device: i32) -> Result<bool> {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: writes two ints.
        let code = unsafe { (self.table.primary_ctx_get_state)(device, &mut flags, &mut active) };
        self.check("cuDevicePrimaryCtxGetState", code).map(|()| active != 0)
    }

    /// Keeps the primary context of `device` alive, creating it if need be; give it back with
    /// [`release_primary`](Self::release_primary).
    ///
    /// # Errors
    /// Driver errors.
    pub fn retain_primary(&self, device: i32) -> Result<DriverContext> {
        let mut context = std::ptr::null_mut();
        // SAFETY: writes one handle.
        let code =
            self.outside_capture(|| Ok(unsafe { (self.table.primary_ctx_retain)(&mut context, device) }))?;
        self.check("cuDevicePrimaryCtxRetain", code).map(|()| DriverContext(context))
    }

    /// Gives a primary context back. A driver that is shutting down refuses, which changes nothing.
    pub fn release_primary(&self, device: i32) {
        // SAFETY: takes a device number and checks it.
        let _ = unsafe { (self.table.primary_ctx_release)(device) };
    }

    /// A number that no other context of this process ever has, also if it gets the same address.
    ///
    /// # Errors
    /// Driver errors, among them that the context was destroyed.
    pub fn context_id(&self, context: DriverContext) -> Result<u64> {
        let mut id = 0;
        // SAFETY: writes one number; the driver checks the context.
        self.check("cuCtxGetId", unsafe { (self.table.ctx_get_id)(context.0, &mut id) })?;
        Ok(id)
    }

    /// Runs `body` with `context` current, and makes current again what was before, if that was
    /// another one.
    ///
    /// # Errors
    /// Those of `body`, else those of the driver.
    pub fn within<R>(&self, context: DriverContext, body: impl FnOnce() -> Result<R>) -> Result<R> {
        if self.current_context()? == Some(context) {
            return body();
        }
        struct Pop<'a>(&'a Driver);
        impl Pop<'_> {
            fn pop(&self) -> c_int {
                let mut popped = std::ptr::null_mut();
                // SAFETY: writes one handle.
                unsafe { (self.0.table.ctx_pop)(&mut popped) }
            }
        }
        impl Drop for Pop<'_> {
            fn drop(&mut self) {
                // Reached by a panic in `body` only, which is reported in the place of this code.
                let _ = self.pop();
            }
        }
        // SAFETY: the driver checks the context.
        self.check("cuCtxPushCurrent", unsafe { (self.table.ctx_push)(context.0) })?;
        let pushed = Pop(self);
        let outcome = body();
        let code = pushed.pop();
        std::mem::forget(pushed);
        let popped = self.check("cuCtxPopCurrent", code);
        outcome.and_then(|result| popped.map(|()| result))
    }

    /// Runs `body` in a way that lets a stream capture of this thread go on around it.
    ///
    /// Loading a module, making a context and asking for an address are forbidden to a thread that
    /// captures in the default mode; relaxing the mode for that time is what the driver offers for
    /// work that has nothing to do with the captured stream.
    pub(super) fn outside_capture<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as c_uint;
        let mut exchange = || {
            // SAFETY: swaps one number with this thread's own mode.
            let code = unsafe { (self.table.thread_exchange_capture_mode)(&mut mode) };
            self.check("cuThreadExchangeStreamCaptureMode", code)
        };
        exchange()?;
        let outcome = body();
        let restored = exchange();
        outcome.and_then(|result| restored.map(|()| result))
    }

    /// Loads PTX text or machine code into the current context.
    ///
    /// # Errors
    /// Driver errors, with what its assembler says.
    pub fn load_module(&self, source: Source<'_>) -> Result<DriverModule> {
        let mut log = vec![0u8; 4096];
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER as c_uint,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as c_uint,
        ];
        // The driver reads the second value as a number.
        let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(log.len() - 1)];
        let mut module = std::ptr::null_mut();
        let code = self.outside_capture(|| {
            // SAFETY: a text ends in a zero byte, code says in its header how long it is, and both
            // arrays hold two entries.
            Ok(unsafe {
                (self.table.module_load_data_ex)(
                    &mut module,
                    source.start(),
                    2,
                    options.as_mut_ptr(),
                    values.as_mut_ptr(),
                )
            })
        });
        match code {
            Ok(SUCCESS) => Ok(DriverModule(module)),
            Ok(code) => {
                let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
                Err(self.failure("cuModuleLoadDataEx", code, String::from_utf8_lossy(text).trim().to_owned()))
            }
            Err(error) => {
                if !module.is_null() {
                    self.unload(DriverModule(module));
                }
                Err(error)
            }
        }
    }

    /// Unloads a module of the current context.
    fn unload(&self, module: DriverModule) {
        // SAFETY: loaded by this driver and known to nobody else. A failure leaves it loaded, which
        // is harmless.
        let _ = unsafe { (self.table.module_unload)(module.0) };
    }

    /// The kernel called `name` of a module of the current context.
    ///
    /// # Errors
    /// Driver errors.
    pub fn function(&self, module: DriverModule, name: &CStr) -> Result<DriverFunction> {
        let mut function = std::ptr::null_mut();
        let code = self.outside_capture(|| {
            // SAFETY: the name is a C string; the module was loaded into the current context.
            Ok(unsafe { (self.table.module_get_function)(&mut function, module.0, name.as_ptr()) })
        })?;
        match code {
            SUCCESS => Ok(DriverFunction(function)),
            code => Err(self.failure("cuModuleGetFunction", code, name.to_string_lossy().into_owned())),
        }
    }

    /// Queues a kernel with one by-value parameter on `stream` (0: the legacy default stream).
    ///
    /// # Errors
    /// Driver errors, among them those that earlier work left in the context.
    ///
    /// # Safety
    /// `function` belongs to the current context, `stream` is alive, and `params` points to the
    /// kernel's parameter. What the kernel does with the addresses in it is sound.
    pub unsafe fn launch(
        &self, function: DriverFunction, shape: LaunchShape, stream: usize, params: *const c_void,
    ) -> Result<()> {
        let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
        let stream = std::ptr::without_provenance_mut(stream);
        let mut params = [params.cast_mut()];
        // SAFETY: the function is of the current context, the stream alive, and the driver reads
        // the parameter before it returns.
        let code = unsafe {
            (self.table.launch_kernel)(
                function.0,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shape.shared,
                stream,
                params.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        self.check("cuLaunchKernel", code)
    }
}

#[cold]
fn failure(start: &Start, call: &'static str, code: c_int, detail: String) -> Error {
    let mut name = std::ptr::null();
    // SAFETY: writes one pointer; a code that the driver does not know leaves NULL or is refused.
    let known = unsafe { (start.get_error_name)(code, &mut name) } == SUCCESS && !name.is_null();
    let name = if known {
        // SAFETY: the driver's names are static C strings.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    } else {
        "an unknown error".to_owned()
    };
    Error::Driver { call, code, name, detail }
}

/// What the dynamic loader says of its last failure.
fn loader_error() -> String {
    // SAFETY: returns NULL or a C string that lives until this thread's next call of the loader.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return format!("{} cannot be loaded", LIBRARY.to_string_lossy());
    }
    // SAFETY: not NULL.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
