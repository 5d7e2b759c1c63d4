//! Every symbol that is not built yet: exported, logged, answered with `CUDNN_STATUS_NOT_SUPPORTED`.
//!
//! A call that takes a library handle checks it first, so that a missing or destroyed handle is reported as such. Nothing
//! else is looked at and no memory is touched. When a call is built it leaves this folder; `MATRIX.md` is derived from exactly that.

use std::fmt;

use crate::Error;
use crate::capi::context;
use crate::capi::guard::entry;
use crate::capi::types::{cudnnHandle_t, cudnnStatus_t};

mod attention;
mod backend;
#[cfg(not(feature = "cudnn8"))]
mod causal_conv;
mod ctc;
#[cfg(not(feature = "cudnn8"))]
mod gnn;
mod internal;
mod removed_rnn;
mod removed_rnn_run;
mod removed_rnn_run_ex;
mod removed_rnn_search;
mod rnn;
mod spatial_transformer;

/// Answers a call that is not built yet.
fn unsupported(name: &'static str, arguments: fmt::Arguments<'_>) -> cudnnStatus_t {
    entry(name, arguments, || Err(not_built()))
}

/// Answers a call on a library handle that is not built yet; a handle that is not alive is BAD_PARAM.
fn unsupported_on(name: &'static str, arguments: fmt::Arguments<'_>, handle: cudnnHandle_t) -> cudnnStatus_t {
    entry(name, arguments, || {
        context::check(handle)?;
        Err(not_built())
    })
}

/// [`unsupported`] for a function and its arguments, which are named once.
macro_rules! stub {
    ($function:ident($($argument:ident),* $(,)?)) => {
        super::unsupported(stringify!($function), $crate::capi::guard::arguments!($($argument),*))
    };
}
use stub;

/// The same on a library handle, which is the first argument.
macro_rules! stub_on {
    ($function:ident($handle:ident $(, $argument:ident)* $(,)?)) => {
        super::unsupported_on(
            stringify!($function),
            $crate::capi::guard::arguments!($handle $(, $argument)*),
            $handle,
        )
    };
}
use stub_on;

/// The name of the call is put in front of every error.
fn not_built() -> Error {
    Error::unsupported("not built yet, as its row in MATRIX.md says")
}
