//! Blocks of less than 16 bytes of cells and zeros behind them, written whole: rows that are not
//! there enter the transpose as zeros.

use super::super::{Few, Spread};
use super::*;

/// The function for cells of `cell` bytes in blocks of `block`, in the widest registers that divide
/// the block.
pub(in super::super) fn few<const STREAM: bool>(cell: usize, block: usize, isa: Isa) -> Option<Spread> {
    macro_rules! of_cell {
        ($registers:ident) => {
            match cell {
                1 => Some($registers::u8::<STREAM>),
                2 => Some($registers::u16::<STREAM>),
                4 => Some($registers::u32::<STREAM>),
                8 => Some($registers::u64::<STREAM>),
                _ => None,
            }
        };
    }
    if isa.has_avx512() && block.is_multiple_of(64) {
        of_cell!(zmm)
    } else if isa.has_avx2() && block.is_multiple_of(32) {
        of_cell!(ymm)
    } else if block.is_multiple_of(16) {
        of_cell!(xmm)
    } else {
        match (cell, block) {
            (1, 2) => Some(short::u8x2::<STREAM>),
            (1, 4) => Some(short::u8x4::<STREAM>),
            (1, 8) => Some(short::u8x8::<STREAM>),
            (2, 4) => Some(short::u16x2::<STREAM>),
            (2, 8) => Some(short::u16x4::<STREAM>),
            (4, 8) => Some(short::u32x2::<STREAM>),
            _ => None,
        }
    }
}

/// Block by block.
///
/// # Safety
/// As for [`Spread`].
unsafe fn one_by_one<W: Copy>(few: Few) {
    for j in 0..few.blocks {
        // SAFETY: a block and its cells.
        unsafe {
            let to = few.dst.add(j * few.block);
            to.write_bytes(0, few.block);
            for i in 0..few.cells {
                let from = few.src.offset(i as isize * few.row).cast::<W>().add(j);
                to.cast::<W>().add(i).write_unaligned(from.read_unaligned());
            }
        }
    }
}

/// Defines the functions of one register size.
macro_rules! few {
    ($name:ident, $feature:literal, $extend:expr, $zero:ident, $store:ident, $stream:ident) => {
        mod $name {
            use super::*;

            few!(@ u8, _mm_unpacklo_epi8, _mm_unpackhi_epi8, $feature, $extend, $zero, $store, $stream);
            few!(@ u16, _mm_unpacklo_epi16, _mm_unpackhi_epi16, $feature, $extend, $zero, $store, $stream);
            few!(@ u32, _mm_unpacklo_epi32, _mm_unpackhi_epi32, $feature, $extend, $zero, $store, $stream);
            few!(@ u64, _mm_unpacklo_epi64, _mm_unpackhi_epi64, $feature, $extend, $zero, $store, $stream);
        }
    };
    (@ $W:ident, $lo:ident, $hi:ident, $feature:literal, $extend:expr, $zero:ident, $store:ident, $stream:ident) => {
        /// # Safety
        /// As for [`Spread`].
        #[target_feature(enable = $feature)]
        pub(super) unsafe fn $W<const STREAM: bool>(few: Few) {
            const CELL: usize = size_of::<$W>();
            const K: usize = 16 / CELL;
            if few.blocks < K {
                // SAFETY: the planes and the pixels are those of the call.
                return unsafe { one_by_one::<$W>(few) };
            }
            let zero = $zero();
            let register = size_of_val(&zero);
            let mut j = 0;
            loop {
                // Rows that are not there are zeros, and so become the first zeros of every block.
                let mut r = [_mm_setzero_si128(); K];
                for (i, row) in r.iter_mut().enumerate() {
                    if i < few.cells {
                        // SAFETY: K cells of one row of the source.
                        *row = unsafe { _mm_loadu_si128(few.src.offset(i as isize * few.row).add(j * CELL).cast()) };
                    }
                }
                passes!($W r $lo $hi);
                for (k, &cells) in r.iter().enumerate() {
                    // SAFETY: the destination has this block; where it is streamed, a line starts
                    // here.
                    unsafe {
                        let to = few.dst.add((j + k) * few.block);
                        let mut value = $extend(cells);
                        for at in (0..few.block).step_by(register) {
                            if STREAM {
                                $stream(to.add(at).cast(), value);
                            } else {
                                $store(to.add(at).cast(), value);
                            }
                            value = zero;
                        }
                    }
                }
                if j + K >= few.blocks {
                    break;
                }
                // The last blocks overlap the ones before them.
                j = (j + K).min(few.blocks - K);
            }
        }
    };
}

few!(xmm, "sse2", std::convert::identity, _mm_setzero_si128, _mm_storeu_si128, _mm_stream_si128);
few!(ymm, "avx2", _mm256_zextsi128_si256, _mm256_setzero_si256, _mm256_storeu_si256, _mm256_stream_si256);
few!(zmm, "avx512f", _mm512_zextsi128_si512, _mm512_setzero_si512, _mm512_storeu_si512, _mm512_stream_si512);

/// Blocks of 2 to 8 bytes: interleaving as many registers as a block has cells leaves blocks side
/// by side.
mod short {
    use super::*;

    /// Defines the function of one cell and block; `$network` is as many times smaller than a
    /// register.
    macro_rules! short {
        ($name:ident, $W:ident, $network:ident, $lo:ident, $hi:ident) => {
            /// # Safety
            /// As for [`Spread`].
            #[target_feature(enable = "sse2")]
            pub(super) unsafe fn $name<const STREAM: bool>(few: Few) {
                const K: usize = 16 / size_of::<$network>();
                /// Blocks in all registers.
                const BLOCKS: usize = 16 / size_of::<$W>();
                if few.blocks < BLOCKS {
                    // SAFETY: the planes and the pixels are those of the call.
                    return unsafe { one_by_one::<$W>(few) };
                }
                let mut j = 0;
                loop {
                    let mut r = [_mm_setzero_si128(); K];
                    for (i, row) in r.iter_mut().enumerate() {
                        if i < few.cells {
                            let from = few.src.wrapping_offset(i as isize * few.row).wrapping_add(j * size_of::<$W>());
                            // SAFETY: as many cells of one row of the source.
                            *row = unsafe { _mm_loadu_si128(from.cast()) };
                        }
                    }
                    passes!($network r $lo $hi);
                    for (k, &blocks) in r.iter().enumerate() {
                        // SAFETY: blocks of the destination. All but the last start at a multiple
                        // of their size.
                        unsafe {
                            let to = few.dst.add(j * few.block + k * 16).cast();
                            if STREAM && j % BLOCKS == 0 {
                                _mm_stream_si128(to, blocks);
                            } else {
                                _mm_storeu_si128(to, blocks);
                            }
                        }
                    }
                    if j + BLOCKS >= few.blocks {
                        break;
                    }
                    // The last blocks overlap the ones before them.
                    j = (j + BLOCKS).min(few.blocks - BLOCKS);
                }
            }
        };
    }

    short!(u8x2, u8, u64, _mm_unpacklo_epi8, _mm_unpackhi_epi8);
    short!(u8x4, u8, u32, _mm_unpacklo_epi8, _mm_unpackhi_epi8);
    short!(u8x8, u8, u16, _mm_unpacklo_epi8, _mm_unpackhi_epi8);
    short!(u16x2, u16, u64, _mm_unpacklo_epi16, _mm_unpackhi_epi16);
    short!(u16x4, u16, u32, _mm_unpacklo_epi16, _mm_unpackhi_epi16);
    short!(u32x2, u32, u64, _mm_unpacklo_epi32, _mm_unpackhi_epi32);
}
