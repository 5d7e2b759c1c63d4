//! Batch normalisation: from descriptors to groups, forward and backward, fused with an addition
//! and an activation.

mod agree;
mod backward;
mod forward;
mod sizes;

pub use agree::{Fused, Parameters, check_type};
pub use backward::{Backward, BackwardPlan};
pub use forward::{Forward, ForwardPlan, Source};
pub use sizes::{Query, check_workspace, reserve_bytes, training_reserve_size, workspace_bytes};

use super::normalise::Parts;
use super::plan::{Operand, Role};
use crate::desc::TensorDescriptor;
use crate::desc::normalization::BatchNormMode;
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};
use crate::layout::{Dims, Layout, MAX_RANK};

/// Bytes that size queries answer at least: a size of 0 would leave a driver-level allocation
/// nothing to allocate.
pub const LEAST_BYTES: usize = 16;

/// Which dimensions a group runs over.
fn reduced(mode: BatchNormMode, rank: usize) -> [bool; MAX_RANK] {
    std::array::from_fn(|k| k < rank && if mode == BatchNormMode::PerActivation { k == 0 } else { k != 1 })
}

/// The part of a layout that tells groups apart: one element along the dimensions that a group runs
/// over.
fn kept(layout: &Layout, reduced: &[bool; MAX_RANK]) -> Layout {
    let mut kept = *layout;
    for k in (0..kept.dims.rank()).filter(|&k| reduced[k]) {
        (kept.dims[k], kept.strides[k]) = (1, 0);
    }
    kept
}

/// The part of a layout that a group runs over.
fn inside(layout: &Layout, reduced: &[bool; MAX_RANK]) -> Layout {
    let mut inside = *layout;
    for k in (0..inside.dims.rank()).filter(|&k| !reduced[k]) {
        (inside.dims[k], inside.strides[k]) = (1, 0);
        inside.split = inside.split.filter(|split| split.axis() != k);
    }
    inside
}

/// A layout of these dims that moves nowhere: of an operand that is not there.
fn nowhere(dims: &Dims) -> Layout {
    Layout { dims: *dims, strides: Dims::filled(dims.rank(), 0), split: None }
}

/// The layout of the reserve space: packed, in the order in which `x` has its dimensions.
fn reserve_layout(x: &Layout) -> Layout {
    let rank = x.dims.rank();
    let mut order: Vec<usize> = (0..rank).collect();
    order.sort_by_key(|&k| std::cmp::Reverse(x.strides[k].unsigned_abs()));
    let mut layout = nowhere(&x.dims);
    let mut next = 1;
    for &k in order.iter().rev() {
        layout.strides[k] = next;
        next *= x.dims[k];
    }
    layout
}

/// Bytes of the slopes of an activation after the normalisation of `x`.
///
/// # Errors
/// Not supported beyond 64 bits.
pub fn reserve_size(x: &TensorDescriptor, fused: Option<&Fused>) -> Result<usize> {
    let Some(scalar) = fused.and_then(|fused| fused.slopes(x.data_type())) else { return Ok(LEAST_BYTES) };
    let cells = x.dims().product().and_then(|n| usize::try_from(n).ok());
    let bytes = cells.and_then(|n| n.checked_mul(scalar.size()));
    bytes
        .map(|bytes| bytes.max(LEAST_BYTES))
        .ok_or_else(|| Error::unsupported("the reserve space takes more than 64 bits can count"))
}

/// The type of parameters and statistics, which is that of the computation.
fn parameter_type(x: DataType) -> DataType {
    if x == DataType::Double { DataType::Double } else { DataType::Float }
}

/// Bytes of workspace that the groups of `x` can make use of, on a GPU.
fn useful_workspace(mode: BatchNormMode, x: &TensorDescriptor) -> usize {
    let reduced = reduced(mode, x.rank());
    let count = |wanted: bool| {
        let dims = (0..x.rank()).filter(|&k| reduced[k] == wanted).map(|k| x.dims()[k] as usize);
        dims.fold(1_usize, usize::saturating_mul)
    };
    Parts::workspace(count(false), count(true))
}

/// The workspace, for which the caller gives `size` bytes.
fn workspace(mode: BatchNormMode, x: &TensorDescriptor, size: usize) -> Operand {
    let span = (0, size.min(useful_workspace(mode, x)) as i64);
    Operand { role: Role::Scratch, span, ..Operand::untouched("workSpace", Scalar::F64) }
}

/// An operand that is touched where it is there.
fn optional(name: &'static str, role: Role, scalar: Scalar, span: Option<(i64, i64)>) -> Operand {
    let operand = Operand::untouched(name, scalar);
    match span {
        Some(span) => Operand { role, span, ..operand },
        None => Operand { role, ..operand },
    }
}
