//! The weight space: all matrices of all pseudo-layers, then all biases of all pseudo-layers,
//! without a gap.
//!
//! Of each pseudo-layer come the input matrices of all gates, the recurrent matrices of all gates,
//! then the matrix of the projection if there is one; its biases are those of the input side, then
//! those of the recurrent side. Matrices are row-major. This is the order of the original, to the
//! byte (observed on 9.27.0): programs compute it by themselves.

use super::Network;
use crate::desc::rnn::RnnBias;
use crate::error::{Error, Result};

/// Where one matrix lies in the weight space, in elements, and its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Elements in front of it.
    pub offset: i64,
    /// Its rows: entries of what it makes.
    pub rows: i64,
    /// Its columns: entries of what it is multiplied with.
    pub columns: i64,
}

/// The two sides of a cell that have weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What comes from the layer below.
    Input,
    /// What comes from the step before.
    Recurrent,
}

impl Network {
    /// Whether the cells have biases on this side.
    pub fn has_bias(&self, side: Side) -> bool {
        match self.bias {
            RnnBias::None => false,
            RnnBias::Double => true,
            RnnBias::SingleInput => side == Side::Input,
            RnnBias::SingleRecurrent => side == Side::Recurrent,
        }
    }

    /// Columns of the input matrices of a layer, 0 where it has none.
    fn input_columns(&self, layer: i64) -> i64 {
        if self.multiplies_input(layer) { self.input_of(layer) } else { 0 }
    }

    /// Elements of the matrices of one pseudo-layer of a layer.
    fn matrix_elements(&self, layer: i64) -> Option<i64> {
        let Network { hidden, projected, .. } = *self;
        let columns = self.input_columns(layer).checked_add(projected)?;
        let gates = self.gates().checked_mul(hidden)?.checked_mul(columns)?;
        gates.checked_add(if self.projects() { projected.checked_mul(hidden)? } else { 0 })
    }

    /// Elements of the biases of one pseudo-layer.
    fn bias_elements(&self) -> Option<i64> {
        let sides = [Side::Input, Side::Recurrent].iter().filter(|&&side| self.has_bias(side)).count() as i64;
        sides.checked_mul(self.gates())?.checked_mul(self.hidden)
    }

    /// Elements of all matrices in front of those of a pseudo-layer.
    fn matrices_before(&self, pseudo: i64) -> Option<i64> {
        let first = pseudo.min(self.directions);
        let later = (pseudo - first).checked_mul(self.matrix_elements(1)?)?;
        first.checked_mul(self.matrix_elements(0)?)?.checked_add(later)
    }

    /// Elements of the weight space, if 64 bits count them.
    pub fn weight_elements(&self) -> Option<i64> {
        let biases = self.pseudo_layers().checked_mul(self.bias_elements()?)?;
        self.matrices_before(self.pseudo_layers())?.checked_add(biases)
    }

    /// Bytes of the weight space.
    ///
    /// # Errors
    /// Not supported beyond 63 bits.
    pub fn weight_bytes(&self) -> Result<usize> {
        self.weight_elements()
            .and_then(|elements| elements.checked_mul(self.scalar().size() as i64))
            .map(|bytes| bytes as usize)
            .ok_or_else(|| {
                Error::unsupported("the weights of this network take more bytes than 63 bits count")
            })
    }

    /// The matrix `lin_layer` of a pseudo-layer: 0 to gates-1 input, gates to 2 gates-1 recurrent,
    /// 2 gates the projection; `None` for one that the network does not have. Pre: the weight space
    /// is not [too large](Network::weight_bytes).
    pub fn matrix(&self, pseudo: i64, lin_layer: i64) -> Option<Matrix> {
        let Network { hidden, projected, .. } = *self;
        let (gates, layer) = (self.gates(), pseudo / self.directions);
        let columns = self.input_columns(layer);
        let base = self.matrices_before(pseudo)?;
        let recurrent = base + gates * hidden * columns;
        match lin_layer {
            _ if lin_layer < gates => (columns > 0).then_some(Matrix {
                offset: base + lin_layer * hidden * columns,
                rows: hidden,
                columns,
            }),
            _ if lin_layer < 2 * gates => Some(Matrix {
                offset: recurrent + (lin_layer - gates) * hidden * projected,
                rows: hidden,
                columns: projected,
            }),
            _ => self.projects().then_some(Matrix {
                offset: recurrent + gates * hidden * projected,
                rows: projected,
                columns: hidden,
            }),
        }
    }

    /// Where the bias that belongs to matrix `lin_layer` of a pseudo-layer starts, in elements; it
    /// has `hidden` of them. `None` for one that the network does not have, as for that of a
    /// projection.
    pub fn bias_offset(&self, pseudo: i64, lin_layer: i64) -> Option<i64> {
        let gates = self.gates();
        let side = match lin_layer {
            _ if lin_layer < gates => Side::Input,
            _ if lin_layer < 2 * gates => Side::Recurrent,
            _ => return None,
        };
        if !self.has_bias(side) {
            return None;
        }
        let base = self.matrices_before(self.pseudo_layers())? + pseudo * self.bias_elements()?;
        let input = if side == Side::Recurrent && self.has_bias(Side::Input) { gates } else { 0 };
        Some(base + (input + lin_layer % gates) * self.hidden)
    }
}
