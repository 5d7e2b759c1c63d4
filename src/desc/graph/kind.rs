//! The kinds of objects of the graph interface.

use super::attribute::Row;
use super::{
    attention, batch_norm, block_scale, convolution, engine, experts, matmul, norm, operation_graph, pack,
    pointwise, reduction, resample, rng, shape, signal, tensor,
};

/// How an attribute's status differs from BAD_PARAM: what the original answers where another
/// library would say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A wrong argument.
    BadParam,
    /// The status of a wrong attribute type.
    AttributeType,
    /// Not supported.
    Unsupported,
    /// Not initialised: what the original answers for a handle.
    NotInitialized,
}

/// The table of kinds: variant, number, name, rows of attributes, status of a wrong attribute type,
/// status of an attribute that the kind does not have, whether attributes can be read back.
macro_rules! kinds {
    ($($name:ident $code:literal $shown:literal $rows:path, $wrong:ident, $foreign:ident, $readable:literal;)*) => {
        /// What an object of the graph interface is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = concat!("`CUDNN_BACKEND_", $shown, "_DESCRIPTOR`")] $name = $code,)*
        }

        impl Kind {
            /// Every kind, for tables and tests.
            pub const ALL: &'static [Kind] = &[$(Kind::$name),*];

            /// The kind of this number.
            pub fn from_code(code: i32) -> Option<Self> {
                match code {
                    $($code => Some(Kind::$name),)*
                    _ => None,
                }
            }

            /// The name in the header without its first and last word.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$name => $shown,)*
                }
            }

            /// The attributes.
            pub(super) fn rows(self) -> &'static [Row] {
                match self {
                    $(Kind::$name => $rows,)*
                }
            }

            /// The status of a wrong attribute type, unless the row says otherwise.
            pub(super) fn wrong_type(self) -> Fault {
                match self {
                    $(Kind::$name => Fault::$wrong,)*
                }
            }

            /// The status of an attribute that the kind does not have.
            pub(super) fn foreign(self) -> Fault {
                match self {
                    $(Kind::$name => Fault::$foreign,)*
                }
            }

            /// Whether attributes can be read back, unless the row says otherwise.
            pub(super) fn is_readable(self) -> bool {
                match self {
                    $(Kind::$name => $readable,)*
                }
            }
        }
    };
}

kinds! {
    Pointwise 0 "POINTWISE" pointwise::SETTINGS, BadParam, BadParam, false;
    Convolution 1 "CONVOLUTION" convolution::SETTINGS, AttributeType, BadParam, true;
    Engine 2 "ENGINE" engine::ENGINE, AttributeType, BadParam, true;
    EngineConfig 3 "ENGINECFG" engine::CONFIG, AttributeType, BadParam, true;
    EngineHeuristic 4 "ENGINEHEUR" engine::HEURISTIC, AttributeType, BadParam, true;
    ExecutionPlan 5 "EXECUTION_PLAN" engine::PLAN, AttributeType, BadParam, true;
    KnobChoice 7 "KNOB_CHOICE" engine::KNOB_CHOICE, AttributeType, BadParam, true;
    KnobInfo 8 "KNOB_INFO" engine::KNOB_INFO, Unsupported, BadParam, true;
    LayoutInfo 9 "LAYOUT_INFO" engine::LAYOUT_INFO, Unsupported, BadParam, true;
    ConvolutionForward 10 "OPERATION_CONVOLUTION_FORWARD" convolution::FORWARD, BadParam, BadParam, true;
    ConvolutionBackwardFilter 11 "OPERATION_CONVOLUTION_BACKWARD_FILTER" convolution::BACKWARD_FILTER, BadParam, Unsupported, true;
    ConvolutionBackwardData 12 "OPERATION_CONVOLUTION_BACKWARD_DATA" convolution::BACKWARD_DATA, BadParam, BadParam, true;
    PointwiseOperation 13 "OPERATION_POINTWISE" pointwise::OPERATION, BadParam, BadParam, false;
    GenStats 14 "OPERATION_GEN_STATS" batch_norm::GEN_STATS, BadParam, BadParam, false;
    OperationGraph 15 "OPERATIONGRAPH" operation_graph::ROWS, AttributeType, BadParam, true;
    VariantPack 16 "VARIANT_PACK" pack::ROWS, Unsupported, BadParam, false;
    Tensor 17 "TENSOR" tensor::ROWS, AttributeType, BadParam, true;
    Matmul 18 "MATMUL" matmul::SETTINGS, BadParam, BadParam, true;
    MatmulOperation 19 "OPERATION_MATMUL" matmul::OPERATION, BadParam, BadParam, true;
    BnFinalize 20 "OPERATION_BN_FINALIZE_STATISTICS" batch_norm::FINALIZE, BadParam, BadParam, false;
    Reduction 21 "REDUCTION" reduction::SETTINGS, BadParam, BadParam, true;
    ReductionOperation 22 "OPERATION_REDUCTION" reduction::OPERATION, BadParam, BadParam, true;
    BnBackwardWeights 23 "OPERATION_BN_BWD_WEIGHTS" batch_norm::BACKWARD_WEIGHTS, BadParam, BadParam, false;
    Resample 24 "RESAMPLE" resample::SETTINGS, BadParam, BadParam, true;
    ResampleForward 25 "OPERATION_RESAMPLE_FWD" resample::FORWARD, BadParam, BadParam, true;
    ResampleBackward 26 "OPERATION_RESAMPLE_BWD" resample::BACKWARD, BadParam, BadParam, true;
    Concat 27 "OPERATION_CONCAT" shape::CONCAT, BadParam, BadParam, true;
    Signal 28 "OPERATION_SIGNAL" signal::SIGNAL, BadParam, BadParam, true;
    NormForward 29 "OPERATION_NORM_FORWARD" norm::FORWARD, BadParam, BadParam, false;
    NormBackward 30 "OPERATION_NORM_BACKWARD" norm::BACKWARD, BadParam, BadParam, false;
    Reshape 31 "OPERATION_RESHAPE" shape::RESHAPE, BadParam, BadParam, true;
    Rng 32 "RNG" rng::SETTINGS, AttributeType, BadParam, true;
    RngOperation 33 "OPERATION_RNG" rng::OPERATION, BadParam, BadParam, true;
    KernelCache 34 "KERNEL_CACHE" engine::KERNEL_CACHE, AttributeType, BadParam, true;
    PagedCacheLoad 35 "OPERATION_PAGED_CACHE_LOAD" attention::PAGED_CACHE_LOAD, BadParam, BadParam, true;
    BlockScaleQuantize 36 "OPERATION_BLOCK_SCALE_QUANTIZE" block_scale::QUANTIZE, BadParam, BadParam, false;
    BlockScaleDequantize 37 "OPERATION_BLOCK_SCALE_DEQUANTIZE" block_scale::DEQUANTIZE, BadParam, BadParam, false;
    DeviceProperties 38 "DEVICEPROP" engine::DEVICE, AttributeType, BadParam, true;
    ExpandBandMatrix 39 "OPERATION_EXPAND_BAND_MATRIX" signal::EXPAND, BadParam, BadParam, true;
    ContractBandMatrix 40 "OPERATION_CONTRACT_BAND_MATRIX" signal::CONTRACT, BadParam, BadParam, true;
    SdpaForward 41 "OPERATION_SDPA_FWD" attention::FORWARD, AttributeType, BadParam, true;
    MoeGroupedMatmul 42 "OPERATION_MOE_GROUPED_MATMUL" experts::FORWARD, BadParam, BadParam, true;
    SdpaBackward 43 "OPERATION_SDPA_BWD" attention::BACKWARD, AttributeType, BadParam, true;
    DiagonalBandMask 44 "OPERATION_DIAGONAL_BAND_MASK" attention::BAND_MASK, BadParam, BadParam, true;
    Softmax 45 "OPERATION_SOFTMAX" attention::SOFTMAX, BadParam, BadParam, true;
    Transpose 46 "OPERATION_TRANSPOSE" shape::TRANSPOSE, BadParam, BadParam, true;
    Slice 47 "OPERATION_SLICE" shape::SLICE, BadParam, BadParam, true;
    MoeGroupedMatmulBackward 48 "OPERATION_MOE_GROUPED_MATMUL_BWD" experts::BACKWARD, BadParam, BadParam, true;
    RopeForward 49 "OPERATION_ROPE_FWD" attention::ROPE_FORWARD, BadParam, BadParam, true;
    RopeBackward 50 "OPERATION_ROPE_BWD" attention::ROPE_BACKWARD, BadParam, BadParam, true;
}

impl Kind {
    /// Whether the object is an operation, which a graph is made of.
    pub fn is_operation(self) -> bool {
        self.name().starts_with("OPERATION_")
    }
}
