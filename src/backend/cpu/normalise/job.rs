//! What a direction of a normalisation computes, told to the engine, and the room that threads have
//! for it.

use super::walk::{Cells, Lines};
use crate::backend::function::Real;

/// Cells that are mapped at a time.
pub(super) const MAP_TILE: usize = 1024;

/// What the engine keeps for every group: one list each.
pub(super) const LISTS: usize = 6;

/// The numbers of the groups that some cells belong to, by list.
#[derive(Clone, Copy)]
pub(super) enum Known<'a, T> {
    /// All cells are of this group.
    One([T; LISTS]),
    /// Each cell has its own.
    Each(&'a [Vec<T>; LISTS]),
}

/// Neighbouring groups: the number of the first one, where its operands are (parameters last), and
/// how many there are.
#[derive(Clone, Copy)]
pub(super) struct GroupTile<const M: usize> {
    pub first: usize,
    pub offsets: [isize; M],
    pub steps: [isize; M],
    pub width: usize,
}

impl<const M: usize> GroupTile<M> {
    /// Where places so far from the start of each operand are for the first group.
    pub fn at<const N: usize>(&self, offsets: [isize; N]) -> [isize; N] {
        std::array::from_fn(|k| offsets[k] + self.offsets[k])
    }
}

/// Room of one thread.
pub(super) struct Scratch<T> {
    /// Numbers of a block of rows, twice; or of a run.
    pub g: Vec<T>,
    pub x: Vec<T>,
    /// Numbers on their way.
    pub stages: [Vec<T>; 4],
    /// Cells of any scalar.
    pub raw: Vec<u64>,
    pub sums: Vec<f64>,
    pub shifts: Vec<f64>,
    pub block: Vec<f64>,
    pub waiting: Vec<f64>,
    pub known: [Vec<T>; LISTS],
    /// Small groups, turned: both factors.
    pub transposed: [Vec<T>; 2],
    /// Lines that are read next.
    pub soon: Vec<*const u8>,
}

impl<T: Real> Scratch<T> {
    /// With room for `rows` numbers of rows beside those of a piece, and for `transposed` numbers
    /// of transposed groups.
    pub fn new(rows: usize, transposed: usize) -> Self {
        let numbers = |n: usize| vec![T::ZERO; n];
        Scratch {
            g: numbers(MAP_TILE + rows),
            x: numbers(MAP_TILE + rows),
            stages: std::array::from_fn(|_| numbers(MAP_TILE)),
            raw: vec![0; MAP_TILE],
            sums: Vec::new(),
            shifts: Vec::new(),
            block: Vec::new(),
            waiting: Vec::new(),
            known: [const { Vec::new() }; LISTS],
            transposed: std::array::from_fn(|_| numbers(transposed)),
            soon: Vec::new(),
        }
    }
}

/// What is computed; `N` operands, of which tiles know their parameters besides (`M = N + 1`).
pub(super) trait Job<T: Real, const N: usize, const M: usize>: Sync {
    /// How many of the lists the map uses: the first ones.
    const LISTS: usize;
    /// How many of them the factors of sums use.
    fn sum_lists(&self) -> usize;
    /// How many sums there are, one after the other.
    fn sums(&self) -> usize;
    /// What is known before any sum, for every group of a tile: number `k` of group `j` is
    /// `lists[k][j]`.
    ///
    /// # Safety
    /// The tile's parameters are readable.
    unsafe fn prepare(&self, tile: GroupTile<M>, lists: &mut [&mut [T]; LISTS]);
    /// What is taken from both factors of a sum: of the first factor, then of the second, for every
    /// group.
    ///
    /// # Safety
    /// The tile's operands are readable.
    unsafe fn shifts(&self, sum: usize, tile: GroupTile<M>, lists: &[&mut [T]; LISTS], shifts: &mut Vec<f64>);
    /// The lines that a sum reads.
    fn reads(&self, sum: usize, cells: &Cells<N>, each: &mut dyn FnMut(Lines));
    /// Both factors of a sum, side by side: where they are, or at the places given.
    ///
    /// # Safety
    /// The cells are readable, and the places have room for them.
    unsafe fn factors(
        &self, sum: usize, cells: Cells<N>, known: Known<'_, T>, to: [*mut T; 2], stages: &mut [Vec<T>; 4],
        raw: &mut [u64],
    ) -> [*const T; 2];
    /// Takes up a sum: that of the first factor, then that of the product, for every group. They
    /// may be overwritten.
    ///
    /// # Safety
    /// The tile's parameters and statistics are writable.
    unsafe fn take(
        &self, sum: usize, tile: GroupTile<M>, sums: &mut [f64], shifts: &[f64],
        lists: &mut [&mut [T]; LISTS],
    );
    /// Writes results. `next` are the cells of the call that follows.
    ///
    /// # Safety
    /// The operands have these cells, [`MAP_TILE`] at most, as the step reads or writes them.
    unsafe fn map(
        &self, cells: Cells<N>, next: Option<Cells<N>>, known: Known<'_, T>, room: &mut Stages<'_, T>,
    );
}

/// Room for one piece of a map.
pub(super) struct Stages<'a, T> {
    pub g: &'a mut [T],
    pub x: &'a mut [T],
    pub stages: &'a mut [Vec<T>; 4],
    pub raw: &'a mut [u64],
}
