//! Blocks of the host with room to spare behind them, which stand for device, pinned and managed
//! memory.

use std::alloc::{GlobalAlloc as _, Layout, System};
use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use super::guarded::{self, Guarded};
use crate::runtime::error::{Error, Result};

/// What every address that is given out is a multiple of.
pub const ALIGNMENT: usize = 256;
/// Bytes behind a block that may be read and written: programs that reach past the end go unnoticed
/// on GPUs, and must here.
const SLACK: usize = 64 * 1024;
/// Copies may reach as far as the original's own rounding of sizes lets them.
const GRANULARITY: usize = 512;

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

    /// The flags that it was allocated with.
    pub(crate) fn flags(&self) -> u32 {
        self.flags
    }

    /// How far copies may go from its start.
    pub(crate) fn reach(&self) -> usize {
        if guarded::is_on() { self.size } else { self.size.next_multiple_of(GRANULARITY) }
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
    pub(crate) fn find(&self, address: usize) -> Option<(usize, &Block)> {
        let (&start, block) = self.blocks.range(..=address).next_back()?;
        (address - start < block.size).then_some((start, block))
    }

    /// Whether some block has bytes in common with `size` bytes at `start`.
    pub(crate) fn meets(&self, start: usize, size: usize) -> bool {
        let before = self.blocks.range(..start.saturating_add(size)).next_back();
        before.is_some_and(|(&other, block)| other + block.size > start)
    }

    /// Bytes that are left.
    pub(crate) fn free(&self) -> usize {
        TOTAL.saturating_sub(self.live)
    }

    /// A new block of at least one byte; its address.
    pub(crate) fn take(&mut self, size: usize, kind: Kind, flags: u32) -> Result<usize> {
        if size > self.free() {
            let sentence = format!("{size} bytes are asked for, {} of {} are free", self.free(), *TOTAL);
            return Err(Error::MemoryAllocation.because(sentence));
        }
        let none = || Error::MemoryAllocation.because(format_args!("the machine has no {size} bytes left"));
        let (start, store) = if guarded::is_on() {
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

    /// Has bytes of the program's own count as pinned, which none of a block are.
    pub(crate) fn register(&mut self, start: usize, size: usize, flags: u32) {
        self.blocks.insert(start, Block { size, kind: Kind::Host, flags, store: Store::Registered });
    }

    /// Forgets bytes that were registered; false if none were at this address.
    pub(crate) fn unregister(&mut self, start: usize) -> bool {
        let is_registered =
            self.blocks.get(&start).is_some_and(|block| matches!(block.store, Store::Registered));
        if is_registered {
            self.blocks.remove(&start);
        }
        is_registered
    }

    /// Gives the block at `start` back, which has to be of one of these kinds.
    pub(crate) fn give(&mut self, start: usize, kinds: &[Kind]) -> Result {
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
    pub(crate) fn clear(&mut self, but: &HashSet<usize>) {
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
    pub(crate) fn guarded(&self) -> impl Iterator<Item = &Guarded> {
        self.blocks.values().filter_map(|block| match &block.store {
            Store::Guarded(guarded) => Some(guarded),
            _ => None,
        })
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
