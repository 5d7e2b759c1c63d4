//! The kernels of contractions, in the order in which they are asked whether they accept one.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::direct::conv_few_channels::ConvFewChannels;
use super::direct::depthwise_interleaved::DepthwiseInterleaved;
use super::direct::depthwise_planar::DepthwisePlanar;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::direct::depthwise_wgrad_interleaved::DepthwiseWgradInterleaved;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::direct::depthwise_wgrad_planar::DepthwiseWgradPlanar;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::direct::grouped_few_channels::GroupedFewChannels;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::direct::wgrad_few_filters::WgradFewFilters;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::direct::winograd::{FilterLanes, PixelLanes};
use super::gemm::engine::Engine;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::gemm::gemm_dot::GemmDot;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::gemm::gemv::Gemv;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::kernel::simd;
use super::levels::{self, dispatch};
use super::problem::Problem;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::problem::Ready;
use super::takes_vnni;
use super::tiles::Tiles;
use crate::backend::choice::{Kernel, Launch};
use crate::ops::contract::{Accumulate, Contract};

/// Whether a kernel takes a problem: ready to run it, or not.
pub(super) type Accept = for<'a> fn(&Problem<'a>) -> Option<Launch<'a>>;

/// The names of the kernels of F(2x2, 3x3): lanes are filters, lanes are pixels. They take steps
/// only where they are the fastest.
pub const WINOGRAD: [&str; 2] = ["winograd_filters", "winograd_pixels"];

/// The kernels; the first one that accepts a contraction runs it.
pub(super) const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "tiles",
        when: "where the level has tiles: products of bytes, and of halves and bf16 where a program lets \
               Tensor Cores have them, at least 8 columns (filters of a group) and 16 terms a sum, but for \
               windows in planes (NCHW); with `neonmm` no halves, and at least 16 columns and 64 terms",
        accept: |problem| problem.launch(Tiles::new(problem).filter(|tiles| !tiles.are_single())),
    },
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Kernel {
        name: "winograd_filters",
        when: "where a program asks for one of Winograd's algorithms: f32, f16 and bf16, 3 x 3 taps, \
               stride 1, at least 32 channels and filters, 160 outputs an image, and channels contiguous \
               in image and destination, f32 also in blocks of 8 or more, or at most 256 outputs an image. \
               Lanes are filters",
        accept: |problem| dispatch!(f32: problem, compiled => FilterLanes::new(problem, &compiled.kernels)),
    },
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Kernel {
        name: "winograd_pixels",
        when: "the same where rows of the destination are contiguous. Lanes are tiles",
        accept: |problem| dispatch!(f32: problem, compiled => PixelLanes::new(problem, &compiled.kernels)),
    },
    Kernel {
        name: "tiles_of_parts",
        when: "where the level has tiles and a program lets Tensor Cores have them: f32 in parts of bf16, at \
               least 128 columns (filters of a group), 512 terms a sum and 128 rows (pixels of an image), but for \
               windows in planes (NCHW)",
        accept: |problem| problem.launch(Tiles::new(problem).filter(Tiles::are_single)),
    },
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Kernel {
        name: "depthwise_wgrad_interleaved",
        when: "gradients of depthwise filters with contiguous channels (NHWC), in images of a vector of \
               them at least",
        accept: |problem| dispatch!(f32: problem, compiled => DepthwiseWgradInterleaved::new(problem, &compiled.kernels)),
    },
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Kernel {
        name: "depthwise_wgrad_planar",
        when: "gradients of depthwise filters in planes, also of a few filters a channel, in one \
               dimension or more",
        accept: |problem| of_vectors(problem, DepthwiseWgradPlanar::<simd::Single>::new),
    },
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Kernel {
        name: "wgrad_few_filters",
        when: "gradients of 8 (AVX-512: 16) to 128 filters with a window",
        accept: |problem| dispatch!(f32: problem, compiled => WgradFewFilters::new(problem, &compiled.kernels)),
    },
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Kernel {
        name: "gemm_dot",
        when: "gradients of 1 x 1 filters over 256 pixels or more of a plane, with AVX2 or NEON, few \
               channels and filters",
        accept: |problem| of_vectors(problem, GemmDot::new),
    },
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Kernel {
        name: "gemv",
        when: "a matrix by one to four vectors, f32; their terms may have another order. Up to 16 rows by a \
               matrix whose columns lie side by side",
        accept: |problem| of_vectors(problem, Gemv::new),
    },
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Kernel {
        name: "grouped_few_channels",
        when: "groups of up to 8 filters and fewer than 8 channels side by side (NHWC), and depthwise \
               layers with several filters a channel",
        accept: |problem| of_vectors(problem, GroupedFewChannels::new),
    },
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Kernel {
        name: "conv_few_channels",
        when: "windows over up to 32 channels side by side (NHWC), at most 384 products a sum, as in \
               first layers, f32 and bytes with VNNI; of f32 also 8 or 16 channels in each of some \
               groups, fewer in a block of 8 or 16, and filters in blocks",
        accept: |problem| {
            let single = problem.of_few_filters();
            dispatch!(f32: single, compiled => ConvFewChannels::new(&single, &compiled.kernels)).or_else(
                || dispatch!(vnni: problem, compiled => ConvFewChannels::new(problem, &compiled.kernels)),
            )
        },
    },
    Kernel {
        name: "depthwise_planar",
        when: "sums over the taps of one channel, or of few (up to 8 filters of the same channels, 16 \
               pairs), neighbours of the destination's rows at most 8 elements apart, as in gradients of \
               the data with a stride; in one to three dimensions",
        accept: |problem| depthwise(problem, std::slice::from_ref(problem.step())),
    },
    Kernel {
        name: "depthwise_interleaved",
        when: "the same with contiguous channels (NHWC), or in blocks of a vector at least",
        accept: |problem| {
            let problem = problem.of_interleaved_channels();
            dispatch!(unpacked: problem, compiled => DepthwiseInterleaved::new(&problem, compiled.channels))
        },
    },
    Kernel {
        name: "gemm_planes",
        when: "rows of the destination contiguous (NCHW), or so few channels that they fill no vector \
               (NHWC)",
        accept: |problem| {
            let problem = problem.of_few_filters();
            dispatch!(any: problem, compiled => Engine::with_planes(&problem, &compiled.kernels, compiled.task))
        },
    },
    Kernel {
        name: "gemm",
        when: "all contractions",
        accept: |problem| {
            let problem = problem.of_few_filters();
            dispatch!(any: problem, compiled => Some(Engine::of(&problem, &compiled.kernels, compiled.task, None)))
        },
    },
];

/// The kernels of the phases of a stride together; steps that none accepts run one by one.
pub(super) const STRIDE_PHASES: &[Kernel<AcceptStridePhases>] = &[Kernel {
    name: "depthwise_stride_phases",
    when: "the phases of a stride of a depthwise layer: they read one copy, and leave as whole rows",
    accept: |problem, steps| depthwise(problem, steps),
}];

/// Whether a kernel takes several steps of one destination, the first of which is the problem's.
pub(super) type AcceptStridePhases = for<'a> fn(&Problem<'a>, &'a [Contract]) -> Option<Launch<'a>>;

/// What planes of single channels answer to steps of one destination.
fn depthwise<'a>(problem: &Problem<'a>, steps: &'a [Contract]) -> Option<Launch<'a>> {
    let problem = problem.of_single_channels();
    dispatch!(unpacked: problem, compiled => DepthwisePlanar::new(&problem, &compiled.kernels, steps))
}

/// What a kernel with vectors of AVX2 or of NEON alone answers.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn of_vectors<'a, K: Ready + 'a>(
    problem: &Problem<'a>, new: fn(&Problem<'a>) -> Option<K>,
) -> Option<Launch<'a>> {
    if problem.isa.has_vectors() { problem.launch(new(problem)) } else { None }
}
