//! Functions element by element: runs of cells of the operands, brought to the computation type
//! where they are not of it.

mod bytes;
mod halves;
mod table;

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use cudnn_shim_macros::vectorized;

use self::table::{Cells, KERNELS, Shape};
use super::kind::{self, Call, Kind, Table};
use super::row::{self, Row};
use super::stage::Stage;
use super::stream::{self, Distance, LINE, STREAMING_BYTES, Stream};
use super::strided::copy_strided;
use super::{Isa, Machine, grid::Grid};
use crate::backend::function::{
    Constants, Formula, Real, WithFormula, alone, blended, computed, with_function, with_real,
};
use crate::dtype::numbers::{IN_STEP, IN_STEP_PORTABLE, IN_STEP_WIDE, Together};
use crate::error::Result;
use crate::layout::Axis;
use crate::ops::function::{Function, MOST_OPERANDS};
use crate::ops::map::Factors;
use crate::ops::{Map, Scaling};

/// Cells that all buffers of a tile hold, of any scalar.
const ROOM: usize = 5120;

/// Cells per tile where operands go through buffers, which then stay in the first-level cache: one
/// for each operand, for what the destination held, and for cells before or after conversion.
const fn chunk<const N: usize>() -> usize {
    ROOM / (N + 2) / 64 * 64
}

/// Cells per tile where none does.
const LONG_CHUNK: usize = 16 << 10;

/// An innermost loop shorter than this yields to the longest one.
const SHORT: i64 = 8;

/// Computes the function of the first `n` cells of every operand that it reads, adds `beta * old`
/// unless `old` is null, and writes the cells, past the caches if `stream` is given.
///
/// # Safety
/// `n` cells are readable at each operand that the function reads, at `old` unless it is null, and
/// writable at `out`, which may be the same cells as any of them. The processor has the
/// instructions that the function was chosen for. A caller that passes streamed results to another
/// thread must first call [`stream::fence`].
type Kernel<T> = unsafe fn(
    out: *mut T,
    from: [*const T; MOST_OPERANDS],
    old: *const T,
    n: usize,
    with: Constants<T>,
    stream: Option<Stream>,
);

/// Writes the first of some numbers over all that follow it, as [`repeat`] does.
type Repeat<T> = unsafe fn(numbers: *mut T, n: usize);

/// How a kernel gets at the cells of one operand.
#[derive(Clone, Copy)]
struct Access {
    step: isize,
    cell: usize,
    /// Whether cells are of the computation type.
    is_real: bool,
    /// Conversion to the computation type.
    widen: Row,
}

impl Access {
    fn is_run(&self) -> bool {
        self.step == self.cell as isize
    }

    /// Whether the cells can be used where they are.
    fn is_direct(&self) -> bool {
        self.is_real && self.is_run()
    }
}

/// The loops of a step. A single element is one turn of a loop over neighbours.
fn axes<const N: usize>(map: &Map<N>) -> &[Axis<N>] {
    match map.nest.axes() {
        [] => const { &[Axis { extent: 1, strides: [1; N] }] },
        axes => axes,
    }
}

/// The loop that tiles cut.
fn tiled<const N: usize>(axes: &[Axis<N>]) -> usize {
    let last = axes.len() - 1;
    match axes[last].extent {
        extent if extent >= SHORT => last,
        _ => (0..=last).max_by_key(|&i| axes[i].extent).unwrap_or(last),
    }
}

impl<const N: usize> Kind for Map<N> {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    fn kernels(&self, machine: Machine) -> Vec<&'static str> {
        table::kernels(self, machine.isa)
    }

    fn is_modest(&self, _machine: Machine) -> bool {
        true
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let (map, machine, at) = (self, call.machine, call.pointers());
        if map.nest.is_empty() {
            return Ok(());
        }
        let axes = axes(map);
        let tiled = tiled(axes);
        let shape = Shape::new(map, &axes[tiled], machine.isa);
        let (_, cells) = call.choice.of(KERNELS, |accept| accept(&shape))?;
        with_real!(map.compute, T => {
            let kernel = with_function(map.function, KernelFor::<T>(machine.isa, PhantomData));
            // SAFETY: every cell of the nest is there, and the kernel is of the step's function and
            // type.
            unsafe { run_with::<T, N>(map, at, machine, kernel, (axes, tiled), cells) }
        })
    }
}

/// `x = function(x)` for `n` numbers side by side, with the bits of a step of this function.
///
/// # Safety
/// The numbers are readable and writable at `at`. The processor has the instructions of `isa`.
pub(super) unsafe fn in_place<T: Real>(function: Function, parameter: f64, isa: Isa, at: *mut T, n: usize) {
    let kernel = with_function(function, KernelFor::<T>(isa, PhantomData));
    let mut from = [std::ptr::null(); MOST_OPERANDS];
    from[0] = at.cast_const();
    // SAFETY: `n` numbers are readable and writable; kernels read each before they write it.
    unsafe { kernel(at, from, std::ptr::null(), n, Constants::new(Factors::NONE, parameter), None) }
}

/// # Safety
/// As for [`Kind::run`], and the kernel computes what the step asks for, whose cells may come and
/// go so.
unsafe fn run_with<T: Real, const N: usize>(
    map: &Map<N>, at: [*mut u8; N], machine: Machine, kernel: Kernel<T>, (axes, tiled): (&[Axis<N>], usize),
    cells: Cells,
) -> Result<()> {
    let scalars = map.scalars;
    let steps =
        |axis: &Axis<N>| std::array::from_fn(|k| axis.strides[k] as isize * scalars[k].size() as isize);
    let inner_steps: [isize; N] = steps(&axes[tiled]);
    let arity = map.function.arity();
    let reads_old = map.factors.beta != 0.0;
    let access: [Access; N] = std::array::from_fn(|k| Access {
        step: inner_steps[k],
        cell: scalars[k].size(),
        is_real: scalars[k] == T::SCALAR,
        widen: row::between(scalars[k], T::SCALAR, Scaling::MOVE, machine.isa),
    });
    let repeat = repeat::of::<T>(machine.isa);
    let to = access[0];
    let narrow = row::between(T::SCALAR, scalars[0], Scaling::MOVE, machine.isa);
    let start = std::array::from_fn(|k| map.nest.offsets[k] as isize * scalars[k].size() as isize);
    let with = Constants::new(map.factors, map.parameter);
    let table = matches!(cells, Cells::Bytes).then(|| {
        bytes::Table::new(machine.isa, |results, cells| {
            let mut numbers = [T::ZERO; 256];
            let numbers = numbers.as_mut_ptr();
            let mut from = [std::ptr::null(); MOST_OPERANDS];
            from[0] = numbers.cast_const();
            // SAFETY: as many bytes as numbers; kernels read each of these before they write it.
            unsafe {
                (access[1].widen)(numbers.cast(), cells, 256, Scaling::MOVE);
                kernel(numbers, from, std::ptr::null(), 256, with, None);
                narrow(results, numbers.cast(), 256, Scaling::MOVE);
            }
        })
    });
    let in_buffers = matches!(cells, Cells::Buffers);
    let chunks = [(tiled, if in_buffers { chunk::<N>() } else { LONG_CHUNK })];
    let loops = axes.iter().map(|axis| (axis.extent as usize, steps(axis)));
    let grid = Grid::<1, N>::over(loops, |_| false, start, chunks);
    let bytes = map.nest.len() as usize * to.cell;
    let in_place = at[1..].contains(&at[0]);
    let streams = to.is_run() && !reads_old && !in_place && bytes >= STREAMING_BYTES;
    let stream = stream::streams(machine.isa).map(|s| s.copy).filter(|_| streams);
    let with_halves = Constants::new(map.factors, map.parameter);
    let scratch = if in_buffers { ROOM * size_of::<u64>() } else { 0 };
    grid.for_each_with(machine, bytes, scratch, at, |room, place, _, [n]| {
        if let Some(table) = &table {
            // SAFETY: the tile's cells belong to the nest, and are bytes.
            return unsafe { table.run(place[0], place[1], n, stream) };
        }
        let mut from = [std::ptr::null(); MOST_OPERANDS];
        let mut old = std::ptr::null();
        if let Cells::Halves(kernel) = cells {
            let mut from = [std::ptr::null(); MOST_OPERANDS];
            from.iter_mut().zip(&place[1..=arity]).for_each(|(from, place)| *from = place.cast_const());
            // SAFETY: the tile's cells belong to the nest, and the kernel is one for them.
            return unsafe { kernel(place[0], from, n, with_halves, stream) };
        }
        if matches!(cells, Cells::Direct) {
            from.iter_mut()
                .zip(&place[1..=arity])
                .for_each(|(from, place)| *from = place.cast_const().cast());
            if reads_old {
                old = place[0].cast_const().cast();
            }
            // SAFETY: the tile's cells belong to the nest. Kernels read each cell before they write
            // it.
            return unsafe { kernel(place[0].cast(), from, old, n, with, stream) };
        }
        let buffer = |k: usize| room.wrapping_add(k * chunk::<N>() * size_of::<u64>());
        let (raw, out) = (buffer(N), buffer(N + 1));
        // SAFETY: the tile's cells belong to the nest; n <= chunk cells fit a buffer, which is
        // aligned for every scalar, and the buffers fit the room. All of a chunk is read before any
        // of it is written, but for kernels on direct operands, which read each cell before they
        // write it.
        unsafe {
            for k in 1..=arity {
                from[k - 1] = fetch::<T>(access[k], place[k], n, [buffer(k), raw], repeat);
            }
            if reads_old {
                old = fetch::<T>(to, place[0], n, [buffer(0), raw], repeat);
            }
            if to.is_direct() {
                return kernel(place[0].cast(), from, old, n, with, stream);
            }
            kernel(out.cast(), from, old, n, with, None);
            if to.is_run() && stream.is_none() {
                return narrow(place[0], out, n, Scaling::MOVE);
            }
            narrow(raw, out, n, Scaling::MOVE);
            if let Some(stream) = stream {
                return stream(place[0], raw, n * to.cell);
            }
            copy_strided(to.cell, place[0], to.step, raw, to.cell as isize, n);
        }
    })
}

/// `n` cells of an operand as numbers of the computation type, side by side: where they are, or in
/// `buffer`.
///
/// # Safety
/// The cells are readable at `from`; either buffer holds `n` cells of any scalar and is aligned for
/// it.
unsafe fn fetch<T: Real>(
    access: Access, from: *const u8, n: usize, [buffer, raw]: [*mut u8; 2], repeat: Repeat<T>,
) -> *const T {
    let numbers = buffer.cast::<T>();
    let Access { step, cell, is_real, widen } = access;
    // SAFETY: `n` cells are readable, and either buffer holds as many.
    unsafe {
        if access.is_direct() {
            return from.cast();
        }
        if step == 0 {
            widen(buffer, from, 1, Scaling::MOVE);
            repeat(numbers, n);
        } else if access.is_run() {
            widen(buffer, from, n, Scaling::MOVE);
        } else if is_real {
            copy_strided(cell, buffer, cell as isize, from, step, n);
        } else {
            copy_strided(cell, raw, cell as isize, from, step, n);
            widen(buffer, raw, n, Scaling::MOVE);
        }
    }
    numbers
}

/// Writes the first of `n` numbers over all that follow it.
///
/// # Safety
/// `n` numbers are writable, and the first one is there. The processor has the instructions of the
/// level that the function was chosen for.
#[vectorized]
unsafe fn repeat<T: Copy>(numbers: *mut T, n: usize) {
    // SAFETY: every place is one of the `n`.
    unsafe {
        let value = numbers.read();
        (1..n).for_each(|i| numbers.add(i).write(value));
    }
}

/// The kernel of a function for this instruction set.
struct KernelFor<T>(Isa, PhantomData<T>);

impl<T: Real> WithFormula for KernelFor<T> {
    type Output = Kernel<T>;

    fn with<F: Formula>(self) -> Kernel<T> {
        cells::of::<T, F>(self.0)
    }
}

/// Bytes computed at a time, in place before they are written: of cells in place the compiler would
/// have to ask whether they overlap, of these it knows that they do not.
const STAGE_BYTES: usize = 512;

/// The results of runs of `N` operands, each of which follows the one before. `out` is a reference
/// for the sake of the compiler, which knows of it that it is apart from the operands.
///
/// # Safety
/// As many cells as at `out`, a multiple of `N`, are readable at the operands that the function
/// reads.
#[inline(always)]
unsafe fn in_step<T: Real, F: Formula, const N: usize>(
    out: &mut [MaybeUninit<T>], from: [*const T; MOST_OPERANDS], with: Constants<T>,
) {
    let part = out.len() / N;
    let out = out.as_mut_ptr();
    for i in 0..part {
        // SAFETY: `n` cells, a multiple of `N`, are readable at each operand, and writable at
        // `out`.
        unsafe {
            let mut operands = [Together([T::ZERO; N]); MOST_OPERANDS];
            for k in 0..F::ARITY {
                for j in 0..N {
                    operands[k].0[j] = from[k].add(j * part + i).read();
                }
            }
            let results = computed::<Together<T, N>, F>(operands, with);
            for j in 0..N {
                out.add(j * part + i).write(MaybeUninit::new(results.0[j]));
            }
        }
    }
}

/// The loop itself, with `N` numbers of binary32 in step.
///
/// # Safety
/// As for [`Kernel`].
#[vectorized(IN_STEP_PORTABLE, IN_STEP, IN_STEP_WIDE)]
unsafe fn cells<T: Real, F: Formula, const N: usize>(
    out: *mut T, from: [*const T; MOST_OPERANDS], old: *const T, n: usize, with: Constants<T>,
    stream: Option<Stream>,
) {
    let mut stage = Stage::<STAGE_BYTES>::new();
    let stage = stage.ptr().cast::<T>();
    let most = STAGE_BYTES / size_of::<T>();
    // The first piece ends on a line, so that every later one starts on one.
    let mut piece = most - out.addr() % LINE / size_of::<T>();
    let in_place = from[..F::ARITY].iter().any(|from| from.addr() == out.addr());
    let is_staged = in_place || stream.is_some() || !old.is_null() || F::ARITY == 0;
    // Where results go, and how far from piece to piece: without a branch, of which the compiler
    // would make two loops.
    let (first, step) = if is_staged { (stage, 0) } else { (out, 1) };
    let mut done = 0;
    while done < n {
        piece = piece.min(n - done);
        for from in &from[..F::ARITY] {
            Distance::Read.fetch(from.wrapping_add(done).cast(), piece * size_of::<T>());
        }
        if !old.is_null() {
            Distance::Read.fetch(old.wrapping_add(done).cast(), piece * size_of::<T>());
        }
        // SAFETY: the piece lies inside the n cells and inside the stage; what is not read is not
        // touched.
        unsafe {
            let to = first.add(step * done);
            let results = std::slice::from_raw_parts_mut(to.cast(), piece);
            let from = from.map(|from| from.wrapping_add(done));
            if !F::IS_LONG || N == 1 || piece < most {
                in_step::<T, F, 1>(results, from, with);
            } else if size_of::<T>() == size_of::<f32>() {
                in_step::<T, F, N>(results, from, with);
            } else {
                in_step::<T, F, IN_STEP>(results, from, with);
            }
            if !old.is_null() {
                for i in 0..piece {
                    let sum = blended(stage.add(i).read(), old.add(done + i).read(), with.beta);
                    stage.add(i).write(sum);
                }
            } else if F::ARITY == 0 {
                (0..piece).for_each(|i| stage.add(i).write(alone::<T, F>(T::ZERO)));
            }
            match stream {
                Some(stream) => stream(out.add(done).cast(), stage.cast(), piece * size_of::<T>()),
                // Of a size that the compiler knows, it moves vectors and calls nothing.
                None if is_staged && piece == most => {
                    let whole = stage.cast::<[MaybeUninit<u8>; STAGE_BYTES]>().read();
                    out.add(done).cast::<[MaybeUninit<u8>; STAGE_BYTES]>().write_unaligned(whole);
                }
                None if is_staged => out.add(done).copy_from_nonoverlapping(stage, piece),
                None => {}
            }
        }
        done += piece;
        piece = most;
    }
}
