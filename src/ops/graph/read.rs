//! Finalised descriptors of the graph interface as operations.

use std::sync::Arc;

use super::ports::port;
use super::settings::{
    Attention, BandMask, BatchNormFinalise, Blocks, Concat, Convolution, Direction, Experts, GenStats, Kind,
    Matmul, Modifier, Norm, Pointwise, Reduction, Resample, Reshape, Rng, Rope, Slice, Softmax, Spatial,
    Transpose,
};
use super::{Graph, Link, Operation, Port, Ragged, Tensor, Type, Vector};
use crate::desc::graph::{self, Fields, Object};
use crate::desc::graph::{
    attention, batch_norm, block_scale, convolution, experts, matmul, norm, operation_graph, pointwise,
    reduction, resample, rng, shape,
};
use crate::desc::{Choice, NanPropagation};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::layout::Dims;

impl Graph {
    /// The operations of a finalised operation graph.
    ///
    /// # Errors
    /// Not supported: a tensor that was not finalised when it was given to its operation.
    pub fn of(graph: &Object) -> Result<Self> {
        let operations = graph.fields.links(operation_graph::OPERATIONGRAPH_OPS).iter().flatten();
        Ok(Graph { operations: operations.map(|operation| read(operation)).collect::<Result<_>>()? })
    }
}

fn read(object: &Object) -> Result<Operation> {
    let kind = kind(object)?;
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    if let Some(softmax) = object.fields.object(attention::OPERATION_SDPA_FWD_SOFTMAX_DESC) {
        // Its own data is inside of the attention.
        let softmax = read(softmax)?;
        reads.extend(softmax.reads.into_iter().filter(|link| link.port != Port::X));
        writes.extend(softmax.writes.into_iter().filter(|link| link.port != Port::Y));
    }
    for (attribute, written, tensor) in object.ports() {
        let link = Link { port: port(attribute), tensor: tensor_of(tensor)? };
        if written { writes.push(link) } else { reads.push(link) }
    }
    Ok(Operation { kind, reads, writes })
}

/// The type of a number; those that the library lacks keep it.
fn data_type(code: i64) -> Type {
    let position = usize::try_from(code).ok();
    let known = position.and_then(|position| DataType::ALL.get(position).copied());
    known.map_or(Type::Other(code as i32), Type::Known)
}

fn tensor_of(object: &Object) -> Result<Arc<Tensor>> {
    let Some(tensor) = object.tensor.as_ref().filter(|_| object.is_finalised) else {
        return Err(Error::unsupported("a tensor was not finalised when its operation was given it"));
    };
    let vector = Vector { count: tensor.vector_count, dimension: tensor.vector_dimension };
    let ragged = match &tensor.ragged_offset {
        Some(offset) => Some(Ragged { offset: tensor_of(offset)?, multiplier: tensor.ragged_multiplier }),
        None => None,
    };
    Ok(Arc::new(Tensor {
        uid: tensor.uid,
        data_type: data_type(tensor.data_type.into()),
        dims: dims(&tensor.dims)?,
        strides: dims(&tensor.strides)?,
        alignment: tensor.alignment,
        is_virtual: tensor.is_virtual,
        // A constant is a number by value that is there already.
        by_value: tensor.by_value || tensor.constant.is_some(),
        constant: tensor
            .constant
            .as_ref()
            .map(|bytes| bytes.iter().rev().fold(0, |cell, &byte| cell << 8 | u64::from(byte))),
        vector: (vector.count > 1).then_some(vector),
        reorder: tensor.reordering as i32,
        ragged,
    }))
}

fn dims(values: &[i64]) -> Result<Dims> {
    if values.len() > crate::layout::MAX_RANK {
        return Err(Error::unsupported(format!("{} dimensions", values.len())));
    }
    Ok(Dims::new(values))
}

fn kind(object: &Object) -> Result<Kind> {
    use graph::Kind as Descriptor;
    let fields = &object.fields;
    Ok(match object.kind {
        Descriptor::PointwiseOperation => Kind::Pointwise(pointwise_of(fields)),
        Descriptor::MatmulOperation => {
            let settings = settings(fields, matmul::OPERATION_MATMUL_DESC);
            let math = settings.map_or(0, |settings| settings.int_or(matmul::MATMUL_COMP_TYPE, 0));
            let padding = settings.and_then(|settings| settings.real(matmul::MATMUL_PADDING_VALUE));
            Kind::Matmul(Matmul {
                math: data_type(math),
                padding: padding.unwrap_or(0.0),
                transposed: [false; 2],
            })
        }
        Descriptor::ConvolutionForward => Kind::Convolution(convolution_of(fields, Direction::Forward)?),
        Descriptor::ConvolutionBackwardData => {
            Kind::Convolution(convolution_of(fields, Direction::BackwardData)?)
        }
        Descriptor::ConvolutionBackwardFilter => {
            Kind::Convolution(convolution_of(fields, Direction::BackwardFilter)?)
        }
        Descriptor::ReductionOperation => {
            let settings = settings(fields, reduction::OPERATION_REDUCTION_DESC);
            let int = |attribute| settings.map_or(0, |settings| settings.int_or(attribute, 0));
            let operator = int(reduction::REDUCTION_OPERATOR) as i32;
            Kind::Reduction(Reduction { operator, math: data_type(int(reduction::REDUCTION_COMP_TYPE)) })
        }
        Descriptor::ResampleForward => Kind::ResampleForward(resample_of(fields, true)),
        Descriptor::ResampleBackward => Kind::ResampleBackward(resample_of(fields, false)),
        Descriptor::NormForward => Kind::NormForward(Norm {
            mode: fields.int_or(norm::OPERATION_NORM_FWD_MODE, 0) as i32,
            training: fields.int_or(norm::OPERATION_NORM_FWD_PHASE, norm::INFERENCE) != norm::INFERENCE,
        }),
        Descriptor::NormBackward => {
            let mode = fields.int_or(norm::OPERATION_NORM_BWD_MODE, 0) as i32;
            Kind::NormBackward(Norm { mode, training: true })
        }
        Descriptor::GenStats => Kind::GenStats(statistics(fields, batch_norm::OPERATION_GENSTATS_MATH_PREC)),
        Descriptor::BnBackwardWeights => {
            let math = batch_norm::OPERATION_BN_BWD_WEIGHTS_MATH_PREC;
            Kind::BatchNormBackwardWeights(statistics(fields, math))
        }
        Descriptor::BnFinalize => Kind::BatchNormFinalise(BatchNormFinalise {
            training: fields.int_or(batch_norm::OPERATION_BN_FINALIZE_STATS_MODE, 0) == 0,
            math: data_type(fields.int_or(batch_norm::OPERATION_BN_FINALIZE_MATH_PREC, 0)),
        }),
        Descriptor::Reshape => Kind::Reshape(Reshape {
            logical: fields.int_or(shape::OPERATION_RESHAPE_MODE, 0) == RESHAPE_LOGICAL,
        }),
        Descriptor::Transpose => {
            let permutation = fields.ints(shape::OPERATION_TRANSPOSE_PERMUTATION).to_vec();
            Kind::Transpose(Transpose { permutation })
        }
        Descriptor::Slice => Kind::Slice(Slice {
            starts: fields.ints(shape::OPERATION_SLICE_START_INDICES).to_vec(),
            limits: fields.ints(shape::OPERATION_SLICE_LIMIT_INDICES).to_vec(),
            strides: fields.ints(shape::OPERATION_SLICE_STRIDES).to_vec(),
        }),
        Descriptor::Concat => Kind::Concat(Concat {
            axis: fields.int_or(shape::OPERATION_CONCAT_AXIS, -1),
            in_place: usize::try_from(fields.int_or(shape::OPERATION_CONCAT_INPLACE_INDEX, -1)).ok(),
        }),
        Descriptor::RngOperation => Kind::Rng(rng_of(fields)),
        Descriptor::Softmax => {
            Kind::Softmax(Softmax { log2: fields.is_set(attention::OPERATION_SOFTMAX_STATS_LOG2) })
        }
        Descriptor::DiagonalBandMask => {
            let comparison = fields.int_or(attention::OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE, 0) as i32;
            Kind::BandMask(BandMask { comparison })
        }
        Descriptor::RopeForward => Kind::RopeForward(Rope {
            scale: fields.real(attention::OPERATION_ROPE_FWD_OUTPUT_SCALE).unwrap_or(1.0),
            dim: fields.int(attention::OPERATION_ROPE_FWD_ROPE_DIM).filter(|&dim| dim > 0),
        }),
        Descriptor::RopeBackward => Kind::RopeBackward(Rope {
            scale: fields.real(attention::OPERATION_ROPE_BWD_OUTPUT_SCALE).unwrap_or(1.0),
            dim: fields.int(attention::OPERATION_ROPE_BWD_ROPE_DIM).filter(|&dim| dim > 0),
        }),
        Descriptor::MoeGroupedMatmul => Kind::Experts(Experts {
            mode: fields.int_or(experts::OPERATION_MOE_GROUPED_MATMUL_MODE, 0) as i32,
            top_k: fields.int_or(experts::OPERATION_MOE_GROUPED_MATMUL_TOP_K, 1),
        }),
        Descriptor::MoeGroupedMatmulBackward => Kind::ExpertsBackward,
        Descriptor::BlockScaleQuantize => Kind::Quantize(Blocks {
            sizes: fields.ints(block_scale::OPERATION_BLOCK_SCALE_QUANTIZE_BLOCK_SIZE).to_vec(),
            ..Blocks::default()
        }),
        Descriptor::BlockScaleDequantize => Kind::Dequantize(Blocks {
            sizes: fields.ints(block_scale::OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE).to_vec(),
            negative: fields.is_set(block_scale::OPERATION_BLOCK_SCALE_DEQUANTIZE_NEG_SCALE),
            ..Blocks::default()
        }),
        Descriptor::PagedCacheLoad => Kind::PagedLoad,
        Descriptor::SdpaForward => {
            let softmax = settings(fields, attention::OPERATION_SDPA_FWD_SOFTMAX_DESC);
            Kind::AttentionForward(Attention {
                modifier: modifier(
                    fields,
                    [
                        attention::OPERATION_SDPA_FWD_SUBGRAPH,
                        attention::OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID,
                        attention::OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID,
                    ],
                )?,
                log2: softmax.is_some_and(|softmax| softmax.is_set(attention::OPERATION_SOFTMAX_STATS_LOG2)),
                dropout: fields.real(attention::OPERATION_SDPA_FWD_DROPOUT_PROBABILITY).unwrap_or(0.0),
            })
        }
        Descriptor::SdpaBackward => Kind::AttentionBackward(Attention {
            modifier: modifier(
                fields,
                [
                    attention::OPERATION_SDPA_BWD_SUBGRAPH,
                    attention::OPERATION_SDPA_BWD_SUBGRAPH_INPUT_UID,
                    attention::OPERATION_SDPA_BWD_SUBGRAPH_OUTPUT_UID,
                ],
            )?,
            ..Attention::default()
        }),
        other => Kind::Other(other as i32),
    })
}

/// `CUDNN_RESHAPE_LOGICAL`
const RESHAPE_LOGICAL: i64 = 1;

/// The graph that an attention applies to its scores: attributes of the graph, of what it is given
/// and of what it makes.
fn modifier(fields: &Fields, [graph, input, output]: [i32; 3]) -> Result<Option<Modifier>> {
    let Some(graph) = fields.object(graph) else { return Ok(None) };
    let uid = |attribute| {
        fields
            .int(attribute)
            .ok_or_else(|| Error::unsupported("a graph of scores without the id of an end of it"))
    };
    Ok(Some(Modifier { operations: Graph::of(graph)?.operations, input: uid(input)?, output: uid(output)? }))
}

/// The settings descriptor of an operation, if it has one.
fn settings(fields: &Fields, attribute: i32) -> Option<&Fields> {
    fields.object(attribute).map(|object| &object.fields)
}

fn statistics(fields: &Fields, math: i32) -> GenStats {
    GenStats { math: data_type(fields.int_or(math, 0)) }
}

/// What a NaN becomes.
fn nan(fields: &Fields, attribute: i32) -> NanPropagation {
    NanPropagation::from_code(fields.int_or(attribute, 0) as i32).unwrap_or_default()
}

fn pointwise_of(fields: &Fields) -> Pointwise {
    let alpha = [pointwise::OPERATION_POINTWISE_ALPHA1, pointwise::OPERATION_POINTWISE_ALPHA2];
    let alpha = alpha.map(|attribute| fields.real(attribute).unwrap_or(1.0));
    let Some(settings) = settings(fields, pointwise::OPERATION_POINTWISE_PW_DESCRIPTOR) else {
        return Pointwise { alpha, ..Pointwise::new(0) };
    };
    let default = Pointwise::new(settings.int_or(pointwise::POINTWISE_MODE, 0) as i32);
    let real = |attribute, default| settings.real(attribute).unwrap_or(default);
    Pointwise {
        math: data_type(settings.int_or(pointwise::POINTWISE_MATH_PREC, 0)),
        nan: nan(settings, pointwise::POINTWISE_NAN_PROPAGATION),
        clip: [
            real(pointwise::POINTWISE_RELU_LOWER_CLIP, default.clip[0]),
            real(pointwise::POINTWISE_RELU_UPPER_CLIP, default.clip[1]),
        ],
        slope: real(pointwise::POINTWISE_RELU_LOWER_CLIP_SLOPE, default.slope),
        elu_alpha: real(pointwise::POINTWISE_ELU_ALPHA, default.elu_alpha),
        softplus_beta: real(pointwise::POINTWISE_SOFTPLUS_BETA, default.softplus_beta),
        swish_beta: real(pointwise::POINTWISE_SWISH_BETA, default.swish_beta),
        axis: settings.int(pointwise::POINTWISE_AXIS),
        alpha,
        ..default
    }
}

fn convolution_of(fields: &Fields, direction: Direction) -> Result<Convolution> {
    let [descriptor, alpha, beta] = match direction {
        Direction::Forward => [
            convolution::OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            convolution::OPERATION_CONVOLUTION_FORWARD_ALPHA,
            convolution::OPERATION_CONVOLUTION_FORWARD_BETA,
        ],
        Direction::BackwardData => [
            convolution::OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            convolution::OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            convolution::OPERATION_CONVOLUTION_BWD_DATA_BETA,
        ],
        Direction::BackwardFilter => [
            convolution::OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            convolution::OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            convolution::OPERATION_CONVOLUTION_BWD_FILTER_BETA,
        ],
    };
    let settings =
        settings(fields, descriptor).ok_or_else(|| Error::unsupported("a convolution without settings"))?;
    let axes = settings.ints(convolution::CONVOLUTION_FILTER_STRIDES).len();
    let padding = |attribute| match settings.ints(attribute) {
        [] => dims(&vec![0; axes]),
        values => dims(values),
    };
    Ok(Convolution {
        direction,
        math: data_type(settings.int_or(convolution::CONVOLUTION_COMP_TYPE, 0)),
        mode: settings.int_or(convolution::CONVOLUTION_CONV_MODE, 0) as i32,
        spatial: Spatial {
            before: padding(convolution::CONVOLUTION_PRE_PADDINGS)?,
            after: padding(convolution::CONVOLUTION_POST_PADDINGS)?,
            strides: dims(settings.ints(convolution::CONVOLUTION_FILTER_STRIDES))?,
            dilation: dims(settings.ints(convolution::CONVOLUTION_DILATIONS))?,
        },
        alpha: fields.real(alpha).unwrap_or(1.0),
        beta: fields.real(beta).unwrap_or(0.0),
    })
}

fn resample_of(fields: &Fields, is_forward: bool) -> Resample {
    let [descriptor, alpha, beta] = if is_forward {
        [
            resample::OPERATION_RESAMPLE_FWD_DESC,
            resample::OPERATION_RESAMPLE_FWD_ALPHA,
            resample::OPERATION_RESAMPLE_FWD_BETA,
        ]
    } else {
        [
            resample::OPERATION_RESAMPLE_BWD_DESC,
            resample::OPERATION_RESAMPLE_BWD_ALPHA,
            resample::OPERATION_RESAMPLE_BWD_BETA,
        ]
    };
    let empty = Fields::default();
    let settings = settings(fields, descriptor).unwrap_or(&empty);
    let pairs =
        |attribute| settings.fractions(attribute).into_iter().map(|(above, below)| [above, below]).collect();
    Resample {
        mode: settings.int_or(resample::RESAMPLE_MODE, 0) as i32,
        padding: settings.int_or(resample::RESAMPLE_PADDING_MODE, 0) as i32,
        math: data_type(settings.int_or(resample::RESAMPLE_COMP_TYPE, 0)),
        nan: nan(settings, resample::RESAMPLE_NAN_PROPAGATION),
        window: pairs(resample::RESAMPLE_WINDOW_DIMS),
        strides: pairs(resample::RESAMPLE_STRIDES),
        before: pairs(resample::RESAMPLE_PRE_PADDINGS),
        after: pairs(resample::RESAMPLE_POST_PADDINGS),
        alpha: fields.real(alpha).unwrap_or(1.0),
        beta: fields.real(beta).unwrap_or(0.0),
    }
}

fn rng_of(fields: &Fields) -> Rng {
    let empty = Fields::default();
    let settings = settings(fields, rng::OPERATION_RNG_DESC).unwrap_or(&empty);
    let real = |attribute, default| settings.real(attribute).unwrap_or(default);
    Rng {
        distribution: settings.int_or(rng::RNG_DISTRIBUTION, 0) as i32,
        normal: [real(rng::RNG_NORMAL_DIST_MEAN, 0.0), real(rng::RNG_NORMAL_DIST_STANDARD_DEVIATION, 1.0)],
        uniform: [real(rng::RNG_UNIFORM_DIST_MINIMUM, 0.0), real(rng::RNG_UNIFORM_DIST_MAXIMUM, 1.0)],
        probability: real(rng::RNG_BERNOULLI_DIST_PROBABILITY, 0.5),
        seed: fields.int(rng::OPERATION_RNG_SEED),
    }
}
