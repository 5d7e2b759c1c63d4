//! Which dimension of a tensor follows which dimension of the scores.

use super::super::{Kind, Operation, Port, Tensor};
use super::{BATCH, COLUMNS, HEADS, ROWS};

/// What the index in one dimension of a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// Any: a tile has all of the dimension.
    Whole,
    /// The index of this dimension of the scores, of which this many neighbours share an element.
    Scores(usize, i64),
}

/// What an operation is to scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A product that makes scores.
    Scores,
    /// A function of the elements of scores.
    Elements,
    /// The softmax.
    Softmax,
    /// A product of scores, summed over their columns.
    OverColumns,
    /// A product of transposed scores, summed over their rows.
    OverRows,
}

/// The dimensions of a tensor of an operation; `None` if they do not follow those of the scores.
pub(super) fn along(
    operation: &Operation, part: Part, port: Port, tensor: &Tensor, extents: &[i64; 4],
) -> Option<Vec<Along>> {
    if tensor.vector.is_some() || tensor.reorder != 0 || tensor.ragged.is_some() {
        return None;
    }
    let dims = &tensor.dims;
    let is_matrix = matches!(port, Port::A | Port::B | Port::C);
    let Kind::Matmul(of) = &operation.kind else {
        return of_elements(dims, extents);
    };
    if !is_matrix || dims.rank() != 4 {
        return None;
    }
    let mut all = Vec::with_capacity(4);
    for axis in [BATCH, HEADS] {
        let dim = dims[axis];
        if dim < 1 || extents[axis] % dim != 0 || (port == Port::C && dim != extents[axis]) {
            return None;
        }
        all.push(if dim == 1 { Along::Whole } else { Along::Scores(axis, extents[axis] / dim) });
    }
    let (row, column) = (Along::Scores(ROWS, 1), Along::Scores(COLUMNS, 1));
    let mut matrix = match (part, port) {
        (Part::Scores, Port::A) => [row, Along::Whole],
        (Part::Scores, Port::B) => [Along::Whole, column],
        (Part::Scores, _) | (Part::OverColumns, Port::A) => [row, column],
        (Part::OverColumns, Port::B) => [column, Along::Whole],
        (Part::OverColumns, _) | (Part::OverRows, Port::B) => [row, Along::Whole],
        (Part::OverRows, Port::A) => [column, row],
        (Part::OverRows, _) => [column, Along::Whole],
        (Part::Elements | Part::Softmax, _) => return None,
    };
    let swaps = match port {
        Port::A => of.transposed[0],
        Port::B => of.transposed[1],
        _ => false,
    };
    if swaps {
        matrix.swap(0, 1);
    }
    for (axis, along) in (ROWS..).zip(matrix) {
        if let Along::Scores(of, _) = along
            && dims[axis] != extents[of]
        {
            return None;
        }
        all.push(if dims[axis] == 1 { Along::Whole } else { along });
    }
    Some(all)
}

fn of_elements(dims: &[i64], extents: &[i64; 4]) -> Option<Vec<Along>> {
    if dims.iter().all(|&dim| dim == 1) {
        return Some(vec![Along::Whole; dims.len()]);
    }
    let of = |(axis, &dim): (usize, &i64)| match dim {
        1 => Some(Along::Whole),
        dim if dim == extents[axis] => Some(Along::Scores(axis, 1)),
        _ => None,
    };
    (dims.len() == extents.len()).then_some(())?;
    dims.iter().enumerate().map(of).collect()
}
