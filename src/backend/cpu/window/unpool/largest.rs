//! Where the first largest of many cells is, of cells as they lie in memory.

use cudnn_shim_macros::vectorized;

use crate::backend::cpu::Isa;
use crate::backend::cpu::window::fold::in_groups;
use crate::dtype::Scalar;

/// Cells that are looked through together.
const SOME: usize = 32;

/// The integers that cells of some size are compared as, and numbered with.
trait Key: Copy + Ord + Send + Sync + 'static {
    const LEAST: Self;
    /// Cells that can be numbered, whole groups of them.
    const MAX_INDEX: usize;
    /// The one of a cell with these bits: in the order of numbers, with equal zeros, and one for
    /// all NaNs.
    fn of(bits: Self, order: Order) -> Self;
    /// A number below [`MAX_INDEX`](Self::MAX_INDEX).
    fn numbered(number: usize) -> Self;
    fn number(self) -> usize;
}

/// What the order of a type of cells depends on, as integers of any width.
#[derive(Clone, Copy)]
pub struct Order {
    infinity: i64,
    /// Whether NaNs lie above all numbers, or below.
    nans_above: bool,
}

macro_rules! keys {
    ($($Key:ty),*) => {$(
        impl Key for $Key {
            const LEAST: Self = <$Key>::MIN;
            const MAX_INDEX: usize = <$Key>::MAX as usize / SOME * SOME;
            #[inline(always)]
            fn of(bits: Self, order: Order) -> Self {
                let (magnitude, sign) = (bits & <$Key>::MAX, bits >> (<$Key>::BITS - 1));
                let nan = if order.nans_above { <$Key>::MAX } else { <$Key>::MIN };
                if magnitude > order.infinity as $Key { nan } else { (magnitude ^ sign) - sign }
            }
            #[inline(always)]
            fn numbered(number: usize) -> Self {
                number as $Key
            }
            #[inline(always)]
            fn number(self) -> usize {
                self as usize
            }
        }
    )*};
}
keys!(i16, i32, i64);

/// The loops of a type of cells at some level.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// Bytes of a cell, which are those of its key.
    pub size: usize,
    /// Cells that keys can number.
    pub most: usize,
    pub order: Order,
    /// Where the first of the largest of `n` cells lies.
    ///
    /// # Safety
    /// They are readable, at least one.
    pub first: unsafe fn(cells: *const u8, n: usize, order: Order) -> usize,
    /// By lane, the larger one of `best` and the key of a cell, and the number of that; the first
    /// cell has number 0.
    ///
    /// # Safety
    /// `n` cells are readable, and as many keys writable at `best` and `winner`, apart from them;
    /// readable, too, but for the first cell.
    pub better:
        unsafe fn(best: *mut u8, winner: *mut u8, cells: *const u8, number: usize, n: usize, order: Order),
    /// By lane, what the winner is given, or else nothing.
    ///
    /// # Safety
    /// `n` winners and what they are given are readable, as much writable at `out`, apart from
    /// them, and nothing is one readable cell.
    pub give: unsafe fn(out: *mut u8, winner: *const u8, number: usize, given: [*const u8; 2], n: usize),
}

/// The kernels of a type of cells, if it has some.
pub fn kernels(cell: Scalar, nans_above: bool, isa: Isa) -> Option<Kernels> {
    let order = |infinity: i64| Order { infinity, nans_above };
    match cell {
        Scalar::F32 => Some(of::<i32>(order(0x7f80_0000), isa)),
        Scalar::F64 => Some(of::<i64>(order(0x7ff0_0000_0000_0000), isa)),
        Scalar::F16 => Some(of::<i16>(order(0x7c00), isa)),
        Scalar::Bf16 => Some(of::<i16>(order(0x7f80), isa)),
        _ => None,
    }
}

fn of<K: Key>(order: Order, isa: Isa) -> Kernels {
    Kernels {
        size: size_of::<K>(),
        most: K::MAX_INDEX,
        order,
        first: first::of::<K>(isa),
        better: better::of::<K>(isa),
        give: give::of::<K>(isa),
    }
}

/// # Safety
/// As for [`Kernels::first`].
#[vectorized]
unsafe fn first<K: Key>(cells: *const u8, n: usize, order: Order) -> usize {
    let (mut largest, mut first) = (K::LEAST, 0);
    for begin in (0..n).step_by(K::MAX_INDEX) {
        // SAFETY: cells below `n`, not more than keys can number.
        let (key, at) =
            unsafe { first_of_some::<K>(cells.cast::<K>().add(begin), K::MAX_INDEX.min(n - begin), order) };
        if key > largest {
            (largest, first) = (key, begin + at);
        }
    }
    first
}

/// The largest key, and where the first one is.
///
/// # Safety
/// `n` cells are readable, at least one, and keys can number them.
#[inline(always)]
unsafe fn first_of_some<K: Key>(cells: *const K, n: usize, order: Order) -> (K, usize) {
    let (mut best, mut winner) = ([K::LEAST; SOME], [K::numbered(0); SOME]);
    for at in (0..n / SOME * SOME).step_by(SOME) {
        // SAFETY: cells below `n`.
        let cells = unsafe { cells.add(at).cast::<[K; SOME]>().read_unaligned() };
        let number = K::numbered(at);
        for i in 0..SOME {
            let (key, before) = (K::of(cells[i], order), best[i]);
            let keeps = winner[i];
            winner[i] = if key > before { number } else { keeps };
            best[i] = key.max(before);
        }
    }
    let mut largest = best.iter().fold(K::LEAST, |largest, &key| largest.max(key));
    // Lanes whose largest cell is less have a place behind all.
    let mut first = n;
    for i in 0..SOME {
        let at = winner[i].number() + i;
        first = first.min(if best[i] == largest { at } else { n });
    }
    for at in n / SOME * SOME..n {
        // SAFETY: cells below `n`.
        let key = K::of(unsafe { cells.add(at).read() }, order);
        if key > largest {
            (largest, first) = (key, at);
        }
    }
    (largest, first)
}

/// # Safety
/// As for [`Kernels::better`].
#[vectorized]
unsafe fn better<K: Key>(
    best: *mut u8, winner: *mut u8, cells: *const u8, number: usize, n: usize, order: Order,
) {
    let [best, winner] = [best, winner].map(|keys| keys.cast::<K>());
    let (cells, is_first, number) = (cells.cast::<K>(), number == 0, K::numbered(number));
    // SAFETY: lanes below `n`. The last ones come twice, of which the second time changes nothing.
    in_groups!(n, 32 1, |at, N| unsafe {
        let cells = cells.add(at).cast::<[K; N]>().read_unaligned();
        let mut larger = [K::LEAST; N];
        for i in 0..N {
            larger[i] = K::of(cells[i], order);
        }
        let (best, winner) = (best.add(at).cast::<[K; N]>(), winner.add(at).cast::<[K; N]>());
        let mut won = [number; N];
        if !is_first {
            let (before, winner) = (best.read_unaligned(), winner.read_unaligned());
            for i in 0..N {
                larger[i] = before[i].max(larger[i]);
                won[i] = if larger[i] == before[i] { winner[i] } else { number };
            }
        }
        best.write_unaligned(larger);
        winner.write_unaligned(won);
    });
}

/// # Safety
/// As for [`Kernels::give`].
#[vectorized]
unsafe fn give<K: Key>(
    out: *mut u8, winner: *const u8, number: usize, [given, nothing]: [*const u8; 2], n: usize,
) {
    let [winner, given] = [winner, given].map(|keys| keys.cast::<K>());
    let number = K::numbered(number);
    // SAFETY: lanes below `n`; cells are as wide as keys.
    unsafe {
        let nothing = nothing.cast::<K>().read();
        in_groups!(n, 32 1, |at, N| {
            let winner = winner.add(at).cast::<[K; N]>().read_unaligned();
            let mut results = given.add(at).cast::<[K; N]>().read_unaligned();
            for i in 0..N {
                results[i] = if winner[i] == number { results[i] } else { nothing };
            }
            out.cast::<K>().add(at).cast::<[K; N]>().write_unaligned(results);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    /// Planes of more cells than 16 bits number, which reference loops would look through for every
    /// cell.
    #[test]
    fn the_first_largest_cell_is_found_among_any_number() {
        for n in [1, 31, 32, 33, 529, 32_736, 32_767, 32_769, 70_000] {
            for at in [0, n / 3, n / 2, n - 1] {
                let mut cells: Vec<f16> = (0..n).map(|i| f16::from_f32((i * 7 % 33) as f32 - 16.0)).collect();
                cells[at] = f16::from_f32(99.0);
                *cells.last_mut().expect("a cell") = f16::from_f32(99.0);
                for isa in Isa::available() {
                    for nans_above in [false, true] {
                        let kernels = kernels(Scalar::F16, nans_above, isa).expect("kernels");
                        // SAFETY: there are `n` cells; the processor has the instructions.
                        let found = unsafe { (kernels.first)(cells.as_ptr().cast(), n, kernels.order) };
                        assert_eq!(found, at, "of {n} at {}", isa.name());
                    }
                }
            }
        }
    }
}
