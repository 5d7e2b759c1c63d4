//! The filter descriptor: element type, format and dims of convolution weights, always packed.
//!
//! The order of checks was observed on 9.27.0.

use super::tensor::{CHANNEL, Format, TensorDescriptor, check_extents};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::layout::{Dims, MAX_RANK};
use crate::mode::Mode;

/// What a `cudnnFilterDescriptor_t` holds: K x C x spatial dims; type float and no dims after
/// creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterDescriptor {
    data_type: DataType,
    format: Format,
    /// Extents as stored: channels in vectors under `NCHW_VECT_C`.
    dims: Dims,
}

impl Default for FilterDescriptor {
    fn default() -> Self {
        FilterDescriptor { data_type: DataType::Float, format: Format::Nchw, dims: Dims::EMPTY }
    }
}

impl FilterDescriptor {
    /// A packed filter of `rank` dims, of which `dims` are as many as could be read (at most
    /// [`MAX_RANK`]).
    ///
    /// Channels that are no multiple of the vector are cut off in strict mode, as the original
    /// does.
    ///
    /// # Errors
    /// In this order. Bad parameter: rank below 3. Not supported: rank above 8. Bad parameter:
    /// `NCHW_VECT_C` of a type of one channel, an extent below 1. Outside strict mode also bad
    /// parameter for channels that are no multiple of the vector, and not supported for 2^63 bytes
    /// and more.
    pub fn new(data_type: DataType, format: Format, rank: i64, dims: &[i64], mode: Mode) -> Result<Self> {
        if rank < 3 {
            return Err(Error::argument("nbDims", rank, "a filter has at least 3 dimensions"));
        }
        if rank > MAX_RANK as i64 {
            return Err(Error::unsupported(format!("nbDims = {rank}: at most {MAX_RANK} dimensions")));
        }
        if format == Format::NchwVectC && data_type.lanes() == 1 {
            return Err(Error::mismatch(format!("NCHW_VECT_C of {data_type:?}, a type of one channel")));
        }
        check_extents(dims, "filterDimA")?;
        let mut filter = FilterDescriptor { data_type, format, dims: Dims::new(dims) };
        let vector = filter.vector();
        filter.dims[CHANNEL] /= vector;
        if mode == Mode::Extended {
            if dims[CHANNEL] % vector != 0 {
                let rule = format!("NCHW_VECT_C needs a multiple of {vector}");
                return Err(Error::element("filterDimA", CHANNEL, dims[CHANNEL], rule));
            }
            let bytes = filter.dims.product().and_then(|cells| cells.checked_mul(data_type.size() as i64));
            if bytes.is_none() {
                return Err(Error::unsupported(format!(
                    "a filter of {} takes more than 2^63 bytes",
                    filter.dims
                )));
            }
        }
        Ok(filter)
    }

    /// The element type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The order of the dims in memory.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Extents as stored: channels counted in vectors under `NCHW_VECT_C`.
    pub fn stored_dims(&self) -> Dims {
        self.dims
    }

    /// Extents as the getters report them: channels counted one by one.
    pub fn dims(&self) -> Dims {
        let mut dims = self.dims;
        if dims.rank() > CHANNEL {
            dims[CHANNEL] *= self.vector();
        }
        dims
    }

    /// The packed tensor that holds the filter: K as batch.
    ///
    /// # Errors
    /// As [`TensorDescriptor::with_format`].
    pub fn tensor(&self, mode: Mode) -> Result<TensorDescriptor> {
        TensorDescriptor::with_format(
            self.data_type,
            self.format,
            self.dims.rank() as i64,
            &self.dims(),
            mode,
        )
    }

    /// Bytes of all elements; 0 before the first setter. Strict mode admits filters whose size does
    /// not fit, and wraps as the original does.
    pub fn size_in_bytes(&self) -> usize {
        if self.dims.rank() == 0 {
            return 0;
        }
        self.dims.iter().fold(self.data_type.size(), |bytes, &dim| bytes.wrapping_mul(dim as usize))
    }

    fn vector(&self) -> i64 {
        if self.format == Format::NchwVectC { self.data_type.lanes() } else { 1 }
    }
}
