//! Checks of raw pointer arguments, and the usual ways in which a C pointer becomes a value or is
//! written to. What only one kind of call takes is read there: values for a tensor, lists of
//! handles, the text of the last error.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use super::types::{CEnum, raw};
use crate::desc::Choice;
use crate::error::{Error, Result};
use crate::layout::Dims;

/// Refuses NULL.
pub(crate) fn required<T>(pointer: *const T, argument: &'static str) -> Result<()> {
    if pointer.is_null() { Err(Error::Null { argument }) } else { Ok(()) }
}

/// Refuses NULL and pointers that do not lie on a multiple of the scalar's size.
pub(crate) fn data(pointer: *const c_void, size: usize, argument: &'static str) -> Result<()> {
    required(pointer, argument)?;
    if !pointer.addr().is_multiple_of(size) {
        let text = format!("{argument} = {pointer:p}: data must be aligned to its scalars of {size} bytes");
        return Err(Error::mismatch(text));
    }
    Ok(())
}

/// The alternative that an enum argument names.
///
/// # Errors
/// Bad parameter for a number that is not in the list.
pub(crate) fn choice<C: Choice, E: CEnum>(value: MaybeUninit<E>, argument: &'static str) -> Result<C> {
    let code = raw(value);
    C::from_code(code).ok_or_else(|| {
        Error::argument(argument, code.into(), format!("the choices are 0 to {}", C::ALL.len() - 1))
    })
}

/// Reads a scaling factor, `double` or `float`.
///
/// # Errors
/// Bad parameter for NULL.
///
/// # Safety
/// `pointer` is NULL or valid for one read of that type.
pub(crate) unsafe fn factor(pointer: *const c_void, argument: &'static str, is_double: bool) -> Result<f64> {
    required(pointer, argument)?;
    // SAFETY: not NULL, and the caller vouches for one value of the type.
    Ok(unsafe {
        if is_double {
            pointer.cast::<f64>().read_unaligned()
        } else {
            pointer.cast::<f32>().read_unaligned().into()
        }
    })
}

/// A required place for one result.
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// # Errors
    /// Bad parameter for NULL.
    ///
    /// # Safety
    /// `pointer` is NULL or valid for one write of `T` until the entry point returns.
    pub(crate) unsafe fn new(pointer: *mut T, argument: &'static str) -> Result<Self> {
        required(pointer, argument)?;
        Ok(Out(pointer))
    }

    /// Stores the result; C callers need not have aligned the place.
    pub(crate) fn set(self, value: T) {
        // SAFETY: `new` refused NULL, and its caller vouched for the rest.
        unsafe { self.0.write_unaligned(value) }
    }
}

impl Out<c_int> {
    /// A required place for an enumerator; any integer may be stored there.
    ///
    /// # Errors
    /// Bad parameter for NULL.
    ///
    /// # Safety
    /// As [`Out::new`].
    pub(crate) unsafe fn code<E: CEnum>(pointer: *mut E, argument: &'static str) -> Result<Self> {
        const { assert!(size_of::<E>() == size_of::<c_int>()) };
        // SAFETY: the place is NULL or valid for one write of an enumerator, which has the size of
        // an int.
        unsafe { Out::new(pointer.cast::<c_int>(), argument) }
    }
}

impl<T> Out<T> {
    /// A required place that C calls `void *`.
    ///
    /// # Errors
    /// Bad parameter for NULL.
    ///
    /// # Safety
    /// As [`Out::new`].
    pub(crate) unsafe fn cast(pointer: *mut c_void, argument: &'static str) -> Result<Self> {
        // SAFETY: the place is NULL or valid for one write of a `T`.
        unsafe { Out::new(pointer.cast::<T>(), argument) }
    }
}

/// Results with their places, a list that the compiler takes apart.
pub(crate) trait Pending {
    /// Stores all of them, in the order of the list.
    fn store(self);
}

impl Pending for () {
    fn store(self) {}
}

impl<T, R: Pending> Pending for ((Out<T>, T), R) {
    fn store(self) {
        let ((place, value), rest) = self;
        place.set(value);
        rest.store();
    }
}

impl<const N: usize, R: Pending> Pending for (([Out<c_int>; N], Dims), R) {
    fn store(self) {
        let ((places, values), rest) = self;
        set_first(&places, &values);
        rest.store();
    }
}

/// The end of a Get: looks at every place, in this order, then computes every value, then stores
/// them, so that a value which is an error leaves all places as they are. `new` places take their
/// own type, `code` places the number of an enumerator, `cast` places of `void *` what the value
/// is, and `each` the first entries of dims, zeros where they end:
/// `results!(code mode = pooling.mode().code(), each [windowHeight, windowWidth] = pooling.window())`.
/// The entry point is unsafe as [`Out::new`] is, and a place has the name of its argument.
///
/// Calls whose order is another use [`Out`] itself: those that write before an error (0 into sizes
/// and output dims, as the original does), that judge more arguments between a place and its value,
/// or that store only if something else succeeded.
macro_rules! results {
    ($($kind:ident $place:tt = $value:expr),+ $(,)?) => {{
        $(let $place = results!(@place $kind $place);)+
        $crate::capi::arg::Pending::store(results!(@list $($place = $value),+));
        Ok(())
    }};
    (@place each [$($place:ident),+]) => {
        // SAFETY: an entry point's places are NULL or valid for one write until it returns.
        unsafe { [$($crate::capi::arg::Out::new($place, stringify!($place))?),+] }
    };
    (@place $kind:ident $place:ident) => {
        // SAFETY: an entry point's places are NULL or valid for one write until it returns.
        unsafe { $crate::capi::arg::Out::$kind($place, stringify!($place)) }?
    };
    (@list $place:tt = $value:expr $(, $next:tt = $then:expr)*) => {
        (($place, $value), results!(@list $($next = $then),*))
    };
    (@list) => {
        ()
    };
}
pub(crate) use results;

/// The operands of a plan with their names, for [`Call::run`](crate::exec::Call::run): each pointer
/// has the name of its argument, or one that is given, `operands![y, x, reserveSpace = aligned]`.
macro_rules! operands {
    (@at $name:ident) => { $crate::exec::Address::from($name) };
    (@at $name:ident = $pointer:expr) => { $crate::exec::Address::from($pointer) };
    ($($name:ident $(= $pointer:expr)?),+ $(,)?) => {
        [$((stringify!($name), operands!(@at $name $(= $pointer)?))),+]
    };
}
pub(crate) use operands;

/// Stores a result whose place may be NULL.
///
/// # Safety
/// `pointer` is NULL or valid for one write of `T`.
pub(crate) unsafe fn set_optional<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: `pointer` is not NULL, and so valid for one write.
        unsafe { pointer.write_unaligned(value) }
    }
}

/// Stores an enumerator whose place may be NULL; any integer may be stored there.
///
/// # Safety
/// `pointer` is NULL or valid for one write.
pub(crate) unsafe fn set_optional_code<E: CEnum>(pointer: *mut E, code: c_int) {
    const { assert!(size_of::<E>() == size_of::<c_int>()) };
    // SAFETY: the place is NULL or valid for one write of an enumerator, which has the size of an
    // int.
    unsafe { set_optional(pointer.cast::<c_int>(), code) }
}

/// The first entries of a C array of `int`, at most as many as a descriptor has dimensions.
///
/// # Errors
/// Bad parameter for NULL, unless no entry is asked for.
///
/// # Safety
/// `array` is NULL or valid for reads of `len` ints (as far as `len` is at most the largest rank).
pub(crate) unsafe fn ints(array: *const c_int, len: c_int, argument: &'static str) -> Result<Dims> {
    let len = usize::try_from(len).unwrap_or(0).min(crate::layout::MAX_RANK);
    let mut values = Dims::filled(len, 0);
    if len > 0 {
        required(array, argument)?;
    }
    for (index, value) in values.iter_mut().enumerate() {
        // SAFETY: not NULL, and the caller vouches for `len` entries.
        *value = i64::from(unsafe { array.add(index).read_unaligned() });
    }
    Ok(values)
}

/// A C array of `len` ints, however long.
///
/// # Errors
/// Bad parameter for NULL; host allocation if there is no memory for the copy.
///
/// # Safety
/// `array` is NULL or valid for reads of `len` ints.
pub(crate) unsafe fn int_list(array: *const c_int, len: usize, argument: &'static str) -> Result<Vec<c_int>> {
    required(array, argument)?;
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| Error::HostAllocation { bytes: len.saturating_mul(4) })?;
    // SAFETY: not NULL, and the caller vouches for `len` entries.
    values.extend((0..len).map(|index| unsafe { array.add(index).read_unaligned() }));
    Ok(values)
}

/// Fills `values` from a C array, or leaves them if it is NULL.
///
/// # Safety
/// `array` is NULL or valid for reads of `values.len()` entries.
pub(crate) unsafe fn load_optional<T: Copy>(array: *const T, values: &mut [T]) {
    if !array.is_null() {
        for (index, value) in values.iter_mut().enumerate() {
            // SAFETY: not NULL, and the caller vouches for this many entries.
            *value = unsafe { array.add(index).read_unaligned() };
        }
    }
}

/// Copies `values` to a C array, unless it is NULL.
///
/// # Safety
/// `array` is NULL or valid for writes of `values.len()` entries.
pub(crate) unsafe fn store_optional<T: Copy>(array: *mut T, values: &[T]) {
    if !array.is_null() {
        // SAFETY: not NULL, and the caller vouches for this many entries.
        unsafe { store(array, values.iter().copied()) }
    }
}

/// Copies values to a C array whose pointer was checked.
///
/// # Safety
/// `array` is valid for writes of as many entries as `values` yields.
pub(crate) unsafe fn store<T>(array: *mut T, values: impl IntoIterator<Item = T>) {
    for (index, value) in values.into_iter().enumerate() {
        // SAFETY: the caller vouches for this many entries.
        unsafe { array.add(index).write_unaligned(value) }
    }
}

/// Copies `values` to a C array of `count` ints whose pointer was checked, zeros behind the last
/// value; nothing if `count` is negative.
///
/// # Safety
/// `array` is valid for `count` writes.
pub(crate) unsafe fn store_padded(array: *mut c_int, values: &[i64], count: c_int) {
    let padded = values.iter().map(|&value| value as c_int).chain(std::iter::repeat(0));
    // SAFETY: the caller vouches for this many entries.
    unsafe { store(array, padded.take(usize::try_from(count).unwrap_or(0))) }
}

/// Copies ints to a C array whose pointer was checked, up to the first that is an error.
///
/// # Errors
/// That error.
///
/// # Safety
/// `array` is valid for as many writes as `values` yields.
pub(crate) unsafe fn store_until_error(
    array: *mut c_int, values: impl Iterator<Item = Result<i64>>,
) -> Result<()> {
    for (index, value) in values.enumerate() {
        // SAFETY: the caller vouches for this many entries.
        unsafe { array.add(index).write_unaligned(value? as c_int) }
    }
    Ok(())
}

/// Stores the first entries of a short array one by one, zeros where it ends.
pub(crate) fn set_first(places: &[Out<c_int>], values: &[i64]) {
    for (axis, place) in places.iter().enumerate() {
        place.set(values.get(axis).copied().unwrap_or(0) as c_int);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_stored_together_or_not_at_all() {
        let store = |places: &mut [c_int; 3], lost: usize, value: Result<c_int>| -> Result<()> {
            let base = places.as_mut_ptr();
            let place = |k: usize| if k == lost { std::ptr::null_mut() } else { base.wrapping_add(k) };
            let (first, second, third) = (place(0), place(1), place(2).cast::<c_void>());
            results!(each [first, second] = Dims::new(&[3]), cast third = value?)
        };
        let mut places = [7; 3];
        let refused = Error::unsupported("no");
        assert_eq!(store(&mut places, 3, Err(refused.clone())), Err(refused));
        assert_eq!(store(&mut places, 1, Ok(5)), Err(Error::Null { argument: "second" }));
        assert_eq!(store(&mut places, 2, Ok(5)), Err(Error::Null { argument: "third" }));
        assert_eq!(places, [7; 3]);
        assert_eq!(store(&mut places, 3, Ok(5)), Ok(()));
        assert_eq!(places, [3, 0, 5]);
    }

    #[test]
    fn data_is_aligned_to_its_scalars() {
        let at = |address: usize| std::ptr::without_provenance::<c_void>(address);
        assert_eq!(data(at(0x1004), 4, "x"), Ok(()));
        let error = data(at(usize::MAX - 1), 4, "x").unwrap_err();
        let text = "x = 0xfffffffffffffffe: data must be aligned to its scalars of 4 bytes";
        assert_eq!((error.kind(), error.to_string().as_str()), (crate::error::ErrorKind::BadParam, text));
        assert_eq!(data(at(0), 4, "x"), Err(Error::Null { argument: "x" }));
    }
}
