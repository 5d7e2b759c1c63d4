//! The pooling descriptor and the output dims of a pooling.

use super::choice::{NanPropagation, choice};
use super::tensor::TensorDescriptor;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::mode::Mode;

/// Spatial dimensions of the largest pooling and convolution.
pub const MAX_SPATIAL: usize = 6;

choice! {
    /// What a pooling window makes of its elements.
    PoolingMode:
    /// Maximum.
    Max,
    /// Mean, padding counted as zeros.
    AverageWithPadding,
    /// Mean of the elements inside the tensor.
    AverageWithoutPadding,
    /// Maximum; nothing here depends on luck, so it is the same as [`Max`](PoolingMode::Max).
    MaxDeterministic,
}

/// What a `cudnnPoolingDescriptor_t` holds: no dimensions after creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolingDescriptor {
    mode: PoolingMode,
    nan: NanPropagation,
    window: Dims,
    padding: Dims,
    strides: Dims,
}

impl Default for PoolingDescriptor {
    fn default() -> Self {
        PoolingDescriptor {
            mode: PoolingMode::default(),
            nan: NanPropagation::default(),
            window: Dims::EMPTY,
            padding: Dims::EMPTY,
            strides: Dims::EMPTY,
        }
    }
}

/// Refuses more spatial dimensions than the original has; it does so before it looks at anything
/// else.
///
/// # Errors
/// Not supported above [`MAX_SPATIAL`].
pub fn check_spatial(argument: &'static str, count: i32) -> Result<()> {
    if count > MAX_SPATIAL as i32 {
        return Err(Error::unsupported(format!(
            "{argument} = {count}: at most {MAX_SPATIAL} spatial dimensions"
        )));
    }
    Ok(())
}

impl PoolingDescriptor {
    /// A pooling with one window extent, padding and stride per spatial dimension. Padding may be
    /// anything. Pre: the three have the same rank, from 1 to [`MAX_SPATIAL`].
    ///
    /// # Errors
    /// Bad parameter: a window extent or stride below 1 (observed on 9.27.0).
    pub fn new(
        mode: PoolingMode, nan: NanPropagation, window: Dims, padding: Dims, strides: Dims,
    ) -> Result<Self> {
        debug_assert!(window.rank() > 0);
        at_least(1, &window, "windowDimA")?;
        at_least(1, &strides, "strideA")?;
        Ok(PoolingDescriptor { mode, nan, window, padding, strides })
    }

    /// What a window makes of its elements.
    pub fn mode(&self) -> PoolingMode {
        self.mode
    }

    /// What a maximum makes of a NaN.
    pub fn nan(&self) -> NanPropagation {
        self.nan
    }

    /// Extents of the window, one per spatial dimension.
    pub fn window(&self) -> Dims {
        self.window
    }

    /// Padding in front of and behind each spatial dimension.
    pub fn padding(&self) -> Dims {
        self.padding
    }

    /// Steps of the window.
    pub fn strides(&self) -> Dims {
        self.strides
    }

    /// The dims of the output, one after the other: N and C of the input (channels counted one by
    /// one), then `1 + (in + 2 * padding - window) / stride` in 32 bits, as the original counts.
    /// Each is an error by itself.
    ///
    /// # Errors
    /// Bad parameter: an input whose rank is not the pooling's plus 2, a vectorisation that the
    /// type does not have, in strict mode also that of UINT8x4; as an entry: a window larger than
    /// the padded input.
    pub fn output_dims(
        &self, input: &TensorDescriptor, mode: Mode,
    ) -> Result<impl Iterator<Item = Result<i64>>> {
        if self.window.rank() == 0 || input.rank() != self.window.rank() + 2 {
            return Err(Error::mismatch(format!(
                "an input of {} dimensions under a pooling of {} spatial ones",
                input.rank(),
                self.window.rank()
            )));
        }
        let refused = mode.is_strict() && input.data_type() == crate::dtype::DataType::Uint8x4;
        if input.has_foreign_vector() || (input.vector().is_some() && refused) {
            return Err(Error::mismatch(format!("pooling of NCHW_VECT_C of {:?}", input.data_type())));
        }
        let (this, dims) = (*self, input.dims());
        Ok((0..dims.rank()).map(move |axis| {
            let Some(spatial) = axis.checked_sub(2) else { return Ok(dims[axis]) };
            let [extent, padding, window, stride] =
                [dims[axis], this.padding[spatial], this.window[spatial], this.strides[spatial]]
                    .map(|value| value as i32);
            let last = extent.wrapping_add(padding.wrapping_mul(2)).wrapping_sub(window);
            if last < 0 {
                let rule = format!("larger than an extent of {extent} padded by {padding} on both sides");
                return Err(Error::element("windowDimA", spatial, window.into(), rule));
            }
            Ok(i64::from(1 + last / stride))
        }))
    }
}

/// Refuses entries below `least`.
pub(super) fn at_least(least: i64, values: &[i64], argument: &'static str) -> Result<()> {
    match values.iter().position(|&value| value < least) {
        Some(index) => Err(Error::element(argument, index, values[index], format!("at least {least}"))),
        None => Ok(()),
    }
}
