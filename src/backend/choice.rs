//! Kernels as data: of every kind of step one ordered table of the kernels that may run it, the
//! general one last. The first one that accepts a step runs it; adding a kernel is a row.

use crate::error::{Error, Result};

/// One way to run the steps of a kind. `A` is the type of the functions that accept a step: each
/// answers how its kernel runs the step, or `None`.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<A> {
    /// The name in logs, tests and `docs/kernels.md`.
    pub name: &'static str,
    /// The steps that the kernel is for, in the words of `docs/kernels.md`.
    pub when: &'static str,
    pub(super) accept: A,
}

/// Which kernel of a table runs a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// The first kernel that accepts the step.
    First,
    /// The kernel of this name.
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

/// The names of the kernels that answer `ask`, in the order of their table.
pub(super) fn names<A, R>(kernels: &[Kernel<A>], mut ask: impl FnMut(&A) -> Option<R>) -> Vec<&'static str> {
    let accepting = kernels.iter().filter(|kernel| ask(&kernel.accept).is_some());
    // At most as many as the table has.
    accepting.map(|kernel| kernel.name).collect()
}

/// A kernel that has accepted a step on operands and is ready to run it, or an error where there
/// was no memory to keep the kernel.
pub(super) struct Launch<'a>(Result<Box<dyn Run + 'a>>);

/// What a [`Launch`] keeps.
trait Run {
    fn run(&mut self) -> Result<()>;
}

/// For an array, as a list becomes one without an allocation.
impl<F: FnOnce() -> Result<()>> Run for [Option<F>; 1] {
    fn run(&mut self) -> Result<()> {
        self[0].take().map_or(Ok(()), |run| run())
    }
}

impl<'a> Launch<'a> {
    /// What `run` does relies on what the caller of [`Launch::run`] promises, and on the
    /// instructions of the level that the kernel was asked for, which the processor has.
    pub(super) fn new<F: FnOnce() -> Result<()> + 'a>(run: F) -> Self {
        // `Box::new` ends the process where there is no memory.
        let mut one = Vec::new();
        if one.try_reserve_exact(1).is_err() {
            return Launch(Err(Error::HostAllocation { bytes: size_of::<F>() }));
        }
        one.push(Some(run));
        let one: Box<[Option<F>; 1]> =
            one.into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("one was put in"));
        Launch(Ok(one))
    }

    /// Runs the step.
    ///
    /// # Errors
    /// Host allocation, before anything is written; execution if a task panicked.
    ///
    /// # Safety
    /// The operands are what the function that runs steps of this kind asks for.
    pub(super) unsafe fn run(self) -> Result<()> {
        self.0?.run()
    }
}
