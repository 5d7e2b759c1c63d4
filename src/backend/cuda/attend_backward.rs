//! Launches of the gradients of attention in one step (`kernels/attend_gradient.cu` and
//! `attend_gradient_mma.cu`).

use super::attend::{self, MMA_FROM, MMA_THREADS, THREADS, VECTOR, is_in_vectors};
use super::kind::{self, Kind};
use super::launch::{Emit, Launch, grid};
use super::params::{Divisor, Index, Params};
use super::selection::{self, Call, Kernels, Query};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::ops::attend::AttendBackward;

/// Keys of a block.
const KEYS: i64 = 64;

/// Gradients of attention: `attend_gradient_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Those of the attention, whose o and statistics are read.
    pub forward: attend::Parameters,
    /// Dq, dk, dv and do; 0 for a gradient that the launch does not write.
    pub at: [u64; 4],
    /// Bytes of these from batch to batch, head to head, row to row, column to column.
    pub step: [[i64; 4]; 4],
    /// Blocks of the keys of a head.
    pub tiles: Divisor,
    /// Heads of keys, or of values, that blocks are of.
    pub groups: Divisor,
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 400 + 32 + 128 + 48);

pub(super) const KERNELS: &[Kernels<AttendBackward>] = &[
    Kernels {
        name: "attend_gradient_mma_q_* attend_gradient_mma_kv_*",
        when: "matrices of up to 64 columns in binary16 or bfloat16 whose rows are aligned vectors of 16 bytes, on devices \
               of 8.0 and later: Tensor Cores multiply, and weights stay in registers as their fragments",
        launch: by_fragments,
    },
    Kernels {
        name: "attend_gradient_q_any attend_gradient_kv_any",
        when: "all matrices of up to 128 columns: products in binary32, a block of threads for 64 queries, then one for \
               64 keys",
        launch: any,
    },
];

impl Kind for AttendBackward {
    fn names() -> Vec<&'static str> {
        kind::names(KERNELS)
    }

    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        if self.forward.stats.is_none() {
            return Err(Error::unsupported("gradients of attention without statistics"));
        }
        if !attend::fits(&self.forward) || self.is_changed() {
            return Err(attend::unsupported());
        }
        selection::launch(KERNELS, &call.of(self), emit)
    }
}

/// The kernel of a launch, and how many threads its blocks have.
#[derive(Clone, Copy)]
struct Kernel(&'static str, u32);

/// The launch that writes these of the gradients, by blocks of queries, or of the keys of each of
/// these heads.
fn launch(
    query: &Query<'_, AttendBackward>, Kernel(kernel, threads): Kernel, writes: [bool; 3],
    groups: Option<i64>,
) -> Result<Launch> {
    let step = query.step;
    let places = query.places::<{ AttendBackward::OPERANDS }>();
    let [batch, heads, _, keys] = step.forward.extents;
    let size = step.forward.scalar.size() as i64;
    let tiles = (keys - 1) / KEYS + 1;
    let parameters = Parameters {
        forward: attend::parameters(
            &step.forward,
            std::array::from_fn(|k| places[AttendBackward::FORWARD + k]),
        ),
        at: std::array::from_fn(|k| if writes.get(k) == Some(&false) { 0 } else { places[k] }),
        step: step.strides.map(|strides| strides.map(|stride| stride * size)),
        tiles: Divisor::new(tiles, Index::I64),
        groups: Divisor::new(groups.unwrap_or(1), Index::I64),
    };
    let of_head = if groups.is_some() { tiles } else { attend::blocks_of(&step.forward) };
    let blocks = (batch * groups.unwrap_or(heads)).saturating_mul(of_head) as u64;
    let params = Params::new(&parameters);
    Ok(Launch { kernel, grid: grid(blocks)?, block: [threads, 1, 1], shared: 0, params })
}

/// The launches of queries, and of keys and values.
fn launches(query: &Query<'_, AttendBackward>, [of_q, of_kv]: [Kernel; 2], emit: Emit<'_>) -> Result<bool> {
    let [of_k, of_v] = query.step.forward.heads;
    emit(&launch(query, of_q, [true, false, false], None)?)?;
    if of_k == of_v {
        emit(&launch(query, of_kv, [false, true, true], Some(of_k))?)?;
    } else {
        emit(&launch(query, of_kv, [false, true, false], Some(of_k))?)?;
        emit(&launch(query, of_kv, [false, false, true], Some(of_v))?)?;
    }
    Ok(true)
}

/// The two kernels of a type.
const BY_FRAGMENTS: [(Scalar, [&str; 2]); 2] = [
    (Scalar::F16, ["attend_gradient_mma_q_f16", "attend_gradient_mma_kv_f16"]),
    (Scalar::Bf16, ["attend_gradient_mma_q_bf16", "attend_gradient_mma_kv_bf16"]),
];
/// The most columns of their matrices.
const MOST_COLUMNS: i64 = 64;

fn by_fragments(query: &Query<'_, AttendBackward>, emit: Emit<'_>) -> Result<bool> {
    let AttendBackward { forward, strides, .. } = query.step;
    let Some((_, kernels)) = BY_FRAGMENTS.iter().find(|(scalar, _)| *scalar == forward.scalar) else {
        return Ok(false);
    };
    let ([batch, heads, rows, keys], [of_k, of_v]) = (forward.extents, forward.heads);
    let size = forward.scalar.size() as i64;
    let [of_rows, of_keys, of_values] = [[batch, heads, rows], [batch, of_k, keys], [batch, of_v, keys]];
    let is_in = |strides: [i64; 4], extents: [i64; 3], operand: usize, vector: i64| {
        is_in_vectors(strides, extents, size, query.place(operand), vector)
    };
    // Pairs of results are written together.
    let writes = (0..3).all(|k| is_in(strides[k], [of_rows, of_keys, of_values][k], k, 2 * size));
    let [o, q, k, v] = forward.strides;
    let first = AttendBackward::FORWARD;
    let reads = is_in(strides[3], of_rows, AttendBackward::DO, VECTOR)
        && is_in(o, of_rows, first, VECTOR)
        && is_in(q, of_rows, first + 2, VECTOR)
        && is_in(k, of_keys, first + 3, VECTOR)
        && is_in(v, of_values, first + 4, VECTOR);
    let are_whole = forward.widths.iter().all(|width| *width <= MOST_COLUMNS && (width * size) % VECTOR == 0);
    if query.call.device.capability < MMA_FROM || !writes || !reads || !are_whole {
        return Ok(false);
    }
    launches(query, kernels.map(|kernel| Kernel(kernel, MMA_THREADS)), emit)
}

fn any(query: &Query<'_, AttendBackward>, emit: Emit<'_>) -> Result<bool> {
    launches(
        query,
        ["attend_gradient_q_any", "attend_gradient_kv_any"].map(|kernel| Kernel(kernel, THREADS)),
        emit,
    )
}
