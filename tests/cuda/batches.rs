//! An image has the same bits alone and in a batch of any size, whatever kernels serve either on
//! the CUDA core.

use cudnn::desc::{
    ConvolutionDescriptor, ConvolutionGeometry, ConvolutionMode, FilterDescriptor, Format, MathType,
    TensorDescriptor,
};
use cudnn::dtype::{DataType, Scalar};
use cudnn::exec::{CallReport, Context};
use cudnn::layout::{Dims, Layout, format};
use cudnn::mode::Mode;
use cudnn::ops::contract::{Accumulate, Geometry, Terms};
use cudnn::ops::convolution::{self, Algorithm, ConvolutionPlan};
use cudnn::ops::{Plan, Scaling};

use crate::contract::Core;
use crate::double::{self, Memory};
use testkit::convolution::{Convolution, Direction};
use testkit::random::Rng;
use testkit::tensor::{Tensor, each};

/// NCHW and NHWC.
const ORDERS: [[usize; 4]; 2] = [[0, 1, 2, 3], [0, 2, 3, 1]];

/// A batch of images of `channels` in and out and windows of `taps` x `taps`, and each image of
/// some alone.
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

/// Channels in and out, the side of images, and the taps and stride of windows.
#[derive(Clone, Copy, Debug)]
struct Layer {
    channels: [i64; 2],
    side: i64,
    taps: i64,
    stride: i64,
}

/// Layers of networks: of the smallest the data gradient sums 1,152 terms of each of few results,
/// of a large batch of many.
const LAYERS: [Layer; 4] = [
    Layer { channels: [8, 128], side: 8, taps: 3, stride: 1 },
    Layer { channels: [16, 1100], side: 5, taps: 1, stride: 1 },
    Layer { channels: [1030, 12], side: 4, taps: 1, stride: 1 },
    Layer { channels: [10, 300], side: 9, taps: 3, stride: 2 },
];

impl Layer {
    /// What a direction makes of `images` images by an algorithm, with all the workspace that the
    /// query tells: x or y of the operands.
    fn compute(
        self, direction: convolution::Direction, images: i64, types: (DataType, DataType, MathType),
        layout: Format, [image, filter]: [&[u8]; 2],
    ) -> Vec<u8> {
        let Layer { channels: [c, k], side, taps, stride } = self;
        let (data, compute, math_type) = types;
        let out = (side + 2 * (taps / 2) - taps) / stride + 1;
        let tensor = |dims: [i64; 4]| {
            TensorDescriptor::with_format(data, layout, 4, &dims, Mode::Extended).expect("a tensor")
        };
        let (x, y) = (tensor([images, c, side, side]), tensor([images, k, out, out]));
        let w =
            FilterDescriptor::new(data, layout, 4, &[k, c, taps, taps], Mode::Extended).expect("a filter");
        let pairs = [taps / 2, stride, 1].map(|value| Dims::new(&[value; 2]));
        let [padding, strides, dilation] = pairs;
        let mode = ConvolutionMode::CrossCorrelation;
        let geometry = ConvolutionGeometry::new(mode, compute, padding, strides, dilation).expect("valid");
        let desc = ConvolutionDescriptor { geometry, math_type, ..ConvolutionDescriptor::default() };
        let problem =
            convolution::Convolution::new(direction, &desc, &x, &w, &y, Mode::Extended).expect("fits");
        let plan = ConvolutionPlan::new(&problem, Scaling::MOVE).expect("a plan");
        let algorithm = Algorithm::new(direction, 1).expect("an algorithm");
        let context = Context::create().expect("a handle");
        let told = context.convolution_workspace(&problem, algorithm).expect("a size");
        let bytes = |span: (i64, i64)| (span.1 - span.0) as usize;
        let sizes: Vec<usize> = plan.operands().iter().map(|operand| bytes(operand.span)).collect();
        let [result, of_images, of_filter] = [vec![0; sizes[0]], image.to_vec(), filter.to_vec()];
        assert_eq!([of_images.len(), of_filter.len()], [sizes[1], sizes[2]], "{self:?}");
        let memory = [&result, &of_images, &of_filter, &vec![0xff; told]].map(|bytes| Memory::new(bytes));
        let names = plan.operands().iter().map(|operand| operand.name).chain(["workSpace"]);
        let mut bound = [("workSpace", memory[3].pointer().into()); 4];
        bound
            .iter_mut()
            .zip(names.zip(&memory))
            .for_each(|(bound, (name, memory))| *bound = (name, memory.pointer().into()));
        let mut heard = CallReport::default();
        // SAFETY: device memory of the operands' spans, which begin at their pointers, and of the
        // workspace that was told.
        let done = context.call("a test", &mut heard, |call| unsafe {
            call.convolve(plan, &problem, algorithm, told, bound)
        });
        done.expect("the CUDA core computes it");
        memory[0].read()
    }

    /// Images of a batch, and the same ones alone, in pairs and by sixteens; in one layout, and of
    /// a batch of 20 instead of 128, unless tests do everything.
    fn check(
        self, direction: convolution::Direction, types: (DataType, DataType, MathType), layout: Format,
        rng: &mut Rng,
    ) {
        let Layer { channels: [c, k], side, taps, stride } = self;
        let out = (side + 2 * (taps / 2) - taps) / stride + 1;
        let is_forward = direction == convolution::Direction::Forward;
        let (inputs, outputs) = (c * side * side, k * out * out);
        let [from, to] = if is_forward { [inputs, outputs] } else { [outputs, inputs] };
        let size = types.0.size();
        let mut numbers =
            |count: i64| -> Vec<u8> { (0..count).flat_map(|_| number(types.0, rng.real())).collect() };
        let filter = numbers(k * c * taps * taps);
        let batch = if double::is_full() { 128 } else { 20 };
        let all = numbers(batch as i64 * from);
        let [each, made] = [from, to].map(|elements| elements as usize * size);
        let layouts: &[Format] = if double::is_full() { &[Format::Nchw, Format::Nhwc] } else { &[layout] };
        for &layout in layouts {
            let compute = |first: usize, images: usize| {
                let some = &all[first * each..(first + images) * each];
                self.compute(direction, images as i64, types, layout, [some, &filter])
            };
            let together = compute(0, batch);
            for (first, images) in [(0, 1), (batch - 1, 1), (batch / 4, 2), (batch / 2 - 6, 16)] {
                assert!(
                    compute(first, images) == together[first * made..(first + images) * made],
                    "{self:?} {direction:?} {types:?} {layout:?}: {images} images from {first} on have other bits in a batch of {batch}"
                );
            }
        }
    }
}

/// The bytes of a number of this type.
fn number(data_type: DataType, value: f64) -> Vec<u8> {
    match data_type {
        DataType::Double => value.to_le_bytes().to_vec(),
        DataType::Float => (value as f32).to_le_bytes().to_vec(),
        DataType::Half => half::f16::from_f64(value).to_le_bytes().to_vec(),
        _ => half::bf16::from_f64(value).to_le_bytes().to_vec(),
    }
}

fn layers(capability: u32) {
    double::use_device(0);
    if double::capability(0) < 80 && capability >= 80 {
        return println!("skipped: images of a batch on Tensor Cores, which this device has not");
    }
    let mut rng = Rng(43);
    let types = [
        (DataType::Float, DataType::Float, MathType::default()),
        (DataType::Float, DataType::Float, MathType::TensorOpWithConversion),
        (DataType::Half, DataType::Float, MathType::default()),
        (DataType::Bfloat16, DataType::Float, MathType::default()),
        (DataType::Double, DataType::Double, MathType::default()),
    ];
    for (k, types) in types.into_iter().enumerate() {
        let layout = if k % 2 == 0 { Format::Nchw } else { Format::Nhwc };
        // The double is a slow device: each type has one of the layers there.
        for (number, layer) in LAYERS.into_iter().enumerate() {
            if double::is_full() || number == k % LAYERS.len() {
                layer.check(convolution::Direction::BackwardData, types, layout, &mut rng);
            }
        }
        if double::is_full() {
            LAYERS[k % LAYERS.len()].check(convolution::Direction::Forward, types, layout, &mut rng);
        }
    }
}

#[test]
fn data_gradients_do_not_depend_on_their_batch() {
    double::run(&[("DRIVER_DOUBLE_CAPABILITY", "70")], || layers(70));
}

#[test]
fn data_gradients_do_not_depend_on_their_batch_on_tensor_cores() {
    double::run(&[("DRIVER_DOUBLE_CAPABILITY", "80")], || layers(80));
}
