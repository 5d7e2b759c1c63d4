//! A strided data gradient as one without strides: descriptors of the folded operands and the
//! transforms that make them.

use crate::desc::tensor::{CHANNEL, Format};
use crate::desc::{
    ConvolutionDescriptor, ConvolutionGeometry, FilterDescriptor, Folding, TensorDescriptor,
    TransformDescriptor,
};
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::layout::format::{nchw_strides, nhwc_strides};
use crate::mode::Mode;

/// What a strided data gradient becomes.
#[derive(Clone, Copy, Debug)]
pub struct Folded {
    /// The filter, padded and folded.
    pub filter: FilterDescriptor,
    /// The output's gradient, padded.
    pub diff: TensorDescriptor,
    /// The convolution without strides.
    pub convolution: ConvolutionDescriptor,
    /// The input's gradient, folded.
    pub grad: TensorDescriptor,
    /// Makes the folded filter.
    pub fold_filter: TransformDescriptor,
    /// Makes the padded gradient of the output.
    pub pad_diff: TransformDescriptor,
    /// Makes the folded gradient of the input, for a blend with its old value.
    pub fold_grad: TransformDescriptor,
    /// Makes the gradient of the input from the folded one.
    pub unfold_grad: TransformDescriptor,
}

/// Folds space into channels by the strides: a window of `r` in steps of `s` becomes one of
/// `ceil((r + b) / s)` in steps of 1, over `s` times the channels. `b` zeros in front of the filter
/// make the padding a multiple of the stride. Filters are padded to a multiple of 8, and folded
/// channels as far as whole channels reach to one (observed on 9.27.0).
///
/// # Errors
/// Bad parameter for other than 4 dimensions; not supported for a destination format other than
/// NCHW and NHWC, and for a gradient of the output that was never set. What the descriptors'
/// setters refuse, they refuse here.
pub fn fold(
    filter: &FilterDescriptor, diff: &TensorDescriptor, desc: &ConvolutionDescriptor,
    grad: &TensorDescriptor, format: i32, mode: Mode,
) -> Result<Folded> {
    let (kernel, output, input) = (filter.stored_dims(), diff.stored_dims(), grad.stored_dims());
    let geometry = &desc.geometry;
    let ranks = [("filterDesc", kernel.rank()), ("gradDesc", input.rank())];
    if let Some((name, rank)) = ranks.into_iter().find(|&(_, rank)| rank != RANK) {
        return Err(Error::mismatch(format!("{name} has {rank} dimensions, folding takes {RANK}")));
    }
    if geometry.padding().rank() != RANK - 2 || (diff.is_set() && output.rank() != RANK) {
        return Err(Error::mismatch(format!("folding takes a convolution of {RANK} dimensions")));
    }
    if !diff.is_set() {
        return Err(Error::unsupported("diffDesc was never set"));
    }
    let order = match format {
        0 => Format::Nchw,
        1 => Format::Nhwc,
        _ => return Err(Error::unsupported(format!("transformFormat = {format}: neither NCHW nor NHWC"))),
    };
    let strides = geometry.strides();
    let factor = strides[0] * strides[1];
    let filters = round_up(kernel[0], MULTIPLE) - kernel[0];
    let channels = round_up(kernel[CHANNEL] * factor, MULTIPLE) / factor - kernel[CHANNEL];
    let transform = |dest_format: i32, fold: [i64; 2], direction: Folding| {
        let fold = [fold[0] as u32, fold[1] as u32, 0, 0, 0, 0];
        TransformDescriptor { dest_format, fold, direction, ..TransformDescriptor::default() }
    };
    let factors = [strides[0], strides[1]];
    let grad_format = i32::from(is_channels_last(grad));
    let mut fold_filter = transform(format, factors, Folding::Fold);
    let mut pad_diff = transform(format, [0; 2], Folding::Fold);
    let mut fold_grad = transform(format, factors, Folding::Fold);
    let mut unfold_grad = transform(grad_format, factors, Folding::Unfold);
    fold_filter.pad_after[..2].copy_from_slice(&[filters as i32, channels as i32]);
    pad_diff.pad_after[CHANNEL] = filters as i32;
    fold_grad.pad_after[CHANNEL] = channels as i32;
    unfold_grad.pad_after[CHANNEL] = -channels as i32;

    let mut folded_filter = [kernel[0] + filters, (kernel[CHANNEL] + channels) * factor, 0, 0];
    let mut padded_diff = [output[0], output[CHANNEL] + filters, 0, 0];
    let mut folded_grad = [input[0], (kernel[CHANNEL] + channels) * factor, 0, 0];
    let mut padding = [0; RANK - 2];
    for axis in 2..RANK {
        let (step, pad, window) = (strides[axis - 2], geometry.padding()[axis - 2], kernel[axis]);
        padding[axis - 2] = ceil_div(pad, step);
        let before = padding[axis - 2] * step - pad;
        folded_filter[axis] = ceil_div(window + before, step);
        // Windows end here at the latest; elements behind them have no gradient.
        let covered = input[axis].min((output[axis] - 1) * step + window - pad);
        folded_grad[axis] = ceil_div(covered, step);
        padded_diff[axis] = folded_grad[axis] + 2 * padding[axis - 2] - folded_filter[axis] + 1;
        let surplus = folded_grad[axis] * step - input[axis];
        fold_filter.pad_before[axis] = before as i32;
        fold_filter.pad_after[axis] = (folded_filter[axis] * step - window - before) as i32;
        pad_diff.pad_after[axis] = (padded_diff[axis] - output[axis]) as i32;
        fold_grad.pad_after[axis] = surplus.min(0) as i32;
        unfold_grad.pad_after[axis] = -surplus as i32;
    }
    let ones = Dims::filled(RANK - 2, 1);
    let geometry = ConvolutionGeometry::new(
        geometry.mode(),
        geometry.compute_type(),
        Dims::new(&padding),
        ones,
        geometry.dilation(),
    )?;
    let rank = RANK as i64;
    Ok(Folded {
        filter: FilterDescriptor::new(filter.data_type(), order, rank, &folded_filter, mode)?,
        diff: TensorDescriptor::with_format(diff.data_type(), order, rank, &padded_diff, mode)?,
        convolution: ConvolutionDescriptor { geometry, ..ConvolutionDescriptor::default() },
        grad: TensorDescriptor::with_format(grad.data_type(), order, rank, &folded_grad, mode)?,
        fold_filter,
        pad_diff,
        fold_grad,
        unfold_grad,
    })
}

/// Dimensions of everything that is folded.
const RANK: usize = 4;

/// Channels that the original's kernels take at a time.
const MULTIPLE: i64 = 8;

fn ceil_div(a: i64, b: i64) -> i64 {
    (a + b - 1).div_euclid(b)
}

fn round_up(a: i64, multiple: i64) -> i64 {
    ceil_div(a, multiple) * multiple
}

/// Whether a tensor is packed as NHWC and not also as NCHW.
fn is_channels_last(tensor: &TensorDescriptor) -> bool {
    let (dims, strides) = (tensor.stored_dims(), Some(tensor.strides()));
    nhwc_strides(&dims) == strides && nchw_strides(&dims) != strides
}
