//! The micro-kernel: a tile of accumulators in registers, MR rows by a few vectors.

pub(super) mod simd;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) mod vector;

use cudnn_shim_macros::vectorized;

use self::simd::{Compensation, MR, Simd};

/// Where the rows of one segment of the sum begin.
pub(super) type RowPointers<C> = [*const C; MR];

/// What one call of the micro-kernel reads: `segments` ranges of K with `len` k-groups each. Row m
/// of segment s has its k-groups at `rows[s][m] + i * step`; the vectors of k-group i, counted
/// through all segments, are at `v + offsets[i]`. Where kernels add the compensation of A, it
/// follows the only segment of each row; the compensation of B has an offset of its own, the last.
pub(super) struct Panel<C> {
    pub(super) rows: *const RowPointers<C>,
    pub(super) segments: usize,
    pub(super) len: usize,
    pub(super) step: usize,
    pub(super) offsets: *const i32,
    pub(super) v: *const C,
}

/// A kernel for some number of rows and vectors: `c[m][..] = sum`, or `+= sum` if `add`.
pub(super) type Kernel<S> = unsafe fn(&Panel<<S as Simd>::KGroup>, &[*mut <S as Simd>::Acc; MR], bool);

/// The loop of every kernel: the accumulators of the panel. The loops test at the bottom; with a
/// top test LLVM keeps a second copy of the accumulators.
///
/// # Safety
/// The instructions of `S`; all that the panel names is readable, as many cells as `N` vectors have
/// lanes at every offset; at least one cell.
#[inline(always)]
pub(super) unsafe fn accumulate<S: Simd, const M: usize, const N: usize>(
    panel: &Panel<S::KGroup>,
) -> [[S::V; N]; M] {
    // SAFETY: the panel has rows for `M` and vectors for `N`, at every offset.
    unsafe {
        let mut acc = [[S::zero(); N]; M];
        let (mut rows, mut offsets) = (panel.rows, panel.offsets);
        let (last, v, step) = (rows.add(panel.segments), panel.v, panel.step);
        loop {
            let at = *rows;
            let (mut along, mut left) = (0, panel.len);
            loop {
                let from = v.offset(*offsets as isize);
                offsets = offsets.add(1);
                let mut x = [S::zero(); N];
                let mut n = 0;
                while n < N {
                    x[n] = S::load(from.add(n * S::L));
                    n += 1;
                }
                let mut m = 0;
                while m < M {
                    let row = S::splat(at[m].add(along));
                    let mut n = 0;
                    while n < N {
                        acc[m][n] = S::fma(row, x[n], acc[m][n]);
                        n += 1;
                    }
                    m += 1;
                }
                along += step;
                left -= 1;
                if left == 0 {
                    break;
                }
            }
            rows = rows.add(1);
            if rows == last {
                break;
            }
        }
        if S::COMPENSATES != Compensation::None {
            let mut m = 0;
            while m < M {
                let mut n = 0;
                while n < N {
                    let tail = match S::COMPENSATES {
                        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                        Compensation::OfB => {
                            S::load_acc(v.offset(*offsets as isize).cast::<S::Acc>().add(n * S::L))
                        }
                        _ => S::splat((*panel.rows)[m].add(panel.len * step)),
                    };
                    acc[m][n] = S::add(acc[m][n], tail);
                    n += 1;
                }
                m += 1;
            }
        }
        acc
    }
}

/// # Safety
/// As for [`accumulate`]; the rows of `c` are writable for as many sums, and readable if `add`.
#[vectorized]
unsafe fn tile<S: Simd, const M: usize, const N: usize>(
    panel: &Panel<S::KGroup>, c: &[*mut S::Acc; MR], add: bool,
) {
    // SAFETY: the panel has rows for `M` and vectors for `N`, and the rows of `c` room for them.
    unsafe {
        let mut m = 0;
        while m < M {
            // The loop needs them when it is done; most are in a cache further away.
            S::prefetch::<N>(c[m]);
            m += 1;
        }
        let acc = accumulate::<S, M, N>(panel);
        let mut m = 0;
        while m < M {
            let mut n = 0;
            while n < N {
                let to = c[m].add(n * S::L);
                let sum = if add { S::add(S::load_acc(to), acc[m][n]) } else { acc[m][n] };
                S::store(to, sum);
                n += 1;
            }
            m += 1;
        }
    }
}

/// The kernel with vectors of AVX-VNNI.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avxvnni")]
unsafe fn avx2_vnni<S: Simd, const M: usize, const N: usize>(
    panel: &Panel<S::KGroup>, c: &[*mut S::Acc; MR], add: bool,
) {
    // SAFETY: panel and rows of `c` are those of the tile, and the processor has AVX-VNNI.
    unsafe { tile::<S, M, N>(panel, c, add) }
}

/// The kernel with vectors of AVX-512 VNNI.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn avx512_vnni<S: Simd, const M: usize, const N: usize>(
    panel: &Panel<S::KGroup>, c: &[*mut S::Acc; MR], add: bool,
) {
    // SAFETY: panel and rows of `c` are those of the tile, and the processor has AVX-512 VNNI.
    unsafe { tile::<S, M, N>(panel, c, add) }
}

/// The kernel with dot products of aarch64.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon,dotprod")]
unsafe fn neon_dot<S: Simd, const M: usize, const N: usize>(
    panel: &Panel<S::KGroup>, c: &[*mut S::Acc; MR], add: bool,
) {
    // SAFETY: panel and rows of `c` are those of the tile, and the processor has dot products.
    unsafe { tile::<S, M, N>(panel, c, add) }
}

/// The kernels of one level and type, by rows and by half or whole width.
pub(super) struct Kernels<S: Simd> {
    pub(super) tiles: [[Kernel<S>; 2]; MR],
    /// One row by [`WIDE`](Simd::WIDE) vectors.
    pub(super) wide: Kernel<S>,
}

macro_rules! kernels {
    ($name:ident, [$($level:tt)+], $half:literal, $whole:literal, $wide:literal) => {
        /// The kernels with vectors `K`, for operands that are packed for `S`.
        pub(super) const fn $name<S: Simd, K: Simd<KGroup = S::KGroup, Acc = S::Acc>>() -> Kernels<S> {
            let tiles = [
                [$($level)+::<K, 1, $half>, $($level)+::<K, 1, $whole>],
                [$($level)+::<K, 2, $half>, $($level)+::<K, 2, $whole>],
                [$($level)+::<K, 3, $half>, $($level)+::<K, 3, $whole>],
                [$($level)+::<K, 4, $half>, $($level)+::<K, 4, $whole>],
                [$($level)+::<K, 5, $half>, $($level)+::<K, 5, $whole>],
                [$($level)+::<K, 6, $half>, $($level)+::<K, 6, $whole>],
            ];
            Kernels { tiles, wide: $($level)+::<K, 1, $wide> }
        }
    };
}

kernels!(portable_kernels, [tile::portable], 1, 2, 4);
#[cfg(target_arch = "aarch64")]
kernels!(neon_kernels, [tile::portable], 2, 4, 8);
#[cfg(target_arch = "aarch64")]
kernels!(neon_dot_kernels, [neon_dot], 2, 4, 8);
#[cfg(target_arch = "x86_64")]
kernels!(avx2_kernels, [tile::avx2], 1, 2, 8);
#[cfg(target_arch = "x86_64")]
kernels!(avx2_vnni_kernels, [avx2_vnni], 1, 2, 2);
#[cfg(target_arch = "x86_64")]
kernels!(avx512_kernels, [tile::avx512], 2, 4, 4);
#[cfg(target_arch = "x86_64")]
kernels!(avx512_vnni_kernels, [avx512_vnni], 2, 4, 4);

/// Whether `lanes` lanes fill a tile of `nr`, or half of one: kernels have both.
#[inline(always)]
pub(super) const fn fills(lanes: usize, nr: usize) -> bool {
    lanes == nr || 2 * lanes == nr
}

impl<S: Simd> Kernels<S> {
    /// Lanes of a whole tile.
    pub(super) const NR: usize = S::L * S::NV;

    /// The kernel for `rows` rows and at least `lanes` lanes, and how many lanes it has. Pre:
    /// within the tile.
    #[inline(always)]
    pub(super) fn of(&self, rows: usize, lanes: usize) -> Kernel<S> {
        self.tiles[rows - 1][usize::from(lanes > Self::NR / 2)]
    }
}
