//! Many small groups, one behind the other, of numbers that sums could lose: nothing but -0,
//! infinities and NaN.

use cudnn::desc::normalization::parameters;
use cudnn::desc::{Format, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::mode::Mode;
use cudnn::ops::Scaling;
use cudnn::ops::batch_norm::{Backward, BackwardPlan, Forward, ForwardPlan, Source};

use super::large::check;
use super::plain_backward;
use super::tensors::Memory;
use testkit::normal::plain_forward;
use testkit::random::Rng;

/// Groups of which the first ones are -0, others have numbers that are none, and the rest usual
/// ones.
fn unusual(rng: &mut Rng, tensor: &TensorDescriptor, groups: i64, each: i64) -> Memory {
    let mut memory = Memory::new(rng, tensor, 0.5);
    for i in 0..groups * each {
        match i / each % 4 {
            0 => memory.set(i, -0.0),
            1 if i % 5 == 0 => memory.set(i, rng.pick(&[f64::INFINITY, f64::NAN, -0.0])),
            _ => {}
        }
    }
    memory
}

#[test]
fn sums_of_small_groups_are_those_of_the_reference_whatever_the_numbers() {
    let mut rng = Rng(11);
    for data_type in [DataType::Float, DataType::Double, DataType::Half] {
        for (each, groups) in [1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 32, 33]
            .into_iter()
            // Of several tiles, of which the smallest groups have a thousand each and less, and of
            // one.
            .flat_map(|each| [(each, 1200 / each + 7), (each, 9)])
        {
            let dims = [1, groups, each, 1];
            let x = TensorDescriptor::with_format(data_type, Format::Nchw, 4, &dims, Mode::Extended).unwrap();
            let s = parameters(&x, false, Mode::Extended).unwrap();
            let [data, dy] = [0, 1].map(|_| unusual(&mut rng, &x, groups, each));
            let numbers = Memory::new(&mut rng, &s, 2.5);
            let (n, result) = (|| numbers.clone(), Memory::poisoned(&x));
            let source =
                Source::Batch { factor: 0.5, running: [true; 2], saved: [rng.pick(&[false, true]); 2] };
            let forward = Forward { epsilon: 1e-3, ..plain_forward(&x, &s, source) };
            let plan = ForwardPlan::new(forward, Mode::Extended).unwrap();
            check(&plan, &[result.clone(), n(), n(), n(), n(), n(), data.clone(), n(), n(), n()]);
            for saved in [false, true] {
                let parameter_scaling = Scaling { alpha: 2.0, beta: rng.pick(&[0.0, 0.5]) };
                let backward = Backward {
                    saved: [saved; 2],
                    epsilon: 1e-3,
                    parameter_scaling,
                    ..plain_backward(&x, &s)
                };
                let plan = BackwardPlan::new(backward, Mode::Extended).unwrap();
                let result = result.clone();
                check(&plan, &[result, n(), n(), n(), data.clone(), dy.clone(), n(), n(), n(), n(), n()]);
            }
        }
    }
}
