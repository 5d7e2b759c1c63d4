//! The families of calls, who serves each by default, and why: figures of one H100, our time
//! against the original's, in `benches/results/2026-11-27-h100.txt`.

/// Who serves a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// This library.
    Ours,
    /// The original.
    Original,
}

impl Server {
    /// Its name in the environment, the log and the docs.
    pub fn name(self) -> &'static str {
        match self {
            Server::Ours => "ours",
            Server::Original => "original",
        }
    }

    pub(super) fn named(name: &str) -> Option<Server> {
        [Server::Ours, Server::Original].into_iter().find(|server| server.name() == name)
    }
}

/// Calls of one kind.
#[derive(Debug)]
pub struct Family {
    /// Its name in `CUDNN_SHIM_ROUTE`.
    pub name: &'static str,
    /// Who serves it unless the environment or a case says otherwise.
    pub server: Server,
    /// Why: what was measured, and its part of the results.
    pub why: &'static str,
    /// Its calls.
    pub groups: &'static [Group],
}

impl Family {
    /// Its calls.
    pub fn calls(&self) -> impl Iterator<Item = &'static str> {
        self.groups.iter().flat_map(|group| group.calls).copied()
    }

    /// The calls that go with one of its calls.
    pub fn group_of(&self, call: &str) -> Option<&'static Group> {
        self.groups.iter().find(|group| group.calls.contains(&call))
    }
}

/// Calls that go together to one of both: those that ask for sizes with those that take what was
/// asked for.
#[derive(Debug)]
pub struct Group {
    /// The calls.
    pub calls: &'static [&'static str],
    /// The descriptors, by the names of their arguments, that make calls of the group calls about
    /// one problem.
    pub problem: &'static [&'static str],
    /// Whether this library refuses spaces that are smaller than it asks for.
    pub insists: bool,
}

const fn family(name: &'static str, server: Server, why: &'static str, groups: &'static [Group]) -> Family {
    Family { name, server, why, groups }
}

/// A call without sizes.
const fn alone(call: &'static [&'static str; 1]) -> Group {
    Group { calls: call, problem: &[], insists: false }
}

/// Calls that share sizes.
const fn bound(calls: &'static [&'static str], problem: &'static [&'static str]) -> Group {
    Group { calls, problem, insists: true }
}

/// The problem of a convolution. This library computes it with any workspace.
const fn convolution(calls: &'static [&'static str]) -> Group {
    // By all the names that their arguments have in queries, searches and runs.
    const PROBLEM: &[&str] = &[
        "xDesc",
        "wDesc",
        "convDesc",
        "yDesc",
        "dyDesc",
        "dxDesc",
        "dwDesc",
        "gradDesc",
        "srcDesc",
        "filterDesc",
        "destDesc",
        "diffDesc",
    ];
    Group { calls, problem: PROBLEM, insists: false }
}

/// Every call with a handle that the original could serve.
pub const FAMILIES: &[Family] = &[
    family(
        "transform",
        Server::Ours,
        "2.6 times as fast, any layout and type (Transforms)",
        &[
            alone(&["cudnnTransformTensor"]),
            alone(&["cudnnTransformTensorEx"]),
            alone(&["cudnnTransformFilter"]),
        ],
    ),
    family(
        "reduce",
        Server::Ours,
        "4.4 times as fast (Sums)",
        &[bound(
            &["cudnnReduceTensor", "cudnnGetReductionIndicesSize", "cudnnGetReductionWorkspaceSize"],
            &["reduceTensorDesc", "aDesc", "cDesc"],
        )],
    ),
    family(
        "scale",
        Server::Ours,
        "1.21 times as fast (Transforms, scale-f32)",
        &[alone(&["cudnnScaleTensor"]), alone(&["cudnnSetTensor"])],
    ),
    family(
        "arithmetic",
        Server::Original,
        "not measured beside the original",
        &[alone(&["cudnnAddTensor"]), alone(&["cudnnOpTensor"])],
    ),
    family(
        "conv",
        Server::Original,
        "0.2 to 1.0 times as fast (Convolutions)",
        &[
            convolution(&[
                "cudnnConvolutionForward",
                "cudnnConvolutionBiasActivationForward",
                "cudnnGetConvolutionForwardWorkspaceSize",
                "cudnnGetConvolutionForwardAlgorithm_v7",
                "cudnnGetConvolutionForwardAlgorithmMaxCount",
                "cudnnFindConvolutionForwardAlgorithm",
                "cudnnFindConvolutionForwardAlgorithmEx",
                "cudnnReorderFilterAndBias",
            ]),
            convolution(&[
                "cudnnConvolutionBackwardData",
                "cudnnGetConvolutionBackwardDataWorkspaceSize",
                "cudnnGetConvolutionBackwardDataAlgorithm_v7",
                "cudnnGetConvolutionBackwardDataAlgorithmMaxCount",
                "cudnnFindConvolutionBackwardDataAlgorithm",
                "cudnnFindConvolutionBackwardDataAlgorithmEx",
            ]),
            convolution(&[
                "cudnnConvolutionBackwardFilter",
                "cudnnGetConvolutionBackwardFilterWorkspaceSize",
                "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
                "cudnnGetConvolutionBackwardFilterAlgorithmMaxCount",
                "cudnnFindConvolutionBackwardFilterAlgorithm",
                "cudnnFindConvolutionBackwardFilterAlgorithmEx",
            ]),
        ],
    ),
    family(
        "im2col",
        Server::Ours,
        "it moves elements, as transforms do (Transforms)",
        &[alone(&["cudnnIm2Col"])],
    ),
    family(
        "bias",
        Server::Original,
        "0.04 to 0.56 times as fast (Layers, bias-back)",
        &[alone(&["cudnnConvolutionBackwardBias"])],
    ),
    family(
        "pooling",
        Server::Original,
        "0.12 to 0.82 times as fast, averages 0.94 to 1.96 (Layers)",
        &[alone(&["cudnnPoolingForward"]), alone(&["cudnnPoolingBackward"])],
    ),
    family(
        "activation",
        Server::Original,
        "0.42 to 0.80 times as fast (Layers)",
        &[alone(&["cudnnActivationForward"]), alone(&["cudnnActivationBackward"])],
    ),
    family(
        "softmax",
        Server::Original,
        "0.07 to 0.32 times as fast (Layers)",
        &[alone(&["cudnnSoftmaxForward"]), alone(&["cudnnSoftmaxBackward"])],
    ),
    family(
        "norm",
        Server::Original,
        "training 0.10 to 0.24 times as fast, inference 1.0 to 1.3 (Layers)",
        &[
            alone(&["cudnnBatchNormalizationForwardInference"]),
            alone(&["cudnnBatchNormalizationForwardTraining"]),
            alone(&["cudnnBatchNormalizationBackward"]),
            alone(&["cudnnNormalizationForwardInference"]),
            bound(
                &[
                    "cudnnBatchNormalizationForwardTrainingEx",
                    "cudnnBatchNormalizationBackwardEx",
                    "cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize",
                    "cudnnGetBatchNormalizationBackwardExWorkspaceSize",
                    "cudnnGetBatchNormalizationTrainingExReserveSpaceSize",
                ],
                &["xDesc"],
            ),
            bound(
                &[
                    "cudnnNormalizationForwardTraining",
                    "cudnnNormalizationBackward",
                    "cudnnGetNormalizationForwardTrainingWorkspaceSize",
                    "cudnnGetNormalizationBackwardWorkspaceSize",
                    "cudnnGetNormalizationTrainingReserveSpaceSize",
                ],
                &["xDesc"],
            ),
        ],
    ),
    family(
        "lrn",
        Server::Original,
        "0.04 to 1.1 times as fast (Layers, response)",
        &[
            alone(&["cudnnLRNCrossChannelForward"]),
            alone(&["cudnnLRNCrossChannelBackward"]),
            alone(&["cudnnDivisiveNormalizationForward"]),
            alone(&["cudnnDivisiveNormalizationBackward"]),
        ],
    ),
    family(
        "dropout",
        Server::Original,
        "0.5 to 0.75 times as fast in NCHW, and the original's sequences need its random states (Layers)",
        &[bound(
            &[
                "cudnnDropoutForward",
                "cudnnDropoutBackward",
                "cudnnDropoutGetStatesSize",
                "cudnnSetDropoutDescriptor",
                "cudnnRestoreDropoutDescriptor",
            ],
            &[],
        )],
    ),
    family(
        "sampler",
        Server::Original,
        "0.08 to 0.92 times as fast (Layers)",
        &[
            alone(&["cudnnSpatialTfGridGeneratorForward"]),
            alone(&["cudnnSpatialTfGridGeneratorBackward"]),
            alone(&["cudnnSpatialTfSamplerForward"]),
            alone(&["cudnnSpatialTfSamplerBackward"]),
        ],
    ),
    family(
        "rnn",
        Server::Original,
        "our products are 0.2 to 1.0 times as fast (Convolutions)",
        &[bound(
            &[
                "cudnnRNNForward",
                "cudnnRNNBackwardData_v8",
                "cudnnRNNBackwardWeights_v8",
                "cudnnGetRNNTempSpaceSizes",
                "cudnnGetRNNWeightSpaceSize",
                "cudnnGetRNNWeightParams",
                "cudnnBuildRNNDynamic",
            ],
            &[],
        )],
    ),
    family(
        "attention",
        Server::Original,
        "our products are 0.2 to 1.0 times as fast (Convolutions)",
        &[bound(
            &[
                "cudnnMultiHeadAttnForward",
                "cudnnMultiHeadAttnBackwardData",
                "cudnnMultiHeadAttnBackwardWeights",
                "cudnnGetMultiHeadAttnBuffers",
                "cudnnGetMultiHeadAttnWeights",
            ],
            &[],
        )],
    ),
    family(
        "ctc",
        Server::Original,
        "not measured beside the original",
        &[
            bound(&["cudnnCTCLoss", "cudnnGetCTCLossWorkspaceSize"], &["probsDesc", "gradientsDesc"]),
            bound(&["cudnnCTCLoss_v8", "cudnnGetCTCLossWorkspaceSize_v8"], &["probsDesc", "gradientsDesc"]),
        ],
    ),
    family(
        "fused",
        Server::Original,
        "its convolutions as conv (Convolutions), the others not measured beside the original",
        &[bound(&["cudnnFusedOpsExecute", "cudnnMakeFusedOpsPlan"], &[])],
    ),
    family(
        "graph",
        Server::Original,
        "its engines fuse operations, ours run one after the other; contractions as conv (Convolutions)",
        &[bound(
            &[
                "cudnnBackendExecute",
                "cudnnGetExecutionPlanWorkspaceSize",
                "cudnnBackendPopulateCudaGraph",
                "cudnnBackendUpdateCudaGraph",
            ],
            &[],
        )],
    ),
];

/// Calls that a graph of the original can serve, each with those that go with it: itself, and who
/// tells its workspace.
pub const GRAPHS: &[(&str, &[&str])] = &[
    (
        "cudnnConvolutionForward",
        &[
            "cudnnConvolutionForward",
            "cudnnConvolutionBiasActivationForward",
            "cudnnGetConvolutionForwardWorkspaceSize",
            "cudnnGetConvolutionForwardAlgorithm_v7",
            "cudnnFindConvolutionForwardAlgorithm",
            "cudnnFindConvolutionForwardAlgorithmEx",
        ],
    ),
    (
        "cudnnConvolutionBackwardData",
        &[
            "cudnnConvolutionBackwardData",
            "cudnnGetConvolutionBackwardDataWorkspaceSize",
            "cudnnGetConvolutionBackwardDataAlgorithm_v7",
            "cudnnFindConvolutionBackwardDataAlgorithm",
            "cudnnFindConvolutionBackwardDataAlgorithmEx",
        ],
    ),
    (
        "cudnnConvolutionBackwardFilter",
        &[
            "cudnnConvolutionBackwardFilter",
            "cudnnGetConvolutionBackwardFilterWorkspaceSize",
            "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
            "cudnnFindConvolutionBackwardFilterAlgorithm",
            "cudnnFindConvolutionBackwardFilterAlgorithmEx",
        ],
    ),
    ("cudnnPoolingForward", &["cudnnPoolingForward"]),
    ("cudnnPoolingBackward", &["cudnnPoolingBackward"]),
    ("cudnnActivationForward", &["cudnnActivationForward"]),
    ("cudnnActivationBackward", &["cudnnActivationBackward"]),
    ("cudnnBatchNormalizationForwardInference", &["cudnnBatchNormalizationForwardInference"]),
    ("cudnnBatchNormalizationForwardTraining", &["cudnnBatchNormalizationForwardTraining"]),
    ("cudnnBatchNormalizationBackward", &["cudnnBatchNormalizationBackward"]),
];

/// Calls that later versions took away, each with the call of the original that serves it.
pub const SUCCESSORS: &[(&str, &str)] = &[
    ("cudnnRNNForwardInference", "cudnnRNNForward"),
    ("cudnnRNNForwardInferenceEx", "cudnnRNNForward"),
    ("cudnnRNNForwardTraining", "cudnnRNNForward"),
    ("cudnnRNNForwardTrainingEx", "cudnnRNNForward"),
    ("cudnnRNNBackwardData", "cudnnRNNBackwardData_v8"),
    ("cudnnRNNBackwardDataEx", "cudnnRNNBackwardData_v8"),
    ("cudnnRNNBackwardWeights", "cudnnRNNBackwardWeights_v8"),
    ("cudnnRNNBackwardWeightsEx", "cudnnRNNBackwardWeights_v8"),
    ("cudnnGetRNNWorkspaceSize", "cudnnGetRNNTempSpaceSizes"),
    ("cudnnGetRNNTrainingReserveSize", "cudnnGetRNNTempSpaceSizes"),
    ("cudnnGetRNNParamsSize", "cudnnGetRNNWeightSpaceSize"),
    ("cudnnGetRNNLinLayerMatrixParams", "cudnnGetRNNWeightParams"),
    ("cudnnGetRNNLinLayerBiasParams", "cudnnGetRNNWeightParams"),
    ("cudnnFindRNNForwardInferenceAlgorithmEx", "cudnnGetRNNTempSpaceSizes"),
    ("cudnnFindRNNForwardTrainingAlgorithmEx", "cudnnGetRNNTempSpaceSizes"),
    ("cudnnFindRNNBackwardDataAlgorithmEx", "cudnnGetRNNTempSpaceSizes"),
    ("cudnnFindRNNBackwardWeightsAlgorithmEx", "cudnnGetRNNTempSpaceSizes"),
    ("cudnnGetConvolutionForwardAlgorithm", "cudnnGetConvolutionForwardAlgorithm_v7"),
    ("cudnnGetConvolutionBackwardDataAlgorithm", "cudnnGetConvolutionBackwardDataAlgorithm_v7"),
    ("cudnnGetConvolutionBackwardFilterAlgorithm", "cudnnGetConvolutionBackwardFilterAlgorithm_v7"),
];

/// The family of a call, if the original could serve it.
pub fn family_of(call: &str) -> Option<(usize, &'static Family)> {
    FAMILIES.iter().enumerate().find(|(_, family)| family.group_of(call).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_call_has_one_family_and_every_family_a_name_of_its_own() {
        let calls: Vec<&str> = FAMILIES.iter().flat_map(Family::calls).collect();
        assert_eq!(calls.iter().collect::<BTreeSet<_>>().len(), calls.len());
        let names: BTreeSet<&str> = FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), FAMILIES.len());
        for family in FAMILIES {
            let first = family.calls().next().expect("a family has calls");
            assert_eq!(family_of(first).expect("listed").1.name, family.name);
        }
        assert!(family_of("cudnnCreate").is_none());
    }

    #[test]
    fn successors_are_calls_that_the_original_could_serve() {
        for (call, successor) in SUCCESSORS {
            assert!(family_of(call).is_none() && family_of(successor).is_some(), "{call}, {successor}");
        }
    }

    /// A call that tells a size goes with one that takes it.
    #[test]
    fn calls_that_tell_sizes_are_bound_to_those_that_take_them() {
        for group in FAMILIES.iter().flat_map(|family| family.groups) {
            let tells =
                |call: &&&str| ["Size", "Buffers", "MakeFusedOps"].iter().any(|part| call.contains(part));
            assert_eq!(
                group.calls.iter().any(|call| tells(&call)),
                group.calls.len() > 1,
                "{:?}",
                group.calls
            );
        }
    }
}
