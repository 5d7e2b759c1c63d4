//! Which elements a picture of a layout shows - planes of the logical tensor, runs of memory - and
//! the picture in the terminal.

use std::fmt::Write as _;

use cudnn::layout::{Layout, name};

/// One place of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// An element: its number in logical order, and its channel, which gives the colour.
    Element { value: i64, hue: i64 },
    /// Padding of a blocked layout.
    Padding,
    /// Places that are left out.
    More,
}

/// A slice of the logical tensor: its last two dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plane {
    /// Where in the other dimensions it lies, such as `n 0, c 3`; empty for an ellipsis.
    pub label: String,
    /// Its rows.
    pub rows: Vec<Vec<Cell>>,
}

/// A run of memory along the innermost axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Offset of its first place in elements; `None` for an ellipsis.
    pub offset: Option<i64>,
    /// What lies there.
    pub cells: Vec<Cell>,
}

/// What a picture shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Slices of the tensor.
    pub planes: Vec<Plane>,
    /// Runs of memory by rising offset.
    pub runs: Vec<Run>,
}

/// An axis of memory: a dimension, or the groups or the inside of a blocked one.
#[derive(Clone, Copy, Debug)]
struct Part {
    dim: usize,
    extent: i64,
    stride: i64,
    /// Coordinates per turn.
    step: i64,
}

/// The axes of memory that move, by falling stride.
fn parts(layout: &Layout) -> Vec<Part> {
    let mut parts = Vec::new();
    for dim in 0..layout.dims.rank() {
        let block = layout.block(dim);
        let extent = (layout.dims[dim] + block - 1) / block;
        parts.push(Part { dim, extent, stride: layout.strides[dim], step: block });
        if block > 1 {
            parts.push(Part { dim, extent: block, stride: 1, step: 1 });
        }
    }
    parts.retain(|part| part.extent > 1 && part.stride != 0);
    parts.sort_by_key(|part| std::cmp::Reverse(part.stride.unsigned_abs()));
    parts
}

/// Which of `count` things are shown: the first ones, those around every `border` that is given,
/// and the last; `None` stands for those left out in between.
fn shown(count: i64, first: i64, borders: &[i64], last: i64) -> Vec<Option<i64>> {
    let mut kept: Vec<i64> = (0..first).chain(count - last..count).collect();
    kept.extend(borders.iter().flat_map(|border| [border - 1, *border]));
    kept.retain(|at| (0..count).contains(at));
    kept.sort_unstable();
    kept.dedup();
    let mut shown = Vec::new();
    for (i, &at) in kept.iter().enumerate() {
        match i.checked_sub(1).map(|before| at - kept[before]) {
            Some(2) => shown.push(Some(at - 1)),
            Some(3..) => shown.push(None),
            _ => {}
        }
        shown.push(Some(at));
    }
    shown
}

/// The number of an element in logical order.
fn value(layout: &Layout, index: &[i64]) -> i64 {
    index
        .iter()
        .zip(layout.dims.iter())
        .fold(0_i64, |value, (i, dim)| value.saturating_mul(*dim).saturating_add(*i))
}

/// The dimension that gives an element its colour: the channels, or the rows of a matrix.
fn coloured(rank: usize) -> usize {
    usize::from(rank != 2)
}

fn element(layout: &Layout, index: &[i64]) -> Cell {
    if index.iter().zip(layout.dims.iter()).all(|(i, dim)| i < dim) {
        Cell::Element { value: value(layout, index), hue: index[coloured(index.len())] }
    } else {
        Cell::Padding
    }
}

impl Figure {
    /// What shows `layout` best.
    pub fn of(layout: &Layout) -> Figure {
        Figure { planes: planes(layout), runs: runs(layout) }
    }
}

fn planes(layout: &Layout) -> Vec<Plane> {
    let rank = layout.dims.rank();
    let (rows, columns) = (layout.dims[rank - 2], layout.dims[rank - 1]);
    let letters = name::letters(rank).map_or_else(|| "abcdefgh".to_owned(), str::to_lowercase);
    // Coordinates of the leading dimensions; `None` where some are left out.
    let mut leads: Vec<Option<Vec<i64>>> = vec![Some(Vec::new())];
    for dim in 0..rank - 2 {
        let block = layout.block(dim);
        let count = layout.dims[dim];
        let few = if dim == 1 { 3 } else { 1 };
        let border: &[i64] = if block > 1 { &[block] } else { &[] };
        let along = if count <= few + 2 { shown(count, count, &[], 0) } else { shown(count, few, border, 1) };
        leads = leads
            .into_iter()
            .flat_map(|lead| match lead {
                None => vec![None],
                Some(lead) => along.iter().map(|at| at.map(|at| [&lead[..], &[at]].concat())).collect(),
            })
            .collect();
    }
    let few = |count: i64| if count <= 8 { shown(count, count, &[], 0) } else { shown(count, 4, &[], 2) };
    let plane = |lead: Option<Vec<i64>>| {
        let Some(lead) = lead else { return Plane { label: String::new(), rows: Vec::new() } };
        let label = lead.iter().zip(letters.chars()).map(|(at, letter)| format!("{letter} {at}"));
        let row = |row: Option<i64>| -> Vec<Cell> {
            let cell = |column: Option<i64>| match (row, column) {
                (Some(row), Some(column)) => element(layout, &[&lead[..], &[row, column]].concat()),
                _ => Cell::More,
            };
            few(columns).into_iter().map(cell).collect()
        };
        Plane { label: label.collect::<Vec<_>>().join(", "), rows: few(rows).into_iter().map(row).collect() }
    };
    leads.into_iter().map(plane).collect()
}

fn runs(layout: &Layout) -> Vec<Run> {
    let parts = parts(layout);
    let rank = layout.dims.rank();
    let Some((inner, outer)) = parts.split_last() else {
        return vec![Run { offset: Some(0), cells: vec![element(layout, &vec![0; rank])] }];
    };
    let low: i64 = parts.iter().map(|part| ((part.extent - 1) * part.stride).min(0)).sum();
    let count = outer.iter().fold(1_i64, |count, part| count.saturating_mul(part.extent));
    let group = outer.first().map_or(1, |part| count / part.extent);
    let along = if count <= 6 { shown(count, count, &[], 0) } else { shown(count, 3, &[group], 1) };
    let few = if inner.extent <= 10 {
        shown(inner.extent, inner.extent, &[], 0)
    } else {
        shown(inner.extent, 4, &[], 2)
    };
    let run = |at: Option<i64>| {
        let Some(mut rest) = at else { return Run { offset: None, cells: vec![Cell::More] } };
        let (mut index, mut offset) = (vec![0; rank], low);
        let mut visit = |part: &Part, turn: i64| {
            // By rising offset, also where the dimension runs the other way.
            let place = if part.stride < 0 { part.extent - 1 - turn } else { turn };
            index[part.dim] += place * part.step;
            offset += turn * part.stride.abs();
        };
        for part in outer.iter().rev() {
            visit(part, rest % part.extent);
            rest /= part.extent;
        }
        let cell = |turn: Option<i64>| {
            let Some(turn) = turn else { return Cell::More };
            let mut index = index.clone();
            let place = if inner.stride < 0 { inner.extent - 1 - turn } else { turn };
            index[inner.dim] += place * inner.step;
            element(layout, &index)
        };
        Run { offset: Some(offset), cells: few.iter().map(|&turn| cell(turn)).collect() }
    };
    along.into_iter().map(run).collect()
}

/// Text colours that are told apart on light and dark ground (of 256).
const COLOURS: [u8; 8] = [33, 166, 35, 162, 136, 99, 37, 160];

fn text(cell: Cell, width: usize, coloured: bool) -> String {
    match cell {
        Cell::Element { value, hue } if coloured => {
            let colour = COLOURS[hue as usize % COLOURS.len()];
            format!("\x1b[38;5;{colour}m{value:>width$}\x1b[0m")
        }
        Cell::Element { value, .. } => format!("{value:>width$}"),
        Cell::Padding => format!("{:>width$}", "-"),
        Cell::More => format!("{:>width$}", if width > 2 { "..." } else { "." }),
    }
}

impl Figure {
    /// Digits of the largest number.
    pub fn digits(&self) -> usize {
        let planes = self.planes.iter().flat_map(|plane| plane.rows.iter().flatten());
        let cells = planes.chain(self.runs.iter().flat_map(|run| &run.cells));
        let digits = cells
            .map(|cell| if let Cell::Element { value, .. } = cell { value.to_string().len() } else { 1 });
        digits.max().unwrap_or(1)
    }

    /// The slices of the tensor, as many side by side as a line of 100 characters holds.
    pub fn print_planes(&self, coloured: bool) -> String {
        let digits = self.digits();
        let width = |plane: &Plane| {
            let cells = plane.rows.first().map_or(0, |row| row.len() * (digits + 1));
            if plane.label.is_empty() { 3 } else { cells.max(plane.label.len() + 1) }
        };
        let mut out = String::new();
        let mut rest = &self.planes[..];
        while !rest.is_empty() {
            let mut used = 0;
            let fit = rest.iter().take_while(|plane| {
                used += width(plane) + 2;
                used <= 100
            });
            let (line, after) = rest.split_at(fit.count().max(1));
            rest = after;
            let labels: String = line
                .iter()
                .map(|plane| {
                    format!(
                        "{:<w$}  ",
                        if plane.label.is_empty() { "..." } else { &plane.label },
                        w = width(plane)
                    )
                })
                .collect();
            let _ = writeln!(out, "  {}", labels.trim_end());
            let height = line.iter().map(|plane| plane.rows.len()).max().unwrap_or(0);
            for row in 0..height {
                let mut text_line = String::from("  ");
                for plane in line {
                    let cells: &[Cell] = plane.rows.get(row).map_or(&[], Vec::as_slice);
                    let shown: String =
                        cells.iter().map(|&cell| text(cell, digits, coloured) + " ").collect();
                    let _ = write!(
                        text_line,
                        "{shown}{:w$}  ",
                        "",
                        w = width(plane).saturating_sub(cells.len() * (digits + 1))
                    );
                }
                let _ = writeln!(out, "{}", text_line.trim_end());
            }
            out.push('\n');
        }
        out
    }

    /// The runs of memory, one a line, behind the offset of their first place.
    pub fn print_runs(&self, coloured: bool) -> String {
        let digits = self.digits();
        let offsets = self.runs.iter().filter_map(|run| run.offset.map(|offset| offset.to_string().len()));
        let width = offsets.max().unwrap_or(1);
        let mut out = String::new();
        for run in &self.runs {
            let Some(offset) = run.offset else {
                let _ = writeln!(out, "  {:>width$}", "...");
                continue;
            };
            let cells: Vec<String> = run.cells.iter().map(|&cell| text(cell, digits, coloured)).collect();
            let _ = writeln!(out, "  {offset:>width$}: {}", cells.join(" "));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_marked() {
        assert_eq!(shown(3, 3, &[], 0), [Some(0), Some(1), Some(2)]);
        assert_eq!(shown(9, 2, &[], 1), [Some(0), Some(1), None, Some(8)]);
        assert_eq!(shown(64, 1, &[32], 1), [Some(0), None, Some(31), Some(32), None, Some(63)]);
        // One left out takes no less room than its mark.
        assert_eq!(shown(4, 1, &[], 2), [Some(0), Some(1), Some(2), Some(3)]);
    }
}
