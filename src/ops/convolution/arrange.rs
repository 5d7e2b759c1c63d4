//! Operands that a GPU moves to the workspace before it multiplies them, so that channels are
//! neighbours in memory, in whole vectors of 16 bytes, and results that it moves from there.
//!
//! Its kernels for Tensor Cores that copy vectors take a few nanoseconds where those for numbers
//! that lie apart take a microsecond, and a move costs each byte twice.

use super::Direction;
use super::place::Place;
use crate::error::Result;
use crate::layout::{Axis, Dims, Layout, LoopNest, format, nests};
use crate::ops::plan::{Step, StepSink};
use crate::ops::{Scale, Scaling, Transform};

/// What is moved to the workspace, and how it lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// A filter of one tap, its output channels innermost: a matrix by which planes are multiplied
    /// where they lie.
    Columns,
    /// Everything whose channels are not neighbours in whole vectors; numbers of channels are
    /// rounded up to vectors, with zeros.
    Channels,
}

/// Channels are padded to a multiple of this.
const TOGETHER: i64 = 8;
/// Bytes of a vector.
const VECTOR: i64 = 16;
/// Bytes of terms that kernels take at once.
const STEP: i64 = 64;
/// Bytes of the widest number.
const WIDEST: i64 = 8;
/// What begins in the workspace begins at a multiple of this.
pub(super) const ALIGNMENT: i64 = 256;
/// Columns that are computed at once, used or not.
const COLUMNS: i64 = 64;
/// Products for each byte that is moved from which on that pays, by the model of
/// `cargo xtask gpu-model`: of types of 16 bits, of binary32, and of gradients of filters.
const PAYS: [i128; 3] = [8, 12, 6];

/// An operand in the workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    /// How it lies there, padding included.
    pub place: Place,
    /// Bytes from the first of those that are moved.
    at: i64,
}

impl Moved {
    /// Lays a tensor with these dims out behind what is there, with `inner` as its innermost
    /// dimension.
    fn new(from: &Place, dims: Dims, inner: usize, end: &mut i64) -> Option<Moved> {
        let rank = dims.rank();
        let outer = 1 - inner;
        let mut order = [outer; crate::layout::MAX_RANK];
        (2..rank).for_each(|axis| order[axis - 1] = axis);
        order[rank - 1] = inner;
        let strides = format::packed_strides(&dims, &order[..rank])?;
        let bytes = dims.product()?.checked_mul(from.scalar.size() as i64)?;
        let at = *end;
        *end = aligned(at.checked_add(bytes)?)?;
        let layout = Layout { dims, strides, split: None };
        Some(Moved { place: Place { layout, scalar: from.scalar }, at })
    }

    /// Scalars from the start of the workspace, where `first` bytes come before what is moved.
    pub(super) fn offset(&self, first: i64) -> i64 {
        (first + self.at) / self.place.scalar.size() as i64
    }

    /// The part of it that has the dims of another layout.
    fn within(&self, dims: &Dims) -> Layout {
        Layout { dims: *dims, ..self.place.layout }
    }

    /// Moves an operand of the plan here, and zeros behind its channels.
    ///
    /// # Errors
    /// The first of `sink`.
    pub(super) fn fetch(
        &self, from: &Place, slot: usize, workspace: usize, first: i64, sink: StepSink<'_>,
    ) -> Result<()> {
        let step = self.transform([&self.within(&from.layout.dims), &from.layout], [self.offset(first), 0]);
        sink(Step::Transform(&step), &[workspace, slot])?;
        let (real, padded) = (&from.layout.dims, &self.place.layout.dims);
        for axis in (0..padded.rank()).filter(|&axis| padded[axis] > real[axis]) {
            let strides = &self.place.layout.strides;
            let behind = real[axis] * strides[axis];
            let mut nest = LoopNest::new(&[], [self.offset(first) + behind]);
            for other in 0..padded.rank() {
                let extent = match other.cmp(&axis) {
                    std::cmp::Ordering::Less => real[other],
                    std::cmp::Ordering::Equal => padded[other] - real[other],
                    std::cmp::Ordering::Greater => padded[other],
                };
                nest.push(Axis { extent, strides: [strides[other]] });
            }
            let zeros = Scale { nest: nest.canonical(), dst: self.place.scalar, beta: 0.0 };
            sink(Step::Scale(&zeros), &[workspace])?;
        }
        Ok(())
    }

    /// Moves the result from here to an operand of the plan.
    ///
    /// # Errors
    /// The first of `sink`.
    pub(super) fn store(
        &self, to: &Place, slot: usize, workspace: usize, first: i64, sink: StepSink<'_>,
    ) -> Result<()> {
        let step = self.transform([&to.layout, &self.within(&to.layout.dims)], [0, self.offset(first)]);
        sink(Step::Transform(&step), &[slot, workspace])
    }

    fn transform(&self, layouts: [&Layout; 2], offsets: [i64; 2]) -> Transform {
        let mut all = LoopNest::new(&[], [0; 2]);
        // Nothing is blocked, so there is one nest.
        nests(layouts, &mut |nest| all = *nest);
        all.offsets = offsets;
        let scalar = self.place.scalar;
        Transform { nest: all.canonical(), dst: scalar, src: scalar, scaling: Scaling::MOVE }
    }
}

/// Everything that is moved for one plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moves {
    /// Of destination and factors, in the order of the operands.
    pub sides: [Option<Moved>; 3],
    /// Where its channels are padded.
    pub bias: Option<Moved>,
    /// Bytes that they take.
    pub bytes: i64,
}

/// What decides what is moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensors<'a> {
    pub direction: Direction,
    pub groups: i64,
    /// Whether every stride of the window is 1, nothing is padded, and there is one tap.
    pub is_pointwise: bool,
    /// Destination and factors, in the order of the operands.
    pub sides: [&'a Place; 3],
    pub z: Option<&'a Place>,
    pub bias: Option<&'a Place>,
}

impl Tensors<'_> {
    /// Which of the sides is the filter.
    fn filter(&self) -> usize {
        if self.direction == Direction::BackwardFilter { 0 } else { 2 }
    }

    /// Input and output channels of a group.
    fn channels(&self) -> [i64; 2] {
        let dims = &self.sides[self.filter()].layout.dims;
        [dims[1], dims[0] / self.groups]
    }

    /// What is moved; `None` where nothing is, where that does not pay, or where a tensor does not
    /// lie in a way that is moved.
    pub(super) fn moves(&self, arrangement: Arrangement) -> Option<Moves> {
        let all = self.sides.into_iter().chain(self.z).chain(self.bias);
        if all.clone().any(|place| place.layout.split.is_some() || place.layout.dims.contains(&0)) {
            return None;
        }
        let moves = match arrangement {
            Arrangement::Columns => self.columns()?,
            Arrangement::Channels => self.in_vectors()?,
        };
        moves.sides.iter().any(Option::is_some).then_some(moves)
    }

    fn columns(&self) -> Option<Moves> {
        if self.direction != Direction::Forward || !self.is_pointwise {
            return None;
        }
        let filter = self.sides[2];
        let mut bytes = 0;
        let moved = Moved::new(filter, filter.layout.dims, 0, &mut bytes)?;
        Some(Moves { sides: [None, None, Some(moved)], bias: None, bytes })
    }

    fn in_vectors(&self) -> Option<Moves> {
        let [c, k] = self.channels();
        let are_whole = c % TOGETHER == 0 && k % TOGETHER == 0;
        if self.groups != 1 && !are_whole {
            return None;
        }
        let whole = |channels: i64| channels.checked_add(TOGETHER - 1).map(|sum| sum / TOGETHER * TOGETHER);
        let (mut sides, mut bytes) = ([None; 3], 0);
        for (side, place) in self.sides.into_iter().enumerate() {
            let is_filter = side == self.filter();
            let mut dims = place.layout.dims;
            dims[1] = whole(dims[1])?;
            if is_filter {
                dims[0] = whole(dims[0])?;
            }
            // The sum of a gradient of the data goes along output channels.
            let inner = usize::from(!(is_filter && self.direction == Direction::BackwardData));
            let stays = dims == place.layout.dims
                && (lies_in_vectors(place, inner)
                    || (inner == 0
                        && k * place.scalar.size() as i64 % STEP == 0
                        && lies_in_vectors(place, 1)));
            if !stays {
                sides[side] = Some(Moved::new(place, dims, inner, &mut bytes)?);
            }
        }
        if !self.pays(&sides) {
            return None;
        }
        if let (Some(z), Some(dst)) = (self.z, sides[0]) {
            // It takes the place of the destination.
            let is_alike = z.scalar == dst.place.scalar && z.layout.dims == self.sides[0].layout.dims;
            if !is_alike {
                return None;
            }
        }
        let padded_k = whole(k)?;
        if k == padded_k {
            return Some(Moves { sides, bias: None, bytes });
        }
        // Only the fused call has a bias, and it takes what the query of a forward one tells.
        let with_bias = if self.direction == Direction::Forward {
            aligned(bytes.checked_add(padded_k.checked_mul(WIDEST)?)?)?
        } else {
            bytes
        };
        let mut bias = None;
        if let Some(place) = self.bias {
            let dims = &place.layout.dims;
            if dims[1] != self.sides[0].layout.dims[1] || dims.product() != Some(dims[1]) {
                return None;
            }
            let mut padded = *dims;
            padded[1] = whole(dims[1])?;
            bias = Some(Moved::new(place, padded, 1, &mut bytes)?);
        }
        let bytes = bytes.max(with_bias);
        Some(Moves { sides, bias, bytes })
    }

    /// Whether products are many for what is moved of an image. Filters do not count, and neither
    /// do images: an image has the same bits in any batch.
    fn pays(&self, sides: &[Option<Moved>; 3]) -> bool {
        let [c, k] = self.channels();
        let filter = self.filter();
        let (y, columns) = match self.direction {
            Direction::Forward => (0, k),
            Direction::BackwardData => (1, c),
            Direction::BackwardFilter => (2, k),
        };
        let idle = (COLUMNS / columns.max(1)).max(1);
        // Each element of the output is the sum of all taps, or spread over them.
        let taps = product(&self.sides[filter].layout.dims[2..]).saturating_mul(c.into());
        let outputs = product(&self.sides[y].layout.dims[1..]);
        let products = outputs.saturating_mul(taps).saturating_mul(idle.into());
        let moved =
            sides.iter().enumerate().filter(|&(side, _)| side != filter).filter_map(|(_, moved)| *moved);
        let bytes = |moved: Moved| {
            product(&moved.place.layout.dims[1..]).saturating_mul(moved.place.scalar.size() as i128)
        };
        let bytes = moved.map(bytes).fold(0, i128::saturating_add);
        let kind = match (self.direction, self.sides[1].scalar.size()) {
            (Direction::BackwardFilter, _) => 2,
            (_, 4) => 1,
            _ => 0,
        };
        products >= bytes.saturating_mul(PAYS[kind])
    }
}

/// The next place where something begins.
fn aligned(end: i64) -> Option<i64> {
    Some(end.checked_add(ALIGNMENT - 1)? / ALIGNMENT * ALIGNMENT)
}

/// How many elements there are, however many.
fn product(dims: &[i64]) -> i128 {
    dims.iter().fold(1, |all: i128, &dim| all.saturating_mul(dim.into()))
}

/// Whether neighbours along a dimension are neighbours in memory, in whole vectors that are aligned
/// where the tensor is.
fn lies_in_vectors(place: &Place, inner: usize) -> bool {
    let Layout { dims, strides, .. } = &place.layout;
    let size = place.scalar.size() as i64;
    (0..dims.rank()).all(|axis| match axis == inner {
        true => strides[axis] == 1 && dims[axis] % TOGETHER == 0,
        false => dims[axis] == 1 || strides[axis].wrapping_mul(size) % VECTOR == 0,
    })
}
