//! Handles of the original beside ours: made with them, and on their streams.

use std::sync::atomic::{AtomicBool, Ordering};

use super::types::CUDNN_MAJOR;
use super::{beside, log};
use crate::error::Result;
use crate::original::{self, Twin};

/// A handle of the original for a new handle of ours, `is_host` if that is the CPU core's. Says
/// once why there is no original where the environment asks for one.
pub(crate) fn new_handle(is_host: bool) -> Option<Twin> {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let first = |text: &dyn std::fmt::Display| {
        if !TOLD.swap(true, Ordering::Relaxed) {
            log::warning(format_args!("cudnnCreate: the original is left out: {text}"));
        }
    };
    match original::load(CUDNN_MAJOR).as_ref()? {
        Err(reason) => {
            first(reason);
            None
        }
        Ok(original) if is_host && !original.on_host => {
            log::information(format_args!("cudnnCreate: the original serves handles on a GPU only"));
            None
        }
        Ok(original) => {
            if !TOLD.swap(true, Ordering::Relaxed) {
                original.route.complaints().iter().for_each(|text| log::warning(format_args!("{text}")));
            }
            let library = &original.library;
            match Twin::create(library, "cudnnCreate", "cudnnDestroy") {
                Ok(twin) => {
                    let (version, file) = (library.version(), library.file().display());
                    log::information(format_args!("cudnnCreate: beside it the original {version}, {file}"));
                    Some(twin)
                }
                Err(failure) => {
                    let (code, text) = (failure.code, failure.text);
                    let name = original.library.file().display();
                    log::warning(format_args!(
                        "cudnnCreate: no handle of the original in {name} ({code}: {text})"
                    ));
                    None
                }
            }
        }
    }
}

/// Lets the original's handle follow the stream of ours.
///
/// # Errors
/// Those of the original.
pub(crate) fn set_stream(twin: &Twin, stream: usize) -> Result<()> {
    let Some(original) = beside::original() else { return Ok(()) };
    original::set_stream(&original.library, twin, stream).map_err(beside::failed)
}
