//! Tables of the driver's entry points, found at run time.

/// Declares a table: its name, and field, symbol and parameters of every entry point. All return an
/// error code.
macro_rules! entry_points {
    ($(#[$doc:meta])* $table:ident $($field:ident = $symbol:literal ($($parameter:ty),*);)*) => {
        $(#[$doc])*
        struct $table {
            $($field: unsafe extern "C" fn($($parameter),*) -> c_int,)*
        }

        impl $table {
            /// The symbols, in the order in which they are looked up.
            const SYMBOLS: &'static [&'static str] = &[$($symbol),*];

            /// Fills the table from `library`.
            ///
            /// # Errors
            /// The first symbol that is missing.
            ///
            /// # Safety
            /// `library` is an open handle of the CUDA driver, which is never closed.
            unsafe fn load(library: *mut c_void) -> std::result::Result<$table, &'static str> {
                let mut symbols = $table::SYMBOLS.iter();
                Ok($table {
                    $($field: {
                        // SAFETY: the handle is open, and the name is a C string.
                        let symbol = unsafe { libc::dlsym(library, concat!($symbol, "\0").as_ptr().cast()) };
                        let name = symbols.next();
                        if symbol.is_null() {
                            return Err(name.copied().unwrap_or_default());
                        }
                        // SAFETY: the driver's interface gives the symbol this type; see its
                        // documentation.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($parameter),*) -> c_int,
                            >(symbol)
                        }
                    },)*
                })
            }
        }
    };
}

pub(super) use entry_points;
