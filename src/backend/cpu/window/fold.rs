//! Folds of many cells to one, side by side: what pooling and sums over windows are made of.

use cudnn_shim_macros::vectorized;

use crate::backend::cpu::Isa;
use crate::backend::function::Real;
use crate::dtype::convert::Element;

/// How cells become one. An accumulator that has [just started](Fold::start) changes nothing when
/// it is joined.
pub(super) trait Fold {
    /// A cell as it lies in memory.
    type Cell: Copy;
    /// What cells are joined to.
    type Lane: Copy;
    /// What is made of that in the end.
    type Result;
    fn start() -> Self::Lane;
    fn lane(cell: Self::Cell) -> Self::Lane;
    fn join(a: Self::Lane, b: Self::Lane) -> Self::Lane;
}

/// A fold whose lanes become results in registers.
pub(super) trait Ended: Fold {
    /// `by` is what a sum is divided by.
    fn result(lane: Self::Lane, by: Self::Result) -> Self::Result;
}

/// A sum of numbers.
pub(super) struct Sum<T>(std::marker::PhantomData<T>);

impl<T: Real> Fold for Sum<T> {
    type Cell = T;
    type Lane = T;
    type Result = T;
    #[inline(always)]
    fn start() -> T {
        T::ZERO
    }
    #[inline(always)]
    fn lane(cell: T) -> T {
        cell
    }
    #[inline(always)]
    fn join(a: T, b: T) -> T {
        a + b
    }
}

impl<T: Real> Ended for Sum<T> {
    #[inline(always)]
    fn result(sum: T, by: T) -> T {
        (sum / by).canonical()
    }
}

/// A sum of bytes, as numbers. They need not be brought together as such before.
pub(super) struct SumOfBytes;

impl Fold for SumOfBytes {
    type Cell = i8;
    type Lane = f32;
    type Result = f32;
    #[inline(always)]
    fn start() -> f32 {
        0.0
    }
    #[inline(always)]
    fn lane(cell: i8) -> f32 {
        f32::from(cell)
    }
    #[inline(always)]
    fn join(a: f32, b: f32) -> f32 {
        a + b
    }
}

impl Ended for SumOfBytes {
    #[inline(always)]
    fn result(sum: f32, by: f32) -> f32 {
        Sum::<f32>::result(sum, by)
    }
}

/// A sum of squares.
pub(super) struct Squares<T>(std::marker::PhantomData<T>);

impl<T: Real> Fold for Squares<T> {
    type Cell = T;
    type Lane = T;
    type Result = T;
    #[inline(always)]
    fn start() -> T {
        T::ZERO
    }
    #[inline(always)]
    fn lane(cell: T) -> T {
        cell * cell
    }
    #[inline(always)]
    fn join(a: T, b: T) -> T {
        a + b
    }
}

/// A type whose cells have integers in the order of their values, as wide as they are: -0 below +0,
/// and all NaNs at one end. Integers are compared in one instruction, many at a time.
pub(super) trait Ordered: Element {
    /// The integer.
    type Key: Copy + Ord;
    /// The least one.
    const LEAST: Self::Key;
    fn key<const NANS_ABOVE: bool>(self) -> Self::Key;
    /// The cell of a key; every NaN is the one of the type.
    fn of_key<const NANS_ABOVE: bool>(key: Self::Key) -> Self;
}

macro_rules! floats {
    ($($T:ty, $Key:ty, $Bits:ty, $infinity:literal;)*) => {$(
        impl Ordered for $T {
            type Key = $Key;
            const LEAST: $Key = <$Key>::MIN;
            #[inline(always)]
            fn key<const NANS_ABOVE: bool>(self) -> $Key {
                // Sign and magnitude become two's complement: the NaNs of either sign are the keys
                // at either end.
                let bits = <$T>::to_bits(self) as $Key;
                let ordered = (bits & <$Key>::MAX) ^ (bits >> (<$Key>::BITS - 1));
                // Turned around by their number, those of one end come to the other.
                let nans = <$Key>::MAX - $infinity;
                if NANS_ABOVE { ordered.wrapping_sub(nans) } else { ordered.wrapping_add(nans) }
            }
            #[inline(always)]
            fn of_key<const NANS_ABOVE: bool>(key: $Key) -> $T {
                let nans = <$Key>::MAX - $infinity;
                let ordered = if NANS_ABOVE { key.wrapping_add(nans) } else { key.wrapping_sub(nans) };
                let negative = ordered >> (<$Key>::BITS - 1);
                let bits = (ordered ^ negative) | (negative & <$Key>::MIN);
                let is_nan = bits & <$Key>::MAX > $infinity;
                <$T>::from_bits((if is_nan { <$Key>::MAX } else { bits }) as $Bits)
            }
        }
    )*};
}
floats! {
    f32, i32, u32, 0x7f80_0000;
    f64, i64, u64, 0x7ff0_0000_0000_0000;
    half::f16, i16, u16, 0x7c00;
    half::bf16, i16, u16, 0x7f80;
}

macro_rules! integers {
    ($($T:ty),*) => {$(
        impl Ordered for $T {
            type Key = $T;
            const LEAST: $T = <$T>::MIN;
            #[inline(always)]
            fn key<const NANS_ABOVE: bool>(self) -> $T {
                self
            }
            #[inline(always)]
            fn of_key<const NANS_ABOVE: bool>(key: $T) -> $T {
                key
            }
        }
    )*};
}
integers!(i8, u8, i32);

/// The largest cell.
pub(super) struct Largest<S, const NANS_ABOVE: bool>(std::marker::PhantomData<S>);

impl<S: Ordered, const NANS_ABOVE: bool> Fold for Largest<S, NANS_ABOVE> {
    type Cell = S;
    type Lane = S::Key;
    type Result = S;
    #[inline(always)]
    fn start() -> S::Key {
        S::LEAST
    }
    #[inline(always)]
    fn lane(cell: S) -> S::Key {
        cell.key::<NANS_ABOVE>()
    }
    #[inline(always)]
    fn join(a: S::Key, b: S::Key) -> S::Key {
        a.max(b)
    }
}

impl<S: Ordered, const NANS_ABOVE: bool> Ended for Largest<S, NANS_ABOVE> {
    #[inline(always)]
    fn result(key: S::Key, _: S) -> S {
        S::of_key::<NANS_ABOVE>(key)
    }
}

/// Runs `$body` for `$n` lanes, `$N` of them from `$at` on at a time: they stay in registers while
/// the taps go by. The last group begins where it ends with the last lane, so that some lanes are
/// computed twice: a loop over single ones would take longer than all others.
macro_rules! in_groups {
    ($n:expr, $($size:literal)*, |$at:ident, $N:ident| $body:expr) => {{
        let n = $n;
        let mut done = 0;
        $({
            const $N: usize = $size;
            while done < n && n >= $N {
                let $at = done.min(n - $N);
                $body;
                done += $N;
            }
        })*
    }};
}
pub(super) use in_groups;

/// How many folds of the same shape follow one another, and how many cells their rows are apart.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub count: usize,
    pub apart: isize,
}

impl Times {
    pub const ONCE: Times = Times { count: 1, apart: 0 };
}

/// `out[t * n + i] =` the fold over columns of the folds over their rows, `rows[k][t * apart + i]`,
/// for `i < n` and as many `t` as `times` says. Of the rows, each `per_column` make up a column;
/// the fold of a column starts anew.
///
/// # Safety
/// These cells are readable at every row, and the lanes writable at `out`, apart from the rows. The
/// processor has the instructions that the function was chosen for.
pub(super) type FoldRows<F> = unsafe fn(
    out: *mut <F as Fold>::Lane,
    rows: &[*const <F as Fold>::Cell],
    per_column: usize,
    n: usize,
    times: Times,
);

/// The same, whose results leave from registers: `out[t * step + i]` for at least [`FEWEST_ENDED`]
/// lanes.
///
/// # Safety
/// As for [`FoldRows`], with results in place of lanes, `step` of them apart.
pub(super) type EndedRows<F> = unsafe fn(
    out: *mut <F as Fold>::Result,
    step: isize,
    rows: &[*const <F as Fold>::Cell],
    per_column: usize,
    n: usize,
    times: Times,
    by: <F as Fold>::Result,
);

/// Lanes that [`EndedRows`] take at least.
pub(super) const FEWEST_ENDED: usize = 8;

/// `out[i] =` the fold of `lanes[i * stride + k]` for `k < window`, for `i < n`.
///
/// # Safety
/// All these lanes are readable, and one behind them, and `n` writable at `out`, apart from them.
/// The processor has the instructions that the function was chosen for.
pub(super) type Slide<F> = unsafe fn(
    out: *mut <F as Fold>::Lane,
    lanes: *const <F as Fold>::Lane,
    window: usize,
    stride: usize,
    n: usize,
);

/// The same fold of what was folded before.
pub(super) struct Again<F>(std::marker::PhantomData<F>);

impl<F: Fold> Fold for Again<F> {
    type Cell = F::Lane;
    type Lane = F::Lane;
    type Result = F::Result;
    #[inline(always)]
    fn start() -> F::Lane {
        F::start()
    }
    #[inline(always)]
    fn lane(lane: F::Lane) -> F::Lane {
        lane
    }
    #[inline(always)]
    fn join(a: F::Lane, b: F::Lane) -> F::Lane {
        F::join(a, b)
    }
}

/// The functions of a fold at some instruction set level.
pub(super) struct Folds<F: Fold> {
    pub rows: FoldRows<F>,
    /// Folds of rows of lanes.
    pub again: FoldRows<Again<F>>,
    pub slide: Slide<F>,
}

/// The fold whose results leave from registers, at a level.
pub(super) fn ended_rows<F: Ended>(isa: Isa) -> EndedRows<F>
where
    F::Result: Copy,
{
    ended::of::<F>(isa)
}

/// The functions of a fold at a level.
pub(super) fn folds<F: Fold>(isa: Isa) -> Folds<F> {
    Folds { rows: rows::of::<F>(isa), again: rows::of::<Again<F>>(isa), slide: slide::of::<F>(isa) }
}

/// # Safety
/// As for [`FoldRows`].
#[vectorized]
unsafe fn rows<F: Fold>(
    out: *mut F::Lane, rows: &[*const F::Cell], per_column: usize, n: usize, times: Times,
) {
    for time in 0..times.count {
        let (out, skipped) = (out.wrapping_add(time * n), time as isize * times.apart);
        // SAFETY: lanes below n.
        in_groups!(n, 32 16 8 1, |at, N| unsafe {
            let lanes = group::<F, N>(rows, per_column, skipped, at);
            out.add(at).cast::<[F::Lane; N]>().write_unaligned(lanes);
        });
    }
}

/// # Safety
/// As for [`EndedRows`].
#[vectorized]
unsafe fn ended<F: Ended>(
    out: *mut F::Result, step: isize, rows: &[*const F::Cell], per_column: usize, n: usize, times: Times,
    by: F::Result,
) where
    F::Result: Copy,
{
    // Few lanes are the whole of a pixel: the loop over outputs is the inner one.
    // SAFETY: lanes below n.
    in_groups!(n, 32 16 8, |at, N| unsafe {
        for time in 0..times.count as isize {
            let lanes = group::<F, N>(rows, per_column, time * times.apart, at);
            let mut results = [by; N];
            for i in 0..N {
                results[i] = F::result(lanes[i], by);
            }
            out.offset(time * step).add(at).cast::<[F::Result; N]>().write_unaligned(results);
        }
    });
}

/// The folds of `N` lanes from `at` on, `skipped` cells behind the rows.
///
/// # Safety
/// As for [`FoldRows`], of these lanes.
#[inline(always)]
unsafe fn group<F: Fold, const N: usize>(
    rows: &[*const F::Cell], per_column: usize, skipped: isize, at: usize,
) -> [F::Lane; N] {
    let mut total = [F::start(); N];
    for column in rows.chunks(per_column) {
        let mut lanes = [F::start(); N];
        for row in column {
            // SAFETY: every row has `N` cells from here on. Volatile, the loop over rows stays one:
            // else it becomes vector code that gathers from many rows, in place of that over lanes.
            let cells = unsafe {
                let row = std::ptr::from_ref(row).read_volatile();
                row.offset(skipped).add(at).cast::<[F::Cell; N]>().read_unaligned()
            };
            let before = lanes;
            for i in 0..N {
                lanes[i] = F::join(before[i], F::lane(cells[i]));
            }
        }
        total = joined::<F, N>(total, lanes);
    }
    total
}

/// Joins lane by lane. What was before stays apart: else the compiler takes a larger lane for a
/// store that happens or not.
#[inline(always)]
fn joined<F: Fold, const N: usize>(before: [F::Lane; N], lanes: [F::Lane; N]) -> [F::Lane; N] {
    let mut joined = [F::start(); N];
    for i in 0..N {
        joined[i] = F::join(before[i], lanes[i]);
    }
    joined
}

/// Portable code on x86-64 is for processors of before 2013, which are not worth a loop for each
/// stride.
const PORTABLE_BY_STRIDE: bool = cfg!(not(target_arch = "x86_64"));

/// # Safety
/// As for [`Slide`].
#[vectorized(PORTABLE_BY_STRIDE, true, true)]
unsafe fn slide<F: Fold, const BY_STRIDE: bool>(
    out: *mut F::Lane, lanes: *const F::Lane, window: usize, stride: usize, n: usize,
) {
    // SAFETY: `n` outputs are writable, and the lanes of their windows readable.
    unsafe {
        match stride {
            1 if BY_STRIDE => slide_over::<F>(out, lanes, window, 1, n),
            2 if BY_STRIDE => pairs::<F>(out, lanes, window, n),
            _ => slide_over::<F>(out, lanes, window, stride, n),
        }
    }
}

/// With stride 2: of pairs, each has a lane of every output.
///
/// # Safety
/// As for [`Slide`].
#[inline(always)]
unsafe fn pairs<F: Fold>(out: *mut F::Lane, lanes: *const F::Lane, window: usize, n: usize) {
    in_groups!(n, 16 8 1, |at, N| {
        let mut total = [F::start(); N];
        for k in (0..window).step_by(2) {
            // SAFETY: lanes of the windows of outputs below n, and one behind them.
            let pairs = unsafe { lanes.add(2 * at + k).cast::<[[F::Lane; 2]; N]>().read_unaligned() };
            let [mut even, mut odd] = [[F::start(); N]; 2];
            for i in 0..N {
                [even[i], odd[i]] = pairs[i];
            }
            total = joined::<F, N>(total, even);
            if k + 1 < window {
                total = joined::<F, N>(total, odd);
            }
        }
        // SAFETY: outputs below n.
        unsafe { out.add(at).cast::<[F::Lane; N]>().write_unaligned(total) };
    });
}

/// # Safety
/// As for [`Slide`].
#[inline(always)]
unsafe fn slide_over<F: Fold>(
    out: *mut F::Lane, lanes: *const F::Lane, window: usize, stride: usize, n: usize,
) {
    // SAFETY: lanes of the windows of outputs below n.
    unsafe {
        for i in 0..n {
            let mut total = F::start();
            for k in 0..window {
                total = F::join(total, lanes.add(i * stride + k).read());
            }
            out.add(i).write(total);
        }
    }
}
