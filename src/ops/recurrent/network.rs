//! What a recurrent network is, as plain numbers.

use crate::desc::rnn::{RnnBias, RnnCell, RnnDirection, RnnInput};
use crate::desc::{Choice, rnn};
use crate::desc::{DropoutDescriptor, NanPropagation, RnnClip, RnnNetwork};
use crate::dtype::{DataType, Scalar};
use crate::ops::{Compute, NanRule};

/// The bounds of an LSTM cell state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clip {
    /// The lowest value.
    pub lower: f64,
    /// The highest value.
    pub upper: f64,
    /// [`NanRule::Ignore`] makes a NaN the lowest value.
    pub nan: NanRule,
}

/// A recurrent network, as the plans take it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// The cell.
    pub cell: RnnCell,
    /// Its biases.
    pub bias: RnnBias,
    /// 1, or 2 for a network that reads its sequences from both ends.
    pub directions: i64,
    /// Whether the first layer adds its input to every gate instead of multiplying it with weights.
    pub skips_input: bool,
    /// Entries of an input vector.
    pub input: i64,
    /// Entries of a hidden state.
    pub hidden: i64,
    /// Entries of an output of one direction: as many as `hidden` unless they are projected.
    pub projected: i64,
    /// Layers.
    pub layers: i64,
    /// The type of data, states and weights.
    pub data: DataType,
    /// The type of sums and of what is inside a cell.
    pub compute: Compute,
    /// Whether products of 16-bit types may have the order of tile instructions.
    pub allow_tiles: bool,
    /// The bounds of the cell state, if it is clipped.
    pub clip: Option<Clip>,
    /// The probability of an element between two layers to be dropped in training.
    pub dropout: f32,
}

impl Network {
    /// The network of a descriptor. Clipping is that of LSTMs alone. A probability below 0 or of
    /// NaN drops nothing, one above 1 drops all, and so does no descriptor drop anything.
    pub fn new(network: &RnnNetwork, clip: &RnnClip, dropout: Option<&DropoutDescriptor>) -> Network {
        let rnn::RnnSizes { input, hidden, projected, layers } = network.sizes;
        let keeps_nan = NanPropagation::Keep.code() == clip.nan;
        let clips = clip.mode == 1 && network.cell == RnnCell::Lstm;
        Network {
            cell: network.cell,
            bias: network.bias,
            directions: if network.direction == RnnDirection::Bidirectional { 2 } else { 1 },
            skips_input: network.input == RnnInput::Skip,
            input: input.into(),
            hidden: hidden.into(),
            projected: projected.into(),
            layers: layers.into(),
            data: network.types.data,
            compute: match network.types.data {
                DataType::Double => Compute::Double,
                _ => Compute::Single,
            },
            allow_tiles: network.math_type.allows_tiles(),
            clip: clips.then(|| Clip {
                lower: clip.lower(),
                upper: clip.upper(),
                nan: if keeps_nan { NanRule::Propagate } else { NanRule::Ignore },
            }),
            dropout: dropout.map_or(0.0, |dropout| dropout.probability()),
        }
    }

    /// Gates of a cell: as many matrices of each kind.
    pub const fn gates(&self) -> i64 {
        match self.cell {
            RnnCell::Relu | RnnCell::Tanh => 1,
            RnnCell::Lstm => 4,
            RnnCell::Gru => 3,
        }
    }

    /// Layers times directions; pseudo-layer `layer * directions + direction`.
    pub const fn pseudo_layers(&self) -> i64 {
        self.layers * self.directions
    }

    /// Entries of an output of both directions, which is the input of the next layer.
    pub const fn output(&self) -> i64 {
        self.directions * self.projected
    }

    /// Entries of the input of a layer.
    pub const fn input_of(&self, layer: i64) -> i64 {
        if layer == 0 { self.input } else { self.output() }
    }

    /// Whether a layer has input matrices.
    pub const fn multiplies_input(&self, layer: i64) -> bool {
        layer > 0 || !self.skips_input
    }

    /// Whether hidden states are projected.
    pub const fn projects(&self) -> bool {
        self.projected != self.hidden
    }

    /// Whether the network has a cell state besides the hidden one.
    pub fn has_cell_state(&self) -> bool {
        self.cell == RnnCell::Lstm
    }

    /// Whether masks are drawn in training.
    pub fn drops(&self) -> bool {
        self.dropout > 0.0 && self.layers > 1
    }

    /// The scalar type of data, states and weights.
    pub const fn scalar(&self) -> Scalar {
        self.data.scalar()
    }
}
