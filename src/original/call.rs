//! Calling the original's functions by name: what they return, and its sentence on a failure.

use std::ffi::{c_char, c_int};

use super::Library;

/// A call of the original that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Its status, a number of its interface.
    pub code: c_int,
    /// Its last error, or that it lacks the function.
    pub text: String,
}

impl Failed {
    /// For a function that the original does not export.
    pub fn missing(name: &str) -> Failed {
        Failed { code: c_int::MIN, text: format!("it has no {name}") }
    }

    /// Whether the original lacks the function.
    pub fn is_missing(&self) -> bool {
        self.code == c_int::MIN
    }

    /// Whether the original says that it does not do such a thing, rather than that an argument is
    /// wrong or the work failed: statuses 3000 to 3999 of version 9, 6 and 9 of version 8.
    pub fn is_refusal(&self) -> bool {
        self.is_missing() || (3000..4000).contains(&self.code) || [6, 9].contains(&self.code)
    }
}

/// What a status of the original says: its sentence is fetched for a failure.
pub fn status_of(library: &Library, code: c_int) -> Result<(), Failed> {
    if code == 0 {
        return Ok(());
    }
    Err(Failed { code, text: last_error(library) })
}

#[cold]
fn last_error(library: &Library) -> String {
    let mut text = [0_u8; 512];
    // Version 8 has none.
    if let Some(function) = library.symbol("cudnnGetLastErrorString") {
        // SAFETY: the interface gives the symbol this type.
        let function = unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn(*mut c_char, usize)>(function)
        };
        // SAFETY: as many bytes as are named.
        unsafe { function(text.as_mut_ptr().cast(), text.len()) };
    }
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end]).trim().to_owned()
}

/// Calls a function of the original that returns a status: `call!(library, "cudnnX", (type =
/// value), ...)`.
macro_rules! call {
    ($library:expr, $name:literal $(, ($T:ty = $value:expr))* $(,)?) => {
        match $library.symbol($name) {
            None => Err($crate::original::Failed::missing($name)),
            Some(function) => {
                // SAFETY: the interface gives the symbol this type.
                let function = unsafe {
                    std::mem::transmute::<
                        *mut std::ffi::c_void,
                        unsafe extern "C" fn($($T),*) -> std::ffi::c_int,
                    >(function)
                };
                // SAFETY: pointers among the values are alive twins or the addresses of values on
                // the stack, each as large as the function reads or writes.
                let code = unsafe { function($($value),*) };
                $crate::original::status_of($library, code)
            }
        }
    };
}
pub(super) use call;

#[cfg(test)]
mod tests {
    use super::Failed;

    #[test]
    fn refusals_are_told_from_failures() {
        let refuses = |code| Failed { code, text: String::new() }.is_refusal();
        assert!([3000, 3001, 3014, 9, 6].into_iter().all(refuses));
        assert!(![1001, 2000, 2008, 4000, 5003, 3, 8].into_iter().any(refuses));
        assert!(Failed::missing("cudnnX").is_refusal());
    }
}
