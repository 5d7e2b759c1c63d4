//! What lies in the workspace and in the reserve space: regions one behind the other, each on a
//! multiple of [`ALIGNMENT`].
//!
//! Each region grows with every extent, with the batch and with every length, and none depends on
//! anything else of a batch but its layout: programs ask for their longest sequences, and run
//! shorter ones in the same memory.
//!
//! Gates, cell states and gradients have the computation type, all that callers see has the type of
//! the data. S counts the rows of all sequences, B the sequences of the batch, GH the entries of
//! all gates of a cell, as [`Regions::gate_row`] does.

use super::{Network, Problem, Sequences};
use crate::desc::rnn::RnnCell;
use crate::error::{Error, Result};
use crate::ops::Memory;

/// What the address of a workspace, and of a reserve space, is rounded up to; the sizes have room
/// for it.
pub const ALIGNMENT: usize = 64;

/// Where the regions of one call start, in bytes; those that it does not need are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Regions {
    /// Entries of one row of gates: a GRU has the two parts of its third gate apart.
    pub gate_row: i64,
    /// Gates of one pseudo-layer, `[S, gate_row]`; in training one behind the other in the reserve.
    pub gates: i64,
    /// Cell states, `[S, hidden]`, likewise.
    pub cells: i64,
    /// Outputs of a layer, `[S, output]`; in training of all layers in the reserve, else of two
    /// that take turns.
    pub outputs: i64,
    /// Bits of the masks between the layers, in 32-bit words; in the reserve.
    pub masks: i64,
    /// What says which call has filled the reserve, [`stamp`](super::stamp); in the reserve, behind
    /// the masks.
    pub stamp: i64,
    /// A zero, then the bounds of a clipped cell state, in the computation type.
    pub constants: i64,
    /// Random states where the descriptor of the dropout has none.
    pub states: i64,
    /// The input in our order, `[S, input]`.
    pub x: i64,
    /// An output under its mask, `[S, output]`.
    pub masked: i64,
    /// First hidden states in our order, `[pseudo-layers, B, projected]`.
    pub hx: i64,
    /// First cell states in our order, `[pseudo-layers, B, hidden]`.
    pub cx: i64,
    /// States before their projection, of a step, `[B, hidden]`; in training of all pseudo-layers,
    /// `[S, hidden]`, in the reserve.
    pub unprojected: i64,
    /// The gradient of such a state, `[B, hidden]`.
    pub dunprojected: i64,
    /// Gradients of projected outputs of all pseudo-layers, `[S, projected]`, which the gradient of
    /// a projection needs; in the reserve.
    pub dprojected: i64,
    /// Gradients of the outputs of a layer, `[S, output]`, of two that take turns.
    pub gradients: [i64; 2],
    /// The gradient of the input in our order, `[S, input]`.
    pub dx: i64,
    /// Gradients of first states, `[B, projected]`.
    pub dhx: i64,
    /// Gradients of cell states on their way back, `[B, hidden]`.
    pub dcx: i64,
    /// Gradients of the cell states of one step, `[B, hidden]`.
    pub dc: i64,
    /// Gradients of gates on their way to their place, `[B, 2 * hidden]`.
    pub scratch: i64,
    /// Hidden states before every row, `[S, projected]`.
    pub before: i64,
    /// Bytes of the workspace.
    pub workspace: i64,
    /// Bytes of the reserve space.
    pub reserve: i64,
}

/// A call that has regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Inference,
    Training,
    Data,
    Weights,
}

/// Regions one behind the other.
struct Arena(Option<i64>);

impl Arena {
    /// Where a region of the product of these extents, in bytes, starts.
    fn take(&mut self, extents: &[i64]) -> i64 {
        let start = self.0.unwrap_or(0);
        let bytes = extents.iter().try_fold(1_i64, |product, &extent| product.checked_mul(extent));
        let end = bytes.and_then(|bytes| self.0?.checked_add(bytes)?.checked_add(ALIGNMENT as i64 - 1));
        self.0 = end.map(|end| end & -(ALIGNMENT as i64));
        start
    }

    fn bytes(&self) -> Result<i64> {
        self.0.filter(|bytes| bytes.checked_add(2 * ALIGNMENT as i64).is_some()).ok_or_else(|| {
            Error::unsupported("the temporary results of this network take more bytes than 63 bits count")
        })
    }
}

impl Regions {
    /// The regions of a pass.
    ///
    /// # Errors
    /// Not supported for more bytes than 63 bits count.
    pub(super) fn of(network: &Network, sequences: &Sequences, pass: Pass) -> Result<Regions> {
        let (rows, batch) = (sequences.rows(), sequences.batch());
        let &Network { hidden, projected, layers, input, .. } = network;
        let (data, compute) = (network.scalar().size() as i64, network.compute.scalar().size() as i64);
        let (pseudo, output) = (network.pseudo_layers(), network.output());
        let gates = if network.cell == RnnCell::Gru { 4 } else { network.gates() };
        let gate_row =
            gates.checked_mul(hidden).ok_or_else(|| Error::unsupported("hiddenSize is too large"))?;
        let mut at = Regions { gate_row, ..Regions::default() };
        let when = |wanted: bool, count: i64| if wanted { count } else { 0 };
        let projects = i64::from(network.projects());
        let lstm = i64::from(network.has_cell_state());

        let mut reserve = Arena(Some(0));
        if pass != Pass::Inference {
            at.gates = reserve.take(&[pseudo, rows, gate_row, compute]);
            at.cells = reserve.take(&[lstm, pseudo, rows, hidden, compute]);
            at.outputs = reserve.take(&[layers, rows, output, data]);
            at.unprojected = reserve.take(&[projects, pseudo, rows, hidden, compute]);
            at.dprojected = reserve.take(&[projects, pseudo, rows, projected, compute]);
            let masked =
                when(network.drops(), layers - 1).checked_mul(rows).and_then(|n| n.checked_mul(output));
            at.masks =
                reserve.take(&[masked.map_or(i64::MAX, |bits| bits / 32 + i64::from(bits % 32 > 0)), 4]);
            at.stamp = reserve.take(&[8]);
        }
        at.reserve = reserve.bytes()?;

        let mut workspace = Arena(Some(0));
        at.constants = workspace.take(&[3, compute]);
        let moves = sequences.may_need_moves();
        at.hx = workspace.take(&[when(moves, pseudo), batch, projected, data]);
        at.cx = workspace.take(&[when(moves, lstm), pseudo, batch, hidden, data]);
        if pass != Pass::Data {
            at.x = workspace.take(&[when(moves, rows), input, data]);
            at.masked =
                workspace.take(&[when(network.drops() && pass != Pass::Inference, rows), output, data]);
        }
        match pass {
            Pass::Inference => {
                at.gates = workspace.take(&[rows, gate_row, compute]);
                at.cells = workspace.take(&[lstm, rows, hidden, compute]);
                at.outputs = workspace.take(&[layers.min(2), rows, output, data]);
                at.unprojected = workspace.take(&[projects, batch, hidden, compute]);
            }
            Pass::Training => {
                at.states = workspace.take(&[when(network.drops(), 16)]);
            }
            Pass::Data => {
                at.gradients =
                    [1, i64::from(layers > 1)].map(|count| workspace.take(&[count, rows, output, compute]));
                let direct = !moves && network.scalar() == network.compute.scalar();
                at.dx = workspace.take(&[when(!direct, rows), input, compute]);
                at.dunprojected = workspace.take(&[projects, batch, hidden, compute]);
                at.dhx = workspace.take(&[batch, projected, compute]);
                at.dcx = workspace.take(&[lstm, batch, hidden, compute]);
                at.dc = workspace.take(&[lstm, batch, hidden, compute]);
                at.scratch = workspace.take(&[batch, 2, hidden, compute]);
            }
            Pass::Weights => {
                at.before = workspace.take(&[rows, projected, data]);
            }
        }
        at.workspace = workspace.bytes()?;
        Ok(at)
    }
}

/// Bytes of workspace that the calls on this batch need: RNNForward alone, or in training the
/// backward calls, too. Never 0.
///
/// # Errors
/// Not supported for more bytes than 63 bits count.
pub fn workspace_size(network: &Network, sequences: &Sequences, training: bool) -> Result<usize> {
    let passes: &[Pass] =
        if training { &[Pass::Training, Pass::Data, Pass::Weights] } else { &[Pass::Inference] };
    let mut most = 0;
    for &pass in passes {
        most = most.max(Regions::of(network, sequences, pass)?.workspace);
    }
    Ok(most as usize + ALIGNMENT)
}

/// Bytes of reserve space that training takes from forward to backward. Never 0.
///
/// # Errors
/// Not supported for more bytes than 63 bits count.
pub fn reserve_size(network: &Network, sequences: &Sequences) -> Result<usize> {
    Ok(Regions::of(network, sequences, Pass::Training)?.reserve as usize + ALIGNMENT)
}

impl Problem {
    /// Bytes of workspace, see [`workspace_size`].
    ///
    /// # Errors
    /// As that.
    pub fn workspace_size(&self, training: bool) -> Result<usize> {
        workspace_size(&self.network, &self.sequences, training)
    }

    /// Bytes of reserve space, see [`reserve_size`].
    ///
    /// # Errors
    /// As that.
    pub fn reserve_size(&self) -> Result<usize> {
        reserve_size(&self.network, &self.sequences)
    }

    /// Refuses a workspace that is not there or too small; `size` is the name of its size. Returns
    /// the bytes that the call takes.
    ///
    /// # Errors
    /// Bad parameter; as [`workspace_size`].
    pub fn check_workspace(&self, given: Memory, training: bool, size: &'static str) -> Result<usize> {
        let needed = self.workspace_size(training)?;
        given.check(needed, ["workSpace", size], "this batch")?;
        Ok(needed)
    }

    /// Refuses a reserve space that is not there or too small; a backward call says what should
    /// have filled it.
    ///
    /// # Errors
    /// Bad parameter; as [`reserve_size`].
    pub fn check_reserve(&self, given: Memory, backward: bool, size: &'static str) -> Result<()> {
        let rule = if backward {
            "a forward call in training (fwdMode = 1) on this batch, which must come before and fill the reserve space,"
        } else {
            "training on this batch"
        };
        let needed = self.reserve_size()?;
        if backward && given.is_none() {
            return Err(Error::mismatch(format!("reserveSpace is NULL: {rule} takes {needed} bytes")));
        }
        given.check(needed, ["reserveSpace", size], rule)
    }

    /// Refuses a weight space that is not there or too small.
    ///
    /// # Errors
    /// Bad parameter; not supported for more bytes than 63 bits count.
    pub fn check_weights(&self, given: Memory, name: &'static str) -> Result<()> {
        given.check(self.network.weight_bytes()?, [name, "weightSpaceSize"], "the network")
    }
}
