//! Results that are written past the caches, while what comes next is asked for; and rows of more
//! groups than a tile has.

use cudnn::backend::{self, Address, Isa, Machine};
use cudnn::desc::normalization::parameters;
use cudnn::desc::{Format, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::mode::Mode;
use cudnn::ops::Plan;
use cudnn::ops::batch_norm::{BackwardPlan, ForwardPlan, Source};

use super::tensors::Memory;
use super::{machines, plain_backward, run};
use testkit::normal::plain_forward;
use testkit::random::Rng;

/// Every machine leaves what the reference leaves.
pub fn check(plan: &dyn Plan, first: &[Memory]) {
    let mut want = first.to_vec();
    run(plan, &mut want, None);
    for machine in machines().filter(|machine| machine.threads > 1) {
        let mut got = first.to_vec();
        run(plan, &mut got, Some(machine));
        for (k, (got, want)) in got.iter().zip(&want).enumerate() {
            assert!(got == want, "operand {k} of {plan} on {machine:?}");
        }
    }
}

/// Both directions, with statistics given and taken.
fn check_all(x: &TensorDescriptor, rng: &mut Rng) {
    let s = parameters(x, false, Mode::Extended).unwrap();
    let data = [0.0, 0.5].map(|far| Memory::new(rng, x, far));
    let numbers = Memory::new(rng, &s, 2.5);
    let result = Memory::poisoned(x);
    let batch = Source::Batch { factor: 1.0, running: [false; 2], saved: [true; 2] };
    for source in [Source::Given, batch] {
        let plan = ForwardPlan::new(plain_forward(x, &s, source), Mode::Extended).unwrap();
        let n = || numbers.clone();
        check(&plan, &[result.clone(), n(), n(), n(), n(), n(), data[0].clone(), n(), n(), n()]);
    }
    let plan = BackwardPlan::new(plain_backward(x, &s), Mode::Extended).unwrap();
    let [x, dy] = data;
    let n = || numbers.clone();
    check(&plan, &[result, n(), n(), n(), x, dy, n(), n(), n(), n(), n()]);
}

#[test]
fn results_beyond_the_caches_are_those_of_the_reference() {
    let mut rng = Rng(9);
    for (data_type, format, dims) in
        [(DataType::Float, Format::Nchw, [2, 5, 700, 601]), (DataType::Half, Format::Nhwc, [4, 300, 81, 87])]
    {
        let x = TensorDescriptor::with_format(data_type, format, 4, &dims, Mode::Extended).unwrap();
        assert!(x.size_in_bytes() >= 16 << 20);
        check_all(&x, &mut rng);
    }
}

#[test]
fn results_of_many_channels_are_those_of_the_reference() {
    let mut rng = Rng(10);
    for (case, data_type) in [DataType::Half, DataType::Float, DataType::Bfloat16].into_iter().enumerate() {
        // As many as a tile has at most, one more, and two tiles' worth.
        for channels in [1024, 1025, 1500, 2048] {
            // In one image rows follow one another; else they may have gaps.
            let (images, gap) = ([1, 2, 3][case], [0, 3][channels as usize % 2]);
            let (dims, pitch) = ([images, channels, 31, 19], channels + gap);
            let strides = [31 * 19 * pitch, 1, 19 * pitch, pitch];
            let x = TensorDescriptor::with_strides(data_type, 4, &dims, &strides, Mode::Extended).unwrap();
            check_all(&x, &mut rng);
        }
    }
}

#[test]
fn numbers_of_all_groups_are_asked_for_before_a_plan_runs() {
    // Of no memory at all: nothing is read, and nothing written.
    let at = [Address::NULL; 11];
    let machine = Machine { isa: Isa::best(), threads: 8 };
    let of_steps = |plan: &dyn Plan| {
        let mut most = 0;
        plan.steps(&mut |step, slots| {
            // SAFETY: the addresses are looked at, and not what is there.
            most = most.max(unsafe { backend::scratch(step, &at[..slots.len()], machine) }?);
            Ok(())
        })
        .expect("steps");
        most
    };
    for (channels, is_more) in [(64, false), (300_000, true)] {
        let dims = [1024, channels, 4, 4];
        let x =
            TensorDescriptor::with_format(DataType::Float, Format::Nhwc, 4, &dims, Mode::Extended).unwrap();
        let s = parameters(&x, false, Mode::Extended).unwrap();
        let source = Source::Batch { factor: 1.0, running: [false; 2], saved: [true; 2] };
        let forward = ForwardPlan::new(plain_forward(&x, &s, source), Mode::Extended).unwrap();
        let backward = BackwardPlan::new(plain_backward(&x, &s), Mode::Extended).unwrap();
        for plan in [&forward as &dyn Plan, &backward] {
            // Mean, slope and offset at least; a hold of any size has room for what few groups
            // take.
            let least = if is_more { 3 * 4 * channels as usize } else { 0 };
            let asked = of_steps(plan);
            assert!(asked >= least && (asked > 0) == is_more, "{asked} bytes for {plan}");
        }
    }
}
