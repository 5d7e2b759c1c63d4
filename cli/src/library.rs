//! The library's C interface, as far as it is used here: what the tool does goes the way of every
//! program's calls.
//!
//! What needs no call - layouts, names, types - is the crate's; the functions are those of a
//! library that is loaded.
#![allow(deprecated, reason = "the interface is, this use of it is not")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use cudnn::capi::types::{
    CEnum, cudnnDataType_t, cudnnFoldingDirection_t, cudnnHandle_t, cudnnShimDLDataType_t,
    cudnnShimDLDevice_t, cudnnShimDLTensor_t, cudnnStatus_t, cudnnTensorDescriptor_t, cudnnTensorFormat_t,
    cudnnTensorTransformDescriptor_t,
};
use cudnn::dtype::{DataType, Scalar};

use crate::functions::functions;
use crate::{Failure, Result};

/// Has the library compute on the CPU core, whatever the environment says. No other thread may run
/// yet.
///
/// # Errors
/// There is no memory for it; `std::env::set_var` would panic.
pub fn choose_cpu_core() -> Result<()> {
    // SAFETY: C strings, and no other thread reads the environment.
    match unsafe { libc::setenv(c"CUDNN_SHIM_BACKEND".as_ptr(), c"cpu".as_ptr(), 1) } {
        0 => Ok(()),
        _ => Err(Failure::new(io::Error::last_os_error())),
    }
}

/// The version that the library reports.
///
/// # Errors
/// There is no library.
pub fn version() -> Result<usize> {
    // SAFETY: no arguments.
    Ok(unsafe { (functions()?.cudnnGetVersion)() })
}

/// What the library says of the core of a new handle, with what it uses of the machine, and the
/// handle.
///
/// # Errors
/// As [`Handle::new`].
pub fn described() -> Result<(String, Handle)> {
    /// Keeps what follows "core: ".
    unsafe extern "C" fn hear(_: c_int, kept: *mut c_void, _: *const c_void, text: *const c_char) {
        // SAFETY: the pointer is that of `described`, which waits; the text is the library's, and
        // ends with a zero.
        let (kept, text) = unsafe { (&mut *kept.cast::<String>(), CStr::from_ptr(text).to_string_lossy()) };
        if let Some((_, core)) = text.split_once("core: ") {
            core.trim_end().clone_into(kept);
        }
    }
    /// `CUDNN_SEV_INFO_EN`
    const INFORMATION: c_uint = 8;
    let mut core = String::new();
    let functions = functions()?;
    // SAFETY: `core` is there until the callback is taken away.
    check(unsafe { (functions.cudnnSetCallback)(INFORMATION, (&raw mut core).cast(), Some(hear)) })?;
    let made = Handle::new();
    // SAFETY: no callback.
    check(unsafe { (functions.cudnnSetCallback)(0, ptr::null_mut(), None) })?;
    let handle = made?;
    if core.is_empty() {
        core = handle.core()?;
    }
    Ok((core, handle))
}

fn check(status: cudnnStatus_t) -> Result<()> {
    if status == cudnnStatus_t::CUDNN_STATUS_SUCCESS {
        return Ok(());
    }
    let functions = functions()?;
    let Some(last_error) = functions.last_error else {
        // SAFETY: the library's own text.
        let name = unsafe { CStr::from_ptr((functions.cudnnGetErrorString)(MaybeUninit::new(status))) };
        return Err(Failure::new(name.to_string_lossy()));
    };
    let mut text = [0_u8; 1024];
    // SAFETY: as many bytes as are named.
    unsafe { last_error(text.as_mut_ptr().cast(), text.len()) };
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let text = String::from_utf8_lossy(&text[..end]).into_owned();
    // Behind the name of the call.
    Err(Failure::new(text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest)))
}

/// The C name of an element type.
fn code(data_type: DataType) -> MaybeUninit<cudnnDataType_t> {
    use cudnnDataType_t::*;
    MaybeUninit::new(match data_type {
        DataType::Float => CUDNN_DATA_FLOAT,
        DataType::Double => CUDNN_DATA_DOUBLE,
        DataType::Half => CUDNN_DATA_HALF,
        DataType::Int8 => CUDNN_DATA_INT8,
        DataType::Int32 => CUDNN_DATA_INT32,
        DataType::Int8x4 => CUDNN_DATA_INT8x4,
        DataType::Uint8 => CUDNN_DATA_UINT8,
        DataType::Uint8x4 => CUDNN_DATA_UINT8x4,
        DataType::Int8x32 => CUDNN_DATA_INT8x32,
        DataType::Bfloat16 => CUDNN_DATA_BFLOAT16,
        DataType::Int64 => CUDNN_DATA_INT64,
        DataType::Boolean => CUDNN_DATA_BOOLEAN,
        DataType::Fp8E4m3 => CUDNN_DATA_FP8_E4M3,
        DataType::Fp8E5m2 => CUDNN_DATA_FP8_E5M2,
    })
}

fn dlpack(data_type: DataType) -> cudnnShimDLDataType_t {
    let code = match data_type.scalar() {
        Scalar::I8 | Scalar::I32 | Scalar::I64 => 0,
        Scalar::U8 => 1,
        Scalar::F16 | Scalar::F32 | Scalar::F64 => 2,
        Scalar::Bf16 => 4,
        Scalar::Bool => 6,
        Scalar::E4m3 => 10,
        Scalar::E5m2 => 12,
    };
    cudnnShimDLDataType_t { code, bits: data_type.scalar().size() as u8 * 8, lanes: data_type.lanes() as u16 }
}

/// A tensor descriptor of the C interface.
pub struct Tensor(cudnnTensorDescriptor_t);

impl Tensor {
    fn new() -> Result<Tensor> {
        let mut desc = ptr::null_mut();
        // SAFETY: valid for one write.
        check(unsafe { (functions()?.cudnnCreateTensorDescriptor)(&mut desc) })?;
        Ok(Tensor(desc))
    }

    /// A tensor with strides in elements, which may leave 32 bits: through DLPack, whose strides
    /// have 64.
    pub fn strided(data_type: DataType, dims: &[i64], strides: &[i64]) -> Result<Tensor> {
        let tensor = Tensor::new()?;
        // A tensor has two dimensions at least.
        let lead = 2_usize.saturating_sub(dims.len());
        let mut dims = [&vec![1; lead][..], dims].concat();
        let mut strides = [&vec![1; lead][..], strides].concat();
        let view = cudnnShimDLTensor_t {
            data: ptr::null_mut(),
            device: cudnnShimDLDevice_t { device_type: 1, device_id: 0 },
            ndim: dims.len() as i32,
            dtype: dlpack(data_type),
            shape: dims.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let mut data = ptr::null_mut();
        // SAFETY: both arrays have ndim entries and live until the call returns; the data is not
        // touched.
        check(unsafe {
            (functions()?.cudnnShimSetTensorFromDLPack)(ptr::null_mut(), tensor.0, &view, &mut data)
        })?;
        Ok(tensor)
    }

    /// A packed tensor in a layout by name.
    pub fn named(data_type: DataType, layout: &str, dims: &[i64]) -> Result<Tensor> {
        let tensor = Tensor::new()?;
        let small = |&extent: &i64| {
            c_int::try_from(extent).map_err(|_| Failure::new(format!("an extent of {extent} leaves 32 bits")))
        };
        let dims = dims.iter().map(small).collect::<Result<Vec<_>>>()?;
        let layout = CString::new(layout).map_err(|_| Failure::new("a layout name with a zero byte"))?;
        let rank = dims.len() as c_int;
        // SAFETY: a C string and as many dims as are named.
        check(unsafe {
            (functions()?.cudnnShimSetTensorLayout)(
                tensor.0,
                code(data_type),
                layout.as_ptr(),
                rank,
                dims.as_ptr(),
            )
        })?;
        Ok(tensor)
    }

    /// Bytes from the lowest to the highest element.
    pub fn size(&self) -> Result<usize> {
        let mut size = 0;
        // SAFETY: valid for one write.
        check(unsafe { (functions()?.cudnnGetTensorSizeInBytes)(self.0, &mut size) })?;
        Ok(size)
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // What was made has a library.
        if let Ok(functions) = functions() {
            // SAFETY: made by `new` and destroyed once.
            unsafe { (functions.cudnnDestroyTensorDescriptor)(self.0) };
        }
    }
}

/// Padding (negative crops) and folding of a transform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Padding in front of each dimension.
    pub before: Vec<i64>,
    /// Padding behind each dimension.
    pub after: Vec<i64>,
    /// Fold factors of the spatial dimensions; empty for none.
    pub fold: Vec<i64>,
    /// Whether channels become neighbours again.
    pub unfold: bool,
}

/// A library handle.
pub struct Handle(cudnnHandle_t);

impl Handle {
    /// A handle on the core that `CUDNN_SHIM_BACKEND` asks for.
    pub fn new() -> Result<Handle> {
        let mut handle = ptr::null_mut();
        // SAFETY: valid for one write.
        check(unsafe { (functions()?.cudnnCreate)(&mut handle) })?;
        Ok(Handle(handle))
    }

    /// `cpu` or `cuda`.
    pub fn core(&self) -> Result<String> {
        let mut name = [0_u8; 16];
        // SAFETY: as many bytes as are named.
        check(unsafe { (functions()?.cudnnShimGetCore)(self.0, name.len(), name.as_mut_ptr().cast()) })?;
        Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
    }

    /// Host threads of a large call.
    pub fn threads(&self) -> Result<i32> {
        let mut threads = 0;
        // SAFETY: valid for one write.
        check(unsafe { (functions()?.cudnnShimGetThreads)(self.0, &mut threads) })?;
        Ok(threads)
    }

    /// `y = scale * x`, in y's layout and type.
    ///
    /// # Safety
    /// Every byte that `src` reaches around `x` is readable, every element of `dst` around `y`
    /// writable.
    pub unsafe fn transform(
        &self, scale: f64, (src, x): (&Tensor, *const u8), (dst, y): (&Tensor, *mut u8), is_double: bool,
        change: Option<&Change>,
    ) -> Result<()> {
        let (single, zero) = (scale as f32, 0.0_f64);
        let alpha: *const c_void =
            if is_double { (&raw const scale).cast() } else { (&raw const single).cast() };
        // Zeros of either width.
        let beta: *const c_void = (&raw const zero).cast();
        let Some(change) = change else {
            // SAFETY: factors of this width live until the call returns; the tensors reach readable
            // and writable memory only.
            return check(unsafe {
                (functions()?.cudnnTransformTensor)(self.0, alpha, src.0, x.cast(), beta, dst.0, y.cast())
            });
        };
        let how = Transformation::new(change)?;
        // SAFETY: factors of this width live until the call returns; the tensors reach readable and
        // writable memory only.
        check(unsafe {
            (functions()?.cudnnTransformTensorEx)(
                self.0,
                how.0,
                alpha,
                src.0,
                x.cast(),
                beta,
                dst.0,
                y.cast(),
            )
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // What was made has a library.
        if let Ok(functions) = functions() {
            // SAFETY: made by `new` and destroyed once.
            unsafe { (functions.cudnnDestroy)(self.0) };
        }
    }
}

struct Transformation(cudnnTensorTransformDescriptor_t);

impl Transformation {
    fn new(change: &Change) -> Result<Transformation> {
        let mut desc = ptr::null_mut();
        // SAFETY: valid for one write.
        check(unsafe { (functions()?.cudnnCreateTensorTransformDescriptor)(&mut desc) })?;
        let made = Transformation(desc);
        let small = |values: &[i64]| -> Result<Vec<i32>> {
            let small = |&value: &i64| {
                i32::try_from(value).map_err(|_| Failure::new(format!("{value} leaves 32 bits")))
            };
            values.iter().map(small).collect()
        };
        let (before, after) = (small(&change.before)?, small(&change.after)?);
        let fold: Vec<u32> = small(&change.fold)?.into_iter().map(|factor| factor as u32).collect();
        let fold = if fold.is_empty() { ptr::null() } else { fold.as_ptr() };
        let direction = if change.unfold {
            cudnnFoldingDirection_t::CUDNN_TRANSFORM_UNFOLD
        } else {
            cudnnFoldingDirection_t::CUDNN_TRANSFORM_FOLD
        };
        // SAFETY: arrays of as many entries as there are dimensions, of which two are not spatial.
        check(unsafe {
            (functions()?.cudnnSetTensorTransformDescriptor)(
                desc,
                before.len() as u32,
                MaybeUninit::new(cudnnTensorFormat_t::ALL[0]),
                before.as_ptr(),
                after.as_ptr(),
                fold,
                MaybeUninit::new(direction),
            )
        })?;
        Ok(made)
    }
}

impl Drop for Transformation {
    fn drop(&mut self) {
        // What was made has a library.
        if let Ok(functions) = functions() {
            // SAFETY: made by `new` and destroyed once.
            unsafe { (functions.cudnnDestroyTensorTransformDescriptor)(self.0) };
        }
    }
}

/// Has calls keep their plans.
///
/// # Errors
/// There is no library.
pub fn record_plans() -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { (functions()?.cudnnShimRecordPlans)(1) })
}

/// The plan of this thread's last call.
///
/// # Errors
/// There is no library.
pub fn last_plan() -> Result<String> {
    let get = functions()?.cudnnShimGetLastPlan;
    let mut needed = 0;
    // SAFETY: nothing is written to the text.
    unsafe { get(0, ptr::null_mut(), &mut needed) };
    let mut text = vec![0_u8; needed.max(1)];
    // SAFETY: as many bytes as are named.
    unsafe { get(text.len(), text.as_mut_ptr().cast(), ptr::null_mut()) };
    text.pop();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(text.split_once(": ").map_or(text.clone(), |(_, plan)| plan.to_owned()))
}
