//! Pooling: from a descriptor and tensors to windows over the spatial dimensions.

use super::agree::{self, Named};
use super::plan::{Operand, Role};
use super::window::{Divisor, Geometry, Parts, WindowFunction, WindowPlan};
use super::{ReducePlan, Scaling, strict};
use crate::desc::{PoolingDescriptor, PoolingMode, ReduceDescriptor, ReduceOp, TensorDescriptor};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::layout::MAX_RANK;
use crate::mode::Mode;

/// Refuses a tensor whose rank is not that of the pooling and two more.
fn check_rank(pooling: &PoolingDescriptor, tensor: Named<'_>) -> Result<()> {
    let (rank, spatial) = (tensor.tensor.rank(), pooling.window().rank());
    if spatial == 0 || rank != spatial + 2 {
        let name = tensor.name;
        return Err(Error::mismatch(format!(
            "{name} has {rank} dimensions under a pooling of {spatial} spatial ones"
        )));
    }
    Ok(())
}

/// Refuses the numbers of spatial dimensions that the original does not pool.
fn check_strict_rank(pooling: &PoolingDescriptor) -> Result<()> {
    match pooling.window().rank() {
        2 | 3 => Ok(()),
        rank => Err(Error::unsupported(format!("strict mode pools 2 and 3 spatial dimensions, not {rank}"))),
    }
}

/// Refuses tensors that differ in N or in C as it is stored.
fn check_batch(x: Named<'_>, y: Named<'_>) -> Result<()> {
    let (a, b) = (x.tensor.stored_dims(), y.tensor.stored_dims());
    match (0..2).find(|&k| a[k] != b[k]) {
        Some(k) => Err(Error::mismatch(format!(
            "dimA[{k}] of {} is {}, that of {} is {}",
            x.name, a[k], y.name, b[k]
        ))),
        None => Ok(()),
    }
}

fn geometry(pooling: &PoolingDescriptor) -> [Option<Geometry>; MAX_RANK] {
    let (window, padding, strides) = (pooling.window(), pooling.padding(), pooling.strides());
    std::array::from_fn(|k| {
        let k = k.checked_sub(2).filter(|&k| k < window.rank())?;
        Some(Geometry { window: window[k], stride: strides[k], pad: padding[k] })
    })
}

fn operand(tensor: Named<'_>, role: Role) -> Result<Operand> {
    let Named { name, tensor } = tensor;
    let span = agree::byte_span(tensor.layout()?, tensor.data_type())?;
    Ok(Operand { name, role, scalar: tensor.data_type().scalar(), span })
}

/// Plans `cudnnPoolingForward`.
///
/// # Errors
/// In this order. Bad parameter: ranks that differ or are not the pooling's. Not supported, in
/// strict mode: other types than the floating ones, INT8, INT8x4 and INT8x32. Bad parameter: N, C
/// or types that differ. In strict mode: not supported for other than 2 and 3 spatial dimensions,
/// internal for 3 of vectors. Not supported: NCHW_VECT_C of a type of one channel. Bad parameter: y
/// repeats an address through stride 0.
pub fn forward(
    pooling: &PoolingDescriptor, x: &TensorDescriptor, y: &TensorDescriptor, scaling: Scaling, mode: Mode,
) -> Result<WindowPlan> {
    let (src, dst) = (Named { name: "x", tensor: x }, Named { name: "y", tensor: y });
    agree::check_rank(src, dst)?;
    check_rank(pooling, src)?;
    strict::POOLING.check(&[src, dst], mode)?;
    check_batch(src, dst)?;
    if x.data_type() != y.data_type() {
        let text = format!("types {:?} of x and {:?} of y differ", x.data_type(), y.data_type());
        return Err(Error::mismatch(text));
    }
    if mode.is_strict() {
        check_strict_rank(pooling)?;
        if pooling.window().rank() == 3 && x.data_type().lanes() > 1 {
            return Err(Error::Internal("so cuDNN answers 3 spatial dimensions of vectors".into()));
        }
    }
    let source = x.layout()?;
    let layout = agree::destination(dst)?;
    if source.dims[1] != layout.dims[1] {
        return Err(Error::mismatch("x and y hold different numbers of channels"));
    }
    let nan = pooling.nan().into();
    let function = match pooling.mode() {
        PoolingMode::Max | PoolingMode::MaxDeterministic => WindowFunction::Max(nan),
        PoolingMode::AverageWithPadding => WindowFunction::Average(Divisor::Padded),
        PoolingMode::AverageWithoutPadding => WindowFunction::Average(Divisor::Inside),
    };
    let scalar = x.data_type().scalar();
    let still = still(layout);
    Ok(WindowPlan::new(Parts {
        function,
        layouts: [layout, source, &still],
        geometry: geometry(pooling),
        scalars: [scalar; 3],
        scaling,
        operands: [
            Some(operand(dst, Role::blended(scaling.beta))?),
            None,
            Some(operand(src, Role::Read)?),
            None,
            None,
        ],
        ordered: agree::repeats(y, layout),
        whole: whole(pooling, x, y, scaling),
    }))
}

/// The reduction of all spatial dimensions, where each output looks at every cell and at nothing
/// else.
fn whole(
    pooling: &PoolingDescriptor, x: &TensorDescriptor, y: &TensorDescriptor, scaling: Scaling,
) -> Option<ReducePlan> {
    let (dims, window, padding) = (x.dims(), pooling.window(), pooling.padding());
    let covers = |k: usize| y.dims()[k + 2] == 1 && window[k] == dims[k + 2] && padding[k] == 0;
    if !(0..window.rank()).all(covers) || (2..dims.rank()).all(|k| dims[k] == 1) {
        return None;
    }
    let compute_type = match super::window::compute_type(&[x.data_type().scalar()]) {
        super::Compute::Single => DataType::Float,
        super::Compute::Double => DataType::Double,
    };
    let op = match pooling.mode() {
        PoolingMode::Max | PoolingMode::MaxDeterministic => ReduceOp::Max,
        _ => ReduceOp::Avg,
    };
    let desc = ReduceDescriptor { op, compute_type, nan: pooling.nan(), ..ReduceDescriptor::default() };
    ReducePlan::new(&desc, x, y, scaling, Mode::Extended).ok()
}

/// A layout of these dims in which everything lies at one place.
fn still(of: &crate::layout::Layout) -> crate::layout::Layout {
    let mut still = *of;
    still.strides.iter_mut().for_each(|stride| *stride = 0);
    still.split = None;
    still
}

/// What the gradient of a maximum needs besides.
#[derive(Clone, Copy, Debug)]
pub struct Forward<'a> {
    /// The input.
    pub x: &'a TensorDescriptor,
    /// The output; its data is not read, as the maxima are found in x.
    pub y: &'a TensorDescriptor,
}

/// Whether the gradient of this pooling needs what the forward call read and wrote.
pub fn needs_forward(pooling: &PoolingDescriptor) -> bool {
    matches!(pooling.mode(), PoolingMode::Max | PoolingMode::MaxDeterministic)
}

/// Plans `cudnnPoolingBackward`; `forward` is ignored unless it [is needed](needs_forward), else it
/// is there.
///
/// # Errors
/// In this order. Bad parameter: the rank of dy is below 3 or not the pooling's; y and dy, or x and
/// dx, of different dims, strides or types, where they are needed. Not supported, in strict mode:
/// integer and 8-bit types, other than 2 and 3 spatial dimensions. Bad parameter: a rank, N or C of
/// dx that differs from dy's. Not supported: NCHW_VECT_C of a type of one channel. Bad parameter:
/// dx repeats an address through stride 0.
pub fn backward(
    pooling: &PoolingDescriptor, forward: Option<Forward<'_>>, dy: &TensorDescriptor, dx: &TensorDescriptor,
    scaling: Scaling, mode: Mode,
) -> Result<WindowPlan> {
    let (out, dst) = (Named { name: "dy", tensor: dy }, Named { name: "dx", tensor: dx });
    check_rank(pooling, out)?;
    let forward = forward.filter(|_| needs_forward(pooling));
    if let Some(Forward { x, y }) = forward {
        same(Named { name: "y", tensor: y }, out)?;
        same(Named { name: "x", tensor: x }, dst)?;
    }
    strict::POOLING_GRADIENT.check(&[out, dst], mode)?;
    if mode.is_strict() {
        check_strict_rank(pooling)?;
    }
    agree::check_rank(dst, out)?;
    check_batch(dst, out)?;
    let (gradient, layout) = (dy.layout()?, agree::destination(dst)?);
    if gradient.dims[1] != layout.dims[1] {
        return Err(Error::mismatch("dx and dy hold different numbers of channels"));
    }
    let nan = pooling.nan().into();
    let function = match pooling.mode() {
        PoolingMode::Max | PoolingMode::MaxDeterministic => WindowFunction::MaxGradient(nan),
        PoolingMode::AverageWithPadding => WindowFunction::AverageGradient(Divisor::Padded),
        PoolingMode::AverageWithoutPadding => WindowFunction::AverageGradient(Divisor::Inside),
    };
    let [from, to] = [dy, dx].map(|tensor| tensor.data_type().scalar());
    let x = match forward {
        Some(_) => Operand { name: "x", ..operand(dst, Role::Read)? },
        None => Operand::untouched("x", to),
    };
    Ok(WindowPlan::new(Parts {
        function,
        layouts: [layout, layout, gradient],
        geometry: geometry(pooling),
        scalars: [to, to, from],
        scaling,
        operands: [
            Some(operand(dst, Role::blended(scaling.beta))?),
            None,
            Some(x),
            Some(operand(out, Role::Read)?),
            None,
        ],
        ordered: agree::repeats(dx, layout),
        whole: None,
    }))
}

/// Refuses tensors that differ in dims, strides or type.
fn same(a: Named<'_>, b: Named<'_>) -> Result<()> {
    let form = |tensor: &TensorDescriptor| (tensor.dims(), tensor.strides(), tensor.data_type());
    if form(a.tensor) == form(b.tensor) {
        return Ok(());
    }
    Err(Error::mismatch(format!("{} and {} differ in dims, strides or type", a.name, b.name)))
}
