//! Filters that stay packed from call to call, by permission: a program has said that it leaves
//! them as they are.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Isa;
use super::arena::Block;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::MAX_AXES;
use crate::ops::contract::{Contract, Role};
use crate::sync::{Lock, Once};

/// A loop that moves in the filters: its role, how often it turns, and by how many elements.
type Loop = (Role, i64, i64);

/// What packed filters were made of, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    /// The first element, as an address.
    first: usize,
    scalar: Scalar,
    loops: [Loop; MAX_AXES],
    isa: Isa,
    kernel: &'static str,
    /// What else the kernel packs by.
    form: [usize; 4],
    bytes: usize,
}

impl Key {
    /// For `b` of a step, whose first element is at an address.
    fn of(step: &Contract, first: *const u8, isa: Isa, kernel: &'static str) -> Key {
        let mut loops = [(Role::Batch, 1, 0); MAX_AXES];
        let moves = step.roles().iter().zip(step.nest.axes()).filter(|(_, axis)| axis.strides[2] != 0);
        loops
            .iter_mut()
            .zip(moves)
            .for_each(|(to, (role, axis))| *to = (*role, axis.extent, axis.strides[2]));
        Key { first: first.addr(), scalar: step.b, loops, isa, kernel, form: [0; 4], bytes: 0 }
    }

    /// A number that another content of the filters most likely has not.
    ///
    /// # Safety
    /// Every element is readable; the first one is at the address that the key was made for.
    unsafe fn digest(&self, first: *const u8) -> u64 {
        /// # Safety
        /// Every element that the loops reach is readable.
        unsafe fn add(loops: &[Loop], at: *const u8, size: usize, digest: &mut u64) {
            match loops {
                [] => {
                    for k in 0..size {
                        // SAFETY: a byte of an element.
                        let byte = unsafe { at.add(k).read() };
                        *digest = (*digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                    }
                }
                [(_, extent, by), inner @ ..] => {
                    for k in 0..*extent {
                        let at = at.wrapping_offset((k * by) as isize * size as isize);
                        // SAFETY: an element that the loops reach.
                        unsafe { add(inner, at, size, digest) };
                    }
                }
            }
        }
        let mut digest = 0xcbf2_9ce4_8422_2325;
        // SAFETY: every element is readable.
        unsafe { add(&self.loops, first, self.scalar.size(), &mut digest) };
        digest
    }
}

/// Some packed filters.
#[derive(Debug)]
struct Entry {
    key: Key,
    block: Block,
    is_filled: AtomicBool,
    /// Of what was packed, where changes are looked for.
    digest: AtomicU64,
}

// SAFETY: one thread packs the block, before it says that it is filled; after that all read it.
unsafe impl Send for Entry {}
// SAFETY: the block is written once, before any other thread reads it.
unsafe impl Sync for Entry {}

/// Those of a handle.
pub struct FilterCache {
    /// Bytes that they may have.
    limit: usize,
    /// The ones used last come last.
    entries: Lock<Vec<Arc<Entry>>>,
}

/// Whether `CUDNN_SHIM_CHECK` asks for checks of every call; read once.
fn checks() -> bool {
    static CHECKS: Once<bool> = Once::new();
    *CHECKS.get_or_init(|| {
        std::env::var_os("CUDNN_SHIM_CHECK").is_some_and(|value| !value.is_empty() && value != "0")
    })
}

impl fmt::Debug for FilterCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filters of {} of {} bytes", self.bytes(), self.limit)
    }
}

impl FilterCache {
    /// None yet, with room for as many bytes.
    pub fn new(limit: usize) -> FilterCache {
        FilterCache { limit, entries: Lock::new(Vec::new()) }
    }

    /// The limit that `CUDNN_SHIM_CONSTANT_FILTERS` sets; 0 if it sets none.
    pub fn limit_of_environment() -> usize {
        std::env::var("CUDNN_SHIM_CONSTANT_FILTERS")
            .ok()
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or(0)
    }

    /// What is wrong with a value of `CUDNN_SHIM_CONSTANT_FILTERS`, if anything is.
    pub(super) fn complaint(value: &str) -> Option<String> {
        value.trim().parse::<usize>().is_err().then(|| "no number of bytes".to_owned())
    }

    /// Bytes that they may have.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes of what is packed.
    pub fn bytes(&self) -> usize {
        self.entries.read(|entries| entries.replace(Vec::new())).iter().map(|entry| entry.key.bytes).sum()
    }

    /// The place of packed filters, which stays as long as it is held. Those used least go to make
    /// room; `None` where there is none, and where another thread packs the same.
    ///
    /// # Errors
    /// Bad parameter for filters that were changed since they were packed, if that is looked for.
    ///
    /// # Safety
    /// Every element of the filters is readable.
    unsafe fn place(&self, key: Key, first: *const u8) -> Result<Option<Kept<'_>>> {
        if key.bytes > self.limit {
            return Ok(None);
        }
        let Some((entry, is_filled)) = self.find(&key) else { return Ok(None) };
        // SAFETY: the filters are readable.
        if is_filled && checks() && entry.digest.load(Ordering::Relaxed) != unsafe { key.digest(first) } {
            return Err(Error::mismatch(format!(
                "the filters at {:#x} were changed since they were packed: they are constant until cudnnShimForgetFilters",
                key.first
            )));
        }
        Ok(Some(Kept { filters: self, entry, first, is_filled }))
    }

    /// The entry with this key, and whether it is filled; a new one if there is room for it.
    fn find(&self, key: &Key) -> Option<(Arc<Entry>, bool)> {
        let mut entries = self.entries.write(|entries| entries.replace(Vec::new()));
        if let Some(index) = entries.iter().position(|entry| entry.key == *key) {
            let is_filled = entries[index].is_filled.load(Ordering::Acquire);
            entries[index..].rotate_left(1);
            return entries.last().cloned().filter(|_| is_filled).map(|entry| (entry, true));
        }
        let mut bytes: usize = entries.iter().map(|entry| entry.key.bytes).sum();
        while bytes.saturating_add(key.bytes) > self.limit {
            bytes -= entries.remove(0).key.bytes;
        }
        entries.try_reserve(1).ok()?;
        let block = Block::new(key.bytes).ok()?;
        let entry = Entry { key: *key, block, is_filled: AtomicBool::new(false), digest: AtomicU64::new(0) };
        entries.push(Arc::new(entry));
        entries.last().cloned().map(|entry| (entry, false))
    }
}

/// Room for packed filters.
pub(super) struct Kept<'a> {
    filters: &'a FilterCache,
    entry: Arc<Entry>,
    /// The first element of the filters.
    first: *const u8,
    /// Whether they are there.
    pub(super) is_filled: bool,
}

impl Kept<'_> {
    /// Where they are, or are to be put.
    pub(super) fn at(&self) -> *mut u8 {
        self.entry.block.at()
    }

    /// Says that they are there.
    ///
    /// # Safety
    /// They are; every element of the filters is readable.
    pub(super) unsafe fn fill(&self) {
        if checks() {
            // SAFETY: every element is readable.
            self.entry.digest.store(unsafe { self.entry.key.digest(self.first) }, Ordering::Relaxed);
        }
        self.entry.is_filled.store(true, Ordering::Release);
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if !self.entry.is_filled.load(Ordering::Acquire) {
            let mut entries = self.filters.entries.write(|entries| entries.replace(Vec::new()));
            entries.retain(|entry| !Arc::ptr_eq(entry, &self.entry));
        }
    }
}

/// Where a kernel keeps the filters of a step.
#[derive(Clone, Copy)]
pub(super) struct CacheSlot<'a> {
    filters: &'a FilterCache,
    key: Key,
    first: *const u8,
}

// SAFETY: an address of elements that nobody writes while a call reads them.
unsafe impl Sync for CacheSlot<'_> {}

impl<'a> CacheSlot<'a> {
    /// For `b` of a step, at an address.
    pub(super) fn new(
        filters: &'a FilterCache, step: &Contract, b: *const u8, isa: Isa, kernel: &'static str,
    ) -> CacheSlot<'a> {
        let first = b.wrapping_offset(step.nest.offsets[2] as isize * step.b.size() as isize);
        CacheSlot { filters, key: Key::of(step, first, isa, kernel), first }
    }

    /// The place of as many bytes that the kernel packs in this form; `None` for none.
    ///
    /// # Errors
    /// As for [`FilterCache::place`].
    ///
    /// # Safety
    /// As for [`FilterCache::place`].
    pub(super) unsafe fn place(&self, form: [usize; 4], bytes: usize) -> Result<Option<Kept<'a>>> {
        if bytes == 0 {
            return Ok(None);
        }
        // SAFETY: the filters are readable.
        unsafe { self.filters.place(Key { form, bytes, ..self.key }, self.first) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Axis;
    use crate::ops::contract::{Accumulate, Epilogue};

    /// Room for filters that are a run of numbers.
    fn room<'a>(filters: &'a FilterCache, data: &[f32]) -> CacheSlot<'a> {
        let mut step = Contract::new([Scalar::F32; 3], Accumulate::Single, Epilogue::PLAIN);
        step.push(Role::K, Axis { extent: data.len() as i64, strides: [0, 1, 1, 0, 0] });
        CacheSlot::new(filters, &step, data.as_ptr().cast(), Isa::PORTABLE, "test")
    }

    /// Whether they were there; they are then.
    fn use_once(filters: &FilterCache, data: &[f32], form: usize) -> bool {
        // SAFETY: the filters are alive.
        unsafe {
            let kept = room(filters, data).place([form; 4], 400).unwrap().expect("there is room");
            if !kept.is_filled {
                kept.fill();
            }
            kept.is_filled
        }
    }

    #[test]
    fn the_least_used_go_first_and_the_limit_is_kept() {
        let data = [[1.0; 4], [2.0; 4], [3.0; 4]];
        let filters = FilterCache::new(1000);
        let uses = |at: usize| use_once(&filters, &data[at], 0);
        assert!(!uses(0) && !uses(1));
        assert!(uses(0) && filters.bytes() == 800);
        assert!(!uses(2) && filters.bytes() == 800);
        assert!(uses(0) && uses(2));
        assert!(!uses(1));
        // SAFETY: the filters are alive.
        assert!(unsafe { room(&filters, &data[0]).place([0; 4], 1001) }.unwrap().is_none());
        assert_eq!(filters.bytes(), 800, "what finds no room takes none from others");
    }

    #[test]
    fn what_nobody_has_filled_is_gone_and_what_is_held_stays() {
        let data = [1.0; 4];
        let filters = FilterCache::new(500);
        let room = room(&filters, &data);
        // SAFETY: the filters are alive.
        let place = || unsafe { room.place([0; 4], 400) }.unwrap();
        let kept = place().expect("there is room");
        assert!(place().is_none(), "another thread packs it");
        drop(kept);
        assert_eq!(filters.bytes(), 0);
        let kept = place().expect("there is room");
        // SAFETY: it has as many bytes, and the filters are alive.
        unsafe {
            kept.at().write_bytes(7, 400);
            kept.fill();
        }
        assert!(!use_once(&filters, &data, 1), "packed in another form");
        // SAFETY: as many bytes, which were written.
        assert_eq!(unsafe { kept.at().add(399).read() }, 7);
    }

    #[test]
    fn another_content_has_another_digest() {
        let filters = FilterCache::new(0);
        let digest = |data: &[f32]| {
            let room = room(&filters, data);
            // SAFETY: the filters are alive.
            unsafe { room.key.digest(room.first) }
        };
        assert_ne!(digest(&[1.0, 2.0, 3.0, 4.0]), digest(&[1.0, 2.0, 3.0, 4.5]));
    }
}
