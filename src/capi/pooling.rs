//! Pooling descriptors: create, set, get, output dims, destroy.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use super::arg::{self, Out};
use super::guard::entry;
use super::slab::{Kind, Table};
use super::types::{
    cudnnNanPropagation_t, cudnnPoolingDescriptor_t, cudnnPoolingMode_t, cudnnStatus_t,
    cudnnTensorDescriptor_t, raw,
};
use super::{lifecycle, tensor};
use crate::desc::pooling::check_spatial;
use crate::desc::{Choice, PoolingDescriptor};
use crate::error::Error;
use crate::layout::Dims;
use crate::mode::Mode;

static POOLINGS: Table<PoolingDescriptor> = Table::new(Kind::Pooling);

/// Creates a pooling descriptor: maximum, no dimensions.
///
/// Status: BAD_PARAM if `poolingDesc` is NULL.
///
/// # Safety
/// `poolingDesc` is NULL or valid for one write.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreatePoolingDescriptor(
    poolingDesc: *mut cudnnPoolingDescriptor_t,
) -> cudnnStatus_t {
    // SAFETY: as the caller promises.
    unsafe { lifecycle::create("cudnnCreatePoolingDescriptor", &POOLINGS, poolingDesc, "poolingDesc") }
}

/// Destroys a pooling descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroyPoolingDescriptor(poolingDesc: cudnnPoolingDescriptor_t) -> cudnnStatus_t {
    lifecycle::destroy("cudnnDestroyPoolingDescriptor", &POOLINGS, poolingDesc, "poolingDesc")
}

/// Sets mode, window, padding and strides of a 2-D pooling.
///
/// Padding may be anything, also negative or wider than the window. A failing call changes nothing.
///
/// Status (observed on 9.27.0): BAD_PARAM for a descriptor that is not alive, an unknown mode or NaN rule, or a
/// window extent or stride below 1.
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetPooling2dDescriptor(
    poolingDesc: cudnnPoolingDescriptor_t,
    mode: MaybeUninit<cudnnPoolingMode_t>,
    maxpoolingNanOpt: MaybeUninit<cudnnNanPropagation_t>,
    windowHeight: c_int,
    windowWidth: c_int,
    verticalPadding: c_int,
    horizontalPadding: c_int,
    verticalStride: c_int,
    horizontalStride: c_int,
) -> cudnnStatus_t {
    let arguments = format_args!(
        "poolingDesc={poolingDesc:p}, mode={}, maxpoolingNanOpt={}, windowHeight={windowHeight}, \
         windowWidth={windowWidth}, verticalPadding={verticalPadding}, horizontalPadding={horizontalPadding}, \
         verticalStride={verticalStride}, horizontalStride={horizontalStride}",
        raw(mode),
        raw(maxpoolingNanOpt)
    );
    entry("cudnnSetPooling2dDescriptor", arguments, || {
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
    })
}

/// Sets mode, window, padding and strides of a pooling of 1 to 6 spatial dimensions.
///
/// Padding may be anything, also negative or wider than the window. A failing call changes nothing.
///
/// Status, in this order (observed on 9.27.0): BAD_PARAM for a descriptor that is not alive; NOT_SUPPORTED for
/// nbDims above 6; BAD_PARAM for an unknown mode or NaN rule, a NULL array, nbDims below 1, or a window extent or
/// stride below 1.
///
/// # Safety
/// Each array is NULL or valid for reads of `nbDims` ints.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetPoolingNdDescriptor(
    poolingDesc: cudnnPoolingDescriptor_t,
    mode: MaybeUninit<cudnnPoolingMode_t>,
    maxpoolingNanOpt: MaybeUninit<cudnnNanPropagation_t>,
    nbDims: c_int,
    windowDimA: *const c_int,
    paddingA: *const c_int,
    strideA: *const c_int,
) -> cudnnStatus_t {
    let arguments = format_args!(
        "poolingDesc={poolingDesc:p}, mode={}, maxpoolingNanOpt={}, nbDims={nbDims}, windowDimA={windowDimA:p}, \
         paddingA={paddingA:p}, strideA={strideA:p}",
        raw(mode),
        raw(maxpoolingNanOpt)
    );
    entry("cudnnSetPoolingNdDescriptor", arguments, || {
        POOLINGS.replace(poolingDesc.addr(), "poolingDesc", || {
            check_spatial("nbDims", nbDims)?;
            let (mode, nan) =
                (arg::choice(mode, "mode")?, arg::choice(maxpoolingNanOpt, "maxpoolingNanOpt")?);
            // SAFETY: as the caller promises, for all three.
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
    })
}

/// Reads mode, window, padding and strides of a pooling's first two spatial dimensions, zeros where there are fewer.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if any pointer is NULL (nothing is written then).
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetPooling2dDescriptor(
    poolingDesc: cudnnPoolingDescriptor_t,
    mode: *mut cudnnPoolingMode_t,
    maxpoolingNanOpt: *mut cudnnNanPropagation_t,
    windowHeight: *mut c_int,
    windowWidth: *mut c_int,
    verticalPadding: *mut c_int,
    horizontalPadding: *mut c_int,
    verticalStride: *mut c_int,
    horizontalStride: *mut c_int,
) -> cudnnStatus_t {
    entry("cudnnGetPooling2dDescriptor", format_args!("poolingDesc={poolingDesc:p}"), || {
        let pooling = POOLINGS.get(poolingDesc.addr(), "poolingDesc")?;
        // SAFETY: as the caller promises, for all of them.
        let (mode, nan, places) = unsafe {
            (
                Out::code(mode, "mode")?,
                Out::code(maxpoolingNanOpt, "maxpoolingNanOpt")?,
                [
                    [Out::new(windowHeight, "windowHeight")?, Out::new(windowWidth, "windowWidth")?],
                    [
                        Out::new(verticalPadding, "verticalPadding")?,
                        Out::new(horizontalPadding, "horizontalPadding")?,
                    ],
                    [
                        Out::new(verticalStride, "verticalStride")?,
                        Out::new(horizontalStride, "horizontalStride")?,
                    ],
                ],
            )
        };
        mode.set(pooling.mode().code());
        nan.set(pooling.nan().code());
        for (places, values) in places.iter().zip([pooling.window(), pooling.padding(), pooling.strides()]) {
            arg::set_first(places, &values);
        }
        Ok(())
    })
}

/// Reads mode, window, padding and strides of a pooling: exactly `nbDimsRequested` entries, zeros beyond its rank.
///
/// Status, in this order (observed on 9.27.0): BAD_PARAM for a descriptor that is not alive; NOT_SUPPORTED for
/// nbDimsRequested above 6; BAD_PARAM if a pointer is NULL (arrays may be if nothing is requested).
///
/// # Safety
/// `mode`, `maxpoolingNanOpt` and `nbDims` are NULL or valid for one write, the arrays for `nbDimsRequested`.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetPoolingNdDescriptor(
    poolingDesc: cudnnPoolingDescriptor_t,
    nbDimsRequested: c_int,
    mode: *mut cudnnPoolingMode_t,
    maxpoolingNanOpt: *mut cudnnNanPropagation_t,
    nbDims: *mut c_int,
    windowDimA: *mut c_int,
    paddingA: *mut c_int,
    strideA: *mut c_int,
) -> cudnnStatus_t {
    let arguments = format_args!("poolingDesc={poolingDesc:p}, nbDimsRequested={nbDimsRequested}");
    entry("cudnnGetPoolingNdDescriptor", arguments, || {
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
        // SAFETY: as the caller promises, for all three.
        let (mode, nan, rank) = unsafe {
            (
                Out::code(mode, "mode")?,
                Out::code(maxpoolingNanOpt, "maxpoolingNanOpt")?,
                Out::new(nbDims, "nbDims")?,
            )
        };
        mode.set(pooling.mode().code());
        nan.set(pooling.nan().code());
        rank.set(pooling.window().rank() as c_int);
        for (array, _, values) in arrays {
            // SAFETY: not NULL if anything is written, and the caller vouches for nbDimsRequested entries.
            unsafe { arg::store_padded(array, &values, nbDimsRequested) };
        }
        Ok(())
    })
}

/// Output dimensions of a 2-D pooling: N and C of the input, then `1 + (in + 2 * pad - window) / stride`.
///
/// Channels are counted one by one, also under NCHW_VECT_C. On an error the outputs hold what was found by then,
/// zeros elsewhere.
///
/// Status (observed on 9.27.0): BAD_PARAM if an output is NULL, for a descriptor that is not alive, a pooling or
/// input that is not 2-D, a window larger than the padded input, NCHW_VECT_C of a type of one channel and, in
/// strict mode, of UINT8x4.
///
/// # Safety
/// Every output is NULL or valid for one write.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetPooling2dForwardOutputDim(
    poolingDesc: cudnnPoolingDescriptor_t,
    inputTensorDesc: cudnnTensorDescriptor_t,
    n: *mut c_int,
    c: *mut c_int,
    h: *mut c_int,
    w: *mut c_int,
) -> cudnnStatus_t {
    let arguments = format_args!("poolingDesc={poolingDesc:p}, inputTensorDesc={inputTensorDesc:p}");
    entry("cudnnGetPooling2dForwardOutputDim", arguments, || {
        // SAFETY: as the caller promises, for all four.
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
    })
}

/// Output dimensions of a pooling: N and C of the input, then `1 + (in + 2 * pad - window) / stride` each.
///
/// `nbDims` is the input's. On an error the output holds what was found by then.
///
/// Status (observed on 9.27.0): BAD_PARAM for a descriptor that is not alive, a NULL array, ranks that do not
/// agree (the input's, `nbDims`, and the pooling's plus 2), and as cudnnGetPooling2dForwardOutputDim.
///
/// # Safety
/// `outputTensorDimA` is NULL or valid for `nbDims` writes.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetPoolingNdForwardOutputDim(
    poolingDesc: cudnnPoolingDescriptor_t,
    inputTensorDesc: cudnnTensorDescriptor_t,
    nbDims: c_int,
    outputTensorDimA: *mut c_int,
) -> cudnnStatus_t {
    let arguments =
        format_args!("poolingDesc={poolingDesc:p}, inputTensorDesc={inputTensorDesc:p}, nbDims={nbDims}");
    entry("cudnnGetPoolingNdForwardOutputDim", arguments, || {
        let pooling = POOLINGS.get(poolingDesc.addr(), "poolingDesc")?;
        let input = tensor::get(inputTensorDesc, "inputTensorDesc")?;
        arg::required(outputTensorDimA, "outputTensorDimA")?;
        if usize::try_from(nbDims) != Ok(input.rank()) {
            let rule = format!("the input has {} dimensions", input.rank());
            return Err(Error::argument("nbDims", nbDims.into(), rule));
        }
        // SAFETY: not NULL, and the caller vouches for nbDims entries, which are as many as the input has dims.
        unsafe { arg::store_until_error(outputTensorDimA, pooling.output_dims(&input, Mode::current())?) }
    })
}
