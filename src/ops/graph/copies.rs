//! Operands as a step wants them to lie: where they are, or copied.

use super::steps::Builder;
use super::view::View;
use crate::error::Result;

impl Builder<'_> {
    /// The same elements without blocks: where they are, or copied.
    ///
    /// # Errors
    /// As for [`scratch`](Builder::scratch).
    pub fn flat(&mut self, view: &View) -> Result<View> {
        if view.layout.split.is_none() {
            return Ok(*view);
        }
        let copy = self.scratch(view.scalar, view.dims())?;
        self.transform(&copy, view)?;
        Ok(copy)
    }

    /// The same elements in the order of their dimensions: where they are, or copied.
    ///
    /// # Errors
    /// As for [`scratch`](Builder::scratch).
    pub fn packed(&mut self, view: &View) -> Result<View> {
        if view.is_row_major() {
            return Ok(*view);
        }
        let copy = self.scratch(view.scalar, view.dims())?;
        self.transform(&copy, view)?;
        Ok(copy)
    }
}
