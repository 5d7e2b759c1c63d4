//! The families of calls, who serves each by default, and why: figures of one H100, our time
//! against the original's, in `benches/results/2026-11-27-h100.txt`.

use super::route::Server;

/// Calls that one of the two serves: those that ask for sizes with those that take what was asked
/// for.
#[derive(Debug)]
pub struct Family {
    /// Its name in `CUDNN_SHIM_ROUTE`.
    pub name: &'static str,
    /// Who serves it unless the environment says otherwise.
    pub server: Server,
    /// Why: what was measured, and its part of the results.
    pub why: &'static str,
    /// Its calls.
    pub calls: &'static [&'static str],
}

const fn family(
    name: &'static str, server: Server, why: &'static str, calls: &'static [&'static str],
) -> Family {
    Family { name, server, why, calls }
}

/// Every call with a handle that the original could serve.
pub const FAMILIES: &[Family] = &[
    family(
        "transform",
        Server::Ours,
        "2.6 times as fast, any layout and type (Transforms)",
        &["cudnnTransformTensor", "cudnnTransformTensorEx", "cudnnTransformFilter"],
    ),
    family(
        "reduce",
        Server::Ours,
        "4.4 times as fast (Sums)",
        &["cudnnReduceTensor", "cudnnGetReductionIndicesSize", "cudnnGetReductionWorkspaceSize"],
    ),
    family(
        "scale",
        Server::Ours,
        "1.21 times as fast (Transforms, scale-f32)",
        &["cudnnScaleTensor", "cudnnSetTensor"],
    ),
    family(
        "arithmetic",
        Server::Original,
        "not measured beside the original",
        &["cudnnAddTensor", "cudnnOpTensor"],
    ),
    family(
        "conv",
        Server::Original,
        "0.2 to 1.0 times as fast (Convolutions)",
        &[
            "cudnnConvolutionForward",
            "cudnnConvolutionBiasActivationForward",
            "cudnnConvolutionBackwardData",
            "cudnnConvolutionBackwardFilter",
            "cudnnGetConvolutionForwardWorkspaceSize",
            "cudnnGetConvolutionBackwardDataWorkspaceSize",
            "cudnnGetConvolutionBackwardFilterWorkspaceSize",
            "cudnnGetConvolutionForwardAlgorithm_v7",
            "cudnnGetConvolutionBackwardDataAlgorithm_v7",
            "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
            "cudnnGetConvolutionForwardAlgorithmMaxCount",
            "cudnnGetConvolutionBackwardDataAlgorithmMaxCount",
            "cudnnGetConvolutionBackwardFilterAlgorithmMaxCount",
            "cudnnFindConvolutionForwardAlgorithm",
            "cudnnFindConvolutionForwardAlgorithmEx",
            "cudnnFindConvolutionBackwardDataAlgorithm",
            "cudnnFindConvolutionBackwardDataAlgorithmEx",
            "cudnnFindConvolutionBackwardFilterAlgorithm",
            "cudnnFindConvolutionBackwardFilterAlgorithmEx",
            "cudnnReorderFilterAndBias",
        ],
    ),
    family("im2col", Server::Ours, "it moves elements, as transforms do (Transforms)", &["cudnnIm2Col"]),
    family(
        "bias",
        Server::Original,
        "0.04 to 0.56 times as fast (Layers, bias-back)",
        &["cudnnConvolutionBackwardBias"],
    ),
    family(
        "pooling",
        Server::Original,
        "0.12 to 0.82 times as fast, averages 0.94 to 1.96 (Layers)",
        &["cudnnPoolingForward", "cudnnPoolingBackward"],
    ),
    family(
        "activation",
        Server::Original,
        "0.42 to 0.80 times as fast (Layers)",
        &["cudnnActivationForward", "cudnnActivationBackward"],
    ),
    family(
        "softmax",
        Server::Original,
        "0.07 to 0.32 times as fast (Layers)",
        &["cudnnSoftmaxForward", "cudnnSoftmaxBackward"],
    ),
    family(
        "norm",
        Server::Original,
        "training 0.10 to 0.24 times as fast, inference 1.0 to 1.3 (Layers)",
        &[
            "cudnnBatchNormalizationForwardInference",
            "cudnnBatchNormalizationForwardTraining",
            "cudnnBatchNormalizationForwardTrainingEx",
            "cudnnBatchNormalizationBackward",
            "cudnnBatchNormalizationBackwardEx",
            "cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize",
            "cudnnGetBatchNormalizationBackwardExWorkspaceSize",
            "cudnnGetBatchNormalizationTrainingExReserveSpaceSize",
            "cudnnNormalizationForwardInference",
            "cudnnNormalizationForwardTraining",
            "cudnnNormalizationBackward",
            "cudnnGetNormalizationForwardTrainingWorkspaceSize",
            "cudnnGetNormalizationBackwardWorkspaceSize",
            "cudnnGetNormalizationTrainingReserveSpaceSize",
        ],
    ),
    family(
        "lrn",
        Server::Original,
        "0.04 to 1.1 times as fast (Layers, response)",
        &[
            "cudnnLRNCrossChannelForward",
            "cudnnLRNCrossChannelBackward",
            "cudnnDivisiveNormalizationForward",
            "cudnnDivisiveNormalizationBackward",
        ],
    ),
    family(
        "dropout",
        Server::Original,
        "0.5 to 0.75 times as fast in NCHW, and the original's sequences need its random states (Layers)",
        &[
            "cudnnDropoutForward",
            "cudnnDropoutBackward",
            "cudnnDropoutGetStatesSize",
            "cudnnSetDropoutDescriptor",
            "cudnnRestoreDropoutDescriptor",
        ],
    ),
    family(
        "sampler",
        Server::Original,
        "0.08 to 0.92 times as fast (Layers)",
        &[
            "cudnnSpatialTfGridGeneratorForward",
            "cudnnSpatialTfGridGeneratorBackward",
            "cudnnSpatialTfSamplerForward",
            "cudnnSpatialTfSamplerBackward",
        ],
    ),
    family(
        "rnn",
        Server::Original,
        "our products are 0.2 to 1.0 times as fast (Convolutions)",
        &[
            "cudnnRNNForward",
            "cudnnRNNBackwardData_v8",
            "cudnnRNNBackwardWeights_v8",
            "cudnnGetRNNTempSpaceSizes",
            "cudnnGetRNNWeightSpaceSize",
            "cudnnGetRNNWeightParams",
            "cudnnBuildRNNDynamic",
        ],
    ),
    family(
        "attention",
        Server::Original,
        "our products are 0.2 to 1.0 times as fast (Convolutions)",
        &[
            "cudnnMultiHeadAttnForward",
            "cudnnMultiHeadAttnBackwardData",
            "cudnnMultiHeadAttnBackwardWeights",
            "cudnnGetMultiHeadAttnBuffers",
            "cudnnGetMultiHeadAttnWeights",
        ],
    ),
    family(
        "ctc",
        Server::Original,
        "not measured beside the original",
        &[
            "cudnnCTCLoss",
            "cudnnCTCLoss_v8",
            "cudnnGetCTCLossWorkspaceSize",
            "cudnnGetCTCLossWorkspaceSize_v8",
        ],
    ),
    family(
        "graph",
        Server::Original,
        "its engines fuse operations, ours run one after the other; contractions as conv (Convolutions)",
        &[
            "cudnnBackendExecute",
            "cudnnGetExecutionPlanWorkspaceSize",
            "cudnnBackendPopulateCudaGraph",
            "cudnnBackendUpdateCudaGraph",
        ],
    ),
];

/// The family of a call, if the original could serve it.
pub fn family_of(call: &str) -> Option<(usize, &'static Family)> {
    FAMILIES.iter().enumerate().find(|(_, family)| family.calls.contains(&call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_call_has_one_family_and_every_family_a_name_of_its_own() {
        let calls: Vec<&str> = FAMILIES.iter().flat_map(|family| family.calls).copied().collect();
        assert_eq!(calls.iter().collect::<BTreeSet<_>>().len(), calls.len());
        let names: BTreeSet<&str> = FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), FAMILIES.len());
        for family in FAMILIES {
            let &first = family.calls.first().expect("a family has calls");
            assert_eq!(family_of(first).expect("listed").1.name, family.name);
        }
        assert!(family_of("cudnnCreate").is_none());
    }
}
