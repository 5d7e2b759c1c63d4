//! OpTensor: runs of cells of three operands, brought to the computation type where they are not of it.

use std::mem::MaybeUninit;

use super::row::{self, Row};
use super::stream::STREAMING_BYTES;
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

/// `out[i] = function(p * a[i], q * b[i]) + beta * old[i]` for `i < n`.
///
/// # Safety
/// `n` cells are readable at each operand that the function reads, at `old` if there is a beta, and writable at `out`,
/// which may be the same cells as any of them. The processor has the instructions that the function was chosen for.
type Kernel<T> = unsafe fn(out: *mut T, a: *const T, b: *const T, old: *const T, n: usize, factors: [T; 3]);

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
type Buffer = [MaybeUninit<u64>; CHUNK];

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
        let kernels = with_function!(problem.function, F => kernels::<T, F>(problem.factors.beta != 0.0, machine.isa));
        // SAFETY: handed on; the kernels are of the problem's function and type.
        unsafe { run_with::<T>(problem, at, machine, kernels) }
    })
}

/// # Safety
/// As for [`run`], and the kernels compute what the problem asks for.
unsafe fn run_with<T: Real>(
    problem: &Pointwise,
    at: [*mut u8; 3],
    machine: Machine,
    [kernel, streaming]: [Kernel<T>; 2],
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
    let factors = factors::<T>(problem.factors);
    grid.for_each(machine, bytes, at, |[to, x, y], _, [n]| {
        let mut buffers: [Buffer; 4] = [[MaybeUninit::uninit(); CHUNK]; 4];
        let [raw, out, left, right] = buffers.each_mut().map(|buffer| buffer.as_mut_ptr().cast::<u8>());
        let mut old: Buffer = [MaybeUninit::uninit(); CHUNK];
        // SAFETY: the tile's cells belong to the nest; where a buffer is used, n <= CHUNK cells fit it, and it is aligned
        // for every scalar. All of a chunk is read before any of it is written, but for kernels on direct operands,
        // which read each cell before they write it.
        unsafe {
            let x = if arity < 1 { x.cast() } else { fetch::<T>(a, x, n, left, raw) };
            let y = if arity < 2 { y.cast() } else { fetch::<T>(b, y, n, right, raw) };
            let old = match reads_old {
                true => fetch::<T>(c, to, n, old.as_mut_ptr().cast(), raw),
                false => to.cast(),
            };
            if c.is_direct() {
                if streams {
                    streaming(to.cast(), x, y, old, n, factors);
                } else {
                    kernel(to.cast(), x, y, old, n, factors);
                }
                return;
            }
            kernel(out.cast(), x, y, old, n, factors);
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

/// The plain kernel and the one that writes past the caches.
fn kernels<T: Real, F: Map2>(adds: bool, isa: Isa) -> [Kernel<T>; 2] {
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx2() {
        return match adds {
            true => [avx2::<T, F, true, false>; 2],
            false => [avx2::<T, F, false, false>, avx2::<T, F, false, true>],
        };
    }
    let _ = isa;
    if adds { [portable::<T, F, true>; 2] } else { [portable::<T, F, false>; 2] }
}

/// # Safety
/// As for [`Kernel`].
unsafe fn portable<T: Real, F: Map2, const ADD: bool>(
    out: *mut T,
    a: *const T,
    b: *const T,
    old: *const T,
    n: usize,
    factors: [T; 3],
) {
    // SAFETY: handed on.
    unsafe {
        cells::<T, F, ADD>(out, [a, b, old], 0..n, factors, |place, block| place.write_unaligned(block))
    }
}

/// # Safety
/// As for [`Kernel`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<T: Real, F: Map2, const ADD: bool, const STREAM: bool>(
    out: *mut T,
    a: *const T,
    b: *const T,
    old: *const T,
    n: usize,
    factors: [T; 3],
) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};
    // SAFETY: handed on; blocks are whole lines, and streamed to aligned places only.
    unsafe {
        if !STREAM {
            return cells::<T, F, ADD>(out, [a, b, old], 0..n, factors, |place, block| {
                place.write_unaligned(block);
            });
        }
        let head = out.align_offset(64).min(n);
        cells::<T, F, ADD>(out, [a, b, old], 0..head, factors, |place, block| place.write_unaligned(block));
        cells::<T, F, ADD>(out, [a, b, old], head..n, factors, |place, block| {
            let (from, to) = ((&raw const block).cast::<__m256i>(), place.cast::<__m256i>());
            for i in 0..size_of_val(&block) / 32 {
                _mm256_stream_si256(to.add(i), _mm256_loadu_si256(from.add(i)));
            }
        });
    }
}

/// Cells computed at a time: read all, then written all, so that the compiler need not ask whether operands are
/// the destination.
const BLOCK: usize = 16;

/// The loop itself; inlined so that it is compiled for the instruction set of its caller.
///
/// # Safety
/// As for [`Kernel`], of this range of cells; `store` may write the block at the place it is given.
#[inline(always)]
unsafe fn cells<T: Real, F: Map2, const ADD: bool>(
    out: *mut T,
    operands: [*const T; 3],
    range: std::ops::Range<usize>,
    factors: [T; 3],
    store: impl Fn(*mut [T; BLOCK], [T; BLOCK]),
) {
    let reads = [F::ARITY > 0, F::ARITY > 1, ADD];
    let mut i = range.start;
    // SAFETY: i + BLOCK and later i + 1 stay inside the range; operands that are not read are not touched.
    unsafe {
        while i + BLOCK <= range.end {
            let read = |k: usize| match reads[k] {
                true => operands[k].add(i).cast::<[T; BLOCK]>().read_unaligned(),
                false => [T::ZERO; BLOCK],
            };
            let (x, y, old) = (read(0), read(1), read(2));
            let mut block = [T::ZERO; BLOCK];
            for j in 0..BLOCK {
                block[j] = element::<T, F, ADD>(x[j], y[j], old[j], factors);
            }
            store(out.add(i).cast(), block);
            i += BLOCK;
        }
        while i < range.end {
            let read = |k: usize| if reads[k] { operands[k].add(i).read() } else { T::ZERO };
            out.add(i).write(element::<T, F, ADD>(read(0), read(1), read(2), factors));
            i += 1;
        }
    }
}
