//! What all Create and Destroy entry points of descriptors do: each is one line that names itself and its argument.

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
pub(crate) unsafe fn create_in<T: Default, S>(
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
pub(crate) fn destroy_in<T, S>(
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

/// The body of a Create: `create!(cudnnCreateFilterDescriptor(filterDesc), FILTERS)`. The entry point is unsafe as [`create_in`] is.
macro_rules! create {
    ($function:ident($desc:ident), $table:ident) => {
        // SAFETY: as the caller of the entry point promises.
        unsafe {
            $crate::capi::functions::lifecycle::create_in(
                stringify!($function),
                &$table,
                $desc,
                stringify!($desc),
            )
        }
    };
}
pub(crate) use create;

/// The body of a Destroy: `destroy!(cudnnDestroyFilterDescriptor(filterDesc), FILTERS)`.
macro_rules! destroy {
    ($function:ident($desc:ident), $table:ident) => {
        $crate::capi::functions::lifecycle::destroy_in(
            stringify!($function),
            &$table,
            $desc,
            stringify!($desc),
        )
    };
}
pub(crate) use destroy;
