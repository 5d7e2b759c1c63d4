//! Launches of ReduceTensor and of sums inside other operations.

mod general;
mod row_sums;

use super::kind::{self, Kind};
use super::launch::Emit;
use super::selection::{self, Call, Kernels};
use crate::error::Result;
use crate::ops::Reduce;

pub(super) const KERNELS: &[Kernels<Reduce>] = &[
    Kernels {
        name: "row_sums_near_*",
        when: "sums and means in binary32 of 1,024 rows and more without gaps, on 16 bytes, of 16 elements to 252 bytes: a thread has a row",
        launch: row_sums::near,
    },
    Kernels {
        name: "row_sums_f32 row_sums_f16 row_sums_bf16",
        when: "the same of other rows of 16 to 1,024 neighbours",
        launch: row_sums::short,
    },
    Kernels {
        name: "row_sums_long_*",
        when: "the same of longer rows that are not cut: a block has a whole row",
        launch: row_sums::long,
    },
    Kernels {
        name: "reduce_*",
        when: "all reductions: by blocks, by rows of outputs, and in chunks where few outputs have a workspace",
        launch: general::launch_any,
    },
];

impl Kind for Reduce {
    fn names() -> Vec<&'static str> {
        kind::names(KERNELS)
    }

    /// Hands the launches of a reduction to `emit`: of a step's operands the second is where
    /// indices go, the third the source and the fourth the workspace, of any alignment.
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let query = &call.of(self);
        if query.step.outputs.is_empty() {
            return Ok(());
        }
        selection::launch(KERNELS, query, emit)
    }
}
