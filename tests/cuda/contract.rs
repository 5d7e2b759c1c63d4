//! Contractions on the CUDA core: small integers, whose sums are exact, against the definition and
//! bit for bit in every direction, layout and type; real numbers within the bound.

use std::collections::BTreeMap;
use std::fmt;

use cudnn::backend::cuda::launch::Device;
use cudnn::backend::cuda::plan;
use cudnn::backend::reference;
use cudnn::dtype::Scalar;
use cudnn::exec::{Address, Context};
use cudnn::layout::{Dims, Layout};
use cudnn::ops::activation::Activation;
use cudnn::ops::contract::{Accumulate, Geometry, Parts, Role as Loop, Side, Terms};
use cudnn::ops::function::{Function, TABLE};
use cudnn::ops::{Contract, Operand, Plan, Role, Scaling, Step, StepSink};

use crate::double::{self, Memory};
use crate::memory;
use testkit::convolution::{Convolution, DIRECTIONS, Direction};
use testkit::random::Rng;
use testkit::tensor::{Tensor, each};

/// Types of dst, a and b, and what they are summed in.
const TYPES: &[([Scalar; 3], Accumulate)] = &[
    ([Scalar::F32; 3], Accumulate::Single),
    ([Scalar::F32; 3], Accumulate::Single),
    ([Scalar::F64; 3], Accumulate::Double),
    ([Scalar::F16; 3], Accumulate::Single),
    ([Scalar::Bf16; 3], Accumulate::Single),
    ([Scalar::I8; 3], Accumulate::Int32),
    ([Scalar::I32, Scalar::I8, Scalar::I8], Accumulate::Int32),
    ([Scalar::F32, Scalar::U8, Scalar::I8], Accumulate::Int32),
    ([Scalar::I32, Scalar::U8, Scalar::U8], Accumulate::Int32),
    ([Scalar::I32, Scalar::I8, Scalar::U8], Accumulate::Int32),
    ([Scalar::F32, Scalar::F16, Scalar::F32], Accumulate::Single),
    ([Scalar::F64, Scalar::I8, Scalar::U8], Accumulate::Double),
    ([Scalar::F16, Scalar::F64, Scalar::F32], Accumulate::Single),
];

/// The capabilities from which on `contract_mma75` and `contract_mma` run.
const TENSOR_CORES: [u32; 2] = [75, 80];

/// Steps on the same operands as a plan.
struct Steps {
    steps: Vec<Contract>,
    operands: Vec<Operand>,
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl Plan for Steps {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> cudnn::error::Result<()> {
        let slots: Vec<usize> = (0..self.operands.len()).collect();
        self.steps.iter().try_for_each(|step| sink(Step::Contract(step), &slots))
    }
}

/// The CUDA core, what it is said to run on, and how often it has run each kernel.
pub struct Core {
    cuda: Context,
    device: Device,
    pub kernels: BTreeMap<&'static str, usize>,
}

impl Core {
    pub fn new(capability: u32) -> Core {
        double::use_device(0);
        let cuda = Context::create().expect("a handle");
        assert!(cuda.core_name().starts_with("cuda"), "{}", cuda.core_name());
        Core { cuda, device: Device { capability }, kernels: BTreeMap::new() }
    }

    /// Runs steps on copies of the tensors, the destination first, and returns the destination;
    /// nothing else may change.
    pub fn run(&mut self, steps: &[Contract], tensors: &[&Tensor]) -> Tensor {
        let operand = |(k, tensor): (usize, &&Tensor)| {
            let (low, high) = tensor.layout.padded_span().expect("small");
            let size = tensor.scalar.size() as i64;
            let role = match k {
                0 => Role::blended(steps[0].epilogue.scaling.beta),
                _ => Role::Read,
            };
            Operand { name: "operand", role, scalar: tensor.scalar, span: (low * size, (high + 1) * size) }
        };
        // A workspace is the last one, and may be left with anything.
        let operands = tensors.len() - usize::from(steps[0].workspace > 0);
        let plan =
            Steps { steps: steps.to_vec(), operands: tensors.iter().enumerate().map(operand).collect() };
        let memory: Vec<Memory> = tensors.iter().map(|tensor| Memory::new(tensor.bytes().0)).collect();
        let at: Vec<Address> = memory
            .iter()
            .zip(tensors)
            .map(|(memory, tensor)| memory.pointer().wrapping_byte_offset(tensor.bytes().1 as isize).into())
            .collect();
        plan::launches(&plan, &at, self.device, &mut |launch| {
            *self.kernels.entry(launch.kernel).or_default() += 1;
            Ok(())
        })
        .expect("launches");
        memory::working_on(&plan);
        // SAFETY: the memory holds all elements of the tensors.
        unsafe { self.cuda.run(&plan, &at) }.expect("the CUDA core");
        let got = tensors[0].with_bytes(&memory[0].read());
        for (memory, tensor) in memory.iter().zip(tensors).take(operands).skip(1) {
            assert!(memory.read() == tensor.bytes().0, "an operand is written\n{plan}");
        }
        got
    }
}

pub fn lines(steps: &[Contract]) -> String {
    steps.iter().map(Contract::to_string).collect::<Vec<_>>().join("\n")
}

pub fn differences(got: &Tensor, want: &Tensor) -> String {
    let mut text = String::new();
    each(&want.layout.dims.clone(), |index| {
        if got.get(index) != want.get(index) && text.len() < 300 {
            text += &format!("{index:?}: {} instead of {}\n", got.get(index), want.get(index));
        }
    });
    text
}

/// Random convolutions of small integers.
fn convolutions(core: &mut Core, seed: u64, cases: usize, cells: i64, plain: bool) {
    let mut rng = Rng(seed);
    for case in 0..cases {
        let direction = DIRECTIONS[case % 3];
        let (types, accumulate) = rng.pick(TYPES);
        let conv = Convolution::random(cells, &mut rng);
        let [dst, a, b] = conv.tensors(direction, types, plain, &mut rng);
        let beta = rng.pick(&[0.0, 0.0, 2.0]);
        // Without beta the destination must not be read.
        let dst = if beta == 0.0 { Tensor::new(dst.layout, dst.scalar) } else { dst };
        let terms = Terms::scaled(Scaling { alpha: rng.pick(&[1.0, 1.0, -2.0]), beta });
        let Ok(mut steps) = conv.steps(direction, [&dst, &a, &b], accumulate, &terms) else { continue };
        // Small integers are exact in TF32, too.
        steps.iter_mut().for_each(|step| step.allow_conversion = core.device.capability >= 80);
        let sums = conv.expected(direction, &a, &b);
        let (mut want, mut next) = (dst.clone(), sums.iter());
        each(&dst.layout.dims, |index| {
            let scaled = terms.scaling.alpha * next.next().unwrap()[0];
            want.set(index, if beta == 0.0 { scaled } else { scaled + beta * dst.get(index) });
        });
        let got = core.run(&steps, &[&dst, &a, &b]);
        assert!(
            got.same_bytes(&want),
            "case {case}, {direction:?}\n{}\n{}",
            lines(&steps),
            differences(&got, &want)
        );
    }
}

pub fn side(tensor: &Tensor) -> Side<'_> {
    Side { layout: &tensor.layout, scalar: tensor.scalar }
}

/// A matrix of small integers, in any order of its dimensions.
fn matrix(rng: &mut Rng, dims: [i64; 3], scalar: Scalar) -> Tensor {
    let order = rng.pick(&[[0, 1, 2], [0, 2, 1], [1, 2, 0]]);
    let outer = [dims[0], dims[1] + rng.below(2) as i64, dims[2] + rng.below(2) as i64];
    ordered(rng, dims, outer, order, scalar)
}

/// One in this order, in a packed one of the extents `outer`.
pub fn ordered(rng: &mut Rng, dims: [i64; 3], outer: [i64; 3], order: [usize; 3], scalar: Scalar) -> Tensor {
    let strides = cudnn::layout::format::packed_strides(&outer, &order).unwrap();
    let layout = Layout { dims: Dims::new(&dims), strides, split: None };
    let low = if scalar == Scalar::U8 { 0.0 } else { -1.0 };
    Tensor::new(layout, scalar).fill(|| low + rng.below(3) as f64)
}

/// Products of matrices with a sum, a bias and an activation, against the reference.
fn matrices(core: &mut Core) {
    let mut rng = Rng(13);
    for case in 0..double::cases(150) {
        let (types, accumulate) = rng.pick(TYPES);
        let most = if case % 20 == 0 { [2, 150, 150, 300] } else { [3, 40, 40, 60] };
        let [g, m, n, k] = most.map(|most| 1 + rng.below(most) as i64);
        let repeated = |rng: &mut Rng| if rng.below(3) == 0 { 1 } else { g };
        let (ga, gb) = (repeated(&mut rng), repeated(&mut rng));
        let c = matrix(&mut rng, [g, m, n], types[0]);
        let (mut a, mut b) = (matrix(&mut rng, [ga, m, k], types[1]), matrix(&mut rng, [gb, k, n], types[2]));
        let mut z = matrix(&mut rng, [g, m, n], types[0]);
        let mut bias = matrix(&mut rng, [1, if case % 2 == 0 { 1 } else { m }, n], types[0]);
        let activation = [None, Some(Function::Relu), Some(Function::ClippedReluOrNan)][case % 3];
        let activation = activation.map(|function| Activation { function, parameter: 6.0 });
        let terms = Terms {
            scaling: Scaling { alpha: 1.0, beta: [0.0, 1.0][case % 2] },
            z: (case % 4 > 1).then(|| (side(&z), 2.0)),
            bias: (case % 5 > 2).then(|| side(&bias)),
            activation,
        };
        let step = Contract::matmul(side(&c), side(&a), side(&b), accumulate, &terms).unwrap();
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
        let got = core.run(&[step], &tensors);
        assert!(got.same_bytes(&want), "case {case}: {step}\n{}", differences(&got, &want));
    }
}

/// Enough rows and columns for large tiles, with ragged edges, by columns and by rows.
fn large_tiles(core: &mut Core) {
    let mut rng = Rng(17);
    let types = [
        ([Scalar::F32; 3], Accumulate::Single),
        ([Scalar::F16; 3], Accumulate::Single),
        ([Scalar::I8; 3], Accumulate::Int32),
        ([Scalar::Bf16; 3], Accumulate::Single),
        ([Scalar::U8; 3], Accumulate::Int32),
        ([Scalar::I32, Scalar::U8, Scalar::I8], Accumulate::Int32),
        ([Scalar::I32, Scalar::I8, Scalar::U8], Accumulate::Int32),
    ];
    // Those that have large tiles of their own.
    let types = &types[..[1, 3, 7][TENSOR_CORES.iter().filter(|&&of| core.device.capability >= of).count()]];
    // The last are terms side by side in both operands, 16 bytes of them at a time.
    let extents = [[1275, 1030, 5], [65, 10_200, 19], [1025, 1030, 16]];
    for ([m, n, k], (scalars, accumulate)) in
        extents.into_iter().flat_map(|extents| types.iter().map(move |&of| (extents, of)))
    {
        let dims = [[1, m, n], [1, m, k], [1, k, n]];
        let orders = (k == 16).then_some([[0, 1, 2], [0, 1, 2], [0, 2, 1]]);
        let [c, a, b] = [0, 1, 2].map(|of| match orders {
            Some(orders) => ordered(&mut rng, dims[of], dims[of], orders[of], scalars[of]),
            None => matrix(&mut rng, dims[of], scalars[of]),
        });
        let terms = Terms::scaled(Scaling::MOVE);
        let mut step = Contract::matmul(side(&c), side(&a), side(&b), accumulate, &terms).unwrap();
        step.allow_conversion = core.device.capability >= 80;
        let (rows, columns, mut want) = (a.numbers(), b.numbers(), c.clone());
        each(&[1, m, n], |at| {
            let product = |i| rows[(at[1] * k + i) as usize] * columns[(i * n + at[2]) as usize];
            // `sum` would begin with -0, which no device does.
            want.set(at, (0..k).map(product).fold(0.0, |sum, product| sum + product));
        });
        let got = core.run(&[step], &[&c, &a, &b]);
        assert!(got.same_bytes(&want), "{step}\n{}", differences(&got, &want));
    }
    // Windows over many channels and pixels.
    let conv = Convolution::of_plane([2, 130], [90, 70], 1, 1, &mut rng);
    let [dst, a, b] = conv.tensors(Direction::Forward, [Scalar::F32; 3], true, &mut rng);
    let terms = Terms::scaled(Scaling::MOVE);
    let steps = conv.steps(Direction::Forward, [&dst, &a, &b], Accumulate::Single, &terms).unwrap();
    let sums = conv.expected(Direction::Forward, &a, &b);
    let (mut want, mut next) = (dst.clone(), sums.iter());
    each(&dst.layout.dims, |index| want.set(index, next.next().unwrap()[0]));
    assert!(core.run(&steps, &[&dst, &a, &b]).same_bytes(&want), "{}", lines(&steps));
}

/// Sums of real numbers, and the curved activations of them.
fn real_numbers(core: &mut Core) {
    let mut rng = Rng(14);
    let unit = f64::from(f32::EPSILON) / 2.0;
    for case in 0..double::cases(45) {
        let direction = DIRECTIONS[case % 3];
        let conv = Convolution::random(120_000, &mut rng);
        let [dst, a, b] = conv.tensors(direction, [Scalar::F32; 3], case % 4 > 0, &mut rng);
        let mut real = |t: Tensor| t.fill(|| rng.real());
        let (a, b) = (real(a), real(b));
        let terms = Terms::scaled(Scaling::MOVE);
        let Ok(steps) = conv.steps(direction, [&dst, &a, &b], Accumulate::Single, &terms) else { continue };
        let sums = conv.expected(direction, &a, &b);
        let products = steps.iter().map(|s| s.extent(Loop::K)).max().unwrap() as f64;
        let got = core.run(&steps, &[&dst, &a, &b]);
        let mut next = sums.iter();
        each(&dst.layout.dims, |index| {
            let [sum, magnitude] = next.next().unwrap();
            let bound = 2.0 * products.max(1.0) * unit * magnitude;
            assert!((got.get(index) - sum).abs() <= bound, "case {case}: {}", lines(&steps));
        });
        assert!(core.run(&steps, &[&dst, &a, &b]).same_bytes(&got), "case {case}: other bits");
    }
    for row in TABLE.iter().filter(|row| row.slope.is_some()) {
        let activation = Some(Activation { function: row.function, parameter: 0.75 });
        for types in [[Scalar::F32; 3], [Scalar::F64; 3]] {
            let [c, a, b] =
                [[1, 70, 66], [1, 70, 9], [1, 9, 66]].map(|dims| matrix(&mut rng, dims, types[0]));
            let (mut a, mut b) = (a, b);
            let accumulate = if types[0] == Scalar::F64 { Accumulate::Double } else { Accumulate::Single };
            let terms = Terms { activation, ..Terms::scaled(Scaling { alpha: 0.375, beta: 0.0 }) };
            let step = Contract::matmul(side(&c), side(&a), side(&b), accumulate, &terms).unwrap();
            let mut want = c.clone();
            // SAFETY: the memory of the tensors holds all their elements.
            unsafe { reference::contract(&step, &[want.base(), a.base(), b.base()]) };
            let got = core.run(&[step], &[&c, &a, &b]);
            let unit = if types[0] == Scalar::F64 { f64::EPSILON } else { 2.0 * unit };
            each(&c.layout.dims.clone(), |at| {
                let (got, want) = (got.get(at), want.get(at));
                assert!((got - want).abs() <= 4.0 * unit * want.abs(), "{got} instead of {want}: {step}");
            });
        }
    }
}

/// Sums in integers of what are no bytes are refused before anything is queued.
fn refusals(core: &mut Core) {
    let mut rng = Rng(19);
    let [c, a, b] = [[1, 4, 5], [1, 4, 3], [1, 3, 5]].map(|dims| matrix(&mut rng, dims, Scalar::F16));
    let terms = Terms::scaled(Scaling::MOVE);
    let step = Contract::matmul(side(&c), side(&a), side(&b), Accumulate::Int32, &terms).unwrap();
    let operand = Operand { name: "c", role: Role::Write, scalar: Scalar::F16, span: (0, 0) };
    let plan = Steps { steps: vec![step], operands: vec![operand; 3] };
    // SAFETY: nothing is touched.
    let refused = unsafe { core.cuda.run(&plan, &[Address::NULL; 3]) };
    assert!(refused.is_err_and(|error| error.to_string().contains("sums in integers of f16 times f16")));
}

/// Long sums of few results, cut into parts: a workspace of just the bytes that are asked for,
/// filled with NaNs, and no room for less.
fn long_sums(core: &mut Core) {
    let mut rng = Rng(29);
    let extents = [([70, 66, 3000], 2), ([9, 64, 5001], 1), ([9, 1, 4100], 3), ([130, 40, 1500], 1)];
    let kinds = [
        ([Scalar::F32; 3], Accumulate::Single),
        ([Scalar::F64; 3], Accumulate::Double),
        ([Scalar::F32, Scalar::F16, Scalar::F16], Accumulate::Single),
        ([Scalar::I32, Scalar::I8, Scalar::I8], Accumulate::Int32),
    ];
    for (at, ([m, n, k], g)) in extents.into_iter().enumerate() {
        for (of, (types, accumulate)) in kinds.into_iter().enumerate() {
            // Half of them on a double, but for the short ones of one column, which have kernels of
            // their own.
            if !double::does_all() && n > 1 && (at + of) % 2 == 1 {
                continue;
            }
            let [c, mut a, mut b] = [([g, m, n], types[0]), ([g, m, k], types[1]), ([g, k, n], types[2])]
                .map(|(dims, scalar)| matrix(&mut rng, dims, scalar));
            let terms = Terms::scaled(Scaling { alpha: 2.0, beta: 1.0 });
            let mut step = Contract::matmul(side(&c), side(&a), side(&b), accumulate, &terms).unwrap();
            let mut want = c.clone();
            // SAFETY: the memory of the tensors holds all their elements.
            unsafe { reference::contract(&step, &[want.base(), a.base(), b.base()]) };
            step.workspace = Parts::of(&step).and_then(|parts| parts.workspace(accumulate)).expect("parts");
            let floats = step.workspace.div_ceil(4) as i64;
            let layout =
                Layout { dims: Dims::new(&[1, floats]), strides: Dims::new(&[floats, 1]), split: None };
            let scratch = Tensor::new(layout, Scalar::F32).fill(|| f64::NAN);
            let joins = |core: &Core| -> usize {
                core.kernels.iter().filter(|(name, _)| name.contains("join")).map(|(_, n)| n).sum()
            };
            let before = joins(core);
            let got = core.run(&[step], &[&c, &a, &b, &scratch]);
            assert!(got.same_bytes(&want), "{step}\n{}", differences(&got, &want));
            assert_eq!(joins(core), before + 1, "{step}: not cut");
        }
    }
}

/// Layers whose channels lie together, 16 bytes of them at a time or nearly so, in the types of
/// Tensor Cores.
fn channels_together(core: &mut Core) {
    let mut rng = Rng(23);
    for case in 0..42 {
        let (types, accumulate) = [
            ([Scalar::F16; 3], Accumulate::Single),
            ([Scalar::Bf16; 3], Accumulate::Single),
            ([Scalar::F32; 3], Accumulate::Single),
            ([Scalar::I8; 3], Accumulate::Int32),
            ([Scalar::I32, Scalar::U8, Scalar::U8], Accumulate::Int32),
            ([Scalar::I32, Scalar::U8, Scalar::I8], Accumulate::Int32),
            ([Scalar::I32, Scalar::I8, Scalar::U8], Accumulate::Int32),
        ][case % 7];
        let channels = [if case % 3 == 2 { 36 } else { 48 }, 40 + rng.below(40) as i64];
        let conv = Convolution::of_plane(channels, [9, 7], 1 + (case % 2) as i64, 1, &mut rng);
        let direction = DIRECTIONS[case / 7 % 3];
        let [dst, a, b] = conv.dims(direction).map(<[i64]>::to_vec);
        let mut together = |dims: &[i64], scalar: Scalar| {
            let strides = cudnn::layout::format::packed_strides(dims, &[0, 2, 3, 1]).unwrap();
            let layout = Layout { dims: Dims::new(dims), strides, split: None };
            let least = if scalar == Scalar::U8 { 0.0 } else { -4.0 };
            Tensor::new(layout, scalar).fill(|| least + rng.below(9) as f64)
        };
        let (a, b) = (together(&a, types[1]), together(&b, types[2]));
        let dst = together(&dst, types[0]);
        let terms = Terms::scaled(Scaling { alpha: 1.0, beta: 1.0 });
        let steps = conv.steps(direction, [&dst, &a, &b], accumulate, &terms).unwrap();
        let converts = |mut step: Contract| {
            step.allow_conversion = true;
            step
        };
        let steps: Vec<_> = steps.into_iter().map(converts).collect();
        let sums = conv.expected(direction, &a, &b);
        let (mut want, mut next) = (dst.clone(), sums.iter());
        each(&dst.layout.dims, |index| want.set(index, next.next().unwrap()[0] + dst.get(index)));
        let got = core.run(&steps, &[&dst, &a, &b]);
        assert!(
            got.same_bytes(&want),
            "case {case}, {direction:?}\n{}\n{}",
            lines(&steps),
            differences(&got, &want)
        );
    }
}

/// Taps too far apart for products of fragments, so that bytes have the kernel without them.
fn far_taps(core: &mut Core) {
    const FAR: i64 = 1 << 30;
    let mut rng = Rng(31);
    let geometry = Geometry {
        padding: Dims::new(&[FAR, 1]),
        strides: Dims::new(&[1, 1]),
        dilation: Dims::new(&[FAR, 1]),
        groups: 1,
        flip: false,
    };
    // Of two rows of taps the first lies in front of all pixels.
    let [x, w, y] = [vec![2, 16, 6, 6], vec![24, 16, 2, 3], vec![2, 24, 6, 6]];
    let conv = Convolution { geometry, x, w, y };
    let direction = Direction::Forward;
    let [dst, a, b] = conv.tensors(direction, [Scalar::I32, Scalar::I8, Scalar::I8], true, &mut rng);
    let terms = Terms::scaled(Scaling::MOVE);
    let steps = conv.steps(direction, [&dst, &a, &b], Accumulate::Int32, &terms).expect("a step");
    let (mut want, sums) = (dst.clone(), conv.expected(direction, &a, &b));
    let mut next = sums.iter();
    each(&dst.layout.dims, |index| want.set(index, next.next().unwrap()[0]));
    let got = core.run(&steps, &[&dst, &a, &b]);
    assert!(got.same_bytes(&want), "{}\n{}", lines(&steps), differences(&got, &want));
}

/// Every problem, on a device of this capability or, where that is not for a test to say, one whose
/// Tensor Cores are used for the same types.
fn all(wanted: u32, kernels: &[&str]) {
    double::use_device(0);
    let capability = double::capability(0);
    if TENSOR_CORES.map(|first| capability < first) != TENSOR_CORES.map(|first| wanted < first) {
        assert!(double::is_real(), "the double has the capability {capability}, not {wanted}");
        println!("skipped: contractions of a device of capability {wanted}, for this one has {capability}");
        return;
    }
    let mut core = Core::new(capability);
    channels_together(&mut core);
    convolutions(&mut core, 11, double::cases(330), 40_000, false);
    convolutions(&mut core, 12, double::cases(60), 300_000, true);
    matrices(&mut core);
    large_tiles(&mut core);
    far_taps(&mut core);
    long_sums(&mut core);
    real_numbers(&mut core);
    refusals(&mut core);
    for kernel in kernels {
        let count = core.kernels.get(format!("contract_{kernel}").as_str()).copied().unwrap_or(0);
        assert!(count > 0, "contract_{kernel} has not run: {:?}", core.kernels);
    }
}

const EVERYWHERE: [&str; 13] = [
    "f32",
    "f32_large",
    "f64",
    "i32",
    "direct_f32",
    "direct_f64",
    "direct_i32",
    "join_f32",
    "join_f64",
    "join_i32",
    "join_direct_f32",
    "join_direct_f64",
    "join_direct_i32",
];

/// What runs beside these on devices of capability 7.5.
const FIRST_TENSOR_CORES: [&str; 4] = ["mma75_f16", "mma75_s8", "mma75_f16_large", "mma75_s8_large"];

/// What does on those from 8.0 on.
const TENSOR_CORES_ONLY: [&str; 14] = [
    "mma_f16",
    "mma_bf16",
    "mma_tf32",
    "mma_s8",
    "mma_f16_large",
    "mma_bf16_large",
    "mma_tf32_large",
    "mma_s8_large",
    "mma_u8",
    "mma_u8_s8",
    "mma_s8_u8",
    "mma_u8_large",
    "mma_u8_s8_large",
    "mma_s8_u8_large",
];

#[test]
fn every_kernel_is_one_of_those() {
    let kernels = cudnn::backend::cuda::module::kernels().iter().map(|kernel| kernel.name);
    let known = [&EVERYWHERE[..], &FIRST_TENSOR_CORES, &TENSOR_CORES_ONLY].concat();
    // Those of several stages have tests of their own.
    let of_stages = |name: &&str| name.starts_with("multistage_") || name.starts_with("gradient_");
    let missed = kernels.filter_map(|name| name.strip_prefix("contract_"));
    let missed = missed.filter(|name| !of_stages(name) && !known.contains(name));
    assert_eq!(missed.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn contractions_agree_with_the_definition() {
    double::run(&[("CUDNN_SHIM_CHECK", "1"), ("DRIVER_DOUBLE_CAPABILITY", "70")], || all(70, &EVERYWHERE));
}

#[test]
fn contractions_agree_with_the_definition_on_the_first_tensor_cores() {
    double::run(&[("CUDNN_SHIM_CHECK", "1"), ("DRIVER_DOUBLE_CAPABILITY", "75")], || {
        all(75, &[&FIRST_TENSOR_CORES[..], &EVERYWHERE].concat())
    });
}

#[test]
fn contractions_agree_with_the_definition_on_tensor_cores() {
    double::run(&[("CUDNN_SHIM_CHECK", "1"), ("DRIVER_DOUBLE_CAPABILITY", "80")], || {
        all(80, &[&TENSOR_CORES_ONLY[..], &EVERYWHERE].concat())
    });
}
