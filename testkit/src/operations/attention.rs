//! Attention and its gradients: the formula in binary64, and differences of it.

use cudnn::ops::graph::{Attention, BandMask, Modifier, Pointwise};

use super::*;

const GREATER_OR_EQUAL: i32 = 303;
const ADD: i32 = 0;
const MUL: i32 = 1;
const DIV: i32 = 6;
const TANH: i32 = 101;

/// What becomes of a score.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Nothing,
    /// Minus infinity above the diagonal.
    Causal,
    /// The same, from the last rows and columns that count.
    BottomRight,
    /// A bias of each head.
    Bias,
    /// A narrow bias of each key, then a band as above.
    KeyBias,
    /// `3 tanh(score / 3)`, then a causal band.
    Capped,
}

#[derive(Clone, Debug)]
struct Call {
    batch: i64,
    heads: [i64; 3],
    queries: i64,
    keys: i64,
    widths: [i64; 2],
    of: DataType,
    change: Change,
    lengths: bool,
    sink: bool,
    dropout: f64,
    /// Whether keys and values come in pages of two rows.
    paged: bool,
}

/// The operands in binary64.
#[derive(Clone)]
struct Data {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    bias: Vec<f64>,
    sink: Vec<f64>,
    lengths: [Vec<i64>; 2],
    /// What each weight is multiplied by.
    kept: Vec<f64>,
}

const SCALE: f64 = 0.5;

struct Outcome {
    o: Vec<f64>,
    stats: Vec<f64>,
    max: Vec<f64>,
    sums: Vec<f64>,
}

impl Call {
    fn dims(&self, rows: i64, heads: usize, width: i64) -> [i64; 4] {
        [self.batch, self.heads[heads], rows, width]
    }

    fn has_bias(&self) -> bool {
        matches!(self.change, Change::Bias | Change::KeyBias)
    }

    fn bias_dims(&self) -> [i64; 4] {
        match self.change {
            Change::KeyBias => [self.batch, 1, 1, self.keys],
            _ => [1, self.heads[0], self.queries, self.keys],
        }
    }

    fn changed(&self, score: f64, at: [i64; 4], data: &Data) -> f64 {
        let [batch, _, row, column] = at;
        let [queries, keys] = [&data.lengths[0], &data.lengths[1]].map(|lengths| lengths[batch as usize]);
        let capped = if self.change == Change::Capped { 3.0 * (score / 3.0).tanh() } else { score };
        let bias = if data.bias.is_empty() {
            0.0
        } else {
            let dims = self.bias_dims();
            let place = at.iter().zip(dims).map(|(&index, dim)| index.min(dim - 1));
            let element = place.zip(row_major(&dims)).map(|(index, stride)| index * stride).sum::<i64>();
            data.bias[element as usize]
        };
        let changed = match self.change {
            Change::Causal | Change::Capped if column > row => f64::NEG_INFINITY,
            Change::BottomRight | Change::KeyBias if column > row + keys - queries => f64::NEG_INFINITY,
            _ => capped + bias,
        };
        if row >= queries || column >= keys { f64::NEG_INFINITY } else { changed }
    }

    fn outcome(&self, data: &Data) -> Outcome {
        let [hq, hk, hv] = self.heads;
        let [d, dv] = self.widths;
        let (sq, sk) = (self.queries, self.keys);
        let mut outcome = Outcome { o: Vec::new(), stats: Vec::new(), max: Vec::new(), sums: Vec::new() };
        for i in indices(&[self.batch, hq, sq]) {
            let [b, h, row] = [i[0], i[1], i[2]];
            let (kh, vh) = (h * hk / hq, h * hv / hq);
            let mut scores = Vec::new();
            for column in 0..sk {
                let (q, k) = (((b * hq + h) * sq + row) * d, ((b * hk + kh) * sk + column) * d);
                let dot: f64 = (0..d).map(|j| data.q[(q + j) as usize] * data.k[(k + j) as usize]).sum();
                scores.push(self.changed(SCALE * dot, [b, h, row, column], data));
            }
            let mut max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if self.sink {
                max = max.max(data.sink[h as usize]);
            }
            let shift = if max == f64::NEG_INFINITY { 0.0 } else { max };
            let powers: Vec<f64> = scores.iter().map(|score| (score - shift).exp()).collect();
            let sum = powers.iter().sum::<f64>()
                + if self.sink { (data.sink[h as usize] - shift).exp() } else { 0.0 };
            for j in 0..dv {
                let term = |column: i64| {
                    let at = ((b * hv + vh) * sk + column) * dv + j;
                    let weight = powers[column as usize]
                        * data.kept[(((b * hq + h) * sq + row) * sk + column) as usize];
                    if weight == 0.0 { 0.0 } else { weight / sum * data.v[at as usize] }
                };
                outcome.o.push((0..sk).map(term).sum());
            }
            outcome.stats.push(shift + sum.ln());
            outcome.max.push(max);
            outcome.sums.push(sum);
        }
        outcome
    }
}

/// Tensors of a call.
struct Tensors {
    q: Arc<Tensor>,
    k: Arc<Tensor>,
    v: Arc<Tensor>,
    o: Arc<Tensor>,
    stats: Arc<Tensor>,
    scale: Arc<Tensor>,
    lengths: [Arc<Tensor>; 2],
    bias: Arc<Tensor>,
    sink: Arc<Tensor>,
}

impl Tensors {
    fn new(call: &Call) -> Self {
        let [d, dv] = call.widths;
        // As frameworks have them: heads next to each other.
        let sides = |uid, dims: [i64; 4]| {
            let strides = [dims[1] * dims[2] * dims[3], dims[3], dims[1] * dims[3], 1];
            Arc::new(Tensor::new(uid, call.of, &dims, &strides))
        };
        let bias_type = if call.change == Change::KeyBias { DataType::Bfloat16 } else { DataType::Float };
        Tensors {
            q: sides(1, call.dims(call.queries, 0, d)),
            k: sides(2, call.dims(call.keys, 1, d)),
            v: packed(3, call.of, &call.dims(call.keys, 2, dv)),
            o: sides(4, call.dims(call.queries, 0, dv)),
            stats: float(5, &call.dims(call.queries, 0, 1)),
            scale: by_value(6, DataType::Float, 4),
            lengths: [7, 8].map(|uid| packed(uid, DataType::Int32, &[call.batch, 1, 1, 1])),
            bias: packed(9, bias_type, &call.bias_dims()),
            sink: float(10, &[1, call.heads[0], 1, 1]),
        }
    }

    /// Numbers for all of them, with NaNs beyond the lengths.
    fn fill(&self, call: &Call, problem: &mut Problem, rng: &mut Rng) -> Data {
        let [q, k, v] = [&self.q, &self.k, &self.v].map(|tensor| problem.random(rng, tensor));
        let bias = if call.has_bias() { problem.random(rng, &self.bias) } else { Vec::new() };
        let sink = if call.sink { problem.random(rng, &self.sink) } else { Vec::new() };
        let full = [call.queries, call.keys];
        let lengths = full.map(|full| {
            (0..call.batch)
                .map(|_| if call.lengths { 1 + rng.below(full as usize) as i64 } else { full })
                .collect()
        });
        problem.given.push((Arc::clone(&self.scale), vec![SCALE]));
        let count = (call.batch * call.heads[0] * call.queries * call.keys) as usize;
        let data = Data { q, k, v, bias, sink, lengths, kept: vec![1.0; count] };
        if call.lengths {
            for (tensor, lengths) in self.lengths.iter().zip(&data.lengths) {
                let numbers = lengths.iter().map(|&length| length as f64).collect();
                problem.given.push((Arc::clone(tensor), numbers));
            }
            for (place, which) in [(0, 0), (1, 1), (2, 1)] {
                let (tensor, numbers) = &mut problem.given[place];
                for (i, number) in indices(&tensor.dims).iter().zip(numbers) {
                    if i[2] >= data.lengths[which][i[0] as usize] {
                        *number = f64::NAN;
                    }
                }
            }
        }
        data
    }

    fn reads(&self, call: &Call) -> Vec<(Port, &Arc<Tensor>)> {
        let mut reads =
            vec![(Port::Q, &self.q), (Port::K, &self.k), (Port::V, &self.v), (Port::Scale, &self.scale)];
        if call.lengths {
            reads.extend([(Port::LengthQ, &self.lengths[0]), (Port::LengthKv, &self.lengths[1])]);
        }
        if call.sink {
            reads.push((Port::Sink, &self.sink));
        }
        reads
    }

    /// The graph of the scores, and the numbers that it is given besides.
    fn settings(&self, call: &Call, problem: &mut Problem) -> Attention {
        let dims = [call.batch, call.heads[0], call.queries, call.keys];
        let [input, one, two, output] = [100, 101, 102, 103].map(|uid| hidden(uid, DataType::Float, &dims));
        let (lowest, three) = (by_value(11, DataType::Float, 4), by_value(12, DataType::Float, 4));
        let simple = |mode, reads: &[(Port, &Arc<Tensor>)], y| {
            Operation::new(Kind::Pointwise(Pointwise::new(mode)), reads, &[(Port::Y, y)])
        };
        let band = |x, lengths: bool| {
            let mut reads = vec![(Port::X, x), (Port::B, &lowest)];
            if lengths {
                reads.extend([(Port::LengthQ, &self.lengths[0]), (Port::LengthKv, &self.lengths[1])]);
            }
            let kind = Kind::BandMask(BandMask { comparison: GREATER_OR_EQUAL });
            Operation::new(kind, &reads, &[(Port::Y, &output)])
        };
        let operations = match call.change {
            Change::Nothing => return Attention { dropout: call.dropout, ..Attention::default() },
            Change::Causal => vec![band(&input, false)],
            Change::BottomRight => vec![band(&input, true)],
            Change::Bias => vec![simple(ADD, &[(Port::X, &input), (Port::B, &self.bias)], &output)],
            Change::KeyBias => {
                vec![simple(ADD, &[(Port::X, &self.bias), (Port::B, &input)], &one), band(&one, true)]
            }
            Change::Capped => vec![
                // Not in the order in which they are computed.
                band(&two, false),
                simple(DIV, &[(Port::X, &input), (Port::B, &three)], &one),
                simple(TANH, &[(Port::X, &one)], &hidden(104, DataType::Float, &dims)),
                simple(MUL, &[(Port::X, &hidden(104, DataType::Float, &dims)), (Port::B, &three)], &two),
            ],
        };
        if call.change == Change::Capped {
            problem.given.push((Arc::clone(&three), vec![3.0]));
        }
        if matches!(call.change, Change::Causal | Change::BottomRight | Change::KeyBias | Change::Capped) {
            problem.given.push((Arc::clone(&lowest), vec![f64::NEG_INFINITY]));
        }
        let modifier = Some(Modifier { operations, input: 100, output: 103 });
        Attention { modifier, dropout: call.dropout, ..Attention::default() }
    }
}

fn forward(call: &Call, rng: &mut Rng) -> Problem {
    let mut problem = Problem::new(format!("forward {call:?}"));
    let tensors = Tensors::new(call);
    let mut data = tensors.fill(call, &mut problem, rng);
    let settings = tensors.settings(call, &mut problem);
    let mut reads = tensors.reads(call);
    let rows = call.dims(call.queries, 0, 1);
    let (max, sums) = (float(20, &rows), float(21, &rows));
    let (seed, offset) = (by_value(22, DataType::Int64, 4), by_value(23, DataType::Int64, 4));
    let dump = float(24, &[call.batch, call.heads[0], call.queries, call.keys]);
    let mut writes =
        vec![(Port::O, &tensors.o), (Port::Stats, &tensors.stats), (Port::Max, &max), (Port::SumExp, &sums)];
    if call.dropout > 0.0 {
        let numbers = others::chances(99, 3, 1.0 - call.dropout, data.kept.len() as u64);
        data.kept = numbers.iter().map(|x| x / (1.0 - call.dropout)).collect();
        problem.wanted.push((Arc::clone(&dump), numbers));
        problem.given.push((Arc::clone(&seed), vec![99.0]));
        problem.given.push((Arc::clone(&offset), vec![3.0]));
        reads.extend([(Port::Seed, &seed), (Port::Offset, &offset)]);
        writes.push((Port::Dump, &dump));
    }
    let outcome = call.outcome(&data);
    let tables = if call.paged { paged([&tensors.k, &tensors.v], &mut problem) } else { Vec::new() };
    for (port, container, table) in &tables {
        let place = reads.iter().position(|(other, _)| other == port).expect("it is read");
        reads[place].1 = container;
        reads.push((if *port == Port::K { Port::PagesK } else { Port::PagesV }, table));
    }
    problem.push(Kind::AttentionForward(settings), &reads, &writes);
    // The sum of a row of minus infinity is 0.
    problem.wanted.extend([
        (Arc::clone(&tensors.o), outcome.o),
        (Arc::clone(&tensors.stats), outcome.stats),
        (max, outcome.max),
        (sums, outcome.sums),
    ]);
    problem.bound = if call.of == DataType::Float { 2e-5 } else { 8e-3 };
    problem
}

/// Keys and values as pages of two rows, the last one first, with their tables.
fn paged(tensors: [&Arc<Tensor>; 2], problem: &mut Problem) -> Vec<(Port, Arc<Tensor>, Arc<Tensor>)> {
    let mut tables = Vec::new();
    for (which, (tensor, port)) in tensors.into_iter().zip([Port::K, Port::V]).enumerate() {
        let [batch, heads, rows, width] = tensor.dims[..] else { panic!("four dimensions") };
        let (count, uid) = (rows / 2, 40 + 2 * which as i64);
        let container = packed(uid, DataType::Float, &[batch * count, heads, 2, width]);
        let table = packed(uid + 1, DataType::Int32, &[batch, 1, count, 1]);
        let place = problem.given.iter().position(|(given, _)| given.uid == tensor.uid).expect("it is given");
        let (_, numbers) = problem.given.remove(place);
        let cell = |i: Vec<i64>| {
            let page = batch * count - 1 - i[0];
            let (b, row) = (page / count, page % count * 2 + i[2]);
            numbers[(((b * heads + i[1]) * rows + row) * width + i[3]) as usize]
        };
        let cells = indices(&container.dims).into_iter().map(cell).collect();
        problem.given.push((Arc::clone(&container), cells));
        let pages = (0..batch * count).map(|page| (batch * count - 1 - page) as f64).collect();
        problem.given.push((Arc::clone(&table), pages));
        tables.push((port, container, table));
    }
    tables
}

fn backward(call: &Call, rng: &mut Rng) -> Problem {
    let mut problem = Problem::new(format!("backward {call:?}"));
    let tensors = Tensors::new(call);
    let data = tensors.fill(call, &mut problem, rng);
    let settings = tensors.settings(call, &mut problem);
    let outcome = call.outcome(&data);
    let same = |uid, tensor: &Arc<Tensor>| Arc::new(Tensor { uid, ..(**tensor).clone() });
    let gradient = same(20, &tensors.o);
    let weights = problem.random(rng, &gradient);
    // Beyond the lengths neither the result nor its gradient counts.
    let counts = |i: &[i64]| i[2] < data.lengths[0][i[0] as usize];
    let rows = indices(&tensors.o.dims);
    let spoilt = |numbers: &[f64]| {
        rows.iter().zip(numbers).map(|(i, &x)| if counts(i) { x } else { f64::NAN }).collect()
    };
    let last = problem.given.len() - 1;
    problem.given[last].1 = spoilt(&weights);
    problem.given.push((Arc::clone(&tensors.o), spoilt(&outcome.o)));
    problem.given.push((Arc::clone(&tensors.stats), outcome.stats));
    let loss = |data: &Data| -> f64 {
        let o = call.outcome(data).o;
        let terms = o.iter().zip(&weights).zip(&rows).filter(|(_, i)| counts(i));
        terms.map(|((o, weight), _)| o * weight).sum()
    };
    /// What is moved to see what changes.
    type Part = fn(&mut Data) -> &mut Vec<f64>;
    let parts: [(Part, Port, &Arc<Tensor>); 4] = [
        (|data| &mut data.q, Port::Dq, &tensors.q),
        (|data| &mut data.k, Port::Dk, &tensors.k),
        (|data| &mut data.v, Port::Dv, &tensors.v),
        (|data| &mut data.sink, Port::Dsink, &tensors.sink),
    ];
    let mut results = Vec::new();
    for (uid, (part, port, tensor)) in (30..).zip(parts) {
        let mut moved = data.clone();
        let count = part(&mut moved).len();
        if count == 0 {
            continue;
        }
        let step = 1.0 / 65536.0;
        let slopes = (0..count).map(|k| {
            let mut at = |shift: f64| {
                part(&mut moved)[k] += shift;
                let loss = loss(&moved);
                part(&mut moved)[k] -= shift;
                loss
            };
            (at(step) - at(-step)) / (2.0 * step)
        });
        let result = same(uid, tensor);
        problem.wanted.push((Arc::clone(&result), slopes.collect()));
        results.push((port, result));
    }
    let mut reads = tensors.reads(call);
    reads.extend([(Port::O, &tensors.o), (Port::Do, &gradient), (Port::Stats, &tensors.stats)]);
    let writes: Vec<(Port, &Arc<Tensor>)> = results.iter().map(|(port, result)| (*port, result)).collect();
    problem.push(Kind::AttentionBackward(settings), &reads, &writes);
    problem.bound = if call.of == DataType::Float { 2e-5 } else { 1e-2 };
    problem
}

pub fn problems(rng: &mut Rng) -> Vec<Problem> {
    let plain = Call {
        batch: 2,
        heads: [4, 2, 1],
        queries: 3,
        keys: 5,
        widths: [4, 3],
        of: DataType::Float,
        change: Change::Nothing,
        lengths: false,
        sink: false,
        dropout: 0.0,
        paged: false,
    };
    let calls = [
        plain.clone(),
        Call { change: Change::Causal, queries: 5, ..plain.clone() },
        Call { change: Change::BottomRight, lengths: true, ..plain.clone() },
        Call { change: Change::Bias, sink: true, ..plain.clone() },
        Call { change: Change::KeyBias, lengths: true, of: DataType::Half, ..plain.clone() },
        Call { change: Change::Capped, heads: [2, 2, 2], ..plain.clone() },
        Call { lengths: true, sink: true, ..plain.clone() },
        Call { of: DataType::Half, change: Change::Causal, ..plain.clone() },
        Call { of: DataType::Bfloat16, lengths: true, ..plain.clone() },
    ];
    let mut all: Vec<Problem> = calls.iter().map(|call| forward(call, rng)).collect();
    all.push(forward(&Call { paged: true, lengths: true, keys: 6, ..plain.clone() }, rng));
    all.push(forward(&Call { dropout: 0.25, change: Change::Causal, ..plain }, rng));
    all.extend(calls.iter().map(|call| backward(call, rng)));
    for call in calls.iter().filter(|call| call.lengths) {
        all.extend([forward(call, rng), backward(call, rng)].map(ragged::packed_sequences));
    }
    all
}
