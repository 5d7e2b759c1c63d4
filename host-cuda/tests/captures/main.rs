//! Every function that takes a stream or a handle, while that stream captures: kept for the launch
//! of the graph, or refused with a status; never done in silence. The functions are those that the
//! headers declare, so that none is forgotten.

mod blas;
mod header;
mod machine;
#[path = "../runtime/setting.rs"]
#[allow(dead_code, reason = "the other program uses all of it")]
mod setting;
mod streams;
