//! The kernels of contractions, in the order in which they are asked whether they accept one.

#[cfg(target_arch = "x86_64")]
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use cudnn_shim_macros::vectorized;

#[cfg(target_arch = "x86_64")]
use super::direct::conv_few_channels::ConvFewChannels;
use super::direct::depthwise_interleaved::DepthwiseInterleaved;
use super::direct::depthwise_planar::DepthwisePlanar;
#[cfg(target_arch = "x86_64")]
use super::direct::depthwise_wgrad_interleaved::DepthwiseWgradInterleaved;
#[cfg(target_arch = "x86_64")]
use super::direct::depthwise_wgrad_planar::DepthwiseWgradPlanar;
#[cfg(target_arch = "x86_64")]
use super::direct::grouped_few_channels::GroupedFewChannels;
#[cfg(target_arch = "x86_64")]
use super::direct::wgrad_few_filters::WgradFewFilters;
#[cfg(target_arch = "x86_64")]
use super::direct::winograd::{FilterLanes, PixelLanes};
use super::gemm::engine::Engine;
#[cfg(target_arch = "x86_64")]
use super::gemm::gemm_dot::GemmDot;
#[cfg(target_arch = "x86_64")]
use super::gemm::gemv::Gemv;
#[cfg(target_arch = "x86_64")]
use super::kernel::simd;
use super::kernel::simd::Simd;
use super::levels::{self, Compiled, any};
#[cfg(target_arch = "x86_64")]
use super::levels::{dots, single};
use super::operands::pack::Part;
use super::operands::planes::Planes;
use super::problem::Problem;
#[cfg(target_arch = "x86_64")]
use super::takes_dots;
use crate::backend::choice::{Kernel, Launch};
#[cfg(target_arch = "x86_64")]
use crate::backend::cpu::Isa;
use crate::dtype::convert::Element;
use crate::ops::contract::{Accumulate, Contract};

/// Whether a kernel takes a problem: ready to run it, or not.
pub(in crate::backend) type Accept = for<'a> fn(&Problem<'a>) -> Option<Launch<'a>>;

/// The names of the kernels of F(2x2, 3x3): lanes are filters, lanes are pixels. They take steps only where they are the fastest.
pub const WINOGRAD: [&str; 2] = ["F(2x2, 3x3) of filters", "F(2x2, 3x3) of pixels"];

/// The kernels; the first one that accepts a contraction runs it.
pub(in crate::backend) const KERNELS: &[Kernel<Accept>] = &[
    #[cfg(target_arch = "x86_64")]
    Kernel {
        name: "F(2x2, 3x3) of filters",
        when: "where a program asks for one of Winograd's algorithms: f32, f16 and bf16, 3 x 3 taps, \
               stride 1, at least 32 channels and filters, 160 outputs an image, and channels contiguous \
               in image and destination, or at most 256 outputs an image. Lanes are filters",
        accept: |problem| single!(problem, winograd_of_filters),
    },
    #[cfg(target_arch = "x86_64")]
    Kernel {
        name: "F(2x2, 3x3) of pixels",
        when: "the same where rows of the destination are contiguous. Lanes are tiles",
        accept: |problem| single!(problem, winograd_of_pixels),
    },
    #[cfg(target_arch = "x86_64")]
    Kernel {
        name: "depthwise_wgrad_interleaved",
        when: "gradients of depthwise filters with contiguous channels (NHWC), in images of a vector of \
               them at least",
        accept: |problem| single!(problem, depthwise_wgrad_interleaved),
    },
    #[cfg(target_arch = "x86_64")]
    Kernel {
        name: "depthwise_wgrad_planar",
        when: "gradients of depthwise filters in planes, also of a few filters a channel, in one \
               dimension or more",
        accept: depthwise_wgrad_planar,
    },
    #[cfg(target_arch = "x86_64")]
    Kernel {
        name: "wgrad_few_filters",
        when: "gradients of 8 (AVX-512: 16) to 128 filters with a window",
        accept: |problem| single!(problem, wgrad_few_filters),
    },
    #[cfg(target_arch = "x86_64")]
    Kernel {
        name: "gemm_dot",
        when: "gradients of 1 x 1 filters over 256 pixels or more of a plane, with AVX2, few channels \
               and filters",
        accept: gemm_dot,
    },
    #[cfg(target_arch = "x86_64")]
    Kernel { name: "gemv", when: "a matrix by one to four vectors, f32", accept: gemv },
    #[cfg(target_arch = "x86_64")]
    Kernel {
        name: "grouped_few_channels",
        when: "groups of up to 8 filters and fewer than 8 channels side by side (NHWC), and depthwise \
               layers with several filters a channel",
        accept: grouped_few_channels,
    },
    #[cfg(target_arch = "x86_64")]
    Kernel {
        name: "conv_few_channels",
        when: "windows over up to 32 channels side by side (NHWC), at most 384 products a sum, as in \
               first layers, f32 and bytes with VNNI; of f32 also 8 or 16 channels in each of some \
               groups",
        accept: |problem| single!(problem, conv_few_channels).or_else(|| dots!(problem, conv_few_channels)),
    },
    Kernel {
        name: "depthwise_planar",
        when: "sums over the taps of one channel, or of few (up to 8 filters of the same channels, 16 \
               pairs), neighbours of the destination's rows at most 8 elements apart, as in gradients of \
               the data with a stride; in one to three dimensions",
        accept: |problem| any!(&problem.of_single_channels(), depthwise_planar),
    },
    Kernel {
        name: "depthwise_interleaved",
        when: "the same with contiguous channels (NHWC)",
        accept: |problem| any!(&problem.of_single_channels(), depthwise_interleaved),
    },
    Kernel {
        name: "gemm_planes",
        when: "rows of the destination contiguous (NCHW), or so few channels that they fill no vector \
               (NHWC)",
        accept: |problem| any!(&problem.of_few_filters(), gemm_planes),
    },
    Kernel {
        name: "gemm",
        when: "all contractions",
        accept: |problem| any!(&problem.of_few_filters(), gemm),
    },
];

/// The kernels of the phases of a stride together; steps that none accepts run one by one.
pub(in crate::backend) const OF_PHASES: &[Kernel<AcceptPhases>] = &[Kernel {
    name: "depthwise phases",
    when: "the phases of a stride of a depthwise layer: they read one copy, and leave as whole rows",
    accept: |problem, steps| phases(problem, steps),
}];

/// Whether a kernel takes several steps of one destination, the first of which is the problem's.
pub(in crate::backend) type AcceptPhases = for<'a> fn(&Problem<'a>, &'a [Contract]) -> Option<Launch<'a>>;

#[cfg(target_arch = "x86_64")]
fn winograd_of_filters<'a, S: Simd<Part = f32, Cell = f32, Sum = f32>>(
    problem: &Problem<'a>, compiled: &'static Compiled<S>,
) -> Option<Launch<'a>> {
    if !problem.transformed {
        return None;
    }
    let winograd = FilterLanes::new(problem.outputs, problem.operands, &compiled.kernels)?;
    let threads = problem.threads;
    // SAFETY: the promises of [`Launch::run`].
    Some(Launch::new(move || unsafe { winograd.run(threads, filters_task::avx2) }))
}

#[cfg(target_arch = "x86_64")]
fn winograd_of_pixels<'a, S: Simd<Part = f32, Cell = f32, Sum = f32>>(
    problem: &Problem<'a>, compiled: &'static Compiled<S>,
) -> Option<Launch<'a>> {
    if !problem.transformed {
        return None;
    }
    let winograd = PixelLanes::new(problem.outputs, problem.operands, &compiled.kernels)?;
    let threads = problem.threads;
    // SAFETY: the promises of [`Launch::run`].
    Some(Launch::new(move || unsafe { winograd.run(threads, pixels_task::avx2, pixels_filters::avx2) }))
}

#[cfg(target_arch = "x86_64")]
fn depthwise_wgrad_interleaved<'a, S: Simd<Part = f32, Cell = f32, Sum = f32>>(
    problem: &Problem<'a>, _: &'static Compiled<S>,
) -> Option<Launch<'a>> {
    let pixels = DepthwiseWgradInterleaved::<S>::new(problem.outputs, problem.operands)?;
    let threads = problem.threads;
    // SAFETY: the promises of [`Launch::run`].
    Some(Launch::new(move || unsafe { pixels.run(threads) }))
}

#[cfg(target_arch = "x86_64")]
fn depthwise_wgrad_planar<'a>(problem: &Problem<'a>) -> Option<Launch<'a>> {
    if !problem.operands.isa.has_avx2() {
        return None;
    }
    let taps = DepthwiseWgradPlanar::<simd::Avx2Single>::new(problem.outputs, problem.operands)?;
    let threads = problem.threads;
    // SAFETY: the promises of [`Launch::run`].
    Some(Launch::new(move || unsafe { taps.run(threads, taps_task::avx2) }))
}

#[cfg(target_arch = "x86_64")]
fn wgrad_few_filters<'a, S: Simd<Part = f32, Cell = f32, Sum = f32>>(
    problem: &Problem<'a>, compiled: &'static Compiled<S>,
) -> Option<Launch<'a>> {
    let correlation = WgradFewFilters::new(problem.outputs, problem.operands, &compiled.kernels)?;
    let threads = problem.threads;
    // SAFETY: the promises of [`Launch::run`].
    Some(Launch::new(move || unsafe { correlation.run(threads) }))
}

#[cfg(target_arch = "x86_64")]
fn gemm_dot<'a>(problem: &Problem<'a>) -> Option<Launch<'a>> {
    if !problem.operands.isa.has_avx2() {
        return None;
    }
    let along = GemmDot::new(problem.outputs, problem.operands)?;
    let threads = problem.threads;
    // SAFETY: the promises of [`Launch::run`].
    Some(Launch::new(move || unsafe { along.run(threads) }))
}

#[cfg(target_arch = "x86_64")]
fn gemv<'a>(problem: &Problem<'a>) -> Option<Launch<'a>> {
    if !problem.operands.isa.has_avx2() {
        return None;
    }
    let vectors = Gemv::new(problem.outputs, problem.operands)?;
    let threads = problem.threads;
    // SAFETY: the promises of [`Launch::run`].
    Some(Launch::new(move || unsafe { vectors.run(threads) }))
}

#[cfg(target_arch = "x86_64")]
fn grouped_few_channels<'a>(problem: &Problem<'a>) -> Option<Launch<'a>> {
    if !problem.operands.isa.has_avx2() {
        return None;
    }
    let groups = GroupedFewChannels::new(problem.outputs, problem.operands)?;
    let threads = problem.threads;
    // SAFETY: the promises of [`Launch::run`].
    Some(Launch::new(move || unsafe { groups.run(threads) }))
}

#[cfg(target_arch = "x86_64")]
fn conv_few_channels<'a, S: Simd<Part: Part, Sum: Element>>(
    problem: &Problem<'a>, compiled: &'static Compiled<S>,
) -> Option<Launch<'a>> {
    let runs = ConvFewChannels::new(problem.outputs, problem.operands, &compiled.kernels)?;
    let threads = problem.threads;
    // SAFETY: the promises of [`Launch::run`].
    Some(Launch::new(move || unsafe { runs.run(threads) }))
}

fn depthwise_planar<'a, S: Simd<Part: Part, Sum: Element>>(
    problem: &Problem<'a>, compiled: &'static Compiled<S>,
) -> Option<Launch<'a>> {
    // Kernels of single channels have no cells of several terms.
    if S::PER > 1 {
        return None;
    }
    depthwise_of(problem, std::slice::from_ref(problem.outputs.step), compiled)
}

fn phases<'a>(problem: &Problem<'a>, steps: &'a [Contract]) -> Option<Launch<'a>> {
    let problem = &problem.of_single_channels();
    match problem.operands.isa {
        #[cfg(target_arch = "x86_64")]
        isa if isa.has_avx512() => depthwise_of(problem, steps, &levels::AVX512_SINGLE),
        #[cfg(target_arch = "x86_64")]
        isa if isa.has_avx2() => depthwise_of(problem, steps, &levels::AVX2_SINGLE),
        _ => depthwise_of(problem, steps, &levels::PORTABLE_SINGLE),
    }
}

fn depthwise_of<'a, S: Simd<Part: Part, Sum: Element>>(
    problem: &Problem<'a>, steps: &'a [Contract], compiled: &'static Compiled<S>,
) -> Option<Launch<'a>> {
    let depthwise = DepthwisePlanar::new(problem.outputs, problem.operands, &compiled.kernels, steps)?;
    let threads = problem.threads;
    // SAFETY: the promises of [`Launch::run`].
    Some(Launch::new(move || unsafe { depthwise.run(threads) }))
}

fn depthwise_interleaved<'a, S: Simd<Part: Part, Sum: Element>>(
    problem: &Problem<'a>, compiled: &'static Compiled<S>,
) -> Option<Launch<'a>> {
    // Kernels of single channels have no cells of several terms.
    if S::PER > 1 {
        return None;
    }
    let channels = DepthwiseInterleaved::new(problem.outputs, problem.operands)?;
    let (threads, task) = (problem.threads, compiled.channels);
    // SAFETY: the promises of [`Launch::run`].
    Some(Launch::new(move || unsafe { channels.run(threads, task) }))
}

fn gemm_planes<'a, S: Simd<Part: Part, Sum: Element>>(
    problem: &Problem<'a>, compiled: &'static Compiled<S>,
) -> Option<Launch<'a>> {
    let planes = Engine::<S>::planes(problem.outputs.step, problem.operands, problem.panels.is_some())?;
    Some(engine(problem, compiled, Some(planes)))
}

fn gemm<'a, S: Simd<Part: Part, Sum: Element>>(
    problem: &Problem<'a>, compiled: &'static Compiled<S>,
) -> Option<Launch<'a>> {
    Some(engine(problem, compiled, None))
}

fn engine<'a, S: Simd<Part: Part, Sum: Element>>(
    problem: &Problem<'a>, compiled: &'static Compiled<S>, planes: Option<Planes>,
) -> Launch<'a> {
    let Problem { outputs, operands, threads, panels, .. } = *problem;
    match Engine::new(outputs, operands, &compiled.kernels, planes, threads, panels.is_some()) {
        // SAFETY: the promises of [`Launch::run`].
        Ok(engine) => Launch::new(move || unsafe { engine.run(threads, panels, compiled.task) }),
        Err(error) => Launch::new(move || Err(error)),
    }
}

#[cfg(target_arch = "x86_64")]
#[vectorized]
unsafe fn pixels_task<S: Simd<Part = f32, Cell = f32, Sum = f32>>(
    winograd: &PixelLanes<'_, S>, filters: *const f32, scratch: *mut f32, index: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { winograd.task(filters, scratch, index) }
}

#[cfg(target_arch = "x86_64")]
#[vectorized]
unsafe fn filters_task<S: Simd<Part = f32, Cell = f32, Sum = f32>>(
    winograd: &FilterLanes<'_, S>, filters: *mut f32, scratch: *mut f32, index: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { winograd.task(filters, scratch, index) }
}

#[cfg(target_arch = "x86_64")]
#[vectorized]
unsafe fn taps_task(
    taps: &DepthwiseWgradPlanar<'_, simd::Avx2Single>, scratch: *mut f32, channels: Range<usize>,
) {
    // SAFETY: the caller's promise.
    unsafe { taps.channels(scratch, channels) }
}

#[cfg(target_arch = "x86_64")]
#[vectorized]
unsafe fn pixels_filters<S: Simd<Part = f32, Cell = f32, Sum = f32>>(
    winograd: &PixelLanes<'_, S>, _: *const f32, to: *mut f32, number: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { winograd.filters(to, number) }
}
