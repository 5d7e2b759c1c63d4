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
pub(in crate::backend) use self::table::KERNELS;
use super::Machine;
use crate::backend::Address;
use crate::backend::choice::{self, Choice};
use crate::error::Result;
use crate::ops::window::{OPERANDS, Window};

/// Runs `window` on `machine`.
///
/// # Errors
/// As for [`crate::backend::run_by`].
///
/// # Safety
/// `at` holds the data pointers of all [`OPERANDS`]. Those that the function touches are aligned to
/// their scalar, and every offset of the window is readable there; of destinations writable, and
/// readable if `beta != 0`. The destination offsets are distinct and do not overlap what is read.
pub(in crate::backend) unsafe fn run(
    window: &Window, at: &[Address], machine: Machine, choice: Choice<'_>,
) -> Result<()> {
    if window.is_empty() {
        return Ok(());
    }
    let shape = Shape::new(window);
    let problem = Problem::new(&shape, at, machine);
    let (_, launch) = choice.of(KERNELS, |accept| accept(&problem))?;
    // SAFETY: the operands are those of the window.
    unsafe { launch.run() }
}

/// The names of all kernels that accept a window, in the order of the table.
pub(in crate::backend) fn kernels(window: &Window, machine: Machine) -> Vec<&'static str> {
    if window.is_empty() {
        return Vec::new();
    }
    let shape = Shape::new(window);
    // Which kernels accept it depends on no address.
    let problem = Problem::new(&shape, &[Address::NULL; OPERANDS], machine);
    choice::names(KERNELS, |accept| accept(&problem))
}
