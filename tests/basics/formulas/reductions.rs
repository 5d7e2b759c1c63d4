//! Every reduction, and what it selects.

use cudnn::backend::reference;
use cudnn::layout::LoopNest;
use cudnn::ops::{Indices, NanRule, Reduce, Reduction, Scaling, Sequence};

use super::plain::{Plain, is_less, is_more, is_near, line, long_sum};
use testkit::every_reduction::REDUCTIONS;
use testkit::random::Rng;

/// What a reduction is, how far a result may be off, and the index of what it selects.
fn reduced<T: Plain>(reduction: Reduction, x: &[T]) -> (T, f64, i64) {
    let numbers = || x.iter().map(|x| x.wide());
    let count = x.len() as f64;
    // Roundings of the tree, and one of the end.
    let depth = (28.0 + count.log2()) * T::EPSILON;
    let finite = |terms: &dyn Fn(f64) -> f64| -> f64 {
        numbers().map(|x| terms(x).abs()).filter(|x| x.is_finite()).sum()
    };
    let select = |size: &dyn Fn(T) -> T, ahead: fn(T, T) -> bool, rule: NanRule| {
        let mut best = (size(x[0]), 0);
        for (i, &next) in x.iter().enumerate().skip(1) {
            let next = size(next);
            let wins = match (best.0.is_missing(), next.is_missing()) {
                (true, false) => rule == NanRule::Ignore,
                (false, true) => rule == NanRule::Propagate,
                (true, true) => false,
                _ => ahead(next, best.0),
            };
            if wins {
                best = (next, i as i64);
            }
        }
        // Zeros of either sign are found as equals.
        let first = x.iter().position(|&x| size(x) == best.0).map_or(best.1, |first| first as i64);
        (best.0, 0.0, first)
    };
    let (value, off) = match reduction {
        Reduction::Min(rule) => return select(&|x| x, is_less, rule),
        Reduction::Max(rule) => return select(&|x| x, is_more, rule),
        Reduction::Amax(rule) => return select(&|x| if x.is_negative() { -x } else { x }, is_more, rule),
        Reduction::Add => (long_sum(numbers()), depth * finite(&|x| x)),
        Reduction::Avg => (long_sum(numbers()) / count, depth * finite(&|x| x) / count),
        Reduction::Norm1 => (long_sum(numbers().map(f64::abs)), depth * finite(&|x| x)),
        Reduction::Norm2 => {
            let root = long_sum(numbers().map(|x| x * x)).sqrt();
            // Squares vanish below the root of the least number.
            (root, depth * root + (T::TINY * count).sqrt())
        }
        Reduction::Mul | Reduction::MulNoZeros => {
            let skips = reduction == Reduction::MulNoZeros;
            let product: f64 = numbers().map(|x| if skips && x == 0.0 { 1.0 } else { x }).product();
            (product, 2.0 * count * T::EPSILON * product.abs())
        }
    };
    (T::of(value), off + T::TINY * count, 0)
}

fn reductions_are_what_they_mean<T: Plain>() {
    let mut rng = Rng(32);
    let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, T::TINY, -T::TINY];
    for case in 0..3000 {
        let count = rng.pick(&[1, 2, 3, 31, 32, 33, 64, 1000, 1024, 1025, 2049, 5000]);
        let mut x: Vec<T> = (0..count).map(|_| T::of((rng.below(4001) as f64 - 2000.0) / 700.0)).collect();
        let reduction = REDUCTIONS[case % REDUCTIONS.len()];
        let is_product = matches!(reduction, Reduction::Mul | Reduction::MulNoZeros);
        if is_product {
            // Products that neither overflow nor vanish.
            x.iter_mut().for_each(|x| *x = T::of(rng.pick(&[1.0, -1.0, 1.0 + 1e-4, 1.0 - 1e-4])));
        }
        match case / REDUCTIONS.len() % 4 {
            0 => {}
            1 => {
                // Whether a product vanishes before it meets an infinity is a matter of its order.
                let few = if is_product { &special[..5] } else { &special[..] };
                (0..1 + rng.below(3)).for_each(|_| x[rng.below(count)] = T::of(rng.pick(few)));
            }
            2 => x.fill_with(|| T::of(rng.pick(&special[..3]))),
            _ => x.fill_with(|| T::of(rng.pick(&special[..2]))),
        }
        let problem = Reduce {
            outputs: LoopNest::new(&[], [0; 3]),
            sequence: Sequence::new(&[line(count)]).expect("one piece"),
            dst: T::SCALAR,
            src: T::SCALAR,
            compute: T::COMPUTE,
            reduction,
            scaling: Scaling::MOVE,
            indices: reduction.selects().then_some(Indices::Bits64),
            workspace: 0,
        };
        let (mut got, mut index) = (T::of(7.0), 0_i64);
        let (dst, src) = ((&raw mut got).cast(), x.as_ptr().cast_mut().cast());
        // SAFETY: one output with its index, and as many elements as the sequence has.
        unsafe { reference::reduce(&problem, dst, src, (&raw mut index).cast()) };
        let (want, off, first) = reduced(reduction, &x);
        assert!(
            is_near(got, want, off),
            "case {case}, {reduction:?} of {count}: {got:?} instead of {want:?}"
        );
        assert_eq!(index, first, "case {case}, {reduction:?} of {count}: the index of {got:?}");
    }
}

#[test]
fn reductions_are_what_they_mean_in_both_types() {
    reductions_are_what_they_mean::<f32>();
    reductions_are_what_they_mean::<f64>();
}
