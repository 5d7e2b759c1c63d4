//! The windows of a resampling.

use super::super::Resample;
use crate::error::{Error, Result};
use crate::layout::Dims;

/// Window, steps, padding in front and behind.
///
/// # Errors
/// Not supported: fractions, other numbers of dimensions.
pub(super) fn windows(of: &Resample) -> Result<[Dims; 4]> {
    let whole = |values: &[[i64; 2]]| -> Result<Dims> {
        if values.is_empty() || values.len() > 6 {
            return Err(Error::unsupported(format!("a window of {} dimensions", values.len())));
        }
        let mut dims = Dims::EMPTY;
        for &[above, below] in values {
            if below < 1 || above % below != 0 {
                return Err(Error::unsupported(format!("a window of {above}/{below}")));
            }
            dims.push(above / below);
        }
        Ok(dims)
    };
    let windows = [whole(&of.window)?, whole(&of.strides)?, whole(&of.before)?, whole(&of.after)?];
    if windows.iter().any(|dims| dims.rank() != windows[0].rank()) {
        return Err(Error::unsupported("a window of other numbers of dimensions"));
    }
    Ok(windows)
}
