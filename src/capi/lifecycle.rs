//! What all Create and Destroy entry points of descriptors do.

use super::arg::Out;
use super::guard::entry;
use super::slab::Table;
use super::types::cudnnStatus_t;

/// Creates a descriptor with its default content and stores its handle.
///
/// Status: BAD_PARAM if `desc` is NULL.
///
/// # Safety
/// `desc` is NULL or valid for one write.
pub(crate) unsafe fn create<T: Default, S>(
    name: &'static str,
    table: &Table<T>,
    desc: *mut *mut S,
    argument: &'static str,
) -> cudnnStatus_t {
    entry(name, format_args!("{argument}={desc:p}"), || {
        // SAFETY: as the caller promises.
        let out = unsafe { Out::new(desc, argument) }?;
        out.set(std::ptr::without_provenance_mut(table.insert(T::default())?));
        Ok(())
    })
}

/// Destroys a descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
pub(crate) fn destroy<T, S>(
    name: &'static str,
    table: &Table<T>,
    desc: *mut S,
    argument: &'static str,
) -> cudnnStatus_t {
    entry(name, format_args!("{argument}={desc:p}"), || {
        if desc.is_null() {
            return Ok(());
        }
        table.remove(desc.addr(), argument).map(drop)
    })
}
