//! Op tensor descriptors: create, set, get, destroy.

use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, results};
use super::beside::twinned;
use super::data_type;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    cudnnDataType_t, cudnnNanPropagation_t, cudnnOpTensorDescriptor_t, cudnnOpTensorOp_t, cudnnStatus_t,
};
use crate::desc::{Choice, OpTensorDescriptor};
use crate::error::Result;

static OP_TENSORS: Table<OpTensorDescriptor> = Table::new(Kind::OpTensor);
twinned!(cudnnOpTensorDescriptor_t, OP_TENSORS);

/// A copy of the descriptor behind a handle.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn get(desc: cudnnOpTensorDescriptor_t, argument: &'static str) -> Result<OpTensorDescriptor> {
    OP_TENSORS.get(desc.addr(), argument)
}

/// Creates an op tensor descriptor: ADD, computed in float.
///
/// Status: BAD_PARAM if `opTensorDesc` is NULL.
///
/// # Safety
/// `opTensorDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateOpTensorDescriptor(
    opTensorDesc: *mut cudnnOpTensorDescriptor_t,
) -> cudnnStatus_t {
    create!(opTensorDesc, OP_TENSORS)
}

/// Destroys an op tensor descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroyOpTensorDescriptor(opTensorDesc: cudnnOpTensorDescriptor_t) -> cudnnStatus_t {
    destroy!(opTensorDesc, OP_TENSORS)
}

/// Sets operation, compute type and NaN rule of cudnnOpTensor.
///
/// A failing call changes nothing.
///
/// Status: BAD_PARAM for a descriptor that is not alive, an unknown operation or NaN rule, or a compute type other than
/// FLOAT, DOUBLE, HALF and BFLOAT16.
///
/// Source: observed on 9.27.0.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetOpTensorDescriptor(
    opTensorDesc: cudnnOpTensorDescriptor_t, opTensorOp: MaybeUninit<cudnnOpTensorOp_t>,
    opTensorCompType: MaybeUninit<cudnnDataType_t>, opTensorNanOpt: MaybeUninit<cudnnNanPropagation_t>,
) -> cudnnStatus_t {
    OP_TENSORS.replace(opTensorDesc.addr(), "opTensorDesc", || {
        Ok(OpTensorDescriptor {
            op: arg::choice(opTensorOp, "opTensorOp")?,
            compute_type: data_type::one_of(
                OpTensorDescriptor::COMPUTE_TYPES,
                opTensorCompType,
                "opTensorCompType",
            )?,
            nan: arg::choice(opTensorNanOpt, "opTensorNanOpt")?,
        })
    })
}

/// Reads operation, compute type and NaN rule of cudnnOpTensor.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if any pointer is NULL (nothing is written then).
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetOpTensorDescriptor(
    opTensorDesc: cudnnOpTensorDescriptor_t, opTensorOp: *mut cudnnOpTensorOp_t,
    opTensorCompType: *mut cudnnDataType_t, opTensorNanOpt: *mut cudnnNanPropagation_t,
) -> cudnnStatus_t {
    let desc = OP_TENSORS.get(opTensorDesc.addr(), "opTensorDesc")?;
    results! {
        code opTensorOp = desc.op.code(),
        new opTensorCompType = data_type::encode(desc.compute_type),
        code opTensorNanOpt = desc.nan.code(),
    }
}
