//! What the passes of version 6 are given.

use std::ffi::c_void;

use super::recurrent::Space;
use super::removed_rnn_call::Vectors;
use super::types::{cudnnFilterDescriptor_t, cudnnRNNDescriptor_t, cudnnTensorDescriptor_t};

/// States that are read, with their descriptor.
type StatesIn = (cudnnTensorDescriptor_t, *const c_void);
/// States that are written, with their descriptor.
type StatesOut = (cudnnTensorDescriptor_t, *mut c_void);

/// A forward pass.
pub(super) struct Forward {
    pub(super) rnn: cudnnRNNDescriptor_t,
    pub(super) training: bool,
    /// Of x, and of y.
    pub(super) vectors: (Vectors, Vectors),
    pub(super) x: *const c_void,
    pub(super) y: *mut c_void,
    pub(super) hx: StatesIn,
    pub(super) cx: StatesIn,
    pub(super) hy: StatesOut,
    pub(super) cy: StatesOut,
    pub(super) w: (cudnnFilterDescriptor_t, *const c_void),
    pub(super) workspace: Space,
    pub(super) reserve: Space,
}

/// The gradients by inputs and first states.
pub(super) struct DataGradient {
    pub(super) rnn: cudnnRNNDescriptor_t,
    /// Of dx, and of y and dy.
    pub(super) vectors: (Vectors, [Vectors; 2]),
    pub(super) dy: *const c_void,
    pub(super) dhy: StatesIn,
    pub(super) dcy: StatesIn,
    pub(super) w: (cudnnFilterDescriptor_t, *const c_void),
    pub(super) hx: *const c_void,
    pub(super) cx: *const c_void,
    pub(super) dx: *mut c_void,
    pub(super) dhx: StatesOut,
    pub(super) dcx: StatesOut,
    pub(super) workspace: Space,
    pub(super) reserve: Space,
}

/// The gradients by the weights.
pub(super) struct WeightGradient {
    pub(super) rnn: cudnnRNNDescriptor_t,
    /// Of x, and of y.
    pub(super) vectors: (Vectors, Vectors),
    pub(super) x: *const c_void,
    pub(super) hx: StatesIn,
    pub(super) dw: (cudnnFilterDescriptor_t, *mut c_void),
    pub(super) workspace: Space,
    pub(super) reserve: Space,
}
