//! Random convolutions and their results by the plain formulas.

use cudnn::dtype::Scalar;
use cudnn::error::Result;
use cudnn::layout::Dims;
use cudnn::ops::Contract;
use cudnn::ops::contract::{Accumulate, Geometry, Terms};

use crate::random::Rng;
use crate::tensor::{Tensor, each};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Data,
    Filter,
}

pub const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::Data, Direction::Filter];

/// A convolution: x, w and y, with y as large as the formula says or a little smaller.
pub struct Convolution {
    pub geometry: Geometry,
    pub x: Vec<i64>,
    pub w: Vec<i64>,
    pub y: Vec<i64>,
}

impl Convolution {
    /// Of `n` images, `c` channels and `k` filters in each of some groups; where the window does
    /// not fit, an extent of `y` is 0.
    fn of(
        [n, c, k, groups]: [i64; 4], extents: &[i64], taps: &[i64], [padding, strides, dilation]: [&[i64]; 3],
    ) -> Self {
        let out = |d: usize| {
            let room = extents[d] + 2 * padding[d] - (taps[d] - 1) * dilation[d] - 1;
            if room < 0 { 0 } else { room / strides[d] + 1 }
        };
        let [padding, strides, dilation] = [padding, strides, dilation].map(Dims::new);
        Convolution {
            y: [n, k * groups].into_iter().chain((0..extents.len()).map(out)).collect(),
            geometry: Geometry { padding, strides, dilation, groups, flip: false },
            x: [n, c * groups].into_iter().chain(extents.iter().copied()).collect(),
            w: [k * groups, c].into_iter().chain(taps.iter().copied()).collect(),
        }
    }

    /// The multiplications of all outputs.
    fn multiplications(&self) -> i64 {
        self.y.iter().product::<i64>() * self.w[1..].iter().product::<i64>()
    }

    /// Of at most `cells` multiplications.
    pub fn random(cells: i64, rng: &mut Rng) -> Self {
        loop {
            let rank = rng.pick(&[1, 2, 2, 2, 2, 3]);
            let groups = rng.pick(&[1, 1, 1, 2, 3, 5, 8]);
            let depthwise = groups > 1 && rng.below(2) == 0;
            let [c, k] =
                [rng.pick(&[4, 12, 40]), rng.pick(&[4, 12, 40])].map(|most| 1 + rng.below(most) as i64);
            let [c, k] = if depthwise { [1, 1 + rng.below(2) as i64] } else { [c, k] };
            let n = 1 + rng.below(3) as i64;
            let mut dim = |values: &[i64]| (0..rank).map(|_| rng.pick(values)).collect::<Vec<_>>();
            let (strides, padding) = (dim(&[1, 1, 1, 2, 2, 3]), dim(&[0, 0, 1, 1, 2, 3, 5]));
            let (dilation, taps) = (dim(&[1, 1, 1, 2, 3]), dim(&[1, 1, 2, 3, 3, 3, 5]));
            let extents = (0..rank).map(|_| 1 + rng.below(24) as i64).collect::<Vec<_>>();
            let mut convolution =
                Convolution::of([n, c, k, groups], &extents, &taps, [&padding, &strides, &dilation]);
            let y = &mut convolution.y;
            if y.contains(&0) {
                continue;
            }
            if rng.below(10) == 0 {
                y[2] = (y[2] - 1).max(1);
            }
            if convolution.multiplications() > cells {
                continue;
            }
            convolution.geometry.flip = rng.below(3) == 0;
            return convolution;
        }
    }

    /// A convolution in the plane with 3 x 3 taps and stride 1, or with as many groups as channels.
    pub fn of_plane(channels: [i64; 2], extents: [i64; 2], stride: i64, groups: i64, rng: &mut Rng) -> Self {
        let padding = [rng.below(3) as i64, rng.below(3) as i64];
        let [c, k] = channels;
        let sizes = [&padding[..], &[stride; 2], &[1; 2]];
        let mut convolution = Convolution::of([1, c, k, groups], &extents, &[3; 2], sizes);
        convolution.geometry.flip = rng.below(2) == 0;
        convolution
    }

    /// Dims of the destination, of `a` and of `b`.
    pub fn dims(&self, direction: Direction) -> [&[i64]; 3] {
        match direction {
            Direction::Forward => [&self.y, &self.x, &self.w],
            Direction::Data => [&self.x, &self.y, &self.w],
            Direction::Filter => [&self.w, &self.x, &self.y],
        }
    }

    /// Calls `f` with the places in x, w and y, counted in row-major order, of every product.
    fn products(&self, mut f: impl FnMut(usize, usize, usize)) {
        let g = &self.geometry;
        let [n, k, c] = [self.y[0], self.y[1], self.w[1]].map(|extent| extent as usize);
        let in_group = self.w[0] / g.groups;
        let size = |dims: &[i64]| dims[2..].iter().product::<i64>() as usize;
        let [x_pixels, taps, y_pixels] = [&self.x, &self.w, &self.y].map(|dims| size(dims));
        // The pixel of x that a tap meets from a pixel of y; none in the padding.
        let mut met = Vec::with_capacity(y_pixels * taps);
        each(&self.y[2..], |y| {
            each(&self.w[2..], |tap| {
                met.push((0..y.len()).try_fold(0, |at, d| {
                    let r = if g.flip { self.w[d + 2] - 1 - tap[d] } else { tap[d] };
                    let x = y[d] * g.strides[d] - g.padding[d] + r * g.dilation[d];
                    let extent = self.x[d + 2];
                    (0..extent).contains(&x).then(|| at * extent as usize + x as usize)
                }));
            });
        });
        for (image, channel) in (0..n).flat_map(|image| (0..k).map(move |channel| (image, channel))) {
            let first = image * self.x[1] as usize + channel / in_group as usize * c;
            for (pixel, met) in met.chunks(taps).enumerate() {
                let y = (image * k + channel) * y_pixels + pixel;
                for of in 0..c {
                    let (x, w) = ((first + of) * x_pixels, (channel * c + of) * taps);
                    let met = met.iter().enumerate().filter_map(|(tap, at)| Some((tap, (*at)?)));
                    met.for_each(|(tap, at)| f(x + at, w + tap, y));
                }
            }
        }
    }

    /// Sums of products, and of their magnitudes, by the definition; one per element of the
    /// destination in row-major order.
    pub fn expected(&self, direction: Direction, a: &Tensor, b: &Tensor) -> Vec<[f64; 2]> {
        let (a, b) = (a.numbers(), b.numbers());
        let mut sums = vec![[0.0; 2]; self.dims(direction)[0].iter().product::<i64>() as usize];
        self.products(|x, w, y| {
            let (dst, a, b) = match direction {
                Direction::Forward => (y, a[x], b[w]),
                Direction::Data => (x, a[y], b[w]),
                Direction::Filter => (w, a[x], b[y]),
            };
            let sum = &mut sums[dst];
            *sum = [sum[0] + a * b, sum[1] + (a * b).abs()];
        });
        sums
    }

    /// The steps.
    pub fn steps(
        &self, direction: Direction, [dst, a, b]: [&Tensor; 3], accumulate: Accumulate, terms: &Terms<'_>,
    ) -> Result<Vec<Contract>> {
        let mut steps = Vec::new();
        let build = match direction {
            Direction::Forward => Contract::forward,
            Direction::Data => Contract::backward_data,
            Direction::Filter => Contract::backward_filter,
        };
        build(dst.side(), a.side(), b.side(), &self.geometry, accumulate, terms, &mut |step| {
            steps.push(*step);
            Ok(())
        })?;
        Ok(steps)
    }

    /// Tensors for the destination, `a` and `b` in layouts of any kind, the operands, which may run
    /// backwards and overlap themselves, filled with small integers.
    pub fn tensors(
        &self, direction: Direction, [dst, a, b]: [Scalar; 3], plain: bool, rng: &mut Rng,
    ) -> [Tensor; 3] {
        let dims = self.dims(direction);
        let mut filled = |at: usize, scalar: Scalar| {
            let tensor = Tensor::random(dims[at], scalar, plain, rng);
            let tensor = if at > 0 && !plain && rng.below(4) == 0 { tensor.strewn(rng) } else { tensor };
            let low = if scalar == Scalar::U8 { 0.0 } else { -4.0 };
            tensor.fill(|| low + rng.below(9) as f64)
        };
        let (a, b) = (filled(1, a), filled(2, b));
        [filled(0, dst), a, b]
    }

    /// One of the shapes for which there are kernels - few and many channels, groups of them,
    /// lines, long rows, windows of every kind -, of at most `cells` multiplications.
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
            let n = 1 + rng.below(5) as i64;
            let mut convolution =
                Convolution::of([n, c, k, groups], &extents, &taps, [&padding, &strides, &dilation]);
            let elements = convolution.x.iter().product::<i64>();
            if convolution.y.contains(&0) || convolution.multiplications() > cells || elements > cells {
                continue;
            }
            convolution.geometry.flip = rng.below(4) == 0;
            return convolution;
        }
    }
}
