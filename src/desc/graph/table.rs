//! The table of kinds: which attributes each has, and what holds for all of them.

use super::attribute::{Fault, Row};
use super::kind::Kind;
use super::{
    attention, batch_norm, block_scale, convolution, device, engine, experts, matmul, norm, operation_graph,
    pack, pointwise, reduction, resample, rng, shape, signal, tensor,
};

/// What holds for the attributes of a kind.
pub(super) struct Attributes {
    /// One row for each.
    pub(super) rows: &'static [Row],
    /// The status of a wrong attribute type, unless the row says otherwise.
    pub(super) wrong_type: Fault,
    /// The status of an attribute that the kind does not have.
    pub(super) foreign: Fault,
    /// Whether attributes can be read back, unless the row says otherwise.
    pub(super) is_readable: bool,
}

impl Attributes {
    /// The row of an attribute, if the kind has it.
    pub(super) fn row(&self, attribute: i32) -> Option<&'static Row> {
        self.rows.iter().find(|row| row.number == attribute)
    }
}

/// The table: kind, rows, status of a wrong attribute type, status of an attribute that the kind
/// does not have, whether attributes can be read back.
macro_rules! attributes {
    ($($kind:ident $rows:path, $wrong:ident, $foreign:ident, $readable:literal;)*) => {
        /// The attributes of a kind.
        pub(super) fn attributes(kind: Kind) -> &'static Attributes {
            match kind {
                $(Kind::$kind => &Attributes {
                    rows: $rows,
                    wrong_type: Fault::$wrong,
                    foreign: Fault::$foreign,
                    is_readable: $readable,
                },)*
            }
        }
    };
}

attributes! {
    Pointwise pointwise::SETTINGS, BadParam, BadParam, false;
    Convolution convolution::SETTINGS, AttributeType, BadParam, true;
    Engine engine::ENGINE, AttributeType, BadParam, true;
    EngineConfig engine::CONFIG, AttributeType, BadParam, true;
    EngineHeuristic engine::HEURISTIC, AttributeType, BadParam, true;
    ExecutionPlan engine::PLAN, AttributeType, BadParam, true;
    KnobChoice engine::KNOB_CHOICE, AttributeType, BadParam, true;
    KnobInfo engine::KNOB_INFO, Unsupported, BadParam, true;
    LayoutInfo engine::LAYOUT_INFO, Unsupported, BadParam, true;
    ConvolutionForward convolution::FORWARD, BadParam, BadParam, true;
    ConvolutionBackwardFilter convolution::BACKWARD_FILTER, BadParam, Unsupported, true;
    ConvolutionBackwardData convolution::BACKWARD_DATA, BadParam, BadParam, true;
    PointwiseOperation pointwise::OPERATION, BadParam, BadParam, false;
    GenStats batch_norm::GEN_STATS, BadParam, BadParam, false;
    OperationGraph operation_graph::ROWS, AttributeType, BadParam, true;
    VariantPack pack::ROWS, Unsupported, BadParam, false;
    Tensor tensor::ROWS, AttributeType, BadParam, true;
    Matmul matmul::SETTINGS, BadParam, BadParam, true;
    MatmulOperation matmul::OPERATION, BadParam, BadParam, true;
    BnFinalize batch_norm::FINALIZE, BadParam, BadParam, false;
    Reduction reduction::SETTINGS, BadParam, BadParam, true;
    ReductionOperation reduction::OPERATION, BadParam, BadParam, true;
    BnBackwardWeights batch_norm::BACKWARD_WEIGHTS, BadParam, BadParam, false;
    Resample resample::SETTINGS, BadParam, BadParam, true;
    ResampleForward resample::FORWARD, BadParam, BadParam, true;
    ResampleBackward resample::BACKWARD, BadParam, BadParam, true;
    Concat shape::CONCAT, BadParam, BadParam, true;
    Signal signal::SIGNAL, BadParam, BadParam, true;
    NormForward norm::FORWARD, BadParam, BadParam, false;
    NormBackward norm::BACKWARD, BadParam, BadParam, false;
    Reshape shape::RESHAPE, BadParam, BadParam, true;
    Rng rng::SETTINGS, AttributeType, BadParam, true;
    RngOperation rng::OPERATION, BadParam, BadParam, true;
    KernelCache engine::KERNEL_CACHE, AttributeType, BadParam, true;
    PagedCacheLoad attention::PAGED_CACHE_LOAD, BadParam, BadParam, true;
    BlockScaleQuantize block_scale::QUANTIZE, BadParam, BadParam, false;
    BlockScaleDequantize block_scale::DEQUANTIZE, BadParam, BadParam, false;
    DeviceProperties device::ROWS, AttributeType, BadParam, true;
    ExpandBandMatrix signal::EXPAND, BadParam, BadParam, true;
    ContractBandMatrix signal::CONTRACT, BadParam, BadParam, true;
    SdpaForward attention::FORWARD, AttributeType, BadParam, true;
    MoeGroupedMatmul experts::FORWARD, BadParam, BadParam, true;
    SdpaBackward attention::BACKWARD, AttributeType, BadParam, true;
    DiagonalBandMask attention::BAND_MASK, BadParam, BadParam, true;
    Softmax attention::SOFTMAX, BadParam, BadParam, true;
    Transpose shape::TRANSPOSE, BadParam, BadParam, true;
    Slice shape::SLICE, BadParam, BadParam, true;
    MoeGroupedMatmulBackward experts::BACKWARD, BadParam, BadParam, true;
    RopeForward attention::ROPE_FORWARD, BadParam, BadParam, true;
    RopeBackward attention::ROPE_BACKWARD, BadParam, BadParam, true;
}
