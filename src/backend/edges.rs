//! The graph of an aggregation in memory of the host: how it is read, and what it has to be before
//! anything is written.

use super::Address;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::ops::aggregate::{Aggregate, AggregateFunction};

/// A graph in memory.
#[derive(Clone, Copy)]
pub(super) struct Graph<'a> {
    step: &'a Aggregate,
    offsets: Address,
    indices: Address,
    map: Address,
}

impl<'a> Graph<'a> {
    /// The graph of a step's operands.
    pub fn of(step: &'a Aggregate, at: &[Address]) -> Self {
        Graph { step, offsets: at[5], indices: at[6], map: at[7] }
    }

    /// # Safety
    /// The index is readable.
    unsafe fn index(&self, base: Address, at: i64) -> i64 {
        // SAFETY: the index is readable, of the type that the step names.
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
        // SAFETY: the offsets of every target and of their end are readable.
        unsafe { self.index(self.offsets, target)..self.index(self.offsets, target + 1) }
    }

    /// Where an edge comes from.
    ///
    /// # Safety
    /// Its index is readable.
    pub unsafe fn source(&self, edge: i64) -> i64 {
        // SAFETY: the index of the edge is readable.
        unsafe { self.index(self.indices, edge) }
    }

    /// The edge that was chosen for a column of a target, as `positions` say.
    ///
    /// # Safety
    /// The position is readable.
    pub unsafe fn chosen(&self, positions: Address, at: i64) -> i64 {
        // SAFETY: the position is readable.
        unsafe { self.index(positions, at) }
    }

    /// The row of an edge's features.
    ///
    /// # Safety
    /// Its entry of the map is readable, if there is a map.
    pub unsafe fn row(&self, edge: i64) -> i64 {
        // SAFETY: the edge's entry of the map is readable, if there is a map.
        if self.step.mapped { unsafe { self.index(self.map, edge) } } else { edge }
    }

    /// Refuses a graph that leads out of its features.
    ///
    /// # Errors
    /// Bad parameter: offsets that decrease or exceed the number of edges; sources and rows that
    /// are not there; for gradients, a row of two edges.
    ///
    /// # Safety
    /// Offsets, indices and map are readable.
    pub unsafe fn check(&self) -> Result<()> {
        let Aggregate { sources, targets, edges, mapped, .. } = *self.step;
        let mut last = 0;
        for target in 0..=targets {
            // SAFETY: the offsets of every target and of their end are readable.
            let offset = unsafe { self.index(self.offsets, target) };
            if offset < last || offset > edges {
                let rule =
                    format!("offsets do not decrease, from 0 to nIndices = {edges}; the last was {last}");
                return Err(Error::element("cscOffsets", target as usize, offset, rule));
            }
            last = offset;
        }
        for edge in 0..edges {
            // SAFETY: the index of every edge is readable.
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
            // SAFETY: the entry of every edge in the map is readable, if there is a map.
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
