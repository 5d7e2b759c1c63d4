//! Algorithm descriptors and performances, which version 9 removed: plain data that a program stores and reads back.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, results};
use super::context;
use super::guard::Argument;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    Algorithm, cudnnAlgorithm_t, cudnnAlgorithmDescriptor_t, cudnnAlgorithmPerformance_t, cudnnHandle_t,
    cudnnStatus_t, raw,
};
use crate::error::{Error, Result};
use crate::ops::check_size;
use crate::sync::Lock;

static ALGORITHMS: Table<cudnnAlgorithm_t> = Table::new(Kind::Algorithm);
static PERFORMANCES: Table<Performance> = Table::new(Kind::AlgorithmPerformance);

/// Whether a descriptor is alive.
///
/// # Errors
/// Bad parameter for one that is not.
pub(super) fn check(desc: cudnnAlgorithmDescriptor_t) -> Result<()> {
    ALGORITHMS.with(desc.addr(), "algoDesc", |_| Ok(()))
}

/// Whether a performance is alive.
///
/// # Errors
/// Bad parameter for one that is not.
pub(super) fn check_performance(
    performance: cudnnAlgorithmPerformance_t, argument: &'static str,
) -> Result<()> {
    PERFORMANCES.with(performance.addr(), argument, |_| Ok(()))
}

/// Stores what a search found of algorithm 0, which has one descriptor for all searches.
///
/// # Errors
/// Bad parameter for a performance that is not alive; host allocation.
pub(super) fn set_performance(
    performance: cudnnAlgorithmPerformance_t, argument: &'static str, time: f32, memory: usize,
) -> Result<()> {
    let algorithm = standard()?;
    PERFORMANCES.with_mut(performance.addr(), argument, |stored| {
        let status = MaybeUninit::new(cudnnStatus_t::CUDNN_STATUS_SUCCESS);
        *stored = Performance { algorithm, status, time, memory };
        Ok(())
    })
}

/// The descriptor of algorithm 0 that searches give. A program may have destroyed it, or changed what it holds.
fn standard() -> Result<usize> {
    static STANDARD: Lock<usize> = Lock::new(0);
    // A child of a process that was making one makes its own.
    let mut standard = STANDARD.write(|known| known.replace(0));
    if ALGORITHMS.replace(*standard, "algoDesc", || Ok(cudnnAlgorithm_t::default())).is_err() {
        *standard = ALGORITHMS.insert(cudnnAlgorithm_t::default())?;
    }
    Ok(*standard)
}

/// Algorithm 0.
impl Default for cudnnAlgorithm_t {
    fn default() -> Self {
        cudnnAlgorithm_t { algo: Algorithm { convFwdAlgo: MaybeUninit::zeroed() } }
    }
}

impl Argument for cudnnAlgorithm_t {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: every member of the union is an int of any value.
        write!(f, "{}", raw(unsafe { self.algo.convFwdAlgo }))
    }
}

/// What a search found out about an algorithm.
#[derive(Clone, Copy)]
struct Performance {
    /// The algorithm descriptor as the program gave it, as an address; 0 before.
    algorithm: usize,
    status: MaybeUninit<cudnnStatus_t>,
    /// Milliseconds.
    time: f32,
    /// Bytes of workspace.
    memory: usize,
}

/// Creates an algorithm descriptor that holds algorithm 0.
///
/// Status: BAD_PARAM if `algoDesc` is NULL.
///
/// # Safety
/// `algoDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateAlgorithmDescriptor(
    algoDesc: *mut cudnnAlgorithmDescriptor_t,
) -> cudnnStatus_t {
    create!(algoDesc, ALGORITHMS)
}

/// Stores an algorithm, whatever its number.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetAlgorithmDescriptor(
    algoDesc: cudnnAlgorithmDescriptor_t, algorithm: cudnnAlgorithm_t,
) -> cudnnStatus_t {
    ALGORITHMS.with_mut(algoDesc.addr(), "algoDesc", |stored| {
        *stored = algorithm;
        Ok(())
    })
}

/// The algorithm as stored.
///
/// Status: BAD_PARAM for a descriptor that is not alive, or if `algorithm` is NULL.
///
/// # Safety
/// `algorithm` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetAlgorithmDescriptor(
    algoDesc: cudnnAlgorithmDescriptor_t, algorithm: *mut cudnnAlgorithm_t,
) -> cudnnStatus_t {
    let stored = ALGORITHMS.get(algoDesc.addr(), "algoDesc")?;
    results!(new algorithm = stored)
}

/// Copies the algorithm of one descriptor to another.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnCopyAlgorithmDescriptor(
    src: cudnnAlgorithmDescriptor_t, dest: cudnnAlgorithmDescriptor_t,
) -> cudnnStatus_t {
    let algorithm = ALGORITHMS.get(src.addr(), "src")?;
    ALGORITHMS.with_mut(dest.addr(), "dest", |stored| {
        *stored = algorithm;
        Ok(())
    })
}

/// Destroys an algorithm descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroyAlgorithmDescriptor(algoDesc: cudnnAlgorithmDescriptor_t) -> cudnnStatus_t {
    destroy!(algoDesc, ALGORITHMS)
}

/// Bytes that an algorithm takes when it is saved: those of its number.
///
/// Status: BAD_PARAM for a handle or descriptor that is not alive, or if `algoSpaceSizeInBytes` is NULL.
///
/// # Safety
/// `algoSpaceSizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetAlgorithmSpaceSize(
    handle: cudnnHandle_t, algoDesc: cudnnAlgorithmDescriptor_t, algoSpaceSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    ALGORITHMS.get(algoDesc.addr(), "algoDesc")?;
    results!(new algoSpaceSizeInBytes = size_of::<cudnnAlgorithm_t>())
}

/// Saves an algorithm to host memory.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, if `algoSpace` is NULL, or if it is
/// smaller than cudnnGetAlgorithmSpaceSize tells. A failing call writes nothing.
///
/// # Safety
/// `algoSpace` is NULL or valid for writes of `algoSpaceSizeInBytes`.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSaveAlgorithm(
    handle: cudnnHandle_t, algoDesc: cudnnAlgorithmDescriptor_t, algoSpace: *mut c_void,
    algoSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    let stored = ALGORITHMS.get(algoDesc.addr(), "algoDesc")?;
    arg::required(algoSpace, "algoSpace")?;
    check_size(algoSpaceSizeInBytes, size_of::<cudnnAlgorithm_t>(), "algoSpaceSizeInBytes")?;
    // SAFETY: not NULL and large enough, as was just checked and the caller vouches for.
    unsafe { algoSpace.cast::<cudnnAlgorithm_t>().write_unaligned(stored) };
    Ok(())
}

/// Restores an algorithm that cudnnSaveAlgorithm has saved.
///
/// Status, in this order: BAD_PARAM for a handle that is not alive, if `algoSpace` is NULL or smaller than
/// cudnnGetAlgorithmSpaceSize tells, or for a descriptor that is not alive.
///
/// # Safety
/// `algoSpace` is NULL or valid for reads of `algoSpaceSizeInBytes`.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRestoreAlgorithm(
    handle: cudnnHandle_t, algoSpace: *mut c_void, algoSpaceSizeInBytes: usize,
    algoDesc: cudnnAlgorithmDescriptor_t,
) -> cudnnStatus_t {
    context::check(handle)?;
    arg::required(algoSpace, "algoSpace")?;
    check_size(algoSpaceSizeInBytes, size_of::<cudnnAlgorithm_t>(), "algoSpaceSizeInBytes")?;
    // SAFETY: not NULL and large enough; every member of the union is an int of any value.
    let saved = unsafe { algoSpace.cast::<cudnnAlgorithm_t>().read_unaligned() };
    ALGORITHMS.with_mut(algoDesc.addr(), "algoDesc", |stored| {
        *stored = saved;
        Ok(())
    })
}

/// Creates `numberToCreate` performances; all of them or none.
///
/// Status: BAD_PARAM for a negative number, or if `algoPerf` is NULL.
///
/// # Safety
/// `algoPerf` is NULL or valid for writes of `numberToCreate` handles.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateAlgorithmPerformance(
    algoPerf: *mut cudnnAlgorithmPerformance_t, numberToCreate: c_int,
) -> cudnnStatus_t {
    arg::required(algoPerf, "algoPerf")?;
    let empty = Performance { algorithm: 0, status: MaybeUninit::zeroed(), time: 0.0, memory: 0 };
    let mut created = Vec::new();
    for _ in 0..count(numberToCreate, "numberToCreate")? {
        match PERFORMANCES.insert(empty) {
            Ok(handle) => created.push(handle),
            Err(error) => {
                for handle in created {
                    PERFORMANCES.remove(handle, "algoPerf")?;
                }
                return Err(error);
            }
        }
    }
    // SAFETY: `algoPerf` is not NULL, and has room for `numberToCreate` handles.
    unsafe { arg::store(algoPerf, created.into_iter().map(std::ptr::without_provenance_mut)) };
    Ok(())
}

/// Stores an algorithm with its status, its time in milliseconds and its workspace in bytes.
///
/// Status: BAD_PARAM for a performance that is not alive. Nothing else is judged.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetAlgorithmPerformance(
    algoPerf: cudnnAlgorithmPerformance_t, algoDesc: cudnnAlgorithmDescriptor_t,
    status: MaybeUninit<cudnnStatus_t>, time: f32, memory: usize,
) -> cudnnStatus_t {
    PERFORMANCES.with_mut(algoPerf.addr(), "algoPerf", |stored| {
        *stored = Performance { algorithm: algoDesc.addr(), status, time, memory };
        Ok(())
    })
}

/// The performance as stored.
///
/// Status: BAD_PARAM for a performance that is not alive, or if any pointer is NULL.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetAlgorithmPerformance(
    algoPerf: cudnnAlgorithmPerformance_t, algoDesc: *mut cudnnAlgorithmDescriptor_t,
    status: *mut cudnnStatus_t, time: *mut f32, memory: *mut usize,
) -> cudnnStatus_t {
    let stored = PERFORMANCES.get(algoPerf.addr(), "algoPerf")?;
    results! {
        new algoDesc = std::ptr::without_provenance_mut(stored.algorithm),
        // What was stored may be no enumerator.
        code status = raw(stored.status),
        new time = stored.time,
        new memory = stored.memory,
    }
}

/// Destroys `numberToDestroy` performances; NULL entries are fine.
///
/// Status: BAD_PARAM for a negative number, if `algoPerf` is NULL, or for an entry that is not alive; the entries
/// before it are destroyed then.
///
/// # Safety
/// `algoPerf` is NULL or valid for reads of `numberToDestroy` handles.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyAlgorithmPerformance(
    algoPerf: *mut cudnnAlgorithmPerformance_t, numberToDestroy: c_int,
) -> cudnnStatus_t {
    arg::required(algoPerf, "algoPerf")?;
    for index in 0..count(numberToDestroy, "numberToDestroy")? {
        // SAFETY: `algoPerf` is not NULL, and holds `numberToDestroy` handles.
        let handle = unsafe { algoPerf.add(index).read_unaligned() };
        if !handle.is_null() {
            PERFORMANCES.remove(handle.addr(), "algoPerf")?;
        }
    }
    Ok(())
}

fn count(number: c_int, argument: &'static str) -> Result<usize> {
    usize::try_from(number).map_err(|_| Error::argument(argument, number.into(), "must not be negative"))
}
