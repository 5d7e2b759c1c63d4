//! More than 2^32 elements in one call, and offsets as large, on the CUDA core: what kernels
//! compute of numbers of blocks, elements, coordinates and bytes that leave 32 bits.
//!
//! The memory is hardly there, and a grid is not run as a whole: what is not touched takes no room,
//! and of each grid the double runs a few blocks at the start, in the middle and at the end. All
//! that they write has to be right, and the first element and the last have to be among it. A real
//! driver has all of it, and runs whole grids; of what these write the start, the middle and the
//! end are looked at.

use std::ops::Range;

use cudnn::desc::{
    IndexType, OpTensorDescriptor, ReduceDescriptor, ReduceIndices, ReduceOp, SpatialTransformerDescriptor,
    TensorDescriptor, TransformDescriptor,
};
use cudnn::dtype::DataType;
use cudnn::exec::{Address, Context};
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::ops::add;
use cudnn::ops::op::Factors;
use cudnn::ops::reduce::workspace_size;
use cudnn::ops::spatial_transformer::SamplerPlan;
use cudnn::ops::{FillPlan, Number, OpPlan, Plan, ReducePlan, Scaling, TransformPlan};

use crate::double::{self, Memory};
use crate::memory::{self, fresh};

/// 9,413,600,000 elements, in rows that are no multiple of a vector; one image is more than 32 bits
/// count, too.
const DIMS: [i64; 4] = [2, CHANNELS as i64, SIDE as i64, SIDE as i64];
const CHANNELS: usize = 280;
const SIDE: usize = 4_100;
const PIXELS: usize = SIDE * SIDE;
const IMAGE: usize = CHANNELS * PIXELS;
const COUNT: usize = 2 * IMAGE;
const _: () = assert!(IMAGE > 1 << 32);

/// From the first image of the source to the second, in elements and bytes.
const FAR: usize = 5_000_000_000;

/// Blocks at each of the three places of a grid.
const BLOCKS: u32 = 3;

const TWICE: Scaling = Scaling { alpha: 2.0, beta: 0.0 };

/// Element `i` of a plane of the source: never 0, and of a period that fits no extent.
fn value(i: usize) -> u8 {
    1 + (i % 97) as u8
}

fn strided(dims: &[i64], strides: [usize; 4]) -> TensorDescriptor {
    let strides = strides.map(|stride| stride as i64);
    TensorDescriptor::with_strides(DataType::Uint8, 4, dims, &strides, Mode::Extended).expect("valid")
}

/// Packed, but by strides that no format may have, for they leave 32 bits.
fn nchw() -> TensorDescriptor {
    strided(&DIMS, [IMAGE, PIXELS, SIDE, 1])
}

fn nhwc() -> TensorDescriptor {
    strided(&DIMS, [IMAGE, 1, SIDE * CHANNELS, CHANNELS])
}

/// One byte free between rows.
fn with_gaps() -> TensorDescriptor {
    let plane = (SIDE + 1) * SIDE;
    strided(&DIMS, [CHANNELS * plane, plane, SIDE + 1, 1])
}

/// Two planes far apart, each of which serves all channels of an image.
fn far_planes(dims: &[i64]) -> TensorDescriptor {
    strided(dims, [FAR, 0, SIDE, 1])
}

/// The element of [`far_planes`] that element `i` of packed NCHW shows.
fn of_nchw(i: usize) -> u8 {
    value(i / IMAGE * 7 + i % PIXELS)
}

/// The same of packed NHWC.
fn of_nhwc(i: usize) -> u8 {
    value(i / IMAGE * 7 + i % IMAGE / CHANNELS)
}

/// The CUDA core, and what it reads.
struct Bench {
    cuda: Context,
    source: Memory,
}

impl Bench {
    fn new() -> Bench {
        double::use_device(0);
        let cuda = Context::create().expect("a handle");
        assert!(cuda.core_name().starts_with("cuda"), "{}", cuda.core_name());
        let source = Memory::untouched(FAR + PIXELS);
        for image in 0..2 {
            let plane: Vec<u8> = (0..PIXELS).map(|i| value(image * 7 + i)).collect();
            source.write_at(image * FAR, &plane);
        }
        double::sample(BLOCKS);
        Bench { cuda, source }
    }

    fn run(&self, plan: &dyn Plan, at: &[Address]) {
        // SAFETY: the descriptors span no more than the memory, on the device.
        unsafe { self.cuda.run(plan, at) }.expect("runs");
    }

    /// Transforms into memory that is still untouched.
    fn transform(&self, x: &TensorDescriptor, y: &TensorDescriptor, scaling: Scaling) -> Memory {
        let dst = Memory::untouched(y.size_in_bytes());
        let plan = TransformPlan::new(x, y, scaling, Mode::Extended).expect("a plan");
        self.run(&plan, &[dst.pointer().into(), self.source.pointer().into()]);
        dst
    }

    fn fill(&self, plan: &FillPlan, y: &Memory) {
        self.run(plan, &[y.pointer().into()]);
    }

    fn reduce(&self, plan: ReducePlan, a: &Memory, c: &Memory, index: Option<&Memory>, workspace: &Memory) {
        let index = index.map_or(Address::NULL, |index| index.pointer().into());
        let plan = plan.with_workspace(workspace.size);
        self.run(&plan, &[c.pointer().into(), index, a.pointer().into(), workspace.pointer().into()]);
    }
}

/// Bytes that a case takes at most: what all of them read, and a source and a destination of its
/// own.
const ROOM: usize = (FAR + PIXELS + 2 * COUNT).next_multiple_of(1 << 30);

/// Runs a case in a process of its own, which gives its memory back. It has to go through these
/// kernels.
fn case(kernels: &[&str], body: impl FnOnce(&Bench)) {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || {
        double::use_device(0);
        if !memory::has_room(ROOM, &"more than 2^32 elements") {
            return;
        }
        body(&Bench::new());
        for kernel in kernels {
            assert!(!double::is_idle(kernel), "{kernel} did not run");
        }
    });
}

/// Bytes of a page, and of each part that is looked at of memory that a real driver has as a whole.
const PAGE: usize = 4096;
const PART: usize = 16 * PAGE;

/// Which of the memory is worth a look, as offsets from its start: runs of pages that somebody has
/// touched; on a real driver, where they are all touched, those at the start, in the middle and at
/// the end.
fn looked_at(memory: &Memory) -> Vec<Range<usize>> {
    // Waits for what is queued.
    memory.read_at(0, &mut [0]);
    let size = memory.size;
    if double::is_real() {
        let [middle, last] = [size / 2, size.saturating_sub(PART)].map(|at| at / PAGE * PAGE);
        return match size > 4 * PART {
            true => vec![0..PART, middle..middle + PART, last..size],
            false => std::iter::once(0..size).collect(),
        };
    }
    let mut pages = vec![0_u8; size.div_ceil(PAGE)];
    // SAFETY: the memory is mapped, from the start of a page on, and there is a byte for each of
    // its pages.
    let code = unsafe { libc::mincore(memory.pointer(), size, pages.as_mut_ptr()) };
    assert_eq!(code, 0, "mincore");
    let runs = pages.chunk_by(|a, b| a & 1 == b & 1).scan(0, |from, run| {
        let start = *from;
        *from += run.len();
        Some((run[0] & 1 != 0, start * PAGE..(*from * PAGE).min(size)))
    });
    runs.filter_map(|(is_touched, run)| is_touched.then_some(run)).collect()
}

/// What the memory holds [where that is worth a look](looked_at), and at which offset.
fn touched(memory: &Memory) -> impl Iterator<Item = (usize, Vec<u8>)> {
    looked_at(memory).into_iter().map(|run| {
        let mut bytes = vec![0; run.len()];
        memory.read_at(run.start, &mut bytes);
        (run.start, bytes)
    })
}

/// Byte by byte, `before` says what is where nothing was written and else `want`, which is never
/// the same; the first byte, the last one and some in the middle are written. Gives the memory
/// back.
fn check(what: &str, memory: Memory, before: impl Fn(usize) -> u8, want: impl Fn(usize) -> Option<u8>) {
    let (mut written, mut first, mut last, mut middle) = (0, None, 0, false);
    for (start, bytes) in touched(&memory) {
        for (i, &got) in (start..).zip(&bytes).filter(|&(i, &got)| got != before(i)) {
            assert_eq!(Some(got), want(i), "{what}: byte {i}");
            first.get_or_insert(i);
            (written, last) = (written + 1, i);
            middle |= i > memory.size / 4 && i < memory.size / 4 * 3;
        }
    }
    assert_eq!((first, last, middle), (Some(0), memory.size - 1, true), "{what}: the places written");
    println!("{what}: {written} bytes of {} looked at", memory.size);
}

#[test]
fn transforms() {
    case(
        &["transpose_shifted_w1", "transpose_convert_any", "strided_w16_i64", "interleave_w1_c3"],
        |bench| {
            let x = far_planes(&DIMS);
            let dst = bench.transform(&x, &nchw(), Scaling::MOVE);
            check("planes", dst, fresh, |i| Some(of_nchw(i)));
            let dst = bench.transform(&x, &nhwc(), Scaling::MOVE);
            check("transpose", dst, fresh, |i| Some(of_nhwc(i)));
            let dst = bench.transform(&x, &nhwc(), TWICE);
            check("transpose and convert", dst, fresh, |i| Some(2 * of_nhwc(i)));
            // Few channels, and as many images as make up for it; they repeat the first of the
            // source.
            let dims = [90, 3, SIDE as i64, SIDE as i64];
            let (x, y) = (strided(&dims, [0, 0, SIDE, 1]), strided(&dims, [3 * PIXELS, 1, 3 * SIDE, 3]));
            let dst = bench.transform(&x, &y, Scaling::MOVE);
            assert!(dst.size > 1 << 32);
            check("interleave", dst, fresh, |i| Some(value(i / 3 % PIXELS)));
        },
    );
}

#[test]
fn transforms_with_gaps_and_padding() {
    case(&["strided_w1_i64", "convert_strided_i64", "set_w1_i64"], |bench| {
        let x = far_planes(&DIMS);
        let in_gaps = |i: usize| (i % (SIDE + 1) < SIDE).then(|| i / (SIDE + 1) * SIDE + i % (SIDE + 1));
        let dst = bench.transform(&x, &with_gaps(), Scaling::MOVE);
        check("rows apart", dst, fresh, |i| in_gaps(i).map(of_nchw));
        let dst = bench.transform(&x, &with_gaps(), TWICE);
        check("rows apart, converted", dst, fresh, |i| in_gaps(i).map(|i| 2 * of_nchw(i)));
        // A zero in front of every row.
        let mut map = TransformDescriptor::default();
        map.pad_before[3] = 1;
        let (dims, row) = ([DIMS[0], DIMS[1], DIMS[2], DIMS[3] + 1], SIDE + 1);
        let y = strided(&dims, [CHANNELS * SIDE * row, SIDE * row, row, 1]);
        let plan = TransformPlan::with_map(&map, &x, &y, Scaling::MOVE, Mode::Extended).expect("a plan");
        let dst = Memory::untouched(y.size_in_bytes());
        bench.run(&plan, &[dst.pointer().into(), bench.source.pointer().into()]);
        check("padded", dst, fresh, |i| {
            Some((i % row).checked_sub(1).map_or(0, |at| of_nchw(i / row * SIDE + at)))
        });
    });
}

/// Too many parts for launches of their own: every element looks for its source.
#[test]
fn folds_with_padding() {
    case(&["map_i64"], |bench| {
        // Five rows of padding, and columns, so that whole blocks are folded.
        const FOLD: usize = 5;
        const FOLDED: usize = SIDE / FOLD + 1;
        let mut map = TransformDescriptor::default();
        (map.fold[0], map.fold[1]) = (FOLD as u32, FOLD as u32);
        (map.pad_before[2], map.pad_before[3]) = (FOLD as i32, FOLD as i32);
        let (x, plane) = (far_planes(&DIMS), FOLDED * FOLDED);
        let channels = CHANNELS * FOLD * FOLD;
        let dims = [DIMS[0], channels as i64, FOLDED as i64, FOLDED as i64];
        for (what, strides) in [
            ("planes", [channels * plane, plane, FOLDED, 1]),
            ("pixels", [channels * plane, 1, FOLDED * channels, channels]),
        ] {
            let y = strided(&dims, strides);
            for scaling in [Scaling::MOVE, TWICE] {
                let plan = TransformPlan::with_map(&map, &x, &y, scaling, Mode::Extended).expect("a plan");
                let dst = Memory::untouched(y.size_in_bytes());
                bench.run(&plan, &[dst.pointer().into(), bench.source.pointer().into()]);
                check(&format!("folded to {what}"), dst, fresh, |i| {
                    let [channel, row, column] = [1, 2, 3].map(|k| i / strides[k] % dims[k] as usize);
                    let place = channel / CHANNELS;
                    let row = (row * FOLD + place / FOLD).checked_sub(FOLD);
                    let column = (column * FOLD + place % FOLD).checked_sub(FOLD);
                    let shown = row.zip(column).map(|(row, column)| row * SIDE + column);
                    let image = i / (channels * plane) * 7;
                    Some(shown.map_or(0, |at| scaling.alpha as u8 * value(image + at)))
                });
            }
        }
    });
}

/// The three places of a grid over `count` elements, and then some.
fn places(count: usize) -> Vec<Range<usize>> {
    const SOME: usize = 1 << 18;
    vec![0..SOME, count / 2 - SOME..count / 2 + SOME, count - SOME..count]
}

/// Memory of `count` bytes with values in these places, and what lies at `i` of it.
fn planted(count: usize, places: Vec<Range<usize>>) -> (Memory, impl Fn(usize) -> u8) {
    let memory = Memory::untouched(count);
    for place in &places {
        memory.write_at(place.start, &place.clone().map(value).collect::<Vec<u8>>());
    }
    let held =
        move |i: usize| if places.iter().any(|place| place.contains(&i)) { value(i) } else { fresh(i) };
    (memory, held)
}

#[test]
fn runs() {
    case(&["copy_w16", "set_run", "set_w1_i64", "convert_strided_i64"], |bench| {
        let (source, held) = planted(COUNT, places(COUNT));
        let (x, y) = (nchw(), nchw());
        let plan = TransformPlan::new(&x, &y, Scaling::MOVE, Mode::Extended).expect("a plan");
        let dst = Memory::untouched(COUNT);
        bench.run(&plan, &[dst.pointer().into(), source.pointer().into()]);
        check("copy", dst, fresh, |i| Some(held(i)));
        let plan = FillPlan::scale(&nchw(), 2.0, Mode::Extended).expect("a plan");
        bench.fill(&plan, &source);
        check("scale", source, &held, |i| Some(2 * held(i)));
        let set =
            |y: &TensorDescriptor| FillPlan::set(y, Number::Integer(7), Mode::Extended).expect("a plan");
        let dst = Memory::untouched(COUNT);
        bench.fill(&set(&nchw()), &dst);
        check("set", dst, fresh, |_| Some(7));
        let dst = Memory::untouched(with_gaps().size_in_bytes());
        bench.fill(&set(&with_gaps()), &dst);
        check("set with gaps", dst, fresh, |i| (i % (SIDE + 1) < SIDE).then_some(7));
    });
}

#[test]
fn sums_and_operations() {
    case(&["convert_strided_i64", "op_f32_i64"], |bench| {
        // The first values of the source.
        let bias = strided(&[1, CHANNELS as i64, 1, 1], [CHANNELS, 1, 1, 1]);
        for (what, c) in [("on planes", nchw()), ("on pixels", nhwc())] {
            let is_planes = c == nchw();
            let channel = |i: usize| if is_planes { i / PIXELS % CHANNELS } else { i % CHANNELS };
            let shown = |i: usize| if is_planes { of_nchw(i) } else { of_nhwc(i) };
            let scaling = Scaling { alpha: 1.0, beta: 1.0 };
            let plan = add::plan(&bias, &c, scaling, Mode::Extended).expect("a plan");
            let dst = Memory::untouched(COUNT);
            bench.run(plan.as_plan(), &[dst.pointer().into(), bench.source.pointer().into()]);
            check(&format!("bias {what}"), dst, fresh, |i| Some(value(channel(i)).saturating_add(fresh(i))));
            let (rule, factors) = (OpTensorDescriptor::default(), Factors { alpha: [1.0, 2.0], beta: 0.0 });
            let operands = [&far_planes(&DIMS), &bias, &c];
            let plan = OpPlan::new(&rule, operands, factors, false, Mode::Extended).expect("a plan");
            let dst = Memory::untouched(COUNT);
            let source = bench.source.pointer().into();
            bench.run(&plan, &[dst.pointer().into(), source, source]);
            check(&format!("operation {what}"), dst, fresh, |i| {
                // 291 at most: it saturates.
                Some(u8::try_from(u32::from(shown(i)) + 2 * u32::from(value(channel(i)))).unwrap_or(u8::MAX))
            });
        }
    });
}

#[test]
fn samples() {
    case(&["sample_bilinear_f32"], |bench| {
        // A thread has four channels; the first blocks have the first element of five parts, the
        // last ones have the last.
        const EDGE: usize = 1 << 11;
        const CHANNELS: usize = 640;
        let (dims, image) = ([2, CHANNELS as i64, EDGE as i64, EDGE as i64], CHANNELS * EDGE * EDGE);
        let count = 2 * image;
        assert_eq!(count, 4 * (5 << 28));
        let x = far_planes(&dims);
        // Every pixel at its own place, which rounding misses by less than what would change a
        // byte.
        let place = |i: usize| 2.0 * i as f32 / (EDGE - 1) as f32 - 1.0;
        let cells = (0..2 * EDGE * EDGE).flat_map(|at| [place(at % EDGE), place(at / EDGE % EDGE)]);
        let bytes: Vec<u8> = cells.flat_map(f32::to_ne_bytes).collect();
        let grid = Memory::untouched(bytes.len());
        grid.write_at(0, &bytes);
        let desc =
            SpatialTransformerDescriptor { data_type: DataType::Float, rank: 4, dims: Dims::new(&dims) };
        let plane = EDGE * EDGE;
        for (what, strides) in
            [("planes", [image, plane, EDGE, 1]), ("pixels", [image, 1, EDGE * CHANNELS, CHANNELS])]
        {
            let y = strided(&dims, strides);
            let plan = SamplerPlan::forward(&desc, &x, &y, Scaling::MOVE, Mode::Extended).expect("a plan");
            let dst = Memory::untouched(count);
            let source = bench.source.pointer().into();
            bench.run(&plan, &[dst.pointer().into(), source, grid.pointer().into()]);
            check(&format!("samples of {what}"), dst, fresh, |i| {
                let at = if what == "planes" { i % plane } else { i % image / CHANNELS };
                Some(value(i / image * 7 + at / EDGE * SIDE + at % EDGE))
            });
        }
    });
}

fn matrix(data_type: DataType, dims: [i64; 2]) -> TensorDescriptor {
    TensorDescriptor::with_strides(data_type, 2, &dims, &[dims[1], 1], Mode::Extended).expect("valid")
}

/// Sums of a matrix along one of its dimensions: outputs that were computed are exact, the first
/// and the last among them.
fn check_sums(bench: &Bench, a: &Memory, dims: [i64; 2], axis: usize, held: impl Fn(usize) -> u8) {
    let mut kept = dims;
    kept[axis] = 1;
    let (from, to) = (matrix(DataType::Uint8, dims), matrix(DataType::Float, kept));
    let plan = ReducePlan::new(&ReduceDescriptor::default(), &from, &to, Scaling::MOVE, Mode::Extended)
        .expect("a plan");
    let c = Memory::untouched(to.size_in_bytes());
    bench.reduce(plan, a, &c, None, &Memory::untouched(1));
    let (outputs, steps) = (kept[1 - axis] as usize, [dims[1] as usize, 1]);
    let mut written = vec![];
    for (start, bytes) in touched(&c) {
        for (j, cell) in (start / 4..).zip(bytes.chunks(4)) {
            if (0..4).all(|k| cell[k] == fresh(4 * j + k)) {
                continue;
            }
            let elements = (0..dims[axis] as usize).map(|k| held(j * steps[1 - axis] + k * steps[axis]));
            // Whole numbers below 2^24.
            let want = elements.map(u32::from).sum::<u32>() as f32;
            assert_eq!(cell, want.to_ne_bytes(), "output {j} of {dims:?} along {axis}");
            written.push(j);
        }
    }
    assert_eq!((written.first(), written.last()), (Some(&0), Some(&(outputs - 1))), "{dims:?} along {axis}");
    println!("{} outputs of {outputs} looked at", written.len());
}

#[test]
fn reductions_along_rows_and_columns() {
    case(&["reduce_blocks_f32", "reduce_rows_f32"], |bench| {
        let dims = [70_000, 62_000];
        let count = 70_000 * 62_000;
        assert!(count > 1 << 32);
        let (a, held) = planted(count, places(count));
        check_sums(bench, &a, dims, 1, held);
        let columns = count / 70;
        let near = |row: usize| {
            let row = row * columns;
            [row..row + 256, row + columns / 2..row + columns / 2 + 256, row + columns - 256..row + columns]
        };
        let (a, held) = planted(count, (0..70).flat_map(near).collect());
        check_sums(bench, &a, [70, columns as i64], 0, held);
    });
}

/// The chunks of the reduction that are not run say by the workspace that they hold nothing.
#[test]
fn a_reduction_of_everything_with_its_index() {
    case(&["reduce_blocks_indexed_f32", "reduce_chunks_indexed_f32"], |bench| {
        let dims = [70_000, 62_000];
        let (from, to) = (matrix(DataType::Uint8, dims), matrix(DataType::Uint8, [1, 1]));
        let rule = ReduceDescriptor {
            op: ReduceOp::Max,
            indices: ReduceIndices::Flattened,
            index_type: IndexType::Bits64,
            ..ReduceDescriptor::default()
        };
        let plan = ReducePlan::new(&rule, &from, &to, Scaling::MOVE, Mode::Extended).expect("a plan");
        let size = workspace_size(&rule, &from, &to, Mode::Extended);
        // A number and an index for each chunk, on 16 bytes.
        let mut nothing = [0; 8];
        nothing[..4].copy_from_slice(&f32::NEG_INFINITY.to_ne_bytes());
        let nothing = [nothing, i64::MAX.to_ne_bytes()].concat();
        assert!(size > 256 * nothing.len(), "{size} bytes are not many chunks");
        let count = dims[0] * dims[1];
        let a = Memory::untouched(count as usize);
        // Larger than what fresh memory holds: in one of the first chunks, the middle ones, the
        // last ones.
        for largest in [0, 4_321_000, count / 2 + (1 << 23), count - 1] {
            a.write_at(largest as usize, &[0xEE]);
            let workspace = Memory::new(&nothing.repeat(size / nothing.len()));
            let (c, index) = (Memory::new(&[0]), Memory::new(&[0; 8]));
            bench.reduce(plan, &a, &c, Some(&index), &workspace);
            assert_eq!((c.read(), index.read()), (vec![0xEE], largest.to_ne_bytes().to_vec()));
            a.write_at(largest as usize, &[0]);
        }
    });
}
