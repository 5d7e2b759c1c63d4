//! Response normalisation: across channels (LRN) and over space (divisive normalisation), and the
//! gradients.

use super::agree::{self, Named};
use super::plan::{Operand, Role};
use super::window::{Geometry, Parts, Power, WindowFunction, WindowPlan};
use super::{Scaling, strict};
use crate::desc::{LrnDescriptor, TensorDescriptor};
use crate::error::{Error, Result};
use crate::layout::MAX_RANK;
use crate::mode::Mode;

/// N of the largest tensor that the original normalises across channels.
const STRICT_BATCH: i64 = 65535;

/// Refuses negative strides in strict mode.
fn check_strict_strides(tensors: &[Named<'_>], mode: Mode) -> Result<()> {
    match tensors.iter().find(|&&tensor| has_negative_stride(tensor)) {
        Some(tensor) if mode.is_strict() => {
            Err(Error::unsupported(format!("strict mode: {} has a negative stride", tensor.name)))
        }
        _ => Ok(()),
    }
}

fn has_negative_stride(tensor: Named<'_>) -> bool {
    tensor.tensor.strides().iter().any(|&stride| stride < 0)
}

/// Whether the dimensions from the third on lie one inside the other without gaps, those of one
/// element aside.
fn is_contiguous(tensor: &TensorDescriptor) -> bool {
    let (dims, strides) = (tensor.stored_dims(), tensor.strides());
    let mut next = 1;
    (2..dims.rank()).rev().filter(|&k| dims[k] > 1).all(|k| {
        let fits = strides[k] == next;
        next *= dims[k];
        fits
    })
}

fn same_dims(a: &TensorDescriptor, b: &TensorDescriptor) -> bool {
    a.stored_dims() == b.stored_dims() && a.data_type().lanes() == b.data_type().lanes()
}

fn operand(tensor: Named<'_>, role: Role) -> Result<Operand> {
    let Named { name, tensor } = tensor;
    let span = agree::byte_span(tensor.layout()?, tensor.data_type())?;
    Ok(Operand { name, role, scalar: tensor.data_type().scalar(), span })
}

/// A window of n neighbours along these dimensions; of an even number one more lies behind than in
/// front.
fn geometry(n: u32, windowed: impl Fn(usize) -> bool) -> [Option<Geometry>; MAX_RANK] {
    let n = i64::from(n);
    std::array::from_fn(|k| windowed(k).then_some(Geometry { window: n, stride: 1, pad: (n - 1) / 2 }))
}

/// The formula's numbers for windows along `dimensions` dimensions.
fn power(desc: &LrnDescriptor, dimensions: u32) -> Power {
    let cells = f64::from(desc.n()).powi(dimensions as i32);
    Power { k: desc.k(), scale: desc.alpha() / cells, beta: desc.beta() }
}

/// Plans `cudnnLRNCrossChannelForward`: `y = x * (k + alpha / n * sum x^2)^-beta` over n channels.
///
/// # Errors
/// In this order. Bad parameter: x of less than 3 dimensions, or ranks that differ. Not supported,
/// in strict mode: other types than FLOAT, DOUBLE, HALF and INT8, negative strides. Bad parameter:
/// dims or types that differ; in strict mode spatial dimensions of more than 4-D tensors that are
/// not contiguous. Not supported, in strict mode: more than 65535 images. Not supported:
/// NCHW_VECT_C of a type of one channel. Bad parameter: y repeats an address through stride 0.
pub fn cross_channel(
    desc: &LrnDescriptor, x: &TensorDescriptor, y: &TensorDescriptor, scaling: Scaling, mode: Mode,
) -> Result<WindowPlan> {
    let (src, dst) = (Named { name: "x", tensor: x }, Named { name: "y", tensor: y });
    if x.rank() < 3 {
        return Err(Error::mismatch(format!("x has {} dimensions, at least 3 are normalised", x.rank())));
    }
    agree::check_rank(src, dst)?;
    strict::LRN.check(&[src, dst], mode)?;
    check_strict_strides(&[src, dst], mode)?;
    if !same_dims(x, y) || x.data_type() != y.data_type() {
        return Err(Error::mismatch("x and y differ in dims or type"));
    }
    if mode.is_strict() {
        if x.rank() >= 5 && !(is_contiguous(x) && is_contiguous(y)) {
            return Err(Error::mismatch("strict mode normalises contiguous spatial dimensions"));
        }
        if x.dims()[0] > STRICT_BATCH {
            return Err(Error::unsupported(format!("strict mode normalises up to {STRICT_BATCH} images")));
        }
    }
    forward(dst, src, None, power(desc, 1), geometry(desc.n(), |k| k == 1), scaling)
}

/// An operand of this name, if the C function has it: touched if it is given.
fn optional(name: &'static str, given: Option<bool>, like: Operand) -> Option<Operand> {
    Some(if given? { Operand { name, ..like } } else { Operand::untouched(name, like.scalar) })
}

fn forward(
    dst: Named<'_>, src: Named<'_>, means: Option<bool>, power: Power,
    geometry: [Option<Geometry>; MAX_RANK], scaling: Scaling,
) -> Result<WindowPlan> {
    let (source, layout) = (src.tensor.layout()?, agree::destination(dst)?);
    let scalars = [dst, src, src].map(|tensor| tensor.tensor.data_type().scalar());
    let read = operand(src, Role::Read)?;
    Ok(WindowPlan::new(Parts {
        function: WindowFunction::Normalise { power, centred: means == Some(true) },
        layouts: [layout, source, source],
        geometry,
        scalars,
        scaling,
        operands: [
            Some(operand(dst, Role::blended(scaling.beta))?),
            None,
            Some(read),
            None,
            optional("means", means, read),
        ],
        ordered: agree::repeats(dst.tensor, layout),
        whole: None,
    }))
}

/// Plans `cudnnLRNCrossChannelBackward`; what the forward call wrote is not needed.
///
/// # Errors
/// In this order. Bad parameter: x of less than 3 dimensions. Not supported, in strict mode: other
/// types than FLOAT, DOUBLE and HALF, negative strides. Not supported: dims that differ; in strict
/// mode types that differ, and spatial dimensions of more than 4-D tensors that are not contiguous.
/// Not supported: NCHW_VECT_C of a type of one channel. Bad parameter: dx repeats an address
/// through stride 0.
pub fn cross_channel_gradient(
    desc: &LrnDescriptor, dy: &TensorDescriptor, x: &TensorDescriptor, dx: &TensorDescriptor,
    scaling: Scaling, mode: Mode,
) -> Result<WindowPlan> {
    let all =
        [Named { name: "dx", tensor: dx }, Named { name: "x", tensor: x }, Named { name: "dy", tensor: dy }];
    if x.rank() < 3 {
        return Err(Error::mismatch(format!("x has {} dimensions, at least 3 are normalised", x.rank())));
    }
    strict::LRN_GRADIENT.check(&all, mode)?;
    check_strict_strides(&all, mode)?;
    if !same_dims(x, dy) || !same_dims(x, dx) {
        return Err(Error::unsupported("dy, x and dx differ in dims"));
    }
    if mode.is_strict() {
        let types = [dy, x, dx].map(|tensor| tensor.data_type());
        if types != [types[0]; 3] {
            return Err(Error::unsupported("strict mode: dy, x and dx differ in type"));
        }
        if x.rank() >= 5 && ![dy, x, dx].into_iter().all(is_contiguous) {
            return Err(Error::unsupported("strict mode normalises contiguous spatial dimensions"));
        }
    }
    let channels = geometry(desc.n(), |k| k == 1);
    gradient(all, None, None, power(desc, 1), channels, scaling)
}

fn gradient(
    [dst, src, out]: [Named<'_>; 3], means: Option<bool>, mean_gradient: Option<bool>, power: Power,
    geometry: [Option<Geometry>; MAX_RANK], scaling: Scaling,
) -> Result<WindowPlan> {
    let layouts = [agree::destination(dst)?, src.tensor.layout()?, out.tensor.layout()?];
    let written = operand(dst, Role::blended(scaling.beta))?;
    let read = operand(src, Role::Read)?;
    Ok(WindowPlan::new(Parts {
        function: WindowFunction::NormaliseGradient {
            power,
            centred: means == Some(true),
            means: mean_gradient == Some(true),
        },
        layouts,
        geometry,
        scalars: [dst, src, out].map(|tensor| tensor.tensor.data_type().scalar()),
        scaling,
        operands: [
            Some(written),
            optional("dMeans", mean_gradient, written),
            Some(read),
            Some(operand(out, Role::Read)?),
            optional("means", means, read),
        ],
        ordered: agree::repeats(dst.tensor, layouts[0]),
        whole: None,
    }))
}

/// Refuses what divisive normalisation takes of neither direction: ranks, dims, types and strides
/// of the descriptor of what is read and of the one of what is written.
fn check_divisive(src: Named<'_>, dst: Named<'_>, mode: Mode) -> Result<()> {
    // Kernels of windows of windows go along three axes at most.
    let ranks = if mode.is_strict() { 4..=5 } else { 3..=5 };
    if let Some(tensor) = [src, dst].into_iter().find(|tensor| !ranks.contains(&tensor.tensor.rank())) {
        let (name, rank, least, most) = (tensor.name, tensor.tensor.rank(), ranks.start(), ranks.end());
        return Err(Error::mismatch(format!(
            "{name} has {rank} dimensions, {least} to {most} are normalised"
        )));
    }
    if !same_dims(src.tensor, dst.tensor) || src.tensor.data_type() != dst.tensor.data_type() {
        return Err(Error::mismatch(format!("{} and {} differ in dims or type", src.name, dst.name)));
    }
    if let Some(tensor) = [src, dst].into_iter().find(|&tensor| has_negative_stride(tensor)) {
        return Err(Error::mismatch(format!("{} has a negative stride", tensor.name)));
    }
    strict::LRN_GRADIENT.check(&[src], mode)?;
    if mode.is_strict() && src.tensor.strides() != dst.tensor.strides() {
        return Err(Error::unsupported(format!(
            "strict mode: {} and {} differ in strides",
            src.name, dst.name
        )));
    }
    Ok(())
}

/// Plans `cudnnDivisiveNormalizationForward`: `y = x * (k + alpha / n^d * sum (x' - m)^2)^-beta`
/// over a window of n neighbours along each of the d spatial dimensions, m being the mean at the
/// output, if there are means.
///
/// # Errors
/// In this order. Bad parameter: other than 3 to 5 dimensions, in strict mode than 4 and 5; dims or
/// types that differ, negative strides. Not supported, in strict mode: other types than FLOAT,
/// DOUBLE and HALF, strides that differ. Not supported: NCHW_VECT_C of a type of one channel. Bad
/// parameter: y repeats an address through stride 0.
pub fn divisive(
    desc: &LrnDescriptor, x: &TensorDescriptor, y: &TensorDescriptor, has_means: bool, scaling: Scaling,
    mode: Mode,
) -> Result<WindowPlan> {
    let (src, dst) = (Named { name: "x", tensor: x }, Named { name: "y", tensor: y });
    check_divisive(src, dst, mode)?;
    let (rank, spatial) = (x.rank(), x.rank() as u32 - 2);
    let space = geometry(desc.n(), |k| (2..rank).contains(&k));
    forward(dst, src, Some(has_means), power(desc, spatial), space, scaling)
}

/// Plans `cudnnDivisiveNormalizationBackward`: the gradient for x, and for the means if it is
/// wanted.
///
/// # Errors
/// As for [`divisive`], with dx in the place of y.
pub fn divisive_gradient(
    desc: &LrnDescriptor, x: &TensorDescriptor, dx: &TensorDescriptor, has_means: bool, wants_means: bool,
    scaling: Scaling, mode: Mode,
) -> Result<WindowPlan> {
    let (src, dst) = (Named { name: "x", tensor: x }, Named { name: "dx", tensor: dx });
    check_divisive(src, dst, mode)?;
    let (rank, spatial) = (x.rank(), x.rank() as u32 - 2);
    let space = geometry(desc.n(), |k| (2..rank).contains(&k));
    let all = [dst, src, Named { name: "dy", tensor: x }];
    gradient(all, Some(has_means), Some(wants_means), power(desc, spatial), space, scaling)
}
