//! What contractions keep for later steps of the same call: `b` of a step that [keeps
//! it](crate::ops::Contract::caches_b), in panels.
//!
//! The recurrent weights of a layer meet the states of every step. Packed anew for each step, the
//! weights would cost as much as the products of a small batch. Beside them [filters](FilterCache)
//! that stay from call to call.

use std::cell::RefCell;
use std::sync::Arc;

use super::FilterCache;
use super::arena::Block;
use crate::dtype::Scalar;

/// Operands that are kept at a time: the recurrent weights of a layer, and those of its projection.
const KEPT: usize = 2;

/// What panels were made of: the address of the first element, and the loops over lanes and over
/// the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) data: *const u8,
    pub(super) scalar: Scalar,
    /// Turns, and how far apart they are in elements.
    pub(super) lanes: (usize, i64),
    pub(super) sum: (usize, i64),
    /// Bytes of the panels, which the kernels of another type make more or fewer.
    pub(super) bytes: usize,
}

/// The panels of one operand.
#[derive(Debug)]
struct Entry {
    key: Key,
    block: Block,
    /// Bytes of the block.
    size: usize,
    is_filled: bool,
}

/// The panels of one call, which go when it ends.
#[derive(Debug, Default)]
pub struct PanelCache {
    /// The panels used last come first.
    entries: RefCell<[Option<Entry>; KEPT]>,
    /// What stays when the call ends, and the operand whose filters may.
    filters: Option<(Arc<FilterCache>, *const u8)>,
}

/// Room for the panels of an operand.
pub(super) struct Place {
    pub(super) at: *mut u8,
    /// Whether they are there.
    pub(super) is_filled: bool,
}

impl PanelCache {
    /// None yet.
    pub fn new() -> PanelCache {
        PanelCache::default()
    }

    /// None yet, in a call whose operand at this address holds filters that stay.
    pub fn beside(filters: Arc<FilterCache>, at: *const u8) -> PanelCache {
        PanelCache { filters: Some((filters, at)), ..PanelCache::default() }
    }

    /// Where filters at this address stay, if they do.
    pub(super) fn filters_at(&self, at: *const u8) -> Option<&FilterCache> {
        self.filters.as_ref().filter(|(_, own)| *own == at).map(|(filters, _)| &**filters)
    }

    /// The place of the panels with this key, which stays until this is called for [`KEPT`] others.
    /// `None` if there is no memory for it.
    pub(super) fn place(&self, key: &Key) -> Option<Place> {
        let entries = &mut *self.entries.borrow_mut();
        if let Some(index) =
            entries.iter().position(|entry| matches!(entry, Some(entry) if entry.key == *key))
        {
            entries[..=index].rotate_right(1);
        } else {
            entries.rotate_right(1);
            // Layers of one network need the same room.
            match &mut entries[0] {
                Some(entry) if entry.size >= key.bytes => (entry.key, entry.is_filled) = (*key, false),
                entry => {
                    *entry = None;
                    let block = Block::new(key.bytes).ok()?;
                    *entry = Some(Entry { key: *key, block, size: key.bytes, is_filled: false });
                }
            }
        }
        entries[0].as_ref().map(|entry| Place { at: entry.block.at(), is_filled: entry.is_filled })
    }

    /// Says that the panels at the place that was asked for last are there.
    pub(super) fn fill(&self) {
        if let Some(entry) = &mut self.entries.borrow_mut()[0] {
            entry.is_filled = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize, bytes: usize) -> Key {
        let data = std::ptr::without_provenance(64 * number);
        Key { data, scalar: Scalar::F32, lanes: (16, 8), sum: (8, 1), bytes }
    }

    #[test]
    fn the_last_two_are_kept_once_they_are_filled() {
        let panels = PanelCache::new();
        let is_filled = |number| panels.place(&key(number, 512)).expect("there is memory").is_filled;
        assert!(!is_filled(1));
        assert!(!is_filled(1), "nobody has filled them");
        panels.fill();
        assert!(is_filled(1));
        assert!(!is_filled(2));
        panels.fill();
        assert!(is_filled(1) && is_filled(2) && is_filled(1));
        assert!(!is_filled(3));
        panels.fill();
        assert!(is_filled(1) && is_filled(3));
        assert!(!is_filled(2));
    }

    #[test]
    fn other_loops_and_types_are_other_panels() {
        let panels = PanelCache::new();
        let first = key(1, 512);
        panels.place(&first).expect("there is memory");
        panels.fill();
        let others = [
            Key { scalar: Scalar::F16, ..first },
            Key { lanes: (16, 9), ..first },
            Key { sum: (9, 1), ..first },
            Key { bytes: 1024, ..first },
        ];
        for other in others {
            assert!(!panels.place(&other).expect("there is memory").is_filled, "{other:?}");
            assert!(panels.place(&first).expect("there is memory").is_filled);
        }
    }

    #[test]
    fn without_memory_there_is_no_place_and_others_stay() {
        let panels = PanelCache::new();
        panels.place(&key(1, 512)).expect("there is memory");
        panels.fill();
        assert!(panels.place(&key(2, usize::MAX)).is_none());
        assert!(panels.place(&key(1, 512)).expect("there is memory").is_filled);
    }
}
