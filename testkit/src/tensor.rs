//! Tensors of the contraction tests: memory with guard words around a layout, filled and read one
//! element at a time.

use cudnn::dtype::Scalar;
use cudnn::dtype::convert::{Element, convert};
use cudnn::layout::format::packed_strides;
use cudnn::layout::{Dims, Layout};
use cudnn::ops::contract::Side;

use crate::random::Rng;

/// Bytes around the elements that nothing may write.
const GUARD: usize = 64;

#[derive(Clone)]
pub struct Tensor {
    pub layout: Layout,
    pub scalar: Scalar,
    words: Vec<u64>,
    low: i64,
}

impl Tensor {
    /// Memory for the layout, filled with bytes that are NaN in every floating type.
    pub fn new(layout: Layout, scalar: Scalar) -> Self {
        let (low, high) = layout.padded_span().expect("small");
        let bytes = (high - low + 1) as usize * scalar.size() + 2 * GUARD;
        Tensor { layout, scalar, words: vec![!0; bytes.div_ceil(8)], low }
    }

    /// Without gaps, the dimensions in this order in memory, outermost first; not filled.
    pub fn packed(dims: &[i64], order: &[usize], scalar: Scalar) -> Self {
        let strides = packed_strides(dims, order).unwrap();
        Tensor::new(Layout { dims: Dims::new(dims), strides, split: None }, scalar)
    }

    /// The layout of `dims` in one of the orders that tensors come in; some with gaps, some blocked
    /// in channels.
    pub fn random(dims: &[i64], scalar: Scalar, plain: bool, rng: &mut Rng) -> Self {
        let rank = dims.len();
        let mut order: Vec<usize> = (0..rank).collect();
        match if plain { rng.below(2) } else { rng.below(6) } {
            0 | 3 => {}
            1 | 4 => order[1..].rotate_left(1),
            2 => order.rotate_left(1),
            _ => order = rng.order(rank),
        }
        let mut outer = dims.to_vec();
        if !plain && rng.below(4) == 0 {
            outer.iter_mut().for_each(|d| *d += rng.below(2) as i64);
        }
        let mut layout =
            Layout { dims: Dims::new(dims), strides: packed_strides(&outer, &order).unwrap(), split: None };
        if !plain && rng.below(10) == 0 && rank > 2 && dims[1] % 4 == 0 {
            layout = Layout::blocked(dims, 1, 4).unwrap();
        }
        Tensor::new(layout, scalar)
    }

    /// The same elements, not filled, with some strides turned round, 0 or so small that elements
    /// lie in each other's place.
    pub fn strewn(self, rng: &mut Rng) -> Self {
        let Layout { dims, strides, split: None } = self.layout else { return self };
        let strides: Vec<i64> =
            strides.iter().map(|&stride| rng.pick(&[stride, stride, -stride, -stride, 0, 1, -3])).collect();
        Tensor::new(Layout { dims, strides: Dims::new(&strides), split: None }, self.scalar)
    }

    pub fn side(&self) -> Side<'_> {
        Side { layout: &self.layout, scalar: self.scalar }
    }

    /// Where element 0 lies.
    pub fn base(&mut self) -> *mut u8 {
        let words = self.words.as_mut_ptr().cast::<u8>();
        words.wrapping_add(GUARD).wrapping_offset(-self.low as isize * self.scalar.size() as isize)
    }

    /// All bytes, guards included, and where element 0 lies among them.
    pub fn bytes(&self) -> (&[u8], i64) {
        // SAFETY: the vector holds as many bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast::<u8>(), self.words.len() * 8) };
        (bytes, GUARD as i64 - self.low * self.scalar.size() as i64)
    }

    /// The bytes from the first element to the last one in memory, and where element 0 lies among
    /// them.
    pub fn span(&self) -> (&[u8], i64) {
        let (low, high) = self.layout.padded_span().expect("small");
        let bytes = (high - low + 1) as usize * self.scalar.size();
        (&self.bytes().0[GUARD..GUARD + bytes], -self.low * self.scalar.size() as i64)
    }

    /// The same tensor with these bytes.
    pub fn with_bytes(&self, bytes: &[u8]) -> Self {
        let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
        Tensor { words: words.collect(), ..*self }
    }

    /// The elements in the order of their indices, for loops that read each many times.
    pub fn numbers(&self) -> Vec<f64> {
        let mut numbers = Vec::new();
        each(&self.layout.dims, |at| numbers.push(self.get(at)));
        numbers
    }

    fn place(&self, index: &[i64]) -> *mut u8 {
        let offset = (self.layout.offset(index) - self.low) as usize * self.scalar.size() + GUARD;
        self.words.as_ptr().cast::<u8>().cast_mut().wrapping_add(offset)
    }

    pub fn get(&self, index: &[i64]) -> f64 {
        macro_rules! get {
            ($($scalar:ident $T:ty),*) => {
                match self.scalar {
                    // SAFETY: an element of the memory, aligned as words are.
                    $(Scalar::$scalar => unsafe { self.place(index).cast::<$T>().read() }.to_f64(),)*
                    other => panic!("{other:?} is not used here"),
                }
            };
        }
        get!(F32 f32, F64 f64, F16 half::f16, Bf16 half::bf16, I8 i8, U8 u8, I32 i32, E4m3 cudnn::dtype::convert::E4m3)
    }

    pub fn set(&mut self, index: &[i64], value: f64) {
        macro_rules! set {
            ($($scalar:ident $T:ty),*) => {
                match self.scalar {
                    // SAFETY: an element of the memory, aligned as words are.
                    $(Scalar::$scalar => unsafe {
                        self.place(index).cast::<$T>().write(convert(value))
                    },)*
                    other => panic!("{other:?} is not used here"),
                }
            };
        }
        set!(F32 f32, F64 f64, F16 half::f16, Bf16 half::bf16, I8 i8, U8 u8, I32 i32, E4m3 cudnn::dtype::convert::E4m3)
    }

    /// Sets every element.
    pub fn fill(mut self, mut value: impl FnMut() -> f64) -> Self {
        each(&self.layout.dims.clone(), |index| self.set(index, value()));
        self
    }

    /// Whether all bytes of both are equal, guards and gaps included.
    pub fn same_bytes(&self, other: &Tensor) -> bool {
        self.words == other.words
    }
}

/// Calls `f` with every index of `dims`.
pub fn each(dims: &[i64], mut f: impl FnMut(&[i64])) {
    if dims.contains(&0) {
        return;
    }
    let mut index = vec![0; dims.len()];
    loop {
        f(&index);
        let Some(turn) = (0..dims.len()).rfind(|&d| index[d] + 1 < dims[d]) else { return };
        index[turn] += 1;
        index[turn + 1..].fill(0);
    }
}
