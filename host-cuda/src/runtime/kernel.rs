//! What compiled programs register: kernels, which do not run here, and variables of the device.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_void};

use super::error::{Code, Error, Failure, Result};
use super::model::Handle;
use super::model::kernels::{Kernel, Variable};
use super::model::memory::Kind;
use super::state::{State, state};
use super::{Out, properties, put};
use crate::report;

/// Answers a launch, and says once for each kernel what it is about.
fn refuse(function: *const c_void) -> Failure {
    let mut state = state();
    let name = match state.kernels.known(function) {
        Ok(kernel) => kernel.name.to_string_lossy().into_owned(),
        Err(failure) => return failure,
    };
    if state.kernels.told.insert(function.expose_provenance()) {
        report::always(format_args!(
            "the program launches its own kernel {name}, which needs a GPU: the host runs the calls of CUDA's libraries \
             and no device code. Build the program without it, with its path for the CPU, or with a layer of cuDNN in \
             its place"
        ));
    }
    Error::NoKernelImageForDevice.because(format_args!("{name} is device code, which does not run here"))
}

fn registered(function: *const c_void) -> Result {
    state().kernels.known(function).map(|_| ())
}

/// `dim3`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

/// What stands between `<<<` and `>>>`.
#[derive(Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: Handle,
}

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
    static MODULES: Cell<usize> = const { Cell::new(0) };
}

/// Begins the registration of a module of device code; the handle is what the others get.
///
/// # Safety
/// As the code that compilers generate calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinary(code: *const c_void) -> Handle {
    let _ = code;
    MODULES.set(MODULES.get() + 1);
    state().handle()
}

/// Ends the registration of a module.
///
/// # Safety
/// As the code that compilers generate calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinaryEnd(module: Handle) {
    let _ = module;
}

/// Forgets a module, its kernels and its variables.
///
/// # Safety
/// As the code that compilers generate calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaUnregisterFatBinary(module: Handle) {
    let mut state = state();
    state.kernels.functions.retain(|_, kernel| kernel.module != module);
    let State { kernels, memory, .. } = &mut *state;
    kernels.variables.retain(|_, variable| {
        if variable.module == module {
            // Whoever freed it before has had the error.
            let _ = memory.give(variable.start, &[Kind::Device, Kind::Managed]);
        }
        variable.module != module
    });
}

/// Registers a kernel under the address of its stub on the host.
///
/// # Safety
/// As the code that compilers generate calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFunction(
    module: Handle, stub: *const c_void, _device_function: *const c_char, name: *const c_char,
    _thread_limit: i32, _thread: *const c_void, _block: *const c_void, _block_size: *const c_void,
    _grid_size: *const c_void, _warp_size: *const i32,
) {
    // SAFETY: the compiler's text ends with a zero, where there is one.
    let name = if name.is_null() { c"without a name" } else { unsafe { CStr::from_ptr(name) } }.to_owned();
    state().kernels.functions.insert(stub.expose_provenance(), Kernel { module, name });
}

/// Registers a variable of the device under the address of its shadow on the host; it begins with
/// zeros.
///
/// # Safety
/// As the code that compilers generate calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterVar(
    module: Handle, shadow: *const c_void, _device_address: *const c_char, _name: *const c_char,
    _external: i32, size: usize, _constant: i32, _global: i32,
) {
    register(module, shadow, size, Kind::Device);
}

/// Registers a variable of host and device, and stores its address where the program looks for it.
///
/// # Safety
/// As the code that compilers generate calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterManagedVar(
    module: Handle, address: *mut *mut c_void, _device_address: *const c_char, _name: *const c_char,
    _external: i32, size: usize, _constant: i32, _global: i32,
) {
    if let Some(start) = register(module, address.cast(), size, Kind::Managed)
        && !address.is_null()
    {
        // SAFETY: the compiler gives the address of a pointer that stands for the variable.
        unsafe { address.write(std::ptr::with_exposed_provenance_mut(start)) };
    }
}

/// Registers a variable of the host that device code reads; no device code runs.
///
/// # Safety
/// As the code that compilers generate calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterHostVar(
    module: Handle, name: *const c_char, variable: *const c_void, size: usize,
) {
    let _ = (module, name, variable, size);
}

fn register(module: Handle, shadow: *const c_void, size: usize, kind: Kind) -> Option<usize> {
    let mut state = state();
    // Whoever asks for a variable that did not fit into memory is told that there is none.
    let start = state.memory.take(size.max(1), kind, 0).ok()?;
    let to: *mut u8 = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: a block of as many bytes, which nobody knows yet.
    unsafe { to.write_bytes(0, size.max(1)) };
    state.kernels.variables.insert(shadow.expose_provenance(), Variable { module, start, size });
    Some(start)
}

/// Says that the module's code could be loaded later: there is nothing to load.
///
/// # Safety
/// As the code that compilers generate calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaInitModule(module: Handle) -> c_char {
    let _ = module;
    1
}

/// Keeps what stands between `<<<` and `>>>` for the call of the stub that follows; 0, for it
/// succeeds.
///
/// # Safety
/// As the code that compilers generate calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3, block: Dim3, shared: usize, stream: Handle,
) -> u32 {
    CONFIGURATIONS.with_borrow_mut(|all| all.push(Configuration { grid, block, shared, stream }));
    0
}

runtime! {
    /// Gives back what `__cudaPushCallConfiguration` kept.
    ///
    /// Status: cudaErrorMissingConfiguration if there is none; cudaErrorInvalidValue for NULL.
    fn __cudaPopCallConfiguration(grid: Out<Dim3>, block: Out<Dim3>, shared: Out<usize>, stream: Out<Handle>) {
        let Some(configuration) = CONFIGURATIONS.with_borrow_mut(Vec::pop) else {
            return Err(Error::MissingConfiguration.because("no launch was begun"));
        };
        put(grid, "gridDim", configuration.grid)?;
        put(block, "blockDim", configuration.block)?;
        put(shared, "sharedMem", configuration.shared)?;
        put(stream, "stream", configuration.stream)
    }

    /// Refuses to run a kernel of the program, and says which it is.
    ///
    /// Status: cudaErrorNoKernelImageForDevice; cudaErrorInvalidDeviceFunction for what is no
    /// kernel of the program.
    fn cudaLaunchKernel(
        function: *const c_void, grid: Dim3, block: Dim3, arguments: *const *const c_void, shared: usize, stream: Handle,
    ) {
        let _ = (grid, block, arguments, shared, stream);
        Err(refuse(function))
    }

    /// Refuses to run a kernel of the program, and says which it is.
    ///
    /// Status: as cudaLaunchKernel.
    fn cudaLaunchKernelExC(configuration: *const c_void, function: *const c_void, arguments: *const *const c_void) {
        let _ = (configuration, arguments);
        Err(refuse(function))
    }

    /// The handle of a kernel: the address of its stub.
    ///
    /// Status: cudaErrorInvalidDeviceFunction for what is no kernel of the program;
    /// cudaErrorInvalidValue for NULL.
    fn __cudaGetKernel(kernel: Out<*const c_void>, function: *const c_void) {
        registered(function)?;
        put(kernel, "kernel", function)
    }

    /// Keeps an attribute of a kernel that does not run.
    ///
    /// Status: cudaErrorInvalidDeviceFunction for what is no kernel of the program.
    fn cudaFuncSetAttribute(function: *const c_void, attribute: i32, value: i32) {
        let _ = (attribute, value);
        registered(function)
    }

    /// Keeps a preference of a kernel that does not run.
    ///
    /// Status: as cudaFuncSetAttribute.
    fn cudaFuncSetCacheConfig(function: *const c_void, config: i32) {
        let _ = config;
        registered(function)
    }

    /// Keeps a preference of a kernel that does not run.
    ///
    /// Status: as cudaFuncSetAttribute.
    fn cudaFuncSetSharedMemConfig(function: *const c_void, config: i32) {
        let _ = config;
        registered(function)
    }

    /// The name of a kernel, as the compiler spells it.
    ///
    /// Status: cudaErrorInvalidDeviceFunction for what is no kernel of the program;
    /// cudaErrorInvalidValue for NULL.
    fn cudaFuncGetName(name: Out<*const c_char>, function: *const c_void) {
        let state = state();
        put(name, "name", state.kernels.known(function)?.name.as_ptr())
    }

    /// How many blocks of threads a multiprocessor would hold by their number alone.
    ///
    /// Status: cudaErrorInvalidDeviceFunction for what is no kernel; cudaErrorInvalidValue for NULL
    /// or no threads.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: Out<i32>, function: *const c_void, threads: i32, shared: usize,
    ) {
        occupancy(blocks, function, threads, shared)
    }

    /// The same with flags, which say nothing here.
    ///
    /// Status: as cudaOccupancyMaxActiveBlocksPerMultiprocessor.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<i32>, function: *const c_void, threads: i32, shared: usize, flags: u32,
    ) {
        let _ = flags;
        occupancy(blocks, function, threads, shared)
    }

    /// Where a variable of the device is.
    ///
    /// Status: cudaErrorInvalidSymbol for what is none; cudaErrorInvalidValue for NULL.
    fn cudaGetSymbolAddress(address: Out<*mut c_void>, symbol: *const c_void) {
        let start = state().kernels.variable(symbol, 0, 0)?;
        put(address, "devPtr", std::ptr::with_exposed_provenance_mut(start))
    }

    /// How many bytes a variable of the device has.
    ///
    /// Status: as cudaGetSymbolAddress.
    fn cudaGetSymbolSize(size: Out<usize>, symbol: *const c_void) {
        let state = state();
        state.kernels.variable(symbol, 0, 0)?;
        put(size, "size", state.kernels.variables[&symbol.expose_provenance()].size)
    }
}

fn occupancy(blocks: Out<i32>, function: *const c_void, threads: i32, shared: usize) -> Result {
    registered(function)?;
    let limit = |number| properties::attribute(number).unwrap_or(0);
    // Threads in a block, in a multiprocessor, blocks in it, bytes of shared memory in it.
    let (most, all, slots, bytes) = (limit(1), limit(39), limit(106), limit(81));
    if !(1..=most).contains(&threads) {
        return Err(Error::InvalidValue.because(format_args!("blockSize is {threads}, not 1 to {most}")));
    }
    let by_shared =
        (bytes as usize).checked_div(shared).map_or(slots, |count| i32::try_from(count).unwrap_or(slots));
    // Warps have 32 threads.
    let warps = (threads + 31) / 32 * 32;
    put(blocks, "numBlocks", (all / warps).min(slots).min(by_shared))
}

/// Two functions of old programs that convert a number for devices without binary64: it stays.
///
/// # Safety
/// Any pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaSetDoubleForDevice(number: *mut f64) -> Code {
    let _ = number;
    super::error::SUCCESS
}
