//! Tensor descriptors by the name of a layout, and the questions that people ask of one, in the
//! caller's units.

use super::tensor::{Format, TensorDescriptor, check_extents, check_rank};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::layout::format::packed_strides;
use crate::layout::{Arrangement, Layout};
use crate::mode::Mode;

impl TensorDescriptor {
    /// A packed descriptor in the layout of this name ([`Arrangement::parse`], and `NCHW_VECT_C`);
    /// blocks of as many channels as the type holds are `NCHW_VECT_C`. `dims` are in the usual
    /// order, channels counted one by one there.
    ///
    /// # Errors
    /// As [`TensorDescriptor::with_format`]; bad parameter also for a name that is not known or
    /// belongs to another rank, not supported for a blocked layout in strict mode.
    pub fn with_layout(data_type: DataType, name: &str, rank: i64, dims: &[i64], mode: Mode) -> Result<Self> {
        check_rank(rank)?;
        let formatted = |format| TensorDescriptor::with_format(data_type, format, rank, dims, mode);
        if name == "NCHW_VECT_C" {
            if data_type.lanes() == 1 {
                return Err(Error::mismatch(
                    "layout NCHW_VECT_C needs a type of several channels: INT8x4, UINT8x4 or INT8x32",
                ));
            }
            return formatted(Format::NchwVectC);
        }
        let Arrangement { order, block } = Arrangement::parse(name, dims.len())?;
        match block {
            Some(block) if block == data_type.lanes() && block > 1 => return formatted(Format::NchwVectC),
            Some(_) if mode.is_strict() => {
                return Err(Error::unsupported("strict mode has no blocked layouts but NCHW_VECT_C"));
            }
            Some(block) => return formatted(Format::Blocked(block)),
            None => {}
        }
        // The formats that have a code keep what belongs to it.
        if order.is_sorted() {
            return formatted(Format::Nchw);
        }
        if order[0] == 0
            && order.last() == Some(&1)
            && order[1..order.len() - 1].is_sorted()
            && order.len() > 2
        {
            return formatted(Format::Nhwc);
        }
        check_extents(dims, "dimA")?;
        let strides = packed_strides(dims, &order)
            .filter(|strides| strides.iter().all(|&stride| stride <= i32::MAX.into()))
            .ok_or_else(|| {
                Error::unsupported(format!("the packed strides of {dims:?} do not fit 32 bits"))
            })?;
        TensorDescriptor::with_strides(data_type, rank, dims, &strides, mode)
    }

    /// Where each element lies in the units of the getters: an element of a type of several
    /// channels is one, unless the descriptor counts its channels one by one (`NCHW_VECT_C`).
    ///
    /// # Errors
    /// As [`TensorDescriptor::layout`]; not initialized before the first setter.
    pub fn elements(&self) -> Result<Layout> {
        if !self.is_set() {
            return Err(Error::mismatch("the descriptor has not been set"));
        }
        let layout = *self.layout()?;
        Ok(match self.vector() {
            None if self.data_type().lanes() > 1 => {
                Layout { dims: self.stored_dims(), strides: self.strides(), split: None }
            }
            _ => layout,
        })
    }

    /// Channels per unit of [`elements`](Self::elements): what its offsets are to be multiplied
    /// with to count scalars.
    pub fn scalars_per_element(&self) -> i64 {
        if self.vector().is_some() { 1 } else { self.data_type().lanes() }
    }
}
