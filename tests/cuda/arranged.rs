//! Convolutions whose operands a GPU moves to the workspace first, so that kernels of several
//! stages multiply them: small integers, whose sums are exact, against the definition and bit for
//! bit, with and without room; real numbers with the bits of the call on tensors that were moved by
//! hand, in every run, and of an image in any batch.

use cudnn::desc::{
    ActivationDescriptor, ActivationMode, ConvolutionDescriptor, ConvolutionGeometry, ConvolutionMode,
    FilterDescriptor, Format, MathType, TensorDescriptor,
};
use cudnn::dtype::DataType;
use cudnn::exec::{CallReport, Context};
use cudnn::mode::Mode;
use cudnn::ops::convolution::{self, Algorithm, ConvolutionPlan, Fused};
use cudnn::ops::{Plan, Scaling};

use crate::contract::differences;
use crate::double::{self, Memory};
use crate::multistage::{Layer, on_devices};
use testkit::convolution::{DIRECTIONS, Direction};
use testkit::random::Rng;
use testkit::tensor::{Tensor, each};

/// What is told where nothing is of use.
const LEAST: usize = 16;

/// A type and the math type that has Tensor Cores multiply it.
const TYPES: [(DataType, MathType); 3] = [
    (DataType::Half, MathType::Standard),
    (DataType::Bfloat16, MathType::Standard),
    (DataType::Float, MathType::TensorOpWithConversion),
];

/// One convolution and how its tensors lie.
#[derive(Clone, Debug)]
struct Case {
    layer: Layer,
    direction: Direction,
    types: (DataType, MathType),
    format: Format,
}

/// What a call gets beside its operands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Room {
    /// As the query tells.
    Told,
    /// A byte less than that.
    Less,
    /// The number that takes none.
    Nothing,
}

/// Added, and applied, behind a forward convolution.
struct Rest<'a> {
    z: &'a Tensor,
    /// Whether z is the destination.
    in_place: bool,
    bias: &'a Tensor,
}

/// What a call did.
struct Done {
    result: Tensor,
    /// Whether kernels of several stages multiplied.
    has_stages: bool,
    told: usize,
    plan: String,
}

impl Case {
    fn direction(&self) -> convolution::Direction {
        match self.direction {
            Direction::Forward => convolution::Direction::Forward,
            Direction::Data => convolution::Direction::BackwardData,
            Direction::Filter => convolution::Direction::BackwardFilter,
        }
    }

    fn tensor_of(&self, dims: &[i64]) -> TensorDescriptor {
        TensorDescriptor::with_format(self.types.0, self.format, dims.len() as i64, dims, Mode::Extended)
            .expect("a tensor")
    }

    fn problem(&self) -> convolution::Convolution {
        let conv = self.layer.convolution();
        let w =
            FilterDescriptor::new(self.types.0, self.format, conv.w.len() as i64, &conv.w, Mode::Extended)
                .expect("a filter");
        let mode =
            if self.layer.flip { ConvolutionMode::Convolution } else { ConvolutionMode::CrossCorrelation };
        let of = &conv.geometry;
        let geometry = ConvolutionGeometry::new(mode, DataType::Float, of.padding, of.strides, of.dilation)
            .expect("a window");
        let desc =
            ConvolutionDescriptor { geometry, math_type: self.types.1, ..ConvolutionDescriptor::default() };
        let (x, y) = (self.tensor_of(&conv.x), self.tensor_of(&conv.y));
        convolution::Convolution::new(self.direction(), &desc, &x, &w, &y, Mode::Extended).expect("fits")
    }

    /// Destination and factors, not filled.
    fn tensors(&self) -> [Tensor; 3] {
        let conv = self.layer.convolution();
        conv.dims(self.direction)
            .map(|dims| Tensor::new(*self.tensor_of(dims).layout().expect("valid"), self.types.0.scalar()))
    }

    /// Runs it; none of the operands but the destination may change.
    fn run(&self, tensors: [&Tensor; 3], scaling: Scaling, room: Room, rest: Option<&Rest<'_>>) -> Done {
        let problem = self.problem();
        let context = Context::create().expect("a handle");
        let number = i32::from(room != Room::Nothing);
        let algorithm = Algorithm::new(self.direction(), number).expect("an algorithm");
        let told = context.convolution_workspace(&problem, algorithm).expect("a size");
        let given = match room {
            Room::Less => told - 1,
            Room::Told | Room::Nothing => told,
        };
        let relu = ActivationDescriptor { mode: ActivationMode::Relu, ..ActivationDescriptor::default() };
        let plan = match rest {
            None => ConvolutionPlan::new(&problem, scaling).expect("a plan"),
            Some(rest) => {
                let z = self.tensor_of(&rest.z.layout.dims);
                let bias = self.tensor_of(&rest.bias.layout.dims);
                let fused = Fused { alpha: scaling.alpha, z: (&z, 2.0), bias: &bias, activation: &relu };
                ConvolutionPlan::fused(&problem, &fused, Mode::Extended).expect("a plan")
            }
        };
        let all = tensors.into_iter().chain(rest.map(|rest| rest.z)).chain(rest.map(|rest| rest.bias));
        let all: Vec<&Tensor> = all.collect();
        let memory: Vec<Memory> = all.iter().map(|tensor| Memory::new(tensor.bytes().0)).collect();
        let scratch = Memory::new(&vec![0xff; given]);
        let mut at: Vec<_> = memory
            .iter()
            .zip(&all)
            .map(|(memory, tensor)| memory.pointer().wrapping_byte_offset(tensor.bytes().1 as isize).into())
            .collect();
        if rest.is_some_and(|rest| rest.in_place) {
            at[3] = at[0];
        }
        at.push(scratch.pointer().into());
        let names = plan.operands().iter().map(|operand| operand.name).chain(["workSpace"]);
        let bound: Vec<_> = names.zip(at).collect();
        let mut heard = CallReport { wanted: true, ..CallReport::default() };
        // SAFETY: device memory of the operands' spans, and of the workspace's bytes.
        let done = context.call("a test", &mut heard, |call| unsafe {
            match *bound.as_slice() {
                [dst, a, b, scratch] => call.convolve(plan, &problem, algorithm, given, [dst, a, b, scratch]),
                [dst, a, b, z, bias, scratch] => {
                    call.convolve(plan, &problem, algorithm, given, [dst, a, b, z, bias, scratch])
                }
                _ => unreachable!("three or five operands"),
            }
        });
        done.expect("the CUDA core computes it");
        for (k, (memory, tensor)) in memory.iter().zip(&all).enumerate().skip(1) {
            assert!(memory.read() == tensor.bytes().0, "{self:?}: operand {k} is written");
        }
        let kernels = heard.kernels.unwrap_or_default();
        let has_stages = kernels.contains("contract_multistage") || kernels.contains("contract_gradient");
        let plan = format!("{}\n{kernels}", heard.plan.unwrap_or_default());
        Done { result: tensors[0].with_bytes(&memory[0].read()), has_stages, told, plan }
    }

    /// The same of other tensors: channels innermost, as many as vectors hold.
    fn by_hand(&self) -> Case {
        let mut case = Case { format: Format::Nhwc, ..self.clone() };
        if self.layer.counts[3] == 1 {
            let whole = |channels: i64| (channels + 7) / 8 * 8;
            let [n, c, k, groups] = self.layer.counts;
            case.layer.counts = [n, whole(c), whole(k), groups];
        }
        case
    }
}

/// The same numbers, where the other tensor has them; zeros in the rest of it.
fn moved(from: &Tensor, to: Tensor) -> Tensor {
    let mut to = to.fill(|| 0.0);
    each(&from.layout.dims, |at| to.set(at, from.get(at)));
    to
}

/// Layers whose channels lie apart in NCHW.
fn layers() -> Vec<Layer> {
    let plane = |counts: [i64; 4], taps: i64| Layer::of(counts, vec![9, 7], taps);
    vec![
        Layer { padding: 1, ..plane([2, 32, 40, 1], 3) },
        Layer { padding: 1, stride: 2, ..plane([2, 64, 32, 1], 3) },
        Layer { padding: 2, dilation: 2, flip: true, ..plane([1, 32, 32, 1], 3) },
        // Pixels that are whole vectors, and such that are not.
        Layer::of([2, 128, 136, 1], vec![8, 8], 1),
        plane([2, 128, 128, 1], 1),
        // Groups; a line; a volume.
        Layer { padding: 1, ..plane([2, 32, 32, 3], 3) },
        Layer { padding: 1, ..Layer::of([2, 40, 32, 1], vec![33], 3) },
        Layer { padding: 1, ..Layer::of([1, 16, 32, 1], vec![4, 5, 3], 3) },
        // Channels that are no whole vectors: of either side, of both, and of a picture.
        Layer { padding: 1, ..plane([2, 30, 40, 1], 3) },
        Layer { padding: 1, ..plane([2, 24, 33, 1], 3) },
        Layer { padding: 1, stride: 2, ..plane([2, 19, 21, 1], 3) },
        Layer { padding: 3, stride: 2, ..Layer::of([2, 3, 24, 1], vec![18, 14], 7) },
        // Long sums of few results, in parts.
        Layer { padding: 1, ..Layer::of([3, 16, 24, 1], vec![40, 31], 3) },
    ]
}

fn integers(tensor: Tensor, rng: &mut Rng) -> Tensor {
    tensor.fill(|| rng.below(5) as f64 - 2.0)
}

/// Every layer in every direction, of some type, against the definition.
fn exact() {
    double::use_device(0);
    let has_cores = double::capability(0) >= 80;
    let mut rng = Rng(71);
    let mut arranged = 0;
    for (number, layer) in layers().into_iter().enumerate() {
        for (turn, direction) in DIRECTIONS.into_iter().enumerate() {
            if !has_cores && (number + turn) % 8 != 0 {
                continue;
            }
            let types = TYPES[(number + turn) % TYPES.len()];
            let case = Case { layer: layer.clone(), direction, types, format: Format::Nchw };
            let [dst, a, b] = case.tensors().map(|tensor| integers(tensor, &mut rng));
            let beta = [0.0, 1.0][(number + turn / 2) % 2];
            let dst = if beta == 0.0 { Tensor::new(dst.layout, dst.scalar) } else { dst };
            let sums = layer.convolution().expected(direction, &a, &b);
            let (mut want, mut next) = (dst.clone(), sums.iter());
            each(&dst.layout.dims, |index| {
                let old = if beta == 0.0 { 0.0 } else { dst.get(index) };
                want.set(index, 2.0 * next.next().unwrap()[0] + old);
            });
            let scaling = Scaling { alpha: 2.0, beta };
            for room in [Room::Told, Room::Less, Room::Nothing] {
                let done = case.run([&dst, &a, &b], scaling, room, None);
                let said = format!("{case:?}, {room:?}\n{}", done.plan);
                assert!(done.result.same_bytes(&want), "{said}\n{}", differences(&done.result, &want));
                if room == Room::Told {
                    assert!(!done.has_stages || has_cores, "{said}");
                    assert!(done.has_stages || !has_cores, "{said}");
                    arranged += usize::from(done.told > LEAST);
                }
            }
        }
    }
    // All but gradients of the data of one tap on whole planes, which need no workspace.
    assert!(!has_cores || arranged == 3 * layers().len() - 1, "{arranged}");
}

/// Real numbers: the bits of the call on tensors that were moved by hand, which takes no workspace;
/// of a gradient of the filter, that has its parts. The same in another run, and for an image.
fn real() {
    double::use_device(0);
    if double::capability(0) < 80 {
        return println!("skipped: kernels of several stages, which this device has not");
    }
    let mut rng = Rng(72);
    for (number, layer) in layers().into_iter().enumerate() {
        for (turn, direction) in DIRECTIONS.into_iter().enumerate() {
            let types = TYPES[(number + turn + 1) % TYPES.len()];
            let case = Case { layer: layer.clone(), direction, types, format: Format::Nchw };
            let [dst, a, b] = case.tensors().map(|tensor| tensor.fill(|| rng.real()));
            let beta = [0.0, 0.5][(number + turn) % 2];
            let scaling = Scaling { alpha: 1.0, beta };
            let got = case.run([&dst, &a, &b], scaling, Room::Told, None);
            assert!(got.has_stages, "{case:?}\n{}", got.plan);
            let again = case.run([&dst, &a, &b], scaling, Room::Told, None);
            assert!(again.result.same_bytes(&got.result), "{case:?}: another run");
            let hand = case.by_hand();
            let [to, from, by] = hand.tensors();
            let (to, from, by) = (moved(&dst, to), moved(&a, from), moved(&b, by));
            let room = if direction == Direction::Filter { Room::Told } else { Room::Nothing };
            let want = hand.run([&to, &from, &by], scaling, room, None).result;
            each(&dst.layout.dims, |at| {
                let (got, want) = (got.result.get(at), want.get(at));
                assert!(got.to_bits() == want.to_bits(), "{case:?}, {at:?}: {got}, by hand {want}");
            });
            let images = layer.counts[0];
            if direction == Direction::Filter || images == 1 {
                continue;
            }
            let mut one = case.clone();
            one.layer.counts[0] = 1;
            let [mut alone, mut image, _] = one.tensors();
            let last = |at: &[i64]| [&[images - 1], &at[1..]].concat();
            each(&alone.layout.dims.clone(), |at| alone.set(at, dst.get(&last(at))));
            each(&image.layout.dims.clone(), |at| image.set(at, a.get(&last(at))));
            let alone = one.run([&alone, &image, &b], scaling, Room::Told, None);
            assert!(alone.told <= got.told, "{case:?}: {} for one image, {} for all", alone.told, got.told);
            each(&alone.result.layout.dims, |at| {
                let (got, want) = (alone.result.get(at), got.result.get(&last(at)));
                assert!(got.to_bits() == want.to_bits(), "{case:?}, {at:?}: {got} alone, {want} in a batch");
            });
        }
    }
}

/// With z, which may be the destination, a bias and an activation.
fn fused() {
    double::use_device(0);
    if double::capability(0) < 80 {
        return println!("skipped: kernels of several stages, which this device has not");
    }
    let mut rng = Rng(73);
    for (number, layer) in layers().into_iter().enumerate() {
        let types = TYPES[(number + 2) % TYPES.len()];
        let case = Case { layer: layer.clone(), direction: Direction::Forward, types, format: Format::Nchw };
        let [dst, a, b] = case.tensors().map(|tensor| integers(tensor, &mut rng));
        let mut dims = vec![1; dst.layout.dims.rank()];
        dims[1] = dst.layout.dims[1];
        let bias = Tensor::new(*case.tensor_of(&dims).layout().expect("valid"), types.0.scalar());
        let bias = integers(bias, &mut rng);
        let other = integers(case.tensors()[0].clone(), &mut rng);
        let sums = layer.convolution().expected(Direction::Forward, &a, &b);
        for in_place in [false, true] {
            let z = if in_place { &dst } else { &other };
            let (mut want, mut next) = (dst.clone(), sums.iter());
            each(&dst.layout.dims, |at| {
                let mut of_bias = vec![0; at.len()];
                of_bias[1] = at[1];
                let all = next.next().unwrap()[0] + 2.0 * z.get(at) + bias.get(&of_bias);
                want.set(at, all.max(0.0));
            });
            let rest = Rest { z, in_place, bias: &bias };
            for room in [Room::Told, Room::Nothing] {
                let done = case.run([&dst, &a, &b], Scaling::MOVE, room, Some(&rest));
                let said = format!("{case:?}, {room:?}, z in place: {in_place}\n{}", done.plan);
                assert!(done.result.same_bytes(&want), "{said}\n{}", differences(&done.result, &want));
                assert!(done.has_stages || room == Room::Nothing, "{said}");
            }
        }
    }
}

/// What does not pay, or has no such kernels, is told nothing of.
fn left() {
    double::use_device(0);
    if double::capability(0) < 80 {
        return println!("skipped: kernels of several stages, which this device has not");
    }
    let told = |layer: Layer, direction, types, format| {
        let case = Case { layer, direction, types, format };
        let context = Context::create().expect("a handle");
        let algorithm = Algorithm::new(case.direction(), 1).expect("an algorithm");
        context.convolution_workspace(&case.problem(), algorithm).expect("a size")
    };
    let layer = || Layer { padding: 1, ..Layer::of([2, 64, 64, 1], vec![14, 14], 3) };
    let plain = (DataType::Float, MathType::Standard);
    for direction in DIRECTIONS {
        assert_eq!(told(layer(), direction, plain, Format::Nchw), LEAST);
        assert_eq!(told(layer(), direction, TYPES[0], Format::Nhwc), LEAST);
        assert!(told(layer(), direction, TYPES[0], Format::Nchw) > LEAST);
        // Few products for each element.
        let of_images = direction != Direction::Filter;
        assert!(
            !of_images
                || LEAST == told(Layer::of([2, 8, 8, 1], vec![7, 7], 1), direction, TYPES[2], Format::Nchw)
        );
        // A channel of each group.
        let groups = Layer { padding: 1, ..Layer::of([2, 1, 1, 64], vec![14, 14], 3) };
        assert_eq!(told(groups, direction, TYPES[0], Format::Nchw), LEAST);
    }
    // Number 3 of the gradient of a filter moves nothing, but cuts sums.
    let case = Case {
        layer: Layer { padding: 1, ..Layer::of([2, 16, 24, 1], vec![40, 31], 3) },
        direction: Direction::Filter,
        types: TYPES[0],
        format: Format::Nchw,
    };
    let context = Context::create().expect("a handle");
    let [moves, cuts] = [1, 3].map(|number| {
        let algorithm = Algorithm::new(case.direction(), number).expect("an algorithm");
        context.convolution_workspace(&case.problem(), algorithm).expect("a size")
    });
    assert!(LEAST < cuts && cuts < moves, "{cuts} and {moves}");
    let within =
        |limit: usize| context.algorithm_within(&case.problem(), limit).expect("an algorithm").number();
    assert_eq!([0, 16, cuts - 1, cuts, moves - 1, moves].map(within), [0, 0, 0, 3, 3, 1]);
    // The filter alone.
    let planes = Layer::of([64, 64, 64, 1], vec![8, 8], 1);
    let [one, all] = [1, 64].map(|images| {
        let mut layer = planes.clone();
        layer.counts[0] = images;
        let case = Case { layer, direction: Direction::Forward, types: TYPES[0], format: Format::Nchw };
        let [dst, a, b] = case.tensors().map(|tensor| tensor.fill(|| 1.0));
        let done = case.run([&dst, &a, &b], Scaling::MOVE, Room::Told, None);
        assert_eq!(done.plan.matches("transform").count(), 1, "{}", done.plan);
        done.told
    });
    assert!(one < all);
}

#[test]
fn moved_operands_agree_with_the_definition() {
    on_devices(exact);
}

#[test]
fn moved_operands_have_the_bits_of_tensors_moved_by_hand() {
    on_devices(real);
}

#[test]
fn moved_operands_are_finished_with_a_sum_and_a_bias() {
    on_devices(fused);
}

#[test]
fn only_what_becomes_faster_is_moved() {
    on_devices(left);
}

/// Devices before 8.0 move nothing.
#[test]
fn earlier_devices_move_no_operands() {
    for capability in ["70", "75"] {
        double::run(&[("DRIVER_DOUBLE_CAPABILITY", capability)], exact);
    }
}
