//! The tensor descriptor: element type, dims, strides and vectorisation, with the original's rules
//! for setting them.
//!
//! The order of checks and every limit were observed on 9.27.0.

use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::layout::{Dims, Layout, MAX_RANK, Split};
use crate::mode::Mode;

/// The channel dimension of every named format.
pub const CHANNEL: usize = 1;

/// The largest extent in elements that the original describes.
const ORIGINAL_EXTENT_LIMIT: i64 = i32::MAX as i64;

/// An order of dimensions in memory that a setter turns into strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Dimensions in the order given, the last one fastest.
    Nchw,
    /// Channels fastest, then the last spatial dimension, the batch slowest.
    Nhwc,
    /// As NCHW over elements that each hold a vector of consecutive channels.
    NchwVectC,
    /// NC/xHWx: channels in blocks of this many, the tail of the last block padded with zeros. An
    /// extension.
    Blocked(i64),
}

impl Format {
    /// The lowest code of the extension formats: `BLOCKED + x` is NC/xHWx (`cudnn_shim.h`).
    pub const BLOCKED: i32 = 0x4358_0000;

    /// The number that C programs know the format by.
    pub fn code(self) -> i32 {
        match self {
            Format::Nchw => 0,
            Format::Nhwc => 1,
            Format::NchwVectC => 2,
            // `from_code` admits 16 bits.
            Format::Blocked(block) => Format::BLOCKED + block as i32,
        }
    }

    /// The format that a C caller's integer names; extension formats only outside strict mode.
    pub fn from_code(code: i32, mode: Mode) -> Option<Format> {
        match code {
            0 => Some(Format::Nchw),
            1 => Some(Format::Nhwc),
            2 => Some(Format::NchwVectC),
            _ if mode.is_strict() => None,
            _ => match code.checked_sub(Format::BLOCKED) {
                Some(block @ 1..=0xffff) => Some(Format::Blocked(i64::from(block))),
                _ => None,
            },
        }
    }
}

/// How channels share an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    /// One stored channel is one element.
    Plain,
    /// One element is a vector of this many channels (`NCHW_VECT_C`).
    Vector(i64),
    /// Blocks of this many elements lie side by side.
    Blocked(i64),
}

/// What a `cudnnTensorDescriptor_t` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorDescriptor {
    data_type: DataType,
    packing: Packing,
    /// Whether a format chose the strides.
    packed: bool,
    /// Where each scalar lies. Setters work it out, and what it reaches, so that calls need not.
    layout: Layout,
    /// The lowest and the highest offset in scalars, padding included.
    span: (i64, i64),
}

impl Default for TensorDescriptor {
    /// A descriptor after creation: type float, no dimensions.
    fn default() -> Self {
        TensorDescriptor {
            data_type: DataType::Float,
            packing: Packing::Plain,
            packed: false,
            layout: Layout { dims: Dims::EMPTY, strides: Dims::EMPTY, split: None },
            span: (0, 0),
        }
    }
}

impl TensorDescriptor {
    /// A descriptor whose strides follow from `format` (`SetTensor4dDescriptor`,
    /// `SetTensorNdDescriptorEx`).
    ///
    /// `rank` is the caller's nbDims; `dims` are its extents as far as they could be read (at most
    /// [`MAX_RANK`]). Checks, in order: channels a multiple of the vector, rank, extents, size.
    ///
    /// # Errors
    /// Bad parameter: rank below 2, an extent below 1, channels that are no multiple of the vector,
    /// a packed stride that wraps to 0. Not supported: rank above 8, an extent beyond 2^31-1
    /// elements (strict mode), a packed stride beyond 32 bits.
    pub fn with_format(
        data_type: DataType, format: Format, rank: i64, dims: &[i64], mode: Mode,
    ) -> Result<Self> {
        let packing = match format {
            Format::Nchw | Format::Nhwc => Packing::Plain,
            // Types without lanes of their own get vectors of 4 here, as the original gives them.
            Format::NchwVectC => Packing::Vector(data_type.lanes().max(4)),
            Format::Blocked(block) => Packing::Blocked(block),
        };
        if let (Packing::Vector(lanes), Some(&channels)) = (packing, dims.get(CHANNEL))
            && channels % lanes != 0
        {
            return Err(Error::element(
                "dimA",
                CHANNEL,
                channels,
                format!("NCHW_VECT_C needs a multiple of {lanes}"),
            ));
        }
        check_rank(rank)?;
        check_extents(dims, "dimA")?;
        if matches!(packing, Packing::Blocked(_)) && data_type.lanes() > 1 {
            return Err(Error::unsupported("a blocked format of a type that already holds several channels"));
        }
        let mut tensor = TensorDescriptor::of(data_type, packing, dims);
        let Layout { dims: stored, strides, .. } = &mut tensor.layout;
        let unit = match packing {
            Packing::Plain => 1,
            Packing::Vector(lanes) => {
                stored[CHANNEL] /= lanes;
                1
            }
            // Memory is laid out over whole blocks.
            Packing::Blocked(block) => {
                stored[CHANNEL] = (stored[CHANNEL] + block - 1) / block;
                block
            }
        };
        *strides = packed_strides(stored, format == Format::Nhwc, unit)?;
        if let Packing::Blocked(_) = packing {
            stored[CHANNEL] = dims[CHANNEL];
        }
        tensor.packed = true;
        tensor.measure(mode)?;
        Ok(tensor)
    }

    /// A descriptor with explicit strides (`SetTensor4dDescriptorEx`, `SetTensorNdDescriptor`).
    ///
    /// # Errors
    /// Bad parameter: rank below 2, an extent below 1, stride 0 on an extent above 1 (strict mode).
    /// Not supported: rank above 8, an extent beyond 2^31-1 elements (strict mode).
    pub fn with_strides(
        data_type: DataType, rank: i64, dims: &[i64], strides: &[i64], mode: Mode,
    ) -> Result<Self> {
        check_rank(rank)?;
        check_extents(dims, "dimA")?;
        let zero = dims.iter().zip(strides).position(|(&d, &s)| d > 1 && s == 0);
        if let (Some(index), true) = (zero, mode.is_strict()) {
            return Err(Error::element("strideA", index, 0, format!("0 on an extent of {}", dims[index])));
        }
        let mut tensor = TensorDescriptor::of(data_type, Packing::Plain, dims);
        tensor.layout.strides = Dims::new(strides);
        tensor.measure(mode)?;
        Ok(tensor)
    }

    /// A descriptor without strides, which are to be set next; then it is to be
    /// [measured](Self::measure).
    #[inline]
    fn of(data_type: DataType, packing: Packing, stored: &[i64]) -> Self {
        let split = match (packing, data_type.lanes()) {
            (Packing::Blocked(block), _) => Some(Split::new(CHANNEL, block)),
            (_, 1) => None,
            (_, lanes) => Some(Split::new(CHANNEL, lanes)),
        };
        let layout = Layout { dims: Dims::new(stored), strides: Dims::EMPTY, split };
        TensorDescriptor { data_type, packing, packed: false, layout, span: (0, 0) }
    }

    /// Turns stored dims and strides in elements into those in scalars, finds the span, and refuses
    /// what is too large to describe.
    #[inline]
    fn measure(&mut self, mode: Mode) -> Result<()> {
        if self.count_scalars().is_none() {
            return Err(too_large(&self.layout));
        }
        if mode.is_strict() && self.extent() > ORIGINAL_EXTENT_LIMIT {
            return Err(beyond_the_original(self.extent()));
        }
        Ok(())
    }

    /// The first half of [`measure`](Self::measure); `None` beyond 2^63 bytes.
    #[inline]
    fn count_scalars(&mut self) -> Option<()> {
        let (layout, lanes) = (&mut self.layout, self.data_type.lanes());
        if lanes > 1 {
            layout.dims[CHANNEL] = layout.dims[CHANNEL].checked_mul(lanes)?;
            for stride in &mut *layout.strides {
                *stride = stride.checked_mul(lanes)?;
            }
        }
        self.span = layout.padded_span()?;
        let scalars = (self.span.1 - self.span.0).checked_add(1)?;
        scalars.checked_mul(self.data_type.scalar().size() as i64)?;
        Some(())
    }

    /// Whether a setter has succeeded.
    pub fn is_set(&self) -> bool {
        self.layout.dims.rank() > 0
    }

    /// The element type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Number of dimensions, 0 before the first setter.
    pub fn rank(&self) -> usize {
        self.layout.dims.rank()
    }

    /// Extents as stored: channels counted in vectors when the descriptor is vectorised.
    pub fn stored_dims(&self) -> Dims {
        let mut dims = self.layout.dims;
        if let (lanes @ 2.., true) = (self.data_type.lanes(), self.is_set()) {
            dims[CHANNEL] /= lanes;
        }
        dims
    }

    /// Extents as the getters report them: channels counted one by one.
    pub fn dims(&self) -> Dims {
        let mut dims = self.stored_dims();
        if let Packing::Vector(lanes) = self.packing {
            dims[CHANNEL] *= lanes;
        }
        dims
    }

    /// Strides as the getters report them, in elements.
    pub fn strides(&self) -> Dims {
        let mut strides = self.layout.strides;
        if let lanes @ 2.. = self.data_type.lanes() {
            strides.iter_mut().for_each(|stride| *stride /= lanes);
        }
        strides
    }

    /// Whether the strides follow from a format, so that no two elements share an address; explicit
    /// strides may do so as well.
    pub fn is_packed(&self) -> bool {
        self.packed
    }

    /// Channels per element under `NCHW_VECT_C`, else `None`.
    pub fn vector(&self) -> Option<i64> {
        if let Packing::Vector(lanes) = self.packing { Some(lanes) } else { None }
    }

    /// Whether the vectorisation is one that the element type does not have (possible through
    /// `SetTensorNdDescriptorEx` only): it can be described, but no data has that form.
    pub fn has_foreign_vector(&self) -> bool {
        self.vector().is_some_and(|lanes| lanes != self.data_type.lanes())
    }

    /// Replaces the stored dims and their strides, keeping type and vectorisation
    /// (`InitTransformDest`).
    ///
    /// # Errors
    /// As [`TensorDescriptor::with_format`].
    pub fn repacked(&self, stored: &[i64], format: Format, mode: Mode) -> Result<Self> {
        let mut dims = Dims::new(stored);
        let format = match (self.packing, format) {
            // Vectors stay vectors, whatever the order of the dimensions.
            (Packing::Vector(lanes), Format::Nchw | Format::Nhwc | Format::NchwVectC) => {
                let mut tensor = TensorDescriptor::of(self.data_type, Packing::Vector(lanes), stored);
                tensor.layout.strides = packed_strides(&dims, format == Format::Nhwc, 1)?;
                tensor.packed = true;
                tensor.measure(mode)?;
                return Ok(tensor);
            }
            // Stored channels of a plain x4/x32 tensor are vectors already.
            (_, Format::NchwVectC) if self.data_type.lanes() > 1 => {
                dims[CHANNEL] *= self.data_type.lanes();
                format
            }
            (_, Format::NchwVectC) => {
                return Err(Error::unsupported(
                    "destFormat NCHW_VECT_C: the source's element type holds one channel, not 4 or 32",
                ));
            }
            _ => format,
        };
        TensorDescriptor::with_format(self.data_type, format, dims.rank() as i64, &dims, mode)
    }

    /// `1 + sum (dim - 1) * |stride|` over all dims, in elements; 1 before the first setter.
    fn extent(&self) -> i64 {
        (self.span.1 - self.span.0) / self.data_type.lanes() + 1
    }

    /// Bytes from the lowest to the highest element, padding of blocked formats included; 0 before
    /// the first setter.
    pub fn size_in_bytes(&self) -> usize {
        // `measure` has proved that this fits.
        if self.is_set() { self.extent() as usize * self.data_type.size() } else { 0 }
    }

    /// Where each scalar lies.
    ///
    /// # Errors
    /// Not supported for a vectorisation that the type does not have.
    #[inline]
    pub fn layout(&self) -> Result<&Layout> {
        if self.has_foreign_vector() { Err(self.no_data()) } else { Ok(&self.layout) }
    }

    /// The lowest and the highest offset in scalars, padding of blocked formats included; 0 and 0
    /// before the first setter.
    #[inline]
    pub fn span(&self) -> (i64, i64) {
        self.span
    }

    #[cold]
    fn no_data(&self) -> Error {
        let name = self.data_type;
        Error::unsupported(format!("NCHW_VECT_C with {name:?}, a type without vectors, describes no data"))
    }
}

#[cold]
fn too_large(Layout { dims, strides, .. }: &Layout) -> Error {
    Error::unsupported(format!("dims {dims} with strides {strides} span more than 2^63 bytes"))
}

#[cold]
fn beyond_the_original(extent: i64) -> Error {
    Error::unsupported(format!(
        "the tensor spans {extent} elements; strict mode ends at {ORIGINAL_EXTENT_LIMIT}"
    ))
}

pub(super) fn check_rank(rank: i64) -> Result<()> {
    if rank < 2 {
        return Err(Error::argument("nbDims", rank, "a tensor has at least 2 dimensions"));
    }
    if rank > MAX_RANK as i64 {
        return Err(Error::unsupported(format!("nbDims = {rank}: at most {MAX_RANK} dimensions")));
    }
    Ok(())
}

/// Refuses extents below 1.
pub(super) fn check_extents(dims: &[i64], argument: &'static str) -> Result<()> {
    match dims.iter().position(|&d| d < 1) {
        Some(index) => Err(Error::element(argument, index, dims[index], "an extent is at least 1")),
        None => Ok(()),
    }
}

/// Packed strides of `dims` in the format's order, innermost stride `unit`.
///
/// # Errors
/// Strides are 32-bit at the boundary. The original lets them wrap and then refuses: as a bad
/// parameter if one wraps to exactly 0 on an extent above 1, else as not supported.
fn packed_strides(dims: &Dims, channels_last: bool, unit: i64) -> Result<Dims> {
    let rank = dims.rank();
    let mut strides = *dims;
    let (mut wrapped, mut zero) = (false, None);
    let mut next = unit;
    let mut place = |axis: usize| {
        strides[axis] = next;
        if next == 0 && dims[axis] > 1 {
            zero = Some(axis);
        }
        let (product, overflows) = next.overflowing_mul(dims[axis]);
        next = i64::from(product as i32);
        // A product that nobody uses as a stride may wrap: the outermost one.
        wrapped |= axis != 0 && (overflows || next != product);
    };
    // From the fastest to the slowest.
    if channels_last {
        place(CHANNEL);
    }
    (CHANNEL + 1..rank).rev().for_each(&mut place);
    if !channels_last {
        place(CHANNEL);
    }
    place(0);
    if let Some(index) = zero {
        return Err(Error::element("dimA", index, dims[index], "the packed stride wraps to 0 in 32 bits"));
    }
    if wrapped {
        return Err(Error::unsupported(format!("the packed strides of {dims} do not fit 32 bits")));
    }
    Ok(strides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_elements_of_a_packed_tensor_share_an_address() {
        let dims: [&[i64]; 5] = [&[2, 8], &[1, 32, 1], &[3, 64, 1, 2], &[1, 4, 5, 1], &[2, 32, 1, 3, 2]];
        let formats = [Format::Nchw, Format::Nhwc, Format::NchwVectC, Format::Blocked(3), Format::Blocked(8)];
        let mut packed = 0;
        for (dims, format) in dims.into_iter().flat_map(|dims| formats.map(|format| (dims, format))) {
            for data_type in [DataType::Float, DataType::Int8x4, DataType::Int8x32] {
                let rank = dims.len() as i64;
                let tensor = TensorDescriptor::with_format(data_type, format, rank, dims, Mode::Extended);
                // Refused: channels that are no multiple of the vector, vectors of a type without.
                let Ok(tensor) = tensor else { continue };
                assert!(tensor.is_packed());
                let Ok(layout) = tensor.layout() else { continue };
                let mut seen = BTreeSet::new();
                layout.padded_nest().for_each(|[at]| assert!(seen.insert(at), "{layout:?}"));
                packed += 1;
            }
        }
        // FLOAT in four formats; INT8x4 in three; INT8x32 in two, and as vectors of 32, 64 and 32
        // channels.
        assert_eq!(packed, 4 * 5 + 3 * 5 + 2 * 5 + 3);
        let strided = TensorDescriptor::with_strides(DataType::Float, 2, &[4, 4], &[1, 1], Mode::Extended);
        assert!(!strided.unwrap().is_packed());
    }
}
