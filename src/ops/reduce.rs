//! ReduceTensor: from two tensors to the loops over outputs and the sequence that each output
//! reduces.

use std::fmt;

use super::agree::{self, Named};
pub use super::chunks::{Partition, Schedule};
use super::plan::{self, ABSENT, Operand, Plan, Role, Step, StepSink};
use super::reduction::Reduction;
use super::tree::Tree;
use super::{Compute, Scaling, Sequence};
use crate::desc::{IndexType, ReduceDescriptor, ReduceIndices, ReduceOp, TensorDescriptor};
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};
use crate::layout::{self, Dims, Layout, LoopNest};
use crate::mode::Mode;

/// The integer type of indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indices {
    /// `CUDNN_32BIT_INDICES`
    Bits32,
    /// `CUDNN_64BIT_INDICES`
    Bits64,
    /// `CUDNN_16BIT_INDICES`
    Bits16,
    /// `CUDNN_8BIT_INDICES`
    Bits8,
}

impl Indices {
    /// Bytes of one index.
    pub const fn size(self) -> usize {
        match self {
            Indices::Bits32 => 4,
            Indices::Bits64 => 8,
            Indices::Bits16 => 2,
            Indices::Bits8 => 1,
        }
    }
}

/// What a reduce-tensor descriptor asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    reduction: Reduction,
    /// The computation type as the caller named it.
    computation: DataType,
    /// The type of indices, if they are wanted.
    indices: Option<Indices>,
}

impl From<&ReduceDescriptor> for Rule {
    fn from(desc: &ReduceDescriptor) -> Self {
        let nan = desc.nan.into();
        Rule {
            reduction: match desc.op {
                ReduceOp::Add => Reduction::Add,
                ReduceOp::Mul => Reduction::Mul,
                ReduceOp::Min => Reduction::Min(nan),
                ReduceOp::Max => Reduction::Max(nan),
                ReduceOp::Amax => Reduction::Amax(nan),
                ReduceOp::Avg => Reduction::Avg,
                ReduceOp::Norm1 => Reduction::Norm1,
                ReduceOp::Norm2 => Reduction::Norm2,
                ReduceOp::MulNoZeros => Reduction::MulNoZeros,
            },
            computation: desc.compute_type,
            indices: match desc.indices {
                ReduceIndices::None => None,
                ReduceIndices::Flattened => Some(match desc.index_type {
                    IndexType::Bits32 => Indices::Bits32,
                    IndexType::Bits64 => Indices::Bits64,
                    IndexType::Bits16 => Indices::Bits16,
                    IndexType::Bits8 => Indices::Bits8,
                }),
            },
        }
    }
}

/// `dst = convert(alpha * r + beta * dst)` with `r` the reduction of the sequence, for every
/// output.
///
/// Elements are converted to the computation type and mapped (absolute value, square), then joined
/// in [the tree of runs](Tree::RUNS), starting from the identity. So a sum of n numbers of one sign
/// is off by at most `26 + log2(n)` roundings.
#[derive(Clone, Copy)]
pub struct Reduce {
    /// One element per output: operand 0 dst, 1 the source's start of the sequence, 2 the output's
    /// place among the packed indices. Canonical.
    pub outputs: LoopNest<3>,
    /// What each output reduces. Canonical.
    pub sequence: Sequence,
    /// Scalar type of the destination.
    pub dst: Scalar,
    /// Scalar type of the source.
    pub src: Scalar,
    /// The type in which elements are joined.
    pub compute: Compute,
    /// How they are joined.
    pub reduction: Reduction,
    /// Alpha and beta.
    pub scaling: Scaling,
    /// The type of the indices to write, if any.
    pub indices: Option<Indices>,
    /// Bytes of workspace that a core may use; with fewer the bits are the same.
    pub workspace: usize,
}

impl Reduce {
    /// Elements per block.
    pub const BLOCK: usize = Tree::RUNS.block;
    /// Lanes per block.
    pub const LANES: usize = Tree::RUNS.lanes;
}

/// Types, factors and loops in one line, for the log.
impl fmt::Display for Reduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reduce { outputs, sequence, dst, src, compute, reduction, scaling, indices, workspace } = self;
        let compute = compute.scalar().name();
        write!(f, "reduce {reduction:?} {}->{compute}->{} alpha={} ", src.name(), dst.name(), scaling.alpha)?;
        write!(f, "beta={} ", scaling.beta)?;
        if let Some(indices) = indices {
            write!(f, "indices={} ", 8 * indices.size())?;
        }
        if *workspace > 0 {
            write!(f, "workspace={workspace} ")?;
        }
        write!(f, "outputs {outputs} each of")?;
        sequence.pieces().iter().try_for_each(|piece| write!(f, " {piece}"))
    }
}

/// `C = alpha * reduce(A) + beta * C`, checked and ready to run on any core.
#[derive(Clone, Copy, Debug)]
pub struct ReducePlan {
    a: Layout,
    c: Layout,
    /// Which dimensions are reduced: those where C has one element and A more. Where an element
    /// holds several channels, each channel is reduced with those in its place in the other
    /// elements.
    reduced: [bool; layout::MAX_RANK],
    rule: Rule,
    scaling: Scaling,
    types: [Scalar; 2],
    /// C, indices, A, workspace; of a plain sum C and A.
    operands: [Operand; 4],
    is_sum: bool,
    ordered: bool,
}

impl ReducePlan {
    /// Plans `cudnnReduceTensor` over the dimensions where C has extent 1. Elements of several
    /// channels (INT8x4 and its kin) are reduced to one such element channel by channel.
    ///
    /// # Errors
    /// In this order. Bad parameter: ranks differ; in strict mode 2 dimensions; a dim of C is
    /// neither that of A nor 1; in strict mode nothing is reduced; a pair of types that the
    /// original refuses so. Not supported: in strict mode other types. Bad parameter: C repeats an
    /// address through stride 0. Not supported: one element of C of several channels for many of A
    /// of another number; indices that do not fit their type.
    pub fn new(
        desc: &ReduceDescriptor, a: &TensorDescriptor, c: &TensorDescriptor, scaling: Scaling, mode: Mode,
    ) -> Result<Self> {
        let mut rule = Rule::from(desc);
        let (source, dest) = (Named { name: "aDesc", tensor: a }, Named { name: "cDesc", tensor: c });
        agree::check_rank(dest, source)?;
        if mode.is_strict() && a.rank() < 3 {
            return Err(Error::mismatch("strict mode reduces 3 to 8 dimensions"));
        }
        agree::check_broadcast(dest, source, mode)?;
        if mode.is_strict() && a.dims() == c.dims() {
            return Err(Error::mismatch("strict mode: no dimension is reduced"));
        }
        check_types(rule.computation, a.data_type(), c.data_type(), mode)?;
        if !rule.reduction.selects() {
            rule.indices = None;
        } else if mode.is_strict() && rule.indices.is_some() {
            // The original asks for 4 bytes per index whatever their type, so more must not be
            // written.
            rule.indices = Some(Indices::Bits32);
        }
        ReducePlan::of(rule, dest, source, ["C", "A"], scaling)
    }

    /// Plans the sum of what `source` has over every dimension where `dest` has one element, in
    /// binary64 for DOUBLE, else in binary32. `names` are those of the data pointers, destination
    /// first. Pre: the dims were compared.
    ///
    /// # Errors
    /// As [`ReducePlan::new`], from the destination's layout on.
    pub(super) fn sum(
        dest: Named<'_>, source: Named<'_>, names: [&'static str; 2], scaling: Scaling,
    ) -> Result<Self> {
        let computation = source.tensor.data_type();
        let rule = Rule { reduction: Reduction::Add, computation, indices: None };
        let mut plan = ReducePlan::of(rule, dest, source, names, scaling)?;
        plan.operands.swap(1, 2);
        plan.is_sum = true;
        Ok(plan)
    }

    fn of(
        rule: Rule, dest: Named<'_>, source: Named<'_>, names: [&'static str; 2], scaling: Scaling,
    ) -> Result<Self> {
        let (a, c) = (source.tensor, dest.tensor);
        let c_layout = agree::destination(dest)?;
        let a_layout = a.layout()?;
        agree::broadcast(dest, source, &a_layout.dims)?;
        let types = [c.data_type().scalar(), a.data_type().scalar()];
        let operands = [
            Operand {
                name: names[0],
                role: Role::blended(scaling.beta),
                scalar: types[0],
                span: agree::byte_span(c_layout, c.data_type())?,
            },
            Operand { role: Role::Write, ..Operand::untouched("indices", Scalar::U8) },
            Operand {
                name: names[1],
                role: Role::Read,
                scalar: types[1],
                span: agree::byte_span(a_layout, a.data_type())?,
            },
            Operand { role: Role::Scratch, ..Operand::untouched("workspace", Scalar::U8) },
        ];
        let mut plan = ReducePlan {
            a: *a_layout,
            c: *c_layout,
            reduced: std::array::from_fn(|k| {
                k < c_layout.dims.rank() && c_layout.dims[k] != a_layout.dims[k]
            }),
            rule,
            scaling,
            types,
            operands,
            is_sum: false,
            ordered: agree::repeats(c, c_layout),
        };
        let count: i64 = plan.reduced_dims().iter().product();
        if let Some(indices) = plan.rule.indices
            && indices.size() < 8
            && (count - 1) >> (8 * indices.size()) != 0
        {
            let bits = 8 * indices.size();
            return Err(Error::unsupported(format!("indices of {count} elements do not fit {bits} bits")));
        }
        if count == 1 && rule.reduction == Reduction::Norm2 {
            // The norm of one number is its absolute value, which squares may not be able to hold.
            plan.rule.reduction = Reduction::Norm1;
        }
        plan.operands[1].span.1 = plan.indices_bytes() as i64;
        Ok(plan)
    }

    /// How many elements each output reduces along every dimension, 1 along those that are not
    /// reduced.
    fn reduced_dims(&self) -> Dims {
        let mut dims = self.a.dims;
        for (k, dim) in dims.iter_mut().enumerate() {
            *dim = if self.reduced[k] { *dim / self.c.dims[k] } else { 1 };
        }
        dims
    }

    /// Which operand is A.
    fn source(&self) -> usize {
        if self.is_sum { 1 } else { 2 }
    }

    /// Bytes that the indices of all outputs take; 0 if none are written.
    pub fn indices_bytes(&self) -> usize {
        self.rule.indices.map_or(0, |indices| self.c.dims.iter().product::<i64>() as usize * indices.size())
    }

    /// The plan with these bytes at the workspace.
    pub fn with_workspace(mut self, bytes: usize) -> Self {
        self.operands[3].span = (0, i64::try_from(bytes).unwrap_or(i64::MAX));
        self
    }

    /// Hands every problem to `sink`, less the padding of a blocked C. Nests are canonical, the one
    /// over outputs unless the plan is ordered.
    ///
    /// # Errors
    /// The first of `sink`, which ends the plan.
    pub fn for_each(&self, sink: &mut dyn FnMut(&Reduce) -> Result<()>) -> Result<()> {
        let sequence = self.sequence()?;
        // C repeats over the reduced dimensions, of which one element is left in both: one channel
        // or, split off, several.
        let kept = |layout: &Layout| {
            let mut kept = *layout;
            for k in (0..kept.dims.rank()).filter(|&k| self.reduced[k]) {
                (kept.dims[k], kept.strides[k]) = (self.c.dims[k], 0);
                kept.split = kept.split.filter(|s| s.axis() != k || kept.dims[k] > 1);
            }
            kept
        };
        let (c, a) = (kept(&self.c), kept(&self.a));
        let places = if self.rule.indices.is_some() {
            agree::row_major(&c.dims)
        } else {
            Dims::filled(c.dims.rank(), 0)
        };
        let places = Layout { dims: c.dims, strides: places, split: None };
        let mut outcome = Ok(());
        layout::nests([&c, &a, &places], &mut |outputs| {
            if !self.ordered {
                outputs.canonicalise();
            }
            let problem = Reduce {
                outputs: *outputs,
                sequence,
                dst: self.types[0],
                src: self.types[1],
                compute: match self.rule.computation {
                    DataType::Double => Compute::Double,
                    _ => Compute::Single,
                },
                reduction: self.rule.reduction,
                scaling: self.scaling,
                indices: self.rule.indices,
                workspace: self.operands[3].span.1 as usize,
            };
            if outcome.is_ok() {
                outcome = sink(&problem);
            }
        });
        outcome
    }

    /// What every output reduces, relative to its start in A.
    fn sequence(&self) -> Result<Sequence> {
        let dims = self.reduced_dims();
        let mut a = self.a;
        a.dims = dims;
        // Channels of one element go to outputs of their own: what is left is the way from element
        // to element.
        a.split = a.split.filter(|s| self.reduced[s.axis()] && self.c.dims[s.axis()] == 1);
        let strides =
            if self.rule.indices.is_some() { agree::row_major(&dims) } else { Dims::filled(dims.rank(), 0) };
        let index = Layout { dims, strides, split: None };
        let mut sequence = Sequence { pieces: [LoopNest::new(&[], [0; 2]); 2], count: 0 };
        layout::nests([&a, &index], &mut |nest| {
            if let Some(piece) = sequence.pieces.get_mut(sequence.count) {
                nest.canonicalise();
                *piece = *nest;
            }
            sequence.count += 1;
        });
        if sequence.count > sequence.pieces.len() {
            return Err(Error::Internal("a blocked axis fell into more than two pieces".into()));
        }
        Ok(sequence)
    }
}

impl Plan for ReducePlan {
    fn operands(&self) -> &[Operand] {
        &self.operands[..if self.is_sum { 2 } else { 4 }]
    }

    /// Where each output reduces the one element that lies where it lies itself.
    fn works_in_place(&self, read: usize, write: usize) -> bool {
        (read, write) == (self.source(), 0)
            && self.types[0].size() == self.types[1].size()
            && !self.reduced.contains(&true)
            && agree::same_place(&self.a, &self.c)
            && !self.ordered
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        match operand {
            0 => Some(&self.c),
            _ => (operand == self.source()).then_some(&self.a),
        }
    }

    /// Then outputs must be computed in the order of the dimensions.
    fn is_ordered(&self) -> bool {
        self.ordered
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        let slots = if self.is_sum { [0, ABSENT, 1, ABSENT] } else { [0, 1, 2, 3] };
        self.for_each(&mut |problem| sink(Step::Reduce(problem), &slots))?;
        let tail = super::fill::zero_tail(&self.c, self.types[0], self.ordered);
        tail.map_or(Ok(()), |tail| sink(Step::Scale(&tail), &[0]))
    }

    fn is_one_step(&self) -> bool {
        self.a.split.is_none() && self.c.split.is_none()
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for ReducePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}

/// Bytes of workspace that the size query reports at least: a size of 0 would leave a driver-level
/// allocation nothing to allocate.
pub const WORKSPACE_BYTES: usize = 16;

/// Bytes of workspace that the size query reports, whatever the core: room for the chunks of few,
/// long outputs. With less, the CUDA core computes the same bits by fewer threads; the CPU core
/// uses none.
pub fn workspace_size(
    desc: &ReduceDescriptor, a: &TensorDescriptor, c: &TensorDescriptor, mode: Mode,
) -> usize {
    let mut size = WORKSPACE_BYTES;
    // What cannot be planned will be refused by the call itself.
    if let Ok(plan) = ReducePlan::new(desc, a, c, Scaling::MOVE, mode)
        && !plan.is_ordered()
    {
        let _ = plan.for_each(&mut |problem| {
            if !problem.outputs.is_empty() {
                size = size.max(problem.workspace_bytes(problem.partition(problem.schedule())));
            }
            Ok(())
        });
    }
    size
}

/// Bytes of indices that the size query reports.
///
/// The original asks for 4 bytes per output whatever the type (observed on 9.27.0); we ask for 8
/// where they are needed, but for no less than it does.
///
/// # Errors
/// Bad parameter: ranks differ or the shape of C is no reduction of that of A.
pub fn indices_size(
    desc: &ReduceDescriptor, a: &TensorDescriptor, c: &TensorDescriptor, mode: Mode,
) -> Result<usize> {
    let (source, dest) = (Named { name: "aDesc", tensor: a }, Named { name: "cDesc", tensor: c });
    agree::check_broadcast(dest, source, mode)?;
    let Some(indices) = Rule::from(desc).indices else { return Ok(0) };
    let width = if mode.is_strict() { 4 } else { indices.size().max(4) };
    let outputs = c.layout()?.dims.product().and_then(|n| usize::try_from(n).ok());
    outputs
        .and_then(|n| n.checked_mul(width))
        .ok_or_else(|| Error::unsupported("the indices take more than 64 bits can count"))
}

/// Refuses type pairs as the original does (observed on 9.27.0); outside strict mode only its bad
/// parameters.
fn check_types(computation: DataType, a: DataType, c: DataType, mode: Mode) -> Result<()> {
    use DataType::{Double, Float, Half, Int8};
    let text = || format!("types {a:?} -> {c:?}, computed in {computation:?}");
    let pairs =
        [(Float, Double), (Double, Float), (Double, Half), (Double, Int8), (Half, Double), (Half, Int8)];
    if pairs.contains(&(a, c)) || matches!((a, c), (Int8, Double | Half)) {
        return Err(Error::mismatch(text()));
    }
    let done = matches!(
        (computation, a, c),
        (Float, Float, Float | Half | Int8)
            | (Float, Half, Float | Half)
            | (Float, Int8, Float | Int8)
            | (Double, Double, Double)
    );
    if mode.is_strict() && !done {
        return Err(Error::unsupported(text()));
    }
    Ok(())
}
