//! The floating-point mode: every call computes in the default one, and its caller finds its own
//! again.
//!
//! Rounding to nearest, all exceptions masked, subnormal numbers kept: what the formulas of this
//! library are defined in. A caller may have set another one (`fesetround`, flush-to-zero,
//! `feenableexcept`). The x87 unit has a mode of its own, which nothing here uses. Other processors
//! than x86-64 and aarch64 compute in the caller's mode.

use self::register::{DEFAULT, Mode, RAISED, read, write};

/// The default mode in this thread while this lives; then what was before, with the exceptions
/// raised then and no other.
pub struct DefaultMode {
    before: Mode,
}

impl DefaultMode {
    /// Sets it.
    #[inline]
    #[allow(clippy::new_without_default, reason = "it changes the thread")]
    pub fn new() -> Self {
        let before = read();
        if before & !RAISED != DEFAULT {
            write(DEFAULT);
        }
        DefaultMode { before }
    }
}

impl Drop for DefaultMode {
    #[inline]
    fn drop(&mut self) {
        if read() != self.before {
            write(self.before);
        }
    }
}

/// Sets it in this thread for good.
pub(super) fn set_default() {
    write(DEFAULT);
}

#[cfg(target_arch = "x86_64")]
mod register {
    pub type Mode = u32;

    /// All six exceptions masked, none raised, nearest even, subnormal numbers kept.
    pub const DEFAULT: Mode = 0x1f80;

    /// What exceptions were raised, not a part of the mode.
    pub const RAISED: Mode = 0x3f;

    #[inline]
    pub fn read() -> Mode {
        let mut mode = 0_u32;
        // SAFETY: SSE belongs to the architecture; four bytes of a local variable.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut mode, options(nostack, preserves_flags)) };
        mode
    }

    /// `mode` is one that was read, or the default: nothing but known bits.
    #[inline]
    pub fn write(mode: Mode) {
        // SAFETY: writes a register; this module gives back what it read before anything that was
        // compiled for it computes.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const mode, options(nostack, preserves_flags))
        };
    }
}

/// Two registers: the mode, in the lower half, and what was raised. An interpreter has none.
#[cfg(all(target_arch = "aarch64", not(miri)))]
mod register {
    pub type Mode = u64;

    /// No exception traps, none raised, nearest even, subnormal numbers kept, binary16 as IEEE 754
    /// has it.
    pub const DEFAULT: Mode = 0;

    /// What exceptions were raised, not a part of the mode.
    pub const RAISED: Mode = 0xffff_ffff << 32;

    #[inline]
    pub fn read() -> Mode {
        let (mode, raised): (u64, u64);
        // SAFETY: reads two registers that every process may read.
        unsafe {
            std::arch::asm!("mrs {mode}, fpcr", "mrs {raised}, fpsr", mode = out(reg) mode, raised = out(reg) raised,
                            options(nomem, nostack, preserves_flags))
        };
        mode & !RAISED | raised << 32
    }

    /// `mode` is one that was read, or the default: nothing but known bits.
    #[inline]
    pub fn write(mode: Mode) {
        // SAFETY: writes registers; this module gives back what it read before anything that was
        // compiled for it computes.
        unsafe {
            std::arch::asm!("msr fpcr, {mode}", "msr fpsr, {raised}", mode = in(reg) mode & !RAISED, raised = in(reg) mode >> 32,
                            options(nostack, preserves_flags))
        };
    }
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
mod register {
    pub type Mode = u32;
    pub const DEFAULT: Mode = 0;
    pub const RAISED: Mode = 0;

    pub fn read() -> Mode {
        DEFAULT
    }

    pub fn write(_: Mode) {}
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Flush to zero, one more bit that makes numbers others (subnormal operands are zero; there is
    /// one NaN), and rounding up; and the flag of a division by zero.
    #[cfg(target_arch = "x86_64")]
    const OTHERS: ([Mode; 3], Mode) = ([0x8000, 0x40, 0x4000], 4);
    #[cfg(target_arch = "aarch64")]
    const OTHERS: ([Mode; 3], Mode) = ([1 << 24, 1 << 25, 1 << 22], 2 << 32);

    #[test]
    fn a_caller_finds_its_mode_and_its_flags_again() {
        let (others, raised) = OTHERS;
        for mode in std::iter::once(DEFAULT).chain(others.map(|other| DEFAULT | other)) {
            write(mode | raised);
            let tiny = {
                let _mode = DefaultMode::new();
                assert_eq!(read() & !RAISED, DEFAULT);
                // Raises the flags of an inexact, subnormal result.
                black_box(black_box(f32::MIN_POSITIVE) * black_box(0.3_f32))
            };
            let (after, is_kept) = (read(), tiny.to_bits() != 0);
            write(DEFAULT);
            assert_eq!((after, is_kept), (mode | raised, true), "{mode:#x}");
        }
    }
}
