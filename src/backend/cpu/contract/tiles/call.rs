//! What is multiplied at once, and how tiles lie in memory.

/// Bytes of a row of a tile: of `a` a run of the sum, of `b` a cell of four bytes of the sum for
/// each lane, of the sums a row of them.
pub const ROW: usize = 64;

/// Rows of a tile, and lanes: as many rows or lanes are a strip.
pub const TILE_ROWS: usize = 16;

/// Bytes of a tile.
pub const TILE: usize = ROW * TILE_ROWS;

/// Rows and lanes of the sums that a call adds up: two strips by two.
pub const SIDE: usize = 2 * TILE_ROWS;

/// Bytes of the sums of a call.
pub const ACC_BYTES: usize = SIDE * SIDE * size_of::<f32>();

/// Bytes from one row of the sums of a call to the next.
pub const ACC_ROW: usize = SIDE * size_of::<f32>();

/// What is multiplied, in sums of which type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// bf16 in binary32, as [the model](super::model) says.
    Bf16,
    /// Bytes in 32-bit integers, and whether those of rows and of lanes have signs.
    Bytes([bool; 2]),
    /// Numbers in three parts of bf16, whose tiles follow each other in a step: the products of
    /// [`SIX`].
    Six,
    /// The same in two parts: the products of [`THREE`].
    Three,
}

/// Which parts are multiplied, of rows and of lanes, in this order: each follows one with which it
/// shares a part, so that tiles are loaded fourteen times for twenty-four products.
pub const SIX: [[usize; 2]; 6] = [[2, 0], [1, 0], [1, 1], [0, 1], [0, 2], [0, 0]];
pub const THREE: [[usize; 2]; 3] = [[1, 0], [0, 0], [0, 1]];

impl Product {
    /// The parts of a step that are multiplied.
    pub fn parts(self) -> &'static [[usize; 2]] {
        match self {
            Product::Bf16 | Product::Bytes(_) => &[[0, 0]],
            Product::Six => &SIX,
            Product::Three => &THREE,
        }
    }

    /// Tiles of a step of either operand.
    pub fn tiles(self) -> usize {
        match self {
            Product::Bf16 | Product::Bytes(_) => 1,
            Product::Six => 3,
            Product::Three => 2,
        }
    }
}

/// One call: the sums of two strips of rows by two strips of lanes at most, over some steps of the
/// sum.
pub struct Call {
    /// Where the strips of rows begin, how far rows are apart, and how far steps are.
    pub a: [*const u8; 2],
    pub a_row: usize,
    pub a_step: usize,
    /// Where the tiles of the strips of lanes begin, which lie one behind the other.
    pub b: [*const u8; 2],
    /// At least one.
    pub steps: usize,
    /// Where the sums are.
    pub acc: *mut u8,
    /// Whether they are added to those that are there.
    pub adds: bool,
}

/// Multiplies strips of rows and of lanes, one or two of each, as many as the second argument says.
///
/// # Safety
/// The tiles of all steps are readable, and [`ACC_BYTES`] bytes of sums writable, readable if they
/// are added to; tiles are configured on this thread.
pub type Multiply = unsafe fn(Product, [usize; 2], &Call);
