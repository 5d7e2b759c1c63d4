//! The dropouts behind descriptors, and the original's beside them.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;

use super::slab::{Kind, Table};
use crate::desc::DropoutDescriptor;
use crate::original::{Maker, Original, Twin, Twinned};

pub(super) static DROPOUTS: Table<DropoutDescriptor> = Table::new(Kind::Dropout);

/// The twin of the dropout behind the address of a descriptor, if it has one or can have one.
pub(crate) fn twin(address: usize, original: &'static Original, handle: *mut c_void) -> Option<Arc<Twin>> {
    let maker = Maker { library: &original.library, handle, dropout: &|_| None };
    DROPOUTS.twin(address, |desc| desc.twin(&maker).ok()).map(|twin| twin.shared())
}

/// Makes a twin that may be set to dropouts: `make` gets what finds their twins, which the new one
/// keeps.
pub(crate) fn with_twins(
    original: &'static Original, handle: *mut c_void,
    make: impl FnOnce(&dyn Fn(usize) -> Option<*mut c_void>) -> Option<Twin>,
) -> Option<Twin> {
    let parts = RefCell::new(Vec::new());
    let mut made = make(&|address| {
        if address == 0 {
            return Some(std::ptr::null_mut());
        }
        let twin = twin(address, original, handle)?;
        let pointer = twin.pointer();
        parts.borrow_mut().push((address, twin));
        Some(pointer)
    })?;
    made.set_parts(parts.into_inner());
    Some(made)
}
