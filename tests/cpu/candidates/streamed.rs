//! Results that exceed the caches, and are written past them: the ends of rows, of tiles and of
//! lines are many cases.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use cudnn::dtype::Scalar;
use cudnn::ops::{Scaling, Transform};

use super::chosen::picked;
use testkit::extent::{self, is_full};
use testkit::random::Rng;

use super::{check, nest};

#[test]
fn what_is_streamed_equals_the_reference() {
    let (mut rng, mut counts) = (Rng(6), BTreeMap::new());
    // What is chosen is looked at for all; a sample computes every twelfth, and one by each kernel.
    let (solved, all) = (Cell::new(0), Cell::new(0));
    let mut kernels = BTreeSet::new();
    let mut scaled = |name, axes: &[(i64, i64, i64)], dst, src, alpha| {
        let (nest, sizes) = nest(axes);
        assert!(nest.len() as usize * Scalar::size(dst) >= 16 << 20, "{nest} is not streamed");
        let transform = Transform { nest, dst, src, scaling: Scaling { alpha, beta: 0.0 } };
        assert_eq!(picked(&transform), name);
        let is_first = kernels.insert(name);
        if is_full() || all.get() % 12 == 0 || is_first {
            check(&transform, sizes, &[2], &mut rng, &mut counts);
            solved.set(solved.get() + 1);
        }
        all.set(all.get() + 1);
    };
    // Narrowed and scaled where lines start anywhere.
    for narrow in [Scalar::F16, Scalar::Bf16, Scalar::I8, Scalar::U8] {
        let side = if narrow.size() == 1 { 4101 } else { 2903 };
        for alpha in [1.0, 0.3] {
            scaled("transpose", &[(side, side + 2, 1), (side + 2, 1, side)], narrow, Scalar::F32, alpha);
        }
    }
    let mut streamed = |name, axes: &[(i64, i64, i64)], dst, src| scaled(name, axes, dst, src, 1.0);
    streamed("transpose", &[(2051, 2064, 1), (2064, 1, 2051)], Scalar::F32, Scalar::F32);
    streamed("transpose", &[(4099, 4160, 1), (4160, 1, 4099)], Scalar::U8, Scalar::U8);
    streamed("transpose", &[(2051, 2064, 1), (2064, 1, 2051)], Scalar::F32, Scalar::F16);
    streamed("transpose", &[(4099, 2080, 1), (2080, 1, 4099)], Scalar::F16, Scalar::F16);
    streamed("transpose", &[(1031, 2056, 1), (2056, 1, 1031)], Scalar::F64, Scalar::F64);
    // Converted in the registers, as they arrive and as they leave.
    streamed("transpose", &[(4099, 2080, 1), (2080, 1, 4099)], Scalar::Bf16, Scalar::F32);
    streamed("transpose", &[(4099, 4160, 1), (4160, 1, 4099)], Scalar::I8, Scalar::F32);
    streamed("transpose", &[(2051, 2064, 1), (2064, 1, 2051)], Scalar::F32, Scalar::U8);
    // Rows of the destination that start at different places of their lines, also between cells
    // that were merged from two.
    streamed("transpose", &[(2063, 2067, 1), (2067, 1, 2063)], Scalar::F32, Scalar::F32);
    streamed("transpose", &[(4101, 4103, 1), (4103, 1, 4101)], Scalar::I8, Scalar::I8);
    streamed("transpose", &[(2903, 2905, 1), (2905, 1, 2903)], Scalar::F16, Scalar::F32);
    streamed("transpose", &[(2063, 2067, 1), (2067, 1, 2063)], Scalar::F64, Scalar::F64);
    streamed("transpose", &[(2903, 2907, 1), (2905, 1, 2909)], Scalar::F16, Scalar::F16);
    streamed("transpose", &[(4101, 4103, 1), (4103, 1, 4101)], Scalar::I8, Scalar::F32);
    streamed("transpose", &[(2903, 2905, 1), (2905, 1, 2903)], Scalar::Bf16, Scalar::F32);
    let pairs = [(8421, 2 * 1201 + 1, 2), (1201, 2, 2 * 8421 + 1), (2, 1, 1)];
    streamed("transpose", &pairs, Scalar::U8, Scalar::U8);
    // Fewer columns than a line has cells, one more than whole strips, and none in some tiles;
    // pieces that start and end anywhere in lines.
    streamed(
        "transpose",
        &[(30, 17 * 18_713, 17 * 18_713), (17, 18_713, 1), (18_713, 1, 17)],
        Scalar::F32,
        Scalar::F32,
    );
    streamed(
        "transpose",
        &[(9, 8 * 60_007, 8 * 60_007), (8, 60_007, 1), (60_007, 1, 8)],
        Scalar::F32,
        Scalar::F32,
    );
    streamed(
        "transpose",
        &[(2, 9 * 500_001, 9 * 500_001), (9, 500_001, 1), (500_001, 1, 9)],
        Scalar::F32,
        Scalar::F16,
    );
    // Few rows: less than half a line of bytes, more than half a line, a little more than a line,
    // many lines.
    streamed("transpose", &[(600_011, 28, 1), (28, 1, 600_011)], Scalar::U8, Scalar::U8);
    streamed("transpose", &[(350_003, 12, 1), (12, 1, 350_003)], Scalar::F32, Scalar::F32);
    streamed("transpose", &[(250_007, 17, 1), (17, 1, 250_007)], Scalar::F32, Scalar::F32);
    streamed("transpose", &[(350_003, 25, 1), (25, 1, 350_003)], Scalar::F16, Scalar::F16);
    streamed("transpose", &[(60_007, 84, 1), (84, 1, 60_007)], Scalar::F32, Scalar::F32);
    // Short rows with gaps.
    let gaps = [(1201, 60, 57 * 64), (57, 1, 64), (64, 1201 * 60, 1)];
    streamed("transpose", &gaps, Scalar::F32, Scalar::F32);
    // Blocks of half a line, an even and an odd number in an image.
    for (cell, channels) in [(Scalar::U8, 32), (Scalar::F16, 16), (Scalar::F32, 8), (Scalar::F64, 4)] {
        for pixels in [3136, 3135] {
            let images = (17 << 20) / (pixels * channels * cell.size() as i64) + 1;
            let image = pixels * channels;
            streamed(
                "transpose",
                &[(images, image, image), (pixels, channels, 1), (channels, 1, pixels)],
                cell,
                cell,
            );
        }
    }
    // Runs through several loops on either side: abcd -> dbca, each of few cells.
    let (a, b, c, d) = (23, 60, 58, 54);
    let permuted = [(a, 1, b * c * d), (c, a, d), (b, a * c, c * d), (d, a * c * b, 1)];
    streamed("transpose", &permuted, Scalar::F32, Scalar::F32);
    // Half lines that follow one another in fives, beginning in one strip and ending in the next.
    let fives = [(326, 40 * 326, 5), (326, 40, 40 * 326), (5, 8, 1), (8, 1, 5 * 326)];
    streamed("transpose", &fives, Scalar::F32, Scalar::F32);
    // The same with runs that are cut evenly, and with less than a line on the side of the source.
    let (a, b, c, d, e) = (61, 9, 57, 13, 11);
    for cell in [Scalar::U8, Scalar::F16, Scalar::F32, Scalar::F64] {
        let many = (17 << 20) / (a * b * c * d * e * cell.size() as i64) + 1;
        let whole = a * b * c * d * e;
        let permuted = [
            (many, whole, whole),
            (e, a * b * c * d, 1),
            (a, b * c * d, e * d * c * b),
            (b, c * d, e * d),
            (d, c, e),
            (c, 1, e * d * b),
        ];
        streamed("transpose", &permuted, cell, cell);
    }
    let pixels = 2403 * 2329;
    streamed("interleave", &[(3, 1, pixels), (pixels, 3, 1)], Scalar::U8, Scalar::I8);
    streamed("interleave", &[(3, pixels, 1), (pixels, 1, 3)], Scalar::U8, Scalar::U8);
    streamed("transform_rows", &[(19_001, 223, 301), (223, 1, 1)], Scalar::F32, Scalar::F32);
    streamed("transform_rows", &[(19_001, 240, 301), (223, 1, 1)], Scalar::F32, Scalar::I8);
    // Short rows: packed together, so that lines are shared between strips and tiles that start
    // anywhere; with gaps that stay as they are; of few bytes; with one row in each tile that is
    // left over.
    streamed(
        "transform_rows",
        &[(3, 75_001 * 57, 75_001 * 64), (75_001, 57, 64), (57, 1, 1)],
        Scalar::F32,
        Scalar::F32,
    );
    streamed(
        "transform_rows",
        &[(601, 331 * 85, 400 * 90), (331, 85, 90), (85, 1, 1)],
        Scalar::U8,
        Scalar::U8,
    );
    streamed("transform_rows", &[(75_001, 57, 64), (57, 1, 1)], Scalar::F32, Scalar::U8);
    streamed("transform_rows", &[(295_001, 57, 64), (57, 1, 1)], Scalar::U8, Scalar::F64);
    streamed("transform_rows", &[(600_001, 7, 9), (7, 1, 1)], Scalar::F32, Scalar::F32);
    streamed("transform_rows", &[(8193, 513, 520), (513, 1, 1)], Scalar::F32, Scalar::F16);
    streamed(
        "transform_rows",
        &[(3, 75_001 * 60, 75_001 * 57), (75_001, 60, 57), (57, 1, 1)],
        Scalar::F32,
        Scalar::F32,
    );
    streamed("transform_rows", &[(75_001, 60, 57), (57, 1, 1)], Scalar::F32, Scalar::F16);
    streamed("transform_rows", &[(1_700_001, 13, 11), (10, 1, 1)], Scalar::U8, Scalar::U8);
    streamed("interleave", &[(3, 1, pixels), (pixels, 3, 1)], Scalar::U8, Scalar::F32);
    streamed("interleave", &[(3, pixels, 1), (pixels, 1, 3)], Scalar::U8, Scalar::F32);
    // Pixels whose tiles are as long as the buffer allows, those of wide cells, and images side by
    // side.
    for (cell, channels, pixels) in [(Scalar::U8, 20, 850_003), (Scalar::F64, 7, 300_007)] {
        streamed("interleave", &[(pixels, channels, 1), (channels, 1, pixels)], cell, cell);
        streamed("interleave", &[(channels, pixels, 1), (pixels, 1, channels)], cell, cell);
    }
    let images = [(29, 3 * 50_021, 3 * 50_021), (50_021, 3, 1), (3, 1, 50_021)];
    streamed("interleave", &images, Scalar::F64, Scalar::F32);
    streamed("copy", &[(4_200_001, 1, 1)], Scalar::F32, Scalar::F32);
    streamed("transform_rows", &[(4_200_001, 1, 1)], Scalar::F32, Scalar::Bf16);
    extent::say(solved.get(), all.get());
}
