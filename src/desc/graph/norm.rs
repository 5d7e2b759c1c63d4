//! Normalisations.

use super::attribute::rows;
use super::check::Check;
use super::kind::Kind;
use super::object::Object;
use super::operation_graph::OPERATIONGRAPH_OPS;
use crate::error::{Error, ErrorKind, Result};

rows! {
    /// The attributes of OPERATION_NORM_FORWARD.
    FORWARD:
    OPERATION_NORM_FWD_MODE 2000 [NormMode] One;
    OPERATION_NORM_FWD_PHASE 2001 [NormFwdPhase] One;
    OPERATION_NORM_FWD_XDESC 2002 [Descriptor] -> Tensor Positive;
    OPERATION_NORM_FWD_MEAN_DESC 2003 [Descriptor] -> Tensor One;
    OPERATION_NORM_FWD_INV_VARIANCE_DESC 2004 [Descriptor] -> Tensor One;
    OPERATION_NORM_FWD_SCALE_DESC 2005 [Descriptor] -> Tensor One;
    OPERATION_NORM_FWD_BIAS_DESC 2006 [Descriptor] -> Tensor One;
    OPERATION_NORM_FWD_EPSILON_DESC 2007 [Descriptor] -> Tensor One;
    OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC 2008 [Descriptor] -> Tensor One;
    OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC 2009 [Descriptor] -> Tensor One;
    OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC 2010 [Descriptor] -> Tensor One;
    OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC 2011 [Descriptor] -> Tensor One output();
    OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC 2012 [Descriptor] -> Tensor One output();
    OPERATION_NORM_FWD_YDESC 2013 [Descriptor] -> Tensor One output();
    OPERATION_NORM_FWD_PEER_STAT_DESCS 2014 [Descriptor] -> Tensor Positive;
}

rows! {
    /// The attributes of OPERATION_NORM_BACKWARD.
    BACKWARD:
    OPERATION_NORM_BWD_MODE 2100 [NormMode] One;
    OPERATION_NORM_BWD_XDESC 2101 [Descriptor] -> Tensor One;
    OPERATION_NORM_BWD_MEAN_DESC 2102 [Descriptor] -> Tensor One;
    OPERATION_NORM_BWD_INV_VARIANCE_DESC 2103 [Descriptor] -> Tensor One;
    OPERATION_NORM_BWD_DYDESC 2104 [Descriptor] -> Tensor One;
    OPERATION_NORM_BWD_SCALE_DESC 2105 [Descriptor] -> Tensor One;
    OPERATION_NORM_BWD_EPSILON_DESC 2106 [Descriptor] -> Tensor One;
    OPERATION_NORM_BWD_DSCALE_DESC 2107 [Descriptor] -> Tensor One output();
    OPERATION_NORM_BWD_DBIAS_DESC 2108 [Descriptor] -> Tensor One output();
    OPERATION_NORM_BWD_DXDESC 2109 [Descriptor] -> Tensor One output();
    OPERATION_NORM_BWD_PEER_STAT_DESCS 2110 [Descriptor] -> Tensor Positive;
}

/// The mode `CUDNN_BATCH_NORM`.
pub const BATCH: i64 = 2;
/// The mode `CUDNN_RMS_NORM`, which has no mean.
pub const RMS: i64 = 4;
/// All others.
const MODES_WITH_MEAN: [i64; 5] = [0, 1, BATCH, 3, 5];
/// The phase `CUDNN_NORM_FWD_INFERENCE`.
pub const INFERENCE: i64 = 0;

/// The mode `CUDNN_GROUP_NORM`.
const GROUP: i64 = 3;
/// The mode `CUDNN_ADA_LAYER_NORM`.
const ADAPTIVE: i64 = 5;

/// Refuses, in a graph, the normalisations that the original has no kernel for.
pub(super) fn refuse_as_the_original(check: Check<'_>, operation: &Object) -> Result<()> {
    if operation.kind != Kind::NormForward {
        return Ok(());
    }
    let fields = &operation.fields;
    let tensor_type = |port| fields.tensor(port).map(|tensor| tensor.data_type);
    let is_inference = fields.int_or(OPERATION_NORM_FWD_PHASE, INFERENCE) == INFERENCE;
    // HALF with such scales is done where the phase was set, whatever the difference.
    let narrow: &[i32] = if fields.has(OPERATION_NORM_FWD_PHASE) { &[9] } else { &[2, 9] };
    let mixed = tensor_type(OPERATION_NORM_FWD_XDESC).is_some_and(|x| narrow.contains(&x))
        && tensor_type(OPERATION_NORM_FWD_SCALE_DESC) == Some(0);
    let rule = "cuDNN does no inference on BFLOAT16 with scales in FLOAT";
    check.require_or(!(is_inference && mixed), ErrorKind::NotSupportedType, OPERATIONGRAPH_OPS, rule)?;
    let adaptive = fields.int_or(OPERATION_NORM_FWD_MODE, 0) == ADAPTIVE;
    let scales = fields
        .tensor(OPERATION_NORM_FWD_SCALE_DESC)
        .and_then(|scale| scale.dims.first().copied())
        .unwrap_or(1);
    let rule = "cuDNN does no adaptive normalisation of several images";
    check.require_or(!(adaptive && scales > 1), ErrorKind::NotSupported, OPERATIONGRAPH_OPS, rule)
}

/// Refuses the normalisations that the original's heuristics of mode A know nothing of.
pub(super) fn refuse_mode_a(operation: &Object) -> Result<()> {
    let mode = operation.fields.int_or(OPERATION_NORM_FWD_MODE, 0);
    let phase = operation.fields.int_or(OPERATION_NORM_FWD_PHASE, INFERENCE);
    if operation.kind == Kind::NormForward && (mode == GROUP || (mode, phase) == (BATCH, INFERENCE)) {
        return Err(Error::unsupported("cuDNN has no heuristics of mode A for this normalisation"));
    }
    Ok(())
}

/// Refuses a tensor whose descriptor says anything else than that of `as_port`; both may be
/// missing.
fn require_like(check: Check<'_>, port: i32, as_port: i32) -> Result<()> {
    let alike = match (check.any_tensor(port), check.any_tensor(as_port)) {
        (None, None) => true,
        (Some(one), Some(other)) => one.is_like(other),
        _ => false,
    };
    let rule = format!("is not described as {} is", check.name(as_port));
    check.require_or(alike, ErrorKind::ShapeMismatch, port, &rule)
}

/// Refuses other extents than those of `as_port`.
fn require_dims(check: Check<'_>, port: i32, as_port: i32) -> Result<()> {
    let rule = format!("has the extents of {}", check.name(as_port));
    check.require_or(check.dims(port) == check.dims(as_port), ErrorKind::ShapeMismatch, port, &rule)
}

/// Refuses an epsilon or a factor that is not read from the host.
fn require_by_value(check: Check<'_>, port: i32) -> Result<()> {
    let fits = check.any_tensor(port).is_none_or(|tensor| tensor.by_value);
    check.require(fits, port, "is a tensor by value")
}

pub(super) fn check_forward(check: Check<'_>) -> Result<()> {
    let mode = check.fields.int_or(OPERATION_NORM_FWD_MODE, 0);
    let is_inference = check.fields.int_or(OPERATION_NORM_FWD_PHASE, 0) == INFERENCE;
    let [x, mean] = [OPERATION_NORM_FWD_XDESC, OPERATION_NORM_FWD_MEAN_DESC];
    let y = OPERATION_NORM_FWD_YDESC;
    require_dims(check, y, x)?;
    let laid = check.any_tensor(x).zip(check.any_tensor(y)).is_none_or(|(x, y)| x.lies_as(y));
    check.require_or(laid, ErrorKind::ShapeMismatch, y, "y has the strides of x")?;
    check.require_or(!check.dims(x).is_empty(), ErrorKind::NotSupportedShape, x, "has to be set")?;
    if MODES_WITH_MEAN.contains(&mode) {
        require_like(check, OPERATION_NORM_FWD_INV_VARIANCE_DESC, mean)?;
    }
    if check.any_tensor(OPERATION_NORM_FWD_BIAS_DESC).is_some() {
        let has_scale = check.any_tensor(OPERATION_NORM_FWD_SCALE_DESC).is_some();
        check.require(has_scale, OPERATION_NORM_FWD_BIAS_DESC, "a bias needs a scale")?;
        require_dims(check, OPERATION_NORM_FWD_BIAS_DESC, OPERATION_NORM_FWD_SCALE_DESC)?;
    }
    let epsilon = OPERATION_NORM_FWD_EPSILON_DESC;
    check.require(is_inference || check.any_tensor(epsilon).is_some(), epsilon, "is needed in training")?;
    require_by_value(check, epsilon)?;
    require_by_value(check, OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC)?;
    for running in [
        OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
        OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC,
        OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
        OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC,
    ] {
        if check.any_tensor(running).is_some() {
            check.require(mode == BATCH, running, "only batch normalisation has running statistics")?;
            require_like(check, running, mean)?;
        }
    }
    Ok(())
}

pub(super) fn check_backward(check: Check<'_>) -> Result<()> {
    let mode = check.fields.int_or(OPERATION_NORM_BWD_MODE, 0);
    let [x, mean] = [OPERATION_NORM_BWD_XDESC, OPERATION_NORM_BWD_MEAN_DESC];
    require_dims(check, OPERATION_NORM_BWD_DYDESC, x)?;
    require_dims(check, OPERATION_NORM_BWD_DXDESC, x)?;
    let has_mean = check.any_tensor(mean).is_some();
    check.require(has_mean == (mode != RMS), mean, "every mode but RMS has a mean")?;
    if has_mean {
        require_like(check, OPERATION_NORM_BWD_INV_VARIANCE_DESC, mean)?;
    }
    let [scale, dscale] = [OPERATION_NORM_BWD_SCALE_DESC, OPERATION_NORM_BWD_DSCALE_DESC];
    let together = check.any_tensor(scale).is_some() == check.any_tensor(dscale).is_some();
    check.require(together, dscale, "a scale and its gradient come together")?;
    require_dims(check, dscale, scale)?;
    if check.any_tensor(OPERATION_NORM_BWD_DBIAS_DESC).is_some() {
        require_dims(check, OPERATION_NORM_BWD_DBIAS_DESC, scale)?;
    }
    require_by_value(check, OPERATION_NORM_BWD_EPSILON_DESC)
}
