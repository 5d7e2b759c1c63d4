//! The loops over lanes that gradients are made of, compiled for an instruction set level.

use crate::backend::cpu::Isa;
use crate::backend::real::Real;

/// Sums, numbers, winners, the number of the last tap and the step to the one before it, taps of a phase, places.
type Give<T> = unsafe fn(*mut T, *const T, *const <T as Real>::Key, (i32, i32), usize, usize);

/// The loops of a type at some level.
pub(super) struct Kernels<T: Real> {
    /// Divides `n` numbers in place.
    pub divide: unsafe fn(*mut T, T, usize),
    /// Divides `n` numbers in place, each by its own.
    pub divide_each: unsafe fn(*mut T, *const T, usize),
    /// NaNs become the one of the type.
    pub canonical: unsafe fn(*mut T, usize),
    /// `n` numbers become [keys](key) in place.
    pub keys: unsafe fn(*mut T, usize),
    /// Gives numbers to the first largest of their cells.
    pub select: unsafe fn(*const T::Key, *mut T, *const T, &[usize], usize),
    /// The [first largest](first_largest) tap of every lane.
    pub choose: unsafe fn(*mut T::Key, *const T::Key, &[usize], usize),
    /// Gives numbers to the cells of a phase.
    pub give: Give<T>,
    /// Even and odd ones of `n` numbers apart.
    pub unzip: unsafe fn(*mut T, *mut T, *const T, usize),
    /// By turns from two, `n` in all.
    pub zip: unsafe fn(*mut T, *const T, *const T, usize),
}

/// An integer in the order of a window's maximum: zeros are equal, as are NaNs, which lie where the rule wants them, and
/// all lie above [`Real::LEAST`].
#[inline(always)]
fn key<T: Real, const NANS_ABOVE: bool>(number: T) -> T::Key {
    // -0 + 0 is 0.
    let key = (number + T::ZERO).canonical().key::<NANS_ABOVE>();
    // Of NaNs above, there is one; and the least key is that of minus infinity.
    if NANS_ABOVE { key + T::Key::from(1) } else { key }
}

pub(super) fn kernels<T: Real>(nans_above: bool, isa: Isa) -> Kernels<T> {
    macro_rules! of {
        ($($level:ident)?) => {
            Kernels {
                divide: $($level::)? divide::<T>,
                divide_each: $($level::)? divide_each::<T>,
                canonical: $($level::)? canonical::<T>,
                keys: if nans_above { $($level::)? keys::<T, true> } else { $($level::)? keys::<T, false> },
                select: $($level::)? select::<T>,
                choose: $($level::)? choose::<T>,
                give: $($level::)? give::<T>,
                unzip: $($level::)? unzip::<T>,
                zip: $($level::)? zip::<T>,
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx512() {
        return of!(avx512);
    } else if isa.has_avx2() {
        return of!(avx2);
    }
    let _ = isa;
    of!()
}

macro_rules! lane_loops {
    ($($(#[$doc:meta])* fn $name:ident<T $(, const $flag:ident)?>($($argument:ident: $type:ty),*) $body:block)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            unsafe fn $name<T: Real $(, const $flag: bool)?>($($argument: $type),*) {
                // SAFETY: the caller's promise.
                unsafe { $body }
            }
        )*
        #[cfg(target_arch = "x86_64")]
        lane_loops!(@level avx2 "avx2" $($name<$($flag)?>($($argument: $type),*))*);
        #[cfg(target_arch = "x86_64")]
        lane_loops!(@level avx512 "avx512f,avx512bw,avx512dq,avx512vl" $($name<$($flag)?>($($argument: $type),*))*);
    };
    (@level $level:ident $features:literal $($name:ident<$($flag:ident)?>($($argument:ident: $type:ty),*))*) => {
        mod $level {
            use super::Real;
            $(
                /// # Safety
                /// As for the portable one; the processor has the instructions.
                #[target_feature(enable = $features)]
                pub unsafe fn $name<T: Real $(, const $flag: bool)?>($($argument: $type),*) {
                    // SAFETY: handed on.
                    unsafe { super::$name::<T $(, $flag)?>($($argument),*) }
                }
            )*
        }
    };
}

lane_loops! {
    /// # Safety
    /// `n` numbers are there.
    fn divide<T>(numbers: *mut T, by: T, n: usize) {
        for i in 0..n {
            let number = numbers.add(i);
            number.write(number.read() / by);
        }
    }

    /// # Safety
    /// `n` numbers and as many others are there.
    fn divide_each<T>(numbers: *mut T, by: *const T, n: usize) {
        for i in 0..n {
            let number = numbers.add(i);
            number.write(number.read() / by.add(i).read());
        }
    }

    /// # Safety
    /// `n` numbers are there.
    fn canonical<T>(numbers: *mut T, n: usize) {
        for i in 0..n {
            let number = numbers.add(i);
            number.write(number.read().canonical());
        }
    }

    /// # Safety
    /// `n` numbers are there.
    fn keys<T, const NANS_ABOVE>(numbers: *mut T, n: usize) {
        for i in 0..n {
            let number = numbers.add(i);
            number.cast::<T::Key>().write(key::<T, NANS_ABOVE>(number.read()));
        }
    }

    /// Of the cells of each lane, whose keys and sums lie at the same offsets, the first largest one gets the lane's
    /// number added; none gets it if all keys are the least. No cell has two lanes.
    ///
    /// # Safety
    /// `n` lanes of keys are readable from every offset on, and as many sums writable, and `n` numbers are there.
    fn select<T>(keys: *const T::Key, sums: *mut T, numbers: *const T, taps: &[usize], n: usize) {
        let mut done = 0;
        while n - done >= 32 {
            group::<T, 32>(keys.add(done), sums.add(done), numbers.add(done), taps);
            done += 32;
        }
        while n - done >= 8 {
            group::<T, 8>(keys.add(done), sums.add(done), numbers.add(done), taps);
            done += 8;
        }
        while done < n {
            group::<T, 1>(keys.add(done), sums.add(done), numbers.add(done), taps);
            done += 1;
        }
    }

    /// # Safety
    /// `n` lanes of keys are readable from every offset on, and as many winners writable; they are whole groups of 8.
    fn choose<T>(winners: *mut T::Key, keys: *const T::Key, taps: &[usize], n: usize) {
        let mut done = 0;
        while n - done >= 32 {
            winners.add(done).cast::<[T::Key; 32]>().write_unaligned(first_largest::<T, 32>(keys.add(done), taps));
            done += 32;
        }
        while done < n {
            winners.add(done).cast::<[T::Key; 8]>().write_unaligned(first_largest::<T, 8>(keys.add(done), taps));
            done += 8;
        }
    }

    /// Adds to each sum the numbers of the outputs that chose its cell, in their order: of the `taps` outputs from its own
    /// place on, the first one meets the cell by tap `last`, and each one after it by one that is `step` less.
    ///
    /// # Safety
    /// `n` sums are writable, and `n + taps - 1` numbers and winners readable; they are whole groups of 8.
    fn give<T>(
        sums: *mut T,
        numbers: *const T,
        winners: *const T::Key,
        last_and_step: (i32, i32),
        taps: usize,
        n: usize
    ) {
        let mut done = 0;
        while n - done >= 32 {
            given::<T, 32>(sums.add(done), numbers.add(done), winners.add(done), last_and_step, taps);
            done += 32;
        }
        while done < n {
            given::<T, 8>(sums.add(done), numbers.add(done), winners.add(done), last_and_step, taps);
            done += 8;
        }
    }

    /// # Safety
    /// `n` numbers are readable, half of them writable at either destination, apart from them.
    fn unzip<T>(even: *mut T, odd: *mut T, from: *const T, n: usize) {
        for i in 0..n / 2 {
            even.add(i).write(from.add(2 * i).read());
            odd.add(i).write(from.add(2 * i + 1).read());
        }
        if n % 2 == 1 {
            even.add(n / 2).write(from.add(n - 1).read());
        }
    }

    /// # Safety
    /// `n` numbers are writable, half of them readable at either source, apart from them.
    fn zip<T>(to: *mut T, even: *const T, odd: *const T, n: usize) {
        for i in 0..n / 2 {
            to.add(2 * i).write(even.add(i).read());
            to.add(2 * i + 1).write(odd.add(i).read());
        }
        if n % 2 == 1 {
            to.add(n - 1).write(even.add(n / 2).read());
        }
    }
}

/// The number of the tap with the largest cell, by lane, the first of equal ones; -1 if all keys are the least.
///
/// # Safety
/// `N` lanes of keys are readable from every offset on.
#[inline(always)]
unsafe fn first_largest<T: Real, const N: usize>(keys: *const T::Key, taps: &[usize]) -> [T::Key; N] {
    let (mut best, mut winner) = ([T::LEAST; N], [T::Key::from(-1); N]);
    for (tap, &offset) in (0..).zip(taps) {
        // Whole groups are read at once, so that the compiler keeps them in registers.
        // SAFETY: the caller's promise.
        let keys = unsafe { keys.add(offset).cast::<[T::Key; N]>().read_unaligned() };
        let (tap, before) = (T::Key::from(tap), (best, winner));
        for i in 0..N {
            best[i] = before.0[i].max(keys[i]);
            // Asked for what is kept, the compiler does not make a store of it that happens or not.
            winner[i] = if best[i] == before.0[i] { before.1[i] } else { tap };
        }
    }
    winner
}

/// # Safety
/// As for [`select`], for `N` lanes.
#[inline(always)]
unsafe fn group<T: Real, const N: usize>(
    keys: *const T::Key,
    sums: *mut T,
    numbers: *const T,
    taps: &[usize],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let winner = first_largest::<T, N>(keys, taps);
        let given = numbers.cast::<[T; N]>().read_unaligned();
        for (tap, &offset) in (0..).zip(taps) {
            let (tap, place) = (T::Key::from(tap), sums.add(offset).cast::<[T; N]>());
            let mut sums = place.read_unaligned();
            for i in 0..N {
                sums[i] = sums[i] + if winner[i] == tap { given[i] } else { T::ZERO };
            }
            place.write_unaligned(sums);
        }
    }
}

/// # Safety
/// As for [`give`], for `N` sums.
#[inline(always)]
unsafe fn given<T: Real, const N: usize>(
    sums: *mut T,
    numbers: *const T,
    winners: *const T::Key,
    (last, step): (i32, i32),
    taps: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut total = sums.cast::<[T; N]>().read_unaligned();
        for k in 0..taps {
            let tap = T::Key::from(last - k as i32 * step);
            let numbers = numbers.add(k).cast::<[T; N]>().read_unaligned();
            let winners = winners.add(k).cast::<[T::Key; N]>().read_unaligned();
            for i in 0..N {
                total[i] = total[i] + if winners[i] == tap { numbers[i] } else { T::ZERO };
            }
        }
        sums.cast::<[T; N]>().write_unaligned(total);
    }
}
