//! Operations on tensors: moves, sums of elements, reductions, columns of windows.

use cudnn::dtype::Scalar;

use super::{FLOATS, TYPES, Tensor, code, extents, factor, list, most};
use testkit::random::Rng;

/// The dims with some of them 1: what broadcasts, or what is left of a reduction.
fn some_ones(rng: &mut Rng, dims: &[i64]) -> Vec<i64> {
    dims.iter().map(|&dim| if rng.below(2) == 0 { 1 } else { dim }).collect()
}

pub fn transform(rng: &mut Rng, calls: &mut Vec<String>) {
    let (rank, most) = (rng.pick(&[2, 3, 4, 4, 4, 5, 8]), most(rng));
    let dims = extents(rng, rank, most);
    let (of_x, of_y) = (rng.pick(&TYPES).1, rng.pick(&TYPES).1);
    let (x, y) = (Tensor::draw(rng, of_x, &dims, true), Tensor::draw(rng, of_y, &dims, false));
    x.describe("T0", calls);
    y.describe("T1", calls);
    let (alpha, beta) = (rng.pick(&[1.0, 1.0, -1.5, 0.25]), rng.pick(&[0.0, 0.0, 1.0, 0.5]));
    let data = rng.pick(&["real", "whole", "bits"]);
    let before = if beta == 0.0 { "nan" } else { data };
    let (alpha, beta) = (factor(of_y, alpha), factor(of_y, beta));
    match rng.below(8) {
        0 => calls.push(format!("ScaleTensor H0 T1 {} {alpha}", y.buffer("B1", data))),
        1 => {
            let value = match of_y {
                Scalar::F64 => "d:2.5",
                Scalar::F32 => "f:2.5",
                Scalar::I64 => "l:7",
                _ => "i:7",
            };
            calls.push(format!("SetTensor H0 T1 {} {value}", y.buffer("B1", "nan")));
        }
        _ => {
            let (x, y) = (x.buffer("B0", data), y.buffer("B1", before));
            calls.push(format!("TransformTensor H0 {alpha} T0 {x} {beta} T1 {y}"));
        }
    }
}

/// AddTensor, OpTensor and the gradient of a bias.
pub fn combine(rng: &mut Rng, calls: &mut Vec<String>) {
    let (rank, most) = (rng.pick(&[2, 3, 4, 4, 4, 5, 8]), most(rng));
    let dims = extents(rng, rank, most);
    let of = rng.pick(&FLOATS);
    let c = Tensor::draw(rng, of, &dims, false);
    let (a_dims, b_dims) = (some_ones(rng, &dims), some_ones(rng, &dims));
    let a = Tensor::draw(rng, of, &a_dims, true);
    let b = Tensor::draw(rng, of, &b_dims, true);
    let data = rng.pick(&["real", "whole", "bits"]);
    let factors: Vec<String> = (0..3).map(|_| factor(of, rng.pick(&[1.0, 0.0, 0.5, -2.0]))).collect();
    let [first, second, third] = factors.as_slice() else { return };
    a.describe("T0", calls);
    c.describe("T2", calls);
    let (at, ct) = (a.buffer("B0", data), c.buffer("B2", data));
    match rng.below(3) {
        0 => calls.push(format!("AddTensor H0 {first} T0 {at} {third} T2 {ct}")),
        1 => {
            b.describe("T1", calls);
            calls.push("CreateOpTensorDescriptor O0".to_owned());
            let compute = if of == Scalar::F64 { 1 } else { 0 };
            calls.push(format!("SetOpTensorDescriptor O0 {} {compute} {}", rng.below(4), rng.below(2)));
            let bt = b.buffer("B1", data);
            calls.push(format!("OpTensor H0 O0 {first} T0 {at} {second} T1 {bt} {third} T2 {ct}"));
        }
        _ => {
            let mut ones = vec![1; rank];
            ones[1] = dims[1];
            let db = Tensor::packed(of, &ones);
            db.describe("T3", calls);
            let db = db.buffer("B3", data);
            calls.push(format!("ConvolutionBackwardBias H0 {first} T2 {ct} {third} T3 {db}"));
        }
    }
}

pub fn reduce(rng: &mut Rng, calls: &mut Vec<String>) {
    let (rank, most) = (rng.pick(&[2, 3, 4, 4, 4, 5, 8]), most(rng));
    let dims = extents(rng, rank, most);
    let of = rng.pick(&FLOATS);
    let left = some_ones(rng, &dims);
    let (a, c) = (Tensor::draw(rng, of, &dims, true), Tensor::draw(rng, of, &left, false));
    a.describe("T0", calls);
    c.describe("T1", calls);
    let operation = rng.below(9);
    let compute = if of == Scalar::F64 { 1 } else { 0 };
    let with_indices = (2..5).contains(&operation) && rng.below(2) == 0;
    let (nan, indices) = (rng.below(2), u32::from(with_indices));
    calls.push("CreateReduceTensorDescriptor R0".to_owned());
    calls.push(format!("SetReduceTensorDescriptor R0 {operation} {compute} {nan} {indices} 0"));
    let data = rng.pick(&["real", "whole", "bits"]);
    let (alpha, beta) = (rng.pick(&[1.0, 1.0, 0.5]), rng.pick(&[0.0, 0.0, 1.0]));
    let before = if beta == 0.0 { "nan" } else { data };
    let (alpha, beta) = (factor(of, alpha), factor(of, beta));
    let indices = if with_indices {
        let bytes = 4 * left.iter().product::<i64>();
        format!("I0:{}:0..{bytes}:nan {bytes}", Scalar::I32.name())
    } else {
        "NULL 0".to_owned()
    };
    calls.push("GetReductionWorkspaceSize H0 R0 T0 T1 @".to_owned());
    let (a, c) = (a.buffer("B0", data), c.buffer("B1", before));
    calls.push(format!("ReduceTensor H0 R0 {indices} W0:told told {alpha} T0 {a} {beta} T1 {c}"));
}

pub fn columns(rng: &mut Rng, calls: &mut Vec<String>) {
    let most = most(rng);
    let x = extents(rng, 4, most);
    let window = [rng.pick(&[1, 2, 3, 5]), rng.pick(&[1, 2, 3, 5])];
    let (padding, stride) = (rng.below(3) as i64, 1 + rng.below(3) as i64);
    let mut bytes = x[0] * x[1];
    for (extent, window) in x[2..].iter().zip(window) {
        if extent + 2 * padding < window {
            return transform(rng, calls);
        }
        bytes *= window * (1 + (extent + 2 * padding - window) / stride);
    }
    let of = rng.pick(&TYPES).1;
    let tensor = Tensor::draw(rng, of, &x, true);
    tensor.describe("T0", calls);
    calls.push("CreateFilterDescriptor F0".to_owned());
    calls.push(format!(
        "SetFilterNdDescriptor F0 {} 0 4 {}",
        code(of),
        list(&[2, x[1], window[0], window[1]])
    ));
    calls.push("CreateConvolutionDescriptor C0".to_owned());
    let [padding, stride] = [padding, stride].map(|value| list(&[value; 2]));
    calls.push(format!("SetConvolutionNdDescriptor C0 2 {padding} {stride} [1,1] 1 0"));
    let end = bytes * of.size() as i64;
    let x = tensor.buffer("B0", "bits");
    calls.push(format!("Im2Col H0 T0 {x} F0 C0 B1:{}:0..{end}:nan", of.name()));
}
