//! How a device divides a reduction: by outputs, and long sequences into chunks that are whole
//! subtrees of the tree.

use super::Reduce;

/// Which elements a device's neighbouring threads read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// The elements of one output.
    Blocks,
    /// Elements of neighbouring outputs.
    Outputs,
}

/// Chunks of equal size, a power of two of blocks of the tree each; the last one may end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// log2 of the blocks of a chunk.
    pub level: u32,
    /// Chunks of each output, at most [`Partition::MAX_CHUNKS`].
    pub chunks: u64,
}

impl Partition {
    /// The chunks of an output at most.
    pub const MAX_CHUNKS: u64 = 1024;

    /// Units of work that keep a large device busy.
    const UNITS: u64 = 2048;
}

/// Outputs that are one unit of work by rows.
const ROW_OUTPUTS: u64 = 64;

/// Blocks of an output that [`Schedule::Blocks`] divides among the warps of one unit, as a
/// logarithm.
const SHARED_LEVEL: u32 = 3;

/// Elements of an output that one thread reduces at most, by rows: the tree above its blocks has to
/// fit its room.
const ROW_LENGTH: u64 = 1 << 24;

/// Elements of an output too few to share among 256 threads.
const SHORT: u64 = 128;

impl Reduce {
    /// How a device should read this problem.
    pub fn schedule(&self) -> Schedule {
        let length = self.sequence.len() as u64;
        // How far neighbours are apart: within an output, and from output to output. 0 repeats, and
        // costs nothing.
        let nearest = |strides: &mut dyn Iterator<Item = i64>| {
            strides.map(i64::unsigned_abs).filter(|&stride| stride != 0).min().unwrap_or(u64::MAX)
        };
        let inside =
            nearest(&mut self.sequence.pieces().iter().flat_map(|p| p.axes()).map(|axis| axis.strides[0]));
        let between = nearest(&mut self.outputs.axes().iter().map(|axis| axis.strides[1]));
        if length < ROW_LENGTH && (length < SHORT || between < inside) {
            Schedule::Outputs
        } else {
            Schedule::Blocks
        }
    }

    /// One chunk for each output.
    pub fn whole(&self, schedule: Schedule) -> Partition {
        Partition { level: self.root_level(schedule), chunks: 1 }
    }

    /// As many chunks as keep a large device busy, and no more.
    pub fn partition(&self, schedule: Schedule) -> Partition {
        let outputs = self.outputs.len() as u64;
        let units = match schedule {
            Schedule::Blocks => outputs,
            Schedule::Outputs => outputs.div_ceil(ROW_OUTPUTS),
        };
        let wanted = (Partition::UNITS / units.max(1)).clamp(1, Partition::MAX_CHUNKS);
        let chunks = |level: u32| self.blocks().div_ceil(1 << level);
        let root = self.root_level(schedule);
        let lowest = match schedule {
            Schedule::Blocks => SHARED_LEVEL,
            Schedule::Outputs => 0,
        };
        let level = (lowest..root).find(|&level| chunks(level) <= wanted).unwrap_or(root);
        Partition { level, chunks: chunks(level) }
    }

    /// Bytes of workspace for a partition, from an address of any alignment.
    pub fn workspace_bytes(&self, partition: Partition) -> usize {
        // A number, and a 64-bit index where indices are wanted.
        let slot = if self.indices.is_some() { 16 } else { 8 };
        let slots = if partition.chunks > 1 { self.outputs.len() as u64 * partition.chunks } else { 0 };
        16 + slots as usize * slot
    }

    fn blocks(&self) -> u64 {
        (self.sequence.len() as u64).div_ceil(Reduce::BLOCK as u64)
    }

    fn root_level(&self, schedule: Schedule) -> u32 {
        let level = self.blocks().next_power_of_two().trailing_zeros();
        if schedule == Schedule::Blocks { level.max(SHARED_LEVEL) } else { level }
    }
}
