//! Dropout and batch normalisation on both cores, equal in every bit.

use cudnn::backend::cuda::module;
use cudnn::desc::normalization::{BatchNormMode, parameters};
use cudnn::desc::{ActivationDescriptor, ActivationMode, DropoutDescriptor, Format, NanPropagation};
use cudnn::dtype::DataType;
use cudnn::exec::Address;
use cudnn::mode::Mode;
use cudnn::ops::batch_norm::{
    Backward, BackwardPlan, Forward, ForwardPlan, Fused, Parameters, Query, Source, reserve_size,
};
use cudnn::ops::dropout::{DropoutPlan, Pass};
use cudnn::ops::{Plan, Role, Scaling};

use crate::child;
use crate::cores::Cores;
use crate::double::{self, Runs};
use crate::tensors::{Tensor, format};

const TYPES: [DataType; 5] =
    [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16, DataType::Fp8E5m2];
const ACTIVATIONS: [ActivationMode; 7] = [
    ActivationMode::Relu,
    ActivationMode::ClippedRelu,
    ActivationMode::Sigmoid,
    ActivationMode::Tanh,
    ActivationMode::Elu,
    ActivationMode::Swish,
    ActivationMode::Identity,
];
/// Groups that are cut into parts where the workspace has room: a few, more than a warp joins, more
/// than 32 groups.
const LONG: [[i64; 4]; 4] = [[2, 3, 99, 101], [1, 2, 150, 140], [3, 40, 40, 33], [1030, 3, 2, 2]];
const DIMS: [[i64; 4]; 6] =
    [[3, 5, 7, 6], [2, 40, 3, 3], [1, 2, 50, 60], [65, 3, 2, 2], [4, 33, 1, 1], [1, 1, 1, 1]];

impl Cores {
    /// Runs a plan on both cores.
    pub fn agree(&mut self, plan: &dyn Plan, tensors: &[Tensor], contents: &[Vec<u8>]) {
        let workspace = plan.operands().iter().position(|operand| operand.role == Role::Scratch);
        self.same_but(&plan.to_string(), tensors, contents, workspace, &|context, at, _| {
            let at: Vec<Address> = at.iter().map(|&at| at.into()).collect();
            // SAFETY: all buffers hold their tensors' whole spans, at multiples of their scalars.
            unsafe { context.run(plan, &at[..plan.operands().len()]) }
        });
    }

    fn tensor(&mut self, data_type: DataType, dims: &[i64]) -> Tensor {
        match self.rng.below(4) {
            0 => format(data_type, Format::Nchw, dims),
            1 => format(data_type, Format::Nhwc, dims),
            _ => self.laid_out(data_type, dims, false),
        }
    }

    fn fused(&mut self) -> Option<Fused> {
        let activation = ActivationDescriptor {
            mode: self.rng.pick(&ACTIVATIONS),
            nan: self.rng.pick(&[NanPropagation::Drop, NanPropagation::Keep]),
            coefficient: 0.75,
            swish_beta: 1.25,
        };
        let adds = self.rng.pick(&[false, true]);
        self.rng.pick(&[false, true]).then_some(Fused { adds, activation })
    }
}

/// Both passes over two tensors that drop with a probability.
fn dropout(cores: &mut Cores, x: Tensor, y: Tensor, p: f32) {
    let elements = x.desc.stored_dims().iter().product::<i64>();
    let mask_bytes = 4 * elements.div_euclid(32) + 4;
    let mask = format(DataType::Int32, Format::Nchw, &[1, mask_bytes / 4]);
    let states = format(DataType::Int64, Format::Nchw, &[1, 2]);
    let mut desc = DropoutDescriptor::default();
    desc.restore(p, 8, 16, 1, Mode::Extended).expect("enough room");
    let pass = Pass {
        src: ("xdesc", &x.desc),
        dst: ("ydesc", &y.desc),
        reserve_size: mask_bytes as usize,
        in_place: false,
    };
    let contents = [
        cores.before(y, 0.0),
        cores.rng.bytes(mask.size()),
        cores.rng.bytes(states.size()),
        cores.rng.bytes(x.size()),
    ];
    let plan = DropoutPlan::forward(&desc, pass, Mode::Extended).expect("a plan");
    cores.agree(&plan, &[y, mask, states, x], &contents);
    let contents = [contents[0].clone(), contents[3].clone(), contents[1].clone()];
    let plan = DropoutPlan::backward(&desc, pass, Mode::Extended).expect("a plan");
    cores.agree(&plan, &[y, x, mask], &contents);
}

fn dropouts(cores: &mut Cores) {
    const PROBABILITIES: [f32; 4] = [0.0, 0.3, 0.5, 1.0];
    for _ in 0..double::cases(60) {
        let data_type = cores.rng.pick(&TYPES);
        let dims = cores.rng.pick(&DIMS);
        let (x, y) = (cores.tensor(data_type, &dims), cores.tensor(data_type, &dims));
        let p = cores.rng.pick(&PROBABILITIES);
        dropout(cores, x, y, p);
    }
    // Runs of whole vectors and not, in one block and in several, and off 16 bytes.
    for data_type in TYPES {
        for (length, shifts) in
            [(1, [0, 0]), (37, [0, 0]), (8192, [0, 0]), (20_003, [0, 0]), (8199, [1, 0]), (8199, [0, 1])]
        {
            let tensor = format(data_type, Format::Nchw, &[1, length]);
            let p = cores.rng.pick(&[0.3, 0.5]);
            dropout(cores, tensor.shifted(shifts[0]), tensor.shifted(shifts[1]), p);
        }
        // Channels side by side: vectors of them in pixels whose number ends within a thread's, off
        // 16 bytes, and of several images and one.
        for (dims, shift) in [([2, 8, 5, 10], 0), ([1, 24, 7, 7], 0), ([3, 16, 1, 33], 0), ([2, 8, 4, 9], 1)]
        {
            let tensor = format(data_type, Format::Nhwc, &dims);
            let p = cores.rng.pick(&[0.3, 0.5]);
            dropout(cores, tensor.shifted(shift), tensor, p);
        }
    }
}

fn normalisations(cores: &mut Cores) {
    // Of each kind one for sure, then any.
    const EACH: usize = 32;
    for case in 0..EACH + double::cases(68) {
        let each = case < EACH;
        let bit = |k: i32| case >> k & 1 == 1;
        let data_type = if each { TYPES[usize::from(bit(0))] } else { cores.rng.pick(&TYPES) };
        let long = if each { bit(1) } else { case % 8 == 0 };
        let dims = cores.rng.pick(if long { &LONG[..] } else { &DIMS[..] });
        // What the size query answers, and less.
        let share = if each { 1 } else { cores.rng.pick(&[1, 1, 3]) };
        let mode = if each {
            BatchNormMode::Spatial
        } else {
            cores.rng.pick(&[BatchNormMode::PerActivation, BatchNormMode::Spatial])
        };
        let [x, y, z, dy] = std::array::from_fn(|_| cores.tensor(data_type, &dims));
        let s = Tensor::of(
            parameters(&x.desc, mode == BatchNormMode::PerActivation, Mode::Extended).expect("parameters"),
        );
        let curved = |mode| ActivationDescriptor { mode, ..ActivationDescriptor::default() };
        let fused = match (each, bit(2)) {
            (false, _) => cores.fused(),
            (true, false) => None,
            (true, true) => Some(Fused { adds: bit(3), activation: curved(ActivationMode::Tanh) }),
        };
        let adds = fused.is_some_and(|fused| fused.adds);
        let reserve_bytes = reserve_size(&x.desc, fused.as_ref()).expect("a size");
        let reserve = format(DataType::Double, Format::Nchw, &[1, reserve_bytes.div_ceil(8) as i64]);
        let query = Query {
            mode,
            x: &x.desc,
            others: &[],
            added: None,
            parameters: Parameters { name: "s", tensor: &s.desc },
            forward: true,
        };
        let workspace_size = query.workspace_size(None, Mode::Extended).expect("a size") / share / 8 * 8;
        let workspace = format(DataType::Double, Format::Nchw, &[1, (workspace_size / 8).max(1) as i64]);
        let scaling = cores.scaling();
        let training = if each { bit(4) || long } else { cores.rng.below(4) > 0 };
        let saved = if each { bit(4) } else { cores.rng.pick(&[false, true]) };
        let source = match training {
            true => Source::Batch {
                factor: cores.rng.pick(&[0.0, 0.1, 1.0]),
                running: [cores.rng.pick(&[false, true]), cores.rng.pick(&[false, true])],
                saved: [saved; 2],
            },
            false => Source::Given,
        };
        let call = Forward {
            mode,
            x: &x.desc,
            y: &y.desc,
            z: adds.then_some(&z.desc),
            parameters: Parameters { name: "s", tensor: &s.desc },
            source,
            epsilon: 1e-5,
            scaling,
            fused,
            reserve_size: reserve_bytes,
            workspace_size,
            names: [""; 6],
        };
        let plan = ForwardPlan::new(call, Mode::Extended).expect("a plan");
        let tensors = [y, s, s, s, s, reserve, x, z, s, s, workspace];
        let mut contents: Vec<Vec<u8>> =
            tensors.iter().map(|tensor| cores.rng.bytes(tensor.size())).collect();
        contents[0] = cores.before(y, scaling.beta);
        cores.agree(&plan, &tensors, &contents);
        let call = Backward {
            mode,
            x: &x.desc,
            dy: &dy.desc,
            dx: &y.desc,
            dz: adds.then_some(&z.desc),
            parameters: Parameters { name: "s", tensor: &s.desc },
            saved: [saved; 2],
            bias: true,
            epsilon: 1e-3,
            scaling,
            parameter_scaling: cores.scaling(),
            fused,
            reserve_size: reserve_bytes,
            workspace_size,
            names: [""; 6],
        };
        let plan = BackwardPlan::new(call, Mode::Extended).expect("a plan");
        let tensors = [y, s, s, z, x, dy, s, s, s, s, reserve, workspace];
        let contents: Vec<Vec<u8>> = tensors.iter().map(|tensor| cores.rng.bytes(tensor.size())).collect();
        cores.agree(&plan, &tensors, &contents);
    }
}

/// Statistics that are given, of neighbours that fill vectors: of one group, and of neighbouring
/// ones.
fn runs(cores: &mut Cores) {
    for case in 0..24 {
        let data_type = [DataType::Float, DataType::Half, DataType::Bfloat16][case % 3];
        let layout = [Format::Nchw, Format::Nhwc][case / 3 % 2];
        let adds = case >= 12;
        let activation =
            ActivationDescriptor { mode: ActivationMode::Relu, ..ActivationDescriptor::default() };
        let x = format(data_type, layout, &[3, 24, 4, 6]);
        let s = Tensor::of(parameters(&x.desc, false, Mode::Extended).expect("parameters"));
        let scaling = cores.scaling();
        let call = Forward {
            mode: BatchNormMode::Spatial,
            x: &x.desc,
            y: &x.desc,
            z: adds.then_some(&x.desc),
            parameters: Parameters { name: "s", tensor: &s.desc },
            source: Source::Given,
            epsilon: 1e-5,
            scaling,
            fused: adds.then_some(Fused { adds, activation }),
            reserve_size: 0,
            workspace_size: 0,
            names: [""; 6],
        };
        let plan = ForwardPlan::new(call, Mode::Extended).expect("a plan");
        let unused = format(DataType::Double, Format::Nchw, &[1, 1]);
        let tensors = [x, s, s, s, s, unused, x, x, s, s, unused];
        let mut contents: Vec<Vec<u8>> =
            tensors.iter().map(|tensor| cores.rng.bytes(tensor.size())).collect();
        contents[0] = cores.before(x, scaling.beta);
        cores.agree(&plan, &tensors, &contents);
    }
    for kernel in ["normalise_run_f32", "normalise_run_f16", "normalise_run_bf16"] {
        assert!(!double::is_idle(kernel), "{kernel} is idle");
    }
}

/// Groups that are cut without a workspace, for the sums of parts wait in the result: the last part
/// with many elements, with as many as the sums take, and with one, which has no room.
fn cuts(cores: &mut Cores) {
    let shapes: [(Format, [i64; 4]); 7] = [
        (Format::Nchw, [2, 3, 64, 70]),
        (Format::Nchw, [350, 2, 7, 7]),
        (Format::Nchw, [1, 2, 5, 1640]),
        (Format::Nchw, [1, 2, 1, 8193]),
        (Format::Nhwc, [2, 40, 17, 31]),
        (Format::Nhwc, [3, 3, 57, 103]),
        (Format::Nhwc, [1, 2, 1, 520]),
    ];
    for (number, (layout, dims)) in shapes.into_iter().enumerate() {
        for (of, data_type) in [DataType::Float, DataType::Half, DataType::Bfloat16].into_iter().enumerate() {
            if !double::is_sampled(number + of) {
                continue;
            }
            let x = format(data_type, layout, &dims);
            let s = Tensor::of(parameters(&x.desc, false, Mode::Extended).expect("parameters"));
            let unused = format(DataType::Double, Format::Nchw, &[1, 1]);
            let scaling = cores.rng.pick(&[Scaling::MOVE, Scaling { alpha: -1.5, beta: 0.0 }]);
            let saved = number % 2 == 0;
            let source = Source::Batch { factor: 0.1, running: [saved, true], saved: [saved; 2] };
            let call = Forward {
                mode: BatchNormMode::Spatial,
                x: &x.desc,
                y: &x.desc,
                z: None,
                parameters: Parameters { name: "s", tensor: &s.desc },
                source,
                epsilon: 1e-5,
                scaling,
                fused: None,
                reserve_size: 0,
                workspace_size: 0,
                names: [""; 6],
            };
            let plan = ForwardPlan::new(call, Mode::Extended).expect("a plan");
            let tensors = [x, s, s, s, s, unused, x, x, s, s, unused];
            let contents: Vec<Vec<u8>> =
                tensors.iter().map(|tensor| cores.rng.bytes(tensor.size())).collect();
            cores.agree(&plan, &tensors, &contents);
            for saved in [true, false] {
                let call = Backward {
                    mode: BatchNormMode::Spatial,
                    x: &x.desc,
                    dy: &x.desc,
                    dx: &x.desc,
                    dz: None,
                    parameters: Parameters { name: "s", tensor: &s.desc },
                    saved: [saved; 2],
                    bias: true,
                    epsilon: 1e-3,
                    scaling,
                    parameter_scaling: cores.scaling(),
                    fused: None,
                    reserve_size: 0,
                    workspace_size: 0,
                    names: [""; 6],
                };
                let plan = BackwardPlan::new(call, Mode::Extended).expect("a plan");
                let tensors = [x, s, s, x, x, x, s, s, s, s, unused, unused];
                let contents: Vec<Vec<u8>> =
                    tensors.iter().map(|tensor| cores.rng.bytes(tensor.size())).collect();
                cores.agree(&plan, &tensors, &contents);
            }
        }
    }
    for kernel in module::kernels().iter().filter(|kernel| kernel.family() == "batch_norm") {
        assert!(!double::is_idle(kernel.name), "{} is idle", kernel.name);
    }
}

/// Everything here.
pub fn all(cores: &mut Cores) {
    dropouts(cores);
    runs(cores);
    cuts(cores);
    normalisations(cores);
}

#[test]
fn sums_that_wait_in_results_leave_the_bits_of_the_other_core_on_ptx() {
    child::run(&double::of(Runs::Ptx), &[], || cuts(&mut Cores::new()));
}
