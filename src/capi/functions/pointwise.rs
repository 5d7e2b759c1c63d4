//! AddTensor, OpTensor, SetTensor and ScaleTensor.

use std::ffi::c_void;

use cudnn_shim_macros::entry;

use super::arg::{self, operands};
use super::types::{cudnnHandle_t, cudnnOpTensorDescriptor_t, cudnnStatus_t, cudnnTensorDescriptor_t};
use super::{context, op_descriptor, tensor, transform};
use crate::dtype::{DataType, Scalar};
use crate::error::Result;
use crate::mode::Mode;
use crate::ops::add;
use crate::ops::{FillPlan, Number, OpPlan, op::Factors};

/// `C = alpha * A + beta * C`, where each dimension of A is that of C or 1.
///
/// An extent of 1 in A serves every coordinate of C, so a bias is A of 1 x C x 1 x 1. Channels are counted one by one,
/// whatever elements hold: two elements of INT8x4 go with eight channels of it under NCHW_VECT_C, and a single one serves
/// every element of as many. Computed in float, in double for DOUBLE, INT32 and INT64, and rounded once, to nearest even;
/// integers saturate. Padding channels of a blocked C are written as zero.
///
/// Operands
/// - `A`, `C`: one type and one rank (2 to 8), any strides and layouts each. Pointers are to the element of coordinates 0,
///   aligned to one element, on the host for the CPU core, on the device for the CUDA core.
/// - `alpha`, `beta`: host `double` if C is DOUBLE, else `float`. With beta = 0, C is never read; with alpha = 0, A is not.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL factors; NULL data, or data off its element's alignment.
/// - BAD_PARAM: types or ranks that differ; in strict mode 2 and 3 dimensions; a dimension of A that is neither 1 nor that
///   of C.
/// - NOT_SUPPORTED, in strict mode: 6 to 8 dimensions; NCHW_VECT_C; types that cuDNN refuses.
/// - NOT_SUPPORTED: NCHW_VECT_C of a type of one channel. BAD_PARAM: C repeats an address through stride 0.
/// - NOT_SUPPORTED: dimensions that are equal in elements but not in channels.
///
/// Aliasing: the CPU core takes A and C that overlap or are equal, as if all of A were read first; the CUDA core refuses it
/// with NOT_SUPPORTED unless every element is its own source. A failing call writes nothing.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; `A` is NULL or valid for reads of the whole span of `aDesc`,
/// `C` for reads and writes of that of `cDesc`; no other thread writes either meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnAddTensor(
    handle: cudnnHandle_t, alpha: *const c_void, aDesc: cudnnTensorDescriptor_t, A: *const c_void,
    beta: *const c_void, cDesc: cudnnTensorDescriptor_t, C: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnAddTensor", |call| {
        let (a, c) = (tensor::get(aDesc, "aDesc")?, tensor::get(cDesc, "cDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, c.data_type()) }?;
        tensor::data(A, &a, "A")?;
        tensor::data(C, &c, "C")?;
        let plan = add::plan(&a, &c, scaling, Mode::current())?;
        let plan = plan.as_plan();
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(plan, operands![C, A]) }
    })
}

/// `C = op(alpha1 * A, alpha2 * B) + beta * C`, where each dimension of A and of B is that of C or 1.
///
/// ADD, MUL, MIN, MAX; SQRT is `sqrt(alpha1 * A)` and NOT is `1 - alpha1 * A`: neither reads B, which must be there
/// all the same. MIN and MAX of a NaN and a number are the number or NaN, as the descriptor says; -0 is less than 0.
/// Every element is converted to the computation type (double for DOUBLE, else float, also for HALF and BFLOAT16),
/// computed there, and rounded once to the type of C; integers saturate and take NaN as 0. Channels are counted one by
/// one, as for cudnnAddTensor. Padding channels of a blocked C are written as zero.
///
/// Operands
/// - `A`, `B`, `C`: A and B of one type; all three of one rank (2 to 8), any strides and layouts each; memory as in
///   cudnnAddTensor.
/// - `alpha1`, `alpha2`, `beta`: host `double` if the computation type is DOUBLE, else `float`. With beta = 0, C is never
///   read; a term of ADD whose factor is 0 is left out and its operand not read.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL factors; NULL data, or data off its element's alignment.
/// - BAD_PARAM: types of A and B that differ, or a combination that cuDNN refuses so; ranks that differ; in strict
///   mode 2 and 3 dimensions, and A of other dims than C; a dimension of A or B that is neither 1 nor that of C; in strict
///   mode B = C.
/// - NOT_SUPPORTED, in strict mode: 6 to 8 dimensions; NCHW_VECT_C; other types.
/// - NOT_SUPPORTED: NCHW_VECT_C of a type of one channel. BAD_PARAM: C repeats an address through stride 0.
/// - NOT_SUPPORTED: dimensions that are equal in elements but not in channels; one element of several channels beside many
///   of another number.
///
/// Aliasing: the CPU core takes A and B that overlap C or are C, as if all of them were read first; the CUDA core refuses it
/// with NOT_SUPPORTED unless every element is its own operand. A failing call writes nothing.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// The factors are NULL or valid for one read; `A` and `B` are NULL or valid for reads of the whole spans of their
/// descriptors, `C` for reads and writes of that of `cDesc`; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnOpTensor(
    handle: cudnnHandle_t, opTensorDesc: cudnnOpTensorDescriptor_t, alpha1: *const c_void,
    aDesc: cudnnTensorDescriptor_t, A: *const c_void, alpha2: *const c_void, bDesc: cudnnTensorDescriptor_t,
    B: *const c_void, beta: *const c_void, cDesc: cudnnTensorDescriptor_t, C: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnOpTensor", |call| {
        let rule = op_descriptor::get(opTensorDesc, "opTensorDesc")?;
        let (a, b, c) =
            (tensor::get(aDesc, "aDesc")?, tensor::get(bDesc, "bDesc")?, tensor::get(cDesc, "cDesc")?);
        // SAFETY: each factor is NULL or one readable number of its type.
        let factors = unsafe {
            let factor = |pointer, name| arg::factor(pointer, name, rule.compute_type == DataType::Double);
            Factors {
                alpha: [factor(alpha1, "alpha1")?, factor(alpha2, "alpha2")?],
                beta: factor(beta, "beta")?,
            }
        };
        tensor::data(A, &a, "A")?;
        tensor::data(B, &b, "B")?;
        tensor::data(C, &c, "C")?;
        let b_is_c = B.addr() == C.addr();
        let plan = OpPlan::new(&rule, [&a, &b, &c], factors, b_is_c, Mode::current())?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![C, A, B]) }
    })
}

/// `y = value`, every element.
///
/// Gaps between elements are not written; padding channels of a blocked y become zero.
///
/// Operands
/// - `y`: any rank, strides and layout; memory as in cudnnAddTensor. Never read.
/// - `valuePtr`: a host `double` for DOUBLE, `float` for the other floating types, and the tensor's own type for integers
///   (for INT8x4 one `int8_t`, for BOOLEAN one byte). It is rounded once, to nearest even.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; a NULL pointer, or data off its element's alignment.
/// - NOT_SUPPORTED, in strict mode: other ranks than 4 and 5; NCHW_VECT_C; integer types but INT8.
/// - NOT_SUPPORTED: a descriptor that was never set; NCHW_VECT_C of a type of one channel.
/// - BAD_PARAM: y repeats an address through stride 0.
///
/// Aliasing: there is one operand. A failing call writes nothing.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `valuePtr` is NULL or valid for one read; `y` is NULL or valid for writes of the whole span of `yDesc`; no other
/// thread touches it meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensor(
    handle: cudnnHandle_t, yDesc: cudnnTensorDescriptor_t, y: *mut c_void, valuePtr: *const c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnSetTensor", |call| {
        let tensor = tensor::get(yDesc, "yDesc")?;
        tensor::data(y, &tensor, "y")?;
        // SAFETY: `valuePtr` is NULL or one readable element.
        let value = unsafe { number(valuePtr, "valuePtr", tensor.data_type()) }?;
        let plan = FillPlan::set(&tensor, value, Mode::current())?;
        // SAFETY: the pointer is aligned, and the caller vouches for the span of the descriptor, which is the plan's.
        unsafe { call.run(&plan, operands![y]) }
    })
}

/// `y = alpha * y`, every element.
///
/// Products are computed in float, in double for DOUBLE, INT32 and INT64, and rounded once; integers saturate.
///
/// Operands
/// - `y`: as in cudnnSetTensor. With alpha = 0 it is not read and becomes zero.
/// - `alpha`: a host `double` for DOUBLE, else a `float`.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; a NULL pointer, or data off its element's alignment.
/// - BAD_PARAM: a descriptor that was never set.
/// - then as cudnnSetTensor.
///
/// Aliasing: there is one operand. A failing call writes nothing.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// As for cudnnSetTensor; the span of `yDesc` is readable as well.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnScaleTensor(
    handle: cudnnHandle_t, yDesc: cudnnTensorDescriptor_t, y: *mut c_void, alpha: *const c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnScaleTensor", |call| {
        let tensor = tensor::get(yDesc, "yDesc")?;
        tensor::data(y, &tensor, "y")?;
        // SAFETY: `alpha` is NULL or one readable number of its type.
        let factor = unsafe { arg::factor(alpha, "alpha", tensor.data_type() == DataType::Double) }?;
        let plan = FillPlan::scale(&tensor, factor, Mode::current())?;
        // SAFETY: as in cudnnSetTensor.
        unsafe { call.run(&plan, operands![y]) }
    })
}

/// Reads a value for a tensor: `double`, `float` or the tensor's own integer type.
///
/// # Errors
/// Bad parameter for NULL.
///
/// # Safety
/// `pointer` is NULL or valid for one read of that type.
unsafe fn number(pointer: *const c_void, argument: &'static str, data_type: DataType) -> Result<Number> {
    arg::required(pointer, argument)?;
    // SAFETY: not NULL, and the caller vouches for one value of the type.
    Ok(unsafe {
        match data_type.scalar() {
            Scalar::F64 => Number::Real(pointer.cast::<f64>().read_unaligned()),
            Scalar::F32 | Scalar::F16 | Scalar::Bf16 | Scalar::E4m3 | Scalar::E5m2 => {
                Number::Real(pointer.cast::<f32>().read_unaligned().into())
            }
            Scalar::I8 => Number::Integer(pointer.cast::<i8>().read().into()),
            Scalar::U8 | Scalar::Bool => Number::Integer(pointer.cast::<u8>().read().into()),
            Scalar::I32 => Number::Integer(pointer.cast::<i32>().read_unaligned().into()),
            Scalar::I64 => Number::Integer(pointer.cast::<i64>().read_unaligned()),
        }
    })
}
