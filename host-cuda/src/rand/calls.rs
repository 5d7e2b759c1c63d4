//! The calls of cuRAND.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::philox::Words;
use super::poisson;
use crate::registry::Registry;
use crate::runtime::capture;
use crate::{report, threads};

/// `curandStatus_t`.
type Status = c_int;

const SUCCESS: Status = 0;
const NOT_INITIALIZED: Status = 101;
const TYPE_ERROR: Status = 103;
const OUT_OF_RANGE: Status = 104;
const LENGTH_NOT_MULTIPLE: Status = 105;
const PREEXISTING_FAILURE: Status = 202;

/// The version that is told: that of the public documentation that this follows.
const VERSION: [c_int; 3] = [10, 3, 10];

type Outcome = Result<(), (Status, String)>;

/// What a `curandGenerator_t` stands for.
struct Generator {
    seed: u64,
    /// Where seeds begin.
    offset: u64,
    /// The next word.
    position: u64,
    stream: usize,
}

static GENERATORS: Registry<Mutex<Generator>> = Registry::new();

fn get(generator: *mut c_void) -> Result<Arc<Mutex<Generator>>, (Status, String)> {
    GENERATORS.get(generator).ok_or_else(|| (NOT_INITIALIZED, "generator is not alive".to_owned()))
}

/// The generator, for work that no graph keeps.
fn get_to_work(generator: *mut c_void) -> Result<Arc<Mutex<Generator>>, (Status, String)> {
    let generator = get(generator)?;
    if capture::is_held(lock(&generator).stream) {
        let rule = "the stream captures, or waits for one that does: graphs keep nothing of cuRAND";
        return Err((PREEXISTING_FAILURE, rule.to_owned()));
    }
    Ok(generator)
}

fn lock(generator: &Mutex<Generator>) -> MutexGuard<'_, Generator> {
    generator.lock().unwrap_or_else(PoisonError::into_inner)
}

fn required<T>(pointer: *const T, argument: &str) -> Outcome {
    if pointer.is_null() { Err((OUT_OF_RANGE, format!("{argument} is NULL"))) } else { Ok(()) }
}

/// # Safety
/// `place` is NULL or valid for one write.
unsafe fn store<T>(place: *mut T, argument: &str, value: T) -> Outcome {
    required(place, argument)?;
    // SAFETY: `place` is not NULL, and so valid for one write.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

fn create(generator: *mut *mut c_void, kind: c_int) -> Outcome {
    required(generator, "generator")?;
    match kind {
        // CURAND_RNG_PSEUDO_DEFAULT, XORWOW, MRG32K3A, MTGP32, MT19937, PHILOX4_32_10.
        100 | 101 | 121 | 141 | 142 | 161 => {}
        200..=204 => {
            return Err((TYPE_ERROR, format!("rng_type is {kind}: quasi-random sequences are not built")));
        }
        _ => return Err((TYPE_ERROR, format!("rng_type is {kind}, no curandRngType_t"))),
    }
    let made = GENERATORS.add(Mutex::new(Generator { seed: 0, offset: 0, position: 0, stream: 0 }));
    // SAFETY: not NULL, and the caller vouches for one write.
    unsafe { store(generator, "generator", made) }
}

/// An output that threads write in parts.
#[derive(Clone, Copy)]
struct Output<T>(*mut T);

// SAFETY: threads write elements of their own.
unsafe impl<T> Sync for Output<T> {}

impl<T> Output<T> {
    /// # Safety
    /// Element `i` is there, for nobody else.
    unsafe fn set(&self, i: usize, value: T) {
        // SAFETY: element `i` is there, and no other thread has it.
        unsafe { self.0.add(i).write_unaligned(value) };
    }
}

/// Draws `count` results of `words` words each, made `together` at a time.
///
/// # Safety
/// `output` is NULL or valid for `count` writes.
unsafe fn draw<T, const N: usize>(
    generator: *mut c_void, output: *mut T, count: usize, words: u64,
    make: impl Fn(&mut Words) -> [T; N] + Sync,
) -> Outcome {
    let generator = get_to_work(generator)?;
    if !count.is_multiple_of(N) {
        return Err((LENGTH_NOT_MULTIPLE, format!("num is {count}: must be a multiple of {N}")));
    }
    if count == 0 {
        return Ok(());
    }
    required(output, "outputPtr")?;
    let mut generator = lock(&generator);
    let (seed, start, output) = (generator.seed, generator.position, &Output(output));
    threads::spread(count / N, |range| {
        let mut drawn = Words::new(seed, start.wrapping_add((range.start * N) as u64 * words));
        for group in range {
            for (i, value) in make(&mut drawn).into_iter().enumerate() {
                // SAFETY: not NULL, the caller vouches for `count` elements, and ranges do not
                // meet.
                unsafe { output.set(group * N + i, value) };
            }
        }
    });
    generator.position = start.wrapping_add(count as u64 * words);
    Ok(())
}

fn uniform(words: &mut Words) -> f32 {
    ((words.next() >> 8) + 1) as f32 / 16_777_216.0
}

fn uniform_double(words: &mut Words) -> f64 {
    ((words.next_wide() >> 11) + 1) as f64 / 9_007_199_254_740_992.0
}

/// Two numbers by Box and Muller, of numbers in (0, 1].
fn normal([u, v]: [f64; 2], mean: f64, deviation: f64) -> [f64; 2] {
    let radius = (-2.0 * u.ln()).sqrt();
    let (sine, cosine) = (std::f64::consts::TAU * v).sin_cos();
    [mean + deviation * radius * cosine, mean + deviation * radius * sine]
}

fn pair(words: &mut Words) -> [f64; 2] {
    let mut one = || (f64::from(words.next()) + 1.0) / 4_294_967_296.0;
    [one(), one()]
}

fn pair_double(words: &mut Words) -> [f64; 2] {
    [uniform_double(words), uniform_double(words)]
}

fn finish(function: &str, outcome: Outcome) -> Status {
    match outcome {
        Ok(()) => SUCCESS,
        Err((status, sentence)) => {
            report::failure(function, format_args!("{sentence}"));
            status
        }
    }
}

macro_rules! calls {
    ($($(#[$meta:meta])* fn $name:ident($($argument:ident: $T:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// Pointers are NULL or valid for what the call writes.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $T),*) -> Status {
            let outcome = || -> Outcome { $body };
            finish(stringify!($name), outcome())
        }
    )*};
}

calls! {
    /// Makes a generator with seed 0 at the beginning of its sequence.
    ///
    /// Status: OUT_OF_RANGE for NULL; TYPE_ERROR for quasi-random and unknown types.
    fn curandCreateGenerator(generator: *mut *mut c_void, kind: c_int) {
        create(generator, kind)
    }

    /// The same: host memory is device memory.
    ///
    /// Status: as for curandCreateGenerator.
    fn curandCreateGeneratorHost(generator: *mut *mut c_void, kind: c_int) {
        create(generator, kind)
    }

    /// Ends a generator.
    ///
    /// Status: NOT_INITIALIZED for one that is not alive.
    fn curandDestroyGenerator(generator: *mut c_void) {
        get(generator)?;
        GENERATORS.remove(generator);
        Ok(())
    }

    /// The version: 1000 * major + 100 * minor + patch.
    ///
    /// Status: OUT_OF_RANGE for NULL.
    fn curandGetVersion(version: *mut c_int) {
        let [major, minor, patch] = VERSION;
        // SAFETY: `version` is NULL or valid for one write.
        unsafe { store(version, "version", 1000 * major + 100 * minor + patch) }
    }

    /// A part of the version: 0 major, 1 minor, 2 patch.
    ///
    /// Status: OUT_OF_RANGE for NULL and for another number.
    fn curandGetProperty(property: c_int, value: *mut c_int) {
        let part = usize::try_from(property).ok().and_then(|at| VERSION.get(at));
        let part = part.ok_or_else(|| (OUT_OF_RANGE, format!("type is {property}: must be 0, 1 or 2")))?;
        // SAFETY: `value` is NULL or valid for one write.
        unsafe { store(value, "value", *part) }
    }

    /// Keeps a stream: all work is done when a call returns.
    ///
    /// Status: NOT_INITIALIZED for a generator that is not alive.
    fn curandSetStream(generator: *mut c_void, stream: *mut c_void) {
        lock(&*get(generator)?).stream = stream.addr();
        Ok(())
    }

    /// Begins the sequence of a seed, at the offset.
    ///
    /// Status: NOT_INITIALIZED for a generator that is not alive.
    fn curandSetPseudoRandomGeneratorSeed(generator: *mut c_void, seed: c_ulonglong) {
        let generator = get(generator)?;
        let mut generator = lock(&generator);
        generator.seed = seed;
        generator.position = generator.offset;
        Ok(())
    }

    /// Goes to a word of the sequence.
    ///
    /// Status: NOT_INITIALIZED for a generator that is not alive.
    fn curandSetGeneratorOffset(generator: *mut c_void, offset: c_ulonglong) {
        let generator = get(generator)?;
        let mut generator = lock(&generator);
        generator.offset = offset;
        generator.position = offset;
        Ok(())
    }

    /// Looks at an order of results; there is one.
    ///
    /// Status: NOT_INITIALIZED for a generator that is not alive; OUT_OF_RANGE for an order that
    /// pseudo-random numbers do not have.
    fn curandSetGeneratorOrdering(generator: *mut c_void, order: c_int) {
        get(generator)?;
        match order {
            100..=104 => Ok(()),
            _ => Err((OUT_OF_RANGE, format!("order is {order}: must be 100 to 104"))),
        }
    }

    /// There are no quasi-random generators.
    ///
    /// Status: NOT_INITIALIZED for a generator that is not alive, else TYPE_ERROR.
    fn curandSetQuasiRandomGeneratorDimensions(generator: *mut c_void, dimensions: c_uint) {
        get(generator)?;
        Err((TYPE_ERROR, format!("num_dimensions is {dimensions}, of a generator that has none")))
    }

    /// Nothing: a generator needs no preparation.
    ///
    /// Status: NOT_INITIALIZED for a generator that is not alive.
    fn curandGenerateSeeds(generator: *mut c_void) {
        get(generator).map(drop)
    }

    /// Words of 32 random bits.
    ///
    /// Status, in this order: NOT_INITIALIZED for a generator that is not alive; OUT_OF_RANGE for
    /// NULL.
    fn curandGenerate(generator: *mut c_void, output: *mut c_uint, count: usize) {
        // SAFETY: `output` is NULL or has room for `count` numbers.
        unsafe { draw(generator, output, count, 1, |words| [words.next()]) }
    }

    /// Words of 64 random bits.
    ///
    /// Status: as for curandGenerate.
    fn curandGenerateLongLong(generator: *mut c_void, output: *mut c_ulonglong, count: usize) {
        // SAFETY: `output` is NULL or has room for `count` numbers.
        unsafe { draw(generator, output, count, 2, |words| [words.next_wide()]) }
    }

    /// Numbers between 0, which is left out, and 1.
    ///
    /// Status: as for curandGenerate.
    fn curandGenerateUniform(generator: *mut c_void, output: *mut f32, count: usize) {
        // SAFETY: `output` is NULL or has room for `count` numbers.
        unsafe { draw(generator, output, count, 1, |words| [uniform(words)]) }
    }

    /// Numbers between 0, which is left out, and 1.
    ///
    /// Status: as for curandGenerate.
    fn curandGenerateUniformDouble(generator: *mut c_void, output: *mut f64, count: usize) {
        // SAFETY: `output` is NULL or has room for `count` numbers.
        unsafe { draw(generator, output, count, 2, |words| [uniform_double(words)]) }
    }

    /// Normal numbers.
    ///
    /// Status, in this order: NOT_INITIALIZED for a generator that is not alive;
    /// LENGTH_NOT_MULTIPLE for an odd count; OUT_OF_RANGE for NULL.
    fn curandGenerateNormal(generator: *mut c_void, output: *mut f32, count: usize, mean: f32, deviation: f32) {
        let make = |words: &mut Words| normal(pair(words), mean.into(), deviation.into()).map(|x| x as f32);
        // SAFETY: `output` is NULL or has room for `count` numbers.
        unsafe { draw(generator, output, count, 1, make) }
    }

    /// Normal numbers.
    ///
    /// Status: as for curandGenerateNormal.
    fn curandGenerateNormalDouble(generator: *mut c_void, output: *mut f64, count: usize, mean: f64, deviation: f64) {
        // SAFETY: `output` is NULL or has room for `count` numbers.
        unsafe { draw(generator, output, count, 2, |words| normal(pair_double(words), mean, deviation)) }
    }

    /// Numbers whose logarithms are normal.
    ///
    /// Status: as for curandGenerateNormal.
    fn curandGenerateLogNormal(generator: *mut c_void, output: *mut f32, count: usize, mean: f32, deviation: f32) {
        let make = |words: &mut Words| normal(pair(words), mean.into(), deviation.into()).map(|x| x.exp() as f32);
        // SAFETY: `output` is NULL or has room for `count` numbers.
        unsafe { draw(generator, output, count, 1, make) }
    }

    /// Numbers whose logarithms are normal.
    ///
    /// Status: as for curandGenerateNormal.
    fn curandGenerateLogNormalDouble(generator: *mut c_void, output: *mut f64, count: usize, mean: f64, deviation: f64) {
        let make = |words: &mut Words| normal(pair_double(words), mean, deviation).map(f64::exp);
        // SAFETY: `output` is NULL or has room for `count` numbers.
        unsafe { draw(generator, output, count, 2, make) }
    }

    /// Poisson numbers of a mean above 0 and up to 400000.
    ///
    /// Status, in this order: NOT_INITIALIZED for a generator that is not alive; OUT_OF_RANGE for
    /// another mean and for NULL.
    fn curandGeneratePoisson(generator: *mut c_void, output: *mut c_uint, count: usize, mean: f64) {
        let generator = get_to_work(generator)?;
        if !(mean > 0.0 && mean <= 400_000.0) {
            return Err((OUT_OF_RANGE, format!("lambda is {mean}: must be above 0 and at most 400000")));
        }
        if count == 0 {
            return Ok(());
        }
        required(output, "outputPtr")?;
        let mut generator = lock(&generator);
        let (seed, start, output) = (generator.seed, generator.position, &Output(output));
        threads::spread(count, |range| {
            for i in range {
                // SAFETY: not NULL, the caller vouches for `count` elements, and ranges do not
                // meet.
                unsafe { output.set(i, poisson::draw(seed, start.wrapping_add(i as u64), mean)) };
            }
        });
        generator.position = start.wrapping_add(count as u64);
        Ok(())
    }
}
