//! Copies: rows of slices, from host or device to host or device.

use std::ffi::c_void;

use super::error::{Error, Failure, Result};
use super::model::Handle;
use super::model::copy::{Copy, Extent, Pitched, Rows};
use super::model::operation::Operation;
use super::state::{State, state};
use super::{capture, device};

/// `cudaPos`: bytes, rows and slices.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Position {
    x: usize,
    y: usize,
    z: usize,
}

/// `cudaMemcpy3DParms`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Parameters {
    from_array: *mut c_void,
    from_at: Position,
    from: Pitched,
    to_array: *mut c_void,
    to_at: Position,
    to: Pitched,
    extent: Extent,
    kind: i32,
}

/// `cudaMemcpy3DPeerParms`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PeerParameters {
    from_array: *mut c_void,
    from_at: Position,
    from: Pitched,
    from_device: i32,
    to_array: *mut c_void,
    to_at: Position,
    to: Pitched,
    to_device: i32,
    extent: Extent,
}

fn rows(name: &str, pitched: &Pitched, at: &Position) -> Result<Rows> {
    let large =
        || Error::InvalidValue.because(format_args!("{name}: {pitched:?} at {at:?}: no memory is as large"));
    let slice = pitched.pitch.checked_mul(pitched.height).ok_or_else(large)?;
    let offset = at.z.checked_mul(slice).zip(at.y.checked_mul(pitched.pitch));
    let offset = offset.and_then(|(z, y)| z.checked_add(y)?.checked_add(at.x)).ok_or_else(large)?;
    let start = pitched.pointer.expose_provenance();
    // NULL stays NULL wherever in it the rows would begin.
    let address = if start == 0 { 0 } else { start.checked_add(offset).ok_or_else(large)? };
    Ok(Rows { address, pitch: pitched.pitch, slice })
}

impl Parameters {
    /// The copy that they describe.
    pub(super) fn copy(&self) -> Result<Copy> {
        if !self.from_array.is_null() || !self.to_array.is_null() {
            return Err(no_arrays());
        }
        let to = rows("dstPtr", &self.to, &self.to_at)?;
        let from = rows("srcPtr", &self.from, &self.from_at)?;
        Ok(Copy { to, from, extent: self.extent, kind: self.kind })
    }

    /// Describes a copy.
    pub(super) fn of(copy: &Copy) -> Parameters {
        let null = std::ptr::null_mut();
        let start = Position { x: 0, y: 0, z: 0 };
        let pitched = |rows: &Rows| Pitched {
            pointer: std::ptr::with_exposed_provenance_mut(rows.address),
            pitch: rows.pitch,
            width: copy.extent.width,
            height: rows.slice.checked_div(rows.pitch).unwrap_or(0),
        };
        Parameters {
            from_array: null,
            from_at: start,
            from: pitched(&copy.from),
            to_array: null,
            to_at: start,
            to: pitched(&copy.to),
            extent: copy.extent,
            kind: copy.kind,
        }
    }
}

impl PeerParameters {
    fn copy(&self) -> Result<Copy> {
        device::only(self.from_device)?;
        device::only(self.to_device)?;
        if !self.from_array.is_null() || !self.to_array.is_null() {
            return Err(no_arrays());
        }
        let (to, from) = (rows("dstPtr", &self.to, &self.to_at)?, rows("srcPtr", &self.from, &self.from_at)?);
        Ok(Copy { to, from, extent: self.extent, kind: DEVICE_TO_DEVICE })
    }
}

fn no_arrays() -> Failure {
    Error::NotSupported.because("arrays are not built: only kernels read them")
}

fn given<T>(parameters: Option<&T>) -> Result<&T> {
    parameters.ok_or_else(|| Error::InvalidValue.because("the structure of parameters is NULL"))
}

/// `cudaMemcpyDeviceToDevice`.
const DEVICE_TO_DEVICE: i32 = 3;

/// One operand of a copy of two dimensions.
fn plane(pointer: *const c_void, pitch: usize) -> Rows {
    Rows { address: pointer.expose_provenance(), pitch, slice: 0 }
}

fn planes(
    to: (*mut c_void, usize), from: (*const c_void, usize), (width, height): (usize, usize), kind: i32,
) -> Result<Copy> {
    for (name, pitch) in [("dpitch", to.1), ("spitch", from.1)] {
        if pitch < width || pitch > isize::MAX as usize {
            let rule = format!("{name} is {pitch}, rows have {width} bytes");
            return Err(Error::InvalidPitchValue.because(rule));
        }
    }
    let extent = Extent { width, height, depth: 1 };
    Ok(Copy { to: plane(to.0, to.1), from: plane(from.0, from.1), extent, kind })
}

fn peer(
    to: *mut c_void, to_device: i32, from: *const c_void, from_device: i32, count: usize,
) -> Result<Copy> {
    device::only(to_device)?;
    device::only(from_device)?;
    Ok(Copy::flat(to, from, count, DEVICE_TO_DEVICE))
}

fn offset(state: &State, symbol: *const c_void, count: usize, offset: usize) -> Result<*mut c_void> {
    let start = state.kernels.variable(symbol, count, offset)?;
    Ok(std::ptr::with_exposed_provenance_mut(start + offset))
}

fn to_symbol(symbol: *const c_void, from: *const c_void, count: usize, at: usize, kind: i32) -> Result<Copy> {
    if !matches!(kind, 1 | 3 | 4) {
        return Err(
            Error::InvalidMemcpyDirection.because(format_args!("kind is {kind}; symbols are on the device"))
        );
    }
    Ok(Copy::flat(offset(&state(), symbol, count, at)?, from, count, kind))
}

fn from_symbol(to: *mut c_void, symbol: *const c_void, count: usize, at: usize, kind: i32) -> Result<Copy> {
    if !matches!(kind, 2..=4) {
        return Err(
            Error::InvalidMemcpyDirection.because(format_args!("kind is {kind}; symbols are on the device"))
        );
    }
    Ok(Copy::flat(to, offset(&state(), symbol, count, at)?, count, kind))
}

/// A copy from symbol or to it, for graphs.
pub(super) fn with_symbol(
    symbol: *const c_void, other: *mut c_void, count: usize, at: usize, kind: i32, is_to: bool,
) -> Result<Copy> {
    if is_to {
        to_symbol(symbol, other, count, at, kind)
    } else {
        from_symbol(other, symbol, count, at, kind)
    }
}

/// A flat copy, for graphs.
pub(super) fn flat(to: *mut c_void, from: *const c_void, count: usize, kind: i32) -> Copy {
    Copy::flat(to, from, count, kind)
}

runtime! {
    /// Copies `count` bytes, overlapping ones as if through a buffer.
    ///
    /// Status: cudaErrorInvalidMemcpyDirection for an unknown kind; cudaErrorInvalidValue for NULL,
    /// memory of another kind than the direction says, and more bytes than a block has left.
    fn cudaMemcpy(dst: *mut c_void, src: *const c_void, count: usize, kind: i32) {
        capture::now(Operation::Copy(Copy::flat(dst, src, count, kind)))
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpy; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpyAsync(dst: *mut c_void, src: *const c_void, count: usize, kind: i32, stream: Handle) {
        capture::ordered(stream, Operation::Copy(Copy::flat(dst, src, count, kind)))
    }

    /// Copies between devices, of which there is one.
    ///
    /// Status: as cudaMemcpy; cudaErrorInvalidDevice for other devices.
    fn cudaMemcpyPeer(dst: *mut c_void, to: i32, src: *const c_void, from: i32, count: usize) {
        capture::now(Operation::Copy(peer(dst, to, src, from, count)?))
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpyPeer; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpyPeerAsync(dst: *mut c_void, to: i32, src: *const c_void, from: i32, count: usize, stream: Handle) {
        capture::ordered(stream, Operation::Copy(peer(dst, to, src, from, count)?))
    }

    /// Copies `height` rows of `width` bytes.
    ///
    /// Status: cudaErrorInvalidPitchValue for a pitch below `width`, or one that is negative; as
    /// cudaMemcpy.
    fn cudaMemcpy2D(
        dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize, kind: i32,
    ) {
        capture::now(Operation::Copy(planes((dst, dpitch), (src, spitch), (width, height), kind)?))
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpy2D; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpy2DAsync(
        dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize, kind: i32,
        stream: Handle,
    ) {
        capture::ordered(stream, Operation::Copy(planes((dst, dpitch), (src, spitch), (width, height), kind)?))
    }

    /// Copies `extent.depth` slices of rows, from and to positions in pitched memory.
    ///
    /// Status: cudaErrorInvalidValue for NULL; cudaErrorNotSupported for arrays; as cudaMemcpy2D.
    fn cudaMemcpy3D(parameters: Option<&Parameters>) {
        capture::now(Operation::Copy(given(parameters)?.copy()?))
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpy3D; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpy3DAsync(parameters: Option<&Parameters>, stream: Handle) {
        capture::ordered(stream, Operation::Copy(given(parameters)?.copy()?))
    }

    /// The same between devices, of which there is one.
    ///
    /// Status: as cudaMemcpy3D; cudaErrorInvalidDevice for other devices.
    fn cudaMemcpy3DPeer(parameters: Option<&PeerParameters>) {
        capture::now(Operation::Copy(given(parameters)?.copy()?))
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpy3DPeer; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpy3DPeerAsync(parameters: Option<&PeerParameters>, stream: Handle) {
        capture::ordered(stream, Operation::Copy(given(parameters)?.copy()?))
    }

    /// Copies to a variable of the device, from its byte `offset` on.
    ///
    /// Status: cudaErrorInvalidMemcpyDirection for a kind that does not end on the device;
    /// cudaErrorInvalidSymbol for what is no variable; cudaErrorInvalidValue past its end; as
    /// cudaMemcpy.
    fn cudaMemcpyToSymbol(symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: i32) {
        capture::now(Operation::Copy(to_symbol(symbol, src, count, offset, kind)?))
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpyToSymbol; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpyToSymbolAsync(
        symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: i32, stream: Handle,
    ) {
        capture::ordered(stream, Operation::Copy(to_symbol(symbol, src, count, offset, kind)?))
    }

    /// Copies from a variable of the device, from its byte `offset` on.
    ///
    /// Status: as cudaMemcpyToSymbol, for a kind that does not begin on the device.
    fn cudaMemcpyFromSymbol(dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: i32) {
        capture::now(Operation::Copy(from_symbol(dst, symbol, count, offset, kind)?))
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpyFromSymbol; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpyFromSymbolAsync(
        dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: i32, stream: Handle,
    ) {
        capture::ordered(stream, Operation::Copy(from_symbol(dst, symbol, count, offset, kind)?))
    }
}
