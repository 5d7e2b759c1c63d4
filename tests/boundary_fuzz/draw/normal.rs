//! A step of training of batch normalisation, with what follows it and the memory that goes from
//! forward to backward.

use cudnn::dtype::Scalar;

use super::{FLOATS, Tensor, extents, factor, most};
use testkit::random::Rng;

/// The two generations of the calls.
#[derive(Clone, Copy, PartialEq)]
enum Door {
    BatchNormalization,
    Normalization,
}

pub fn train(rng: &mut Rng, calls: &mut Vec<String>) {
    let (rank, most) = (rng.pick(&[4, 4, 5]), most(rng));
    let dims = extents(rng, rank, most);
    let of = rng.pick(&FLOATS);
    let order: Vec<usize> = match rng.below(2) {
        0 => (0..rank).collect(),
        _ => [0].into_iter().chain(2..rank).chain([1]).collect(),
    };
    let x = Tensor::ordered(of, &dims, &order, &vec![0; rank]);
    ["T0", "T1", "T2"].iter().for_each(|register| x.describe(register, calls));
    let door = rng.pick(&[Door::BatchNormalization, Door::Normalization]);
    // Groups of an activation each, or of a channel, where a persistent form counts as another mode
    // or as another algorithm.
    let (mode, algorithm) = (rng.below(if door == Door::BatchNormalization { 3 } else { 2 }), rng.below(2));
    let mut group = dims.clone();
    group[0] = 1;
    if mode > 0 {
        group[2..].fill(1);
    }
    let wide = if of == Scalar::F64 { Scalar::F64 } else { Scalar::F32 };
    let parameters = Tensor::packed(wide, &group);
    parameters.describe("T4", calls);
    calls.push("CreateActivationDescriptor A0".to_owned());
    calls.push("SetActivationDescriptor A0 1 0 1.0".to_owned());
    let ops = rng.below(3);
    let (added, z, dz) = match ops {
        2 => ("T2", x.buffer("B8", "real"), x.buffer("B9", "nan:loose")),
        _ => ("NULL", "NULL".to_owned(), "NULL".to_owned()),
    };
    // A gradient jumps where an activation is near 0, which halves often are.
    let gradient = if ops > 0 { "nan:loose" } else { "nan:near" };
    let (from, to) = (x.buffer("B0", "real"), x.buffer("B1", "nan:near"));
    let (dy, dx) = (x.buffer("B2", "real"), x.buffer("B3", gradient));
    let parameter = |name: &str, content: &str| parameters.buffer(name, content);
    let (scale, bias) = (parameter("P0", "real"), parameter("P1", "real"));
    let (mean, variance) = (parameter("P2", "real:near"), parameter("P3", "positive:near"));
    let saved = match rng.below(3) {
        0 => "NULL NULL".to_owned(),
        _ => format!("{} {}", parameter("P4", "nan:near"), parameter("P5", "nan:near")),
    };
    let (dscale, dbias) = (parameter("P6", gradient), parameter("P7", gradient));
    let (one, none) = (factor(of, 1.0), factor(of, 0.0));
    let memory = |turn: usize| format!("W{turn}:u8:0..$w:scratch $w R0:u8:0..$r:scratch $r");
    let kept = if saved.starts_with('N') { "NULL NULL" } else { "P4 P5" };
    match door {
        Door::BatchNormalization => {
            let how = format!("H0 {mode} {ops}");
            calls.push(format!(
                "GetBatchNormalizationForwardTrainingExWorkspaceSize {how} T0 {added} T1 T4 A0 @=w"
            ));
            calls.push(format!("GetBatchNormalizationTrainingExReserveSpaceSize {how} A0 T0 @=r"));
            calls.push(format!(
                "BatchNormalizationForwardTrainingEx {how} {one} {none} T0 {from} {added} {z} T1 {to} T4 {scale} {bias} 0.25 {mean} \
                 {variance} 0.001 {saved} A0 {}",
                memory(0)
            ));
            calls.push(format!(
                "GetBatchNormalizationBackwardExWorkspaceSize {how} T0 T1 T1 {added} T0 T4 A0 @=w"
            ));
            calls.push(format!(
                "BatchNormalizationBackwardEx {how} {one} {none} {one} {none} T0 B0 T1 B1 T1 {dy} {added} {dz} T0 {dx} T4 P0 P1 \
                 {dscale} {dbias} 0.001 {kept} A0 {}",
                memory(1)
            ));
        }
        Door::Normalization => {
            let how = format!("H0 {mode} {ops} {algorithm}");
            calls.push(format!(
                "GetNormalizationForwardTrainingWorkspaceSize {how} T0 {added} T1 T4 A0 T4 @=w 1"
            ));
            calls.push(format!("GetNormalizationTrainingReserveSpaceSize {how} A0 T0 @=r 1"));
            calls.push(format!(
                "NormalizationForwardTraining {how} {one} {none} T0 {from} T4 {scale} {bias} 0.25 T4 {mean} {variance} 0.001 {saved} \
                 A0 {added} {z} T1 {to} {} 1",
                memory(0)
            ));
            calls.push(format!(
                "GetNormalizationBackwardWorkspaceSize {how} T0 T1 T1 {added} T0 T4 A0 T4 @=w 1"
            ));
            calls.push(format!(
                "NormalizationBackward {how} {one} {none} {one} {none} T0 B0 T1 B1 T1 {dy} {added} {dz} T0 {dx} T4 P0 P1 {dscale} \
                 {dbias} 0.001 T4 {kept} A0 {} 1",
                memory(1)
            ));
        }
    }
}
