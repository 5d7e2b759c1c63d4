//! The layers of both cores: activations, softmax and their gradients, equal in every bit.

use cudnn::desc::{
    ActivationDescriptor, ActivationMode, Choice, Format, NanPropagation, SoftmaxAlgorithm, SoftmaxMode,
};
use cudnn::dtype::{DataType, Scalar};
use cudnn::layout::{Axis, LoopNest};
use cudnn::mode::Mode;
use cudnn::ops::function::TABLE;
use cudnn::ops::softmax::Choices;
use cudnn::ops::{
    ActivationPlan, ByteSpan, Compute, Map, Operand, Plan, Role, Scaling, SoftmaxPlan, Step, StepSink,
};

use crate::cores::{Cores, FAR, PLAIN};
use crate::double::{self, Memory};
use crate::tensors::{Rng, Tensor, Words, format, strided};

const FLOATS: [DataType; 4] = [DataType::Float, DataType::Half, DataType::Bfloat16, DataType::Double];

/// What operands hold: so many bytes of a type.
pub type Contents = fn(&mut Rng, DataType, usize) -> Vec<u8>;

/// Any bits, NaNs and infinities among them.
pub fn any_bits(rng: &mut Rng, _: DataType, size: usize) -> Vec<u8> {
    rng.bytes(size)
}

impl Cores {
    /// An activation and its gradient, of numbers that are made for them.
    pub fn activation(
        &mut self, activation: &ActivationDescriptor, tensors: [Tensor; 3], scaling: Option<Scaling>,
        made: Contents,
    ) {
        let [dst, a, b] = tensors;
        let scaling = scaling.unwrap_or_else(|| self.scaling());
        let contents = |rng: &mut Rng, tensor: Tensor| made(rng, tensor.desc.data_type(), tensor.size());
        let plan = ActivationPlan::forward(activation, [&a.desc, &dst.desc], scaling, false, Mode::Extended);
        if let Ok(plan) = plan {
            let contents = [self.before(dst, scaling.beta), contents(&mut self.rng, a)];
            // SAFETY: all buffers hold their tensors' whole spans, at multiples of their scalars.
            self.same(&plan, &[dst, a], &contents, &|context, at, _| unsafe {
                context.run(&plan, &[at[0].into(), at[1].into()])
            });
        }
        let plan = ActivationPlan::backward(
            activation,
            [&b.desc, &a.desc, &dst.desc],
            None,
            scaling,
            false,
            Mode::Extended,
        );
        let Ok(plan) = plan else { return };
        let before = self.before(dst, scaling.beta);
        let contents = [before, contents(&mut self.rng, a), contents(&mut self.rng, b)];
        // SAFETY: as above; the fourth operand is not followed.
        self.same(&plan, &[dst, a, b], &contents, &|context, at, _| unsafe {
            context.run(&plan, &[at[0].into(), at[1].into(), at[2].into(), at[2].into()])
        });
    }

    /// A softmax of every kind and its gradient, of numbers that are made for them.
    pub fn softmax(&mut self, tensors: [Tensor; 3], scaling: Option<Scaling>, made: Contents) {
        let [dst, a, b] = tensors;
        let contents = |rng: &mut Rng, tensor: Tensor| made(rng, tensor.desc.data_type(), tensor.size());
        for &algorithm in SoftmaxAlgorithm::ALL {
            for &mode in SoftmaxMode::ALL {
                let choices = || Choices { algorithm: Ok(algorithm), mode: Ok(mode) };
                let scaling = scaling.unwrap_or_else(|| self.scaling());
                let plan = SoftmaxPlan::forward(choices(), [&a.desc, &dst.desc], scaling, Mode::Extended)
                    .expect("a plan");
                let held = [self.before(dst, scaling.beta), contents(&mut self.rng, a)];
                // SAFETY: all buffers hold their tensors' whole spans, at multiples of their
                // scalars.
                self.same(&plan, &[dst, a], &held, &|context, at, _| unsafe {
                    context.run(&plan, &[at[0].into(), at[1].into()])
                });
                let descs = [&a.desc, &b.desc, &dst.desc];
                let plan = SoftmaxPlan::backward(choices(), descs, scaling, Mode::Extended).expect("a plan");
                let before = self.before(dst, scaling.beta);
                let held = [before, contents(&mut self.rng, a), contents(&mut self.rng, b)];
                // SAFETY: as above.
                self.same(&plan, &[dst, a, b], &held, &|context, at, _| unsafe {
                    context.run(&plan, &[at[0].into(), at[1].into(), at[2].into()])
                });
            }
        }
    }
}

/// Every activation, over common types in vectors, and over all types in all layouts.
fn activations(cores: &mut Cores) {
    for &mode in ActivationMode::ALL {
        for &nan in NanPropagation::ALL {
            let activation = ActivationDescriptor { mode, nan, coefficient: 1.5, swish_beta: 0.75 };
            for data_type in FLOATS {
                for (channels, width) in [(8, 16), (5, 9), (3, 341)] {
                    let tensor = format(data_type, Format::Nhwc, &[2, channels, 1, width]);
                    cores.activation(&activation, [tensor; 3], None, any_bits);
                    let shift = cores.rng.below(9);
                    cores.activation(&activation, [tensor.shifted(shift); 3], None, any_bits);
                }
            }
            for _ in 0..12 {
                let rank = 2 + cores.rng.below(7);
                let dims = cores.dims(rank, 1000);
                let data_type = cores.rng.pick(&PLAIN);
                let tensors = [false, true, true].map(|repeats| cores.laid_out(data_type, &dims, repeats));
                cores.activation(&activation, tensors, None, any_bits);
            }
            let repeating = strided(DataType::Float, &[4, 4], &[2, 1]);
            let other = strided(DataType::Float, &[4, 4], &[1, 4]);
            cores.activation(&activation, [repeating, other, other], None, any_bits);
            let dims = [2, 11, 3, 5];
            let blocked = format(DataType::Float, Format::Blocked(4), &dims);
            let plain = format(DataType::Float, Format::Nhwc, &dims);
            cores.activation(&activation, [blocked, plain, blocked], None, any_bits);
        }
    }
}

fn softmaxes(cores: &mut Cores) {
    for data_type in FLOATS {
        for dims in [[3, 10, 1, 1], [2, 33, 2, 5], [1, 1100, 2, 3], [5, 1, 4, 4], [2, 40, 9, 7]] {
            for layout in [Format::Nchw, Format::Nhwc] {
                cores.softmax([format(data_type, layout, &dims); 3], None, any_bits);
            }
        }
    }
    for _ in 0..40 {
        let rank = 2 + cores.rng.below(7);
        let dims = cores.dims(rank, 1500);
        let data_type = cores.rng.pick(&[FLOATS[0], FLOATS[1], FLOATS[3], DataType::Int8, DataType::Int32]);
        let tensors = [false, true, true].map(|repeats| cores.laid_out(data_type, &dims, repeats));
        cores.softmax(tensors, None, any_bits);
    }
    let repeating = strided(DataType::Float, &[4, 4], &[2, 1]);
    let other = strided(DataType::Float, &[4, 4], &[1, 4]);
    cores.softmax([repeating, other, other], None, any_bits);
}

/// A step of its own as a plan: what no call of the C interface needs yet.
struct One {
    map: Map<6>,
    operands: [Operand; 6],
}

impl std::fmt::Display for One {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.map.fmt(f)
    }
}

impl Plan for One {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> cudnn::error::Result<()> {
        sink(Step::WideMap(&self.map), &[0, 1, 2, 3, 4, 5])
    }
}

/// Every function of the table, on five operands of their own types.
fn table(cores: &mut Cores) {
    for row in TABLE {
        for _ in 0..6 {
            let (rows, columns) = (1 + cores.rng.below(20) as i64, 1 + cores.rng.below(60) as i64);
            let tensors = [(); 6].map(|()| {
                let data_type = cores.rng.pick(&FLOATS);
                strided(data_type, &[rows, columns], &[columns, 1])
            });
            let axes =
                [(rows, columns), (columns, 1)].map(|(extent, stride)| Axis { extent, strides: [stride; 6] });
            let scalars: [Scalar; 6] = tensors.map(|tensor| tensor.desc.data_type().scalar());
            let factors = cores.factors();
            let map = Map {
                nest: LoopNest::new(&axes, [0; 6]),
                scalars,
                compute: cores.rng.pick(&[Compute::Single, Compute::Double]),
                function: row.function,
                parameter: cores.rng.pick(&[0.5, 1.0, -2.0]),
                factors,
            };
            let span = |scalar: Scalar| -> ByteSpan { (0, rows * columns * scalar.size() as i64) };
            let operand = |k: usize| {
                let role = if k == 0 { Role::blended(factors.beta) } else { Role::Read };
                Operand { name: "operand", role, scalar: scalars[k], span: span(scalars[k]) }
            };
            let plan = One { map, operands: std::array::from_fn(operand) };
            let contents = tensors.map(|tensor| cores.rng.bytes(tensor.size()));
            cores.same(&plan, &tensors, &contents, &|context, at, _| {
                let at: Vec<_> = at.iter().map(|&at| at.into()).collect();
                // SAFETY: all buffers hold their tensors' whole spans, at multiples of their
                // scalars.
                unsafe { context.run(&plan, &at) }
            });
        }
    }
}

/// Few elements, far apart.
fn far_apart(cores: &mut Cores) {
    let (near, far) =
        (strided(DataType::Float, &[3, 5], &[5, 1]), strided(DataType::Float, &[3, 5], &[FAR / 2, 1]));
    let bytes = cores.rng.bytes(near.size());
    let (held, device) = (Words::new(&bytes), Memory::new(&bytes));
    let activation = ActivationDescriptor::default();
    let tensors = [near, far];
    let plans = tensors.each_ref().map(|y| {
        ActivationPlan::forward(&activation, [&near.desc, &y.desc], Scaling::MOVE, false, Mode::Extended)
            .expect("a plan")
    });
    cores.solve_far(far, near, &|context, y, is_far| {
        let from = if is_far { device.pointer().cast_const().cast() } else { held.address() };
        let from = from.wrapping_byte_add(near.base());
        // SAFETY: all buffers hold their tensors' whole spans.
        unsafe { context.run(&plans[usize::from(is_far)], &[y.into(), from.into()]) }
    });
}

/// Every problem of this file.
pub fn all(cores: &mut Cores) {
    activations(cores);
    softmaxes(cores);
    table(cores);
    far_apart(cores);
    // With the threads in the other order they run alone.
    if !double::is_reversed() {
        crate::specialised::all(cores);
    }
    crate::listed::functions_of_graphs(cores);
}
