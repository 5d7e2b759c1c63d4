//! The descriptor of a recurrent network, and its clipping.

use super::choice::{MathType, choice};
use crate::dtype::DataType;
use crate::error::{Error, Result};

choice! {
    /// How a recurrent network is computed. No core of this library has a choice; the value is
    /// kept.
    RnnAlgo:
    /// One operation after the other.
    Standard,
    /// Weights stay on the chip, kernels built ahead.
    PersistStatic,
    /// Weights stay on the chip, kernels built at run time.
    PersistDynamic,
    /// Weights stay on the chip, for small hidden sizes.
    PersistStaticSmallHidden,
}

choice! {
    /// The cell of a recurrent network.
    RnnCell:
    /// One gate with `max(x, 0)`.
    Relu,
    /// One gate with `tanh(x)`.
    Tanh,
    /// Long short-term memory, four gates.
    Lstm,
    /// Gated recurrent unit, three gates.
    Gru,
}

choice! {
    /// How many bias vectors a cell has.
    RnnBias:
    /// None.
    None,
    /// One, with the input product.
    SingleInput,
    /// Two, one with each product.
    Double,
    /// One, with the recurrent product.
    SingleRecurrent,
}

choice! {
    /// In which directions a network reads its sequence.
    RnnDirection:
    /// From first to last.
    Unidirectional,
    /// Both ways, results side by side.
    Bidirectional,
}

choice! {
    /// What the first layer does with its input.
    RnnInput:
    /// Multiply it with a weight matrix.
    Linear,
    /// Use it as it is.
    Skip,
}

/// What a `cudnnRNNDescriptor_t` holds. One descriptor serves the calls of version 8 and those of
/// version 6, which tell neither the element type nor the size of the input: these come with the
/// data of each call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RnnDescriptor {
    /// How the network is computed.
    pub algo: RnnAlgo,
    /// The cell.
    pub cell: RnnCell,
    /// The biases of a cell.
    pub bias: RnnBias,
    /// Directions.
    pub direction: RnnDirection,
    /// What becomes of the input.
    pub input: RnnInput,
    /// Arithmetic units.
    pub math_type: MathType,
    /// Entries of the hidden state; 0 before the network is set.
    pub hidden: i32,
    /// Entries of the recurrent projection; as many as `hidden` if there is none.
    pub projected: i32,
    /// Layers; 0 before the network is set.
    pub layers: i32,
    /// The type of sums.
    pub compute: DataType,
    /// The handle of a dropout descriptor between layers, 0 for none.
    pub dropout: usize,
    /// Whether sequences come with padding (1) or without (0).
    pub flags: u32,
    /// Clipping of the LSTM cell state; can be set before the network, which resets it.
    pub clip: RnnClip,
    /// The element type and the entries of an input vector, which only version 8 fixes.
    pub data: Option<(DataType, i32)>,
}

/// No network: zeros, but for two biases (observed on 8.9.7).
impl Default for RnnDescriptor {
    fn default() -> Self {
        RnnDescriptor {
            algo: RnnAlgo::default(),
            cell: RnnCell::default(),
            bias: RnnBias::Double,
            direction: RnnDirection::default(),
            input: RnnInput::default(),
            math_type: MathType::default(),
            hidden: 0,
            projected: 0,
            layers: 0,
            compute: DataType::Float,
            dropout: 0,
            flags: 0,
            clip: RnnClip::default(),
            data: None,
        }
    }
}

/// The network as version 8 sets it, without clipping.
impl From<RnnNetwork> for RnnDescriptor {
    fn from(network: RnnNetwork) -> Self {
        let RnnNetwork { algo, cell, bias, direction, input, math_type, sizes, types, dropout, flags } =
            network;
        RnnDescriptor {
            algo,
            cell,
            bias,
            direction,
            input,
            math_type,
            hidden: sizes.hidden,
            projected: sizes.projected,
            layers: sizes.layers,
            compute: types.compute,
            dropout,
            flags,
            clip: RnnClip::default(),
            data: Some((types.data, sizes.input)),
        }
    }
}

impl RnnDescriptor {
    /// Whether a network was set, by whichever call.
    pub fn is_set(&self) -> bool {
        self.layers > 0
    }

    /// The network, if the descriptor alone describes it: `None` before it is set, and after
    /// version 6 has set it.
    pub fn network(&self) -> Option<RnnNetwork> {
        let (data, input) = self.data?;
        Some(self.network_with(TypePair { data, compute: self.compute }, input))
    }

    /// The network on vectors of `input` entries of type `data`, which may be one that it does not
    /// compute with.
    ///
    /// # Errors
    /// Bad parameter: no network is set, or version 8 has set one for other vectors.
    pub fn network_on(&self, data: DataType, input: i32) -> Result<RnnNetwork> {
        if !self.is_set() {
            return Err(Error::mismatch("rnnDesc was never set"));
        }
        if let Some((wanted, size)) = self.data
            && (wanted, size) != (data, input)
        {
            return Err(Error::mismatch(format!(
                "rnnDesc describes vectors of {size} x {wanted:?}, and the data has {input} x {data:?}"
            )));
        }
        Ok(self.network_with(TypePair { data, compute: self.compute }, input))
    }

    fn network_with(&self, types: TypePair, input: i32) -> RnnNetwork {
        RnnNetwork {
            algo: self.algo,
            cell: self.cell,
            bias: self.bias,
            direction: self.direction,
            input: self.input,
            math_type: self.math_type,
            sizes: RnnSizes { input, hidden: self.hidden, projected: self.projected, layers: self.layers },
            types,
            dropout: self.dropout,
            flags: self.flags,
        }
    }

    /// Sets how many bias vectors a cell has.
    ///
    /// # Errors
    /// Not supported: other than two, of a persistent algorithm (observed on 8.9.7).
    pub fn set_bias(&mut self, bias: RnnBias) -> Result<()> {
        if self.algo != RnnAlgo::Standard && bias != RnnBias::Double {
            return Err(Error::unsupported("persistent algorithms have two biases"));
        }
        self.bias = bias;
        Ok(())
    }

    /// Sets the projection size; a size equal to the hidden size means no projection.
    ///
    /// # Errors
    /// Bad parameter: fewer than 1. Not supported: more than the hidden state has, or fewer in
    /// anything but an LSTM with the standard algorithm (observed on 8.9.7).
    pub fn set_projection(&mut self, size: i32) -> Result<()> {
        if size < 1 {
            return Err(Error::argument("recProjSize", size.into(), "at least 1"));
        }
        if size > self.hidden {
            let text = format!("recProjSize = {size} is more than hiddenSize = {}", self.hidden);
            return Err(Error::unsupported(text));
        }
        if size != self.hidden && !(self.algo == RnnAlgo::Standard && self.cell == RnnCell::Lstm) {
            return Err(Error::unsupported(NO_PROJECTION));
        }
        self.projected = size;
        Ok(())
    }
}

/// Why a projection is refused.
const NO_PROJECTION: &str = "recurrent projections of anything but LSTMs with the standard algorithm";

/// A network with everything that its sizes and results depend on, but for clipping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RnnNetwork {
    /// How it is computed.
    pub algo: RnnAlgo,
    /// The cell.
    pub cell: RnnCell,
    /// The biases of a cell.
    pub bias: RnnBias,
    /// Directions.
    pub direction: RnnDirection,
    /// What becomes of the input.
    pub input: RnnInput,
    /// Arithmetic units.
    pub math_type: MathType,
    /// Vector sizes and layers.
    pub sizes: RnnSizes,
    /// Element types.
    pub types: TypePair,
    /// The handle of a dropout descriptor between layers, 0 for none.
    pub dropout: usize,
    /// Whether sequences come with padding (1) or without (0).
    pub flags: u32,
}

/// Vector sizes and layers of a recurrent network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RnnSizes {
    /// Entries of an input vector.
    pub input: i32,
    /// Entries of the hidden state.
    pub hidden: i32,
    /// Entries of the recurrent projection; as many as `hidden` if there is none.
    pub projected: i32,
    /// Layers.
    pub layers: i32,
}

impl RnnSizes {
    /// # Errors
    /// Bad parameter: one below 1 (observed on 9.27.0).
    pub fn checked(self) -> Result<Self> {
        for (argument, size) in [
            ("inputSize", self.input),
            ("hiddenSize", self.hidden),
            ("projSize", self.projected),
            ("numLayers", self.layers),
        ] {
            if size < 1 {
                return Err(Error::argument(argument, size.into(), "at least 1"));
            }
        }
        Ok(self)
    }
}

impl RnnNetwork {
    /// Refuses what the original does not do.
    ///
    /// # Errors
    /// Not supported: projections of anything but standard LSTMs or larger than the state;
    /// persistent algorithms without both biases, or on other types than FLOAT, HALF and BFLOAT16
    /// computed in FLOAT, to which the one built at run time adds DOUBLE in DOUBLE. Input mode,
    /// directions, sizes and math type do not matter (observed on 9.27.0).
    pub fn check_support(&self) -> Result<()> {
        let RnnSizes { hidden, projected, .. } = self.sizes;
        if projected > hidden {
            let text = format!("projSize = {projected} is more than hiddenSize = {hidden}");
            return Err(Error::unsupported(text));
        }
        let standard = self.algo == RnnAlgo::Standard;
        let dynamic = self.algo == RnnAlgo::PersistDynamic;
        if projected != hidden && !(standard && self.cell == RnnCell::Lstm) {
            return Err(Error::unsupported(NO_PROJECTION));
        }
        let compute = self.types.compute;
        let persists = compute == DataType::Float || dynamic && compute == DataType::Double;
        if !(standard || persists && self.bias == RnnBias::Double) {
            return Err(Error::unsupported(
                "persistent algorithms need two biases, and FLOAT, HALF or BFLOAT16 computed in FLOAT (the dynamic one \
                 takes DOUBLE as well)",
            ));
        }
        Ok(())
    }
}

/// The element type and the type to compute in of recurrent networks and attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypePair {
    /// The type of data and weights.
    pub data: DataType,
    /// The type of sums.
    pub compute: DataType,
}

impl TypePair {
    /// The pairs that the calls of version 6 take (observed on 8.9.7): all but BFLOAT16.
    ///
    /// # Errors
    /// Not supported for every other pair.
    pub fn version_6(data: DataType, compute: DataType) -> Result<Self> {
        if data == DataType::Bfloat16 {
            return Err(Error::unsupported("the calls of version 6 do not take BFLOAT16"));
        }
        TypePair::new(Some(data), Some(compute))
    }

    /// The pairs observed on 9.27.0; `None` stands for a number that is no type.
    ///
    /// # Errors
    /// Not supported for every other pair.
    pub fn new(data: Option<DataType>, compute: Option<DataType>) -> Result<Self> {
        use DataType::{Bfloat16, Double, Float, Half};
        match (data, compute) {
            (Some(data), Some(compute))
                if matches!(
                    (data, compute),
                    (Float | Half | Bfloat16, Float) | (Half, Half) | (Double, Double)
                ) =>
            {
                Ok(TypePair { data, compute })
            }
            _ => Err(Error::unsupported(
                "the types are FLOAT, HALF and BFLOAT16 computed in FLOAT, HALF in HALF and DOUBLE in DOUBLE",
            )),
        }
    }
}

/// Clipping of the LSTM cell state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RnnClip {
    /// 0: none; 1: into the bounds. Judged when used (observed on 9.27.0).
    pub mode: i32,
    /// What becomes of a NaN; judged when used.
    pub nan: i32,
    lower: f64,
    upper: f64,
}

impl RnnClip {
    /// Clipping between two bounds, which are checked and kept also if the mode is none.
    ///
    /// # Errors
    /// Bad parameter: a lower bound above the upper one, or NaN.
    pub fn new(mode: i32, nan: i32, lower: f64, upper: f64) -> Result<Self> {
        if lower > upper || lower.is_nan() || upper.is_nan() {
            return Err(Error::mismatch(format!("lclip = {lower}, rclip = {upper}: no interval")));
        }
        Ok(RnnClip { mode, nan, lower, upper })
    }

    /// The lower bound.
    pub fn lower(&self) -> f64 {
        self.lower
    }

    /// The upper bound.
    pub fn upper(&self) -> f64 {
        self.upper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn persistent_algorithms_depend_on_biases_and_types_only() {
        use DataType::{Bfloat16, Double, Float, Half};
        let algorithms = [RnnAlgo::PersistStatic, RnnAlgo::PersistDynamic, RnnAlgo::PersistStaticSmallHidden];
        let biases = [RnnBias::None, RnnBias::SingleInput, RnnBias::Double, RnnBias::SingleRecurrent];
        for (algo, bias) in algorithms.into_iter().flat_map(|algo| biases.map(|bias| (algo, bias))) {
            for (data, compute) in
                [(Float, Float), (Half, Float), (Bfloat16, Float), (Half, Half), (Double, Double)]
            {
                for input in [RnnInput::Linear, RnnInput::Skip] {
                    let network = RnnNetwork {
                        algo,
                        cell: RnnCell::Gru,
                        bias,
                        direction: RnnDirection::Unidirectional,
                        input,
                        math_type: MathType::TensorOp,
                        sizes: RnnSizes { input: 7, hidden: 5, projected: 5, layers: 3 },
                        types: TypePair { data, compute },
                        dropout: 0,
                        flags: 0,
                    };
                    let fits = compute == Float || algo == RnnAlgo::PersistDynamic && compute == Double;
                    let wanted = bias == RnnBias::Double && fits;
                    assert_eq!(network.check_support().is_ok(), wanted, "{network:?}");
                }
            }
        }
    }
}
