//! Aggregation on the CPU: a row at a time. Gradients of sources are summed source by source, for
//! which the edges are sorted by source first.

use super::kind::{Call, Kind};
use super::row::{self, Row};
use super::scratch::{Parts, bytes_of};
use super::{Machine, threads};
use crate::backend::Address;
use crate::backend::edges::Graph;
use crate::backend::function::Real;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::ops::Scaling;
use crate::ops::aggregate::{Aggregate, AggregateFunction, Join};

impl Kind for Aggregate {
    fn is_modest(&self, _machine: Machine) -> bool {
        true
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let graph = Graph::of(self, call.at);
        // SAFETY: offsets and numbers of the graph are readable, as its operands are.
        unsafe { graph.check()? };
        let (isa, scalar) = (call.machine.isa, self.scalar);
        let job = Job {
            step: self,
            at: call.at,
            graph,
            widen: row::between(scalar, Scalar::F32, Scaling::MOVE, isa),
            narrow: row::between(Scalar::F32, scalar, Scaling::MOVE, isa),
            machine: call.machine,
        };
        // SAFETY: the graph, which was checked, leads to elements of the operands only.
        unsafe {
            match self.function {
                AggregateFunction::Forward => job.forward(),
                AggregateFunction::Backward => job.backward(),
            }
        }
    }
}

struct Job<'a> {
    step: &'a Aggregate,
    at: &'a [Address],
    graph: Graph<'a>,
    /// From elements to numbers, and back.
    widen: Row,
    narrow: Row,
    machine: Machine,
}

/// Where each source's edges are in the list of edges by source, and each edge with its target.
struct BySource {
    starts: Vec<usize>,
    edges: Vec<(i64, i64)>,
}

fn reserved<T: Clone>(len: usize, value: T) -> Result<Vec<T>> {
    let bytes = len.saturating_mul(size_of::<T>());
    let mut list = Vec::new();
    list.try_reserve_exact(len).map_err(|_| Error::HostAllocation { bytes })?;
    list.resize(len, value);
    Ok(list)
}

impl Job<'_> {
    fn threads(&self, rows: i64, columns: i64) -> usize {
        let elements = (rows as usize).saturating_mul(columns as usize);
        self.machine.threads_for(elements.saturating_mul(size_of::<f32>()))
    }

    /// Reads columns of a row that has `width`, from column `first` on.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn read(&self, operand: usize, row: i64, width: i64, first: i64, to: &mut [f32]) {
        let from = (row * width + first) as isize * self.step.scalar.size() as isize;
        let from = self.at[operand].pointer().wrapping_offset(from);
        // SAFETY: `from` has as many elements as `to`.
        unsafe { (self.widen)(to.as_mut_ptr().cast(), from, to.len(), Scaling::MOVE) };
    }

    /// Writes columns of a row.
    ///
    /// # Safety
    /// They are writable.
    unsafe fn write(&self, operand: usize, row: i64, width: i64, first: i64, numbers: &mut [f32]) {
        numbers.iter_mut().for_each(|number| *number = number.canonical());
        let to = (row * width + first) as isize * self.step.scalar.size() as isize;
        let to = self.at[operand].pointer().wrapping_offset(to);
        // SAFETY: the destination has room for as many elements as there are numbers.
        unsafe { (self.narrow)(to, numbers.as_ptr().cast(), numbers.len(), Scaling::MOVE) };
    }

    /// # Safety
    /// As for [`Kind::run`]; the graph is in order.
    unsafe fn forward(&self) -> Result<()> {
        let step = self.step;
        let widest = step.columns.into_iter().max().unwrap_or(0) as usize;
        let bytes = 2 * bytes_of::<f32>(widest) + bytes_of::<i64>(widest);
        let threads = self.threads(step.targets + step.edges, step.width());
        threads::in_ranges(threads, step.targets as usize, bytes, &|scratch, range| {
            // SAFETY: scratch of two rows of numbers and one of places, which nobody else uses.
            let (row, joined, places) = unsafe {
                let mut parts = Parts::new(scratch);
                (parts.filled(widest, 0.0), parts.filled(widest, 0.0), parts.filled(widest, 0))
            };
            for target in range {
                let target = target as i64;
                let [node, edge, concat] = step.columns;
                for (operand, first, columns) in [(2, 0, node), (3, node, edge)] {
                    let n = columns as usize;
                    let (row, joined, places) = (&mut row[..n], &mut joined[..n], &mut places[..n]);
                    // SAFETY: targets, sources and rows that are there.
                    unsafe {
                        self.join(target, (operand, columns), row, joined, places);
                        self.write(0, target, step.width(), first, joined);
                        if step.join.is_choice() {
                            self.remember(target * step.joined() + first, places);
                        }
                    }
                }
                let row = &mut row[..concat as usize];
                // SAFETY: a target that is there.
                unsafe {
                    self.read(4, target, concat, 0, row);
                    self.write(0, target, step.width(), step.joined(), row);
                }
            }
        })
    }

    /// Joins the rows of a target's edges, of sources if `operand` is 2, else of edges.
    ///
    /// # Safety
    /// As for [`Kind::run`]; the graph is in order.
    unsafe fn join(
        &self, target: i64, (operand, columns): (usize, i64), row: &mut [f32], joined: &mut [f32],
        places: &mut [i64],
    ) {
        let join = self.step.join;
        joined.fill(0.0);
        places.fill(-1);
        if columns == 0 {
            return;
        }
        // SAFETY: a target, its edges and their rows.
        unsafe {
            let edges = self.graph.edges(target);
            for i in edges.clone() {
                let from = if operand == 2 { self.graph.source(i) } else { self.graph.row(i) };
                self.read(operand, from, columns, 0, row);
                if !join.is_choice() {
                    joined.iter_mut().zip(&*row).for_each(|(sum, &number)| *sum += number);
                    continue;
                }
                for ((best, place), &number) in joined.iter_mut().zip(&mut *places).zip(&*row) {
                    // The first of equals stays, and so does the first NaN.
                    let beats = if join == Join::Max { number > *best } else { number < *best };
                    if i == edges.start || beats || (number.is_nan() && !best.is_nan()) {
                        (*best, *place) = (number, i);
                    }
                }
            }
            let count = (edges.end - edges.start) as f32;
            if join == Join::Mean && count > 0.0 {
                joined.iter_mut().for_each(|sum| *sum /= count);
            }
        }
    }

    /// Writes the places of chosen edges.
    ///
    /// # Safety
    /// They have room there.
    unsafe fn remember(&self, first: i64, places: &[i64]) {
        let to = self.at[1].pointer();
        for (k, &place) in places.iter().enumerate() {
            let offset = first as isize + k as isize;
            // SAFETY: the index has a place for every element of the row.
            unsafe {
                match self.step.index {
                    Scalar::I32 => to.cast::<i32>().offset(offset).write(place as i32),
                    _ => to.cast::<i64>().offset(offset).write(place),
                }
            }
        }
    }

    /// The edges in the order of their sources, those of one source in their own.
    ///
    /// # Errors
    /// Host allocation.
    ///
    /// # Safety
    /// As for [`Kind::run`]; the graph is in order.
    unsafe fn by_source(&self) -> Result<BySource> {
        let step = self.step;
        let mut starts = reserved(step.sources as usize + 1, 0)?;
        let mut edges = reserved(step.edges as usize, (0, 0))?;
        let all = || {
            (0..step.targets).flat_map(|target| {
                // SAFETY: a target.
                let edges = unsafe { self.graph.edges(target) };
                edges.map(move |edge| (edge, target))
            })
        };
        for (edge, _) in all() {
            // SAFETY: an edge.
            starts[unsafe { self.graph.source(edge) } as usize + 1] += 1;
        }
        (0..step.sources as usize).for_each(|source| starts[source + 1] += starts[source]);
        let mut next = reserved(step.sources as usize, 0)?;
        next.copy_from_slice(&starts[..step.sources as usize]);
        for (edge, target) in all() {
            // SAFETY: an edge.
            let place = &mut next[unsafe { self.graph.source(edge) } as usize];
            edges[*place] = (edge, target);
            *place += 1;
        }
        Ok(BySource { starts, edges })
    }

    /// Adds what an edge gets of the gradient of its target's columns from `first` on.
    ///
    /// # Safety
    /// As for [`Kind::run`]; the graph is in order.
    unsafe fn add(&self, (edge, target): (i64, i64), first: i64, row: &mut [f32], sums: &mut [f32]) {
        let step = self.step;
        // SAFETY: columns of a target.
        unsafe {
            self.read(3, target, step.width(), first, row);
            match step.join {
                Join::Sum => sums.iter_mut().zip(&*row).for_each(|(sum, &given)| *sum += given),
                Join::Mean => {
                    let edges = self.graph.edges(target);
                    let count = (edges.end - edges.start) as f32;
                    sums.iter_mut().zip(&*row).for_each(|(sum, &given)| *sum += given / count);
                }
                Join::Max | Join::Min => {
                    for (k, (sum, &given)) in (0..).zip(sums.iter_mut().zip(&*row)) {
                        if self.graph.chosen(self.at[4], target * step.joined() + first + k) == edge {
                            *sum += given;
                        }
                    }
                }
            }
        }
    }

    /// Adds what an edge gets where it was chosen to its row, and leaves the other columns as they
    /// are, whatever bits a NaN there has. `given` and `sum` have room for a number.
    ///
    /// # Safety
    /// As for [`Kind::run`]; the graph is in order.
    unsafe fn add_chosen(&self, (edge, target): (i64, i64), row: i64, given: &mut [f32], sum: &mut [f32]) {
        let (step, [node, width, _]) = (self.step, self.step.columns);
        for column in 0..width {
            // SAFETY: a column of a target, and one of a row of edges.
            unsafe {
                if self.graph.chosen(self.at[4], target * step.joined() + node + column) == edge {
                    self.read(3, target, step.width(), node + column, given);
                    self.read(1, row, width, column, sum);
                    sum[0] += given[0];
                    self.write(1, row, width, column, sum);
                }
            }
        }
    }

    /// # Safety
    /// As for [`Kind::run`]; the graph is in order.
    unsafe fn backward(&self) -> Result<()> {
        let step = self.step;
        let [node, edge, concat] = step.columns;
        if node > 0 {
            // SAFETY: the graph is in order, and its arrays are readable.
            let list = unsafe { self.by_source() }?;
            let n = node as usize;
            let threads = self.threads(step.edges + step.sources, node);
            threads::in_ranges(threads, step.sources as usize, 2 * bytes_of::<f32>(n), &|scratch, range| {
                // SAFETY: scratch of two rows, which nobody else uses.
                let (row, sums) = unsafe {
                    let mut parts = Parts::new(scratch);
                    (parts.filled(n, 0.0), parts.filled(n, 0.0))
                };
                for source in range {
                    let edges = &list.edges[list.starts[source]..list.starts[source + 1]];
                    if edges.is_empty() {
                        continue;
                    }
                    sums.fill(0.0);
                    // SAFETY: edges of a source that is there.
                    unsafe {
                        edges.iter().for_each(|&edge| self.add(edge, 0, row, sums));
                        self.read(0, source as i64, node, 0, row);
                        row.iter_mut().zip(&*sums).for_each(|(old, &sum)| *old += sum);
                        self.write(0, source as i64, node, 0, row);
                    }
                }
            })?;
        }
        if edge + concat == 0 {
            return Ok(());
        }
        let widest = edge.max(concat) as usize;
        let threads = self.threads(step.edges + step.targets, edge + concat);
        threads::in_ranges(threads, step.targets as usize, 2 * bytes_of::<f32>(widest), &|scratch, range| {
            // SAFETY: scratch of two rows, which nobody else uses.
            let (row, sums) = unsafe {
                let mut parts = Parts::new(scratch);
                (parts.filled(widest, 0.0), parts.filled(widest, 0.0))
            };
            for target in range {
                let target = target as i64;
                // SAFETY: a target that is there, its edges, and rows that no two edges share.
                unsafe {
                    if edge > 0 {
                        let (row, sums) = (&mut row[..edge as usize], &mut sums[..edge as usize]);
                        for i in self.graph.edges(target) {
                            let to = self.graph.row(i);
                            if step.join.is_choice() {
                                self.add_chosen((i, target), to, &mut row[..1], &mut sums[..1]);
                                continue;
                            }
                            self.read(1, to, edge, 0, sums);
                            self.add((i, target), node, row, sums);
                            self.write(1, to, edge, 0, sums);
                        }
                    }
                    let row = &mut row[..concat as usize];
                    self.read(3, target, step.width(), step.joined(), row);
                    self.write(2, target, concat, 0, row);
                }
            }
        })
    }
}
