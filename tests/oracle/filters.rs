//! The departures of filter descriptors: more types, no silent truncation of channels, no sizes
//! that wrap.

use std::collections::HashMap;

use super::case::Step;
use super::departures::{ADDED_TYPES, BAD_PARAM, MAX_RANK, NOT_SUPPORTED, OK, Promise, VECT_C};

/// The original's filters have no INT32.
const INT32: i64 = 4;

/// A filter setter's arguments.
pub struct Filter {
    /// The data type's number.
    pub data_type: i64,
    /// The format's number.
    pub format: i64,
    /// The rank as given.
    pub rank: i64,
    /// Logical dims.
    pub dims: Vec<i64>,
}

impl Filter {
    /// The arguments of a setter; `None` for any other call, and without a descriptor.
    pub fn of_setter(step: &Step) -> Option<Self> {
        let (rank, dims) = match step.function.as_str() {
            "SetFilter4dDescriptor" => (4, (3..7).map(|index| step.int(index)).collect::<Option<Vec<_>>>()?),
            "SetFilterNdDescriptor" => (step.int(3)?, step.ints(4)?),
            _ => return None,
        };
        let filter = Self { data_type: step.int(1)?, format: step.int(2)?, rank, dims };
        (step.args[0] != "NULL").then_some(filter)
    }

    /// Channels and bytes of one stored element.
    fn element(&self) -> (i64, i64) {
        match self.data_type {
            1 | 10 => (1, 8),
            0 | 4 => (1, 4),
            2 | 9 => (1, 2),
            5 | 7 => (4, 4),
            8 => (32, 32),
            _ => (1, 1),
        }
    }

    /// The departure that decides over a setter, and its status.
    fn promise(&self, recorded: i64) -> Option<Promise> {
        let (lanes, bytes) = self.element();
        let vectorised = self.format == VECT_C;
        if recorded == OK {
            if vectorised && self.dims[1] % lanes != 0 {
                return Some(Promise { departure: "filter-vector", status: BAD_PARAM });
            }
            let stored =
                |(axis, &dim): (usize, &i64)| if vectorised && axis == 1 { dim / lanes } else { dim };
            let size = self.dims.iter().enumerate().map(stored).try_fold(bytes, i64::checked_mul);
            return match size {
                None => Some(Promise { departure: "filter-size", status: NOT_SUPPORTED }),
                Some(_) => None,
            };
        }
        let added = ADDED_TYPES.contains(&self.data_type) || self.data_type == INT32;
        // What follows the type in the order of checks now decides.
        let status = match () {
            () if !added || !(0..=VECT_C).contains(&self.format) || self.rank < 3 => return None,
            () if self.rank > MAX_RANK => NOT_SUPPORTED,
            // None of the added types has vectors.
            () if vectorised || self.dims.iter().any(|&dim| dim < 1) => return None,
            () => OK,
        };
        Some(Promise { departure: "filter-types", status })
    }
}

/// The filters of a case whose setter is refused contrary to the recording: they stay as they were
/// created.
#[derive(Default)]
pub struct Filters {
    refused: HashMap<String, &'static str>,
}

impl Filters {
    /// What is promised for a step on a filter.
    pub fn promise(&mut self, step: &Step) -> Option<Promise> {
        if let Some(filter) = Filter::of_setter(step) {
            let promise = filter.promise(step.status())?;
            if step.status() == OK {
                self.refused.insert(step.args[0].clone(), promise.departure);
            }
            return Some(promise);
        }
        let getter = step.function.starts_with("GetFilter");
        let departure = self.refused.get(step.args.first()?).filter(|_| getter)?;
        // A new filter is all zeros; only what was recorded otherwise differs.
        let zero = |token: &String| token.trim_matches(['[', ']']).split(',').all(|e| e == "0" || e == "~");
        (!step.observed.iter().all(zero)).then_some(Promise { departure, status: OK })
    }
}
