//! The driver double, seen as a program sees a driver, and what steers it.

use std::env;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{api, child, common};

/// Whether the tests run on the driver of this machine, and not on the double:
/// `CUDNN_SHIM_TEST_DRIVER=real`. Only those that compare results are meant to.
pub fn is_real() -> bool {
    env::var_os("CUDNN_SHIM_TEST_DRIVER").is_some_and(|driver| driver == "real")
}

/// Whether tests that do too much for a double do all of it: `CUDNN_SHIM_TEST_FULL=1`, as the kit
/// for a GPU says.
pub fn is_full() -> bool {
    env::var_os("CUDNN_SHIM_TEST_FULL").is_some_and(|value| value == "1")
}

/// Whether a test that is long on a double is to do all of it: on a device, too.
pub fn does_all() -> bool {
    is_full() || is_real()
}

/// Whether the double runs the threads of a block in the other order.
pub fn is_reversed() -> bool {
    env::var("DRIVER_DOUBLE_ORDER").is_ok_and(|order| order == "reverse")
}

/// How many of so many random problems a test solves: all of them if it does [all](does_all); on a
/// double an eighth of them, and a twentieth with the threads in the other order.
pub fn cases(all: usize) -> usize {
    match (does_all(), is_reversed()) {
        (true, _) => all,
        (_, true) => all / 20,
        _ => all / 8,
    }
}

/// Whether this kernel has not run, as far as that is known: a real driver does not count, and few
/// problems are solved with the threads in the other order.
pub fn is_idle(kernel: &str) -> bool {
    !is_real() && !is_reversed() && count(kernel) == 0
}

/// Whether the number `number` of a list is in the sample of it that a double takes: every second
/// one, and those between with the threads in the other order.
pub fn is_sampled(number: usize) -> bool {
    does_all() || (number % 2 == 1) == is_reversed()
}

/// What a double runs: what the host's compiler made of the kernels' sources, or the PTX that is
/// loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    Source,
    Ptx,
}

impl Runs {
    /// What the tests are told to take: `CUDNN_SHIM_DOUBLE=ptx`, the sources without it.
    pub fn asked() -> Runs {
        match env::var("CUDNN_SHIM_DOUBLE").as_deref() {
            Ok("ptx") => Runs::Ptx,
            Ok("source") | Err(_) => Runs::Source,
            Ok(other) => panic!("CUDNN_SHIM_DOUBLE is \"ptx\" or \"source\", not {other:?}"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Runs::Source => "source",
            Runs::Ptx => "ptx",
        }
    }
}

/// Builds a double into the directory `name`, with the kernels that `sources` name, and returns it.
/// In a child it is there.
pub fn built(name: &str, runs: Runs, sources: &[PathBuf]) -> PathBuf {
    let name = if runs == Runs::Ptx { format!("{name}_ptx") } else { name.to_owned() };
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if !child::is_one() {
        let script = common::project_root().join("c_tests/driver_double/build.sh");
        let mut command = Command::new("sh");
        command.arg(script).arg(&dir).args(sources).env("CUDNN_SHIM_DOUBLE", runs.name());
        assert!(
            command.status().expect("a shell").success(),
            "the driver double was not built; it needs g++"
        );
    }
    dir
}

/// The directory with the double's libraries, built by the first test that asks; empty for the real
/// driver.
pub fn libraries() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if is_real() {
        return PathBuf::new();
    }
    BUILT.get_or_init(|| built("driver_double", Runs::asked(), &[])).clone()
}

/// The directory with the libraries of a double that runs this, whatever the tests are told.
pub fn of(runs: Runs) -> PathBuf {
    if runs == Runs::asked() { libraries() } else { built("driver_double", runs, &[]) }
}

/// Runs `body` in a child process that finds the double as its driver, and has tried it: what the
/// first handle of a process does beside being created is done, and not counted.
pub fn run(variables: &[(&str, &str)], body: impl FnOnce()) {
    run_untried(variables, || {
        if let Ok(handle) = api::create() {
            // SAFETY: a live handle.
            unsafe { assert_eq!(api::cudnnDestroy(handle), api::SUCCESS) };
        }
        if is_double() {
            // SAFETY: no arguments.
            unsafe { driver_double_forget_counts() };
        }
        body();
    });
}

/// As [`run`], but the first handle is that of `body`.
pub fn run_untried(variables: &[(&str, &str)], body: impl FnOnce()) {
    child::run(&libraries(), variables, body);
}

/// Declares functions of the double: name and parameters, all of them returning an error code or
/// nothing.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($parameter:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $($(#[$doc])*
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the driver's spelling and interface")]
        pub unsafe fn $name($($parameter: $type),*) $(-> $result)? {
            type F = unsafe extern "C" fn($($type),*) $(-> $result)?;
            // SAFETY: the double defines the symbol with this type; the caller answers for the
            // arguments.
            unsafe { std::mem::transmute::<*mut c_void, F>(symbol(stringify!($name)))($($parameter),*) }
        })*
    };
}

/// An object of the driver.
pub type Object = *mut c_void;

functions! {
    fn cuInit(flags: c_uint) -> c_int;
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> c_int;
    fn cuDevicePrimaryCtxRetain(context: *mut Object, device: c_int) -> c_int;
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_int;
    fn cuDevicePrimaryCtxReset_v2(device: c_int) -> c_int;
    fn cuCtxCreate_v2(context: *mut Object, flags: c_uint, device: c_int) -> c_int;
    fn cuCtxDestroy_v2(context: Object) -> c_int;
    fn cuCtxGetCurrent(context: *mut Object) -> c_int;
    fn cuCtxSetCurrent(context: Object) -> c_int;
    fn cuCtxPushCurrent_v2(context: Object) -> c_int;
    fn cuCtxPopCurrent_v2(context: *mut Object) -> c_int;
    fn cuCtxSynchronize() -> c_int;
    fn cuMemAlloc_v2(address: *mut u64, size: usize) -> c_int;
    fn cuMemFree_v2(address: u64) -> c_int;
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int;
    fn cuMemsetD8_v2(address: u64, value: u8, size: usize) -> c_int;
    fn cuMemAllocManaged(address: *mut u64, size: usize, flags: c_uint) -> c_int;
    fn cuMemHostAlloc(address: *mut u64, size: usize, flags: c_uint) -> c_int;
    fn cuMemFreeHost(address: u64) -> c_int;
    fn cuMemHostRegister_v2(address: u64, size: usize, flags: c_uint) -> c_int;
    fn cuMemHostUnregister(address: u64) -> c_int;
    fn cuMemAllocAsync(address: *mut u64, size: usize, stream: Object) -> c_int;
    fn cuMemFreeAsync(address: u64, stream: Object) -> c_int;
    fn cuMemAddressReserve(address: *mut u64, size: usize, alignment: usize, wish: u64, flags: u64) -> c_int;
    fn cuMemCreate(memory: *mut Object, size: usize, properties: *const c_void, flags: u64) -> c_int;
    fn cuMemMap(address: u64, size: usize, offset: usize, memory: Object, flags: u64) -> c_int;
    fn cuMemUnmap(address: u64, size: usize) -> c_int;
    fn cuMemSetAccess(address: u64, size: usize, access: *const c_void, count: usize) -> c_int;
    fn cuPointerGetAttributes(
        count: c_uint,
        attributes: *mut c_uint,
        places: *mut *mut c_void,
        address: u64
    ) -> c_int;
    fn cuCtxEnablePeerAccess(context: Object, flags: c_uint) -> c_int;
    fn cuMemcpyHtoD_v2(dst: u64, src: *const c_void, size: usize) -> c_int;
    fn cuMemcpyDtoH_v2(dst: *mut c_void, src: u64, size: usize) -> c_int;
    fn cuStreamCreate(stream: *mut Object, flags: c_uint) -> c_int;
    fn cuStreamDestroy_v2(stream: Object) -> c_int;
    fn cuStreamSynchronize(stream: Object) -> c_int;
    fn cuStreamBeginCapture_v2(stream: Object, mode: c_uint) -> c_int;
    fn cuStreamEndCapture(stream: Object, graph: *mut Object) -> c_int;
    fn cuGraphInstantiateWithFlags(instance: *mut Object, graph: Object, flags: u64) -> c_int;
    fn cuGraphLaunch(instance: Object, stream: Object) -> c_int;
    fn cuModuleLoadDataEx(
        module: *mut Object,
        image: *const c_char,
        count: c_uint,
        options: *mut c_uint,
        values: *mut *mut c_void
    ) -> c_int;
    fn cuModuleGetFunction(function: *mut Object, module: Object, name: *const c_char) -> c_int;
    fn cuLaunchKernel(
        function: Object, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint,
        shared: c_uint, stream: Object, parameters: *mut *mut c_void, extra: *mut *mut c_void
    ) -> c_int;
    fn driver_double_fail(entry: *const c_char, nth: c_uint, code: c_int);
    fn driver_double_withdraw_faults() -> c_uint;
    fn driver_double_forget_counts();
    fn driver_double_count(entry: *const c_char) -> c_uint;
    fn driver_double_sample(blocks: c_uint);
    fn driver_double_traffic(figures: *mut u64);
    fn driver_double_shut_down();
    fn driver_double_poison(code: c_int);
}

/// The address of one of the driver's functions, null if it has none of that name.
fn find(name: &str) -> *mut c_void {
    let name = CString::new(name).expect("a name");
    // SAFETY: both arguments are C strings; the library stays open.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "a driver is in the loader's path");
        libc::dlsym(library, name.as_ptr())
    }
}

/// The address of one of the double's functions.
fn symbol(name: &str) -> *mut c_void {
    let symbol = find(name);
    assert!(!symbol.is_null(), "the double has {name}");
    symbol
}

/// Whether the driver is the double, whatever the tests are told.
pub fn is_double() -> bool {
    !find("driver_double_sample").is_null()
}

/// The compute capability of a device: 75 for 7.5.
pub fn capability(device: c_int) -> u32 {
    let mut parts = [0; 2];
    for (part, attribute) in parts.iter_mut().zip([75, 76]) {
        // SAFETY: a place for the result.
        unsafe { assert_eq!(cuDeviceGetAttribute(part, attribute, device), 0) };
    }
    (10 * parts[0] + parts[1]) as u32
}

/// Resets a device and uses it again, as the CUDA runtime does: its primary context is another one,
/// at the same address.
pub fn renew(device: c_int) {
    let mut context = std::ptr::null_mut();
    // SAFETY: plain calls of the driver with a place for the result.
    unsafe {
        assert_eq!(cuDevicePrimaryCtxReset_v2(device), 0);
        assert_eq!(cuDevicePrimaryCtxRetain(&mut context, device), 0);
    }
}

/// Makes the primary context of a device current in this thread, as the CUDA runtime does.
pub fn use_device(device: c_int) {
    let mut context = std::ptr::null_mut();
    // SAFETY: plain calls of the driver with places for their results.
    unsafe {
        assert_eq!(cuInit(0), 0);
        assert_eq!(cuDevicePrimaryCtxRetain(&mut context, device), 0);
        assert_eq!(cuCtxSetCurrent(context), 0);
    }
}

/// How often `entry` was called.
pub fn count(entry: &str) -> u32 {
    let entry = CString::new(entry).expect("a name");
    // SAFETY: a C string.
    unsafe { driver_double_count(entry.as_ptr()) }
}

/// Lets the `nth` call from now of `entry`, counted from 0, fail with `code`.
pub fn fail(entry: &str, nth: u32, code: c_int) {
    let entry = CString::new(entry).expect("a name");
    // SAFETY: a C string.
    unsafe { driver_double_fail(entry.as_ptr(), nth, code) }
}

/// Withdraws the faults that did not happen, and tells how many these are.
pub fn withdraw_faults() -> u32 {
    // SAFETY: no arguments.
    unsafe { driver_double_withdraw_faults() }
}

/// What kernels asked of device memory: accesses of warps, their 32-byte sectors, and the bytes
/// that lanes asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub accesses: u64,
    pub sectors: u64,
    pub bytes: u64,
}

/// What was read and written since the last call, and how often a number was divided by one known
/// before the launch.
pub fn traffic() -> ([Traffic; 2], u64) {
    let mut figures = [0; 7];
    // SAFETY: as many numbers as the double writes.
    unsafe { driver_double_traffic(figures.as_mut_ptr()) };
    let of = |at: usize| Traffic { accesses: figures[at], sectors: figures[at + 1], bytes: figures[at + 2] };
    ([of(0), of(3)], figures[6])
}

/// Of grids of more than `3 * blocks` blocks only so many run at the start, in the middle and at
/// the end; 0: all.
pub fn sample(blocks: u32) {
    // A real driver runs all of them, and fast.
    if !is_double() {
        return;
    }
    // SAFETY: a plain number.
    unsafe { driver_double_sample(blocks) }
}

pub use crate::memory::Memory;
