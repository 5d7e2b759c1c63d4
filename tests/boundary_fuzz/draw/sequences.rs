//! CTC losses and causal convolutions.

use cudnn::dtype::Scalar;

use super::{Tensor, code, integers, scale_to};
use testkit::random::Rng;

pub fn lose(rng: &mut Rng, calls: &mut Vec<String>) {
    let of = rng.pick(&[Scalar::F32, Scalar::F64]);
    let most = scale_to(rng, &[600, 4_000, 40_000]);
    let (mut steps, mut batch) = (1 + rng.below(40) as i64, 1 + rng.below(9) as i64);
    let mut classes = rng.pick(&[2, 3, 4, 5, 8, 9, 16, 17, 28, 33]);
    while steps * batch * classes > most {
        match rng.below(3) {
            0 => steps = (steps / 2).max(1),
            1 => batch = (batch / 2).max(1),
            _ => classes = (classes / 2).max(2),
        }
    }
    let longest = rng.below(steps as usize + 2);
    let lengths: Vec<i64> = (0..batch).map(|_| rng.below(longest + 1) as i64).collect();
    let inputs: Vec<i64> = (0..batch).map(|_| rng.below(steps as usize) as i64 + 1).collect();
    let labels: Vec<i64> =
        (0..lengths.iter().sum::<i64>()).map(|_| 1 + rng.below(classes as usize - 1) as i64).collect();
    // There is something to point to.
    let labels = if labels.is_empty() { vec![1] } else { labels };
    let tensor = |rng: &mut Rng, is_read| Tensor::draw(rng, of, &[steps, batch, classes], is_read);
    let (probs, gradients) = (tensor(rng, true), tensor(rng, false));
    probs.describe("T0", calls);
    gradients.describe("T1", calls);
    let softmax = rng.below(2);
    // Probabilities are above 0, what is in front of a softmax is anything.
    let content = if softmax == 1 { "real" } else { "positive" };
    calls.push("CreateCTCLossDescriptor Z0".to_owned());
    calls.push(format!(
        "SetCTCLossDescriptor_v9 Z0 {} {softmax} {} {}",
        code(of),
        rng.below(2),
        longest.max(lengths.iter().copied().max().unwrap_or(0) as usize)
    ));
    let (x, dx) = (probs.buffer("B0", content), gradients.buffer("B1", "nan"));
    let costs = Tensor::packed(of, &[batch]).buffer("B2", "nan");
    let (labels, lengths_of, inputs_of) =
        (integers("L0", &labels), integers("L1", &lengths), integers("L2", &inputs));
    let algorithm = rng.below(2);
    if rng.below(2) == 0 {
        // The size of the longest labels and inputs serves shorter ones.
        let full = |name: &str, most: i64| integers(name, &vec![most; batch as usize]);
        let (most_labels, most_inputs) = match rng.below(2) {
            0 => (full("L3", lengths.iter().copied().max().unwrap_or(0)), full("L4", steps)),
            _ => (lengths_of.clone(), inputs_of.clone()),
        };
        calls.push(format!(
            "GetCTCLossWorkspaceSize H0 T0 T1 {labels} {most_labels} {most_inputs} {algorithm} Z0 @=w"
        ));
        calls.push(format!(
            "CTCLoss H0 T0 {x} {labels} {lengths_of} {inputs_of} {costs} T1 {dx} {algorithm} Z0 W0:u8:0..$w:scratch $w"
        ));
    } else {
        calls.push(format!("GetCTCLossWorkspaceSize_v8 H0 {algorithm} Z0 T0 T1 @=w"));
        calls.push(format!(
            "CTCLoss_v8 H0 {algorithm} Z0 T0 {x} {labels} {lengths_of} {inputs_of} {costs} T1 {dx} $w W0:u8:0..$w:scratch"
        ));
    }
}

/// A batch of sequences that are convolved.
struct Causal {
    of: Scalar,
    batch: i64,
    dim: i64,
    length: i64,
    taps: i64,
}

impl Causal {
    fn draw(rng: &mut Rng, taps: &[i64]) -> Causal {
        let of = rng.pick(&[Scalar::F32, Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16]);
        let mut this = Causal {
            of,
            batch: 1 + rng.below(4) as i64,
            dim: rng.pick(&[1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64]),
            length: rng.pick(&[1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129, 600]),
            taps: rng.pick(taps),
        };
        let most = scale_to(rng, &[20_000, 100_000, 600_000]);
        while this.batch * this.dim * this.length * this.taps > most {
            match rng.below(4) {
                0 => this.batch = (this.batch / 2).max(1),
                1 => this.dim = (this.dim / 2).max(1),
                2 => this.length = (this.length / 2).max(1),
                _ => this.taps = (this.taps / 2).max(1),
            }
        }
        this
    }

    fn of_type(&self, scalar: Scalar, name: &str, extents: &[i64], content: &str) -> String {
        Tensor::packed(scalar, extents).buffer(name, content)
    }

    fn buffer(&self, name: &str, extents: &[i64], content: &str) -> String {
        self.of_type(self.of, name, extents, content)
    }

    /// A sequence for each channel.
    fn sequences(&self, name: &str, factor: i64, content: &str) -> String {
        self.buffer(name, &[self.batch, factor * self.dim, self.length], content)
    }

    fn sizes(&self) -> String {
        format!("{} {} {}", self.batch, self.dim, self.length)
    }
}

/// Forms that promise the same bits at every level of instructions.
pub fn convolve(rng: &mut Rng, calls: &mut Vec<String>) {
    if rng.below(3) == 0 {
        return transform(rng, calls);
    }
    let this = Causal::draw(rng, &[1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 128]);
    let (of, sizes, silu) = (code(this.of), this.sizes(), rng.below(2));
    let wide = if this.of == Scalar::F64 { Scalar::F64 } else { Scalar::F32 };
    let sums = wide;
    let before = if rng.below(2) == 0 { "real" } else { "whole" };
    let (dim, taps) = (this.dim, this.taps);
    if rng.below(3) == 0 {
        let projection = rng.pick(&[1, 2, 3, 4, 8]);
        let (x, dx) = (this.sequences("B0", 3, "real"), this.sequences("B1", 3, "nan:loose"));
        let (y, gated) = (this.sequences("B2", 3, "nan:loose"), this.sequences("B3", 1, "nan:loose"));
        let (first, mixer) =
            (this.buffer("B4", &[3 * dim, projection], "real"), this.buffer("B5", &[dim, taps], "real"));
        let skip = this.buffer("B6", &[dim], "real");
        let dy = this.sequences("B7", 1, "real");
        calls.push(format!(
            "B2BCausalConv1dForward NULL {x} {first} {mixer} {skip} {y} {gated} {sizes} {projection} {taps} {of}"
        ));
        let of_sums =
            |name: &str, extents: &[i64]| this.of_type(sums, name, extents, &format!("{before}:loose"));
        let (dfirst, dmixer, dskip) =
            (of_sums("B8", &[3 * dim, projection]), of_sums("B9", &[dim, taps]), of_sums("BA", &[dim]));
        calls.push(format!(
            "B2BCausalConv1dBackward NULL B0 B4 B5 B6 B2 {dy} {dx} {dfirst} {dmixer} {dskip} {sizes} {projection} {taps} {of} {}",
            code(sums)
        ));
        return;
    }
    let name = rng.pick(&["CausalConv1d", "CausalConv1dNwh"]);
    let (x, y) = (this.sequences("B0", 1, "real"), this.sequences("B1", 1, "nan:loose"));
    let (w, b) = (this.buffer("B2", &[dim, taps], "real"), this.buffer("B3", &[dim], "real"));
    calls.push(format!("{name}Forward NULL {x} {w} {b} {y} {sizes} {taps} {of} {silu}"));
    let (dy, dx) = (this.sequences("B4", 1, "real"), this.sequences("B5", 1, "nan:loose"));
    let of_sums = |name: &str, extents: &[i64]| this.of_type(sums, name, extents, &format!("{before}:loose"));
    let (dw, db) = (of_sums("B6", &[dim, taps]), of_sums("B7", &[dim]));
    calls.push(format!(
        "{name}Backward NULL B0 B2 B3 {dy} {dx} {dw} {db} {sizes} {taps} {of} {} {silu}",
        code(sums)
    ));
}

/// The Fourier forms.
fn transform(rng: &mut Rng, calls: &mut Vec<String>) {
    let this = Causal::draw(rng, &[1, 3, 16, 100, 511, 512, 513, 600, 1024]);
    let (of, sizes, taps) = (code(this.of), this.sizes(), this.taps);
    let (x, y) = (this.sequences("B0", 1, "real"), this.sequences("B1", 1, "nan:loose"));
    let w = this.buffer("B2", &[this.dim, taps], "real");
    let (dy, dx) = (this.sequences("B4", 1, "real"), this.sequences("B5", 1, "nan:loose"));
    let dw = this.buffer("B6", &[this.dim, taps], "nan:loose");
    if rng.below(2) == 0 {
        calls.push(format!("FFTCausalConv1dForward NULL {x} {w} {y} {sizes} {taps} {of}"));
        calls.push(format!("FFTCausalConv1dBackward NULL B0 B2 {dy} {dx} {dw} {sizes} {taps} {of}"));
    } else {
        let memory = "W0:u8:0..$w:scratch $w W1:u8:0..$r:scratch $r";
        calls.push(format!("LongFFTCausalConv1dGetBufferSizes {sizes} {taps} {of} @=w @=r"));
        calls.push(format!("LongFFTCausalConv1dForward NULL {x} {w} {y} {sizes} {taps} {of} {memory}"));
        calls.push(format!("LongFFTCausalConv1dBackward NULL {dy} {dx} {dw} {sizes} {taps} {of} {memory}"));
    }
}
