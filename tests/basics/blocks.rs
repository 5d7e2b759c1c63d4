//! Axes in blocks, and when two loop nests are one.

use cudnn::layout::{Axis, Layout, LoopNest, Split};

#[test]
fn a_split_is_of_the_axis_that_it_names() {
    for (axis, block) in [(0, 1), (1, 4), (2, 3), (7, (1 << 60) - 1)] {
        let split = Split::new(axis, block);
        assert_eq!((split.axis(), split.block()), (axis, block));
    }
    // Rows in threes: row 3 begins the second group.
    let rows = Layout::blocked(&[1, 2, 6, 5], 2, 3).unwrap();
    let offsets = [[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 3, 0], [0, 1, 0, 0]];
    assert_eq!(offsets.map(|index| rows.offset(&index)), [0, 1, 3, 15, 30]);
}

#[test]
fn nests_are_equal_that_visit_the_same_in_one_order() {
    let nest = |extent: i64, stride: i64, offset: i64| {
        LoopNest::new(&[Axis { extent, strides: [1, stride] }], [offset, 0])
    };
    assert!(nest(3, 2, 5) == nest(3, 2, 5));
    for other in [nest(4, 2, 5), nest(3, 1, 5), nest(3, 2, 6), LoopNest::new(&[], [5, 0])] {
        assert!(nest(3, 2, 5) != other, "{other}");
    }
}
