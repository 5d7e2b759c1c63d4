//! Indices of the maxima of windows: which cell of its window each largest element is, the last
//! dimension fastest.

use super::super::Resample;
use super::super::steps::Builder;
use super::super::view::View;
use super::windows::windows;
use crate::desc::NanPropagation;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::ops::function::Function;

/// More cells than an index in INT8 counts.
const MOST_CELLS: i64 = 1024;

/// A cell of the windows: the windows in which it lies inside of the data, and what it is there.
struct Cell {
    index: i64,
    /// First window, and their number, in each spatial dimension.
    windows: Vec<(i64, i64)>,
    /// First element, and elements from one to the next.
    elements: Vec<(i64, i64)>,
}

impl Cell {
    /// The cell in a tensor of one element for each window.
    fn of_windows(&self, view: &View) -> Result<View> {
        let mut each = self.windows.iter().enumerate();
        each.try_fold(*view, |part, (k, &(first, count))| part.part(k + 2, first, count, 1))
    }

    /// The cell in the data.
    fn of_data(&self, view: &View) -> Result<View> {
        let mut each = self.elements.iter().zip(&self.windows).enumerate();
        each.try_fold(*view, |part, (k, (&(first, step), &(_, count)))| part.part(k + 2, first, count, step))
    }
}

/// The cells of windows that lie inside of the data, the first one first.
fn cells(of: &Resample, data: &Dims, result: &Dims) -> Result<Vec<Cell>> {
    let [window, strides, before, _] = windows(of)?;
    let rank = window.rank();
    let count = window.product().filter(|&count| (1..=MOST_CELLS).contains(&count));
    let fits = data.rank() == rank + 2 && result.rank() == rank + 2 && strides.iter().all(|&step| step > 0);
    let count = count.filter(|_| fits).ok_or_else(|| {
        Error::unsupported(format!("indices of maxima in windows of {window} from {data} to {result}"))
    })?;
    let mut cells = Vec::new();
    for index in 0..count {
        let mut rest = index;
        let mut at = vec![0; rank];
        for k in (0..rank).rev() {
            (at[k], rest) = (rest % window[k], rest / window[k]);
        }
        let mut cell = Cell { index, windows: Vec::new(), elements: Vec::new() };
        for k in 0..rank {
            let shift = at[k] - before[k];
            // The first and the last window whose element is inside.
            let first = (-shift).max(0).div_euclid(strides[k]) + i64::from((-shift).max(0) % strides[k] != 0);
            let last = (data[k + 2] - 1 - shift).div_euclid(strides[k]).min(result[k + 2] - 1);
            cell.windows.push((first, (last - first + 1).max(0)));
            cell.elements.push((first * strides[k] + shift, strides[k]));
        }
        if cell.windows.iter().all(|&(_, count)| count > 0) {
            cells.push(cell);
        }
    }
    Ok(cells)
}

/// `index = the first of the largest cells of each window`. A NaN is the largest of all if it is to
/// be propagated, else it is not looked at.
///
/// # Errors
/// Not supported: vectors, windows of too many cells.
pub(super) fn find(of: &Resample, x: &View, index: &View, steps: &mut Builder<'_>) -> Result<()> {
    if index.is_empty() {
        return Ok(());
    }
    let x = steps.flat(x)?;
    let [best, place] = [steps.wide(index.dims())?, steps.wide(index.dims())?];
    steps.fill(&best, f64::NEG_INFINITY);
    steps.fill(&place, 0.0);
    let one = Dims::filled(index.dims().rank(), 1);
    // From the last one on, so that of equal ones the first one stays.
    for cell in cells(of, x.dims(), index.dims())?.iter().rev() {
        let (from, best, place) = (cell.of_data(&x)?, cell.of_windows(&best)?, cell.of_windows(&place)?);
        let mut is_best = steps.joined(Function::LessOrEqual, &best, &from)?;
        if of.nan == NanPropagation::Keep {
            let is_nan = steps.joined(Function::NotEqual, &from, &from)?;
            is_best = steps.joined(Function::Or, &is_best, &is_nan)?;
        }
        let own = steps.constant(cell.index as f64, &one)?;
        steps.map(&best, Function::Select, &[from, best, is_best])?;
        steps.map(&place, Function::Select, &[own, place, is_best])?;
    }
    steps.transform(index, &place)
}

/// `dx = alpha * (each dy at its window's cell) + beta * dx`; an index that names no cell inside of
/// the data has no place.
///
/// # Errors
/// As for [`find`].
pub(super) fn spread(
    of: &Resample, dx: &View, dy: &View, index: &View, steps: &mut Builder<'_>,
) -> Result<()> {
    if dx.is_empty() {
        return Ok(());
    }
    if dy.dims() != index.dims() {
        return Err(Error::unsupported(format!("indices {} of {}", index.dims(), dy.dims())));
    }
    let (dy, index) = (steps.flat(dy)?, steps.flat(index)?);
    let sums = steps.wide(dx.dims())?;
    steps.fill(&sums, 0.0);
    let one = Dims::filled(dx.dims().rank(), 1);
    let zero = steps.constant(0.0, &one)?;
    for cell in cells(of, dx.dims(), dy.dims())? {
        let (from, places, to) = (cell.of_windows(&dy)?, cell.of_windows(&index)?, cell.of_data(&sums)?);
        let own = steps.constant(cell.index as f64, &one)?;
        let is_own = steps.joined(Function::Equal, &places, &own)?;
        let part = steps.wide(from.dims())?;
        steps.map(&part, Function::Select, &[from, zero, is_own])?;
        steps.map(&to, Function::Add, &[to, part])?;
    }
    if of.beta == 0.0 {
        return steps.map_with(dx, Function::First, &[sums], 0.0, [of.alpha, 1.0]);
    }
    steps.map_with(dx, Function::Add, &[sums, *dx], 0.0, [of.alpha, of.beta])
}
