//! OpTensor: runs of cells of three operands, brought to the computation type where they are not of it.

use super::row::{self, Row};
use super::stage::Stage;
use super::stream::{self, Distance, LINE, STREAMING_BYTES, Stream};
use super::strided::copy_strided;
use super::{Isa, Machine, grid::Grid};
use crate::backend::function::{Map2, Real, element, factors, with_function, with_real};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::{Axis, LoopNest};
use crate::ops::{NanRule, Pointwise, Scaling};

/// Cells per tile where operands go through buffers, which then stay in the first-level cache.
const CHUNK: usize = 1024;

/// Cells per tile where none does.
const LONG_CHUNK: usize = 16 << 10;

/// An innermost loop shorter than this yields to the longest one.
const SHORT: usize = 8;

/// `out[i] = function(p * a[i], q * b[i]) + beta * old[i]` for `i < n`, written past the caches if `stream` is given.
///
/// # Safety
/// `n` cells are readable at each operand that the function reads, at `old` if there is a beta, and writable at `out`,
/// which may be the same cells as any of them. The processor has the instructions that the function was chosen for.
/// Whoever hands on what was streamed must first call [`stream::fence`].
type Kernel<T> = unsafe fn(
    out: *mut T,
    a: *const T,
    b: *const T,
    old: *const T,
    n: usize,
    factors: [T; 3],
    stream: Option<Stream>,
);

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

/// Room for a chunk of any scalar.
const BUFFER_BYTES: usize = CHUNK * size_of::<u64>();

/// Runs `problem` on `machine`.
///
/// # Errors
/// As for [`crate::backend::run`].
///
/// # Safety
/// For every offset triple of the nest, `at[0] + offset` is writable, and readable if `beta != 0`, and the offsets
/// of operands that are read are readable at `at[1]` and `at[2]`; each for one scalar, and aligned to it. The
/// destination offsets are distinct. An operand that is read does not overlap the destination, unless each cell of the
/// destination is its own operand: same pointer, same strides, same scalar size.
pub(in crate::backend) unsafe fn run(problem: &Pointwise, at: [*mut u8; 3], machine: Machine) -> Result<()> {
    with_real!(problem.compute, T => {
        let kernel = with_function!(problem.function, F => kernel::<T, F>(problem.factors.beta != 0.0, machine.isa));
        // SAFETY: handed on; the kernel is of the problem's function and type.
        unsafe { run_with::<T>(problem, at, machine, kernel) }
    })
}

/// # Safety
/// As for [`run`], and the kernel computes what the problem asks for.
unsafe fn run_with<T: Real>(
    problem: &Pointwise,
    at: [*mut u8; 3],
    machine: Machine,
    kernel: Kernel<T>,
) -> Result<()> {
    let scalars = [problem.dst, problem.src, problem.src];
    let axes = loops(&problem.nest, scalars);
    let rank = problem.nest.axes().len().max(1);
    let axes = &axes[..rank];
    let inner = match axes[rank - 1].0 {
        extent if extent >= SHORT => rank - 1,
        _ => (0..rank).max_by_key(|&i| axes[i].0).unwrap_or(rank - 1),
    };
    let arity = problem.function.arity();
    let reads_old = problem.factors.beta != 0.0;
    let access = |k: usize| Access {
        step: axes[inner].1[k],
        cell: scalars[k].size(),
        is_real: scalars[k] == T::SCALAR,
        widen: row::between(scalars[k], T::SCALAR, Scaling::MOVE, machine.isa),
    };
    let [c, a, b] = [access(0), access(1), access(2)];
    let narrow = row::between(T::SCALAR, problem.dst, Scaling::MOVE, machine.isa);
    let direct = c.is_direct() && (arity < 1 || a.is_direct()) && (arity < 2 || b.is_direct());
    let start = std::array::from_fn(|k| problem.nest.offsets[k] as isize * scalars[k].size() as isize);
    let chunks = [(inner, if direct { LONG_CHUNK } else { CHUNK })];
    let grid = Grid::<1, 3>::over(axes.iter().copied(), |_| false, start, chunks);
    let bytes = problem.nest.len() as usize * c.cell;
    let in_place = at[0] == at[1] || at[0] == at[2];
    let streams = direct && !reads_old && !in_place && bytes >= STREAMING_BYTES;
    let stream = stream::streams(machine.isa).map(|s| s.copy).filter(|_| streams);
    let factors = factors::<T>(problem.factors);
    let scratch = if direct { 0 } else { 5 * BUFFER_BYTES };
    grid.for_each_with(machine, bytes, scratch, at, |scratch, [to, x, y], _, [n]| {
        let [raw, out, left, right, before] = std::array::from_fn(|k| scratch.wrapping_add(k * BUFFER_BYTES));
        // SAFETY: the tile's cells belong to the nest; where a buffer is used, n <= CHUNK cells fit it, and it is aligned
        // for every scalar. All of a chunk is read before any of it is written, but for kernels on direct operands,
        // which read each cell before they write it.
        unsafe {
            let x = if arity < 1 { x.cast() } else { fetch::<T>(a, x, n, left, raw) };
            let y = if arity < 2 { y.cast() } else { fetch::<T>(b, y, n, right, raw) };
            let old = match reads_old {
                true => fetch::<T>(c, to, n, before, raw),
                false => to.cast(),
            };
            if c.is_direct() {
                return kernel(to.cast(), x, y, old, n, factors, stream);
            }
            kernel(out.cast(), x, y, old, n, factors, None);
            if c.is_run() {
                return narrow(to, out, n, Scaling::MOVE);
            }
            narrow(raw, out, n, Scaling::MOVE);
            copy_strided(c.cell, to, c.step, raw, c.cell as isize, n);
        }
    })
}

/// The loops as extents and steps in bytes, at least one.
fn loops(nest: &LoopNest<3>, scalars: [Scalar; 3]) -> [(usize, [isize; 3]); crate::layout::MAX_AXES] {
    let bytes = |axis: &Axis<3>| {
        (axis.extent as usize, std::array::from_fn(|k| axis.strides[k] as isize * scalars[k].size() as isize))
    };
    let mut loops = [(1, scalars.map(|s| s.size() as isize)); crate::layout::MAX_AXES];
    loops.iter_mut().zip(nest.axes()).for_each(|(to, axis)| *to = bytes(axis));
    loops
}

/// `n` cells of an operand as numbers of the computation type, side by side: where they are, or in `buffer`.
///
/// # Safety
/// The cells are readable at `from`; either buffer holds `n` cells of any scalar and is aligned for it.
unsafe fn fetch<T: Real>(
    access: Access,
    from: *const u8,
    n: usize,
    buffer: *mut u8,
    raw: *mut u8,
) -> *const T {
    let numbers = buffer.cast::<T>();
    let Access { step, cell, is_real, widen } = access;
    // SAFETY: the caller's promise.
    unsafe {
        if access.is_direct() {
            return from.cast();
        }
        if step == 0 {
            widen(buffer, from, 1, Scaling::MOVE);
            let value = numbers.read();
            (0..n).for_each(|i| numbers.add(i).write(value));
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

/// The kernel of a function, with or without a beta.
fn kernel<T: Real, F: Map2>(adds: bool, isa: Isa) -> Kernel<T> {
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx512() {
        return if adds { avx512::<T, F, true> } else { avx512::<T, F, false> };
    } else if isa.has_avx2() {
        return if adds { avx2::<T, F, true> } else { avx2::<T, F, false> };
    }
    let _ = isa;
    if adds { cells::<T, F, true> } else { cells::<T, F, false> }
}

/// The kernel once more, compiled for other instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled_for {
    ($level:ident, $features:literal) => {
        /// # Safety
        /// As for [`Kernel`].
        #[target_feature(enable = $features)]
        unsafe fn $level<T: Real, F: Map2, const ADD: bool>(
            out: *mut T,
            a: *const T,
            b: *const T,
            old: *const T,
            n: usize,
            factors: [T; 3],
            stream: Option<Stream>,
        ) {
            // SAFETY: handed on.
            unsafe { cells::<T, F, ADD>(out, a, b, old, n, factors, stream) }
        }
    };
}
#[cfg(target_arch = "x86_64")]
compiled_for!(avx2, "avx2");
#[cfg(target_arch = "x86_64")]
compiled_for!(avx512, "avx512f,avx512bw,avx512dq,avx512vl");

/// Bytes computed before they are written: of cells in place the compiler would have to ask whether they overlap,
/// of these it knows that they do not.
const STAGE_BYTES: usize = 512;

/// The loop itself; inlined so that it is compiled for the instruction set of its caller.
///
/// # Safety
/// As for [`Kernel`].
#[inline(always)]
unsafe fn cells<T: Real, F: Map2, const ADD: bool>(
    out: *mut T,
    a: *const T,
    b: *const T,
    old: *const T,
    n: usize,
    factors: [T; 3],
    stream: Option<Stream>,
) {
    let mut stage = Stage::<STAGE_BYTES>::new();
    let stage = stage.ptr().cast::<T>();
    let most = STAGE_BYTES / size_of::<T>();
    // The first piece ends on a line, so that every later one starts on one.
    let mut piece = most - out.addr() % LINE / size_of::<T>();
    let mut done = 0;
    while done < n {
        piece = piece.min(n - done);
        for (from, is_read) in [(a, F::ARITY > 0), (b, F::ARITY > 1), (old, ADD)] {
            if is_read {
                Distance::Read.fetch(from.wrapping_add(done).cast(), piece * size_of::<T>());
            }
        }
        // SAFETY: the piece lies inside the n cells and inside the stage; what is not read is not touched.
        unsafe {
            for i in 0..piece {
                let read =
                    |from: *const T, reads: bool| if reads { from.add(done + i).read() } else { T::ZERO };
                let (x, y, old) = (read(a, F::ARITY > 0), read(b, F::ARITY > 1), read(old, ADD));
                stage.add(i).write(element::<T, F, ADD>(x, y, old, factors));
            }
            match stream {
                Some(stream) => stream(out.add(done).cast(), stage.cast(), piece * size_of::<T>()),
                None => out.add(done).copy_from_nonoverlapping(stage, piece),
            }
        }
        done += piece;
        piece = most;
    }
}
