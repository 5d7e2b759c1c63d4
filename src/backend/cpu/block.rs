//! Short rows of bytes, copied from one pitch to another: a block at a time, for a call per row
//! costs more than the row.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256i, __m512i};

use cudnn_shim_macros::vectorized;

use super::Isa;
use super::stream::fetch;

/// Rows to copy.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub dst: *mut u8,
    pub src: *const u8,
    /// Bytes from row to row.
    pub dst_pitch: isize,
    pub src_pitch: isize,
    pub rows: usize,
    /// Bytes of a row, at least 1.
    pub bytes: usize,
    /// The source of the block that comes after this one and is to be fetched meanwhile: rows are
    /// too short for the processor to see that they are streams.
    pub next: *const u8,
    /// Its destination, if it should be fetched as well.
    pub next_dst: Option<*mut u8>,
}

/// `dst[r * dst_pitch + i] = src[r * src_pitch + i]` for all rows `r` and bytes `i`.
///
/// # Safety
/// These bytes are readable and writable; they are the same bytes or do not overlap. Rows have as
/// many bytes as the function was chosen for, and the processor the instructions of that [`Isa`].
pub(super) type CopyBlock = unsafe fn(block: Block);

/// The copy of rows of `bytes` bytes.
pub(super) fn copy(bytes: usize, isa: Isa) -> CopyBlock {
    #[cfg(target_arch = "x86_64")]
    if bytes >= 64 && isa.has_avx512() {
        return rows::avx512::<__m512i>;
    } else if bytes >= 32 && isa.has_avx2() {
        return rows::avx2::<__m256i>;
    }
    let _ = isa;
    match bytes {
        16.. => rows::<u128>,
        8.. => rows::<u64>,
        4.. => rows::<u32>,
        2.. => rows::<u16>,
        _ => rows::<u8>,
    }
}

/// Vector by vector; the last one of a row overlaps the one before it.
///
/// # Safety
/// As for [`CopyBlock`], for rows of at least one `V`.
#[vectorized]
unsafe fn rows<V: Copy>(block: Block) {
    let Block { mut dst, mut src, mut next, mut next_dst, .. } = block;
    let last = block.bytes - size_of::<V>();
    for _ in 0..block.rows {
        let copy = |i: usize| {
            fetch(next.wrapping_add(i));
            if let Some(next) = next_dst {
                fetch(next.wrapping_add(i));
            }
            // SAFETY: `V` at i <= last lies inside the row. Where both rows are the same bytes,
            // what is read again after it was written is unchanged.
            unsafe { dst.add(i).cast::<V>().write_unaligned(src.add(i).cast::<V>().read_unaligned()) }
        };
        let mut i = 0;
        while i < last {
            copy(i);
            i += size_of::<V>();
        }
        copy(last);
        fetch(next.wrapping_add(block.bytes - 1));
        (dst, src) = (dst.wrapping_offset(block.dst_pitch), src.wrapping_offset(block.src_pitch));
        next = next.wrapping_offset(block.src_pitch);
        next_dst = next_dst.map(|next| next.wrapping_offset(block.dst_pitch));
    }
}
