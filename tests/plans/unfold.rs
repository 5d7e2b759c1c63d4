//! Unfolds with factors up to 2^31: what a plain loop over the destination makes of them, in the
//! time that the destination takes; and what the log shows of plans with many parts.

use cudnn::backend::Address;
use cudnn::backend::cuda::launch::Device;
use cudnn::backend::cuda::plan::launches;
use cudnn::desc::{Folding, TensorDescriptor, TransformDescriptor};
use cudnn::dtype::DataType;
use cudnn::exec::Context;
use cudnn::mode::Mode;
use cudnn::ops::{Scaling, TransformPlan};

use testkit::random::Rng;

/// Padding before and behind one dimension, and its fold factor.
#[derive(Clone, Copy, Debug)]
struct Side {
    before: i32,
    after: i32,
    factor: u32,
}

#[derive(Clone, Debug)]
struct Unfold {
    dims: Vec<i64>,
    sides: Vec<Side>,
}

impl Unfold {
    fn descriptor(&self) -> TransformDescriptor {
        let mut transform =
            TransformDescriptor { direction: Folding::Unfold, ..TransformDescriptor::default() };
        for (axis, side) in self.sides.iter().enumerate() {
            (transform.pad_before[axis], transform.pad_after[axis]) = (side.before, side.after);
            if axis >= 2 {
                transform.fold[axis - 2] = side.factor;
            }
        }
        transform
    }

    /// Channels of a group: as many as every position gets.
    fn group(&self) -> i64 {
        self.sides[2..]
            .iter()
            .fold(self.dims[1], |c, side| (c + i64::from(side.factor) - 1) / i64::from(side.factor))
    }

    fn yields(&self) -> Vec<i64> {
        let unfolded = |axis: usize| match axis {
            0 => self.dims[0],
            1 => self.group(),
            _ => self.dims[axis] * i64::from(self.sides[axis].factor),
        };
        let padding = |side: &Side| i64::from(side.before) + i64::from(side.after);
        (0..self.dims.len()).map(|axis| unfolded(axis) + padding(&self.sides[axis])).collect()
    }

    /// Where the element at these coordinates of the destination comes from.
    fn source(&self, at: &[i64]) -> Option<usize> {
        let mut position = 0_i128;
        let mut from = vec![0; at.len()];
        for axis in 0..at.len() {
            let inside = at[axis] - i64::from(self.sides[axis].before);
            let factor = if axis < 2 { 1 } else { i64::from(self.sides[axis].factor) };
            let extent = if axis == 1 { self.group() } else { self.dims[axis] * factor };
            if !(0..extent).contains(&inside) {
                return None;
            }
            from[axis] = inside / factor;
            position = position * i128::from(factor) + i128::from(inside % factor);
        }
        let channel = position * i128::from(self.group()) + i128::from(from[1]);
        from[1] = i64::try_from(channel).ok().filter(|&channel| channel < self.dims[1])?;
        Some(from.iter().zip(&self.dims).fold(0, |index, (&at, &extent)| index * extent + at) as usize)
    }

    /// Runs it, and compares every element of the destination with the plain loop.
    fn check(&self) {
        let (dst_dims, scaling) = (self.yields(), Scaling { alpha: 2.0, beta: 0.5 });
        let (src, dst) = (packed(&self.dims), packed(&dst_dims));
        let x: Vec<f32> = (0..self.dims.iter().product::<i64>()).map(|i| i as f32 + 1.0).collect();
        let mut y = vec![-8.0_f32; dst_dims.iter().product::<i64>() as usize];
        let transform = self.descriptor();
        let plan = TransformPlan::with_map(&transform, &src, &dst, scaling, Mode::Extended)
            .unwrap_or_else(|error| panic!("{self:?}: {error}"));
        // SAFETY: two packed tensors of these dims.
        let outcome = unsafe { Context::cpu().run(&plan, &[y.as_mut_ptr().into(), x.as_ptr().into()]) };
        assert_eq!(outcome, Ok(()), "{self:?}");
        for (index, &got) in y.iter().enumerate() {
            let (mut rest, mut at) = (index as i64, vec![0; dst_dims.len()]);
            for axis in (0..dst_dims.len()).rev() {
                (at[axis], rest) = (rest % dst_dims[axis], rest / dst_dims[axis]);
            }
            let want = self.source(&at).map_or(0.0, |from| 2.0 * x[from]) - 4.0;
            assert_eq!(got, want, "{self:?} at {at:?}");
        }
        // Planning for the other core needs no device.
        let mut count = 0;
        let places = [Address::NULL, Address::NULL];
        let outcome = launches(&plan, &places, Device::ANY, &mut |_| {
            count += 1;
            Ok(())
        });
        assert_eq!(outcome, Ok(()), "{self:?}");
        assert!(count <= 3 * y.len().max(1), "{self:?}: {count} launches");
    }
}

fn packed(dims: &[i64]) -> TensorDescriptor {
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis] * dims[axis];
    }
    TensorDescriptor::with_strides(DataType::Float, dims.len() as i64, dims, &strides, Mode::Extended)
        .expect("a packed tensor")
}

const NONE: Side = Side { before: 0, after: 0, factor: 1 };

#[test]
fn one_element_of_a_huge_unfold() {
    let most = i32::MAX;
    let crops = [(1 - most, 0), (0, 1 - most), (-7, 8 - most)];
    for (before, after) in crops {
        Unfold { dims: vec![1, 1, 1], sides: vec![NONE, NONE, Side { before, after, factor: most as u32 }] }
            .check();
    }
    // Their product leaves 64 bits, and wraps to nothing.
    let factor = 1 << 22;
    for channels in [1, 5, 64] {
        for (before, after) in [(1 - factor, 0), (0, 1 - factor), (1 - factor / 2, -factor / 2)] {
            let side = Side { before, after, factor: factor as u32 };
            Unfold { dims: vec![1, channels, 1, 1, 1], sides: vec![NONE, NONE, side, side, side] }.check();
        }
    }
}

#[test]
fn random_unfolds_of_any_factors() {
    let mut rng = Rng(19);
    let mut below = |n: u64| (rng.word() % n) as i64;
    for _ in 0..400 {
        let rank = 3 + below(3) as usize;
        let mut unfold = Unfold { dims: vec![], sides: vec![] };
        for axis in 0..rank {
            let factor = match axis {
                0 | 1 => 1,
                _ => [1, 2, 3, 7, 1 << 16, 1 << 22, (1 << 27) - 1][below(7) as usize],
            };
            unfold.dims.push(1 + below(if axis == 1 { 40 } else { 4 }));
            unfold.sides.push(Side { factor, ..NONE });
        }
        let extents = unfold.yields();
        for (axis, side) in unfold.sides.iter_mut().enumerate() {
            // What is left of the unfolded extent: a few elements anywhere in it, and a little
            // padding.
            let left = (1 + below(5)).min(extents[axis]);
            let first = below((extents[axis] - left + 1) as u64);
            let is_edge = [below(2) == 0, below(2) == 0];
            let (before, after) = (first, extents[axis] - left - first);
            side.before = if is_edge[0] && before == 0 { below(3) as i32 } else { -before as i32 };
            side.after = if is_edge[1] && after == 0 { below(3) as i32 } else { -after as i32 };
        }
        unfold.check();
    }
}

#[test]
fn a_plan_of_many_parts_lists_the_first_eight() {
    let unfold = |factor| Unfold {
        dims: vec![1, i64::from(factor) * i64::from(factor), 1, 1],
        sides: vec![NONE, NONE, Side { factor, ..NONE }, Side { factor, ..NONE }],
    };
    let line = |unfold: Unfold| {
        let (src, dst) = (packed(&unfold.dims), packed(&unfold.yields()));
        let transform = unfold.descriptor();
        let plan = TransformPlan::with_map(&transform, &src, &dst, Scaling::MOVE, Mode::Extended);
        plan.expect("a plan").to_string()
    };
    let few = line(unfold(2));
    assert_eq!(few.matches("; ").count(), 3, "{few}");
    let many = line(unfold(512));
    assert!(many.len() < 1024 && many.ends_with("; and 262136 more"), "{many}");
    assert_eq!(many.matches("; ").count(), 8, "{many}");
}
