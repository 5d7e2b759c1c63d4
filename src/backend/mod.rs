//! The cores: an ordered list of ways to run a [`Problem`], the obvious loop last.
//!
//! Adding a fast path is one file under `cpu/` and one line in [`CANDIDATES`].

use crate::error::{Error, Result};
use crate::ops::{Fill, Problem, Transform};

pub mod cpu;
pub mod reference;

pub use cpu::{Isa, Machine};

/// Where the data of a problem lies. Both pointers are aligned to their scalar type and no further.
///
/// They are plain addresses: the data may be uninitialised (`beta == 0`) and may be one and the same for both.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// The destination, read as well when `beta != 0`.
    pub dst: *mut u8,
    /// The source; ignored by a [`Fill`].
    pub src: *const u8,
}

/// One way to run a transform.
pub struct Candidate {
    /// The name used in logs and tests.
    pub name: &'static str,
    /// Whether this candidate can run the problem and is the one meant for it.
    accepts: fn(&Transform) -> bool,
    run: unsafe fn(&Transform, Operands, Machine) -> Result<()>,
}

/// Every candidate; the first one that accepts a problem runs it, the last one accepts all.
pub const CANDIDATES: &[Candidate] =
    &[Candidate { name: "reference", accepts: |_| true, run: reference::transform }];

impl Candidate {
    /// The candidate of that name.
    pub fn named(name: &str) -> Option<&'static Candidate> {
        CANDIDATES.iter().find(|c| c.name == name)
    }

    /// The candidate that [`run`] picks for `transform`, which must be canonical.
    pub fn for_transform(transform: &Transform) -> &'static Candidate {
        let accepting = CANDIDATES.iter().find(|c| (c.accepts)(transform));
        accepting.unwrap_or(&CANDIDATES[CANDIDATES.len() - 1])
    }

    /// Whether this candidate can run `transform`.
    pub fn accepts(&self, transform: &Transform) -> bool {
        (self.accepts)(transform)
    }

    /// Runs `transform` with this candidate on `machine`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the candidate does not accept the problem, [`Error::Execution`] if a worker
    /// thread died.
    ///
    /// # Safety
    /// As for [`run`].
    pub unsafe fn run(&self, transform: &Transform, operands: Operands, machine: Machine) -> Result<()> {
        if !self.accepts(transform) {
            return Err(Error::unsupported(format!(
                "the {} candidate does not take this problem",
                self.name
            )));
        }
        // SAFETY: the caller's promise, and the candidate accepts the problem.
        unsafe { (self.run)(transform, operands, machine) }
    }
}

/// Runs one problem to completion on the CPU.
///
/// # Errors
/// [`Error::Execution`] if a worker thread panicked.
///
/// # Safety
/// For every offset pair of the nest, `dst + offset` must be writable (and readable if `beta != 0`) and
/// `src + offset` readable for one scalar; both pointers are aligned to their scalar. The destination offsets
/// are distinct. The two sets of bytes do not overlap, unless each cell of the destination is its own source:
/// same pointer, same strides, same scalar size.
pub unsafe fn run(problem: &Problem, operands: Operands) -> Result<()> {
    match problem {
        Problem::Transform(transform) if transform.nest.is_empty() => Ok(()),
        Problem::Transform(transform) => {
            // SAFETY: handed on.
            unsafe { (Candidate::for_transform(transform).run)(transform, operands, Machine::host()) }
        }
        // SAFETY: handed on.
        Problem::Fill(fill) => unsafe { run_fill(fill, operands, Machine::host()) },
    }
}

/// Runs `fill` on `machine`.
///
/// # Errors
/// As for [`run`].
///
/// # Safety
/// As for [`run`].
pub unsafe fn run_fill(fill: &Fill, operands: Operands, machine: Machine) -> Result<()> {
    let _ = machine;
    // SAFETY: handed on.
    unsafe { reference::fill(fill, operands.dst) };
    Ok(())
}
