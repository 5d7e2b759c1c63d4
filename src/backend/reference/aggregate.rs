//! The obvious loops of aggregation: every target, every column, every edge. And what a graph has to be, which the CPU core asks
//! before it writes anything.

use super::{load, store};
use crate::backend::Address;
use crate::backend::function::Real;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::ops::Scaling;
use crate::ops::aggregate::{Aggregate, AggregateFunction, Join};

/// A graph in memory.
#[derive(Clone, Copy)]
pub(in crate::backend) struct Graph<'a> {
    step: &'a Aggregate,
    offsets: Address,
    indices: Address,
    map: Address,
}

impl<'a> Graph<'a> {
    /// That of a step's operands.
    pub fn of(step: &'a Aggregate, at: &[Address]) -> Self {
        Graph { step, offsets: at[5], indices: at[6], map: at[7] }
    }

    /// # Safety
    /// The index is readable.
    unsafe fn index(&self, base: Address, at: i64) -> i64 {
        // SAFETY: the caller's promise.
        unsafe {
            match self.step.index {
                Scalar::I32 => base.pointer().cast::<i32>().offset(at as isize).read().into(),
                _ => base.pointer().cast::<i64>().offset(at as isize).read(),
            }
        }
    }

    /// The edges of a target.
    ///
    /// # Safety
    /// The offsets are readable.
    pub unsafe fn edges(&self, target: i64) -> std::ops::Range<i64> {
        // SAFETY: the caller's promise.
        unsafe { self.index(self.offsets, target)..self.index(self.offsets, target + 1) }
    }

    /// Where an edge comes from.
    ///
    /// # Safety
    /// Its index is readable.
    pub unsafe fn source(&self, edge: i64) -> i64 {
        // SAFETY: the caller's promise.
        unsafe { self.index(self.indices, edge) }
    }

    /// The edge that was chosen for a column of a target, as `positions` say.
    ///
    /// # Safety
    /// The position is readable.
    pub unsafe fn chosen(&self, positions: Address, at: i64) -> i64 {
        // SAFETY: the caller's promise.
        unsafe { self.index(positions, at) }
    }

    /// The row of an edge's features.
    ///
    /// # Safety
    /// Its entry of the map is readable, if there is a map.
    pub unsafe fn row(&self, edge: i64) -> i64 {
        // SAFETY: the caller's promise.
        if self.step.mapped { unsafe { self.index(self.map, edge) } } else { edge }
    }

    /// Refuses a graph that leads out of its features.
    ///
    /// # Errors
    /// Bad parameter: offsets that decrease or exceed the number of edges; sources and rows that are not there; for gradients,
    /// a row of two edges.
    ///
    /// # Safety
    /// Offsets, indices and map are readable.
    pub unsafe fn check(&self) -> Result<()> {
        let Aggregate { sources, targets, edges, mapped, .. } = *self.step;
        let mut last = 0;
        for target in 0..=targets {
            // SAFETY: the caller's promise, here and below.
            let offset = unsafe { self.index(self.offsets, target) };
            if offset < last || offset > edges {
                let rule =
                    format!("offsets do not decrease, from 0 to nIndices = {edges}; the last was {last}");
                return Err(Error::element("cscOffsets", target as usize, offset, rule));
            }
            last = offset;
        }
        for edge in 0..edges {
            // SAFETY: as above.
            let source = unsafe { self.source(edge) };
            if !(0..sources).contains(&source) {
                let rule = format!("a source is 0 or more and less than nSrcNodes = {sources}");
                return Err(Error::element("cscIndices", edge as usize, source, rule));
            }
        }
        if !mapped {
            return Ok(());
        }
        let is_written = self.step.function == AggregateFunction::Backward && self.step.columns[1] > 0;
        let mut taken = Vec::new();
        if is_written {
            let bytes = (edges as usize).div_ceil(8);
            taken.try_reserve_exact(bytes).map_err(|_| Error::HostAllocation { bytes })?;
            taken.resize(bytes, 0_u8);
        }
        for edge in 0..edges {
            // SAFETY: as above.
            let row = unsafe { self.row(edge) };
            if !(0..edges).contains(&row) {
                let rule = format!("a row is 0 or more and less than nIndices = {edges}");
                return Err(Error::element("mapCscToCoo", edge as usize, row, rule));
            }
            if let Some(byte) = taken.get_mut(row as usize / 8) {
                if *byte >> (row % 8) & 1 == 1 {
                    let rule = "two edges have this row, whose gradient belongs to one";
                    return Err(Error::element("mapCscToCoo", edge as usize, row, rule));
                }
                *byte |= 1 << (row % 8);
            }
        }
        Ok(())
    }
}

/// Whether a number is chosen instead of the one that was chosen before.
#[inline(always)]
pub(in crate::backend) fn is_better(join: Join, new: f32, old: f32) -> bool {
    let better = if join == Join::Max { new > old } else { new < old };
    better || (new.is_nan() && !old.is_nan())
}

/// Runs `step`; `at` are its operands as [`AggregateFunction`] lists them.
///
/// # Errors
/// Bad parameter for offsets and indices that lead out of the features; nothing is written then.
///
/// # Safety
/// Every operand has the elements that the step says, aligned.
pub unsafe fn aggregate(step: &Aggregate, at: &[Address]) -> Result<()> {
    let graph = Graph::of(step, at);
    // SAFETY: handed on, here and below.
    unsafe {
        graph.check()?;
        match step.function {
            AggregateFunction::Forward => forward(step, &graph, at),
            AggregateFunction::Backward => backward(step, &graph, at),
        }
    }
    Ok(())
}

/// # Safety
/// As for [`aggregate`]; the graph is in order.
unsafe fn number(step: &Aggregate, at: Address, row: i64, columns: i64, column: i64) -> f32 {
    // SAFETY: the caller's promise.
    unsafe { load(step.scalar, at.pointer(), row * columns + column) }
}

/// # Safety
/// As for [`aggregate`]; the graph is in order.
unsafe fn put(step: &Aggregate, at: Address, row: i64, columns: i64, column: i64, number: f32) {
    // SAFETY: the caller's promise.
    unsafe { store(step.scalar, at.pointer(), row * columns + column, number.canonical(), Scaling::MOVE) }
}

/// # Safety
/// As for [`aggregate`]; the graph is in order.
unsafe fn forward(step: &Aggregate, graph: &Graph<'_>, at: &[Address]) {
    let [node, edge, concat] = step.columns;
    for target in 0..step.targets {
        // SAFETY: targets, sources and rows that are there.
        unsafe {
            let edges = graph.edges(target);
            for column in 0..step.joined() {
                let numbers = edges.clone().map(|i| {
                    let number = match column < node {
                        true => number(step, at[2], graph.source(i), node, column),
                        false => number(step, at[3], graph.row(i), edge, column - node),
                    };
                    (i, number)
                });
                let (place, joined) = match step.join {
                    Join::Sum | Join::Mean => (-1, numbers.fold(0.0, |sum, (_, number)| sum + number)),
                    join => numbers
                        .reduce(|old, new| if is_better(join, new.1, old.1) { new } else { old })
                        .unwrap_or((-1, 0.0)),
                };
                let count = (edges.end - edges.start) as f32;
                let mean = step.join == Join::Mean && count > 0.0;
                put(step, at[0], target, step.width(), column, if mean { joined / count } else { joined });
                if step.join.is_choice() {
                    let to = at[1].pointer();
                    let offset = (target * step.joined() + column) as isize;
                    match step.index {
                        Scalar::I32 => to.cast::<i32>().offset(offset).write(place as i32),
                        _ => to.cast::<i64>().offset(offset).write(place),
                    }
                }
            }
            for column in 0..concat {
                let number = number(step, at[4], target, concat, column);
                put(step, at[0], target, step.width(), step.joined() + column, number);
            }
        }
    }
}

/// What an edge's feature gets of the gradient of its target's column, if anything.
///
/// # Safety
/// As for [`aggregate`]; the graph is in order.
unsafe fn share(
    step: &Aggregate,
    graph: &Graph<'_>,
    at: &[Address],
    [target, edge, column]: [i64; 3],
) -> Option<f32> {
    // SAFETY: a column of a target.
    unsafe {
        let given = number(step, at[3], target, step.width(), column);
        match step.join {
            Join::Sum => Some(given),
            Join::Mean => {
                let edges = graph.edges(target);
                Some(given / (edges.end - edges.start) as f32)
            }
            _ => (graph.chosen(at[4], target * step.joined() + column) == edge).then_some(given),
        }
    }
}

/// # Safety
/// As for [`aggregate`]; the graph is in order.
unsafe fn backward(step: &Aggregate, graph: &Graph<'_>, at: &[Address]) {
    let [node, edge, concat] = step.columns;
    let mut sums: Vec<Option<f32>> = vec![None; (step.sources * node) as usize];
    for target in 0..step.targets {
        // SAFETY: targets, sources and rows that are there.
        unsafe {
            for i in graph.edges(target) {
                for column in 0..node {
                    let sum = &mut sums[(graph.source(i) * node + column) as usize];
                    // A source with an edge is written, whether or not it was chosen.
                    let old = sum.unwrap_or(0.0);
                    *sum = Some(share(step, graph, at, [target, i, column]).map_or(old, |given| old + given));
                }
                for column in 0..edge {
                    let Some(given) = share(step, graph, at, [target, i, node + column]) else { continue };
                    let old = number(step, at[1], graph.row(i), edge, column);
                    put(step, at[1], graph.row(i), edge, column, old + given);
                }
            }
            for column in 0..concat {
                let given = number(step, at[3], target, step.width(), step.joined() + column);
                put(step, at[2], target, concat, column, given);
            }
        }
    }
    for (place, sum) in (0..).zip(sums) {
        if let Some(sum) = sum {
            // SAFETY: an element of the gradient.
            unsafe { put(step, at[0], 0, 0, place, number(step, at[0], 0, 0, place) + sum) };
        }
    }
}
