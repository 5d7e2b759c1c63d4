//! Launches of the functions of the table (`kernels/formula_kernels.cuh`).

use super::op;
use super::vectors::{Bytes, THREADS, Vectors, tail};
use crate::backend::cuda::general::{index_for, launch};
use crate::backend::cuda::launch::{Emit, Launch, grid};
use crate::backend::cuda::params::{Divisor, Index, Params};
use crate::backend::cuda::selection::Query;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::MAX_AXES;
use crate::ops::function::{Function, MOST_OPERANDS, Scaled};
use crate::ops::{Compute, Map};

/// The destination and the operands.
const PLACES: usize = 1 + MOST_OPERANDS;

/// One loop over the destination and the operands.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct FormulaLoop {
    /// Its iterations.
    pub extent: Divisor,
    /// Bytes that each moves per iteration.
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
    pub loops: [FormulaLoop; MAX_AXES],
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 48 + 8 + 32 + 24 + 32 + 72 * MAX_AXES);

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

/// By one thread, in the order of the loops.
pub(super) fn ordered<const N: usize>(query: &Query<'_, Map<N>>, emit: Emit<'_>) -> Result<bool> {
    if !query.call.ordered {
        return Ok(false);
    }
    let map = query.step;
    let params = Params::new(&parameters(map, &Bytes::of(map, query.places()), Index::I64));
    let kernel = Kernels::of(map.function).ordered;
    emit(&Launch { kernel, grid: [1, 1, 1], block: [32, 1, 1], shared: 0, params })?;
    Ok(true)
}

/// Sixteen bytes at a time along the innermost loop, and what is left of a single loop element by
/// element.
pub(super) fn runs<const N: usize>(query: &Query<'_, Map<N>>, emit: Emit<'_>) -> Result<bool> {
    let (map, at) = (query.step, query.places());
    let (arity, scalar) = (map.function.arity(), map.scalars[0]);
    // Of what the kernels of OpTensor know only bytes, for which those have no vectors.
    let is_served = (!op::is_known(map) || scalar.size() == 1)
        && scalar.size() <= 4
        && scalar != Scalar::I32
        && map.compute == Compute::Single
        && arity <= 2
        && map.scalars[..=arity].iter().all(|&other| other == scalar);
    let Some(vectors) = Vectors::of(map, at).filter(|_| is_served) else { return Ok(false) };
    let params = Parameters { splats: vectors.splats, ..parameters(map, &vectors.bytes, Index::I32) };
    let params = Params::new(&params);
    let grid = grid(vectors.count.div_ceil(THREADS))?;
    let kernel = Kernels::of(map.function).run;
    emit(&Launch { kernel, grid, block: [THREADS as u32, 1, 1], shared: 0, params })?;
    rest(map, at, vectors.rest, emit)?;
    Ok(true)
}

/// Element by element.
pub(super) fn strided<const N: usize>(query: &Query<'_, Map<N>>, emit: Emit<'_>) -> Result<bool> {
    emit(&by_elements(query.step, query.places())?)?;
    Ok(true)
}

/// The last `rest` elements of a map of a single loop, element by element.
pub(super) fn rest<const N: usize>(map: &Map<N>, at: [u64; N], rest: i64, emit: Emit<'_>) -> Result<()> {
    tail(map, rest).map_or(Ok(()), |tail| emit(&by_elements(&tail, at)?))
}

/// What a kernel of this index type is given for these loops.
fn parameters<const N: usize>(map: &Map<N>, bytes: &Bytes<N>, index: Index) -> Parameters {
    const { assert!(N <= PLACES) };
    let mut loops = [FormulaLoop { extent: Divisor::ONE, step: [0; PLACES] }; MAX_AXES];
    for (slot, axis) in loops.iter_mut().zip(bytes.nest.axes().iter().rev()) {
        slot.extent = Divisor::new(axis.extent, index);
        slot.step[..N].copy_from_slice(&axis.strides);
    }
    // As the parameters of a channel do.
    let alike =
        bytes.nest.axes().iter().all(|axis| axis.strides.iter().skip(3).all(|&step| step == axis.strides[2]));
    Parameters {
        at: std::array::from_fn(|k| bytes.start.get(k).copied().unwrap_or_default()),
        count: bytes.nest.len() as u64,
        alpha: map.factors.alpha,
        beta: map.factors.beta,
        parameter: map.parameter,
        scalars: std::array::from_fn(|k| map.scalars.get(k).map_or(0, |&scalar| scalar as u32)),
        function: map.function as u32,
        arity: map.function.arity() as u32,
        on_result: u32::from(map.function.row().scaled == Scaled::Result),
        blends: u32::from(map.factors.beta != 0.0),
        rank: bytes.nest.axes().len() as u32,
        wide: u32::from(map.compute == Compute::Double),
        splats: 0,
        alike: u32::from(alike),
        loops,
    }
}

fn by_elements<const N: usize>(map: &Map<N>, at: [u64; N]) -> Result<Launch> {
    let bytes = Bytes::of(map, at);
    // The kernel of narrow indices is that of narrow elements, too.
    let is_narrow = map.compute == Compute::Single && map.scalars.iter().all(|scalar| scalar.size() <= 4);
    let index = if is_narrow { index_for(bytes.nest.len() as u64, &bytes.reach()) } else { Index::I64 };
    let kernels = Kernels::of(map.function);
    let kernel = match (map.compute, index) {
        (Compute::Single, Index::I32) => kernels.f32_i32,
        (Compute::Single, Index::I64) => kernels.f32_i64,
        (Compute::Double, _) => kernels.f64_i64,
    };
    let params = parameters(map, &bytes, index);
    launch(kernel, params.count, Params::new(&params))
}
