//! Convolutions.

use std::sync::Arc;

use super::attribute::{Type, rows};
use super::check::Check;
use super::kind::Kind;
use super::object::Tensor;
use super::object::{Object, Value};
use super::tensor::{TENSOR_DIMENSIONS, TENSOR_STRIDES};
use crate::error::{ErrorKind, Result};

rows! {
    /// The attributes of CONVOLUTION.
    SETTINGS:
    CONVOLUTION_COMP_TYPE 100 [DataType] One;
    CONVOLUTION_CONV_MODE 101 [ConvolutionMode] One;
    CONVOLUTION_DILATIONS 102 [Int64] Positive;
    CONVOLUTION_FILTER_STRIDES 103 [Int64] Positive;
    CONVOLUTION_POST_PADDINGS 104 [Int64] Positive;
    CONVOLUTION_PRE_PADDINGS 105 [Int64] Positive;
    CONVOLUTION_SPATIAL_DIMS 106 [Int64] One mistyped(BadParam);
}

rows! {
    /// The attributes of OPERATION_CONVOLUTION_FORWARD.
    FORWARD:
    OPERATION_CONVOLUTION_FORWARD_ALPHA 700 [Float Double Int32] One;
    OPERATION_CONVOLUTION_FORWARD_BETA 701 [Float Double Int32] One;
    OPERATION_CONVOLUTION_FORWARD_CONV_DESC 702 [Descriptor] -> Convolution One miscounted(Unsupported) required();
    OPERATION_CONVOLUTION_FORWARD_W 703 [Descriptor] -> Tensor Positive;
    OPERATION_CONVOLUTION_FORWARD_X 704 [Descriptor] -> Tensor Positive;
    OPERATION_CONVOLUTION_FORWARD_Y 705 [Descriptor] -> Tensor Positive output();
}

rows! {
    /// The attributes of OPERATION_CONVOLUTION_BACKWARD_FILTER.
    BACKWARD_FILTER:
    OPERATION_CONVOLUTION_BWD_FILTER_ALPHA 712 [Float Double] One;
    OPERATION_CONVOLUTION_BWD_FILTER_BETA 713 [Float Double] One;
    OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC 714 [Descriptor] -> Convolution One required();
    OPERATION_CONVOLUTION_BWD_FILTER_DW 715 [Descriptor] -> Tensor One output();
    OPERATION_CONVOLUTION_BWD_FILTER_X 716 [Descriptor] -> Tensor Any mistyped(AttributeType);
    OPERATION_CONVOLUTION_BWD_FILTER_DY 717 [Descriptor] -> Tensor Positive;
}

rows! {
    /// The attributes of OPERATION_CONVOLUTION_BACKWARD_DATA.
    BACKWARD_DATA:
    OPERATION_CONVOLUTION_BWD_DATA_ALPHA 706 [Float Double] One mistyped(Unsupported);
    OPERATION_CONVOLUTION_BWD_DATA_BETA 707 [Float Double] One mistyped(Unsupported);
    OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC 708 [Descriptor] -> Convolution One required();
    OPERATION_CONVOLUTION_BWD_DATA_W 709 [Descriptor] -> Tensor Positive;
    OPERATION_CONVOLUTION_BWD_DATA_DX 710 [Descriptor] -> Tensor Positive output();
    OPERATION_CONVOLUTION_BWD_DATA_DY 711 [Descriptor] -> Tensor Positive;
}

/// One entry of each per spatial dimension.
pub(super) fn check_settings(check: Check<'_>) -> Result<()> {
    let axes = check.fields.int_or(CONVOLUTION_SPATIAL_DIMS, 0);
    check.require(axes >= 1, CONVOLUTION_SPATIAL_DIMS, "has to be set, to 1 at least")?;
    for (attribute, least) in [
        (CONVOLUTION_FILTER_STRIDES, 1),
        (CONVOLUTION_DILATIONS, 1),
        (CONVOLUTION_PRE_PADDINGS, 0),
        (CONVOLUTION_POST_PADDINGS, 0),
    ] {
        let values = check.fields.ints(attribute);
        let unset = least == 0 && !check.fields.has(attribute);
        check.require(
            unset || values.len() as i64 == axes,
            attribute,
            "has one value per spatial dimension",
        )?;
        for &value in values {
            check.require(
                value >= least,
                attribute,
                "a stride or dilation is positive, a padding is not negative",
            )?;
        }
    }
    Ok(())
}

/// The tensors of a convolution by what they are to it: data, filter, result.
struct Ports {
    settings: i32,
    x: i32,
    w: i32,
    y: i32,
}

fn ports(kind: Kind) -> Ports {
    match kind {
        Kind::ConvolutionBackwardData => Ports {
            settings: OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            x: OPERATION_CONVOLUTION_BWD_DATA_DX,
            w: OPERATION_CONVOLUTION_BWD_DATA_W,
            y: OPERATION_CONVOLUTION_BWD_DATA_DY,
        },
        Kind::ConvolutionBackwardFilter => Ports {
            settings: OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            x: OPERATION_CONVOLUTION_BWD_FILTER_X,
            w: OPERATION_CONVOLUTION_BWD_FILTER_DW,
            y: OPERATION_CONVOLUTION_BWD_FILTER_DY,
        },
        _ => Ports {
            settings: OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            x: OPERATION_CONVOLUTION_FORWARD_X,
            w: OPERATION_CONVOLUTION_FORWARD_W,
            y: OPERATION_CONVOLUTION_FORWARD_Y,
        },
    }
}

pub(super) fn check_operation(check: Check<'_>) -> Result<()> {
    let ports = ports(check.kind);
    let settings = &check.object_or(ErrorKind::BadParam, ports.settings)?.fields;
    let x = check.tensor(ports.x)?;
    let w = check.tensor(ports.w)?;
    let y = check.tensor(ports.y)?;
    let rank = x.rank();
    check.require(rank >= 3, ports.x, "has three dimensions at least")?;
    check.require(w.rank() == rank, ports.w, "the filter has as many dimensions as the data")?;
    check.require(y.rank() == rank, ports.y, "the result has as many dimensions as the data")?;
    let axes = settings.int_or(CONVOLUTION_SPATIAL_DIMS, 0) as usize;
    check.require(axes <= rank - 2, ports.settings, "has more spatial dimensions than the tensors")?;
    check.require(x.dims[0] == y.dims[0], ports.y, "the result has as many images as the data")?;
    check.require(
        w.dims[0] == y.elements(1),
        ports.w,
        "the filter has as many outputs as the result has channels",
    )?;
    let (channels, group) = (x.elements(1), w.dims[1]);
    check.require(
        group > 0 && channels % group == 0,
        ports.w,
        "the data's channels are a multiple of the filter's",
    )?;
    let groups = channels / group;
    check.require(
        groups > 0 && w.dims[0] % groups == 0,
        ports.w,
        "the outputs are a multiple of the groups",
    )?;
    for axis in 0..axes {
        let at = |attribute, default| settings.ints(attribute).get(axis).copied().unwrap_or(default);
        let padded = x.dims[axis + 2]
            .saturating_add(at(CONVOLUTION_PRE_PADDINGS, 0))
            .saturating_add(at(CONVOLUTION_POST_PADDINGS, 0));
        let reach = (w.dims[axis + 2] - 1).saturating_mul(at(CONVOLUTION_DILATIONS, 1)).saturating_add(1);
        check.require(padded >= reach, ports.x, "the dilated filter is longer than the padded data")?;
        let extent = (padded - reach) / at(CONVOLUTION_FILTER_STRIDES, 1) + 1;
        let rule = "an extent is not 1 + (data + paddings - dilated filter) / stride";
        check.require(y.dims[axis + 2] == extent, ports.y, rule)?;
    }
    check.require(x.is_distinct(), ports.x, "elements overlap")?;
    check.require(y.is_distinct(), ports.y, "elements overlap")?;
    check.require(w.is_packed(), ports.w, "the filter is not packed")
}

/// A tensor of a convolution as the original gives it back: with a dimension of groups, and two
/// spatial dimensions at least.
pub(super) fn with_groups(operation: &Object, port: i32) -> Option<Arc<Object>> {
    let ports = ports(operation.kind);
    let is_filter = port == ports.w;
    if !is_filter && port != ports.x && port != ports.y {
        return None;
    }
    let groups = operation.fields.tensor(ports.x)?.dims[1] / operation.fields.tensor(ports.w)?.dims[1].max(1);
    let object = operation.fields.object(port)?;
    let tensor = object.tensor.as_ref()?;
    let (mut dims, mut strides) = (tensor.dims.clone(), tensor.strides.clone());
    let split = usize::from(!is_filter);
    let part = dims[split] / groups.max(1);
    dims[split] = part;
    dims.insert(split, groups);
    strides.insert(split, strides[split].saturating_mul(part));
    if dims.len() == 4 {
        dims.insert(3, 1);
        strides.insert(3, strides[3].saturating_mul(dims[4]));
    }
    let mut fields = object.fields.clone();
    fields.set(TENSOR_DIMENSIONS, Value::Ints(Type::Int64, dims));
    fields.set(TENSOR_STRIDES, Value::Ints(Type::Int64, strides));
    let tensor = Some(Tensor::of(&fields));
    Some(Arc::new(Object { kind: object.kind, fields, tensor, is_finalised: object.is_finalised }))
}
