//! Agreement between tensors: broadcasting, the ranks and layouts that strict mode keeps to,
//! destinations, spans.

use super::ByteSpan;
use crate::desc::TensorDescriptor;
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::layout::{Dims, Layout};
use crate::mode::Mode;

/// A descriptor with its name in the call.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub name: &'static str,
    pub tensor: &'a TensorDescriptor,
}

/// Refuses different ranks, and dims of `small` that are neither those of `large` nor 1. Outside
/// strict mode it is enough that they agree with channels counted one by one: two elements of
/// INT8x4 go with eight channels under NCHW_VECT_C.
///
/// # Errors
/// Bad parameter.
pub(super) fn check_broadcast(small: Named<'_>, large: Named<'_>, mode: Mode) -> Result<()> {
    let (x, y) = (small.tensor.dims(), large.tensor.dims());
    check_rank(small, large)?;
    match (0..x.rank()).find(|&k| x[k] != y[k] && x[k] != 1) {
        Some(k) if mode.is_strict() || !agree_by_channel(small.tensor, large.tensor) => Err(Error::mismatch(
            format!("dimA[{k}] of {} is {}: neither 1 nor the {} of {}", small.name, x[k], y[k], large.name),
        )),
        _ => Ok(()),
    }
}

/// Whether each dim of `small` is 1 or that of `large`, with channels counted one by one, also
/// those that share an element.
fn agree_by_channel(small: &TensorDescriptor, large: &TensorDescriptor) -> bool {
    let (Ok(x), Ok(y)) = (small.layout(), large.layout()) else { return false };
    (0..x.dims.rank()).all(|k| x.dims[k] == y.dims[k] || small.dims()[k] == 1)
}

/// Refuses different ranks.
///
/// # Errors
/// Bad parameter.
pub(super) fn check_rank(x: Named<'_>, y: Named<'_>) -> Result<()> {
    if x.tensor.rank() == y.tensor.rank() {
        return Ok(());
    }
    Err(Error::mismatch(format!(
        "{} has {} dimensions, {} has {}",
        x.name,
        x.tensor.rank(),
        y.name,
        y.tensor.rank()
    )))
}

/// Where the elements of `small` lie when it is read with the dims of `large`, of which it has
/// passed [`check_broadcast`]. One element of several channels serves every element of as many,
/// channel by channel.
///
/// # Errors
/// Not supported if elements of both hold different numbers of channels, so that equal dims, or one
/// element and many, mean different data; and for a vectorisation that the type does not have.
pub(super) fn broadcast(small: Named<'_>, large: Named<'_>, dims: &[i64]) -> Result<Layout> {
    let layout = small.tensor.layout()?;
    // What most calls ask for, without the copies of a search for more.
    if layout.dims.rank() == dims.len() && layout.dims.iter().eq(dims) {
        return Ok(*layout);
    }
    let lanes = |tensor: Named<'_>| tensor.tensor.data_type().lanes();
    let serves_all =
        |k: usize| small.tensor.dims()[k] == 1 && (layout.dims[k] == 1 || lanes(small) == lanes(large));
    let alike = |k: usize| layout.dims[k] == dims[k] || serves_all(k);
    let wide = (0..layout.dims.rank()).all(alike).then(|| layout.broadcast(dims)).flatten();
    wide.ok_or_else(|| different_channels(small, large))
}

#[cold]
fn different_channels(small: Named<'_>, large: Named<'_>) -> Error {
    Error::unsupported(format!(
        "elements of {} ({:?}) and {} ({:?}) hold different numbers of channels",
        small.name,
        small.tensor.data_type(),
        large.name,
        large.tensor.data_type()
    ))
}

/// Where the elements of `one` lie, whose dims are those of `other`: with channels counted one by
/// one, `dims`.
///
/// # Errors
/// As for [`broadcast`], of which this is the case without broadcasting.
pub(super) fn of_equal_dims<'a>(one: Named<'a>, other: Named<'_>, dims: &[i64]) -> Result<&'a Layout> {
    let layout = one.tensor.layout()?;
    if layout.dims.iter().eq(dims) {
        return Ok(layout);
    }
    Err(different_channels(one, other))
}

/// Where the elements of a destination lie.
///
/// # Errors
/// Bad parameter if it was never set or repeats an address through stride 0. Not supported for a
/// vectorisation that the type does not have.
pub(super) fn destination<'a>(dst: Named<'a>) -> Result<&'a Layout> {
    let layout = dst.tensor.layout()?;
    check_destination(layout, dst.name)?;
    Ok(layout)
}

/// Refuses the layout of a destination called `name` that was never set or repeats an address
/// through stride 0.
///
/// # Errors
/// Bad parameter.
#[inline]
pub(super) fn check_destination(layout: &Layout, name: &str) -> Result<()> {
    if layout.dims.rank() == 0 {
        return Err(never_set(name));
    }
    match (0..layout.dims.rank()).find(|&k| layout.dims[k] > layout.block(k) && layout.strides[k] == 0) {
        Some(k) => Err(repeated(name, k)),
        None => Ok(()),
    }
}

#[cold]
fn never_set(name: &str) -> Error {
    Error::mismatch(format!("{name} was never set"))
}

#[cold]
fn repeated(name: &str, k: usize) -> Error {
    let rule = format!("{name} is a destination, which may not repeat an address");
    Error::element("strideA", k, 0, rule)
}

/// Whether elements of a destination share addresses, so that the order of writes matters. `layout`
/// is that of `dst`, whose span is known.
pub(super) fn repeats(dst: &TensorDescriptor, layout: &Layout) -> bool {
    !dst.is_packed() && layout.overlaps()
}

/// Refuses more elements than 64 bits count bytes of: with strides of 0, few bytes of memory hold
/// any number.
///
/// # Errors
/// Not supported.
#[inline]
pub(super) fn check_count(dims: &Dims) -> Result<()> {
    match dims.product() {
        Some(..=MAX_ELEMENTS) => Ok(()),
        _ => Err(too_many(dims)),
    }
}

// Apart, as are those below: what writes texts would keep the checks, which are part of every call,
// from being inlined.
#[cold]
fn too_many(dims: &Dims) -> Error {
    Error::unsupported(format!("dims {dims}: more than 2^60 elements"))
}

/// As many as 64 bits count the bytes of, of any type.
const MAX_ELEMENTS: i64 = 1 << 60;

/// The bytes that a layout reaches around its data pointer.
///
/// # Errors
/// Not supported beyond 64 bits.
pub(super) fn byte_span(layout: &Layout, data_type: DataType) -> Result<ByteSpan> {
    check_count(&layout.dims)?;
    layout.padded_span().and_then(|span| in_bytes(span, data_type)).ok_or_else(too_far)
}

/// The same of a tensor as it is described, which knows how far it reaches.
///
/// # Errors
/// As for [`byte_span`]; not supported for a vectorisation that the type does not have.
pub(super) fn span(tensor: &TensorDescriptor) -> Result<ByteSpan> {
    check_count(&tensor.layout()?.dims)?;
    in_bytes(tensor.span(), tensor.data_type()).ok_or_else(too_far)
}

#[inline]
fn in_bytes((low, high): (i64, i64), data_type: DataType) -> Option<ByteSpan> {
    let size = data_type.scalar().size() as i64;
    Some((low.checked_mul(size)?, high.checked_add(1)?.checked_mul(size)?))
}

#[cold]
fn too_far() -> Error {
    Error::unsupported("a tensor's offsets leave 64 bits")
}

/// Whether `src` finds each element where `dst` has it, so that both may be the same memory.
pub(super) fn same_place(src: &Layout, dst: &Layout) -> bool {
    src.split == dst.split
        && (0..dst.dims.rank()).all(|k| dst.dims[k] == 1 || src.strides[k] == dst.strides[k])
}

/// The ranks that the original adds: below are bad parameters, above not supported.
///
/// # Errors
/// As named, in strict mode only; the caller asks for the mode.
pub(super) fn strict_low_rank(tensor: Named<'_>) -> Result<()> {
    if tensor.tensor.rank() < 4 {
        let text =
            format!("{} has {} dimensions, strict mode computes 4 and 5", tensor.name, tensor.tensor.rank());
        return Err(Error::mismatch(text));
    }
    Ok(())
}

/// See [`strict_low_rank`]; and no vectors.
///
/// # Errors
/// Not supported.
pub(super) fn strict_form(tensor: Named<'_>) -> Result<()> {
    let Named { name, tensor } = tensor;
    if !(4..=5).contains(&tensor.rank()) {
        let text = format!("{name} has {} dimensions, strict mode computes 4 and 5", tensor.rank());
        return Err(Error::unsupported(text));
    }
    if tensor.vector().is_some() {
        return Err(Error::unsupported(format!("{name} is NCHW_VECT_C, which strict mode does not compute")));
    }
    Ok(())
}

/// Refuses tensors of fewer dimensions than the original takes here, and what was never set.
///
/// # Errors
/// Bad parameter.
pub(super) fn check_layer_rank(tensors: &[Named<'_>], mode: Mode) -> Result<()> {
    for tensor in tensors {
        check_rank(*tensor, tensors[0])?;
    }
    let least = if mode.is_strict() { 3 } else { 1 };
    if tensors[0].tensor.rank() < least {
        return Err(match tensors[0].tensor.rank() {
            0 => never_set(tensors[0].name),
            rank => Error::mismatch(format!(
                "{} has {rank} dimensions, strict mode takes 3 to 8",
                tensors[0].name
            )),
        });
    }
    Ok(())
}

/// Refuses dims or types of `x` that are not those of `y`.
///
/// # Errors
/// Bad parameter.
pub(super) fn check_alike(x: Named<'_>, y: Named<'_>) -> Result<()> {
    check_same_dims(x, y)?;
    if x.tensor.data_type() != y.tensor.data_type() {
        let (a, b) = (x.tensor.data_type(), y.tensor.data_type());
        return Err(Error::mismatch(format!(
            "{} is {a:?} and {} {b:?}: the types must be equal",
            x.name, y.name
        )));
    }
    Ok(())
}

/// Refuses dims of `x` that are not those of `y`.
///
/// # Errors
/// Bad parameter.
pub(super) fn check_same_dims(x: Named<'_>, y: Named<'_>) -> Result<()> {
    if x.tensor.dims() == y.tensor.dims() {
        return Ok(());
    }
    Err(Error::mismatch(format!(
        "dims {} of {} are not the {} of {}",
        x.tensor.dims(),
        x.name,
        y.tensor.dims(),
        y.name
    )))
}

/// Refuses strides of 0 and below, which strict mode does not compute with.
///
/// # Errors
/// Not supported.
pub(super) fn strict_strides(tensors: &[Named<'_>]) -> Result<()> {
    for Named { name, tensor } in tensors {
        if let Some(stride) = tensor.strides().iter().find(|stride| **stride <= 0) {
            return Err(Error::unsupported(format!("strict mode: {name} has a stride of {stride}")));
        }
    }
    Ok(())
}

/// The layouts of layers that strict mode computes: any of 4 and 5 dimensions; of other ranks only
/// those that fold to fewer dimensions, which have equal strides, and channels and what follows
/// them without a gap.
///
/// # Errors
/// Not supported.
pub(super) fn strict_folding(tensors: &[Named<'_>]) -> Result<()> {
    if tensors.iter().all(|tensor| (4..=5).contains(&tensor.tensor.rank())) {
        return Ok(());
    }
    let first = tensors[0];
    for Named { name, tensor } in tensors {
        let mut next = 1;
        let gap = (1..tensor.rank()).rev().any(|k| {
            let (dim, stride) = (tensor.dims()[k], tensor.strides()[k]);
            let here = next;
            next = stride * dim;
            if dim == 1 {
                next = here;
            }
            dim != 1 && stride != here
        });
        if gap || tensor.strides() != first.tensor.strides() {
            let rank = tensor.rank();
            return Err(Error::unsupported(format!(
                "strict mode: {name} of {rank} dimensions has gaps or strides of its own"
            )));
        }
    }
    Ok(())
}

/// Packed strides, the last dimension fastest. Pre: the product fits.
pub(super) fn row_major(dims: &Dims) -> Dims {
    let mut strides = *dims;
    let mut next = 1;
    for (stride, &dim) in strides.iter_mut().zip(dims.iter()).rev() {
        *stride = next;
        next *= dim;
    }
    strides
}
