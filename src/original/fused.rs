//! The original's fused operations: packs set attribute by attribute from our plain data, and plans
//! made of them.

use std::ffi::{c_int, c_void};

use super::call::call;
use super::{Failed, Library, Maker, Twin, Twinned, status_of};
use crate::desc::fused::{ConstantPack, FusedOperation, PackedDescriptor, VariantKind, VariantPack};

/// The functions of fused operations.
#[derive(Clone, Copy)]
pub struct FusedOps(&'static Library);

impl FusedOps {
    /// Those of an original.
    pub fn new(library: &'static Library) -> FusedOps {
        FusedOps(library)
    }

    /// A new object of an operation, by the functions that create and destroy such a one.
    fn create(self, [create, destroy]: [&'static str; 2], operation: FusedOperation) -> Result<Twin, Failed> {
        let function = self.0.symbol(create).ok_or_else(|| Failed::missing(create))?;
        let mut at: *mut c_void = std::ptr::null_mut();
        // SAFETY: all three functions that create have this type.
        let function = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int>(
                function,
            )
        };
        // SAFETY: a place for one pointer.
        status_of(self.0, unsafe { function(&raw mut at, operation.number()) })?;
        Ok(Twin::of(self.0, at, destroy))
    }

    /// A pack of constant parameters. It copies what descriptors hold, so that their twins end
    /// here.
    ///
    /// # Errors
    /// As the original answers; `None` for a descriptor that it cannot have.
    pub fn constants(self, pack: &ConstantPack, maker: &Maker<'_>) -> Result<Twin, Option<Failed>> {
        let life = ["cudnnCreateFusedOpsConstParamPack", "cudnnDestroyFusedOpsConstParamPack"];
        let made = self.create(life, pack.operation)?;
        let set = |label: c_int, value: *const c_void| {
            call!(
                self.0,
                "cudnnSetFusedOpsConstParamPackAttribute",
                (*mut c_void = made.pointer()),
                (c_int = label),
                (*const c_void = value),
            )
        };
        for (label, descriptor) in pack.descriptors() {
            let twin = match descriptor {
                PackedDescriptor::Tensor(desc) => desc.twin(maker),
                PackedDescriptor::Filter(desc) => desc.twin(maker),
                PackedDescriptor::Convolution(desc) => desc.twin(maker),
                PackedDescriptor::Activation(desc) => desc.twin(maker),
            }?;
            set(label, twin.pointer())?;
        }
        for (label, number) in pack.numbers() {
            set(label, (&raw const number).cast())?;
        }
        Ok(made)
    }

    /// A pack of variant parameters, with the pointers of ours.
    ///
    /// # Errors
    /// As the original answers.
    pub fn variants(self, pack: &VariantPack) -> Result<Twin, Failed> {
        let life = ["cudnnCreateFusedOpsVariantParamPack", "cudnnDestroyFusedOpsVariantParamPack"];
        let made = self.create(life, pack.operation)?;
        for (label, value) in pack.values() {
            let at: *mut c_void = match pack.kind(label) {
                Ok(VariantKind::Pointer) => std::ptr::with_exposed_provenance_mut(value as usize),
                _ => (&raw const value).cast_mut().cast(),
            };
            call!(
                self.0,
                "cudnnSetFusedOpsVariantParamPackAttribute",
                (*mut c_void = made.pointer()),
                (c_int = label),
                (*mut c_void = at),
            )?;
        }
        Ok(made)
    }

    /// A plan of an operation, which is made next.
    ///
    /// # Errors
    /// As the original answers.
    pub fn plan(self, operation: FusedOperation) -> Result<Twin, Failed> {
        self.create(["cudnnCreateFusedOpsPlan", "cudnnDestroyFusedOpsPlan"], operation)
    }

    /// Makes a plan for a pack of constant parameters; its bytes of workspace.
    ///
    /// # Errors
    /// As the original answers.
    pub fn make(self, handle: &Twin, plan: &Twin, constants: &Twin) -> Result<usize, Failed> {
        let mut size = 0_usize;
        call!(
            self.0,
            "cudnnMakeFusedOpsPlan",
            (*mut c_void = handle.pointer()),
            (*mut c_void = plan.pointer()),
            (*mut c_void = constants.pointer()),
            (*mut usize = &raw mut size),
        )?;
        Ok(size)
    }

    /// Runs a plan on a pack of variant parameters.
    ///
    /// # Errors
    /// As the original answers.
    ///
    /// # Safety
    /// The pointers of the pack are valid for what the plan computes.
    pub unsafe fn execute(self, handle: &Twin, plan: &Twin, variants: &Twin) -> Result<(), Failed> {
        call!(
            self.0,
            "cudnnFusedOpsExecute",
            (*mut c_void = handle.pointer()),
            (*mut c_void = plan.pointer()),
            (*mut c_void = variants.pointer()),
        )
    }
}
