//! The loops over lanes that gradients are made of, compiled for an instruction set level.

use crate::backend::cpu::Isa;
use crate::backend::real::Real;

/// The loops of a type at some level.
pub(super) struct Kernels<T: Real> {
    /// Divides `n` numbers in place.
    pub divide: unsafe fn(*mut T, T, usize),
    /// NaNs become the one of the type.
    pub canonical: unsafe fn(*mut T, usize),
    /// `n` numbers become [keys](key) in place.
    pub keys: unsafe fn(*mut T, usize),
    /// Gives numbers to the first largest of their cells.
    pub select: unsafe fn(*const T::Key, *mut T, *const T, &[usize], usize),
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
                canonical: $($level::)? canonical::<T>,
                keys: if nans_above { $($level::)? keys::<T, true> } else { $($level::)? keys::<T, false> },
                select: $($level::)? select::<T>,
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
    /// number added; none gets it if all keys are the least.
    ///
    /// A cell may be the last offset of one lane and an earlier one of the next: so it gets its numbers in the order of
    /// the lanes.
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

/// # Safety
/// As for [`select`], for `N` lanes.
#[inline(always)]
unsafe fn group<T: Real, const N: usize>(
    keys: *const T::Key,
    sums: *mut T,
    numbers: *const T,
    taps: &[usize],
) {
    let (mut best, mut winner) = ([T::LEAST; N], [T::Key::from(-1); N]);
    // SAFETY: the caller's promise.
    unsafe {
        for (tap, &offset) in (0..).zip(taps) {
            let (tap, keys) = (T::Key::from(tap), keys.add(offset));
            for i in 0..N {
                let key = keys.add(i).read();
                let wins = key > best[i];
                best[i] = if wins { key } else { best[i] };
                winner[i] = if wins { tap } else { winner[i] };
            }
        }
        let mut given = [T::ZERO; N];
        (0..N).for_each(|i| given[i] = numbers.add(i).read());
        for (tap, &offset) in (0..taps.len() as i32).zip(taps).rev() {
            let (tap, sums) = (T::Key::from(tap), sums.add(offset));
            for i in 0..N {
                let sum = sums.add(i);
                sum.write(sum.read() + if winner[i] == tap { given[i] } else { T::ZERO });
            }
        }
    }
}
