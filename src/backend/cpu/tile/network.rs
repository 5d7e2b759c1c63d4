//! The transposes of any register size: macros, for what they call is compiled for the instructions
//! of each. Who uses them has `Ahead`, `Matrix` and `RowStarts` in scope.

/// One pass over the registers, written out: a loop would keep them in memory.
macro_rules! pass {
    (u8 $($rest:ident)*) => { pass!(@ $($rest)* 0 8, 1 9, 2 10, 3 11, 4 12, 5 13, 6 14, 7 15) };
    (u16 $($rest:ident)*) => { pass!(@ $($rest)* 0 4, 1 5, 2 6, 3 7) };
    (u32 $($rest:ident)*) => { pass!(@ $($rest)* 0 2, 1 3) };
    (u64 $($rest:ident)*) => { pass!(@ $($rest)* 0 1) };
    (@ $r:ident $lo:ident $hi:ident $($i:literal $j:literal),*) => {
        $r = [$($lo($r[$i], $r[$j]), $hi($r[$i], $r[$j])),*]
    };
}

/// As many passes as it takes to transpose K x K cells in each lane.
macro_rules! passes {
    ($W:ident $r:ident $lo:ident $hi:ident) => {
        pass!($W $r $lo $hi);
        if K > 2 {
            pass!($W $r $lo $hi);
        }
        if K > 4 {
            pass!($W $r $lo $hi);
        }
        if K > 8 {
            pass!($W $r $lo $hi);
        }
    };
}

/// Runs `$body` for every block of `LINE` rows and columns, the last ones cut. `$ahead` is what is
/// to be fetched: the body asks for as many lines as a block has rows. A macro, for a closure would
/// not be inlined into code for these instructions.
macro_rules! for_each_block {
    ($m:ident, |$top:ident, $bottom:ident, $left:ident, $right:ident, $ahead:ident| $body:block) => {
        let (mut $top, mut $left) = (0, 0);
        let mut $ahead = Ahead::of($m.next);
        loop {
            let ($bottom, $right) = (($top + LINE).min($m.rows), ($left + LINE).min($m.columns));
            $body
            if $m.order.is_along_dst() {
                $top = $bottom;
                if $top == $m.rows {
                    ($top, $left) = (0, $right);
                }
            } else {
                $left = $right;
                if $left == $m.columns {
                    ($top, $left) = ($bottom, 0);
                }
            }
            if $top == $m.rows || $left == $m.columns {
                break;
            }
        }
        $ahead.fetch(usize::MAX);
    };
}

/// Defines the transposes of one width: registers of `$lanes` lanes, filled by `$load` from rows
/// `K` apart; fewer rows than a register takes go to `$narrower`.
macro_rules! network {
    ($W:ident, $feature:literal, $V:ty, $lanes:literal, $zero:ident, $load:ident, $store:ident, $stream:ident,
     $lo:ident, $hi:ident, $narrower:expr) => {
        pub(super) mod $W {
            use super::*;

            const CELL: usize = size_of::<$W>();
            const K: usize = 16 / CELL;
            /// Rows of a register.
            const ROWS: usize = K * $lanes;
            /// Cells in a cache line.
            const LINE: usize = 64 / CELL;
            /// Registers whose rows are written one after the other, up to a whole line, if no more
            /// than eight hold their columns.
            const TOGETHER: usize = if LINE / ROWS * K <= 8 { LINE / ROWS } else if K <= 4 { 2 } else { 1 };

            /// K columns, the first of which is `column`, of the rows from `i` on: as many rows of
            /// each as a register takes.
            ///
            /// # Safety
            /// The matrix has these cells.
            #[target_feature(enable = $feature)]
            #[inline]
            pub unsafe fn columns<S: RowStarts>(column: *const u8, rows: S, i: usize) -> [$V; K] {
                // SAFETY: the matrix has these rows, and in each a register of columns.
                let from: [_; ROWS] = unsafe { rows.cells(column, i, 1) };
                let mut r = [$zero(); K];
                for k in 0..K {
                    let mut lanes = [column; $lanes];
                    for l in 0..$lanes {
                        lanes[l] = from[k + l * K];
                    }
                    // SAFETY: the column has these rows.
                    r[k] = unsafe { $load(lanes) };
                }
                passes!($W r $lo $hi);
                r
            }

            /// Transposes the rows of `N` registers from `i` on, and K columns from `j` on.
            ///
            /// # Safety
            /// As for [`Transpose`], for these cells.
            #[target_feature(enable = $feature)]
            #[inline]
            unsafe fn block<const N: usize, D: RowStarts, S: RowStarts, const STREAM: bool>(
                m: &Matrix<D, S>,
                i: usize,
                j: usize,
            ) {
                // SAFETY: the matrix has these cells. Rows start on a line, and all but the last
                // registers at a multiple of their size.
                unsafe {
                    let mut r = [[$zero(); K]; N];
                    for n in 0..N {
                        r[n] = columns(m.src.add(j * CELL), m.src_rows, i + n * ROWS);
                    }
                    for k in 0..K {
                        let to = m.dst.add(i * CELL).offset(m.dst_rows.at(j + k));
                        for n in 0..N {
                            let to = to.add(n * ROWS * CELL);
                            if STREAM && i % ROWS == 0 {
                                $stream(to.cast(), r[n][k]);
                            } else {
                                $store(to.cast(), r[n][k]);
                            }
                        }
                    }
                }
            }

            /// # Safety
            /// As for [`Transpose`].
            #[target_feature(enable = $feature)]
            #[inline]
            pub unsafe fn transpose<D: RowStarts, S: RowStarts, const STREAM: bool>(m: Matrix<D, S>) {
                if m.rows < ROWS || m.columns < K {
                    // SAFETY: the matrix has its cells on either side; the narrower function needs
                    // fewer instructions.
                    return unsafe { $narrower(m) };
                }
                for_each_block!(m, |top, bottom, left, right, ahead| {
                    ahead.fetch(bottom - top);
                    // The last registers overlap the ones before them where the sides do not
                    // divide: writing the same cells twice beats finishing one by one.
                    let mut j = left.min(m.columns - K);
                    loop {
                        let mut i = top.min(m.rows - ROWS);
                        loop {
                            // SAFETY: rows below `bottom` and columns j..j + K lie inside the
                            // matrix.
                            unsafe {
                                if TOGETHER > 1 && i + TOGETHER * ROWS <= bottom {
                                    block::<TOGETHER, D, S, STREAM>(&m, i, j);
                                    i += TOGETHER * ROWS;
                                } else {
                                    block::<1, D, S, STREAM>(&m, i, j);
                                    i += ROWS;
                                }
                            }
                            if ROWS == LINE || i >= bottom {
                                break;
                            }
                            i = i.min(bottom - ROWS);
                        }
                        if j + K >= right {
                            break;
                        }
                        j = (j + K).min(right - K);
                    }
                });
            }
        }
    };
}
