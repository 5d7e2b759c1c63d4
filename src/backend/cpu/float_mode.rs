//! The floating-point mode: every call computes in the default one, and its caller finds its own
//! again.
//!
//! Rounding to nearest, all exceptions masked, subnormal numbers kept: what the formulas of this
//! library are defined in. A caller may have set another one (`fesetround`, flush-to-zero,
//! `feenableexcept`). The x87 unit has a mode of its own, which nothing here uses. Other processors
//! than x86-64 compute in the caller's mode.

/// All six exceptions masked, none raised, nearest even, subnormal numbers kept.
#[cfg(target_arch = "x86_64")]
const DEFAULT: u32 = 0x1f80;

/// What exceptions were raised, not a part of the mode.
#[cfg(target_arch = "x86_64")]
const RAISED: u32 = 0x3f;

/// The default mode in this thread while this lives; then what was before, with the exceptions
/// raised then and no other.
pub struct DefaultMode {
    #[cfg(target_arch = "x86_64")]
    before: u32,
}

impl DefaultMode {
    /// Sets it.
    #[inline]
    #[allow(clippy::new_without_default, reason = "it changes the thread")]
    pub fn new() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let before = read();
            if before & !RAISED != DEFAULT {
                write(DEFAULT);
            }
            DefaultMode { before }
        }
        #[cfg(not(target_arch = "x86_64"))]
        DefaultMode {}
    }
}

impl Drop for DefaultMode {
    #[inline]
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if read() != self.before {
            write(self.before);
        }
    }
}

/// Sets it in this thread for good.
pub(super) fn set_default() {
    #[cfg(target_arch = "x86_64")]
    write(DEFAULT);
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read() -> u32 {
    let mut mode = 0_u32;
    // SAFETY: SSE belongs to the architecture; four bytes of a local variable.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut mode, options(nostack, preserves_flags)) };
    mode
}

/// `mode` is one that was read, or the default: nothing but known bits.
#[cfg(target_arch = "x86_64")]
#[inline]
fn write(mode: u32) {
    // SAFETY: writes a register; this module gives back what it read before anything that was
    // compiled for it computes.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const mode, options(nostack, preserves_flags)) };
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn a_caller_finds_its_mode_and_its_flags_again() {
        // Flush-to-zero, denormals-are-zero, and rounding up; each with the flag of a division by
        // zero.
        for mode in [DEFAULT, DEFAULT | 0x8000, DEFAULT | 0x40, DEFAULT | 0x4000] {
            write(mode | 4);
            let tiny = {
                let _mode = DefaultMode::new();
                assert_eq!(read() & !RAISED, DEFAULT);
                // Raises the flags of an inexact, subnormal result.
                black_box(black_box(f32::MIN_POSITIVE) * black_box(0.3_f32))
            };
            let (after, is_kept) = (read(), tiny.to_bits() != 0);
            write(DEFAULT);
            assert_eq!((after, is_kept), (mode | 4, true), "{mode:#x}");
        }
    }
}
