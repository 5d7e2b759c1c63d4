//! The C types: enums, structs, opaque tags, handles and constants under the names that C programs
//! use.
//!
//! Everything is defined once, here, and reaches `include/cudnn.h` through cbindgen. Numbers are
//! those of 9.27.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, deprecated)]

use std::ffi::c_int;
use std::mem::MaybeUninit;

/// An enum of the C interface.
///
/// C may pass any 32-bit integer where it declares an enum, and a Rust enum must never hold a value
/// outside its list. So parameters and struct fields that C fills in are `MaybeUninit<E>`, which
/// [`decode`](CEnum::decode) turns into an `E`, or into `None` for a number that is not in the
/// list. The attribute `#[c_enum]` implements it.
///
/// # Safety
/// `Self` is `repr(C)` without fields and as large as a C `int`.
pub unsafe trait CEnum: Copy + 'static {
    /// Every enumerator in declaration order.
    const ALL: &'static [Self];

    /// The number that C sees.
    fn code(self) -> c_int;

    /// The enumerator of this number.
    fn from_code(code: c_int) -> Option<Self>;

    /// The name in the header.
    fn name(self) -> &'static str;

    /// The enumerator that C passed, `None` for a number outside the list.
    fn decode(value: MaybeUninit<Self>) -> Option<Self> {
        Self::from_code(raw(value))
    }
}

/// The number that C passed for an enum, whatever it is.
pub fn raw<E: CEnum>(value: MaybeUninit<E>) -> c_int {
    const { assert!(size_of::<E>() == size_of::<c_int>() && align_of::<E>() == align_of::<c_int>()) };
    // SAFETY: the size is checked above, every bit pattern is an int, and C passes initialised
    // arguments.
    unsafe { value.as_ptr().cast::<c_int>().read() }
}

mod backend_attribute;
mod backend_mode;
mod backend_object;
mod constants;
mod convolution;
mod dlpack;
mod fused;
mod layers;
mod library;
mod newer;
mod removed;
mod sequence;
mod status;
mod tensor;

pub use backend_attribute::*;
pub use backend_mode::*;
pub use backend_object::*;
pub use constants::*;
pub use convolution::*;
pub use dlpack::*;
pub use fused::*;
pub use layers::*;
pub use library::*;
pub use newer::*;
pub use removed::*;
pub use sequence::*;
pub use status::*;
pub use tensor::*;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_integer_decodes_to_its_enumerator_or_to_nothing() {
        // An interpreter takes hours for all of them.
        let most = if cfg!(miri) { 300 } else { 70_000 };
        for code in -most..most {
            let value = MaybeUninit::new(code);
            // SAFETY: MaybeUninit of an enum holds any 32 bits.
            let value =
                unsafe { std::mem::transmute::<MaybeUninit<c_int>, MaybeUninit<cudnnStatus_t>>(value) };
            assert_eq!(raw(value), code);
            let expected = cudnnStatus_t::ALL.iter().copied().find(|e| e.code() == code);
            assert_eq!(cudnnStatus_t::decode(value), expected);
        }
    }

    #[test]
    fn the_one_negative_enumerator_decodes() {
        let auto = cudnnBackendOperationGraphMode_t::CUDNN_OPERATIONGRAPH_MODE_AUTO;
        assert_eq!(auto.code(), -1);
        assert_eq!(cudnnBackendOperationGraphMode_t::from_code(-1), Some(auto));
        assert_eq!(auto.name(), "CUDNN_OPERATIONGRAPH_MODE_AUTO");
    }
}
