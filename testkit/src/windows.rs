//! Random problems over windows: every function, layout, type and geometry, small and large.

use cudnn::desc::convolution::{ConvolutionGeometry, ConvolutionMode};
use cudnn::desc::{
    Choice, ConvolutionDescriptor, FilterDescriptor, Format, LrnDescriptor, NanPropagation,
    PoolingDescriptor, PoolingMode, TensorDescriptor,
};
use cudnn::dtype::DataType;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::ops::columns::ColumnsPlan;
use cudnn::ops::pooling::{self, Forward};
use cudnn::ops::{Plan, Role, Scaling, response};

use crate::random::Rng;

/// Kinds of problems that [`draw`] yields.
pub const KINDS: usize = 13;

/// A plan with its name.
pub struct Problem {
    pub title: String,
    pub kind: &'static str,
    pub plan: Box<dyn Plan>,
    /// Whether numbers come with NaNs, infinities and zeros of both signs.
    pub wild: bool,
}

const TYPES: [DataType; 11] = [
    DataType::Float,
    DataType::Double,
    DataType::Half,
    DataType::Bfloat16,
    DataType::Int8,
    DataType::Uint8,
    DataType::Int32,
    DataType::Int64,
    DataType::Boolean,
    DataType::Fp8E4m3,
    DataType::Fp8E5m2,
];

impl Problem {
    /// Bytes for every operand: numbers of its type, NaNs where a destination may not be read.
    pub fn contents(&self, rng: &mut Rng) -> Vec<Vec<u8>> {
        let of = |operand: &cudnn::ops::Operand, rng: &mut Rng| {
            let bytes = (operand.span.1 - operand.span.0) as usize;
            if operand.role == Role::Write {
                return vec![0xff; bytes];
            }
            numbers(operand.scalar, bytes, self.wild, rng)
        };
        self.plan.operands().iter().map(|operand| of(operand, rng)).collect()
    }
}

/// Numbers of few different values, so that there are ties.
fn numbers(scalar: cudnn::dtype::Scalar, bytes: usize, wild: bool, rng: &mut Rng) -> Vec<u8> {
    use cudnn::dtype::Scalar;
    let size = scalar.size();
    let mut all = Vec::with_capacity(bytes);
    while all.len() < bytes {
        let small = rng.below(33) as i64 - 16;
        let number = small as f32 * 0.375;
        let special = wild && rng.below(12) == 0;
        let pick = rng.below(4);
        match scalar {
            Scalar::F32 => {
                let specials = [f32::NAN, -f32::NAN, f32::NEG_INFINITY, -0.0];
                all.extend((if special { specials[pick] } else { number }).to_le_bytes());
            }
            Scalar::F64 => {
                let specials = [f64::NAN, -f64::NAN, f64::NEG_INFINITY, -0.0];
                all.extend((if special { specials[pick] } else { number.into() }).to_le_bytes());
            }
            Scalar::F16 => {
                let specials = [0x7e01_u16, 0xfe00, 0xfc00, 0x8000];
                let bits = half::f16::from_f32(number).to_bits();
                all.extend((if special { specials[pick] } else { bits }).to_le_bytes());
            }
            Scalar::Bf16 => {
                let specials = [0x7fc1_u16, 0xffc0, 0xff80, 0x8000];
                let bits = half::bf16::from_f32(number).to_bits();
                all.extend((if special { specials[pick] } else { bits }).to_le_bytes());
            }
            Scalar::I32 => all.extend((small as i32 * 1000).to_le_bytes()),
            Scalar::I64 => all.extend((small * 1000).to_le_bytes()),
            _ => all.push(small as u8),
        }
        debug_assert!(all.len().is_multiple_of(size));
    }
    all.truncate(bytes);
    all
}

/// A tensor of these dims in some layout.
fn tensor(data_type: DataType, dims: &[i64], rng: &mut Rng) -> TensorDescriptor {
    let rank = dims.len() as i64;
    match rng.below(6) {
        0 | 1 => TensorDescriptor::with_format(data_type, Format::Nchw, rank, dims, Mode::Extended),
        2 | 3 => TensorDescriptor::with_format(data_type, Format::Nhwc, rank, dims, Mode::Extended),
        4 if data_type.lanes() == 1 => {
            TensorDescriptor::with_format(data_type, Format::Blocked(4), rank, dims, Mode::Extended)
        }
        _ => {
            // Any order of the dimensions, gaps, and one that runs backwards.
            let mut order: Vec<usize> = (0..dims.len()).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, rng.below(i + 1));
            }
            let mut strides = vec![0; dims.len()];
            let mut next = 1;
            for &k in &order {
                strides[k] = next;
                next *= dims[k] + rng.below(2) as i64;
            }
            let turned = rng.below(dims.len() * 2);
            if turned < dims.len() {
                strides[turned] = -strides[turned];
            }
            TensorDescriptor::with_strides(data_type, rank, dims, &strides, Mode::Extended)
        }
    }
    .expect("a tensor")
}

fn between(rng: &mut Rng, low: i64, high: i64) -> i64 {
    low + rng.below((high - low + 1) as usize) as i64
}

fn scaling(rng: &mut Rng) -> Scaling {
    match rng.below(4) {
        0 | 1 => Scaling::MOVE,
        2 => Scaling { alpha: -1.5, beta: 0.0 },
        _ => Scaling { alpha: 0.5, beta: -0.25 },
    }
}

/// A pooling or its gradient in any geometry.
fn pooling_problem(rng: &mut Rng) -> Problem {
    let spatial = [1, 2, 2, 2, 3, 4, 5, 6][rng.below(8)];
    let data_type = TYPES[rng.below(TYPES.len())];
    let mode = PoolingMode::from_code(rng.below(4) as i32).expect("a mode");
    let forwards = rng.below(2) == 0;
    pooling_of(spatial, data_type, mode, forwards, rng)
}

/// Poolings along many axes, which are drawn rarely: of either type to compute in, each kind and
/// its gradient.
pub fn wide(rng: &mut Rng) -> Vec<Problem> {
    let mut all = Vec::new();
    for data_type in [DataType::Float, DataType::Double] {
        for mode in [PoolingMode::Max, PoolingMode::AverageWithPadding] {
            for spatial in 4..=6 {
                all.extend([true, false].map(|forwards| pooling_of(spatial, data_type, mode, forwards, rng)));
            }
        }
    }
    all
}

fn pooling_of(
    spatial: usize, data_type: DataType, mode: PoolingMode, forwards: bool, rng: &mut Rng,
) -> Problem {
    let large = spatial == 2 && rng.below(4) == 0;
    let nan = NanPropagation::from_code(rng.below(2) as i32).expect("a rule");
    // Along many axes there are very many windows of very many cells.
    let wide = spatial > 4;
    let channels = between(rng, 1, if large { 70 } else { [19, 5][usize::from(wide)] });
    let mut dims = vec![between(rng, 1, if wide { 2 } else { 3 }), channels];
    let (mut window, mut padding, mut strides) = (vec![], vec![], vec![]);
    let mut outputs = dims.clone();
    let most = if large { 40 } else { [14, 14, 9, 6, 4, 3, 3][spatial] };
    let whole = rng.below(8) == 0;
    for _ in 0..spatial {
        let extent = between(rng, 1, most);
        let (k, p, s) = if whole {
            (extent, 0, 1)
        } else {
            let (taps, pad) = if wide { (2, 1) } else { (5, 5) };
            (between(rng, 1, taps), between(rng, -1, pad), between(rng, 1, 4))
        };
        let computed = (extent + 2 * p - k).max(0) / s + 1;
        // One more than computed, as some programs have it, or any number.
        let out = match rng.below(6) {
            0 if !whole => computed + 1,
            1 if !whole => between(rng, 1, if wide { 4 } else { 12 }),
            _ => computed,
        };
        dims.push(extent);
        outputs.push(out);
        window.push(k);
        padding.push(p);
        strides.push(s);
    }
    let desc =
        PoolingDescriptor::new(mode, nan, Dims::new(&window), Dims::new(&padding), Dims::new(&strides))
            .expect("a pooling");
    let scaling = scaling(rng);
    let (plan, kind): (Box<dyn Plan>, _) = if forwards {
        let (x, y) = (tensor(data_type, &dims, rng), tensor(data_type, &outputs, rng));
        let plan = pooling::forward(&desc, &x, &y, scaling, Mode::Extended).expect("a plan");
        (Box::new(plan), ["max", "average", "average inside", "max deterministic"][mode.code() as usize])
    } else {
        let other = TYPES[rng.below(TYPES.len())];
        let gradient = if rng.below(3) == 0 { other } else { data_type };
        let (x, y) = (tensor(data_type, &dims, rng), tensor(gradient, &outputs, rng));
        let forward = Some(Forward { x: &x, y: &y });
        let plan = pooling::backward(&desc, forward, &y, &x, scaling, Mode::Extended).expect("a plan");
        let kinds = [
            "gradient of max",
            "gradient of average",
            "gradient of average inside",
            "gradient of max deterministic",
        ];
        (Box::new(plan), kinds[mode.code() as usize])
    };
    let title = format!("{desc:?} of {data_type:?} {dims:?} to {outputs:?}");
    Problem { title, kind, plan, wild: rng.below(2) == 0 }
}

/// Gradients over planes of more rows than are treated at once: windows that overlap, touch and
/// leave gaps, those that reach far beyond one band, and an output more than there is room for.
pub fn tall(rng: &mut Rng) -> Vec<Problem> {
    let geometries = [
        // Window, padding and stride of rows and of columns.
        [(2, 0, 2), (2, 0, 2)],
        [(3, 1, 2), (3, 1, 2)],
        [(3, 1, 1), (3, 1, 1)],
        [(5, 2, 1), (4, 0, 1)],
        [(2, 0, 3), (1, 0, 3)],
        [(40, 3, 1), (3, 1, 2)],
    ];
    let mut all = Vec::new();
    for (i, geometry) in geometries.into_iter().enumerate() {
        for mode in [PoolingMode::Max, PoolingMode::AverageWithPadding, PoolingMode::AverageWithoutPadding] {
            let data_type = TYPES[(i + mode.code() as usize) % 3];
            let desc = PoolingDescriptor::new(
                mode,
                NanPropagation::from_code((i % 2) as i32).expect("a rule"),
                Dims::new(&geometry.map(|(k, _, _)| k)),
                Dims::new(&geometry.map(|(_, p, _)| p)),
                Dims::new(&geometry.map(|(_, _, s)| s)),
            )
            .expect("a pooling");
            let (dims, mut outputs) = ([1, 2, 131, 67], [1, 2, 0, 0]);
            for (axis, (k, p, s)) in geometry.into_iter().enumerate() {
                outputs[2 + axis] = (dims[2 + axis] + 2 * p - k) / s + 1 + (i % 2) as i64;
            }
            let nchw = |dims: &[i64]| {
                TensorDescriptor::with_format(data_type, Format::Nchw, 4, dims, Mode::Extended)
                    .expect("a tensor")
            };
            let (x, y) = (nchw(&dims), nchw(&outputs));
            let forward = Some(Forward { x: &x, y: &y });
            let scaling = if i % 2 == 0 { Scaling::MOVE } else { scaling(rng) };
            let plan = pooling::backward(&desc, forward, &y, &x, scaling, Mode::Extended).expect("a plan");
            let title = format!("{desc:?} of {data_type:?} {dims:?} to {outputs:?}");
            all.push(Problem { title, kind: "tall", plan: Box::new(plan), wild: i % 3 != 0 });
        }
    }
    all
}

/// Gradients of windows that hold all of a plane, of every floating type: of as many cells as are
/// looked through together, and less.
pub fn whole(rng: &mut Rng) -> Vec<Problem> {
    let mut all = Vec::new();
    for dims in [[2, 70, 13, 11], [1, 3, 4, 5], [1, 37, 9, 7]] {
        for format in [Format::Nchw, Format::Nhwc] {
            for mode in [PoolingMode::Max, PoolingMode::AverageWithPadding] {
                for i in 0..12 {
                    let (data_type, other) = (TYPES[i % 4], TYPES[(i + all.len()) % 4]);
                    let desc = PoolingDescriptor::new(
                        mode,
                        NanPropagation::from_code((all.len() / 4 % 2) as i32).expect("a rule"),
                        Dims::new(&dims[2..]),
                        Dims::new(&[0, 0]),
                        Dims::new(&[1, 1]),
                    )
                    .expect("a pooling");
                    let tensor = |data_type: DataType, dims: &[i64]| {
                        TensorDescriptor::with_format(data_type, format, 4, dims, Mode::Extended)
                            .expect("a tensor")
                    };
                    // Now and then what is given has another type than cells.
                    let given = if i < 8 { data_type } else { other };
                    let (x, y) = (tensor(data_type, &dims), tensor(given, &[dims[0], dims[1], 1, 1]));
                    let forward = Some(Forward { x: &x, y: &y });
                    let scaling = if i < 4 { Scaling::MOVE } else { scaling(rng) };
                    let plan =
                        pooling::backward(&desc, forward, &y, &x, scaling, Mode::Extended).expect("a plan");
                    let title = format!("{desc:?} of {data_type:?} {dims:?} in {format:?}");
                    all.push(Problem { title, kind: "whole", plan: Box::new(plan), wild: i % 3 > 0 });
                }
            }
        }
    }
    all
}

/// Results of 16 bits that are large enough to be written past the caches.
pub fn streamed(rng: &mut Rng) -> Vec<Problem> {
    let desc = PoolingDescriptor::new(
        PoolingMode::AverageWithPadding,
        NanPropagation::from_code(0).expect("a rule"),
        Dims::new(&[1, 2]),
        Dims::new(&[0, 1]),
        Dims::new(&[1, 1]),
    )
    .expect("a pooling");
    let tensor = |width: i64, rng: &mut Rng| {
        let dims = [1, 3, 1001, width];
        // Rows that follow one another, and such with a gap.
        let pitch = width + rng.below(2) as i64;
        let strides = [3 * 1001 * pitch, 1001 * pitch, pitch, 1];
        TensorDescriptor::with_strides(DataType::Half, 4, &dims, &strides, Mode::Extended).expect("a tensor")
    };
    let scaling = Scaling { alpha: -1.5, beta: 0.0 };
    let (x, y) = (tensor(2999, rng), tensor(3000, rng));
    let forward = pooling::forward(&desc, &x, &y, scaling, Mode::Extended).expect("a plan");
    let gradient = pooling::backward(&desc, None, &y, &x, scaling, Mode::Extended).expect("a plan");
    let plans: [Box<dyn Plan>; 2] = [Box::new(forward), Box::new(gradient)];
    plans.map(|plan| Problem { title: "large".into(), kind: "streamed", plan, wild: true }).into()
}

/// Poolings by columns: rows longer than a strip of outputs, short ones that wait for others,
/// windows as large as the plane and larger, and rows with a stride.
pub fn shared(rng: &mut Rng) -> Vec<Problem> {
    // Channels, rows and columns; window, padding and stride of either axis.
    let geometries = [
        ([2, 3, 5000], [(2, 0, 1), (3, 1, 1)]),
        ([37, 5, 150], [(3, 1, 1), (3, 1, 1)]),
        ([300, 3, 17], [(2, 1, 1), (5, 2, 1)]),
        ([5, 13, 13], [(13, 6, 1), (13, 6, 1)]),
        ([3, 20, 20], [(9, 4, 1), (9, 4, 1)]),
        ([3, 40, 7], [(3, 1, 1), (7, 5, 1)]),
        ([2, 3, 9001], [(2, 0, 2), (3, 1, 2)]),
        ([5, 56, 56], [(2, 0, 2), (2, 0, 2)]),
        ([3, 113, 57], [(3, 1, 2), (3, 1, 2)]),
        ([4, 60, 31], [(3, 2, 1), (5, 4, 3)]),
        ([3, 50, 20], [(3, 0, 3), (2, 1, 4)]),
        ([2, 90, 100], [(5, 3, 4), (4, 3, 2)]),
        // Most windows lie outside.
        ([3, 4, 5], [(3, 1, 1), (200, 199, 7)]),
    ];
    let mut all = Vec::new();
    for (i, (dims, geometry)) in geometries.into_iter().enumerate() {
        for mode in [PoolingMode::Max, PoolingMode::AverageWithPadding, PoolingMode::AverageWithoutPadding] {
            for format in [Format::Nchw, Format::Nhwc] {
                let data_type = TYPES[(all.len() + i) % 6];
                let desc = PoolingDescriptor::new(
                    mode,
                    NanPropagation::from_code((all.len() % 2) as i32).expect("a rule"),
                    Dims::new(&geometry.map(|(k, _, _)| k)),
                    Dims::new(&geometry.map(|(_, p, _)| p)),
                    Dims::new(&geometry.map(|(_, _, s)| s)),
                )
                .expect("a pooling");
                let tensor = |dims: &[i64]| {
                    TensorDescriptor::with_format(data_type, format, 4, dims, Mode::Extended)
                        .expect("a tensor")
                };
                let output = |axis: usize| {
                    let (k, p, s) = geometry[axis];
                    (dims[1 + axis] + 2 * p - k) / s + 1
                };
                let (x, y) =
                    (tensor(&[2, dims[0], dims[1], dims[2]]), tensor(&[2, dims[0], output(0), output(1)]));
                let scaling = if all.len() % 3 == 0 { scaling(rng) } else { Scaling::MOVE };
                let title = format!("{desc:?} of {data_type:?} {dims:?} in {format:?}");
                let plan = pooling::forward(&desc, &x, &y, scaling, Mode::Extended).expect("a plan");
                let wild = all.len() % 4 < 2;
                all.push(Problem { title, kind: "shared", plan: Box::new(plan), wild });
            }
        }
    }
    all
}

/// Response normalisation across channels or over space, or its gradient.
fn response_problem(rng: &mut Rng) -> Problem {
    let kind = rng.below(4);
    let data_type = if kind == 0 { rng.pick(&TYPES[..6]) } else { rng.pick(&TYPES[..4]) };
    let large = rng.below(4) == 0;
    let mut dims = vec![between(rng, 1, 2), between(rng, 1, if large { 40 } else { 9 })];
    let spatial = if kind < 2 { 1 + rng.below(3) } else { rng.pick(&[1, 2, 2, 3, 3]) };
    dims.extend((0..spatial).map(|_| between(rng, 1, if large { 9 } else { 5 })));
    let n = between(rng, 1, if kind < 2 { 7 } else { 5 }) as u32;
    let beta = rng.pick(&[0.5, 0.75, 1.0, 0.8, 2.0]);
    let desc = LrnDescriptor::new(n, 0.3, beta, 1.5).expect("a descriptor");
    let scaling = scaling(rng);
    let (x, y) = (tensor(data_type, &dims, rng), tensor(data_type, &dims, rng));
    let (means, wanted) = (rng.below(2) == 0, rng.below(2) == 0);
    // Divisive normalisation takes no negative strides.
    let forwards = |tensor: &TensorDescriptor| tensor.strides().iter().all(|&stride| stride >= 0);
    let straight = |data_type| {
        TensorDescriptor::with_format(data_type, Format::Nhwc, dims.len() as i64, &dims, Mode::Extended)
    };
    let fixed = |tensor: TensorDescriptor| {
        if forwards(&tensor) { tensor } else { straight(data_type).expect("a tensor") }
    };
    let (plan, kind): (Box<dyn Plan>, _) = match kind {
        0 => {
            let plan = response::cross_channel(&desc, &x, &y, scaling, Mode::Extended).expect("a plan");
            (Box::new(plan), "across channels")
        }
        1 => {
            let dy = tensor(data_type, &dims, rng);
            let plan = response::cross_channel_gradient(&desc, &dy, &x, &y, scaling, Mode::Extended);
            (Box::new(plan.expect("a plan")), "gradient across channels")
        }
        2 => {
            let (x, y) = (fixed(x), fixed(y));
            let plan = response::divisive(&desc, &x, &y, means, scaling, Mode::Extended).expect("a plan");
            (Box::new(plan), "over space")
        }
        _ => {
            let (x, y) = (fixed(x), fixed(y));
            let plan = response::divisive_gradient(&desc, &x, &y, means, wanted, scaling, Mode::Extended);
            (Box::new(plan.expect("a plan")), "gradient over space")
        }
    };
    let title = format!("{desc:?} of {data_type:?} {dims:?}, means {means} {wanted}");
    Problem { title, kind, plan, wild: rng.below(4) == 0 }
}

/// The columns of a convolution.
fn columns_problem(rng: &mut Rng) -> Problem {
    let spatial = [1, 2, 2, 2, 3][rng.below(5)];
    let data_type = rng.pick(&TYPES);
    let channels = between(rng, 1, 9);
    let (mut dims, mut taps) = (vec![between(rng, 1, 2), channels], vec![2, channels]);
    let (mut padding, mut strides, mut dilation) = (vec![], vec![], vec![]);
    for _ in 0..spatial {
        let (k, p, d) = (between(rng, 1, 3), between(rng, 0, 3), between(rng, 1, 3));
        dims.push(between(rng, ((k - 1) * d + 1 - 2 * p).max(1), 9));
        taps.push(k);
        padding.push(p);
        strides.push(between(rng, 1, 3));
        dilation.push(d);
    }
    let mode = ConvolutionMode::from_code(rng.below(2) as i32).expect("a mode");
    let geometry = ConvolutionGeometry::new(
        mode,
        DataType::Float,
        Dims::new(&padding),
        Dims::new(&strides),
        Dims::new(&dilation),
    );
    let desc =
        ConvolutionDescriptor { geometry: geometry.expect("a geometry"), ..ConvolutionDescriptor::default() };
    let rank = taps.len() as i64;
    let filter = FilterDescriptor::new(DataType::Float, Format::Nchw, rank, &taps, Mode::Extended);
    let x = tensor(data_type, &dims, rng);
    let plan = ColumnsPlan::new(&x, &filter.expect("a filter"), &desc, Mode::Extended).expect("a plan");
    let title = format!("columns of {data_type:?} {dims:?} by {taps:?}, {desc:?}");
    Problem { title, kind: "columns", plan: Box::new(plan), wild: true }
}

/// Some problem.
pub fn draw(rng: &mut Rng) -> Problem {
    match rng.below(8) {
        0..5 => pooling_problem(rng),
        5..7 => response_problem(rng),
        _ => columns_problem(rng),
    }
}

/// Response normalisation of long rows, and of pixels whose windows are cut at their ends, or are
/// wider.
pub fn long_rows(rng: &mut Rng) -> Vec<Problem> {
    let mut problems = vec![];
    for (channels, rows, columns) in [(7, 1, 1500), (3, 31, 41), (1, 2, 4100), (5, 90, 20), (40, 3, 3)] {
        for data_type in [DataType::Float, DataType::Double, DataType::Half] {
            let (images, gap) = (between(rng, 1, 2), rng.pick(&[0, 0, 3]));
            let dims = [images, channels, rows, columns];
            let plane = rows * columns + gap;
            let apart = [channels * plane, plane, columns, 1];
            let planes = TensorDescriptor::with_strides(data_type, 4, &dims, &apart, Mode::Extended)
                .expect("a tensor");
            let pixels = TensorDescriptor::with_format(data_type, Format::Nhwc, 4, &dims, Mode::Extended);
            for tensor in [planes, pixels.expect("a tensor")] {
                let n = rng.pick(&[1, 2, 5, 8]);
                let desc =
                    LrnDescriptor::new(n, 0.3, rng.pick(&[0.75, 0.5, 0.8]), 1.5).expect("a descriptor");
                let plan = response::cross_channel(&desc, &tensor, &tensor, scaling(rng), Mode::Extended);
                let title = format!("{desc:?} of {data_type:?} {dims:?} by {:?}", tensor.strides());
                let plan = Box::new(plan.expect("a plan"));
                problems.push(Problem { title, kind: "across channels", plan, wild: rng.below(2) == 0 });
            }
        }
    }
    problems
}
