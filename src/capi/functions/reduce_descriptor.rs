//! Reduce tensor descriptors: create, set, get, destroy.

use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, results};
use super::beside::twinned;
use super::data_type;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    cudnnDataType_t, cudnnIndicesType_t, cudnnNanPropagation_t, cudnnReduceTensorDescriptor_t,
    cudnnReduceTensorIndices_t, cudnnReduceTensorOp_t, cudnnStatus_t,
};
use crate::desc::{Choice, ReduceDescriptor};
use crate::error::Result;

static REDUCTIONS: Table<ReduceDescriptor> = Table::new(Kind::ReduceTensor);
twinned!(cudnnReduceTensorDescriptor_t, REDUCTIONS);

/// A copy of the descriptor behind a handle.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn get(desc: cudnnReduceTensorDescriptor_t, argument: &'static str) -> Result<ReduceDescriptor> {
    REDUCTIONS.get(desc.addr(), argument)
}

/// Creates a reduce tensor descriptor: ADD, computed in float, without indices.
///
/// Status: BAD_PARAM if `reduceTensorDesc` is NULL.
///
/// # Safety
/// `reduceTensorDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateReduceTensorDescriptor(
    reduceTensorDesc: *mut cudnnReduceTensorDescriptor_t,
) -> cudnnStatus_t {
    create!(reduceTensorDesc, REDUCTIONS)
}

/// Destroys a reduce tensor descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroyReduceTensorDescriptor(
    reduceTensorDesc: cudnnReduceTensorDescriptor_t,
) -> cudnnStatus_t {
    destroy!(reduceTensorDesc, REDUCTIONS)
}

/// Sets operation, compute type, NaN rule and indices of cudnnReduceTensor.
///
/// Indices can be asked of any operation. A failing call changes nothing.
///
/// Status: BAD_PARAM for a descriptor that is not alive, an unknown enumerator, or a compute type other than FLOAT,
/// DOUBLE and HALF.
///
/// Source: observed on 9.27.0.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetReduceTensorDescriptor(
    reduceTensorDesc: cudnnReduceTensorDescriptor_t, reduceTensorOp: MaybeUninit<cudnnReduceTensorOp_t>,
    reduceTensorCompType: MaybeUninit<cudnnDataType_t>,
    reduceTensorNanOpt: MaybeUninit<cudnnNanPropagation_t>,
    reduceTensorIndices: MaybeUninit<cudnnReduceTensorIndices_t>,
    reduceTensorIndicesType: MaybeUninit<cudnnIndicesType_t>,
) -> cudnnStatus_t {
    REDUCTIONS.replace(reduceTensorDesc.addr(), "reduceTensorDesc", || {
        Ok(ReduceDescriptor {
            op: arg::choice(reduceTensorOp, "reduceTensorOp")?,
            compute_type: data_type::one_of(
                ReduceDescriptor::COMPUTE_TYPES,
                reduceTensorCompType,
                "reduceTensorCompType",
            )?,
            nan: arg::choice(reduceTensorNanOpt, "reduceTensorNanOpt")?,
            indices: arg::choice(reduceTensorIndices, "reduceTensorIndices")?,
            index_type: arg::choice(reduceTensorIndicesType, "reduceTensorIndicesType")?,
        })
    })
}

/// Reads operation, compute type, NaN rule and indices of cudnnReduceTensor.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if any pointer is NULL (nothing is written then).
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetReduceTensorDescriptor(
    reduceTensorDesc: cudnnReduceTensorDescriptor_t, reduceTensorOp: *mut cudnnReduceTensorOp_t,
    reduceTensorCompType: *mut cudnnDataType_t, reduceTensorNanOpt: *mut cudnnNanPropagation_t,
    reduceTensorIndices: *mut cudnnReduceTensorIndices_t, reduceTensorIndicesType: *mut cudnnIndicesType_t,
) -> cudnnStatus_t {
    let desc = REDUCTIONS.get(reduceTensorDesc.addr(), "reduceTensorDesc")?;
    results! {
        code reduceTensorOp = desc.op.code(),
        new reduceTensorCompType = data_type::encode(desc.compute_type),
        code reduceTensorNanOpt = desc.nan.code(),
        code reduceTensorIndices = desc.indices.code(),
        code reduceTensorIndicesType = desc.index_type.code(),
    }
}
