//! cuRAND: a seed repeats, calls may be divided, moments and ranges are those of the distributions,
//! and what is refused.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "one fact makes all of them sound: generators are alive, and outputs are as long as is said"
)]

mod common;

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use common::Object;

unsafe extern "C" {
    fn curandCreateGenerator(generator: *mut Object, kind: c_int) -> c_int;
    fn curandDestroyGenerator(generator: Object) -> c_int;
    fn curandSetPseudoRandomGeneratorSeed(generator: Object, seed: u64) -> c_int;
    fn curandSetGeneratorOffset(generator: Object, offset: u64) -> c_int;
    fn curandSetGeneratorOrdering(generator: Object, order: c_int) -> c_int;
    fn curandSetQuasiRandomGeneratorDimensions(generator: Object, dimensions: u32) -> c_int;
    fn curandGenerate(generator: Object, output: *mut u32, count: usize) -> c_int;
    fn curandGenerateLongLong(generator: Object, output: *mut u64, count: usize) -> c_int;
    fn curandGenerateUniform(generator: Object, output: *mut f32, count: usize) -> c_int;
    fn curandGenerateUniformDouble(generator: Object, output: *mut f64, count: usize) -> c_int;
    fn curandGenerateNormal(
        generator: Object, output: *mut f32, count: usize, mean: f32, deviation: f32,
    ) -> c_int;
    fn curandGenerateNormalDouble(
        generator: Object, output: *mut f64, count: usize, mean: f64, deviation: f64,
    ) -> c_int;
    fn curandGenerateLogNormal(
        generator: Object, output: *mut f32, count: usize, mean: f32, deviation: f32,
    ) -> c_int;
    fn curandGenerateLogNormalDouble(
        generator: Object, output: *mut f64, count: usize, mean: f64, deviation: f64,
    ) -> c_int;
    fn curandGeneratePoisson(generator: Object, output: *mut u32, count: usize, mean: f64) -> c_int;
    fn curandGetVersion(version: *mut c_int) -> c_int;
}

const NOT_INITIALIZED: c_int = 101;
const TYPE_ERROR: c_int = 103;
const OUT_OF_RANGE: c_int = 104;
const LENGTH_NOT_MULTIPLE: c_int = 105;
const DEFAULT: c_int = 100;

fn generator(seed: u64) -> Object {
    let mut generator = null_mut::<c_void>();
    // SAFETY: a place for the result; the generator is alive.
    unsafe {
        assert_eq!(curandCreateGenerator(&mut generator, DEFAULT), 0);
        assert_eq!(curandSetPseudoRandomGeneratorSeed(generator, seed), 0);
    }
    generator
}

/// So many results of a call.
fn draw<T: Copy + Default>(count: usize, call: impl FnOnce(*mut T, usize) -> c_int) -> Vec<T> {
    let mut output = vec![T::default(); count];
    assert_eq!(call(output.as_mut_ptr(), count), 0);
    output
}

#[test]
fn words_are_those_of_philox_and_a_seed_repeats() {
    const MANY: usize = 1_000_003;
    let whole = generator(0);
    // SAFETY: outputs are as long as is said, and generators are alive, here and below.
    let words = draw(MANY, |to, count| unsafe { curandGenerate(whole, to, count) });
    // Published: counter 0 under key 0.
    assert_eq!(words[..4], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    // Divided among calls, and from offsets.
    let parts = generator(0);
    let divided: Vec<u32> = [1, 2, 5, 1000]
        .into_iter()
        .flat_map(|part| draw(part, |to, count| unsafe { curandGenerate(parts, to, count) }))
        .collect();
    assert_eq!(divided, words[..1008]);
    for offset in [3, 999_001] {
        // SAFETY: the generator is alive.
        assert_eq!(unsafe { curandSetGeneratorOffset(parts, offset as u64) }, 0);
        assert_eq!(
            draw(9, |to, count| unsafe { curandGenerate(parts, to, count) }),
            words[offset..offset + 9]
        );
    }
    let wide = generator(0);
    let pairs = draw(100, |to, count| unsafe { curandGenerateLongLong(wide, to, count) });
    assert!(
        pairs
            .iter()
            .zip(words.chunks(2))
            .all(|(pair, two)| *pair == u64::from(two[0]) | u64::from(two[1]) << 32)
    );
    let other = generator(1);
    assert_ne!(draw(4, |to, count| unsafe { curandGenerate(other, to, count) }), words[..4]);
}

/// Mean and variance of a sample.
fn moments(sample: &[f64]) -> [f64; 2] {
    let count = sample.len() as f64;
    let mean = sample.iter().sum::<f64>() / count;
    [mean, sample.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count]
}

/// Within five deviations of what a distribution says: its mean, variance, and fourth central
/// moment.
fn is_like(sample: &[f64], mean: f64, variance: f64, fourth: f64) {
    let count = sample.len() as f64;
    let [of_sample, spread] = moments(sample);
    assert!((of_sample - mean).abs() < 5.0 * (variance / count).sqrt(), "mean {of_sample}, not {mean}");
    let deviation = ((fourth - variance * variance) / count).sqrt();
    assert!((spread - variance).abs() < 5.0 * deviation, "variance {spread}, not {variance}");
}

#[test]
fn numbers_have_the_moments_of_their_distributions() {
    const COUNT: usize = 400_000;
    let all = generator(42);
    let wide = |sample: Vec<f32>| sample.into_iter().map(f64::from).collect::<Vec<_>>();
    // SAFETY: outputs are as long as is said, and the generator is alive, in all that follows.
    let uniform = wide(draw(COUNT, |to, count| unsafe { curandGenerateUniform(all, to, count) }));
    let uniform_double = draw(COUNT, |to, count| unsafe { curandGenerateUniformDouble(all, to, count) });
    for sample in [&uniform, &uniform_double] {
        assert!(sample.iter().all(|&x| x > 0.0 && x <= 1.0));
        is_like(sample, 0.5, 1.0 / 12.0, 1.0 / 80.0);
    }
    let normal = wide(draw(COUNT, |to, count| unsafe { curandGenerateNormal(all, to, count, 3.0, 2.0) }));
    let normal_double =
        draw(COUNT, |to, count| unsafe { curandGenerateNormalDouble(all, to, count, 3.0, 2.0) });
    let log = wide(draw(COUNT, |to, count| unsafe { curandGenerateLogNormal(all, to, count, 3.0, 2.0) }));
    let log_double =
        draw(COUNT, |to, count| unsafe { curandGenerateLogNormalDouble(all, to, count, 3.0, 2.0) });
    for sample in [
        normal,
        normal_double,
        log.iter().map(|x| x.ln()).collect(),
        log_double.iter().map(|x| x.ln()).collect(),
    ] {
        is_like(&sample, 3.0, 4.0, 48.0);
        let within = sample.iter().filter(|&&x| (x - 3.0).abs() < 2.0).count() as f64 / COUNT as f64;
        assert!(
            (within - 0.682_689_5).abs() < 5.0 * (0.2166 / COUNT as f64).sqrt(),
            "{within} within a deviation"
        );
    }
    let poisson = draw(COUNT, |to, count| unsafe { curandGeneratePoisson(all, to, count, 4.5) });
    is_like(&poisson.into_iter().map(f64::from).collect::<Vec<_>>(), 4.5, 4.5, 4.5 * (1.0 + 3.0 * 4.5));
}

#[test]
fn bad_arguments_are_refused() {
    let (alive, mut made, mut number) = (generator(1), null_mut(), 0);
    let mut output = [7.0_f32; 4];
    // SAFETY: what is written is there.
    unsafe {
        assert_eq!(curandCreateGenerator(null_mut(), DEFAULT), OUT_OF_RANGE);
        assert_eq!(
            [curandCreateGenerator(&mut made, 200), curandCreateGenerator(&mut made, 5)],
            [TYPE_ERROR; 2]
        );
        for kind in [101, 121, 141, 142, 161] {
            assert_eq!(curandCreateGenerator(&mut made, kind), 0);
            assert_eq!([curandDestroyGenerator(made), curandDestroyGenerator(made)], [0, NOT_INITIALIZED]);
        }
        assert_eq!(curandGenerateUniform(null_mut(), output.as_mut_ptr(), 4), NOT_INITIALIZED);
        assert_eq!(curandGenerateUniform(alive, null_mut(), 4), OUT_OF_RANGE);
        assert_eq!(curandGenerateUniform(alive, null_mut(), 0), 0);
        assert_eq!(curandGenerateNormal(alive, output.as_mut_ptr(), 3, 0.0, 1.0), LENGTH_NOT_MULTIPLE);
        for mean in [0.0, -1.0, 400_001.0, f64::NAN] {
            assert_eq!(curandGeneratePoisson(alive, output.as_mut_ptr().cast(), 4, mean), OUT_OF_RANGE);
        }
        assert_eq!(
            [curandSetGeneratorOrdering(alive, 102), curandSetGeneratorOrdering(alive, 201)],
            [0, OUT_OF_RANGE]
        );
        assert_eq!(curandSetQuasiRandomGeneratorDimensions(alive, 3), TYPE_ERROR);
        assert_eq!([curandGetVersion(&mut number), curandGetVersion(null_mut())], [0, OUT_OF_RANGE]);
        assert!(number > 10_000);
        assert_eq!(curandDestroyGenerator(alive), 0);
    }
    assert_eq!(output, [7.0; 4]);
}
