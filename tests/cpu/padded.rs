//! Blocks with zeros behind their cells: bit for bit what the reference makes of the two parts,
//! every zero written and nothing else touched; and plans that write each scalar of a blocked
//! destination once.

use cudnn::backend::{Isa, Machine, Operands, kernels, reference, run_by};
use cudnn::desc::{Format, TensorDescriptor, TransformDescriptor};
use cudnn::dtype::{DataType, Scalar};
use cudnn::layout::{Axis, LoopNest};
use cudnn::mode::Mode;
use cudnn::ops::{Padded, Scaling, Step, TransformPlan};

use testkit::random::Rng;

/// What the destination holds before: not a number in every floating type.
const POISON: u8 = 0xff;

/// Bytes left free before and after the cells of a tensor.
const GUARD: usize = 192;

/// Bytes of which the first cell lies `shift` bytes behind a cache line.
struct Memory {
    words: Vec<u128>,
    start: usize,
    len: usize,
}

impl Memory {
    fn new(bytes: usize, shift: usize, mut byte: impl FnMut() -> u8) -> Memory {
        let mut words = vec![0; (bytes + 2 * GUARD + 192).div_ceil(16)];
        words.iter_mut().for_each(|word| *word = u128::from_ne_bytes(std::array::from_fn(|_| byte())));
        let start = words.as_ptr().cast::<u8>().align_offset(64) + GUARD + shift;
        Memory { words, start, len: bytes }
    }

    fn ptr(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast::<u8>().wrapping_add(self.start)
    }

    /// The bytes of the tensor between those of its guard.
    fn bytes(&self) -> &[u8] {
        let first = self.words.as_ptr().cast::<u8>().wrapping_add(self.start - GUARD);
        // SAFETY: bytes of the vector, which is longer by the largest shift and the distance to a
        // cache line.
        unsafe { std::slice::from_raw_parts(first, self.len + 2 * GUARD) }
    }
}

/// How the source of the blocks lies.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// One row per cell of a block, as NCHW has it.
    Rows,
    /// The cells of a block side by side, as NHWC and other blocks have it.
    Neighbours,
    /// Neither, and backwards.
    Strided,
}

/// `images` times `blocks` blocks of `present` cells and zeros up to `block`; between images of the
/// destination lie as many scalars that belong to nobody.
fn padded(
    [dst, src]: [Scalar; 2], [images, blocks, block, present]: [i64; 4], source: Source, alpha: f64,
) -> (Padded, [usize; 2]) {
    let image = present * blocks;
    let (outer, next_block, next_cell, start) = match source {
        Source::Rows => (image, 1, blocks, 0),
        Source::Neighbours => (image, present, 1, 0),
        Source::Strided => (3 * image, -3, 3 * blocks, 3 * (blocks - 1)),
    };
    let axes = [
        Axis { extent: images, strides: [2 * blocks * block, outer] },
        Axis { extent: blocks, strides: [block, next_block] },
    ];
    let padded = Padded {
        blocks: LoopNest::new(&axes, [0, start]).canonical(),
        cells: Axis { extent: present, strides: [1, next_cell] },
        zeros: block - present,
        dst,
        src,
        alpha,
    };
    let reach = if matches!(source, Source::Strided) { 3 } else { 1 };
    (padded, [(2 * images * blocks * block) as usize, (reach * images * image) as usize])
}

/// Runs the problem by every kernel that accepts it, at every level and with one and two threads;
/// the expectation is the reference's, and for moves also put together cell by cell.
fn check(padded: &Padded, sizes: [usize; 2], shift: usize, rng: &mut Rng) -> usize {
    let cells = [padded.dst.size(), padded.src.size()];
    let mut src = Memory::new(sizes[1] * cells[1], 0, || rng.word() as u8);
    let fresh = || Memory::new(sizes[0] * cells[0], shift, || POISON);
    let mut want = fresh();
    let operands = Operands { dst: want.ptr(), src: src.ptr() };
    // SAFETY: both buffers hold every offset of the problem.
    unsafe { reference::run(Step::Padded(padded), &operands.addresses()) }.expect("the reference takes all");
    if padded.dst == padded.src && padded.alpha == 1.0 {
        assert!(by_hand(padded, &mut src, fresh()) == want.bytes(), "the reference: {padded}");
    }
    let mut runs = 0;
    for isa in Isa::available() {
        for threads in 1..=2 {
            let (step, machine) = (Step::Padded(padded), Machine { isa, threads });
            for name in kernels(step, machine) {
                let mut got = fresh();
                let at = Operands { dst: got.ptr(), src: src.ptr() }.addresses();
                // SAFETY: as above.
                unsafe { run_by(name, step, &at, machine) }.expect("it runs");
                assert!(got.bytes() == want.bytes(), "{name} on {machine:?} +{shift}: {padded}");
                runs += 1;
            }
        }
    }
    runs
}

/// A move, cell by cell, over poisoned memory.
fn by_hand(padded: &Padded, src: &mut Memory, mut dst: Memory) -> Vec<u8> {
    let size = padded.dst.size();
    let (to, from) = (dst.ptr(), src.ptr());
    padded.blocks.for_each(|[d, s]| {
        for i in 0..padded.cells.extent + padded.zeros {
            let to = to.wrapping_offset((d + i) as isize * size as isize);
            let from = from.wrapping_offset((s + i * padded.cells.strides[1]) as isize * size as isize);
            // SAFETY: both buffers hold every offset of the problem.
            unsafe {
                if i < padded.cells.extent {
                    to.copy_from_nonoverlapping(from, size);
                } else {
                    to.write_bytes(0, size);
                }
            }
        }
    });
    dst.bytes().to_vec()
}

#[test]
fn moves_of_every_width_fill_blocks_of_every_size() {
    let mut rng = Rng(1);
    let mut runs = 0;
    for scalar in [Scalar::I8, Scalar::F16, Scalar::F32, Scalar::F64] {
        for block in [2, 3, 4, 5, 8, 16, 24, 32, 64] {
            for present in 1..block {
                for source in [Source::Rows, Source::Neighbours, Source::Strided] {
                    let blocks = rng.pick(&[1, 2, 3, 7, 8, 15, 16, 17, 33, 70]);
                    let shift = rng.pick(&[0, 8, 16, 24, 32, 64]);
                    let (padded, sizes) = padded([scalar; 2], [3, blocks, block, present], source, 1.0);
                    runs += check(&padded, sizes, shift, &mut rng);
                }
            }
        }
    }
    println!("{runs} runs");
    assert!(runs > 1000);
}

#[test]
fn conversions_and_factors_keep_zeros_exact() {
    let mut rng = Rng(2);
    for dst in Scalar::ALL {
        for src in Scalar::ALL {
            // Zeros are zeros, whatever the factor would make of them.
            for alpha in [1.0, -0.75, f64::NEG_INFINITY, f64::NAN] {
                let block = rng.pick(&[4, 8, 16, 32]);
                let present = 1 + rng.below(block as usize - 1) as i64;
                let source = rng.pick(&[Source::Rows, Source::Neighbours, Source::Strided]);
                let blocks = rng.pick(&[5, 64, 601]);
                let (padded, sizes) = padded([dst, src], [2, blocks, block, present], source, alpha);
                check(&padded, sizes, rng.pick(&[0, 8]), &mut rng);
            }
        }
    }
}

#[test]
fn blocks_longer_than_any_buffer_run_as_two_parts() {
    let mut rng = Rng(3);
    let (padded, sizes) = padded([Scalar::F32; 2], [2, 5, 3000, 2999], Source::Rows, 1.0);
    assert_eq!(kernels(Step::Padded(&padded), Machine::host()), ["padded_in_two_passes"]);
    check(&padded, sizes, 0, &mut rng);
}

#[test]
fn large_results_are_the_same_for_any_threads_and_alignment() {
    let mut rng = Rng(4);
    let threaded = |scalar: Scalar, block| 300_000 / (block * scalar.size() as i64) + 3;
    for (scalar, block, present) in [
        (Scalar::F32, 16, 1),
        (Scalar::F32, 16, 15),
        (Scalar::F32, 8, 3),
        (Scalar::I8, 4, 3),
        (Scalar::I8, 32, 9),
        (Scalar::F16, 32, 8),
    ] {
        for shift in [0, 8] {
            let shape = [2, threaded(scalar, block), block, present];
            let (padded, sizes) = padded([scalar; 2], shape, Source::Rows, 1.0);
            check(&padded, sizes, shift, &mut rng);
        }
    }
    // Larger than the caches, so that lines are written past them.
    for (types, block, present, source, shift) in [
        ([Scalar::F32; 2], 16, 1, Source::Rows, 0),
        ([Scalar::F32; 2], 16, 7, Source::Rows, 16),
        ([Scalar::F16; 2], 8, 3, Source::Rows, 0),
        ([Scalar::I8, Scalar::F32], 32, 5, Source::Neighbours, 8),
    ] {
        let blocks = (17 << 20) / (block * types[0].size() as i64) / 2;
        let (padded, sizes) = padded(types, [2, blocks, block, present], source, 1.0);
        check(&padded, sizes, shift, &mut rng);
    }
}

/// How often the problems of a plan write each scalar of the destination, and how many of them are
/// padded blocks.
fn written(plan: &TransformPlan, scalars: usize) -> (Vec<u8>, usize) {
    let (mut times, mut padded) = (vec![0; scalars], 0);
    let outcome = plan.for_each(&mut |problem| {
        padded += usize::from(matches!(problem, Step::Padded(_)));
        let mut count = |offset: i64| times[offset as usize] += 1;
        match problem {
            Step::Transform(part) => part.nest.for_each(|[dst, _]| count(dst)),
            Step::Scale(part) => part.nest.for_each(|[dst]| count(dst)),
            Step::Padded(part) => {
                part.transform().nest.for_each(|[dst, _]| count(dst));
                part.fill().nest.for_each(|[dst]| count(dst));
            }
            other => panic!("no part of a transform: {other}"),
        }
        Ok(())
    });
    outcome.expect("nothing fails");
    (times, padded)
}

#[test]
fn blocked_destinations_are_written_once_whatever_the_channels() {
    let mut seen = 0;
    for block in [4, 8, 16] {
        for channels in 1..40 {
            for from in [Format::Nchw, Format::Nhwc, Format::Blocked(8), Format::Blocked(32)] {
                for scaling in [Scaling::MOVE, Scaling { alpha: 2.0, beta: 0.5 }] {
                    let dims = [2, channels, 3, 5];
                    let tensor = |format| {
                        TensorDescriptor::with_format(DataType::Float, format, 4, &dims, Mode::Extended)
                            .expect("valid")
                    };
                    let (x, y) = (tensor(from), tensor(Format::Blocked(block)));
                    let plan = TransformPlan::new(&x, &y, scaling, Mode::Extended).expect("a plan");
                    let scalars = 2 * 15 * ((channels + block - 1) / block * block);
                    let (times, padded) = written(&plan, scalars as usize);
                    assert!(times.iter().all(|&n| n == 1), "{plan}");
                    let plain = matches!(from, Format::Nchw | Format::Nhwc);
                    if plain {
                        let expected = channels % block != 0 && scaling.beta == 0.0;
                        assert_eq!(padded, usize::from(expected), "{plan}");
                    }
                    seen += padded;
                }
            }
        }
    }
    assert!(seen > 200, "only {seen} padded problems");
}

#[test]
fn channels_padded_up_to_a_vector_are_written_with_their_zeros() {
    let mut seen = 0;
    for (channels, before, after, space) in
        [(3, 0, 1, 0), (5, 0, 3, 0), (3, 0, 5, 1), (2, 1, 1, 0), (7, -1, 2, 2), (6, 0, 6, -1), (1, 2, 1, 1)]
    {
        for beta in [0.0, 0.5] {
            let x = TensorDescriptor::with_format(
                DataType::Int8,
                Format::Nchw,
                4,
                &[2, channels, 4, 6],
                Mode::Extended,
            )
            .expect("valid");
            let padded_channels = channels + before + after;
            assert_eq!(padded_channels % 4, 0);
            let dims = [2, padded_channels, 4 + 2 * space, 6];
            let y =
                TensorDescriptor::with_format(DataType::Int8x4, Format::NchwVectC, 4, &dims, Mode::Extended)
                    .expect("valid");
            let mut map = TransformDescriptor::default();
            map.pad_before[1] = before as i32;
            map.pad_after[1] = after as i32;
            map.pad_before[2] = space as i32;
            map.pad_after[2] = space as i32;
            let scaling = Scaling { alpha: 1.0, beta };
            let plan = TransformPlan::with_map(&map, &x, &y, scaling, Mode::Extended).expect("a plan");
            let (times, padded) = written(&plan, dims.iter().product::<i64>() as usize);
            assert!(times.iter().all(|&n| n == 1), "{plan}");
            if beta != 0.0 {
                assert_eq!(padded, 0, "{plan}");
            }
            seen += padded;
        }
    }
    assert!(seen > 3, "only {seen} padded problems");
}
