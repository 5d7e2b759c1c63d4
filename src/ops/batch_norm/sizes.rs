//! What the size queries answer, with the checks of the original, and what workspaces and reserve
//! spaces have to hold.

use super::agree::{self, Fused, Parameters};
use super::{LEAST_BYTES, reserve_size, useful_workspace};
use crate::desc::normalization::BatchNormMode;
use crate::desc::{ActivationMode, TensorDescriptor};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::Memory;
use crate::ops::agree::Named;

/// What a workspace query is about: the tensors that go with x, that which is added (or its
/// gradient), and the parameters.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// The groups.
    pub mode: BatchNormMode,
    /// What is normalised.
    pub x: &'a TensorDescriptor,
    /// y; or dx and dy.
    pub others: &'a [(&'static str, &'a TensorDescriptor)],
    /// z or dz, if there is one.
    pub added: Option<(&'static str, &'a TensorDescriptor)>,
    /// Scale, bias and statistics.
    pub parameters: Parameters<'a>,
    /// Whether the pass is forward.
    pub forward: bool,
}

impl Query<'_> {
    /// The checks that come before what is fused is looked at.
    ///
    /// # Errors
    /// Not supported: types. Bad parameter: tensors that do not agree.
    pub fn check(&self, mode: Mode) -> Result<()> {
        let Query { x, others, added, parameters, forward, .. } = *self;
        let read = agree::as_read(self.mode, x, parameters.tensor, mode)?;
        let parameters = Parameters { tensor: &read, ..parameters };
        agree::check_type(x, true, mode)?;
        agree::check_bfloat16(x, parameters)?;
        let added = added.filter(|_| !forward);
        for (name, tensor) in others.iter().copied().chain(added) {
            agree::check(self.mode, x, Named { name, tensor }, parameters, mode)?;
        }
        if mode.is_strict() {
            agree::strict_parameters(self.mode, parameters)?;
        }
        Ok(())
    }

    /// Bytes of workspace with which a GPU takes several blocks of threads for a group. None is
    /// needed.
    ///
    /// # Errors
    /// Not supported, in strict mode: what the original does not fuse.
    pub fn workspace_size(&self, fused: Option<&Fused>, mode: Mode) -> Result<usize> {
        let strict = mode.is_strict() && self.mode == BatchNormMode::SpatialPersistent;
        if let Some(fused) = fused.filter(|_| strict) {
            let named = |&(name, tensor)| Named { name, tensor };
            let mut tensors: Vec<_> = self.others.iter().map(named).collect();
            tensors.push(Named { name: "xDesc", tensor: self.x });
            tensors.extend(self.added.as_ref().map(named));
            agree::strict_fused(self.mode, &tensors)?;
            agree::strict_kernel(self.x, fused, self.forward, self.forward)?;
        }
        Ok(useful_workspace(self.mode, self.x).max(LEAST_BYTES))
    }
}

/// Bytes that the forward pass leaves for the backward pass.
///
/// # Errors
/// Not supported: in strict mode what the original does not fuse; beyond 64 bits.
pub fn training_reserve_size(
    bn: BatchNormMode, x: &TensorDescriptor, fused: Option<&Fused>, mode: Mode,
) -> Result<usize> {
    if let Some(fused) = fused.filter(|fused| fused.adds && mode.is_strict())
        && bn == BatchNormMode::SpatialPersistent
    {
        if !agree::is_channels_last(x) {
            return Err(Error::unsupported("strict mode: xDesc is not packed NHWC"));
        }
        let activation = fused.activation.mode;
        if !matches!(activation, ActivationMode::Relu | ActivationMode::Swish) {
            return Err(Error::unsupported(format!("strict mode: {activation:?} is not fused")));
        }
    }
    reserve_size(x, fused)
}

/// Refuses, in strict mode, fused passes without the workspace that the size query asks for.
///
/// # Errors
/// Not supported.
pub fn check_workspace(fused: Option<&Fused>, workspace: Memory, mode: Mode) -> Result<()> {
    if mode.is_strict() && fused.is_some() && (workspace.is_none() || workspace.size < LEAST_BYTES) {
        let size = workspace.size;
        let text = format!("strict mode: workSpaceSizeInBytes = {size}: {LEAST_BYTES} bytes are needed");
        return Err(Error::unsupported(text));
    }
    Ok(())
}

/// The bytes of a workspace that can be used: one off the alignment is as good as none.
pub fn workspace_bytes(workspace: Memory) -> usize {
    let serves = !workspace.is_none() && workspace.address.is_multiple_of(LEAST_BYTES);
    if serves { workspace.size } else { 0 }
}

/// The bytes of a reserve space that is there and has a use, and the type of the slopes in it, if
/// there is room for these.
///
/// # Errors
/// Not supported, in strict mode, if there is not.
pub fn reserve_bytes(
    x: &TensorDescriptor, fused: Option<&Fused>, reserve: Memory, mode: Mode,
) -> Result<(usize, Option<Scalar>)> {
    let Some(scalar) = fused.and_then(|fused| fused.slopes(x.data_type())) else { return Ok((0, None)) };
    let size = if reserve.is_none() { 0 } else { reserve.size };
    let needed = reserve_size(x, fused)?;
    if mode.is_strict() && size < needed {
        let text = format!("strict mode: reserveSpaceSizeInBytes = {size}: {needed} bytes are needed");
        return Err(Error::unsupported(text));
    }
    Ok((size, (size >= needed).then_some(scalar)))
}
