//! The CUDA runtime: memory, copies, streams, events, graphs and one device, all on the host.
//!
//! A call is an `extern "C"` function that hands its outcome to [`error::answer`], which keeps the
//! last error of the thread and tells the sentence. Work that a stream orders is an
//! [`Operation`](model::operation::Operation): it runs at once, or becomes a node of a graph while
//! the stream captures. The records are in [`model`], the one [`state`] holds them; what C calls
//! stands above both. `11`, `12` and `13` in a function's name are major versions whose callers
//! mean something else by the same name; `symbols/cudart.tsv` says who gets which.
#![allow(non_snake_case)]

use std::mem::MaybeUninit;

/// Where a call puts a result: NULL, or room for one.
pub type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Defines functions of the runtime that return its code.
macro_rules! runtime {
    ($($(#[$meta:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// Every pointer is NULL or valid for what it names, as in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $crate::runtime::error::Code {
            $crate::runtime::error::call(stringify!($name), move || $body)
        }
    )*};
}

pub mod capture;
pub mod copy;
pub mod device;
pub mod error;
pub mod event;
pub mod graph;
pub mod kernel;
pub mod memory;
pub mod model;
pub mod pointer;
pub mod pool;
pub(crate) mod properties;
mod refused;
pub mod set;
pub mod state;
pub mod stream;

/// Stores a result.
fn put<T>(out: Out<T>, name: &str, value: T) -> error::Result {
    let Some(out) = out else {
        return Err(error::Error::InvalidValue.because(format_args!("{name} is NULL")));
    };
    out.write(value);
    Ok(())
}
