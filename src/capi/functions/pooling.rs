//! Pooling, and its descriptors: create, set, get, output dims, destroy.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, Out, operands, results};
use super::beside::twinned;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    cudnnHandle_t, cudnnNanPropagation_t, cudnnPoolingDescriptor_t, cudnnPoolingMode_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use super::{beside_graph, context, tensor, transform};
use crate::desc::pooling::check_spatial;
use crate::desc::{Choice, PoolingDescriptor};
use crate::error::Error;
use crate::layout::Dims;
use crate::mode::Mode;
use crate::ops::pooling::{self, Forward};
use crate::original::{self, Legacy};

static POOLINGS: Table<PoolingDescriptor> = Table::new(Kind::Pooling);
twinned!(cudnnPoolingDescriptor_t, POOLINGS);

/// Creates a pooling descriptor: maximum, no dimensions.
///
/// Status: BAD_PARAM if `poolingDesc` is NULL.
///
/// # Safety
/// `poolingDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreatePoolingDescriptor(
    poolingDesc: *mut cudnnPoolingDescriptor_t,
) -> cudnnStatus_t {
    create!(poolingDesc, POOLINGS)
}

/// Destroys a pooling descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroyPoolingDescriptor(poolingDesc: cudnnPoolingDescriptor_t) -> cudnnStatus_t {
    destroy!(poolingDesc, POOLINGS)
}

/// Sets mode, window, padding and strides of a 2-D pooling.
///
/// Padding may be anything, also negative or wider than the window. A failing call changes nothing.
///
/// Status: BAD_PARAM for a descriptor that is not alive, an unknown mode or NaN rule, or a window extent or stride
/// below 1.
///
/// Source: observed on 9.27.0.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetPooling2dDescriptor(
    poolingDesc: cudnnPoolingDescriptor_t, mode: MaybeUninit<cudnnPoolingMode_t>,
    maxpoolingNanOpt: MaybeUninit<cudnnNanPropagation_t>, windowHeight: c_int, windowWidth: c_int,
    verticalPadding: c_int, horizontalPadding: c_int, verticalStride: c_int, horizontalStride: c_int,
) -> cudnnStatus_t {
    POOLINGS.replace(poolingDesc.addr(), "poolingDesc", || {
        PoolingDescriptor::new(
            arg::choice(mode, "mode")?,
            arg::choice(maxpoolingNanOpt, "maxpoolingNanOpt")?,
            Dims::new(&[windowHeight, windowWidth].map(i64::from)),
            Dims::new(&[verticalPadding, horizontalPadding].map(i64::from)),
            Dims::new(&[verticalStride, horizontalStride].map(i64::from)),
        )
        .map_err(|error| {
            error
                .by_name("windowDimA", &["windowHeight", "windowWidth"])
                .by_name("strideA", &["verticalStride", "horizontalStride"])
        })
    })
}

/// Sets mode, window, padding and strides of a pooling of 1 to 6 spatial dimensions.
///
/// Padding may be anything, also negative or wider than the window. A failing call changes nothing.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive; NOT_SUPPORTED for nbDims above 6; BAD_PARAM for
/// an unknown mode or NaN rule, a NULL array, nbDims below 1, or a window extent or stride below 1.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// Each array is NULL or valid for reads of `nbDims` ints.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetPoolingNdDescriptor(
    poolingDesc: cudnnPoolingDescriptor_t, mode: MaybeUninit<cudnnPoolingMode_t>,
    maxpoolingNanOpt: MaybeUninit<cudnnNanPropagation_t>, nbDims: c_int, windowDimA: *const c_int,
    paddingA: *const c_int, strideA: *const c_int,
) -> cudnnStatus_t {
    POOLINGS.replace(poolingDesc.addr(), "poolingDesc", || {
        check_spatial("nbDims", nbDims)?;
        let (mode, nan) = (arg::choice(mode, "mode")?, arg::choice(maxpoolingNanOpt, "maxpoolingNanOpt")?);
        // SAFETY: each array is NULL or holds `nbDims` ints.
        let (window, padding, strides) = unsafe {
            (
                arg::ints(windowDimA, nbDims, "windowDimA")?,
                arg::ints(paddingA, nbDims, "paddingA")?,
                arg::ints(strideA, nbDims, "strideA")?,
            )
        };
        if nbDims < 1 {
            return Err(Error::argument(
                "nbDims",
                nbDims.into(),
                "a pooling has at least 1 spatial dimension",
            ));
        }
        PoolingDescriptor::new(mode, nan, window, padding, strides)
    })
}

/// Reads mode, window, padding and strides of a pooling's first two spatial dimensions, zeros where there are fewer.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if any pointer is NULL (nothing is written then).
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetPooling2dDescriptor(
    poolingDesc: cudnnPoolingDescriptor_t, mode: *mut cudnnPoolingMode_t,
    maxpoolingNanOpt: *mut cudnnNanPropagation_t, windowHeight: *mut c_int, windowWidth: *mut c_int,
    verticalPadding: *mut c_int, horizontalPadding: *mut c_int, verticalStride: *mut c_int,
    horizontalStride: *mut c_int,
) -> cudnnStatus_t {
    let pooling = POOLINGS.get(poolingDesc.addr(), "poolingDesc")?;
    results! {
        code mode = pooling.mode().code(),
        code maxpoolingNanOpt = pooling.nan().code(),
        each [windowHeight, windowWidth] = pooling.window(),
        each [verticalPadding, horizontalPadding] = pooling.padding(),
        each [verticalStride, horizontalStride] = pooling.strides(),
    }
}

/// Reads mode, window, padding and strides of a pooling: exactly `nbDimsRequested` entries, zeros beyond its rank.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive; NOT_SUPPORTED for nbDimsRequested above 6;
/// BAD_PARAM if a pointer is NULL (arrays may be if nothing is requested).
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `mode`, `maxpoolingNanOpt` and `nbDims` are NULL or valid for one write, the arrays for `nbDimsRequested`.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetPoolingNdDescriptor(
    poolingDesc: cudnnPoolingDescriptor_t, nbDimsRequested: c_int, mode: *mut cudnnPoolingMode_t,
    maxpoolingNanOpt: *mut cudnnNanPropagation_t, nbDims: *mut c_int, windowDimA: *mut c_int,
    paddingA: *mut c_int, strideA: *mut c_int,
) -> cudnnStatus_t {
    let pooling = POOLINGS.get(poolingDesc.addr(), "poolingDesc")?;
    check_spatial("nbDimsRequested", nbDimsRequested)?;
    let arrays = [
        (windowDimA, "windowDimA", pooling.window()),
        (paddingA, "paddingA", pooling.padding()),
        (strideA, "strideA", pooling.strides()),
    ];
    if nbDimsRequested > 0 {
        arrays.iter().try_for_each(|&(array, argument, _)| arg::required(array, argument))?;
    }
    results! {
        code mode = pooling.mode().code(),
        code maxpoolingNanOpt = pooling.nan().code(),
        new nbDims = pooling.window().rank() as c_int,
    }?;
    for (array, _, values) in arrays {
        // SAFETY: not NULL if anything is written, and the caller vouches for nbDimsRequested entries.
        unsafe { arg::store_padded(array, &values, nbDimsRequested) };
    }
    Ok(())
}

/// Output dimensions of a 2-D pooling: N and C of the input, then `1 + (in + 2 * pad - window) / stride`.
///
/// Channels are counted one by one, also under NCHW_VECT_C. On an error the outputs hold what was found by then,
/// zeros elsewhere.
///
/// Status: BAD_PARAM if an output is NULL, for a descriptor that is not alive, a pooling or input that is not 2-D, a
/// window larger than the padded input, NCHW_VECT_C of a type of one channel and, in strict mode, of UINT8x4.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// Every output is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetPooling2dForwardOutputDim(
    poolingDesc: cudnnPoolingDescriptor_t, inputTensorDesc: cudnnTensorDescriptor_t, n: *mut c_int,
    c: *mut c_int, h: *mut c_int, w: *mut c_int,
) -> cudnnStatus_t {
    // SAFETY: all four places are NULL or valid for one write.
    let places = unsafe { [Out::new(n, "n")?, Out::new(c, "c")?, Out::new(h, "h")?, Out::new(w, "w")?] };
    places.iter().for_each(|place| place.set(0));
    let pooling = POOLINGS.get(poolingDesc.addr(), "poolingDesc")?;
    let input = tensor::get(inputTensorDesc, "inputTensorDesc")?;
    if input.rank() != 4 {
        return Err(Error::mismatch(format!("the input has {} dimensions, not 4", input.rank())));
    }
    for (place, dim) in places.iter().zip(pooling.output_dims(&input, Mode::current())?) {
        place.set(dim? as c_int);
    }
    Ok(())
}

/// Output dimensions of a pooling: N and C of the input, then `1 + (in + 2 * pad - window) / stride` each.
///
/// `nbDims` is the input's. On an error the output holds what was found by then.
///
/// Status: BAD_PARAM for a descriptor that is not alive, a NULL array, ranks that do not agree (the input's, `nbDims`,
/// and the pooling's plus 2), and as cudnnGetPooling2dForwardOutputDim.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `outputTensorDimA` is NULL or valid for `nbDims` writes.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetPoolingNdForwardOutputDim(
    poolingDesc: cudnnPoolingDescriptor_t, inputTensorDesc: cudnnTensorDescriptor_t, nbDims: c_int,
    outputTensorDimA: *mut c_int,
) -> cudnnStatus_t {
    let pooling = POOLINGS.get(poolingDesc.addr(), "poolingDesc")?;
    let input = tensor::get(inputTensorDesc, "inputTensorDesc")?;
    arg::required(outputTensorDimA, "outputTensorDimA")?;
    if usize::try_from(nbDims) != Ok(input.rank()) {
        let rule = format!("the input has {} dimensions", input.rank());
        return Err(Error::argument("nbDims", nbDims.into(), rule));
    }
    // SAFETY: not NULL, and the caller vouches for nbDims entries, which are as many as the input has dims.
    unsafe { arg::store_until_error(outputTensorDimA, pooling.output_dims(&input, Mode::current())?) }
}

/// `y = alpha * pool(x) + beta * y`, the maximum or the average over windows of the spatial dimensions.
///
/// Output `o` of a dimension looks at the cells from `o * stride - padding` to below that plus the window, as far as they
/// lie inside x. MAX and MAX_DETERMINISTIC are the largest cell: of NaNs and numbers what the descriptor says, NaN if
/// there are only NaNs. The averages divide the sum by the number of those cells, or, INCLUDE_PADDING, by that of the
/// window's positions inside x or its padding, of which there is as much behind as in front. Without a cell inside x,
/// the maximum is the lowest finite number of the type and the average 0. Sums are taken in float, in double for
/// DOUBLE and the wide integers, and rounded once, after alpha and beta.
///
/// Operands
/// - `x`: N x C x 1 to 6 spatial dimensions, any type, strides and layout; device memory on the CUDA core.
/// - `y`: N and C of x, any spatial extents (those of cudnnGetPoolingNdForwardOutputDim, or others); the type of x; its
///   own strides and layout. With beta = 0 it is never read.
/// - `alpha`, `beta`: host `double` if y is DOUBLE, else `float`.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; a NULL pointer, or data off its element's alignment.
/// - BAD_PARAM: ranks of x and y that differ, or are not that of the pooling and two more.
/// - NOT_SUPPORTED, in strict mode: other types than the floating ones, INT8, INT8x4 and INT8x32.
/// - BAD_PARAM: N, C or types that differ.
/// - NOT_SUPPORTED, in strict mode: other than 2 and 3 spatial dimensions (INTERNAL_ERROR for 3 of vectors).
/// - NOT_SUPPORTED: NCHW_VECT_C of a type of one channel. BAD_PARAM: y repeats an address through stride 0.
///
/// Aliasing: x and y may overlap on the CPU core, as if all of x were read first; the CUDA core refuses it with
/// NOT_SUPPORTED.
///
/// Source: statuses and integer rounding observed on 9.27.0; divisors and empty windows as Caffe has them.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; `x` is NULL or valid for reads of the whole span of `xDesc`, `y` for
/// reads and writes of that of `yDesc`; no other thread writes either meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnPoolingForward(
    handle: cudnnHandle_t, poolingDesc: cudnnPoolingDescriptor_t, alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t, x: *const c_void, beta: *const c_void, yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    let desc = || POOLINGS.get(poolingDesc.addr(), "poolingDesc");
    let make = |desc, tensors, factors| Legacy::Pooling { desc, tensors, factors };
    let (pair, scaling) = ([(xDesc, x.cast_mut()), (yDesc, y)], [alpha, beta]);
    // SAFETY: the caller vouches for the spans of the descriptors, and for the factors.
    let theirs = unsafe { beside_graph::run_pair(handle, "cudnnPoolingForward", desc, make, pair, scaling) };
    if let Some(theirs) = theirs {
        return theirs;
    }
    context::compute(handle, "cudnnPoolingForward", |call| {
        let desc = POOLINGS.get(poolingDesc.addr(), "poolingDesc")?;
        let (from, to) = (tensor::get(xDesc, "xDesc")?, tensor::get(yDesc, "yDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) }?;
        tensor::data(x, &from, "x")?;
        tensor::data(y, &to, "y")?;
        let plan = pooling::forward(&desc, &from, &to, scaling, Mode::current())?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![y, x]) }
    })
}

/// `dx = alpha * pool'(x, dy) + beta * dx`, the gradient of cudnnPoolingForward.
///
/// Each output of MAX and MAX_DETERMINISTIC, which are alike, gives its dy to the first of the largest cells of its
/// window in row-major order (zeros are equal whatever their sign; NaNs are the largest or the smallest, as the
/// descriptor says). Maxima are found in x; the data of y is not read. The averages give every cell of the window an
/// equal share, dy over the divisor of the forward call. A cell's sum is taken in float, in double for DOUBLE and the
/// wide integers, in the order of the outputs, the same bits every time, and rounded once, after alpha and beta.
///
/// Operands
/// - `dy`: N x C x 1 to 6 spatial dimensions, any type, strides and layout; device memory on the CUDA core.
/// - `y`: for the maxima, of dims, strides and type of dy; else ignored, NULL included.
/// - `x`: for the maxima, of dims, strides and type of dx; else ignored, NULL included.
/// - `dx`: N and C of dy, any spatial extents, its own type, strides and layout. With beta = 0 it is never read.
/// - `alpha`, `beta`: host `double` if dx is DOUBLE, else `float`.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; a NULL pointer, or data off its element's alignment.
/// - BAD_PARAM: a rank of dy that is not that of the pooling and two more; for the maxima, y unlike dy or x unlike dx.
/// - NOT_SUPPORTED, in strict mode: integers; other than 2 and 3 spatial dimensions.
/// - BAD_PARAM: rank, N or C of dx unlike those of dy (cuDNN does not compare them).
/// - NOT_SUPPORTED: NCHW_VECT_C of a type of one channel. BAD_PARAM: dx repeats an address through stride 0.
///
/// Aliasing: dx may overlap x, y and dy on the CPU core, as if all of them were read first; the CUDA core refuses it
/// with NOT_SUPPORTED.
///
/// Source: statuses observed on 9.27.0, which leaves open which of equal cells is chosen.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; data pointers that are not ignored are NULL or valid for reads of
/// the whole span of their descriptors, `dx` for writes as well; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnPoolingBackward(
    handle: cudnnHandle_t, poolingDesc: cudnnPoolingDescriptor_t, alpha: *const c_void,
    yDesc: cudnnTensorDescriptor_t, y: *const c_void, dyDesc: cudnnTensorDescriptor_t, dy: *const c_void,
    xDesc: cudnnTensorDescriptor_t, x: *const c_void, beta: *const c_void, dxDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void,
) -> cudnnStatus_t {
    let averages =
        || POOLINGS.get(poolingDesc.addr(), "poolingDesc").is_ok_and(|desc| !pooling::needs_forward(&desc));
    let legacy = || {
        let desc = POOLINGS.get(poolingDesc.addr(), "poolingDesc")?;
        let (out, to) = (tensor::get(dyDesc, "dyDesc")?, tensor::get(dxDesc, "dxDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) }?;
        let (from, forward) = if pooling::needs_forward(&desc) {
            (tensor::get(xDesc, "xDesc")?, tensor::get(yDesc, "yDesc")?)
        } else {
            (to, out)
        };
        let tensors = [from, forward, out, to];
        Ok(Legacy::PoolingGradient { desc, tensors, factors: beside_graph::factors(scaling) })
    };
    // Those of averages need neither x nor y; a graph has a place for both.
    let data = if original::is_on() && averages() { [dx.cast_const(), dy] } else { [x, y] };
    let data = [data[0].cast_mut(), data[1].cast_mut(), dy.cast_mut(), dx];
    // SAFETY: the caller vouches for the spans of the descriptors.
    let theirs = unsafe { beside_graph::run_alone(handle, "cudnnPoolingBackward", legacy, &data) };
    if let Some(theirs) = theirs {
        return theirs;
    }
    context::compute(handle, "cudnnPoolingBackward", |call| {
        let desc = POOLINGS.get(poolingDesc.addr(), "poolingDesc")?;
        let (out, to) = (tensor::get(dyDesc, "dyDesc")?, tensor::get(dxDesc, "dxDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, to.data_type()) }?;
        tensor::data(dy, &out, "dy")?;
        tensor::data(dx, &to, "dx")?;
        let mut tensors = None;
        if pooling::needs_forward(&desc) {
            let (from, forward) = (tensor::get(xDesc, "xDesc")?, tensor::get(yDesc, "yDesc")?);
            tensor::data(x, &from, "x")?;
            tensor::data(y, &forward, "y")?;
            tensors = Some((from, forward));
        }
        let forward = tensors.as_ref().map(|(x, y)| Forward { x, y });
        let plan = pooling::backward(&desc, forward, &out, &to, scaling, Mode::current())?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![dx, x, dy]) }
    })
}
