//! Fused operations with a convolution: `x` with scale, bias and activation, which is convolved forward with sums of the result, or
//! for the gradient of the filter.

use cudnn::dtype::Scalar;

use super::{Tensor, code, list};
use testkit::random::Rng;

/// The operations, by their numbers in `cudnn.h`.
const FORWARD: usize = 0;

pub fn draw(rng: &mut Rng, calls: &mut Vec<String>) {
    let ops = rng.below(2);
    let of = rng.pick(&[Scalar::F32, Scalar::F32, Scalar::F16]);
    let [images, channels, filters] = [4, 20, 20].map(|most| 1 + rng.below(most) as i64);
    let [window, padding, stride] = [rng.pick(&[1, 2, 3]), rng.below(2) as i64, 1 + rng.below(2) as i64];
    let extent: [i64; 2] = [0, 1].map(|_| window + rng.below(9) as i64);
    let out = extent.map(|extent| (extent + 2 * padding - window) / stride + 1);
    let is_last = rng.below(2) == 0;
    let order: &[usize] = if is_last { &[0, 2, 3, 1] } else { &[0, 1, 2, 3] };
    let tensor = |of: Scalar, dims: [i64; 4]| Tensor::ordered(of, &dims, order, &[0; 4]);
    let x = tensor(of, [images, channels, extent[0], extent[1]]);
    let w = tensor(of, [filters, channels, window, window]);
    let y = tensor(of, [images, filters, out[0], out[1]]);
    let vector = |of: Scalar, entries: i64| Tensor::packed(of, &[1, entries, 1, 1]);
    let (scales, sums) = (vector(of, channels), vector(Scalar::F32, filters));
    x.describe("T0", calls);
    y.describe("T1", calls);
    scales.describe("T2", calls);
    sums.describe("T3", calls);
    calls.push("CreateFilterDescriptor F0".to_owned());
    calls.push(format!("SetFilterNdDescriptor F0 {} {} 4 {}", code(of), u32::from(is_last), list(&w.dims)));
    calls.push("CreateConvolutionDescriptor C0".to_owned());
    calls.push(format!(
        "SetConvolutionNdDescriptor C0 2 {} {} [1,1] 1 0",
        list(&[padding; 2]),
        list(&[stride; 2])
    ));
    calls.push("CreateActivationDescriptor A0".to_owned());
    calls.push("SetActivationDescriptor A0 1 0 0".to_owned());
    calls.push(format!("CreateFusedOpsConstParamPack K0 {ops}"));
    let mut constant = |label: u32, value: &str| {
        calls.push(format!("SetFusedOpsConstParamPackAttribute K0 {label} {value}"))
    };
    let scaled = rng.below(4) > 0;
    // A pointer that is there: aligned to its elements.
    constant(0, "T0");
    constant(1, "i:1");
    constant(2, "i:1");
    if scaled {
        constant(3, "T2");
        constant(4, "i:1");
        constant(5, "i:1");
        constant(6, "A0");
    }
    constant(7, "C0");
    let counts = rng.below(2) == 0;
    if ops == FORWARD {
        [(8, "F0"), (9, "i:1"), (12, "T1"), (13, "i:1")]
            .iter()
            .for_each(|(label, value)| constant(*label, value));
        if counts {
            [(16, "T3"), (17, "i:1"), (18, "i:1")].iter().for_each(|(label, value)| constant(*label, value));
        }
    } else {
        [(10, "F0"), (11, "i:1"), (14, "T1"), (15, "i:1")]
            .iter()
            .for_each(|(label, value)| constant(*label, value));
    }
    calls.push(format!("CreateFusedOpsPlan P0 {ops}"));
    calls.push("MakeFusedOpsPlan H0 P0 K0 @=w".to_owned());
    calls.push(format!("CreateFusedOpsVariantParamPack V0 {ops}"));
    let mut variant = |label: u32, value: &str| {
        calls.push(format!("SetFusedOpsVariantParamPackAttribute V0 {label} {value}"))
    };
    variant(0, &x.buffer("B0", "real"));
    if scaled {
        variant(1, &scales.buffer("B1", "real"));
        variant(2, &scales.buffer("B2", "real"));
    }
    if ops == FORWARD {
        variant(3, &w.buffer("B3", "real"));
        variant(5, &y.buffer("B4", "nan:near"));
        if counts {
            variant(7, &sums.buffer("B5", "nan:loose"));
            variant(8, &sums.buffer("B6", "nan:loose"));
        }
    } else {
        variant(4, &w.buffer("B3", "nan:loose"));
        variant(6, &y.buffer("B4", "real"));
    }
    variant(9, "W0:u8:0..$w:scratch");
    variant(100, "l:$w");
    calls.push("FusedOpsExecute H0 P0 V0".to_owned());
}
