//! Spatial transformers: their descriptors, grids of affine maps, sampling at a grid, and the gradients of both.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, operands};
use super::beside::twinned;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    cudnnDataType_t, cudnnHandle_t, cudnnSamplerType_t, cudnnSpatialTransformerDescriptor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t, raw,
};
use super::{context, data_type, tensor, transform};
use crate::desc::SpatialTransformerDescriptor;
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::Scaling;
use crate::ops::spatial_transformer::{GridPlan, SamplerPlan};

static SPATIAL_TRANSFORMERS: Table<SpatialTransformerDescriptor> = Table::new(Kind::SpatialTransformer);
twinned!(cudnnSpatialTransformerDescriptor_t, SPATIAL_TRANSFORMERS);

/// Creates a spatial transformer descriptor.
///
/// Status: BAD_PARAM if `stDesc` is NULL.
///
/// # Safety
/// `stDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateSpatialTransformerDescriptor(
    stDesc: *mut cudnnSpatialTransformerDescriptor_t,
) -> cudnnStatus_t {
    create!(stDesc, SPATIAL_TRANSFORMERS)
}

/// Destroys a spatial transformer descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroySpatialTransformerDescriptor(
    stDesc: cudnnSpatialTransformerDescriptor_t,
) -> cudnnStatus_t {
    destroy!(stDesc, SPATIAL_TRANSFORMERS)
}

/// Sets sampler, type and dimensions of a spatial transformer.
///
/// The only sampler is bilinear. nbDims and the dimensions are judged when used. A failing call changes nothing.
///
/// Status: BAD_PARAM for a descriptor that is not alive, another sampler or a NULL array; NOT_SUPPORTED for INT8;
/// BAD_PARAM for every type but FLOAT, DOUBLE and HALF.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `dimA` is NULL or valid for reads of `nbDims` ints (8 at most are read).
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetSpatialTransformerNdDescriptor(
    stDesc: cudnnSpatialTransformerDescriptor_t, samplerType: MaybeUninit<cudnnSamplerType_t>,
    dataType: MaybeUninit<cudnnDataType_t>, nbDims: c_int, dimA: *const c_int,
) -> cudnnStatus_t {
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
            // SAFETY: `dimA` is NULL or valid for reads of `nbDims` ints.
            dims: unsafe { arg::ints(dimA, nbDims, "dimA") }?,
        })
    })
}

fn get(desc: cudnnSpatialTransformerDescriptor_t) -> Result<SpatialTransformerDescriptor> {
    SPATIAL_TRANSFORMERS.get(desc.addr(), "stDesc")
}

/// Checks the pointer of a grid or of maps.
fn numbers(
    pointer: *const c_void, desc: &SpatialTransformerDescriptor, argument: &'static str,
) -> Result<()> {
    arg::data(pointer, desc.data_type.scalar().size(), argument)
}

/// `grid[n, h, w, i] = theta[n, i, 0] * x(w) + theta[n, i, 1] * y(h) + theta[n, i, 2]`, an affine map.
///
/// The grid says where each pixel of the target lies in the source.
/// `x(w) = (2 * w - (W - 1)) / (W - 1)` runs from -1 in the first column to 1 in the last, `y(h)` likewise down the rows; the
/// pixel of an axis of one lies at 0. Computed in the type of the descriptor, in float for HALF.
///
/// Operands
/// - `stDesc`: N x C x H x W of the target; C does not matter. Its type is that of theta and grid.
/// - `theta`: N x 2 x 3, packed; `grid`: N x H x W x 2, packed, x before y. Device memory on the CUDA core.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL data, or data off its element's alignment.
/// - NOT_SUPPORTED: a descriptor of other than 4 dimensions. BAD_PARAM: a dimension below 1.
///
/// Aliasing: theta and grid may overlap on the CPU core, as if all of theta were read first; the CUDA core refuses it with
/// NOT_SUPPORTED.
///
/// Source: statuses observed on 9.27.0; the formula is that of the vendor's documentation, with corners as its users have them.
///
/// # Safety
/// `theta` is NULL or valid for reads of all maps, `grid` for writes of the whole grid; no other thread writes either
/// meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSpatialTfGridGeneratorForward(
    handle: cudnnHandle_t, stDesc: cudnnSpatialTransformerDescriptor_t, theta: *const c_void,
    grid: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnSpatialTfGridGeneratorForward", |call| {
        let desc = get(stDesc)?;
        numbers(theta, &desc, "theta")?;
        numbers(grid, &desc, "grid")?;
        let plan = GridPlan::forward(&desc)?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans.
        unsafe { call.run(&plan, operands![grid, theta]) }
    })
}

/// `y = alpha * sample(x, grid) + beta * y`: x between its pixels at the places of a grid.
///
/// Coordinate -1 is the middle of the first pixel, 1 that of the last one: `p = (g + 1) * (extent - 1) / 2`. The four pixels
/// around a place are weighted by its distance from them; those outside x count as 0, so that coordinates far outside, and
/// NaNs, give 0. Computed in float, in double where a type needs it.
///
/// Operands
/// - `stDesc`: N x C x H x W of y; C does not matter. Its type is that of the grid.
/// - `x`: N x C x rows x columns, any type, strides and layout. `y`: N x C x H x W, its own type, strides and layout. With
///   beta = 0 it is never read.
/// - `grid`: N x H x W x 2, packed, x before y. Device memory on the CUDA core.
/// - `alpha`, `beta`: host `double` if y is DOUBLE, else `float`.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL data, or data off its element's alignment.
/// - NOT_SUPPORTED, in strict mode: types of x or y other than FLOAT, DOUBLE and HALF.
/// - NOT_SUPPORTED: x or `stDesc` of other than 4 dimensions.
/// - BAD_PARAM: N, H or W of y that are not those of `stDesc`; N or C of x that are not those of y (cuDNN compares
///   nothing).
/// - NOT_SUPPORTED: NCHW_VECT_C of a type of one channel. BAD_PARAM: y repeats an address through stride 0; NULL factors.
/// - NOT_SUPPORTED, on the CUDA core: elements of y that share an address.
///
/// Aliasing: y may overlap x and grid on the CPU core, as if both were read first; the CUDA core refuses it with
/// NOT_SUPPORTED.
///
/// Source: statuses observed on 9.27.0; the formula is that of the vendor's documentation, with corners as its users have them.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; data pointers are NULL or valid for reads of the whole span of their
/// descriptors, y for writes as well; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSpatialTfSamplerForward(
    handle: cudnnHandle_t, stDesc: cudnnSpatialTransformerDescriptor_t, alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t, x: *const c_void, grid: *const c_void, beta: *const c_void,
    yDesc: cudnnTensorDescriptor_t, y: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnSpatialTfSamplerForward", |call| {
        let desc = get(stDesc)?;
        let (from, to) = (tensor::get(xDesc, "xDesc")?, tensor::get(yDesc, "yDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) };
        tensor::data(x, &from, "x")?;
        numbers(grid, &desc, "grid")?;
        tensor::data(y, &to, "y")?;
        // What the original refuses of the tensors comes before the factors.
        let plan = |scaling| SamplerPlan::forward(&desc, &from, &to, scaling, Mode::current());
        plan(scaling.clone().unwrap_or(Scaling::MOVE))?;
        let plan = plan(scaling?)?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![y, x, grid]) }
    })
}

/// `dtheta[n, i, j]`: the sum over all positions of `dgrid[n, h, w, i]` times `x(w)`, `y(h)` or 1 for j = 0, 1 and 2.
///
/// `x(w)` and `y(h)` are those of cudnnSpatialTfGridGeneratorForward, rounded to the type that is computed in; products and
/// sums are in double, in a fixed order: the same bits on both cores and for any number of threads.
///
/// Operands
/// - `stDesc`: as for the forward call. `dgrid`: N x H x W x 2, packed. `dtheta`: N x 2 x 3, packed, written whole.
///
/// Workspace: none.
///
/// Status, in this order: as cudnnSpatialTfGridGeneratorForward, with dgrid for theta and dtheta for grid.
///
/// Aliasing: as cudnnSpatialTfGridGeneratorForward.
///
/// Source: as cudnnSpatialTfGridGeneratorForward.
///
/// # Safety
/// `dgrid` is NULL or valid for reads of the whole grid, `dtheta` for writes of all maps; no other thread writes either
/// meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSpatialTfGridGeneratorBackward(
    handle: cudnnHandle_t, stDesc: cudnnSpatialTransformerDescriptor_t, dgrid: *const c_void,
    dtheta: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnSpatialTfGridGeneratorBackward", |call| {
        let desc = get(stDesc)?;
        numbers(dgrid, &desc, "dgrid")?;
        numbers(dtheta, &desc, "dtheta")?;
        let plan = GridPlan::backward(&desc)?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans.
        unsafe { call.run(&plan, operands![dtheta, dgrid]) }
    })
}

/// `dx = alpha * sum of dy times the weight of each pixel + beta * dx`, the gradient of cudnnSpatialTfSamplerForward.
///
/// And `dgrid = alphaDgrid * sum over the channels of dy * d sample / d grid + betaDgrid * dgrid`.
///
/// Sums have a fixed order - of dx by the positions of the grid, row by row, of dgrid by the channels -, so that results are
/// the same bits in every run, on both cores and for any number of threads. The slope at a pixel's very middle is that to
/// its right.
///
/// Operands
/// - `stDesc`: N x C x H x W of dy; C does not matter. Its type is that of grid and dgrid.
/// - `x`, `dx`: N x C x rows x columns, any strides and layout each. `dy`: N x C x H x W, likewise. All of one type, any.
/// - `grid`, `dgrid`: N x H x W x 2, packed, x before y.
/// - With a beta of 0 what it blends is never read. Device memory on the CUDA core.
/// - `alpha`, `beta`: host `double` if dx is DOUBLE, else `float`; `alphaDgrid`, `betaDgrid`: the same of the type of `stDesc`.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL data or factors, or data off its element's alignment.
/// - BAD_PARAM: dims of x and dx, or types of x, dx and dy, that differ; N, H or W of dy that are not those of `stDesc`.
/// - NOT_SUPPORTED, in strict mode: types other than FLOAT, DOUBLE and HALF.
/// - NOT_SUPPORTED: x or `stDesc` of other than 4 dimensions.
/// - BAD_PARAM: N or C of x that are not those of dy (cuDNN does not compare them).
/// - NOT_SUPPORTED: NCHW_VECT_C of a type of one channel. BAD_PARAM: dx repeats an address through stride 0; dx and dgrid
///   that overlap.
/// - NOT_SUPPORTED, on the CUDA core: elements of dx that share an address.
///
/// Aliasing: dx and dgrid may overlap x, dy and grid on the CPU core, as if all of them were read first; the CUDA core
/// refuses it with NOT_SUPPORTED.
///
/// Source: statuses observed on 9.27.0.
///
/// # Safety
/// The factors are NULL or valid for one read; data pointers are NULL or valid for reads of the whole span of their
/// descriptors, dx and dgrid for writes as well; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSpatialTfSamplerBackward(
    handle: cudnnHandle_t, stDesc: cudnnSpatialTransformerDescriptor_t, alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t, x: *const c_void, beta: *const c_void, dxDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void, alphaDgrid: *const c_void, dyDesc: cudnnTensorDescriptor_t, dy: *const c_void,
    grid: *const c_void, betaDgrid: *const c_void, dgrid: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnSpatialTfSamplerBackward", |call| {
        let desc = get(stDesc)?;
        let (from, to) = (tensor::get(xDesc, "xDesc")?, tensor::get(dxDesc, "dxDesc")?);
        let given = tensor::get(dyDesc, "dyDesc")?;
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) }?;
        let is_double = desc.data_type == DataType::Double;
        // SAFETY: both factors are NULL or one readable number of their type.
        let grid_scaling = unsafe {
            Scaling {
                alpha: arg::factor(alphaDgrid, "alphaDgrid", is_double)?,
                beta: arg::factor(betaDgrid, "betaDgrid", is_double)?,
            }
        };
        tensor::data(x, &from, "x")?;
        tensor::data(dx, &to, "dx")?;
        tensor::data(dy, &given, "dy")?;
        numbers(grid, &desc, "grid")?;
        numbers(dgrid, &desc, "dgrid")?;
        let factors = [scaling, grid_scaling];
        let plan = SamplerPlan::backward(&desc, [&from, &to, &given], factors, Mode::current())?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![dx, dgrid, x, dy, grid]) }
    })
}
