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

/// A transform, and what several rows of the table ask of it.
pub(super) struct Task {
    transform: Transform,
    pattern: Pattern,
    /// The loops over bytes of a move that is not contiguous.
    moved: Option<ByteNest>,
    /// Whether bits are kept.
    moves: bool,
}

pub(super) const KERNELS: &[Kernels<Task>] = &[
    Kernels {
        name: "op_run_*",
        when: "sources that repeat along a loop, with factors, in vectors of 16 bytes: as the map they are",
        launch: |query, emit| op::blend(&query.step.transform, pointers(query), emit),
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
    let (pattern, moves) =
        (transform.nest.pattern(), Operation::new(transform.src, transform.dst, transform.scaling).is_move());
    let moved = (moves && pattern != Pattern::Contiguous).then(|| ByteNest::widened(transform, at));
    let call = Call { at: &[at.dst, at.src], ordered: false, device: Device::ANY };
    selection::launch(KERNELS, &call.of(&Task { transform: *transform, pattern, moved, moves }), emit)
}

fn pointers(query: &Query<'_, Task>) -> Pointers {
    let [dst, src] = query.places();
    Pointers { dst, src }
}

fn copy(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Task { transform, pattern: Pattern::Contiguous, moves: true, .. } = query.step else {
        return Ok(false);
    };
    emit(&linear::copy(transform, pointers(query))?)?;
    Ok(true)
}

fn convert(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Task { transform, pattern: Pattern::Contiguous, .. } = query.step else { return Ok(false) };
    let Some(kernel) = linear::conversion(transform) else { return Ok(false) };
    emit(&linear::convert(transform, pointers(query), kernel)?)?;
    Ok(true)
}

fn transpose(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Some(bytes) = &query.step.moved else { return Ok(false) };
    let Some(launch) = tiled::transpose(bytes)? else { return Ok(false) };
    emit(&launch)?;
    Ok(true)
}

fn strided_move(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Some(bytes) = &query.step.moved else { return Ok(false) };
    emit(&general::strided_move(bytes)?)?;
    Ok(true)
}

fn transpose_convert(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Task { transform, pattern: Pattern::Transpose { .. }, .. } = query.step else { return Ok(false) };
    let Some(launch) = tiled::transpose_convert(transform, pointers(query))? else { return Ok(false) };
    emit(&launch)?;
    Ok(true)
}

fn strided(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    emit(&general::strided(&query.step.transform, pointers(query))?)?;
    Ok(true)
}
