//! What one run may use: an instruction set and a number of threads.

use super::{FilterCache, Isa, threads};
use crate::mode;

/// Bytes below which waking threads costs more than it saves.
const THREADING_BYTES: usize = 256 << 10;

/// Tasks per thread, so that a thread that was held up leaves work to the others: one that sleeps
/// starts late.
pub(super) const TASKS_PER_THREAD: usize = 8;

/// The part of the computer that a run may use. Results never depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The vector instructions.
    pub isa: Isa,
    /// The number of threads a large problem is divided among, the caller's included; at least 1.
    pub threads: usize,
}

impl Machine {
    /// What is wrong with the environment's limits, a line for each that makes no sense. Such a one
    /// is as if it were not set.
    pub fn complaints() -> impl Iterator<Item = String> {
        type Complaint = fn(&str) -> Option<String>;
        let limits: [(&str, Complaint); 6] = [
            ("CUDNN_SHIM_NUM_THREADS", threads::complaint),
            ("CUDNN_SHIM_ISA", Isa::complaint),
            ("CUDNN_SHIM_CONSTANT_FILTERS", FilterCache::complaint),
            ("CUDNN_SHIM_WINOGRAD", mode::winograd_complaint),
            ("CUDNN_CONV_WSCAP_DBG", mode::cap_complaint),
            ("CUDNN_SHIM_PTX", mode::ptx_complaint),
        ];
        limits.into_iter().filter_map(|(name, complaint)| {
            let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
            let text = complaint(value.to_str().unwrap_or("not text"))?;
            Some(format!("{name}={}: {text}", value.to_string_lossy()))
        })
    }

    /// How many threads share work on `bytes` bytes.
    pub(super) fn threads_for(self, bytes: usize) -> usize {
        if bytes < THREADING_BYTES { 1 } else { self.threads }
    }

    /// All there is, within the limits that the environment sets.
    pub fn host() -> Machine {
        Machine { isa: Isa::best(), threads: threads::limit() }
    }
}
