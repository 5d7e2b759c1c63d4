//! Whether two tensors in one buffer share a byte, against a walk over all bytes: layouts that are
//! blocked in a dimension, whose padding counts.

use std::collections::BTreeSet;

use cudnn::layout::overlap::are_disjoint;
use cudnn::layout::{Dims, Layout, Split};
use testkit::random::Rng;

/// Every byte of a tensor that starts at `start`, padding included.
fn bytes(layout: &Layout, size: i64, start: i64) -> BTreeSet<i64> {
    let mut found = BTreeSet::from([start]);
    for axis in 0..layout.dims.rank() {
        let block = layout.split.filter(|split| split.axis() == axis).map_or(1, |split| split.block());
        let groups = layout.dims[axis].div_euclid(block) + i64::from(layout.dims[axis] % block != 0);
        let steps: Vec<i64> = (0..groups)
            .flat_map(|group| (0..block).map(move |k| group * layout.strides[axis] + k))
            .map(|element| element * size)
            .collect();
        // A plain dimension has no place inside a block.
        found = found.iter().flat_map(|at| steps.iter().map(move |step| at + step)).collect();
    }
    found.iter().flat_map(|at| (0..size).map(move |k| at + k)).collect()
}

fn drawn(rng: &mut Rng) -> Layout {
    let dims = [0; 3].map(|_| 1 + rng.below(5) as i64);
    let axis = rng.below(3);
    let block = rng.pick(&[1, 2, 3, 4]);
    let strides = [0; 3].map(|_| (rng.below(41) as i64 - 12) * rng.pick(&[1, 1, 4]));
    Layout { dims: Dims::new(&dims), strides: Dims::new(&strides), split: Some(Split::new(axis, block)) }
}

#[test]
fn blocked_tensors_share_what_a_walk_finds() {
    let (mut rng, mut apart, mut meeting) = (Rng(61), 0, 0);
    for _ in 0..4000 {
        let [a, b] = [0; 2].map(|_| drawn(&mut rng));
        let sizes = [0; 2].map(|_| rng.pick(&[1, 2, 4]));
        let distance = rng.below(600) as i64 - 300;
        let want = bytes(&a, sizes[0], 0).is_disjoint(&bytes(&b, sizes[1], distance));
        let got = are_disjoint([&a, &b], sizes.map(|size| size as usize), distance);
        assert_eq!(got, want, "{a:?} of {sizes:?} bytes and {b:?}, {distance} bytes apart");
        if want { apart += 1 } else { meeting += 1 }
    }
    assert!(apart > 500 && meeting > 500, "{apart} apart, {meeting} meeting");
}
