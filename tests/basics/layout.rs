//! Layouts against the published tables of the concepts, and against walks of every element.

use cudnn::layout::format::{nchw_strides, nhwc_strides, packed_strides};
use cudnn::layout::packed::{
    is_fully_packed, is_partially_packed, permute, strides_cross, without_unit_dims,
};
use cudnn::layout::{Cut, DimOrder, Dims, Layout, LoopNest, Pattern, Split, nests, segments};

fn strided(dims: &[i64], strides: &[i64]) -> Layout {
    Layout { dims: Dims::new(dims), strides: Dims::new(strides), split: None }
}

/// Every index tuple of these dims, the last one turning fastest.
fn indices(dims: &[i64]) -> Vec<Vec<i64>> {
    dims.iter().fold(vec![vec![]], |all, &dim| {
        all.iter().flat_map(|head| (0..dim).map(move |i| [&head[..], &[i]].concat())).collect()
    })
}

/// What memory holds when the elements 0, 1, 2, ... in logical order are stored in this layout; -1
/// is padding.
fn memory(layout: &Layout) -> Vec<i64> {
    let mut memory = vec![-1; layout.padded_cells().unwrap() as usize];
    for (value, index) in indices(&layout.dims).iter().enumerate() {
        memory[layout.offset(index) as usize] = value as i64;
    }
    memory
}

/// A small xorshift generator: the same cases in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as i64
    }

    fn pick(&mut self, from: &[i64]) -> i64 {
        from[self.below(from.len() as i64) as usize]
    }

    /// Two to four small dims, any strides, half of them with a blocked axis.
    fn layout(&mut self, dims: &[i64]) -> Layout {
        let mut layout = strided(dims, &dims.iter().map(|_| self.below(25) - 12).collect::<Vec<_>>());
        if self.below(2) == 0 {
            let axis = self.below(dims.len() as i64) as usize;
            layout.split = Some(Split::new(axis, self.pick(&[1, 2, 3, 4, 6, 8])));
        }
        layout
    }

    fn dims(&mut self) -> Vec<i64> {
        (0..2 + self.below(3)).map(|_| 1 + self.below(9)).collect()
    }
}

// --- The running example, N=1, C=64, H=5, W=4 ---

const RUNNING: [i64; 4] = [1, 64, 5, 4];

#[test]
fn running_example_nchw() {
    assert_eq!(memory(&DimOrder::Nchw.layout(&RUNNING).unwrap()), (0..1280).collect::<Vec<_>>());
}

#[test]
fn running_example_nhwc() {
    let memory = memory(&DimOrder::Nhwc.layout(&RUNNING).unwrap());
    assert_eq!(memory[..64], (0..64).map(|c| c * 20).collect::<Vec<_>>());
    assert_eq!((memory[1], memory[63]), (20, 1260));
    assert_eq!(memory[64..128], (0..64).map(|c| c * 20 + 1).collect::<Vec<_>>());
}

#[test]
fn running_example_nc32hw32() {
    let layout = Layout::blocked(&RUNNING, 1, 32).unwrap();
    let memory = memory(&layout);
    assert_eq!(memory[..32], (0..32).map(|c| c * 20).collect::<Vec<_>>());
    assert_eq!(memory[31], 620);
    assert_eq!(memory[32..64], (0..32).map(|c| c * 20 + 1).collect::<Vec<_>>());
    // The second group of channels, 32..63, begins after the whole first one.
    assert_eq!(memory[640..672], (32..64).map(|c| c * 20).collect::<Vec<_>>());
    assert_eq!(layout.to_string(), "1x64x5x4 NC/32HW32");
}

#[test]
fn blocks_of_one_and_of_c_are_the_plain_formats() {
    assert_eq!(Layout::blocked(&RUNNING, 1, 1), DimOrder::Nchw.layout(&RUNNING));
    for dims in [RUNNING, [2, 16, 5, 4]] {
        let nhwc = DimOrder::Nhwc.layout(&dims).unwrap();
        assert_eq!(memory(&Layout::blocked(&dims, 1, dims[1]).unwrap()), memory(&nhwc));
    }
}

#[test]
fn vector_formats_are_n_groups_h_w_vector() {
    for vector in [4, 32] {
        let layout = Layout::blocked(&RUNNING, 1, vector).unwrap();
        let five = [1, 64 / vector, 5, 4, vector];
        for (at, i) in indices(&five).iter().enumerate() {
            assert_eq!(layout.offset(&[i[0], i[1] * vector + i[4], i[2], i[3]]), at as i64);
        }
    }
}

// --- The second example, N=2, C=16, H=5, W=4 ---

const SECOND: [i64; 4] = [2, 16, 5, 4];

/// What images are stored in.
const IMAGES: [DimOrder; 3] = [DimOrder::Nchw, DimOrder::Nhwc, DimOrder::Chwn];

#[test]
fn second_example_offsets() {
    let [_, c16, h5, w4] = SECOND;
    let layouts = IMAGES.map(|order| order.layout(&SECOND).unwrap());
    let blocked = Layout::blocked(&SECOND, 1, 8).unwrap();
    for i in indices(&SECOND) {
        let [n, c, h, w] = i[..] else { unreachable!() };
        let value = n * c16 * h5 * w4 + c * h5 * w4 + h * w4 + w;
        assert_eq!(layouts[0].offset(&i), value);
        assert_eq!(layouts[1].offset(&i), n * h5 * w4 * c16 + h * w4 * c16 + w * c16 + c);
        assert_eq!(layouts[2].offset(&i), c * h5 * w4 * 2 + h * w4 * 2 + w * 2 + n);
        assert_eq!(strided(&SECOND, &[1000, 3, 200, 50]).offset(&i), n * 1000 + c * 3 + h * 200 + w * 50);
        assert_eq!(
            blocked.offset(&i),
            n * c16 * h5 * w4 + (c / 8) * h5 * w4 * 8 + h * w4 * 8 + w * 8 + c % 8
        );
    }
}

#[test]
fn second_example_memory_starts() {
    let nchw = memory(&DimOrder::Nchw.layout(&SECOND).unwrap());
    assert_eq!(nchw[..6], [0, 1, 2, 3, 4, 5]);
    assert_eq!(nchw[318..322], [318, 319, 320, 321]);

    let nhwc = memory(&DimOrder::Nhwc.layout(&SECOND).unwrap());
    assert_eq!((nhwc[0], nhwc[1], nhwc[15]), (0, 20, 300));
    assert_eq!((nhwc[16], nhwc[17], nhwc[31]), (1, 21, 301));
    assert_eq!(nhwc[64], 4);
    assert_eq!(nhwc[319..322], [319, 320, 340]);

    let chwn = memory(&DimOrder::Chwn.layout(&SECOND).unwrap());
    assert_eq!(chwn[..4], [0, 320, 1, 321]);
    assert_eq!(chwn[8..10], [4, 324]);
    assert_eq!(chwn[38..42], [19, 339, 20, 340]);

    let blocked = memory(&Layout::blocked(&SECOND, 1, 8).unwrap());
    assert_eq!(blocked[..9], [0, 20, 40, 60, 80, 100, 120, 140, 1]);
    assert_eq!(blocked[160..162], [160, 180], "the next 8 channels");
    assert_eq!(blocked[320], 320, "the next image");
}

#[test]
fn seventeen_channels_are_rounded_up() {
    for (block, padded) in [(8, 24), (16, 32)] {
        let layout = Layout::blocked(&[2, 17, 5, 4], 1, block).unwrap();
        assert_eq!(layout.padded_dims().unwrap()[..], [2, padded, 5, 4]);
        assert_eq!(layout.padding(), padded - 17);
        assert_eq!(layout.cells(), Some(2 * 17 * 20));
        assert_eq!(layout.padded_cells(), Some(2 * padded * 20));
        assert_eq!(layout.extent(), Some(2 * padded * 20));
        // Exactly the scalars that hold no element are the padding to be zeroed.
        let mut memory = memory(&layout);
        layout.tail().unwrap().for_each(|[at]| {
            assert_eq!(memory[at as usize], -1);
            memory[at as usize] = 0;
        });
        assert!(!memory.contains(&-1));
    }
    assert_eq!(Layout::blocked(&SECOND, 1, 8).unwrap().tail(), None);
}

#[test]
fn rgb_image_in_planes_and_pixels() {
    let dims = [1, 3, 2, 2];
    // Logical order is R plane, G plane, B plane; value / 4 is the colour.
    let colours = |format: DimOrder| {
        memory(&format.layout(&dims).unwrap()).iter().map(|v| (v / 4) as usize).collect::<Vec<_>>()
    };
    assert_eq!(colours(DimOrder::Nchw), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(colours(DimOrder::Nhwc), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
}

// --- Strides as frameworks show them ---

#[test]
fn framework_strides() {
    let dims = [10, 3, 32, 32];
    assert_eq!(nchw_strides(&dims).unwrap()[..], [3072, 1024, 32, 1]);
    assert_eq!(nhwc_strides(&dims).unwrap()[..], [3072, 1, 96, 3]);
    // NumPy counts bytes: float64 has 8.
    let bytes: Vec<i64> = nchw_strides(&dims).unwrap().iter().map(|s| s * 8).collect();
    assert_eq!(bytes, [24576, 8192, 256, 8]);
    let (b, m, n) = (7, 5, 3);
    assert_eq!(DimOrder::RowMajor.layout(&[b, m, n]).unwrap().strides[..], [m * n, n, 1]);
    assert_eq!(DimOrder::ColMajor.layout(&[b, m, n]).unwrap().strides[..], [m * n, 1, m]);
}

#[test]
fn descriptor_formats_of_every_rank() {
    // Observed on 9.27.0: 3-D NHWC is [C * L, 1, C].
    assert_eq!(nhwc_strides(&[2, 3, 5]).unwrap()[..], [15, 1, 3]);
    assert_eq!(nhwc_strides(&[2, 3, 4, 5, 6]).unwrap()[..], [360, 1, 90, 18, 3]);
    assert_eq!(nhwc_strides(&[2; 8]).unwrap()[..], [128, 1, 64, 32, 16, 8, 4, 2]);
    assert_eq!(nchw_strides(&[2, 3]).unwrap()[..], [3, 1]);
    assert_eq!(nchw_strides(&[2; 8]).unwrap()[..], [128, 64, 32, 16, 8, 4, 2, 1]);
    assert_eq!(nchw_strides(&[1, i64::MAX, 2]), None, "a stride beyond 64 bits");
    assert_eq!(packed_strides(&[2, 3, 4, 5, 6], DimOrder::Cdhwn.order()).unwrap()[..], [1, 240, 60, 12, 2]);
    let dims = [2, 3, 4, 5, 6];
    assert_eq!(DimOrder::Ndhwc.layout(&dims).unwrap().strides, nhwc_strides(&dims).unwrap());
    assert_eq!(DimOrder::Ncdhw.layout(&dims).unwrap().strides, nchw_strides(&dims).unwrap());
    assert_eq!(DimOrder::Nchw.layout(&[2, 3, 4]), None, "another rank");
}

// --- Packing ---

#[test]
fn packing_definitions() {
    let dims = [2, 3, 4, 5];
    assert!(is_fully_packed(&dims, &[60, 20, 5, 1]));
    assert!(!is_fully_packed(&dims, &[60, 20, 5, 2]));
    assert!(!is_fully_packed(&dims, &[61, 20, 5, 1]));

    let hw = |i: usize| i >= 2;
    assert!(is_partially_packed(&dims, &[80, 25, 5, 1], hw));
    assert!(!is_partially_packed(&dims, &[80, 25, 6, 1], hw), "H is not packed");
    assert!(!is_partially_packed(&dims, &[80, 19, 5, 1], hw), "C reaches into itself");
    // A suffix may name only major dimensions: NCHW that is only N-packed.
    let n = |i: usize| i == 0;
    assert!(is_partially_packed(&dims, &[3 * 50, 50, 12, 2], n));
    assert!(!is_partially_packed(&dims, &[3 * 50 + 1, 50, 12, 2], n));

    // NHWC, WC-packed: c_stride = 1, w_stride = c_dim; H and N have gaps. Given in the order N C H
    // W.
    let (nchw_dims, nchw_strides) = ([2, 3, 4, 5], [100, 1, 20, 3]);
    let order = DimOrder::Nhwc.order();
    let (d, s) = (permute(&nchw_dims, order), permute(&nchw_strides, order));
    assert_eq!((&d[..], &s[..]), (&[2, 4, 5, 3][..], &[100, 20, 3, 1][..]));
    assert!(is_partially_packed(&d, &s, |i| i >= 2));
    assert!(!is_partially_packed(&d, &s, |i| i >= 1), "H is not packed");

    assert!(strided(&dims, &[70, 21, 5, 1]).is_spatially_packed(), "NCHW HW-packed");
    assert!(strided(&dims, &[20, 40, 5, 1]).is_spatially_packed(), "CNHW HW-packed");
    assert!(!strided(&dims, &[60, 1, 15, 3]).is_spatially_packed(), "NHWC");
    for rank in 1..=5 {
        let packed: Vec<i64> = (0..rank).rev().map(|below| 1 << below).collect();
        assert_eq!(strided(&vec![2; rank], &packed).is_spatially_packed(), rank > 2, "{rank} dimensions");
    }
}

#[test]
fn dims_of_one_count_only_by_the_letter() {
    let (dims, strides) = ([2, 1, 4, 5], [20, 999, 5, 1]);
    assert!(!is_fully_packed(&dims, &strides));
    let (d, s) = without_unit_dims(&dims, &strides);
    assert!(is_fully_packed(&d, &s));
    assert!(is_fully_packed(&[], &[]), "a single element has no gaps");
}

#[test]
fn formats_are_recognised() {
    let shown = |dims: &[i64], strides: &[i64]| strided(dims, strides).to_string();
    assert_eq!(shown(&[10, 3, 32, 32], &[3072, 1, 96, 3]), "10x3x32x32 NHWC");
    assert_eq!(shown(&[10, 3, 32, 32], &[3072, 1024, 32, 1]), "10x3x32x32 NCHW");
    assert_eq!(shown(&[2, 3, 4, 5], &[100, 25, 5, 1]), "2x3x4x5 NCHW (HW-packed)");
    assert_eq!(shown(&[2, 3, 4, 5], &[100, 1, 20, 3]), "2x3x4x5 NHWC (WC-packed)");
    assert_eq!(shown(&[2, 1, 4, 5], &[20, 7, 5, 1]), "2x1x4x5 NCHW");
    assert_eq!(shown(&[2, 3, 4, 5], &[120, 40, 10, 2]), "2x3x4x5 strided 120x40x10x2");
    assert_eq!(shown(&[2, 3, 4, 5], &[60, 19, 5, 1]), "2x3x4x5 strided 60x19x5x1");
    assert_eq!(shown(&[2, 3, 5], &[15, 1, 3]), "2x3x5 BNM");
    assert_eq!(shown(&[2, 3], &[3, 1]), "2x3 packed");
    for format in DimOrder::ALL {
        let dims = &[2, 3, 4, 5, 6][..format.order().len()];
        let layout = format.layout(dims).unwrap();
        assert_eq!(DimOrder::recognise(dims, &layout.strides), Some((format, dims.len())));
    }
}

// --- Spans and overlap ---

#[test]
fn extents_as_observed() {
    let extent = |dims: &[i64], strides: &[i64]| strided(dims, strides).extent();
    // Observed on 9.27.0.
    assert_eq!(extent(&[1, 1, 1, 2147483647], &[1, 1, 1, 1]), Some(2147483647));
    assert_eq!(extent(&[65536, 65536], &[1, 1]), Some(131071));
    assert_eq!(extent(&[2, 3], &[-3, -1]), Some(6), "signs do not count");
    assert_eq!(strided(&[2, 3], &[-3, 1]).span(), Some((-3, 2)));
    assert_eq!(extent(&[2, i64::MAX], &[i64::MAX, 1]), None);
    assert_eq!(strided(&[i64::MAX, 2], &[1, 1]).cells(), None);
    // The distance fits, one more does not.
    assert_eq!(extent(&[2], &[i64::MAX]), None);
}

#[test]
fn spans_agree_with_walks() {
    let mut random = Random(0x5bd1_e995);
    for _ in 0..3000 {
        let dims = random.dims();
        let layout = random.layout(&dims);
        let all: Vec<i64> = indices(&dims).iter().map(|i| layout.offset(i)).collect();
        let expected = (*all.iter().min().unwrap(), *all.iter().max().unwrap());
        assert_eq!(layout.span(), Some(expected), "{layout}");

        let padded: Vec<i64> =
            indices(&layout.padded_dims().unwrap()).iter().map(|i| layout.offset(i)).collect();
        let expected = (*padded.iter().min().unwrap(), *padded.iter().max().unwrap());
        assert_eq!(layout.padded_span(), Some(expected), "{layout}");
        assert_eq!(layout.extent(), Some(expected.1 - expected.0 + 1));

        // Elements and tail make up the padded tensor, each scalar once.
        let (mut whole, mut parts) = (vec![], all);
        layout.padded_nest().for_each(|[at]| whole.push(at));
        if let Some(tail) = layout.tail() {
            tail.for_each(|[at]| parts.push(at));
        }
        for list in [&mut whole, &mut parts] {
            list.sort_unstable();
        }
        assert_eq!(whole, parts, "{layout}");
    }
}

#[test]
fn overlap_agrees_with_walks() {
    let mut random = Random(0x1234_5678);
    let (mut meeting, mut crossing_only) = (0, 0);
    for _ in 0..6000 {
        let dims: Vec<i64> = (0..1 + random.below(4)).map(|_| 1 + random.below(4)).collect();
        let mut layout = random.layout(&dims);
        for stride in layout.strides.iter_mut() {
            *stride = random.below(61) - 30;
        }
        let mut all = vec![];
        layout.padded_nest().for_each(|[at]| all.push(at));
        let visits = all.len();
        all.sort_unstable();
        all.dedup();
        let meets = all.len() < visits;
        assert_eq!(layout.overlaps(), meets, "{layout}");
        if layout.split.is_none() {
            let crosses = strides_cross(&dims, &layout.strides);
            assert!(crosses || !meets, "{layout}");
            crossing_only += usize::from(crosses && !meets);
        }
        meeting += usize::from(meets);
    }
    assert!(meeting > 1000 && meeting < 5000 && crossing_only > 100, "{meeting} {crossing_only}");
}

#[test]
fn overlap_of_known_cases() {
    assert!(!strided(&[2, 2], &[3, 2]).overlaps(), "0, 2, 3 and 5 are four addresses");
    assert!(strides_cross(&[2, 2], &[3, 2]));
    assert!(!strides_cross(&[2, 2], &[2, 1]) && !strides_cross(&[2, 3, 4], &[-30, 8, 2]));
    assert!(strided(&[4, 3], &[0, 1]).overlaps(), "a broadcast");
    assert!(!strided(&[1, 3], &[0, 1]).overlaps());
    assert!(strided(&[3, 3], &[1, 1]).overlaps());
    assert!(!strided(&[2, 3], &[-3, -1]).overlaps(), "mirrored");
    assert!(!strided(&[1 << 31, 1 << 31], &[1 << 31, 1]).overlaps(), "no walk of 2^62 elements");
    // Groups closer together than they are wide.
    let mut blocked = Layout::blocked(&[1, 16, 2, 2], 1, 8).unwrap();
    assert!(!blocked.overlaps());
    blocked.strides[3] = 4;
    assert!(blocked.overlaps());
    // A search without end in sight takes the safe side.
    assert!(strided(&[1 << 20, 1 << 20], &[1_048_577, 1_048_576]).overlaps());
}

// --- From two layouts to nests ---

/// The pairs of offsets that a list of nests visits, sorted.
fn pairs(nests: &[LoopNest<2>]) -> Vec<[i64; 2]> {
    let mut all = vec![];
    nests.iter().for_each(|nest| nest.for_each(|pair| all.push(pair)));
    all.sort_unstable();
    all
}

fn nests_of(dst: &Layout, src: &Layout) -> Vec<LoopNest<2>> {
    let mut all = vec![];
    nests([dst, src], &mut |nest| all.push(*nest));
    all
}

#[test]
fn nests_visit_every_element_once() {
    let mut random = Random(0xc0ff_ee11);
    let mut pieces = [0; 3];
    for _ in 0..3000 {
        let dims = random.dims();
        let (dst, src) = (random.layout(&dims), random.layout(&dims));
        let mut expected: Vec<[i64; 2]> =
            indices(&dims).iter().map(|i| [dst.offset(i), src.offset(i)]).collect();
        expected.sort_unstable();
        let nests = nests_of(&dst, &src);
        assert_eq!(pairs(&nests), expected, "{dst} <- {src}");
        let canonical: Vec<_> = nests.iter().map(|n| n.canonical()).collect();
        assert_eq!(pairs(&canonical), expected, "{dst} <- {src}");
        pieces[nests.len().min(3) - 1] += 1;
    }
    assert!(pieces.iter().all(|&n| n > 50), "{pieces:?}");
}

#[test]
fn segments_visit_every_turn_once() {
    let mut random = Random(0xfeed_f00d);
    for _ in 0..20_000 {
        let extent = 1 + random.below(70);
        let mut cut = || Cut {
            start: random.below(20),
            step: random.pick(&[1, 1, 1, 2, 3, 4, 8]),
            stride: random.below(100) - 50,
            block: random.pick(&[1, 1, 2, 4, 5, 8, 12, 32]),
        };
        let (dst, src) = (cut(), cut());
        let offset = |c: Cut, turn: i64| {
            let coordinate = c.start + turn * c.step;
            coordinate / c.block * c.stride + coordinate % c.block
        };
        let mut expected: Vec<[i64; 2]> = (0..extent).map(|i| [offset(dst, i), offset(src, i)]).collect();
        expected.sort_unstable();
        let mut all = vec![];
        segments(extent, [dst, src], &mut |nest| all.push(nest));
        assert!(all.iter().all(|nest| nest.axes().len() <= 3));
        assert_eq!(pairs(&all), expected, "{extent} turns of {dst:?} <- {src:?}");
    }
}

#[test]
fn common_cases_take_the_fewest_nests() {
    let count = |c: i64, dst: i64, src: i64| {
        let layout = |block| Layout::blocked(&[2, c, 5, 4], 1, block).unwrap();
        nests_of(&layout(dst), &layout(src)).len()
    };
    for (dst, src) in [(1, 1), (8, 1), (1, 8), (32, 4), (4, 32), (16, 16), (64, 1), (8, 64)] {
        assert_eq!(count(64, dst, src), 1, "{dst} <- {src}");
    }
    for (c, dst, src) in [(17, 8, 1), (17, 1, 16), (36, 32, 4), (40, 4, 32), (9, 8, 8), (3, 8, 1)] {
        assert_eq!(count(c, dst, src), if c == 3 { 1 } else { 2 }, "{c}: {dst} <- {src}");
    }
    assert_eq!(count(24, 8, 12), 3, "8 and 12 do not divide each other");

    // A start inside a group: what is left of it, whole groups, the rest.
    let cut = |start, stride, block| Cut { start, step: 1, stride, block };
    let mut all = vec![];
    segments(5 + 16 + 3, [cut(3, 160, 8), cut(0, 20, 1)], &mut |nest| all.push(nest.canonical()));
    assert_eq!(
        all.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["dst/src: 5*(1,20) +3,+0", "dst/src: 2*(160,160) 8*(1,20) +160,+100", "dst/src: 3*(1,20) +480,+420"]
    );
}

#[test]
fn each_operand_may_split_an_axis_of_its_own() {
    let dims = [4, 10, 7];
    let (dst, src) = (Layout::blocked(&dims, 1, 4).unwrap(), Layout::blocked(&dims, 2, 3).unwrap());
    let nests = nests_of(&dst, &src);
    assert_eq!(nests.len(), 4);
    let mut expected: Vec<_> = indices(&dims).iter().map(|i| [dst.offset(i), src.offset(i)]).collect();
    expected.sort_unstable();
    assert_eq!(pairs(&nests), expected);
}

#[test]
fn three_operands_are_visited_together() {
    let mut random = Random(0x3a3a_5151);
    for _ in 0..1000 {
        let dims = random.dims();
        let layouts: [Layout; 3] = std::array::from_fn(|_| random.layout(&dims));
        let mut expected: Vec<[i64; 3]> =
            indices(&dims).iter().map(|i| std::array::from_fn(|k| layouts[k].offset(i))).collect();
        expected.sort_unstable();
        let mut all = vec![];
        nests(std::array::from_fn(|k| &layouts[k]), &mut |nest| {
            nest.canonical().for_each(|offsets| all.push(offsets));
        });
        all.sort_unstable();
        assert_eq!(all, expected);
    }
}

#[test]
fn a_broadcast_repeats_what_there_is_one_of() {
    let wide = strided(&[1, 3, 1], &[7, 2, 5]).broadcast(&[4, 3, 2]).unwrap();
    for index in indices(&[4, 3, 2]) {
        assert_eq!(wide.offset(&index), 2 * index[1]);
    }
    assert_eq!(strided(&[2, 3], &[3, 1]).broadcast(&[4, 3]), None);
    assert_eq!(strided(&[2, 3], &[3, 1]).broadcast(&[2, 3, 1]), None);
    // One group of a blocked axis serves every group; one channel of it serves every channel.
    let group = Layout::blocked(&[2, 4, 3], 1, 4).unwrap();
    let wide = group.broadcast(&[2, 12, 3]).unwrap();
    for index in indices(&[2, 12, 3]) {
        assert_eq!(wide.offset(&index), group.offset(&[index[0], index[1] % 4, index[2]]));
    }
    let one = Layout::blocked(&[2, 1, 3], 1, 4).unwrap();
    let wide = one.broadcast(&[2, 10, 3]).unwrap();
    for index in indices(&[2, 10, 3]) {
        assert_eq!(wide.offset(&index), one.offset(&[index[0], 0, index[2]]));
    }
    assert_eq!(group.broadcast(&[2, 10, 3]), None, "two and a half groups");
}

#[test]
fn nests_of_named_formats_become_the_expected_kernels() {
    let pattern = |dst: &Layout, src: &Layout| {
        let nests = nests_of(dst, src);
        assert_eq!(nests.len(), 1);
        nests[0].canonical().pattern()
    };
    let [nchw, nhwc, chwn] = IMAGES.map(|order| order.layout(&SECOND).unwrap());
    let blocked = Layout::blocked(&SECOND, 1, 8).unwrap();
    assert_eq!(pattern(&nhwc, &nhwc), Pattern::Contiguous);
    assert_eq!(pattern(&blocked, &blocked), Pattern::Contiguous);
    assert!(matches!(pattern(&nhwc, &nchw), Pattern::Transpose { .. }));
    assert!(matches!(pattern(&chwn, &nhwc), Pattern::Transpose { .. }));
    assert!(matches!(pattern(&blocked, &nchw), Pattern::Transpose { .. }));
    assert_eq!(pattern(&blocked, &nhwc), Pattern::Runs { run: 8 });
}
