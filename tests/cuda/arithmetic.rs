//! The arithmetic of both cores: AddTensor, OpTensor, ReduceTensor, SetTensor and ScaleTensor,
//! equal in every bit.

use std::fmt::Display;

use cudnn::desc::{
    Format, IndexType, NanPropagation, OpTensorDescriptor, OpTensorOp, ReduceDescriptor, ReduceIndices,
    ReduceOp,
};
use cudnn::dtype::DataType;
use cudnn::error::{Error, Result};
use cudnn::exec::{Address, Context};
use cudnn::mode::Mode;
use cudnn::ops::add;
use cudnn::ops::op::Factors;
use cudnn::ops::reduce::workspace_size;
use cudnn::ops::{FillPlan, Number, OpPlan, ReducePlan, Scaling};

use crate::cores::{Cores, FAR, PLAIN, SIZES, plain};
use crate::double::{self, Memory};
use crate::memory;
use crate::tensors::{Tensor, Words, format, packed, strided};

const FACTORS: [f64; 5] = [1.0, 0.0, -0.75, 2.5, 1.0];
const COMMON: [DataType; 3] = [DataType::Float, DataType::Half, DataType::Bfloat16];
const OPS: [OpTensorOp; 6] =
    [OpTensorOp::Add, OpTensorOp::Mul, OpTensorOp::Min, OpTensorOp::Max, OpTensorOp::Sqrt, OpTensorOp::Not];
const REDUCTIONS: [ReduceOp; 9] = [
    ReduceOp::Add,
    ReduceOp::Mul,
    ReduceOp::Min,
    ReduceOp::Max,
    ReduceOp::Amax,
    ReduceOp::Avg,
    ReduceOp::Norm1,
    ReduceOp::Norm2,
    ReduceOp::MulNoZeros,
];

/// One call on one core: the context, and where the tensors are. The flag tells whether they are on
/// the device.
pub type Call<'a> = &'a dyn Fn(&Context, &[*mut u8], bool) -> Result<()>;

impl Cores {
    /// Runs a call on both cores, on tensors with these bytes, and compares all of the memory.
    pub fn same(&mut self, what: &dyn Display, tensors: &[Tensor], contents: &[Vec<u8>], call: Call<'_>) {
        self.same_but(what, tensors, contents, None, call);
    }

    /// As [`Cores::same`], but for what is left in a workspace.
    pub fn same_but(
        &mut self, what: &dyn Display, tensors: &[Tensor], contents: &[Vec<u8>], workspace: Option<usize>,
        call: Call<'_>,
    ) {
        memory::working_on(what);
        let mut host: Vec<Words> = contents.iter().map(|bytes| Words::new(bytes)).collect();
        let at: Vec<*mut u8> = host
            .iter_mut()
            .zip(tensors)
            .map(|(words, tensor)| words.address_mut().wrapping_byte_add(tensor.base()))
            .collect();
        call(&self.cpu, &at, false).expect("the CPU core");
        let device: Vec<Memory> = contents.iter().map(|bytes| Memory::new(bytes)).collect();
        let at: Vec<*mut u8> = device
            .iter()
            .zip(tensors)
            .map(|(memory, tensor)| memory.pointer().wrapping_byte_add(tensor.base()).cast())
            .collect();
        call(&self.cuda, &at, true).expect("the CUDA core");
        for (k, (words, memory)) in host.iter().zip(&device).enumerate() {
            if workspace == Some(k) {
                continue;
            }
            let got = memory.read();
            if got != words.bytes() {
                let want = words.bytes();
                let first = got.iter().zip(want).position(|(a, b)| a != b).expect("a difference");
                let near = first / 8 * 8..(first / 8 * 8 + 8).min(got.len());
                panic!(
                    "{what}\noperand {k}: first at byte {}, of {:02x?} instead of {:02x?}; {} bytes differ",
                    first as i64 - tensors[k].base() as i64,
                    &got[near.clone()],
                    &want[near],
                    got.iter().zip(want).filter(|(a, b)| a != b).count()
                );
            }
        }
        self.solved += 1;
    }

    /// Bytes for a destination: without beta it must not be read, and holds NaNs in every type of
    /// floats.
    pub fn before(&mut self, tensor: Tensor, beta: f64) -> Vec<u8> {
        if beta == 0.0 { vec![0xff; tensor.size()] } else { self.rng.bytes(tensor.size()) }
    }

    fn add(&mut self, a: Tensor, c: Tensor, alpha: f64, beta: f64) {
        let plan = add::plan(&a.desc, &c.desc, Scaling { alpha, beta }, Mode::Extended).expect("a plan");
        let contents = [self.before(c, beta), self.rng.bytes(a.size())];
        let plan = plan.as_plan();
        self.same(plan, &[c, a], &contents, &|context, at, _| {
            let at = [at[0].into(), at[1].into()];
            // SAFETY: all buffers hold their tensors' whole spans, at multiples of their scalars.
            unsafe { context.run(plan, &at[..plan.operands().len()]) }
        });
    }

    fn fill(&mut self, y: Tensor, plan: &FillPlan) {
        let contents = [self.rng.bytes(y.size())];
        // SAFETY: the buffer holds the tensor's whole span, at a multiple of its scalar.
        self.same(plan, &[y], &contents, &|context, at, _| unsafe { context.run(plan, &[at[0].into()]) });
    }

    /// `operands`: those of A and B, `None` for C itself.
    fn op(
        &mut self, rule: &OpTensorDescriptor, operands: [Option<Tensor>; 2], c: Tensor, factors: Factors,
    ) -> bool {
        let [a, b] = operands.map(|operand| operand.unwrap_or(c));
        let planned = OpPlan::new(rule, [&a.desc, &b.desc, &c.desc], factors, false, Mode::Extended);
        // Types that do not go together are refused before any core is asked.
        let Ok(plan) = planned else { return false };
        let poisoned = operands.iter().all(Option::is_some) && factors.beta == 0.0;
        let contents = [
            self.before(c, if poisoned { 0.0 } else { 1.0 }),
            self.rng.bytes(a.size()),
            self.rng.bytes(b.size()),
        ];
        self.same(&plan, &[c, a, b], &contents, &|context, at, _| {
            let place = |k: usize| Address::from(if operands[k].is_some() { at[k + 1] } else { at[0] });
            // SAFETY: all buffers hold their tensors' whole spans, at multiples of their scalars.
            unsafe { context.run(&plan, &[at[0].into(), place(0), place(1)]) }
        });
        true
    }

    fn reduce(&mut self, rule: &ReduceDescriptor, a: Tensor, c: Tensor, scaling: Scaling) -> bool {
        let Ok(plan) = ReducePlan::new(rule, &a.desc, &c.desc, scaling, Mode::Extended) else { return false };
        // Indices at any alignment.
        let indices = format(DataType::Int8, Format::Nchw, &[1, plan.indices_bytes().max(1) as i64]);
        let indices = indices.shifted(self.rng.below(9));
        let contents = [self.before(c, scaling.beta), self.rng.bytes(a.size()), vec![0xA5; indices.size()]];
        let size = workspace_size(rule, &a.desc, &c.desc, Mode::Extended);
        for room in [0, size] {
            // The workspace may begin anywhere.
            let workspace = Memory::new(&vec![0xFF; room + 5]);
            let at_device = workspace.pointer().wrapping_byte_add(5);
            self.same(&plan, &[c, a, indices], &contents, &|context, at, is_device| {
                let at = [at[0].into(), at[2].into(), at[1].into(), at_device.into()];
                let plan = plan.with_workspace(if is_device { room } else { 0 });
                // SAFETY: all buffers hold their tensors' whole spans, at multiples of their
                // scalars.
                unsafe { context.run(&plan, &at) }
            });
        }
        true
    }

    pub fn scaling(&mut self) -> Scaling {
        Scaling { alpha: self.rng.pick(&FACTORS), beta: self.rng.pick(&FACTORS) }
    }

    pub fn factors(&mut self) -> Factors {
        Factors {
            alpha: [self.rng.pick(&FACTORS), self.rng.pick(&FACTORS)],
            beta: self.rng.pick(&[0.0, 0.0, 1.0, -0.5]),
        }
    }

    fn op_rule(&mut self, op: OpTensorOp) -> OpTensorDescriptor {
        OpTensorDescriptor {
            op,
            compute_type: self.rng.pick(&[DataType::Float, DataType::Float, DataType::Double]),
            nan: self.rng.pick(&[NanPropagation::Drop, NanPropagation::Keep]),
        }
    }

    fn reduce_rule(&mut self, op: ReduceOp, indices: bool) -> ReduceDescriptor {
        ReduceDescriptor {
            op,
            compute_type: self.rng.pick(&[DataType::Float, DataType::Float, DataType::Double]),
            nan: self.rng.pick(&[NanPropagation::Drop, NanPropagation::Keep]),
            indices: if indices { ReduceIndices::Flattened } else { ReduceIndices::None },
            index_type: self.rng.pick(&[
                IndexType::Bits32,
                IndexType::Bits64,
                IndexType::Bits16,
                IndexType::Bits8,
            ]),
        }
    }

    /// A tensor of these dims: permuted, with gaps, or backwards.
    pub fn laid_out(&mut self, data_type: DataType, dims: &[i64], repeats: bool) -> Tensor {
        let order = self.rng.order(dims.len());
        let gap = self.rng.pick(&[0, 0, 2]);
        let mut strides = packed(dims, &order, gap, &mut self.rng);
        let signs: &[i64] = if repeats { &[1, 1, -1, 0] } else { &[1, 1, -1] };
        strides.iter_mut().for_each(|stride| *stride *= self.rng.pick(signs));
        strided(data_type, dims, &strides).shifted(self.rng.below(5))
    }

    pub fn dims(&mut self, rank: usize, most: i64) -> Vec<i64> {
        let mut dims: Vec<i64> = (0..rank).map(|_| self.rng.pick(&[1, 2, 3, 4, 5, 8, 17, 32])).collect();
        while dims.iter().product::<i64>() > most {
            let axis = self.rng.below(rank);
            dims[axis] = 1 + dims[axis] / 2;
        }
        dims
    }

    /// Each extent as it is, or 1.
    fn broadcast(&mut self, dims: &[i64]) -> Vec<i64> {
        dims.iter().map(|&extent| if self.rng.below(3) == 0 { 1 } else { extent }).collect()
    }
}

/// A bias for every channel, and other broadcasts, in vectors and not.
fn biases(cores: &mut Cores) {
    for data_type in COMMON {
        for layout in [Format::Nchw, Format::Nhwc] {
            for (channels, width) in [(8, 16), (16, 7), (5, 9), (64, 32)] {
                let c = format(data_type, layout, &[2, channels, 3, width]);
                for (alpha, beta) in [(1.0, 1.0), (2.0, 0.0), (0.0, 0.5), (1.0, 0.0)] {
                    let bias = format(data_type, Format::Nchw, &[1, channels, 1, 1]);
                    cores.add(bias, c, alpha, beta);
                    let shift = cores.rng.below(9);
                    cores.add(bias.shifted(shift), c.shifted(shift), alpha, beta);
                    cores.add(format(data_type, layout, &[1, 1, 3, width]), c, alpha, beta);
                }
            }
        }
    }
    for _ in 0..400 {
        let rank = 2 + cores.rng.below(7);
        let dims = cores.dims(rank, 2000);
        let data_type = cores.rng.pick(&PLAIN);
        let small = cores.broadcast(&dims);
        let (a, c) = (cores.laid_out(data_type, &small, true), cores.laid_out(data_type, &dims, false));
        let Scaling { alpha, beta } = cores.scaling();
        cores.add(a, c, alpha, beta);
    }
}

/// Values of every type in packed, strided and blocked tensors.
fn fills(cores: &mut Cores) {
    for data_type in PLAIN {
        for case in 0..40 {
            let rank = 2 + cores.rng.below(7);
            let dims = cores.dims(rank, 3000);
            let y = match case {
                0 => format(data_type, Format::Nhwc, &[2, 33, 5, 70]),
                1 => strided(data_type, &[3, 32], &[48, 1]),
                2 => format(data_type, Format::Blocked(8), &[2, 11, 3, 5]),
                _ => cores.laid_out(data_type, &dims, false),
            };
            let is_real = !matches!(
                data_type,
                DataType::Int8 | DataType::Uint8 | DataType::Int32 | DataType::Int64 | DataType::Boolean
            );
            let factor = cores.rng.pick(&[0.0, 1.0, -3.0, 7.0]) * 1.37;
            let value = match cores.rng.pick(&[0.0, 1.0, -3.0, 7.0]) {
                x if is_real => Number::Real(x * 1.37),
                x => Number::Integer(x as i64),
            };
            cores.fill(y, &FillPlan::set(&y.desc, value, Mode::Extended).expect("a plan"));
            cores.fill(y, &FillPlan::scale(&y.desc, factor, Mode::Extended).expect("a plan"));
        }
        // Addresses that repeat: scaled in the order of the dimensions.
        let y = strided(data_type, &[4, 4], &[2, 1]);
        cores.fill(y, &FillPlan::scale(&y.desc, 3.0, Mode::Extended).expect("a plan"));
    }
    // Every length and alignment around a vector.
    for data_type in SIZES {
        for len in (1..40).chain([4095, 10_000]) {
            let y = format(data_type, Format::Nchw, &[1, len]).shifted(cores.rng.below(17));
            cores.fill(y, &FillPlan::set(&y.desc, Number::Real(2.5), Mode::Extended).expect("a plan"));
        }
    }
    for width in [1, 2, 4, 8, 16] {
        let near = strided(DataType::Int8, &[2, 3, width], &[96 * width, 5 * width, 1]);
        cores.fill(near, &FillPlan::set(&near.desc, Number::Integer(-7), Mode::Extended).expect("a plan"));
        let far = strided(DataType::Int8, &[2, 3, width], &[96 * width, FAR, 1]);
        let plan = |y: &Tensor| FillPlan::set(&y.desc, Number::Integer(-7), Mode::Extended).expect("a plan");
        cores.solve_far(far, near, &|context, y, is_far| {
            // SAFETY: the buffer holds the tensor's whole span.
            unsafe { context.run(&plan(if is_far { &far } else { &near }), &[y.into()]) }
        });
    }
}

/// Every function, over common types in vectors, and over all types in all layouts.
fn functions(cores: &mut Cores) {
    for op in OPS {
        for data_type in COMMON {
            for (channels, width) in [(8, 16), (5, 9), (3, 341)] {
                for layout in [Format::Nchw, Format::Nhwc] {
                    let dims = [2, channels, 1, width];
                    let (c, bias) =
                        (format(data_type, layout, &dims), format(data_type, layout, &[1, channels, 1, 1]));
                    for operands in [
                        [Some(c), Some(c)],
                        [Some(c), Some(bias)],
                        [Some(bias), Some(c)],
                        [None, Some(bias)],
                        [Some(c), None],
                        [None, None],
                    ] {
                        if !cores.is_sampled() {
                            continue;
                        }
                        let (rule, factors) = (cores.op_rule(op), cores.factors());
                        cores.op(&rule, operands, c, factors);
                        // Whole numbers do not hide what a wrong factor does.
                        let rule = OpTensorDescriptor { compute_type: DataType::Float, ..rule };
                        let factors = Factors { alpha: [1.0, 1.0], beta: 0.0 };
                        cores.op(&rule, operands, c, factors);
                        let shift = cores.rng.below(9);
                        let moved = operands.map(|operand| operand.map(|tensor| tensor.shifted(shift)));
                        cores.op(&rule, moved, c.shifted(shift), factors);
                    }
                }
            }
        }
    }
    let mut solved = 0;
    while solved < double::cases(900) {
        let rank = 2 + cores.rng.below(7);
        let dims = cores.dims(rank, 2000);
        let src = cores.rng.pick(&PLAIN);
        let dst = if cores.rng.below(2) == 0 { src } else { cores.rng.pick(&PLAIN) };
        let c = cores.laid_out(dst, &dims, false);
        let operands = [0, 1].map(|_| {
            let small = cores.broadcast(&dims);
            Some(cores.laid_out(src, &small, true))
        });
        let op = cores.rng.pick(&OPS);
        let (rule, factors) = (cores.op_rule(op), cores.factors());
        solved += usize::from(cores.op(&rule, operands, c, factors));
    }
    // Addresses of C that repeat, and blocks of channels that end in one that is not full.
    for op in OPS {
        for compute_type in [DataType::Float, DataType::Double] {
            let data_type = compute_type;
            let rule = OpTensorDescriptor { compute_type, ..cores.op_rule(op) };
            let (c, a) = (strided(data_type, &[5, 4], &[2, 1]), strided(data_type, &[5, 4], &[1, 5]));
            let factors = cores.factors();
            cores.op(&rule, [Some(a), Some(a)], c, factors);
            let dims = [2, 11, 3, 5];
            let (blocked, other) =
                (format(data_type, Format::Blocked(4), &dims), format(data_type, Format::Nhwc, &dims));
            cores.op(&rule, [Some(other), Some(other)], blocked, factors);
            cores.op(&rule, [Some(blocked), None], other, factors);
            // Few elements, far apart.
            let (near, far) =
                (strided(data_type, &[3, 5], &[5, 1]), strided(data_type, &[3, 5], &[FAR / 2, 1]));
            let factors = Factors { beta: 0.0, ..factors };
            let bytes = cores.rng.bytes(near.size());
            let (held, device) = (Words::new(&bytes), Memory::new(&bytes));
            let plans = [near, far].map(|c| {
                OpPlan::new(&rule, [&near.desc, &near.desc, &c.desc], factors, false, Mode::Extended)
                    .expect("a plan")
            });
            cores.solve_far(far, near, &|context, y, is_far| {
                let from = if is_far { device.pointer().cast_const().cast() } else { held.address() };
                let from = from.wrapping_byte_add(near.base());
                // SAFETY: all buffers hold their tensors' whole spans.
                unsafe { context.run(&plans[usize::from(is_far)], &[y.into(), from.into(), from.into()]) }
            });
        }
    }
}

impl Cores {
    /// Runs a call on the CUDA core into a tensor too long for this machine's memory, of which only
    /// a few pages are touched, and brings it back as `near`, which the CPU core writes at once.
    pub fn solve_far(
        &mut self, far: Tensor, near: Tensor, call: &dyn Fn(&Context, *mut u8, bool) -> Result<()>,
    ) {
        let before = vec![0xff; near.size()];
        let mut want = Words::new(&before);
        call(&self.cpu, want.address_mut().wrapping_byte_add(near.base()), false).expect("the CPU core");
        if !memory::has_room(far.size(), &"few elements, far apart") {
            return;
        }
        let (middle, got) = (Memory::untouched(far.size()), Memory::new(&before));
        let at = middle.pointer().wrapping_byte_add(far.base());
        call(&self.cuda, at.cast(), true).expect("the CUDA core");
        let dst = got.pointer().wrapping_byte_add(near.base()).into();
        // SAFETY: both buffers hold the tensors' whole spans, on the device.
        unsafe { self.cuda.run(&plain(&far, &near), &[dst, at.into()]) }.expect("the CUDA core");
        assert!(got.read() == want.bytes(), "few elements, far apart");
        self.solved += 1;
    }
}

/// Every reduction over random dimensions, and sequences around the edges of blocks and chunks.
fn reductions(cores: &mut Cores) {
    let mut solved = 0;
    while solved < double::cases(900) {
        let rank = 2 + cores.rng.below(7);
        let dims = cores.dims(rank, 2500);
        let kept = cores.broadcast(&dims);
        let src = if cores.rng.below(2) == 0 { cores.rng.pick(&COMMON) } else { cores.rng.pick(&PLAIN) };
        let dst = if cores.rng.below(2) == 0 { src } else { cores.rng.pick(&PLAIN) };
        let (a, c) = (cores.laid_out(src, &dims, true), cores.laid_out(dst, &kept, false));
        let (op, indexed) = (cores.rng.pick(&REDUCTIONS), cores.rng.below(2) == 0);
        let (rule, scaling) = (cores.reduce_rule(op, indexed), cores.scaling());
        solved += usize::from(cores.reduce(&rule, a, c, scaling));
    }
    for op in REDUCTIONS {
        for length in [1, 31, 33, 127, 129, 1023, 1024, 1025, 8191, 8193, 40_000] {
            for data_type in [DataType::Float, DataType::Half, DataType::Bfloat16, DataType::Double] {
                let most: &[i64] = if length < 2000 { &[1, 3, 70] } else { &[1, 3] };
                for &outputs in most {
                    // Along rows and along columns of a matrix, as bits of all kinds.
                    let dims = [outputs, length];
                    let c = strided(data_type, &[outputs, 1], &[1, 1]);
                    for strides in [[length, 1], [1, outputs]] {
                        if !cores.is_sampled() {
                            continue;
                        }
                        let a = strided(data_type, &dims, &strides);
                        let mut rule = cores.reduce_rule(op, length < 2000 && length % 2 == 1);
                        rule.index_type = IndexType::Bits32;
                        cores.reduce(&rule, a, c, Scaling::MOVE);
                    }
                }
            }
        }
    }
    // Chunks with indices; and images, per channel.
    for compute_type in [DataType::Float, DataType::Double] {
        for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Amax] {
            let a = strided(DataType::Half, &[1, 30_000], &[1, 1]);
            let columns = strided(DataType::Half, &[3000, 5], &[5, 1]);
            let mut rule = ReduceDescriptor { compute_type, ..cores.reduce_rule(op, true) };
            rule.index_type = IndexType::Bits64;
            cores.reduce(&rule, a, strided(DataType::Half, &[1, 1], &[1, 1]), Scaling::MOVE);
            cores.reduce(&rule, columns, strided(DataType::Half, &[1, 5], &[5, 1]), Scaling::MOVE);
        }
        for layout in [Format::Nchw, Format::Nhwc] {
            let a = format(DataType::Float, layout, &[3, 13, 20, 40]);
            let c = format(DataType::Float, Format::Nchw, &[1, 13, 1, 1]);
            for op in REDUCTIONS {
                let rule = ReduceDescriptor { compute_type, ..cores.reduce_rule(op, false) };
                let scaling = cores.scaling();
                cores.reduce(&rule, a, c, scaling);
            }
        }
        // Types without kernels of their own, long enough for chunks.
        for (outputs, strides) in [(1, [1, 1]), (5, [1, 5])] {
            let a = strided(DataType::Int8, &[outputs, 20_000], &strides);
            let rule = ReduceDescriptor { compute_type, ..cores.reduce_rule(ReduceOp::Add, false) };
            let c = strided(DataType::Int8, &[outputs, 1], &[1, 1]);
            cores.reduce(&rule, a, c, Scaling { alpha: 0.25, beta: 0.0 });
        }
    }
    // Addresses of C that repeat, and blocks of channels on either side.
    for op in REDUCTIONS {
        let a = strided(DataType::Float, &[4, 4, 9], &[36, 9, 1]);
        let c = strided(DataType::Float, &[4, 4, 1], &[2, 1, 1]);
        let (rule, scaling) = (cores.reduce_rule(op, true), cores.scaling());
        cores.reduce(&rule, a, c, scaling);
        let dims = [2, 11, 3, 5];
        let (blocked, other) = (format(DataType::Float, Format::Blocked(4), &dims), [2, 11, 1, 1]);
        cores.reduce(&rule, blocked, format(DataType::Float, Format::Blocked(8), &other), scaling);
        cores.reduce(&rule, blocked, format(DataType::Float, Format::Nchw, &[1, 1, 3, 5]), scaling);
    }
}

/// What needs a copy of an operand is refused with a sentence, and nothing is written.
#[test]
fn overlaps_are_refused() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || {
        let mut cores = Cores::new();
        let (rows, columns) =
            (strided(DataType::Float, &[5, 7], &[7, 1]), strided(DataType::Float, &[5, 7], &[1, 5]));
        let bytes = cores.rng.bytes(rows.size() + 64);
        let memory = Memory::new(&bytes);
        let at: *mut u8 = memory.pointer().wrapping_byte_add(rows.base()).cast();
        let rule = OpTensorDescriptor::default();
        let factors = Factors { alpha: [1.0, 1.0], beta: 0.0 };
        let refuse = |outcome: Result<()>, names: &str| {
            let error = outcome.expect_err("an overlap");
            assert!(matches!(error, Error::Unsupported(_)) && error.to_string().contains(names), "{error}");
            assert!(memory.read() == bytes, "nothing is written");
        };
        for (a, b, shift, names) in [
            (columns, rows, 0, "A and C overlap"),
            (rows, columns, 0, "B and C overlap"),
            (rows, rows, 4, "A and C overlap"),
        ] {
            let plan = OpPlan::new(&rule, [&a.desc, &b.desc, &rows.desc], factors, false, Mode::Extended)
                .expect("a plan");
            let source = at.wrapping_byte_add(shift).into();
            // SAFETY: all of the spans lie in one allocation of the device.
            refuse(unsafe { cores.cuda.run(&plan, &[at.into(), source, source]) }, names);
        }
        let sums = strided(DataType::Float, &[5, 1], &[1, 1]);
        let rule = ReduceDescriptor::default();
        let plan =
            ReducePlan::new(&rule, &rows.desc, &sums.desc, Scaling::MOVE, Mode::Extended).expect("a plan");
        // SAFETY: as above.
        refuse(
            unsafe { cores.cuda.run(&plan, &[at.into(), Address::NULL, at.into(), Address::NULL]) },
            "A and C overlap",
        );
    });
}

/// Every problem of this file.
pub fn all(cores: &mut Cores) {
    biases(cores);
    fills(cores);
    functions(cores);
    reductions(cores);
}
