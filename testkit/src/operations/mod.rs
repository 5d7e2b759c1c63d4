//! Tensors of graphs in memory, and operations with what they give, computed by plain loops in
//! binary64.

mod attention;
mod blocks;
pub mod described;
pub mod masked;
mod others;
mod ragged;

use std::sync::Arc;

use cudnn::dtype::DataType;
use cudnn::ops::graph::{Kind, Operation, Port, Tensor};
use half::{bf16, f16};

use crate::random::Rng;

pub fn row_major(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for k in (1..dims.len()).rev() {
        strides[k - 1] = strides[k] * dims[k];
    }
    strides
}

pub fn packed(uid: i64, data_type: DataType, dims: &[i64]) -> Arc<Tensor> {
    Arc::new(Tensor::new(uid, data_type, dims, &row_major(dims)))
}

pub fn float(uid: i64, dims: &[i64]) -> Arc<Tensor> {
    packed(uid, DataType::Float, dims)
}

pub fn hidden(uid: i64, data_type: DataType, dims: &[i64]) -> Arc<Tensor> {
    Arc::new(Tensor { is_virtual: true, ..Tensor::new(uid, data_type, dims, &row_major(dims)) })
}

pub fn by_value(uid: i64, data_type: DataType, rank: usize) -> Arc<Tensor> {
    Arc::new(Tensor { by_value: true, ..Tensor::new(uid, data_type, &vec![1; rank], &vec![1; rank]) })
}

pub fn data_type(tensor: &Tensor) -> DataType {
    match tensor.data_type {
        cudnn::ops::graph::Type::Known(data_type) => data_type,
        other => panic!("{other}"),
    }
}

/// Every index tuple, the last dimension fastest.
pub fn indices(dims: &[i64]) -> Vec<Vec<i64>> {
    let count: i64 = dims.iter().product();
    let strides = row_major(dims);
    (0..count).map(|i| (0..dims.len()).map(|k| i / strides[k] % dims[k]).collect()).collect()
}

pub fn offset(index: &[i64], tensor: &Tensor) -> usize {
    index.iter().zip(tensor.strides.iter()).map(|(i, s)| i * s).sum::<i64>() as usize
}

/// What numbers, in the order of the dimensions, are in memory; bytes between them are all ones.
pub fn words(tensor: &Tensor, numbers: &[f64]) -> Vec<u64> {
    let places: Vec<usize> = indices(&tensor.dims).iter().map(|index| offset(index, tensor)).collect();
    let size = data_type(tensor).size();
    let words = (places.iter().max().unwrap_or(&0) + 1) * size / 8 + 1;
    let mut bytes = vec![0xff_u8; words * 8];
    for (at, x) in places.iter().zip(numbers) {
        let cell = match data_type(tensor) {
            DataType::Float => (*x as f32).to_le_bytes().to_vec(),
            DataType::Double => x.to_le_bytes().to_vec(),
            DataType::Half => f16::from_f64(*x).to_le_bytes().to_vec(),
            DataType::Bfloat16 => bf16::from_f64(*x).to_le_bytes().to_vec(),
            DataType::Int32 => (*x as i32).to_le_bytes().to_vec(),
            DataType::Int64 => (*x as i64).to_le_bytes().to_vec(),
            DataType::Boolean => vec![u8::from(*x != 0.0)],
            DataType::Uint8 => vec![*x as u8],
            other => panic!("no numbers of {other:?} here"),
        };
        bytes[at * size..][..size].copy_from_slice(&cell);
    }
    bytes.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().expect("8 bytes"))).collect()
}

/// The numbers of a tensor in memory.
pub fn numbers(tensor: &Tensor, words: &[u64]) -> Vec<f64> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let size = data_type(tensor).size();
    let number = |index: &Vec<i64>| {
        let cell = &bytes[offset(index, tensor) * size..][..size];
        match data_type(tensor) {
            DataType::Float => f32::from_le_bytes(cell.try_into().expect("4 bytes")).into(),
            DataType::Double => f64::from_le_bytes(cell.try_into().expect("8 bytes")),
            DataType::Half => f16::from_le_bytes(cell.try_into().expect("2 bytes")).into(),
            DataType::Bfloat16 => bf16::from_le_bytes(cell.try_into().expect("2 bytes")).into(),
            DataType::Int32 => i32::from_le_bytes(cell.try_into().expect("4 bytes")).into(),
            DataType::Int64 => i64::from_le_bytes(cell.try_into().expect("8 bytes")) as f64,
            DataType::Boolean | DataType::Uint8 => cell[0].into(),
            other => panic!("no numbers of {other:?} here"),
        }
    };
    indices(&tensor.dims).iter().map(number).collect()
}

/// A graph, what it is given and what it has to give.
pub struct Problem {
    pub name: String,
    pub operations: Vec<Operation>,
    pub given: Vec<(Arc<Tensor>, Vec<f64>)>,
    pub wanted: Vec<(Arc<Tensor>, Vec<f64>)>,
    /// Of the largest element of each result.
    pub bound: f64,
}

impl Problem {
    fn new(name: impl Into<String>) -> Self {
        Problem {
            name: name.into(),
            operations: Vec::new(),
            given: Vec::new(),
            wanted: Vec::new(),
            bound: 1e-5,
        }
    }

    /// Numbers of the type of the tensor, from -2 to 2.
    fn random(&mut self, rng: &mut Rng, tensor: &Arc<Tensor>) -> Vec<f64> {
        let count: i64 = tensor.dims.iter().product();
        let numbers: Vec<f64> = (0..count).map(|_| (rng.below(257) as f64 - 128.0) / 64.0).collect();
        self.given.push((Arc::clone(tensor), numbers.clone()));
        numbers
    }

    fn push(&mut self, kind: Kind, reads: &[(Port, &Arc<Tensor>)], writes: &[(Port, &Arc<Tensor>)]) {
        self.operations.push(Operation::new(kind, reads, writes));
    }

    /// The operation that is attention, forward or backward.
    pub fn attention(&self) -> Option<&Operation> {
        let is_attention =
            |kind: &Kind| matches!(kind, Kind::AttentionForward(_) | Kind::AttentionBackward(_));
        self.operations.iter().find(|operation| is_attention(&operation.kind))
    }

    /// The problem without the maxima and sums of attention, which is one step then.
    #[must_use]
    pub fn without_maxima(mut self) -> Self {
        let is_extra = |port: Port| matches!(port, Port::Max | Port::SumExp);
        let attention = |operation: &&mut Operation| matches!(operation.kind, Kind::AttentionForward(_));
        for operation in self.operations.iter_mut().filter(attention) {
            let extra = operation.writes.iter().filter(|link| is_extra(link.port));
            let extra: Vec<i64> = extra.map(|link| link.tensor.uid).collect();
            operation.writes.retain(|link| !is_extra(link.port));
            self.wanted.retain(|(tensor, _)| !extra.contains(&tensor.uid));
        }
        self
    }

    /// Compares what the graph left.
    pub fn check(&self, got: &dyn Fn(&Tensor) -> Vec<f64>) {
        for (tensor, want) in &self.wanted {
            let got = got(tensor);
            assert_eq!(got.len(), want.len(), "{}", self.name);
            let largest = want.iter().filter(|x| x.is_finite()).fold(1.0_f64, |a, x| a.max(x.abs()));
            for (k, (a, b)) in got.iter().zip(want).enumerate() {
                let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= self.bound * largest;
                assert!(same, "{}, tensor {}: element {k} is {a} instead of {b}", self.name, tensor.uid);
            }
        }
    }
}

/// All problems.
pub fn problems() -> Vec<Problem> {
    let mut rng = Rng(77);
    let mut all = others::problems(&mut rng);
    all.extend(attention::problems(&mut rng));
    all.extend(blocks::problems());
    all
}
