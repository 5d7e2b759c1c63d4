//! Random layers of the shapes for which there are kernels: few and many channels, groups of them, lines, long rows, windows of
//! every kind.

use cudnn::layout::Dims;
use cudnn::ops::contract::Geometry;

use crate::convolution::Convolution;
use crate::random::Rng;

impl Convolution {
    /// Of at most `cells` multiplications.
    pub fn drawn(cells: i64, rng: &mut Rng) -> Self {
        loop {
            let groups = rng.pick(&[1, 1, 1, 1, 2, 3, 4, 6, 8, 13, 33]);
            let few: &[i64] = &[1, 1, 2, 3, 4, 5, 7, 8, 16, 22, 25, 27, 32, 55];
            let many: &[i64] = &[1, 2, 3, 4, 8, 11, 16, 17, 20, 33, 50, 64, 100];
            let [c, k] = [0; 2].map(|_| rng.pick(if groups > 1 { few } else { many }));
            let rank = rng.pick(&[1, 2, 2, 2, 3]);
            let mut dims = |values: &[i64]| (0..rank).map(|_| rng.pick(values)).collect::<Vec<_>>();
            let mut extents = dims(&[1, 2, 3, 4, 5, 7, 8, 9, 12, 14, 15, 16, 20, 33, 50, 65, 186, 256]);
            let (mut taps, mut dilation) = (dims(&[1, 1, 2, 3, 3, 3, 4, 5, 7]), dims(&[1, 1, 1, 1, 2, 3]));
            let (strides, mut padding) = (dims(&[1, 1, 1, 2, 3, 4]), dims(&[0, 0, 0, 1, 1, 2, 3]));
            match rng.below(8) {
                // One line, or a window along the rows alone.
                0 if rank > 1 => (extents[0], taps[0], padding[0]) = (1, 1, 0),
                1 if rank > 1 => (taps[0], padding[0]) = (1, 0),
                2 => (taps, padding) = (vec![1; rank], vec![0; rank]),
                // Many pixels side by side, and windows without gaps.
                3 => (taps, padding, extents[rank - 1]) = (vec![1; rank], vec![0; rank], 257),
                4 | 5 => dilation = vec![1; rank],
                _ => {}
            }
            let out = |d: usize| {
                let room = extents[d] + 2 * padding[d] - (taps[d] - 1) * dilation[d] - 1;
                if room < 0 { 0 } else { room / strides[d] + 1 }
            };
            let n = 1 + rng.below(5) as i64;
            let y: Vec<i64> = [n, k * groups].into_iter().chain((0..rank).map(out)).collect();
            let products = y.iter().product::<i64>() * c * taps.iter().product::<i64>();
            let elements = n * c * groups * extents.iter().product::<i64>();
            if y.contains(&0) || products > cells || elements > cells {
                continue;
            }
            return Convolution {
                geometry: Geometry {
                    padding: Dims::new(&padding),
                    strides: Dims::new(&strides),
                    dilation: Dims::new(&dilation),
                    groups,
                    flip: rng.below(4) == 0,
                },
                x: [n, c * groups].into_iter().chain(extents.iter().copied()).collect(),
                w: [k * groups, c].into_iter().chain(taps.iter().copied()).collect(),
                y,
            };
        }
    }
}
