//! Descriptors of cuBLASLt: tables of attributes with values of up to eight bytes.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::blas::status::{Failure, Outcome, calls, required, store};
use crate::registry::Registry;

/// A row of a table: number, bytes, value at first.
pub struct Attribute {
    number: c_int,
    size: usize,
    first: u64,
}

const fn attribute(number: c_int, size: usize, first: u64) -> Attribute {
    Attribute { number, size, first }
}

/// No type: the attribute takes another one's.
pub const NO_TYPE: u32 = u32::MAX;

/// Those of `cublasLtMatmulDescAttributes_t` that are kept.
static OF_PRODUCTS: [Attribute; 17] = [
    attribute(COMPUTE_TYPE, 4, 0),
    attribute(SCALE_TYPE, 4, 0),
    attribute(POINTER_MODE, 4, 0),
    attribute(TRANSA, 4, 0),
    attribute(TRANSB, 4, 0),
    attribute(TRANSC, 4, 0),
    attribute(FILL_MODE, 4, 2),
    attribute(EPILOGUE, 4, 1),
    attribute(BIAS_POINTER, 8, 0),
    attribute(BIAS_BATCH_STRIDE, 8, 0),
    attribute(EPILOGUE_AUX_POINTER, 8, 0),
    attribute(EPILOGUE_AUX_LD, 8, 0),
    attribute(EPILOGUE_AUX_BATCH_STRIDE, 8, 0),
    attribute(14, 8, 0),
    attribute(15, 4, 0),
    attribute(FAST_ACCUM, 1, 0),
    attribute(BIAS_DATA_TYPE, 4, NO_TYPE as u64),
];

/// `CUBLASLT_MATMUL_DESC_COMPUTE_TYPE`
pub const COMPUTE_TYPE: c_int = 0;
/// `CUBLASLT_MATMUL_DESC_SCALE_TYPE`
pub const SCALE_TYPE: c_int = 1;
/// `CUBLASLT_MATMUL_DESC_POINTER_MODE`
pub const POINTER_MODE: c_int = 2;
/// `CUBLASLT_MATMUL_DESC_TRANSA`
pub const TRANSA: c_int = 3;
/// `CUBLASLT_MATMUL_DESC_TRANSB`
pub const TRANSB: c_int = 4;
/// `CUBLASLT_MATMUL_DESC_TRANSC`
pub const TRANSC: c_int = 5;
/// `CUBLASLT_MATMUL_DESC_FILL_MODE`
pub const FILL_MODE: c_int = 6;
/// `CUBLASLT_MATMUL_DESC_EPILOGUE`
pub const EPILOGUE: c_int = 7;
/// `CUBLASLT_MATMUL_DESC_BIAS_POINTER`
pub const BIAS_POINTER: c_int = 8;
/// `CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE`
pub const BIAS_BATCH_STRIDE: c_int = 10;
const EPILOGUE_AUX_POINTER: c_int = 11;
const EPILOGUE_AUX_LD: c_int = 12;
const EPILOGUE_AUX_BATCH_STRIDE: c_int = 13;
const FAST_ACCUM: c_int = 25;
/// `CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE`
pub const BIAS_DATA_TYPE: c_int = 26;

/// Those of `cublasLtMatrixLayoutAttribute_t`.
static OF_LAYOUTS: [Attribute; 8] = [
    attribute(TYPE, 4, 0),
    attribute(ORDER, 4, 0),
    attribute(ROWS, 8, 0),
    attribute(COLS, 8, 0),
    attribute(LD, 8, 0),
    attribute(BATCH_COUNT, 4, 1),
    attribute(BATCH_OFFSET, 8, 0),
    attribute(7, 8, 0),
];

/// `CUBLASLT_MATRIX_LAYOUT_TYPE`
pub const TYPE: c_int = 0;
/// `CUBLASLT_MATRIX_LAYOUT_ORDER`
pub const ORDER: c_int = 1;
/// `CUBLASLT_MATRIX_LAYOUT_ROWS`
pub const ROWS: c_int = 2;
/// `CUBLASLT_MATRIX_LAYOUT_COLS`
pub const COLS: c_int = 3;
/// `CUBLASLT_MATRIX_LAYOUT_LD`
pub const LD: c_int = 4;
/// `CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT`
pub const BATCH_COUNT: c_int = 5;
/// `CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET`
pub const BATCH_OFFSET: c_int = 6;

/// Those of `cublasLtMatmulPreferenceAttributes_t`: none changes what is done.
static OF_PREFERENCES: [Attribute; 9] = [
    attribute(0, 4, 0),
    attribute(1, 8, 0),
    attribute(3, 4, u32::MAX as u64),
    attribute(5, 4, 256),
    attribute(6, 4, 256),
    attribute(7, 4, 256),
    attribute(8, 4, 256),
    attribute(9, 4, 0),
    attribute(12, 8, u64::MAX),
];

/// The values of a descriptor.
pub struct Descriptor {
    table: &'static [Attribute],
    values: Mutex<Vec<u64>>,
}

impl Descriptor {
    fn new(table: &'static [Attribute], given: &[(c_int, u64)]) -> Self {
        let values = table.iter().map(|row| {
            let found = given.iter().find(|(number, _)| *number == row.number);
            found.map_or(row.first, |(_, value)| *value)
        });
        Descriptor { table, values: Mutex::new(values.collect()) }
    }

    fn values(&self) -> MutexGuard<'_, Vec<u64>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of an attribute that its table has, without a sign.
    pub fn value(&self, number: c_int) -> u64 {
        let at = self.table.iter().position(|row| row.number == number);
        at.map_or(0, |at| self.values()[at])
    }

    /// The same of four bytes, with a sign.
    pub fn number(&self, number: c_int) -> c_int {
        self.value(number) as u32 as c_int
    }

    fn row(&self, number: c_int) -> Outcome<(usize, &'static Attribute)> {
        let found = self.table.iter().enumerate().find(|(_, row)| row.number == number);
        found.ok_or_else(|| Failure::unsupported(format!("attribute {number} is not known here")))
    }

    /// # Safety
    /// `buffer` is NULL or valid for reads of `size` bytes.
    unsafe fn set(&self, number: c_int, buffer: *const c_void, size: usize) -> Outcome {
        required(buffer, "buf")?;
        let (at, row) = self.row(number)?;
        if size != row.size {
            return Err(Failure::invalid(format!(
                "sizeInBytes is {size}: attribute {number} has {}",
                row.size
            )));
        }
        let mut bytes = [0; 8];
        // SAFETY: not NULL, and the caller vouches for `size` bytes, of which there are at most
        // eight.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(buffer.cast(), size) };
        self.values()[at] = u64::from_le_bytes(bytes);
        Ok(())
    }

    /// # Safety
    /// `buffer` is NULL or valid for writes of `size` bytes, `written` NULL or valid for one write.
    unsafe fn get(&self, number: c_int, buffer: *mut c_void, size: usize, written: *mut usize) -> Outcome {
        let (at, row) = self.row(number)?;
        if size == 0 {
            // SAFETY: `written` is NULL or valid for one write.
            return unsafe { store(written, "sizeWritten", row.size) };
        }
        required(buffer.cast_const(), "buf")?;
        if size < row.size {
            return Err(Failure::invalid(format!(
                "sizeInBytes is {size}: attribute {number} has {}",
                row.size
            )));
        }
        let bytes = self.values()[at].to_le_bytes();
        // SAFETY: not NULL, and the caller vouches for `size` bytes, which are enough.
        unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), row.size) };
        if written.is_null() {
            return Ok(());
        }
        // SAFETY: `written` is NULL or valid for one write.
        unsafe { store(written, "sizeWritten", row.size) }
    }
}

static PRODUCTS: Registry<Descriptor> = Registry::new();
static LAYOUTS: Registry<Descriptor> = Registry::new();
static PREFERENCES: Registry<Descriptor> = Registry::new();

fn alive(of: &Registry<Descriptor>, handle: *const c_void, argument: &str) -> Outcome<Arc<Descriptor>> {
    of.get(handle).ok_or_else(|| Failure::invalid(format!("{argument} is not alive")))
}

/// The description of a product.
///
/// # Errors
/// Invalid value if it is not alive.
pub fn product(desc: *const c_void) -> Outcome<Arc<Descriptor>> {
    alive(&PRODUCTS, desc, "computeDesc")
}

/// A layout.
///
/// # Errors
/// Invalid value if it is not alive.
pub fn layout(desc: *const c_void, argument: &str) -> Outcome<Arc<Descriptor>> {
    alive(&LAYOUTS, desc, argument)
}

/// A preference.
///
/// # Errors
/// Invalid value if it is not alive.
pub fn preference(desc: *const c_void) -> Outcome<Arc<Descriptor>> {
    alive(&PREFERENCES, desc, "preference")
}

calls! {
    /// Describes a product: a `cublasComputeType_t` and the type of alpha and beta.
    ///
    /// Status: INVALID_VALUE for NULL.
    fn cublasLtMatmulDescCreate(desc: *mut *mut c_void, compute: c_int, scale: c_int) {
        required(desc, "matmulDesc")?;
        let given = [(COMPUTE_TYPE, compute as u32 as u64), (SCALE_TYPE, scale as u32 as u64)];
        let made = PRODUCTS.add(Descriptor::new(&OF_PRODUCTS, &given));
        // SAFETY: not NULL, and the caller vouches for one write.
        unsafe { store(desc, "matmulDesc", made) }
    }

    /// Describes matrices in memory, column by column: a `cudaDataType`, extents, and elements from
    /// a column to the next.
    ///
    /// Status: INVALID_VALUE for NULL.
    fn cublasLtMatrixLayoutCreate(desc: *mut *mut c_void, data_type: c_int, rows: u64, cols: u64, ld: i64) {
        required(desc, "matLayout")?;
        let given = [(TYPE, data_type as u32 as u64), (ROWS, rows), (COLS, cols), (LD, ld as u64)];
        let made = LAYOUTS.add(Descriptor::new(&OF_LAYOUTS, &given));
        // SAFETY: not NULL, and the caller vouches for one write.
        unsafe { store(desc, "matLayout", made) }
    }

    /// What to prefer among algorithms, of which there is one.
    ///
    /// Status: INVALID_VALUE for NULL.
    fn cublasLtMatmulPreferenceCreate(desc: *mut *mut c_void) {
        required(desc, "pref")?;
        let made = PREFERENCES.add(Descriptor::new(&OF_PREFERENCES, &[]));
        // SAFETY: not NULL, and the caller vouches for one write.
        unsafe { store(desc, "pref", made) }
    }
}

macro_rules! of_descriptors {
    ($($registry:ident $argument:literal: $destroy:ident $set:ident $get:ident;)*) => {
        calls! {$(
            /// Ends a descriptor.
            ///
            /// Status: INVALID_VALUE for one that is not alive.
            fn $destroy(desc: *mut c_void) {
                alive(&$registry, desc, $argument)?;
                $registry.remove(desc);
                Ok(())
            }

            /// Sets an attribute.
            ///
            /// Status: INVALID_VALUE for a descriptor that is not alive, NULL, and another size
            /// than the attribute's; NOT_SUPPORTED for attributes that are not known here.
            fn $set(desc: *mut c_void, attribute: c_int, buffer: *const c_void, size: usize) {
                // SAFETY: `buffer` is NULL or valid for reads of `size` bytes.
                unsafe { alive(&$registry, desc, $argument)?.set(attribute, buffer, size) }
            }

            /// Gets an attribute; its size alone if the buffer has no bytes.
            ///
            /// Status: as for setting it; a buffer may be larger.
            fn $get(desc: *mut c_void, attribute: c_int, buffer: *mut c_void, size: usize, written: *mut usize) {
                // SAFETY: `buffer` is NULL or valid for writes of `size` bytes, `written` NULL or
                // valid for one write.
                unsafe { alive(&$registry, desc, $argument)?.get(attribute, buffer, size, written) }
            }
        )*}
    };
}

of_descriptors! {
    PRODUCTS "matmulDesc":
        cublasLtMatmulDescDestroy cublasLtMatmulDescSetAttribute cublasLtMatmulDescGetAttribute;
    LAYOUTS "matLayout":
        cublasLtMatrixLayoutDestroy cublasLtMatrixLayoutSetAttribute cublasLtMatrixLayoutGetAttribute;
    PREFERENCES "pref":
        cublasLtMatmulPreferenceDestroy cublasLtMatmulPreferenceSetAttribute cublasLtMatmulPreferenceGetAttribute;
}
