//! What the calls of BatchNormalization and Normalization share: from C arguments to plans.

use std::ffi::c_void;

use super::arg::operands;
use super::types::{cudnnActivationDescriptor_t, cudnnHandle_t, cudnnTensorDescriptor_t};
use super::{activation, arg, context, tensor, transform};
use crate::desc::TensorDescriptor;
use crate::desc::normalization::{BatchNormMode, NormOps};
use crate::error::{Error, Result};
use crate::exec::{Bound, Call};
use crate::mode::Mode;
use crate::ops::Memory;
use crate::ops::batch_norm::{
    Backward, BackwardPlan, Forward, ForwardPlan, Fused, Parameters, Source, check_type, check_workspace,
    reserve_bytes, workspace_bytes,
};

/// A tensor of a call: its descriptor and its data.
pub(super) type Tensor = (cudnnTensorDescriptor_t, *mut c_void);

/// A tensor that is read.
pub(super) fn input(desc: cudnnTensorDescriptor_t, data: *const c_void) -> Tensor {
    (desc, data.cast_mut())
}

/// A buffer of a call, and its bytes.
pub(super) type Buffer = (*mut c_void, usize);

/// The arguments of a forward pass; what a call does not have is NULL.
pub(super) struct ForwardCall {
    pub function: &'static str,
    pub handle: cudnnHandle_t,
    pub mode: BatchNormMode,
    pub ops: NormOps,
    pub scaling: [*const c_void; 2],
    pub x: Tensor,
    pub y: Tensor,
    pub z: Tensor,
    /// The descriptor of parameters and statistics, and its name.
    pub parameters: (&'static str, cudnnTensorDescriptor_t),
    /// Saved mean and inverse variance, mean and variance (running or given), scale, bias.
    pub numbers: [*mut c_void; 6],
    pub names: [&'static str; 6],
    /// The weight of new statistics; none where they are given.
    pub factor: Option<f64>,
    pub epsilon: f64,
    pub activation: cudnnActivationDescriptor_t,
    pub workspace: Buffer,
    pub reserve: Buffer,
}

/// What follows the normalisation.
///
/// # Errors
/// Bad parameter for an activation that is needed and not alive.
pub(super) fn follows(ops: NormOps, activation: cudnnActivationDescriptor_t) -> Result<Option<Fused>> {
    if ops == NormOps::Plain {
        return Ok(None);
    }
    let activation = activation::get(activation, "activationDesc")?;
    Ok(Some(Fused { adds: ops == NormOps::AddActivate, activation }))
}

/// What follows the normalisation, and the descriptor of what is added.
///
/// # Errors
/// Bad parameter for descriptors that are needed and not alive.
pub(super) fn fused(
    ops: NormOps, activation: cudnnActivationDescriptor_t,
    (name, desc): (&'static str, cudnnTensorDescriptor_t),
) -> Result<(Option<Fused>, Option<TensorDescriptor>)> {
    let follows = follows(ops, activation)?;
    let added = if ops == NormOps::AddActivate { Some(tensor::get(desc, name)?) } else { None };
    Ok((follows, added))
}

/// A buffer as the rules of the operation see it.
fn memory((pointer, size): Buffer) -> Memory {
    Memory { address: pointer.addr(), size }
}

/// The bytes of a reserve space.
///
/// # Errors
/// As [`reserve_bytes`]; bad parameter off the alignment of slopes.
fn reserve(x: &TensorDescriptor, fused: Option<&Fused>, reserve: Buffer, mode: Mode) -> Result<usize> {
    let (size, slopes) = reserve_bytes(x, fused, memory(reserve), mode)?;
    if let Some(scalar) = slopes {
        arg::data(reserve.0, scalar.size(), "reserveSpace")?;
    }
    Ok(size)
}

/// Looks at parameters and statistics: those that must be there, and the alignment of all.
fn check_numbers(
    numbers: &[*mut c_void], names: &[&'static str], required: &[usize], size: usize,
) -> Result<()> {
    for (k, (&pointer, &name)) in numbers.iter().zip(names).enumerate() {
        if required.contains(&k) || !pointer.is_null() {
            arg::data(pointer, size, name)?;
        }
    }
    Ok(())
}

/// Parameters and statistics under their names.
fn named(names: [&'static str; 6], numbers: [*mut c_void; 6]) -> [Bound; 6] {
    std::array::from_fn(|k| (names[k], numbers[k].into()))
}

impl ForwardCall {
    /// # Errors
    /// As [`ForwardPlan::new`], after bad parameter for NULL and misaligned pointers and descriptors that are not alive.
    ///
    /// # Safety
    /// As the C call promises.
    pub unsafe fn run(self) -> Result<()> {
        // SAFETY: as of this call.
        if let Some(theirs) = unsafe { self.run_as_graph() } {
            return theirs;
        }
        context::compute(self.handle, self.function, |core| {
            // SAFETY: pointers are NULL or valid for the spans of their descriptors, factors for one read.
            unsafe { self.run_on(core) }
        })
    }

    /// # Safety
    /// As [`ForwardCall::run`].
    unsafe fn run_on(&self, core: &mut Call<'_>) -> Result<()> {
        let (x, y) = (tensor::get(self.x.0, "xDesc")?, tensor::get(self.y.0, "yDesc")?);
        let parameters = tensor::get(self.parameters.1, self.parameters.0)?;
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(self.scaling[0], self.scaling[1], y.data_type()) }?;
        let (fused, added) = fused(self.ops, self.activation, ("zDesc", self.z.0))?;
        tensor::data(self.x.1, &x, "x")?;
        tensor::data(self.y.1, &y, "y")?;
        if let Some(z) = &added {
            tensor::data(self.z.1, z, "z")?;
        }
        let required: &[usize] = if self.factor.is_some() { &[4, 5] } else { &[2, 3, 4, 5] };
        check_numbers(&self.numbers, &self.names, required, parameters.data_type().scalar().size())?;
        let mode = Mode::current();
        let there = |k: usize| !self.numbers[k].is_null();
        let source = match self.factor {
            None => Source::Given,
            Some(factor) => {
                Source::Batch { factor, running: [there(2), there(3)], saved: [there(0), there(1)] }
            }
        };
        let mut call = Forward {
            mode: self.mode,
            x: &x,
            y: &y,
            z: added.as_ref(),
            parameters: Parameters { name: self.parameters.0, tensor: &parameters },
            source,
            epsilon: self.epsilon,
            scaling,
            fused,
            reserve_size: usize::MAX,
            workspace_size: workspace_bytes(memory(self.workspace)),
            names: self.names,
        };
        // Everything but the buffers is looked at first.
        ForwardPlan::new(call, mode)?;
        check_workspace(fused.as_ref(), memory(self.workspace), mode)?;
        // Without statistics of the batch there is no gradient to keep slopes for.
        if self.factor.is_some() {
            call.reserve_size = reserve(&x, fused.as_ref(), self.reserve, mode)?;
        }
        let plan = ForwardPlan::new(call, mode)?;
        let [y, reserve, x, z, workspace] = operands![
            y = self.y.1,
            reserveSpace = self.reserve.0,
            x = self.x.1,
            z = self.z.1,
            workSpace = self.workspace.0,
        ];
        let [saved_mean, saved_inverse, mean, variance, scale, bias] = named(self.names, self.numbers);
        let operands = [y, saved_mean, saved_inverse, mean, variance, reserve, x, z, scale, bias, workspace];
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { core.run(&plan, operands) }
    }
}

/// The arguments of a backward pass; what a call does not have is NULL.
pub(super) struct BackwardCall {
    pub function: &'static str,
    pub handle: cudnnHandle_t,
    pub mode: BatchNormMode,
    pub ops: NormOps,
    pub scaling: [*const c_void; 2],
    pub parameter_scaling: [*const c_void; 2],
    pub x: Tensor,
    pub dy: Tensor,
    pub dx: Tensor,
    pub dz: Tensor,
    /// The descriptor of parameters and statistics, and its name.
    pub parameters: (&'static str, cudnnTensorDescriptor_t),
    /// The gradients of scale and bias, scale, bias, saved mean and inverse variance.
    pub numbers: [*mut c_void; 6],
    pub names: [&'static str; 6],
    pub epsilon: f64,
    pub activation: cudnnActivationDescriptor_t,
    pub workspace: Buffer,
    pub reserve: Buffer,
}

impl BackwardCall {
    /// # Errors
    /// As [`BackwardPlan::new`], after bad parameter for NULL and misaligned pointers and descriptors that are not alive.
    ///
    /// # Safety
    /// As the C call promises.
    pub unsafe fn run(self) -> Result<()> {
        // SAFETY: as of this call.
        if let Some(theirs) = unsafe { self.run_as_graph() } {
            return theirs;
        }
        if self.handle.is_null() && Mode::current().is_strict() {
            // The original looks at the handle last, and where an activation follows it takes its lack for one of a kernel.
            // SAFETY: all four factors are NULL or one readable number of their type.
            unsafe { self.plan() }?;
            if self.ops == NormOps::Activate {
                return Err(Error::unsupported("strict mode: handle is NULL"));
            }
        }
        context::compute(self.handle, self.function, |call| {
            // SAFETY: pointers are NULL or valid for the spans of their descriptors, factors for one read.
            unsafe { self.run_on(call) }
        })
    }

    /// What cuDNN looks at before the descriptors of the gradients: factors, data, and the type of x.
    fn check_as_original(&self, x: &TensorDescriptor) -> Result<()> {
        let factors = self.scaling.into_iter().chain(self.parameter_scaling);
        for (factor, name) in
            factors.zip(["alphaDataDiff", "betaDataDiff", "alphaParamDiff", "betaParamDiff"])
        {
            arg::required(factor, name)?;
        }
        for (data, name) in [(self.x.1, "x"), (self.dy.1, "dy"), (self.dx.1, "dx")] {
            arg::required(data, name)?;
        }
        for (&pointer, &name) in self.numbers[..3].iter().zip(&self.names) {
            arg::required(pointer, name)?;
        }
        check_type(x, true, Mode::Strict)
    }

    /// # Safety
    /// As [`BackwardCall::run`].
    unsafe fn run_on(&self, call: &mut Call<'_>) -> Result<()> {
        // SAFETY: all four factors are NULL or one readable number of their type.
        let plan = unsafe { self.plan() }?;
        let [dx, dz, x, dy, reserve, workspace] = operands![
            dx = self.dx.1,
            dz = self.dz.1,
            x = self.x.1,
            dy = self.dy.1,
            reserveSpace = self.reserve.0,
            workSpace = self.workspace.0,
        ];
        let [d_scale, d_bias, scale, bias, mean, inverse] = named(self.names, self.numbers);
        let operands = [dx, d_scale, d_bias, dz, x, dy, scale, bias, mean, inverse, reserve, workspace];
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands) }
    }

    /// The plan of the call, from descriptors and pointers that were looked at.
    ///
    /// # Safety
    /// As [`BackwardCall::run`].
    unsafe fn plan(&self) -> Result<BackwardPlan> {
        let x = tensor::get(self.x.0, "xDesc")?;
        let mode = Mode::current();
        if mode.is_strict() && self.ops == NormOps::Plain {
            self.check_as_original(&x)?;
        }
        let dy = tensor::get(self.dy.0, "dyDesc")?;
        let dx = tensor::get(self.dx.0, "dxDesc")?;
        let parameters = tensor::get(self.parameters.1, self.parameters.0)?;
        // SAFETY: all four factors are NULL or one readable number of their type.
        let [scaling, parameter_scaling] = unsafe {
            let pair = |[alpha, beta]: [*const c_void; 2]| transform::scaling(alpha, beta, dx.data_type());
            [pair(self.scaling)?, pair(self.parameter_scaling)?]
        };
        let (fused, split) = fused(self.ops, self.activation, ("dzDesc", self.dz.0))?;
        for ((_, data), name) in [(self.x, "x"), (self.dy, "dy"), (self.dx, "dx")] {
            tensor::data(data, &x, name)?;
        }
        if let Some(dz) = &split {
            tensor::data(self.dz.1, dz, "dz")?;
        }
        let size = parameters.data_type().scalar().size();
        check_numbers(&self.numbers, &self.names, &[0, 1, 2], size)?;
        let there = |k: usize| !self.numbers[k].is_null();
        let mut call = Backward {
            mode: self.mode,
            x: &x,
            dy: &dy,
            dx: &dx,
            dz: split.as_ref(),
            parameters: Parameters { name: self.parameters.0, tensor: &parameters },
            saved: [there(4), there(5)],
            bias: there(3),
            epsilon: self.epsilon,
            scaling,
            parameter_scaling,
            fused,
            reserve_size: usize::MAX,
            workspace_size: workspace_bytes(memory(self.workspace)),
            names: self.names,
        };
        // Everything but the buffers is looked at first.
        BackwardPlan::new(call, mode)?;
        check_workspace(fused.as_ref(), memory(self.workspace), mode)?;
        call.reserve_size = reserve(&x, fused.as_ref(), self.reserve, mode)?;
        BackwardPlan::new(call, mode)
    }
}
