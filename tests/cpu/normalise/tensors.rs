//! Tensors of the tests: layouts, memory, and every element's place by groups.

use cudnn::backend::Address;
use cudnn::desc::normalization::BatchNormMode;
use cudnn::desc::{Format, TensorDescriptor};
use cudnn::dtype::{DataType, convert};
use cudnn::mode::Mode;

use testkit::random::Rng;

/// A tensor of these dims: NCHW, NHWC, permuted, with gaps, or backwards.
pub fn laid_out(rng: &mut Rng, data_type: DataType, dims: &[i64]) -> TensorDescriptor {
    let rank = dims.len();
    let format = rng.pick(&[Some(Format::Nchw), Some(Format::Nhwc), None, None]);
    if let Some(format) = format.filter(|&format| rank > 2 || format == Format::Nchw) {
        return TensorDescriptor::with_format(data_type, format, rank as i64, dims, Mode::Extended).unwrap();
    }
    let mut strides = vec![0; rank];
    let mut next = 1;
    for axis in rng.order(rank) {
        strides[axis] = next * rng.pick(&[1, 1, -1]);
        next *= dims[axis] + rng.pick(&[0, 0, 1]);
    }
    TensorDescriptor::with_strides(data_type, rank as i64, dims, &strides, Mode::Extended).unwrap()
}

/// Memory of a tensor.
#[derive(Clone, PartialEq)]
pub struct Memory {
    pub words: Vec<u64>,
    base: usize,
    data_type: DataType,
}

impl Memory {
    /// Numbers around 0, of the tensor's own type.
    pub fn new(rng: &mut Rng, tensor: &TensorDescriptor, far: f64) -> Self {
        let (low, high) = tensor.span();
        let size = tensor.data_type().scalar().size() as i64;
        let count = (high - low + 1) as usize;
        let mut memory = Memory {
            words: vec![0; (count * size as usize).div_ceil(8)],
            base: (-low * size) as usize,
            data_type: tensor.data_type(),
        };
        for i in 0..count {
            memory.set(i as i64 + low, far + (rng.below(4001) as f64 - 2000.0) / 1000.0);
        }
        memory
    }

    pub fn poisoned(tensor: &TensorDescriptor) -> Self {
        let mut memory = Memory::new(&mut Rng(0), tensor, 0.0);
        memory.words.fill(!0);
        memory
    }

    pub fn at(&mut self) -> Address {
        self.words.as_mut_ptr().cast::<u8>().wrapping_add(self.base).into()
    }

    fn cell(&self, offset: i64) -> *mut u8 {
        let cell = self.base as i64 + offset * self.data_type.scalar().size() as i64;
        self.words.as_ptr().cast::<u8>().wrapping_add(cell as usize).cast_mut()
    }

    pub fn set(&mut self, offset: i64, value: f64) {
        // SAFETY: a cell of the memory.
        unsafe {
            match self.data_type {
                DataType::Double => self.cell(offset).cast::<f64>().write(value),
                DataType::Float => self.cell(offset).cast::<f32>().write(value as f32),
                DataType::Half => self.cell(offset).cast::<half::f16>().write(convert::convert(value)),
                DataType::Bfloat16 => self.cell(offset).cast::<half::bf16>().write(convert::convert(value)),
                _ => self.cell(offset).cast::<i8>().write(convert::convert(value)),
            }
        }
    }

    pub fn get(&self, offset: i64) -> f64 {
        // SAFETY: a cell of the memory.
        unsafe {
            match self.data_type {
                DataType::Double => self.cell(offset).cast::<f64>().read(),
                DataType::Float => self.cell(offset).cast::<f32>().read().into(),
                DataType::Half => self.cell(offset).cast::<half::f16>().read().into(),
                DataType::Bfloat16 => self.cell(offset).cast::<half::bf16>().read().into(),
                _ => self.cell(offset).cast::<i8>().read().into(),
            }
        }
    }
}

/// Every element's place in some tensors, by groups.
pub fn groups(mode: BatchNormMode, dims: &[i64], tensors: &[&TensorDescriptor]) -> Vec<Vec<Vec<i64>>> {
    let kept = |k: usize| if mode == BatchNormMode::PerActivation { k != 0 } else { k == 1 };
    let count: i64 = (0..dims.len()).filter(|&k| kept(k)).map(|k| dims[k]).product();
    let mut groups = vec![Vec::new(); count as usize];
    for number in 0..dims.iter().product::<i64>() {
        let (mut rest, mut group, mut step) = (number, 0, 1);
        let mut offsets = vec![0; tensors.len()];
        for k in (0..dims.len()).rev() {
            let here = rest % dims[k];
            rest /= dims[k];
            if kept(k) {
                group += here * step;
                step *= dims[k];
            }
            offsets
                .iter_mut()
                .zip(tensors)
                .for_each(|(offset, tensor)| *offset += here * tensor.strides()[k]);
        }
        groups[group as usize].push(offsets);
    }
    groups
}
