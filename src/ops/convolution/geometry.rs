//! The checks that every call on a convolution makes before anything else, in the original's order.

use super::algorithm::{records, sort_as_original};
use super::{Algorithm, ConvolutionPlan, Record, TAKES_ALL, Takes, support};
use crate::desc::tensor::CHANNEL;
use crate::desc::{ConvolutionDescriptor, FilterDescriptor, MathType, TensorDescriptor};
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::mode::{self, Mode};
use crate::ops::Scaling;
use crate::ops::contract::{Contract, Parts};

/// Which of the three operands a convolution computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// y of x and w.
    Forward,
    /// dx of w and dy.
    BackwardData,
    /// dw of x and dy.
    BackwardFilter,
}

impl Direction {
    /// The names of input, filter and output in messages.
    pub(super) const fn names(self) -> [&'static str; 3] {
        match self {
            Direction::Forward => ["x", "w", "y"],
            Direction::BackwardData => ["dx", "w", "dy"],
            Direction::BackwardFilter => ["x", "dw", "dy"],
        }
    }

    /// Whether a GPU may [cut](Parts) sums of this direction. Whether that is worth it depends on
    /// how many images there are, and what an image becomes, forward or as a gradient of the data,
    /// has the same bits in any batch.
    pub(super) fn cuts_sums(self) -> bool {
        self == Direction::BackwardFilter
    }

    /// Bytes of workspace with which a GPU cuts the sums of a step, if it may and that is worth it.
    pub(in crate::ops) fn workspace_of(self, step: &Contract) -> Option<usize> {
        if !self.cuts_sums() {
            return None;
        }
        Parts::of(step)?.workspace(step.accumulate)
    }
}

/// What is reported of numbers that take a workspace where nothing is needed: a driver-level
/// allocation of 0 bytes fails.
pub const LEAST_WORKSPACE: usize = 16;

/// Input, filter and output that fit each other: x has `groups` times the channels of w, y one per
/// filter, and the spatial extents of y follow from those of x. All three directions share this.
#[derive(Clone, Copy, Debug)]
pub struct Convolution {
    /// What is computed.
    pub direction: Direction,
    /// Padding, strides, dilation, mode, compute type, math type.
    pub desc: ConvolutionDescriptor,
    /// The input, or its gradient.
    pub x: TensorDescriptor,
    /// The filter, or its gradient.
    pub w: FilterDescriptor,
    /// The output, or its gradient.
    pub y: TensorDescriptor,
    /// Groups of channels that do not see each other: those of x over those of w, whatever the
    /// descriptor says (observed on 9.27.0).
    pub groups: i64,
}

impl Convolution {
    /// Checks ranks, channels, batch, spatial extents and strides, in this order. What is read may
    /// have any strides outside strict mode.
    ///
    /// # Errors
    /// Bad parameter, naming the extent that would be right; outside strict mode not supported
    /// where elements of different numbers of channels meet that agree element by element but not
    /// channel by channel.
    pub fn new(
        direction: Direction, desc: &ConvolutionDescriptor, x: &TensorDescriptor, w: &FilterDescriptor,
        y: &TensorDescriptor, mode: Mode,
    ) -> Result<Self> {
        let names = direction.names();
        check_ranks(names, desc, [x.rank(), w.stored_dims().rank(), y.rank()])?;
        let groups = check_channels(names, x, w, y, mode)?;
        check_spatial(names, desc, &x.stored_dims(), &w.stored_dims(), &y.stored_dims())?;
        let written = match direction {
            Direction::Forward => Some(2),
            Direction::BackwardData => Some(0),
            Direction::BackwardFilter => None,
        };
        for (at, tensor) in [(0, x), (2, y)] {
            if mode.is_strict() || written == Some(at) {
                check_strides(names[at], tensor)?;
            }
        }
        Ok(Convolution { direction, desc: *desc, x: *x, w: *w, y: *y, groups })
    }

    /// Whether queries may tell programs to take Winograd's algorithms, whose results are not
    /// within the bound of a sum: not under FMA math, which programs ask for to have plain sums,
    /// nor in strict mode.
    pub fn may_prefer_winograd(&self, mode: Mode) -> bool {
        !mode.is_strict() && self.desc.math_type != MathType::Fma
    }

    /// What a query says of every algorithm, on a core that has a use for a workspace, with kernels
    /// that it [takes](Takes), or on one that has none, and that computes this fastest by
    /// Winograd's algorithms or does not.
    pub fn records(&self, mode: Mode, takes: Option<Takes<'_>>, winograd_first: bool) -> Vec<Record> {
        // The same for all numbers that have a use for it, but one that moves nothing.
        let useful = self.useful_workspace(takes);
        let without_moves = self.useful_workspace(takes.map(|_| TAKES_ALL));
        let of = |algorithm: Algorithm| {
            algorithm.check(self, mode)?;
            let useful = if algorithm.moves_operands() { useful.clone() } else { without_moves.clone() }?;
            Ok(if algorithm.takes_workspace() { useful } else { 0 })
        };
        let mut records = records(self.direction, self.desc.math_type, winograd_first, of);
        if mode.is_strict() || records.iter().all(|record| record.workspace.is_err()) {
            sort_as_original(&mut records, |algorithm| support::is_late(self, algorithm));
        }
        records
    }

    /// Bytes of workspace that queries report for an algorithm, on a core as of
    /// [`records`](Convolution::records).
    ///
    /// # Errors
    /// As [`ConvolutionPlan::new`], which every factor is the same to.
    pub fn workspace(&self, algorithm: Algorithm, takes: Option<Takes<'_>>) -> Result<usize> {
        let is_used = algorithm.takes_workspace();
        let takes = takes.map(|takes| if algorithm.moves_operands() { takes } else { TAKES_ALL });
        let useful = self.useful_workspace(takes.filter(|_| is_used))?;
        Ok(if is_used { useful } else { 0 })
    }

    /// Bytes of workspace that are of use, or those that fit what is allowed.
    fn useful_workspace(&self, takes: Option<Takes<'_>>) -> Result<usize> {
        let plan = ConvolutionPlan::new(self, Scaling::MOVE)?;
        let useful = takes.map_or(Ok(0), |takes| plan.useful_workspace(takes))?;
        Ok(useful.min(mode::workspace_cap()).max(LEAST_WORKSPACE))
    }
}

/// Each operand has two dimensions more than the convolution is set for.
fn check_ranks(names: [&str; 3], desc: &ConvolutionDescriptor, ranks: [usize; 3]) -> Result<()> {
    let wanted = desc.geometry.padding().rank() + 2;
    for (name, rank) in names.iter().zip(ranks) {
        if rank != wanted {
            return Err(Error::mismatch(format!(
                "{name} has {rank} dimensions, a convolution of {} spatial dimensions takes {wanted}",
                wanted - 2
            )));
        }
    }
    Ok(())
}

/// The number of groups.
fn check_channels(
    names: [&str; 3], x: &TensorDescriptor, w: &FilterDescriptor, y: &TensorDescriptor, mode: Mode,
) -> Result<i64> {
    let filters = w.stored_dims()[0];
    // As the original counts them: elements of x and w, single channels of y.
    let stored = channels(
        names,
        [x.stored_dims()[CHANNEL], w.stored_dims()[CHANNEL], y.dims()[CHANNEL]],
        [filters, x.stored_dims()[0], y.stored_dims()[0]],
    );
    let lanes = [x.data_type(), w.data_type(), y.data_type()].map(|data_type| data_type.lanes());
    let is_plain = y.vector().is_some() || lanes[2] == 1;
    if mode.is_strict() || (lanes[0] == lanes[1] && is_plain) {
        return stored;
    }
    let scalars = [
        x.stored_dims()[CHANNEL] * lanes[0],
        w.stored_dims()[CHANNEL] * lanes[1],
        y.stored_dims()[CHANNEL] * lanes[2],
    ];
    let counted = channels(names, scalars, [filters, x.stored_dims()[0], y.stored_dims()[0]]);
    match (counted, stored) {
        (Ok(groups), _) => Ok(groups),
        (Err(_), Err(error)) => Err(error),
        (Err(error), Ok(_)) => Err(Error::unsupported(error.to_string())),
    }
}

/// The number of groups, from the channels of x, w and y, and the number of filters, the batch of x
/// and that of y.
fn channels(
    [x, w, y]: [&str; 3], [of_x, of_w, of_y]: [i64; 3], [filters, batch, batch_of_y]: [i64; 3],
) -> Result<i64> {
    if of_w < 1 || of_x % of_w != 0 {
        return Err(Error::mismatch(format!(
            "{x} has {of_x} channels, no multiple of the {of_w} of a filter of {w}"
        )));
    }
    let groups = of_x / of_w;
    if filters % groups != 0 {
        return Err(Error::mismatch(format!(
            "{w} has {filters} filters, no multiple of the {groups} groups that {of_x} channels of {x} over {of_w} of \
             {w} make"
        )));
    }
    if of_y != filters {
        return Err(Error::mismatch(format!(
            "{y} has {of_y} channels, one per filter of {w} makes {filters}"
        )));
    }
    if batch_of_y != batch {
        return Err(Error::mismatch(format!("{y} has a batch of {batch_of_y}, {x} one of {batch}")));
    }
    Ok(groups)
}

/// Each spatial extent of y is the one that follows from x and w.
fn check_spatial(
    [x, w, y]: [&str; 3], desc: &ConvolutionDescriptor, of_x: &Dims, of_w: &Dims, of_y: &Dims,
) -> Result<()> {
    let (padding, strides, dilation) =
        (desc.geometry.padding(), desc.geometry.strides(), desc.geometry.dilation());
    for axis in 0..padding.rank() {
        let reach = (of_w[axis + 2] - 1) * dilation[axis] + 1;
        let last = of_x[axis + 2] + 2 * padding[axis] - reach;
        if last < 0 {
            return Err(Error::mismatch(format!(
                "{w} reaches over {reach} elements of dimension {}, {x} has {} and {} of padding",
                axis + 2,
                of_x[axis + 2],
                2 * padding[axis]
            )));
        }
        let right = 1 + last / strides[axis];
        if of_y[axis + 2] != right {
            return Err(Error::mismatch(format!(
                "dimension {} of {y} is {}, where {x} and {w} make {right}",
                axis + 2,
                of_y[axis + 2]
            )));
        }
    }
    Ok(())
}

/// Refuses negative strides and elements that share an address.
fn check_strides(name: &str, tensor: &TensorDescriptor) -> Result<()> {
    if tensor.is_packed() {
        return Ok(());
    }
    let (dims, strides) = (tensor.stored_dims(), tensor.strides());
    let axes = || (0..dims.rank()).filter(|&axis| dims[axis] > 1);
    if let Some(axis) = axes().find(|&axis| strides[axis] < 0) {
        return Err(Error::element("strideA", axis, strides[axis], format!("{name} runs backwards")));
    }
    let mut order: Vec<usize> = axes().collect();
    order.sort_by_key(|&axis| strides[axis]);
    let mut reach = 0;
    for axis in order {
        if strides[axis] <= reach {
            let rule = format!("elements of {name} share an address");
            return Err(Error::element("strideA", axis, strides[axis], rule));
        }
        reach += (dims[axis] - 1) * strides[axis];
    }
    Ok(())
}
