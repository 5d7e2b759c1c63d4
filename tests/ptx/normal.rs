//! Launches of every kernel of dropout and normalisation.

use cudnn::backend::cuda::launch::Launch;
use cudnn::desc::normalization::{BatchNormMode, parameters};
use cudnn::desc::{ActivationDescriptor, ActivationMode, DropoutDescriptor, tensor::Format};
use cudnn::dtype::DataType;
use cudnn::mode::Mode;
use cudnn::ops::Scaling;
use cudnn::ops::batch_norm::{Backward, BackwardPlan, Forward, ForwardPlan, Fused, Parameters, Source};
use cudnn::ops::dropout::{DropoutPlan, Pass};

use crate::{collected, packed, place};

/// Each with the kernel that it must end in.
pub fn launches() -> Vec<(String, Launch)> {
    let mut list = Vec::new();
    let mut push = |kernels: &[&str], launches: Vec<Launch>| {
        assert_eq!(launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>(), kernels);
        list.extend(launches.into_iter().map(|launch| (launch.kernel.to_owned(), launch)));
    };
    let dims = [3, 4, 5, 6];
    let [x, last] = [Format::Nchw, Format::Nhwc].map(|format| packed(DataType::Half, format, &dims));
    let dropout = DropoutDescriptor::default();
    let at = [0x1000, 0x2000, 0x3000, 0x4000].map(place);
    for (src, forward, backward) in [
        (&x, &["random_run_of_f16", "random_advance"][..], "random_mask_of_f16"),
        (&last, &["random_draw", "random_apply_i32", "random_advance"], "random_apply_i32"),
    ] {
        let pass = Pass { src: ("xdesc", src), dst: ("ydesc", &x), reserve_size: 48, in_place: false };
        let plan = DropoutPlan::forward(&dropout, pass, Mode::Extended).unwrap();
        push(forward, collected(&plan, &at));
        let plan = DropoutPlan::backward(&dropout, pass, Mode::Extended).unwrap();
        push(&[backward], collected(&plan, &at[..3]));
    }
    // Off 16 bytes, and of other types, runs have the general kernel.
    let pass = Pass { src: ("xdesc", &x), dst: ("ydesc", &x), reserve_size: 48, in_place: false };
    let plan = DropoutPlan::forward(&dropout, pass, Mode::Extended).unwrap();
    let off = [0x1002, 0x2000, 0x3000, 0x4000].map(place);
    push(&["random_run", "random_advance"], collected(&plan, &off));
    let [x, last] = [Format::Nchw, Format::Nhwc].map(|format| packed(DataType::Double, format, &dims));
    let pass = Pass { src: ("xdesc", &x), dst: ("ydesc", &x), reserve_size: 48, in_place: false };
    let plan = DropoutPlan::forward(&dropout, pass, Mode::Extended).unwrap();
    push(&["random_run", "random_advance"], collected(&plan, &at));
    let pass = Pass { src: ("dydesc", &last), dst: ("dxdesc", &x), reserve_size: 48, in_place: false };
    let plan = DropoutPlan::backward(&dropout, pass, Mode::Extended).unwrap();
    push(&["random_apply_i64"], collected(&plan, &at[..3]));
    let at: [_; 12] = std::array::from_fn(|k| place(0x1000 * (k + 1)));
    for data_type in [DataType::Float, DataType::Double] {
        let suffix = if data_type == DataType::Float { "f32" } else { "f64" };
        for (of, mode) in [("", ActivationMode::Relu), ("_of", ActivationMode::Tanh)] {
            let fused = Fused {
                adds: false,
                activation: ActivationDescriptor { mode, ..ActivationDescriptor::default() },
            };
            for (dims, workspace_size) in [(dims, 0), ([2, 4, 100, 100], 1 << 20)] {
                let (forward, backward) = passes(data_type, &dims, fused, workspace_size);
                let own = |names: &[&str], launches: Vec<Launch>, list: &mut Vec<_>| {
                    let names: Vec<_> = names.iter().map(|name| name.replace("OF", of) + suffix).collect();
                    assert_eq!(launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>(), names);
                    list.extend(names.into_iter().zip(launches));
                };
                let [given, batch] = forward.map(|plan| collected(&plan, &at[..11]));
                // Planes of 10,000 elements are vectors.
                let is_run = workspace_size > 0 && of.is_empty() && data_type == DataType::Float;
                own(&[if is_run { "normalise_run_" } else { "normalise_givenOF_" }], given, &mut list);
                let back = backward.map(|plan| collected(&plan, &at));
                let [saved, alone] = back;
                if workspace_size == 0 {
                    own(&["normalise_batchOF_"], batch, &mut list);
                    own(&["normalise_backwardOF_"], saved, &mut list);
                    own(&["normalise_backwardOF_"], alone, &mut list);
                    continue;
                }
                let moments = ["normalise_part_", "normalise_join_"];
                let gradients = ["normalise_part_backOF_", "normalise_join_", "normalise_apply_backOF_"];
                own(&[&moments[..], &["normalise_applyOF_"]].concat(), batch, &mut list);
                own(&gradients, saved, &mut list);
                own(&[&moments[..], &gradients].concat(), alone, &mut list);
            }
        }
    }
    for (data_type, kernel) in
        [(DataType::Half, "normalise_run_f16"), (DataType::Bfloat16, "normalise_run_bf16")]
    {
        let activation =
            ActivationDescriptor { mode: ActivationMode::Relu, ..ActivationDescriptor::default() };
        let fused = Fused { adds: false, activation };
        let ([given, _], _) = passes(data_type, &[2, 8, 4, 4], fused, 0);
        list.extend(collected(&given, &at[..11]).into_iter().map(|launch| (kernel.to_owned(), launch)));
    }
    for data_type in [DataType::Float, DataType::Half, DataType::Bfloat16] {
        for format in [Format::Nchw, Format::Nhwc] {
            for (backward, saved, count) in [(false, true, 3), (true, true, 3), (true, false, 5)] {
                let launches = cut(data_type, format, (backward, saved), false);
                assert_eq!(launches.len(), count, "{data_type:?} {format:?}");
                list.extend(launches.into_iter().map(|launch| (launch.kernel.to_owned(), launch)));
            }
        }
    }
    list
}

/// The launches of a normalisation without a workspace and an activation, of groups that are cut;
/// x may be where the result goes.
fn cut(data_type: DataType, format: Format, (backward, saved): (bool, bool), in_place: bool) -> Vec<Launch> {
    let x = packed(data_type, format, &[2, 3, 90, 100]);
    let group = parameters(&x, false, Mode::Extended).unwrap();
    let parameters = Parameters { name: "s", tensor: &group };
    let mut at: [_; 12] = std::array::from_fn(|k| place((k + 1) << 24));
    let names = [""; 6];
    if backward {
        let call = Backward {
            mode: BatchNormMode::Spatial,
            x: &x,
            dy: &x,
            dx: &x,
            dz: None,
            parameters,
            saved: [saved; 2],
            bias: true,
            epsilon: 1e-5,
            scaling: Scaling::MOVE,
            parameter_scaling: Scaling::MOVE,
            fused: None,
            reserve_size: 0,
            workspace_size: 0,
            names,
        };
        at[5] = if in_place { at[0] } else { at[5] };
        return collected(&BackwardPlan::new(call, Mode::Extended).unwrap(), &at);
    }
    let call = Forward {
        mode: BatchNormMode::Spatial,
        x: &x,
        y: &x,
        z: None,
        parameters,
        source: Source::Batch { factor: 0.1, running: [true; 2], saved: [true; 2] },
        epsilon: 1e-5,
        scaling: Scaling::MOVE,
        fused: None,
        reserve_size: 0,
        workspace_size: 0,
        names,
    };
    at[6] = if in_place { at[0] } else { at[6] };
    collected(&ForwardPlan::new(call, Mode::Extended).unwrap(), &at[..11])
}

/// A result that is where x or dy are has no room: the sums of parts would be written over them.
#[test]
fn operands_are_not_written_over_by_sums() {
    for (backward, kernel) in [(false, "normalise_batch_f32"), (true, "normalise_backward_f32")] {
        let names = cut(DataType::Float, Format::Nchw, (backward, true), true);
        assert_eq!(names.iter().map(|launch| launch.kernel).collect::<Vec<_>>(), [kernel]);
    }
}

/// With given statistics and with those of the batch; with saved ones and without.
fn passes(
    data_type: DataType, dims: &[i64], fused: Fused, workspace_size: usize,
) -> ([ForwardPlan; 2], [BackwardPlan; 2]) {
    let x = packed(data_type, Format::Nchw, dims);
    let group = parameters(&x, false, Mode::Extended).unwrap();
    let parameters = Parameters { name: "s", tensor: &group };
    let training = Source::Batch { factor: 0.1, running: [true; 2], saved: [true; 2] };
    let forward = [Source::Given, training].map(|source| {
        let call = Forward {
            mode: BatchNormMode::Spatial,
            x: &x,
            y: &x,
            z: None,
            parameters,
            source,
            epsilon: 1e-5,
            scaling: Scaling::MOVE,
            fused: Some(fused),
            reserve_size: usize::MAX,
            workspace_size,
            names: [""; 6],
        };
        ForwardPlan::new(call, Mode::Extended).unwrap()
    });
    let backward = [true, false].map(|saved| {
        let call = Backward {
            mode: BatchNormMode::Spatial,
            x: &x,
            dy: &x,
            dx: &x,
            dz: None,
            parameters,
            saved: [saved; 2],
            bias: true,
            epsilon: 1e-5,
            scaling: Scaling::MOVE,
            parameter_scaling: Scaling::MOVE,
            fused: Some(fused),
            reserve_size: usize::MAX,
            workspace_size,
            names: [""; 6],
        };
        BackwardPlan::new(call, Mode::Extended).unwrap()
    });
    (forward, backward)
}
