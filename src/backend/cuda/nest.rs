//! A transform of one canonical nest: which kernel moves it.

use super::bytes::ByteNest;
use super::launch::{Emit, Launch, Pointers};
use super::params::Operation;
use super::{general, linear, pointwise, tiled};
use crate::error::Result;
use crate::layout::Pattern;
use crate::ops::Transform;

/// The launches for one canonical nest: the first kernel that fits, and what it leaves.
pub(super) fn single(transform: &Transform, at: Pointers, emit: Emit<'_>) -> Result<()> {
    if pointwise::blend(transform, at, emit)? {
        return Ok(());
    }
    emit(&kernel(transform, at)?)
}

fn kernel(transform: &Transform, at: Pointers) -> Result<Launch> {
    let moves = Operation::new(transform.src, transform.dst, transform.scaling).is_move();
    match transform.nest.pattern() {
        Pattern::Contiguous if moves => return linear::copy(transform, at),
        Pattern::Contiguous => {
            if let Some(kernel) = linear::conversion(transform) {
                return linear::convert(transform, at, kernel);
            }
        }
        _ if moves => {
            let grid = ByteNest::widened(transform, at);
            return match tiled::transpose(&grid)? {
                Some(launch) => Ok(launch),
                None => general::strided_move(&grid),
            };
        }
        Pattern::Transpose { .. } => {
            if let Some(launch) = tiled::transpose_convert(transform, at)? {
                return Ok(launch);
            }
        }
        _ => {}
    }
    general::strided(transform, at)
}
