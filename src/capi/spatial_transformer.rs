//! Spatial transformer descriptors: create, set, destroy.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use super::guard::entry_point;
use super::slab::{Kind, Table};
use super::types::{
    cudnnDataType_t, cudnnSamplerType_t, cudnnSpatialTransformerDescriptor_t, cudnnStatus_t, raw,
};
use super::{arg, data_type, lifecycle};
use crate::desc::SpatialTransformerDescriptor;
use crate::dtype::DataType;
use crate::error::Error;

static SPATIAL_TRANSFORMERS: Table<SpatialTransformerDescriptor> = Table::new(Kind::SpatialTransformer);

/// Creates a spatial transformer descriptor.
///
/// Status: BAD_PARAM if `stDesc` is NULL.
///
/// # Safety
/// `stDesc` is NULL or valid for one write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateSpatialTransformerDescriptor(
    stDesc: *mut cudnnSpatialTransformerDescriptor_t,
) -> cudnnStatus_t {
    let name = "cudnnCreateSpatialTransformerDescriptor";
    // SAFETY: as the caller promises.
    unsafe { lifecycle::create(name, &SPATIAL_TRANSFORMERS, stDesc, "stDesc") }
}

/// Destroys a spatial transformer descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroySpatialTransformerDescriptor(
    stDesc: cudnnSpatialTransformerDescriptor_t,
) -> cudnnStatus_t {
    lifecycle::destroy("cudnnDestroySpatialTransformerDescriptor", &SPATIAL_TRANSFORMERS, stDesc, "stDesc")
}

/// Sets sampler, type and dimensions of a spatial transformer.
///
/// The only sampler is bilinear. nbDims and the dimensions are judged when used. A failing call changes nothing.
///
/// Status (observed on 9.27.0): BAD_PARAM for a descriptor that is not alive, another sampler or a NULL array;
/// NOT_SUPPORTED for INT8; BAD_PARAM for every type but FLOAT, DOUBLE and HALF.
///
/// # Safety
/// `dimA` is NULL or valid for reads of `nbDims` ints (8 at most are read).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetSpatialTransformerNdDescriptor(
    stDesc: cudnnSpatialTransformerDescriptor_t,
    samplerType: MaybeUninit<cudnnSamplerType_t>,
    dataType: MaybeUninit<cudnnDataType_t>,
    nbDims: c_int,
    dimA: *const c_int,
) -> cudnnStatus_t {
    entry_point!(cudnnSetSpatialTransformerNdDescriptor(stDesc, samplerType, dataType, nbDims, dimA), || {
        SPATIAL_TRANSFORMERS.replace(stDesc.addr(), "stDesc", || {
            if raw(samplerType) != 0 {
                return Err(Error::argument("samplerType", raw(samplerType).into(), "0 bilinear"));
            }
            arg::required(dimA, "dimA")?;
            if data_type::known(raw(dataType)) == Some(DataType::Int8) {
                return Err(Error::unsupported("a spatial transformer of INT8"));
            }
            let types = [DataType::Float, DataType::Double, DataType::Half];
            Ok(SpatialTransformerDescriptor {
                data_type: data_type::one_of(&types, dataType, "dataType")?,
                rank: nbDims,
                // SAFETY: as the caller promises.
                dims: unsafe { arg::ints(dimA, nbDims, "dimA") }?,
            })
        })
    })
}
