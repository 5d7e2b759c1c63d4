//! The named formats: orders of dimensions from which packed strides follow, and how to recognise
//! them.

use super::{Dims, Layout, MAX_RANK};
use std::fmt;

/// A named order of dimensions, by decreasing stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimOrder {
    /// Batch, channel, row, column.
    Nchw,
    /// Channels innermost.
    Nhwc,
    /// Batch innermost.
    Chwn,
    /// Batch, channel, depth, row, column.
    Ncdhw,
    /// Channels innermost, 5-D.
    Ndhwc,
    /// Batch innermost, 5-D.
    Cdhwn,
    /// A batch of row-major matrices.
    RowMajor,
    /// A batch of column-major matrices.
    ColMajor,
}

impl DimOrder {
    /// Every format; where dims of 1 let several fit, the first is the name.
    pub const ALL: [DimOrder; 8] = [
        DimOrder::Nchw,
        DimOrder::Nhwc,
        DimOrder::Chwn,
        DimOrder::Ncdhw,
        DimOrder::Ndhwc,
        DimOrder::Cdhwn,
        DimOrder::RowMajor,
        DimOrder::ColMajor,
    ];

    /// The dimensions from outermost to innermost, as indices into dims in the usual order (N C H
    /// W, N C D H W, B M N).
    pub const fn order(self) -> &'static [usize] {
        match self {
            DimOrder::Nchw => &[0, 1, 2, 3],
            DimOrder::Nhwc => &[0, 2, 3, 1],
            DimOrder::Chwn => &[1, 2, 3, 0],
            DimOrder::Ncdhw => &[0, 1, 2, 3, 4],
            DimOrder::Ndhwc => &[0, 2, 3, 4, 1],
            DimOrder::Cdhwn => &[1, 2, 3, 4, 0],
            DimOrder::RowMajor => &[0, 1, 2],
            DimOrder::ColMajor => &[0, 2, 1],
        }
    }

    /// The letters of the dimensions in this format's order.
    pub const fn name(self) -> &'static str {
        match self {
            DimOrder::Nchw => "NCHW",
            DimOrder::Nhwc => "NHWC",
            DimOrder::Chwn => "CHWN",
            DimOrder::Ncdhw => "NCDHW",
            DimOrder::Ndhwc => "NDHWC",
            DimOrder::Cdhwn => "CDHWN",
            DimOrder::RowMajor => "BMN",
            DimOrder::ColMajor => "BNM",
        }
    }

    /// The fully packed tensor of this format; `None` if `dims` has another rank or a stride leaves
    /// 64 bits.
    pub fn layout(self, dims: &[i64]) -> Option<Layout> {
        if dims.len() != self.order().len() {
            return None;
        }
        let strides = packed_strides(dims, self.order())?;
        Some(Layout { dims: Dims::new(dims), strides, split: None })
    }

    /// The format that these strides follow with at least the innermost letter packed, and how many
    /// of its innermost letters are packed; the most packed one. Strides of dims of 1 do not count.
    pub fn recognise(dims: &[i64], strides: &[i64]) -> Option<(DimOrder, usize)> {
        let mut best: Option<(DimOrder, usize)> = None;
        for format in DimOrder::ALL {
            if let Some(packed) = packed_letters(dims, strides, format.order())
                && best.is_none_or(|(_, most)| packed > most)
            {
                best = Some((format, packed));
            }
        }
        best
    }
}

/// How many innermost letters of `order` are packed, at least one that is not of extent 1, if the
/// others follow in decreasing order of stride without crossing.
fn packed_letters(dims: &[i64], strides: &[i64], order: &[usize]) -> Option<usize> {
    if dims.len() != order.len() {
        return None;
    }
    // Reach of the letters further inside: the stride at which the next one is packed.
    let (mut reach, mut packed, mut gap) = (1_i64, 0, false);
    for &k in order.iter().rev() {
        if dims[k] != 1 {
            gap |= strides[k] != reach;
            if strides[k] < reach || (gap && reach == 1) {
                return None;
            }
            reach = dims[k].checked_mul(strides[k])?;
        }
        packed += usize::from(!gap);
    }
    Some(packed)
}

/// Strides of a tensor without gaps whose dimensions lie in `order`, outermost first; `None` when
/// one leaves 64 bits. Pre: `order` is a permutation of the indices of `dims`.
pub fn packed_strides(dims: &[i64], order: &[usize]) -> Option<Dims> {
    let mut strides = Dims::filled(dims.len(), 1);
    for pair in order.windows(2).rev() {
        strides[pair[0]] = dims[pair[1]].checked_mul(strides[pair[1]])?;
    }
    Some(strides)
}

/// Strides of `CUDNN_TENSOR_NCHW` for any rank: packed, the last dim fastest.
pub fn nchw_strides(dims: &[i64]) -> Option<Dims> {
    packed_strides(dims, &IDENTITY[..dims.len()])
}

/// Strides of `CUDNN_TENSOR_NHWC`: C has stride 1, then the last dim, ..., N slowest. Pre: at least
/// 2 dims.
///
/// The original accepts 3 to 8 dims; with 2 its answer is broken and ours is the packed matrix.
pub fn nhwc_strides(dims: &[i64]) -> Option<Dims> {
    let mut order = IDENTITY;
    order[1..dims.len()].rotate_left(1);
    packed_strides(dims, &order[..dims.len()])
}

const IDENTITY: [usize; MAX_RANK] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Prints dims and the name of the format for logs: `10x3x32x32 NHWC`, `2x8x5x4 NCHW (HW-packed)`,
/// `1x64x5x4 NC/32HW32`, or the bare strides, `2x3 strided 7x2`.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.dims)?;
        if let Some(split) = self.split {
            if Layout::blocked(&self.dims, split.axis(), split.block()).as_ref() == Some(self) {
                return match (self.dims.rank(), split.axis(), split.block()) {
                    (4, 1, x) => write!(f, "NC/{x}HW{x}"),
                    (5, 1, x) => write!(f, "NC/{x}DHW{x}"),
                    (_, axis, x) => write!(f, "packed, axis {axis} in blocks of {x}"),
                };
            }
            return write!(f, "strided {}, {split:?}", self.strides);
        }
        match DimOrder::recognise(&self.dims, &self.strides) {
            Some((format, packed)) if packed == self.dims.rank() => write!(f, "{}", format.name()),
            Some((format, packed)) => {
                let name = format.name();
                write!(f, "{name} ({}-packed)", &name[name.len() - packed..])
            }
            None if nchw_strides(&self.dims) == Some(self.strides) => write!(f, "packed"),
            None => write!(f, "strided {}", self.strides),
        }
    }
}
