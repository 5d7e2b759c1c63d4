//! Convolutions of particular shapes, whose sums are computed where the operands lie or are copied
//! to, without packing a matrix.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod conv_few_channels;
pub mod depthwise_interleaved;
pub mod depthwise_planar;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod depthwise_wgrad_interleaved;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod depthwise_wgrad_planar;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod grouped_few_channels;
mod taps;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod wgrad_few_filters;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod winograd;

/// Outputs of a depthwise convolution below which one thread does all.
const PARALLEL_THRESHOLD: usize = 1 << 14;
