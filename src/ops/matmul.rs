//! Products of matrices: one contraction of two tensors, with leading dimensions as a batch.

use std::fmt;

use super::agree::{self, Named};
use super::contract::{Accumulate, Side, Terms};
use super::plan::{self, Operand, Plan, Role, Step, StepSink};
use super::{Contract, Scaling};
use crate::desc::TensorDescriptor;
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};
use crate::layout::Layout;

/// `C = alpha * A B + beta * C`, checked and ready to run on any core.
#[derive(Clone, Copy)]
pub struct MatmulPlan {
    /// C, A, B.
    operands: [Operand; 3],
    layouts: [Layout; 3],
    step: Contract,
}

impl MatmulPlan {
    /// Plans `cudnnShimMatmul`:
    /// `C[.., m, n] = alpha * sum over k of A[.., m, k] B[.., k, n] + beta * C[.., m, n]`.
    /// Dimensions in front of the last two are a batch, where those of A and of B may be 1 to serve
    /// every product.
    ///
    /// # Errors
    /// In this order. Bad parameter: a descriptor that was never set; ranks that differ. Not
    /// supported: layouts in blocks. Bad parameter: dims that do not fit. Not supported: A or B of
    /// INT32, INT64 or BOOLEAN, and C of BOOLEAN. Bad parameter: C reaches an address twice. Not
    /// supported: offsets beyond 64 bits.
    pub fn new([a, b, c]: [&TensorDescriptor; 3], scaling: Scaling) -> Result<Self> {
        let (a, b, c) = (named("aDesc", a), named("bDesc", b), named("cDesc", c));
        let all = [c, a, b];
        agree::check_rank(a, c)?;
        agree::check_rank(b, c)?;
        let mut layouts = [*agree::destination(c)?, *a.tensor.layout()?, *b.tensor.layout()?];
        if let Some(at) = layouts.iter().position(|layout| layout.split.is_some()) {
            return Err(Error::unsupported(format!("{} has channels in blocks", all[at].name)));
        }
        check_dims(all)?;
        check_types(all)?;
        if agree::repeats(c.tensor, &layouts[0]) {
            return Err(Error::mismatch("cDesc is a destination, which may not reach an address twice"));
        }
        let scalars = all.map(|named| named.tensor.data_type().scalar());
        let untouched = |at: usize| at > 0 && scaling.alpha == 0.0;
        let mut operands = ["C", "A", "B"].map(|name| Operand::untouched(name, scalars[0]));
        for (at, (operand, named)) in operands.iter_mut().zip(all).enumerate() {
            operand.scalar = scalars[at];
            operand.role = if at == 0 { Role::blended(scaling.beta) } else { Role::Read };
            if !untouched(at) {
                operand.span = agree::span(named.tensor)?;
            }
        }
        let depth = layouts[1].dims[layouts[1].dims.rank() - 1];
        let [dst, factor, other] = scalars;
        let accumulate = Accumulate::of_bytes([factor, other], Some(depth))
            .unwrap_or(if scalars.contains(&Scalar::F64) { Accumulate::Double } else { Accumulate::Single });
        let side = |at: usize, scalar| Side { layout: &layouts[at], scalar };
        let terms = Terms::scaled(scaling);
        let mut sum = Contract::matmul(side(0, dst), side(1, factor), side(2, other), accumulate, &terms)?;
        sum.allow_tiles = crate::mode::allows_tiles();
        let step = if scaling.alpha == 0.0 { sum.without_sum() } else { sum.canonical() };
        // Of what is not read nobody asks where it lies.
        if scaling.alpha == 0.0 {
            layouts[1] = layouts[0];
            layouts[2] = layouts[0];
        }
        Ok(MatmulPlan { operands, layouts, step })
    }
}

const fn named<'a>(name: &'static str, tensor: &'a TensorDescriptor) -> Named<'a> {
    Named { name, tensor }
}

/// Refuses dims that do not fit: first of A, then of B. Pre: equal ranks.
fn check_dims([c, a, b]: [Named<'_>; 3]) -> Result<()> {
    let of = |named: Named<'_>| named.tensor.dims();
    let (wanted, rows, columns) = (of(c), of(c).rank() - 2, of(c).rank() - 1);
    for (factor, shared) in [(a, rows), (b, columns)] {
        let dims = of(factor);
        let wrong = (0..rows).find(|&axis| dims[axis] != wanted[axis] && dims[axis] != 1);
        if let Some(axis) = wrong {
            let rule = format!("{} takes 1 here or the {} of cDesc", factor.name, wanted[axis]);
            return Err(Error::element("dimA", axis, dims[axis], rule));
        }
        if dims[shared] != wanted[shared] {
            let rule = format!("{} must have the {} of cDesc here", factor.name, wanted[shared]);
            return Err(Error::element("dimA", shared, dims[shared], rule));
        }
    }
    let (depth, found) = (of(a)[columns], of(b)[rows]);
    if found != depth {
        let rule = format!("bDesc must have {depth} rows, as many as aDesc has columns");
        return Err(Error::element("dimA", rows, found, rule));
    }
    Ok(())
}

/// Refuses factors of types that are not multiplied, and products of one that is not written.
fn check_types([c, a, b]: [Named<'_>; 3]) -> Result<()> {
    let data_type = |named: Named<'_>| named.tensor.data_type();
    let multiplied =
        |data_type: DataType| !matches!(data_type, DataType::Int32 | DataType::Int64 | DataType::Boolean);
    for factor in [a, b] {
        if !multiplied(data_type(factor)) {
            return Err(Error::unsupported(format!(
                "{} is {:?}, no type that matrices are multiplied in",
                factor.name,
                data_type(factor)
            )));
        }
    }
    if data_type(c) == DataType::Boolean {
        return Err(Error::unsupported("cDesc is Boolean, no type of products"));
    }
    Ok(())
}

impl Plan for MatmulPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        Some(&self.layouts[operand])
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        sink(Step::Contract(&self.step), &[0, 1, 2])
    }

    fn is_one_step(&self) -> bool {
        true
    }
}

/// Its step, as the log shows it.
impl fmt::Display for MatmulPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
