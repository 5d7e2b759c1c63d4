//! Long sums of few results, cut into parts for a GPU: its blocks of threads sum parts of the same
//! result side by side, into a workspace, and the sums of the parts are added up in the order of
//! the parts.

use super::{Accumulate, Contract, Role};
use crate::dtype::Scalar;

/// How a sum is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// How many parts there are, at least 2.
    pub count: i64,
    /// Terms of each but the last: a multiple of 128.
    pub terms: i64,
    /// Sums of each part, those beyond the edges of tiles included.
    sums: i64,
}

impl Parts {
    /// Rows, and columns, of the tiles of results that are cut.
    pub const SIDE: i64 = 64;
    /// Results of a block that has a thread for each.
    const THREADS: i64 = 256;
    /// Of what tiles compute, the part that has to be of use: a thread for a result takes that many
    /// times as long for one.
    const OF_USE: i64 = 8;
    /// Blocks that keep any GPU busy without cutting sums, and those to aim at by cutting.
    const ENOUGH: i64 = 128;
    const AIM: i64 = 256;
    /// Terms below which a part costs more than it saves.
    const LEAST: i64 = 512;
    /// Of 16-bit types and TF32: the most parts, for what joins them reads them one after the
    /// other; and what terms of a part are a multiple of.
    const MOST: i64 = 64;
    const MULTIPLE: i64 = 128;
    /// Tiles of these types, and how many of each are computed at once: on a device of 132
    /// multiprocessors one large tile on each, or as many results in smaller ones.
    const TILES: [([i64; 2], i64); 3] = [([128, 128], 132), ([128, 64], 264), ([64, 64], 528)];
    /// Tiles larger than others from which on they keep a device busy.
    const BUSY: i64 = 80;

    /// The parts of every sum of a contraction, if that is worth it: the same whatever the device
    /// is.
    pub fn of(step: &Contract) -> Option<Parts> {
        let depth = step.extent(Role::K);
        let results = step.results();
        if step.wastes_tiles() {
            let blocks = results.saturating_add(Parts::THREADS - 1) / Parts::THREADS;
            return Parts::aiming(blocks, depth, results);
        }
        let tiles = step.tiles([Parts::SIDE; 2]);
        let sums = tiles.saturating_mul(Parts::SIDE * Parts::SIDE);
        let is_narrow = step.a.size() == 2 && step.b.size() == 2;
        let is_converted = step.allow_conversion && (step.a, step.b) == (Scalar::F32, Scalar::F32);
        if step.accumulate == Accumulate::Single && (is_narrow || is_converted) {
            return Parts::at_once(step, depth, sums);
        }
        Parts::aiming(tiles, depth, sums)
    }

    fn aiming(blocks: i64, depth: i64, sums: i64) -> Option<Parts> {
        if blocks == 0 || blocks >= Parts::ENOUGH || depth < 2 * Parts::LEAST {
            return None;
        }
        let most = (Parts::AIM + blocks - 1) / blocks;
        Parts::cut(depth, (depth / Parts::LEAST).min(most), Parts::THREADS, sums)
    }

    /// As many parts as are computed at once, in the largest tiles that leave nothing idle.
    fn at_once(step: &Contract, depth: i64, sums: i64) -> Option<Parts> {
        let count = Parts::TILES.iter().find_map(|&(sides, at_once)| {
            let tiles = step.tiles(sides);
            let count = (at_once / tiles.max(1)).min(depth / Parts::LEAST).clamp(1, Parts::MOST);
            (sides == [Parts::SIDE; 2] || step.fills_tiles(sides, count)).then_some(count)
        })?;
        Parts::cut(depth, count, Parts::MULTIPLE, sums)
    }

    /// At most `count` parts, whose terms are a multiple of `multiple`; `None` if that is one part.
    fn cut(depth: i64, count: i64, multiple: i64, sums: i64) -> Option<Parts> {
        if sums == 0 || depth == 0 {
            return None;
        }
        let terms = (depth / count + multiple - 1) / multiple * multiple;
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

    /// Tiles that the rows, and that the columns, of results are in; `sides` are the rows and the
    /// columns of a tile.
    pub fn tiles_along(&self, sides: [i64; 2]) -> [i64; 2] {
        let tiles = |role: Role, side: i64| self.extent(role).saturating_add(side - 1) / side;
        [tiles(Role::M, sides[0]), tiles(Role::N, sides[1])]
    }

    /// Tiles that all results are in; `sides` are the rows and the columns of one.
    pub fn tiles(&self, sides: [i64; 2]) -> i64 {
        let [rows, columns] = self.tiles_along(sides);
        rows.saturating_mul(columns).saturating_mul(self.extent(Role::Batch))
    }

    /// Whether large tiles have no idle half, and keep a device busy where sums are cut into
    /// `parts`.
    pub fn fills_tiles(&self, sides: [i64; 2], parts: i64) -> bool {
        let is_filled = |role: Role, side: i64| side == Parts::SIDE || self.extent(role) > Parts::SIDE;
        is_filled(Role::M, sides[0])
            && is_filled(Role::N, sides[1])
            && self.tiles(sides).saturating_mul(parts) >= Parts::BUSY
    }

    /// Whether tiles are mostly edges, so that a GPU takes a thread for a result. Their columns
    /// decide, for rows count the images of a batch, and Tensor Cores add in another order than one
    /// thread does: an image has the same bits in any batch.
    pub fn wastes_tiles(&self) -> bool {
        let columns = self.extent(Role::N);
        let computed = columns.saturating_add(Parts::SIDE - 1) / Parts::SIDE * Parts::SIDE;
        // What is staged for sums in binary32 has no more than 4 bytes.
        let held = |scalar: Scalar| scalar.size() <= 4 && scalar != Scalar::I32;
        let fits = self.accumulate != Accumulate::Single || held(self.a) && held(self.b);
        columns < computed / Parts::OF_USE || !fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Axis;
    use crate::ops::contract::Epilogue;

    /// A product with these extents of batch, rows, columns and sums.
    fn product(extents: [i64; 4]) -> Contract {
        let mut step = Contract::new([Scalar::F32; 3], Accumulate::Single, Epilogue::PLAIN);
        for (role, extent) in [Role::Batch, Role::M, Role::N, Role::K].into_iter().zip(extents) {
            step.push(role, Axis { extent, strides: [1; 5] });
        }
        step
    }

    #[test]
    fn tiles_hold_all_results() {
        let step = product([3, 65, 128, 1]);
        assert_eq!(
            (step.results(), step.tiles([64; 2]), step.tiles([65; 2])),
            (3 * 65 * 128, 3 * 2 * 2, 3 * 2)
        );
        let wide = product([1, i64::MAX, 1, 1]);
        assert_eq!(wide.tiles([2; 2]), i64::MAX / 2);
    }

    #[test]
    fn few_columns_are_computed_one_by_one() {
        let wastes = |columns| product([1, 64, columns, 1]).wastes_tiles();
        assert_eq!([1, 7, 8, 64, 65, 128].map(wastes), [true, true, false, false, false, false]);
        // So are products of what is not staged for such sums.
        let of = |scalar| Contract { a: scalar, ..product([1, 64, 64, 1]) }.wastes_tiles();
        assert_eq!([Scalar::F16, Scalar::F32, Scalar::F64, Scalar::I32].map(of), [false, false, true, true]);
    }

    #[test]
    fn sums_of_halves_are_cut_to_what_is_computed_at_once() {
        let parts = |extents| {
            let step = Contract { a: Scalar::F16, b: Scalar::Bf16, ..product(extents) };
            Parts::of(&step).map(|parts| (parts.count, parts.terms))
        };
        // 18 x 2 large tiles: three parts of each are 108 blocks on 132 multiprocessors.
        assert_eq!(parts([1, 2304, 256, 3136]), Some((3, 1152)));
        // 5 tall tiles, 52 times in 264; 4 small ones, of which there are no more than 64 parts.
        assert_eq!(parts([1, 576, 64, 50_176]), Some((49, 1024)));
        assert_eq!(parts([1, 64, 256, 50_176]), Some((56, 896)));
        // 4 large tiles would be too few parts for 132; small ones do not fill a device either.
        assert_eq!(parts([1, 256, 256, 1024]), Some((2, 512)));
        // Binary32 has as many where it may be converted.
        let mut step = product([1, 2304, 256, 3136]);
        assert_eq!(Parts::of(&step), None);
        step.allow_conversion = true;
        assert_eq!(Parts::of(&step).map(|parts| (parts.count, parts.terms)), Some((3, 1152)));
        // More tiles than are computed at once, short sums, and nothing at all.
        assert_eq!(parts([1, 4608, 512, 784]), None);
        assert_eq!(parts([1, 64, 64, 1023]), None);
        assert_eq!(parts([0, 64, 64, 100_000]), None);
    }

    #[test]
    fn long_sums_of_few_results_are_cut() {
        // A tile, of which 256 parts would be aimed at: but none has less than 512 terms.
        let parts = Parts::of(&product([1, 64, 64, 100_000])).expect("a long sum");
        assert_eq!((parts.count, parts.terms), (196, 512));
        assert_eq!(parts.workspace(Accumulate::Single), Some(196 * 64 * 64 * 4));
        assert_eq!(parts.workspace(Accumulate::Double), Some(196 * 64 * 64 * 8));
        // 100 tiles: 3 parts, with terms rounded up to 256. Of 7 columns a block computes 256
        // results.
        let parts = Parts::of(&product([1, 640, 640, 3000])).expect("a long sum");
        assert_eq!((parts.count, parts.terms), (3, 1024));
        let parts = Parts::of(&product([1, 64, 7, 2000])).expect("a long sum");
        assert_eq!((parts.count, parts.terms, parts.sums), (3, 768, 64 * 7));
        // Enough blocks, short sums, and nothing at all.
        assert_eq!(Parts::of(&product([2, 512, 512, 100_000])), None);
        assert_eq!(Parts::of(&product([1, 64, 64, 1023])), None);
        assert!(Parts::of(&product([1, 64, 64, 1024])).is_some());
        assert_eq!(Parts::of(&product([0, 64, 64, 100_000])), None);
    }
}
