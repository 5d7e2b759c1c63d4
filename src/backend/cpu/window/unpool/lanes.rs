//! The loops over lanes that gradients are made of, compiled for an instruction set level.

use cudnn_shim_macros::vectorized;

use crate::backend::cpu::Isa;
use crate::backend::cpu::stream::Distance;
use crate::backend::cpu::window::fold::in_groups;
use crate::backend::real::Real;

/// A cell of an output, or an output of a cell: where it lies, and by which tap they meet.
#[derive(Clone, Copy)]
pub struct Tap {
    pub offset: usize,
    pub number: i32,
}

/// Taps of a cell that are summed one by one, in place of columns first.
pub const DIRECT_TAPS: usize = 9;

/// Taps that every one of some rows has.
#[derive(Clone, Copy)]
pub struct Columns {
    pub count: usize,
    /// What is added to the number of a row for the first of them, and for each one after it.
    pub first: i32,
    pub step: i32,
    /// Places from one to the next.
    pub pitch: usize,
}

impl Columns {
    /// All taps of these rows: row by row, or column by column.
    ///
    /// # Safety
    /// There is room for them, apart from the rows.
    pub unsafe fn of_rows<'a>(&self, rows: &[Tap], by_column: bool, room: *mut Tap) -> &'a [Tap] {
        let at = |row: &Tap, column: usize| Tap {
            offset: row.offset + column * self.pitch,
            number: row.number + self.first + column as i32 * self.step,
        };
        let mut taken = 0;
        // SAFETY: there is room for every tap.
        unsafe {
            let mut take = |tap| {
                room.add(taken).write(tap);
                taken += 1;
            };
            if by_column {
                (0..self.count).for_each(|column| rows.iter().for_each(|row| take(at(row, column))));
            } else {
                rows.iter().for_each(|row| (0..self.count).for_each(|column| take(at(row, column))));
            }
            std::slice::from_raw_parts(room, taken)
        }
    }
}

/// The same once more, for rows that lie as many places apart as this says, where results go and
/// where they come from.
#[derive(Clone, Copy)]
pub struct Repeat {
    pub count: usize,
    pub to: usize,
    pub from: usize,
}

impl Repeat {
    pub const ONCE: Self = Repeat { count: 1, to: 0, from: 0 };
}

/// Sums, winners, numbers, outputs, places.
type Give<T> = unsafe fn(*mut T, *const <T as Real>::Key, *const T, &[Tap], usize, Repeat);

/// Winners, keys, cells, places.
type Choose<T> = unsafe fn(*mut <T as Real>::Key, *const <T as Real>::Key, &[Tap], usize, Repeat);

/// The loops of a type at some level.
pub struct Kernels<T: Real> {
    /// Moves `n` numbers.
    pub place: unsafe fn(*mut T, *const T, usize, Repeat),
    /// Divides `n` numbers.
    pub divide: unsafe fn(*mut T, *const T, T, usize),
    /// Divides `n` numbers, each by its own.
    pub divide_each: unsafe fn(*mut T, *const T, *const T, usize, Repeat),
    /// `n` numbers become [keys](key).
    pub keys: unsafe fn(*mut T::Key, *const T, usize, Repeat),
    /// Even and odd ones of the keys of `n` numbers apart.
    pub unzip: unsafe fn(*mut T::Key, *mut T::Key, *const T, usize, Repeat),
    /// The [first largest](first_largest) tap of every lane.
    pub choose: Choose<T>,
    /// What outputs give to cells that they chose.
    pub give: Give<T>,
    /// What outputs give to all their cells.
    pub total: unsafe fn(*mut T, *const T, &[Tap], usize, usize, Repeat),
    /// Alternately from two, `n` in all.
    pub zip: unsafe fn(*mut T, *const T, *const T, usize, Repeat),
}

/// An integer in the order of a window's maximum: zeros are equal, as are NaNs, which lie where the
/// rule wants them, and all lie above [`Real::LEAST`].
#[inline(always)]
fn key<T: Real, const NANS_ABOVE: bool>(number: T) -> T::Key {
    // -0 + 0 is 0.
    let key = (number + T::ZERO).canonical().key::<NANS_ABOVE>();
    // Of NaNs above, there is one; and the least key is that of minus infinity.
    if NANS_ABOVE { key + T::Key::from(1) } else { key }
}

pub fn kernels<T: Real>(nans_above: bool, isa: Isa) -> Kernels<T> {
    Kernels {
        place: place::of::<T>(isa),
        divide: divide::of::<T>(isa),
        divide_each: divide_each::of::<T>(isa),
        keys: if nans_above { keys::of::<T, true>(isa) } else { keys::of::<T, false>(isa) },
        unzip: if nans_above { unzip::of::<T, true>(isa) } else { unzip::of::<T, false>(isa) },
        choose: choose::of::<T>(isa),
        give: give::of::<T>(isa),
        total: total::of::<T>(isa),
        zip: zip::of::<T>(isa),
    }
}

/// # Safety
/// `n` numbers are readable in every row, and writable, apart from them.
#[vectorized]
unsafe fn place<T: Real>(to: *mut T, from: *const T, n: usize, repeat: Repeat) {
    // SAFETY: every repetition has `n` numbers to read, and room for as many.
    unsafe {
        for row in 0..repeat.count {
            let (to, from) = (to.add(row * repeat.to), from.wrapping_add(row * repeat.from));
            Distance::Read.fetch(from.cast(), n * size_of::<T>());
            in_groups!(n, 16 8 1, |at, N| {
                to.add(at).cast::<[T; N]>().write_unaligned(from.add(at).cast::<[T; N]>().read_unaligned());
            });
        }
    }
}

/// # Safety
/// `n` numbers are readable, and writable at `to`, apart from them.
#[vectorized]
unsafe fn divide<T: Real>(to: *mut T, from: *const T, by: T, n: usize) {
    // SAFETY: there are `n` numbers, and room for as many.
    unsafe {
        for i in 0..n {
            to.add(i).write(from.add(i).read() / by);
        }
    }
}

/// # Safety
/// As for [`place`]; there are `n` divisors.
#[vectorized]
unsafe fn divide_each<T: Real>(to: *mut T, from: *const T, by: *const T, n: usize, repeat: Repeat) {
    // SAFETY: every repetition has `n` numbers and divisors to read, and room for as many results.
    unsafe {
        for row in 0..repeat.count {
            let (to, from) = (to.add(row * repeat.to), from.wrapping_add(row * repeat.from));
            Distance::Read.fetch(from.cast(), n * size_of::<T>());
            in_groups!(n, 16 8 1, |at, N| {
                let mut numbers = from.add(at).cast::<[T; N]>().read_unaligned();
                let by = by.add(at).cast::<[T; N]>().read_unaligned();
                for i in 0..N {
                    numbers[i] = numbers[i] / by[i];
                }
                to.add(at).cast::<[T; N]>().write_unaligned(numbers);
            });
        }
    }
}

/// # Safety
/// As for [`place`].
#[vectorized]
unsafe fn keys<T: Real, const NANS_ABOVE: bool>(to: *mut T::Key, from: *const T, n: usize, repeat: Repeat) {
    // SAFETY: every repetition has `n` numbers to read, and room for as many keys.
    unsafe {
        for row in 0..repeat.count {
            let (to, from) = (to.add(row * repeat.to), from.wrapping_add(row * repeat.from));
            Distance::Read.fetch(from.cast(), n * size_of::<T>());
            in_groups!(n, 16 8 1, |at, N| {
                let numbers = from.add(at).cast::<[T; N]>().read_unaligned();
                let mut keys = [T::LEAST; N];
                for i in 0..N {
                    keys[i] = key::<T, NANS_ABOVE>(numbers[i]);
                }
                to.add(at).cast::<[T::Key; N]>().write_unaligned(keys);
            });
        }
    }
}

/// # Safety
/// As for [`place`], with half as many keys at either destination.
#[vectorized]
unsafe fn unzip<T: Real, const NANS_ABOVE: bool>(
    even: *mut T::Key, odd: *mut T::Key, from: *const T, n: usize, repeat: Repeat,
) {
    // SAFETY: every repetition has `n` keys to read, and room for half as many at either
    // destination.
    unsafe {
        for row in 0..repeat.count {
            let (even, odd) = (even.add(row * repeat.to), odd.add(row * repeat.to));
            let from = from.wrapping_add(row * repeat.from);
            Distance::Read.fetch(from.cast(), n * size_of::<T>());
            in_groups!(n / 2, 16 8 1, |at, N| {
                let pairs = from.add(2 * at).cast::<[[T; 2]; N]>().read_unaligned();
                let mut keys = [[T::LEAST; N]; 2];
                for i in 0..N {
                    keys[0][i] = key::<T, NANS_ABOVE>(pairs[i][0]);
                    keys[1][i] = key::<T, NANS_ABOVE>(pairs[i][1]);
                }
                even.add(at).cast::<[T::Key; N]>().write_unaligned(keys[0]);
                odd.add(at).cast::<[T::Key; N]>().write_unaligned(keys[1]);
            });
            if n % 2 == 1 {
                even.add(n / 2).write(key::<T, NANS_ABOVE>(from.add(n - 1).read()));
            }
        }
    }
}

/// # Safety
/// `n` keys are readable from every tap on, and as many winners writable, apart from them; and so
/// in every repetition.
#[vectorized]
unsafe fn choose<T: Real>(winners: *mut T::Key, keys: *const T::Key, taps: &[Tap], n: usize, repeat: Repeat) {
    // SAFETY: every repetition has `n` keys from each tap on, and as many winners.
    unsafe {
        for row in 0..repeat.count {
            let (winners, keys) = (winners.add(row * repeat.to), keys.add(row * repeat.from));
            in_groups!(n, 32 16 8 1, |at, N| {
                let winner = first_largest::<T, N>(keys.add(at), taps);
                winners.add(at).cast::<[T::Key; N]>().write_unaligned(winner);
            });
        }
    }
}

/// `sums[i] =` the sum of the numbers of those outputs that chose this cell, in their order.
///
/// # Safety
/// `n` numbers and winners are readable from every tap on, and as many sums writable, apart from
/// them; and so in every repetition.
#[vectorized]
unsafe fn give<T: Real>(
    sums: *mut T, winners: *const T::Key, numbers: *const T, taps: &[Tap], n: usize, repeat: Repeat,
) {
    // SAFETY: every repetition has `n` numbers and winners from each tap on, and as many sums.
    unsafe {
        for row in 0..repeat.count {
            let from = row * repeat.from;
            let (sums, winners, numbers) = (sums.add(row * repeat.to), winners.add(from), numbers.add(from));
            in_groups!(n, 32 16 8 1, |at, N| {
                let mut total = [T::ZERO; N];
                for &Tap { offset, number } in taps {
                    let numbers = numbers.add(offset + at).cast::<[T; N]>().read_unaligned();
                    let winners = winners.add(offset + at).cast::<[T::Key; N]>().read_unaligned();
                    let number = T::Key::from(number);
                    for i in 0..N {
                        total[i] = total[i] + if winners[i] == number { numbers[i] } else { T::ZERO };
                    }
                }
                total.iter_mut().for_each(|sum| *sum = sum.canonical());
                sums.add(at).cast::<[T; N]>().write_unaligned(total);
            });
        }
    }
}

/// `sums[i] =` the sum of the sums of columns of `per_column` taps, each of which starts at 0.
///
/// # Safety
/// As for [`give`], without winners; columns have a tap.
#[vectorized]
unsafe fn total<T: Real>(
    sums: *mut T, numbers: *const T, taps: &[Tap], per_column: usize, n: usize, repeat: Repeat,
) {
    // SAFETY: every repetition has `n` numbers from each tap on, and as many sums.
    unsafe {
        for row in 0..repeat.count {
            let (sums, numbers) = (sums.add(row * repeat.to), numbers.add(row * repeat.from));
            in_groups!(n, 32 16 8 1, |at, N| {
                let mut total = [T::ZERO; N];
                for column in taps.chunks(per_column) {
                    let mut sum = [T::ZERO; N];
                    for tap in column {
                        let numbers = numbers.add(tap.offset + at).cast::<[T; N]>().read_unaligned();
                        for i in 0..N {
                            sum[i] = sum[i] + numbers[i];
                        }
                    }
                    for i in 0..N {
                        total[i] = total[i] + sum[i];
                    }
                }
                total.iter_mut().for_each(|sum| *sum = sum.canonical());
                sums.add(at).cast::<[T; N]>().write_unaligned(total);
            });
        }
    }
}

/// # Safety
/// As for [`place`], with half as many numbers at either source.
#[vectorized]
unsafe fn zip<T: Real>(to: *mut T, even: *const T, odd: *const T, n: usize, repeat: Repeat) {
    // SAFETY: every repetition has `n` numbers in both sources together, and room for them.
    unsafe {
        for row in 0..repeat.count {
            let (to, from) = (to.add(row * repeat.to), row * repeat.from);
            let (even, odd) = (even.add(from), odd.add(from));
            in_groups!(n / 2, 16 8 1, |at, N| {
                let even = even.add(at).cast::<[T; N]>().read_unaligned();
                let odd = odd.add(at).cast::<[T; N]>().read_unaligned();
                let mut pairs = [[T::ZERO; 2]; N];
                for i in 0..N {
                    pairs[i] = [even[i], odd[i]];
                }
                to.add(2 * at).cast::<[[T; 2]; N]>().write_unaligned(pairs);
            });
            if n % 2 == 1 {
                to.add(n - 1).write(even.add(n / 2).read());
            }
        }
    }
}

/// The number of the tap with the largest cell, by lane, the first of equal ones; -1 if all keys
/// are the least.
///
/// # Safety
/// As for [`choose`], for `N` lanes.
#[inline(always)]
unsafe fn first_largest<T: Real, const N: usize>(keys: *const T::Key, taps: &[Tap]) -> [T::Key; N] {
    let (mut best, mut winner) = ([T::LEAST; N], [T::Key::from(-1); N]);
    for &Tap { offset, number } in taps {
        // Whole groups are read at once, so that the compiler keeps them in registers.
        // SAFETY: `N` keys are readable from the tap on.
        let keys = unsafe { keys.add(offset).cast::<[T::Key; N]>().read_unaligned() };
        let (number, before) = (T::Key::from(number), (best, winner));
        for i in 0..N {
            best[i] = before.0[i].max(keys[i]);
            // Asked for what is kept, the compiler does not make a store of it that happens or not.
            winner[i] = if best[i] == before.0[i] { before.1[i] } else { number };
        }
    }
    winner
}
