//! Long sums of few results, cut into parts for a GPU: its blocks of threads sum parts of the same result side by side,
//! into a workspace, and what they leave is added up in the order of the parts.

use super::{Accumulate, Contract, Role};
use crate::dtype::Scalar;

/// How a sum is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// How many parts there are, at least 2.
    pub count: i64,
    /// Terms of each but the last: a multiple of 256.
    pub terms: i64,
    /// Sums of each part, those beyond the edges of tiles included.
    sums: i64,
}

impl Parts {
    /// Rows, and columns, of the tiles of results that are cut.
    pub const SIDE: i64 = 64;
    /// Results of a block that has a thread for each.
    const THREADS: i64 = 256;
    /// Of what tiles compute, the part that has to be of use: a thread for a result takes that many times as long for one.
    const OF_USE: i64 = 8;
    /// Blocks that keep any GPU busy without cutting sums, and those to aim at by cutting.
    const ENOUGH: i64 = 128;
    const AIM: i64 = 256;
    /// Terms below which a part costs more than it saves.
    const LEAST: i64 = 512;

    /// The parts of every sum of a contraction, if that is worth it: the same whatever the device is.
    pub fn of(step: &Contract) -> Option<Parts> {
        let depth = step.extent(Role::K);
        let results = step.results();
        let (blocks, sums) = if step.wastes_tiles() {
            (results.saturating_add(Parts::THREADS - 1) / Parts::THREADS, results)
        } else {
            let tiles = step.tiles(Parts::SIDE);
            (tiles, tiles.saturating_mul(Parts::SIDE * Parts::SIDE))
        };
        if blocks == 0 || blocks >= Parts::ENOUGH || depth < 2 * Parts::LEAST {
            return None;
        }
        let most = (Parts::AIM + blocks - 1) / blocks;
        let terms =
            (depth / (depth / Parts::LEAST).min(most) + Parts::THREADS - 1) / Parts::THREADS * Parts::THREADS;
        let count = (depth + terms - 1) / terms;
        (count > 1).then_some(Parts { count, terms, sums })
    }

    /// Bytes of the sums of all parts; `None` beyond what memory holds.
    pub fn workspace(&self, accumulate: Accumulate) -> Option<usize> {
        let size = if accumulate == Accumulate::Double { 8 } else { 4 };
        self.sums.checked_mul(self.count)?.checked_mul(size).and_then(|bytes| usize::try_from(bytes).ok())
    }
}

impl Contract {
    /// The number of results.
    pub fn results(&self) -> i64 {
        let extents = [Role::Batch, Role::M, Role::N].map(|role| self.extent(role));
        extents.into_iter().fold(1, i64::saturating_mul)
    }

    /// How many square tiles of `side` rows hold all results.
    pub fn tiles(&self, side: i64) -> i64 {
        let tiles = |role: Role| self.extent(role).saturating_add(side - 1) / side;
        tiles(Role::M).saturating_mul(tiles(Role::N)).saturating_mul(self.extent(Role::Batch))
    }

    /// Whether tiles are mostly edges, so that a GPU takes a thread for a result. Their columns decide, for rows count the
    /// images of a batch, and Tensor Cores add in another order than one thread does: an image has the same bits in any
    /// batch.
    pub fn wastes_tiles(&self) -> bool {
        let columns = self.extent(Role::N);
        let computed = columns.saturating_add(Parts::SIDE - 1) / Parts::SIDE * Parts::SIDE;
        // What is staged for sums in binary32 has no more than 4 bytes.
        let held = |scalar: Scalar| scalar.size() <= 4 && scalar != Scalar::I32;
        let fits = self.accumulate != Accumulate::Single || held(self.a) && held(self.b);
        columns < computed / Parts::OF_USE || !fits
    }
}
