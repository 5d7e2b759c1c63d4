//! An image has the same bits alone and in a batch of any size, whatever kernels serve either on the CUDA core.

use cudnn::dtype::Scalar;
use cudnn::layout::{Dims, Layout, format};
use cudnn::ops::Scaling;
use cudnn::ops::contract::{Accumulate, Geometry, Terms};

use crate::contract::Core;
use crate::double;
use testkit::convolution::{Convolution, Direction};
use testkit::random::Rng;
use testkit::tensor::{Tensor, each};

/// NCHW and NHWC.
const ORDERS: [[usize; 4]; 2] = [[0, 1, 2, 3], [0, 2, 3, 1]];

/// A batch of images of `channels` in and out and windows of `taps` x `taps`, and each image of some alone.
fn check(core: &mut Core, [c, k]: [i64; 2], side: i64, taps: i64, types: [Scalar; 3], rng: &mut Rng) {
    const IMAGES: i64 = 70;
    let geometry = Geometry {
        padding: Dims::new(&[taps / 2; 2]),
        strides: Dims::new(&[1, 1]),
        dilation: Dims::new(&[1, 1]),
        groups: 1,
        flip: false,
    };
    for order in ORDERS {
        let tensor = |dims: &[i64], scalar| {
            let strides = format::packed_strides(dims, &order).expect("few elements");
            Tensor::new(Layout { dims: Dims::new(dims), strides, split: None }, scalar)
        };
        let of = |images: i64| Convolution {
            geometry,
            x: vec![images, c, side, side],
            w: vec![k, c, taps, taps],
            y: vec![images, k, side, side],
        };
        let terms = Terms::scaled(Scaling::MOVE);
        let mut compute = |images: i64, x: &Tensor, w: &Tensor| {
            let conv = of(images);
            let y = tensor(&conv.y, types[0]);
            let mut steps =
                conv.steps(Direction::Forward, [&y, x, w], Accumulate::Single, &terms).expect("steps");
            steps.iter_mut().for_each(|step| step.allow_conversion = true);
            core.run(&steps, &[&y, x, w])
        };
        let mut real = |t: Tensor| t.fill(|| rng.real());
        let all = of(IMAGES);
        let (x, w) = (real(tensor(&all.x, types[1])), real(tensor(&all.w, types[2])));
        let together = compute(IMAGES, &x, &w);
        for (first, images) in [(0, 1), (IMAGES - 1, 1), (5, 9)] {
            let part = of(images);
            let mut some = tensor(&part.x, types[1]);
            each(&part.x, |at| some.set(at, x.get(&[at[0] + first, at[1], at[2], at[3]])));
            let alone = compute(images, &some, &w);
            each(&part.y, |at| {
                let want = together.get(&[at[0] + first, at[1], at[2], at[3]]);
                let got = alone.get(at);
                assert!(
                    got.to_bits() == want.to_bits(),
                    "{types:?}, {images} from {first} on, {at:?}: {got}, {want}"
                );
            });
        }
    }
}

fn all(capability: u32) {
    double::use_device(0);
    if double::capability(0) < 80 && capability >= 80 {
        return println!("skipped: images of a batch on Tensor Cores, which this device has not");
    }
    let mut core = Core::new(double::capability(0));
    let mut rng = Rng(41);
    for types in [[Scalar::F32; 3], [Scalar::F16; 3], [Scalar::F32, Scalar::Bf16, Scalar::Bf16]] {
        // A fully connected layer, a window on few pixels, and few filters.
        check(&mut core, [700, 40], 1, 1, types, &mut rng);
        check(&mut core, [24, 70], 3, 3, types, &mut rng);
        check(&mut core, [40, 5], 4, 3, types, &mut rng);
    }
}

#[test]
fn images_do_not_depend_on_their_batch() {
    double::run(&[("DRIVER_DOUBLE_CAPABILITY", "70")], || all(70));
}

#[test]
fn images_do_not_depend_on_their_batch_on_tensor_cores() {
    double::run(&[("DRIVER_DOUBLE_CAPABILITY", "80")], || all(80));
}
