//! The gradients of attention by single operations, in the order and the shapes that cudnn-frontend
//! gives them: matrices are transposed by the strides of views, sums of rows and those of dq in
//! FLOAT are tensors of the caller's.

use cudnn::ops::graph::{BandMask, Matmul, Pointwise, Reduction, Reshape};

use super::masked::{Call, LOWEST, Mask, NEAREST};
use super::*;

/// The tensor of the factor of scores, by value.
pub const SCALE: i64 = 12;
/// The tensor of the factor of sums of rows, by value: 1 without dropout.
pub const ONE: i64 = 13;
/// The tensor of what stands before a window, by value: masks have one each.
pub const LOWEST_BEFORE: i64 = 16;
/// The tensor of statistics.
pub const STATS: i64 = 5;

/// `cudnnPointwiseMode_t`
pub const ADD: i32 = 0;
pub const MUL: i32 = 1;
pub const SUB: i32 = 9;
pub const EXP: i32 = 13;
pub const IDENTITY: i32 = 21;

/// An operation on elements.
pub fn map(mode: i32, reads: &[&Arc<Tensor>], y: &Arc<Tensor>) -> Operation {
    let reads: Vec<_> = [Port::X, Port::B].into_iter().zip(reads.iter().copied()).collect();
    Operation::new(Kind::Pointwise(Pointwise::new(mode)), &reads, &[(Port::Y, y)])
}

fn product(a: &Arc<Tensor>, b: &Arc<Tensor>, c: &Arc<Tensor>) -> Operation {
    let of = Matmul { math: DataType::Float.into(), padding: 0.0, transposed: [false; 2] };
    Operation::new(Kind::Matmul(of), &[(Port::A, a), (Port::B, b)], &[(Port::C, c)])
}

fn sum(x: &Arc<Tensor>, y: &Arc<Tensor>) -> Operation {
    let of = Reduction { operator: 0, math: DataType::Float.into() };
    Operation::new(Kind::Reduction(of), &[(Port::X, x)], &[(Port::Y, y)])
}

fn view(x: &Arc<Tensor>, y: &Arc<Tensor>) -> Operation {
    Operation::new(Kind::Reshape(Reshape { logical: false }), &[(Port::X, x)], &[(Port::Y, y)])
}

/// The same memory with rows and columns the other way about.
fn transposed(x: &Tensor) -> Tensor {
    let mut y = Tensor::clone(x);
    y.dims.swap(2, 3);
    y.strides.swap(2, 3);
    y
}

impl Call {
    /// The operations, what is given but values and statistics, and the results.
    pub fn described(&self) -> (Vec<Operation>, Vec<Arc<Tensor>>, Vec<Arc<Tensor>>) {
        let (_, given, mut results) = self.operations(false);
        let ([q, k, v, o, gradient], [dq, dk, dv]) = (&given[..], &results[..]) else {
            panic!("operands and results of another number")
        };
        let [batch, heads, rows, columns] = self.dims;
        let (all, row) = ([batch, heads, rows, columns], [batch, heads, rows, 1]);
        let number = |uid| by_value(uid, DataType::Float, 4);
        let (scale, one) = (number(SCALE), number(ONE));
        let (stats, row_sums, whole) = (float(STATS, &row), float(14, &row), float(15, &q.dims));
        let mut uids = 200..;
        let mut between = |data_type, dims: &[i64]| hidden(uids.next().expect("uids"), data_type, dims);
        let mut operations = Vec::new();
        let mut mapped = |mode, reads: &[&Arc<Tensor>], y: Arc<Tensor>| {
            operations.push(map(mode, reads, &y));
            y
        };

        let products = mapped(MUL, &[gradient, o], between(DataType::Float, &o.dims));
        let sums = between(DataType::Float, &row);
        mapped(MUL, &[&sums, &one], row_sums.clone());
        let scores = between(DataType::Float, &all);
        let scaled = mapped(MUL, &[&scores, &scale], between(DataType::Float, &all));
        let apart = mapped(SUB, &[&scaled, &stats], between(DataType::Float, &all));
        let [first, second] = [(); 2].map(|()| between(DataType::Float, &all));
        let seen = match self.mask {
            Mask::None => &apart,
            Mask::Causal => &first,
            Mask::Window(_) => &second,
        };
        let weights = mapped(EXP, &[seen], between(DataType::Float, &all));
        let per_weight = between(DataType::Float, &all);
        let distance = mapped(SUB, &[&per_weight, &row_sums], between(DataType::Float, &all));
        let changed = mapped(MUL, &[&distance, &weights], between(DataType::Float, &all));
        let per_score = mapped(MUL, &[&changed, &scale], between(DataType::Float, &all));
        mapped(IDENTITY, &[&whole], dq.clone());

        let band = |comparison, fill, x: &Arc<Tensor>, y: &Arc<Tensor>, bound: Option<Arc<Tensor>>| {
            let (fill, bound) = (number(fill), bound.as_ref().map(|bound| (Port::LeftBound, bound)));
            let reads: Vec<_> = [(Port::X, x), (Port::B, &fill)].into_iter().chain(bound).collect();
            Operation::new(Kind::BandMask(BandMask { comparison }), &reads, &[(Port::Y, y)])
        };
        if !matches!(self.mask, Mask::None) {
            operations.push(band(303, LOWEST, &apart, &first, None));
        }
        if let Mask::Window(_) = self.mask {
            operations.push(band(302, LOWEST_BEFORE, &first, &second, Some(number(NEAREST))));
        }
        operations.extend([sum(&products, &sums), product(q, &Arc::new(transposed(k)), &scores)]);
        operations.push(product(gradient, &Arc::new(transposed(v)), &per_weight));
        let keys =
            Tensor { uid: 100, data_type: DataType::Float.into(), is_virtual: true, ..Tensor::clone(k) };
        let keys = Arc::new(keys);
        operations.extend([view(&Arc::new(transposed(k)), &keys), product(&per_score, &keys, &whole)]);
        for (uid, x, factor, y) in [(101, &weights, gradient, dv), (102, &per_score, q, dk)] {
            let data_type = self.data_type.into();
            let own = Arc::new(Tensor { uid, data_type, ..transposed(x) });
            operations.push(view(x, &own));
            if heads == 1 {
                operations.push(product(&own, factor, y));
                continue;
            }
            let each = between(self.data_type, &[batch, heads, columns, self.width]);
            operations.extend([product(&own, factor, &each), sum(&each, y)]);
        }
        results.extend([row_sums, whole]);
        (operations, given, results)
    }
}
