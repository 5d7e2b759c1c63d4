//! The operations of a legacy call: descriptors of the original's graph interface by plain data.

use std::ffi::{c_int, c_void};

use super::legacy::{ALIGNMENT, Factors, Legacy, Pass};
use super::objects::Objects;
use super::type_code::type_code;
use super::{Failed, Library};
use crate::desc::graph::{Kind, Type, convolution, norm, pointwise, resample, tensor};
use crate::desc::{
    ActivationDescriptor, ActivationMode, Choice, ConvolutionDescriptor, MathType, PoolingDescriptor,
    PoolingMode, TensorDescriptor,
};
use crate::dtype::DataType;
use crate::layout::Dims;

/// `alpha = 1`, `beta = 0`.
const PLAIN: Factors = [1.0, 0.0];

impl Legacy {
    /// The operations, whose tensors are numbered from 1.
    pub(super) fn operations(&self, graph: &mut Builder) -> Result<Vec<*mut c_void>, Option<Failed>> {
        let one = |operation| Ok(vec![operation]);
        match self {
            Legacy::Convolution { pass, desc, tensors, factors } => {
                one(graph.convolution(*pass, desc, tensors, *factors)?)
            }
            Legacy::Pooling { desc, tensors, factors } => {
                let settings = graph.window(desc)?;
                let [x, y] = graph.tensors(tensors)?;
                one(graph.objects.make(Kind::ResampleForward, |set| {
                    set.object(resample::OPERATION_RESAMPLE_FWD_DESC, settings)?;
                    set.object(resample::OPERATION_RESAMPLE_FWD_XDESC, x)?;
                    set.object(resample::OPERATION_RESAMPLE_FWD_YDESC, y)?;
                    set.double(resample::OPERATION_RESAMPLE_FWD_ALPHA, factors[0])?;
                    set.double(resample::OPERATION_RESAMPLE_FWD_BETA, factors[1])
                })?)
            }
            Legacy::PoolingGradient { desc, tensors, factors } => {
                let settings = graph.window(desc)?;
                let [x, y, dy, dx] = graph.tensors(tensors)?;
                let is_maximum = averages(desc.mode()).is_none();
                one(graph.objects.make(Kind::ResampleBackward, |set| {
                    set.object(resample::OPERATION_RESAMPLE_BWD_DESC, settings)?;
                    if is_maximum {
                        set.object(resample::OPERATION_RESAMPLE_BWD_XDESC, x)?;
                        set.object(resample::OPERATION_RESAMPLE_BWD_YDESC, y)?;
                    }
                    set.object(resample::OPERATION_RESAMPLE_BWD_DYDESC, dy)?;
                    set.object(resample::OPERATION_RESAMPLE_BWD_DXDESC, dx)?;
                    set.double(resample::OPERATION_RESAMPLE_BWD_ALPHA, factors[0])?;
                    set.double(resample::OPERATION_RESAMPLE_BWD_BETA, factors[1])
                })?)
            }
            Legacy::Activation { desc, tensors, factors } => {
                plain(*factors)?;
                let [x, y] = graph.tensors(tensors)?;
                one(graph.function(forward_mode(desc.mode), Some(desc), &[(X, x), (Y, y)])?)
            }
            Legacy::ActivationGradient { desc, tensors, factors } => {
                plain(*factors)?;
                let [x, dy, dx] = graph.tensors(tensors)?;
                let mode = backward_mode(desc.mode).ok_or(None)?;
                one(graph.function(mode, Some(desc), &[(X, x), (DY, dy), (DX, dx)])?)
            }
            Legacy::Inference { tensors, epsilon, factors } => {
                plain(*factors)?;
                graph.inference(tensors, *epsilon)
            }
            Legacy::Training { tensors, epsilon, factor, factors } => {
                plain(*factors)?;
                one(graph.training(tensors, *epsilon, *factor)?)
            }
            Legacy::TrainingGradient { tensors, epsilon, factors } => {
                factors.iter().try_for_each(|&factors| plain(factors))?;
                one(graph.training_gradient(tensors, *epsilon)?)
            }
        }
    }
}

/// Refuses factors, which pointwise operations and normalisations do not have.
fn plain(factors: Factors) -> Result<(), Option<Failed>> {
    if factors == PLAIN { Ok(()) } else { Err(None) }
}

/// Places of a pointwise operation.
const X: c_int = pointwise::OPERATION_POINTWISE_XDESC;
const B: c_int = pointwise::OPERATION_POINTWISE_BDESC;
const Y: c_int = pointwise::OPERATION_POINTWISE_YDESC;
const DX: c_int = pointwise::OPERATION_POINTWISE_DXDESC;
const DY: c_int = pointwise::OPERATION_POINTWISE_DYDESC;

/// Modes of pointwise operations.
mod mode {
    pub const ADD: i32 = 0;
    pub const MUL: i32 = 1;
    pub const SUB: i32 = 9;
    pub const RSQRT: i32 = 17;
    pub const IDENTITY: i32 = 21;
    pub const RELU: i32 = 100;
    pub const TANH: i32 = 101;
    pub const SIGMOID: i32 = 102;
    pub const ELU: i32 = 103;
    pub const SWISH: i32 = 106;
    /// From a function to its gradient.
    pub const BACKWARD: i32 = 100;
}

fn forward_mode(of: ActivationMode) -> i32 {
    match of {
        ActivationMode::Sigmoid => mode::SIGMOID,
        ActivationMode::Relu | ActivationMode::ClippedRelu => mode::RELU,
        ActivationMode::Tanh => mode::TANH,
        ActivationMode::Elu => mode::ELU,
        ActivationMode::Identity => mode::IDENTITY,
        ActivationMode::Swish => mode::SWISH,
    }
}

/// The identity has no gradient of its own.
fn backward_mode(of: ActivationMode) -> Option<i32> {
    (of != ActivationMode::Identity).then(|| forward_mode(of) + mode::BACKWARD)
}

/// The number of a resampling that averages, `None` for maxima.
fn averages(mode: PoolingMode) -> Option<c_int> {
    match mode {
        PoolingMode::AverageWithPadding => Some(2),
        PoolingMode::AverageWithoutPadding => Some(4),
        PoolingMode::Max | PoolingMode::MaxDeterministic => None,
    }
}

/// `CUDNN_RESAMPLE_MAXPOOL`, and the paddings zero and lowest.
const MAXPOOL: c_int = 3;
const ZEROS: c_int = 0;
const LOWEST: c_int = 1;

/// `CUDNN_BATCH_NORM`, and the phases of a normalisation.
const BATCH_NORM: c_int = 2;
const TRAINING: c_int = 1;

/// Makes the objects of one graph.
pub(super) struct Builder {
    pub(super) objects: Objects,
    /// Numbers in host memory, by the numbers of their tensors.
    pub(super) scalars: Vec<(i64, Box<f64>)>,
    pub(super) is_double: bool,
}

impl Builder {
    pub(super) fn new(library: &'static Library, is_double: bool) -> Builder {
        Builder { objects: Objects::new(library), scalars: Vec::new(), is_double }
    }

    fn compute_code(&self) -> c_int {
        type_code(if self.is_double { DataType::Double } else { DataType::Float })
    }

    /// A tensor of this number, `is_virtual` if it has no memory.
    fn tensor(
        &mut self, number: i64, code: c_int, [dims, strides]: [&[i64]; 2], flag: Option<c_int>,
    ) -> Result<*mut c_void, Failed> {
        self.objects.make(Kind::Tensor, |set| {
            set.ints(tensor::TENSOR_UNIQUE_ID, &[number])?;
            set.code(tensor::TENSOR_DATA_TYPE, Type::DataType, code)?;
            set.ints(tensor::TENSOR_DIMENSIONS, dims)?;
            set.ints(tensor::TENSOR_STRIDES, strides)?;
            set.ints(tensor::TENSOR_BYTE_ALIGNMENT, &[ALIGNMENT as i64])?;
            flag.map_or(Ok(()), |flag| set.yes(flag))
        })
    }

    /// The tensor of a descriptor. Vectors of channels have none.
    fn given(&mut self, number: i64, of: &TensorDescriptor) -> Result<*mut c_void, Option<Failed>> {
        if !of.is_set() || of.vector().is_some() || of.layout().map_err(|_| None)?.split.is_some() {
            return Err(None);
        }
        Ok(self.tensor(number, type_code(of.data_type()), [&of.dims(), &of.strides()], None)?)
    }

    /// Tensors numbered from 1.
    fn tensors<const N: usize>(
        &mut self, of: &[TensorDescriptor; N],
    ) -> Result<[*mut c_void; N], Option<Failed>> {
        let mut made = [std::ptr::null_mut(); N];
        for (place, (number, of)) in made.iter_mut().zip((1..).zip(of)) {
            *place = self.given(number, of)?;
        }
        Ok(made)
    }

    /// Tensors like `of` with these numbers.
    fn like<const N: usize>(
        &mut self, of: &TensorDescriptor, numbers: [i64; N],
    ) -> Result<[*mut c_void; N], Option<Failed>> {
        let mut made = [std::ptr::null_mut(); N];
        for (place, number) in made.iter_mut().zip(numbers) {
            *place = self.given(number, of)?;
        }
        Ok(made)
    }

    /// A number that is read from host memory.
    fn scalar(&mut self, number: i64, value: f64, rank: usize) -> Result<*mut c_void, Failed> {
        self.scalars.push((number, Box::new(value)));
        let ones = Dims::filled(rank, 1);
        self.tensor(number, self.compute_code(), [&ones, &ones], Some(tensor::TENSOR_IS_BY_VALUE))
    }

    fn convolution(
        &mut self, pass: Pass, desc: &ConvolutionDescriptor, of: &[TensorDescriptor; 3], factors: Factors,
    ) -> Result<*mut c_void, Option<Failed>> {
        use convolution as c;
        // No attribute keeps engines from Tensor Cores.
        if desc.math_type == MathType::Fma {
            return Err(None);
        }
        let geometry = &desc.geometry;
        let settings = self.objects.make(Kind::Convolution, |set| {
            set.code(c::CONVOLUTION_COMP_TYPE, Type::DataType, type_code(geometry.compute_type()))?;
            set.code(c::CONVOLUTION_CONV_MODE, Type::ConvolutionMode, geometry.mode().code())?;
            set.ints(c::CONVOLUTION_SPATIAL_DIMS, &[geometry.padding().rank() as i64])?;
            set.ints(c::CONVOLUTION_DILATIONS, &geometry.dilation())?;
            set.ints(c::CONVOLUTION_FILTER_STRIDES, &geometry.strides())?;
            set.ints(c::CONVOLUTION_PRE_PADDINGS, &geometry.padding())?;
            set.ints(c::CONVOLUTION_POST_PADDINGS, &geometry.padding())
        })?;
        let [x, w, y] = self.tensors(of)?;
        let (kind, [desc, x_at, w_at, y_at, alpha, beta]) = match pass {
            Pass::Y => (
                Kind::ConvolutionForward,
                [
                    c::OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                    c::OPERATION_CONVOLUTION_FORWARD_X,
                    c::OPERATION_CONVOLUTION_FORWARD_W,
                    c::OPERATION_CONVOLUTION_FORWARD_Y,
                    c::OPERATION_CONVOLUTION_FORWARD_ALPHA,
                    c::OPERATION_CONVOLUTION_FORWARD_BETA,
                ],
            ),
            Pass::Dx => (
                Kind::ConvolutionBackwardData,
                [
                    c::OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                    c::OPERATION_CONVOLUTION_BWD_DATA_DX,
                    c::OPERATION_CONVOLUTION_BWD_DATA_W,
                    c::OPERATION_CONVOLUTION_BWD_DATA_DY,
                    c::OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                    c::OPERATION_CONVOLUTION_BWD_DATA_BETA,
                ],
            ),
            Pass::Dw => (
                Kind::ConvolutionBackwardFilter,
                [
                    c::OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                    c::OPERATION_CONVOLUTION_BWD_FILTER_X,
                    c::OPERATION_CONVOLUTION_BWD_FILTER_DW,
                    c::OPERATION_CONVOLUTION_BWD_FILTER_DY,
                    c::OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                    c::OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                ],
            ),
        };
        let is_double = self.is_double;
        Ok(self.objects.make(kind, |set| {
            for (at, object) in [(desc, settings), (x_at, x), (w_at, w), (y_at, y)] {
                set.object(at, object)?;
            }
            for (at, factor) in [(alpha, factors[0]), (beta, factors[1])] {
                if is_double {
                    set.double(at, factor)
                } else {
                    set.values(at, Type::Float, &[factor as f32])
                }?;
            }
            Ok(())
        })?)
    }

    /// The window of a pooling, as wide behind the data as in front.
    fn window(&mut self, desc: &PoolingDescriptor) -> Result<*mut c_void, Failed> {
        let average = averages(desc.mode());
        let compute = self.compute_code();
        self.objects.make(Kind::Resample, |set| {
            set.code(resample::RESAMPLE_MODE, Type::ResampleMode, average.unwrap_or(MAXPOOL))?;
            set.code(resample::RESAMPLE_COMP_TYPE, Type::DataType, compute)?;
            set.code(resample::RESAMPLE_NAN_PROPAGATION, Type::NanPropagation, desc.nan().code())?;
            let padding = if average.is_some() { ZEROS } else { LOWEST };
            set.code(resample::RESAMPLE_PADDING_MODE, Type::PaddingMode, padding)?;
            set.ints(resample::RESAMPLE_SPATIAL_DIMS, &[desc.window().rank() as i64])?;
            set.ints(resample::RESAMPLE_WINDOW_DIMS, &desc.window())?;
            set.ints(resample::RESAMPLE_STRIDES, &desc.strides())?;
            set.ints(resample::RESAMPLE_PRE_PADDINGS, &desc.padding())?;
            set.ints(resample::RESAMPLE_POST_PADDINGS, &desc.padding())
        })
    }

    /// A pointwise operation on these operands.
    fn function(
        &mut self, mode: i32, activation: Option<&ActivationDescriptor>, ports: &[(c_int, *mut c_void)],
    ) -> Result<*mut c_void, Failed> {
        let compute = self.compute_code();
        let settings = self.objects.make(Kind::Pointwise, |set| {
            set.code(pointwise::POINTWISE_MODE, Type::PointwiseMode, mode)?;
            set.code(pointwise::POINTWISE_MATH_PREC, Type::DataType, compute)?;
            let Some(of) = activation else { return Ok(()) };
            match of.mode {
                ActivationMode::ClippedRelu => {
                    set.double(pointwise::POINTWISE_RELU_UPPER_CLIP, of.coefficient)?;
                }
                ActivationMode::Elu => set.double(pointwise::POINTWISE_ELU_ALPHA, of.coefficient)?,
                ActivationMode::Swish => set.double(pointwise::POINTWISE_SWISH_BETA, of.swish_beta)?,
                _ => {}
            }
            set.code(pointwise::POINTWISE_NAN_PROPAGATION, Type::NanPropagation, of.nan.code())
        })?;
        self.objects.make(Kind::PointwiseOperation, |set| {
            set.object(pointwise::OPERATION_POINTWISE_PW_DESCRIPTOR, settings)?;
            ports.iter().try_for_each(|&(port, object)| set.object(port, object))
        })
    }

    /// `y = (x - mean) / sqrt(variance + epsilon) * scale + bias`, an operation at a time, since
    /// normalisations take inverse deviations only.
    fn inference(
        &mut self, [x_of, y_of, of]: &[TensorDescriptor; 3], epsilon: f64,
    ) -> Result<Vec<*mut c_void>, Option<Failed>> {
        let [x, y] = [self.given(1, x_of)?, self.given(2, y_of)?];
        let [scale, bias, mean, variance] = self.like(of, [3, 4, 5, 6])?;
        let epsilon = self.scalar(7, epsilon, of.dims().rank())?;
        let code = self.compute_code();
        let passing = |graph: &mut Builder, number, like: &TensorDescriptor| {
            let lies = [&*like.dims(), &*like.strides()];
            graph.tensor(number, code, lies, Some(tensor::TENSOR_IS_VIRTUAL))
        };
        let (sum, inverse) = (passing(self, 8, of)?, passing(self, 9, of)?);
        let centred = passing(self, 10, x_of)?;
        let (normal, scaled) = (passing(self, 11, x_of)?, passing(self, 12, x_of)?);
        Ok(vec![
            self.function(mode::ADD, None, &[(X, variance), (B, epsilon), (Y, sum)])?,
            self.function(mode::RSQRT, None, &[(X, sum), (Y, inverse)])?,
            self.function(mode::SUB, None, &[(X, x), (B, mean), (Y, centred)])?,
            self.function(mode::MUL, None, &[(X, centred), (B, inverse), (Y, normal)])?,
            self.function(mode::MUL, None, &[(X, normal), (B, scale), (Y, scaled)])?,
            self.function(mode::ADD, None, &[(X, scaled), (B, bias), (Y, y)])?,
        ])
    }

    fn training(
        &mut self, [x_of, y_of, of]: &[TensorDescriptor; 3], epsilon: f64, factor: Option<f64>,
    ) -> Result<*mut c_void, Option<Failed>> {
        let [x, y] = [self.given(1, x_of)?, self.given(2, y_of)?];
        let [scale, bias, mean, inverse] = self.like(of, [3, 4, 5, 6])?;
        let rank = of.dims().rank();
        let epsilon = self.scalar(11, epsilon, rank)?;
        let mut operands = vec![
            (norm::OPERATION_NORM_FWD_XDESC, x),
            (norm::OPERATION_NORM_FWD_YDESC, y),
            (norm::OPERATION_NORM_FWD_SCALE_DESC, scale),
            (norm::OPERATION_NORM_FWD_BIAS_DESC, bias),
            (norm::OPERATION_NORM_FWD_MEAN_DESC, mean),
            (norm::OPERATION_NORM_FWD_INV_VARIANCE_DESC, inverse),
            (norm::OPERATION_NORM_FWD_EPSILON_DESC, epsilon),
        ];
        if let Some(factor) = factor {
            // The old and the new ones have one memory.
            let [old_mean, old_variance, new_mean, new_variance] = self.like(of, [7, 8, 9, 10])?;
            operands.extend([
                (norm::OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, old_mean),
                (norm::OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, old_variance),
                (norm::OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, new_mean),
                (norm::OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, new_variance),
                (norm::OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, self.scalar(12, factor, rank)?),
            ]);
        }
        Ok(self.objects.make(Kind::NormForward, |set| {
            set.code(norm::OPERATION_NORM_FWD_MODE, Type::NormMode, BATCH_NORM)?;
            set.code(norm::OPERATION_NORM_FWD_PHASE, Type::NormFwdPhase, TRAINING)?;
            operands.iter().try_for_each(|&(at, object)| set.object(at, object))
        })?)
    }

    fn training_gradient(
        &mut self, [x_of, dy_of, dx_of, of]: &[TensorDescriptor; 4], epsilon: f64,
    ) -> Result<*mut c_void, Option<Failed>> {
        let [x, dy, dx] = [self.given(1, x_of)?, self.given(2, dy_of)?, self.given(3, dx_of)?];
        let [scale, d_scale, d_bias, mean, inverse] = self.like(of, [4, 5, 6, 7, 8])?;
        let epsilon = self.scalar(9, epsilon, of.dims().rank())?;
        Ok(self.objects.make(Kind::NormBackward, |set| {
            set.code(norm::OPERATION_NORM_BWD_MODE, Type::NormMode, BATCH_NORM)?;
            for (at, object) in [
                (norm::OPERATION_NORM_BWD_XDESC, x),
                (norm::OPERATION_NORM_BWD_DYDESC, dy),
                (norm::OPERATION_NORM_BWD_DXDESC, dx),
                (norm::OPERATION_NORM_BWD_SCALE_DESC, scale),
                (norm::OPERATION_NORM_BWD_DSCALE_DESC, d_scale),
                (norm::OPERATION_NORM_BWD_DBIAS_DESC, d_bias),
                (norm::OPERATION_NORM_BWD_MEAN_DESC, mean),
                (norm::OPERATION_NORM_BWD_INV_VARIANCE_DESC, inverse),
                (norm::OPERATION_NORM_BWD_EPSILON_DESC, epsilon),
            ] {
                set.object(at, object)?;
            }
            Ok(())
        })?)
    }
}
