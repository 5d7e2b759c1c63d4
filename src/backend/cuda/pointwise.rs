//! Launches of OpTensor, and of AddTensor with a broadcast source (`kernels/pointwise.cuh`).

use super::general::{index_for, launch};
use super::launch::{Emit, Launch, Pointers, grid};
use super::params::{Divisor, Index, OperandTurn, Params};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::{Axis, LoopNest, MAX_AXES};
use crate::ops::function::Function;
use crate::ops::map::{Factors, Map};
use crate::ops::{Compute, Transform};

/// Threads of a block, each with one vector.
const THREADS: u64 = 256;
/// Bytes of a vector.
const VECTOR: u64 = 16;

/// A function of two operands, element by element: `op_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where C, A and B start.
    pub at: [u64; 3],
    /// Number of elements, or of vectors of them.
    pub count: u64,
    /// Factors of A and B.
    pub alpha: [f64; 2],
    /// Factor of the old C.
    pub beta: f64,
    /// Scalar type of C.
    pub dst: u32,
    /// Scalar type of A and B.
    pub src: u32,
    /// The function's number in `kernels/function.cuh`.
    pub function: u32,
    /// How many of A and B are read.
    pub arity: u32,
    /// 1 if C is read.
    pub blends: u32,
    /// Number of loops.
    pub rank: u32,
    /// Bit k: operand k has one element along the innermost loop of vectors.
    pub splats: u32,
    /// 1 if `op_ordered` computes in binary64.
    pub wide: u32,
    /// The loops, innermost first.
    pub turns: [OperandTurn; MAX_AXES],
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 24 + 8 + 24 + 32 + 48 * MAX_AXES);

/// Hands the launches of a problem to `emit`; `at` are the addresses of its operands.
///
/// # Errors
/// As for [`super::plan::launches`].
pub(super) fn launches(problem: &Map, at: [u64; 3], ordered: bool, emit: Emit<'_>) -> Result<()> {
    if problem.nest.is_empty() {
        return Ok(());
    }
    if problem.function.arity() == 2 && problem.scalars[1] != problem.scalars[2] {
        // These kernels know one type of operands.
        return super::formula::launches(problem, at, ordered, emit);
    }
    if ordered {
        return emit(&self::ordered(problem, at));
    }
    // The other kernel's vectors serve bytes, too.
    let is_narrow = problem.scalars[0].size() == 1;
    if vectored(problem, at, emit)? || (is_narrow && super::formula::vectored(problem, at, emit)?) {
        return Ok(());
    }
    emit(&strided(problem, at)?)
}

/// `alpha * src + beta * dst` of a source that repeats along some loop, if it is one that vectors
/// serve: whether everything was emitted. The bits are those of a conversion.
pub(super) fn blend(transform: &Transform, at: Pointers, emit: Emit<'_>) -> Result<bool> {
    let Transform { nest, dst, src, scaling } = transform;
    if dst != src || scaling.is_move() || nest.axes().iter().all(|axis| axis.strides[1] != 0) {
        return Ok(false);
    }
    let mut operands = LoopNest::new(&[], [nest.offsets[0], nest.offsets[1], 0]);
    for axis in nest.axes() {
        operands.push(Axis { extent: axis.extent, strides: [axis.strides[0], axis.strides[1], 0] });
    }
    let problem = Map {
        nest: operands,
        scalars: [*dst, *src, *src],
        compute: Compute::Single,
        function: Function::First,
        parameter: 0.0,
        factors: Factors { alpha: [scaling.alpha, 0.0], beta: scaling.beta },
    };
    vectored(&problem, [at.dst, at.src, 0], emit)
}

/// The same loops over bytes, starting at zero, and where the operands start.
fn bytes(problem: &Map, at: [u64; 3]) -> (LoopNest<3>, [u64; 3]) {
    let sizes = problem.scalars.map(|scalar| scalar.size() as i64);
    let mut nest = LoopNest::new(&[], [0; 3]);
    for axis in problem.nest.axes() {
        nest.push(Axis { extent: axis.extent, strides: std::array::from_fn(|k| axis.strides[k] * sizes[k]) });
    }
    let start = std::array::from_fn(|k| at[k].wrapping_add_signed(problem.nest.offsets[k] * sizes[k]));
    (nest, start)
}

/// What a kernel of this index type is given for these loops over bytes.
fn parameters(problem: &Map, nest: &LoopNest<3>, at: [u64; 3], index: Index) -> Parameters {
    let Map { scalars: [dst, src, _], compute, function, factors: Factors { alpha, beta }, .. } = *problem;
    Parameters {
        at,
        count: nest.len() as u64,
        alpha,
        beta,
        dst: dst as u32,
        src: src as u32,
        function: function as u32,
        arity: function.arity() as u32,
        blends: u32::from(beta != 0.0),
        rank: nest.axes().len() as u32,
        splats: 0,
        wide: u32::from(compute == Compute::Double),
        turns: operand_turns(nest, index),
    }
}

/// Loops over three operands as a kernel of this index type walks them, innermost first.
pub(super) fn operand_turns<const N: usize>(nest: &LoopNest<3>, index: Index) -> [OperandTurn; N] {
    let mut turns = [OperandTurn::ONCE; N];
    for (turn, axis) in turns.iter_mut().zip(nest.axes().iter().rev()) {
        *turn = OperandTurn { extent: Divisor::new(axis.extent, index), step: axis.strides };
    }
    turns
}

/// Any problem, element by element.
fn strided(problem: &Map, at: [u64; 3]) -> Result<Launch> {
    let (nest, at) = bytes(problem, at);
    let reach = [0, 1, 2].map(|k| nest.span(k).unwrap_or((i64::MIN, i64::MAX)));
    let index = index_for(nest.len() as u64, &reach);
    let kernel = match (problem.compute, index) {
        (Compute::Single, Index::I32) => "op_f32_i32",
        (Compute::Single, Index::I64) => "op_f32_i64",
        (Compute::Double, Index::I32) => "op_f64_i32",
        (Compute::Double, Index::I64) => "op_f64_i64",
    };
    let params = parameters(problem, &nest, at, index);
    launch(kernel, params.count, Params::new(&params))
}

/// Any problem, by one thread, in the order of its loops.
fn ordered(problem: &Map, at: [u64; 3]) -> Launch {
    let (nest, at) = bytes(problem, at);
    let params = Params::new(&parameters(problem, &nest, at, Index::I64));
    Launch { kernel: "op_ordered", grid: [1, 1, 1], block: [32, 1, 1], shared: 0, params }
}

/// Sixteen bytes at a time along the innermost loop, and what is left of a single loop element by
/// element; whether the problem is of this kind, and everything was emitted.
fn vectored(problem: &Map, at: [u64; 3], emit: Emit<'_>) -> Result<bool> {
    let kernel = match problem.scalars[0] {
        Scalar::F32 => "op_run_f32",
        Scalar::F16 => "op_run_f16",
        Scalar::Bf16 => "op_run_bf16",
        _ => return Ok(false),
    };
    let served = matches!(
        problem.function,
        Function::Add
            | Function::Mul
            | Function::MinNumber
            | Function::MinOrNan
            | Function::MaxNumber
            | Function::MaxOrNan
            | Function::First
    );
    if problem.scalars[1] != problem.scalars[0] || problem.compute != Compute::Single || !served {
        return Ok(false);
    }
    let (nest, start) = bytes(problem, at);
    let Some((inner, outer)) = nest.axes().split_last() else { return Ok(false) };
    let size = problem.scalars[0].size() as i64;
    let lanes = VECTOR as i64 / size;
    let whole = inner.extent / lanes;
    if whole == 0 || (inner.extent % lanes != 0 && !outer.is_empty()) {
        return Ok(false);
    }
    let mut splats = 0;
    for (k, &start) in start.iter().enumerate().take(1 + problem.function.arity()) {
        let strides = outer.iter().fold(start, |all, axis| all | axis.strides[k].unsigned_abs());
        match inner.strides[k] {
            0 if k > 0 => splats |= 1 << k,
            step if step == size && strides.is_multiple_of(VECTOR) => {}
            _ => return Ok(false),
        }
    }
    let mut vectors = LoopNest::new(outer, [0; 3]);
    let step = |k: usize| if inner.strides[k] == 0 { 0 } else { VECTOR as i64 };
    vectors.push(Axis { extent: whole, strides: [step(0), step(1), step(2)] });
    let count = vectors.len() as u64;
    if count > (1 << 31) - THREADS {
        return Ok(false);
    }
    let params = Parameters { splats, ..parameters(problem, &vectors, start, Index::I32) };
    let params = Params::new(&params);
    let grid = grid(count.div_ceil(THREADS))?;
    emit(&Launch { kernel, grid, block: [THREADS as u32, 1, 1], shared: 0, params })?;
    let rest = inner.extent % lanes;
    if rest > 0 {
        let mut tail = *problem;
        let axis = problem.nest.axes()[0];
        tail.nest = LoopNest::new(&[Axis { extent: rest, ..axis }], problem.nest.offsets);
        (0..3).for_each(|k| tail.nest.offsets[k] += (inner.extent - rest) * axis.strides[k]);
        emit(&strided(&tail, at)?)?;
    }
    Ok(true)
}
