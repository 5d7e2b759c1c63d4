//! Reads `problems/problems.txt`, the one list of transforms that tests check and benchmarks
//! measure.
#![allow(missing_docs, reason = "no part of the library")]

pub mod devices;

use cudnn::desc::{Format, TensorDescriptor};
use cudnn::dtype::{DataType, Scalar};
use cudnn::layout::format::packed_strides;
use cudnn::mode::Mode;
use cudnn::ops::{Scaling, TransformPlan};

/// One line of the list.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: String,
    pub src: Side,
    pub dst: Side,
    /// Extents in the order of the letters that name the dimensions.
    pub dims: Vec<i64>,
    pub scaling: Scaling,
    letters: Vec<char>,
}

/// One operand of a line.
#[derive(Clone, Debug)]
pub struct Side {
    pub scalar: Scalar,
    /// Letters from the outermost to the innermost dimension; a capital one is blocked.
    pub layout: String,
    /// Dims of the larger tensor that this one is the centre of.
    pub window_of: Option<Vec<i64>>,
}

/// A line as the library takes it.
pub struct Tensors {
    pub src: TensorDescriptor,
    pub dst: TensorDescriptor,
    pub name: String,
    scaling: Scaling,
}

impl Tensors {
    pub fn plan(&self) -> TransformPlan<'_> {
        let plan = TransformPlan::new(&self.src, &self.dst, self.scaling, Mode::Extended);
        plan.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

/// Every line of the list. Panics with the line that cannot be read.
pub fn read() -> Vec<Row> {
    rows("problems/problems.txt", include_str!("../../../problems/problems.txt"))
}

/// Every line of the list in `file`, in the form of `problems.txt`. Panics with the line that
/// cannot be read.
pub fn rows(file: &str, list: &str) -> Vec<Row> {
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| parse(line).unwrap_or_else(|| panic!("{file}: cannot read `{line}`")))
        .collect()
}

fn parse(line: &str) -> Option<Row> {
    let mut words = line.split_whitespace();
    let (name, types, layouts, dims) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let scalar = |name: &str| Scalar::ALL.into_iter().find(|s| s.name() == name);
    let extents = |text: &str| text.split('x').map(|d| d.parse::<i64>().ok()).collect::<Option<Vec<_>>>();
    let ((src, dst), (from, to)) = (types.split_once("->")?, layouts.split_once("->")?);
    let mut row = Row {
        name: name.to_owned(),
        src: Side { scalar: scalar(src)?, layout: from.to_owned(), window_of: None },
        dst: Side { scalar: scalar(dst)?, layout: to.to_owned(), window_of: None },
        dims: extents(dims)?,
        scaling: Scaling::MOVE,
        letters: letters(from),
    };
    for option in words {
        match option.split_once('=')? {
            ("alpha", value) => row.scaling.alpha = value.parse().ok()?,
            ("beta", value) => row.scaling.beta = value.parse().ok()?,
            ("window-of", value) => row.src.window_of = Some(extents(value)?),
            _ => return None,
        }
    }
    (row.letters == letters(to) && row.dims.len() == row.letters.len()).then_some(row)
}

/// The dimensions of a layout in the order of dims: n c d h w, or the alphabet.
fn letters(layout: &str) -> Vec<char> {
    let mut letters: Vec<char> =
        layout.chars().take_while(|c| c.is_alphabetic()).map(|c| c.to_ascii_lowercase()).collect();
    let place = |c: &char| "ncdhw".find(*c).unwrap_or(8 + *c as usize);
    if letters.iter().all(|c| "ncdhw".contains(*c)) {
        letters.sort_by_key(place)
    } else {
        letters.sort()
    }
    letters
}

impl Row {
    /// The transform back, named with a `'`.
    pub fn inverse(&self) -> Row {
        let name = format!("{}'", self.name);
        Row { name, src: self.dst.clone(), dst: self.src.clone(), ..self.clone() }
    }

    /// Bytes read and written, without gaps and padding.
    pub fn bytes(&self) -> usize {
        let cells: i64 = self.dims.iter().product();
        cells as usize * (self.src.scalar.size() + self.dst.scalar.size())
    }

    /// Bytes that memory moves: padding of the destination is written too, that of the source lies
    /// in lines that are read, and with a `beta` the destination is read first.
    pub fn moved_bytes(&self) -> usize {
        let cells: i64 = self.dims.iter().product();
        let channels = self.letters.iter().position(|&c| c == 'c').map(|i| self.dims[i]);
        let padded = |layout: &str| match (block(layout), channels) {
            (Some(block), Some(c)) => (cells / c) as usize * (c as usize).next_multiple_of(block as usize),
            _ => cells as usize,
        };
        let passes = if self.scaling.beta == 0.0 { 1 } else { 2 };
        padded(&self.src.layout) * self.src.scalar.size()
            + padded(&self.dst.layout) * self.dst.scalar.size() * passes
    }

    /// The same with as large a batch as `bytes` holds (rounded up if `at_least`); `None` without a
    /// batch.
    pub fn with_batch_for(&self, bytes: usize, at_least: bool) -> Option<Row> {
        let batch = self.letters.first().filter(|&&c| c == 'n').map(|_| self.dims[0] as usize)?;
        let one = self.bytes() / batch;
        let batch = if at_least { bytes.div_ceil(one) } else { bytes / one };
        Some(self.with_extent(0, batch.max(1) as i64))
    }

    /// The same with another extent of dimension `axis`; a window keeps its margin.
    pub fn with_extent(&self, axis: usize, extent: i64) -> Row {
        let mut row = self.clone();
        let grown = extent - row.dims[axis];
        row.dims[axis] = extent;
        for side in [&mut row.src, &mut row.dst] {
            if let Some(outer) = &mut side.window_of {
                outer[axis] += grown;
            }
        }
        row
    }

    /// The same with its extents halved, longest first, until it has so many cells at most.
    pub fn shrunk(&self, cells: i64) -> Row {
        let mut row = self.clone();
        while row.dims.iter().product::<i64>() > cells {
            let longest = (0..row.dims.len()).max_by_key(|&k| row.dims[k]).expect("there are dims");
            row = row.with_extent(longest, row.dims[longest] / 2 + row.dims[longest] % 2);
        }
        row
    }

    /// The descriptors.
    pub fn tensors(&self) -> Tensors {
        let (src, dst) = (self.descriptor(&self.src), self.descriptor(&self.dst));
        Tensors { src, dst, name: self.name.clone(), scaling: self.scaling }
    }

    fn descriptor(&self, side: &Side) -> TensorDescriptor {
        let data_type = data_type(side.scalar);
        let rank = self.dims.len() as i64;
        let made = match block(&side.layout) {
            Some(block) => TensorDescriptor::with_format(
                data_type,
                Format::Blocked(block),
                rank,
                &self.dims,
                Mode::Extended,
            ),
            None => {
                let place = |c| self.letters.iter().position(|&l| l == c).expect("letters agree");
                let order: Vec<usize> = side.layout.chars().map(place).collect();
                let outer = side.window_of.as_ref().unwrap_or(&self.dims);
                let strides = packed_strides(outer, &order).expect("strides fit");
                TensorDescriptor::with_strides(data_type, rank, &self.dims, &strides, Mode::Extended)
            }
        };
        made.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// `act64 f32->f32 nchw->nhwc 32x64x56x56`
    pub fn title(&self) -> String {
        let dims: Vec<String> = self.dims.iter().map(i64::to_string).collect();
        let (src, dst) = (&self.src, &self.dst);
        format!(
            "{:16} {}->{} {}->{} {}",
            self.name,
            src.scalar.name(),
            dst.scalar.name(),
            src.layout,
            dst.layout,
            dims.join("x")
        )
    }
}

/// Channels per group of a blocked layout.
fn block(layout: &str) -> Option<i64> {
    let digits: String = layout.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn data_type(scalar: Scalar) -> DataType {
    DataType::ALL
        .into_iter()
        .find(|t| t.scalar() == scalar && t.lanes() == 1)
        .expect("every scalar has a type")
}
