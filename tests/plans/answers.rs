//! What plans answer about themselves: which operands may be one memory, whether the order of
//! writes counts, whether they are a single step. No result depends on it as long as a copy is made
//! where none is needed; memory and time do.

use std::fmt::Write;

use cudnn::backend::{self, Isa, Machine};
use cudnn::desc::normalization::parameters;
use cudnn::desc::tensor::Format;
use cudnn::desc::{
    ActivationDescriptor, ActivationMode, ConvolutionDescriptor, ConvolutionGeometry, ConvolutionMode,
    CtcLossDescriptor, FilterDescriptor, NanPropagation, PoolingDescriptor, PoolingMode, ReduceDescriptor,
    TensorDescriptor,
};
use cudnn::dtype::{DataType, Scalar};
use cudnn::layout::{Axis, Cut, Dims, LoopNest};
use cudnn::mode::Mode;
use cudnn::ops::batch_norm::{self, Source};
use cudnn::ops::convolution::{Algorithm, Convolution, ConvolutionPlan, Direction, Fused};
use cudnn::ops::ctc::{CtcPlan, Tensors};
use cudnn::ops::{ActivationPlan, Plan, ReducePlan, Scaling, Step, TransformPlan, pooling};
use testkit::normal::plain_forward;

fn strided(data_type: DataType, dims: &[i64], strides: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_strides(data_type, dims.len() as i64, dims, strides, Mode::Extended)
        .expect("valid")
}

/// Dims, strides of source and destination, their types, and whether one memory serves both.
type InPlace = (&'static [i64], [&'static [i64]; 2], [DataType; 2], bool);

const PLACES: [InPlace; 8] = {
    use DataType::{Float, Half, Int32};
    const DIMS: &[i64] = &[2, 3, 1, 5];
    const PACKED: &[i64] = &[15, 5, 5, 1];
    const MEETING: &[i64] = &[10, 5, 5, 1];
    [
        (DIMS, [PACKED, PACKED], [Float, Float], true),
        (DIMS, [PACKED, PACKED], [Float, Int32], true),
        (DIMS, [PACKED, PACKED], [Float, Half], false),
        // The stride of one element moves nothing.
        (DIMS, [PACKED, &[15, 5, 77, 1]], [Float, Float], true),
        (DIMS, [PACKED, &[16, 5, 5, 1]], [Float, Float], false),
        (DIMS, [PACKED, &[15, 1, 5, 3]], [Float, Float], false),
        // Elements that repeat are written in their order.
        (DIMS, [MEETING, MEETING], [Float, Float], false),
        (&[1, 1, 1, 1], [&[1, 1, 1, 1], &[4, 3, 2, 9]], [Half, Half], true),
    ]
};

#[test]
fn what_moves_nothing_works_in_place() {
    for (dims, strides, types, in_place) in PLACES {
        let [x, y] = [0, 1].map(|at| strided(types[at], dims, strides[at]));
        let repeats = strides[1][0] == 10;
        let plan = TransformPlan::new(&x, &y, Scaling::MOVE, Mode::Extended).expect("computed");
        assert_eq!(plan.works_in_place(1, 0), in_place, "a transform of {x:?} to {y:?}");
        assert_eq!(plan.is_ordered(), repeats, "a transform to {y:?}");
        assert!(plan.is_one_step());
        let layout = |operand: usize| plan.layout(operand).expect("it is known").strides;
        assert_eq!([&layout(1)[..], &layout(0)[..]], strides);
    }
}

/// What stands behind the last channels of a destination in blocks is set to zero together with
/// these, where they come from one group of the source and nothing is added to.
#[test]
fn the_last_block_of_channels_comes_with_its_zeros() {
    let of = |channels: i64, block: i64| {
        let format = if block == 1 { Format::Nchw } else { Format::Blocked(block) };
        TensorDescriptor::with_format(DataType::Float, format, 4, &[2, channels, 3, 5], Mode::Extended)
            .expect("valid")
    };
    // Channels and zeros of the last block as one step, or zeros alone.
    for (channels, [from, to], beta, last, alone) in [
        (6, [1, 4], 0.0, Some((2, 2)), false),
        (5, [1, 4], 0.0, Some((1, 3)), false),
        (8, [1, 4], 0.0, None, false),
        (3, [1, 4], 0.0, Some((3, 1)), false),
        (6, [1, 4], 0.5, None, true),
        (33, [4, 32], 0.0, Some((1, 31)), false),
        (35, [4, 32], 0.0, Some((3, 29)), false),
        (36, [4, 32], 0.0, Some((4, 28)), false),
        (37, [4, 32], 0.0, None, true),
        (35, [32, 4], 0.0, Some((3, 1)), false),
    ] {
        let [x, y] = [from, to].map(|block| of(channels, block));
        let scaling = Scaling { alpha: 1.0, beta };
        let plan = TransformPlan::new(&x, &y, scaling, Mode::Extended).expect("computed");
        let (mut found, mut zeros) = (None, false);
        let each = plan.for_each(&mut |step| {
            match step {
                Step::Padded(padded) => {
                    let machine = Machine { isa: Isa::PORTABLE, threads: 1 };
                    assert_eq!(backend::kernel(step, false, machine), Some("padded_blocks"));
                    found = Some((padded.cells.extent, padded.zeros));
                }
                Step::Scale(_) => zeros = true,
                _ => {}
            }
            Ok(())
        });
        each.expect("nothing fails");
        assert_eq!((found, zeros), (last, alone), "{channels} channels from {from} to {to}, beta {beta}");
    }
}

#[test]
fn functions_of_elements_work_in_place_where_these_lie_alike() {
    let relu = ActivationDescriptor {
        mode: ActivationMode::Relu,
        nan: NanPropagation::Drop,
        coefficient: 0.0,
        swish_beta: 1.0,
    };
    for (dims, strides, types, in_place) in PLACES.into_iter().filter(|(_, _, [x, y], _)| x == y) {
        let [x, y] = [0, 1].map(|at| strided(types[at], dims, strides[at]));
        let plan = ActivationPlan::forward(&relu, [&x, &y], Scaling::MOVE, false, Mode::Extended);
        let plan = plan.expect("computed");
        assert_eq!(plan.works_in_place(1, 0), in_place, "{x:?} to {y:?}");
        assert_eq!(plan.is_ordered(), strides[1][0] == 10, "{y:?}");
        assert!(plan.is_one_step());
    }
    // Two steps where channels lie in blocks: those of the last block are set to 0.
    let x = in_blocks(6);
    let plan = ActivationPlan::forward(&relu, [&x, &x], Scaling::MOVE, false, Mode::Extended);
    assert!(!plan.expect("computed").is_one_step());
}

/// A tensor whose channels lie in blocks of four.
fn in_blocks(channels: i64) -> TensorDescriptor {
    let dims = [2, channels, 7, 7];
    TensorDescriptor::with_format(DataType::Float, Format::Blocked(4), 4, &dims, Mode::Extended)
        .expect("valid")
}

/// A convolution of floats with 3 x 3 taps and a border of 1.
fn convolution(direction: Direction, strides: [i64; 2]) -> Convolution {
    let (mode, float) = (ConvolutionMode::CrossCorrelation, DataType::Float);
    let two = |value: i64| Dims::filled(2, value);
    let geometry = ConvolutionGeometry::new(mode, float, two(1), Dims::new(&strides), two(1)).expect("valid");
    let desc = ConvolutionDescriptor { geometry, ..ConvolutionDescriptor::default() };
    let tensor = |dims: &[i64]| {
        TensorDescriptor::with_format(float, Format::Nchw, 4, dims, Mode::Strict).expect("valid")
    };
    let w = FilterDescriptor::new(float, Format::Nchw, 4, &[6, 4, 3, 3], Mode::Strict).expect("valid");
    let [down, along] = strides.map(|stride| 7 / stride + 1);
    let (x, y) = (tensor(&[2, 4, 8, 8]), tensor(&[2, 6, down, along]));
    Convolution::new(direction, &desc, &x, &w, &y, Mode::Strict).expect("computed")
}

#[test]
fn a_convolution_is_one_step_unless_strides_make_phases() {
    for direction in [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter] {
        for (strides, phases) in [([1, 1], false), ([1, 2], true), ([2, 1], true), ([2, 2], true)] {
            let problem = convolution(direction, strides);
            let plan = ConvolutionPlan::new(&problem, Scaling::MOVE).expect("computed");
            let several = phases && direction == Direction::BackwardData;
            assert_eq!(plan.is_one_step(), !several, "{direction:?} {strides:?}");
            let filters = (direction != Direction::BackwardFilter).then_some(2);
            assert_eq!(plan.filters(), filters);
            for (read, write) in [(1, 0), (2, 0), (3, 0), (4, 0)] {
                assert!(
                    !plan.works_in_place(read, write),
                    "{direction:?}: {read} is no sum that is added to"
                );
            }
        }
    }
    let problem = convolution(Direction::Forward, [1, 1]);
    let float = |strides: [i64; 4]| strided(DataType::Float, &[2, 6, 8, 8], &strides);
    let bias = strided(DataType::Float, &[1, 6, 1, 1], &[6, 1, 1, 1]);
    for (z, in_place) in [(float([384, 64, 8, 1]), true), (float([400, 64, 8, 1]), false)] {
        let activation = ActivationDescriptor { mode: ActivationMode::Relu, ..Default::default() };
        let fused = Fused { alpha: 1.0, z: (&z, 0.5), bias: &bias, activation: &activation };
        let plan = ConvolutionPlan::fused(&problem, &fused, Mode::Extended).expect("computed");
        let pairs =
            [(1, 0), (2, 0), (3, 0), (4, 0), (3, 1)].map(|(read, write)| plan.works_in_place(read, write));
        assert_eq!(pairs, [false, false, in_place, false, false], "{z:?}");
        // Times 0 it is not read.
        for factor in [0.0, 0.5, -1.0] {
            let fused = Fused { z: (&z, factor), ..fused };
            let plan = ConvolutionPlan::fused(&problem, &fused, Mode::Extended).expect("computed");
            assert_eq!(plan.operands()[3].is_touched(), factor != 0.0, "times {factor}");
        }
    }
}

/// By the names of the enumerations: number 0 takes no workspace, Winograd's numbers are those that
/// the header calls so, and gradients of numbers that add in any order are not deterministic there.
#[test]
fn algorithms_are_what_their_names_say() {
    for (direction, count, winograd, random) in [
        (Direction::Forward, 8, [6, 7], &[][..]),
        (Direction::BackwardData, 6, [4, 5], &[0]),
        (Direction::BackwardFilter, 7, [4, 5], &[0, 3]),
    ] {
        for number in 0..count {
            let algorithm = Algorithm::new(direction, number).expect("known");
            let what = format!("{direction:?} {number}");
            assert_eq!(algorithm.number(), number);
            assert_eq!(algorithm.is_winograd(), winograd.contains(&number), "{what}");
            assert_eq!(algorithm.takes_workspace(), number != 0, "{what}");
            let little = direction == Direction::BackwardFilter && number == 3;
            assert_eq!(algorithm.moves_operands(), number != 0 && !little, "{what}");
            assert_eq!(algorithm.is_deterministic(), !random.contains(&number), "{what}");
        }
        assert!(winograd.contains(&Algorithm::winograd(direction).number()));
    }
}

/// The kinds of the steps of a pooling with this window.
fn pooled(mode: PoolingMode, format: Format, x: &TensorDescriptor, window: i64, padding: i64) -> Vec<String> {
    let [window, padding, one] = [window, padding, 1].map(|n| Dims::filled(2, n));
    let desc = PoolingDescriptor::new(mode, NanPropagation::Drop, window, padding, one).expect("a pooling");
    let outputs = desc.output_dims(x, Mode::Extended).expect("they fit");
    let dims = outputs.collect::<Result<Vec<_>, _>>().expect("they fit");
    let y = TensorDescriptor::with_format(DataType::Float, format, 4, &dims, Mode::Extended).expect("valid");
    let plan = pooling::forward(&desc, x, &y, Scaling::MOVE, Mode::Extended).expect("computed");
    let mut kinds = Vec::new();
    let walked = plan.steps(&mut |step, slots| {
        assert!(slots[0] < plan.operands().len(), "a step writes to {slots:?}");
        kinds.push(step.to_string().split(' ').next().unwrap_or_default().to_owned());
        Ok(())
    });
    walked.expect("no step fails");
    kinds
}

/// What covers a whole plane is a reduction of it; where the last block of channels is not full,
/// the rest of it becomes 0.
#[test]
fn pooling_of_planes_is_a_reduction_and_blocks_are_filled() {
    let of = |dims: &[i64]| {
        TensorDescriptor::with_format(DataType::Float, Format::Nchw, 4, dims, Mode::Strict).expect("valid")
    };
    let (plane, cell) = (of(&[2, 3, 7, 7]), of(&[2, 3, 1, 1]));
    for mode in [PoolingMode::Max, PoolingMode::AverageWithoutPadding] {
        let kinds = |x: &TensorDescriptor, window, padding| pooled(mode, Format::Nchw, x, window, padding);
        assert_eq!(kinds(&plane, 7, 0), ["reduce"]);
        assert_eq!(kinds(&plane, 3, 0), ["window"]);
        assert_eq!(kinds(&plane, 7, 1), ["window"]);
        assert_eq!(kinds(&cell, 1, 0), ["window"]);
        for (channels, filled) in [(4, 0), (6, 1), (8, 0)] {
            let kinds = pooled(mode, Format::Blocked(4), &in_blocks(channels), 3, 0);
            assert_eq!(
                kinds.last().map(String::as_str),
                Some(["window", "scale"][filled]),
                "{channels}: {kinds:?}"
            );
        }
    }
}

#[test]
fn windows_touch_what_their_function_reads_and_have_as_many_cells() {
    use cudnn::ops::window::{Axes, Divisor, Power, Window, WindowAxis, WindowFunction as Of};
    use cudnn::ops::{Compute, NanRule};
    let cut = Cut { start: 0, step: 1, stride: 1, block: 1 };
    let axis =
        WindowAxis { inputs: 9, outputs: 4, window: 3, stride: 2, dilation: 1, pad: 0, cuts: [cut; 3] };
    let power = Power { k: 1.0, scale: 0.5, beta: 0.75 };
    // dst, gradient of means, source, what was written, means; and how many cells the results have.
    for (function, touched, cells) in [
        (Of::Max(NanRule::Ignore), [1, 0, 1, 0, 0], 4),
        (Of::Average(Divisor::Inside), [1, 0, 1, 0, 0], 4),
        (Of::Columns, [1, 0, 1, 0, 0], 12),
        (Of::MaxGradient(NanRule::Ignore), [1, 0, 1, 1, 0], 9),
        (Of::AverageGradient(Divisor::Inside), [1, 0, 0, 1, 0], 9),
        (Of::Normalise { power, centred: false }, [1, 0, 1, 0, 0], 4),
        (Of::Normalise { power, centred: true }, [1, 0, 1, 0, 1], 4),
        (Of::NormaliseGradient { power, centred: false, means: false }, [1, 0, 1, 1, 0], 9),
        (Of::NormaliseGradient { power, centred: true, means: true }, [1, 1, 1, 1, 1], 9),
    ] {
        let outer = LoopNest::new(&[Axis { extent: 5, strides: [9, 9, 9] }], [0; 3]);
        let (scalars, compute) = ([Scalar::F32; 3], Compute::Single);
        let window =
            Window { function, outer, axes: Axes::new([axis]), scalars, compute, scaling: Scaling::MOVE };
        assert_eq!(window.touches().map(u8::from), touched, "{window}");
        assert_eq!((window.len(), window.is_empty()), (5 * cells, false), "{window}");
    }
}

/// Bytes of workspace of a reduction that a device cuts into chunks: a number for each chunk of
/// each output, and an index where indices are wanted.
#[test]
fn chunks_of_a_reduction_have_a_place_each() {
    let row = testkit::steps::read().into_iter().find_map(|row| match row.step.step() {
        Step::Reduce(reduce) => Some(*reduce),
        _ => None,
    });
    let reduce = row.expect("a reduction is listed");
    let outputs = reduce.outputs.len() as usize;
    let slot = if reduce.indices.is_some() { 16 } else { 8 };
    for (chunks, slots) in [(1, 0), (2, 2 * outputs), (7, 7 * outputs)] {
        let mut partition = reduce.whole(reduce.schedule());
        partition.chunks = chunks;
        assert_eq!(reduce.workspace_bytes(partition), 16 + slots * slot, "{chunks} chunks");
    }
}

/// Results that meet at an address are written in order, by every kind that writes many.
#[test]
fn what_meets_is_written_in_order() {
    let dims = [2, 3, 1, 5];
    let x = strided(DataType::Float, &dims, &[15, 5, 5, 1]);
    let group = parameters(&x, false, Mode::Extended).expect("valid");
    let sum = ReduceDescriptor::default();
    for (strides, meets) in [([15, 5, 5, 1], false), ([10, 5, 5, 1], true), ([20, 5, 5, 1], false)] {
        let y = strided(DataType::Float, &dims, &strides);
        let call = batch_norm::Forward { y: &y, ..plain_forward(&x, &group, Source::Given) };
        let norm = batch_norm::ForwardPlan::new(call, Mode::Extended).expect("computed");
        assert_eq!(norm.is_ordered(), meets, "a normalisation to {strides:?}");
        let wide = strided(DataType::Float, &[2, 3, 4, 5], &[60, 20, 5, 1]);
        let plan = ReducePlan::new(&sum, &wide, &y, Scaling::MOVE, Mode::Extended).expect("computed");
        assert_eq!(plan.is_ordered(), meets, "a sum to {strides:?}");
    }
}

/// Which operands a batch normalisation touches: y, saved mean and inverse variance, running mean
/// and variance, reserve space, x, z, scale, bias.
#[test]
fn batch_normalisation_touches_what_its_statistics_need() {
    let dims = [2, 6, 5, 5];
    let x = TensorDescriptor::with_format(DataType::Float, Format::Nchw, 4, &dims, Mode::Strict);
    let x = x.expect("valid");
    let group = parameters(&x, false, Mode::Extended).expect("valid");
    let batch =
        |running: bool, saved: bool| Source::Batch { factor: 0.1, running: [running; 2], saved: [saved; 2] };
    for (source, touched) in [
        (Source::Given, [1, 0, 0, 1, 1, 0, 1, 0, 1, 1]),
        (batch(false, false), [1, 0, 0, 0, 0, 0, 1, 0, 1, 1]),
        (batch(true, false), [1, 0, 0, 1, 1, 0, 1, 0, 1, 1]),
        (batch(true, true), [1, 1, 1, 1, 1, 0, 1, 0, 1, 1]),
    ] {
        let plan = batch_norm::ForwardPlan::new(plain_forward(&x, &group, source), Mode::Extended);
        let plan = plan.expect("computed");
        let found: Vec<u8> = plan.operands().iter().map(|operand| u8::from(operand.is_touched())).collect();
        assert_eq!(found[..10], touched, "{source:?}");
    }
}

/// Labels and lengths in the core's memory: an integer for each sample, and one label at least.
#[test]
fn labels_of_a_device_are_integers() {
    let loss = CtcLossDescriptor {
        compute_type: DataType::Float,
        normalization: 1,
        gradient: 0,
        max_label_length: 3,
    };
    let probs = TensorDescriptor::with_format(DataType::Float, Format::Nchw, 3, &[5, 7, 4], Mode::Extended);
    let probs = probs.expect("valid");
    let tensors =
        Tensors { loss: &loss, probs: &probs, gradients: Some(&probs), has_gradients: true, algorithm: 0 };
    let plan = CtcPlan::with_device_labels(tensors, usize::MAX, Mode::Extended).expect("computed");
    let layouts = [0, 1, 3].map(|operand| plan.layout(operand).map(|layout| layout.dims.to_vec()));
    assert_eq!(layouts, [None, Some(vec![5, 7, 4]), Some(vec![5, 7, 4])]);
    assert!(plan.works_in_place(3, 1) && !plan.works_in_place(3, 0));
    let spans: Vec<_> = plan.operands()[4..].iter().map(|operand| (operand.name, operand.span)).collect();
    assert_eq!(spans, [("labels", (0, 4)), ("labelLengths", (0, 28)), ("inputLengths", (0, 28))]);
}

/// How a device shares out listed reductions, and what attention touches.
#[test]
fn listed_steps_are_shared_out_as_before() {
    let mut text = String::new();
    for row in testkit::steps::read() {
        let line = match row.step.step() {
            Step::Reduce(step) => {
                let schedule = step.schedule();
                let partition = step.partition(schedule);
                let bytes = step.workspace_bytes(partition);
                format!("{schedule:?}, {partition:?}, {bytes} bytes of workspace")
            }
            Step::Attend(step) => format!("touches {:?}", step.touches().map(u8::from)),
            Step::AttendBackward(step) => format!("touches {:?}", step.touches().map(u8::from)),
            _ => continue,
        };
        writeln!(text, "{}\n  {line}", row.name).expect("there is memory");
    }
    let how = "cargo test --test plans -- listed_steps_are_shared_out";
    assert_eq!(testkit::snapshot::compare("shared_out.txt", how, &text, |_| true), 0);
}
