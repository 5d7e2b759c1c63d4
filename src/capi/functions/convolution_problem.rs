//! What the calls on convolutions share: from descriptors to a checked problem, and the records of a query.

use std::ffi::{c_int, c_void};

use super::arg;
use super::types::{
    cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionDescriptor_t,
    cudnnConvolutionFwdAlgoPerf_t, cudnnFilterDescriptor_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};
use super::{beside_graph, convolution, filter, status, tensor};
use crate::desc::Choice;
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::Scaling;
use crate::ops::convolution::{Convolution, Direction, Record};
use crate::original::{Legacy, Pass};

/// The descriptors of a call with their names there.
pub(super) struct Described {
    pub direction: Direction,
    pub convolution: cudnnConvolutionDescriptor_t,
    pub x: (cudnnTensorDescriptor_t, &'static str),
    pub w: (cudnnFilterDescriptor_t, &'static str),
    pub y: (cudnnTensorDescriptor_t, &'static str),
}

/// The [`Described`] of a direction by the names that the call has for the descriptors of x, w and
/// y, gradients or not, and of the convolution.
macro_rules! described {
    ($direction:ident: $x:ident, $w:ident, $y:ident, $convolution:ident) => {
        Described {
            direction: Direction::$direction,
            convolution: $convolution,
            x: ($x, stringify!($x)),
            w: ($w, stringify!($w)),
            y: ($y, stringify!($y)),
        }
    };
}
pub(super) use described;

impl Described {
    /// What the handles stand for, before any check across them.
    ///
    /// # Errors
    /// Bad parameter for a descriptor that is not alive.
    pub fn alive(&self) -> Result<Alive> {
        let desc = convolution::find(self.convolution, "convDesc")?;
        let x = tensor::get(self.x.0, self.x.1)?;
        let w = filter::get(self.w.0, self.w.1)?;
        let y = tensor::get(self.y.0, self.y.1)?;
        Ok(Alive { direction: self.direction, desc, x, w, y })
    }

    /// The problem.
    ///
    /// # Errors
    /// Bad parameter for a descriptor that is not alive; as [`Convolution::new`].
    pub fn problem(&self) -> Result<Convolution> {
        self.alive()?.problem()
    }
}

/// Descriptors that are there.
pub(super) struct Alive {
    direction: Direction,
    desc: crate::desc::ConvolutionDescriptor,
    x: crate::desc::TensorDescriptor,
    w: crate::desc::FilterDescriptor,
    y: crate::desc::TensorDescriptor,
}

impl Alive {
    /// Refuses other tensors of the call whose rank is not that of the convolution.
    ///
    /// # Errors
    /// Bad parameter.
    pub fn check_ranks(&self, others: &[(&'static str, &crate::desc::TensorDescriptor)]) -> Result<()> {
        let wanted = self.desc.geometry.padding().rank() + 2;
        match others.iter().find(|(_, tensor)| tensor.rank() != wanted) {
            Some((name, tensor)) => Err(Error::mismatch(format!(
                "{name} has {} dimensions, the convolution takes {wanted}",
                tensor.rank()
            ))),
            None => Ok(()),
        }
    }

    /// The problem as the original's graph interface may compute it.
    ///
    /// # Errors
    /// As of the filter's tensor.
    pub fn legacy(&self, pass: Pass, scaling: Scaling) -> Result<Legacy> {
        let tensors = [self.x, self.w.tensor(Mode::current())?, self.y];
        Ok(Legacy::Convolution { pass, desc: self.desc, tensors, factors: beside_graph::factors(scaling) })
    }

    /// The problem that they describe.
    ///
    /// # Errors
    /// As [`Convolution::new`].
    pub fn problem(&self) -> Result<Convolution> {
        Convolution::new(self.direction, &self.desc, &self.x, &self.w, &self.y, Mode::current())
    }
}

/// A result record: the three types of the C interface, which differ in the enumeration of the algorithm only.
#[repr(C)]
struct Performance {
    algorithm: c_int,
    status: c_int,
    time: f32,
    memory: usize,
    determinism: c_int,
    math_type: c_int,
    reserved: [c_int; 3],
}

/// One of the three C types.
pub(super) trait CRecord {}

impl CRecord for cudnnConvolutionFwdAlgoPerf_t {}
impl CRecord for cudnnConvolutionBwdDataAlgoPerf_t {}
impl CRecord for cudnnConvolutionBwdFilterAlgoPerf_t {}

/// Stores records with their milliseconds, the first `requested` of them, and returns how many.
///
/// # Safety
/// `results` is valid for `requested` writes, not NULL unless nothing is requested.
pub(super) unsafe fn store<R: CRecord>(
    results: *mut R, requested: c_int, records: &[(Record, f32)],
) -> c_int {
    const { assert!(size_of::<R>() == size_of::<Performance>() && align_of::<R>() == align_of::<Performance>()) };
    let count = records.len().min(usize::try_from(requested).unwrap_or(0));
    let performance = |(record, time): &(Record, f32)| Performance {
        algorithm: record.algorithm.number(),
        status: match &record.workspace {
            Ok(_) => cudnnStatus_t::CUDNN_STATUS_SUCCESS as c_int,
            Err(error) => status::of(error) as c_int,
        },
        time: *time,
        memory: record.workspace.as_ref().copied().unwrap_or(0),
        determinism: c_int::from(record.algorithm.is_deterministic()),
        math_type: record.math_type.code(),
        reserved: [0; 3],
    };
    // SAFETY: the caller vouches for this many writes; the types have the same fields.
    unsafe { arg::store(results.cast::<Performance>(), records[..count].iter().map(performance)) };
    count as c_int
}

impl Alive {
    /// Whether the factors are `double`: where products are summed so.
    pub fn takes_double(&self) -> bool {
        self.compute_type() == DataType::Double
    }

    /// What products are summed in.
    pub fn compute_type(&self) -> DataType {
        self.desc.geometry.compute_type()
    }
}

/// What a call that computes gives besides its descriptors.
pub(super) struct Call {
    /// The algorithm's number.
    pub algo: c_int,
    pub workspace: (*mut c_void, usize),
    /// The pointers with their names, in the order of the plan's operands: the destination first.
    pub data: [(*mut c_void, &'static str); 3],
    pub alpha: *const c_void,
    pub beta: *const c_void,
}
