//! Stubs that have not moved into the file of their family yet.

use crate::capi::guard::stub_on;

mod spatial_transformer;
