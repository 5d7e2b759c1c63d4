//! What strict mode refuses: the types, layouts and algorithms that the original computes (observed
//! on 9.27.0, for a device of compute capability 8.0).

use super::{Algorithm, Convolution, Direction};
use crate::desc::TensorDescriptor;
use crate::desc::tensor::Format;
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::layout::format::{nchw_strides, nhwc_strides};

/// Refuses what the original does not compute by this algorithm.
///
/// # Errors
/// Not supported.
pub(super) fn check(convolution: &Convolution, algorithm: Algorithm) -> Result<()> {
    let rank = convolution.x.rank();
    if !(4..=5).contains(&rank) {
        return refuse(format!("{rank} dimensions, where strict mode computes 4 and 5"));
    }
    let numbers = match Types::of(convolution) {
        Some(Types::Floating { is_half, is_wide }) => floating(convolution, is_half, is_wide),
        Some(Types::Integer) => integer(convolution),
        None => return refuse("a combination of types that strict mode does not compute".to_owned()),
    };
    if numbers.contains(&algorithm.number()) {
        return Ok(());
    }
    if numbers.is_empty() {
        return refuse("layouts that strict mode does not compute".to_owned());
    }
    refuse(format!("{algorithm}: strict mode computes this by the numbers {numbers:?}"))
}

/// Refuses what the original does not compute fused, where numbers do not matter but for two.
///
/// # Errors
/// Not supported; bad parameter where the original dies.
pub(super) fn check_fused(convolution: &Convolution, algorithm: Algorithm) -> Result<()> {
    let rank = convolution.x.rank();
    if !(3..=5).contains(&rank) {
        return refuse(format!("{rank} dimensions, where strict mode computes 3 to 5"));
    }
    if algorithm.number() == 3 {
        return refuse(format!("{algorithm}, which strict mode does not have"));
    }
    check_fused_types(convolution)
}

/// Refuses types that the original does not compute fused.
///
/// # Errors
/// Not supported.
pub(super) fn check_fused_types(convolution: &Convolution) -> Result<()> {
    match Types::of(convolution) {
        Some(Types::Floating { .. }) => Ok(()),
        Some(Types::Integer) if convolution.y.data_type() != DataType::Int32 => Ok(()),
        _ => refuse("a combination of types that strict mode does not compute".to_owned()),
    }
}

/// Whether the original refuses this number after it has looked at all others: its queries list it
/// last then (observed on 9.27.0). It has no kernel for these numbers, but still judges whether
/// they would fit, as its documentation says of earlier versions.
pub(super) fn is_late(convolution: &Convolution, algorithm: Algorithm) -> bool {
    let Convolution { direction, x, w, y, desc, .. } = convolution;
    let Some(Types::Floating { is_half, is_wide }) = Types::of(convolution) else { return false };
    let are_planes = w.format() == Format::Nchw && follows(x, Format::Nchw) && follows(y, Format::Nchw);
    let (geometry, dims) = (&desc.geometry, w.stored_dims());
    let (taps, outputs, is_flat) = (&dims[2..], &y.stored_dims()[2..], x.rank() == 4);
    let in_steps_of_1 = geometry.strides().iter().all(|&stride| stride == 1);
    let is_dense = geometry.dilation().iter().all(|&dilation| dilation == 1);
    let is_padded_less = geometry.padding().iter().zip(taps).all(|(pad, taps)| pad < taps);
    let transforms = are_planes && is_padded_less && !is_half && !is_wide;
    match (direction, algorithm.number()) {
        (Direction::Forward, 7) | (Direction::BackwardData | Direction::BackwardFilter, 5) => {
            are_planes && is_flat && !is_wide && is_winograd(convolution)
        }
        (Direction::Forward, 4) | (Direction::BackwardData | Direction::BackwardFilter, 2) => {
            transforms && is_flat && is_dense && in_steps_of_1
        }
        (Direction::BackwardFilter, 6) => {
            transforms && is_flat && is_dense && in_steps_of_1 && outputs.contains(&1)
        }
        (Direction::Forward, 5) | (Direction::BackwardData, 3) => {
            let in_small_steps = geometry.strides().iter().all(|&stride| stride <= 2) && !taps.contains(&1);
            let is_backward = *direction == Direction::BackwardData;
            let of_bfloat16 = is_backward && x.data_type() == DataType::Bfloat16;
            let fits = if is_flat {
                is_dense && (in_steps_of_1 || in_small_steps)
            } else {
                in_steps_of_1 && (is_dense || is_backward)
            };
            (transforms || are_planes && is_padded_less && of_bfloat16) && fits
        }
        _ => false,
    }
}

fn refuse(text: String) -> Result<()> {
    Err(Error::unsupported(text))
}

/// The families of types that the original knows.
enum Types {
    /// One floating type for all three.
    Floating {
        /// HALF computed in HALF.
        is_half: bool,
        /// DOUBLE or BFLOAT16, for which there are fewer algorithms.
        is_wide: bool,
    },
    /// 8-bit integers summed in INT32, forward only.
    Integer,
}

impl Types {
    fn of(convolution: &Convolution) -> Option<Types> {
        let Convolution { x, w, y, desc, .. } = convolution;
        let (x, w, y) = (x.data_type(), w.data_type(), y.data_type());
        let compute = desc.geometry.compute_type();
        if x == w && w == y {
            let (is_half, is_wide) = match (x, compute) {
                (DataType::Float | DataType::Half, DataType::Float) => (false, false),
                (DataType::Half, DataType::Half) => (true, false),
                (DataType::Bfloat16, DataType::Float) | (DataType::Double, DataType::Double) => (false, true),
                _ => return Types::integer(convolution, x, w, y),
            };
            return Some(Types::Floating { is_half, is_wide });
        }
        Types::integer(convolution, x, w, y)
    }

    fn integer(convolution: &Convolution, x: DataType, w: DataType, y: DataType) -> Option<Types> {
        let is_forward = convolution.direction == Direction::Forward;
        let in_integers = convolution.desc.geometry.compute_type() == DataType::Int32;
        let known = match (x, w) {
            (DataType::Int8 | DataType::Uint8, DataType::Int8) => {
                matches!(y, DataType::Int8 | DataType::Int32 | DataType::Float)
            }
            (DataType::Int8x4 | DataType::Uint8x4, DataType::Int8x4) => {
                matches!(y, DataType::Int8x4 | DataType::Float)
            }
            (DataType::Int8x32, DataType::Int8x32) => y == DataType::Int8x32,
            _ => false,
        };
        (is_forward && in_integers && known).then_some(Types::Integer)
    }
}

/// The numbers that compute a floating problem.
fn floating(convolution: &Convolution, is_half: bool, is_wide: bool) -> &'static [i32] {
    let Convolution { direction, x, w, y, .. } = convolution;
    let is_double = x.data_type() == DataType::Double;
    let is_flat = x.rank() == 4;
    if w.format() == Format::Nhwc {
        // The one mixture that the original knows.
        let to_planes = x.data_type() == DataType::Half
            && !is_half
            && is_flat
            && *direction == Direction::Forward
            && follows(y, Format::Nchw);
        if !follows(x, Format::Nhwc) || !(follows(y, Format::Nhwc) || to_planes) {
            return &[];
        }
        return match direction {
            Direction::Forward if is_flat => &[0, 1],
            Direction::Forward if is_half => &[],
            Direction::Forward => &[1],
            _ if is_double => &[],
            Direction::BackwardFilter if is_half && is_flat => &[],
            _ if is_flat => &[0, 1],
            _ => &[1],
        };
    }
    match direction {
        // The one direction in which HALF is summed in HALF over three dimensions, grouped or not.
        Direction::BackwardData if is_half && !is_flat && follows(y, Format::Nchw) => &[1],
        _ if is_half && !is_flat => &[],
        Direction::Forward if is_half || !is_flat => &[0, 1],
        Direction::Forward if is_winograd(convolution) && !is_wide => &[0, 1, 2, 6],
        Direction::Forward => &[0, 1, 2],
        Direction::BackwardData if !follows(y, Format::Nchw) => &[],
        Direction::BackwardData if is_flat && is_winograd(convolution) && !is_wide && !is_half => &[0, 1, 4],
        Direction::BackwardData => &[0, 1],
        Direction::BackwardFilter if !follows(x, Format::Nchw) => {
            if is_flat {
                &[]
            } else {
                &[1]
            }
        }
        Direction::BackwardFilter if is_half => &[1],
        Direction::BackwardFilter
            if is_flat && convolution.desc.geometry.dilation().iter().any(|&d| d != 1) =>
        {
            &[0, 1]
        }
        Direction::BackwardFilter => &[0, 1, 3],
    }
}

/// The numbers that compute a problem of integers.
fn integer(convolution: &Convolution) -> &'static [i32] {
    let Convolution { x, w, y, desc, groups, .. } = convolution;
    if x.rank() != 4 || desc.geometry.dilation().iter().any(|&dilation| dilation != 1) {
        return &[];
    }
    let fits = if w.format() == Format::NchwVectC {
        let y_fits = match y.data_type() {
            DataType::Float => y.vector().is_none() && follows(y, Format::Nchw),
            _ => y.vector().is_some(),
        };
        x.vector().is_some() && y_fits && *groups == 1
    } else {
        let channels_last =
            w.format() == Format::Nhwc && follows(x, Format::Nhwc) && follows(y, Format::Nhwc);
        channels_last && (*groups == 1 || are_integer_groups(convolution))
    };
    if fits { &[0, 1] } else { &[] }
}

/// The one kind of groups that was seen computed of integers: of single channels, which come in
/// fours, with filters in eights.
fn are_integer_groups(convolution: &Convolution) -> bool {
    let Convolution { x, w, y, groups, .. } = convolution;
    let (channels, filters) = (x.stored_dims()[1], w.stored_dims()[0]);
    w.stored_dims()[1] == 1
        && channels % 4 == 0
        && filters % (8 * groups) == 0
        && y.data_type() == DataType::Int32
}

/// A window of 3x3, in steps of 1, without gaps.
fn is_winograd(convolution: &Convolution) -> bool {
    let geometry = &convolution.desc.geometry;
    convolution.w.stored_dims()[2..].iter().all(|&extent| extent == 3)
        && geometry.strides().iter().chain(geometry.dilation().iter()).all(|&step| step == 1)
}

/// Whether a tensor without vectors is packed in this order; strides of extents of 1 do not count.
fn follows(tensor: &TensorDescriptor, format: Format) -> bool {
    let (dims, strides) = (tensor.stored_dims(), tensor.strides());
    let packed = if format == Format::Nhwc { nhwc_strides(&dims) } else { nchw_strides(&dims) };
    tensor.vector().is_none()
        && packed.is_some_and(|packed| (0..dims.rank()).all(|k| dims[k] == 1 || packed[k] == strides[k]))
}
