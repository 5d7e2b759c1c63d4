//! The kernels: embedded as compressed PTX, in a release also as machine code, and in each context
//! loaded one by one, by the first call that needs each: as machine code where there is some that
//! the device runs and the driver takes, else as PTX.
//!
//! # Adding a family of kernels
//! 1. `kernels/<family>.cu`: the parameters as a struct (a multiple of 8 bytes, at most 4 KiB,
//!    `static_assert` its size), and the entry points,
//!    `extern "C" __global__ void __launch_bounds__(THREADS) name(const Parameters p)`. What
//!    families share is in the `.cuh` files; instantiate few kernels, and choose types at run time.
//! 2. `cargo xtask ptx <family>`: writes `ptx/<family>.ptx` and `ptx/<family>.tsv` (registers,
//!    bytes in flight), both to be committed. Nothing lists families: the build embeds every file
//!    of that folder.
//! 3. `<family>.rs` here, and its `mod` line: the same struct, `#[repr(C)]` and `Copy`, the same
//!    assertion of its size, and a function that emits [`Launch`]es with
//!    `Params::new(&parameters)`, by the names of the kernels.
//! 4. `tests/ptx/<family>.rs`: launches that name every kernel once, for the test that holds
//!    parameter sizes against the PTX; and a problem for each kernel in `tests/cuda`, which runs
//!    the sources and the PTX on the driver double.

use std::collections::HashMap;
use std::ffi::CString;
use std::io::Read;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lzma_rust2::LzmaReader;

use super::driver::{Driver, DriverFunction, DriverModule};
use super::launch::{Device, Launch};
use super::machine::{self, Source};
use super::{numbers, pack};
use crate::error::{Error, Result};
use crate::mode;

/// The embedded text of a family.
struct Family {
    name: &'static str,
    /// What every kernel follows in a module of its own.
    preamble: &'static str,
    /// The words of all kernels, then their numbers (see [`numbers`]), compressed, and how many
    /// bytes they are.
    packed: &'static [u8],
    size: usize,
    /// The pack of its machine code, empty if there is none.
    machine: &'static [u8],
}

/// A kernel of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The name of its entry point.
    pub name: &'static str,
    /// Bytes of its one parameter.
    pub parameter: usize,
    /// The number of its family.
    family: usize,
    /// Where its words and its numbers stand in those of the family: from, to.
    words: (usize, usize),
    numbers: (usize, usize),
}

// `FAMILIES`, and `KERNELS` by name.
include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// Every kernel, ordered by name.
pub fn kernels() -> &'static [Kernel] {
    KERNELS
}

impl Kernel {
    /// The name of the file that it comes from.
    pub fn family(&self) -> &'static str {
        FAMILIES[self.family].name
    }

    /// The PTX of a module that holds this kernel alone.
    ///
    /// # Errors
    /// [`Error::Internal`] if the embedded text is damaged.
    pub fn text(&self) -> Result<String> {
        let family = &FAMILIES[self.family];
        let damaged = || Error::Internal(format!("the embedded text of {} is damaged", family.name).into());
        let mut bytes = vec![0; family.size];
        LzmaReader::new_mem_limit(family.packed, u32::MAX, None)
            .and_then(|mut reader| reader.read_exact(&mut bytes))
            .map_err(|_| damaged())?;
        let part = |(start, end): (usize, usize)| bytes.get(start..end).ok_or_else(damaged);
        let text = numbers::join(part(self.words)?, part(self.numbers)?).ok_or_else(damaged)?;
        Ok(format!("{}{text}", family.preamble))
    }
}

/// Packs that tests bring, which stand in the place of those that are embedded.
static OFFERED: Mutex<Vec<(&str, &[u8])>> = Mutex::new(Vec::new());

/// Takes this pack for the machine code of a family from now on, if it is made of the embedded
/// texts: for tests, whose library has none. The pack stays for the rest of the process.
///
/// # Errors
/// What is wrong with it.
pub fn offer(family: &str, bytes: Vec<u8>) -> std::result::Result<(), String> {
    let own = || KERNELS.iter().filter(|kernel| kernel.family() == family);
    let name = own().next().ok_or("there is no such family")?.family();
    let texts: Result<Vec<_>> = own().map(|kernel| Ok((kernel.name, kernel.text()?))).collect();
    pack::read(&bytes)?.check(&texts.map_err(|error| error.to_string())?)?;
    OFFERED.lock().unwrap_or_else(PoisonError::into_inner).push((name, bytes.leak()));
    Ok(())
}

/// The pack of a family's machine code, empty if there is none.
fn packed(family: &Family) -> &'static [u8] {
    let offered = OFFERED.lock().unwrap_or_else(PoisonError::into_inner);
    let offered = offered.iter().find(|(name, _)| *name == family.name);
    offered.map_or(family.machine, |(_, bytes)| bytes)
}

/// Bytes of machine code that were unpacked in this process.
pub fn unpacked() -> u64 {
    machine::unpacked()
}

/// Gives back unpacked code that no kernel was loaded from for a while.
#[inline]
pub(super) fn tidy() {
    machine::tidy();
}

/// Codes by which a driver refuses an image, but not the kernel: an invalid one, none for this
/// device, PTX that it does not take, source.
const REFUSALS: [i32; 5] = [200, 209, 218, 222, 300];

/// A bit for each of [`pack::ARCHITECTURES`] whose code the driver has refused, and is not offered
/// again: every image of it comes from one assembler.
static REFUSED: AtomicU32 = AtomicU32::new(0);

/// What is to be said of a refusal.
static REFUSAL: Mutex<Option<String>> = Mutex::new(None);

/// Whether anything is.
static IS_REFUSED: AtomicU32 = AtomicU32::new(0);

/// What is to be said of machine code that the driver has refused, once for each architecture.
#[inline]
pub fn refusal() -> Option<String> {
    if IS_REFUSED.load(Ordering::Relaxed) == 0 || IS_REFUSED.swap(0, Ordering::Relaxed) == 0 {
        return None;
    }
    REFUSAL.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The bit of an architecture in [`REFUSED`].
fn bit(architecture: u32) -> u32 {
    let at = pack::ARCHITECTURES.iter().position(|known| *known == architecture);
    at.map_or(0, |at| 1 << at)
}

/// Has the driver load the module of a kernel into the current context, which is of such a device.
///
/// # Errors
/// Driver errors, with what its assembler says.
pub fn load(driver: &Driver, kernel: &Kernel, device: Device) -> Result<DriverModule> {
    let family = &FAMILIES[kernel.family];
    let packed = packed(family);
    if !packed.is_empty() && !mode::forces_ptx() {
        // The build has read it, too.
        let pack = pack::read(packed).map_err(|error| Error::Internal(error.into()))?;
        for image in machine::candidates(&pack, kernel.name, device.capability) {
            let bit = bit(image.architecture);
            if REFUSED.load(Ordering::Relaxed) & bit != 0 {
                continue;
            }
            let code = machine::unpack(family.name, &pack, image)?;
            match driver.load_module(Source::Code(&code)) {
                Err(Error::Driver { code, name, .. }) if REFUSALS.contains(&code) => {
                    if REFUSED.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
                        let text = format!(
                            "the driver does not take the machine code for sm_{} ({name}, {code}); first uses of \
                             kernels wait for its assembler",
                            image.architecture
                        );
                        *REFUSAL.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
                        IS_REFUSED.store(1, Ordering::Relaxed);
                    }
                }
                outcome => return outcome,
            }
        }
    }
    let text = CString::new(kernel.text()?)
        .map_err(|_| Error::Internal(format!("the text of {} holds a zero byte", kernel.name).into()))?;
    driver.load_module(Source::Text(&text)).map_err(explained)
}

/// A kernel in one context.
#[derive(Default)]
struct Slot {
    function: OnceLock<DriverFunction>,
    /// Held while the kernel is loaded, so that a second thread waits for it instead of loading it,
    /// too.
    loading: Mutex<()>,
}

/// The kernels of one context, in the order of [`kernels`].
type Slots = Arc<[Slot]>;

/// The slots of every context by its id. A context takes its modules with it when it is destroyed,
/// and its id never comes back, so nothing is ever unloaded here: what stays is a few kilobytes per
/// context.
static LOADED: Mutex<Option<HashMap<u64, Slots>>> = Mutex::new(None);

fn slots(context: u64) -> Slots {
    let mut contexts = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let slots = contexts.get_or_insert_default().entry(context);
    slots.or_insert_with(|| KERNELS.iter().map(|_| Slot::default()).collect()).clone()
}

/// The kernels of one context, as a handle keeps them.
#[derive(Clone)]
pub(super) struct Loaded {
    context: u64,
    device: Device,
    slots: Slots,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("context", &self.context).finish_non_exhaustive()
    }
}

impl Loaded {
    /// The kernels of the context whose id is `context`, on such a device.
    pub(super) fn of(context: u64, device: Device) -> Loaded {
        Loaded { context, device, slots: slots(context) }
    }

    /// The id of the context.
    pub(super) fn context(&self) -> u64 {
        self.context
    }

    /// The kernel of a launch in this context, which is the current one. The first launch of a
    /// kernel in a context loads it, which takes the driver's assembler tens of milliseconds if
    /// there is no machine code, and may wait for work of that context; it holds up nobody but
    /// those who want the same kernel there, and others only while machine code is unpacked. A
    /// failure is not remembered.
    ///
    /// # Errors
    /// Driver errors, with what its assembler says.
    pub(super) fn function(&self, driver: &Driver, launch: &Launch) -> Result<DriverFunction> {
        let wrong = |what: &str| Error::Internal(format!("the kernel {} {what}", launch.kernel).into());
        let number = KERNELS.binary_search_by_key(&launch.kernel, |kernel| kernel.name);
        let number = number.map_err(|_| wrong("is none of the library's"))?;
        let kernel = &KERNELS[number];
        if launch.params.size() != kernel.parameter {
            return Err(wrong("takes other parameters"));
        }
        let slot = &self.slots[number];
        if let Some(function) = slot.function.get() {
            return Ok(*function);
        }
        let _loading = slot.loading.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster.
        if let Some(function) = slot.function.get() {
            return Ok(*function);
        }
        let symbol = CString::new(kernel.name).map_err(|_| wrong("holds a zero byte"))?;
        let module = load(driver, kernel, self.device)?;
        let function = driver.function(module, &symbol)?;
        Ok(*slot.function.get_or_init(|| function))
    }
}

/// Adds to an error of loading what its reader can do about it.
fn explained(mut error: Error) -> Error {
    if let Error::Driver { code, detail, .. } = &mut error {
        let advice = match code {
            218 => "the driver's assembler does not take a kernel of this library",
            221 => {
                "the driver assembles kernels with libnvidia-ptxjitcompiler.so.1, which is not installed here, or not \
                 passed through to this container"
            }
            222 => "the driver is older than what this library's kernels are written in",
            223 => "the kernels have to be assembled here, which CUDA_DISABLE_PTX_JIT forbids",
            _ => return error,
        };
        *detail = if detail.is_empty() { advice.to_owned() } else { format!("{advice}: {detail}") };
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_a_module_of_its_own() {
        for kernel in kernels() {
            let text = kernel.text().unwrap();
            assert!(text.starts_with(".version 8.0\n.target sm_"), "{}: {:.40}", kernel.name, text);
            assert_eq!(text.matches(".entry").count(), 1, "{}", kernel.name);
            assert!(text.contains(&format!(".visible .entry {}(", kernel.name)), "{}", kernel.name);
            assert!(text.ends_with("\n}\n"), "{}", kernel.name);
        }
    }
}
