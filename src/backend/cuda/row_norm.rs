//! Normalisations of rows, which this core computes in several steps.

use super::kind::Kind;
use super::launch::Emit;
use super::selection::Call;
use crate::error::{Error, Result};
use crate::ops::{RowNorm, RowNormBackward};

fn refused() -> Error {
    Error::unsupported("rows in one step, which this core normalises in several")
}

impl Kind for RowNorm {
    fn launches(&self, _call: Call<'_>, _emit: Emit<'_>) -> Result<()> {
        Err(refused())
    }
}

impl Kind for RowNormBackward {
    fn launches(&self, _call: Call<'_>, _emit: Emit<'_>) -> Result<()> {
        Err(refused())
    }
}
