//! What the descriptors of a batch normalisation have to agree on, in the order of the original's
//! checks.

use super::parameter_type;
use crate::desc::normalization::BatchNormMode;
use crate::desc::{ActivationDescriptor, ActivationMode, Format, TensorDescriptor};
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::mode::Mode;
use crate::ops::activation::Activation;
use crate::ops::agree::{self, Named};

/// An addition and an activation that follow.
#[derive(Clone, Copy, Debug)]
pub struct Fused {
    /// Whether z is added.
    pub adds: bool,
    /// The activation.
    pub activation: ActivationDescriptor,
}

impl Fused {
    /// The type in which the backward pass needs the slopes, if it cannot compute them from x.
    pub fn slopes(&self, x: DataType) -> Option<Scalar> {
        let activation = Activation::of(&self.activation).filter(|_| self.adds)?;
        Some(if activation.has_mask() { Scalar::U8 } else { parameter_type(x).scalar() })
    }
}

/// The tensor of scale and bias, mean and variance, with its name in the call.
#[derive(Clone, Copy)]
pub struct Parameters<'a> {
    /// Name of the descriptor.
    pub name: &'static str,
    /// The descriptor.
    pub tensor: &'a TensorDescriptor,
}

/// Refuses types that are not normalised.
///
/// # Errors
/// Not supported.
pub fn check_type(x: &TensorDescriptor, training: bool, mode: Mode) -> Result<()> {
    use DataType::{Bfloat16, Double, Float, Fp8E4m3, Fp8E5m2, Half, Int8};
    let data_type = x.data_type();
    let done = match data_type {
        Float | Double | Half | Bfloat16 => true,
        Int8 => !training,
        Fp8E4m3 | Fp8E5m2 => !mode.is_strict(),
        _ => false,
    };
    if !done {
        let pass = if training { "training" } else { "inference" };
        return Err(Error::unsupported(format!("batch normalisation of {data_type:?} ({pass})")));
    }
    Ok(())
}

/// Refuses BFLOAT16 with other parameters than FLOAT.
///
/// # Errors
/// Not supported.
pub(super) fn check_bfloat16(x: &TensorDescriptor, parameters: Parameters<'_>) -> Result<()> {
    let own = parameters.tensor.data_type();
    if x.data_type() == DataType::Bfloat16 && own != DataType::Float {
        return Err(Error::unsupported(format!("BFLOAT16 with {} of {own:?}, not FLOAT", parameters.name)));
    }
    Ok(())
}

/// Compares x with another tensor of its shape, and with its parameters.
///
/// # Errors
/// Bad parameter. In strict mode also for other than 4 and 5 dimensions, negative strides of x,
/// channels of parameters that do not lie side by side, and parameters per activation that are not
/// packed.
pub(super) fn check(
    bn: BatchNormMode, x: &TensorDescriptor, other: Named<'_>, parameters: Parameters<'_>, mode: Mode,
) -> Result<()> {
    if mode.is_strict() && !(4..=5).contains(&x.rank()) {
        return Err(Error::mismatch(format!("strict mode: xDesc has {} dimensions, not 4 or 5", x.rank())));
    }
    check_set(x)?;
    let (name, tensor) = (other.name, other.tensor);
    if tensor.dims() != x.dims() {
        return Err(Error::mismatch(format!(
            "{name} of {} must have the dims of xDesc, {}",
            tensor.dims(),
            x.dims()
        )));
    }
    if tensor.data_type() != x.data_type() {
        return Err(Error::mismatch(format!(
            "{name} is {:?} and xDesc {:?}: the types must be equal",
            tensor.data_type(),
            x.data_type()
        )));
    }
    let strides = x.strides();
    if let (Some(k), true) = ((0..strides.rank()).find(|&k| strides[k] < 0), mode.is_strict()) {
        return Err(Error::element("strideA", k, strides[k], "strict mode: xDesc has no negative strides"));
    }
    let Parameters { name, tensor } = parameters;
    let wanted = parameter_type(x.data_type());
    if tensor.data_type() != wanted {
        return Err(Error::mismatch(format!(
            "{name} is {:?}: for {:?} it must be {wanted:?}",
            tensor.data_type(),
            x.data_type()
        )));
    }
    let per_activation = bn == BatchNormMode::PerActivation;
    let mut dims = x.stored_dims();
    dims[0] = 1;
    if !per_activation {
        dims[2..].fill(1);
    }
    if mode.is_strict() && per_activation {
        return strict_packed(parameters, &dims);
    }
    if tensor.dims() != dims {
        return Err(Error::mismatch(format!(
            "{name} of {} must be {dims} for xDesc of {}",
            tensor.dims(),
            x.dims()
        )));
    }
    if mode.is_strict() && tensor.strides()[1] != 1 {
        let rule = format!("strict mode: the channels of {name} lie side by side");
        return Err(Error::element("strideA", 1, tensor.strides()[1], rule));
    }
    agree::check_destination(tensor.layout()?, name)
}

/// The descriptor of parameters as they are read: in strict mode parameters per activation are the
/// first of as many packed elements as are described, whatever the dims (observed on 9.27.0).
pub(super) fn as_read(
    bn: BatchNormMode, x: &TensorDescriptor, parameters: &TensorDescriptor, mode: Mode,
) -> Result<TensorDescriptor> {
    if !mode.is_strict() || bn != BatchNormMode::PerActivation || !x.is_set() || !parameters.is_set() {
        return Ok(*parameters);
    }
    let (own, strides) = (parameters.stored_dims(), parameters.strides());
    let mut wanted = x.stored_dims();
    wanted[0] = 1;
    let packed = agree::row_major(&own);
    let lie_packed = (0..own.rank()).all(|k| strides[k] == packed[k] || own[k] == 1 && strides[k] > 0);
    if own == wanted || !lie_packed || own.product() < wanted.product() {
        return Ok(*parameters);
    }
    TensorDescriptor::with_format(parameters.data_type(), Format::Nchw, wanted.rank() as i64, &wanted, mode)
}

/// Parameters per activation lie packed.
fn strict_packed(Parameters { name, tensor }: Parameters<'_>, dims: &Dims) -> Result<()> {
    let own = tensor.stored_dims();
    let packed = agree::row_major(&own);
    let strides = tensor.strides();
    if let Some(k) = (0..own.rank()).find(|&k| own[k] != 1 && strides[k] != packed[k]) {
        return Err(Error::element("strideA", k, strides[k], format!("strict mode: {name} is packed NCHW")));
    }
    if own != *dims {
        return Err(Error::mismatch(format!("{name} of {own} must be {dims}")));
    }
    Ok(())
}

/// Refuses strides of parameters that training passes of the original do not take (observed on
/// 9.27.0).
///
/// # Errors
/// Bad parameter.
pub(super) fn strict_parameters(
    bn: BatchNormMode, Parameters { name, tensor }: Parameters<'_>,
) -> Result<()> {
    // A stride of 0, of a dim of 1, is refused where every element has parameters of its own.
    let least = i64::from(bn == BatchNormMode::PerActivation);
    let strides = tensor.strides();
    match (0..strides.rank()).find(|&k| strides[k] < least) {
        Some(k) => Err(Error::element(
            "strideA",
            k,
            strides[k],
            format!("strict mode: {name} has no strides below {least}"),
        )),
        None => Ok(()),
    }
}

/// Refuses a negative epsilon; 0 and NaN pass, as observed on 9.27.0.
///
/// # Errors
/// Bad parameter.
pub(super) fn check_epsilon(epsilon: f64) -> Result<()> {
    if epsilon < 0.0 {
        return Err(Error::mismatch(format!("epsilon = {epsilon}: it must not be negative")));
    }
    Ok(())
}

/// Refuses what was never set.
///
/// # Errors
/// Bad parameter.
pub(super) fn check_set(x: &TensorDescriptor) -> Result<()> {
    if x.is_set() { Ok(()) } else { Err(Error::mismatch("xDesc was never set")) }
}

/// Refuses one half of the saved pair.
///
/// # Errors
/// Bad parameter.
pub(super) fn check_pair(names: [&str; 2], given: [bool; 2]) -> Result<()> {
    match given {
        [true, false] => {
            Err(Error::mismatch(format!("{} is NULL and {} is not: both or neither", names[1], names[0])))
        }
        [false, true] => {
            Err(Error::mismatch(format!("{} is NULL and {} is not: both or neither", names[0], names[1])))
        }
        _ => Ok(()),
    }
}

/// Whether a tensor is packed NHWC, strides of dims of 1 aside.
pub(super) fn is_channels_last(tensor: &TensorDescriptor) -> bool {
    let (dims, strides) = (tensor.stored_dims(), tensor.strides());
    let mut next = 1;
    let order = std::iter::once(1).chain((2..dims.rank()).rev()).chain([0]);
    tensor.is_set()
        && order.filter(|&k| k < dims.rank()).all(|k| {
            let fits = dims[k] == 1 || strides[k] == next;
            next *= dims[k];
            fits
        })
}

/// What the original fuses: SPATIAL_PERSISTENT on packed NHWC.
///
/// # Errors
/// Not supported.
pub(super) fn strict_fused(bn: BatchNormMode, tensors: &[Named<'_>]) -> Result<()> {
    if bn != BatchNormMode::SpatialPersistent {
        return Err(Error::unsupported(format!("strict mode: mode {bn:?} is not fused")));
    }
    for tensor in tensors {
        strict_layout(*tensor)?;
    }
    Ok(())
}

/// The layout of what the original fuses: packed NHWC.
///
/// # Errors
/// Not supported.
pub(super) fn strict_layout(Named { name, tensor }: Named<'_>) -> Result<()> {
    if is_channels_last(tensor) {
        return Ok(());
    }
    Err(Error::unsupported(format!("strict mode: {name} is not packed NHWC")))
}

/// What the kernel of the original takes: FLOAT, HALF and BFLOAT16, RELU (with one operand and
/// forward, SWISH, too).
///
/// # Errors
/// Not supported.
pub(super) fn strict_kernel(x: &TensorDescriptor, fused: &Fused, swish: bool, fours: bool) -> Result<()> {
    if x.data_type() == DataType::Double {
        return Err(Error::unsupported("strict mode: DOUBLE is not fused"));
    }
    let activation = fused.activation.mode;
    let done =
        activation == ActivationMode::Relu || (activation == ActivationMode::Swish && swish && !fused.adds);
    if !done {
        return Err(Error::unsupported(format!("strict mode: {activation:?} is not fused")));
    }
    if fused.adds && fours && x.stored_dims()[1] % 4 != 0 {
        return Err(Error::unsupported("strict mode: an addition takes a multiple of 4 channels"));
    }
    Ok(())
}
