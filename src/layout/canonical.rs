//! The canonical form of a [`LoopNest`]: the steps towards it and the class of nest that comes out.
//!
//! Every step depends on nothing but the nest, rewrites it in place (a nest is half a kilobyte;
//! copies would cost more than the work) and has one post-condition: the multiset of offset tuples
//! is unchanged, though not their order. Every step asks that [`LoopNest::span`] is known for each
//! operand; then nothing overflows.

use super::nest::{Axis, LoopNest};

/// What a canonical nest of a destination and a source asks for; the first that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One run of elements, neighbours on both sides; a single element too.
    Contiguous,
    /// The innermost loop moves both operands by 1, `run` elements at a time.
    Runs {
        /// Elements per row, at least 2.
        run: i64,
    },
    /// Either operand moves by 1 along an axis of its own.
    Transpose {
        /// The axis along which the destination is contiguous.
        dst_axis: usize,
        /// The axis along which the source is contiguous.
        src_axis: usize,
    },
    /// At least one operand has no axis of stride 1.
    Strided,
}

impl<const N: usize> LoopNest<N> {
    /// The form that every core expects: [`drop_unit_axes`](Self::drop_unit_axes),
    /// [`make_dst_positive`](Self::make_dst_positive),
    /// [`sort_by_dst_stride`](Self::sort_by_dst_stride),
    /// [`fold_contiguous`](Self::fold_contiguous), in this order.
    ///
    /// Post: the multiset of offset tuples is unchanged; no axis has extent 1; no destination
    /// stride is negative; destination strides descend; no two neighbours can be folded; a second
    /// call changes nothing.
    pub fn canonical(mut self) -> Self {
        self.canonicalise();
        self
    }

    /// Brings the nest into its [canonical](Self::canonical) form where it lies.
    pub fn canonicalise(&mut self) {
        self.drop_unit_axes();
        self.make_dst_positive();
        self.sort_by_dst_stride();
        self.fold_contiguous();
    }

    /// The nest as it is and after each step, with the steps' names: what the log prints. The last
    /// entry equals [`canonical`](Self::canonical), which is the one to call where only the result
    /// matters.
    pub fn canonical_steps(self) -> [(&'static str, Self); 5] {
        let mut nest = self;
        let mut after = |step: fn(&mut Self)| {
            step(&mut nest);
            nest
        };
        [
            ("as given", self),
            ("drop unit axes", after(Self::drop_unit_axes)),
            ("make dst positive", after(Self::make_dst_positive)),
            ("sort by dst stride", after(Self::sort_by_dst_stride)),
            ("fold contiguous", after(Self::fold_contiguous)),
        ]
    }

    /// Removes the loops that turn once: their strides never matter. Post: no axis has extent 1.
    pub fn drop_unit_axes(&mut self) {
        let axes = self.axes_mut();
        let mut kept = 0;
        for i in 0..axes.len() {
            if axes[i].extent != 1 {
                axes[kept] = axes[i];
                kept += 1;
            }
        }
        self.truncate(kept);
    }

    /// Turns round each loop that walks the destination backwards: it starts at what was its end,
    /// in every operand. Post: no destination stride is negative. Loops that leave the destination
    /// in place stay as they are.
    pub fn make_dst_positive(&mut self) {
        let mut offsets = self.offsets;
        for axis in self.axes_mut().iter_mut().filter(|a| a.strides[0] < 0) {
            for (offset, stride) in offsets.iter_mut().zip(&mut axis.strides) {
                // From here to the loop's end stays inside the operand's span, so it fits.
                *offset += (axis.extent - 1) * *stride;
                *stride = -*stride;
            }
        }
        self.offsets = offsets;
    }

    /// Puts the loops in order of falling destination stride, so that writes move forward; equal
    /// ones in order of the sources' strides, then as they were. Signs do not count.
    pub fn sort_by_dst_stride(&mut self) {
        let axes = self.axes_mut();
        // Insertion sort: stable, in place, and nothing is faster for the handful of loops there
        // are.
        for i in 1..axes.len() {
            let axis = axes[i];
            let mut at = i;
            while at > 0 && moves_less(&axes[at - 1], &axis) {
                axes[at] = axes[at - 1];
                at -= 1;
            }
            axes[at] = axis;
        }
    }

    /// Merges every loop with its inner neighbour where one turn of the outer is all turns of the
    /// inner, in every operand: `outer.stride == inner.extent * inner.stride`. Post: no such
    /// neighbours are left.
    pub fn fold_contiguous(&mut self) {
        let axes = self.axes_mut();
        let mut last = 0; // axes[..=last] are done
        for i in 1..axes.len() {
            // One pass is enough: folding leaves `extent * stride` of the merged loop as it was,
            // and only that decides whether its outer neighbour folds.
            match fold(&axes[last], &axes[i]) {
                Some(folded) => axes[last] = folded,
                None => {
                    last += 1;
                    axes[last] = axes[i];
                }
            }
        }
        let rank = axes.len().min(last + 1);
        self.truncate(rank);
    }
}

impl LoopNest<2> {
    /// Which kind of kernel suits the nest. Pre: canonical.
    pub fn pattern(&self) -> Pattern {
        if self.is_contiguous() {
            return Pattern::Contiguous;
        }
        match (self.inner_run(), self.unit_axis(0), self.unit_axis(1)) {
            (run, ..) if run > 1 => Pattern::Runs { run },
            (_, Some(dst_axis), Some(src_axis)) if dst_axis != src_axis => {
                Pattern::Transpose { dst_axis, src_axis }
            }
            _ => Pattern::Strided,
        }
    }
}

/// Whether `a` has the smaller stride in the first operand in which their sizes differ.
fn moves_less<const N: usize>(a: &Axis<N>, b: &Axis<N>) -> bool {
    for (a, b) in a.strides.iter().zip(&b.strides) {
        if a.unsigned_abs() != b.unsigned_abs() {
            return a.unsigned_abs() < b.unsigned_abs();
        }
    }
    false
}

/// The one loop that does what `outer` around `inner` does, if there is one.
fn fold<const N: usize>(outer: &Axis<N>, inner: &Axis<N>) -> Option<Axis<N>> {
    let contiguous = outer
        .strides
        .iter()
        .zip(&inner.strides)
        .all(|(&outer, &stride)| inner.extent.checked_mul(stride) == Some(outer));
    let extent = outer.extent.checked_mul(inner.extent).filter(|_| contiguous)?;
    Some(Axis { extent, strides: inner.strides })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::MAX_AXES;

    fn axis(extent: i64, dst: i64, src: i64) -> Axis<2> {
        Axis { extent, strides: [dst, src] }
    }

    /// The offset tuples of a nest by plain index arithmetic, not by its own walk; sorted.
    fn offsets<const N: usize>(nest: &LoopNest<N>) -> Vec<[i64; N]> {
        let mut all = vec![nest.offsets];
        for axis in nest.axes() {
            all = all
                .iter()
                .flat_map(|&at| {
                    (0..axis.extent).map(move |i| std::array::from_fn(|k| at[k] + i * axis.strides[k]))
                })
                .collect();
        }
        all.sort_unstable();
        all
    }

    /// A small xorshift generator: the same nests in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: u64) -> i64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % n) as i64
        }
    }

    /// Up to five loops, three where each takes long; every other one continues its predecessor
    /// contiguously, so that folding happens.
    fn random_nest<const N: usize>(random: &mut Random) -> LoopNest<N> {
        let mut nest = LoopNest::new(&[], std::array::from_fn(|_| random.below(100)));
        let mut previous: Option<Axis<N>> = None;
        for _ in 0..random.below(if cfg!(miri) { 4 } else { 6 }) {
            let extent = 1 + random.below(4);
            let strides = match previous {
                Some(p) if random.below(2) == 0 => p.strides.map(|s| s * p.extent),
                _ => std::array::from_fn(|_| random.below(13) - 6),
            };
            let axis = Axis { extent, strides };
            nest.push(axis);
            previous = Some(axis);
        }
        if random.below(2) == 0 {
            nest.axes_mut().reverse();
        }
        nest
    }

    /// An interpreter takes long for each.
    const TURNS: usize = if cfg!(miri) { 8 } else { 4000 };

    fn check_random_nests<const N: usize>(seed: u64) {
        let mut random = Random(seed);
        let mut folded = 0;
        for _ in 0..TURNS {
            let nest = random_nest::<N>(&mut random);
            let before = offsets(&nest);
            assert_eq!(before.len() as i64, nest.len());

            let mut walked = Vec::new();
            nest.for_each(|at| walked.push(at));
            walked.sort_unstable();
            assert_eq!(walked, before, "walk of {nest}");
            for k in 0..N {
                let (low, high) =
                    before.iter().fold((i64::MAX, i64::MIN), |(l, h), at| (l.min(at[k]), h.max(at[k])));
                assert_eq!(nest.span(k), Some((low, high)), "span of {nest}");
            }

            for (step, after) in nest.canonical_steps() {
                assert_eq!(offsets(&after), before, "{step}: {nest} became {after}");
            }
            // Each step on its own, not only on what its predecessors leave.
            let steps: [fn(&mut LoopNest<N>); 4] = [
                LoopNest::drop_unit_axes,
                LoopNest::make_dst_positive,
                LoopNest::sort_by_dst_stride,
                LoopNest::fold_contiguous,
            ];
            for step in steps {
                let mut after = nest;
                step(&mut after);
                assert_eq!(offsets(&after), before, "{nest} became {after}");
            }

            let canonical = nest.canonical();
            assert_eq!(canonical, nest.canonical_steps()[4].1);
            assert_eq!(canonical.canonical(), canonical, "idempotent");
            assert!(canonical.axes().iter().all(|a| a.extent > 1 && a.strides[0] >= 0));
            for pair in canonical.axes().windows(2) {
                assert!(pair[0].strides[0] >= pair[1].strides[0], "sorted: {canonical}");
                assert_eq!(fold(&pair[0], &pair[1]), None, "foldable: {canonical}");
            }
            folded +=
                usize::from(canonical.axes().len() < nest.axes().iter().filter(|a| a.extent > 1).count());
        }
        assert!(folded > TURNS / 16, "only {folded} nests exercised folding");
    }

    #[test]
    fn every_step_keeps_the_offsets() {
        check_random_nests::<1>(0x9e37_79b9_7f4a_7c15);
        check_random_nests::<2>(0xdead_beef_cafe_f00d);
        check_random_nests::<3>(0x0123_4567_89ab_cdef);
    }

    #[test]
    fn equal_packed_layouts_become_one_run() {
        // 2x16x5x4 in NHWC on both sides, loops in NCHW order.
        let nest =
            LoopNest::new(&[axis(2, 320, 320), axis(16, 1, 1), axis(5, 64, 64), axis(4, 16, 16)], [0, 0]);
        let canonical = nest.canonical();
        assert_eq!(canonical.axes(), [axis(640, 1, 1)]);
        assert_eq!(canonical.pattern(), Pattern::Contiguous);
    }

    #[test]
    fn nchw_to_nhwc_is_a_transpose_of_three_loops() {
        let nest = LoopNest::new(
            &[axis(32, 802816, 802816), axis(64, 1, 12544), axis(112, 7168, 112), axis(112, 64, 1)],
            [0, 0],
        );
        let canonical = nest.canonical();
        assert_eq!(canonical.to_string(), "dst/src: 32*(802816,802816) 12544*(64,1) 64*(1,12544) +0,+0");
        assert_eq!(canonical.pattern(), Pattern::Transpose { dst_axis: 2, src_axis: 1 });
        assert_eq!(
            (canonical.inner_run(), canonical.unit_axis(0), canonical.unit_axis(1)),
            (1, Some(2), Some(1))
        );
    }

    #[test]
    fn the_other_classes() {
        let rows = LoopNest::new(&[axis(3, 8, 10), axis(8, 1, 1)], [0, 0]).canonical();
        assert_eq!(rows.pattern(), Pattern::Runs { run: 8 });
        let gather = LoopNest::new(&[axis(8, 1, 2)], [0, 0]).canonical();
        assert_eq!(gather.pattern(), Pattern::Strided);
        let broadcast = LoopNest::new(&[axis(8, 1, 0)], [0, 0]).canonical();
        assert_eq!(broadcast.pattern(), Pattern::Strided);
        let single = LoopNest::new(&[axis(1, 7, -3)], [5, 6]).canonical();
        assert_eq!((single.pattern(), single.axes().len()), (Pattern::Contiguous, 0));
        assert_eq!(single.to_string(), "dst/src: +5,+6");
    }

    #[test]
    fn mirrored_both_ways_is_a_straight_copy() {
        let nest = LoopNest::new(&[axis(10, -1, -1)], [9, 9]).canonical();
        assert_eq!((nest.axes(), nest.offsets), (&[axis(10, 1, 1)][..], [0, 0]));
        // Only the source is mirrored: the destination runs forward, the source backward.
        let nest = LoopNest::new(&[axis(10, -1, 1)], [9, 0]).canonical();
        assert_eq!((nest.axes(), nest.offsets), (&[axis(10, 1, -1)][..], [0, 9]));
    }

    #[test]
    fn spans_that_leave_64_bits_are_none() {
        let span =
            |extent, stride, offset| LoopNest::new(&[Axis { extent, strides: [stride] }], [offset]).span(0);
        assert_eq!(span(2, i64::MAX, 0), Some((0, i64::MAX)));
        assert_eq!(span(2, i64::MAX, 1), None);
        assert_eq!(span(3, i64::MAX, 0), None);
        assert_eq!(span(2, i64::MIN, 0), None, "the distance does not fit");
        assert_eq!(span(2, -i64::MAX, 0), Some((-i64::MAX, 0)));
    }

    #[test]
    fn a_full_nest_folds_without_overflow() {
        let axes: Vec<Axis<1>> = (0..MAX_AXES).rev().map(|i| Axis { extent: 2, strides: [1 << i] }).collect();
        assert_eq!(LoopNest::new(&axes, [0]).canonical().axes(), [Axis { extent: 1 << 20, strides: [1] }]);
        // Broadcast loops whose extents do not multiply into 64 bits stay apart.
        let huge = Axis { extent: i64::MAX, strides: [0] };
        assert_eq!(LoopNest::new(&[huge, huge], [0]).canonical().axes().len(), 2);
    }
}
