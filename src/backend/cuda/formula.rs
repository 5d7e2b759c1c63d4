//! Launches of the functions of the table (`kernels/formula_kernels.cuh`).

use super::activation;
use super::general::{index_for, launch};
use super::launch::{Emit, Launch, grid};
use super::params::{Divisor, Index, Params};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::{Axis, LoopNest, MAX_AXES};
use crate::ops::activation::Activation;
use crate::ops::function::{Function, MOST_OPERANDS, Scaled};
use crate::ops::{Compute, Map};

/// Threads of a block, each with one vector.
const THREADS: u64 = 256;
/// Bytes of a vector.
const VECTOR: i64 = 16;
/// The destination and the operands.
const PLACES: usize = 1 + MOST_OPERANDS;

/// One loop over the destination and the operands.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct FormulaTurn {
    /// How often it turns.
    pub extent: Divisor,
    /// Bytes that each moves per turn.
    pub step: [i64; PLACES],
}

/// A function, element by element: `formula_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the destination and the operands start.
    pub at: [u64; PLACES],
    /// Number of elements, or of vectors of them.
    pub count: u64,
    /// Factors of the first two operands, or the first one of the result.
    pub alpha: [f64; 2],
    /// Factor of the old destination.
    pub beta: f64,
    /// The function's parameter.
    pub parameter: f64,
    /// Scalar types.
    pub scalars: [u32; PLACES],
    /// The function's number in `kernels/functions.cuh`.
    pub function: u32,
    /// How many operands are read.
    pub arity: u32,
    /// 1 if alpha is a factor of the result.
    pub on_result: u32,
    /// 1 if the destination is read.
    pub blends: u32,
    /// Number of loops.
    pub rank: u32,
    /// 1 if `formula_ordered` computes in binary64.
    pub wide: u32,
    /// Bit k: operand k has one element along the innermost loop of vectors.
    pub splats: u32,
    /// 1 if all operands behind the second lie as that one does.
    pub alike: u32,
    /// The loops, innermost first.
    pub turns: [FormulaTurn; MAX_AXES],
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 48 + 8 + 32 + 24 + 32 + 72 * MAX_AXES);

/// What follows another operation, as its kernels want it: the number of the function, which the
/// identity has too, its parameter, and whether it is computed apart.
pub(super) fn numbered(activation: Option<Activation>) -> (u32, f64, bool) {
    match activation {
        None => (Function::First as u32, 0.0, false),
        Some(activation) => (activation.function as u32, activation.parameter, !activation.has_mask()),
    }
}

/// The names of the kernels that compute some functions.
struct Kernels {
    ordered: &'static str,
    run: &'static str,
    f32_i32: &'static str,
    f32_i64: &'static str,
    f64_i64: &'static str,
}

impl Kernels {
    /// The kernels of `kernels/formula.cu`, or of `kernels/graph_formula.cu`.
    const fn of(function: Function) -> Kernels {
        if function.is_of_graphs() {
            Kernels {
                ordered: "graph_formula_ordered",
                run: "graph_formula_run",
                f32_i32: "graph_formula_f32_i32",
                f32_i64: "graph_formula_f32_i64",
                f64_i64: "graph_formula_f64_i64",
            }
        } else {
            Kernels {
                ordered: "formula_ordered",
                run: "formula_run",
                f32_i32: "formula_f32_i32",
                f32_i64: "formula_f32_i64",
                f64_i64: "formula_f64_i64",
            }
        }
    }
}

/// Hands the launches of a step to `emit`; `at` are the addresses of its operands.
///
/// # Errors
/// As for [`super::plan::launches`].
pub(super) fn launches<const N: usize>(
    map: &Map<N>, at: [u64; N], ordered: bool, emit: Emit<'_>,
) -> Result<()> {
    if map.nest.is_empty() {
        return Ok(());
    }
    if ordered {
        let (nest, start) = bytes(map, at);
        let params = Params::new(&parameters(map, &nest, start, Index::I64));
        return emit(&Launch {
            kernel: Kernels::of(map.function).ordered,
            grid: [1, 1, 1],
            block: [32, 1, 1],
            shared: 0,
            params,
        });
    }
    if let Some(rest) = activation::launches(map, at, emit)? {
        return tail(map, at, rest, emit);
    }
    if vectored(map, at, emit)? {
        return Ok(());
    }
    emit(&strided(map, at)?)
}

/// The same loops over bytes, starting at zero, and where the operands start.
fn bytes<const N: usize>(map: &Map<N>, at: [u64; N]) -> (LoopNest<N>, [u64; N]) {
    let sizes = map.scalars.map(|scalar| scalar.size() as i64);
    let mut nest = LoopNest::new(&[], [0; N]);
    for axis in map.nest.axes() {
        nest.push(Axis { extent: axis.extent, strides: std::array::from_fn(|k| axis.strides[k] * sizes[k]) });
    }
    (nest, std::array::from_fn(|k| at[k].wrapping_add_signed(map.nest.offsets[k] * sizes[k])))
}

/// What a kernel of this index type is given for these loops over bytes.
fn parameters<const N: usize>(map: &Map<N>, nest: &LoopNest<N>, at: [u64; N], index: Index) -> Parameters {
    const { assert!(N <= PLACES) };
    let mut turns = [FormulaTurn { extent: Divisor::ONE, step: [0; PLACES] }; MAX_AXES];
    for (turn, axis) in turns.iter_mut().zip(nest.axes().iter().rev()) {
        turn.extent = Divisor::new(axis.extent, index);
        turn.step[..N].copy_from_slice(&axis.strides);
    }
    let row = map.function.row();
    // As the parameters of a channel do.
    let alike =
        nest.axes().iter().all(|axis| axis.strides.iter().skip(3).all(|&step| step == axis.strides[2]));
    Parameters {
        at: std::array::from_fn(|k| at.get(k).copied().unwrap_or_default()),
        count: nest.len() as u64,
        alpha: map.factors.alpha,
        beta: map.factors.beta,
        parameter: map.parameter,
        scalars: std::array::from_fn(|k| map.scalars.get(k).map_or(0, |&scalar| scalar as u32)),
        function: map.function as u32,
        arity: map.function.arity() as u32,
        on_result: u32::from(row.scaled == Scaled::Result),
        blends: u32::from(map.factors.beta != 0.0),
        rank: nest.axes().len() as u32,
        wide: u32::from(map.compute == Compute::Double),
        splats: 0,
        alike: u32::from(alike),
        turns,
    }
}

/// Any step, element by element.
fn strided<const N: usize>(map: &Map<N>, at: [u64; N]) -> Result<Launch> {
    let (nest, at) = bytes(map, at);
    let reach: [_; N] = std::array::from_fn(|k| nest.span(k).unwrap_or((i64::MIN, i64::MAX)));
    // The kernel of narrow indices is that of narrow elements, too.
    let is_narrow = map.compute == Compute::Single && map.scalars.iter().all(|scalar| scalar.size() <= 4);
    let index = if is_narrow { index_for(nest.len() as u64, &reach) } else { Index::I64 };
    let kernels = Kernels::of(map.function);
    let kernel = match (map.compute, index) {
        (Compute::Single, Index::I32) => kernels.f32_i32,
        (Compute::Single, Index::I64) => kernels.f32_i64,
        (Compute::Double, _) => kernels.f64_i64,
    };
    let params = parameters(map, &nest, at, index);
    launch(kernel, params.count, Params::new(&params))
}

/// Sixteen bytes at a time along the innermost loop, and what is left of a single loop element by
/// element; whether the step is of this kind, and everything was emitted.
pub(super) fn vectored<const N: usize>(map: &Map<N>, at: [u64; N], emit: Emit<'_>) -> Result<bool> {
    let arity = map.function.arity();
    let scalar = map.scalars[0];
    let served = scalar.size() <= 4
        && scalar != Scalar::I32
        && map.compute == Compute::Single
        && arity <= 2
        && map.scalars[..=arity].iter().all(|&other| other == scalar);
    let (nest, start) = bytes(map, at);
    let Some((inner, outer)) = nest.axes().split_last().filter(|_| served) else { return Ok(false) };
    let size = scalar.size() as i64;
    let lanes = VECTOR / size;
    let whole = inner.extent / lanes;
    if whole == 0 || (inner.extent % lanes != 0 && !outer.is_empty()) {
        return Ok(false);
    }
    let mut splats = 0;
    for (k, &start) in start.iter().enumerate().take(1 + arity) {
        let strides = outer.iter().fold(start, |all, axis| all | axis.strides[k].unsigned_abs());
        match inner.strides[k] {
            0 if k > 0 => splats |= 1 << k,
            step if step == size && strides.is_multiple_of(VECTOR as u64) => {}
            _ => return Ok(false),
        }
    }
    let mut vectors = LoopNest::new(outer, [0; N]);
    let strides = inner.strides.map(|step| if step == 0 { 0 } else { VECTOR });
    vectors.push(Axis { extent: whole, strides });
    let count = vectors.len() as u64;
    if count > (1 << 31) - THREADS {
        return Ok(false);
    }
    let params = Parameters { splats, ..parameters(map, &vectors, start, Index::I32) };
    let grid = grid(count.div_ceil(THREADS))?;
    let block = [THREADS as u32, 1, 1];
    let kernel = Kernels::of(map.function).run;
    emit(&Launch { kernel, grid, block, shared: 0, params: Params::new(&params) })?;
    tail(map, at, inner.extent % lanes, emit)?;
    Ok(true)
}

/// The last `rest` elements of a step of a single loop, element by element.
fn tail<const N: usize>(map: &Map<N>, at: [u64; N], rest: i64, emit: Emit<'_>) -> Result<()> {
    if rest == 0 {
        return Ok(());
    }
    let axis = map.nest.axes()[0];
    let mut tail = *map;
    tail.nest = LoopNest::new(&[Axis { extent: rest, ..axis }], map.nest.offsets);
    (0..N).for_each(|k| tail.nest.offsets[k] += (axis.extent - rest) * axis.strides[k]);
    emit(&strided(&tail, at)?)
}
