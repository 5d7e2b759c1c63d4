//! Parameter packs of fused operations: create, set, get, destroy.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, Out, results};
use super::beside::Side;
use super::lifecycle::destroy;
use super::slab::{Kind, Table};
use super::twin_place::Pinned;
use super::types::{
    cudnnFusedOps_t, cudnnFusedOpsConstParamLabel_t, cudnnFusedOpsConstParamPack_t,
    cudnnFusedOpsVariantParamLabel_t, cudnnFusedOpsVariantParamPack_t, cudnnStatus_t, raw,
};
use super::{activation, convolution, filter, tensor};
use crate::desc::fused::{
    ConstantKind, ConstantPack, FusedOperation, PackedDescriptor, VariantKind, VariantPack,
};
use crate::error::Result;
use crate::original::{FusedOps, Maker};

static CONSTANTS: Table<ConstantPack> = Table::new(Kind::FusedConstants);
static VARIANTS: Table<VariantPack> = Table::new(Kind::FusedVariants);

/// A copy of a pack of constant parameters.
///
/// # Errors
/// Bad parameter for a pack that is not alive.
pub(super) fn constants(pack: cudnnFusedOpsConstParamPack_t) -> Result<ConstantPack> {
    CONSTANTS.with(pack.addr(), "constPack", |pack| Ok(pack.clone()))
}

/// A copy of a pack of variant parameters.
///
/// # Errors
/// Bad parameter for a pack that is not alive.
pub(super) fn variants(pack: cudnnFusedOpsVariantParamPack_t) -> Result<VariantPack> {
    VARIANTS.with(pack.addr(), "varPack", |pack| Ok(pack.clone()))
}

/// The operation of a pack of variant parameters.
///
/// # Errors
/// Bad parameter for a pack that is not alive.
pub(super) fn operation(pack: cudnnFusedOpsVariantParamPack_t) -> Result<FusedOperation> {
    VARIANTS.with(pack.addr(), "varPack", |pack| Ok(pack.operation))
}

/// The original's pack of the same constant parameters, if it has such a one.
pub(super) fn constants_twin(pack: cudnnFusedOpsConstParamPack_t, side: &Side) -> Option<Pinned> {
    let library = &side.original.library;
    // No descriptor in a pack has a dropout.
    let maker = Maker { library, handle: side.handle.pointer(), dropout: &|_| None };
    CONSTANTS.twin(pack.addr(), |pack| FusedOps::new(library).constants(pack, &maker).ok())
}

/// The original's pack of the same variant parameters, if it has such a one.
pub(super) fn variants_twin(pack: cudnnFusedOpsVariantParamPack_t, side: &Side) -> Option<Pinned> {
    VARIANTS.twin(pack.addr(), |pack| FusedOps::new(&side.original.library).variants(pack).ok())
}

/// Creates an object of a fused operation.
///
/// # Safety
/// `place` is NULL or valid for one write.
pub(super) unsafe fn create<T, S>(
    table: &Table<T>, (place, argument): (*mut *mut S, &'static str), ops: MaybeUninit<cudnnFusedOps_t>,
    make: impl FnOnce(FusedOperation) -> T,
) -> Result<()> {
    // SAFETY: `place` is NULL or valid for one write.
    let out = unsafe { Out::new(place, argument) }?;
    let operation = FusedOperation::new(raw(ops))?;
    out.set(std::ptr::without_provenance_mut(table.insert(make(operation))?));
    Ok(())
}

/// Creates the constant parameters of a fused plan: no descriptors, numbers 0.
///
/// Status: BAD_PARAM if `constPack` is NULL or for an unknown operation; nothing is written then.
///
/// # Safety
/// `constPack` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateFusedOpsConstParamPack(
    constPack: *mut cudnnFusedOpsConstParamPack_t, ops: MaybeUninit<cudnnFusedOps_t>,
) -> cudnnStatus_t {
    // SAFETY: `constPack` is NULL or valid for one write.
    unsafe { create(&CONSTANTS, (constPack, "constPack"), ops, ConstantPack::new) }
}

/// Destroys the constant parameters of a fused plan; NULL is fine.
///
/// Status: BAD_PARAM for a pack that is not alive.
///
/// # Safety
/// No pointer is followed.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyFusedOpsConstParamPack(
    constPack: cudnnFusedOpsConstParamPack_t,
) -> cudnnStatus_t {
    destroy!(constPack, CONSTANTS)
}

/// Sets a constant parameter: the content of a descriptor, which is copied, or an int.
///
/// Operands: `param` is the descriptor itself, or points to an int (placeholders and the mode of batch normalisation,
/// of any value). NULL clears a descriptor and sets an int to 0.
///
/// Status, in this order: BAD_PARAM for a pack that is not alive, a label that the operation does not have, a descriptor
/// that is not alive or of another kind. Source: observed on 9.27.0.
///
/// # Safety
/// `param` is NULL or, for a label of an int, valid for one read.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetFusedOpsConstParamPackAttribute(
    constPack: cudnnFusedOpsConstParamPack_t, paramLabel: MaybeUninit<cudnnFusedOpsConstParamLabel_t>,
    param: *const c_void,
) -> cudnnStatus_t {
    let label = raw(paramLabel);
    CONSTANTS.with_mut(constPack.addr(), "constPack", |pack| {
        pack.check(label)?;
        let kind = ConstantKind::of(label);
        if kind == ConstantKind::Number {
            let mut number = [0];
            // SAFETY: the caller vouches for one int, unless it is NULL.
            unsafe { arg::load_optional(param.cast::<c_int>(), &mut number) };
            pack.set_number(label, number[0]);
            return Ok(());
        }
        let descriptor = if param.is_null() { None } else { Some(read(kind, param.cast_mut())?) };
        pack.set_descriptor(label, descriptor);
        Ok(())
    })
}

/// The content of the descriptor of this kind.
fn read(kind: ConstantKind, param: *mut c_void) -> Result<PackedDescriptor> {
    Ok(match kind {
        ConstantKind::Filter => PackedDescriptor::Filter(filter::get(param.cast(), "param")?),
        ConstantKind::Convolution => PackedDescriptor::Convolution(convolution::find(param.cast(), "param")?),
        ConstantKind::Activation => PackedDescriptor::Activation(activation::get(param.cast(), "param")?),
        ConstantKind::Tensor | ConstantKind::Number => {
            PackedDescriptor::Tensor(tensor::get(param.cast(), "param")?)
        }
    })
}

/// Reads a constant parameter: fills the descriptor given, or stores an int.
///
/// Operands: `param` is a descriptor, or one int; `isNULL` becomes 1 for a descriptor that was never set, which `param`
/// is left alone for, else 0.
///
/// Status, in this order: BAD_PARAM for a pack that is not alive, a NULL pointer, a label that the operation does not
/// have (`isNULL` becomes 0 all the same), and for every label of operation 4. Source: observed on 9.27.0.
///
/// # Safety
/// `param` is NULL or, for a label of an int, valid for one write; `isNULL` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetFusedOpsConstParamPackAttribute(
    constPack: cudnnFusedOpsConstParamPack_t, paramLabel: MaybeUninit<cudnnFusedOpsConstParamLabel_t>,
    param: *mut c_void, isNULL: *mut c_int,
) -> cudnnStatus_t {
    let label = raw(paramLabel);
    let pack = constants(constPack)?;
    arg::required(param, "param")?;
    // SAFETY: `isNULL` is NULL or valid for one write.
    let is_null = unsafe { Out::new(isNULL, "isNULL") }?;
    is_null.set(0);
    pack.check_get(label)?;
    if ConstantKind::of(label) == ConstantKind::Number {
        // SAFETY: not NULL, and the caller vouches for one int.
        unsafe { param.cast::<c_int>().write_unaligned(pack.number(label)) };
        return Ok(());
    }
    match pack.descriptor(label) {
        None => is_null.set(1),
        Some(PackedDescriptor::Tensor(value)) => tensor::put(param.cast(), "param", *value)?,
        Some(PackedDescriptor::Filter(value)) => filter::put(param.cast(), "param", *value)?,
        Some(PackedDescriptor::Convolution(value)) => convolution::put(param.cast(), "param", *value)?,
        Some(PackedDescriptor::Activation(value)) => activation::put(param.cast(), "param", *value)?,
    }
    Ok(())
}

/// Creates the variant parameters of a fused plan: pointers NULL, scalars 0.
///
/// Status: BAD_PARAM if `varPack` is NULL or for an unknown operation; nothing is written then.
///
/// # Safety
/// `varPack` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateFusedOpsVariantParamPack(
    varPack: *mut cudnnFusedOpsVariantParamPack_t, ops: MaybeUninit<cudnnFusedOps_t>,
) -> cudnnStatus_t {
    // SAFETY: `varPack` is NULL or valid for one write.
    unsafe { create(&VARIANTS, (varPack, "varPack"), ops, VariantPack::new) }
}

/// Destroys the variant parameters of a fused plan; NULL is fine.
///
/// Status: BAD_PARAM for a pack that is not alive.
///
/// # Safety
/// No pointer is followed.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyFusedOpsVariantParamPack(
    varPack: cudnnFusedOpsVariantParamPack_t,
) -> cudnnStatus_t {
    destroy!(varPack, VARIANTS)
}

/// Sets a variant parameter: a data pointer, which is `ptr` itself, or a scalar, which `ptr` points to.
///
/// Operands: labels below 100 are pointers, kept as they are; 100 a `size_t`, 101 an `int64_t`, 102 and 103 a `double`.
/// NULL sets a scalar to 0.
///
/// Status, in this order: BAD_PARAM for a pack that is not alive or a label that the operation does not have. Source:
/// observed on 9.27.0.
///
/// # Safety
/// `ptr` is NULL or, for a label of a scalar, valid for one read.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetFusedOpsVariantParamPackAttribute(
    varPack: cudnnFusedOpsVariantParamPack_t, paramLabel: MaybeUninit<cudnnFusedOpsVariantParamLabel_t>,
    ptr: *mut c_void,
) -> cudnnStatus_t {
    let label = raw(paramLabel);
    VARIANTS.with_mut(varPack.addr(), "varPack", |pack| {
        let value = match pack.kind(label)? {
            VariantKind::Pointer => ptr.expose_provenance() as u64,
            _ if ptr.is_null() => 0,
            // SAFETY: not NULL, and the caller vouches for one scalar, all of which have 8 bytes.
            _ => unsafe { ptr.cast::<u64>().read_unaligned() },
        };
        pack.set(label, value);
        Ok(())
    })
}

/// Reads a variant parameter as it was set.
///
/// Operands: `ptr` points to a place for a pointer or a scalar, all of 8 bytes.
///
/// Status, in this order: BAD_PARAM for a pack that is not alive, a label that the operation does not have, every label
/// of operation 3, and if `ptr` is NULL. Source: observed on 9.27.0.
///
/// # Safety
/// `ptr` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetFusedOpsVariantParamPackAttribute(
    varPack: cudnnFusedOpsVariantParamPack_t, paramLabel: MaybeUninit<cudnnFusedOpsVariantParamLabel_t>,
    ptr: *mut c_void,
) -> cudnnStatus_t {
    let label = raw(paramLabel);
    let pack = variants(varPack)?;
    pack.kind_to_get(label)?;
    results!(cast ptr = pack.value(label))
}
