//! What descriptors refuse, rule by rule: each rule has a row on either side of it.

use cudnn::desc::normalization::{BatchNormMode, parameters};
use cudnn::desc::tensor::Format;
use cudnn::desc::transform::{Folding, TransformDescriptor};
use cudnn::desc::{
    ActivationDescriptor, ActivationMode, ConvolutionDescriptor, ConvolutionGeometry, ConvolutionMode,
    DropoutDescriptor, FilterDescriptor, LrnDescriptor, PoolingDescriptor, PoolingMode, RnnClip,
    SpatialTransformerDescriptor, TensorDescriptor,
};
use cudnn::dtype::DataType;
use cudnn::error::ErrorKind;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::ops::Scaling;
use cudnn::ops::batch_norm::{Forward, ForwardPlan, Fused, Source};
use cudnn::ops::causal_conv::{Call, CausalPlan, Form, Sizes};
use cudnn::ops::dropout::{DropoutPlan, Pass};
use cudnn::ops::spatial_transformer::SamplerPlan;
use testkit::normal::plain_forward;

fn strided(dims: &[i64], strides: &[i64]) -> TensorDescriptor {
    let rank = dims.len() as i64;
    TensorDescriptor::with_strides(DataType::Float, rank, dims, strides, Mode::Strict).expect("valid")
}

#[test]
fn strict_mode_folds_other_ranks_only_of_packed_sources() {
    let folding = TransformDescriptor { fold: [2; 6], ..TransformDescriptor::default() };
    let padding = TransformDescriptor { pad_after: [1; 8], ..TransformDescriptor::default() };
    for (dims, strides, is_packed) in [
        (&[2, 4, 3, 4, 6][..], &[288, 72, 24, 6, 1][..], true),
        (&[2, 4, 3, 4, 6], &[288, 1, 96, 24, 4], true),
        (&[2, 4, 3, 4, 6], &[300, 72, 24, 6, 1], false),
        (&[2, 4, 3, 4, 6], &[288, 72, 24, 6, 2], false),
        (&[2, 4, 3, 4, 6], &[288, 72, 1, 3, 12], false),
        (&[2, 4, 6], &[24, 6, 1], true),
        (&[2, 4, 6], &[24, 1, 4], true),
        (&[2, 4, 6], &[48, 6, 1], false),
        // The stride of one element moves nothing.
        (&[1, 4, 6], &[77, 6, 1], true),
        (&[2, 1, 6], &[6, 77, 1], true),
        (&[2, 1, 6], &[7, 77, 1], false),
        // In four dimensions all sources are folded.
        (&[2, 4, 4, 6], &[200, 30, 7, 1], true),
    ] {
        let source = strided(dims, strides);
        for mode in [Mode::Strict, Mode::Extended] {
            assert_eq!(padding.check_source(&source, mode), Ok(()), "{source:?}");
            let got = folding.check_source(&source, mode).map_err(|error| error.kind());
            let refused = mode == Mode::Strict && !is_packed;
            let want = if refused { Err(ErrorKind::NotSupported) } else { Ok(()) };
            assert_eq!(got, want, "{source:?}");
        }
    }
}

#[test]
fn transforms_yield_what_their_formula_says() {
    let up = |value: i64, by: i64| (0..).find(|groups| groups * by >= value).expect("some number");
    for (direction, channels, extent, factor) in
        [Folding::Fold, Folding::Unfold].into_iter().flat_map(|direction| {
            (1..9).flat_map(move |channels| {
                (1..9).flat_map(move |extent| (0..5).map(move |factor| (direction, channels, extent, factor)))
            })
        })
    {
        for (before, after) in [(0, 0), (1, 2), (-1, 0), (0, -1), (-1, 1), (-2, 5), (3, -4)] {
            let mut desc = TransformDescriptor { direction, ..TransformDescriptor::default() };
            (desc.fold[0], desc.pad_before[2], desc.pad_after[2]) = (factor, before as i32, after as i32);
            let times = i64::from(factor.max(1));
            let nothing_left =
                |extent: i64| extent + before <= 0 || extent + after <= 0 || extent + before + after <= 0;
            let padded = |extent: i64| extent + before + after;
            let (refused, want) = match direction {
                Folding::Fold => {
                    (nothing_left(extent), [5, channels * times, up(padded(extent).max(0), times), 3])
                }
                Folding::Unfold => {
                    (nothing_left(extent * times), [5, up(channels, times), padded(extent * times), 3])
                }
            };
            let got = desc.yields(&Dims::new(&[5, channels, extent, 3])).map_err(|error| error.kind());
            let want = if refused { Err(ErrorKind::BadParam) } else { Ok(Dims::new(&want)) };
            assert_eq!(got, want, "{desc:?} of {channels} channels and {extent}");
            assert_eq!(desc.folds(4), factor > 1);
            assert_eq!((desc.factor(1), desc.factor(2), desc.factor(3)), (1, times, 1));
        }
    }
    // An extent of 32 bits, and one more.
    let most = i64::from(i32::MAX);
    let pad =
        |after: i32| TransformDescriptor { pad_after: [0, 0, after, 0, 0, 0, 0, 0], ..Default::default() };
    let yields = |desc: TransformDescriptor, dims: [i64; 3]| {
        desc.yields(&Dims::new(&dims)).map_err(|error| error.kind())
    };
    assert_eq!(yields(pad(1), [1, 1, most - 1]), Ok(Dims::new(&[1, 1, most])));
    assert_eq!(yields(pad(1), [1, 1, most]), Err(ErrorKind::NotSupported));
    let fold = |factor: u32, direction| TransformDescriptor {
        fold: [factor, 0, 0, 0, 0, 0],
        direction,
        ..Default::default()
    };
    assert_eq!(yields(fold(2, Folding::Fold), [1, 1 << 30, 2]), Err(ErrorKind::NotSupported));
    assert_eq!(yields(fold(2, Folding::Fold), [1, (1 << 30) - 1, 2]), Ok(Dims::new(&[1, (1 << 31) - 2, 1])));
    assert_eq!(yields(fold(2, Folding::Unfold), [1, 2, 1 << 30]), Err(ErrorKind::NotSupported));
}

#[test]
fn pooling_checks_its_numbers_and_its_input() {
    let new = |window: &[i64], padding: &[i64], strides: &[i64]| {
        let [window, padding, strides] = [window, padding, strides].map(Dims::new);
        PoolingDescriptor::new(PoolingMode::Max, Default::default(), window, padding, strides)
    };
    for (window, strides, is_valid) in [
        ([1, 1], [1, 1], true),
        ([0, 1], [1, 1], false),
        ([1, 0], [1, 1], false),
        ([2, 3], [0, 1], false),
        ([2, 3], [4, -1], false),
    ] {
        let kind = new(&window, &[0, 0], &strides).map(|_| ()).map_err(|error| error.kind());
        assert_eq!(kind, if is_valid { Ok(()) } else { Err(ErrorKind::BadParam) }, "{window:?} {strides:?}");
    }
    let input = |dims: &[i64], data_type, format| {
        TensorDescriptor::with_format(data_type, format, dims.len() as i64, dims, Mode::Extended)
            .expect("valid")
    };
    for extent in 1..8 {
        for (window, padding, stride) in (1..9).flat_map(|window| {
            (0..3).flat_map(move |padding| (1..4).map(move |stride| (window, padding, stride)))
        }) {
            let pooling = new(&[window, 1], &[padding, 0], &[stride, 1]).expect("valid");
            let x = input(&[2, 3, extent, 5], DataType::Float, Format::Nchw);
            let dims: Vec<Result<i64, ErrorKind>> = pooling
                .output_dims(&x, Mode::Strict)
                .expect("four dimensions")
                .map(|dim| dim.map_err(|error| error.kind()))
                .collect();
            // Windows are counted one by one.
            let windows = (0..).take_while(|at| at * stride + window <= extent + 2 * padding).count() as i64;
            let want = if windows == 0 { Err(ErrorKind::BadParam) } else { Ok(windows) };
            assert_eq!(dims, [Ok(2), Ok(3), want, Ok(5)], "{extent} {window} {padding} {stride}");
        }
    }
    let pooling = new(&[1, 1], &[0, 0], &[1, 1]).expect("valid");
    let refuses = |x: &TensorDescriptor, mode| pooling.output_dims(x, mode).is_err();
    assert!(refuses(&input(&[2, 3, 4], DataType::Float, Format::Nchw), Mode::Extended));
    assert!(refuses(&input(&[2, 3, 4, 5, 6], DataType::Float, Format::Nchw), Mode::Extended));
    assert!(refuses(&input(&[2, 8, 4, 5], DataType::Uint8x4, Format::NchwVectC), Mode::Strict));
    assert!(!refuses(&input(&[2, 8, 4, 5], DataType::Uint8x4, Format::NchwVectC), Mode::Extended));
    assert!(!refuses(&input(&[2, 8, 4, 5], DataType::Int8x4, Format::NchwVectC), Mode::Strict));
}

#[test]
fn bounds_of_numbers_lie_where_the_original_has_them() {
    let below = |value: f64| f64::from_bits(value.to_bits() - 1);
    for (n, beta, k, is_valid) in [
        (1, 0.75, 1.0, true),
        (16, 0.75, 1.0, true),
        (0, 0.75, 1.0, false),
        (17, 0.75, 1.0, false),
        (5, 0.01, 1.0, true),
        (5, below(0.01), 1.0, false),
        (5, 0.75, 1e-5, true),
        (5, 0.75, below(1e-5), false),
        (5, f64::NAN, f64::NAN, true),
    ] {
        assert_eq!(LrnDescriptor::new(n, 1e-4, beta, k).is_ok(), is_valid, "{n} {beta} {k}");
    }
    for (lower, upper, is_valid) in [
        (-1.0, 1.0, true),
        (1.0, 1.0, true),
        (1.0, below(1.0), false),
        (f64::NEG_INFINITY, f64::INFINITY, true),
        (f64::NAN, 1.0, false),
        (0.0, f64::NAN, false),
    ] {
        let clip = RnnClip::new(0, 0, lower, upper);
        assert_eq!(clip.map(|clip| (clip.lower(), clip.upper())).ok(), is_valid.then_some((lower, upper)));
    }
}

/// A convolution's output by counting the places of its window.
#[test]
fn convolutions_yield_as_many_outputs_as_their_window_has_places() {
    let float = DataType::Float;
    for extent in 1..9_i64 {
        for (taps, padding, stride, dilation) in (1..4)
            .flat_map(|taps| {
                (0..3).flat_map(move |padding| (1..4).map(move |stride| (taps, padding, stride)))
            })
            .flat_map(|(taps, padding, stride)| (1..4).map(move |dilation| (taps, padding, stride, dilation)))
        {
            let geometry = ConvolutionGeometry::new(
                ConvolutionMode::CrossCorrelation,
                float,
                Dims::new(&[padding, 0]),
                Dims::new(&[stride, 1]),
                Dims::new(&[dilation, 1]),
            );
            for groups in [1, 2] {
                let mut desc = ConvolutionDescriptor {
                    geometry: geometry.clone().expect("valid"),
                    ..Default::default()
                };
                desc.groups = groups;
                let dims = [2, 4, extent, 5];
                let x = TensorDescriptor::with_format(float, Format::Nchw, 4, &dims, Mode::Strict)
                    .expect("valid");
                let filter = [6, 4 / i64::from(groups), taps, 3];
                let w = FilterDescriptor::new(float, Format::Nchw, 4, &filter, Mode::Strict).expect("valid");
                let reach = (taps - 1) * dilation + 1;
                let places =
                    (0..).take_while(|at| at * stride + reach <= extent + 2 * padding).count() as i64;
                let got: Vec<Option<i64>> = desc
                    .output_dims(&x, &w)
                    .expect("the channels fit")
                    .map(|dim| dim.ok().filter(|&dim| dim > 0))
                    .collect();
                let want = [Some(2), Some(6), Some(places).filter(|&places| places > 0), Some(3)];
                assert_eq!(got, want, "{dims:?} {filter:?} {padding} {stride} {dilation}");
            }
        }
    }
    let desc = |rank: usize| {
        let [zeros, ones] = [0, 1].map(|value| Dims::filled(rank, value));
        let geometry = ConvolutionGeometry::new(ConvolutionMode::CrossCorrelation, float, zeros, ones, ones);
        ConvolutionDescriptor { geometry: geometry.expect("valid"), ..Default::default() }
    };
    let x = |dims: &[i64]| {
        TensorDescriptor::with_format(float, Format::Nchw, dims.len() as i64, dims, Mode::Strict)
            .expect("valid")
    };
    let w = |dims: &[i64]| {
        FilterDescriptor::new(float, Format::Nchw, dims.len() as i64, dims, Mode::Strict).expect("valid")
    };
    for (rank, image, filter, fits) in [
        (2, &[2, 4, 8, 8][..], &[6, 4, 3, 3][..], true),
        (3, &[2, 4, 8, 8], &[6, 4, 3, 3], false),
        (2, &[2, 4, 8, 8, 8], &[6, 4, 3, 3], false),
        (2, &[2, 4, 8, 8], &[6, 4, 3, 3, 3], false),
        (2, &[2, 4, 8, 8], &[6, 2, 3, 3], false),
        (2, &[2, 4, 8, 8], &[6, 8, 3, 3], false),
    ] {
        assert_eq!(
            desc(rank).output_dims(&x(image), &w(filter)).is_ok(),
            fits,
            "{rank} {image:?} {filter:?}"
        );
    }
}

#[test]
fn pictures_have_whole_groups_of_channels() {
    for (format, channels, taken) in [
        (Format::Nchw, 6, true),
        (Format::Blocked(4), 4, true),
        (Format::Blocked(4), 8, true),
        (Format::Blocked(4), 6, false),
    ] {
        let dims = [2, channels, 4, 5];
        let x = TensorDescriptor::with_format(DataType::Float, format, 4, &dims, Mode::Extended);
        let (x, data_type) = (x.expect("valid"), DataType::Float);
        let desc = SpatialTransformerDescriptor { data_type, rank: 4, dims: Dims::new(&dims) };
        let plan = SamplerPlan::forward(&desc, &x, &x, Scaling::MOVE, Mode::Extended);
        assert_eq!(plan.is_ok(), taken, "{channels} channels in {format:?}: {:?}", plan.err());
    }
}

#[test]
fn dropout_moves_elements_only_between_packed_tensors() {
    let x = strided(&[2, 3, 4], &[12, 4, 1]);
    for (dims, strides, taken) in [
        (&[2, 3, 4][..], &[12, 4, 1][..], true),
        (&[2, 3, 4], &[1, 2, 6], true),
        (&[6, 4, 1], &[4, 1, 1], true),
        // The stride of one element moves nothing.
        (&[6, 4, 1], &[4, 1, 9], true),
        (&[6, 4, 1], &[5, 1, 1], false),
        (&[6, 4, 1], &[1, 6, 1], false),
    ] {
        let y = strided(dims, strides);
        for (src, dst) in [(&x, &y), (&y, &x)] {
            let pass = Pass { src: ("xdesc", src), dst: ("ydesc", dst), reserve_size: 64, in_place: false };
            let plan = DropoutPlan::forward(&DropoutDescriptor::default(), pass, Mode::Extended);
            assert_eq!(plan.is_ok(), taken, "{src:?} to {dst:?}");
        }
    }
}

#[test]
fn strict_transforms_take_powers_of_two() {
    let most = 1 << 24;
    for (form, data_type, taps, length, taken) in [
        (Form::Fourier, DataType::Float, 128, 256, true),
        (Form::Fourier, DataType::Float, 128, 200, false),
        (Form::Fourier, DataType::Float, 64, 128, false),
        (Form::Fourier, DataType::Float, 192, 384, false),
        (Form::Fourier, DataType::Float, 16_384, 16_384, true),
        (Form::Fourier, DataType::Float, 32_768, 32_768, false),
        (Form::Fourier, DataType::Double, 4096, 8192, true),
        (Form::Fourier, DataType::Double, 8192, 8192, false),
        (Form::Long, DataType::Float, 4096, 4096, true),
        (Form::Long, DataType::Float, 4096, 8192, false),
        (Form::Long, DataType::Float, 2048, 2048, false),
        (Form::Long, DataType::Float, most, most, true),
        (Form::Long, DataType::Double, most, most, false),
    ] {
        let sizes = Sizes { batch: 1, dim: 1, length, taps: ("kernelSize", taps, i32::MAX), mixer: None };
        let call = Call { form, sizes, data_type: Some(data_type), gradient: None };
        for mode in [Mode::Strict, Mode::Extended] {
            let plan = CausalPlan::forward(&call, mode);
            assert_eq!(plan.is_ok(), taken || !mode.is_strict(), "{call:?}: {:?}", plan.err());
        }
    }
}

/// Forward passes with an activation, of packed NHWC images by channel: the types, functions and
/// numbers of channels that the original fuses, which saves what it has computed.
#[test]
fn strict_mode_fuses_what_the_original_fuses() {
    use ActivationMode::{Relu, Sigmoid, Swish};
    use DataType::{Double, Float, Half};
    for (data_type, function, z, channels, saved, taken) in [
        (Float, Relu, false, 6, true, true),
        (Half, Swish, false, 6, true, true),
        (Double, Relu, false, 6, true, false),
        (Float, Sigmoid, false, 6, true, false),
        (Float, Relu, false, 6, false, false),
        (Float, Relu, true, 8, true, true),
        (Half, Relu, true, 6, true, false),
        (Float, Swish, true, 8, true, false),
    ] {
        let of = |format| {
            let tensor =
                TensorDescriptor::with_format(data_type, format, 4, &[2, channels, 4, 5], Mode::Strict);
            tensor.expect("valid")
        };
        let (x, apart) = (of(Format::Nhwc), of(Format::Nchw));
        let group = parameters(&x, false, Mode::Extended).expect("valid");
        let activation = ActivationDescriptor { mode: function, ..ActivationDescriptor::default() };
        let source = Source::Batch { factor: 0.1, running: [true; 2], saved: [saved; 2] };
        let call = Forward {
            mode: BatchNormMode::SpatialPersistent,
            z: z.then_some(&x),
            fused: Some(Fused { adds: z, activation }),
            reserve_size: usize::MAX,
            workspace_size: usize::MAX,
            ..plain_forward(&x, &group, source)
        };
        for mode in [Mode::Strict, Mode::Extended] {
            let refused = |call: Forward<'_>, taken: bool, what: &str| {
                let plan = ForwardPlan::new(call, mode).map_err(|error| error.kind());
                let want = if taken || !mode.is_strict() { None } else { Some(ErrorKind::NotSupported) };
                assert_eq!(plan.err(), want, "{what}: {data_type:?} {function:?} {channels} {z} {saved}");
            };
            refused(call, taken, "as it is");
            refused(Forward { mode: BatchNormMode::Spatial, ..call }, false, "another mode");
            refused(Forward { y: &apart, ..call }, false, "y is NCHW");
            if z {
                refused(Forward { z: Some(&apart), ..call }, false, "z is NCHW");
            }
        }
    }
}

/// At inference a strict pass takes 65,535 images.
#[test]
fn strict_inference_has_a_most_of_images() {
    for (images, taken) in [(65_535, true), (65_536, false)] {
        let x = strided(&[images, 2, 1, 1], &[2, 1, 1, 1]);
        let group = parameters(&x, false, Mode::Extended).expect("valid");
        for mode in [Mode::Strict, Mode::Extended] {
            let plan = ForwardPlan::new(plain_forward(&x, &group, Source::Given), mode);
            assert_eq!(plan.is_ok(), taken || !mode.is_strict(), "{images} images");
        }
    }
}
