//! Tiles by the instructions of AMX. No other code of a thread uses them, so that registers need
//! not be named to the compiler.

use std::arch::asm;

use super::call::{ACC_ROW, Call, Product, ROW, TILE, TILE_ROWS};

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

/// What is done to every sum: tiles 0 to 3 are the sums of two strips of rows by two of lanes.
macro_rules! acc_tiles {
    ($of:ident, 1, 1) => {
        $of!("0", "0")
    };
    ($of:ident, 1, 2) => {
        concat!($of!("0", "0"), "\n", $of!("1", "64"))
    };
    ($of:ident, 2, 1) => {
        concat!($of!("0", "0"), "\n", $of!("2", "2048"))
    };
    ($of:ident, 2, 2) => {
        concat!(acc_tiles!($of, 1, 2), "\n", $of!("2", "2048"), "\n", $of!("3", "2112"))
    };
}

macro_rules! load {
    ($tile:literal, $at:literal) => {
        concat!("tileloadd tmm", $tile, ", [{c} + {acc}*1 + ", $at, "]")
    };
}

macro_rules! zero {
    ($tile:literal, $at:literal) => {
        concat!("tilezero tmm", $tile)
    };
}

macro_rules! store {
    ($tile:literal, $at:literal) => {
        concat!("tilestored [{c} + {acc}*1 + ", $at, "], tmm", $tile)
    };
}

/// Loads a part of one or two strips of rows into tiles 4 and 5.
macro_rules! rows {
    (1, $at:literal) => {
        concat!("tileloadd tmm4, [{a0} + {row}*1 + ", $at, "]")
    };
    (2, $at:literal) => {
        concat!(rows!(1, $at), "\n", "tileloadd tmm5, [{a1} + {row}*1 + ", $at, "]")
    };
}

/// Loads a part of one or two strips of lanes into tiles 6 and 7.
macro_rules! lanes {
    (1, $at:literal) => {
        concat!("tileloadd tmm6, [{b0} + {cells}*1 + ", $at, "]")
    };
    (2, $at:literal) => {
        concat!(lanes!(1, $at), "\n", "tileloadd tmm7, [{b1} + {cells}*1 + ", $at, "]")
    };
}

/// Adds the products of what is loaded to all sums.
macro_rules! products {
    ($op:literal, 1, 1) => {
        concat!($op, " tmm0, tmm4, tmm6")
    };
    ($op:literal, 1, 2) => {
        concat!(products!($op, 1, 1), "\n", $op, " tmm1, tmm4, tmm7")
    };
    ($op:literal, 2, 1) => {
        concat!(products!($op, 1, 1), "\n", $op, " tmm2, tmm5, tmm6")
    };
    ($op:literal, 2, 2) => {
        concat!(products!($op, 1, 2), "\n", $op, " tmm2, tmm5, tmm6\n", $op, " tmm3, tmm5, tmm7")
    };
}

/// One step of numbers that are one part, and of the products of [`SIX`](super::call::SIX) and
/// [`THREE`](super::call::THREE).
macro_rules! one {
    ($op:literal, $rows:tt, $lanes:tt) => {
        concat!(lanes!($lanes, "0"), "\n", rows!($rows, "0"), "\n", products!($op, $rows, $lanes))
    };
}

macro_rules! six {
    ($op:literal, $rows:tt, $lanes:tt) => {
        concat!(
            concat!(
                lanes!($lanes, "0"),
                "\n",
                rows!($rows, "2048"),
                "\n",
                products!($op, $rows, $lanes),
                "\n"
            ),
            concat!(rows!($rows, "1024"), "\n", products!($op, $rows, $lanes), "\n"),
            concat!(lanes!($lanes, "1024"), "\n", products!($op, $rows, $lanes), "\n"),
            concat!(rows!($rows, "0"), "\n", products!($op, $rows, $lanes), "\n"),
            concat!(lanes!($lanes, "2048"), "\n", products!($op, $rows, $lanes), "\n"),
            concat!(lanes!($lanes, "0"), "\n", products!($op, $rows, $lanes)),
        )
    };
}

macro_rules! three {
    ($op:literal, $rows:tt, $lanes:tt) => {
        concat!(
            concat!(
                lanes!($lanes, "0"),
                "\n",
                rows!($rows, "1024"),
                "\n",
                products!($op, $rows, $lanes),
                "\n"
            ),
            concat!(rows!($rows, "0"), "\n", products!($op, $rows, $lanes), "\n"),
            concat!(lanes!($lanes, "1024"), "\n", products!($op, $rows, $lanes)),
        )
    };
}

/// A loop over the steps. Sums are loaded where there are some, else they begin as 0; in the end
/// they are stored.
macro_rules! steps {
    ($step:ident, $tiles:literal, $op:literal, $call:ident, $rows:tt, $lanes:tt) => {
        asm!(
            "test {adds:e}, {adds:e}",
            "jz 2f",
            acc_tiles!(load, $rows, $lanes),
            "jmp 3f",
            "2:",
            acc_tiles!(zero, $rows, $lanes),
            "3:",
            $step!($op, $rows, $lanes),
            "add {a0}, {step}",
            "add {a1}, {step}",
            "add {b0}, {tiles}",
            "add {b1}, {tiles}",
            "dec {n}",
            "jnz 3b",
            acc_tiles!(store, $rows, $lanes),
            adds = in(reg) u32::from($call.adds),
            a0 = inout(reg) $call.a[0] => _,
            a1 = inout(reg) $call.a[1] => _,
            b0 = inout(reg) $call.b[0] => _,
            b1 = inout(reg) $call.b[1] => _,
            n = inout(reg) $call.steps => _,
            c = in(reg) $call.acc,
            acc = in(reg) ACC_ROW,
            row = in(reg) $call.a_row,
            step = in(reg) $call.a_step,
            cells = in(reg) ROW,
            tiles = const $tiles * TILE,
            options(nostack),
        )
    };
}

/// The loops of one product, by strips of rows and of lanes, with as many tiles a step.
macro_rules! strips {
    ($step:ident, $tiles:literal, $op:literal, $strips:ident, $call:ident) => {
        match $strips {
            [1, 1] => steps!($step, $tiles, $op, $call, 1, 1),
            [1, _] => steps!($step, $tiles, $op, $call, 1, 2),
            [_, 1] => steps!($step, $tiles, $op, $call, 2, 1),
            _ => steps!($step, $tiles, $op, $call, 2, 2),
        }
    };
}

// The distances of the sums of a call and of parts, as the loops have them.
const _: () = assert!(ACC_ROW * TILE_ROWS == 2048 && ROW == 64 && TILE == 1024);

/// Multiplies tiles.
///
/// # Safety
/// As for [`Multiply`](super::call::Multiply).
pub unsafe fn multiply(product: Product, strips: [usize; 2], call: &Call) {
    // SAFETY: the tiles of all strips and steps are readable, and so are the sums, which are
    // writable; tiles are configured.
    unsafe {
        match product {
            Product::Bf16 => strips!(one, 1, "tdpbf16ps", strips, call),
            Product::Bytes([true, true]) => strips!(one, 1, "tdpbssd", strips, call),
            Product::Bytes([true, false]) => strips!(one, 1, "tdpbsud", strips, call),
            Product::Bytes([false, true]) => strips!(one, 1, "tdpbusd", strips, call),
            Product::Bytes([false, false]) => strips!(one, 1, "tdpbuud", strips, call),
            Product::Six => strips!(six, 3, "tdpbf16ps", strips, call),
            Product::Three => strips!(three, 2, "tdpbf16ps", strips, call),
        }
    }
}
