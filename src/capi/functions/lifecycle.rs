//! What all Create and Destroy entry points of descriptors do: each is one line that names its argument.

use super::arg::Out;
use super::slab::Table;
use crate::error::Result;

/// Creates a descriptor with its default content and stores its handle.
///
/// Status: BAD_PARAM if `desc` is NULL.
///
/// # Safety
/// `desc` is NULL or valid for one write.
pub(crate) unsafe fn create_in<T: Default, S>(
    table: &Table<T>, desc: *mut *mut S, argument: &'static str,
) -> Result<()> {
    // SAFETY: `desc` is NULL or valid for one write.
    let out = unsafe { Out::new(desc, argument) }?;
    out.set(std::ptr::without_provenance_mut(table.insert(T::default())?));
    Ok(())
}

/// Destroys a descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
pub(crate) fn destroy_in<T, S>(table: &Table<T>, desc: *mut S, argument: &'static str) -> Result<()> {
    if desc.is_null() {
        return Ok(());
    }
    table.remove(desc.addr(), argument).map(drop)
}

/// The body of a Create: `create!(filterDesc, FILTERS)`. The entry point is unsafe as [`create_in`] is.
macro_rules! create {
    ($desc:ident, $table:ident) => {
        // SAFETY: an entry point's place is NULL or valid for one write.
        unsafe { $crate::capi::functions::lifecycle::create_in(&$table, $desc, stringify!($desc)) }
    };
}
pub(crate) use create;

/// The body of a Destroy: `destroy!(filterDesc, FILTERS)`.
macro_rules! destroy {
    ($desc:ident, $table:ident) => {
        $crate::capi::functions::lifecycle::destroy_in(&$table, $desc, stringify!($desc))
    };
}
pub(crate) use destroy;
