//! Dropout on the CPU core: masks as documented, whatever the layout and the machine; rate and
//! independence of the bits.

use cudnn::backend::{self, Address, Isa, Machine, reference};
use cudnn::desc::{DropoutDescriptor, Format, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::dtype::Scalar;
use cudnn::error::ErrorKind;
use cudnn::exec::Context;
use cudnn::layout::{Axis, LoopNest};
use cudnn::mode::Mode;
use cudnn::ops::dropout::{DropoutPlan, Pass, StatesPlan};
use cudnn::ops::{Draw, Plan, Random, Step};
use testkit::extent;
use testkit::random::Rng;

const FLOATING: [DataType; 6] = [
    DataType::Float,
    DataType::Double,
    DataType::Half,
    DataType::Bfloat16,
    DataType::Fp8E4m3,
    DataType::Fp8E5m2,
];

fn dropout(probability: f32, states: &[u64; 2]) -> DropoutDescriptor {
    let mut desc = DropoutDescriptor::default();
    desc.restore(probability, states.as_ptr().addr(), 16, states[0], Mode::Extended).expect("enough room");
    desc
}

/// A tensor of these dims: packed, permuted, with gaps, or backwards.
fn laid_out(rng: &mut Rng, data_type: DataType, dims: &[i64]) -> TensorDescriptor {
    let mut strides = vec![0; dims.len()];
    let mut next = 1;
    for axis in rng.order(dims.len()) {
        strides[axis] = next * rng.pick(&[1, 1, -1]);
        next *= dims[axis] + rng.pick(&[0, 0, 1]);
    }
    TensorDescriptor::with_strides(data_type, dims.len() as i64, dims, &strides, Mode::Extended)
        .expect("strides fit")
}

/// Memory of a tensor, as 8-byte words.
struct Memory {
    words: Vec<u64>,
    base: usize,
}

impl Memory {
    fn new(rng: &mut Rng, tensor: &TensorDescriptor) -> Self {
        let (low, high) = tensor.span();
        let size = tensor.data_type().scalar().size() as i64;
        let words = (((high - low + 1) * size) as usize).div_ceil(8);
        Memory { words: (0..words).map(|_| rng.word()).collect(), base: (-low * size) as usize }
    }

    fn at(&mut self) -> Address {
        self.words.as_mut_ptr().cast::<u8>().wrapping_add(self.base).into()
    }
}

/// The definition of the documentation, in other words than the library's: 128-bit counters and
/// keys that are computed.
fn is_kept(i: u64, threshold: u64, seed: u64, call: u64) -> bool {
    let block = 8 * (i / 32) + i % 8;
    let mut x = [block & 0xffff_ffff, block >> 32, call & 0xffff_ffff, call >> 32];
    for round in 0..10 {
        let key = [(seed & 0xffff_ffff) + round * 0x9e37_79b9, (seed >> 32) + round * 0xbb67_ae85];
        let [p, q] = [x[0] * 0xd251_1f53, x[2] * 0xcd9e_8d57];
        let high = [(q >> 32) ^ x[1] ^ (key[0] & 0xffff_ffff), (p >> 32) ^ x[3] ^ (key[1] & 0xffff_ffff)];
        x = [high[0], q & 0xffff_ffff, high[1], p & 0xffff_ffff];
    }
    x[(i % 32 / 8) as usize] >= threshold
}

#[test]
fn masks_and_values_are_those_of_the_documentation() {
    let mut rng = Rng(1);
    for case in 0..120 {
        let rank = 2 + rng.below(6);
        let dims: Vec<i64> = (0..rank).map(|_| rng.pick(&[1, 2, 3, 5, 8])).collect();
        let (x, y) = (laid_out(&mut rng, DataType::Float, &dims), laid_out(&mut rng, DataType::Float, &dims));
        let n = dims.iter().product::<i64>() as usize;
        let p = rng.pick(&[0.0, 0.1, 0.5, 0.9, 1.0]);
        let mut states = [rng.word(), rng.word() >> rng.below(64)];
        let (seed, call) = (states[0], states[1]);
        let desc = dropout(p, &states);
        let mut mask = vec![!0_u32; n.div_ceil(32)];
        let pass =
            Pass { src: ("xdesc", &x), dst: ("ydesc", &y), reserve_size: 4 * mask.len(), in_place: false };
        let plan = DropoutPlan::forward(&desc, pass, Mode::Extended).expect("a plan");
        let (mut from, mut to) = (Memory::new(&mut rng, &x), Memory::new(&mut rng, &y));
        let at = [to.at(), mask.as_mut_ptr().into(), states.as_mut_ptr().into(), from.at()];
        // SAFETY: the memory is that of the descriptors, the mask and the states.
        unsafe { Context::cpu().run(&plan, &at) }.expect("runs");
        assert_eq!(states, [seed, call.wrapping_add(1)], "case {case}");
        let threshold = (f64::from(p) * 4_294_967_296.0).round() as u64;
        let (from_strides, to_strides) = (x.strides(), y.strides());
        for i in 0..32 * mask.len() {
            let kept = i < n && is_kept(i as u64, threshold, seed, call);
            assert_eq!(mask[i / 32] >> (i % 32) & 1 == 1, kept, "case {case}: bit {i} of {n}");
            if i >= n {
                continue;
            }
            let (mut rest, mut offsets) = (i as i64, [0_i64; 2]);
            for k in (0..rank).rev() {
                offsets[0] += rest % dims[k] * from_strides[k];
                offsets[1] += rest % dims[k] * to_strides[k];
                rest /= dims[k];
            }
            // SAFETY: elements of the tensors.
            let (a, b) = unsafe {
                let cell =
                    |at: Address, offset: i64| at.pointer().cast::<f32>().offset(offset as isize).read();
                (cell(from.at(), offsets[0]), cell(to.at(), offsets[1]))
            };
            let want = if kept { a * (1.0 / (1.0 - p)) } else { 0.0 };
            assert!(
                b.to_bits() == want.to_bits() || (b.is_nan() && want.is_nan()),
                "case {case}: {a} became {b}"
            );
        }
    }
}

#[test]
fn every_machine_computes_what_the_reference_computes() {
    let mut rng = Rng(2);
    let mut cases = 0;
    for big in [false, true] {
        for case in if big { extent::cases(4, 13) } else { extent::cases(50, 150) } {
            let rank = if big { 4 } else { 2 + rng.below(4) };
            // Many channels, whose bits lie far apart.
            let is_deep = big && case == 0;
            let dims: Vec<i64> = match is_deep {
                true => vec![2, 1100, 3, 19],
                false => (0..rank)
                    .map(|_| if big { rng.pick(&[7, 16, 33]) } else { rng.pick(&[1, 2, 5, 32, 33]) })
                    .collect(),
            };
            let data_type = rng.pick(&FLOATING);
            let format = match rng.below(3) {
                _ if is_deep => Some(Format::Nhwc),
                0 => Some(Format::Nchw),
                _ => None,
            };
            let make = |rng: &mut Rng| match format {
                Some(format) => {
                    TensorDescriptor::with_format(data_type, format, rank as i64, &dims, Mode::Extended)
                        .expect("packed")
                }
                None => laid_out(rng, data_type, &dims),
            };
            let (x, y) = (make(&mut rng), make(&mut rng));
            let n = dims.iter().product::<i64>() as usize;
            let mut states = [rng.word(), rng.word()];
            let desc = dropout(rng.pick(&[0.0, 0.25, 0.5, 1.0]), &states);
            let words = n.div_ceil(32);
            let pass =
                Pass { src: ("xdesc", &x), dst: ("ydesc", &y), reserve_size: 4 * words, in_place: false };
            let forward = DropoutPlan::forward(&desc, pass, Mode::Extended).expect("a plan");
            let backward = DropoutPlan::backward(&desc, pass, Mode::Extended).expect("a plan");
            let (mut from, to) = (Memory::new(&mut rng, &x), Memory::new(&mut rng, &y));
            let before = states;
            let mut run = |plan: &DropoutPlan, machine: Option<Machine>, draws: bool, drawn: &[u32]| {
                states = before;
                let mut to = Memory { words: to.words.clone(), base: to.base };
                let mut mask = if draws { vec![!0_u32; words] } else { drawn.to_vec() };
                plan.steps(&mut |step, _| {
                    let at = [to.at(), from.at(), mask.as_mut_ptr().into(), states.as_mut_ptr().into()];
                    // SAFETY: the memory is that of the descriptors, the mask and the states.
                    unsafe {
                        match machine {
                            Some(machine) => backend::run(step, &at, false, machine),
                            None => reference::run(step, &at),
                        }
                    }
                })
                .expect("runs");
                (to.words, mask)
            };
            let want = run(&forward, None, true, &[]);
            for isa in Isa::available() {
                for threads in [1, 3] {
                    let machine = Machine { isa, threads };
                    let got = run(&forward, Some(machine), true, &[]);
                    assert!(got == want, "{forward} on {machine:?}");
                    // The backward pass with the same mask is the same map.
                    let got = run(&backward, Some(machine), false, &want.1);
                    assert!(got == want, "{backward} on {machine:?}");
                    cases += 1;
                }
            }
        }
    }
    // On each level of this machine, by one thread and by several.
    assert!(cases >= 54 * 2 * Isa::available().count());
}

/// What recurrent networks of many layers do: the step of the first layer draws the masks of all.
#[test]
fn a_mask_may_go_on_behind_the_cells() {
    let axis = |extent| Axis { extent, strides: [1; 3] };
    for (cells, elements) in [(1, 2), (31, 33), (32, 64), (1000, 3000), (1024, 1025), (5000, 35_000)] {
        let draw = Some(Draw { elements, threshold: 1 << 31 });
        let step =
            Random { nest: LoopNest::new(&[axis(cells)], [0; 3]), scalar: Scalar::F32, scale: 2.0, draw };
        let seed = [5_u64, 3];
        let kept = |i: u64| is_kept(i, 1 << 31, seed[0], seed[1]);
        for isa in Isa::available() {
            for threads in [1, 3] {
                let mut states = seed;
                let (input, mut output) = (vec![1_f32; elements as usize], vec![7_f32; elements as usize]);
                let mut mask = vec![!0_u32; elements.div_ceil(32) as usize];
                let at = [
                    output.as_mut_ptr().into(),
                    input.as_ptr().into(),
                    mask.as_mut_ptr().into(),
                    states.as_mut_ptr().into(),
                ];
                // SAFETY: there are more cells than the step has.
                unsafe { backend::run(Step::Random(&step), &at, false, Machine { isa, threads }) }.unwrap();
                for (i, value) in output.iter().enumerate() {
                    let want =
                        if i as i64 >= cells { 7.0 } else { f32::from(u8::from(kept(i as u64))) * 2.0 };
                    assert!(*value == want, "{step} on {isa:?}: {value}, not {want} at {i}");
                }
                for i in 0..32 * mask.len() as u64 {
                    let bit = mask[i as usize / 32] >> (i % 32) & 1 == 1;
                    assert_eq!(bit, i < elements && kept(i), "{step} on {isa:?}: bit {i}");
                }
            }
        }
    }
}

#[test]
fn cells_without_a_bit_are_refused_by_every_core() {
    for (offset, elements) in [(0, 7), (1, 8), (-1, 8)] {
        let axes = [Axis { extent: 8, strides: [1; 3] }];
        let draw = Some(Draw { elements, threshold: 9 });
        let nest = LoopNest::new(&axes, [0, 0, offset]);
        let step = Random { nest, scalar: Scalar::F32, scale: 2.0, draw };
        let (mut output, input, mut mask, mut states) = ([7_f32; 8], [1_f32; 8], [5_u32; 1], [1_u64, 2]);
        let at = [
            output.as_mut_ptr().into(),
            input.as_ptr().into(),
            mask.as_mut_ptr().into(),
            states.as_mut_ptr().into(),
        ];
        // SAFETY: refused steps touch nothing.
        let errors = unsafe {
            [
                backend::run(Step::Random(&step), &at, false, Machine::host()).unwrap_err(),
                reference::run(Step::Random(&step), &at).unwrap_err(),
            ]
        };
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::Internal), "{errors:?}");
        assert_eq!((output, mask, states), ([7.0; 8], [5], [1, 2]));
    }
}

#[test]
fn bits_are_independent_and_as_likely_as_asked() {
    // 10^8 draws: the rate, and how often each pattern of eight neighbours comes, by chi-square.
    const N: u64 = 100_000_000;
    for (p, seed) in [(0.5_f64, 7_u64), (0.1, 8)] {
        let draw = Draw { elements: N, threshold: (p * 4_294_967_296.0).round() as u64 };
        let mut mask = vec![0_u32; draw.words() as usize];
        let mut states = [seed, 3];
        // Nothing but the mask: a nest of one element.
        let nest = LoopNest::new(&[Axis { extent: 1, strides: [1, 1, 5] }], [0; 3]);
        let step = Random { nest, scalar: Scalar::F32, scale: 1.0, draw: Some(draw) };
        let (mut to, from) = (0_f32, 1_f32);
        let at = [
            (&raw mut to).into(),
            (&raw const from).into(),
            mask.as_mut_ptr().into(),
            states.as_mut_ptr().into(),
        ];
        // SAFETY: one element, and a mask of that many bits.
        unsafe { backend::run(Step::Random(&step), &at, false, Machine::host()) }.expect("draws");
        let kept: u64 = mask.iter().map(|word| u64::from(word.count_ones())).sum();
        let deviation = (kept as f64 - (1.0 - p) * N as f64) / (p * (1.0 - p) * N as f64).sqrt();
        assert!(deviation.abs() < 4.0, "p = {p}: {kept} of {N} kept, {deviation} deviations off");
        let mut counts = [0_u64; 256];
        mask.iter().flat_map(|word| word.to_le_bytes()).for_each(|byte| counts[usize::from(byte)] += 1);
        let bytes = N as f64 / 8.0;
        let chi: f64 = (0..256_u32)
            .map(|pattern| {
                let ones = pattern.count_ones() as i32;
                let want = bytes * (1.0 - p).powi(ones) * p.powi(8 - ones);
                (counts[pattern as usize] as f64 - want).powi(2) / want
            })
            .sum();
        // 255 degrees of freedom: mean 255, deviation 22.6.
        assert!((150.0..365.0).contains(&chi), "p = {p}: chi-square {chi}");
    }
}

#[test]
fn two_descriptors_take_turns_on_one_state_and_a_saved_one_is_taken_up() {
    let x = TensorDescriptor::with_format(DataType::Float, Format::Nchw, 4, &[2, 3, 4, 5], Mode::Extended)
        .unwrap();
    let mut states = [0_u64; 2];
    let seed = StatesPlan::new(99);
    // SAFETY: the states.
    unsafe { Context::cpu().run(&seed, &[states.as_mut_ptr().into()]) }.unwrap();
    assert_eq!(states, [99, 0]);
    let input = [1_f32; 120];
    let run = |states: &mut [u64; 2]| {
        let (mut output, mut mask) = ([0_f32; 120], [0_u32; 4]);
        let pass = Pass { src: ("xdesc", &x), dst: ("ydesc", &x), reserve_size: 16, in_place: false };
        let plan = DropoutPlan::forward(&dropout(0.5, states), pass, Mode::Extended).unwrap();
        let at = [
            output.as_mut_ptr().into(),
            mask.as_mut_ptr().into(),
            states.as_mut_ptr().into(),
            input.as_ptr().into(),
        ];
        // SAFETY: the arrays are as long as the tensors.
        unsafe { Context::cpu().run(&plan, &at) }.unwrap();
        mask
    };
    let first = run(&mut states);
    let mut saved = states;
    let second = run(&mut states);
    assert_ne!(first, second, "the sequence goes on");
    assert_eq!(run(&mut saved), second, "a saved state gives the same mask");
    assert_eq!(states, [99, 2]);
}

/// Some programs hand the states over as the reserve space, too.
#[test]
fn a_mask_may_take_the_place_of_its_states() {
    for n in [5, 64, 128, 4000] {
        let x =
            TensorDescriptor::with_format(DataType::Float, Format::Nchw, 4, &[1, n, 1, 1], Mode::Extended)
                .unwrap();
        let words = (n as usize).div_ceil(32);
        let input = vec![1_f32; n as usize];
        let run = |mask: *mut u32, states: *mut u64, size: usize| {
            let mut desc = DropoutDescriptor::default();
            desc.restore(0.5, states.addr(), size, 0, Mode::Extended).unwrap();
            let mut output = vec![0_f32; n as usize];
            let pass =
                Pass { src: ("xdesc", &x), dst: ("ydesc", &x), reserve_size: 4 * words, in_place: false };
            let plan = DropoutPlan::forward(&desc, pass, Mode::Extended).unwrap();
            plan.check_mask_over_states(&desc, false)?;
            let at = [output.as_mut_ptr().into(), mask.into(), states.into(), input.as_ptr().into()];
            // SAFETY: the arrays are as long as the tensors and the mask.
            unsafe { Context::cpu().run(&plan, &at) }.unwrap();
            Ok::<_, cudnn::Error>(output)
        };
        let (mut states, mut mask) = ([7_u64, 3], vec![0_u32; words]);
        let room = 16.max(4 * words);
        let output = run(mask.as_mut_ptr(), states.as_mut_ptr(), room).unwrap();
        assert_eq!(states, [7, 4]);
        let mut both = vec![!0_u64; room.div_ceil(8)];
        both[..2].copy_from_slice(&[7, 3]);
        assert_eq!(run(both.as_mut_ptr().cast(), both.as_mut_ptr(), room), Ok(output), "{n} elements");
        // SAFETY: so many words are there.
        let kept = unsafe { std::slice::from_raw_parts(both.as_ptr().cast::<u32>(), words) };
        assert_eq!(kept, mask, "the mask stays whole");
        let before = both.clone();
        if 4 * words > 16 {
            let error = run(both.as_mut_ptr().cast(), both.as_mut_ptr(), 4 * words - 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadParam);
            assert!(error.to_string().contains(&format!("takes {}", 4 * words)), "{error}");
            assert_eq!(both, before);
        }
    }
}

#[test]
fn what_is_refused_is_named() {
    let tensor = |data_type, dims: &[i64]| {
        TensorDescriptor::with_format(data_type, Format::Nchw, dims.len() as i64, dims, Mode::Extended)
            .unwrap()
    };
    let (x, wide, int) = (
        tensor(DataType::Float, &[2, 3, 4, 5]),
        tensor(DataType::Float, &[2, 3, 4, 6]),
        tensor(DataType::Int32, &[2, 3, 4, 5]),
    );
    let desc = dropout(0.5, &[0; 2]);
    let plan = |src, dst, reserve_size| {
        let pass = Pass { src: ("xdesc", src), dst: ("ydesc", dst), reserve_size, in_place: false };
        DropoutPlan::forward(&desc, pass, Mode::Extended).map(|_| ()).map_err(|e| (e.kind(), e.to_string()))
    };
    assert_eq!(plan(&x, &x, 16), Ok(()));
    let (class, text) = plan(&x, &x, 12).unwrap_err();
    assert_eq!(class, ErrorKind::BadParam);
    assert!(text.contains("= 12") && text.contains("16 bytes"), "{text}");
    assert_eq!(plan(&x, &wide, 99).unwrap_err().0, ErrorKind::BadParam);
    assert_eq!(plan(&x, &int, 99).unwrap_err().0, ErrorKind::BadParam);
    assert_eq!(plan(&int, &int, 99).unwrap_err().0, ErrorKind::NotSupported);
    let mut states = DropoutDescriptor::default();
    // The default mode takes what is used, strict mode what callers are told to provide.
    for (mode, least) in [(Mode::Extended, 16), (Mode::Strict, 6_488_064)] {
        let refused = [
            states.set(0.5, 4096, least - 1, 1, mode).unwrap_err(),
            states.restore(0.5, 4096, least - 1, 1, mode).unwrap_err(),
            states.restore(0.5, 0, 0, 1, mode).unwrap_err(),
        ];
        let rule = format!("{least} bytes");
        assert!(refused[0].to_string().contains(&format!("= {}", least - 1)), "{}", refused[0]);
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::BadParam);
            assert!(error.to_string().contains(&rule), "{error}");
        }
        assert_eq!(states, DropoutDescriptor::default(), "a failing call changes nothing");
        let mut set = states;
        set.set(0.5, 0, 0, 1, mode).expect("no states, no size");
        set.set(0.5, 4096, least, 1, mode).expect("enough room");
        assert_eq!((set.states(), set.states_size()), (4096, least));
    }
}
