//! Models of the thread pool: its own sources, compiled with loom's atomics, locks and condition
//! variables in place of those of the standard library. Loom runs a model once for each order in
//! which its threads can meet; it ends the test where a thread waits for ever, where a read and a
//! write race, and where a job is never freed or freed twice.
//!
//! What the sources take from the rest of the library is stood in for by the modules below: arenas
//! with no scratch, a clock whose patience is one look, processors that cannot be told apart.

mod backend {
    pub(crate) mod cpu {
        pub(crate) mod affinity {
            use loom::alloc::Track;

            /// Equal for all threads.
            #[derive(Clone, Copy, PartialEq)]
            pub(crate) struct Processors;

            /// Where a caller runs. It goes with its job: loom reports a job that is never freed.
            pub(crate) struct Place {
                pub processor: Option<usize>,
                pub allowed: Option<Processors>,
                _job: Track<()>,
            }

            impl Place {
                pub fn here() -> Place {
                    Place { processor: processor(), allowed: Some(Processors), _job: Track::new(()) }
                }
            }

            pub(crate) fn processor() -> Option<usize> {
                None
            }

            pub(crate) struct Worker;

            impl Worker {
                pub fn this_thread() -> Worker {
                    Worker
                }

                pub fn make_room(&mut self, _: &Place) {}
            }
        }

        pub(crate) mod arena {
            use crate::error::Result;

            pub(crate) fn with_nested(
                _: usize, _: usize, work: impl FnOnce(*mut u8) -> Result<()>,
            ) -> Result<()> {
                work(std::ptr::null_mut())
            }
        }

        pub(crate) mod float_mode {
            pub(crate) fn set_default() {}
        }

        pub(crate) mod threads;
    }
}

mod error {
    #[derive(Debug, PartialEq)]
    pub(crate) enum Error {
        Execution(Box<str>),
    }

    pub(crate) type Result<T> = std::result::Result<T, Error>;
}

mod panics {
    /// A task that panics ends the model.
    pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
        Ok(work())
    }

    pub(crate) fn panic_if_asked(_: &str) {}
}

mod sync {
    pub(crate) mod primitives {
        pub(crate) use loom::sync::atomic::{AtomicUsize, fence};
        pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    }

    pub(crate) fn process() -> u32 {
        0
    }
}

pub use backend::cpu::threads::{Calls, explore};
