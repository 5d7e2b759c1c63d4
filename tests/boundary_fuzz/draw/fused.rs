//! Fused operations, each with what its parameters may leave out.

use cudnn::dtype::Scalar;

use super::{Tensor, code, extents, list, most};
use testkit::random::Rng;

// The operations, by their numbers in `cudnn.h`.
const FORWARD: usize = 0;
const FILTER_GRADIENT: usize = 1;
const FINALISE: usize = 2;
const FINALISE_KNOWN: usize = 3;
const CONVOLVE_AND_ADD: usize = 4;
const ADD: usize = 5;
const BACKWARD: usize = 6;

/// A problem while its calls are written: constant parameters go straight there, variant ones
/// behind the plan.
struct Fused<'a> {
    calls: &'a mut Vec<String>,
    operation: usize,
    variants: Vec<(u32, String)>,
}

impl<'a> Fused<'a> {
    fn new(calls: &'a mut Vec<String>, operation: usize) -> Fused<'a> {
        calls.push("CreateActivationDescriptor A0".to_owned());
        calls.push("SetActivationDescriptor A0 1 0 0".to_owned());
        calls.push(format!("CreateFusedOpsConstParamPack K0 {operation}"));
        Fused { calls, operation, variants: Vec::new() }
    }

    fn constant(&mut self, label: u32, value: &str) {
        self.calls.push(format!("SetFusedOpsConstParamPackAttribute K0 {label} {value}"));
    }

    /// A tensor in a register, whose descriptor is the parameter.
    fn tensor(&mut self, label: u32, register: &str, tensor: &Tensor) {
        tensor.describe(register, self.calls);
        self.constant(label, register);
    }

    /// A pointer: its placeholder, which says that it is aligned to its elements, and the buffer.
    fn pointer(&mut self, [placeholder, label]: [u32; 2], buffer: String) {
        self.constant(placeholder, "i:1");
        self.variants.push((label, buffer));
    }

    fn scalar(&mut self, label: u32, value: &str) {
        self.variants.push((label, value.to_owned()));
    }

    fn convolution(&mut self, label: u32, w: &Tensor, [padding, stride]: [i64; 2], is_last: bool) {
        let (format, of) = (u32::from(is_last), code(w.scalar));
        self.calls.push("CreateFilterDescriptor F0".to_owned());
        self.calls.push(format!("SetFilterNdDescriptor F0 {of} {format} 4 {}", list(&w.dims)));
        self.calls.push("CreateConvolutionDescriptor C0".to_owned());
        let [padding, stride] = [padding, stride].map(|value| list(&[value; 2]));
        self.calls.push(format!("SetConvolutionNdDescriptor C0 2 {padding} {stride} [1,1] 1 0"));
        self.constant(7, "C0");
        self.constant(label, "F0");
    }

    /// Makes the plan and executes it with a workspace of just the size that is told.
    fn run(self) {
        let Fused { calls, operation, variants } = self;
        calls.push(format!("CreateFusedOpsPlan P0 {operation}"));
        calls.push("MakeFusedOpsPlan H0 P0 K0 @=w".to_owned());
        calls.push(format!("CreateFusedOpsVariantParamPack V0 {operation}"));
        let memory = [(9, "W0:u8:0..$w:scratch".to_owned()), (100, "l:$w".to_owned())];
        for (label, value) in variants.into_iter().chain(memory) {
            calls.push(format!("SetFusedOpsVariantParamPackAttribute V0 {label} {value}"));
        }
        calls.push("FusedOpsExecute H0 P0 V0".to_owned());
    }
}

/// A number for each channel.
fn vector(of: Scalar, rank: usize, channels: i64) -> Tensor {
    let mut dims = vec![1; rank];
    dims[1] = channels;
    Tensor::packed(of, &dims)
}

fn order(rank: usize, is_last: bool) -> Vec<usize> {
    if is_last { [0].into_iter().chain(2..rank).chain([1]).collect() } else { (0..rank).collect() }
}

pub fn draw(rng: &mut Rng, calls: &mut Vec<String>) {
    match rng.below(7) {
        operation @ (FORWARD | FILTER_GRADIENT | CONVOLVE_AND_ADD) => convolve(rng, calls, operation),
        operation @ (FINALISE | FINALISE_KNOWN) => finalise(rng, calls, operation),
        ADD => add(rng, calls),
        _ => back(rng, calls),
    }
}

/// A convolution with what comes before it, and behind it.
fn convolve(rng: &mut Rng, calls: &mut Vec<String>, operation: usize) {
    let of = rng.pick(&[Scalar::F32, Scalar::F32, Scalar::F16, Scalar::Bf16]);
    let [images, channels, filters] = [4, 20, 20].map(|most| 1 + rng.below(most) as i64);
    let [window, padding, stride] = [rng.pick(&[1, 2, 3]), rng.below(2) as i64, 1 + rng.below(2) as i64];
    let extent: [i64; 2] = [0, 1].map(|_| window + rng.below(9) as i64);
    let out = extent.map(|extent| (extent + 2 * padding - window) / stride + 1);
    let is_last = rng.below(2) == 0;
    let tensor = |dims: [i64; 4]| Tensor::ordered(of, &dims, &order(4, is_last), &[0; 4]);
    let x = tensor([images, channels, extent[0], extent[1]]);
    let w = tensor([filters, channels, window, window]);
    let y = tensor([images, filters, out[0], out[1]]);
    let mut fused = Fused::new(calls, operation);
    if operation != CONVOLVE_AND_ADD {
        fused.constant(2, "i:1");
    }
    fused.tensor(0, "T0", &x);
    fused.pointer([1, 0], x.buffer("B0", "real"));
    let [of_w, of_y] = if operation == FILTER_GRADIENT { [10, 14] } else { [8, 12] };
    fused.convolution(of_w, &w, [padding, stride], is_last);
    fused.tensor(of_y, "T1", &y);
    if operation == FILTER_GRADIENT {
        fused.pointer([11, 4], w.buffer("B1", "nan:loose"));
        fused.pointer([15, 6], y.buffer("B2", "real"));
    } else {
        fused.pointer([9, 3], w.buffer("B1", "real"));
        fused.pointer([13, 5], y.buffer("B2", "nan:near"));
    }
    if operation == CONVOLVE_AND_ADD {
        let scales = vector(of, 4, filters);
        if rng.below(4) > 0 {
            fused.tensor(3, "T2", &scales);
            fused.pointer([4, 1], scales.buffer("B3", "real"));
        }
        add_z(rng, &mut fused, &y, &scales);
        fused.constant(6, "A0");
        return fused.run();
    }
    if rng.below(4) > 0 {
        let scales = vector(of, 4, channels);
        fused.tensor(3, "T2", &scales);
        fused.pointer([4, 1], scales.buffer("B3", "real"));
        fused.pointer([5, 2], scales.buffer("B4", "real"));
        fused.constant(6, "A0");
    }
    if operation == FORWARD && rng.below(2) == 0 {
        let sums = vector(Scalar::F32, 4, filters);
        fused.tensor(16, "T3", &sums);
        fused.pointer([17, 7], sums.buffer("B5", "nan:loose"));
        fused.pointer([18, 8], sums.buffer("B6", "nan:loose"));
    }
    fused.run();
}

/// What is added, its scale and its bias, each where it is there.
fn add_z(rng: &mut Rng, fused: &mut Fused<'_>, y: &Tensor, scales: &Tensor) {
    if rng.below(3) > 0 {
        fused.tensor(26, "T6", y);
        fused.pointer([27, 16], y.buffer("Z0", "real"));
    }
    if rng.below(3) > 0 {
        fused.tensor(28, "T7", scales);
        fused.pointer([29, 17], scales.buffer("Z1", "real"));
        fused.pointer([30, 18], scales.buffer("Z2", "real"));
    }
}

/// From sums, or from running statistics, to a scale and a bias for each channel.
fn finalise(rng: &mut Rng, calls: &mut Vec<String>, operation: usize) {
    let (rank, channels) = (rng.pick(&[4, 5]), rng.pick(&[1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 100, 1000]));
    let types = [Scalar::F32, Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16];
    let [numbers, equivalent] = [0, 1].map(|_| vector(rng.pick(&types), rank, channels));
    let mut fused = Fused::new(calls, operation);
    let mode = format!("i:{}", 1 + rng.below(2));
    fused.constant(2, &mode);
    fused.tensor(19, "T0", &numbers);
    fused.tensor(3, "T1", &equivalent);
    if operation == FINALISE {
        let sums = vector(rng.pick(&[Scalar::F32, Scalar::F64]), rank, channels);
        fused.tensor(16, "T2", &sums);
        fused.pointer([17, 7], sums.buffer("S0", "real"));
        // Larger than what the squares of the sums make.
        fused.pointer([18, 8], sums.buffer("S1", "positive"));
        let counts = rng.pick(&["l:1", "l:2", "l:4", "l:1000"]);
        fused.scalar(101, counts);
        fused.scalar(102, rng.pick(&["d:0", "d:0.25", "d:1"]));
    }
    fused.scalar(103, rng.pick(&["d:0.001", "d:0.5"]));
    let is_known = operation == FINALISE_KNOWN;
    let mut is_there = |needed: bool| needed || rng.below(4) > 0;
    for (pointer, name, vector, content, needed) in [
        ([20, 10], "N0", &numbers, "real", false),
        ([21, 11], "N1", &numbers, "real", false),
        ([24, 14], "N2", &numbers, "real", is_known),
        ([25, 15], "N3", &numbers, "positive", is_known),
        ([4, 1], "E0", &equivalent, "nan", false),
        ([5, 2], "E1", &equivalent, "nan", false),
    ] {
        if is_there(needed) {
            fused.pointer(pointer, vector.buffer(name, content));
        }
    }
    if !is_known && is_there(false) {
        fused.pointer([22, 12], numbers.buffer("N4", "nan"));
        fused.pointer([23, 13], numbers.buffer("N5", "nan"));
    }
    fused.run();
}

/// The mask of a tensor: a row of bits of channels for each position.
fn mask(of: &Tensor, rng: &mut Rng) -> Tensor {
    let rows = of.dims.iter().product::<i64>() / of.dims[1];
    let words = (of.dims[1] + 63) / 64 * 2;
    let rows = if rng.below(2) == 0 { rows } else { (rows + 31) / 32 * 32 };
    Tensor::packed(Scalar::I32, &[rows, words, 1])
}

/// Two tensors with scales and biases, their sum and its activation, with the bits of what is
/// above 0.
fn add(rng: &mut Rng, calls: &mut Vec<String>) {
    let (rank, most) = (rng.pick(&[4, 4, 5]), most(rng));
    let dims = extents(rng, rank, most);
    let of = rng.pick(&[Scalar::F32, Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16]);
    let [x, y] = [0, 1].map(|_| Tensor::ordered(of, &dims, &order(rank, rng.below(2) == 0), &vec![0; rank]));
    let wide = if of == Scalar::F64 { of } else { Scalar::F32 };
    let scales = vector(rng.pick(&[of, wide]), rank, dims[1]);
    let mut fused = Fused::new(calls, ADD);
    fused.constant(2, "i:1");
    fused.tensor(0, "T0", &x);
    fused.pointer([1, 0], x.buffer("B0", "real"));
    fused.tensor(12, "T1", &y);
    fused.pointer([13, 5], y.buffer("B1", "nan"));
    if rng.below(3) > 0 {
        fused.tensor(3, "T2", &scales);
        fused.pointer([4, 1], scales.buffer("B2", "real"));
        fused.pointer([5, 2], scales.buffer("B3", "real"));
    }
    add_z(rng, &mut fused, &y, &scales);
    fused.constant(6, "A0");
    if rng.below(2) == 0 {
        let mask = mask(&y, rng);
        fused.tensor(31, "T8", &mask);
        fused.pointer([32, 19], mask.buffer("M0", "nan"));
    }
    fused.run();
}

/// Back through an activation by its mask, a sum, and a batch normalisation.
fn back(rng: &mut Rng, calls: &mut Vec<String>) {
    let (rank, most) = (rng.pick(&[4, 4, 5]), most(rng));
    let dims = extents(rng, rank, most);
    let of = rng.pick(&[Scalar::F32, Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16]);
    let is_last = rng.below(2) == 0;
    let x = Tensor::ordered(of, &dims, &order(rank, is_last), &vec![0; rank]);
    let numbers = vector(if of == Scalar::F64 { of } else { Scalar::F32 }, rank, dims[1]);
    let mut fused = Fused::new(calls, BACKWARD);
    fused.constant(2, "i:1");
    fused.constant(6, "A0");
    fused.tensor(0, "T0", &x);
    fused.pointer([1, 0], x.buffer("B0", "real"));
    fused.tensor(14, "T1", &x);
    fused.pointer([15, 6], x.buffer("B1", "real"));
    fused.tensor(33, "T2", &x);
    fused.pointer([34, 20], x.buffer("B2", "nan:near"));
    fused.tensor(19, "T3", &numbers);
    fused.pointer([20, 10], numbers.buffer("N0", "real"));
    fused.pointer([21, 11], numbers.buffer("N1", "real"));
    fused.pointer([22, 12], numbers.buffer("N2", "real"));
    fused.pointer([23, 13], numbers.buffer("N3", "positive"));
    let mask = mask(&x, rng);
    fused.tensor(31, "T8", &mask);
    fused.pointer([32, 19], mask.buffer("M0", "bits"));
    if rng.below(2) == 0 {
        fused.tensor(35, "T4", &x);
        fused.pointer([36, 21], x.buffer("B3", "nan"));
    }
    if rng.below(3) > 0 {
        fused.pointer([37, 22], numbers.buffer("N4", "nan:near"));
        fused.pointer([38, 23], numbers.buffer("N5", "nan:near"));
    }
    fused.run();
}
