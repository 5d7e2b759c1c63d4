//! Constants that the header shows as macros.

use std::ffi::{c_int, c_uint};

/// Version of the interface: major, minor, patch level.
const VERSION: [c_int; 3] = if cfg!(feature = "cudnn8") { [8, 9, 7] } else { [9, 27, 0] };
/// First number of the version.
pub const CUDNN_MAJOR: c_int = VERSION[0];
/// Second number of the version.
pub const CUDNN_MINOR: c_int = VERSION[1];
/// Third number of the version.
pub const CUDNN_PATCHLEVEL: c_int = VERSION[2];
/// The newest device that the interface knows: `100 * compute capability`.
pub const CUDNN_MAX_DEVICE_VERSION: usize = if cfg!(feature = "cudnn8") { 900 } else { 1210 };

/// The most dimensions a tensor can have.
pub const CUDNN_DIM_MAX: c_int = 8;

/// Message mask: errors.
pub const CUDNN_SEV_ERROR_EN: c_uint = 2;
/// Message mask: warnings.
pub const CUDNN_SEV_WARNING_EN: c_uint = 4;
/// Message mask: one line for each call.
pub const CUDNN_SEV_INFO_EN: c_uint = 8;

/// Narrowest window of local response normalisation.
pub const CUDNN_LRN_MIN_N: c_int = 1;
/// Widest window of local response normalisation.
pub const CUDNN_LRN_MAX_N: c_int = 16;
/// Smallest k of local response normalisation.
pub const CUDNN_LRN_MIN_K: f64 = 1e-5;
/// Smallest beta of local response normalisation.
pub const CUDNN_LRN_MIN_BETA: f64 = 0.01;
/// Smallest epsilon of batch normalisation.
pub const CUDNN_BN_MIN_EPSILON: f64 = 0.0;

/// Recurrent networks: sequences lie without padding.
pub const CUDNN_RNN_PADDED_IO_DISABLED: c_int = 0;
/// Recurrent networks: sequences lie with padding.
pub const CUDNN_RNN_PADDED_IO_ENABLED: c_uint = 1;

/// Number of dimensions of sequence data.
pub const CUDNN_SEQDATA_DIM_COUNT: c_int = 4;
/// Attention: all queries of a beam share their keys.
pub const CUDNN_ATTN_QUERYMAP_ALL_TO_ONE: c_int = 0;
/// Attention: each query of a beam has its own keys.
pub const CUDNN_ATTN_QUERYMAP_ONE_TO_ONE: c_uint = 1;
/// Attention: projections have no biases.
pub const CUDNN_ATTN_DISABLE_PROJ_BIASES: c_int = 0;
/// Attention: projections have biases.
pub const CUDNN_ATTN_ENABLE_PROJ_BIASES: c_uint = 2;
/// Number of weight kinds of attention.
pub const CUDNN_ATTN_WKIND_COUNT: c_int = 8;
