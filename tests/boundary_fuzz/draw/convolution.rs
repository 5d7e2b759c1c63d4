//! Convolutions in all directions, with their workspaces of just the size told, and image by image.

use cudnn::dtype::Scalar;

use super::{FLOATS, Tensor, code, factor, list};
use testkit::random::Rng;

/// A geometry.
struct Shape {
    images: i64,
    groups: i64,
    /// Channels and filters of a group.
    channels: i64,
    filters: i64,
    /// Extent, window, padding, stride and dilation of each spatial dimension.
    axes: Vec<[i64; 5]>,
}

impl Shape {
    fn draw(rng: &mut Rng) -> Shape {
        let images = rng.pick(&[1, 1, 2, 3, 5]);
        let (groups, channels, filters) = match rng.below(8) {
            0 => (1 + rng.below(40) as i64, 1, rng.pick(&[1, 1, 2, 3, 5, 7])),
            1..4 => (
                2 + rng.below(7) as i64,
                rng.pick(&[1, 2, 3, 4, 5, 7, 8, 16, 22, 23, 25, 27, 32, 40, 55]),
                rng.pick(&[1, 2, 3, 4, 5, 6, 7, 8, 16, 17]),
            ),
            _ => {
                let wide = |rng: &mut Rng| {
                    rng.pick(&[1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 31, 32, 33, 50, 64, 100, 186, 300])
                };
                (1, wide(rng), wide(rng))
            }
        };
        let spatial = rng.pick(&[1, 2, 2, 2, 2, 2, 3]);
        // Lines: every dimension but one is 1.
        let line = (rng.below(4) == 0).then(|| rng.below(spatial));
        let axes = (0..spatial).map(|axis| {
            if line.is_some_and(|line| line != axis) && spatial > 1 {
                return [rng.pick(&[1, 1, 4, 28]), 1, 0, 1, 1];
            }
            let window = rng.pick(&[1, 1, 2, 3, 3, 3, 4, 5, 7]);
            let (stride, dilation) = (rng.pick(&[1, 1, 1, 2, 3]), rng.pick(&[1, 1, 1, 1, 2, 3]));
            let reach = (window - 1) * dilation + 1;
            let padding = match rng.below(4) {
                0 => rng.below(reach as usize + 2) as i64,
                1 => 0,
                _ => reach / 2,
            };
            let least = (reach - 2 * padding).max(1);
            let extent = match rng.below(12) {
                0 if line.is_some() || spatial == 1 => 100 + rng.below(170) as i64,
                0..3 => least,
                _ => least + rng.below(if spatial == 3 { 8 } else { 30 }) as i64,
            };
            [extent, window, padding, stride, dilation]
        });
        let mut shape = Shape { images, groups, channels, filters, axes: axes.collect() };
        shape.shrink(match rng.below(40) {
            0 => 3_000_000,
            1..12 => 400_000,
            _ => 60_000,
        });
        shape
    }

    fn out(&self) -> impl Iterator<Item = i64> {
        self.axes.iter().map(|[extent, window, padding, stride, dilation]| {
            (extent + 2 * padding - ((window - 1) * dilation + 1)) / stride + 1
        })
    }

    fn taps(&self) -> i64 {
        self.axes.iter().map(|axis| axis[1]).product()
    }

    fn products(&self) -> i64 {
        let sums = self.images * self.groups * self.filters * self.out().product::<i64>();
        sums * self.channels * self.taps()
    }

    /// Takes from whatever is largest until there are no more products than this.
    fn shrink(&mut self, most: i64) {
        while self.products() > most {
            let outs: Vec<i64> = self.out().collect();
            let axis = (0..self.axes.len()).max_by_key(|&axis| outs[axis]).unwrap_or(0);
            let parts = [outs[axis], self.channels, self.filters, self.groups, self.images];
            match parts.iter().enumerate().max_by_key(|(_, part)| **part).map_or(4, |(at, _)| at) {
                0 => {
                    let [extent, window, padding, stride, dilation] = &mut self.axes[axis];
                    let reach = (*window - 1) * *dilation + 1;
                    *extent = (reach - 2 * *padding).max(1).max(*extent - (outs[axis] + 1) / 2 * *stride);
                    if (*extent + 2 * *padding - reach) / *stride + 1 == outs[axis] {
                        *stride += 1;
                    }
                }
                1 => self.channels = (self.channels / 2).max(1),
                2 => self.filters = (self.filters / 2).max(1),
                3 => self.groups = (self.groups / 2).max(1),
                _ => self.images -= 1,
            }
        }
    }
}

/// The types of x, w and y, and the one computed in.
fn types(rng: &mut Rng, forward: bool) -> [Scalar; 4] {
    match rng.below(12) {
        0 | 1 if forward => {
            let x = rng.pick(&[Scalar::I8, Scalar::U8]);
            [x, Scalar::I8, rng.pick(&[x, Scalar::F32, Scalar::I32]), Scalar::I32]
        }
        2 => {
            let half = rng.pick(&[Scalar::F16, Scalar::Bf16]);
            [half, half, Scalar::F32, Scalar::F32]
        }
        _ => {
            let scalar = rng.pick(&FLOATS);
            let compute = if scalar == Scalar::F64 { Scalar::F64 } else { Scalar::F32 };
            [scalar, scalar, scalar, compute]
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Forward,
    Fused,
    Data,
    Filter,
}

/// A problem while its line is written.
struct Problem {
    direction: Direction,
    shape: Shape,
    /// With the bias of a fused call.
    x: Tensor,
    w: Tensor,
    y: Tensor,
    bias: Tensor,
    channels_last: bool,
    compute: Scalar,
    algorithm: usize,
    /// Contents of the two that are multiplied, and of what is added.
    contents: [String; 3],
    check: &'static str,
    alpha: f64,
    beta: f64,
    terms: i64,
}

impl Problem {
    fn draw(rng: &mut Rng) -> Problem {
        let direction = rng.pick(&[Direction::Forward, Direction::Fused, Direction::Data, Direction::Filter]);
        let shape = Shape::draw(rng);
        let is_forward = matches!(direction, Direction::Forward | Direction::Fused);
        let [of_x, of_w, of_y, compute] = types(rng, is_forward);
        let spatial = |part: usize| shape.axes.iter().map(move |axis| axis[part]);
        let all = |first: i64, second: i64, rest: Vec<i64>| [vec![first, second], rest].concat();
        let x = all(shape.images, shape.groups * shape.channels, spatial(0).collect());
        let w = all(shape.groups * shape.filters, shape.channels, spatial(1).collect());
        let y = all(shape.images, shape.groups * shape.filters, shape.out().collect());
        let (x, y) = (
            Tensor::draw(rng, of_x, &x, direction != Direction::Data),
            Tensor::draw(rng, of_y, &y, !is_forward),
        );
        let (rank, channels_last) = (w.len(), rng.below(3) == 0);
        let order: Vec<usize> = match channels_last {
            true => [0].into_iter().chain(2..rank).chain([1]).collect(),
            false => (0..rank).collect(),
        };
        let w = Tensor::ordered(of_w, &w, &order, &vec![0; rank]);
        let mut bias = vec![1; rank];
        bias[1] = y.dims[1];
        let is_float = !matches!(of_x, Scalar::I8 | Scalar::U8);
        let bias = Tensor::packed(if is_float { of_y } else { Scalar::F32 }, &bias);
        let algorithms = match direction {
            Direction::Forward | Direction::Fused => 8,
            Direction::Data => 6,
            Direction::Filter => 7,
        };
        let terms = match direction {
            Direction::Forward | Direction::Fused => shape.channels * shape.taps(),
            Direction::Data => shape.filters * shape.taps(),
            Direction::Filter => shape.images * shape.out().product::<i64>(),
        };
        let (alpha, beta) = (rng.pick(&[1.0, 1.0, 0.5, 2.0]), rng.pick(&[0.0, 0.0, 0.0, 1.0, 0.5]));
        let algorithm = rng.below(algorithms);
        let contents = ["real"; 3].map(str::to_owned);
        let check = if compute == Scalar::F64 { "wide" } else { "sum" };
        let mut problem = Problem {
            direction,
            shape,
            x,
            w,
            y,
            bias,
            channels_last,
            compute,
            algorithm,
            contents,
            check,
            alpha,
            beta,
            terms,
        };
        problem.fill(rng);
        problem
    }

    /// Whether the algorithm's number is one of those that may transform windows.
    fn is_transformed(&self) -> bool {
        match self.direction {
            Direction::Forward | Direction::Fused => self.algorithm >= 6,
            Direction::Data => self.algorithm >= 4,
            Direction::Filter => (4..6).contains(&self.algorithm),
        }
    }

    /// Chooses contents: whole numbers, whose sums are exact; real ones; some far beyond the
    /// others; filters that are the identity.
    fn fill(&mut self, rng: &mut Rng) {
        let is_float = !matches!(self.x.scalar, Scalar::I8 | Scalar::U8);
        let wide = [Scalar::F32, Scalar::F64, Scalar::Bf16].contains(&self.x.scalar)
            && self.y.scalar == self.x.scalar;
        let filters = self.shape.groups * self.shape.filters;
        match if is_float { rng.below(10) } else { 0 } {
            0..3 => {
                self.contents = ["whole"; 3].map(str::to_owned);
                self.terms = 0;
            }
            3 if wide => self.contents[0] = "far1e6".to_owned(),
            4 if wide => self.contents[1] = "far1e6".to_owned(),
            5 if wide && !self.is_transformed() => self.contents[rng.below(2)] = "far1e30".to_owned(),
            6 if self.direction == Direction::Forward && !self.is_transformed() && filters <= 32 => {
                let Shape { channels, axes, .. } = &self.shape;
                let taps = self.shape.taps();
                let middle = axes.iter().fold(0, |at, axis| at * axis[1] + axis[1] / 2);
                let (tap, channel) = if self.channels_last { (*channels, 1) } else { (1, taps) };
                let place = |k: i64| k * channels * taps + middle * tap + k % channels * channel;
                let places: Vec<String> = (0..filters).map(|k| place(k).to_string()).collect();
                self.contents[1] = format!("ones={}", places.join(","));
                (self.alpha, self.beta, self.terms) = (1.0, 0.0, 0);
            }
            _ => {}
        }
    }

    /// What a destination holds at first, and how it is judged.
    fn result(&self) -> String {
        let overwritten = self.beta == 0.0 || self.direction == Direction::Fused;
        let before = if overwritten { "nan" } else { &self.contents[2] };
        let transformed = if self.is_transformed() && self.terms > 0 { "w" } else { "" };
        format!("{before}:{}{}{transformed}", self.check, self.terms)
    }

    fn describe(&self, rng: &mut Rng, calls: &mut Vec<String>) {
        self.x.describe("T0", calls);
        self.y.describe("T1", calls);
        let (rank, format, w) = (self.w.dims.len(), u32::from(self.channels_last), list(&self.w.dims));
        calls.push("CreateFilterDescriptor F0".to_owned());
        calls.push(format!("SetFilterNdDescriptor F0 {} {format} {rank} {w}", code(self.w.scalar)));
        let axes = |part: usize| list(&self.shape.axes.iter().map(|axis| axis[part]).collect::<Vec<_>>());
        let (padding, strides, dilation) = (axes(2), axes(3), axes(4));
        let (spatial, flipped, compute) = (rank - 2, rng.below(2), code(self.compute));
        calls.push("CreateConvolutionDescriptor C0".to_owned());
        calls.push(format!(
            "SetConvolutionNdDescriptor C0 {spatial} {padding} {strides} {dilation} {flipped} {compute}"
        ));
        calls.push(format!("SetConvolutionGroupCount C0 {}", self.shape.groups));
        calls.push(format!("SetConvolutionMathType C0 {}", rng.pick(&[0, 0, 1, 3])));
        if self.direction == Direction::Fused {
            self.bias.describe("T4", calls);
            calls.push("CreateActivationDescriptor A0".to_owned());
            calls.push(format!("SetActivationDescriptor A0 {} 0 0", rng.pick(&[1, 5])));
        }
    }

    /// The query for the workspace and the call itself: of all images, or of one, whose results go
    /// to a buffer with a prime.
    fn call(&self, image: Option<i64>, turn: usize, z_factor: f64, calls: &mut Vec<String>) {
        let (t0, t1, prime) = if image.is_some() { ("T2", "T3", "'") } else { ("T0", "T1", "") };
        let place = |tensor: &Tensor, name: &str, content: &str| match image {
            // The buffer is there already.
            Some(image) if image > 0 || !name.ends_with('\'') => format!("{name}+{}", tensor.offset(image)),
            _ => tensor.buffer(name, content),
        };
        let [first, second, rest] = &self.contents;
        let (result, algorithm) = (self.result(), self.algorithm);
        let (alpha, beta) = (factor(self.y.scalar, self.alpha), factor(self.y.scalar, self.beta));
        let computed = format!("C0 {algorithm} W{turn}:told told");
        let query = |kind: &str, operands: String| {
            format!("GetConvolution{kind}WorkspaceSize H0 {operands} {algorithm} @")
        };
        match self.direction {
            Direction::Forward | Direction::Fused => {
                calls.push(query("Forward", format!("{t0} F0 C0 {t1}")));
                let (x, w) = (place(&self.x, "B0", first), self.w.buffer("B1", second));
                let y = place(&self.y, &format!("B2{prime}"), &result);
                calls.push(if self.direction == Direction::Forward {
                    format!("ConvolutionForward H0 {alpha} {t0} {x} F0 {w} {computed} {beta} {t1} {y}")
                } else {
                    let (z, bias) = (place(&self.y, "B3", rest), self.bias.buffer("B4", rest));
                    let z_factor = factor(self.y.scalar, z_factor);
                    format!(
                        "ConvolutionBiasActivationForward H0 {alpha} {t0} {x} F0 {w} {computed} {z_factor} {t1} {z} T4 {bias} A0 \
                         {t1} {y}"
                    )
                });
            }
            Direction::Data => {
                calls.push(query("BackwardData", format!("F0 {t1} C0 {t0}")));
                let (w, dy) = (self.w.buffer("B1", second), place(&self.y, "B2", first));
                let dx = place(&self.x, &format!("B0{prime}"), &result);
                calls.push(format!(
                    "ConvolutionBackwardData H0 {alpha} F0 {w} {t1} {dy} {computed} {beta} {t0} {dx}"
                ));
            }
            Direction::Filter => {
                calls.push(query("BackwardFilter", "T0 T1 C0 F0".to_owned()));
                let (x, dy) = (self.x.buffer("B0", first), self.y.buffer("B2", second));
                let dw = self.w.buffer("B1", &result);
                calls.push(format!(
                    "ConvolutionBackwardFilter H0 {alpha} T0 {x} T1 {dy} {computed} {beta} F0 {dw}"
                ));
            }
        }
    }
}

pub fn draw(rng: &mut Rng, calls: &mut Vec<String>) {
    let problem = Problem::draw(rng);
    problem.describe(rng, calls);
    let z_factor = rng.pick(&[0.0, 1.0, 0.5]);
    problem.call(None, 0, z_factor, calls);
    let images = problem.shape.images;
    // Images between each other's elements are no promise: their sums are divided among loops
    // otherwise.
    let apart = problem.x.has_images_apart() && problem.y.has_images_apart();
    if apart && images > 1 && problem.direction != Direction::Filter && rng.below(3) == 0 {
        problem.x.image().describe("T2", calls);
        problem.y.image().describe("T3", calls);
        (0..images).for_each(|image| problem.call(Some(image), 1 + image as usize, z_factor, calls));
    }
}
