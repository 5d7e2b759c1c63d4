//! Rows that registers hold (`kernels/row_trees.cuh`): which kernels have rows of a length, and how
//! they are launched.

/// Threads of a block whose warps have rows of their own.
pub(super) const THREADS: u32 = 256;
/// Rows of a block where a warp has four, and where each has a warp.
const SHORT_ROWS: u64 = 32;
const LONG_ROWS: u64 = 8;
/// Elements of a row at most: of short rows, of long ones, which are also what each warp of a block
/// has of one, and of rows that a block holds.
const SHORT: i64 = 128;
const LONG: i64 = 1024;
const HELD: i64 = 16 * LONG;

/// How rows of a length are launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// The number of the kernels: short, long, and a block for each row.
    pub number: usize,
    /// Blocks.
    pub blocks: u64,
    /// Threads of each.
    pub threads: u32,
}

impl Shape {
    /// Of `rows` rows of `length` elements; none if they are longer than what registers hold.
    pub(super) fn of(length: i64, rows: u64) -> Option<Shape> {
        let (number, blocks, threads) = if length <= SHORT {
            (0, rows.div_ceil(SHORT_ROWS), THREADS)
        } else if length <= LONG {
            (1, rows.div_ceil(LONG_ROWS), THREADS)
        } else if length <= HELD {
            (2, rows, 32 * ((length + LONG - 1) / LONG) as u32)
        } else {
            return None;
        };
        Some(Shape { number, blocks, threads })
    }
}
