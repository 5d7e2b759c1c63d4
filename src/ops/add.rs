//! AddTensor: a transform whose source is broadcast.

use super::agree::{self, Named};
use super::{FillPlan, Plan, Scaling, TransformPlan, strict};
use crate::desc::TensorDescriptor;
use crate::error::{Error, Result};
use crate::mode::Mode;

/// What `C = alpha * A + beta * C` comes down to.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "plans live on the stack, so that planning allocates nothing")]
pub enum AddPlan<'a> {
    /// A is read, element by element or repeatedly.
    Add(TransformPlan<'a>),
    /// `alpha == 0`: A is not read.
    Scale(FillPlan),
}

impl AddPlan<'_> {
    /// The plan to run: operands C and A, or C alone.
    pub fn as_plan(&self) -> &dyn Plan {
        match self {
            AddPlan::Add(plan) => plan,
            AddPlan::Scale(plan) => plan,
        }
    }
}

/// Plans `cudnnAddTensor`: A has the dims of C or 1, each by itself. Channels are counted one by
/// one, also those of INT8x4 and its kin.
///
/// # Errors
/// In this order. Bad parameter: types or ranks differ, in strict mode fewer than 4 dimensions, a
/// dim of A is neither 1 nor that of C. Not supported, in strict mode: more than 5 dimensions,
/// NCHW_VECT_C, other types than FLOAT, DOUBLE, HALF, INT8 and BFLOAT16. Bad parameter: C repeats
/// an address through stride 0. Not supported: dims that are equal in elements but not in channels.
pub fn plan<'a>(
    a: &TensorDescriptor, c: &'a TensorDescriptor, scaling: Scaling, mode: Mode,
) -> Result<AddPlan<'a>> {
    let (small, large) = (Named { name: "aDesc", tensor: a }, Named { name: "cDesc", tensor: c });
    if a.data_type() != c.data_type() {
        return Err(Error::mismatch(format!(
            "aDesc is {:?} and cDesc {:?}: the types must be equal",
            a.data_type(),
            c.data_type()
        )));
    }
    agree::check_rank(small, large)?;
    if mode.is_strict() {
        agree::strict_low_rank(large)?;
    }
    agree::check_broadcast(small, large, mode)?;
    if mode.is_strict() {
        agree::strict_form(small)?;
        agree::strict_form(large)?;
        strict::ADD.check(&[large], mode)?;
    }
    let dst = agree::destination(large)?;
    let src = agree::broadcast(small, large, &dst.dims)?;
    if scaling.alpha == 0.0 {
        return Ok(AddPlan::Scale(FillPlan::of(dst, c, "C", super::fill::Value::Times(scaling.beta))?));
    }
    Ok(AddPlan::Add(TransformPlan::of_layouts(src, dst, a, large, scaling)?))
}
