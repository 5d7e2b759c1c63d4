//! Why a process has no CUDA core.

use std::fmt;

use crate::error::Error;

/// Oldest driver that serves: 12.0 (525), the first with context ids and with the PTX version that
/// is embedded.
pub(super) const MIN_VERSION: i32 = 12_000;

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: i32 = 100;

/// Why there is no CUDA core in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The loader found no driver; its own words.
    NoLibrary(String),
    /// The driver that the loader found is that of host CUDA, which has no device that runs
    /// kernels.
    OfHost,
    /// The driver lacks a symbol that this library needs.
    MissingSymbol(&'static str),
    /// The driver is older than 525, which serves CUDA 12.0.
    TooOld(i32),
    /// The driver could not be started.
    Failed(Error),
    /// The driver sees no device.
    NoDevice,
    /// The driver sees a device that fails a first allocation, copy or kernel.
    Trial(Error),
    /// This process is a child that was forked once the driver was started, or while it was.
    Forked,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::NoLibrary(reason) => write!(f, "no CUDA driver ({reason})"),
            Unavailable::OfHost => f.write_str("the CUDA driver is that of host CUDA, on host memory"),
            Unavailable::MissingSymbol(symbol) => write!(f, "the CUDA driver has no {symbol}"),
            Unavailable::TooOld(version) => write!(
                f,
                "the CUDA driver serves CUDA {}.{}, at least {}.0 is needed",
                version / 1000,
                version % 1000 / 10,
                MIN_VERSION / 1000
            ),
            Unavailable::Failed(error) => write!(f, "{error}"),
            Unavailable::NoDevice => f.write_str("the CUDA driver sees no device"),
            Unavailable::Trial(error) => write!(f, "the device fails a first trial: {error}"),
            Unavailable::Forked => f.write_str(
                "this process was forked from the one that started the CUDA driver, and has none of its own",
            ),
        }
    }
}

impl Unavailable {
    /// Whether somebody who has a device would want to know: not where there is no driver, or no
    /// device for it.
    pub fn is_unexpected(&self) -> bool {
        let no_device = |error: &Error| matches!(error, Error::Driver { code: NO_DEVICE, .. });
        match self {
            Unavailable::NoLibrary(_) | Unavailable::OfHost | Unavailable::NoDevice => false,
            Unavailable::Failed(error) => !no_device(error),
            Unavailable::MissingSymbol(_)
            | Unavailable::TooOld(_)
            | Unavailable::Trial(_)
            | Unavailable::Forked => true,
        }
    }
}
