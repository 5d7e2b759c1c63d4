//! The obvious loops of aggregation: every target, every column, every edge.

use super::Kind;
use super::{load, store};
use crate::backend::Address;
use crate::backend::edges::Graph;
use crate::backend::function::Real;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::aggregate::{Aggregate, AggregateFunction, Join};

/// Whether a number is chosen instead of the one that was chosen before.
#[inline(always)]
fn is_better(join: Join, new: f32, old: f32) -> bool {
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
    // SAFETY: every operand has the elements that the step says; the graph is checked first.
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
    // SAFETY: the row and the column are ones of the operand.
    unsafe { load(step.scalar, at.pointer(), row * columns + column) }
}

/// # Safety
/// As for [`aggregate`]; the graph is in order.
unsafe fn put(step: &Aggregate, at: Address, row: i64, columns: i64, column: i64, number: f32) {
    // SAFETY: the row and the column are ones of the operand, which is a destination.
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
    step: &Aggregate, graph: &Graph<'_>, at: &[Address], [target, edge, column]: [i64; 3],
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

impl Kind for Aggregate {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { aggregate(self, at) }
    }
}
