//! What the comparison of the cores is made of: random numbers, tensors with guards, aligned bytes.

use cudnn::desc::{Format, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::mode::Mode;

/// Bytes left free on both sides of a tensor.
const GUARD: usize = 64;

pub use testkit::random::Rng;

/// A tensor's descriptor and the bytes that it spans around its data pointer.
#[derive(Clone, Copy)]
pub struct Tensor {
    pub desc: TensorDescriptor,
    low: i64,
    high: i64,
    /// How far from a multiple of 64 bytes the data may begin: a number of scalars.
    shift: usize,
}

impl Tensor {
    pub fn of(desc: TensorDescriptor) -> Tensor {
        let (low, high) = desc.span();
        let size = desc.data_type().scalar().size() as i64;
        Tensor { desc, low: low * size, high: (high + 1) * size, shift: 0 }
    }

    pub fn shifted(mut self, scalars: usize) -> Tensor {
        self.shift = scalars * self.desc.data_type().scalar().size();
        self
    }

    /// Where the data pointer lies in the tensor's memory.
    pub fn base(&self) -> usize {
        (GUARD as i64 - self.low) as usize / 64 * 64 + 64 + self.shift
    }

    /// Bytes of memory with both guards.
    pub fn size(&self) -> usize {
        self.base() + self.high as usize + GUARD
    }
}

pub fn format(data_type: DataType, format: Format, dims: &[i64]) -> Tensor {
    Tensor::of(
        TensorDescriptor::with_format(data_type, format, dims.len() as i64, dims, Mode::Extended)
            .expect("a descriptor"),
    )
}

pub fn strided(data_type: DataType, dims: &[i64], strides: &[i64]) -> Tensor {
    let rank = dims.len() as i64;
    Tensor::of(
        TensorDescriptor::with_strides(data_type, rank, dims, strides, Mode::Extended).expect("a descriptor"),
    )
}

/// Strides of dims that are packed in `order`, outermost first, with up to `gap` elements behind
/// each dimension.
pub fn packed(dims: &[i64], order: &[usize], gap: usize, rng: &mut Rng) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut step = 1;
    for &axis in order.iter().rev() {
        strides[axis] = step;
        step = step * dims[axis] + rng.below(gap + 1) as i64;
    }
    strides
}

/// Bytes at an address that serves every scalar.
pub struct Words {
    words: Vec<u64>,
    len: usize,
}

impl Words {
    pub fn new(bytes: &[u8]) -> Words {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(whole);
        }
        Words { words, len: bytes.len() }
    }

    pub fn address(&self) -> *const u8 {
        self.words.as_ptr().cast()
    }

    pub fn address_mut(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the vector holds at least `len` bytes.
        unsafe { std::slice::from_raw_parts(self.address(), self.len) }
    }
}
