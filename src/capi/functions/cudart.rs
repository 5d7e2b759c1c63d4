//! Finding the CUDA runtime library that the process has loaded, if it has one. Nothing is ever loaded here.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::NonNull;

/// The address of a function of the CUDA runtime in this process.
///
/// Programs and their libraries show it to everyone; interpreters load it privately, where only its file tells.
pub(crate) fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the name is a C string; looking a symbol up has no other precondition.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    NonNull::new(global).or_else(|| {
        let library = CString::new(loaded_file(b"libcudart.so")?).ok()?;
        // SAFETY: a C string; NOLOAD only looks among the libraries that are there.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: a handle that dlopen gave, and a C string.
        let private = unsafe { libc::dlsym(handle, name.as_ptr()) };
        // SAFETY: closes the reference that dlopen added, once; the library's owner keeps its own.
        unsafe { libc::dlclose(handle) };
        NonNull::new(private)
    })
}

/// The path of the first loaded library whose file name starts with `prefix`.
fn loaded_file(prefix: &[u8]) -> Option<Vec<u8>> {
    struct Search<'a> {
        prefix: &'a [u8],
        found: Option<Vec<u8>>,
    }

    unsafe extern "C" fn look(
        info: *mut libc::dl_phdr_info, _size: libc::size_t, search: *mut c_void,
    ) -> c_int {
        // SAFETY: dl_iterate_phdr passes the pointer that it was given below, and nothing else uses it.
        let search = unsafe { &mut *search.cast::<Search<'_>>() };
        // SAFETY: dl_iterate_phdr gives a valid entry, whose name is NULL or a C string.
        let name = unsafe { (*info).dlpi_name };
        if name.is_null() {
            return 0;
        }
        // SAFETY: not NULL, see above.
        let path = unsafe { CStr::from_ptr(name) }.to_bytes();
        let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if file.starts_with(search.prefix) {
            search.found = Some(path.to_vec());
        }
        c_int::from(search.found.is_some())
    }

    let mut search = Search { prefix, found: None };
    // SAFETY: `look` takes what it is given here, and `search` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}
