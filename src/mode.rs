//! Whether the library answers exactly as the original does, or also does what the original
//! refuses.
#![forbid(unsafe_code)]

use crate::sync::Once;

/// How far the library goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whatever is meaningful is done, also where the original refuses it.
    Extended,
    /// The original's refusals are kept (`CUDNN_SHIM_STRICT=1`), so that programs can test their
    /// fallbacks.
    Strict,
}

/// Whether FLOAT data may be multiplied as TF32 where a convolution's math type allows it: not if
/// `NVIDIA_TF32_OVERRIDE`, which NVIDIA's libraries share, is `0`. Read once.
pub fn allows_tf32() -> bool {
    static ALLOWS: Once<bool> = Once::new();
    *ALLOWS.get_or_init(|| std::env::var_os("NVIDIA_TF32_OVERRIDE").is_none_or(|value| value != "0"))
}

/// Whether sums may have the order of tile instructions where a math type lets Tensor Cores have
/// them: not in strict mode.
pub fn allows_tiles() -> bool {
    !Mode::current().is_strict()
}

/// Whether 3 x 3 windows may be computed with fewer products: not if `CUDNN_SHIM_WINOGRAD` is `0`.
/// Read once.
pub fn allows_winograd() -> bool {
    static ALLOWS: Once<bool> = Once::new();
    *ALLOWS.get_or_init(|| std::env::var_os("CUDNN_SHIM_WINOGRAD").is_none_or(|value| value != "0"))
}

/// What is wrong with a value of `CUDNN_SHIM_WINOGRAD`, if anything is.
pub fn winograd_complaint(value: &str) -> Option<String> {
    (!["0", "1"].contains(&value)).then(|| "neither 0 nor 1, which is the default".to_owned())
}

/// Whether the driver assembles every kernel from its text: `CUDNN_SHIM_PTX` is `1`. Read once.
pub fn forces_ptx() -> bool {
    static FORCES: Once<bool> = Once::new();
    *FORCES.get_or_init(|| std::env::var_os("CUDNN_SHIM_PTX").is_some_and(|value| value == "1"))
}

/// What is wrong with a value of `CUDNN_SHIM_PTX`, if anything is.
pub fn ptx_complaint(value: &str) -> Option<String> {
    (!["0", "1"].contains(&value)).then(|| "neither 1 nor 0, which is the default".to_owned())
}

/// Bytes of workspace that a convolution may be told to have: `CUDNN_CONV_WSCAP_DBG`, in MiB, as
/// the original reads it; any number if it is not set or makes no sense. Read once.
pub fn workspace_cap() -> usize {
    static CAP: Once<usize> = Once::new();
    *CAP.get_or_init(|| {
        let value = std::env::var("CUDNN_CONV_WSCAP_DBG").ok();
        value.and_then(|value| mebibytes(&value)).unwrap_or(usize::MAX)
    })
}

/// The bytes of a number of MiB, if the text is a number.
fn mebibytes(value: &str) -> Option<usize> {
    value.parse().ok().map(|mebibytes: usize| mebibytes.saturating_mul(1 << 20))
}

/// What is wrong with a value of `CUDNN_CONV_WSCAP_DBG`, if anything is.
pub fn cap_complaint(value: &str) -> Option<String> {
    mebibytes(value).is_none().then(|| "no number of MiB".to_owned())
}

impl Mode {
    /// The mode of this process: `CUDNN_SHIM_STRICT`, read once; unset, empty and `0` mean
    /// [`Mode::Extended`].
    pub fn current() -> Mode {
        static MODE: Once<Mode> = Once::new();
        *MODE.get_or_init(|| match std::env::var_os("CUDNN_SHIM_STRICT") {
            Some(value) if !value.is_empty() && value != "0" => Mode::Strict,
            _ => Mode::Extended,
        })
    }

    /// Whether the original's refusals are kept.
    pub fn is_strict(self) -> bool {
        self == Mode::Strict
    }
}
