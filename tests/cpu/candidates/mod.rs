//! Every candidate of the CPU core against the reference loop, bit for bit, at every instruction
//! set level of this processor, with guard bytes around and between the cells.

use std::collections::BTreeMap;

use cudnn::backend::{Isa, Machine, Operands, kernels, reference, run, run_by};
use cudnn::dtype::Scalar;
use cudnn::dtype::convert::{E4m3, E5m2, Element, convert};
use cudnn::layout::{Axis, LoopNest};
use cudnn::ops::{Scale, Scaling, Step, Transform};
use half::{bf16, f16};

mod chosen;
mod conflicting;
mod streamed;
mod transposes;

use chosen::{accepting, picked, transforms};
use testkit::random::Rng;

/// Scalars left free before and after the cells of a tensor: the guard.
const GUARD: i64 = 9;

/// Bytes at an address that no vector register is aligned to, but every scalar is.
#[derive(Clone, PartialEq)]
struct Memory {
    words: Vec<u64>,
}

impl Memory {
    fn new(bytes: usize) -> Self {
        Memory { words: vec![0; bytes.div_ceil(8) + 1] }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let len = (self.words.len() - 1) * 8;
        // SAFETY: the bytes of the vector but the first 8.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().add(1).cast(), len) }
    }

    fn ptr(&mut self) -> *mut u8 {
        self.bytes().as_mut_ptr()
    }

    /// Arbitrary bits among values that conversions treat with care.
    fn randomise(&mut self, scalar: Scalar, rng: &mut Rng) {
        let size = scalar.size();
        for cell in self.bytes().chunks_exact_mut(size) {
            let x =
                rng.pick(&[0.0, -0.0, 0.5, 1.5, -2.5, 100.0, 300.0, 65519.0, 65520.0, -1e-8, 3e9, f64::NAN]);
            let bits = match rng.below(3) {
                0 => rng.word(),
                1 => (rng.word() % 41).wrapping_sub(20),
                _ => match scalar {
                    Scalar::F32 => convert::<f64, f32>(x).to_bits().into(),
                    Scalar::F64 => x.to_bits(),
                    Scalar::F16 => convert::<f64, f16>(x).to_bits().into(),
                    Scalar::Bf16 => convert::<f64, bf16>(x).to_bits().into(),
                    Scalar::E4m3 => convert::<f64, E4m3>(x).to_bits(),
                    Scalar::E5m2 => convert::<f64, E5m2>(x).to_bits(),
                    _ => convert::<f64, i64>(x) as u64,
                },
            };
            cell.copy_from_slice(&bits.to_le_bytes()[..size]);
        }
    }
}

/// Strides of a dense layout with `order[0]` outermost and up to `gap` scalars of padding per axis.
fn strides(extents: &[i64], order: &[usize], gap: usize, rng: &mut Rng) -> Vec<i64> {
    let mut strides = vec![0; extents.len()];
    let mut step = 1;
    for &axis in order.iter().rev() {
        strides[axis] = step;
        step *= extents[axis];
        if gap > 0 {
            step += rng.below(gap + 1) as i64;
        }
    }
    strides
}

/// A nest that starts behind its guard, and the scalars each operand needs with the guard behind
/// it.
fn guarded<const N: usize>(axes: &[Axis<N>]) -> (LoopNest<N>, [usize; N]) {
    let mut nest = LoopNest::new(axes, [0; N]);
    let spans: [(i64, i64); N] = std::array::from_fn(|k| nest.span(k).expect("small"));
    nest.offsets = std::array::from_fn(|k| GUARD - spans[k].0);
    (nest.canonical(), spans.map(|(low, high)| (high - low + 1 + 2 * GUARD) as usize))
}

fn random_nest(rng: &mut Rng) -> (LoopNest<2>, [usize; 2]) {
    const EXTENTS: [i64; 14] = [1, 2, 3, 3, 4, 5, 7, 8, 13, 16, 17, 33, 64, 70];
    let rank = 1 + rng.below(4);
    let mut extents: Vec<i64> = (0..rank).map(|_| rng.pick(&EXTENTS)).collect();
    while extents.iter().product::<i64>() > 2500 {
        let i = rng.below(rank);
        extents[i] = 1 + extents[i] / 2;
    }
    let (dst_order, src_order) = (rng.order(rank), rng.order(rank));
    let src_order = if rng.below(4) == 0 { dst_order.clone() } else { src_order };
    let gap = rng.pick(&[0, 0, 3]);
    let dst = strides(&extents, &dst_order, gap, rng);
    let mut src = strides(&extents, &src_order, rng.pick(&[0, 0, gap]), rng);
    if rng.below(4) == 0 {
        src.iter_mut().for_each(|s| *s *= rng.pick(&[1, -1, 0, 2]));
    }
    let axes: Vec<_> = (0..rank).map(|i| Axis { extent: extents[i], strides: [dst[i], src[i]] }).collect();
    guarded(&axes)
}

/// Runs one problem with the reference and with every candidate that takes it, at every level;
/// counts the runs of each candidate, with a `*` for the one that would be picked.
fn check(
    transform: &Transform, sizes: [usize; 2], threads: &[usize], rng: &mut Rng,
    counts: &mut BTreeMap<(String, &'static str), usize>,
) {
    let mut src = Memory::new(sizes[1] * transform.src.size());
    src.randomise(transform.src, rng);
    let mut before = Memory::new(sizes[0] * transform.dst.size());
    if transform.scaling.beta == 0.0 {
        // Not a number in every float type: it must neither be read nor touched between the cells.
        before.bytes().fill(0xff);
    } else {
        before.randomise(transform.dst, rng);
    }
    let mut want = before.clone();
    let operands = Operands { dst: want.ptr(), src: src.ptr() };
    // SAFETY: `guarded` sized both buffers for every offset of the nest.
    unsafe { reference::run(Step::Transform(transform), &operands.addresses()) }
        .expect("the reference takes all");
    let picked = picked(transform);
    for name in accepting(transform) {
        for isa in Isa::available() {
            for &threads in threads {
                let mut got = before.clone();
                let operands = Operands { dst: got.ptr(), src: src.ptr() };
                // SAFETY: as above.
                unsafe {
                    run_by(name, Step::Transform(transform), &operands.addresses(), Machine { isa, threads })
                }
                .expect("it accepted");
                assert!(
                    got == want,
                    "{} at {} with {threads} threads: {:?} <- {:?} {:?} {}",
                    name,
                    isa.name(),
                    transform.dst,
                    transform.src,
                    transform.scaling,
                    transform.nest
                );
            }
            *counts.entry((name.into(), isa.name())).or_default() += 1;
            if name == picked {
                *counts.entry((format!("*{picked}"), isa.name())).or_default() += 1;
            }
        }
    }
}

/// Fails unless each candidate ran at each level, and was picked there but for the last resort.
fn assert_all_ran(counts: &BTreeMap<(String, &'static str), usize>) {
    for isa in Isa::available() {
        for name in transforms() {
            let count = |name: String| counts.get(&(name, isa.name())).copied().unwrap_or(0);
            let (ran, picked) = (count(name.into()), count(format!("*{name}")));
            println!("{name:10} {:8} ran {ran:6}, picked {picked:6}", isa.name());
            assert!(ran > 0, "{name} never ran at {}", isa.name());
            assert!(picked > 0 || name == "reference", "{name} never picked at {}", isa.name());
        }
    }
}

#[test]
fn candidates_equal_the_reference_for_every_pair_of_types() {
    let mut counts = BTreeMap::new();
    let mut rng = Rng(1);
    for dst in Scalar::ALL {
        for src in Scalar::ALL {
            for (alpha, beta) in [(1.0, 0.0), (-0.75, 0.0), (0.0, 0.0), (1.0, 1.0), (2.5, -0.5)] {
                for _ in 0..4 {
                    let (nest, sizes) = random_nest(&mut rng);
                    let transform = Transform { nest, dst, src, scaling: Scaling { alpha, beta } };
                    check(&transform, sizes, &[1], &mut rng, &mut counts);
                }
            }
        }
    }
    // Moves have the most special cases.
    for scalar in Scalar::ALL {
        for _ in 0..150 {
            let (nest, sizes) = random_nest(&mut rng);
            let transform = Transform { nest, dst: scalar, src: scalar, scaling: Scaling::MOVE };
            check(&transform, sizes, &[1], &mut rng, &mut counts);
        }
    }
    assert_all_ran(&counts);
}

/// An element of a nest by extents and strides, outermost first.
fn nest(axes: &[(i64, i64, i64)]) -> (LoopNest<2>, [usize; 2]) {
    let axes: Vec<_> = axes.iter().map(|&(extent, dst, src)| Axis { extent, strides: [dst, src] }).collect();
    guarded(&axes)
}

#[test]
fn large_problems_are_the_same_for_any_number_of_threads() {
    let mut counts = BTreeMap::new();
    let mut rng = Rng(2);
    let pixels = 301 * 307;
    type Loops<'a> = &'a [(i64, i64, i64)];
    let shapes: [(&str, Loops); 12] = [
        ("copy", &[(300_007, 1, 1)]),
        ("repeat", &[(101, 3001, 1), (3001, 1, 0)]),
        ("repeat", &[(3001, 101, 0), (101, 1, 1)]),
        ("transform_rows", &[(3, 101_000, 100_100), (100_003, 1, 1)]),
        ("transform_rows", &[(7, 501 * 61, 511 * 61), (501, 61, 67), (61, 1, 1)]),
        ("transform_rows", &[(7, 501 * 73, 511 * 61), (501, 67, 61), (61, 1, 1)]),
        ("interleave", &[(pixels, 3, 1), (3, 1, pixels)]),
        ("interleave", &[(3, pixels, 1), (pixels, 1, 3)]),
        ("transpose", &[(2, 64 * 1601, 64 * 1601), (1601, 64, 1), (64, 1, 1601)]),
        ("repeat", &[(7, 30_011, 1), (30_011, 1, 0)]),
        ("repeat", &[(60_013, 3, 0), (3, 1, 1)]),
        ("transform_strided", &[(401, 701, 0), (350, 2, -3)]),
    ];
    for (name, axes) in shapes {
        let (nest, sizes) = nest(axes);
        for (dst, src, alpha, beta) in [
            (Scalar::F32, Scalar::F32, 1.0, 0.0),
            (Scalar::F16, Scalar::F32, 0.5, 0.0),
            (Scalar::F32, Scalar::I8, 1.0, 2.0),
        ] {
            let transform = Transform { nest, dst, src, scaling: Scaling { alpha, beta } };
            let want = if name == "copy" && dst != src { "transform_rows" } else { name };
            assert_eq!(picked(&transform), want, "{nest}");
            check(&transform, sizes, &[1, 2, 3], &mut rng, &mut counts);
        }
    }
    assert_all_ran(&counts);
}

#[test]
fn short_rows_of_every_length_and_pitch_equal_the_reference() {
    let mut counts = BTreeMap::new();
    let mut rng = Rng(5);
    for bytes in (1..=200).chain([255, 256, 257, 511, 2047, 2048, 2049]) {
        for (dst_gap, src_gap) in [(0, 3), (5, 0), (1, 70), (0, 64)] {
            let rows = 1 + rng.below(100) as i64;
            let (nest, sizes) = nest(&[
                (3, rows * (bytes + dst_gap) + 11, rows * (bytes + src_gap) + 7),
                (rows, bytes + dst_gap, bytes + src_gap),
                (bytes, 1, 1),
            ]);
            for src in [Scalar::U8, Scalar::F32] {
                let transform = Transform { nest, dst: Scalar::U8, src, scaling: Scaling::MOVE };
                check(&transform, sizes, &[1], &mut rng, &mut counts);
            }
        }
    }
    // All but the shortest, which are moved as wider cells or are strided.
    for isa in Isa::available() {
        let picked = counts[&("*transform_rows".to_owned(), isa.name())];
        assert!(picked > 1500, "rows were picked {picked} times at {}", isa.name());
    }
}

#[test]
fn rows_of_every_length_convert_as_the_reference_does() {
    let mut counts = BTreeMap::new();
    let mut rng = Rng(29);
    let scalars = [Scalar::F32, Scalar::F16, Scalar::Bf16, Scalar::I8, Scalar::U8];
    for n in 1..=70 {
        let (nest, sizes) = nest(&[(2, n + 3, n + 1), (n, 1, 1)]);
        for src in scalars {
            for dst in scalars {
                for (alpha, beta) in [(1.0, 0.0), (3.0, 0.0), (-0.5, 2.0)] {
                    let transform = Transform { nest, dst, src, scaling: Scaling { alpha, beta } };
                    check(&transform, sizes, &[1], &mut rng, &mut counts);
                }
            }
        }
    }
    for isa in Isa::available() {
        let picked = counts[&("*transform_rows".to_owned(), isa.name())];
        assert!(picked > 3500, "rows were picked {picked} times at {}", isa.name());
    }
}

#[test]
fn rows_convert_every_short_float_as_the_reference_does() {
    let mut counts = BTreeMap::new();
    let (nest, sizes) = nest(&[(65536, 1, 1)]);
    for src in [Scalar::F16, Scalar::Bf16] {
        for dst in Scalar::ALL {
            for scaling in [Scaling::MOVE, Scaling { alpha: 3.0, beta: 0.0 }] {
                let transform = Transform { nest, dst, src, scaling };
                let mut x = Memory::new(sizes[1] * 2);
                for (i, cell) in x.bytes().chunks_exact_mut(2).enumerate() {
                    cell.copy_from_slice(&(i as u16).to_le_bytes());
                }
                let mut want = Memory::new(sizes[0] * dst.size());
                let operands = Operands { dst: want.ptr(), src: x.ptr() };
                // SAFETY: `guarded` sized both buffers.
                unsafe { reference::run(Step::Transform(&transform), &operands.addresses()) }
                    .expect("takes all");
                for isa in Isa::available() {
                    let mut got = Memory::new(sizes[0] * dst.size());
                    let operands = Operands { dst: got.ptr(), src: x.ptr() };
                    let (step, machine) = (Step::Transform(&transform), Machine { isa, threads: 1 });
                    // SAFETY: as above.
                    unsafe { run(step, &operands.addresses(), false, machine) }.expect("accepted");
                    assert!(got == want, "{dst:?} <- {src:?} at {}", isa.name());
                    *counts.entry(picked(&transform)).or_insert(0) += 1;
                }
            }
        }
    }
    assert!(counts["transform_rows"] > 0 && counts["copy"] > 0);
}

/// The processor's own rounding to bfloat16 takes denormal numbers for zeros and keeps parts of
/// NaNs.
#[test]
fn floats_round_to_bfloat16_in_lines_with_and_without_odd_ones() {
    const LINE: usize = 32;
    let lows = [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff];
    let every_upper_half = (0..=u16::MAX).flat_map(|high| lows.map(|low| u32::from(high) << 16 | low));
    let odd = [1, 0x8000_8000, 0x007f_ffff, 0x7f80_0001, 0xffc0_1234, 0x7f80_0000];
    let one_odd = odd.iter().flat_map(|&odd| {
        (0..LINE * LINE).map(move |i| if i / LINE == i % LINE { odd } else { 0x3f7f_8000 + i as u32 })
    });
    let cells: Vec<u32> = every_upper_half.chain(one_odd).collect();
    let (nest, sizes) = nest(&[(cells.len() as i64, 1, 1)]);
    let mut src = Memory::new(sizes[1] * 4);
    for (to, cell) in src.bytes().chunks_exact_mut(4).zip(cells) {
        to.copy_from_slice(&cell.to_le_bytes());
    }
    for alpha in [1.0, 3.0, 0.25] {
        let scaling = Scaling { alpha, beta: 0.0 };
        let transform = Transform { nest, dst: Scalar::Bf16, src: Scalar::F32, scaling };
        let step = Step::Transform(&transform);
        assert_eq!(picked(&transform), "transform_rows");
        let mut want = Memory::new(sizes[0] * 2);
        let operands = Operands { dst: want.ptr(), src: src.ptr() };
        // SAFETY: `guarded` sized both buffers.
        unsafe { reference::run(Step::Transform(&transform), &operands.addresses()) }.expect("takes all");
        for isa in Isa::available() {
            let mut got = Memory::new(sizes[0] * 2);
            let operands = Operands { dst: got.ptr(), src: src.ptr() };
            // SAFETY: as above.
            unsafe { run(step, &operands.addresses(), false, Machine { isa, threads: 1 }) }
                .expect("accepted");
            assert!(got == want, "times {alpha} at {}", isa.name());
        }
    }
}

#[test]
fn in_place_problems_read_each_cell_before_they_write_it() {
    let mut rng = Rng(3);
    let mut runs = 0;
    let same_size = |a: Scalar, b: Scalar| a.size() == b.size();
    for dst in Scalar::ALL {
        for src in Scalar::ALL.into_iter().filter(|&s| same_size(s, dst)) {
            for ((alpha, beta), is_row) in
                [(1.0, 0.0), (0.5, 0.0), (1.0, -2.0)].into_iter().flat_map(|s| [(s, false), (s, true)])
            {
                let length = 1 + rng.below(70) as i64;
                let (apart, _) =
                    if is_row { nest(&[(3, length + 1, 0), (length, 1, 0)]) } else { random_nest(&mut rng) };
                let axes: Vec<_> = apart
                    .axes()
                    .iter()
                    .map(|a| Axis { extent: a.extent, strides: [a.strides[0]; 2] })
                    .collect();
                let (nest, sizes) = guarded(&axes);
                let transform = Transform { nest, dst, src, scaling: Scaling { alpha, beta } };
                let mut before = Memory::new(sizes[0] * dst.size());
                before.randomise(src, &mut rng);
                let mut want = before.clone();
                let p = want.ptr();
                // SAFETY: `guarded` sized the buffer, and each cell is its own source.
                unsafe { reference::run(Step::Transform(&transform), &[p.into(); 2]) }.expect("takes all");
                for name in accepting(&transform) {
                    for isa in Isa::available() {
                        let mut got = before.clone();
                        let p = got.ptr();
                        let (step, machine) = (Step::Transform(&transform), Machine { isa, threads: 2 });
                        // SAFETY: as above.
                        unsafe { run_by(name, step, &[p.into(); 2], machine) }.expect("accepted");
                        assert!(got == want, "{name} {dst:?} <- {src:?} {nest}");
                        runs += 1;
                    }
                }
            }
        }
    }
    assert!(runs > 1000, "only {runs} runs");
}

#[test]
fn fills_equal_the_reference() {
    let mut rng = Rng(4);
    for dst in Scalar::ALL {
        for beta in [0.0, 1.0, -0.5] {
            for round in 0..12 {
                let (two, _) = random_nest(&mut rng);
                let mut axes: Vec<_> =
                    two.axes().iter().map(|a| Axis { extent: a.extent, strides: [a.strides[0]] }).collect();
                if round == 0 {
                    // Large enough for threads.
                    axes =
                        vec![Axis { extent: 3, strides: [200_000] }, Axis { extent: 150_001, strides: [1] }];
                }
                let (nest, [size]) = guarded(&axes);
                let fill = Scale { nest, dst, beta };
                let mut before = Memory::new(size * dst.size());
                before.randomise(dst, &mut rng);
                let mut want = before.clone();
                let operands = Operands { dst: want.ptr(), src: std::ptr::null() };
                // SAFETY: `guarded` sized the buffer.
                unsafe { reference::run(Step::Scale(&fill), &operands.addresses()) }.expect("takes all");
                for isa in Isa::available() {
                    for threads in 1..=3 {
                        let (step, machine) = (Step::Scale(&fill), Machine { isa, threads });
                        for name in kernels(step, machine) {
                            let mut got = before.clone();
                            // SAFETY: as above.
                            unsafe { run_by(name, step, &[got.ptr().into()], machine) }.expect("accepted");
                            assert!(got == want, "{dst:?} beta {beta} {nest} by {name}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_reference_computes_what_is_written_on_paper() {
    // dst is 3x2, src is 2x3 with its columns reversed: dst[j][i] = 2 * src[i][2 - j] - dst[j][i].
    let src = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let mut dst = [1_i32, 10, 100, 1000, 10_000, 100_000];
    let axes = [Axis { extent: 3, strides: [2, -1] }, Axis { extent: 2, strides: [1, 3] }];
    let transform = Transform {
        nest: LoopNest::new(&axes, [0, 2]),
        dst: Scalar::I32,
        src: Scalar::F32,
        scaling: Scaling { alpha: 2.0, beta: -1.0 },
    };
    let operands = Operands { dst: dst.as_mut_ptr().cast(), src: src.as_ptr().cast() };
    // SAFETY: the offsets are 0..6 on either side.
    unsafe { reference::run(Step::Transform(&transform), &operands.addresses()) }.expect("takes all");
    assert_eq!(dst, [5, 2, -96, -990, -9998, -99_992]);
}

#[test]
fn moves_keep_nan_payloads_and_empty_problems_touch_nothing() {
    let src = [0x7fa0_0001_u32, 0xffff_ffff, 0x7f80_0001, 0x8000_0000];
    let mut dst = [0_u32; 4];
    let operands = Operands { dst: dst.as_mut_ptr().cast(), src: src.as_ptr().cast() };
    let transform = |axes: &[Axis<2>]| {
        let nest = LoopNest::new(axes, [0; 2]);
        Transform { nest, dst: Scalar::F32, src: Scalar::F32, scaling: Scaling::MOVE }
    };
    // SAFETY: nothing is visited.
    unsafe {
        run(
            Step::Transform(&transform(&[Axis { extent: 0, strides: [1, 1] }])),
            &operands.addresses(),
            false,
            Machine::host(),
        )
    }
    .expect("runs");
    assert_eq!(dst, [0; 4]);
    // SAFETY: four cells on either side.
    unsafe {
        run(
            Step::Transform(&transform(&[Axis { extent: 4, strides: [1, 1] }])),
            &operands.addresses(),
            false,
            Machine::host(),
        )
    }
    .expect("runs");
    assert_eq!(dst, src);
    // SAFETY: one cell on either side.
    unsafe {
        run(
            Step::Transform(&transform(&[])),
            &[operands.dst.into(), src[1..].as_ptr().into()],
            false,
            Machine::host(),
        )
    }
    .expect("runs");
    assert_eq!(dst, [src[1], src[1], src[2], src[3]]);
}

#[test]
fn a_candidate_refuses_what_is_not_for_it() {
    let (nest, _) = nest(&[(4, 1, 4), (4, 4, 1)]);
    let transform = Transform { nest, dst: Scalar::F32, src: Scalar::F32, scaling: Scaling::MOVE };
    let operands = Operands { dst: std::ptr::null_mut(), src: std::ptr::null() };
    let machine = Machine { isa: Isa::PORTABLE, threads: 1 };
    // SAFETY: refused before any access.
    let outcome = unsafe { run_by("copy", Step::Transform(&transform), &operands.addresses(), machine) };
    assert!(outcome.is_err());
}
