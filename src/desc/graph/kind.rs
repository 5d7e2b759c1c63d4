//! The kinds of objects of the graph interface.

/// The table of kinds: variant, number, name.
macro_rules! kinds {
    ($($name:ident $code:literal $shown:literal;)*) => {
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
        }
    };
}

kinds! {
    Pointwise 0 "POINTWISE";
    Convolution 1 "CONVOLUTION";
    Engine 2 "ENGINE";
    EngineConfig 3 "ENGINECFG";
    EngineHeuristic 4 "ENGINEHEUR";
    ExecutionPlan 5 "EXECUTION_PLAN";
    KnobChoice 7 "KNOB_CHOICE";
    KnobInfo 8 "KNOB_INFO";
    LayoutInfo 9 "LAYOUT_INFO";
    ConvolutionForward 10 "OPERATION_CONVOLUTION_FORWARD";
    ConvolutionBackwardFilter 11 "OPERATION_CONVOLUTION_BACKWARD_FILTER";
    ConvolutionBackwardData 12 "OPERATION_CONVOLUTION_BACKWARD_DATA";
    PointwiseOperation 13 "OPERATION_POINTWISE";
    GenStats 14 "OPERATION_GEN_STATS";
    OperationGraph 15 "OPERATIONGRAPH";
    VariantPack 16 "VARIANT_PACK";
    Tensor 17 "TENSOR";
    Matmul 18 "MATMUL";
    MatmulOperation 19 "OPERATION_MATMUL";
    BnFinalize 20 "OPERATION_BN_FINALIZE_STATISTICS";
    Reduction 21 "REDUCTION";
    ReductionOperation 22 "OPERATION_REDUCTION";
    BnBackwardWeights 23 "OPERATION_BN_BWD_WEIGHTS";
    Resample 24 "RESAMPLE";
    ResampleForward 25 "OPERATION_RESAMPLE_FWD";
    ResampleBackward 26 "OPERATION_RESAMPLE_BWD";
    Concat 27 "OPERATION_CONCAT";
    Signal 28 "OPERATION_SIGNAL";
    NormForward 29 "OPERATION_NORM_FORWARD";
    NormBackward 30 "OPERATION_NORM_BACKWARD";
    Reshape 31 "OPERATION_RESHAPE";
    Rng 32 "RNG";
    RngOperation 33 "OPERATION_RNG";
    KernelCache 34 "KERNEL_CACHE";
    PagedCacheLoad 35 "OPERATION_PAGED_CACHE_LOAD";
    BlockScaleQuantize 36 "OPERATION_BLOCK_SCALE_QUANTIZE";
    BlockScaleDequantize 37 "OPERATION_BLOCK_SCALE_DEQUANTIZE";
    DeviceProperties 38 "DEVICEPROP";
    ExpandBandMatrix 39 "OPERATION_EXPAND_BAND_MATRIX";
    ContractBandMatrix 40 "OPERATION_CONTRACT_BAND_MATRIX";
    SdpaForward 41 "OPERATION_SDPA_FWD";
    MoeGroupedMatmul 42 "OPERATION_MOE_GROUPED_MATMUL";
    SdpaBackward 43 "OPERATION_SDPA_BWD";
    DiagonalBandMask 44 "OPERATION_DIAGONAL_BAND_MASK";
    Softmax 45 "OPERATION_SOFTMAX";
    Transpose 46 "OPERATION_TRANSPOSE";
    Slice 47 "OPERATION_SLICE";
    MoeGroupedMatmulBackward 48 "OPERATION_MOE_GROUPED_MATMUL_BWD";
    RopeForward 49 "OPERATION_ROPE_FWD";
    RopeBackward 50 "OPERATION_ROPE_BWD";
}

impl Kind {
    /// Whether the object is an operation, which a graph is made of.
    pub fn is_operation(self) -> bool {
        self.name().starts_with("OPERATION_")
    }
}
