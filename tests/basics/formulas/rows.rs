//! Every function of rows.

use cudnn::backend::reference;
use cudnn::layout::LoopNest;
use cudnn::ops::{RowFunction, Rows, Scaling};

use super::plain::{Plain, is_near, line, long_sum};
use testkit::random::Rng;

fn functions_of_rows_are_what_they_mean<T: Plain>() {
    const FUNCTIONS: [RowFunction; 4] = [
        RowFunction::Softmax,
        RowFunction::LogSoftmax,
        RowFunction::SoftmaxGradient,
        RowFunction::LogSoftmaxGradient,
    ];
    let mut rng = Rng(33);
    let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, T::TINY, -T::TINY, -90.0, -750.0];
    for case in 0..2000 {
        let function = FUNCTIONS[case % FUNCTIONS.len()];
        let count = rng.pick(&[1, 2, 3, 7, 33, 1025]);
        let mut draw = |by: f64, rare: bool| -> Vec<T> {
            let mut x: Vec<T> = (0..count).map(|_| T::of((rng.below(4001) as f64 - 2000.0) / by)).collect();
            if rare {
                (0..1 + rng.below(2)).for_each(|_| x[rng.below(count)] = T::of(rng.pick(&special)));
            }
            x
        };
        let rare = case / FUNCTIONS.len() % 2 == 1;
        // Gradients are of probabilities and of their logarithms.
        let by = if function == RowFunction::LogSoftmaxGradient { 900.0 } else { 150.0 };
        let (x, dy) = (draw(by, rare), draw(700.0, rare));
        let rows = Rows {
            groups: LoopNest::new(&[], [0; 3]),
            elements: line(count),
            scalars: [T::SCALAR; 3],
            compute: T::COMPUTE,
            function,
            scaling: Scaling::MOVE,
        };
        let mut got = vec![T::of(7.0); count];
        let at = [got.as_mut_ptr().cast(), x.as_ptr().cast_mut().cast(), dy.as_ptr().cast_mut().cast()];
        // SAFETY: every operand has as many elements as the group.
        unsafe { reference::rows(&rows, at) };
        let peak = x.iter().map(|x| x.wide()).fold(f64::NEG_INFINITY, f64::max);
        let peak = if x.iter().any(|x| x.is_missing()) { f64::NAN } else { peak };
        // A difference is rounded as it is taken, which is what an exponential makes of it; one
        // beyond the range is infinite.
        let below = |i: usize| (x[i] - T::of(peak)).wide();
        let term = |i: usize| match function {
            RowFunction::Softmax | RowFunction::LogSoftmax => below(i).exp(),
            RowFunction::SoftmaxGradient => x[i].wide() * dy[i].wide(),
            RowFunction::LogSoftmaxGradient => dy[i].wide(),
        };
        let finite = |x: f64| if x.is_finite() { x.abs() } else { 0.0 };
        let sum = long_sum((0..count).map(term));
        let terms = long_sum((0..count).map(|i| term(i).abs()));
        let gradients = long_sum(dy.iter().map(|dy| finite(dy.wide())));
        let depth = (40.0 + (count as f64).log2()) * T::EPSILON;
        for i in 0..count {
            let (xi, dyi) = (x[i].wide(), dy[i].wide());
            let (want, size) = match function {
                RowFunction::Softmax => (below(i).exp() / sum, below(i).exp() / sum),
                RowFunction::LogSoftmax => (below(i) - sum.ln(), below(i).abs() + sum.ln().abs() + 1.0),
                RowFunction::SoftmaxGradient => (xi * (dyi - sum), xi.abs() * (dyi.abs() + terms)),
                RowFunction::LogSoftmaxGradient => (dyi - xi.exp() * sum, dyi.abs() + xi.exp() * terms),
            };
            // What vanishes on the way is lost to all that it meets.
            let met = (1.0 + count as f64) * (1.0 + finite(xi) + gradients);
            let off = depth * size + 4.0 * T::TINY * met;
            let near = is_near(got[i], T::of(want), off);
            assert!(
                near,
                "case {case}, {function:?} of {xi}, {dyi} among {count}: {:?} instead of {want:e}",
                got[i]
            );
        }
    }
}

#[test]
fn functions_of_rows_are_what_they_mean_in_both_types() {
    functions_of_rows_are_what_they_mean::<f32>();
    functions_of_rows_are_what_they_mean::<f64>();
}
