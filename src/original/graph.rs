//! The original's graph interface, on objects of its own.

use std::ffi::{c_int, c_void};

use super::call::call;
use super::{Failed, Library, Twin};

/// The functions of the interface.
#[derive(Clone, Copy)]
pub struct Graph(&'static Library);

impl Graph {
    /// Those of an original.
    pub fn new(library: &'static Library) -> Graph {
        Graph(library)
    }

    /// A new object of this type.
    ///
    /// # Errors
    /// As the original answers.
    pub fn create(self, code: c_int) -> Result<Twin, Failed> {
        let mut at: *mut c_void = std::ptr::null_mut();
        let place = &raw mut at;
        call!(self.0, "cudnnBackendCreateDescriptor", (c_int = code), (*mut *mut c_void = place))?;
        Ok(Twin::of(self.0, at, "cudnnBackendDestroyDescriptor"))
    }

    /// Closes an object for changes.
    ///
    /// # Errors
    /// As the original answers.
    pub fn finalize(self, object: &Twin) -> Result<(), Failed> {
        call!(self.0, "cudnnBackendFinalize", (*mut c_void = object.pointer()))
    }

    /// Sets an attribute of this number and type.
    ///
    /// # Errors
    /// As the original answers.
    ///
    /// # Safety
    /// The object is alive; `array` is NULL or valid for reads of `count` values of the type, whose
    /// objects are the original's.
    pub unsafe fn set(
        self, object: *mut c_void, [attribute, ty]: [c_int; 2], count: i64, array: *const c_void,
    ) -> Result<(), Failed> {
        call!(
            self.0,
            "cudnnBackendSetAttribute",
            (*mut c_void = object),
            (c_int = attribute),
            (c_int = ty),
            (i64 = count),
            (*const c_void = array),
        )
    }

    /// Reads an attribute of this number and type.
    ///
    /// # Errors
    /// As the original answers.
    ///
    /// # Safety
    /// The object is alive; `count` is valid for one write, `array` is NULL or valid for writes of
    /// `requested` values of the type, and of descriptors of the original for reads.
    pub unsafe fn get(
        self, object: *mut c_void, [attribute, ty]: [c_int; 2], requested: i64, count: *mut i64,
        array: *mut c_void,
    ) -> Result<(), Failed> {
        call!(
            self.0,
            "cudnnBackendGetAttribute",
            (*mut c_void = object),
            (c_int = attribute),
            (c_int = ty),
            (i64 = requested),
            (*mut i64 = count),
            (*mut c_void = array),
        )
    }

    /// Calls a function of a handle, a plan and a pack. Those that take no fourth argument ignore
    /// `extra`.
    ///
    /// # Errors
    /// As the original answers.
    ///
    /// # Safety
    /// The objects are alive; what the pack and `extra` lead to is as the function wants it.
    pub unsafe fn run(
        self, name: &'static str, [handle, plan, pack]: [*mut c_void; 3], extra: *mut c_void,
    ) -> Result<(), Failed> {
        type Function = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void) -> c_int;
        let function = self.0.symbol(name).ok_or_else(|| Failed::missing(name))?;
        // SAFETY: the interface gives the symbol these arguments, or the first three of them, all
        // in registers.
        let function = unsafe { std::mem::transmute::<*mut c_void, Function>(function) };
        // SAFETY: as the caller says of the objects.
        super::status_of(self.0, unsafe { function(handle, plan, pack, extra) })
    }
}
