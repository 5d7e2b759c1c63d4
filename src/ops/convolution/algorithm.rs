//! Algorithm numbers: which numbers a direction has, what a query says of each, and in which order.
//!
//! Every number computes every problem, as the numbers are the programs' way to ask and not ours to
//! compute. They differ in two things: number 0 makes no use of a workspace, and only the two
//! numbers of Winograd's algorithms may compute otherwise than by a sum of the products.

use std::fmt;

use super::{Convolution, Direction, support};
use crate::desc::MathType;
use crate::error::{Error, Result};
use crate::mode::Mode;

/// A number of one direction's enumeration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    direction: Direction,
    number: i32,
}

/// Numbers of a direction, those first that a program is best served with; the original lists those
/// that it computes so, and then the others in the order of [`refused`].
const fn preferred(direction: Direction) -> &'static [i32] {
    match direction {
        Direction::Forward => &[1, 0, 2, 6, 7, 5, 4, 3],
        Direction::BackwardData => &[1, 0, 4, 5, 3, 2],
        Direction::BackwardFilter => &[1, 0, 3, 5, 6, 2, 4],
    }
}

/// The order in which the original lists numbers that it refuses (observed on 9.27.0).
const fn refused(direction: Direction) -> &'static [i32] {
    match direction {
        Direction::Forward => &[1, 0, 2, 5, 4, 7, 6, 3],
        Direction::BackwardData => &[1, 0, 3, 2, 5, 4],
        Direction::BackwardFilter => &[1, 0, 3, 6, 2, 5, 4],
    }
}

/// The numbers of Winograd's algorithms, fused and with the transforms by themselves, the better
/// served first.
const fn winograd(direction: Direction) -> [i32; 2] {
    match direction {
        Direction::Forward => [6, 7],
        Direction::BackwardData => [4, 5],
        Direction::BackwardFilter => [5, 4],
    }
}

impl Algorithm {
    /// The algorithm of this number.
    ///
    /// # Errors
    /// Not supported for a number outside the enumeration.
    pub fn new(direction: Direction, number: i32) -> Result<Self> {
        if preferred(direction).contains(&number) {
            return Ok(Algorithm { direction, number });
        }
        let last = preferred(direction).len() - 1;
        Err(Error::unsupported(format!("algo = {number}: the algorithms are 0 to {last}")))
    }

    /// Its number.
    pub fn number(self) -> i32 {
        self.number
    }

    /// The first of Winograd's algorithms.
    pub fn winograd(direction: Direction) -> Self {
        Algorithm { direction, number: winograd(direction)[0] }
    }

    /// Whether it is one of Winograd's, which may compute 3 x 3 windows with fewer products: its
    /// results have another bound than those of sums.
    pub fn is_winograd(self) -> bool {
        winograd(self.direction).contains(&self.number)
    }

    /// Whether it makes use of a workspace. Number 0 is for programs that have none, as it is in
    /// the original (documentation).
    pub fn takes_workspace(self) -> bool {
        self.number != 0
    }

    /// Whether operands are moved to its workspace, where that pays. Number 3 of the gradient of a
    /// filter is for programs that have little of it, as it is in the original (documentation):
    /// sums are cut, which takes some megabytes.
    pub fn moves_operands(self) -> bool {
        self.takes_workspace() && (self.direction, self.number) != (Direction::BackwardFilter, 3)
    }

    /// What the original says of this number. No number of this library gives other bits in another
    /// run.
    pub fn is_deterministic(self) -> bool {
        !matches!(
            (self.direction, self.number),
            (Direction::BackwardData, 0) | (Direction::BackwardFilter, 0 | 3)
        )
    }

    /// Refuses, in strict mode, what the original does not compute by this number.
    ///
    /// # Errors
    /// Not supported.
    pub fn check(self, convolution: &Convolution, mode: Mode) -> Result<()> {
        if mode.is_strict() { support::check(convolution, self) } else { Ok(()) }
    }

    /// Refuses, in strict mode, what the original does not compute by this number with bias and
    /// activation.
    ///
    /// # Errors
    /// Not supported.
    pub fn check_fused(self, convolution: &Convolution, mode: Mode) -> Result<()> {
        if mode.is_strict() { support::check_fused(convolution, self) } else { Ok(()) }
    }

    /// Whether a query lists it once more with the requested math type (observed on 9.27.0): the
    /// precomputed and the separate Winograd algorithm.
    fn has_two_records(self) -> bool {
        match self.direction {
            Direction::Forward => matches!(self.number, 1 | 7),
            Direction::BackwardData | Direction::BackwardFilter => matches!(self.number, 1 | 5),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "algorithm {}", self.number)
    }
}

/// What a query says of one algorithm.
#[derive(Clone, Debug)]
pub struct Record {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Bytes of workspace, or why it does not serve.
    pub workspace: Result<usize>,
    /// The math type to set before it is used.
    pub math_type: MathType,
}

/// One record per algorithm and math type; those that serve come first, and of those Winograd's
/// where they are the fastest. `workspace` tells what an algorithm needs.
pub fn records(
    direction: Direction, math_type: MathType, winograd_first: bool,
    workspace: impl Fn(Algorithm) -> Result<usize>,
) -> Vec<Record> {
    let mut records = Vec::with_capacity(MOST);
    let first = if winograd_first { winograd(direction).to_vec() } else { Vec::new() };
    let others = preferred(direction).iter().filter(|number| !first.contains(number));
    for &number in first.iter().chain(others) {
        let algorithm = Algorithm { direction, number };
        let workspace = workspace(algorithm);
        let mut add = |math_type| records.push(Record { algorithm, workspace: workspace.clone(), math_type });
        match math_type {
            MathType::TensorOp | MathType::TensorOpWithConversion if algorithm.has_two_records() => {
                add(math_type);
                add(MathType::Standard);
            }
            MathType::Fma => add(MathType::Fma),
            _ => add(MathType::Standard),
        }
    }
    records.sort_by_key(|record| record.workspace.is_err());
    records
}

/// Brings records into the order of the original (observed on 9.27.0, but for a few of its choices
/// between numbers 0 and 1): those without Tensor Cores before their kin; of what is refused, what
/// needs them after the others, and last what is refused `late`.
pub(super) fn sort_as_original(records: &mut [Record], late: impl Fn(Algorithm) -> bool) {
    records.sort_by_key(|Record { algorithm, workspace, math_type }| {
        let needs_cores = matches!(math_type, MathType::TensorOp | MathType::TensorOpWithConversion);
        let order = if workspace.is_ok() { preferred } else { refused };
        let place = order(algorithm.direction).iter().position(|&number| number == algorithm.number);
        let last = !needs_cores && late(*algorithm);
        match workspace {
            Ok(_) => (false, false, false, place, needs_cores),
            Err(_) => (true, last, needs_cores, place, false),
        }
    });
}

/// The longest list of records: eight forward algorithms, two of them twice.
const MOST: usize = 10;
