//! Windows on the CPU: vector code over what lies side by side, the channels or a row of the last
//! axis.
//!
//! ```text
//!  table.rs     the kernels, in the order in which they are asked     problem.rs  what they are asked about
//!  shape.rs     the loops in bytes, and which of them become lanes     fold.rs   the vector code
//!  plane.rs     cells of a plane brought together and converted        sink.rs   results on their way out
//!  tables.rs    what is asked of axes for every output and cell
//!  lrn.rs       response normalisation                                 columns.rs   the columns of a convolution
//!  pool.rs      maxima and averages
//!   shared.rs   those with stride 1      job.rs   the memory of both      end.rs  from folds to results
//!  unpool.rs    their gradients
//!   whole.rs    one window that holds all cells                            largest.rs  where its largest cell is
//!   bands.rs    short rows, several at once     by_rows.rs  other windows, row by row    kept.rs   what by_rows.rs keeps of a plane
//!   lanes.rs    the loops of gradients      phases.rs    rows sorted by the stride
//! ```

mod columns;
mod fold;
mod lrn;
mod plane;
mod pool;
mod problem;
mod shape;
mod sink;
mod table;
mod tables;
mod unpool;

use self::problem::Problem;
use self::shape::Shape;
use self::table::KERNELS;
use super::Machine;
use super::kind::{self, Call, Kind, Table};
use crate::backend::Address;
use crate::backend::choice;
use crate::error::Result;
use crate::ops::window::{OPERANDS, Window};

impl Kind for Window {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    fn kernels(&self, machine: Machine) -> Vec<&'static str> {
        if self.is_empty() {
            return Vec::new();
        }
        let shape = Shape::new(self);
        // Which kernels accept it depends on no address.
        let problem = Problem::new(&shape, &[Address::NULL; OPERANDS], machine);
        choice::names(KERNELS, |accept| accept(&problem))
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let shape = Shape::new(self);
        let problem = Problem::new(&shape, call.at, call.machine);
        let (_, launch) = call.choice.of(KERNELS, |accept| accept(&problem))?;
        // SAFETY: the operands are those of the window.
        unsafe { launch.run() }
    }
}
