//! Handles as tagged, generational indices into tables - never addresses.
//!
//! A handle packs `kind << 56 | generation << 32 | index << 4 | 8`. NULL, wild, wrong-kind and
//! destroyed handles are distinguished without touching memory that the handle names, so every one
//! of them becomes a status. The top byte makes the value a non-canonical address on x86-64: a
//! program that dereferences it stops at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::twin_place::{Known, Pinned, TwinPlace};
use crate::error::{Error, Result};
use crate::original::{self, Twin};
use crate::sync::{Lock, Vanished};

/// Slots of the first chunk; every further chunk doubles, so that few handles cost little memory.
const FIRST_CHUNK: usize = 64;
/// Chunks of 64, 128, ... slots: together the 28 bits of an index.
const CHUNKS: usize = 22;
/// Freed slots wait here before they are reused, so that a stale handle stays recognisable for
/// long.
const QUARANTINE: usize = 64;
/// Bits of the generation in a handle.
const GENERATION_MASK: u32 = 0xff_ffff;

/// What a table holds; the tag in its handles and its name in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// `cudnnHandle_t`
    Context = 0xC1,
    /// `cudnnTensorDescriptor_t`
    Tensor = 0xC2,
    /// `cudnnTensorTransformDescriptor_t`
    Transform = 0xC3,
    /// `cudnnFilterDescriptor_t`
    Filter = 0xC4,
    /// `cudnnOpTensorDescriptor_t`
    OpTensor = 0xC5,
    /// `cudnnReduceTensorDescriptor_t`
    ReduceTensor = 0xC6,
    /// `cudnnActivationDescriptor_t`
    Activation = 0xC7,
    /// `cudnnPoolingDescriptor_t`
    Pooling = 0xC8,
    /// `cudnnLRNDescriptor_t`
    Lrn = 0xC9,
    /// `cudnnDropoutDescriptor_t`
    Dropout = 0xCA,
    /// `cudnnSpatialTransformerDescriptor_t`
    SpatialTransformer = 0xCB,
    /// `cudnnConvolutionDescriptor_t`
    Convolution = 0xCC,
    /// `cudnnCTCLossDescriptor_t`
    CtcLoss = 0xCD,
    /// `cudnnRNNDescriptor_t`
    Rnn = 0xCE,
    /// `cudnnRNNDataDescriptor_t`
    RnnData = 0xCF,
    /// `cudnnSeqDataDescriptor_t`
    SeqData = 0xD0,
    /// `cudnnAttnDescriptor_t`
    Attention = 0xD1,
    /// `cudnnFusedOpsConstParamPack_t`
    FusedConstants = 0xD2,
    /// `cudnnFusedOpsVariantParamPack_t`
    FusedVariants = 0xD3,
    /// `cudnnFusedOpsPlan_t`
    FusedPlan = 0xD4,
    /// `cudnnPersistentRNNPlan_t`
    PersistentPlan = 0xD5,
    /// `cudnnBackendDescriptor_t`
    Backend = 0xD8,
    /// `cudnnAlgorithmDescriptor_t`
    Algorithm = 0xE1,
    /// `cudnnAlgorithmPerformance_t`
    AlgorithmPerformance = 0xE2,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Context => "cudnnHandle_t",
            Kind::Tensor => "tensor descriptor",
            Kind::Transform => "tensor transform descriptor",
            Kind::Filter => "filter descriptor",
            Kind::OpTensor => "op tensor descriptor",
            Kind::ReduceTensor => "reduce tensor descriptor",
            Kind::Activation => "activation descriptor",
            Kind::Pooling => "pooling descriptor",
            Kind::Lrn => "LRN descriptor",
            Kind::Dropout => "dropout descriptor",
            Kind::SpatialTransformer => "spatial transformer descriptor",
            Kind::Convolution => "convolution descriptor",
            Kind::CtcLoss => "CTC loss descriptor",
            Kind::Rnn => "RNN descriptor",
            Kind::RnnData => "RNN data descriptor",
            Kind::SeqData => "sequence data descriptor",
            Kind::Attention => "attention descriptor",
            Kind::FusedConstants => "constant parameter pack",
            Kind::FusedVariants => "variant parameter pack",
            Kind::FusedPlan => "fused plan",
            Kind::PersistentPlan => "persistent RNN plan",
            Kind::Backend => "graph descriptor",
            Kind::Algorithm => "algorithm descriptor",
            Kind::AlgorithmPerformance => "algorithm performance",
        }
    }
}

struct Slot<T> {
    /// Odd while the slot is in use; counts every change.
    generation: AtomicU32,
    value: Lock<Option<T>>,
    /// Changes with the value's lock held.
    twin: TwinPlace,
}

struct Free {
    /// Slots ever handed out.
    used: usize,
    /// Slots to hand out again, oldest first. Never grows on removal: insertion reserves its room.
    returned: VecDeque<u32>,
}

/// For a child of a process one of whose threads was changing an object: it is destroyed, as half
/// of it may have been changed.
fn nothing<T>(value: &mut Vanished<Option<T>>) {
    value.replace(None);
}

/// For a child of a process one of whose threads was taking a slot or giving one back: it has all
/// slots but those that were free, and the one that may have been on its way.
fn recounted(free: &mut Vanished<Free>) {
    let place = free.place();
    // SAFETY: a number is written at once, so that it is one of before or after.
    let used = unsafe { (&raw const (*place).used).read() };
    let mut returned = VecDeque::new();
    // For removals; without memory for it now, they ask for it.
    let _ = returned.try_reserve(used + 1);
    free.replace(Free { used, returned });
}

/// All live objects of one kind. Memory of slots is kept for the life of the process.
pub(crate) struct Table<T> {
    kind: Kind,
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
    free: Lock<Free>,
}

impl<T> Table<T> {
    pub(crate) const fn new(kind: Kind) -> Self {
        Table {
            kind,
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            free: Lock::new(Free { used: 0, returned: VecDeque::new() }),
        }
    }

    /// Stores `value` and returns its handle.
    ///
    /// # Errors
    /// Host memory or the index space is exhausted.
    pub(crate) fn insert(&self, value: T) -> Result<usize> {
        let index = self.allocate()?;
        // The slot exists: `allocate` has published its chunk.
        let slot = self.slot(index).ok_or_else(|| Error::Internal("a handle slot is missing".into()))?;
        let mut place = slot.value.write(nothing);
        *place = Some(value);
        let generation = slot.generation.fetch_add(1, Ordering::AcqRel).wrapping_add(1) & GENERATION_MASK;
        Ok((self.kind as usize) << 56 | (generation as usize) << 32 | index << 4 | 8)
    }

    fn allocate(&self) -> Result<usize> {
        let mut free = self.free.write(recounted);
        if free.returned.len() > QUARANTINE
            && let Some(index) = free.returned.pop_front()
        {
            return Ok(index as usize);
        }
        let index = free.used;
        let (chunk, offset) = position(index);
        let bytes = chunk_len(chunk) * size_of::<Slot<T>>();
        if chunk >= CHUNKS {
            return Err(Error::HostAllocation { bytes });
        }
        // Room for every slot handed out, so that a removal never allocates.
        let room = index + 1 - free.returned.len();
        free.returned.try_reserve(room).map_err(|_| Error::HostAllocation { bytes: room * 4 })?;
        if offset == 0 {
            let mut slots = Vec::new();
            slots.try_reserve_exact(chunk_len(chunk)).map_err(|_| Error::HostAllocation { bytes })?;
            slots.resize_with(chunk_len(chunk), || Slot {
                generation: AtomicU32::new(0),
                value: Lock::new(None),
                twin: TwinPlace::new(),
            });
            self.chunks[chunk].store(slots.leak().as_mut_ptr(), Ordering::Release);
        }
        free.used += 1;
        Ok(index)
    }

    fn slot(&self, index: usize) -> Option<&Slot<T>> {
        let (chunk, offset) = position(index);
        let slots = self.chunks.get(chunk)?.load(Ordering::Acquire);
        if slots.is_null() {
            return None;
        }
        // SAFETY: a published chunk holds `chunk_len(chunk)` initialised slots, `position` keeps
        // `offset` below that, and chunks are never freed.
        Some(unsafe { &*slots.add(offset) })
    }

    fn find(&self, handle: usize, argument: &'static str) -> Result<&Slot<T>> {
        if handle == 0 {
            return Err(Error::Null { argument });
        }
        if handle >> 56 != self.kind as usize || handle & 15 != 8 {
            return Err(self.refuse(argument, "not a handle of this kind"));
        }
        let index = handle as u32 as usize >> 4;
        let slot = self.slot(index).ok_or_else(|| self.refuse(argument, "never created"))?;
        if !is_current(slot, handle) {
            return Err(self.refuse(argument, "already destroyed"));
        }
        Ok(slot)
    }

    #[cold]
    fn refuse(&self, argument: &'static str, reason: &'static str) -> Error {
        Error::Handle { argument, kind: self.kind.name(), reason }
    }

    /// Runs `body` on the object behind `handle`, shared with other readers.
    ///
    /// # Errors
    /// Bad parameter naming `argument` if the handle is not alive; else those of `body`.
    pub(crate) fn with<R>(
        &self, handle: usize, argument: &'static str, body: impl FnOnce(&T) -> Result<R>,
    ) -> Result<R> {
        let slot = self.find(handle, argument)?;
        let value = slot.value.read(nothing);
        match &*value {
            // Looked at again under the lock: another thread may have destroyed it in between.
            Some(value) if is_current(slot, handle) => body(value),
            _ => Err(self.refuse(argument, "already destroyed")),
        }
    }

    /// Runs `body` on the object behind `handle`, alone.
    ///
    /// # Errors
    /// As [`Table::with`].
    pub(crate) fn with_mut<R>(
        &self, handle: usize, argument: &'static str, body: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<R> {
        let slot = self.find(handle, argument)?;
        let mut value = slot.value.write(nothing);
        match &mut *value {
            Some(value) if is_current(slot, handle) => {
                let outcome = body(value);
                if original::is_on() && self.kind != Kind::Context {
                    slot.twin.forget();
                }
                outcome
            }
            _ => Err(self.refuse(argument, "already destroyed")),
        }
    }

    /// The original's object for the one behind `handle`: the one that is there, else what `make`
    /// yields of it. `None` if the handle is not alive, or if the original refuses such an object,
    /// which is remembered until ours changes.
    #[inline]
    pub(crate) fn twin(
        &'static self, handle: usize, make: impl FnOnce(&T) -> Option<Twin>,
    ) -> Option<Pinned> {
        let slot = self.find(handle, "").ok()?;
        match slot.twin.known() {
            Known::Made(twin) => is_current(slot, handle).then_some(twin),
            Known::Refused => None,
            Known::Unknown => {
                // Nobody changes the object while its twin is made.
                let value = slot.value.read(nothing);
                let value = value.as_ref().filter(|_| is_current(slot, handle))?;
                slot.twin.set(make(value).map(Arc::new));
                match slot.twin.known() {
                    Known::Made(twin) => Some(twin),
                    _ => None,
                }
            }
        }
    }

    /// The original's object for the one behind `handle`, if there is one by now.
    #[inline]
    pub(crate) fn made_twin(&'static self, handle: usize) -> Option<Pinned> {
        let slot = self.find(handle, "").ok()?;
        match slot.twin.known() {
            Known::Made(twin) if is_current(slot, handle) => Some(twin),
            _ => None,
        }
    }

    /// Gives the object behind `handle` this twin, if it is alive.
    pub(crate) fn adopt(&self, handle: usize, twin: Arc<Twin>) {
        let Ok(slot) = self.find(handle, "") else { return };
        let value = slot.value.read(nothing);
        if value.is_some() && is_current(slot, handle) {
            slot.twin.set(Some(twin));
        }
    }

    /// Lets the twin of the object behind `handle` be made anew.
    pub(crate) fn forget_twin(&self, handle: usize) {
        if let Ok(slot) = self.find(handle, "") {
            slot.twin.forget();
        }
    }

    /// Replaces the object by what `make` yields; keeps it if `make` fails. A bad handle is found
    /// first.
    ///
    /// # Errors
    /// As [`Table::with`].
    pub(crate) fn replace(
        &self, handle: usize, argument: &'static str, make: impl FnOnce() -> Result<T>,
    ) -> Result<()> {
        self.with_mut(handle, argument, |value| {
            *value = make()?;
            Ok(())
        })
    }

    /// Takes the object out; the handle is dead from here on.
    ///
    /// # Errors
    /// Bad parameter naming `argument` if the handle is not alive.
    pub(crate) fn remove(&self, handle: usize, argument: &'static str) -> Result<T> {
        let slot = self.find(handle, argument)?;
        let mut place = slot.value.write(nothing);
        if !is_current(slot, handle) {
            return Err(self.refuse(argument, "already destroyed"));
        }
        let value = place.take().ok_or_else(|| self.refuse(argument, "already destroyed"))?;
        slot.generation.fetch_add(1, Ordering::AcqRel);
        if original::is_on() {
            slot.twin.forget();
        }
        drop(place);
        let mut free = self.free.write(recounted);
        free.returned.push_back(handle as u32 >> 4);
        Ok(value)
    }
}

impl<T: Copy> Table<T> {
    /// A copy of the object behind `handle`.
    ///
    /// # Errors
    /// As [`Table::with`].
    pub(crate) fn get(&self, handle: usize, argument: &'static str) -> Result<T> {
        self.with(handle, argument, |value| Ok(*value))
    }
}

fn is_current<T>(slot: &Slot<T>, handle: usize) -> bool {
    let generation = (handle >> 32) as u32 & GENERATION_MASK;
    generation & 1 == 1 && slot.generation.load(Ordering::Acquire) & GENERATION_MASK == generation
}

/// Chunk `k` holds the indices from `64 * (2^k - 1)` on.
fn position(index: usize) -> (usize, usize) {
    let chunk = (index / FIRST_CHUNK + 1).ilog2() as usize;
    (chunk, index - FIRST_CHUNK * ((1 << chunk) - 1))
}

const fn chunk_len(chunk: usize) -> usize {
    FIRST_CHUNK << chunk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_fill_chunks_without_gaps() {
        let mut expected = (0, 0);
        // An interpreter takes minutes for all of them.
        let most = if cfg!(miri) { 3_000 } else { 100_000 };
        for index in 0..most {
            assert_eq!(position(index), expected);
            expected.1 += 1;
            if expected.1 == chunk_len(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(position((1 << 28) - FIRST_CHUNK - 1), (CHUNKS - 1, chunk_len(CHUNKS - 1) - 1));
    }

    #[test]
    fn every_bad_handle_is_refused() {
        // Tables live as long as the process, and keep their memory.
        static TENSORS: Table<i32> = Table::new(Kind::Tensor);
        static TRANSFORMS: Table<i32> = Table::new(Kind::Transform);
        let tensors = &TENSORS;
        let live = tensors.insert(7).unwrap();
        let other = TRANSFORMS.insert(8).unwrap();
        assert_eq!(tensors.get(live, "x"), Ok(7));
        assert_eq!(tensors.get(0, "x"), Err(Error::Null { argument: "x" }));
        for wild in
            [other, 8, 0x1000, usize::MAX, live ^ 8, live ^ (1 << 32), live + (1 << 20), live | 1 << 31]
        {
            assert!(matches!(tensors.get(wild, "x"), Err(Error::Handle { .. })), "{wild:#x}");
        }
        assert_eq!(tensors.remove(live, "x"), Ok(7));
        assert!(tensors.get(live, "x").is_err());
        assert!(tensors.remove(live, "x").is_err());
        // The slot is not reused at once, and reuse has another generation.
        for _ in 0..3 * QUARANTINE {
            let next = tensors.insert(9).unwrap();
            assert_ne!(next, live);
            assert!(tensors.get(live, "x").is_err());
            tensors.remove(next, "x").unwrap();
        }
    }

    #[test]
    fn thousands_of_handles_stay_apart() {
        static TABLE: Table<usize> = Table::new(Kind::Context);
        let table = &TABLE;
        let count = if cfg!(miri) { 500 } else { 10_000 };
        let handles: Vec<usize> = (0..count).map(|i| table.insert(i).unwrap()).collect();
        for (i, &handle) in handles.iter().enumerate() {
            assert_eq!(table.get(handle, "handle"), Ok(i));
        }
        for &handle in handles.iter().rev() {
            table.remove(handle, "handle").unwrap();
        }
    }
}
