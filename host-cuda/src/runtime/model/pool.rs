//! A pool of memory: settings alone, for all memory is the machine's.

use std::collections::HashMap;

/// Settings of a pool, by number.
#[derive(Default)]
pub struct Pool {
    pub(crate) settings: HashMap<i32, u64>,
    pub(crate) is_default: bool,
}
