//! Numbers and arrays that calls are given by address, and that graphs read when they are launched.

use std::ffi::c_void;

use super::kind::Kind;
use super::status::{Outcome, required};

/// Where something lies that threads share.
#[derive(Debug)]
pub struct Place<T>(*mut T);

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

// SAFETY: a place is where it is for every thread; whoever reads or writes it vouches for what is
// there.
unsafe impl<T> Send for Place<T> {}
// SAFETY: sharing a place gives access to nothing; what reads or writes it is unsafe.
unsafe impl<T> Sync for Place<T> {}

impl<T> Place<T> {
    /// Of what is read, or written.
    pub fn new(pointer: *const T) -> Self {
        Place(pointer.cast_mut())
    }

    /// The pointer. A method, for closures take fields of their own, and a bare pointer does not go
    /// to other threads.
    pub fn get(self) -> *mut T {
        self.0
    }
}

/// A number that a call is given by address.
#[derive(Clone, Copy, Debug)]
pub enum Factor {
    /// Of the host: as it is at the call.
    Known(f64),
    /// Of the device: as it is when the work is done.
    OnDevice(Place<c_void>, Kind, &'static str),
}

impl Factor {
    /// # Errors
    /// Invalid value for NULL.
    ///
    /// # Safety
    /// `pointer` is NULL or valid for one read: now, or on the device whenever the work is done.
    pub unsafe fn new(
        kind: Kind, pointer: *const c_void, argument: &'static str, is_on_device: bool,
    ) -> Outcome<Factor> {
        required(pointer, argument)?;
        if is_on_device {
            return Ok(Factor::OnDevice(Place::new(pointer), kind, argument));
        }
        // SAFETY: not NULL, and so valid for one read.
        Ok(Factor::Known(unsafe { kind.read(pointer, argument)? }))
    }

    /// The number, if it is known at the call.
    pub fn known(self) -> Option<f64> {
        match self {
            Factor::Known(value) => Some(value),
            Factor::OnDevice(..) => None,
        }
    }

    /// The number.
    ///
    /// # Errors
    /// None, for NULL was refused.
    ///
    /// # Safety
    /// The work is done now, so that a number of the device is there.
    pub unsafe fn get(self) -> Outcome<f64> {
        match self {
            Factor::Known(value) => Ok(value),
            // SAFETY: as this function's caller says.
            Factor::OnDevice(place, kind, argument) => unsafe { kind.read(place.get(), argument) },
        }
    }
}
