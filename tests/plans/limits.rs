//! Where rules of operations begin to hold: the last number on either side.

use cudnn::desc::normalization::BatchNormMode;
use cudnn::desc::tensor::Format;
use cudnn::desc::transform::TransformDescriptor;
use cudnn::desc::{
    ConvolutionDescriptor, ConvolutionGeometry, ConvolutionMode, CtcLossDescriptor, FilterDescriptor,
    LrnDescriptor, TensorDescriptor,
};
use cudnn::dtype::{DataType, Scalar};
use cudnn::error::ErrorKind;
use cudnn::layout::format::nchw_strides;
use cudnn::layout::{Dims, Layout};
use cudnn::mode::Mode;
use cudnn::ops::batch_norm::{Forward, ForwardPlan, Source};
use cudnn::ops::contract::{Accumulate, Geometry, Side, Terms};
use cudnn::ops::convolution::{Convolution, ConvolutionPlan, Direction};
use cudnn::ops::ctc::{CtcPlan, Lengths, Tensors};
use cudnn::ops::normalise::{Parts, Tree};
use cudnn::ops::{Contract, MatmulPlan, Plan, Scaling, Step, TransformPlan, response};
use testkit::normal::plain_forward;

fn packed(data_type: DataType, dims: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_format(data_type, Format::Nchw, dims.len() as i64, dims, Mode::Extended)
        .expect("valid")
}

/// A convolution in the plane whose windows are single elements.
fn of_single_taps(compute_type: DataType) -> ConvolutionDescriptor {
    let (mode, two) = (ConvolutionMode::CrossCorrelation, |value: i64| Dims::filled(2, value));
    let geometry = ConvolutionGeometry::new(mode, compute_type, two(0), two(1), two(1)).expect("valid");
    ConvolutionDescriptor { geometry, ..ConvolutionDescriptor::default() }
}

/// Sums of bytes are of 32 bits where the largest ones fit.
#[test]
fn sums_of_bytes_are_integers_as_long_as_they_fit() {
    use Scalar::{F32, I8, U8};
    for (factors, largest) in [([I8, I8], 128 * 128), ([U8, I8], 255 * 128), ([U8, U8], 255 * 255)] {
        let most = i64::from(i32::MAX) / largest;
        for (terms, want) in [
            (Some(0), Accumulate::Int32),
            (Some(most), Accumulate::Int32),
            (Some(most + 1), Accumulate::Double),
            (None, Accumulate::Double),
        ] {
            assert_eq!(Accumulate::of_bytes(factors, terms), Some(want), "{terms:?} of {factors:?}");
        }
    }
    assert_eq!(Accumulate::of_bytes([F32, I8], Some(1)), None);
}

/// Sums of bytes are of 32 bits as long as the terms of a result fit, whatever the direction.
#[test]
fn sums_of_bytes_count_the_terms_of_a_result() {
    let most = i64::from(i32::MAX) / (128 * 128);
    for terms in [most, most + 1] {
        let desc = of_single_taps(DataType::Int32);
        for (direction, x, w, y) in [
            (Direction::Forward, [1, terms, 1, 1], [1, terms, 1, 1], [1, 1, 1, 1]),
            (Direction::BackwardData, [1, 1, 1, 1], [terms, 1, 1, 1], [1, terms, 1, 1]),
            (Direction::BackwardFilter, [terms, 1, 1, 1], [1, 1, 1, 1], [terms, 1, 1, 1]),
        ] {
            let types = match direction {
                Direction::Forward => [DataType::Int8, DataType::Float],
                Direction::BackwardData => [DataType::Float, DataType::Int8],
                Direction::BackwardFilter => [DataType::Int8, DataType::Int8],
            };
            let of_filter =
                if direction == Direction::BackwardFilter { DataType::Float } else { DataType::Int8 };
            let w = FilterDescriptor::new(of_filter, Format::Nchw, 4, &w, Mode::Extended).expect("valid");
            let (x, y) = (packed(types[0], &x), packed(types[1], &y));
            let convolution = Convolution::new(direction, &desc, &x, &w, &y, Mode::Extended).expect("valid");
            let plan = ConvolutionPlan::new(&convolution, Scaling::MOVE).expect("computed");
            let mut sums = Vec::new();
            let walked = plan.steps(&mut |step, _| {
                if let Step::Contract(step) = step {
                    sums.push(step.accumulate);
                }
                Ok(())
            });
            walked.expect("nothing fails");
            let want = if terms == most { Accumulate::Int32 } else { Accumulate::Double };
            assert_eq!(sums, [want], "{terms} terms, {direction:?}");
        }
    }
}

/// A product times 0 reads no factor.
#[test]
fn products_read_factors_unless_they_count_nothing() {
    let [a, b, c] = [[2, 3, 4], [2, 4, 5], [2, 3, 5]].map(|dims| packed(DataType::Float, &dims));
    for (alpha, beta) in [(1.0, 0.0), (0.5, 2.0), (0.0, 0.0), (0.0, 2.0)] {
        let plan = MatmulPlan::new([&a, &b, &c], Scaling { alpha, beta }).expect("computed");
        let touched: Vec<bool> = plan.operands().iter().map(|operand| operand.is_touched()).collect();
        assert_eq!(touched, [true, alpha != 0.0, alpha != 0.0], "{alpha} {beta}");
        let dims = |operand: usize| plan.layout(operand).expect("it is known").dims.to_vec();
        let [own, factor] = [[2, 3, 5], if alpha == 0.0 { [2, 3, 5] } else { [2, 3, 4] }];
        assert_eq!([dims(0), dims(1)], [own, factor].map(Vec::from), "{alpha} {beta}");
    }
}

#[test]
fn strict_normalisation_over_channels_has_a_most_of_images() {
    let desc = LrnDescriptor::new(5, 1e-4, 0.75, 2.0).expect("valid");
    for (images, taken) in [(65_535, true), (65_536, false)] {
        let x = packed(DataType::Float, &[images, 2, 1, 1]);
        for mode in [Mode::Strict, Mode::Extended] {
            let plan = response::cross_channel(&desc, &x, &x, Scaling::MOVE, mode);
            assert_eq!(plan.is_ok(), taken || !mode.is_strict(), "{images} images: {:?}", plan.err());
        }
    }
}

/// Folds add to nothing in strict mode; padding does.
#[test]
fn strict_folds_overwrite() {
    let folding = TransformDescriptor { fold: [2, 2, 0, 0, 0, 0], ..TransformDescriptor::default() };
    let mut padding = TransformDescriptor::default();
    padding.pad_after[2] = 1;
    let x = packed(DataType::Float, &[2, 4, 6, 6]);
    for (desc, folds) in [(folding, true), (padding, false)] {
        let y = packed(DataType::Float, &desc.yields(&x.dims()).expect("valid"));
        for beta in [0.0, 0.5] {
            for mode in [Mode::Strict, Mode::Extended] {
                let scaling = Scaling { alpha: 1.0, beta };
                let plan = TransformPlan::with_map(&desc, &x, &y, scaling, mode);
                let refused = mode.is_strict() && folds && beta != 0.0;
                assert_eq!(plan.is_ok(), !refused, "{desc:?} {beta}: {:?}", plan.err());
            }
        }
    }
}

/// Lengths of the host are checked before anything is computed of them.
#[test]
fn lengths_of_the_host_fit_the_tensors() {
    let loss = CtcLossDescriptor {
        compute_type: DataType::Float,
        normalization: 1,
        gradient: 0,
        max_label_length: 3,
    };
    let probs = packed(DataType::Float, &[5, 2, 4]);
    let tensors = Tensors { loss: &loss, probs: &probs, gradients: None, has_gradients: false, algorithm: 0 };
    let lengths = |labels: &'static [i32], inputs: &'static [i32]| Lengths { labels, inputs };
    let needed = tensors.size(lengths(&[2, 1], &[5, 5]), Mode::Extended).expect("valid");
    assert!(needed > 0);
    for (labels, inputs, workspace, taken) in [
        (&[2, 1], &[5, 5], needed, true),
        (&[2, 1], &[5, 5], needed - 1, false),
        (&[2, 1], &[5, 6], needed, false),
        (&[2, -1], &[5, 5], needed, false),
        (&[0, 0], &[5, 5], needed, true),
    ] {
        let checked = CtcPlan::check(tensors, lengths(labels, inputs), workspace, Mode::Extended);
        let want = if taken { None } else { Some(ErrorKind::BadParam) };
        assert_eq!(checked.err().map(|error| error.kind()), want, "{labels:?} {inputs:?} {workspace}");
    }
}

/// The sums of a normalisation on a device take as much for each group, however many there are.
#[test]
fn sums_of_groups_take_the_same_room() {
    let tree = Tree::ROWS;
    for members in [100, 5000, 1 << 20] {
        let parts = Parts::new(members, tree);
        let [one, ten] = [32, 320].map(|groups| parts.sums_size(groups, tree));
        assert_eq!((one % (32 * 16), ten), (0, 10 * one), "{members} members");
        // Groups lie together in rows.
        assert_eq!(parts.sums_size(33, tree), 2 * one, "{members} members");
    }
}

fn layout(dims: &[i64]) -> Layout {
    Layout { dims: Dims::new(dims), strides: nchw_strides(dims).expect("small"), split: None }
}

fn side(layout: &Layout) -> Side<'_> {
    Side { layout, scalar: Scalar::F32 }
}

/// Batches of factors are those of the product or 1; so is all of a bias and of what is added.
#[test]
fn products_have_the_extents_of_what_they_are_made_of() {
    let taken = |c: &[i64], a: &[i64], b: &[i64], bias: Option<&[i64]>| {
        let [c, a, b] = [c, a, b].map(layout);
        let bias = bias.map(layout);
        let terms = Terms { bias: bias.as_ref().map(side), ..Terms::scaled(Scaling::MOVE) };
        let made = Contract::matmul(side(&c), side(&a), side(&b), Accumulate::Single, &terms);
        made.map(|_| ()).map_err(|error| error.kind())
    };
    let (c, a, b) = (&[6, 3, 5], &[6, 3, 4], &[6, 4, 5]);
    assert_eq!(taken(c, a, b, None), Ok(()));
    assert_eq!(taken(c, &[1, 3, 4], b, None), Ok(()));
    assert_eq!(taken(c, a, &[1, 4, 5], None), Ok(()));
    let other = Err(ErrorKind::BadParam);
    for (c, a, b) in [
        (c, &[3, 3, 4], b),
        (c, a, &[2, 4, 5]),
        (&[1, 3, 5], a, b),
        (c, &[6, 2, 4], b),
        (c, a, &[6, 3, 5]),
        (c, a, &[6, 4, 4]),
    ] {
        assert_eq!(taken(c, a, b, None), other, "{c:?} {a:?} {b:?}");
    }
    for (bias, fits) in [
        (&[6, 3, 5], true),
        (&[1, 1, 5], true),
        (&[6, 3, 1], true),
        (&[1, 1, 1], true),
        (&[3, 3, 5], false),
        (&[6, 2, 5], false),
        (&[6, 3, 4], false),
    ] {
        assert_eq!(taken(c, a, b, Some(bias)), if fits { Ok(()) } else { other }, "{bias:?}");
    }
    assert_eq!(taken(&[6], &[6], &[6], None), other);
    assert_eq!(taken(c, &[3, 4], b, None), other);
}

/// Images, filters and results have the same number of dimensions.
#[test]
fn convolutions_have_operands_of_one_rank() {
    let dims = [[2, 3, 6, 6, 6], [4, 3, 1, 1, 1], [2, 4, 6, 6, 6]];
    let geometry = |spatial: usize| {
        let all = |value: i64| Dims::filled(spatial, value);
        Geometry { padding: all(0), strides: all(1), dilation: all(1), groups: 1, flip: false }
    };
    for ranks in [[5, 5, 5], [4, 4, 4], [4, 5, 4], [5, 4, 5], [5, 5, 4], [4, 4, 5], [5, 4, 4], [1, 1, 1]] {
        let [x, w, y]: [Layout; 3] = std::array::from_fn(|k| layout(&dims[k][..ranks[k]]));
        let (sums, terms) = (Accumulate::Single, Terms::scaled(Scaling::MOVE));
        let built = Contract::forward(
            side(&y),
            side(&x),
            side(&w),
            &geometry(ranks[0].saturating_sub(2)),
            sums,
            &terms,
            &mut |_| Ok(()),
        );
        let fits = ranks[0] > 1 && ranks.iter().all(|&rank| rank == ranks[0]);
        let want = if fits { Ok(()) } else { Err(ErrorKind::BadParam) };
        assert_eq!(built.map_err(|error| error.kind()), want, "{ranks:?}");
    }
}

/// A program may say that it leaves filters as they are, and of no other operand.
#[test]
fn convolutions_alone_have_filters() {
    let x = packed(DataType::Float, &[2, 3, 6, 6]);
    let w = FilterDescriptor::new(DataType::Float, Format::Nchw, 4, &[4, 3, 1, 1], Mode::Extended);
    let (w, y) = (w.expect("valid"), packed(DataType::Float, &[2, 4, 6, 6]));
    let desc = of_single_taps(DataType::Float);
    for (direction, want) in [
        (Direction::Forward, Some("w")),
        (Direction::BackwardData, Some("w")),
        (Direction::BackwardFilter, None),
    ] {
        let convolution = Convolution::new(direction, &desc, &x, &w, &y, Mode::Extended).expect("valid");
        let plan = ConvolutionPlan::new(&convolution, Scaling::MOVE).expect("computed");
        assert_eq!(plan.filters().map(|at| plan.operands()[at].name), want, "{direction:?}");
    }
    let [a, b, c] = [[2, 3, 4], [2, 4, 5], [2, 3, 5]].map(|dims| packed(DataType::Float, &dims));
    let moved = TransformDescriptor::default();
    let lrn = LrnDescriptor::new(5, 1e-4, 0.75, 2.0).expect("valid");
    let plans: [Box<dyn Plan + '_>; 3] = [
        Box::new(MatmulPlan::new([&a, &b, &c], Scaling::MOVE).expect("computed")),
        Box::new(TransformPlan::with_map(&moved, &x, &x, Scaling::MOVE, Mode::Extended).expect("computed")),
        Box::new(response::cross_channel(&lrn, &x, &x, Scaling::MOVE, Mode::Extended).expect("computed")),
    ];
    for plan in plans {
        assert_eq!(plan.filters(), None, "{}", plan.operands()[0].name);
    }
}

/// Strict mode takes parameters for each activation as so many numbers that lie packed, whatever
/// their dims are.
#[test]
fn strict_parameters_of_activations_are_packed_numbers() {
    let x = packed(DataType::Float, &[2, 3, 4, 5]);
    let of = |dims: &[i64], strides: &[i64]| {
        TensorDescriptor::with_strides(DataType::Float, dims.len() as i64, dims, strides, Mode::Extended)
            .expect("valid")
    };
    for (dims, strides, taken) in [
        ([1, 3, 4, 5], [60, 20, 5, 1], true),
        ([1, 60, 1, 1], [60, 1, 1, 1], true),
        ([2, 5, 3, 2], [30, 6, 2, 1], true),
        ([1, 61, 1, 1], [61, 1, 1, 1], true),
        ([1, 59, 1, 1], [59, 1, 1, 1], false),
        ([1, 60, 1, 1], [120, 2, 1, 1], false),
        ([1, 4, 3, 5], [60, 1, 20, 4], false),
        ([1, 3, 4, 5], [60, 1, 15, 3], false),
    ] {
        let s = of(&dims, &strides);
        let call = Forward { mode: BatchNormMode::PerActivation, ..plain_forward(&x, &s, Source::Given) };
        let plan = ForwardPlan::new(call, Mode::Strict);
        assert_eq!(plan.is_ok(), taken, "{dims:?} {strides:?}: {:?}", plan.err());
    }
}
