//! What the tests of cuBLAS share: the libcudnn of this build, arrays of any type, small random
//! numbers.
#![allow(dead_code, reason = "each program uses its part")]

use std::ffi::{CString, c_int, c_void};
use std::sync::Once;

use cudnn_shim_host as _;
use half::{bf16, f16};

/// A handle, or a descriptor.
pub type Object = *mut c_void;

pub const SUCCESS: c_int = 0;
pub const NOT_INITIALIZED: c_int = 1;
pub const INVALID_VALUE: c_int = 7;
pub const EXECUTION_FAILED: c_int = 13;
pub const NOT_SUPPORTED: c_int = 15;

/// Loads the libcudnn that was built with this program, on its CPU core.
pub fn load() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: every test begins here, and waits: nothing reads the environment meanwhile.
        unsafe { std::env::set_var("CUDNN_SHIM_BACKEND", "cpu") };
        let folder = std::env::current_exe().expect("this program").parent().expect("a folder").to_owned();
        let path =
            CString::new(folder.join("libcudnn.so").into_os_string().into_encoded_bytes()).expect("a path");
        // SAFETY: a C string; what this runs is the library's own start.
        let opened = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!opened.is_null(), "{path:?} is not there");
    });
}

/// The types that products have, by their `cudaDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    F32 = 0,
    F64 = 1,
    F16 = 2,
    I8 = 3,
    I32 = 10,
    Bf16 = 14,
}

impl Kind {
    pub fn size(self) -> usize {
        match self {
            Kind::F64 => 8,
            Kind::F32 | Kind::I32 => 4,
            Kind::F16 | Kind::Bf16 => 2,
            Kind::I8 => 1,
        }
    }

    /// The bytes of a number, rounded once.
    pub fn bytes(self, value: f64) -> Vec<u8> {
        match self {
            Kind::F64 => value.to_le_bytes().to_vec(),
            Kind::F32 => (value as f32).to_le_bytes().to_vec(),
            Kind::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
            Kind::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
            Kind::I8 => (value as i8).to_le_bytes().to_vec(),
            Kind::I32 => (value as i32).to_le_bytes().to_vec(),
        }
    }
}

/// Elements of one type in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub kind: Kind,
    bytes: Vec<u8>,
}

impl Array {
    /// NaNs, or what has all bits set.
    pub fn poison(kind: Kind, len: usize) -> Self {
        // Room for alignment is not needed: allocations of this size are aligned to 16 bytes.
        Array { kind, bytes: vec![0xFF; len.max(4) * kind.size()] }
    }

    /// Small whole numbers.
    pub fn random(kind: Kind, len: usize, rng: &mut Rng) -> Self {
        let mut array = Array::poison(kind, len);
        (0..len).for_each(|at| array.set(at, rng.small()));
        array
    }

    pub fn of(kind: Kind, values: &[f64]) -> Self {
        let mut array = Array::poison(kind, values.len());
        values.iter().enumerate().for_each(|(at, &value)| array.set(at, value));
        array
    }

    pub fn set(&mut self, at: usize, value: f64) {
        let size = self.kind.size();
        self.bytes[at * size..][..size].copy_from_slice(&self.kind.bytes(value));
    }

    pub fn get(&self, at: usize) -> f64 {
        let bytes = &self.bytes[at * self.kind.size()..];
        match self.kind {
            Kind::F64 => f64::from_le_bytes(bytes[..8].try_into().unwrap()),
            Kind::F32 => f32::from_le_bytes(bytes[..4].try_into().unwrap()).into(),
            Kind::F16 => f16::from_le_bytes(bytes[..2].try_into().unwrap()).to_f64(),
            Kind::Bf16 => bf16::from_le_bytes(bytes[..2].try_into().unwrap()).to_f64(),
            Kind::I8 => (bytes[0] as i8).into(),
            Kind::I32 => i32::from_le_bytes(bytes[..4].try_into().unwrap()).into(),
        }
    }

    /// Whether every element is the other's, where zeros of both signs are one, and bits that are
    /// no number are the same.
    pub fn agrees(&self, other: &Array) -> bool {
        let size = self.kind.size();
        let same = |at: usize| self.bytes[at * size..][..size] == other.bytes[at * size..][..size];
        self.len() == other.len() && (0..self.len()).all(|at| same(at) || self.get(at) == other.get(at))
    }

    pub fn len(&self) -> usize {
        self.bytes.len() / self.kind.size()
    }

    pub fn ptr(&self) -> *const c_void {
        self.bytes.as_ptr().cast()
    }

    pub fn at(&self, element: usize) -> *const c_void {
        self.bytes[element * self.kind.size()..].as_ptr().cast()
    }

    pub fn mut_ptr(&mut self) -> *mut c_void {
        self.bytes.as_mut_ptr().cast()
    }

    pub fn mut_at(&mut self, element: usize) -> *mut c_void {
        self.bytes[element * self.kind.size()..].as_mut_ptr().cast()
    }
}

/// xorshift64*
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    pub fn small(&mut self) -> f64 {
        self.below(7) as f64 - 3.0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
