//! Contractions on Tensor Cores whose operands lie in vectors of 16 bytes, by the kernels of
//! several stages: small integers, whose sums are exact, against the definition and bit for bit;
//! real numbers with the bits of the kernels behind them.

use cudnn::backend::reference;
use cudnn::dtype::Scalar;
use cudnn::layout::{Dims, Layout, format};
use cudnn::ops::activation::Activation;
use cudnn::ops::contract::{Accumulate, Geometry, Terms};
use cudnn::ops::function::Function;
use cudnn::ops::{Contract, Scaling};

use crate::contract::{Core, differences, lines, ordered, side};
use crate::double;
use testkit::convolution::{Convolution, Direction};
use testkit::random::Rng;
use testkit::tensor::{Tensor, each};

/// Types of dst, a and b.
const TYPES: [[Scalar; 3]; 5] = [
    [Scalar::F16; 3],
    [Scalar::Bf16; 3],
    [Scalar::F32, Scalar::F16, Scalar::F16],
    [Scalar::F16, Scalar::Bf16, Scalar::Bf16],
    // As TF32, which these steps allow.
    [Scalar::F32; 3],
];

/// Channels innermost.
pub fn channels_last(rank: usize) -> Vec<usize> {
    let spatial = 2..rank;
    [0].into_iter().chain(spatial).chain([1]).collect()
}

/// A layer of so many images, channels and filters of a group, and groups.
#[derive(Clone, Debug)]
pub struct Layer {
    pub counts: [i64; 4],
    pub extents: Vec<i64>,
    pub taps: i64,
    pub padding: i64,
    pub stride: i64,
    pub dilation: i64,
    pub flip: bool,
}

impl Layer {
    pub const fn of(counts: [i64; 4], extents: Vec<i64>, taps: i64) -> Layer {
        Layer { counts, extents, taps, padding: 0, stride: 1, dilation: 1, flip: false }
    }

    pub fn convolution(&self) -> Convolution {
        let [n, c, k, groups] = self.counts;
        let rank = self.extents.len();
        let all = |value: i64| Dims::new(&vec![value; rank]);
        let out = |extent: &i64| {
            (extent + 2 * self.padding - (self.taps - 1) * self.dilation - 1) / self.stride + 1
        };
        Convolution {
            geometry: Geometry {
                padding: all(self.padding),
                strides: all(self.stride),
                dilation: all(self.dilation),
                groups,
                flip: self.flip,
            },
            x: [n, c * groups].into_iter().chain(self.extents.iter().copied()).collect(),
            w: [k * groups, c].into_iter().chain((0..rank).map(|_| self.taps)).collect(),
            y: [n, k * groups].into_iter().chain(self.extents.iter().map(out)).collect(),
        }
    }
}

/// Layers of few and of many channels, of every kind of window.
pub fn layers() -> Vec<Layer> {
    let plane = |counts: [i64; 4], taps: i64| Layer::of(counts, vec![9, 7], taps);
    vec![
        plane([1, 64, 64, 1], 1),
        Layer { padding: 1, ..plane([2, 32, 40, 1], 3) },
        Layer { padding: 1, stride: 2, ..plane([2, 64, 32, 1], 3) },
        Layer { padding: 2, dilation: 2, flip: true, ..plane([1, 32, 32, 1], 3) },
        // Channels of which a step has several taps, or a part of one.
        Layer { padding: 1, ..plane([3, 8, 24, 1], 3) },
        Layer { padding: 1, flip: true, ..plane([1, 24, 16, 1], 3) },
        Layer { padding: 3, stride: 2, ..plane([1, 16, 72, 1], 5) },
        Layer { padding: 1, ..plane([1, 72, 8, 1], 3) },
        // Groups; a line; a volume.
        Layer { padding: 1, ..plane([2, 32, 32, 3], 3) },
        Layer { padding: 1, ..Layer::of([2, 40, 32, 1], vec![33], 3) },
        Layer { padding: 1, ..Layer::of([1, 16, 32, 1], vec![4, 5, 3], 3) },
        // Enough groups for the large tiles, and for the tall ones.
        Layer::of([1, 8, 72, 80], vec![9, 8], 1),
        Layer::of([1, 8, 32, 80], vec![9, 8], 1),
        Layer::of([1, 72, 32, 80], vec![9, 8], 1),
    ]
}

pub fn integers(dims: &[i64], order: &[usize], scalar: Scalar, rng: &mut Rng) -> Tensor {
    Tensor::packed(dims, order, scalar).fill(|| rng.below(5) as f64 - 2.0)
}

/// How often kernels of several stages have run.
fn of_stages(core: &Core) -> usize {
    core.kernels.iter().filter(|(name, _)| name.contains("multistage")).map(|(_, count)| count).sum()
}

/// Every layer in both directions, of some type.
fn convolutions(core: &mut Core) {
    let mut rng = Rng(51);
    for (case, layer) in layers().iter().enumerate() {
        let conv = layer.convolution();
        let order = channels_last(conv.x.len());
        for (turn, direction) in [Direction::Forward, Direction::Data].into_iter().enumerate() {
            let types = TYPES[(case + 3 * turn) % TYPES.len()];
            let dims = conv.dims(direction).map(<[i64]>::to_vec);
            let [dst, a, b] = [0, 1, 2].map(|of| integers(&dims[of], &order, types[of], &mut rng));
            let beta = [0.0, 1.0][case % 2];
            let dst = if beta == 0.0 { Tensor::new(dst.layout, dst.scalar) } else { dst };
            let terms = Terms::scaled(Scaling { alpha: 2.0, beta });
            let mut steps = conv.steps(direction, [&dst, &a, &b], Accumulate::Single, &terms).expect("steps");
            steps.iter_mut().for_each(|step| step.allow_conversion = true);
            let (mut want, sums) = (dst.clone(), conv.expected(direction, &a, &b));
            let mut next = sums.iter();
            each(&dst.layout.dims, |index| {
                let old = if beta == 0.0 { 0.0 } else { dst.get(index) };
                want.set(index, 2.0 * next.next().unwrap()[0] + old);
            });
            let before = of_stages(core);
            let got = core.run(&steps, &[&dst, &a, &b]);
            let said = format!("{layer:?}, {direction:?}\n{}", lines(&steps));
            assert!(got.same_bytes(&want), "{said}\n{}", differences(&got, &want));
            // Gradients of sums whose parts are no whole steps, and of pixels that few taps reach.
            let has_columns = layer.counts[2] * types[2].size() as i64 % 64 == 0;
            let whole = direction == Direction::Forward || has_columns;
            assert!(!whole || of_stages(core) > before, "{said}: {:?}", core.kernels);
        }
    }
}

/// Products with a sum, a bias and an activation, of every type that fragments finish in.
fn matrices(core: &mut Core) {
    let mut rng = Rng(52);
    let finished = [Scalar::F16, Scalar::Bf16, Scalar::F32];
    let functions = [
        None,
        Some(Function::Relu),
        Some(Function::ReluOrNan),
        Some(Function::ClippedRelu),
        Some(Function::ClippedReluOrNan),
    ];
    for case in 0..30 {
        let [g, m, n, k] = [
            1 + case % 3,
            1 + rng.below(150) as i64,
            8 * (1 + rng.below(20) as i64),
            [8, 40, 64, 32, 96][case as usize % 5],
        ];
        let of = |at: i64| finished[(case + at) as usize % 3];
        let factor = [Scalar::F16, Scalar::Bf16][case as usize % 2];
        // `b` by its terms, or by its columns.
        let b_order = if case % 4 < 2 { [0, 2, 1] } else { [0, 1, 2] };
        let plain = [0, 1, 2];
        let mut made = |dims: [i64; 3], order, scalar| ordered(&mut rng, dims, dims, order, scalar);
        let c = made([g, m, n], plain, of(0));
        let (mut a, mut b) = (made([g, m, k], plain, factor), made([g, k, n], b_order, factor));
        let mut z = made([g, m, n], plain, of(1));
        let mut bias = made([1, if case % 7 == 0 { m } else { 1 }, n], plain, of(2));
        let function = functions[case as usize % functions.len()];
        let terms = Terms {
            scaling: Scaling { alpha: 1.0, beta: [0.0, 1.0][case as usize % 2] },
            z: (case % 4 > 1).then(|| (side(&z), 2.0)),
            bias: (case % 5 > 1).then(|| side(&bias)),
            activation: function.map(|function| Activation { function, parameter: 6.0 }),
        };
        let step = Contract::matmul(side(&c), side(&a), side(&b), Accumulate::Single, &terms).unwrap();
        let (has_z, has_bias) = (step.z_slot().is_some(), step.bias_slot().is_some());
        let mut want = c.clone();
        let mut at = vec![want.base(), a.base(), b.base()];
        at.extend(has_z.then(|| z.base()));
        at.extend(has_bias.then(|| bias.base()));
        // SAFETY: the memory of the tensors holds all their elements.
        unsafe { reference::contract(&step, &at) };
        let mut tensors = vec![&c, &a, &b];
        tensors.extend(has_z.then_some(&z));
        tensors.extend(has_bias.then_some(&bias));
        let before = of_stages(core);
        let got = core.run(&[step], &tensors);
        assert!(got.same_bytes(&want), "case {case}: {step}\n{}", differences(&got, &want));
        let whole = case % 4 < 2 || k % 32 == 0;
        assert_eq!(of_stages(core) > before, whole, "case {case}: {step}\n{:?}", core.kernels);
    }
}

/// Products and convolutions of signed bytes, with everything that their results end with: scales
/// that have them round and saturate, z, a bias and an activation.
fn bytes(core: &mut Core) {
    let mut rng = Rng(55);
    let ends = [Scalar::I8, Scalar::F32];
    let mut steps = Vec::new();
    for case in 0..12 {
        let [m, n, k] = [1 + rng.below(150) as i64, 16 * (1 + rng.below(9) as i64), 16 * (1 + case % 6)];
        let mut made = |dims: [i64; 3], order, scalar| ordered(&mut rng, dims, dims, order, scalar);
        let (plain, across) = ([0, 1, 2], [0, 2, 1]);
        let case = case as usize;
        let c = made([2, m, n], plain, ends[case % 2]);
        let (a, b) = (made([2, m, k], plain, Scalar::I8), made([2, k, n], across, Scalar::I8));
        let z = made([2, m, n], plain, ends[case / 2 % 2]);
        let bias = made([1, 1, n], plain, Scalar::F32);
        let activation = [None, Some(Function::Relu), Some(Function::ClippedRelu)][case % 3];
        let terms = Terms {
            scaling: Scaling { alpha: 9.75, beta: [0.0, 0.5][case % 2] },
            z: (case % 4 > 1).then(|| (side(&z), 2.5)),
            bias: (case % 5 > 1).then(|| side(&bias)),
            activation: activation.map(|function| Activation { function, parameter: 6.0 }),
        };
        let step = Contract::matmul(side(&c), side(&a), side(&b), Accumulate::Int32, &terms).unwrap();
        steps.push((step, vec![c, a, b, z, bias]));
    }
    let plain = layers().into_iter().filter(|layer| layer.counts[1] % 16 == 0 && layer.counts[2] % 16 == 0);
    // Of blocks of 32 channels, as the original's vectors of bytes lie.
    let in_blocks = Layer { padding: 1, ..Layer::of([2, 64, 96, 1], vec![9, 7], 3) };
    for (layer, is_blocked) in plain.map(|layer| (layer, false)).chain([(in_blocks, true)]) {
        let conv = layer.convolution();
        let order = channels_last(conv.x.len());
        let whole = |scalar| if scalar == Scalar::F32 { 1.0 } else { 25.0 };
        let mut made = |dims: &[i64], scalar| {
            let empty = match is_blocked {
                true => Tensor::new(Layout::blocked(dims, 1, 32).expect("whole blocks"), scalar),
                false => Tensor::packed(dims, &order, scalar),
            };
            empty.fill(|| (rng.below(11) as f64 - 5.0) * whole(scalar))
        };
        let c = made(&conv.y, ends[steps.len() % 2]);
        let (a, b) = (made(&conv.x, Scalar::I8), made(&conv.w, Scalar::I8));
        let mut dims = vec![1; conv.y.len()];
        dims[1] = conv.y[1];
        let bias = Tensor::packed(&dims, &order, Scalar::F32).fill(|| rng.below(11) as f64 - 5.0);
        let terms = Terms {
            bias: Some(bias.side()),
            activation: Some(Activation { function: Function::Relu, parameter: 0.0 }),
            ..Terms::scaled(Scaling { alpha: 0.0009765625, beta: 0.0 })
        };
        let made = conv.steps(Direction::Forward, [&c, &a, &b], Accumulate::Int32, &terms).expect("steps");
        steps.push((made[0], vec![c.clone(), a, b, c, bias]));
    }
    for (step, mut tensors) in steps {
        let mut want = tensors[0].clone();
        let (has_z, has_bias) = (step.z_slot().is_some(), step.bias_slot().is_some());
        let given = |k: usize| k < 3 || (k == 3 && has_z) || (k == 4 && has_bias);
        let mut at = vec![want.base()];
        at.extend(tensors.iter_mut().enumerate().skip(1).filter(|(k, _)| given(*k)).map(|(_, t)| t.base()));
        // SAFETY: the memory of the tensors holds all their elements.
        unsafe { reference::contract(&step, &at) };
        let tensors: Vec<&Tensor> =
            tensors.iter().enumerate().filter(|(k, _)| given(*k)).map(|(_, tensor)| tensor).collect();
        let before = of_stages(core);
        let got = core.run(&[step], &tensors);
        assert!(got.same_bytes(&want), "{step}\n{}", differences(&got, &want));
        assert!(of_stages(core) > before, "{step}: {:?}", core.kernels);
    }
}

/// Real numbers: the bits are those of the kernels without stages, which take pixels that lie off
/// 16 bytes, and those of an image alone are those of any batch.
fn real_numbers(core: &mut Core) {
    let mut rng = Rng(53);
    for (layer, direction, scalar) in [
        (Layer { padding: 1, ..Layer::of([3, 40, 24, 1], vec![9, 7], 3) }, Direction::Forward, Scalar::F16),
        (Layer { padding: 1, ..Layer::of([2, 24, 64, 1], vec![9, 7], 3) }, Direction::Data, Scalar::Bf16),
        (
            Layer { padding: 1, ..Layer::of([2, 16, 72, 1], vec![72, 75], 3) },
            Direction::Forward,
            Scalar::Bf16,
        ),
        (Layer { padding: 1, ..Layer::of([3, 20, 24, 1], vec![9, 7], 3) }, Direction::Forward, Scalar::F32),
        (Layer { padding: 1, ..Layer::of([2, 24, 48, 1], vec![9, 7], 3) }, Direction::Data, Scalar::F32),
    ] {
        let conv = layer.convolution();
        let order = channels_last(4);
        let types = [Scalar::F32, scalar, scalar];
        let dims = conv.dims(direction).map(<[i64]>::to_vec);
        let mut real = |of: usize| Tensor::packed(&dims[of], &order, types[of]).fill(|| rng.real());
        let (a, b) = (real(1), real(2));
        let dst = Tensor::packed(&dims[0], &order, types[0]);
        let terms = Terms::scaled(Scaling::MOVE);
        let mut run = |a: &Tensor, dst: &Tensor, images: i64, has_stages: bool| {
            let mut part = layer.clone();
            part.counts[0] = images;
            let conv = part.convolution();
            let mut steps = conv.steps(direction, [dst, a, &b], Accumulate::Single, &terms).expect("steps");
            steps.iter_mut().for_each(|step| step.allow_conversion = true);
            let before = of_stages(core);
            let got = core.run(&steps, &[dst, a, &b]);
            assert_eq!(of_stages(core) > before, has_stages, "{}", lines(&steps));
            got
        };
        let images = dims[1][0];
        let got = run(&a, &dst, images, true);
        // One channel more between pixels.
        let mut outer = dims[1].clone();
        outer[1] += 1;
        let strides = format::packed_strides(&outer, &order).expect("few elements");
        let mut apart = Tensor::new(Layout { dims: Dims::new(&dims[1]), strides, split: None }, scalar);
        each(&dims[1], |at| apart.set(at, a.get(at)));
        let other = run(&apart, &dst, images, false);
        assert!(other.same_bytes(&got), "{layer:?}, {direction:?}\n{}", differences(&got, &other));
        // The last image.
        let (mut one, mut whole) = (dims[1].clone(), dims[0].clone());
        (one[0], whole[0]) = (1, 1);
        let mut image = Tensor::packed(&one, &order, scalar);
        each(&one, |at| image.set(at, a.get(&[images - 1, at[1], at[2], at[3]])));
        let alone = run(&image, &Tensor::packed(&whole, &order, types[0]), 1, true);
        each(&whole, |at| {
            let want = got.get(&[images - 1, at[1], at[2], at[3]]);
            assert!(alone.get(at).to_bits() == want.to_bits(), "{layer:?}, {direction:?}, {at:?}");
        });
    }
}

fn all() {
    let Some(mut core) = core_of_stages() else { return };
    matrices(&mut core);
    bytes(&mut core);
    real_numbers(&mut core);
    if !runs_all_layers() {
        return;
    }
    convolutions(&mut core);
    // The text of every tile runs here for one type at least; `ptx_coverage.rs` runs them all.
    for tile in ["_128x128", "_128x64", "_64x64", "_128x128_columns", "_128x64_columns", "_64x64_columns"] {
        assert!(core.kernels.keys().any(|name| name.ends_with(tile)), "{tile}: {:?}", core.kernels);
    }
}

/// Runs the checks of kernels of several stages on the devices that are looked at.
pub fn on_devices(all: fn()) {
    // Later devices run the same kernels on a double.
    let capabilities = if double::is_full() { &["80", "90"][..] } else { &["80"] };
    for capability in capabilities {
        double::run(&[("CUDNN_SHIM_CHECK", "1"), ("DRIVER_DOUBLE_CAPABILITY", capability)], all);
    }
}

/// The device of this process, if it has kernels of several stages.
pub fn core_of_stages() -> Option<Core> {
    double::use_device(0);
    let capability = double::capability(0);
    if capability < 80 {
        println!("skipped: kernels of several stages, which this device has not");
        return None;
    }
    Some(Core::new(capability))
}

/// Whether it runs all layers: on a double later devices run the same kernels.
pub fn runs_all_layers() -> bool {
    double::capability(0) <= 80 || double::is_real()
}

#[test]
fn kernels_of_several_stages_agree_with_the_definition() {
    on_devices(all);
}

/// Runs a test on a device before 8.0, which has no kernels of several stages.
pub fn on_earlier_device(test: impl FnOnce(Core)) {
    double::run(&[("DRIVER_DOUBLE_CAPABILITY", "75")], || {
        double::use_device(0);
        if double::capability(0) >= 80 {
            return println!("skipped: a device that has kernels of several stages");
        }
        test(Core::new(double::capability(0)));
    });
}

/// Devices before 8.0 have the kernels of before.
#[test]
fn earlier_devices_have_no_kernels_of_several_stages() {
    on_earlier_device(|mut core| {
        let mut rng = Rng(54);
        let [c, a, b] = [[1, 64, 64], [1, 64, 32], [1, 32, 64]]
            .map(|dims| ordered(&mut rng, dims, dims, [0, 1, 2], Scalar::F16));
        let terms = Terms::scaled(Scaling::MOVE);
        let step = Contract::matmul(side(&c), side(&a), side(&b), Accumulate::Single, &terms).unwrap();
        core.run(&[step], &[&c, &a, &b]);
        assert_eq!(of_stages(&core), 0);
    });
}
