//! Which candidates there are, which accept a transform, and which one runs it.

use cudnn::backend::{self, Isa, Machine};
use cudnn::ops::{Step, Transform};

/// Where nothing depends on the machine.
const ANYWHERE: Machine = Machine { isa: Isa::PORTABLE, threads: 1 };

/// The names of the candidates, in the order in which they are asked.
pub fn transforms() -> Vec<&'static str> {
    let table = backend::tables().into_iter().find(|(kind, _)| *kind == "Transform");
    table.expect("transforms have a table").1.into_iter().map(|(name, _)| name).collect()
}

/// The names of the candidates that accept a transform.
pub fn accepting(transform: &Transform) -> Vec<&'static str> {
    backend::kernels(Step::Transform(transform), ANYWHERE)
}

/// The name of the candidate that runs a transform.
pub fn picked(transform: &Transform) -> &'static str {
    backend::kernel(Step::Transform(transform), false, ANYWHERE).expect("the last one accepts all")
}
