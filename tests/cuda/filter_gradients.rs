//! Gradients of filters on Tensor Cores, of channels that lie together, and products whose first
//! matrix is transposed: small integers, whose sums are exact, against the definition and bit for
//! bit; real numbers with the bits of the kernels behind them, cut into parts or not.

use cudnn::dtype::Scalar;
use cudnn::layout::{Dims, Layout, format};
use cudnn::ops::contract::{Accumulate, Parts, Terms};
use cudnn::ops::{Contract, Scaling};

use crate::contract::{Core, differences, lines};
use crate::double;
use crate::multistage::{
    Layer, channels_last, core_of_stages, integers, layers, on_devices, runs_all_layers,
};
use testkit::convolution::Direction;
use testkit::random::Rng;
use testkit::tensor::{Tensor, each};

/// Types of the gradient, of the image and of the gradient of the output.
const TYPES: [[Scalar; 3]; 6] = [
    [Scalar::F16; 3],
    [Scalar::Bf16; 3],
    [Scalar::F32, Scalar::F16, Scalar::F16],
    [Scalar::F16, Scalar::Bf16, Scalar::Bf16],
    [Scalar::Bf16, Scalar::F16, Scalar::F16],
    // As TF32, which these steps allow.
    [Scalar::F32; 3],
];

/// How often kernels of this kind have run.
fn of(core: &Core, what: &str) -> usize {
    core.kernels.iter().filter(|(name, _)| name.contains(what)).map(|(_, count)| count).sum()
}

/// Room for the parts of the sums of a step, with NaNs in it; none if they are not cut.
fn room(step: &mut Contract) -> Option<Tensor> {
    step.workspace = Parts::of(step)?.workspace(step.accumulate)?;
    let floats = step.workspace.div_ceil(4) as i64;
    let layout = Layout { dims: Dims::new(&[1, floats]), strides: Dims::new(&[floats, 1]), split: None };
    Some(Tensor::new(layout, Scalar::F32).fill(|| f64::NAN))
}

/// Layers whose sums are cut: in small tiles, and in large and tall ones, of which groups make
/// many.
fn long() -> Vec<Layer> {
    vec![
        Layer { padding: 1, ..Layer::of([3, 16, 72, 1], vec![40, 31], 3) },
        Layer { padding: 1, stride: 2, ..Layer::of([4, 24, 40, 1], vec![37, 43], 3) },
        Layer::of([1, 72, 72, 40], vec![32, 33], 1),
        Layer::of([1, 72, 16, 40], vec![32, 33], 1),
    ]
}

/// Every layer - on a double half of the short ones -, of some type; with a bias of none, scaled,
/// and added to what was there.
fn convolutions(core: &mut Core) {
    let mut rng = Rng(61);
    let many = Layer::of([1, 72, 72, 80], vec![3, 4], 1);
    let short = layers().into_iter().chain([many]).map(|layer| (layer, false));
    for (case, (layer, is_long)) in short.chain(long().into_iter().map(|layer| (layer, true))).enumerate() {
        // Of one group or the other of six, so that each type is among them.
        if !is_long && !double::does_all() && (case / TYPES.len() + case) % 2 == 1 {
            continue;
        }
        let conv = layer.convolution();
        let order = channels_last(conv.x.len());
        let types = TYPES[case % TYPES.len()];
        let dims = conv.dims(Direction::Filter).map(<[i64]>::to_vec);
        let [dst, a, b] = [0, 1, 2].map(|of| integers(&dims[of], &order, types[of], &mut rng));
        let beta = [0.0, 1.0][case % 2];
        let dst = if beta == 0.0 { Tensor::new(dst.layout, dst.scalar) } else { dst };
        let terms = Terms::scaled(Scaling { alpha: 2.0, beta });
        let operands = [&dst, &a, &b];
        let mut steps = conv.steps(Direction::Filter, operands, Accumulate::Single, &terms).expect("steps");
        steps.iter_mut().for_each(|step| step.allow_conversion = true);
        let (mut want, sums) = (dst.clone(), conv.expected(Direction::Filter, &a, &b));
        let mut next = sums.iter();
        each(&dst.layout.dims, |index| {
            let old = if beta == 0.0 { 0.0 } else { dst.get(index) };
            want.set(index, 2.0 * next.next().unwrap()[0] + old);
        });
        // With room for parts, and without; a double is spared the latter of long ones.
        let rooms = if is_long && !double::does_all() { &[true][..] } else { &[false, true] };
        for &has_room in rooms {
            let mut steps = steps.clone();
            let scratch = if has_room { room(&mut steps[0]) } else { None };
            if has_room && scratch.is_none() {
                assert!(!is_long, "{layer:?} is not cut");
                continue;
            }
            let before = [of(core, "gradient"), of(core, "join")];
            let tensors: Vec<&Tensor> = [&dst, &a, &b].into_iter().chain(&scratch).collect();
            let got = core.run(&steps, &tensors);
            let said = format!("{layer:?}\n{}", lines(&steps));
            assert!(got.same_bytes(&want), "{said}\n{}", differences(&got, &want));
            let ran = [of(core, "gradient") - before[0], of(core, "join") - before[1]];
            assert_eq!(ran, [1, usize::from(has_room)], "{said}: {:?}", core.kernels);
        }
    }
}

/// Real numbers: the bits are those of the kernels without stages, which take pixels that lie off
/// 16 bytes, and are the same in every run.
fn real_numbers(core: &mut Core) {
    let mut rng = Rng(62);
    let layers = [
        (Layer { padding: 1, ..Layer::of([3, 40, 24, 1], vec![9, 7], 3) }, Scalar::F16),
        (Layer { padding: 1, stride: 2, ..Layer::of([2, 24, 64, 1], vec![9, 7], 3) }, Scalar::Bf16),
        (Layer { padding: 1, ..Layer::of([3, 40, 24, 1], vec![9, 7], 3) }, Scalar::F32),
        (long()[1].clone(), Scalar::F16),
        (long()[0].clone(), Scalar::Bf16),
        (long()[0].clone(), Scalar::F32),
    ];
    // Of the last two, which take longest, a double is spared.
    let all = if double::does_all() { layers.len() } else { 4 };
    for (layer, scalar) in layers.into_iter().take(all) {
        let conv = layer.convolution();
        let order = channels_last(4);
        let dims = conv.dims(Direction::Filter).map(<[i64]>::to_vec);
        let mut real = |of: usize| Tensor::packed(&dims[of], &order, scalar).fill(|| rng.real());
        let (a, b) = (real(1), real(2));
        let dst = Tensor::packed(&dims[0], &order, Scalar::F32);
        let terms = Terms::scaled(Scaling::MOVE);
        let mut run = |a: &Tensor, has_room: bool, is_across: bool| {
            let operands = [&dst, a, &b];
            let mut steps =
                conv.steps(Direction::Filter, operands, Accumulate::Single, &terms).expect("steps");
            steps.iter_mut().for_each(|step| step.allow_conversion = true);
            let scratch = if has_room { room(&mut steps[0]) } else { None };
            let before = of(core, "gradient");
            let tensors: Vec<&Tensor> = operands.into_iter().chain(&scratch).collect();
            let got = core.run(&steps, &tensors);
            assert_eq!(of(core, "gradient") > before, is_across, "{}", lines(&steps));
            got
        };
        // One channel more between pixels.
        let mut outer = dims[1].clone();
        outer[1] += 1;
        let strides = format::packed_strides(&outer, &order).expect("few elements");
        let mut apart = Tensor::new(Layout { dims: Dims::new(&dims[1]), strides, split: None }, scalar);
        each(&dims[1], |at| apart.set(at, a.get(at)));
        for has_room in [false, true] {
            let got = run(&a, has_room, true);
            let other = run(&apart, has_room, false);
            assert!(other.same_bytes(&got), "{layer:?}, {has_room}\n{}", differences(&got, &other));
            assert!(run(&a, has_room, true).same_bytes(&got), "{layer:?}, {has_room}: another run");
        }
    }
}

fn all() {
    let Some(mut core) = core_of_stages() else { return };
    real_numbers(&mut core);
    if !runs_all_layers() {
        return;
    }
    convolutions(&mut core);
    for tile in ["_128x128", "_128x64", "_64x64"] {
        let is_it = |name: &&str| name.contains("gradient") && name.ends_with(tile);
        assert!(core.kernels.keys().any(is_it), "{tile}: {:?}", core.kernels);
    }
}

#[test]
fn gradients_of_filters_agree_with_the_definition() {
    on_devices(all);
}

/// Devices before 8.0 have the kernels of before, with and without Tensor Cores.
#[test]
fn earlier_devices_have_no_kernels_of_transposed_operands() {
    for capability in ["70", "75"] {
        double::run(&[("DRIVER_DOUBLE_CAPABILITY", capability)], || {
            double::use_device(0);
            if double::capability(0) >= 80 {
                return println!("skipped: a device that has kernels of several stages");
            }
            let mut core = Core::new(double::capability(0));
            let mut rng = Rng(63);
            let layer = Layer { padding: 1, ..Layer::of([2, 16, 24, 1], vec![6, 5], 3) };
            let conv = layer.convolution();
            let dims = conv.dims(Direction::Filter).map(<[i64]>::to_vec);
            let [dst, a, b] =
                [0, 1, 2].map(|of| integers(&dims[of], &channels_last(4), Scalar::F16, &mut rng));
            let terms = Terms::scaled(Scaling::MOVE);
            let steps = conv.steps(Direction::Filter, [&dst, &a, &b], Accumulate::Single, &terms);
            let got = core.run(&steps.expect("steps"), &[&dst, &a, &b]);
            let (mut want, sums) = (dst.clone(), conv.expected(Direction::Filter, &a, &b));
            let mut next = sums.iter();
            each(&dst.layout.dims, |index| want.set(index, next.next().unwrap()[0]));
            assert!(got.same_bytes(&want), "{}", differences(&got, &want));
            assert_eq!(of(&core, "gradient"), 0);
        });
    }
}
