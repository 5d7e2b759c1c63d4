//! Sentences for people, on the error stream under `CUDNN_SHIM_HOST_LOG=1`.

use std::fmt::Arguments;
use std::io::Write as _;
use std::sync::LazyLock;

/// Whether the environment asks for sentences; read once.
static ON: LazyLock<bool> = LazyLock::new(|| {
    std::env::var("CUDNN_SHIM_HOST_LOG").is_ok_and(|value| !matches!(value.as_str(), "" | "0"))
});

/// Says why `function` fails, if the environment asks for it: names argument, value and rule.
pub fn failure(function: &str, sentence: Arguments) {
    if *ON {
        always(format_args!("{function}: {sentence}"));
    }
}

/// Says something whatever the environment asks for. An error stream that is closed is no reason to
/// fail.
pub fn always(sentence: Arguments) {
    let _ = writeln!(std::io::stderr().lock(), "cudnn-shim host: {sentence}");
}
