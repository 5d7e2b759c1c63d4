//! Arrays of the caller's as values of attributes, and back.

use std::ffi::c_void;

use super::arg;
use super::backend::{link, show};
use super::context;
use crate::desc::graph::{Expected, Storage, Type, Value};
use crate::error::Result;

/// One value, however it is aligned.
///
/// # Safety
/// `array` is valid for reads of `index + 1` values.
unsafe fn at<T>(array: *const c_void, index: usize) -> T {
    // SAFETY: as the caller promises; the read needs no alignment.
    unsafe { array.cast::<T>().add(index).read_unaligned() }
}

/// The values that a Set is given.
///
/// # Errors
/// Bad parameter for a descriptor or a handle that is not alive.
///
/// # Safety
/// `array` is valid for reads of as many values as are expected.
pub(super) unsafe fn read(expected: &Expected, array: *const c_void) -> Result<Value> {
    let indices = 0..expected.count;
    let ty = expected.ty;
    // SAFETY: the caller promises as many values as are expected, and the type says how large one is.
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

/// A pointer as it is kept, with its provenance exposed; a handle has to be alive or NULL.
fn address(ty: Type, pointer: *mut c_void) -> Result<usize> {
    if ty == Type::Handle && !pointer.is_null() {
        context::check(pointer.cast())?;
    }
    Ok(pointer.expose_provenance())
}

/// A text up to its NUL, or so many characters of it.
///
/// # Safety
/// `array` is valid for reads up to the first NUL or of `count` characters.
unsafe fn text(array: *const c_void, count: usize) -> Vec<u8> {
    // SAFETY: as the caller promises; no character behind a NUL is read.
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
    // SAFETY: in all of them, as the caller promises; the type says how large a value is.
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
        }
    }
    Ok(())
}

/// The descriptors that the caller gives to be filled.
///
/// # Safety
/// `array` is valid for reads of so many.
pub(super) unsafe fn descriptors(array: *const c_void, count: usize) -> Vec<*mut c_void> {
    // SAFETY: as the caller promises.
    (0..count).map(|index| unsafe { at(array, index) }).collect()
}
