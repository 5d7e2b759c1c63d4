//! AddTensor, OpTensor, SetTensor and ScaleTensor.

use std::ffi::c_void;

use super::guard::entry_point;
use super::types::{cudnnHandle_t, cudnnOpTensorDescriptor_t, cudnnStatus_t, cudnnTensorDescriptor_t};
use super::{arg, context, op_descriptor, tensor, transform};
use crate::dtype::{DataType, Scalar};
use crate::error::Result;
use crate::mode::Mode;
use crate::ops::add;
use crate::ops::{FillPlan, Number, OpPlan, op::Factors};

/// `C = alpha * A + beta * C`, where each dimension of A is that of C or 1.
///
/// A and C have one type and one rank (2 to 8), any strides and layouts each; an extent of 1 in A serves every
/// coordinate of C, so a bias is A of 1 x C x 1 x 1. Channels are counted one by one, whatever elements hold: two
/// elements of INT8x4 go with eight channels of it under NCHW_VECT_C, and a single one serves every element of as
/// many. `alpha` and `beta` point to host `double` if C is DOUBLE, else to `float`. It is computed in float, in
/// double for DOUBLE, INT32 and INT64, and rounded once, to nearest even; integers saturate. The pointers point to
/// the element of coordinates 0, on the host for the CPU core; they need no more alignment than one element. They may
/// overlap or be equal: the result is as if all of A were read first; the CUDA core refuses it with NOT_SUPPORTED
/// unless every element is its own source. With beta = 0, C is never read; with alpha = 0, A is not. Padding channels
/// of a blocked C are written as zero.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, a NULL pointer or a data pointer
/// off its element's alignment; BAD_PARAM if types or ranks differ, a dimension of A is neither 1 nor that of C, or C
/// repeats an address through stride 0; NOT_SUPPORTED for NCHW_VECT_C of a type of one channel and for dimensions
/// that are equal in elements but not in channels. In strict mode BAD_PARAM for 2 and 3 dimensions, NOT_SUPPORTED for
/// 6 to 8, NCHW_VECT_C and the types that the original refuses (observed on 9.27.0). A failing call writes nothing.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; `A` is NULL or valid for reads of the whole span of `aDesc`,
/// `C` for reads and writes of that of `cDesc`; no other thread writes either meanwhile.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnAddTensor(
    handle: cudnnHandle_t,
    alpha: *const c_void,
    aDesc: cudnnTensorDescriptor_t,
    A: *const c_void,
    beta: *const c_void,
    cDesc: cudnnTensorDescriptor_t,
    C: *mut c_void,
) -> cudnnStatus_t {
    entry_point!(cudnnAddTensor(handle, alpha, aDesc, A, beta, cDesc, C), || {
        context::with_note(handle, |context, note| {
            let (a, c) = (tensor::get(aDesc, "aDesc")?, tensor::get(cDesc, "cDesc")?);
            // SAFETY: as the caller promises.
            let scaling = unsafe { transform::scaling(alpha, beta, c.data_type()) }?;
            tensor::data(A, &a, "A")?;
            tensor::data(C, &c, "C")?;
            let plan = add::plan(&a, &c, scaling, Mode::current())?;
            let plan = plan.as_plan();
            note.set(format_args!("cudnnAddTensor: {plan}"));
            let at = [C.into(), A.into()];
            // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors, which are the
            // plan's.
            unsafe { context.run(plan, &at[..plan.operands().len()]) }
        })
    })
}

/// `C = op(alpha1 * A, alpha2 * B) + beta * C`, where each dimension of A and of B is that of C or 1.
///
/// ADD, MUL, MIN, MAX; SQRT is `sqrt(alpha1 * A)` and NOT is `1 - alpha1 * A`: neither reads B, which must be there
/// all the same. A and B have one type; all three one rank (2 to 8), any strides and layouts each. Channels are
/// counted one by one, as for cudnnAddTensor. Every element is converted to the computation type (double for DOUBLE,
/// else float, also for HALF and BFLOAT16), computed there, and rounded once to the type of C; integers saturate and
/// take NaN as 0. The factors point to host `double` if the computation type is DOUBLE, else to `float`. MIN and MAX
/// of a NaN and a number are the number or NaN, as the descriptor says; -0 is less than 0. With beta = 0, C is never
/// read; a term of ADD whose factor is 0 is left out and its operand not read. A and B may overlap C or be C: the
/// result is as if all of them were read first; the CUDA core refuses it with NOT_SUPPORTED unless every element is
/// its own operand. Padding channels of a blocked C are written as zero.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, a NULL pointer or a data pointer
/// off its element's alignment; BAD_PARAM if the types of A and B differ or are a combination that the original
/// refuses so, if ranks differ, if a dimension of A or B is neither 1 nor that of C, or if C repeats an address
/// through stride 0; NOT_SUPPORTED for NCHW_VECT_C of a type of one channel, for dimensions that are equal in
/// elements but not in channels, and for one element of several channels beside many of another number. In strict
/// mode BAD_PARAM for 2 and 3 dimensions, for A with other dims than C, for B = C; NOT_SUPPORTED for 6 to 8
/// dimensions, NCHW_VECT_C and other types (observed on 9.27.0). A failing call writes nothing.
///
/// # Safety
/// The factors are NULL or valid for one read; `A` and `B` are NULL or valid for reads of the whole spans of their
/// descriptors, `C` for reads and writes of that of `cDesc`; no other thread writes any of them meanwhile.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnOpTensor(
    handle: cudnnHandle_t,
    opTensorDesc: cudnnOpTensorDescriptor_t,
    alpha1: *const c_void,
    aDesc: cudnnTensorDescriptor_t,
    A: *const c_void,
    alpha2: *const c_void,
    bDesc: cudnnTensorDescriptor_t,
    B: *const c_void,
    beta: *const c_void,
    cDesc: cudnnTensorDescriptor_t,
    C: *mut c_void,
) -> cudnnStatus_t {
    entry_point!(
        cudnnOpTensor(handle, opTensorDesc, alpha1, aDesc, A, alpha2, bDesc, B, beta, cDesc, C),
        || {
            context::with_note(handle, |context, note| {
                let rule = op_descriptor::get(opTensorDesc, "opTensorDesc")?;
                let (a, b, c) = (
                    tensor::get(aDesc, "aDesc")?,
                    tensor::get(bDesc, "bDesc")?,
                    tensor::get(cDesc, "cDesc")?,
                );
                // SAFETY: as the caller promises, for all three.
                let factors = unsafe {
                    let factor =
                        |pointer, name| arg::factor(pointer, name, rule.compute_type == DataType::Double);
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
                note.set(format_args!("cudnnOpTensor: {plan}"));
                // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors, which are the
                // plan's.
                unsafe { context.run(&plan, &[C.into(), A.into(), B.into()]) }
            })
        }
    )
}

/// Sets every element of y to one value.
///
/// `valuePtr` points to a host `double` for DOUBLE, to a `float` for the other floating types, and to the tensor's own
/// type for integers (for INT8x4 to one `int8_t`, BOOLEAN to one byte). It is rounded once, to nearest even. y has any
/// rank, strides and layout; gaps between its elements are not written, padding channels of a blocked y become zero.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, a NULL pointer or a data pointer
/// off its element's alignment; NOT_SUPPORTED for a descriptor that was never set and NCHW_VECT_C of a type of one
/// channel; BAD_PARAM if y repeats an address through stride 0. In strict mode NOT_SUPPORTED for other ranks than 4
/// and 5, NCHW_VECT_C and integer types but INT8 (observed on 9.27.0). A failing call writes nothing.
///
/// # Safety
/// `valuePtr` is NULL or valid for one read; `y` is NULL or valid for writes of the whole span of `yDesc`; no other
/// thread touches it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensor(
    handle: cudnnHandle_t,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
    valuePtr: *const c_void,
) -> cudnnStatus_t {
    entry_point!(cudnnSetTensor(handle, yDesc, y, valuePtr), || {
        context::with_note(handle, |context, note| {
            let tensor = tensor::get(yDesc, "yDesc")?;
            tensor::data(y, &tensor, "y")?;
            // SAFETY: as the caller promises.
            let value = unsafe { number(valuePtr, "valuePtr", tensor.data_type()) }?;
            let plan = FillPlan::set(&tensor, value, Mode::current())?;
            note.set(format_args!("cudnnSetTensor: {plan}"));
            // SAFETY: the pointer is aligned, and the caller vouches for the span of the descriptor, which is the plan's.
            unsafe { context.run(&plan, &[y.into()]) }
        })
    })
}

/// `y = alpha * y`.
///
/// `alpha` points to a host `double` for DOUBLE, else to a `float`. Products are computed in float, in double for DOUBLE, INT32 and INT64, and rounded once;
/// integers saturate. alpha = 0 writes zeros without reading y. Everything else is as for cudnnSetTensor.
///
/// Status: as for cudnnSetTensor, but BAD_PARAM for a descriptor that was never set; in strict mode NOT_SUPPORTED for
/// integer types but INT8.
///
/// # Safety
/// As for cudnnSetTensor; the span of `yDesc` is readable as well.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnScaleTensor(
    handle: cudnnHandle_t,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
    alpha: *const c_void,
) -> cudnnStatus_t {
    entry_point!(cudnnScaleTensor(handle, yDesc, y, alpha), || {
        context::with_note(handle, |context, note| {
            let tensor = tensor::get(yDesc, "yDesc")?;
            tensor::data(y, &tensor, "y")?;
            // SAFETY: as the caller promises.
            let factor = unsafe { arg::factor(alpha, "alpha", tensor.data_type() == DataType::Double) }?;
            let plan = FillPlan::scale(&tensor, factor, Mode::current())?;
            note.set(format_args!("cudnnScaleTensor: {plan}"));
            // SAFETY: as in cudnnSetTensor.
            unsafe { context.run(&plan, &[y.into()]) }
        })
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
