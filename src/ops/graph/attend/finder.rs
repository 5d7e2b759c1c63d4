//! What both directions of attention have: the operations around their scores, one after the other.

use std::sync::Arc;

use super::super::expand::REDUCE_ADD;
use super::super::{Attended, Edge, Graph, Kind, Operation, Port, Tensor, Type, mode};
use super::{Attends, Found, Number, Supposed};
use crate::dtype::DataType;

/// Dimensions of heads, and of rows and columns of a matrix.
pub(super) const HEADS: usize = 1;
pub(super) const ROWS: usize = 2;
pub(super) const COLUMNS: usize = 3;

/// What an attention is found to be, from the operation on that makes its weights.
pub(super) struct Finder<'a> {
    pub graph: &'a Graph,
    /// The places of its operations.
    pub members: Vec<usize>,
    /// Numbers and lengths that it reads.
    pub reads: Vec<(Port, Arc<Tensor>)>,
    pub of: Attended,
    /// Whether statistics are subtracted from the scores, by an operation of its own.
    pub is_difference: bool,
    /// The statistics that weights are made again from.
    pub stats: Option<Arc<Tensor>>,
    supposed: Vec<Supposed>,
    /// The derivative of the cap on the way back.
    pub bend: Option<usize>,
    /// What weights are multiplied by behind the softmax, one by one.
    pub kept: Option<Arc<Tensor>>,
    /// Operations beside the attention, which nothing of it is made by.
    pub aside: Vec<usize>,
    /// The gradient of the bias.
    pub of_bias: Option<Arc<Tensor>>,
    /// What the core has.
    pub wanted: Attends,
}

pub(super) fn plain(tensor: &Tensor) -> bool {
    tensor.vector.is_none() && tensor.ragged.is_none() && tensor.reorder == 0
}

/// Whether a tensor has one element.
pub(super) fn is_one(tensor: &Tensor) -> bool {
    tensor.dims.iter().all(|&dim| dim == 1)
}

pub(super) fn is_double(data_type: Type) -> bool {
    [DataType::Double, DataType::Int32, DataType::Int64].iter().any(|&wide| data_type == wide.into())
}

/// Whether a step is for these matrices, of scores of these extents: one type, whose rows are not
/// too long, and indices that are exact in binary32.
pub(super) fn are_for_a_step(matrices: &[&Arc<Tensor>], scores: &Tensor) -> bool {
    let own = matrices[0].data_type;
    let fits = |matrix: &&Arc<Tensor>| {
        matrix.data_type == own
            && matrix.dims.rank() == COLUMNS + 1
            && plain(matrix)
            && !matrix.dims.contains(&0)
            && matrix.dims[0] == matrices[0].dims[0]
    };
    [DataType::Float, DataType::Half, DataType::Bfloat16].iter().any(|&known| own == known.into())
        && matrices.iter().all(fits)
        && scores.dims.iter().all(|&extent| extent < 1 << 24)
}

/// Whether statistics are a number for each row of such scores.
pub(super) fn is_of_rows(stats: &Tensor, scores: &Tensor) -> bool {
    let [batch, heads, rows, _] = scores.dims[..] else { return false };
    stats.data_type == DataType::Float.into() && *stats.dims == [batch, heads, rows, 1] && plain(stats)
}

/// What an operation multiplies by a number, or divides by one, and that.
pub(super) fn scaled(operation: &Operation) -> Option<(&Arc<Tensor>, &Arc<Tensor>)> {
    let (x, b) = (operation.read(Port::X)?, operation.read(Port::B)?);
    let (x, factor) = if is_one(b) { (x, b) } else { (b, x) };
    (is_one(factor) && !is_one(x) && !is_double(factor.data_type)).then_some((x, factor))
}

/// Whether a tensor of the caller's may be added to scores of these extents, or multiply weights.
pub(super) fn is_added(tensor: &Tensor, dims: &[i64]) -> bool {
    let is_known = [DataType::Float, DataType::Half, DataType::Bfloat16]
        .iter()
        .any(|&known| tensor.data_type == known.into());
    let fits = |(&own, &all): (&i64, &i64)| own == all || own == 1;
    is_known
        && !tensor.is_virtual
        && tensor.dims.rank() == dims.len()
        && tensor.dims.iter().zip(dims).all(fits)
}

impl<'a> Finder<'a> {
    /// Nothing but the operation at this place.
    pub fn new(graph: &'a Graph, at: usize, log2: bool, wanted: Attends) -> Self {
        let of = Attended {
            transposed: [false; 2],
            log2,
            padded: false,
            right: None,
            left: None,
            divides: false,
            dropout: None,
        };
        let (reads, supposed) = (Vec::new(), Vec::new());
        Finder {
            graph,
            members: vec![at],
            reads,
            of,
            is_difference: false,
            stats: None,
            supposed,
            bend: None,
            kept: None,
            aside: Vec::new(),
            of_bias: None,
            wanted,
        }
    }

    /// What was found, with these operations in the place of its own.
    pub fn found(self, operations: Vec<Operation>) -> Found {
        Found { members: self.members, operations, supposed: self.supposed }
    }

    /// Supposes a number, or looks at it if it is known.
    pub fn suppose(&mut self, tensor: &Tensor, number: Number) -> Option<()> {
        let is_number = is_one(tensor)
            && tensor.by_value
            && !tensor.is_virtual
            && tensor.data_type == DataType::Float.into();
        is_number.then_some(())?;
        let supposed = Supposed { uid: tensor.uid, number };
        match tensor.constant {
            Some(cell) => supposed.holds(f32::from_bits(cell as u32)).then_some(()),
            None => {
                self.supposed.push(supposed);
                Some(())
            }
        }
    }

    /// The operations that read a tensor of the graph's own, each as often as it does.
    pub fn readers(&self, tensor: &Tensor) -> Vec<usize> {
        let mut readers = if tensor.is_virtual { self.readers_of(tensor.uid) } else { Vec::new() };
        readers.retain(|at| !self.aside.contains(at));
        readers
    }

    /// The operations that read any tensor, likewise.
    pub fn readers_of(&self, uid: i64) -> Vec<usize> {
        let reads = |(at, operation): (usize, &'a Operation)| {
            operation.reads.iter().filter(move |link| link.tensor.uid == uid).map(move |_| at)
        };
        self.graph.operations.iter().enumerate().flat_map(reads).collect()
    }

    /// What a matrix was before zeros were put into its rows beyond these lengths, which the step
    /// does not read; the matrix if something else reads it so.
    pub fn unpadded(&mut self, matrix: &Arc<Tensor>, lengths: Port) -> Arc<Tensor> {
        let graph = self.graph;
        let known = self.reads.iter().find(|(port, _)| *port == lengths).map(|(_, known)| known.uid);
        let before = |operation: &'a Operation| {
            let Kind::Padding(of) = &operation.kind else { return None };
            // The lengths bound the rows of the matrix.
            let (x, own) = (operation.read(Port::X)?, operation.read(Port::LengthQ)?);
            let is_of_rows = of.value == 0.0 && of.rows == ROWS && operation.read(Port::LengthKv).is_none();
            (is_of_rows && Some(own.uid) == known && x.data_type == matrix.data_type).then_some(x)
        };
        let found = self.writer(matrix.uid).and_then(|at| Some((at, before(&graph.operations[at])?)));
        let readers = self.readers(matrix);
        match found {
            Some((at, x))
                if self.of.padded
                    && !readers.is_empty()
                    && readers.iter().all(|reader| self.members.contains(reader)) =>
            {
                self.members.push(at);
                Arc::clone(x)
            }
            _ => Arc::clone(matrix),
        }
    }

    /// The two factors and the result of the product of matrices at this place, which becomes a
    /// part of the attention, if its first factor is transposed as is said here; and whether the
    /// second one is.
    pub fn product(&mut self, at: usize, first: bool) -> Option<([&'a Arc<Tensor>; 3], bool)> {
        let operation = &self.graph.operations[at];
        let Kind::Matmul(of) = &operation.kind else { return None };
        let is_plain = operation.reads.len() == 2 && of.transposed[0] == first && !is_double(of.math);
        is_plain.then_some(())?;
        self.members.push(at);
        let tensors = [operation.read(Port::A)?, operation.read(Port::B)?, operation.write(Port::C)?];
        Some((tensors, of.transposed[1]))
    }

    /// A matrix that is given transposed, or is not, as the step takes it.
    pub fn upright(&self, matrix: &Arc<Tensor>, is_transposed: bool) -> Option<Arc<Tensor>> {
        if !is_transposed {
            return Some(Arc::clone(matrix));
        }
        // What writes a tensor says how it lies.
        let is_given = matrix.dims.rank() == COLUMNS + 1 && self.writer(matrix.uid).is_none();
        is_given.then(|| {
            let mut own = Tensor::clone(matrix);
            own.dims.swap(ROWS, COLUMNS);
            own.strides.swap(ROWS, COLUMNS);
            Arc::new(own)
        })
    }

    /// The operands and the result of the pointwise operation at this place, which becomes a part
    /// of the attention, if it is of this mode and these factors. One operand is both.
    pub fn pointwise(&mut self, at: usize, mode: i32, alpha: [f64; 2]) -> Option<[&'a Arc<Tensor>; 3]> {
        let operation = &self.graph.operations[at];
        let Kind::Pointwise(of) = &operation.kind else { return None };
        (of.mode == mode && of.alpha == alpha && !is_double(of.math)).then_some(())?;
        self.members.push(at);
        let x = operation.read(Port::X)?;
        Some([x, operation.read(Port::B).unwrap_or(x), operation.write(Port::Y)?])
    }

    /// What the sum at this place joins, and the result, likewise.
    pub fn sum(&mut self, at: usize) -> Option<[&'a Arc<Tensor>; 2]> {
        let operation = &self.graph.operations[at];
        let Kind::Reduction(of) = &operation.kind else { return None };
        let is_plain = of.operator == REDUCE_ADD && operation.reads.len() == 1 && !is_double(of.math);
        is_plain.then_some(())?;
        self.members.push(at);
        Some([operation.read(Port::X)?, operation.write(Port::Y)?])
    }

    /// The operation that writes a tensor.
    pub fn writer(&self, uid: i64) -> Option<usize> {
        let writes = |operation: &Operation| operation.writes.iter().any(|link| link.tensor.uid == uid);
        self.graph.operations.iter().position(writes)
    }

    /// The operation that writes a tensor which nothing but this one reads.
    pub fn writer_for(&self, tensor: &Tensor, reader: usize) -> Option<usize> {
        (self.reader(tensor) == Some(reader)).then_some(())?;
        self.writer(tensor.uid)
    }

    /// The one operation that reads a tensor of the graph's own.
    pub fn reader(&self, tensor: &Tensor) -> Option<usize> {
        let readers = self.readers(tensor);
        (readers.len() == 1).then(|| readers[0])
    }

    pub fn has(&self, port: Port) -> bool {
        self.reads.iter().any(|(other, _)| *other == port)
    }

    /// Whether something is added to scores.
    fn is_sum(&self) -> bool {
        self.has(Port::Bias) || self.has(Port::Slopes)
    }

    /// The tensor that it reads at a port.
    pub fn known(&self, port: Port) -> Option<Arc<Tensor>> {
        self.reads.iter().find(|(other, _)| *other == port).map(|(_, tensor)| Arc::clone(tensor))
    }

    /// Adds a tensor that is read; whether it is the same as before, if there was one.
    pub fn take(&mut self, port: Port, tensor: &Arc<Tensor>) -> Option<()> {
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

    /// Queries and keys of the scores that weights are made of: masks, statistics, what is added,
    /// the cap, the factor and the product, from the last one to the first.
    pub fn scores(&mut self, last: &Arc<Tensor>) -> Option<(Arc<Tensor>, Arc<Tensor>)> {
        let dims = last.dims;
        let [batch, _, _, _] = dims[..] else { return None };
        let mut scores = Arc::clone(last);
        // Within a cap there is but the factor.
        let (mut has_band, mut has_cap, mut has_scale) = (false, false, false);
        loop {
            let own = *scores.dims == *dims && scores.data_type == DataType::Float.into();
            (own && self.reader(&scores).is_some()).then_some(())?;
            let at = self.writer(scores.uid)?;
            self.members.push(at);
            let operation = &self.graph.operations[at];
            let is_inside = has_cap || has_scale;
            scores = match &operation.kind {
                Kind::Padding(of) if !self.of.padded && !has_band && !is_inside => {
                    let fits = of.value == f64::NEG_INFINITY && [of.rows, of.columns] == [ROWS, COLUMNS];
                    fits.then_some(())?;
                    self.take_lengths(operation, batch)?;
                    self.of.padded = true;
                    Arc::clone(operation.read(Port::X)?)
                }
                Kind::BandMask(of) if !is_inside => {
                    has_band = true;
                    self.band(operation, of.comparison, batch)?;
                    Arc::clone(operation.read(Port::X)?)
                }
                Kind::Pointwise(of) if of.mode == mode::SUB && self.is_difference && !is_inside => {
                    let is_first = self.stats.is_none() && of.alpha == [1.0; 2] && !is_double(of.math);
                    is_first.then_some(())?;
                    self.stats = operation.read(Port::B).cloned();
                    Arc::clone(operation.read(Port::X)?)
                }
                Kind::Pointwise(of) if of.mode == mode::ADD && !is_inside => {
                    (of.alpha == [1.0; 2] && !is_double(of.math) && self.wanted.changed).then_some(())?;
                    self.added(at, &dims)?
                }
                Kind::Pointwise(of) if of.mode == mode::MUL && !has_scale => {
                    (of.alpha == [1.0; 2] && !is_double(of.math)).then_some(())?;
                    let (x, factor) = scaled(operation)?;
                    if let Some(tanh) = self.tanh(x).filter(|_| !has_cap) {
                        has_cap = true;
                        self.take(Port::Outer, factor)?;
                        self.limited(at, x, tanh, &dims)?
                    } else {
                        has_scale = true;
                        self.take(Port::Scale, factor)?;
                        Arc::clone(x)
                    }
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
        let fill = operation.read(Port::B)?;
        is_one(fill).then_some(())?;
        // Of a difference it would be the weight itself, and have a gradient; of a sum it would be
        // another number for each score.
        let is_changed = self.is_difference || self.is_sum();
        (!is_changed || !self.has(Port::B)).then_some(())?;
        match is_changed {
            true => self.suppose(fill, Number::Lowest)?,
            false => self.take(Port::B, fill)?,
        }
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
}
