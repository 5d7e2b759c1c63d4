//! What the threads of a pooling share, and the memory of each of them.

use crate::backend::Address;
use crate::backend::cpu::Machine;
use crate::backend::cpu::held::Held;
use crate::backend::cpu::scratch::bytes_of;
use crate::backend::cpu::window::fold::{EndedRows, FEWEST_ENDED, Fold, Folds};
use crate::backend::cpu::window::plane::Gather;
use crate::backend::cpu::window::pool::end::End;
use crate::backend::cpu::window::shape::Shape;
use crate::backend::cpu::window::sink::Way;
use crate::backend::cpu::window::tables::{Ask, Tables};
use crate::dtype::convert::Element;

/// What threads share.
pub struct Job<'a, F: Fold, E> {
    pub shape: &'a Shape<'a>,
    pub source: *const u8,
    /// What the source holds, of which cells are read where they lie.
    pub held: Held,
    pub dst: *mut u8,
    pub end: &'a E,
    pub folds: Folds<F>,
    /// Where results leave from registers, in place of lanes that are kept.
    pub ended: Option<EndedRows<F>>,
    /// How cells are brought together; `None` where they can be used where they lie.
    pub gather: Option<Gather>,
    pub way: Way,
    /// Where outputs share the columns of their windows.
    pub shared: Option<Shared>,
    /// Rows of the plane that are kept.
    pub ring: i64,
    /// Pointers to the taps of a pixel at most, and to the rows that windows reach.
    pub taps: usize,
    pub rows: usize,
    /// Outputs along a row that are made at a time, where a pixel has lanes.
    pub strip: usize,
    /// Results of a run at most.
    pub longest: usize,
    /// Lanes of the columns of a row.
    pub columns: usize,
    /// Cells of a row of the plane.
    pub row_cells: usize,
}

// SAFETY: addresses without meaning of their own; what is written through them is apart for every
// item.
unsafe impl<F: Fold, E: Sync> Sync for Job<'_, F, E> {}

/// Whether cells are brought together and converted, or read where they lie.
pub fn is_gathered<F: Fold>(shape: &Shape<'_>) -> bool
where
    F::Cell: Element,
{
    let cell = <F::Cell as Element>::SCALAR;
    let is_run = shape.lanes > 1 || shape.last_step(1) == Some(cell.size() as isize);
    !is_run || shape.window.scalars[1] != cell
}

/// How results are written.
pub fn way<F: Fold>(shape: &Shape<'_>, at: &[Address], machine: Machine) -> Way
where
    F::Result: Element,
{
    let window = shape.window;
    let bytes = window.len() as usize * window.scalars[0].size();
    let way = Way::new(<F::Result as Element>::SCALAR, window.scalars[0], window.scaling, bytes, machine);
    way.within(shape.held(at[0], 0, true))
}

/// Whether results may leave from registers: those of whole pixels that are read and written where
/// they lie.
pub fn is_ended<F: Fold>(shape: &Shape<'_>, way: &Way) -> bool
where
    F::Cell: Element,
{
    let is_even = [0, 1].iter().all(|&layout| shape.last_step(layout).is_some());
    shape.lanes >= FEWEST_ENDED && is_even && !is_gathered::<F>(shape) && way.is_plain()
}

/// Cells of a row that the outputs made at a time go through: as many are asked for meanwhile.
const STRIP_CELLS: usize = 512;

/// Outputs along a row that are made at a time, where a pixel has lanes: more than one if pixels
/// follow one another in the destination, and evenly in the source.
pub fn strip(shape: &Shape<'_>, is_gathered: bool) -> usize {
    let (last, lanes) = (shape.last(), shape.lanes);
    let is_packed = shape.last_step(0) == Some((shape.size(0) * lanes) as isize);
    if !is_packed || !is_gathered && shape.last_step(1).is_none() {
        return 1;
    }
    (STRIP_CELLS / lanes.saturating_mul(last.stride as usize)).clamp(1, last.outputs.max(1) as usize)
}

/// Lanes of outputs that are made at a time: with their columns they stay in the first-level cache.
const STRIP_LANES: usize = 2048;

/// How outputs share columns.
#[derive(Clone, Copy)]
pub struct Shared {
    /// Columns of a row, those around its cells included.
    pub columns: usize,
    /// Outputs of a row that are made at a time, and rows.
    pub strip: usize,
    pub rows: usize,
}

impl Shared {
    /// `None` where they do not, or where cells or results do not lie side by side.
    pub fn new(shape: &Shape<'_>, is_gathered: bool) -> Option<Self> {
        let (axis, lanes) = (shape.last(), shape.lanes);
        let is_run = |layout: usize| shape.last_step(layout) == Some((shape.size(layout) * lanes) as isize);
        if axis.stride != 1 || axis.outputs < 2 || axis.pad < 0 || !is_run(0) || !is_gathered && !is_run(1) {
            return None;
        }
        let of_windows = axis.outputs.checked_add(axis.window)? - 1;
        let columns = of_windows.max(axis.pad.checked_add(axis.inputs)?);
        // Else most windows lie outside.
        let is_small = columns <= 4 * axis.inputs + 64;
        let columns = columns as usize;
        is_small.then_some(Shared {
            columns,
            strip: (STRIP_LANES / lanes).clamp(1, axis.outputs as usize),
            rows: (STRIP_LANES / columns.saturating_mul(lanes)).max(1),
        })
    }

    /// Bytes of what a thread knows of outputs and of rows.
    pub fn bytes(&self, shape: &Shape<'_>) -> usize {
        bytes_of::<usize>(shape.last().outputs as usize) + bytes_of::<Waiting>(self.rows)
    }

    /// Columns of all rows.
    pub fn all_columns(&self) -> usize {
        self.rows * self.columns
    }

    /// Outputs that are folded as one, and columns between their rows.
    pub fn folded(&self) -> usize {
        (self.rows - 1) * self.columns + self.strip
    }
}

/// A row whose columns are folded: where its results go, and the factor of its other axes in their
/// divisors.
#[derive(Clone, Copy)]
pub struct Waiting {
    pub to: *mut u8,
    pub count: i64,
}

/// The memory of a thread.
pub struct Block<'a, F: Fold> {
    pub ring: *mut F::Cell,
    pub gather: *mut u8,
    pub taps: *mut *const F::Cell,
    pub rows: *mut *const F::Cell,
    pub columns: *mut F::Lane,
    pub out: *mut F::Lane,
    pub tables: Tables,
    pub along: &'a [i64],
    /// Where columns are shared: where the outputs that are divided as this one end, and the rows
    /// that wait.
    pub alike: &'a [usize],
    pub waiting: *mut Waiting,
    pub waits: usize,
    pub interior: (i64, i64),
    /// The rows that the ring holds, and of which place of the loops around.
    pub held: (usize, i64, i64),
}

impl<F: Fold, E: End<F>> Job<'_, F, E>
where
    F::Cell: Element,
    F::Result: Element,
{
    /// Lanes of outputs that are folded at a time.
    pub fn out_lanes(&self) -> usize {
        self.shared.map_or(self.longest, |shared| shared.folded() * self.shape.lanes)
    }

    pub fn scratch_bytes(&self) -> usize {
        let gathered = self.gather.map_or(0, |gather| {
            bytes_of::<F::Cell>(self.ring as usize * self.row_cells)
                + bytes_of::<u8>(gather.bytes(self.shape))
        });
        gathered
            + bytes_of::<*const F::Cell>(self.taps)
            + bytes_of::<*const F::Cell>(self.rows)
            + bytes_of::<F::Lane>(self.columns)
            + bytes_of::<F::Lane>(self.out_lanes())
            + self.shared.map_or(0, |shared| shared.bytes(self.shape))
            + Tables::bytes(self.shape, Ask::Cells)
            + self.way.bytes(self.longest)
            + 64
    }
}
