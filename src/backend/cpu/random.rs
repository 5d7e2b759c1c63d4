//! Random masks, applied to runs of cells while they are at hand.
//!
//! ```text
//!  draw.rs   words of a mask: the generator        gather.rs   bits of a mask in the order of the cells
//!  run.rs    what a mask that nobody keeps makes of a run of elements
//! ```

mod draw;
mod gather;
mod run;

use cudnn_shim_macros::vectorized;

use self::draw::{DrawWords, Numbers};
use self::gather::{GATHERED, gather, gather_across};
pub(super) use self::run::{MOST_RUN, Run};
use super::kind::{self, Call, Kind, Table};
use super::row::{self, Row};
use super::stage::Stage;
use super::stream::{self, Distance, STREAMING_BYTES};
use super::strided::copy_strided;
use super::{Machine, grid::Grid, threads};
use crate::backend::Address;
use crate::backend::choice::{self, Choice, Kernel};
use crate::backend::function::{Real, with_real};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::{Compute, Draw, Random, Scaling};

/// Elements per tile: numbers of either type fit the first-level cache several times.
const CHUNK: usize = 1024;
const CHUNK_WORDS: usize = CHUNK / 32;
const STAGE_BYTES: usize = CHUNK * size_of::<f64>();

/// Turns of a loop whose bits are neighbours from which on they are looked at together.
const LEAST_ACROSS: i64 = 8;

/// Words that a thread draws at a time where that is all it does.
const DRAWN_WORDS: usize = 4096;

/// `out[i] = bit i of the words ? factor * x[i] : 0` for `i < n`.
///
/// # Safety
/// `n` numbers are readable at `x` and writable at `out`, which are the same or do not overlap;
/// words of `n` bits are readable. The processor has the instructions that the function was chosen
/// for.
type Apply<T> = unsafe fn(out: *mut T, x: *const T, words: *const u32, n: usize, factor: T);

/// How the bits of cells come.
#[derive(Clone, Copy)]
enum Bits {
    /// From the generator.
    Drawn,
    /// From the mask: those of several turns of this loop at a time.
    Across(usize),
    /// From the mask: those of the innermost loop, or of the longest one if that is short.
    Along,
}

/// How the bits of cells come by a kernel, if it accepts the step.
type Accept = fn(&Random) -> Option<Bits>;

/// The kernels; the first one that accepts a step runs it. A mask that is drawn is written first
/// where it does not come from the generator.
const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "random_sequential",
        when: "masks that are drawn, where all operands are walked from one end to the other: bits are applied as they are drawn",
        accept: |step| (step.draw.is_some() && is_straight(step)).then_some(Bits::Drawn),
    },
    Kernel {
        name: "random_bit_transpose",
        when: "masks whose neighbours belong to 8 turns or more of an outer loop: squares of bits are turned",
        accept: |step| across(step).map(Bits::Across),
    },
    Kernel {
        name: "random_gathered",
        when: "all masks: bits are gathered along a loop",
        accept: |_| Some(Bits::Along),
    },
];

/// Whether all three operands are walked from one end to the other.
fn is_straight(step: &Random) -> bool {
    step.nest.is_contiguous() && step.nest.offsets[2] == 0
}

/// The loop that tiles cut.
fn tiled(step: &Random) -> Option<usize> {
    let axes = step.nest.axes();
    match axes.last()?.extent {
        0..8 => (0..axes.len()).max_by_key(|&i| axes[i].extent),
        _ => Some(axes.len() - 1),
    }
}

/// Where neighbours have bits far apart: another loop, along which they are neighbours in the mask.
fn across(step: &Random) -> Option<usize> {
    let axes = step.nest.axes();
    let are_apart = axes[tiled(step)?].strides[2] != 1;
    axes.iter().position(|axis| are_apart && axis.strides[2] == 1 && axis.extent >= LEAST_ACROSS)
}

/// Where the data lies.
#[derive(Clone, Copy)]
struct Places {
    dst: *mut u8,
    src: *const u8,
    mask: *mut u32,
}

// SAFETY: addresses without meaning of their own, as [`crate::backend::Operands`].
unsafe impl Sync for Places {}

impl Kind for Random {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    fn kernels(&self, _machine: Machine) -> Vec<&'static str> {
        choice::names(KERNELS, |accept| accept(self))
    }

    fn is_modest(&self, _machine: Machine) -> bool {
        true
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { run(self, call.at, call.machine, call.choice) }
    }
}

/// Runs `step` on `machine`: `at` are destination, source, mask and, if the step draws, states.
///
/// # Errors
/// As for [`crate::backend::run_by`] and [`Random::check`].
///
/// # Safety
/// As for [`crate::backend::reference::random`]; the destination's offsets are distinct, and it
/// does not overlap the source unless each cell is its own source. Nobody else uses the states
/// meanwhile.
unsafe fn run(step: &Random, at: &[Address], machine: Machine, choice: Choice<'_>) -> Result<()> {
    step.check()?;
    let (_, bits) = choice.of(KERNELS, |accept| accept(step))?;
    let places = Places { dst: at[0].pointer(), src: at[1].pointer(), mask: at[2].pointer().cast() };
    let compute = if step.scalar == Scalar::F64 { Compute::Double } else { Compute::Single };
    with_real!(compute, T => {
        let task = Task::<T>::new(step, places, machine);
        let Some(draw) = step.draw else {
            // SAFETY: the operands and the mask are those of the step.
            return unsafe { task.apply_mask(bits) };
        };
        let states = at[3].pointer().cast::<u64>();
        // SAFETY: the states are readable: a seed and the number of the call.
        let (seed, call) = unsafe { (states.read_unaligned(), states.add(1).read_unaligned()) };
        let numbers = Numbers { seed, call, threshold: draw.threshold };
        // SAFETY: the operands, the mask and the states are those of the step.
        unsafe {
            if let Bits::Drawn = bits {
                task.draw_and_apply(draw, numbers)?;
            } else {
                task.draw(draw, numbers)?;
                task.apply_mask(bits)?;
            }
            if states != places.mask.cast() {
                states.add(1).write_unaligned(call.wrapping_add(1));
            }
        }
        Ok(())
    })
}

struct Task<'a, T> {
    step: &'a Random,
    places: Places,
    machine: Machine,
    draw_words: DrawWords,
    apply: Apply<T>,
    /// Conversions between memory and numbers.
    widen: Row,
    narrow: Row,
    /// Whether cells are numbers.
    is_real: bool,
    stream: Option<stream::Stream>,
}

impl<'a, T: Real> Task<'a, T> {
    fn new(step: &'a Random, places: Places, machine: Machine) -> Self {
        let bytes = step.nest.len() as usize * step.scalar.size();
        let streams = bytes >= STREAMING_BYTES && places.dst.cast_const() != places.src;
        Task {
            step,
            places,
            machine,
            draw_words: draw::words_for(machine.isa),
            apply: apply::of(machine.isa),
            widen: row::between(step.scalar, T::SCALAR, Scaling::MOVE, machine.isa),
            narrow: row::between(T::SCALAR, step.scalar, Scaling::MOVE, machine.isa),
            is_real: step.scalar == T::SCALAR,
            stream: stream::streams(machine.isa).map(|s| s.copy).filter(|_| streams),
        }
    }

    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn draw(&self, draw: Draw, numbers: Numbers) -> Result<()> {
        let words = draw.words() as usize;
        let pieces = words.div_ceil(DRAWN_WORDS);
        let threads = self.machine.threads_for(4 * draw.elements as usize);
        threads::in_ranges(threads, pieces, 0, &|_, range| {
            for first in range.map(|piece| piece * DRAWN_WORDS) {
                let count = DRAWN_WORDS.min(words - first);
                // SAFETY: words of the mask.
                unsafe { (self.draw_words)(self.places.mask.add(first), first as u64, count, numbers) };
            }
        })?;
        // SAFETY: the last word of the mask, which this run has written.
        unsafe { clear_rest(self.places.mask, draw.elements) };
        Ok(())
    }

    /// # Safety
    /// As for [`run`](fn@run); the nest [is straight](is_straight).
    unsafe fn draw_and_apply(&self, draw: Draw, numbers: Numbers) -> Result<()> {
        // The mask may go on behind the last cell.
        let (n, cells) = (draw.elements as usize, self.step.nest.len() as usize);
        let cell = self.step.scalar.size() as isize;
        let [to, from, _] = self.step.nest.offsets;
        let dst = self.places.dst.wrapping_offset(to as isize * cell);
        let src = self.places.src.wrapping_offset(from as isize * cell);
        let places = Places { dst, src, ..self.places };
        let threads = self.machine.threads_for(n * cell as usize);
        threads::in_ranges(threads, n.div_ceil(CHUNK), 0, &|_, range| {
            let places = &places;
            for first in range.map(|chunk| chunk * CHUNK) {
                let count = CHUNK.min(n - first);
                let words = count.div_ceil(32);
                let mask = places.mask.wrapping_add(first / 32);
                let offset = first * cell as usize;
                let (dst, src) = (places.dst.wrapping_add(offset), places.src.wrapping_add(offset));
                let there = count.min(cells.saturating_sub(first));
                // SAFETY: the words of this chunk, and those of its cells that there are.
                unsafe {
                    (self.draw_words)(mask, (first / 32) as u64, words, numbers);
                    self.run_cells([dst, src.cast_mut()], [cell; 2], mask, there);
                }
            }
            stream::fence();
        })?;
        // SAFETY: the last word of the mask, which this run has written.
        unsafe { clear_rest(self.places.mask, draw.elements) };
        Ok(())
    }

    /// Applies a mask that is there.
    ///
    /// # Safety
    /// As for [`run`](fn@run).
    unsafe fn apply_mask(&self, bits: Bits) -> Result<()> {
        let nest = &self.step.nest;
        let cell = self.step.scalar.size() as isize;
        // The third operand's steps count bits.
        let bytes =
            |strides: [i64; 3]| [strides[0] as isize * cell, strides[1] as isize * cell, strides[2] as isize];
        let mut loops: Vec<(usize, [isize; 3])> =
            nest.axes().iter().map(|axis| (axis.extent as usize, bytes(axis.strides))).collect();
        if loops.is_empty() {
            loops.push((1, [cell, cell, 1]));
        }
        let inner = tiled(self.step).unwrap_or(0);
        let [dst_step, src_step, bit_step] = loops[inner].1;
        let steps = [dst_step, src_step];
        let at = [self.places.dst, self.places.src.cast_mut(), std::ptr::null_mut()];
        let start = bytes(nest.offsets);
        let size = nest.len() as usize * cell as usize;
        let mask = &self.places;
        let Bits::Across(across) = bits else {
            let grid = Grid::<1, 3>::over(loops.iter().copied(), |_| false, start, [(inner, CHUNK)]);
            return grid.for_each(self.machine, size, at, |[dst, src, bit], _, [n]| {
                let mut words = [0_u32; CHUNK_WORDS];
                // SAFETY: the mask has a bit for every cell of the tile, and the operands have its
                // cells.
                unsafe {
                    gather(&mut words, mask.mask, bit.addr(), bit_step, n);
                    self.run_cells([dst, src], steps, words.as_ptr(), n);
                }
            });
        };
        let turn = loops[across].1;
        let kernel = [(inner, 32 * GATHERED), (across, 32)];
        let grid = Grid::<2, 3>::over(loops.iter().copied(), |_| false, start, kernel);
        grid.for_each(self.machine, size, at, |[dst, src, bit], _, [n, turns]| {
            let mut words = [[0_u32; GATHERED]; 32];
            // SAFETY: the mask has a bit for every cell of each turn, and the operands have the
            // cells.
            unsafe {
                gather_across(&mut words, mask.mask, bit.addr(), bit_step, n, turns);
                for (k, words) in words[..turns].iter().enumerate() {
                    let [dst, src] =
                        std::array::from_fn(|i| [dst, src][i].wrapping_offset(k as isize * turn[i]));
                    self.run_cells([dst, src], steps, words.as_ptr(), n);
                }
            }
        })
    }

    /// Applies bits to `n` cells, at most [`CHUNK`], `steps` bytes apart.
    ///
    /// # Safety
    /// The operands have these cells, and `words` has `n` bits.
    unsafe fn run_cells(&self, [dst, src]: [*mut u8; 2], steps: [isize; 2], words: *const u32, n: usize) {
        let mut stages = [const { None }; 3].map(|_: Option<()>| Stage::<STAGE_BYTES>::new());
        let [raw, numbers, out] = stages.each_mut().map(Stage::ptr);
        let cell = self.step.scalar.size();
        let runs = steps.map(|step| step == cell as isize);
        let factor = T::from_f64(self.step.scale);
        if runs[1] {
            Distance::Read.fetch(src, n * cell);
        }
        // SAFETY: each stage holds a chunk of any scalar; all of the source is read before the
        // destination is written.
        unsafe {
            let gathered = match runs[1] {
                true => src.cast_const(),
                false => {
                    copy_strided(cell, raw, cell as isize, src, steps[1], n);
                    raw.cast_const()
                }
            };
            let x = match self.is_real {
                true => gathered.cast::<T>(),
                false => {
                    (self.widen)(numbers, gathered, n, Scaling::MOVE);
                    numbers.cast_const().cast::<T>()
                }
            };
            (self.apply)(out.cast(), x, words, n, factor);
            let results = match self.is_real {
                true => out,
                false => {
                    (self.narrow)(raw, out, n, Scaling::MOVE);
                    raw
                }
            };
            match self.stream {
                Some(stream) if runs[0] => stream(dst, results, n * cell),
                _ if runs[0] => dst.copy_from_nonoverlapping(results, n * cell),
                _ => copy_strided(cell, dst, steps[0], results, cell as isize, n),
            }
        }
    }
}

/// Clears the bits beyond the last element.
///
/// # Safety
/// The mask of `elements` elements is readable and writable.
unsafe fn clear_rest(mask: *mut u32, elements: u64) {
    let used = elements % 32;
    if used != 0 {
        // SAFETY: the last word.
        unsafe {
            let last = mask.add((elements / 32) as usize);
            last.write(last.read() & ((1 << used) - 1));
        }
    }
}

/// # Safety
/// As for [`Apply`].
#[vectorized]
unsafe fn apply<T: Real>(out: *mut T, x: *const T, words: *const u32, n: usize, factor: T) {
    let pick = |word: u32, j: usize, x: T| {
        let product = (x * factor).canonical();
        if word >> j & 1 == 1 { product } else { T::ZERO }
    };
    let whole = n / 32;
    for i in 0..whole {
        // SAFETY: 32 numbers of the n, and their word.
        unsafe {
            let word = words.add(i).read();
            let from = x.add(32 * i).cast::<[T; 32]>().read_unaligned();
            let mut to = [T::ZERO; 32];
            for j in 0..32 {
                to[j] = pick(word, j, from[j]);
            }
            out.add(32 * i).cast::<[T; 32]>().write_unaligned(to);
        }
    }
    for i in 32 * whole..n {
        // SAFETY: i < n.
        unsafe { out.add(i).write(pick(words.add(whole).read(), i % 32, x.add(i).read())) };
    }
}
