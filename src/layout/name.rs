//! Layouts by name: what programs, frameworks and papers call an arrangement of dimensions in
//! memory, and back.
//!
//! ```text
//!  NCHW, NHWC, CHWN, HWCN, ...      any order of the letters of the rank, the innermost last
//!  BMN, BNM, BMN:row, BMN:col       batches of matrices
//!  NC/32HW32, nChw16c, nCdhw8c      channels in blocks
//!  packed, channels_last            any rank
//!  PyTorch, PyTorch:channels_last, TensorFlow, Caffe, ONNX, NumPy:C, NumPy:F
//! ```
//! Dimensions are given in the usual order (N C H W, N C D H W, B M N) whatever the name.

use super::{DimOrder, Dims, Layout, MAX_RANK, format};
use crate::error::{Error, Result};

/// The dimension that blocked layouts cut.
const CHANNEL: usize = 1;

/// The largest block that a descriptor can have.
const MAX_BLOCK: i64 = 0xffff;

/// What a name stands for at one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrangement {
    /// Dimensions from the outermost to the innermost, as indices into the dims.
    pub order: Vec<usize>,
    /// Channels in blocks of this many, which lie innermost; the order is that of the dims then.
    pub block: Option<i64>,
}

impl Arrangement {
    /// Reads a name for tensors of `rank` dimensions. Names of orders are upper case; names of
    /// frameworks and words in any case.
    ///
    /// # Errors
    /// Bad parameter for a name that is not known or belongs to another rank.
    pub fn parse(name: &str, rank: usize) -> Result<Arrangement> {
        if !(1..=MAX_RANK).contains(&rank) {
            return Err(Error::mismatch(format!(
                "layout {name}: a tensor has 1 to {MAX_RANK} dimensions, not {rank}"
            )));
        }
        if let Some((ranks, block)) = blocked(name) {
            if ranks != rank {
                return Err(other_rank(name, ranks, rank));
            }
            if !(1..=MAX_BLOCK).contains(&block) {
                return Err(Error::mismatch(format!("layout {name}: blocks hold 1 to {MAX_BLOCK} channels")));
            }
            return Ok(Arrangement { order: identity(rank), block: Some(block) });
        }
        let order = |order| Ok(Arrangement { order, block: None });
        match word(name, rank) {
            Some(Ok(dims)) => return order(dims),
            Some(Err(wanted)) => return Err(other_rank(name, wanted, rank)),
            None => {}
        }
        for letters in LETTERS {
            if let Some(dims) = permutation(name, letters) {
                return if letters.len() == rank {
                    order(dims)
                } else {
                    Err(other_rank(name, letters.len(), rank))
                };
            }
        }
        Err(Error::mismatch(format!(
            "layout {name} is not known; known are orders of letters such as NHWC, NCDHW and BNM, NC/32HW32, nChw16c, \
             packed, channels_last, PyTorch:channels_last, TensorFlow, Caffe, ONNX, NumPy:F"
        )))
    }

    /// The packed tensor of these dims; `None` when a stride leaves 64 bits. Pre: as many dims as
    /// the name was read for.
    pub fn layout(&self, dims: &[i64]) -> Option<Layout> {
        match self.block {
            Some(block) => Layout::blocked(dims, CHANNEL, block),
            None => {
                let strides = format::packed_strides(dims, &self.order)?;
                Some(Layout { dims: Dims::new(dims), strides, split: None })
            }
        }
    }
}

/// The letters of each rank in the usual order of dimensions; the first of a rank names layouts.
const LETTERS: [&str; 6] = ["NC", "BMN", "NCW", "NCL", "NCHW", "NCDHW"];

/// The letters by which dims of this rank are named; `None` for ranks that have none.
pub fn letters(rank: usize) -> Option<&'static str> {
    LETTERS.into_iter().find(|letters| letters.len() == rank)
}

/// The dimensions that `wanted` names, each once, as a list of indices; `None` if the rank has no
/// such letters. Of rank 3, letters of both B M N and N C W are read, and N alone as a matrix
/// column.
pub fn dimensions(wanted: &str, rank: usize) -> Option<Vec<usize>> {
    LETTERS.into_iter().filter(|letters| letters.len() == rank).find_map(|letters| {
        let mut found = Vec::new();
        for letter in wanted.chars() {
            let at = letters.find(letter)?;
            if found.contains(&at) {
                return None;
            }
            found.push(at);
        }
        Some(found)
    })
}

impl Layout {
    /// The name of a packed layout, such as `NHWC` or `NC/32HW32`: [`Arrangement::parse`] reads it,
    /// and its layout puts every element where it is here. Where dims of 1 let several names fit,
    /// the commonest. `None` if gaps, repeats, mirrored dims or an order without a name leave none.
    pub fn name(&self) -> Option<String> {
        let plain = self.without_idle_split();
        let rank = plain.dims.rank();
        if let Some(split) = plain.split {
            let packed = Layout::blocked(&plain.dims, split.axis(), split.block())?;
            if split.axis() != CHANNEL || !same_places(&packed, &plain) {
                return None;
            }
            let spatial = letters(rank).filter(|_| rank > 3).unwrap_or("NCW").get(2..)?;
            return (3..=5).contains(&rank).then(|| format!("NC/{x}{spatial}{x}", x = split.block()));
        }
        let fits = |order: &[usize]| {
            format::packed_strides(&plain.dims, order)
                .is_some_and(|strides| same_places(&Layout { strides, ..plain }, &plain))
        };
        // The commonest first: the order of the dims, channels innermost, the other formats, any
        // order.
        let mut orders = vec![identity(rank)];
        orders.extend((rank > 2).then(|| channels_last(rank)));
        orders.extend(DimOrder::ALL.iter().map(|f| f.order().to_vec()).filter(|order| order.len() == rank));
        orders.push(by_stride(&plain));
        let order = orders.into_iter().find(|order| fits(order))?;
        match letters(rank) {
            Some(letters) => Some(order.iter().map(|&k| letters.as_bytes()[k] as char).collect()),
            None if order == identity(rank) => Some("packed".to_owned()),
            None if order == channels_last(rank) => Some("channels_last".to_owned()),
            None if order == reversed(rank) => Some("NumPy:F".to_owned()),
            None => None,
        }
    }

    /// The [name](Layout::name), else `NCHW (HW-packed)` where the innermost letters of a format
    /// are packed, else `strided`.
    pub fn description(&self) -> String {
        if let Some(name) = self.name() {
            return name;
        }
        match DimOrder::recognise(&self.dims, &self.strides).filter(|_| self.split.is_none()) {
            Some((format, packed)) => {
                let name = format.name();
                format!("{name} ({}-packed)", &name[name.len() - packed..])
            }
            None => "strided".to_owned(),
        }
    }

    /// The same places without a split that splits nothing: groups that lie side by side are one
    /// run.
    fn without_idle_split(&self) -> Layout {
        match self.split {
            Some(split) if self.strides[split.axis()] == split.block() && self.padding() == 0 => {
                let mut plain = *self;
                plain.split = None;
                plain.strides[split.axis()] = 1;
                plain
            }
            _ => *self,
        }
    }
}

/// Whether two layouts of equal dims and splits put every element at the same place: strides of
/// dims of 1 do not count, nor those of a single group.
fn same_places(one: &Layout, other: &Layout) -> bool {
    (0..one.dims.rank()).all(|k| one.dims[k] <= one.block(k) || one.strides[k] == other.strides[k])
}

/// Dimensions by decreasing stride, those of extent 1 where they stand in the dims.
fn by_stride(layout: &Layout) -> Vec<usize> {
    let mut order = identity(layout.dims.rank());
    let mut moving: Vec<usize> = order.iter().copied().filter(|&k| layout.dims[k] != 1).collect();
    moving.sort_by_key(|&k| std::cmp::Reverse(layout.strides[k]));
    let mut moving = moving.into_iter();
    for k in &mut order {
        if layout.dims[*k] != 1 {
            *k = moving.next().unwrap_or(*k);
        }
    }
    order
}

/// Channels in blocks: the rank that the name belongs to, and the block. `NC/8DHW8`, `NC/8HW8`,
/// `nCdhw8c`, `nChw8c`.
fn blocked(name: &str) -> Option<(usize, i64)> {
    let rank = |spatial: &str| match spatial {
        "W" | "w" => Some(3),
        "HW" | "hw" => Some(4),
        "DHW" | "dhw" => Some(5),
        _ => None,
    };
    let number =
        |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    if let Some(rest) = name.strip_prefix("NC/") {
        let spatial = rest.trim_matches(|c: char| c.is_ascii_digit());
        let (outer, inner) = rest.split_once(spatial).filter(|_| !spatial.is_empty())?;
        return (outer == inner).then_some(rank(spatial)?).zip(number(outer));
    }
    let rest = name.strip_prefix("nC")?.strip_suffix('c')?;
    let digits = rest.find(|c: char| c.is_ascii_digit())?;
    let (spatial, block) = rest.split_at(digits);
    Some(rank(spatial)?).zip(number(block))
}

/// Names that are no letters: the order, or the rank that the name needs; `None` if it is no such
/// name.
fn word(name: &str, rank: usize) -> Option<Result<Vec<usize>, usize>> {
    let only = |wanted: usize, order: Vec<usize>| if rank == wanted { Ok(order) } else { Err(wanted) };
    Some(match name.to_ascii_lowercase().as_str() {
        "packed"
        | "contiguous"
        | "channels_first"
        | "pytorch"
        | "pytorch:contiguous"
        | "pytorch:contiguous_format"
        | "caffe"
        | "onnx"
        | "numpy"
        | "numpy:c" => Ok(identity(rank)),
        "numpy:f" => Ok(reversed(rank)),
        "channels_last" | "tensorflow" if rank > 2 => Ok(channels_last(rank)),
        "channels_last" | "tensorflow" => Err(3),
        "pytorch:channels_last" => only(4, channels_last(4)),
        "pytorch:channels_last_3d" => only(5, channels_last(5)),
        "bmn:row" => only(3, identity(3)),
        "bmn:col" => only(3, channels_last(3)),
        _ => return None,
    })
}

/// The order that `name` gives to `letters`, if it holds each of them once.
fn permutation(name: &str, letters: &str) -> Option<Vec<usize>> {
    if name.len() != letters.len() {
        return None;
    }
    let mut order = Vec::new();
    for letter in name.chars() {
        let at = letters.find(letter)?;
        if order.contains(&at) {
            return None;
        }
        order.push(at);
    }
    Some(order)
}

fn other_rank(name: &str, wanted: usize, rank: usize) -> Error {
    Error::mismatch(format!("layout {name} belongs to {wanted} dimensions, not {rank}"))
}

fn identity(rank: usize) -> Vec<usize> {
    (0..rank).collect()
}

fn reversed(rank: usize) -> Vec<usize> {
    let mut order = identity(rank);
    order.reverse();
    order
}

fn channels_last(rank: usize) -> Vec<usize> {
    let mut order = identity(rank);
    order[CHANNEL..].rotate_left(1);
    order
}
