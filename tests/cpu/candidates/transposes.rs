//! Transposes with sides of every kind: few rows or columns, whole lines and what is left over
//! beside them.

use std::collections::BTreeMap;

use cudnn::backend::Isa;
use cudnn::dtype::Scalar;
use cudnn::ops::{Scaling, Transform};

use super::chosen::picked;
use testkit::random::Rng;

use super::{check, nest};

#[test]
fn transposes_convert_every_pair_of_types_in_and_beside_whole_lines() {
    let mut rng = Rng(4);
    let mut counts = BTreeMap::new();
    for (rows, columns) in [(64, 64), (67, 131), (130, 200), (15, 400), (400, 15)] {
        let (nest, sizes) = nest(&[(columns, rows, 1), (rows, 1, columns)]);
        for dst in Scalar::ALL {
            for src in Scalar::ALL {
                for (alpha, beta) in [(1.0, 0.0), (0.3, 0.0), (0.3, -1.5)] {
                    let transform = Transform { nest, dst, src, scaling: Scaling { alpha, beta } };
                    check(&transform, sizes, &[1], &mut rng, &mut counts);
                }
            }
        }
    }
    let picked = |(name, _): &&(String, &str)| name == "*transpose";
    assert_eq!(counts.keys().filter(picked).count(), Isa::available().count(), "{counts:?}");
}

#[test]
fn long_runs_beside_runs_of_several_short_loops_equal_the_reference() {
    let (mut rng, mut counts) = (Rng(11), BTreeMap::new());
    for len in [255, 1020, 1025, 1040, 1100, 1280, 1281, 2220, 2400, 3480, 3584] {
        for (loops, gap) in [([2, 4], 8), ([2, 4], 1024), ([3, 5], 15), ([3, 2], 6)] {
            let [inner, outer] = loops;
            let (nest, sizes) = nest(&[(len, gap, 1), (outer, inner, len), (inner, 1, outer * len)]);
            for (dst, src) in [
                (Scalar::F32, Scalar::F64),
                (Scalar::F32, Scalar::F32),
                (Scalar::F16, Scalar::F64),
                (Scalar::I8, Scalar::I32),
                (Scalar::U8, Scalar::U8),
            ] {
                let transform = Transform { nest, dst, src, scaling: Scaling::MOVE };
                if len > 255 {
                    assert_eq!(picked(&transform), "transpose", "{nest}");
                }
                check(&transform, sizes, &[1], &mut rng, &mut counts);
            }
        }
    }
}

#[test]
fn transposes_of_few_rows_or_columns_equal_the_reference() {
    let (mut rng, mut counts) = (Rng(9), BTreeMap::new());
    for few in (1..=70).chain([80, 96, 97]) {
        // The last are too many for one step of the way.
        for (many, gap) in [(67, 0), (131, 5), (if few < 24 { 1100 } else { 200 }, 0)] {
            let joined = [(2, many * (few + gap), many * few), (many, few + gap, 1), (few, 1, many)];
            let split = joined.map(|(extent, dst, src)| (extent, src, dst));
            for axes in [joined, split] {
                let (nest, sizes) = nest(&axes);
                for cell in [Scalar::U8, Scalar::F16, Scalar::F32, Scalar::F64] {
                    let transform = Transform { nest, dst: cell, src: cell, scaling: Scaling::MOVE };
                    check(&transform, sizes, &[1], &mut rng, &mut counts);
                }
            }
        }
    }
    for isa in Isa::available() {
        for name in ["*transpose", "*interleave"] {
            let picked = counts[&(name.to_owned(), isa.name())];
            assert!(picked > 100, "{name} {picked} times at {}", isa.name());
        }
    }
}

#[test]
fn what_is_converted_beside_whole_lines_equals_the_reference() {
    let (mut rng, mut counts) = (Rng(12), BTreeMap::new());
    // One more than whole lines of either width, two, half a line, and more than that.
    for few in [1, 5, 16, 17, 33, 34, 49, 65, 66, 72, 97, 100] {
        for many in [65, 129, 200, 1100] {
            let joined = [(2, many * few, many * few), (many, few, 1), (few, 1, many)];
            let split = joined.map(|(extent, dst, src)| (extent, src, dst));
            for axes in [joined, split] {
                let (nest, sizes) = nest(&axes);
                for narrow in [Scalar::F16, Scalar::Bf16, Scalar::I8, Scalar::U8] {
                    for (dst, src) in [(narrow, Scalar::F32), (Scalar::F32, narrow)] {
                        for alpha in [1.0, 0.3] {
                            let transform =
                                Transform { nest, dst, src, scaling: Scaling { alpha, beta: 0.0 } };
                            check(&transform, sizes, &[1], &mut rng, &mut counts);
                        }
                    }
                }
            }
        }
    }
    for isa in Isa::available() {
        let picked = counts[&("*transpose".to_owned(), isa.name())];
        assert!(picked > 1000, "{picked} times at {}", isa.name());
    }
}
