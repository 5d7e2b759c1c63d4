//! Tiles inside and outside of masks: inside a mask changes nothing, and what is outside need not
//! be computed.

use std::collections::HashMap;

use super::super::{Kind, Operation, Port, Stage, mode};
use super::tile::Spot;
use super::{COLUMNS, ROWS};
use crate::error::Result;
use crate::ops::plan::Known;

/// A mask, with the places of the numbers that it depends on.
pub(super) struct Band {
    shape: Shape,
    /// The length of queries.
    rows: Option<Spot>,
    /// The length of keys.
    columns: Option<Spot>,
    /// What stands outside, where it is a tensor's.
    fill: Option<Spot>,
    /// Whether a tile that is outside adds nothing to any result, if what stands there is minus
    /// infinity.
    pub drops: bool,
}

enum Shape {
    /// A comparison of rows with columns, one of which is moved.
    Diagonal { comparison: i32, bound: Option<Spot>, moves_columns: bool },
    /// What is below both lengths.
    Lengths,
}

/// Where a tile lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Inside,
    Outside,
    Across,
}

/// The masks among these operations, in their order.
///
/// # Errors
/// Those of `spot`.
pub(super) fn bands(operations: &[Operation], spot: &dyn Fn(i64) -> Result<Spot>) -> Result<Vec<Band>> {
    let mut bands = Vec::new();
    for (at, operation) in operations.iter().enumerate() {
        let find = |port| operation.read(port).map(|tensor| spot(tensor.uid)).transpose();
        let shape = match &operation.kind {
            Kind::BandMask(of) => {
                let (left, right) = (find(Port::LeftBound)?, find(Port::RightBound)?);
                let moves_columns = left.is_some();
                Shape::Diagonal { comparison: of.comparison, bound: left.or(right), moves_columns }
            }
            Kind::Padding(_) => Shape::Lengths,
            _ => continue,
        };
        let (rows, columns) = (find(Port::LengthQ)?, find(Port::LengthKv)?);
        let drops = adds_nothing(operations, at);
        bands.push(Band { shape, rows, columns, fill: find(Port::B)?, drops });
    }
    Ok(bands)
}

impl Band {
    /// Whether what stands outside is minus infinity or 0, as [`drops`](Band::drops) supposes of
    /// every mask.
    pub fn is_lowest(&self, known: &Known<'_>, index: [i64; 4]) -> bool {
        let lowest = Some(f64::NEG_INFINITY);
        self.fill.is_none_or(|fill| is_one(&fill) && known(fill.operand, fill.at(index)) == lowest)
    }

    /// Where the tile lies that begins with an index and ends with another one, both included;
    /// across, where that is not known.
    pub fn relation(&self, known: &Known<'_>, first: [i64; 4], last: [i64; 4]) -> Relation {
        self.relation_of(known, first, last).unwrap_or(Relation::Across)
    }

    fn relation_of(&self, known: &Known<'_>, first: [i64; 4], last: [i64; 4]) -> Option<Relation> {
        let bound = match &self.shape {
            Shape::Diagonal { bound, .. } => bound.as_ref(),
            Shape::Lengths => None,
        };
        let numbers = [self.rows.as_ref(), self.columns.as_ref(), bound];
        if numbers.into_iter().flatten().any(|spot| !is_one(spot)) {
            return None;
        }
        // Of a number that is not there, or one that is there and known.
        let number = |spot: &Spot| known(spot.operand, spot.at(first));
        let mut found = [None; 3];
        for (found, spot) in found.iter_mut().zip(numbers) {
            *found = match spot {
                Some(spot) => Some(number(spot)?),
                None => None,
            };
        }
        let [rows, columns, bound] = found;
        let ends = |axis: usize| [first[axis] as f64, last[axis] as f64];
        Some(match &self.shape {
            Shape::Lengths => {
                let [rows, columns] = [rows, columns].map(|length| length.unwrap_or(f64::INFINITY));
                relation(
                    ends(ROWS)[1] < rows && ends(COLUMNS)[1] < columns,
                    ends(ROWS)[0] >= rows || ends(COLUMNS)[0] >= columns,
                )
            }
            Shape::Diagonal { comparison, moves_columns, .. } => {
                let bound = bound.unwrap_or(0.0);
                let (rows, columns) = (rows.unwrap_or(0.0), columns.unwrap_or(0.0));
                let (moved, other, shift) = match moves_columns {
                    true => (ends(COLUMNS), ends(ROWS), bound + rows - columns),
                    false => (ends(ROWS), ends(COLUMNS), bound + columns - rows),
                };
                let [low, high] = moved.map(|index| index + shift);
                match *comparison {
                    mode::GREATER => relation(low > other[1], high <= other[0]),
                    mode::GREATER_OR_EQUAL => relation(low >= other[1], high < other[0]),
                    mode::LESS => relation(high < other[0], low >= other[1]),
                    mode::LESS_OR_EQUAL => relation(high <= other[0], low > other[1]),
                    _ => Relation::Across,
                }
            }
        })
    }
}

/// Whether there is one number for all rows and columns.
fn is_one(spot: &Spot) -> bool {
    spot.strides[ROWS] == 0 && spot.strides[COLUMNS] == 0
}

fn relation(is_inside: bool, is_outside: bool) -> Relation {
    match (is_inside, is_outside) {
        (true, _) => Relation::Inside,
        (_, true) => Relation::Outside,
        _ => Relation::Across,
    }
}

/// What all elements of a tile are.
#[derive(Clone, Copy, PartialEq)]
enum All {
    Zero,
    Lowest,
}

/// Whether a tile of which a mask leaves nothing adds nothing to any result: its elements are minus
/// infinity or 0 then, and so is what is made of them.
fn adds_nothing(operations: &[Operation], mask: usize) -> bool {
    let mut known: HashMap<i64, All> = HashMap::new();
    for (at, operation) in operations.iter().enumerate() {
        let of = |port| operation.read(port).and_then(|tensor| known.get(&tensor.uid)).copied();
        let stands = match &operation.kind {
            Kind::BandMask(_) if operation.read(Port::B).is_some() => Some(All::Lowest),
            Kind::BandMask(_) => Some(All::Zero),
            Kind::Padding(of) if of.value == f64::NEG_INFINITY => Some(All::Lowest),
            Kind::Padding(of) if of.value == 0.0 => Some(All::Zero),
            _ => None,
        };
        let (x, b) = (of(Port::X), of(Port::B));
        let y = match &operation.kind {
            _ if at == mask => stands,
            Kind::BandMask(_) | Kind::Padding(_) => x.filter(|_| x == stands),
            Kind::Pointwise(of) => match (of.mode, x, b) {
                (mode::MUL, Some(All::Zero), _) | (mode::MUL, _, Some(All::Zero)) => Some(All::Zero),
                (mode::DIV | mode::IDENTITY, Some(All::Zero), _) => Some(All::Zero),
                (mode::ADD, Some(All::Lowest), _) if of.alpha[0] > 0.0 => Some(All::Lowest),
                (mode::ADD, _, Some(All::Lowest)) if of.alpha[1] > 0.0 => Some(All::Lowest),
                (mode::SUB | mode::IDENTITY, Some(All::Lowest), _) if of.alpha[0] > 0.0 => Some(All::Lowest),
                (mode::EXP, Some(All::Lowest), _) if of.alpha[0] > 0.0 => Some(All::Zero),
                _ => None,
            },
            Kind::Weights | Kind::Tile(Stage::Softmax) => x.filter(|x| *x == All::Lowest).map(|_| All::Zero),
            _ => None,
        };
        let is_lost = match &operation.kind {
            Kind::Tile(Stage::Accumulate(_)) => of(Port::A) == Some(All::Zero),
            Kind::Tile(Stage::Softmax) => y.is_some(),
            _ => operation.writes.iter().all(|link| link.tensor.is_virtual),
        };
        if !is_lost {
            return false;
        }
        if let Some(y) = y {
            let written = operation.writes.iter().filter(|link| matches!(link.port, Port::Y | Port::Dx));
            known.extend(written.map(|link| (link.tensor.uid, y)));
        }
    }
    true
}
