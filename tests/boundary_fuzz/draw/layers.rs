//! Layers: windows, functions of elements, statistics, masks and samplers. All have the bits of the
//! loops that define them.

use cudnn::dtype::Scalar;

use super::{FLOATS, TYPES, Tensor, code, extents, factor, list, most};
use testkit::random::Rng;

/// The pieces that most of these calls are made of.
struct Layer {
    scalar: Scalar,
    x: Tensor,
    y: Tensor,
    alpha: String,
    beta: String,
    before: &'static str,
    data: &'static str,
}

impl Layer {
    /// A layer from `x` to `y`, described as T0 and T1. Any layout of x is one that may be read;
    /// else it may be written, too.
    fn draw(rng: &mut Rng, scalar: Scalar, dims: [&[i64]; 2], any: bool, calls: &mut Vec<String>) -> Layer {
        let x = Tensor::draw(rng, scalar, dims[0], any);
        let y = Tensor::draw(rng, scalar, dims[1], false);
        x.describe("T0", calls);
        y.describe("T1", calls);
        let beta = rng.pick(&[0.0, 0.0, 1.0, 0.5]);
        let data = rng.pick(&["real", "whole", "bits"]);
        let before = if beta == 0.0 { "nan" } else { data };
        let (alpha, beta) = (factor(scalar, rng.pick(&[1.0, 1.0, -1.5])), factor(scalar, beta));
        Layer { scalar, x, y, alpha, beta, before, data }
    }

    /// A gradient: dx, which has the dims of x and is written, described as T2, and dy, in the
    /// layout of y, described as T3.
    fn gradients(&self, rng: &mut Rng, calls: &mut Vec<String>) -> [Tensor; 2] {
        let dx = self.dx(rng);
        let dy = self.y.clone();
        dx.describe("T2", calls);
        dy.describe("T3", calls);
        [dx, dy]
    }

    fn dx(&self, rng: &mut Rng) -> Tensor {
        Tensor::draw(rng, self.scalar, &self.x.dims, false)
    }

    /// `name H0 how alpha T0 x beta T1 y`, and half the time the same image by image.
    fn forward(&self, rng: &mut Rng, name: &str, how: &str, calls: &mut Vec<String>) {
        let Layer { alpha, beta, .. } = self;
        let (x, y) = (self.x.buffer("B0", self.data), self.y.buffer("B1", self.before));
        calls.push(format!("{name} H0 {how} {alpha} T0 {x} {beta} T1 {y}"));
        let images = self.x.dims[0];
        if images > 1 && images == self.y.dims[0] && images < 20 && rng.below(2) == 0 {
            self.x.image().describe("T4", calls);
            self.y.image().describe("T5", calls);
            for image in 0..images {
                let x = format!("B0+{}", self.x.offset(image));
                let y = match image {
                    0 => self.y.buffer("B1'", self.before),
                    _ => format!("B1'+{}", self.y.offset(image)),
                };
                calls.push(format!("{name} H0 {how} {alpha} T4 {x} {beta} T5 {y}"));
            }
        }
    }

    /// `name H0 how alpha T1 y T3 dy T0 x beta T2 dx`.
    fn backward(&self, dx: &Tensor, name: &str, how: &str, calls: &mut Vec<String>) {
        let dy = self.y.clone();
        dx.describe("T2", calls);
        dy.describe("T3", calls);
        let (x, y) = (self.x.buffer("B0", self.data), self.y.buffer("B1", self.data));
        let (dx, dy) = (dx.buffer("B2", self.before), dy.buffer("B3", self.data));
        let Layer { alpha, beta, .. } = self;
        calls.push(format!("{name} H0 {how} {alpha} T1 {y} T3 {dy} T0 {x} {beta} T2 {dx}"));
    }
}

fn any(rng: &mut Rng) -> Scalar {
    if rng.below(3) == 0 { rng.pick(&TYPES).1 } else { rng.pick(&FLOATS) }
}

pub fn pool(rng: &mut Rng, calls: &mut Vec<String>) {
    let spatial = rng.pick(&[1, 2, 2, 2, 3]);
    let most = most(rng);
    let x = extents(rng, spatial + 2, most);
    let (mut window, mut padding, mut stride) = (Vec::new(), Vec::new(), Vec::new());
    let mut y = x[..2].to_vec();
    for &extent in &x[2..] {
        let width = rng.pick(&[1, 2, 2, 3, 3, 4, 5, 7, extent, 1_000_000]);
        let pad = match width {
            1_000_000 => rng.pick(&[0, 999_999]).max(1_000_000 - extent),
            _ => rng.below(width as usize) as i64,
        };
        let pad = if extent + 2 * pad < width { width - extent } else { pad }.min(width - 1).max(0);
        // The loops that define a window look at all of it.
        let step = if width > 1000 { 1_000_000_000 } else { rng.pick(&[1, 1, 2, 2, 3, 1_000_000_000]) };
        y.push(1 + (extent + 2 * pad - width).max(0) / step);
        window.push(width);
        padding.push(pad);
        stride.push(step);
    }
    // Windows that walk beyond the map in short steps make large maps.
    while y.iter().product::<i64>() > 60_000 {
        let at = (2..y.len()).max_by_key(|&axis| y[axis]).unwrap_or(2);
        stride[at - 2] *= 2;
        y[at] = 1 + (x[at] + 2 * padding[at - 2] - window[at - 2]).max(0) / stride[at - 2];
    }
    calls.push("CreatePoolingDescriptor P0".to_owned());
    let (mode, nan) = (rng.below(4), rng.below(2));
    let [window, padding, stride] = [&window, &padding, &stride].map(|values| list(values));
    calls.push(format!("SetPoolingNdDescriptor P0 {mode} {nan} {spatial} {window} {padding} {stride}"));
    let of = if rng.below(2) == 0 { any(rng) } else { rng.pick(&FLOATS) };
    let is_forward = rng.below(2) == 0;
    let layer = Layer::draw(rng, of, [&x, &y], is_forward, calls);
    if is_forward {
        layer.forward(rng, "PoolingForward", "P0", calls);
    } else {
        layer.backward(&layer.x, "PoolingBackward", "P0", calls);
    }
}

pub fn activate(rng: &mut Rng, calls: &mut Vec<String>) {
    let (rank, most) = (rng.pick(&[2, 3, 4, 4, 4, 5, 6, 8]), most(rng));
    let dims = extents(rng, rank, most);
    calls.push("CreateActivationDescriptor A0".to_owned());
    let (mode, nan, coefficient) = (rng.below(7), rng.below(2), rng.pick(&["0", "1.5", "20"]));
    calls.push(format!("SetActivationDescriptor A0 {mode} {nan} {coefficient}"));
    let of = any(rng);
    let layer = Layer::draw(rng, of, [&dims, &dims], true, calls);
    match rng.below(2) {
        0 => layer.forward(rng, "ActivationForward", "A0", calls),
        _ => layer.backward(&layer.dx(rng), "ActivationBackward", "A0", calls),
    }
}

pub fn softmax(rng: &mut Rng, calls: &mut Vec<String>) {
    let (rank, most) = (rng.pick(&[2, 3, 4, 4, 4, 5]), most(rng));
    let dims = extents(rng, rank, most);
    let of = any(rng);
    let layer = Layer::draw(rng, of, [&dims, &dims], true, calls);
    let how = format!("{} {}", rng.below(3), rng.below(2));
    if rng.below(2) == 0 {
        return layer.forward(rng, "SoftmaxForward", &how, calls);
    }
    let [dx, dy] = layer.gradients(rng, calls);
    let y = layer.y.buffer("B1", layer.data);
    let (dx, dy) = (dx.buffer("B2", layer.before), dy.buffer("B3", layer.data));
    calls.push(format!("SoftmaxBackward H0 {how} {} T1 {y} T3 {dy} {} T2 {dx}", layer.alpha, layer.beta));
}

/// Of small whole numbers, whose statistics are exact.
pub fn normalise(rng: &mut Rng, calls: &mut Vec<String>) {
    let (rank, most) = (rng.pick(&[2, 3, 4, 4, 4, 5]), most(rng));
    let dims = extents(rng, rank, most);
    let of = rng.pick(&FLOATS);
    let layer = Layer { data: "whole", before: "whole", ..Layer::draw(rng, of, [&dims, &dims], true, calls) };
    let mode = rng.below(3);
    let mut group = dims.clone();
    group[0] = 1;
    if mode > 0 {
        group[2..].fill(1);
    }
    let kind = if layer.scalar == Scalar::F64 { Scalar::F64 } else { Scalar::F32 };
    let parameters = Tensor::packed(kind, &group);
    let mut place = 4;
    let mut parameter = |content: &str| {
        place += 1;
        parameters.buffer(&format!("B{place}"), content)
    };
    calls.push("CreateTensorDescriptor T4".to_owned());
    calls.push(format!("DeriveBNTensorDescriptor T4 T0 {mode}"));
    let (x, y) = (layer.x.buffer("B0", "whole"), layer.y.buffer("B1", "whole"));
    let Layer { alpha, beta, .. } = &layer;
    let (scale, epsilon) = (parameter("positive"), "0.001");
    match rng.below(3) {
        0 => {
            let rest = ["whole", "whole", "positive"].map(&mut parameter).join(" ");
            calls.push(format!(
                "BatchNormalizationForwardInference H0 {mode} {alpha} {beta} T0 {x} T1 {y} T4 {scale} {rest} {epsilon}"
            ));
        }
        1 => {
            let bias = parameter("whole");
            let [mean, variance] = ["whole", "positive"].map(&mut parameter);
            let [kept, inverse] = ["nan", "nan"].map(&mut parameter);
            calls.push(format!(
                "BatchNormalizationForwardTraining H0 {mode} {alpha} {beta} T0 {x} T1 {y} T4 {scale} {bias} 0.25 {mean} {variance} \
                 {epsilon} {kept} {inverse}"
            ));
        }
        _ => {
            let [dx, dy] = layer.gradients(rng, calls);
            let (dx, dy) = (dx.buffer("B2", "whole"), dy.buffer("B3", "whole"));
            let results = ["whole", "whole"].map(&mut parameter).join(" ");
            let saved = if rng.below(2) == 0 {
                ["whole", "positive"].map(&mut parameter).join(" ")
            } else {
                "NULL NULL".to_owned()
            };
            calls.push(format!(
                "BatchNormalizationBackward H0 {mode} {alpha} {beta} {alpha} {beta} T0 {x} T3 {dy} T2 {dx} T4 {scale} {results} \
                 {epsilon} {saved}"
            ));
        }
    }
}

pub fn respond(rng: &mut Rng, calls: &mut Vec<String>) {
    let (rank, most) = (rng.pick(&[3, 4, 4, 4, 5]), most(rng));
    let dims = extents(rng, rank, most);
    let of = rng.pick(&FLOATS);
    let way = rng.below(3);
    let layer =
        Layer { data: "real", before: "real", ..Layer::draw(rng, of, [&dims, &dims], way < 2, calls) };
    calls.push("CreateLRNDescriptor L0".to_owned());
    calls.push(format!("SetLRNDescriptor L0 {} 0.4 0.75 1.25", 1 + rng.below(16)));
    match way {
        0 => layer.forward(rng, "LRNCrossChannelForward", "L0 0", calls),
        1 => layer.backward(&layer.dx(rng), "LRNCrossChannelBackward", "L0 0", calls),
        _ => {
            let (x, y) = (layer.x.buffer("B0", "real"), layer.y.buffer("B1", "real"));
            let [means, first, second] = [("B2", "real"), ("B3", "scratch"), ("B4", "scratch")]
                .map(|(name, content)| layer.x.buffer(name, content));
            let (alpha, beta) = (&layer.alpha, &layer.beta);
            calls.push(format!(
                "DivisiveNormalizationForward H0 L0 0 {alpha} T0 {x} {means} {first} {second} {beta} T1 {y}"
            ));
        }
    }
}

pub fn drop(rng: &mut Rng, calls: &mut Vec<String>) {
    let (rank, most) = (rng.pick(&[2, 4, 4, 5]), most(rng));
    let dims = extents(rng, rank, most);
    let of = rng.pick(&FLOATS);
    let layer = Layer::draw(rng, of, [&dims, &dims], true, calls);
    calls.push("CreateDropoutDescriptor D0".to_owned());
    calls.push("DropoutGetStatesSize H0 @".to_owned());
    let p = rng.pick(&["0", "0.25", "0.5", "1"]);
    calls.push(format!("SetDropoutDescriptor D0 H0 {p} W0:told told {}", rng.below(1000)));
    calls.push("DropoutGetReserveSpaceSize T0 @".to_owned());
    let (x, y) = (layer.x.buffer("B0", layer.data), layer.y.buffer("B1", "nan"));
    calls.push(format!("DropoutForward H0 D0 T0 {x} T1 {y} W1:told told"));
    let [dx, dy] = layer.gradients(rng, calls);
    let (dx, dy) = (dx.buffer("B2", "nan"), dy.buffer("B3", layer.data));
    calls.push("DropoutGetReserveSpaceSize T0 @".to_owned());
    calls.push(format!("DropoutBackward H0 D0 T3 {dy} T2 {dx} W1 told"));
}

pub fn sample(rng: &mut Rng, calls: &mut Vec<String>) {
    let most = most(rng);
    let x = extents(rng, 4, most);
    let out = extents(rng, 2, 400);
    let y = [x[0], x[1], out[0], out[1]];
    let of = rng.pick(&[Scalar::F32, Scalar::F64, Scalar::F16]);
    let layer = Layer { data: "real", before: "real", ..Layer::draw(rng, of, [&x, &y], true, calls) };
    calls.push("CreateSpatialTransformerDescriptor S0".to_owned());
    calls.push(format!("SetSpatialTransformerNdDescriptor S0 0 {} 4 {}", code(of), list(&y)));
    let pairs = Tensor::packed(of, &[x[0], out[0], out[1], 2]);
    let (grid, places) = (pairs.buffer("B4", "real"), layer.x.buffer("B0", "real"));
    let Layer { alpha, beta, .. } = &layer;
    if rng.below(2) == 0 {
        let y = layer.y.buffer("B1", "real");
        calls.push(format!("SpatialTfSamplerForward H0 S0 {alpha} T0 {places} {grid} {beta} T1 {y}"));
    } else {
        let [dx, dy] = layer.gradients(rng, calls);
        let (dx, dy) = (dx.buffer("B2", "real"), dy.buffer("B3", "real"));
        let dgrid = pairs.buffer("B5", "real");
        calls.push(format!(
            "SpatialTfSamplerBackward H0 S0 {alpha} T0 {places} {beta} T2 {dx} {alpha} T3 {dy} {grid} {beta} {dgrid}"
        ));
    }
}
