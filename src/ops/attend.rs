//! Attend: scaled dot-product attention of many heads in one step, `o = softmax(scale q k^T) v`
//! with a mask, which keeps no matrix of scores; and its gradients.
//!
//! Kinds of steps of their own, because a core that has kernels for them needs no memory between
//! the products: one launch stands for all tiles of all heads. Graphs have them where their
//! strategy asks for it; elsewhere scores are computed tile by tile, by steps of other kinds.

use std::fmt;

use crate::dtype::Scalar;

/// One side of a band: which keys a query does not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// The type of the bound; without one it is 0.
    pub bound: Option<Scalar>,
    /// Whether the comparison is strict.
    pub strict: bool,
    /// Whether the band begins at the last query and key that count, and not at the first ones.
    pub moves: bool,
}

/// `outer tanh(inner x)` of a score x, or `outer tanh(x / inner)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The type of the inner number.
    pub inner: Scalar,
    /// The type of the outer one.
    pub outer: Scalar,
    /// Whether scores are divided by the inner one.
    pub divides: bool,
}

/// Which weights dropout keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A number for each weight, which it is multiplied by: the type, and from batch to batch, head
    /// to head, query to query, key to key, 0 where all have the same.
    Given(Scalar, [i64; 4]),
    /// Those whose random number is not below this one. Their numbers and those that are drawn are
    /// those of [`Random`](crate::ops::Random), of all weights in the order of their batches,
    /// heads, queries and keys. The operand has a seed and the number of the call, which stays.
    Drawn(u64),
}

/// What becomes of weights behind the softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropout {
    /// Which of them are kept.
    pub kept: Kept,
    /// The type of the factor of all.
    pub factor: Scalar,
}

/// Operands o, statistics, q, k, v, scale, fill, lengths of queries and of keys, bounds on the
/// right and on the left, bias, inner and outer number of the cap, sink, what dropout keeps and its
/// factor, slopes.
///
/// A score is `scale` times the product of a row of q and one of k, [capped](Cap), and the bias of
/// both, if there is a cap or a bias; with slopes also that of the head times the number of the key
/// less that of the query. With lengths
/// [counted](Attend::padded), scores beyond them are minus infinity. Else a query in `row` sees the
/// key in `column` if `row + bound >= column` (on the right), and if `column + bound >= row` (on
/// the left), each `>` where it is strict, and where the band moves with the length of keys less
/// that of queries added to the side of the row. A score that is not seen is `fill`, or minus
/// infinity if there is none. A sink is one more score of each row, whose value is zeros. A row of
/// minus infinity gives zeros. With dropout a weight is multiplied by its number and the factor; a
/// value whose weight is 0 counts for nothing.
///
/// The statistics are `max + log(sum of exp(score - max))`, of which a largest score of minus
/// infinity counts as the lowest number of binary32. Sums are binary32, in an order of each core's
/// own that depends on nothing but the row.
///
/// # Memory
/// Matrices and the bias have any strides. Keys and values beyond the lengths are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attend {
    /// Batches, heads, queries and keys.
    pub extents: [i64; 4],
    /// Heads of keys, and of values; each divides the heads of queries, of which neighbours share
    /// one.
    pub heads: [i64; 2],
    /// Columns of q and k, and of v and o.
    pub widths: [i64; 2],
    /// Type of all matrices: binary32, binary16 or bfloat16.
    pub scalar: Scalar,
    /// Of o, q, k and v: from batch to batch, head to head, row to row, column to column.
    pub strides: [[i64; 4]; 4],
    /// The same of the statistics, in binary32, if they are wanted.
    pub stats: Option<[i64; 3]>,
    /// Whether statistics are logarithms to base 2.
    pub log2: bool,
    /// The type of the factor, if there is one.
    pub scale: Option<Scalar>,
    /// The type of what stands outside of the band, if it is given.
    pub fill: Option<Scalar>,
    /// The type of lengths of queries and of keys, and from batch to batch.
    pub lengths: [Option<(Scalar, i64)>; 2],
    /// Whether nothing counts beyond these lengths.
    pub padded: bool,
    /// What keys on the right a query does not see.
    pub right: Option<Side>,
    /// The same on the left.
    pub left: Option<Side>,
    /// The type of the bias, as matrices may have it, and from batch to batch, head to head, query
    /// to query, key to key: 0 where all have the same.
    pub bias: Option<(Scalar, [i64; 4])>,
    /// What scores are limited by before that.
    pub cap: Option<Cap>,
    /// The type of the sinks, and from head to head.
    pub sink: Option<(Scalar, i64)>,
    /// What weights are multiplied by, which statistics do not know of.
    pub dropout: Option<Dropout>,
    /// The type of the slopes, and from head to head.
    pub slopes: Option<(Scalar, i64)>,
}

impl Attend {
    /// How many operands a step has, the first of which are written.
    pub const OPERANDS: usize = 18;
    /// Which operand q is; those before it are results.
    pub const Q: usize = 2;
    /// Which operand the bias is. Nothing changes a score or a weight if no operand from there on
    /// is touched.
    pub const BIAS: usize = 11;
    /// Which operand the inner number of the cap is.
    pub const INNER: usize = 12;
    /// Which the outer one is.
    pub const OUTER: usize = 13;
    /// Which the sinks are.
    pub const SINK: usize = 14;
    /// Which are the numbers of the weights, or what they are drawn with.
    pub const KEPT: usize = 15;
    /// Which the factor of dropout is.
    pub const FACTOR: usize = 16;
    /// Which the slopes are.
    pub const SLOPES: usize = 17;
    /// The most columns of a matrix, on any core.
    pub const MOST_COLUMNS: i64 = 256;

    /// Scalar types of all operands; of those that are not touched, that of q.
    pub fn scalars(&self) -> [Scalar; Self::OPERANDS] {
        let of = self.scalar;
        let [queries, keys] = self.lengths.map(|length| length.map_or(of, |(scalar, _)| scalar));
        let [right, left] =
            [self.right, self.left].map(|side| side.and_then(|side| side.bound).unwrap_or(of));
        let [scale, fill] = [self.scale, self.fill].map(|number| number.unwrap_or(of));
        let bias = self.bias.map_or(of, |(scalar, _)| scalar);
        let [inner, outer] = self.cap.map_or([of; 2], |cap| [cap.inner, cap.outer]);
        let sink = self.sink.map_or(of, |(scalar, _)| scalar);
        let [kept, factor] = self.dropout.map_or([of; 2], |Dropout { kept, factor }| match kept {
            Kept::Given(scalar, _) => [scalar, factor],
            Kept::Drawn(_) => [Scalar::I64, factor],
        });
        let slopes = self.slopes.map_or(of, |(scalar, _)| scalar);
        let stats = Scalar::F32;
        [
            of, stats, of, of, of, scale, fill, queries, keys, right, left, bias, inner, outer, sink, kept,
            factor, slopes,
        ]
    }

    /// Which operands are touched.
    pub fn touches(&self) -> [bool; Self::OPERANDS] {
        let [queries, keys] = self.lengths.map(|length| length.is_some());
        let [right, left] = [self.right, self.left].map(|side| side.is_some_and(|side| side.bound.is_some()));
        let stats = self.stats.is_some();
        let (scale, fill) = (self.scale.is_some(), self.fill.is_some());
        let (bias, cap, sink) = (self.bias.is_some(), self.cap.is_some(), self.sink.is_some());
        let (drops, slopes) = (self.dropout.is_some(), self.slopes.is_some());
        [
            true, stats, true, true, true, scale, fill, queries, keys, right, left, bias, cap, cap, sink,
            drops, drops, slopes,
        ]
    }

    /// Whether scores are more than products, there is one more, or weights change.
    pub fn is_changed(&self) -> bool {
        self.touches()[Self::BIAS..].contains(&true)
    }

    /// Whether there is nothing to compute.
    pub fn is_empty(&self) -> bool {
        let [batch, heads, rows, _] = self.extents;
        [batch, heads, rows, self.widths[1]].contains(&0)
    }
}

/// Types, extents and strides in one line, for the log.
impl fmt::Display for Attend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("attend ")?;
        self.list(f)
    }
}

/// Numbers with commas between them.
fn list(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

impl Attend {
    /// What follows the name of the step in its line.
    fn list(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([batch, heads, rows, keys], [of_k, of_v]) = (self.extents, self.heads);
        write!(f, "{} {batch}x{heads}x{rows}x{keys}", self.scalar.name())?;
        write!(f, " widths={} heads={of_k},{of_v}", list(&self.widths))?;
        for (name, strides) in ["o", "q", "k", "v"].into_iter().zip(&self.strides) {
            write!(f, " {name}=({})", list(strides))?;
        }
        self.stats.map_or(Ok(()), |strides| write!(f, " stats=({})", list(&strides)))?;
        if self.log2 {
            f.write_str(" log2")?;
        }
        for (name, number) in [("scale", self.scale), ("fill", self.fill)] {
            number.map_or(Ok(()), |scalar| write!(f, " {name}={}", scalar.name()))?;
        }
        for (name, length) in ["queries", "keys"].into_iter().zip(self.lengths) {
            length.map_or(Ok(()), |(scalar, step)| write!(f, " {name}={}*{step}", scalar.name()))?;
        }
        if self.padded {
            f.write_str(" padded")?;
        }
        for (name, side) in [("right", self.right), ("left", self.left)] {
            let Some(Side { bound, strict, moves }) = side else { continue };
            write!(f, " {name}={}", bound.map_or("none", Scalar::name))?;
            f.write_str(if strict { " strict" } else { "" })?;
            f.write_str(if moves { " moves" } else { "" })?;
        }
        if let Some((scalar, strides)) = self.bias {
            write!(f, " bias={}({})", scalar.name(), list(&strides))?;
        }
        self.slopes.map_or(Ok(()), |(scalar, step)| write!(f, " slopes={}*{step}", scalar.name()))?;
        if let Some(Cap { inner, outer, divides }) = self.cap {
            write!(f, " cap={},{}", inner.name(), outer.name())?;
            f.write_str(if divides { " divides" } else { "" })?;
        }
        self.sink.map_or(Ok(()), |(scalar, step)| write!(f, " sink={}*{step}", scalar.name()))?;
        let Some(Dropout { kept, factor }) = self.dropout else { return Ok(()) };
        write!(f, " dropout={}", factor.name())?;
        match kept {
            Kept::Given(scalar, strides) => write!(f, " kept={}({})", scalar.name(), list(&strides)),
            Kept::Drawn(threshold) => write!(f, " threshold={threshold}"),
        }
    }
}

/// The gradients of [`Attend`] from that of its result.
///
/// Operands dq, dk, dv, do, and those of [`Attend`], which are all read: o, statistics, q, k, v,
/// scale, fill, lengths of queries and of keys, bounds on the right and on the left, bias, both
/// numbers of the cap, sink, what dropout keeps and its factor, slopes; then the inverse of that
/// factor, and the gradient of the bias, which is written.
///
/// With scores as [`Attend`] has them, `p = exp(score - statistics)`, where statistics below the
/// lowest number of binary32 count as that, `m` what dropout multiplies a weight by, or 1, and
/// `d = sum of do * o` along a row: `dv` sums `m p do` over the rows, `dq` sums `scale ds k` over
/// the keys, and `dk` sums `scale ds q` over the rows, where `ds = p (m do v^T - d)` times the
/// slope of the cap, and 0 for what is outside of the band. If the inverse of the factor is given,
/// `d` is multiplied by both. The gradient of the bias is `ds` without that slope, summed over the
/// batches and heads that have the same, in their order. Of sinks and slopes there is no gradient.
/// Heads of queries that share a head of keys or values are summed. Sums are binary32, in an order
/// of each core's own that depends on nothing but the row of a result.
///
/// # Memory
/// Matrices have any strides. No row beyond the lengths is read; those of results are zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttendBackward {
    /// The attention, which has statistics.
    pub forward: Attend,
    /// Of dq, dk, dv and do: from batch to batch, head to head, row to row, column to column.
    pub strides: [[i64; 4]; 4],
    /// The type of the inverse of the factor of dropout, if it is given.
    pub inverse: Option<Scalar>,
    /// The type of the gradient of the bias, as matrices may have it, if it is wanted, and from
    /// batch to batch, head to head, query to query, key to key. Of batches or heads that have the
    /// same it is 0.
    pub bias: Option<(Scalar, [i64; 4])>,
}

impl AttendBackward {
    /// How many operands a step has, the first of which are written, and the last one.
    pub const OPERANDS: usize = Self::BIAS + 1;
    /// Which operand do is; those before it are results.
    pub const DO: usize = 3;
    /// Which operand is the first of those of the attention.
    pub const FORWARD: usize = 4;
    /// Which operand the inverse of the factor of dropout is.
    pub const INVERSE: usize = Self::FORWARD + Attend::OPERANDS;
    /// Which the gradient of the bias is.
    pub const BIAS: usize = Self::INVERSE + 1;

    /// Scalar types of all operands, as [`Attend::scalars`] has them.
    pub fn scalars(&self) -> [Scalar; Self::OPERANDS] {
        let (own, of) = (self.forward.scalar, self.forward.scalars());
        std::array::from_fn(|k| match k {
            Self::INVERSE => self.inverse.unwrap_or(own),
            Self::BIAS => self.bias.map_or(own, |(scalar, _)| scalar),
            _ if k < Self::FORWARD => own,
            _ => of[k - Self::FORWARD],
        })
    }

    /// Which operands are touched.
    pub fn touches(&self) -> [bool; Self::OPERANDS] {
        let of = self.forward.touches();
        std::array::from_fn(|k| match k {
            Self::INVERSE => self.inverse.is_some(),
            Self::BIAS => self.bias.is_some(),
            _ => k < Self::FORWARD || of[k - Self::FORWARD],
        })
    }

    /// Whether scores are more than products, weights change, or more is wanted than gradients of
    /// matrices.
    pub fn is_changed(&self) -> bool {
        self.touches()[Self::FORWARD + Attend::BIAS..].contains(&true)
    }

    /// Whether there is nothing to compute.
    pub fn is_empty(&self) -> bool {
        let [batch, heads, ..] = self.forward.extents;
        [batch, heads].contains(&0)
    }
}

/// As the attention, and the strides of its gradients.
impl fmt::Display for AttendBackward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("attend backward ")?;
        self.forward.list(f)?;
        for (name, strides) in ["dq", "dk", "dv", "do"].into_iter().zip(&self.strides) {
            write!(f, " {name}=({})", list(strides))?;
        }
        self.inverse.map_or(Ok(()), |scalar| write!(f, " inverse={}", scalar.name()))?;
        let Some((scalar, strides)) = self.bias else { return Ok(()) };
        write!(f, " dbias={}({})", scalar.name(), list(&strides))
    }
}
