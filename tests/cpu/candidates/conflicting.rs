//! Operands inside the caches whose rows start in few cache sets: a few rows are written to their
//! end before others, or read for some lines.

use std::collections::BTreeMap;

use cudnn::dtype::Scalar;
use cudnn::ops::{Scaling, Transform};

use super::chosen::picked;
use testkit::random::Rng;

use super::{check, nest};

/// Bytes between rows: they start in one set of the first-level cache, or drift by a little.
const PITCHES: [i64; 3] = [4096, 4096 - 8, 2048];

#[test]
fn conflicting_rows_equal_the_reference() {
    let (mut rng, mut counts) = (Rng(8), BTreeMap::new());
    let mut conflicting = |axes: &[(i64, i64, i64)], dst, src, alpha| {
        let (nest, sizes) = nest(axes);
        let transform = Transform { nest, dst, src, scaling: Scaling { alpha, beta: 0.0 } };
        assert_eq!(picked(&transform), "transpose");
        check(&transform, sizes, &[1, 2], &mut rng, &mut counts);
    };
    // Moved cells of each width: columns that follow one another and others; tiles with all lines
    // and columns, with some left over, with less than a line of columns, and with too few for a
    // register.
    for cell in [Scalar::U8, Scalar::F16, Scalar::F32, Scalar::F64] {
        let size = cell.size() as i64;
        for pitch in PITCHES.map(|bytes| bytes / size) {
            for (rows, columns) in [
                (pitch, 64),
                (pitch - 3, 70),
                (pitch / 2 + 5, 129),
                (pitch, 48),
                (pitch - 3, 31),
                (pitch / 2 + 5, 17),
                (pitch - 64 / size + 1, 9),
            ] {
                for gap in [0, 300] {
                    conflicting(&[(columns, pitch, 1), (rows, 1, columns + gap)], cell, cell, 1.0);
                }
            }
        }
    }
    // Sources that conflict: cells of one and two bytes, and those that become so narrow; several
    // lines of each row, with single ones and parts left over, in one block of rows and in two.
    for (dst, src) in [
        (Scalar::U8, Scalar::U8),
        (Scalar::F16, Scalar::F16),
        (Scalar::I8, Scalar::F32),
        (Scalar::Bf16, Scalar::F32),
        (Scalar::F32, Scalar::I8),
    ] {
        let pitch = 4096 / src.size() as i64;
        for (columns, rows) in
            [(pitch, 64), (pitch - 64, 128), (pitch - 3, 71), (pitch / 2 + 70, 33), (pitch - 5, 32)]
        {
            conflicting(&[(columns, rows, 1), (rows, 1, pitch)], dst, src, 1.0);
        }
    }
    // Converted on the way.
    for (dst, src) in [
        (Scalar::F16, Scalar::F32),
        (Scalar::I8, Scalar::F32),
        (Scalar::F32, Scalar::F32),
        (Scalar::F32, Scalar::Bf16),
        (Scalar::F32, Scalar::U8),
        (Scalar::F32, Scalar::F64),
        (Scalar::F16, Scalar::I64),
    ] {
        let pitch = 4096 / dst.size() as i64;
        for (rows, columns) in [(pitch, 64), (pitch - 3, 77), (pitch, 48), (pitch - 3, 24)] {
            for alpha in [1.0, 0.3] {
                conflicting(&[(columns, pitch, 1), (rows, 1, columns)], dst, src, alpha);
            }
        }
    }
    // Runs through several loops on either side: abcd -> dbca, each of few cells.
    for cell in [Scalar::U8, Scalar::F32] {
        let (a, b, c, d) = (32, 9, 8, 21);
        let plane = 4096 / cell.size() as i64;
        let permuted = [(d, b * plane, 1), (b, plane, c * d), (c, a, d), (a, 1, b * c * d)];
        conflicting(&permuted, cell, cell, 1.0);
    }
}
