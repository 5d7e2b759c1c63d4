//! What twins are set to: the plain data of our descriptors, by the original's own setters.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use super::call::call;
use super::facts::{self, Facts};
use super::type_code::type_code;
use super::{Failed, Maker, Twin, Twinned};
use crate::desc::{
    ActivationDescriptor, Choice, ConvolutionDescriptor, CtcLossDescriptor, DropoutDescriptor,
    FilterDescriptor, Folding, Format, LrnDescriptor, OpTensorDescriptor, PoolingDescriptor,
    ReduceDescriptor, SpatialTransformerDescriptor, TensorDescriptor, TransformDescriptor,
};
use crate::layout::{Dims, MAX_RANK};

/// Values as C has them; `None` beyond 32 bits.
fn ints(values: &[i64]) -> Option<[c_int; MAX_RANK]> {
    let mut ints = [0; MAX_RANK];
    for (place, &value) in ints.iter_mut().zip(values) {
        *place = c_int::try_from(value).ok()?;
    }
    Some(ints)
}

impl Twinned for TensorDescriptor {
    const LIFE: [&'static str; 2] = ["cudnnCreateTensorDescriptor", "cudnnDestroyTensorDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        if !self.is_set() {
            return Ok(());
        }
        let (library, code) = (maker.library, type_code(self.data_type()));
        let rank = self.rank() as c_int;
        if let Some(lanes) = self.vector() {
            // Its strides follow from the format, or a transform has chosen them.
            let packed = TensorDescriptor::with_format(
                self.data_type(),
                Format::NchwVectC,
                i64::from(rank),
                &self.dims(),
                crate::mode::Mode::Extended,
            );
            if lanes != self.data_type().lanes() || packed.as_ref() != Ok(self) {
                return Err(None);
            }
            let dims = ints(&self.dims()).ok_or(None)?;
            return Ok(call!(
                library,
                "cudnnSetTensorNdDescriptorEx",
                (*mut c_void = twin.pointer()),
                (c_int = Format::NchwVectC.code()),
                (c_int = code),
                (c_int = rank),
                (*const c_int = dims.as_ptr()),
            )?);
        }
        // Blocks of channels are this library's.
        if self.layout().map_err(|_| None)?.split.is_some() && self.data_type().lanes() == 1 {
            return Err(None);
        }
        let (dims, strides) = (ints(&self.dims()).ok_or(None)?, ints(&self.strides()).ok_or(None)?);
        Ok(call!(
            library,
            "cudnnSetTensorNdDescriptor",
            (*mut c_void = twin.pointer()),
            (c_int = code),
            (c_int = rank),
            (*const c_int = dims.as_ptr()),
            (*const c_int = strides.as_ptr()),
        )?)
    }

    fn facts(&self) -> Facts {
        facts::of_tensor(self)
    }
}

impl Twinned for FilterDescriptor {
    const LIFE: [&'static str; 2] = ["cudnnCreateFilterDescriptor", "cudnnDestroyFilterDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        let dims = self.dims();
        if dims.rank() == 0 {
            return Ok(());
        }
        if let Format::Blocked(_) = self.format() {
            return Err(None);
        }
        let of_c = ints(&dims).ok_or(None)?;
        Ok(call!(
            maker.library,
            "cudnnSetFilterNdDescriptor",
            (*mut c_void = twin.pointer()),
            (c_int = type_code(self.data_type())),
            (c_int = self.format().code()),
            (c_int = dims.rank() as c_int),
            (*const c_int = of_c.as_ptr()),
        )?)
    }

    fn facts(&self) -> Facts {
        facts::of_filter(self)
    }
}

impl Twinned for TransformDescriptor {
    const LIFE: [&'static str; 2] =
        ["cudnnCreateTensorTransformDescriptor", "cudnnDestroyTensorTransformDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        Ok(call!(
            maker.library,
            "cudnnSetTensorTransformDescriptor",
            (*mut c_void = twin.pointer()),
            (c_uint = MAX_RANK as c_uint),
            (c_int = self.dest_format),
            (*const c_int = self.pad_before.as_ptr()),
            (*const c_int = self.pad_after.as_ptr()),
            (*const c_uint = self.fold.as_ptr()),
            (c_int = c_int::from(self.direction == Folding::Unfold)),
        )?)
    }
}

impl Twinned for OpTensorDescriptor {
    const LIFE: [&'static str; 2] = ["cudnnCreateOpTensorDescriptor", "cudnnDestroyOpTensorDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        Ok(call!(
            maker.library,
            "cudnnSetOpTensorDescriptor",
            (*mut c_void = twin.pointer()),
            (c_int = self.op.code()),
            (c_int = type_code(self.compute_type)),
            (c_int = self.nan.code()),
        )?)
    }
}

impl Twinned for ReduceDescriptor {
    const LIFE: [&'static str; 2] =
        ["cudnnCreateReduceTensorDescriptor", "cudnnDestroyReduceTensorDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        Ok(call!(
            maker.library,
            "cudnnSetReduceTensorDescriptor",
            (*mut c_void = twin.pointer()),
            (c_int = self.op.code()),
            (c_int = type_code(self.compute_type)),
            (c_int = self.nan.code()),
            (c_int = self.indices.code()),
            (c_int = self.index_type.code()),
        )?)
    }

    fn facts(&self) -> Facts {
        facts::of_reduction(self)
    }
}

impl Twinned for ActivationDescriptor {
    const LIFE: [&'static str; 2] = ["cudnnCreateActivationDescriptor", "cudnnDestroyActivationDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        call!(
            maker.library,
            "cudnnSetActivationDescriptor",
            (*mut c_void = twin.pointer()),
            (c_int = self.mode.code()),
            (c_int = self.nan.code()),
            (f64 = self.coefficient),
        )?;
        Ok(call!(
            maker.library,
            "cudnnSetActivationDescriptorSwishBeta",
            (*mut c_void = twin.pointer()),
            (f64 = self.swish_beta),
        )?)
    }
}

impl Twinned for PoolingDescriptor {
    const LIFE: [&'static str; 2] = ["cudnnCreatePoolingDescriptor", "cudnnDestroyPoolingDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        let of_c = |dims: Dims| ints(&dims).ok_or(None);
        let (window, padding, strides) = (of_c(self.window())?, of_c(self.padding())?, of_c(self.strides())?);
        if self.window().rank() == 0 {
            return Ok(());
        }
        Ok(call!(
            maker.library,
            "cudnnSetPoolingNdDescriptor",
            (*mut c_void = twin.pointer()),
            (c_int = self.mode().code()),
            (c_int = self.nan().code()),
            (c_int = self.window().rank() as c_int),
            (*const c_int = window.as_ptr()),
            (*const c_int = padding.as_ptr()),
            (*const c_int = strides.as_ptr()),
        )?)
    }

    fn facts(&self) -> Facts {
        facts::of_pooling(self)
    }
}

impl Twinned for LrnDescriptor {
    const LIFE: [&'static str; 2] = ["cudnnCreateLRNDescriptor", "cudnnDestroyLRNDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        Ok(call!(
            maker.library,
            "cudnnSetLRNDescriptor",
            (*mut c_void = twin.pointer()),
            (c_uint = self.n()),
            (f64 = self.alpha()),
            (f64 = self.beta()),
            (f64 = self.k()),
        )?)
    }
}

impl Twinned for SpatialTransformerDescriptor {
    const LIFE: [&'static str; 2] =
        ["cudnnCreateSpatialTransformerDescriptor", "cudnnDestroySpatialTransformerDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        if self.dims.rank() == 0 {
            return Ok(());
        }
        let dims = ints(&self.dims).ok_or(None)?;
        Ok(call!(
            maker.library,
            "cudnnSetSpatialTransformerNdDescriptor",
            (*mut c_void = twin.pointer()),
            (c_int = 0), // bilinear
            (c_int = type_code(self.data_type)),
            (c_int = self.rank),
            (*const c_int = dims.as_ptr()),
        )?)
    }
}

impl Twinned for ConvolutionDescriptor {
    const LIFE: [&'static str; 2] = ["cudnnCreateConvolutionDescriptor", "cudnnDestroyConvolutionDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        let (library, geometry) = (maker.library, &self.geometry);
        let of_c = |dims: Dims| ints(&dims).ok_or(None);
        let rank = geometry.padding().rank();
        if rank > 0 {
            let (padding, strides) = (of_c(geometry.padding())?, of_c(geometry.strides())?);
            let dilation = of_c(geometry.dilation())?;
            call!(
                library,
                "cudnnSetConvolutionNdDescriptor",
                (*mut c_void = twin.pointer()),
                (c_int = rank as c_int),
                (*const c_int = padding.as_ptr()),
                (*const c_int = strides.as_ptr()),
                (*const c_int = dilation.as_ptr()),
                (c_int = geometry.mode().code()),
                (c_int = type_code(geometry.compute_type())),
            )?;
        }
        call!(library, "cudnnSetConvolutionGroupCount", (*mut c_void = twin.pointer()), (c_int = self.groups))?;
        call!(library, "cudnnSetConvolutionMathType", (*mut c_void = twin.pointer()), (c_int = self.math_type.code()))?;
        let reorder = self.reorder.code();
        Ok(
            call!(library, "cudnnSetConvolutionReorderType", (*mut c_void = twin.pointer()), (c_int = reorder))?,
        )
    }

    fn facts(&self) -> Facts {
        facts::of_convolution(self)
    }
}

impl Twinned for CtcLossDescriptor {
    const LIFE: [&'static str; 2] = ["cudnnCreateCTCLossDescriptor", "cudnnDestroyCTCLossDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        let compute = type_code(self.compute_type);
        // Of the oldest setter, which the older calls want, where nothing else was set.
        if [self.normalization, self.gradient, self.max_label_length] == [0; 3] {
            let plain = call!(maker.library, "cudnnSetCTCLossDescriptor", (*mut c_void = twin.pointer()), (c_int = compute));
            return Ok(plain?);
        }
        Ok(call!(
            maker.library,
            "cudnnSetCTCLossDescriptor_v8",
            (*mut c_void = twin.pointer()),
            (c_int = compute),
            (c_int = self.normalization),
            (c_int = self.gradient),
            (c_int = self.max_label_length),
        )?)
    }
}

/// One whose random state the original has not made: the call that lets it make one sets the twin
/// itself.
impl Twinned for DropoutDescriptor {
    const LIFE: [&'static str; 2] = ["cudnnCreateDropoutDescriptor", "cudnnDestroyDropoutDescriptor"];

    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>> {
        if self.states() != 0 {
            return Err(None);
        }
        Ok(call!(
            maker.library,
            "cudnnSetDropoutDescriptor",
            (*mut c_void = twin.pointer()),
            (*mut c_void = maker.handle),
            (f32 = self.probability()),
            (*mut c_void = std::ptr::null_mut()),
            (usize = 0),
            (c_ulonglong = self.seed()),
        )?)
    }
}
