//! Indices along a dimension, and the elements that comparing them leaves of a tensor: parts of the
//! plan of an operation.

use super::Port;
use super::steps::Builder;
use super::view::View;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::ops::Compute;
use crate::ops::Role;
use crate::ops::function::Function;

impl Builder<'_> {
    /// The index along a dimension of rank 4, where the operation is of a tile that does not begin
    /// with 0.
    ///
    /// # Errors
    /// Not supported for a dimension of which a tile has no index.
    pub fn line_of_tile(&mut self, rank: usize, axis: usize) -> Result<Option<View>> {
        let Some(lines) = self.lines else { return Ok(None) };
        let line = axis.checked_sub(2).filter(|_| rank == 4).and_then(|line| lines.get(line));
        let line = line.ok_or_else(|| Error::unsupported("an index that tiles do not have"))?;
        self.view(Port::Index, line, Role::Read).map(Some)
    }

    /// The index along a dimension, in dims that have one element elsewhere: by doubling what is
    /// there. Pre: `count > 0`.
    ///
    /// # Errors
    /// As for [`scratch`](Builder::scratch).
    pub fn line(&mut self, rank: usize, axis: usize, count: i64) -> Result<View> {
        if let Some(line) = self.line_of_tile(rank, axis)? {
            return Ok(line);
        }
        let own = if count < 1 << 24 { Compute::Single } else { Compute::Double };
        let compute = std::mem::replace(&mut self.compute, own);
        let one = Dims::filled(rank, 1);
        let mut dims = one;
        dims[axis] = count;
        let line = self.wide(&dims)?;
        self.fill(&line.part(axis, 0, 1, 1)?, 0.0);
        let mut done = 1;
        while done < count {
            let next = done.min(count - done);
            let shift = self.constant(done as f64, &one)?;
            let from = line.part(axis, 0, next, 1)?;
            self.map(&line.part(axis, done, next, 1)?, Function::Add, &[from, shift])?;
            done += next;
        }
        self.compute = compute;
        Ok(line)
    }

    /// `function(a, b)`, in the dims that both broadcast to. Pre: of one rank.
    ///
    /// # Errors
    /// Not supported for dims that do not broadcast.
    pub fn joined(&mut self, function: Function, a: &View, b: &View) -> Result<View> {
        self.joined_with(function, a, b, [1.0; 2])
    }

    /// The same, with the factors as the function's row has them.
    ///
    /// # Errors
    /// As for [`joined`](Builder::joined).
    pub fn joined_with(&mut self, function: Function, a: &View, b: &View, alpha: [f64; 2]) -> Result<View> {
        let mut dims = *a.dims();
        dims.iter_mut().zip(b.dims().iter()).for_each(|(dim, &other)| *dim = (*dim).max(other));
        let to = self.wide(&dims)?;
        self.map_with(&to, function, &[*a, *b], 0.0, alpha)?;
        Ok(to)
    }

    /// 1 where the index along a dimension of `count` elements is below a length, else 0. Pre: as
    /// for [`line`](Builder::line).
    ///
    /// # Errors
    /// Not supported for lengths of another rank.
    pub fn below(&mut self, axis: usize, count: i64, length: &View) -> Result<View> {
        let line = self.line(length.dims().rank(), axis, count)?;
        self.joined(Function::Less, &line, length)
    }

    /// `to = from` where every flag is set, else `other`; all broadcast.
    ///
    /// # Errors
    /// Not supported if they do not.
    pub fn keep(&mut self, to: &View, from: &View, flags: &[View], other: &View) -> Result<()> {
        let Some((first, more)) = flags.split_first() else { return self.transform(to, from) };
        let mut all = *first;
        for flag in more {
            all = self.joined(Function::And, &all, flag)?;
        }
        self.map(to, Function::Select, &[*from, *other, all])
    }
}
