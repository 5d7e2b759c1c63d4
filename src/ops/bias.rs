//! ConvolutionBackwardBias: the sum of a gradient over every dimension but its channels.

use super::agree::{self, Named};
use super::{ReducePlan, Scaling};
use crate::desc::TensorDescriptor;
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;

/// Where the channels are.
const CHANNEL: usize = 1;

/// Plans `cudnnConvolutionBackwardBias`: `db = alpha * sum(dy) + beta * db`. Operands: db, dy.
///
/// # Errors
/// In this order. Bad parameter: ranks differ; in strict mode 2 dimensions. Not supported, in
/// strict mode: types other than FLOAT, DOUBLE and HALF; a stride that is not positive; more than 6
/// dimensions or fewer than 4. Not supported: types that differ, if one of them is none of these
/// three. Bad parameter: types or channels that differ; a dim of db other than C that is not 1; a
/// db that repeats an address through stride 0.
pub fn gradient(
    dy: &TensorDescriptor, db: &TensorDescriptor, scaling: Scaling, mode: Mode,
) -> Result<ReducePlan> {
    let (source, dest) = (Named { name: "dyDesc", tensor: dy }, Named { name: "dbDesc", tensor: db });
    agree::check_rank(dest, source)?;
    if dy.rank() < if mode.is_strict() { 3 } else { 2 } {
        return Err(Error::mismatch(format!(
            "dyDesc has {} dimensions: too few to have channels",
            dy.rank()
        )));
    }
    let usual = |tensor: &TensorDescriptor| {
        matches!(tensor.data_type(), DataType::Float | DataType::Double | DataType::Half)
    };
    let types = || format!("dyDesc is {:?} and dbDesc {:?}", dy.data_type(), db.data_type());
    let (all_usual, equal) = (usual(dy) && usual(db), dy.data_type() == db.data_type());
    if !all_usual && (mode.is_strict() || !equal) {
        return Err(Error::unsupported(types()));
    }
    if mode.is_strict() {
        for tensor in [dy, db] {
            if let Some(&stride) = tensor.strides().iter().find(|&&stride| stride <= 0) {
                return Err(Error::unsupported(format!("strict mode: a stride of {stride}")));
            }
        }
        if !(4..=6).contains(&dy.rank()) {
            return Err(Error::unsupported(format!("strict mode: {} dimensions", dy.rank())));
        }
    }
    if !equal {
        return Err(Error::mismatch(format!("{}: the types must be equal", types())));
    }
    let (dims, sums) = (dy.dims(), db.dims());
    for (k, &sum) in sums.iter().enumerate() {
        let wanted = if k == CHANNEL { dims[CHANNEL] } else { 1 };
        if sum != wanted {
            let rule = format!("dbDesc must have {wanted} here, for dyDesc of {dims}");
            return Err(Error::element("dimA", k, sum, rule));
        }
    }
    ReducePlan::sum(dest, source, ["db", "dy"], scaling)
}
