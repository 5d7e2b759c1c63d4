//! The tensor transform descriptor: padding, folding and the format of the destination.
//!
//! Rules observed on 9.27.0.

use super::tensor::{CHANNEL, Format, TensorDescriptor};
use crate::error::{Error, Result};
use crate::layout::{Dims, MAX_RANK};
use crate::mode::Mode;

/// Spatial dimensions that can be folded.
pub const MAX_FOLDS: usize = MAX_RANK - 2;

/// Which way the fold factors work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Folding {
    /// Space to channels, after padding.
    #[default]
    Fold,
    /// Channels to space, before padding.
    Unfold,
}

/// What a `cudnnTensorTransformDescriptor_t` holds: all zero after creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransformDescriptor {
    /// Format of the destination as the caller gave it; only [`dest_format`](Self::dest_format)
    /// reads it.
    pub dest_format: i32,
    /// Padding in front of each dimension; negative crops.
    pub pad_before: [i32; MAX_RANK],
    /// Padding behind each dimension; negative crops.
    pub pad_after: [i32; MAX_RANK],
    /// Fold factor of each spatial dimension; 0 and 1 mean none.
    pub fold: [u32; MAX_FOLDS],
    /// Whether channels are gathered from space or spread into it.
    pub direction: Folding,
}

impl TransformDescriptor {
    /// The fold factor of a dimension, 1 for batch, channels and unfolded dimensions.
    pub fn factor(&self, axis: usize) -> i64 {
        match axis.checked_sub(2).and_then(|spatial| self.fold.get(spatial)) {
            Some(&factor) => i64::from(factor.max(1)),
            None => 1,
        }
    }

    /// Whether any of the first `rank` dimensions is folded.
    pub fn folds(&self, rank: usize) -> bool {
        (2..rank).any(|axis| self.factor(axis) > 1)
    }

    /// Padding in front of and behind a dimension.
    pub fn padding(&self, axis: usize) -> (i64, i64) {
        (i64::from(self.pad_before[axis]), i64::from(self.pad_after[axis]))
    }

    /// The stored dims that the transform yields from the stored dims of a source.
    ///
    /// Fold: pad, then per folded dimension `C *= factor`, `dim = ceil(dim / factor)`. Unfold: per
    /// folded dimension `C = ceil(C / factor)`, `dim *= factor`, then pad.
    ///
    /// # Errors
    /// Bad parameter if padding leaves nothing of a dimension; not supported if an extent leaves 32
    /// bits.
    pub fn yields(&self, stored: &Dims) -> Result<Dims> {
        let mut dims = *stored;
        if self.direction == Folding::Fold {
            self.pad(&mut dims)?;
        }
        for axis in 2..dims.rank() {
            let factor = self.factor(axis);
            let (channels, extent) = (dims[CHANNEL], dims[axis]);
            (dims[CHANNEL], dims[axis]) = match self.direction {
                Folding::Fold => (channels * factor, (extent + factor - 1) / factor),
                Folding::Unfold => ((channels + factor - 1) / factor, extent * factor),
            };
            // Checked at every step, so that the products above never leave 64 bits.
            check_extent(dims[CHANNEL])?;
            check_extent(dims[axis])?;
        }
        if self.direction == Folding::Unfold {
            self.pad(&mut dims)?;
        }
        Ok(dims)
    }

    fn pad(&self, dims: &mut Dims) -> Result<()> {
        for axis in 0..dims.rank() {
            let (before, after) = self.padding(axis);
            let extent = dims[axis];
            for (argument, value, padded) in [
                ("padBeforeA", before, extent + before),
                ("padAfterA", after, extent + after),
                ("padAfterA", after, extent + before + after),
            ] {
                if padded <= 0 {
                    let rule = format!("padding leaves nothing of an extent of {extent}");
                    return Err(Error::element(argument, axis, value, rule));
                }
            }
            dims[axis] = extent + before + after;
            check_extent(dims[axis])?;
        }
        Ok(())
    }

    /// Refuses folding that strict mode refuses: with a rank other than 4, only of a source that is
    /// fully packed as NCHW or NHWC (strides of extents of 1 do not count).
    ///
    /// # Errors
    /// Not supported, in strict mode.
    pub fn check_source(&self, src: &TensorDescriptor, mode: Mode) -> Result<()> {
        let rank = src.rank();
        if mode.is_strict() && rank != 4 && self.folds(rank) {
            let (dims, strides) = (src.stored_dims(), src.strides());
            let packed = |format| {
                TensorDescriptor::with_format(src.data_type(), format, rank as i64, &dims, mode).is_ok_and(
                    |p| {
                        let packed = p.strides();
                        (0..rank).all(|axis| dims[axis] == 1 || packed[axis] == strides[axis])
                    },
                )
            };
            if !packed(Format::Nchw) && !packed(Format::Nhwc) {
                return Err(Error::unsupported(
                    "strict mode folds 3-D and 5-D sources only if they are fully packed NCHW or NHWC",
                ));
            }
        }
        Ok(())
    }

    /// The descriptor of the destination (`InitTransformDest`): packed in the transform's format,
    /// with the source's type and vectorisation. Strides of the source do not matter.
    ///
    /// # Errors
    /// Not supported: a source that was never set; in strict mode also more than 5 dimensions, a
    /// destination format other than NCHW and NHWC, and folding of unpacked sources of rank other
    /// than 4. Bad parameter: padding that leaves nothing.
    pub fn destination(&self, src: &TensorDescriptor, mode: Mode) -> Result<TensorDescriptor> {
        if !src.is_set() {
            return Err(Error::unsupported("srcDesc was never set"));
        }
        self.check_source(src, mode)?;
        let dims = self.yields(&src.stored_dims())?;
        let rank = dims.rank();
        if mode.is_strict() && rank > 5 {
            return Err(Error::unsupported(format!(
                "strict mode transforms at most 5 dimensions, not {rank}"
            )));
        }
        let format = match Format::from_code(self.dest_format, mode) {
            Some(Format::NchwVectC) if mode.is_strict() => None,
            format => format,
        };
        let Some(format) = format else {
            return Err(Error::unsupported(format!(
                "destFormat = {}: no destination format",
                self.dest_format
            )));
        };
        // Without two spatial dimensions there is nothing for channels to follow.
        let format = if rank < 4 && format == Format::Nhwc { Format::Nchw } else { format };
        src.repacked(&dims, format, mode)
    }
}

/// Extents are 32-bit at the boundary.
fn check_extent(extent: i64) -> Result<()> {
    if extent > i64::from(i32::MAX) {
        return Err(Error::unsupported(format!(
            "the transform yields an extent of {extent}, beyond 32 bits"
        )));
    }
    Ok(())
}
