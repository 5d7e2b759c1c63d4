//! Which checks close a descriptor, by kind.

use super::attribute::Type;
use super::check::Check;
use super::kind::Kind;
use super::object::{Fields, Object, Tensor, Value};
use super::table::attributes;
use super::{
    attention, batch_norm, block_scale, convolution, device, engine, experts, matmul, norm, operation_graph,
    pack, pointwise, reduction, resample, rng, shape, signal, tensor, topology,
};
use crate::error::{Error, Result};

/// What a descriptor holds before its checks.
pub(super) fn unchecked(kind: Kind, fields: &Fields) -> Object {
    let tensor = (kind == Kind::Tensor).then(|| Tensor::of(fields));
    Object { kind, fields: fields.clone(), tensor, is_finalised: false }
}

/// What a descriptor becomes.
pub(super) fn finalize(kind: Kind, fields: &Fields) -> Result<Object> {
    let object = unchecked(kind, fields);
    let check = Check { kind, rows: attributes(kind).rows, fields };
    check.kinds()?;
    match (kind, &object.tensor) {
        (_, Some(tensor)) => tensor::check(check, tensor)?,
        _ => settings(check)?,
    }
    let mut fields = fields.clone();
    if kind == Kind::OperationGraph {
        let count = operation_graph::OPERATIONGRAPH_ENGINE_GLOBAL_COUNT;
        fields.set(count, Value::Ints(Type::Int64, vec![engine::ENGINES]));
        let mode = topology::mode(&fields);
        fields.set(operation_graph::OPERATIONGRAPH_MODE, Value::Ints(Type::OperationgraphMode, vec![mode]));
    }
    Ok(Object { fields, is_finalised: true, ..object })
}

fn settings(check: Check<'_>) -> Result<()> {
    match check.kind {
        Kind::Pointwise | Kind::Matmul | Kind::KnobChoice | Kind::LayoutInfo | Kind::Tensor => Ok(()),
        Kind::KnobInfo => Err(Error::mismatch("knob infos are made by the library")),
        Kind::Convolution => convolution::check_settings(check),
        Kind::Reduction => reduction::check_settings(check),
        Kind::Resample => resample::check_settings(check),
        Kind::Rng => rng::check_settings(check),
        Kind::Engine => engine::check_engine(check),
        Kind::EngineConfig => engine::check_config(check),
        Kind::EngineHeuristic => engine::check_heuristic(check),
        Kind::ExecutionPlan => engine::check_plan(check),
        Kind::KernelCache => engine::check_kernel_cache(check),
        Kind::DeviceProperties => device::check(check),
        Kind::OperationGraph => topology::check(check),
        Kind::VariantPack => pack::check(check),
        _ => operation(check),
    }
}

fn operation(check: Check<'_>) -> Result<()> {
    match check.kind {
        Kind::ConvolutionForward | Kind::ConvolutionBackwardData | Kind::ConvolutionBackwardFilter => {
            convolution::check_operation(check)
        }
        Kind::PointwiseOperation => pointwise::check(check),
        Kind::MatmulOperation => matmul::check(check),
        Kind::ReductionOperation => reduction::check(check),
        Kind::ResampleForward => resample::check_forward(check),
        Kind::ResampleBackward => resample::check_backward(check),
        Kind::NormForward => norm::check_forward(check),
        Kind::NormBackward => norm::check_backward(check),
        Kind::GenStats => Ok(()),
        Kind::BnFinalize => batch_norm::check_finalize(check),
        Kind::BnBackwardWeights => batch_norm::check_backward_weights(check),
        Kind::Reshape => shape::check_reshape(check),
        Kind::Transpose => shape::check_transpose(check),
        Kind::Slice => shape::check_slice(check),
        Kind::Concat => shape::check_concat(check),
        Kind::RngOperation => rng::check(check),
        Kind::Signal => Ok(()),
        Kind::ExpandBandMatrix | Kind::ContractBandMatrix => signal::check_band(check),
        Kind::PagedCacheLoad => attention::check_paged_cache_load(check),
        Kind::BlockScaleQuantize => block_scale::check_quantize(check),
        Kind::BlockScaleDequantize => block_scale::check_dequantize(check),
        Kind::SdpaForward => attention::check_forward(check),
        Kind::SdpaBackward => attention::check_backward(check),
        Kind::DiagonalBandMask => attention::check_band_mask(check),
        Kind::Softmax => attention::check_softmax(check),
        Kind::RopeForward | Kind::RopeBackward => attention::check_rope(check),
        Kind::MoeGroupedMatmul => experts::check(check),
        Kind::MoeGroupedMatmulBackward => experts::check_backward(check),
        _ => Err(Error::Internal("a kind without checks".into())),
    }
}
