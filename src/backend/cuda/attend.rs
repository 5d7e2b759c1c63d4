//! Launches of attention in one step (`kernels/attend.cu` and `attend_mma.cu`).

use super::kind::{self, Kind};
use super::launch::{Emit, Launch, grid};
use super::params::{Divisor, Index, Params};
use super::selection::{self, Call, Kernels, Query};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::ops::attend::{Attend, Side};

/// Queries of a block.
const ROWS: i64 = 64;
/// Threads of a block that multiplies in binary32, and of one that has Tensor Cores do it.
pub(super) const THREADS: u32 = 256;
pub(super) const MMA_THREADS: u32 = 128;
/// From which compute capability on Tensor Cores multiply such fragments.
pub(super) const MMA_FROM: u32 = 80;
/// Bytes that such a block copies at once.
pub(super) const VECTOR: i64 = 16;

/// The most columns of a matrix.
const MOST_COLUMNS: i64 = 128;

const PADDED: u32 = 1;
/// Right and left: whether there is such a side, whether it is strict, and whether it moves.
const SIDES: [[u32; 3]; 2] = [[2, 4, 8], [16, 32, 64]];
const LOG2: u32 = 128;

/// Attention: `attend_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// The operands of the step up to those that change scores; 0 where there is none.
    pub at: [u64; Attend::BIAS],
    /// Bytes of o, q, k and v from batch to batch, head to head, row to row, column to column.
    pub step: [[i64; 4]; 4],
    /// Bytes of the statistics from batch to batch, head to head, row to row.
    pub stats_step: [i64; 3],
    /// Bytes from the lengths of a batch to those of the next one.
    pub length_step: [i64; 2],
    /// Blocks of the rows of a head.
    pub blocks: Divisor,
    /// Heads of queries.
    pub heads: Divisor,
    /// Heads of queries for each head of keys, and of values.
    pub share: [Divisor; 2],
    /// Queries of a head.
    pub rows: u32,
    /// Keys of a head.
    pub keys: u32,
    /// Columns of q and k, and of v and o.
    pub width: [u32; 2],
    /// Scalar type of all matrices.
    pub scalar: u32,
    /// Scalar types of the factor, the filling, both lengths and both bounds.
    pub numbers: [u32; 6],
    /// What there is, as bits.
    pub flags: u32,
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 88 + 128 + 24 + 16 + 96 + 48);

pub(super) const KERNELS: &[Kernels<Attend>] = &[
    Kernels {
        name: "attend_mma_*",
        when: "matrices in binary16 or bfloat16 whose rows are aligned vectors of 16 bytes, on devices of 8.0 and later: \
               Tensor Cores multiply, and scores stay in registers as their fragments",
        launch: by_fragments,
    },
    Kernels {
        name: "attend_any",
        when: "all matrices of up to 128 columns: products in binary32, a block of threads for 64 queries",
        launch: any,
    },
];

impl Kind for Attend {
    fn names() -> Vec<&'static str> {
        kind::names(KERNELS)
    }

    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        if !fits(self) {
            return Err(unsupported());
        }
        selection::launch(KERNELS, &call.of(self), emit)
    }
}

/// Whether kernels are for matrices of these types and extents.
pub(super) fn fits(step: &Attend) -> bool {
    let most = step.widths[0].max(step.widths[1]);
    [Scalar::F32, Scalar::F16, Scalar::Bf16].contains(&step.scalar)
        && most <= MOST_COLUMNS
        && !step.is_changed()
        && step.extents.iter().all(|&extent| extent < 1 << 24)
}

/// What is said of those that they are not for.
pub(super) fn unsupported() -> Error {
    Error::unsupported("attention of other types, of more columns or rows, or of changed scores")
}

/// The bits of a side.
fn side_flags(side: Option<Side>, [is_there, strict, moves]: [u32; 3]) -> u32 {
    side.map_or(0, |side| {
        is_there | if side.strict { strict } else { 0 } | if side.moves { moves } else { 0 }
    })
}

/// Blocks of the queries of a head.
pub(super) fn blocks_of(step: &Attend) -> i64 {
    (step.extents[2] - 1) / ROWS + 1
}

/// The parameters of an attention whose operands lie here.
pub(super) fn parameters(step: &Attend, at: [u64; Attend::BIAS]) -> Parameters {
    let touches = step.touches();
    let [_, heads, rows, keys] = step.extents;
    let (size, scalars) = (step.scalar.size() as i64, step.scalars().map(|scalar| scalar as u32));
    let share = step.heads.map(|own| Divisor::new(heads / own, Index::I64));
    let flags = if step.padded { PADDED } else { 0 }
        | side_flags(step.right, SIDES[0])
        | side_flags(step.left, SIDES[1])
        | if step.log2 { LOG2 } else { 0 };
    Parameters {
        at: std::array::from_fn(|k| if touches[k] { at[k] } else { 0 }),
        step: step.strides.map(|strides| strides.map(|stride| stride * size)),
        stats_step: step.stats.unwrap_or([0; 3]).map(|stride| stride * Scalar::F32.size() as i64),
        length_step: step.lengths.map(|length| length.map_or(0, |(of, stride)| stride * of.size() as i64)),
        blocks: Divisor::new(blocks_of(step), Index::I64),
        heads: Divisor::new(heads, Index::I64),
        share,
        rows: rows as u32,
        keys: keys as u32,
        width: step.widths.map(|width| width as u32),
        scalar: step.scalar as u32,
        numbers: std::array::from_fn(|k| scalars[5 + k]),
        flags,
    }
}

fn launch(query: &Query<'_, Attend>, kernel: &'static str, threads: u32) -> Result<Launch> {
    let step = query.step;
    let [batch, heads, ..] = step.extents;
    let blocks = (batch * heads).saturating_mul(blocks_of(step)) as u64;
    let params = Params::new(&parameters(step, std::array::from_fn(|operand| query.place(operand))));
    Ok(Launch { kernel, grid: grid(blocks)?, block: [threads, 1, 1], shared: 0, params })
}

/// Kernels of a type for matrices of up to 64 columns, and of up to 128.
const BY_FRAGMENTS: [(Scalar, [&str; 2]); 2] = [
    (Scalar::F16, ["attend_mma_f16_64", "attend_mma_f16_128"]),
    (Scalar::Bf16, ["attend_mma_bf16_64", "attend_mma_bf16_128"]),
];

/// Whether all rows of a matrix begin at a multiple of `vector` bytes.
pub(super) fn is_in_vectors(
    strides: [i64; 4], extents: [i64; 3], size: i64, address: u64, vector: i64,
) -> bool {
    let is_aligned = |(stride, extent): (&i64, i64)| extent == 1 || (stride * size) % vector == 0;
    strides[3] == 1
        && address.is_multiple_of(vector as u64)
        && strides[..3].iter().zip(extents).all(is_aligned)
}

fn by_fragments(query: &Query<'_, Attend>, emit: Emit<'_>) -> Result<bool> {
    let step = query.step;
    let Some((_, kernels)) = BY_FRAGMENTS.iter().find(|(scalar, _)| *scalar == step.scalar) else {
        return Ok(false);
    };
    let ([batch, heads, rows, keys], [of_k, of_v]) = (step.extents, step.heads);
    let size = step.scalar.size() as i64;
    let extents = [[batch, heads, rows], [batch, heads, rows], [batch, of_k, keys], [batch, of_v, keys]];
    let places = [0, 2, 3, 4].map(|operand| query.place(operand));
    let fits = (0..4).all(|k| {
        // Pairs of results are written together.
        let vector = if k == 0 { 2 * size } else { VECTOR };
        is_in_vectors(step.strides[k], extents[k], size, places[k], vector)
    });
    let are_whole = step.widths.iter().all(|width| (width * size) % VECTOR == 0);
    if query.call.device.capability < MMA_FROM || !fits || !are_whole {
        return Ok(false);
    }
    let kernel = kernels[usize::from(step.widths.iter().any(|&width| width > 64))];
    emit(&launch(query, kernel, MMA_THREADS)?)?;
    Ok(true)
}

fn any(query: &Query<'_, Attend>, emit: Emit<'_>) -> Result<bool> {
    emit(&launch(query, "attend_any", THREADS)?)?;
    Ok(true)
}
