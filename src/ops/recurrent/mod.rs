//! Recurrent networks: layers of cells that walk along the sequences of a batch.
//!
//! ```text
//!  network.rs     what a network is       weights.rs   where its matrices and biases lie
//!  sequences.rs   a batch of sequences, and the order in which all steps of all sequences are computed
//!  space.rs       what lies in the workspace and in the reserve space
//!  stamp.rs       the number that tells which call has filled a reserve space
//!  rows.rs        rows of vectors in an operand, and the steps that compute with them
//!  frame.rs       where all plans find their rows, and the way between the caller's order and ours
//!  dropout.rs     the masks between layers
//!  forward.rs     data.rs     weight_gradient.rs           the three plans
//! ```
//!
//! # Order
//! Inside, sequences are sorted by falling length (of equal ones the earlier first), and the
//! vectors of all of them lie time step by time step without padding: the packed layout of
//! `cudnnSetRNNDataDescriptor`. So the rows that are active at a step are contiguous, and a batch
//! of any layout becomes the same problem with the same bits. Vectors that lie in this order in the
//! caller's memory are read and written there; others are moved first and last, by a few loops for
//! each run of steps that have equally many active sequences.
//!
//! # Who calls
//! Every call on recurrent networks, of version 6 and of version 8, fills a [`Problem`] and makes
//! one of the three plans of it.
//! - The calls of version 8 and the Ex forms of version 6 have descriptors of sequences:
//!   [`Sequences::of`] takes them.
//! - The calls of version 6 have an array of tensor descriptors, one per time step; the first
//!   dimension of each is the batch of that step, and never increases: [`Sequences::from_batches`]
//!   takes those batches. Vectors are in the packed layout.
//! - [`Network::new`] takes the descriptor of either generation; where the descriptor has no input
//!   size, as after `cudnnSetRNNDescriptor_v6`, the size of `xDesc` is put into its
//!   [`RnnSizes`](crate::desc::rnn::RnnSizes) before.
//!
//! States (hx, cx, hy, cy and their gradients) have the order of the caller's sequences, which in
//! version 6 is the packed one. Sizes are [`Network::weight_bytes`], [`workspace_size`] and
//! [`reserve_size`]; the reserve space has the same content in both generations, and nothing
//! survives in the workspace.
//!
//! At the boundary `capi/functions/recurrent.rs` has one function for each pass - `forward`,
//! `data`, `weights` - that takes a problem and the data pointers, any of which but the weights may
//! be NULL; the calls of both generations end there, once they have made their checks.

pub mod data;
mod dropout;
pub mod forward;
mod frame;
pub mod network;
mod rows;
pub mod sequences;
mod space;
pub mod stamp;
pub mod weight_gradient;
pub mod weights;

pub use data::DataPlan;
pub use forward::ForwardPlan;
pub use frame::Given;
pub use network::{Clip, Network};
pub use sequences::Sequences;
pub use space::{ALIGNMENT, reserve_size, workspace_size};
pub use weight_gradient::WeightPlan;
pub use weights::Matrix;

/// One batch for one network.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The network.
    pub network: Network,
    /// The batch.
    pub sequences: Sequences,
    /// What fills y behind the end of a sequence; `None` leaves it alone.
    pub fill: Option<u64>,
}

impl Problem {
    /// Extents that no product of the three plans exceeds: vectors of all time steps, gates, and
    /// entries of a vector.
    fn most_extents(&self) -> [i64; 3] {
        let network = &self.network;
        let vector = network.input.max(network.output()).max(network.hidden);
        [self.sequences.rows(), GATES * network.hidden, vector]
    }
}

/// Gates of the cell that has the most.
const GATES: i64 = 4;
