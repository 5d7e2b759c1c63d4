//! Launches of OpTensor's functions of operands of one type, and of AddTensor with a broadcast
//! source (`kernels/pointwise.cuh`).

use super::vectors::{Bytes, THREADS, Vectors, tail};
use crate::backend::cuda::general::{index_for, launch, operand_loops};
use crate::backend::cuda::launch::{Emit, Launch, Pointers, grid};
use crate::backend::cuda::params::{Index, OperandLoop, Params};
use crate::backend::cuda::selection::Query;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::{Axis, LoopNest, MAX_AXES};
use crate::ops::function::Function;
use crate::ops::map::{Factors, Map};
use crate::ops::{Compute, Transform};

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
    pub loops: [OperandLoop; MAX_AXES],
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 24 + 8 + 24 + 32 + 48 * MAX_AXES);

/// The last function that these kernels know.
const LAST: Function = Function::Nothing;

/// Whether a map's function is one of these kernels', of no more operands than they have, and of
/// one type.
pub(super) fn is_known<const N: usize>(map: &Map<N>) -> bool {
    N == 3
        && map.function as u32 <= LAST as u32
        && (map.function.arity() < 2 || map.scalars[1] == map.scalars[2])
}

/// By one thread, in the order of the loops.
pub(super) fn ordered<const N: usize>(query: &Query<'_, Map<N>>, emit: Emit<'_>) -> Result<bool> {
    let map = query.step;
    if !query.call.ordered || !is_known(map) {
        return Ok(false);
    }
    let bytes = Bytes::of(map, query.places());
    let params = Params::new(&parameters(map, &bytes, Index::I64));
    emit(&Launch { kernel: "op_ordered", grid: [1, 1, 1], block: [32, 1, 1], shared: 0, params })?;
    Ok(true)
}

/// Sixteen bytes at a time along the innermost loop.
pub(super) fn runs<const N: usize>(query: &Query<'_, Map<N>>, emit: Emit<'_>) -> Result<bool> {
    in_vectors(query.step, query.places(), emit)
}

/// Element by element.
pub(super) fn strided<const N: usize>(query: &Query<'_, Map<N>>, emit: Emit<'_>) -> Result<bool> {
    if !is_known(query.step) {
        return Ok(false);
    }
    emit(&by_elements(query.step, query.places())?)?;
    Ok(true)
}

/// `alpha * src + beta * dst` of a source that repeats along some loop, if it is one that vectors
/// serve: whether everything was emitted. The bits are those of a conversion.
pub(in crate::backend::cuda) fn blend(transform: &Transform, at: Pointers, emit: Emit<'_>) -> Result<bool> {
    let Transform { nest, dst, src, scaling } = transform;
    if dst != src || scaling.is_move() || nest.axes().iter().all(|axis| axis.strides[1] != 0) {
        return Ok(false);
    }
    let mut operands = LoopNest::new(&[], [nest.offsets[0], nest.offsets[1], 0]);
    for axis in nest.axes() {
        operands.push(Axis { extent: axis.extent, strides: [axis.strides[0], axis.strides[1], 0] });
    }
    let map: Map = Map {
        nest: operands,
        scalars: [*dst, *src, *src],
        compute: Compute::Single,
        function: Function::First,
        parameter: 0.0,
        factors: Factors { alpha: [scaling.alpha, 0.0], beta: scaling.beta },
    };
    in_vectors(&map, [at.dst, at.src, 0], emit)
}

/// What a kernel of this index type is given for these loops.
fn parameters<const N: usize>(map: &Map<N>, bytes: &Bytes<N>, index: Index) -> Parameters {
    let Factors { alpha, beta } = map.factors;
    Parameters {
        at: std::array::from_fn(|k| bytes.start[k]),
        count: bytes.nest.len() as u64,
        alpha,
        beta,
        dst: map.scalars[0] as u32,
        src: map.scalars[1] as u32,
        function: map.function as u32,
        arity: map.function.arity() as u32,
        blends: u32::from(beta != 0.0),
        rank: bytes.nest.axes().len() as u32,
        splats: 0,
        wide: u32::from(map.compute == Compute::Double),
        loops: operand_loops(&bytes.nest, index),
    }
}

fn by_elements<const N: usize>(map: &Map<N>, at: [u64; N]) -> Result<Launch> {
    let bytes = Bytes::of(map, at);
    let index = index_for(bytes.nest.len() as u64, &bytes.reach());
    let kernel = match (map.compute, index) {
        (Compute::Single, Index::I32) => "op_f32_i32",
        (Compute::Single, Index::I64) => "op_f32_i64",
        (Compute::Double, Index::I32) => "op_f64_i32",
        (Compute::Double, Index::I64) => "op_f64_i64",
    };
    let params = parameters(map, &bytes, index);
    launch(kernel, params.count, Params::new(&params))
}

/// Vectors, and what is left of a single loop element by element; whether the map is of this kind.
fn in_vectors<const N: usize>(map: &Map<N>, at: [u64; N], emit: Emit<'_>) -> Result<bool> {
    let kernel = match map.scalars[0] {
        Scalar::F32 => "op_run_f32",
        Scalar::F16 => "op_run_f16",
        Scalar::Bf16 => "op_run_bf16",
        _ => return Ok(false),
    };
    let is_served = is_known(map)
        && map.scalars[1] == map.scalars[0]
        && map.compute == Compute::Single
        && matches!(
            map.function,
            Function::Add
                | Function::Mul
                | Function::MinNumber
                | Function::MinOrNan
                | Function::MaxNumber
                | Function::MaxOrNan
                | Function::First
        );
    let Some(vectors) = Vectors::of(map, at).filter(|_| is_served) else { return Ok(false) };
    let params = Parameters { splats: vectors.splats, ..parameters(map, &vectors.bytes, Index::I32) };
    let params = Params::new(&params);
    let grid = grid(vectors.count.div_ceil(THREADS))?;
    emit(&Launch { kernel, grid, block: [THREADS as u32, 1, 1], shared: 0, params })?;
    if let Some(tail) = tail(map, vectors.rest) {
        emit(&by_elements(&tail, at)?)?;
    }
    Ok(true)
}
