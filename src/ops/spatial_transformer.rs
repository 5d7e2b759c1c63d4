//! Spatial transformers: grids of affine maps, sampling at a grid, and the gradients of both.

use std::fmt;

use super::agree::{self, Named};
use super::plan::{self, Operand, Plan, Role, Step, StepSink};
use super::sample::{Pictures, Sample, SampleFunction};
use super::{ByteSpan, Compute, Scaling, strict};
use crate::desc::{SpatialTransformerDescriptor, TensorDescriptor};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::mode::Mode;

/// The dimensions of a descriptor: pictures, channels, rows, columns.
const RANK: usize = 4;

/// What a descriptor says of the grid.
struct Target {
    images: i64,
    extents: [i64; 2],
    scalar: Scalar,
}

impl Target {
    /// # Errors
    /// Not supported: other than 4 dimensions. Bad parameter: one below 1.
    fn new(desc: &SpatialTransformerDescriptor) -> Result<Self> {
        if desc.rank != RANK as i32 {
            return Err(Error::unsupported(format!(
                "stDesc has {} dimensions; transformers of 4, N x C x H x W, are built",
                desc.rank
            )));
        }
        match (0..RANK).find(|&k| desc.dims[k] < 1) {
            Some(k) => Err(Error::element("dimA", k, desc.dims[k], "dims of stDesc are at least 1")),
            None => Ok(Target {
                images: desc.dims[0],
                extents: [desc.dims[2], desc.dims[3]],
                scalar: desc.data_type.scalar(),
            }),
        }
    }

    /// The bytes of this many numbers for each of these counts.
    ///
    /// # Errors
    /// Not supported beyond 64 bits.
    fn span(&self, counts: &[i64]) -> Result<ByteSpan> {
        let elements = counts.iter().try_fold(self.images, |all, &count| all.checked_mul(count));
        let bytes = elements.and_then(|elements| elements.checked_mul(self.scalar.size() as i64));
        bytes.map(|bytes| (0, bytes)).ok_or_else(|| Error::unsupported("a grid of more than 2^63 bytes"))
    }

    fn grid_span(&self) -> Result<ByteSpan> {
        self.span(&[self.extents[0], self.extents[1], 2])
    }
}

/// A grid of affine maps, or the gradient of the maps, checked and ready to run on any core.
/// Operands: grid, theta; or dtheta, dgrid.
#[derive(Clone, Debug)]
pub struct GridPlan {
    step: Sample,
    operands: [Operand; 2],
}

impl GridPlan {
    /// Plans `cudnnSpatialTfGridGeneratorForward`.
    ///
    /// # Errors
    /// In this order. Not supported: other than 4 dimensions. Bad parameter: one below 1. Not
    /// supported: a grid beyond 64 bits.
    pub fn forward(desc: &SpatialTransformerDescriptor) -> Result<Self> {
        GridPlan::new(desc, SampleFunction::AffineGrid, ["grid", "theta"])
    }

    /// Plans `cudnnSpatialTfGridGeneratorBackward`.
    ///
    /// # Errors
    /// As [`GridPlan::forward`].
    pub fn backward(desc: &SpatialTransformerDescriptor) -> Result<Self> {
        GridPlan::new(desc, SampleFunction::AffineGradient, ["dgrid", "dtheta"])
    }

    fn new(
        desc: &SpatialTransformerDescriptor, function: SampleFunction, [grid, theta]: [&'static str; 2],
    ) -> Result<Self> {
        let target = Target::new(desc)?;
        let scalar = target.scalar;
        let mut operands = [
            Operand { name: grid, role: Role::Write, scalar, span: target.grid_span()? },
            Operand { name: theta, role: Role::Read, scalar, span: target.span(&[2, 3])? },
        ];
        if function == SampleFunction::AffineGradient {
            operands.reverse();
            (operands[0].role, operands[1].role) = (Role::Write, Role::Read);
        }
        let step = Sample {
            function,
            images: target.images,
            channels: 1,
            source: [1; 2],
            target: target.extents,
            x: Pictures::none(scalar),
            y: Pictures::none(scalar),
            grid: scalar,
            compute: Compute::of(&[scalar]),
            scaling: Scaling::MOVE,
        };
        Ok(GridPlan { step, operands })
    }
}

impl Plan for GridPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        sink(Step::Sample(&self.step), &[0, 1])
    }

    fn is_one_step(&self) -> bool {
        true
    }
}

/// One line, as the log shows it.
impl fmt::Display for GridPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}

/// Sampling at a grid, or its gradients, checked and ready to run on any core. Operands: y, x,
/// grid; or dx, dgrid, x, dy, grid.
#[derive(Clone, Debug)]
pub struct SamplerPlan {
    /// One step, or two: the gradient of x, that of the grid.
    steps: Vec<(Sample, &'static [usize])>,
    operands: Vec<Operand>,
    /// Where the operands' elements lie; none of grids.
    layouts: Vec<Option<Layout>>,
    ordered: bool,
}

fn check_rank(x: Named<'_>) -> Result<()> {
    if x.tensor.rank() == RANK {
        return Ok(());
    }
    let Named { name, tensor } = x;
    Err(Error::unsupported(format!("{name} has {} dimensions; pictures of 4 are sampled", tensor.rank())))
}

/// Refuses a dimension that is not the one it has to be.
fn check_dim(of: Named<'_>, k: usize, wanted: i64, rule: &str) -> Result<()> {
    let dims = of.tensor.dims();
    match dims.get(k) {
        Some(&dim) if dim == wanted && dims.rank() == RANK => Ok(()),
        _ => Err(Error::mismatch(format!(
            "dims {dims} of {}: dimension {k} has to be {wanted}, {rule}",
            of.name
        ))),
    }
}

/// Refuses what is sampled if it does not go with the grid: N, H and W of the descriptor.
fn check_target(y: Named<'_>, target: &Target) -> Result<()> {
    let wanted = [(0, target.images), (2, target.extents[0]), (3, target.extents[1])];
    wanted.iter().try_for_each(|&(k, extent)| check_dim(y, k, extent, "as in stDesc"))
}

/// Where the pixels of a tensor lie.
///
/// # Errors
/// Not supported: a vectorisation that the type does not have, or groups of channels that are not
/// full.
fn pictures(of: Named<'_>) -> Result<(Layout, Pictures)> {
    let layout = *of.tensor.layout()?;
    if layout.padding() > 0 || layout.split.is_some_and(|split| split.axis() != 1) {
        return Err(Error::unsupported(format!("{}: channels in groups that are not full", of.name)));
    }
    Ok((layout, Pictures::new(of.tensor.data_type().scalar(), &layout)))
}

/// Refuses elements that hold different numbers of channels, so that equal dims mean different
/// data.
fn check_channels(tensors: &[(Named<'_>, &Layout)]) -> Result<()> {
    let (first, wanted) = (tensors[0].0.name, tensors[0].1.dims[1]);
    match tensors.iter().find(|(_, layout)| layout.dims[1] != wanted) {
        Some((other, layout)) => Err(Error::unsupported(format!(
            "{first} has {wanted} channels and {} {}: their elements hold different numbers of them",
            other.name, layout.dims[1]
        ))),
        None => Ok(()),
    }
}

impl SamplerPlan {
    /// Plans `cudnnSpatialTfSamplerForward`.
    ///
    /// # Errors
    /// In this order. Not supported: in strict mode other types than FLOAT, DOUBLE and HALF; x of
    /// other than 4 dimensions; a descriptor of other than 4. Bad parameter: a dimension of it
    /// below 1; N, H or W of y that are not those of the descriptor, N or C of x that are not those
    /// of y. Not supported: channels in groups that are not full, elements of different numbers of
    /// channels. Bad parameter: y repeats an address through stride 0.
    pub fn forward(
        desc: &SpatialTransformerDescriptor, x: &TensorDescriptor, y: &TensorDescriptor, scaling: Scaling,
        mode: Mode,
    ) -> Result<Self> {
        let (src, dst) = (Named { name: "x", tensor: x }, Named { name: "y", tensor: y });
        strict::SAMPLER.check(&[src, dst], mode)?;
        check_rank(src)?;
        let target = Target::new(desc)?;
        check_target(dst, &target)?;
        (0..2).try_for_each(|k| check_dim(src, k, y.dims()[k], "as in y"))?;
        agree::destination(dst)?;
        let ((from, from_at), (to, to_at)) = (pictures(src)?, pictures(dst)?);
        check_channels(&[(src, &from), (dst, &to)])?;
        let step = Sample {
            function: SampleFunction::Bilinear,
            images: target.images,
            channels: to.dims[1],
            source: [from.dims[2], from.dims[3]],
            target: target.extents,
            x: from_at,
            y: to_at,
            grid: target.scalar,
            compute: Compute::of(&[from_at.scalar, to_at.scalar, target.scalar]),
            scaling,
        };
        let operand = |name, role, at: Pictures, span| Operand { name, role, scalar: at.scalar, span };
        let grid =
            Operand { name: "grid", role: Role::Read, scalar: target.scalar, span: target.grid_span()? };
        Ok(SamplerPlan {
            steps: vec![(step, &[0, 1, 2])],
            operands: vec![
                operand("y", Role::blended(scaling.beta), to_at, agree::byte_span(&to, y.data_type())?),
                operand("x", Role::Read, from_at, agree::byte_span(&from, x.data_type())?),
                grid,
            ],
            layouts: vec![Some(to), Some(from), None],
            ordered: agree::repeats(y, &to),
        })
    }

    /// Plans `cudnnSpatialTfSamplerBackward`; the factors are those of dx and of dgrid.
    ///
    /// # Errors
    /// In this order. Bad parameter: dims of x and dx, or types of x, dx and dy, that differ; N, H
    /// or W of dy that are not those of the descriptor. Not supported: in strict mode other types
    /// than FLOAT, DOUBLE and HALF; x of other than 4 dimensions; a descriptor of other than 4. Bad
    /// parameter: a dimension of it below 1; N or C of x that are not those of dy. Not supported:
    /// channels in groups that are not full, elements of different numbers of channels. Bad
    /// parameter: dx repeats an address through stride 0.
    pub fn backward(
        desc: &SpatialTransformerDescriptor, [x, dx, dy]: [&TensorDescriptor; 3],
        [scaling, grid_scaling]: [Scaling; 2], mode: Mode,
    ) -> Result<Self> {
        let [src, dst, out] = [("x", x), ("dx", dx), ("dy", dy)].map(|(name, tensor)| Named { name, tensor });
        agree::check_alike(dst, src)?;
        if out.tensor.data_type() != src.tensor.data_type() {
            return Err(Error::mismatch(format!(
                "dy is {:?} and x {:?}: the types must be equal",
                dy.data_type(),
                x.data_type()
            )));
        }
        let dim = |k: usize| desc.dims.get(k).copied().unwrap_or(0);
        [0, 2, 3].into_iter().try_for_each(|k| check_dim(out, k, dim(k), "as in stDesc"))?;
        strict::SAMPLER.check(&[src], mode)?;
        check_rank(src)?;
        let target = Target::new(desc)?;
        (0..2).try_for_each(|k| check_dim(src, k, dy.dims()[k], "as in dy"))?;
        agree::destination(dst)?;
        let ((from, from_at), (to, to_at)) = (pictures(src)?, pictures(dst)?);
        let (given, given_at) = pictures(out)?;
        check_channels(&[(src, &from), (dst, &to), (out, &given)])?;
        let data = Sample {
            function: SampleFunction::DataGradient,
            images: target.images,
            channels: given.dims[1],
            source: [to.dims[2], to.dims[3]],
            target: target.extents,
            x: to_at,
            y: given_at,
            grid: target.scalar,
            compute: Compute::of(&[to_at.scalar, target.scalar]),
            scaling,
        };
        let grid =
            Sample { function: SampleFunction::GridGradient, x: from_at, scaling: grid_scaling, ..data };
        let tensor = |name, role, layout: &Layout| -> Result<Operand> {
            let span = agree::byte_span(layout, x.data_type())?;
            Ok(Operand { name, role, scalar: x.data_type().scalar(), span })
        };
        let places = |name, role| -> Result<Operand> {
            Ok(Operand { name, role, scalar: target.scalar, span: target.grid_span()? })
        };
        Ok(SamplerPlan {
            steps: vec![(data, &[0, 3, 4]), (grid, &[1, 2, 3, 4])],
            operands: vec![
                tensor("dx", Role::blended(scaling.beta), &to)?,
                places("dgrid", Role::blended(grid_scaling.beta))?,
                tensor("x", Role::Read, &from)?,
                tensor("dy", Role::Read, &given)?,
                places("grid", Role::Read)?,
            ],
            layouts: vec![Some(to), None, Some(from), Some(given), None],
            ordered: agree::repeats(dx, &to),
        })
    }
}

impl Plan for SamplerPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        self.layouts[operand].as_ref()
    }

    fn is_ordered(&self) -> bool {
        self.ordered
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        self.steps.iter().try_for_each(|(step, slots)| sink(Step::Sample(step), slots))
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for SamplerPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
