//! Arrays of the caller's as values of attributes, and back.

use std::ffi::c_void;

use super::arg;
use super::backend_objects::{link, show};
use super::context;
use crate::desc::graph::{Expected, Storage, Type, Value};
use crate::error::{Error, Result};

/// One value, however it is aligned.
///
/// # Safety
/// `array` is valid for reads of `index + 1` values.
unsafe fn at<T>(array: *const c_void, index: usize) -> T {
    // SAFETY: `array` holds `index + 1` values; the read needs no alignment.
    unsafe { array.cast::<T>().add(index).read_unaligned() }
}

/// The values that a Set is given.
///
/// # Errors
/// Bad parameter for a descriptor or a handle that is not alive.
///
/// # Safety
/// `array` is valid for reads of as many values as are expected; the address of a constant for reads of an element.
pub(super) unsafe fn read(expected: &Expected, array: *const c_void) -> Result<Value> {
    if expected.is_lists() {
        // SAFETY: `array` holds as many values as are expected.
        return Ok(Value::Lists(unsafe { lists(array) }?));
    }
    if let Some(bytes) = expected.pointee {
        // SAFETY: `array` holds the address.
        let constant = unsafe { at::<*const c_void>(array, 0) };
        if constant.is_null() {
            return Err(Error::mismatch("arrayOfElements[0] is NULL: a constant has a value"));
        }
        // SAFETY: the address of a constant leads to an element of the tensor's type.
        return Ok(Value::Text((0..bytes).map(|index| unsafe { at::<u8>(constant, index) }).collect()));
    }
    let indices = 0..expected.count;
    let ty = expected.ty;
    // SAFETY: `array` holds as many values as are expected, and the type says how large one is.
    let value = unsafe {
        match ty.storage() {
            Storage::Byte if ty == Type::Char => Value::Text(text(array, expected.count)),
            Storage::Byte => Value::Ints(ty, indices.map(|index| at::<u8>(array, index).into()).collect()),
            Storage::I32 => Value::Ints(ty, indices.map(|index| at::<i32>(array, index).into()).collect()),
            Storage::I64 => Value::Ints(ty, indices.map(|index| at::<i64>(array, index)).collect()),
            Storage::F32 => Value::Reals(ty, indices.map(|index| at::<f32>(array, index).into()).collect()),
            Storage::F64 => Value::Reals(ty, indices.map(|index| at::<f64>(array, index)).collect()),
            Storage::Fraction => Value::Fractions(
                indices.map(|index| (at::<i64>(array, 2 * index), at::<i64>(array, 2 * index + 1))).collect(),
            ),
            Storage::Pointer => {
                let pointers = indices.map(|index| at::<*mut c_void>(array, index));
                Value::Pointers(pointers.map(|pointer| address(ty, pointer)).collect::<Result<_>>()?)
            }
            Storage::Descriptor => {
                let descriptors = indices.map(|index| (index, at::<*mut c_void>(array, index)));
                Value::Links(
                    descriptors.map(|(index, descriptor)| link(index, descriptor)).collect::<Result<_>>()?,
                )
            }
        }
    };
    Ok(value)
}

/// What a C++ container holds, whose first word is where its elements begin, and whose second one where they end.
///
/// # Errors
/// Bad parameter if that is no number of whole elements, or more than `most`.
///
/// # Safety
/// `container` is valid for reads of two pointers.
unsafe fn held<T>(container: *const c_void, most: usize) -> Result<(*const c_void, usize)> {
    // SAFETY: `container` holds two pointers.
    let (begin, end) = unsafe { (at::<*const c_void>(container, 0), at::<*const c_void>(container, 1)) };
    let size = size_of::<T>();
    match end.addr().checked_sub(begin.addr()) {
        Some(0) => Ok((begin, 0)),
        Some(bytes) if bytes % size == 0 && bytes / size <= most && !begin.is_null() => {
            Ok((begin, bytes / size))
        }
        _ => Err(Error::mismatch("arrayOfElements is no std::vector<std::vector<int64_t>> of shapes")),
    }
}

/// The elements of a `std::vector<std::vector<int64_t>>`: cudnn-frontend gives the address of one. In the C++ libraries of Linux a
/// vector is three pointers: to its first element, behind its last one, and behind its memory.
///
/// # Errors
/// Bad parameter for what is none, or has more elements than there are tensors and dimensions.
///
/// # Safety
/// `array` is the address of such a vector.
unsafe fn lists(array: *const c_void) -> Result<Vec<Vec<i64>>> {
    const MOST_LISTS: usize = 4096;
    const MOST_DIMS: usize = 64;
    // SAFETY: `array` is the address of a vector, and what a vector says it holds is there.
    unsafe {
        let (outer, count) = held::<[*const c_void; 3]>(array, MOST_LISTS)?;
        let list = |index: usize| {
            let (inner, count) =
                held::<i64>(outer.cast::<[*const c_void; 3]>().add(index).cast(), MOST_DIMS)?;
            Ok((0..count).map(|index| at::<i64>(inner, index)).collect())
        };
        (0..count).map(list).collect()
    }
}

/// A pointer as it is kept, with its provenance exposed; a handle has to be alive or NULL.
fn address(ty: Type, pointer: *mut c_void) -> Result<usize> {
    if ty == Type::Handle && !pointer.is_null() {
        context::check(pointer.cast())?;
    }
    Ok(pointer.expose_provenance())
}

/// A text up to its NUL, or `count` characters of it.
///
/// # Safety
/// `array` is valid for reads up to the first NUL or of `count` characters.
unsafe fn text(array: *const c_void, count: usize) -> Vec<u8> {
    // SAFETY: `array` is readable up to its first NUL, and no character behind that is read.
    let characters = (0..count).map(|index| unsafe { at::<u8>(array, index) });
    let mut text: Vec<u8> = characters.take_while(|&character| character != 0).collect();
    if text.len() < count {
        text.push(0);
    }
    text
}

/// Stores the values that a Get answers. Descriptors are shown by those that the array holds.
///
/// # Errors
/// Bad parameter for a descriptor of the array that is not alive, before anything is stored.
///
/// # Safety
/// `array` is valid for writes of as many values as there are, or, for descriptors, for reads.
pub(super) unsafe fn write(value: &Value, array: *mut c_void) -> Result<()> {
    // SAFETY: `array` has room for the values, or holds the descriptors; the type says how large a value is.
    unsafe {
        match value {
            Value::Ints(ty, values) => match ty.storage() {
                Storage::Byte => arg::store(array.cast::<u8>(), values.iter().map(|&value| value as u8)),
                Storage::I64 => arg::store(array.cast::<i64>(), values.iter().copied()),
                _ => arg::store(array.cast::<i32>(), values.iter().map(|&value| value as i32)),
            },
            Value::Reals(Type::Float, values) => {
                arg::store(array.cast::<f32>(), values.iter().map(|&value| value as f32));
            }
            Value::Reals(_, values) => arg::store(array.cast::<f64>(), values.iter().copied()),
            Value::Fractions(values) => {
                let numbers = values.iter().flat_map(|&(numerator, denominator)| [numerator, denominator]);
                arg::store(array.cast::<i64>(), numbers);
            }
            Value::Text(text) => arg::store(array.cast::<u8>(), text.iter().copied()),
            Value::Pointers(pointers) => {
                let pointers =
                    pointers.iter().map(|&pointer| std::ptr::with_exposed_provenance_mut::<c_void>(pointer));
                arg::store(array.cast::<*mut c_void>(), pointers);
            }
            Value::Links(links) => show(&descriptors(array, links.len()), links)?,
            // Nothing answers them.
            Value::Lists(_) => {}
        }
    }
    Ok(())
}

/// The descriptors that the caller gives to be filled.
///
/// # Safety
/// `array` is valid for reads of `count` pointers.
pub(super) unsafe fn descriptors(array: *const c_void, count: usize) -> Vec<*mut c_void> {
    // SAFETY: `array` holds `count` pointers.
    (0..count).map(|index| unsafe { at(array, index) }).collect()
}
