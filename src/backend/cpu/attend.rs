//! Attention in one step on the CPU, and its gradients: a row at a time, as the reference has it.
//! Graphs that are planned for this core compute it in tiles, by other steps.

use super::kind::{Call, Kind};
use super::scratch::Parts;
use super::threads;
use crate::backend::reference::{attend_row, gradient_columns, gradient_row, gradient_rows};
use crate::error::Result;
use crate::ops::attend::{Attend, AttendBackward};

impl Kind for Attend {
    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let [batch, heads, rows, keys] = self.extents;
        let (items, keys) = ((batch * heads * rows) as usize, keys as usize);
        let columns = (self.widths[0] + self.widths[1]) as usize;
        let threads = call.machine.threads_for(items.saturating_mul(keys).saturating_mul(columns));
        let bytes = super::scratch::bytes_of::<f64>(keys);
        threads::in_ranges(threads, items, bytes, &|scratch, range| {
            // SAFETY: the scratch holds a number for each key.
            let weights = unsafe { Parts::new(scratch).filled(keys, 0.0_f64) };
            for item in range {
                let item = item as i64;
                let (head, row) = (item / rows, item % rows);
                // SAFETY: a row of the step, whose operands are there.
                unsafe { attend_row(self, call.at, [head / heads, head % heads, row], weights) };
            }
        })
    }
}

impl Kind for AttendBackward {
    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let [_, heads, rows, keys] = self.forward.extents;
        let (items, columns) = (gradient_rows(self) as usize, gradient_columns(self));
        let pairs = heads.saturating_mul(rows.max(keys)) as usize;
        let threads = call.machine.threads_for(items.saturating_mul(pairs).saturating_mul(columns));
        let bytes = super::scratch::bytes_of::<f64>(columns);
        threads::in_ranges(threads, items, bytes, &|scratch, range| {
            // SAFETY: the scratch holds a number for each column.
            let sums = unsafe { Parts::new(scratch).filled(columns, 0.0_f64) };
            for item in range {
                // SAFETY: a row of the step, whose operands are there.
                unsafe { gradient_row(self, call.at, item as i64, sums) };
            }
        })
    }
}
