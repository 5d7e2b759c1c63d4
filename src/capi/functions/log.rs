//! The call log and the user's callback; both silent unless asked for.
//!
//! `CUDNN_LOGLEVEL_DBG` (0 off, 1 errors, 2 warnings, 3 information) and `CUDNN_LOGDEST_DBG` (`stdout`,
//! `stderr` or a file name, in which `%i` is the process id) as in version 9; the version-8 names
//! `CUDNN_LOGERR_DBG`, `CUDNN_LOGWARN_DBG` and
//! `CUDNN_LOGINFO_DBG` (non-zero: on) raise the level too. Without a destination nothing is written.

use std::ffi::{OsStr, OsString, c_uint, c_void};
use std::fmt;
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::recorded;
use super::release::Version;
use super::types::{CUDNN_SEV_ERROR_EN, CUDNN_SEV_INFO_EN, CUDNN_SEV_WARNING_EN};
use super::types::{cudnnCallback_t, cudnnDebug_t, cudnnSeverity_t, cudnnStatus_t};
use crate::error::Error;
use crate::exec::CallReport;
use crate::sync::{Lock, Once, Vanished};

/// Where the text log goes, and how much of it.
struct Sink {
    level: u32,
    /// Written to without a lock, each line by one call of the system where it takes it whole. Open for good.
    file: RawFd,
}

/// The user's callback as `cudnnSetCallback` stored it.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    pub(crate) mask: c_uint,
    pub(crate) udata: *mut c_void,
    pub(crate) function: cudnnCallback_t,
}

// SAFETY: `udata` is only handed back to the user's function, which the user registered for all threads.
unsafe impl Send for Callback {}
// SAFETY: threads that share it pass `udata` to that function, and do nothing else with it.
unsafe impl Sync for Callback {}

static CALLBACK: Lock<Callback> = Lock::new(NO_CALLBACK);

const NO_CALLBACK: Callback = Callback { mask: 0, udata: std::ptr::null_mut(), function: None };

/// For a child of a process one of whose threads was setting the callback.
fn no_callback(callback: &mut Vanished<Callback>) {
    callback.replace(NO_CALLBACK);
}

/// Bit of [`LISTENERS`]: a callback wants information on every call.
const CALLBACK_INFO: u32 = 1;
/// Bit of [`LISTENERS`]: the text log wants information on every call.
const SINK_INFO: u32 = 2;
/// Bit of [`LISTENERS`]: the environment was read.
const READY: u32 = 4;

/// Who listens to successful calls: one relaxed load on the path of every call.
static LISTENERS: AtomicU32 = AtomicU32::new(0);

/// Whether anyone wants to hear of a successful call.
#[inline]
pub(crate) fn wants_calls() -> bool {
    let listeners = LISTENERS.load(Ordering::Relaxed);
    listeners != READY && listening(listeners)
}

#[cold]
fn listening(listeners: u32) -> bool {
    if listeners & READY != 0 {
        return true;
    }
    let bits = if sink().is_some_and(|sink| sink.level >= 3) { SINK_INFO } else { 0 };
    LISTENERS.fetch_or(READY | bits, Ordering::Relaxed) | bits != 0
}

fn sink() -> Option<&'static Sink> {
    static SINK: Once<Option<Sink>> = Once::new();
    SINK.get_or_init(|| {
        let number = |name| std::env::var(name).ok().and_then(|text| text.trim().parse::<u32>().ok());
        let level = [("CUDNN_LOGERR_DBG", 1), ("CUDNN_LOGWARN_DBG", 2), ("CUDNN_LOGINFO_DBG", 3)]
            .into_iter()
            .filter(|&(name, _)| number(name).is_some_and(|value| value != 0))
            .map(|(_, level)| level)
            .chain(number("CUDNN_LOGLEVEL_DBG"))
            .max()
            .unwrap_or(0);
        let dest = std::env::var_os("CUDNN_LOGDEST_DBG").filter(|dest| level > 0 && !dest.is_empty())?;
        let file = if dest == "stdout" {
            libc::STDOUT_FILENO
        } else if dest == "stderr" {
            libc::STDERR_FILENO
        } else {
            std::fs::OpenOptions::new().create(true).append(true).open(named(&dest)).ok()?.into_raw_fd()
        };
        Some(Sink { level, file })
    })
    .as_ref()
}

/// The file that a destination names: `%i` in it is the process id.
fn named(dest: &OsStr) -> OsString {
    let id = std::process::id().to_string();
    let mut name = Vec::new();
    let mut rest = dest.as_bytes();
    while let Some(at) = rest.windows(2).position(|two| two == b"%i") {
        name.extend_from_slice(&rest[..at]);
        name.extend_from_slice(id.as_bytes());
        rest = &rest[at + 2..];
    }
    name.extend_from_slice(rest);
    OsString::from_vec(name)
}

impl Sink {
    /// A full disk or a closed file must not fail the call that is being logged.
    fn write(&self, mut line: &[u8]) {
        while !line.is_empty() {
            // SAFETY: pointer and length are those of `line`.
            let written = unsafe { libc::write(self.file, line.as_ptr().cast(), line.len()) };
            match usize::try_from(written) {
                Ok(0) => return,
                Ok(written) => line = &line[written..],
                Err(_) if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

/// Stores the user's callback. As in cuDNN, errors are always reported to it, and information brings the
/// warnings along.
pub(crate) fn set_callback(mut callback: Callback) {
    let asked = callback.mask;
    callback.mask = match asked {
        _ if asked & CUDNN_SEV_INFO_EN != 0 => CUDNN_SEV_ERROR_EN | CUDNN_SEV_WARNING_EN | CUDNN_SEV_INFO_EN,
        _ => asked & CUDNN_SEV_WARNING_EN | CUDNN_SEV_ERROR_EN,
    };
    let wants_info = callback.function.is_some() && callback.mask & CUDNN_SEV_INFO_EN != 0;
    *CALLBACK.write(no_callback) = callback;
    if wants_info {
        LISTENERS.fetch_or(CALLBACK_INFO, Ordering::Relaxed);
    } else {
        LISTENERS.fetch_and(!CALLBACK_INFO, Ordering::Relaxed);
    }
}

/// The user's callback.
pub(crate) fn callback() -> Callback {
    *CALLBACK.read(no_callback)
}

/// Reports one finished call: an error if there was one, and the call itself as information.
pub(crate) fn call(name: &str, arguments: fmt::Arguments<'_>, status: cudnnStatus_t, error: Option<&Error>) {
    if let Some(error) = error {
        emit(cudnnSeverity_t::CUDNN_SEV_ERROR, status, format_args!("{name}: {error} -> {status:?}"));
    }
    emit(cudnnSeverity_t::CUDNN_SEV_INFO, status, format_args!("{name}({arguments}) -> {status:?}"));
}

/// Reports something worth knowing that belongs to no argument, such as the core of a new handle.
pub(crate) fn information(text: fmt::Arguments<'_>) {
    if wants_calls() {
        emit(cudnnSeverity_t::CUDNN_SEV_INFO, cudnnStatus_t::CUDNN_STATUS_SUCCESS, text);
    }
}

/// What is worth knowing of a call, to be told when this goes: listeners are the caller's code, so that it must outlive
/// whatever belongs to the call alone.
pub(crate) struct Note(pub(crate) CallReport);

impl Note {
    #[inline]
    pub(crate) fn new() -> Self {
        Note(CallReport { wanted: wants_calls() || recorded::wants_plans(), ..CallReport::default() })
    }

    #[cold]
    fn tell(&mut self) {
        let CallReport { plan, kernels, warning: text, .. } = std::mem::take(&mut self.0);
        if let Some(text) = text {
            warning(format_args!("{text}"));
        }
        if let Some(plan) = &plan {
            recorded::record(plan);
        }
        for line in plan.iter().chain(&kernels).flat_map(|text| text.lines()) {
            information(format_args!("{line}"));
        }
    }
}

impl Drop for Note {
    #[inline]
    fn drop(&mut self) {
        if self.0.plan.is_some() || self.0.warning.is_some() {
            self.tell();
        }
    }
}

/// Reports something that looks wrong without being an error.
pub(crate) fn warning(text: fmt::Arguments<'_>) {
    emit(cudnnSeverity_t::CUDNN_SEV_WARNING, cudnnStatus_t::CUDNN_STATUS_SUCCESS, text);
}

fn emit(severity: cudnnSeverity_t, status: cudnnStatus_t, text: fmt::Arguments<'_>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // SAFETY: gettid has no preconditions.
    let tid = unsafe { libc::gettid() };
    if let Some(sink) = sink()
        && sink.level >= log_level(severity)
    {
        let letter = ["F", "E", "W", "I"][severity as usize];
        // One write per line keeps lines whole when threads and processes share the file.
        let line = format!(
            "[cudnn-shim {letter} {}.{:06} pid={} tid={tid}] {text}\n",
            now.as_secs(),
            now.subsec_micros(),
            std::process::id()
        );
        sink.write(line.as_bytes());
    }
    let callback = callback();
    if let Some(function) = callback.function
        && callback.mask & (1 << severity as u32) != 0
    {
        let debug = cudnnDebug_t {
            cudnn_version: reported_version().number() as c_uint,
            cudnnStatus: status,
            time_sec: now.as_secs() as c_uint,
            time_usec: now.subsec_micros(),
            time_delta: 0,
            handle: std::ptr::null_mut(),
            stream: std::ptr::null_mut(),
            pid: u64::from(std::process::id()),
            tid: tid as u64,
            cudaDeviceId: -1,
            reserved: [0; 15],
        };
        // Ends in two zero bytes, so that a reader who splits messages at zero bytes finds an end, too.
        let mut message = text.to_string();
        message.retain(|c| c != '\0');
        message.push_str("\0\0");
        // SAFETY: the user registered this function for exactly these arguments; all of them live until it
        // returns, and no lock of ours is held (a `Note` waits for that).
        unsafe { function(severity, callback.udata, &debug, message.as_ptr().cast()) };
    }
}

fn log_level(severity: cudnnSeverity_t) -> u32 {
    match severity {
        cudnnSeverity_t::CUDNN_SEV_FATAL | cudnnSeverity_t::CUDNN_SEV_ERROR => 1,
        cudnnSeverity_t::CUDNN_SEV_WARNING => 2,
        cudnnSeverity_t::CUDNN_SEV_INFO => 3,
    }
}

/// The version that this process reports, and that log messages carry: `CUDNN_SHIM_VERSION`, read once, if it is a version, else the header's.
pub(crate) fn reported_version() -> Version {
    static REPORTED: Once<Result<Version, OsString>> = Once::new();
    static WARNED: AtomicBool = AtomicBool::new(false);
    let reported = REPORTED.get_or_init(|| match std::env::var_os("CUDNN_SHIM_VERSION") {
        Some(text) if !text.is_empty() => text.to_str().and_then(Version::parse).ok_or(text),
        _ => Ok(Version::HEADER),
    });
    if let Err(text) = reported
        // Not under the lock of `REPORTED`: log messages carry the version.
        && !WARNED.swap(true, Ordering::Relaxed)
    {
        warning(format_args!(
            "CUDNN_SHIM_VERSION={text:?} is ignored: neither MAJOR.MINOR.PATCH nor a CUDNN_VERSION"
        ));
    }
    reported.as_ref().copied().unwrap_or(Version::HEADER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_take_the_process_id() {
        let id = std::process::id();
        for (dest, want) in [
            ("log", "log".to_owned()),
            ("%i", id.to_string()),
            ("a-%i/%d%i%", format!("a-{id}/%d{id}%")),
            ("%%i", format!("%{id}")),
        ] {
            assert_eq!(named(OsStr::new(dest)), OsString::from(want));
        }
    }
}
