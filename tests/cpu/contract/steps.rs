//! The steps that the constructors build, run by the reference loop, against the definition of a
//! convolution; and that their canonical form has the same terms.

use cudnn::backend::reference;
use cudnn::dtype::Scalar;
use cudnn::layout::{Dims, Layout};
use cudnn::ops::contract::{Accumulate, Geometry, Role, Side, Terms};
use cudnn::ops::{Contract, Scaling};

use testkit::convolution::{Convolution, DIRECTIONS, Direction};
use testkit::random::Rng;
use testkit::tensor::{Tensor, each};

#[test]
fn convolutions_follow_the_definition_in_every_direction() {
    let mut rng = Rng(1);
    let (mut refused, mut done) = (0, 0);
    for case in 0..900 {
        let direction = DIRECTIONS[case % 3];
        let conv = Convolution::random(40_000, &mut rng);
        let [dst, a, b] = conv.tensors(direction, [Scalar::F32; 3], false, &mut rng);
        let beta = rng.pick(&[0.0, 0.0, 2.0]);
        let terms = Terms::scaled(Scaling { alpha: 1.0, beta });
        let Ok(steps) = conv.steps(direction, [&dst, &a, &b], Accumulate::Single, &terms) else {
            refused += 1;
            continue;
        };
        done += 1;
        let sums = conv.expected(direction, &a, &b);
        let (mut a, mut b) = (a, b);
        for canonical in [false, true] {
            let mut got = dst.clone();
            for step in &steps {
                let step = if canonical { step.canonical() } else { *step };
                // SAFETY: the memory of the tensors holds all their elements.
                unsafe { reference::contract(&step, &[got.base(), a.base(), b.base()]) };
            }
            let (mut want, mut next) = (dst.clone(), sums.iter());
            each(&dst.layout.dims, |index| {
                want.set(index, next.next().unwrap()[0] + beta * dst.get(index));
            });
            let line = steps.iter().map(Contract::to_string).collect::<Vec<_>>().join("\n");
            assert!(got.same_bytes(&want), "case {case}, {direction:?}, canonical: {canonical}\n{line}");
        }
    }
    assert!(refused < 60 && done > 800, "{refused} refused");
}

/// Gradients of the data where one output, or one row of them, has seen all pixels: no tap is
/// summed.
#[test]
fn a_window_as_large_as_the_image_is_a_product() {
    let mut rng = Rng(3);
    for case in 0..48 {
        let flip = case % 2 == 0;
        let stride = 1 + case / 2 % 3;
        let groups = [1, 2][case / 6 % 2];
        // The last ones have several outputs along the row.
        let columns = if case < 24 { 5 } else { 9 };
        let padding = Dims::new(&[rng.below(3) as i64, 0]);
        let (x, w) = (vec![3, 2 * groups, 4, columns], vec![3 * groups, 2, 6, 5]);
        let y = vec![3, 3 * groups, 1, (columns - 5) / stride as i64 + 1];
        let strides = Dims::new(&[stride as i64; 2]);
        let geometry = Geometry { padding, strides, dilation: Dims::new(&[1, 1]), groups, flip };
        let conv = Convolution { x, w, y, geometry };
        let [dst, mut a, mut b] = conv.tensors(Direction::Data, [Scalar::F32; 3], true, &mut rng);
        let terms = Terms::scaled(Scaling::MOVE);
        let steps = conv.steps(Direction::Data, [&dst, &a, &b], Accumulate::Single, &terms).unwrap();
        let (mut got, mut want, sums) = (dst.clone(), dst.clone(), conv.expected(Direction::Data, &a, &b));
        for step in &steps {
            assert!(case >= 24 || step.extent(Role::K) == 3 && step.bounds().is_empty(), "{step}");
            assert!(step.bounds().len() < 2, "{step}");
            // SAFETY: the memory of the tensors holds all their elements.
            unsafe { reference::contract(step, &[got.base(), a.base(), b.base()]) };
        }
        let mut next = sums.iter();
        each(&dst.layout.dims, |index| want.set(index, next.next().unwrap()[0]));
        assert!(got.same_bytes(&want), "case {case}: {}", steps[0]);
    }
}

#[test]
fn matrix_products_follow_the_definition() {
    let mut rng = Rng(2);
    for case in 0..300 {
        let [g, m, n, k] = [3, 20, 20, 30].map(|most| 1 + rng.below(most) as i64);
        let mut matrix = |rows: i64, columns: i64, repeats: bool| {
            let dims = [if repeats && rng.below(3) == 0 { 1 } else { g }, rows, columns];
            let order = if rng.below(2) == 0 { [0, 1, 2] } else { [0, 2, 1] };
            Tensor::packed(&dims, &order, Scalar::F64).fill(|| rng.below(9) as f64 - 4.0)
        };
        let (mut c, mut a, mut b) = (matrix(m, n, false), matrix(m, k, true), matrix(k, n, true));
        let terms = Terms::scaled(Scaling::MOVE);
        let step =
            Contract::matmul(c.side(), a.side(), b.side(), Accumulate::Double, &terms).unwrap().canonical();
        // SAFETY: the memory of the tensors holds all their elements.
        unsafe { reference::contract(&step, &[c.base(), a.base(), b.base()]) };
        each(&[g, m, n], |at| {
            let batch = |t: &Tensor| if t.layout.dims[0] == 1 { 0 } else { at[0] };
            let product = |i| a.get(&[batch(&a), at[1], i]) * b.get(&[batch(&b), i, at[2]]);
            let want: f64 = (0..k).map(product).sum();
            assert_eq!(c.get(at), want, "case {case}: {step}");
        });
    }
}

#[test]
fn dims_that_do_not_fit_are_refused() {
    let layout =
        |dims: [i64; 2]| Layout { dims: Dims::new(&dims), strides: Dims::new(&[dims[1], 1]), split: None };
    let [c, a, b] = [layout([4, 5]), layout([4, 3]), layout([2, 5])];
    let side = |layout| Side { layout, scalar: Scalar::F32 };
    let terms = Terms::scaled(Scaling::MOVE);
    let refused = Contract::matmul(side(&c), side(&a), side(&b), Accumulate::Single, &terms);
    assert!(refused.is_err_and(|error| error.to_string().contains("4x3")));
}
