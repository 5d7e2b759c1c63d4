//! Launches of the gradients of attention in one step (`kernels/attend_gradient.cu`).

use super::attend::{self, THREADS};
use super::kind::{self, Kind};
use super::launch::{Emit, Launch, grid};
use super::params::{Divisor, Index, Params};
use super::selection::{self, Call, Kernels, Query};
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

pub(super) const KERNELS: &[Kernels<AttendBackward>] = &[Kernels {
    name: "attend_gradient_q_any attend_gradient_kv_any",
    when: "all matrices of up to 128 columns: products in binary32, a block of threads for 64 queries, \
           then one for 64 keys",
    launch: any,
}];

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
        if !attend::fits(&self.forward) {
            return Err(attend::unsupported());
        }
        selection::launch(KERNELS, &call.of(self), emit)
    }
}

/// The launch that writes these of the gradients, by blocks of queries, or of the keys of each of
/// these heads.
fn launch(
    query: &Query<'_, AttendBackward>, kernel: &'static str, writes: [bool; 3], groups: Option<i64>,
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
    Ok(Launch { kernel, grid: grid(blocks)?, block: [THREADS, 1, 1], shared: 0, params })
}

fn any(query: &Query<'_, AttendBackward>, emit: Emit<'_>) -> Result<bool> {
    let [of_k, of_v] = query.step.forward.heads;
    emit(&launch(query, "attend_gradient_q_any", [true, false, false], None)?)?;
    let kernel = "attend_gradient_kv_any";
    if of_k == of_v {
        emit(&launch(query, kernel, [false, true, true], Some(of_k))?)?;
    } else {
        emit(&launch(query, kernel, [false, true, false], Some(of_k))?)?;
        emit(&launch(query, kernel, [false, false, true], Some(of_v))?)?;
    }
    Ok(true)
}
