//! Kernels whose function and type are constants: both cores leave the same bits, on the kernels'
//! sources and on their PTX.

use cudnn::backend::cuda::module;
use cudnn::desc::{ActivationDescriptor, ActivationMode, Choice, Format, NanPropagation};
use cudnn::dtype::{DataType, Scalar};
use cudnn::exec::Address;
use cudnn::ops::{Plan, Scaling};

use crate::child;
use crate::cores::{Cores, check_counts};
use crate::double::{self, Memory, Runs};
use crate::layers::{Contents, any_bits};
use crate::sample;
use crate::tensors::{Rng, Words, format, strided};
use testkit::steps::Row;

const TYPES: [DataType; 3] = [DataType::Float, DataType::Half, DataType::Bfloat16];

/// The families of such kernels.
const FAMILIES: [&str; 7] = ["activation", "softmax", "row_sums", "pool", "plane", "response", "sample_of"];

/// Numbers of either sign from 1/64 to 16, with any mantissa: what a network has, and exponentials
/// show.
pub fn moderate(rng: &mut Rng, data_type: DataType, size: usize) -> Vec<u8> {
    let (bytes, mantissa, bias) = match data_type {
        DataType::Float => (4, 23, 127),
        DataType::Half => (2, 10, 15),
        _ => (2, 7, 127),
    };
    let mut number = || {
        let exponent = bias - 6 + rng.below(10) as u64;
        let word = rng.word();
        (word & 1) << (8 * bytes - 1) | exponent << mantissa | word >> 8 & ((1 << mantissa) - 1)
    };
    (0..size / bytes).flat_map(|_| number().to_ne_bytes()[..bytes].to_vec()).collect()
}

const CONTENTS: [Contents; 2] = [moderate, any_bits];

/// Numbers whose powers of e lie in the middle between two powers of 2, for which either may be
/// taken, and their neighbours; halves of them for the hyperbolic tangent.
fn between_powers(rng: &mut Rng, data_type: DataType, size: usize) -> Vec<u8> {
    let number = |rng: &mut Rng| {
        let x = (rng.below(60) as f64 + 0.5) * std::f64::consts::LN_2 * rng.pick(&[0.5, 1.0, -0.5, -1.0]);
        let away = rng.below(5) as u64;
        match data_type {
            DataType::Double => (x.to_bits() + away - 2).to_ne_bytes().to_vec(),
            _ => ((x as f32).to_bits() + away as u32 - 2).to_ne_bytes().to_vec(),
        }
    };
    let bytes = if data_type == DataType::Double { 8 } else { 4 };
    (0..size / bytes).flat_map(|_| number(rng)).collect()
}

/// The same below zero, and zeros.
fn below_zero(rng: &mut Rng, data_type: DataType, size: usize) -> Vec<u8> {
    let mut bytes = between_powers(rng, data_type, size);
    let width = if data_type == DataType::Double { 8 } else { 4 };
    for number in bytes.chunks_exact_mut(width) {
        number[width - 1] |= 0x80;
        if rng.below(9) == 0 {
            number.fill(0);
        }
    }
    bytes
}

/// A few numbers, so that many are equal; zeros of both signs, infinities and NaNs among them.
fn equals(rng: &mut Rng, data_type: DataType, size: usize) -> Vec<u8> {
    let numbers = [0x0000_0000, 0x8000_0000, 0x3f80_0000, 0xbf80_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000];
    let halves = [0x0000, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00];
    let bytes = if data_type == DataType::Float { 4 } else { 2 };
    let mut number = || {
        // Mostly plain ones.
        let k = if rng.below(4) == 0 { rng.below(7) } else { rng.below(4) };
        match data_type {
            DataType::Float => numbers[k],
            DataType::Half => halves[k],
            _ => numbers[k] >> 16,
        }
    };
    (0..size / bytes).flat_map(|_| u32::to_ne_bytes(number())[..bytes].to_vec()).collect()
}

/// Runs a step, whose operands begin at their addresses, on both cores, and compares what they
/// leave.
pub fn agree(cores: &mut Cores, step: &str, made: Contents) {
    let row = Row::parse(&format!("step {step}")).unwrap_or_else(|error| panic!("{error}: {step}"));
    let contents = row.operands.iter().map(|operand| {
        let data_type = match operand.scalar {
            Scalar::F32 => DataType::Float,
            Scalar::F16 => DataType::Half,
            _ => DataType::Bfloat16,
        };
        made(&mut cores.rng, data_type, (operand.span.1 - operand.span.0) as usize)
    });
    let contents: Vec<Vec<u8>> = contents.collect();
    let mut host: Vec<Words> = contents.iter().map(|bytes| Words::new(bytes)).collect();
    let device: Vec<Memory> = contents.iter().map(|bytes| Memory::new(bytes)).collect();
    let touched = |k: usize, at: Address| if row.operands[k].is_touched() { at } else { Address::NULL };
    let at: Vec<Address> =
        host.iter_mut().enumerate().map(|(k, words)| touched(k, words.address_mut().into())).collect();
    // SAFETY: every operand has its span.
    unsafe { cores.cpu.run(&row, &at) }.expect("the CPU core");
    let at: Vec<Address> =
        device.iter().enumerate().map(|(k, memory)| touched(k, memory.pointer().into())).collect();
    // SAFETY: as above, on the device.
    unsafe { cores.cuda.run(&row, &at) }.expect("the CUDA core");
    for (k, (host, device)) in host.iter().zip(&device).enumerate() {
        let got = device.read();
        let first = got.iter().zip(host.bytes()).position(|(a, b)| a != b);
        assert!(first.is_none(), "{} of {step} differs at byte {first:?}", row.operands()[k].name);
    }
    cores.solved += 1;
}

/// Activations along a run: less than a vector is left, or several of a thread are not there.
fn activations(cores: &mut Cores) {
    for &mode in ActivationMode::ALL {
        for &nan in NanPropagation::ALL {
            let activation = ActivationDescriptor { mode, nan, coefficient: 1.5, swish_beta: 0.75 };
            for data_type in TYPES {
                for (length, made) in [8, 2051, 4096].into_iter().zip(CONTENTS.into_iter().cycle()) {
                    let tensor = format(data_type, Format::Nchw, &[1, length, 1, 1]);
                    cores.activation(&activation, [tensor; 3], Some(Scaling::MOVE), made);
                }
            }
            for length in [16, 8203] {
                let tensor = format(DataType::Int8, Format::Nchw, &[1, length, 1, 1]);
                cores.activation(&activation, [tensor; 3], Some(Scaling::MOVE), any_bits);
            }
        }
    }
}

/// Functions of powers of e where either of two powers of 2 may be taken.
fn powers(cores: &mut Cores) {
    for data_type in [DataType::Float, DataType::Double] {
        for &mode in ActivationMode::ALL {
            let nan = NanPropagation::Keep;
            let activation = ActivationDescriptor { mode, nan, coefficient: 1.5, swish_beta: 1.0 };
            let tensor = format(data_type, Format::Nchw, &[1, 3000, 1, 1]);
            cores.activation(&activation, [tensor; 3], Some(Scaling::MOVE), between_powers);
        }
        // Peaks of zero, so that the numbers are what is less than these.
        for dims in [[40, 70, 1, 1], [1, 30, 9, 11]] {
            let tensor = format(data_type, Format::Nchw, &dims);
            cores.softmax([tensor; 3], Some(Scaling::MOVE), below_zero);
        }
    }
}

/// Groups of every number of slots, side by side and apart, around the ends of each.
fn softmaxes(cores: &mut Cores) {
    const SIDE_BY_SIDE: [i64; 12] = [1, 2, 31, 32, 33, 64, 100, 128, 129, 500, 1000, 1024];
    const LONG: [i64; 7] = [1025, 2048, 3100, 7201, 16_384, 16_385, 35_000];
    const APART: [i64; 9] = [2, 8, 9, 31, 33, 64, 100, 255, 256];
    for data_type in TYPES {
        // Of which a block has one: in registers, and beyond these.
        for length in LONG {
            let tensor = format(data_type, Format::Nhwc, &[1, length, 1, 2]);
            cores.softmax([tensor; 3], Some(Scaling::MOVE), moderate);
        }
        for made in CONTENTS {
            for length in SIDE_BY_SIDE {
                let tensor = format(data_type, Format::Nhwc, &[1, length, 3, 3]);
                cores.softmax([tensor; 3], Some(Scaling::MOVE), made);
            }
            for length in APART {
                let tensor = format(data_type, Format::Nchw, &[2, length, 5, 7]);
                cores.softmax([tensor; 3], Some(Scaling::MOVE), made);
            }
            // Operands of other distances, with gaps that nobody may write.
            let rows = [(72, 1), (80, 1), (65, 1)].map(|(group, element)| {
                strided(data_type, &[5, 65, 1, 1], &[group, element, element, element])
            });
            cores.softmax(rows, Some(Scaling::MOVE), made);
            let columns = [(700, 12), (560, 9), (1000, 10)]
                .map(|(plane, step)| strided(data_type, &[3, 50, 1, 9], &[plane, step, 9, 1]));
            cores.softmax(columns, Some(Scaling::MOVE), made);
        }
    }
}

/// Sums and means of rows, one more and one less than a warp has, that end between the elements of
/// a thread, or with gaps.
fn row_sums(cores: &mut Cores) {
    for scalar in SCALARS {
        for made in CONTENTS {
            for (rows, length) in
                [(1, 16), (9, 31), (33, 49), (34, 128), (7, 129), (5, 784), (66, 1000), (3, 1024)]
            {
                for (what, to, factors) in [
                    ("Add", scalar, "alpha=1 beta=0"),
                    ("Avg", scalar, "alpha=-0.75 beta=0.5"),
                    ("Add", "f32", "alpha=1 beta=0"),
                ] {
                    let gap = length + 3;
                    let loops = format!("{rows}*(2,{gap},0) +0,+0,+0 each of dst/src: {length}*(1,0) +0,+0");
                    agree(
                        cores,
                        &format!(
                            "reduce {what} {scalar}->f32->{to} {factors} outputs dst/src1/src2: {loops}"
                        ),
                        made,
                    );
                }
            }
            // Many rows without gaps, of which a thread has one: one more and one less than blocks
            // have, turns of 32 lanes and parts of one, and vectors that end inside a row.
            for (rows, length) in [(1024, 16), (1025, 33), (1151, 49), (1030, 62), (1024, 63), (1027, 90)] {
                let kinds = [("Add", scalar, "alpha=1 beta=0"), ("Avg", "f32", "alpha=-0.75 beta=0.5")];
                let (what, to, factors) = cores.rng.pick(&kinds);
                let loops = format!("{rows}*(1,{length},0) +0,+0,+0 each of dst/src: {length}*(1,0) +0,+0");
                let kind = format!("reduce {what} {scalar}->f32->{to} {factors}");
                agree(cores, &format!("{kind} outputs dst/src1/src2: {loops}"), made);
            }
            // Few and long rows, in one run and in several, shorter and longer than a warp.
            for (length, around) in [(32_768, 0), (36_111, 0), (66, 600), (7, 5000), (11_201, 3)] {
                let runs = match around {
                    0 => format!("{length}*(1,0)"),
                    count => format!("{count}*({},0) {length}*(1,0)", 3 * length),
                };
                let loops = format!("3*(2,{length},0) +0,+0,+0 each of dst/src: {runs} +0,+0");
                let kinds = ["Add f32 alpha=1 beta=0", "Avg f32 alpha=-0.75 beta=0.5"];
                let kind = cores.rng.pick(&kinds).replacen(' ', &format!(" {scalar}->f32->"), 1);
                agree(cores, &format!("reduce {kind} outputs dst/src1/src2: {loops}"), made);
            }
        }
        // Longer ones, of blocks of one warp, of two, and of four that come twice to a row.
        for (rows, length) in [(1, 1025), (3, 2560), (8192, 1025), (2049, 4100)] {
            let loops = format!("{rows}*(1,{length},0) +0,+0,+0 each of dst/src: {length}*(1,0) +0,+0");
            let kind = format!("reduce Add {scalar}->f32->f32 alpha=1 beta=0");
            // One type has all rows.
            if rows < 2000 || scalar == "f16" {
                agree(cores, &format!("{kind} outputs dst/src1/src2: {loops}"), moderate);
            }
        }
    }
}

const SCALARS: [&str; 3] = ["f32", "f16", "bf16"];

/// Poolings of the shapes that have kernels, with and without padding: images of odd sides, and
/// ones of several runs of windows.
fn poolings(cores: &mut Cores) {
    let shapes = [(2, 1), (2, 2), (3, 1), (3, 2)];
    let images = [[2, 3, 9, 11], [1, 6, 41, 8], [3, 34, 5, 6]];
    for (k, s) in shapes {
        for scalar in SCALARS {
            for (number, [n, c, h, w]) in images.into_iter().enumerate() {
                let pad = number as i64 % k;
                let [y, x] = [h, w].map(|side| (side + 2 * pad - k) / s + 1);
                for is_nhwc in [false, true] {
                    // Bytes of a row, of a cell, and the loops around.
                    let strides = |width: i64| if is_nhwc { (width * c, c) } else { (width, 1) };
                    let ((big_row, cell), (row, _)) = (strides(w), strides(x));
                    let (big, small) = (h * w, y * x);
                    for function in ["max", "max or NaN", "average", "average with padding"] {
                        let made = cores.rng.pick(&[equals as Contents, moderate, any_bits]);
                        let axes = format!(
                            "{h}->{y}:k{k}s{s}p{pad}({row},{big_row},0) {w}->{x}:k{k}s{s}p{pad}({cell},{cell},0)"
                        );
                        let around = match is_nhwc {
                            true => format!("{n}*({},{},0) {c}*(1,1,0)", small * c, big * c),
                            false => format!("{}*({small},{big},0)", n * c),
                        };
                        let step = format!(
                            "{scalar}<-{scalar} in f32 alpha=1 beta=0 {axes} dst/src1/src2: {around} +0,+0,+0"
                        );
                        agree(cores, &format!("window {function} {step}"), made);
                        let axes = format!(
                            "{h}->{y}:k{k}s{s}p{pad}({big_row},{big_row},{row}) {w}->{x}:k{k}s{s}p{pad}({cell},{cell},{cell})"
                        );
                        let around = match is_nhwc {
                            true => format!("{n}*({0},{0},{1}) {c}*(1,1,1)", big * c, small * c),
                            false => format!("{}*({big},{big},{small})", n * c),
                        };
                        // A gradient of averages does not read x.
                        let types = match function.starts_with("max") {
                            true => format!("{scalar}<-{scalar}<-{scalar}"),
                            false => format!("{scalar}<-{scalar}"),
                        };
                        let step =
                            format!("{types} in f32 alpha=1 beta=0 {axes} dst/src1/src2: {around} +0,+0,+0");
                        agree(cores, &format!("window gradient of {function} {step}"), made);
                    }
                }
            }
        }
    }
}

/// Averages of planes with fewer columns than a warp has lanes, as many and more, and rows that end
/// within a round of loads.
fn planes(cores: &mut Cores) {
    for scalar in SCALARS {
        for (h, w) in [(1, 1), (7, 7), (13, 4), (8, 32), (5, 33), (3, 70), (28, 28)] {
            for (n, c, is_nhwc) in [(3, 37, true), (3, 37, false), (1, 300, true)] {
                let made = cores.rng.pick(&[equals as Contents, moderate, any_bits]);
                let (row, cell, around) = match is_nhwc {
                    true => (w * c, c, format!("{n}*({c},{},0) {c}*(1,1,0)", h * w * c)),
                    false => (w, 1, format!("{}*(1,{},0)", n * c, h * w)),
                };
                let axes = format!("{h}->1:k{h}s{h}p0(1,{row},0) {w}->1:k{w}s{w}p0(1,{cell},0)");
                let kind = cores.rng.pick(&["average", "average with padding"]);
                let types = format!("{scalar}<-{scalar} in f32 alpha=1 beta=0");
                agree(cores, &format!("window {kind} {types} {axes} dst/src1/src2: {around} +0,+0,+0"), made);
            }
        }
    }
}

/// Response normalisation over few channels and many, whole runs of them and not.
fn responses(cores: &mut Cores) {
    for scalar in SCALARS {
        for channels in [1, 3, 5, 8, 13, 16, 24, 64] {
            for is_nhwc in [false, true] {
                let places = 15;
                let (apart, around) = match is_nhwc {
                    true => (1, [(2 * places, channels)].to_vec()),
                    false => (places, vec![(2, channels * places), (places, 1)]),
                };
                let made = cores.rng.pick(&CONTENTS);
                let step = |reads: i64| {
                    let loops: Vec<String> = around
                        .iter()
                        .map(|(n, step)| format!("{n}*({step},{step},{})", step * reads))
                        .collect();
                    let types = if reads == 1 {
                        format!("{scalar}<-{scalar}<-{scalar}")
                    } else {
                        format!("{scalar}<-{scalar}")
                    };
                    format!(
                        "normalise k=2 scale=0.0625 beta=0.75 {types} in f32 alpha=1 beta=0 {channels}->{channels}:k5s1p2({apart},{apart},{}) dst/src1/src2: {} +0,+0,+0",
                        apart * reads,
                        loops.join(" ")
                    )
                };
                agree(cores, &format!("window {}", step(0)), made);
                agree(cores, &format!("window gradient of {}", step(1)), made);
            }
        }
    }
}

/// Every problem of this file.
pub fn all(cores: &mut Cores) {
    activations(cores);
    powers(cores);
    softmaxes(cores);
    row_sums(cores);
    poolings(cores);
    planes(cores);
    responses(cores);
    sample::plain(cores);
}

/// All of them, and every kernel.
fn problems() {
    let mut cores = Cores::new();
    all(&mut cores);
    let kernels = module::kernels().iter().filter(|kernel| FAMILIES.contains(&kernel.family()));
    check_counts(kernels.map(|kernel| kernel.name));
    println!("{} problems, equal on both cores", cores.solved);
}

#[test]
fn specialised_kernels_leave_the_bits_of_the_other_core() {
    child::run(&double::of(Runs::Source), &[("DRIVER_DOUBLE_ORDER", "reverse")], problems);
}

#[test]
fn specialised_kernels_leave_the_bits_of_the_other_core_on_ptx() {
    child::run(&double::of(Runs::Ptx), &[], problems);
}
