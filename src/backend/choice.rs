//! Kernels as data: of every kind of step one ordered table of the kernels that may run it, the general one last. The first one that
//! accepts a step runs it; adding a kernel is a row.

use crate::error::{Error, Result};

/// One way to run the steps of a kind. `A` is the type of the functions that accept a step: each answers how its kernel runs the step,
/// or `None`.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<A> {
    /// The name in logs, tests and `docs/kernels.md`.
    pub name: &'static str,
    /// Which steps it is for, as `docs/kernels.md` says it.
    pub when: &'static str,
    pub(super) accept: A,
}

/// Which kernel of a table runs a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// The first one that accepts the step.
    First,
    /// The one of this name.
    Named(&'a str),
}

impl Choice<'_> {
    /// The name of the kernel that is chosen, and what it answered to `ask`.
    ///
    /// # Errors
    /// Not supported if no kernel is called so, or if it does not accept the step.
    pub(super) fn of<A, R>(
        self, kernels: &[Kernel<A>], mut ask: impl FnMut(&A) -> Option<R>,
    ) -> Result<(&'static str, R)> {
        let chosen = kernels.iter().filter(|kernel| match self {
            Choice::First => true,
            Choice::Named(name) => kernel.name == name,
        });
        let mut accepting = chosen.filter_map(|kernel| Some((kernel.name, ask(&kernel.accept)?)));
        accepting.next().ok_or_else(|| match self {
            Choice::First => Error::unsupported("no kernel accepts this step"),
            Choice::Named(name) => {
                Error::unsupported(format!("the kernel `{name}` does not accept this step"))
            }
        })
    }
}

/// A kernel that has accepted a step on operands, and is ready to run it.
pub(super) struct Launch<'a>(Box<dyn FnOnce() -> Result<()> + 'a>);

impl<'a> Launch<'a> {
    /// What `run` does relies on what the caller of [`Launch::run`] promises, and on the instructions of the level that the kernel was
    /// asked for, which the processor has.
    pub(super) fn new(run: impl FnOnce() -> Result<()> + 'a) -> Self {
        Launch(Box::new(run))
    }

    /// Runs the step.
    ///
    /// # Errors
    /// Host allocation, before anything is written; execution if a task panicked.
    ///
    /// # Safety
    /// The operands are what the function that runs steps of this kind asks for.
    pub(super) unsafe fn run(self) -> Result<()> {
        (self.0)()
    }
}
