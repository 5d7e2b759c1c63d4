//! Where rules of operations begin to hold: the last number on either side.

use cudnn::desc::tensor::Format;
use cudnn::desc::transform::TransformDescriptor;
use cudnn::desc::{
    ConvolutionDescriptor, ConvolutionGeometry, ConvolutionMode, CtcLossDescriptor, FilterDescriptor,
    LrnDescriptor, TensorDescriptor,
};
use cudnn::dtype::{DataType, Scalar};
use cudnn::error::ErrorKind;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::ops::contract::Accumulate;
use cudnn::ops::convolution::{Convolution, ConvolutionPlan, Direction};
use cudnn::ops::ctc::{CtcPlan, Lengths, Tensors};
use cudnn::ops::normalise::{Parts, Tree};
use cudnn::ops::{MatmulPlan, Plan, Scaling, Step, TransformPlan, response};

fn packed(data_type: DataType, dims: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_format(data_type, Format::Nchw, dims.len() as i64, dims, Mode::Extended)
        .expect("valid")
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
        let two = |value: i64| Dims::filled(2, value);
        let mode = ConvolutionMode::CrossCorrelation;
        let geometry =
            ConvolutionGeometry::new(mode, DataType::Int32, two(0), two(1), two(1)).expect("valid");
        let desc = ConvolutionDescriptor { geometry, ..ConvolutionDescriptor::default() };
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
