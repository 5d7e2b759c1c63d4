//! Device, pinned and managed memory: blocks of the host with room to spare behind them.

use std::alloc::{GlobalAlloc as _, Layout, System};
use std::collections::{BTreeMap, HashSet};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::LazyLock;

use super::check::{self, Guarded};
use super::error::{Error, Result};
use super::state::{Handle, State, state};
use super::{Out, capture, put, stream};

/// What every address that is given out is a multiple of.
pub const ALIGNMENT: usize = 256;
/// Bytes behind a block that may be read and written: programs that reach past the end go unnoticed
/// on GPUs, and must here.
const SLACK: usize = 64 * 1024;
/// Copies may reach as far as the original's own rounding of sizes lets them.
const GRANULARITY: usize = 512;
/// The rows of pitched memory begin at multiples of this.
const PITCH: usize = 512;

/// `cudaMemoryType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Kind {
    /// Pinned, or registered.
    Host = 1,
    /// Of the device.
    Device = 2,
    /// Of both.
    Managed = 3,
}

/// Where the bytes of a block come from.
enum Store {
    Heap(Layout),
    Guarded(Guarded),
    /// The program's own, registered as pinned.
    Registered,
}

/// Memory that a program got, or registered.
pub struct Block {
    size: usize,
    kind: Kind,
    flags: u32,
    store: Store,
}

impl Block {
    /// Which memory it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its size in bytes, as asked for.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How far copies may go from its start.
    pub(super) fn reach(&self) -> usize {
        if check::is_on() { self.size } else { self.size.next_multiple_of(GRANULARITY) }
    }
}

/// All blocks, by address.
#[derive(Default)]
pub struct Memory {
    blocks: BTreeMap<usize, Block>,
    live: usize,
}

/// The memory of the device in bytes: `CUDNN_SHIM_HOST_MEMORY`, a number that may end in K, M or G,
/// else the machine's.
pub static TOTAL: LazyLock<usize> = LazyLock::new(|| {
    let asked = std::env::var("CUDNN_SHIM_HOST_MEMORY").ok().and_then(|text| bytes(&text));
    asked.unwrap_or_else(|| {
        // SAFETY: a query without pointers.
        let (pages, size) =
            unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
        usize::try_from(pages).unwrap_or(0).saturating_mul(usize::try_from(size).unwrap_or(0))
    })
});

/// Reads `8G`, `512M`, `64K` or a number of bytes.
fn bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    digits.trim().parse::<usize>().ok()?.checked_mul(1 << shift)
}

impl Memory {
    /// The block that holds an address, and where it starts.
    pub(super) fn find(&self, address: usize) -> Option<(usize, &Block)> {
        let (&start, block) = self.blocks.range(..=address).next_back()?;
        (address - start < block.size).then_some((start, block))
    }

    /// Whether some block has bytes in common with `size` bytes at `start`.
    fn meets(&self, start: usize, size: usize) -> bool {
        let before = self.blocks.range(..start.saturating_add(size)).next_back();
        before.is_some_and(|(&other, block)| other + block.size > start)
    }

    /// Bytes that are left.
    fn free(&self) -> usize {
        TOTAL.saturating_sub(self.live)
    }

    /// A new block of at least one byte; its address.
    pub(super) fn take(&mut self, size: usize, kind: Kind, flags: u32) -> Result<usize> {
        if size > self.free() {
            let sentence = format!("{size} bytes are asked for, {} of {} are free", self.free(), *TOTAL);
            return Err(Error::MemoryAllocation.because(sentence));
        }
        let none = || Error::MemoryAllocation.because(format_args!("the machine has no {size} bytes left"));
        let (start, store) = if check::is_on() {
            let guarded = Guarded::new(size).ok_or_else(none)?;
            (guarded.start(), Store::Guarded(guarded))
        } else {
            let layout = Layout::from_size_align(size + SLACK, ALIGNMENT).map_err(|_| none())?;
            // The system's memory alone: its want is what a program wants to know.
            // SAFETY: the layout has bytes, those of the slack at least.
            let start = unsafe { System.alloc(layout) };
            if start.is_null() {
                return Err(none());
            }
            (start.expose_provenance(), Store::Heap(layout))
        };
        self.live += size;
        self.blocks.insert(start, Block { size, kind, flags, store });
        Ok(start)
    }

    /// Gives the block at `start` back, which has to be of one of these kinds.
    pub(super) fn give(&mut self, start: usize, kinds: &[Kind]) -> Result {
        let is_ours =
            |block: &Block| kinds.contains(&block.kind) && !matches!(block.store, Store::Registered);
        if !self.blocks.get(&start).is_some_and(is_ours) {
            let what = match self.find(start) {
                Some((begin, _)) if begin != start => format!("lies {} bytes inside a block", start - begin),
                Some((_, block)) => format!("is {:?} memory", block.kind),
                None => "is not allocated: never, or freed before".to_owned(),
            };
            let rule = format!("{start:#x} {what}; {kinds:?} memory is freed here, by its first address");
            return Err(Error::InvalidValue.because(rule));
        }
        if let Some(block) = self.blocks.remove(&start) {
            self.live -= block.size;
            match block.store {
                // SAFETY: the address came from the system's `alloc` with this layout, and the row
                // that held it is gone.
                Store::Heap(layout) => unsafe {
                    System.dealloc(std::ptr::with_exposed_provenance_mut(start), layout);
                },
                Store::Guarded(guarded) => guarded.release(),
                Store::Registered => {}
            }
        }
        Ok(())
    }

    /// Gives everything back but these blocks.
    pub(super) fn clear(&mut self, but: &HashSet<usize>) {
        let starts: Vec<(usize, Kind)> =
            self.blocks.iter().map(|(&start, block)| (start, block.kind)).collect();
        for (start, kind) in starts.into_iter().filter(|(start, _)| !but.contains(start)) {
            // Memory of the program's own is only forgotten.
            if self.give(start, &[kind]).is_err() {
                self.blocks.remove(&start);
            }
        }
    }

    /// The guarded blocks that are still there.
    pub(super) fn guarded(&self) -> impl Iterator<Item = &Guarded> {
        self.blocks.values().filter_map(|block| match &block.store {
            Store::Guarded(guarded) => Some(guarded),
            _ => None,
        })
    }
}

/// An allocation as the calls below ask for it: nothing for no bytes, and none while work is
/// captured.
fn allocate(out: Out<*mut c_void>, size: usize, kind: Kind, flags: u32) -> Result {
    let Some(out) = out else {
        return Err(Error::InvalidValue.because("the pointer to store the address at is NULL"));
    };
    let mut state = state();
    capture::refuse_unsafe(&mut state)?;
    out.write(std::ptr::null_mut());
    if size > 0 {
        let start = state.memory.take(size, kind, flags)?;
        out.write(std::ptr::with_exposed_provenance_mut(start));
    }
    Ok(())
}

fn release(pointer: *mut c_void, kinds: &[Kind]) -> Result {
    let mut state = state();
    capture::refuse_unsafe(&mut state)?;
    if pointer.is_null() { Ok(()) } else { state.memory.give(pointer.expose_provenance(), kinds) }
}

/// The pitch of rows of `width` bytes, and the bytes of `rows` of them.
fn pitched(width: usize, rows: Option<usize>) -> Result<(usize, usize)> {
    let pitch = width.checked_next_multiple_of(PITCH);
    let size = pitch.zip(rows).and_then(|(pitch, rows)| pitch.checked_mul(rows));
    match pitch.zip(size) {
        Some((pitch, size)) if size <= isize::MAX as usize => Ok((pitch, size)),
        _ => {
            Err(Error::MemoryAllocation.because(format_args!("rows of {width} bytes: no memory is as large")))
        }
    }
}

/// What `cudaMallocAsync` and its like do: memory is there at once.
pub(super) fn allocate_ordered(out: Out<*mut c_void>, size: usize, on: Handle) -> Result {
    let Some(out) = out else {
        return Err(Error::InvalidValue.because("the pointer to store the address at is NULL"));
    };
    let mut state = state();
    ordered(&mut state, on)?;
    out.write(std::ptr::null_mut());
    if size > 0 {
        let start = state.memory.take(size, Kind::Device, 0)?;
        out.write(std::ptr::with_exposed_provenance_mut(start));
    }
    Ok(())
}

/// Whether a stream may allocate and free: not while it captures, for nodes that do are not built.
fn ordered(state: &mut State, on: Handle) -> Result {
    stream::known(state, on)?;
    if capture::of(state, on).is_some() {
        return Err(Error::NotSupported.because("allocations are not captured; allocate before the capture"));
    }
    capture::refuse_implicit(state, on)
}

/// `cudaExtent`: width in bytes, height in rows, depth in slices.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Extent {
    /// Bytes of a row.
    pub width: usize,
    /// Rows of a slice.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

/// `cudaPitchedPtr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Pitched {
    /// The first byte.
    pub pointer: *mut c_void,
    /// Bytes from row to row.
    pub pitch: usize,
    /// The width that was asked for.
    pub width: usize,
    /// Rows of a slice.
    pub height: usize,
}

runtime! {
    /// Device memory of `size` bytes; NULL for none.
    ///
    /// Status: cudaErrorInvalidValue if `pointer` is NULL; cudaErrorMemoryAllocation beyond what
    /// the device has.
    fn cudaMalloc(pointer: Out<*mut c_void>, size: usize) {
        allocate(pointer, size, Kind::Device, 0)
    }

    /// Gives device or managed memory back; NULL is allowed.
    ///
    /// Status: cudaErrorInvalidValue for what was never given out, was freed before, or is pinned.
    fn cudaFree(pointer: *mut c_void) {
        release(pointer, &[Kind::Device, Kind::Managed])
    }

    /// Pinned memory of `size` bytes.
    ///
    /// Status: as cudaMalloc.
    fn cudaMallocHost(pointer: Out<*mut c_void>, size: usize) {
        allocate(pointer, size, Kind::Host, 0)
    }

    /// Pinned memory; `flags` are kept for cudaHostGetFlags.
    ///
    /// Status: cudaErrorInvalidValue for flags above 7; as cudaMalloc.
    fn cudaHostAlloc(pointer: Out<*mut c_void>, size: usize, flags: u32) {
        if flags > 7 {
            return Err(Error::InvalidValue.because(format_args!("flags is {flags}, more than 7")));
        }
        allocate(pointer, size, Kind::Host, flags)
    }

    /// Gives pinned memory back; NULL is allowed.
    ///
    /// Status: cudaErrorInvalidValue for what is no pinned memory of this library.
    fn cudaFreeHost(pointer: *mut c_void) {
        release(pointer, &[Kind::Host])
    }

    /// Memory of host and device.
    ///
    /// Status: cudaErrorInvalidValue for no bytes, or flags other than 1 (global) and 2 (host); as
    /// cudaMalloc.
    fn cudaMallocManaged(pointer: Out<*mut c_void>, size: usize, flags: u32) {
        if size == 0 || !matches!(flags, 1 | 2) {
            return Err(Error::InvalidValue.because(format_args!("size {size}, flags {flags}: some, and 1 or 2")));
        }
        allocate(pointer, size, Kind::Managed, flags)
    }

    /// Device memory of `height` rows of `width` bytes, which begin at multiples of 512.
    ///
    /// Status: as cudaMalloc.
    fn cudaMallocPitch(pointer: Out<*mut c_void>, pitch: Out<usize>, width: usize, height: usize) {
        let (bytes, size) = pitched(width, Some(height))?;
        if pointer.is_none() {
            return Err(Error::InvalidValue.because("devPtr is NULL"));
        }
        put(pitch, "pitch", bytes)?;
        allocate(pointer, size, Kind::Device, 0)
    }

    /// Device memory of `depth` slices of `height` rows, which begin at multiples of 512.
    ///
    /// Status: as cudaMalloc.
    fn cudaMalloc3D(pointer: Out<Pitched>, extent: Extent) {
        let (pitch, size) = pitched(extent.width, extent.height.checked_mul(extent.depth))?;
        let Some(pointer) = pointer else {
            return Err(Error::InvalidValue.because("pitchedDevPtr is NULL"));
        };
        let mut start = MaybeUninit::new(std::ptr::null_mut());
        allocate(Some(&mut start), size, Kind::Device, 0)?;
        // SAFETY: it is initialised above.
        let start = unsafe { start.assume_init() };
        pointer.write(Pitched { pointer: start, pitch, width: extent.width, height: extent.height });
        Ok(())
    }

    /// Device memory, in the order of a stream: at once.
    ///
    /// Status: as cudaMalloc; cudaErrorInvalidResourceHandle for an unknown stream;
    /// cudaErrorNotSupported in a capture.
    fn cudaMallocAsync(pointer: Out<*mut c_void>, size: usize, stream: Handle) {
        allocate_ordered(pointer, size, stream)
    }

    /// Gives device memory back, in the order of a stream: at once.
    ///
    /// Status: as cudaFree; cudaErrorInvalidValue for NULL; as cudaMallocAsync.
    fn cudaFreeAsync(pointer: *mut c_void, stream: Handle) {
        let mut state = state();
        ordered(&mut state, stream)?;
        state.memory.give(pointer.expose_provenance(), &[Kind::Device, Kind::Managed])
    }

    /// Bytes that are free, and that there are.
    ///
    /// Status: cudaErrorInvalidValue if a pointer is NULL.
    fn cudaMemGetInfo(free: Out<usize>, total: Out<usize>) {
        if total.is_none() {
            return Err(Error::InvalidValue.because("total is NULL"));
        }
        put(free, "free", state().memory.free())?;
        put(total, "total", *TOTAL)
    }

    /// Makes `size` bytes of the program's own count as pinned.
    ///
    /// Status: cudaErrorInvalidValue for NULL, no bytes or unknown flags;
    /// cudaErrorHostMemoryAlreadyRegistered if some of them do already.
    fn cudaHostRegister(pointer: *mut c_void, size: usize, flags: u32) {
        let start = pointer.expose_provenance();
        if start == 0 || size == 0 || start.checked_add(size).is_none() || flags > 15 {
            let rule = format!("{size} bytes at {pointer:p} with flags {flags}: some, not at NULL, flags below 16");
            return Err(Error::InvalidValue.because(rule));
        }
        let mut state = state();
        if state.memory.meets(start, size) {
            let rule = format!("some of the {size} bytes at {pointer:p} are registered already");
            return Err(Error::HostMemoryAlreadyRegistered.because(rule));
        }
        state.memory.blocks.insert(start, Block { size, kind: Kind::Host, flags, store: Store::Registered });
        Ok(())
    }

    /// Ends what cudaHostRegister began at this address.
    ///
    /// Status: cudaErrorInvalidValue for NULL; cudaErrorHostMemoryNotRegistered if nothing is
    /// registered there.
    fn cudaHostUnregister(pointer: *mut c_void) {
        if pointer.is_null() {
            return Err(Error::InvalidValue.because("ptr is NULL"));
        }
        let (mut state, start) = (state(), pointer.expose_provenance());
        let registered = state.memory.blocks.get(&start).map(|block| &block.store);
        if !matches!(registered, Some(Store::Registered)) {
            return Err(Error::HostMemoryNotRegistered.because(format_args!("{pointer:p} is not registered")));
        }
        state.memory.blocks.remove(&start);
        Ok(())
    }

    /// The device's address of pinned memory: the same.
    ///
    /// Status: cudaErrorInvalidValue for NULL, other memory, or flags.
    fn cudaHostGetDevicePointer(device: Out<*mut c_void>, host: *mut c_void, flags: u32) {
        let pinned = state().memory.find(host.expose_provenance()).is_some_and(|(_, block)| block.kind != Kind::Device);
        if !pinned || flags != 0 {
            let rule = format!("{host:p} with flags {flags}: pinned memory, and no flags");
            return Err(Error::InvalidValue.because(rule));
        }
        put(device, "pDevice", host)
    }

    /// The flags that pinned memory was allocated with.
    ///
    /// Status: cudaErrorInvalidValue for NULL or other memory.
    fn cudaHostGetFlags(flags: Out<u32>, host: *mut c_void) {
        let state = state();
        match state.memory.find(host.expose_provenance()) {
            Some((_, block)) if block.kind == Kind::Host => put(flags, "pFlags", block.flags),
            _ => Err(Error::InvalidValue.because(format_args!("{host:p} is not pinned memory"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Memory, bytes};

    #[test]
    fn sizes_are_read_with_their_letter() {
        assert_eq!(bytes("8G"), Some(8 << 30));
        assert_eq!(bytes(" 3 k "), Some(3072));
        assert_eq!(bytes("17"), Some(17));
        for wrong in ["", "G", "-1", "8X", "99999999999G"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_block_is_found_from_its_first_byte_to_its_last() {
        let mut memory = Memory::default();
        let start = memory.take(100, Kind::Device, 0).unwrap();
        assert_eq!(start % super::ALIGNMENT, 0);
        assert_eq!(memory.find(start).map(|(at, block)| (at, block.size())), Some((start, 100)));
        assert!(memory.find(start + 99).is_some() && memory.find(start + 100).is_none());
        assert!(memory.give(start + 1, &[Kind::Device]).is_err());
        assert!(memory.give(start, &[Kind::Host]).is_err());
        assert!(memory.give(start, &[Kind::Device]).is_ok());
        assert!(memory.give(start, &[Kind::Device]).is_err());
        assert!(memory.take(usize::MAX / 2, Kind::Device, 0).is_err());
    }
}
