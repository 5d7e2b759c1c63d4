//! The contractions of one gradient of the data with a stride, handed over together.

use std::fmt;

use super::{Contract, Geometry};
use crate::layout::Layout;

/// Steps on the same operands that write disjoint parts of one destination, in any order: the
/// phases of a stride. Without workspace.
#[derive(Clone, Default)]
pub struct Phases(pub Vec<Contract>);

/// Phases that are handed over together at most.
const MOST: i64 = 64;

impl Phases {
    /// Whether the gradient of `dx` from `dy` is better handed over as a whole: it has a few phases
    /// of single channels.
    pub fn are_together(dx: &Layout, dy: &Layout, geometry: &Geometry) -> bool {
        let single = geometry.groups > 1 && [dx, dy].iter().all(|layout| layout.dims[1] == geometry.groups);
        let phases = geometry.strides.iter().try_fold(1, |all: i64, &stride| all.checked_mul(stride));
        single && phases.is_some_and(|phases| (2..=MOST).contains(&phases))
    }
}

/// One after the other, as a plan shows its steps.
impl fmt::Display for Phases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::ops::list(f, |each| self.0.iter().try_for_each(|step| each(step)))
    }
}
