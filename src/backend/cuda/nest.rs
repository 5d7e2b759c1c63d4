//! Launches of a transform of one canonical nest.

use super::bytes::ByteNest;
use super::launch::{Device, Emit, Pointers};
use super::map::op;
use super::params::Operation;
use super::selection::{self, Call, Kernels, Query};
use super::{general, linear, tiled};
use crate::error::Result;
use crate::layout::Pattern;
use crate::ops::Transform;

pub(super) const KERNELS: &[Kernels<Transform>] = &[
    Kernels {
        name: "op_run_*",
        when: "sources that repeat along a loop, with factors, in vectors of 16 bytes: as the map they are",
        launch: |query, emit| op::blend(query.step, pointers(query), emit),
    },
    Kernels { name: "copy_*", when: "both operands contiguous, bits kept", launch: copy },
    Kernels {
        name: "convert_*",
        when: "both operands contiguous, of a usual pair of types",
        launch: convert,
    },
    Kernels {
        name: "transpose_w* transpose_shifted_w* interleave_w* separate_w*",
        when: "operands contiguous along different loops, bits kept: tiles, and pixels of few channels",
        launch: transpose,
    },
    Kernels {
        name: "strided_w*",
        when: "all others whose bits are kept: element by element",
        launch: strided_move,
    },
    Kernels {
        name: "transpose_convert_* few_convert_*",
        when: "operands contiguous along different loops, converted: tiles, and pixels of few channels",
        launch: transpose_convert,
    },
    Kernels { name: "strided_*", when: "all transforms: element by element", launch: strided },
];

/// The launches for one canonical nest.
pub(super) fn single(transform: &Transform, at: Pointers, emit: Emit<'_>) -> Result<()> {
    let call = Call { at: &[at.dst, at.src], ordered: false, device: Device::ANY };
    selection::launch(KERNELS, &call.of(transform), emit)
}

fn pointers(query: &Query<'_, Transform>) -> Pointers {
    let [dst, src] = query.places();
    Pointers { dst, src }
}

/// Whether bits are kept.
fn moves(transform: &Transform) -> bool {
    Operation::new(transform.src, transform.dst, transform.scaling).is_move()
}

fn copy(query: &Query<'_, Transform>, emit: Emit<'_>) -> Result<bool> {
    let transform = query.step;
    if transform.nest.pattern() != Pattern::Contiguous || !moves(transform) {
        return Ok(false);
    }
    emit(&linear::copy(transform, pointers(query))?)?;
    Ok(true)
}

fn convert(query: &Query<'_, Transform>, emit: Emit<'_>) -> Result<bool> {
    let transform = query.step;
    let own = linear::conversion(transform).filter(|_| transform.nest.pattern() == Pattern::Contiguous);
    let Some(kernel) = own else { return Ok(false) };
    emit(&linear::convert(transform, pointers(query), kernel)?)?;
    Ok(true)
}

fn transpose(query: &Query<'_, Transform>, emit: Emit<'_>) -> Result<bool> {
    if !moves(query.step) {
        return Ok(false);
    }
    let bytes = ByteNest::widened(query.step, pointers(query));
    let Some(launch) = tiled::transpose(&bytes)? else { return Ok(false) };
    emit(&launch)?;
    Ok(true)
}

fn strided_move(query: &Query<'_, Transform>, emit: Emit<'_>) -> Result<bool> {
    if !moves(query.step) {
        return Ok(false);
    }
    emit(&general::strided_move(&ByteNest::widened(query.step, pointers(query)))?)?;
    Ok(true)
}

fn transpose_convert(query: &Query<'_, Transform>, emit: Emit<'_>) -> Result<bool> {
    let Pattern::Transpose { .. } = query.step.nest.pattern() else { return Ok(false) };
    let Some(launch) = tiled::transpose_convert(query.step, pointers(query))? else { return Ok(false) };
    emit(&launch)?;
    Ok(true)
}

fn strided(query: &Query<'_, Transform>, emit: Emit<'_>) -> Result<bool> {
    emit(&general::strided(query.step, pointers(query))?)?;
    Ok(true)
}
