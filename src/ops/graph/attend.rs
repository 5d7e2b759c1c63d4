//! Attention as one operation: a product that makes scores, its factor, masks, the softmax and the
//! product with the values, where nothing else reads what lies between.

use std::sync::Arc;

use super::{Attended, Edge, Graph, Kind, Operation, Port, Tensor, Type, mode};
use crate::dtype::DataType;
use crate::ops::attend::Attend;

/// Dimensions of rows and columns of a matrix.
const ROWS: usize = 2;
const COLUMNS: usize = 3;

/// The graph in which attention of at least `least` queries of a head is one operation; `None` if
/// it has none that is.
pub(super) fn attended(graph: &Graph, least: i64) -> Option<Graph> {
    let mut graph = graph.clone();
    let mut found_any = false;
    while let Some((members, operation)) = (0..graph.operations.len()).find_map(|at| find(&graph, at, least))
    {
        let mut at = 0..;
        graph.operations.retain(|_| !at.next().is_some_and(|at| members.contains(&at)));
        graph.operations.push(operation);
        found_any = true;
    }
    found_any.then_some(graph)
}

/// What an attention is found to be, from its softmax on.
struct Finder<'a> {
    graph: &'a Graph,
    /// The places of its operations.
    members: Vec<usize>,
    reads: Vec<(Port, Arc<Tensor>)>,
    of: Attended,
}

/// The attention around the softmax at this place, if it is one: the places of its operations, and
/// the operation that they are.
fn find(graph: &Graph, softmax: usize, least: i64) -> Option<(Vec<usize>, Operation)> {
    let operation = &graph.operations[softmax];
    let Kind::Softmax(settings) = &operation.kind else { return None };
    let (x, y) = (operation.read(Port::X)?, operation.write(Port::Y)?);
    let stats = operation.write(Port::Stats);
    let is_long = x.dims.get(ROWS).is_some_and(|&rows| rows >= least);
    if !is_long || operation.reads.len() != 1 || operation.writes.len() != 1 + usize::from(stats.is_some()) {
        return None;
    }
    let of = Attended { transposed: [false; 2], log2: settings.log2, padded: false, right: None, left: None };
    let mut finder = Finder { graph, members: vec![softmax], reads: Vec::new(), of };
    let (q, k) = finder.scores(x)?;
    let (v, o) = finder.values(y)?;
    let fits = {
        let matrices = [&q, &k, &v, &o];
        let of_type = [DataType::Float, DataType::Half, DataType::Bfloat16];
        let own = q.data_type;
        let is_narrow = own != DataType::Float.into();
        let are_short = q.dims[COLUMNS] <= Attend::MOST_COLUMNS && o.dims[COLUMNS] <= Attend::MOST_COLUMNS;
        of_type.iter().any(|&known| own == known.into())
            && matrices.iter().all(|matrix| matrix.data_type == own && matrix.dims.rank() == COLUMNS + 1)
            && matrices.iter().all(|matrix| plain(matrix) && !matrix.dims.contains(&0))
            && are_short
            && q.dims[0] == k.dims[0]
            && q.dims[0] == v.dims[0]
            // Indices are exact in binary32.
            && x.dims.iter().all(|&extent| extent < 1 << 24)
            // Weights are multiplied in the type of the matrices.
            && (y.data_type == own || (!is_narrow && y.data_type == DataType::Float.into()))
    };
    let is_of_rows = |stats: &Arc<Tensor>| {
        let [batch, heads, rows, _] = x.dims[..] else { return false };
        stats.data_type == DataType::Float.into() && *stats.dims == [batch, heads, rows, 1] && plain(stats)
    };
    (fits && stats.is_none_or(is_of_rows)).then_some(())?;
    let mut reads = vec![(Port::Q, &q), (Port::K, &k), (Port::V, &v)];
    reads.extend(finder.reads.iter().map(|(port, tensor)| (*port, tensor)));
    let mut writes = vec![(Port::O, &o)];
    writes.extend(stats.map(|stats| (Port::Stats, stats)));
    let operation = Operation::new(Kind::Attend(finder.of.clone()), &reads, &writes);
    Some((finder.members, operation))
}

fn plain(tensor: &Tensor) -> bool {
    tensor.vector.is_none() && tensor.ragged.is_none() && tensor.reorder == 0
}

/// Whether a tensor has one element.
fn is_one(tensor: &Tensor) -> bool {
    tensor.dims.iter().all(|&dim| dim == 1)
}

fn is_double(data_type: Type) -> bool {
    [DataType::Double, DataType::Int32, DataType::Int64].iter().any(|&wide| data_type == wide.into())
}

impl Finder<'_> {
    /// The operation that writes a tensor, which becomes a part of the attention.
    fn writer(&mut self, uid: i64) -> Option<usize> {
        let operations = &self.graph.operations;
        let at = operations
            .iter()
            .position(|operation| operation.writes.iter().any(|link| link.tensor.uid == uid))?;
        self.members.push(at);
        Some(at)
    }

    /// The one operation that reads a tensor of the graph's own.
    fn reader(&self, tensor: &Tensor) -> Option<usize> {
        let reads = |operation: &Operation| {
            operation.reads.iter().filter(|link| link.tensor.uid == tensor.uid).count()
        };
        let operations = &self.graph.operations;
        let is_one = tensor.is_virtual && operations.iter().map(reads).sum::<usize>() == 1;
        is_one.then(|| operations.iter().position(|operation| reads(operation) == 1)).flatten()
    }

    /// Adds a tensor that is read; whether it is the same as before, if there was one.
    fn take(&mut self, port: Port, tensor: &Arc<Tensor>) -> Option<()> {
        match self.reads.iter().find(|(other, _)| *other == port) {
            Some((_, known)) => (known.uid == tensor.uid).then_some(()),
            None => {
                self.reads.push((port, Arc::clone(tensor)));
                plain(tensor).then_some(())
            }
        }
    }

    /// Adds the lengths that an operation has, one or one for each batch.
    fn take_lengths(&mut self, operation: &Operation, batch: i64) -> Option<()> {
        for port in [Port::LengthQ, Port::LengthKv] {
            if let Some(tensor) = operation.read(port) {
                let [batches, 1, 1, 1] = tensor.dims[..] else { return None };
                (batches == batch || batches == 1).then_some(())?;
                self.take(port, tensor)?;
            }
        }
        Some(())
    }

    /// Queries and keys of scores that a softmax reads: masks, the factor and the product, from
    /// the last one to the first.
    fn scores(&mut self, softmax: &Arc<Tensor>) -> Option<(Arc<Tensor>, Arc<Tensor>)> {
        let dims = softmax.dims;
        let [batch, _, _, _] = dims[..] else { return None };
        let mut scores = Arc::clone(softmax);
        let (mut has_band, mut has_scale) = (false, false);
        loop {
            let own = *scores.dims == *dims && scores.data_type == DataType::Float.into();
            (own && self.reader(&scores).is_some()).then_some(())?;
            let at = self.writer(scores.uid)?;
            let operation = &self.graph.operations[at];
            scores = match &operation.kind {
                Kind::Padding(of) if !self.of.padded && !has_band && !has_scale => {
                    let fits = of.value == f64::NEG_INFINITY && [of.rows, of.columns] == [ROWS, COLUMNS];
                    fits.then_some(())?;
                    self.take_lengths(operation, batch)?;
                    self.of.padded = true;
                    Arc::clone(operation.read(Port::X)?)
                }
                Kind::BandMask(of) if !has_scale => {
                    has_band = true;
                    self.band(operation, of.comparison, batch)?;
                    Arc::clone(operation.read(Port::X)?)
                }
                Kind::Pointwise(of) if of.mode == mode::MUL && !has_scale => {
                    (of.alpha == [1.0; 2] && !is_double(of.math)).then_some(())?;
                    has_scale = true;
                    let (x, b) = (operation.read(Port::X)?, operation.read(Port::B)?);
                    let (x, factor) = if is_one(b) { (x, b) } else { (b, x) };
                    (is_one(factor) && !is_one(x) && !is_double(factor.data_type)).then_some(())?;
                    self.take(Port::Scale, factor)?;
                    Arc::clone(x)
                }
                Kind::Matmul(of) => {
                    let is_plain = operation.reads.len() == 2 && !of.transposed[0] && !is_double(of.math);
                    is_plain.then_some(())?;
                    self.of.transposed[0] = !of.transposed[1];
                    return Some((
                        Arc::clone(operation.read(Port::A)?),
                        Arc::clone(operation.read(Port::B)?),
                    ));
                }
                _ => return None,
            };
        }
    }

    /// One side of the band.
    fn band(&mut self, operation: &Operation, comparison: i32, batch: i64) -> Option<()> {
        let ends = [Port::CumulativeQ, Port::CumulativeKv];
        ends.iter().all(|&port| operation.read(port).is_none()).then_some(())?;
        let strict = match comparison {
            mode::GREATER => true,
            mode::GREATER_OR_EQUAL => false,
            _ => return None,
        };
        let (left, right) = (operation.read(Port::LeftBound), operation.read(Port::RightBound));
        let lengths = [Port::LengthQ, Port::LengthKv].map(|port| operation.read(port).is_some());
        // One alone would move the band by itself.
        (lengths[0] == lengths[1] && !(left.is_some() && right.is_some())).then_some(())?;
        self.take_lengths(operation, batch)?;
        self.take(Port::B, operation.read(Port::B)?)?;
        is_one(operation.read(Port::B)?).then_some(())?;
        let (side, port) = match left {
            Some(_) => (&mut self.of.left, Port::LeftBound),
            None => (&mut self.of.right, Port::RightBound),
        };
        side.is_none().then_some(())?;
        *side = Some(Edge { strict, moves: lengths[0] });
        if let Some(bound) = left.or(right) {
            is_one(bound).then_some(())?;
            self.take(port, bound)?;
        }
        Some(())
    }

    /// The values that weights are multiplied by, and the result.
    fn values(&mut self, weights: &Arc<Tensor>) -> Option<(Arc<Tensor>, Arc<Tensor>)> {
        let at = self.reader(weights)?;
        let operation = &self.graph.operations[at];
        let Kind::Matmul(of) = &operation.kind else { return None };
        let is_plain = operation.reads.len() == 2 && !of.transposed[0] && !is_double(of.math);
        (is_plain && operation.read(Port::A)?.uid == weights.uid).then_some(())?;
        self.members.push(at);
        self.of.transposed[1] = of.transposed[1];
        let (v, o) = (operation.read(Port::B)?, operation.write(Port::C)?);
        Some((self.unpadded(v).unwrap_or_else(|| Arc::clone(v)), Arc::clone(o)))
    }

    /// What values were before zeros were put beyond the lengths, which the step does not read.
    fn unpadded(&mut self, v: &Arc<Tensor>) -> Option<Arc<Tensor>> {
        self.reader(v)?;
        let writes = |operation: &Operation| operation.writes.iter().any(|link| link.tensor.uid == v.uid);
        let at = self.graph.operations.iter().position(writes)?;
        let operation = &self.graph.operations[at];
        let Kind::Padding(of) = &operation.kind else { return None };
        // Lengths of keys bound the rows of v.
        let (x, keys) = (operation.read(Port::X)?, operation.read(Port::LengthQ)?);
        let is_of_rows = of.value == 0.0
            && operation.read(Port::LengthKv).is_none()
            && of.rows == ROWS
            && !self.of.transposed[1]
            && x.data_type == v.data_type;
        let is_known =
            self.reads.iter().any(|(port, known)| *port == Port::LengthKv && known.uid == keys.uid);
        (is_of_rows && is_known && self.of.padded).then_some(())?;
        self.members.push(at);
        Some(Arc::clone(x))
    }
}
