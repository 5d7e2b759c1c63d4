//! Tiles by the instructions of AMX. No other code of a thread uses them, so that registers need not be named to the compiler.

use std::arch::asm;

use super::call::{Call, Product, ROW, STRIP, SUMS_ROW, TILE};

/// What `LDTILECFG` reads.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    /// Bytes of the rows of every tile.
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Eight tiles of full size.
static CONFIG: Config = Config {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Configures the tiles of this thread.
///
/// # Safety
/// The processor has tiles, and this process may use them.
pub unsafe fn configure() {
    // SAFETY: the configuration is one of palette 1, which all processors with tiles have.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack, preserves_flags, readonly)) };
}

/// Gives the tiles of this thread back: none holds anything.
///
/// # Safety
/// The processor has tiles.
pub unsafe fn release() {
    // SAFETY: nothing in the tiles is wanted.
    unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
}

/// A loop over the steps: tiles 0 to 3 are the sums, 4 and 5 of `a`, 6 and 7 of `b`. Sums are loaded where there are some, else they
/// begin as 0; then come the lines of a step, and at last sums are stored.
macro_rules! steps {
    ($call:ident, [$($load:tt)*], [$($zero:tt)*], [$($step:tt)*], [$($store:tt)*]) => {
        asm!(
            "test {adds:e}, {adds:e}",
            "jz 2f",
            $($load)*
            "jmp 3f",
            "2:",
            $($zero)*
            "3:",
            $($step)*
            "add {a0}, {step}",
            "add {a1}, {step}",
            "add {b0}, {tile}",
            "add {b1}, {tile}",
            "dec {n}",
            "jnz 3b",
            $($store)*
            adds = in(reg) u32::from($call.adds),
            a0 = inout(reg) $call.a[0] => _,
            a1 = inout(reg) $call.a[1] => _,
            b0 = inout(reg) $call.b[0] => _,
            b1 = inout(reg) $call.b[1] => _,
            n = inout(reg) $call.steps => _,
            c = in(reg) $call.sums,
            sums = in(reg) SUMS_ROW,
            row = in(reg) $call.a_row,
            step = in(reg) $call.a_step,
            cells = in(reg) ROW,
            tile = const TILE,
            options(nostack),
        )
    };
}

/// The loops of one product, by strips of rows and of lanes.
macro_rules! strips {
    ($op:literal, $strips:ident, $call:ident) => {
        match $strips {
            [1, 1] => steps!(
                $call,
                ["tileloadd tmm0, [{c} + {sums}*1]",],
                ["tilezero tmm0",],
                [
                    "tileloadd tmm4, [{a0} + {row}*1]",
                    "tileloadd tmm6, [{b0} + {cells}*1]",
                    concat!($op, " tmm0, tmm4, tmm6"),
                ],
                ["tilestored [{c} + {sums}*1], tmm0",]
            ),
            [1, _] => steps!(
                $call,
                ["tileloadd tmm0, [{c} + {sums}*1]", "tileloadd tmm1, [{c} + {sums}*1 + 64]",],
                ["tilezero tmm0", "tilezero tmm1",],
                [
                    "tileloadd tmm4, [{a0} + {row}*1]",
                    "tileloadd tmm6, [{b0} + {cells}*1]",
                    "tileloadd tmm7, [{b1} + {cells}*1]",
                    concat!($op, " tmm0, tmm4, tmm6"),
                    concat!($op, " tmm1, tmm4, tmm7"),
                ],
                ["tilestored [{c} + {sums}*1], tmm0", "tilestored [{c} + {sums}*1 + 64], tmm1",]
            ),
            [_, 1] => steps!(
                $call,
                ["tileloadd tmm0, [{c} + {sums}*1]", "tileloadd tmm2, [{c} + {sums}*1 + 2048]",],
                ["tilezero tmm0", "tilezero tmm2",],
                [
                    "tileloadd tmm6, [{b0} + {cells}*1]",
                    "tileloadd tmm4, [{a0} + {row}*1]",
                    "tileloadd tmm5, [{a1} + {row}*1]",
                    concat!($op, " tmm0, tmm4, tmm6"),
                    concat!($op, " tmm2, tmm5, tmm6"),
                ],
                ["tilestored [{c} + {sums}*1], tmm0", "tilestored [{c} + {sums}*1 + 2048], tmm2",]
            ),
            _ => steps!(
                $call,
                [
                    "tileloadd tmm0, [{c} + {sums}*1]",
                    "tileloadd tmm1, [{c} + {sums}*1 + 64]",
                    "tileloadd tmm2, [{c} + {sums}*1 + 2048]",
                    "tileloadd tmm3, [{c} + {sums}*1 + 2112]",
                ],
                ["tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",],
                [
                    "tileloadd tmm6, [{b0} + {cells}*1]",
                    "tileloadd tmm4, [{a0} + {row}*1]",
                    "tileloadd tmm7, [{b1} + {cells}*1]",
                    concat!($op, " tmm0, tmm4, tmm6"),
                    "tileloadd tmm5, [{a1} + {row}*1]",
                    concat!($op, " tmm1, tmm4, tmm7"),
                    concat!($op, " tmm2, tmm5, tmm6"),
                    concat!($op, " tmm3, tmm5, tmm7"),
                ],
                [
                    "tilestored [{c} + {sums}*1], tmm0",
                    "tilestored [{c} + {sums}*1 + 64], tmm1",
                    "tilestored [{c} + {sums}*1 + 2048], tmm2",
                    "tilestored [{c} + {sums}*1 + 2112], tmm3",
                ]
            ),
        }
    };
}

// The distances of the sums of a call, as the loops have them.
const _: () = assert!(SUMS_ROW * STRIP == 2048 && ROW == 64);

/// Multiplies tiles.
///
/// # Safety
/// As for [`Multiply`](super::call::Multiply).
pub unsafe fn multiply(product: Product, strips: [usize; 2], call: &Call) {
    // SAFETY: the tiles of all strips and steps are readable, and so are the sums, which are writable; tiles are configured.
    unsafe {
        match product {
            Product::Bf16 => strips!("tdpbf16ps", strips, call),
            Product::Bytes([true, true]) => strips!("tdpbssd", strips, call),
            Product::Bytes([true, false]) => strips!("tdpbsud", strips, call),
            Product::Bytes([false, true]) => strips!("tdpbusd", strips, call),
            Product::Bytes([false, false]) => strips!("tdpbuud", strips, call),
        }
    }
}
