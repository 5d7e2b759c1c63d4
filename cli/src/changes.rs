//! Padding, cropping and folding: what the arguments of `cudnn-shim transform` ask for.

use clap::ArgMatches;

use crate::arguments::List;
use crate::library::Change;
use crate::{Failure, Result};

/// Padding, cropping and folding that the arguments ask for.
pub fn change(given: &ArgMatches, dims: &[i64]) -> Result<Option<Change>> {
    let rank = dims.len();
    let list = |name: &str| given.get_one::<List>(name).map(|list| &list.0);
    let mut change = Change { before: vec![0; rank], after: vec![0; rank], ..Change::default() };
    if let Some(&multiple) = given.get_one::<i64>("pad-channels") {
        change.after[1] = (multiple - dims[1] % multiple) % multiple;
    }
    if let Some(&channels) = given.get_one::<i64>("channels") {
        if channels > dims[1] {
            return Err(Failure::new(format!("--channels {channels}: the source has {}", dims[1])));
        }
        change.after[1] = channels - dims[1];
    }
    if let Some(edges) = list("crop") {
        let [top, bottom, left, right] = edges[..] else {
            return Err(Failure::new("--crop takes four numbers: top, bottom, left, right"));
        };
        if rank < 4 || edges.iter().any(|&edge| edge < 0) {
            return Err(Failure::new("--crop takes numbers of rows and columns of 4 or more dimensions"));
        }
        for (dim, before, after) in [(rank - 2, top, bottom), (rank - 1, left, right)] {
            (change.before[dim], change.after[dim]) = (-before, -after);
        }
    }
    change.unfold = list("unfold").is_some();
    if let Some(factors) = list("fold").or(list("unfold")) {
        if factors.len() != rank - 2 || factors.iter().any(|&factor| factor < 1) {
            return Err(Failure::new(format!("a fold takes {} factors of at least 1", rank - 2)));
        }
        change.fold = factors.clone();
    }
    let idle = Change { before: vec![0; rank], after: vec![0; rank], ..Change::default() };
    Ok((change != idle).then_some(change))
}

/// Extents behind a change.
pub fn yielded(change: &Change, dims: &[i64]) -> Vec<i64> {
    let mut dims: Vec<i64> = dims
        .iter()
        .zip(change.before.iter().zip(&change.after))
        .map(|(dim, (before, after))| dim + before + after)
        .collect();
    for (k, factor) in change.fold.iter().enumerate() {
        if change.unfold {
            dims[1] = (dims[1] + factor - 1) / factor;
            dims[2 + k] *= factor;
        } else {
            dims[1] *= factor;
            dims[2 + k] = (dims[2 + k] + factor - 1) / factor;
        }
    }
    dims
}
