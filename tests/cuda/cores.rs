//! One list of problems for both cores: what they leave in memory is equal in every bit, NaNs and
//! gaps included.

use cudnn::desc::{Folding, Format, TransformDescriptor};
use cudnn::dtype::DataType;
use cudnn::exec::{Address, Context};
use cudnn::mode::Mode;
use cudnn::ops::{Scaling, TransformPlan};

use crate::double::{self, Memory};
use crate::tensors::{Rng, Tensor, Words, format, packed, strided};
use crate::{arithmetic, causal, graphs, layers, memory, normal, ragged, sample, windows};

/// The types of one channel, one for each scalar.
pub const PLAIN: [DataType; 11] = [
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

/// One type of each size.
pub const SIZES: [DataType; 4] = [DataType::Int8, DataType::Half, DataType::Float, DataType::Double];

const SCALINGS: [(f64, f64); 5] = [(1.0, 0.0), (-0.75, 0.0), (0.0, 0.0), (1.0, 1.0), (2.5, -0.5)];

/// Both cores of this process, and how many problems they have solved.
pub struct Cores {
    pub cpu: Context,
    pub cuda: Context,
    pub rng: Rng,
    pub solved: usize,
    /// Problems of long lists so far, whether they are in the sample or not.
    listed: usize,
}

impl Cores {
    pub fn new() -> Cores {
        double::use_device(0);
        let cuda = Context::create().expect("a handle");
        assert!(cuda.core_name().starts_with("cuda"), "{}", cuda.core_name());
        Cores { cpu: Context::cpu(), cuda, rng: Rng(20), solved: 0, listed: 0 }
    }

    /// Whether the next problem of a long list is in the sample: a double solves
    /// [some](double::cases) of a thousand, twice as many as of random ones, which leave no kernel
    /// idle.
    pub fn is_sampled(&mut self) -> bool {
        self.listed += 1;
        let sample = double::cases(2000).min(1000);
        (self.listed * sample) / 1000 > ((self.listed - 1) * sample) / 1000
    }

    pub fn transform(&mut self, x: Tensor, y: Tensor, (alpha, beta): (f64, f64)) {
        let scaling = Scaling { alpha, beta };
        let plan = TransformPlan::new(&x.desc, &y.desc, scaling, Mode::Extended).expect("a plan");
        self.solve(&plan, x, y, beta);
    }

    fn solve(&mut self, plan: &TransformPlan, x: Tensor, y: Tensor, beta: f64) {
        memory::working_on(plan);
        let source = self.rng.bytes(x.size());
        // Without beta the destination must not be read: it holds NaNs in every type of floats.
        let before = if beta == 0.0 { vec![0xff; y.size()] } else { self.rng.bytes(y.size()) };
        let mut want = Words::new(&before);
        let held = Words::new(&source);
        let at = [
            want.address_mut().wrapping_byte_add(y.base()).into(),
            held.address().wrapping_byte_add(x.base()).into(),
        ];
        // SAFETY: both buffers hold the tensors' whole spans, at multiples of their scalars.
        unsafe { self.cpu.run(plan, &at) }.expect("the CPU core");
        let (device_x, device_y) = (Memory::new(&source), Memory::new(&before));
        let place = |memory: &Memory, tensor: Tensor| {
            Address::from(memory.pointer().wrapping_byte_add(tensor.base()))
        };
        // SAFETY: as above, on the device.
        unsafe { self.cuda.run(plan, &[place(&device_y, y), place(&device_x, x)]) }.expect("the CUDA core");
        let got = device_y.read();
        if got != want.bytes() {
            let first = got.iter().zip(want.bytes()).position(|(a, b)| a != b).expect("a difference");
            panic!("{plan}\nfirst at byte {} of y", first as i64 - y.base() as i64);
        }
        assert!(device_x.read() == source, "{plan}\nthe source is written");
        self.solved += 1;
    }
}

impl Cores {
    /// Solves `outward` on the CUDA core into a tensor too long for this machine's memory, of which
    /// only a few pages are touched, and brings it back as `y`. The CPU core makes the same of `x`
    /// with `direct`.
    fn through(
        &mut self, outward: &TransformPlan, x: Tensor, far: Tensor, y: Tensor, direct: &TransformPlan,
    ) {
        let source = self.rng.bytes(x.size());
        if !memory::has_room(far.size(), outward) {
            return;
        }
        let (held, mut want) = (Words::new(&source), Words::new(&vec![0xff; y.size()]));
        let src = held.address().wrapping_byte_add(x.base());
        let dst = want.address_mut().wrapping_byte_add(y.base());
        // SAFETY: both buffers hold the tensors' whole spans, at multiples of their scalars.
        unsafe { self.cpu.run(direct, &[dst.into(), src.into()]) }.expect("the CPU core");
        let (device_x, device_y) = (Memory::new(&source), Memory::new(&vec![0xff; y.size()]));
        let middle = Memory::untouched(far.size());
        let at = |memory: &Memory, tensor: Tensor| memory.pointer().wrapping_byte_add(tensor.base());
        let (x, far_at, y_at) = (at(&device_x, x), at(&middle, far), at(&device_y, y));
        for (plan, src, dst) in [(outward, x, far_at), (&plain(&far, &y), far_at, y_at)] {
            memory::working_on(plan);
            // SAFETY: as above, on the device.
            unsafe { self.cuda.run(plan, &[dst.into(), src.into()]) }.expect("the CUDA core");
        }
        assert!(device_y.read() == want.bytes(), "{outward}");
        self.solved += 1;
    }
}

/// Every pair of types in the layouts that have kernels of their own.
fn pairs_of_types(cores: &mut Cores) {
    for src in PLAIN {
        for dst in PLAIN {
            for scaling in SCALINGS {
                let dims = [2, 37, 5, 9];
                for (from, to) in
                    [(Format::Nchw, Format::Nchw), (Format::Nchw, Format::Nhwc), (Format::Nhwc, Format::Nchw)]
                {
                    if cores.is_sampled() {
                        cores.transform(format(src, from, &dims), format(dst, to, &dims), scaling);
                    }
                }
            }
        }
    }
}

/// Transposes around the edges of tiles, from and to every alignment.
fn transposes(cores: &mut Cores) {
    const EDGES: [i64; 14] = [1, 2, 9, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 260];
    for data_type in [DataType::Int8, DataType::Half, DataType::Float, DataType::Double] {
        for channels in EDGES {
            for width in EDGES {
                if !cores.is_sampled() {
                    continue;
                }
                let dims = [1 + (channels + width) % 3, channels, 1, width];
                let shift = cores.rng.below(5);
                let (nchw, nhwc) =
                    (format(data_type, Format::Nchw, &dims), format(data_type, Format::Nhwc, &dims));
                cores.transform(nchw.shifted(shift), nhwc, (1.0, 0.0));
                cores.transform(nhwc, nchw.shifted(shift), (1.0, 0.0));
            }
        }
    }
    // Wider cells: vectors of channels trade places with positions.
    for (data_type, lanes) in [(DataType::Int8x4, 4), (DataType::Int8x32, 32)] {
        for block in [2, 3, 33] {
            let dims = [2, lanes * block, 5, 7];
            let vectors = format(data_type, Format::NchwVectC, &dims);
            let plain = format(DataType::Int8, Format::Nhwc, &dims);
            cores.transform(vectors, plain, (1.0, 0.0));
            cores.transform(plain, vectors, (1.0, 0.0));
            cores.transform(plain, vectors, (0.5, 0.0));
            cores.transform(format(DataType::Float, Format::Nchw, &dims), vectors, (1.0, 0.0));
        }
    }
    // Cells of 16 and 32 bytes: pairs and fours of doubles.
    for width in [2, 4] {
        let dims = [40, 33, width];
        let (rows, columns) = ([33 * width, width, 1], [width, 40 * width, 1]);
        let (x, y) = (strided(DataType::Double, &dims, &rows), strided(DataType::Double, &dims, &columns));
        cores.transform(x, y, (1.0, 0.0));
        cores.transform(y, x, (1.0, 0.0));
    }
}

/// Interleaving and separating few channels.
fn few_channels(cores: &mut Cores) {
    for data_type in SIZES {
        for channels in 1..=8 {
            for width in [1, 15, 16, 255, 257, 1030] {
                if !cores.is_sampled() {
                    continue;
                }
                let dims = [2, channels, 1, width];
                let shift = cores.rng.below(4);
                let (nchw, nhwc) =
                    (format(data_type, Format::Nchw, &dims), format(data_type, Format::Nhwc, &dims));
                cores.transform(nchw, nhwc.shifted(shift), (1.0, 0.0));
                cores.transform(nhwc.shifted(shift), nchw, (1.0, 0.0));
                // Views: the channels of a wider image.
                let view = strided(data_type, &dims, &[width * 9, 1, width * 9, 9]);
                cores.transform(view, nchw, (1.0, 0.0));
                cores.transform(nchw, view, (1.0, 0.0));
            }
        }
    }
}

/// Interleaving and separating few channels that are converted, around a block's pixels.
fn few_channels_converted(cores: &mut Cores) {
    const COMMON: [DataType; 5] =
        [DataType::Float, DataType::Half, DataType::Bfloat16, DataType::Int8, DataType::Uint8];
    for src in COMMON {
        for dst in COMMON {
            for channels in 2..=8 {
                if !cores.is_sampled() {
                    continue;
                }
                let width = cores.rng.pick(&[1, 37, 511, 512, 1024, 2048, 2064, 4096]);
                let dims = [1 + channels % 2, channels, 1, width];
                let shift = cores.rng.pick(&[0, 0, 0, 1]);
                let scaling = cores.rng.pick(&SCALINGS);
                let order = [(Format::Nchw, Format::Nhwc), (Format::Nhwc, Format::Nchw)];
                for (from, to) in order {
                    cores.transform(format(src, from, &dims).shifted(shift), format(dst, to, &dims), scaling);
                }
            }
        }
    }
}

/// Straight copies and conversions of every length and alignment around a vector.
fn straight(cores: &mut Cores) {
    for src in SIZES {
        for dst in SIZES {
            for len in (1..40).chain([255, 256, 257, 4095, 4097, 10_000]) {
                if !cores.is_sampled() {
                    continue;
                }
                let dims = [1, len];
                let (x, y) = (format(src, Format::Nchw, &dims), format(dst, Format::Nchw, &dims));
                let (a, b) = (cores.rng.below(9), cores.rng.below(9));
                cores.transform(x.shifted(a), y.shifted(b), (1.0, 0.0));
                cores.transform(x.shifted(a), y.shifted(a), (0.5, 1.0));
            }
        }
    }
}

/// Random layouts of 2 to 8 dimensions: permuted, with gaps, backwards, with repeated sources.
fn random_layouts(cores: &mut Cores) {
    for _ in 0..double::cases(1500) {
        let rank = 2 + cores.rng.below(7);
        let mut dims: Vec<i64> =
            (0..rank).map(|_| cores.rng.pick(&[1, 2, 3, 3, 4, 5, 8, 13, 17, 33])).collect();
        while dims.iter().product::<i64>() > 4000 {
            let axis = cores.rng.below(rank);
            dims[axis] = 1 + dims[axis] / 2;
        }
        let (order_x, order_y) = (cores.rng.order(rank), cores.rng.order(rank));
        let gap = cores.rng.pick(&[0, 0, 2]);
        let mut x = packed(&dims, &order_x, gap, &mut cores.rng);
        let y = packed(&dims, &order_y, gap, &mut cores.rng);
        if cores.rng.below(4) == 0 {
            let factors: Vec<i64> = dims.iter().map(|_| cores.rng.pick(&[1, -1, 0, 2])).collect();
            x.iter_mut().zip(factors).for_each(|(stride, factor)| *stride *= factor);
        }
        let src = cores.rng.pick(&PLAIN);
        let dst = if cores.rng.below(2) == 0 { src } else { cores.rng.pick(&PLAIN) };
        let scaling = cores.rng.pick(&SCALINGS);
        cores.transform(strided(src, &dims, &x), strided(dst, &dims, &y), scaling);
    }
}

/// Destinations that repeat addresses: the last write in the order of the dimensions stays.
fn overlapping_destinations(cores: &mut Cores) {
    for _ in 0..60 {
        let dims: Vec<i64> = (0..3).map(|_| 1 + cores.rng.below(6) as i64).collect();
        let strides: Vec<i64> = dims.iter().map(|_| cores.rng.pick(&[1, 2, 3, -1, -2])).collect();
        let x = packed(&dims, &[0, 1, 2], 0, &mut cores.rng);
        let (src, dst) = (cores.rng.pick(&PLAIN), cores.rng.pick(&PLAIN));
        let scaling = cores.rng.pick(&SCALINGS);
        cores.transform(strided(src, &dims, &x), strided(dst, &dims, &strides), scaling);
    }
}

/// Blocks of channels, with a last one that is not full.
fn blocked(cores: &mut Cores) {
    for block in [2, 4, 8, 16, 32] {
        for channels in [1, 3, block, block + 1, 3 * block - 1] {
            for data_type in [DataType::Float, DataType::Half, DataType::Int8] {
                if !cores.is_sampled() {
                    continue;
                }
                let dims = [2, channels, 3, 5];
                let groups = format(data_type, Format::Blocked(block), &dims);
                for other in [Format::Nchw, Format::Nhwc, Format::Blocked(4)] {
                    let other = format(DataType::Float, other, &dims);
                    cores.transform(other, groups, (1.0, 0.0));
                    cores.transform(other, groups, (0.5, 1.0));
                    cores.transform(groups, other, (1.0, 0.0));
                }
            }
        }
    }
}

/// Padding, cropping, folding and unfolding.
fn mapped(cores: &mut Cores) {
    for _ in 0..double::cases(1500) {
        let rank = 2 + cores.rng.below(5);
        let dims: Vec<i64> = (0..rank).map(|_| 1 + cores.rng.below(6) as i64).collect();
        let mut map = TransformDescriptor {
            dest_format: cores.rng.below(2) as i32 * i32::from(rank > 2),
            direction: cores.rng.pick(&[Folding::Fold, Folding::Unfold]),
            ..TransformDescriptor::default()
        };
        for axis in 0..rank {
            map.pad_before[axis] = cores.rng.pick(&[0, 0, 1, 2, -1]);
            map.pad_after[axis] = cores.rng.pick(&[0, 0, 1, 3, -1]);
        }
        (0..rank - 2).for_each(|axis| map.fold[axis] = cores.rng.pick(&[0, 1, 2, 3]));
        let src = cores.rng.pick(&PLAIN);
        let order = cores.rng.order(rank);
        let x = packed(&dims, &order, 1, &mut cores.rng);
        let x = strided(src, &dims, &x);
        // Padding that leaves nothing is refused, as it should be.
        let Ok(dest) = map.destination(&x.desc, Mode::Extended) else { continue };
        let dst = if cores.rng.below(2) == 0 { src } else { cores.rng.pick(&PLAIN) };
        let order = cores.rng.order(rank);
        let extents: Vec<i64> = dest.dims().iter().copied().collect();
        let y = packed(&extents, &order, cores.rng.below(2), &mut cores.rng);
        let y = strided(dst, &extents, &y);
        let (alpha, beta) = cores.rng.pick(&SCALINGS);
        let scaling = Scaling { alpha, beta };
        let plan = TransformPlan::with_map(&map, &x.desc, &y.desc, scaling, Mode::Extended).expect("a plan");
        cores.solve(&plan, x, y, beta);
    }
}

/// So many elements that each part is a launch of its own: a tail of channels, and padding.
fn large_parts(cores: &mut Cores) {
    let dims = [1, 17, 256, 256];
    let (nchw, blocks) =
        (format(DataType::Int8, Format::Nchw, &dims), format(DataType::Int8, Format::Blocked(16), &dims));
    cores.transform(nchw, blocks, (1.0, 0.0));
    cores.transform(blocks, nchw, (1.0, 0.0));
    let mut map = TransformDescriptor::default();
    (map.pad_before[3], map.pad_after[2]) = (2, 1);
    let (x, y) = (
        format(DataType::Int8, Format::Nchw, &[1, 5, 460, 460]),
        format(DataType::Half, Format::Nchw, &[1, 5, 461, 462]),
    );
    let scaling = Scaling { alpha: 0.5, beta: 2.0 };
    let plan = TransformPlan::with_map(&map, &x.desc, &y.desc, scaling, Mode::Extended).expect("a plan");
    cores.solve(&plan, x, y, scaling.beta);
}

/// Coordinates beyond 31 bits: almost all of a repeated source is cropped away, and the rest
/// padded.
fn far_coordinates(cores: &mut Cores) {
    let extent = i32::MAX;
    let mut map = TransformDescriptor::default();
    (map.pad_before[0], map.pad_after[0]) = (-(extent - 7), -3);
    (map.pad_before[3], map.pad_after[2]) = (1, 2);
    for data_type in SIZES {
        let x = strided(data_type, &[extent.into(), 2, 3, 5], &[0, 15, 5, 1]);
        let y = format(DataType::Float, Format::Nhwc, &[4, 2, 5, 6]);
        let scaling = Scaling { alpha: 0.5, beta: 2.0 };
        let plan = TransformPlan::with_map(&map, &x.desc, &y.desc, scaling, Mode::Extended).expect("a plan");
        cores.solve(&plan, x, y, scaling.beta);
    }
}

/// Extents beyond 16 bits in every position.
fn long_extents(cores: &mut Cores) {
    for position in 0..4 {
        let mut dims = [1, 2, 1, 3];
        dims[position] = 70_000;
        for (number, data_type) in [DataType::Uint8, DataType::Half].into_iter().enumerate() {
            if !double::is_sampled(position + number) {
                continue;
            }
            let (nchw, nhwc) =
                (format(data_type, Format::Nchw, &dims), format(data_type, Format::Nhwc, &dims));
            cores.transform(nchw, nhwc, (1.0, 0.0));
            cores.transform(nhwc, nchw, (1.0, 0.0));
            cores.transform(nhwc, format(DataType::Float, Format::Nchw, &dims), (0.5, 0.0));
        }
    }
}

/// Rows of 1 to 32 bytes that keep their order, near and far apart.
fn rows(cores: &mut Cores) {
    for width in [1, 2, 4, 8, 16, 32] {
        let dims = [2, 3, width];
        let x = strided(DataType::Int8, &dims, &[96 * width, 2 * width, 1]);
        let y = strided(DataType::Int8, &dims, &[96 * width, 5 * width, 1]);
        cores.transform(x, y, (1.0, 0.0));
        let far = strided(DataType::Int8, &dims, &[96 * width, FAR, 1]);
        cores.through(&plain(&x, &far), x, far, y, &plain(&x, &y));
    }
}

/// A stride that leaves 31 bits when it is taken twice, and keeps every alignment.
pub const FAR: i64 = 0x5000_0000;

/// Offsets beyond 32 bits: few elements, far apart.
pub fn far_offsets(cores: &mut Cores) {
    let dims = [1, 3, 2, 5];
    for src in SIZES {
        let x = format(src, Format::Nchw, &dims);
        for dst in [src, DataType::Bfloat16, DataType::Float] {
            let far = strided(dst, &dims, &[0, FAR, 7, 1]);
            let y = format(dst, Format::Nchw, &dims);
            cores.through(&plain(&x, &far), x, far, y, &plain(&x, &y));
            let channels_last = strided(dst, &dims, &[0, 1, FAR, 7]);
            cores.through(&plain(&x, &channels_last), x, channels_last, y, &plain(&x, &y));
        }
        let mut map = TransformDescriptor::default();
        (map.pad_before[2], map.pad_after[3]) = (1, 2);
        let padded = [1, 3, 3, 7];
        let (far, y) = (strided(src, &padded, &[0, FAR, 9, 1]), format(src, Format::Nchw, &padded));
        let [outward, direct] = [&far, &y].map(|to| {
            TransformPlan::with_map(&map, &x.desc, &to.desc, Scaling::MOVE, Mode::Extended).expect("a plan")
        });
        cores.through(&outward, x, far, y, &direct);
    }
}

pub fn plain<'a>(x: &'a Tensor, y: &'a Tensor) -> TransformPlan<'a> {
    TransformPlan::new(&x.desc, &y.desc, Scaling::MOVE, Mode::Extended).expect("a plan")
}

/// Everything above, and every kernel among it but those of contractions.
fn all(cores: &mut Cores) {
    pairs_of_types(cores);
    transposes(cores);
    few_channels(cores);
    few_channels_converted(cores);
    straight(cores);
    random_layouts(cores);
    overlapping_destinations(cores);
    blocked(cores);
    mapped(cores);
    large_parts(cores);
    long_extents(cores);
    rows(cores);
    far_offsets(cores);
    far_coordinates(cores);
    arithmetic::all(cores);
    layers::all(cores);
    sample::all(cores);
    causal::all(cores);
    graphs::all(cores);
    ragged::all(cores);
    windows::all();
    let kernels = cudnn::backend::cuda::module::kernels().iter().map(|kernel| kernel.name);
    // Contractions agree within a bound, not to the bit: `contract.rs` runs them, and counts; so do
    // the tests of the others.
    let others =
        ["attend_", "batch_norm_", "contract_", "ctc_", "normalise_", "random_", "row_norm_", "words_"];
    let own = |name: &&str| !others.iter().any(|family| name.starts_with(family));
    check_counts(kernels.filter(own));
    println!("{} problems, equal on both cores", cores.solved);
}

/// Each of these kernels has run.
pub fn check_counts<'a>(kernels: impl Iterator<Item = &'a str>) {
    let missed: Vec<&str> = kernels.filter(|name| double::is_idle(name)).collect();
    assert!(missed.is_empty(), "kernels that no problem of the list needs: {missed:?}");
}

/// Dropout and normalisation.
fn normal_problems() {
    let mut cores = Cores::new();
    normal::all(&mut cores);
    let kernels = cudnn::backend::cuda::module::kernels().iter().map(|kernel| kernel.name);
    let own = ["batch_norm_", "normalise_", "random_"];
    check_counts(kernels.filter(|name| own.iter().any(|family| name.starts_with(family))));
    println!("{} problems, equal on both cores", cores.solved);
}

#[test]
fn both_cores_normalise_alike() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], normal_problems);
}

#[test]
fn both_cores_normalise_alike_with_threads_in_the_other_order() {
    double::run(&[("DRIVER_DOUBLE_ORDER", "reverse")], normal_problems);
}

#[test]
fn both_cores_leave_the_same_bits() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || all(&mut Cores::new()));
}

#[test]
fn both_cores_leave_the_same_bits_with_threads_in_the_other_order() {
    double::run(&[("DRIVER_DOUBLE_ORDER", "reverse")], || all(&mut Cores::new()));
}

/// Folds, their inverses and padding alone: the mutants of transforms are run against these, as all
/// problems take longer and more memory than a mutant gets.
#[test]
fn mapped_transforms_leave_the_same_bits() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || mapped(&mut Cores::new()));
}
