//! Attention with masks: the operations of both directions, without what they give.

use cudnn::ops::graph::{Attention, BandMask, Modifier};

use super::*;

/// The tensor of what stands outside of a mask, by value.
pub const LOWEST: i64 = 6;
/// The tensor of a window's bound, by value.
pub const NEAREST: i64 = 7;

/// What the mask of a call is.
#[derive(Clone, Copy, Debug)]
pub enum Mask {
    None,
    Causal,
    /// Columns up to the row, and this many before it.
    Window(i64),
}

/// Queries of several heads on one head of keys and values, whose scores have a mask.
pub struct Call {
    /// Batches, heads, rows and columns of the scores.
    pub dims: [i64; 4],
    /// Columns of every other matrix.
    pub width: i64,
    pub mask: Mask,
    /// The type of all matrices.
    pub data_type: DataType,
}

impl Call {
    /// The operation, forward or its gradient, what is given but values, statistics and results,
    /// and the results.
    pub fn operations(&self, is_forward: bool) -> (Vec<Operation>, Vec<Arc<Tensor>>, Vec<Arc<Tensor>>) {
        let [batch, heads, rows, columns] = self.dims;
        let of = |uid, heads, rows, width| packed(uid, self.data_type, &[batch, heads, rows, width]);
        let (q, k, v) =
            (of(1, heads, rows, self.width), of(2, 1, columns, self.width), of(3, 1, columns, self.width));
        let (o, stats) = (of(4, heads, rows, self.width), float(5, &[batch, heads, rows, 1]));
        let (lowest, bound) = (by_value(LOWEST, DataType::Float, 4), by_value(NEAREST, DataType::Float, 4));
        let all = [batch, heads, rows, columns];
        let [input, between, output] = [100, 101, 102].map(|uid| hidden(uid, DataType::Float, &all));
        let band = |comparison, x: &Arc<Tensor>, y: &Arc<Tensor>, bound: Option<(Port, &Arc<Tensor>)>| {
            let reads: Vec<_> = [(Port::X, x), (Port::B, &lowest)].into_iter().chain(bound).collect();
            Operation::new(Kind::BandMask(BandMask { comparison }), &reads, &[(Port::Y, y)])
        };
        let (operations, last) = match self.mask {
            Mask::None => (Vec::new(), 100),
            Mask::Causal => (vec![band(303, &input, &output, None)], 102),
            Mask::Window(_) => {
                let left = Some((Port::LeftBound, &bound));
                (vec![band(303, &input, &between, None), band(302, &between, &output, left)], 102)
            }
        };
        let modifier = Modifier { operations, input: 100, output: last };
        let modifier = (last != 100).then_some(modifier);
        let settings = Attention { modifier, ..Attention::default() };
        if is_forward {
            let kind = Kind::AttentionForward(settings);
            let reads = [(Port::Q, &q), (Port::K, &k), (Port::V, &v)];
            let writes = [(Port::O, &o), (Port::Stats, &stats)];
            return (
                vec![Operation::new(kind, &reads, &writes)],
                vec![q.clone(), k.clone(), v.clone()],
                vec![o, stats],
            );
        }
        let gradient = of(8, heads, rows, self.width);
        let (dq, dk, dv) =
            (of(9, heads, rows, self.width), of(10, 1, columns, self.width), of(11, 1, columns, self.width));
        let kind = Kind::AttentionBackward(settings);
        let reads = [
            (Port::Q, &q),
            (Port::K, &k),
            (Port::V, &v),
            (Port::O, &o),
            (Port::Do, &gradient),
            (Port::Stats, &stats),
        ];
        let operation = Operation::new(kind, &reads, &[(Port::Dq, &dq), (Port::Dk, &dk), (Port::Dv, &dv)]);
        (
            vec![operation],
            vec![q.clone(), k.clone(), v.clone(), o.clone(), gradient.clone()],
            vec![dq, dk, dv],
        )
    }
}
