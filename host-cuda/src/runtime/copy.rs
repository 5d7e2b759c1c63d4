//! Copies: rows of slices, from host or device to host or device.

use std::ffi::c_void;

use super::error::{Error, Failure, Result};
use super::memory::{Extent, Kind, Pitched};
use super::operation::Operation;
use super::state::{Handle, State, state};
use super::{capture, check, device};

/// Where rows begin, and the bytes from row to row and from slice to slice.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    pub(super) address: usize,
    pub(super) pitch: usize,
    pub(super) slice: usize,
}

/// A copy of `depth` slices of `height` rows of `width` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    pub(super) to: Rows,
    pub(super) from: Rows,
    pub(super) extent: Extent,
    pub(super) kind: i32,
}

/// What `cudaMemcpyKind` says of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Host,
    Device,
    /// `cudaMemcpyDefault`: the address says.
    Any,
}

fn sides(kind: i32) -> Result<(Side, Side)> {
    Ok(match kind {
        0 => (Side::Host, Side::Host),
        1 => (Side::Device, Side::Host),
        2 => (Side::Host, Side::Device),
        3 => (Side::Device, Side::Device),
        4 => (Side::Any, Side::Any),
        _ => return Err(Error::InvalidMemcpyDirection.because(format_args!("kind is {kind}, not 0 to 4"))),
    })
}

/// Bytes from the first to the last of rows, if any memory is as large.
pub(super) fn span(rows: &Rows, extent: &Extent) -> Option<usize> {
    let slices = (extent.depth - 1).checked_mul(rows.slice)?;
    let below = (extent.height - 1).checked_mul(rows.pitch)?;
    let bytes = slices.checked_add(below)?.checked_add(extent.width)?;
    (bytes <= isize::MAX as usize).then_some(bytes)
}

/// Whether `rows` fit where they are: a whole pitch each, inside a block if they begin in one.
pub(super) fn fits(state: &State, name: &str, rows: &Rows, extent: &Extent, side: Side) -> Result {
    let invalid =
        |rule: std::fmt::Arguments| Err(Error::InvalidValue.because(format_args!("{name}: {rule}")));
    if rows.address == 0 {
        return invalid(format_args!("NULL"));
    }
    if extent.height > 1 && (rows.pitch < extent.width || rows.pitch > isize::MAX as usize) {
        let rule = format!("{name}: a pitch of {} bytes for rows of {}", rows.pitch, extent.width);
        return Err(Error::InvalidPitchValue.because(rule));
    }
    let Some(bytes) = span(rows, extent) else {
        return invalid(format_args!("{extent:?}: no memory is as large"));
    };
    match (state.memory.find(rows.address), side) {
        (None, Side::Device) => invalid(format_args!("{:#x} is not device memory", rows.address)),
        (None, _) => Ok(()),
        (Some((_, block)), Side::Host) if block.kind() == Kind::Device => {
            invalid(format_args!("{:#x} is device memory, the direction says host", rows.address))
        }
        (Some((start, block)), _) => {
            let left = block.reach() - (rows.address - start);
            if bytes <= left {
                return Ok(());
            }
            invalid(format_args!(
                "{bytes} bytes from {:#x}, where {left} are left of a block of {} bytes",
                rows.address,
                block.size()
            ))
        }
    }
}

impl Copy {
    fn flat(to: *mut c_void, from: *const c_void, count: usize, kind: i32) -> Copy {
        let rows = |address| Rows { address, pitch: count, slice: count };
        Copy {
            to: rows(to.expose_provenance()),
            from: rows(from.expose_provenance()),
            extent: Extent { width: count, height: 1, depth: 1 },
            kind,
        }
    }

    fn is_empty(&self) -> bool {
        self.extent.width == 0 || self.extent.height == 0 || self.extent.depth == 0
    }

    /// Checks direction and memory.
    pub(super) fn check(&self, state: &State) -> Result {
        let (to, from) = sides(self.kind)?;
        if self.is_empty() {
            return Ok(());
        }
        fits(state, "dst", &self.to, &self.extent, to)?;
        fits(state, "src", &self.from, &self.extent, from)?;
        let (a, b, count) = (self.to.address, self.from.address, self.extent.width);
        let is_one_row = self.extent.height == 1 && self.extent.depth == 1;
        if check::is_on() && is_one_row && a != b && a.abs_diff(b) < count {
            let rule =
                format!("dst {a:#x} and src {b:#x} of {count} bytes overlap, which has no defined result");
            return Err(Error::InvalidValue.because(rule));
        }
        Ok(())
    }

    /// Copies; overlapping rows as if each went through a buffer.
    ///
    /// # Safety
    /// The rows are there, and nobody else writes them or the source meanwhile.
    pub unsafe fn run(&self) {
        if self.is_empty() {
            return;
        }
        for slice in 0..self.extent.depth {
            for row in 0..self.extent.height {
                let at = |rows: &Rows| rows.address + slice * rows.slice + row * rows.pitch;
                let to: *mut u8 = std::ptr::with_exposed_provenance_mut(at(&self.to));
                let from: *const u8 = std::ptr::with_exposed_provenance(at(&self.from));
                // SAFETY: a row of those that the caller vouches for.
                unsafe { to.copy_from(from, self.extent.width) };
            }
        }
    }

    /// Does it before it returns.
    fn now(self) -> Result {
        {
            let mut state = state();
            capture::refuse_unsafe(&mut state)?;
            self.check(&state)?;
        }
        // SAFETY: the check found the rows inside their blocks; memory of the program's own is its
        // caller's to vouch for.
        unsafe { self.run() };
        Ok(())
    }

    /// Does it in the order of a stream.
    fn on(self, stream: Handle) -> Result {
        self.check(&state())?;
        // SAFETY: as for `now`.
        unsafe { capture::submit(stream, Operation::Copy(self)) }
    }
}

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
        Copy::flat(dst, src, count, kind).now()
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpy; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpyAsync(dst: *mut c_void, src: *const c_void, count: usize, kind: i32, stream: Handle) {
        Copy::flat(dst, src, count, kind).on(stream)
    }

    /// Copies between devices, of which there is one.
    ///
    /// Status: as cudaMemcpy; cudaErrorInvalidDevice for other devices.
    fn cudaMemcpyPeer(dst: *mut c_void, to: i32, src: *const c_void, from: i32, count: usize) {
        peer(dst, to, src, from, count)?.now()
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpyPeer; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpyPeerAsync(dst: *mut c_void, to: i32, src: *const c_void, from: i32, count: usize, stream: Handle) {
        peer(dst, to, src, from, count)?.on(stream)
    }

    /// Copies `height` rows of `width` bytes.
    ///
    /// Status: cudaErrorInvalidPitchValue for a pitch below `width`, or one that is negative; as
    /// cudaMemcpy.
    fn cudaMemcpy2D(
        dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize, kind: i32,
    ) {
        planes((dst, dpitch), (src, spitch), (width, height), kind)?.now()
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpy2D; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpy2DAsync(
        dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize, kind: i32,
        stream: Handle,
    ) {
        planes((dst, dpitch), (src, spitch), (width, height), kind)?.on(stream)
    }

    /// Copies `extent.depth` slices of rows, from and to positions in pitched memory.
    ///
    /// Status: cudaErrorInvalidValue for NULL; cudaErrorNotSupported for arrays; as cudaMemcpy2D.
    fn cudaMemcpy3D(parameters: Option<&Parameters>) {
        given(parameters)?.copy()?.now()
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpy3D; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpy3DAsync(parameters: Option<&Parameters>, stream: Handle) {
        given(parameters)?.copy()?.on(stream)
    }

    /// The same between devices, of which there is one.
    ///
    /// Status: as cudaMemcpy3D; cudaErrorInvalidDevice for other devices.
    fn cudaMemcpy3DPeer(parameters: Option<&PeerParameters>) {
        given(parameters)?.copy()?.now()
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpy3DPeer; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpy3DPeerAsync(parameters: Option<&PeerParameters>, stream: Handle) {
        given(parameters)?.copy()?.on(stream)
    }

    /// Copies to a variable of the device, from its byte `offset` on.
    ///
    /// Status: cudaErrorInvalidMemcpyDirection for a kind that does not end on the device;
    /// cudaErrorInvalidSymbol for what is no variable; cudaErrorInvalidValue past its end; as
    /// cudaMemcpy.
    fn cudaMemcpyToSymbol(symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: i32) {
        to_symbol(symbol, src, count, offset, kind)?.now()
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpyToSymbol; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpyToSymbolAsync(
        symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: i32, stream: Handle,
    ) {
        to_symbol(symbol, src, count, offset, kind)?.on(stream)
    }

    /// Copies from a variable of the device, from its byte `offset` on.
    ///
    /// Status: as cudaMemcpyToSymbol, for a kind that does not begin on the device.
    fn cudaMemcpyFromSymbol(dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: i32) {
        from_symbol(dst, symbol, count, offset, kind)?.now()
    }

    /// The same in the order of a stream.
    ///
    /// Status: as cudaMemcpyFromSymbol; cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaMemcpyFromSymbolAsync(
        dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: i32, stream: Handle,
    ) {
        from_symbol(dst, symbol, count, offset, kind)?.on(stream)
    }
}
